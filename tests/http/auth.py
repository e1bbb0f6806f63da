"""Authentication: valid and invalid tokens, and checks of tokens by the API server."""
import base64
import json
import os
import signal
import threading
import time

from harness import SLOW, framework_name, in_threads, job_v2, secret_forms, wait_until
from place import SIGNATURE, STORED, Place, events, requests, submit
from tokens import (HEADER, SECRET, basic, bearer, claims, part, sign, token, token_id,
                    write_file)

CLUSTER = "https://kubernetes.default.svc"
ISSUERS = {"serviceAccounts": {"issuer": CLUSTER, "audience": "rest-lit",
                               "users": {"ci/builder": "robot", "ci/boss": "root"}}}


def unsigned(header, payload):
    return f"{part(header)}.{part(payload)}."


def bad_tokens():
    """(description, Authorization) of credentials that every mode refuses.  All of them: test_token.c and
    test_credentials.c in tests/unit/server/auth."""
    good = token("alice")
    rows = [("another secret", token("alice", secret=b"some other secret, long enough")),
            ("none", unsigned({"alg": "none"}, claims())),
            ("jku", sign({**HEADER, "jku": "http://127.0.0.1/keys"}, claims())),
            ("expired", token("alice", lifetime=-1)),
            ("payload is a list", sign(HEADER, [claims()])),
            ("user ..", token("..")),
            ("an issuer that is unknown", token("alice", iss="https://evil.example")),
            ("8 KiB and more", sign(HEADER, claims(more="x" * 8200))),
            ("NUL in it", good[:9] + "\0" + good[9:])]
    return [(what, {"Authorization": f"Bearer {text}"}) for what, text in rows] + [
        ("another scheme", {"Authorization": f"Digest {good}"}),
        ("two tokens", {"Authorization": f"Bearer {good} {good}"})]


def refused(check, what, reply, status=401, code="UnauthorizedUserError"):
    if check.ok(f"{what}: is answered", reply is not None):
        check.ok(f"{what}: {status}", reply.status == status and reply.code == code, reply)
    return reply


def test_bad_tokens_all_get_the_same_response(check):
    """Clients get the same response for all bad tokens; only the log has the reason."""
    with Place() as place:
        server = place.server(*SIGNATURE)
        check.equal("a good one", submit(server, "good", bearer(token("alice"))).status, 202)
        bodies = set()
        for what, headers in bad_tokens():
            reply = server.submit(job_v2("bad"), headers)
            if "NUL" in what:
                check.ok(f"{what}: refused", reply is not None and reply.status in (400, 401), reply)
                continue
            refused(check, what, reply)
            bodies.add(reply.body if reply else None)
            check.equal(f"{what}: says how to log in", reply and
                        reply.headers.get("www-authenticate"), "Bearer")
        check.equal("one answer for all", len(bodies), 1)
        lines = requests(server, 401, len(bad_tokens()) - 1)
        check.ok("the log says why", len({x.get("why") for x in lines}) > 6 and
                 all(x.get("why") and x.get("code") == "UnauthorizedUserError" for x in lines),
                 {x.get("why") for x in lines})
        check.ok("nothing was made", not place.api.of(framework_name("bad")))
        check.equal("no requests to the API server", place.asked("/secrets") + place.asked("review"), 0)


def test_guests_are_refused_except_for_health_routes(check):
    with Place() as place:
        server = place.server(*SIGNATURE)
        reply = refused(check, "guest", server.submit(job_v2("guest")))
        check.ok("guest: says so", reply.message.startswith("Guest"), reply)
        for path in ("/", "/healthz", "/readyz"):
            check.ok(f"guest: {path}", wait_until(lambda p=path: server.request("GET", p).status == 200))
        twice = server.raw(b"GET /healthz HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer a\r\n"
                           b"Authorization: Bearer b\r\n\r\n")[0]
        check.equal("two Authorizations", [r.status for r in twice], [400])


def test_bearer_and_basic_schemes_accept_tokens(check):
    """Bearer in upper or lower case; Basic for application tokens with the matching user name."""
    with Place() as place:
        server = place.server(*SIGNATURE)
        user, app = token("alice"), token("alice", True)
        count = 0
        for scheme in ("Bearer", "bearer", "BEARER", "bEaReR"):
            for text in (user, app):
                count += 1
                reply = submit(server, f"scheme-{count}", {"Authorization": f"{scheme} {text}"})
                check.equal(f"{scheme}", reply.status, 202)
        check.equal("Basic", submit(server, "basic-1", basic("alice", app)).status, 202)
        check.equal("basic", submit(server, "basic-2", {
            "Authorization": basic("alice", app)["Authorization"].replace("B", "b", 1)}).status, 202)
        for what, headers in (("Basic: another name", basic("bob", app)),
                              ("Basic: no name", basic("", app)),
                              ("Basic: case", basic("Alice", app)),
                              ("Basic: no application token", basic("alice", user)),
                              ("Basic: no token", basic("alice", "")),
                              ("Basic: no colon", {"Authorization": "Basic " + base64.b64encode(
                                  app.encode()).decode()}),
                              ("Basic: no base64", {"Authorization": f"Basic alice:{app}"}),
                              ("Basic: password", basic("alice", "hunter2"))):
            refused(check, what, submit(server, "basic-3", headers))


def test_user_of_the_token_owns_the_job(check):
    """The owner is the user of the token; users cannot submit for others."""
    with Place() as place:
        server = place.server(*SIGNATURE)
        check.equal("bob", submit(server, "mine", bearer(token("bob"))).status, 202)
        check.ok("bob's job", place.api.of(framework_name("mine", "bob")))
        check.ok("not alice's", not place.api.of(framework_name("mine", "alice")))
        reply = server.submit(job_v2("mine"), bearer(token("alice")),
                              "/api/v1/user/bob/jobs/mine", "PUT")
        refused(check, "for others", reply, 403, "ForbiddenUserError")
        lines = requests(server, 202, 1)
        check.equal("log: user", [x.get("user") for x in lines], ["bob"])


def test_stored_mode_accepts_only_tokens_in_the_secret(check):
    """Mode stored: the token must be in its user's Secret."""
    with Place() as place:
        good, other = token("alice"), token("alice", jti="other")
        place.store("alice", token("alice", jti="older"), good)
        place.store("bob", other)
        server = place.server(*STORED)
        check.equal("stored", submit(server, "stored", bearer(good)).status, 202)
        check.equal("the Secret asked for", [r[1] for r in place.api.requests if "secrets" in r[1]],
                    ["/api/v1/namespaces/pai-user-token/secrets/" + b"alice".hex()])
        refused(check, "not stored", submit(server, "no", bearer(other)))
        refused(check, "not stored, asked again", submit(server, "no", bearer(other)))
        check.equal("a refusal is not remembered", place.asked(b"alice".hex()), 3)
        place.store("alice", good, other)
        check.equal("stored meanwhile", submit(server, "now", bearer(other)).status, 202)
        with place.api.lock:
            del place.api.objects["secrets", b"alice".hex()]["data"]
        refused(check, "nothing stored", submit(server, "no", bearer(token("alice", jti="third"))))


ODD_SECRETS = [{"kind": "Secret", "data": []}, {"kind": "Secret", "data": "x"}, {"kind": "ConfigMap"},
               {}, [], "x", None, 7]


def test_failed_token_look_up_is_503_and_not_cached(check):
    """A failed look-up is 503 with Retry-After, never accepted and never cached."""
    with Place() as place:
        server = place.server(*STORED, "--deadline", "1")
        good = token("alice")
        name = b"alice".hex()

        def unknown(what):
            reply = submit(server, "unknown", bearer(good))
            refused(check, what, reply, 503, "UnavailableError")
            check.ok(f"{what}: Retry-After", reply.headers.get("retry-after"), reply)

        unknown("no Secret")
        place.store("alice", good)
        for status in (401, 403, 404, 500):
            place.api.fault("GET", "secrets", name, status=status)
            unknown(f"{status}")
            place.api.faults.clear()
        for value in ODD_SECRETS:
            place.api.fault("GET", "secrets", name, raw=http_answer(value))
            unknown(f"answer {value!r}")
            place.api.faults.clear()
        place.api.fault("GET", "secrets", name, hang="before")
        start = time.monotonic()
        unknown("no answer")
        check.ok("no answer: in time", time.monotonic() - start < 60 * SLOW)
        place.api.faults.clear()
        check.ok("nothing was made", not place.api.of(framework_name("unknown")))
        lines = requests(server, 503, 1)
        check.ok("the log says why", all(x.get("why") for x in lines), lines[:1])
        names = (f"known-{i}" for i in range(1000))  # A second may be too short for one submission.
        check.ok("then it is good", wait_until(lambda: submit(server, next(names), bearer(good)).status == 202))


def http_answer(value):
    data = json.dumps(value).encode()
    return (b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" %
            len(data)) + data


def test_valid_tokens_are_cached_for_a_limited_time(check):
    """A valid token is cached for --token-cache seconds; concurrent requests share one look-up."""
    seconds = 3
    with Place() as place:
        server = place.server(*STORED, "--loops", "1")
        good = token("alice")
        place.store("alice", good)
        place.api.fault("GET", "secrets", delay=0.3)
        replies = in_threads(20, lambda i: submit(server, f"shared-{i}", bearer(good)))
        check.equal("shared: all accepted", {r.status for r in replies}, {202})
        check.equal("shared: asked once", place.asked(b"alice".hex()), 1)
        server = place.server(*STORED, "--token-cache", str(seconds), "--loops", "1")
        start = time.monotonic()
        check.ok("believed", wait_until(lambda: submit(server, "first", bearer(good)).status in (202, 409)))
        place.store("alice")
        reply = submit(server, "believed", bearer(good))
        if time.monotonic() - start < seconds:
            check.equal("revoked: still believed", reply.status, 202)
        check.ok("revoked: not for long", wait_until(
            lambda: submit(server, "revoked", bearer(good)).status == 401))
        check.ok("revoked: not before its time", time.monotonic() - start >= seconds - 0.1)


def test_many_tokens_of_one_user_do_not_delay_others(check):
    """Look-ups of one user with many tokens do not delay other users."""
    with Place() as place:
        many = [token("eve", True, jti=i) for i in range(90)]
        good = token("alice")
        place.store("eve", *many)
        place.store("alice", good)
        server = place.server(*STORED, "--loops", "1", "--in-flight", "2")
        place.api.fault("GET", "secrets", delay=0.1)
        answered = []

        def ask(i):
            for text in many[2 * i:2 * i + 2]:
                server.request("GET", "/api/v2/tokens/check", headers=bearer(text))
                answered.append(text)

        eve = threading.Thread(target=in_threads, args=(45, ask))
        eve.start()
        check.ok("the flood is there", wait_until(lambda: place.asked(b"eve".hex()) > 4))
        check.equal("accepted", submit(server, "turns", bearer(good)).status, 202)
        check.ok("most of the others are still to come", len(answered) < 45, len(answered))
        eve.join()


def test_cached_token_expires_at_its_exp(check):
    """A cached token expires at its exp."""
    with Place() as place:
        server = place.server(*SIGNATURE)
        for lifetime in (2, 12, 60):  # it may end before it is looked at
            short = token("alice", lifetime=lifetime)
            taken = submit(server, f"short-{lifetime}", bearer(short)).status
            if taken == 202:
                break
        check.equal("short", taken, 202)
        check.ok("short: ends", wait_until(
            lambda: submit(server, "late", bearer(short)).status == 401, 2 * lifetime))


def test_tokens_on_the_deny_list_are_refused(check):
    with Place() as place:
        server = place.server(*SIGNATURE, "--deny-list", "rest-lit/revoked", "--token-cache", "0")
        good, bad = token("alice"), token("alice", True)
        refused(check, "no deny list", submit(server, "denied", bearer(good)), 503,
                "UnavailableError")
        place.api.put("secrets", {"kind": "Secret", "metadata": {"name": "revoked"},
                                  "data": {token_id(bad): "MA=="}})
        check.equal("not denied", submit(server, "allowed", bearer(good)).status, 202)
        refused(check, "denied", submit(server, "denied", bearer(bad)))
        check.ok("where it was looked", place.asked("/namespaces/rest-lit/secrets/revoked") == 3)
        with place.api.lock:
            place.api.objects["secrets", "revoked"]["data"] = None
        check.equal("an empty list", submit(server, "again", bearer(bad)).status, 202)


def test_revoked_token_is_refused_by_all_loops(check):
    """All loops refuse a revoked token at once."""
    with Place() as place:
        place.api.put("secrets", {"kind": "Secret", "metadata": {"name": "revoked"}, "data": {}})
        server = place.server(*SIGNATURE, "--deny-list", "rest-lit/revoked", "--loops", "4")
        mine, other = token("alice"), token("alice", True)

        def who(text):
            return [server.request("GET", "/api/v2/tokens/check", headers=bearer(text)).status for _ in range(24)]
        check.equal("believed everywhere", {*who(mine), *who(other)}, {200})
        reply = server.request("DELETE", f"/api/v2/tokens/{other}", headers=bearer(mine))
        check.equal("revoked", reply.status, 200)
        check.equal("refused everywhere", set(who(other)), {401})
        check.equal("the other one is good", set(who(mine)), {200})


def test_readyz_includes_the_rights_to_check_tokens(check):
    """/readyz includes the permission to read Secrets and the deny list."""
    with Place() as place:
        server = place.server(*STORED, "--loops", "1")
        check.ok("ready", server.ready())
        place.api.fault("GET", "secrets", status=403)
        check.ok("ready: not without the right", server.becomes("/readyz", 503))
        reply = server.request("GET", "/readyz")
        check.ok("ready: says why", "Secret" in reply.message, reply)
        place.api.faults.clear()
        check.ok("ready again", server.ready())
        server = place.server(*SIGNATURE, "--deny-list", "rest-lit/revoked", "--loops", "1")
        check.ok("ready: not without the list", wait_until(
            lambda: "deny-list" in server.request("GET", "/readyz").message))
        place.api.put("secrets", {"kind": "Secret", "metadata": {"name": "revoked"}})
        check.ok("ready with the list", server.ready())


def account_token(name="builder", issuer=CLUSTER, **more):
    """A token with the form of a service account's token; its signature is not valid."""
    now = int(time.time())
    return sign({"alg": "RS256", "kid": "k"}, {
        "iss": issuer, "aud": ["rest-lit"], "iat": now, "exp": now + 3600,
        "sub": f"system:serviceaccount:ci:{name}", **more})


def vouch(name="builder", **more):
    return {"authenticated": True, "audiences": ["rest-lit"],
            "user": {"username": f"system:serviceaccount:ci:{name}", "uid": "1",
                     "groups": ["system:masters"]}, **more}


def test_service_accounts_need_the_audience_of_the_server(check):
    """The server accepts tokens with its own audience and of listed accounts only. They are not
    admins, and their groups are ignored."""
    with Place() as place:
        facts = write_file(place.directory, "facts.yaml", FACTS)
        issuers = write_file(place.directory, "issuers.json", json.dumps(ISSUERS))
        server = place.server(*SIGNATURE, "--issuers", issuers, "--facts", facts, "--loops", "1")
        good = account_token()
        for i, (what, text, status, wanted) in enumerate((  # all of them: tests/unit/server/auth/test_token_lookup.c
                ("good", good, vouch(), 202),
                ("another audience", account_token(jti=3), vouch(audiences=[CLUSTER]), 401),
                ("not listed", account_token(jti=10), vouch("other"), 401),
                ("an admin", account_token("boss", jti=12), vouch("boss"), 401),
                ("status is text", account_token(jti=13), "yes", 503))):
            place.api.reviews[text] = status
            reply = submit(server, f"account-{i}", bearer(text))
            check.equal(f"service account: {what}", reply.status, wanted)
        check.ok("whose job it is", place.api.of(framework_name("account-0", "robot")))
        sent = [json.loads(r[4]) for r in place.api.requests if "tokenreviews" in r[1]]
        check.ok("always with our audience",
                 sent and all(s["spec"]["audiences"] == ["rest-lit"] for s in sent))
        before = place.asked("tokenreviews")
        for what, text in (("another issuer", account_token(issuer="https://evil.example")),
                           ("issuer is a list", account_token(iss=[CLUSTER])),
                           ("no issuer", account_token(iss=None))):
            refused(check, what, submit(server, "foreign", bearer(text)))
        check.equal("others are not reviewed", place.asked("tokenreviews"), before)
        check.ok("believed", submit(server, "again", bearer(good)).status == 202 and
                 place.asked("tokenreviews") == before)
        reply = server.request("POST", "/api/v2/tokens/application", b"{}", bearer(good))
        check.ok("manages no tokens", reply.status in (403, 404), reply)


FACTS = """groups:
  admins: {admin: true}
users:
  root: {groups: [admins]}
  robot: {}
"""


def test_token_reviews_are_limited_per_second(check):
    """The server sends at most ten reviews per second, and caches refusals, but not failures of the
    API server."""
    with Place() as place:
        issuers = write_file(place.directory, "issuers.json", json.dumps(ISSUERS))
        server = place.server("--issuers", issuers)
        bad = bearer(account_token(jti="bad"))
        for _ in range(5):
            refused(check, "refused again", submit(server, "flood", bad))
        loops = os.cpu_count() or 1
        check.ok("a refusal is remembered", place.asked("tokenreviews") <= min(loops, 4),
                 place.asked("tokenreviews"))
        before, start = place.asked("tokenreviews"), time.monotonic()
        replies = in_threads(200, lambda i: submit(server, "flood", bearer(account_token(jti=i))))
        seconds = int(time.monotonic() - start) + 2
        asked = place.asked("tokenreviews") - before
        check.ok("flood: few are reviewed", asked <= 10 * seconds, f"{asked} in {seconds} s")
        check.ok("flood: the others wait", {r.status for r in replies} <= {401, 503},
                 {r.status for r in replies})
        time.sleep(1.1)
        place.api.every(status=500)
        refused(check, "review fails", submit(server, "flood", bearer(account_token(jti="down"))),
                503, "UnavailableError")


def test_tokens_are_neither_logged_nor_answered(check):
    """Neither the log nor a response contains a token."""
    with Place() as place:
        good, bad = token("alice"), token("alice", jti="not stored")
        place.store("alice", good)
        server = place.server(*STORED, "--deadline", "1")
        replies = [submit(server, "silent", bearer(good)), submit(server, "silent", bearer(bad)),
                   submit(server, "silent", basic("alice", bad)),
                   submit(server, "silent", bearer(bad + "x"))]
        place.api.every(status=500)
        replies.append(submit(server, "silent", bearer(token("alice", jti="asked"))))
        line = requests(server, 503, 1)[-1]
        seen = server.settled_log().encode() + b"".join(r.body for r in replies)
        for text in (good, bad, SECRET.decode()):
            for form in secret_forms(text):
                check.ok("silent", form not in seen)
            check.ok("silent: signature", text.split(".")[-1].encode() not in seen)
        check.ok("log: id, user, code", line.get("id") and line.get("code"), line)


def test_shipped_secret_with_stored_tokens_is_warned_of(check):
    with Place() as place:
        server = place.server(*STORED, secret="pai-secret\n")
        check.ok("stored, shipped secret: warns", server.logged("OpenPAI's default"), server.log())


def test_sighup_replaces_all_token_keys_or_keeps_them(check):
    """SIGHUP replaces all keys, or keeps the old ones and logs the reason."""
    with Place() as place:
        server = place.server(*SIGNATURE)
        path = os.path.join(place.directory, "jwt-secret")
        old, other = token("alice"), b"another secret, long enough"
        new = token("alice", secret=other)
        check.equal("old keys", submit(server, "reload-1", bearer(old)).status, 202)
        refused(check, "new keys not yet", submit(server, "reload-2", bearer(new)))
        for what, text in (("empty", b""), ("short", b"short"), ("shipped", b"pai-secret")):
            write_file(place.directory, "jwt-secret", text)
            before = len(events(server, "SIGHUP: the keys of tokens stay as they were"))
            server.process.send_signal(signal.SIGHUP)
            check.ok(f"{what}: is said", wait_until(lambda: len(events(
                server, "SIGHUP: the keys of tokens stay as they were")) > before), server.log())
            check.equal(f"{what}: old keys stay", submit(server, f"reload-{what}",
                                                         bearer(old)).status, 202)
        os.unlink(path)
        write_file(place.directory, "jwt-secret", other)
        server.process.send_signal(signal.SIGHUP)
        check.ok("new keys: is said", events(server, "SIGHUP: the keys of tokens were read again", 1))
        check.equal("new keys", submit(server, "reload-3", bearer(new)).status, 202)
        refused(check, "old keys are forgotten, though they were believed",
                submit(server, "reload-4", bearer(old)))
        check.ok("no secret in the log", other.decode() not in server.settled_log())


def test_token_keys_are_replaced_while_in_use(check):
    """Keys are replaced while requests use them."""
    with Place() as place:
        server = place.server(*SIGNATURE, "--token-cache", "0")
        again, over = "SIGHUP: the keys of tokens were read again", threading.Event()

        def ask(i):
            seen, n = set(), 0
            while not over.is_set():
                n += 1
                seen.add(submit(server, f"load-{i}-{n}", bearer(token("alice", jti=n))).status)
            return seen

        def reload(_):
            end = time.monotonic() + 60 * SLOW
            while len(events(server, again)) <= 10 and time.monotonic() < end:
                server.process.send_signal(signal.SIGHUP)
                time.sleep(0.02)
            over.set()
            return set()

        seen = set().union(*in_threads(5, lambda i: ask(i) if i else reload(i)))
        check.equal("under load: all accepted", seen, {202})
        check.ok("under load: keys were read", len(events(server, again)) > 10)
