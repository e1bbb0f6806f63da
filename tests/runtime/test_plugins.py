"""Plugins in operation: the scripts of init in the shells of images."""
import http.server
import json
import os
import shutil
import ssl
import stat
import subprocess
import tempfile
import threading
import time

from checks import PATIENCE, RUNTIME, TOP, Root, check, equal, eventually, finish, tests
from plugin_kit import D, PAI, SHELLS, Pod

SECRET = "S3CRET-VALUE"


def quiet(name, pod, *texts):
    """The output contains no secret."""
    said = b"".join(texts) + pod.init.stderr + pod.init.stdout
    check(f"{name}: no secret is said", SECRET.encode() not in said, said)


# ---- cmd -----------------------------------------------------------------------------------------

def test_plugins_run_in_their_order():
    plugins = ("[{plugin: cmd, parameters: {preCommands: [echo a], postCommands: [echo A]}},"
               " {plugin: cmd, taskroles: [other], parameters: {preCommands: [echo no]}},"
               " {plugin: cmd, parameters: {callbacks: [{event: taskStarts, commands: [echo b]},"
               " {event: taskSucceeds, commands: [echo B]}]}}]")
    with Pod(plugins) as pod:
        equal("order: init", pod.init.returncode, 0)
        for shell in SHELLS:
            done = pod.sh(shell)
            equal(f"order: before, {shell}", (done.returncode, done.stdout), (0, b"a\nb\n"))
            done = pod.sh(shell, "postcommands.sh")
            equal(f"order: after is reversed, {shell}", (done.returncode, done.stdout), (0, b"B\nA\n"))
        for name in ("precommands.sh", "postcommands.sh", "plugin_pre0.sh", "user.sh"):
            equal(f"order: mode of {name}", stat.S_IMODE(os.stat(pod.at(D + "/" + name)).st_mode), 0o755)
        before = {name: pod.read(D + "/" + name) for name in os.listdir(pod.at(D))}
        pod.run("init", "--framework", pod.at("/framework.json"), "--steps", "install,config,plugins,command")
        equal("order: a second init writes the same", {n: pod.read(D + "/" + n) for n in before}, before)


# Effects of a command on its shell.
PROBES = {
    "false": "false", "exit": "exit 3", "syntax": "if then", "unset": "set -u; echo $GONE",
    "missing": ". /gone", "readonly": "readonly x=1; x=2", "option": "set -o gone", "shift": "shift 5",
    "signal": "kill -9 $$", "not found": "gone-program",
}


def test_failure_policies_are_applied():
    for name, command in PROBES.items():
        plugin = json.dumps([{"plugin": "cmd", "failurePolicy": "ignore", "parameters": {"preCommands": [command]}},
                             {"plugin": "cmd", "parameters": {"preCommands": ["echo after"]}}])
        with Pod(plugin) as pod:
            for shell in SHELLS:
                done = pod.sh(shell)
                equal(f"ignore: {name}, {shell}", (done.returncode, done.stdout), (0, b"after\n"))
                if name == "exit":
                    check(f"ignore: it is told, {shell}", b"plugin 0 failed with 3, ignored\n" in done.stderr,
                          done.stderr)
    for name in ("false", "exit", "syntax", "not found"):
        plugin = json.dumps([{"plugin": "cmd", "parameters": {"preCommands": [PROBES[name], "echo not here"]}},
                             {"plugin": "cmd", "parameters": {"preCommands": ["echo nor here"]}}])
        with Pod(plugin) as pod:
            for shell in SHELLS:
                done = pod.sh(shell)
                check(f"fail: {name}, {shell}", done.returncode != 0 and done.stdout == b"", done)


def test_texts_of_commands_are_unchanged():
    commands = ["printf '%s\\n' 'a\\nb\\t'", "for i in 1 2; do\n  echo $i\ndone\n", "echo it\\'s '\"q\"'",
                "echo \u00e9\u4e2d\u200b", "printf '%s\\n' \"<% $secrets.word %>\" <% $parameters.lr %>"]
    plugin = json.dumps([{"plugin": "cmd", "parameters": {"preCommands": commands}}])
    with Pod(plugin, "parameters: {lr: 0.10}\n", f"word: {SECRET}") as pod:
        want = f"a\\nb\\t\n1\n2\nit's \"q\"\n\u00e9\u4e2d\u200b\n{SECRET}\n0.1\n".encode()
        for shell in SHELLS:
            equal(f"texts: {shell}", pod.sh(shell).stdout, want)
        quiet("texts", pod)


def test_invalid_plugins_fail_init():
    with Pod("[{plugin: none}]") as pod:
        equal("unknown plugin: init fails", pod.init.returncode, 1)
        check("unknown plugin: by name", b"plugin 0 (none): there is no plugin of that name" in pod.init.stderr,
              pod.init.stderr)
    with Pod("[{plugin: none, failurePolicy: ignore}, {plugin: cmd, parameters: {preCommands: [echo x]}}]") as pod:
        equal("unknown plugin, ignored: init goes on", pod.init.returncode, 0)
        check("unknown plugin, ignored: it is told", b"plugin 0 (none) is left out" in pod.init.stderr)
        check("unknown plugin, ignored: it had a number", pod.exists(D + "/plugin_pre1.sh"))
    with Pod("[{plugin: cmd, parameters: {preCommands: ['<% $secrets.map %>']}}]", "", f"map: {{a: {SECRET}}}") as pod:
        equal("reference to a map: init fails", pod.init.returncode, 1)
        check("reference to a map: it is named", b"`<% $secrets.map %>`" in pod.init.stderr, pod.init.stderr)
        quiet("reference to a map", pod)
    with Pod(raw="taskRoles: {worker: {}, worker: {}}") as pod:
        check("a job that cannot be read: no task without its plugins", pod.init.returncode == 1 and
              b"its plugins are unknown" in pod.init.stderr, pod.init.stderr)


# ---- the user's command --------------------------------------------------------------------------

def test_command_gets_its_secrets():
    with Pod(secrets=f"pw: \"{SECRET}&<'\"\npin: 0123\n", USER_CMD="echo <% $secrets.pin %>\necho \"<% $secrets.pw %>\"") as pod:
        for shell in SHELLS:
            equal(f"user.sh: {shell}", pod.sh(shell, "user.sh").stdout, f"83\n{SECRET}&<'\n".encode())
        check("user.sh: logged as it came", b"command: echo <% $secrets.pin %>\n" in pod.init.stderr, pod.init.stderr)
        quiet("user.sh", pod)
    with Pod(USER_CMD="echo '<% $secrets.pin %>'") as pod:
        equal("user.sh: verbatim without secrets", pod.sh("bash", "user.sh").stdout, b"<% $secrets.pin %>\n")
    with Pod(secrets="m: {a: 1}", USER_CMD="echo <% $secrets.m %>") as pod:
        check("user.sh: a map is an error", pod.init.returncode == 1 and b"`<% $secrets.m %>` is a map" in pod.init.stderr,
              pod.init.stderr)
    with Pod(USER_CMD="echo $GONE; echo on") as pod:
        for shell in SHELLS:
            done = pod.sh(shell, "user.sh")
            check(f"user.sh: nounset, {shell}", done.returncode != 0 and done.stdout == b"", done)


BARE = """
commands: [echo "<% $parameters.x %>", 'echo "<% $secrets.y %>"']
parameters: {x: 42}
secrets: {y: S3CRET-VALUE}
runtimePlugin:
- {plugin: cmd, parameters: {preCommands: ['echo before <% $parameters.x %>']}}
- {plugin: tensorboard, failurePolicy: ignore, parameters: {logdir: {a: /a}}}
"""


def test_bare_pod_runs_its_plugins():
    with Root(RUNTIME_CONFIG=BARE) as root:
        done = root.run("init", "--steps", "install,config,plugins,command")
        equal("bare pod: init", done.returncode, 0)
        check("bare pod: no secret is said", SECRET.encode() not in done.stderr, done.stderr)
        ran = subprocess.run(["sh", root.at(D + "/user.sh")], capture_output=True)
        equal("bare pod: the command", ran.stdout, f"42\n{SECRET}\n".encode())
        ran = subprocess.run(["sh", root.at(D + "/plugin_pre0.sh")], capture_output=True)
        equal("bare pod: a plugin", ran.stdout, b"before 42\n")
        check("bare pod: is the first task", root.exists(D + "/plugin_pre1.sh"))
    with Root(RUNTIME_CONFIG=BARE) as root:
        for name in ("tensorboard", "pip", "pip3"):  # nothing is to be installed by a test
            root.write(f"/fake/{name}", "#!/bin/sh\nexit 1\n", 0o755)
        root.env["PATH"] = root.at("/fake") + ":" + root.env["PATH"]
        done = root.run("init"), root.run("run")
        check("bare pod: all steps, and run", done[1].returncode == 0 and done[1].stdout == f"42\n{SECRET}\n".encode() and
              b"] before 42\n" in done[1].stderr, done)
    with Root(RUNTIME_CONFIG=BARE, USER_CMD="echo mine") as root:
        root.run("init", "--steps", "install,config,plugins,command")
        ran = subprocess.run(["sh", root.at(D + "/user.sh")], capture_output=True)
        equal("bare pod: USER_CMD wins", ran.stdout, b"mine\n")
    with Root(RUNTIME_CONFIG="{}") as root:
        done = root.run("init", "--steps", "install,config,plugins,command")
        check("bare pod: without a command", done.returncode == 1 and b"there is no command" in done.stderr, done)


# ---- tensorboard ---------------------------------------------------------------------------------

FAKE_TENSORBOARD = """
if [ "$1" = --version_tb ]; then echo "$TB_VERSION"; exit; fi
echo to-the-log
printf '<%s>' "$@" >"$TB_SAW.part"; mv "$TB_SAW.part" "$TB_SAW"
"""


def seen(path):
    return open(path, "rb").read() if eventually(lambda: os.path.exists(path)) else None


def test_tensorboard_gets_options_of_its_version():
    one = "[{plugin: tensorboard, parameters: {port: 8081, logdir: {only: \"/it's $(x)\"}}}]"
    two = "[{plugin: tensorboard, parameters: {logdir: {a: /a, b: /b}}}]"
    cases = [(one, "1.15.0", b"<--logdir=only:/it's $(x)><--port=8081>"),
             (one, "2.4.1", b"<--logdir=/it's $(x)><--port=8081><--bind_all>"),
             (two, "1.0", b"<--logdir=a:/a,b:/b><--port=6006>"),
             (two, "2.9", b"<--logdir_spec=a:/a,b:/b><--port=6006><--bind_all>")]
    for shell in SHELLS:
        for plugin, version, want in cases:
            with Pod(plugin) as pod:
                pod.fake("tensorboard", FAKE_TENSORBOARD)
                log, saw = pod.at("/log"), pod.at("/saw")
                open(log, "w").close()
                done = pod.sh(shell, TB_VERSION=version, TB_SAW=saw, RUNTIME_LOG_PIPE=log)
                equal(f"tensorboard {version}: status, {shell}", done.returncode, 0)
                equal(f"tensorboard {version}: arguments, {shell}", seen(saw), want)
                equal(f"tensorboard {version}: its output is in the log, {shell}", pod.read("/log"), b"to-the-log\n")
                check(f"tensorboard {version}: no file in the working directory, {shell}",
                      not pod.exists("/RUNTIME_LOG_PIPE"))
        with Pod(one) as pod:
            pod.fake("tensorboard", FAKE_TENSORBOARD)
            done = pod.sh(shell, TB_VERSION="3.0", TB_SAW=pod.at("/saw"))
            equal(f"tensorboard 3: the task goes on, {shell}", done.returncode, 0)
            check(f"tensorboard 3: is not started, {shell}", b"no tensorboard 1 or 2: 3.0" in done.stderr, done)
        with Pod(one) as pod:
            pod.fake("pip", "cp \"$TB_FAKE\" \"$TB_BIN/tensorboard\"\n")
            pod.fake("kept", FAKE_TENSORBOARD)
            if shutil.which("tensorboard"):
                continue  # the machine's own would be found
            pod.sh(shell, TB_VERSION="2.0", TB_SAW=pod.at("/saw"), TB_FAKE=os.path.join(pod.bin, "kept"),
                   TB_BIN=pod.bin)
            check(f"tensorboard: is installed when absent, {shell}", seen(pod.at("/saw")) is not None)
    for env in ({"FC_TASK_INDEX": "1"}, {"PAI_TASK_ROLE_LIST": "ps,worker"}, {"PAI_TASK_ROLE_LIST": "workers"}):
        with Pod(one, **env) as pod:
            check(f"tensorboard: not with {env}", pod.init.returncode == 0 and not pod.exists(D + "/plugin_pre0.sh"))


# ---- git -----------------------------------------------------------------------------------------

def git_move(pod, *args, **env):
    return subprocess.run([RUNTIME, "git-move", "--first-wait", "0", *args], env=dict(pod.env, **env),
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE, cwd=pod.path)


FAKE_GIT = """
echo x >>"$SAW.tries"
printf '<%s>' "$@" >"$SAW"
env | grep -E '^(GIT_|LC_ALL)' | sort >"$SAW.env"
for last; do :; done
mkdir -p "$last/.git"; echo partial >"$last/part"
if [ "$(wc -l <"$SAW.tries")" -gt "${GOOD_AFTER:-0}" ]; then rm "$last/part"; echo a >"$last/a"; echo h >"$last/.hidden"; exit 0; fi
printf '%s\\n' "$SAYS" >&2
exit 128
"""
TRANSIENT = [
    "fatal: unable to access 'https://h/': The requested URL returned error: 429",
    "fatal: unable to access 'https://h/': The requested URL returned error: 503",
    "fatal: unable to access 'https://h/': Could not resolve host: h",
    "ssh: Could not resolve hostname h: Temporary failure in name resolution\nfatal: Could not read from remote repository.",
    "fatal: unable to access 'https://h/': Recv failure: Connection reset by peer",
    "fatal: unable to access 'https://h/': Failed to connect to h port 443: Connection timed out",
    "error: RPC failed; HTTP 502 curl 22 The requested URL returned error: 502",
    "error: RPC failed; curl 18 transfer closed with outstanding read data remaining\nfatal: early EOF",
]
PERMANENT = [
    "fatal: repository 'https://h/' not found",
    "fatal: unable to access 'https://h/': The requested URL returned error: 403",
    "remote: Invalid username or password.\nfatal: Authentication failed for 'https://h/'",
    "git@h: Permission denied (publickey).\nfatal: the remote end hung up unexpectedly",
    "fatal: Remote branch x not found in upstream origin",
    "fatal: transport 'ext' not allowed",
    "something that nobody knows",
]


def tries(pod):
    return (pod.read("/saw.tries") or b"").count(b"x")


def test_git_repeats_only_transient_errors():
    for said in TRANSIENT:
        with Pod() as pod:
            pod.fake("git", FAKE_GIT)
            done = git_move(pod, "--", "https://h/", pod.at("/code"), SAW=pod.at("/saw"), SAYS=said, GOOD_AFTER="2")
            equal(f"git: tried again: {said[:60]!r}", (done.returncode, tries(pod)), (0, 3))
            equal(f"git: nothing partial is left: {said[:60]!r}", sorted(os.listdir(pod.at("/code"))), [".git", ".hidden", "a"])
    for said in PERMANENT:
        with Pod() as pod:
            pod.fake("git", FAKE_GIT)
            done = git_move(pod, "--", "https://h/", pod.at("/code"), SAW=pod.at("/saw"), SAYS=said, GOOD_AFTER="9")
            equal(f"git: not tried again: {said[:60]!r}", (done.returncode, tries(pod)), (1, 1))
            check(f"git: nothing is left: {said[:60]!r}", not [n for n in os.listdir(pod.path) if "git" in n or n == "code"],
                  os.listdir(pod.path))
            check(f"git: its words are shown: {said[:60]!r}", said.encode() in done.stderr, done.stderr)
    with Pod() as pod:
        pod.fake("git", FAKE_GIT)
        done = git_move(pod, "--", "https://h/", pod.at("/code"), SAW=pod.at("/saw"), SAYS=TRANSIENT[0], GOOD_AFTER="99")
        equal("git: the tries end, and the task may be tried again", (done.returncode, tries(pod)), (75, 10))
    with Pod() as pod:
        pod.fake("git", FAKE_GIT)
        began = time.monotonic()
        git_move(pod, "--", "https://h/", pod.at("/code"), SAW=pod.at("/saw"), SAYS=TRANSIENT[0] + "\nRetry-After: 2",
                 GOOD_AFTER="1")
        check("git: Retry-After is honoured", time.monotonic() - began >= 2)
        equal("git: its environment", [line for line in pod.read("/saw.env").decode().splitlines()
                                       if line.startswith(("GIT_ALLOW", "GIT_TERM", "LC_ALL"))],
              ["GIT_ALLOW_PROTOCOL=https:ssh", "GIT_TERMINAL_PROMPT=0", "LC_ALL=C"])
    for env, own in (({}, True), ({"GIT_SSH": "/bin/my-ssh"}, False)):
        with Pod() as pod:
            pod.fake("git", FAKE_GIT)
            git_move(pod, "--", "https://h/", pod.at("/code"), SAW=pod.at("/saw"), **env)
            equal(f"git: with {env} ssh is called in our way", b"GIT_SSH_COMMAND=" in pod.read("/saw.env"), own)
    with Pod() as pod:
        pod.fake("git", FAKE_GIT)
        done = git_move(pod, "--", f"https://u:{SECRET}@h/", pod.at("/code"), SAW=pod.at("/saw"),
                        SAYS=f"fatal: unable to access 'https://u:{SECRET}@h/x': The requested URL returned error: 403",
                        GOOD_AFTER="9")
        check("git: logins are not shown", SECRET.encode() not in done.stdout + done.stderr, done.stderr)
        check("git: the host is", b"@h/x'" in done.stderr, done.stderr)


def test_git_is_installed_if_it_is_missing():
    with Pod() as pod:
        done = git_move(pod, "--", "https://h/", pod.at("/code"), PATH=pod.bin)
        check("git: none in the image", done.returncode == 1 and b"git is not in the image, and there is no apt-get" in
              done.stderr, done)
    for uri, package in (("https://h/", "ca-certificates"), ("git@h:x", "openssh-client")):
        with Pod() as pod:
            pod.fake("git-kept", FAKE_GIT)
            pod.fake("apt-get", f"""echo "$@" >>{pod.path}/apt
                if [ "$1" = install ]; then [ -e {pod.path}/second ] || {{ : >{pod.path}/second; exit 100; }}
                cp {pod.bin}/git-kept {pod.bin}/git; fi\n""")
            for name in ("cp", "mkdir", "rm", "wc", "grep", "env", "sort"):
                os.symlink(shutil.which(name), os.path.join(pod.bin, name))
            done = git_move(pod, "--", uri, pod.at("/code"), PATH=pod.bin, SAW=pod.at("/saw"))
            check(f"git: installed by apt-get, at the second try, for {uri}", done.returncode == 0 and
                  pod.exists("/code/a"), done)
            check(f"git: what is asked for, for {uri}", pod.read("/apt").splitlines()[-1] ==
                  f"install -y --no-install-recommends git {package}".encode(), pod.read("/apt"))
    with Pod() as pod:
        pod.fake("apt-get", f'echo "$@" >>{pod.path}/apt; exit 100\n')
        done = git_move(pod, "--", "https://h/", pod.at("/code"), PATH=pod.bin)
        check("git: apt-get that fails: three tries", done.returncode == 1 and pod.read("/apt") == b"update\n" * 3 and
              b"apt-get cannot install it" in done.stderr, done)
    with Pod() as pod:
        pod.fake("git", FAKE_GIT)
        pod.write("/code/x", "precious")
        done = git_move(pod, "--", "https://h/", pod.at("/code"), SAW=pod.at("/saw"))
        check("git: a target with files fails, without a try",
              done.returncode == 1 and tries(pod) == 0 and b"not empty" in done.stderr, done)
        equal("git: and stays as it is", os.listdir(pod.at("/code")), ["x"])
    with Pod() as pod:
        pod.fake("git", FAKE_GIT)
        os.makedirs(pod.at("/code"))
        inode = os.stat(pod.at("/code")).st_ino
        pod.write("/code/.pai-git-clone/rest", "of a clone that was killed")
        done = git_move(pod, "--", "https://h/", pod.at("/code/"), SAW=pod.at("/saw"))
        equal("git: an empty target is fine", done.returncode, 0)
        equal("git: dot files too", sorted(os.listdir(pod.at("/code"))), [".git", ".hidden", "a"])
        equal("git: it is the same directory as before", os.stat(pod.at("/code")).st_ino, inode)
    with Pod() as pod:
        pod.fake("git", FAKE_GIT)
        done = git_move(pod, "--", "https://h/", "deep/er/code", SAW=pod.at("/saw"))
        equal("git: parents are made, relative to where we are", (done.returncode, pod.read("/deep/er/code/a")), (0, b"a\n"))
    with Pod() as pod:
        pod.fake("git", FAKE_GIT)
        os.symlink("nowhere", pod.at("/code"))
        done = git_move(pod, "--", "u", pod.at("/code"), SAW=pod.at("/saw"))
        check("git: a target that cannot be read", done.returncode == 1 and b"No such file" in done.stderr, done)
    with Pod() as pod:
        pod.fake("git", FAKE_GIT)
        pod.write("/code", "a file")
        equal("git: a file as target", git_move(pod, "--", "u", pod.at("/code"), SAW=pod.at("/saw")).returncode, 1)
        for args in (("--upload-pack=x", "--", "u", "/d"), ("-c", "a=b", "--", "u", "/d"), ("u", "/d"), ("--", "u"),
                     ("--depth", "--", "u", "/d"), ("--", "u", "/"), ("--", "", "/d")):
            equal(f"git: usage {args}", git_move(pod, *args, SAW=pod.at("/saw")).returncode, 2)
        equal("git: then nothing was started", tries(pod), 0)


class Backend(http.server.BaseHTTPRequestHandler):
    """git-http-backend over TLS; the first requests get the responses in `server.bad`."""
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, status, headers, body):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.asked += 1
        if self.server.bad:
            return self.answer(self.server.bad.pop(0), [], b"")
        path, _, query = self.path.partition("?")
        env = {"PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": self.server.folder, "GIT_HTTP_EXPORT_ALL": "1",
               "PATH_INFO": path, "QUERY_STRING": query, "REQUEST_METHOD": self.command, "REMOTE_ADDR": "127.0.0.1",
               "CONTENT_TYPE": self.headers.get("Content-Type", ""), "CONTENT_LENGTH": str(len(body)),
               "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""), "HOME": self.server.folder,
               "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
        out = subprocess.run(["git", "http-backend"], input=body, env=env, capture_output=True).stdout
        head, _, content = out.partition(b"\r\n\r\n")
        headers = [line.split(": ", 1) for line in head.decode().split("\r\n")]
        status = int(next((v for k, v in headers if k == "Status"), "200")[:3])
        return self.answer(status, [h for h in headers if h[0] not in ("Status", "Content-Length")], content)

    do_POST = do_GET


def git_server(folder):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", folder + "/key",
                    "-out", folder + "/cert"], check=True, capture_output=True)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Backend)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder + "/cert", folder + "/key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.folder, server.bad, server.asked = folder, [], 0
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def make_repository(folder):
    script = """set -e; git init -q work; cd work; git config user.email a@b; git config user.name n
    mkdir d; echo 1 >a.txt; echo 2 >d/b; echo 3 >.dot; git add -A; git commit -qm one; echo 4 >a.txt
    git commit -qam two; git branch side; cd ..; git clone -q --bare work repo.git"""
    subprocess.run(["sh", "-c", script], cwd=folder, check=True, capture_output=True,
                   env={"PATH": os.environ["PATH"], "HOME": folder})


def test_git_clones_a_real_repository():
    """Init, the script in each shell, and a real git that clones over TLS."""
    if not shutil.which("git"):
        print("skipped: there is no git here")
        return
    folder = tempfile.mkdtemp(prefix="pai-git-")
    make_repository(folder)
    server = git_server(folder)
    uri = f"https://127.0.0.1:{server.server_port}/repo.git"
    for shell in SHELLS:
        target = tempfile.mkdtemp(prefix="pai clone's ")
        plugin = json.dumps([{"plugin": "git", "parameters": {"repo_uri": "<% $parameters.uri %>",
                                                              "options": ["--depth 1", "--branch=side"],
                                                              "clone_dir": target + "/a b"}}])
        with Pod(plugin, f"parameters: {{uri: '{uri}'}}\n") as pod:
            server.bad = [503] if shell == "bash" else []  # the script waits some seconds then
            done = pod.sh(shell, GIT_SSL_CAINFO=folder + "/cert", HOME=pod.path)
            equal(f"git for real: {shell}", done.returncode, 0)
            if done.returncode:
                print(done.stderr.decode())
            equal(f"git for real: files, {shell}", sorted(os.listdir(target + "/a b")), [".dot", ".git", "a.txt", "d"])
            check(f"git for real: nothing else is left, {shell}", os.listdir(target) == ["a b"], os.listdir(target))
            log = subprocess.run(["git", "-C", target + "/a b", "log", "--format=%s %D"], capture_output=True,
                                 env=dict(pod.env, HOME=pod.path)).stdout
            check(f"git for real: the options did something, {shell}", log.startswith(b"two") and b"one" not in log and
                  b"side" in log, log)
        shutil.rmtree(target)
    with Pod(json.dumps([{"plugin": "git", "parameters": {"repo_uri": uri}}])) as pod:
        server.asked = 0
        done = pod.sh("bash", HOME=pod.path)
        check("git for real: an unknown certificate is no reason to try again",
              done.returncode != 0 and b"would fail again" in done.stderr and server.asked == 0, done.stderr)
        done = pod.sh("bash", HOME=pod.path, GIT_SSL_CAINFO=folder + "/cert")
        equal("git for real: without clone_dir it is /usr/local/pai/code", pod.read(PAI + "/code/a.txt"), b"4\n")
    for name, bad in (("a file", folder + "/repo.git"), ("file:", "file://" + folder + "/repo.git"),
                      ("ext::", "ext::sh -c touch% " + folder + "/pwned")):
        with Pod(json.dumps([{"plugin": "git", "parameters": {"repo_uri": bad, "clone_dir": "/x"}}])) as pod:
            done = git_move(pod, "--", bad, pod.at("/code"), HOME=pod.path)
            check(f"git for real: {name} is refused", done.returncode == 1 and b"not allowed" in done.stderr, done)
    check("git for real: and runs nothing", not os.path.exists(folder + "/pwned"))
    server.shutdown()
    shutil.rmtree(folder)


def test_plugins_run_around_the_command():
    """Scripts run before and after the command, and their output is in runtime.log."""
    plugins = ("[{plugin: cmd, parameters: {preCommands: [echo before, echo trouble >&2], postCommands: [echo after]}},"
               " {plugin: tensorboard, parameters: {logdir: {a: /a}}}]")
    with Pod(plugins, USER_CMD="until [ -e started ]; do sleep 0.05; done; echo user") as pod:
        pod.fake("tensorboard", f"""[ "$1" != --version_tb ] || {{ echo 2.0; exit; }}
            echo of tensorboard; sleep 0.3; : >{pod.path}/started; sleep 600\n""")
        done = pod.run("run", cwd=pod.path)
        equal("run: the end", (done.returncode, done.stdout), (0, b"user\n"))
        log = pod.read(pod.logs("runtime.log")) or b""
        said = [word for word in (b"before", b"trouble", b"of tensorboard", b"after") if b"] " + word + b"\n" in log]
        equal("run: runtime.log has all that plugins say", said, [b"before", b"trouble", b"of tensorboard", b"after"])
    for command, code in (("echo 'SSH barrier reaches max retry count: 1 not reached: a-1' >&2; exit 10", 249), ("exit 3", 255)):
        with Pod(json.dumps([{"plugin": "cmd", "parameters": {"preCommands": [command]}}]), USER_CMD="echo user") as pod:
            shutil.copy(os.path.join(TOP, "runtime-assets", "runtime-exit-spec.yaml"), pod.at(D))
            done = pod.run("run")
            equal(f"run: a plugin before the command fails the task, {code}", (done.returncode, done.stdout), (code, b""))
    with Pod("[{plugin: cmd, failurePolicy: ignore, parameters: {preCommands: [exit 3], postCommands: [exit 4]}}]",
             USER_CMD="echo user") as pod:
        done = pod.run("run")
        equal("run: one that may fail does not", (done.returncode, done.stdout), (0, b"user\n"))
        check("run: and it is told", b"plugin 0 failed with 3, ignored" in done.stderr and
              b"plugin 0 failed with 4, ignored" in done.stderr, done.stderr)


tests(test_plugins_run_in_their_order, test_failure_policies_are_applied, test_texts_of_commands_are_unchanged,
      test_invalid_plugins_fail_init, test_command_gets_its_secrets, test_bare_pod_runs_its_plugins,
      test_tensorboard_gets_options_of_its_version, test_git_repeats_only_transient_errors,
      test_git_is_installed_if_it_is_missing, test_git_clones_a_real_repository, test_plugins_run_around_the_command)
finish()
