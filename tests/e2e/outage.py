"""An outage of the API server for two seconds while 16 clients submit: no waiting request is lost,
and only requests that the API server had received are refused."""
import collections
import threading
import time

from harness import wait_until
from promise import Seen, broken_promise, collect, job_text, remove_all, serve

CLIENTS = 16
AWAY = 2.0
# Without permission to read Secrets, the server cannot check a Secret whose response was lost.  It
# undoes the submission and reports that.
IN_HAND = CLIENTS


def freeze(cluster):
    cluster.freeze()
    time.sleep(AWAY)
    cluster.thaw()


def kill(cluster):
    cluster.kill()
    time.sleep(AWAY)
    cluster.start_again()


class Crowd:
    """Clients that submit jobs in turn."""

    def __init__(self, server, what):
        self.server, self.what = server, what
        self.lock = threading.Lock()
        self.answers = []  # (job, status, seconds, reply)
        self.over = threading.Event()
        self.threads = [threading.Thread(target=self.go, args=(i,)) for i in range(CLIENTS)]

    def go(self, client):
        number = 0
        while not self.over.is_set():
            job = f"{self.what}-{client}-{number}"
            number += 1
            start = time.monotonic()
            try:
                reply = self.server.submit(job_text(job), seconds=700)
            except OSError:
                reply = None
            with self.lock:
                self.answers.append((job, reply.status if reply else None, time.monotonic() - start, reply))

    def taken(self):
        with self.lock:
            return sum(status == 202 for _, status, _, _ in self.answers)

    def __enter__(self):
        for t in self.threads:
            t.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        for t in self.threads:
            t.join()


def outage(check, cluster, what, happens, refusals):
    with serve(cluster, "--drain-timeout", "700") as server:
        with Crowd(server, what) as crowd:
            wait_until(lambda: crowd.taken() >= CLIENTS, 300)
            start = time.monotonic()
            happens(cluster)
            away = time.monotonic() - start
            before = crowd.taken()
            wait_until(lambda: crowd.taken() >= before + CLIENTS, 300)
        check.equal(f"{what}: exit status", server.stop(), 0)
    collect(cluster)
    seen = Seen(cluster)
    statuses = collections.Counter(status for _, status, _, _ in crowd.answers)
    print(f"     {what}: API server away for {away:.1f} s: {dict(statuses)}; slowest answer "
          f"{max(s for _, _, s, _ in crowd.answers):.1f} s", flush=True)
    for job, status, _, reply in crowd.answers:
        wrong = broken_promise(seen.of(job), job, [status])
        check.ok(f"{what}: {job}: {status}", wrong is None, f"{wrong}; {reply and reply.message}")
    # A restarted API server answers 403 until it has loaded its roles, which may take long.
    refused = [reply.message if reply else "no answer" for _, status, _, reply in crowd.answers
               if status != 202 and not (reply and "403 Forbidden" in reply.message)]
    check.ok(f"{what}: at most {refusals} refusals", len(refused) <= refusals, refused[:5])
    check.ok(f"{what}: the rest was taken", statuses[202] >= 2 * CLIENTS, dict(statuses))
    remove_all(cluster)


def test_outage_of_a_frozen_api_server_loses_no_request(check, cluster):
    outage(check, cluster, "frozen", freeze, 0)


def test_outage_of_a_stopped_api_server_loses_no_request(check, cluster):
    outage(check, cluster, "stopped", kill, IN_HAND)
