// The columns of the list of jobs.

import { get } from "./api.js";
import { duration, el, hashOf, idOf, now, pathOf, runMs, runTime, state, time } from "./dom.js";

export const STATES = ["WAITING", "RUNNING", "STOPPING", "SUCCEEDED", "FAILED", "STOPPED"];

const phrases = new Map(); // of exit codes; rows do not have them

/** The exit code with its phrase, from the details of one job for each code. */
function phrase(row) {
	const code = row.appExitCode;
	if (!code || !row.completedTime) return "";
	if (!phrases.has(code)) {
		phrases.set(code, "");
		get(pathOf(idOf(row))).then(({ jobStatus: { appExitSpec } }) =>
			phrases.set(code, appExitSpec.phrase)).catch(() => phrases.delete(code));
	}
	return `${code} ${phrases.get(code)}`;
}

function reason(row) {
	const { retries, completedTime, previousExitCode: previous, waitingReason } = row;
	const after = previous === undefined ? "" : ` after exit code ${previous}`;
	const tries = retries > 0 && !completedTime && `try ${retries + 1}${after}`;
	return [tries, waitingReason?.message ?? phrase(row)].filter(Boolean).join("; ");
}

function nameCell(row) {
	const tags = row.tags.map((tag) => el("span", { class: "tag" }, tag));
	const title = [row.name, ...row.tags].join(", ");
	return [el("a", { href: hashOf(idOf(row)), title }, row.name), tags];
}

const times = ({ launchedTime, completedTime }) =>
	[["started", launchedTime], ["ended", completedTime]].filter(([, at]) => at)
		.map(([what, at]) => `${what} ${time(at)}`).join(", ");
const text = (name, id, width, value, more) => ({ name, id, width, value, cell: value, ...more });

/** For VirtualTable. */
export const COLUMNS = [
	text("State", "state", "120px", (row) => STATES.indexOf(row.state),
		{ node: true, cell: (row) => state(row.state) }),
	text("Name", "name", "", (row) => row.name, { node: true, cell: nameCell }),
	text("User", "user", "110px", (row) => row.username, { minor: true }),
	text("Virtual cluster", "vc", "130px", (row) => row.virtualCluster, { minor: true }),
	text("GPUs", "gpus", "76px", (row) => row.totalGpuNumber, { number: true }),
	text("Tasks", "tasks", "76px", (row) => row.totalTaskNumber, { number: true, minor: true }),
	text("Age", "age", "88px", (row) => -row.submissionTime,
		{ cell: (row) => duration(now() - row.submissionTime),
			title: (row) => `submitted ${time(row.submissionTime)}` }),
	text("Duration", "duration", "96px", runMs, { minor: true, cell: runTime, title: times }),
	text("Reason", "reason", "28%", reason),
];
