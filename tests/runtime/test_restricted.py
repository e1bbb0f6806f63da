"""Pods of the profile restricted: init and run as the user of the template, without capabilities and
new privileges, in volumes as the kubelet makes them for fsGroup."""
import gzip
import http.server
import json
import os
import shutil
import subprocess
import sys
import threading
import uuid

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "http")]

from archives import archive
from checks import PATIENCE, RUNTIME, check, equal, finish, for_everybody, tests
from pods import Pod, framework_status

PORT_CONFLICT = 253
TOKEN = "/var/run/secrets/rest-lit/token"
REST_LIT = os.path.join(os.path.dirname(RUNTIME), "rest-lit")
COMMAND = r"""echo "user $(id -u) group $(id -g) in $(id -G)"
grep -E '^(CapEff|CapBnd|NoNewPrivs)' /proc/self/status | tr -d '\t'
echo "home $HOME of $USER"
mine=$(mktemp "$HOME/XXXXXX") && rm "$mine" && echo home is writable
cat train.py && touch beside && echo code is writable
echo "secret <% $secrets.key %>"
echo "other ${PAI_HOST_IP_ps_0-}"
echo work >"$PAI_WORK_DIR/result"
"""
FILES = {"lib": None, "lib/a.py": b"", "train.py": b"print()\n"}


class Receiver(http.server.BaseHTTPRequestHandler):
    """Takes the output of the task."""
    taken = []

    def do_PUT(self):  # pylint: disable=invalid-name
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.taken.append((self.headers["Authorization"], gzip.decompress(body)))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


def framework_of(sha):
    """The Framework of a job with two roles, code and secrets, as rest-lit makes it."""
    role = {"instances": 1, "dockerImage": "image", "resourcePerInstance": {"cpu": 1, "memoryMB": 512, "gpu": 0}}
    job = {"protocolVersion": 2, "name": "job", "type": "job", "secrets": {"key": "S3"},
           "prerequisites": [{"name": "image", "type": "dockerimage", "uri": "i"}],
           "taskRoles": {"ps": {**role, "commands": ["true"]}, "worker": {**role, "commands": COMMAND.splitlines()}},
           "extras": {"code": {"sha256": sha, "path": "/src/code"}}}
    done = subprocess.run([REST_LIT, "translate", "--user", "alice", "--profile", "restricted", "-"], input=json.dumps(job).encode(),
                          capture_output=True, check=False, timeout=PATIENCE)
    check("translated", done.returncode == 0, done.stderr)
    framework = json.loads(done.stdout)["items"][-1]
    framework["metadata"].setdefault("namespace", "default")
    return framework


def lay_out(pod, context, packed, url):
    """The volumes; a file of a Secret or token belongs to root and is readable for the group."""
    group = context["fsGroup"]
    volumes = {v["name"]: v for v in pod.spec["volumes"]}
    for container in pod.spec["initContainers"] + pod.spec["containers"]:
        for mount in container["volumeMounts"]:
            if "emptyDir" in volumes[mount["name"]]:
                os.makedirs(pod.at(mount["mountPath"]), exist_ok=True)
                os.chown(pod.at(mount["mountPath"]), 0, group)
                os.chmod(pod.at(mount["mountPath"]), 0o2777)
    pod.write("/usr/local/pai/secrets/secrets.yaml", "key: S3\n", 0o640)
    pod.write("/usr/local/pai-code/0/part", packed, 0o640)
    pod.write("/usr/local/pai-config/runtime-exit-spec.yaml", "[]\n", 0o640)
    pod.write(TOKEN, "of.this.pod", 0o640)
    pod.write("/tmp/pai-termination-log", "", 0o666)
    for path in ("/usr/local/pai/secrets/secrets.yaml", "/usr/local/pai-code/0/part", "/usr/local/pai-config/runtime-exit-spec.yaml",
                 TOKEN):
        os.chown(pod.at(path), 0, group)
    os.chmod(pod.path, 0o755)
    os.chmod(pod.at("/tmp"), 0o1777)
    pod.base.update(PAI_OUTPUT_URL=url, HOME="/")


def start(pod, context, kind, name, *command, cwd="/", **more):
    user, group = context["runAsUser"], context["runAsGroup"]
    return subprocess.run(
        ["setpriv", f"--reuid={user}", f"--regid={group}", f"--groups={context['fsGroup']}", "--no-new-privs", "--bounding-set=-all",
         "--inh-caps=-all", *command], env=pod.environment(kind, name, **more), cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True,
        timeout=PATIENCE, check=False)


def test_restricted_pod_does_its_task_without_root():
    sha, packed = archive(FILES)
    framework = framework_of(sha)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as receiver:
        threading.Thread(target=receiver.serve_forever, daemon=True).start()
        pods = [Pod(framework, role, 0, f"127.0.0.{i + 2}", "127.0.0.1") for i, role in enumerate(framework["spec"]["taskRoles"])]
        try:
            for pod in pods[1:]:
                context = pod.spec["securityContext"]
                lay_out(pod, context, packed, f"http://127.0.0.1:{receiver.server_address[1]}")
                for _ in range(20):  # the ports follow from the uid, and a program on this machine may have one
                    pod.uid = pod.base["FC_POD_UID"] = str(uuid.uuid4())
                    framework["status"] = framework_status(framework, pods)
                    pod.write("/framework.json", json.dumps(framework))
                    done = start(pod, context, "initContainers", "init", for_everybody(RUNTIME), "init", "--root", pod.path,
                                 "--framework", pod.at("/framework.json"), PAI_CODE_BYTES="1000", PAI_CODE_PARTS="1")
                    if done.returncode != PORT_CONFLICT:
                        break
                equal("init", done.returncode if done.returncode == 0 else done.stderr, 0)
                done = start(pod, context, "containers", "app", pod.at("/usr/local/pai/runtime"), "run", "--root", pod.path,
                             cwd=pod.at("/src/code"))
                equal("run", done.returncode if done.returncode == 0 else (done.stdout, done.stderr), 0)
                equal("what the command sees", done.stdout.decode().splitlines(), [
                    "user 1000 group 1000 in 1000", "CapEff:0000000000000000", "CapBnd:0000000000000000", "NoNewPrivs:1",
                    "home /tmp of alice", "home is writable", "print()", "code is writable", "secret S3", "other 127.0.0.2"])
                equal("its file beside the code", pod.read("/src/code/result"), b"work\n")
                logs = os.listdir(pod.at(pod.logs("user-stdout")))
                check("its log", any(b"secret S3" in pod.read(pod.logs(f"user-stdout/{name}")) for name in logs), logs)
                check("its output is uploaded", [said for said, body in Receiver.taken if b"secret S3" in body] == ["Bearer of.this.pod"],
                      (Receiver.taken, done.stderr))
        finally:
            receiver.shutdown()
            for pod in pods:
                pod.remove()


if os.getuid() or not shutil.which("setpriv") or not os.path.exists(REST_LIT):
    print("skipped: pods of the profile restricted: needs root, setpriv and rest-lit")
else:
    tests(test_restricted_pod_does_its_task_without_root)
finish()
