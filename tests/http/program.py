"""A stand-in for pai-runtime, and what a server says in its log."""
import hashlib
import json
import os
import subprocess
import tempfile

# A program that does nothing, but that is a program: one page of code, no libraries.
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
    """A file that could be pai-runtime as far as the server can tell."""
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
    """What was logged with a message that begins so, when there are `n` lines of it."""
    return [json.loads(line) for line in server.logged(f'"msg":"{message}', n)]
