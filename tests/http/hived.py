"""HiveD: reloads of its configuration file on SIGHUP; polls of its web service, with all faults;
and responses to clients."""
import itertools
import json
import os
import signal
import time

from certificates import make_authority
from fakehived import BEHAVIOURS, CONFIG, PATH, Hived, cells
from harness import SLOW, Server, database_rows, in_threads, job_v1, job_v2, run, wait_until

INTERVAL = "1" if SLOW == 1 else "2"  # an answer must come within
NAMES = (f"h{n}" for n in itertools.count())
KNOWN = "HiveD's web service reports the virtual clusters"
LOST = "HiveD's web service cannot be used"
KEPT, READ = "SIGHUP: HiveD's configuration stays as it was", "SIGHUP: HiveD's configuration was read again"
SKUS = {"DT": {"cpu": 5, "gpu": 1, "memory": 56334}, "K80": {"cpu": 4, "gpu": 1, "memory": 8192}}


def server(hived, *more, asks=True, **named):
    """A server with HiveD that polls its web service often."""
    asking = ("--hived-webservice", hived.url, "--hived-interval", INTERVAL) if asks else ()
    return Server("--engine=none", "--local", "jobs", "--hived-config", hived.config, *asking, *more, **named)


def job(n, vc=None, sku=None):
    """A job for n cells."""
    value = json.loads(job_v2(next(NAMES)))
    value["taskRoles"]["worker"]["instances"] = n
    value["taskRoles"]["worker"]["resourcePerInstance"] = {"cpu": 1, "memoryMB": 512, "gpu": 1}
    if vc:
        value["defaults"] = {"virtualCluster": vc}
    if sku:
        value["extras"] = {"hivedScheduler": {"taskRoles": {"worker": {"skuType": sku}}}}
    return json.dumps(value)


def said(server, text):
    """Log events whose message has this prefix."""
    return [line for line in server.log().splitlines() if f'"msg":"{text}' in line]


def quota(server, n, vc="default"):
    """Checks that exactly this number of cells is available."""
    over = server.submit(job(n + 1, vc))
    return server.submit(job(n, vc)).status == 202 and over.status == 400 and \
        f"exceeds maximum {n} SKUs in VC {vc}" in over.message


def get(server, path):
    return server.request("GET", path)


# ---- the file ---------------------------------------------------------------------------------
def stored(server):
    """The created Frameworks as text."""
    return [text for text, in database_rows(os.path.join(server.directory, "jobs"), "SELECT body FROM object WHERE kind = 0")]


def test_hived_file_limits_jobs_to_its_cells(check):
    with Hived() as hived, server(hived, asks=False) as s:
        check.ok("as many cells as the file says", quota(s, 8))
        check.ok("its scheduler", "hivedscheduler-ds-default" in "".join(stored(s)), stored(s))
        check.ok("another virtual cluster", quota(s, 2, "research"))
        check.refused("a SKU type that there is not", s.submit(job(1, sku="V100")), 400,
                "InvalidProtocolError", "V100", "DT, K80")
        check.refused("one of another virtual cluster", s.submit(job(1, sku="K80")), 400,
                "InvalidProtocolError", "K80", "it has DT")
        check.refused("a virtual cluster that HiveD does not have", s.submit(job(1, "x")), 403,
                "ForbiddenUserError", "`x`")
        v1 = job_v1(next(NAMES), taskRoles=[{"name": "main", "taskNumber": 9, "command": "true", "gpuNumber": 1,
                                             "cpuNumber": 1, "memoryMB": 100}],
                    extras={"gangAllocation": True})
        check.refused("a v1 job", s.submit(v1, path="/api/v1/jobs"), 400, "InvalidParametersError", "maximum 8")
        check.equal("nothing is asked", hived.connections, 0)
        check.equal("nor said of it", said(s, LOST) + said(s, KNOWN), [])
        with_other = Server("--engine=none", "--local", "jobs", "--hived-config", hived.config, "--hived-scheduler", "other")
        with with_other as o:
            check.equal("another name", o.submit(job(1)).status, 202)
            check.ok("of the scheduler", "other-ds-default" in "".join(stored(o)), stored(o))


def test_hived_routes_list_skus_and_virtual_clusters(check):
    """Requests of clients before a submission."""
    skus = "/api/v2/cluster/sku-types"
    with Hived() as hived, server(hived, asks=False) as s:
        check.equal("all SKU types", get(s, skus).json, SKUS)
        check.equal("of all virtual clusters", get(s, skus + "?vc=").json, SKUS)
        check.equal("of a virtual cluster", get(s, skus + "?x=1&vc=default").json, {"DT": SKUS["DT"]})
        check.equal("the same, encoded", get(s, "/rest-server" + skus + "?vc=%72esearch").json, {"K80": SKUS["K80"]})
        check.refused("of an unknown virtual cluster", get(s, skus + "?vc=x"), 404, "NoVirtualClusterError")
        clusters = get(s, "/api/v2/virtual-clusters").json
        check.equal("virtual clusters", list(clusters), ["default", "research"])
        check.equal("one", get(s, "/api/v2/virtual-clusters/research").json, clusters["research"])
        check.equal("what they have", [clusters[name]["resourcesTotal"]["GPUs"] for name in clusters], [8, 2])
        check.equal("none", get(s, "/api/v2/virtual-clusters/x").status, 404)
        check.equal("a user's", get(s, "/api/v2/users/alice").json["virtualCluster"], ["default", "research"])
        facts = hived.write("facts.yaml", "virtualClusters: [default]\n")
        with server(hived, "--facts", facts, asks=False) as f:
            check.equal("those that --facts lists", list(get(f, "/api/v2/virtual-clusters").json), ["default"])
            check.refused("SKU types of others", get(f, skus + "?vc=research"), 404, "NoVirtualClusterError")
            check.refused("jobs for others", f.submit(job(1, "research")), 403, "ForbiddenUserError")
            check.ok("jobs for these", quota(f, 8))


def test_hived_reload_is_complete_or_without_effect(check):
    """A reload takes effect completely or not at all."""
    with Hived() as hived, server(hived, asks=False) as s:
        def read_again(event):
            before = len(said(s, event))
            s.process.send_signal(signal.SIGHUP)
            check.ok("is said", wait_until(lambda: len(said(s, event)) > before), s.log())
            return said(s, event)[-1]
        for what, text, words in (
                ("no such type", CONFIG.replace("cellType: DT-POOL.DT-NODE", "cellType: NODE"),
                 ("hived.yaml:16:18: ", "`NODE`")),
                ("no YAML", CONFIG + "\t{", ("hived.yaml:20:",)),
                ("half of it", CONFIG[:len(CONFIG) // 2], ("hived.yaml:",)),
                ("nothing", "", ("hived.yaml",))):
            hived.write("hived.yaml", text)
            line = read_again(KEPT)
            check.ok(f"{what}: where, and what", all(w in line for w in words), line)
            check.ok(f"{what}: the old one stays", quota(s, 8))
        os.unlink(hived.config)
        check.ok("no file", hived.config in read_again(KEPT))
        os.mkfifo(hived.config)
        check.ok("no regular file", "not a regular file" in read_again(KEPT))
        os.unlink(hived.config)
        hived.write("hived.yaml", CONFIG.replace("cellNumber: 2", "cellNumber: 3"))
        read_again(READ)
        check.ok("the new one", quota(s, 12))


def test_hived_reloads_do_not_disturb_submissions(check):
    """Submissions during continuous reloads of the configuration."""
    with Hived() as hived, server(hived, "--loops", "2") as s:
        check.ok("known", wait_until(lambda: said(s, KNOWN)), s.log())
        asked = len(hived.requests)

        def load(i):
            if i == 0:
                for _ in range(50):
                    s.process.send_signal(signal.SIGHUP)
                    time.sleep(0.02)
                return {200}
            paths = ("/api/v2/cluster/sku-types?vc=default", "/api/v2/virtual-clusters/research")
            return {get(s, path).status for _ in range(30) for path in paths} | \
                {s.submit(job(3), path="/api/v2/jobs?dryRun=true").status for _ in range(30)}

        check.equal("answers", set().union(*in_threads(5, load)), {200})
        check.ok("the web service was asked meanwhile", wait_until(lambda: len(hived.requests) > asked))
        check.ok("and counts", quota(s, 3))


def test_hived_mistakes_prevent_the_start(check):
    base = ("serve", "--listen", "127.0.0.1:0", "--no-auth", "--user", "alice", "--engine", "none")
    with Hived() as hived:
        bad = hived.write("bad.yaml", CONFIG.replace("DT, childCellNumber: 4", "DT-POOL, childCellNumber: 4"))
        facts = hived.write("facts.yaml", "users: 1\n")
        for arguments, words in (
                (("--hived-config", bad), ("bad.yaml:6:", "DT-")),
                (("--hived-config", hived.file("none")), ("none",)),
                (("--hived-config", hived.config, "--hived-webservice", "http://localhost/?x=1"), ("--hived-webservice", "HOST"))):
            done = run(*base, *arguments)
            check.ok(f"{' '.join(arguments)} is refused",
                     done.returncode != 0 and all(w.encode() in done.stderr for w in words), done.stderr)
        check.equal("as any wrong file", run(*base, "--hived-config", bad).returncode,
                    run(*base, "--facts", facts).returncode)
        done, other = (run("translate", option, file, "-", text=job(1).encode())
                       for option, file in (("--hived-config", bad), ("--facts", facts)))
        check.ok("translate says so, too", done.returncode == other.returncode and b"bad.yaml:6:" in done.stderr, done)


# ---- the web service -----------------------------------------------------------------------------
def test_hived_status_limits_jobs_to_current_cells(check):
    """The current capacity of virtual clusters limits jobs."""
    with Hived() as hived, server(hived, user="alice") as s:
        check.ok("it is asked", wait_until(lambda: said(s, KNOWN)), s.log())
        check.ok("fewer cells than the file says", quota(s, 3))
        check.equal("SKU types", list(get(s, "/api/v2/cluster/sku-types?vc=default").json), ["DT"])
        hived.status = {"default": [cells("DT", 5), cells("DT", 2, -1), cells("K80", 1)], "new": [cells("K80", 1)]}
        check.ok("more, of which two are borrowed", wait_until(lambda: quota(s, 6)))
        check.equal("of two types", list(get(s, "/api/v2/cluster/sku-types?vc=default").json), ["DT", "K80"])
        check.ok("virtual cluster that is not in the file", quota(s, 1, "new"))
        check.ok("one of the file alone", quota(s, 2, "research"))
        seen = hived.requests
        check.equal("the route", {path for path, _ in seen}, {PATH})
        check.equal("what it is told", {h for _, headers in seen for h in headers}, {"Host", "User-Agent", "Accept"})
        check.equal("one connection", hived.connections, 1)
        check.equal("said once", (len(said(s, KNOWN)), len(said(s, LOST))), (1, 0))
    slash = Hived()
    with slash:
        slash.url += "/"
        with server(slash) as s:
            check.ok("an address with a slash", wait_until(lambda: said(s, KNOWN)), s.log())
            check.equal("the same route", {path for path, _ in slash.requests}, {PATH})


WRONG = {"fail": "it answers 500", "redirect": "it answers 307", "garbage": "", "list": "must be a mapping",
         "cut": "", "huge": "more than 65536 bytes", "endless": "more than 65536 bytes",
         "hang": "takes too long", "drip": "takes too long"}


def test_hived_faults_fall_back_to_the_file(check):
    """During each fault, only the file counts; afterwards the web service counts again."""
    check.equal("all of them", {"well", "fail_once", *WRONG}, set(BEHAVIOURS))
    services = {mode: Hived() for mode in WRONG}
    servers = {mode: server(h, "--loops", "1", "--hived-max-answer", "64KiB") for mode, h in services.items()}
    try:
        for mode, s in servers.items():
            check.ok(f"{mode}: known", wait_until(lambda s=s: said(s, KNOWN)), s.log())
            services[mode].mode = mode
        for mode, s in servers.items():
            check.ok(f"{mode}: lost", wait_until(lambda s=s: said(s, LOST)), s.log())
            check.ok(f"{mode}: why", WRONG[mode] in said(s, LOST)[0], said(s, LOST))
            check.ok(f"{mode}: the file counts", quota(s, 8))
            check.ok(f"{mode}: clients notice nothing", get(s, "/healthz").status == 200)
        for mode, s in servers.items():
            asked = len(services[mode].requests)
            check.ok(f"{mode}: is asked on", wait_until(lambda m=mode, n=asked: len(services[m].requests) > n, 180))  # pauses grow to 60 s
            check.equal(f"{mode}: is said once", len(said(s, LOST)), 1)
            services[mode].mode = "well"
        for mode, s in servers.items():
            check.ok(f"{mode}: known again", wait_until(lambda s=s: len(said(s, KNOWN)) == 2, 180), s.log())
            check.ok(f"{mode}: and counts", quota(s, 3))
            check.equal(f"{mode}: no other route", {path for path, _ in services[mode].requests}, {PATH})
    finally:
        for closing in (*services.values(),):
            closing.ended.set()
        for s in servers.values():
            s.remove()
        for h in services.values():
            h.close()


def test_hived_file_counts_without_a_web_service(check):
    with Hived() as gone:
        config = gone.config
        gone.server.shutdown()
        gone.server.server_close()
        with server(gone) as s:
            check.ok("refused connections are logged", wait_until(lambda: said(s, LOST)), s.log())
            check.ok("the file counts", config and quota(s, 8))


def test_hived_hang_does_not_delay_the_shutdown(check):
    """A hanging web service does not delay requests or the shutdown."""
    with Hived(mode="hang") as hived:
        s = Server("--engine=none", "--local", "jobs", "--hived-config", hived.config, "--hived-webservice", hived.url,
                   "--hived-interval", "3600")
        with s:
            check.ok("it is asked", wait_until(lambda: hived.requests))
            check.ok("jobs go on", quota(s, 8))
            check.equal("the server stops", s.stop(), 0)
            check.ok("before the answer is given up", not said(s, LOST), s.log())


def test_hived_single_failure_keeps_the_last_status(check):
    """A missing response does not discard the last status."""
    with Hived() as hived, server(hived) as s:
        check.ok("known", wait_until(lambda: said(s, KNOWN)), s.log())
        asked = len(hived.requests)
        hived.mode = "fail_once"
        check.ok("one fails, the next do not", wait_until(lambda: len(hived.requests) > asked + 3))
        check.equal("nothing is said", (len(said(s, KNOWN)), len(said(s, LOST))), (1, 0))
        check.ok("it counts", quota(s, 3))


def test_hived_https_verifies_the_authority(check):
    with Hived(tls=True) as hived:
        make_authority(hived.folder, "another")
        with server(hived, "--hived-webservice-ca", hived.file("ca.crt")) as s:
            check.ok("its authority", wait_until(lambda: said(s, KNOWN)), s.log())
        asked = len(hived.requests)
        for what, more, environment in (("another authority", ("--hived-webservice-ca", hived.file("another.crt")), {}),
                                        ("the machine's", (), {"SSL_CERT_FILE": hived.file("ca.crt")})):
            with server(hived, *more, environment=environment) as s:
                check.ok(what, wait_until(lambda s=s: said(s, LOST)), s.log())
        check.equal("are asked nothing", len(hived.requests), asked)


def test_hived_ignores_proxies_of_the_environment(check):
    with Hived() as hived, Hived() as proxy:
        names = ("http_proxy", "https_proxy", "ALL_PROXY", "all_proxy")
        with server(hived, environment={name: f"http://127.0.0.1:{proxy.port}" for name in names}) as s:
            check.ok("the service is asked", wait_until(lambda: said(s, KNOWN)), s.log())
            check.equal("not the proxy of the environment", proxy.connections, 0)
