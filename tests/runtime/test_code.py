"""The step `code`: the archive of a job's code, in parts, becomes the directory of the job."""
import hashlib
import os
import resource
import signal
import stat
import sys

from checks import TOP, Root, check, equal, finish, tests

sys.path.append(os.path.join(TOP, "tests/http"))

from archives import archive  # noqa: E402

FILES = {"bin": None, "bin/train.sh": ("x", b"#!/bin/sh\necho trained\n"), "latest": "bin/train.sh",
         "/".join("d" * 70): b"deep", "data.bin": os.urandom(200_000), "empty": b""}
FILES |= {"/".join("d" * n): None for n in range(1, 70)}
DIR = "/src/code"


def root_with(sha, packed, parts=2, size=1 << 20, **env):
    root = Root(PAI_CODE_DIR=DIR, PAI_CODE_SHA256=sha, PAI_CODE_BYTES=str(size), PAI_CODE_PARTS=str(parts), **env)
    os.makedirs(root.at(DIR))
    cut = 1001 if parts > 1 else len(packed)  # in the middle of everything
    for n, part in enumerate((packed[:cut], packed[cut:])[:parts]):
        root.write(f"/usr/local/pai-code/{n}/part", part)
    return root


def init(root, **more):
    return root.run("init", "--steps", "logs,code", **more)


def mode(root, path):
    return stat.S_IMODE(os.lstat(root.at(f"{DIR}/{path}")).st_mode)


def test_code_is_unpacked_for_every_user():
    with root_with(*archive(FILES)) as root:
        root.write(f"{DIR}/half/of/an/earlier/run", "x")  # and of a run that was interrupted
        root.write(f"{DIR}/{'d/' * 69}d", "half")
        root.write(f"{DIR}/bin/train.sh", "half", 0o400)
        os.symlink("/etc", root.at(f"{DIR}/latest"))
        for again in ("", ", and again"):
            done = init(root)
            equal(f"init{again}", done.returncode, 0)
            found = {os.path.relpath(os.path.join(above, name), root.at(DIR))
                     for above, dirs, files in os.walk(root.at(DIR)) for name in dirs + files}
            equal(f"all entries are there, and no others{again}", len(found ^ set(FILES)), 0)
        for path, what in FILES.items():
            if isinstance(what, (bytes, tuple)):
                text = what[1] if isinstance(what, tuple) else what
                if root.read(f"{DIR}/{path}") != text:
                    check("each file has its bytes", False, path)
        equal("links stay", os.readlink(root.at(f"{DIR}/latest")), "bin/train.sh")
        equal("a program is writable for all", mode(root, "bin/train.sh"), 0o777)
        equal("so is a file", mode(root, "data.bin"), 0o666)
        equal("and a directory", mode(root, "bin"), 0o777)
        check("init says what there is", f"code: {len(FILES)} files and directories, ".encode() in done.stderr,
              done.stderr)


def test_jobs_without_code_touch_nothing():
    with Root(PAI_CODE_DIR=DIR, PAI_CODE_COMMIT="") as root:
        root.write(f"{DIR}/mine", "x")
        equal("init", init(root).returncode, 0)
        check("the directory is as it was", root.read(f"{DIR}/mine") == b"x")


def test_results_in_the_directory_stay():
    """On one machine they are mounted there when init begins, also with those of earlier tries."""
    for where, kept in ((f"{DIR}/results", True), (f"{DIR}/deep/results", False), ("/elsewhere/results", False), (DIR, False)):
        with root_with(*archive(FILES), PAI_RESULTS_DIR=where) as root:
            root.write(f"{DIR}/results/of/1", "x")
            root.write(f"{DIR}/old", "x")
            equal("init", init(root).returncode, 0)
            equal(f"{where}: results", os.path.exists(root.at(f"{DIR}/results/of/1")), kept)
            equal(f"{where}: the rest", os.path.exists(root.at(f"{DIR}/old")), False)
            equal(f"{where}: the code", root.read(f"{DIR}/data.bin"), FILES["data.bin"])


def fails(name, root, code, *says, **more):
    with root:
        done = init(root, **more)
        equal(f"{name}: exit code", done.returncode, code)
        for text in ("step code: the code of the job cannot be unpacked into ", *says):
            check(f"{name}: says {text}", text.encode() in done.stderr, done.stderr)


def test_damaged_code_is_never_tried_again():
    sha, packed = archive(FILES)
    other = hashlib.sha256(b"").hexdigest()
    fails("another archive", root_with(other, packed), 252, f"the SHA-256 of the archive is {sha}, not {other}")
    fails("cut off", root_with(sha, packed[:-9]), 252, "the archive ends too early")
    flipped = bytearray(packed)
    flipped[len(flipped) // 2] ^= 1
    fails("a wrong bit", root_with(sha, bytes(flipped)), 252)
    missing = root_with(sha, packed)
    os.remove(missing.at("/usr/local/pai-code/1/part"))
    fails("a part is missing", missing, 252, "pai-code/1/part cannot be read: No such file or directory")
    fails("more than it should be", root_with(sha, packed, size=200_003), 252, "200003")
    for path in ("../out", "/out", "a/../../out"):
        fails(f"path {path}", root_with(*archive({path: b"x"})), 252, path)
    fails("a link out", root_with(*archive({"link": "../../out"})), 252, "leaves the directory")
    fails("below a link", root_with(*archive({"link": ".", "link/file": b"x"})), 252, "neither its directory nor in it")


def test_disk_trouble_is_tried_again():
    def small_files():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    fails("too large a file", root_with(*archive(FILES)), 1, '"data.bin" cannot be written: File too large',
          preexec_fn=small_files)


def test_settings_of_code_are_checked():
    sha, packed = archive({"a": b"x"})
    for env in ({"PAI_CODE_DIR": "src"}, {"PAI_CODE_PARTS": "0"}, {"PAI_CODE_BYTES": "1x"}, {"PAI_CODE_PARTS": ""}):
        with root_with(sha, packed) as root:
            root.env |= env
            done = init(root)
            check(f"{env}", done.returncode == 252 and b"must be a path, a number up to" in done.stderr, done)
    with root_with(sha, packed) as root:
        os.rmdir(root.at(DIR))
        done = init(root)
        check("without the volume", done.returncode == 1 and b"cannot be opened: No such file" in done.stderr, done)


tests(test_code_is_unpacked_for_every_user, test_jobs_without_code_touch_nothing, test_results_in_the_directory_stay,
      test_damaged_code_is_never_tried_again, test_disk_trouble_is_tried_again, test_settings_of_code_are_checked)
finish()
