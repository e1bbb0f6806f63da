"""GET /metrics on the port of --metrics-listen: what is counted, and that no client can add a series
or a text to it."""
import json
import re
import threading
from contextlib import closing

from fakeapi import FakeApi, fake_server
from harness import (PATIENCE, SLOW, Connection, Server, framework_name, free_port, job_v1, job_v2, job_v2_secret, parse_replies,
                     request_bytes, secret_forms, wait_until)
from place import Place
from streams import Stream
from tokens import bearer, token

SAMPLE = re.compile(r'^([a-z_]+)((?:\{[a-z_]+="[^"\\\n]*"(?:,[a-z_]+="[^"\\\n]*")*\})?) ([0-9]+(?:\.[0-9]+)?)$')


def scrape(port):
    with Connection(port) as c:
        c.send(request_bytes(port, "GET", "/metrics", None, {"Connection": "close"}))
        return c.reply()


def read(port):
    """All samples: NAME{LABELS}: value."""
    reply = scrape(port)
    assert reply.status == 200 and reply.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8", reply
    return {m[1] + m[2]: float(m[3]) for m in map(SAMPLE.match, reply.body.decode().splitlines()) if m}


def reaches(check, port, name, value):
    """Requests are counted when they have ended, after the client has the answer."""
    check.ok(f"{name} is {value}", wait_until(lambda: read(port).get(name) == value), read(port).get(name))


def sent(port, count, make):
    """The codes of these requests, many at a time on one connection."""
    codes = []
    with Connection(port) as c:
        for begin in range(0, count, 50):
            n = min(50, count - begin)
            c.send(b"".join(make(i) for i in range(begin, begin + n)))
            data, _ = c.read(60, lambda d, n=n: d.count(b"HTTP/1.1 ") >= n and len(parse_replies(d)) == n)
            codes += [reply.status for reply in parse_replies(data)]
    return codes


def test_metrics_port_serves_valid_samples(check):
    port = free_port()
    with Server("--engine=none", "--local", "d", "--metrics-listen", f"127.0.0.1:{port}", "--loops", "2") as server:
        check.ok("loops of the API", '"loops":2' in server.log(), server.log())
        check.ok("in the log", f'"metrics_address":"127.0.0.1:{port}"' in server.log(), server.log())
        reply = scrape(port)
        check.equal("answered", reply.status, 200)
        families, kinds = set(), {}
        for line in reply.body.decode().splitlines():
            if line.startswith("# TYPE "):
                name, kinds[name] = line.split()[2], line.split()[3]
            elif not line.startswith("# HELP "):
                check.ok("a sample", SAMPLE.match(line), line)
                families.add(re.sub(r"_(bucket|sum|count)$", "", SAMPLE.match(line)[1]))
        check.ok("each has a type", families <= set(kinds), families - set(kinds))
        check.equal("not at the other port", server.request("GET", "/metrics").status, 404)
        for method in ("HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"):
            with Connection(port) as c:
                c.send(request_bytes(port, method, "/metrics", b"x" if method == "POST" else None))
                data, _ = c.read(60, lambda d: b"\r\n\r\n" in d)
                check.ok(f"{method}: 405", data.startswith(b"HTTP/1.1 405 ") and b"\r\nAllow: GET\r\n" in data, data)
        for path in ("/", "/metrics/x", "/healthz", "/api/v2/jobs", "/openapi.json"):
            with Connection(port) as c:
                c.send(request_bytes(port, "GET", path))
                check.equal(f"{path}: not here", c.reply().status, 404)
    with Server("--engine=none", "--local", "d", "--metrics-listen", "127.0.0.1:x", wait=False) as server:
        check.equal("a wrong address", server.process.wait(PATIENCE * SLOW), 2)
        check.ok("is named", "--metrics-listen" in server.log(), server.log())
    with Server("--engine=none", "--local", "d") as server:
        check.ok("off without the option", "metrics" not in server.log(), server.log())


def test_metrics_port_has_the_limits_of_the_api(check):
    """The limits of the other port hold here, too."""
    port = free_port()
    with Server("--engine=none", "--local", "d", "--metrics-listen", f"127.0.0.1:{port}", "--connections", "8") as server:
        for what, more, code in (("long path", {"path": "/" + "x" * 9000}, 414),
                                 ("long header", {"headers": {"X": "x" * 15000}}, 431)):
            with Connection(port) as c:
                c.send(request_bytes(port, "GET", **{"path": "/metrics", **more}))
                check.equal(what, c.reply().status, code)
        with Connection(port) as c:
            c.send(b"GET /metrics HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n")
            check.equal("two hosts", c.reply().status, 400)
        idle = [Connection(port) for _ in range(20)]
        check.equal("beyond --connections the idle ones give way", scrape(port).status, 200)
        for c in idle:
            c.close()
        reaches(check, port, "rest_lit_http_connections", 1)
        check.equal("and others are served", server.request("GET", "/healthz").status, 200)


def test_metrics_get_no_series_from_clients(check):
    """Names of users, paths, methods and jobs of clients add no series."""
    port, marker = free_port(), "xyzzy0secret0marker"
    with Place() as p:
        server = p.server("--metrics-listen", f"127.0.0.1:{port}", "--users", "file")
        headers = bearer(token("user0"))

        def user(i):
            name = f"{marker}{i}"
            return request_bytes(server.port, "GET", f"/api/v2/users/{name}?x={name}", None, {
                **bearer(token(name)), "User-Agent": name, "X-Request-Id": name})

        def unknown(i):
            return request_bytes(server.port, "GET", f"/{marker}{i}", None, headers)
        warm = [*sent(server.port, 1, user), *sent(server.port, 1, unknown)]
        for body in (job_v2_secret("a", marker), job_v2_secret("a", marker), "x: [", job_v1("b")):
            server.submit(body, headers, "/api/v1/jobs")
        wait_until(lambda: read(port).get('rest_lit_submissions_total{dialect="v1",outcome="created"}') == 1)
        read(port)
        before = read(port)
        check.equal("users", set(sent(server.port, 2000, user)), {warm[0]})
        check.equal("unknown paths", set(sent(server.port, 500, unknown)), {warm[1]})
        for i in range(50):
            server.submit(job_v2(f"{marker}-{i}", secrets={"k": marker}), headers)
        reaches(check, port, 'rest_lit_submissions_total{dialect="v2",outcome="created"}', 51)
        route = 'rest_lit_http_requests_total{method="GET",route="/api/v2/users/{user}",code="%d"}' % warm[0]
        reaches(check, port, route, 2001)
        after = read(port)
        new = {name for name in set(after) - set(before) if 'route="/api/v2/jobs"' not in name}
        check.equal("the same series", (new, set(before) - set(after)), (set(), set()))
        text = scrape(port).body
        check.ok("no text of clients", not [form for form in secret_forms(marker) if form in text])
        check.ok("nor of tokens", token("user0").encode()[:30] not in text)


def test_metrics_count_submissions_by_outcome(check):
    port = free_port()
    with closing(FakeApi()) as api, fake_server(api, "--metrics-listen", f"127.0.0.1:{port}", "--rate-submit", "0") as server:
        server.ready()
        key = {"Idempotency-Key": "k1"}
        check.equal("created", server.submit(job_v2("a"), key).status, 202)
        check.equal("repeated", server.submit(job_v2("a"), key).status, 202)
        check.equal("exists", server.submit(job_v2("a")).status, 409)
        check.equal("dry run", server.submit(job_v2("b"), path="/api/v2/jobs?dryRun=true").status, 200)
        check.equal("invalid", server.submit("name: 1").status, 400)
        check.equal("v1", server.submit(job_v1("c"), path="/api/v1/jobs").status, 202)
        api.fault("POST", "frameworks", status=403)
        check.equal("error", server.submit(job_v2("d")).status, 500)
        for dialect, outcome, n in (("v2", "created", 1), ("v2", "repeated", 1), ("v2", "exists", 1),
                                    ("v2", "dry_run", 1), ("unread", "invalid", 1), ("v1", "created", 1),
                                    ("v2", "error", 1), ("mxjob", "created", 0)):
            reaches(check, port, f'rest_lit_submissions_total{{dialect="{dialect}",outcome="{outcome}"}}', n)
        seen = read(port)
        check.equal("translations", seen["rest_lit_translation_duration_seconds_count"], 7)
        check.ok("take time", 0 < seen["rest_lit_translation_duration_seconds_sum"] < 60)
        check.equal("creations", seen['rest_lit_upstream_requests_total{verb="create",outcome="ok"}'], 2)
        check.equal("met another", seen['rest_lit_upstream_requests_total{verb="create",outcome="exists"}'], 2)
        check.ok("refused", seen['rest_lit_upstream_requests_total{verb="create",outcome="refused"}'] >= 1, seen)
        check.ok("sent ones have a latency",
                 seen['rest_lit_upstream_request_duration_seconds_count{verb="create"}'] >= 5, seen)
        reaches(check, port, 'rest_lit_cache_jobs{state="WAITING"}', 2)
        for kind in ("frameworks", "events"):
            check.equal(f"{kind} are listed once", seen[f'rest_lit_reflector_lists_total{{collection="{kind}"}}'], 1)
        api.fault("WATCH", "frameworks", times=1, status=410)
        api.cut_watches()
        reaches(check, port, 'rest_lit_reflector_lists_total{collection="frameworks"}', 2)
        check.ok("the cache is young", read(port)["rest_lit_cache_age_seconds"] < 60, seen)
        check.ok("the janitor looks", wait_until(
            lambda: read(port)['rest_lit_janitor_rounds_total{result="ok"}'] >= 1))


def test_metrics_of_streams_have_no_latency(check):
    """Streams and long polls are in flight, and have no latency."""
    port = free_port()
    watch = 'method="GET",route="/api/v2/jobs/watch"'
    with Server("--engine=none", "--local", "d", "--metrics-listen", f"127.0.0.1:{port}") as server:
        stream = Stream(server)
        check.equal("a stream", stream.status, 200)
        reaches(check, port, "rest_lit_http_long_lived", 1)
        reaches(check, port, "rest_lit_http_requests_in_flight", 1)
        stream.connection.close()
        reaches(check, port, f'rest_lit_http_requests_total{{{watch},code="200"}}', 1)
        reaches(check, port, "rest_lit_http_long_lived", 0)
        seen = read(port)
        check.ok("no latency", f"rest_lit_http_request_duration_seconds_count{{{watch}}}" not in seen, seen)
        probe = 'method="GET",route="/healthz"'
        total = seen[f'rest_lit_http_requests_total{{{probe},code="200"}}']
        check.ok("others have one", seen[f"rest_lit_http_request_duration_seconds_count{{{probe}}}"] >= total, seen)
        last = 0
        for name, n in seen.items():
            if name.startswith(f"rest_lit_http_request_duration_seconds_bucket{{{probe}"):
                check.ok("buckets are cumulative", n >= last, name)
                last = n
        check.equal("no GPUs without an engine", [n for n in seen if "_local_" in n], [])


def test_metrics_show_requests_in_flight(check):
    port = free_port()
    with closing(FakeApi()) as api, fake_server(api, "--metrics-listen", f"127.0.0.1:{port}", "--loops", "1") as server:
        server.ready()
        gate = threading.Event()
        api.fault("POST", "frameworks", until=gate)
        with server.connect() as c:
            c.send(request_bytes(server.port, "POST", "/api/v2/jobs", job_v2("a").encode()))
            reaches(check, port, "rest_lit_upstream_in_flight", 1)
            reaches(check, port, "rest_lit_http_requests_in_flight", 1)
            gate.set()
            check.equal("accepted in the end", c.reply().status, 202)


def test_request_id_is_in_answer_log_and_framework(check):
    """The answer, the log and the annotation of the Framework have the same id."""
    with closing(FakeApi()) as api, fake_server(api) as server:
        for id in ("a b", "a/b", "x" * 65):
            found = server.request("GET", "/healthz", headers={"X-Request-Id": id}).headers["x-request-id"]
            check.ok(f"another id than {id}", found != id and len(found) == 16, found)
        for name, headers in (("a", {}), ("b", {"X-Request-Id": "From-a-client-1"})):
            reply = server.submit(job_v2_secret(name, "s"), headers)
            found = reply.headers["x-request-id"]
            check.equal(f"{name}: accepted", reply.status, 202)
            check.equal(f"{name}: the client's", found, headers.get("X-Request-Id", found))
            with api.lock:
                meta = api.objects["frameworks", framework_name(name)]["metadata"]
                others = [o for (kind, _), o in api.objects.items() if kind in ("secrets", "configmaps")]
            check.equal(f"{name}: the Framework has it", meta["annotations"].get("rest-lit/request-id"), found)
            check.ok(f"{name}: no other object has it", others and not any(
                "rest-lit/request-id" in o["metadata"].get("annotations", {}) for o in others))
            lines = [json.loads(line) for line in server.logged(f'"id":"{found}"')]
            check.equal(f"{name}: the log has it", [(line["msg"], line["framework"]) for line in lines],
                        [("request", framework_name(name))])
        shown = server.request("POST", "/api/v2/jobs?dryRun=true", job_v2("c"), {"Content-Type": "text/yaml"})
        check.ok("a dry run does not show it", b"request-id" not in shown.body, shown)
