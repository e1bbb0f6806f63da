"""The socket of accounts: users of this machine without tokens, what is refused there, and that floods
of one account are its own.  TEST_WHOLE=1: as many requests as the promise says; else fewer."""
import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from harness import BINARY, PATIENCE, SLOW, wait_until
from machine import Machine, role
from tokens import SECRET, bearer, token

WHOLE = os.environ.get("TEST_WHOLE") == "1"
SERVER = 65533  # without a name; 65534 is what the kernel shows for accounts that it does not know
# Accounts that every Debian has.
GAMES, MAIL, NEWS, APT, NOBODY = 5, 8, 9, 42, 65534
HANG = """#define _GNU_SOURCE
#include <dlfcn.h>
#include <pwd.h>
#include <stdlib.h>
#include <unistd.h>
int getpwuid_r(uid_t uid, struct passwd *p, char *room, size_t n, struct passwd **found)
{
	int (*next)(uid_t, struct passwd *, char *, size_t, struct passwd **) = dlsym(RTLD_NEXT, "getpwuid_r");
	while (access(getenv("NAMES_HANG"), F_OK) == 0)
		usleep(10000);
	return next(uid, p, room, n, found);
}
"""


def run(words, **more):
    return subprocess.run(words, capture_output=True, text=True, timeout=4 * PATIENCE * SLOW, check=False, **more)


def as_account(uid):
    """The begin of a command that runs as this account."""
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=2 * PATIENCE * SLOW)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Accounts(Machine):
    """A server with a socket, as an account of its own."""

    def __init__(self, *arguments, facts=None, **more):
        base = tempfile.mkdtemp(prefix="rest-lit-local.")
        self.base, self.path = base, os.path.join(base, "socket")
        secret, file = os.path.join(base, "secret"), os.path.join(base, "facts")
        for path, text in ((secret, SECRET), (file, json.dumps(facts or {}))):
            with open(path, "wb") as f:
                f.write(text if isinstance(text, bytes) else text.encode())
            os.chmod(path, 0o600)
        for path in (base, secret, file):
            os.chown(path, SERVER, SERVER)
        os.chmod(base, 0o755)
        super().__init__("--socket", self.path, "--facts", file, *arguments, where=os.path.join(base, "jobs"), root=True,
                         program=[*as_account(SERVER), BINARY], who=("--jwt-secret-file", secret), directory=base, **more)

    def ask(self, path, method="GET", body=None, headers=None):
        """A request by the socket, of this process: root."""
        with contextlib.closing(UnixConnection(self.path)) as c:
            c.request(method, path, body, headers or {})
            reply = c.getresponse()
            text = reply.read()
            return reply.status, json.loads(text) if text[:1] in (b"{", b"[") else text

    def cli(self, uid, *words, before=(), **more):
        """A command of this account, without any token."""
        here = os.path.join(self.base, "empty")
        os.makedirs(here, 0o755, exist_ok=True)
        return run([*before, *as_account(uid), BINARY, words[0], "--server", f"unix:{self.path}", *words[1:]], cwd=here, **more)


def possible():
    if os.geteuid() == 0 and shutil.which("setpriv"):
        return True
    print("     not tested: only root can run commands of other accounts", flush=True)
    return False


def test_accounts_submit_without_tokens(check):
    """An account is the user, in jobs, limits and the log; root is an administrator; groups hold."""
    if not possible():
        return
    facts = {"groups": {"all": {"admin": True}}, "users": {"news": {"groups": ["all"]}}}
    with Accounts(facts=facts) as m:
        done = m.cli(GAMES, "submit", "--wait", "--", "echo", "Hello")
        name = done.stdout.split("\n")[0]
        check.ok("submit", done.returncode == 0 and name.startswith("games~"), (done.returncode, done.stdout, done.stderr))
        check.ok("its output", "Hello" in m.cli(GAMES, "logs", name).stdout)
        check.equal("another account may not stop it", m.cli(MAIL, "stop", name).returncode, 2)
        for uid, user, admin in ((GAMES, "games", False), (MAIL, "mail", False), (NEWS, "news", True)):
            with open(os.path.join(m.base, "said"), "w+", encoding="utf-8") as out:
                subprocess.run([*as_account(uid), "curl", "-s", "--unix-socket", m.path, "http://x/api/v2/tokens/check"], stdout=out, check=True)
                out.seek(0)
                said = json.load(out)
            check.equal(user, (said["username"], said["admin"], said["application"]), (user, admin, False))
        check.equal("root", {k: m.ask("/api/v2/tokens/check")[1][k] for k in ("username", "admin")}, {"username": "root", "admin": True})
        check.equal("the tokens of an account", m.ask("/api/v2/tokens")[1]["tokens"], [])
        check.ok("the log tells the account", m.logged(f'"peer":"uid {GAMES}"'), m.log()[-500:])
        status, made = m.ask("/api/v2/tokens/application", "POST", "{}", {"Content-Type": "application/json"})
        check.equal("an application token of root", (status, m.request("GET", "/api/v2/tokens/check", headers={"Authorization": f"Bearer {made.get('token')}"}).json.get("admin")), (200, False))
        check.equal("a token at the socket", m.ask("/api/v2/jobs", headers=bearer(token("alice")))[0], 400)
        check.equal("and at the port", m.request("GET", "/api/v2/tokens/check", headers=bearer(token("games"))).json["username"], "games")


def test_accounts_that_are_no_users(check):
    """Refused, each with its sentence: the server's own, one without a name, one whose name no user can have,
    one of a foreign user namespace; a user namespace changes nobody; `others: refuse` holds, but for root."""
    if not possible():
        return
    with Accounts(facts={"others": "refuse", "users": {"games": {}}}) as m:
        for what, uid, words in (("the server", SERVER, "the tasks of jobs have it, too"), ("no name", 64000, "no name for the account 64000"),
                                 ("an unfit name", APT, "cannot be that of a user"), ("the overflow uid", NOBODY, "outside of its user namespace")):
            done = m.cli(uid, "jobs")
            check.ok(what, done.returncode == 2 and words in done.stderr and "(403)" in done.stderr, (done.returncode, done.stderr))
        done = m.cli(MAIL, "jobs")
        check.ok("others", done.returncode == 2 and "no user mail" in done.stderr, done.stderr)
        check.equal("a listed one", m.cli(GAMES, "jobs").returncode, 0)
        check.equal("root", m.ask("/api/v2/tokens/check")[0], 200)
        inside = run([*as_account(GAMES), "unshare", "--user", "--map-root-user", "curl", "-s", "--unix-socket", m.path, "http://x/api/v2/tokens/check"])
        if inside.returncode == 0:
            check.equal("root of a user namespace", json.loads(inside.stdout).get("username"), "games")
        else:
            print("     not tested: user namespaces", flush=True)


def test_accounts_tasks_do_not_reach_the_socket(check):
    """Neither a task in a sandbox nor one without."""
    if not possible():
        return
    look = f"{sys.executable} -c 'import socket,sys; s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); s.send(b\"GET /api/v2/jobs HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n\"); print(s.recv(900))' "
    with Accounts() as m:
        m.ask("/api/v2/jobs", "POST", json.dumps({"protocolVersion": 2, "name": "spy", "type": "job", "prerequisites": [{"name": "image", "type": "dockerimage", "uri": "debian:12"}],
              "taskRoles": {"main": role(look + m.path + " || echo none")}}), {"Content-Type": "application/json"})
        wait_until(lambda: m.ask("/api/v2/jobs/root~spy")[1]["jobStatus"]["state"] in ("SUCCEEDED", "FAILED"))
        out = run([BINARY, "logs", "--server", f"unix:{m.path}", "spy"]).stdout
        check.ok("refused, or not there", "403 Forbidden" in out or "none" in out, out)


def test_accounts_socket_is_there_only_while_a_server_listens(check):
    """Not after a stop; a stale one is replaced; that of another server and a file stay."""
    if not possible():
        return
    with Accounts() as m:
        check.equal("its mode", oct(os.stat(m.path).st_mode & 0o777), oct(0o666))
        other = run([*m.command[:-1], m.command[-1], "--listen", "127.0.0.1:0", "--local", os.path.join(m.base, "other")], env=m.environment)
        check.ok("a second server", other.returncode != 0 and f"cannot listen on {m.path}: another process does" in other.stderr, other.stderr[-500:])
        check.equal("takes nothing away", m.cli(GAMES, "jobs").returncode, 0)
        m.kill()
        check.ok("killed: it stays", os.path.exists(m.path))
        again = m.cli(GAMES, "jobs", "--timeout", "2")
        check.ok("nobody listens", again.returncode == 3 and m.path in again.stderr, again.stderr)
        m.launch()
        check.ok("replaced", m.comes_up() and m.cli(GAMES, "jobs").returncode == 0)
        m.process.send_signal(signal.SIGTERM)
        m.process.wait()
        check.ok("stopped: it is gone", not os.path.exists(m.path))
        with open(m.path, "w", encoding="ascii") as f:
            f.write("mine")
        m.launch()
        check.ok("a file", m.process.wait() != 0 and "it is there and not a socket" in m.log(), m.log()[-300:])
        check.equal("stays", open(m.path, encoding="ascii").read(), "mine")


def flood(m, address, connections, requests, headers=None, uid=GAMES):
    """Holds idle connections and sends requests, as this account, until its input ends."""
    program = f"""import socket, sys
def open_one():
    s = socket.socket(socket.AF_UNIX if isinstance({address!r}, str) else socket.AF_INET)
    s.settimeout(20)
    s.connect({address!r})
    return s
idle = []
for _ in range({connections}):
    try: idle.append(open_one())
    except OSError: pass
codes = {{}}
for _ in range({requests}):
    try:
        s = open_one()
        s.sendall(b"GET /api/v2/jobs HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n")
        code = s.recv(100)[9:12].decode()
    except OSError as e:
        code = type(e).__name__
    codes[code] = codes.get(code, 0) + 1
print(codes, flush=True)
sys.stdin.read()
"""
    return subprocess.Popen([*as_account(uid), sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_accounts_that_flood_lock_out_only_themselves(check):
    """Connections and requests of a job to 127.0.0.1, and of an account to the socket: others are served."""
    if not possible():
        return
    asks = 100 if WHOLE else 10
    with Accounts() as m:
        for what, address, uid in (("of a task", ("127.0.0.1", m.port), SERVER), ("of an account", m.path, GAMES)):
            with flood(m, address, 80, 700, uid=uid) as f:
                codes = f.stdout.readline()
                check.ok(f"{what}: it is refused", "429" in codes or "''" in codes or "Error" in codes, codes)
                done = [m.cli(MAIL, "jobs").returncode for _ in range(asks)]
                check.equal(f"{what}: others", done, [0] * asks)
                f.stdin.close()


def test_accounts_names_that_hang_hang_only_the_socket(check):
    """While the name service does not answer, the port does; afterwards the socket goes on."""
    if not possible():
        return
    with open(BINARY, "rb") as f:
        if b"__asan_init" in f.read():
            print("     not tested: a sanitizer must be the first library", flush=True)
            return
    with tempfile.TemporaryDirectory() as where:
        library, hang = os.path.join(where, "hang.so"), os.path.join(where, "hang")
        with open(os.path.join(where, "hang.c"), "w", encoding="ascii") as f:
            f.write(HANG)
        os.chmod(where, 0o755)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, os.path.join(where, "hang.c")], check=True)
        with Accounts(environment={"LD_PRELOAD": library, "NAMES_HANG": hang}) as m:
            check.equal("before", m.cli(GAMES, "jobs").returncode, 0)
            with open(hang, "w", encoding="ascii"):
                pass
            with subprocess.Popen([*as_account(MAIL), BINARY, "jobs", "--server", f"unix:{m.path}"]) as waiting:
                time.sleep(0.5)
                ten = [m.request("GET", "/api/v2/jobs", headers=bearer(token("alice"))).status for _ in range(10)]
                check.equal("the port", (ten, waiting.poll()), ([200] * 10, None))
                os.unlink(hang)
                check.equal("afterwards", waiting.wait(), 0)


def test_revoked_tokens_stay_revoked(check):
    """On one machine without any option: after the logout, a restart and a SIGKILL right after the answer."""
    if not possible():
        return
    with Accounts() as m:
        headers = bearer(token("alice", exp=int(time.time()) + 3600))
        other = bearer(token("alice", exp=int(time.time()) + 3601))
        check.equal("valid", m.request("GET", "/api/v2/jobs", headers=headers).status, 200)
        check.equal("revocable", m.request("GET", "/api/v2/tokens", headers=headers).json["revocable"], True)
        check.equal("logout", m.request("DELETE", "/api/v1/authn/basic/logout", headers=headers).status, 200)
        m.kill()
        for when in ("after a SIGKILL", "after a restart"):
            m.launch()
            m.comes_up()
            check.equal(when, m.request("GET", "/api/v2/jobs", headers=headers).status, 401)
            check.equal(f"{when}: another", m.request("GET", "/api/v2/jobs", headers=other).status, 200)
            m.process.send_signal(signal.SIGTERM)
            m.process.wait()
