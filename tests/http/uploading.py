"""Uploads of pods at the end of a task, written from the contract, without pai-runtime."""
import gzip
import http.client
import json
import struct
import time

from harness import PATIENCE, SLOW
from tokens import sign

ROUTE = "/api/v2/task-output"
OUT, ERR = 1, 2


def frames(*parts):
    """(stream, bytes), ..."""
    return gzip.compress(b"".join(struct.pack(">BxxxI", stream, len(data)) + data for stream, data in parts), mtime=0)


HELLO = frames((OUT, b"Hello\n"), (ERR, b"a warning\n"), (OUT, b"bye\n"))


ACCOUNT = "system:serviceaccount:default:runtime-account"
AUDIENCE = "rest-lit-output"


def pod_token(pod, uid, account=ACCOUNT, audience=AUDIENCE, lifetime=3600, **more):
    """A token like those that the API server creates for pods; the fake API server does not verify
    its signature."""
    now = int(time.time())
    place = {"namespace": account.split(":")[2] if account.count(":") == 3 else "default"}
    if pod:
        place["pod"] = {"name": pod, "uid": uid}
    return sign({"alg": "RS256", "kid": "x"}, {
        "aud": [audience], "exp": now + lifetime, "iat": now, "iss": "https://kubernetes.default.svc.cluster.local",
        "sub": account, "kubernetes.io": place, **more})


def upload(port, text, body=HELLO, code=0, dropped=0, context=None, source="127.0.0.1", **headers):
    """(status, code of the error, headers)."""
    kind = http.client.HTTPSConnection if context else http.client.HTTPConnection
    c = kind("localhost" if context else "127.0.0.1", port, timeout=PATIENCE * SLOW,
             **({"context": context} if context else {"source_address": (source, 0)}))
    try:
        c.request("PUT", f"{ROUTE}?exitCode={code}&dropped={dropped}", body,
                  {"Authorization": f"Bearer {text}", "Content-Type": "application/octet-stream", **headers})
    except ConnectionError:
        if not c.sock:
            raise
    r = c.getresponse()  # a refusal may come before the body is sent
    data = r.read()
    c.close()
    return r.status, (json.loads(data)["code"] if data else ""), {k.lower(): v for k, v in r.getheaders()}
