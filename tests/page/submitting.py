"""The page Submit as a form, its draft, taken names, keys, pasted texts, the folded preview."""
import json
import re

from browser import WIDE, Page, settle
from editor import ACCEPTED, PREVIEW, VIEW, Editor
from harness import Server, wait_until
from place import SIGNATURE, Place
from selenium.webdriver.common.keys import Keys
from tokens import token

RULES = "The text rules now. Clear it to use the form."
FIELDS = (("textbox", "Name"), ("textbox", "Image"), ("spinbutton", "GPUs"), ("spinbutton", "CPUs"), ("textbox", "Memory"),
          ("spinbutton", "Instances"), ("textbox", "Command"))
COMMANDS = (
    "echo one", "true", "- x", "a: b # c", "echo \"# \\n $HOME\" 'it''s' \\\n  --flag\n\techo tab\n\n\nif x; then\n    y\nfi", "# only a comment",
    "  begins with blanks\nx", "\n\nlines first", "ends with a line\n", "ends with lines\n\n\n", "blanks at the end  \n   ", "\ttab first", "tab\tinside",
    "\u0007 bell and \u001b[1mbold", "\u0085\u2028\ufeff\u007f", "\u65e5\u672c \U0001f600", "{\"a\": [1, 2]}", "| x", "a\n|- b", "%TAG", "--- x", "---\n...\n",
    "cat <<'E'\n  $x\nE\n", "`x` & | > < ! * ? @ ~")
V1 = json.dumps({
    "jobName": "one", "image": "debian:12-slim",
    "taskRoles": [{"name": "main", "taskNumber": 1, "cpuNumber": 1, "memoryMB": 100, "gpuNumber": 0, "command": "echo done"}]}, indent="\t")
ENTER = """const input = [...document.querySelectorAll(".form label")]
	.find((label) => label.firstChild.textContent === arguments[0]).lastChild;
input.value = arguments[1];
input.dispatchEvent(new InputEvent("input", { bubbles: true }));"""
PASTE = VIEW + """const data = new DataTransfer();
data.setData("text/plain", args[0]);
view.focus();
view.contentDOM.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));"""
VALUES = "return [...document.querySelectorAll('.form :is(input, textarea)')].map((e) => e.value)"
STORED = "return Object.values(sessionStorage).join()"
SHIFTED = """return await new Promise((done) => {
	let sum = 0;
	new PerformanceObserver((list) => {
		for (const entry of list.getEntries()) sum += entry.value;
	}).observe({ type: "layout-shift", buffered: true });
	setTimeout(() => done(sum), 200);
});"""
SLOW_POSTS = """const fetch = window.fetch;
window.fetch = async (url, options) => {
	if (options.method === "POST" && !String(url).includes("dryRun")) await new Promise((done) => setTimeout(done, 700));
	return fetch(url, options);
};"""


def is_open(page, name):
    return page.js("""return [...document.querySelectorAll("details")]
        .find((e) => e.querySelector("summary").textContent.startsWith(arguments[0])).open""", name)


def submissions(page):
    """How many POSTs have asked for a job."""
    page.look()
    return len([r for r in page.requests if r["method"] == "POST" and "dryRun" not in r["url"]])


def submit(page, name):
    page.click("button", "Submit")
    settle(page, lambda: page.hash() == f"/jobs/alice~{name}", f"{name} is submitted")


# ---- the form ----
def test_page_form_writes_a_job(check):
    """The form writes a valid job, which is checked and submitted; a change by hand ends this until
    the text is empty again."""
    with Server("--engine=none", "--local", "jobs") as server, Editor(check, server) as page:
        check.ok("open without a text", is_open(page, "Form"))
        for (role, name), value in zip(FIELDS, ("formed", "alpine:3", "2", "3", "1,5 GiB", "4", "echo \"a # b\"\necho '\\n'")):
            page.type(role, name, value)
        settle(page, page.is_ready, "a valid job")
        submit(page, "formed")
        config = json.loads(server.request("GET", "/api/v2/jobs/alice~formed/config").body)
        check.equal("the job", config, {
            "protocolVersion": 2, "name": "formed", "type": "job",
            "prerequisites": [{"name": "image", "type": "dockerimage", "uri": "alpine:3"}],
            "taskRoles": {"main": {"instances": 4, "dockerImage": "image", "resourcePerInstance": {"gpu": 2, "cpu": 3, "memoryMB": 1536},
                                   "commands": ["echo \"a # b\"\necho '\\n'"]}}})
        page.go("#/submit")
        page.type("textbox", "Name", "second")
        check.ok("no values of the job before", "echo" not in page.written(), page.written())
        page.find("textbox", "Job").send_keys("# mine")
        check.ok("the text rules", page.shows(RULES) and not page.find("textbox", "Name").is_enabled())
        check.ok("nothing moves while one writes", is_open(page, "Form"))
        check.equal("it shows no other job's values", page.js(VALUES), [""] * len(FIELDS))
        page.js_async(VIEW + "view.focus();")
        settle(page, lambda: page.find("textbox", "Name").is_enabled() or page.chord("z"), "its own text again")
        check.equal("... with its values", page.js(VALUES)[:2], ["second", "debian:12-slim"])
        page.drop(ACCEPTED % "other")
        page.set("", 0)
        check.ok("until it is empty", wait_until(lambda: RULES not in page.body()) and page.find("textbox", "Name").is_enabled())
        check.equal("with its presets", page.js(VALUES)[:3], ["", "debian:12-slim", "0"])
        page.js("document.activeElement.blur()")
        page.drop(ACCEPTED % "other")
        check.ok("folded for a file", page.shows(RULES) and not is_open(page, "Form"))


def test_page_form_keeps_every_command(check):
    """Any command reaches the job unchanged; wrong values are written for the server to explain."""
    with Server("--engine=none", "--local", "jobs") as server, Editor(check, server) as page:
        for i, command in enumerate(COMMANDS):
            page.js(ENTER, "Name", f"c{i}")
            page.js(ENTER, "Command", command)
            reply = server.submit(page.written())
            check.equal(f"{command!r}: accepted", reply.status, 202)
            config = server.request("GET", f"/api/v2/jobs/alice~c{i}/config").json
            check.equal(f"{command!r}: the same", config["taskRoles"]["main"]["commands"], [command])
        for name, value, mistake in (("Memory", "much", "memoryMB"), ("CPUs", "", "cpu"), ("Instances", "0", "instances"), ("Command", " ", "commands"),
                                     ("Image", "", "uri"), ("Name", "a: b", "name")):
            before = page.js("""return [...document.querySelectorAll(".form label")]
                .find((label) => label.firstChild.textContent === arguments[0]).lastChild.value""", name)
            page.js(ENTER, name, value)
            check.ok(f"{name}: {value!r}", wait_until(lambda: mistake in page.js("return document.querySelector('.mistakes').textContent")), page.body())
            page.js(ENTER, name, before)


# ---- the draft ----
def test_page_draft_survives_a_reload(check):
    """The text and the form survive a reload; a submission, a sign-out and another user end this."""
    with Server("--engine=none", "--local", "jobs") as server, Editor(check, server) as page:
        text = (ACCEPTED % "kept").replace("\n", "\r\n") + "# \u65e5"
        page.drop(text)
        page.reload()
        page.find("textbox", "Job")
        check.equal("the same bytes", page.written(), text)
        settle(page, page.is_ready, "checked")
        submit(page, "kept")
        page.go("#/submit")
        page.find("textbox", "Job")
        check.equal("gone after the submission", (page.written(), page.js(STORED)), ("", ""))
        page.type("textbox", "Name", "formed")
        page.reload()
        check.ok("the form continues", page.find("textbox", "Name").is_enabled() and page.find("textbox", "Name").get_attribute("value") == "formed")
        page.drop(ACCEPTED.replace("type: job", "secrets: {a: b}\ntype: job") % "secret")
        check.equal("secrets are not stored", page.js(STORED), "")
        warned = "const e = new Event('beforeunload', { cancelable: true }); dispatchEvent(e); return e.defaultPrevented"
        check.ok("but the browser asks before they are lost", page.js(warned))
        page.go("#/jobs")
        page.find("heading", "Jobs")
        page.go("#/submit")
        page.find("textbox", "Job")
        check.ok("another page does not lose them", "secrets" in page.written())
        page.set("", 0)
        check.ok("nothing to lose", not page.js(warned))
        page.js("sessionStorage.setItem('rest-lit-draft', JSON.stringify({ user: 'bob', text: 'of bob', fields: {} }))")
        page.reload()
        page.find("textbox", "Job")
        check.equal("not that of another user", (page.written(), page.js(STORED)), ("", ""))


def test_page_draft_ends_with_a_sign_out(check):
    """A sign-out removes the draft, on any page."""
    with Place() as place, Page(check, place.server(*SIGNATURE), "#/sign-in?then=%23%2Fsubmit") as page:
        for leave in ("#/submit", "#/jobs"):
            page.type("textbox", "Token", token())
            page.click("checkbox", "Keep for this tab")
            page.press(Keys.TAB, Keys.ENTER)
            page.find("textbox", "Job")
            check.equal("empty", Editor.written(page), "")
            page.type("textbox", "Name", "mine")
            check.ok("stored", wait_until(lambda: "mine" in page.js(STORED)))
            page.reload()
            page.find("textbox", "Job")
            page.go(leave)
            page.reload()
            page.click("button", "Sign out")
            check.equal("nothing is stored", page.js(STORED), "")
            page.go("#/sign-in?then=%23%2Fsubmit")


# ---- names ----


def test_page_offers_a_free_name_for_a_taken_one(check):
    """A taken name is answered with a free one, which changes the name in the text alone."""
    cases = [("a", (ACCEPTED % "'a' # name: a").replace("\n", "\r\n")), ("one", V1)]
    with Server("--engine=none", "--local", "jobs") as server, Editor(check, server) as page:
        for name, text in cases:
            reply = server.request("POST", "/api/v1/jobs", text, {"Content-Type": "text/yaml"})
            check.equal(f"{name}: submitted", reply.status, 202)
            page.drop(text)
            settle(page, page.is_ready, "checked")
            page.click("button", "Submit")
            settle(page, lambda: f"The name {name} is taken; {name}-2 is free." in page.text("alert"), "says so")
            page.click("button", f"Use {name}-2")
            at = re.search(rf"ame\"?: [\"']?{name}", text).end()
            check.equal(f"{name}: the name alone is another", page.written(), f"{text[:at]}-2{text[at:]}")
            check.ok("the way leads on", page.has_focus("button", "Submit"), page.focused())
            page.press(Keys.ENTER)
            settle(page, lambda: page.hash() == f"/jobs/alice~{name}-2", "submitted")
            page.go("#/submit")
            page.find("textbox", "Job")
        page.type("textbox", "Name", "a")
        page.type("textbox", "Command", "true")
        settle(page, page.is_ready, "checked")
        page.click("button", "Submit")
        page.click("button", "Use a-3")
        check.equal("the form has it", page.find("textbox", "Name").get_attribute("value"), "a-3")
        submit(page, "a-3")


# ---- submissions ----
def test_page_submits_once_by_clicks_and_keys(check):
    """Ctrl+Enter submits, in the editor and the form; what is done twice submits once, and warnings
    are told."""
    warned = (ACCEPTED % "warned").replace("type: job", "type: job\njobRetryCount: 010")
    with Server("--engine=none", "--local", "jobs") as server, Editor(check, server) as page:
        page.js(SLOW_POSTS)
        page.drop(warned)
        settle(page, page.is_ready, "checked")
        page.js("const button = document.querySelector('button.primary'); button.click(); button.click();")
        check.ok("says so", page.shows("Submitting"))
        page.find("textbox", "Job").send_keys(" ")
        page.chord(Keys.ENTER)
        settle(page, lambda: page.hash() == "/jobs/alice~warned", "submitted")
        check.ok("the warning is told", page.shows(re.compile("Submitted: alice~warned. Warning: jobRetryCount is 8")))
        check.equal("once", submissions(page), 1)
        page.go("#/submit")
        page.drop(ACCEPTED.replace("cpu", "cxu") % "wrong")
        page.find("textbox", "Job").click()
        page.chord(Keys.ENTER)
        check.ok("not with mistakes", page.shows("Not submitted: correct the mistakes first."))
        page.drop(ACCEPTED % "by-keys")
        page.find("textbox", "Job").click()
        page.chord(Keys.ENTER)
        settle(page, lambda: page.hash() == "/jobs/alice~by-keys", "submitted in the editor")
        page.go("#/submit")
        page.type("textbox", "Name", "by-form")
        page.type("textbox", "Command", "true")
        page.chord(Keys.ENTER, Keys.META)
        settle(page, lambda: page.hash() == "/jobs/alice~by-form", "submitted in the form")
        check.equal("each once", submissions(page), 4)


def test_page_takes_pasted_json(check):
    """JSON of both versions can be pasted; mistakes are marked at their places."""
    pasted = json.dumps({
        "protocolVersion": 2, "name": "two", "type": "job", "prerequisites": [{"name": "i", "type": "dockerimage", "uri": "debian:12-slim"}],
        "taskRoles": {"main": {"dockerImage": "i", "resourcePerInstance": {"cpu": 1, "memoryMB": 64, "gpu": 0}, "commands": ["echo done"]}}}, indent=4)
    with Server("--engine=none", "--local", "jobs") as server, Editor(check, server) as page:
        for name, text, key in (("two", pasted, "memoryMB"), ("one", V1, "cpuNumber")):
            page.set("", 0)
            wrong = text.replace(key, "x" + key)
            page.js_async(PASTE, wrong)
            check.equal(f"{name}: as it is", page.written(), wrong)
            line = wrong[:wrong.index("x" + key)].count("\n") + 1
            settle(page, lambda: any(t.startswith(f"line {line}: unknown key `x{key}`") for t, _ in page.listed()), "the mistake")
            page.set("", 0)
            page.js_async(PASTE, text.replace("\n", "\r\n"))
            check.equal(f"{name}: lines", page.written(), text)
            settle(page, page.is_ready, "no mistakes")
            submit(page, name)
            page.go("#/submit")
            page.find("textbox", "Job")


# ---- the preview ----
def test_page_preview_is_folded_and_never_empty(check):
    """The editor has the whole width until the preview is opened, which says why it has no objects;
    nothing moves when checks come."""
    width = "return document.querySelector('.editor').offsetWidth"
    toggle = "document.querySelector('.preview summary').click()"
    seen = "const pre = document.querySelector('.preview pre'); return [pre.offsetWidth > 0, pre.textContent !== '']"
    with Server("--engine=none", "--local", "jobs") as server, Editor(check, server) as page:
        check.ok("folded, the whole width", not is_open(page, "Preview") and page.js(width) > WIDE[0] - 60, page.js(width))
        page.js(toggle)
        check.ok("no text", page.shows("there is no text"))
        check.equal("no empty box", page.js(seen), [False, False])
        check.ok("beside the editor", page.js(width) < WIDE[0] / 2)
        page.drop(ACCEPTED.replace("cpu", "cxu") % "seen")
        check.ok("mistakes", page.shows("the text has mistakes"))
        check.equal("no empty box", page.js(seen), [False, False])
        page.drop(ACCEPTED % "seen")
        settle(page, lambda: page.js(seen) == [True, True], "the objects")
        check.ok("of this text", "seen" in page.js(PREVIEW))
        page.go("#/jobs")
        page.find("heading", "Jobs")
        page.go("#/submit")
        page.find("textbox", "Job")
        check.ok("it stays open", is_open(page, "Preview"))
        page.js(toggle)
        page.reload()
        page.find("textbox", "Job")
        for text in (ACCEPTED, ACCEPTED.replace("cpu", "cxu"), ACCEPTED.replace(": ", ":: ")):
            page.drop(text % "still")
            settle(page, page.is_checked, "checked")
        check.ok("nothing moves", page.js_async(SHIFTED) < 0.02, page.js_async(SHIFTED))


CORE = [test_page_form_writes_a_job, test_page_offers_a_free_name_for_a_taken_one]
WHOLE = [test_page_submits_once_by_clicks_and_keys, test_page_form_keeps_every_command, test_page_draft_survives_a_reload, test_page_draft_ends_with_a_sign_out,
         test_page_takes_pasted_json, test_page_preview_is_folded_and_never_empty]
