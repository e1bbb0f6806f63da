"""The pods of the jobs of tests/corpus/distributed, from the job file on."""
import base64
import json
import os
import subprocess
import tempfile

from checks import TOP, equal
from pods import Pod, framework_status

REST_LIT = os.path.abspath(os.environ.get("REST_LIT", os.path.join(TOP, os.environ.get("B", "build"), "rest-lit")))
JOBS = os.path.join(TOP, "tests/corpus/distributed")
D = "/usr/local/pai/runtime.d"
STEPS = "install,config,environment,plugins"


def translate(name):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as facts:
        json.dump({"users": {"alice": {"overlays": ["hostNetwork"]}}}, facts)
        facts.flush()
        done = subprocess.run([REST_LIT, "translate", "--user", "alice", "--facts", facts.name, f"{JOBS}/{name}.yaml"],
                              capture_output=True, check=True)
    return json.loads(done.stdout)["items"]


class Job:
    """All pods of a job; `addresses` gives the address of a pod by its number."""

    def __init__(self, name, addresses):
        *self.secrets, framework = translate(name)
        framework["metadata"].setdefault("namespace", "default")
        self.framework = framework
        roles = framework["spec"]["taskRoles"]
        tasks = [(role, index) for role in roles for index in range(role["taskNumber"])]
        self.pods = [Pod(framework, role, index, addresses(i), f"192.0.2.{i}") for i, (role, index) in enumerate(tasks)]
        framework["status"] = framework_status(framework, self.pods)
        for pod in self.pods:
            for secret in self.secrets:
                for file, text in secret["data"].items():
                    folder = "user-extension-secrets" if "userExtension" in file else "secrets"
                    pod.write(f"/usr/local/pai/{folder}/{file}", base64.b64decode(text))
            pod.write("/framework.json", json.dumps(framework))
            pod.env = pod.environment("initContainers", "init", PATH=os.environ["PATH"])
            pod.init = pod.run("init", "--steps", STEPS, "--framework", pod.at("/framework.json"))
            equal(f"{name}: init of {pod.role['name']}-{pod.index}", (pod.init.returncode, pod.init.stderr[-300:] if
                                                                     pod.init.returncode else b""), (0, b""))
            pod.set = variables(pod.read(D + "/distributed_env"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for pod in self.pods:
            pod.__exit__(None, None, None)

    def pod(self, role, index=0):
        return next(p for p in self.pods if (p.role["name"], p.index) == (role, index))


def variables(text):
    return dict(v.split("=", 1) for v in (text or b"").decode().split("\0") if v)


def loopback(number):
    """lo has 127.0.0.1 only."""
    return f"127.0.0.{number + 1}"
