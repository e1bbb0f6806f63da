"""GPUs as a false nvidia-smi shows them: figures, processes of others, GPUs that do nothing, rows.

The server has /usr/bin/nvidia-smi and /etc/cdi in a mount namespace of its own, so these tests need root."""
import json
import os
import signal
import subprocess
import time

from harness import USER, wait_until
from machine import NOBODY, Machine, role

WHOLE = os.environ.get("TEST_WHOLE") == "1"
JOBS, KILLS = (100, 20) if WHOLE else (20, 6)
UUIDS = [f"GPU-aaaaaaaa-0000-0000-0000-00000000000{i}" for i in range(4)]

# Prints the files `gpus` and `apps` each second, as long as there is no file `hang`.
SMI = """#!/bin/sh
case $1 in --query-gpu=*) file=gpus ;; *) file=apps ;; esac
echo "$$" >>"{0}/pids"
while sleep 1; do [ -e "{0}/hang" ] || cat "{0}/$file" || exit; done
"""

# As `nvidia-ctk cdi generate` writes it.
CDI = """cdiVersion: 0.5.0
kind: nvidia.com/gpu
devices:
"""

# Shows the files of the test to the server alone.
MOUNTS = """set -e
for dir in usr/bin etc; do
    mkdir -p "$0/over/$dir" "$0/work/$dir"
    mount -t overlay overlay -o "lowerdir=/$dir,upperdir=$0/over/$dir,workdir=$0/work/$dir" "/$dir"
done
exec "$@"
"""


class Gpus:
    """A machine with so many GPUs."""

    def __init__(self, check, *arguments, gpus=2, smi=True):
        self.check = check
        self.dir = subprocess.run(["mktemp", "-d"], capture_output=True, text=True, check=True).stdout.strip()
        os.chmod(self.dir, 0o755)
        over = os.path.join(self.dir, "mounts")
        os.makedirs(os.path.join(over, "over/usr/bin"))
        os.makedirs(os.path.join(over, "over/etc/cdi"))
        # An overlay below the directory of another one is refused.
        subprocess.run(["mount", "-t", "tmpfs", "none", over], check=True)
        os.makedirs(os.path.join(over, "over/usr/bin"))
        os.makedirs(os.path.join(over, "over/etc/cdi"))
        self.over = over
        lines = []
        for i in range(gpus):
            node = os.path.join(self.dir, f"nvidia{i}")
            self.write(node, "")
            os.chmod(node, 0o666)
            lines.append(f"- name: {UUIDS[i]}\n  containerEdits: {{deviceNodes: [{{path: {node}}}]}}\n")
        self.write(os.path.join(over, "over/etc/cdi/nvidia.yaml"), CDI + "".join(lines))
        if smi:
            self.write(os.path.join(over, "over/usr/bin/nvidia-smi"), SMI.format(self.dir))
            os.chmod(os.path.join(over, "over/usr/bin/nvidia-smi"), 0o755)
        self.write(os.path.join(self.dir, "pids"), "")
        os.chmod(os.path.join(self.dir, "pids"), 0o666)
        self.say([0] * gpus, [])
        inside = ("unshare", "-m", "--propagation", "private", "bash", "-c", MOUNTS, over)
        self.machine = Machine("--gpus", "auto", *arguments, inside=inside)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.machine.remove()
        subprocess.run(["umount", self.over], check=False)
        subprocess.run(["rm", "-rf", self.dir], check=False)

    @staticmethod
    def write(path, text):
        with open(path + ".new", "w", encoding="utf-8") as f:
            f.write(text)
        os.rename(path + ".new", path)

    def say(self, busy, processes, memory=1000):
        """What nvidia-smi says from now on: percent of each GPU, and (GPU, pid) of processes."""
        self.write(os.path.join(self.dir, "gpus"), "".join(
            f"{UUIDS[i]}, {n}, {memory}, 40960, 100.00, [N/A]\n" for i, n in enumerate(busy)))
        self.write(os.path.join(self.dir, "apps"), "".join(f"{UUIDS[i]}, {pid}, 500\n" for i, pid in processes))

    def get(self, path):
        return self.machine.request("GET", path)

    def gpu(self, index):
        return self.get("/api/v2/machine").json["gpuStates"][index]

    def usage(self, name):
        return self.get(f"/api/v2/jobs/{USER}~{name}/usage").json

    def start(self, name, command, gpu=1):
        self.machine.start(name, {"worker": role(command, gpu=gpu, memory=64)})

    def state(self, name):
        return self.machine.state(name)

    def task_pid(self, marker):
        """The process `sleep MARKER` of a task."""
        def find():
            out = subprocess.run(["pgrep", "-f", f"^sleep {marker}$"], capture_output=True, text=True, check=False)
            return [int(pid) for pid in out.stdout.split()]
        wait_until(find)
        return find()[0]


PROBE = """set -e; mount -t tmpfs none /mnt; mkdir /mnt/upper /mnt/work
mount -t overlay overlay -o lowerdir=/etc,upperdir=/mnt/upper,workdir=/mnt/work /etc"""


def needs_root(test):
    def run(check):
        if subprocess.run(["unshare", "-m", "sh", "-c", PROBE], capture_output=True, check=False).returncode == 0:
            test(check)
        else:
            print("     not tested: this user cannot mount an overlay here", flush=True)
    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


def is_long(test):
    """Runs with TEST_WHOLE=1 only."""
    def run(check):
        if WHOLE:
            test(check)
    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


@needs_root
def test_gpu_figures_are_those_of_nvidia_smi(check):
    """Busy, memory and power of each GPU and task; a process of the task is not foreign, however it was started."""
    with Gpus(check) as g:
        g.start("train", "setsid sleep 86411 & (setsid sleep 86412 &) & wait; sleep 86413")
        pids = [g.task_pid(n) for n in (86411, 86412)]
        g.say([50, 0], [(0, pid) for pid in pids])
        check.ok("busy", wait_until(lambda: g.gpu(0)["busy"] == 50, 60), g.gpu(0))
        first, second = g.gpu(0), g.gpu(1)
        check.equal("holder", (first["job"], second["job"]), (f"{USER}~train", None))
        check.equal("memory", (first["memoryMB"], first["totalMB"], first["powerW"]), (1000, 40960, 100))
        check.equal("not foreign", (first["outside"], second["outside"]), ([], []))
        check.ok("figures", wait_until(lambda: g.usage("train")["tasks"][0]["figures"]["gpus"][0]["samples"] >= 3, 60))
        task = g.usage("train")["tasks"][0]
        gpu = task["figures"]["gpus"][0]
        check.ok("used", gpu["used"] is True and gpu["busyMost"] == 50 and gpu["energyWh"] > 0, gpu)
        check.ok("curves", 50 in task["curves"]["gpus"][0]["busy"]["mean"], task["curves"])
        check.ok("memory of the task", task["figures"]["memoryAtMost"] in (True, False) and
                 task["figures"]["memoryMostMB"] > 0, task["figures"])
        time.sleep(6)
        check.equal("still not foreign", g.gpu(0)["outside"], [])
        g.machine.stop_job("train")
        g.machine.wait("train")
        check.ok("row", wait_until(lambda: g.usage("train")["tasks"] and not g.usage("train")["tasks"][0]["running"]))
        ended = g.usage("train")["tasks"][0]
        check.ok("kept", ended["figures"]["gpus"][0]["samples"] >= 3 and ended["curves"]["gpus"], ended)
        g.machine.forget("train")
        report = g.get("/api/v2/report?since=2020-01-01").json
        check.ok("outlives the job", report["rows"][0]["gpuHours"] > 0, report)
        check.equal("its curves do not", g.machine.rows("SELECT count(*) FROM attempt WHERE length(curves) > 0"), [(0,)])


@needs_root
def test_gpu_with_a_foreign_process_is_not_given(check):
    """No job starts there after 6 seconds; the reason names GPU, program, pid and user; all start when it has gone."""
    with Gpus(check, gpus=1) as g, subprocess.Popen(["sleep", "86421"], user=NOBODY) as other:
        g.start("warm", "sleep 8")
        g.machine.wait("warm")
        g.say([90], [(0, other.pid)])
        check.ok("is seen", wait_until(lambda: g.gpu(0)["outside"], 60))
        process = g.gpu(0)["outside"][0]
        check.equal("program", (process["pid"], process["program"], process["memoryMB"]), (other.pid, "sleep", 500))
        for i in range(JOBS):
            g.start(f"f{i}", "true")
        time.sleep(8)
        check.equal("none starts", [g.state(f"f{i}") for i in range(JOBS)], ["WAITING"] * JOBS)
        reason = g.machine.waiting_reason("f0")
        check.ok("the reason", f"GPU 0: sleep (pid {other.pid}, {process['user']}" in reason, reason)
        other.kill()
        other.wait()
        g.say([0], [])
        check.ok("all start", wait_until(lambda: all(g.state(f"f{i}") == "SUCCEEDED" for i in range(JOBS)), 180),
                 [g.state(f"f{i}") for i in range(JOBS)])


@is_long
@needs_root
def test_gpu_is_given_if_nothing_can_be_known(check):
    """Without nvidia-smi at once; from one that hangs after 30 seconds, with an Event; --foreign-gpus=ignore at once."""
    with Gpus(check, smi=False) as g:
        g.start("one", "true")
        check.equal("without the program", g.machine.wait("one"), "SUCCEEDED")
        check.ok("is said", "nvidia-smi" in str(g.get("/api/v2/machine").json["gpuFigures"]))
    with Gpus(check) as g:
        Gpus.write(os.path.join(g.dir, "hang"), "")
        g.start("one", "true")
        check.equal("hangs", g.machine.wait("one"), "SUCCEEDED")
        events = json.dumps(g.get(f"/api/v2/jobs/{USER}~one/events").json)
        check.ok("Event", "GPUUnknown" in events, events)
        check.equal("unknown", (g.gpu(0)["known"], g.gpu(0)["busy"]), (False, None))
    with Gpus(check, "--foreign-gpus", "ignore", gpus=1) as g:
        g.say([50], [(0, os.getpid())])
        g.start("one", "true")
        check.equal("ignore", g.machine.wait("one"), "SUCCEEDED")


@is_long
@needs_root
def test_gpus_that_do_nothing_are_told(check):
    """After --gpu-idle from the last use; not if the job is kept; the mark goes when a GPU works again."""
    def flag(name):
        return g.get(f"/api/v2/jobs/{USER}~{name}").json["jobStatus"].get("gpuIdleSince")
    with Gpus(check, "--gpu-idle", "15s", gpus=2) as g:
        g.start("idle", "sleep 86431")
        g.start("busy", "sleep 86432")
        first, second = g.task_pid(86431), g.task_pid(86432)
        g.say([70, 70], [(0, first), (1, second)])
        check.ok("both work", wait_until(lambda: g.gpu(0)["busy"] == 70 and g.gpu(1)["busy"] == 70, 60))
        g.say([0, 70], [(0, first), (1, second)])
        job = g.gpu(0)["job"].split("~")[1]
        other = g.gpu(1)["job"].split("~")[1]
        check.ok("is told", wait_until(lambda: flag(job), 90), flag(job))
        check.equal("only the one", flag(other), None)
        g.machine.kill()
        g.machine = g.machine.again()
        check.ok("after a restart", flag(job))
        g.say([60, 70], [(0, first), (1, second)])
        check.ok("works again", wait_until(lambda: not flag(job), 60), flag(job))


@needs_root
def test_gpu_hours_survive_kills_of_the_server(check):
    """The rows of the report are the held times of all attempts, once each, through SIGKILLs."""
    with Gpus(check, gpus=2) as g:
        for i in range(2 * KILLS):
            g.start(f"j{i}", f"sleep {1 + i % 3}")
        for _ in range(KILLS):
            time.sleep(2)
            g.machine.kill()
            g.machine = g.machine.again()
        for i in range(2 * KILLS):
            check.equal(f"j{i}", g.machine.wait(f"j{i}"), "SUCCEEDED")
        rows = g.machine.rows("SELECT job, gpus, held_ms, ended, exit FROM attempt")
        check.equal("each once", sorted(r[0] for r in rows), sorted(f"j{i}" for i in range(2 * KILLS)))
        check.ok("each has ended", all(r[1:] == (1, r[2], 1, 0) and r[2] >= 900 for r in rows), rows)
        report = g.get("/api/v2/report?since=2020-01-01").json["rows"]
        held = sum(r[2] for r in rows) / 3600000
        check.ok("the sum", abs(report[0]["gpuHours"] - held) < 1 / 3600, (report, held))


@is_long
@needs_root
def test_gpu_children_end_with_the_server(check):
    """No nvidia-smi is left after a stop, a SIGKILL, or a minute without jobs; none runs before the first job."""
    def alive():
        with open(os.path.join(g.dir, "pids"), encoding="ascii") as f:
            return [pid for pid in f.read().split() if os.path.exists(f"/proc/{pid}")]
    with Gpus(check) as g:
        time.sleep(2)
        check.equal("none before", alive(), [])
        g.start("one", "sleep 86441")
        check.ok("two", wait_until(lambda: len(alive()) == 2, 60), alive())
        os.kill(g.machine.process.pid, signal.SIGKILL)
        g.machine.kill()
        check.ok("none after SIGKILL", wait_until(lambda: not alive(), 60), alive())
        g.machine = g.machine.again()
        check.ok("two again", wait_until(lambda: len(alive()) == 2, 60), alive())
        g.machine.stop()
        check.ok("none after a stop", wait_until(lambda: not alive(), 60), alive())
        g.machine = g.machine.again()
