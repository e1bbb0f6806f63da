"""Requests around a submission and the order of refusals: forms, users, storages, virtual clusters,
existence of jobs, Idempotency-Key, OpenAPI."""
import hashlib
import hmac
import json
import os
import re
import signal
import subprocess
import tempfile
from urllib.parse import urlencode

from fakeapi import FakeApi, fake_server, served
from harness import (BINARY, ROOT, Server, database_objects, framework_name, in_threads, job_v1, job_v2, job_v2_secret, request_bytes,
                     route_table, run, wait_until)
from lists import snapshot
from place import STORED, Place, events
from tokens import SECRET, basic, bearer, token, write_file

JSON_TYPE = "application/json; charset=utf-8"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
JSON = {"Content-Type": "application/json"}
PREFIXES = ("", "/rest-server")
MARKER = "Marker-of-a-private-key-4711"
FACTS = {
    "virtualClusters": ["default", "v100"],
    "storages": [{"name": "data", "default": True}, {"name": "models"}],
    "groups": {"admins": {"admin": True}, "vision": {"virtualClusters": ["v100"],
                                                     "storages": ["models"]}},
    "users": {
        "alice": {"virtualClusters": ["default"], "storages": ["data"], "groups": ["vision"],
                  "extension": {"jobSSH": {"key": "-----BEGIN " + MARKER, "pubKey": "ssh-rsa x"},
                                "githubPAT": MARKER, "anything": MARKER}},
        "bob": {"virtualClusters": ["default"], "storages": ["data"], "groups": []},
        "root": {"groups": ["admins"]},
    }}


class TokenServer:
    """A server on a directory, with tokens and a facts file."""

    def __init__(self, *arguments, facts=None):
        self.directory = tempfile.mkdtemp(prefix="rest-lit-clients.")
        self.facts = write_file(self.directory, "facts.json", json.dumps(facts or FACTS))
        self.secret = write_file(self.directory, "jwt-secret", SECRET)
        self.server = Server("--engine=none", "--local", "jobs", "--facts", self.facts, "--jwt-secret-file",
                             self.secret, "--token-check", "signature", "--rate-address", "0",
                             "--connections-per-address", "0", *arguments,
                             who=[], directory=self.directory)

    def __enter__(self):
        return self.server

    def __exit__(self, *_):
        self.server.remove()


def get(server, path, headers=None):
    """The response to GET, which is the same with both prefixes."""
    replies = [server.request("GET", prefix + path, headers=headers) for prefix in PREFIXES]
    if replies[0].body != replies[1].body or replies[0].status != replies[1].status:
        raise AssertionError(f"{path}: {replies}")
    return replies[0]


def documented(check, server):
    """The OpenAPI document contains each refusal that this server has logged."""
    paths = json.loads(run("page", "openapi").stdout)["paths"]
    seen = set()
    server.settled_log()
    for line in events(server, "request"):
        if line.get("code"):
            path = line["path"].removeprefix("/rest-server").rstrip("/")
            seen.add((line["method"].lower(), path, str(line["status"]), line["code"]))
    check.ok("refusals to look up", seen, seen)
    for method, path, status, code in seen:
        rows = [item[method] for template, item in paths.items() if method in item and
                re.fullmatch(re.sub(r"\{[^}]*\}", "[^/]+", template), path)]
        if code in ("InvalidRequestError", "NoApiError", "MethodNotAllowedError", "RefusedByLibrary"):
            continue  # of no route
        check.ok(f"{method} {path}: {status} {code} is documented", any(
            code in row["responses"].get(status, {}).get("description", "") for row in rows), rows)


# ---- forms ------------------------------------------------------------------------------
def nested(value, name=""):
    """Pairs as the library `qs` writes them, which clients of PAI use."""
    if isinstance(value, dict):
        for k, v in value.items():
            yield from nested(v, f"{name}[{k}]" if name else k)
    elif isinstance(value, list):
        for i, v in enumerate(value):
            yield from nested(v, f"{name}[{i}]")
    else:
        yield name, "" if value is None else value


def form_job(name, **more):
    return {"jobName": name, "image": "ubuntu:22.04", "retryCount": 3, "virtualCluster": "default",
            "jobEnvs": {"ONE": "1", "TWO": "a b&c=d"},
            "taskRoles": [
                {"name": "main", "taskNumber": 2, "cpuNumber": 1, "memoryMB": 512, "gpuNumber": 0,
                 "minFailedTaskCount": 1, "minSucceededTaskCount": None,
                 "portList": [{"label": "web", "beginAt": 0, "portNumber": 2}],
                 "command": "echo 'a+b & ü' && true"},
                {"name": "ps", "command": "sleep 1"}], **more}


def stored(server, name, user="alice"):
    return database_objects(os.path.join(server.directory, "jobs"), framework_name(name, user))[0]


def test_forms_create_the_same_job_as_json(check):
    with Server("--engine=none", "--local", "jobs") as server:
        form = urlencode(list(nested(form_job("form"))))
        reply = server.submit(form, FORM, "/api/v1/user/alice/jobs")
        check.equal("form: status", reply.status, 202)
        check.ok("form: no warnings of numbers that are text", "warnings" not in reply.json, reply)
        reply = server.submit(json.dumps(form_job("json")), JSON, "/api/v1/user/alice/jobs")
        check.equal("the same as JSON: status", reply.status, 202)
        made = [json.dumps(stored(server, name)["spec"]).replace(framework_name(name), "HASH")
                .replace(name, "NAME") for name in ("form", "json")]
        check.equal("a form makes the same job as JSON", made[0], made[1])
        config = json.loads(stored(server, "form")["metadata"]["annotations"]["config"])
        check.equal("... and what is stored of it is JSON", config, form_job("form"))
        for method, path in (("PUT", "/api/v1/user/alice/jobs/put"), ("POST", "/api/v1/jobs")):
            name = "put" if method == "PUT" else "post"
            reply = server.submit(urlencode(list(nested(form_job(name)))), FORM, path, method)
            check.equal(f"form by {method}: status", reply.status, 202)
        # curl sends this content type with every body.
        reply = server.submit(job_v1("curl"), FORM, "/api/v1/jobs")
        check.equal("JSON that is called a form", reply.status, 202)
        check.refused("a form for v2", server.submit(form, FORM), 400, "InvalidProtocolError", "--data-binary @job.yaml")


def test_form_errors_are_named_by_pointers(check):
    with Server("--engine=none", "--local", "jobs") as server:
        def post(form):
            return server.submit(form, FORM, "/api/v1/jobs")

        job = form_job("wrong")
        job["taskRoles"][1]["taskNumber"] = "x"
        job["imag"] = 1
        reply = post(urlencode(list(nested(job))))
        check.refused("wrong members", reply, 400, "InvalidParametersError")
        errors = (reply.json or {}).get("errors", [])
        check.ok("... are named by pointers", {"/taskRoles/1/taskNumber", "/imag"} <=
                 {e.get("pointer") for e in errors}, errors)
        check.ok("... without unseen lines",
                 not any("line" in e or "column" in e for e in errors), errors)
        for what, form, word in (
                ("twice", "jobName=a&jobName=b", "pair 2"), ("open bracket", "a[b=1", "brackets"),
                ("NUL", "jobName=%00", "NUL"), ("no UTF-8", "jobName=%ff", "UTF-8"),
                ("too deep", "a[b][c][d][e][f][g]=1", "at most 5"),
                ("far too deep", "a" + "[0]" * 20000 + "=1", "at most 5"),
                ("too far", "a[999999999]=1", "999"), ("a hole", "a[5]=1", "item 5"),
                ("too many", "&".join(f"a{i}=1" for i in range(1001)), "1000")):
            check.refused(f"form ({what})", post(form), 400, "InvalidParametersError", word)
        check.refused("form (nothing)", post(""), 400, "InvalidParametersError")
        check.refused("JSON for v1 (cut off)", server.submit('{"jobName": "x"', JSON, "/api/v1/jobs"),
              400, "InvalidParametersError")
        check.refused("v2 at v1 (wrong)", server.submit(job_v2("x", nam=1), path="/api/v1/jobs"),
              400, "InvalidProtocolError", "nam")
        documented(check, server)


# ---- order of refusals --------------------------------------------------------------------
def test_refusals_have_a_fixed_precedence(check):
    """Precedence of errors, for every pair of neighbours."""
    with TokenServer("--rate-submit", "30") as server:
        alice, bob = bearer(token("alice")), bearer(token("bob"))

        def post(body, headers=alice, path="/api/v2/jobs"):
            return server.submit(body, {"Content-Type": "text/yaml", **headers}, path)

        large = "#" * 200000
        cross = {"prerequisites": [{"name": "other", "type": "dockerimage", "uri": "a:1"}]}
        cluster = {"defaults": {"virtualCluster": "nobodys"}}
        storage = {"extras": {"storages": [{"name": "nobodys", "mountPath": "/mnt/x"}]}}
        replies, _ = server.raw(b"POST /api/v2/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n"
                                b"Content-Type: text/yaml\r\nContent-Type: text/html\r\n\r\n", 3, 1)
        check.refused("framing, then 413", replies and replies[0], 400, "InvalidRequestError")
        check.refused("413, then 401", post(large, {}), 413, "PayloadTooLargeError")
        check.refused("401, then parse", post("name: [", {}), 401, "UnauthorizedUserError")
        check.refused("path's user, then parse", post("name: [", path="/api/v1/user/bob/jobs"), 403,
              "ForbiddenUserError")
        check.refused("parse, then schema", post("nam: x\nname: [", alice), 400,
              "InvalidProtocolError", "line")
        check.refused("schema, then cross checks", post(job_v2("a", nam=1, **cross)), 400,
              "InvalidProtocolError", "nam")
        check.refused("cross checks, then virtual cluster", post(job_v2("a", **cross, **cluster)),
              400, "InvalidProtocolError")
        check.refused("virtual cluster, then storage", post(job_v2("a", **cluster, **storage)), 403,
              "ForbiddenUserError")
        check.equal("the name is taken", post(job_v2("taken")).status, 202)
        check.refused("storage, then conflict", post(job_v2("taken", **storage)), 404,
              "NoStorageError")
        check.refused("virtual cluster, then conflict", post(job_v2("taken", **cluster)), 403,
              "ForbiddenUserError")
        check.refused("conflict", post(job_v2("taken")), 409, "ConflictJobError")
        check.equal("another's name is another name", post(job_v2("taken"), bob).status, 202)
        for _ in range(40):
            last = post("x")
        check.refused("429, then parse", last, 429, "TooManyRequestsError")
        check.refused("401, then 429", post("x", bearer("x" + token("alice")[1:])), 401,
              "UnauthorizedUserError")
        check.ok("429 says when", int(last.headers.get("retry-after", 0)) >= 1, last)
        documented(check, server)


def test_users_cannot_submit_for_others(check):
    """Users, including admins, cannot submit for others."""
    with TokenServer() as server:
        for who, user in (("alice", "bob"), ("root", "bob"), ("alice", "Alice"), ("alice", "x~y")):
            for method, path in (("PUT", f"/api/v1/user/{user}/jobs/j"),
                                 ("POST", f"/api/v1/user/{user}/jobs")):
                reply = server.request(method, path, job_v1("j"), {**JSON, **bearer(token(who))})
                check.refused(f"{who} at {method} {path}", reply, 403, "ForbiddenUserError")
        reply = server.request("PUT", "/api/v1/user/alice/jobs/other", job_v1("j"),
                               {**JSON, **bearer(token())})
        check.refused("another name in the path", reply, 400, "InvalidParametersError", "other")
        reply = server.request("PUT", "/api/v1/user/alice/jobs/j", job_v1("j"),
                               {**JSON, **basic("alice", token(application=True))})
        check.equal("oneself, by an application token", reply.status, 202)
        check.refused("nothing was made for bob", get(
            server, "/api/v1/user/bob/jobs/j", bearer(token())), 404, "NoJobError")


def test_every_route_without_token_is_refused_or_public(check):
    """Each row of the table: refused as JSON, or for anyone."""
    with TokenServer() as server:
        rows = route_table()
        check.ok("routes to try", len(rows) > 20, rows)
        for method, path, who, _ in rows:
            method = "PATCH" if method == "any" else method
            for prefix in PREFIXES:
                for slash in ("", "/" if path != "/" else ""):
                    real = prefix + re.sub(r"\{[^}]*\}", "alice", path) + slash
                    if real == "/rest-server/":
                        continue
                    body = "{}" if method in ("POST", "PUT", "DELETE") else None
                    kind = ({"Content-Type": "application/gzip"} if "/code/" in real else
                            {"Content-Type": "application/octet-stream"} if "/sessions/" in real else JSON)
                    reply = server.request(method, real, body, kind)
                    what = f"{method} {real}"
                    if who == "all":
                        check.ok(f"{what}: not 401", reply and reply.status != 401, reply)
                        check.ok(f"{what}: is served", reply.code != "NoApiError", reply)
                    else:
                        check.refused(what, reply, 401, "UnauthorizedUserError")
        check.refused("no such route", server.request("GET", "/api/v2/nothing"), 404, "NoApiError")
        check.refused("no such method", server.request("PATCH", "/api/v2/jobs"), 405,
              "MethodNotAllowedError")
        documented(check, server)


# ---- before and after a submission -------------------------------------------------------
def test_info_routes_describe_the_server(check):
    with TokenServer() as server:
        for method in ("GET", "POST", "PUT", "DELETE"):
            for path in ("/api/v1/", "/api/v1", "/api/v2/", "/api/v2/info", "/rest-server/api/v1"):
                reply = server.request(method, path, "{}" if method != "GET" else None, JSON)
                check.equal(f"{method} {path}: status", reply.status, 200)
                check.equal(f"{method} {path}: launcherType", (reply.json or {}).get("launcherType"),
                            "k8s")
        check.ok("info: members", {"name", "version", "authnMethod"} <=
                 set(get(server, "/api/v2/info").json), get(server, "/api/v2/info"))
        check.equal("info: no page for logging in", get(server, "/api/v2/info").json["authnMethod"], "basic")
        for path in ("/api/v1/authn/info", "/api/v2/authn/info"):
            check.equal(f"{path}: members", set(get(server, path).json),
                        {"authn_type", "loginURI", "loginURIMethod", "passwords", "issuers"})
        # The Python SDK sends its GET requests with such a body.
        reply = server.request("GET", "/rest-server/api/v1", "{}", JSON)
        check.equal("GET with a body", reply.status, 200)


def test_vs_code_probe_recognizes_protocol_2(check):
    """Any code but NoApiError tells the extension that this is protocol 2."""
    path = "/api/v2/jobs/protocolversion/config"
    with TokenServer() as server:
        check.refused("probe without token", get(server, path), 401, "UnauthorizedUserError")
    with Server("--engine=none", "--local", "jobs") as server:
        check.refused("probe without logins", get(server, path), 404, "NoJobError")
        check.refused("no such job (v1)", get(server, "/api/v1/user/alice/jobs/x"), 404, "NoJobError")
        for id_ in ("alice~x", "x", "~", "alice~", "alice%7Ex"):
            check.refused(f"no such job ({id_})", get(server, f"/api/v2/jobs/{id_}"), 404,
                  "NoJobError")


def test_job_that_the_api_server_forbids_is_500(check):
    with served() as (api, server):
        api.every(status=403)
        check.refused("the API server forbids", get(server, "/api/v2/jobs/alice~unseen"), 500,
              "UnknownError", "frameworks")
        documented(check, server)


def test_user_routes_hide_keys(check):
    with TokenServer() as server:
        for path in ("/api/v2/users/alice", "/api/v2/user/alice", "/api/v1/user/alice",
                     "/api/v2/users/alice/"):
            reply = get(server, path, bearer(token()))
            check.equal(f"{path}: whole", reply.json, {
                "username": "alice", "email": "", "grouplist": ["vision"],
                "extension": {"jobSSH": {"pubKey": "ssh-rsa x"}}, "admin": False,
                "virtualCluster": ["default", "v100"], "storageConfig": ["data", "models"],
                "overlays": []})
        for who in ("bob", "root", "alice"):
            reply = get(server, "/api/v2/users/alice", bearer(token(who)))
            check.equal(f"alice's extension for {who}", "extension" in reply.json, who != "bob")
            check.ok(f"no key of alice for {who}", MARKER.encode() not in reply.body, reply)
        check.equal("root is an admin", get(server, "/api/v2/users/root",
                                            bearer(token("bob"))).json.get("admin"), True)
        for name in ("carol", "a%20b", "-", "x" * 100):
            check.refused(f"no user {name}", get(server, f"/api/v2/users/{name}", bearer(token())),
                  400, "NoUserError")
        for path in ("/api/v2/users", "/api/v2/users/", "/api/v2/user"):
            reply = get(server, path, bearer(token("bob")))
            check.equal(f"{path}: all that are listed", sorted(u["username"] for u in reply.json),
                        ["alice", "bob", "root"])
            check.ok(f"{path}: no keys", MARKER.encode() not in reply.body, reply)
        documented(check, server)
        # A user who is not in the file may have a valid token.
        check.equal("a user of his own", get(server, "/api/v2/users/carol",
                                             bearer(token("carol"))).json.get("username"), "carol")


def test_users_see_their_storages_and_virtual_clusters(check):
    with TokenServer() as server:
        alice, bob = bearer(token()), bearer(token("bob"))
        names = [s["name"] for s in get(server, "/api/v2/storages", alice).json["storages"]]
        check.equal("alice's storages", names, ["data", "models"])
        names = [s["name"] for s in get(server, "/api/v2/storages?default=true",
                                        alice).json["storages"]]
        check.equal("alice's default storages", names, ["data"])
        check.equal("a storage", get(server, "/api/v2/storages/models", alice).json, {
            "name": "models", "share": True, "volumeName": "", "default": False, "type": "unknown",
            "data": {}, "readOnly": False})
        for name in ("models", "nothing"):
            check.refused(f"bob's storage {name}", get(server, f"/api/v2/storages/{name}", bob), 404,
                  "NoStorageError")
        for path in ("/api/v2/virtual-clusters", "/api/v1/virtual-clusters"):
            clusters = get(server, path, alice).json
            check.equal(f"{path}: names", sorted(clusters), ["default", "v100"])
            one = clusters["default"]
            # Members that the Python SDK and the portal use.
            check.ok(f"{path}: resources", all(
                isinstance(one[k].get(r), int) for k in
                ("resourcesUsed", "resourcesGuaranteed", "resourcesTotal")
                for r in ("cpu", "memory", "gpu", "vCores", "GPUs")), one)
            check.equal(f"{path}?nodes", get(server, path + "?nodes", alice).json, {})
        check.equal("one", get(server, "/api/v2/virtual-clusters/v100", alice).json, one)
        check.refused("none", get(server, "/api/v2/virtual-clusters/x", alice), 404,
              "NoVirtualClusterError")
        documented(check, server)
        check.equal("SKU types", get(server, "/api/v2/cluster/sku-types?vc=default", alice).json, {})


def test_virtual_cluster_use_counts_running_jobs(check):
    """The use of a virtual cluster by running jobs; its capacity, from the file."""
    facts = {**FACTS, "capacity": {"default": {"gpu": 16, "cpu": 64, "memoryMB": 262144}}}
    api = FakeApi()
    for o in (snapshot("06-AttemptRunning", "alice", "runs", totalGpuNumber="4"),
              snapshot("06-AttemptRunning", "bob", "too", totalGpuNumber="4"),
              snapshot("06-AttemptRunning", "bob", "elsewhere", "v100", totalGpuNumber="4"),
              snapshot("11-Completed-succeeded", "bob", "done"), snapshot("12-Completed-failed", "bob", "failed")):
        api.put("frameworks", o)
    directory = tempfile.mkdtemp(prefix="rest-lit-use.")
    with fake_server(api, "--facts", write_file(directory, "facts.json", json.dumps(facts))) as server:
        check.ok("jobs are known", server.ready())
        seen = get(server, "/api/v2/virtual-clusters").json
        used = {"cpu": 32, "memory": 65536, "gpu": 8, "vCores": 32, "GPUs": 8}
        check.equal("two of them run", seen["default"]["resourcesUsed"], used)
        check.equal("of these", seen["default"]["resourcesTotal"],
                    {"cpu": 64, "memory": 262144, "gpu": 16, "vCores": 64, "GPUs": 16})
        check.equal("per cent", seen["default"]["usedCapacity"], 50)
        check.equal("of what is not said, what is used", seen["v100"]["resourcesTotal"], seen["v100"]["resourcesUsed"])
        check.equal("... which is this", seen["v100"]["resourcesUsed"]["GPUs"], 4)
        check.equal("one", get(server, "/api/v2/virtual-clusters/v100").json, seen["v100"])


def test_results_in_a_cluster_are_named(check):
    """They are in a storage of the user; fetch says where, and ends with 2."""
    directory = tempfile.mkdtemp(prefix="rest-lit-results.")
    with served("--facts", write_file(directory, "facts.json", json.dumps(FACTS))) as (_, server):
        check.equal("with results", server.submit(job_v2("with", extras={"results": True})).status, 202)
        check.equal("without", server.submit(job_v2("without")).status, 202)
        for what in ("results", "results?archive=tar", "results/x"):
            reply = server.request("GET", f"/api/v2/jobs/alice~with/{what}")
            check.refused(what, reply, 404, "NoResultsError", "in the storage data,", "directory rest-lit-results/alice/with")
        check.refused("no results", server.request("GET", "/api/v2/jobs/alice~without/results"), 404, "NoResultsError", "extras.results")
        done = subprocess.run([BINARY, "fetch", "--server", f"http://127.0.0.1:{server.port}", "with", "-o", os.path.join(directory, "to")],
                              stderr=subprocess.PIPE, text=True)
        check.equal("fetch", (done.returncode, "in the storage data" in done.stderr), (2, True))
        check.ok("... leaves nothing", not os.path.exists(os.path.join(directory, "to")))


def test_nodes_show_their_free_gpus(check):
    """GPUs of each node, without those that tasks of running jobs use."""
    def node(name, gpus, **spec):
        api.put("nodes", {"metadata": {"name": name}, "spec": spec, "status": {"allocatable": {"nvidia.com/gpu": str(gpus)}}})

    def row(used, available, total):
        return {"gpuUsed": used, "gpuAvailable": available, "gpuTotal": total}

    def asks():
        return sum(r[1] == "/api/v1/nodes" for r in api.requests)

    def again(**fault):
        before = asks()
        api.faults.clear()
        if fault:
            api.fault("GET", "nodes", **fault)
        # The server ignores the signal while it checks the objects of pods, so the test repeats it.
        check.ok(f"{fault}: asked", wait_until(lambda: server.process.send_signal(signal.SIGHUP) or asks() > before))

    def seen():
        return server.request("GET", "/api/v2/virtual-clusters?nodes").json

    api = FakeApi()
    node("node0", 4)
    node("node1", 2)
    node("node2", 8, unschedulable=True, taints=[{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}])
    node("node3", 8, taints=[{"key": "site/gpu", "effect": "NoSchedule"}])
    node("none", 0)
    api.put("frameworks", snapshot("06-AttemptRunning", "alice", "runs", totalGpuNumber="4"))  # of which node1 has two tasks
    api.put("frameworks", snapshot("11-Completed-succeeded", "alice", "done", totalGpuNumber="4"))
    api.put("frameworks", snapshot("10-AttemptCompleted", "alice", "ends", totalGpuNumber="4"))
    cells = snapshot("06-AttemptRunning", "bob", "cells", "v100", totalGpuNumber="8")  # HiveD: no limits
    for role in cells["spec"]["taskRoles"]:
        pod = role["task"]["pod"]
        del pod["spec"]["containers"][0]["resources"]
        pod["metadata"].setdefault("annotations", {})["hivedscheduler.microsoft.com/pod-scheduling-spec"] = \
            "virtualCluster: v100\nleafCellNumber: 2\naffinityGroup:\n  members:\n    - leafCellNumber: 7\n"
    want = {"node0": row(1, 3, 4), "node1": row(2, 0, 2), "node2": row(1, 0, 8), "node3": row(0, 8, 8), "none": row(0, 0, 0)}
    with fake_server(api, "--profile", "openpai") as server:
        check.ok("jobs are known", server.ready())
        check.ok("nodes", wait_until(lambda: seen() == want), seen())
        check.equal("v1", get(server, "/api/v1/virtual-clusters?nodes").json, want)
        again(status=403)
        check.ok("without the right", wait_until(lambda: seen() == {}), seen())
        api.put("frameworks", cells)
        again()
        want.update({"node0": row(3, 1, 4), "node1": row(6, 0, 2), "node2": row(3, 0, 8)})
        check.ok("with it, and cells of HiveD", wait_until(lambda: seen() == want), seen())
        unread = snapshot("06-AttemptRunning", "bob", "unread", totalGpuNumber="2")
        unread["status"]["attemptStatus"].update({"taskRoleStatuses": None, "taskRoleStatusesCompressed": "AAAA"})
        api.put("frameworks", unread)
        again()
        want.update({"node0": row(3, 0, 4), "node3": row(0, 6, 8)})
        check.ok("GPUs on unknown nodes are not free", wait_until(lambda: seen() == want), seen())
        again(status=503)
        check.equal("in an outage the last ones", seen(), want)


def test_groups_are_those_of_the_user_or_all_for_admins(check):
    """Users see themselves, admins all users."""
    facts = {**FACTS, "groups": {**FACTS["groups"], "nlp": {"description": "the language team"}}}
    vision = {"groupname": "vision", "description": "", "externalName": "", "extension": {"acls": {
        "admin": False, "virtualClusters": ["v100"], "storageConfigs": ["models"]}}}
    with TokenServer(facts=facts) as server:
        check.equal("alice's", get(server, "/api/v2/groups", bearer(token("alice"))).json, [vision])
        check.equal("bob's", get(server, "/api/v2/groups", bearer(token("bob"))).json, [])
        seen = {g["groupname"]: g for g in get(server, "/api/v2/groups", bearer(token("root"))).json}
        check.equal("all", (sorted(seen), seen["vision"]), (["admins", "nlp", "vision"], vision))
        check.equal("what they are", (seen["nlp"]["description"], seen["admins"]["extension"]["acls"]["admin"]),
                    ("the language team", True))
        for path, items in (("/api/v2/kubernetes/nodes", "NodeList"), ("/api/v2/kubernetes/pods", "PodList")):
            check.refused(path, get(server, path, bearer(token("alice"))), 403, "ForbiddenUserError", "administrators")
            reply = get(server, path, bearer(token("root"))).json
            check.equal(f"{path}: for admins", (reply["kind"], reply["items"]), (items, []))
        check.equal("alerts", get(server, "/api/v2/alerts", bearer(token("alice"))).json, [])
        documented(check, server)


# ---- Idempotency-Key -----------------------------------------------------------------------
def key(text):
    return {"Idempotency-Key": text}


def test_idempotency_repeats_the_answer_of_a_key(check):
    with Server("--engine=none", "--local", "jobs") as server:
        body = job_v2("once")
        first = server.submit(body, key("k-1"))
        again = server.submit(body, key("k-1"))
        check.equal("first", (first.status, first.headers.get("idempotency-replayed")), (202, None))
        check.equal("again", (again.status, again.headers.get("idempotency-replayed")),
                    (202, "true"))
        check.equal("... the same answer", again.body, first.body)
        check.refused("another body", server.submit(body + " ", key("k-1")), 422, "IdempotencyError")
        check.refused("another key", server.submit(body, key("k-2")), 409, "ConflictJobError")
        check.refused("no key", server.submit(body), 409, "ConflictJobError")
        for bad in ("", "a b", "ü", "x" * 129):
            check.refused(f"key {bad[:5]!r}", server.submit(job_v2("bad"), key(bad)), 400,
                  "InvalidParametersError")
        replies, _ = server.raw(b"POST /api/v2/jobs HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"
                                b"Idempotency-Key: a\r\nIdempotency-Key: b\r\nContent-Length: 0\r\n\r\n"
                                % server.port, 3, 1)
        check.refused("two keys", replies and replies[0], 400, "InvalidRequestError")
        documented(check, server)
        check.equal("128 characters", server.submit(job_v2("long"), key("!~" * 64)).status, 202)
        secret = hashlib.sha256(b"k-1").digest()
        wanted = (hmac.new(secret, b"alice\0k-1", hashlib.sha256).hexdigest()[:32] + "-" +
                  hmac.new(secret, b"alice\0k-1\0" + body.encode(), hashlib.sha256).hexdigest())
        check.equal("what is kept", stored(server, "once")["metadata"]["annotations"].get(
            "rest-lit/idempotency"), wanted)


def test_idempotency_key_creates_one_job_per_user(check):
    """A key creates one job per user, also after a restart and for concurrent requests."""
    with TokenServer() as server:
        alice, bob = bearer(token("alice")), bearer(token("bob"))
        check.equal("first", server.submit(job_v2("one"), {**key("k"), **alice}).status, 202)
        check.refused("the same key for another job", server.submit(job_v2("two"), {**key("k"), **alice}),
              422, "IdempotencyError", "created job one")
        check.equal("... which is not made", server.request("GET", "/api/v2/jobs/alice~two", headers=alice).code, "NoJobError")
        check.equal("another user", server.submit(job_v2("two"), {**key("k"), **bob}).status, 202)
        documented(check, server)
        server.stop()
        server = Server(*server.arguments, who=[], directory=server.directory)
        check.ok("it knows the jobs again", server.ready())
        check.refused("after a restart", server.submit(job_v2("three"), {**key("k"), **alice}), 422, "IdempotencyError")
        again = server.submit(job_v2("one"), {**key("k"), **alice})
        check.equal("the first again", (again.status, again.headers.get("idempotency-replayed")), (202, "true"))
        check.equal("one's job is removed", server.request("DELETE", "/api/v1/user/alice/jobs/one", headers=alice).status, 202)
        check.equal("... and its key with it", server.submit(job_v2("four"), {**key("k"), **alice}).status, 202)
        server.stop()


def test_idempotency_key_of_concurrent_jobs_creates_one(check):
    api = FakeApi()
    api.fault("POST", "frameworks", delay=0.2)
    with fake_server(api) as server:
        replies = in_threads(8, lambda i: server.submit(job_v2(f"job{i}"), key("k")))
        said = [(r.status, r.code) for r in replies]
        check.equal("one is made", said.count((202, None)), 1)
        check.ok("the others are refused", all(s in ((202, None), (409, "IdempotencyError"), (422, "IdempotencyError"))
                                               for s in said), said)


def test_idempotency_hash_depends_on_secret_and_user(check):
    """The stored hash depends on the server's secret and on the user."""
    with TokenServer() as server:
        for user in ("alice", "bob"):
            reply = server.submit(job_v2("same"), {**key("k"), **bearer(token(user))})
            check.equal(f"{user} with the same key", reply.status, 202)
            check.ok(f"{user}: made now", "idempotency-replayed" not in reply.headers, reply)
        kept = {u: stored(server, "same", u)["metadata"]["annotations"]["rest-lit/idempotency"]
                for u in ("alice", "bob")}
        check.ok("differs by user", kept["alice"][:32] != kept["bob"][:32], kept)
        plain = hmac.new(hashlib.sha256(b"k").digest(), b"alice\0k", hashlib.sha256).hexdigest()
        check.ok("cannot be guessed without the secret", not kept["alice"].startswith(plain[:32]),
                 kept)


def test_idempotency_key_is_read_after_authentication(check):
    """The server reads the header after authentication, which may delay the request and its
    body."""
    with Place() as place:
        server = place.server(*STORED, "--token-cache", "0")
        text = token()
        place.store("alice", text)
        place.api.fault("GET", "secrets", delay=0.2)
        body = json.dumps(form_job("waits", jobEnvs={"LONG": "x" * 60000}))
        headers = {**JSON, **key("w" * 100), **bearer(text)}
        said = []
        for piece in (len(body), 7000):
            with server.connect() as c:
                c.send(request_bytes(server.port, "POST", "/api/v1/jobs", body.encode()[:0], {
                    **headers, "Content-Length": str(len(body))}))
                for at in range(0, len(body), piece):
                    c.send(body[at:at + piece].encode())
                reply = c.reply()
            said.append((reply.status, reply.headers.get("idempotency-replayed")))
        check.equal("made, and known again", said, [(202, None), (202, "true")])


def test_repetition_on_one_machine_creates_nothing(check):
    """A job with random parts, by its key, also after the server was killed."""
    key = {"Idempotency-Key": "local"}
    text = json.dumps({**json.loads(job_v2_secret("twice", "m")), "extras": {"distributed": {"framework": "mpi"}}})
    options = ("--priority-class", "--max-env-inline", "0")
    with Server("--engine=none", "--local", "jobs", *options) as server:
        where = os.path.join(server.directory, "jobs")
        check.equal("submitted", server.submit(text, key).status, 202)
        server.kill()
        made = database_objects(where, framework_name("twice"))
        check.equal("its objects", [o["kind"] for o in made], ["Framework", *3 * ["Secret"], "ConfigMap"])
        with Server("--engine=none", "--local", where, *options) as again:
            check.equal("another body", again.submit(text + " ", key).status, 422)
            check.equal("without a key", again.submit(text).code, "ConflictJobError")
            reply = again.submit(text, key)
            check.equal("repeated", (reply.status, reply.headers.get("idempotency-replayed")), (202, "true"))
            again.stop()
        check.equal("nothing has changed", database_objects(where, framework_name("twice")), made)


def test_idempotency_of_concurrent_repetitions_creates_one_job(check):
    """Impatient clients: one job, and no client gets a failure."""
    api = FakeApi()
    api.fault("POST", "frameworks", delay=0.2)
    with fake_server(api) as server:
        replies = in_threads(8, lambda i: server.submit(job_v2("storm"), key("k")))
        said = [(r.status, r.code) for r in replies]
        check.ok("all are told that it is there, or under way", all(
            s == (202, None) or s == (409, "IdempotencyError") for s in said), said)
        check.ok("one made it", sum(1 for r in replies if r.status == 202 and
                                    "idempotency-replayed" not in r.headers) == 1, said)


# ---- OpenAPI --------------------------------------------------------------------------------
SCHEMA_KEYS = {"title", "multipleOf", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum",
               "maxLength", "minLength", "pattern", "maxItems", "minItems", "uniqueItems",
               "maxProperties", "minProperties", "required", "enum", "type", "not", "allOf", "oneOf",
               "anyOf", "items", "properties", "additionalProperties", "description", "format",
               "default", "nullable"}


OPERATION_VERBS = "add|check|create|delete|get|keep|list|log|probe|put|remove|revoke|scale|stop|submit|update|upload|watch"
NUMBER = {"type": "integer", "minimum": 0, "maximum": 2**31 - 1}  # of an index, a retry, an attempt


def schema_faults(s, where):
    """Violations of OpenAPI 3.0."""
    if not isinstance(s, dict):
        yield f"{where}: no object"
        return
    if "$ref" in s:
        if len(s) > 1:
            yield f"{where}: something beside $ref"
        return
    for k in set(s) - SCHEMA_KEYS:
        yield f"{where}: {k}"
    if "type" in s and s["type"] not in ("object", "array", "string", "integer", "number", "boolean"):
        yield f"{where}: type {s['type']}"
    if s.get("type") == "array" and "items" not in s:
        yield f"{where}: array without items"
    if "nullable" in s and "type" not in s:
        yield f"{where}: nullable without type"
    for k in ("allOf", "oneOf", "anyOf"):
        for i, one in enumerate(s.get(k, [])):
            yield from schema_faults(one, f"{where}/{k}/{i}")
    for k, one in s.get("properties", {}).items():
        yield from schema_faults(one, f"{where}/properties/{k}")
    for k in ("items", "not"):
        if k in s:
            yield from schema_faults(s[k], f"{where}/{k}")
    if not isinstance(s.get("additionalProperties", True), bool):
        yield from schema_faults(s["additionalProperties"], f"{where}/additionalProperties")


def references(value):
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for v in value.values():
            yield from references(v)
    elif isinstance(value, list):
        for v in value:
            yield from references(v)


def resolve(document, ref):
    for part in ref[2:].split("/"):
        document = document.get(part) if isinstance(document, dict) else None
    return document


def test_openapi_document_is_valid_and_complete(check):
    with TokenServer() as server:
        reply = get(server, "/openapi.json")
    check.equal("openapi: status", reply.status, 200)
    check.equal("openapi: content type", reply.headers.get("content-type"), JSON_TYPE)
    document = reply.json
    check.equal("openapi: the page of the command line is the same",
                json.loads(run("page", "openapi").stdout), document)
    check.equal("openapi: version", document["openapi"], "3.0.3")
    check.ok("openapi: has title and version", document["info"]["title"] and
             document["info"]["version"], document["info"])
    lost = [r for r in references(document) if resolve(document, r) is None]
    check.equal("openapi: every $ref leads somewhere", lost, [])
    schemas = document["components"]["schemas"]
    check.equal("openapi: schemas are those of OpenAPI 3.0",
                [f for k, s in schemas.items() for f in schema_faults(s, k)], [])
    check.ok("openapi: files of jobs are described",
             {"JobFileV1", "JobFileV2", "JobFileMxjob", "JobFileLauncher", "JobFile"} <= set(schemas), schemas)
    with open(os.path.join(ROOT, "server", "openapi.json"), encoding="utf-8") as f:
        written = json.load(f)["components"]["schemas"]
    check.equal("openapi: schemas that nothing of the same name has replaced",
                {k: s for k, s in schemas.items() if not k.startswith("JobFile")}, written)
    operations = [(p, m, o) for p, item in document["paths"].items() for m, o in item.items()]
    rows = {("get" if m == "any" else m.lower(), p): who for m, p, who, _ in route_table()}
    check.equal("openapi: routes", {(m, p) for p, m, _ in operations}, set(rows))
    ids = [o["operationId"] for _, _, o in operations]
    check.equal("openapi: operations have names of their own", sorted(ids), sorted(set(ids)))
    check.equal("openapi: a verb and its object", [i for i in ids if not re.fullmatch(f"(?:{OPERATION_VERBS})(?:[A-Z][a-z0-9]*)+", i)], [])
    check.ok("openapi: jobs are stopped", "stopJob" in ids, ids)
    for path, method, o in operations:
        what = f"openapi: {method} {path}"
        segments = {p["name"]: p["schema"] for p in o["parameters"] if p.get("in") == "path"}
        for name, schema in segments.items():
            number = name in ("index", "retry", "attempt")
            wanted = NUMBER if number else {"type": "string", "minLength": 1}
            if name == "attempt" and "retry" not in segments:
                wanted = {"anyOf": [NUMBER, {"type": "string", "enum": ["latest"]}]}
            check.equal(f"{what}: {name}", schema, wanted)
        check.ok(f"{what}: 414, and 404 of what is no segment", "414" in o["responses"] and
                 ("{" not in path or "404" in o["responses"]), o["responses"])
        declared = [p["name"] for p in o["parameters"] if p.get("in") == "path"]
        check.equal(f"{what}: parameters", declared, re.findall(r"\{([^}]*)\}", path))
        check.ok(f"{what}: required ones", all(p.get("required") for p in o["parameters"]
                                               if p.get("in") == "path"), o)
        check.ok(f"{what}: answers", o["responses"] and all(
            re.fullmatch("[2-5][0-9][0-9]", s) and r["description"]
            for s, r in o["responses"].items()), o)
        known = {tuple(s) for s in document["security"]} | {()}  # (): also without, by a link say
        who = o.get("security", document["security"])
        check.ok(f"{what}: security", {tuple(s) for s in who} <= known, who)
        check.equal(f"{what}: for anyone", who == [], rows[method, path].strip() == "all")
        check.equal(f"{what}: 401", "401" in o["responses"], who != [])
        check.ok(f"{what}: tag", o["tags"][0] in {t["name"] for t in document["tags"]}, o)
