"""What tasks use on this machine: of real jobs, by permission, and after their end."""
import json
import os
import re
import shutil
import tempfile
import time

from harness import run, wait_until
from machine import NOBODY, Machine, job, role
from tokens import SECRET, bearer, token, write_file


class Yard(Machine):
    """A machine for users with tokens; root is an administrator."""

    def __init__(self, **more):
        self.base = tempfile.mkdtemp(prefix="rest-lit-local.")
        os.chmod(self.base, 0o755)
        facts = {"groups": {"admins": {"admin": True}}, "users": {"alice": {}, "bob": {}, "root": {"groups": ["admins"]}}}
        files = [write_file(self.base, "jwt-secret", SECRET), write_file(self.base, "facts", json.dumps(facts))]
        for path in files if os.geteuid() == 0 else ():
            os.chown(path, NOBODY, NOBODY)
        super().__init__("--visibility", "owner", "--facts", files[1],
                         who=["--jwt-secret-file", files[0], "--token-check", "signature"], **more)

    def close(self):
        super().close()
        shutil.rmtree(self.base)

    def forget(self, name):
        return self.request("DELETE", f"/api/v1/user/alice/jobs/{name}", headers=bearer(token("alice")))

    def ask(self, who, path, application=False):
        return self.request("GET", path, headers=bearer(token(who, application)))

    def run_job(self, who, name, *commands, **more):
        headers = {"Content-Type": "text/yaml", **bearer(token(who))}
        return self.submit(job(name, {"main": role(*commands, **more)}), headers).status

    def tasks(self, name, who="alice"):
        return self.ask(who, f"/api/v2/jobs/{who}~{name}/usage").json["tasks"]


def test_usage_is_shown_by_permission(check):
    with Yard(gpus=1) as yard:
        check.equal("submitted", yard.run_job("alice", "naps", "exec sleep 1000", gpu=1), 202)
        path = "/api/v2/jobs/alice~naps/usage"
        check.ok("it runs", wait_until(lambda: yard.ask("bob", "/api/v2/machine").json["jobsRunning"] == 1))
        check.equal("who may see it", [yard.ask(who, path).status for who in ("alice", "root", "bob")], [200, 200, 403])
        check.equal("an application token", yard.ask("alice", path, True).status, 200)
        check.equal("... of another user", yard.ask("bob", path, True).status, 403)
        check.equal("no such job", yard.ask("alice", "/api/v2/jobs/alice~none/usage").code, "NoJobError")
        machine = yard.ask("bob", "/api/v2/machine").json
        check.equal("the GPU", [(g["index"], g["job"], g["outside"]) for g in machine["gpuStates"]], [(0, "alice~naps", [])])
        check.ok("no figures of GPUs, and why", machine["gpuStates"][0]["busy"] is None and machine["gpuFigures"], machine)
        for query, says in (("", "since must be"), ("?since=0000-01-01", "0000-01-01"), ("?since=2999-01-01", "since must be before until"),
                            ("?since=1&by=job", "user, virtualCluster and week"), ("?since=1&until=now", "until must be")):
            check.refused(f"report{query}", yard.ask("bob", f"/api/v2/report{query}"), 400, "InvalidParametersError", says)
        check.equal("a report", [yard.ask(who, "/api/v2/report?since=2026-01-01&by=user,virtualCluster,week", who == "alice").status
                                 for who in ("alice", "bob", "root")], [200, 200, 200])


def test_usage_of_a_task_stays_after_its_job(check):
    """The row of a task that runs is that of the engine, later that of the store, which outlives the job."""
    with Yard() as yard:
        began = time.time() * 1000
        yard.run_job("alice", "naps", "sleep 1; exit 3", cpu=2, memory=100)
        check.ok("while it runs", wait_until(lambda: yard.tasks("naps")), yard.ask("alice", "/api/v2/jobs/alice~naps/usage"))
        check.ok("its end", wait_until(lambda: not yard.tasks("naps")[0]["running"]), yard.tasks("naps"))
        rows = yard.tasks("naps")
        # The code of the container, as in details: pai-runtime has no class for this end.
        check.equal("one row", [(t["taskRole"], t["taskIndex"], t["jobAttempt"], t["taskAttempt"], t["exitCode"]) for t in rows],
                    [("main", 0, 0, 0, 255)])
        check.equal("held", [rows[0][k] for k in ("gpuNumber", "cpuNumber", "memoryMB")], [0, 2, 100])
        check.ok("times", began - 1000 <= rows[0]["boundTime"] <= time.time() * 1000 and 1 <= rows[0]["heldSeconds"] < 60, rows)

        def report(who):
            return yard.ask(who, "/api/v2/report?since=2026-01-01&by=user").json["rows"]
        check.equal("a report", [(r["user"], r["attempts"], r["failed"]) for r in report("alice")], [("alice", 1, 1)])
        check.equal("nobody else's", report("bob"), [])
        check.equal("all for an administrator", report("root"), report("alice"))
        check.ok("deleted", wait_until(lambda: yard.forget("naps").status in (200, 202, 404)))
        check.ok("no usage", wait_until(lambda: yard.ask("alice", "/api/v2/jobs/alice~naps/usage").status == 404))
        check.equal("the hours stay", [r["attempts"] for r in report("alice")], [1])


def test_usage_commands_show_a_real_job(check):
    with Machine(gpus=2) as m:
        at = ("--server", f"http://127.0.0.1:{m.port}")
        m.start("naps", {"main": role("exec sleep 1000", gpu=1, cpu=2)})
        m.wait("naps", "RUNNING")
        result = run("top", *at, "-n", "1")
        check.ok("top", result.returncode == 0 and re.search(rb"^alice~naps +0 ", result.stdout, re.M), result)
        check.ok("the other GPU", re.search(rb"^1 +-", result.stdout, re.M), result)
        check.ok("usage", wait_until(lambda: b"main[0], attempt 0.0: runs" in run("usage", *at, "naps").stdout), run("usage", *at, "naps"))
        kept = run("keep", *at, "naps", "--for", "24h", "--reason", "data come at six")
        check.ok("keep", kept.returncode == 0, kept)
        shown = run("show", *at, "naps").stdout
        check.ok("show says until when, and why", re.search(rb"^  kept:     until 20.*Z though its GPUs do nothing: data come at six$", shown, re.M), shown)
        result = run("report", *at, "--since", "1d", "--csv")
        check.ok("report", result.returncode == 0 and result.stdout.startswith(b"user,gpuHours,"), result)
