"""Fifty kills of the server at random times, while 16 clients submit a thousand jobs; the API
server is restarted twice meanwhile.

    tests/e2e/run kill [--seed N] [--jobs N] [--kills N]

Afterwards, jobs with 202 exist completely and are started; refused jobs have no objects; jobs
without a response are either complete or removed by the janitor.  With sanitizers, there are fewer
jobs."""
import argparse
import bisect
import collections
import os
import random
import signal
import sys
import threading
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "http")]

from cluster import Cluster, end_in_order, tools
from harness import SLOW, Checks, framework_name, request_bytes, wait_until
from promise import (Collector, Seen, broken_promise, connect, incomplete, is_started, job_text,
                     serve, wait_settled)

CLIENTS = 16
DEADLINE = 20
# Maximum time for a submission; the janitor may remove older incomplete ones.
AGE = DEADLINE + 10
OUTAGES = (signal.SIGTERM, signal.SIGKILL)
SHAPES = ["whole"] * 6 + ["secrets", "bare"]


class Mortal:
    """A server that is killed and restarted on the same port."""

    def __init__(self, cluster):
        self.server = serve(cluster, "--deadline", str(DEADLINE), "--janitor-age", str(AGE),
                            "--janitor-interval", "1")
        self.port = self.server.port

    def die_and_rise(self):
        self.server.kill()
        self.server.launch()

    def listens(self):
        try:
            self.server.connect().close()
            return True
        except OSError:
            return False


class Storm:
    def __init__(self, cluster, mortal, options):
        self.cluster, self.mortal = cluster, mortal
        self.jobs, self.seed = options.jobs, options.seed
        rng = random.Random(options.seed)
        # Numbers of the jobs before which the server, or the API server, is killed.
        self.deaths = sorted(rng.sample(range(CLIENTS, self.jobs - CLIENTS), options.kills))
        self.outages = [self.jobs * (i + 1) // (len(OUTAGES) + 1) for i in range(len(OUTAGES))]
        self.changed = threading.Condition()
        self.taken = self.killed = self.out = 0
        self.shapes = {}
        self.outcomes = collections.defaultdict(list)  # by name
        self.failures = []

    # ---- clients ------------------------------------------------------------------------
    def take(self):
        """The number of the next job, or None.  Clients wait for a pending kill."""
        with self.changed:
            if self.taken >= self.jobs:
                return None
            number = self.taken
            self.taken += 1
            self.changed.notify_all()
            due = bisect.bisect_left(self.deaths, number - CLIENTS)
            gone = bisect.bisect_left(self.outages, number - CLIENTS)
            self.changed.wait_for(lambda: self.failures or (self.killed >= due and self.out >= gone))
        return number

    def once(self, name):
        """One submission: the status, or None without a response."""
        server = self.mortal.server
        data = request_bytes(server.port, "POST", "/api/v2/jobs", job_text(name, self.shapes[name]).encode(),
                             {"Connection": "close"})
        with connect(server) as connection:
            connection.send(data)
            reply = connection.reply(60)
        status = reply.status if reply else None
        if status == 504 and reply.code != "OutcomeUnknown":
            status = -504
        self.outcomes[name].append(status)
        return status

    def persist(self, rng, name):
        """Submits a job until the client has a response or gives up."""
        for again in range(4):
            status = self.once(name)
            way = rng.random()
            if status in (202, 409) or status == 503 and way < 0.3 or way < 0.1:
                return
            if status is None and way < 0.55:
                shape = self.shapes[name]
                name = f"{name}-{again}"
                self.shapes[name] = shape
            # else: the same name again

    def client(self, i):
        rng = random.Random(f"{self.seed} client {i}")
        while (number := self.take()) is not None:
            name = f"job-{number}"
            self.shapes[name] = rng.choice(SHAPES)
            self.persist(rng, name)

    # ---- kills --------------------------------------------------------------------------
    def wait_for(self, number):
        with self.changed:
            self.changed.wait_for(lambda: self.failures or self.taken > number)

    def death(self):
        rng = random.Random(f"{self.seed} death")
        for number in self.deaths:
            self.wait_for(number)
            # Sometimes immediately after the start.
            if rng.random() < 0.9:
                wait_until(self.mortal.listens)
            time.sleep(rng.uniform(0, 0.06) * SLOW)
            self.mortal.die_and_rise()
            with self.changed:
                self.killed += 1
                self.changed.notify_all()

    def outage(self):
        for number, sign in zip(self.outages, OUTAGES):
            self.wait_for(number)
            self.cluster.kill(sign)
            self.cluster.start_again()
            with self.changed:
                self.out += 1
                self.changed.notify_all()

    def run(self):
        def guarded(function, *arguments):
            try:
                function(*arguments)
            except Exception as e:
                with self.changed:
                    self.failures.append(f"{function.__name__}: {e!r}")
                    self.changed.notify_all()
        threads = [threading.Thread(target=guarded, args=(self.client, i)) for i in range(CLIENTS)]
        threads += [threading.Thread(target=guarded, args=(f,)) for f in (self.death, self.outage)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()


def judge(check, storm, seen):
    """Checks the contract for every job name."""
    for name, outcomes in storm.outcomes.items():
        wrong = broken_promise(seen.of(name), name, outcomes, storm.shapes[name])
        check.ok(f"{name} {outcomes}", wrong is None, wrong or "")
    foreign = set(seen.objects) - {framework_name(name) for name in storm.outcomes}
    check.equal("no objects of unknown jobs", sorted(foreign), [])


def report(storm, seen, took):
    answers = collections.Counter("lost" if s is None else str(s)
                                  for outcomes in storm.outcomes.values() for s in outcomes)
    unfinished = collections.Counter("Framework" in seen.objects[n] for n in seen.unfinished())
    print(f"     {sum(answers.values())} submissions of {len(storm.outcomes)} names in {took:.1f} s, server killed "
          f"{storm.killed} times, API server stopped {storm.out} times")
    print(f"     answers: {dict(sorted(answers.items()))}")
    print(f"     left for the janitor: {unfinished[True]} Frameworks, {unfinished[False]} PriorityClasses alone", flush=True)


def storm_and_janitor(check, cluster, options):
    mortal = Mortal(cluster)
    with mortal.server, Collector(cluster, 2.0) as collector:
        storm = Storm(cluster, mortal, options)
        start = time.monotonic()
        storm.run()
        took = time.monotonic() - start
        check.equal("everybody went on to the end", storm.failures, [])
        check.equal("killed", storm.killed, options.kills)
        check.ok("the server is there again", wait_until(mortal.listens, 300))
        seen = Seen(cluster)
        judge(check, storm, seen)
        report(storm, seen, took)
        check.ok("some answers were lost", any(None in o for o in storm.outcomes.values()))
        started = {n for n, parts in seen.objects.items() if is_started(parts)}
        start = time.monotonic()
        seen = wait_settled(cluster, (3 * AGE + 60) * SLOW)
        print(f"     the janitor needed {time.monotonic() - start:.1f} s; {collector.removed} Secrets and ConfigMaps "
              f"were the garbage collector's; {len(started)} jobs run", flush=True)
        check.equal("after the janitor: nothing unfinished", [(n, sorted(seen.objects[n])) for n in seen.unfinished()], [])
        check.equal("after the janitor: what was started", set(seen.objects) ^ started, set())
        for name, outcomes in storm.outcomes.items():
            if 202 in outcomes:
                wrong = incomplete(seen.of(name), name, storm.shapes[name])
                check.ok(f"{name}: still whole", wrong is None, wrong or "")
        check.ok("no secret in the log", "Marker-of-a-secret" not in mortal.server.settled_log())


def main():
    fewer = 1 if SLOW == 1 else 4
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--jobs", type=int, default=1000 // fewer)
    parser.add_argument("--kills", type=int, default=50 // fewer)
    options = parser.parse_args()
    print(f"     seed {options.seed}", flush=True)
    end_in_order()
    check = Checks()
    cluster = Cluster(tools())
    try:
        def test_storm_of_kills_keeps_the_contract(check):
            storm_and_janitor(check, cluster, options)
        check.run(cluster.bind, test_storm_of_kills_keeps_the_contract)
    finally:
        cluster.close()
    check.finish()


main()
