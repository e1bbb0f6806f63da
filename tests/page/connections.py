"""Few connections, and connections that die: a network that forgets them, several windows, a lost answer."""
import os
import re
import time

from behaviour import LOST, Swallowing
from browser import Page, again, settle
from editor import ACCEPTED, Editor
from harness import PATIENCE, SLOW
from machine import Machine, role
from watching import FOREVER, log_text

COUNTING = "i=0; while sleep 0.05; do i=$((i + 1)); echo n$i.; done"
# All lines of the log, as the page copies them; [how often it was said that the connection is lost].
TEXT = """const log = document.querySelector("[role=log]"), data = new DataTransfer();
getSelection().selectAllChildren(log);
log.dispatchEvent(new ClipboardEvent("copy", { clipboardData: data, bubbles: true, cancelable: true }));
getSelection().removeAllRanges();
return data.getData("text/plain");"""
NOTE = """window.saidLost = 0;
new MutationObserver(() => { saidLost++; }).observe(document.querySelector("[aria-label=Connection]"), { childList: true });"""
STOP = """const { stopJob } = await load("actions"), begun = performance.now();
await stopJob(args[0]);
return performance.now() - begun;"""


def last_number(page):
    return int((re.findall(r"n(\d+)\.", log_text(page)) or [0])[-1])


def has_each_line_once(check, page, what):
    found = [int(n) for n in re.findall(r"^n(\d+)\.$", page.js(TEXT), re.M)]
    check.equal(f"{what}: each line once", found, list(range(1, len(found) + 1)))


def goes_on(page, lines, what):
    last = last_number(page)
    settle(page, lambda: last_number(page) > last + lines, what, 3 * PATIENCE)


def test_page_log_goes_on_when_the_network_forgets_connections(check):
    """All connections die without a word: the log goes on, no line is lost or twice, also of a long log; that the
    connection is lost is not said."""
    long = f"i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); echo n$i.; [ $((i % 500)) = 0 ] && sleep 0.5; done; {FOREVER}"
    with Machine() as server:
        for name, command, lines in (("short", COUNTING, 50), ("long", long, 5000)):
            server.start(name, {"main": role(command)})
            with Swallowing(server) as network, Page(check, network, f"#/jobs/alice~{name}") as page:
                settle(page, lambda: last_number(page) > 20, "it is followed")
                page.js(NOTE)
                check.ok("forgotten", network.forget())
                goes_on(page, lines, f"{name}: it goes on")
                check.equal("nothing is said", page.js("return saidLost"), 0)
                has_each_line_once(check, page, name)
            server.stop_job(name)


def test_page_log_ends_though_its_connection_has_died(check):
    """The connection of the log alone dies; the end of the task is seen elsewhere."""
    with Machine() as server, Swallowing(server) as network:
        server.start("ends", {"main": role("i=0; while [ $i -lt 200 ]; do i=$((i + 1)); echo n$i.; sleep 0.05; done; echo the end")})
        with Page(check, network, "#/jobs/alice~ends") as page:
            settle(page, lambda: last_number(page) > 20, "it is followed")
            check.equal("forgotten", network.forget(b"follow=true"), 1)
            settle(page, lambda: "the end" in log_text(page), "all of it is here")
            has_each_line_once(check, page, "ends")


def test_page_log_is_begun_again_when_it_is_silent(check):
    """The connection of the log alone dies while the task goes on."""
    with Machine() as server, Swallowing(server) as network:
        server.start("silent", {"main": role(COUNTING)})
        with Page(check, network, "#/jobs/alice~silent") as page:
            settle(page, lambda: last_number(page) > 20, "it is followed")
            page.js(NOTE)
            check.equal("forgotten", network.forget(b"follow=true"), 1)
            goes_on(page, 100, "it goes on")
            check.equal("nothing is said", page.js("return saidLost"), 0)
            has_each_line_once(check, page, "silent")


class Windows:
    """Several windows of the browser, each with the page of a job that runs."""

    def __init__(self, page, server, n):
        self.page, self.driver = page, page.driver
        self.first, self.all = page.driver.current_window_handle, []
        for i in range(n):
            server.start(f"runs-{i}", {"main": role(COUNTING)})
            server.wait(f"runs-{i}", "RUNNING")
            if i:
                self.driver.switch_to.new_window("window")
                self.driver.get(f"{page.url}#/jobs/alice~runs-{i}")
            else:
                page.go("#/jobs/alice~runs-0")
            self.all.append(self.driver.current_window_handle)

    def each(self):
        for i, handle in enumerate(self.all):
            self.driver.switch_to.window(handle)
            yield i

    def close(self):
        for handle in self.all[1:]:
            again(lambda: self.driver.switch_to.window(handle))
            self.driver.close()
        self.driver.switch_to.window(self.first)


def follow_in_windows(check, n, seconds):
    """Each window follows its job, and stops another one; how long that takes is printed only."""
    waits = []
    with Machine() as server, Page(check, server, "#/jobs") as page:
        windows = Windows(page, server, n)
        try:
            for i in windows.each():
                settle(page, lambda: last_number(page) > 20, f"window {i} follows")
                check.equal(f"window {i} is seen", page.js("return document.hidden"), False)
                page.js(NOTE)
            end = time.monotonic() + seconds
            for turn in range(1000):
                for i in windows.each():
                    name = f"stopped-{turn}-{i}"
                    server.start(name, {"main": role(FOREVER)})
                    waits.append(page.js_async(STOP, f"alice~{name}"))
                    goes_on(page, 1, f"window {i} goes on")
                if time.monotonic() > end:
                    break
            for i in windows.each():
                check.equal(f"window {i}: nothing is said", page.js("return saidLost"), 0)
                check.ok(f"window {i}: no word of it", not LOST.search(page.body()))
                has_each_line_once(check, page, f"window {i}")
        finally:
            windows.close()
    print(f"     {len(waits)} jobs were stopped, each after {max(waits):.0f} ms at most, {sorted(waits)[len(waits) // 2]:.0f} ms in the middle", flush=True)
    check.ok("each has an answer", max(waits) < 60000 * SLOW, waits)


def test_page_windows_side_by_side_do_not_wait_for_each_other(check):
    """Three windows with running jobs: no line is missing, nothing is lost, and requests get through."""
    follow_in_windows(check, 3, 60 if os.environ.get("TEST_WHOLE") == "1" else 5)


def test_page_more_windows_than_connections_follow_their_jobs(check):
    """Eight windows share six connections."""
    follow_in_windows(check, 8, 20)


def test_page_submits_once_though_the_answer_is_lost(check):
    """A text that is submitted again, also after a reload, is the same job; another text is another job."""
    with Machine() as server, Swallowing(server) as network, Editor(check, network) as page:
        network.without_answer = b"POST /api/v1/jobs HTTP"
        page.drop(ACCEPTED % "once")
        settle(page, page.is_ready, "checked")
        page.click("button", "Submit")
        settle(page, lambda: server.request("GET", "/api/v2/jobs/alice~once").status == 200, "the job is there")
        check.equal("the page does not know it", page.hash(), "/submit")
        network.without_answer = None
        page.reload()
        page.find("textbox", "Job")
        settle(page, lambda: page.js("return !document.querySelector('button.primary').disabled"), "checked again")
        page.click("button", "Submit")
        settle(page, lambda: page.hash() == "/jobs/alice~once", "the same job")
        for name in ("other", "another"):
            page.go("#/submit")
            page.find("textbox", "Job")
            page.drop(ACCEPTED % name)
            settle(page, page.is_ready, "checked")
            page.click("button", "Submit")
            settle(page, lambda: page.hash() == f"/jobs/alice~{name}", "another job")
        jobs = [row["name"] for row in server.request("GET", "/api/v2/jobs").json]
        check.equal("no job twice", sorted(jobs), ["another", "once", "other"])


BUSY = """const { send } = await load("api"), { fetch } = window, keys = [];
window.fetch = async (url, options) => {
	if (!String(url).endsWith("/v1/jobs")) return fetch(url, options);
	keys.push(options.headers.get("Idempotency-Key"));
	return keys.length < 3 ? new Response('{"code":"IdempotencyError","message":"wait"}', { status: 409 }) : new Response("done");
};
const { text } = await send("POST", "api/v1/jobs", "x", { key: "one" });
window.fetch = fetch;
return [text, keys];"""


def test_page_repeats_a_submission_without_an_answer(check):
    """A submission whose answer does not come is sent again by itself, with its key, and makes one job; also while
    the server is still at it."""
    with Machine() as server, Swallowing(server) as network:
        server.start("again", {"main": role("true")})
        server.wait("again")
        with Page(check, network, "#/jobs/alice~again") as page:
            page.find("button", "Resubmit")
            check.equal("until there is an answer", page.js_async(BUSY), ["done", ["one"] * 3])
            network.without_answer = b"POST /api/v1/jobs HTTP"
            page.click("button", "Resubmit")
            settle(page, lambda: server.request("GET", "/api/v2/jobs/alice~again-2").status == 200, "the job is there")
            network.without_answer = None
            settle(page, lambda: page.hash() == "/jobs/alice~again-2", "the page knows it")
            check.equal("one job", len(server.request("GET", "/api/v2/jobs").json), 2)


CORE = [test_page_log_ends_though_its_connection_has_died,
        test_page_windows_side_by_side_do_not_wait_for_each_other, test_page_submits_once_though_the_answer_is_lost]
WHOLE = [test_page_log_goes_on_when_the_network_forgets_connections, test_page_repeats_a_submission_without_an_answer,
         test_page_log_is_begun_again_when_it_is_silent, test_page_more_windows_than_connections_follow_their_jobs]
