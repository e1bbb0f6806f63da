"""A substitute for pai-runtime, and queries of a server's log."""
import hashlib
import json
import os
import subprocess
import tempfile

# A valid static program that does nothing, with one page of code.
SOURCE = """
void _start(void);
void _start(void)
{
	for (;;)
		__asm__ volatile("" ::: "memory");
}
"""
BUILT = {}


def program(*flags, name="pai-runtime"):
    """A file that the server accepts as pai-runtime."""
    if (flags, name) not in BUILT:
        directory = tempfile.mkdtemp(prefix="rest-lit-test.")
        path = os.path.join(directory, name)
        subprocess.run(["gcc", "-x", "c", "-o", path, *(flags or ("-static", "-nostdlib")), "-"],
                       input=SOURCE.encode(), check=True)
        BUILT[flags, name] = path
    return BUILT[flags, name]


OTHER = {"x86_64": ("aarch64", 183), "aarch64": ("x86_64", 62)}[os.uname().machine]
ARCHES = {"x86_64": "amd64", "aarch64": "arm64"}


def programs():
    """Two such files, this machine's and one for another architecture, as --runtime-binary names them."""
    with open(program(), "rb") as f:
        data = bytearray(f.read())
    data[18:20] = OTHER[1].to_bytes(2, "little")  # e_machine
    path = os.path.join(os.path.dirname(program()), OTHER[0])
    with open(path, "wb") as f:
        f.write(data)
    return f"{program()},{path}"


def configmap_name(path, machine=os.uname().machine):
    with open(path, "rb") as f:
        digest = hashlib.sha256(f.read()).hexdigest()
    return f"pai-runtime-{ARCHES[machine]}-{digest[:16]}"


def configmaps_of(pod):
    """The ConfigMaps with pai-runtime that a pod mounts."""
    return [source["configMap"]["name"] for v in pod["volumes"] if v["name"] == "pai-runtime"
            for source in v["projected"]["sources"]]


def lines(server, begin, n=0, key="msg"):
    """The log events whose message, or another field, begins so, after there are `n` of them."""
    return [json.loads(line) for line in server.logged(f'"{key}":"{begin}', n)]


def missing(server, n=0):
    """The log events about objects that pods need."""
    return lines(server, "there is no ", n, "found")


def exist(server):
    """Service account and exit specification are said to exist."""
    return all(lines(server, kind, 1, "found") for kind in ("ServiceAccount ", "ConfigMap "))
