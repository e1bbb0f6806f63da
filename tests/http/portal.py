"""The recorded requests of each page of OpenPAI's web portal; and user management, with users in
Secrets."""
import base64
import json
import signal
import threading
import time

from clients import TokenServer
from harness import SLOW, job_v2, request_bytes, wait_until
from openpai import GROUPS, TOKENS, USERS, hexed, password_hash, secret
from signin import PASSWORD, Cluster
from slow import in_threads
from tokens import bearer, token

TEXT = {"Content-Type": "text/plain;charset=UTF-8"}  # a browser's fetch with a string body
SSH_KEYS = [{"title": "laptop", "value": "ssh-ed25519 AAAA laptop", "time": "2026-11-22"}]

# Page, method, path ({U}: the user, {J}: user~job), body, status, and the members of the response,
# or of each list item, that its script reads; [] is an empty list.
RECORDED = [
    ("sign in", "GET", "/api/v2/info", None, 200, ("authnMethod", "launcherType")),
    ("home", "GET", "/api/v2/user", None, 200, ("username",)),
    ("home", "GET", "/api/v2/users/{U}", None, 200, ("username", "admin", "virtualCluster", "grouplist", "extension")),
    ("home", "GET", "/api/v2/jobs?limit=0&withTotalCount=true&state=RUNNING", None, 200, ("totalCount", "data")),
    ("home", "GET", "/api/v2/jobs?order=submissionTime%2CDESC&limit=100", None, 200, ("name", "state", "username")),
    ("home", "GET", "/api/v2/virtual-clusters", None, 200, None),
    ("home", "GET", "/api/v2/virtual-clusters?nodes", None, 200, None),
    ("job list", "GET", "/api/v2/jobs?jobPriority=default&offset=0&limit=20&withTotalCount=true", None, 200, ("totalCount",)),
    ("job", "GET", "/api/v2/jobs/{J}", None, 200, ("debugId", "name", "jobStatus", "taskRoles")),
    ("job", "GET", "/api/v2/jobs/{J}/config", None, 200, ("name", "taskRoles")),
    ("job", "GET", "/api/v2/jobs/{J}/ssh", None, 404, ("code",)),
    ("job", "GET", "/api/v2/jobs/{J}/events?type=Warning", None, 200, ("totalCount", "data")),
    ("tag", "PUT", "/api/v2/jobs/{J}/tag", {"value": "x"}, 200, ("message",)),
    ("clone", "GET", "/api/v2/storages", None, 200, ("storages",)),
    ("clone", "GET", "/api/v2/storages?default=true", None, 200, ("storages",)),
    ("clone", "GET", "/api/v2/cluster/sku-types?vc=default", None, 200, None),
    ("profile", "GET", "/api/v2/tokens", None, 200, ("tokens",)),
    ("profile", "GET", "/api/v2/groups", None, 200, ("groupname", "description", "externalName", "extension")),
    ("profile", "PUT", "/api/v2/users/me", {"data": {"username": "{U}", "extension": {"sshKeys": SSH_KEYS}}, "patch": True},
     201, ("message",)),
    ("profile", "PUT", "/api/v2/users/me", {"data": {"username": "{U}", "extension": {"boundedClusters": {
        "other": {"alias": "other", "uri": "https://other", "username": "me", "token": "t"}}}}, "patch": True}, 201, ("message",)),
    ("every page", "GET", "/api/v2/alerts", None, 200, []),
    ("stop", "PUT", "/api/v2/jobs/{J}/executionType", {"value": "STOP"}, 202, ("message",)),
    ("users", "GET", "/api/v2/user/", None, 200, ("username", "admin", "virtualCluster", "email")),
    ("users", "POST", "/api/v2/user/", {"username": "new", "email": "new@example.com", "password": "new-password",
                                        "admin": False, "virtualCluster": ["default"]}, 201, ("message",)),
    ("users", "PUT", "/api/v2/user/new/virtualcluster", {"virtualCluster": ["default"]}, 201, ("message",)),
    ("users", "PUT", "/api/v2/user/new/email", {"email": "n@example.com"}, 201, ("message",)),
    ("users", "PUT", "/api/v2/user/new/admin", {"admin": True}, 201, ("message",)),
    ("users", "PUT", "/api/v2/user/new/admin", {"admin": False}, 201, ("message",)),
    ("users", "PUT", "/api/v2/user/new/password", {"newPassword": "newer-password"}, 201, ("message",)),
    ("users", "DELETE", "/api/v2/user/new", None, 200, ("message",)),
    ("services", "GET", "/api/v2/kubernetes/nodes", None, 200, ("items",)),
    ("services", "GET", "/api/v2/kubernetes/pods", None, 200, ("items",)),
]


def cluster(*arguments, **more):
    """The users alice, and root as administrator."""
    more.setdefault("mode", "signature")
    c = Cluster(*arguments, **more)
    c.group("admingroup", {"admin": True})
    c.group("vision", {"virtualClusters": ["vision"], "storageConfigs": ["nfs"]})
    return c


def ask(server, who, method, path, body=None):
    text = json.dumps(body) if body is not None else None
    return server.request(method, path, text, {**(bearer(token(who)) if who else {}), **(TEXT if text else {})})


def stored(c, user):
    """The decoded members of a user's Secret; None without a Secret."""
    with c.api.lock:
        found = c.api.objects.get(("secrets", f"{USERS}/{hexed(user)}"))
        data = dict(found["data"]) if found else None
    return data and {k: base64.b64decode(v).decode() for k, v in data.items()}


def test_portal_requests_of_each_page_are_served(check):
    """Every request of every page, by an administrator, cross-origin."""
    with cluster("--compat", "openpai", mode="stored") as c:
        headers = {**bearer(c.store("root", token("root"))), "Origin": "https://portal.example"}
        check.ok("ready", c.server.ready())
        check.equal("submit", c.server.submit(job_v2("job"), {**headers, "Content-Type": "text/yaml"}).status, 202)
        for page, method, path, body, status, wanted in RECORDED:
            path = path.replace("{U}", "root").replace("{J}", "root~job")
            text = json.dumps(body).replace("{U}", "root") if body else None
            reply = c.server.request(method, "/rest-server" + path, text, {**headers, **(TEXT if text else {})})
            what = f"{page}: {method} {path} {text or ''}"
            if not check.equal(what, reply and reply.status, status):
                print(reply)
                continue
            check.equal(f"{what}: for other origins", reply.headers.get("access-control-allow-origin"), "*")
            first = reply.json[0] if isinstance(reply.json, list) and reply.json else reply.json
            if wanted == []:
                check.equal(what, reply.json, [])
            for member in wanted or ():
                check.ok(f"{what}: {member}", member in first, reply)


def test_portal_home_page_counts_free_gpus(check):
    """The home page counts the nodes by their available GPUs.  Clients without an account see none."""
    with cluster("--profile", "openpai", "--compat", "openpai", mode="stored") as c:
        alice = bearer(c.store("alice", token("alice")))

        def nodes(version, headers=None):
            return c.server.request("GET", f"/api/v{version}/virtual-clusters?nodes", headers=headers).json

        for i, gpus in enumerate((8, 0)):
            c.api.put("nodes", {"metadata": {"name": f"node{i}"}, "status": {"allocatable": {"nvidia.com/gpu": str(gpus)}}})
        check.ok("ready", c.server.ready())
        check.ok("nodes", wait_until(lambda: c.server.process.send_signal(signal.SIGHUP) or nodes(2, alice)), nodes(2, alice))
        check.equal("what it reads", {k: v["gpuAvailable"] for k, v in nodes(2, alice).items()}, {"node0": 8, "node1": 0})
        check.equal("anonymous", nodes(1), {})


def test_profile_that_is_sent_back_loses_nothing(check):
    """A page that sends back the profile that it has read, with a change, loses nothing that it does not see."""
    def bounded(alias, **more):
        return {"alias": alias, "uri": f"https://{alias}", "username": "me", **more}
    with cluster() as c:
        first = {"boundedClusters": {"a": bounded("a", token="token-a"), "b": bounded("b", token="token-b")},
                 "jobSSH": {"key": "private", "pubKey": "public"}, "sshKeys": SSH_KEYS}
        check.equal("all", ask(c.server, "alice", "PUT", "/api/v2/users/me", {"data": {"extension": first}}).status, 201)
        shown = ask(c.server, "alice", "GET", "/api/v2/users/alice").json["extension"]
        check.ok("no token is shown", "token" not in json.dumps(shown) and "private" not in json.dumps(shown), shown)
        shown["boundedClusters"]["c"] = bounded("c", token="token-c")
        check.equal("one more", ask(c.server, "alice", "PUT", "/api/v2/users/me", {"data": {"extension": shown}}).status, 201)
        found = json.loads(stored(c, "alice")["extension"])
        first["boundedClusters"]["c"] = bounded("c", token="token-c")
        check.equal("nothing is lost", found, first)
        moved = {"boundedClusters": {"a": {**bounded("a"), "uri": "https://elsewhere"}, "b": bounded("b", token="new"), "c": {}}}
        check.equal("changed", ask(c.server, "alice", "PUT", "/api/v2/users/me", {"data": {"extension": moved}}).status, 201)
        found = json.loads(stored(c, "alice")["extension"])["boundedClusters"]
        check.equal("a token does not go to another address", found, moved["boundedClusters"])
        fewer = {"boundedClusters": {"b": {k: v for k, v in bounded("b").items() if k != "username"}}}
        check.equal("a name is removed", ask(c.server, "alice", "PUT", "/api/v2/users/me", {"data": {"extension": fewer}}).status, 201)
        found = json.loads(stored(c, "alice")["extension"])["boundedClusters"]
        check.equal("... as it was shown, with its token", found, fewer["boundedClusters"])


def test_users_of_a_file_cannot_be_changed(check):
    """With users in a file, changes by requests are refused."""
    with TokenServer() as server:
        for who in ("alice", "root"):
            for method, path, body in (("PUT", "/api/v2/users/me", {"data": {"extension": {"sshKeys": SSH_KEYS}}}),
                                       ("PUT", "/api/v2/user/alice/email", {"email": "a@b"}), ("DELETE", "/api/v2/user/bob", None),
                                       ("POST", "/api/v2/user", {"username": "x", "password": "xxxxxx"})):
                reply = ask(server, who, method, path, body)
                check.refused(f"{who}: {method} {path}", reply, 405, "NotImplementedError", "--facts", "--users=openpai")
                check.equal("... and what may be", reply.headers.get("allow"), "GET, HEAD, OPTIONS")
        check.equal("without a token", ask(server, None, "PUT", "/api/v2/users/me", {"data": {}}).status, 401)


def test_users_change_their_own_profile(check):
    """Changes of the own user; other members of the Secret are kept."""
    with cluster() as c:
        secret = {"jobSSH": {"key": "private", "pubKey": "p"}, "githubPAT": "pat", "sshKeys": []}
        c.user("alice", PASSWORD, ["default"], json.dumps(secret))

        def put(data, who="alice"):
            return ask(c.server, who, "PUT", "/api/v2/users/me", {"data": data, "patch": True})
        check.equal("keys", put({"username": "alice", "extension": {"sshKeys": SSH_KEYS}}).status, 201)
        now = stored(c, "alice")
        check.equal("are stored beside the rest", json.loads(now["extension"]), {**secret, "sshKeys": SSH_KEYS})
        check.equal("... which is as it was", (now["password"], now["grouplist"]),
                    (password_hash("alice", PASSWORD), '["default"]'))
        check.equal("... and are shown at once", ask(c.server, "alice", "GET", "/api/v2/users/alice").json["extension"]["sshKeys"],
                    SSH_KEYS)
        check.equal("e-mail", put({"email": "new@example.com"}).status, 201)
        check.equal("... is stored", stored(c, "alice")["email"], "new@example.com")
        check.refused("another's", put({"username": "root", "email": "a@b"}), 403, "ForbiddenUserError")
        for what, data, word in (("admin", {"admin": True}, "admin"), ("groups", {"grouplist": ["admins"]}, "grouplist"),
                                 ("virtual clusters", {"virtualCluster": ["x"]}, "virtualCluster"),
                                 ("a private key", {"extension": {"sshKeys": [{"value": "-----BEGIN RSA PRIVATE KEY-----"}]}}, "private"),
                                 ("unknown members", {"extension": {"isAdmin": True}}, "sshKeys"),
                                 ("another type", {"extension": {"sshKeys": "x"}}, "list"),
                                 ("e-mail", {"email": "a\nb@c"}, "address"), ("a short password", {"newPassword": "x"}, "bytes"),
                                 ("no old password", {"newPassword": "longer-than-that"}, "oldPassword")):
            check.refused(what, put(data), 400, "InvalidParametersError", word)
        check.refused("a wrong old password", put({"oldPassword": "not-this-one", "newPassword": "longer-than-that"}), 403,
                "ForbiddenUserError", "old password")
        check.equal("nothing of it is stored", {k: v for k, v in stored(c, "alice").items() if k != "email"},
                    {k: v for k, v in now.items() if k != "email"})
        check.equal("the right one", put({"oldPassword": PASSWORD, "newPassword": "longer-than-that"}).status, 201)
        check.equal("... counts", (c.login("alice", PASSWORD).status, c.login("alice", "longer-than-that").status), (400, 200))
        big = {"extension": {"sshKeys": [{"value": "x" * 7000}]}}
        check.equal("7 KB", put(big).status, 201)
        check.equal("9 KB", put({"extension": {"sshKeys": [{"value": "x" * 9000}]}}).status, 413)
        check.refused("application tokens", c.server.request("PUT", "/api/v2/users/me", json.dumps({"data": {}}), {
            **TEXT, **bearer(token("alice", application=True))}), 403, "ForbiddenUserError")
        check.ok("no password in the log", "longer-than-that" not in c.server.settled_log())


def test_user_password_guesses_are_limited(check):
    """Password changes with a wrong old password are rate limited."""
    with cluster(rate_login="5") as c:
        said = [ask(c.server, "alice", "PUT", "/api/v2/user/alice/password",
                    {"oldPassword": f"guess-{i}", "newPassword": "new-password"}).status for i in range(8)]
        check.equal("five guesses", (said.count(403), said.count(429)), (5, 3))


def test_users_are_managed_by_administrators(check):
    """Administrators create, change and remove users."""
    with cluster() as c:
        def root(method, path, body=None):
            return ask(c.server, "root", method, path, body)
        new = {"username": "dora", "email": "dora@example.com", "password": "dora-password", "virtualCluster": ["vision"]}
        for who, method, path, body in (("alice", "POST", "/api/v2/users", new), ("alice", "DELETE", "/api/v2/users/root", None),
                                        ("alice", "PUT", "/api/v2/users", {"data": {"username": "alice", "admin": True}}),
                                        ("alice", "PUT", "/api/v2/users/alice/admin", {"admin": True}),
                                        ("alice", "PUT", "/api/v2/users/alice/grouplist", {"grouplist": ["admins"]}),
                                        ("alice", "PUT", "/api/v2/users/root/email", {"email": "a@b"}),
                                        ("alice", "PUT", "/api/v2/users/root/password", {"newPassword": "alice-was-here"})):
            check.refused(f"{who}: {method} {path}", ask(c.server, who, method, path, body), 403, "ForbiddenUserError")
        check.equal("create", root("POST", "/api/v2/users", new).status, 201)
        check.equal("what is stored", stored(c, "dora"), {
            "username": "dora", "email": "dora@example.com", "password": password_hash("dora", "dora-password"),
            "grouplist": '["vision","default"]', "extension": "{}"})
        check.refused("again", root("POST", "/api/v2/users", new), 409, "ConflictUserError")
        check.equal("she can log in", c.login("dora", "dora-password").status, 200)
        check.equal("... and sees her virtual clusters", sorted(ask(c.server, "dora", "GET", "/api/v2/users/dora").json["virtualCluster"]),
                    ["default", "vision"])
        for body, status, code in (({"username": "e"}, 400, "InvalidParametersError"), ({**new, "username": "a b"}, 400, "InvalidParametersError"),
                                   ({**new, "username": "e", "virtualCluster": ["nowhere"]}, 400, "NoVirtualClusterError"),
                                   ({**new, "username": "e", "virtualCluster": ["admingroup"]}, 400, "NoVirtualClusterError"),
                                   ({**new, "username": "e", "grouplist": ["vision"]}, 400, "InvalidParametersError")):
            check.refused(f"create {body}", root("POST", "/api/v2/users", body), status, code)
        check.equal("no user was created", stored(c, "e"), None)
        users = {u["username"]: u for u in root("GET", "/api/v2/users").json}
        check.equal("all users", (sorted(users), users["root"]["admin"], users["dora"]["virtualCluster"], users["dora"]["storageConfig"]),
                    (["alice", "dora", "root"], True, ["vision", "default"], ["nfs"]))
        check.ok("no passwords", "password" not in json.dumps(users), users)
        check.equal("to others oneself only", [u["username"] for u in ask(c.server, "alice", "GET", "/api/v2/users").json], ["alice"])
        check.equal("all groups", sorted(g["groupname"] for g in root("GET", "/api/v2/groups").json),
                    ["admingroup", "admins", "default", "vision"])
        check.equal("promote", root("PUT", "/api/v2/users/dora/admin", {"admin": True}).status, 201)
        check.equal("... by the group", stored(c, "dora")["grouplist"], '["vision","default","admingroup"]')
        check.refused("an admin is not removed", root("DELETE", "/api/v2/users/dora"), 403, "RemoveAdminError")
        check.equal("virtual clusters of an admin", root("PUT", "/api/v2/users", {"data": {
            "username": "dora", "virtualCluster": []}}).status, 201)
        check.equal("... and stays one", stored(c, "dora")["grouplist"], '["default","admingroup"]')
        check.equal("all at once", root("PUT", "/api/v2/users", {"data": {
            "username": "dora", "admin": False, "grouplist": ["vision", "admins"], "email": ""}, "patch": True}).status, 201)
        check.equal("... is no admin", (stored(c, "dora")["grouplist"], stored(c, "dora")["email"]), ('["vision"]', ""))
        check.refused("no such group", root("PUT", "/api/v2/users/dora/grouplist", {"grouplist": ["none"]}), 404, "NoGroupError")
        check.refused("no such user", root("PUT", "/api/v2/users/nobody/email", {"email": "a@b"}), 404, "NoUserError")
        check.refused("no such member", root("PUT", "/api/v2/users/dora/hair", {"email": "a@b"}), 404, "NoApiError")
        check.equal("remove", (root("DELETE", "/api/v2/users/dora").status, stored(c, "dora")), (200, None))
        check.refused("... once", root("DELETE", "/api/v2/users/dora"), 404, "NoUserError")


def test_users_are_managed_without_logins(check):
    """With --no-auth, an administrator of the cluster manages its users, too."""
    with cluster() as c:
        free = c.serve("--users", "openpai", user="root")
        users = ask(free, None, "GET", "/api/v2/users")
        check.equal("all users", (users.status, sorted(u["username"] for u in users.json)), (200, ["alice", "root"]))
        check.equal("all groups", ask(free, None, "GET", "/api/v2/groups").status, 200)
        for member, value in (("email", "new@example.com"), ("password", "other-password")):
            check.equal(f"change: {member}", ask(free, None, "PUT", f"/api/v2/users/alice/{member}", {member: value}).status, 201)
        check.equal("... is stored", stored(c, "alice")["email"], "new@example.com")


def test_user_tokens_end_with_password_or_user(check):
    """A new password revokes tokens of earlier logins; the tokens of a removed user are deleted."""
    with cluster(mode="stored") as c:
        login = c.login().json["token"]
        c.store("root", token("root"))
        application = c.server.request("POST", "/api/v2/tokens/application", "{}", {**bearer(login), "Content-Type": "application/json"}).json["token"]

        def root(method, path, body=None):
            return c.server.request(method, path, json.dumps(body) if body else None, {**bearer(c.stored("root")["id-0"]), **TEXT})

        def status(text):
            return c.server.request("GET", "/api/v2/tokens/check", headers=bearer(text)).status
        check.equal("both are good", (status(login), status(application)), (200, 200))
        check.equal("a new password", root("PUT", "/api/v2/user/alice/password", {"newPassword": "another-one"}).status, 201)
        check.equal("ends logins", (status(login), status(application)), (401, 200))
        check.equal("remove", root("DELETE", "/api/v2/user/alice").status, 200)
        check.equal("create", root("POST", "/api/v2/user", {"username": "alice", "password": "brand-new"}).status, 201)
        check.equal("no old token", (c.stored("alice"), status(application)), ({}, 401))


def test_user_changes_are_retried_after_conflicts(check):
    """Concurrent changes of the Secret; missing permissions."""
    with cluster() as c:
        c.api.fault("PATCH", "secrets", status=409, times=4)
        check.refused("four conflicts", ask(c.server, "alice", "PUT", "/api/v2/user/alice/email", {"email": "b@c"}), 503,
                      "UnavailableError")
        c.api.fault("PATCH", "secrets", status=409, times=3)
        check.equal("again", ask(c.server, "alice", "PUT", "/api/v2/user/alice/email", {"email": "a@b"}).status, 201)
        check.equal("... is stored", stored(c, "alice")["email"], "a@b")
        c.api.fault("PATCH", "secrets", status=403)
        check.refused("no right to patch", ask(c.server, "alice", "PUT", "/api/v2/user/alice/email", {"email": "c@d"}), 503,
                "UnavailableError", "right")
        check.equal("... changes nothing", stored(c, "alice")["email"], "a@b")


def test_user_lists_are_paged_and_bounded(check):
    """Paging of lists and its limit; only administrators get lists."""
    with cluster() as c:
        for i in range(600):
            c.user(f"user{i}", None, ["default"])
        names = [u["username"] for u in ask(c.server, "root", "GET", "/api/v2/users").json]
        check.equal("all of them", (len(names), len(set(names))), (602, 602))
        with c.api.lock:
            asked = [r[2].get("limit") for r in c.api.requests if r[0] == "LIST" and r[1].endswith("/secrets")]
            c.api.requests.clear()
        check.ok("page by page", len(asked) >= 4 and set(map(str, asked)) == {"['250']"}, asked)
        for path in ("/api/v2/users", "/api/v2/groups", "/api/v2/users/root"):
            check.equal(path, ask(c.server, "alice", "GET", path).status, 200)
        with c.api.lock:
            asked = [r[1] for r in c.api.requests if r[0] == "LIST" and r[1].endswith("/secrets")]
        check.equal("no lists for others", asked, [])


# ---- edits while the API server hangs ----------------------------------------------------------
EMAIL = {"email": "new@example.com"}
DORA = {"username": "dora", "password": "dora-password", "virtualCluster": ["vision"]}

# Mode of tokens; method, path and body of the edit; the request that hangs (method, and name of the Secret); status.
HANGS = [
    ("signature", "POST", "/api/v2/users", DORA, "GET", f"{GROUPS}/{hexed('vision')}", 503),
    ("signature", "POST", "/api/v2/users", DORA, "POST", "", 504),
    ("signature", "PUT", "/api/v2/user/alice/email", EMAIL, "GET", f"{USERS}/{hexed('alice')}", 503),
    ("signature", "PUT", "/api/v2/user/alice/email", EMAIL, "PATCH", f"{USERS}/{hexed('alice')}", 504),
    ("signature", "PUT", "/api/v2/user/alice/grouplist", {"grouplist": ["vision"]}, "PATCH", f"{USERS}/{hexed('alice')}", 504),
    ("signature", "DELETE", "/api/v2/user/alice", None, "DELETE", f"{USERS}/{hexed('alice')}", 504),
    ("signature", "GET", "/api/v2/users", None, "LIST", "", 503),
    ("signature", "GET", "/api/v2/groups", None, "LIST", "", 503),
    ("signature", "DELETE", f"/api/v2/tokens/{token('alice')}", None, "PATCH", "rest-lit/denied", 504),
    ("stored", "POST", "/api/v2/authn/basic/login", {"username": "alice", "password": PASSWORD}, "PATCH", f"{TOKENS}/{hexed('alice')}", 504),
    ("stored", "PUT", "/api/v2/user/alice/password", {"newPassword": "newer-password"}, "GET", f"{TOKENS}/{hexed('alice')}", 503),
    ("stored", "POST", "/api/v2/tokens/application", {}, "PATCH", f"{TOKENS}/{hexed('root')}", 504),
    ("stored", "DELETE", "/api/v2/tokens/{root}", None, "PATCH", f"{TOKENS}/{hexed('root')}", 504),
]


class Edit:
    """An edit of root whose request hangs until `gate` is set."""

    def __init__(self, c, method, path, body, hangs, name, times=None):
        self.gate, self.reply = threading.Event(), None
        c.api.fault(hangs, "secrets", name, times, until=self.gate)
        fault = c.api.faults[-1]

        def call():
            try:
                self.reply = c.server.request(method, path, json.dumps(body) if body is not None else None,
                                              {**bearer(c.root), **(TEXT if body is not None else {})})
            except OSError:
                pass
        self.thread = threading.Thread(target=call)
        self.thread.start()
        self.hangs = wait_until(lambda: fault.seen or not self.thread.is_alive()) and fault.seen

    def end(self):
        self.thread.join(60 * SLOW)
        return self.reply and (self.reply.status, self.reply.code)


def editing(mode, *arguments):
    deny = ("--deny-list", "rest-lit/denied") if mode == "signature" else ()
    c = cluster(*deny, *arguments, mode=mode)
    c.root = token("root")
    c.api.put("secrets", secret("rest-lit", "denied", {}))
    c.store("root", c.root)
    c.store("alice", token("alice"))
    return c


def test_user_edits_end_at_the_deadline(check):
    """Each step of each edit ends at the deadline. The result of a write without a response is
    unknown."""
    for mode in ("signature", "stored"):
        with editing(mode, "--deadline", "1") as c:
            for _, method, path, body, hangs, name, status in [row for row in HANGS if row[0] == mode]:
                what = f"{method} {path}, {hangs} {name} hangs"
                for _ in range(5):  # a stall can take the second before the edit comes to the request that hangs
                    edit = Edit(c, method, path.replace("{root}", c.root), body, hangs, name)
                    if edit.hangs:
                        break
                    edit.end()
                    edit.gate.set()
                    c.api.faults.clear()
                check.ok(f"{what}: comes to it", edit.hangs)
                check.equal(what, edit.end(), (status, {503: "UnavailableError", 504: "OutcomeUnknown"}[status]))
                edit.gate.set()
                c.api.faults.clear()
            check.equal(f"{mode}: serves", c.server.request("GET", "/healthz").status, 200)


def test_user_edit_without_an_answer_is_504(check):
    """A change may have been done although the user was read again after it and nothing could be
    written."""
    with editing("signature", "--deadline", "1") as c:
        c.api.fault("PATCH", "secrets", times=1, delay=0.93, status_done=504)
        fault = c.api.faults[-1]
        replies = []
        change = threading.Thread(target=lambda: replies.append(
            ask(c.server, "root", "PUT", "/api/v2/user/alice/grouplist", {"grouplist": ["vision"]})))
        change.start()
        check.ok("comes to it", wait_until(lambda: fault.seen))
        c.api.fault("GET", "secrets", f"{GROUPS}/", hang="before")
        change.join(60 * SLOW)
        check.refused("nobody knows", replies[0], 504, "OutcomeUnknown")
        check.ok("it was done", wait_until(lambda: stored(c, "alice")["grouplist"] == '["vision"]'), stored(c, "alice"))


def test_user_edit_continues_without_its_client(check):
    """An edit continues after its client has disconnected, and ends with the server."""
    with editing("signature", "--deadline", "200", "--drain-timeout", "1") as c:
        gate = threading.Event()
        c.api.fault("PATCH", "secrets", until=gate)
        fault = c.api.faults[-1]
        with c.server.connect() as client:
            client.send(request_bytes(c.server.port, "PUT", "/api/v2/user/alice/email", json.dumps(EMAIL).encode(), {**bearer(c.root), **TEXT}))
            check.ok("begun", wait_until(lambda: fault.seen))
        gate.set()
        check.ok("without a client", wait_until(lambda: stored(c, "alice").get("email") == EMAIL["email"]))
        c.api.faults.clear()
        edits = [Edit(c, "PUT", "/api/v2/user/alice/email", EMAIL, "PATCH", f"{USERS}/")]
        edits += [Edit(c, "GET", "/api/v2/groups", None, "LIST", "", 1) for _ in range(3)]
        check.ok("four hang", all(edit.hangs for edit in edits))
        c.api.fault("GET", "secrets", f"{USERS}/{hexed('bob')}", until=edits[0].gate)
        others = {"a fifth edit": lambda: ask(c.server, "alice", "PUT", "/api/v2/user/alice/email", EMAIL),
                  "an account": lambda: ask(c.server, "bob", "GET", "/api/v2/user/bob"),
                  "a password": lambda: c.login("bob", "bob-password")}
        waiting = [threading.Thread(target=lambda what=what, call=call: check.equal(f"{what} waits to the end", call().status, 503))
                   for what, call in others.items()]
        for thread in waiting:
            thread.start()
        check.ok("seven have come", wait_until(lambda: c.server.connections() == 7), c.server.connections())
        c.server.request("GET", "/healthz")
        began = time.monotonic()
        check.equal("SIGTERM", c.server.stop(), 0)
        check.ok("... long before --deadline", time.monotonic() - began < 60 * SLOW, time.monotonic() - began)
        check.equal("... the clients know", [edit.end() for edit in edits],
                    [(504, "OutcomeUnknown")] + 3 * [(503, "UnavailableError")])
        for thread in waiting:
            thread.join(60 * SLOW)
        for edit in edits:
            edit.gate.set()


def test_user_edits_are_bounded_per_user(check):
    """Few edits run and wait at a time; one user does not block the edits of others."""
    with editing("signature") as c:
        gate, early = threading.Event(), []
        for i in range(30):
            c.user(f"user{i}", None, ["default"])
        c.api.fault("PATCH", "secrets", f"{USERS}/", until=gate)

        def call(i):
            if i == 30:
                check.ok("ten are refused at once", wait_until(lambda: len(early) >= 10), len(early))
                with c.server.connect() as client:
                    client.send(request_bytes(c.server.port, "PUT", "/api/v2/user/alice/email", json.dumps(EMAIL).encode(),
                                              {**bearer(token("alice")), **TEXT}))
                    check.equal("another user's waits", client.read(0.3 / SLOW), (b"", False))
                    gate.set()
                    return client.reply()
            reply = ask(c.server, "root", "PUT", f"/api/v2/user/user{i}/email", EMAIL)
            early.append(reply)
            return reply
        replies = in_threads(31, call)
        refused_now = [r for r in replies[:30] if r.status != 201]
        check.ok("4 run and 16 wait", 10 <= len(refused_now) <= 14, len(refused_now))
        check.equal("the others are refused", {(r.status, r.code) for r in refused_now}, {(503, "UnavailableError")})
        check.ok("... and know why", all("too many changes" in r.message for r in refused_now), refused_now[0].message)
        check.equal("another user's is done", replies[30].status, 201)
