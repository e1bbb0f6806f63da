"""rest-lit backup: a copy of the database of one machine."""
import os
import shutil
import sqlite3
import stat
import subprocess
import tempfile
import threading
from contextlib import closing

from clients import TokenServer
from fakeapi import FakeApi, fake_server
from harness import BINARY, database_objects, framework_name, job_v2_secret, run, wait_until
from tokens import bearer, token, write_file

MARKER = "Marker-in-a-backup-0816"


def names(path):
    return {row[0] for row in sqlite3.connect(path).execute("SELECT name FROM object")}


def test_backup_restores_the_jobs_of_its_time(check):
    base = tempfile.mkdtemp(prefix="rest-lit-test.")
    path = os.path.join(base, "copy.db")
    root = write_file(base, "root", token("root"))
    bob = write_file(base, "bob", token("bob"))
    with TokenServer() as server:
        where = os.path.join(server.directory, "jobs")
        at = ("--server", f"http://127.0.0.1:{server.port}", "--token-file")

        def submit(name):
            return server.submit(job_v2_secret(name, MARKER), bearer(token("bob"))).status
        check.equal("submitted", submit("first"), 202)
        result = run("backup", *at, bob, path)
        check.ok("users may not", result.returncode == 2 and b"only administrators" in result.stderr, result)
        check.ok("nothing is left of that", not os.path.exists(path))
        result = run("backup", *at, root, path)
        check.ok("made", result.returncode == 0 and not result.stderr, result)
        check.equal("private", stat.S_IMODE(os.stat(path).st_mode), 0o600)
        check.ok("the job and its Secrets are in it", framework_name("first", "bob") in names(path) and len(names(path)) == 3)
        check.equal("it is whole", sqlite3.connect(path).execute("PRAGMA integrity_check").fetchall(), [("ok",)])
        check.equal("no copy is left", [f for f in os.listdir(where) if "copy" in f], [])
        check.ok("the secret is not in the log", MARKER not in server.settled_log())
        with open(path, "rb") as f:
            before = f.read()
        result = run("backup", *at, root, path)
        check.ok("an existing file stays", result.returncode == 2 and b"File exists" in result.stderr, result)
        with open(path, "rb") as f:
            check.ok("... as it is", f.read() == before)
        result = run("backup", *at, root, os.path.join(base, "no", "such"))
        check.ok("no such directory", result.returncode == 2 and b"No such file" in result.stderr, result)

        check.equal("submitted later", submit("second"), 202)
        server.kill()
        for name in ("store.db", "store.db-wal"):
            os.unlink(os.path.join(where, name))
        shutil.copy(path, os.path.join(where, "store.db"))
        again = type(server)(*server.arguments, who=[], directory=server.directory)
        check.ok("starts with it", again.ready(), again.log())
        jobs = again.request("GET", "/api/v2/jobs", headers=bearer(token("bob"))).json
        check.equal("has the jobs of then", [j["name"] for j in jobs], ["first"])
        check.equal("takes jobs", again.submit(job_v2_secret("third", MARKER), bearer(token("bob"))).status, 202)
        check.equal("with a log", os.path.exists(os.path.join(where, "store.db-wal")), True)
        again.kill()
        check.ok("which is durable", database_objects(where, framework_name("third", "bob")))
    shutil.rmtree(base)


def test_backups_under_load_contain_whole_jobs_only(check):
    """Each has whole jobs only, all that were answered before; one is made at a time."""
    base = tempfile.mkdtemp(prefix="rest-lit-test.")
    root = write_file(base, "root", token("root"))
    with TokenServer() as server:
        made, ending = [], threading.Event()

        def submit():
            while not ending.is_set():
                name = f"job{len(made)}"
                if server.submit(job_v2_secret(name, MARKER), bearer(token("bob"))).status == 202:
                    made.append(framework_name(name, "bob"))
        thread = threading.Thread(target=submit)
        thread.start()
        command = (BINARY, "backup", "--server", f"http://127.0.0.1:{server.port}", "--token-file", root)
        for turn in range(5):
            wait_until(lambda: len(made) > 20 * (turn + 1))
            before = set(made)
            both = [subprocess.Popen((*command, os.path.join(base, f"{turn}{i}")), stderr=subprocess.PIPE) for i in range(2)]
            said = [(p.communicate()[1], p.returncode) for p in both]
            check.ok("one at least, and the other if it was later", 0 in [code for _, code in said] and all(
                code == 0 or (code == 3 and b"another backup" in text) for text, code in said), said)
            for i in range(2):
                if said[i][1] == 0:
                    found = names(os.path.join(base, f"{turn}{i}"))
                    check.ok("what was answered is there", before <= found, before - found)
                    check.equal("whole jobs", {len([n for n in found if n.startswith(name[:32])]) for name in found}, {3})
        ending.set()
        thread.join()
    shutil.rmtree(base)


def test_backup_of_a_cluster_is_refused(check):
    with closing(FakeApi()) as api, fake_server(api) as server:
        check.refused("a cluster", server.request("GET", "/api/v2/machine/backup"), 404, "NoMachineError", "etcd")
