"""Authentication with a real API server: logins and tokens of an OpenPAI cluster, the deny list,
and service accounts; with only the rights of k8s/deploy."""
import base64
import json
import os
import shutil
import tempfile

from cluster import DEPLOY
from harness import framework_name, job_v2, wait_until
from openpai import group_object, hexed, user_object
from tokens import SECRET, bearer, token, token_id, write_file

SPACES = ("pai-user-v2", "pai-group", "pai-user-token", "ci", "evil")
LOGIN = "/api/v2/authn/basic/login"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
CHECK = "/api/v2/tokens/check"
ISSUER = "https://kubernetes.default.svc"


def prepare(check, cluster):
    spaces = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": s}} for s in SPACES]
    accounts = [{"apiVersion": "v1", "kind": "ServiceAccount",
                 "metadata": {"namespace": space, "name": name, "annotations": {
                     "rest-lit/user": "alice"}}}
                for space, name in (("ci", "deployer"), ("ci", "other"), ("evil", "deployer"))]
    people = [user_object("alice", "alice-password", ["default"]), user_object("root", "root-password", ["admins"]),
              group_object("default", {"virtualClusters": ["default"]}), group_object("admins", {"admin": True})]
    cluster.apply_objects(*spaces, *people, *accounts)
    cluster.apply("beside-openpai/rbac.yaml", "base/deny-list.yaml", "options/manage-users.yaml")


def patiently(ask):
    """Retry until the response is not 503, because TokenReviews are limited to ten per second."""
    replies = []

    def answered():
        replies[:] = [ask()]
        return replies[0].status != 503
    wait_until(answered)
    return replies[0]


class Place:
    def __init__(self, cluster, *arguments, issuers=None):
        self.directory = tempfile.mkdtemp(prefix="rest-lit-people.")
        file = write_file(self.directory, "jwt-secret", SECRET)
        if issuers:
            arguments += ("--issuers", write_file(self.directory, "issuers", json.dumps(issuers)))
        self.server = cluster.serve("--jwt-secret-file", file, "--rate-address", "0",
                                    "--token-cache", "0", *arguments, who=[])

    def login(self, name="alice"):
        return self.server.request("POST", LOGIN, f"username={name}&password={name}-password", FORM)

    def check(self, text):
        return self.server.request("GET", CHECK, headers=bearer(text))

    def status(self, text):
        return self.check(text).status

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.remove()
        shutil.rmtree(self.directory, ignore_errors=True)


def stored(cluster, name, space="pai-user-token"):
    status, found = cluster.api("GET", f"/api/v1/namespaces/{space}/secrets/{name}")
    return (found.get("data") or {}) if status == 200 else None


def test_logins_of_an_openpai_cluster_work(check, cluster):
    with Place(cluster, "--users", "openpai", "--token-check", "stored") as p:
        # Roles take a moment.
        wait_until(lambda: p.login().status == 200)
        before = stored(cluster, hexed("alice"))
        first, second = p.login().json, p.login().json
        check.equal("who", (first["user"], first["admin"]), ("alice", False))
        check.equal("an admin", p.login("root").json["admin"], True)
        kept = [base64.b64decode(v).decode() for v in stored(cluster, hexed("alice")).values()]
        check.equal("two more are stored", len(kept), len(before) + 2)
        check.ok("these two", first["token"] in kept and second["token"] in kept)
        check.equal("it is good", p.status(first["token"]), 200)
        check.equal("signed, but not stored", p.status(token("alice")), 401)
        check.equal("no Secret", p.status(token("nobody")), 503)
        reply = p.server.submit(job_v2("by-login"), bearer(first["token"]))
        check.equal("a job", reply.status, 202)
        check.ok("is there", cluster.get("Framework", framework_name("by-login")))
        check.equal("logout", p.server.request("DELETE", "/api/v2/authn/basic/logout",
                                               headers=bearer(first["token"])).status, 200)
        check.equal("it is good no more", p.status(first["token"]), 401)
        check.equal("the other is", p.status(second["token"]), 200)
        made = p.server.request("POST", "/api/v2/tokens/application", '{"name": "ci"}',
                                {**bearer(second["token"]), "Content-Type": "application/json"})
        check.equal("an application's", p.status(made.json["token"]), 200)
        mine = p.server.request("GET", "/api/v2/tokens", headers=bearer(second["token"])).json
        check.ok("are listed", {second["token"], made.json["token"]} <= set(mine["tokens"]))


def test_users_are_managed_by_admins(check, cluster):
    """With part 5 of the roles, lists and changes of a user's Secret work."""
    json_type = {"Content-Type": "application/json"}
    with Place(cluster, "--users", "openpai", "--token-check", "signature", "--token-lifetime", "600") as p:
        def ask(who, method, path, body=None):
            return p.server.request(method, path, json.dumps(body) if body else None, {**bearer(token(who)), **(json_type if body else {})})
        wait_until(lambda: ask("root", "GET", "/api/v2/users").status == 200)
        new = {"username": "dora", "password": "dora-password", "virtualCluster": ["default"], "email": "d@example.com"}
        check.equal("create", ask("root", "POST", "/api/v2/users", new).status, 201)
        check.equal("again", ask("root", "POST", "/api/v2/users", new).code, "ConflictUserError")
        check.equal("keys", ask("dora", "PUT", "/api/v2/users/me", {"data": {"extension": {"sshKeys": [{"value": "ssh-x y"}]}}}).status, 201)
        check.equal("password", ask("dora", "PUT", "/api/v2/users/me", {"data": {
            "oldPassword": "dora-password", "newPassword": "another-password"}}).status, 201)
        check.equal("login", p.login("dora").code, "IncorrectPasswordError")
        users = {u["username"]: u for u in ask("root", "GET", "/api/v2/users").json}
        check.ok("all", {"alice", "root", "dora"} <= set(users) and users["root"]["admin"], users)
        check.equal("what is stored", base64.b64decode(stored(cluster, hexed("dora"), "pai-user-v2")["extension"]),
                    b'{"sshKeys":[{"value":"ssh-x y"}]}')
        check.ok("groups", {"admins", "default"} <= {g["groupname"] for g in ask("root", "GET", "/api/v2/groups").json})
        check.equal("remove", ask("root", "DELETE", "/api/v2/users/dora").status, 200)
        check.equal("is gone", stored(cluster, hexed("dora"), "pai-user-v2"), None)


def test_revoked_tokens_are_on_the_deny_list(check, cluster):
    with Place(cluster, "--token-check", "signature", "--deny-list", "rest-lit/rest-lit-revoked") as p:
        mine, app = token("alice"), token("alice", application=True)
        wait_until(lambda: p.status(mine) == 200)
        reply = p.server.request("DELETE", "/api/v2/tokens/" + app, headers=bearer(mine))
        check.equal("revoked", reply.status, 200)
        check.equal("no more", p.status(app), 401)
        check.equal("the other is good", p.status(mine), 200)
        listed_now = stored(cluster, "rest-lit-revoked", "rest-lit")
        check.equal("by its hash", list(listed_now), [token_id(app)])
        with open(os.path.join(DEPLOY, "base/deny-list.yaml"), "rb") as f:
            check.equal("applied again", cluster.kubectl("apply", "-f", "-", text=f.read()).returncode, 0)
        check.equal("it stays", list(stored(cluster, "rest-lit-revoked", "rest-lit")),
                    [token_id(app)])


def storage(name, share, read_only):
    """Creates a claim and its volume, bound as by the controller."""
    labels = {"share": share} if share else {}
    return ({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": f"{name}-pv"},
             "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany"],
                      "nfs": {"server": "10.0.0.9", "path": "/data", "readOnly": read_only}}},
            {"apiVersion": "v1", "kind": "PersistentVolumeClaim",
             "metadata": {"namespace": "default", "name": name, "labels": labels},
             "spec": {"accessModes": ["ReadWriteMany"], "volumeName": f"{name}-pv",
                      "resources": {"requests": {"storage": "1Gi"}}}})


def test_storages_are_those_of_groups(check, cluster):
    """Claims and volumes of a real API server; unbound claims are not storages."""
    claims = "/api/v1/namespaces/default/persistentvolumeclaims"
    objects = [*storage("data", None, True), *storage("home", "false", False),
               *storage("unbound", None, False)]
    objects.append(group_object("team", {"virtualClusters": ["default"],
                                  "storageConfigs": ["home", "data", "unbound", "gone"]}))
    objects.append(user_object("carol", "carol-password", ["team", "gone"]))
    cluster.apply_objects(*objects)
    for name in ("data", "home"):
        check.equal(f"{name} is bound", cluster.api(
            "PATCH", f"{claims}/{name}/status", {"status": {"phase": "Bound"}},
            "application/merge-patch+json")[0], 200)
    with Place(cluster, "--users", "openpai", "--token-check", "signature") as p:
        mine = bearer(token("carol"))
        # Roles take a moment.
        wait_until(lambda: p.server.request("GET", "/api/v2/storages", headers=mine).status == 200)
        seen = p.server.request("GET", "/api/v2/storages", headers=mine).json["storages"]
        check.equal("storages", seen, [
            {"name": "home", "share": False, "volumeName": "home-pv", "default": True, "readOnly": False},
            {"name": "data", "share": True, "volumeName": "data-pv", "default": False, "readOnly": True}])
        one = p.server.request("GET", "/api/v2/storages/data", headers=mine).json
        check.equal("one of them", (one["type"], one["readOnly"], one["data"]),
                    ("nfs", True, {"server": "10.0.0.9", "path": "/data"}))
        job = job_v2("stored", extras={"storages": [{"name": "data"}, {"name": "home"}]})
        check.equal("a job", p.server.submit(job, mine).status, 202)
        spec = cluster.get("Framework", framework_name("stored", "carol"))["spec"]
        volumes = spec["taskRoles"][0]["task"]["pod"]["spec"]["volumes"]
        found = [v["persistentVolumeClaim"] for v in volumes if "persistentVolumeClaim" in v]
        check.equal("its volumes", found, [{"claimName": "data", "readOnly": True},
                                           {"claimName": "home"}])
        job = job_v2("unbound", extras={"storages": [{"name": "unbound"}]})
        check.equal("unbound claim", p.server.submit(job, mine).status, 404)
        check.equal("unknown user", p.status(token("nobody")), 401)
        # Without permission to read volumes, users cannot be looked up: 503.
        role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/rest-lit-volumes"
        rules = cluster.api("GET", role)[1]["rules"]
        cluster.api("PATCH", role, {"rules": []}, "application/merge-patch+json")
        check.ok("without the right", wait_until(lambda: p.status(token("carol")) == 503))
        check.ok("the log says which", p.server.logged("persistentvolumes"), p.server.log())
        cluster.api("PATCH", role, {"rules": rules}, "application/merge-patch+json")


def account_token(cluster, space, name, *audiences):
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": {"audiences": list(audiences), "expirationSeconds": 3600}}
    path = f"/api/v1/namespaces/{space}/serviceaccounts/{name}/token"
    return cluster.api("POST", path, body)[1]["status"]["token"]


def test_service_accounts_need_an_entry_in_the_list(check, cluster):
    issuers = {"serviceAccounts": {"issuer": ISSUER, "audience": "rest-lit",
                                   "users": {"ci/deployer": "bob"}}}
    with Place(cluster, "--token-check", "signature", issuers=issuers) as p:
        good = account_token(cluster, "ci", "deployer", "rest-lit")
        # Roles take effect after a moment; until then, TokenReviews fail.
        said = patiently(lambda: p.check(good))
        check.equal("listed account", said.status, 200)
        check.equal("who", (said.json["username"], said.json["application"]), ("bob", True))
        reply = patiently(lambda: p.server.submit(job_v2("by-account"), bearer(good)))
        check.equal("submits", reply.status, 202)
        check.ok("as that user", cluster.get("Framework", framework_name("by-account", "bob")))
        check.equal("manages no tokens", patiently(
            lambda: p.server.request("GET", "/api/v2/tokens", headers=bearer(good))).status, 403)
        for what, text in (
                ("the API server's audience", account_token(cluster, "ci", "deployer", ISSUER)),
                ("another", account_token(cluster, "ci", "deployer", "vault")),
                ("another account", account_token(cluster, "ci", "other", "rest-lit")),
                ("another namespace", account_token(cluster, "evil", "deployer", "rest-lit")),
                ("changed", good[:-8] + "AAAAAAAA")):
            check.equal(what, patiently(lambda text=text: p.check(text)).status, 401)
        both = account_token(cluster, "ci", "deployer", "vault", "rest-lit")
        check.equal("made for us as well", patiently(lambda: p.check(both)).status, 200)
        path = "/api/v1/namespaces/ci/serviceaccounts/deployer"
        check.equal("the account goes", cluster.api("DELETE", path)[0], 200)
        check.ok("and its tokens with it",
                 wait_until(lambda: p.status(good) == 401, 120), p.check(good))


TESTS = [prepare, test_logins_of_an_openpai_cluster_work, test_storages_are_those_of_groups,
         test_users_are_managed_by_admins, test_revoked_tokens_are_on_the_deny_list,
         test_service_accounts_need_an_entry_in_the_list]
