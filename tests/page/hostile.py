"""Hostile texts on every page: they create no element and run nothing.

The page comes from the real server, through a `Mirror`, which answers the API with the texts in
all places where users, programs and clusters can put texts."""
import collections
import http.client
import http.server
import json
import re

from browser import Page, settle
from harness import Threads, wait_until
from machine import Machine, role
from payloads import PAYLOADS

BATCH = 50
# Values on which the page bases decisions keep their meaning.
KEPT = {"state", "subState", "executionType", "kind", "type"}
TAGS = "return [...document.querySelectorAll('*')].map((e) => e.localName)"
# Elements that the page never makes, wherever they come from, and attributes that run code.
FORBIDDEN = """
const all = [...document.querySelectorAll("*")];
for (const e of all) if (e.shadowRoot) all.push(...e.shadowRoot.querySelectorAll("*"));
const bad = all.filter((e) => /^(iframe|object|embed|base|math|marquee|video|audio|img|template|animate|use|foreignobject|x)$/i.test(e.localName) ||
	e.localName === "script" && !e.src.startsWith(location.origin + "/web/") ||
	["meta", "link", "style", "title"].includes(e.localName) && e.getRootNode() === document && e.parentNode !== document.head ||
	[...e.attributes].some((a) => /^on|^srcdoc$/i.test(a.name) || /^(href|src|action|formaction|xlink:href)$/i.test(a.name) &&
		!/^(#|web\\/|data:image\\/svg|blob:|openapi.json$)/.test(a.value)));
return bad.map((e) => e.outerHTML.slice(0, 300));"""
# Scrolls everything that scrolls by half of its height; false at the end.
SCROLL = """let moved = false;
for (const e of [document.scrollingElement, ...document.querySelectorAll("#page *")]) {
	const before = e.scrollTop;
	if (e.scrollHeight > e.clientHeight) e.scrollTop += Math.max(50, e.clientHeight / 2);
	moved ||= e.scrollTop !== before;
}
return moved;"""
# Events that would run handlers.
POKE = """for (const e of document.querySelectorAll("#page *")) {
	for (const type of ["mouseover", "pointerenter", "focus", "animationend", "toggle", "wheel"]) e.dispatchEvent(new Event(type));
}"""


def replaced(value, text, key=""):
    """The same JSON with this text as each string (and as the names of task roles)."""
    if isinstance(value, dict):
        return {k: {text: replaced(v, text) for v in x.values()} if k == "taskRoles" else replaced(x, text, k)
                for k, x in value.items()}
    if isinstance(value, list):
        return [replaced(v, text, key) for v in value]
    return text if isinstance(value, str) and key not in KEPT else value


class MirrorHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        """Quiet."""

    def forward(self, body=None):
        c = http.client.HTTPConnection("127.0.0.1", self.server.real.port)
        c.request(self.command, self.path, body, {"Accept": self.headers.get("Accept", "*/*"), "Content-Type": "text/yaml"})
        reply = c.getresponse()
        data = reply.read()
        c.close()
        return reply.status, dict(reply.getheaders()), data

    def reply(self, status, headers, data):
        self.send_response(status)
        for name, value in headers.items():
            if name.lower() not in ("content-length", "transfer-encoding", "connection", "date"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def answer(self, value, status=200):
        self.reply(status, {"Content-Type": "application/json; charset=utf-8"}, json.dumps(value).encode("utf-8", "surrogatepass"))

    def real(self, path):
        self.path = path
        return json.loads(self.forward()[2])

    def many(self, value):
        return [replaced(value, text) for text in self.server.texts]

    def stream(self, *events):
        """Server-sent events, then silence until the client goes."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.close_connection = True
        for name, data in events:
            self.wfile.write(f"event: {name}\ndata: {json.dumps(data)}\n\n".encode())
        self.wfile.flush()
        self.connection.settimeout(3600)
        self.connection.recv(1)

    def log_text(self):
        return "".join(text + "\n" for text in self.server.texts).encode("utf-8", "surrogatepass")

    def do_GET(self):
        path, texts, job = self.path.partition("?")[0], self.server.texts, "/api/v2/jobs/alice~shape"
        rest = re.fullmatch(r"/api/v2/jobs/[^/]+(/.*)?", path)
        if path == "/api/v2/jobs/watch":
            self.stream()
        elif path == "/api/v2/jobs":
            self.answer(self.many(self.real("/api/v2/jobs")[0]))
        elif path == "/api/v2/machine":
            real = self.real(path)
            waiting = {**real["running"][0], "position": 1, "message": "a GPU"}
            states = [{"known": True, "outside": [{"pid": 1, "user": text, "program": text}]} for text in texts]
            self.answer({**real, "running": self.many(real["running"][0]), "queue": self.many(waiting), "gpus": len(texts), "gpuStates": states})
        elif path == "/api/v2/report":
            self.answer({"rows": [{"user": text, "virtualCluster": text, "gpuHours": 1, "attempts": 1, "failed": 0} for text in texts], "more": False})
        elif rest and rest[1] == "/usage":
            task = {"taskIndex": 0, "jobAttempt": 0, "taskAttempt": 0, "running": True, "boundTime": 1, "heldSeconds": 1, "figures": None, "curves": None}
            self.answer({"tasks": [{**task, "taskRole": text} for text in texts], "tasksTotal": len(texts), "notes": texts})
        elif path == "/api/v2/tokens":
            self.answer({"tokens": [f"a.b.{i}" for i in range(len(texts))], "names": texts, "stored": True, "revocable": True})
        elif path == "/api/v2/info" or path.startswith(("/api/v2/users/", "/api/v2/tokens/")):
            self.answer(replaced(self.real("/api/v2/users/alice" if "users" in path else path), texts[0]))
        elif rest and rest[1] is None:
            shape = self.real(job)
            roles = shape["taskRoles"]
            self.answer({**replaced(shape, texts[0]), "taskRoles": {t: replaced(r, t) for t in texts for r in roles.values()}})
        elif rest and rest[1] == "/watch":
            shape = self.real("/api/v2/jobs")[0]
            self.stream(("job", {**replaced(shape, texts[0]), "taskRoles": {t: {"RUNNING": 1} for t in texts}}))
        elif rest and rest[1] == "/events":
            event = {"type": "Warning", "reason": "r", "message": "m", "taskroleName": "main", "taskIndex": 0, "count": 3,
                     "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z"}
            self.answer({"totalCount": len(texts), "data": self.many(event)})
        elif rest and rest[1] == "/config" and "compare" in path:
            self.answer({t: {t: t.replace("\n", " ") + path[-8]} for t in texts})
        elif rest and (rest[1] == "/config" or "/logs/" in rest[1]):
            self.reply(200, {"Content-Type": "text/plain; charset=utf-8"}, self.log_text())
        elif rest and "job-attempts" in rest[1]:
            self.path = job + rest[1]
            status, _, data = self.forward()
            self.answer(replaced(json.loads(data), texts[0]) if data[:1] in b"[{" else [], status)
        else:
            self.reply(*self.forward())

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if "dryRun" not in self.path:
            return self.reply(*self.forward(body))
        return self.answer({"code": "InvalidProtocolError", "message": self.server.texts[0], "errors": [
            {"pointer": text, "line": 1, "column": 1, "message": text} for text in self.server.texts]}, 400)


class Mirror(Threads):
    def __init__(self, real, texts):
        super().__init__(MirrorHandler)
        self.real, self.texts, self.port = real, texts, self.server_address[1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()


def elements(page):
    return collections.Counter(page.js(TAGS))


def hostile_page(check, hash_, ready, payloads=PAYLOADS, command="while sleep 1; do :; done", state="RUNNING"):
    """Compares the page of hostile texts with the page of as many harmless ones."""
    with Machine() as server:
        server.start("other", {"main": role("while sleep 1; do :; done")})
        server.start("shape", {"main": role(command)})
        server.wait("shape", state)
        for first in range(0, len(payloads), BATCH):
            texts, seen = payloads[first:first + BATCH], []
            for batch in ([f"harmless text {i}" for i in range(BATCH)], texts):
                with Mirror(server, batch) as mirror, Page(check, mirror, hash_, size=(1400, 3000)) as page:
                    settle(page, lambda: ready(page), f"{hash_}: ready")
                    settle(page, lambda: elements(page) == elements(page), f"{hash_}: at rest")
                    seen.append(elements(page))
                    page.js(POKE)
                    check.equal(f"{hash_} {first}: no foreign element", page.js(FORBIDDEN), [])
                    if batch is texts:
                        shown = comparable(everything(page))
                        missing = [t for t in texts if comparable(t) not in shown]
                        check.equal(f"{hash_} {first}: shown as text", missing, [])
            check.equal(f"{hash_} {first}: the elements of harmless texts", dict(seen[1] - seen[0]), {})


def everything(page):
    """All texts, including rows that appear by scrolling."""
    texts = [page.js("return document.body.textContent")]
    while page.js(SCROLL) and len(texts) < 100:
        texts.append(page.js_async("await new Promise((done) => setTimeout(done, 50)); return document.body.textContent"))
    return "\n".join(texts)


def comparable(text):
    """The text without the characters that a page may show in another way."""
    return re.sub(r"[\s\x00-\x1f\x7f-\x9f]", "", text)


def has_cells(page):
    return page.js("return document.querySelectorAll('#page td').length > 50")


def test_page_shows_some_hostile_texts_as_text(check):
    hostile_page(check, "#/machine", has_cells, PAYLOADS[::6])


def test_page_machine_shows_hostile_texts_as_text(check):
    hostile_page(check, "#/machine", has_cells)


def test_page_jobs_show_hostile_texts_as_text(check):
    hostile_page(check, "#/jobs", has_cells)


def test_page_job_shows_hostile_texts_as_text(check):
    hostile_page(check, "#/jobs/alice~shape?view=events", lambda p: p.has("table", "Events") and has_cells(p))
    hostile_page(check, "#/jobs/alice~shape?view=config", lambda p: p.has("tab", "Configuration") and has_cells(p))
    for view in ("log", "details"):
        hostile_page(check, f"#/jobs/alice~shape?view={view}", lambda p: p.has("region", "Failure") and has_cells(p), PAYLOADS[::3],
                     "echo last; exit 1", "FAILED")


def test_page_use_shows_hostile_texts_as_text(check):
    hostile_page(check, "#/jobs/alice~shape?view=usage&task=*", lambda p: p.js("return document.querySelectorAll('.task-use').length === 50"))
    hostile_page(check, "#/report?by=user,virtualCluster", has_cells)


def test_page_compare_shows_hostile_texts_as_text(check):
    hostile_page(check, "#/compare?jobs=alice~compare-1,%3Cimg%20src=x%20onerror=ran(0)%3E~compare-2",
                 lambda p: p.has("table", "Differences") and has_cells(p))


def test_page_mistakes_show_hostile_texts_as_text(check):
    def ready(page):
        if not page.has("listitem"):
            page.find("textbox", "Job").send_keys("x")
        return wait_until(lambda: len(page.nodes("listitem")) >= BATCH)
    hostile_page(check, "#/submit", ready)


CORE = [test_page_shows_some_hostile_texts_as_text]
WHOLE = [test_page_machine_shows_hostile_texts_as_text, test_page_jobs_show_hostile_texts_as_text,
         test_page_job_shows_hostile_texts_as_text, test_page_compare_shows_hostile_texts_as_text, test_page_use_shows_hostile_texts_as_text, test_page_mistakes_show_hostile_texts_as_text]
