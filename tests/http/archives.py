"""Archives of code, as base/code writes them, and broken ones."""
import gzip
import hashlib
import tarfile


def tar_of(files):
    """The tar of {path: bytes}."""
    out = b""
    for path, content in sorted(files.items()):
        entry = tarfile.TarInfo(path)
        entry.size, entry.mode = len(content), 0o644
        out += entry.tobuf(tarfile.USTAR_FORMAT) + content + bytes(-len(content) % 512)
    return out + bytes(1024)


def archive(files, level=6):
    """(SHA-256 of the tar, compressed bytes)."""
    tar = tar_of(files)
    return hashlib.sha256(tar).hexdigest(), gzip.compress(tar, level, mtime=0)
