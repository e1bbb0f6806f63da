#!/usr/bin/env python3
"""Records how a real API server refuses: tests/data/apiserver/NAME.json, the bodies of its answers
as they come, which tests/unit/k8s/transport/test_explain.c turns into sentences for people.

    tests/e2e/refusals.py        records them anew"""
import json
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from cluster import FRAMEWORKS, PATHS, ROOT, Cluster, end_in_order, tools

OUT = os.path.join(ROOT, "tests/data/apiserver")
MARKER = "hunter2"
NOWHERE = "/api/v1/namespaces/nowhere/secrets"


def framework(name="refused", size=0, **spec):
    return {"apiVersion": "frameworkcontroller.microsoft.com/v1", "kind": "Framework",
            "metadata": {"name": name},
            "spec": {"executionType": "Create", "retryPolicy": {}, "taskRoles": [{
                "name": "a", "taskNumber": 1,
                "frameworkAttemptCompletionPolicy": {"minFailedTaskCount": 1,
                                                     "minSucceededTaskCount": -1},
                "task": {"retryPolicy": {}, "pod": {"spec": {"containers": [
                    {"name": "app", "image": "x", "command": ["sh", "-c", "x" * size]}]}}}}], **spec}}


def secret(name="refused", **more):
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, **more}


QUOTA = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"},
         "spec": {"hard": {"count/configmaps": "0"}}}
CONFIGMAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "refused"}}


def cases(cluster):
    """name, method, path, body, token."""
    with open(cluster.user_token, encoding="utf-8") as f:
        user = f.read().strip()
    bad_role = framework()
    bad_role["spec"]["taskRoles"][0]["taskNumber"] = "x"
    return [
        ("403-framework", "POST", FRAMEWORKS, framework(), user),
        ("403-secret", "POST", PATHS["Secret"], secret(), user),
        ("403-secret-get", "GET", "/api/v1/namespaces/pai-user-v2/secrets/616c696365", None, user),
        ("403-priorityclass", "POST", PATHS["PriorityClass"], {
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": "refused"}, "value": 1}, user),
        ("403-quota", "POST", PATHS["ConfigMap"], CONFIGMAP, None),
        ("401", "POST", FRAMEWORKS, framework(), "nobody-knows-this"),
        ("413-framework", "POST", FRAMEWORKS, framework(size=3200000), None),
        ("500-etcd", "POST", FRAMEWORKS, framework(size=1700000), None),
        ("500-grpc", "POST", FRAMEWORKS, framework(size=2500000), None),
        ("422-framework", "POST", FRAMEWORKS, bad_role, None),
        ("422-annotations", "POST", FRAMEWORKS, {
            **framework(), "metadata": {"name": "refused", "annotations": {"a": MARKER * 40000}}}, None),
        ("422-secret-size", "POST", PATHS["Secret"],
         secret(stringData={"a": "x" * 1100000}), None),
        ("422-secret-key", "POST", PATHS["Secret"], secret(stringData={"a key": MARKER}), None),
        ("400-secret", "POST", PATHS["Secret"], secret(data={"a": f"not base64: {MARKER}"}), None),
        ("404-namespace", "POST", NOWHERE, secret(), None),
        ("404-namespace-framework", "POST", FRAMEWORKS.replace("default", "nowhere"), framework(),
         None),
        ("404-crd", "POST", FRAMEWORKS.replace("/v1/", "/v2/"), framework(), None),
        ("409", "POST", PATHS["Secret"], secret("there"), None),
    ]


def raw(cluster, method, path, body, token):
    """(status, text): the body as it is, which need not be JSON."""
    import http.client
    import ssl
    from urllib.parse import urlsplit
    address = urlsplit(cluster.url)
    connection = http.client.HTTPSConnection(
        address.hostname, address.port, timeout=60,
        context=ssl.create_default_context(cafile=cluster.ca))
    connection.request(method, path, json.dumps(body) if body else None, {
        "Authorization": f"Bearer {token or cluster.token}", "Content-Type": "application/json"})
    reply = connection.getresponse()
    text = reply.read().decode()
    connection.close()
    return reply.status, text


def main():
    end_in_order()
    cluster = Cluster(tools())
    try:
        quotas = "/api/v1/namespaces/default/resourcequotas"
        cluster.api("POST", quotas, QUOTA)
        # The status that the quota controller, which does not run here, would write.
        cluster.api("PATCH", quotas + "/none/status", {
            "status": {"hard": QUOTA["spec"]["hard"], "used": {"count/configmaps": "0"}}},
                    "application/merge-patch+json")
        cluster.api("POST", PATHS["Secret"], secret("there"))
        os.makedirs(OUT, exist_ok=True)
        for name, method, path, body, token in cases(cluster):
            status, text = raw(cluster, method, path, body, token)
            print(f"{name}: {status} {text[:300]}")
            if not name.startswith(str(status)):
                sys.exit(f"{name} was answered {status}")
            with open(os.path.join(OUT, f"{name}.json"), "w", encoding="utf-8") as f:
                f.write(text)
    finally:
        cluster.close()


if __name__ == "__main__":
    main()
