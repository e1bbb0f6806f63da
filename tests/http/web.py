"""The web page: the clients that get it, its files and their headers."""
import gzip
import os
import re
import zlib

from changes import Yard, foreign
from harness import ROOT, Server, framework_name, run

HTML = "text/html; charset=utf-8"
POLICY = ("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
          "frame-ancestors 'none'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'")
TYPES = {"html": HTML, "css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8",
         "json": "application/json; charset=utf-8", "md": "text/markdown; charset=utf-8", "txt": "text/plain; charset=utf-8"}
COMPRESSED_MAX = 212 * 1024
BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
GZIP = {"Accept-Encoding": "gzip, deflate, br"}


def sources():
    """The files of the page in the source tree, by name."""
    where = os.path.join(ROOT, "server", "web")
    found = {name: os.path.join(where, "page", name) for name in os.listdir(os.path.join(where, "page"))}
    documents = {name: os.path.join(ROOT, "docs", name) for name in ("SKILL.md", "JOBS.md", "CODES.md")}
    return {**found, **documents, "codemirror.js": os.path.join(where, "vendor", "codemirror.js"), "llms.txt": os.path.join(where, "llms.txt")}


def read(path):
    with open(path, "rb") as f:
        return f.read()


def built(path):
    """A file as it is embedded: the project's scripts and styles without indentation, and without
    comments that have lines of their own."""
    text = read(path)
    if os.path.basename(os.path.dirname(path)) == "page" and not path.endswith(".html"):
        text = re.sub(rb"^[ \t]+", b"", text, flags=re.M)
        text = re.sub(rb"^(//.*|/\*.*\*/)\n", b"", text, flags=re.M)
        text = re.sub(rb"^/\*.*?\*/\n", b"", text, flags=re.M | re.S)
    return text


def test_web_page_is_for_browsers_only(check):
    with Server("--engine=none", "--local", "jobs") as server:
        page = read(sources()["index.html"])
        for accept, html in ((BROWSER["Accept"], True), ("text/html", True), ("TEXT/HTML ; q=0.5", True),
                             ("*/*;q=0.1,text/html;level=1;q=0.001", True), (None, False), ("", False), ("*/*", False),
                             ("text/plain", False), ("text/*", False), ("text/html;q=0", False),
                             ("text/html; q=0.000", False), ("text/htmlx, xtext/html", False),
                             ("application/json", False), (";,;,=,q=0,text/htm", False)):
            for path in ("/", "/rest-server/", "/?x=y"):
                reply = server.request("GET", path, headers={"Accept": accept})
                what = f"{path}, Accept: {accept}"
                check.equal(f"{what}: status", reply.status, 200)
                check.equal(f"{what}: type", reply.headers["content-type"], HTML if html else "text/plain; charset=utf-8")
                check.ok(f"{what}: varies", "Accept" in reply.headers["vary"].split(", "), reply)
                check.equal(f"{what}: the page", reply.body == page, html)
                check.equal(f"{what}: its policy", reply.headers.get("content-security-policy"), POLICY if html else None)


def test_web_page_preloads_the_needed_modules(check):
    """The page preloads exactly the modules that the pages Jobs and Job import."""
    files = sources()
    needed, left = [], ["main.js", "jobs.js", "job.js"]
    while left:
        needed.append(left.pop())
        imported = re.findall(r'^import [^;]* from "./([^"]*)";$', read(files[needed[-1]]).decode(), re.M)
        left += [name for name in imported if name not in needed + left]
    links = re.findall(r'"modulepreload" href="web/(.*?)"', read(files["index.html"]).decode())
    check.equal("modules", sorted(links), sorted(needed))


def test_web_page_can_be_turned_off(check):
    with Server("--engine=none", "--local", "jobs", "--no-page") as server:
        reply = server.request("GET", "/", headers=BROWSER)
        check.equal("text for browsers", reply.headers["content-type"], "text/plain; charset=utf-8")
        for path in ("/web/examples.json", "/web/main.js", "/web/x"):
            reply = server.request("GET", path)
            check.refused(f"{path}: refused", reply, 404, "NoFileError", "--no-page")


def forms(check, server, path, headers, text):
    """Requests one file compressed, uncompressed, with its ETag, and by HEAD."""
    plain = server.request("GET", path, headers=headers)
    packed = server.request("GET", path, headers={**headers, **GZIP})
    what = f"GET {path}"
    check.equal(f"{what}: status", (plain.status, packed.status), (200, 200))
    check.equal(f"{what}: as it is", plain.body == text, True)
    check.equal(f"{what}: compressed", gzip.decompress(packed.body) == text, True)
    check.equal(f"{what}: says so", (plain.headers.get("content-encoding"), packed.headers.get("content-encoding")),
                (None, "gzip"))
    check.equal(f"{what}: one tag", plain.headers["etag"], packed.headers["etag"])
    for reply in (plain, packed):
        check.equal(f"{what}: cached, but asked for", reply.headers["cache-control"], "no-cache")
        check.equal(f"{what}: nosniff", reply.headers["x-content-type-options"], "nosniff")
        check.ok(f"{what}: varies", "Accept-Encoding" in reply.headers["vary"], reply)
    for accepted in ("gzip;q=0", "br, deflate", "identity", "*", "xgzip", "gzip;q=0.0, br"):
        reply = server.request("GET", path, headers={**headers, "Accept-Encoding": accepted})
        check.equal(f"{what}: {accepted} is no gzip", reply.body == text, True)
    tag = plain.headers["etag"]
    for known in (tag, tag[2:], f'"other", {tag}', "*"):
        reply = server.request("GET", path, headers={**headers, **GZIP, "If-None-Match": known})
        check.equal(f"{what}: {known} is known", (reply.status, reply.body, reply.headers["etag"]), (304, b"", tag))
        check.ok(f"{what}: 304 varies", "Accept-Encoding" in reply.headers["vary"], reply)
    reply = server.request("GET", path, headers={**headers, "If-None-Match": 'W/"00000000-1"'})
    check.equal(f"{what}: another tag", (reply.status, reply.body == text), (200, True))
    reply = server.request("HEAD", path, headers={**headers, **GZIP})
    check.equal(f"HEAD {path}", (reply.status, reply.headers["etag"], reply.body), (200, tag, b""))
    return plain, packed


def cpu_of(server, headers):
    """Seconds of CPU for 200 requests of the largest file."""
    def used():
        with open(f"/proc/{server.process.pid}/stat") as f:
            return sum(map(int, f.read().rpartition(")")[2].split()[11:13])) / os.sysconf("SC_CLK_TCK")
    before = used()
    for _ in range(200):
        server.request("GET", "/web/codemirror.js", headers=headers)
    return used() - before


def test_web_files_are_inflated_once(check):
    """A client that requests a file uncompressed costs about as much as another one; inflating for
    each request would cost 16 times as much."""
    with Server("--engine=none", "--local", "jobs", "--rate-address", "0") as server:
        ratios = [cpu_of(server, {}) / max(cpu_of(server, GZIP), 0.05) for _ in range(3)]
        check.ok("not inflated again and again", min(ratios) < 4.5, ratios)


def test_web_files_match_the_source_tree(check):
    """The server serves every file of the source tree, and no other."""
    total = 0
    with Server("--engine=none", "--local", "jobs") as server:
        for name, path in sources().items():
            index = name == "index.html"
            for prefix in ("", "/rest-server"):
                where = f"{prefix}/" if index else f"{prefix}/web/{name}"
                plain, packed = forms(check, server, where, BROWSER if index else {}, built(path))
            check.equal(f"{name}: type", plain.headers["content-type"], TYPES[name.rsplit(".", 1)[1]])
            total += 0 if name.endswith((".md", ".txt")) else len(packed.body)  # no browser loads them
        examples = server.request("GET", "/web/examples.json")
        total += len(zlib.compress(examples.body, 9))
        check.ok("small enough", 0 < total <= COMPRESSED_MAX, total)


def test_llms_txt_has_links_that_lead_somewhere(check):
    """A program that knows the address of the server alone finds what it needs, also below a prefix."""
    with Server("--engine=none", "--local", "jobs") as server:
        for prefix in ("", "/rest-server"):
            reply = server.request("GET", f"{prefix}/llms.txt")
            check.equal(f"{prefix}/llms.txt", (reply.status, reply.headers["content-type"], reply.body),
                        (200, TYPES["txt"], read(sources()["llms.txt"])))
            links = re.findall(r"^- \[[^]]*\]\(([^)]*)\): .", reply.body.decode(), re.M)
            check.equal("it has links", {"web/SKILL.md", "web/JOBS.md", "openapi.json", "api/v2/schemas/v2"} - set(links), set())
            for link in links:
                check.equal(link, server.request("GET", f"{prefix}/{link.removeprefix('./')}").status, 200)
    with Server("--engine=none", "--local", "jobs", "--no-page") as server:
        check.refused("--no-page", server.request("GET", "/llms.txt"), 404, "NoFileError", "--no-page")


def test_web_paths_beside_the_page_are_404(check):
    with Server("--engine=none", "--local", "jobs") as server:
        for path in ("/web", "/web/", "/web/index.html", "/web/x.js", "/web/main.js.gz", "/web/web.c", "/web/%2e%2e",
                     "/web/..", "/web/../", "/web/../web.c", "/web/..%2fweb.c", "/web/%2e%2e%2fweb.c", "/web/page/index.html",
                     "/web//examples.json", "/web/examples.json/x", "/web/./examples.json", "/web/examples.json%00",
                     "/web/examples.json%20", "/web/EXAMPLES.JSON", "/web/%ff", "/web/\\..\\web.c", "/web/etc/passwd",
                     "/Web/examples.json", "/rest-server/web/../web/examples.json", "/web/examples.json;x"):
            reply = server.request("GET", path, headers={"Accept-Encoding": "gzip"})
            check.ok(f"GET {path}", reply.status == 404 and reply.code in ("NoApiError", "NoFileError"), reply)
        for path, status in (("/web/examples.json/", 200), ("/web/examples%2ejson", 200), ("/web/examples.json?x=../y", 200)):
            check.equal(f"GET {path}", server.request("GET", path).status, status)
        reply = server.request("POST", "/web/examples.json", b"x")
        check.equal("POST", (reply.status, reply.headers["allow"]), (405, "GET, HEAD, OPTIONS"))


def test_web_page_without_logins_serves_its_own_origin(check):
    """The server accepts the requests of a browser with --no-auth; pages of other origins get
    nothing."""
    with Server("--engine=none", "--local", "jobs") as server:
        own = f"http://localhost:{server.port}"
        for path, headers in (("/", {**BROWSER, "Sec-Fetch-Site": "none"}),
                              ("/web/examples.json", {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"}),
                              ("/web/examples.json", {"Sec-Fetch-Site": "same-origin", "Origin": own})):
            reply = server.request("GET", path, headers={"Host": own[len("http://"):], **headers})
            check.equal(f"{path} with {headers}", reply.status, 200)
        for path in ("/", "/rest-server/", "/?x"):
            reply = server.request("GET", path, headers={**BROWSER, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"})
            check.equal(f"{path}: a link elsewhere", (reply.status, reply.headers["content-type"]), (200, HTML))
        for headers in ({"Origin": "http://evil.example"}, {"Host": "evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
            reply = server.request("GET", "/web/examples.json", headers=headers)
            check.equal(f"refused: {headers}", reply.status, 403)


def test_web_examples_are_accepted_jobs(check):
    with Server("--engine=none", "--local", "jobs", "--facts", os.path.join(ROOT, "examples", "facts.json")) as server:
        rows = server.request("GET", "/web/examples.json").json or []
        check.ok("a choice", 8 <= len(rows) <= 12, len(rows))
        check.equal("the first", rows and rows[0]["name"], "hello-world.yaml")
        for row in rows:
            text = read(os.path.join(ROOT, "examples", row["name"])).decode()
            check.equal(f"{row['name']}: byte for byte", row["text"] == text, True)
            title = row["title"]
            check.ok(f"{row['name']}: title", title and title in text.split("\n")[0] and not re.search(r"[:.]$|^[#/]", title),
                     title)
            version = 2 if row["name"].endswith(".yaml") else 1
            reply = server.submit(text, {"Content-Type": "text/yaml"}, path=f"/api/v{version}/jobs?dryRun=true")
            check.equal(f"{row['name']}: accepted", (reply.status, reply.message), (200, ""))
        check.equal("one row per file", len({row["name"] for row in rows}), len(rows))
        check.equal("no other members", {tuple(row) for row in rows}, {("name", "title", "text")})


# ---- what the page asks for --------------------------------------------------------------
def test_web_schemas_are_those_of_the_command_line(check):
    with Server("--engine=none", "--local", "jobs") as server:
        refused = server.request("GET", "/api/v2/schemas/v3")
        check.equal("another name", (refused.status, refused.code), (404, "NoSchemaError"))
        names = refused.message.split(" are ")[-1].split(", ")
        check.ok("the names", {"v1", "v2", "pod", "facts", "config"} <= set(names), names)
        for name in names:
            reply = server.request("GET", f"/api/v2/schemas/{name}")
            check.equal(f"{name}: type", (reply.status, reply.headers["content-type"]),
                        (200, "application/json; charset=utf-8"))
            check.equal(f"{name}: that of the command line", reply.body == run("schema", name).stdout, True)
            known = server.request("GET", f"/rest-server/api/v2/schemas/{name}", headers={"If-None-Match": reply.headers["etag"]})
            check.equal(f"{name}: known", (known.status, known.body, known.headers["cache-control"]), (304, b"", "no-cache"))
        check.equal("nothing but names", [server.request("GET", f"/api/v2/schemas/{name}").code for name in
                                          ("V2", "v2.schema.json", "..%2fv2", "%2e%2e", "pai-v2", "v2%00")],
                    ["NoSchemaError", "NoSchemaError", "NoApiError", "NoApiError", "NoSchemaError", "NoApiError"])


WRITTEN = """\ufeff# Why: \u00e4 test  \r
protocolVersion: 2\r
name: %s   # its name\r
type: job\r
\r
prerequisites:\r
  - {name: image, type: dockerimage, uri: "debian:12-slim"}  # <script>alert(1)</script>\r
taskRoles:\r
  main: {instances: 1, dockerImage: image, resourcePerInstance: {cpu: 1, memoryMB: 64, gpu: 0}, commands: ["true"]}\r
\r
# the end\r
"""
SECRET_PART = 'secrets: # both\n  password: "%s"\n  other: "%s"\ndefaults: {}\n'


def test_web_config_returns_the_written_text(check):
    """The text of a job without secrets is returned byte for byte; secrets and texts of other programs
    stay hidden."""
    marker = "Marker-of-a-secret-4711"
    with Yard("--visibility", "owner") as yard:
        def submit(text, name):
            reply = yard.ask("alice", "POST", "/api/v2/jobs", text.encode())
            check.equal(f"{name}: submitted", reply.status, 202)
            return f"/api/v2/jobs/alice~{name}"

        text = WRITTEN % "written"
        job = submit(text, "written")
        for prefix in ("", "/rest-server"):
            reply = yard.ask("alice", "GET", f"{prefix}{job}/config?written=true")
            check.equal("written", (reply.status, reply.headers["content-type"]), (200, "text/plain; charset=utf-8"))
            check.equal("byte for byte", reply.body, text.encode())
        check.equal("of v1", yard.ask("alice", "GET", "/api/v1/user/alice/jobs/written/config?written=true").body, text.encode())
        for query in ("", "?written=false", "?written", "?other=true"):
            reply = yard.ask("alice", "GET", f"{job}/config{query}")
            check.equal(f"{query}: JSON as ever", (reply.status, b"the end" in reply.body), (200, False))
        for query in ("?written=yes", "?written=1", "?written=TRUE", "?written="):
            check.equal(query, yard.ask("alice", "GET", f"{job}/config{query}").code, "InvalidParametersError")
        for who, status in (("bob", 403), ("carol", 403), (None, 401), ("root", 200)):
            reply = yard.ask(who, "GET", f"{job}/config?written=true")
            check.equal(f"for {who}", (reply.status, b"the end" in reply.body), (status, status == 200))

        text = SECRET_PART % (marker, marker) + (WRITTEN % "hidden").lstrip("\ufeff").replace("\r", "")
        reply = yard.ask("alice", "GET", submit(text, "hidden") + "/config?written=true")
        check.equal("secrets", (reply.status, marker.encode() in reply.body), (200, False))
        check.equal("written anew", reply.body.decode().split("\n")[:3],
                    ['secrets: "******"', "defaults: {}", "protocolVersion: 2"])
        check.ok("the same values, no comments", b"- \"true\"\n" in reply.body and b"#" not in reply.body, reply.body)

        # These texts were not written by this server, or were changed afterwards.
        stored = yard.object("hidden")["metadata"]
        for what, config, submission in (("masked", stored["annotations"]["config"], False),
                                         ("secrets", f'secrets: {{"a": "{marker}"}}', True),
                                         ("auth", f'prerequisites: [{{"auth": {{"password": "{marker}"}}}}]', True),
                                         ("broken", f"# {marker}\n[", True), ("list", f"[{marker}]", True)):
            annotations = {"jobName": what, "config": config}
            if submission:
                annotations["rest-lit/submission"] = stored["annotations"]["rest-lit/submission"]
            yard.api.put("frameworks", foreign(framework_name(what), annotations,
                                               {"userName": "alice", "virtualCluster": "default"}))
            reply = yard.ask("alice", "GET", f"/api/v2/jobs/alice~{what}/config?written=true")
            check.equal(f"{what}: refused", (reply.status, reply.code, marker.encode() in reply.body),
                        (404, "NoJobConfigError", False))
        check.equal("... but as JSON", yard.ask("alice", "GET", "/api/v2/jobs/alice~masked/config").status, 200)


def test_web_machine_route_needs_an_engine(check):
    with Server("--engine=none", "--local", "jobs") as server:
        reply = server.request("GET", "/api/v2/machine")
        check.equal("no engine", (reply.status, reply.code), (404, "NoMachineError"))
    with Yard() as yard:
        check.equal("a cluster", yard.ask("alice", "GET", "/api/v2/machine").code, "NoMachineError")
        check.equal("without a token", yard.ask(None, "GET", "/api/v2/machine").status, 401)
        for path in ("/", "/web/examples.json", "/api/v2/schemas/v2"):
            check.equal(f"{path} needs none", yard.ask(None, "GET", path).status, 200)
