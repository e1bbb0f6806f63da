"""The profile `restricted`: its pods pass the level of this name of Pod Security, and what it cannot do is
refused.  The checker of the levels is pod_security.py; each of its rules is tested first."""
import copy
import json

from archives import archive
from checking import ALICE, Place, says
from code_kept import put as put_code
from details import put, renamed, snapshot
from fakeapi import Scene, served
from harness import framework_name, job_v2, run
from pod_security import BASELINE, RESTRICTED, broken
from program import program
from tokens import write_file

FACTS = {"storages": [{"name": "data", "default": True}, {"name": "node", "share": True, "hostPath": "/data"}, {
    "name": "filer", "share": True, "nfs": {"server": "filer", "path": "/data"}}], "overlays": ["fuse", "hostNetwork", "infiniband"]}
GOOD = {"metadata": {"annotations": {}}, "spec": {
    "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    "volumes": [{"name": "v", "emptyDir": {}}],
    **{kind: [{"name": kind, "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}}]
       for kind in ("containers", "initContainers", "ephemeralContainers")}}}
NFS = {"name": "n", "nfs": {"server": "filer", "path": "/data"}}


def pod_with(keys, value):
    """The good pod with this value at these keys; None takes the key away."""
    pod = copy.deepcopy(GOOD)
    at = pod
    for key in keys[:-1]:
        at = at[key] if isinstance(key, int) else at.setdefault(key, {})
    if value is None:
        del at[keys[-1]]
    else:
        at[keys[-1]] = value
    return pod


def of_pod(*keys):
    return [("spec", "securityContext", *keys)]


def of_containers(*keys):
    return [("spec", kind, 0, *keys) for kind in ("containers", "initContainers", "ephemeralContainers")]


def of_contexts(*keys):
    return of_containers("securityContext", *keys)


# Rule, places, value: each breaks this rule, and no other one of its level.
BREAKS = [
    ("host_process", of_pod("windowsOptions", "hostProcess") + of_contexts("windowsOptions", "hostProcess"), True),
    ("host_namespaces", [("spec", key) for key in ("hostNetwork", "hostPID", "hostIPC")], True),
    ("privileged", of_contexts("privileged"), True),
    ("added_capabilities", of_contexts("capabilities", "add"), ["CHOWN", "SYS_ADMIN"]),
    ("host_paths", [("spec", "volumes")], [{"name": "v", "hostPath": {"path": "/"}}]),
    ("host_ports", of_containers("ports"), [{"containerPort": 80}, {"containerPort": 80, "hostPort": 80}]),
    ("host_probes", of_containers("livenessProbe", "httpGet", "host") + of_containers("readinessProbe", "tcpSocket", "host") +
     of_containers("startupProbe", "httpGet", "host") + of_containers("lifecycle", "postStart", "httpGet", "host") +
     of_containers("lifecycle", "preStop", "tcpSocket", "host"), "10.0.0.1"),
    ("apparmor", [("metadata", "annotations", "container.apparmor.security.beta.kubernetes.io/app")], "unconfined"),
    ("apparmor", of_pod("appArmorProfile") + of_contexts("appArmorProfile"), {"type": "Unconfined"}),
    ("selinux", of_pod("seLinuxOptions") + of_contexts("seLinuxOptions"), {"type": "spc_t"}),
    ("selinux", of_pod("seLinuxOptions"), {"user": "system_u"}),
    ("selinux", of_contexts("seLinuxOptions"), {"role": "system_r"}),
    ("proc_mount", of_contexts("procMount"), "Unmasked"),
    ("seccomp_baseline", of_pod("seccompProfile") + of_contexts("seccompProfile"), {"type": "Unconfined"}),
    ("sysctls", of_pod("sysctls"), [{"name": "net.ipv4.tcp_syncookies", "value": "1"}, {"name": "kernel.msgmax", "value": "1"}]),
    ("volume_types", [("spec", "volumes", 0)], NFS),
    ("volume_types", [("spec", "volumes", 0)], {"name": "v", "gitRepo": {"repository": "x"}, "emptyDir": None}),
    ("privilege_escalation", of_contexts("allowPrivilegeEscalation"), True),
    ("privilege_escalation", of_contexts("allowPrivilegeEscalation"), None),
    ("non_root", of_pod("runAsNonRoot"), None),
    ("non_root", of_pod("runAsNonRoot") + of_contexts("runAsNonRoot"), False),
    ("non_root_user", of_pod("runAsUser") + of_contexts("runAsUser"), 0),
    ("seccomp_restricted", of_pod("seccompProfile"), None),
    ("dropped_capabilities", of_contexts("capabilities", "drop"), ["NET_RAW", "MKNOD"]),
    ("dropped_capabilities", of_contexts("capabilities"), None),
    ("capabilities_restricted", of_contexts("capabilities", "add"), ["NET_BIND_SERVICE", "CHOWN"]),
]


def test_each_rule_of_pod_security_refuses_a_pod_that_breaks_it(check):
    check.equal("a good pod", broken(GOOD), {})
    baseline = {rule.__name__ for rule in BASELINE}
    check.equal("each rule has a pod", {name for name, *_ in BREAKS}, {rule.__name__ for rule in RESTRICTED})
    for name, places, value in BREAKS:
        for keys in places:
            pod = pod_with(keys, value)
            rules = BASELINE if name in baseline else [rule for rule in RESTRICTED if rule.__name__ not in baseline]
            check.equal(f"{name}: {'.'.join(map(str, keys))}: {value}", list(broken(pod, rules)), [name])
            check.ok(f"{name}: {keys[-1]}: not restricted", broken(pod))
    for what, keys, value in (
            ("capabilities", ("spec", "containers", 0, "securityContext", "capabilities"), {"drop": ["NET_RAW", "ALL"],
                                                                                           "add": ["NET_BIND_SERVICE"]}),
            ("user", ("spec", "securityContext", "runAsUser"), 1000), ("a claim", ("spec", "volumes", 0), {
                "name": "v", "persistentVolumeClaim": {"claimName": "c"}}),
            ("seccomp", ("spec", "securityContext", "seccompProfile"), {"type": "Localhost", "localhostProfile": "p"})):
        check.equal(f"allowed: {what}", broken(pod_with(keys, value)), {})


# ---- pods of the program ----------------------------------------------------------------------
def jobs(sha):
    """Documents of jobs that between them use every part of a pod."""
    def role(**more):
        return {"instances": 2, "dockerImage": "image", "resourcePerInstance": {"cpu": 1, "memoryMB": 512, "gpu": 1},
                "commands": ["echo <% $secrets.key %>"], **more}
    image = {"name": "image", "type": "dockerimage", "uri": "ubuntu:22.04", "auth": {"username": "u", "password": "p"}}
    return {
        "small": job_v2("small"),
        "whole": job_v2("whole", secrets={"key": "value"}, prerequisites=[image], taskRoles={
            "ps": role(), "worker": role(extraContainerOptions={"shmMB": 128})}, extras={
                "code": {"sha256": sha}, "storages": [{"name": "data"}], "env": {"A": "b"},
                "com.microsoft.pai.runtimeplugin": [{"plugin": "tensorboard", "parameters": {"logdir": {"a": "/tmp"}}},
                                                    {"plugin": "ssh", "parameters": {"jobssh": False}}]}),
        "torch": job_v2("torch", extras={"distributed": {"framework": "torch"}}),
        "old": json.dumps({"jobName": "old", "image": "ubuntu:22.04", "taskRoles": [
            {"name": "main", "taskNumber": 1, "command": "true", "gpuNumber": 1}]}),
    }


def pod_template(volumes=(), context=None, **more):
    return {"spec": {"containers": [{"name": "main", "image": "i", "command": ["true"], "volumeMounts": [
        {"name": v["name"], "mountPath": f"/{v['name']}"} for v in volumes]}], "volumes": list(volumes),
        "initContainers": [{"name": "first", "image": "i", "command": ["true"]}],
        "securityContext": context or {}, **more}}


def launcher(name, template):
    return json.dumps({"apiVersion": "launcher.microsoft.com/v1", "kind": "Framework", "metadata": {"name": name}, "spec": {
        "executionType": "Start", "taskRoles": [{"name": "worker", "taskNumber": 1, "task": {"pod": template}}]}})


def pods_of(check, profile, more=(), scheme="http"):
    """{job: pods} as a server of this profile sends them.  With https, it makes a certificate, which takes long."""
    sha, body = archive({"train.py": b"print()\n"})
    options = ("--profile", profile, "--dialects", "launcher", "--output-listen", "127.0.0.1:0", "--output-url",
               f"{scheme}://127.0.0.1:9188", *more)
    with Scene() as scene:
        facts = write_file(scene.directory, "facts.json", json.dumps(FACTS))
        server = scene.serve(*options, "--facts", facts)
        check.ok(f"{profile}: code", server.ready() and put_code(server, sha, body).status == 201)
        every = {**jobs(sha), "raw": launcher("raw", pod_template([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]))}
        for name, text in every.items():
            reply = server.submit(text, {"Content-Type": "application/json" if name == "old" else "text/yaml"}, **(
                {"path": "/api/v1/user/alice/jobs"} if name == "old" else {}))
            check.equal(f"{profile}: {name} is taken", reply.status, 202 if reply.status == 202 else reply.body)
        return {name: [role["task"]["pod"] for role in scene.api.objects["frameworks", framework_name(name)]["spec"]["taskRoles"]]
                for name in every if ("frameworks", framework_name(name)) in scene.api.objects}


def test_pods_of_the_profile_restricted_pass_its_level(check):
    """Code, secrets, several roles, logins, storages, output, init containers of users; pods of `plain`
    pass `baseline`."""
    settings = {"image": (), "configmap": ("--runtime", "configmap", "--runtime-binary", program()),
                "moved": ("--max-env-inline", "64", "--runtime-pull-secret", "pull", "--priority-class")}
    for profile, rules in (("restricted", RESTRICTED), ("plain", BASELINE)):
        for what, more in settings.items():
            found = pods_of(check, profile, more, "https" if what == "image" else "http")
            check.equal(f"{profile}, {what}: all jobs", len(found), 5)
            for name, pods in found.items():
                check.equal(f"{profile}, {what}: {name}", [broken(pod, rules) for pod in pods], [{}] * (2 if name == "whole" else 1))
            if profile == "restricted" and found:
                used = {key for pod in found["whole"] for v in pod["spec"]["volumes"] for key in v}
                check.ok(f"{what}: whole has all volumes", what != "image" or used >= {
                    "emptyDir", "configMap", "projected", "secret", "persistentVolumeClaim"}, used)
                check.equal(f"{what}: user and groups", {tuple(pod["spec"]["securityContext"].get(key) for key in (
                    "runAsUser", "runAsGroup", "fsGroup")) for pods in found.values() for pod in pods}, {(1000, 1000, 1000)})


def test_profile_restricted_has_the_user_of_the_site(check):
    """The file restricted.yaml of --templates has another user."""
    with Scene(api=False) as scene:
        text = run("page", "templates").stdout.decode().partition("/restricted.yaml\n")[2].partition("\n--- # ")[0]
        write_file(scene.directory, "restricted.yaml", text.replace("1000", "4711"))
        done = run("translate", "--user", "alice", "--profile", "restricted", "--templates", scene.directory,
                   "examples/hello-world.yaml")
        pod = json.loads(done.stdout)["items"][-1]["spec"]["taskRoles"][0]["task"]["pod"] if done.stdout else {"spec": {}}
        check.equal("its user", pod["spec"].get("securityContext", {}).get("runAsUser"), 4711)
        check.equal("the pod", broken(pod), {})


# What is refused: the job, the place, words of the message.
def refused_jobs():
    def asks(name, **options):
        job = json.loads(job_v2(name))
        job["taskRoles"]["worker"]["extraContainerOptions"] = options
        return json.dumps(job)

    def plugin(name, **parameters):
        return job_v2(name, extras={"com.microsoft.pai.runtimeplugin": [{"plugin": "ssh", "parameters": parameters}]})
    host = {"name": "h", "hostPath": {"path": "/data"}}
    return {
        "fuse": (asks("fuse", fuse=True), "/taskRoles/worker/extraContainerOptions/fuse", "storages"),
        "network": (asks("network", hostNetwork=True), "/taskRoles/worker/extraContainerOptions/hostNetwork", "PAI_HOST_IP"),
        "infiniband": (asks("infiniband", infiniband=True), "/taskRoles/worker/extraContainerOptions/infiniband", "TCP"),
        "jobssh": (plugin("jobssh", jobssh=True), "/extras/com.microsoft.pai.runtimeplugin/0", "sshd"),
        "userssh": (plugin("userssh", userssh={"type": "custom", "value": "ssh-ed25519 AAAA a"}),
                    "/extras/com.microsoft.pai.runtimeplugin/0", "rest-lit logs"),
        "mpi": (job_v2("mpi", extras={"distributed": {"framework": "mpi"}}), "/extras/distributed/framework", "torch"),
        "hostpath": (launcher("hostpath", pod_template([host])), "/spec/taskRoles/0/task/pod/spec/volumes/0/hostPath", "persistentVolumeClaim"),
        "nfs": (launcher("nfs", pod_template([NFS])), "/spec/taskRoles/0/task/pod/spec/volumes/0/nfs", "persistentVolumeClaim"),
        "root": (launcher("root", pod_template(context={"runAsUser": 0})), "/spec/taskRoles/0/task/pod/spec/securityContext/runAsUser",
                 "image"),
    }


def test_profile_restricted_refuses_what_it_cannot_do(check):
    """Each with its place and the way out; the profile plain takes all of it."""
    with Scene() as scene:
        facts = write_file(scene.directory, "facts.json", json.dumps(FACTS))
        servers = {p: scene.serve("--profile", p, "--dialects", "launcher", "--facts", facts) for p in ("plain", "restricted")}
        for name, (text, place, word) in refused_jobs().items():
            reply = servers["restricted"].submit(text)
            errors = (reply.json or {}).get("errors") or [{}]
            check.equal(f"{name}: refused", (reply.status, [e.get("pointer") for e in errors]), (400 if name == "root" else 403, [place]))
            check.ok(f"{name}: why, and the way out", all(w in reply.message for w in ("profile restricted", word, "administrator")),
                     reply.message)
            check.equal(f"{name}: taken by plain", servers["plain"].submit(text).status, 202)


# ---- check ------------------------------------------------------------------------------------
SPACE = "/api/v1/namespaces/default"


def test_check_compares_the_profile_with_the_level_of_the_namespace(check):
    answers = {
        None: ["plain", "openpai", "restricted"], "privileged": ["plain", "openpai", "restricted"],
        "baseline": ["plain", "restricted"], "restricted": ["restricted"], "odd": ["restricted"]}
    with Place() as p:
        for level, admitted in answers.items():
            labels = {"pod-security.kubernetes.io/enforce": level} if level else {}
            p.api.answers[SPACE] = 200, {"metadata": {"name": "default", "labels": labels}}
            for profile in ("plain", "restricted", "openpai"):
                (state, _, found, mend), = p.check(*ALICE, "--profile", profile).of("pod security")
                check.equal(f"{level}: {profile}", state, "ok" if profile in admitted else "failed")
                check.ok(f"{level}: {profile}: which are admitted", f"admits the profiles {', '.join(admitted)}" in found and
                         ("restricted" if level == "odd" else level or "no level") in found, found)
                check.ok(f"{level}: {profile}: the remedy", state == "ok" or f"--profile {admitted[0]}" in mend, mend)
        p.api.answers[SPACE] = 403, {"kind": "Status", "reason": "Forbidden"}
        says(check, "no right", p.check(), "skipped", "pod security", "unknown", "403", mend="k8s/deploy/rbac/rbac.yaml")


# ---- refusals by admission --------------------------------------------------------------------
VIOLATES = 'violates PodSecurity "restricted:latest": unrestricted capabilities (container "app" must set securityContext.capabilities.drop=["ALL"])'
DENIED = 'admission webhook "pods.policy.example" denied the request: images must come from registry.example'
QUOTA = "exceeded quota: compute, requested: pods=1, used: pods=2, limited: pods=2"
SENTENCE = "The cluster's policy forbids the pod; ask the administrator of the cluster: "


def refused_framework(name, code, message):
    """A job whose pod was refused with this message."""
    value = renamed(snapshot("15"), name)
    said = "Failed to create Pod: " + json.dumps({"ErrStatus": {"metadata": {}, "status": "Failure", "message": message, "code": 403}})
    attempt = value["status"]["attemptStatus"]
    tasks = [t["attemptStatus"] for r in attempt["taskRoleStatuses"] for t in r["taskStatuses"]]
    for status in (attempt, *tasks):
        if status.get("completionStatus"):
            status["completionStatus"].update(code=code, diagnostics=said)
    return value


def test_refusals_by_admission_are_a_sentence_in_each_profile(check):
    """In details, in `show`, and not where the cause is another one."""
    refusals = {"violates": (-310, f'pods "x" is forbidden: {VIOLATES}', VIOLATES), "denied": (-310, DENIED, DENIED),
                "policy": (-200, f'pods "x" is forbidden: ValidatingAdmissionPolicy \'p\' with binding \'b\' denied request: no',
                           "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"),
                "quota": (-310, f'pods "x" is forbidden: {QUOTA}', QUOTA)}
    others = {"account": 'pods is forbidden: User "system:serviceaccount:a:b" cannot create resource "pods"',
              "strange": "unknown", "empty": ""}
    for profile in ("plain", "openpai", "restricted"):
        with served("--profile", profile) as (api, server):
            for name, (code, message, _) in refusals.items():
                put(api, refused_framework(name, code, message))
            for name, message in others.items():
                put(api, refused_framework(name, -310, message))
            for name, (code, _, named) in refusals.items():
                check.ok(f"{profile}: {name}: known", server.becomes(f"/api/v2/jobs/alice~{name}", 200))
                detail = server.request("GET", f"/api/v2/jobs/alice~{name}").json
                status = detail["jobStatus"]
                check.equal(f"{profile}: {name}: the job", (status["appExitSpec"]["code"], status["appExitSpec"]["reason"]), (
                    code, SENTENCE + named))
                check.equal(f"{profile}: {name}: the task", {t["containerExitSpec"]["reason"] for t in detail["taskRoles"]["ps"][
                    "taskStatuses"] if t["containerExitCode"] == code}, {SENTENCE + named})
                check.equal(f"{profile}: {name}: diagnostics", status["appExitDiagnostics"], refusals[name][1])
                shown = run("show", "--server", f"http://127.0.0.1:{server.port}", name).stdout.decode()
                check.ok(f"{profile}: {name}: show", SENTENCE.split(";")[0] in shown and "ErrStatus" not in shown and
                         "not clear why" not in shown, shown)
            for name in others:
                check.ok(f"{profile}: {name}: known", server.becomes(f"/api/v2/jobs/alice~{name}", 200))
                status = server.request("GET", f"/api/v2/jobs/alice~{name}").json["jobStatus"]
                check.equal(f"{profile}: {name}", status["appExitSpec"]["reason"],
                            "The pod could not be created, and it is not clear why")


def test_events_of_the_controller_are_events_of_the_job(check):
    """They are about the Framework, not about a pod; the last one is the reason why the job waits."""
    with served() as (api, server):
        value = put(api, renamed(snapshot("04"), "waits"))
        name = value["metadata"]["name"]
        message = SENTENCE + QUOTA
        api.put("events", {"metadata": {"name": f"{name}.quotaexceeded"}, "type": "Warning", "reason": "QuotaExceeded", "count": 2,
                           "message": message, "firstTimestamp": "2099-01-01T00:00:00Z", "lastTimestamp": "2099-01-01T00:00:00Z",
                           "source": {"component": "rest-lit-controller"}, "involvedObject": {
                               "apiVersion": "frameworkcontroller.microsoft.com/v1", "kind": "Framework", "name": name,
                               "namespace": "default", "uid": value["metadata"]["uid"]}})
        api.settle()
        check.ok("known, and its events", server.becomes("/api/v2/jobs/alice~waits/events", 200))
        found = server.request("GET", "/api/v2/jobs/alice~waits/events").json
        check.equal("one", [(e["reason"], e["message"], e["podUid"], e["taskroleName"], e["taskIndex"]) for e in found["data"]],
                    [("QuotaExceeded", message, "", "", -1)])
        waits = server.request("GET", "/api/v2/jobs/alice~waits").json["jobStatus"].get("waitingReason", {})
        check.equal("why it waits", (waits.get("reason"), waits.get("message")), ("QuotaExceeded", message))
        row, = server.request("GET", "/api/v2/jobs").json
        check.equal("in the list", row.get("waitingReason", {}).get("reason"), "QuotaExceeded")
        at = ("--server", f"http://127.0.0.1:{server.port}")
        check.ok("events", QUOTA in run("events", *at, "waits").stdout.decode())
        check.ok("show", QUOTA in run("show", *at, "waits").stdout.decode())
