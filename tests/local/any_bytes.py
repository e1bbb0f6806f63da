"""A task that writes bytes which are no text: what its log, the report of its end and the store have of them."""
import base64
import json
import os
import re
import subprocess

from harness import BINARY, PATIENCE, SLOW
from machine import role
from users import Site

ALL = bytes(range(256))
LONG = re.sub(rb"[\r\n]", b"", ALL) * 40
# An unfinished sequence, half a surrogate pair, an overlong one, one beyond Unicode.
BROKEN = b"a\0b \xe2\x82 \xed\xa0\x80 \xc0\xaf \xf4\x90\x80\x80 end"
SHOWN = "".join(chr(b) if 0 < b < 128 else "\ufffd" for b in BROKEN)
OUT = ALL + b"\n" + LONG + b"\n"
ERR = b'Traceback (most recent call last):\n  File "train.py", line 1, in <module>\nModuleNotFoundError: No module named ' + BROKEN + b"\n" + ALL
LINE = f"ModuleNotFoundError: No module named {SHOWN}"


def write(data, to):
    return f"echo {base64.b64encode(data).decode()} | base64 -d >&{to}"


def all_that_is_said(m):
    """The details of the job, its row in the list, its logs as bytes, and what the client prints."""
    (row,) = m.get("/api/v2/jobs").json
    logs = {name: m.get(link).body for name, link in m.links("bytes", "main", 0).items()}
    return {"details": m.get(m.path("bytes")).json, "row": row, "logs": logs, "show": m.client("show", "bytes"),
            "jobs": m.client("jobs").stdout.split()[-2:]}


def test_any_bytes_of_a_task_reach_its_users(check):
    """All bytes, NUL and broken UTF-8 in a long line and in the last lines: the logs have them as they are, the report
    of the end as text, and both after a kill of the server too."""
    first = Site()
    try:
        stream = first.watch("/api/v2/jobs/watch")
        first.start("bytes", {"main": role(write(OUT, 1), write(ERR, 2), "exit 7")})
        check.equal("state", first.wait("bytes"), "FAILED")
        check.ok("the watch", stream.until(lambda row: row["state"] == "FAILED" and row["appExitCode"] == 232), stream.row)
        said = all_that_is_said(first)
        status = said["details"]["jobStatus"]
        report = status["appExitMessages"]["runtime"]
        check.equal("class", (status["appExitCode"], status["appExitSpec"]["phrase"]), (232, "ContainerImportError"))
        check.equal("exit code of the command", report["originUserExitCode"], 7)
        check.equal("the quoted line", report["matchedUserLogString"], LINE)
        check.ok("the last lines", LINE in report["errorLogs"]["user"], report)
        check.ok("the report as text", "[PAI_RUNTIME_ERROR_END]" in status["appExitDiagnostics"] and "\0" not in json.dumps(status), status)
        check.equal("the task", said["details"]["taskRoles"]["main"]["taskStatuses"][0]["containerExitCode"], 232)
        check.equal("the row", (said["row"]["state"], said["row"]["appExitCode"]), ("FAILED", 232))
        check.ok("show", said["show"].returncode == 0 and f"{LINE}\n" in said["show"].stdout and "\x1b" not in said["show"].stdout, said["show"])
        check.equal("jobs", said["jobs"], ["ContainerImportError", "(232)"])
        events = first.client("events", "bytes")
        check.ok("events", events.returncode == 0 and "Started container app" in events.stdout, events)
        check.equal("stdout", said["logs"]["stdout"], OUT)
        check.ok("stderr", ERR in said["logs"]["stderr"], said["logs"]["stderr"][-700:])  # before it, lines of pai-runtime
        done = subprocess.run([BINARY, "logs", "--server", f"http://127.0.0.1:{first.port}", "bytes"], capture_output=True, check=False,
                              env=os.environ, timeout=10 * PATIENCE * SLOW)
        check.ok("logs", done.returncode == 0 and LONG in done.stdout and BROKEN in done.stdout, (done.returncode, done.stdout[-500:], done.stderr))
        first.kill()
        with Site(where=first.where) as second:
            again = all_that_is_said(second)
            for what, value in said.items():
                check.equal(f"after a restart: {what}", again[what], value)
    finally:
        first.kill()
