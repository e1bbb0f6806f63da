"""Pods as processes, with the functions of FrameworkController and kubelet for one Framework.

A pod is a directory used as `/`.  Its containers get the environment of the pod template, expanded
like by the kubelet, and its volumes."""
import json
import re
import uuid

from checks import Root

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
FRAMEWORK_VARIABLES = ("FC_FRAMEWORK_UID", "FC_FRAMEWORK_ATTEMPT_INSTANCE_UID", "FC_CONFIGMAP_UID",
                       "FC_TASKROLE_UID", "FC_TASK_UID", "FC_TASK_ATTEMPT_INSTANCE_UID")


def expand(text, known):
    """Expand $(NAME) like the kubelet: $$ is a dollar, unknown names are kept."""
    def one(match):
        if match.group(0) == "$$":
            return "$"
        return known.get(match.group(1), match.group(0))
    return re.sub(r"\$\$|\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)", one, text)


class Pod(Root):
    """The pod of a task.  `address` is its pod IP, `host` the IP of its node."""

    def __init__(self, framework, role, index, address, host):
        super().__init__()
        self.framework, self.role, self.index = framework, role, index
        self.address, self.host = address, host
        # Fixed, because ports depend on it.
        self.uid = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{role['name']} {index}"))
        self.name = f"{framework['metadata']['name']}-{role['name']}-{index}"
        self.spec = role["task"]["pod"]["spec"]
        self.base = self.env
        self.base.update({
            "FC_FRAMEWORK_NAMESPACE": framework["metadata"]["namespace"],
            "FC_FRAMEWORK_NAME": framework["metadata"]["name"], "FC_TASKROLE_NAME": role["name"],
            "FC_TASK_INDEX": str(index), "FC_POD_UID": self.uid, "FC_POD_NAME": self.name,
            "FC_CONFIGMAP_NAME": framework["metadata"]["name"] + "-attempt",
            "FC_FRAMEWORK_ATTEMPT_ID": "0", "FC_TASK_ATTEMPT_ID": "0", "HOSTNAME": self.name})
        for name in FRAMEWORK_VARIABLES:
            self.base.setdefault(name, str(uuid.uuid4()))
        self.write("/dev/termination-log", "", 0o666)

    def account(self, token, ca, namespace="default"):
        """The files of the service account's projected volume."""
        self.write(f"{ACCOUNT}/token", token)
        self.write(f"{ACCOUNT}/ca.crt", ca)
        self.write(f"{ACCOUNT}/namespace", namespace)

    def secret(self, folder, values):
        for name, value in values.items():
            self.write(f"/usr/local/pai/{folder}/{name}", value)

    def environment(self, kind, name, **more):
        """Variables of a container; kind is `initContainers` or `containers`."""
        container = next(c for c in self.spec[kind] if c["name"] == name)
        known = dict(self.base, **more)
        for variable in container.get("env", []):
            if "value" in variable:
                known[variable["name"]] = expand(variable["value"], known)
            elif "fieldRef" in variable.get("valueFrom", {}):
                field = variable["valueFrom"]["fieldRef"]["fieldPath"]
                known[variable["name"]] = self.field(field)
        return known

    def field(self, path):
        annotation = re.fullmatch(r"metadata\.annotations\['(FC_\w+)'\]", path)
        if annotation:
            return self.base[annotation.group(1)]
        return {"status.hostIP": self.host, "status.podIP": self.address, "metadata.uid": self.uid,
                "metadata.name": self.name}[path]

    def status(self, state="AttemptPreparing"):
        """FrameworkController's status of this task."""
        return {"index": self.index, "state": state, "deletionPending": False,
                "startTime": "2026-01-31T12:00:00Z", "transitionTime": "2026-01-31T12:00:00Z",
                "completionTime": None, "runTime": None,
                "instanceUID": str(uuid.uuid4()),
                "retryPolicyStatus": {"totalRetriedCount": 0, "accountableRetriedCount": 0,
                                      "retryDelaySec": None},
                "attemptStatus": {"id": 0, "instanceUID": "0_" + self.uid, "podName": self.name,
                                  "podUID": self.uid, "podIP": self.address, "podHostIP": self.host,
                                  "podNodeName": "node", "completionStatus": None,
                                  "completionTime": None, "runTime": None,
                                  "startTime": "2026-01-31T12:00:00Z"}}


def framework_status(framework, pods):
    """The status of a Framework whose tasks have these pods; other tasks have none yet."""
    roles = []
    for role in framework["spec"]["taskRoles"]:
        mine = sorted((p for p in pods if p.role["name"] == role["name"]), key=lambda p: p.index)
        roles.append({"name": role["name"], "instanceUID": str(uuid.uuid4()),
                      "podGracefulDeletionTimeoutSec": 600,
                      "taskStatuses": [p.status() for p in mine]})
    return {"state": "AttemptPreparing", "startTime": "2026-01-31T12:00:00Z",
            "transitionTime": "2026-01-31T12:00:00Z", "completionTime": None, "runTime": None,
            "retryPolicyStatus": {"totalRetriedCount": 0, "accountableRetriedCount": 0,
                                  "retryDelaySec": None},
            "attemptStatus": {"id": 0, "startTime": "2026-01-31T12:00:00Z", "completionTime": None,
                              "runTime": None, "instanceUID": "0_" + str(uuid.uuid4()),
                              "configMapName": "attempt", "configMapUID": str(uuid.uuid4()),
                              "completionStatus": None, "taskRoleStatuses": roles}}


def service_account_token(cluster, account="runtime-account", seconds=3600):
    """A token like the kubelet's."""
    status, value = cluster.api(
        "POST", f"/api/v1/namespaces/default/serviceaccounts/{account}/token",
        {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
         "spec": {"expirationSeconds": seconds}})
    if status != 201:
        raise RuntimeError(f"no token for {account}: {json.dumps(value)}")
    return value["status"]["token"]


def read_ca(cluster):
    with open(cluster.ca, "rb") as f:
        return f.read()


def variables(root):
    """The environment that init wrote, as a dictionary."""
    text = root.read("/usr/local/pai/runtime.d/runtime_env") or b""
    return dict(line.split("=", 1) for line in text.decode().split("\0") if line)
