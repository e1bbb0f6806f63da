// The tab with what the tasks of a job have used: figures, curves, and notes of the server.

import { get } from "./api.js";
import { Curve, between, hasPoints, rangeText } from "./curve.js";
import { duration, el, fill, onlyChanges, plainTable, plural, scrolled, time } from "./dom.js";
import { ALL, taskName } from "./tasks.js";
import { known, mebibytes, percent } from "./used.js";

const MOST = 200; // tasks in the document
const OPEN = 3; // so many are open at first

const keyOf = (row) => `${taskName(row)} ${row.jobAttempt} ${row.taskAttempt}`;
const seconds = (n) => known(n, (some) => duration(some * 1000));
const cpusOf = ({ cpuSeconds, seconds: all }) =>
	(Number.isFinite(cpuSeconds) && all > 0 ? cpuSeconds / all : null);
const ofWhole = (text, whole) => (whole ? `${text} of ${whole}` : text);

/** The line of a task: how long it had its resources, and its figures. */
function summaryOf(row) {
	const { figures, running, exitCode, cpuNumber, gpuNumber, memoryMB } = row;
	const end = running ? "running" : `exit code ${known(exitCode, String)}`;
	const attempt = [row.jobAttempt && `attempt ${row.jobAttempt + 1}`,
		row.taskAttempt && `try ${row.taskAttempt + 1}`];
	const busy = figures?.gpus?.map((gpu) => percent(gpu.busy)).join(", ");
	const use = figures ? [`CPUs ${ofWhole(known(cpusOf(figures)), cpuNumber)}`,
		`memory ${ofWhole(mebibytes(figures.memoryMostMB, figures.memoryAtMost),
			mebibytes(memoryMB))}`,
		gpuNumber && `GPUs busy ${busy || "unknown"}`] : ["no figures are known"];
	return [...attempt, end, `held ${seconds(row.heldSeconds)}`, ...use].filter(Boolean).join(", ");
}

/** Lines [name, mean, last, greatest, of, idle, energy] of the table of a task. */
function linesOf({ figures, cpuNumber, memoryMB }) {
	const ofMemory = (n) => mebibytes(n, figures.memoryAtMost);
	const gpu = ({ index, used, ...one }) => [
		[`GPU ${index} busy`, percent(one.busy), "", percent(one.busyMost), "",
			used === false ? "never used" : seconds(one.idleSeconds),
			known(one.energyWh, (n) => `${known(n)} Wh`)],
		[`GPU ${index} memory`, "", mebibytes(one.memoryMB), mebibytes(one.memoryMostMB),
			mebibytes(one.totalMB), "", ""]];
	return [["CPUs", known(cpusOf(figures)), "", "", known(cpuNumber), "", ""],
		["Memory", "", ofMemory(figures.memoryMB), ofMemory(figures.memoryMostMB),
			mebibytes(memoryMB), "", ""], ...figures.gpus?.flatMap(gpu) ?? []];
}

const COLUMNS = ["Mean", "Last", "Greatest", "Of", "Idle", "Energy"]
	.map((name, i) => [name, (line) => line[i + 1], "number"]);
const figureTable = (label, row) => plainTable(label,
	[["Figure", ([name]) => name, "rowheader"], ...COLUMNS], linesOf(row), { class: "folds" });

/** The curves of a task: {name, curve, top, text, isAtMost}. */
function curvesOf({ curves, figures, cpuNumber, memoryMB }) {
	const isAtMost = figures?.memoryAtMost ?? false;
	const gpu = ({ busy, memoryMB: memory }, i) => {
		const { index = i, totalMB } = figures?.gpus?.[i] ?? {};
		return [{ name: `GPU ${index} busy`, curve: busy, top: 100, text: percent },
			{ name: `GPU ${index} memory`, curve: memory, top: totalMB, text: mebibytes }];
	};
	return curves ? [{ name: "CPUs", curve: curves.cpus, top: cpuNumber, text: (n) => known(n) },
		{ name: "Memory", curve: curves.memoryMB, top: memoryMB, text: mebibytes, isAtMost },
		...curves.gpus?.flatMap(gpu) ?? []] : [];
}

/** The same curves as a table, with a row for each point of the longest period. */
function pointTable(label, row) {
	const curves = curvesOf(row).filter(({ curve }) => hasPoints(curve));
	if (!curves.length) return "Nothing is known yet.";
	const period = Math.max(...curves.map(({ curve }) => curve.period));
	const n = Math.max(...curves.map(({ curve }) => curve.mean.length * curve.period / period));
	const cell = ({ curve, text, isAtMost }) => (at) =>
		rangeText(between(curve, at, at + period), text, isAtMost);
	return scrolled(label, plainTable(label, [
		["Time", (at) => time(row.boundTime + at * 1000), "rowheader"],
		...curves.map((one) => [one.name, cell(one), "number"])],
	Array.from({ length: Math.ceil(n) }, (_, i) => i * period)));
}

/** A task, whose curves are drawn while it is open. */
class TaskUse {
	#once = onlyChanges();
	#summary = el("summary");
	#figures = el("div");
	#plots = el("div", { class: "plots" });
	#curves = [];

	constructor() {
		const points = el("div");
		const filled = ({ target }) =>
			fill(points, target.open && pointTable(`Curves of ${taskName(this.row)}`, this.row));
		this.#summary.className = "task-use";
		this.element = el("details", { class: "panel", on: { toggle: () => this.#draw() } },
			this.#summary, this.#figures, this.#plots, el("details", { on: { toggle: filled } },
				el("summary", null, "Curves as a table"), points));
	}

	show(row) {
		const text = summaryOf(row);
		this.row = row;
		this.#once("summary", text, () => fill(this.#summary, el("b", null, taskName(row)),
			el("span", { class: "hint" }, text)));
		this.#draw();
	}

	#draw() {
		const { row } = this;
		if (!this.element.open) return;
		const label = `Figures of ${taskName(row)}`;
		this.#once("figures", row.figures, () =>
			fill(this.#figures, row.figures && figureTable(label, row)));
		const curves = curvesOf(row);
		this.#once("plots", curves.map(({ name, isAtMost }) => [name, isAtMost]), () => {
			this.#curves = curves.map((one) => new Curve(one.name, one.text, one.isAtMost));
			fill(this.#plots, curves.length ? this.#curves.map(({ element }) => element)
				: el("p", { class: "soft" }, "There are no curves of this task."));
		});
		curves.forEach(({ curve, top }, i) =>
			this.#curves[i].show(curve, row.boundTime, row.heldSeconds, top));
	}
}

export class UsageView {
	#tasks = new Map(); // by keyOf()
	#answer;
	#isAsking = false;
	#once = onlyChanges();
	#parts = { error: el("p", { class: "error", role: "alert" }), notes: el("ul"), tasks: el("div"),
		more: el("p", { class: "soft" }) };

	constructor(panel, path, signal) {
		Object.assign(this, { path, signal });
		fill(panel, Object.values(this.#parts));
	}

	/** Shows a task, or ALL, as the server has it now. */
	async show(task) {
		const { path, signal } = this;
		this.task = task;
		if (this.#answer) this.#draw();
		if (this.#isAsking) return;
		this.#isAsking = true;
		await get(path, { signal }).then((answer) => {
			this.#answer = answer;
			fill(this.#parts.error);
			this.#draw();
		}).catch(({ message }) => signal.aborted ||
			fill(this.#parts.error, `Not shown: ${message}`));
		this.#isAsking = false;
	}

	#draw() {
		const { tasks, tasksTotal, notes } = this.#answer;
		const all = tasks.filter((row) => this.task === ALL || taskName(row) === this.task);
		const rows = all.slice(0, MOST);
		const left = all.length - rows.length + (this.task === ALL ? tasksTotal - tasks.length : 0);
		this.#once("notes", notes, () =>
			fill(this.#parts.notes, notes.map((note) => el("li", null, note))));
		this.#once("tasks", rows.map(keyOf), () => this.#fill(rows));
		for (const row of rows) this.#tasks.get(keyOf(row)).show(row);
		fill(this.#parts.more, !rows.length && "Nothing has been measured yet.",
			left > 0 && `and ${plural(left, "more task")}: choose one in the list of tasks`);
	}

	#fill(rows) {
		const before = this.#tasks;
		this.#tasks = new Map(rows.map((row) =>
			[keyOf(row), before.get(keyOf(row)) ?? new TaskUse()]));
		const uses = [...this.#tasks.values()];
		fill(this.#parts.tasks, uses.map(({ element }) => element));
		const isNew = (one) => !one.row;
		for (const one of uses.slice(0, OPEN).filter(isNew)) one.element.open = true;
	}
}
