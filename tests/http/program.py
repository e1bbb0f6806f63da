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


def configmap_name(path):
    with open(path, "rb") as f:
        digest = hashlib.sha256(f.read()).hexdigest()
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)
    return f"pai-runtime-{machine}-{digest[:16]}"


def lines(server, message, n=0):
    """The log events with this prefix of the message, after there are `n` of them."""
    return [json.loads(line) for line in server.logged(f'"msg":"{message}', n)]
