"""init, step image: requests for an image to a local TLS registry."""
import json
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "http"))

from checks import SLOW, Root, check, equal, finish, tests
from fakeregistry import PASSWORD, TOKEN, USER, Registry

CAS = "/etc/ssl/certs/ca-certificates.crt"


def job(uri, auth=None):
    image = {"name": "image", "type": "dockerimage", "uri": uri}
    if auth is not None:
        image["auth"] = auth
    return {"protocolVersion": 2, "name": "job", "type": "job", "prerequisites": [image],
            "taskRoles": {"worker": {"dockerImage": "image", "commands": ["true"]}}}


def framework(config, **pod):
    return {"apiVersion": "frameworkcontroller.microsoft.com/v1", "kind": "Framework",
            "metadata": {"name": "f", "namespace": "default",
                         "annotations": {"config": json.dumps(config)}},
            "spec": {"taskRoles": [{"name": "worker", "taskNumber": 1,
                                    "task": {"pod": {"spec": pod}}}]}}


def init(config, cas=None, secrets=None, pod=None, **env):
    """The finished process and its time."""
    with Root(PAI_CURRENT_TASK_ROLE_NAME="worker", FC_TASKROLE_NAME="worker", FC_TASK_INDEX="0",
              **env) as root:
        root.write("/framework.json", json.dumps(framework(config, **(pod or {}))))
        root.write("/dev/termination-log", "")
        if cas:
            with open(cas) as f:
                root.write(CAS, f.read())
        if secrets:
            root.write("/usr/local/pai/secrets/secrets.yaml", json.dumps(secrets))
        begun = time.monotonic()
        done = root.run("init", "--steps", "config,image", "--framework", root.at("/framework.json"))
        done.seconds = time.monotonic() - begun
        done.cause = root.read("/dev/termination-log").decode()
        done.text = done.stderr.decode()
        for secret in (PASSWORD, TOKEN, "cm9ib3Q6"):  # robot: in base64
            check("no secret is said", secret not in done.text + done.cause, done.text)
        return done


def ok(name, done, text):
    check(name, done.returncode == 0 and text in done.text, f"{done.returncode} {done.text}")


def fails(name, done, *texts):
    check(name, done.returncode == 254 and all(t in done.text and t in done.cause for t in texts),
          f"{done.returncode} {done.text} / {done.cause}")


def open_registry():
    with Registry() as r:
        app = r.image("team/app:1")
        ok("an image that is there", init(job(app), r.ca), f"image {app} exists")
        equal("takes two requests", r.seen(), ["HEAD /v2/", "HEAD /v2/team/app/manifests/1"])
        ok("a registry by address", init(job(f"127.0.0.1:{r.port}/team/app:1"), r.ca), "exists")
        r.seen()
        gone = r.image("team/app:2")
        fails("a tag that is not there", init(job(gone), r.ca), gone, r.host, "check the name and the tag")
        ok("IMAGE_CHECK=warn goes on", init(job(gone), r.ca, IMAGE_CHECK="warn"), f"warning: image {gone}")
        r.seen()
        ok("IMAGE_CHECK=off does not ask", init(job(gone), r.ca, IMAGE_CHECK="off"), "is not checked")
        equal("at all", r.seen(), [])
        ok("a wrong value warns", init(job(app), r.ca, IMAGE_CHECK="yes"), "must be fail, warn or off")
        fails("and counts as none", init(job(gone), r.ca, IMAGE_CHECK="yes"), gone)
        ok("pull secrets of the pod may know more",
           init(job(gone), r.ca, pod={"imagePullSecrets": [{"name": "team"}]}), "warning: image")
        fails("those made from the job do not",
              init(job(gone), r.ca, pod={"imagePullSecrets": [{"name": "f-regcred"}]}), gone)


def names():
    for uri, text in (("Bad", "is not an image reference"), ("", "is empty"), ("a\nb", "a\\nb")):
        fails(f"a name like {uri!r}", init(job(uri)), text)
    digest = "sha256:" + "a" * 64
    with Registry(images=[f"team/app:{digest}", "team/app:1.0-RC1"]) as r:
        ok("a digest", init(job(r.image(f"team/app:x@{digest}")), r.ca), "exists")
        ok("a tag with capitals", init(job(r.image("team/app:1.0-RC1")), r.ca), "exists")
    ok("no prerequisite", init({"protocolVersion": 2, "taskRoles": {"worker": {}}}), "nothing to check")
    ok("one that is not there",
       init({"protocolVersion": 2, "taskRoles": {"worker": {"dockerImage": "x"}}}), "nothing to check")
    with Registry() as r:
        v1 = {"jobName": "v1", "image": r.image("team/app:2"), "taskRoles": [{"name": "worker"}]}
        fails("a job of the first generation", init(v1, r.ca), "team/app:2")


def logins():
    login = {"username": USER, "password": "<% $secrets.password %>"}
    secrets = {"password": PASSWORD}
    for kind in ("token", "basic"):
        with Registry(login=kind) as r:
            app, gone = r.image("team/app:1"), r.image("team/app:2")
            ok(f"{kind}: login with a secret", init(job(app, login), r.ca, secrets), "exists")
            fails(f"{kind}: no such tag", init(job(gone, login), r.ca, secrets), gone)
            fails(f"{kind}: wrong password", init(job(app, login), r.ca, {"password": "x"}),
                  "refuses the login", "auth.password")
            fails(f"{kind}: no login", init(job(app), r.ca), "requires a login")
            masked = {"username": "******", "password": "******"}
            ok(f"{kind}: a masked login is none, and nothing is sure", init(job(app, masked), r.ca, secrets),
               "cannot be read here")
            ok(f"{kind}: nor without secrets", init(job(app, login), r.ca), "cannot be read here")
            r.seen()
            other = dict(login, registryuri="https://other.example")
            fails(f"{kind}: a login for another registry", init(job(app, other), r.ca, secrets), "requires a login")
            check(f"{kind}: is not sent", not any("Basic" in (a or "") for _, _, a in r.requests), r.requests)
            same = dict(login, registryuri=f"https://LOCALHOST:{r.port}/v1/")
            ok(f"{kind}: a login for this one by address", init(job(app, same), r.ca, secrets), "exists")
    with Registry(login="token", open_to_all=True) as r:
        ok("a token for strangers", init(job(r.image("team/app:1")), r.ca), "exists")
        equal("takes four requests", r.seen(), ["HEAD /v2/", "HEAD /v2/team/app/manifests/1", "GET /token",
                                               "HEAD /v2/team/app/manifests/1"])
        r.realm = r.realm.replace("https", "http")
        ok("a realm without TLS is not asked", init(job(r.image("team/app:1")), r.ca), "no https address")


def troubles():
    with Registry() as r:
        app, manifest = r.image("team/app:1"), "/v2/team/app/manifests/1"
        ok("no authorities", init(job(app)), "no certificate authorities")
        equal("means nothing is asked", r.seen(), [])
        with Registry() as stranger:
            ok("a certificate of somebody else", init(job(app), stranger.ca), "is not known")
        ok("no listener", init(job("localhost:1/a"), r.ca), "is not known")
        r.script[manifest] = [(429, [("Retry-After", "1")]), (503, [])]
        ok("busy twice", init(job(app), r.ca), "exists")
        equal("is asked three times", r.seen().count("HEAD " + manifest), 3)
        r.script["/v2/"] = [(429, [])] * 3
        ok("busy for good", init(job(app), r.ca), "3 times")
        equal("is left alone", r.seen(), ["HEAD /v2/"] * 3)
        r.script["/v2/"] = [(429, [("Retry-After", "3600")])]
        done = init(job(app), r.ca)
        ok("a long time to wait", done, "no time to try again")
        check("is not waited for", done.seconds < 10 * SLOW, done.seconds)
        for status in (400, 403, 418):
            r.script[manifest] = [(status, [])]
            ok(f"{status}", init(job(app), r.ca), f"answers {status}")
        r.script["/v2/"] = [(404, [])]
        ok("no registry", init(job(app), r.ca), "does not answer as a registry does")
        r.script[manifest] = [(307, [("Location", "/v2/moved")])]
        r.script["/v2/moved"] = [(200, [])]
        ok("a redirect", init(job(app), r.ca), "exists")
        r.script[manifest] = [(307, [("Location", "http://localhost/")])]
        ok("a redirect without TLS", init(job(app), r.ca), "not https")
        r.script[manifest] = [(401, [("WWW-Authenticate", "Negotiate")])]
        ok("another way to log in", init(job(app), r.ca), "neither Bearer nor Basic")
        r.hang = True
        done = init(job(app), r.ca)
        ok("a registry that hangs", done, "is not known")
        check("for 10 s", 9 < done.seconds < 60 * SLOW, done.seconds)


def patience():
    """Each of the four responses is in time, but their total exceeds the time limit."""
    with Registry(login="token", open_to_all=True) as r:
        r.slow = 8.5
        ok("a registry that is slow, again and again", init(job(r.image("team/app:1")), r.ca), "is not known")


if __name__ == "__main__":
    tests(open_registry, names, logins, troubles, patience, at_once=True)
    finish()
