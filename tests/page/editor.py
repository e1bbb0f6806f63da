"""The page Submit: marks as `rest-lit validate` has them, the preview, completion, files, clones."""
import base64
import glob
import os
import re
import subprocess

from browser import PHONE, WIDE, Page, again, settle
from harness import BINARY, ROOT, Server, wait_until
from machine import Machine, job, role
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

CASES = [p for folder in ("hostile/cases", "corpus/v2-invalid", "corpus/v2-edge", "corpus/mxjob", "corpus/launcher")
         for p in sorted(glob.glob(os.path.join(ROOT, "tests", folder, "*.*")))]
FEW = ("a14-dup", "a36-crlf", "a33-bom", "a64-comment", "b01-", "c13-job-unicode", "d33-xss", "d35-json", "multi-errors",
       "g21-fw-typo", "b56-v1-number")
ACCEPTED = """protocolVersion: 2
name: %s
type: job
prerequisites:
  - {name: i, type: dockerimage, uri: "debian:12-slim"}
taskRoles:
  main:
    dockerImage: i
    resourcePerInstance: {cpu: 1, memoryMB: 64, gpu: 0}
    commands:
      - echo done
"""
VIEW = """const { EditorView } = await load("codemirror");
const shadow = document.querySelector(".editor").shadowRoot;
const view = EditorView.findFromDOM(shadow.querySelector(".cm-content"));
"""
# Drops a file like a user; the list of mistakes is replaced until the page creates it again.
DROP = """
const bytes = Uint8Array.from(atob(arguments[0]), (c) => c.charCodeAt(0)), data = new DataTransfer();
data.items.add(new File([bytes], arguments[1]));
document.querySelector(".mistakes").replaceChildren("not yet");
document.querySelector(".editor").dispatchEvent(
	new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));"""
LISTED = """return [...document.querySelector(".mistakes").childNodes].map((e) =>
	[e.firstChild?.textContent ?? e.textContent, Number(e.dataset?.column) || 0]);"""
MARKED = """return [...document.querySelector(".editor").shadowRoot.querySelectorAll(".cm-mistake, .cm-warning")]
	.map((e) => e.textContent);"""
READY = "return !document.querySelector('button.primary').disabled"
PREVIEW = "return document.querySelector('.preview pre').textContent"
OFFERED = """return [...document.querySelector(".editor").shadowRoot.querySelectorAll(".cm-tooltip-autocomplete li")]
	.map((e) => e.firstChild.textContent);"""
HELP = "return document.querySelector('.editor').shadowRoot.querySelector('.cm-help')?.textContent ?? ''"


class Editor(Page):
    """The page Submit."""

    def __init__(self, check, server, **more):
        super().__init__(check, server, "#/submit", **more)
        self.find("textbox", "Job")

    def drop(self, text, name="job.yaml"):
        data = text if isinstance(text, bytes) else text.encode()
        self.js(DROP, base64.b64encode(data).decode(), name)

    def listed(self):
        """[(text, column)] of the region Mistakes."""
        return [tuple(m) for m in self.js(LISTED)]

    def is_checked(self):
        return self.listed() != [("not yet", 0)]

    def written(self):
        """The text in the editor."""
        return self.js_async(VIEW + "return view.state.sliceDoc();")

    def set(self, text, at):
        """Another text, and where the cursor is."""
        self.js_async(VIEW + """view.dispatch({
            changes: { from: 0, to: view.state.doc.length, insert: args[0] }, selection: { anchor: args[1] } });
            view.focus();""", text, at)

    def is_ready(self):
        return self.is_checked() and self.js(READY)

    def chord(self, key, modifier=Keys.CONTROL):
        ActionChains(self.driver).key_down(modifier).send_keys(key).key_up(modifier).perform()


def program(*arguments):
    return subprocess.run([BINARY, *arguments], capture_output=True, check=False, timeout=120)


# ---- marks ----
def validated(paths):
    """A dictionary by path: (refused, [(beginning of the text in the list, column, path and
    message)])."""
    found = {}
    for path in paths:
        out = program("validate", "--user", "alice", path).stdout.decode()
        marks = []
        for line in (one[len(path) + 1:] for one in out.split("\n") if one.startswith(path + ":")):
            at = re.match(r"(\d+):(\d+): ", line)
            rest = line[at.end():] if at else line[1:]
            warning = "warning: " if rest.startswith("warning: ") else ""
            if line != " valid":
                marks.append((f"line {at[1]}: {warning}" if at else warning, int(at[2]) if at else 0, rest[len(warning):]))
        found[path] = (f"{path}: valid\n" not in out, marks)
    return found


def same(shown, wanted):
    """Returns True if the text of a list item is that of validate, which has the path before the
    message."""
    (text, column), (begin, at, rest) = shown, wanted
    said = text[len(begin):]
    return column == at and text.startswith(begin) and (rest == said or rest.startswith("/") and rest.endswith(": " + said))


def agrees(shown, refused, wanted):
    """A refused text has exactly these marks; an accepted one can have more, of its objects."""
    if refused:
        return len(shown) == len(wanted) and all(map(same, shown, wanted))
    return all(any(same(s, w) for s in shown) for w in wanted)


def check_marks(check, paths):
    wanted = validated(paths)
    with Server("--engine=none", "--local", "jobs", "--dialects", "mxjob,launcher", "--max-body", str(16 << 20)) as server:
        with Editor(check, server) as page:
            for path in paths:
                with open(path, "rb") as f:
                    data = f.read()
                name = os.path.relpath(path, ROOT)
                page.drop(data, os.path.basename(path))
                try:
                    data.decode()
                except UnicodeDecodeError:
                    check.ok(f"{name}: is no text", wait_until(lambda: "UTF-8" in page.text("alert")))
                    continue
                if not data.strip():  # the form is for this text, which is no mistake yet
                    check.ok(f"{name}: no mistakes", wait_until(lambda: page.listed() == []))
                    continue
                done = wait_until(lambda: page.is_checked() and agrees(page.listed(), *wanted[path]))
                check.ok(name, done, f"{page.listed()} {wanted[path]}")


def test_page_marks_mistakes_like_validate(check):
    check_marks(check, [p for p in CASES if any(word in p for word in FEW)])


def test_page_marks_mistakes_of_all_files(check):
    check_marks(check, CASES)


def test_page_warnings_are_marked(check):
    """Warnings are marked, with mistakes and without."""
    with Server("--engine=none", "--local", "jobs") as server, Editor(check, server) as page:
        text = (ACCEPTED % "warned").replace("type: job", "type: job\njobRetryCount: 010")
        page.drop(text)
        settle(page, lambda: [t[:17] for t, _ in page.listed()] == ["line 4: warning: "], "a warning")
        check.ok("it can be submitted", page.is_ready())
        check.ok("not in the preview", "warnings:" not in page.js(PREVIEW))
        page.drop(text.replace("cpu: 1", "cpu: x"))
        settle(page, lambda: [t[:8] for t, _ in page.listed()] == ["line 4: ", "line 10:"], "both")


IN_SIGHT = """const list = document.querySelector(".mistakes"), { top } = list.parentNode.getBoundingClientRect();
const { bottom } = list.lastChild.getBoundingClientRect(), box = list.parentNode;
return [top >= 0 && top < innerHeight && Math.min(bottom, box.getBoundingClientRect().bottom) <= innerHeight + 1, box.clientHeight > 20,
	document.querySelector(".editor").shadowRoot.querySelector(".cm-scroller").clientHeight];"""


def test_page_mistakes_are_always_in_sight(check):
    """Mistakes are in the window without scrolling, of the form and of a text, few and many; a long text scrolls in the
    editor."""
    with Server("--engine=none", "--local", "jobs") as server:
        for size in (WIDE, (1366, 600), PHONE):
            with Editor(check, server, size=size) as page:
                page.set("", 0)  # not the draft
                page.type("textbox", "Name", "seen")
                page.type("textbox", "Memory", "much")
                settle(page, lambda: any("must be an integer" in text for text, _ in page.listed()), "a mistake of the form")
                page.js("scrollTo(0, 0)")
                check.equal(f"{size[0]}: in sight", page.js(IN_SIGHT)[:2], [True, True])
                page.drop((ACCEPTED % "seen") + "".join(f"wrong{i}: 1\n" for i in range(15)) + "# long\n" * 300)
                settle(page, lambda: len(page.listed()) >= 15, "many mistakes")
                page.js("scrollTo(0, 0)")
                seen = page.js(IN_SIGHT)
                check.ok(f"{size[0]}: many, too", seen[0] and seen[1] and 100 < seen[2] < size[1], seen)


# ---- submit ----
def test_page_submits_a_mended_job(check):
    """A user types a job, corrects it, compares the preview with `translate`, and submits it."""
    with Server("--engine=none", "--local", "jobs") as server, Editor(check, server) as page:
        good = ACCEPTED % "typed"
        check.ok("not without a text", not page.js(READY))
        page.drop(good.replace("    commands", "    comands"))
        settle(page, lambda: any(re.match("line 10: unknown key `comands`", t) for t, _ in page.listed()), "the mistake")
        check.ok("it is marked", "comands" in page.js(MARKED), page.js(MARKED))
        check.ok("cannot be submitted", not page.is_ready())
        page.click("button", re.compile("^line 10: unknown key"))
        page.press(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, "m")
        settle(page, page.is_ready, "mended")
        check.equal("the text", page.written(), good)
        check.equal("no marks", (page.listed(), page.js(MARKED)), ([], []))
        path = os.path.join(server.directory, "typed.yaml")
        with open(path, "w", encoding="utf-8") as f:
            f.write(good)
        check.equal("the preview", page.js(PREVIEW), program("translate", "--user", "alice", "-o", "yaml", path).stdout.decode())
        page.click("button", "Submit")
        settle(page, lambda: page.hash() == "/jobs/alice~typed", "submitted")
        stored = page.js("return [...Object.values(localStorage), ...Object.values(sessionStorage)]")
        check.equal("nothing is stored", stored, [])


def test_page_submits_a_job_that_runs(check):
    """A job that is submitted on the page runs on this machine."""
    with Machine() as server, Editor(check, server) as page:
        page.drop(job("runs", {"main": role("true")}))
        settle(page, page.is_ready, "checked")
        page.click("button", "Submit")
        settle(page, lambda: page.hash() == "/jobs/alice~runs", "submitted")
        state = lambda: server.request("GET", "/api/v2/jobs/alice~runs").json["jobStatus"]["state"]  # noqa: E731
        settle(page, lambda: state() == "SUCCEEDED", "it has run")


CLONED = {
    "comments": "# first\n" + ACCEPTED + "# last\n",
    "crlf": ("# first\n" + ACCEPTED + "# last").replace("\n", "\r\n"),
    "mixed": ACCEPTED.replace("type: job\n", "type: job\r\n") + "# no end",
    "mark": "\ufeff" + ACCEPTED + "\n\n# \u65e5\u672c\u8a9e \U0001f600\t\n",
}


def test_page_clone_keeps_the_bytes_of_the_job(check):
    """A clone has the bytes of the job, all but the name, which is a free one or that of the
    address."""
    with Server("--engine=none", "--local", "jobs") as server, Editor(check, server) as page:
        for name, template in CLONED.items():
            text = template % name
            check.equal(f"{name}: submitted", server.submit(text).status, 202)
            for asked, free in (("", f"{name}-2"), ("&name=other-" + name, "other-" + name)):
                page.go(f"#/submit?from=alice~{name}{asked}")
                renamed = text.replace(f"name: {name}", f"name: {free}", 1)
                settle(page, lambda: page.hash() == "/submit", f"{name}: the way back is to the text")
                check.ok(f"{free}: in the editor", wait_until(lambda: page.written() == renamed), page.written())
                settle(page, page.is_ready, "checked")
                page.click("button", "Submit")
                settle(page, lambda: page.hash() == f"/jobs/alice~{free}", "submitted")
                stored = server.request("GET", f"/api/v2/jobs/alice~{free}/config?written=true").body
                check.equal(f"{free}: the bytes", stored.decode(), renamed)


CLUSTERS = [  # before, after
    ("# c\nname: a # b\ndefaults:\n  # d\n  virtualCluster: 'default' # e\n  deployment: x\n",
     "# c\nname: a # b\ndefaults:\n  # d\n  virtualCluster: 'k80' # e\n  deployment: x\n"),
    ("name: a # b\n# end\n", "name: a # b\ndefaults: {virtualCluster: k80}\n# end\n"),
    ("defaults: {deployment: x} # y\r\nname: a\r\n", "defaults: {virtualCluster: k80, deployment: x} # y\r\nname: a\r\n"),
    ("name: a\r\ntype: job\r\n", "name: a\r\ntype: job\r\ndefaults: {virtualCluster: k80}\r\n"),
    ("defaults:\nname: a\n", "defaults: {virtualCluster: k80}\nname: a\n"),
    ("defaults:\n  deployment: x\nname: a", "defaults:\n  deployment: x\n  virtualCluster: k80\nname: a"),
    ('{\n  "protocolVersion": 2\n}\n', '{\n  "defaults": {"virtualCluster": "k80"},\n  "protocolVersion": 2\n}\n'),
    ('// c\n{"jobName": "a", /* d */ "virtualCluster": "default"}', '// c\n{"jobName": "a", /* d */ "virtualCluster": "k80"}'),
    ("name: |\n  a\n", "name: |\n  a\ndefaults: {virtualCluster: k80}\n"),
]


def test_page_sets_examples_and_virtual_clusters(check):
    facts = os.path.join(ROOT, "examples", "facts.json")
    with Server("--engine=none", "--local", "jobs", "--facts", facts) as server, Editor(check, server) as page:
        examples = server.request("GET", "/web/examples.json").json
        choose = lambda name, value: page.use("combobox", name, lambda list_: Select(list_).select_by_value(value))  # noqa: E731
        settle(page, lambda: page.use("combobox", "Example", lambda list_: len(Select(list_).options)) > len(examples), "the examples")
        for i, example in enumerate(examples):
            page.js(DROP, "", "empty")
            page.use("combobox", "Example", lambda list_: Select(list_).select_by_index(i + 1))  # noqa: B023
            settle(page, lambda: page.written() == example["text"], example["title"])
            settle(page, page.is_ready, f"{example['title']}: no mistakes")
        for before, after in CLUSTERS:
            page.drop(before)
            settle(page, lambda: page.written() == before and page.is_checked(), "the text")
            choose("Virtual cluster", "k80")
            check.equal(repr(before), page.written(), after)


# ---- help ----
COMPLETIONS = [  # with | for the cursor; offered; not offered
    ("|", {"protocolVersion", "name", "taskRoles", "extras"}, {"jobName"}),
    ("protocolVersion: 2\nt|", {"type", "taskRoles"}, {"protocolVersion"}),
    ("taskRoles:\n  a:\n    |\n    commands: [x]\n", {"instances", "dockerImage", "completion"}, {"commands"}),
    ("taskRoles:\n  a:\n    resourcePerInstance: {cpu: 1, |}\n", {"memoryMB", "gpu", "ports"}, {"cpu"}),
    ("prerequisites:\n  - type: dockerimage\n    |\n", {"uri", "auth", "name"}, {"type", "plugin"}),
    ("prerequisites:\n  - type: |\n", {"dockerimage", "data", "script", "output"}, set()),
    ("extras:\n  gangAllocation: |\n", {"true", "false"}, set()),
    ("extras:\n  com.microsoft.pai.runtimeplugin:\n    - plugin: ssh\n      parameters:\n        |\n", {"jobssh", "userssh"}, {"logdir"}),
    ('{"protocolVersion": 2, "extras": {"|"}}', {"gangAllocation", "storages"}, {"name"}),
    ('{"jobName": "a", "taskRoles": [{"name": "b", |}]}', {"command", "gpuNumber"}, {"name", "instances"}),
]


def test_page_completes_and_explains_keys(check):
    """Completion of keys and values, and the help at the pointer, by the server's JSON Schema."""
    with Server("--engine=none", "--local", "jobs") as server, Editor(check, server) as page:
        for text, offered, absent in COMPLETIONS:
            page.set(text.replace("|", ""), text.index("|"))
            page.chord(" ")
            done = wait_until(lambda: page.js(OFFERED))
            labels = set(page.js(OFFERED))
            check.ok(repr(text), done and offered <= labels and not absent & labels, f"{labels}")
            page.press(Keys.ESCAPE)
        page.set("", 0)
        page.press("prot")
        settle(page, lambda: page.js(OFFERED) == ["protocolVersion"], "while typing")
        page.press(Keys.ENTER, "2")
        check.equal("Enter takes it", page.written(), "protocolVersion: 2")
        page.set("type: ", 6)
        page.press("jo")
        settle(page, lambda: page.js(OFFERED) == ["job"], "a value")
        page.press("b", Keys.ENTER)
        check.equal("what is complete is not taken: Enter begins a line", page.written(), "type: job\n")
        page.set("", 0)
        page.press("t")
        settle(page, lambda: len(page.js(OFFERED)) > 1, "several")
        labels = page.js(OFFERED)
        page.press(Keys.ARROW_DOWN, Keys.ENTER)
        check.ok("an arrow moves", page.written().startswith(labels[1]), f"{page.written()} {labels}")
        page.set("", 0)
        page.press("prot")
        settle(page, lambda: page.js(OFFERED), "offered")
        page.press(Keys.ESCAPE, Keys.ENTER)
        check.equal("Escape closes the list", page.written(), "prot\n")
        page.drop(ACCEPTED % "helped")
        settle(page, page.is_ready, "checked")
        word = """return [...document.querySelector(".editor").shadowRoot.querySelectorAll(".cm-line span")]
            .find((e) => e.textContent === "memoryMB")"""
        again(lambda: ActionChains(page.driver).move_to_element(page.js(word)).perform())
        check.ok("help", wait_until(lambda: re.search("memoryMB: integer.*mebibytes", page.js(HELP))), page.js(HELP))


# ---- keys ----
LANGUAGES = {
    "Japanese": (["\u306b", "\u306b\u307b", "\u306b\u307b\u3093"], "\u65e5\u672c"),
    "Korean": (["\u3131", "\uac00", "\uac01"], "\uac01"),
}


def test_page_marks_do_not_disturb_input_methods(check):
    """Marks do not disturb an input method, and count characters as the server does."""
    with Server("--engine=none", "--local", "jobs") as server, Editor(check, server) as page:
        cdp = page.driver.execute_cdp_cmd
        begin = "contributor: \U0001f600, "
        for language, (steps, result) in LANGUAGES.items():
            page.drop((ACCEPTED % "x").replace("type: job", "type: jobs\n" + begin))
            settle(page, lambda: page.is_checked() and "jobs" in page.js(MARKED), "a mark")
            page.js_async(VIEW + "view.dispatch({ selection: { anchor: view.state.doc.line(4).to } }); view.focus();")
            for step in steps:
                page.js("document.querySelector('.mistakes').replaceChildren('not yet')")
                cdp("Input.imeSetComposition", {"text": step, "selectionStart": len(step), "selectionEnd": len(step)})
                settle(page, lambda: page.written().split("\n")[3] == begin + step, f"{language}: {step}")
                settle(page, page.is_checked, "checked during the composition")
            cdp("Input.insertText", {"text": result})
            settle(page, lambda: page.written().split("\n")[3] == begin + result, f"{language}: {result}")
            cdp("Input.insertText", {"text": ": ]"})
            settle(page, lambda: page.is_checked() and any(t.startswith("line 4: ") for t, _ in page.listed()), "a mistake")
            check.equal(f"{language}: whole", page.written().split("\n")[3], f"{begin}{result}: ]")


def test_page_editor_has_keys_for_everything(check):
    """Tab leaves the editor; indentation, search and undo have other keys."""
    with Server("--engine=none", "--local", "jobs") as server, Editor(check, server) as page:
        focused = "return document.activeElement.className"
        page.drop("a:\nb\n")
        settle(page, page.is_checked, "the text")
        page.find("textbox", "Job").click()
        check.equal("in the editor", page.js(focused).split()[0], "editor")
        page.press(Keys.TAB)
        check.ok("Tab leaves it", "editor" not in page.js(focused).split(), page.js(focused))
        page.chord(Keys.TAB, Keys.SHIFT)
        check.equal("back", page.js(focused).split()[0], "editor")
        page.chord(Keys.END)
        page.press(Keys.ARROW_UP)
        page.chord("]")
        check.equal("indented", page.written(), "a:\n  b\n")
        page.press(Keys.END, Keys.ENTER, "c")
        check.equal("the next line too", page.written(), "a:\n  b\n  c\n")
        page.chord("f")
        page.press("C", Keys.ENTER)
        settle(page, lambda: page.js_async(VIEW + "return view.state.selection.main.from") == 9, "found")
        page.press(Keys.ESCAPE)
        check.ok("closed", not page.js("return document.querySelector('.editor').shadowRoot.querySelector('.cm-find')"))
        for _ in range(4):
            page.chord("z")
        check.equal("undone", page.written(), "")


def test_page_checks_are_limited(check):
    """The page waits when the server limits checks, and then checks the newest text."""
    with Server("--engine=none", "--local", "jobs") as server, Editor(check, server, size=PHONE) as page:
        page.js("""const fetch = window.fetch; let left = 1; window.restLitAsked = [];
            const limited = '{"code":"TooManyRequestsError","message":"too many"}';
            window.fetch = async (url, options) => {
                if (!String(url).includes("dryRun")) return fetch(url, options);
                if (left-- > 0) return new Response(limited, { status: 429, headers: { "Retry-After": "3" } });
                window.restLitAsked.push(options.body);
                return fetch(url, options);
            };""")
        page.drop("a: 1\n")
        check.ok("says so", page.shows("Not checked: too many"))
        page.drop(ACCEPTED % "later")
        settle(page, page.is_ready, "checked later")
        check.equal("the newest text alone", page.js("return window.restLitAsked"), [ACCEPTED % "later"])


CORE = [test_page_submits_a_mended_job, test_page_marks_mistakes_like_validate,
        test_page_clone_keeps_the_bytes_of_the_job]
WHOLE = [test_page_marks_mistakes_of_all_files, test_page_mistakes_are_always_in_sight, test_page_warnings_are_marked, test_page_submits_a_job_that_runs,
         test_page_sets_examples_and_virtual_clusters, test_page_completes_and_explains_keys,
         test_page_marks_do_not_disturb_input_methods, test_page_editor_has_keys_for_everything,
         test_page_checks_are_limited]
