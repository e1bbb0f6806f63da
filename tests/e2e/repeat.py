"""Idempotency-Key: a client that retries its request gets exactly one job, while the server is
killed repeatedly."""
import collections
import random
import subprocess
import threading
import time

from harness import SLOW, request_bytes, wait_until
from promise import Collector, Seen, connect, incomplete, job_text, remove_all, serve, wait_settled

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


def test_repeated_request_returns_the_same_answer(check, cluster):
    with serve(cluster) as server:
        text = job_text("again")
        first = post(server, text, "key-1")
        check.equal("repeated: first", (first.status, first.headers.get(REPLAYED)), (202, None))
        uid = Seen(cluster).of("again")["Framework"]["metadata"]["uid"]
        for _ in range(2):
            more = post(server, text, "key-1")
            check.equal("repeated: again", (more.status, more.headers.get(REPLAYED)), (202, "true"))
            check.equal("repeated: the same answer", more.body, first.body)
        other = text.replace('"cpu": 1', '"cpu": 2')
        reply = post(server, other, "key-1")
        check.equal("repeated: another body", (reply.status, reply.code), (422, "IdempotencyError"))
        reply = post(server, text, "key-2")
        check.equal("repeated: another key", (reply.status, reply.code), (409, "ConflictJobError"))
        check.equal("repeated: without a key", server.submit(text).status, 409)
        check.equal("repeated: it is the one job", Seen(cluster).of("again")["Framework"]["metadata"]["uid"], uid)
        check.ok("repeated: the key is not in the cluster", "key-1" not in str(Seen(cluster).of("again")))
        server.kill()
    with serve(cluster) as server:
        more = post(server, text, "key-1")
        check.equal("repeated: of another process", (more.status, more.headers.get(REPLAYED)), (202, "true"))
    remove_all(cluster)


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
            server.process = subprocess.Popen(server.command, stdin=subprocess.DEVNULL, stdout=server.log_stream,
                                              stderr=subprocess.STDOUT, cwd=server.directory)
        for c in clients:
            c.join()
        after = wait_settled(cluster, 3 * AGE * SLOW)
    print(f"     repeated, killed {KILLS} times: {dict(answers)}", flush=True)
    for i in range(JOBS):
        wrong = incomplete(after.of(f"once-{i}"), f"once-{i}")
        check.ok(f"repeated, killed: once-{i}", wrong is None, wrong or "")
    check.equal("repeated, killed: nothing else is left", len(after.objects), JOBS)
    remove_all(cluster)
