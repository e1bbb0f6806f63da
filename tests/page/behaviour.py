"""How the page behaves: a server that is away or slow, paper, shortcuts, sizes, what moves."""
import base64
import collections
import itertools
import os
import re
import select
import signal
import socket
import struct
import threading

from browser import PHONE, WIDE, Page, settle
from harness import ROOT, wait_until
from machine import Machine, role
from scene import FOREVER, PAGES, Scene, account
from selenium.webdriver.common.keys import Keys

LOST = re.compile("connection to the server is lost")
MOST_BYTES = 220 * 1000
# The time at which the bar appeared, and where the heading was before.
NOTE = """window.saidAt = 0;
new MutationObserver(() => { if (!window.saidAt) window.saidAt = Date.now(); }).observe(
	document.querySelector("[aria-label=Connection]"), { childList: true });
return [Date.now(), document.querySelector("h1").getBoundingClientRect().top];"""


class Swallowing:
    """A network between the page and a server; swallow(): what was sent is never delivered, on old connections
    also after heal(); forget(): nothing is delivered on connections any more whose last request has this text;
    without_answer: nor on those whose next one has this text, once it is delivered."""

    def __init__(self, server):
        self.server, self.pairs, self.dead, self.lost = server, [], set(), []
        self.asked, self.without_answer = {}, None
        self.swallows, self.ends = False, False
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self.run, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ends = True
        self.thread.join()
        for one in [self.listener, *self.lost, *(s for pair in self.pairs for s in pair)]:
            one.close()

    def swallow(self):
        self.swallows = True

    def heal(self):
        while select.select([self.listener], [], [], 0)[0]:  # connections of that time
            self.lost.append(self.listener.accept()[0])
        self.dead |= set(self.pairs)
        self.swallows = False

    def forget(self, text=b""):
        found = {pair for pair in self.pairs if pair not in self.dead and text in self.asked.get(pair, b"")}
        self.dead |= found
        return len(found)

    def run(self):
        while not self.ends:
            other = {a: (b, pair) for pair in self.pairs if pair not in self.dead for a, b in (pair, pair[::-1])}
            ready, _, _ = select.select([] if self.swallows else [self.listener, *other], [], [], 0.05)
            for one in ready:
                if one is self.listener:
                    self.pairs.append((one.accept()[0], socket.create_connection(("127.0.0.1", self.server.port))))
                    continue
                to, pair = other[one]
                try:
                    data = one.recv(65536)
                    if one is pair[0]:
                        self.asked[pair] = data
                    if one is pair[0] and self.without_answer and self.without_answer in data:
                        self.dead.add(pair)
                    to.sendall(data.replace(b":%d\r\n" % self.port, b":%d\r\n" % self.server.port))  # Host
                except OSError:
                    data = b""
                if not data:
                    self.dead.add(pair)
                    to.close()
                    one.close()
                    break  # the other end of this pair may be in `ready`


def test_page_says_in_time_that_a_server_hangs(check):
    """A server that hangs is said within 5 s, over the page, which does not move; then it continues."""
    with Machine() as server, Page(check, server, "#/jobs") as page:
        page.find("heading", "Jobs")
        server.start("early", {"main": role("true")})
        settle(page, lambda: page.shows("early"), "live")
        begun, top = page.js(NOTE)
        server.process.send_signal(signal.SIGSTOP)
        try:
            settle(page, lambda: page.shows(LOST), "said")
            print(f"     said after {page.js('return window.saidAt') - begun:.0f} ms", flush=True)
            check.ok("within 5 s", page.js_async("return (await load('api')).AWAY_MS;") <= 5000)
            check.equal("nothing moved", page.js(NOTE)[1], top)
        finally:
            server.process.send_signal(signal.SIGCONT)
        settle(page, lambda: not LOST.search(page.body()), "it is gone")
        server.start("late", {"main": role("true")})
        settle(page, lambda: page.shows("late"), "live again")


def test_page_recovers_from_a_network_that_swallows(check):
    """After an outage without an error, the page does not wait for answers that will never come."""
    with Machine() as server, Swallowing(server) as network, Page(check, network, "#/jobs") as page:
        server.start("early", {"main": role("true")})
        settle(page, lambda: page.shows("early"), "live")
        network.swallow()
        page.go("#/machine")
        settle(page, lambda: page.shows(LOST), "said")
        page.go("#/jobs")
        network.heal()
        settle(page, lambda: not LOST.search(page.body()), "it is gone")
        settle(page, lambda: page.shows("early"), "the list")
        server.start("late", {"main": role("true")})
        check.ok("live again", wait_until(lambda: "late" in page.body()), page.body())


GATE = """const fetch = window.fetch;
const gate = new Promise((open) => { window.openGate = open; });
window.fetch = (url, ...more) => (String(url).includes("/api/") ? gate.then(() => fetch(url, ...more)) : fetch(url, ...more));"""


def test_page_shows_that_a_slow_answer_loads(check):
    """A line and a status while the answer has not come; nothing of it after that."""
    with Machine() as server, Page(check, server, "#/sign-in") as page:
        page.shows("needs no sign-in")
        page.js(GATE)
        page.go("#/machine")
        page.find("progressbar", "Waiting for the server")
        check.equal("a status", page.text("status", "Loading"), "Loading ...")
        check.ok("not that it is lost", not LOST.search(page.body()))
        page.js("window.openGate()")
        settle(page, lambda: page.shows("This machine has no GPUs"), "it is here")
        check.ok("no line", page.gone("progressbar"))
        check.ok("no text", "Loading" not in page.body())
        page.js(GATE)
        page.go("#/jobs")
        page.find("progressbar", "Waiting for the server")
        page.js_async("await new Promise((done) => setTimeout(done, 1200))")  # the clock of the page has passed
        check.equal("no number of jobs", page.text("status", "Number of jobs"), "")
        page.js("window.openGate()")
        check.ok("then there is one", page.shows("0 jobs"))


HIDE = """const { watch } = await load("api");
const { fetch } = window, asked = [], wait = (what) => new Promise((done) => {
	const timer = setInterval(() => { if (what()) done(clearInterval(timer)); }, 10); });
window.fetch = (url, more) => { if (String(url).includes("watch")) asked.push(more); return fetch(url, more); };
const show = (hidden) => {
	Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
	document.dispatchEvent(new Event("visibilitychange"));
};
const stop = new AbortController(), seen = [];
watch("api/v2/jobs/watch?initial=true", { signal: stop.signal, event: (name) => seen.push(name) }).catch(() => {});
await wait(() => seen.length);
show(true);
await wait(() => asked[0].signal.aborted);
const unseen = asked.length;
show(false);
await wait(() => asked.length > 1);
stop.abort();
window.fetch = fetch;
return [unseen, asked[1].headers.get("Last-Event-ID"), document.querySelector("[aria-label=Connection]").textContent];"""


def test_page_unseen_tabs_use_no_connection(check):
    """A tab that nobody sees has no stream; all tabs share six connections.  Seen again, it continues."""
    with Machine() as server, Page(check, server, "#/sign-in") as page:
        page.shows("needs no sign-in")
        server.start("one", {"main": role("true")})
        unseen, last, bar = page.js_async(HIDE)
        check.equal("no second stream while unseen", unseen, 1)
        check.ok("continues after the last event", last and last.isdigit(), last)
        check.equal("nothing is lost", bar, "")


HANG = """const { get } = await load("api");
const { fetch, setTimeout } = window;
window.fetch = (url, { signal }) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
window.setTimeout = (act, ms) => setTimeout(act, ms >= 10000 ? 10 : ms);
const said = await get("api/v2/info").catch((error) => error.message);
Object.assign(window, { fetch, setTimeout });
return said;"""


def test_page_requests_end_without_an_answer(check):
    with Machine() as server, Page(check, server, "#/sign-in") as page:
        page.shows("needs no sign-in")
        check.ok("it says so", "does not answer" in page.js_async(HANG))


def bytes_of_first_visit(page):
    """The bytes of all answers so far, headers included."""
    events = [m["params"] for m in page.messages if m["method"] == "Network.loadingFinished"]
    return sum(e["encodedDataLength"] for e in events)


def first_visit(check, server, hash_, ready):
    """(bytes, milliseconds until the first paint) of a visit with an empty cache."""
    with Page(check, server, "about:blank") as page:
        page.driver.execute_cdp_cmd("Network.setCacheDisabled", {"cacheDisabled": True})
        try:
            page.driver.get(page.url + hash_)
            settle(page, lambda: page.shows(ready), f"{hash_} is shown")
            paint = page.js("return performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? Infinity")
            page.look()
        finally:
            page.driver.execute_cdp_cmd("Network.setCacheDisabled", {"cacheDisabled": False})
        return bytes_of_first_visit(page), paint


def test_page_first_visit_is_small(check):
    """The first visit of the list, of a job and of the editor is below 220 KB; times are printed only."""
    with Machine() as server:
        server.start("one", {"main": role(FOREVER)})
        server.wait("one", "RUNNING")
        for hash_, ready in (("#/jobs", "one"), ("#/jobs/alice~one", "RUNNING"), ("#/submit", "Ctrl+Space")):
            size, paint = first_visit(check, server, hash_, ready)
            print(f"     {hash_}: {size} bytes, first paint after {paint:.0f} ms", flush=True)
            check.ok(f"{hash_}: something came", size > 20000, size)
            check.ok(f"{hash_}: below 220 KB", size < MOST_BYTES, size)


# ---- shortcuts ----
# Keys at the deepest focused element, each so many milliseconds after the one before it.
KEYS = """const now = performance.now();
for (const [i, key] of arguments[0].entries()) {
	let at = document.activeElement;
	while (at.shadowRoot?.activeElement) at = at.shadowRoot.activeElement;
	const event = new KeyboardEvent("keydown", { key, bubbles: true, composed: true, cancelable: true });
	Object.defineProperty(event, "timeStamp", { value: now + i * arguments[1] });
	at.dispatchEvent(event);
}"""


def key(page, *keys, late=0):
    page.js(KEYS, keys, late)


def test_page_shortcuts_lead_to_pages(check):
    """`?` lists what works here; two keys lead to a page; none fires while one types."""
    with Machine() as server, Page(check, server, "#/jobs") as page:
        page.find("heading", "Jobs")
        page.js("document.activeElement.blur()")
        page.press("?")
        listed = re.sub(r"\s+", " ", page.text("dialog", "Shortcuts"))
        all_ = ("j next row; Enter opens it", "k row before", "/ search for jobs", "s stop the selected jobs", "? this list", "gl the list of jobs",
                "gs submit a job", "gm the machine", "ga your account")
        check.ok("listed", all(t in listed for t in all_), listed)
        page.press("gm")
        check.equal("not in a dialog", page.hash(), "/jobs")
        page.press("?")
        check.ok("closed by ?", page.gone("dialog"))
        page.click("button", "Shortcuts")
        page.find("dialog", "Shortcuts")
        page.press(Keys.ESCAPE)
        check.ok("closed by Escape", page.gone("dialog"))
        for keys, heading in (("gm", "Machine"), ("ga", "Account"), ("gs", "Submit a job")):
            page.press(*keys)
            page.find("heading", heading)
        page.js("document.activeElement.blur()")
        page.press("?")
        check.ok("those of this page", "submit the job" in page.text("dialog", "Shortcuts"), page.text("dialog", "Shortcuts"))
        page.press("?")
        page.find("textbox", "Job").click()
        key(page, "g", "m")
        key(page, "?")
        check.equal("not in the editor", (page.hash(), page.has("dialog")), ("/submit", False))
        page.js("document.activeElement.blur()")
        key(page, "g", "l", late=1600)
        check.equal("not too late", page.hash(), "/submit")
        key(page, "g", "l", late=1400)
        page.find("heading", "Jobs")
        for element in ("input[type=search]", "select"):
            page.js(f"document.querySelector('#page {element}').focus()")
            key(page, "g", "m")
            check.equal(f"not in {element}", page.hash().split("?")[0], "/jobs")


# ---- the window ----
HEADER = """const header = document.querySelector("header");
const parts = [...header.querySelectorAll("a, button")].filter((e) => e.getClientRects().length).map((e) => e.getBoundingClientRect());
const middles = parts.map((r) => Math.round((r.top + r.bottom) / 2));
return [header.offsetHeight, Math.max(...middles) - Math.min(...middles), Math.max(...parts.map((r) => r.right)) <= innerWidth,
	document.documentElement.scrollWidth <= innerWidth];"""


def test_page_header_is_one_line(check):
    """The header has at most 48 px, in one line, also with 320 px and a long name."""
    with Scene() as scene:
        for server in (scene, scene.cluster.server):
            for width in (320, PHONE[0], WIDE[0]):
                with Page(check, server, "#/account", size=(width, 700)) as page:
                    if server is not scene:
                        account(page)
                    page.find("heading", "Account")
                    for name in (None, "a-long-name-of-somebody-else"):
                        if name:
                            page.js("document.querySelector('.user').textContent = arguments[0]", name)
                        height, apart, inside, fits = page.js(HEADER)
                        check.ok(f"{width} px: one line", height <= 48 and apart <= 4 and inside and fits, (height, apart, inside, fits))


SHIFTS = """const done = arguments[arguments.length - 1];
const name = (n) => (n?.nodeType === 1 ? `${n.localName}.${[...n.classList].join(".")} "${n.textContent.slice(0, 30)}"` : String(n?.textContent));
let all = [];
new PerformanceObserver((list) => { all.push(...list.getEntries()); }).observe({ type: "layout-shift", buffered: true });
requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => {
	all = all.filter((e) => !e.hadRecentInput);
	done([all.reduce((sum, e) => sum + e.value, 0), all.map((e) => `${e.value.toFixed(3)} ${e.sources.map((s) => name(s.node)).join(", ")}`)]);
}, 100)));"""


def test_page_does_not_jump(check):
    """While a page loads, its parts do not move: the layout shift is below 0.1."""
    with Scene() as scene:
        for name, hash_, ready in PAGES:
            for size in (WIDE, PHONE):
                with Page(check, scene.of(name), hash_, size=size) as page:
                    settle(page, lambda: ready(page), f"{name} is shown")
                    shift, parts = page.driver.execute_async_script(SHIFTS)
                    print(f"     {name}, {size[0]} px: {shift:.3f}", flush=True)
                    check.ok(f"{name}, {size[0]} px: layout shift below 0.1", shift < 0.1, [shift, *parts])


# ---- paper ----
PAPER = """const seen = (e) => e.checkVisibility();
const rgb = (e, name) => getComputedStyle(e)[name].match(/\\d+/g).slice(0, 3).reduce((sum, n) => sum + Number(n), 0);
const bars = [...document.querySelectorAll("#page, #page *")].filter((e) => seen(e) && /auto|scroll/.test(getComputedStyle(e).overflow));
return [rgb(document.body, "backgroundColor"), rgb(document.body, "color"),
	[...document.querySelectorAll("header, nav, form, input, select, button:not(.link, th *, .mistakes *)")].filter(seen).map((e) => e.outerHTML.slice(0, 200)),
	bars.map((e) => e.outerHTML.slice(0, 100)),
	[...document.querySelectorAll(".line *")].filter((e) => rgb(e, "color") > 200).length];"""


def test_page_prints_light_and_without_navigation(check):
    """On paper a page is light, has no header, forms, buttons and boxes that scroll, and few sheets."""
    with Scene() as scene:
        for name, hash_, ready in PAGES:
            with Page(check, scene.of(name), hash_, dark=True) as page:
                settle(page, lambda: ready(page), f"{name} is shown")
                page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": [
                    {"name": "prefers-color-scheme", "value": "dark"}]})
                back, text, left, bars, bright = page.js(PAPER)
                check.ok(f"{name}: dark on light", back > 700 > 300 > text and not bright, (back, text, bright))
                check.equal(f"{name}: no navigation", left, [])
                check.equal(f"{name}: no boxes that scroll", bars, [])
                pdf = base64.b64decode(page.driver.execute_cdp_cmd("Page.printToPDF", {})["data"])
                sheets = collections.Counter(re.findall(rb"/Type ?/Page\b", pdf)).total()
                check.ok(f"{name}: few sheets", 1 <= sheets <= 20, sheets)
                if os.environ.get("TEST_PAPER"):
                    with open(os.path.join(os.environ["TEST_PAPER"], f"{name}.pdf"), "wb") as f:
                        f.write(pdf)


def test_page_has_pictures_of_all_pages(check):
    """docs/PAGE.md shows each page, wide and on a phone, light and dark, in these sizes."""
    folder = os.path.join(ROOT, "docs")
    with open(os.path.join(folder, "PAGE.md"), encoding="utf-8") as f:
        text = f.read()
    for (name, _, _), (width, height), dark in itertools.product(PAGES, (WIDE, PHONE), ("", "-dark")):
        path = f"page/{name}-{width}{dark}.png"
        with open(os.path.join(folder, path), "rb") as f:
            check.equal(path, struct.unpack(">II", f.read(24)[16:]), (width, height))
        check.ok(f"{path} is shown", f"]({path})" in text)


CORE = [test_page_says_in_time_that_a_server_hangs, test_page_shortcuts_lead_to_pages, test_page_first_visit_is_small]
WHOLE = [test_page_recovers_from_a_network_that_swallows, test_page_shows_that_a_slow_answer_loads,
         test_page_requests_end_without_an_answer, test_page_unseen_tabs_use_no_connection, test_page_header_is_one_line, test_page_does_not_jump,
         test_page_prints_light_and_without_navigation, test_page_has_pictures_of_all_pages]
