"""Delivery of pai-runtime into pods with a real API server: the checks at start, and a ConfigMap
with the real program."""
import base64
import hashlib
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import tempfile
import uuid

from archives import archive
from cluster import FRAMEWORKS, PATHS, PATIENT
from program import configmap_name, configmaps_of, exist, lines, missing, program
from harness import ROOT, SLOW, Server, framework_name, job_v2, wait_until
from jobs import FC_WORDS

RUNTIME = os.path.abspath(os.environ.get("PAI_RUNTIME", os.path.join(ROOT, "build", "pai-runtime")))
ROLE = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles/rest-lit"
ACCOUNT = "/api/v1/namespaces/default/serviceaccounts/runtime-account"
THERE = "the ConfigMap with pai-runtime is ready"
NOBODY = 65534
CODE = {"train.py": b"print(1)\n", "weights": os.urandom(2_000_000)}  # three parts
MANIFESTS = ["jobs/runtime-account.yaml", "jobs/exit-spec-configmap.yaml", "options/job-exit-spec-configmap.yaml"]


def real_program():
    """pai-runtime, if it is static; sanitizer builds are not."""
    if not os.access(RUNTIME, os.X_OK):
        return None
    said = subprocess.run(["readelf", "-lW", RUNTIME], capture_output=True, check=True).stdout
    return None if b"INTERP" in said else RUNTIME


def by_configmap(cluster, *arguments, **more):
    return cluster.serve("--runtime", "configmap", "--runtime-binary", real_program() or program(),
                         *arguments, **more)


def remedy(check, cluster):
    """The exact command from the log."""
    space = "elsewhere"
    cluster.api("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}})
    path = f"{os.path.dirname(cluster.kubectl_program)}:{os.environ['PATH']}"
    with Server("--kubeconfig", cluster.kubeconfig, *PATIENT, "--namespace", space,
                "--service-account", "robot") as server:
        check.ok("remedy: both are missing", len(missing(server, 2)) == 2, server.log())
        for line in missing(server):
            done = subprocess.run(["sh", "-c", line["mend"]], cwd=ROOT, capture_output=True, check=False,
                                  env={**os.environ, "PATH": path, "KUBECONFIG": cluster.kubeconfig})
            check.ok(f"remedy: {line['mend']}", done.returncode == 0, done.stderr.decode())
        server.process.send_signal(signal.SIGHUP)
        check.ok("remedy: then all is there", exist(server), server.log())


# ---- what is looked for ---------------------------------------------------------------------------
def test_missing_objects_are_found_and_their_remedies_work(check, cluster):
    """Objects are missing, then created by the project's manifests; and checks without
    permission."""
    with cluster.serve() as server:
        check.ok("nothing there: both are missing", len(missing(server, 2)) == 2, server.log())
        commands = sorted({line["mend"] for line in missing(server)})
    check.equal("nothing there: remedies", commands, [
        f"sed -e 's/namespace: pai-jobs/namespace: default/' k8s/deploy/{m} | kubectl apply -f -" for m in sorted(MANIFESTS[:2])])
    for _ in ("new", "again"):
        cluster.apply(*MANIFESTS)
    with cluster.serve() as server:
        check.ok("applied: all is there", exist(server), server.log())
    remedy(check, cluster)
    whole = cluster.api("GET", ROLE)[1]["rules"]
    without = [rule for rule in whole if "resourceNames" not in rule and rule["resources"] != ["namespaces"]]
    check.equal("three rules are for looking: at the account, the Lease of the controller, the namespace",
                len(whole) - len(without), 3)
    # Another one, for what is left of earlier attempts, does as well.
    without = [{**rule, "verbs": ["create"]} if "configmaps" in rule["resources"] else rule for rule in without]
    cluster.set_rules(ROLE, without)
    with cluster.serve() as server:
        check.ok("no right to look: is said", len(lines(server, "get ", 2, "found")) == 2, server.log())
        check.equal("no right to look: is no fault", {m["level"] for m in lines(server, "get ", key="found")}, {"info"})
        check.ok("no right to look: jobs are taken", server.submit(job_v2("look")).status == 202)
    cluster.set_rules(ROLE, whole)
    cluster.delete("Framework", framework_name("look"))


def test_manifests_contain_the_exit_specifications(check, cluster):
    for kind, namespace, name, file in (
            ("runtime", "default", "runtime-exit-spec-configuration", "runtime-exit-spec.yaml"),
            ("job", "rest-lit", "k8s-job-exit-spec-configuration", "k8s-job-exit-spec.yaml")):
        there = cluster.api("GET", f"/api/v1/namespaces/{namespace}/configmaps/{name}")[1]
        with open(os.path.join(ROOT, "runtime-assets", file), encoding="utf-8") as f:
            check.equal(f"exit specification ({kind}): byte by byte", there.get("data", {}).get(file), f.read())


# ---- the program -----------------------------------------------------------------------------------
def test_configmap_of_the_runtime_is_created(check, cluster):
    path = real_program() or program()
    name = configmap_name(path)
    with open(path, "rb") as f:
        content = f.read()
    with by_configmap(cluster) as server:
        check.ok("ConfigMap: is made", lines(server, THERE, 1), server.log())
        check.equal("ConfigMap: how", [m["how"] for m in lines(server, THERE)], ["created"])
        check.ok("ConfigMap: /readyz", server.ready())
    there = cluster.get("ConfigMap", name)
    if not check.ok(f"ConfigMap: {name} is there", there):
        return
    got = base64.b64decode(there["binaryData"]["pai-runtime"])
    check.ok("ConfigMap: byte by byte", got == content, len(got))
    check.equal("ConfigMap: says its hash", there["metadata"]["annotations"]["rest-lit/sha256"],
                hashlib.sha256(content).hexdigest())
    check.ok("ConfigMap: its name too", there["metadata"]["annotations"]["rest-lit/sha256"].startswith(name[-16:]))
    changed = cluster.api("PATCH", f"{PATHS['ConfigMap']}/{name}", {"binaryData": {"pai-runtime": "AAAA"}},
                          "application/merge-patch+json")
    check.equal("ConfigMap: immutable", changed[0], 422)
    with by_configmap(cluster) as server:
        check.equal("second start: finds it, and compares", [m["how"] for m in lines(server, THERE, 1)],
                    ["was there, and is the same"])
    cluster.delete("ConfigMap", name)


def prepare(cluster):
    """All objects of pods exist, except the ConfigMap."""
    cluster.apply(*MANIFESTS)
    cluster.delete("ConfigMap", configmap_name(real_program() or program()))


def waits_for_the_api_server(check, server):
    """A server that was started before the API server."""
    check.equal("later: /healthz", server.request("GET", "/healthz").status, 200)
    check.equal("later: /readyz", server.request("GET", "/readyz").status, 503)
    check.equal("later: no job is taken", server.submit(job_v2("later")).status, 503)


def creates_its_configmap(check, server):
    check.ok("later: makes the ConfigMap", lines(server, THERE, 1), server.log())
    check.ok("later: looks for the rest", exist(server), server.log())
    check.ok("later: jobs are taken", wait_until(lambda: server.submit(job_v2("later")).status == 202))


# ---- the pod ------------------------------------------------------------------------------------------
def pod_of(cluster, job):
    framework = cluster.get("Framework", framework_name(job))
    text = json.dumps(framework["spec"]["taskRoles"][0]["task"]["pod"])
    words = {**FC_WORDS, "FC_FRAMEWORK_NAME": framework["metadata"]["name"]}
    for word, value in words.items():
        text = text.replace("{{" + word + "}}", value)
    return framework, json.loads(text)


def run_there(cluster, framework, pod, where, token, marker, user, uid):
    """Runs the init container as a process: its command and environment, and volumes at the paths of
    the kubelet, each user of which may write into those of emptyDir."""
    init = pod["spec"]["initContainers"][0]
    holder = cluster.get("ConfigMap", configmaps_of(pod["spec"])[0])
    for path in ("usr/local/pai/logs", "usr/local/pai-config", "usr/local/pai-bin", "tmp", "dev",
                 "var/run/secrets/kubernetes.io/serviceaccount"):
        os.makedirs(os.path.join(where, path))
    program_file = os.path.join(where, init["command"][0].lstrip("/"))
    with open(program_file, "wb") as f:
        f.write(base64.b64decode(holder["binaryData"]["pai-runtime"]))
    os.chmod(program_file, 0o555)
    volumes = {v["name"]: v for v in pod["spec"]["volumes"]}
    for mount in init["volumeMounts"]:
        volume, at = volumes[mount["name"]], os.path.join(where, mount["mountPath"].lstrip("/"))
        if not mount["name"].startswith("code"):
            continue
        os.makedirs(at)
        os.chmod(at, 0o777)
        if "configMap" in volume:
            with open(os.path.join(at, "part"), "wb") as f:
                f.write(base64.b64decode(cluster.get("ConfigMap", volume["configMap"]["name"])["binaryData"]["part"]))
    # All users may write the directories of pods, which belong to root.
    os.chmod(where, 0o755)
    for path in ("usr/local/pai", "usr/local/pai/logs", "tmp"):
        os.chmod(os.path.join(where, path), 0o777)
    account = os.path.join(where, "var/run/secrets/kubernetes.io/serviceaccount")
    with open(cluster.ca, encoding="utf-8") as f:
        authority = f.read()
    for name, text in (("token", token), ("namespace", "default"), ("ca.crt", authority)):
        with open(os.path.join(account, name), "w", encoding="utf-8") as f:
            f.write(text)
    host, port = re.match(r"https://([^:/]+):(\d+)", cluster.url).groups()
    # The environment of the image, overridden by that of the pod, of the kubelet and of
    # FrameworkController.
    environment = {"KUBECONFIG": "/evil", "HTTPS_PROXY": "http://127.0.0.1:1", "HOME": "/evil", "PATH": "/evil",
                   "INIT_CONFIG": "steps: []", "RUNTIME_CONFIG": f"commands: [{marker}]",
                   "BARRIER_CHECK_TIMEOUT_SEC": "1", "USER_CMD": marker, "KUBERNETES_SERVICE_HOST": "192.0.2.1"}
    environment.update({v["name"]: v.get("value", "0") for v in init["env"]})
    environment.update(KUBERNETES_SERVICE_HOST=host, KUBERNETES_SERVICE_PORT=port, FC_FRAMEWORK_NAMESPACE="default",
                       FC_FRAMEWORK_NAME=framework["metadata"]["name"], FC_TASKROLE_NAME="worker", FC_TASK_INDEX="0",
                       FC_POD_UID=uid)
    return subprocess.run([program_file, init["command"][1], "--root", where], env=environment, timeout=120 * SLOW,
                          stdin=subprocess.DEVNULL, capture_output=True, check=False, user=user)


def test_init_container_runs_from_the_configmap(check, cluster):
    """The program from the cluster runs as the init container of a submitted job, with the
    permissions of runtime-account."""
    if not real_program():
        print("     init from the ConfigMap: skipped, this pai-runtime is linked dynamically")
        return
    sha, packed = archive(CODE)
    with by_configmap(cluster) as server:
        check.ok("init: ready", server.ready(), server.log())
        check.equal("init: code is kept", server.request("PUT", f"/api/v2/code/{sha}", packed, {
            "Content-Type": "application/gzip"}).status, 201)
        check.equal("init: job is taken", server.submit(job_v2("init", extras={"code": {"sha256": sha}})).status, 202)
    framework, pod = pod_of(cluster, "init")
    check.equal("init: a pod with code is accepted", cluster.dry_run("PodTemplate", {
        "apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "code"}, "template": pod}), None)
    check.equal("init: the label of its code", len(framework["metadata"]["labels"]["rest-lit/code"]), 40)
    cluster.apply(MANIFESTS[0])
    status, answer = cluster.api("POST", ACCOUNT + "/token", {
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}})
    if not check.equal("init: token of runtime-account", status, 201):
        return
    users = [None] if os.getuid() else [0, NOBODY]
    for user in users:
        # The ports follow from the uid. One may be in use on this machine (253); then a new pod
        # helps.
        for _ in range(5):
            if init_as(check, cluster, framework, pod, answer["status"]["token"], user) != 253:
                break
    cluster.delete("Framework", framework["metadata"]["name"])


def init_as(check, cluster, framework, pod, token, user):
    """Runs the init container as root, and with the environment that an image may have. Returns the
    exit status."""
    uid = str(uuid.uuid4())
    task = {"index": 0, "attemptStatus": {"podIP": "127.0.0.1", "podHostIP": "127.0.0.1", "podUID": uid}}
    cluster.api("PATCH", f"{FRAMEWORKS}/{framework['metadata']['name']}", {"status": {"attemptStatus": {
        "taskRoleStatuses": [{"name": "worker", "taskStatuses": [task]}]}}}, "application/merge-patch+json")
    marker = "marker-of-the-image"
    where = tempfile.mkdtemp(prefix="pai-runtime-")
    try:
        done = run_there(cluster, framework, pod, where, token, marker, user, uid)
        said = (done.stdout + done.stderr).decode("utf-8", "replace")
        if done.returncode == 253 or not check.equal(f"init as {user}: exit status", done.returncode, 0):
            print(said[-1500:])
            return done.returncode
        work = os.path.join(where, "usr/local/pai")
        with open(os.path.join(work, "runtime.d/user.sh"), encoding="utf-8") as f:
            script = f.read()
        check.ok(f"init as {user}: the command is the job's", script.endswith("true") and marker not in script, script)
        check.ok(f"init as {user}: the environment is there",
                 os.path.exists(os.path.join(work, "runtime.d/runtime_env")))
        with open(RUNTIME, "rb") as one, open(os.path.join(work, "runtime"), "rb") as other:
            check.ok(f"init as {user}: the app container gets the same program", one.read() == other.read())
        for path, text in CODE.items():
            at = os.path.join(where, "workspace", path)
            with open(at, "rb") as f:
                check.ok(f"init as {user}: {path} is there", f.read() == text)
            check.equal(f"init as {user}: all may write it", stat.S_IMODE(os.stat(at).st_mode), 0o666)
        check.ok(f"init as {user}: no token in what it said", token not in said)
        return 0
    finally:
        shutil.rmtree(where)


TESTS = [test_missing_objects_are_found_and_their_remedies_work, test_manifests_contain_the_exit_specifications,
         test_configmap_of_the_runtime_is_created,
         test_init_container_runs_from_the_configmap]
