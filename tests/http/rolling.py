"""Continuous restarts of one of two servers under load, behind a proxy that selects servers by
/readyz like a Kubernetes Service: no request fails."""
import signal
import socket
import threading
import time

from fakeapi import fake_server
from harness import PATIENCE, SLOW, Connection, framework_name, free_port, job_v2, request_bytes, wait_until
from place import NO_LIMITS, Place
from tokens import bearer, token

RESTARTS, CLIENTS, DELAY_S, PROBE_S = 3, 4, 3, 0.1


def pump(source, sink):
    """Copies bytes until the end of the input."""
    try:
        while True:
            data = source.recv(65536)
            if not data:
                break
            sink.sendall(data)
    except OSError:
        pass
    try:
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass


class Proxy:
    """A TCP proxy that selects ready ports in turn.  Existing connections stay."""

    def __init__(self, ports):
        self.ready = {port: 0 for port in ports}  # time of the last successful probe
        self.turn = 0
        self.refused = 0  # refused connections of ready servers
        self.end = threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()
        for port in ports:
            threading.Thread(target=self.probe, args=(port,), daemon=True).start()

    def probe(self, port):
        while not self.end.wait(PROBE_S):
            asked = time.monotonic()
            try:
                with Connection(port) as c:
                    c.send(request_bytes(port, "GET", "/readyz"))
                    reply = c.reply()
                    self.ready[port] = asked if reply is not None and reply.status == 200 else 0
            except OSError:
                self.ready[port] = 0

    def fresh(self):
        """Recently ready ports: a slow proxy would select stopped servers."""
        return [p for p, asked in self.ready.items() if time.monotonic() - asked < DELAY_S / 2]

    def backend(self):
        wait_until(self.fresh)
        ports = self.fresh()
        self.turn += 1
        for i in range(len(ports)):
            try:
                return socket.create_connection(
                    ("127.0.0.1", ports[(self.turn + i) % len(ports)]), timeout=PATIENCE * SLOW)
            except OSError:
                self.refused += 1
        return None

    def accept(self):
        while not self.end.is_set():
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = self.backend()
            if not server:
                client.close()
                continue
            server.settimeout(None)
            for pair in ((client, server), (server, client)):
                threading.Thread(target=pump, args=pair, daemon=True).start()

    def close(self):
        self.end.set()
        self.listener.shutdown(socket.SHUT_RDWR)  # ends accept(), which close() does not
        self.listener.close()


class Client:
    """A client that submits jobs in turn and reuses its connection."""

    def __init__(self, number, port, api):
        self.number, self.port, self.api = number, port, api
        self.headers = bearer(token("alice", jti=number)) if number % 2 else \
            bearer(token("bob", jti=number))
        self.user = "alice" if number % 2 else "bob"
        self.answers, self.failures, self.missing, self.closed = 0, [], [], 0

    def one(self, connection, name):
        data = request_bytes(self.port, "POST", "/api/v2/jobs", job_v2(name).encode(),
                             self.headers)
        connection.send(data)
        reply = connection.reply()
        if reply is None or reply.status != 202:
            self.failures.append(f"{name}: {reply}")
            return False
        self.answers += 1
        if not self.api.of(framework_name(name, self.user)):
            self.missing.append(name)
        if reply.headers.get("connection", "").lower() == "close":
            self.closed += 1
            return False
        return True

    def run(self, end):
        n = used = 0
        connection = None
        while not end.is_set():
            n += 1
            # The server may close a connection that was idle for the delay.
            if connection and time.monotonic() - used > DELAY_S / 2:
                connection.close()
                connection = None
            if not connection:
                connection = Connection(self.port)
            if not self.one(connection, f"rolling-{self.number}-{n}"):
                connection.close()
                connection = None
            used = time.monotonic()
            time.sleep(0.1 * (1 + self.number % 4))
        if connection:
            connection.close()


def restart(server, start):
    """Sends SIGTERM, waits for the exit, and starts a new server on the same port."""
    code = server.stop()
    server.remove()
    return code, start()


def test_rolling_restart_fails_no_request(check):
    with Place() as place:
        secret = place.secret_file()
        ports = [free_port(), free_port()]

        def start(port):
            return fake_server(place.api, "--jwt-secret-file", secret, *NO_LIMITS, "--drain-delay",
                               str(DELAY_S), who=[], port=port)

        servers = [start(port) for port in ports]
        proxy = Proxy(ports)
        end = threading.Event()
        clients = [Client(i, proxy.port, place.api) for i in range(CLIENTS)]
        try:
            check.ok("rolling: both are ready", wait_until(lambda: all(proxy.ready.values())))
            threads = [threading.Thread(target=c.run, args=(end,)) for c in clients]
            for t in threads:
                t.start()
            for i in range(RESTARTS):
                seen = sum(c.answers for c in clients)
                check.ok(f"rolling: {i} there is load", wait_until(
                    lambda n=seen: sum(c.answers for c in clients) > n + 5))
                which = i % 2
                code, servers[which] = restart(servers[which], lambda: start(ports[which]))
                check.equal(f"rolling: exit status {i}", code, 0)
                check.ok(f"rolling: {i} is ready again",
                         wait_until(lambda: all(proxy.ready.values())))
            end.set()
            for t in threads:
                t.join(60 * SLOW)
        finally:
            end.set()
            proxy.close()
            for server in servers:
                server.remove()
        answers = sum(c.answers for c in clients)
        failures = [f for c in clients for f in c.failures]
        print(f"     {RESTARTS} restarts under {CLIENTS} clients: {answers} answers, "
              f"{len(failures)} failed, {sum(c.closed for c in clients)} connections closed in "
              f"order, {proxy.refused} refused", flush=True)
        check.equal("rolling: failed requests", failures[:3], [])
        check.equal("rolling: nothing was refused", proxy.refused, 0)
        check.equal("rolling: a 202 without its Framework", [m for c in clients for m in c.missing],
                    [])


def test_stop_answers_all_received_requests(check):
    """Even without a delay, the server answers requests that it has received."""
    with Place() as place:
        for again in range(3):
            server = place.server("--token-check", "signature")
            good = bearer(token("alice"))
            connections = [server.connect() for _ in range(40)]
            server.process.send_signal(signal.SIGSTOP)  # the machine may be slower than the server
            if again != 1:
                server.terminate()
            for i, c in enumerate(connections):
                c.send(request_bytes(server.port, "POST", "/api/v2/jobs",
                                     job_v2(f"stop-{again}-{i}").encode(), good))
            server.terminate()
            server.process.send_signal(signal.SIGCONT)
            replies = [c.reply() for c in connections]
            check.equal("stop: all are answered", {r.status if r else None for r in replies}, {202})
            check.equal("stop: exit status", server.stop(), 0)
            check.ok("stop: and closed", all(c.read(PATIENCE)[1] for c in connections))
            for c in connections:
                c.close()


def waiting(server, place, tokens):
    """Clients that have sent a job each and wait for the look-ups of their tokens."""
    before = place.asked("/secrets/")
    connections = [server.connect() for _ in tokens]
    for i, (c, text) in enumerate(zip(connections, tokens)):
        body = (job_v2(f"waiting-{server.port}-{i}") + " " * 3000 * i).encode()
        c.send(request_bytes(server.port, "POST", "/api/v2/jobs", body, bearer(text)))
    wait_until(lambda: place.asked("/secrets/") >= before + len(tokens))
    return connections


def statuses(connections):
    replies = [c.reply() for c in connections]
    for c in connections:
        c.close()
    return [r.status if r else None for r in replies]


def test_stop_answers_requests_that_wait_for_tokens(check):
    """A shutdown between header and body: the request is finished or, without enough time, refused.
    Every client gets a response."""
    with Place() as place:
        tokens = [token("alice", jti=i) for i in range(6)]
        place.store("alice", *tokens)
        place.api.fault("GET", "secrets", delay=1)
        server = place.server("--token-check", "stored")
        clients = waiting(server, place, tokens)
        server.terminate()
        check.equal("stop, look-ups: finished", statuses(clients), [202] * 6)
        check.equal("stop, look-ups: exit status", server.stop(), 0)
        place.api.faults.clear()
        place.api.fault("GET", "secrets", hang="before")
        server = place.server("--token-check", "stored", "--drain-timeout", "1")
        clients = waiting(server, place, tokens)
        server.terminate()
        check.equal("stop, look-ups hang: refused", statuses(clients), [503] * 6)
        check.equal("stop, look-ups hang: exit status", server.stop(), 0)
