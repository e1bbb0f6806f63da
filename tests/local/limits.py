"""Limits of users on one machine: how much runs at once, and how many jobs there are; also after SIGHUP."""
import json
import os
import random
import signal
import tempfile
import threading

from harness import wait_until
from machine import DONE, Machine, job, role
from tokens import SECRET, bearer, token, write_file


class Limited(Machine):
    """A server whose users have these limits."""

    def __init__(self, facts, *arguments, **more):
        base = tempfile.mkdtemp(prefix="rest-lit-local.")
        os.chmod(base, 0o755)
        self.facts = os.path.join(base, "facts")
        self.write(facts)
        secret = write_file(base, "secret", SECRET)
        os.chmod(secret, 0o644)
        super().__init__("--facts", self.facts, "--rate-submit", "0", "--rate-address", "0", "--rate-list", "0", *arguments, who=("--jwt-secret-file", secret), **more)

    def write(self, facts):
        with open(f"{self.facts}.new", "w", encoding="utf-8") as f:
            json.dump(facts, f)
        os.chmod(f"{self.facts}.new", 0o644)
        os.replace(f"{self.facts}.new", self.facts)

    def forget(self, name):
        for user in ("alice", "bob", "carol"):
            self.request("DELETE", f"/api/v1/user/{user}/jobs/{name}", headers=bearer(token(user)))

    def change(self, facts):
        n = len(self.log_lines("SIGHUP: users were read again"))
        self.write(facts)
        self.process.send_signal(signal.SIGHUP)
        self.logged("SIGHUP: users were read again", n + 1)

    def send(self, user, name, cpu=1, instances=1, command="sleep 1000", **more):
        return self.submit(job(name, {"main": role(command, cpu=cpu, instances=instances)}, **more), bearer(token(user)))

    def jobs_of(self, user):
        reply = self.request("GET", f"/api/v2/jobs?username={user}", headers=bearer(token(user)))
        assert reply.status == 200, (user, reply.body)
        return {r["name"]: r for r in reply.json}

    def running(self, user):
        return {n for n, r in self.jobs_of(user).items() if r["state"] == "RUNNING"}

    def why(self, user, name):
        return (self.jobs_of(user)[name].get("waitingReason") or {}).get("message", "")

    def end(self, user, name):
        return self.request("PUT", f"/api/v2/jobs/{user}~{name}/executionType", '{"value": "STOP"}', {"Content-Type": "application/json", **bearer(token(user))}).status


def test_limits_of_users_bound_what_runs_at_once(check):
    """Own, of groups and of all; more waits and says why; SIGHUP changes them and stops nothing; a restart keeps them."""
    facts = {"limits": {"cpu": 2}, "groups": {"g": {"virtualClusters": ["default"], "limits": {"cpu": 4}}, "h": {"limits": {"cpu": 3}}},
             "users": {"alice": {"groups": ["g", "h"]}, "bob": {"groups": ["g"], "limits": {"cpu": 1}}}}
    with Limited(facts) as m:
        for user, most in (("alice", 4), ("bob", 1), ("carol", 2)):
            for i in range(6):
                check.equal(f"{user}: {i}", m.send(user, f"{user}{i}").status, 202)
            check.ok(f"{user}: so many run", wait_until(lambda u=user, n=most: len(m.running(u)) == n, 30), m.running(user))
        waits = sorted(set(m.jobs_of("bob")) - m.running("bob"))[-1]
        check.ok("why", wait_until(lambda: "waits for other jobs of bob to end: 1 CPU wanted, 0 left of the user's limit" in m.why("bob", waits), 10), m.why("bob", waits))
        reply = m.send("bob", "large", cpu=2)
        check.refused("never", reply, 400, "InvalidProtocolError", "2 CPUs for a task; your limit is 1")
        was = m.running("alice")
        facts["groups"]["g"]["limits"]["cpu"], facts["users"]["bob"]["limits"]["cpu"] = 1, 3
        m.change(facts)
        check.ok("more for bob", wait_until(lambda: len(m.running("bob")) == 3, 30), m.running("bob"))
        check.equal("nothing of alice is stopped", m.running("alice"), was)
        m.end("alice", sorted(was)[0])
        check.ok("and less starts", wait_until(lambda: len(m.running("alice")) == 3, 30), m.running("alice"))
        m.kill()
        m.launch()
        m.comes_up()
        check.ok("after a restart", wait_until(lambda: (len(m.running("alice")), len(m.running("bob")), len(m.running("carol"))) == (3, 3, 2), 30),
                 [m.running(u) for u in ("alice", "bob", "carol")])


def test_number_of_jobs_of_a_user(check):
    """The 21st is refused, with the numbers, also of many at once; ended ones do not count; a dry run and a repetition do not."""
    with Limited({"limits": {"jobs": 20}}) as m:
        replies = []
        threads = [threading.Thread(target=lambda i=i: replies.append(m.send("alice", f"j{i}", command="sleep 100").status)) for i in range(40)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        check.equal("of 40", (replies.count(202), replies.count(403)), (20, 20))
        reply = m.send("alice", "more")
        check.refused("one more", reply, 403, "ForbiddenUserError", "20 jobs that have not ended", "may have 20")
        check.equal("another user", m.send("bob", "one", command="true").status, 202)
        name = next(iter(m.jobs_of("alice")))
        key = {"Idempotency-Key": "k", **bearer(token("alice"))}
        m.end("alice", name)
        wait_until(lambda: m.jobs_of("alice")[name]["state"] in DONE)
        text = job("again", {"main": role("sleep 100")})
        check.equal("one has ended", m.submit(text, key).status, 202)
        reply = m.submit(text, key)
        check.equal("repeated", (reply.status, reply.headers.get("idempotency-replayed")), (202, "true"))
        check.equal("held ones count", m.submit(job("held", {"main": role("true")}), bearer(token("alice")), "/api/v2/jobs?hold=true").status, 403)
        m.change({"limits": {"jobs": 25}})
        check.equal("after SIGHUP", m.send("alice", "more").status, 202)


def test_limits_are_never_exceeded(check):
    """Random steps: submit, stop, SIGHUP, restart; at each moment no more runs than the limits that were in force."""
    random.seed(1)
    users, facts = ("alice", "bob", "carol"), {"limits": {"cpu": 3}, "users": {"bob": {"limits": {"cpu": 5}}}}
    most = {"alice": 3, "bob": 5, "carol": 3}
    with Limited(facts) as m:
        for step in range(400 if os.environ.get("TEST_WHOLE") == "1" else 60):
            user = random.choice(users)
            what = random.random()
            if what < 0.6:
                m.send(user, f"s{step}", cpu=random.randint(1, 3), command=f"sleep {random.random() * 3:.1f}")
            elif what < 0.8 and m.running(user):
                m.end(user, random.choice(sorted(m.running(user))))
            elif what < 0.95:
                facts["limits"]["cpu"] = random.randint(3, 6)
                m.change(facts)
                for u in ("alice", "carol"):
                    most[u] = max(most[u], facts["limits"]["cpu"])
            else:
                m.kill()
                m.launch()
                m.comes_up()
            for u in users:
                rows = m.jobs_of(u)
                cpus = 0
                for n in (n for n, r in rows.items() if r["state"] == "RUNNING"):
                    detail = m.request("GET", f"/api/v2/jobs/{u}~{n}/config", headers=bearer(token(u)))
                    cpus += detail.json["taskRoles"]["main"]["resourcePerInstance"]["cpu"] if detail.status == 200 else 0
                check.ok(f"{u} at step {step}", cpus <= most[u], (cpus, most[u]))
        check.ok("all end", wait_until(lambda: all(r["state"] in DONE for u in users for r in m.jobs_of(u).values()), 120), [m.jobs_of(u) for u in users])
