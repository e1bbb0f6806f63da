// The rows of the list of jobs: their columns, and how they follow the server.

import { get, pause, watch } from "./api.js";
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

function reasonOf(row) {
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
	text("User", "user", "110px", (row) => row.username, { kind: "minor" }),
	text("Virtual cluster", "vc", "130px", (row) => row.virtualCluster, { kind: "minor" }),
	text("GPUs", "gpus", "76px", (row) => row.totalGpuNumber, { kind: "number" }),
	text("Tasks", "tasks", "76px", (row) => row.totalTaskNumber, { kind: "number minor" }),
	text("Age", "age", "88px", (row) => -row.submissionTime,
		{ cell: (row) => duration(now() - row.submissionTime),
			title: (row) => `submitted ${time(row.submissionTime)}` }),
	text("Duration", "duration", "96px", runMs, { kind: "minor", cell: runTime, title: times }),
	text("Reason", "reason", "28%", reasonOf),
];

const ALL = 50000;
const REASONS_MS = 2000, REASONS_OLD = 5; // every fifth time also for jobs whose reason is known

const queryOf = ({ tag, ...filter }) => new URLSearchParams(
	Object.entries({ ...filter, tagsContain: tag }).filter(([, value]) => value));

/** The jobs that a filter takes. changed() is called after each change of `rows`, until the signal
 * aborts. */
export class Feed {
	constructor(filter, rows, signal, changed) {
		Object.assign(this, { query: queryOf(filter), rows, signal, changed });
	}

	#list(more) {
		const query = `${this.query}&${new URLSearchParams(more)}`;
		return get(`api/v2/jobs?${query}`, { signal: this.signal });
	}

	#event(name, data) {
		const before = this.rows.get(idOf(data));
		if (name === "reset") this.rows.clear();
		else if (name === "gone" || data.left) this.rows.delete(idOf(data));
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
		const { query, signal } = this;
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
			await watch(`api/v2/jobs/watch?initial=true&${query}`, { signal: both, event, lost })
				.catch((error) => { if (signal.aborted || !stream.signal.aborted) throw error; });
		}
	}
}
