"""pai-runtime is a static program that needs no files of its image."""
import os
import re
import shutil
import subprocess
import tempfile

import bytes as bytes_of
from checks import EMULATED, MACHINE, RUNTIME, SIZE_MAX, TOP, Root, check, equal, eventually, finish, tests


def readelf(*options):
    return subprocess.run(["readelf", "-W", *options, RUNTIME], capture_output=True, text=True, check=True).stdout


def test_documented_sizes_are_current():
    """The table of bytes in docs/RUNTIME-DEPLOY.md is current, with the compiler of Debian 12."""
    folder = os.path.dirname(RUNTIME)
    compiler = subprocess.run(["gcc", "-dumpversion"], capture_output=True, text=True, check=True).stdout.strip()
    if compiler != "12":
        print(f"   not tested: the table is that of gcc 12, this is {compiler}")
        return
    if not os.path.exists(os.path.join(folder, "static/pai-runtime.map")):
        print("   not tested: no linker map")
        return
    with open(os.path.join(TOP, "docs/RUNTIME-DEPLOY.md"), encoding="utf-8") as f:
        table = dict(re.findall(r"^\| ([^|]+) \| (\d+ \| \d+) \|$", f.read(), re.M))
    for name, (kib,) in bytes_of.rows([folder]):
        said = table.get(name, "0 | 0").split(" | ")[MACHINE == "aarch64"]
        check(f"{name}: {kib} KiB", abs(kib - int(said)) <= 8,
              f"docs/RUNTIME-DEPLOY.md: {said}; tests/runtime/bytes.py build build/arm64")


def sanitized():
    with open(RUNTIME, "rb") as f:
        return b"__asan_init" in f.read()


def test_program_is_static_and_hardened():
    parts = readelf("-l")
    dynamic = readelf("-d")
    check("no interpreter", "INTERP" not in parts, parts)
    check("no library", "NEEDED" not in dynamic, dynamic)
    check("position independent", "Type:                              DYN" in readelf("-h") and "PIE" in dynamic,
          dynamic)
    check("read-only relocations", "GNU_RELRO" in parts, parts)
    check("nothing is both written and run", not re.search(r"LOAD.* RWE ", parts), parts)
    check("no relocations in the program's text", "TEXTREL" not in dynamic, dynamic)
    stack = re.search(r"GNU_STACK.*", parts)
    check("the stack is not run", bool(stack) and " RW " in stack.group(), parts)
    check("no symbols", ".symtab" not in readelf("-S"))
    size = os.path.getsize(RUNTIME)
    print(f"   {size} bytes")
    check(f"at most {SIZE_MAX // 1024} KiB", size <= SIZE_MAX, size)


def test_data_of_the_start_is_read_only():
    """Data that the start has written is read-only in main: no writable mapping overlaps GNU_RELRO,
    in a process that waits."""
    if EMULATED:
        print("   not tested: the maps would be those of the emulator")
        return
    relro = re.search(r"GNU_RELRO\s+0x\w+ (0x\w+) 0x\w+ 0x\w+ (0x\w+)", readelf("-l"))
    first, size = (int(n, 16) for n in relro.groups())
    fifo = tempfile.mkdtemp(prefix="pai-static-")
    try:
        os.mkfifo(os.path.join(fifo, "out"))
        out = os.open(os.path.join(fifo, "out"), os.O_RDWR)  # full: writing to it waits
        os.set_blocking(out, False)
        try:
            while True:
                os.write(out, b"x" * 4096)
        except BlockingIOError:
            pass
        os.set_blocking(out, True)
        with subprocess.Popen([RUNTIME, "version"], stdout=out) as child:
            def writes():
                with open(f"/proc/{child.pid}/syscall", encoding="ascii") as f:
                    return re.match(r"(1|20) 0x1 ", f.read())  # write, writev to stdout
            eventually(writes)
            with open(f"/proc/{child.pid}/maps", encoding="ascii") as f:
                maps = f.read()
            child.kill()
        os.close(out)
    finally:
        shutil.rmtree(fifo)
    lines = [line.split() for line in maps.splitlines() if RUNTIME in line]
    base = int(lines[0][0].split("-")[0], 16)
    last = base + ((first + size) & ~4095) - 1
    hit = [line for line in lines if int(line[0].split("-")[0], 16) <= last < int(line[0].split("-")[1], 16)]
    check("relocations are read-only when main runs", hit and hit[0][1] == "r--p", maps)


def test_version_names_the_libraries():
    done = subprocess.run([RUNTIME, "version"], capture_output=True, text=True, check=False)
    equal("version: status", done.returncode, 0)
    for word in ("pai-runtime ", "libyaml 0.2.5", "zlib 1.2.13", "mbedTLS 3.6.7", "TLS: 1.2 or 1.3", "/usr/local/pai"):
        check(f"version says {word!r}", word in done.stdout, done.stdout)
    with Root() as root:
        root.run("init", "--steps", "install")
        done = subprocess.run([root.at("/usr/local/pai/runtime"), "version"], capture_output=True, text=True,
                              check=False)
        check("version says where the program is", f"this program         {root.at('/usr/local/pai/runtime')}\n"
              in done.stdout, done.stdout)
    equal("version: no surprises", subprocess.run([RUNTIME, "version", "x"], capture_output=True,
                                                  check=False).returncode, 2)
    if not sanitized():
        check("version says musl", "musl 1." in done.stdout, done.stdout)


def test_program_runs_in_an_empty_root():
    """The program runs in an otherwise empty root file system."""
    root = tempfile.mkdtemp(prefix="pai-static-")
    try:
        shutil.copy(RUNTIME, os.path.join(root, "runtime"))
        done = subprocess.run(["unshare", "-r", "chroot", root, "/runtime", "version"], capture_output=True,
                              text=True, check=False)
        if done.returncode and "unshare" in done.stderr:
            print("   not tested: an empty root (may not unshare here)")
            return
        check("runs in an empty root", done.returncode == 0 and "pai-runtime" in done.stdout, done)
    finally:
        shutil.rmtree(root)


tests(test_version_names_the_libraries)
if sanitized():
    print("   this one is built for tests: nothing to say about the file")
else:
    tests(test_program_is_static_and_hardened, test_documented_sizes_are_current, test_data_of_the_start_is_read_only,
          test_program_runs_in_an_empty_root)
finish()
