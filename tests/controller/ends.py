"""Frameworks are carried to their ends, under the rights of the manifests."""
import contextlib
import json
import os
import re
import subprocess
import time

from harness import BINARY, ROOT, wait_until
from scene import LEASES, MERGE, PODS, Controller, framework, outcome, role, tasks

STOPPED, REMOVED, ENDED_WITH_ATTEMPT = -210, -230, -220


def end_is(check, scene, name, code, retries=0, seconds=60):
    """The Framework ends with this code after so many retries, and leaves no pod and ConfigMap."""
    scene.ends(name, seconds)
    value = scene.framework(name)
    check.equal(f"{name}: its end", outcome(value), ("Completed", code, retries))
    check.ok(f"{name}: no pod is left", wait_until(lambda: not scene.pods(name)), sorted(scene.pods(name)))
    check.ok(f"{name}: no ConfigMap is left", wait_until(
        lambda: f"{name}-attempt" not in scene.names("ConfigMap")))
    return value


def all_run(scene, name, number):
    """Waits until so many tasks run."""
    def run():
        value = scene.framework(name)
        return value and [s for s, _, _ in tasks(value).values()].count("AttemptRunning") == number
    return wait_until(run)


def test_hello_job_runs_to_its_end(check, scene):
    """The shipped example, as `rest-lit translate` writes it."""
    text = subprocess.run([BINARY, "translate", "--user", "alice", "--facts", os.path.join(ROOT, "examples/facts.json"),
                           os.path.join(ROOT, "examples/hello-world.yaml")], check=True, stdout=subprocess.PIPE).stdout
    result = scene.kubectl("create", "-f", "-", text=text)
    check.equal("hello: is created", result.returncode, 0)
    job = json.loads(text)["items"][-1]["metadata"]["name"]
    value = end_is(check, scene, job, 0)
    task = value["status"]["attemptStatus"]["taskRoleStatuses"][0]["taskStatuses"][0]
    attempt = task["attemptStatus"]
    check.ok("hello: it has run", value["status"]["runTime"] and attempt["runTime"] and attempt["completionTime"])
    check.ok("hello: the node and addresses of its pod", attempt["podNodeName"].startswith("node") and
             attempt["podIP"].startswith("10.") and attempt["podHostIP"].startswith("10.1."), attempt)
    check.equal("hello: its pod", (attempt["podName"], attempt["instanceUID"]),
                (f"{job}-hello-0", f"0_{attempt['podUID']}"))


def test_gang_ends_as_its_policy_says(check, scene):
    """Roles of several tasks: all pods are there together; the first end of a role ends all."""
    scene.create(framework("gang", role("ps", 2, failed=1, succeeded=-1, run="never"),
                           role("worker", 3, failed=1, succeeded=3, run=1500)))
    value = end_is(check, scene, "gang", 0)
    ran = [one for role_status in value["status"]["attemptStatus"]["taskRoleStatuses"] for one in role_status["taskStatuses"]]
    check.ok("gang: all have run", len(ran) == 5 and all(one["attemptStatus"]["runTime"] for one in ran), ran)
    check.equal("gang: its tasks", tasks(value), {
        **{("ps", i): ("Completed", ENDED_WITH_ATTEMPT, 0) for i in range(2)},
        **{("worker", i): ("Completed", 0, 0) for i in range(3)}})
    scene.create(framework("gangfails", role("a", 2, run="never"), role("b", 2, failed=1, run=300, exit=7)))
    value = end_is(check, scene, "gangfails", 7)
    check.equal("gangfails: the others end with it", [tasks(value)["a", i][1] for i in range(2)], [ENDED_WITH_ATTEMPT] * 2)


def test_retries_of_tasks_and_frameworks(check, scene):
    rows = (
        ("retrytask", [role(number=2, retries=2, exit="1,1,0", run=50)], {}, 0, 0),
        ("retrytaskends", [role(number=2, retries=1, exit="3,4", run=50)], {}, 4, 0),
        ("retryjob", [role(number=2, exit="5;6;0", run=50)], {"retries": 2}, 0, 2),
        ("retryboth", [role(retries=1, exit="1,2;1,0", run=50)], {"retries": 1}, 0, 1),
        ("retrynever", [role(fancy=True, exit="210", retries=5, run=50)], {"fancy": True, "retries": 5}, 210, 0),
        ("retryfree", [role(fancy=True, exit="200,200,0", run=50)], {}, 0, 0))
    for name, roles, more, _, _ in rows:
        scene.create(framework(name, *roles, **more))
    for name, _, _, code, retries in rows:
        value = end_is(check, scene, name, code, retries)
        wanted = {"retrytask": 2, "retrytaskends": 1, "retryboth": 1, "retryfree": 2}.get(name, 0)
        # The first of two that fails ends the attempt, perhaps before the other one.
        seen = {r for _, c, r in tasks(value).values() if c == code}
        check.equal(f"{name}: retries of its tasks", seen, {wanted})


def test_stop_and_create(check, scene):
    """Stop at once, while it runs; executionType Create waits for Start."""
    scene.create(framework("stop", role(number=2, run="never")))
    check.ok("stop: all run", all_run(scene, "stop", 2))
    check.equal("stop: is patched", scene.patch("stop", {"spec": {"executionType": "Stop"}})[0], 200)
    end_is(check, scene, "stop", STOPPED)
    scene.create(framework("never", start="Stop"))
    end_is(check, scene, "never", STOPPED)
    scene.create(framework("later", role(run=50), start="Create"))
    check.ok("later: has a status", wait_until(lambda: scene.state("later") == "AttemptCreationPending"))
    scene.create(framework("fence", role(run=50)))
    end_is(check, scene, "fence", 0)  # it was created after the other one
    check.equal("later: and no pod", scene.pods("later"), {})
    scene.patch("later", {"spec": {"executionType": "Start"}})
    end_is(check, scene, "later", 0)


def rescale(scene, name, *roles):
    value = framework(name, *roles)
    return scene.patch(name, {"spec": {"taskRoles": value["spec"]["taskRoles"]}})[0]


def test_rescale_up_and_down(check, scene):
    def numbers():
        value = scene.framework("scale")
        return {r["name"]: [t["index"] for t in r["taskStatuses"]]
                for r in value["status"]["attemptStatus"]["taskRoleStatuses"]}
    scene.create(framework("scale", role("a", 2, run="never")))
    check.ok("scale: all run", all_run(scene, "scale", 2))
    before = {n: p["metadata"]["uid"] for n, p in scene.pods("scale").items()}
    rescale(scene, "scale", role("a", 4, run="never"), role("b", 1, run="never"))
    check.ok("scale up: all run", all_run(scene, "scale", 5), scene.framework("scale"))
    after = {n: p["metadata"]["uid"] for n, p in scene.pods("scale").items()}
    check.equal("scale up: the first pods stay", {n: after[n] for n in before}, before)
    rescale(scene, "scale", role("a", 1, run="never"))
    check.ok("scale down: the tasks are gone", wait_until(lambda: numbers() == {"a": [0]}), numbers())
    check.ok("scale down: and their pods", wait_until(lambda: sorted(scene.pods("scale")) == ["scale-a-0"]))
    check.equal("scale down: the first pod stays", scene.pods("scale")["scale-a-0"]["metadata"]["uid"], before["scale-a-0"])
    scene.patch("scale", {"spec": {"executionType": "Stop"}})
    end_is(check, scene, "scale", STOPPED)


def test_deleted_frameworks_leave_nothing(check, scene):
    for how in ("Background", "Foreground"):
        name = how.lower()
        scene.create(framework(name, role(number=2, run="never")))
        check.ok(f"{name}: all run", all_run(scene, name, 2))
        check.equal(f"{name}: is deleted", scene.remove(name, how), 200)
        check.ok(f"{name}: all is gone", wait_until(lambda n=name: not scene.framework(n) and not scene.pods(n) and
                                                    f"{n}-attempt" not in scene.names("ConfigMap")))
    # The same name again, at once.
    scene.create(framework("background", role(run=50)))
    end_is(check, scene, "background", 0)


def test_pod_that_does_not_end_is_forced(check, scene):
    """podGracefulDeletionTimeoutSec: a DELETE with grace period 0."""
    one = role(number=1, run="never", linger="never")
    one["task"]["podGracefulDeletionTimeoutSec"] = 1
    scene.create(framework("forced", one))
    check.ok("forced: runs", all_run(scene, "forced", 1))
    scene.patch("forced", {"spec": {"executionType": "Stop"}})
    end_is(check, scene, "forced", STOPPED, seconds=90)


def test_deleted_pod_is_an_outcome(check, scene):
    """Somebody deletes the pod of a task."""
    for name, retries, code in (("podgone", 0, -101), ("podagain", 1, 0)):
        scene.create(framework(name, role(retries=retries, run=1500)))
        check.ok(f"{name}: runs", all_run(scene, name, 1))
        evict(scene, f"{name}-w-0")
        end_is(check, scene, name, code)


def test_many_tasks_end(check, scene):
    scene.create(framework("many", role(number=100, failed=1, run=200)))
    value = end_is(check, scene, "many", 0, seconds=120)
    check.equal("many: all have succeeded", {c for _, c, _ in tasks(value).values()}, {0})


def leader(controllers):
    found = [c for c in controllers if c.alive() and c.leads()]
    return found[0] if len(found) == 1 else None


def test_standby_takes_over(check, scene):
    """The leader ends by SIGTERM; the other goes on without restarting a pod."""
    if not check.ok("one leads", wait_until(lambda: leader(scene.controllers))):
        return
    first = leader(scene.controllers)
    other = [c for c in scene.controllers if c is not first][0]
    check.equal("the other one is ready", other.status("/readyz"), 200)
    scene.create(framework("handed", role(number=2, run="never")))
    check.ok("handed: all run", all_run(scene, "handed", 2))
    before = {n: p["metadata"]["uid"] for n, p in scene.pods("handed").items()}
    start = time.monotonic()
    check.equal("the leader ends", first.stop(), 0)
    stopped = time.monotonic()
    check.ok("the other one leads", wait_until(other.leads))
    print(f"     take-over after SIGTERM: {stopped - start:.2f} s to the end, {time.monotonic() - stopped:.2f} s more "
          "until the other leads", flush=True)
    check.equal("the pods stay", {n: p["metadata"]["uid"] for n, p in scene.pods("handed").items()}, before)
    scene.succeed("handed")
    end_is(check, scene, "handed", 0)
    first.start()
    check.ok("the first one is there again", wait_until(lambda: first.status("/readyz") == 200))


def sockets(process):
    """Its sockets."""
    directory, found = f"/proc/{process.pid}/fd", set()
    for fd in os.listdir(directory):
        with contextlib.suppress(FileNotFoundError):
            found.add(os.readlink(f"{directory}/{fd}"))
    return {name for name in found if name.startswith("socket:")}


def test_leader_without_its_lease_starts_anew(check, scene):
    """The same process stands by and leads again; it pauses longer each time; SIGTERM ends the pause."""
    if not check.ok("one leads", wait_until(lambda: leader(scene.controllers))):
        return
    first = leader(scene.controllers)
    other = [c for c in scene.controllers if c is not first][0]
    check.equal("the other one ends", other.stop(), 0)
    process, before, had = first.process, len(first.log()), sockets(first.process)

    def said(words):
        return first.log()[before:].count(words)

    def take_away(times):
        taken = {"spec": {"holderIdentity": "somebody"}}
        check.equal("the Lease is taken away", scene.api("PATCH", f"{LEASES}/rest-lit-controller", taken, MERGE)[0], 200)
        check.ok("the leader notices", wait_until(lambda: said("starting anew after a pause") >= times), first.log()[before:])

    take_away(1)
    check.ok("it starts anew", wait_until(lambda: said('"listening"')), first.log()[before:])
    check.ok("it stands by", wait_until(lambda: first.status("/readyz") == 200))
    check.ok("it leads again", wait_until(first.leads, 90), first.log()[before:])
    check.equal("it is the same process", (first.alive(), first.process.pid), (True, process.pid))
    check.equal("no socket is left open", had & sockets(process), set())
    scene.create(framework("anew", role(run=50)))
    end_is(check, scene, "anew", 0)
    take_away(2)
    pauses = [int(ms) for ms in re.findall(r'"pause_ms":(\d+)', first.log()[before:])]
    check.equal("the pauses grow", pauses[1:], [min(2 * ms, 30000) for ms in pauses[:-1]])
    check.equal("SIGTERM ends it", first.stop(), 0)
    for c in scene.controllers:
        c.start()
    check.ok("both are there again", wait_until(lambda: all(c.status("/readyz") == 200 for c in scene.controllers)))


def evict(scene, pod):
    """As Kubernetes does when a node has not answered for the time of the pod's tolerations."""
    return scene.api("DELETE", f"{PODS}/{pod}")[0]


def test_task_of_a_lost_node_is_tried_again_elsewhere(check, scene):
    """podGracefulDeletionTimeoutSec after Kubernetes has marked the pod; a node that returns changes nothing."""
    def uids(name):
        return {n: p["metadata"]["uid"] for n, p in scene.pods(name).items()}

    on_it = {"run": "never", "fancy": True, "node": "node0"}
    one = role("a", 1, **on_it)
    one["task"]["podGracefulDeletionTimeoutSec"] = 4
    scene.create(framework("nodelost", one, role("b", 1, run="never")))
    scene.create(framework("nodeback", role("a", 1, **on_it)))  # with 600 s
    check.ok("nodelost: all run", all_run(scene, "nodelost", 2))
    check.ok("nodeback: runs", all_run(scene, "nodeback", 1))
    before, back = uids("nodelost"), uids("nodeback")
    old = before["nodelost-a-0"]
    check.equal("the nodes", {p["spec"]["nodeName"] for n, p in {**scene.pods("nodelost"), **scene.pods("nodeback")}.items()
                              if n.endswith("-a-0")}, {"node0"})
    scene.stand.lose()
    check.equal("the pods are marked", [evict(scene, "nodelost-a-0"), evict(scene, "nodeback-a-0")], [200, 200])
    check.ok("nodelost: the task is tried again", wait_until(
        lambda: tasks(scene.framework("nodelost"))["a", 0][::2] == ("AttemptRunning", 1)), scene.framework("nodelost"))
    after = scene.pods("nodelost")
    again = after["nodelost-a-0"]["metadata"]["uid"]
    check.ok("nodelost: elsewhere", again != old and after["nodelost-a-0"]["spec"]["nodeName"] != "node0", after)
    check.equal("nodelost: the other pod stays", after["nodelost-b-0"]["metadata"]["uid"], before["nodelost-b-0"])
    with scene.count.lock:
        lived = scene.count.pods[old].gone - scene.count.pods[old].dying
    check.ok("nodelost: not before the time", lived > 2.9, lived)  # deletionTimestamp has whole seconds
    print(f"     marked for deletion, then deleted by force after {lived:.1f} s (4 are configured)")
    check.equal("nodeback: its pod is still waited for", uids("nodeback"), back)
    check.equal("nodeback: its task", tasks(scene.framework("nodeback"))["a", 0], ("AttemptDeleting", -101, 0))
    # The node returns: what its kubelet says about the old pod, and then about a pod that was only marked.
    status = scene.framework("nodelost")["status"]
    code = scene.api("PATCH", f"{PODS}/nodelost-a-0/status", {"metadata": {"uid": old}, "status": {"phase": "Failed"}}, MERGE)[0]
    check.equal("nodelost: the end of the old pod is refused", code, 422)
    scene.stand.lose(False)
    check.ok("nodeback: the task is tried again", wait_until(
        lambda: tasks(scene.framework("nodeback"))["a", 0][::2] == ("AttemptRunning", 1)), scene.framework("nodeback"))
    check.equal("nodelost: nothing has changed", (scene.framework("nodelost")["status"], uids("nodelost")["nodelost-a-0"]),
                (status, again))
    for name in ("nodelost", "nodeback"):
        scene.succeed(name)
        value = end_is(check, scene, name, 0)
        check.equal(f"{name}: its task", tasks(value)["a", 0], ("Completed", 0, 1))


def test_completed_frameworks_are_removed_in_time(check, scene):
    """frameworkCompletedRetainSec, with a controller of its own configuration."""
    for c in scene.controllers:
        c.stop()
    scene.create(framework("retained", role(run=50)))
    with Controller(scene, config="frameworkCompletedRetainSec: 3\n") as own:
        check.ok("retained: ends", wait_until(lambda: scene.state("retained") in ("Completed", None)))
        check.ok("retained: all that have ended are removed", wait_until(lambda: not scene.names("Framework")),
                 scene.names("Framework"))
        check.ok("retained: with their pods", wait_until(lambda: not scene.pods()))
        own.stop()  # gives the Lease back
    for c in scene.controllers:
        c.start()
    check.ok("the controllers are there again", wait_until(
        lambda: all(c.status("/readyz") == 200 for c in scene.controllers)))


def test_no_request_is_forbidden_and_nothing_is_doubled(check, scene):
    """All that came before needs no more than the rights of the manifests."""
    requests = scene.requests()
    forbidden = sorted({(verb, resource) for verb, resource, _, code, _ in requests if code == 403})
    check.equal("no request is forbidden", forbidden, [])
    check.ok("requests are seen", requests)
    for name in scene.names("Framework"):
        if scene.state(name) != "Completed":
            scene.remove(name)
    scene.empty_but_frameworks()
    check.ok("the count has seen Frameworks and pods", scene.count.frameworks and scene.count.pods)
    scene.count.check(check, "all")
    check.equal("the stand-in had no trouble", scene.stand.errors(), "")
    check.ok("the controllers live", all(c.alive() for c in scene.controllers))


SHORT = [test_hello_job_runs_to_its_end, test_gang_ends_as_its_policy_says, test_retries_of_tasks_and_frameworks,
         test_stop_and_create, test_rescale_up_and_down, test_deleted_frameworks_leave_nothing,
         test_completed_frameworks_are_removed_in_time]
LONG = [test_pod_that_does_not_end_is_forced, test_deleted_pod_is_an_outcome, test_many_tasks_end, test_standby_takes_over,
        test_task_of_a_lost_node_is_tried_again_elsewhere, test_leader_without_its_lease_starts_anew]
LAST = test_no_request_is_forbidden_and_nothing_is_doubled
