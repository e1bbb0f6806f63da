"""What the tests of pai-runtime share.  A file test_*.py here is a program: it runs the binary in
$PAI_RUNTIME, calls check() for every fact and ends with finish(), whose last line is
`N passed, M failed`."""
import atexit
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
RUNTIME = os.path.abspath(os.environ.get("PAI_RUNTIME", os.path.join(TOP, "build", "pai-runtime")))


def for_everybody(program):
    """The program where other users may start it, too: a home directory may be closed to them."""
    parents = program
    while parents != "/":
        parents = os.path.dirname(parents)
        if not os.stat(parents).st_mode & 0o001:
            folder = tempfile.mkdtemp(prefix="pai-runtime-")
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
            os.chmod(folder, 0o755)
            return shutil.copy(program, folder)
    return program


# What nohup, or a shell with `&`, ignores would be ignored by all that tests start; in a pod nothing is.
for _signal in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
    if signal.getsignal(_signal) == signal.SIG_IGN:
        signal.signal(_signal, signal.SIG_DFL)

SLOW = float(os.environ.get("TEST_SLOW", "1"))  # bounds of time are this much wider (sanitizers)

passed = failed = 0
_counting = threading.Lock()


def check(name, ok, detail=""):
    """One fact.  `detail` is shown if it does not hold."""
    global passed, failed
    with _counting:
        if ok:
            passed += 1
            print(f"ok {name}")
        else:
            failed += 1
            print(f"FAIL {name}: {detail}")
        sys.stdout.flush()
    return ok


def equal(name, got, want):
    return check(name, got == want, f"got {got!r}, want {want!r}")


def may_unshare(what, *flags):
    """May namespaces be made here?  If not, that `what` is not tested is said."""
    tried = subprocess.run(["unshare", *flags, "true"], capture_output=True, check=False)
    if tried.returncode:
        print(f"skipped: {what}: {tried.stderr.decode().strip()}")
    return tried.returncode == 0


def finish():
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


class Root:
    """A directory that stands for `/` (option --root), as the kubelet would have made it."""

    def __init__(self, **env):
        self.path = tempfile.mkdtemp(prefix="pai-runtime-")
        # An environment as that of a pod: nothing of whoever runs the tests, but PATH.
        self.env = {"PATH": os.environ["PATH"], "FC_POD_UID": "11111111-0000-0000-0000-000000000000"}
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS"):
            if name in os.environ:
                self.env[name] = os.environ[name]
        self.env.update(env)
        for folder in ("usr/local/pai/logs", "usr/local/pai-config", "tmp", "dev", "root"):
            os.makedirs(os.path.join(self.path, folder))

    def at(self, path):
        return os.path.join(self.path, path.lstrip("/"))

    def write(self, path, text, mode=0o644):
        path = self.at(path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(text.encode() if isinstance(text, str) else text)
        os.chmod(path, mode)

    def read(self, path):
        """Bytes of a file; None if it is not there."""
        try:
            with open(self.at(path), "rb") as f:
                return f.read()
        except FileNotFoundError:
            return None

    def exists(self, path):
        return os.path.lexists(self.at(path))

    def logs(self, name=""):
        return f"/usr/local/pai/logs/{self.env['FC_POD_UID']}/{name}"

    def run(self, command, *args, timeout=60, **more):
        """pai-runtime COMMAND --root ROOT ARGS: the finished process, output as bytes."""
        program = for_everybody(RUNTIME) if "user" in more else RUNTIME
        return subprocess.run([program, command, "--root", self.path, *args], env=self.env,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout * SLOW,
                              **more)

    def start(self, command, *args, **more):
        program = for_everybody(RUNTIME) if "user" in more else RUNTIME
        return subprocess.Popen([program, command, "--root", self.path, *args], env=self.env,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, **more)

    def remove(self):
        shutil.rmtree(self.path, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()


def without_root(text, root):
    """The text as it would be in a pod."""
    return re.sub(re.escape(root.path), "", text)
