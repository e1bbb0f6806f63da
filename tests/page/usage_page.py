"""Use of tasks and GPUs: the tab Usage, the head of a job, the list, the machine and the report.

The page comes from the real server, through a `StandIn`, which has answers of its own for some paths:
figures like these need GPUs."""
import itertools
import json
import re
import time

from axe import PROGRAM, RUN, installed
from browser import PHONE, WIDE, Page, settle
from harness import Threads, wait_until
from hostile import MirrorHandler
from machine import Machine, role
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys
from watching import FOREVER

BOUND = 1767225600000
DETAIL, USAGE, MACHINE = "/api/v2/jobs/alice~holds", "/api/v2/jobs/alice~holds/usage", "/api/v2/machine"
KEEP, JOBS, REPORT = "/api/v2/jobs/alice~holds/keep", "/api/v2/jobs", "/api/v2/report"
IDLE = int(time.time() * 1000) - 40 * 60000


class StandInHandler(MirrorHandler):
    def do_GET(self):
        path = self.path.partition("?")[0]
        self.server.asked.append(self.path)
        if path.endswith("/watch"):
            self.stream()
        elif path in self.server.answers:
            answer = self.server.answers[path]
            if callable(answer):
                answer = answer(self.real(self.path))
            status = answer.get("status", 200) if isinstance(answer, dict) else 200
            self.answer(answer, status)
        else:
            self.reply(*self.forward())

    def do_PUT(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.put.append((self.path, json.loads(body)))
        self.answer(*self.server.kept)


class StandIn(Threads):
    """A server with these answers: JSON, or a function of the answer of the real server; a member `status` is the status."""

    def __init__(self, real, **answers):
        super().__init__(StandInHandler)
        self.real, self.port, self.answers = real, self.server_address[1], {}
        self.asked, self.put, self.kept = [], [], ({}, 200)
        self.set(**answers)

    def set(self, **answers):
        names = {"detail": DETAIL, "usage": USAGE, "machine": MACHINE, "jobs": JOBS, "report": REPORT}
        self.answers.update({names[name]: answer for name, answer in answers.items()})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()


def held():
    """A machine of two GPUs, which one job holds."""
    server = Machine(gpus=2)
    server.start("holds", {"main": role(FOREVER, gpu=2)})
    server.wait("holds", "RUNNING")
    return server


def refusal(status, code, message):
    return {"status": status, "code": code, "message": message}


NOT_LOCAL = refusal(404, "NoMachineError", "this server does not run jobs on its own machine")


def curve(mean, most=None, period=5):
    return {"period": period, "mean": mean, "most": most or mean}


GPU = {"index": 0, "name": "nvidia.com/gpu=0", "busy": 68.2, "busyMost": 100, "samples": 41, "memoryMB": 10, "memoryMostMB": 2048,
       "totalMB": 40960, "energyWh": 12.3, "idleSeconds": 55, "used": True}
UNKNOWN = {"index": 1, "name": "nvidia.com/gpu=1", "busy": None, "busyMost": None, "samples": 0, "memoryMB": None, "memoryMostMB": None,
           "totalMB": None, "energyWh": None, "idleSeconds": None, "used": None}
ROW = {"taskRole": "main", "taskIndex": 0, "jobAttempt": 0, "taskAttempt": 0, "running": True, "boundTime": BOUND, "heldSeconds": 40, "exitCode": None,
       "gpuNumber": 2, "cpuNumber": 4, "memoryMB": 16384,
       "figures": {"cpuSeconds": 64, "memoryMB": 512, "memoryMostMB": 900, "memoryAtMost": True, "seconds": 40, "gpus": [GPU, UNKNOWN],
                   "idleRunMs": 0, "sampledBootMs": 123},
       "curves": {"cpus": curve([1.5, 2, 2]), "memoryMB": curve([512, 600, 700], [600, 700, 900], 10),
                  "gpus": [{"busy": curve([0, 50, None, None, 80, 90], [0, 100, None, None, 95, 100]), "memoryMB": curve([10] * 6)},
                           {"busy": curve([]), "memoryMB": None}]}}


def usage(*rows, total=None, notes=()):
    return {"tasks": list(rows), "tasksTotal": total or len(rows), "notes": list(notes)}


USED = {"cpus": 3.24, "memoryMB": 900, "memoryAtMost": True, "busy": 68.4, "gpuMemoryMB": 12390, "gpuIdleSince": None}
NO_USE = {**dict.fromkeys(USED), "memoryAtMost": False}
BUSY = {"index": 0, "name": "nvidia.com/gpu=0", "uuid": None, "job": "alice~holds", "known": True, "busy": 68.2, "memoryMB": 12390, "totalMB": 40960,
        "powerW": 280.4, "idleSince": None, "outside": []}
OUTSIDE = {"pid": 4711, "user": "bob", "program": "python3", "memoryMB": 12390}
STATES = [BUSY, {**BUSY, "index": 1, "busy": 0, "powerW": None, "idleSince": IDLE, "outside": [OUTSIDE]},
          {**BUSY, "index": 2, "job": None, "known": False, **dict.fromkeys(("busy", "memoryMB", "totalMB", "powerW"))}]


def machine_with(used=None, states=(), figures=None, **more):
    return lambda real: {**real, **more, "gpuStates": list(states), "gpuFigures": figures,
                         "running": [{**row, "used": used} for row in real["running"]]}


def idle_detail(since, **more):
    return lambda real: {**real, "jobStatus": {**real["jobStatus"], "gpuIdleSince": since, **more}}


def clock(page, ms):
    return page.js_async("return (await load('dom')).time(args[0])", ms)


def reading(page, name):
    return page.find("slider", name).get_attribute("aria-valuetext")


def test_page_usage_shows_curves_by_keyboard_and_pointer(check):
    """Mean and greatest value at each point, gaps as gaps, unknown figures as such; a table has the same."""
    with held() as server, StandIn(server, usage=usage(ROW, notes=["GPU 1 was never used"])) as there, Page(check, there, "#/jobs/alice~holds") as page:
        page.find("log", "Log of main[0]")
        check.ok("its code is loaded when it is opened", not any("/curve.js" in path for path in there.asked))
        check.ok("the tabs, by Tab", page.tab_to("tab", "Log"), page.focused())
        page.press(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
        check.ok("Usage, by arrows", page.has_focus("tab", "Usage"), page.focused())
        check.ok("a note", page.shows("GPU 1 was never used"))
        names = ["CPUs", "Memory", "GPU 0 busy", "GPU 0 memory"]
        settle(page, lambda: page.names("slider") == names, names)
        paths = page.js("return [...document.querySelectorAll('[aria-label=\"GPU 0 busy\"] path')].map((p) => p.getAttribute('d').split('M').length - 1)")
        check.equal("area, band and line have a gap", paths[:3], [2, 2, 2])
        line = page.js("return document.querySelector('[aria-label=\"GPU 0 busy\"] .mean').getAttribute('d')")
        check.equal("the line", line, "M0,100.00 1,100.00 1,50.00 2,50.00M4,20.00 5,20.00 5,10.00 6,10.00")
        check.equal("the whole", reading(page, "GPU 0 busy"), "mean 55 %, greatest 100 %")
        check.equal("at most", reading(page, "Memory"), "mean at most 604 MiB, greatest at most 900 MiB")
        check.ok("a curve, by Tab", page.tab_to("slider", "GPU 0 busy"), page.focused())
        at = [clock(page, BOUND + i * 5000)[5:] for i in range(8)]
        for keys, wanted in (((Keys.ARROW_RIGHT,), f"{at[0]}: mean 0 %, greatest 0 %"), ((Keys.ARROW_RIGHT,), f"{at[1]}: mean 50 %, greatest 100 %"),
                             ((Keys.ARROW_RIGHT,), f"{at[2]}: unknown"), ((Keys.END,), f"{at[7]}: unknown"), ((Keys.PAGE_DOWN,), f"{at[0]}: mean 0 %, greatest 0 %"),
                             ((Keys.END, Keys.ARROW_LEFT, Keys.ARROW_LEFT), f"{at[5]}: mean 90 %, greatest 100 %")):
            page.press(*keys)
            check.equal("by key", reading(page, "GPU 0 busy"), wanted)
        check.ok("it is seen", page.shows(f"{at[5]}: mean 90 %, greatest 100 %"))
        plot = page.find("slider", "CPUs")
        page.use("slider", "CPUs", lambda e: ActionChains(page.driver).move_to_element_with_offset(e, -e.size["width"] // 2 + 2, 0).perform())
        check.ok("by pointer", wait_until(lambda: reading(page, "CPUs") == f"{at[0]}: mean 1.5, greatest 1.5"), plot.get_attribute("aria-valuetext"))
        check_table(check, page, at)


def check_table(check, page, at):
    text = page.text("table", "Figures of main[0]")
    check.ok("figures at most", "at most 512 MiB" in text and "at most 900 MiB" in text and "68 %" in text and "12 Wh" in text, text)
    lines = [re.sub(r"\s+", " ", line).strip() for line in page.js("return [...document.querySelectorAll('[aria-label=\"Figures of main[0]\"] tr')].map((r) => r.innerText)")]
    check.equal("unknown is never 0", [line for line in lines if line.startswith("GPU 1")],
                ["GPU 1 busy unknown unknown unknown unknown", "GPU 1 memory unknown unknown unknown"])
    check.ok("a curve without points", "GPU 1 busy\nunknown" in page.body() or "GPU 1 busyunknown" in page.body().replace("\n", ""), page.body())
    page.use("DisclosureTriangle", "Curves as a table", lambda e: e.click())
    settle(page, lambda: page.has("table", "Curves of main[0]"), "the table")
    rows = page.js("return [...document.querySelectorAll('[aria-label=\"Curves of main[0]\"] tbody tr')].map((r) => [...r.children].map((c) => c.textContent))")
    check.equal("times of 10 s", [row[0][5:] for row in rows], at[:6:2])
    check.equal("a row", rows[0][1:4], ["mean 1.8, greatest 2", "mean at most 512 MiB, greatest at most 600 MiB", "mean 25 %, greatest 100 %"])
    check.equal("a gap", rows[1][3], "unknown")


def test_page_usage_is_absent_on_a_cluster(check):
    with held() as server, StandIn(server, machine=NOT_LOCAL) as there, Page(check, there, "#/jobs/alice~holds?view=usage") as page:
        check.ok("the log instead", page.find("log", "Log of main[0]"))
        check.equal("no tab", page.names("tab", "Usage"), [])
        check.equal("nothing is asked for", [path for path in there.asked if re.search("usage|used", path)], [])


def test_page_usage_of_many_tasks_is_bounded(check):
    """2000 tasks: 200 are in the document, of which three have curves; any other can be chosen."""
    rows = [{**ROW, "taskIndex": i, "curves": ROW["curves"] if i < 200 else None} for i in range(2000)]
    with held() as server, StandIn(server, usage=usage(*rows, total=3000)) as there:
        with Page(check, there, "#/jobs/alice~holds?view=usage&task=*") as page:
            settle(page, lambda: page.shows("and 2800 more tasks"), "the number of others")
            check.equal("in the document", page.js("return [document.querySelectorAll('.task-use').length, document.querySelectorAll('.curve').length]"), [200, 18])
            check.ok("the others are named", page.shows("main[199]") and not page.has("slider", "main[200]"))
            there.set(usage=usage(*rows[:1], {**rows[0], "taskAttempt": 1, "figures": None, "curves": None}, {**rows[500], "running": False, "exitCode": None}))
            check.ok("a retry without figures, and a task without curves", wait_until(lambda: page.js(
                "return document.querySelectorAll('.task-use').length") == 3, 30), page.body())
            for text in ("try 2, running, held 40s, no figures are known", "exit code unknown"):
                check.ok(text, page.shows(text), page.body())
            there.set(usage=usage())
            check.ok("nothing", wait_until(lambda: "Nothing has been measured yet" in page.body(), 30))
            there.set(usage=refusal(404, "NoJobError", "there is no such job"))
            check.ok("a refusal", wait_until(lambda: "Not shown: there is no such job" in page.body(), 30))


def test_page_job_with_idle_gpus_can_be_kept(check):
    """The head says what a running job uses and since when its GPUs are idle; Keep sends hours and a reason."""
    with held() as server, StandIn(server, detail=idle_detail(IDLE), machine=machine_with(USED)) as there:
        with Page(check, there, "#/jobs/alice~holds") as page:
            check.ok("the last ten minutes", page.shows("last 10 minutes: GPUs busy 68 %, GPU memory 12.1 GiB, CPUs 3.2, memory at most 900 MiB"), page.body())
            check.ok("idle", page.shows("GPUs " + page.js_async("return (await load('dom')).idleText(args[0])", IDLE)))
            there.kept = (refusal(400, "InvalidParametersError", "hours is 24; at most 12 are allowed"), 400)
            page.click("button", "Keep")
            check.ok("a number is wanted", page.find("spinbutton", "Hours").get_attribute("value") == "24")
            page.click("button", "Keep the job")
            check.ok("the refusal is shown", page.shows("at most 12 are allowed"))
            there.kept = ({}, 200)
            check.ok("by keyboard", page.tab_to("button", "Keep"), page.focused())
            page.press(Keys.ENTER)
            page.type("spinbutton", "Hours", "3")
            page.type("textbox", "Reason", "<b>data</b> come" + Keys.ENTER)
            check.ok("it says so", page.shows("holds is kept for 3 hours."))
            check.equal("sent", there.put[1:], [(KEEP, {"hours": 3, "reason": "<b>data</b> come"})])
            page.click("button", "Keep")
            page.click("button", "Cancel")
            check.equal("not sent", len(there.put), 2)
        there.set(detail=idle_detail(None), machine=machine_with(NO_USE))
        with Page(check, there, "#/jobs/alice~holds") as page:
            check.ok("unknown", page.shows("last 10 minutes: GPUs busy unknown, GPU memory unknown, CPUs unknown, memory unknown"), page.body())
            check.ok("not idle", "idle since" not in page.body() and not page.has("button", "Keep"))
        there.set(detail=idle_detail(None, gpuKeptUntil=IDLE, gpuKeepReason="<b>data</b> come"))
        with Page(check, there, "#/jobs/alice~holds") as page:
            check.ok("kept", page.shows(f"kept until {clock(page, IDLE)} though its GPUs do nothing: <b>data</b> come"), page.body())
        there.set(detail=idle_detail(IDLE, state="SUCCEEDED", completedTime=IDLE + 1), machine=machine_with(USED))
        with Page(check, there, "#/jobs/alice~holds") as page:
            check.ok("an ended job has no such line", page.find("log", "Log of main[0]") and not page.has("button", "Keep") and "last 10" not in page.body())
        there.set(detail=idle_detail(IDLE))
        there.answers["/api/v2/users/alice"] = {"username": "bob", "admin": False, "virtualCluster": ["default"]}
        with Page(check, there, "#/jobs/alice~holds") as page:
            check.ok("others see the flag, without the button", page.shows("idle since") and not page.has("button", "Keep"))


def test_page_list_marks_jobs_with_idle_gpus(check):
    def rows(real):
        return [{**row, "gpuIdleSince": IDLE} if row["name"] == "holds" else row for row in real]
    with held() as server:
        server.start("other", {"main": role(FOREVER)})
        server.wait("other", "RUNNING")
        with StandIn(server, jobs=rows) as there, Page(check, there) as page:
            page.shows("other")
            check.ok("one of two", wait_until(lambda: page.body().count("GPUs idle since") == 1), page.body())
            there.set(jobs=lambda real: [{**row, "gpuIdleSince": None} for row in real])
            page.reload()
            check.ok("no longer", page.shows("other") and "idle since" not in page.body())


TILES = "return [...document.querySelectorAll('.gpu')].map((e) => e.innerText.replace(/\\s+/g, ' '))"


def test_page_machine_shows_the_use_of_gpus(check):
    """Busy as number and bar, memory, idle since, programs outside, without colours; a link keeps the focus."""
    machine = machine_with(USED, STATES, gpus=3, gpusForeign=1)
    with held() as server, StandIn(server, machine=machine) as there, Page(check, there, "#/machine") as page:
        page.find("table", "Running jobs")
        since = re.escape(page.js_async("return (await load('dom')).idleText(args[0])", IDLE))
        wanted = ["0 holds alice busy 68 % memory 12.1 GiB of 40.0 GiB 280 W",
                  f"1 holds alice busy 0 % memory 12.1 GiB of 40.0 GiB {since} outside: python3 \\(pid 4711, bob, 12.1 GiB\\)",
                  "2 another program busy unknown memory unknown of unknown"]
        tiles = page.js(TILES)
        check.ok("tiles", len(tiles) == 3 and all(map(re.fullmatch, wanted, tiles)), tiles)
        check.equal("bars", page.js("return [...document.querySelectorAll('.gpu meter')].map((e) => e.value)"), [68.2, 0])
        cut = page.js("return [...document.querySelectorAll('.outside, .idle')].filter((e) => e.scrollWidth > e.clientWidth && e.clientWidth).length")
        check.equal("nothing of a warning is cut off", cut, 0)
        check.ok("in the table", "GPUs busy 68 %, GPU memory 12.1 GiB, CPUs 3.2, memory at most 900 MiB" in page.text("table", "Running jobs"))
        page.js("document.querySelector('.gpu a').focus(); window.before = document.activeElement")
        there.set(machine=machine_with({**USED, "busy": 7, "gpuIdleSince": IDLE}, [{**BUSY, "busy": 7.25}, *STATES[1:]], gpus=3, gpusForeign=1))
        settle(page, lambda: page.js(TILES)[0].startswith("0 holds alice busy 7.3 %"), "other figures")
        check.ok("the link has the focus", page.js("return document.activeElement === window.before && window.before.isConnected"))
        check.ok("idle, in the table", page.shows("GPUs idle since"))
        there.set(machine=machine_with(NO_USE, STATES[:1], "no figures of GPUs: there is no nvidia-smi"))
        check.ok("why there are none", page.shows("no figures of GPUs: there is no nvidia-smi"))
        check.equal("tiles without figures", page.js(TILES), ["0 holds alice", "1 holds alice"])


def test_page_machine_marks_the_gpu_of_a_program_outside(check):
    """Of the GPUs that count as foreign, those with a program outside are marked."""
    free = {**BUSY, "job": None}
    with Machine(gpus=3) as server, StandIn(server, machine=machine_with(None, [free, free, {**free, "outside": [OUTSIDE]}], gpusForeign=1)) as there:
        with Page(check, there, "#/machine") as page:
            settle(page, lambda: page.js(TILES)[2:], "tiles")
            check.equal("marked", ["another program" in tile for tile in page.js(TILES)], [False, False, True])


SUMS = [{"user": "alice", "week": BOUND, "gpuHours": 12.5, "gpuIdleHours": 3.125, "cpuHours": 1.5, "energyWh": 1000, "attempts": 12, "failed": 2},
        {"user": "bob", "week": BOUND, "gpuHours": 25, "gpuIdleHours": None, "cpuHours": None, "energyWh": None, "attempts": 1, "failed": 0},
        {"user": "carol", "week": BOUND - 7 * 86400000, "gpuHours": 0, "gpuIdleHours": 0, "cpuHours": 40, "energyWh": 0, "attempts": 3, "failed": 3}]


def last_report(there):
    """The latest request for a report."""
    return [path for path in there.asked if path.startswith(REPORT)][-1]


def report(*rows, more=False):
    return {"since": BOUND, "until": BOUND + 1, "rows": list(rows), "more": more}


def test_page_report_has_a_bar_for_each_row(check):
    """GPU hours and their idle part by user, virtual cluster and week; the address has the choice."""
    with Machine() as server, StandIn(server, report=report(*SUMS)) as there, Page(check, there, "#/machine") as page:
        page.click("link", "GPU hours of users and weeks")
        settle(page, lambda: page.has("table", "GPU hours"), "the table")
        rows = page.js("return [...document.querySelectorAll('.report tbody tr')].map((r) => [...r.children].map((c) => c.textContent))")
        check.equal("rows", rows, [["bob", "25", "unknown", "unknown", "unknown", "1", "0"], ["alice", "13", "25 %", "1.5", "1 kWh", "12", "2"],
                                   ["carol", "0", "-", "40", "0 kWh", "3", "3"]])
        bars = page.js("return [...document.querySelectorAll('.report rect')].map((r) => Number(r.getAttribute('width')))")
        check.equal("bars", bars, [100, 0, 37.5, 12.5, 0, 0])
        check.ok("not all is known", page.shows("Together 38 GPU hours, idle: unknown"), page.body())
        check.ok("the last 30 days by user", re.fullmatch(r"/api/v2/report\?since=\d{4}-\d\d-\d\d&until=\d{13}&by=user", last_report(there)), last_report(there))
        there.set(report=report({**SUMS[0], "virtualCluster": "<i>vc</i>", "user": None}, more=True))
        page.click("checkbox", "Week")
        page.click("checkbox", "Virtual cluster")
        page.click("button", "Show")
        check.ok("asked for", wait_until(lambda: last_report(there).endswith("&by=user%2CvirtualCluster%2Cweek")), last_report(there))
        check.ok("shown", page.shows("<i>vc</i>") and page.shows("2026-01-01") and page.shows("and more: rest-lit report"), page.body())
        check.ok("in the address", page.hash().endswith("by=user,virtualCluster,week"), page.hash())
        page.reload()
        check.ok("again", page.find("checkbox", "Week").get_attribute("checked") and page.shows("<i>vc</i>"))
        there.set(report=report())
        page.click("button", "Show")
        check.ok("nothing", page.shows("No task has held anything in this time."))
        there.set(report=refusal(400, "InvalidParametersError", "since is in the future"))
        page.click("button", "Show")
        check.ok("a refusal", page.shows("since is in the future"))


PAGES = [("usage", "#/jobs/alice~holds?view=usage", lambda p: p.has("slider", "GPU 0 memory") and p.shows("last 10 minutes") and p.has("button", "Keep")),
         ("machine", "#/machine", lambda p: p.shows("outside: python3")),
         ("report", "#/report?since=2026-01-01&until=2026-01-31&by=user,week", lambda p: p.has("table", "GPU hours"))]
OPEN = "for (const one of document.querySelectorAll('details')) one.open = true; document.querySelector('[role=slider]')?.focus();"


def test_page_use_fits_and_has_no_findings_of_axe(check):
    """On a phone and on a wide screen, light and dark."""
    program = ""
    if installed("axe-core"):
        with open(PROGRAM, encoding="utf-8") as f:
            program = f.read()
    answers = {"usage": usage(ROW, notes=["GPU 1 was never used"]), "detail": idle_detail(IDLE), "report": report(*SUMS),
               "machine": machine_with({**USED, "gpuIdleSince": IDLE}, STATES, gpus=3, gpusForeign=1)}
    with held() as server, StandIn(server, **answers) as there:
        for (name, hash_, ready), size, dark in itertools.product(PAGES, (WIDE, PHONE), (False, True)):
            with Page(check, there, hash_, size=size, dark=dark) as page:
                settle(page, lambda: ready(page), f"{name} is shown")
                page.js(OPEN)
                width = page.js("return document.documentElement.scrollWidth")
                check.ok(f"{name}: fits into {size[0]}", width <= size[0], width)
                if program:
                    page.driver.execute_script(program)
                    found = json.loads(page.driver.execute_async_script(RUN))
                    check.equal(f"{name}, {size[0]} px, {'dark' if dark else 'light'}", [f"{f['impact']} {f['id']}: {f['nodes'][:3]}" for f in found], [])


CORE = [test_page_usage_shows_curves_by_keyboard_and_pointer, test_page_machine_shows_the_use_of_gpus]
WHOLE = [test_page_usage_is_absent_on_a_cluster, test_page_usage_of_many_tasks_is_bounded, test_page_job_with_idle_gpus_can_be_kept,
         test_page_list_marks_jobs_with_idle_gpus, test_page_machine_marks_the_gpu_of_a_program_outside, test_page_report_has_a_bar_for_each_row,
         test_page_use_fits_and_has_no_findings_of_axe]
