"""How often a job is tried that ends in the same way each time, and what is said of the tries."""
import fcntl
import os
import re
import subprocess
import tempfile

from harness import ROOT, USER, wait_until
from machine import DONE, Machine, role
from users import Site

with open(os.path.join(ROOT, "tests", "data", "runtime", "ends.tsv"), encoding="utf-8") as f:
    ENDS = [line.rstrip("\n").split("\t") for line in f if not line.startswith("#")]


def test_tries_of_the_table_end_on_one_machine(check):
    """The commands of the table of ends: exit code, number of tries, and what `show` says."""
    rows = [row for row in ENDS if row[4] != "-"]
    with Site() as m:
        for i, row in enumerate(rows):
            m.start(f"end{i}", {"main": role(row[4].encode().decode("unicode_escape"))})
        for i, (name, _, _, _, _, _, code, tries, _, show) in enumerate(rows):
            check.equal(f"{name}: state", m.wait(f"end{i}"), "FAILED")
            check.equal(f"{name}: exit code", m.code(f"end{i}"), int(code))
            status = m.get(m.path(f"end{i}")).json["jobStatus"]
            check.equal(f"{name}: tries", status["retries"] + 1, int(tries))
            said = m.client("show", f"end{i}").stdout
            if show != "-":
                check.ok(f"{name}: show", f"{int(tries) - 1} have ended, the last with {show}" in said, said)
                check.equal(f"{name}: the last 2", status["previousEnd"]["alike"], 2)


def test_next_try_shows_how_the_one_before_ended(check):
    """While the next try runs or waits, `show`, `jobs` and the details have tries, exit code and lines."""
    command = "[ $FC_FRAMEWORK_ATTEMPT_ID = 2 ] && exec sleep 1000; echo line of $FC_FRAMEWORK_ATTEMPT_ID; kill -9 $$"
    with Site() as m:
        m.start("again", {"main": role(command)})
        check.ok("the third try runs", wait_until(lambda: m.get(m.path("again")).json["jobStatus"]["retries"] == 2 and m.state("again") == "RUNNING"))
        previous = m.get(m.path("again")).json["jobStatus"]["previousEnd"]
        check.equal("its code", previous["appExitCode"], 137)
        check.ok("its lines", "line of 1" in previous["appExitMessages"]["runtime"]["errorLogs"]["user"], previous)
        said = m.client("show", "again").stdout
        check.ok("show", "tries:    2 have ended, the last with exit code 137 (ContainerSigKillReceived); the last 2 ended alike" in said, said)
        check.ok("the column of retries", " 2 " in said.splitlines()[-1], said)
        listed = m.client("jobs").stdout
        check.ok("jobs", "try 3 after ContainerSigKillReceived (137)" in listed, listed)


def said_of(machine, name):
    """Why it waits, and how the try before ended."""
    status = machine.request("GET", f"/api/v2/jobs/{USER}~{name}").json["jobStatus"]
    return f"{status.get('waitingReason')} {status.get('previousEnd')}"


def test_tasks_without_space_for_their_files_wait(check):
    """While there is no room for the files of a task, in its directory or for init, it waits and says so."""
    where = tempfile.mkdtemp(prefix="rest-lit-inodes.")
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m,nr_inodes=600", "none", where], capture_output=True).returncode != 0:
        print("     not tested: only root can mount a small file system", flush=True)
        return
    ballast = os.path.join(where, "ballast")
    os.mkdir(ballast)
    try:
        with Machine(where=os.path.join(where, "jobs")) as m:
            m.start("first", {"main": role("true")})
            check.equal("with room", m.wait("first"), "SUCCEEDED")
            said = []
            for free in (6, 18, 24):
                name, files = f"free{free}", []
                try:
                    while True:
                        files.append(os.path.join(ballast, str(len(files))))
                        open(files[-1], "wb").close()
                except OSError:
                    files.pop()
                for path in [files.pop() for _ in range(free)]:
                    os.unlink(path)
                m.start(name, {"main": role("true")})
                wait_until(lambda: "space" in said_of(m, name) or m.state(name) in DONE)
                said.append(said_of(m, name))
                for path in files:
                    os.unlink(path)
                check.equal(f"with room for {free} files, and then for all: {said_of(m, name)}", m.wait(name), "SUCCEEDED")
            check.ok("the directory had no room", re.search("cannot (make|write)", said[0]), said)
            check.ok("init had no room", any("step" in text for text in said[1:]), said)
    finally:
        subprocess.run(["umount", "-l", where], check=False)


def test_waiting_try_shows_lines_and_log_of_the_one_before(check):
    """While the next try waits for its GPU, `show` has exit code and lines of the last one, `logs` its output."""
    with Site(gpus=1) as m:
        m.start("again", {"main": role("echo try $FC_FRAMEWORK_ATTEMPT_ID; kill -9 $$", gpu=1)}, jobRetryCount=100000)
        check.ok("it is tried again", wait_until(lambda: m.get(m.path("again")).json["jobStatus"]["retries"] > 0))
        with open(m.gpu_files[0], "rb") as gpu:
            fcntl.flock(gpu, fcntl.LOCK_EX)  # between two tries
            check.ok("it waits", wait_until(lambda: "other programs" in m.waiting_reason("again")))
            n = m.get(m.path("again")).json["jobStatus"]["retries"]
            said = m.client("show", "again").stdout
            check.ok("show: the last try", f"tries:    {n} ha" in said and "the last with exit code 137 (ContainerSigKillReceived)" in said, said)
            check.ok("show: its lines", f"lines:    try {n - 1}" in said, said)
            check.ok("show: why it waits", "other programs" in said, said)
            check.equal("show: retries", said.splitlines()[-1].split()[4:5], [str(n)])
            row = m.client("jobs").stdout
            check.ok("jobs", f"try {n + 1} after ContainerSigKillReceived (137); Waiting: waits for" in row, row)
            logs = m.client("logs", "again")
            check.ok("logs: the last try", f"try {n - 1}\n" in logs.stdout, logs)
            check.ok("logs: which one", "this is the output of the try before" in logs.stderr, logs)
            m.stop_job("again")
