"""The command line while it waits for a job: progress, logs and exit code."""
import re
import signal
import threading

from cli import ESCAPE, Cli
from fakeserver import JOB, FakeServer
from harness import SLOW, in_threads, job_v2, wait_until


def follow(fake, *arguments, **more):
    return Cli("submit", "--server", fake.url, "--wait", *arguments, "-", text=job_v2("job"), **more)


def test_cli_exit_code_reports_the_result_of_the_job(check):
    """The exit code and an explanation report the result of the job."""
    why = {"appExitCode": 137, "appExitSpec": {"phrase": "Killed", "reason": "no memory", "solution": ["more of it"]},
           "appExitTriggerTaskRoleName": "worker", "appExitTriggerTaskIndex": 1, "completedTime": 1795000192000}
    def one(row):
        events, state, status, code, words = row
        with FakeServer() as fake:
            fake.events = events
            with follow(fake) as c:
                check.ok("waits", c.says("WAITING"), c.stderr)
                fake.set("RUNNING", {"worker": ["RUNNING", "WAITING"]})
                check.ok("runs", c.says("worker 1/2 running, 1 waiting"), c.stderr)
                fake.set(state, {"worker": [state, state]}, **status)
                check.equal(f"{state}: exit code", c.end(), code)
                check.ok(f"{state}: words", all(w in c.stderr for w in words), c.stderr)
                check.equal(f"{state}: standard output", c.stdout, f"{JOB}\n")
    well = ("SUCCEEDED", {"completedTime": 1795000045000}, 0, ["SUCCEEDED after 45s"])
    in_threads(((True, *well), (False, *well),
                (True, "FAILED", why, 1, ["FAILED after 3m 12s, exit code 137 (Killed) of worker[1]", "no memory", "more of it"]),
                (True, "STOPPED", {}, 1, ["STOPPED"])), one)
    with FakeServer() as fake:
        with follow(fake) as c:
            check.ok("waits", c.says("WAITING"), c.stderr)
            fake.missing = True
            fake.cut()
            check.ok("removed", c.end() == 1 and "was deleted" in c.stderr, c.stderr)
        fake.missing = False
        fake.details = [(403, {}, {"message": "not yours"})]
        with follow(fake) as c:
            check.ok("forbidden", c.end() == 2 and "not yours" in c.stderr, c.stderr)
        with follow(fake, "--timeout", "2") as c:
            # The command may end before the job is accepted.
            check.ok("timeout", c.end() == 3 and "--timeout is over" in c.stderr and
                     (f"rest-lit stop {JOB}" in c.stderr or not c.stdout), c.stderr)


def test_cli_asks_again_only_after_a_change(check):
    """A change during a response causes another request; without a change there is none."""
    with FakeServer() as fake:
        fake.set("RUNNING", {"worker": ["RUNNING", "WAITING"]})
        with follow(fake, "--timeout", str(int(50 * SLOW))) as c:
            check.ok("runs", c.says("worker 1/2 running"), c.stderr)
            before = fake.count("GET", f"/api/v2/jobs/{JOB}")
            fake.hold = threading.Event()
            fake.set("RUNNING", {"worker": ["RUNNING"] * 2})
            check.ok("is asked for", wait_until(lambda: fake.count("GET", f"/api/v2/jobs/{JOB}") > before))
            fake.set("SUCCEEDED", {"worker": ["SUCCEEDED"] * 2})
            check.ok("an event", wait_until(lambda: fake.told == fake.version))
            fake.hold.set()
            check.equal("ends", c.end(), 0)


def test_cli_prints_plain_lines_into_a_pipe(check):
    """The output into a pipe has one line per change and no escape sequences."""
    with FakeServer() as fake:
        with follow(fake) as c:
            for i in range(5):
                fake.set("WAITING", {"worker": ["WAITING"] * 4}, waitingReason=
                         {"kind": "other", "reason": "Unschedulable", "message": "0/3 nodes have a GPU\x1b[2J",
                          "taskRoleName": "worker", "taskIndex": 2})
            check.ok("why it waits", c.says("worker[2]: Unschedulable: 0/3 nodes have a GPU\\x1b[2J"), c.stderr)
            for n in range(1, 5):
                fake.set("RUNNING", {"worker": ["RUNNING"] * n + ["WAITING"] * (4 - n)})
                check.ok(f"{n} run", c.says(f"worker {n}/4 running"), c.stderr)
            fake.set("SUCCEEDED", {"worker": ["SUCCEEDED"] * 4})
            check.equal("ends", c.end(), 0)
            lines = c.stderr.splitlines()
            check.ok("no line twice", len(lines) == len({line[9:] for line in lines}), lines)
            check.ok("the time before each", all(re.match(r"\d\d:\d\d:\d\d [A-Z]", line) for line in lines[:-1]), lines)
            check.ok("no escapes", ESCAPE not in c.stderr and "\r" not in c.stderr, c.stderr)
    for environment in ({"TERM": "dumb"}, {"NO_COLOR": "1"}):
        with FakeServer() as fake, follow(fake, columns=80, environment=environment) as c:
            check.ok("waits", c.says("WAITING"), c.stderr)
            fake.set("SUCCEEDED", {})
            check.ok(f"plain with {environment}", c.end() == 0 and ESCAPE not in c.stderr, c.stderr)


def plain(data):
    """Returns the text without colours."""
    return re.sub(r"\x1b\[\d*m", "", data)


def screen_of(data):
    """The lines that a terminal shows after these bytes, and all lines ever written."""
    lines, row, written = [""], 0, [""]
    data = plain(data)
    for part in re.findall(r"\x1b\[\d*[A-Za-z]|\r\n|\n|\r|[^\x1b\r\n]+|\x1b", data):
        if part in ("\n", "\r\n"):
            row += 1
            lines.extend([""] * (row + 1 - len(lines)))
        elif part == "\r":
            pass
        elif re.fullmatch(r"\x1b\[\d+A", part):
            row -= int(part[2:-1])
        elif part == "\x1b[J":
            lines[row:] = [""]
        elif part.startswith(ESCAPE):
            raise ValueError(f"unknown escape {part!r}")
        else:
            written.append(part)
            lines[row] = part
    return lines, written


def test_cli_redraws_a_block_on_a_terminal(check):
    """On a terminal, the command draws a block that fits the width, and removes it at the end."""
    for columns in (40, 100):
        with FakeServer() as fake:
            with follow(fake, "--logs", columns=columns, both=True) as c:
                check.ok("waits", c.says("WAITING"), c.stderr)
                fake.log("worker", 0, b"epoch 1 \x1b[31mred\x1b[0m\n10%\r20%\r30%\n")
                fake.set("RUNNING", {"worker": ["RUNNING"] + ["WAITING"] * 3, "ps": ["WAITING"]},
                         waitingReason={"message": "nodes " * 30})
                check.ok("a bar", c.says("[==") or c.says("[="), c.stderr)
                check.ok("the log", wait_until(lambda: "worker[0] | 30%" in plain(c.stderr)), c.stderr)
                check.ok("its name has a colour", re.search(r"\x1b\[3[2-6]mworker\[0\] \| \x1b\[0m30%", c.stderr), c.stderr)
                check.ok("drawn below it, once", wait_until(lambda: sum(
                    line.startswith("  worker") for line in screen_of(c.stderr)[0]) == 1), c.stderr)
                drawn = [line for line in screen_of(c.stderr)[1] if not line.startswith("worker[0]")]
                check.ok("not wider", max(map(len, drawn)) < columns, drawn)
                fake.set("SUCCEEDED", {"worker": ["SUCCEEDED"] * 4, "ps": ["SUCCEEDED"]})
                fake.end_log("worker", 0)
                check.equal("ends", c.end(), 0)
                lines, _ = screen_of(c.stderr)
                check.ok("its escapes are visible", "worker[0] | epoch 1 \\x1b[31mred\\x1b[0m" in lines, lines)
                check.ok("of 10%..30% the last", "worker[0] | 30%" in lines and "10%" not in c.stderr, lines)
                check.ok("the block is gone", not any("[=" in line or "[#" in line for line in lines), lines)
                check.ok("the verdict is last", lines[-2].startswith(f"{JOB} SUCCEEDED"), lines)


def test_cli_logs_print_each_line_once(check):
    """Complete lines of several tasks, each once, even if the server cuts connections."""
    with FakeServer() as fake:
        fake.pieces[("worker", 0, 0)] = 9    # in the middle of a line
        with follow(fake, "--logs", "--max-line", "100") as c:
            fake.log("worker", 0, b"first\nsecond\nthird\n")
            fake.log("ps", 0, b"\xff\x1b[31mraw\n" + b"x" * 250 + b"\n")
            fake.set("RUNNING", {"worker": ["RUNNING", "WAITING"], "ps": ["RUNNING"]})
            check.ok("cut, and gone on", c.says("worker[0] | third"), (c.stdout, c.stderr))
            fake.log("worker", 0, b"fourth, with no e")
            fake.log("worker", 1, b"late\n")
            fake.set("RUNNING", {"worker": ["RUNNING", "RUNNING"], "ps": ["RUNNING"]})
            check.ok("a task that begins later", c.says("worker[1] | late"), c.stdout)
            fake.log("worker", 0, b"nd")
            for key in (("worker", 0), ("worker", 1), ("ps", 0)):
                fake.end_log(*key)
            fake.set("SUCCEEDED", {"worker": ["SUCCEEDED", "SUCCEEDED"], "ps": ["SUCCEEDED"]})
            check.equal("ends", c.end(), 0)
            check.ok("each line once", c.stdout.count("first") == c.stdout.count("third") == 1 and
                     "worker[0] | second\n" in c.stdout and "worker[0] | fourth, with no end\n" in c.stdout, c.stdout)
            check.ok("raw in a pipe", b"ps[0] | \xff\x1b[31mraw\n" in c.out, c.out)
            check.ok("long lines are cut", "ps[0] | " + "x" * 100 + " ...\n" in c.stdout, c.stdout)


def test_cli_logs_are_retried_until_the_pod_exists(check):
    """The command retries logs until the pod exists."""
    with FakeServer() as fake:
        path = r".*/taskRoles/worker/taskIndex/0/attempts/0/logs/.*"
        fake.set("WAITING", {"worker": ["WAITING"]})
        with follow(fake, "--logs") as c:
            check.ok("again", wait_until(lambda: fake.count("GET", path) > 1), fake.requests)
            fake.log("worker", 0, b"short\n")
            check.ok("before it is said to run", c.says("worker[0] | short"), (c.stdout, c.stderr))
            fake.end_log("worker", 0)
            fake.set("SUCCEEDED", {"worker": ["SUCCEEDED"]})
            check.equal("ends", c.end(), 0)
            check.equal("once", c.stdout.count("short"), 1)


def test_cli_logs_end_with_the_stored_output(check):
    """The pod is deleted before the end of its log is read; the server has the end of the
    output."""
    with FakeServer() as fake:
        key = "worker", 0, 0
        fake.log("worker", 0, b"one\n")
        with follow(fake, "--logs") as c:
            fake.set("RUNNING", {"worker": ["RUNNING"]})
            check.ok("the beginning", c.says("worker[0] | one"), (c.stdout, c.stderr))
            with fake.changed:
                fake.logs[key], fake.dropped[key] = b"ne\ntwo\nthree\n", 1
                fake.ended.add(key)
                fake.cut()
            fake.set("SUCCEEDED", {"worker": ["SUCCEEDED"]})
            check.equal("ends", c.end(), 0)
            check.equal("each line once", c.stdout, f"{JOB}\n" + "".join(
                f"worker[0] | {line}\n" for line in ("one", "two", "three")))
    for start in ("20260131", None):
        with FakeServer() as fake:
            fake.log("worker", 0, b"one\ntwo\n")
            with follow(fake, "--logs") as c:
                fake.set("RUNNING", {"worker": ["RUNNING"]})
                check.ok("before", c.says("worker[0] | two"), (c.stdout, c.stderr))
                with fake.changed:
                    fake.logs[key], fake.starts[key] = b"two\nthree\n", start
                    fake.ended.add(key)
                    fake.cut()
                fake.set("SUCCEEDED", {"worker": ["SUCCEEDED"]})
                check.equal("rotated: ends", c.end(), 0)
                check.ok("from the beginning of what there is", "worker[0] | two\nworker[0] | two\nworker[0] | three\n" in c.stdout, c.stdout)
                check.ok("which is said", "worker[0]: lines may be repeated or missing from here on\n" in c.stderr, c.stderr)
    with FakeServer() as fake:
        with follow(fake, "--logs") as c:
            fake.log("worker", 0, b"Hello\n")
            fake.end_log("worker", 0)
            fake.dropped["worker", 0, 0] = 70000
            fake.set("SUCCEEDED", {"worker": ["SUCCEEDED"]})
            check.equal("never seen to run: ends", c.end(), 0)
            check.equal("never seen to run: all that is kept", c.stdout, f"{JOB}\nworker[0] | Hello\n")
            check.ok("and what is not kept", "worker[0]: 70000 bytes before the next line are not kept\n" in c.stderr, c.stderr)


def test_cli_logs_select_the_first_tasks_of_each_role(check):
    """With many tasks, the command selects the first tasks of each role and prints which."""
    with FakeServer() as fake:
        for role in ("ps", "worker"):
            for i in range(5):
                fake.log(role, i, b"hello\n")
                fake.end_log(role, i)
        with follow(fake, "--logs", "--max-logs", "3") as c:
            fake.set("RUNNING", {"ps": ["RUNNING"] * 5, "worker": ["RUNNING"] * 5})
            check.ok("which", c.says("logs of ps[0], worker[0], ps[1]; not of 7 other tasks"), c.stderr)
            fake.set("SUCCEEDED", {"ps": ["SUCCEEDED"] * 5, "worker": ["SUCCEEDED"] * 5})
            check.equal("ends", c.end(), 0)
            check.equal("those", sorted(c.stdout.split()), sorted(
                f"{JOB} ps[0] | hello ps[1] | hello worker[0] | hello".split()))


def test_cli_logs_show_each_attempt_of_a_task(check):
    """A retried task: the output of each attempt.  And a missing log."""
    with FakeServer() as fake:
        fake.log("worker", 0, b"one\n")
        fake.end_log("worker", 0)
        with follow(fake, "--logs") as c:
            fake.set("RUNNING", {"worker": ["RUNNING"]})
            check.ok("first", c.says("worker[0] | one"), c.stdout)
            fake.log("worker", 0, b"two\n", attempt=1)
            fake.end_log("worker", 0, attempt=1)
            fake.set("RUNNING", {"worker": [("RUNNING", 1)]})
            check.ok("second", c.says("worker[0] | two"), c.stdout)
            fake.set("FAILED", {"worker": [("FAILED", 2)]})
            check.equal("ends", c.end(), 1)
            check.ok("the third has none", "no log of worker[0]: there is no log (404)" in c.stderr, c.stderr)
            check.equal("each once", c.stdout, f"{JOB}\nworker[0] | one\nworker[0] | two\n")


def test_cli_continues_when_the_server_is_back(check):
    """Waiting continues when the server is back; after the time limit, it fails with a message."""
    with FakeServer() as fake:
        with follow(fake, "--logs") as c:
            fake.log("worker", 0, b"before\n")
            fake.set("RUNNING", {"worker": ["RUNNING"]})
            check.ok("runs", c.says("worker[0] | before"), c.stderr)
            fake.down = True
            fake.cut()
            check.ok("away", c.says("trying again"), c.stderr)
            fake.log("worker", 0, b"after\n")
            fake.end_log("worker", 0)
            fake.down = False
            check.ok("back", c.says("the server answers again"), c.stderr)
            check.ok("with the log", c.says("worker[0] | after"), c.stdout)
            fake.set("SUCCEEDED", {"worker": ["SUCCEEDED"]})
            check.equal("ends", c.end(), 0)
            check.equal("each line once", c.stdout, f"{JOB}\nworker[0] | before\nworker[0] | after\n")
        fake.set("RUNNING", {})
        with follow(fake, "--patience", "1") as c:
            check.ok("runs", c.says("RUNNING"), c.stderr)
            fake.down = True
            fake.cut()
            check.ok("in vain", c.end() == 3 and "goes on" in c.stderr, c.stderr)


def test_cli_interrupt_does_not_stop_the_job(check):
    """Ctrl-C ends the waiting, not the job; so does a closed output pipe."""
    with FakeServer() as fake:
        for signo in (signal.SIGINT, signal.SIGTERM):
            with follow(fake, columns=80) as c:
                check.ok("waits", c.says("WAITING"), c.stderr)
                c.process.send_signal(signo)
                check.ok("says so", c.end() == 3 and f"{JOB} goes on; to stop it: rest-lit stop {JOB}" in c.stderr, c.stderr)
        check.equal("nothing was stopped", fake.count("PUT", ".*"), 0)
