// One job: its state, tasks, logs, events, attempts and configuration.

import { actions, tagList, written } from "./actions.js";
import { get, pause, session, watch } from "./api.js";
import { areaChart, seriesOf } from "./chart.js";
import { el, fill } from "./dom.js";
import { duration, now, state, time } from "./format.js";
import { pathOf, runTime } from "./jobs.js";
import { logView } from "./logview.js";
import { VirtualTable } from "./table.js";

export const title = "Job";

const LOOK_MS = 5000; // while nothing happens: for durations, events of pods, the reason of waiting
const SLOW = 5; // the pause between two looks, in durations of an answer

const isOver = (name) => ["SUCCEEDED", "FAILED", "STOPPED"].includes(name);
const taskName = ({ role, taskIndex }) => `${role}[${taskIndex}]`;
const exitText = (code, spec) => `${code ?? ""} ${spec?.phrase ?? ""}`.trim();
const link = (name, click) => el("button", { type: "button", class: "link", on: { click } }, name);
const section = (name, ...children) =>
	el("section", { class: "panel", "aria-label": name }, el("h2", null, name), children);

/** Names and values; empty values are left out. */
const facts = (pairs) => el("dl", { class: "facts" }, pairs.map(([name, value]) =>
	(value ?? "") !== "" && el("div", null, el("dt", null, name), el("dd", null, value))));

function exitFacts(code, spec, diagnostics) {
	const more = code && diagnostics &&
		el("details", null, el("summary", null, "show"), el("pre", null, diagnostics));
	return [["Exit code", exitText(code, spec)], ["Meaning", code && spec?.reason],
		["What to do", code && spec?.solution?.join(". ")], ["Diagnostics", more]]
		.filter(([, value]) => value);
}

function firstFacts(first) {
	if (!first) return [];
	const { cause, followersCount: n, lines } = first;
	const name = taskName({ role: first.taskRole, ...first });
	return [["Failed first", `${name}: ${cause}${n ? ` (${n} only followed)` : ""}`],
		["Its last lines", lines.length > 0 && el("pre", null, lines.join("\n"))]].filter(([, v]) => v);
}

function unusedImages({ taskRoles }) {
	const images = Object.values(taskRoles).map((role) => role.taskRoleStatus.imageUnused);
	const names = [...new Set(images)].filter(Boolean);
	return names.length > 0 && `runs on this machine's files, not in ${names.join(", ")}`;
}

function portsOf({ containerPorts }) {
	return Object.entries(containerPorts ?? {}).map((port) => port.join(" ")).join(", ");
}

/** Returns true if the plugin ssh of a job runs sshd for people or other tasks in this role. */
export function hasSshd(config, name) {
	const plugins = config?.extras?.["com.microsoft.pai.runtimeplugin"] ?? [];
	return plugins.some((one) => {
		const { jobssh, userssh } = one?.parameters ?? {};
		return one?.plugin === "ssh" && (one.taskroles?.includes(name) ?? true) &&
			(`${jobssh}` === "true" || (!!userssh && userssh.type !== "none"));
	});
}

function sshOf({ containerPorts, containerIp, taskState, sshd }) {
	const port = sshd && containerPorts?.ssh?.split(",")[0];
	return port && containerIp && !isOver(taskState) ? `ssh -p ${port} root@${containerIp}` : "";
}

/** Numbers of tasks by state between two times. */
export function taskSeries(tasks, from, to) {
	const spans = { succeeded: [], failed: [], stopped: [], running: [], waiting: [] };
	const add = (role, start, end) => spans[role]?.push({ start, end, weight: 1 });
	for (const { createdTime, launchedTime, completedTime, taskState } of tasks) {
		add("waiting", createdTime ?? from, launchedTime ?? completedTime ?? to);
		if (launchedTime) add("running", launchedTime, completedTime ?? to);
		if (completedTime) add(taskState.toLowerCase(), completedTime, to);
	}
	return Object.entries(spans).map(([role, list]) => seriesOf(role, list, from, to));
}

const taskTable = (open, gpus) => new VirtualTable({
	label: "Tasks", key: taskName, empty: "There are no tasks yet.",
	columns: [
		{ name: "Task", node: true, cell: (task) => link(taskName(task), () => open(task)) },
		{ name: "State", width: "120px", node: true, cell: (task) => state(task.taskState) },
		{ name: "Exit code", width: "22%",
			cell: (task) => exitText(task.containerExitCode, task.containerExitSpec) },
		{ name: "GPUs", width: "64px", number: true, minor: true, cell: gpus },
		{ name: "Node", width: "14%", minor: true, cell: (task) => task.containerNodeName },
		{ name: "Ports", width: "22%", minor: true, cell: (task) => sshOf(task) || portsOf(task) },
		{ name: "Duration", width: "84px", minor: true, cell: runTime },
		{ name: "Retries", width: "70px", number: true, minor: true, cell: (task) => task.retries },
	],
});

function plainTable(label, heads, rows) {
	const head = heads.map((text) => el("th", { scope: "col" }, text));
	const body = rows.map((cells) => el("tr", null, cells.map((cell) => el("td", null, cell))));
	return el("div", { class: "scroll", tabindex: "0" }, el("table", { "aria-label": label },
		el("thead", null, el("tr", null, head)), el("tbody", null, body)));
}

function eventTable({ data }) {
	const rows = data.map((one) => [duration(now() - Date.parse(one.lastTimestamp)), one.type,
		one.taskroleName && taskName({ role: one.taskroleName, taskIndex: one.taskIndex }),
		one.reason, one.count, one.message]);
	const heads = ["Age", "Type", "Task", "Reason", "Count", "Message"];
	return rows.length ? plainTable("Events", heads, rows) : "None are known.";
}

function attemptTable(all, open) {
	const rows = all.map((one) => [link(one.attemptIndex + 1, () => open(one)), state(one.state),
		time(one.attemptStartedTime), exitText(one.exitCode, one.appExitSpec),
		duration((one.attemptCompletedTime ?? now()) - one.attemptStartedTime)]);
	return plainTable("Attempts", ["Attempt", "State", "Started", "Exit code", "Duration"], rows);
}

/** One task, with the log of one of its attempts. */
class TaskView {
	#own = new AbortController();
	#facts = el("div");
	#log = el("div", { class: "log-place" });
	#tries = el("select", { "aria-label": "Attempt", on: { change: () => this.#follow() } });
	element = section("Task", this.#facts, this.#tries, this.#log);

	constructor(job, signal) {
		Object.assign(this, { job, signal });
		this.element.hidden = true;
	}

	/** Shows a task, or its new state. */
	show(task) {
		if (JSON.stringify(task) === JSON.stringify(this.task)) return; // open details stay open
		const isSame = this.task?.containerLog === task.containerLog;
		const { containerExitCode: code, containerExitSpec: spec, attemptId: latest } = task;
		this.task = task;
		this.element.hidden = false;
		fill(this.element.firstChild, taskName(task));
		fill(this.#facts, facts([["State", state(task.taskState)],
			...exitFacts(code, spec, task.containerExitDiagnostics),
			["Node", task.containerNodeName], ["Address", task.containerIp],
			["Ports", portsOf(task)], ["SSH", sshOf(task) && el("code", null, sshOf(task))]]));
		if (!task.containerLog || isSame) return;
		this.#tries.hidden = latest === 0;
		fill(this.#tries, Array.from({ length: latest + 1 }, (_, i) =>
			el("option", { value: i, selected: i === latest }, `attempt ${i + 1}`)));
		this.#follow();
	}

	#follow() {
		this.#own.abort();
		this.#own = new AbortController();
		const { containerLog, role, taskIndex, attemptId } = this.task;
		const attempt = this.#tries.value;
		const isCurrent = () => this.task.containerLog === containerLog && attempt === `${attemptId}`;
		logView(this.#log, [{
			name: taskName(this.task), file: `${this.job}-${role}-${taskIndex}`,
			path: containerLog.slice(1).replace(/\d+\/logs$/, `${attempt}/logs`),
			ended: () => !isCurrent() || isOver(this.task.taskState),
		}], { picked: () => {}, signal: AbortSignal.any([this.signal, this.#own.signal]) });
	}
}

function whyOf({ state: name, waitingReason, stopReason, appExitCode, appExitSpec }) {
	const next = waitingReason?.nextAttemptTime;
	if (next) return `the next attempt begins at ${time(next)}`;
	const exit = isOver(name) && appExitCode ? exitText(appExitCode, appExitSpec) : "";
	return waitingReason?.message ?? stopReason ?? exit;
}

/** The page of a job; refresh() reads it again. */
class JobView {
	#attempt = null; // an earlier one, whose tasks are shown
	#chosen; // name of the task whose log is shown
	#facts = el("div");
	#chart = el("div", { class: "panel" });
	#events = el("div");
	#attempts = el("div");
	#earlier = section("Attempts", this.#attempts);
	#config = el("pre", { tabindex: "0", class: "config", "aria-label": "Configuration" });
	state = el("p", { role: "status", "aria-label": "State" });

	constructor(root, id, signal, refresh) {
		const [owner, name] = id.split("~");
		const { username: user, admin } = session.user;
		const job = { id, path: pathOf(id), user, mayChange: admin || user === owner };
		const gpus = (task) => this.config?.taskRoles?.[task.role]?.resourcePerInstance?.gpu;
		Object.assign(this, { path: job.path, signal });
		this.buttons = actions(job, refresh);
		this.tags = tagList(job, refresh);
		this.tasks = taskTable((task) => this.#open(task), gpus);
		this.task = new TaskView(name, signal);
		fill(root, el("h1", { tabindex: "-1" }, id), this.state, this.buttons.element,
			el("div", { class: "panel" }, this.#facts, this.tags.element), this.#chart,
			section("Tasks", this.tasks.element), this.task.element, this.#earlier,
			section("Events", this.#events), section("Configuration", this.#config));
		this.#load(written(job.path, { signal }), this.#config, (text) => text);
		this.#load(this.#get("config"), el("div"), (config) => {
			this.config = config;
			this.shown?.();
		});
	}

	#get(what) {
		return get(`${this.path}/${what}`, { signal: this.signal });
	}

	/** Shows the server's answer, or the reason of a refusal. */
	async #load(answer, host, make) {
		fill(host, await answer.then(make).catch((error) => `Not shown: ${error.message}`));
	}

	#open(task) {
		this.#chosen = taskName(task);
		this.task.show(task);
		this.task.element.scrollIntoView({ block: "nearest" });
	}

	#showTasks({ taskRoles }, start, end) {
		const tasks = Object.entries(taskRoles).flatMap(([role, { taskStatuses }]) =>
			taskStatuses.map((task) => ({ role, sshd: hasSshd(this.config, role), ...task })));
		const from = start ?? now();
		const to = end ? end + (end - from) / 20 + 1 : Math.max(now(), from + 1000);
		const series = taskSeries(tasks, from, to);
		fill(this.#chart, areaChart({ title: "Tasks by state", unit: "task", from, to, series }));
		this.tasks.rows = tasks;
		const chosen = tasks.find((task) => taskName(task) === this.#chosen) ??
			tasks.find((task) => task.taskState === "FAILED") ?? tasks[0];
		this.#chosen ??= chosen && taskName(chosen);
		if (chosen) this.task.show(chosen);
	}

	show(detail) {
		const { jobStatus: status } = detail;
		const attempt = this.#attempt;
		const why = ` ${whyOf(status)}`;
		const isNew = this.state.textContent !== status.state + why; // else it would be read again
		if (isNew) fill(this.state, state(status.state), why);
		this.buttons.update(isOver(status.state));
		this.tags.update(detail.tags);
		fill(this.#facts, facts([["User", status.username], ["Virtual cluster", status.virtualCluster],
			["Submitted", time(status.submissionTime)], ["Duration", runTime(status)],
			["Retries", status.retries], ["Image", unusedImages(detail)],
			...firstFacts(status.firstFailure),
			["Cause", status.appExitMessages?.runtime?.failedLine],
			...exitFacts(status.appExitCode, status.appExitSpec, status.appExitDiagnostics)]));
		this.shown = () => attempt
			? this.#showTasks(attempt, attempt.attemptStartedTime, attempt.attemptCompletedTime)
			: this.#showTasks(detail, status.appCreatedTime, status.appCompletedTime);
		this.shown();
		this.#load(this.#get("events"), this.#events, eventTable);
		this.#earlier.hidden = status.retries === 0;
		const table = (all) => attemptTable(all, (one) => {
			this.#attempt = one.attemptIndex === status.attemptId ? null : one;
			this.#chosen = undefined;
			this.show(detail);
		});
		if (status.retries) this.#load(this.#get("job-attempts"), this.#attempts, table);
	}
}

export default async function jobPage(root, { job: id }, signal) {
	let view, detail, wake, isDue = true;
	const refresh = () => { isDue = true; wake?.(); };
	const clock = setInterval(() => view?.tasks.refresh(), 1000);
	signal.addEventListener("abort", () => { clearInterval(clock); refresh(); });
	watch(`${pathOf(id)}/watch`, { signal, event: refresh }).then(refresh, () => {});
	const read = () => get(pathOf(id), { signal }).catch((error) => {
		if (error.status === 404) return null;
		if (!view || error.status === undefined) throw error;
		isDue = true;
		return detail;
	});
	while (!signal.aborted) {
		const begun = Date.now();
		if (isDue || detail.jobStatus.waitingReason) {
			isDue = false;
			detail = await read();
		}
		if (!detail) break;
		view ??= new JobView(root, id, signal, refresh);
		view.show(detail);
		await pause(Math.max(1000, SLOW * (Date.now() - begun)), signal);
		if (!isDue) await new Promise((resolve) => {
			wake = resolve;
			if (!isOver(detail.jobStatus.state)) setTimeout(resolve, LOOK_MS);
		});
	}
	if (view) fill(view.state, "The job was removed.");
	else fill(root, el("h1", null, "Not found"), el("p", null, `There is no job ${id}.`));
}
