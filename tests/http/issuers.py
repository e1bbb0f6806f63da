"""Tokens of other issuers (--issuers) and of `rest-lit token`."""
import json
import os
import shutil
import subprocess
import tempfile
import time

from harness import ROOT, job_v2, run
from signin import Cluster
from tokens import SECRET, b64, bearer, part, write_file


# ---- tokens of others -------------------------------------------------------------------------
def openssl(*arguments, text=None):
    return subprocess.run(["openssl", *arguments], input=text, check=True,
                          capture_output=True).stdout


def raw_of_der(der):
    """SEQUENCE of two INTEGERs, as the 64 bytes of ES256."""
    def integer(at):
        n = der[at + 1]
        value = int.from_bytes(der[at + 2:at + 2 + n], "big")
        return value.to_bytes(32, "big"), at + 2 + n
    r, at = integer(2)
    s, _ = integer(at)
    return r + s


def issued(key, algorithm, payload):
    text = f"{part({'alg': algorithm, 'typ': 'JWT'})}.{part(payload)}"
    sum_ = openssl("dgst", "-sha256", "-sign", key, text=text.encode())
    return f"{text}.{b64(raw_of_der(sum_) if algorithm == 'ES256' else sum_)}"


def test_issuers_of_the_documents_behave_as_described(check):
    """The example of docs/TOKENS.md behaves as described there."""
    with open(os.path.join(ROOT, "docs/TOKENS.md"), encoding="utf-8") as f:
        text = f.read().split("```yaml\n", 1)[1].split("```", 1)[0]
    directory = tempfile.mkdtemp(prefix="rest-lit-issuers.")
    try:
        rsa, ec = os.path.join(directory, "rsa.key"), os.path.join(directory, "ec.key")
        openssl("genrsa", "-out", rsa, "2048")
        openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", ec)
        # A JWKS file may as well hold PEM.
        write_file(directory, "github.jwks.json", openssl("pkey", "-in", rsa, "-pubout"))
        write_file(directory, "staff.pem", openssl("pkey", "-in", ec, "-pubout"))
        file = write_file(directory, "issuers.yaml", text)
        now = int(time.time())
        times = {"iat": now, "exp": now + 300}
        github = {"iss": "https://token.actions.githubusercontent.com",
                  "aud": "rest-lit.example.org", "sub": "repo:example/train:ref:refs/heads/main",
                  "repository": "example/train", "ref": "refs/heads/main", **times}
        staff = {"iss": "https://login.example.org/realms/staff", "aud": ["rest-lit", "x"],
                 "preferred_username": "alice", **times}
        with Cluster("--issuers", file, logins=False, mode="signature") as c:
            def asks(text):
                return c.server.request("GET", "/api/v2/tokens/check", headers=bearer(text))
            for what, text, user in (("GitHub", issued(rsa, "RS256", github), "ci-bot"),
                                     ("staff", issued(ec, "ES256", staff), "alice")):
                said = asks(text)
                check.equal(what, (said.status, said.json.get("username"),
                                   said.json.get("application")), (200, user, True))
                check.equal(f"{what}: a job", c.server.submit(job_v2(f"by-{user}"),
                                                              bearer(text)).status, 202)
                check.equal(f"{what}: no tokens", c.server.request(
                    "GET", "/api/v2/tokens", headers=bearer(text)).status, 403)
            for what, text in (
                    ("a pull request", issued(rsa, "RS256", {**github, "ref": "refs/pull/1"})),
                    ("a fork", issued(rsa, "RS256", {**github, "repository": "evil/train"})),
                    ("another audience", issued(rsa, "RS256", {**github, "aud": "other"})),
                    ("another key", issued(ec, "ES256", github)),
                    ("expired", issued(ec, "ES256", {**staff, "exp": now - 61})),
                    ("not listed", issued(ec, "ES256", {**staff, "preferred_username": "eve"}))):
                check.equal(what, asks(text).status, 401)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


# ---- rest-lit token -----------------------------------------------------------------------------
def command(*arguments):
    done = run(*arguments)
    done.stdout, done.stderr = done.stdout.decode(), done.stderr.decode()
    return done


def test_token_command_makes_valid_tokens(check):
    with Cluster(logins=False, mode="signature") as c:
        file = write_file(c.directory, "secret-2", SECRET + b"\n")
        for arguments, application in (((), False), (("--application",), True)):
            done = command("token", "--user", "alice", "--jwt-secret-file", file, *arguments)
            check.equal("exit status", done.returncode, 0)
            check.ok("nothing else", done.stdout.endswith("\n") and len(done.stdout.split()) == 1 and
                     not done.stderr, done)
            said = c.server.request("GET", "/api/v2/tokens/check",
                                    headers=bearer(done.stdout.strip()))
            check.equal("it is good", (said.status, said.json["application"]), (200, application))
            check.equal("it expires", "exp" in said.json, not application)
        done = command("token", "--user", "alice", "--jwt-secret-file", file, "--token-lifetime", "60")
        said = c.server.request("GET", "/api/v2/tokens/check", headers=bearer(done.stdout.strip()))
        check.equal("after so long", said.json["exp"] - said.json["iat"], 60)


def test_issuers_schema_locates_mistakes(check):
    done = command("schema", "issuers")
    check.equal("a schema", json.loads(done.stdout).get("type"), "object")
    directory = tempfile.mkdtemp(prefix="rest-lit-issuers.")
    try:
        file = write_file(directory, "issuers", "issuers:\n- issuer: a\n  audience: [b]\n")
        done = command("serve", "--issuers", file, "--token-check", "signature", "--apiserver",
                       "http://127.0.0.1:1", "--listen", "127.0.0.1:0")
        check.ok("a mistake has its place", done.returncode == 2 and
                 f"{file}:3:3: " in done.stderr and "audiences" in done.stderr, done)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def test_token_command_refuses_wrong_arguments(check):
    directory = tempfile.mkdtemp(prefix="rest-lit-token.")
    try:
        good = write_file(directory, "good", SECRET)
        short = write_file(directory, "short", b"too-short")
        for what, arguments, words in (
                ("no secret", ("--user", "alice"), "--jwt-secret-file"),
                ("no user", ("--jwt-secret-file", good), "--user"),
                ("odd user", ("--user", "..", "--jwt-secret-file", good), "--user"),
                ("no file", ("--user", "alice", "--jwt-secret-file", directory + "/no"), "No such"),
                ("short", ("--user", "alice", "--jwt-secret-file", short), "too short"),
                ("a file", ("--user", "alice", "--jwt-secret-file", good, "x"), "takes no file")):
            done = command("token", *arguments)
            check.ok(what, done.returncode == 2 and not done.stdout and words in done.stderr, done)
            check.ok(f"{what}: no secret is shown", "too-short" not in done.stderr)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
