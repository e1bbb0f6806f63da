"""Upgrade of two servers and back, under load, between an older commit and this one.

    tests/e2e/run upgrade [--rate N] [--seconds N] [NAME...]

Clients with the addresses of both servers submit N jobs per second (200), and 50 streams follow
lists, jobs and logs.  Each server is replaced by this commit's, then by the older one again, at
least N seconds (5) apart.  No submission fails, nothing is lost, doubled or left behind, and streams
resume without gap or repetition.  Both versions make the same objects of a job, and show the same
answers.  The figures are for docs/BENCH-LOG.md.

The older version is built from the history of git into build/old; without it, nothing is tested."""
import argparse
import collections
import contextlib
import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "http")]

from cluster import FRAMEWORKS, PATHS, ROOT, Cluster, end_in_order, step, tools
from details import DATA, renamed
from harness import BINARY, SLOW, Checks, Reply, choose, framework_name, free_port, job_v2, wait_until
from jobs import FACTS, SERVER_SET, content_type, difference, is_v1, job_files
from kubelet import Kubelet, Log
from load import ENV_INLINE, OLDER, SHAPES, TIMEOUT, WORKERS, JobFollower, ListFollower, LogFollower, Submitter, percentile
from place import NO_LIMITS
from promise import META, OURS, items, remove_all
from states import write
from tokens import SECRET, bearer, token, write_file

# The older version: the last commit before metrics, webhooks and time limits.
OLD = "a3e52554706c3ae3260dd93b36d9687803504d40"
OLD_TOP = os.path.join(ROOT, "build/old")
OLD_PROGRAM = os.path.join(OLD_TOP, "build/rest-lit")
# Annotations that differ between submissions, and those that only this version writes.
DECLARED = ("rest-lit/submission", "rest-lit/request-id")
# A variable that only the older version sets, and an annotation that only this one writes.
ONLY_ONE = rb'\{"name":"IMAGE_CHECK","value":"[a-z]*"\},?|,?"rest-lit/job-priority-class":"[^"]*"'

USERS = [f"user{i}" for i in range(16)]
FOLLOWED = 12                   # jobs with a changing state and a log
LISTS, JOBS, LOGS = 24, 18, 8   # streams: 50; the older version allows 8 links to logs per address
CHANGE_S = 0.5                  # between two changes of a followed job


def build_old():
    """False without the history of git."""
    def git(*arguments, **more):
        return subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, check=False, **more)
    if git("cat-file", "-e", OLD + "^{commit}").returncode != 0:
        return False
    stamp = os.path.join(OLD_TOP, "COMMIT")
    if not os.path.exists(OLD_PROGRAM) or not os.path.exists(stamp) or open(stamp).read() != OLD:
        shutil.rmtree(OLD_TOP, ignore_errors=True)
        os.makedirs(OLD_TOP)
        archive = git("archive", OLD)
        subprocess.run(["tar", "-x", "-C", OLD_TOP], input=archive.stdout, check=True)
        plain = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
        subprocess.run(["make", "-C", OLD_TOP, "all"], check=True, stdout=subprocess.DEVNULL, env=plain)
        with open(stamp, "w", encoding="utf-8") as f:
            f.write(OLD)
    return True


# ---- both make the same objects -------------------------------------------------------------
@contextlib.contextmanager
def side_by_side(cluster, *arguments):
    """A server of each version."""
    with cluster.serve(*arguments, program=[OLD_PROGRAM]) as old, cluster.serve(*arguments) as new:
        yield old, new


def submit_file(server, path, query=""):
    with open(path, "rb") as f:
        text = f.read()
    return server.submit(text, {"Content-Type": content_type(path)},
                         ("/api/v1/jobs" if is_v1(path) else "/api/v2/jobs") + query)


def same_files(*patterns):
    """Jobs that both versions understand alike: `extras.distributed` gets a port from this one."""
    for path in job_files(*patterns):
        with open(path, "rb") as f:
            if not re.search(rb'^  "?distributed"?:', f.read(), re.M):
                yield path


def test_upgrade_keeps_the_results_of_dry_runs(check, cluster):
    """Dry runs of the whole corpus in both profiles give the same bytes.  Only refusals of this version
    have warnings."""
    files = list(same_files("examples/*.json", "examples/*.yaml", "tests/corpus/v2-*/*", "tests/corpus/v1-valid/*"))
    for profile in ("plain", "openpai"):
        statuses = collections.Counter()
        with side_by_side(cluster, "--profile", profile, "--facts", FACTS) as servers:
            for path in files:
                old, new = (submit_file(s, path, "?dryRun=true") for s in servers)
                statuses[new.status] += 1
                refused = new.json if new.status >= 400 else {}
                before, after = (re.sub(ONLY_ONE, b"", reply.body) for reply in (old, new))
                same = before == after or ("warnings" in refused and
                                           old.json == {k: v for k, v in refused.items() if k != "warnings"})
                check.ok(f"{profile} {os.path.relpath(path, ROOT)}: the same dry run", old.status == new.status and same,
                         f"{old.status}, {new.status}: {difference(json.loads(before), json.loads(after))}")
        print(f"     {profile}: {len(files)} dry runs: {dict(statuses)}", flush=True)
        check.ok(f"{profile}: most jobs are accepted", statuses[200] > len(files) / 2)


def stored(cluster, name):
    """The objects of a job, without the parts that differ between submissions."""
    found = {}
    for kind in ("Framework", "Secret", "ConfigMap", "PriorityClass"):
        for o in items(cluster, kind):
            if o["metadata"]["name"].startswith(name):
                for key in SERVER_SET:
                    o["metadata"].pop(key, None)
                for key in DECLARED:
                    o["metadata"].get("annotations", {}).pop(key, None)
                if kind == "PriorityClass":
                    o.pop("value")  # made from the time of submission
                o = json.loads(re.sub(ONLY_ONE, b"", json.dumps(o, separators=(",", ":")).encode()))
                found[f"{kind} {o['metadata']['name']}"] = o
    return found


def test_upgrade_keeps_the_stored_objects(check, cluster):
    """The examples, submitted to each version: the API server has the same objects."""
    options = ("--facts", FACTS, "--priority-class", "--max-env-inline", "64", "--runtime", "image")
    with side_by_side(cluster, *options) as servers:
        for path in same_files("examples/*.json", "examples/*.yaml"):
            what, seen = os.path.basename(path), []
            for server in servers:
                reply = submit_file(server, path)
                check.equal(f"{what}: is taken", reply.status, 202)
                seen.append(stored(cluster, ""))
                remove_all(cluster)
            wrong = difference(*seen)
            check.ok(f"{what}: the same objects", seen[0] and wrong is None, wrong or "")


# ---- both show the same ---------------------------------------------------------------------
LIST_PATHS = ("/api/v2/jobs", "/api/v2/jobs?order=jobName,ASC&limit=7&offset=3&withTotalCount=true",
              "/api/v2/jobs?state=FAILED,RUNNING&order=completionTime,DESC", "/api/v2/jobs?keyword=a&tagsContain=t",
              "/api/v1/jobs", "/api/v1/user/alice/jobs", "/api/v2/info", "/api/v2/virtual-clusters")
JOB_PATHS = ("", "/config", "/attempts/latest", "/attempts/0", "/attempts/1", "/job-attempts", "/job-attempts/0", "/events",
             "/ssh", "/attempts/0/taskRoles/worker/taskIndex/0/attempts",
             "/attempts/0/taskRoles/worker/taskIndex/0/attempts/0/logs")


def answer(server, path):
    """The response without the signatures of links, and without the text of the waiting reason,
    which may change."""
    reply = server.request("GET", path)
    body = re.sub(rb"\?token=[\w-]+", b"", reply.body)
    body = re.sub(rb'("waitingReason":\{[^{}]*"message":)"(?:[^"\\]|\\.)*"', rb'\1""', body)
    return reply.status, reply.headers.get("etag"), reply.headers.get("content-type"), body


def answers_differ(old, new):
    """The first difference, or None; without what only this version has.  Members have no order."""
    def both(members):
        more = ("firstFailure", "gpuNumber", "gracePeriodSeconds", "gpuIndexes", "hostFiles")
        return {k: v for k, v in members if k not in more and not (k == "code" and isinstance(v, dict))}
    try:
        wrong = difference(*(json.loads(text, object_pairs_hook=both) for text in (old[-1], new[-1])))
    except ValueError:
        wrong = old[-1] != new[-1] and repr((old[-1][:200], new[-1][:200]))
    return wrong or (None if old[:-1] == new[:-1] else repr((old[:-1], new[:-1])))


def same_answers(check, what, servers, paths):
    """A server may know of a change a moment later than the other."""
    statuses = collections.Counter()
    for path in paths:
        seen = []

        def same():
            seen[:] = [answer(s, path) for s in servers]
            return answers_differ(*seen) is None or time.sleep(0.5)
        check.ok(f"{what}: {path}: the same answer", wait_until(same), answers_differ(*seen))
        statuses[seen[0][0]] += 1
    print(f"     {what}: {len(paths)} answers: {dict(statuses)}", flush=True)
    return statuses


def put_states(check, cluster):
    """All states, as jobs of alice and as Frameworks of others."""
    jobs = []
    for file in sorted(os.listdir(DATA)):
        if not file.endswith(".json"):
            continue
        with open(os.path.join(DATA, file), encoding="utf-8") as f:
            given = json.load(f)
        ours = renamed(given, file[:-5].lower())
        theirs = {**given, "metadata": {**given["metadata"], "name": f"other{len(jobs)}", "labels": {}}}
        for o in (ours, theirs):
            for key in SERVER_SET + ("deletionTimestamp", "deletionGracePeriodSeconds", "finalizers"):
                o["metadata"].pop(key, None)
            check.equal(f"{file}: is there", cluster.api("POST", FRAMEWORKS, o)[0], 201)
            jobs.append(o["metadata"]["name"])
    return jobs


def test_upgrade_keeps_the_answers(check, cluster):
    put = put_states(check, cluster)
    with side_by_side(cluster) as servers:
        # Submitted by one, tagged and stopped by the other.
        for i, (one, other) in enumerate((servers, servers[::-1])):
            job = f"/api/v2/jobs/alice~changed-{i}"
            check.equal("taken", one.submit(job_v2(f"changed-{i}")).status, 202)
            for path, body in (("tag", '{"value": "t"}'), ("executionType", '{"value": "STOP"}')):
                status = other.request("PUT", f"{job}/{path}", body, {"Content-Type": "application/json"}).status
                check.equal(f"{path} by the other", status // 100, 2)
        for server in servers:
            check.ok("ready", server.ready())
        rows = servers[0].request("GET", "/api/v1/jobs").json
        check.ok("all are listed", len(rows) >= len(put) + 2, (len(rows), len(put)))
        names = [f"{r['username']}~{r['name']}" if not r.get("legacy") else r["name"] for r in rows]
        paths = list(LIST_PATHS)
        for name in names:
            paths += [f"/api/v2/jobs/{name}{p}" for p in JOB_PATHS] + [f"/api/v1/jobs/{name}", f"/api/v1/jobs/{name}/config"]
        statuses = same_answers(check, "old and new", servers, paths)
        check.ok("most are answered", statuses[200] > 8 * len(put) / 2, statuses)
    for name in cluster.names("Framework"):
        cluster.delete("Framework", name)


# ---- the upgrade ----------------------------------------------------------------------------
class World:
    """A context manager: two servers of the older version, followed jobs, clients."""

    def __init__(self, cluster, rate):
        self.cluster = cluster
        self.directory = tempfile.mkdtemp(prefix="rest-lit-upgrade.")
        self.secret = write_file(self.directory, "jwt-secret", SECRET)
        self.headers = {u: bearer(token(u, application=True)) for u in USERS}
        self.ports = [free_port(), free_port()]
        self.servers = [self.start(port, OLD_PROGRAM) for port in self.ports]
        self.kubelet = Kubelet(cluster)
        self.n, self.over, self.wrong = 0, threading.Event(), []
        self.followed, self.logs = [], []
        for i in range(FOLLOWED):
            self.follow(i)
        self.changer = threading.Thread(target=self.change, daemon=True)
        self.submitters = [Submitter(self.ports, i, USERS[i], self.headers[USERS[i]], rate / WORKERS) for i in range(WORKERS)]
        self.streams = [self.list_stream(i) for i in range(LISTS)] + \
            [self.job_stream(JobFollower, i, "watch") for i in range(JOBS)] + \
            [self.job_stream(LogFollower, i, "attempts/0/taskRoles/worker/taskIndex/0/attempts/0/logs") for i in range(LOGS)]

    def start(self, port, program):
        (OLDER.add if program == OLD_PROGRAM else OLDER.discard)(port)
        return self.cluster.serve("--jwt-secret-file", self.secret, *NO_LIMITS, "--max-env-inline", str(ENV_INLINE),
                                  who=[], port=port, program=[program])

    # ---- followed jobs --------------------------------------------------------------------
    def follow(self, i):
        """A job that runs, with a pod and its log."""
        user, job = USERS[i], f"followed-{i}"
        reply = self.servers[i % 2].submit(job_v2(job), {**self.headers[user], "Content-Type": "text/yaml"})
        if reply.status != 202:
            raise RuntimeError(f"{job}: {reply}")
        name = framework_name(job, user)
        pod = f"{name}-worker-0"
        uid = self.kubelet.pod(pod, {"FC_FRAMEWORK_NAME": name, "FC_TASKROLE_NAME": "worker", "FC_TASK_INDEX": "0"},
                               [{"apiVersion": "v1", "kind": "ConfigMap", "name": f"{name}-attempt", "uid": "c-1",
                                 "controller": True, "blockOwnerDeletion": True}])
        log = Log(b"line 0\n", over=False)
        self.kubelet.logs[pod, "app"] = log
        self.logs.append(log)
        self.followed.append((user, job, name, pod, uid))
        self.set_status(i)

    def set_status(self, i):
        _, _, name, pod, uid = self.followed[i]
        write(self.cluster, name, {
            "state": "AttemptRunning", "startTime": "2026-11-22T00:00:00Z", "retryPolicyStatus": {"totalRetriedCount": self.n},
            "attemptStatus": {"id": 0, "instanceUID": "0_1", "configMapName": f"{name}-attempt", "taskRoleStatuses": [
                {"name": "worker", "taskStatuses": [{"index": 0, "state": "TaskAttemptRunning", "attemptStatus": {
                    "id": 0, "podName": pod, "podUID": uid, "podNodeName": "node0"}}]}]}})

    def change(self):
        try:
            while not self.over.wait(CHANGE_S):
                self.n += 1
                for i, log in enumerate(self.logs):
                    self.set_status(i)
                    log.write(f"line {self.n}\n".encode())
        except Exception as e:
            self.wrong.append(f"the followed jobs: {e!r}")

    # ---- streams ----------------------------------------------------------------------------
    def list_stream(self, i):
        """The first two follow all jobs, the others those of a user."""
        user = USERS[i % len(USERS)]
        return ListFollower(self.ports, i, self.headers[user],
                            "/api/v2/jobs/watch?initial=true" + (f"&username={user}" if i >= 2 else ""))

    def job_stream(self, kind, i, rest):
        user, job = self.followed[i % FOLLOWED][:2]
        return kind(self.ports, i, self.headers[user], f"/api/v2/jobs/{user}~{job}/{rest}")

    # ---- the run ----------------------------------------------------------------------------
    def __enter__(self):
        for t in (*self.streams, self.changer, *self.submitters):
            t.start()
        return self

    def __exit__(self, *_):
        for t in (*self.submitters, *self.streams, self):
            t.over.set()
        for server in self.servers:
            server.remove()
        for t in (*self.submitters, *self.streams):
            t.join(60 * SLOW)
        self.kubelet.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def count(self):
        return sum(len(s.done) for s in self.submitters)

    def quiet(self):
        """Ends the submissions and changes."""
        for t in (*self.submitters, self):
            t.over.set()
        for t in (*self.submitters, self.changer):
            t.join()

    def replace(self, check, i, program):
        """(time of SIGTERM, seconds to the exit, seconds from the start to readiness)"""
        server, begin = self.servers[i], time.monotonic()
        check.equal("exit status", server.stop(), 0)
        drained = time.monotonic()
        errors = server.log_lines('"level":"error"')
        check.equal("no errors in the log", errors[:3], [])
        server.remove()
        self.servers[i] = self.start(self.ports[i], program)
        check.ok("ready", wait_until(lambda: self.servers[i].request("GET", "/readyz").status == 200, 600))
        return begin, drained - begin, time.monotonic() - drained


def pages(cluster, kind):
    more = ""
    while more is not None:
        value = cluster.api("GET", f"{PATHS[kind]}?limit=500{more}")[1]
        yield from value["items"] or []
        more = value["metadata"].get("continue")
        more = f"&continue={more}" if more else None


def judge_objects(check, world):
    """Each accepted job exists once, started, with exactly its dependents."""
    wanted = {framework_name(job, user): set() for user, job, *_ in world.followed}
    for s in world.submitters:
        wanted.update({framework_name(name, s.user): SHAPES[shape] for name, shape, *_ in s.done})
    uids, not_started = {}, []
    for o in pages(world.cluster, "Framework"):
        uids[o["metadata"]["name"]] = o["metadata"]["uid"]
        if o["spec"].get("executionType") != "Start" or "rest-lit/creating" in o["metadata"].get("labels", {}):
            not_started.append(o["metadata"]["name"])
    check.equal("lost jobs", sorted(wanted.keys() - uids.keys()), [])
    check.equal("jobs that nobody was told of", sorted(uids.keys() - wanted.keys()), [])
    check.equal("jobs that are not started", not_started, [])
    parts, orphans = collections.defaultdict(set), []
    for kind in ("Secret", "ConfigMap"):
        for o in items(world.cluster, kind, META):
            name = o["metadata"]["name"]
            parts[name[:32]].add(kind + name[32:])
            if [x["uid"] for x in o["metadata"].get("ownerReferences", [])] != [uids.get(name[:32])]:
                orphans.append(f"{kind} {name}")
    check.equal("orphans", orphans, [])
    check.equal("jobs without all of their objects", {n: (parts[n], w) for n, w in wanted.items() if parts[n] != w}, {})
    check.equal("priority classes", [o["metadata"]["name"] for o in items(world.cluster, "PriorityClass", META)
                                     if OURS.match(o["metadata"]["name"])], [])


class Asking:
    """A server that is asked with a token; long answers are chunked."""

    def __init__(self, server, headers):
        self.server, self.headers = server, headers

    def request(self, method, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=TIMEOUT)
        connection.request(method, path, headers=self.headers)
        reply = connection.getresponse()
        body = reply.read()
        connection.close()
        return Reply(reply.status, {k.lower(): v for k, v in reply.getheaders()}, body)


def rows(server, path, headers):
    """The rows of a list as its watch shows them."""
    reply = Asking(server, headers).request("GET", path)
    if reply.status != 200:
        raise RuntimeError(f"{path}: {reply}")
    found = {f"{row['username']}~{row['name']}": row for row in reply.json}
    for row in found.values():
        row.pop("waitingReason", None)
    return found


def judge_streams(check, world):
    """Each stream has reached the present state, without a violation."""
    server = world.servers[0]
    for s in world.streams:
        if isinstance(s, ListFollower):
            path = s.path.replace("/watch?initial=true", "?limit=50000")
            now = rows(server, path, s.headers)
            check.ok(f"{s.path}: no gap", wait_until(lambda s=s, now=now: s.rows == now),
                     f"{len(s.rows)} of {len(now)}: {[j for j in now if s.rows.get(j) != now[j]][:5]}")
        elif isinstance(s, JobFollower):
            check.ok(f"{s.path}: the last state", wait_until(
                lambda s=s: [r["retries"] for r in s.rows.values()] == [world.n]), s.rows)
    for s in world.streams:
        if isinstance(s, LogFollower):
            log = next(log for (user, job, *_), log in zip(world.followed, world.logs) if f"/{user}~{job}/" in s.path)
            check.ok(f"{s.path}: the whole log", wait_until(lambda s=s, log=log: s.data == log.data),
                     (len(s.data), len(log.data)))
        check.equal(f"{s.path}: violations", s.wrong[:5], [])
        check.ok(f"{s.path}: was resumed", s.ends)


def milliseconds(values):
    return ", ".join(f"{percentile(values, p) * 1e3:.1f}" for p in (50, 95, 99)) + f", {max(values, default=0) * 1e3:.1f}"


def report(world, begin, turns):
    done = [d for s in world.submitters for d in s.done]
    during = [d for d in done if any(t <= d[2] <= t + drain + start for t, drain, start in turns)]
    steady = [d for d in done if d not in set(during)]
    turned = sum((collections.Counter(s.turned) for s in world.submitters), collections.Counter())
    took = max(d[2] for d in done) - begin
    print(f"     {len(done)} submissions in {took:.1f} s, {len(done) / took:.0f} per second")
    for what, part in (("both serve", steady), ("one is replaced", during)):
        print(f"     {what}: {len(part)}; p50, p95, p99, max ms: {milliseconds([d[3] for d in part])}")
    print(f"     tries at the other server: {sum(d[4] > 1 for d in done)}; {dict(turned)}")
    for _, drain, start in turns:
        print(f"     from SIGTERM to the exit {drain * 1e3:.0f} ms, from the start to readiness {start * 1e3:.0f} ms")
    for kind in (ListFollower, JobFollower, LogFollower):
        streams = [s for s in world.streams if isinstance(s, kind)]
        ends = collections.Counter(e for s in streams for e in s.ends)
        print(f"     {kind.__name__}: {len(streams)}, ends {dict(ends)}; from an end to the next answer, p50, p95, p99, max ms: "
              f"{milliseconds([p for s in streams for p in s.pauses])}; "
              f"{sum(getattr(s, 'events', 0) for s in streams)} events, "
              f"{sum(getattr(s, 'again', 0) for s in streams)} again, {sum(getattr(s, 'older', 0) for s in streams)} older",
              flush=True)


def test_upgrade_and_downgrade_fail_no_request(check, cluster):
    turns, begin = [], time.monotonic()
    with World(cluster, OPTIONS.rate) as world:
        for server in world.servers:
            check.ok("ready", server.ready())
        for i, program in ((0, BINARY), (1, BINARY), (0, OLD_PROGRAM), (1, OLD_PROGRAM)):
            before = world.count()
            time.sleep(OPTIONS.seconds)
            check.ok("there is load", wait_until(lambda n=before: world.count() > n + 10))
            turns.append(world.replace(check, i, program))
        before = world.count()
        check.ok("there is load", wait_until(lambda: world.count() > before + 10))
        world.quiet()
        report(world, begin, turns)
        check.equal("submissions that no server has taken", [w for s in world.submitters for w in s.wrong][:5], [])
        check.equal("the followed jobs", world.wrong, [])
        judge_objects(check, world)
        judge_streams(check, world)
        with world.start(None, BINARY) as new:
            check.ok("ready", new.ready())
            both = [Asking(s, world.headers[USERS[0]]) for s in (world.servers[0], new)]
            same_answers(check, "after all", both, ("/api/v2/jobs?limit=50000", "/api/v1/jobs", "/api/v2/jobs?username=user3") + tuple(
                f"/api/v2/jobs/{user}~{job}" for user, job, *_ in world.followed))


TESTS = [test_upgrade_keeps_the_results_of_dry_runs, test_upgrade_keeps_the_stored_objects,
         test_upgrade_keeps_the_answers, test_upgrade_and_downgrade_fail_no_request]
OPTIONS = argparse.Namespace(rate=200.0, seconds=5.0, names=[])


def test_upgrade_is_skipped_without_history(_):
    print(f"     SKIPPED upgrade: commit {OLD[:7]} is not in the history of git here")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rate", type=float, default=OPTIONS.rate)
    parser.add_argument("--seconds", type=float, default=OPTIONS.seconds)
    parser.add_argument("names", nargs="*")
    parser.parse_args(namespace=OPTIONS)
    check = Checks()
    if not build_old():
        check.run(test_upgrade_is_skipped_without_history)
        check.finish()
    end_in_order()
    cluster = Cluster(tools())
    try:
        check.run(cluster.bind, *(step(t, cluster) for t in choose(TESTS, OPTIONS.names)))
    finally:
        cluster.close()
    check.finish()


if __name__ == "__main__":
    main()
