"""The page Jobs: its rows, filters, charts, and many jobs."""
import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from itertools import groupby

from browser import PHONE, Page, settle
from harness import PATIENCE, ROOT, Server, free_port, wait_until
from machine import NOBODY, Machine, job, role
from selenium.webdriver.common.keys import Keys
from tokens import SECRET, bearer, token, write_file
from watching import COLOURS, FOREVER, JSON, chart, log_text, row

SHOWN = """const at = [...document.querySelectorAll("thead th")].findIndex((th) => th.textContent === arguments[0]) + 1;
return [...document.querySelectorAll(`table[aria-label=Jobs] tbody tr:not(.spacer) td:nth-child(${at})`)]
	.map((td) => td.textContent);"""
NAMES = "return [...document.querySelectorAll('table[aria-label=Jobs] tbody a')].map((a) => a.textContent)"
PLACE = """const table = document.querySelector(".table"), active = document.activeElement;
return [table.scrollTop, active.ariaRowIndex, active.textContent, document.querySelectorAll("tr.selected").length, location.hash];"""
ABOVE = """const of = (name) => document.querySelector(name).getBoundingClientRect();
return of("[role=search]").top - of("main").top - parseFloat(getComputedStyle(document.querySelector("main")).paddingTop);"""
TOP = "return document.querySelector('table[aria-label=Jobs]').getBoundingClientRect().top"


def test_page_jobs_change_without_a_reload(check):
    """Jobs appear, change, and disappear without a reload; filters, also in the address."""
    with Machine(gpus=2) as server:
        server.start("first", {"main": role(FOREVER, gpu=2)})
        server.wait("first", "RUNNING")
        with Page(check, server, "#/jobs") as page:
            settle(page, lambda: "RUNNING" in row(page, "first"), "the first job runs")
            top = page.js(TOP)
            check.ok("user and cluster", re.search(r"alice\s+default\s+2\s+1", row(page, "first")), row(page, "first"))
            check.ok("a chart of GPUs", wait_until(lambda: re.match("GPUs, .*at the end 2 in use", chart(page)), 2 * PATIENCE), chart(page))
            check.ok("... low, in a place that was there", page.js(ABOVE) <= 56 and page.js(TOP) == top, page.js(ABOVE))
            server.start("second", {"main": role("true", gpu=1)})
            settle(page, lambda: "WAITING" in row(page, "second"), "the second waits")
            check.ok("it says why", wait_until(lambda: "GPU" in row(page, "second"), 2 * PATIENCE), row(page, "second"))
            server.start("third", {"main": role("exit 7")})
            settle(page, lambda: "FAILED" in row(page, "third"), "the third fails")
            page.type("combobox", "Search", "IR")
            settle(page, lambda: row(page, "third") and not row(page, "second"), "only matching names")
            check.ok("in the address", "q=IR" in page.hash(), page.hash())
            page.reload()
            settle(page, lambda: row(page, "third") and not row(page, "second"), "also after a reload")
            page.js("const s = document.querySelector('select[name=state]'); s.value = 'RUNNING';"
                    "s.dispatchEvent(new Event('input', { bubbles: true }))")
            settle(page, lambda: row(page, "first") and not row(page, "third"), "only this state")
            server.stop_job("first")
            settle(page, lambda: not row(page, "first"), "it leaves the selection")
            check.ok("none", page.shows("No job matches these filters"))
            page.go("#/jobs")
            settle(page, lambda: "STOPPED" in row(page, "first"), "the job was stopped")
            reply = server.request("DELETE", "/api/v1/user/alice/jobs/first")
            check.ok("it is deleted", reply.status in (200, 202), reply)
            settle(page, lambda: not row(page, "first"), "it was removed")
            page.click("link", "third")
            settle(page, lambda: page.hash() == "/jobs/alice~third" and page.has("heading", "third"), "the job opens")


@contextlib.contextmanager
def many(n, *newest):
    """A server with n jobs in all states, of a fake API server."""
    port = free_port()
    api = subprocess.Popen([sys.executable, os.path.join(ROOT, "tests/bench/manyapi.py"), str(port), str(n), *newest],
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with Server("--apiserver", f"http://127.0.0.1:{port}", "--namespace", "default") as server:
            wait_until(lambda: server.request("GET", "/api/v2/jobs?limit=1").status == 200, 8 * PATIENCE)
            yield server
    finally:
        api.kill()
        api.wait()


def test_page_jobs_beyond_200_rows_are_virtual(check):
    """For 10 000 jobs, the document has at most 200 rows, which follow scrolling and keys."""
    rows = "return document.querySelectorAll('tr').length"
    with many(10000) as server:
        with Page(check, server, "#/jobs") as page:
            settle(page, lambda: page.shows("10000 jobs"), "all jobs")
            table = page.find("table", "Jobs")
            check.equal("rows for assistive tools", table.get_attribute("aria-rowcount"), "10001")
            most = page.js(rows)
            for top in (100, 50000, 200000, 1e9):
                page.js("document.querySelector('.table').scrollTop = arguments[0]", top)
                wait_until(lambda: page.js("return document.querySelector('.virtual tbody tr:nth-child(3)') !== null"))
                most = max(most, page.js(rows))
            check.ok("few rows", most <= 200, str(most))
            check.ok("the last one", wait_until(lambda: page.js("return document.querySelector('[aria-rowindex=\"10001\"]') !== null")))
            page.js("document.querySelector('tr[tabindex=\"0\"], tr[tabindex=\"-1\"]').focus()")
            page.press(Keys.HOME)
            focused = "return Number(document.activeElement.ariaRowIndex)"
            check.equal("Home", page.js(focused), 2)
            page.press(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_UP)
            check.equal("arrows", page.js(focused), 3)
            page.press(Keys.PAGE_DOWN)
            check.ok("a page", page.js(focused) > 10, str(page.js(focused)))
            page.press(Keys.END)
            check.equal("End", page.js(focused), 10001)
            name = page.js("return decodeURIComponent(document.activeElement.querySelector('a').hash.slice(7))")
            page.press(Keys.ENTER)
            settle(page, lambda: page.hash() == f"/jobs/{name}", "Enter opens it")


LONGEST = """const done = arguments[arguments.length - 1];
let longest = 0;
new PerformanceObserver((list) => { longest = Math.max(longest, ...list.getEntries().map((e) => e.duration)); }).observe({ type: "longtask", buffered: true });
setTimeout(() => done([Math.round(longest), Math.round(performance.now())]), 100);"""


def test_page_stays_quick_with_much(check):
    """5000 jobs and 100 000 lines of a log are few rows in the document; times are printed only."""
    def quick(page, what):
        longest, shown = page.driver.execute_async_script(LONGEST)
        print(f"     {what}: {shown} ms, longest task {longest} ms", flush=True)
        rows = page.js("return document.querySelectorAll('tr, .line').length")
        check.ok(f"{what}: few rows", rows <= 200, rows)
    with many(5000) as server, Page(check, server, "#/jobs") as page:
        settle(page, lambda: page.shows("5000 jobs"), "all jobs")
        quick(page, "5000 jobs")
        page.click("button", "Name")
        page.click("button", "Duration")
        quick(page, "sorted")
    with Machine() as server:
        server.start("long", {"main": role("seq -f 'line %.0f of a long log' 100000; echo the end")})
        server.wait("long")
        with Page(check, server, "#/jobs/alice~long") as page:
            settle(page, lambda: "the end" in log_text(page), "the end of the log")
            quick(page, "100 000 lines")
            page.type("searchbox", "Search in the log", "line 9999")
            check.ok("found", page.shows("11 lines"))
            quick(page, "searched")


def test_page_jobs_continue_after_an_outage(check):
    """After a SIGKILL of the server the list continues, without jobs that were removed
    meanwhile."""
    with Machine() as server:
        server.start("kept", {"main": role(FOREVER)})
        server.start("removed", {"main": role("true")})
        server.wait("removed")
        with Page(check, server, "#/jobs") as page:
            settle(page, lambda: row(page, "kept") and row(page, "removed"), "both")
            server.kill()
            settle(page, lambda: page.shows("connection to the server is lost"), "cut off")
            check.ok("what was known stays", row(page, "kept"))
            with Machine(where=server.where, port=server.port) as again:
                again.request("DELETE", "/api/v1/user/alice/jobs/removed")
                again.start("new", {"main": role("true")})
                settle(page, lambda: row(page, "new") and not row(page, "removed"), "it goes on")


def test_page_jobs_fit_on_a_phone(check):
    """On a phone, nothing is wider than the screen."""
    with Machine(gpus=2) as server:
        server.start("a-job-with-a-rather-long-name-that-does-not-fit-into-a-narrow-column", {"main": role(COLOURS, gpu=2)})
        with Page(check, server, "#/jobs", size=PHONE, dark=True) as page:
            settle(page, lambda: page.has("link", re.compile("^a-job")), "the job")
            for hash_ in ("#/jobs", "#/jobs/alice~a-job-with-a-rather-long-name-that-does-not-fit-into-a-narrow-column"):
                page.go(hash_)
                page.find("heading", re.compile("a-job" if "~" in hash_ else "Jobs"))
                width = page.js("return document.documentElement.scrollWidth")
                check.ok(f"{hash_}: fits", width <= PHONE[0], str(width))


def column(page, name):
    """The texts of the rows of this column in the document, from the first row on."""
    return page.js(SHOWN, name)


def test_page_jobs_are_sorted_by_each_column(check):
    """A head sorts by its column, then the other way; unknown values are last; so does the address."""
    def numbers(texts):
        units = {"d": 86400, "h": 3600, "m": 60, "s": 1}
        return [sum(float(n) * units.get(u, 1) for n, u in re.findall(r"(-?[\d.]+)([dhms]?)", t)) if t else None for t in texts]

    def in_order(values, down):
        known = [v for v in values if v not in (None, "")]
        return values[:len(known)] == known and known == sorted(known, reverse=down)
    states = ["WAITING", "RUNNING", "STOPPING", "SUCCEEDED", "FAILED", "STOPPED"]
    read = {"State": lambda t: [states.index(x) for x in t], "Name": None, "User": lambda t: t, "Virtual cluster": lambda t: t,
            "GPUs": numbers, "Tasks": numbers, "Age": numbers, "Duration": numbers}
    natural = "return arguments[0].every((t, i, all) => !i || new Intl.Collator('en', { numeric: true }).compare(all[i - 1], t) <= 0)"
    with many(5000) as server, Page(check, server, "#/jobs") as page:
        settle(page, lambda: page.shows("5000 jobs"), "all jobs")
        check.equal("no age is cut", page.js("const cell = document.querySelector('[data-name=Age]:not(th)'); cell.textContent = '59m 59s'; return cell.scrollWidth - cell.clientWidth"), 0)
        newest = column(page, "Name")
        check.equal("newest first", page.find("columnheader", "Age").get_attribute("aria-sort"), "ascending")
        for name, values in read.items():
            seen = []
            for order in ("ascending", "descending"):
                page.click("button", name)
                settle(page, lambda: page.find("columnheader", name).get_attribute("aria-sort") == order, f"{name}: {order}")
                texts = column(page, name)
                seen.append(texts)
                right = in_order(values(texts), order == "descending") if values else \
                    page.js(natural, [t for t in (texts if order == "ascending" else texts[::-1]) if t])
                check.ok(f"{name}: {order}", right and texts, texts)
            check.ok(f"{name}: both ways differ", seen[0] != seen[1] or name == "Tasks", seen)
            check.equal("one column", page.js("return document.querySelectorAll('[aria-sort]').length"), 1)
        codes = {j["name"]: j["appExitCode"] for j in server.request("GET", "/api/v2/jobs?state=FAILED,STOPPED").json}
        page.click("button", "Reason")
        settle(page, lambda: page.find("columnheader", "Reason").get_attribute("aria-sort") == "ascending", "Reason")
        seen = [code for code, _ in groupby(codes.get(name) for name in page.js(NAMES))]
        check.equal("the same reasons are together", len(seen), len(set(seen)))
        page.click("button", "Duration")
        settle(page, lambda: "sort=duration&order=asc" in page.hash(), "in the address")
        page.js("document.querySelector('.table').scrollTop = 1e9")
        check.ok("unknown durations are last", wait_until(lambda: column(page, "Duration")[-1] == ""), column(page, "Duration")[-3:])
        page.click("button", "Duration")
        check.ok("in both orders", wait_until(lambda: "order=desc" in page.hash() and column(page, "Duration")[0] != ""))
        longest = column(page, "Name")[:12]
        page.reload()
        settle(page, lambda: page.shows("5000 jobs"), "again")
        check.ok("after a reload too", wait_until(lambda: column(page, "Name")[:12] == longest), column(page, "Name")[:12])
        page.go("#/jobs")
        settle(page, lambda: column(page, "Name") == newest, "the address without an order: newest first")


def test_page_jobs_tell_their_reason_in_a_sentence(check):
    """The reason of a failure is the line of the log that tells it, and what it means; the code is there on hover. Details
    are asked for at a bounded pace."""
    sentence = "The command failed with an error that only its log explains"
    title = """return [...document.querySelectorAll('tbody tr')].find((r) => r.querySelector('a')?.textContent === arguments[0])
        ?.querySelector('[data-name=Reason]').title"""
    with Machine() as server:
        server.start("line", {"main": role("echo 'ValueError: bad shape' >&2; exit 1")})
        server.start("silent", {"main": role("exit 7")})
        server.start("stops", {"main": role(FOREVER)})
        server.wait("stops", "RUNNING")
        server.stop_job("stops")
        for name in ("line", "silent", "stops"):
            server.wait(name)
        with Page(check, server, "#/jobs") as page:
            for name, told in (("line", f"ValueError: bad shape. {sentence}"), ("silent", f"{sentence}: It wrote no output."),
                               ("stops", "The job was stopped on request")):
                settle(page, lambda: told in row(page, name), f"{name}: {told}")
            check.ok("no code", not re.search("255|[a-z][A-Z]", row(page, "line").replace("ValueError", "")), row(page, "line"))
            check.equal("... but on hover", page.js(title, "line"), f"ValueError: bad shape. {sentence} (255 PAIRuntimeUnknownFailed)")
    begun = time.monotonic()
    with many(5000) as server, Page(check, server, "#/jobs?state=FAILED") as page:
        settle(page, lambda: page.shows("of 5000 jobs"), "many failed ones")
        for top in range(0, 20000, 500):
            page.js("document.querySelector('.table').scrollTop = arguments[0]", top)
            page.js_async("await new Promise((done) => requestAnimationFrame(done));")
        page.look()
        asked = [r for r in page.requests if "/api/v2/jobs/user" in r["url"]]
        check.ok("few requests", 0 < len(asked) <= 110 + 5 * (time.monotonic() - begun), len(asked))


PICK = "const list = document.querySelector('select[name=submitted]'); list.value = arguments[0]; list.dispatchEvent(new Event('input', { bubbles: true })); " \
    "list.dispatchEvent(new Event('change', { bubbles: true }));"


def test_page_jobs_of_a_colleague_are_found_in_three_actions(check):
    """A part of any value, a day by its name, a click: a colleague's job of last Tuesday among 3000. The search offers what
    there is; days, "Mine" and the words are part of the address."""
    def of(job, part):
        return part in "\n".join([job["name"], job["username"], job["virtualCluster"], *job["tags"]]).lower()

    def day(job):
        return time.strftime("%Y-%m-%d", time.localtime(job["submissionTime"] / 1000))
    now = time.time()
    tuesday = time.localtime(now - ((time.localtime(now).tm_wday - 1) % 7 or 7) * 86400)
    iso = time.strftime("%Y-%m-%d", tuesday)
    with many(3000, str(int(now))) as server, Page(check, server, "#/jobs") as page:
        jobs = server.request("GET", "/api/v2/jobs").json
        wanted = next(j for j in jobs if day(j) == iso and sum(of(other, j["username"]) for other in jobs) > 5)
        number = lambda: page.text("status", "Number of jobs")  # noqa: E731
        settle(page, lambda: number() == "3000 jobs", "all jobs")
        page.press("/")
        offered = page.js("return [...document.querySelectorAll('datalist option')].map((o) => o.value)")
        check.ok("users, clusters and tags are offered", {wanted["username"], wanted["virtualCluster"], "nightly"} <= set(offered), offered[:20])
        page.press(wanted["username"][2:].upper())
        found = [j for j in jobs if of(j, wanted["username"][2:])]
        settle(page, lambda: number() == f"{len(found)} of 3000 jobs", f"a part of the user: {len(found)}")
        names = page.js("return [...document.querySelectorAll('select[name=submitted] option')].map((o) => [o.value, o.textContent])")
        check.ok("Tuesday has its name", [iso, time.strftime("Tuesday %-d %b", tuesday)] in names, names)
        page.js(PICK, iso)
        found = [j for j in found if day(j) == iso]
        settle(page, lambda: number() == f"{len(found)} of 3000 jobs", f"of that day: {len(found)}")
        check.equal("these", sorted(page.js(NAMES)), sorted(j["name"] for j in found))
        check.ok("few", 0 < len(found) < 30, len(found))
        address = page.hash()
        page.click("link", wanted["name"])
        settle(page, lambda: page.hash().endswith(wanted["name"]), "the job")
        page.go("#" + address)
        settle(page, lambda: number() == f"{len(found)} of 3000 jobs", "the same address")
        page.go("#/jobs")
        settle(page, lambda: number() == "3000 jobs", "all again")
        for n in (7, 30):
            page.js(PICK, f"{n}d")
            since = time.strftime("%Y-%m-%d", time.localtime(time.mktime(time.localtime(now)[:3] + (12, 0, 0, 0, 0, -1)) - (n - 1) * 86400))
            settle(page, lambda: number() == f"{sum(day(j) >= since for j in jobs)} of 3000 jobs", f"the last {n} days")
        check.ok("no field for a day", not page.js("return document.querySelector('input[type=date]').offsetHeight"))
        page.js(PICK, "on")
        settle(page, lambda: number() == "3000 jobs", "no day yet")
        old = day(jobs[-1])
        page.js("const d = document.querySelector('input[type=date]'); d.value = arguments[0]; d.dispatchEvent(new Event('input', { bubbles: true }))", old)
        settle(page, lambda: number() == f"{sum(day(j) == old for j in jobs)} of 3000 jobs", f"another day, {old}")
        check.ok("in the address", f"submitted={old}" in page.hash(), page.hash())
        page.reload()
        settle(page, lambda: number() == f"{sum(day(j) == old for j in jobs)} of 3000 jobs", "after a reload")
        check.equal("it is shown", page.js("return document.querySelector('input[type=date]').value"), old)
        page.go("#/jobs")
        page.click("checkbox", "Mine")
        check.ok("none is mine", page.shows("No job matches these filters"))
        check.ok("... in the address", "mine=1" in page.hash(), page.hash())
        page.click("button", "Clear the filters")
        settle(page, lambda: number() == "3000 jobs", "cleared")
    with Machine() as server:
        server.start("own", {"main": role("true")})
        with Page(check, server, "#/jobs?mine=1") as page:
            settle(page, lambda: row(page, "own") and page.text("status", "Number of jobs") == "1 of 1 job", "mine")


def test_page_jobs_are_filtered_by_tag(check):
    """Rows show their tags; the filter leaves those that have one of them, also when it changes."""
    with Machine() as server:
        def tag(method, name, value):
            server.request(method, f"/api/v2/jobs/alice~{name}/tag", f'{{"value": "{value}"}}', JSON)
        for name in ("plain", "tagged", "other"):
            server.start(name, {"main": role("true")})
        tag("PUT", "tagged", "night run")
        tag("PUT", "other", "paper")
        with Page(check, server, "#/jobs") as page:
            settle(page, lambda: "night run" in row(page, "tagged") and row(page, "plain"), "the tag")
            page.type("combobox", "Search", "night run,nothing")
            settle(page, lambda: row(page, "tagged") and not row(page, "plain") and not row(page, "other"), "only this one")
            check.ok("in the address", "q=night+run" in page.hash(), page.hash())
            tag("PUT", "plain", "night run")
            settle(page, lambda: row(page, "plain"), "it gets the tag")
            tag("DELETE", "tagged", "night run")
            settle(page, lambda: not row(page, "tagged"), "it loses it")
            check.equal("N", page.text("status", "Number of jobs"), "1 of 3 jobs")


def test_page_jobs_return_to_their_place(check):
    """Back shows the same rows at once, also without an answer: scrolled, focused, filtered,
    sorted and selected as before."""
    with many(5000) as server, Page(check, server, "#/jobs?state=FAILED&sort=name&order=desc") as page:
        settle(page, lambda: page.shows(re.compile(r"\d{3} jobs")) and page.js("return document.querySelectorAll('tbody tr').length") > 20, "the jobs")
        page.press("j", "x", "j", "x")
        page.press(Keys.PAGE_DOWN, Keys.PAGE_DOWN, "j", "x")
        before = page.js(PLACE)
        count = page.text("status", "Number of jobs")
        check.ok("somewhere", before[0] > 500 and int(before[1]) > 30 and before[3] == 1, before)
        check.equal("three are selected", count, "3 selected")
        page.press(Keys.ENTER)
        settle(page, lambda: page.hash().startswith("/jobs/") and not page.has("table", "Jobs"), "the job")
        server.process.send_signal(signal.SIGSTOP)
        try:
            page.driver.back()
            check.ok("at once", wait_until(lambda: page.js("return document.querySelectorAll('tr.selected').length") > 0), page.body())
            check.equal("the place", page.js(PLACE), before)
            check.equal("the selection", page.text("status", "Number of jobs"), count)
        finally:
            server.process.send_signal(signal.SIGCONT)
        settle(page, lambda: "connection to the server is lost" not in page.body(), "the server answers")
        page.js_async("await new Promise((done) => setTimeout(done, 1000))")
        check.equal("the place stays", page.js(PLACE), before)


def test_page_jobs_show_exact_times_by_the_servers_clock(check):
    """Ages are right if the browser's clock is wrong by hours; the exact times are there on hover."""
    wrong = """{ const real = Date; Date = class extends real { constructor(...a) { a.length ? super(...a) : super(real.now() + 3 * 3600e3); }
        static now() { return real.now() + 3 * 3600e3; } }; }"""
    at = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")
    with Machine() as server:
        server.start("ended", {"main": role("true")})
        server.start("runs", {"main": role(FOREVER)})
        server.wait("ended")
        server.wait("runs", "RUNNING")
        with Page(check, server, "about:blank") as page:
            script = page.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": wrong})
            try:
                page.driver.get(page.url + "#/jobs")
                settle(page, lambda: "SUCCEEDED" in row(page, "ended") and "RUNNING" in row(page, "runs"), "both")
                for name in ("Age", "Duration"):
                    check.ok(f"{name}: seconds", all(re.fullmatch(r"\d+s|[12]m( \d+s)?", t) for t in column(page, name)), column(page, name))
                title = "return [...document.querySelectorAll('tbody td')].map((td) => td.title).filter((t) => t.startsWith(arguments[0]))"
                check.ok("submitted", [t for t in page.js(title, "submitted ") if at.search(t)], page.js(title, ""))
                started = page.js(title, "started ")
                check.equal("started, ended", sorted(len(at.findall(t)) for t in started), [1, 2])
            finally:
                page.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", script)


def test_page_jobs_say_what_to_do_first(check):
    """A list without jobs leads to Submit, one without matching jobs to all."""
    with Machine() as server, Page(check, server, "#/jobs") as page:
        check.ok("no jobs", page.shows("There are no jobs yet") and page.shows("rest-lit submit job.yaml"))
        check.equal("N", page.text("status", "Number of jobs"), "0 jobs")
        check.ok("leads to Submit", page.find("link", "Submit a job").get_attribute("href").endswith("#/submit"))
        server.start("first", {"main": role("true")})
        settle(page, lambda: row(page, "first"), "the first job")
        check.ok("no words about none", "There are no jobs" not in page.body())
        check.equal("no chart of no GPUs", chart(page), "")
        page.type("combobox", "Search", "nothing")
        check.ok("no match", page.shows("No job matches these filters"))
        page.click("button", "Clear the filters")
        settle(page, lambda: row(page, "first") and page.hash() == "/jobs", "all jobs")


def choose(page, *names):
    for name in names:
        page.click("checkbox", f"Select {name}")


def test_page_jobs_selected_are_stopped_tagged_and_deleted(check):
    """Selected rows: their number, actions that ask and tell their result, in a line that was there."""
    with Machine() as server:
        for i in range(4):
            server.start(f"runs-{i}", {"main": role(FOREVER)})
            server.wait(f"runs-{i}", "RUNNING")
        with Page(check, server, "#/jobs") as page:
            settle(page, lambda: all("RUNNING" in row(page, f"runs-{i}") for i in range(4)), "four jobs")
            top = page.js(TOP)
            check.ok("no actions", not page.has("button", "Stop"))
            choose(page, "runs-0", "runs-2")
            check.equal("their number", page.text("status", "Number of jobs"), "2 selected")
            check.equal("nothing jumps", page.js(TOP), top)
            delete = page.find("button", "Delete")
            check.ok("only ended ones are deleted", not delete.is_enabled() and "Stop them first" in delete.get_attribute("title"))
            page.click("button", "Tag")
            page.type("textbox", "Tag", " later ")
            page.press(Keys.ENTER)
            check.ok("tagged", page.shows("2 tagged."))
            check.ok("in the rows", wait_until(lambda: "later" in row(page, "runs-0") and "later" in row(page, "runs-2")) and "later" not in row(page, "runs-1"))
            page.press("s")
            check.ok("asks with names", page.shows("Stop 2 jobs: ") and all(f"alice~runs-{i}" in page.body() for i in (0, 2)))
            page.click("button", "Do not stop")
            page.click("button", "Stop")
            page.click("button", "Stop 2 jobs")
            check.ok("told", page.shows("2 stopped."))
            settle(page, lambda: all("STOPPED" in row(page, f"runs-{i}") for i in (0, 2)) and "RUNNING" in row(page, "runs-1"), "only these")
            page.click("button", "Delete")
            page.click("button", "Delete 2 jobs")
            settle(page, lambda: not row(page, "runs-0") and not row(page, "runs-2") and row(page, "runs-1"), "deleted")
            check.ok("told", page.shows("2 deleted."))
            check.equal("no longer selected", page.text("status", "Number of jobs"), "2 jobs")


def test_page_jobs_of_others_are_refused(check):
    """The refusals of the server are told, with their reason."""
    base = tempfile.mkdtemp(prefix="rest-lit-local.")
    os.chmod(base, 0o755)
    secret = write_file(base, "jwt-secret", SECRET)
    if os.geteuid() == 0:
        os.chown(secret, NOBODY, NOBODY)
    with Machine(who=["--jwt-secret-file", secret, "--token-check", "signature"]) as server:
        for user in ("alice", "bob"):
            reply = server.submit(job(f"of-{user}", {"main": role(FOREVER)}), {"Content-Type": "text/yaml", **bearer(token(user))})
            check.equal(f"of {user}", reply.status, 202)
        with Page(check, server, "#/sign-in") as page:
            page.type("textbox", "Token", token("bob"))
            page.press(Keys.ENTER)
            settle(page, lambda: row(page, "of-alice") and row(page, "of-bob"), "both jobs")
            choose(page, "of-alice", "of-bob")
            page.click("button", "Stop")
            page.click("button", "Stop 2 jobs")
            check.ok("one each", page.shows(re.compile(r"1 stopped, 1 refused: \w[\w ]+")), page.body())
        for user in ("alice", "bob"):
            server.request("DELETE", f"/api/v1/user/{user}/jobs/of-{user}", headers=bearer(token(user)))


def test_page_jobs_are_selected_in_ranges(check):
    """Shift+click selects to there, the head all rows, x the row of the keyboard; many requests
    are made four at a time."""
    count = """const real = window.fetch; window.most = 0; let n = 0;
        window.fetch = async (...a) => { if (a[1].method !== "PUT") return real(...a);
            window.most = Math.max(window.most, ++n);
            try { await new Promise((d) => setTimeout(d, 20)); return new Response('{"message": "Not now."}', { status: 503 }); } finally { n--; } };"""
    with many(5000) as server, Page(check, server, "#/jobs") as page:
        settle(page, lambda: page.shows("5000 jobs"), "all jobs")
        boxes = page.js("return [...document.querySelectorAll('tbody input')].slice(0, 8)")
        boxes[1].click()
        page.js("arguments[0].dispatchEvent(new MouseEvent('click', { bubbles: true, cancelable: true, shiftKey: true }))", boxes[6])
        check.equal("a range", page.text("status", "Number of jobs"), "6 selected")
        boxes[0].click()
        page.press("j", "j", "x", "k")
        check.equal("x", page.text("status", "Number of jobs"), "6 selected")
        check.equal("k", page.js("return document.activeElement.ariaRowIndex"), "3")
        page.js(count)
        page.click("button", "Tag")
        page.type("textbox", "Tag", "t")
        page.press(Keys.ENTER)
        check.ok("refusals", page.shows("0 tagged, 6 refused: Not now."), page.body()[-300:])
        check.ok("four at a time", 1 <= page.js("return window.most") <= 4, page.js("return window.most"))
        page.click("checkbox", "Select all jobs")
        check.equal("all", page.text("status", "Number of jobs"), "5000 selected")
        check.equal("20 at most are compared", page.find("button", "Compare").get_attribute("title"), "Select 2 to 20 jobs")
        page.click("button", "Tag")
        check.ok("names the first", page.shows(re.compile(r"Tag 5000 jobs: \S+~\S+, \S+~\S+, \S+~\S+ and 4997 more")))
        page.click("button", "Cancel")
        page.click("checkbox", "Select all jobs")
        check.equal("none", page.text("status", "Number of jobs"), "5000 jobs")
        page.press("/")
        check.ok("the field Search", page.has_focus("combobox", "Search"), page.focused())


def test_page_jobs_compared_show_what_differs(check):
    """Two selected jobs: their states, and only what differs in their configuration."""
    with Machine() as server:
        lines = [f"echo {i}" for i in range(20)]
        server.start("first", {"worker": role(*lines, "exit 1", instances=2), "gone": role(FOREVER)}, extras={"com.example.x": {"a": 1}})
        server.start("second", {"worker": role(*lines, "exit 0", instances=3, memory=128)}, extras={"com.example.x": {"a": 2}})
        server.start("third", {"worker": role(*lines, "exit 0", instances=3, memory=128)}, extras={"com.example.x": {"a": 2}})
        for i in ("1", "2"):
            server.start(f"long-{i}", {"main": role(f"echo --rate 2 --depth {i} --width 1")})
        for name in ("first", "second", "third"):
            server.wait(name)
        with Page(check, server, "#/jobs") as page:
            settle(page, lambda: row(page, "third"), "the jobs")
            choose(page, "first", "second")
            page.click("button", "Compare")
            runs = page.text("table", "Runs")
            check.ok("runs", re.search(r"alice~first\s+FAILED", runs) and re.search(r"alice~second\s+SUCCEEDED", runs) and "Submitted" in runs, runs)
            check.ok("no values", page.shows("No log has a value of loss."))
            paths = page.names("rowheader")[2:]
            check.equal("the paths that differ", sorted(p for p in paths if not p.startswith("taskRoles.gone.")), sorted([
                'extras."com.example.x".a', "taskRoles.worker.instances", "taskRoles.worker.commands",
                "taskRoles.worker.resourcePerInstance.memoryMB"]))
            check.ok("one is missing", page.shows("not set"))
            marked = "return [...document.querySelectorAll('mark')].map((e) => e.textContent.trim())"
            check.equal("the lines that differ", sorted(page.js(marked)), ["exit 0", "exit 1"])
            check.ok("links", page.find("link", "alice~first").get_attribute("href").endswith("#/jobs/alice~first"))
            page.go("#/compare?jobs=alice~long-1,alice~long-2")
            check.ok("the long command", page.shows("--depth 2"))
            check.equal("its words that differ", page.js(marked), ["1", "2"])
            page.go("#/compare?jobs=alice~second,alice~absent")
            check.ok("which job is absent", page.shows("alice~absent: there is no such job"))
            page.go("#/submit?from=alice~absent")
            check.ok("... and is not cloned", page.shows("alice~absent is not cloned: there is no such job"))
            check.ok("one can write", page.has("textbox", "Job"))
            page.go("#/compare?jobs=alice~second,alice~third")
            check.ok("equal", page.shows("Both jobs have the same configuration."))
            page.go("#/compare?jobs=alice~second")
            check.ok("says what to do", page.shows("Select 2 to 20 jobs in the list"))
            page.go(f"#/compare?jobs={','.join(f'alice~j{i}' for i in range(21))}")
            check.ok("not of 21", page.shows("Select 2 to 20 jobs in the list"))


def test_page_compare_shows_runs_of_a_sweep(check):
    """Five runs on one screen: parameters that differ, best and last value of a metric, the best run first, curves."""
    with Machine() as server:
        losses = {0.3: (3, 0.5, 0.25), 0.1: (2, 1.5, 2.5), 0.03: ("nan",), 0.01: (4, 1, "nan"), 3: ()}
        for i, (rate, values) in enumerate(losses.items()):
            lines = [f"printf '\\033[1mloss\\033[0m: {v}, accuracy=0.{n + i}\\n'" for n, v in enumerate(values)] or ["echo"]
            server.start(f"run-{i}", {"main": role(*lines)}, parameters={"rate": rate, "seed": 1, "opt": "a" if i else "b"})
        for i in range(5):
            server.wait(f"run-{i}")
        with Page(check, server, "#/jobs") as page:
            settle(page, lambda: row(page, "run-4"), "the jobs")
            choose(page, *(f"run-{i}" for i in range(5)))
            page.click("button", "Compare")
            rows = "return [...document.querySelectorAll('.runs tr')].map((r) => [...r.cells].map((c) => c.textContent))"
            settle(page, lambda: len(page.js(rows)) == 6, "the runs")
            table = page.js(rows)
            check.equal("the heads", table[0], ["Job", "rate", "opt", "State", "Duration", "Exit", "Submitted", "best loss", "last loss"])
            shown = [(line[0], line[1], *line[-2:]) for line in table[1:]]
            check.equal("the best first", shown[:3], [("alice~run-0", "0.3", "0.25", "0.25"), ("alice~run-3", "0.01", "1", "NaN"),
                                                     ("alice~run-1", "0.1", "1.5", "2.5")])
            check.equal("without a value last", sorted(shown[3:]), [("alice~run-2", "0.03", "", "NaN"), ("alice~run-4", "3", "", "")])
            paths = "return [...document.querySelectorAll('.curves path')].map((p) => p.getAttribute('d'))"
            curve = page.js(paths)
            check.equal("a curve for each run with values", len(curve), 3)
            check.ok("of its values", "M0.0,64.0L500.0,224.0L1000.0,240.0h0" in curve, curve)
            check.ok("what it shows", page.shows("loss: 0.25 to 4 in 5 jobs, at most 3 values each"))
            places = page.js("return ['.runs', '.curves'].map((s) => document.querySelector(s).getBoundingClientRect()).map((r) => [r.top, r.bottom, innerHeight])")
            check.ok("both on one screen", all(0 <= top < bottom <= height for top, bottom, height in places), places)
            check.ok("the other differences", page.shows("These differ, too: taskRoles.main.commands"))
            metric = page.find("searchbox", "Metric") if page.has("searchbox", "Metric") else page.find("combobox", "Metric")
            metric.clear()
            metric.send_keys("accuracy")
            settle(page, lambda: "best accuracy" in page.js(rows)[0], "the other metric")
            check.equal("the highest first", page.js(rows)[1][-2:], ["0.5", "0.5"])
            check.ok("in the address", "metric=accuracy" in page.driver.current_url and "best=highest" in page.driver.current_url,
                     page.driver.current_url)
            metric.clear()
            metric.send_keys("x(")
            check.ok("no such metric", page.shows("No log has a value of x(."))
            page.driver.refresh()
            settle(page, lambda: len(page.js(rows)) == 6, "the runs again")
            check.equal("the same place", page.js(rows)[0][-1], "last x(")


def test_page_jobs_on_a_phone_have_two_lines(check):
    """On a phone, each row has name and state, below them user, GPUs, times and the reason: two lines of one height
    that are not empty."""
    with Machine(gpus=2) as server:
        server.start("holds", {"main": role(FOREVER, gpu=2)})
        server.wait("holds", "RUNNING")
        server.start("waits", {"main": role(FOREVER, gpu=1)})
        server.start("fails", {"main": role("exit 1")})
        server.wait("fails")
        with Page(check, server, "#/jobs", size=(320, 700)) as page:
            settle(page, lambda: "GPU" in row(page, "waits") and "only its log" in row(page, "fails"), "the reasons")
            check.ok("GPUs", "GPUs 2" in page.js("return [...document.querySelectorAll('[data-name=GPUs]')].filter((e) => e.offsetHeight).map((e) => getComputedStyle(e, '::before')"
                                                 ".content.replaceAll('\"', '') + e.textContent)"))
            rows = page.js("return [...document.querySelectorAll('tbody tr:not(.spacer)')].map((tr) => [tr.offsetHeight, ...['Name', 'State', 'User',"
                           " 'Age', 'Reason'].map((n) => tr.querySelector(`[data-name=${n}]`)).map((td) => td.textContent && td.offsetTop)])")
            check.equal("one height", {r[0] for r in rows}, {44})
            check.ok("the second line", all(name < min(user, age) and state < min(user, age) for _, name, state, user, age, _ in rows), rows)
            check.equal("the reason is there, too", [r[5] == "" or r[5] == r[3] for r in rows], [True] * 3)
            check.equal("two have one", [r[5] == "" for r in rows].count(False), 2)
            check.ok("still a table", len(page.names("columnheader")) == 6 and page.has("cell", "waits"), page.names("columnheader"))
            width = page.js("return document.documentElement.scrollWidth")
            check.ok("fits", width <= 320, width)


CORE = [test_page_jobs_change_without_a_reload, test_page_jobs_selected_are_stopped_tagged_and_deleted,
        test_page_jobs_return_to_their_place]
WHOLE = [test_page_jobs_are_sorted_by_each_column, test_page_jobs_are_filtered_by_tag,
         test_page_jobs_tell_their_reason_in_a_sentence, test_page_jobs_of_a_colleague_are_found_in_three_actions,
         test_page_jobs_show_exact_times_by_the_servers_clock, test_page_jobs_say_what_to_do_first,
         test_page_jobs_of_others_are_refused, test_page_jobs_are_selected_in_ranges,
         test_page_jobs_compared_show_what_differs, test_page_compare_shows_runs_of_a_sweep, test_page_jobs_on_a_phone_have_two_lines,
         test_page_jobs_beyond_200_rows_are_virtual, test_page_stays_quick_with_much,
         test_page_jobs_continue_after_an_outage,
         test_page_jobs_fit_on_a_phone]
