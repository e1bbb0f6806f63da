"""rest-lit login and logout: with a password, and by the device flow of a stand-in issuer that says all it may."""
import contextlib
import http.server
import json
import os
import stat
import tempfile
import threading
import time
import urllib.parse

from cli import cli
from harness import Server
from issuers import issued, openssl
from signin import PASSWORD, Cluster
from tokens import SECRET, write_file


class Issuer(http.server.ThreadingHTTPServer):
    """An issuer: its answers to polls are told before (`says`); then it gives tokens that last so long."""
    daemon_threads = True

    def __init__(self, key, audience="rest-lit", lifetime=3600):
        super().__init__(("127.0.0.1", 0), IssuerHandler)
        self.key, self.audience, self.lifetime = key, audience, lifetime
        self.says, self.seen, self.refresh, self.cuts = [], [], 0, 0
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()

    def tokens(self):
        now = int(time.time())
        self.refresh += 1
        return {"access_token": "opaque", "token_type": "Bearer", "expires_in": self.lifetime, "refresh_token": f"Marker-refresh-{self.refresh}",
                "id_token": issued(self.key, "RS256", {"iss": self.url, "aud": self.audience, "sub": "4711", "iat": now, "exp": now + self.lifetime + 3600})}


class IssuerHandler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def answer(self, value, status=200):
        text = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self):
        s = self.server
        self.answer({"issuer": s.url, "device_authorization_endpoint": f"{s.url}/device?a=b", "token_endpoint": f"{s.url}/token"}
                    if self.path == "/.well-known/openid-configuration" else {}, 200)

    def do_POST(self):
        s = self.server
        form = dict(urllib.parse.parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
        s.seen.append((time.monotonic(), form))
        if self.path.startswith("/device"):
            self.answer({"device_code": "Marker-device+/=", "user_code": "WDJB-MJHT", "verification_uri": f"{s.url}/enter", "expires_in": 600, "interval": 1})
            return
        if form["grant_type"] == "refresh_token":
            if form["refresh_token"] == f"Marker-refresh-{s.refresh}" and "refuse" not in s.says:
                self.answer(s.tokens())
            else:
                self.answer({"error": "invalid_grant"}, 400)
            return
        says = s.says.pop(0) if s.says else "tokens"
        if says == "cut":
            s.cuts += 1
            self.connection.close()
        elif says == "tokens":
            self.answer(s.tokens())
        else:
            self.answer({"error": says, "error_description": "as the test says"}, 400)


@contextlib.contextmanager
def logins(**more):
    """An issuer, a server that trusts it, and a home for the command."""
    directory = tempfile.mkdtemp(prefix="rest-lit-test.")
    key = os.path.join(directory, "key")
    openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", key)
    openssl("pkey", "-in", key, "-pubout", "-out", f"{key}.pem")
    with Issuer(key, **more) as issuer:
        entry = {"issuer": issuer.url, "audiences": ["rest-lit"], "algorithm": "RS256", "keys": f"{key}.pem", "clientId": "rest-lit cli", "users": {"4711": "alice"}}
        file = write_file(directory, "issuers", json.dumps({"issuers": [entry]}))
        with Server("--engine=none", "--local", "jobs", who=["--issuers", file, "--jwt-secret-file", write_file(directory, "secret", SECRET)]) as s:
            home = os.path.join(directory, "home")
            os.mkdir(home)
            yield issuer, s, {"environment": {"HOME": home, "XDG_CONFIG_HOME": ""}}, home


def run(s, env, *words, **more):
    return cli(words[0], "--server", f"http://127.0.0.1:{s.port}", *words[1:], **env, **more)


def test_login_by_the_device_flow(check):
    """Pending, slow_down and an outage in between; then commands use it; the file is private; nothing is logged."""
    with logins() as (issuer, s, env, home):
        code, _, err = run(s, env, "jobs")
        check.ok("before", code == 2 and "rest-lit login --server http://127.0.0.1:" in err, err)
        issuer.says = ["authorization_pending", "slow_down", "cut", "authorization_pending"]
        code, _, err = run(s, env, "login")
        check.ok("login", code == 0 and f"Open {issuer.url}/enter in a browser" in err and "WDJB-MJHT" in err and "logged in at" in err and "as alice" in err, (code, err))
        polls = [(t, f) for t, f in issuer.seen if f.get("grant_type", "").endswith("device_code")]
        check.ok("slow_down is obeyed", polls[2][0] - polls[1][0] > 5 and issuer.cuts == 1, [t for t, _ in polls])
        check.equal("what it sends", (polls[0][1]["device_code"], polls[0][1]["client_id"]), ("Marker-device+/=", "rest-lit cli"))
        check.equal("jobs", run(s, env, "jobs")[0], 0)
        file = os.path.join(home, ".config", "rest-lit", "tokens")
        check.equal("modes", [oct(stat.S_IMODE(os.stat(p).st_mode)) for p in (file, os.path.dirname(file))], ["0o600", "0o700"])
        with open(file, encoding="ascii") as f:
            text = f.read()
        secrets = [json.loads(text)[f"http://127.0.0.1:{s.port}"]["token"], "Marker-"]
        check.ok("no log has it", not any(x in s.settled_log() or x in err for x in secrets))
        os.chmod(file, 0o644)
        code, _, err = run(s, env, "jobs")
        check.ok("readable by others", code == 2 and "chmod 600" in err, err)
        os.chmod(file, 0o600)
        code, _, err = run(s, env, "logout")
        check.ok("logout", code == 0 and "lasts until it expires" in err, (code, err))
        check.equal("afterwards", (run(s, env, "jobs")[0], run(s, env, "logout")[0]), (2, 2))
        with open(file, encoding="ascii") as f:
            check.ok("forgotten", "Marker" not in f.read())


def test_login_that_is_refused(check):
    """Each reason has its sentence, and nothing is kept."""
    with logins() as (issuer, s, env, home):
        for says, words in (("access_denied", "denied in the browser"), ("expired_token", "the code has expired"), ("unauthorized_client", "the issuer refuses the login: unauthorized_client: as the test says (400)")):
            issuer.says = ["authorization_pending", says]
            code, _, err = run(s, env, "login")
            check.ok(says, code == 2 and words in err, (code, err))
        issuer.says = ["cut"] * 9
        code, _, err = run(s, env, "login")
        check.ok("no answer", code == 3 and f"{issuer.url}/token: " in err, (code, err))
        issuer.says, issuer.audience = [], "another"
        code, _, err = run(s, env, "login")
        check.ok("another audience", code == 2 and "your token is not valid here" in err, (code, err))
        check.equal("it is not kept", run(s, env, "logout")[0], 2)
        file = os.path.join(home, ".config", "rest-lit", "tokens")
        for text in ("", "{", "[]", "x"):
            write_file(os.path.dirname(file), "tokens", text)
            code, _, err = run(s, env, "jobs")
            check.ok(f"damaged: {text!r}", code == 2 and "is damaged: remove it, and log in again" in err, err)
    with Server("--engine=none", "--local", "jobs") as s:
        code, _, err = run(s, {"environment": {"HOME": "/nowhere", "XDG_CONFIG_HOME": ""}}, "login")
        check.ok("none", code == 2 and "neither passwords nor an issuer" in err, err)
        check.equal("no home", run(s, {"environment": {"HOME": "/nowhere", "XDG_CONFIG_HOME": ""}}, "jobs")[0], 0)


def test_login_is_renewed_once(check):
    """Before it expires, by one of several commands; a refusal names login, an outage is bridged while the old one lasts."""
    with logins(lifetime=30) as (issuer, s, env, _):
        check.equal("login", run(s, env, "login")[0], 0)
        before = issuer.refresh
        codes = []
        threads = [threading.Thread(target=lambda: codes.append(run(s, env, "jobs")[0])) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        check.equal("four commands", codes, [0] * 4)
        check.equal("each refresh token once", issuer.refresh - before, 4)  # each lasts 30 s, less than is wanted
        issuer.lifetime = 3600
        check.equal("renewed for an hour", [run(s, env, "jobs")[0] for _ in range(2)], [0, 0])
        check.equal("once", issuer.refresh - before, 5)
    with logins(lifetime=30) as (issuer, s, env, _):
        check.equal("login", run(s, env, "login")[0], 0)
        issuer.says = ["refuse"]
        code, _, err = run(s, env, "jobs")
        check.ok("refused", code == 2 and "cannot be renewed: your login has ended there: log in again, rest-lit login" in err, (code, err))
        issuer.shutdown()
        issuer.server_close()
        check.equal("no answer, but it lasts", run(s, env, "jobs")[0], 0)


def test_login_with_a_password(check):
    """Of an OpenPAI cluster; wrong, then right; from standard input; logout revokes it."""
    with Cluster() as c:
        s, name, password = c.server, "alice", PASSWORD
        home = tempfile.mkdtemp(prefix="rest-lit-test.")
        env = {"environment": {"HOME": home, "XDG_CONFIG_HOME": ""}}
        code, _, err = run(s, env, "login", "--user", name, text="wrong-password\n")
        check.ok("wrong", code == 2 and "(40" in err, (code, err))
        code, _, err = run(s, env, "login", "--user", name, text=f"{password}\n")
        check.ok("right", code == 0 and f"as {name}" in err and password not in err, (code, err))
        check.equal("jobs", run(s, env, "jobs")[0], 0)
        file = os.path.join(home, ".config", "rest-lit", "tokens")
        with open(file, encoding="ascii") as f:
            kept = json.load(f)[f"http://127.0.0.1:{s.port}"]["token"]
        code, _, err = run(s, env, "logout")
        check.ok("logout", code == 0 and "lasts until" not in err, (code, err))
        reply = s.request("GET", "/api/v2/jobs", headers={"Authorization": f"Bearer {kept}"})
        check.equal("revoked", reply.status, 401)
        check.ok("no password in the log", password not in s.settled_log())
