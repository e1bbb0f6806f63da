"""MxJobs and launcher manifests with a real API server: their objects, and the check of their pods."""
from harness import framework_name
from jobs import FACTS, Jobs, job_files

FILES = job_files("tests/corpus/mxjob/03*", "tests/corpus/mxjob/04*", "tests/corpus/mxjob/05*",
                  "tests/corpus/mxjob/07*", "tests/corpus/launcher/*")
# More requested than the limit: the API server knows this rule, this program does not.
ABOVE = """apiVersion: frameworkcontroller.microsoft.com/v1
kind: Framework
metadata: {name: above}
spec:
  taskRoles:
    - name: fine
      taskNumber: 1
      task: {pod: {spec: {restartPolicy: Never, containers: [{name: a, image: i, command: [x]}]}}}
    - name: w
      taskNumber: 1
      task:
        pod:
          spec:
            restartPolicy: Never
            containers:
              - {name: a, image: i, command: [x], resources: {limits: {cpu: 1}, requests: {cpu: 2}}}
"""


def test_dialects_of_all_kinds_are_accepted(check, cluster):
    for profile in ("plain", "openpai", "restricted"):
        options = ["--profile", profile, "--facts", FACTS]
        with cluster.serve("--dialects", "mxjob,launcher", *options) as server:
            jobs = Jobs(check, cluster, server, profile, ["--facts", FACTS])
            jobs.run(FILES)
            check.equal(f"{profile}: accepted", jobs.translated, len(FILES))
            check.ok(f"{profile}: submitted", jobs.accepted >= 3, jobs.accepted)
            check.ok(f"{profile}: pods were looked at", jobs.templates >= 3 or profile != "plain", jobs.templates)


def test_dialects_have_their_pods_checked(check, cluster):
    with cluster.serve("--dialects", "launcher") as server:
        reply = server.submit(ABOVE)
        check.equal("refused by the API server", (reply.status, reply.code), (400, "InvalidProtocolError"))
        for word in ("the pod of task role w", "containers[0].resources.requests"):
            check.ok(f"it says {word}", word in reply.message, reply.message)
        check.ok("no Framework", cluster.get("Framework", framework_name("above")) is None)
        check.equal("no PodTemplate", cluster.names("PodTemplate"), set())
        check.equal("as a dry run too", server.submit(ABOVE, path="/api/v2/jobs?dryRun=server").status, 400)


def test_dialects_of_hostile_pods_yield_valid_pods(check, cluster):
    """The API server accepts the pods of hostile jobs after the removal of fields, and a pod with
    all permitted fields."""
    with open("tests/hostile/expect-pods.tsv", encoding="utf-8") as f:
        rows = [line.split("\t") for line in f if not line.startswith("#")]
    names = sorted({row[0] for row in rows if row[1] == "202"})
    check.ok("there are some", len(names) >= 25, names)
    with cluster.serve("--dialects", "launcher", "--facts", FACTS) as server:
        for name in names:
            with open(f"tests/hostile/cases/{name}", encoding="utf-8") as f:
                reply = server.submit(f.read(), path="/api/v2/jobs?dryRun=server")
            check.equal(name, (reply.status, reply.message), (200, ""))
