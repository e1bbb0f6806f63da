"""A rolling restart of two servers under load.

Clients with the addresses of both servers submit jobs, and follow lists, jobs and logs, while each
server is replaced.  No submission fails, nothing is lost, doubled or left behind, and streams
resume without gap or repetition."""
import threading

from harness import SLOW, framework_name, free_port, job_v2, wait_until
from kubelet import Kubelet, Log
from load import JobFollower, ListFollower, LogFollower, Submitter, percentile
from place import NO_LIMITS
from promise import Seen, incomplete, remove_all, serve
from states import write

RATE = 50.0                     # jobs per second, of all clients together
SUBMITTERS = 16
FOLLOWED = 12                   # jobs with a changing state and a log
LISTS, JOBS, LOGS = 8, 18, 8    # streams
CHANGE_S = 0.5                  # between two changes of a followed job


class World:
    """A context manager: two servers, followed jobs, clients."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.ports = [free_port(), free_port()]
        self.servers = [self.start(port) for port in self.ports]
        self.kubelet = Kubelet(cluster)
        self.n, self.over, self.wrong = 0, threading.Event(), []
        self.followed = [self.follow(f"followed-{i}") for i in range(FOLLOWED)]
        self.changer = threading.Thread(target=self.change, daemon=True)
        self.submitters = [Submitter(self.ports, i, RATE / SUBMITTERS) for i in range(SUBMITTERS)]
        self.streams = [ListFollower(self.ports, i, "/api/v2/jobs/watch?initial=true") for i in range(LISTS)] + \
            [self.job_stream(JobFollower, i, "watch") for i in range(JOBS)] + \
            [self.job_stream(LogFollower, i, "attempts/0/taskRoles/worker/taskIndex/0/attempts/0/logs") for i in range(LOGS)]

    def start(self, port):
        return serve(self.cluster, *NO_LIMITS, "--streams-per-user", "100", port=port)

    def follow(self, job):
        """A job that runs, with a pod and its log: (job, name of the Framework, uid of the pod, log)."""
        reply = self.servers[0].submit(job_v2(job))
        if reply.status != 202:
            raise RuntimeError(f"{job}: {reply}")
        name, log = framework_name(job), Log(b"line 0\n", over=False)
        uid = self.kubelet.pod(f"{name}-worker-0", {"FC_FRAMEWORK_NAME": name, "FC_TASKROLE_NAME": "worker", "FC_TASK_INDEX": "0"},
                               [{"apiVersion": "v1", "kind": "ConfigMap", "name": f"{name}-attempt", "uid": "c-1",
                                 "controller": True, "blockOwnerDeletion": True}])
        self.kubelet.logs[f"{name}-worker-0", "app"] = log
        self.set_status(name, uid)
        return job, name, uid, log

    def set_status(self, name, uid):
        write(self.cluster, name, {
            "state": "AttemptRunning", "startTime": "2026-11-22T00:00:00Z", "retryPolicyStatus": {"totalRetriedCount": self.n},
            "attemptStatus": {"id": 0, "instanceUID": "0_1", "configMapName": f"{name}-attempt", "taskRoleStatuses": [
                {"name": "worker", "taskStatuses": [{"index": 0, "state": "TaskAttemptRunning", "attemptStatus": {
                    "id": 0, "podName": f"{name}-worker-0", "podUID": uid, "podNodeName": "node0"}}]}]}})

    def change(self):
        try:
            while not self.over.wait(CHANGE_S):
                self.n += 1
                for _, name, uid, log in self.followed:
                    self.set_status(name, uid)
                    log.write(f"line {self.n}\n".encode())
        except Exception as e:
            self.wrong.append(f"the followed jobs: {e!r}")

    def job_stream(self, kind, i, rest):
        stream = kind(self.ports, i, f"/api/v2/jobs/alice~{self.followed[i % FOLLOWED][0]}/{rest}")
        stream.log = self.followed[i % FOLLOWED][-1]
        return stream

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
        remove_all(self.cluster)

    def done(self):
        return [d for s in self.submitters for d in s.done]

    def has_load(self):
        """Waits for more submissions and changes."""
        jobs, changes = len(self.done()) + 2 * SUBMITTERS, self.n + 2
        return wait_until(lambda: len(self.done()) >= jobs and self.n >= changes, 300)

    def quiet(self):
        """Ends the submissions and changes."""
        for t in (*self.submitters, self):
            t.over.set()
        for t in (*self.submitters, self.changer):
            t.join()

    def replace(self, check, i):
        server = self.servers[i]
        check.equal("exit status", server.stop(), 0)
        check.equal("no errors in the log", server.log_lines('"level":"error"')[:3], [])
        server.remove()
        self.servers[i] = self.start(self.ports[i])
        check.ok("ready", wait_until(lambda: self.servers[i].request("GET", "/readyz").status == 200, 600))


def judge_objects(check, world):
    """Each accepted job exists once, started, with exactly its dependents."""
    shapes = {job: "bare" for job, *_ in world.followed} | {job: shape for job, shape, *_ in world.done()}
    seen = Seen(world.cluster)
    check.equal("jobs that nobody was told of", sorted(seen.objects.keys() - {framework_name(job) for job in shapes}), [])
    check.equal("lost and incomplete jobs",
                [(job, wrong) for job, shape in shapes.items() if (wrong := incomplete(seen.of(job), job, shape))], [])


def rows(server):
    """The rows of the list as its watch shows them."""
    reply = server.request("GET", "/api/v2/jobs?limit=50000")
    if not isinstance(reply.json, list):
        raise RuntimeError(f"no list: {reply.status} {reply.headers} {len(reply.body)} bytes: {reply.body[:200]}...{reply.body[-200:]}")
    found = {f"{row['username']}~{row['name']}": row for row in reply.json}
    for row in found.values():
        row.pop("waitingReason", None)
    return found


def judge_streams(check, world):
    """Each stream has reached the present state, without a violation."""
    now = rows(world.servers[0])
    reached = {ListFollower: lambda s: s.rows == now,
               JobFollower: lambda s: [r["retries"] for r in s.rows.values()] == [world.n],
               LogFollower: lambda s: s.data == s.log.data}
    for s in world.streams:
        what = f"{type(s).__name__} of {s.path}"
        check.ok(f"{what}: has all", wait_until(lambda s=s: reached[type(s)](s)), s.summary())
        check.equal(f"{what}: violations", s.wrong[:5], [])
        check.ok(f"{what}: was resumed", s.ends)


def report(world):
    seconds = [d[2] for d in world.done()]
    pauses = [p for s in world.streams for p in s.pauses]
    print(f"     {len(seconds)} submissions, {sum(d[3] > 1 for d in world.done())} by the other server; p50, p99, max ms: "
          f"{', '.join(f'{percentile(seconds, p) * 1e3:.0f}' for p in (50, 99, 100))}; "
          f"{len(pauses)} streams resumed, after at most {max(pauses, default=0) * 1e3:.0f} ms", flush=True)


def test_rolling_restart_fails_no_request_under_load(check, cluster):
    with World(cluster) as world:
        check.ok("ready", all([server.ready() for server in world.servers]))
        for i in range(2):
            check.ok("there is load", world.has_load())
            world.replace(check, i)
        check.ok("there is load", world.has_load())
        world.quiet()
        report(world)
        check.equal("submissions that no server has taken", [w for s in world.submitters for w in s.wrong][:5], [])
        check.equal("the followed jobs", world.wrong, [])
        judge_objects(check, world)
        judge_streams(check, world)
