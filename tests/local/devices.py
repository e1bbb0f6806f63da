"""GPUs of CDI files: the examples of docs/LOCAL.md, with files in place of the device nodes."""
import contextlib
import json
import os
import re
import shutil
import subprocess
import tempfile

from harness import BINARY, ROOT, wait_until
from machine import AS_NOBODY, NOBODY, Machine, role

LOCAL = os.path.join(ROOT, "docs", "LOCAL.md")
# In a mount namespace: $1 as /run, and a /dev that has the files of $2 beside the usual devices.
NAMESPACE = """
for d in null zero full random urandom tty; do touch "$2/$d" && mount --bind /dev/$d "$2/$d" || exit; done
for d in pts shm; do mkdir -p "$2/$d" && mount --rbind /dev/$d "$2/$d" || exit; done
ln -sfn /proc/self/fd "$2/fd"
ln -sf pts/ptmx "$2/ptmx"
mount --rbind "$1" /run && mount --rbind "$2" /dev && shift 2 && exec "$@"
"""
# The nodes are files here.
SEES = "find /dev -type f | sort; env | grep ^CUDA_VISIBLE_DEVICES=; env | grep ^NVIDIA_VISIBLE_DEVICES="
WAITS = "until [ -e /proc/1/none ]; do sleep 0.1; done"
UUIDS = ["MIG-00000000-0000-0000-0000-000000000000", "MIG-10000000-0000-0000-0000-000000000000",
         "MIG-20000000-0000-0000-0000-000000000000", "GPU-10000000-0000-0000-0000-000000000000"]
CONTROL = ["/dev/nvidia-uvm", "/dev/nvidiactl"]
NODES = [["/dev/nvidia0", *(f"/dev/nvidia-caps/nvidia-cap{n}" for n in caps)] for caps in ((21, 22), (30, 31), (30, 32))] + [["/dev/nvidia1"]]


def example(kind):
    """The CDI file of this kind in docs/LOCAL.md."""
    with open(LOCAL, encoding="utf-8") as f:
        blocks = re.findall(r"^```(?:yaml|json)\n(.*?)^```$", f.read(), re.M | re.S)
    return next(block for block in blocks if kind in block)


class Devices:
    """Directories in place of /run, with this CDI file, and of /dev, with a file for each of its nodes."""

    def __init__(self, name, text):
        self.root = tempfile.mkdtemp(prefix="rest-lit-local.")
        os.chmod(self.root, 0o755)
        self.write(f"run/cdi/{name}", text)
        self.nodes = sorted(set(re.findall(r'\bpath"?: *"?(/dev/[\w/-]+)', text)))
        for path in self.nodes:
            self.write(path, f"{path}\n")
        ours = os.geteuid() != 0
        self.program = ["unshare", "-rm" if ours else "-m", "sh", "-c", NAMESPACE, "sh", os.path.join(self.root, "run"),
                        os.path.join(self.root, "dev"), *(() if ours else AS_NOBODY)]

    def write(self, name, text):
        path = os.path.join(self.root, name.lstrip("/"))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)

    def machine(self):
        """A server that finds them; None if it is not possible here."""
        probe = [*self.program, "bwrap", "--unshare-user", "--ro-bind", "/", "/", "true"]
        if not shutil.which("bwrap") or subprocess.run(probe, capture_output=True, check=False).returncode:
            print("     not tested: mount namespaces or bubblewrap do not work here", flush=True)
            return None
        where = os.path.join(self.root, "state", "jobs")
        os.makedirs(os.path.dirname(where))
        if os.geteuid() == 0:
            os.chown(os.path.dirname(where), NOBODY, NOBODY)
        return Machine("--gpus", "auto", where=where, root=True, program=[*self.program, BINARY])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.root, ignore_errors=True)


def saw(m, name):
    """What the task of a job has printed, sorted, when it has."""
    wait_until(lambda: "NVIDIA_VISIBLE_DEVICES=" in m.log(name, "main"))
    return sorted(line for line in m.log(name, "main").splitlines()
                  if re.match(r"/dev/(?!(full|null|random|tty|urandom|zero)$)|\w+_VISIBLE_DEVICES=", line))


def sees(nodes, cuda, nvidia):
    return sorted([*nodes, f"CUDA_VISIBLE_DEVICES={cuda}", f"NVIDIA_VISIBLE_DEVICES={nvidia}"])


def test_instances_of_mig_are_gpus(check):
    """Each of the four devices of the example is a GPU of one job: its nodes, no others, and its UUID."""
    with Devices("nvidia.yaml", example("nvidia.com/gpu")) as devices, contextlib.ExitStack() as stack:
        check.equal("nodes of the example", len(devices.nodes), 9)
        m = devices.machine()
        if not m:
            return
        stack.enter_context(m)
        check.equal("GPUs", m.request("GET", "/api/v2/machine").json["gpus"], 4)
        for i in range(4):
            m.start(f"one{i}", {"main": role(SEES, WAITS, gpu=1)})
        got = [saw(m, f"one{i}") for i in range(4)]
        check.equal("all at once", [m.state(f"one{i}") for i in range(4)], ["RUNNING"] * 4)
        check.equal("what each of them sees", sorted(got), sorted(sees([*nodes, *CONTROL], uuid, uuid) for nodes, uuid in zip(NODES, UUIDS)))
        m.start("fifth", {"main": role(SEES, gpu=1)})
        check.ok("a fifth waits", wait_until(lambda: "GPU" in m.waiting_reason("fifth")), m.waiting_reason("fifth"))
        for i in range(4):
            m.stop_job(f"one{i}")
        check.equal("... for one of them", m.wait("fifth"), "SUCCEEDED")
        m.start("two", {"main": role(SEES, gpu=2)})
        m.wait("two")
        check.equal("a job of two instances", saw(m, "two"), sees({*NODES[0], *NODES[1], *CONTROL}, ",".join(UUIDS[:2]), ",".join(UUIDS[:2])))
        m.start("none", {"main": role(SEES)})
        m.wait("none")
        check.equal("a job without a GPU", saw(m, "none"), sees([], "", "void"))


def test_gpus_of_amd_are_found(check):
    """A job of one sees its card, its render node and the one of all."""
    with Devices("amd.json", example("amd.com/gpu")) as devices, contextlib.ExitStack() as stack:
        json.loads(example("amd.com/gpu"))
        check.equal("nodes of the example", len(devices.nodes), 5)
        m = devices.machine()
        if not m:
            return
        stack.enter_context(m)
        for i in range(2):
            m.start(f"one{i}", {"main": role(SEES, WAITS, gpu=1)})
        check.equal("each has its own", sorted(saw(m, f"one{i}") for i in range(2)), sorted(
            sees([f"/dev/dri/card{1 + i}", f"/dev/dri/renderD{128 + i}", "/dev/kfd"], 0, i) for i in range(2)))
        check.equal("both at once", [m.state(f"one{i}") for i in range(2)], ["RUNNING"] * 2)
        for i in range(2):
            m.stop_job(f"one{i}")
            m.wait(f"one{i}")
        m.start("two", {"main": role(SEES, gpu=2)})
        m.wait("two")
        check.equal("a job of both", saw(m, "two"), sees(devices.nodes, "0,1", "0,1"))


TESTS = [test_instances_of_mig_are_gpus, test_gpus_of_amd_are_found]
