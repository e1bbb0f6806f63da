"""The pages Jobs and Job: lists, filters, one job to its end, logs, and what users do with a job."""
import contextlib
import os
import re
import subprocess
import sys

from browser import PHONE, Page, settle
from harness import PATIENCE, ROOT, Server, free_port, wait_until
from machine import Machine, job, role
from place import SIGNATURE, Place
from selenium.webdriver.common.keys import Keys
from tokens import token

FOREVER = "while sleep 0.2; do :; done"
COLOURS = r"printf '\033[1;31mred\033[0m plain\n'; printf '\rstep 1'; printf '\rstep 2\n'; echo 'Needle <b>one</b>'"
JSON = {"Content-Type": "application/json"}


def row(page, name):
    """The text of the row with this link; "" if there is none."""
    return page.js("return [...document.querySelectorAll('table[aria-label=Jobs] tbody tr')]"
                   ".find((r) => r.querySelector('a')?.textContent === arguments[0])?.innerText ?? ''", name)


def log_text(page, task="main[0]"):
    return page.text("log", f"Log of {task}")


def state(page):
    return page.text("status", "State")


def chart(page):
    """The description of the chart for assistive tools."""
    return page.js("return document.querySelector('figure [role=img]')?.getAttribute('aria-label') ?? ''")


# ---- modules without a page ----
LOG = r"""
const { Known, Log, parts, restyle } = await load("log");
const encode = (text) => new TextEncoder().encode(text);
const read = (bytes, size, bounds) => {
	const log = new Log(bounds);
	for (let i = 0; i < bytes.length; i += size) log.write(bytes.slice(i, i + size));
	return log;
};
const lines = (log) => Array.from({ length: log.count }, (_, i) => log.line(log.dropped + i));
const shown = (log) => lines(log).map((line) => parts(line).map(({ text, style }) => [text, style?.name ?? ""]));
const text = "\u20ac \u{1F600}\x1b[1;31mred\x1b[0m\x1b]8;;http://a/\x07link\x1b]8;;\x1b\\ \x1b]0;title\x07\x1b[2J!\r\n" +
	"10%\r\x1b[32m100%\x1b[m\nabc\b\bX\n12345\r\x1b[Kab\n\x1b[48;2;1;2;3;38;5;196mx\x1b[38:2::9:8:7my\x1b[0m\x00\x07\x9b\ttab\n" +
	"12345\r\x1b[34mab\x1b[0mc\n\xff\x1b[";
const bytes = encode(text);
const whole = JSON.stringify(shown(read(bytes, 1 << 20)));
const wrong = [];
for (let size = 1; size < bytes.length; size++) {
	if (JSON.stringify(shown(read(bytes, size))) !== whole) wrong.push(size);
}
const invalid = read(Uint8Array.of(97, 0xe2, 0x82, 10, 0xff, 98), 1);
const small = read(encode(Array.from({ length: 1000 }, (_, i) => `line ${i}\n`).join("")), 7, { lines: 50 });
const wide = read(encode("x".repeat(25000)), 999);
const heavy = read(encode("\x1b[31ma\x1b[32mb".repeat(20000) + "\n"), 4096, { memory: 1 << 20 });
const hostile = [read(encode("\x1b[".repeat(20000)), 4096), read(encode("\x1b]" + "x".repeat(9000)), 4096)];
const found = [small.find("LINE 99"), small.find("nothing"), small.find("")];
small.write(encode("a new line 99\n"));
const known = new Known(), numbers = Array.from({ length: 700000 }, (_, i) => `${i}\n`).join("");
for (let i = 0; i < 4000000; i += 50000) known.add(encode(numbers.slice(i, i + 50000)));
const start = numbers.indexOf("\n", 3990000) + 1;
const at = (text) => known.place(encode(text));
const places = [at("0\n1\n2\n"), at(numbers.slice(start, 4000500)) - start, at(numbers.slice(4000000)) - 4000000];
for (let i = 0; i < 90; i++) known.add(encode("tick\n".repeat(10000)));
places.push(at("tick\n".repeat(2000)) - 4000000, at(numbers.slice(3999000, 4000000) + "tick\n"), at("?") - known.total);
return { whole: JSON.parse(whole), wrong, invalid: lines(invalid).map((l) => l.text), small: [small.count, small.dropped,
	small.line(small.dropped).text], wide: lines(wide).map((l) => l.text.length), heavy: lines(heavy).length,
	hostile: hostile.map((l) => lines(l).map((one) => one.text.length)), found, again: small.find("line 99"), places,
	marks: parts(read(encode("a\x1b[31mbCd\x1b[0me"), 9).line(0), "cde"), reset: restyle({ bold: true }, "") };"""

MODELS = r"""
const { visible } = await load("table"), { sampled } = await load("chart");
const { selects, gpuSeries } = await load("jobs"), { taskSeries, hasSshd } = await load("job");
const { nextName, hasSecrets } = await load("actions");
const row = { name: "bert", username: "alice", virtualCluster: "vision", state: "RUNNING" };
const plugin = (more) => ({ extras: { "com.microsoft.pai.runtimeplugin": [null, { plugin: "tensorboard" }, { plugin: "ssh", ...more }] } });
const day = 86400e3, gpus = (rows) => gpuSeries(rows, day, 2 * day).map(({ values, last }) => [0, 80, 130, 239].map((i) => values[i]).concat(last));
return {
	visible: [visible(0, 300, 30, 5), visible(3000, 300, 30, 1000), visible(1e9, 300, 30, 1000), visible(0, 1e6, 10, 1e5), visible(0, 0, 30, 9)],
	sampled: [sampled([{ start: 0, end: 10, weight: 2 }], 0, 10, 2), sampled([{ start: 4, end: 99, weight: 1 }], 0, 10, 5),
		sampled([{ start: -5, end: 1, weight: 4 }, { start: 20, end: 30, weight: 4 }, { start: 3, end: 3, weight: 4 }], 0, 10, 5)],
	selects: [{ username: "bob,alice" }, { username: "ali" }, { vc: "vision", state: "RUNNING" }, { state: "FAILED" }, { keyword: "er" },
		{ keyword: "visi" }, { keyword: "" }].map((filter) => selects(filter, row)),
	gpus: [gpus([{ submissionTime: day, launchedTime: 1.5 * day, completedTime: null, totalGpuNumber: 4 }]),
		gpus([{ submissionTime: 0, launchedTime: null, completedTime: 1.25 * day, totalGpuNumber: 2 }, { submissionTime: day, totalGpuNumber: 0 }])],
	tasks: taskSeries([{ createdTime: 0, launchedTime: 5, completedTime: 10, taskState: "FAILED" }], 0, 240).map((s) => [s.role, s.values[3], s.values[8], s.values[200], s.last]),
	names: [nextName("a", []), nextName("a-3", ["a-7", "a-x", "b-9"]), nextName("-1", ["-1"]), nextName("a-2", ["a-2"])],
	secrets: [hasSecrets({}), hasSecrets({ secrets: "******" }), hasSecrets({ prerequisites: [{ auth: { password: "******" } }] }),
		hasSecrets({ prerequisites: [{ auth: "******" }] }), hasSecrets({ secrets: { a: 1 }, prerequisites: [{}, null] })],
	sshd: [{}, null, { extras: null }, plugin({}), plugin({ parameters: { jobssh: false, userssh: { type: "none" } } }), plugin({ parameters: { jobssh: true }, taskroles: ["b"] }),
		plugin({ parameters: { jobssh: true } }), plugin({ parameters: { jobssh: "true" }, taskroles: ["b", "a"] }), plugin({ parameters: { userssh: { value: "k" } } })]
		.map((config) => hasSshd(config, "a")) };"""


def test_page_modules_split_logs_and_rows(check):
    """The modules without a page: lines of logs, split anywhere; visible rows; charts; names."""
    with Machine() as server, Page(check, server, "#/sign-in") as page:
        log = page.js_async(LOG)
        red, blue, green = ('{"bold":true,"fg":"#ff7b72"}', '{"fg":"#6cb6ff"}', '{"fg":"#57c774"}')
        check.equal("lines", log["whole"], [
            [["\u20ac \U0001f600", ""], ["red", red], ["link !", ""]], [["100%", green]], [["aXc", ""]], [["ab", ""]],
            [["x", '{"bg":"#010203","fg":"#ff0000"}'], ["y", '{"bg":"#010203","fg":"#090807"}'], ["\ttab", ""]],
            [["ab", blue], ["c45", ""]], [["\u00ff", ""]]])
        check.equal("however it is split", log["wrong"], [])
        check.equal("invalid UTF-8", log["invalid"], ["a\ufffd", "\ufffdb"])
        check.equal("few lines are kept", log["small"], [50, 951, "line 951"])
        check.equal("long lines are broken", log["wide"], [10000, 10000, 5000])
        check.ok("memory is bounded", log["heavy"] < 4, str(log["heavy"]))
        check.equal("unfinished escapes", log["hostile"], [[10000, 9999], [9001]])
        check.equal("search", log["found"], [[*range(990, 1000)], [], []])
        check.equal("... goes on", log["again"], [*range(990, 1001)])
        check.equal("places of streams", log["places"], [4000000, 0, 0, 4490000, 8500000, 0])
        check.equal("marks", [[p["text"], (p["style"] or {}).get("mark", False)] for p in log["marks"]],
                    [["a", False], ["b", False], ["Cde", True]])
        check.equal("reset", log["reset"], None)
        models = page.js_async(MODELS)
        check.equal("visible rows", models["visible"], [[0, 5], [88, 122], [966, 1000], [0, 160], [0, 9]])
        check.equal("averages", models["sampled"], [[2, 2], [0, 0, 1, 1, 1], [2, 0, 0, 0, 0]])
        check.equal("filters", models["selects"], [True, False, True, False, True, True, True])
        check.equal("GPUs", models["gpus"], [[[0, 0, 4, 4, 4], [4, 4, 0, 0, 0]], [[0] * 5, [2, 0, 0, 0, 0]]])
        check.equal("tasks", models["tasks"], [["succeeded", 0, 0, 0, 0], ["failed", 0, 0, 1, 1], ["stopped", 0, 0, 0, 0],
                                               ["running", 0, 1, 0, 0], ["waiting", 1, 0, 0, 0]])
        check.equal("names", models["names"], ["a-2", "a-8", "-1-2", "a-3"])
        check.equal("tasks with sshd", models["sshd"], [False] * 6 + [True] * 3)
        check.equal("secrets", models["secrets"], [False, True, True, True, False])


# ---- the list ----
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


@contextlib.contextmanager
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


# ---- one job ----
def test_page_job_is_followed_to_its_end(check):
    """The page shows a job from start to end: state, log with colours and a progress bar, search,
    events."""
    with Machine() as server:
        server.start("train", {"main": role(COLOURS, FOREVER)})
        with Page(check, server, "#/jobs/alice~train") as page:
            settle(page, lambda: "RUNNING" in state(page), "it runs")
            settle(page, lambda: "Needle" in log_text(page), "the log comes")
            check.ok("progress bar and text", "red plain\nstep 2\nNeedle <b>one</b>" in log_text(page), log_text(page))
            red = page.js("return [...document.querySelectorAll('.line .bold')].map((e) => [e.textContent, getComputedStyle(e).color])")
            check.equal("colours", red, [["red", "rgb(255, 123, 114)"]])
            check.ok("tasks", "RUNNING" in page.text("table", "Tasks"))
            check.ok("not in its image", page.shows("runs on this machine's files, not in debian:12-slim"))
            check.ok("no way to log in: there is no sshd", page.shows(re.compile("ssh [0-9]")) and "ssh -p" not in page.body(), page.text("table", "Tasks"))
            page.type("searchbox", "Search in the log", "NEEDLE")
            check.ok("search", page.shows("1 line"))
            page.press(Keys.ENTER)
            check.ok("at the line", page.shows("1 of 1 line"))
            check.equal("marked", page.js("return [...document.querySelectorAll('mark')].map((e) => e.textContent)"), ["Needle"])
            server.request("PUT", "/api/v2/jobs/alice~train/tag", '{"value": "blue"}', JSON)
            server.stop_job("train")
            settle(page, lambda: "STOPPED" in state(page), "it ends")
            check.ok("the tag", page.shows("blue"))
            check.ok("a chart", wait_until(lambda: re.match("Tasks by state.*1 stopped", chart(page))), chart(page))
            check.ok("events", wait_until(lambda: "Scheduled" in page.text("table", "Events")))
            check.ok("the configuration", page.shows('"train"'))
            check.ok("no stop", not page.has("button", "Stop"))
            check.equal("the log, once", log_text(page).count("Needle"), 1)


def test_page_job_shows_the_ssh_command(check):
    """The page shows the ssh command of tasks in which the plugin ssh runs sshd."""
    ssh = {"plugin": "ssh", "parameters": {"jobssh": False, "userssh": {"type": "custom", "value": ""}}, "taskroles": ["main"]}
    with Machine() as server:
        server.start("reach", {"main": role(FOREVER), "other": role(FOREVER)}, extras={"com.microsoft.pai.runtimeplugin": [ssh]})
        with Page(check, server, "#/jobs/alice~reach") as page:
            settle(page, lambda: "RUNNING" in state(page), "it runs")
            settle(page, lambda: len(re.findall(r"ssh -p \d+ root@", page.text("table", "Tasks"))) == 1, "one role")
            check.ok("also of the task that is shown", page.shows(re.compile(r"SSH\s+ssh -p \d+ root@")), page.text("region", "Task"))


def test_page_job_explains_a_failure(check):
    """The page shows the reason of a failure: exit code, phrase, remedy, and the output of each
    stream."""
    with Machine() as server:
        server.start("bad", {"main": role("echo to stdout", "echo to stderr >&2", "exit 3")})
        server.wait("bad")
        with Page(check, server, "#/jobs/alice~bad") as page:
            settle(page, lambda: "to stderr" in log_text(page), "the log")
            check.ok("why", re.search(r"FAILED 255 [A-Z]\w+", state(page)), state(page))
            check.ok("its explanation", page.shows("What to do"))
            check.ok("who failed first", page.shows("Failed first") and page.shows("main[0]: "))
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
            check.ok("the download is a link", link[0] == "bad-main-0-stderr.log" and "to stderr\n" in link[1], link)


def test_page_log_reports_missing_output(check):
    """For a large log, the page shows how many bytes are not stored, how many are only not shown,
    and a link to the stored ones."""
    with Machine() as server:
        server.start("large", {"main": role("seq -f %0400.0f 60000; seq -f %0100.0f 160000; echo the end")})
        server.wait("large")
        with Page(check, server, "#/jobs/alice~large") as page:
            missing = re.compile(r"(\d+\.\d) MiB of output before this are not stored\. "
                                 r"The first \d+ lines that are stored, (\d+\.\d) MiB, are not shown on this page\.")
            settle(page, lambda: "the end" in log_text(page) and missing.search(page.body()), "it is said")
            gone, hidden = map(float, missing.search(page.body()).groups())
            sent = page.js_async("""
                let found;
                HTMLAnchorElement.prototype.click = function () { found = this.getAttribute("href"); };
                [...document.querySelectorAll("button")].find((b) => b.textContent === "Download what is stored").click();
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


def test_page_job_can_be_stopped_cloned_and_tagged(check):
    """Stop asks for confirmation; clone, resubmit and tags work; a job may not exist or may be
    removed."""
    with Machine() as server:
        server.start("work", {"main": role(FOREVER)})
        with Page(check, server, "#/jobs/alice~work") as page:
            settle(page, lambda: "RUNNING" in state(page), "it runs")
            page.type("textbox", "New tag", "nightly")
            page.press(Keys.ENTER)
            page.click("button", "Remove tag nightly")
            check.ok("removed again", page.gone("button", "Remove tag nightly"))
            check.equal("no tags", server.request("GET", "/api/v2/jobs/alice~work").json["tags"], [])
            page.click("button", "Stop")
            page.click("button", "Let it run")
            check.equal("not stopped", server.state("work"), "RUNNING")
            page.click("button", "Stop")
            page.click("button", "Stop the job")
            settle(page, lambda: "STOPPED" in state(page), "it stops")
            check.ok("no button", page.gone("button", "Stop"))
            page.click("button", "Resubmit")
            settle(page, lambda: page.hash() == "/jobs/alice~work-2" and page.has("heading", "alice~work-2"), "the new job opens")
            settle(page, lambda: "RUNNING" in state(page), "it runs")
            page.forgive("web/submit.js")
            page.click("button", "Clone")
            settle(page, lambda: page.hash() == "/submit?from=alice~work-2", "clone opens the editor")
            page.go("#/jobs/alice~absent")
            check.ok("no such job", page.shows("There is no job alice~absent"))
            page.go("#/jobs/alice~work")
            settle(page, lambda: page.has("status", "State"), "the first job")
            server.request("DELETE", "/api/v1/user/alice/jobs/work")
            page.js("location.reload()")
            check.ok("it is gone", page.shows("There is no job alice~work"))


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
            settle(page, lambda: page.has("log", "Log of main[19999]"), "the log of the last task")
            check.ok("it is asked for", wait_until(lambda: page.js("return asked.some((path) => path.includes('taskIndex/19999/'))")))


def test_page_job_shows_earlier_attempts(check):
    """The page shows the attempts of a job with their tasks and logs."""
    with Machine() as server:
        server.start("again", {"main": role("echo attempt $FC_FRAMEWORK_ATTEMPT_ID", "exit $((1 - FC_FRAMEWORK_ATTEMPT_ID))")},
                     jobRetryCount=2)
        server.wait("again")
        with Page(check, server, "#/jobs/alice~again") as page:
            settle(page, lambda: "attempt 1" in log_text(page), "the log of the last attempt")
            check.ok("both attempts", re.search(r"2\s+SUCCEEDED.*1\s+FAILED", page.text("table", "Attempts"), re.S))
            page.click("button", "1")
            settle(page, lambda: "attempt 0" in log_text(page), "the log of the first attempt")
            check.ok("its tasks", "FAILED" in page.text("table", "Tasks"))


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
            check.ok("refused in words", page.shows("Not shown: this is for the job's owner"), page.body())
            for button in ("Stop", "Add a tag"):
                check.ok(f"no button {button}", not page.has("button", button))
            check.ok("nothing of the job", "hidden words" not in page.body(), page.body())


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


CORE = [test_page_modules_split_logs_and_rows, test_page_jobs_change_without_a_reload,
        test_page_job_is_followed_to_its_end]
WHOLE = [test_page_job_shows_the_ssh_command, test_page_log_reports_missing_output, test_page_job_explains_a_failure,
         test_page_jobs_beyond_200_rows_are_virtual, test_page_jobs_continue_after_an_outage,
         test_page_log_continues_after_an_outage, test_page_job_can_be_stopped_cloned_and_tagged,
         test_page_job_with_many_tasks_has_few_rows, test_page_job_shows_earlier_attempts,
         test_page_job_of_others_is_refused_in_a_sentence, test_page_jobs_fit_on_a_phone]
