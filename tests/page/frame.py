"""The frame of the page: navigation, sign-in, the connection, the machine."""
import re
import signal

from browser import PHONE, Page, settle
from harness import Server, wait_until
from machine import Machine, role
from place import SIGNATURE, Place
from scene import FOREVER, PAGES, Scene
from selenium.webdriver.common.keys import Keys
from signin import PASSWORD, Cluster
from tokens import token, write_file

LOST = re.compile("connection to the server is lost")


def stored(page):
    """Everything that the page keeps: [texts]."""
    return page.js("return [document.cookie, ...Object.values(localStorage), ...Object.values(sessionStorage)].filter(Boolean)")


def at(page, hash_):
    settle(page, lambda: page.hash() == hash_, f"at {hash_}")


def test_page_navigation_works_below_a_prefix(check):
    """Links, titles and unknown pages work, also below /rest-server/."""
    with Machine() as server:
        for below in ("/", "/rest-server/"):
            with Page(check, server, "#/machine", below=below) as page:
                page.find("heading", "Machine")
                check.equal("title", page.driver.title, "Machine - rest-lit")
                current = page.js("return document.querySelector('nav [aria-current=page]').textContent")
                check.equal("the current page is marked", current, "Machine")
                page.go("#/nowhere")
                check.ok("an unknown page", page.shows("There is no page #/nowhere"))
                page.go("#/jobs/%ff")
                check.ok("no UTF-8", page.shows("There is no page #/jobs/%ff"))
                page.click("link", "Machine")
                page.find("heading", "Machine")
                page.driver.back()
                check.ok("back", page.shows("There is no page"))


def test_page_sign_in_with_a_token_stores_nothing(check):
    with Place() as place:
        server, good = place.server(*SIGNATURE), token()
        with Page(check, server, "#/sign-in?then=%23%2Fnowhere") as page:
            check.ok("no password without users", page.find("textbox", "Token") and not page.has("textbox", "User"))
            for wrong, words in (("two words", "no spaces"), (token(secret=b"another secret of the tests"), "refuses this token")):
                page.type("textbox", "Token", wrong)
                page.click("button", "Sign in")
                check.ok(f"refused: {words}", page.shows(words))
            page.type("textbox", "Token", good)
            page.click("button", "Sign in")
            at(page, "/nowhere")
            check.ok("the user's name", page.shows("alice"))
            check.equal("nothing is stored", stored(page), [])
            page.reload()
            at(page, "/nowhere")
            check.ok("not after a reload", page.find("link", "Sign in"))
            page.go("#/sign-in?then=%23%2Fnowhere")
            page.type("textbox", "Token", good)
            page.click("checkbox", "Keep for this tab")
            page.click("button", "Sign in")
            at(page, "/nowhere")
            check.equal("kept when asked for", stored(page), [good])
            page.reload()
            page.click("button", "Sign out")
            check.ok("signed out", page.shows("You are signed out"))
            check.equal("forgotten", stored(page), [])
            page.reload()
            page.find("link", "Sign in")
        check.ok("never in the log", good not in server.settled_log())


def test_page_sign_in_leads_back_to_the_page(check):
    """A page that needs a user leads to the sign-in and back, also when the token ends
    meanwhile."""
    with Place() as place:
        server = place.server(*SIGNATURE)
        with Page(check, server, "#/jobs?state=FAILED&vc=default") as page:
            at(page, "/sign-in?then=#/jobs?state=FAILED&vc=default")
            check.ok("no session has ended", "has ended" not in page.body())
            page.type("textbox", "Token", token())
            page.press(Keys.ENTER)
            at(page, "/jobs?state=FAILED&vc=default")
            write_file(place.directory, "jwt-secret", b"another secret of the tests, long enough")
            server.process.send_signal(signal.SIGHUP)
            settle(page, lambda: server.request("GET", "/api/v2/jobs", headers={"Authorization": f"Bearer {token()}"}).status == 401, "revoked")
            page.go("#/nowhere")
            page.go("#/jobs?state=FAILED&vc=default")
            at(page, "/sign-in?then=#/jobs?state=FAILED&vc=default")
            check.ok("why", page.shows("Your session has ended. Sign in again."))
            check.equal("not as a message that goes", page.js("return document.getElementById('message').textContent"), "")
            check.ok("no user", page.has("link", "Sign in"))
            page.type("textbox", "Token", token(secret=b"another secret of the tests, long enough"))
            page.press(Keys.ENTER)
            at(page, "/jobs?state=FAILED&vc=default")
            page.driver.back()
            check.ok("the sign-in is no step back", "sign-in" not in page.hash())


def test_page_sign_in_with_a_password_stores_nothing(check):
    with Cluster() as cluster, Page(check, cluster.server, "#/sign-in?then=%23%2Fnowhere") as page:
        for user, password in (("alice", "wrong"), ("nobody", PASSWORD)):
            page.type("textbox", "User", user)
            page.type("textbox", "Password", password)
            page.press(Keys.ENTER)
            check.ok(f"{user}: refused", wait_until(lambda: page.text("alert") != ""), page.body())
            check.equal("the password is emptied", page.js("return document.querySelector('[type=password]').value"), "")
            check.equal("the name is kept", page.find("textbox", "User").get_attribute("value"), user)
            check.ok("the password has the focus", page.has_focus("textbox", "Password"), page.focused())
        page.type("textbox", "User", "alice")
        page.type("textbox", "Password", PASSWORD)
        page.press(Keys.ENTER)
        at(page, "/nowhere")
        check.equal("nothing is stored", stored(page), [])
        check.equal("a token", len(cluster.stored()), 1)
        page.click("button", "Sign out")
        check.ok("it is revoked", wait_until(lambda: not cluster.stored()))


def test_page_without_logins_needs_no_sign_in(check):
    """With --no-auth, there is no sign-in or sign-out."""
    with Machine() as server, Page(check, server, "#/sign-in") as page:
        check.ok("says so", page.shows("needs no sign-in; you are alice"))
        check.ok("no buttons", not page.has("button", "Sign out") and not page.has("button", "Sign in"))


def test_page_continues_after_a_killed_server(check):
    """The page reports the lost connection, and continues when the server is back."""
    with Machine() as server:
        with Page(check, server, "#/machine") as page:
            page.find("heading", "Machine")
            settle(page, lambda: page.shows("for jobs"), "shown")
            server.kill()
            check.ok("cut off", page.shows(LOST))
            check.ok("as a status", LOST.search(page.text("status", "Connection")))
            page.go("#/submit")
            check.equal("another page loads", page.text("status", "Loading"), "Loading ...")
            with Machine(where=server.where, port=server.port):
                check.ok("it comes with the server", page.find("heading", "Submit a job"))
                check.ok("back", wait_until(lambda: not LOST.search(page.body())), page.body())
                check.ok("says so", page.shows("The connection is back"))


def test_page_machine_shows_gpus_and_jobs(check):
    with Machine(gpus=3) as server:
        server.start("holds", {"main": role(FOREVER, gpu=2)})
        server.start("waits", {"main": role("true", gpu=2)})
        with Page(check, server, "#/machine") as page:
            tiles = page.text("list", "3 GPUs: 2 in use by jobs, 1 free")
            check.equal("each GPU has its job and user", re.sub(r"\s+", " ", tiles), "0 holds alice 1 holds alice 2 free")
            for table, name in (("Running jobs", "holds"), ("Waiting jobs", "waits")):
                text = page.text("table", table)
                check.ok(table, name in text and "alice" in text, text)
            check.ok("the jobs are links", page.find("link", "holds").get_attribute("href").endswith("#/jobs/alice~holds"))
            server.stop_job("holds")
            check.ok("live", page.shows("No job is waiting."))


def test_page_machine_cuts_nothing_off_on_a_phone(check):
    """On a phone, all figures of the machine can be read without scrolling to the side."""
    with Machine(gpus=3) as server:
        server.start("a" * 100, {"main": role(FOREVER, gpu=2)})
        server.start("no-gpu", {"main": role(FOREVER)})
        server.start("waits", {"main": role("true", gpu=2)})
        with Page(check, server, "#/machine", size=(320, 700)) as page:
            settle(page, lambda: page.has("table", "Waiting jobs") and page.has("table", "Running jobs"), "both tables")
            cut = page.js("return [...document.querySelectorAll('#page *')].filter((e) => e.scrollWidth > e.clientWidth && e.clientWidth > 1 &&"
                          " !e.closest('.gpu') || e.getBoundingClientRect().right > 320).map((e) => e.outerHTML.slice(0, 200))")
            check.equal("nothing is cut off", cut, [])
            text = page.text("table", "Running jobs")
            check.ok("memory and numbers", "64.0 MiB" in text and "0, 1" in text, text)
            hidden = page.js("return [...document.querySelectorAll('.folds td:empty')].map((e) => e.offsetHeight)")
            check.ok("no name without a value", hidden and not any(hidden), hidden)
            check.equal("roles", page.names("columnheader")[:2], ["Job", "User"])


def test_page_frame_works_with_the_keyboard(check):
    """The keyboard alone reaches all elements of the frame."""
    with Place() as place:
        with Page(check, place.server(*SIGNATURE), "#/sign-in?then=%23%2Fnowhere") as page:
            check.ok("the first field has the focus", page.has_focus("textbox", "Token"), page.focused())
            page.press(token(), Keys.ENTER)
            at(page, "/nowhere")
            page.reload()
            page.find("link", "Sign in")
            page.press(Keys.TAB)
            check.ok("first the skip link", page.has_focus("link", "Skip to the content"), page.focused())
            page.press(Keys.ENTER)
            check.ok("it leads to the content", page.has_focus("main", re.compile("")), page.focused())
            page.js("document.activeElement.blur()")
            check.ok("to the sign-in", page.tab_to("link", "Sign in"))


def test_page_fits_on_a_phone_in_dark_and_light(check):
    """A phone scrolls in one direction only; dark and light differ."""
    long = "a-job-with-a-rather-long-name-that-does-not-fit-into-a-narrow-column"
    with Scene() as scene:
        scene.start(long, {"main": role(FOREVER)})
        for dark in (False, True):
            backs = set()
            for name, hash_, ready in PAGES:
                with Page(check, scene.of(name), hash_, size=PHONE, dark=dark) as page:
                    settle(page, lambda: ready(page), f"{name} is shown")
                    width = page.js("return document.documentElement.scrollWidth")
                    check.ok(f"{name}: fits into {PHONE[0]}", width <= PHONE[0], str(width))
                    backs.add(page.js("return getComputedStyle(document.body).backgroundColor"))
            check.equal("one background", len(backs), 1)
            check.ok("dark is dark", (sum(map(int, re.findall(r"\d+", backs.pop())[:3])) < 200) == dark)


def test_page_can_be_turned_off(check):
    """With --no-page, GET / is text, and there are no files."""
    html = {"Accept": "text/html"}
    with Server("--local", "jobs", "--no-page") as server:
        check.equal("/", server.request("GET", "/", headers=html).headers.get("content-type"), "text/plain; charset=utf-8")
        check.equal("/web/main.js", server.request("GET", "/web/main.js").status, 404)


PARSE = """
const { EventParser } = await load("sse");
const text = "\\uFEFFid: 1\\nevent: job\\ndata: {\\"a\\":\\ndata: \\"\\u20ac\\u{1F600}\\"}\\n\\n: ping\\n\\r\\nretry: 700\\r" +
	"event: gone\\rdata:null\\r\\rid: 2\\n\\ndata: 7\\r\\n\\r\\nnothing\\nid: 3\\ndata: 8\\n";
const bytes = new TextEncoder().encode(text), wrong = [];
const wanted = '[["job",{"a":"\\u20ac\\u{1F600}"},"1"],["gone",null,"1"],["message",7,"2"]]2,700';
for (let size = 1; size <= bytes.length; size++) {
	const parser = new EventParser(), seen = [];
	for (let i = 0; i < bytes.length; i += size) {
		parser.feed(bytes.slice(i, i + size), (name, data) => seen.push([name, data, parser.id]));
	}
	const found = JSON.stringify(seen) + [parser.id, parser.retry];
	if (found !== wanted) wrong.push(`${size}: ${found}`);
}
return wrong;"""

CONNECTIONS = """
const { get, watch, session } = await load("api");
const fetch = window.fetch, stop = new AbortController();
let now = 0, most = 0, streams = 0;
window.fetch = async (...args) => {
	most = Math.max(most, ++now);
	if (String(args[0]).includes("watch")) streams++;
	try { return await fetch(...args); } finally { now--; }
};
const followed = Array.from({ length: 6 }, () => watch("api/v2/jobs/watch", {
	signal: stop.signal, event() {} }).catch((e) => e.name));
const rows = await Promise.all(Array.from({ length: 12 }, () => get("api/v2/jobs")));
const open = streams;
stop.abort();
const ends = await Promise.all(followed);
window.fetch = fetch;
return [rows.length, most, open, [...new Set(ends)].join()];"""


def test_page_streams_use_few_connections(check):
    """Server-sent events split at every byte; four connections of a tab, one of which is a stream."""
    with Machine() as server, Page(check, server, "#/sign-in") as page:
        page.find("heading", "Sign in")
        check.equal("events", page.js_async(PARSE), [])
        rows, most, streams, ends = page.js_async(CONNECTIONS)
        check.equal("all requests are answered", (rows, ends), (12, "AbortError"))
        check.ok("four at a time", most <= 4, str(most))
        check.ok("one stream", streams <= 1, str(streams))


FOLLOW = """
const { watch } = await load("api");
window.seen = [];
watch("api/v2/jobs/watch?initial=true", { event: (name, data) => seen.push(data.name), lost: (yes) => seen.push(yes),
	signal: new AbortController().signal });"""


def test_page_streams_continue_after_the_last_event(check):
    """After a kill of the server, a stream continues with the id of its last event."""
    with Machine() as server:
        with Page(check, server, "#/sign-in") as page:
            page.find("heading", "Sign in")
            page.js_async(FOLLOW)
            server.start("first", {"main": role("true")})
            settle(page, lambda: "first" in page.js("return seen") and server.wait("first"), "the first job")
            server.kill()
            settle(page, lambda: page.js("return seen.at(-1)") is True, "the connection is lost")
            check.ok("says so", page.shows(LOST))
            with Machine(where=server.where, port=server.port) as again:
                settle(page, lambda: page.js("return seen.at(-1)") is not True, "it is back")
                again.start("second", {"main": role("true")})
                settle(page, lambda: "second" in page.js("return seen"), "the second job")
            page.look()
            ids = [r["headers"].get("last-event-id") for r in page.requests if "/watch" in r["url"]]
            check.ok("with the id of the last event", not ids[0] and ids[-1] and ids[-1].isdigit(), ids)


CORE = [test_page_navigation_works_below_a_prefix, test_page_sign_in_with_a_token_stores_nothing,
        test_page_continues_after_a_killed_server, test_page_machine_shows_gpus_and_jobs,
        test_page_streams_use_few_connections]
WHOLE = [test_page_machine_cuts_nothing_off_on_a_phone, test_page_streams_continue_after_the_last_event, test_page_sign_in_leads_back_to_the_page,
         test_page_sign_in_with_a_password_stores_nothing, test_page_without_logins_needs_no_sign_in,
         test_page_frame_works_with_the_keyboard, test_page_fits_on_a_phone_in_dark_and_light,
         test_page_can_be_turned_off]
