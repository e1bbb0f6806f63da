"""Common parts of the tests of pai-runtime.  Each test_*.py is a program: it runs the binary
$PAI_RUNTIME and passes its test functions, which call check(), to tests().  finish() prints the
last lines, `N checks` and `N passed, M failed` (tests).

    test_NAME.py [WORD...]     all tests, or those whose names (such as
                               "run.test_phases_run_in_their_order") contain a WORD"""
import atexit
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
RUNTIME = os.path.abspath(os.environ.get("PAI_RUNTIME", os.path.join(TOP, "build", "pai-runtime")))


def machine_of(program):
    """Returns the machine like uname -m, or None for others."""
    with open(program, "rb") as f:
        return {b"\x3e\0": "x86_64", b"\xb7\0": "aarch64"}.get(f.read(20)[18:])


MACHINE = machine_of(RUNTIME)
EMULATED = MACHINE != os.uname().machine  # by qemu-user
# Bytes of pai-runtime; the compiler of Debian 13 makes 16 KiB more than that of Debian 12.  arm64 has
# up to 64 KiB of alignment, for kernels with such pages.
SIZE_MAX = (860 if MACHINE == "aarch64" else 768) * 1024


def in_memory():
    """The directory for temporary files: removing thousands of directories from a disk takes long.
    Programs must be executable there.  None: the usual one."""
    try:
        place = os.statvfs("/dev/shm")
    except OSError:
        return None
    fit = place.f_bavail * place.f_frsize >= 1 << 30 and not place.f_flag & os.ST_NOEXEC
    return "/dev/shm" if fit and os.access("/dev/shm", os.W_OK) and not os.environ.get("TMPDIR") else None


tempfile.tempdir = in_memory()


def for_everybody(program):
    """A copy of the program that other users can run; home directories may be closed to them."""
    parents = program
    while parents != "/":
        parents = os.path.dirname(parents)
        if not os.stat(parents).st_mode & 0o001:
            folder = tempfile.mkdtemp(prefix="pai-runtime-")
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
            os.chmod(folder, 0o755)
            return shutil.copy(program, folder)
    return program


# nohup, and shells with `&`, ignore signals, and child processes would inherit that.
for _signal in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
    if signal.getsignal(_signal) == signal.SIG_IGN:
        signal.signal(_signal, signal.SIG_DFL)

SLOW = float(os.environ.get("TEST_SLOW", "1"))  # factor for time limits (sanitizers)
# Seconds that a wait for what must happen may last.  It ends as soon as that happens, so the limit costs
# time only when a test fails.
PATIENCE = 300 * SLOW

passed = failed = 0  # tests
checks = wrong = 0
FILE = os.path.basename(sys.argv[0]).removeprefix("test_").removesuffix(".py")
_counting = threading.Lock()
_here = threading.local()  # wrong: what failed in this thread


def check(name, ok, detail=""):
    """One check.  `detail` is printed if it fails."""
    global checks, wrong
    with _counting:
        checks += 1
        if ok:
            print(f"ok {name}")
        else:
            wrong += 1
            _here.wrong = getattr(_here, "wrong", 0) + 1
            print(f"FAIL {name}: {detail}")
        sys.stdout.flush()
    return ok


def equal(name, got, want):
    return check(name, got == want, f"got {got!r}, want {want!r}")


def eventually(condition):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


def may_unshare(what, *flags):
    """True if namespaces can be created; otherwise, print that `what` is not tested."""
    tried = subprocess.run(["unshare", *flags, "true"], capture_output=True, check=False)
    if tried.returncode:
        print(f"skipped: {what}: {tried.stderr.decode().strip()}")
    return tried.returncode == 0


def chosen(name):
    """True if the arguments select the test, by its name or its file's, or if there are none."""
    return not sys.argv[1:] or any(word in f"{FILE}.{name}" for word in sys.argv[1:])


def _one_test(name, function, args):
    global passed, failed
    _here.wrong, start = 0, time.monotonic()
    try:
        function(*args)
    except Exception:
        check(name, False, traceback.format_exc()[-900:])
    with _counting:
        passed += _here.wrong == 0
        failed += _here.wrong > 0
        print(f"     {name}{' FAILED' if _here.wrong else ''}: {time.monotonic() - start:.1f} s", flush=True)


def tests(*functions, args=(), at_once=False):
    """Runs the selected tests with these arguments; texts are part of the name.  Optionally runs them
    concurrently, if they mostly wait."""
    words = [a for a in args if isinstance(a, str)]
    named = [(" ".join([f.__name__, *words]), f) for f in functions]
    calls = [(name, f, args) for name, f in named if chosen(name)]
    if not at_once:
        for call in calls:
            _one_test(*call)
        return
    threads = [threading.Thread(target=_one_test, args=call) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def finish():
    global passed, failed
    if wrong and not failed:  # outside of all tests, or in a thread of one
        failed = 1
    print(f"{checks} checks\n{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


class Root:
    """A directory used as `/` (option --root), with the files of the kubelet."""

    def __init__(self, **env):
        self.path = tempfile.mkdtemp(prefix="pai-runtime-")
        # The environment of a pod; of the test's own environment only PATH.
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
        """Bytes of a file; None if it does not exist."""
        try:
            with open(self.at(path), "rb") as f:
                return f.read()
        except FileNotFoundError:
            return None

    def exists(self, path):
        return os.path.lexists(self.at(path))

    def logs(self, name=""):
        return f"/usr/local/pai/logs/{self.env['FC_POD_UID']}/{name}"

    def run(self, command, *args, **more):
        """pai-runtime COMMAND --root ROOT ARGS: the finished process, output as bytes."""
        program = for_everybody(RUNTIME) if "user" in more else RUNTIME
        return subprocess.run([program, command, "--root", self.path, *args], env=self.env,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE,
                              **more)

    def start(self, command, *args, **more):
        program = for_everybody(RUNTIME) if "user" in more else RUNTIME
        return subprocess.Popen([program, command, "--root", self.path, *args], env=self.env, **{
            "stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more})

    def remove(self):
        shutil.rmtree(self.path, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()


def explain_all(cases):
    """`pai-runtime exit` for each (root, *arguments), in one process: [(exit status, standard error)]."""
    lines = "".join("\t".join(["--root", root.path, *arguments]) + "\n" for root, *arguments in cases)
    program = os.path.join(os.path.dirname(RUNTIME), "tests", "runtime", "explain")
    out = subprocess.run([program], input=lines.encode(), env=cases[0][0].env, stdout=subprocess.PIPE, check=True).stdout
    results = []
    while out:
        head, _, out = out.partition(b"\n")
        _, code, size = head.split()
        results.append((int(code), out[:int(size)]))
        out = out[int(size):]
    return results


def without_root(text, root):
    """The text with the paths of a pod."""
    return re.sub(re.escape(root.path), "", text)
