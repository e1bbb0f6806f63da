"""Archives of code as rest-lit writes them, and others."""
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


def archive(entries):
    """The gzip'ed tar and its SHA-256.  Entries in the order of an archive, {PATH: WHAT}: bytes are a
    file, ("x", bytes) a program, None a directory, a text the target of a link."""
    tar = b""
    for path, what in entries.items():
        if what is None:
            tar += header(path, b"5", 0o755, 0, "")
        elif isinstance(what, str):
            tar += header(path, b"2", 0o644, 0, what)
        else:
            mode, text = (0o755, what[1]) if isinstance(what, tuple) else (0o644, what)
            tar += header(path, b"0", mode, len(text), "") + text + bytes(-len(text) % 512)
    tar += bytes(1024)
    return gzip.compress(tar, mtime=0), hashlib.sha256(tar).hexdigest()
