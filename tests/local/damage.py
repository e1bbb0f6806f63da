"""Kinds of damage to the directory of one machine.  No file that a person might want is deleted, and
each loss is named: in the server's log, by `rest-lit check`, and on the answer of `logs`."""
import contextlib
import glob
import hashlib
import os
import shutil
import signal
import sqlite3
import subprocess
import tempfile

from archives import archive
from harness import BINARY, USER, Server, command_line, wait_until
from job_code import put
from machine import AS_NOBODY, NOBODY, Machine, role

ENDED = [f"ended{i}" for i in range(6)]
ROOT = os.geteuid() == 0


# ---- a directory with jobs, of a server that was killed ----
def files(where, *patterns):
    """Digests of files that are not empty, by path."""
    found = {}
    for path in (p for pattern in patterns for p in glob.glob(os.path.join(where, pattern), recursive=True)):
        with contextlib.suppress(FileNotFoundError):  # the server removes what is in trash/
            if os.path.isfile(path) and not os.path.islink(path) and os.path.getsize(path):
                with open(path, "rb") as f:
                    found[os.path.relpath(path, where)] = hashlib.sha256(f.read()).hexdigest()
    return found


def wanted(where):
    """What a person might want: logs, code and results."""
    return files(where, "logs/**", "pods/*/log*", "pods/*/init.log", "code/*/part", "results/*/**")


def jobs_of(where):
    with tempfile.TemporaryDirectory(prefix="rest-lit-copy.") as copy:
        for name in glob.glob(os.path.join(where, "store.db*")):
            shutil.copy(name, copy)
        with sqlite3.connect(os.path.join(copy, "store.db")) as database:
            return {name for (name,) in database.execute(
                "SELECT body ->> '$.metadata.annotations.jobName' FROM object WHERE kind = 0")}


def make_base(prefix=""):
    """Ended jobs with logs, code, and a task of which the shim was killed, too.  The last jobs are only
    in the log of the database."""
    m = Machine()
    put(m, *archive({"a.py": b"x = 1\n" * 1000}))
    for name in (prefix + ended for ended in ENDED[:3]):
        m.start(name, {"main": role(f"seq 3000; echo {name} >$PAI_RESULTS_DIR/model")}, extras={"results": True})
        m.wait(name)
    m.start("tried", {"main": role("echo begins; [ $FC_FRAMEWORK_ATTEMPT_ID != 0 ] || exec sleep 1000")})
    assert wait_until(lambda: "begins" in m.log("tried", "main"))
    wal = os.path.join(m.where, "store.db-wal")
    assert wait_until(lambda: os.path.getsize(wal) == 0)
    for i in range(20):
        late = [prefix + ended for ended in ENDED[3:]] if i == 0 else [f"again{i}"]
        for name in late:
            m.start(name, {"main": role(f"seq 3000; echo {name} >$PAI_RESULTS_DIR/model")}, extras={"results": True})
        for name in late:
            m.wait(name)
        m.kill()
        if os.path.getsize(wal) > 0:
            break
        m = m.again()
    for pid in m.shims().values():
        os.kill(pid, signal.SIGKILL)
    return m


def settle(where):
    """As a clean stop leaves it: all is in store.db."""
    database = sqlite3.connect(os.path.join(where, "store.db"))
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()


def overwrite(where, name, at, text):
    with open(os.path.join(where, name), "r+b") as f:
        f.seek(at)
        f.write(text)


def database(where, change):
    connected = sqlite3.connect(os.path.join(where, "store.db"))
    with connected:
        connected.execute(change)
    connected.close()


# ---- kinds of damage: each gets the directory, and that of another server ----
def truncated(part):
    def damage(where, _):
        settle(where)
        path = os.path.join(where, "store.db")
        os.truncate(path, part(os.path.getsize(path)))
    return damage


def head(at, value):
    def damage(where, _):
        settle(where)
        overwrite(where, "store.db", at, value)
    return damage


def missing(*names):
    def damage(where, _):
        for name in names:
            path = os.path.join(where, name)
            shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
    return damage


def emptied(where, _):
    os.truncate(os.path.join(where, "store.db"), 0)


def swapped(where, other):
    settle(where)
    settle(other)
    shutil.copy(os.path.join(other, "store.db"), os.path.join(where, "store.db"))


def foreign_log(where, other):
    shutil.copy(os.path.join(other, "store.db-wal"), os.path.join(where, "store.db-wal"))


def old_backup(where, _):
    settle(where)
    database(where, "DELETE FROM object WHERE kind = 0 AND body ->> '$.metadata.annotations.jobName' IN ('ended1', 'ended4')")


def no_row_of_code(where, _):
    settle(where)
    database(where, "DELETE FROM object WHERE name GLOB 'code-*'")


def backup_beside_a_log(where, _):
    copy = os.path.join(where, "copy")
    connected = sqlite3.connect(f"file:{where}/store.db?immutable=1", uri=True)
    connected.execute("VACUUM INTO ?", (copy,))
    connected.close()
    shutil.copy(copy, os.path.join(where, "store.db"))
    os.unlink(copy)


def flipped_log(where, _):
    path = os.path.join(where, "store.db-wal")
    at = 32 + 24 + 200  # in the first page
    with open(path, "rb") as f:
        f.seek(at)
        old = f.read(5)
    overwrite(where, "store.db-wal", at, bytes(b ^ 0x55 for b in old))


def log_head(where, _):
    overwrite(where, "store.db-wal", 16, b"\x55" * 8)


def cut_log(where, _):
    path = os.path.join(where, "store.db-wal")
    os.truncate(path, os.path.getsize(path) // 3)


def garbage_index(where, _):
    with open(os.path.join(where, "store.db-shm"), "wb") as f:
        f.write(os.urandom(32768))


def other_mode(where, _):
    os.chmod(where, 0o755)


def other_owner(where, _):
    if ROOT:
        os.chown(where, 0, 0)
    else:
        os.chmod(os.path.join(where, "store.db"), 0)


def read_only(where, _):
    os.chmod(where, 0o500)


def a_directory(where, _):
    os.rename(os.path.join(where, "store.db"), os.path.join(where, "kept.db"))
    os.mkdir(os.path.join(where, "store.db"))


def a_link(where, _):
    os.rename(os.path.join(where, "store.db"), os.path.join(where, "kept.db"))
    os.symlink("kept.db", os.path.join(where, "store.db"))


def newer(where, _):
    settle(where)
    database(where, "CREATE TABLE later(x)")
    database(where, "PRAGMA user_version = 99")


def attempt_row(where, _):
    settle(where)
    database(where, "INSERT INTO attempt(uid, framework, figures) VALUES ('damaged', 'f', '{'), ('', 'f', '')")


REFUSED = {
    "store.db missing": (missing("store.db"), "there is no store.db"),
    "store.db and its log missing": (missing("store.db", "store.db-wal"), "there is no store.db"),
    "empty": (emptied, "store.db is empty"),
    "truncated to less than a page": (truncated(lambda n: 1000), "nothing in store.db can be read"),
    "all zero": (truncated(lambda n: 0) and head(0, b"\0" * (1 << 20)), "nothing in store.db can be read"),
    "log of another server": (foreign_log, "is not the log of the store.db beside it"),
    "backup beside the log of later": (backup_beside_a_log, "is not the log of the store.db beside it"),
    "other mode": (other_mode, "needs chmod 0700"),
    "other owner": (other_owner, "Permission denied"),
    "a directory in its place": (a_directory, "Is a directory"),
    "a link in its place": (a_link, "symbolic links"),
    "of a newer version": (newer, "made by a newer version"),
}
SALVAGED = {
    "truncated to half": truncated(lambda n: n // 8192 * 4096),
    "magic": head(0, b"XXXX"),
    "page size": head(16, b"\x77"),
    "version of writers": head(18, b"\x09"),
    "byte 28, the size": head(28, b"\0\0\0\2"),
    "a page": head(3 * 4096, b"\x33" * 4096),
}
STARTED = {
    "no damage": lambda where, _: None,
    "byte 60, the version": head(60, b"\0\0\0\x21"),
    "byte 92": head(92, b"\x55"),
    "store.db of another server": swapped,
    "old backup": old_backup,
    "row of code missing": no_row_of_code,
    "rows of usage": attempt_row,
    "log missing": missing("store.db-wal"),
    "log with flipped bytes": flipped_log,
    "log with another head": log_head,
    "log cut": cut_log,
    "index of garbage": garbage_index,
    "logs/ missing": missing("logs"),
    "pods/ missing": missing("pods"),
    "code/ missing": missing("code"),
    "directory that is read-only": read_only,
}


# ---- what must hold ----
def copy_of(base):
    above = tempfile.mkdtemp(prefix="rest-lit-damage.")
    os.chmod(above, 0o755)
    where = os.path.join(above, "jobs")
    subprocess.run(["cp", "-a", base, where], check=True)
    if ROOT:
        os.chown(above, NOBODY, NOBODY)
    return where


def check_output(where):
    command = [*(AS_NOBODY if ROOT else ()), BINARY]
    result = subprocess.run(command_line(command, ["check", "--local", where, "--no-auth", "--user", USER, "--images", "host"]),
                            capture_output=True, check=False, stdin=subprocess.DEVNULL)
    return result.stdout.decode() + result.stderr.decode()


def start(where):
    """A server, perhaps one that has ended."""
    arguments = ("--local", where, "--images", "host", "--cpus", "64", "--port-start", "10000", "--port-end", "20000", "--gpus", "none")
    server = Server(*arguments, wait=False, program=[*(AS_NOBODY if ROOT else ()), BINARY])
    server.comes_up()
    return server


def log_answer(server, name):
    reply = server.request("GET", f"/api/v2/jobs/{USER}~{name}/attempts/0/taskRoles/main/taskIndex/0/attempts/0/logs")
    return reply.status, reply.body.decode()


def check_nothing_is_deleted(check, kind, where, before):
    after = set(files(where, "**").values()) | set(files(where, "damaged/**").values())
    check.equal(f"{kind}: nothing is deleted", [p for p, d in before.items() if d not in after], [])


def check_losses_are_named(check, kind, where, server, names):
    """Of all jobs that the server does not have any more, or has as damaged."""
    listed = {j["name"]: j["state"] for j in server.request("GET", "/api/v2/jobs").json}
    lost = names - set(listed)
    kept = {name for name in names & set(listed)}
    check.ok(f"{kind}: all are told", wait_until(lambda: all(f"{USER}~{name}" in server.log() for name in lost)), (lost, server.log()))
    said = check_output(where)
    unknown = [os.path.basename(path) for path in glob.glob(os.path.join(where, "results", "unknown-*"))]
    check.ok(f"{kind}: results without a job are named", all(f"results/{name}" in server.log() for name in unknown), (unknown, server.log()))
    check.ok(f"{kind}: as many as jobs", len(unknown) >= len(lost & set(ENDED)), (unknown, lost))
    for name in lost:
        status, body = log_answer(server, name)
        check.ok(f"{kind}: the answer of logs", status == 404 and f"damaged/{USER}~{name}" in body, body)
        check.ok(f"{kind}: check", f"{USER}~{name}" in said, said)
    return lost, kept, said


def damage_tests(check, kinds, then):
    base, other = make_base(), make_base("foreign")
    names = jobs_of(base.where)
    try:
        for kind, damage in kinds.items():
            where = copy_of(base.where)
            there, text = damage if isinstance(damage, tuple) else (damage, "")
            second = copy_of(other.where)
            there(where, second)
            server = None
            try:
                before, databases = wanted(where), files(where, "store.db*", "kept.db")
                server = start(where)
                then(check, kind, where, server, names, before, databases, text)
            finally:
                if server:
                    server.kill()
                subprocess.run(["chmod", "-R", "u+rwX", where], check=False)
                shutil.rmtree(os.path.dirname(where), ignore_errors=True)  # a task that is tried again may still write
                shutil.rmtree(os.path.dirname(second), ignore_errors=True)
    finally:
        for m in (base, other):
            shutil.rmtree(os.path.dirname(m.where), ignore_errors=True)


def refuses(check, kind, where, server, names, before, databases, text):
    check.ok(f"{kind}: refused", server.process.poll() is not None and text in server.log(), server.log()[-600:])
    check.equal(f"{kind}: all is as it was", {**wanted(where), **files(where, "store.db*", "kept.db")}, {**before, **databases})
    if text and not text.endswith(("links", "newer version", "Is a directory", "beside it", "can be read")):
        check.ok(f"{kind}: check says so", text in check_output(where).replace("\n         ", " "), check_output(where))


def starts(check, kind, where, server, names, before, databases, text):
    if not check.ok(f"{kind}: starts", server.process.poll() is None and server.ready(), server.log()[-600:]):
        return
    wait_until(lambda: not glob.glob(os.path.join(where, "pods", "*")))
    lost, kept, said = check_losses_are_named(check, kind, where, server, names)
    check_nothing_is_deleted(check, kind, where, before)
    if kind in ("no damage", "byte 92", "index of garbage", "byte 60, the version", "code/ missing", "directory that is read-only"):
        check.equal(f"{kind}: all jobs are there", lost, set())
        check.ok(f"{kind}: nothing is moved", kind.startswith("byte 60") or not os.path.exists(os.path.join(where, "damaged")), said)
    elif kind in ("log missing", "log with flipped bytes", "old backup", "store.db of another server"):
        check.ok(f"{kind}: it is a loss", len(lost) >= 2, (lost, kept))
    if kind in ("log with flipped bytes", "log with another head"):
        aside = files(where, "damaged/store.db-wal")
        check.equal(f"{kind}: the log is kept", list(aside.values()), [databases["store.db-wal"]])
        check.ok(f"{kind}: it is told", "store.db-wal was damaged" in server.log() and "store.db-wal was damaged" in said.replace("\n         ", " "), said)
    if kind == "rows of usage":
        check.equal(f"{kind}: all jobs are there", lost, set())
        check.ok(f"{kind}: it is told", "2 records of what tasks have used were damaged, and were dropped" in server.log(), server.log())
    if kind == "row of code missing":
        check.ok(f"{kind}: it is told", server.logged("the database lacks code that was uploaded") and
                 "the database lacks code that was uploaded" in check_output(where).replace("\n         ", " "), server.log())
        check.ok(f"{kind}: it is kept", files(where, "damaged/code/code-code-*/part"), os.listdir(where))
    if kind in ("logs/ missing", "pods/ missing"):
        folder = kind.split()[0].strip("/")
        check.ok(f"{kind}: it is told", f"/{folder} was not there" in server.log() and f"{folder} was not there" in said.replace("\n         ", " "), said)
        name = ENDED[0] if folder == "logs" else "tried"
        check.ok(f"{kind}: the answer of logs", "is lost" in log_answer(server, name)[1], log_answer(server, name))


def salvages(check, kind, where, server, names, before, databases, text):
    if not check.ok(f"{kind}: starts", server.process.poll() is None and server.ready(), server.log()[-600:]):
        return
    wait_until(lambda: not glob.glob(os.path.join(where, "pods", "*")))
    check_losses_are_named(check, kind, where, server, names)
    check_nothing_is_deleted(check, kind, where, {**before, "store.db": databases["store.db"]})
    check.ok(f"{kind}: it is told", "store.db was damaged" in server.log(), server.log())
    empty = [p for p in glob.glob(os.path.join(where, "damaged", "*")) if os.path.isfile(p) and not os.path.getsize(p)]
    check.equal(f"{kind}: no file without contents", empty, [])


def test_directory_that_cannot_be_trusted_is_refused_as_it_is(check):
    damage_tests(check, REFUSED, refuses)


def test_losses_of_a_directory_are_named_and_their_files_kept(check):
    damage_tests(check, STARTED, starts)


def test_damaged_database_is_read_and_what_is_missing_is_named(check):
    damage_tests(check, SALVAGED, salvages)


def test_full_disk_while_a_database_is_read_changes_nothing(check):
    """The file system is full in the middle of the salvage: the start is refused, and succeeds later."""
    above = tempfile.mkdtemp(prefix="rest-lit-disk.")
    os.chmod(above, 0o755)
    base = make_base()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "none", above], capture_output=True, check=False).returncode != 0:
        print("     not tested: only root can mount a small file system", flush=True)
        return
    server, where = None, os.path.join(above, "jobs")
    try:
        names = jobs_of(base.where)
        subprocess.run(["cp", "-a", base.where, where], check=True)
        head(3 * 4096, b"\x33" * 4096)(where, None)
        before, databases = wanted(where), files(where, "store.db*")
        ballast = os.open(os.path.join(above, "ballast"), os.O_WRONLY | os.O_CREAT)
        room = os.statvfs(above)
        os.posix_fallocate(ballast, 0, room.f_bavail * room.f_frsize - 40960)
        os.close(ballast)
        server = start(where)
        check.ok("refused", server.process.poll() is not None and "is damaged, and cannot be copied" in server.log(), server.log())
        check.equal("all is as it was", {**wanted(where), **files(where, "store.db*")}, {**before, **databases})
        os.unlink(os.path.join(above, "ballast"))
        server = start(where)
        salvages(check, "with room", where, server, names, before, databases, "")
    finally:
        if server:
            server.kill()
        subprocess.run(["umount", "-l", above], check=False)
        shutil.rmtree(os.path.dirname(base.where), ignore_errors=True)
