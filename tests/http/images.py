"""The server asks registries whether images exist: which hosts, how long, and what becomes of it."""
import json
import os
import time

from fakeregistry import PASSWORD, TOKEN, USER, Registry
from harness import SLOW, Server, job_v1, job_v2, request_bytes, run, wait_until

GONE = "does not exist"


def job(name, *uris, login=None):
    document = json.loads(job_v2(name))
    document["prerequisites"] = [{"name": f"i{n}", "type": "dockerimage", "uri": uri}
                                 for n, uri in enumerate(uris)]
    if login:
        document["secrets"] = {"password": PASSWORD if login is True else login}
        document["prerequisites"][0]["auth"] = {"username": USER, "password": "<% $secrets.password %>"}
    role = document["taskRoles"].pop("worker")
    document["taskRoles"] = {f"role{n}": dict(role, dockerImage=f"i{n}") for n in range(len(uris))}
    return json.dumps(document)


def server(registry, mode, *more, hosts=None, ca=True, budget=None, environment=None):
    arguments = ["--check-images", mode, "--check-images-registries",
                 hosts or f"{registry.host}=private"]
    if ca:
        arguments += ["--check-images-ca", registry.ca]
    if budget:
        arguments += ["--check-images-budget", str(budget)]
    return Server(*arguments, *more, environment=environment)


def warnings(reply):
    return [w["message"] for w in (reply.json or {}).get("warnings", [])]


def taken(check, name, reply, *texts):
    """202, with a warning for each text and no other."""
    said = warnings(reply)
    check.ok(name, reply.status == 202 and len(said) == len(texts) and
             all(t in w for t, w in zip(texts, said)), (reply.status, said or reply.body))


def test_images_found_and_missing(check):
    with Registry() as r, server(r, "refuse", budget=60) as s:
        begun = time.monotonic()
        taken(check, "an image that is there", s.submit(job("a", r.image("team/app:1"))))
        check.ok("does not take the whole budget", time.monotonic() - begun < 60 * SLOW)
        check.equal("is asked for", r.seen(), ["HEAD /v2/", "HEAD /v2/team/app/manifests/1"])
        taken(check, "again", s.submit(job("b", r.image("team/app:1"))))
        check.equal("is remembered", r.seen(), [])
        reply = s.submit(job("c", r.image("team/app:1"), r.image("team/app:2")))
        check.equal("one that is not is refused", (reply.status, reply.code), (400, "InvalidProtocolError"))
        error = (reply.json.get("errors") or [{}])[0]
        check.ok("at its place", error.get("pointer") == "/prerequisites/1/uri" and error.get("line") == 1 and
                 error.get("column", 0) > 1 and GONE in error.get("message", ""), reply.body)
        reply = s.submit(job_v1("d", image=r.image("team/app:3")), path="/api/v1/jobs")
        check.equal("v1", (reply.status, reply.code), (400, "InvalidParametersError"))
        check.equal("v1 place", (reply.json.get("errors") or [{}])[0].get("pointer"), "/image")
        r.seen()
        check.equal("what is wrong otherwise", s.submit(job("e", r.image("team/app:4"), "Bad")).status, 400)
        check.equal("is said without asking", r.seen(), [])
    with Registry() as r, server(r, "warn") as s:
        taken(check, "warn", s.submit(job("a", r.image("team/app:2"))), GONE)
        reply = s.submit(job_v1("b", image=r.image("team/app:2")), path="/api/v1/jobs")
        check.ok("warn, v1", reply.status == 202 and GONE in reply.headers.get("x-warning", ""), reply)
    with Registry() as r, server(r, "off") as s:
        taken(check, "off", s.submit(job("a", r.image("team/app:2"))))
        check.equal("off asks nobody", r.seen(), [])
    with Registry() as r, server(r, "refuse", "--runtime-pull-secret", "pull") as s:
        taken(check, "with a login that is not the job's", s.submit(job("a", r.image("team/app:2"))),
              "login of their own")


def test_images_logins(check):
    for kind in ("token", "basic"):
        with Registry(login=kind) as r, server(r, "refuse") as s:
            app = r.image("team/app:1")
            taken(check, f"{kind}: login", s.submit(job("a", app, login=True)))
            r.seen()
            taken(check, f"{kind}: login again", s.submit(job("b", app, login=True)))
            check.ok(f"{kind}: is not remembered", len(r.seen()) >= 3)
            check.equal(f"{kind}: wrong password", s.submit(job("c", app, login="wrong")).status, 400)
            check.equal(f"{kind}: no login", s.submit(job("d", app)).status, 400)
            check.ok(f"{kind}: no secrets in the log", not any(word in s.settled_log() for word in (PASSWORD, TOKEN)))
    with Registry(login="token", open_to_all=True) as r, server(r, "refuse") as s:
        taken(check, "a token for strangers", s.submit(job("a", r.image("team/app:1"))))
        check.equal("in four requests", r.seen(), ["HEAD /v2/", "HEAD /v2/team/app/manifests/1", "GET /token",
                                                  "HEAD /v2/team/app/manifests/1"])


def test_images_trouble(check):
    with Registry() as r, server(r, "refuse") as s:
        def manifest(tag, *answers):
            r.script[f"/v2/team/app/manifests/{tag}"] = list(answers)
            return job("t" + tag, r.image("team/app:" + tag))
        taken(check, "429 for good", s.submit(manifest("429", *[(429, [])] * 3)), "3 times")
        taken(check, "429 for an hour", s.submit(manifest("430", (429, [("Retry-After", "3600")]))), "no time")
        taken(check, "500 once", s.submit(manifest("1", (500, []))))
        taken(check, "403", s.submit(manifest("403", (403, []))), "answers 403")
        headers = [("X-Padding", "x" * 8000)] * 4
        taken(check, "endless headers", s.submit(manifest("h", (404, headers))), "more than makes sense")
        taken(check, "nobody listens", s.submit(job("nobody", "localhost:1/a")))
    with Registry() as r, Registry() as other, server(r, "refuse") as s:
        r.tls.load_cert_chain(os.path.join(other.folder, "server.crt"), os.path.join(other.folder, "server.key"))
        taken(check, "a certificate of somebody else", s.submit(job("a", r.image("team/app:1"))), "is not known")
        check.equal("gets no request", r.seen(), [])
    with Registry() as r, server(r, "refuse", ca=False) as s:
        taken(check, "nor do the machine's authorities vouch for it", s.submit(job("a", r.image("team/app:2"))),
              "is not known")


def test_images_hosts(check):
    with Registry() as r, Registry(login="token") as other:
        for hosts in ("registry.example", f"localhost:{other.port}=private", "localhost=private"):
            with server(r, "refuse", hosts=hosts) as s:
                taken(check, f"only {hosts}", s.submit(job("a", r.image("team/app:2"))))
                check.equal(f"only {hosts}: no request", r.seen(), [])
        with server(r, "refuse", hosts=r.host) as s:
            taken(check, "a private address", s.submit(job("a", r.image("team/app:2"))), "does not ask")
            check.equal("gets no request", r.seen(), [])
        with server(other, "refuse", hosts=f"{other.host}=private") as s:
            other.realm = r.realm
            taken(check, "a token service that is not listed", s.submit(job("a", other.image("team/app:1"))),
                  "is not in the list")
            check.equal("gets no request either", r.seen(), [])
            other.seen()
            location = [("Location", f"https://{r.host}/v2/team/app/manifests/2")]
            other.script["/v2/team/app/manifests/2"] = [(307, location)]
            taken(check, "nor a redirect", s.submit(job("b", other.image("team/app:2"))), "is not in the list")
            check.equal("gets one", r.seen(), [])
    with Registry() as r, Registry() as proxy:
        url = f"http://127.0.0.1:{proxy.port}"
        s = server(r, "refuse", environment={"https_proxy": url, "ALL_PROXY": url, "SSL_CERT_FILE": proxy.ca})
        with s:
            taken(check, "an environment with proxies", s.submit(job("a", r.image("team/app:1"))))
            check.equal("is ignored", proxy.connections, 0)


def test_images_hang(check):
    budget = 2
    with Registry() as r, server(r, "refuse", "--loops", "1", budget=budget) as s:
        r.hang = True
        jobs = [s.connect() for _ in range(8)]
        begun = time.monotonic()
        for n, c in enumerate(jobs):
            c.send(request_bytes(s.port, "POST", "/api/v2/jobs", job(f"h{n}", r.image(f"x:{n}")).encode()))
        for n, c in enumerate(jobs):
            reply = c.reply()
            taken(check, f"job {n}", reply, "takes too long")
            c.close()
        seconds = time.monotonic() - begun
        check.ok("after the budget", budget - 0.5 < seconds, seconds)
    with Registry() as r, server(r, "refuse", "--loops", "1", "--drain-timeout", "1", budget=60) as s:
        r.hang = True
        jobs = [s.connect() for _ in range(8)]
        for n, c in enumerate(jobs):
            c.send(request_bytes(s.port, "POST", "/api/v2/jobs", job(f"late{n}", r.image(f"x:{n}")).encode()))
        check.ok("the registry hangs", wait_until(lambda: len(r.requests) >= 4))
        for _ in range(5):
            check.ok("/healthz meanwhile", s.request("GET", "/healthz").status == 200)
        check.equal("before any of the jobs", [c.read(0.01)[0] for c in jobs], [b""] * len(jobs))
        check.equal("the server stops all the same", s.stop(), 0)
        check.equal("and says so", [getattr(c.reply(), "status", None) for c in jobs], [503] * len(jobs))
        for c in jobs:
            c.close()


def test_images_crowd(check):
    """More images than are asked for at once."""
    with Registry(images=[f"team/app:{n}" for n in range(40)]) as r, server(r, "refuse", budget=60) as s:
        uris = [r.image(f"team/app:{n}") for n in range(40)]
        taken(check, "forty images", s.submit(job("many", *uris)))
        check.equal("were all asked for", len([p for p in r.seen() if "manifests" in p]), 40)
        crowd = [r.image(f"team/app:{n}") for n in range(140)]
        reply = s.submit(job("crowd", *crowd))
        check.ok("too many are not asked for", reply.status == 202 and "too many images" in warnings(reply)[0],
                 reply)
        check.equal("at all", r.seen(), [])


def test_images_options(check):
    base = ("serve", "--listen", "127.0.0.1:0", "--no-auth", "--user", "alice")
    for arguments, text in (
            (("--check-images", "warn"), "needs --check-images-registries"),
            (("--check-images", "warn", "--check-images-registries", "https://x"), "check-images-registries"),
            (("--check-images", "warn", "--check-images-registries", "x=public"), "x=public"),
            (("--check-images", "warn", "--check-images-registries", "x", "--check-images-ca", "/nowhere"),
             "/nowhere"),
            (("--check-images", "warn", "--check-images-registries", "x", "--check-images-ca", __file__),
             "no certificate"),
            (("--check-images", "yes"), "check-images")):
        done = run(*base, *arguments)
        check.ok(f"{' '.join(arguments)} is refused", done.returncode != 0 and text.encode() in done.stderr, done.stderr)


TESTS = [test_images_found_and_missing, test_images_logins, test_images_trouble, test_images_hosts,
         test_images_hang, test_images_crowd, test_images_options]
