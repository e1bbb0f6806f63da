"""The contract of a submission, checked on the cluster:

    202                 all objects exist, owned by the Framework, and the job is started
    504 OutcomeUnknown  unknown; a started job is complete, the janitor removes an incomplete one
    anything else       no objects are left

And a garbage collector, which the contract requires and the test cluster lacks."""
import base64
import json
import re
import threading
import time
import uuid

from cluster import PATHS
from harness import framework_name, job_v2, request_bytes, wait_until

KINDS = ("Framework", "Secret", "ConfigMap", "PriorityClass")
OURS = re.compile(r"^[0-9a-f]{32}(-|$)")
# The media type of a list with metadata only, which is sufficient to recognize owners.
META = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
DEPENDENTS = {
    "whole": {"Secret-configcred", "Secret-regcred", "ConfigMap-env", "PriorityClass-priority"},
    "random": {"Secret-configcred", "Secret-regcred", "Secret-usercred", "ConfigMap-env", "PriorityClass-priority"},
    "secrets": {"Secret-configcred", "ConfigMap-env", "PriorityClass-priority"},
    "bare": {"ConfigMap-env", "PriorityClass-priority"},
}
# With these options, a server creates each of them.
MAKE_ALL = ("--priority-class", "--max-env-inline", "0")


def serve(cluster, *arguments, url=None, **more):
    return cluster.serve(*MAKE_ALL, *arguments, url=url, **more)


def connect(server):
    """Connects to a server that is killed repeatedly, when it listens."""
    found = []

    def listens():
        try:
            found.append(server.connect())
            return True
        except OSError:
            return False
    if not wait_until(listens, 300):
        raise RuntimeError("the server does not listen")
    return found[0]


def post(server, text, key, query=""):
    """One request with this Idempotency-Key: its response, or None."""
    data = request_bytes(server.port, "POST", f"/api/v2/jobs{query}", text.encode(),
                         {"Connection": "close", "Idempotency-Key": key})
    with connect(server) as connection:
        connection.send(data)
        return connection.reply(300)


def is_taken(server, text):
    """True if a client gets its job by retries; the first request may exceed the short deadline."""
    key = {"Idempotency-Key": str(uuid.uuid4())}
    return wait_until(lambda: server.submit(text, key).status == 202, 300)


def marker(job):
    return f"Marker-of-a-secret-{job}"


def job_text(job, shape="whole"):
    """A job with a dependent of each kind; `random` also has a new key pair for each submission;
    other shapes have fewer dependents."""
    more = {}
    if shape != "bare":
        more["secrets"] = {"key": marker(job), "password": marker(job)}
    text = json.loads(job_v2(job, **more))
    if shape == "random":
        text["extras"] = {"distributed": {"framework": "mpi"}}
    if shape in ("whole", "random"):
        text["prerequisites"][0]["auth"] = {"username": "robot", "password": "<% $secrets.password %>",
                                            "registryuri": "registry.example.com"}
    return json.dumps(text)


# ---- objects ----------------------------------------------------------------------------
def items(cluster, kind, accept="application/json"):
    status, value = cluster.api("GET", PATHS[kind], accept=accept)
    if status != 200:
        raise OSError(f"{kind}s cannot be listed: {status} {value}")
    # A list of metadata has no nulls.
    return [o for o in value["items"] or [] if OURS.match(o["metadata"]["name"])]


class Seen:
    """A snapshot of all objects of jobs."""

    def __init__(self, cluster):
        self.objects = {}
        # Dependents are created and deleted after their owner.
        for kind in reversed(KINDS):
            for o in items(cluster, kind):
                name = o["metadata"]["name"]
                self.objects.setdefault(name[:32], {})[kind + name[32:]] = o
        self.leave_out_garbage()

    def leave_out_garbage(self):
        """Dependents without an owner belong to the garbage collector; an abandoned request may
        have just created them."""
        uids = {parts["Framework"]["metadata"]["uid"] for parts in self.objects.values()
                if "Framework" in parts}

        def stays(o):
            owners = o["metadata"].get("ownerReferences")
            return not owners or any(owner["uid"] in uids for owner in owners)
        kept = {name: {k: o for k, o in parts.items() if stays(o)}
                for name, parts in self.objects.items()}
        self.objects = {name: parts for name, parts in kept.items() if parts}

    def of(self, job):
        return self.objects.get(framework_name(job), {})

    def count(self, kind):
        return sum(1 for parts in self.objects.values() for k in parts if k.startswith(kind))

    def unfinished(self):
        return [name for name, parts in self.objects.items() if not is_started(parts)]


def is_started(parts):
    return "Framework" in parts and parts["Framework"]["spec"].get("executionType") == "Start"


def is_held(parts):
    meta = parts.get("Framework", {"metadata": {}})["metadata"]
    return "rest-lit/hold" in meta.get("annotations", {}) and "rest-lit/creating" not in meta.get("labels", {}) and \
        parts["Framework"]["spec"].get("executionType") == "Create"


def incomplete(parts, job, shape="whole", held=False):
    """Description of the missing or wrong parts of a started, or held, job; None if it is complete."""
    if not (is_held(parts) if held else is_started(parts)):
        return f"not {'held' if held else 'started'}: {sorted(parts)}"
    framework = parts["Framework"]["metadata"]
    wanted = DEPENDENTS[shape] | {"Framework"}
    if set(parts) != wanted:
        return f"there are {sorted(parts)}, not {sorted(wanted)}"
    for what, o in parts.items():
        owners = o["metadata"].get("ownerReferences", [])
        if what.startswith(("Secret", "ConfigMap")) and [x.get("uid") for x in owners] != [framework["uid"]]:
            return f"{what} is owned by {owners}, not by {framework['uid']}"
    secret = parts.get("Secret-configcred")
    if secret and marker(job).encode() not in b"".join(base64.b64decode(v) for v in secret["data"].values()):
        return "the Secret is not this job's"
    return None


def broken_promise(parts, job, outcomes, shape="whole"):
    """Description of a violation after these responses (status, or None without a response) to
    submissions of one name; None if there is none."""
    accepted = outcomes.count(202)
    if accepted > 1:
        return f"it was accepted {accepted} times"
    if accepted:
        return incomplete(parts, job, shape)
    if is_started(parts):
        if None in outcomes or 504 in outcomes:
            return incomplete(parts, job, shape)
        return "it was refused, and runs"
    if parts and not (None in outcomes or 504 in outcomes):
        return f"it was refused, and left {sorted(parts)}"
    return None


# ---- the garbage collector --------------------------------------------------------------
def collect(cluster):
    """Deletes dependents of objects that do not exist; returns their number."""
    there = [(kind, o["metadata"]) for kind in ("Secret", "ConfigMap") for o in items(cluster, kind, META)]
    # The owners are listed later, because an owner is created before its dependents.
    uids = {o["metadata"]["uid"] for o in items(cluster, "Framework", META)}
    removed = 0
    for kind, meta in there:
        owners = meta.get("ownerReferences", [])
        if owners and not any(o["uid"] in uids for o in owners):
            body = {"preconditions": {"uid": meta["uid"]}}
            removed += cluster.api("DELETE", f"{PATHS[kind]}/{meta['name']}", body)[0] == 200
    return removed


class Collector:
    """A garbage collector that runs continuously."""

    def __init__(self, cluster, interval=1.0):
        self.cluster, self.interval = cluster, interval
        self.removed = 0
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.go, daemon=True)

    def go(self):
        while not self.over.wait(self.interval):
            try:
                self.removed += collect(self.cluster)
            except (OSError, ValueError):
                pass  # the API server is not available

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


def is_settled(cluster):
    """True if no object is left for a janitor; compares only names, because it is called often."""
    classes = {o["metadata"]["name"][:32] for o in items(cluster, "PriorityClass", META)}
    frameworks = items(cluster, "Framework", META)
    return not any("rest-lit/creating" in o["metadata"].get("labels", {}) for o in frameworks) and \
        classes <= {o["metadata"]["name"] for o in frameworks}


def wait_settled(cluster, seconds):
    """Waits until janitor and garbage collector have removed all but started jobs, as long as in this time plus
    five minutes one object more is removed.  Returns a snapshot."""
    least, end = None, 0
    while not is_settled(cluster):
        left = sum(len(items(cluster, kind, META)) for kind in KINDS)
        if least is None or left < least:
            least, end = left, time.monotonic() + seconds + 300
        if time.monotonic() >= end:
            break
        time.sleep(0.5)
    collect(cluster)
    return Seen(cluster)


def remove_all(cluster):
    """All jobs with their objects."""
    for kind in KINDS:
        for o in items(cluster, kind, META):
            cluster.delete(kind, o["metadata"]["name"])
