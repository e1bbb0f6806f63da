"""Code of jobs on the command line: submit --code, show, fetch --code, resubmit."""
import contextlib
import gzip
import json
import os
import re
import select
import shutil
import socket
import subprocess
import tempfile
import threading
import time

from archives import archive
from cli import cli, keeper
from clients import TokenServer
from fakeserver import FakeServer
from harness import job_v1, job_v2
from tokens import token, write_file

FILES = {"train.py": "print(1)\n", "lib/deep/x": "x" * 5000, "run.sh": "#!/bin/sh\n", ".hidden": ""}


class Folder:
    """A directory for a test: .path, with the project in p."""

    def __init__(self, files=None):
        self.path = tempfile.mkdtemp(prefix="rest-lit-code.")
        self.project = self.at("p")
        for name, text in (FILES if files is None else files).items():
            self.write(f"p/{name}", text)
        os.makedirs(self.project, exist_ok=True)
        if files is None:
            os.chmod(self.at("p/run.sh"), 0o755)
            os.symlink("../run.sh", self.at("p/lib/link"))

    def at(self, name):
        return os.path.join(self.path, name)

    def write(self, name, text):
        os.makedirs(os.path.dirname(self.at(name)), exist_ok=True)
        with open(self.at(name), "w", encoding="utf-8") as f:
            f.write(text)

    def git(self, *words):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=self.project, check=True,
                       stdout=subprocess.DEVNULL)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.path)


def tree(path):
    """{relative path: content or target, and whether it runs}."""
    found = {}
    for top, dirs, files in os.walk(path):
        for name in dirs + files:
            one = os.path.join(top, name)
            where = os.path.relpath(one, path)
            if where.split("/")[0] == ".git":
                continue
            if os.path.islink(one):
                found[where] = os.readlink(one)
            elif os.path.isdir(one):
                found[where] = "directory"
            else:
                with open(one, "rb") as f:
                    found[where] = (f.read(), bool(os.stat(one).st_mode & 0o100))
    return found


def config_of(server, job):
    return json.loads(server.request("GET", f"/api/v2/jobs/alice~{job}/config").body)


def test_cli_sends_the_code_once_and_gets_it_back(check):
    with keeper() as (s, at), Folder() as f:
        f.write("job.json", job_v2("one", extras={"code": {"sha256": "0" * 64, "path": "/code"}}))
        f.git("init", "-q")
        f.git("add", "-A")
        f.git("commit", "-qm", "1")
        f.write("p/.env", "PASSWORD=x")
        code, out, err = cli("submit", *at, "--code", f.project, f.at("job.json"))
        check.equal("submitted", (code, out), (0, "alice~one\n"))
        kept = config_of(s, "one")["extras"]["code"]
        check.ok("told what is sent", f"rest-lit: sending {f.project}, 1 KiB, as the code of the job\n" in err, err)
        check.ok("... and what is not", f'--code {f.project}: warning: ".env" may be a secret' in err and
                 "PASSWORD" not in err, err)
        check.equal("the path stays", (kept["path"], kept["changed"]), ("/code", False))
        sha = kept["sha256"]
        f.write("p/notes", "new")
        code, out, err = cli("submit", *at, "--code", f.project, "--name", "two", f.at("job.json"))
        check.ok("changes", code == 0 and "rest-lit: sending" in err and config_of(s, "two")["extras"]["code"]["changed"] and
                 config_of(s, "two")["extras"]["code"]["sha256"] != sha, err)
        os.unlink(f.at("p/notes"))
        code, out, err = cli("submit", *at, "--code", f.project, "--name", "three", f.at("job.json"))
        check.ok("sent once", code == 0 and "rest-lit: sending" not in err, err)
        check.equal("the same", config_of(s, "three")["extras"]["code"], kept)
        check.ok("show", f"  code:     commit {kept['commit'][:12]} (sha {sha[:12]})\n" in cli("show", *at, "one")[1])
        check.ok("... with changes", ", with changes (sha " in cli("show", *at, "two")[1])
        check.equal("fetched", cli("fetch", *at, "--code", "one", "-o", f.at("back")), (0, "", ""))
        os.unlink(f.at("p/.env"))
        check.equal("the same files", tree(f.at("back")), tree(f.project))
        mode = os.stat(f.at("back/train.py")).st_mode & 0o777
        check.equal("with the user's umask", mode, os.stat(f.at("p/train.py")).st_mode & 0o777)
        code, out, err = cli("fetch", *at, "--code", "one", "-o", f.at("back"))
        check.ok("not over other files", code == 2 and "back is not empty: name a new directory" in err, (code, err))
        os.mkdir(f.at("empty"))
        check.equal("into an empty directory", cli("fetch", *at, "--code", "two", "-o", f.at("empty"))[0], 0)
        check.ok("...", os.path.exists(f.at("empty/notes")))
        check.equal("again", cli("resubmit", *at, "one"), (0, "alice~one-2\n", ""))
        check.equal("the same code", config_of(s, "one-2")["extras"]["code"], kept)


def results_tar(names, end="end 0", kind=b"0"):
    """An archive of results, as the server writes it, with these names."""
    def head(one, name, size, time):
        data = (name.encode()[:100].ljust(100, b"\0") + b"0000644\0" + 2 * b"0000000\0" + b"%011o\0%011o\0" % (size, time) + b" " * 8 +
                one + bytes(100) + b"ustar\x0000").ljust(512, b"\0")
        return data[:148] + b"%06o\0 " % sum(data) + data[156:]

    def record(key, value):
        rest = f" {key}={value}\n"
        return next(f"{n}{rest}" for n in range(999) if len(f"{n}{rest}") == n).encode()

    def block(data):
        return data + b"\0" * (-len(data) % 512)
    out = b""
    for name in names:
        records = record("path", name) + record("size", 1) + record("mtime", "5.000000000")
        out += head(b"x", "rest-lit", len(records), 0) + block(records) + head(kind, name, 1, 5) + block(b"x")
    note = record("comment", end)
    return out + b"\0" * 1024 + head(b"g", "rest-lit", len(note), 0) + block(note)


def test_cli_fetch_takes_nothing_from_a_server_that_lies(check):
    """The whole way, over HTTP; tests/unit/base/tar has all kinds of lies."""
    path = "/api/v2/jobs/alice~job/results?prefix=&archive=tar"
    with contextlib.closing(FakeServer()) as fake, Folder({}) as f:
        def fetch(answer):
            fake.files[path] = answer
            return cli("fetch", "--server", fake.url, "alice~job", "-o", f.at("to"))
        for what, answer in (("above", results_tar(["../x"])), ("absolute", results_tar([f.at("x")])), ("a link", results_tar(["l"], kind=b"2")),
                             ("without a directory", results_tar(["a/b"])), ("twice", results_tar(["a", "a"])), ("a page", b"<html>" * 1000),
                             ("nothing", b""), ("cut off", results_tar(["b"])[:-600]), ("without its last note", results_tar(["b"])[:-1024]), ("more", results_tar(["b"]) + b"x")):
            code, out, err = fetch(answer)
            check.ok(what, code == 3 and out == "" and "the results of alice~job" in err, (code, err))
            check.equal(f"{what}: nothing outside", sorted(set(os.listdir(f.path)) - {"to"}), ["p"])
            check.ok(f"{what}: nothing unfinished", ".rest-lit-fetch.part" not in tree(f.at("to")))
        code, out, err = fetch(results_tar(["a", "b", "c"]))
        check.ok("an honest answer", code == 0 and "1 files (1 KiB) written, 2 were there" in err, (code, err))
        check.ok("... with what was left out", "; 3 left out" in fetch(results_tar(["c"], "end 3"))[2])
        check.ok("... too many", fetch(results_tar(["c"], "end -1"))[0] == 1)


def test_cli_says_why_code_cannot_be_sent(check):
    with keeper() as (s, at), Folder() as f:
        f.write("job.json", job_v2("one"))
        f.write("old.json", job_v1("old"))
        before = s.request("GET", "/api/v2/jobs").json
        code, out, err = cli("submit", *at, "--code", f.project, f.at("old.json"))
        check.ok("v1", code == 2 and f"--code needs a v2 job, and {f.at('old.json')} is in dialect v1; convert it first: rest-lit convert {f.at('old.json')}" in err, (code, err))
        os.mkfifo(f.at("p/fifo"))
        os.symlink("/etc/passwd", f.at("p/out"))
        code, out, err = cli("submit", *at, "--code", f.project, f.at("job.json"))
        check.ok("all mistakes", code == 2 and 'entry "fifo": it is a device, socket or FIFO' in err and
                 'entry "out": the link to "/etc/passwd" leaves the directory' in err, (code, err))
        code, out, err = cli("submit", *at, "--code", f.at("none"), f.at("job.json"))
        check.ok("no directory", code == 2 and f"--code {f.at('none')}: No such file or directory" in err, err)
        f.write("p/.rest-litignore", "out\nfifo\n")
        f.write("job.json", job_v2("one", extras={"code": {"sha256": "0" * 64, "commit": "abc"}}))
        code, out, err = cli("submit", *at, "--code", f.project, f.at("job.json"))
        check.ok("no commit", code == 2 and "has no commit: remove extras.code.commit from" in err, err)
        check.equal("no job", s.request("GET", "/api/v2/jobs").json, before)
        f.write("job.json", job_v2("one"))
        code, out, err = cli("submit", *at, "--code", f.project, "--dry-run", "-o", "job", f.at("job.json"))
        sha = json.loads(out)["extras"]["code"]["sha256"]
        check.ok("not sent by --dry-run", code == 0 and "code:" not in err and
                 s.request("GET", f"/api/v2/code/{sha}").status == 404, err)
        code, out, err = cli("submit", *at, "--code", f.project, "--dry-run", f.at("job.json"))
        check.ok("... whose objects name it", code == 0 and sha in out and "code:" not in err, (code, err))
        check.equal("no code", cli("submit", *at, f.at("job.json"))[0], 0)
        code, out, err = cli("fetch", *at, "--code", "one", "-o", f.at("back"))
        check.ok("none to fetch", code == 2 and "alice~one has no code: it was submitted without --code" in err and
                 not os.path.exists(f.at("back")), (code, err))
        check.ok("none to show", "code:" not in cli("show", *at, "one")[1])


@contextlib.contextmanager
def slow_link(port, rate):
    """The port of a relay to this one, which takes so many bytes per second."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    listener.bind(("127.0.0.1", 0))
    listener.listen()

    def relay(client):
        with client, socket.create_connection(("127.0.0.1", port)) as server:
            while True:
                ready, _, _ = select.select([client, server], [], [])
                data = server.recv(65536) if server in ready else client.recv(rate // 10)
                if not data:
                    return
                (client if server in ready else server).sendall(data)
                if server not in ready and len(data) == rate // 10:
                    time.sleep(0.1)

    def accept():
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=relay, args=(listener.accept()[0],), daemon=True).start()
    threading.Thread(target=accept, daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.close()


def test_cli_says_that_the_code_comes_too_slowly(check):
    """It says how fast it was, and what is needed, and does not try again."""
    with TokenServer("--read-timeout", "4") as s, Folder({"data": os.urandom(600_000).hex()}) as f:
        f.write("job.json", job_v2("one"))
        who = ("--token-file", write_file(f.path, "token", token("alice")))
        with slow_link(s.port, 8000) as port:
            code, out, err = cli("submit", *who, "--server", f"http://127.0.0.1:{port}", "--code", f.project, f.at("job.json"))
            found = re.search(r"because the data came too slowly: (\d+) of \d+ KiB in \d+ s, (\d+) KiB/s; it needs 26 KiB/s", err)
            check.ok("said", code == 3 and found and 0 < int(found.group(1)) < 300 and int(found.group(2)) < 26, (code, err))
            check.ok("once", "trying again" not in err, err)
        code, out, err = cli("submit", *who, "--server", f"http://127.0.0.1:{s.port}", "--code", f.project, f.at("job.json"))
        check.equal("by another way", code, 0)


def test_cli_resubmits_the_code_of_another_user(check):
    with TokenServer("--visibility", "owner") as s, Folder() as f:
        at = ("--server", f"http://127.0.0.1:{s.port}")
        alice, bob, root = (("--token-file", write_file(f.path, user, token(user))) for user in ("alice", "bob", "root"))
        f.write("job.json", job_v2("one"))
        check.equal("submitted", cli("submit", *at, *alice, "--code", f.project, f.at("job.json"))[0], 0)
        check.ok("shown to an admin", "  code:     (sha " in cli("show", *at, *root, "alice~one")[1])
        code, out, err = cli("show", *at, *bob, "alice~one")
        check.ok("not to others", code == 0 and "alice~one" in out and "code:" not in out and not err, (out, err))
        code, out, err = cli("fetch", *at, *bob, "--code", "alice~one", "-o", f.at("his"))
        check.ok("not given to others", code == 2 and "(403)" in err and not os.path.exists(f.at("his")), (code, err))
        code, out, err = cli("resubmit", *at, *root, "alice~one")
        check.equal("by another user", (code, out, err), (0, "root~one-2\n", ""))
        check.equal("whose own it is now", cli("fetch", *at, *root, "--code", "one-2", "-o", f.at("back"))[0], 0)
        check.equal("the same", tree(f.at("back")), tree(f.project))


class CodeServer(FakeServer):
    """A fake server whose code the test chooses."""

    def __init__(self, sha, body, limits=None):
        super().__init__()
        self.config = {"protocolVersion": 2, "name": "job", "extras": {"code": {"sha256": sha}}}
        self.files = {"/api/v2/jobs/alice~job/code": body, "/api/v2/info": json.dumps({"code": limits}).encode()}


def test_cli_unpacks_only_good_code(check):
    sha, body = archive({"a": b"1" * 100000, "b": b"2"})
    for name, sent, want in (
            ("another archive", archive({"a": b"1"})[1], "it has another hash than the configuration"),
            ("cut", body[:-5], "the archive ends too early"),
            ("above", archive({"../a": b"1"})[1], 'entry "../a": a path is relative'),
            ("a bomb", gzip.compress(bytes(512)), "the archive ends too early"),
            ("nothing", b"", "the archive ends too early")):
        with CodeServer(sha, sent) as fake, Folder({}) as f:
            code, out, err = cli("fetch", "--server", fake.url, "--code", "job", "-o", f.at("back"))
            check.ok(name, code == 3 and f"the code of alice~job: {want}" in err, (code, err))
            check.equal(f"{name}: nothing is left", sorted(os.listdir(f.path)), ["p"])
            os.mkdir(f.at("mine"))
            cli("fetch", "--server", fake.url, "--code", "job", "-o", f.at("mine"))
            check.equal(f"{name}: the user's directory is", os.listdir(f.at("mine")), [])


def test_cli_knows_the_limits_of_the_server(check):
    with Folder({"big/one": "1" * 3000000, "two": "2"}) as f:
        f.write("job.json", job_v2("one"))
        for limits, status, want in (
                ({"maxBytes": 1 << 20, "maxUnpackedBytes": 1 << 20, "maxEntries": 10}, 2,
                 f'--code {f.project}: the server takes at most 1 MiB; the largest files are "big/one" (2.9 MiB), "two"'),
                (None, 3, "the answer has no limits of code")):
            with CodeServer("0" * 64, b"", limits) as fake:
                code, out, err = cli("submit", "--server", fake.url, "--code", f.project, f.at("job.json"))
                check.ok(want, code == status and want in err and fake.count("P.*", ".*") == 0, (code, err))
