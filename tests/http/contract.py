"""The contract with clients: routes, content types, status codes, bodies, headers."""
import http.client
import json
import re

from harness import PATIENCE, SLOW, Server, free_port, job_v1, job_v2, route_table, run, wait_until

JSON_TYPE = "application/json; charset=utf-8"
YAML_TYPES = ["text/yaml", "text/plain", "text/plain;charset=UTF-8", "text/x-anything",
              "application/json", "application/json; charset=utf-8", "application/yaml",
              "application/x-yaml", "TEXT/YAML"]
OTHER_TYPES = ["application/octet-stream", "multipart/form-data; boundary=x", "image/png",
               "text", "text/", "/", "a b/c"]


class Contract:
    def __init__(self, server):
        self.server = server
        self.count = 0

    def name(self):
        self.count += 1
        return f"contract-{self.count}"

    # ---- accepted -----------------------------------------------------------------------
    def test_v2_submission_is_accepted(self, check):
        name = self.name()
        reply = self.server.submit(job_v2(name))
        check.equal("v2: status", reply.status, 202)
        check.equal("v2: content type", reply.headers.get("content-type"), JSON_TYPE)
        check.equal("v2: body", {k: (reply.json or {}).get(k) for k in ("status", "message")},
                    {"status": 202, "message": f"Update job {name} for user alice successfully."})

    def test_v1_submission_is_accepted_on_all_routes(self, check):
        for method, path in (("PUT", "/api/v1/user/alice/jobs/{}"), ("PUT", "/api/v1/jobs/{}"),
                             ("POST", "/api/v1/user/alice/jobs"), ("POST", "/api/v1/jobs")):
            name = self.name()
            reply = self.server.submit(job_v1(name), {"Content-Type": "application/json"},
                                       path.format(name), method)
            check.equal(f"{method} {path}: status", reply.status, 202)
            body = reply.json or {}
            check.equal(f"{method} {path}: message", body.get("message"),
                        f"update job {name} successfully")
            check.equal(f"{method} {path}: success", body.get("success"), True)

    def test_warnings_name_the_member_of_the_job(self, check):
        """Accepted jobs with warnings: the response names the member, v1 also in a header."""
        body = job_v1(self.name(), gpuType="k80")
        reply = self.server.submit(body, {"Content-Type": "application/json"}, "/api/v1/jobs")
        check.equal("warning: header", reply.headers.get("x-warning"),
                    "gpuType: is ignored: nodes are not chosen by it")
        warnings = (reply.json or {}).get("warnings") or [{}]
        check.equal("warning: pointer", warnings[0].get("pointer"), "/gpuType")
        done = run("translate", "-", text=body.encode())
        check.ok("warning: of translate", b"<stdin>:1:" in done.stderr and b": warning: /gpuType: is ignored" in done.stderr,
                 done.stderr)

    def test_rest_server_prefix_is_accepted_once(self, check):
        for prefix in ("", "/rest-server"):
            reply = self.server.submit(job_v2(self.name()), path=prefix + "/api/v2/jobs")
            check.equal(f"prefix '{prefix}'", reply.status, 202)
        reply = self.server.submit(job_v2(self.name()), path="/rest-server/rest-server/api/v2/jobs")
        check.equal("the prefix counts once", reply.status, 404)

    def test_trailing_slash_is_accepted(self, check):
        check.equal("trailing slash", self.server.submit(job_v2(self.name()),
                                                         path="/api/v2/jobs/").status, 202)

    def test_content_types_of_yaml_and_json_are_accepted(self, check):
        # No Content-Type: Python's requests with a text body.
        for kind in YAML_TYPES + [None]:
            reply = self.server.submit(job_v2(self.name()), {"Content-Type": kind})
            check.equal(f"content type {kind}", reply.status, 202)
        for kind in OTHER_TYPES:
            reply = self.server.submit(job_v2(self.name()), {"Content-Type": kind})
            check.equal(f"content type {kind} is refused", reply.status, 415)
            check.ok(f"content type {kind}: message", reply.message, reply)

    def test_percent_encoded_names_are_decoded(self, check):
        name = self.name()
        path = "/api/v1/user/%61lice/jobs/" + name.replace("-", "%2d")
        reply = self.server.submit(job_v1(name), {"Content-Type": "application/json"}, path, "PUT")
        check.equal("percent-encoded names", reply.status, 202)

    def test_chunked_body_is_accepted(self, check):
        name = self.name()
        body = job_v2(name).encode()
        with self.server.connect() as c:
            c.send(b"POST /api/v2/jobs HTTP/1.1\r\nHost: localhost:%d\r\nContent-Type: text/yaml\r\n"
                   b"Transfer-Encoding: chunked\r\n\r\n" % self.server.port)
            for i in range(0, len(body), 100):
                piece = body[i:i + 100]
                c.send(b"%x\r\n%s\r\n" % (len(piece), piece))
            c.send(b"0\r\n\r\n")
            reply = c.reply()
        check.equal("chunked body", reply and reply.status, 202)

    # ---- refused ------------------------------------------------------------------------
    def test_duplicate_job_is_a_conflict(self, check):
        name = self.name()
        self.server.submit(job_v2(name))
        check.refused("v2 twice", self.server.submit(job_v2(name)), 409, "ConflictJobError",
                   name)
        check.refused("v1 of the same name", self.server.submit(
            job_v1(name), {"Content-Type": "application/json"}, "/api/v1/jobs"), 409,
            "ConflictJobError", name)

    def test_unknown_routes_are_404(self, check):
        for method, path in (("GET", "/nothing"), ("GET", "/api/v3/jobs"), ("POST", "/api/v2/job"),
                             ("POST", "/api/v2/jobs/x/y"), ("POST", "/API/v2/jobs"),
                             ("BREW", "/api/v2/job")):
            body = job_v2("never") if method in ("POST", "PUT") else None
            check.refused(f"{method} {path}",
                       self.server.request(method, path, body), 404, "NoApiError")

    def test_other_methods_are_405_with_allow(self, check):
        for method, path, allowed in (
                ("DELETE", "/api/v2/jobs", "GET, HEAD, POST, OPTIONS"), ("PATCH", "/healthz", "GET, HEAD, OPTIONS"),
                ("POST", "/healthz", "GET, HEAD, OPTIONS"), ("BREW", "/api/v2/jobs", "GET, HEAD, POST, OPTIONS"),
                ("PUT", "/rest-server/api/v1/user/alice/jobs/", "GET, HEAD, POST, OPTIONS"),
                ("POST", "/api/v2/jobs/watch", "GET, HEAD, OPTIONS")):
            body = job_v2("never") if method in ("POST", "PUT") else None
            reply = self.server.request(method, path, body)
            check.refused(f"{method} {path}", reply, 405, "MethodNotAllowedError", allowed)
            check.equal(f"{method} {path}: Allow", reply.headers.get("allow"), allowed)

    def test_paths_without_a_user_are_accepted(self, check):
        """The paths of PAI 0.8, where jobs have no users."""
        name = self.name()
        reply = self.server.submit(job_v1(name), {"Content-Type": "application/json"}, "/api/v1/jobs/other", "PUT")
        check.refused("PUT of another name", reply, 400, "InvalidParametersError", "other", name)
        reply = self.server.submit(job_v1(name), {"Content-Type": "application/json"}, f"/api/v1/jobs/{name}", "PUT")
        check.equal("PUT", reply.status, 202)
        with_user = self.server.request("GET", f"/api/v1/user/alice/jobs/{name}/config")
        for job in (name, f"alice~{name}"):
            path = f"/api/v1/jobs/{job}"
            check.ok(f"GET {path}", wait_until(lambda p=path: self.server.request("GET", p).status == 200))
            reply = self.server.request("GET", path + "/config")
            check.equal(f"GET {path}/config", (reply.status, reply.body), (200, with_user.body))
            check.refused(f"GET {path}/ssh", self.server.request("GET", path + "/ssh"), 404, "NoJobSshInfoError")
            reply = self.server.request("PUT", path + "/executionType", '{"value": "STOP"}',
                                        {"Content-Type": "application/json"})
            check.equal(f"PUT {path}/executionType", reply.status, 202)
        for path in ("/api/v1/jobs/nobodys/config", f"/api/v1/jobs/bob~{name}/config"):
            check.refused(f"GET {path}", self.server.request("GET", path), 404, "NoJobError")

    def test_absolute_form_of_the_target_is_accepted(self, check):
        """RFC 9112 3.2.2: a server accepts http://HOST/PATH and uses this HOST."""
        port = self.server.port
        for target, host, status in (
                (f"http://localhost:{port}/healthz", f"localhost:{port}", 200),
                (f"HTTP://127.0.0.1:{port}/api/v2/jobs?limit=1", f"localhost:{port}", 200),
                (f"https://localhost:{port}/healthz", f"localhost:{port}", 200),
                (f"http://localhost:{port}", f"localhost:{port}", 200),
                (f"http://localhost:{port}?x=/healthz", f"localhost:{port}", 200),
                (f"http://localhost:{port}/healthz", "elsewhere", 200),
                (f"http://localhost:{port}/nothing", f"localhost:{port}", 404),
                (f"http://localhost:{port}//healthz", f"localhost:{port}", 404),
                (f"http://elsewhere/healthz", f"localhost:{port}", 403),
                (f"http://localhost:{port}@elsewhere/healthz", f"localhost:{port}", 400),
                (f"http:///healthz", f"localhost:{port}", 400),
                (f"ftp://localhost:{port}/healthz", f"localhost:{port}", 404)):
            replies, _ = self.server.raw(f"GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode(), answers=1)
            check.equal(f"{target}, Host: {host}", [r.status for r in replies], [status])

    def test_errors_have_pointer_line_and_column(self, check):
        text = "\n".join([
            "protocolVersion: 2", "name: placed", "type: job", "prerequisites:",
            "  - {name: image, type: dockerimage, uri: 'ubuntu:22.04'}", "taskRoles:",
            "  worker:", "    intances: 1", "    dockerImage: image",
            "    resourcePerInstance: {cpu: 0, memoryMB: 100, gpu: x}", "    commands: ['true']"])
        reply = self.server.submit(text)
        check.refused("three mistakes", reply, 400, "InvalidProtocolError", "intances",
                   "instances")
        errors = (reply.json or {}).get("errors") or []
        check.ok("three mistakes: at least two are listed", len(errors) >= 2, reply)
        check.ok("each has pointer, line, column and message", errors and all(
            isinstance(e.get("pointer"), str) and isinstance(e.get("line"), int) and
            isinstance(e.get("column"), int) and e.get("message") for e in errors), reply)
        check.ok("the misspelt key is at line 8, column 5",
                 any(e.get("line") == 8 and e.get("column") == 5 for e in errors), errors)
        check.ok("the gpu is at line 10", any(
            e.get("line") == 10 and e.get("pointer") == "/taskRoles/worker/resourcePerInstance/gpu"
            for e in errors), errors)

    def test_malformed_jobs_are_refused(self, check):
        """Which mistakes there are: tests/hostile."""
        for what, text, word in (("open bracket", "name: [a, b\ntype: job\n", "line"), ("nothing", "", ""),
                                 ("UTF-16", "name: x\n".encode("utf-16"), ""), ("NUL", "name: x\0y\n", "")):
            check.refused(f"malformed ({what})", self.server.submit(text), 400,
                       "InvalidProtocolError", word)
        for what, text in (("open brace", '{"jobName": "x"'), ("nothing", "")):
            check.refused(f"malformed v1 ({what})", self.server.submit(
                text, {"Content-Type": "application/json"}, "/api/v1/jobs"), 400, None)

    def test_far_too_large_bodies_are_not_read(self, check):
        """The server does not read 10 MiB before a refusal: a client that only sends may find the
        connection closed."""
        reply = None
        try:
            reply = self.server.submit(b"#" * (10 << 20))
        except OSError:
            pass
        check.ok("10 MiB: refused or cut", reply is None or reply.status == 413, reply)
        check.equal("10 MiB: alive", self.server.request("GET", "/healthz").status, 200)

    def test_too_large_length_is_refused_before_the_body(self, check):
        with self.server.connect() as c:
            c.send(b"POST /api/v2/jobs HTTP/1.1\r\nHost: localhost:%d\r\nContent-Type: text/yaml\r\n"
                   b"Expect: 100-continue\r\nContent-Length: 1000000000\r\n\r\n" % self.server.port)
            data, _ = c.read(PATIENCE, lambda d: b"\r\n\r\n" in d)
        check.ok("a gigabyte is refused before it is sent", data.startswith(b"HTTP/1.1 413"),
                 data[:80])

    def test_expect_continue_is_answered(self, check):
        body = job_v2(self.name()).encode()
        with self.server.connect() as c:
            c.send(b"POST /api/v2/jobs HTTP/1.1\r\nHost: localhost:%d\r\nContent-Type: text/yaml\r\n"
                   b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" %
                   (self.server.port, len(body)))
            data, _ = c.read(PATIENCE, lambda d: b"\r\n\r\n" in d)
            check.ok("Expect: 100-continue is answered", data.startswith(b"HTTP/1.1 100"), data)
            c.send(body)
            reply = c.reply()
        check.equal("... and then the body is taken", reply and reply.status, 202)

    def test_content_encoding_gzip_is_refused(self, check):
        check.refused("gzip", self.server.submit(
            job_v2(self.name()), {"Content-Encoding": "gzip"}), 415, None)
        check.equal("identity", self.server.submit(
            job_v2(self.name()), {"Content-Encoding": "identity"}).status, 202)

    # ---- everything else ----------------------------------------------------------------
    def test_health_routes_answer_get_and_head(self, check):
        for path in ("/healthz", "/readyz", "/healthz/"):
            check.equal(f"GET {path}", self.server.request("GET", path).status, 200)
            reply = self.server.request("HEAD", path)
            check.equal(f"HEAD {path}", reply and reply.status, 200)

    def test_page_lists_all_routes(self, check):
        reply = self.server.request("GET", "/")
        check.equal("page: status", reply.status, 200)
        check.equal("page: text", reply.headers.get("content-type"), "text/plain; charset=utf-8")
        check.ok("page: says what this is", b"rest-lit" in reply.body, reply)
        check.ok("page: where it is", f"SERVER=http://127.0.0.1:{self.server.port}\n".encode() in reply.body, reply)
        check.ok("page: for a terminal", max(map(len, reply.body.splitlines()[:40])) <= 100, reply)
        routes = route_table()
        check.ok("page: routes to compare with", len(routes) > 5, routes)
        for method, path, *_ in routes:
            check.ok(f"page: names {method} {path}",
                     f"    {method:<8}{path}\n".encode() in reply.body, reply)

    def test_options_gives_no_cross_origin_access(self, check):
        reply = self.server.request("OPTIONS", "/api/v2/jobs", headers={
            "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "x"})
        check.equal("OPTIONS is answered", reply.status, 204)
        check.ok("OPTIONS gives no leave", not any(
            h.startswith("access-control") for h in reply.headers), reply)

    def test_keep_alive_serves_many_large_heads(self, check):
        with self.server.connect() as c:
            fine = 0
            for i in range(200):
                c.send(b"GET /healthz HTTP/1.1\r\nHost: localhost:%d\r\n" % self.server.port + b"".join(
                    b"H%d: %s\r\n" % (j, b"v" * (i * j % 60)) for j in range(40)) + b"\r\n")
                reply = c.reply()
                fine += bool(reply and reply.status == 200)
        check.equal("200 requests of 41 headers on one connection", fine, 200)

    def test_long_heads_are_refused(self, check):
        for what, head in (("URI", b"GET /" + b"a" * 40000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"),
                           ("header", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " +
                            b"a" * 40000 + b"\r\n\r\n"),
                           ("many headers", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" +
                            b"X: y\r\n" * 10000 + b"\r\n")):
            replies, closed = self.server.raw(head)
            refused = closed and (not replies or replies[0].status in (400, 413, 414, 431))
            check.ok(f"long {what} is refused", refused, replies)
        for n in (300, 1500):
            reply = self.server.request("GET", "/api/v2/jobs?" + "&".join(["a=1"] * n))
            check.equal(f"{n} parameters: 414", (reply.status, reply.code), (414, "UriTooLongError"))
            reply = self.server.request("POST", "/api/v2/jobs?" + "&a" * n, job_v2(self.name()), {"Content-Type": "text/yaml"})
            check.equal(f"{n} parameters of a submission: 414", (reply.status, reply.code), (414, "UriTooLongError"))
        check.equal("100 parameters are none too many", self.server.request("GET", "/api/v1?" + "&a" * 100).status, 200)
        check.equal("... and the server lives", self.server.request("GET", "/healthz").status, 200)

    def test_log_has_one_json_line_per_request(self, check):
        name = self.name()
        self.server.submit(job_v2(name), {"User-Agent": 'a"b\\c'})
        self.server.logged(name)
        self.server.settled_log()
        lines = self.server.log_lines(name)
        check.equal("one log line per request", len(lines), 1)
        try:
            line = json.loads(lines[0]) if lines else {}
        except ValueError:
            line = {}
        check.ok("the log line is JSON and has the status", 202 in line.values(), lines)
        self.server.raw(b"GET /inject%%0aline\x1b[31m HTTP/1.1\r\nHost: localhost:%d\r\n\r\n" %
                        self.server.port)
        check.ok("no control characters in the log",
                 not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", self.server.settled_log()))


def test_contract_with_clients_is_kept(check):
    with Server("--engine=none", "--local", "jobs") as server:
        contract = Contract(server)
        check.run(*(getattr(contract, n) for n in dir(contract) if n.startswith("test_")))
        check.equal("exit status", server.stop(), 0)


def test_page_contains_the_address_of_listen(check):
    """The page at / contains the address of --listen."""
    port = free_port()
    with Server("--engine=none", "--local", "jobs", "--listen", f"[::1]:{port}", port=port, wait=False) as server:
        def page():
            try:
                connection = http.client.HTTPConnection("::1", port, timeout=PATIENCE * SLOW)
                connection.request("GET", "/")
                return connection.getresponse().read()
            except OSError:
                return b""
        if not wait_until(lambda: page() or server.process.poll() is not None) or not page():
            print("     not tested: IPv6 (is there none?): " + server.log()[-200:], flush=True)
            return
        check.ok("the page names it", f"SERVER=http://[::1]:{port}\n".encode() in page(), page()[:600])
