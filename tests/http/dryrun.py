"""?dryRun=true and ?dryRun=server: they never create objects and never show secrets."""
import base64
import glob
import json
import os
import re
import threading
from urllib.parse import urlencode

from clients import FORM, TokenServer, nested
from fakeapi import FakeApi, fake_server
from harness import (ROOT, Server, database_objects, framework_name, job_v1, job_v2, job_v2_secret, request_bytes,
                     run, secret_forms, wait_until)
from tokens import bearer, token

MARKER = "Marker-of-a-secret-5772156649"
FACTS = os.path.join(ROOT, "examples", "facts.json")
V2, V1 = "/api/v2/jobs", "/api/v1/jobs"
MASKED = base64.b64encode(b"******").decode()
ALICE = bearer(token("alice"))
JSON = {"Content-Type": "application/json"}

# Queries without a dryRun, or with an invalid one.
REFUSED = ["dryRun=1", "dryRun=true&dryRun=true", "dryrun=true", "?dryRun=true"]  # all of them: tests/unit/server/submit


def made(server):
    """The names of all objects in the database of a server."""
    return [o["metadata"]["name"] for o in database_objects(os.path.join(server.directory, "jobs"), "")]


def try_job(server, body, how="true", path=V2, headers=None, method="POST"):
    return server.submit(body, headers, f"{path}?dryRun={how}", method)


def is_list(check, what, reply):
    """The items of the response, if it is a List."""
    if not check.ok(f"{what}: is answered 200", reply is not None and reply.status == 200, reply):
        return []
    value = reply.json or {}
    check.equal(f"{what}: is a List", (value.get("apiVersion"), value.get("kind")), ("v1", "List"))
    check.ok(f"{what}: as JSON", reply.headers.get("content-type", "").startswith("application/json"), reply)
    check.ok(f"{what}: ends with the Framework", value["items"] and
             value["items"][-1]["kind"] == "Framework", value)
    return value["items"]


def without_data(items):
    return [{**i, "data": sorted(i["data"])} if i["kind"] == "Secret" else i for i in items]


def hides(check, what, *texts):
    for text in texts:
        text = text.encode() if isinstance(text, str) else text
        check.ok(f"{what}: no secret", not any(form in text for form in secret_forms(MARKER)), text)


# ---- what is answered -----------------------------------------------------------------------
def test_dry_run_is_what_translate_prints(check):
    """For each example, HTTP and the command line return the same objects."""
    with Server("--engine=none", "--local", "jobs", "--facts", FACTS) as server:
        names = sorted(glob.glob(os.path.join(ROOT, "examples", "*.*")))
        tried = 0
        for name in names:
            printed = run("translate", "--user", "alice", "--facts", FACTS, name)
            if printed.returncode:
                continue
            with open(name, "rb") as f:
                body = f.read()
            v1 = b"jobName" in body and b"protocolVersion" not in body
            for how in ("true", "server", "All"):
                items = is_list(check, f"{os.path.basename(name)}, {how}",
                                try_job(server, body, how, V1 if v1 else V2))
                check.equal(f"{os.path.basename(name)}, {how}: as translate prints it", without_data(items),
                            without_data(json.loads(printed.stdout)["items"]))
                tried += 1
        check.ok("some examples were tried", tried >= 9, tried)
        check.equal("nothing is made", made(server), [])


def test_dry_run_answers_yaml_if_accepted(check):
    name = os.path.join(ROOT, "examples", "pytorch-mnist.yaml")
    with open(name, "rb") as f:
        body = f.read()
    printed = run("translate", "--user", "alice", "--output", "yaml", name).stdout
    with Server("--engine=none", "--local", "jobs") as server:
        for how in ("true", "server"):
            for accept in ("application/yaml", "text/yaml;q=0.9, */*", "text/yaml, application/json",
                           "application/x-yaml;q=0.9,*/*"):
                reply = try_job(server, body, how, headers={"Content-Type": "text/yaml", "Accept": accept})
                check.equal(f"{how}, {accept}", (reply.status, reply.headers.get("content-type"), reply.body),
                            (200, "application/yaml", printed))
        for accept in ("", "*/*", "text/html", "application/json", "application/json, application/yaml"):
            is_list(check, accept, try_job(server, body, headers={"Content-Type": "text/yaml", "Accept": accept}))
        warned = try_job(server, json.dumps({**json.loads(job_v1("w")), "gpuType": "k80"}), path=V1,
                         headers={"Accept": "application/yaml", **JSON})
        check.ok("with warnings", b"\nwarnings:\n" in warned.body, warned)
        bad = try_job(server, "a: [", headers={"Content-Type": "text/yaml", "Accept": "application/yaml"})
        check.refused("a refusal is JSON", bad, 400, "InvalidProtocolError")


def test_dry_run_works_on_every_route(check):
    with Server("--engine=none", "--local", "jobs") as server:
        form = urlencode(list(nested(json.loads(job_v1("tried")))))
        for what, method, path, headers, body in [
                ("v2", "POST", V2, None, job_v2("tried")), ("below /rest-server", "POST", "/rest-server" + V2, None, job_v2("tried")),
                ("v1", "POST", V1, JSON, job_v1("tried")), ("v2 on the v1 route", "POST", V1, None, job_v2("tried")),
                ("a form", "POST", V1, FORM, form), ("user", "POST", "/api/v1/user/alice/jobs", JSON, job_v1("tried")),
                ("job", "POST", "/api/v1/user/alice/jobs/tried", JSON, job_v1("tried")),
                ("PUT", "PUT", "/api/v1/user/alice/jobs/tried", FORM, form)]:
            for how in ("true", "server"):
                items = is_list(check, f"{what}, {how}", try_job(server, body, how, path, headers, method))
                check.equal(f"{what}, {how}: its name", [i["metadata"]["name"] for i in items], [framework_name("tried")])
        check.equal("nothing is made", made(server), [])
        check.refused("another user", try_job(server, job_v1("x"), path="/api/v1/user/bob/jobs"), 403, "ForbiddenUserError")
        check.refused("another job", try_job(server, job_v1("x"), path="/api/v1/user/alice/jobs/y"), 400, "InvalidParametersError")
        check.equal("false is no dry run", try_job(server, job_v2("tried"), "false").status, 202)
        check.equal("it is made", made(server), [framework_name("tried")])
        is_list(check, "here, a name that is taken", try_job(server, job_v2("tried")))
        check.refused("by the store, a name that is taken", try_job(server, job_v2("tried"), "server"), 409, "ConflictJobError",
                "already exists")
        check.equal("and it is left alone", len(made(server)), 1)


def test_dry_run_misspelled_submits_nothing(check):
    with Server("--engine=none", "--local", "jobs") as server:
        for query in REFUSED:
            for method, path in (("POST", V2), ("POST", V1), ("POST", "/api/v1/user/alice/jobs"),
                                 ("POST", "/api/v1/user/alice/jobs/meant"), ("PUT", "/api/v1/user/alice/jobs/meant")):
                body = job_v2("meant") if path == V2 else job_v1("meant")
                check.refused(f"{method} {path}?{query}", server.submit(body, None, f"{path}?{query}", method), 400,
                        "InvalidParametersError", "dryRun")
        check.equal("nothing is made", made(server), [])
        with server.connect() as c:  # Expect: 100-continue is refused before the body
            c.send(request_bytes(server.port, "POST", V2 + "?dryrun=true", None,
                                 {"Content-Type": "text/yaml", "Content-Length": "300", "Expect": "100-continue"}))
            reply = c.reply()
        check.refused("before the body is taken", reply, 400, "InvalidParametersError", "dryRun")
        for i, query in enumerate(("x=dryrun", "dry=1", "run=1", "y=%", "&&=&", "default=true")):
            check.equal(f"?{query} is passed over", server.submit(job_v2(f"n{i}"), path=f"{V2}?{query}").status, 202)


def test_dry_run_has_the_warnings_of_a_submission(check):
    with Server("--engine=none", "--local", "jobs") as server:
        body = json.dumps({**json.loads(job_v1("warned")), "gpuType": "k80"})
        real = server.submit(body, JSON, V1)
        reply = try_job(server, body, path=V1, headers=JSON)
        is_list(check, "with warnings", reply)
        check.ok("there are some", real.json.get("warnings"), real)
        check.equal("the same as of a submission", reply.json.get("warnings"), real.json.get("warnings"))
        check.equal("and in the header", reply.headers.get("x-warning"), real.headers.get("x-warning"))
        wrong = body.replace('"k80"', '"k80", "unknown": 1')
        real, reply = server.submit(wrong, JSON, V1), try_job(server, wrong, path=V1, headers=JSON)
        check.refused("a refusal", reply, 400, "InvalidParametersError", "unknown")
        check.ok("has them beside the errors", real.json["errors"] and real.json["warnings"], real)
        check.equal("the same", reply.body, real.body)


def test_dry_run_refuses_as_a_submission_does(check):
    bad = json.loads(job_v2("bad"))
    bad["taskRoles"]["worker"]["intances"] = 2
    cases = [("no YAML", "a: [", None), ("nothing", "", None), ("a key too many", json.dumps(bad), None),
             ("v1 job on the v2 route", job_v1("x"), None), ("too large", "x" * 200_000, None),
             ("media type", job_v2("x"), {"Content-Type": "application/xml"}),
             ("a storage that there is not", job_v2("x", extras={"storages": [{"name": "nowhere"}]}), None)]
    with Server("--engine=none", "--local", "jobs") as server:
        for what, body, headers in cases:
            real = server.submit(body, headers)
            check.ok(f"{what}: is refused", real.status >= 400, real)
            for how in ("true", "server"):
                reply = try_job(server, body, how, headers=headers)
                check.equal(f"{what}, {how}: the same", (reply.status, reply.body), (real.status, real.body))
        check.equal("nothing is made", made(server), [])


def test_dry_run_returns_the_largest_framework(check):
    """The largest allowed Framework fits into a response."""
    role, sizes = json.loads(job_v2("x"))["taskRoles"]["worker"], []
    with Server("--engine=none", "--local", "jobs", "--max-body", "1048576") as server:
        for n in (150, 220, 257):
            one = {**role, "commands": ["echo " + "\\u0001" * 100],
                   "resourcePerInstance": {**role["resourcePerInstance"], "ports": {f"port{k}": 1 for k in range(14)}}}
            body = json.dumps({**json.loads(job_v2("x")), "taskRoles": {f"rolewithalongname{i:09}": one for i in range(n)}})
            real, reply = server.submit(body.replace('"x"', f'"x{n}"', 1)), try_job(server, body)
            check.equal(f"{n} roles", (real.status, reply.status), (202, 200) if n <= 220 else (400, 400))
            if reply.status == 200:
                is_list(check, f"{n} roles", reply)
                sizes.append(len(reply.body))
        check.ok("an answer is larger than others may be", sizes and max(sizes) > 1 << 20, sizes)


# ---- secrets --------------------------------------------------------------------------------
def test_dry_run_hides_secrets(check):
    job = json.loads(job_v2_secret("hidden", MARKER))
    job["prerequisites"][0]["auth"].update(username=f"user-{MARKER}", registryuri="<% $secrets.key %>.example")
    job["taskRoles"]["worker"]["commands"] = ["echo <% $secrets.key %>"]
    key = f"-----BEGIN {MARKER}"
    facts = {"users": {"alice": {"extension": {"jobSSH": {"key": key, "pubKey": "ssh-rsa x"}, "githubPAT": MARKER}}}}
    with TokenServer(facts=facts) as server:
        for how in ("true", "server"):
            for path in (V2, V1):
                reply = try_job(server, json.dumps(job), how, path, ALICE)
                items = is_list(check, f"{how}: secrets", reply)
                data = {k: v for i in items if i["kind"] == "Secret" for k, v in i["data"].items()}
                logins = data.pop(".dockerconfigjson", "")
                check.equal(f"{how}: masks", data, {"secrets.yaml": MASKED, "userExtensionSecrets.yaml": MASKED})
                check.equal(f"{how}: logins", json.loads(base64.b64decode(logins)), {"auths": {"******": {"auth": "******"}}})
                hides(check, f"{how} {path}", reply.body, *reply.headers.values(), *(
                    base64.b64decode(t) for t in re.findall(rb"[A-Za-z0-9+/]{16,}={0,2}", reply.body) if len(t) % 4 == 0))
        items = is_list(check, "v1", try_job(server, job_v1("x"), path=V1, headers={**JSON, **ALICE}))
        check.equal("v1: the user's keys", [i["data"] for i in items if i["kind"] == "Secret"], [{"userExtensionSecrets.yaml": MASKED}])
        hides(check, "log", server.settled_log())
        check.equal("nothing is made", made(server), [])


# ---- permissions and rate limits ------------------------------------------------------------
def test_dry_run_needs_a_token_and_counts_as_a_job(check):
    with TokenServer("--rate-submit", "2") as server:
        check.refused("without a token", try_job(server, job_v2("x")), 401, "UnauthorizedUserError")
        check.refused("a virtual cluster of others", try_job(server, job_v2("x", defaults={"virtualCluster": "secret"}),
                                                              headers=ALICE), 403, "ForbiddenUserError")
        is_list(check, "the second", try_job(server, job_v2("x"), headers=ALICE))
        check.refused("the third", try_job(server, job_v2("x"), headers=ALICE), 429, "TooManyRequestsError")
        check.refused("a dry run counts as a job", server.submit(job_v2("x"), ALICE), 429, "TooManyRequestsError")


def test_dry_run_ignores_the_idempotency_key(check):
    """A dry run ignores Idempotency-Key, so the later submission is not a repetition."""
    with Server("--engine=none", "--local", "jobs") as server:
        key = {"Idempotency-Key": "a-key"}
        for how in ("true", "server"):
            is_list(check, f"{how}: with a key", try_job(server, job_v2("x"), how, headers=key))
        reply = server.submit(job_v2("x"), key)
        check.equal("then submitted", (reply.status, reply.headers.get("idempotency-replayed")), (202, None))
        check.equal("again", server.submit(job_v2("x"), key).headers.get("idempotency-replayed"), "true")
        reply = try_job(server, job_v2("x"), headers=key)
        check.equal("tried again", (reply.status, reply.headers.get("idempotency-replayed")), (200, None))
        check.refused("a key that is none", try_job(server, job_v2("x"), headers={"Idempotency-Key": "x" * 129}), 400,
                "InvalidParametersError", "Idempotency-Key")


def test_dry_run_is_marked_in_the_log(check):
    with Server("--engine=none", "--local", "jobs") as server:
        try_job(server, job_v2("x"))
        try_job(server, job_v2("y"), "All")
        server.submit(job_v2("z"))
        seen = {line["job"]: line.get("dryRun") for line in map(json.loads, server.logged('"job":', 3))}
        check.equal("marked as such", seen, {"x": "true", "y": "server", "z": None})


def test_dry_run_true_needs_no_api_server(check):
    api = FakeApi()
    api.close()
    with fake_server(api, "--deadline", "2", "--runtime", "image") as server:
        check.equal("it is down", server.submit(job_v2("x")).status, 503)
        is_list(check, "true needs none", try_job(server, job_v2("x")))
        check.equal("server does", try_job(server, job_v2("x"), "server").status, 503)


def test_dry_runs_share_a_memory_limit(check):
    role = json.loads(job_v2("x"))["taskRoles"]["worker"]
    large = json.dumps({**json.loads(job_v2("x")), "taskRoles": {f"r{i}": role for i in range(150)}})
    api, go_on = FakeApi(), threading.Event()
    api.fault("POST", "frameworks", until=go_on)
    with fake_server(api, "--dry-run-bytes", "1048576", "--loops", "1", "--deadline", "120") as server:
        with server.connect() as c:
            c.send(request_bytes(server.port, "POST", V2 + "?dryRun=server", large.encode()))
            check.ok("the first one waits", wait_until(lambda: try_job(server, job_v2("y")).status == 503))
            for how in ("true", "server"):
                check.refused(f"another, {how}", try_job(server, job_v2("y"), how), 503, "UnavailableError",
                        "too many dry runs")
            go_on.set()
            is_list(check, "the first one", c.reply())
        check.ok("then there is room again", wait_until(lambda: try_job(server, job_v2("y")).status == 200))


def test_dry_run_memory_limit_counts_yaml(check):
    """Many short lines are several times larger as YAML."""
    role = {**json.loads(job_v2("x"))["taskRoles"]["worker"], "commands": ["<% $parameters.lines %>"]}
    large = json.dumps({**json.loads(job_v2("x")), "parameters": {"lines": "a\n" * 12000},
                        "taskRoles": {f"r{i}": role for i in range(26)}})
    yaml = {"Accept": "application/yaml"}
    with Server("--engine=none", "--local", "jobs", "--dry-run-bytes", "8388608", "--loops", "1") as server:
        size = {accept: len(try_job(server, large, headers={"Accept": accept}).body)
                for accept in ("application/json", "application/yaml")}
        check.ok("YAML alone is more than there is room for", size["application/json"] < 2 << 20 and
                 size["application/yaml"] > 8 << 20, size)
        with server.connect() as c:
            c.send(request_bytes(server.port, "POST", V2 + "?dryRun=true", large.encode(), yaml))
            check.ok("no memory for more while responses are unread", wait_until(lambda: try_job(server, job_v2("y")).status == 503))
            c.reply()
        check.ok("then there is room again", wait_until(lambda: try_job(server, job_v2("y")).status == 200))


def test_dry_run_with_long_pointers_is_answered(check):
    """The maximum number of warnings, each with a path of many long keys."""
    numbers = "[" + ", ".join(["010"] * 25) + "]"
    for _ in range(50):
        numbers = "{'" + '"' * 900 + "': " + numbers + "}"
    body = json.dumps(json.loads(job_v2("deep", parameters={"x": "VALUE"}))).replace('"VALUE"', numbers)
    body = re.sub(r'"commands": \[.*?\]', '"commands": ["echo <% $parameters.x %>"]', body)
    with Server("--engine=none", "--local", "jobs") as server:
        reply = try_job(server, body, headers={"Content-Type": "text/yaml"})
        is_list(check, "as JSON", reply)
        check.ok("with warnings", len((reply.json or {}).get("warnings", [])) > 20, reply)
        reply = try_job(server, body, headers={"Content-Type": "text/yaml", "Accept": "application/yaml"})
        check.equal("as YAML", reply and reply.status, 200)
        reply = server.submit(body, {"Content-Type": "text/yaml"})
        check.ok("submitted", reply.status == 202 and reply.json, reply)
