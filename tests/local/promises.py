"""Jobs that really run here, as HTTP shows them: rows, details, streams and waits have what the
engine did.  The routes themselves are tested in tests/http, against a false API server."""
import json

from harness import wait_until
from machine import role
from users import Site


def test_rows_and_details_show_what_the_tasks_did(check):
    """A submitted job is in the next list; details have the address, node and ports that the task itself sees."""
    say = "echo at=$PAI_HOST_IP_worker_0 port=$PAI_PORT_LIST_worker_0_grpc on=$(hostname); "
    with Site() as m:
        talks = role(say + m.gate("talks"))
        talks["resourcePerInstance"]["ports"] = {"grpc": 1}
        m.start("talks", {"worker": talks})
        check.ok("at once", "talks" in [row["name"] for row in m.get("/api/v2/jobs").json])
        m.start("bad", {"worker": role("exit 3", instances=2)})
        m.ends("bad")
        check.ok("the task has said it", wait_until(lambda: "on=" in m.read("talks", "worker", 0)))
        seen = dict(p.split("=", 1) for p in m.read("talks", "worker", 0).split() if "=" in p)
        check.ok("it runs", wait_until(lambda: m.task("talks", "worker", 0)["taskState"] == "RUNNING"))
        task = m.task("talks", "worker", 0)
        check.ok("address", task["containerIp"] == seen["at"] and task["containerIp"], (task, seen))
        check.equal("port", str(task["containerPorts"]["grpc"]), seen["port"])
        check.ok("node", task["containerNodeName"] and task["containerExitCode"] is None, task)
        m.open("talks")
        m.ends("talks")
        rows = {row["name"]: row for row in m.get("/api/v2/jobs").json}
        good, bad = rows["talks"], rows["bad"]
        check.equal("states", (good["state"], bad["state"]), ("SUCCEEDED", "FAILED"))
        check.ok("times", good["createdTime"] <= good["launchedTime"] <= good["completedTime"], good)
        check.equal("numbers", (bad["totalTaskNumber"], bad["totalGpuNumber"], good["appExitCode"]), (2, 0, 0))
        check.ok("code", bad["appExitCode"] not in (0, None), bad)


def test_watches_and_waits_follow_jobs_to_their_ends(check):
    """A watch of a job, one of all jobs that is continued, and ?wait=."""
    with Site() as m:
        m.start("seen", {"worker": role(m.gate("seen"))})
        stream = m.watch(m.path("seen") + "/watch")
        check.ok("at once", stream.until(lambda row: row["name"] == "seen"))
        check.ok("RUNNING", stream.until(lambda row: row["state"] == "RUNNING"))
        m.open("seen")
        check.ok("SUCCEEDED", stream.until(lambda row: row["state"] == "SUCCEEDED"))
        check.equal("end", stream.next("end").get("reason"), "completed")
        stream = m.watch("/api/v2/jobs/watch")
        m.start("later", {"worker": role("true")})
        check.ok("a new job", stream.until(lambda row: row["name"] == "later"))
        check.ok("its end", stream.until(lambda row: row["name"] == "later" and row["state"] == "SUCCEEDED"))
        last = stream.last_id
        stream.close()
        m.start("away", {"worker": role("true")})
        m.ends("away")
        stream = m.watch("/api/v2/jobs/watch", {"Last-Event-ID": last})
        check.ok("what changed meanwhile", stream.until(lambda row: row["name"] == "away"))
        m.start("waited", {"worker": role(m.gate("waited"))})
        ran = m.get(m.path("waited") + "?wait=60&for=running")
        check.equal("runs", (ran.headers["x-wait"], ran.json["jobStatus"]["state"]), ("reached", "RUNNING"))
        check.equal("time-out", m.get(m.path("waited") + "?wait=1").headers["x-wait"], "timeout")
        m.open("waited")
        done = m.get(m.path("waited") + "?wait=60")
        check.equal("ended", (done.headers["x-wait"], done.json["jobStatus"]["state"]), ("reached", "SUCCEEDED"))


def test_changes_of_a_job_reach_its_tasks(check):
    """More tasks start, fewer tasks end from the highest index; tags change while it runs."""
    with Site() as m:
        m.start("grows", {"worker": role(f"echo $PAI_TASK_INDEX; {m.gate('grows')}", completion={"minSucceededInstances": -1})})
        m.runs("grows")
        check.equal("more: taken", m.patch(m.path("grows") + "/taskRoles/worker", {"instances": 3}).status, 202)
        check.ok("three run", wait_until(lambda: m.states("grows", "worker") == ["RUNNING"] * 3), m.states("grows", "worker"))
        m.patch(m.path("grows") + "/taskRoles/worker", {"instances": 1})
        check.ok("one is left", wait_until(lambda: m.states("grows", "worker") == ["RUNNING"]), m.states("grows", "worker"))
        check.equal("the first", m.task("grows", "worker", 0)["taskState"], "RUNNING")
        check.ok("one process", wait_until(lambda: len(m.tasks_alive("grows")) == 1), m.tasks_alive("grows"))
        check.equal("a tag", m.put(m.path("grows") + "/tag", {"value": "mine"}).status, 200)
        check.ok("is shown", wait_until(lambda: m.get(m.path("grows")).json["tags"] == ["mine"]))
        m.request("DELETE", m.path("grows") + "/tag", json.dumps({"value": "mine"}), {"Content-Type": "application/json"})
        check.ok("is removed", wait_until(lambda: m.get(m.path("grows")).json["tags"] == []))
        m.open("grows")
        check.equal("to its end", m.ends("grows"), "SUCCEEDED")
        check.equal("refused at the end", m.patch(m.path("grows") + "/taskRoles/worker", {"instances": 2}).status, 409)
