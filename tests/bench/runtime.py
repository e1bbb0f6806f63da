"""Benchmarks of pai-runtime for docs/BENCH-LOG.md: CPU time of all its processes (user + system) and
the maximum resident set, best of several runs.  The reference in the same run is /bin/true, and for
logs `cat` of the same bytes."""
import base64
import gzip
import json
import os
import random
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "runtime"))
from checks import RUNTIME, TOP, Root

CASES = os.path.join(TOP, "tests/data/runtime/init")
MIB = 1024 * 1024
MEASURE = os.path.join(os.path.dirname(RUNTIME), "tests/bench/measure/measure")
STEPS = "logs,clean,install,framework,exitspec,config,environment,ports,plugins,command"


def measure(command, env=None, runs=5, before=None):
    """(CPU seconds, KiB resident, exit status) of the best run, children included."""
    best = None
    for _ in range(runs):
        if before:
            before()
        result, end = os.pipe()
        # Descriptor 3 of the measuring program.
        subprocess.run(["sh", "-c", f'"$@" 3>&{end} {end}>&-', "sh", MEASURE, *command], env=env,
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       check=True, pass_fds=[end])
        os.close(end)
        with os.fdopen(result, encoding="ascii") as f:
            microseconds, kib, status = f.read().split()
        seen = (int(microseconds) / 1e6, int(kib), int(status))
        best = min(best or seen, seen)
    return best


def row(name, seen, expected=0, note=""):
    seconds, kib, status = seen
    wrong = "" if status == expected else f" (exit status {status}!)"
    print(f"| {name} | {seconds * 1000:.1f} | {kib / 1024:.1f} | {note}{wrong} |")


def case(name):
    """A recorded pod as a root: the Framework is a file, the API server is not asked."""
    folder = os.path.join(CASES, name, "in")
    with open(os.path.join(folder, "env.json"), encoding="utf-8") as f:
        root = Root(**{k: str(v) for k, v in json.load(f).items()})
    for file, path in (("secrets.yaml", "secrets/secrets.yaml"), ("token", "token-secrets/token"),
                       ("userExtensionSecrets.yaml", "user-extension-secrets/userExtensionSecrets.yaml")):
        source = os.path.join(folder, file)
        if os.path.exists(source):
            with open(source, "rb") as f:
                root.write("/usr/local/pai/" + path, f.read())
    with open(os.path.join(TOP, "runtime-assets/runtime-exit-spec.yaml"), "rb") as f:
        root.write("/usr/local/pai-config/runtime-exit-spec.yaml", f.read())
    return root, os.path.join(folder, "framework.json")


def init(root, framework, steps=STEPS):
    return measure([RUNTIME, "init", "--root", root.path, "--steps", steps, "--framework", framework],
                   root.env, runs=20)


def large_framework(path, tasks, compressed):
    """A Framework with this number of tasks, like those of FrameworkController."""
    def task(i):
        uid = f"{i:08x}-9bda-11ea-830b-000d3ab25bb6"
        return {"index": i, "startTime": "2026-01-31T12:00:00Z", "completionTime": None, "runTime": None,
                "instanceUID": uid, "state": "AttemptPreparing", "transitionTime": "2026-01-31T12:00:00Z",
                "deletionPending": False, "retryPolicyStatus": {
                    "totalRetriedCount": 0, "accountableRetriedCount": 0, "retryDelaySec": None},
                "attemptStatus": {"id": 0, "startTime": "2026-01-31T12:00:00Z", "completionTime": None,
                                  "instanceUID": "0_" + uid, "podName": f"fw-worker-{i}", "podUID": uid,
                                  "podNodeName": f"node{i}", "podIP": f"10.1.{i // 250}.{i % 250}",
                                  "podHostIP": f"10.0.{i // 250}.{i % 250}", "completionStatus": None}}
    roles = [{"name": "worker", "taskStatuses": [task(i) for i in range(tasks)]}]
    ports = {"schedulePortStart": 15000, "schedulePortEnd": 40000,
             "ports": {"ssh": {"count": 1}, "http": {"count": 1}}}
    text = json.dumps(roles).encode()
    attempt = {"id": 0, "taskRoleStatuses": None if compressed else roles, "taskRoleStatusesCompressed":
               base64.b64encode(gzip.compress(text)).decode() if compressed else None}
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"apiVersion": "frameworkcontroller.microsoft.com/v1", "kind": "Framework", "metadata": {"name": "fw", "namespace": "default", "annotations": {
            "config": "protocolVersion: 2\ntaskRoles:\n  worker: {}\n"}},
            "spec": {"taskRoles": [{"name": "worker", "taskNumber": tasks, "task": {"pod": {
                "metadata": {"annotations": {"rest-server/port-scheduling-spec": json.dumps(ports)}},
                "spec": {"containers": []}}}}]}, "status": {"attemptStatus": attempt}}, f)
    return len(text)


def inits():
    for name, label, reference in (("25_user_cmd_no_secrets", "init, a simple task", "641 ms, 33 MiB"),
                                   ("03_multi_role_worker1", "init, six plugins", "2090 ms, 88 MiB")):
        root, framework = case(name)
        row(label, init(root, framework), note=f"reference {reference}")
        root.remove()
    for compressed in (False, True):
        root = Root(FC_TASKROLE_NAME="worker", FC_TASK_INDEX="7", FC_FRAMEWORK_NAME="fw",
                    PAI_CURRENT_TASK_ROLE_NAME="worker")
        framework = root.at("/framework.json")
        size = large_framework(framework, 2000, compressed)
        done = init(root, framework, "install,config,environment")
        row(f"environment of 2000 tasks{', compressed status' if compressed else ''}", done,
            note=f"{size // 1024} KiB of status, {len(root.read('/usr/local/pai/runtime.d/runtime_env.sh')) // 1024} "
            "KiB of environment")
        root.remove()


TRAINING = b"2026-01-31 12:00:00.123456: I tensorflow/core/step.cc:142] step 1234 loss = 0.31415 (0.271 sec)\n"


def near(spec):
    """Lines with the beginning of the specification's patterns, but without a match."""
    with open(spec, encoding="utf-8") as f:
        starts = re.findall(r"userLogRegex: '(?:\(\?[a-z]+\))?([A-Za-z ]{4,})", f.read())
    return b"".join(b"%s of step %d went well\n" % (start.encode()[:-1], i) for i, start in enumerate(starts))


def exits():
    root, _ = case("25_user_cmd_no_secrets")
    spec = root.at("/usr/local/pai-config/runtime-exit-spec.yaml")
    hostile = root.at("/hostile.yaml")
    root.write("/hostile.yaml", "- containerExitCode: 77\n  patterns:\n" + "".join(
        f"  - userLogRegex: '{p}'\n" for p in ("(?s)(a|b|x)*a(a|b|x){14}c", "(x?){50}x{50}y", "(?s).*.*.*y")))
    root.write("/runtime.log", "nothing\n")
    for label, size, text, patterns, note in (
            ("small log", 4096, TRAINING, spec, "reference 4.3 ms"),
            ("10 MiB log", 10 * MIB, TRAINING, spec, "reference 11326 ms"),
            ("10 MiB of beginnings of patterns", 10 * MIB, near(spec), spec, ""),
            ("10 MiB with non-ASCII text in every line", 10 * MIB, "Größe 3, перевод\n".encode(), spec, ""),
            ("10 MiB, hostile patterns", 10 * MIB, bytes(random.Random(1).choices(b"abx", k=MIB)), hostile, "ends after 10 s at the latest")):
        root.write("/user.log", (text * (size // len(text) + 1))[:size])
        command = [RUNTIME, "exit", "--root", root.path, "--user-log", root.at("/user.log"),
                   "--runtime-log", root.at("/runtime.log"), "--spec", patterns, "77"]
        row(f"exit, {label}{'' if patterns == hostile else ', no match'}",
            measure(command, root.env, runs=1 if patterns == hostile else 5), 255, note)
    root.remove()


def log_path():
    """150 MB through `run`, the producer included, and through cat."""
    size = 150 * 1000 * 1000
    root, framework = case("25_user_cmd_no_secrets")
    root.env["USER_CMD"] = f"head -c {size} {root.at('/noise')}; cat /proc/$PPID/status >{root.at('/status')}"
    with open(root.at("/noise"), "wb") as f:
        line = os.urandom(48).hex().encode() + b"\n"
        f.write((line * 10000)[:MIB] * (size // MIB + 1))
    subprocess.run([RUNTIME, "init", "--root", root.path, "--framework", framework, "--steps",
                    "logs,clean,install,exitspec,config,environment,command"], env=root.env, check=True,
                   stderr=subprocess.DEVNULL)

    def forget():
        subprocess.run(["rm", "-rf", root.at(root.logs("user-all")), root.at(root.logs("user-stdout")),
                        root.at(root.logs("user-stderr"))], check=True)
    seen = measure([RUNTIME, "run", "--root", root.path], root.env, 3, before=forget)
    plain = measure(["sh", "-c", f"head -c {size} {root.at('/noise')} | cat"], runs=3)
    row("run, 150 MB of output", seen, note=f"reference 3000 ms, 24 MiB, 12 processes; "
        f"head and cat alone {plain[0] * 1000:.0f} ms")
    for line in (root.read("/status") or b"").decode().splitlines():
        if line.startswith(("VmHWM", "VmRSS")):
            what = "at its largest" if line.startswith("VmHWM") else "afterwards"
            print(f"| run alone, in that flood, {what} | | {int(line.split()[1]) / 1024:.1f} | goal 2 MiB |")
    root.remove()


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        print(f"pai-runtime: {os.path.getsize(RUNTIME)} bytes\n")
        print("| | CPU ms | MiB | |\n|---|--:|--:|---|")
        row("/bin/true", measure(["/bin/true"], runs=20), note="the yardstick")
        row("pai-runtime version", measure([RUNTIME, "version"], runs=20))
        inits()
        exits()
        log_path()


if __name__ == "__main__":
    main()
