"""Results of jobs: lists, files, archives, and what a job may do to them while they are read."""
import contextlib
import io
import os
import signal
import subprocess
import tarfile
import tempfile
import urllib.request

from harness import BINARY, USER, wait_until
from machine import NOBODY, Machine, job, role
from tokens import SECRET, bearer, token, write_file

ODD = "caf\udce9\nline\udcff é".encode("utf-8", "surrogateescape")


# Headers without which a browser could show a file of a job in the origin of the page.
GUARDS = {"content-type": None, "content-disposition": None, "x-content-type-options": "nosniff",
          "content-security-policy": "sandbox; default-src 'none'"}


class Left:
    """The directory of the results of a job that has ended, which the test fills."""

    def __init__(self, m, name="job", user=USER):
        self.m, self.job = m, f"{user}~{name}"
        self.route = f"/api/v2/jobs/{self.job}/results"

    def make(self):
        found = self.m.rows("SELECT body ->> '$.metadata.uid' FROM object WHERE kind = 0 AND "
                            "body ->> '$.metadata.annotations.jobName' = ?", self.job.split("~")[1])
        self.uid = found[0][0]
        self.path = os.path.join(self.m.where, "results", self.uid)
        os.makedirs(self.path, exist_ok=True)
        self.give()
        return self

    def at(self, *name):
        name = [n.encode("utf-8", "surrogateescape") if isinstance(n, str) else n for n in name]
        return os.path.join(self.path.encode(), *name)

    def write(self, name, content, when=None):
        path = self.at(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(content)
        if when:
            os.utime(path, ns=(when, when))
        return path

    def give(self):
        """What the test has made as root belongs to the server's account."""
        if os.geteuid() == 0 and not self.m.root:
            subprocess.run(["chown", "-hR", f"{NOBODY}:{NOBODY}", os.path.dirname(self.path)], check=True)

    def ask(self, more="", headers=None):
        return self.m.request("GET", self.route + more, headers=headers)

    def get(self, more="", headers=None):
        replies = []

        def answers():  # a place is free again a moment after its answer has ended
            replies.append(self.ask(more, headers))
            return replies[-1].status != 503
        wait_until(answers)
        return replies[-1]

    def rows(self, query=""):
        found, after = [], ""
        while True:
            page = self.get(f"?{query}{after}").json
            found += page["results"]
            if not page["more"]:
                return found
            after = f"&after={page['results'][-1]['href']}"

    def tar(self, query="", headers=None):
        """{path: content, or None of a directory}, and the comments."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.m.port}{self.route}?archive=tar{query}", headers=headers or {})
        with urllib.request.urlopen(request, timeout=600) as reply:
            whole = reply.read()
        files, notes = {}, []
        with tarfile.open(fileobj=io.BytesIO(whole), errors="surrogateescape") as t:
            for member in t:
                files[member.name] = t.extractfile(member).read() if member.isfile() else None
                if member.issym() or member.islnk() or member.isdev():
                    raise RuntimeError(member.name)
        for at in range(0, len(whole), 512):
            if whole[at + 156:at + 157] == b"g" and whole[at + 257:at + 262] == b"ustar":
                notes.append(whole[at + 512:at + 1024].split(b"=", 1)[1].split(b"\n")[0].decode())
        return files, notes


def ended(m, name="job", **more):
    m.start(name, {"main": role("true", **more)})
    m.wait(name)
    return Left(m, name).make()


def fetch(m, *arguments, **more):
    """(exit status, output, messages) of `rest-lit fetch`."""
    done = subprocess.run([BINARY, "fetch", "--server", f"http://127.0.0.1:{m.port}", *arguments],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)
    return done.returncode, done.stdout, done.stderr.decode("utf-8", "replace")


def tree(path):
    """{path: content, or None of a directory} of bytes."""
    found = {}
    path = os.fsencode(path)
    for top, dirs, files in os.walk(path):
        for name in dirs + files:
            one = os.path.join(top, name)
            if os.path.isdir(one):
                found[os.path.relpath(one, path)] = None
            else:
                with open(one, "rb") as f:
                    found[os.path.relpath(one, path)] = f.read()
    return found


def names(rows):
    return [row["path"] for row in rows]


def test_results_are_listed_and_given_as_files(check):
    with Machine() as m:
        m.start("none", {"main": role("true")})
        m.wait("none")
        reply = m.request("GET", f"/api/v2/jobs/{USER}~none/results")
        check.equal("a job without results", (reply.status, reply.json["code"]), (404, "NoResultsError"))
        left = ended(m)
        check.equal("an empty directory", left.get().json["results"], [])
        text = bytes(range(256)) * 40
        left.write("a/b.bin", text, when=1_700_000_000_123_456_789)
        left.write("page.html", b"<script>alert(1)</script>")
        left.write("pic.svg", b"<svg onload='alert(1)'/>")
        left.write(b"odd/" + ODD, b"odd")
        left.write("zero", b"")
        left.give()
        rows = left.rows()
        check.equal("all, in the order of their bytes", names(rows),
                    ["a", "a/b.bin", "odd", "odd/caf\ufffd\nline\ufffd é", "page.html", "pic.svg", "zero"])
        check.equal("a row", rows[1], {"path": "a/b.bin", "href": "a/b.bin", "kind": "file", "size": 10240, "modified": 1_700_000_000_123})
        odd = left.get("/" + rows[3]["href"])
        check.equal("a name of any bytes", (odd.status, odd.body), (200, b"odd"))
        check.equal("pages", names(left.rows("limit=2")), names(rows))
        check.equal("of a directory", names(left.rows("prefix=odd/")), names(rows)[2:4])
        check.equal("of a file", names(left.rows("prefix=a/b.bin")), ["a/b.bin"])
        check.equal("of nothing", left.get("?prefix=b").status, 404)
        for bad in ("prefix=../x", "prefix=/etc", "prefix=a//b", "after=a/..", "archive=zip", "limit=x", "limit=1001", "prefix=%00", "prefix=a%00b", "after=a%00"):
            check.equal(bad, left.get(f"?{bad}").status, 400)
        whole = left.get("/a/b.bin")
        check.equal("a file", (whole.status, whole.body), (200, text))
        check.equal("its head", m.request("HEAD", left.route + "/a/b.bin").status, 200)
        part = left.get("/a/b.bin", {"Range": "bytes=100-199"})
        check.equal("a part", (part.status, part.body, part.headers["content-range"]), (206, text[100:200], "bytes 100-199/10240"))
        check.equal("the end", left.get("/a/b.bin", {"Range": "bytes=-5"}).body, text[-5:])
        beyond = left.get("/a/b.bin", {"Range": "bytes=10240-"})
        check.equal("behind the end", (beyond.status, beyond.headers["content-range"]), (416, "bytes */10240"))
        for what, reply in (("HEAD", m.request("HEAD", left.route + "/a/b.bin", headers={"Range": "bytes=1-2"})),
                            ("If-Range", left.get("/a/b.bin", {"Range": "bytes=1-2", "If-Range": whole.headers["etag"]}))):
            check.equal(f"no part: {what}", (reply.status, reply.headers.get("content-range")), (200, None))
        check.equal("unchanged", left.get("/a/b.bin", {"If-None-Match": whole.headers["etag"]}).status, 304)
        when = 1_700_000_000_123_456_789
        for what, content, at in (("time", text, when + 1), ("size", text + b"x", when), ("file", text, when)):
            if what == "file":  # another one of that name
                os.rename(left.at("a/b.bin"), left.at("a-b.bin"))
            left.write("a/b.bin", content, when=at)
            left.give()
            check.equal(f"another {what}", left.get("/a/b.bin", {"If-None-Match": whole.headers["etag"]}).status, 200)
        os.unlink(left.at("a-b.bin"))
        check.equal("an empty file", (left.get("/zero").status, left.get("/zero").body), (200, b""))
        for path, kind, name in (("/page.html", "octet-stream", "page.html"), ("/pic.svg", "octet-stream", "pic.svg"), ("/a/b.bin", "octet-stream", "b.bin"),
                                 ("/zero", "octet-stream", "zero"), ("/" + rows[3]["href"], "octet-stream", "caf%E9%0Aline%FF%20%C3%A9"),
                                 ("?archive=tar", "x-tar", "job.tar")):
            for more in ({}, {"Range": "bytes=-9"}, {"Accept": "text/html,image/svg+xml"}):
                reply = left.get(path, more)
                check.equal(f"{path} is a download, and not shown", {key: reply.headers.get(key) for key in GUARDS},
                            {**GUARDS, "content-type": f"application/{kind}", "content-disposition": f"attachment; filename*=UTF-8''{name}"})
        for path in ("/a", "/../store.db", "/a/../../store.db", "/%2e%2e/store.db", "//etc/passwd", "/b", "/a/b.bin/c", "/.", "/%00", "/a/b.bin%00", "/a/b.bin%00x"):
            answer = left.get(path)
            check.ok(f"no file: {path}", answer.status in (400, 404), answer)
        files, notes = left.tar()
        check.equal("tar", files, {os.fsdecode(k): v for k, v in tree(left.path).items()})
        check.equal("its end", notes, ["end 0"])
        check.equal("tar of a directory", set(left.tar("&prefix=odd")[0]), {"odd", "odd/" + os.fsdecode(ODD)})
        check.equal("tar of a file, with its directory", set(left.tar("&prefix=a/b.bin")[0]), {"a", "a/b.bin"})


def test_results_are_for_those_who_may_read_the_configuration(check):
    secret = write_file(tempfile.mkdtemp(prefix="rest-lit-local."), "secret", SECRET)
    os.chmod(os.path.dirname(secret), 0o755)
    os.chmod(secret, 0o644)
    alice, bob = bearer(token("alice")), bearer(token("bob"))
    with Machine("--visibility", "owner", who=["--jwt-secret-file", secret, "--token-check", "signature"]) as m:
        m.submit(job("job", {"main": role("true")}), alice)
        wait_until(lambda: m.request("GET", "/api/v2/jobs/alice~job", headers=alice).json["jobStatus"]["state"] == "SUCCEEDED")
        left = Left(m, user="alice").make()
        left.write("x", b"mine")
        left.give()
        for path, more in (("", {}), ("?archive=tar", {}), ("/x", {}), ("/x", {"Range": "bytes=0-1"}), ("/none", {}), ("?prefix=none", {}),
                           ("?archive=tar&prefix=x", {})):
            config = m.request("GET", "/api/v2/jobs/alice~job/config", headers=bob)
            other = left.get(path, {**bob, **more})
            check.ok(f"{path}: nothing of it", b"mine" not in other.body, other)
            check.equal(f"{path}: another user", (other.status, other.json["code"]), (config.status, config.json["code"]))
            check.equal(f"{path}: nobody", left.get(path).status, 401)
        found = left.get("", alice).json
        check.equal("the owner", names(found["results"]), ["x"])
        link = f"token={found['token']}"
        check.equal("a link", left.get(f"/x?{link}").body, b"mine")
        check.ok("... for all", left.get(f"?{link}&archive=tar").status == 200 and names(left.get(f"?{link}").json["results"]) == ["x"])
        m.submit(job("two", {"main": role("true")}), alice)
        wait_until(lambda: m.request("GET", "/api/v2/jobs/alice~two", headers=alice).json["jobStatus"]["state"] == "SUCCEEDED")
        two = Left(m, "two", "alice").make()
        two.write("x", b"other")
        two.give()
        check.equal("... not of another job", two.get(f"/x?{link}").status, 403)
        turned = f"token={'B' if found['token'][0] == 'A' else 'A'}{found['token'][1:]}"
        for bad in ("token=", "token=x", turned, f"{link}x", link[:-4]):
            check.equal(f"... not if it is changed: {bad[:9]}", left.get(f"/x?{bad}").status, 403)
        m.request("DELETE", "/api/v1/user/alice/jobs/two", headers=alice)
        check.equal("a job that is gone", two.get("/x", alice).status, 404)


def test_a_link_expires(check):
    with Machine("--log-link-lifetime", "1") as m:
        left = ended(m)
        left.write("x", b"mine")
        left.give()
        link = f"/x?token={left.get().json['token']}"
        check.ok("after its time", wait_until(lambda: left.get(link).status == 403), left.get(link))


def test_fetch_writes_what_the_job_has_left(check):
    there = tempfile.mkdtemp(prefix="rest-lit-local.")
    to = os.path.join(there, "to")
    with Machine() as m:
        left = ended(m)
        for n in range(30):
            left.write(f"d{n % 3}/e/{n}", os.urandom(n * 1000))
        left.write(ODD, b"odd")
        run = left.write("run.sh", b"#!/bin/sh\n")
        os.chmod(run, 0o755)
        os.mkdir(left.at("empty"))
        left.give()
        code, out, err = fetch(m, "job", "-o", to)
        check.equal("exit status", (code, out), (0, b""))
        check.ok("told", "32 files" in err and ", 0 were there" in err, err)
        check.equal("the same", tree(to), tree(left.path))
        check.ok("programs run", os.access(os.path.join(to, "run.sh"), os.X_OK) and not os.access(os.path.join(to, "d0/e/0"), os.X_OK))
        times = [os.stat(os.path.join(d, "d1/e/4")).st_mtime_ns for d in (to, left.path)]
        check.equal("times", times[0], times[1])
        check.equal("with the user's umask", os.stat(os.path.join(to, "d0")).st_mode & 0o77, 0o77 & ~os.umask(0o022) or 0o55)
        code, _, err = fetch(m, "job", "-o", to)
        check.ok("again: all are there", code == 0 and "0 files" in err and "32 were there" in err, err)
        os.unlink(os.path.join(to, "d1/e/4"))
        with open(os.path.join(to, "d2/e/5"), "ab") as f:
            f.write(b"x")
        with open(os.path.join(to, "d0/.rest-lit-fetch.part"), "wb") as f:
            f.write(b"from a call that was killed")
        code, _, err = fetch(m, "job", "-o", to)
        check.ok("what is missing comes, what is other stays", code == 1 and "1 files" in err and "d2/e/5 is here already" in err, err)
        check.equal("...", (os.path.exists(os.path.join(to, "d1/e/4")), os.path.getsize(os.path.join(to, "d2/e/5"))), (True, 5001))
        os.unlink(os.path.join(to, "d0/.rest-lit-fetch.part"))
        code, _, err = fetch(m, "job", "-o", to, "--force")
        check.equal("--force", (code, tree(to)), (0, tree(left.path)))
        one = os.path.join(there, "one")
        check.equal("one directory", fetch(m, "job:d1", "-o", one)[0], 0)
        check.equal("at its place", tree(one), {k: v for k, v in tree(left.path).items() if k.startswith(b"d1")})
        check.equal("standard output", fetch(m, f"{USER}~job:run.sh", "-o", "-")[:2], (0, b"#!/bin/sh\n"))
        code, out, err = fetch(m, "--list", "job")
        check.ok("--list", code == 0 and b"d0/e/3" in out and b"29000" in out and b"empty/" in out and b"caf\xef\xbf\xbd\\x0aline" in out, out)
        check.ok("--list PATH", b"d1" in fetch(m, "--list", "job:d1")[1] and b"d0" not in fetch(m, "--list", "job:d1")[1])
        for arguments, what in ((("job:none", "-o", to), "no file or directory"), (("none", "-o", to), "there is no job"),
                                (("job:none", "-o", "-"), "no file"), (("job",), "say where to"), (("job", "-o", "-"), "for one file"),
                                (("job:../x", "-o", to), "must be relative"), (("jub", "-o", to), "did you mean"),
                                (("job", "-o", os.path.join(to, "run.sh")), "run.sh")):
            code, out, err = fetch(m, *arguments)
            check.ok(f"refused: {arguments}", code == 2 and what in err, err)
        check.ok("nothing was made for them", not os.path.exists(os.path.join(there, "none")))


def test_fetch_works_while_the_job_runs(check):
    to = os.path.join(tempfile.mkdtemp(prefix="rest-lit-local."), "to")
    with Machine() as m:
        m.start("job", {"main": role("cd $PAI_RESULTS_DIR; mkdir ckpt; ln -s /etc/passwd link; echo one >ckpt/1", "cd $PAI_RESULTS_DIR; "
                                     "until [ -e go ]; do sleep 0.1; done; echo two >ckpt/2; rm go")}, extras={"results": True})
        m.wait("job", "RUNNING")
        left = Left(m).make()
        check.ok("the list", wait_until(lambda: names(left.rows()) == ["ckpt", "ckpt/1"] and left.rows()[1]["size"] == 4), left.rows())
        code, _, err = fetch(m, "job", "-o", to)
        check.ok("the first files", code == 0 and "1 files" in err and "1 left out" in err, err)
        check.equal("...", tree(to), {b"ckpt": None, b"ckpt/1": b"one\n"})
        left.write("go", b"")
        check.equal("it ends", m.wait("job"), "SUCCEEDED")
        code, _, err = fetch(m, "job", "-o", to)
        check.ok("the others", code == 0 and "1 files" in err and "1 were there" in err, err)
        check.equal("...", tree(to), {b"ckpt": None, b"ckpt/1": b"one\n", b"ckpt/2": b"two\n"})
        m.forget("job")
        check.ok("they go with the job", wait_until(lambda: fetch(m, "job", "-o", to)[0] == 2))
        check.ok("... here they stay", len(tree(to)) == 3)


def test_fetch_goes_on_after_an_interruption(check):
    to = os.path.join(tempfile.mkdtemp(prefix="rest-lit-local."), "to")
    with Machine() as m:
        left = ended(m)
        for n in range(100):
            left.write(f"{n}", os.urandom(100_000))
        left.give()
        for n in range(4):
            process = subprocess.Popen([BINARY, "fetch", "--server", f"http://127.0.0.1:{m.port}", "job", "-o", to],
                                       stderr=subprocess.DEVNULL)
            wait_until(lambda: os.path.isdir(to) and len(os.listdir(to)) > 20 * n or process.poll() is not None)
            process.kill()
            process.wait()
            check.ok("only whole files", all(len(v) == 100_000 for k, v in tree(to).items() if k != b".rest-lit-fetch.part"))
        code, _, err = fetch(m, "job", "-o", to)
        check.ok("some were there", code == 0 and ", 0 were there" not in err, err)
        check.equal("the same bytes", tree(to), tree(left.path))


SWAP = """
import itertools, os, shutil, sys
top = sys.argv[1].encode()
os.chdir(top)
outside = sys.argv[2]
for n in itertools.count():
    for make, path in ((os.symlink, b'x/link'), (os.symlink, b'swap'), (None, b'x/swapped')):
        new = path + b'.new'
        try:
            if n % 2:
                os.symlink(outside, new)
            elif path == b'swap':
                os.mkdir(new)
                open(new + b'/inside', 'w').write('inside')
            else:
                open(new, 'w').write('inside')
            if n % 2 == 0 and path == b'swap':
                os.unlink(path)
            elif path == b'swap':
                os.rename(path, b'old%d' % (n % 3))
            os.rename(new, path)
        except OSError:
            for one in (new, path, b'old%d' % (n % 3)):
                if os.path.isdir(one) and not os.path.islink(one):
                    shutil.rmtree(one, ignore_errors=True)
                elif os.path.lexists(one):
                    os.unlink(one)
    with open('grows', 'ab') as f: f.write(b'inside' * 1000)
    with open('shrinks', 'wb') as f: f.write(b'inside' * (1 << (n % 18)))
    if os.path.getsize('grows') > 1 << 24: os.truncate('grows', 0)
"""


def hostile(m, name, secret):
    """A job that has ended, and a program that goes on to change its results."""
    left = ended(m, name)
    left.write("x/swapped", b"inside")
    left.write("a", b"inside")
    os.symlink(secret, left.at("out"))
    os.symlink(os.path.dirname(secret), left.at("outdir"))
    os.symlink("/proc/self/root", left.at("magic"))
    os.mkfifo(left.at("fifo"))
    left.give()
    program = subprocess.Popen(["python3", "-c", SWAP, left.path, os.path.dirname(secret)],
                               **({"user": NOBODY, "group": NOBODY} if os.geteuid() == 0 else {}), stderr=subprocess.DEVNULL)
    return left, program


def test_results_that_change_while_they_are_read_leak_nothing(check):
    """Links out, also as a directory, swapped in a loop; a fifo; files that grow and shrink."""
    outside = tempfile.mkdtemp(prefix="rest-lit-local.")
    os.chmod(outside, 0o755)
    secret = write_file(outside, "inside", "SECRET" * 1000)
    os.chmod(secret, 0o644)
    with Machine() as m:
        left, program = hostile(m, "job", secret)
        try:
            to = os.path.join(outside, "to")
            for n in range(15):
                files, notes = left.tar()
                check.ok("nothing from outside", not any(b"SECRET" in (v or b"") for v in files.values()))
                check.ok("links and fifos are left out", not {"out", "outdir", "magic", "fifo"} & set(files), list(files))
                check.ok("and counted", notes and notes[-1].startswith("end ") and int(notes[-1][4:]) >= 4, notes)
                for path in ("/out", "/outdir/inside", "/magic/etc/passwd", "/fifo", "/swap/inside", "/x/link", "/x/swapped"):
                    reply = left.get(path)
                    check.ok(f"{path}: {reply.status}", b"SECRET" not in reply.body and b"root:" not in reply.body)
                check.ok("the list", not any(row["path"].startswith(("out", "magic", "fifo")) for row in left.rows()))
                code, _, err = fetch(m, "job", "-o", to, "--force")
                check.ok("fetch", code in (0, 1) and "left out by the server" in err, err)
                check.ok("nothing from outside in it", not any(b"SECRET" in (v or b"") for v in tree(to).values()))
            check.ok("they were changed all the time", program.poll() is None)
        finally:
            program.kill()
            program.wait()


def test_files_that_grow_and_shrink_are_named(check):
    there = tempfile.mkdtemp(prefix="rest-lit-local.")
    with Machine() as m:
        left = ended(m)
        size = 64 << 20
        path = left.write("big", b"x" * size)
        left.give()
        for change, note, said in ((lambda: os.truncate(path, size + 1), "grew", "grew while"),
                                   (lambda: os.utime(path), "changed", "was written while"),
                                   (lambda: os.truncate(path, 1 << 20), "shrank", "was cut by the job")):
            os.truncate(path, size)
            to = os.path.join(there, note)
            process = subprocess.Popen([BINARY, "fetch", "--server", f"http://127.0.0.1:{m.port}", "job", "-o", to],
                                       stderr=subprocess.PIPE)
            part = os.path.join(to, ".rest-lit-fetch.part")
            wait_until(lambda: os.path.exists(part) and os.path.getsize(part) > 0, 60)
            os.kill(process.pid, signal.SIGSTOP)  # the pipe and the socket are full soon
            change()
            os.kill(process.pid, signal.SIGCONT)
            err = process.stderr.read().decode()
            check.equal(f"{note}: exit status", process.wait(), 1)
            check.ok(f"{note}: named", f"big {said}" in err, err)
            check.equal(f"{note}: size", os.path.getsize(os.path.join(to, "big")), size)
            with open(os.path.join(to, "big"), "rb") as f:
                f.seek(-4096, os.SEEK_END)
                check.equal(f"{note}: its end", f.read(), (b"\0" if note == "shrank" else b"x") * 4096)


def test_many_files_and_deep_directories_are_read(check):
    with Machine() as m, contextlib.ExitStack() as stack:
        left = ended(m)
        stack.callback(subprocess.run, ["rm", "-rf", left.path], check=True)  # shutil.rmtree recurses
        count = 100_000
        for n in range(count):
            os.close(os.open(left.at(f"many-{n}"), os.O_CREAT | os.O_WRONLY, 0o644))
        deep = os.open(left.path, os.O_DIRECTORY)
        for n in range(1000):
            os.mkdir("d", dir_fd=deep)
            below = os.open("d", os.O_DIRECTORY, dir_fd=deep)
            os.close(deep)
            deep = below
        os.close(os.open("bottom", os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=deep))
        os.close(deep)
        left.give()
        first = left.get().json
        check.equal("a page", (len(first["results"]), first["more"]), (1000, True))
        check.equal("... is sorted", names(first["results"]), sorted(names(first["results"])))
        last = left.get("?after=many-99998").json
        check.equal("the last one", (names(last["results"]), last["more"]), (["many-99999"], False))
        files, notes = left.tar()
        check.equal("all of them", sum(name.startswith("many-") for name in files), count)
        check.equal("deeper directories are left out", max(name.count("/") for name in files) + 1, 64)
        check.equal("... and counted", notes, ["end 1"])


def test_downloads_have_a_bound(check):
    """Two of a user at a time, and eight of all."""
    secret = write_file(tempfile.mkdtemp(prefix="rest-lit-local."), "secret", SECRET)
    os.chmod(os.path.dirname(secret), 0o755)
    os.chmod(secret, 0o644)
    with Machine("--visibility", "all", who=["--jwt-secret-file", secret, "--token-check", "signature"]) as m:
        m.submit(job("job", {"main": role("true")}), bearer(token("alice")))
        wait_until(lambda: m.request("GET", "/api/v2/jobs/alice~job", headers=bearer(token("alice"))).json["jobStatus"]["state"] == "SUCCEEDED")
        left = Left(m, user="alice").make()
        with open(left.at("big"), "wb") as f:
            f.truncate(1 << 30)
        left.write("small", b"x")
        left.give()
        with contextlib.ExitStack() as stack:
            def begin(user):
                """A download that the client does not read; its status."""
                c = stack.enter_context(m.connect())
                c.send(f"GET {left.route}/big HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token(user)}\r\n\r\n".encode())
                return int(c.read(60, lambda got: b"\r\n" in got)[0].split()[1])

            check.equal("two of alice", [begin("alice") for _ in range(2)], [200, 200])
            third = left.ask("/small", bearer(token("alice")))
            check.equal("not a third", (third.status, third.headers["retry-after"]), (503, "2"))
            check.equal("but a list", left.get("", bearer(token("alice"))).status, 200)
            check.equal("six of others", [begin(user) for user in ("b", "b", "c", "c", "d", "d")], [200] * 6)
            check.equal("not a ninth", left.ask("/small", bearer(token("e"))).status, 503)
            check.equal("the loops are free", m.request("GET", "/healthz").status, 200)
        check.ok("they end with their clients", wait_until(lambda: left.get("/small", bearer(token("e"))).status == 200))
        check.ok("all of them", wait_until(lambda: left.get("/small", bearer(token("alice"))).status == 200))
        check.ok("no descriptor is left", wait_until(lambda: not any(
            left.uid in target(m, one) for one in os.listdir(f"/proc/{m.process.pid}/fd"))))


def target(m, fd):
    try:
        return os.readlink(f"/proc/{m.process.pid}/fd/{fd}")
    except OSError:
        return ""
