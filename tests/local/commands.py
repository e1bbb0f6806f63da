"""rest-lit run -- COMMAND: what a command sees, what it prints, and how it ends."""
import base64
import glob
import json
import os
import pty
import random
import re
import signal
import subprocess
import tempfile
import time

from cli import Cli, cli
from foreground import Place
from harness import BINARY, wait_until
from machine import Machine

REFUSED = 125
PYTHON = "/usr/bin/python3"


class Here(Place):
    """The directory of a command, in a home directory of its own."""

    def __init__(self, gpus=0):
        super().__init__(gpus)
        self.home = os.path.join(self.root, "home")
        self.cwd = os.path.join(self.home, "work")
        os.makedirs(self.cwd)
        self.state = os.path.join(self.home, ".local", "state")
        environment = {k: v for k, v in os.environ.items() if k != "XDG_STATE_HOME"}
        self.more = {"cwd": self.cwd, "environment": {**environment, "HOME": self.home, "XDG_STATE_HOME": "", "USER": "alice"}}

    def begin(self, *words, options=(), **more):
        merged = {**self.more, **more}
        merged["environment"] = {**self.more["environment"], **more.get("environment", {})}
        return Cli("run", *self.arguments, *options, "--", *words, **merged)

    def command(self, *words, options=(), **more):
        """(code, stdout, stderr)"""
        with self.begin(*words, options=options, **more) as c:
            code = c.end()
            return code, c.stdout, c.stderr

    def shell(self, script, **more):
        return self.command("sh", "-c", script, **more)


def boxed(err):
    """There is a sandbox."""
    return "without a sandbox" not in err


def test_command_prints_its_own_lines_only(check):
    """Its standard output and error are its own, byte for byte; nothing else is printed."""
    with Here() as p:
        code, out, err = p.shell("echo out; echo oops >&2; printf 'a\\r\\n\\033[1mb\\n'; printf 'no end'", text="not for it")
        err = re.sub(r"^warning: tasks run without a sandbox.*\n", "", err)
        check.equal("streams", (code, out, err), (0, "out\na\r\n\x1b[1mb\nno end", "oops\n"))
        code, out, err = p.shell("head -c 17000000 /dev/zero | tr '\\0' x")
        check.equal("a long line", (code, len(out), set(out)), (0, 17000000, {"x"}))
        code, out, err = p.shell("head -c 3000000 /dev/zero | tr '\\0' [ >&2; printf ]; printf '[a' >&2")
        check.ok("an end is only given to standard error", code == 0 and out == "]" and err.endswith("[" * 3000000 + "[a\n"), (code, out, err[-80:]))
        code, out, err = p.shell("seq 2400000; seq 100 >&2")
        check.ok("more than the log of a job keeps", code == 0 and len(out) > 16 << 20 and
                 out == subprocess.run(["seq", "2400000"], capture_output=True, text=True, check=True).stdout, (code, len(out)))
        check.equal("beside it", err.splitlines()[-100:], [str(i) for i in range(1, 101)])
        check.equal("nothing is left", p.left(), [])


def test_command_output_waits_for_its_reader(check):
    """A reader that pauses long after the end of the command gets all of the output."""
    size, soon, pause_s = 120000000, 60000000, 17  # this is longer than the output of a job is waited for
    with Here() as p, subprocess.Popen(
            [BINARY, "run", *p.arguments, "--", "sh", "-c", f"head -c {size} /dev/zero | tr '\\0' x; seq 100 >&2; touch done"], cwd=p.cwd,
            env={**os.environ, **p.more["environment"]}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as c:
        check.ok("the command does not wait", wait_until(lambda: os.path.exists(os.path.join(p.cwd, "done"))))
        read, piece = 0, b"x"
        while read < soon and piece:  # in small steps: meanwhile the end of the job is seen
            piece = os.read(c.stdout.fileno(), 65536)
            read += len(piece)
            time.sleep(0.005)
        time.sleep(pause_s)
        out, err = c.communicate()
        check.equal("all", (c.returncode, read + len(out)), (0, size))
        check.equal("beside it", err.decode().splitlines()[-100:], [str(i) for i in range(1, 101)])
        check.equal("nothing is left", p.left(), [])


def test_command_output_is_followed_without_limit_of_time(check):
    """A stream of this process has no lifetime, unlike those of servers."""
    with Here() as p:
        brief = {"REST_LIT_TEST_LIMITS": "stream-lifetime=1 log-link-lifetime=1"}
        script = "echo begin; echo begin >&2; sleep 4; echo end; echo end >&2"
        code, out, err = p.shell(script, environment=brief)
        check.equal("all", (code, out, err.splitlines()[-2:]), (0, "begin\nend\n", ["begin", "end"]))


def test_command_gets_standard_input_that_is_no_terminal(check):
    """A pipe or file goes to the command byte for byte, and only to it; a terminal does not."""
    with Here() as p:
        text = "".join(f"line {i}\n" for i in range(200000)) + "no end"
        code, out, err = p.command("cat", text=text)
        check.ok("a pipe", code == 0 and out == text, (code, len(out), err))
        check.equal("the rest after a line", p.shell("read x; echo $x; cat", text="a\nb\n")[:2], (0, "a\nb\n"))
        p.write("data", "from a file\n")
        done = subprocess.run([BINARY, "run", "--", "cat"], stdin=open(os.path.join(p.cwd, "data"), encoding="utf-8"), cwd=p.cwd,
                              env={**os.environ, **p.more["environment"]}, capture_output=True, text=True, check=False)
        check.equal("a file", (done.returncode, done.stdout), (0, "from a file\n"))
        done = subprocess.run(f"'{BINARY}' run -- cat <&-", shell=True, cwd=p.cwd, env={**os.environ, **p.more["environment"]},
                              capture_output=True, text=True, check=False)
        check.equal("none", (done.returncode, done.stdout), (0, ""))
        main, side = pty.openpty()
        done = subprocess.run([BINARY, "run", "--", "cat"], stdin=side, cwd=p.cwd, env={**os.environ, **p.more["environment"]},
                              capture_output=True, text=True, check=False)
        check.equal("a terminal", (done.returncode, done.stdout), (0, ""))
        os.close(main)
        os.close(side)
        check.equal("nothing is left", p.left(), [])


def test_command_shows_a_line_while_it_grows(check):
    """A progress bar is shown as it moves, on both streams."""
    with Here() as p:
        with p.begin("sh", "-c", "printf '\\r1/2'; printf '\\r[#-]' >&2; while [ ! -e go ]; do sleep 0.1; done; printf '\\r2/2'") as c:
            check.ok("both", c.says("\r[#-]") and wait_until(lambda: c.stdout == "\r1/2"), (c.stdout, c.stderr))
            p.write("go", "")
            check.equal("its end", (c.end(), c.stdout), (0, "\r1/2\r2/2"))


def test_command_exit_code_is_its_own(check):
    """0, its code, 128 + a signal, 127 without a program; 125 if rest-lit refuses; and it runs once."""
    with Here(gpus=1) as p:
        for script, wanted in {"true": 0, "exit 3": 3, "exit 1": 1, "exit 2": 2, "exit 255": 255, "kill -9 $$": 137, "kill -15 $$": 143,
                               "kill -11 $$": 139}.items():
            check.equal(script, p.shell(f"echo once >>ran; {script}")[0], wanted)
            with open(os.path.join(p.cwd, "ran"), encoding="utf-8") as f:
                check.equal(f"{script}: once", f.read(), "once\n")
            os.unlink(os.path.join(p.cwd, "ran"))
        code, out, err = p.command("no-such-program")
        check.ok("no program", code == 127 and not out and "no-such-program: not found" in err, (code, out, err))
        check.equal("not executable", p.command("./")[0], 126)
        p.write("job.yaml", "name: x\n")
        for name, arguments, says in (
                ("an unknown option", ["--nonsense", "--", "true"], "--nonsense"), ("a file beside it", ["job.yaml", "--", "true"], "one file"),
                ("no command", ["--"], "no command"), ("an option as command", ["--", "--gpus"], "options stand before --"),
                ("no mount", ["--mount", "/nonexistent", "--", "true"], "/nonexistent"),
                ("too many GPUs", ["--gpus", "2", "--", "true"], "asks for 2 GPUs for a task; this machine has 1"),
                ("image and host", ["--image", "debian", "--images", "host", "--", "true"], "--images host"),
                ("no image", ["--images", "oci", "--", "true"], "--image IMAGE")):
            code, out, err = cli("run", *p.arguments, *arguments, **p.more)
            check.ok(name, code == REFUSED and not out and says in err, (code, out, err))
        for option, member in {"--gpus": "how many", "--cpus": "how many", "-m": "how many", "--image": "dockerImage"}.items():
            code, out, err = cli("run", option, "1G" if option == "-m" else "1", "job.yaml", **p.more)
            check.ok(f"{option} with a file", code == 2 and "with a file, the file says " in err and member in err, (code, err))
        check.equal("nothing is left", p.left(), [])


def test_command_gets_the_environment_of_its_caller(check):
    """Variables, PATH and HOME are the caller's; those of jobs are the job's.  They are in no file but
    the spec of the task."""
    with Here() as p:
        mine = {"MINE": "my value\nof two lines", "PAI_USER_NAME": "mallory", "FC_POD_UID": "mallory", "TMPDIR": "/nonexistent", "SECRET": "S3CRET-VALUE",
                "PATH": os.environ["PATH"] + ":/my/path", "CUDA_VISIBLE_DEVICES": "7"}
        code, out, err = p.command(PYTHON, "-c", "import os; print(dict(os.environ))", environment=mine)
        seen = eval(out) if code == 0 else {}  # pylint: disable=eval-used
        check.equal("the caller's", [seen.get(k) for k in ("MINE", "SECRET", "HOME", "USER")], [mine["MINE"], mine["SECRET"], p.home, "alice"])
        check.ok("PATH", seen.get("PATH") == mine["PATH"], (code, out, err))
        check.equal("the job's", [seen.get(k) for k in ("PAI_USER_NAME", "PYTHONUNBUFFERED", "CUDA_VISIBLE_DEVICES", "TMPDIR")], ["alice", "1", "", None])
        check.ok("the task's uid", "mallory" not in seen.get("FC_POD_UID", "mallory"), seen)
        with p.begin("sh", "-c", "echo ready; exec sleep 1000", environment=mine) as c:
            check.ok("runs", c.says("ready"), (c.stdout, c.stderr))
            having = {}
            for path in glob.glob(f"{p.state}/**", recursive=True):
                if os.path.isfile(path):
                    with open(path, "rb") as f:
                        having[path] = b"S3CRET" in f.read()
            secret = [path for path, has in having.items() if has]
            check.equal("the secret is only in the spec", ([os.path.basename(path) for path in secret], [os.stat(path).st_mode & 0o777 for path in secret]),
                        (["spec"], [0o600]))
            c.process.send_signal(signal.SIGTERM)
            check.equal("SIGTERM", c.end(), 143)


def test_command_writes_only_in_its_directory(check):
    """The home is read-only, without the files of rest-lit; other homes are hidden; the directory of the
    command is writable."""
    with Here() as p:
        os.makedirs(os.path.join(p.home, "env/bin"))
        p.write("../env/bin/tool", "#!/bin/sh\necho a tool\n")
        os.chmod(os.path.join(p.home, "env/bin/tool"), 0o755)
        path = {"environment": {"PATH": f"{p.home}/env/bin:{os.environ['PATH']}"}}
        code, out, err = p.command("tool", **path)
        check.equal("a program of the home", (code, out), (0, "a tool\n"))
        if not boxed(err):
            return
        script = f"pwd; echo new >new; echo x >~/x; find ~/.local /root {p.root} -name store.db -o -name .bashrc; ls -A /home; touch /tmp/mine && echo temporary"
        code, out, err = p.shell(script)
        check.equal("seen", (code, out), (0, f"{p.cwd}\ntemporary\n"))
        check.ok("the home is read-only", "Read-only file system" in err and not os.path.exists(os.path.join(p.home, "x")), err)
        check.ok("the directory is not", os.path.exists(os.path.join(p.cwd, "new")))
        os.symlink(p.home, os.path.join(p.root, "link"))
        code, out, err = p.shell("echo $HOME; ls ~; ls $(readlink -f ~)", environment={"HOME": os.path.join(p.root, "link")})
        check.equal("a home that is a link", (code, out), (0, f"{p.root}/link\nenv\nwork\nenv\nwork\n"))
        os.mkdir(os.path.join(p.root, "data"))
        code, out, err = p.shell("echo x >/data/x", options=["--mount", f"{p.root}/data:/data:rw"])
        check.ok("--mount", code == 0 and os.path.exists(os.path.join(p.root, "data", "x")), (code, out, err))


def test_command_is_refused_in_the_home_directory(check):
    """In the home, above it and in / a command is refused, with the way out; --mount is one."""
    with Here() as p:
        for cwd, says in ((p.home, "is your home"), (p.root, "contains your home"), ("/", "contains your home")):
            code, out, err = p.command("touch", "x", cwd=cwd)
            check.ok(cwd, code == REFUSED and f"{cwd} {says} directory" in err and "mkdir job && cd job" in err and "--mount .:rw" in err, (code, out, err))
        check.equal("nothing was written", os.path.exists(os.path.join(p.home, "x")), False)
        code, out, err = p.command("touch", "x", cwd=p.home, options=["--mount", ".:rw"])
        check.ok("--mount", code == 0 and os.path.exists(os.path.join(p.home, "x")), (code, out, err))


def test_command_stops_when_interrupted(check):
    """Ctrl-C stops it with its grace, the second kills it; the code is 128 + the signal."""
    with Here() as p:
        with p.begin("sh", "-c", "trap 'echo got it; exit 0' TERM; echo ready; while :; do sleep 0.1; done") as c:
            check.ok("runs", c.says("ready"), (c.stdout, c.stderr))
            c.process.send_signal(signal.SIGINT)
            check.equal("Ctrl-C", (c.end(), c.stdout), (130, "ready\ngot it\n"))
            check.ok("says so", "Ctrl-C: stopping sh; Ctrl-C again kills" in c.stderr, c.stderr)
        with p.begin("sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done") as c:
            check.ok("runs", c.says("ready"), (c.stdout, c.stderr))
            c.process.send_signal(signal.SIGINT)
            check.ok("once", c.says("again kills"), c.stderr)
            c.process.send_signal(signal.SIGINT)
            check.equal("twice", c.end(), 130)
        check.equal("nothing is left", p.left(), [])


def test_commands_at_once_get_different_gpus(check):
    """Each gets a GPU of its own; a third one waits, and says why."""
    with Here(gpus=2) as p:
        script = f"ls {p.root}/gpu? 2>/dev/null; echo ready; while [ ! -e go ]; do sleep 0.1; done"
        one = ["--gpus", "1"]
        with p.begin("sh", "-c", script, options=one) as a, p.begin("sh", "-c", script, options=one) as b:
            check.ok("both run", a.says("ready") and b.says("ready"), (a.stdout, a.stderr, b.stdout, b.stderr))
            if boxed(a.stderr):
                seen = {c.stdout.split()[0] for c in (a, b)}
                check.equal("different GPUs", seen, {f"{p.root}/gpu0", f"{p.root}/gpu1"})
            with p.begin("echo", "mine", options=one) as c:
                check.ok("the third waits", c.says("rest-lit: waits for ") and "GPU" in c.stderr and not c.stdout, (c.stdout, c.stderr))
                p.write("go", "")
                check.equal("both end", (a.end(), b.end()), (0, 0))
                check.equal("the third runs", (c.end(), c.stdout), (0, "mine\n"))


def test_command_words_arrive_byte_for_byte(check):
    """Every argument arrives: on this machine, and from the job file through translate."""
    letters = [*(bytes([i]) for i in range(1, 256)), *[b"'", b'"', b"$", b"`", b"\\", b"<%", b"%>", b"\n", b" ", b"$(", b"${", b"<% $parameters.x %>"] * 12]
    words = [b"", b" ", b"'", b"it's", b"$HOME `id` $(id) $$ \\", b"a\n\n b\n", b"<% $parameters.x %>", b"<% $secrets.x %>", b"<%", b"<%=", b"<%#x%>", b"$(PAI_JOB_NAME)",
             "é\u2028\u0085\ufeff\U0001f600".encode(), *(b"".join(random.choices(letters, k=random.randrange(40))) for _ in range(40))]
    show = "import os, sys; sys.stdout.write(repr([os.fsencode(a) for a in sys.argv[1:]]))"
    with Here() as p:
        arguments = [os.fsencode(w) for w in (PYTHON, "-c", show)] + words
        code, out, err = p.command(*map(os.fsdecode, arguments))
        got = eval(out) if code == 0 else err  # pylint: disable=eval-used
        check.ok("on this machine", got == words, [(w, g) for w, g in zip(words, got) if w != g][:3])


def test_command_can_be_piped_and_quoted(check):
    """The example of the page: `sh -c 'echo "$HOME" | wc'`."""
    with Here() as p:
        code, out, _ = p.shell('echo "$HOME" | wc -l')
        check.equal("a pipe", (code, out.strip()), (0, "1"))
        done = subprocess.run(f"'{BINARY}' run -- seq 100000 | head -n 1", shell=True, cwd=p.cwd, env={**os.environ, **p.more["environment"]},
                              capture_output=True, text=True, check=False)
        check.equal("a reader that goes away", done.stdout, "1\n")
        check.ok("nothing is left", wait_until(lambda: not p.left()), p.left())


def test_submitted_command_runs_with_the_files_of_its_directory(check):
    """`submit -- COMMAND` to a server of one machine without images: no image is needed, nor named."""
    with Here(gpus=2) as p, Machine(gpus=2) as m:
        p.write("train.py", "import os, sys; print(os.environ['PYTHONUNBUFFERED'], sys.argv[1:], os.path.exists('/dev/null'))\n")
        at = ("--server", f"http://127.0.0.1:{m.port}")
        code, out, err = cli("submit", *at, "--logs", "--gpus", "1", "--", "python3", "train.py", "a b", "$x", **p.more)
        check.ok("its output", code == 0 and "main[0] | 1 ['a b', '$x'] True\n" in out, (code, out, err))
        check.ok("no image is named", "image" not in err and "files" not in err, err)
        code, out, err = cli("submit", *at, "--dry-run", "-o", "job", "--gpus", "1", "--", "true", **p.more)
        check.ok("half of the machine's 64 CPUs", code == 0 and "cpu: 32," in out, (code, out, err))


def test_submitted_command_has_its_secrets_as_variables(check):
    """--secret NAME sets the variable NAME for a command, byte for byte; nothing shows the value."""
    values = ["it's $x `id` \\\n<% $parameters.p %> \"end\"\n", 'a"b$c\\n', 'a"b$c\n', "", "ä€😀\u2028", " 0x1F: ~ # ", "!!binary YQ==",
              *map(os.fsdecode, (bytes(range(1, 256)), b"\xff4711", b"\xef\xbb\xbf\xc2\x854711\xef\xbf\xbf\x7f"))]
    names = [f"KEY{i}" for i in range(len(values))]
    wanted = [os.fsencode(v).hex() for v in values]
    with Here() as p, Machine() as m:
        p.write("see.py", "import os, sys; print(sys.argv[2:], [os.environb[k.encode()].hex() for k in sys.argv[1].split(',')], os.environ['FROM'] == 'Sesame-4711')\n")
        at = ("submit", "--server", f"http://127.0.0.1:{m.port}", "--name", "secret")
        more = {**p.more, "environment": {**p.more["environment"], "FROM": "Sesame-4711"}}
        words = ("python3", "see.py", ",".join(names), "<% $secrets.OTHER %>")
        options = [w for name, value in zip(names, values) for w in ("--secret", f"{name}={value}")] + ["--secret", "FROM"]
        shown = []
        for form in ([], ["-o", "job"]):
            code, out, err = cli(*at, "--dry-run", *form, *options, "--", *words, **more)
            check.ok("dry run", code == 0 and "KEY8" in out, (code, out, err))
            shown += [out, err]
        code, out, err = cli(*at, "--logs", *options, "--", *words, **more)
        check.ok("the variables", code == 0 and f"main[0] | ['<% $secrets.OTHER %>'] {wanted} True\n" in out, (code, out, err))
        out = out.replace(str(wanted), "")
        config = m.request("GET", "/api/v2/jobs/alice~secret/config").body.decode()
        check.ok("the names are stored", '"secretEnv":["KEY0",' in re.sub(r"\s", "", config), config)
        shown += [json.dumps(m.framework("secret")), m.request("GET", "/api/v2/jobs/alice~secret").body.decode(), config, out, err,
                  m.log("secret", "main").replace(str(wanted), ""), Machine.log(m), cli("show", *at[1:3], "secret")[1]]
        for value in ["4711", "end\\", *filter(None, values)]:
            forms = {value, json.dumps(value)[1:-1], base64.b64encode(os.fsencode(value)).decode()}
            check.equal("no value is shown", [text[:300] for text in shown for form in forms if form in text], [])
        code, out, err = cli(*at, "--dry-run", "--secret", "KEY=1", "--", "sh", "-c", "echo <%$secrets.KEY%>", **more)
        check.ok("a placeholder is refused", code == 2 and not out and "<% $secrets.KEY %>" in err and "variable KEY" in err, (code, out, err))
        for name in ("PAI_X", "FC_X", "PATH", "LD_PRELOAD"):
            code, out, err = cli(*at, "--dry-run", "--secret", f"{name}=4711", "--", "true", **more)
            check.ok("names of the system are refused", code == 2 and name in err and "4711" not in err, (code, out, err))


def test_submitted_command_needs_no_image_with_or_without_tools(check):
    """Installed skopeo and umoci change nothing for a command: it sees the files of the machine, unless
    --images oci asks for images only; then the refusal names the ways out."""
    with Here() as p:
        tools = os.path.join(p.root, "tools")
        os.mkdir(tools)
        for name in ("skopeo", "umoci"):
            with open(os.path.join(tools, name), "w", encoding="ascii") as f:
                f.write("#!/bin/sh\necho no image is asked for >&2; exit 1\n")
            os.chmod(os.path.join(tools, name), 0o755)
        p.write("mine", "of this machine\n")
        for images, path in (("", tools + ":" + os.environ["PATH"]), ("host", os.environ["PATH"]), ("oci", tools + ":" + os.environ["PATH"])):
            with Machine("--images", images, environment={"PATH": path}) as m:
                if images != "host" and m.request("GET", "/api/v2/machine").json["hostFiles"]:
                    continue  # without a sandbox there are no images
                code, out, err = cli("submit", "--server", f"http://127.0.0.1:{m.port}", "--logs", "--", "cat", "mine", **p.more)
                if images == "oci":
                    check.ok("refused", code == 2 and all(w in err for w in ("--image IMAGE", "--default-image", "--images host")), (code, out, err))
                else:
                    check.ok(images or "default", code == 0 and "main[0] | of this machine\n" in out and "image" not in err, (code, out, err))


def test_submitted_command_is_told_of_hidden_environments(check):
    """An active environment is not that of the job: said before; a program that is missing names it, too."""
    with Here() as p, Machine() as m:
        at = ("submit", "--server", f"http://127.0.0.1:{m.port}", "--wait")
        os.makedirs(os.path.join(p.cwd, "venv", "bin"))
        p.write("venv/pyvenv.cfg", "home = /usr/bin\n")
        os.symlink(PYTHON, os.path.join(p.cwd, "venv", "bin", "python"))
        venv = os.path.join(p.cwd, "venv")
        more = {**p.more, "environment": {**p.more["environment"], "VIRTUAL_ENV": venv}}
        code, out, err = cli(*at, "--", "pithon", **more)
        check.ok("before", f"{venv} is not used by the job" in err and f"--mount {venv}" in err and 'left out: "venv/" (an environment' in err, err)
        check.ok("its failure", code == 1 and "home directories" in err and "pithon: not found" in err, (code, out, err))
        code, out, err = cli(*at, "--", PYTHON, "-c", "1", **more)
        check.ok("a path", code == 0 and "is not used by" not in err, (code, out, err))
        code, out, err = cli(*at, "--", "true", **p.more)
        check.ok("without one", code == 0 and "not used" not in err, (code, out, err))


def test_submitted_command_has_the_storages_of_its_user(check):
    """Those by default at /mnt/NAME, --storage others, --no-storage none; an unknown name is answered with the user's own."""
    base = tempfile.mkdtemp(prefix="rest-lit-local.")
    os.chmod(base, 0o755)
    for name in ("data", "more"):
        os.mkdir(os.path.join(base, name))
        with open(os.path.join(base, name, f"of-{name}"), "w", encoding="ascii"):
            pass
    facts = os.path.join(base, "facts.json")
    with open(facts, "w", encoding="ascii") as f:
        json.dump({"storages": [{"name": name, "path": os.path.join(base, name), "share": True, "readOnly": True, "default": name == "data"}
                                for name in ("data", "more")]}, f)
    with Here() as p, Machine("--facts", facts) as m:
        at = ("submit", "--server", f"http://127.0.0.1:{m.port}", "--logs")
        for options, path, seen in (([], "/mnt", ["data"]), ([], "/mnt/data", ["of-data"]), (["--storage", "more"], "/mnt", ["more"]),
                                    (["--storage", "more:/srv/x", "--storage", "data"], "/mnt /srv/x", ["data", "of-more"]), (["--no-storage"], "/mnt", [])):
            code, out, err = cli(*at, *options, "--", "sh", "-c", f"ls {path} | grep -e data -e more || true", **p.more)
            check.equal(f"{options}", (code, re.findall(r"^main\[0\] \| (\S+)$", out, re.M)), (0, seen))
        for options, words in ((["--storage", "dat"], ["storage `dat` does not exist", "alice, who has `data`, `more`"]),
                               (["--storage", "data:x"], ["--storage", "NAME[:PATH]"]), (["--storage", "data", "--no-storage"], ["--no-storage cannot"])):
            code, out, err = cli(*at, *options, "--", "true", **p.more)
            check.ok(f"{options}", code == 2 and not out and all(w in err for w in words), (code, out, err))
        code, out, err = cli(*at[:3], "--storage", "data", "-", text="{}", **p.more)
        check.ok("with a file", code == 2 and "--storage is for a command" in err and "extras.storages" in err, (code, out, err))
    with Here() as p, Machine() as m:
        code, out, err = cli("submit", "--server", f"http://127.0.0.1:{m.port}", "--dry-run", "-o", "job", "--", "true", **p.more)
        check.ok("without storages: no line", code == 0 and "storages" not in out, (code, out, err))


def test_server_of_one_user_shows_mounts_and_environments_in_them(check):
    """serve --no-auth --mount: DIR of all tasks, read-only without :rw; an active environment in it is used."""
    with Here() as p:
        for name in ("venv/bin", "data", "out"):
            os.makedirs(os.path.join(p.root, name))
        venv, data, out_dir = (os.path.join(p.root, name) for name in ("venv", "data", "out"))
        with open(os.path.join(venv, "pyvenv.cfg"), "w", encoding="ascii") as f:
            f.write("home = /usr/bin\n")
        os.symlink(PYTHON, os.path.join(venv, "bin", "python"))
        with open(os.path.join(data, "file"), "w", encoding="ascii") as f:
            f.write("of the data\n")
        os.chmod(p.root, 0o755)
        os.chmod(out_dir, 0o777)
        more = {**p.more, "environment": {**p.more["environment"], "VIRTUAL_ENV": venv}}
        with Machine("--mount", f"{data}:/data,{venv}", "--mount", f"{out_dir}:rw") as m:
            at = ("submit", "--server", f"http://127.0.0.1:{m.port}", "--logs")
            check.equal("listed", m.request("GET", "/api/v2/machine").json["mounts"], [venv, out_dir])
            script = f"cat /data/file; touch /data/x {venv}/x 2>/dev/null || echo read-only; echo kept >{out_dir}/kept; ls {p.home}"
            code, out, err = cli(*at, "--", "sh", "-c", script, **p.more)
            check.ok("read and written", "of the data" in out and "read-only" in out, (code, out, err))
            with open(os.path.join(out_dir, "kept"), encoding="ascii") as f:
                check.equal("written here", f.read(), "kept\n")
            check.ok("homes stay hidden", "work" not in out, out)
            code, out, err = cli(*at, "--", "python", "-c", "import os, sys; print(sys.prefix, os.environ['VIRTUAL_ENV'], os.environ['PATH'].split(':')[0])", **more)
            check.ok("the environment", code == 0 and f"main[0] | {venv} {venv} {venv}/bin\n" in out and "is not used" not in err, (code, out, err))
            os.remove(os.path.join(venv, "bin", "python"))
            p.write("python", "#!/bin/sh\n")
            os.symlink(os.path.join(p.cwd, "python"), os.path.join(venv, "bin", "python"))
            code, out, err = cli(*at[:3], "--dry-run", "-o", "job", "--", "python", **more)
            check.ok("not one whose program is hidden", code == 0 and "VIRTUAL_ENV" not in out and f"{venv} is not used" in err, (out, err))
        with Machine() as m:
            code, out, err = cli("submit", "--server", f"http://127.0.0.1:{m.port}", "--dry-run", "-o", "job", "--", "python", **more)
            check.ok("not without --mount", code == 0 and "VIRTUAL_ENV" not in out and f"{venv} is not used" in err and f"--no-auth --mount {venv}" in err, (out, err))


def test_command_runs_without_a_home_directory(check):
    """An account without a home, as services have it: a private directory below TMPDIR; not one of others."""
    with Here() as p:
        temporary = os.path.join(p.root, "tmp")
        os.mkdir(temporary)
        away = {"HOME": "/nonexistent/x", "TMPDIR": temporary}
        check.equal("runs", p.command("echo", "on", environment=away)[:2], (0, "on\n"))
        own = os.path.join(temporary, f"rest-lit-{os.getuid()}")
        check.equal("private", (os.stat(own).st_mode & 0o777, os.listdir(os.path.join(own, "run"))), (0o700, []))
        os.chmod(own, 0o770)
        code, out, err = p.command("echo", "on", environment=away)
        check.ok("not if others can write there", code == 125 and own in err and "XDG_STATE_HOME" in err and not out, (code, out, err))
