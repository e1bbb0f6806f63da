#!/usr/bin/env python3
"""bytes.py [BUILD...] - the size of pai-runtime by origin: the table of docs/RUNTIME-DEPLOY.md, with a
column for each build folder (build build/arm64).  The linker's map has no source files, because the
compiler optimizes the whole program, so the debug information gives the origin of each function."""
import os
import re
import subprocess
import sys

# The first expression that matches the path of a source decides.
PARTS = (
    ("mbedTLS: TLS 1.2 and 1.3, certificates", r"/sources/mbedtls-"),
    ("dropbear: sshd, ssh, scp", r"/sources/dropbear-"),
    ("libyaml", r"/sources/libyaml-"),
    ("zlib: inflate, deflate", r"/sources/zlib-"),
    ("base: trees of YAML and JSON, text, regular expressions", r"/base/"),
    ("init, plugins", r"/runtime-assets/(init|plugins)/"),
    ("HTTP, API server", r"/runtime-assets/net/"),
    ("run, exit, shim", r"/runtime-assets/"),
)
MUSL = "musl, libgcc"
TEXTS = "texts and tables of all of these"
REST = "relocations, alignment"
IN_FILE = re.compile(r"^\.(text|rodata|data|eh_frame|init_array|tdata)")


def functions(program):
    """Bytes of each part's functions."""
    sums = dict.fromkeys([name for name, _ in PARTS], 0)
    seen = set()
    listed = subprocess.run(["nm", "-S", "-l", program], capture_output=True, text=True, check=True).stdout
    for at, size, path in re.findall(r"^([0-9a-f]+) ([0-9a-f]+) [tT] \S+\t(.*):\d+$", listed, re.M):
        part = next((name for name, pattern in PARTS if re.search(pattern, path)), None)
        if part and at not in seen:
            sums[part] += int(size, 16)
        seen.add(at)
    return sums


def parts(folder):
    """Bytes of each part; their sum is the size of the file."""
    program = os.path.join(folder, "static/pai-runtime")
    sums = {**functions(program), MUSL: 0, TEXTS: 0}
    section = ""
    with open(program + ".map", encoding="utf-8") as f:
        for line in f:
            section = line.split()[0] if line.startswith(".") else section
            found = re.match(r" (?:\.\S+)?\s+0x[0-9a-f]*[1-9a-f][0-9a-f]*\s+0x([0-9a-f]+)\s+(\S.*)$", line)
            if not found or not IN_FILE.match(section):
                continue
            if re.search(r"/lib(c|gcc)\.a", found.group(2)):
                sums[MUSL] += int(found.group(1), 16)
            elif section != ".text" and "ltrans" in found.group(2):
                sums[TEXTS] += int(found.group(1), 16)
    sums[REST] = os.path.getsize(os.path.join(folder, "pai-runtime")) - sum(sums.values())
    return sums


def rows(folders):
    """The cells: name, KiB of each folder."""
    found = [parts(folder) for folder in folders]
    for name in [*sorted(found[0], key=lambda n: (n == REST, -found[0][n]))]:
        yield name, [round(sums[name] / 1024) for sums in found]
    yield "together", [round(sum(sums.values()) / 1024) for sums in found]


if __name__ == "__main__":
    for name, cells in rows(sys.argv[1:] or ["build"]):
        print(f"| {name} | {' | '.join(map(str, cells))} |")
