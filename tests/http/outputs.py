"""The end of a task's output, which its pod uploads at the end and clients read afterwards."""
import base64
import gzip
import json
import os
import random
import threading
import time

from edge import From
from fakeapi import status
from harness import SLOW, Connection, Server, framework_name, free_port, in_threads, request_bytes, wait_until
from logs import JOB, Place, framework_of, pod_of
from metrics import read as read_metrics
from tokens import bearer, token
from uploading import ACCOUNT, AUDIENCE, ERR, HELLO, OUT, ROUTE, frames, pod_token, upload


class Uploads(Place):
    """A server with a port for uploads."""

    def __init__(self, *arguments, tasks=1, retry=0, attempt=0):
        self.output_port = free_port()
        super().__init__("--output-listen", f"127.0.0.1:{self.output_port}",
                         "--output-url", f"http://127.0.0.1:{self.output_port}", *arguments)
        self.pods, self.tokens = {}, {}
        self.set_tasks(tasks, retry, attempt)

    def set_tasks(self, n, retry=0, attempt=0, watched=True):
        """Creates tasks with a pod and a token each; waits until the server knows them, if it
        watches."""
        for index in range(n):
            name = f"{self.name}-worker-{index}"
            with self.api.lock:
                if ("pods", name) in self.api.objects:
                    self.api.remove("pods", name)
            self.pods[index] = self.api.put("pods", pod_of(self.name, "", index=index))["metadata"]["uid"]
            self.vouch(f"pod-{index}-{retry}-{attempt}", name, self.pods[index])
        body = framework_of(self.name, "alice", JOB, {
            ("worker", i): (retry, self.pods[i]) for i in range(n)}, attempt)
        body["spec"]["taskRoles"] = [{"name": "worker", "taskNumber": n}]
        self.api.update("frameworks", self.name, body)
        if watched and not wait_until(lambda: self.known_pods() == [self.pods[i] for i in range(n)]):
            raise RuntimeError(f"the server knows {self.known_pods()}, not {self.pods}")

    def known_pods(self):
        job = self.server.request("GET", f"/api/v2/jobs/alice~{JOB}", headers=bearer(token("alice"))).json
        return [task["containerId"] for role in (job or {}).get("taskRoles", {}).values()
                for task in role["taskStatuses"]]

    def vouch(self, text, pod, uid, account=ACCOUNT, audience=AUDIENCE, says=None):
        """Makes the token of this name and sets the result of its TokenReview. `says` are the
        claims of the token, if they differ."""
        self.tokens[text] = pod_token(*(says or (pod, uid, account, audience)), jti=text)
        extra = {"authentication.kubernetes.io/pod-name": [pod],
                 "authentication.kubernetes.io/pod-uid": [uid]} if pod else {}
        with self.api.lock:
            self.api.reviews[self.tokens[text]] = {"authenticated": True, "audiences": [audience],
                                      "user": {"username": account, "extra": extra}}

    def end(self, index=0, code=0, state="AttemptCompleted"):
        """Deletes the pod and sets the status of an ended task."""
        with self.api.lock:
            if ("pods", f"{self.name}-worker-{index}") in self.api.objects:
                self.api.remove("pods", f"{self.name}-worker-{index}")
            body = self.api.objects["frameworks", self.name]
            for task in body["status"]["attemptStatus"]["taskRoleStatuses"][0]["taskStatuses"]:
                if task["index"] == index:
                    task["state"] = state
        self.api.update("frameworks", self.name, body)

    def upload(self, body=HELLO, index=0, retry=0, attempt=0, **more):
        return upload(self.output_port, self.tokens[f"pod-{index}-{retry}-{attempt}"], body, **more)

    def kept(self):
        """Names of the stored outputs, without the Framework's name."""
        with self.api.lock:
            return sorted(name[len(self.name) + 8:] for kind, name in self.api.objects
                          if kind == "configmaps" and name.startswith(self.name + "-output-"))

    def bytes_kept(self):
        with self.api.lock:
            return sum(len(base64.b64decode(v["binaryData"]["output.gz"]))
                       for (kind, name), v in self.api.objects.items()
                       if kind == "configmaps" and name.startswith(self.name + "-output-"))

    def reviewed(self):
        """The tokens of the TokenReviews, in their order."""
        with self.api.lock:
            return [json.loads(body)["spec"]["token"] if isinstance(body, (str, bytes)) else body["spec"]["token"]
                    for method, path, _, _, body in self.api.requests if path.endswith("/tokenreviews")]

    def reviews_sent(self):
        return len(self.reviewed())

    def lines(self):
        with self.api.lock:
            return self.api.objects["configmaps", self.name + "-output"]["data"]["outputs"].splitlines()


# ---- reading after the end of the pod ----------------------------------------------------------
def test_output_outlives_its_pod(check):
    with Uploads("--visibility", "owner") as p:
        check.equal("uploaded", p.upload(dropped=5)[0], 204)
        check.equal("kept", p.kept(), ["worker-0-0-0"])
        with p.api.lock:
            kept = p.api.objects["configmaps", p.name + "-output-worker-0-0-0"]
        check.equal("as it came", base64.b64decode(kept["binaryData"]["output.gz"]), HELLO)
        check.ok("immutable, the Framework's", kept["immutable"] and
                 kept["metadata"]["ownerReferences"][0]["uid"] == p.framework["metadata"]["uid"], kept)
        check.equal("while the pod lives, its log", p.read(p.link("stdout"))[2], p.log.text)
        p.end()
        check.ok("stdout, stderr, all", wait_until(lambda: [l["name"] for l in (p.ask().json or {}).get(
            "locations", [])] == ["stdout", "stderr", "all"]), p.ask())
        check.equal("what came before", p.ask().json["dropped"], 5)
        for name, text in (("stdout", b"Hello\nbye\n"), ("stderr", b"a warning\n"),
                           ("all", b"Hello\na warning\nbye\n")):
            code, headers, body, whole = p.read(p.link(name))
            check.equal(f"{name}: read", (code, body, whole), (200, text, True))
            check.equal(f"{name}: type", headers["content-type"], "text/plain; charset=utf-8")
            check.equal(f"{name}: followed", p.read(p.link(name) + "&follow=true")[2], text)
            check.equal(f"{name}: its end", p.read(p.link(name, query="?tail-mode=true"))[2], text)
            check.equal(f"{name}: by token", p.read(p.path() + f"/{name}", bearer(token()))[2], text)
            check.equal(f"{name}: its offset", headers.get("x-log-offset"), "5" if name == "all" else None)
        for at, first in ((0, 5), (5, 5), (9, 9), (25, 25), (1000, 25)):
            got = p.read(f"{p.link('all')}&from={at}")
            check.equal(f"from {at}", (got[1].get("x-log-offset"), got[2]), (str(first), b"Hello\na warning\nbye\n"[first - 5:]))
            timed = p.read(f"{p.link('all')}&from={at}&times=true")
            check.equal(f"from {at}: it has no times", (timed[1].get("x-log-times"), timed[1].get("x-log-offset"), timed[2]), (None, str(first), got[2]))
        check.refused("runtime", p.ask(p.path() + "/runtime"), 404, "NoTaskLogError", "gone")
        check.refused("another user", p.ask(p.path() + "/all", "bob"), 403, "ForbiddenUserError")
        lists = p.api.count("LIST", "configmaps")
        check.equal("nothing is listed for it", lists, 0)


def test_output_replaces_the_missing_log_of_a_pod(check):
    """The pod exists, but the kubelet no longer has its log."""
    with Uploads() as p:
        p.upload()
        p.log.text = (f'failed to try resolving symlinks in path "/var/log/pods/default_x_{p.pods[0]}/app/0.log": '
                      "lstat /var/log/pods: no such file or directory").encode()
        for query in ("", "?tail-mode=true", "?follow=true"):
            got = p.read(p.path() + "/all" + query, bearer(token()))
            check.equal(f"what is kept {query}", (got[0], got[2]), (200, b"Hello\na warning\nbye\n"))


def test_output_ranges_are_served(check):
    """Ranges of stored outputs, which have a fixed length (RFC 9110 14)."""
    with Uploads("--log-tail", "1KiB") as p:
        text = b"%07d\n" * 500 % tuple(range(500))
        p.upload(frames((OUT, text)))
        p.end()
        check.ok("it has ended", wait_until(lambda: len((p.ask().json or {}).get("locations", [])) == 3))
        uri, end = p.link("stdout"), p.link("stdout", query="?tail-mode=true")

        def ask(value, path=uri, **more):
            code, headers, body, _ = p.read(path, {"Range": value, **more} if value else more)
            check.equal(f"{value} {more}: Accept-Ranges", headers.get("accept-ranges"), "bytes")
            check.equal(f"{value} {more}: Content-Length", headers["content-length"], str(len(body)))
            return code, headers.get("content-range"), body
        for value, begin, over in (("bytes=0-2", 0, 3), ("bytes=-1000", 3000, 4000), ("bytes=3999-", 3999, 4000),
                                   ("bytes=10-99999999999999999999999", 10, 4000), ("bytes=-5000", 0, 4000)):
            check.equal(value, ask(value), (206, f"bytes {begin}-{over - 1}/4000", text[begin:over]))
        for value in (None, "bytes=0-2,5-6", "lines=0-2", "bytes=3-2", "bytes=x", "bytes=-"):
            check.equal(f"all for {value}", ask(value), (200, None, text))
        check.equal("If-Range", ask("bytes=0-2", **{"If-Range": '"x"'}), (200, None, text))
        check.equal("a range of its end", ask("bytes=0-7", end), (206, "bytes 0-7/1024", text[-1024:-1016]))
        for value in ("bytes=4000-", "bytes=99999999999999999999999-", "bytes=-0"):
            code, content, body = ask(value)
            check.equal(value, (code, content), (416, "bytes */4000"))
            check.ok(f"{value}: says so", b"RangeNotSatisfiableError" in body, body)
        head = p.server.request("HEAD", uri, headers={"Range": "bytes=0-2"})
        check.equal("HEAD has no ranges", head.status, 200)


def test_output_links_exist_only_for_stored_outputs(check):
    """An ended task without a stored output has no log."""
    with Uploads() as p:
        uri = p.link("all")
        p.end()
        check.ok("no links", wait_until(lambda: p.ask().status == 404), p.ask())
        check.refused("no links", p.ask(), 404, "NoTaskLogError", "diagnostics")
        check.refused("a link of before", p.server.request("GET", uri), 404, "NoTaskLogError", "diagnostics")
        p.set_tasks(1)
        check.ok("a pod that is still there has links", wait_until(lambda: p.ask().status == 200))
        with p.api.lock:
            body = p.api.objects["frameworks", p.name]
            body["status"]["attemptStatus"]["taskRoleStatuses"][0]["taskStatuses"][0]["state"] = "AttemptCompleted"
        p.api.update("frameworks", p.name, body)
        p.api.settle()
        check.equal("also when its task has ended", len(p.ask().json["locations"]), 4)


def test_output_of_earlier_attempts_is_kept(check):
    """Outputs of each attempt of a task and of the job."""
    with Uploads() as p:
        for attempt in range(2):
            for retry in range(2):
                p.set_tasks(1, retry, attempt)
                check.equal(f"upload {attempt} {retry}", p.upload(
                    frames((OUT, b"%d %d\n" % (attempt, retry))), retry=retry, attempt=attempt, code=1)[0], 204)
        p.end()
        for attempt in range(2):
            for retry in range(2):
                path = p.path(attempt=attempt, retry=retry)
                check.ok(f"links {attempt} {retry}", wait_until(lambda: p.ask(path).status == 200), p.ask(path))
                check.equal(f"read {attempt} {retry}", p.read(p.link("all", path=path))[2],
                            b"%d %d\n" % (attempt, retry))
        for path in (p.path(attempt=0, retry=2), p.path(attempt=1, retry=2), p.path(attempt=2)):
            check.refused(path, p.ask(path), 404, "NoTaskLogError")


def test_output_replaces_a_log_that_disappears(check):
    """The server still knows the pod, but the kubelet no longer has its log."""
    with Uploads() as p:
        uri = p.link("stdout")
        for code in (400, 404, 500, 502):
            p.log.act = lambda h, *_: h.answer(*status(code, "Some"))  # noqa: B023
            check.ok(f"{code}: nothing is kept", p.read(uri)[0] in (404, 500), p.read(uri))
        check.equal("uploaded", p.upload()[:2], (204, ""))
        for code in (400, 404, 500, 502):
            check.equal(f"{code}: what is kept", p.read(uri)[2], b"Hello\nbye\n")


# ---- authentication ------------------------------------------------------------------------------
def test_upload_with_a_forged_or_foreign_token_is_refused(check):
    with Uploads() as p:
        name, uid = f"{p.name}-worker-0", p.pods[0]
        p.vouch("otheraccount", name, uid, "system:serviceaccount:default:other")
        p.vouch("othernamespace", name, uid, "system:serviceaccount:other:runtime-account")
        p.vouch("person", name, uid, "alice")
        p.vouch("unbound", "", "")
        p.vouch("nojob", "nginx-0", uid)
        p.vouch("otherjob", f"{framework_name('other')}-worker-0", uid)
        p.vouch("otherrole", f"{p.name}-ps-0", uid)
        p.vouch("otherindex", f"{p.name}-worker-1", uid)
        p.vouch("replaced", name, "11111111-2222-3333-4444-555555555555")
        p.vouch("oddname", f"{p.name}-worker-0-0", uid)
        p.vouch("audience", name, uid, audience="rest-lit")
        for text, codes in (("forged", (401,)), ("audience", (401,)), ("otheraccount", (403,)),
                            ("othernamespace", (403,)), ("person", (403,)), ("unbound", (403,)),
                            ("nojob", (403,)), ("otherjob", (403,)), ("otherrole", (503,)),
                            ("otherindex", (503,)), ("replaced", (403,)), ("oddname", (403,)),
                            (token(), (401,))):
            code, _, _ = upload(p.output_port, p.tokens.get(text, text))
            check.ok(f"{text[:20]}: refused", code in codes, code)
        looked_at = p.api.count("POST", "tokenreviews")
        check.equal("TokenReviews of those only that may be right", looked_at, 4)
        for what, more in (("expired", {"lifetime": -600}), ("no account", {"sub": None}), ("no expiry", {"exp": "x"}),
                           ("no audience", {"aud": 7}), ("no pod", {"kubernetes.io": {"pod": []}}),
                           ("no claims", {"aud": {"rest-lit-output": "rest-lit-output"}})):
            check.ok(f"{what}: refused", upload(p.output_port, pod_token(name, uid, **more))[0] in (401, 403))
        for text in ("a..b", "..", "a.!.b", "a.e30.b", "a." + "W1tb" * 100 + ".b", "x" * 5000, "a." + "x" * 8000 + ".b"):
            check.ok(f"{text[:20]}: refused", upload(p.output_port, text)[0] in (401, 403))
        check.equal("without TokenReviews", p.api.count("POST", "tokenreviews"), looked_at)
        good = (name, uid, ACCOUNT, AUDIENCE)
        p.vouch("says more", f"{framework_name('other')}-worker-0", uid, says=good)
        p.vouch("is another's", name, uid, "system:serviceaccount:default:other", says=good)
        p.tokens["is nobody's"] = pod_token(*good)
        for text, codes in (("says more", 403), ("is another's", 403), ("is nobody's", 401)):
            check.equal(f"{text}: the review decides", upload(p.output_port, p.tokens[text])[0], codes)
        for header in ({}, {"Authorization": "Basic eDp5"}, {"Authorization": "Bearer"}):
            with Connection(p.output_port) as c:
                c.send(request_bytes(p.output_port, "PUT", ROUTE + "?exitCode=0&dropped=0", HELLO, {
                    "Content-Type": "application/octet-stream", **header}))
                check.equal(f"{header}: refused", c.reply().status, 401)
        check.equal("nothing is kept", p.kept(), [])
        check.equal("nor made", p.api.count("POST", "configmaps"), 0)
        check.equal("nor is any token in the log", [w for w in (p.tokens["otheraccount"][-30:], token()[:30])
                                                    if w in p.server.settled_log()], [])


def test_upload_with_a_replayed_token_replaces_nothing(check):
    with Uploads() as p:
        check.equal("first", p.upload()[0], 204)
        check.equal("the same again", p.upload()[0], 204)
        check.equal("another", p.upload(frames((OUT, b"forged\n")))[:2], (409, "OutputKeptError"))
        p.set_tasks(1, retry=1)
        check.equal("when the pod was replaced", p.upload(frames((OUT, b"late\n")))[0], 403)
        check.equal("one is kept", p.kept(), ["worker-0-0-0"])
        check.equal("the new pod", p.upload(retry=1)[0], 204)
        p.end()
        path = p.path(retry=0)
        check.ok("the first", wait_until(lambda: p.ask(path).status == 200) and
                 p.read(p.link("stdout", path=path))[2] == b"Hello\nbye\n")


def test_upload_of_an_unknown_pod_asks_the_api_server(check):
    """The server then asks the API server, and retries if the pod is still unknown."""
    with Uploads() as p:
        with p.api.lock:
            p.api.epoch += 1
        p.api.fault("WATCH", "frameworks", hang="before")
        p.api.cut_watches()
        p.set_tasks(1, retry=1, watched=False)
        check.equal("behind", p.upload(retry=1)[0], 204)
        check.equal("asked exactly", p.kept(), ["worker-0-0-1"])
        body = framework_of(p.name, "alice", JOB, {("worker", 0): (2, None)})
        p.api.update("frameworks", p.name, body)
        p.vouch("early", f"{p.name}-worker-0", "u-2")
        check.equal("not known yet", upload(p.output_port, p.tokens["early"])[0], 503)
        p.api.update("frameworks", p.name, framework_of(p.name, "alice", JOB, {("worker", 0): (2, "u-2")}))
        check.equal("known", upload(p.output_port, p.tokens["early"])[0], 204)


def test_upload_port_has_one_route(check):
    """The token is valid for no other route, and the port has no other route."""
    with Uploads() as p:
        for path in ("/api/v2/jobs", "/api/v2/user", p.path(), p.path() + "/all", f"/api/v2/jobs/alice~{JOB}"):
            reply = p.server.request("GET", path, headers=bearer(p.tokens["pod-0-0-0"]))
            check.equal(f"the pod's token elsewhere: {path}", reply.status, 401)
        reply = p.server.request("PUT", ROUTE + "?exitCode=0&dropped=0", HELLO, {
            "Content-Type": "application/octet-stream", **bearer(p.tokens["pod-0-0-0"])})
        check.equal("the route is not at the other port", reply.status, 404)
        for method, path in (("GET", "/healthz"), ("GET", "/readyz"), ("GET", "/api/v2/jobs"), ("GET", ROUTE),
                             ("OPTIONS", ROUTE), ("POST", "/api/v2/jobs"), ("PUT", "/rest-server" + ROUTE)):
            with Connection(p.output_port) as c:
                c.send(request_bytes(p.output_port, method, path, None, bearer(token())))
                check.equal(f"not here: {method} {path}", c.reply().status, 405 if path == ROUTE else 404)


def test_upload_with_a_malformed_body_is_refused(check):
    with Uploads() as p:
        for what, body in (("short", HELLO[:-9]), ("no gzip", gzip.decompress(HELLO)), ("only its head", HELLO[:2]),
                           ("nothing", b""), ("no frame", gzip.compress(b"Hello\n")), ("stream 3", frames((3, b"x"))),
                           ("too much", frames((OUT, b"x" * ((1 << 20) + 1)))),
                           ("too many", frames(*[(OUT, b"")] * 16385))):
            check.equal(what, p.upload(body)[0], 400)
        check.equal("too large", p.upload(b"x" * ((512 << 10) + 1))[0], 413)
        for query in ("", "?exitCode=0", "?exitCode=x&dropped=0", "?exitCode=0&dropped=-1",
                      "?exitCode=99999999999&dropped=0"):
            with Connection(p.output_port) as c:
                c.send(request_bytes(p.output_port, "PUT", ROUTE + query, HELLO, {
                    "Content-Type": "application/octet-stream", **bearer(p.tokens["pod-0-0-0"])}))
                check.equal(f"query {query!r}", c.reply().status, 400)
        check.equal("another type", p.upload(**{"Content-Type": "text/plain"})[0], 415)
        check.equal("nothing is kept", p.kept(), [])
        check.equal("64 KiB in 4096 frames", p.upload(frames(*[(OUT, b"0123456789abcdef")] * 4096))[0], 204)
        p.end()
        check.equal("all of it", len(p.read(p.link("all"))[2]), 65536)


# ---- limits --------------------------------------------------------------------------------------
def noise(n, seed=0):
    """Data that gzip cannot compress."""
    return random.Random(seed).randbytes(n)


def test_uploads_of_many_pods_use_limited_memory(check):
    """256 pods (in check-long) concurrently upload the largest accepted size."""
    n, room = 256 if os.environ.get("TEST_WHOLE") else 64, 120 << 20
    with Uploads("--output-bytes", "256MiB", tasks=n) as p:
        bodies = [frames((OUT, noise(523000, i))) for i in range(8)]
        check.ok("almost the most", all((510 << 10) < len(b) <= 512 << 10 for b in bodies), [len(b) for b in bodies])
        before, top, codes = p.server.rss_kib(), [0], {}

        def one(i):
            pause = 0.1
            while codes.get(i) in (None, 503):
                codes[i] = p.upload(bodies[i % 8], i, source=f"127.0.{2 + i // 200}.{i % 200 + 1}")[0]
                top[0] = max(top[0], p.server.rss_kib())
                time.sleep(pause if codes[i] == 503 else 0)
                pause = min(2 * pause, 3.2)  # as pai-runtime
        in_threads(n, one)
        check.equal("all are kept", (set(codes.values()), len(p.kept())), ({204}, n))
        used = (top[0] - before) << 10
        print(f"     {n} uploads: {used >> 20} MiB, after {before >> 10} MiB")
        check.ok("memory", used < room * SLOW, used)


def test_upload_without_room_is_413(check):
    with Uploads("--output-bytes", "64KiB", tasks=3) as p:
        check.equal("failed", p.upload(frames((ERR, noise(65000, 0))), 0, code=1)[0], 204)
        check.equal("no space for a succeeded task", p.upload(frames((OUT, noise(65000, 1))), 1)[:2],
                    (413, "PayloadTooLargeError"))
        check.equal("the first stays", p.kept(), ["worker-0-0-0"])
        check.ok("said in the log", p.server.logged(f'"pod":"{p.name}-worker-1","code":"PayloadTooLargeError"'))
        p.set_tasks(3, attempt=1)
        check.equal("in the next attempt of the job", p.upload(
            frames((OUT, noise(65000, 1))), 1, attempt=1)[0], 204)
        check.ok("what was before goes", wait_until(lambda: p.kept() == ["worker-1-1-0"]), p.kept())


def test_output_is_found_by_a_restarted_server(check):
    """The server looks up stored outputs, so that a restarted server finds them."""
    with Uploads("--output-bytes", "64KiB", tasks=4) as p:
        for i in range(2):
            p.upload(frames((OUT, noise(16000, i))), i, code=1)
        p.server.stop()
        p.server = restarted(p)
        check.equal("goes on", p.upload(frames((OUT, noise(65000, 2))), 2, code=1)[0], 204)
        check.ok("within the bound", p.bytes_kept() <= 65536, p.bytes_kept())
        check.equal("all three", len(p.kept()), 3)


def restarted(p):
    p.servers.append(Server(*p.server.arguments, who=[], port=p.server.port))
    p.servers[-1].ready()
    return p.servers[-1]


def test_upload_that_was_interrupted_is_completed(check):
    """The index has an entry without an output: the repeated upload continues."""
    with Uploads() as p:
        p.api.fault("POST", "configmaps", p.name + "-output-", times=1, status=500)
        check.equal("not kept", (p.upload()[0], p.kept()), (503, []))
        check.equal("announced", len(p.lines()), 1)
        check.equal("again", (p.upload()[0], p.kept()), (204, ["worker-0-0-0"]))
        check.equal("and again", (p.upload()[0], p.kept()), (204, ["worker-0-0-0"]))
        check.equal("once", len(p.lines()), 1)


def test_upload_retries_after_index_conflicts(check):
    """The index changes between reading and writing."""
    with Uploads(tasks=2) as p:
        p.upload()
        p.api.fault("PATCH", "configmaps", times=3, status=409)
        check.equal("in the end", p.upload(index=1)[0], 204)
        check.equal("both", [line.split()[1] for line in p.lines()], ["0", "1"])
    with Uploads() as p:
        p.api.fault("POST", "configmaps", status=403)
        check.equal("no right", p.upload()[0], 500)
        check.ok("said in the log", p.server.logged("configmaps"))


def forged(p, i, uid=None):
    """Returns a forged token with the claims of a pod's token (of another pod, if there is a uid).
    The server can refuse it only after a TokenReview."""
    return pod_token(f"{p.name}-worker-0", uid or p.pods[0], jti=f"forged {i}")


def test_upload_floods_of_invalid_tokens_are_limited(check):
    """Invalid tokens per minute and address; neither the pods of this address nor other addresses are affected."""
    with Uploads(tasks=2) as p:
        start = time.monotonic()
        codes = [upload(p.output_port, forged(p, i, f"u-{i}"))[0] for i in range(50)]
        check.equal("the first are looked at", set(codes), {401})
        # Faster than the limit recovers, two per second.
        flood = sum(in_threads(8, lambda i: [upload(p.output_port, forged(p, i, f"u-{i}-{n}")) for n in range(25)]), [])
        codes += [code for code, _, _ in flood]
        most = 121 + 8 * (1 + 2 * (time.monotonic() - start))  # all eight may ask before one of them counts
        check.ok("then no more", 429 in codes and codes.count(401) <= most, (codes.count(401), most))
        check.ok("the API server is asked for those only", p.api.count("POST", "tokenreviews") <= most,
                 p.api.count("POST", "tokenreviews"))
        later = [headers.get("retry-after", "") for code, _, headers in flood if code == 429]
        check.ok("when it may try again", all(value.isdigit() and int(value) >= 1 for value in later), later)
        check.equal("others are answered", p.server.request("GET", "/healthz").status, 200)
        check.equal("a pod of this address", p.upload()[0], 204)
        check.equal("from another address", p.upload(index=1, source="127.0.0.9")[0], 204)
        check.ok("no refused token names a pod in the log", '"pod":"' not in "".join(
            line for line in p.server.settled_log().splitlines() if '"status":401' in line or '"status":429' in line))


def test_uploads_of_one_node_succeed_beside_a_flood(check):
    """60 pods of one address upload at the same moment, while a stranger there sends invalid tokens."""
    n = 60
    with Uploads(tasks=n) as p:
        over, codes, garbage = threading.Event(), {}, []

        def stranger():
            while not over.is_set():
                for text in (forged(p, len(garbage), f"u-{len(garbage)}"), forged(p, len(garbage)), "garbage"):
                    garbage.append(upload(p.output_port, text)[0])

        def one(i):
            pause = 0.1
            for _ in range(7):  # as pai-runtime
                try:
                    codes[i] = p.upload(frames((OUT, b"task %d\n" % i)), i)[0]
                except ConnectionError:
                    codes[i] = 0  # more connections than an address may have
                if codes[i] not in (0, 429, 503):
                    return
                time.sleep(pause * SLOW)
                pause *= 2
        bad = threading.Thread(target=stranger)
        bad.start()
        check.ok("the stranger's tokens are refused", wait_until(lambda: 429 in garbage, 60), set(garbage))
        in_threads(n, one)
        over.set()
        bad.join()
        check.equal("all are taken", {i: code for i, code in codes.items() if code != 204}, {})
        check.equal("all are kept", len(p.kept()), n)


def test_upload_that_is_repeated_waits_for_the_first(check):
    """pai-runtime repeats an upload that gets no response: the repetition ends as the first one."""
    with Uploads() as p:
        gate, codes = threading.Event(), []
        p.api.fault("POST", "configmaps", p.name + "-output-", times=1, until=gate)

        def again():
            codes.append(p.upload()[0])
        threads = [threading.Thread(target=again) for _ in range(2)]
        for i, t in enumerate(threads):
            t.start()
            check.ok("it is authenticated", wait_until(lambda: p.reviews_sent() > i))  # noqa: B023
            if not i:
                check.ok("it is being kept", wait_until(lambda: p.api.count("POST", "configmaps") > 1))
        check.equal("a third one", (wait_until(lambda: p.upload()[0] == 503), codes), (True, []))
        gate.set()
        for t in threads:
            t.join()
        check.equal("both are kept, once", (codes, p.kept()), ([204, 204], ["worker-0-0-0"]))


def test_output_index_with_invalid_sizes_is_tolerated(check):
    """A line of the index announces 5 bytes: the upload has no room, and the server continues."""
    with Uploads(tasks=2) as p:
        p.api.fault("POST", "configmaps", p.name + "-output-", times=1, status=500)
        check.equal("announced only", p.upload()[0], 503)
        with p.api.lock:
            index = p.api.objects["configmaps", p.name + "-output"]
        p.api.update("configmaps", p.name + "-output", {**index, "data": {"outputs": "worker 0 0 0 5 succeeded\n"}})
        check.equal("no room", p.upload()[:2], (413, "PayloadTooLargeError"))
        check.equal("others are kept", (p.upload(index=1)[0], p.kept()), (204, ["worker-1-0-0"]))
        most = (1 << 63) - 1
        check.equal("no sum of dropped bytes overflows", p.upload(index=1, dropped=most)[0], 400)


def test_output_that_is_displaced_is_deleted_in_any_case(check):
    """An output that the index no longer names is deleted, even if the new output is not stored."""
    with Uploads() as p:
        check.equal("first", p.upload(code=1)[0], 204)
        p.set_tasks(1, attempt=1)
        with p.api.lock:
            index = p.api.objects["configmaps", p.name + "-output"]
        p.api.update("configmaps", p.name + "-output", {**index, "data": {
            "outputs": "worker 0 0 0 4194304 failed\n"}})
        p.api.fault("POST", "configmaps", p.name + "-output-", times=1, status=500)
        check.equal("not kept", p.upload(attempt=1)[0], 503)
        check.ok("the displaced one is gone", wait_until(lambda: p.kept() == []), p.kept())
        check.equal("again", (p.upload(attempt=1)[0], p.kept()), (204, ["worker-0-1-0"]))


def test_output_is_displaced_by_its_uid_and_owner(check):
    """One that has the same name, and belongs to a newer job, stays, also if the DELETE is late."""
    with Uploads(tasks=2) as p:
        check.equal("two of the first attempt", [p.upload(code=1, index=i)[0] for i in range(2)], [204, 204])
        p.set_tasks(2, attempt=1)
        with p.api.lock:
            index, newer, ours = (p.api.objects["configmaps", p.name + end] for end in (
                "-output", "-output-worker-0-0-0", "-output-worker-1-0-0"))
            newer["metadata"]["ownerReferences"][0]["uid"] = "of a newer job"
        p.api.update("configmaps", p.name + "-output", {**index, "data": {
            "outputs": "worker 0 0 0 4194304 failed\nworker 1 0 0 4194304 failed\n"}})
        check.equal("both are displaced", p.upload(attempt=1)[0], 204)
        check.ok("one is gone", wait_until(lambda: p.kept() == ["worker-0-0-0", "worker-0-1-0"]), p.kept())
        with p.api.lock:
            sent = [json.loads(body)["preconditions"] for method, _, _, _, body in p.api.requests if method == "DELETE"]
        check.equal("by its uid", sent, [{"uid": ours["metadata"]["uid"]}])


STRANGERS = [f"127.0.0.{i}" for i in range(2, 7)]


def test_upload_connections_of_strangers_do_not_block_pods(check):
    """Five addresses hold 60 connections each: without a byte, with half a head, with a head and no
    body, and with tokens that only a TokenReview can refuse. Pods of other addresses can upload."""
    head = request_bytes(1, "PUT", ROUTE + "?exitCode=0&dropped=0", None, {
        "Content-Type": "application/octet-stream", "Content-Length": "60000", "Authorization": "Bearer TOKEN"})
    for what, sent in (("no byte", lambda p, i: b""), ("half a head", lambda p, i: head[:60]),
                       ("no token of a pod", lambda p, i: head.replace(b"TOKEN", b"forged%d" % i)),
                       ("forged tokens of pods", lambda p, i: head.replace(b"TOKEN", forged(p, i).encode())),
                       ("the token of one pod", lambda p, i: head.replace(b"TOKEN", p.tokens["pod-0-0-0"].encode()))):
        with Uploads(tasks=41) as p:
            crowd = []
            for i in range(300):
                c = From(p, STRANGERS[i % 5], port=p.output_port)
                c.send(sent(p, i))
                crowd.append(c)
            codes = {}

            def honest(k):
                for i in range(1 + k, 41, 4):
                    codes[i] = p.upload(frames((OUT, b"task %d\n" % i)), i, source=f"127.0.1.{i}")[0]  # noqa: B023
            in_threads(4, honest)
            check.equal(f"{what}: all of 40 are kept, at the first attempt", codes, {i: 204 for i in range(1, 41)})
            check.ok(f"{what}: refused strangers are cut off", "forged" not in what or
                     wait_until(lambda: all(closed(c) for c in crowd)))  # noqa: B023
            for c in crowd:
                c.close()


def test_upload_connections_that_stall_are_cut(check):
    """A client that sends no byte, half a head or no body holds a connection for the time of one
    request."""
    with Uploads("--read-timeout", "2") as p:
        head = request_bytes(p.output_port, "PUT", ROUTE + "?exitCode=0&dropped=0", None, {
            "Content-Type": "application/octet-stream", "Content-Length": "60000", **bearer(p.tokens["pod-0-0-0"])})
        crowd = []
        for sent in (b"", head[:60], head, head + HELLO):
            crowd.append(From(p, "127.0.0.2", port=p.output_port))
            crowd[-1].send(sent)
        check.ok("all are cut", wait_until(lambda: all(closed(c) for c in crowd), 20))
        check.equal("and the pod may upload", p.upload()[0], 204)
        for c in crowd:
            c.close()


def closed(c):
    """The server has closed this connection; reads what it has sent before."""
    c.socket.setblocking(False)
    try:
        while c.socket.recv(4096):
            pass
        return True
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def test_upload_reviews_queue_per_address(check):
    """Forged tokens wait for their TokenReviews in a queue of their address, a few of each at once."""
    metrics = free_port()
    with Uploads("--metrics-listen", f"127.0.0.1:{metrics}", tasks=3) as p:
        under_way = 16
        first, later = threading.Event(), threading.Event()
        p.api.fault("POST", "tokenreviews", times=under_way, until=first)
        p.api.fault("POST", "tokenreviews", until=later)
        crowd = []
        for i in range(120):
            c = From(p, STRANGERS[i % 2], port=p.output_port)
            c.send(request_bytes(p.output_port, "PUT", ROUTE + "?exitCode=0&dropped=0", HELLO, {
                "Content-Type": "application/octet-stream", **bearer(forged(p, i, f"u-{i}"))}))
            crowd.append(c)
        check.ok("of each address, 32 wait", wait_until(lambda: sum(closed(c) for c in crowd) == 120 - 64),
                 sum(closed(c) for c in crowd))

        def queued():
            return read_metrics(metrics)["rest_lit_upstream_queue"]

        check.ok("those that are not under way are queued", wait_until(lambda: p.reviews_sent() + queued() == 64), queued())
        before = queued()
        done = {}
        waiting = threading.Thread(target=lambda: done.update(code=p.upload(source="127.0.0.9")[0]))
        waiting.start()
        check.ok("it waits for its review", wait_until(lambda: queued() > before))
        first.set()
        check.ok("it is among the next under way, before most of theirs", wait_until(
            lambda: p.reviews_sent() == 2 * under_way and p.tokens["pod-0-0-0"] in p.reviewed()), p.reviews_sent())
        later.set()
        waiting.join()
        check.equal("and is kept", done["code"], 204)
        for c in crowd:
            c.close()


def test_upload_bodies_are_received_after_authentication(check):
    """Bodies are received after authentication only, and the number of concurrent ones is
    limited."""
    with Uploads() as p:
        gate = threading.Event()
        p.api.fault("POST", "tokenreviews", until=gate)
        waiting = []
        for _ in range(40):
            c = Connection(p.output_port)
            c.send(request_bytes(p.output_port, "PUT", ROUTE + "?exitCode=0&dropped=0", None, {
                "Content-Type": "application/octet-stream", "Content-Length": "98000", **bearer(p.tokens["pod-0-0-0"])}))
            waiting.append(c)
        check.equal("others are answered", p.server.request("GET", "/api/v2/info").status, 200)
        gate.set()
        for c in waiting:
            c.close()
        check.ok("and then", wait_until(lambda: p.upload()[0] in (204, 429)))
