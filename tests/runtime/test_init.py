"""init as a program: choosing steps, log and work directories, the exit specification."""
import ctypes
import errno
import json
import os
import resource
import socket
import stat
import struct
import subprocess

from checks import RUNTIME, Root, check, equal, finish, may_unshare, tests

PAI = "/usr/local/pai"


def mode(root, path):
    return stat.S_IMODE(os.lstat(root.at(path)).st_mode)


def init(root, steps, *args):
    return root.run("init", "--steps", steps, *args)


def test_unknown_steps_are_refused():
    with Root() as root:
        done = init(root, "exitspec,instal")
        equal("an unknown step is a failure", done.returncode, 1)
        check("which names the steps there are", b'"instal"; steps are logs, clean, install,' in done.stderr,
              done.stderr)
        check("and does nothing", not root.exists(PAI + "/runtime.d"))
    with Root() as root:
        equal("no step at all is a mistake", init(root, " ").returncode, 1)
    for text in ("install, exitspec", "[install, exitspec]", "steps: [install, exitspec]",
                 "steps:\n- install\n- exitspec\n"):
        with Root(INIT_CONFIG=text) as root:
            done = root.run("init")
            check(f"INIT_CONFIG {text!r}", done.returncode == 0 and root.exists(PAI + "/runtime.d") and
                  not root.exists(root.logs()), done)
    for text, why in (("[1]", b"must be text"), ("{a: 1}", b"must be a list"), ("[install", b"INIT_CONFIG")):
        with Root(INIT_CONFIG=text) as root:
            done = root.run("init")
            check(f"INIT_CONFIG {text!r} is refused", done.returncode == 1 and why in done.stderr, done)
    with Root() as root:
        root.write("/steps.yaml", "steps: [install]\n")
        root.env["INIT_CONFIG"] = root.at("/steps.yaml")
        check("INIT_CONFIG may name a file", root.run("init").returncode == 0 and root.exists(PAI + "/runtime"))
        root.env["INIT_CONFIG"] = root.at("/nothing.yaml")
        check("which must be there", b"is not there" in root.run("init").stderr)
        root.write("/token", "eyJhbGciOiJSUzI1NiJ9.e30.c2VjcmV0")
        root.env["INIT_CONFIG"] = root.at("/token")
        done = root.run("init")
        check("a file that is none of steps is not told", done.returncode == 1 and b"steps are logs" in done.stderr and
              b"eyJ" not in done.stderr, done)
    with Root(FC_TASK_INDEX="1x") as root:
        equal("FC_TASK_INDEX must be a number", init(root, "install").returncode, 1)


    with Root(RUNTIME_CONFIG="commands: [hi]\nruntimePlugins: []\n") as root:
        done = root.run("init")
        check("RUNTIME_CONFIG with a key that there is not", done.returncode == 1 and
              b'line 2, column 1: there is no key "runtimePlugins"; keys are commands, runtimePlugin,' in done.stderr,
              done.stderr)
        check("does nothing", not root.exists(PAI + "/runtime"))


def test_logs_of_earlier_runs_are_moved():
    with Root() as root:
        done = init(root, "logs")
        equal("the first run", done.returncode, 0)
        equal("anybody may write into the log directory", mode(root, root.logs()), 0o777)
        check("what is said stands in init.log too", root.read(root.logs("init.log")) == done.stderr, done)
        check("nothing was moved", not root.exists(root.logs("prelog_0")))
        for name in ("runtime.log", "user-all/current", "tensorboard/events"):
            root.write(root.logs(name), name)
        os.symlink("/etc/passwd", root.at(root.logs("planted")))
        os.mkfifo(root.at(root.logs("fifo")))
        equal("the second run", init(root, "logs").returncode, 0)
        for name in ("runtime.log", "user-all/current"):
            equal(f"{name} is kept", root.read(root.logs("prelog_0/" + name)), name.encode())
            check(f"{name} is out of the way", not root.exists(root.logs(name)))
        check("links are moved as links", os.path.islink(root.at(root.logs("prelog_0/planted"))))
        check("fifos too", root.exists(root.logs("prelog_0/fifo")) and not root.exists(root.logs("fifo")))
        check("other directories stay", root.exists(root.logs("tensorboard/events")))
        check("init.log goes on", root.read(root.logs("init.log")).count(b"init is done") == 2)
        root.write(root.logs("runtime.log"), "third")
        equal("the third run", init(root, "logs").returncode, 0)
        equal("has a number of its own", root.read(root.logs("prelog_1/runtime.log")), b"third")
        equal("and leaves the others", root.read(root.logs("prelog_0/runtime.log")), b"runtime.log")
    with Root() as root:
        os.makedirs(root.at(root.logs()))
        root.write("/etc/victim", "precious")
        os.symlink(root.at("/etc/victim"), root.at(root.logs("init.log")))
        done = init(root, "logs")
        check("a link planted as init.log is not followed",
              root.read("/etc/victim") == b"precious" and b"no log in" in done.stderr, done)
    with Root(FC_POD_UID="../../../etc") as root:
        init(root, "logs")
        check("a pod uid that is a path is none", not root.exists("/usr/etc") and
              os.listdir(root.at(PAI + "/logs")) == ["task"], os.listdir(root.at(PAI + "/logs")))


    with Root() as root:
        os.makedirs(root.at(PAI + "/logs"), exist_ok=True)
        root.write(root.logs().rstrip("/"), "a file")
        equal("a file where the log directory belongs", init(root, "logs").returncode, 1)
    with Root() as root:
        # A directory that cannot be created, like on a node whose disk is full or read-only.
        os.rmdir(root.at(PAI + "/logs"))
        os.symlink("/proc/self/none", root.at(PAI + "/logs"))
        done = init(root, "logs")
        check("without a log directory the job goes on", done.returncode == 0 and
              b"warning: there will be no logs: " in done.stderr, done)


def test_clean_removes_files_of_earlier_runs():
    with Root() as root:
        for name in ("framework.json", "runtime.d/user.sh", "code/deep/er/file", ".dot", "logs/x",
                     "secrets/secrets.yaml", "user-extension-secrets/u", "token-secrets/token"):
            root.write(f"{PAI}/{name}", name)
        root.write("/etc/victim", "precious")
        os.symlink(root.at("/etc"), root.at(PAI + "/link"))
        os.chmod(root.at(PAI + "/code/deep"), 0o700)
        equal("clean", init(root, "clean").returncode, 0)
        equal("what is mounted stays, the rest goes", sorted(os.listdir(root.at(PAI))),
              ["logs", "secrets", "token-secrets", "user-extension-secrets"])
        check("links are removed, not followed", root.read("/etc/victim") == b"precious")
    with Root() as root:
        equal("cleaning twice", [init(root, "clean").returncode for _ in range(2)], [0, 0])
    with Root() as root:
        os.chmod(root.at(PAI), 0o2777)
        equal("clean, install", init(root, "clean,install").returncode, 0)
        equal("the volume keeps its mode, so that the command's user may write there", mode(root, PAI), 0o2777)


def test_clean_keeps_mounted_files():
    """A bind mount is on the device of the volume itself."""
    if not may_unshare("mounts below the work volume", "-m" if os.getuid() == 0 else "-rm"):
        return
    with Root() as root:
        root.write("/source/data", "precious")
        os.makedirs(root.at(PAI + "/storage"))
        os.makedirs(root.at(PAI + "/deep/storage"))
        root.write(PAI + "/deep/file", "old")
        script = "".join(f"mount --bind {root.at('/source')} {root.at(PAI + at)} || exit 77\n"
                         for at in ("/storage", "/deep/storage"))
        script += f"exec {RUNTIME} init --root {root.path} --steps clean"
        done = subprocess.run(["unshare", "-m" if os.getuid() == 0 else "-rm", "sh", "-c", script], env=root.env,
                              capture_output=True, check=False)
        if b"unshare failed" in done.stderr or done.returncode == 77:
            print(f"not tested: mounts cannot be made here: {done.stderr.decode()}")
            return
        equal("clean beside mounts", done.returncode, 0)
        equal("what is mounted from the same device stays", root.read("/source/data"), b"precious")
        check("what is beside it goes", not root.exists(PAI + "/deep/file"))
        check("and there is nothing to warn of", b"could not be removed" not in done.stderr, done.stderr)


def test_install_copies_the_program():
    with Root() as root:
        done = init(root, "install")
        equal("install", done.returncode, 0)
        equal("the program may be executed by all", mode(root, PAI + "/runtime"), 0o755)
        equal("so may the directory be read", mode(root, PAI + "/runtime.d"), 0o755)
        check("nothing else is left", sorted(os.listdir(root.at(PAI))) == ["logs", "runtime", "runtime.d"])
        with open(os.environ.get("PAI_RUNTIME", "build/pai-runtime"), "rb") as f:
            check("it is this program", root.read(PAI + "/runtime") == f.read())
        equal("again", init(root, "install").returncode, 0)


def test_exit_specification_is_copied():
    name = "runtime-exit-spec.yaml"
    with Root() as root:
        root.write("/usr/local/pai-config/" + name, "- containerExitCode: 1\n")
        equal("exitspec", init(root, "install,exitspec").returncode, 0)
        equal("is copied", root.read(f"{PAI}/runtime.d/{name}"), b"- containerExitCode: 1\n")
    with Root() as root:
        done = init(root, "install,exitspec")
        check("without one, a warning", done.returncode == 0 and b"warning: no exit specification" in done.stderr, done)
        equal("and an empty one", root.read(f"{PAI}/runtime.d/{name}"), b"[]\n")


def test_failed_step_leaves_its_cause():
    with Root() as root:
        root.write("/dev/termination-log", "", 0o666)
        root.write(PAI + "/runtime.d", "a file where a directory must be")
        done = init(root, "install")
        equal("a step that fails", done.returncode, 1)
        cause = root.read("/dev/termination-log")
        check("leaves its cause for the kubelet", cause.startswith(b"pai-runtime init, step install (exit code 1): ")
              and cause.endswith(b"\n"), cause)
        check("and in the log", b"error: step install: " in done.stderr, done.stderr)


def test_steps_run_in_the_order_of_the_table():
    """Steps run in the order of the table, whatever the order of the arguments."""
    with Root() as root:
        root.write("/usr/local/pai-config/runtime-exit-spec.yaml", "[]\n")
        equal("order of steps", init(root, "exitspec,install,clean,logs").returncode, 0)
        check("is that of the table", root.exists(PAI + "/runtime.d/runtime-exit-spec.yaml"))


def test_crash_leaves_no_core_file():
    """init and check-api hold a token: a crash leaves no file, and no crash handler gets it."""
    # The limit 1 is below the size of any core file. Users that may not raise it have 0.
    least = "1" if os.getuid() == 0 or resource.getrlimit(resource.RLIMIT_CORE)[1] != 0 else "0"
    with Root(FC_FRAMEWORK_NAMESPACE="a", FC_FRAMEWORK_NAME="b", FC_TASKROLE_NAME="c") as root, \
            socket.create_server(("127.0.0.1", 0)) as silent:
        root.env["KUBE_APISERVER_ADDRESS"] = f"http://127.0.0.1:{silent.getsockname()[1]}"
        for command in (["init", "--steps", "framework"], ["check-api"]):
            with subprocess.Popen([RUNTIME, *command, "--root", root.path], env=root.env,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as waiting:
                silent.accept()[0].recv(1)
                with open(f"/proc/{waiting.pid}/limits", encoding="ascii") as f:
                    limit = [line.split()[4] for line in f if line.startswith("Max core file size")]
                equal(f"{command[0]} leaves no core file", limit, [least])
                waiting.kill()


def test_logs_contain_no_secrets():
    """Logs on the node are readable by others, so they contain no secrets and no environment."""
    config = json.dumps({"commands": ["login <% $secrets.password %>"], "secrets": {"password": "hunter2-written"},
                         "runtimePlugin": [{"plugin": "cmd", "parameters": {"preCommands": ["x <% $secrets.password %>"]}}]})
    with Root(RUNTIME_CONFIG=config, AWS_SECRET_ACCESS_KEY="hunter2-environment") as root:
        done = init(root, "logs,config,environment,plugins,command")
        equal("a job with secrets", done.returncode, 0)
        check("its command has them", b"login hunter2-written" in root.read(PAI + "/runtime.d/user.sh"))
        check("its plugins too", b"x hunter2-written" in root.read(PAI + "/runtime.d/plugin_pre0.sh"))
        said = done.stderr + done.stdout + root.read(root.logs("init.log"))
        check("what init says does not", b"hunter2" not in said, said)
        check("nor does it show the environment", b"AWS_SECRET" not in said, said)
        names = [os.path.join(d, n) for d, _, files in os.walk(root.at(PAI)) for n in files]
        check("nothing else of the environment is kept", not any(b"hunter2-environment" in open(n, "rb").read() for n in names))


def test_run_without_install_names_the_step():
    """The commands of plugins must exist."""
    config = json.dumps({"commands": ["echo hello"], "runtimePlugin": [
        {"plugin": "git", "parameters": {"repo_uri": "https://127.0.0.1:1/x"}}]})
    with Root(RUNTIME_CONFIG=config, INIT_CONFIG="plugins,command") as root:
        equal("without install: init", root.run("init").returncode, 0)
        done = root.run("run")
        check("without install: what is missing is told", b"the step `install` of init puts it there" in done.stderr and
              b"originUserExitCode: 127" in root.read("/tmp/pai-termination-log"), done.stderr)
        check("without install: in the message", b"step `install`" in root.read("/tmp/pai-termination-log"))


class Sandbox:
    """A seccomp filter that makes a system call of child processes fail."""
    CALLS = {"x86_64": (0xC000003E, 318), "aarch64": (0xC00000B7, 278)}  # AUDIT_ARCH_*, getrandom
    NEW_PRIVS, SECCOMP, FILTER = 38, 22, 2

    def __init__(self, error):
        machine, call = self.CALLS[os.uname().machine]
        code = [(0x20, 0, 0, 4), (0x15, 0, 3, machine), (0x20, 0, 0, 0), (0x15, 0, 1, call),
                (0x06, 0, 0, 0x00050000 | error), (0x06, 0, 0, 0x7FFF0000)]
        self.code = b"".join(struct.pack("HBBI", *line) for line in code)
        self.libc = ctypes.CDLL(None, use_errno=True)

    def __call__(self):
        text = ctypes.create_string_buffer(self.code)
        program = struct.pack("HxxxxxxP", len(self.code) // 8, ctypes.addressof(text))
        if self.libc.prctl(self.NEW_PRIVS, 1, 0, 0, 0) or self.libc.prctl(self.SECCOMP, self.FILTER, program):
            raise OSError(ctypes.get_errno(), "no seccomp")


def test_init_works_without_getrandom():
    if os.uname().machine not in Sandbox.CALLS:
        print("skipped: without getrandom: the number of that call is not known here")
        return
    for error in (errno.EPERM, errno.ENOSYS):
        name = f"getrandom gives {errno.errorcode[error]}"
        sandbox = Sandbox(error)
        try:
            refused = subprocess.run(["python3", "-c", "import os\ntry: os.getrandom(1)\nexcept OSError: print('no')"],
                                     preexec_fn=sandbox, capture_output=True, check=False).stdout
        except subprocess.SubprocessError as problem:
            print(f"skipped: without getrandom: {problem}")
            return
        equal(f"{name}: it is refused here", refused, b"no\n")
        with Root(RUNTIME_CONFIG="commands: [echo hello]") as root:
            done = root.run("init", preexec_fn=sandbox)
            equal(f"{name}: init", done.returncode, 0)
            equal(f"{name}: run", root.run("run", preexec_fn=sandbox).stdout, b"hello\n")


tests(test_unknown_steps_are_refused, test_logs_of_earlier_runs_are_moved, test_clean_removes_files_of_earlier_runs,
      test_clean_keeps_mounted_files, test_install_copies_the_program, test_exit_specification_is_copied,
      test_failed_step_leaves_its_cause, test_steps_run_in_the_order_of_the_table, test_crash_leaves_no_core_file,
      test_logs_contain_no_secrets, test_run_without_install_names_the_step, test_init_works_without_getrandom)
finish()
