"""The store of `--local DIR`, and conditions that prevent the start of `serve`."""
import errno
import json
import os
import shutil
import stat
import subprocess
import tempfile
import time

from harness import BINARY, Server, database_objects, framework_name, free_port, job_v2, job_v2_secret, run, wait_until


def modes(directory, wanted_file=0o600, wanted_directory=0o700):
    """Files with other permissions than these."""
    wrong = []
    for d, _, files in os.walk(directory):
        if stat.S_IMODE(os.lstat(d).st_mode) != wanted_directory:
            wrong.append((d, oct(os.lstat(d).st_mode)))
        wrong += [(f, oct(os.lstat(os.path.join(d, f)).st_mode)) for f in files
                  if stat.S_IMODE(os.lstat(os.path.join(d, f)).st_mode) != wanted_file]
    return wrong


def test_directory_keeps_jobs_and_secrets_over_a_restart(check):
    """A job and the Secrets that it owns exist after a restart."""
    marker = "Marker-in-a-secret-0815"
    with Server("--engine=none", "--local", "jobs") as server:
        where = os.path.join(server.directory, "jobs")
        check.equal("submitted", server.submit(job_v2_secret("kept", marker)).status, 202)
        objects = database_objects(where, framework_name("kept"))
        framework = objects[0] if objects else {}
        check.equal("there is a Framework", framework.get("kind"), "Framework")
        check.equal("... which is started", framework.get("spec", {}).get("executionType"), "Start")
        metadata = framework.get("metadata", {})
        check.ok("... with uid and time", metadata.get("uid") and metadata.get("creationTimestamp"), metadata)
        secrets = [v for v in objects if v["kind"] == "Secret"]
        check.equal("there are two Secrets", len(secrets), 2)
        check.ok("... owned by the Framework", secrets and all(
            [o.get("uid") for o in s["metadata"].get("ownerReferences", [])] == [metadata.get("uid")]
            for s in secrets), secrets and secrets[0]["metadata"])
        check.ok("the secret is not in the Framework", marker not in json.dumps(framework))
        check.equal("permissions", modes(where), [])
        check.ok("the secret is not in the log", marker not in server.settled_log())

        check.equal("stopped", server.stop(), 0)
        with Server("--local", where, "--engine", "none") as again:
            check.equal("ready at once", again.request("GET", "/readyz").status, 200)
            check.equal("still there after a restart", again.submit(job_v2("kept")).status, 409)
            check.equal("and listed", [row["name"] for row in again.request("GET", "/api/v2/jobs").json], ["kept"])


def test_directory_is_used_by_one_server_only(check):
    with Server("--engine=none", "--local", "jobs") as server:
        where = os.path.join(server.directory, "jobs")
        second = run("serve", "--listen", f"127.0.0.1:{free_port()}", "--no-auth", "--user", "alice",
                     "--local", where, "--engine", "none")
        check.ok("a second server on the same directory is refused", second.returncode != 0)
        check.ok("... and says why", b"jobs" in second.stderr, second.stderr)


def refuse(check, what, *arguments, word="", environment=None):
    """`serve` with these arguments must not start, and must print the reason."""
    try:
        result = run("serve", *arguments)
    except Exception as e:
        check.ok(f"{what}: does not start", False, repr(e))
        return
    text = result.stderr.decode("utf-8", "replace")
    check.ok(f"{what}: does not start", result.returncode not in (0, -6, -11), result)
    check.ok(f"{what}: says {word or 'why'}", word in text and text.strip(), text)


def test_unsafe_directories_are_refused(check):
    base = tempfile.mkdtemp(prefix="rest-lit-test.")
    listen = ["--listen", f"127.0.0.1:{free_port()}", "--no-auth", "--user", "alice", "--local"]
    real = os.path.join(base, "real")
    os.mkdir(real, 0o700)
    os.symlink(real, os.path.join(base, "link"))
    refuse(check, "directory is a symlink", *listen, os.path.join(base, "link"), word="link")
    opened = os.path.join(base, "open")
    os.mkdir(opened)
    os.chmod(opened, 0o777)
    refuse(check, "directory open to all", *listen, opened, word="open")
    plain = os.path.join(base, "file")
    with open(plain, "w"):
        pass
    refuse(check, "directory is a file", *listen, plain, word="file")
    refuse(check, "parent does not exist", *listen, os.path.join(base, "no", "such"), word="such")
    shutil.rmtree(base)


def test_planted_link_for_the_database_is_refused(check):
    """A link of another user of the machine in the place of the database."""
    with Server("--engine=none", "--local", "jobs") as server:
        where = os.path.join(server.directory, "jobs")
        server.stop()
        target = os.path.join(server.directory, "victim")
        os.rename(os.path.join(where, "store.db"), target)
        with open(target, "rb") as f:
            before = f.read()
        os.symlink(target, os.path.join(where, "store.db"))
        refuse(check, "a link", "--listen", f"127.0.0.1:{free_port()}", "--no-auth", "--user", "alice", "--local", where,
               "--engine", "none", word="store.db")
        with open(target, "rb") as f:
            check.ok("what it points at is untouched", f.read() == before)


def test_invalid_options_prevent_the_start(check):
    """Mistakes in options, in the configuration file, in a kubeconfig, and on the machine.  Which there are:
    tests/unit/server/config and tests/unit/k8s/transport/test_login.c."""
    base = tempfile.mkdtemp(prefix="rest-lit-test.")
    where = os.path.join(base, "jobs")
    port = free_port()
    here = f"127.0.0.1:{port}"
    alice = ["--no-auth", "--user", "alice"]
    for address in (f"0.0.0.0:{port}", f"[::]:{port}", f"192.0.2.1:{port}"):
        refuse(check, f"no logins on {address}", "--listen", address, *alice, "--local", where,
               word="loopback")
    refuse(check, "unknown option", "--listne", here, word="listne")
    refuse(check, "no such facts", "--listen", here, *alice, "--local", where, "--facts",
           os.path.join(base, "none"), word="none")
    refuse(check, "plain HTTP to another host", "--listen", here, *alice, "--apiserver",
           "http://192.0.2.1:8080", word="http")
    with Server("--engine=none", "--local", "jobs") as server:
        refuse(check, "the port is taken", "--listen", f"127.0.0.1:{server.port}", *alice,
               "--local", where, word=str(server.port))
    config = os.path.join(base, "config")
    for what, option, text, word in (
            ("configuration", ("--config", config, "--local", where), "lisen: x\n", "lisen"),
            ("kubeconfig", ("--kubeconfig", config), """{clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}],
                users: [{name: u, user: {exec: {command: sh}}}], contexts: [{name: c, context: {cluster: c, user: u}}],
                current-context: c}""", "exec")):
        with open(config, "w") as f:
            f.write(text)
        os.chmod(config, 0o600)
        refuse(check, what, "--listen", here, *alice, *option, word=word)
    shutil.rmtree(base)


READY_CACHE_S = 2.1
FULL = """mkdir -p -m 700 jobs && mount -t tmpfs -o size=4m,mode=0700 none jobs && exec "$@" """


def test_full_disk_is_reported_and_survived(check):
    """A full disk is reported, no object is incomplete, and jobs work when there is space again."""
    if subprocess.run(["unshare", "-rm", "true"], check=False, capture_output=True).returncode:
        print("     not tested: a full disk (may not unshare here)", flush=True)
        return
    with Server("--engine=none", "--local", "jobs", program=["unshare", "-rm", "sh", "-c", FULL, "sh", BINARY]) as server:
        check.equal("room: submitted", server.submit(job_v2_secret("first", "m")).status, 202)
        check.ok("room: ready", server.ready())
        inside = f"/proc/{server.process.pid}/cwd/jobs"
        filler, log = os.path.join(inside, "filler"), os.path.join(inside, "store.db-wal")
        check.ok("room: the log is emptied", wait_until(lambda: os.stat(log).st_size == 0))
        with open(filler, "wb", buffering=0) as f:
            try:
                while f.write(bytes(4096)):
                    pass
            except OSError as e:
                check.equal("it is full", e.errno, errno.ENOSPC)
        reply = server.submit(job_v2_secret("second", "m"))
        check.refused("full: answer", reply, 503, "UnavailableError", "No space left on device", "the disk is full")
        for method, path, value in (("PUT", "executionType", "STOP"), ("PUT", "tag", "x")):
            reply = server.request(method, f"/api/v2/jobs/alice~first/{path}", json.dumps({"value": value}),
                                   {"Content-Type": "application/json"})
            check.refused(f"full: {path}", reply, 503, "UnavailableError", "the disk is full")
        # Each loop asks again after a moment.
        check.ok("full: not ready, and why", wait_until(lambda: "the disk is full" in server.request("GET", "/readyz").message))
        check.equal("full: nothing is left", database_objects(inside, framework_name("second")), [])
        os.truncate(filler, os.stat(filler).st_size - 65536)
        time.sleep(READY_CACHE_S)
        check.ok("nearly full: not ready", "the disk is full" in server.request("GET", "/readyz").message)
        os.unlink(filler)
        check.ok("room again: ready", server.ready())
        check.equal("room again: submitted", server.submit(job_v2_secret("second", "m")).status, 202)
