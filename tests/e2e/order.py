"""Held jobs on a cluster, with two servers that are killed at any time: each starts once, not early, and of those
with maxRunning never more than that run at once, by the history of the API server.  TEST_WHOLE=1: as many jobs
and kills as the promise says; else fewer."""
import http.client
import json
import os
import random
import ssl
import threading
import time
import urllib.parse
from urllib.parse import urlsplit

from cluster import FRAMEWORKS, PATHS
from harness import SLOW, framework_name, job_v2, wait_until
from promise import Collector, post, remove_all, serve

WHOLE = os.environ.get("TEST_WHOLE") == "1"


class Controller:
    """Runs started Frameworks for a moment each, the first ones until so many run at once, ends stopped ones, and
    keeps the history: (name, what)."""

    def __init__(self, cluster, fails=(), at_once=1):
        self.at_once, self.running, self.full = at_once, 0, threading.Event()
        self.cluster, self.fails = cluster, {framework_name(n) for n in fails}
        self.history, self.state, self.ending = [], {}, False
        self.collector = Collector(cluster, 0.5)
        self.collector.__enter__()
        address = urlsplit(cluster.url)
        version = cluster.api("GET", FRAMEWORKS)[1]["metadata"]["resourceVersion"]
        self.connection = http.client.HTTPSConnection(address.hostname, address.port, context=ssl.create_default_context(cafile=cluster.ca))
        self.connection.request("GET", f"{FRAMEWORKS}?watch=true&timeoutSeconds=7200&resourceVersion={version}", headers={"Authorization": f"Bearer {cluster.token}"})
        self.reply = self.connection.getresponse()
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self):
        try:
            for line in self.reply:
                o = json.loads(line)["object"]
                name, kind = o["metadata"]["name"], json.loads(line)["type"]
                state = "deleted" if kind == "DELETED" else (o["spec"]["executionType"], (o.get("status") or {}).get("state"))
                if self.state.get(name) == state:
                    continue
                self.state[name] = state
                if state == ("Start", None):
                    self.history.append((name, "starts"))
                    self.running += 1
                    if self.running == self.at_once:
                        self.full.set()
                    threading.Timer(random.random() * 0.3, self.end, [name, 1 if name in self.fails else 0]).start()
                elif state == ("Stop", None):
                    threading.Timer(0, self.end, [name, -210]).start()
                # One that is deleted before its start is made anew by another server.
                elif state[1] == "Completed" or (kind == "DELETED" and (name, "starts") in self.history and (name, "ends") not in self.history):
                    self.history.append((name, "ends"))
                    self.running -= (name, "starts") in self.history
        except (OSError, ValueError, KeyError, AttributeError, http.client.HTTPException):
            if not self.ending:
                self.history.append(("the watch", "has ended"))

    def end(self, name, code):
        if code >= 0:
            self.full.wait(100 * SLOW)
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        status = {"state": "Completed", "startTime": now, "completionTime": now, "transitionTime": now, "attemptStatus": {
            "id": 0, "startTime": now, "completionTime": now, "completionStatus": {"code": code, "phrase": "x", "type": {"name": "x", "attributes": []}}}}
        self.cluster.api("PATCH", f"{PATHS['Framework']}/{name}", {"status": status}, "application/merge-patch+json")

    def close(self):
        self.ending = True
        self.collector.__exit__(None, None, None)
        self.connection.sock.shutdown(2)


def submit(server, name, **query):
    """Until it is taken, as a patient client."""
    text, taken = job_v2(name), []

    def ask():
        try:
            reply = post(server, text, f"key-{name}", "?" + urllib.parse.urlencode(query))
        except OSError:
            return False
        taken[:] = [reply.status, reply.message] if reply else [None]
        return taken[0] == 202
    wait_until(ask, 100)
    if not taken or taken[0] != 202:
        raise RuntimeError(f"{name}: {taken}")


def pair(cluster):
    return [serve(cluster, "--loops", "1", "--rate-submit", "0", "--rate-address", "0", "--rate-list", "0") for _ in range(2)]


def killing(servers, kills, pause, done):
    def go():
        for _ in range(kills):
            time.sleep(random.random() * pause)
            server = random.choice(servers)
            server.kill()
            server.launch()
        done.set()
    thread = threading.Thread(target=go)
    thread.start()
    return thread


def all_ended(controller, names, seconds=600):
    wanted = {framework_name(n) for n in names}

    def ended():
        return wanted <= {n for n, what in controller.history if what == "ends"}
    return wait_until(ended, seconds * SLOW)


def state_of(cluster, name):
    o = cluster.get("Framework", framework_name(name))
    return (o["status"] or {}).get("attemptStatus", {}).get("completionStatus", {}).get("code") if o and o.get("status") else None


def test_chain_of_two_servers_survives_kills(check, cluster):
    """Each job after the one before, submitted to one server or the other; then one whose middle fails."""
    length, kills = (200, 20) if WHOLE else (24, 4)
    names = [f"chain-{i}" for i in range(length)]
    bad = [f"bad-{i}" for i in range(8)]
    controller = Controller(cluster, [bad[3]])
    servers = pair(cluster)
    done = threading.Event()
    thread = killing(servers, kills, 4 if WHOLE else 1, done)
    for one in (names, bad):
        for i, name in enumerate(one):
            submit(servers[i % 2], name, **({"after": one[i - 1]} if i else {"begin": "+2s"}))
    thread.join()
    check.ok("all end", all_ended(controller, names + bad), controller.history[-4:])
    check.equal("all succeed", {state_of(cluster, n) for n in names}, {0})
    order = [what for what in controller.history if what[0] in {framework_name(n) for n in names}]
    check.equal("each once, after the one before", order, [(framework_name(n), what) for n in names for what in ("starts", "ends")])
    check.equal("behind a failure", [state_of(cluster, n) for n in bad], [0, 0, 0, 1, -210, -210, -210, -210])
    why = cluster.get("Framework", framework_name(bad[5]))["metadata"]["annotations"].get("rest-lit/stop-reason", "")
    check.ok("why", f"alice~{bad[4]}, whose success it waits for, was stopped" in why, why)
    controller.close()
    for server in servers:
        server.remove()
    remove_all(cluster)


def test_two_servers_start_no_more_than_may_run(check, cluster):
    """Never more than 4 by the history, while both servers are killed; a stale cache starts none too many."""
    jobs, kills = (200, 20) if WHOLE else (32, 4)
    names = [f"many-{i}" for i in range(jobs)]
    controller = Controller(cluster, at_once=4)
    servers = pair(cluster)
    done = threading.Event()
    thread = killing(servers, kills, 3 if WHOLE else 1, done)
    for i, name in enumerate(names):
        submit(servers[i % 2], name, tag="many", maxRunning=4)
    thread.join()
    check.ok("all end", all_ended(controller, names), controller.history[-4:])
    running, most = set(), 0
    for name, what in controller.history:
        (running.add if what == "starts" else running.discard)(name)
        most = max(most, len(running))
    check.equal("at most", most, 4)
    starts = [name for name, what in controller.history if what == "starts"]
    check.equal("each once, in their order", starts, [framework_name(n) for n in names])
    controller.close()
    for server in servers:
        server.remove()
    remove_all(cluster)


def test_held_jobs_outlive_servers_and_the_janitor(check, cluster):
    """Old ones are not removed; what was deleted while no server ran counts as that; a stop works."""
    names = [f"held-{i}" for i in range(1000 if WHOLE else 12)]
    controller = Controller(cluster)
    with serve(cluster, "--rate-submit", "0", "--rate-address", "0") as server:
        for name in names:
            submit(server, name, hold="true")
        for name in ("gone", "again"):
            submit(server, name, hold="true")
            submit(server, f"{name}-next", after=name)
            submit(server, f"{name}-any", afterAny=name)
    for name in ("gone", "again"):
        cluster.delete("Framework", framework_name(name))
    with serve(cluster, "--deadline", "5", "--janitor-age", "10", "--janitor-interval", "1") as server:
        submit(server, "again", hold="true")
        check.ok("they end", all_ended(controller, ["gone-next", "gone-any", "again-next", "again-any"]), controller.history)
        check.equal("as deleted", [state_of(cluster, n) for n in ("gone-next", "gone-any", "again-next", "again-any")], [-210, 0, -210, 0])
        time.sleep(12)  # rounds of the janitor
        check.equal("none is removed", [n for n in names if not cluster.get("Framework", framework_name(n))], [])
        reply = server.request("PUT", f"/api/v2/jobs/alice~{names[0]}/executionType", '{"value": "STOP"}', {"Content-Type": "application/json"})
        check.ok("a stop", reply.status == 202 and all_ended(controller, names[:1]), reply)
        reply = server.request("PUT", f"/api/v2/jobs/alice~{names[1]}/executionType", '{"value": "START"}', {"Content-Type": "application/json"})
        check.ok("a release", reply.status == 202 and all_ended(controller, names[1:2]), reply)
        row = server.request("GET", f"/api/v2/jobs/alice~{names[2]}").json["jobStatus"]
        check.equal("the reason", (row["state"], row["waitingReason"]["kind"]), ("WAITING", "order"))
    controller.close()
    remove_all(cluster)
