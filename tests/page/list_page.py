"""The page Jobs: its rows, filters, charts, and many jobs."""
import contextlib
import os
import re
import subprocess
import sys

from browser import PHONE, Page, settle
from harness import PATIENCE, ROOT, Server, free_port, wait_until
from machine import Machine, role
from selenium.webdriver.common.keys import Keys
from watching import COLOURS, FOREVER, chart, row


def test_page_jobs_change_without_a_reload(check):
    """Jobs appear, change, and disappear without a reload; filters, also in the address."""
    with Machine(gpus=2) as server:
        server.start("first", {"main": role(FOREVER, gpu=2)})
        server.wait("first", "RUNNING")
        with Page(check, server, "#/jobs") as page:
            settle(page, lambda: "RUNNING" in row(page, "first"), "the first job runs")
            check.ok("user and cluster", re.search(r"alice\s+default\s+2\s+1", row(page, "first")), row(page, "first"))
            check.ok("a chart of GPUs", wait_until(lambda: re.match("GPUs asked for and in use.*at the end 2 in use", chart(page)), 2 * PATIENCE), chart(page))
            server.start("second", {"main": role("true", gpu=1)})
            settle(page, lambda: "WAITING" in row(page, "second"), "the second waits")
            check.ok("it says why", wait_until(lambda: "GPU" in row(page, "second"), 2 * PATIENCE), row(page, "second"))
            server.start("third", {"main": role("exit 7")})
            settle(page, lambda: "FAILED" in row(page, "third"), "the third fails")
            check.ok("... with its phrase", wait_until(lambda: re.search("255 [A-Z][A-Za-z]+", row(page, "third"))), row(page, "third"))
            page.type("searchbox", "Name", "ir")
            settle(page, lambda: row(page, "third") and not row(page, "second"), "only matching names")
            check.ok("in the address", "keyword=ir" in page.hash(), page.hash())
            page.reload()
            settle(page, lambda: row(page, "third") and not row(page, "second"), "also after a reload")
            page.js("const s = document.querySelector('select[name=state]'); s.value = 'RUNNING';"
                    "s.dispatchEvent(new Event('input', { bubbles: true }))")
            settle(page, lambda: row(page, "first") and not row(page, "third"), "only this state")
            server.stop_job("first")
            settle(page, lambda: not row(page, "first"), "it leaves the selection")
            check.ok("none", page.shows("There are no such jobs"))
            page.go("#/jobs")
            settle(page, lambda: "STOPPED" in row(page, "first"), "the job was stopped")
            reply = server.request("DELETE", "/api/v1/user/alice/jobs/first")
            check.ok("it is deleted", reply.status in (200, 202), reply)
            settle(page, lambda: not row(page, "first"), "it was removed")
            page.click("link", "third")
            settle(page, lambda: page.hash() == "/jobs/alice~third" and page.has("heading", "alice~third"), "the job opens")


def many(n):
    """A server with n jobs in all states, of a fake API server."""
    port = free_port()
    api = subprocess.Popen([sys.executable, os.path.join(ROOT, "tests/bench/manyapi.py"), str(port), str(n)],
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


CORE = [test_page_jobs_change_without_a_reload]
WHOLE = [test_page_jobs_beyond_200_rows_are_virtual,
         test_page_jobs_continue_after_an_outage,
         test_page_jobs_fit_on_a_phone]
