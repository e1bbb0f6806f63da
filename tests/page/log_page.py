"""Logs: on the page of a job, and as their module shows them in a place of a given height."""
import re

from browser import PHONE, Page, settle
from harness import PATIENCE
from machine import Machine, role
from selenium.webdriver.common.keys import Keys
from watching import FOREVER, log_text

# args: [[job, role, index], ...], options of LogView, height.
OPEN = """
const { LogView } = await load("logview");
const host = document.createElement("div"), picked = window.picked = [], { signal } = new AbortController();
host.style.height = args[2];
document.getElementById("page").replaceChildren(host);
const path = ([job, task, i]) => job && `api/v2/jobs/alice~${job}/attempts/0/taskRoles/${task}/taskIndex/${i}/attempts/0/logs`;
const sources = args[0].map((of) => ({ name: `${of[1]}[${of[2]}]`, path: path(of), file: of.join("-"), ended: () => window.areEnded?.includes(of[1]) }));
window.view = new LogView(host, sources, { ...args[1], picked: (line) => picked.push(line), signal });"""
COUNT = """const input = document.querySelector('[aria-label="Search in the log"]');
    input.value = arguments[0]; input.dispatchEvent(new Event("input")); return input.parentNode.querySelector("output").textContent"""

# How far the last line is from the lower edge.
LAST = """const log = document.querySelector("[role=log]"), lines = [...log.querySelectorAll(".line")];
    return Math.abs(log.getBoundingClientRect().bottom - lines.at(-1).getBoundingClientRect().bottom - 5)"""


def open_log(page, tasks, height="600px", **options):
    page.find("heading", "Sign in")
    page.js_async(OPEN, tasks, options, height)


def said(page):
    return page.text("status", "State of the log")


def row(page, number):
    """Of a line that is shown: its text, whether it is chosen, whether it is in the middle."""
    return page.js("""const log = document.querySelector("[role=log]"), line = log.querySelector(`[aria-label^="Line ${arguments[0]}"]`)?.parentNode;
        if (!line) return null;
        const { top, height } = log.getBoundingClientRect();
        return [line.textContent, line.matches(".current"), Math.abs(line.getBoundingClientRect().top - top - height / 2) < 30];""", number)


def test_page_log_reports_missing_output(check):
    """For a large log, the page shows how many bytes are not stored, how many are only not shown,
    and a link to the stored ones."""
    with Machine() as server:
        server.start("large", {"main": role("seq -f %0400.0f 60000; seq -f %0100.0f 160000; echo the end")})
        server.wait("large")
        with Page(check, server, "#/jobs/alice~large") as page:
            missing = re.compile(r"(\d+\.\d) MiB of output before this are not stored\. "
                                 r"The first \d+ lines, (\d+\.\d) MiB, are not shown; the download has them\.")
            settle(page, lambda: "the end" in log_text(page) and missing.search(page.body()), "it is said")
            gone, hidden = map(float, missing.search(page.body()).groups())
            sent = page.js_async("""
                let found;
                HTMLAnchorElement.prototype.click = function () { found = this.getAttribute("href"); };
                [...document.querySelectorAll("button")].find((b) => b.textContent === "Download the log").click();
                while (!found) await new Promise((next) => setTimeout(next, 50));
                delete HTMLAnchorElement.prototype.click;
                return (await (await fetch(found)).text()).length;""") / (1 << 20)
            whole = (60000 * 401 + 160000 * 101) / (1 << 20)
            check.ok("how much is not stored", abs(gone + sent - whole) < 0.2, (gone, sent, whole))
            shown = 100000 * 101 / (1 << 20)
            check.ok("how much is not shown", abs(hidden + shown - sent) < 1, (hidden, sent))
        server.start("small", {"main": role("echo the end")})
        server.wait("small")
        with Page(check, server, "#/jobs/alice~small") as page:
            settle(page, lambda: "the end" in log_text(page), "a small one")
            check.ok("nothing is missing", "not stored" not in page.body() and "Download what" not in page.body())


def test_page_log_continues_after_an_outage(check):
    """After an outage of the server the log continues, without lost or repeated lines."""
    with Machine() as server:
        server.start("long", {"main": role("for i in $(seq 3000); do echo early; done; i=0; while sleep 0.05; do i=$((i + 1)); echo n$i.; done")})
        with Page(check, server, "#/jobs/alice~long") as page:
            settle(page, lambda: "n20.\n" in log_text(page), "the log comes")
            server.kill()
            settle(page, lambda: page.shows("connection to the server is lost"), "cut off")
            with Machine(where=server.where, port=server.port):
                last = int(re.findall(r"n(\d+)\.", log_text(page))[-1])
                settle(page, lambda: f"n{last + 100}.\n" in log_text(page), "it goes on", 3 * PATIENCE)
                wrong = {i: found for i in range(1, last + 100) if (found := page.js(COUNT, f"n{i}.")) != "1 line"}
                check.equal("each line once", wrong, {})
                check.equal("also equal ones", page.js(COUNT, "early"), "3000 lines")


def test_page_log_is_searched_by_expressions(check):
    """A text as it is, or a regular expression, whose parts are marked; a wrong one says so."""
    marked = "return [...document.querySelectorAll('.log mark')].map((e) => e.textContent)"
    with Machine() as server:
        server.start("find", {"main": role("echo 'Loss 0.25 (a+b)'; echo 'loss 12'; echo 'glossy [x'")})
        server.wait("find")
        with Page(check, server, "#/jobs/alice~find") as page:
            settle(page, lambda: "glossy" in log_text(page), "the log")
            for text, found in (("loss", "3 lines"), ("(a+b)", "1 line"), ("loss \\d+", "0 lines"), ("[x", "1 line")):
                check.equal(f"the text {text}", page.js(COUNT, text), found)
            page.click("checkbox", "Regular expression")
            check.ok("no expression", "nvalid regular expression" in page.js(COUNT, "[x"), page.js(COUNT, "[x"))
            for text, found in (("loss \\d+", "2 lines"), ("^loss \\d+$", "1 line")):
                check.equal(f"the expression {text}", page.js(COUNT, text), found)
            check.equal("marks", page.js(COUNT, "loss \\d|\\[x") and page.js(marked), ["Loss 0", "loss 1", "[x"])
            page.type("searchbox", "Search in the log", "|a")
            page.press(Keys.ENTER)
            check.equal("it is chosen", page.js("return document.querySelectorAll('.line.current').length"), 1)


def timed(page):
    """The lines as they are copied: [time, task, last word]."""
    line = re.compile(r"^(?:(\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}) )?(?:(\w+\[\d\]) )?.*?(\S+)$", re.M)
    return [found.groups() for found in line.finditer(page.js("return view.lines.text()"))]


def test_page_log_orders_the_lines_of_all_tasks_by_their_times(check):
    """None is twice, none lost, also of what comes while the tasks run and after an outage of the server; what has no
    times is a block that is named; the box shows the times."""
    count = "i=0; while sleep 0.02; do i=$((i + 1)); echo n$i; done"
    with Machine() as server:
        server.start("turns", {"a": role(f"seq -f early%g 3000; {count}"), "b": role(count)})
        server.start("kept", {"main": role("echo k1; echo k2")})
        server.wait("kept")
        with Page(check, server, "#/sign-in") as page:
            page.js("""window.areEnded = ["main"]; const ask = window.fetch;
                window.fetch = (url, how) => ask(String(url).includes("kept") ? String(url).replace("times=true", "times=false") : url, how);""")
            open_log(page, [["turns", "a", 0], ["turns", "b", 0], ["kept", "main", 0]])
            settle(page, lambda: said(page) == "Lines of 3 tasks, in the order of their times. Without times, in one block each: main[0].", "it is said")
            settle(page, lambda: page.js(COUNT, "n100") == "2 lines", "both count", 3 * PATIENCE)
            check.ok("no times are shown", not any(time for time, *_ in timed(page)))
            page.click("checkbox", "Times")
            server.kill()
            settle(page, lambda: "Not shown" in said(page), "the outage is seen", 3 * PATIENCE)
            with Machine(where=server.where, port=server.port):
                last = max(int(mark[1:]) for *_, mark in timed(page) if mark.startswith("n"))
                settle(page, lambda: page.js(COUNT, f"n{last + 200}") == "2 lines", "both count on", 3 * PATIENCE)
                lines = timed(page)
                times = [time for time, task, _ in lines if task != "main[0]"]
                check.ok("each has its time", all(times), [line for line in lines if not line[0]][:9])
                check.equal("in this order", [(a, b) for a, b in zip(times, times[1:]) if a > b], [])
                for task in ("a[0]", "b[0]"):
                    found = [mark for _, name, mark in lines if name == task and re.fullmatch(r"n\d+", mark)]
                    check.equal(f"lines of {task}", found, [f"n{i}" for i in range(1, len(found) + 1)])
                tasks = [task for _, task, mark in lines if mark.startswith("n")]
                check.ok("they take turns", sum(a != b for a, b in zip(tasks, tasks[1:])) > 200, tasks)
                kept = [i for i, (time, task, _) in enumerate(lines) if task == "main[0]" and not time]
                check.equal("a block", kept, list(range(kept[0], kept[0] + len(kept))))
                check.ok("with all", [mark for *_, mark in lines if mark in ("k1", "k2")] == ["k1", "k2"])


def test_page_log_of_a_task_shows_times(check):
    """The place stays; the times are copied and downloaded, but not searched; lines that come later, also after an outage,
    have them; they fit into wrapped rows."""
    wide = "const log = document.querySelector('[role=log]'); return log.scrollWidth - log.clientWidth"
    with Machine() as server:
        server.start("times", {"main": role("for i in $(seq 500); do echo e$i; done; seq -s, 600; i=0; while sleep 0.05; do i=$((i + 1)); echo n$i; done")})
        with Page(check, server, "#/sign-in") as page:
            open_log(page, [["times", "main", 0]], job="times")
            settle(page, lambda: page.js(COUNT, "n20") == "1 line", "the log")
            page.js("view.lines.show(250)")
            text = row(page, page.js("return view.lines.log.line(250).number"))[0]
            page.click("checkbox", "Times")
            settle(page, lambda: any(mark == text.split()[-1] and time for time, _, mark in timed(page)), "it has times")
            settle(page, lambda: (row(page, page.js("return view.lines.log.line(250).number")) or [""])[0].endswith(text), "the place stays")
            shown = row(page, page.js("return view.lines.log.line(250).number"))
            check.ok("in the middle, with its time", shown[2] and re.match(r"\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} ", shown[0]), shown)
            page.click("checkbox", "Regular expression")
            check.equal("the text is searched", (page.js(COUNT, "^e7$"), page.js(COUNT, "\\d\\d:\\d\\d:\\d\\d\\.")), ("1 line", "0 lines"))
            page.click("checkbox", "Wrap")
            settle(page, lambda: page.js(wide) <= 0, "it is wrapped")
            page.click("checkbox", "Follow")
            settle(page, lambda: page.js(LAST) < 3, "the end is in sight")
            server.kill()
            settle(page, lambda: page.shows("Not shown"), "the outage is seen", 3 * PATIENCE)
            with Machine(where=server.where, port=server.port):
                last = int(timed(page)[-1][2][1:])
                settle(page, lambda: page.js(COUNT, f"^n{last + 100}$") == "1 line", "it goes on", 3 * PATIENCE)
                lines = timed(page)
                check.ok("each has its time", all(time for time, *_ in lines), [line for line in lines if not line[0]][:9])
                found = [mark for *_, mark in lines if re.fullmatch(r"n\d+", mark)]
                check.equal("each once", found, [f"n{i}" for i in range(1, len(found) + 1)])
                loaded = page.js_async("""
                    let found;
                    HTMLAnchorElement.prototype.click = function () { found = this.href; };
                    [...document.querySelectorAll("button")].find((b) => b.textContent === "Download the log").click();
                    while (!found) await new Promise((next) => setTimeout(next, 50));
                    delete HTMLAnchorElement.prototype.click;
                    return (await (await fetch(found)).text());""")
                check.ok("the download", re.search(r"^\d{4}-\d\d-\d\dT\S+Z e500$", loaded, re.M), loaded[:300])
                page.click("checkbox", "Times")
                check.ok("no longer", not any(time for time, *_ in timed(page)))


def test_page_log_wraps_long_lines(check):
    """No line is wider than the log; numbers, search and copied lines stay those of whole lines; the end stays in sight."""
    wide = "const log = document.querySelector('[role=log]'); return log.scrollWidth - log.clientWidth"
    shown = "return [...document.querySelectorAll('.line')].map((e) => [e.querySelector('.at').dataset.number, e.lastChild.textContent])"
    with Machine() as server:
        server.start("wrap", {"main": role("seq -s, 300", "echo short", "for i in $(seq 200); do echo $i; done", "seq -s, 1000 1200; sleep 1000")})
        with Page(check, server, "#/jobs/alice~wrap") as page:
            settle(page, lambda: "1200" in log_text(page), "the log")
            check.ok("wide", page.js(wide) > 0, page.js(wide))
            page.click("checkbox", "Wrap")
            settle(page, lambda: page.js(wide) <= 0, "it is wrapped")
            settle(page, lambda: page.js(LAST) < 3, "the end is in sight")
            rows = page.js(shown)
            first = max(i for i, (number, _) in enumerate(rows) if number)
            check.ok("the last line has several rows", len(rows) - first > 1, rows[-3:])
            check.equal("which are the line", "".join(text for _, text in rows[first:]), ",".join(map(str, range(1000, 1201))))
            page.js("document.querySelector('[role=log]').scrollTop = 0")
            settle(page, lambda: any(text == "short" for _, text in page.js(shown)), "the beginning")
            rows = page.js(shown)
            at = next(i for i, (_, text) in enumerate(rows) if text.startswith("1,2,3,"))
            end = next(i for i, (_, text) in enumerate(rows) if text == "short")
            check.equal("the first line", "".join(text for _, text in rows[at:end]), ",".join(map(str, range(1, 301))))
            check.equal("numbers of lines", [n for n, _ in rows[at:end + 1] if n], [rows[at][0], str(int(rows[at][0]) + 1)])
            page.type("searchbox", "Search in the log", "1150")
            page.press(Keys.ENTER)
            settle(page, lambda: page.js("return [...document.querySelectorAll('.line.current')].length") > 1, "a line that is found")
            page.resize((700, 900))
            settle(page, lambda: page.js(wide) <= 0, "a narrow window")
            page.click("checkbox", "Wrap")
            settle(page, lambda: page.js(wide) > 0, "as before")


def test_page_log_of_all_tasks_has_each_line_once(check):
    """The lines of all tasks are in one log, each with its task, none twice and none lost: of long
    logs, of equal lines, and after an outage of the server; logs of ended tasks are read once."""
    count = "i=0; while sleep 0.02; do i=$((i + 1)); echo $PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX-n$i.; done"
    ticks = "for i in $(seq 20000); do echo tick; done; while sleep 1; do echo tick; echo; done"
    with Machine() as server:
        server.start("all", {"worker": role(f"printf '\\033[32m'; seq -f %0100.0f 2000; {count}", instances=2), "same": role(ticks)})
        server.start("done", {"main": role("printf 'the end'")})
        server.wait("done")
        with Page(check, server, "#/sign-in") as page:
            page.js("window.areEnded = ['main']")
            open_log(page, [["all", "worker", 0], ["all", "worker", 1], ["all", "same", 0], ["done", "main", 0]])
            settle(page, lambda: page.js(COUNT, "n20.") == "2 lines", "both count", 3 * PATIENCE)
            settle(page, lambda: "main[0] the end" in page.js("return view.lines.text()"), "the ended one", 3 * PATIENCE)
            check.ok("order", page.shows("Lines of 4 tasks, in the order of their times."))
            server.kill()
            settle(page, lambda: "Not shown" in said(page), "the outage is seen", 3 * PATIENCE)
            with Machine(where=server.where, port=server.port):
                settle(page, lambda: "Not shown" not in said(page), "it goes on", 3 * PATIENCE)
                last = max(map(int, re.findall(r"n(\d+)\.", page.js("return view.lines.text()"))))
                settle(page, lambda: page.js(COUNT, f"n{last + 200}.") == "2 lines", "both count on", 3 * PATIENCE)
                lines = page.js("return view.lines.text()").split("\n")
                for i in range(2):
                    found = [int(line.partition("n")[2][:-1]) for line in lines if line.startswith(f"worker[{i}] {i}-n")]
                    check.equal(f"lines of worker[{i}]", found, list(range(1, len(found) + 1)))
                found = [line for line in lines if line.startswith("same[0] ")]
                check.equal("equal lines", len([line for line in found if line == "same[0] "]), len([line for line in found if line == "same[0] tick"]) - 20000)
                check.equal("the last line of an ended task", lines.count("main[0] the end"), 1)
                colour = page.js("return [...document.querySelectorAll('.line span > span:nth-child(2)')].map((e) => getComputedStyle(e).color)")
                check.ok("colours of each task", "rgb(87, 199, 116)" in colour, colour[:3])
            def asked_for(*texts):
                page.look()
                return sum(all(text in request["url"] for text in texts) for request in page.requests)
            settle(page, lambda: asked_for("worker/", "/all?from=2") > 1, "only what is new", 3 * PATIENCE)
            check.equal("an ended task is read once", asked_for("main/", "/all?"), 1)


def test_page_log_lines_can_be_chosen_and_shown(check):
    """A line is chosen by its number or by search, and told; one that is asked for is shown in the
    middle as soon as it is there; the last one with the cause of a failure is marked."""
    with Machine() as server:
        server.start("pick", {"a": role("seq -f 'a %03.0f' 300; printf '\\033[31mError: a\\033[0m\\n'; sleep 2; echo later", FOREVER),
                              "b": role("seq -f 'b %03.0f' 300; echo 'Error: b'; echo 'Error: b'; echo more", FOREVER)})
        server.wait("pick", "RUNNING")
        a, b = ["pick", "a", 0], ["pick", "b", 0]
        with Page(check, server, "#/sign-in") as page:
            open_log(page, [a], line="150", mark={"task": "a[0]", "text": "Error: a\x1b[0m"})
            settle(page, lambda: row(page, 150) is not None, "the line is shown")
            check.equal("chosen, in the middle", row(page, 150)[1:], [True, True])
            check.ok("not at the end", not page.find("checkbox", "Follow").is_selected())
            text = row(page, 150)[0]
            page.click("button", "Line 152")
            check.equal("another one", (page.js("return picked"), row(page, 152)[1], row(page, 150)[1]), (["152"], True, False))
            page.click("button", "Line 152")
            check.equal("none", (page.js("return picked"), row(page, 152)[1]), (["152", None], False))
            page.type("searchbox", "Search in the log", text)
            page.press(Keys.ENTER)
            check.equal("by search", (page.js("return picked.at(-1)"), row(page, 150)[1]), ("150", True))
            check.equal("to the failure", page.js("return view.goToMark()"), True)
            settle(page, lambda: page.has("button", re.compile(r"^Line \d+, failure$")), "it is marked")
            check.equal("one line", page.js("return [...document.querySelectorAll('.cause')].map((e) => e.textContent)"), ["Error: a"])
            page.js("view.wanted = 100000; view.setMark(view.mark)")
            settle(page, lambda: "later" in page.js("return view.lines.text()"), "it goes on")
            check.equal("not there yet", said(page), "")
            page.js("window.areEnded = ['a']")
            server.stop_job("pick")
            settle(page, lambda: said(page) == "Line 100000 is not on this page.", "it never comes")
        with Page(check, server, "#/sign-in") as page:
            page.js("window.areEnded = ['a', 'b']")
            open_log(page, [a, b, ["", "c", 0]], line="b[0]:150", mark={"task": "b[0]", "text": "Error:"})
            settle(page, lambda: (row(page, 150) or [""])[0].startswith("b[0] b 1"), "the line of this task")
            check.equal("chosen, in the middle", row(page, 150)[1:], [True, True])
            page.click("button", "Line 152")
            check.equal("its name", page.js("return picked"), ["b[0]:152"])
            check.equal("to the failure", page.js("return view.goToMark()"), True)
            settle(page, lambda: page.has("button", re.compile("failure")), "it is marked")
            lines = page.js("return [...document.querySelectorAll('.cause, .cause + *')].map((e) => e.textContent)")
            check.equal("the last one of the task", lines, ["b[0] Error: b", "b[0] more"])
            check.equal("none without", page.js("view.setMark(null); return view.goToMark()"), False)


def test_page_log_selects_and_copies_all_its_lines(check):
    """Ctrl+A in a log selects its text only, and copies also lines that are not in the document,
    without their numbers."""
    with Machine() as server:
        server.start("text", {"main": role(r"seq -f '\tline %g' 2000 >&2; printf '\033[31m  last\033[0m'")})
        server.wait("text")
        with Page(check, server, "#/sign-in") as page:
            page.js("window.areEnded = ['main']; window.copies = []; document.addEventListener('copy', (e) => copies.push(e.clipboardData.getData('text/plain')))")
            open_log(page, [["text", "main", 0]])
            page.js("""const s = document.querySelector('select[aria-label=Output]'); s.value = "stderr"; s.dispatchEvent(new Event("change"))""")
            settle(page, lambda: "line 2000" in log_text(page), "the log")
            page.find("log").click()
            page.find("log").send_keys(Keys.CONTROL, "a")
            settle(page, lambda: re.fullmatch(r"All 20\d\d lines are selected\.", said(page)), "it is said")
            check.ok("nothing else", "Download" not in page.js("return getSelection().toString()"))
            page.find("log").send_keys(Keys.CONTROL, "c")
            copied = page.js("return copies.join()")
            check.ok("copied", "".join(f"\\tline {i}\n" for i in range(1, 2001)) in copied and copied.count("\n") < 2010, copied[:300])
            page.find("log").click()
            settle(page, lambda: said(page) == "", "no longer")


def test_page_log_fits_into_its_place(check):
    """The log fills its place; its controls need one line on a screen of 1100 px, two on a phone; what
    is said later moves nothing; tasks beyond the 64th are named."""
    box = """const of = (e) => e.getBoundingClientRect(), log = document.querySelector("[role=log]");
        const rows = [...document.querySelectorAll(".toolbar > *")].map((e) => Math.round(of(e).top + of(e).height / 2));
        return [new Set(rows).size, Math.round(of(log.parentNode).bottom - of(log).bottom), Math.round(of(log).height), document.documentElement.scrollWidth]"""
    twice = """const log = document.querySelector("[role=log]"), { style } = log.closest(".log-view");
        const again = new ResizeObserver(() => requestAnimationFrame(() => { again.disconnect(); style.height = "320px"; }));
        again.observe(log);
        style.height = "420px";"""  # smaller again, before the event of the first time
    with Machine() as server:
        server.start("wide", {"main": role("seq 1000", FOREVER)})
        server.wait("wide", "RUNNING")
        for (width, height), most in (((1100, 800), 1), (PHONE, 2), ((320, 800), 3)):
            with Page(check, server, "#/sign-in", size=(width, height)) as page:
                open_log(page, [["wide", "main", 0]], "500px")
                settle(page, lambda: "1000" in log_text(page), "the log")
                rows, below, high, wide = page.js(box)
                check.ok(f"{width}: rows of controls", rows <= most and below < 40 and high > 340 and wide <= width, (rows, below, high, wide))
                for low in ("400px", "300px", "500px", "twice", "500px"):
                    page.js(twice if low == "twice" else "document.querySelector('.log-view').style.height = arguments[0]", low)
                    settle(page, lambda: page.js(LAST) < 3 and page.find("checkbox", "Follow").is_selected(), f"{width}: the last line stays")
                page.type("searchbox", "Search in the log", "10")
                page.press(Keys.ENTER)
                page.js("view.wanted = 1; view.setMark(view.mark)")
                settle(page, lambda: row(page, 1), "the first line")
                page.find("log").click()
                page.find("log").send_keys(Keys.CONTROL, "a")
                settle(page, lambda: "are selected" in said(page), "something is said")
                check.equal(f"{width}: nothing moves", page.js(box), [rows, below, high, wide])
        with Page(check, server, "#/sign-in") as page:
            open_log(page, [["wide", "main", 0], *(["", "other", i] for i in range(67))], mark={"task": "other[66]", "text": "x"})
            settle(page, lambda: "main[0] 1000" in log_text(page, "all tasks"), "a log that is there")
            check.ok("no log yet", page.shows("No log yet: other[0], other[1], other[2] and 60 more."), said(page))
            check.ok("which are not shown", page.shows("Not in this log, which has at most 64 tasks: other[62], other[63], other[64] and 1 more."), said(page))
            check.ok("that of the failure is", page.js("return view.sources.some(({ name }) => name === 'other[66]')"))


CORE = [test_page_log_lines_can_be_chosen_and_shown,
        test_page_log_selects_and_copies_all_its_lines]
WHOLE = [test_page_log_reports_missing_output, test_page_log_is_searched_by_expressions, test_page_log_wraps_long_lines,
         test_page_log_continues_after_an_outage, test_page_log_of_a_task_shows_times,
         test_page_log_orders_the_lines_of_all_tasks_by_their_times,
         test_page_log_of_all_tasks_has_each_line_once,
         test_page_log_fits_into_its_place]
