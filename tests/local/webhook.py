"""serve --local --webhook: each end of a job is reported at least once, to a receiver that fails."""
import os
import shutil
import tempfile
import time
import urllib.request

from harness import SLOW, USER, free_port, wait_until
from machine import NOBODY, Machine, role
from receiver import PATH, SECRET, Receiver

OUTAGE = 30 if os.environ.get("TEST_WHOLE") else 4


class Secret:
    """A file with the secret, readable by the server."""

    def __init__(self, text=SECRET + "\n"):
        self.directory = tempfile.mkdtemp(prefix="rest-lit-webhook.")
        self.path = os.path.join(self.directory, "secret")
        with open(self.path, "w", encoding="ascii") as f:
            f.write(text)
        if os.geteuid() == 0:
            os.chown(self.path, NOBODY, NOBODY)
        os.chmod(self.directory, 0o755)
        os.chmod(self.path, 0o600)

    def __enter__(self):
        return self.path

    def __exit__(self, *_):
        shutil.rmtree(self.directory, ignore_errors=True)


def arguments(url, secret):
    return "--webhook", url, "--webhook-secret-file", secret, "--webhook-allow-private"


def sent(m, name):
    return "rest-lit/webhook-sent" in m.framework(name)["metadata"]["annotations"]


def test_webhook_reports_each_end_once(check):
    """Each end is reported once, also after a restart, with state, exit code, times and signature,
    and without `env`."""
    with Secret() as secret, Receiver(answers={"unwanted": [410]}) as to:
        with Machine(*arguments(to.url, secret)) as m:
            m.start("good", {"main": role("true")})
            m.start("bad", {"main": role("exit 3")})
            m.start("limited", {"main": role("exec sleep 1000")}, extras={"maxDurationSec": 1})
            m.start("unwanted", {"main": role("true")})
            m.start("running", {"main": role("exec sleep 1000")})
            names = ["bad", "good", "limited", "unwanted"]
            check.ok("all are reported", wait_until(lambda: sorted(to.names()) == names), to.names())
            check.equal("genuine", to.forged, [])
            ends = {end["name"]: end for end in to.got}
            for name in names:
                status = m.request("GET", f"/api/v2/jobs/{USER}~{name}").json["jobStatus"]
                end = ends[name]
                check.equal(f"{name}: as in details", [end[k] for k in ("username", "state", "exitCode", "completedTime", "launchedTime", "retries")],
                            [status[k] for k in ("username", "state", "appExitCode", "completedTime", "launchedTime", "retries")])
                check.equal(f"{name}: uid", end["uid"], m.framework(name)["metadata"]["uid"])
                check.ok(f"{name}: marked", wait_until(lambda n=name: sent(m, n)))
            check.ok("reason of the stop", "time limit" in ends["limited"]["stopReason"] and ends["good"]["stopReason"] is None, ends)
            m.process.kill()
            m.process.wait()
            again = m.again()
            check.ok("all jobs are known", again.ready())
            again.start("later", {"main": role("true")})
            check.ok("a later job", wait_until(lambda: "later" in to.names()))
            check.equal("nothing twice", sorted(to.names()), sorted(names + ["later"]))
            log = m.log() + again.log()
            check.ok("no secret in the log", SECRET not in log and PATH not in log, log[-1000:])
            check.equal("one path", to.paths, {PATH})
            again.remove()


def test_webhook_reports_idle_gpus_once_for_each_warning(check):
    """The annotation is set in the database; a job that somebody keeps is reported again with the next one."""
    def flag(m, name, since):
        m.process.kill()
        m.process.wait()
        m.change("UPDATE object SET body = json_set(body, '$.metadata.annotations.\"rest-lit/gpu-idle\"', ?) "
                 "WHERE body ->> '$.metadata.annotations.jobName' = ?", f"{since} {since + 5} other 7", name)
        return m.again()

    def marked(m, name):
        return m.framework(name)["metadata"]["annotations"].get("rest-lit/webhook-idle")
    with Secret() as secret, Receiver(answers={"idle": [500]}) as to:
        m = Machine(*arguments(to.url, secret))
        m.start("idle", {"main": role("exec sleep 1000")})
        m.start("other", {"main": role("exec sleep 1000")})
        check.ok("they run", all(m.wait(n, "RUNNING") == "RUNNING" for n in ("idle", "other")))
        check.equal("nothing is reported", to.got, [])
        again = flag(m, "idle", 1767225600000)
        check.ok("reported, after a failure", wait_until(lambda: marked(again, "idle") == "1767225600000"))
        sent_now = to.got[-1]
        check.equal("form", (sent_now["event"], sent_now["name"], sent_now["state"], sent_now["gpuIdleSince"], sent_now["completedTime"]),
                    ("job.idle", "idle", "RUNNING", 1767225600000, None))
        check.ok("no member of an end", "stopReason" not in sent_now, sent_now)
        n = len(to.got)
        third = flag(again, "idle", 1767225700000)
        check.ok("the next warning", wait_until(lambda: marked(third, "idle") == "1767225700000"))
        check.equal("once", (len(to.got), to.got[-1]["gpuIdleSince"]), (n + 1, 1767225700000))
        reply = third.request("PUT", f"/api/v2/jobs/{USER}~idle/keep", '{"hours": 1}', {"Content-Type": "application/json"})
        check.equal("kept", reply.status, 200)
        notes = third.framework("idle")["metadata"]["annotations"]
        check.ok("the warning is gone", "rest-lit/gpu-idle" not in notes and "rest-lit/webhook-idle" not in notes, notes)
        third.stop_job("idle")
        third.wait("idle")
        check.ok("its end, in its form", wait_until(lambda: to.got[-1]["event"] == "job.ended"), to.got[-1])
        check.ok("without idleness", "gpuIdleSince" not in to.got[-1], to.got[-1])
        check.equal("the other job: nothing", [g for g in to.got if g["name"] == "other"], [])
        third.remove()
        again.remove()
        m.remove()


def test_webhook_reports_after_an_outage(check):
    """The receiver is down for a while, and the server is killed meanwhile. A submission without
    --webhook is not reported."""
    to = Receiver()
    with Secret() as secret:
        m = Machine(*arguments(to.url, secret))
        names = [f"j{i}" for i in range(8)]
        for name in names:
            m.start(name, {"main": role("true", cpu=1)})
        check.ok("they end", wait_until(lambda: all(m.state(n) == "SUCCEEDED" for n in names)))
        check.ok("trouble is logged", wait_until(lambda: "cannot be reported" in m.log()), m.log()[-500:])
        m.process.kill()
        m.process.wait()
        plain = Machine(where=m.where)
        plain.start("unreported", {"main": role("true")})
        plain.wait("unreported")
        check.equal("stopped", plain.stop(), 0)
        again = Machine(*arguments(to.url, secret), where=m.where)
        check.ok("trouble is logged again", wait_until(lambda: "cannot be reported" in again.log()), again.log()[-500:])
        time.sleep(OUTAGE)  # for more tries
        with to:
            check.ok("all are reported", wait_until(lambda: set(to.names()) >= set(names)), to.names())
            check.ok("and marked", wait_until(lambda: all(sent(again, n) for n in names)))
            check.equal("once each", sorted(to.names()), names)
            check.equal("trouble is logged once", again.log().count("cannot be reported"), 1)
            check.ok("the log says so", wait_until(lambda: "reported to --webhook again" in again.log()))
            check.equal("genuine", to.forged, [])
        again.remove()
        m.remove()


def test_webhook_failure_of_one_job_delays_no_others(check):
    """A receiver that refuses one job, and does not respond for another one, gets the others;
    metrics count both."""
    port = free_port()

    def metric(name):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60 * SLOW) as reply:
            return int(reply.read().decode().split(f"\nrest_lit_webhook_{name} ")[1].split("\n")[0])
    with Secret() as secret, Receiver(answers={"refused": [500, 404, 302] + [500] * 99, "silent": [0] * 99},
                                      headers=[("Location", "/elsewhere")]) as to:
        with Machine(*arguments(to.url, secret), "--metrics-listen", f"127.0.0.1:{port}") as m:
            for name in ("refused", "silent"):
                m.start(name, {"main": role("true")})
            check.ok("they are sent", wait_until(lambda: {"refused", "silent"} <= set(to.names())))
            for i in range(3):
                m.start(f"fine{i}", {"main": role("true")})
            check.ok("the others are reported", wait_until(lambda: all(f"fine{i}" in to.names() for i in range(3))), to.names())
            check.ok("the refused one again", wait_until(lambda: to.names().count("refused") >= 3, 240), to.names())
            check.ok("neither is marked", not sent(m, "refused") and not sent(m, "silent"))
            check.ok("two are pending", wait_until(lambda: (metric("pending"), metric("sent_total")) == (2, 3)))
            check.ok("failures", wait_until(lambda: metric("failures_total") >= 3))
            check.equal("no redirect is followed", to.paths, {PATH})
            check.equal("the others once", [to.names().count(f"fine{i}") for i in range(3)], [1, 1, 1])


def test_webhook_refuses_private_addresses(check):
    """Addresses and options: tests/unit/k8s/http/test_poster.c and server/config/test_options_check.c."""
    with Secret() as secret, Secret("too short\n") as short, Receiver() as to:
        with Machine("--webhook", f"https://localhost:{to.port}/x", "--webhook-secret-file", secret) as m:
            m.start("mine", {"main": role("true")})
            check.ok("refused", wait_until(lambda: "is not public" in m.log()), m.log()[-500:])
        m = Machine(*arguments(to.url, short), wait=False)
        check.ok("short secret: refused", m.process.wait(60) == 2 and "less than 16 bytes" in m.log(), m.log())
        m.remove()
        check.equal("nothing was sent", to.got, [])
