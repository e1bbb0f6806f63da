// The rows of the list of jobs: their columns, and how they follow the server.

import { changes, get, isPassing, pause, watch } from "./api.js";
import { whyEnded } from "./details.js";
import { duration, el, exitText, hashOf, idleText, idOf, now, pathOf, runMs, runTime, state,
	time } from "./dom.js";

export const STATES = ["WAITING", "RUNNING", "STOPPING", "SUCCEEDED", "FAILED", "STOPPED"];

// The end of a job, as its details tell it; rows do not have it.
const ends = new Map(); // {why, exit} by endOf(); {}: not known
const meanings = new Map(); // of exit codes, until more is known
const due = new Map(); // rows that have come into view, by endOf()
const DUE_MOST = 60, ENDS_MOST = 5000;
const AT_ONCE = 100, ASK_MS = 250, LIMITED_MS = 5000; // a minute has 600 requests for all
let isAsking = false;

const endOf = (row) => `${idOf(row)} ${row.completedTime}`;
changes.addEventListener("session", () => [ends, due].forEach((all) => all.clear()));

/** Asks for one after the other. */
async function askForEnds() {
	isAsking = true;
	for (const [key, row] of due) { // also those that are added meanwhile
		due.delete(key);
		if (ends.size >= ENDS_MOST) ends.clear();
		ends.set(key, {});
		const wait = await get(pathOf(idOf(row))).then(({ jobStatus }) => {
			meanings.set(row.appExitCode, jobStatus.appExitSpec?.reason ?? "");
			ends.set(key, { why: whyEnded(jobStatus),
				exit: exitText(row.appExitCode, jobStatus.appExitSpec) });
			return ends.size < AT_ONCE ? 0 : ASK_MS;
		}).catch((error) => isPassing(error) && ends.delete(key) ? LIMITED_MS : 0);
		await pause(wait);
	}
	isAsking = false;
}

const exitOf = ({ appExitCode: code, completedTime }) =>
	(code && completedTime ? `exit code ${code}` : "");

function stateOf({ retries, completedTime, previousExitCode: previous, waitingReason,
	gpuIdleSince: idle }) {
	const after = previous === undefined ? "" : ` after exit code ${previous}`;
	const tries = retries > 0 && !completedTime && `try ${retries + 1}${after}`;
	return [tries, waitingReason?.message, idle && `GPUs ${idleText(idle)}`]
		.filter(Boolean).join("; ");
}

/** For a row in view. */
function reasonOf(row) {
	const key = endOf(row);
	if (exitOf(row) && !ends.has(key)) {
		due.set(key, row);
		if (due.size > DUE_MOST) due.delete(due.keys().next().value);
		if (!isAsking) askForEnds();
	}
	return stateOf(row) || (ends.get(key)?.why ?? (meanings.get(row.appExitCode) || exitOf(row)));
}

function allOfReason(row) {
	const { why, exit } = ends.get(endOf(row)) ?? {};
	return why ? `${why} (${exit})` : reasonOf(row);
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
	text("User", "user", "110px", (row) => row.username, { kind: "minor" }),
	text("Virtual cluster", "vc", "130px", (row) => row.virtualCluster, { kind: "minor" }),
	text("GPUs", "gpus", "76px", (row) => row.totalGpuNumber, { kind: "number" }),
	text("Tasks", "tasks", "76px", (row) => row.totalTaskNumber, { kind: "number minor" }),
	text("Age", "age", "88px", (row) => -row.submissionTime,
		{ cell: (row) => duration(now() - row.submissionTime),
			title: (row) => `submitted ${time(row.submissionTime)}` }),
	text("Duration", "duration", "96px", runMs, { kind: "minor", cell: runTime, title: times }),
	text("Reason", "reason", "30%", (row) => stateOf(row) || exitOf(row),
		{ cell: reasonOf, title: allOfReason }),
];

const ALL = 50000;
const REASONS_MS = 2000, REASONS_OLD = 5; // every fifth time also for jobs whose reason is known

/** All jobs. changed() is called after each change of `rows`, until the signal aborts. */
export class Feed {
	constructor(rows, signal, changed) {
		Object.assign(this, { rows, signal, changed });
	}

	#list(query) {
		return get(`api/v2/jobs?${new URLSearchParams(query)}`, { signal: this.signal });
	}

	#event(name, data) {
		const before = this.rows.get(idOf(data));
		if (name === "reset") this.rows.clear();
		else if (name === "gone") this.rows.delete(idOf(data));
		else {
			const reason = data.state === "WAITING" ? before?.waitingReason : null;
			this.rows.set(idOf(data), { ...data, waitingReason: reason });
		}
		this.changed();
	}

	/** Events have no reasons why jobs wait: undefined, not yet known. */
	async #readReasons() {
		const { rows, signal } = this;
		for (let i = 1; ; i++) {
			await pause(REASONS_MS, signal);
			const waiting = [...rows.values()].filter((row) => row.state === "WAITING");
			const isNew = waiting.some((row) => row.waitingReason === undefined);
			if (!isNew && (i % REASONS_OLD || !waiting.length)) continue;
			const found = await this.#list({ state: "WAITING", limit: 1000 }).catch(() => []);
			for (const row of found.filter((one) => rows.get(idOf(one))?.state === "WAITING")) {
				rows.set(idOf(row), { waitingReason: null, ...row });
			}
			this.changed();
		}
	}

	/** Reads the newest jobs, as many as `first`, or all; then follows their changes. */
	async follow(first = ALL) {
		const { signal } = this;
		this.#readReasons().catch(() => {});
		// After an outage all jobs are read again: the changes of that time lack removals.
		for (let most = first; ; most = ALL) {
			await this.#list({ limit: most }).then((found) => {
				if (found.length < most) this.rows.clear();
				for (const row of found) this.rows.set(idOf(row), row);
				this.changed();
			}, () => {}); // watch() tries again
			const stream = new AbortController();
			const both = AbortSignal.any([signal, stream.signal]);
			const event = (name, data) => this.#event(name, data);
			const lost = (yes) => yes || stream.abort();
			await watch("api/v2/jobs/watch?initial=true", { signal: both, event, lost })
				.catch((error) => { if (signal.aborted || !stream.signal.aborted) throw error; });
		}
	}
}
