"""Every example and every job of the corpus, submitted to a real API server: the stored objects
equal the output of `rest-lit translate`, and the API server accepts the pods."""
import collections
import concurrent.futures
import glob
import json
import os
import re
import threading
import time

from cluster import PATHS
from harness import ROOT, run

FACTS = os.path.join(ROOT, "tests/e2e/facts.json")
THREADS = 3
# TEST_WHOLE=1: all jobs of the corpus in all ways, as `make check-long` does.
WHOLE = os.environ.get("TEST_WHOLE") == "1"
# Members that the API server sets or rest-lit serve adds.
SERVER_SET = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields",
              "selfLink", "ownerReferences", "namespace")
# Values of FrameworkController's placeholders in pods.
FC_WORDS = {"FC_FRAMEWORK_NAMESPACE": "default", "FC_FRAMEWORK_NAME": "0123456789abcdef",
            "FC_TASKROLE_NAME": "role", "FC_TASK_INDEX": "0", "FC_TASKROLE_UID": "u",
            "FC_TASK_UID": "u", "FC_POD_NAME": "p"}


def job_files(*patterns):
    files = sorted(f for p in patterns for f in glob.glob(os.path.join(ROOT, p)))
    return [f for f in files if os.path.basename(f) not in ("facts.json", "README.md")]


def normal(value):
    """An object without the members that differ between submissions."""
    value = json.loads(json.dumps(value))
    metadata = value.get("metadata", {})
    for key in SERVER_SET:
        metadata.pop(key, None)
    for where in ("labels", "annotations"):
        kept = {k: v for k, v in metadata.get(where, {}).items() if not k.startswith("rest-lit/")}
        metadata.pop(where, None)
        if kept:
            metadata[where] = kept
    if value.get("kind") == "PriorityClass":
        value.pop("value", None)  # made from the time of submission
        value.pop("preemptionPolicy", None)  # a default of the API server
        if value.get("globalDefault") is False:
            value.pop("globalDefault")  # the API server omits false
    return value


def difference(a, b, at=""):
    """Description of the first difference of two values, or None."""
    if isinstance(a, dict) and isinstance(b, dict):
        for key in sorted(a.keys() | b.keys()):
            if key not in a or key not in b:
                return f"{at}/{key} only in what was {'translated' if key in a else 'stored'}"
            found = difference(a[key], b[key], f"{at}/{key}")
            if found:
                return found
        return None
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for i, (x, y) in enumerate(zip(a, b)):
            found = difference(x, y, f"{at}/{i}")
            if found:
                return found
        return None
    return None if a == b and type(a) is type(b) else f"{at}: {str(a)[:80]!r}, stored {str(b)[:80]!r}"


def content_type(path):
    return "application/json" if path.endswith(".json") else "text/yaml"


def is_v1(path):
    if not path.endswith(".json"):
        return False
    with open(path, encoding="utf-8") as f:
        return "jobName" in f.read()


class Jobs:
    """One profile: a server to which all jobs are submitted."""

    def __init__(self, check, cluster, server, profile, options, with_pods=False):
        self.check, self.cluster, self.server = check, cluster, server
        self.profile, self.options = profile, options
        self.with_pods = with_pods or profile == "plain"
        self.accepted = self.refused = self.templates = self.dependents = 0
        self.seen_templates = set()
        self.kinds = collections.Counter()
        # Jobs with the same name are submitted in turn.
        self.locks = collections.defaultdict(threading.Lock)

    def one(self, path):
        name = f"{self.profile} {os.path.relpath(path, ROOT)}"
        translated = run("translate", "--user", "alice", "--facts", FACTS, "--profile",
                         self.profile, *self.options, path)
        if translated.returncode != 0:
            self.refused += 1
            reply = self.submit(path)
            self.check.ok(f"{name}: refused by both", reply and 400 <= reply.status < 500,
                          f"{reply}; translate: {translated.stderr[:300]}")
            if os.environ.get("VERBOSE"):
                print(f"     {name}: {translated.stderr.decode().strip()[:200]}")
            return
        objects = json.loads(translated.stdout)["items"]
        with self.locks[objects[-1]["metadata"]["name"]]:
            try:
                self.accept(name, path, objects)
            finally:
                for value in reversed(objects):
                    self.cluster.delete(value["kind"], value["metadata"]["name"])

    def submit(self, path):
        with open(path, "rb") as f:
            text = f.read()
        return self.server.submit(text, {"Content-Type": content_type(path)},
                                  "/api/v1/jobs" if is_v1(path) else "/api/v2/jobs")

    def accept(self, name, path, objects):
        reply = self.submit(path)
        if not self.check.ok(f"{name}: 202", reply and reply.status == 202, reply):
            return
        self.accepted += 1
        self.compare(name, objects)
        if self.with_pods:
            self.pods(name, objects[-1])
        if self.accepted % 20 == 1:
            self.duplicate(name, path, objects)

    def compare(self, name, objects):
        framework = objects[-1]
        self.check.equal(f"{name}: the last object", framework["kind"], "Framework")
        there = self.cluster.get("Framework", framework["metadata"]["name"])
        if not self.check.ok(f"{name}: the Framework is there", there):
            return
        self.check.ok(f"{name}: as translated", difference(normal(framework), normal(there)) is None,
                      difference(normal(framework), normal(there)))
        self.check.equal(f"{name}: started", there["spec"].get("executionType"), "Start")
        for value in objects[:-1]:
            self.dependent(name, value, there)

    def dependent(self, name, value, framework):
        self.dependents += 1
        self.kinds[value["kind"]] += 1
        name = f"{name}: {value['kind']} {value['metadata']['name'][32:]}"
        there = self.cluster.get(value["kind"], value["metadata"]["name"])
        if not self.check.ok(f"{name} is there", there):
            return
        there.setdefault("kind", value["kind"])
        found = difference(normal(value), normal(there))
        self.check.ok(f"{name} holds the right bytes", found is None, found)
        owners = there["metadata"].get("ownerReferences", [])
        if value["kind"] == "PriorityClass":
            return
        wanted = {"apiVersion": "frameworkcontroller.microsoft.com/v1", "kind": "Framework",
                  "name": framework["metadata"]["name"], "uid": framework["metadata"]["uid"]}
        self.check.equal(f"{name} is owned by the Framework", owners, [wanted])

    def pods(self, name, framework):
        """Checks that the API server accepts the pods as FrameworkController creates them."""
        for role in framework["spec"]["taskRoles"]:
            text = json.dumps(role["task"]["pod"], sort_keys=True)
            for word, value in FC_WORDS.items():
                text = text.replace("{{" + word + "}}", value)
            # Irrelevant differences between jobs.
            seen = re.sub(r'"(config|value|jobName|userName)": "[^"\\]*"', "", text)
            if seen in self.seen_templates:
                continue
            self.seen_templates.add(seen)
            self.templates += 1
            pod = json.loads(text)
            what = f"{name}: role {role['name']}"
            metadata = {**pod.get("metadata", {}), "name": "probe", "namespace": "default"}
            for _ in range(100):
                said = self.cluster.dry_run("Pod", {"apiVersion": "v1", "kind": "Pod",
                                                    "metadata": metadata, "spec": pod["spec"]})
                if "no PriorityClass" not in (said or ""):  # its admission gets new ones by a watch
                    break
                time.sleep(0.1)
            self.check.ok(f"{what} is a pod", said is None, said or "")
            said = self.cluster.dry_run("PodTemplate", {
                "apiVersion": "v1", "kind": "PodTemplate",
                "metadata": {"name": "probe", "namespace": "default"}, "template": pod})
            self.check.ok(f"{what} is a pod template", said is None, said or "")

    def duplicate(self, name, path, objects):
        before = {kind: self.cluster.names(kind) for kind in PATHS}
        reply = self.submit(path)
        self.check.equal(f"{name} again: status", reply.status, 409)
        self.check.equal(f"{name} again: code", reply.code, "ConflictJobError")
        after = {kind: self.cluster.names(kind) for kind in PATHS}
        ours = {v["metadata"]["name"][:32] for v in objects}
        self.check.equal(f"{name} again: leaves nothing", *(
            {k: {n for n in v if n[:32] in ours} for k, v in x.items()} for x in (after, before)))


def submit_all(check, cluster, profile, options):
    examples = job_files("examples/*.json", "examples/*.yaml")
    corpus = job_files("tests/corpus/v2-valid/*", "tests/corpus/v1-valid/*")
    if not WHOLE:
        # Each file once, in one of the two profiles.
        corpus = corpus[profile == "openpai"::2]
    files = examples + corpus
    with cluster.serve("--profile", profile, "--facts", FACTS, *options) as server:
        jobs = Jobs(check, cluster, server, profile, options)
        with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
            for path, wrong in zip(files, pool.map(lambda p: attempt(jobs, p), files)):
                check.ok(f"{profile} {path}: to the end", wrong is None, repr(wrong))
        check.equal(f"{profile}: exit status", server.stop(), 0)
        check.ok(f"{profile}: no private key in the log", "Marker-private-key" not in server.settled_log())
    print(f"     {profile}: {len(files)} files, {jobs.accepted} accepted, {jobs.refused} refused, "
          f"{jobs.dependents} dependents, {jobs.templates} pod templates", flush=True)
    check.ok(f"{profile}: nearly all are accepted", jobs.accepted >= 0.95 * len(files), jobs.accepted)
    for kind in ("Framework", "Secret", "ConfigMap", "PriorityClass"):
        left = [n for n in cluster.names(kind) if re.match(r"^[0-9a-f]{32}", n)]
        check.equal(f"{profile}: {kind}s left", left, [])


def submit_with_configmap(check, cluster):
    """A large environment is stored in a ConfigMap; here, the limit is a few bytes."""
    options = ["--max-env-inline", "64"]
    with cluster.serve("--facts", FACTS, *options) as server:
        jobs = Jobs(check, cluster, server, "plain", options)
        for path in job_files("examples/distributed.yaml", "examples/tfDemo.json"):
            jobs.one(path)
        made = jobs.kinds["ConfigMap"]
        check.ok("there were ConfigMaps", made >= 2, made)


def attempt(jobs, path):
    """The exception, or None."""
    try:
        jobs.one(path)
    except Exception as e:
        return e
    return None
