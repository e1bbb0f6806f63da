"""The page of a job: from its start to its end, failures, and what users do with it."""
import re

from browser import Page, settle
from harness import wait_until
from machine import Machine, job, role
from place import SIGNATURE, Place
from selenium.webdriver.common.keys import Keys
from tokens import token
from watching import COLOURS, FOREVER, JSON, chart, log_text, state


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


CORE = [test_page_job_is_followed_to_its_end]
WHOLE = [test_page_job_shows_the_ssh_command,
         test_page_job_explains_a_failure,
         test_page_job_can_be_stopped_cloned_and_tagged,
         test_page_job_with_many_tasks_has_few_rows,
         test_page_job_shows_earlier_attempts,
         test_page_job_of_others_is_refused_in_a_sentence]
