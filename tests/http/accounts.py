"""Users, groups and storages: from objects of an OpenPAI cluster, with a faulty API server; and
from the file of --facts, with reloads while the server runs."""
import base64
import json
import os
import signal
import tempfile

from harness import ROOT, SLOW, framework_name, job_v2, wait_until
from place import SIGNATURE, Place, events
from signin import Cluster
from tokens import bearer, token, write_file

MARKER = "Marker-of-a-private-key"
EXTENSION = {
    "jobSSH": {"key": MARKER, "pubKey": "ssh-rsa AAAA job"},
    "sshKeys": [{"title": "laptop", "value": "ssh-ed25519 AAAA laptop", "time": "2026"}],
    "githubPAT": MARKER, "boundedClusters": {"b": {"alias": "b", "token": MARKER}},
    "something": {"else": MARKER},
}


def cluster(*arguments, **more):
    """Bob is in `vision` and has three storages."""
    c = Cluster(*arguments, mode="signature", **more)
    c.group("vision", {"virtualClusters": ["vc1"], "storageConfigs": ["nfs", "own", "ro", "gone"]})
    c.user("bob", None, ["vision", "no-such-group"], json.dumps(EXTENSION))
    for name, label, read_only in (("nfs", None, False), ("own", "false", False),
                                   ("ro", "true", True)):
        labels = {"share": label} if label else {}
        c.api.put("persistentvolumeclaims", {
            "metadata": {"name": name, "namespace": "default", "labels": labels},
            "spec": {"volumeName": f"{name}-pv"}, "status": {"phase": "Bound"}})
        c.api.put("persistentvolumes", {
            "metadata": {"name": f"{name}-pv"}, "spec": {
                "mountOptions": ["nfsvers=4.1"],
                "nfs": {"server": "10.0.0.9", "path": "/data", "readOnly": read_only}}})
    return c


def get(server, path, user="bob"):
    return server.request("GET", path, headers=bearer(token(user)))


def submit(server, name, user="bob", storages=None, vc="vc1"):
    more = {"defaults": {"virtualCluster": vc}}
    if storages is not None:
        more["extras"] = {"storages": [{"name": s} for s in storages]}
    return server.submit(job_v2(name, **more), bearer(token(user)))


def pod(c, name, user="bob"):
    framework = c.api.of(framework_name(name, user))["frameworks", framework_name(name, user)]
    return framework["spec"]["taskRoles"][0]["task"]["pod"]["spec"]


# ---- an OpenPAI cluster ---------------------------------------------------------------------
def test_openpai_user_has_groups_storages_and_keys(check):
    with cluster() as c:
        me = get(c.server, "/api/v2/users/bob").json
        check.equal("groups", me["grouplist"], ["vision", "no-such-group"])
        check.equal("virtual clusters", me["virtualCluster"], ["vc1"])
        check.equal("storages", me["storageConfig"], ["nfs", "own", "ro"])
        check.equal("no admin", me["admin"], False)
        check.equal("public keys", me["extension"]["jobSSH"], {"pubKey": "ssh-rsa AAAA job"})
        check.equal("what is shown", sorted(me["extension"]),
                    ["boundedClusters", "jobSSH", "sshKeys"])
        admin = get(c.server, "/api/v2/users/bob", "root").json
        check.equal("an admin sees no more", admin["extension"], me["extension"])
        other = get(c.server, "/api/v2/users/bob", "alice").json
        check.ok("others do not see the extension", "extension" not in other, other)
        check.refused("unknown user: details", get(c.server, "/api/v2/users/nobody"), 400, "NoUserError")
        for reply in (me, admin, other):
            check.ok("no secret", MARKER not in json.dumps(reply))
        check.ok("no secret in the log", MARKER not in c.server.settled_log())
        check.equal("the group that is missing is said once",
                    len(events(c.server, "a group is skipped", 1)), 1)


def test_openpai_storages_are_mounted_into_pods(check):
    with cluster() as c:
        check.equal("all storages", submit(c.server, "all", storages=["nfs", "own", "ro"]).status,
                    202)
        spec = pod(c, "all")
        claims = {v["persistentVolumeClaim"]["claimName"]: v["persistentVolumeClaim"].get("readOnly")
                  for v in spec["volumes"] if "persistentVolumeClaim" in v}
        check.equal("claims", claims, {"nfs": None, "own": None, "ro": True})
        app = next(x for x in spec["containers"] if x["name"] == "app")
        paths = {m["mountPath"]: m.get("subPath") for m in app["volumeMounts"]
                 if m["mountPath"].startswith("/mnt/")}
        check.equal("paths", paths, {"/mnt/nfs": None, "/mnt/own": "bob", "/mnt/ro": None})
        check.equal("defaults", submit(c.server, "defaults", storages=[]).status, 202)
        claims = [v["persistentVolumeClaim"]["claimName"] for v in pod(c, "defaults")["volumes"]
                  if "persistentVolumeClaim" in v]
        check.equal("the first of the group", claims, ["nfs"])
        check.refused("a storage that is not there", submit(c.server, "x1", storages=["gone"]),
                404, "NoStorageError")
        check.refused("a storage of others", submit(c.server, "x2", "alice", ["nfs"], "default"),
                404, "NoStorageError")
        check.refused("a virtual cluster of others", submit(c.server, "x3", vc="default"), 403,
                "ForbiddenUserError")
        check.equal("an admin may use any", submit(c.server, "x4", "root", vc="vc9").status, 202)
        check.refused("unknown user", submit(c.server, "x5", "nobody"), 401,
                "UnauthorizedUserError", "your token is valid, but there is no user nobody in this cluster")


def test_openpai_pods_get_only_the_ssh_keys(check):
    """Pods get only the ssh keys of the extension."""
    with cluster() as c:
        check.equal("taken", submit(c.server, "ssh").status, 202)
        made = c.api.of(framework_name("ssh", "bob"))
        data = made["secrets", framework_name("ssh", "bob") + "-usercred"]["data"]
        text = base64.b64decode(data["userExtensionSecrets.yaml"]).decode()
        check.ok("the private key", MARKER in text and "jobSSH" in text and "sshKeys" in text)
        check.ok("nothing else", "githubPAT" not in text and "something" not in text and
                 "boundedClusters" not in text, text)
        check.equal("taken, too", submit(c.server, "plain", "alice", vc="default").status, 202)
        kinds = [kind for kind, _ in c.api.of(framework_name("plain", "alice"))]
        check.equal("a user without keys needs no Secret", kinds, ["frameworks"])


def test_openpai_users_are_read_without_listing_secrets(check):
    """Users that are not administrators.  portal.py tests administrators."""
    with cluster() as c:
        for path in ("/api/v2/users/bob", "/api/v2/users", "/api/v2/storages",
                     "/api/v2/virtual-clusters"):
            check.equal(path, get(c.server, path).status, 200)
        with c.api.lock:
            lists = [r[1] for r in c.api.requests if r[0] == "LIST" and r[1].rsplit("/", 1)[1] in
                     ("secrets", "persistentvolumeclaims", "persistentvolumes")]
        check.equal("lists", lists, [])


def test_openpai_admins_get_virtual_clusters_of_the_file(check):
    with tempfile.TemporaryDirectory(prefix="rest-lit-facts.") as directory:
        facts = write_file(directory, "facts.yaml", "virtualClusters: [default, vc1]\n")
        c = cluster("--facts", facts)
    with c:
        check.equal("of an admin", get(c.server, "/api/v2/users/root", "root").json
                    ["virtualCluster"], ["default", "vc1"])
        check.refused("unknown virtual cluster", submit(c.server, "x", "root", vc="vc9"), 403,
                "ForbiddenUserError")
        check.equal("all", sorted(get(c.server, "/api/v2/virtual-clusters").json),
                    ["default", "vc1"])


def test_openpai_groups_grant_privileges_of_pods(check):
    """In the profile plain, a user gets privileges of pods by a group that grants them."""
    job = job_v2("mounts").replace('"instances": 1', '"extraContainerOptions": {"fuse": true}')
    with cluster() as c:
        c.group("trusted", {"overlays": ["fuse"]})
        c.user("eve", None, ["vision", "trusted"], "{}")
        reply = c.server.submit(job, bearer(token("root")))
        check.refused("not granted, not even to an admin", reply, 403, "ForbiddenUserError")
        check.ok("... says how it could be", "`overlays: [fuse]`" in reply.message, reply)
        job = job.replace("{", '{"defaults": {"virtualCluster": "vc1"}, ', 1)
        check.equal("granted", c.server.submit(job, bearer(token("eve"))).status, 202)
        limits = pod(c, "mounts", "eve")["containers"][0]["resources"]["limits"]
        check.equal("... and in the pod", limits.get("github.com/fuse"), 1)
        for user, overlays in (("bob", []), ("eve", ["fuse"])):
            check.equal(f"{user} sees it", get(c.server, f"/api/v2/users/{user}", user).json
                        ["overlays"], overlays)


# ---- the file -------------------------------------------------------------------------------
POLICY = """
virtualClusters: [default, vc1, vc2]
storages: [{name: nfs, default: true}, {name: own, share: false}]
groups:
  staff: {virtualClusters: [vc1], storages: [nfs]}
  root: {admin: true}
users:
  bob: {groups: [staff], virtualClusters: [vc2]}
  chief: {groups: [root]}
others: refuse
"""


def test_file_users_get_the_rights_of_their_groups(check):
    with Place() as place:
        facts = write_file(place.directory, "facts.yaml", POLICY)
        server = place.server(*SIGNATURE, "--facts", facts)
        me = get(server, "/api/v2/users/bob").json
        check.equal("virtual clusters", me["virtualCluster"], ["vc2", "vc1"])
        check.equal("storages", me["storageConfig"], ["nfs"])
        check.equal("of a group", submit(server, "a").status, 202)
        check.equal("of his own", submit(server, "b", vc="vc2").status, 202)
        check.refused("not granted", submit(server, "c", vc="default"), 403,
                "ForbiddenUserError")
        check.equal("an admin", submit(server, "d", "chief", vc="default").status, 202)
        check.refused("but of storages nothing", submit(server, "e", "chief", ["nfs"], "vc1"), 404,
                "NoStorageError")
        check.refused("others", submit(server, "f", "eve"), 401, "UnauthorizedUserError",
                "your token is valid, but this server has no user eve; ask its administrator")


def test_file_with_too_many_users_is_not_listed(check):
    """A list that is too large for a response is refused, and its memory is freed."""
    users = "".join(f"  {'u' * 50}{i}: {{groups: [staff]}}\n" for i in range(20000))
    with Place() as place:
        facts = write_file(place.directory, "facts.yaml", POLICY.replace("others:", users + "others:"))
        server = place.server(*SIGNATURE, "--facts", facts, "--rate-address", "0")

        def ask(n):
            replies = [get(server, "/api/v2/users") for _ in range(n)]
            return {(r.status, r.code, "too large" in r.message) for r in replies}

        check.equal("refused", ask(5), {(500, "UnknownError", True)})
        begin = server.rss_kib()
        check.equal("refused again", ask(100), {(500, "UnknownError", True)})
        quarantine = 0 if SLOW == 1 else 256 * 1024  # of AddressSanitizer, which finds leaks itself
        check.ok("memory is freed", server.rss_kib() - begin < 32 * 1024 + quarantine,
                 (begin, server.rss_kib()))


def test_file_reload_is_complete_or_without_effect(check):
    """A reload takes effect completely or not at all, and at once."""
    kept, read = ("SIGHUP: users and storages stay as they were",
                  "SIGHUP: users and storages were read again")
    with Place() as place:
        facts = write_file(place.directory, "facts.yaml", POLICY)
        server = place.server(*SIGNATURE, "--facts", facts)
        check.equal("before", submit(server, "a").status, 202)
        write_file(place.directory, "facts.yaml", POLICY.replace("groups: [staff]", "groups: [x]"))
        server.process.send_signal(signal.SIGHUP)
        check.ok("is said", wait_until(lambda: events(server, kept)), server.log())
        check.equal("the old one stays", get(server, "/api/v2/users/bob").json["virtualCluster"], ["vc2", "vc1"])
        write_file(place.directory, "facts.yaml", POLICY.replace(
            "virtualClusters: [vc1]", "virtualClusters: [default]"))
        server.process.send_signal(signal.SIGHUP)
        check.ok("is said", wait_until(lambda: events(server, read)), server.log())
        check.equal("the new one", get(server, "/api/v2/users/bob").json["virtualCluster"],
                    ["vc2", "default"])
        check.refused("what was taken away", submit(server, "b"), 403, "ForbiddenUserError")


def test_file_of_the_documents_behaves_as_described(check):
    """The example of docs/USERS.md behaves as described there."""
    with open(os.path.join(ROOT, "docs/USERS.md"), encoding="utf-8") as f:
        text = f.read().split("```yaml\n", 1)[1].split("```", 1)[0]
    with Place() as place:
        facts = write_file(place.directory, "facts.yaml", text)
        server = place.server(*SIGNATURE, "--facts", facts)
        for user, clusters, storages, overlays in (
                ("alice", ["default", "vision"], ["datasets", "home", "vision-scratch"],
                 ["infiniband"]),
                ("bob", ["default", "speech"], ["datasets", "home"], []),
                ("root", ["default", "speech", "vision"], ["datasets", "home"], []),
                ("ci-bot", ["default"], [], ["fuse"])):
            me = get(server, f"/api/v2/users/{user}", user).json
            check.equal(f"{user}: virtual clusters", sorted(me["virtualCluster"]), clusters)
            check.equal(f"{user}: storages", me["storageConfig"], storages)
            check.equal(f"{user}: overlays", me["overlays"], overlays)
            check.equal(f"{user}: admin", me["admin"], user == "root")
        check.refused("unlisted user", submit(server, "x", "eve", vc="default"), 401,
                "UnauthorizedUserError")
