"""From a job file to a Framework in a real API server, with TLS and RBAC.

    tests/e2e/run [NAME...]     all, or the tests whose names contain NAME"""
import base64
import concurrent.futures
import json
import os
import subprocess
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "http")]

import change_jobs
import checking
import delivery
import deploy
import dialects
import dryrun
import durations
import ended
import interrupted
import janitor
import kept_code
import logs
import manifests
import order
import overlays
import people
import pulls
import size
import states
import webhook
from cluster import PATIENT, Cluster, end_in_order, step, tools
from harness import BINARY, Checks, Server, choose, framework_name, job_v2, job_v2_secret, tests_of
from jobs import submit_all, submit_with_configmap
from promise import is_taken

MARKER = "Marker-of-a-secret-271828"
DEPENDENTS = ("-configcred", "-regcred")

ROLE = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles/rest-lit"


def objects_of(cluster, job):
    """Names of the objects of a job."""
    name = framework_name(job)
    return sorted(f"{kind}{n[32:]}" for kind in ("Framework", "Secret", "ConfigMap", "PriorityClass")
                  for n in cluster.names(kind) if n.startswith(name))


def remove(cluster, job):
    name = framework_name(job)
    cluster.delete("Framework", name)
    for suffix in DEPENDENTS:
        cluster.delete("Secret", name + suffix)


def orphans(cluster, job):
    """The objects that a garbage collector would keep; the test cluster has none."""
    found = []
    for kind in ("Framework", "Secret", "ConfigMap", "PriorityClass"):
        for n in cluster.names(kind):
            value = cluster.get(kind, n) if n.startswith(framework_name(job)) else None
            if value and not value["metadata"].get("ownerReferences"):
                found.append(f"{kind} {n}")
    return found


# ---- permissions ------------------------------------------------------------------------
def test_submission_without_rights_names_the_right(check, cluster):
    """Without any role, the message contains the missing permission."""
    with cluster.serve() as server:
        reply = server.submit(job_v2("no-rights"))
        check.equal("no rights: refused", reply.status, 500)
        check.ok("no rights: names verb and resource", "create" in reply.message and
                 "frameworks.frameworkcontroller.microsoft.com" in reply.message, reply)
        check.ok("no rights: the log has it as a warning", server.logged(
            lambda line: '"status":500' in line and '"level":"warn"' in line and "needs the RBAC verb" in line), server.log())
        check.equal("no rights: nothing is left", objects_of(cluster, "no-rights"), [])


def bind(check, cluster):
    cluster.bind(check)
    with open(cluster.user_token, encoding="utf-8") as f:
        token = f.read().strip()
    for path in ("/api/v1/namespaces/default/secrets", "/api/v1/namespaces/default/pods",
                 "/api/v1/nodes"):
        check.equal(f"the role does not reach to list {path}",
                    cluster.api("GET", path, token=token)[0], 403)


def test_submission_without_a_verb_names_it_and_cleans_up(check, cluster):
    """A role without one of its verbs: the message names it, and the cleanup works."""
    whole = cluster.api("GET", ROLE)[1]["rules"]
    with cluster.serve() as server:
        for verb, resource in (("create", "secrets"), ("patch", "frameworks")):
            job = f"without-{verb}-{resource}"
            rules = json.loads(json.dumps(whole))
            for rule in rules:
                if resource in rule["resources"]:
                    rule["verbs"] = [v for v in rule["verbs"] if v != verb] or ["watch"]
            cluster.set_rules(ROLE, rules)
            reply = server.submit(job_v2_secret(job, MARKER))
            check.ok(f"without {verb} on {resource}: refused", reply.status >= 400, reply)
            check.ok(f"without {verb} on {resource}: is named", verb in reply.message and
                     resource in reply.message, reply)
            check.equal(f"without {verb} on {resource}: nothing is left but for the garbage collector",
                        orphans(cluster, job), [])
            check.ok(f"without {verb} on {resource}: no secret in the answer",
                     MARKER.encode() not in reply.body)
        cluster.set_rules(ROLE, whole)
        check.equal("with all verbs again", server.submit(job_v2_secret("whole", MARKER)).status, 202)
        check.equal("... all is there", objects_of(cluster, "whole"),
                    ["Framework", "Secret-configcred", "Secret-regcred"])
        secret = cluster.get("Secret", framework_name("whole") + "-configcred")
        check.ok("... and the secret is in the Secret", MARKER.encode() in b"".join(
            base64.b64decode(v) for v in secret["data"].values()))
        framework = json.dumps(cluster.get("Framework", framework_name("whole")))
        check.ok("... and not in the Framework", MARKER not in framework)
        check.ok("... and not in the log", MARKER not in server.settled_log())
        remove(cluster, "whole")


def test_submission_replaces_objects_of_an_older_job(check, cluster):
    """Objects of an older job with the same name: a PriorityClass, which has no owner, is replaced;
    for a Secret, the submission waits for the garbage collector."""
    name = framework_name("left-over")
    with cluster.serve("--priority-class") as server:
        check.equal("first", server.submit(job_v2_secret("left-over", MARKER)).status, 202)
        old = cluster.get("PriorityClass", name + "-priority")["metadata"]["uid"]
        remove(cluster, "left-over")
        check.equal("after its Framework and Secrets are gone",
                    server.submit(job_v2_secret("left-over", MARKER)).status, 202)
        new = cluster.get("PriorityClass", name + "-priority")["metadata"]["uid"]
        check.ok("the PriorityClass is a new one", old != new)
        cluster.delete("Framework", name)
        cluster.delete("PriorityClass", name + "-priority")
        secret = cluster.get("Secret", name + "-configcred")["metadata"]["uid"]
        reply = server.submit(job_v2_secret("left-over", MARKER))
        check.refused("while a Secret is still there", reply, 503, "BeingDeletedError", "deleted")
        check.equal("... with Retry-After", reply.headers.get("retry-after"), "10")
        check.equal("... it is not touched",
                    cluster.get("Secret", name + "-configcred")["metadata"]["uid"], secret)
        check.equal("... and nothing else is left", objects_of(cluster, "left-over"),
                    ["Secret-configcred", "Secret-regcred"])
        remove(cluster, "left-over")


# ---- logins -----------------------------------------------------------------------------
def submit_one(check, cluster, what, server):
    job = "login-" + "".join(c if c.isalnum() else "-" for c in what)
    reply = server.submit(job_v2_secret(job, MARKER))
    check.ok(f"{what}: job is taken", reply and reply.status == 202, reply)
    check.equal(f"{what}: job is there", len(objects_of(cluster, job)), 3)
    check.ok(f"{what}: /readyz", server.ready())
    remove(cluster, job)


def read64(path):
    with open(path, "rb") as f:
        return base64.b64encode(f.read()).decode()


def test_kubeconfig_logins_are_all_accepted(check, cluster):
    """All authentication methods of a kubeconfig work."""
    with Server("--kubeconfig", cluster.kubeconfig, *PATIENT) as server:
        submit_one(check, cluster, "kubeconfig, token file", server)
    with Server("--kubeconfig", cluster.kubeconfig, "--context", "kit-cert", *PATIENT) as server:
        submit_one(check, cluster, "kubeconfig, client certificate", server)
    pki = os.path.join(cluster.directory, "pki")
    for what, user in (("inline token", {"token": cluster.token}),
                       ("inline certificate", {
                           "client-certificate-data": read64(f"{pki}/admin.crt"),
                           "client-key-data": read64(f"{pki}/admin.key")})):
        path = os.path.join(cluster.directory, "inline.kubeconfig")
        with open(path, "w", encoding="utf-8") as f:
            json.dump({"apiVersion": "v1", "kind": "Config", "current-context": "c",
                       "clusters": [{"name": "k", "cluster": {
                           "server": cluster.url,
                           "certificate-authority-data": read64(cluster.ca)}}],
                       "users": [{"name": "u", "user": user}],
                       "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}]}, f)
        with Server("--kubeconfig", path, *PATIENT) as server:
            submit_one(check, cluster, f"kubeconfig, {what}", server)


def test_in_cluster_login_uses_the_service_account(check, cluster):
    """The server uses the service account of its pod: a token by TokenRequest, and the address from
    the environment. The files have their paths of a pod, in a separate mount namespace."""
    status, token = cluster.api("POST", "/api/v1/namespaces/rest-lit/serviceaccounts/rest-lit/token", {
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {"expirationSeconds": 3600}})
    if not check.equal("token of the service account", status, 201):
        return
    mount = os.path.join(cluster.directory, "serviceaccount")
    os.makedirs(mount, exist_ok=True)
    with open(cluster.ca, encoding="utf-8") as f:
        ca = f.read()
    for name, text in (("token", token["status"]["token"]), ("ca.crt", ca), ("namespace", "rest-lit")):
        with open(os.path.join(mount, name), "w", encoding="utf-8") as f:
            f.write(text)
    script = os.path.join(cluster.directory, "in-pod")
    with open(script, "w", encoding="utf-8") as f:
        # An empty /run hides the machine's, which is not changed.
        f.write('#!/bin/sh\nset -e\nmount -t tmpfs tmpfs /run\n'
                'mkdir -p /run/secrets/kubernetes.io/serviceaccount\n'
                f'mount --bind "{mount}" /run/secrets/kubernetes.io/serviceaccount\n'
                f'exec "{BINARY}" "$@"\n')
    os.chmod(script, 0o700)
    if os.getuid() != 0 or subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/run"],
                                          capture_output=True, check=False).returncode != 0:
        print("     in-cluster login: skipped, may not mount here")
        return
    host, port = cluster.url.split("//")[1].split(":")
    with Server("--namespace", "default", *PATIENT, program=["unshare", "-m", script], environment={
            "KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}) as server:
        submit_one(check, cluster, "service account", server)


def test_wrong_logins_are_reported(check, cluster):
    """Errors are reported, and no job is accepted."""
    other = os.path.join(cluster.directory, "other-ca.crt")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=other",
                    "-keyout", "/dev/null", "-out", other], check=True, capture_output=True)
    stale = os.path.join(cluster.directory, "stale.token")
    with open(stale, "w", encoding="utf-8") as f:
        f.write("nobody-knows-this")
    os.chmod(stale, 0o600)
    for what, ca, token, word, wanted in (
            ("another CA", other, cluster.user_token, "certificate", 503),
            ("unknown token", cluster.ca, stale, "401", 500)):
        with Server("--apiserver", cluster.url, "--apiserver-ca", ca, "--apiserver-token-file", token,
                    *PATIENT) as server:
            reply = server.submit(job_v2("wrong-login"))
            check.equal(f"{what}: refused", reply.status, wanted)
            check.ok(f"{what}: says so", word in reply.message, reply)
            check.equal(f"{what}: nothing is left", objects_of(cluster, "wrong-login"), [])


def test_environment_writes_no_keys_and_sets_no_proxy(check, cluster):
    """Environment variables of libcurl and its TLS library that write keys or use a proxy."""
    keys = os.path.join(cluster.directory, "keys.log")
    with cluster.serve(environment={
            "SSLKEYLOGFILE": keys, "https_proxy": "http://127.0.0.1:1", "HTTPS_PROXY": "http://127.0.0.1:1",
            "ALL_PROXY": "http://127.0.0.1:1", "http_proxy": "http://127.0.0.1:1"}) as server:
        submit_one(check, cluster, "hostile environment", server)
    check.ok("no TLS keys on disk", not os.path.exists(keys))


# ---- faults -----------------------------------------------------------------------------
def test_stopped_api_server_leaves_no_objects(check, cluster):
    """A server that ran before, and one that is started meanwhile."""
    delivery.prepare(cluster)
    # Objects of submissions that the deadline ended are removed soon.
    with cluster.serve("--deadline", "4", "--janitor-age", "14",
                       "--janitor-interval", "1") as server:
        check.ok("up: /readyz", server.ready())
        cluster.kill()
        with delivery.by_configmap(cluster) as later:
            delivery.waits_for_the_api_server(check, later)
            keeps_nothing_while_down(check, server)
            cluster.start_again()
            delivery.creates_its_configmap(check, later)
        check.equal("up again: nothing is left", objects_of(cluster, "down"), [])
        check.ok("up again: the same job is taken",
                 is_taken(server, job_v2_secret("down", MARKER)), server.log()[-2000:])
        check.ok("up again: /readyz", server.ready())
        remove(cluster, "down")
    remove(cluster, "later")


def keeps_nothing_while_down(check, server):
    reply = server.submit(job_v2_secret("down", MARKER))
    check.equal("down: status", reply and reply.status, 503)
    check.ok("down: says that it is the API server, with Retry-After", "API server" in reply.message and
             "retry-after" in reply.headers, reply)
    check.ok("down: /readyz", server.becomes("/readyz", 503))
    check.equal("down: /healthz", server.request("GET", "/healthz").status, 200)


def test_corpus_jobs_yield_valid_objects_in_plain(check, cluster):
    submit_all(check, cluster, "plain", [])


def test_corpus_jobs_yield_valid_objects_in_openpai(check, cluster):
    submit_all(check, cluster, "openpai", ["--priority-class"])


def test_corpus_jobs_yield_valid_configmaps(check, cluster):
    submit_with_configmap(check, cluster)


# Each group has an API server of its own.  The tests before `bind` need an account with the rights of an overlay only.
GROUPS = [
    [test_submission_without_rights_names_the_right, *tests_of(deploy), bind,
     test_corpus_jobs_yield_valid_objects_in_plain, test_corpus_jobs_yield_valid_objects_in_openpai,
     test_corpus_jobs_yield_valid_configmaps, test_submission_without_a_verb_names_it_and_cleans_up,
     test_submission_replaces_objects_of_an_older_job, test_kubeconfig_logins_are_all_accepted,
     test_in_cluster_login_uses_the_service_account, test_wrong_logins_are_reported,
     change_jobs.test_jobs_can_be_changed_on_a_real_api_server, test_environment_writes_no_keys_and_sets_no_proxy,
     *interrupted.SHORT, test_stopped_api_server_leaves_no_objects],
    [bind, *delivery.TESTS, *tests_of(dialects), *people.TESTS, *checking.TESTS, *tests_of(janitor), *tests_of(order), *tests_of(kept_code),
     *tests_of(durations), *tests_of(pulls), *tests_of(webhook), *tests_of(dryrun), *tests_of(logs), *ended.TESTS,
     *tests_of(manifests), *tests_of(states), *tests_of(size), *tests_of(overlays)]]


def run_group(group):
    """(passed, failed, checks) of the group's tests that are wanted."""
    check = Checks()
    tests = GROUPS[group]
    wanted = {*choose(tests, sys.argv[1:]), bind}
    cluster = Cluster(tools())
    try:
        check.run(*(step(t, cluster) for t in tests if t in wanted))
    finally:
        cluster.close()
    return check.passed, check.failed, check.checks


def main():
    if not os.access(BINARY, os.X_OK):
        sys.exit(f"{BINARY} is not there: make")
    groups = [i for i, tests in enumerate(GROUPS) if choose(tests, sys.argv[1:])]
    if not groups:
        sys.exit("there is no such test")
    end_in_order()
    with concurrent.futures.ProcessPoolExecutor(len(groups)) as pool:
        passed, failed, checks = map(sum, zip(*pool.map(run_group, groups)))
    print(f"{checks} checks\n{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


main()
