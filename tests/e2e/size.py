"""Large jobs on a real API server: the environment in a ConfigMap, and the maximum Framework."""
import json

from harness import framework_name, job_v2, run

DEFAULT_MAX = 1408 * 1024  # max-object
KIB = 1024


def large(name, roles, instances, command="echo"):
    value = json.loads(job_v2(name))
    worker = {**value["taskRoles"]["worker"], "instances": instances, "commands": [command]}
    value["taskRoles"] = {f"role_{i}": worker for i in range(roles)}
    return json.dumps(value)


def remove(cluster, name):
    cluster.delete("Framework", name)
    cluster.delete("ConfigMap", name + "-env")


def test_hundred_roles_fit_into_700_kib(check, cluster):
    """100 roles of 50 tasks: below 700 KiB, in a Framework and a ConfigMap that it owns."""
    text = large("hundred", 100, 50)
    name = framework_name("hundred")
    for profile in "plain", "openpai":
        done = run("translate", "--user", "alice", "--profile", profile, "-", text=text.encode())
        items = json.loads(done.stdout)["items"]
        check.equal(f"{profile}: objects", [i["kind"] for i in items], ["ConfigMap", "Framework"])
        size = sum(len(json.dumps(i, separators=(",", ":"), ensure_ascii=False).encode()) for i in items)
        print(f"     {profile}: 100 roles x 50 tasks: {size} bytes", flush=True)
        check.ok(f"{profile}: below 700 KiB", size < 700 * KIB, size)
        with cluster.serve("--profile", profile) as server:
            reply = server.submit(text)
            check.equal(f"{profile}: 202", reply.status, 202)
        framework = cluster.get("Framework", name)
        check.equal(f"{profile}: roles", len(framework["spec"]["taskRoles"]), 100)
        check.equal(f"{profile}: is started", framework["spec"]["executionType"], "Start")
        owned = cluster.get("ConfigMap", name + "-env")
        check.equal(f"{profile}: the ConfigMap is owned",
                    [(o["kind"], o["uid"]) for o in owned["metadata"]["ownerReferences"]],
                    [("Framework", framework["metadata"]["uid"])])
        check.equal(f"{profile}: it has the environment of all roles",
                    sum(k.startswith("PAI_RESOURCE_") for k in owned["data"]), 100)
        remove(cluster, name)


def test_largest_framework_is_accepted_by_etcd(check, cluster):
    """etcd accepts Frameworks up to max-object, including all additions."""
    value = json.loads(large("largest", 20, 1, "<% $parameters.c %>"))

    def text(n):  # one parameter in all commands: the stored job stays small
        return json.dumps({**value, "parameters": {"c": "y" * n}})

    fits, above = 1000, 131000
    while above - fits > 1:
        n = (fits + above) // 2
        done = run("translate", "--user", "alice", "--max-rendered", "4MiB", "-", text=text(n).encode())
        fits, above = (n, above) if done.returncode == 0 else (fits, n)
    with cluster.serve("--max-body", "1MiB", "--max-rendered", "4MiB") as server:
        # Marks of the submission are not in what translate prints.
        check.equal("too large by a hair: 413", server.submit(text(above)).status, 413)
        reply = server.submit(text(fits - 20))
        check.equal("as large as may be: 202", (reply.status, reply.message)[0], 202)
        there = cluster.get("Framework", framework_name("largest"))
        stored = len(json.dumps(there, separators=(",", ":")).encode()) if there else 0
        print(f"     largest: {stored} bytes are stored", flush=True)
        check.ok("... and it is nearly so", stored > DEFAULT_MAX - 64 * KIB, stored)
        remove(cluster, framework_name("largest"))
