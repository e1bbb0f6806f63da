"""The line that says what a task has used, at the end of runtime.log: docs/RUNTIME-RUN.md."""
import glob
import os
import re
import signal
import subprocess
import time

from checks import PATIENCE, RUNTIME, Root, check, equal, eventually, finish, may_unshare, tests

GIB = 1 << 30
A, B = "GPU-11111111-0000-0000-0000-000000000000", "GPU-11111111-0000-0000-0000-000000000001"
BOTH = f"{B},{A}"
# As many lines as in a minute.  The command waits for `done`, so they have been written before its end.
ROWS = f"""for i in 1 2 3 4 5 6 7 8 9 10 11 12; do
	echo '0, {A}, 68, '$((27000 + i))', 40960'
	echo '1, {B}, 0, 3, 40960'
done
"""
WAITS = "exec sleep 1000\n"


class Pod(Root):
    """The pod of a task, with a cgroup of 4 CPUs and 16 GiB."""

    def __init__(self, user="true", version=2, folder="", smi=None, limits=True, **env):
        super().__init__(**{"FC_TASKROLE_NAME": "worker", "PAI_CURRENT_CONTAINER_IP": "1", "PAI_CONTAINER_HOST_IP": "1",
                            "PAI_OUTPUT_URL": "", "PAI_TERM_GRACE_SEC": "2", **env})
        self.version, self.folder = version, folder
        if folder:
            self.write("/proc/self/cgroup", f"5:memory:{folder}\n4:cpu,cpuacct:{folder}\n1:name=systemd:/x\n0::{folder}\n")
        if version == 2:
            self.cgroup("", "memory.events", "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\n")
            self.cgroup("", "memory.max", f"{16 * GIB if limits else 'max'}\n")
            self.cgroup("", "memory.peak", f"{int(11.2 * GIB)}\n")
            self.cgroup("", "cpu.max", f"{400000 if limits else 'max'} 100000\n")
        elif version == 1:
            self.cgroup("memory", "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n")
            self.cgroup("memory", "memory.failcnt", "0\n")
            self.cgroup("memory", "memory.limit_in_bytes", f"{16 * GIB if limits else 9223372036854771712}\n")
            self.cgroup("memory", "memory.max_usage_in_bytes", f"{int(11.2 * GIB)}\n")
            self.cgroup("cpu", "cpu.cfs_quota_us", f"{400000 if limits else -1}\n")
            self.cgroup("cpu", "cpu.cfs_period_us", "100000\n")
        self.spent(3)
        if smi is not None:
            self.write("/usr/bin/nvidia-smi", f'#!/bin/sh\necho "$*" >{self.at("/asked")}\n{smi}', 0o755)
            self.env.setdefault("NVIDIA_VISIBLE_DEVICES", BOTH)
        self.write("/usr/local/pai/runtime.d/user.sh", "#!/bin/bash\n" + user.replace("ROOT", self.path), 0o755)

    def cgroup(self, mount, name, text):
        self.write("/".join(("/sys/fs/cgroup", mount, self.folder, name)), text)

    def spent(self, seconds):
        """The text of the file of CPU time, which is written."""
        if self.version == 2:
            self.cgroup("", "cpu.stat", f"usage_usec {seconds * 10 ** 6}\nuser_usec 7\nsystem_usec 7\n")
        elif self.version == 1:
            self.cgroup("cpu", "cpuacct.usage", f"{seconds * 10 ** 9}\n")

    def log(self):
        return (self.read(self.logs("runtime.log")) or b"").decode()

    def used(self):
        """The lines, without their beginning."""
        return re.findall(r"\[openpai-runtime\] (used: .*)\n", self.log())

    def processes(self):
        """Commands below this root that run."""
        found = []
        for path in glob.glob("/proc/[0-9]*/cmdline"):
            try:
                with open(path, "rb") as f:
                    words = f.read()
            except OSError:
                continue
            if self.path.encode() in words:
                found.append(words)
        return found


def ended(pod, *arguments):
    """The lines of a pod whose command has ended with 0."""
    done = pod.run("run", *arguments)
    equal("the command has ended", done.returncode, 0)
    for line in pod.used():
        check("the container's standard error has the line, too", line.encode() in done.stderr, done.stderr)
    return pod.used()


WAIT_FOR_ROWS = "until [ -e ROOT/done ]; do sleep 0.05; done\n"


def test_the_log_of_a_pod_ends_with_what_it_has_used():
    for version in (1, 2):
        for folder in ("", "/kubepods/pod1/c1"):
            name = f"version {version}, {'own root' if not folder else 'the whole tree'}"
            file = "cpu.stat" if version == 2 else "cpu/" + folder + "/cpuacct.usage"
            with Pod(f"{WAIT_FOR_ROWS}sleep 1\ncp ROOT/later ROOT/sys/fs/cgroup/{'' if version == 1 else folder}/{file}\n", version, folder,
                     smi=ROWS + "touch ROOT/done\n") as p:
                p.write("/later", "usage_usec 11000000\n" if version == 2 else "11000000000\n")
                p.write("/usr/bin/nvidia-smi", p.read("/usr/bin/nvidia-smi").replace(b"ROOT", p.path.encode()) + WAITS.encode(), 0o755)
                begin = time.monotonic()
                lines = ended(p)
                took = time.monotonic() - begin
                found = re.fullmatch(r"used: (\d+(?:\.\d)?) of 4 CPUs, memory at most 11.2 of 16 GiB, "
                                     r"GPU 0: 68 % busy \(26.4 of 40 GiB\), GPU 1: not used", "|".join(lines))
                check(f"{name}: the line", found, p.log())
                # 8 s of CPU time in more than the second of the command, and less than what was measured here
                check(f"{name}: CPUs", found and 8 / took - 0.06 <= float(found.group(1)) <= 8, (took, lines))
                equal(f"{name}: the arguments", p.read("/asked"), b"--query-gpu=index,uuid,utilization.gpu,memory.used,memory.total "
                      b"--format=csv,noheader,nounits -l 5\n")
                check(f"{name}: it is the last line of the task", p.log().rstrip().endswith(lines[0] if lines else "?"), p.log())
                check(f"{name}: nvidia-smi is gone", eventually(lambda: not p.processes()), p.processes())


def test_the_line_is_for_pods_of_tasks():
    for name, arguments, env in (("no task", (), {"FC_TASKROLE_NAME": None}), ("on one machine", ("--logs-kept",), {}),
                                 ("switched off", ("--usage=off",), {})):
        with Pod(smi=ROWS + WAITS) as p:
            for key, value in env.items():
                p.env.pop(key) if value is None else p.env.update({key: value})
            equal(f"{name}: no line", ended(p, *arguments), [])
            check(f"{name}: nvidia-smi does not run", not p.exists("/asked"))


def test_what_is_not_known_is_left_out():
    for version in (1, 2):
        with Pod(version=version, limits=False) as p:
            equal(f"version {version}: no limits: it may be the cgroup of the machine", ended(p), [])
    with Pod(version=0) as p:
        equal("no cgroup: no line", ended(p), [])
    with Pod() as p:
        os.remove(p.at("/sys/fs/cgroup/memory.peak"))
        lines = ended(p)
        check("Linux before 5.19: CPUs alone", len(lines) == 1 and re.fullmatch(r"used: 0 of 4 CPUs", lines[0]), p.log())
    for text in ("", "usage_usec x\n", "usage_usec -1\n"):
        with Pod() as p:
            p.cgroup("", "cpu.stat", text)
            equal(f"CPU time {text!r}: memory alone", ended(p), ["used: memory at most 11.2 of 16 GiB"])
    for text in ("", "max 100000\n", "400000\n", "400000 0\n", "0 100000\n", "9223372036854775807 1\n"):
        with Pod() as p:
            p.cgroup("", "cpu.max", text)
            equal(f"limit {text!r}: memory alone", ended(p), ["used: memory at most 11.2 of 16 GiB"])
    with Pod("printf 'usage_usec 1\\n' >ROOT/sys/fs/cgroup/cpu.stat") as p:
        equal("a counter that falls: memory alone", ended(p), ["used: memory at most 11.2 of 16 GiB"])
    with Pod() as p:
        p.cgroup("", "memory.max", f"{500 << 20}\n")
        p.cgroup("", "memory.peak", f"{100 << 20}\n")
        p.cgroup("", "cpu.max", "50000 100000\n")
        equal("small limits", ended(p), ["used: 0 of 0.5 CPUs, memory at most 100 of 500 MiB"])


def test_nvidia_smi_runs_only_for_uuids():
    for devices in ("all", "void", "none", "", "0", "0,1", f"{A},MIG-1", f"MIG-1,{A}", f"{A},,{B}", ",".join(33 * ["GPU-1"])):
        with Pod(smi=ROWS + WAITS, NVIDIA_VISIBLE_DEVICES=devices) as p:
            lines = ended(p)
            check(f"{devices[:50]!r}: no GPUs in the line", len(lines) == 1 and "GPU" not in lines[0], p.log())
            check(f"{devices[:50]!r}: it does not run", not p.exists("/asked"))
    with Pod(smi=ROWS + WAITS) as p:
        p.env.pop("NVIDIA_VISIBLE_DEVICES")
        ended(p)
        check("unset: it does not run", not p.exists("/asked"))
    with Pod(NVIDIA_VISIBLE_DEVICES=BOTH) as p:
        check("there is no such program", "GPU" not in "".join(ended(p)), p.log())


def test_faults_of_nvidia_smi_change_only_the_line():
    good = f"for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo '0, {A}, 100, 3000, 40960'; done\n"
    for name, script, expected in (
            ("silent", "", None), ("fewer than in a minute", f"echo '0, {A}, 50, 3000, 40960'\n", None),
            ("no driver", "echo 'NVIDIA-SMI has failed because it could not communicate'; touch ROOT/done; exit 9\n", None),
            ("an unknown column", "echo 'Field \"x\" is not a valid field to query.'; touch ROOT/done; exit 2\n", None),
            ("no value", good.replace("100", "[N/A]"), None), ("a foreign GPU", good.replace(A, "GPU-2"), None),
            ("no memory", good.replace("3000", "[N/A]"), "GPU 0: 100 % busy"),
            ("an XID error between", "echo '[Sat Nov 28 22:00:01 2026] GPU 0000:01:00.0: Detected Critical Xid Error'\n" + good,
             "GPU 0: 100 % busy (2.9 of 40 GiB)"),
            ("a long line", "head -c 3000 /dev/zero | tr '\\0' A; echo\n" + good, "GPU 0: 100 % busy (2.9 of 40 GiB)")):
        with Pod(WAIT_FOR_ROWS + "sleep 0.2", smi="") as p:
            p.write("/usr/bin/nvidia-smi", ("#!/bin/sh\n" + script + "touch ROOT/done\n").replace("ROOT", p.path) + WAITS, 0o755)
            lines = ended(p)
            equal(f"{name}: GPUs", lines[0].partition(" GiB, ")[2] if lines else lines, expected or "")
            check(f"{name}: it is gone", eventually(lambda: not p.processes()), p.processes())
    with Pod("until grep -q ended ROOT/told 2>/dev/null; do sleep 0.05; done", smi="") as p:
        # It is killed for its output, long before the command ends.
        p.write("/usr/bin/nvidia-smi", f"#!/bin/sh\n{good}yes A &\nwait\n", 0o755)
        run = p.start("run")
        smi = p.path + "/usr/bin/nvidia-smi"
        check("a flood: it runs", eventually(lambda: any(smi.encode() in c for c in p.processes())))
        check("a flood: it is killed", eventually(lambda: not any(smi.encode() in c for c in p.processes())))
        p.write("/told", "ended")
        run.communicate(timeout=PATIENCE)
        check("a flood: nothing of it counts", run.returncode == 0 and "GPU" not in "".join(p.used()) and p.used(), p.log())


def test_the_message_of_a_failure_stays_as_it_is():
    texts = []
    for arguments in ((), ("--usage=off",)):
        with Pod("echo oops >&2; exit 3") as p:
            done = p.run("run", *arguments)
            message = (p.read("/tmp/pai-termination-log") or b"").replace(p.path.encode(), b"")
            texts.append((done.returncode, re.sub(rb"\d{4}-\d\d-\d\dT[\d:.]+Z", b"TIME", message)))
            equal(f"{arguments}: lines", len(p.used()), 0 if arguments else 1)
    equal("the same message and code", texts[0], texts[1])
    check("there is one", b"originUserExitCode: 3" in texts[0][1], texts)


def test_nvidia_smi_does_not_delay_the_end():
    """Process 1 waits for all of its children after SIGTERM, but not for an nvidia-smi that ignores it."""
    if not may_unshare("process 1", "-p", "-f"):
        return
    stubborn = "trap '' TERM INT HUP\ntouch ROOT/done\nwhile :; do sleep 1000; done\n"
    with Pod(WAIT_FOR_ROWS + "echo ready\nexec sleep 1000\n", smi="", PAI_TERM_GRACE_SEC="100000") as p:
        p.write("/usr/bin/nvidia-smi", "#!/bin/sh\n" + stubborn.replace("ROOT", p.path), 0o755)
        run = subprocess.Popen(["unshare", "--pid", "--fork", "--kill-child", RUNTIME, "run", "--root", p.path], env=p.env,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        equal("it has begun", run.stdout.readline(), b"ready\n")
        with open(f"/proc/{run.pid}/task/{run.pid}/children", encoding="ascii") as f:
            os.kill(int(f.read()), signal.SIGTERM)
        _, err = run.communicate(timeout=PATIENCE)
        check("the task ends as soon as its command", b"USER COMMAND failed with exit code 143" in err and b"SIGKILL" not in err, err)
        check("the line is written", len(p.used()) == 1, p.log())


tests(test_the_log_of_a_pod_ends_with_what_it_has_used, test_the_line_is_for_pods_of_tasks, test_what_is_not_known_is_left_out,
      test_nvidia_smi_runs_only_for_uuids, test_faults_of_nvidia_smi_change_only_the_line, test_the_message_of_a_failure_stays_as_it_is,
      test_nvidia_smi_does_not_delay_the_end, at_once=True)  # each run waits 5 s for readers of its log
finish()
