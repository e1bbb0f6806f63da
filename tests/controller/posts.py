"""POST of pods and ConfigMaps: the bodies, member by member; those that come late; those of a killed leader."""
import json
import re
import threading

from cluster import FRAMEWORKS
from ends import STOPPED, end_is
from faultproxy import Proxy
from harness import SLOW, wait_until
from scene import CONFIGMAPS, PODS, Controller, framework, role, tasks

# Members of pods that are younger than Kubernetes 1.16, whose types FrameworkController 1.0.1 has.
# kube-apiserver 1.20.2, which serves the pods, ignores those that it does not know.
YOUNG = """
{"metadata": {"name": "ignored", "namespace": "ignored", "generateName": null,
  "labels": {"mine": "{{FC_TASKROLE_NAME}}", "FC_TASK_INDEX": "77"},
  "annotations": {"a": "{{FC_POD_NAME}}/{{FC_FRAMEWORK_NAME}}/{{FC_UNKNOWN}}", "stand/run-ms": "50"},
  "finalizers": null, "future": {"b": 1, "a": [null, {}, []]}},
 "spec": {
  "restartPolicy": "Never", "hostUsers": false, "os": {"name": "linux"}, "setHostnameAsFQDN": false,
  "schedulingGroup": {"podGroupName": "gang-{{FC_FRAMEWORK_NAME}}"}, "schedulingGates": [],
  "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}],
  "resources": {"limits": {"cpu": 4, "memory": "8192Mi"}},
  "hostnameOverride": null, "nodeSelector": null, "terminationGracePeriodSeconds": 9007199254740993,
  "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}, "appArmorProfile": {"type": "Unconfined"},
    "fsGroupChangePolicy": "OnRootMismatch", "supplementalGroupsPolicy": "Strict", "seLinuxChangePolicy": "MountOption"},
  "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway",
    "labelSelector": {"matchLabels": {"mine": "w"}}, "minDomains": 2, "matchLabelKeys": ["x"],
    "nodeAffinityPolicy": "Honor", "nodeTaintsPolicy": "Ignore"}],
  "affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": {
    "topologyKey": "zone", "labelSelector": {}, "namespaceSelector": {}, "matchLabelKeys": ["y"], "mismatchLabelKeys": []}}]}},
  "future": {"zeta": 12345678901234567, "alpha": -9223372036854775808, "fraction": 0.1, "null": null,
    "text": "<&>\\u2028 \\u00e9 \\ud83d\\ude00 {{FC_TASK_INDEX}}", "empty": "", "list": [null, true, 1]},
  "volumes": [{"name": "later", "image": {"reference": "registry.example/x:1", "pullPolicy": "Always"}},
    {"name": "token", "projected": {"sources": [{"clusterTrustBundle": {"name": "x", "path": "y"}},
      {"serviceAccountToken": {"path": "t"}}]}}],
  "initContainers": [{"name": "side", "image": "i", "restartPolicy": "Always",
    "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}], "env": null}],
  "containers": [
   {"name": "main", "image": "i:{{FC_TASK_INDEX}}", "terminationMessagePolicy": "File",
    "resources": {"claims": [{"name": "gpu", "request": "r"}], "limits": {"cpu": "1"}},
    "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}],
    "lifecycle": {"stopSignal": "SIGUSR1"},
    "livenessProbe": {"exec": {"command": ["true"]}, "terminationGracePeriodSeconds": null},
    "volumeMounts": [{"name": "later", "mountPath": "/x", "recursiveReadOnly": "IfPossible"}],
    "env": [{"name": "FC_TASK_INDEX", "value": "mine"}, {"name": "NONE", "value": null},
      {"name": "B", "value": "{{FC_CONFIGMAP_NAME}} {{FC_FRAMEWORK_NAMESPACE}} {{ FC_TASK_INDEX }}"}],
    "command": ["sh", "-c", "echo {{FC_TASK_INDEX}}"]},
   {"name": "second", "image": "i", "securityContext": {"procMount": null, "seccompProfile": {"type": "Unconfined"}}}]}}
"""
VARIABLES = ("FC_FRAMEWORK_NAMESPACE", "FC_FRAMEWORK_NAME", "FC_TASKROLE_NAME", "FC_TASK_INDEX", "FC_CONFIGMAP_NAME",
             "FC_POD_NAME")
IDENTITIES = ("FC_FRAMEWORK_UID", "FC_FRAMEWORK_ATTEMPT_ID", "FC_FRAMEWORK_ATTEMPT_INSTANCE_UID", "FC_CONFIGMAP_UID",
              "FC_TASKROLE_UID", "FC_TASK_UID", "FC_TASK_ATTEMPT_ID")


def read(text):
    """JSON with numbers as they are written."""
    return json.loads(text, parse_int=lambda t: ("number", t), parse_float=lambda t: ("number", t))


class Recorder(Proxy):
    """A proxy that keeps the bodies of POST."""

    def __init__(self, cluster):
        self.posts = []
        super().__init__(cluster)

    def record(self, method, path, body):
        if method == "POST":
            self.posts.append((path.split("?")[0], body.decode()))

    def bodies(self, path):
        """{name: body}"""
        found = [read(body) for at, body in self.posts if at == path]
        return {b["metadata"]["name"]: b for b in found}


def replaced(value, names):
    """The placeholders in all strings, keys left out."""
    if isinstance(value, str):
        return re.sub(r"\{\{(FC_\w+)\}\}", lambda m: names.get(m[1], m[0]), value)
    if isinstance(value, dict):
        return {k: replaced(v, names) for k, v in value.items()}
    return [replaced(v, names) for v in value] if isinstance(value, list) else value


def expected_pod(stored, index, configmap, pod_annotations):
    """What FrameworkController makes of the template of role 0.  The uids that only the controller
    knows come from the pod itself."""
    role_of = stored["spec"]["taskRoles"][0]
    name, space = stored["metadata"]["name"], stored["metadata"]["namespace"]
    values = dict(zip(VARIABLES, (space, name, role_of["name"], str(index), f"{name}-attempt",
                                  f"{name}-{role_of['name']}-{index}")))
    pod = replaced(role_of["task"]["pod"], values)
    values.update({
        "FC_FRAMEWORK_UID": stored["metadata"]["uid"], "FC_FRAMEWORK_ATTEMPT_ID": "0",
        "FC_FRAMEWORK_ATTEMPT_INSTANCE_UID": f"0_{configmap}", "FC_CONFIGMAP_UID": configmap, "FC_TASK_ATTEMPT_ID": "0",
        **{k: pod_annotations[k] for k in ("FC_TASKROLE_UID", "FC_TASK_UID")}})
    metadata = pod["metadata"]
    metadata.update({"name": values["FC_POD_NAME"], "namespace": space})
    metadata["labels"].update({k: values[k] for k in ("FC_FRAMEWORK_NAME", "FC_TASKROLE_NAME", "FC_TASK_INDEX")})
    metadata["annotations"].update(values)
    metadata["ownerReferences"] = [{"apiVersion": "v1", "kind": "ConfigMap", "name": f"{name}-attempt", "uid": configmap,
                                    "controller": True, "blockOwnerDeletion": True}]
    environment = [{"name": k, "value": values[k]} for k in (*VARIABLES, *IDENTITIES)] + [
        {"name": "FC_POD_UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
        {"name": "FC_TASK_ATTEMPT_INSTANCE_UID", "value": "0_$(FC_POD_UID)"}]
    for container in pod["spec"]["initContainers"] + pod["spec"]["containers"]:
        container["env"] = environment + (container.get("env") or [])
        container.setdefault("terminationMessagePolicy", "FallbackToLogsOnError")
    return pod


def differences(seen, wanted, at=""):
    """Where two values differ; FC_POD_UID's fieldRef may name its version."""
    if isinstance(seen, dict) and isinstance(wanted, dict):
        if seen.get("fieldPath") == wanted.get("fieldPath") == "metadata.uid":
            return []
        found = [f"{at}.{k}: {seen.get(k, 'absent')!r}, not {wanted.get(k, 'absent')!r}"
                 for k in sorted(seen.keys() ^ wanted.keys())]
        return found + [d for k in seen.keys() & wanted.keys() for d in differences(seen[k], wanted[k], f"{at}.{k}")]
    if isinstance(seen, list) and isinstance(wanted, list) and len(seen) == len(wanted):
        return [d for i, pair in enumerate(zip(seen, wanted)) for d in differences(*pair, f"{at}[{i}]")]
    return [] if seen == wanted and type(seen) is type(wanted) else [f"{at}: {seen!r}, not {wanted!r}"]


def order(value, wanted, at=""):
    """Members of objects whose order is not that of the template."""
    found = []
    if isinstance(value, dict) and isinstance(wanted, dict):
        kept = [k for k in value if k in wanted]
        if kept != [k for k in wanted if k in value]:
            found.append(at)
        found += [o for k in kept for o in order(value[k], wanted[k], f"{at}.{k}")]
    elif isinstance(value, list) and isinstance(wanted, list):
        found += [o for i, pair in enumerate(zip(value, wanted)) for o in order(*pair, f"{at}[{i}]")]
    return found


def without_kind(value):
    return {k: v for k, v in value.items() if k not in ("kind", "apiVersion")}


def test_pods_are_the_template_and_what_is_added(check, scene):
    """Twenty young members, nulls, numbers beyond 2^53: as the API server has stored the template."""
    for c in scene.controllers:
        c.stop()
    one = role(number=2, failed=-1)
    one["task"]["pod"] = "YOUNG"
    text = json.dumps(framework("young", one)).replace('"YOUNG"', YOUNG)
    # Not by json.dumps: the numbers are to be as they are written.
    check.equal("young: is created", scene.kubectl("create", "--raw", FRAMEWORKS, "-f", "-",
                                                   text=text.encode()).returncode, 0)
    stored = read(scene.kubectl("get", "--raw", f"{FRAMEWORKS}/young").stdout)
    with Recorder(scene) as proxy:
        with Controller(scene, url=proxy.url) as own:
            check.ok("young: ends", wait_until(lambda: scene.state("young") == "Completed"))
            own.stop()
        configmaps, pods = proxy.bodies(CONFIGMAPS), proxy.bodies(PODS)
    check.equal("young: its pods", sorted(pods), ["young-w-0", "young-w-1"])
    check.equal("young: its ConfigMaps", sorted(configmaps), ["young-attempt"])
    uid = stored["metadata"]["uid"]
    check.equal("young: the ConfigMap", without_kind(configmaps["young-attempt"]), {
        "metadata": {"name": "young-attempt", "namespace": "default", "labels": {"FC_FRAMEWORK_NAME": "young"},
                     "annotations": {"FC_CONFIGMAP_NAME": "young-attempt", "FC_FRAMEWORK_ATTEMPT_ID": "0",
                                     "FC_FRAMEWORK_NAME": "young", "FC_FRAMEWORK_NAMESPACE": "default",
                                     "FC_FRAMEWORK_UID": uid},
                     "ownerReferences": [{"apiVersion": "frameworkcontroller.microsoft.com/v1", "kind": "Framework",
                                          "name": "young", "uid": uid, "controller": True, "blockOwnerDeletion": True}],
                     "finalizers": ["foregroundDeletion"]}})
    configmap = pods["young-w-0"]["metadata"]["ownerReferences"][-1]["uid"]
    for i in range(2):
        pod = without_kind(pods[f"young-w-{i}"])
        wanted = expected_pod(stored, i, configmap, pod["metadata"]["annotations"])
        check.equal(f"young: pod {i}, member by member", differences(pod, wanted), [])
        check.equal(f"young: pod {i}, the order of members", order(pod["spec"], wanted["spec"]), [])
    for c in scene.controllers:
        c.start()
    end_is(check, scene, "young", 0)
    scene.remove("young")
    check.ok("the controllers are there again", wait_until(
        lambda: all(c.status("/readyz") == 200 for c in scene.controllers)))


def test_late_post_does_not_run_unseen(check, scene):
    """A POST of a pod reaches the API server when its attempt is over: the pod is deleted soon."""
    for c in scene.controllers:
        c.stop()
    arrived, go = threading.Event(), threading.Event()
    with Recorder(scene) as proxy:
        proxy.fault("POST", "Pod", "late-w-0", gate=(arrived, go))
        with Controller(scene, url=proxy.url) as own:
            scene.create(framework("late", role(failed=-1, run=50), role("other", run="never")))
            check.ok("late: the POST is under way", arrived.wait(60 * SLOW))
            check.ok("late: it is sent again, and ends", wait_until(
                lambda: tasks(scene.framework("late")).get(("w", 0)) == ("Completed", 0, 0), 120))
            go.set()
            check.ok("late: the pod is there, and goes", wait_until(
                lambda: [s for s in scene.count.strays() if s[0] == "late-w-0"] and "late-w-0" not in scene.pods()),
                scene.count.strays())
            print(f"     late POST: {scene.count.strays()} (pod, seconds, has run)", flush=True)
            check.equal("late: the other task runs", tasks(scene.framework("late"))["other", 0][0], "AttemptRunning")
            scene.patch("late", {"spec": {"executionType": "Stop"}})
            end_is(check, scene, "late", STOPPED)
            own.stop()
    for c in scene.controllers:
        c.start()
    check.ok("the controllers are there again", wait_until(
        lambda: all(c.status("/readyz") == 200 for c in scene.controllers)))


def test_pods_of_a_killed_leader_are_adopted(check, scene):
    """It is killed between a POST and the status that names the new object.  The pods run and end
    before the next leader comes, which takes them for what they are: this attempt."""
    for c in scene.controllers:
        c.stop()
    with Recorder(scene) as proxy:
        with Controller(scene, url=proxy.url) as own:
            proxy.fault("PATCH", "Framework", "adoptpods", skip=2, hang=0)
            proxy.fault("PATCH", "Framework", "adoptmap", skip=1, hang=0)
            for name in ("adoptpods", "adoptmap"):
                scene.create(framework(name, role(number=3, failed=-1, run=100)))
            check.ok("adopt: the statuses hang", wait_until(lambda: all(
                proxy.count("PATCH", "Framework", n) > k for n, k in (("adoptpods", 2), ("adoptmap", 1)))))
            own.kill()
    check.ok("adopt: the pods end", wait_until(
        lambda: [p["status"]["phase"] for p in scene.pods("adoptpods").values()] == ["Succeeded"] * 3))
    for c in scene.controllers:
        c.start()
    for name in ("adoptpods", "adoptmap"):
        end_is(check, scene, name, 0)
    check.equal("adopt: each pod was created once", [s for s in scene.count.strays() if s[0].startswith("adopt")], [])
    check.ok("the controllers are there again", wait_until(
        lambda: all(c.status("/readyz") == 200 for c in scene.controllers)))
