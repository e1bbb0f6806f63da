"""Every example and every job of the corpus, submitted to a real API server: the stored objects
equal the output of `rest-lit translate`, and the API server accepts the pods."""
import collections
import concurrent.futures
import glob
import json
import os
import re

from cluster import PATHS
from harness import ROOT, run, wait_until

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
# Names of the objects of jobs.
OF_JOB = re.compile(r"[0-9a-f]{32}")


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


def form(value, key=""):
    """A value without irrelevant differences between jobs."""
    if isinstance(value, dict):
        return tuple((k, form(v, k)) for k, v in sorted(value.items()))
    if isinstance(value, list):
        return tuple(sorted({repr(form(v, key)) for v in value}))
    if isinstance(value, bool) or key in ("add", "drop", "dnsPolicy", "medium", "type", "imagePullPolicy"):
        return value
    return type(value).__name__


def shape(value):
    """A value without differences that no API server can mind: of texts, their unusual characters and
    about their length count."""
    if isinstance(value, dict):
        return tuple((k, shape(v)) for k, v in sorted(value.items()))
    if isinstance(value, list):
        return tuple(sorted({repr(shape(v)) for v in value}))
    if isinstance(value, str):
        return "".join(sorted({c for c in value if not (c.isascii() and c.isprintable())})), len(value).bit_length() // 3
    return value if isinstance(value, bool) else type(value).__name__


def filled_in(pod):
    """A pod template with FrameworkController's words."""
    text = json.dumps(pod)
    for word, value in FC_WORDS.items():
        text = text.replace("{{" + word + "}}", value)
    return json.loads(text)


class Jobs:
    """One profile: a server to which jobs are submitted; without TEST_WHOLE, of those with objects of
    one shape the first."""

    def __init__(self, check, cluster, server, profile, options):
        self.check, self.cluster, self.server = check, cluster, server
        self.profile, self.options = profile, options
        self.translated = self.accepted = self.refused = self.templates = self.dependents = 0
        self.seen_templates, self.seen_shapes = set(), set()
        self.kinds = collections.Counter()

    def run(self, files):
        """Submits the jobs of these files: many at once, and those with the same name in turn."""
        with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
            rows = [row for row in pool.map(self.translate, files) if row]
            self.translated += len(rows)
            rows = [row for row in rows if WHOLE or self.is_new(row[2])]
            while rows:
                names, now, later = set(), [], []
                for row in rows:
                    (later if row[2][-1]["metadata"]["name"] in names else now).append(row)
                    names.add(row[2][-1]["metadata"]["name"])
                self.round(pool, now)
                rows = later

    def is_new(self, objects):
        seen, count = shape(objects), len(self.seen_shapes)
        self.seen_shapes.add(seen)
        return len(self.seen_shapes) > count

    def translate(self, path):
        """(name, file, objects); None if the job is refused."""
        name = f"{self.profile} {os.path.relpath(path, ROOT)}"
        translated = run("translate", "--user", "alice", "--facts", FACTS, "--profile",
                         self.profile, *self.options, path)
        if translated.returncode == 0:
            return name, path, json.loads(translated.stdout)["items"]
        self.refused += 1
        reply = self.submit(path)
        self.check.ok(f"{name}: refused by both", reply and 400 <= reply.status < 500,
                      f"{reply}; translate: {translated.stderr[:300]}")
        if os.environ.get("VERBOSE"):
            print(f"     {name}: {translated.stderr.decode().strip()[:200]}")
        return None

    def submit(self, path):
        with open(path, "rb") as f:
            text = f.read()
        return self.server.submit(text, {"Content-Type": content_type(path)},
                                  "/api/v1/jobs" if is_v1(path) else "/api/v2/jobs")

    def round(self, pool, rows):
        replies = pool.map(self.submit, [path for _, path, _ in rows])
        rows = [row for row, reply in zip(rows, replies)
                if self.check.ok(f"{row[0]}: 202", reply and reply.status == 202, reply)]
        self.accepted += len(rows)
        there = self.there()
        for name, _, objects in rows:
            self.compare(name, objects, there)
        if self.profile == "plain":
            self.pods(pool, rows)
        for name, path, _ in rows[::20]:
            self.check.refused(f"{name} again", self.submit(path), 409, "ConflictJobError")
        self.check.equal(f"{self.profile}: repeated submissions leave nothing", self.there().keys(), there.keys())
        self.remove(there)

    def there(self):
        """All objects of jobs, by kind and name."""
        return {(kind, o["metadata"]["name"]): o for kind in ("Framework", "Secret", "ConfigMap", "PriorityClass")
                for o in self.cluster.api("GET", PATHS[kind])[1]["items"] if OF_JOB.match(o["metadata"]["name"])}

    def remove(self, there):
        """One request removes all of a kind.  The namespace has other ConfigMaps, the cluster other classes."""
        for kind, selector in (("Framework", ""), ("Secret", ""), ("PriorityClass", "?labelSelector=rest-lit/namespace=default")):
            if any(kind == k for k, _ in there):
                self.cluster.api("DELETE", PATHS[kind] + selector)
        for kind, name in there:
            if kind == "ConfigMap":
                self.cluster.delete(kind, name)

    def compare(self, name, objects, there):
        framework = objects[-1]
        self.check.equal(f"{name}: the last object", framework["kind"], "Framework")
        found = there.get(("Framework", framework["metadata"]["name"]))
        if not self.check.ok(f"{name}: the Framework is there", found):
            return
        wrong = difference(normal(framework), normal(found))
        self.check.ok(f"{name}: as translated", wrong is None, wrong)
        self.check.equal(f"{name}: started", found["spec"].get("executionType"), "Start")
        for value in objects[:-1]:
            self.dependent(name, value, found, there.get((value["kind"], value["metadata"]["name"])))

    def dependent(self, name, value, framework, found):
        self.dependents += 1
        self.kinds[value["kind"]] += 1
        name = f"{name}: {value['kind']} {value['metadata']['name'][32:]}"
        if not self.check.ok(f"{name} is there", found):
            return
        wrong = difference(normal(value), normal({"kind": value["kind"], "apiVersion": value["apiVersion"], **found}))
        self.check.ok(f"{name} holds the right bytes", wrong is None, wrong)
        owners = found["metadata"].get("ownerReferences", [])
        if value["kind"] == "PriorityClass":
            return
        wanted = {"apiVersion": "frameworkcontroller.microsoft.com/v1", "kind": "Framework",
                  "name": framework["metadata"]["name"], "uid": framework["metadata"]["uid"]}
        self.check.equal(f"{name} is owned by the Framework", owners, [wanted])

    def pods(self, pool, rows):
        """Checks that the API server accepts the pods as FrameworkController creates them, each form once."""
        new = {}
        for name, _, objects in rows:
            for role in objects[-1]["spec"]["taskRoles"]:
                pod = role["task"]["pod"]
                new.setdefault(form(pod), (f"{name}: role {role['name']}", pod))
        new = {key: row for key, row in new.items() if key not in self.seen_templates}
        self.seen_templates |= new.keys()
        self.templates += len(new)
        for (what, _), said in zip(new.values(), pool.map(lambda row: self.ask(filled_in(row[1])), new.values())):
            self.check.equal(f"{what} is a pod and a pod template", said, [None, None])

    def ask(self, pod):
        metadata = {**pod.get("metadata", {}), "name": "probe", "namespace": "default"}
        body, said = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod["spec"]}, []

        def known():
            said[:] = [self.cluster.dry_run("Pod", body)]
            return "no PriorityClass" not in (said[0] or "")  # its admission gets new ones by a watch
        wait_until(known)
        return said + [self.cluster.dry_run("PodTemplate", {
            "apiVersion": "v1", "kind": "PodTemplate",
            "metadata": {"name": "probe", "namespace": "default"}, "template": pod})]


def submit_all(check, cluster, profile, options):
    examples = job_files("examples/*.json", "examples/*.yaml")
    corpus = job_files("tests/corpus/v2-valid/*", "tests/corpus/v1-valid/*")
    if not WHOLE:
        # Each file once, in one of the two profiles.
        corpus = corpus[profile == "openpai"::2]
    files = examples + corpus
    with cluster.serve("--profile", profile, "--facts", FACTS, *options) as server:
        jobs = Jobs(check, cluster, server, profile, options)
        jobs.run(files)
        check.equal(f"{profile}: exit status", server.stop(), 0)
        check.ok(f"{profile}: no private key in the log", "Marker-private-key" not in server.settled_log())
    print(f"     {profile}: {len(files)} files, {jobs.translated} translated, {jobs.accepted} submitted, {jobs.refused} refused, "
          f"{jobs.dependents} dependents, {jobs.templates} pod templates", flush=True)
    check.ok(f"{profile}: nearly all are accepted", jobs.translated >= 0.95 * len(files), jobs.translated)
    check.ok(f"{profile}: many were submitted", jobs.accepted >= 40, jobs.accepted)
    for kind in ("Framework", "Secret", "ConfigMap", "PriorityClass"):
        check.equal(f"{profile}: {kind}s left", [n for n in cluster.names(kind) if OF_JOB.match(n)], [])


def submit_with_configmap(check, cluster):
    """A large environment is stored in a ConfigMap; here, the limit is a few bytes."""
    options = ["--max-env-inline", "64"]
    with cluster.serve("--facts", FACTS, *options) as server:
        jobs = Jobs(check, cluster, server, "plain", options)
        jobs.run(job_files("examples/distributed.yaml", "examples/tfDemo.json"))
        made = jobs.kinds["ConfigMap"]
        check.ok("there were ConfigMaps", made >= 2, made)
