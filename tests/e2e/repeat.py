"""Idempotency-Key: a client that retries its request gets exactly one job, while the server is
killed repeatedly."""
import collections
import random
import threading
import time

from harness import SLOW, request_bytes, wait_until
from promise import Collector, connect, incomplete, job_text, remove_all, serve, wait_settled

DEADLINE = 20
AGE = DEADLINE + 10
CLIENTS = 16
JOBS, KILLS = (160, 12) if SLOW == 1 else (60, 5)
REPLAYED = "idempotency-replayed"


def post(server, text, key):
    """One request: its response, or None."""
    data = request_bytes(server.port, "POST", "/api/v2/jobs", text.encode(),
                         {"Connection": "close", "Idempotency-Key": key})
    with connect(server) as connection:
        connection.send(data)
        return connection.reply(300)


def test_repeated_requests_during_kills_create_one_job(check, cluster):
    """Each client retries until its request is accepted.  Objects of a killed server cause 409
    IdempotencyError until the janitor removes them."""
    rng = random.Random(20)
    answers = collections.Counter()
    left = [f"once-{i}" for i in range(JOBS)]
    lock = threading.Lock()
    with serve(cluster, "--deadline", str(DEADLINE), "--janitor-age", str(AGE), "--janitor-interval", "1") as server, \
            Collector(cluster, 1.0):

        def insist(job):
            end = time.monotonic() + 600 * SLOW
            while time.monotonic() < end:
                reply = post(server, job_text(job), f"key-of-{job}")
                said = "lost" if reply is None else reply.headers.get(REPLAYED) and "replayed" or str(reply.status)
                with lock:
                    answers[said] += 1
                if reply is not None and reply.status == 202:
                    return
                if reply is not None and reply.status == 409:
                    check.ok(f"repeated, killed: {job}: 409 is of the key, or of a Secret that goes", reply.code in
                             ("IdempotencyError", "ConflictJobError"), reply)
                    time.sleep(1)

        def client():
            while True:
                with lock:
                    if not left:
                        return
                    job = left.pop()
                insist(job)

        clients = [threading.Thread(target=client) for _ in range(CLIENTS)]
        for c in clients:
            c.start()
        for _ in range(KILLS):
            time.sleep(rng.uniform(0.05, 0.15) * SLOW)
            wait_until(server.answers)
            server.kill()
            server.launch()
        for c in clients:
            c.join()
        after = wait_settled(cluster, 3 * AGE * SLOW)
    print(f"     repeated, killed {KILLS} times: {dict(answers)}", flush=True)
    for i in range(JOBS):
        wrong = incomplete(after.of(f"once-{i}"), f"once-{i}")
        check.ok(f"repeated, killed: once-{i}", wrong is None, wrong or "")
    check.equal("repeated, killed: nothing else is left", len(after.objects), JOBS)
    remove_all(cluster)
