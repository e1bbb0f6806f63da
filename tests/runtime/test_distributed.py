"""Jobs with extras.distributed: what the pods of each task get."""
import base64
import os
import re
import subprocess
import tempfile

from checks import RUNTIME, check, equal, finish, tests
from distributed_kit import D, Job, loopback, variables

HAS_DROPBEAR = b"dropbear" in subprocess.run([RUNTIME, "version"], capture_output=True, check=True).stdout


def port_of(pod, label="distributed"):
    """The port of this task in runtime_env."""
    env = variables(pod.read(D + "/runtime_env"))
    return env[f"PAI_PORT_LIST_{pod.role['name']}_{pod.index}_{label}"].split(",")[0]


def test_torch_roles_are_ranked_in_listed_order():
    """The role `small` has the first ranks, because it is listed first."""
    with Job("torch", loopback) as job:
        first = job.pod("small")
        common = {"MASTER_ADDR": first.address, "MASTER_PORT": port_of(first), "NNODES": "3", "WORLD_SIZE": "9"}
        for pod, rank, processes in ((first, "0", "1"), (job.pod("bigone", 0), "1", "4"), (job.pod("bigone", 1), "2", "4")):
            own = {"NODE_RANK": rank, "NPROC_PER_NODE": processes}
            pet = {"PET_MONITOR_INTERVAL": "0.1", "PYTHONUNBUFFERED": "1"} | {"PET_" + name: value for name, value in {**common, **own}.items() if name != "WORLD_SIZE"}
            interface = {"NCCL_SOCKET_IFNAME": "=lo", "GLOO_SOCKET_IFNAME": "lo"} if pod.address == "127.0.0.1" else {}
            equal(f"torch: node {rank}", pod.set, common | own | pet | interface)
            check(f"torch: the log of node {rank} says whether there is no interface",
                  (b"no network interface has the address" in pod.init.stderr) == (not interface), pod.init.stderr)
        equal("torch: a role that is not listed", (job.pod("board").set, job.pod("board").read(D + "/distributed_env")), ({}, None))
        check("torch: no ssh", not job.secrets and not first.exists(D + "/hostfile"))


def test_variables_of_the_container_are_kept():
    """`run` keeps variables of the container and logs that; so does the file for shells."""
    with Job("torch", loopback) as job:
        pod = job.pod("small")
        pod.write(D + "/user.sh", "#!/bin/sh\nenv\n", 0o755)
        pod.env = pod.environment("containers", "app", PATH=os.environ["PATH"]) | {"MASTER_PORT": "1234", "NNODES": "3"}
        done = pod.run("run", "--logs-kept")
        env = dict(line.split("=", 1) for line in done.stdout.decode().splitlines() if "=" in line)
        equal("run: the image's port, our address", (env["MASTER_PORT"], env["MASTER_ADDR"]), ("1234", pod.address))
        log = pod.read(pod.logs() + "/runtime.log").decode()
        equal("run: one warning, without the value", re.findall("extras.distributed: (.*)", log),
              ["the container has MASTER_PORT already, which stays"])
        script = f". {pod.at(D)}/runtime_env.sh; echo $MASTER_PORT $NNODES"
        done = subprocess.run(["sh", "-uc", script], capture_output=True, env={"MASTER_PORT": "7"}, check=True)
        equal("runtime_env.sh", done.stdout, b"7 3\n")


def test_jax_tasks_get_the_coordinator():
    """On the host's network, the node's address is used, and the job's own ports with the label."""
    with Job("jax", loopback) as job:
        for pod in job.pods:
            equal(f"jax: {pod.index}", pod.set, {
                "JAX_COORDINATOR_ADDRESS": f"192.0.2.0:{port_of(job.pods[0])}", "JAX_NUM_PROCESSES": "2",
                "JAX_PROCESS_ID": str(pod.index), "PYTHONUNBUFFERED": "1"})


def commands(pod):
    """Calls of pai-runtime before the command."""
    return re.findall(r"/runtime'? (.*)", (pod.read(D + "/plugin_pre0.sh") or b"").decode().replace(f" --root '{pod.path}'", ""))


def test_mpi_tasks_get_hostfile_and_key():
    """The plugin ssh of the job is not repeated."""
    with Job("mpi", loopback) as job:
        launcher, worker = job.pod("launcher"), job.pod("worker", 1)
        for pod in job.pods:
            equal(f"mpi: hostfile of {pod.role['name']}-{pod.index}", pod.read(D + "/hostfile").decode(),
                  "launcher-0 slots=2\nworker-0 slots=2\nworker-1 slots=2\n")
            equal("mpi: one plugin", pod.exists(D + "/plugin_pre1.sh"), False)
        equal("mpi: the first waits for the others", commands(launcher), ["sshd true", "ssh-barrier --roles 'launcher,worker' 30"])
        equal("mpi: the others do not", commands(worker), ["sshd true"])
        equal("mpi: where the hosts are", (worker.set["OMPI_MCA_orte_default_hostfile"], worker.set["NODE_RANK"]),
              (worker.at(D + "/hostfile"), "2"))
        shared_key(job)
        job_hostfile(worker)


def shared_key(job):
    """The tasks derive the same pair of ssh keys from the Secret."""
    seed = re.search(rb'seed: "?([0-9a-f]{64})', base64.b64decode(job.secrets[0]["data"]["userExtensionSecrets.yaml"]))[1]
    for pod in job.pods:
        equal("mpi: the seed is nowhere else", [path for path in (D + "/job_config.yaml", D + "/runtime_env", D + "/distributed_env",
              D + "/plugin_pre0.sh") if seed in (pod.read(path) or b"")] + ([pod.init.stderr] if seed in pod.init.stderr else []), [])
    if not HAS_DROPBEAR:
        return
    path = "/usr/local/pai/ssh-secret/ssh-privatekey"
    keys = {pod.read(path) for pod in job.pods}
    equal("mpi: one key", len(keys), 1)
    with tempfile.NamedTemporaryFile() as f: # ssh-keygen requires a file that only its owner can read
        f.write(keys.pop())
        f.flush()
        done = subprocess.run(["ssh-keygen", "-y", "-P", "", "-f", f.name], capture_output=True, check=False)
    equal("mpi: the public key is that of the private one", done.stdout.split()[:2],
          job.pods[0].read("/usr/local/pai/ssh-secret/ssh-publickey").split())


def job_hostfile(pod):
    """The script writes /job/hostfile, unless it exists or cannot be written."""
    text = pod.read(D + "/plugin_pre0.sh").decode()
    part = text[text.index("set --"):text.index("fi\n") + 3]
    for what, before, said, there in (
            ("is made", "", b"", pod.read(D + "/hostfile")),
            ("stays", f"rm -r '{pod.path}/job'; mkdir '{pod.path}/job'; echo mine >'{pod.path}/job/hostfile'", b"which stays", b"mine\n"),
            ("cannot be made", f"rm -r '{pod.path}/job'; echo >'{pod.path}/job'", b"cannot be written", None)):
        done = subprocess.run(["sh", "-ec", before + "\n" + part], capture_output=True, check=False)
        check(f"mpi: /job/hostfile {what}", done.returncode == 0 and said in done.stderr and bool(said) == bool(done.stderr), done)
        equal(f"mpi: /job/hostfile {what}: its text", pod.read("/job/hostfile") if os.path.isdir(pod.at("/job")) else None, there)


def test_deepspeed_tasks_get_the_ssh_plugin():
    """A job without the plugin ssh gets it."""
    with Job("deepspeed", loopback) as job:
        equal("deepspeed: hostfile", job.pods[0].read(D + "/hostfile"), b"worker-0 slots=2\nworker-1 slots=2\n")
        equal("deepspeed: torchrun would know too", job.pods[1].set["PET_NODE_RANK"], "1")
        equal("deepspeed: first", commands(job.pods[0]), ["sshd true", "ssh-barrier --roles 'worker' 30"])
        equal("deepspeed: second", commands(job.pods[1]), ["sshd true"])


def test_launcher_without_accelerators_has_no_rank():
    """The launcher only starts the processes, which run on tasks with accelerators: rank 0 is in
    the first worker."""
    with Job("launcher", loopback) as job:
        launcher, worker = job.pod("launcher"), job.pod("worker")
        equal("launcher: hostfile", launcher.read(D + "/hostfile"), b"worker-0 slots=2\nworker-1 slots=2\n")
        equal("launcher: it starts when it reaches the others", [commands(pod) for pod in job.pods],
              [["sshd true", "ssh-barrier --roles 'launcher,worker' 30"], ["sshd true"], ["sshd true"]])
        common = {"MASTER_ADDR": worker.address, "MASTER_PORT": port_of(worker), "NNODES": "2", "WORLD_SIZE": "4"}
        own = ("NODE_RANK", "NPROC_PER_NODE", "RANK", "PET_NODE_RANK", "PET_NPROC_PER_NODE")
        for pod, values in ((launcher, [None] * 5), (worker, ["0", "2", None, "0", "2"]),
                            (job.pod("worker", 1), ["1", "2", None, "1", "2"])):
            equal("launcher: the same for all", {name: pod.set.get(name) for name in common}, common)
            equal("launcher: no rank of its own", [pod.set.get(name) for name in own], values)


tests(test_torch_roles_are_ranked_in_listed_order, test_variables_of_the_container_are_kept,
      test_jax_tasks_get_the_coordinator, test_mpi_tasks_get_hostfile_and_key,
      test_deepspeed_tasks_get_the_ssh_plugin, test_launcher_without_accelerators_has_no_rank)
finish()
