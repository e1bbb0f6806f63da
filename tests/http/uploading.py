"""Uploads of pods at the end of a task, written from the contract, without pai-runtime."""
import http.client
import json
import struct

from harness import PATIENCE, SLOW

ROUTE = "/api/v2/task-output"
OUT, ERR = 1, 2


def frames(*parts):
    """(stream, bytes), ..."""
    return b"".join(struct.pack(">BxxxI", stream, len(data)) + data for stream, data in parts)


HELLO = frames((OUT, b"Hello\n"), (ERR, b"a warning\n"), (OUT, b"bye\n"))


def upload(port, text, body=HELLO, code=0, dropped=0, context=None, **headers):
    """(status, code of the error, headers)."""
    kind = http.client.HTTPSConnection if context else http.client.HTTPConnection
    c = kind("localhost" if context else "127.0.0.1", port, timeout=PATIENCE * SLOW,
             **({"context": context} if context else {}))
    c.request("PUT", f"{ROUTE}?exitCode={code}&dropped={dropped}", body,
              {"Authorization": f"Bearer {text}", "Content-Type": "application/octet-stream", **headers})
    r = c.getresponse()
    data = r.read()
    c.close()
    return r.status, (json.loads(data)["code"] if data else ""), {k.lower(): v for k, v in r.getheaders()}
