"""MxJobs and launcher manifests on this machine: the examples with other commands, whose tasks find
each other like those of the original commands."""
import os
import re

from foreground import Place
from harness import ROOT, free_port
from machine import Machine

# The scheduler waits for all other tasks, which report their role; each task ends after its report.
MEET = """python3 -c '
import os, socket, time
where = os.environ["DMLC_PS_ROOT_URI"], int(os.environ["DMLC_PS_ROOT_PORT"])
if os.environ["DMLC_ROLE"] == "scheduler":
    listener = socket.create_server(("", where[1]))
    others = int(os.environ["DMLC_NUM_SERVER"]) + int(os.environ["DMLC_NUM_WORKER"])
    print("met", *sorted(listener.accept()[0].makefile().read() for _ in range(others)))
else:
    for _ in range(600):
        try:
            socket.create_connection(where).sendall(os.environ["DMLC_ROLE"].encode())
            break
        except OSError:
            time.sleep(0.1)
'"""
# The line of shell of docs/DIALECTS.md, then the same between workers and ps.
HOSTS = "ps_hosts=$(echo $PAI_TASK_ROLE_ps_HOST_LIST | sed 's/:[0-9]*/:PORT/g')"
PS = """python3 -c 'import socket; print("met", socket.create_server(("", PORT)).accept()[0].makefile().read())'"""
WORKER = HOSTS + """; for i in $(seq 600); do
echo "from $ps_hosts" 2>/dev/null >/dev/tcp/${ps_hosts/:/\\/} && break; sleep 0.1; done"""


def yaml_text(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def example(path):
    with open(os.path.join(ROOT, "tests", "corpus", path), encoding="utf-8") as f:
        text = f.read()
    # Directories and devices of the original images.
    text = re.sub(r" +workingDir: .*\n", "", text)
    return re.sub(r" +resources:\n +limits:\n.*nvidia-gpu: 1 *\n", "", text)


def test_mxjob_tasks_meet_and_succeed(check):
    for name, met in (("03-mxnet.mlkube-dist", "met server server worker worker worker"),
                      ("04-mxnet.mlkube-local", None),
                      ("05-helm-dist-rendered", "met server server worker worker worker"),
                      ("07-kubeflow-full-with-status", "met server worker")):
        text = re.sub(r"PsRootPort: \d+", f"PsRootPort: {free_port()}", example(f"mxjob/{name}.yaml"))
        script = yaml_text(MEET if met else "echo alone")
        text = re.sub(r'command: \["python"\]\n( +)args: .*', lambda m: f"command: [bash, -c, {script}]", text)
        text = re.sub(r"- args:\n(?: +- .*\n)+ +command:\n +- python\n",
                      lambda m: f"- command: [bash, -c, {script}]\n", text)
        with Place() as p:
            p.write("job.yaml", text)
            code, out, err = p.run("job.yaml")
            check.equal(f"{name}: succeeds", code, 0)
            check.ok(f"{name}: all met", (met or "alone") in out, (out, err))


def test_launcher_jobs_run_unless_they_have_init_containers(check):
    for number in (1, 2):
        text, port = example(f"launcher/launcher-framework-{number}.yaml"), str(free_port())
        if "initContainers" in text:
            with Place() as p, Machine("--dialects", "launcher") as m:
                p.write("job.yaml", text)
                code, out, err = p.run("job.yaml")
                check.ok("run: init containers are refused", code == 2 and re.search(
                    r"^job\.yaml:\d+:\d+: .*role \w+: .* it has 2 init containers, with that of pai-runtime", err, re.M), (code, out, err))
                for path in ("/api/v2/jobs", "/api/v2/jobs?dryRun=true"):
                    reply = m.request("POST", path, text, {"Content-Type": "text/yaml"})
                    check.ok(path, reply.status == 400 and reply.json["code"] == "NotImplementedError" and
                             "2 init containers" in reply.json["message"] and reply.json["errors"][0]["line"], reply)
                check.equal("nothing is left", m.rows("SELECT name FROM object WHERE kind = 0"), [])
        # The manual's init container found the addresses, which pai-runtime does.
        text = re.sub(r" +initContainers:\n(?: {14,}.*\n)+", "", text)
        text = re.sub(r" +(?:volumeMounts|volumes):\n(?: +(?:- name: config-volume|mountPath: .*|emptyDir: .*)\n)+", "", text)
        scripts = iter([WORKER, PS])
        text = re.sub(r"command: \[.*\]", lambda m: f"command: [bash, -c, {yaml_text(next(scripts).replace('PORT', port))}]", text)
        with Place() as p:
            p.write("job.yaml", text)
            code, out, err = p.run("job.yaml")
            check.equal(f"{number}: succeeds", code, 0)
            check.ok(f"{number}: they met", re.search(rf"met from [0-9.]+:{port}$", out, re.M), (out, err))
