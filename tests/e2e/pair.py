"""Two servers on one cluster, of the same or different installations; and faults of the janitor.

To kill a server during a submission, the fault proxy makes the PATCH hang that starts the job."""
import threading
import time

from cluster import PATHS
from faultproxy import Proxy
from harness import SLOW, framework_name, wait_until
from promise import Collector, Seen, incomplete, is_started, is_taken, job_text, remove_all, serve, wait_settled

AGE = 20
CLEAN = ("--deadline", "10", "--janitor-age", str(AGE), "--janitor-interval", "1")
SOON = (2 * AGE + 300) * SLOW  # one or two rounds after the objects have reached the age
NAMES = 60


def submit_all(server, jobs, results, threads=4):
    """Submits these jobs concurrently; results[job] = status."""
    left = list(jobs)
    lock = threading.Lock()

    def go():
        while True:
            with lock:
                if not left:
                    return
                job = left.pop()
            try:
                reply = server.submit(job_text(job))
                results[job] = reply.status if reply else None
            except OSError:
                results[job] = None
    workers = [threading.Thread(target=go) for _ in range(threads)]
    for w in workers:
        w.start()
    return workers


def leave_behind(cluster, jobs, *arguments):
    """Jobs of a server that is killed after it created all objects and before it started the
    jobs."""
    with Proxy(cluster) as proxy:
        for job in jobs:
            proxy.fault("PATCH", "Framework", framework_name(job), times=None, hang=0)
        server = serve(cluster, "--in-flight", "64", *arguments, url=proxy.url)
        workers = submit_all(server, jobs, {}, len(jobs))
        wait_until(lambda: all(proxy.count("PATCH", "Framework", framework_name(job))
                               for job in jobs), 300)
        server.kill()
        for w in workers:
            w.join()
        server.remove()
    return [job for job in jobs if len(Seen(cluster).of(job)) == 5]


def test_two_servers_create_each_job_once(check, cluster):
    """Concurrent submissions of the same names to both servers."""
    jobs = [f"pair-{i}" for i in range(NAMES)]
    with serve(cluster) as one, serve(cluster) as two:
        first, second = {}, {}
        for w in submit_all(one, jobs, first) + submit_all(two, jobs, second):
            w.join()
        pairs = [sorted([first[j], second[j]]) for j in jobs]
        check.equal("two servers: of each name one is taken", [p for p in pairs if p != [202, 409]], [])
        check.ok("two servers: both took some", 202 in first.values() and 202 in second.values(),
                 (list(first.values()).count(202), list(second.values()).count(202)))
        print(f"     two servers: {list(first.values()).count(202)} and {list(second.values()).count(202)} of "
              f"{NAMES} names", flush=True)
        seen = Seen(cluster)
        for job in jobs:
            wrong = incomplete(seen.of(job), job)
            check.ok(f"two servers: {job} is whole", wrong is None, wrong or "")
    remove_all(cluster)


def test_two_installations_remove_only_their_own_objects(check, cluster):
    """Each server removes only its own incomplete submissions."""
    mine, theirs = [f"mine-{i}" for i in range(3)], [f"theirs-{i}" for i in range(3)]
    check.equal("two installations: left by the one", leave_behind(cluster, mine, "--instance", "one"), mine)
    check.equal("two installations: left by the other", leave_behind(cluster, theirs, "--instance", "two"), theirs)
    # FrameworkController writes this immediately.
    cluster.api("PATCH", f"{PATHS['Framework']}/{framework_name(mine[0])}", {"status": {
        "state": "AttemptCreationPending", "attemptStatus": None}}, "application/merge-patch+json")
    # PriorityClasses without Frameworks, as after deleted jobs.
    for job in (mine[2], theirs[2]):
        cluster.delete("Framework", framework_name(job))
    with serve(cluster, *CLEAN, "--instance", "one") as server, Collector(cluster, 0.5):
        check.ok("two installations: the one removes its own", wait_until(
            lambda: not any(Seen(cluster).of(j) for j in mine), SOON / SLOW), [sorted(Seen(cluster).of(j)) for j in mine])
        check.ok("two installations: and takes jobs", is_taken(server, job_text("of-one")))
        time.sleep(2)  # several rounds without changes
        seen = Seen(cluster)
        check.equal("two installations: what is the other's stays", [len(seen.of(j)) for j in theirs], [5, 5, 1])
    with serve(cluster, *CLEAN, "--instance", "two"):
        after = wait_settled(cluster, SOON)
        check.equal("two installations: the other removes its own", [sorted(after.objects[n]) for n in after.unfinished()], [])
        check.ok("two installations: a started job stays", is_started(after.of("of-one")))
    remove_all(cluster)


def test_started_job_is_not_removed_by_the_janitor(check, cluster):
    """A job is started after the janitor selected it for deletion."""
    check.equal("start wins: one is left", leave_behind(cluster, ["late"]), ["late"])
    n = framework_name("late")
    arrived, go = threading.Event(), threading.Event()
    with Proxy(cluster) as proxy:
        proxy.fault("DELETE", "Framework", n, gate=(arrived, go))
        with serve(cluster, *CLEAN, url=proxy.url):
            if check.ok("start wins: the janitor comes", arrived.wait(SOON)):
                check.equal("start wins: started meanwhile", cluster.api(
                    "PATCH", f"{PATHS['Framework']}/{n}", {"spec": {"executionType": "Start"}, "metadata": {
                        "labels": {"rest-lit/creating": None}}}, "application/merge-patch+json")[0], 200)
            rounds = proxy.count("GET", "PriorityClass", None)
            go.set()
            check.ok("start wins: the janitor goes on", wait_until(
                lambda: proxy.count("GET", "PriorityClass", None) >= rounds + 2, 120))
            wrong = incomplete(Seen(cluster).of("late"), "late")
            check.ok("start wins: it is whole", wrong is None, wrong or "")
    remove_all(cluster)
