"""A client that npm's openapi-typescript generates from /openapi.json, in the versions of the lock file: it
compiles with a program that reads the answer of each operation, and the program reads real ones."""
import json
import os
import shutil
import subprocess
import sys

from answers import document
from harness import ROOT, run
from hived import Hived
from hived import server as hived_server
from machine import Machine
from portal import cluster
from tokens import token

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "generated")
FOLDER = os.path.join(ROOT, "build", "generated")
VOLUME = {"kind": "PersistentVolume", "metadata": {"name": "nfs"}, "spec": {"nfs": {"server": "10.0.0.1", "path": "/nfs"}}}
CLAIM = {"kind": "PersistentVolumeClaim", "metadata": {"name": "nfs", "namespace": "default", "labels": {"share": "true"}},
         "spec": {"volumeName": "nfs"}, "status": {"phase": "Bound"}}


def tool(check, *command):
    """false, and a failed check, if it fails."""
    try:
        done = subprocess.run(command, cwd=FOLDER, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600, check=False)
        text = done.stdout.decode()
    except OSError as error:
        return check.ok(command[0], False, error)
    return check.ok(" ".join(command[:2]), done.returncode == 0, text[-2000:])


def compiled(check):
    shutil.copytree(HERE, FOLDER, dirs_exist_ok=True)
    with open(os.path.join(FOLDER, "openapi.json"), "wb") as f:
        f.write(run("page", "openapi").stdout)
    modules = os.path.join("node_modules", ".bin")
    return tool(check, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund") and \
        tool(check, os.path.join(modules, "openapi-typescript"), "openapi.json", "-o", "api.d.ts") and \
        tool(check, os.path.join(modules, "tsc"), "-p", ".")


def wanted():
    """The operations that answer JSON."""
    whole = document()[0]
    for path, item in whole["paths"].items():
        for method, operation in item.items():
            if any({"application/json", "text/yaml"} & set(a.get("content", ())) for s, a in operation["responses"].items() if s < "300"):
                yield f"{method.upper()} {path}"


def test_generated_client_reads_all_answers(check):
    if not compiled(check):
        return
    hived = Hived()
    with Machine() as machine, cluster("--compat", "openpai", mode="stored") as c, hived_server(hived) as skus:
        c.group("admins", {"admin": True, "storageConfigs": ["nfs"]})
        c.api.put("persistentvolumes", VOLUME)
        c.api.put("persistentvolumeclaims", CLAIM)
        check.ok("ready", c.server.ready())
        where = {"jobs": f"http://127.0.0.1:{machine.port}", "people": f"http://127.0.0.1:{c.server.port}",
                 "skus": f"http://127.0.0.1:{skus.port}", "token": c.store("root", token("root"))}
        done = subprocess.run(["node", "client.js", json.dumps(where)], cwd=FOLDER, capture_output=True, timeout=600, check=False)
    hived.close()
    check.ok("it reads all answers", done.returncode == 0, done.stderr.decode()[-2000:])
    check.equal("operations that it did not call", sorted(set(wanted()) - set(done.stdout.decode().splitlines())), [])


# The test runs in check-long only, since it takes packages from npm.
if os.environ.get("TEST_WHOLE") != "1" and "generated" not in sys.argv[1:]:
    del test_generated_client_reads_all_answers
