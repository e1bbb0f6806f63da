"""Each limit is an option: a request that passes by default is refused, or handled differently,
with a lower limit.  (slow.py and contract.py test limits on clients, time and the queue.)"""
import json
import tempfile

from fakeapi import FakeApi, fake_server, served
from harness import Server, job_v2, request_bytes, run, wait_until


def job(roles=1, **role):
    """A valid job with this in each role."""
    value = json.loads(job_v2("limits"))
    worker = {**value["taskRoles"]["worker"], **role}
    value["taskRoles"] = {f"role{i}": worker for i in range(roles)}
    return value


def with_extras(value):
    return {**job(), "extras": {"note": value}}


# Option, value below its default, job that the default accepts, word of the refusal.
JOB_LIMITS = [
    ("--max-depth", "8", with_extras([[[[[[[[1]]]]]]]]), "8 levels"),
    ("--max-nodes", "100", with_extras(list(range(200))), "100 values"),
    ("--max-text", "1KiB", with_extras("x" * 2000), "1024"),
    ("--max-key", "64", with_extras({"k" * 100: 1}), "64 bytes"),
    ("--max-rendered", "1KiB", job(commands=["x" * 2000]), "1024"),
    ("--max-roles", "1", job(roles=2), "at most 1 task"),
    ("--max-instances", "1", job(instances=2), "at most 1, is 2"),
    ("--max-tasks", "1", job(roles=2), "at most 1 task"),
    ("--max-command", "1KiB", job(commands=["x" * 2000]), "1024"),
    ("--max-annotations", "1KiB", with_extras("x" * 2000), "1024"),
    ("--max-object", "1KiB", job(), "1024"),
]


def test_job_limits_refuse_with_the_allowed_value(check):
    for option, less, value, word in JOB_LIMITS:
        text = json.dumps(value).encode()
        check.equal(f"{option}: the default takes it", run("translate", "-", text=text).returncode, 0)
        done = run("translate", option, less, "-", text=text)
        check.equal(f"{option} {less}: is refused", done.returncode, 1)
        check.ok(f"{option} {less}: says how much is allowed", word in done.stderr.decode(), done.stderr)


def test_framework_too_large_for_etcd_is_refused(check):
    """A Framework that is too large for etcd is refused before any request, with the largest roles
    in the message.  It has a Secret, which would be created first."""
    value = {**job(20), "secrets": {"a": "b"}}
    for name, size in ("role7", 90000), ("role11", 80000), ("role3", 70000):
        value["taskRoles"][name] = {**value["taskRoles"][name], "commands": ["x" * size]}
    api = FakeApi()
    with fake_server(api, "--max-body", "1MiB", "--max-object", "256KiB", "--max-annotations", "256KiB",
                     "--max-env-inline", "0") as server:
        reply = server.submit(json.dumps(value))
        check.equal("too large: status and code", (reply.status, reply.code), (413, "PayloadTooLargeError"))
        errors = reply.json["errors"]
        check.ok("too large: how much", "larger than 262144 bytes; fewer task roles" in errors[0]["message"], reply)
        for error, name in zip(errors[1:], ("role7", "role11", "role3")):
            check.equal(f"too large: {name} has its place", error["pointer"], f"/taskRoles/{name}")
            check.ok(f"too large: {name}", f"task role `{name}` takes" in error["message"], error)
        check.equal("too large: nothing was sent", api.count("POST", ""), 0)


def test_warnings_are_limited_and_counted(check):
    """The body, the v1 header and the log have the first warnings and the number of the others."""
    value = job(commands=["{{FC_TASK_INDEX}} " + " ".join(f"<% $parameters.p{i} %>" for i in range(8))])
    many = job(roles=9, commands=value["taskRoles"]["role0"]["commands"])
    v1 = {"jobName": "old", "image": "ubuntu", "gpuType": "K80", "jobEnvs": {"A": "{{FC_X}}"},
          "taskRoles": [{"name": "a", "command": "x"}]}
    with Server("--engine=none", "--local", "jobs") as server:
        reply = server.submit(json.dumps(value).replace("limits", "few"))
        check.equal("few warnings", len(reply.json["warnings"]), 9)
        check.equal("... in the log", json.loads(server.logged('"job":"few"')[0]).get("warnings"), 9)
        check.ok("... with their places", all(w["pointer"] and w["line"] and w["column"]
                                              for w in reply.json["warnings"]), reply)
        reply = server.submit(json.dumps(many).replace("limits", "many"))
        listed = reply.json["warnings"]
        check.equal("many warnings", (len(listed), listed[-1]), (21, {"message": "and 62 more"}))
        check.equal("... in the log", json.loads(server.logged('"job":"many"')[0]).get("warnings"), 82)
        check.ok("no header in v2", not reply.headers.get("x-warning"), reply.headers)
        reply = server.submit(json.dumps(v1), {"Content-Type": "application/json"}, "/api/v1/jobs")
        check.equal("v1: pointers", [w["pointer"] for w in reply.json["warnings"]], ["/gpuType", "/jobEnvs/A"])
        header = reply.headers.get("x-warning") or ""
        check.ok("v1: header", "gpuType: is ignored" in header and "; jobEnvs.A: {{FC_" in header, header)
        server.submit(job_v2("quiet"))
        check.ok("none: no word in the log", "warnings" not in server.logged('"job":"quiet"')[0])


def test_max_body_limits_the_request(check):
    with Server("--engine=none", "--local", "jobs", "--max-body", "2KiB") as server:
        for name, size, status in (("fits", 2048, 202), ("above", 2049, 413)):
            reply = server.submit(job_v2(name).ljust(size))
            check.equal(f"--max-body 2KiB: {size} bytes", (reply.status, reply.code), (status, status == 413 and "PayloadTooLargeError" or None))


def test_max_body_in_chunks_is_413(check):
    """A client without Content-Length that sends all before it reads also gets 413."""
    with Server("--engine=none", "--local", "jobs") as server:
        for size in (200, 2048, 8192):
            replies, closed = server.raw(
                b"POST /api/v2/jobs HTTP/1.1\r\nHost: localhost:%d\r\nContent-Type: text/yaml\r\n"
                b"Transfer-Encoding: chunked\r\n\r\n" % server.port +
                (b"10000\r\n" + b"#" * 65536 + b"\r\n") * (size // 64) + b"0\r\n\r\n", answers=1)
            check.equal(f"{size} KiB in chunks: 413", [(r.status, r.code) for r in replies],
                        [(413, "PayloadTooLargeError")])


def test_drain_timeout_bounds_the_shutdown(check):
    """The shutdown does not wait longer for unfinished requests."""
    with served("--drain-timeout", "1", "--deadline", "600", "--janitor-age", "1000") as (api, server):
        api.every(hang="before")
        with server.connect() as c:
            c.send(request_bytes(server.port, "POST", "/api/v2/jobs", job_v2("stuck").encode()))
            check.ok("the request is under way",
                     wait_until(lambda: api.count("POST", "frameworks") == 1))
            server.terminate()
            check.ok("--drain-timeout 1", wait_until(lambda: server.process.poll() is not None))


def test_validate_and_serve_give_the_same_messages(check):
    """`validate` and a server with the same options give the same messages."""
    old = {"jobName": "old", "image": "i", "codeDir": "hdfs://x",
           "taskRoles": [{"name": "w", "command": "ls", "portList": [{"label": "p", "portNumber": 30}]}]}
    hived = b"""{physicalCluster: {skuTypes: {K80: {cpu: 4, gpu: 1, memory: 8Gi}},
        cellTypes: {NODE: {childCellType: K80, childCellNumber: 2, isNodeLevel: true}}, physicalCells: [{cellType: NODE, cellAddress: n1}]},
        virtualClusters: {default: {virtualCells: [{cellType: NODE, cellNumber: 1}]}}}"""
    with tempfile.NamedTemporaryFile(suffix=".yaml") as file:
        file.write(hived)
        file.flush()
        for options, value, word in (
                (["--fetch-code"], old, b"codeDir"),
                (["--hived-config", file.name], {**job(), "extras": {"hivedScheduler": {"jobPriorityClass": "prod"}}},
                 b"not HiveD")):
            text = json.dumps(value).encode()
            check.ok(f"validate: {word} is said", word in run("validate", "-", text=text).stdout)
            done = run("validate", *options, "-", text=text)
            check.ok(f"validate {options[0]}: and not then", done.returncode == 0 and word not in done.stdout, done)
        done = run("validate", "--port-start", "15000", "--port-end", "15010", "-", text=json.dumps(old).encode())
        check.ok("validate --port-end: too many ports", done.returncode == 1 and b"at most 10, is 30" in done.stdout, done)
    done = run("validate", "--hived-config", "/nowhere", "-", text=b"{}")
    check.ok("validate --hived-config: must be there", done.returncode == 2 and b"/nowhere" in done.stderr, done)
