"""The server and the shims are killed repeatedly while jobs run.

TEST_WHOLE=1: 200 jobs and 50 kills of the server, as `make check-long` does; else fewer.
TEST_SEED=n chooses the jobs and the moments."""
import collections
import contextlib
import fcntl
import os
import random
import re
import signal
import tempfile
import threading
import time

from harness import PATIENCE, SLOW, USER, free_port, framework_name, wait_until
from machine import Machine, job, processes_with, role
from serving import as_user
from users import Meeting

WHOLE = os.environ.get("TEST_WHOLE") == "1"
SEED = int(os.environ.get("TEST_SEED", "1"))
JOBS, KILLS = (200, 50) if WHOLE else (28, 8)
LOST_JOBS, LOST_KILLS = (80, 40) if WHOLE else (12, 6)
GPUS = 4
LOST = -1001
PORTS = 253  # of init: by chance the task has a port twice, or the port is in use; the job is tried again


class Field:
    """A machine whose server is killed. Its tasks report their start to a Meeting, "begin RUN POD",
    and a GPU that another task holds too, "collision GPU RUN"."""

    def __init__(self):
        self.random = random.Random(SEED)
        self.meeting = Meeting()
        mine = as_user()
        self.base = os.path.dirname((mine or {}).get("where") or os.path.join(tempfile.mkdtemp(prefix="rest-lit-local."), "x"))
        self.more = {"port": free_port(), "gpus": GPUS, **(mine or {}), "where": os.path.join(self.base, "jobs")}
        # The shims lock the GPUs themselves, so the tasks lock files beside them.
        locks = os.path.join(self.base, "locks")
        os.mkdir(locks, 0o755)
        for i in range(GPUS):
            with open(os.path.join(locks, str(i)), "w", encoding="ascii"):
                pass
        facts = os.path.join(self.base, "facts.yaml")
        with open(facts, "w", encoding="ascii") as f:
            f.write(f"storages:\n- {{name: locks, path: {locks}}}\n")
        self.sandbox = mine is not None and "program" in mine
        self.locks = "/mnt/locks" if self.sandbox else locks
        self.arguments = ("--cpus", "64", "--facts", facts)
        self.machine = Machine(*self.arguments, **self.more)
        self.jobs, self.doubtful = {}, {}  # doubtful: without an answer

    def again(self, wait=True):
        self.machine = Machine(*self.arguments, wait=wait, **self.more)

    # ---- jobs ----
    def command(self, exits):
        """Takes locks, reports, and ends with the word of `exits` for this attempt."""
        run = "$FC_FRAMEWORK_NAME/$FC_TASKROLE_NAME/$FC_TASK_INDEX/$FC_FRAMEWORK_ATTEMPT_ID/$FC_TASK_ATTEMPT_ID"
        return [self.meeting.visit(f"visit:begin {run} $FC_POD_UID"),
                "for g in ${NVIDIA_VISIBLE_DEVICES//,/ }; do [ $g = void ] && continue; "
                f"eval \"exec 1$g<{self.locks}/$g\"; flock -n 1$g || {{ {self.meeting.visit(f'visit:collision $g {run}')}; }}; done",
                exits]

    def make(self, name):
        """A random job; what becomes of it: state, code, tries of the job."""
        pick = self.random
        kind = pick.choice(["good", "good", "good", "bad", "again", "task-again", "secret"])
        gpu, tasks, pause = pick.choice([0, 0, 1, 2]), pick.choice([1, 1, 2, 3]), f"sleep 0.{pick.randrange(10)}"
        tasks = min(tasks, GPUS // gpu) if gpu else tasks
        code, more, spec = pick.randrange(1, 6), {}, {}
        end, state, tries = "true", "SUCCEEDED", 1
        if kind == "bad":
            end, state = f"[ $FC_TASK_INDEX != 0 ] || exit {code}", "FAILED"
        elif kind == "again":
            tries, more = 3, {"jobRetryCount": 2}
            end = f"[ $FC_TASK_INDEX != 0 ] || [ $FC_FRAMEWORK_ATTEMPT_ID -ge 2 ] || exit {code}"
        elif kind == "task-again":
            spec, more = {"taskRetryCount": 1}, {"extras": {"gangAllocation": False}}
            end = f"[ $FC_TASK_ATTEMPT_ID -ge 1 ] || exit {code}"
        elif kind == "secret":
            more = {"secrets": {"word": f"of-{name}"}}
            end = f"[ \"<% $secrets.word %>\" = of-{name} ]"
        if self.sandbox:
            more.setdefault("extras", {})["com.microsoft.pai.runtimeplugin"] = [
                {"plugin": "teamwise_storage", "parameters": {"storageConfigNames": ["locks"]}}]
        roles = {"main": role(*self.command(f"{pause}; {end}"), instances=tasks, gpu=gpu, memory=16, **spec)}
        self.jobs[name] = {"state": state, "code": code if state == "FAILED" else 0, "tries": tries, "tasks": tasks, "kind": kind}
        return job(name, roles, **more)

    def submit(self, name):
        """Returns True if the server has accepted the job; False if it was killed, perhaps after it
        had."""
        text = self.make(name)
        wanted = self.jobs.pop(name)
        try:
            reply = self.machine.submit(text)
        except OSError:
            reply = None
        if reply is not None and reply.status not in (202, 503, 504):
            raise RuntimeError(f"{name}: {reply}")
        taken = reply is not None and reply.status == 202
        (self.jobs if taken else self.doubtful)[name] = wanted
        return taken

    # ---- what must hold ----
    def check_end(self, check, name, wanted):
        what = f"{name} ({wanted['kind']})"
        check.equal(f"{what}: state", self.machine.wait(name), wanted["state"])
        end = (self.machine.status(name).get("attemptStatus") or {}).get("completionStatus") or {}
        code = re.search(r"originUserExitCode: (\d+)", end.get("diagnostics", ""))
        check.ok(f"{what}: code", (int(code[1]) if code else end.get("code")) == wanted["code"],
                 (end, self.machine.waiting_reason(name)))

    def code_of(self, name, attempt):
        """The code of an earlier try of the job; None: a killed server has not kept it."""
        for _ in range(30):
            reply = self.machine.request("GET", f"/api/v2/jobs/{USER}~{name}/attempts/{attempt}")
            if reply.status == 200:
                return reply.json["jobStatus"]["appExitCode"]
            time.sleep(0.1)
        return None

    def check_tries(self, check, name, wanted):
        """The job was tried as often as it must be, and each task ran."""
        what = f"{name} ({wanted['kind']})"
        total = self.machine.status(name)["retryPolicyStatus"]["totalRetriedCount"]
        codes = [self.code_of(name, attempt) for attempt in range(total)]
        spare = codes.count(PORTS) + codes.count(None)
        check.ok(f"{what}: tries", total + 1 - spare <= wanted["tries"] <= total + 1, codes)
        ran = [index for attempt, index, _ in self.runs(name) if attempt == total]
        if wanted["state"] == "SUCCEEDED":
            check.equal(f"{what}: each task ran", sorted(set(ran)), list(range(wanted["tasks"])))

    def all_free(self):
        for path in self.machine.gpu_files:
            with open(path, "rb") as f:
                try:
                    fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError:
                    return False
        return True

    def alive(self):
        """Processes of these jobs' tasks."""
        names = {framework_name(name).encode() for name in self.jobs}
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as f:
                    variables = f.read().split(b"\0")
            except OSError:
                continue
            if any(v.partition(b"=")[::2] == (b"FC_FRAMEWORK_NAME", name) for v in variables for name in names):
                found.append(int(pid))
        return found

    def check_rest(self, check):
        check.equal("no GPU was held twice", self.told("collision"), [])
        begun = self.told("begin")
        pods = collections.Counter(run for run, _ in begun)
        twice = [b for b in begun if pods[b[0]] > 1]
        check.equal("nothing ran twice", twice, [])
        check.ok("no pod is left", wait_until(lambda: not self.machine.pods()), self.machine.pods())
        check.ok("no process is left", wait_until(lambda: not self.alive() and not self.machine.shims()), self.alive())
        check.ok("no program of the sandbox is left", wait_until(lambda: not self.programs()), self.programs())
        check.ok("no GPU is locked", wait_until(self.all_free))
        self.machine.start("last", {"main": role("true", gpu=GPUS)})
        check.equal("all GPUs can be used", self.machine.wait("last"), "SUCCEEDED")

    def programs(self):
        return processes_with(os.path.join(self.machine.where, "pods"))

    def told(self, kind):
        """The words of the reports of tasks, in any order; repeated words occur repeatedly."""
        with self.meeting.changed:
            lines = [line.split() for line in self.meeting.visits.elements()]
        return [words for first, *words in lines if first == kind]

    def runs(self, name):
        """(job attempt, index, task attempt) of what has begun."""
        begun = [run.split("/") for run, _ in self.told("begin")]
        return sorted((int(b[3]), int(b[2]), int(b[4])) for b in begun if b[0] == framework_name(name))

    def close(self):
        if self.machine.process.poll() is not None:
            self.again()
        self.machine.remove()
        self.meeting.shutdown()
        self.meeting.server_close()


def test_server_killed_under_load_loses_nothing(check):
    """The server is killed at random moments, also during its start, without effect on the jobs."""
    field = Field()
    try:
        number = 0
        for turn in range(KILLS):
            timer = threading.Timer(field.random.choice([0.02, 0.1, 0.3, 0.6, 1.2]) * field.random.random() * SLOW,
                                    field.machine.process.kill)
            timer.start()
            while len(field.jobs) < (turn + 1) * JOBS // KILLS and field.submit(f"job{number}"):
                number += 1
            number += 1
            field.machine.process.wait(PATIENCE * SLOW)
            field.machine.kill()
            field.again(wait=turn % 2 == 0 or turn == KILLS - 1)
        while len(field.jobs) < JOBS and field.submit(f"job{number}"):
            number += 1
        check.equal("all are submitted", len(field.jobs), JOBS)
        for name in field.doubtful:
            if field.machine.framework(name):  # then it is whole, and started
                field.jobs[name] = field.doubtful[name]
        for name, wanted in field.jobs.items():
            field.check_end(check, name, wanted)
            field.check_tries(check, name, wanted)
        field.check_rest(check)
    finally:
        field.close()


def test_shims_killed_under_load_are_retried(check):
    """Shims are killed at random moments, some while there is no server: lost attempts are
    repeated."""
    field = Field()
    try:
        names = [f"job{i}" for i in range(LOST_JOBS)]
        killed = set()
        while names or len(killed) < LOST_KILLS:
            for name in names[:2]:
                check.ok(f"{name} is submitted", field.submit(name))
            names = names[2:]
            time.sleep(0.3 * field.random.random())
            if not names and not field.machine.shims():
                break
            down = field.random.randrange(8) == 0
            if down:
                field.machine.kill()
            for pod, pid in field.random.sample(sorted(field.machine.shims().items()), k=min(1, len(field.machine.shims()))):
                with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
                    os.kill(pid, signal.SIGKILL)
                    killed.add(pod)
            if down:
                field.again()
        lost = 0
        check.ok("shims were killed", killed)
        for name, wanted in field.jobs.items():
            field.check_end(check, name, wanted)
            retries = field.machine.status(name)["retryPolicyStatus"]
            counted, total = retries["accountableRetriedCount"], retries["totalRetriedCount"]
            check.ok(f"{name} ({wanted['kind']}): counted tries", counted <= wanted["tries"] - 1, retries)
            codes = [field.code_of(name, attempt) for attempt in range(total)]
            known = codes.count(LOST) + codes.count(PORTS)
            check.ok(f"{name} ({wanted['kind']}): the other tries", known <= total - counted <= known + codes.count(None), (codes, retries))
            lost += codes.count(LOST)
        check.ok("some tries were lost", lost > 0, lost)
        field.check_rest(check)
    finally:
        field.close()
