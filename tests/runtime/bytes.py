#!/usr/bin/env python3
"""bytes.py [BUILD...] - what the bytes of pai-runtime are for: the table of docs/RUNTIME.md, a column for
each build folder (build build/arm64), from the linker's maps."""
import os
import re
import sys

# Of the path of an object, the first that matches.
PARTS = (
    ("mbedTLS: TLS 1.2 and 1.3, certificates", r"/libmbedtls\.a"),
    ("dropbear: sshd, ssh, scp", r"/dropbear\.o"),
    ("musl, libgcc", r"/lib(c|gcc)\.a"),
    ("libyaml", r"/libyaml\.a"),
    ("zlib: inflate", r"/libz\.a"),
    ("base: trees of YAML and JSON, text, regular expressions", r"static/base/"),
    ("init, plugins", r"static/runtime-assets/(init|plugins)/"),
    ("HTTP, API server", r"static/runtime-assets/net/"),
    ("run, exit, shim", r"static/runtime-assets/"),
)
REST = "relocations, alignment"
IN_FILE = re.compile(r"^\.(text|rodata|data|eh_frame|init_array|tdata)")


def parts(folder):
    """Bytes of each part; their sum is the size of the file."""
    sums = dict.fromkeys([name for name, _ in PARTS], 0)
    section = ""
    with open(os.path.join(folder, "static/pai-runtime.map"), encoding="utf-8") as f:
        for line in f:
            section = line.split()[0] if line.startswith(".") else section
            found = re.match(r" (?:\.\S+)?\s+0x[0-9a-f]*[1-9a-f][0-9a-f]*\s+0x([0-9a-f]+)\s+(\S.*)$", line)
            if not found or not IN_FILE.match(section):
                continue
            for name, pattern in PARTS:
                if re.search(pattern, "/" + found.group(2)):
                    sums[name] += int(found.group(1), 16)
                    break
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
