"""The page of a job: from its start to its end, failures, and what users do with it."""
import base64
import fcntl
import json
import os
import re
import tempfile

from archives import archive
from browser import PHONE, WIDE, Page, settle
from fetching import ended
from harness import wait_until
from machine import NOBODY, Machine, job, role
from place import SIGNATURE, Place
from selenium.webdriver.common.keys import Keys
from tokens import SECRET, token, write_file
from users import Site
from watching import COLOURS, FOREVER, JSON, chart, log_text, state


VISIBLE = """
const log = document.querySelector("[role=log]"), { top, bottom } = log.getBoundingClientRect();
const lines = [...log.querySelectorAll(".line")].filter((line) => {
	const box = line.getBoundingClientRect();
	return box.top >= Math.max(0, top) - 1 && box.bottom <= Math.min(innerHeight, bottom) + 1; });
return [lines.map((line) => line.innerText), scrollY, document.documentElement.scrollHeight - innerHeight];"""
LEFT = "const box = arguments[0].getBoundingClientRect(); return [box.left, box.right, box.top, box.bottom, box.height]"
PANEL = """const panel = document.querySelector('[aria-label="Failure"]'), [back, meaning, code] = [panel, panel.querySelector("strong"),
	[...panel.querySelectorAll("*")].findLast((e) => e.textContent.includes("PAIRuntime"))].map(getComputedStyle);
const [red, green, blue] = back.backgroundColor.match(/\\d+/g).map(Number);
return [red > green + 10 && red > blue + 10, parseFloat(code.fontSize) < parseFloat(meaning.fontSize), code.fontWeight < meaning.fontWeight];"""
PARTS = "return [...document.querySelectorAll('[role=img] > *')].filter((e) => e.offsetWidth && e.offsetHeight).map((e) => getComputedStyle(e).backgroundColor)"
READABLE = """const e = document.querySelector(arguments[0]);
if (!e) return false;
const probe = document.body.appendChild(document.createElement("p"));
probe.className = "error";
const wanted = getComputedStyle(probe).color, { color, fontSize } = getComputedStyle(e);
probe.remove();
return e.innerText.includes("Not shown: ") && color === wanted && parseFloat(fontSize) >= 13;"""
MARKED = "return [...document.querySelectorAll('.line.cause')].map((line) => line.innerText)"
COPY = "navigator.clipboard.writeText = async (text) => { window.copied = text; };"


def details(page, view="details"):
    page.find("tab", re.compile(view, re.I))
    page.click("tab", re.compile(view, re.I))


def test_page_job_is_followed_to_its_end(check):
    """The page shows a job from start to end: name, state, title, log with colours and a progress
    bar, search, details, events, configuration."""
    with Machine() as server:
        server.start("train", {"main": role(COLOURS, FOREVER)})
        with Page(check, server, "#/jobs/alice~train") as page:
            settle(page, lambda: "RUNNING" in state(page), "it runs")
            settle(page, lambda: "Needle" in log_text(page), "the log comes")
            check.ok("the heading is the name alone", page.has("heading", "train"), page.names("heading"))
            check.equal("the title", page.driver.title, "train · RUNNING")
            check.ok("progress bar and text", "red plain\nstep 2\nNeedle <b>one</b>" in log_text(page), log_text(page))
            red = page.js("return [...document.querySelectorAll('.line .bold')].map((e) => [e.textContent, getComputedStyle(e).color])")
            check.equal("colours", red, [["red", "rgb(255, 123, 114)"]])
            check.ok("tasks, with their durations", re.search(r"RUNNING\s+\d+[ms]", page.text("table", "Tasks")), page.text("table", "Tasks"))
            line = page.use("image", re.compile(r"^waited (\d+[ms] ?)+, ran (\d+[ms] ?)+$"), lambda element: page.js(LEFT, element))
            check.ok("waited and ran: a thin line", line[4] <= 8)
            check.equal("... of two colours", len(set(page.js(PARTS))), 2)
            check.ok("no facts beside the log", "Virtual cluster" not in page.body())
            page.type("searchbox", "Search in the log", "NEEDLE")
            check.ok("search", page.shows("1 line"))
            page.press(Keys.ENTER)
            check.ok("at the line", page.shows("1 of 1 line"))
            check.equal("marked", page.js("return [...document.querySelectorAll('mark')].map((e) => e.textContent)"), ["Needle"])
            check.ok("no attempts", not page.has("tab", "Attempts"))
            details(page)
            check.ok("in the place of the log", page.gone("log"))
            check.ok("not in its image", page.shows("runs on this machine's files, not in debian:12-slim"))
            check.ok("no way to log in: there is no sshd", page.shows(re.compile("ssh [0-9]")) and "ssh -p" not in page.body(), page.body())
            server.request("PUT", "/api/v2/jobs/alice~train/tag", '{"value": "blue"}', JSON)
            server.stop_job("train")
            settle(page, lambda: "STOPPED" in state(page), "it ends")
            check.equal("also in the title", page.driver.title, "train · STOPPED")
            check.ok("the tag", page.shows("blue"))
            check.ok("... in its line", page.find("image", re.compile(r", stopped 20")))
            check.equal("... of three colours", len(set(page.js(PARTS))), 3)
            keys = page.js("return [...document.querySelectorAll('.time-line span')].map((e) => [e.innerText.split(' ')[0], getComputedStyle(e.firstChild).backgroundColor])")
            check.equal("... which have words", keys, [list(one) for one in zip(("waited", "ran", "stopped"), page.js(PARTS))])
            check.ok("no chart of one task", "Tasks by state" not in page.body() and not chart(page))
            details(page, "events")
            check.ok("events", wait_until(lambda: "Scheduled" in page.text("table", "Events")))
            details(page, "configuration")
            check.ok("the configuration", page.shows('"train"'))
            check.ok("no stop", not page.has("button", "Stop"))
            details(page, "log")
            check.equal("the log, once", log_text(page).count("Needle"), 1)


def test_page_job_puts_the_log_first(check):
    """At 1400x900, at least 25 lines of the log with the newest are in view, at 390x844 the state and
    the last lines, also of a failed job; the head is one line."""
    with Machine(gpus=2) as server:
        many = "for i in $(seq 100); do echo step $i; done"
        server.start("well", {"main": role(many, FOREVER, gpu=1)})
        server.start("a-failed-job", {"main": role(many, "exit 3")})
        server.start("w" * 60, {"main": role("true", gpu=2)})
        server.wait("a-failed-job")
        for size, most in ((WIDE, 25), (PHONE, 6)):
            for name in ("well", "a-failed-job"):
                with Page(check, server, f"#/jobs/alice~{name}", size=size) as page:
                    page.find("log", "Log of main[0]")
                    settle(page, lambda: "step 100" in "".join(page.js(VISIBLE)[0]), f"{name}: the newest line is in view")
                    lines, scrolled, hidden = page.js(VISIBLE)
                    tasks, log = (page.use(*one, lambda element: page.js(LEFT, element)) for one in (("region", "Tasks"), ("log", "Log of main[0]")))
                    beside = tasks[1] <= log[0] and tasks[1] - tasks[0] <= 340 and tasks[2] < log[2] if size == WIDE else tasks[3] <= log[2]
                    check.ok(f"{name}, {size[0]}: a narrow list beside the log", beside, (tasks, log))
                    check.ok(f"{name}, {size[0]}: lines", len(lines) >= most, (len(lines), lines))
                    check.equal(f"{name}, {size[0]}: no scrolling", (scrolled, hidden), (0, 0))
                    pill = page.use("status", "State", lambda element: page.js(LEFT, element))
                    check.ok(f"{name}, {size[0]}: the state is in view", 0 < pill[2] < pill[3] < size[1], pill)
        with Page(check, server, f"#/jobs/alice~{'w' * 60}") as page:
            settle(page, lambda: "WAITING" in state(page) and "GPU" in state(page), "it waits, and says why")
            boxes = [page.use(kind, name, lambda element: page.js(LEFT, element)) for kind, name in
                     (("heading", "w" * 60), ("status", "State"), ("button", "Copy link"))]
            check.ok("one line", max(b[2] for b in boxes) < min(b[3] for b in boxes), boxes)
            check.ok("within the window", boxes[2][1] <= WIDE[0] and boxes[0][4] < 40, boxes)
            told = page.use("status", "State of the log", lambda element: page.js(LEFT, element))
            check.ok("no log, said where it will be", page.shows("There is no log yet.") and told[3] < 250, told)
            for i in range(30):
                server.request("PUT", f"/api/v2/jobs/alice~{'w' * 60}/tag", f'{{"value": "tag-{i}"}}', JSON)
            settle(page, lambda: page.has("button", "Remove tag tag-29"), "many tags")
            pill = page.js(LEFT, page.js("return document.querySelector('.job-head .state')"))
            add = page.use("button", "Add a tag", lambda element: page.js(LEFT, element))
            check.ok("beside each other", pill[1] < add[0] < add[1] < boxes[2][0], (pill, add, boxes))
            cut = page.js("const cell = document.querySelector('.tasks td:nth-child(3)'); cell.textContent = '59m 59s'; return cell.scrollWidth - cell.clientWidth")
            check.equal("no duration is cut", cut, 0)
            details(page)
            check.ok("the reason as a fact", page.shows(re.compile(r"Why it waits\s+.*GPU")))
            check.ok("all of the reason on hover", "GPU" in page.js("return document.querySelector('.why').title"))


def test_page_job_shows_the_ssh_command(check):
    """The page shows the ssh command of tasks in which the plugin ssh runs sshd."""
    ssh = {"plugin": "ssh", "parameters": {"jobssh": False, "userssh": {"type": "custom", "value": ""}}, "taskroles": ["main"]}
    with Machine() as server:
        server.start("reach", {"main": role(FOREVER), "other": role(FOREVER)}, extras={"com.microsoft.pai.runtimeplugin": [ssh]})
        with Page(check, server, "#/jobs/alice~reach?view=details") as page:
            settle(page, lambda: "RUNNING" in state(page), "it runs")
            page.click("button", "main[0]")  # at first the page shows the one that ran first
            check.ok("the command", page.shows(re.compile(r"SSH\s+ssh -p \d+ root@")), page.body())
            page.click("button", "other[0]")
            settle(page, lambda: page.has("region", "Task other[0]"), "the other task")
            check.ok("... has none", "SSH" not in page.text("region", "Task other[0]"), page.text("region", "Task other[0]"))


def test_page_job_explains_a_failure(check):
    """A failure is one panel: which task, which line (one click away, marked), what it means, what to
    do; without a known line, the last ones."""
    sentence, phrase = "The command failed with an error that only its log explains", "PAIRuntimeUnknownFailed"
    with Machine() as server:
        worker = ("for i in $(seq 300); do echo step $i; done", "[ $PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX = 1 ] || sleep 1000",
                  "echo 'ValueError: bad shape' >&2", "for i in $(seq 3); do echo cleaning; done; exit 1")
        server.start("bad", {"worker": role(*worker, instances=3)})
        server.start("dull", {"main": role("echo to stdout", "echo to stderr >&2", "exit 3")})
        server.start("silent", {"main": role("exit 3")})
        for name in ("bad", "dull", "silent"):
            server.wait(name)
        with Page(check, server, "#/jobs/alice~silent") as page:
            settle(page, lambda: page.has("region", "Failure"), "the failure")
            check.ok("no output", "main[0] failed\nIt wrote no output.\nWhat to do" in page.text("region", "Failure").replace("\n\n", "\n"), page.text("region", "Failure"))
        with Page(check, server, "#/jobs/alice~bad") as page:
            settle(page, lambda: "cleaning" in log_text(page, "worker[1]"), "the log of the task that failed")
            panel = page.text("region", "Failure")
            check.ok("the task and its followers", "worker[1] failed first; 2 others only followed" in panel, panel)
            check.ok("the reason and the line are a sentence, first", panel.startswith(f"{sentence}: ValueError: bad shape"), panel)
            check.ok("what to do", "What to do: " in panel, panel)
            for text in (sentence, phrase, "What to do", "ValueError: bad shape"):
                check.equal(f"once: {text}", page.js("return document.querySelector('.job').innerText").replace(
                    log_text(page, "worker[1]"), "").count(text), 1)
            check.equal("a red panel, the name of the code small", page.js(PANEL), [True, True, True])
            check.equal("first in the list", page.js("return document.querySelector('.tasks tbody button').textContent"), "worker[1]")
            check.equal("marked in the log", page.js(MARKED), ["ValueError: bad shape"])
            page.js("document.querySelector('[role=log]').scrollTop = 0")
            settle(page, lambda: not page.js(MARKED), "the line is out of view")
            details(page)
            check.equal("not in the details", page.body().count(sentence) + page.body().count(phrase), 2)
            check.ok("the diagnostics", page.find("DisclosureTriangle", "Diagnostics of the job"))
            page.click("button", "ValueError: bad shape")
            settle(page, lambda: page.js(MARKED) == ["ValueError: bad shape"], "the line is shown")
            check.ok("a press shows the task", page.js("return document.querySelector('.tasks [aria-current]').textContent") == "worker[1]")
        with Page(check, server, "#/jobs/alice~dull") as page:
            settle(page, lambda: "to stderr" in log_text(page), "the log")
            panel = page.text("region", "Failure")
            check.ok("255 with its last lines", re.search(r"255 PAI\w+\s+the command ended with 3\s+main\[0\] failed.*to stdout\nto stderr", panel, re.S), panel)
            check.equal("marked, too", page.js(MARKED), ["to stderr"])
            check.equal("no code beside the state", state(page).strip(), "FAILED")
            for name, other in (("stdout", "stderr"), ("stderr", "stdout")):
                page.js("const s = document.querySelector('select[aria-label=Output]'); s.value = arguments[0];"
                        "s.dispatchEvent(new Event('change'))", name)
                settle(page, lambda: f"to {name}" in log_text(page) and f"to {other}" not in log_text(page), name)
            link = page.js_async("""
                let found;
                HTMLAnchorElement.prototype.click = function () { found = [this.getAttribute("href"), this.download]; };
                [...document.querySelectorAll("button")].find((b) => b.textContent === "Download the log").click();
                while (!found) await new Promise((next) => setTimeout(next, 50));
                delete HTMLAnchorElement.prototype.click;
                return [found[1], await (await fetch(found[0])).text()];""")
            check.ok("the download is a link", link[0] == "dull-main-0-stderr.log" and "to stderr\n" in link[1], link)


def test_page_job_says_why_it_was_stopped(check):
    """The reason of a stop by the server is beside the state, not a failure."""
    with Machine() as server:
        server.start("limited", {"main": role(FOREVER)}, extras={"maxDurationSec": 1})
        server.wait("limited")
        with Page(check, server, "#/jobs/alice~limited") as page:
            settle(page, lambda: "STOPPED" in state(page), "it was stopped")
            check.ok("why", "its time limit" in state(page), state(page))
            check.ok("no failure", not page.has("region", "Failure"))


def test_page_held_job_says_why_and_is_released(check):
    """What it waits for, in the list and in its details; Release starts it, and is there for held jobs only."""
    with Machine() as server:
        reply = server.submit(job("later", {"main": role("sleep 60")}), path="/api/v2/jobs?hold=true")
        check.equal("submit", reply.status, 202)
        with Page(check, server, "#/jobs") as page:
            check.ok("in the list", page.shows("until it is released"), page.body())
        with Page(check, server, "#/jobs/alice~later") as page:
            check.ok("in details", page.shows("until it is released: rest-lit release"), page.body())
            page.click("button", "Release")
            settle(page, lambda: "RUNNING" in state(page), "it runs")
            check.ok("no button", page.gone("button", "Release"))


def test_page_job_can_be_stopped_cloned_and_tagged(check):
    """Stop asks, and says how long the tasks get; clone, resubmit and tags work; an ended job can be
    deleted; a job may not exist or may be removed."""
    with Machine() as server:
        server.start("work", {"main": role(FOREVER)})
        with Page(check, server, "#/jobs/alice~work") as page:
            settle(page, lambda: "RUNNING" in state(page), "it runs")
            helps = page.js("return Object.fromEntries([...document.querySelectorAll('.actions button')].map((b) => [b.textContent, b.title]))")
            for name, words in (("Clone", "open the text in the editor under a new name"), ("Resubmit", "at once, under the next free name"),
                                ("Download", "the text as a file")):
                check.ok(f"{name} says what it does", words in helps[name], helps)
            page.click("button", "Add a tag")
            check.ok("the field has the focus", page.has_focus("textbox", "New tag"), page.focused())
            page.press("nightly", Keys.ENTER)
            page.click("button", "Remove tag nightly")
            check.ok("removed again", page.gone("button", "Remove tag nightly"))
            check.equal("no tags", server.request("GET", "/api/v2/jobs/alice~work").json["tags"], [])
            check.ok("no way to delete it", not page.has("button", "Delete"))
            page.press("s")
            check.ok("how long the tasks get", page.shows("The tasks get 30 s to end; then they are killed. A stopped job cannot be continued."), page.body())
            page.click("button", "Let it run")
            check.equal("not stopped", server.state("work"), "RUNNING")
            place = lambda name: page.use("button", name, lambda element: page.js(LEFT, element))  # noqa: E731
            page.resize(PHONE)
            narrow = place("Stop")
            page.resize(WIDE)
            places = {name: place(name) for name in ("Stop", "Clone", "Download")}
            page.click("button", "Stop")
            page.click("button", "Stop the job")
            settle(page, lambda: "STOPPED" in state(page), "it stops")
            check.ok("no button", page.gone("button", "Stop"))
            page.press("s")
            check.ok("nor by its key", not page.has("dialog"), page.names("dialog"))
            check.ok("Delete is not where Stop was", place("Delete")[0] >= places["Stop"][1], (place("Delete"), places))
            check.equal("no button has moved", [place(name) for name in ("Clone", "Download")], [places[name] for name in ("Clone", "Download")])
            page.resize(PHONE)
            at = place("Delete")
            check.ok("... nor on a phone", at[0] >= narrow[1] or at[2] >= narrow[3], (at, narrow))
            page.resize(WIDE)
            page.click("button", "Resubmit")
            settle(page, lambda: page.hash() == "/jobs/alice~work-2" and page.has("heading", "work-2"), "the new job opens")
            settle(page, lambda: "RUNNING" in state(page), "it runs")
            page.forgive("web/submit.js")
            page.press("c")
            settle(page, lambda: page.hash().startswith("/submit"), "clone opens the editor")
            page.go("#/jobs/alice~absent")
            check.ok("no such job", page.shows("There is no job alice~absent"))
            check.equal("its title", page.driver.title, "Not found - rest-lit")
            page.go("#/jobs/alice~work")
            page.click("button", "Delete")
            check.ok("names the job", page.shows("Delete work? Its logs"))
            page.click("button", "Keep it")
            page.click("button", "Delete")
            page.click("button", "Delete the job")
            settle(page, lambda: page.hash() == "/jobs", "the list")
            check.ok("says so", page.shows("Deleted: work."))
            page.go("#/jobs/alice~work")
            check.ok("it is gone", page.shows("There is no job alice~work"))
            page.go("#/jobs/alice~work-2")
            settle(page, lambda: "RUNNING" in state(page), "the other job")
            server.request("DELETE", "/api/v1/user/alice/jobs/work-2")
            check.ok("it was removed meanwhile", page.shows("The job was removed"))


def test_page_job_clones_under_a_free_name(check):
    with Machine() as server:
        for name in ("work", "work-2"):
            server.start(name, {"main": role("true")})
        with Page(check, server, "#/jobs/alice~work") as page:
            settle(page, lambda: page.has("button", "Clone"), "the job")
            page.js("window.seen = []; addEventListener('hashchange', ({ newURL }) => seen.push(newURL))")
            page.forgive("web/submit.js")
            page.click("button", "Clone")
            settle(page, lambda: page.js("return seen.length > 0"), "the editor opens")
            check.ok("a free name", page.js("return seen[0]").endswith("#/submit?from=alice%7Ework&name=work-3"), page.js("return seen"))


def test_page_job_has_an_address_for_each_line(check):
    """The address has attempt, task, line and tab; "Copy link" gives it; whoever opens it is there."""
    with Machine(gpus=4) as server:
        server.start("wide", {"worker": role("seq -f 'line %g' 3000; sleep 1000", instances=2, gpu=2), "ps": role("sleep 1000")})
        server.wait("wide", "RUNNING")
        with Page(check, server, "#/jobs/alice~wide") as page:
            settle(page, lambda: "line 3000" in log_text(page, "worker[0]"), "the first task")
            check.ok("the indexes of GPUs", re.search(r"worker\[0\].*0-1\s.*worker\[1\].*2-3", page.text("table", "Tasks"), re.S), page.text("table", "Tasks"))
            page.press("j")
            settle(page, lambda: "line 3000" in log_text(page, "worker[1]"), "j: the next task")
            check.equal("in the address", page.hash(), "/jobs/alice~wide?task=worker[1]")
            page.press("k")
            settle(page, lambda: page.has("log", "Log of worker[0]"), "k: the one before")
            page.press("/", "line 700", Keys.ENTER)
            settle(page, lambda: "line=" in page.hash(), "the line is in the address")
            line = re.search(r"line=(\d+)", page.hash())[1]
            check.equal("with attempts and task", page.hash(), f"/jobs/alice~wide?attempt=1&task=worker[0]&try=1&line={line}")
            page.js(COPY)
            page.click("button", "Copy link")
            settle(page, lambda: page.shows("Copied: the link"), "it says so")
            link = page.js("return window.copied")
            page.js("navigator.clipboard.writeText = async () => { throw new Error('no'); };")
            page.click("button", "Copy link")
            check.equal("or a field to copy from", page.find("textbox", "the link").get_attribute("value"), link)
            page.click("button", "Done")
        with Page(check, server, link[link.index("#"):]) as page:
            settle(page, lambda: page.js("return document.querySelector('.line.current')?.innerText") == "line 700", "another browser is there")
            page.click("button", "All tasks")
            settle(page, lambda: page.has("log", "Log of all tasks"), "all tasks in one log")
            page.type("searchbox", "Search in the log", "line 3000")
            check.ok("the lines of both", page.shows("2 lines"))
            check.equal("... in the address", page.hash(), "/jobs/alice~wide?attempt=1&task=*")
            page.click("tab", "Events")
            check.equal("the tab, too", page.hash(), "/jobs/alice~wide?attempt=1&task=*&view=events")
            page.press(Keys.ARROW_RIGHT)
            check.equal("by the keyboard", page.hash(), "/jobs/alice~wide?attempt=1&task=*&view=config")
            page.reload()
            settle(page, lambda: page.shows('"ps"') and page.find("tab", "Configuration").get_attribute("aria-selected") == "true", "there")


def test_page_job_has_a_chart_of_different_tasks(check):
    """The chart of tasks by state is there if their states changed at different times."""
    with Machine() as server:
        server.start("mixed", {"main": role("sleep $((1 + 2 * PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX))", instances=2)})
        server.wait("mixed")
        with Page(check, server, "#/jobs/alice~mixed?view=details") as page:
            check.ok("a chart", wait_until(lambda: re.match("Tasks by state.*2 succeeded", chart(page))), chart(page))


def test_page_job_copies_its_configuration(check):
    """The configuration is as written, with comments; a button copies it."""
    text = "# a comment\n" + job("commented", {"main": role("true")})
    with Machine() as server:
        check.equal("submitted", server.submit(text).status, 202)
        with Page(check, server, "#/jobs/alice~commented?view=config") as page:
            settle(page, lambda: page.shows("# a comment"), "the text")
            page.js(COPY)
            page.click("button", "Copy the configuration")
            settle(page, lambda: page.js("return window.copied") == text, "it is copied")


def test_page_job_shows_no_secret(check):
    """The value of a variable of extras.secretEnv is in no view of its job, and not in its copy."""
    with Machine() as server:
        server.start("hides", {"main": role("echo ${#KEY} letters", "exit 3")}, secrets={"KEY": "Sesame-4711"}, extras={"secretEnv": ["KEY"]})
        server.wait("hides")
        with Page(check, server, "#/jobs/alice~hides") as page:
            for view, seen in (("log", "11 letters"), ("events", "Scheduled"), ("configuration", "secretEnv")):
                details(page, view)
                check.ok(view, page.shows(seen))
                check.ok("hidden", "4711" not in page.js("return document.documentElement.outerHTML"))
            check.ok("in its place", page.shows("******"))
            page.click("button", "Clone")
            settle(page, lambda: page.hash().startswith("/submit") and "secretEnv" in page.text("textbox", "Job"), "the copy")
            check.ok("nor in the copy", "4711" not in page.text("textbox", "Job") + page.js("return document.documentElement.outerHTML"))


def test_page_job_with_many_tasks_has_few_rows(check):
    """For 20 000 tasks, there are at most 200 rows; the keyboard reaches the log of the last
    task."""
    patch = """
        const { fetch } = window, seen = window.asked = [];
        window.fetch = async (url, options) => {
            const reply = await fetch(url, options), path = new URL(url).pathname;
            seen.push(path);
            if (!path.endsWith("/jobs/alice~wide") || !reply.ok) return reply;
            const job = await reply.json(), { taskStatuses } = job.taskRoles.main;
            const state = (i) => ["RUNNING", "SUCCEEDED", "FAILED", "WAITING"][i % 4];
            job.taskRoles.main.taskStatuses = Array.from({ length: 20000 }, (_, i) => ({ ...taskStatuses[0], taskIndex: i, taskState: state(i),
                containerLog: taskStatuses[0].containerLog?.replace("taskIndex/0", `taskIndex/${i}`) }));
            return new Response(JSON.stringify(job));
        };
        location.hash = "#/jobs/alice~wide";"""
    with Machine() as server:
        server.start("wide", {"main": role(FOREVER)})
        server.wait("wide", "RUNNING")
        with Page(check, server, "#/sign-in") as page:
            page.find("heading", "Sign in")
            page.js(patch)
            settle(page, lambda: page.find("table", "Tasks").get_attribute("aria-rowcount") == "20001", "all tasks")
            check.ok("few rows", page.js("return document.querySelectorAll('tr').length") <= 200)
            page.js("document.querySelector('tbody tr[tabindex=\"0\"]').focus()")
            page.press(Keys.END, Keys.ENTER)
            settle(page, lambda: page.hash().endswith("task=main[19997]"), "the last task is chosen")
            check.ok("it is asked for", wait_until(lambda: page.js("return asked.some((path) => path.includes('taskIndex/19997/'))")))


def test_page_job_shows_earlier_attempts(check):
    """The page shows the attempts of a job, and of its tasks, with their failures and logs."""
    with Machine() as server:
        server.start("again", {"main": role("echo attempt $FC_FRAMEWORK_ATTEMPT_ID", "exit $((1 - FC_FRAMEWORK_ATTEMPT_ID))")},
                     jobRetryCount=2)
        server.start("tried", {"main": role("echo try $FC_TASK_ATTEMPT_ID; exit $((1 - FC_TASK_ATTEMPT_ID))", taskRetryCount=1)}, extras={"gangAllocation": False})
        server.wait("again")
        server.wait("tried")
        with Page(check, server, "#/jobs/alice~again") as page:
            settle(page, lambda: "attempt 1" in log_text(page), "the log of the last attempt")
            check.ok("no failure", not page.has("region", "Failure"))
            details(page, "attempts")
            check.ok("both attempts", wait_until(lambda: re.search(r"2\s+SUCCEEDED.*1\s+FAILED", page.text("table", "Attempts"), re.S)))
            page.click("button", "attempt 1")
            settle(page, lambda: "attempt 0" in log_text(page), "the log of the first attempt")
            check.ok("its tasks", "FAILED" in page.text("table", "Tasks"))
            check.ok("its failure", "main[0] failed in attempt 1" in page.text("region", "Failure"), page.text("region", "Failure"))
            check.equal("in the address", page.hash(), "/jobs/alice~again?attempt=1")
            page.reload()
            settle(page, lambda: "attempt 0" in log_text(page), "also after a reload")
            page.click("button", "Show the latest")
            settle(page, lambda: "attempt 1" in log_text(page), "the last one again")
            check.ok("without the failure", page.gone("region", "Failure"))
            check.ok("no other one", page.gone("button", "Show the latest") and not page.has("button", "Show the one before"))
            page.go("#/jobs/alice~again?attempt=9")
            check.ok("one that is not stored", page.shows("Attempt 9 is not shown"))
            settle(page, lambda: "attempt 1" in log_text(page), "the last one instead")
        with Page(check, server, "#/jobs/alice~tried") as page:
            settle(page, lambda: "try 1" in log_text(page), "the log of the last attempt of the task")
            page.js("const s = document.querySelector('[aria-label=\"Attempt of the task\"]'); s.value = 1; s.dispatchEvent(new Event('change'))")
            settle(page, lambda: "try 0" in log_text(page), "of the first one")
            check.equal("in the address", page.hash(), "/jobs/alice~tried?try=1")


def test_page_job_follows_attempts_to_their_failures(check):
    """An open page follows the job into its next attempt, and shows the failure when it comes."""
    with Site() as server:
        wait = server.gate("retried$FC_FRAMEWORK_ATTEMPT_ID")
        server.start("retried", {"main": role(f"echo attempt $FC_FRAMEWORK_ATTEMPT_ID; {wait}; echo boom; exit 1")}, jobRetryCount=1)
        with Page(check, server, "#/jobs/alice~retried") as page:
            settle(page, lambda: "attempt 0" in log_text(page), "the first attempt")
            page.press("/", "attempt", Keys.ENTER)
            settle(page, lambda: "attempt=1&task=main[0]&try=1&line=" in page.hash(), "a line of it")
            server.open("retried0")
            settle(page, lambda: "attempt 1" in log_text(page), "the next attempt")
            settle(page, lambda: page.hash() == "/jobs/alice~retried", "whose address has no line")
            server.open("retried1")
            settle(page, lambda: page.has("region", "Failure"), "it fails")
            settle(page, lambda: page.js(MARKED) == ["boom"], "the last line is marked")
            check.equal("the title", page.driver.title, "retried · FAILED")


def test_page_job_of_others_is_refused_in_a_sentence(check):
    """With --visibility owner, other users see the state, and a sentence instead of each refused
    part."""
    with Place() as place:
        server = place.server(*SIGNATURE, "--visibility", "owner")
        reply = server.submit(job("secretive", {"main": role("echo hidden words")}), headers={"Authorization": f"Bearer {token()}"})
        check.equal("submitted", reply.status, 202)
        with Page(check, server, "#/sign-in?then=%23%2Fjobs%2Falice~secretive") as page:
            page.type("textbox", "Token", token(user="bob"))
            page.press(Keys.ENTER)
            settle(page, lambda: page.has("status", "State"), "the state")
            page.click("tab", "Events")
            check.ok("refused in words", page.shows("Not shown: this is for the job's owner"), page.body())
            page.click("tab", "Configuration")
            settle(page, lambda: page.js(READABLE, "#panel-config .error"), "readable, in the configuration")
            check.ok("nothing to copy", not page.has("button", "Copy the configuration"))
            for button in ("Stop", "Add a tag"):
                check.ok(f"no button {button}", not page.has("button", button))
            check.ok("nothing of the job", "hidden words" not in page.body(), page.body())


def test_page_job_says_that_its_log_is_refused_in_its_place(check):
    """A refused log is a sentence that can be read, at its place, without controls that could do nothing."""
    patch = """const { fetch } = window;
        window.fetch = async (url, options) => (/\\/logs$/.test(new URL(url).pathname)
            ? new Response('{"message": "This log is for its owner."}', { status: 403 }) : fetch(url, options));
        location.hash = "#/jobs/alice~shut";"""
    with Machine() as server:
        server.start("shut", {"main": role("echo words")})
        server.wait("shut")
        with Page(check, server, "#/sign-in") as page:
            page.find("heading", "Sign in")
            page.js(patch)
            settle(page, lambda: page.has("status", "State of the log") and page.js(READABLE, ".log-state"), "readable")
            check.ok("nothing that cannot work", not page.has("button", "Download the log") and not page.has("searchbox", "Search in the log"))
        with Page(check, server, "#/jobs/alice~shut") as page:
            settle(page, lambda: "words" in log_text(page), "else the log")
            check.ok("... with its controls", page.has("button", "Download the log") and not page.js(READABLE, ".log-state"))


def test_page_job_details_have_command_parameters_and_resources(check):
    """Details have what a task runs and asks for, and the parameters, of both versions, for each role."""
    v1 = json.dumps({"jobName": "one", "image": "debian:12-slim", "taskRoles": [
        {"name": "old", "taskNumber": 1, "cpuNumber": 3, "memoryMB": 100, "gpuNumber": 0, "command": "echo of v1"}]})
    with Machine(gpus=1) as server:
        server.start("told", {"main": role("echo <% $parameters.rate %>", "echo second", gpu=1), "other": role("echo other", memory=2048)},
                     parameters={"rate": 0.1, "data": "cifar 10"})
        reply = server.request("POST", "/api/v1/jobs", v1, {"Content-Type": "text/yaml"})
        check.equal("submitted", reply.status, 202)
        with Page(check, server, "#/jobs/alice~told?view=details&task=main[0]") as page:
            settle(page, lambda: page.has("region", "Task main[0]") and page.shows("rate = 0.1"), "the parameters")
            check.ok("all of them", "Parameters\nrate = 0.1\ndata = cifar 10" in page.text("region", "Job"), page.text("region", "Job"))
            task = page.text("region", "Task main[0]")
            check.ok("the command", "Command\necho <% $parameters.rate %>\necho second\n" in task, task)
            check.ok("the resources", re.search(r"Resources\n1 CPU, [\d.]+ MiB, 1 GPU\n", task), task)
            page.go("#/jobs/alice~told?view=details&task=other[0]")
            settle(page, lambda: "echo other" in page.text("region", "Task other[0]"), "the other role")
            check.ok("its own", "2.0 GiB" in page.text("region", "Task other[0]") and "GPU" not in page.text("region", "Task other[0]"), page.text("region", "Task other[0]"))
            page.go("#/jobs/alice~one?view=details")
            settle(page, lambda: "echo of v1" in page.text("region", "Task old[0]"), "version 1")
            check.ok("its resources", "3 CPUs, 100 MiB" in page.text("region", "Task old[0]"), page.text("region", "Task old[0]"))
            check.ok("no parameters", "Parameters" not in page.text("region", "Job"))


def test_page_job_shows_its_code_and_copies_it(check):
    """Details name commit and changes, and save the archive; copies of another user's job take its code
    along, since nobody can use code of another user by its hash."""
    sha, packed = archive({"train.py": b"print(1)"})
    base = tempfile.mkdtemp(prefix="rest-lit-local.")
    os.chmod(base, 0o755)
    secret = write_file(base, "jwt-secret", SECRET)
    if os.geteuid() == 0:
        os.chown(secret, NOBODY, NOBODY)
    with Machine("--visibility", "all", who=["--jwt-secret-file", secret, "--token-check", "signature"]) as server:
        alice, bob = ({"Authorization": f"Bearer {token(user)}"} for user in ("alice", "bob"))
        check.equal("uploaded", server.request("PUT", f"/api/v2/code/{sha}", packed, {"Content-Type": "application/gzip", **alice}).status, 201)
        code = {"sha256": sha, "commit": "1791509b875e4033966ef05f1b5cc5065b8f4c61", "changed": True}
        reply = server.submit(job("coded", {"main": role("cat train.py; exit 0")}, extras={"code": code}), alice)
        check.equal("submitted", reply.status, 202)
        with Page(check, server, "#/sign-in?then=%23%2Fjobs%2Falice~coded") as page:
            page.type("textbox", "Token", token("bob"))
            page.press(Keys.ENTER)
            settle(page, lambda: "SUCCEEDED" in state(page), "it ends")
            details(page)
            check.ok("commit and changes", page.shows("commit 1791509b875e, with changes"), page.body())
            page.js("const make = URL.createObjectURL; URL.createObjectURL = (blob) => { window.saved = blob.size; return make(blob); };")
            page.use("region", "Job", lambda region: region.find_element("css selector", "button.link").click())
            settle(page, lambda: page.js("return window.saved") == len(packed), "saved")
            check.equal("not of bob", server.request("GET", f"/api/v2/code/{sha}", headers=bob).status, 404)
            page.click("button", "Resubmit")
            settle(page, lambda: page.hash() == "/jobs/bob~coded-2", "the new job opens")
            settle(page, lambda: "SUCCEEDED" in state(page), "with the code")
            check.equal("now of bob, too", server.request("GET", f"/api/v2/code/{sha}", headers=bob).status, 200)

def test_page_job_tells_its_tries_and_the_last_exit_code(check):
    """While a job is tried again, its head has the number of tries and the last exit code; while the
    next try waits, there are the lines of the last one."""
    with Machine(gpus=1) as server:
        server.start("again", {"main": role("echo line of $FC_FRAMEWORK_ATTEMPT_ID; kill -9 $$", gpu=1)}, jobRetryCount=100000)
        wait_until(lambda: server.status("again").get("retryPolicyStatus", {}).get("totalRetriedCount"))
        with open(server.gpu_files[0], "rb") as gpu:
            fcntl.flock(gpu, fcntl.LOCK_EX)  # between two tries
            wait_until(lambda: "other programs" in server.waiting_reason("again"))
            n = server.status("again")["retryPolicyStatus"]["totalRetriedCount"]
            with Page(check, server, "#/jobs/alice~again") as page:
                settle(page, lambda: f"try {n + 1} after exit code 137; waits for other programs" in state(page), "the head")
                panel = page.text("region", "Failure")
                check.ok("the last try", "SIGKILL" in panel and f"line of {n - 1}" in panel, panel)
                page.click("button", "Show the one before")
                settle(page, lambda: f"line of {n - 1}" in log_text(page), "the log before the attempt that waits")
                page.go("#/jobs")
                settle(page, lambda: f"try {n + 1} after exit code 137" in page.body(), "the list")
            server.stop_job("again")


# The job has 2000 tasks, waited for 100 s, and ran for no time.
SHORT = """
const { fetch } = window;
window.fetch = async (url, options) => {
    const reply = await fetch(url, options);
    if (!new URL(url).pathname.endsWith("/jobs/alice~short") || !reply.ok) return reply;
    const job = await reply.json(), { jobStatus, taskRoles: { main } } = job;
    jobStatus.launchedTime = jobStatus.completedTime;
    jobStatus.submissionTime = jobStatus.launchedTime - 100000;
    main.taskStatuses = Array.from({ length: 2000 }, (_, i) => ({ ...main.taskStatuses[0], taskIndex: i,
        containerLog: main.taskStatuses[0].containerLog?.replace("taskIndex/0", `taskIndex/${i}`) }));
    return new Response(JSON.stringify(job));
};
location.hash = "#/jobs/alice~short";"""


def drawn(page):
    page.driver.execute_cdp_cmd("Performance.enable", {})
    found = page.driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    return sum(one["value"] for one in found if one["name"] == "RecalcStyleCount")


def test_page_job_that_has_ended_is_at_rest(check):
    """The page of an ended job draws nothing while nothing changes; its time is that of the run, however short;
    somebody else's deletion is seen."""
    with Machine() as server:
        server.start("short", {"main": role("echo done")})
        server.wait("short")
        with Page(check, server, "#/sign-in") as page:
            page.find("heading", "Sign in")
            page.js(SHORT)
            settle(page, lambda: page.find("table", "Tasks").get_attribute("aria-rowcount") == "2001", "all tasks")
            check.ok("the time", page.shows("ran 0s"))

            def rests():
                before = drawn(page)
                page.js_async("await new Promise((done) => setTimeout(done, 3000));")
                return drawn(page) == before
            settle(page, rests, "it rests")
            server.request("DELETE", "/api/v1/user/alice/jobs/short")
            check.ok("it was removed", page.shows("The job was removed"))


def test_page_job_wraps_its_configuration_and_names_its_logs(check):
    """JSON without line breaks is not wider than the window; the lines of all tasks are saved under the job's name."""
    saved = """HTMLAnchorElement.prototype.click = function () { window.saved = this.download; };
        [...document.querySelectorAll("button")].find((b) => b.textContent === "Download the log").click();
        delete HTMLAnchorElement.prototype.click;
        return window.saved;"""
    with Machine() as server:
        text = json.dumps({"protocolVersion": 2, "name": "compact", "type": "job", "prerequisites": [{"name": "i", "type": "dockerimage", "uri": "debian:12-slim"}],
                           "taskRoles": {"main": {"instances": 2, "dockerImage": "i", "resourcePerInstance": {"cpu": 1, "memoryMB": 64, "gpu": 0},
                                                  "commands": ["echo " + "x" * 3000]}}})
        check.equal("submitted", server.submit(text).status, 202)
        server.wait("compact")
        with Page(check, server, "#/jobs/alice~compact?view=config") as page:
            settle(page, lambda: page.shows("xxxx"), "the text")
            wide = "const e = document.querySelector('[aria-label=Configuration]'); return e.scrollWidth - e.clientWidth"
            check.equal("all of it is in view", page.js(wide), 0)
            page.click("tab", "Log")
            page.click("button", "All tasks")
            settle(page, lambda: page.has("log", "Log of all tasks"), "all tasks in one log")
            check.equal("the name", page.js(saved), "compact-all-tasks.log")


PIXEL = ("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
SCRIPT = "<svg xmlns='http://www.w3.org/2000/svg' onload='ran(1)'><script>ran(2)</script></svg>"
FOLLOW = """
    let found;
    HTMLAnchorElement.prototype.click = function () { found = [this.href, this.hasAttribute("download")]; };
    BUTTON.click();
    while (!found) await new Promise((next) => setTimeout(next, 50));
    delete HTMLAnchorElement.prototype.click;
    const reply = await fetch(found[0]);
    return [found[1], reply.status, reply.headers.get("Content-Disposition"), (await reply.arrayBuffer()).byteLength];"""
BUTTONS = """[...document.querySelectorAll("[aria-label=Results] tr, .toolbar")]
    .find((one) => one.textContent.includes("%s")).querySelector("td:last-child button, :scope > button")"""


def test_page_shows_results_and_runs_nothing_of_them(check):
    """Sizes, downloads by links without a token, small texts and images; HTML and SVG as texts."""
    with Machine() as server:
        server.start("none", {"main": role("true")})
        left = ended(server)
        left.write("metrics.json", b'{"loss": 0.25}')
        left.write("plot.png", base64.b64decode(PIXEL))
        left.write("broken.png", b"\x89PNG\xff\0")
        left.write("page.html", SCRIPT.encode())
        left.write("pic.svg", SCRIPT.encode())
        left.write("deep/big.txt", b"x" * (1 << 20) + b"y")
        left.write(b"odd \xff %3f?#&.txt", b"odd text")
        left.give()
        with Page(check, server, "#/jobs/alice~none") as page:
            settle(page, lambda: "SUCCEEDED" in state(page), "it has ended")
            check.ok("no results, no tab", not page.has("tab", "Results"))
            page.go("#/jobs/alice~job")
            details(page, "results")
            settle(page, lambda: page.has("table", "Results") and "metrics.json" in page.text("table", "Results"), "the list")
            for text in ("deep/", "deep/big.txt", "1.0 MiB", "14 B", "odd \ufffd %3f?#&.txt"):
                check.ok(text, text in page.text("table", "Results"), page.text("table", "Results"))
            for name, text in (("metrics.json", '{"loss": 0.25}'), ("page.html", "ran(2)"), ("pic.svg", "ran(1)"), ("broken.png", "neither"),
                               ("odd \ufffd %3f?#&.txt", "odd text")):
                page.click("button", name)
                check.ok(f"{name} is shown", page.shows(text), page.body())
            page.click("button", "plot.png")
            check.ok("an image", page.find("image", "plot.png"))
            check.equal("... of its size", page.js("const one = document.querySelector('canvas'); return [one.width, one.height]"), [1, 1])
            check.ok("a large file is not", not page.has("button", "deep/big.txt"))
            buttons = page.js("return [...document.querySelectorAll('[aria-label=Results] button')].filter((b) => b.textContent === 'Download').length")
            check.equal("each file has a download", buttons, 7)
            for name, sizes in (("big.txt", [(1 << 20) + 1]), ("Download all", range(1 << 20, 2 << 20))):
                got = page.js_async(FOLLOW.replace("BUTTON", f"({BUTTONS % name})"))
                check.ok(f"{name}: a link", got[:2] == [True, 200] and got[2].startswith("attachment") and got[3] in sizes, got)
            left.write("new.txt", b"new")
            left.give()
            details(page, "^log$")
            details(page, "results")
            settle(page, lambda: "new.txt" in page.text("table", "Results"), "what comes later is shown")


CORE = [test_page_job_that_has_ended_is_at_rest, test_page_job_wraps_its_configuration_and_names_its_logs, test_page_job_is_followed_to_its_end, test_page_job_puts_the_log_first]
WHOLE = [test_page_job_shows_the_ssh_command, test_page_job_details_have_command_parameters_and_resources,
         test_page_job_says_that_its_log_is_refused_in_its_place,
         test_page_job_shows_its_code_and_copies_it,
         test_page_job_explains_a_failure,
         test_page_job_says_why_it_was_stopped,
         test_page_job_can_be_stopped_cloned_and_tagged, test_page_held_job_says_why_and_is_released,
         test_page_job_clones_under_a_free_name,
         test_page_job_has_an_address_for_each_line,
         test_page_job_has_a_chart_of_different_tasks,
         test_page_job_copies_its_configuration, test_page_job_shows_no_secret, test_page_shows_results_and_runs_nothing_of_them,
         test_page_job_with_many_tasks_has_few_rows,
         test_page_job_shows_earlier_attempts, test_page_job_tells_its_tries_and_the_last_exit_code,
         test_page_job_follows_attempts_to_their_failures,
         test_page_job_of_others_is_refused_in_a_sentence]
