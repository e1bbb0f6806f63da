"""Archives of code, as base/code writes them, and broken ones."""
import gzip
import hashlib


def header(path, kind, mode, size, target):
    """One block of ustar: the shortest prefix that leaves a name of at most 100 bytes."""
    name, prefix = path.encode(), b""
    while len(name) > 100:
        part, _, name = name.partition(b"/")
        prefix += (b"/" if prefix else b"") + part
    fields = [(0, name), (345, prefix), (100, b"%07o" % mode), (108, b"0" * 7), (116, b"0" * 7), (124, b"%011o" % size),
              (136, b"0" * 11), (148, b" " * 8), (156, kind), (157, target.encode()), (257, b"ustar\x0000")]
    block = bytearray(512)
    for at, text in fields:
        block[at:at + len(text)] = text
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def tar_of(files):
    """The tar of {path: what}: bytes are a file, ("x", bytes) a program, None a directory, a text the
    target of a link."""
    out = []
    for path, what in sorted(files.items(), key=lambda one: one[0].replace("/", "\0")):
        if what is None:
            out.append(header(path, b"5", 0o755, 0, ""))
        elif isinstance(what, str):
            out.append(header(path, b"2", 0o644, 0, what))
        else:
            mode, content = (0o755, what[1]) if isinstance(what, tuple) else (0o644, what)
            out += header(path, b"0", mode, len(content), ""), content, bytes(-len(content) % 512)
    return b"".join((*out, bytes(1024)))


def archive(files, level=6):
    """(SHA-256 of the tar, compressed bytes)."""
    tar = tar_of(files)
    return hashlib.sha256(tar).hexdigest(), gzip.compress(tar, level, mtime=0)
