"""Held jobs on one machine: what they wait for, that each starts once and not early, also when the server is
killed at any time.  TEST_WHOLE=1: as many jobs and kills as the promise says; else fewer."""
import json
import os
import random
import re
import socketserver
import tempfile
import threading
import time
import urllib.parse

from cli import cli
from harness import SLOW, wait_until
from machine import DONE, Machine, job, role
from tokens import SECRET, bearer, token, write_file

WHOLE = os.environ.get("TEST_WHOLE") == "1"


def submit(m, name, commands=("true",), headers=None, **query):
    """A job that waits for these."""
    words = [(k, x) for k, v in query.items() for x in (v if isinstance(v, list) else [v])]
    return m.submit(job(name, {"main": role(*commands)}), headers, "/api/v2/jobs?" + urllib.parse.urlencode(words))


def made(m, name, *commands, **query):
    reply = submit(m, name, commands or ("true",), **query)
    if reply.status != 202:
        raise RuntimeError(f"{name}: {reply.status} {reply.message}")
    return reply.json


def message(m, name):
    return (m.request("GET", f"/api/v2/jobs/alice~{name}").json["jobStatus"].get("waitingReason") or {}).get("message", "")


def start(m, name):
    return m.request("PUT", f"/api/v2/jobs/alice~{name}/executionType", '{"value": "START"}', {"Content-Type": "application/json"}).status


def kill(m):
    m.kill()
    m.launch()
    if not m.comes_up():
        raise RuntimeError(m.log()[-500:])


def ended(m, names):
    """Waits until all have ended; their states, by name."""
    def rows():
        return {row["name"]: row["state"] for row in m.request("GET", "/api/v2/jobs?limit=5000").json}
    wait_until(lambda: all(rows().get(n) in DONE for n in names), 900 * SLOW)
    return {n: rows().get(n) for n in names}


def test_held_jobs_wait_and_are_started(check):
    """By release, time, success and end of others; the reason is shown; a stop ends them."""
    with Machine() as m:
        made(m, "long", "until [ -e go ]; do sleep 0.1; done")
        for name, query, words in (("held", {"hold": "true"}, "until it is released"), ("late", {"begin": "+1h"}, "begins at 20"),
                                   ("next", {"after": "long"}, "after alice~long, which "), ("any", {"afterAny": "alice~long"}, "after alice~long, which "),
                                   ("both", {"after": "long,next"}, "after alice~long, which "), ("gone", {"hold": "true"}, "until it is released")):
            answer = made(m, name, **query)
            check.equal(f"{name}: the answer", (answer["held"], "begins" in answer), (True, name == "late"))
            check.ok(f"{name}: waits", m.state(name) == "WAITING" and message(m, name).startswith(words), message(m, name))
        check.equal("a started one is none", "held" in made(m, "now"), False)
        check.equal("stop", (m.stop_job("gone").status, m.wait("gone")), (202, "STOPPED"))
        code, _, err = cli("release", "--server", f"http://127.0.0.1:{m.port}", "held", "now", "late")
        check.ok("release", code == 2 and "alice~held is started\n" in err and "alice~now is not held" in err and "alice~late is started\n" in err, err)
        check.equal("released", (m.wait("held"), m.wait("late")), ("SUCCEEDED", "SUCCEEDED"))
        check.equal("others wait", [m.state(n) for n in ("next", "any", "both")], ["WAITING"] * 3)
        check.equal("the end of what is waited for", (m.stop_job("long").status, m.wait("long")), (202, "STOPPED"))
        check.equal("success is needed", (m.wait("next"), m.wait("any"), m.wait("both")), ("STOPPED", "SUCCEEDED", "STOPPED"))
        shown = m.request("GET", "/api/v2/jobs/alice~next").json["jobStatus"]
        check.ok("the reason", "alice~long, whose success it waits for, was stopped" in json.dumps(shown), shown)
        made(m, "soon", begin="+2s")
        check.equal("by the time", m.wait("soon"), "SUCCEEDED")


def test_held_jobs_are_refused_with_a_reason(check):
    """Unknown, foreign, own and too many jobs; times; counts."""
    with Machine() as m:
        made(m, "prepare")
        for what, query, words in (
                ("unknown", {"after": "nothing-like-it"}, "after: there is no job alice~nothing-like-it"),
                ("near", {"after": "prepair"}, "did you mean alice~prepare?"), ("itself", {"after": "new"}, "there is no job alice~new"),
                ("of nobody", {"after": "bob~prepare"}, "there is no job bob~prepare"), ("empty", {"after": ""}, "after must be names"), ("a comma", {"after": ",prepare"}, "after must be names"),
                ("65", {"after": ",".join(["prepare"] * 65)}, "at most 64"), ("no hour", {"begin": "25:00"}, "begin must be a time as 22:00"),
                ("no time", {"begin": "soon"}, "begin must be"), ("too late", {"begin": "2036-01-01"}, "within a year"), ("over", {"begin": "2020-01-01T00:00:00Z"}, "within a year"),
                ("no tag", {"maxRunning": "2"}, "maxRunning needs a tag"), ("no number", {"maxRunning": "few", "tag": "a"}, "maxRunning must be"), ("no word", {"hold": "yes"}, "hold must be")):
            reply = submit(m, "new", **query)
            check.refused(what, reply, 400, "InvalidParametersError", words)
        check.equal("nothing is left", [j["name"] for j in m.request("GET", "/api/v2/jobs").json if j["name"] == "new"], [])
        made(m, "64", after=",".join(["prepare"] * 64))
        check.equal("64 of them", m.wait("64"), "SUCCEEDED")
        reply = submit(m, "shown", after="prepare", dryRun="true")
        check.equal("a dry run", (reply.status, m.request("GET", "/api/v2/jobs/alice~shown").status), (200, 404))
        key = {"Idempotency-Key": "the-same", "Content-Type": "text/yaml"}
        first, second = submit(m, "key", headers=key, hold="true"), submit(m, "key", headers=key, hold="true")
        check.equal("repeated", (first.status, second.status, second.headers.get("idempotency-replayed"), m.state("key")), (202, 202, "true", "WAITING"))


def test_held_jobs_of_others(check):
    """With --visibility owner one cannot wait for jobs that one may not see; nobody releases a foreign job."""
    base = tempfile.mkdtemp(prefix="rest-lit-local.")
    secret = write_file(base, "secret", SECRET)
    os.chmod(base, 0o755)
    os.chmod(secret, 0o644)
    with Machine("--visibility", "owner", who=("--jwt-secret-file", secret)) as m:
        alice, bob = bearer(token("alice")), bearer(token("bob"))
        check.equal("of alice", submit(m, "one", headers=alice, hold="true").status, 202)
        check.refused("bob waits for it", submit(m, "two", headers=bob, after="alice~one"), 400, "InvalidParametersError", "there is no job alice~one")
        reply = m.request("PUT", "/api/v2/jobs/alice~one/executionType", '{"value": "START"}', {"Content-Type": "application/json", **bob})
        check.equal("bob releases it", reply.status, 403)
        check.equal("alice does", m.request("PUT", "/api/v2/jobs/alice~one/executionType", '{"value": "START"}', {"Content-Type": "application/json", **alice}).status, 202)


def times(m, name):
    status = m.status(name)
    return status["startTime"], (status.get("attemptStatus") or {}).get("runTime"), status.get("completionTime"), status["attemptStatus"]["id"]


def test_chain_survives_kills_of_the_server(check):
    """Each job after the one before: none is lost, early, twice, or waits for ever, while the server is killed."""
    length, kills = (1000, 20) if WHOLE else (24, 4)
    with Machine("--rate-submit", "0", "--rate-list", "0", "--rate-address", "0") as m:
        names = [f"link{i}" for i in range(length)]
        made(m, names[0], "sleep 1")
        for before, name in zip(names, names[1:]):
            made(m, name, after=before)
        for _ in range(kills):
            at = random.random() * (10 if WHOLE else 0.6)
            time.sleep(at)
            kill(m)
        check.equal("all succeed", set(ended(m, names).values()), {"SUCCEEDED"})
        seen = [times(m, n) for n in names]
        early = [names[i] for i in range(1, length) if seen[i][1] and seen[i][1] < seen[i - 1][2]]
        check.equal("none is early", early, [])
        check.equal("none twice", [n for n, s in zip(names, seen) if s[3] != 0], [])


def test_chain_stops_behind_a_failure(check):
    """All behind it are stopped, each with the name of the one before."""
    with Machine() as m:
        names = [f"link{i}" for i in range(12)]
        made(m, names[0], "sleep 0.5")
        for i, name in enumerate(names[1:], 1):
            made(m, name, *(["exit 3"] if i == 5 else []), after=names[i - 1])
        kill(m)
        states = ended(m, names)
        check.equal("states", [states[n] for n in names], ["SUCCEEDED"] * 5 + ["FAILED"] + ["STOPPED"] * 6)
        for i in (6, 11):
            check.ok(f"{names[i]}: why", f"alice~{names[i - 1]}, whose success" in json.dumps(m.framework(names[i])), m.framework(names[i]))


def test_held_jobs_whose_others_are_deleted(check):
    """Deleted is ended, and no success, also if the name is used again, and if the server stops at once."""
    with Machine() as m:
        for name in ("first", "second"):
            made(m, name, "sleep 60")
            made(m, f"{name}-next", after=name)
            made(m, f"{name}-any", afterAny=name)
            m.stop_job(name)
            m.wait(name)
        m.stop_job("second-next")
        made(m, "third", hold="true")
        made(m, "third-next", after="third")
        made(m, "third-any", afterAny="third")
        check.equal("delete", m.request("DELETE", "/api/v1/user/alice/jobs/third").status, 202)
        made(m, "third", "sleep 60")
        kill(m)
        check.equal("states", (m.wait("third-next"), m.wait("third-any")), ("STOPPED", "SUCCEEDED"))
        check.ok("why", "alice~third, whose success it waits for, was deleted" in json.dumps(m.framework("third-next")), m.framework("third-next"))


def test_a_stop_wins_against_a_start(check):
    """At the same moment: the job is stopped, before its start or after it."""
    with Machine("--rate-submit", "0", "--rate-address", "0") as m:
        for i in range(1000 if WHOLE else 20):
            made(m, f"race{i}", "sleep 600", hold="true")
            both = [threading.Thread(target=f, args=(m, f"race{i}")) for f in (start, Machine.stop_job)]
            for thread in random.sample(both, 2):
                thread.start()
            for thread in both:
                thread.join()
        names = [f"race{i}" for i in range(1000 if WHOLE else 20)]
        check.equal("all are stopped", set(ended(m, names).values()), {"STOPPED"})


class Recorder(socketserver.ThreadingTCPServer):
    """Counts the tasks that are connected to it; the first ones go on when there are four."""
    daemon_threads = allow_reuse_address = True
    request_queue_size = 256

    def __init__(self):
        recorder = self
        self.full = threading.Event()
        self.lock, self.at_once, self.most, self.all, self.last, self.idle = threading.Lock(), 0, 0, 0, None, 0

        class Visit(socketserver.BaseRequestHandler):
            def handle(self):
                with recorder.lock:
                    recorder.at_once += 1
                    recorder.all += 1
                    recorder.most = max(recorder.most, recorder.at_once)
                    if recorder.last is not None:
                        recorder.idle = max(recorder.idle, time.monotonic() - recorder.last)
                        recorder.last = None
                    if recorder.at_once == 4:
                        recorder.full.set()
                recorder.full.wait(60 * SLOW)
                self.request.sendall(b"go\n")
                while self.request.recv(64):
                    pass
                with recorder.lock:
                    recorder.at_once -= 1
                    recorder.last = time.monotonic() if recorder.at_once == 0 else None
        super().__init__(("127.0.0.1", 0), Visit)
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()


def test_at_most_so_many_run_at_once(check):
    """--max-running 4, by what the tasks say themselves, with kills of the server; another tag has its own count."""
    jobs, kills = (200, 10) if WHOLE else (16, 2)
    with Recorder() as seen, Machine("--rate-submit", "0", "--rate-address", "0", "--rate-list", "0") as m:
        command = f"exec 3<>/dev/tcp/127.0.0.1/{seen.server_address[1]}; read -r go <&3; sleep 0.$((RANDOM % 5 + 1))"
        text = job("many", {"main": role(f"x=${{0#<% $parameters.n %>}}; {command}")}, parameters={"n": 0})
        code, out, err = cli("submit", "--server", f"http://127.0.0.1:{m.port}", "--sweep", f"n=1..{jobs}", "--max-running", "4", "--yes", "-", text=text)
        check.equal("submit", (code, len(out.splitlines())), (0, jobs))
        check.equal("an own tag runs at once", (made(m, "other", tag="other", maxRunning=1).get("held"), m.wait("other")), (True, "SUCCEEDED"))
        for _ in range(kills):
            time.sleep(random.random() * 2)
            kill(m)
            seen.last = None
        names = [line.partition("~")[2] for line in out.splitlines()]
        check.equal("all succeed", set(ended(m, names).values()), {"SUCCEEDED"})
        check.ok("never more than 4, but 4", seen.most == 4, seen.most)
        check.equal("each once", seen.all, jobs)
        print(f"     at most {seen.idle:.2f} s without a task", flush=True)
        order = re.findall(r"many-n(\d+)\b", " ".join(n for n in sorted(names, key=lambda n: times(m, n)[1])))
        check.ok("about in their order", [int(n) for n in order[:4]] == sorted(int(n) for n in order[:4]) and int(order[-1]) > jobs - 8, order)


def test_held_jobs_need_nobody_to_ask(check):
    """A thousand of them, and a list: the reasons are there; after a restart, too."""
    with Machine("--rate-submit", "0", "--rate-address", "0") as m:
        for i in range(200 if WHOLE else 30):
            made(m, f"h{i}", hold="true")
        kill(m)
        rows = m.request("GET", "/api/v2/jobs?limit=5000").json
        check.equal("all wait", {(r["state"], r["waitingReason"]["kind"], r["waitingReason"]["reason"]) for r in rows}, {("WAITING", "order", "Held")})
        check.equal("nothing was started", m.log_lines("a held job was started"), [])
