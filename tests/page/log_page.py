"""Logs on the page of a job."""
import re

from browser import Page, settle
from harness import PATIENCE
from machine import Machine, role
from watching import log_text


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
    count = """const input = document.querySelector('[aria-label="Search in the log"]');
        input.value = arguments[0]; input.dispatchEvent(new Event("input")); return input.parentNode.querySelector("output").textContent"""
    with Machine() as server:
        server.start("long", {"main": role("for i in $(seq 3000); do echo early; done; i=0; while sleep 0.05; do i=$((i + 1)); echo n$i.; done")})
        with Page(check, server, "#/jobs/alice~long") as page:
            settle(page, lambda: "n20.\n" in log_text(page), "the log comes")
            server.kill()
            settle(page, lambda: page.shows("connection to the server is lost"), "cut off")
            with Machine(where=server.where, port=server.port):
                last = int(re.findall(r"n(\d+)\.", log_text(page))[-1])
                settle(page, lambda: f"n{last + 100}.\n" in log_text(page), "it goes on", 3 * PATIENCE)
                wrong = {i: found for i in range(1, last + 100) if (found := page.js(count, f"n{i}.")) != "1 line"}
                check.equal("each line once", wrong, {})
                check.equal("also equal ones", page.js(count, "early"), "3000 lines")


CORE = []
WHOLE = [test_page_log_reports_missing_output,
         test_page_log_continues_after_an_outage]
