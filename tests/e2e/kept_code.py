"""The code of jobs in a real API server, with only the rights of k8s/deploy/rbac."""
import base64
import gzip
import hashlib
import json
import os
import threading

from archives import archive, header
from cli import cli
from cli_code import Folder, tree
from cluster import FRAMEWORKS
from faultproxy import Proxy
from harness import SLOW, USER, framework_name, in_threads, job_v2, wait_until

GZIP = {"Content-Type": "application/gzip"}
ROUNDS = ("--janitor-interval", "1", "--deadline", "30", "--janitor-age", "300")
DEFAULTS = ("--deadline", "30", "--janitor-age", "300")
ROLE = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles/rest-lit"


def name_of(sha, user=USER):
    return "code-" + hashlib.sha256(f"{user}\0{sha}".encode()).hexdigest()[:40]


def put(server, sha, body):
    return server.request("PUT", f"/api/v2/code/{sha}", body, GZIP)


def put_until_kept(server, sha, body):
    """The answers, up to one that is not "try again"."""
    answers = []

    def kept():
        answers.append(put(server, sha, body))
        return answers[-1].status != 503
    wait_until(kept)
    return answers


def job(name, sha):
    return job_v2(name, extras={"code": {"sha256": sha}})


def noise(size):
    return os.urandom(size)


def kept_archive(cluster, name):
    """(annotations, compressed bytes) of an archive whose parts belong to it."""
    value = cluster.get("ConfigMap", name)
    notes = value["metadata"]["annotations"]
    facts = json.loads(notes["rest-lit/archive"])
    out = b""
    for i in range(facts["parts"]):
        part = cluster.get("ConfigMap", f"{name}-{i}")
        assert part["immutable"] and part["metadata"]["ownerReferences"][0]["uid"] == value["metadata"]["uid"], part["metadata"]
        out += base64.b64decode(part["binaryData"]["part"])
    return {**facts, "complete": notes.get("rest-lit/complete")}, out


def forget(cluster, *names):
    for name in cluster.names("ConfigMap"):
        if name.startswith(names or "code-"):
            cluster.delete("ConfigMap", name)


def test_code_of_a_directory_goes_round(check, cluster):
    with cluster.serve(*DEFAULTS) as server, Folder() as f:
        at = ("--server", f"http://127.0.0.1:{server.port}")
        f.write("job.json", job_v2("round"))
        with open(f.at("p/weights"), "wb") as out:
            out.write(noise(3_000_000))
        code, out, err = cli("submit", *at, "--code", f.project, f.at("job.json"))
        check.ok("sent", code == 0 and "rest-lit: sending" in err, (code, out, err))
        check.ok("shown", "  code:     (sha " in cli("show", *at, "round")[1])
        check.equal("fetched", cli("fetch", *at, "--code", "round", "-o", f.at("back")), (0, "", ""))
        check.equal("the same files", tree(f.at("back")), tree(f.project))
        with open(f.at("p/more"), "wb") as out:
            out.write(noise(2_000_000))
        code, out, err = cli("submit", *at, "--code", f.project, "--name", "more", f.at("job.json"))
        check.ok("too large", code == 2 and 'the server takes at most 4 MiB of compressed files; the largest files are '
                 '"weights" (2.9 MiB), "more" (1.9 MiB)' in err, (code, err))
        forget(cluster)


def test_code_is_kept_in_parts_and_given_back(check, cluster):
    sha, body = archive({"train.py": b"print()\n", "weights": noise(2_500_000)})
    with cluster.serve(*DEFAULTS) as server:
        limits = server.request("GET", "/api/v2/info").json
        check.equal("the limits", (limits["code"]["maxBytes"], limits["code"]["maxUnpackedBytes"], limits["hostFiles"]),
                    (4 << 20, 256 << 20, False))
        check.equal("not there", server.request("GET", f"/api/v2/code/{sha}").status, 404)
        first = put(server, sha, body)
        check.equal("kept", (first.status, first.json), (201, {"sha256": sha, "bytes": len(body), "unpackedBytes": 2_500_008, "entries": 2}))
        check.equal("there", put(server, sha, body).status, 200)
        facts, stored = kept_archive(cluster, name_of(sha))
        check.ok("the parts are the archive", stored == body and facts["parts"] == 3 and facts["complete"] == "true", facts)
        before = cluster.get("ConfigMap", name_of(sha))["metadata"]
        tried = server.submit(job("try-code", sha), path="/api/v2/jobs?dryRun=true")
        check.equal("a dry run finds it", tried.status, 200)
        check.equal("... and writes nothing", cluster.get("ConfigMap", name_of(sha))["metadata"]["resourceVersion"], before["resourceVersion"])
        for use, asked in (("another upload", lambda: put(server, sha, body)), ("a question", lambda: server.request("GET", f"/api/v2/code/{sha}"))):
            check.equal(use, asked().status, 200)
            after = cluster.get("ConfigMap", name_of(sha))["metadata"]
            check.ok("... is a use", after["annotations"]["rest-lit/last-use"] > before["annotations"]["rest-lit/last-use"], after)
            before = after
        check.equal("a job of it", server.submit(job("has-code", sha)).status, 202)
        after = cluster.get("ConfigMap", name_of(sha))["metadata"]
        check.ok("that was a use", after["resourceVersion"] != before["resourceVersion"] and after["uid"] == before["uid"], after)
        framework = cluster.get("Framework", framework_name("has-code"))
        check.equal("the label", framework["metadata"]["labels"]["rest-lit/code"], name_of(sha)[5:])
        volumes = framework["spec"]["taskRoles"][0]["task"]["pod"]["spec"]["volumes"]
        check.equal("a volume for each part", [v["configMap"]["name"] for v in volumes if v.get("configMap", {}).get("name", "").startswith("code-")],
                    [f"{name_of(sha)}-{i}" for i in range(3)])
        got = server.request("GET", f"/api/v2/jobs/{USER}~has-code/code")
        check.ok("given back", got.status == 200 and got.body == body and got.headers["etag"] == f'"{sha}"' and
                 got.headers["content-type"] == "application/gzip", got.headers)
        other = sha[:-1] + ("0" if sha[-1] != "0" else "1")
        missing = server.submit(job("no-code", other))
        check.ok("a job of other code is refused at its place", missing.status == 400 and missing.json["code"] == "NoCodeError" and
                 missing.json["errors"][0]["pointer"].startswith("/extras/code"), missing)
        check.ok("... and not made", not cluster.get("Framework", framework_name("no-code")))
    cluster.delete("Framework", framework_name("has-code"))
    forget(cluster)


def test_archives_beyond_the_limits_are_refused(check, cluster):
    """... with little memory: a bomb, too many entries, too many bytes."""
    with cluster.serve(*DEFAULTS) as server:
        put(server, *archive({"warm": b"up"}))
        before = server.rss_kib()
        zeros = (257 << 20) if os.environ.get("WHOLE") else (1 << 20)
        bomb = put(server, *archive({"zeros": bytes(zeros)}, 9))
        check.equal("zeros", bomb.status, 413 if os.environ.get("WHOLE") else 201)
        bomb = put(server, "0" * 64, gzip.compress(header("zeros", b"0", 0o644, (256 << 20) + 1, "")))
        check.ok("a bomb is refused before its content is read", bomb.status == 413 and "268435456 bytes" in bomb.json["message"], bomb)
        many = put(server, *archive({f"{i:05}": b"" for i in range(20_001)}))
        check.ok("entries", many.status == 413 and "20000" in many.json["message"], many)
        large = put(server, "0" * 64, noise((4 << 20) + 1))
        check.ok("bytes", large.status == 413 and "4194304 bytes" in large.json["message"], large)
        check.ok("memory", server.rss_kib() < before + (40 << 10), (before, server.rss_kib()))
    forget(cluster)


def test_two_uploads_at_once_keep_one_archive(check, cluster):
    """The same tar, compressed differently, at two servers: both succeed, and the parts fit."""
    files = {"data": noise(1_500_000) + bytes(200_000)}
    sha, fast = archive(files, 1)
    _, small = archive(files, 9)
    check.ok("other bytes", fast != small)
    with cluster.serve(*DEFAULTS) as one, cluster.serve(*DEFAULTS) as two:
        rows = [(one, fast), (two, small), (two, fast), (one, small)]
        answers = in_threads(rows, lambda row: put_until_kept(row[0], sha, row[1]))
        check.ok("all succeed", all(a[-1].status in (200, 201) for a in answers), answers)
        check.ok("the others are told when to come again", all("retry-after" in r.headers for a in answers for r in a[:-1]), answers)
        facts, stored = kept_archive(cluster, name_of(sha))
        check.ok("it is one of them", stored in (fast, small) and facts["packedSha256"] == hashlib.sha256(stored).hexdigest(), facts)
    forget(cluster)


def interrupt_upload(check, cluster, sha, body):
    """Kills a server that has stored the first part."""
    with Proxy(cluster) as proxy:
        arrived = threading.Event()
        proxy.fault("POST", "ConfigMap", f"{name_of(sha)}-1", gate=(arrived, None), hang=0)
        with cluster.serve(*DEFAULTS, url=proxy.url) as server:
            thread = threading.Thread(target=in_threads, args=([0], lambda _: put(server, sha, body)))
            thread.start()
            check.ok("one part is stored", arrived.wait(60 * SLOW))
            server.kill()
            thread.join()


def test_interrupted_upload_is_completed_by_the_next(check, cluster):
    """A server is killed between the parts; a part of an archive that is gone is in the way."""
    sha, body = archive({"data": noise(2_000_000)})
    name = name_of(sha)
    interrupt_upload(check, cluster, sha, body)
    check.ok("it is not complete", "rest-lit/complete" not in cluster.get("ConfigMap", name)["metadata"]["annotations"])
    stray = {"apiVersion": "v1", "kind": "ConfigMap", "binaryData": {"part": "AAAA"}, "metadata": {
        "name": f"{name}-2", "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": "gone"}]}}
    check.equal("a part of another one", cluster.api("POST", "/api/v1/namespaces/default/configmaps", stray)[0], 201)
    with cluster.serve(*DEFAULTS) as server:
        check.equal("not there yet", server.request("GET", f"/api/v2/code/{sha}").status, 404)
        check.equal("a job cannot have it", server.submit(job("half-code", sha)).status, 400)
        check.equal("the next upload completes it", put(server, sha, body).status, 201)
        check.ok("... wholly", kept_archive(cluster, name)[1] == body)
    forget(cluster)


def test_other_bytes_wait_for_an_upload_or_replace_an_old_one(check, cluster):
    """Two servers have the same tar, compressed differently: parts never mix, and what has just been
    completed is not deleted."""
    files = {"data": noise(1_500_000) + bytes(200_000)}
    sha, fast = archive(files, 1)
    small = archive(files, 9)[1]
    name = name_of(sha)
    old = {"metadata": {"annotations": {"rest-lit/last-use": "2020-01-01T00:00:00Z"}}}

    def make_old(**more):
        old["metadata"]["annotations"] |= {f"rest-lit/{key}": value for key, value in more.items()}
        cluster.api("PATCH", f"/api/v1/namespaces/default/configmaps/{name}", old, "application/merge-patch+json")
    interrupt_upload(check, cluster, sha, fast)
    with Proxy(cluster) as proxy, cluster.serve(*DEFAULTS, url=proxy.url) as two, cluster.serve(*DEFAULTS) as three:
        busy = put(three, sha, small)
        check.ok("it is young: wait", busy.status == 503 and "another client" in busy.json["message"] and "retry-after" in busy.headers, busy)
        make_old()
        arrived, go, answers = threading.Event(), threading.Event(), []
        proxy.fault("DELETE", "ConfigMap", name, gate=(arrived, go))
        thread = threading.Thread(target=lambda: answers.append(put(two, sha, small)))
        thread.start()
        check.ok("it is old: to be replaced", arrived.wait(60 * SLOW))
        check.equal("meanwhile the first one is completed", put(three, sha, fast).status, 201)
        go.set()
        thread.join()
        check.equal("so it stays", (answers[0].status, kept_archive(cluster, name)[1] == fast), (200, True))
        make_old(complete=None)
        check.equal("an old one that is not complete is replaced", put(three, sha, small).status, 201)
        check.ok("... wholly", kept_archive(cluster, name)[1] == small)
    forget(cluster)


def test_limits_of_code_count_all_pages(check, cluster):
    """... of the list of archives, each with 500; each archive counts as 64 KiB."""
    with cluster.serve(*DEFAULTS, "--code-user", str(501 << 16)) as server:
        sha, body = archive({"a": b"1"})
        put(server, sha, body)
        one = cluster.get("ConfigMap", name_of(sha))
        facts = json.loads(one["metadata"]["annotations"]["rest-lit/archive"])

        def copy(i):
            meta = {key: dict(one["metadata"][key]) for key in ("labels", "annotations")}
            meta["annotations"]["rest-lit/archive"] = json.dumps({**facts, "sha256": f"{i:064x}"})
            meta["name"] = name_of(f"{i:064x}")
            return cluster.api("POST", "/api/v1/namespaces/default/configmaps", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})[0]
        check.equal("as many as fit", set(sum(in_threads(8, lambda t: [copy(i) for i in range(t, 500, 8)]), [])), {201})
        check.equal("one more does not", put(server, *archive({"b": b"1"})).status, 413)
    forget(cluster)


def test_code_that_no_job_names_goes(check, cluster):
    """... with the janitor, after its time; code of a job stays, also that of an hour ago."""
    archives = [archive({"n": b"%d" % i}) for i in range(3)]
    names = [name_of(sha) for sha, _ in archives]
    old = {"metadata": {"annotations": {"rest-lit/last-use": "2020-01-01T00:00:00Z"}}}
    with cluster.serve(*DEFAULTS) as server:
        for sha, body in archives:
            put(server, sha, body)
        check.equal("a job of the first", server.submit(job("of-first", archives[0][0])).status, 202)
        for name in names[:2]:
            cluster.api("PATCH", f"/api/v1/namespaces/default/configmaps/{name}", old, "application/merge-patch+json")
    with cluster.serve(*ROUNDS) as server:
        check.ok("unused code goes", wait_until(lambda: names[1] not in cluster.names("ConfigMap")), server.log()[-2000:])
        check.ok("that is logged", server.logged('"msg":"removed code that no job names","archives":1'))
        check.ok("the others stay", {names[0], names[2]} <= cluster.names("ConfigMap"))
        cluster.delete("Framework", framework_name("of-first"))
        check.ok("and without its job, the first goes", wait_until(lambda: names[0] not in cluster.names("ConfigMap")))
        check.ok("... not the third", names[2] in cluster.names("ConfigMap"))
    forget(cluster)


def test_janitor_beside_a_submission_is_safe(check, cluster):
    """The janitor has found that no job names the code, and is about to delete it; then a job of it
    is submitted.  Or it is deleted first: then the job is refused."""
    sha, body = archive({"race": b"1"})
    name = name_of(sha)
    with Proxy(cluster) as proxy, cluster.serve(*DEFAULTS) as server:
        put(server, sha, body)
        arrived, go, done = threading.Event(), threading.Event(), threading.Event()
        proxy.fault("DELETE", "ConfigMap", name, gate=(arrived, go), executed=done)
        with cluster.serve(*ROUNDS, "--code-age", "0", url=proxy.url):
            check.ok("the janitor wants to delete it", arrived.wait(60 * SLOW))
            check.equal("a job of it", server.submit(job("beside", sha)).status, 202)
            go.set()
            check.ok("the deletion is answered", done.wait(60 * SLOW))
            check.ok("the code is there", cluster.get("ConfigMap", name))
            before = proxy.count("GET", "Framework", None)
            check.ok("also in the rounds after that", wait_until(lambda: proxy.count("GET", "Framework", None) > before + 6))
            check.ok("... it is there", cluster.get("ConfigMap", name))
            cluster.delete("Framework", framework_name("beside"))
            check.ok("without the job it goes", wait_until(lambda: not cluster.get("ConfigMap", name)))
        check.equal("then a job is refused", server.submit(job("beside", sha)).status, 400)
        check.ok("... and not made", not cluster.get("Framework", framework_name("beside")))
    forget(cluster)


def test_limits_of_code_name_jobs_to_delete(check, cluster):
    sha, body = archive({"large": noise(300_000)})
    with cluster.serve(*DEFAULTS, "--code-user", "409600", "--code-all", "512000") as server, \
            cluster.serve(*DEFAULTS, "--code-user", "409600", "--code-all", "512000", user="bob") as bob:
        check.equal("kept", put(server, sha, body).status, 201)
        check.equal("a job of it", server.submit(job("has-large", sha)).status, 202)
        check.ok("the cache knows the job", wait_until(lambda: server.request("GET", f"/api/v2/jobs/{USER}~has-large").status == 200))
        check.equal("a small one fits", put(server, *archive({"small": b"1"})).status, 201)
        full = put(server, *archive({"more": noise(100_000)}))
        check.ok("more does not", full.status == 413 and full.json["code"] == "CodeQuotaError" and "has-large" in full.json["message"], full)
        check.equal("nothing of it is left", len([n for n in cluster.names("ConfigMap") if n.startswith("code-")]), 4)
        check.equal("what is there can be sent again", put(server, sha, body).status, 200)
        full = put(bob, *archive({"other": noise(150_000)}))
        check.ok("all users' limit", full.status == 413 and "all users" in full.json["message"] and "has-large" not in full.json["message"], full)
        check.equal("another user's code is not found", bob.request("GET", f"/api/v2/code/{sha}").status, 404)
        check.equal("... nor used", bob.submit(job("not-mine", sha)).status, 400)
        check.ok("a job's code is found by those who may see the job", bob.request("GET", f"/api/v2/jobs/{USER}~has-large/code").body == body)
        sha = put(bob, *archive({"of": b"bob"})).json["sha256"]
        cluster.api("PATCH", f"{FRAMEWORKS}/{framework_name('has-large')}", {"metadata": {"labels": {"rest-lit/code": name_of(sha, "bob")[5:]}}},
                    "application/merge-patch+json")
        check.ok("a label with another user's code gives nothing", wait_until(
            lambda: server.request("GET", f"/api/v2/jobs/{USER}~has-large/code").status == 404))
    cluster.delete("Framework", framework_name("has-large"))
    forget(cluster)


def test_many_jobs_share_one_archive(check, cluster):
    sha, body = archive({"train.py": b"print(1)\n" * 1000})
    n = int(os.environ.get("WHOLE_JOBS", "1000")) if os.environ.get("WHOLE") else 64
    with cluster.serve(*DEFAULTS) as server:
        put(server, sha, body)
        part = cluster.get("ConfigMap", name_of(sha) + "-0")["metadata"]
        # So many at once that the API server gives up on some writes of the last use.
        answers = in_threads(32, lambda t: [server.submit(job(f"share-{i}", sha)).status for i in range(t, n, 32)])
        check.equal("all are taken", sorted(set(sum(answers, []))), [202])
        named = cluster.api("GET", f"{FRAMEWORKS}?labelSelector=rest-lit/code={name_of(sha)[5:]}")[1]["items"]
        check.equal("all name it", len(named), n)
        check.equal("no job has written its part", cluster.get("ConfigMap", name_of(sha) + "-0")["metadata"], part)
        check.equal("it is kept once", sorted(x for x in cluster.names("ConfigMap") if x.startswith("code-")), [name_of(sha), name_of(sha) + "-0"])
    for i in range(n):
        cluster.delete("Framework", framework_name(f"share-{i}"))
    forget(cluster)


def test_code_without_rights_names_the_right(check, cluster):
    whole = cluster.api("GET", ROLE)[1]["rules"]
    verbs = {kind: sorted(rule["verbs"]) for rule in whole for kind in rule["resources"]}
    check.equal("rights on ConfigMaps and Secrets", (verbs["configmaps"], verbs["secrets"]), (["create", "delete", "get", "list", "patch"], ["create"]))
    rules = json.loads(json.dumps(whole))
    for rule in rules:
        if "configmaps" in rule["resources"]:
            rule["verbs"] = ["create", "get"]
    cluster.set_rules(ROLE, rules)
    with cluster.serve(*DEFAULTS) as server:
        refused = put(server, *archive({"a": b""}))
        check.ok("list is missed", refused.status >= 400 and "configmaps" in refused.json["message"] and "list" in refused.json["message"], refused)
        check.equal("other jobs are taken", server.submit(job_v2("no-rights-needed")).status, 202)
        check.ok("the janitor says it", server.logged("cannot remove code that no job names"), server.log()[-2000:])
    cluster.set_rules(ROLE, whole)
    cluster.delete("Framework", framework_name("no-rights-needed"))
