"""Logins with passwords, and management of tokens: list, create, revoke, check; with a faulty API
server and both values of --token-check."""
import base64
import json
import threading
import time
from urllib.parse import urlencode

from fakeapi import FakeApi, Scene, fake_server
from harness import SLOW, in_threads, secret_forms, wait_until
from openpai import (GROUPS, TOKENS, USERS, group_object, hexed, password_hash, secret, tokens_object,
                     user_object)
from place import NO_LIMITS
from slow import memory_of
from tokens import HEADER, SECRET, bearer, claims, sign, token, token_id, write_file

PASSWORD = "alice-password"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
JSON = {"Content-Type": "application/json"}
LOGINS = ("/api/v2/authn/basic/login", "/api/v1/authn/basic/login", "/api/v2/tokens",
          "/api/v1/token")


class Cluster(Scene):
    """A fake API server with users and groups of OpenPAI, and a server."""

    def __init__(self, *arguments, logins=True, rate_login="0", mode="stored"):
        super().__init__()
        self.api.apart = {USERS, GROUPS, TOKENS, "rest-lit"}
        self.group("admins", {"admin": True})
        self.group("default", {"virtualClusters": ["default"]})
        self.user("alice", PASSWORD, ["default"])
        self.user("root", "root-password", ["admins"])
        if logins:
            arguments = ("--users", "openpai", *arguments)
        file = write_file(self.directory, "jwt-secret", SECRET)
        self.server = self.serve("--jwt-secret-file", file, "--token-check", mode, "--token-cache", "0",
                                 "--rate-login", rate_login, *NO_LIMITS, *arguments, who=[])

    def group(self, name, acls):
        self.api.put("secrets", group_object(name, acls))

    def user(self, name, password, groups, extension="{}"):
        self.api.put("secrets", user_object(name, password, groups, extension))

    def store(self, user, *tokens):
        self.api.put("secrets", tokens_object(user, tokens))
        return tokens[0] if tokens else None

    def stored(self, user="alice"):
        """{key: token} of the user's Secret."""
        with self.api.lock:
            found = self.api.objects.get(("secrets", f"{TOKENS}/{hexed(user)}"))
            data = dict((found or {}).get("data") or {})
        return {k: base64.b64decode(v).decode() for k, v in data.items()}

    def login(self, user="alice", password=PASSWORD, path=LOGINS[0], headers=None, **more):
        body = {"username": user, "password": password, **more}
        text = json.dumps(body) if headers == JSON else urlencode(body)
        return self.server.request("POST", path, text, headers or FORM)


# ---- logging in -------------------------------------------------------------------------------
def test_login_gives_a_stored_token(check):
    with Cluster() as c:
        for path in LOGINS + ("/rest-server" + LOGINS[0],):
            for headers in (FORM, JSON):
                reply = c.login(path=path, headers=headers, expiration=4000)
                if not check.equal(f"{path}: status", reply and reply.status, 200):
                    continue
                check.equal(f"{path}: members", sorted(reply.json), ["admin", "token", "user"])
                check.equal(f"{path}: user", reply.json["user"], "alice")
                check.equal(f"{path}: admin", reply.json["admin"], False)
                check.ok(f"{path}: is stored", reply.json["token"] in c.stored().values())
                said = c.server.request("GET", "/api/v2/tokens/check",
                                        headers=bearer(reply.json["token"]))
                check.equal(f"{path}: it is good", said.status, 200)
                check.equal(f"{path}: who", said.json["username"], "alice")
                lives = said.json["exp"] - said.json["iat"]
                check.equal(f"{path}: --token-lifetime decides", lives, 604800)
        check.equal("each under a key of its own", len(c.stored()), 10)
        root = c.login("root", "root-password")
        check.equal("an admin", root.json and root.json["admin"], True)
        line = json.loads(c.server.logged(lambda line: "/authn/basic/login" in line and '"status":200' in line)[0])
        check.equal("the log has the user", line.get("user"), "alice")


def test_login_reports_a_github_token_without_showing_it(check):
    with Cluster() as c:
        c.user("bob", "bob-password", [], json.dumps({"githubPAT": "marker-of-a-pat"}))
        reply = c.login("bob", "bob-password")
        check.equal("hasGitHubPAT", reply.json and reply.json.get("hasGitHubPAT"), True)
        check.ok("not itself", b"marker-of-a-pat" not in reply.body)


def test_login_refuses_wrong_passwords_and_forms(check):
    with Cluster("--token-lifetime", "60") as c:
        c.user("nopass", None, [])
        wrong = c.login(password="alice-passwore")
        check.refused("wrong password", wrong, 400, "IncorrectPasswordError")
        check.refused("no such user", c.login("nobody"), 400, "IncorrectPasswordError")
        check.refused("user without a password", c.login("nopass"), 400, "IncorrectPasswordError")
        for what, body in (
                ("no body", ""), ("no password", "username=alice"), ("no user", "password=abcdefg"),
                ("short password", "username=alice&password=short"),
                ("long password", "username=alice&password=" + "x" * 1025),
                ("odd user", "username=a%2Fb&password=abcdefg"),
                ("dots", "username=..&password=abcdefg"),
                ("user twice", "username=alice&username=bob&password=abcdefg"),
                ("nested", "username[a]=alice&password=abcdefg"),
                ("expiration", "username=alice&password=abcdefg&expiration=59"),
                ("expiration text", "username=alice&password=abcdefg&expiration=1.5")):
            reply = c.server.request("POST", LOGINS[0], body, FORM)
            check.refused(what, reply, 400, "InvalidParametersError")
            check.ok(f"{what}: no value is shown", b"abcdefg" not in reply.body)
        check.equal("nothing was stored", c.stored(), {})


def test_login_does_not_reveal_which_users_exist(check):
    with Cluster() as c:
        there, absent = c.login(password="alice-passwore"), c.login("nobody")
        check.refused("no such user", absent, 400, "IncorrectPasswordError")
        check.equal("the very same", absent.body, there.body)
    with Cluster("--compat", "openpai") as c:
        check.refused("clients of OpenPAI", c.login("nobody"), 400, "NoUserError")


def test_login_of_unknown_users_takes_as_long(check):
    """The response time does not show whether a user exists, because the hash takes most of it."""
    with Cluster() as c:
        def cpu():
            with open(f"/proc/{c.server.process.pid}/stat") as f:
                fields = f.read().rsplit(")", 1)[1].split()
            return int(fields[11]) + int(fields[12])
        used = []
        for user in ("alice", "nobody"):
            before = cpu()
            for _ in range(30):
                c.login(user, "not-the-password")
            used.append(cpu() - before)
        check.ok("CPU of both", used[1] * 3 > used[0] > 0 and used[0] * 3 > used[1] > 0, used)


def test_login_attempts_are_limited(check):
    with Cluster(rate_login="5") as c:
        def wrong():
            return c.login(password="wrong-password").status
        check.equal("five", [wrong() for _ in range(5)], [400] * 5)
        # The limit permits one more every twelve seconds.
        check.ok("then no more", wait_until(lambda: wrong() == 429))
        for _ in range(3):
            reply = c.login()
            if reply.status == 429:
                break
        check.equal("not even with the right one", reply.status, 429)
        check.ok("Retry-After", int(reply.headers.get("retry-after", 0)) > 0)


def test_login_attempts_of_strangers_lock_no_account(check):
    """A right password passes from an address that had one, also behind a proxy."""
    with Cluster("--trusted-proxy", "127.0.0.1", rate_login="5") as c:
        def login(address, password=PASSWORD, user="alice"):
            body = urlencode({"username": user, "password": password})
            return c.server.request("POST", LOGINS[0], body, {**FORM, "X-Forwarded-For": f"10.9.9.9, {address}"}).status
        check.equal("at home", login("10.0.0.1"), 200)
        wrong = [login("10.0.0.2", "wrong-password") for _ in range(10)]
        check.ok("a stranger is limited", wrong[:5] == [400] * 5 and 429 in wrong, wrong)
        check.equal("nobody else is: another address", login("10.0.0.3"), 200)
        wrong = [login(f"10.0.1.{i}", "wrong-password") for i in range(60)]
        check.ok("guesses from many addresses have a limit, too", 5 <= wrong.count(400) < 30 and 429 in wrong, wrong)
        check.equal("at home all the same", login("10.0.0.1"), 200)
        wrong = [login("10.0.0.1", "wrong-password") for _ in range(6)]
        check.equal("mistaken at home", wrong, [400] * 6)
        check.equal("and then right", login("10.0.0.1"), 200)
        wrong = [login("10.0.0.1", "wrong-password") for _ in range(60)]
        check.ok("nor may one at home guess for ever", wrong.count(400) < 30 and 429 in wrong, wrong)


def test_login_flood_does_not_block_the_loops(check):
    with Cluster() as c:
        seen = []
        times = []

        def one(_):
            seen.append(c.login(password="wrong-password"))

        def health():
            for _ in range(20):
                start = time.monotonic()
                c.server.request("GET", "/healthz")
                times.append(time.monotonic() - start)
        flood = threading.Thread(target=in_threads, args=(60, one))
        flood.start()
        health()
        flood.join()
        statuses = {r.status if r else None for r in seen}
        check.ok("hashed or put off", statuses <= {400, 503}, statuses)
        check.ok("some were hashed", 400 in statuses, statuses)
        check.ok("others were served meanwhile", max(times) < 60 * SLOW, max(times))
        check.equal("and then all is well", c.login().status, 200)


def test_login_is_503_if_the_store_fails(check):
    with Cluster("--deadline", "3") as c:
        c.api.fault("GET", "secrets", f"{USERS}/", times=20, status=403)
        check.refused("users cannot be read", c.login(), 503, "UnavailableError")
        c.api.faults.clear()
        c.api.fault("GET", "secrets", f"{TOKENS}/", status=403)
        check.refused("tokens cannot be read", c.login(), 503, "UnavailableError")
        c.api.faults.clear()
        c.api.fault("POST", "secrets", status=403)
        check.refused("nor made", c.login(), 503, "UnavailableError")
        check.equal("nothing is stored", c.stored(), {})
        c.api.faults.clear()
        c.store("alice")
        c.api.fault("PATCH", "secrets", status=403)
        check.refused("nor patched", c.login(), 503, "UnavailableError")
        check.equal("still nothing", c.stored(), {})
        c.api.faults.clear()
        for what in ({"status": 409}, {"cut": "done"}, {"status_done": 500}):
            before = len(c.stored())
            c.api.fault("PATCH", "secrets", times=1, **what)
            reply = c.login()
            check.equal(f"{what}: status", reply and reply.status, 200)
            check.equal(f"{what}: one more", len(c.stored()), before + 1)
        c.api.objects.pop(("secrets", f"{TOKENS}/{hexed('alice')}"))
        c.api.fault("POST", "secrets", times=1, cut="done")
        check.equal("made, but the answer is lost", c.login().status, 200)
        check.equal("it is there once", len(c.stored()), 1)


def test_login_of_many_at_once_loses_no_token(check):
    """A patch is of one version, and is made again after a conflict."""
    with Cluster() as c:
        seen = []
        in_threads(10, lambda _: seen.append(c.login()))
        got = [r.json["token"] for r in seen if r and r.status == 200]
        check.equal("all were given", len(got), 10)
        stored = list(c.stored().values())
        check.ok("all are stored", all(t in stored for t in got))
        check.equal("and no others", len(stored), 10)


def test_late_login_brings_no_revoked_token_back(check):
    """The PATCH that has stored a token is executed once more after the logout."""
    with Cluster() as c:
        c.store("alice")
        mine, name = c.login().json["token"], hexed("alice")
        with c.api.lock:
            sent = [json.loads(body) for method, path, _, _, body in c.api.requests if method == "PATCH" and path.endswith(name)]
        check.equal("it is stored by one request", (list(c.stored().values()), len(sent)), ([mine], 1))
        check.equal("logout", c.server.request("DELETE", "/api/v2/authn/basic/logout", headers=bearer(mine)).status, 200)
        check.equal("once more", c.api.execute("PATCH", "secrets", f"{TOKENS}/{name}", {}, sent[0])[0], 409)
        check.equal("it is revoked still", c.stored(), {})


def test_login_needs_users_of_openpai(check):
    with Cluster(logins=False, mode="signature") as c:
        check.refused("login", c.login(), 400, "NotImplementedError", "rest-lit token")
        good = token("alice")
        check.equal("a token does", c.server.request("GET", "/api/v2/tokens/check",
                                                     headers=bearer(good)).status, 200)
    api = FakeApi()
    server = fake_server(api)
    try:
        check.refused("--no-auth: login",
                server.request("POST", LOGINS[0], "username=alice&password=abcdefg", FORM),
                400, "NotImplementedError", "without logins")
        for method, path in (("GET", "/api/v2/tokens"), ("POST", "/api/v2/tokens/application"),
                             ("DELETE", "/api/v2/authn/basic/logout"),
                             ("DELETE", "/api/v2/tokens/abc")):
            check.refused(f"--no-auth: {method} {path}",
                    server.request(method, path, "" if method == "POST" else None, JSON), 400,
                    "NotImplementedError")
        said = server.request("GET", "/api/v1/token/check")
        check.equal("--no-auth: who", (said.status, said.json["username"]), (200, "alice"))
    finally:
        server.remove()
        api.close()


# ---- tokens -----------------------------------------------------------------------------------
def test_token_check_describes_the_token(check):
    with Cluster() as c:
        mine = c.store("root", token("root"))
        for path in ("/api/v2/tokens/check", "/api/v1/token/check"):
            said = c.server.request("GET", path, headers=bearer(mine)).json
            check.equal(f"{path}: members", sorted(said),
                        ["admin", "application", "encodedFrameworkName", "exp", "iat",
                         "jobSpecific", "username"])
            check.equal(f"{path}: admin", said["admin"], True)
        app = c.store("alice", token("alice", application=True))
        said = c.server.request("GET", "/api/v2/tokens/check", headers=bearer(app)).json
        check.ok("an application may ask", said and said["application"] and "exp" not in said)
        check.equal("a guest may not", c.server.request("GET", "/api/v2/tokens/check").status, 401)


def test_token_list_has_only_the_own_tokens(check):
    with Cluster() as c:
        mine, app, other = token("alice"), token("alice", application=True), token("root")
        old = sign(HEADER, claims("alice", iat=1000, exp=2000))
        c.store("alice", mine, app, old, "junk that is no token")
        ci = c.server.request("POST", "/api/v2/tokens/application", '{"name": "ci"}', {**bearer(mine), **JSON}).json["token"]
        c.store("root", other)
        for path in ("/api/v2/tokens", "/api/v1/token"):
            reply = c.server.request("GET", path, headers=bearer(mine))
            check.equal(path, reply.json, {"tokens": [mine, app, ci], "names": ["id-0", "id-1", "ci"],
                                            "stored": True, "revocable": True})
        check.refused("not by an application's", c.server.request(
            "GET", "/api/v2/tokens", headers=bearer(app)), 403, "ForbiddenUserError")


def test_token_for_an_application_is_created(check):
    with Cluster() as c:
        mine = c.store("alice", token("alice"))
        for path in ("/api/v2/tokens/application", "/api/v1/token/application"):
            for what, body, headers in (("no body", None, {}), ("empty", "", JSON),
                                        ("object", "{}", JSON), ("null", "", FORM)):
                reply = c.server.request("POST", path, body, {**bearer(mine), **headers})
                if not check.equal(f"{path}, {what}", reply and reply.status, 200):
                    check.ok("it says", False, reply)
                    continue
                check.equal(f"{path}, {what}: members", sorted(reply.json),
                            ["application", "token"])
                check.equal(f"{path}, {what}: application", reply.json["application"], True)
                app = reply.json["token"]
                said = c.server.request("GET", "/api/v2/tokens/check", headers=bearer(app))
                check.ok(f"{path}, {what}: does not expire", "exp" not in said.json, said)
                check.equal(f"{path}, {what}: makes none", c.server.request(
                    "POST", path, "{}", {**bearer(app), **JSON}).status, 403)
        reply = c.server.request("POST", "/api/v2/tokens/application",
                                 '{"expiration": 3600, "name": "ci.main"}',
                                 {**bearer(mine), **JSON})
        said = c.server.request("GET", "/api/v2/tokens/check", headers=bearer(reply.json["token"]))
        check.equal("it expires when told", said.json["exp"] - said.json["iat"], 3600)
        check.ok("its name is in the key", any(
            k.startswith("ci.main.") and v == reply.json["token"] for k, v in c.stored().items()),
                 c.stored())
        for body in ('{"expiration": 59}', '{"expiration": 99999999}', '{"expiration": "x"}',
                     '{"name": "a/b"}', '{"name": ""}', '{"name": "%s"}' % ("x" * 64), "[]", "{"):
            check.refused(f"body {body[:30]}", c.server.request(
                "POST", "/api/v2/tokens/application", body, {**bearer(mine), **JSON}), 400,
                    "InvalidParametersError")


def test_tokens_are_revoked_by_their_user_only(check):
    with Cluster() as c:
        mine, app, other = token("alice"), token("alice", application=True), token("root")
        c.store("alice", mine, app)
        c.store("root", other)
        for path in ("/api/v2/tokens/", "/api/v1/token/"):
            for what in ("garbage", "a.b.c", app[:-1], app + "A",
                         sign(HEADER, claims("alice", iat=1000, exp=2000)),
                         token("alice", secret=b"another secret, long enough")):
                check.refused(f"{path}{what[:10]}", c.server.request(
                    "DELETE", path + what, headers=bearer(mine)), 400, "InvalidParametersError")
            check.refused(f"{path}: another's", c.server.request(
                "DELETE", path + other, headers=bearer(mine)), 403, "ForbiddenUserError")
            check.refused(f"{path}: by an application's", c.server.request(
                "DELETE", path + app, headers=bearer(app)), 403, "ForbiddenUserError")
        check.equal("all are still there", sorted(c.stored().values()), sorted([mine, app]))
        reply = c.server.request("DELETE", "/api/v2/tokens/" + app, headers=bearer(mine))
        check.equal("revoked", (reply.status, reply.json), (200, {"message": "revoke successfully"}))
        check.equal("gone", list(c.stored().values()), [mine])
        check.equal("refused at once", c.server.request(
            "GET", "/api/v2/tokens/check", headers=bearer(app)).status, 401)
        again = c.server.request("DELETE", "/api/v2/tokens/" + app, headers=bearer(mine))
        check.equal("once more does no harm", again.status, 200)
        reply = c.server.request("DELETE", "/api/v2/tokens/" + mine, headers=bearer(other))
        check.equal("an admin may", reply.status, 200)
        check.equal("gone as well", c.stored(), {})


def test_expired_tokens_are_removed_by_the_next_change(check):
    """The next change removes expired tokens; other members of the Secret are kept."""
    with Cluster() as c:
        old = sign(HEADER, claims("alice", iat=1000, exp=2000))
        late = sign(HEADER, claims("alice", iat=1000, exp=int(time.time()) - 10))
        app = token("alice", application=True)
        c.store("alice", old, late, app, "junk")
        mine = c.login().json["token"]
        check.equal("what is there", sorted(c.stored().values()), sorted([mine, app, late, "junk"]))
        c.api.objects["secrets", f"{TOKENS}/{hexed('alice')}"]["data"]["again"] = \
            base64.b64encode(old.encode()).decode()
        c.server.request("DELETE", "/api/v2/authn/basic/logout", headers=bearer(mine))
        check.equal("after logout", sorted(c.stored().values()), sorted([app, late, "junk"]))


def test_tokens_of_a_user_are_bounded(check):
    with Cluster() as c:
        now = int(time.time())
        app = token("alice", application=True)
        many = [sign(HEADER, claims("alice", iat=now - 5000 + i, exp=now + 5000))
                for i in range(999)]
        c.store("alice", app, *many)
        mine = c.login().json["token"]
        stored = list(c.stored().values())
        check.equal("so many", len(stored), 1000)
        check.ok("the oldest is gone", many[0] not in stored and many[1] in stored)
        check.ok("applications stay", app in stored and mine in stored)
        c.store("alice", *[sign(HEADER, claims("alice", True, iat=now - i)) for i in range(1000)])
        check.refused("no room", c.login(), 400, "InvalidParametersError", "revoke some")


def test_signature_mode_revokes_by_the_deny_list(check):
    with Cluster("--deny-list", "rest-lit/revoked", mode="signature") as c:
        c.api.put("secrets", secret("rest-lit", "revoked", {
            "0" * 64: "1000", "1" * 64: "0", "2" * 64: "junk", "3" * 64: str(int(time.time()))}))
        mine, app = c.login().json["token"], token("alice", application=True)
        check.equal("nothing is stored", c.stored(), {})
        check.equal("one is known", c.server.request("GET", "/api/v2/tokens", headers=bearer(
            mine)).json, {"tokens": [mine], "names": [""], "stored": False, "revocable": True})
        made = c.server.request("POST", "/api/v2/tokens/application", "{}", {**bearer(mine), **JSON})
        check.equal("applications' are made", made.status, 200)
        for text in (app, mine):
            reply = c.server.request("DELETE", "/api/v2/tokens/" + text, headers=bearer(mine))
            check.equal("revoked", reply.status, 200)
            check.equal("refused", c.server.request("GET", "/api/v2/tokens/check", headers=bearer(
                text)).status, 401)
        listed = c.api.objects["secrets", "rest-lit/revoked"]["data"]
        check.equal("what is listed", sorted(listed), sorted(
            ["1" * 64, "2" * 64, "3" * 64, token_id(app), token_id(mine)]))
        check.equal("for ever", base64.b64decode(listed[token_id(app)]), b"0 alice")
        until = int(base64.b64decode(listed[token_id(mine)]).split()[0])
        check.ok("until it has expired", until >= time.time() + 604000, until)
        check.ok("no token is in it", mine not in json.dumps(listed))


def test_signature_mode_cannot_revoke_without_a_deny_list(check):
    with Cluster(mode="signature") as c:
        mine = token("alice")
        for method, path in (("DELETE", "/api/v2/tokens/" + mine),
                             ("DELETE", "/api/v2/authn/basic/logout")):
            check.refused(path[:30], c.server.request(method, path, headers=bearer(mine)), 400,
                    "NotImplementedError", "--deny-list")


def test_deny_list_that_is_full_refuses_more(check):
    with Cluster("--deny-list", "rest-lit/revoked", mode="signature") as c:
        c.api.put("secrets", secret("rest-lit", "revoked",
                                    {f"{i:064d}": "0" for i in range(5000)}))
        mine = token("alice")
        check.refused("full", c.server.request("DELETE", "/api/v2/tokens/" + mine,
                                                headers=bearer(mine)), 503, "UnavailableError",
                "full")


def test_deny_list_is_limited_for_each_user(check):
    """The limit per user: otherwise, one user with many tokens could fill the deny list."""
    with Cluster("--deny-list", "rest-lit/revoked", mode="signature") as c:
        later = int(time.time()) + 1000
        c.api.put("secrets", secret("rest-lit", "revoked", {
            **{f"{i:064d}": f"{later if i % 2 else 0} alice" for i in range(250)},
            **{f"{i:064d}": f"{later - 2000} bob" for i in range(300, 600)}}))
        mine, bobs, roots = token("alice"), token("bob"), token("root")
        c.user("bob", None, [])

        def revoke(text, by):
            return c.server.request("DELETE", "/api/v2/tokens/" + text, headers=bearer(by))
        check.refused("too many", revoke(mine, mine), 400, "InvalidParametersError",
                "administrator")
        check.equal("what has expired is not counted", revoke(bobs, bobs).status, 200)
        check.equal("an admin may", revoke(mine, roots).status, 200)


def test_application_tokens_leave_room_for_logins(check):
    """At the limit of application tokens, logins still work."""
    with Cluster() as c:
        mine = token("alice")
        c.store("alice", mine, *[sign(HEADER, claims("alice", True, iat=i)) for i in range(899)])
        for status in (200, 400):
            reply = c.server.request("POST", "/api/v2/tokens/application", "{}",
                                     {**bearer(mine), **JSON})
            check.equal("one more application", reply.status, status)
        check.equal("one more login", c.login().status, 200)
        check.equal("all are there", len(c.stored()), 902)


def test_tokens_and_passwords_are_not_logged(check):
    with Cluster() as c:
        mine = c.login().json["token"]
        app = c.server.request("POST", "/api/v2/tokens/application", "{}",
                               {**bearer(mine), **JSON}).json["token"]
        c.login(password="Marker-of-a-password")
        c.login("Marker-of-a-user/", "Marker-of-a-password")
        for path in ("/api/v2/tokens/", "/api/v1/token/", "/rest-server/api/v2/tokens/", "/nowhere/",
                     "/api/v2/jobs/"):
            c.server.request("DELETE", path + app, headers=bearer(mine))
            c.server.request("GET", path + mine, headers=bearer(mine))
            c.server.request("DELETE", path + app)
        c.server.request("GET", "/api/v2/tokens?token=" + mine)
        odd = [sign('{ "alg":"HS256"}', claims("alice", True)),
               sign('{\n  "alg": "HS256"}', claims("alice", True))]
        for text in odd:  # these do not begin as most tokens do
            for path in ("/api/v2/tokens/", "/api/v1/token/", "/nowhere/", "/api/v2/jobs/alice~"):
                c.server.request("DELETE", path + text, headers=bearer(mine))
        c.server.request("DELETE", "/api/v2/tokens/%65" + mine[1:].replace(".", "%2e"))
        c.server.request("GET", "/api/v2/jobs/alice~" + mine)
        c.server.stop()
        log = c.server.log()
        hashes = [password_hash("alice", PASSWORD), "Marker-of-a-password", PASSWORD, SECRET.decode(),
                  "Marker-of-a-user"]
        for name, text in [("token", mine), ("token", app)] + [("secret", h) for h in hashes]:
            check.ok(f"{name}: not in the log", not any(
                f.decode("latin-1") in log for f in secret_forms(text)), text[:12])
        for text in (mine, app, *odd):
            for piece in text.split("."):
                if piece != text.split(".")[0]:
                    check.ok("no part of it", piece[:24] not in log, piece)


def test_secrets_are_wiped_from_memory(check):
    """The memory contains one copy of the secret, and no passwords or password hashes."""
    with Cluster() as c:
        check.equal("logged in", c.login().status, 200)
        check.equal("or not", c.login(password="not-the-password").status, 400)
        texts = {"the secret": SECRET.decode(), "a password": PASSWORD, "a wrong one": "not-the-password",
                 "a hash": password_hash("alice", PASSWORD)}
        wanted = {what: int(what == "the secret") for what in texts}

        def found():
            pieces = list(memory_of(c.server.process.pid))
            return {what: sum(piece.count(text.encode()) for piece in pieces) for what, text in texts.items()}
        try:
            wait_until(lambda: found() == wanted)  # an answer goes out before its request is cleaned up
            check.equal("so often in memory", found(), wanted)
        except PermissionError:
            return  # only root may look
