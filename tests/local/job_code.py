"""Jobs with code (extras.code) and variables (extras.env)."""
import hashlib
import os
import shutil
import sys
import tempfile

import images
from harness import USER, wait_until
from machine import NOBODY, Machine, role

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "runtime"))

from archives import archive  # noqa: E402

TRAIN = b"""#!/bin/sh
echo in $(pwd) of $(ls -a | tr '\\n' ' ')
echo commit "$PAI_CODE_COMMIT" of "$PAI_CODE_DIR", note "$NOTE"
echo result >lib/result && cat lib/result
(echo x >/usr/local/pai-code/0/part) 2>/dev/null || echo archive is read-only
"""
CODE = {"lib": None, "lib/a.py": b"x = 1\n", "train.sh": ("x", TRAIN)}


def put(m, packed, sha):
    """Puts an archive where the server keeps it."""
    name = hashlib.sha256(f"{USER}\0{sha}".encode()).hexdigest()[:40]
    path = os.path.join(m.where, "code", f"code-{name}")
    os.makedirs(path, exist_ok=True)
    with open(os.path.join(path, "part"), "wb") as f:
        f.write(packed)
    if os.geteuid() == 0 and not m.root:
        for owned in (os.path.dirname(path), path, os.path.join(path, "part")):
            os.chown(owned, NOBODY, NOBODY)
    return sha


def with_code(m, name, sha, commands=("./train.sh",), more=None, **code):
    m.start(name, {"main": role(*commands, instances=2)}, **(more or {}), extras={
        "code": {"sha256": sha, **code}, "env": {"NOTE": "$(HOME) $$ <% $parameters.x %>"}})
    return m.wait(name)


def test_code_is_the_working_directory_of_each_task(check):
    """Each task has its own copy, which it may change; damaged code is explained."""
    with Machine() as m:
        sha = put(m, *archive(CODE))
        # /srv is a directory of this machine, the others are not there; /tmp is that of the task.
        for n, path in enumerate((None, "/srv/my/code", "/tmp/code")):
            check.equal(f"{path}: state", with_code(m, f"good{n}", sha, commit="9fceb02", **({"path": path} if path else {})),
                        "SUCCEEDED")
            for index in (0, 1):
                lines = m.log(f"good{n}", "main", index)
                for line in (f"in {path or '/workspace'} of . .. lib train.sh ",
                             f"commit 9fceb02 of {path or '/workspace'}, note $(HOME) $$ <% $parameters.x %>",
                             "result", "archive is read-only"):
                    check.ok(f"{path}, task {index}: {line}", f"{line.strip()}\n" in lines, lines)
        check.ok("the copies are removed", wait_until(lambda: not m.pods()), m.pods())
        packed, cut = archive({"a": b"x"})
        put(m, packed[:-8], cut)
        other = put(m, packed, "1" * 64)
        for name, wanted, code, why in (
                ("cut", cut, 252, "step code (exit code 252): the code of the job cannot be unpacked into /workspace: the archive ends too early"),
                ("other", other, 252, f"the SHA-256 of the archive is {cut}, not {other}"),
                ("gone", "2" * 64, -1204, "the code of the job cannot be mounted at /usr/local/pai-code/0: the directory ")):
            # A server that knows of no such archive refuses the job, so that it is removed later.
            if name == "gone":
                shutil.rmtree(os.path.dirname(os.path.join(m.where, "code", "x")))
            check.equal(f"{name}: state", with_code(m, name, wanted), "FAILED")
            check.equal(f"{name}: code", m.code(name), code)
            said = m.request("GET", f"/api/v2/jobs/{USER}~{name}").json["jobStatus"]["appExitDiagnostics"]
            check.ok(f"{name}: {why}", why in said, said)


def test_code_needs_a_sandbox(check):
    empty = tempfile.mkdtemp(prefix="rest-lit-local.")
    os.symlink(shutil.which("env"), os.path.join(empty, "env"))
    with Machine(environment={**os.environ, "PATH": empty}) as m:
        check.equal("state", with_code(m, "plain", put(m, *archive(CODE))), "FAILED")
        said = m.request("GET", f"/api/v2/jobs/{USER}~plain").json["jobStatus"]["appExitDiagnostics"]
        check.ok("says why", "code cannot be shown at /workspace without a sandbox: install bubblewrap" in said, said)


def test_code_is_shown_in_images_too(check):
    registry, mine = images.prepare()
    if registry is None:
        return
    try:
        registry.gate.set()
        with Machine("--images", "oci", **mine) as m:
            sha = put(m, *archive(CODE))
            more = images.image(f"{registry.open}/team/programs:1")
            check.equal("state", with_code(m, "image", sha, ("cat /etc/hello", "pwd", "echo $NOTE", "echo y >lib/mine",
                                                             "cat lib/*", "ls -l train.sh"), more), "SUCCEEDED")
            lines = m.log("image", "main", 1)
            for line in ("hello from the image", "/workspace", "x = 1", "y"):
                check.ok(line, f"{line}\n" in lines, lines)
            check.ok("writable for all", "-rwxrwxrwx" in lines, lines)
    finally:
        registry.close()
