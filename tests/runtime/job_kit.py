"""Two example jobs end to end, for test_barrier.py: rest-lit creates their Frameworks on a real API
server, and their pods run as local processes that find each other and communicate."""
import os
import subprocess
import sys
import threading

from checks import PATIENCE, RUNTIME, TOP, check, equal
from cluster import FRAMEWORKS
from harness import Server, framework_name
from pods import Pod, framework_status, path_with, read_ca, service_account_token, variables

# A substitute for TensorFlow: servers listen at the addresses of the command line; workers connect
# to all servers and workers and print the responses.
REPLICA = r'''
import socket, sys, threading, time
options = dict(a[2:].split("=", 1) for a in sys.argv[2:])
me, index = options["job_name"], int(options["task_index"])
hosts = {"ps": options["ps_hosts"].split(","), "worker": options["worker_hosts"].split(",")}
address, port = hosts[me][index].rsplit(":", 1)
listener = socket.create_server((address, int(port)))
served = threading.Semaphore(0)
def serve():
    while True:
        peer, _ = listener.accept()
        peer.sendall(("I am %s %d\n" % (me, index)).encode())
        peer.close()
        served.release()
threading.Thread(target=serve, daemon=True).start()
print("listening on %s:%s" % (address, port), flush=True)
if me == "ps":
    while True:
        time.sleep(1)
for role in ("ps", "worker"):
    for host in hosts[role]:
        address, port = host.rsplit(":", 1)
        for attempt in range(1800):
            try:
                s = socket.create_connection((address, int(port)), timeout=300)
                break
            except OSError:
                time.sleep(0.1)
        print("heard: " + s.makefile().readline().strip(), flush=True)
for _ in hosts["worker"]:  # all of them ask
    served.acquire(timeout=300)
'''


def kubelet(cluster, framework, addresses, host):
    """Pods of all tasks, with what is mounted into them."""
    pods = []
    for role in framework["spec"]["taskRoles"]:
        for index in range(role["taskNumber"]):
            address = addresses(len(pods))
            pods.append(Pod(framework, role, index, address, host or address))
    token, ca = service_account_token(cluster), read_ca(cluster)
    for pod in pods:
        pod.account(token, ca)
        pod.write("/usr/local/pai-config/runtime-exit-spec.yaml", "[]\n")
        pod.write("/bin/python", f"#!/bin/sh\nexec {sys.executable} \"$0.replica\" \"$@\"\n", 0o755)
        pod.write("/bin/python.replica", REPLICA)
    return pods


def start(cluster, pod, command, kind, container, **more):
    port = cluster.url.rsplit(":", 1)[1]
    pod.env = pod.environment(kind, container, KUBERNETES_SERVICE_HOST="127.0.0.1",
                              KUBERNETES_SERVICE_PORT=port, **more)
    return pod.start(command)


def collect(processes):
    """The output of the processes so far."""
    outputs = [None] * len(processes)

    def one(i):
        outputs[i] = processes[i].communicate()
    threads = [threading.Thread(target=one, args=(i,)) for i in range(len(processes))]
    for thread in threads:
        thread.start()
    return threads, outputs


def join(threads):
    for thread in threads:
        thread.join(PATIENCE)


def run_job(cluster, framework, addresses, host, label):
    """Runs all pods of the job until its end; returns the pods in the order of their roles."""
    path = f"{FRAMEWORKS}/{framework['metadata']['name']}"
    pods = kubelet(cluster, framework, addresses, host)
    inits = [start(cluster, pod, "init", "initContainers", "init") for pod in pods]
    threads, said = collect(inits)
    # The pods get their addresses one after the other.
    for n in range(1, len(pods) + 1):
        status = framework_status(framework, pods[:n])
        cluster.api("PATCH", path, {"status": status}, "application/merge-patch+json")
    join(threads)
    for pod, process, (out, err) in zip(pods, inits, said):
        if not equal(f"{label}: init of {pod.role['name']} {pod.index}", process.returncode, 0):
            print(out.decode(), err.decode())
    return pods


def start_all(cluster, pods):
    processes = []
    for pod in pods:
        work = pod.at("/home")
        os.makedirs(work)
        pod_path = path_with(pod.at("/bin"))
        pod.base["PATH"] = pod_path
        pod.env = pod.environment("containers", "app")
        processes.append(subprocess.Popen([RUNTIME, "run", "--root", pod.path], env=pod.env, cwd=work,
                                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                          stderr=subprocess.PIPE))
    return processes


def tf_demo(cluster, framework, addresses, host, label):
    pods = run_job(cluster, framework, addresses, host, label)
    for pod in pods:
        known = variables(pod)
        role = pod.role["name"]
        ports = known.get(f"PAI_PORT_LIST_{role}_{pod.index}_main", "")
        for peer in pods:
            seen = variables(peer)
            name = f"PAI_PORT_LIST_{role}_{pod.index}_main"
            equal(f"{label}: {peer.role['name']} {peer.index} knows the port of {role} {pod.index}",
                  seen.get(name), ports)
            equal(f"{label}: and its address", seen.get(f"PAI_HOST_IP_{role}_{pod.index}"),
                  pod.host if host else pod.address)
    processes = start_all(cluster, pods)
    threads, outputs = collect(processes)
    join(threads[2:])  # the workers
    heard = {b"heard: I am " + name for name in (b"ps 0", b"ps 1", b"worker 0", b"worker 1")}
    for pod, process, output in list(zip(pods, processes, outputs))[2:]:
        out, err = output or (b"", b"")
        equal(f"{label}: worker {pod.index} ends", process.returncode, 0)
        check(f"{label}: worker {pod.index} heard everybody", heard <= set(out.splitlines()), (out, err))
        equal(f"{label}: its log says the same", pod.read(pod.logs("user-stdout/current")), out)
        check(f"{label}: no termination message", not pod.exists("/tmp/pai-termination-log") or
              pod.read("/tmp/pai-termination-log") == b"")
    # The job is done: FrameworkController deletes the pods that still run.
    for process in processes:  # those that have ended hear nothing of it
        process.terminate()
    join(threads)
    for pod, process in list(zip(pods, processes))[:2]:
        equal(f"{label}: ps {pod.index} was stopped", process.returncode, 255)
        message = pod.read("/tmp/pai-termination-log") or b""
        check(f"{label}: ps {pod.index} reports it", message.startswith(b"[PAI_RUNTIME_ERROR_START]\n") and
              b"originUserExitCode: 143" in message and
              message.endswith(b"[PAI_RUNTIME_ERROR_END]"), message)
    for pod in pods:
        pod.remove()


def submit(cluster, *arguments):
    # The ports are outside the range of clients, and differ from those of concurrent tests.
    ports = 10000 + os.getpid() % 90 * 100
    with Server("--port-start", str(ports), "--port-end", str(ports + 100), "--apiserver", cluster.url, "--apiserver-ca", cluster.ca, "--apiserver-token-file",
                cluster.settings["TOKEN_FILE"], *arguments) as server:
        with open(os.path.join(TOP, "examples/tfDemo.json"), "rb") as f:
            reply = server.submit(f.read(), {"Content-Type": "application/json"}, "/api/v1/jobs")
        check("the job was accepted", reply.status == 202, reply)
    name = framework_name("tfDemo")
    return cluster.get("Framework", name)


def run_tf_demo(cluster):
    """Pods with addresses of their own, then pods that share the address of a node."""
    # The addresses differ from those of concurrent tests.
    net = f"127.{os.getpid() % 250 + 2}.{os.getpid() // 250 % 250}"
    framework = submit(cluster)
    tf_demo(cluster, framework, lambda n: f"{net}.{n + 1}", None, "plain")
    cluster.delete("Framework", framework["metadata"]["name"])
    framework = submit(cluster, "--profile", "openpai")
    tf_demo(cluster, framework, lambda n: f"{net}.99", f"{net}.99", "openpai")
