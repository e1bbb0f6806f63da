"""init with OpenPAI's Frameworks of real jobs: every role of every job."""
import base64
import functools
import json
import os
import subprocess

from checks import RUNTIME, TOP, check, finish, tests
from pods import Pod, framework_status, variables

RECORDED = os.path.join(TOP, "tests/golden/base.jsonl")
STEPS = "install,exitspec,config,environment,plugins,command"
TASKS_MAX = 64  # pods per role; more of very large roles only take time


def frameworks():
    with open(RECORDED, encoding="utf-8") as f:
        for line in f:
            record = json.loads(line)
            if record.get("accepted"):
                framework = record["framework"]
                framework["metadata"].setdefault("namespace", "default")
                yield record, framework


def pods_of(framework):
    pods = []
    for role in framework["spec"]["taskRoles"]:
        for index in range(min(role["taskNumber"], TASKS_MAX)):
            n = len(pods)
            pods.append((role, index, f"10.1.{n // 250}.{n % 250 + 1}"))
    return pods


def mounted(pod, record):
    """The job's secrets, as they would be mounted."""
    for name, secret in record["secrets"].items():
        data = secret.get("data", {}) if isinstance(secret, dict) else {}
        if "secrets.yaml" in data:
            pod.secret("secrets", {"secrets.yaml": base64.b64decode(data["secrets.yaml"])})


def one_role(record, framework, pods, role):
    """The error of init for the first task of a role, or None."""
    pod = next(p for p in pods if p.role is role)
    framework["status"] = framework_status(framework, pods)
    pod.write("/framework.json", json.dumps(framework))
    mounted(pod, record)
    pod.env = pod.environment("initContainers", "init")
    done = pod.run("init", "--steps", STEPS, "--framework", pod.at("/framework.json"))
    if done.returncode:
        return done.stderr.decode()[-600:]
    known = variables(pod)
    for peer in pods:
        name = f"{peer.role['name']}_{peer.index}"
        if known.get("PAI_HOST_IP_" + name) != peer.host:
            return f"PAI_HOST_IP_{name} is {known.get('PAI_HOST_IP_' + name)}, not {peer.host}"
    if known.get("PAI_CURRENT_CONTAINER_IP") != pod.host or not known.get("PAI_CONTAINER_SSH_PORT"):
        return f"own address or port: {known}"
    user = pod.read("/usr/local/pai/runtime.d/user.sh").decode()
    if "$secrets" not in pod.env["USER_CMD"] and not user.endswith(pod.env["USER_CMD"]):
        return f"user.sh is not the command: {user}"
    for script in ("user.sh", "precommands.sh", "postcommands.sh"):
        text = pod.read("/usr/local/pai/runtime.d/" + script)
        if not is_script(text) and not broken_before(pod):
            return f"{script} is no script: {text}"
    return None


@functools.cache
def is_script(text):
    """Most tasks have the same precommands and postcommands."""
    return subprocess.run(["sh", "-n"], input=text, check=False, capture_output=True).returncode == 0


def broken_before(pod):
    """Ignores commands that need bash or have errors in the job."""
    return subprocess.run(["bash", "-n"], input=pod.env["USER_CMD"].encode(), check=False,
                          capture_output=True).returncode or \
        not subprocess.run(["bash", "-n", pod.at("/usr/local/pai/runtime.d/user.sh")], check=False,
                           capture_output=True).returncode


def test_environments_equal_those_of_openpai():
    jobs = 0
    for record, framework in frameworks():
        jobs += 1
        pods = [Pod(framework, role, index, address, address)
                for role, index, address in pods_of(framework)]
        try:
            for role in framework["spec"]["taskRoles"]:
                if role["taskNumber"] > 0:
                    problem = one_role(record, framework, pods, role)
                    check(f"{record['file']}, {role['name']}", problem is None, problem)
        finally:
            for pod in pods:
                pod.remove()
    check("there were jobs", jobs > 200, jobs)
    check("by the program", os.access(RUNTIME, os.X_OK))


tests(test_environments_equal_those_of_openpai)
finish()
