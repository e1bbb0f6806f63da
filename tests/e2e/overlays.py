"""Combinations of overlays: the API server accepts each resulting pod, as a Pod and as a
PodTemplate. The test translates all jobs of the corpus in the settings below, which contain all
combinations of any two settings, because conflicts are between two overlays.  It submits no jobs
and checks pods of the same form once."""
import concurrent.futures
import http.client
import itertools
import json
import os
import tempfile

from harness import ROOT, SLOW, Server, job_v2
from jobs import FACTS, THREADS, content_type, filled_in, form, is_v1, job_files
from pod_security import broken
from program import program
from templates import changes, lay_out

CLASS = "0123456789abcdef0123456789abcdef-priority"
HIVED = """\
physicalCluster:
  skuTypes:
    GPU: {gpu: 1, cpu: 64, memory: 1024Gi}
  cellTypes:
    NODE: {childCellType: GPU, childCellNumber: 16, isNodeLevel: true}
    POOL: {childCellType: NODE, childCellNumber: 100}
  physicalCells:
  - cellType: POOL
virtualClusters:
  default:
    virtualCells:
    - {cellType: POOL.NODE, cellNumber: 50}
"""
# Properties of jobs, in addition to the corpus, and settings of servers.
TRAITS = ("fuse", "hostNetwork", "infiniband", "gpu", "auth", "secrets", "storages")
SETTINGS = ("configmap", "pull", "env", "hived", "priority", "nobody", "own-init")


def every_two(factors):
    """Sets of factors that contain all combinations of any two factors."""
    columns = dict(zip(factors, itertools.combinations(range(5), 3)))
    rows = [{f for f in factors if row in columns[f]} for row in range(5)]
    return [set(), set(factors), *rows]


def job_with(traits):
    options = {t: True for t in TRAITS[:3] if t in traits}
    job = json.loads(job_v2("traits"))
    role = job["taskRoles"]["worker"]
    role["resourcePerInstance"]["gpu"] = int("gpu" in traits)
    role["extraContainerOptions"] = options
    if "secrets" in traits:
        job["secrets"] = {"key": "value"}
    if "auth" in traits:
        job["prerequisites"][0]["auth"] = {"username": "robot", "password": "x",
                                           "registryuri": "registry.example.com"}
    if "storages" in traits:
        job["extras"] = {"storages": [{"name": "privatenfs"}, {"name": "readonlynfs", "mountPath": "/ro"}]}
    return json.dumps(job).encode()


def arguments(profile, on, directory):
    found = ["--profile", profile, "--facts", FACTS]
    if "configmap" in on:
        found += ["--runtime", "configmap", "--runtime-binary", program()]
        if "own-init" in on:
            found += ["--runtime-image", "registry.example.com/init:1"]
    if "pull" in on:
        found += ["--runtime-pull-secret", "pull"]
    if "env" in on:
        found += ["--max-env-inline", "64"]
    if "hived" in on:
        path = os.path.join(directory, "hived.yaml")
        with open(path, "w", encoding="utf-8") as f:
            f.write(HIVED)
        found += ["--hived-config", path]
    if "priority" in on:
        found.append("--priority-class")
    return found


def pods_of(server, jobs):
    """Pods by form, each with its job; and the jobs with new forms of pods."""
    pods, tellers = {}, []
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60 * SLOW)
    for name, text, path, kind in jobs:
        connection.request("POST", path + "?dryRun=true", text, {"Content-Type": kind})
        reply = connection.getresponse()
        body = reply.read()
        if reply.status != 200:
            continue
        new = {}
        for role in json.loads(body)["items"][-1]["spec"]["taskRoles"]:
            pod = role["task"]["pod"]
            new.setdefault(form(pod), (name, pod))
        if not new.keys() <= pods.keys():
            tellers.append((name, text, path, kind))
        pods = {**new, **pods}
    connection.close()
    return pods, tellers


def all_jobs():
    jobs = [(f"job with {sorted(t)}", job_with(t), "/api/v2/jobs", "application/json")
            for t in every_two(TRAITS)]
    for path in job_files("examples/*.json", "examples/*.yaml", "tests/corpus/v2-valid/*",
                          "tests/corpus/v2-edge/*", "tests/corpus/v1-valid/*"):
        with open(path, "rb") as f:
            jobs.append((os.path.relpath(path, ROOT), f.read(),
                         "/api/v1/jobs" if is_v1(path) else "/api/v2/jobs", content_type(path)))
    return jobs


def ask(cluster, pod):
    """The errors of the API server for the Pod and the PodTemplate; None if it accepts them."""
    pod = filled_in(pod)
    if "priorityClassName" in pod["spec"]:
        pod["spec"]["priorityClassName"] = CLASS  # an existing class
    metadata = {**pod.get("metadata", {}), "name": "probe", "namespace": "default"}
    return [cluster.dry_run("Pod", {"apiVersion": "v1", "kind": "Pod", "metadata": metadata,
                                    "spec": pod["spec"]}),
            cluster.dry_run("PodTemplate", {"apiVersion": "v1", "kind": "PodTemplate", "template": pod,
                                            "metadata": {"name": "probe", "namespace": "default"}})]


def ask_all(check, cluster, what, pods):
    with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
        for (name, _), said in zip(pods.values(), pool.map(lambda p: ask(cluster, p[1]), pods.values())):
            check.equal(f"{what}, {name}", said, [None, None])


def serve(arguments, user="alice"):
    return Server("--engine=none", "--local", "jobs", *arguments, user=user)


def test_overlays_in_all_pairs_yield_valid_pods(check, cluster):
    cluster.api("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", {
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": CLASS},
        "value": -1})
    jobs, asked = all_jobs(), set()
    with tempfile.TemporaryDirectory(prefix="rest-lit-overlays.") as directory:
        for on, profile in itertools.product(every_two(SETTINGS), ("plain", "openpai", "restricted")):
            what = f"{profile} with {sorted(on)}"
            with serve(arguments(profile, on, directory), "bob" if "nobody" in on else "alice") as server:
                pods, tellers = pods_of(server, jobs)
            if not asked:
                jobs = tellers  # the other jobs have no further forms
            check.ok(f"{what}: there are pods", len(pods) >= (3 if profile == "restricted" else 4), len(pods))
            if profile == "restricted":
                for name, pod in pods.values():
                    check.equal(f"{what}, {name}: its level", broken(pod), {})
            pods = {k: v for k, v in pods.items() if k not in asked}
            asked |= pods.keys()
            ask_all(check, cluster, what, pods)
    cluster.delete("PriorityClass", CLASS)
    print(f"     {len(jobs)} jobs bring up all forms, {len(asked)} pods were asked about", flush=True)
    check.ok("there are many forms", len(asked) >= 100, len(asked))


def test_documented_template_changes_yield_valid_pods(check, cluster):
    """The pods of docs/TEMPLATES.md."""
    jobs = all_jobs()[:16]
    for title, files, _, _ in changes():
        with tempfile.TemporaryDirectory(prefix="rest-lit-templates.") as directory:
            lay_out(directory, files)
            with serve(["--facts", FACTS, "--templates", os.path.join(directory, "templates")]) as server:
                ask_all(check, cluster, title, pods_of(server, jobs)[0])
