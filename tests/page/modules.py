"""The modules without a page: logs as lines, rows, charts, names; and the tests' own look at a page."""
import os
import re

from browser import Page, settle
from machine import Machine

LOG = r"""
const { ByTime, Log, parts, pattern, plain, restyle, Times } = await load("log");
const encode = (text) => new TextEncoder().encode(text);
const read = (bytes, size, bounds) => {
	const log = new Log(bounds), task = log.terminal("a");
	for (let i = 0; i < bytes.length; i += size) task.write(bytes.slice(i, i + size));
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
const found = [small.find(pattern("LINE 99")), small.find(pattern("nothing")), small.find(pattern(""))];
small.terminals[0].write(encode("a new line 99\n"));
const two = new Log({ lines: 4 }), [x, y] = ["x", "y"].map((name) => two.terminal(name));
[[x, "\x1b[31mx1\nx"], [y, "y1\ny2\ny3"], [x, "2\n"]].forEach(([task, text]) => task.write(encode(text)));
const merged = [JSON.stringify(lines(two).map((l) => [l.terminal.name, l.number, l.text, !!l.runs])), two.numberOf(y, 3), two.numberOf(x, 3)];
y.finish();
y.finish();
merged.push(two.count, two.numberOf(y, 3), two.numberOf(x, 1), two.find(pattern("x2")), two.find(pattern("Y"), {}), two.find(pattern("x2")));
const answer = encode("2026-01-31T12:00:00.123456789Z a b\n2026-01-31T13:00:00.5+01:00 \nx \u20ac\n2026-01-31T12:00:01Z open"), timed = new Set();
for (let size = 1; size <= answer.length; size++) {
	const times = new Times(), found = [];
	for (let i = 0; i < answer.length; i += size) times.split(answer.slice(i, i + size), (part, time) => {
		if (found.at(-1)?.[1].at(-1) === 10 || !found.length) found.push([time, []]);
		found.at(-1)[1].push(...part);
	});
	timed.add(JSON.stringify(found.map(([time, part]) => [time, new TextDecoder().decode(Uint8Array.from(part))])));
}
const lines9 = new Log(), task9 = lines9.terminal("a");
[["one\n", 5], ["tw", 6], ["o\n\x1b[m\n", 7], ["x".repeat(10005), 8]].forEach(([part, time]) => task9.write(encode(part), time));
const done = [], order = new ByTime({ lines: 40, memory: 1e6 }), act = (name, time) => order.add(time, 10, () => done.push(name)), ran = [];
[["a1", 1], ["a5", 5], ["a9", 9], ["b0", 0], ["b2", 2], ["b5", 5], ["b11", 11]].forEach(([name, time]) => act(name, time));
for (const until of [4, 0, Infinity]) {
	order.run(until);
	ran.push(done.splice(0).join(" "));
	if (until === 4) [["a10", 10], ["a12", 12]].forEach(([name, time]) => act(name, time));
}
for (let i = 0; i < 1000; i++) act(i, i);
ran.push(done.length >= 950, done.length < 1000);
const big = new ByTime({ lines: 1e6, memory: 1e4 });
let early = 0;
for (let i = 0; i < 100; i++) big.add(i, 1000, () => early++);
return { timed: [...timed], times: lines(lines9).map((l) => [l.text.slice(0, 3), l.time]), ran, early, merged, plain: [plain("\x1b[1mValueError: \x1b[31mx\x1b[0m\x1b["), plain("")], whole: JSON.parse(whole), wrong, invalid: lines(invalid).map((l) => l.text), small: [small.count, small.dropped,
	small.line(small.dropped).text], wide: lines(wide).map((l) => l.text.length), heavy: lines(heavy).length,
	hostile: hostile.map((l) => lines(l).map((one) => one.text.length)), found, again: small.find(pattern("line 99")), expressions: [small.find(pattern("^LINE 99[0-3]$", true)), small.find(pattern("^line 99[0-3]$")), small.find(pattern("x*", true)).length],
	marks: parts(read(encode("a\x1b[31mbCd\x1b[0me"), 9).line(0), pattern("cde")), reset: restyle({ bold: true }, "") };"""

MODELS = r"""
const { visible, sorted } = await load("table"), { flat, differences } = await load("compare"), { areaChart, sampled, seriesOf } = await load("chart");
const { gpuSeries } = await load("jobs"), { gpusOf, taskSeries, ...tasks } = await load("tasks"), { hasSshd, taskFacts } = await load("details");
const { hasSecrets } = await load("actions");
const plugin = (more) => ({ extras: { "com.microsoft.pai.runtimeplugin": [null, { plugin: "tensorboard" }, { plugin: "ssh", ...more }] } });
const day = 86400e3, gpus = (rows) => gpuSeries(rows, day, 2 * day).map(({ values, last }) => [0, 80, 130, 239].map((i) => values[i]).concat(last));
return {
	visible: [visible(0, 300, 30, 5), visible(3000, 300, 30, 1000), visible(1e9, 300, 30, 1000), visible(0, 1e6, 10, 1e5), visible(0, 0, 30, 9)],
	sampled: [sampled([{ start: 0, end: 10, weight: 2 }], 0, 10, 2), sampled([{ start: 4, end: 99, weight: 1 }], 0, 10, 5),
		sampled([{ start: -5, end: 1, weight: 4 }, { start: 20, end: 30, weight: 4 }, { start: 3, end: 3, weight: 4 }], 0, 10, 5)],
	sorted: [sorted([3, 1, null, 2], (n) => n), sorted([3, 1, null, 2], (n) => n, true), sorted(["b10", "", "b9", "A"], (t) => t),
		sorted([[1, "x"], [0, "y"], [1, "z"]], ([n]) => n, true).map(([, t]) => t).join("")],
	drawn: [0, 1].map((start) => areaChart({ title: "GPUs", unit: "GPU", from: 0, to: 9, series: [seriesOf("running", [{ start, end: 9, weight: 2 }], 0, 9)] }))
		.map((figure) => {
			document.getElementById("page").append(figure);
			return [figure.querySelector("svg") !== null, figure.textContent.includes("2 running"), figure.offsetHeight <= 40];
		}),
	flat: [...flat({ a: { b: 1, "c.d": [{ e: null }] }, f: ["x", "y"], g: {} })],
	differences: differences({ name: "a", x: 1, y: { z: ["1"] } }, { name: "b", x: 1, y: { z: ["1", "2"], w: false } }),
	gpus: [gpus([{ submissionTime: day, launchedTime: 1.5 * day, completedTime: null, totalGpuNumber: 4 }]),
		gpus([{ submissionTime: 0, launchedTime: null, completedTime: 1.25 * day, totalGpuNumber: 2 }, { submissionTime: day, totalGpuNumber: 0 }])],
	tasks: taskSeries([{ createdTime: 0, launchedTime: 5, completedTime: 10, taskState: "FAILED" }], 0, 240).map((s) => [s.role, s.values[3], s.values[8], s.values[200], s.last]),
	first: tasks.tasksInOrder(new Map(["STOPPED", "FAILED", "RUNNING", "FAILED"].map((taskState, taskIndex) => [taskIndex, { role: "a", taskIndex, taskState }])), "a[3]").map(tasks.taskName),
	indexes: [{ gpuIndexes: [0, 1, 2, 5] }, { gpuIndexes: [], gpuNumber: 4 }, { gpuNumber: 0 }].map(gpusOf),
	nodes: [undefined, 1600000000000, 4102444800000].map((deletionDue) => taskFacts({ role: "a", taskIndex: 0, containerNodeName: "n1", deletionDue }).textContent.match(/Node *(n1( does not answer since)?)/)?.[1]),
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
        check.equal("... by expressions", log["expressions"], [[990, 991, 992, 993], [], 50])
        check.equal("tasks in one log", log["merged"], ['[["x",1,"x1",true],["y",1,"y1",false],["y",2,"y2",false],["x",2,"x2",true],["y",3,"y3",false]]',
                                                        4, -1, 4, 4, -1, [3], [1, 2, 4], [3]])
        check.equal("without escape sequences", log["plain"], ["ValueError: x", ""])
        check.equal("times, however they are split", log["timed"], ['[[1769860800123.4568,"a b\\n"],[1769860800500,"\\n"],[null,"\u20ac\\n"],[1769860801000,"open"]]'])
        check.equal("times of lines", log["times"], [["one", 5], ["two", 6], ["", 7], ["xxx", 8], ["xxx", 8]])
        check.equal("in the order of times", log["ran"], ["b0 a1 b2", "a5 b5 a9 a10 b11", "a12", True, True])
        check.ok("what waits is bounded", log["early"] >= 80, str(log["early"]))
        check.equal("marks", [[p["text"], (p["style"] or {}).get("mark", False)] for p in log["marks"]],
                    [["a", False], ["b", False], ["Cde", True]])
        check.equal("reset", log["reset"], None)
        models = page.js_async(MODELS)
        check.equal("visible rows", models["visible"], [[0, 5], [88, 122], [966, 1000], [0, 160], [0, 9]])
        check.equal("averages", models["sampled"], [[2, 2], [0, 0, 1, 1, 1], [2, 0, 0, 0, 0]])
        check.equal("sorted", models["sorted"], [[1, 2, 3, None], [3, 2, 1, None], ["A", "b9", "b10", ""], "xzy"])
        check.equal("a low chart, only of what changes", models["drawn"], [[False, True, True], [True, True, True]])
        check.equal("paths", models["flat"], [["a.b", "1"], ['a."c.d"[0].e', "null"], ["f", "x\ny"]])
        check.equal("differences", models["differences"], [["y.z", "1", "1\n2"], ["y.w", None, "false"]])
        check.equal("GPUs", models["gpus"], [[[0, 0, 4, 4, 4], [4, 4, 0, 0, 0]], [[0] * 5, [2, 0, 0, 0, 0]]])
        check.equal("tasks", models["tasks"], [["succeeded", 0, 0, 0, 0], ["failed", 0, 0, 1, 1], ["stopped", 0, 0, 0, 0],
                                               ["running", 0, 1, 0, 0], ["waiting", 1, 0, 0, 0]])
        check.equal("who failed first is first", models["first"], ["a[3]", "a[1]", "a[2]", "a[0]"])
        check.equal("indexes of GPUs", models["indexes"], ["0-2 5", "\u00d74", ""])
        check.equal("nodes", models["nodes"], ["n1", "n1 does not answer since", "n1"])
        check.equal("tasks with sshd", models["sshd"], [False] * 6 + [True] * 3)
        check.equal("secrets", models["secrets"], [False, True, True, True, False])


METRICS = """
const { curves, namesIn, textsOf, valuesOf } = await load("metric");
return { last: args[0].map(([name, log]) => textsOf(name, log).at(-1) ?? "-"),
	all: valuesOf("loss", "loss 3\\rloss: nan\\nval_loss 1\\nLOSS = -inf, loss=1e-3"),
	cut: ["loss 1\\n" + "x".repeat(16384), "x\\nloss 1\\n" + "x".repeat(16384)].map((log) => textsOf("loss", log).length),
	none: [textsOf("", "1 2"), textsOf(" ", " 1"), curves("loss", [{ name: "a", values: [NaN] }])],
	names: namesIn("Epoch 1: loss=0.5, {'val_loss': 1, \\"lr\\": 1e-3} http://a:80 loss: 2 12:30"),
	gaps: [...curves("loss", [{ name: "a", values: [1, 2, NaN, 3] }, { name: "b", values: [2] }, { name: "c", values: [] }])
		.querySelectorAll("path")].map((path) => path.getAttribute("d")) };"""


def test_page_metric_reads_what_trainings_print(check):
    """The same forms as the command line; curves with gaps."""
    escapes = {"n": "\n", "r": "\r", "t": "\t", "e": "\x1b", "b": "\b", "\\": "\\"}
    forms = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "logs", "metrics.tsv")
    with open(forms, encoding="utf-8") as f:
        rows = [line.rstrip("\n").split("\t") for line in f if not line.startswith("#")]
    logs = [(name, re.sub(r"\\(.)", lambda m: escapes[m.group(1)], log)) for name, _, log in rows]
    with Machine() as server, Page(check, server, "#/sign-in") as page:
        page.find("heading", "Sign in")
        found = page.js_async(METRICS, logs)
        for (name, wanted, log), last in zip(rows, found["last"]):
            check.equal(f"{name} in {log}", last, wanted)
        check.ok("as many as the command line", len(rows) >= 59, len(rows))
        check.equal("all values", found["all"], [3, None, None, 0.001])  # nan and -inf are null in JSON
        check.equal("a line that may be cut", found["cut"], [0, 1])
        check.equal("none", found["none"], [[], [], None])
        check.equal("names", found["names"], ["loss", "val_loss", "lr"])
        check.equal("gaps, and a single value", found["gaps"], ["M0.0,240.0L333.3,120.0M1000.0,0.0h0", "M0.0,120.0h10"])


# All elements are replaced, at first every millisecond, then more and more seldom.
REPLACE = """
const { button, el, fill, plainTable } = await load("dom");
window.clicks = 0;
let n = 0, wait = 1;
const input = el("input", { "aria-label": "Name" });
const next = () => {
	const fresh = input.cloneNode();
	fresh.value = document.querySelector("#page input")?.value ?? "";
	const hadFocus = document.activeElement?.localName === "input";
	fill(document.getElementById("page"), plainTable("Numbers", [["Number", String]], [++n]), fresh, button("Count", () => clicks++, { title: n }));
	if (hadFocus) fresh.focus();
	setTimeout(next, wait *= 1.05);
};
next();"""


def test_page_elements_may_be_replaced_all_the_time(check):
    """Each look at an element, and each use of it, is repeated until the page leaves it in place for so long."""
    with Machine() as server, Page(check, server, "#/sign-in") as page:
        page.find("heading", "Sign in")
        page.js_async(REPLACE)
        page.click("button", "Count")
        check.equal("one click", page.js("return clicks"), 1)
        numbers = []
        settle(page, lambda: numbers.append(int(page.text("table", "Numbers").split()[1])) or len(set(numbers)) > 4, "it is replaced meanwhile")
        check.equal("each is newer than the one before", numbers, sorted(numbers))
        check.ok("an attribute", int(page.find("button", "Count").get_attribute("title")) >= numbers[-1])
        page.type("textbox", "Name", "typed")
        check.equal("a text", page.find("textbox", "Name").get_attribute("value"), "typed")
        check.ok("the focus", page.has_focus("textbox", "Name"), page.focused())


CORE = [test_page_elements_may_be_replaced_all_the_time, test_page_modules_split_logs_and_rows,
        test_page_metric_reads_what_trainings_print]
WHOLE = []
