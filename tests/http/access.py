"""Permissions for jobs, tested for every route of docs/ROUTES.md, so that new routes are included;
and v1 without a token."""
import json
import os
import re

from changes import JSON, Yard, foreign
from harness import PATIENCE, ROOT, job_v2, parse_replies, request_bytes, route_table
from tokens import bearer, token

# The column of docs/ROUTES.md for access to jobs; it may be "" only for these routes.
WHOSE = {"of any user", "by `--visibility`", "own"}
OF_NO_JOB = {"ssh", "healthz", "config", "{job}"}
BODIES = {"executionType": {"value": "STOP"}, "tag": {"value": "x"}, "{role}": {"instances": 2}, "keep": {"hours": 1}, "exec": {"command": []}}
# Error codes, such as 404, that a route may return for an existing job.
FOUND = {"NoTagError", "NoTaskLogError", "NoJobConfigError", "NoCodeError", "NoResultsError", "NoMachineError", "NoSessionsError"}


def fill(path, user, job):
    by_user = "{user}" in path
    values = {"user": user, "job": job if by_user else f"{user}~{job}", "attempt": "0", "role": "worker",
              "index": "0", "retry": "0", "log": "all", "path": "a/b"}
    return re.sub(r"\{(\w+)\}", lambda m: values[m.group(1)], path)


def ask(yard, who, method, path, body):
    """The head of a response, and its body unless it is a stream."""
    headers = {"Connection": "close", **(bearer(token(who)) if who else {}), **(JSON if body else {})}
    data = json.dumps(body).encode() if body else None

    def enough(got):
        return b"\r\n\r\n" in got and (b"text/event-stream" in got or parse_replies(got))

    with yard.server.connect() as c:
        c.send(request_bytes(yard.server.port, method, path, data, headers))
        got, _ = c.read(2 * PATIENCE, enough)
    replies = parse_replies(got)
    return (int(got.split(b" ")[1]), replies[0].code if replies else None)


def running():
    with open(os.path.join(ROOT, "tests", "data", "frameworks", "06-AttemptRunning.json"), encoding="utf-8") as f:
        return json.load(f)["status"]


def put_job(yard, name):
    """A job of alice with the state RUNNING."""
    yard.submit(job_v2(name))
    framework = yard.object(name)
    framework["status"] = running()
    yard.api.update("frameworks", framework["metadata"]["name"], framework)


def test_route_table_names_the_access_to_each_job(check):
    rows = route_table()
    check.ok("there are routes", len(rows) > 60, str(len(rows)))
    for method, path, who, whose in rows:
        what = f"{method} {path}"
        if "{job}" not in path:
            check.equal(f"{what}: of no job", whose, "")
        elif whose:
            check.ok(f"{what}: whose", whose in WHOSE, whose)
            check.ok(f"{what}: who", who.startswith("user"), who)
        else:
            check.ok(f"{what}: of no job that is there", path.rsplit("/", 1)[1] in OF_NO_JOB, path)
        if method not in ("GET", "POST") and whose:
            check.equal(f"{what}: a change", whose, "own")


def refused(answer):
    return answer == (403, "ForbiddenUserError")


def route_of_job(check, yard, row, job):
    method, path, _, whose = row
    body = BODIES.get(path.rsplit("/", 1)[1]) if method != "GET" else None
    here = fill(path, "alice", job)
    seen = {who: ask(yard, who, method, here, body) for who in (None, "bob", "carol", "alice", "root")}
    what = f"{method} {path}: {seen}"
    check.equal(f"{what}: without a token", seen[None], (401, "UnauthorizedUserError"))
    for who in ("alice", "root", "carol"):
        check.equal(f"{what}: {who}, of no job", ask(yard, who, method, fill(path, "alice", "none"), body),
                    (404, "NoJobError"))
    check.equal(f"{what}: alice's by bob's name", ask(yard, "bob", method, fill(path, "bob", job), body),
                (404, "NoJobError"))
    check.equal(f"{what}: another in her virtual cluster", refused(seen["bob"]), whose == "own")
    check.equal(f"{what}: a stranger", refused(seen["carol"]), whose != "of any user")
    check.ok(f"{what}: she herself", seen["alice"][0] < 300 or seen["alice"][1] in FOUND, "")
    # A job that alice removed does not exist for an admin.
    check.ok(f"{what}: an admin", seen["root"][0] < 300 or seen["root"][1] in FOUND or
             (method == "DELETE" and seen["root"] == (404, "NoJobError")), "")


def test_every_job_route_checks_the_permission(check):
    with Yard("--stream-lifetime", "1", "--rate-lookup", "0") as yard:
        rows = [row for row in route_table() if "{job}" in row[1] and row[3]]
        check.ok("there are some", len(rows) > 18, str(len(rows)))
        for i in range(len(rows)):
            put_job(yard, f"j{i}")
        yard.warm()
        for i, row in enumerate(rows):
            route_of_job(check, yard, row, f"j{i}")


def test_visibility_applies_to_every_route_that_shows_jobs(check):
    """--visibility, for all routes that it affects; and jobs without an owner."""
    rows = [row for row in route_table() if row[3] == "by `--visibility`"]
    for visibility, wanted in (("owner", {"bob", "carol"}), ("all", set())):
        with Yard("--visibility", visibility) as yard:
            yard.api.put("frameworks", foreign("nobodys"))
            put_job(yard, "x")
            yard.warm(hidden=1)  # a job without an owner is in no list, and known before x
            for method, path, _, _ in rows:
                here = fill(path, "alice", "x")
                seen = {who for who in ("alice", "root", "bob", "carol") if
                        refused(ask(yard, who, method, here, None))}
                check.equal(f"{visibility}: {method} {path}: not for", seen, wanted)
                here = fill(path, "unknown", "nobodys").replace("unknown~", "")
                seen = {who for who in ("alice", "root") if refused(ask(yard, who, method, here, None))}
                check.equal(f"{visibility}: {method} {path}: without an owner", seen, {"alice"})


def test_only_v1_reads_are_open_without_a_token(check):
    """Without a token, only GET of v1 is answered, and only with the option; an invalid token is
    still refused."""
    rows = [row for row in route_table() if "jobs" in row[1] and row[0] != "POST"]
    anyone = {row[1] for row in rows if "--compat openpai" in row[2]}
    check.equal("these", anyone, {
        "/api/v1/jobs", "/api/v1/user/{user}/jobs", "/api/v1/user/{user}/jobs/{job}", "/api/v1/jobs/{job}",
        "/api/v1/user/{user}/jobs/{job}/config", "/api/v1/user/{user}/jobs/{job}/ssh",
        "/api/v1/jobs/{job}/config", "/api/v1/jobs/{job}/ssh"})
    for visibility, config in (("vc", (403, "ForbiddenUserError")), ("all", (200, None))):
        with Yard("--compat", "openpai", "--visibility", visibility) as yard:
            check.equal(f"{visibility}: without the Secret of revoked tokens, no token is accepted", yard.ask(
                "bob", "GET", "/api/v2/jobs").status, 503)
            yard.api.put("secrets", {"kind": "Secret", "metadata": {"name": "rest-lit-revoked", "namespace": "rest-lit"}})
            put_job(yard, "x")
            yard.warm()
            for method, path, _, whose in rows:
                here = fill(path, "alice", "x")
                seen = ask(yard, None, method, here, None)
                what = f"{visibility}: {method} {path}"
                if method != "GET" or path not in anyone:
                    check.equal(f"{what}: 401", seen, (401, "UnauthorizedUserError"))
                    continue
                wanted = (404, "NoJobSshInfoError") if path.endswith("ssh") else \
                    config if whose == "by `--visibility`" else (200, None)
                check.equal(what, seen, wanted)
                reply = yard.server.request(method, here, headers=bearer("no.good.token"))
                check.equal(f"{what}: a bad token", reply.status, 401)
            reply = yard.server.request("GET", "/api/v1/jobs", headers={"Authorization": ""})
            check.equal(f"{visibility}: an empty header", reply.status, 401)
            check.equal(f"{visibility}: rows", [r["name"] for r in yard.ask(None, "GET", "/api/v1/jobs").json], ["x"])
            check.equal(f"{visibility}: with a token", ask(yard, "bob", "GET", fill(
                "/api/v1/user/{user}/jobs/{job}/config", "alice", "x"), None), (200, None))
            check.equal(f"{visibility}: virtual clusters", yard.ask(None, "GET", "/api/v1/virtual-clusters").status, 200)
            check.equal(f"{visibility}: its name", yard.ask(None, "GET", "/api/v1").json["name"], "PAI RESTful API")
            bob = bearer(token("bob"))
            check.equal(f"{visibility}: logging out", [
                yard.server.request("DELETE", "/api/v2/authn/basic/logout", headers=bob).status,
                yard.server.request("GET", "/api/v2/jobs", headers=bob).status], [200, 401])
