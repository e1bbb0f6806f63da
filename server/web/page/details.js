// The parts of a job's page about it: its failure (which task, which line, the meaning, the
// remedy); in the tabs beside the log facts, events, attempts.

import { downloadCode } from "./actions.js";
import { areaChart } from "./chart.js";
import { button, duration, el, exitText, fill, link, now, plainTable, plural, sizeOf,
	state, time } from "./dom.js";
import { plain } from "./log.js";
import { isOver, taskName, taskSeries } from "./tasks.js";

const LINES = 4; // of the log, if no line is known as the cause

const linesOf = (first, text) => (first?.lines.length ? first.lines : text.split("\n"))
	.map(plain).filter((line) => line.trim());

/** The cause, as far as it is known: {cause, line, lines} of failureOf(). */
function causeOf(first, { runtime, launcher }, phrase) {
	const { errorLogs, matchedUserLogString, failedLine } = runtime ?? {};
	const lines = linesOf(first, errorLogs?.user || launcher || "");
	const matched = plain(matchedUserLogString ?? "");
	const told = plain(first?.cause ?? (matched || (failedLine ?? "")));
	const cause = told === phrase ? "" : told;
	const isIn = (line) => line.includes(cause);
	const isLine = cause && (lines.some(isIn) || (matched && cause.includes(matched)));
	if (isLine) return { cause: "", line: cause, lines: [] };
	const isSilent = errorLogs?.user === "" && !cause && !lines.length;
	const sentence = isSilent ? "It wrote no output." : cause;
	return { cause: sentence, line: "", lines: lines.slice(-LINES) };
}

/** Describes a failed attempt: {code, phrase, own: how the command itself ended or "", meaning,
 * task, followers, cause: a sentence or "", line: the text of the log that is the cause or "",
 * lines: its last ones without such a line, remedies}; null if the attempt has not failed. */
export function failureOf(status) {
	const { firstFailure: first, appExitMessages, appExitTriggerTaskRoleName: taskRole,
		appExitTriggerTaskIndex: taskIndex } = status;
	if (!first && status.attemptState !== "FAILED") return null;
	const code = first?.exitCode ?? status.appExitCode;
	const { phrase, reason, solution } = first?.exitSpec ?? status.appExitSpec ?? {};
	const { originUserExitCode: own = code, solution: more } = appExitMessages?.runtime ?? {};
	return {
		code, phrase: phrase ?? "", meaning: reason ?? "The job failed.",
		own: own === code ? "" : `the command ended with ${own}`,
		task: first ? taskName(first) : taskRole && taskName({ taskRole, taskIndex }),
		followers: first?.followersCount ?? 0, ...causeOf(first, appExitMessages ?? {}, phrase),
		remedies: [...solution ?? [], more].filter(Boolean),
	};
}

/** Why a job has ended as it did: the line of its log first. */
export function whyEnded(status) {
	const failure = failureOf(status);
	if (!failure) return status.stopReason ?? status.appExitSpec?.reason ?? "";
	const { line, meaning, cause, lines } = failure;
	return line ? `${line}. ${meaning}`
		: [meaning, cause || lines.at(-1)].filter(Boolean).join(": ");
}

/** The line of the log that is marked as the failure: {task, text}, or null. */
export function markOf(failure) {
	const text = failure?.line || failure?.lines.at(-1);
	return text && failure.task ? { task: failure.task, text } : null;
}

/** One panel. when: " in attempt 1", or ""; several: the job has more tasks; show(): goes to the
 * marked line in the log; choose(task): shows its log. */
export function failurePanel(failure, { when, several, show, choose }) {
	const { code, phrase, own, meaning, task, followers, cause, line, lines, remedies } = failure;
	const others = followers > 0 && `; ${plural(followers, "other")} only followed`;
	const soft = (text) => el("small", { class: "soft" }, text);
	return el("section", { class: "failure-panel", "aria-label": "Failure" },
		el("p", null, el("strong", null, meaning, line && [": ", link(line, show)]),
			soft(`${code ?? ""} ${phrase}`), own && soft(own)),
		el("p", null, task && el("span", null, link(task, () => choose(task)),
			several ? [" failed first", when, others] : [" failed", when]),
		cause && el("span", null, cause),
		task && lines.length > 0 && link("show the last lines in the log", show)),
		lines.length > 0 && el("pre", null, lines.join("\n")),
		remedies.length > 0 && el("p", null, el("span", null,
			el("span", { class: "soft" }, "What to do: "), `${remedies.join(". ")}.`)));
}

/** Names and values; empty values are left out. */
const facts = (pairs) => el("dl", { class: "facts" }, pairs.map(([name, value]) =>
	!["", false, null, undefined].includes(value) &&
		el("div", null, el("dt", null, name), el("dd", null, value))));

const section = (name, ...children) =>
	el("section", { "aria-label": name }, el("h2", null, name), children);

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

function sshOf({ role, containerPorts, containerIp, taskState }, config) {
	const port = hasSshd(config, role) && containerPorts?.ssh?.split(",")[0];
	const isOn = port && containerIp && !isOver(taskState);
	return isOn && el("code", null, `ssh -p ${port} root@${containerIp}`);
}

const more = (name, text) => text &&
	el("details", null, el("summary", null, name), el("pre", { tabindex: "0" }, text));

/** The code of a job, with a button that saves the archive. */
function codeOf(id, config) {
	const { sha256 = "", commit, changed } = config?.extras?.code ?? {};
	const error = el("span", { class: "error", role: "alert" });
	const save = () => downloadCode(id)
		.then(() => fill(error), ({ message }) => fill(error, message));
	const text = commit ? `commit ${commit.slice(0, 12)}${changed ? ", with changes" : ""}`
		: `without a commit, ${sha256.slice(0, 12)}`;
	return sha256 && el("span", { title: sha256 }, `${text} `,
		button("Download", save, { class: "link" }), error);
}

/** The parameters of a job, with their values. */
const parametersOf = (config) => Object.entries(config?.parameters ?? {}).map(([name, value]) =>
	`${name} = ${typeof value === "string" ? value : JSON.stringify(value)}`).join("\n");

/** Command and resources of a task of this role, of a configuration of version 2 or 1. */
function roleOf(config, name) {
	const roles = config?.taskRoles ?? {};
	const role = (Array.isArray(roles) ? roles.find((one) => one.name === name)
		: roles[name]) ?? {};
	const { cpu = role.cpuNumber, memoryMB = role.memoryMB, gpu = role.gpuNumber } =
		role.resourcePerInstance ?? {};
	return {
		command: (role.commands ?? [role.command]).filter(Boolean).join("\n"),
		resources: [cpu && plural(cpu, "CPU"), memoryMB && sizeOf(memoryMB * 2 ** 20),
			gpu && plural(gpu, "GPU")].filter(Boolean).join(", "),
	};
}

const pre = (text) => text && el("pre", { tabindex: "0" }, text);

/** Facts of the job; `config`: its configuration, once it is known. */
export function jobFacts(detail, id, config) {
	const { jobStatus: status } = detail;
	return section("Job", facts([["Why it waits", status.waitingReason?.message],
		["Virtual cluster", status.virtualCluster],
		["Submitted", time(status.submissionTime)], ["Started", time(status.launchedTime)],
		["Ended", time(status.completedTime)], ["Retries", status.retries],
		["Image", unusedImages(detail)], ["Code", codeOf(id, config)],
		["Parameters", pre(parametersOf(config))]]),
	more("Diagnostics of the job", status.appExitCode !== 0 && status.appExitDiagnostics));
}

const LATE_MS = 30000; // after the grace of a pod that is being deleted

const nodeOf = ({ containerNodeName: node, deletionDue: due }) =>
	(node && due + LATE_MS < now() ? `${node} does not answer since ${time(due)}` : node);

/** Facts of a task; `failed`: the task whose failure is explained elsewhere, `told`: diagnostics
 * that are shown elsewhere. */
export function taskFacts(task, config, failed, told) {
	const { containerExitCode: code, containerExitSpec: spec, containerExitDiagnostics: text } =
		task;
	const name = taskName(task);
	const isOther = name !== failed, why = isOther && code !== 0;
	const { command, resources } = roleOf(config, task.role);
	return section(`Task ${name}`, facts([["Command", pre(command)], ["Resources", resources],
		["Exit code", isOther && exitText(code, spec)],
		["Meaning", why && spec?.reason], ["What to do", why && spec?.solution?.join(". ")],
		["Retries", task.retries], ["Node", nodeOf(task)], ["Address", task.containerIp],
		["Ports", portsOf(task)], ["SSH", sshOf(task, config)]]),
	more("Diagnostics of the task", code !== 0 && text !== told && text));
}

/** A chart of the states of several tasks that did not change at the same time; else null. */
export function taskChart(tasks, { appCreatedTime: start, appCompletedTime: end }) {
	const times = new Set(tasks.map((task) => `${task.launchedTime} ${task.completedTime}`));
	if (times.size < 2) return null;
	const from = start ?? now();
	const to = end ? end + (end - from) / 20 + 1 : Math.max(now(), from + 1000);
	return areaChart({ title: "Tasks by state", unit: "task", from, to,
		series: taskSeries(tasks, from, to) });
}

const EVENTS = [
	["Age", ({ lastTimestamp: at }) => el("span", { title: time(Date.parse(at)) },
		duration(now() - Date.parse(at)))],
	["Type", (one) => one.type],
	["Task", (one) => one.taskroleName && taskName({ role: one.taskroleName, ...one })],
	["Reason", (one) => one.reason], ["Count", (one) => one.count],
	["Message", (one) => one.message],
];

export const eventTable = ({ data }) =>
	(data.length ? plainTable("Events", EVENTS, data) : "No events are known.");

/** The attempts that are stored; open(index) shows one. */
export const attemptTable = (all, open) => plainTable("Attempts", [
	["Attempt", ({ attemptIndex: i }) => link(`attempt ${i + 1}`, () => open(i))],
	["State", (one) => state(one.state)], ["Started", (one) => time(one.attemptStartedTime)],
	["Duration", (one) => duration((one.attemptCompletedTime ?? now()) - one.attemptStartedTime)],
	["Exit code", (one) => exitText(one.exitCode, one.appExitSpec)],
], all);
