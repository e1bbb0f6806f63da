"""The barrier that waits for all tasks: with a fake API server and all its faults, and with a real
one with RBAC and service account tokens."""
import base64
import gzip
import json
import os
import signal
import ssl
import subprocess
import sys
import threading
import time
import warnings
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(os.path.dirname(HERE), "e2e")]

from checks import PATIENCE, SLOW, TOP, Root, check, chosen, equal, eventually, finish, tests
from cluster import FRAMEWORKS, Cluster
from fakekube import HANG, FakeKube, Pki, reply, status
from pods import ACCOUNT, service_account_token, read_ca

TOKEN = "Marker.of-a-token.31415926535"
UID = "7ea08df5-4277-4b37-9996-f9b2ffdcc60f"  # of worker 0 in the states below
PATH = "/apis/frameworkcontroller.microsoft.com/v1/namespaces/jobs/frameworks/aframework"
said = []  # the output of all processes, which must not contain a token


def framework(state):
    with open(f"{TOP}/tests/data/runtime/frameworks/{state}.json", encoding="utf-8") as f:
        return json.load(f)


READY, PENDING = framework("06-AttemptRunning"), framework("03-AttemptPreparing-no-pods")
FINE, NOT_YET = reply(200, READY), reply(200, PENDING)
NO_FRAMEWORK = status(404, "frameworks \"aframework\" not found", name="aframework")


def times(interval=60, timeout=600000, first=20, request=60000, fetch=60000):
    """--barrier-ms, long enough for slow machines."""
    return ",".join(str(min(3600000, int(ms * min(SLOW, 3)))) for ms in (interval, timeout, first, request, fetch))


class Pod(Root):
    def __init__(self, port, ca, gang=True, token=TOKEN, **env):
        super().__init__(KUBERNETES_SERVICE_HOST="127.0.0.1", KUBERNETES_SERVICE_PORT=str(port),
                         FC_FRAMEWORK_NAMESPACE="jobs", FC_FRAMEWORK_NAME="aframework",
                         FC_TASKROLE_NAME="worker", FC_TASK_INDEX="0", FC_POD_UID=UID,
                         GANG_ALLOCATION="true" if gang else "false")
        for name, value in env.items():
            self.env.pop(name, None)
            if value is not None:
                self.env[name] = value
        if token:
            self.write(ACCOUNT + "/token", token)
        if ca:
            self.write(ACCOUNT + "/ca.crt", ca)

    ARGUMENTS = ("--steps", "logs,framework")

    def wait(self, waiting=None):
        """Runs the step; (exit code, output)."""
        more = ("--barrier-ms", waiting) if waiting else ()
        result = self.run("init", *self.ARGUMENTS, *more)
        text = (result.stdout + result.stderr + (self.read(self.logs("barrier.log")) or b"") +
                (self.read(self.logs("init.log")) or b"")).decode("utf-8", "replace")
        said.append(text)
        return result.returncode, text

    def begin(self, waiting):
        return self.start("init", *self.ARGUMENTS, "--barrier-ms", waiting)

    def framework(self):
        text = self.read("/usr/local/pai/framework.json")
        return None if text is None else json.loads(text)


def end_of(process):
    """Exit code and output of a started process."""
    out, err = process.communicate(timeout=PATIENCE)
    said.append((out + err).decode("utf-8", "replace"))
    return process.returncode, said[-1]


class Case:
    """A fake API server and a pod."""

    def __init__(self, pki, answer, context="good", waiting=None, **env):
        self.fake = FakeKube(answer if callable(answer) else lambda _: answer, pki[context])
        self.pod = Pod(self.fake.port, pki["authority"], **env)
        self.waiting = waiting or times()

    def run(self):
        """(exit code, output, requests)"""
        with self.fake, self.pod:
            code, text = self.pod.wait(self.waiting)
            self.framework, log = self.pod.framework(), self.pod.read(self.pod.logs("barrier.log"))
            self.log = (log or b"").decode()
        return code, text, self.fake.requests


def sequence(*answers):
    """Responses in turn; the last one is repeated."""
    left = list(answers)
    return lambda request: left.pop(0) if len(left) > 1 else left[0]


def together(function, pki, rows):
    """Runs the cases that last until the time limit concurrently, with these arguments each."""
    errors = []

    def one(row):
        try:
            function(pki, *row)
        except Exception:
            errors.append(traceback.format_exc()[-900:])
    threads = [threading.Thread(target=one, args=(row,)) for row in rows]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    equal(f"{function.__name__}: all came to their end", errors, [])


def contains(name, text, *parts):
    for part in parts:
        check(f"{name}: says {part!r}", part in text, text)


# ---- success ---------------------------------------------------------------------------------
def test_addresses_of_all_tasks_end_the_barrier(pki):
    case = Case(pki, FINE)
    code, text, requests = case.run()
    equal("all there: 0", code, 0)
    equal("all there: framework.json is the object", case.framework, READY)
    equal("all there: one request", [r.target for r in requests], [PATH + "?resourceVersion=0"])
    equal("all there: with the token", requests[0].headers.get("authorization"), "Bearer " + TOKEN)
    contains("all there", case.log, "all 4 tasks have an address", f"127.0.0.1:{case.fake.port}",
             "jobs/aframework")


def test_addresses_are_polled_until_all_exist(pki):
    case = Case(pki, sequence(reply(200, framework("00-posted")), NOT_YET, NOT_YET, NOT_YET,
                              reply(200, framework("04-AttemptPreparing-addresses"))))
    code, text, requests = case.run()
    equal("not at first: 0", code, 0)
    equal("not at first: polls", [r.query for r in requests], ["resourceVersion=0"] * 5)
    contains("not at first", text, "0 of 4 tasks have an address, waiting for ps:0, ps:1, worker:0, worker:1")
    equal("not at first: what stays is said once", case.log.count("0 of 4 tasks"), 1)


def test_addresses_that_are_missing_are_named(pki):
    some = framework("06-AttemptRunning")
    tasks = some["status"]["attemptStatus"]["taskRoleStatuses"][1]["taskStatuses"]
    tasks[1]["attemptStatus"]["podIP"] = ""
    deleted = framework("06-AttemptRunning")
    tasks = deleted["status"]["attemptStatus"]["taskRoleStatuses"][0]["taskStatuses"]
    tasks[0]["deletionPending"] = True
    case = Case(pki, sequence(reply(200, some), reply(200, deleted), FINE))
    code, text, _ = case.run()
    equal("some: 0", code, 0)
    contains("some", text, "3 of 4 tasks have an address, waiting for worker:1",
             "3 of 4 tasks have an address, waiting for ps:0")


def test_addresses_in_a_compressed_status_are_read(pki):
    value = framework("23-compressed-1600-tasks")
    attempt = value["status"]["attemptStatus"]
    roles = json.loads(gzip.decompress(base64.b64decode(attempt["taskRoleStatusesCompressed"])))
    for task in (t for r in roles for t in r["taskStatuses"]):
        task["attemptStatus"].update(podIP="10.0.0.1", podHostIP="10.0.0.1")
    roles[1]["taskStatuses"][0]["attemptStatus"]["podUID"] = UID
    attempt["taskRoleStatusesCompressed"] = base64.b64encode(
        gzip.compress(json.dumps(roles).encode())).decode()
    case = Case(pki, reply(200, value))
    code, text, _ = case.run()
    equal("compressed: 0", code, 0)
    equal("compressed: framework.json is not",
          case.framework["status"]["attemptStatus"]["taskRoleStatuses"], roles)
    contains("compressed", text, "all 1600 tasks")


def test_addresses_from_a_stale_cache_are_verified(pki):
    """Responses from the API server's cache are verified by another request if necessary."""
    stale = framework("06-AttemptRunning")
    for role in stale["status"]["attemptStatus"]["taskRoleStatuses"]:
        for task in role["taskStatuses"]:
            task["attemptStatus"]["podUID"] = "of-an-attempt-before"

    def answer(request):
        if len(case.fake.requests) > 6:
            return FINE
        return reply(200, stale) if request.query else NOT_YET
    case = Case(pki, answer)
    code, text, requests = case.run()
    equal("addresses of old: 0 in the end", code, 0)
    equal("addresses of old: asked again", [bool(r.query) for r in requests], [True, False] * 3 + [True])
    equal("addresses of old: not taken", case.framework, READY)

    case = Case(pki, lambda r: NO_FRAMEWORK if r.query else FINE)
    code, text, requests = case.run()
    equal("404 of old: 0", (code, len(requests)), (0, 2))


def test_first_poll_is_sent_at_once(pki):
    """The default intervals, which are short at the beginning."""
    for _ in range(5):  # the machine may stand still
        case = Case(pki, sequence(NOT_YET, FINE))
        case.waiting = None
        begun = time.monotonic()
        code, _, requests = case.run()
        equal("default times: 0", code, 0)
        first, second = requests[0].at - begun, requests[1].at - requests[0].at
        check("default times: the second poll is not at once", second > 0.7, second)
        if first < 8 * SLOW and second < 8 * SLOW:
            break
    check("default times: the first one at once, the second one soon", first < 8 * SLOW and second < 8 * SLOW,
          (first, second))


def test_plain_http_works_without_an_account(pki):
    """The configuration of OpenPAI: an address without a service account."""
    with FakeKube(lambda _: FINE) as fake:
        with Pod(1, None, token=None, KUBERNETES_SERVICE_HOST=None,
                 KUBE_APISERVER_ADDRESS=f"http://127.0.0.1:{fake.port}") as pod:
            code, text = pod.wait(times())
        equal("plain http: 0", code, 0)
        check("plain http: no token", "authorization" not in fake.requests[0].headers)
    with FakeKube(lambda _: FINE, pki["local"]) as fake:
        with Pod(1, pki["authority"], token=None,
                 KUBE_APISERVER_ADDRESS=f"https://localhost:{fake.port}") as pod:
            equal("https without an account: 0", pod.wait(times())[0], 0)
        with Pod(1, None, token=None,
                 KUBE_APISERVER_ADDRESS=f"https://localhost:{fake.port}") as pod:
            code, text = pod.wait(times())
        equal("https without an authority: 252", code, 252)
        contains("https without an authority", text, "ca.crt")


def test_image_variables_cannot_redirect_requests(pki):
    """Variables of an image cannot redirect requests."""
    with FakeKube(lambda _: FINE) as evil:
        url = f"http://127.0.0.1:{evil.port}"
        env = {name: url for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "HTTP_PROXY",
                                      "KUBE_APISERVER_ADDRESS")}
        case = Case(pki, FINE, **env, KUBECONFIG="/evil", HOME="/evil", SSL_CERT_FILE="/evil",
                    NO_PROXY="", KUBERNETES_MASTER=url)
        code, _, requests = case.run()
        equal("environment of an image: 0", (code, len(requests)), (0, 1))
        equal("environment of an image: no requests to other servers", evil.requests, [])


# ---- refused --------------------------------------------------------------------------------
def test_missing_framework_is_252(pki):
    case = Case(pki, NO_FRAMEWORK, waiting=times())
    code, text, requests = case.run()
    equal("no Framework: 252", code, 252)
    equal("no Framework: asked once more, exactly", [r.query for r in requests], ["resourceVersion=0", ""])
    contains("no Framework", text, "404 Not Found", "aframework")
    equal("no Framework: no file", case.framework, None)
    code, _, requests = Case(pki, sequence(NOT_YET, NOT_YET, NO_FRAMEWORK),
                             waiting=times()).run()
    equal("deleted while it waits: 252", (code, len(requests)), (252, 4))


def test_refused_requests_are_252(pki):
    for what, answer, parts in (
            ("401", status(401, "Unauthorized"), ("does not take the token", "check-api")),
            ("403", status(403, "forbidden: User x cannot get"),
             ("User x cannot get", "lacks the right (RBAC) to `get` frameworks.frameworkcontroller."
              "microsoft.com in namespace jobs")),
            ("404 of all", reply(404, b"404 page not found\n"), ("is their CustomResourceDefinition",))):
        case = Case(pki, answer, waiting=times())
        code, text, requests = case.run()
        equal(f"{what}: 252 after three times", (code, len(requests)), (252, 3))
        contains(what, text, *parts)
        contains(what, case.log, parts[0])
    contains("the refusing server", text, f"https://127.0.0.1:{case.fake.port} (kubernetes.default.svc)")
    code, _, requests = Case(pki, sequence(status(401), status(403), NOT_YET, status(401), status(401),
                                           reply(500), status(403), FINE),
                                 waiting=times()).run()
    equal("not three times running: goes on", (code, len(requests)), (0, 8))


def test_invalid_settings_are_named(pki):
    for what, env, part in (
            ("interval too short", {"BARRIER_CHECK_INTERVAL_SEC": "4"}, "from 5 to 1200"),
            ("timeout too short", {"BARRIER_CHECK_TIMEOUT_SEC": "59"}, "from 60 to 1200"),
            ("no name", {"FC_FRAMEWORK_NAME": None}, "FC_FRAMEWORK_NAME"),
            ("no namespace", {"FC_FRAMEWORK_NAMESPACE": None}, "FC_FRAMEWORK_NAMESPACE"),
            ("a path for a name", {"FC_FRAMEWORK_NAME": "../x"}, "is no name of a Framework"),
            ("no address", {"KUBERNETES_SERVICE_HOST": None}, "KUBERNETES_SERVICE_HOST is not set"),
            ("no authority", {"ca": None}, "no authority")):
        with FakeKube(lambda _: FINE, pki["good"]) as fake:
            with Pod(fake.port, **{"ca": pki["authority"], **env}) as pod:
                code, text = pod.wait()
            equal(f"{what}: 252 and no request", (code, fake.requests), (252, []))
            contains(what, text, part)


# ---- faults -----------------------------------------------------------------------------------
def test_temporary_faults_are_250_at_the_time_limit(pki):
    """Exit code 250 at the time limit.  Replies of all kinds: test_http.py and tests/unit/runtime-assets/net."""
    together(trouble, pki, (
            ("500", status(500, "etcdserver: no leader"), "500 Internal Error, etcdserver: no leader"),
            ("503", reply(503, b"upstream"), "503 Unavailable"),
            ("hangs", HANG, "no answer in time"),
            ("cut at once", b"", "the reply is empty"),
            ("garbage", reply(200, b"\x00\xff{{{"), "no Framework that could be read"),
            ("a list", reply(200, []), "no Framework that could be read"),
            ("another kind", reply(200, {"kind": "Status"}), "no Framework that could be read"),
            ("no tasks", reply(200, {"kind": "Framework", "spec": {"taskRoles": []}}), "has no tasks"),
            ("redirect", reply(302, b"", f"Location: https://127.0.0.1:1{PATH}"), "302")))


def trouble(pki, what, answer, part):
    # Only a hanging request ends before the time limit, so that no other fault hides it.
    case = Case(pki, answer, waiting=times(interval=2000, timeout=6000, request=1000 if what == "hangs" else 6000))
    code, text, requests = case.run()
    equal(f"{what}: 250", code, 250)
    check(f"{what}: more than once", what == "hangs" or len(requests) > 1, len(requests))
    contains(what, text, "the API server could not be asked", part)
    equal(f"{what}: no file", case.framework, None)


def test_temporary_faults_that_end_are_survived(pki):
    code, _, requests = Case(pki, sequence(reply(500), b"", reply(200, b"{"), status(429), FINE)).run()
    equal("trouble that ends: 0", (code, len(requests)), (0, 5))
    code, text, requests = Case(pki, sequence(reply(429, b"", "Retry-After: 1"), FINE),
                                waiting=times()).run()
    equal("429: 0", code, 0)
    check("429: Retry-After is kept to", requests[1].at - requests[0].at >= 1,
          requests[1].at - requests[0].at)


def test_missing_addresses_are_251_at_the_time_limit(pki):
    together(lambda _, end: end(pki), pki, [[end] for end in (not_all, none_of_many, trouble_at_last, trouble_at_first)])


LONG = times(interval=2000, timeout=6000)


def not_all(pki):
    case = Case(pki, NOT_YET, waiting=LONG)
    code, text, _ = case.run()
    equal("not all: 251", code, 251)
    contains("not all", text, "only 0 of 4 tasks have an address, missing are ps:0, ps:1, worker:0, worker:1")
    contains("not all: barrier.log", case.log, "missing are ps:0")


def none_of_many(pki):
    many = framework("23-compressed-1600-tasks")
    many["status"] = None
    code, text, _ = Case(pki, reply(200, many), waiting=LONG).run()
    equal("none of 1600: 251", code, 251)
    contains("none of 1600", text, "worker:17 and 1580 more")


# The last poll, which is at the time limit, decides.
def trouble_at_last(pki):
    code, _, _ = Case(pki, sequence(NOT_YET, NOT_YET, reply(500)), waiting=LONG).run()
    equal("trouble at last: 250", code, 250)


def trouble_at_first(pki):
    code, _, _ = Case(pki, sequence(reply(500), reply(500), NOT_YET), waiting=LONG).run()
    equal("trouble at first: 251", code, 251)


def test_invalid_certificates_send_no_request(pki):
    def bad(_, context, part):
        code, text, requests = Case(pki, FINE, context, waiting=LONG).run()
        equal(f"certificate {context}: 250, and no request", (code, requests), (250, []))
        contains(f"certificate {context}", text, part)
    together(bad, pki, (("expired", "expired"), ("nameless", "kubernetes.default.svc"),
                        ("stranger", "not signed by an authority")))
    for version in ("tls12", "tls13"):
        code, _, requests = Case(pki, FINE, version).run()
        equal(f"{version} only: 0", (code, len(requests) > 0), (0, True))
    code, text, requests = Case(pki, FINE, "tls11", waiting=times()).run()
    equal("TLS 1.1 only: 252, and no request", (code, requests), (252, []))
    contains("TLS 1.1 only", text, "does not speak TLS 1.2 or 1.3", "--tls-min-version and")
    check("TLS 1.1 only: at once", "trying again" not in text, text)
    code, _, _ = Case(pki, FINE, "nameless", KUBE_APISERVER_ADDRESS="https://another.name:6443").run()
    equal("certificate with the name of KUBE_APISERVER_ADDRESS: 0", code, 0)


# ---- tokens -----------------------------------------------------------------------------------
def test_replaced_token_is_read_again(pki):
    fresh = TOKEN + "-fresh"
    refused = threading.Event()

    def answer(request):
        if request.headers["authorization"] == "Bearer " + fresh:
            return FINE
        refused.set()
        return status(401)
    with FakeKube(answer, pki["good"]) as fake:
        with Pod(fake.port, pki["authority"]) as pod:
            process = pod.begin(times(interval=3000, first=3000))
            refused.wait(PATIENCE)
            pod.write(ACCOUNT + "/token", fresh + "\n")
            equal("a token that rotates: 0", end_of(process)[0], 0)
    for what, token in (("with a line end in it", TOKEN + "\r\nImpersonate-User: admin"),
                        ("with a blank", TOKEN + " x"), ("that is empty", "\n"),
                        ("too long", TOKEN * 1000)):
        with FakeKube(lambda _: FINE, pki["good"]) as fake:
            with Pod(fake.port, pki["authority"], token=token) as pod:
                code, text = pod.wait(times())
            equal(f"a token {what}: 252 and nothing sent", (code, fake.requests), (252, []))
            contains(f"a token {what}", text, "serviceaccount/token")
    for code in (401, 502):  # main() searches the output for the token
        shown = f"<h1>Bad Request</h1>Authorization: Bearer {TOKEN}".encode()
        _, text, _ = Case(pki, reply(code, shown), waiting=LONG).run()
        contains(f"a gateway that shows the token: {code}", text, "with the token in it: not shown")


# ---- being stopped -------------------------------------------------------------------------------
def test_sigterm_stops_the_barrier(pki):
    for what, answer in (("while it waits", NOT_YET), ("while it hangs", HANG)):
        asked = threading.Event()

        def heard(_, answer=answer, asked=asked):
            asked.set()
            return answer
        with FakeKube(heard, pki["good"]) as fake:
            with Pod(fake.port, pki["authority"]) as pod:
                process = pod.begin(times(interval=60000, first=60000))
                asked.wait(PATIENCE)
                if answer is NOT_YET:
                    check(f"SIGTERM {what}: it does", wait_for_log(pod, "0 of 4 tasks"))
                process.send_signal(signal.SIGTERM)
                code, text = end_of(process)
        equal(f"SIGTERM {what}: 143, at once", code, 143)
        contains(f"SIGTERM {what}", text, "stopped")


# ---- without gang allocation ------------------------------------------------------------------------
def test_without_gang_only_the_own_address_counts(pki):
    def run(answer, **more):
        case = Case(pki, answer, gang=False, **more)
        return *case.run(), case

    others = framework("06-AttemptRunning")
    others["status"]["attemptStatus"]["taskRoleStatuses"][0]["taskStatuses"] = []
    code, _, requests, case = run(reply(200, others))
    equal("no gang: does not wait for others", (code, len(requests)), (0, 1))
    equal("no gang: framework.json", case.framework, others)
    code, _, requests, _ = run(sequence(NOT_YET, NOT_YET, FINE), waiting=times())
    equal("no gang: waits for its own address", (code, len(requests)), (0, 3))
    node_only = json.loads(json.dumps(others))
    del node_only["spec"]["taskRoles"][1]["task"]["pod"]["spec"]["hostNetwork"]
    node_only["status"]["attemptStatus"]["taskRoleStatuses"][1]["taskStatuses"][0]["attemptStatus"]["podIP"] = None
    code, _, requests, _ = run(sequence(reply(200, node_only), FINE))
    equal("no gang: the address of its node is not its own", (code, len(requests)), (0, 2))
    code, text, _, case = run(NOT_YET, waiting=times(fetch=5000))
    equal("no gang: goes on without its own address", (code, case.framework), (0, PENDING))
    contains("no gang", text, "does not show an address of this task")
    code, _, _, case = run(sequence(NOT_YET, reply(500)), waiting=times(fetch=3000))
    check("no gang: goes on with what it has", code in (0, 250), code)
    equal("no gang: 404 is 252", run(NO_FRAMEWORK)[0], 252)
    equal("no gang: 403 is 252", run(status(403))[0], 252)
    equal("no gang: trouble is 250", run(reply(500), waiting=times(fetch=2000))[0], 250)
    code, _, requests, _ = run(sequence(reply(500), b"", FINE))
    equal("no gang: trouble that ends", (code, len(requests)), (0, 3))


# ---- the real one -----------------------------------------------------------------------------------
class Real:
    """The API server, and a Framework that is moved from state to state."""

    def __init__(self, cluster):
        self.cluster, self.ca = cluster, read_ca(cluster)
        self.port = int(cluster.url.rsplit(":", 1)[1])
        self.token = service_account_token(cluster)

    def pod(self, name, token=None, **env):
        return Pod(self.port, self.ca, token=token or self.token,
                   **{"FC_FRAMEWORK_NAMESPACE": "default", "FC_FRAMEWORK_NAME": name, **env})

    def create(self, name, state):
        value = framework(state)
        value["metadata"] = {"name": name, "annotations": value["metadata"].get("annotations", {})}
        return self.cluster.api("POST", FRAMEWORKS, value)[0]

    def move(self, name, state):
        return self.cluster.api("PATCH", f"{FRAMEWORKS}/{name}", {"status": framework(state)["status"]},
                                "application/merge-patch+json")[0]

    def sign(self, seconds, account="runtime-account"):
        """A token like those of the TokenRequest API, by the cluster's own key."""
        uid = self.cluster.api("GET", f"/api/v1/namespaces/default/serviceaccounts/{account}")[1][
            "metadata"]["uid"]
        now = int(time.time())

        def part(value):
            raw = value if isinstance(value, bytes) else json.dumps(value).encode()
            return base64.urlsafe_b64encode(raw).rstrip(b"=")
        key = os.path.join(self.cluster.directory, "pki", "sa.key")
        kid = json.loads(base64.urlsafe_b64decode(self.token.split(".")[0] + "=="))["kid"]
        claims = {"iss": "https://kubernetes.default.svc", "aud": ["https://kubernetes.default.svc"],
                  "iat": now - 3600, "nbf": now - 3600, "exp": now + seconds,
                  "sub": f"system:serviceaccount:default:{account}",
                  "kubernetes.io": {"namespace": "default",
                                    "serviceaccount": {"name": account, "uid": uid}}}
        text = part({"alg": "ES256", "kid": kid}) + b"." + part(claims)
        der = subprocess.run(["openssl", "dgst", "-sha256", "-sign", key], input=text, check=True,
                             capture_output=True).stdout
        r_size = der[3]
        r, s = der[4:4 + r_size], der[4 + r_size + 2:]
        raw = b"".join(n.lstrip(b"\0").rjust(32, b"\0") for n in (r, s))
        return (text + b"." + part(raw)).decode()


def wait_for_log(pod, part):
    return eventually(lambda: part in (pod.read(pod.logs("barrier.log")) or b"").decode())


def test_real_framework_is_awaited(real):
    equal("real: a Framework", real.create("moving", "00-posted"), 201)
    with real.pod("moving") as pod:
        process = pod.begin(times(interval=300))
        check("real: waits", wait_for_log(pod, "0 of 4 tasks have an address"))
        for state in ("01-AttemptCreationPending", "03-AttemptPreparing-no-pods"):
            equal(f"real: moved to {state}", real.move("moving", state), 200)
        equal("real: still waits", process.poll(), None)
        real.move("moving", "06-AttemptRunning")
        code, text = end_of(process)
        equal("real: 0", code, 0)
        contains("real", text, "all 4 tasks have an address")
        equal("real: framework.json", pod.framework(), real.cluster.get("Framework", "moving"))
    with real.pod("nosuch") as pod:
        code, text = pod.wait(times())
        equal("real: no such Framework: 252", code, 252)
        contains("real: no such Framework", text, '"nosuch" not found')
    real.create("leaving", "03-AttemptPreparing-no-pods")
    with real.pod("leaving") as pod:
        process = pod.begin(times(interval=300))
        check("real: waits for one that will be deleted", wait_for_log(pod, "0 of 4 tasks"))
        real.cluster.delete("Framework", "leaving")
        equal("real: deleted while it waits: 252", end_of(process)[0], 252)


def test_real_tokens_that_are_refused_are_explained(real):
    waiting = times(interval=200)
    nobody = service_account_token(real.cluster, "nobody")
    gone = service_account_token(real.cluster, "fired")
    real.cluster.api("DELETE", "/api/v1/namespaces/default/serviceaccounts/fired")
    for what, token, parts in (
            ("without rights", nobody, ("service account default/nobody lacks the right (RBAC) to `get` "
                                        "frameworks", "in namespace default", "expires in ")),
            ("unknown token", "abc.def.ghi", ("401 Unauthorized", "does not take the token")),
            ("of an account that is gone", gone, ("401 Unauthorized", "default/fired")),
            ("that has expired", real.sign(-60), ("401 Unauthorized", "EXPIRED "))):
        with real.pod("moving", token) as pod:
            code, text = pod.wait(waiting)
            equal(f"real: a token {what}: 252", code, 252)
            contains(f"real: a token {what}", text, f"https://127.0.0.1:{real.port}", ACCOUNT, "file written ", *parts)
            check(f"real: a token {what}: is not shown", token not in text)
    real.create("rotating", "03-AttemptPreparing-no-pods")
    with real.pod("rotating", real.sign(30)) as pod:
        process = pod.begin(times(interval=2000, first=500))
        check("real: a token that will rotate", wait_for_log(pod, "0 of 4 tasks"))
        pod.write(ACCOUNT + "/token", "not.any.more")
        check("real: the new one is read", wait_for_log(pod, "401"))
        pod.write(ACCOUNT + "/token", real.token)
        real.move("rotating", "06-AttemptRunning")
        equal("real: a token that rotates: 0", end_of(process)[0], 0)


def test_real_api_server_may_restart(real):
    real.create("patient", "03-AttemptPreparing-no-pods")
    with real.pod("patient") as pod:
        process = pod.begin(times(interval=300, request=3000))
        check("real: waits before the API server dies", wait_for_log(pod, "0 of 4 tasks"))
        real.cluster.kill()
        check("real: says that it is gone", wait_for_log(pod, "cannot connect"))
        real.cluster.start_again()
        real.move("patient", "06-AttemptRunning")
        code, text = end_of(process)
        equal("real: an API server that comes again: 0", code, 0)


def test_real_check_api_explains_each_fault(real):
    def run(pod):
        result = pod.run("check-api")
        text = (result.stdout + result.stderr).decode()
        said.append(text)
        check("check-api: 80 columns", max(len(line) for line in text.replace(pod.path, "").split("\n")) < 80,
              text)
        return result.returncode, without_columns(text)

    real.create("checked", "06-AttemptRunning")
    with real.pod("checked") as pod:
        code, text = run(pod)
        equal("check-api: 0", code, 0)
        contains("check-api", text, f"https://127.0.0.1:{real.port} by KUBERNETES_SERVICE_HOST",
                 "must be for kubernetes.default.svc", ACCOUNT + "/ca.crt", "service account default/runtime-account, expires in ",
                 "Kubernetes v", "default/checked: 4 of 4 tasks have an address")
    with real.pod("moving", FC_FRAMEWORK_NAME=None, FC_FRAMEWORK_NAMESPACE=None) as pod:
        code, text = run(pod)
        equal("check-api elsewhere: 0", code, 0)
        contains("check-api elsewhere", text, "may be read in namespace default")
    with real.pod("gone") as pod:
        code, text = run(pod)
        equal("check-api without a Framework: 1", code, 1)
        contains("check-api without a Framework", text, "MISSING Frameworks default/gone is not there")
    with real.pod("moving", service_account_token(real.cluster, "nobody")) as pod:
        code, text = run(pod)
        equal("check-api without rights: 1", code, 1)
        contains("check-api without rights", text, "403 Forbidden",
                 "kubectl -n default create role runtime-account --verb=get",
                 "--resource=frameworks.frameworkcontroller.microsoft.com",
                 "--role=runtime-account --serviceaccount=default:nobody")
    with real.pod("moving", real.sign(-7300)) as pod:
        code, text = run(pod)
        equal("check-api with an expired token: 1", code, 1)
        contains("check-api with an expired token", text, "EXPIRED 2 h ago", "401 Unauthorized It does not",
                 "kubectl -n default get serviceaccount runtime-account", "Frameworks not asked")
    with real.pod("moving", TOKEN + "\nx") as pod:
        code, text = run(pod)
        equal("check-api with a token that is none: 1", code, 1)
        contains("check-api with a token that is none", text, "MISSING token", "API server not asked")
    with real.pod("moving", None, KUBERNETES_SERVICE_HOST=None) as pod:
        os.unlink(pod.at(ACCOUNT + "/token"))
        code, text = run(pod)
        equal("check-api without anything: 1", code, 1)
        contains("check-api without anything", text, "there is no way to the API server")
    with real.pod("moving", KUBERNETES_SERVICE_HOST=None) as pod:
        code, text = run(pod)
        equal("check-api without an address: 1", code, 1)
        contains("check-api without an address", text, "KUBERNETES_SERVICE_HOST is not set")
    with real.pod("moving", KUBERNETES_SERVICE_PORT="1") as pod:
        code, text = run(pod)
        equal("check-api without a server: 1", code, 1)
        contains("check-api without a server", text, "127.0.0.1:1", "Frameworks not asked")


def without_columns(text):
    return " ".join(text.split())


def make_pki():
    ours, other = Pki(), Pki()
    pki = {"authority": ours.authority(), "good": ours.context("good"),
           "expired": ours.context("expired", days=0),
           "nameless": ours.context("nameless", "DNS:another.name,IP:127.0.0.1"),
           "local": ours.context("local", "DNS:localhost"),
           "stranger": other.context("stranger")}
    warnings.simplefilter("ignore", DeprecationWarning)  # the test needs TLS 1.1
    for name, version in (("tls11", ssl.TLSVersion.TLSv1_1), ("tls12", ssl.TLSVersion.TLSv1_2),
                          ("tls13", ssl.TLSVersion.TLSv1_3)):
        pki[name] = ours.context(name)
        pki[name].set_ciphers("ALL:@SECLEVEL=0")
        pki[name].minimum_version = pki[name].maximum_version = version
    return pki, (ours, other)


def with_cluster():
    tools = subprocess.run([f"{TOP}/tests/tools/kit"], check=True, stdout=subprocess.PIPE).stdout
    cluster = Cluster(tools.decode().strip())
    try:
        cluster.apply("jobs/runtime-account.yaml")
        for account in ("nobody", "fired"):
            cluster.api("POST", "/api/v1/namespaces/default/serviceaccounts",
                        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account}})
        real = Real(cluster)
        tests(test_real_framework_is_awaited, test_real_tokens_that_are_refused_are_explained,
              test_real_check_api_explains_each_fault, test_real_api_server_may_restart,
              args=(real,))
    finally:
        cluster.close()


def main():
    pki, directories = make_pki()
    try:
        for name, test in list(globals().items()):
            if name.startswith("test_") and not name.startswith("test_real_"):
                tests(test, args=(pki,))
        if any(chosen(name) for name in globals() if name.startswith("test_real_")):
            with_cluster()
    finally:
        for directory in directories:
            directory.remove()
    check("no token in anything that was said", not any(TOKEN in text for text in said))
    finish()


main()
