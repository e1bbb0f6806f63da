// All jobs: filters, a chart of their GPUs, and a table that follows the server.

import { get, pause, watch } from "./api.js";
import { areaChart, seriesOf } from "./chart.js";
import { el, fill } from "./dom.js";
import { duration, now, plural, state } from "./format.js";
import { VirtualTable } from "./table.js";

export const title = "Jobs";

const STATES = ["WAITING", "RUNNING", "STOPPING", "SUCCEEDED", "FAILED", "STOPPED"];
const FILTERS = { username: "User", vc: "Virtual cluster", state: "State", keyword: "Name" };
const OF_ROW = { username: "username", vc: "virtualCluster", state: "state" };
const FIRST = 100; // rows that are shown before the others have come
const ALL = 50000;
const DAY = 86400e3;
const CHART_MS = 10000;
const REASONS_MS = 2000, REASONS_OLD = 5; // every fifth time also for jobs whose reason is known
const SHOW_MS = 250; // between two changes of the table

const idOf = ({ username, name }) => `${username}~${name}`;
export const hashOf = (id) => `#/jobs/${encodeURIComponent(id)}`;
export const pathOf = (id) => `api/v2/jobs/${encodeURIComponent(id)}`;
const given = (filter) => Object.entries(filter).filter(([, value]) => value);
const queryOf = (filter) => new URLSearchParams(given(filter));

/** The time from the first start of a task to the end of the job, or to now. */
export function runTime({ launchedTime, completedTime }) {
	return launchedTime ? duration((completedTime ?? now()) - launchedTime) : "";
}

/** Returns true if the server would list the row. */
export function selects(filter, row) {
	const texts = [row.name, row.username, row.virtualCluster];
	return given(filter).every(([key, value]) => (key === "keyword"
		? texts.some((text) => text?.includes(value)) : value.split(",").includes(row[OF_ROW[key]])));
}

/** GPUs of the jobs since `from`: in use, and of jobs that wait for them. */
export function gpuSeries(rows, from, to) {
	const used = [], waiting = [];
	for (const { submissionTime, launchedTime, completedTime, totalGpuNumber: weight } of rows) {
		const end = completedTime ?? to;
		if (weight) waiting.push({ start: submissionTime, end: launchedTime ?? end, weight });
		if (weight && launchedTime) used.push({ start: launchedTime, end, weight });
	}
	return [seriesOf("running", used, from, to, "in use"), seriesOf("waiting", waiting, from, to)];
}

/** Follows the jobs of a selection; changed() after each change of `rows`. */
async function follow(filter, rows, signal, changed) {
	const query = queryOf(filter);
	const list = (more) => get(`api/v2/jobs?${query}&${new URLSearchParams(more)}`, { signal });
	const put = (row) => rows.set(idOf(row), row);
	const event = (name, data) => {
		const before = rows.get(idOf(data));
		if (name === "reset") rows.clear();
		else if (name === "gone" || !selects(filter, data)) rows.delete(idOf(data));
		else put({ ...data, waitingReason: data.state === "WAITING" ? before?.waitingReason : null });
		changed();
	};
	// Events have no reasons why jobs wait: undefined, not yet known.
	const reasons = async () => {
		for (let i = 1; ; i++) {
			await pause(REASONS_MS, signal);
			const waiting = [...rows.values()].filter((row) => row.state === "WAITING");
			const isNew = waiting.some((row) => row.waitingReason === undefined);
			if (!isNew && (i % REASONS_OLD || !waiting.length)) continue;
			const found = await list({ state: "WAITING", limit: 1000 }).catch(() => []);
			for (const row of found) {
				if (rows.get(idOf(row))?.state === "WAITING") put({ waitingReason: null, ...row });
			}
			changed();
		}
	};
	await list({ limit: FIRST }).then((first) => first.forEach(put), () => {}); // watch() tries again
	changed();
	reasons().catch(() => {});
	// After an outage all jobs are read again: the changes of that time lack removals.
	for (;;) {
		const stream = new AbortController();
		const both = AbortSignal.any([signal, stream.signal]);
		const lost = (yes) => yes || stream.abort();
		await watch(`api/v2/jobs/watch?initial=true&${query}`, { signal: both, event, lost })
			.catch((error) => { if (signal.aborted || !stream.signal.aborted) throw error; });
		rows.clear();
	}
}

/** The phrases of exit codes, which rows do not have: from the details of one job for each code. */
function phrases(changed) {
	const known = new Map();
	return (row) => {
		const code = row.appExitCode;
		if (!code || !row.completedTime) return "";
		if (!known.has(code)) {
			known.set(code, "");
			get(pathOf(idOf(row))).then(({ jobStatus }) => {
				known.set(code, jobStatus.appExitSpec.phrase);
				changed();
			}).catch(() => {});
		}
		return `${code} ${known.get(code)}`;
	};
}

const COLUMNS = [
	{ name: "State", width: "120px", node: true, cell: (row) => state(row.state) },
	{ name: "Name", node: true,
		cell: (row) => el("a", { href: hashOf(idOf(row)), title: row.name }, row.name) },
	{ name: "User", width: "110px", minor: true, cell: (row) => row.username },
	{ name: "Virtual cluster", width: "120px", minor: true, cell: (row) => row.virtualCluster },
	{ name: "GPUs", width: "64px", number: true, minor: true, cell: (row) => row.totalGpuNumber },
	{ name: "Tasks", width: "64px", number: true, minor: true, cell: (row) => row.totalTaskNumber },
	{ name: "Age", width: "80px", cell: (row) => duration(now() - row.submissionTime) },
	{ name: "Duration", width: "84px", minor: true, cell: runTime },
];

/** The fields of the filters; change(filter) after each input. */
function filterBar(filter, change) {
	const option = (value) =>
		el("option", { value, selected: value === filter.state }, value || "any");
	const input = (name) => (name === "state" ? el("select", { name }, ["", ...STATES].map(option))
		: el("input", { name, type: "search", value: filter[name], size: 14, autocomplete: "off" }));
	const field = ([name, label]) =>
		el("label", { class: "field" }, el("span", null, label), input(name));
	let timer;
	const changed = (event) => {
		event.preventDefault();
		clearTimeout(timer);
		timer = setTimeout(() => change(Object.fromEntries(new FormData(form))), 300);
	};
	const form = el("form", { class: "toolbar", role: "search", "aria-label": "Filters",
		on: { input: changed, submit: changed } }, Object.entries(FILTERS).map(field));
	return form;
}

export default function jobsPage(root, params, signal) {
	let rows, leave, timer, charted;
	const phrase = phrases(() => table.refresh());
	const why = (row) => row.waitingReason?.message ?? phrase(row);
	const table = new VirtualTable({ label: "Jobs", key: idOf, empty: "There are no such jobs.",
		columns: [...COLUMNS, { name: "Reason", minor: true, cell: why }] });
	const count = el("p", { class: "soft", role: "status", "aria-label": "Number of jobs" });
	const chart = el("div", { class: "panel", hidden: true });
	const drawChart = () => {
		const to = now();
		if (to - charted < CHART_MS) return;
		charted = to;
		const first = table.rows.at(-1)?.submissionTime ?? to;
		const from = Math.min(Math.max(first, to - DAY), to - 1000);
		const series = gpuSeries(table.rows, from, to);
		chart.hidden = !series.some(({ values }) => values.some(Boolean));
		const title = "GPUs asked for and in use";
		fill(chart, areaChart({ title, unit: "GPU", from, to, series }));
	};
	const show = () => {
		timer = null;
		table.rows = [...rows.values()].sort((a, b) => b.submissionTime - a.submissionTime);
		fill(count, plural(rows.size, "job"));
		drawChart();
	};
	const begin = async (filter) => {
		leave?.abort();
		leave = new AbortController();
		rows = new Map();
		charted = 0;
		const changed = () => { timer ??= setTimeout(show, table.rows.length ? SHOW_MS : 0); };
		const both = AbortSignal.any([signal, leave.signal]);
		await follow(filter, rows, both, changed).catch((error) => { if (!both.aborted) throw error; });
	};
	const filter = Object.fromEntries(Object.keys(FILTERS).map((key) => [key, params[key] ?? ""]));
	const bar = filterBar(filter, (next) => {
		if (signal.aborted) return;
		history.replaceState(null, "", `#/jobs?${queryOf(next)}`);
		begin(next);
	});
	const clock = setInterval(() => { table.refresh(); drawChart(); }, 1000);
	signal.addEventListener("abort", () => { clearInterval(clock); clearTimeout(timer); });
	fill(root, el("h1", { tabindex: "-1" }, title), bar, chart, count, table.element);
	return begin(filter);
}
