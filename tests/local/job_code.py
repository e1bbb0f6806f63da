"""Jobs with code (extras.code) and variables (extras.env)."""
import hashlib
import os
import shutil
import tempfile

import images
from archives import archive
from harness import USER, wait_until
from machine import Machine, role

TRAIN = b"""#!/bin/sh
echo in $(pwd) of $(ls -a | tr '\\n' ' ')
echo commit "$PAI_CODE_COMMIT" of "$PAI_CODE_DIR", note "$NOTE"
echo result >lib/result && cat lib/result
(echo x >/usr/local/pai-code/0/part) 2>/dev/null || echo archive is read-only
"""
CODE = {"lib": None, "lib/a.py": b"x = 1\n", "train.sh": ("x", TRAIN)}


def put(m, sha, packed):
    reply = m.request("PUT", f"/api/v2/code/{sha}", packed, {"Content-Type": "application/gzip"})
    if reply.status not in (200, 201):
        raise RuntimeError(str(reply))
    return sha


def start(m, name, sha, commands=("./train.sh",), more=None, **code):
    m.start(name, {"main": role(*commands, instances=2)}, **(more or {}), extras={
        "code": {"sha256": sha, **code}, "env": {"NOTE": "$(HOME) $$ <% $parameters.x %>"}})


def fails(check, m, name, code, why):
    check.equal(f"{name}: state", m.wait(name), "FAILED")
    check.equal(f"{name}: code", m.code(name), code)
    said = m.request("GET", f"/api/v2/jobs/{USER}~{name}").json["jobStatus"]["appExitDiagnostics"]
    check.ok(f"{name}: {why}", why in said, said)


def test_code_is_the_working_directory_of_each_task(check):
    """Each task has its own copy, which it may change."""
    with Machine() as m:
        sha = put(m, *archive(CODE))
        # /srv is a directory of this machine, the others are not there; /tmp is that of the task.
        for n, path in enumerate((None, "/srv/my/code", "/tmp/code")):
            start(m, f"good{n}", sha, commit="9fceb02", **({"path": path} if path else {}))
            check.equal(f"{path}: state", m.wait(f"good{n}"), "SUCCEEDED")
            for index in (0, 1):
                lines = m.log(f"good{n}", "main", index)
                for line in (f"in {path or '/workspace'} of . .. lib train.sh ",
                             f"commit 9fceb02 of {path or '/workspace'}, note $(HOME) $$ <% $parameters.x %>",
                             "result", "archive is read-only"):
                    check.ok(f"{path}, task {index}: {line}", f"{line.strip()}\n" in lines, lines)
        check.ok("the copies are removed", wait_until(lambda: not m.pods()), m.pods())


def test_damaged_code_is_explained(check):
    """What a disk may do to an archive that was good when it came."""
    def stored(name):
        sha = put(m, *archive({name: b"x"}))
        kept = hashlib.sha256(f"{USER}\0{sha}".encode()).hexdigest()[:40]
        return sha, os.path.join(m.where, "code", f"code-{kept}", "part")

    with Machine() as m:
        sha, part = stored("cut")
        os.truncate(part, os.path.getsize(part) - 9)
        start(m, "cut", sha)
        fails(check, m, "cut", 252, "step code (exit code 252): the code of the job cannot be unpacked into /workspace: the "
              "archive ends too early")
        sha, part = stored("other")
        other, packed = archive({"another": b""})
        with open(part, "wb") as f:
            f.write(packed)
        start(m, "other", sha)
        fails(check, m, "other", 252, f"the SHA-256 of the archive is {other}, not {sha}")
        # The server refuses a job whose archive is gone, so this one is removed while the job waits.
        m.start("busy", {"main": role("sleep 600", cpu=64)})
        m.wait("busy", "RUNNING")
        sha, part = stored("gone")
        start(m, "gone", sha)
        shutil.rmtree(os.path.dirname(part))
        m.stop_job("busy")
        fails(check, m, "gone", -1204, "the code of the job cannot be mounted at /usr/local/pai-code/0: the directory ")


def test_code_needs_a_sandbox(check):
    empty = tempfile.mkdtemp(prefix="rest-lit-local.")
    os.symlink(shutil.which("env"), os.path.join(empty, "env"))
    with Machine(environment={**os.environ, "PATH": empty}) as m:
        start(m, "plain", put(m, *archive(CODE)))
        fails(check, m, "plain", -1204, "code cannot be shown at /workspace without a sandbox: install bubblewrap")


def test_code_is_shown_in_images_too(check):
    registry, mine = images.prepare()
    if registry is None:
        return
    try:
        registry.gate.set()
        with Machine("--images", "oci", **mine) as m:
            sha = put(m, *archive(CODE))
            more = images.image(f"{registry.open}/team/programs:1")
            start(m, "image", sha, ("cat /etc/hello", "pwd", "echo y >lib/mine", "cat lib/*", "ls -l train.sh"), more)
            check.equal("state", m.wait("image"), "SUCCEEDED")
            lines = m.log("image", "main", 1)
            for line in ("hello from the image", "/workspace", "x = 1", "y"):
                check.ok(line, f"{line}\n" in lines, lines)
            check.ok("writable for all", "-rwxrwxrwx" in lines, lines)
    finally:
        registry.close()
