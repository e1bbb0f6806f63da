// All jobs: filters, a chart of their GPUs, and a table that follows the server.

import { get, pause, session, watch } from "./api.js";
import { areaChart, seriesOf } from "./chart.js";
import { button, el, field, fill } from "./dom.js";
import { duration, now, state, time } from "./format.js";
import { go, setQuery, shortcut } from "./main.js";
import { selectionBar } from "./selection.js";
import { VirtualTable } from "./table.js";

export const title = "Jobs";

const STATES = ["WAITING", "RUNNING", "STOPPING", "SUCCEEDED", "FAILED", "STOPPED"];
const FILTERS =
	{ username: "User", vc: "Virtual cluster", state: "State", keyword: "Name", tag: "Tag" };
const OF_ROW = { username: "username", vc: "virtualCluster", state: "state" };
const FIRST = 100; // rows that are shown before the others have come
const ALL = 50000;
const DAY = 86400e3;
const CHART_MS = 10000;
const REASONS_MS = 2000, REASONS_OLD = 5; // every fifth time also for jobs whose reason is known
const SHOW_MS = 250; // between two changes of the table
const NEWEST = { id: "age", isDown: false };

let left; // the last visit: {user, query, rows, place}

export const idOf = ({ username, name }) => `${username}~${name}`;
export const hashOf = (id) => `#/jobs/${encodeURIComponent(id)}`;
export const pathOf = (id) => `api/v2/jobs/${encodeURIComponent(id)}`;
const given = (filter) => Object.entries(filter).filter(([, value]) => value);
const queryOf = ({ tag, ...filter }) => new URLSearchParams(given({ ...filter, tagsContain: tag }));

const runMs = ({ launchedTime, completedTime }) =>
	(launchedTime ? (completedTime ?? now()) - launchedTime : null);
/** The time from the first start of a task to the end of the job, or to now. */
export const runTime = (row) => duration(runMs(row));

/** Returns true if the server would list the row. */
export function selects(filter, row) {
	const texts = [row.name, row.username, row.virtualCluster];
	return given(filter).every(([key, value]) => {
		if (key === "keyword") return texts.some((text) => text?.includes(value));
		const any = value.split(",");
		return key === "tag" ? row.tags.some((tag) => any.includes(tag)) : any.includes(row[OF_ROW[key]]);
	});
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

/** Follows the jobs of a selection, of which it reads `most` first; changed() after each change of
 * `rows`. */
async function follow(filter, rows, most, signal, changed) {
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
	reasons().catch(() => {});
	// After an outage all jobs are read again: the changes of that time lack removals.
	for (;; most = ALL) {
		await list({ limit: most }).then((found) => {
			if (found.length < most) rows.clear();
			found.forEach(put);
			changed();
		}, () => {}); // watch() tries again
		const stream = new AbortController();
		const both = AbortSignal.any([signal, stream.signal]);
		const lost = (yes) => yes || stream.abort();
		await watch(`api/v2/jobs/watch?initial=true&${query}`, { signal: both, event, lost })
			.catch((error) => { if (signal.aborted || !stream.signal.aborted) throw error; });
	}
}

const phrases = new Map(); // of exit codes; rows do not have them
const why = (row) => [row.retries > 0 && !row.completedTime && `try ${row.retries + 1}${
	row.previousExitCode === undefined ? "" : ` after exit code ${row.previousExitCode}`}`,
row.waitingReason?.message ?? phrase(row)].filter(Boolean).join("; ");

/** The exit code with its phrase, from the details of one job for each code. */
function phrase(row) {
	const code = row.appExitCode;
	if (!code || !row.completedTime) return "";
	if (!phrases.has(code)) {
		phrases.set(code, "");
		get(pathOf(idOf(row))).then(({ jobStatus }) => phrases.set(code, jobStatus.appExitSpec.phrase))
			.catch(() => phrases.delete(code));
	}
	return `${code} ${phrases.get(code)}`;
}

function nameCell(row) {
	const tags = row.tags.map((tag) => el("span", { class: "tag" }, tag));
	const title = [row.name, ...row.tags].join(", ");
	return [el("a", { href: hashOf(idOf(row)), title }, row.name), tags];
}

const text = (name, id, width, value, more) => ({ name, id, width, value, cell: value, ...more });
const number = { number: true };
const minor = { minor: true };
const COLUMNS = [
	{ name: "State", id: "state", width: "120px", value: (row) => STATES.indexOf(row.state), node: true,
		cell: (row) => state(row.state) },
	{ name: "Name", id: "name", value: (row) => row.name, node: true, cell: nameCell },
	text("User", "user", "110px", (row) => row.username, minor),
	text("Virtual cluster", "vc", "130px", (row) => row.virtualCluster, minor),
	text("GPUs", "gpus", "76px", (row) => row.totalGpuNumber, number),
	text("Tasks", "tasks", "76px", (row) => row.totalTaskNumber, { number: true, minor: true }),
	{ name: "Age", id: "age", width: "88px", value: (row) => -row.submissionTime,
		cell: (row) => duration(now() - row.submissionTime),
		title: (row) => `submitted ${time(row.submissionTime)}` },
	{ name: "Duration", id: "duration", width: "96px", minor: true, value: runMs, cell: runTime,
		title: ({ launchedTime, completedTime }) => [["started", launchedTime], ["ended", completedTime]]
			.filter(([, at]) => at).map(([what, at]) => `${what} ${time(at)}`).join(", ") },
	text("Reason", "reason", "28%", why),
];

/** The fields of the filters; change(filter) after each input. */
function filterBar(filter, change) {
	const option = (value) =>
		el("option", { value, selected: value === filter.state }, value || "any");
	const input = (name) => (name === "state" ? el("select", { name }, ["", ...STATES].map(option))
		: el("input", { name, type: "search", value: filter[name], size: 14, autocomplete: "off" }));
	let timer;
	const changed = (event) => {
		event.preventDefault();
		clearTimeout(timer);
		timer = setTimeout(() => change(Object.fromEntries(new FormData(form))), 300);
	};
	const form = el("form", { class: "toolbar", role: "search", "aria-label": "Filters",
		on: { input: changed, submit: changed } },
		Object.entries(FILTERS).map(([name, label]) => field(label, input(name))));
	return form;
}

/** The chart of the GPUs of jobs, over the last day at most. */
function gpuChart(rows) {
	const to = now();
	const first = rows.reduce((least, row) => Math.min(least, row.submissionTime), to);
	const from = Math.min(Math.max(first, to - DAY), to - 1000);
	const series = gpuSeries(rows, from, to);
	const isUsed = series.some(({ values }) => values.some(Boolean));
	return isUsed && areaChart({ title: "GPUs", unit: "GPU", from, to, series });
}

/** The panel instead of a table without rows. */
function nothing(isFiltered) {
	const clear = button("Clear the filters", () => go("#/jobs"));
	return el("div", { class: "panel" }, isFiltered
		? [el("p", null, "No job matches these filters."), clear]
		: [el("h2", null, "There are no jobs yet"), el("p", null,
			el("a", { href: "#/submit" }, "Submit a job"), " here, or on the command line: ",
			el("code", null, "rest-lit submit job.yaml"))]);
}

const isNewest = ({ id, isDown }) => id === NEWEST.id && isDown === NEWEST.isDown;

function sortOf({ sort, order }) {
	const isKnown = COLUMNS.some(({ id }) => id === sort);
	return isKnown ? { id: sort, isDown: order === "desc" } : NEWEST;
}

function addShortcuts(table, bar, signal) {
	shortcut("j", "next row; Enter opens it", () => table.move(1), signal);
	shortcut("k", "row before", () => table.move(-1), signal);
	shortcut("x", "select the row", () => table.select(), signal);
	shortcut("/", "search by name", () => bar.elements.keyword.focus(), signal);
}

export default function jobsPage(root, params, signal) {
	let rows, leave, timer, drawn;
	let filter = Object.fromEntries(Object.keys(FILTERS).map((key) => [key, params[key] ?? ""]));
	const selection = selectionBar(signal);
	const chart = el("div", { class: "gpu-chart" });
	const table = new VirtualTable({ label: "Jobs", key: idOf, columns: COLUMNS, empty: "",
		sort: sortOf(params), onSort: () => setQuery(query()), nameOf: (row) => row.name,
		onSelect: (selected) => selection.update(selected, rows?.size) });
	table.element.className = "jobs";
	const query = () => ({ ...filter, ...!isNewest(table.sort) && { sort: table.sort.id,
		order: table.sort.isDown ? "desc" : "asc" } });
	const draw = () => {
		drawn = now();
		fill(chart, gpuChart(table.rows));
	};
	const show = () => {
		timer = null;
		table.scroller.hidden = !rows.size;
		fill(table.empty, !rows.size && nothing(given(filter).length));
		table.rows = [...rows.values()].sort((a, b) => b.submissionTime - a.submissionTime);
		if (!drawn) draw();
	};
	const begin = async (known) => {
		leave?.abort();
		leave = new AbortController();
		rows = known;
		drawn = 0;
		const changed = () => { timer ??= setTimeout(show, table.rows.length ? SHOW_MS : 0); };
		const most = rows.size || !isNewest(table.sort) ? ALL : FIRST;
		const both = AbortSignal.any([signal, leave.signal]);
		await follow(filter, rows, most, both, changed)
			.catch((error) => { if (!both.aborted) throw error; });
	};
	const bar = filterBar(filter, (next) => {
		if (signal.aborted) return;
		filter = next;
		setQuery(query());
		begin(new Map());
	});
	const clock = setInterval(() => {
		if (!drawn || now() - drawn < CHART_MS) return table.refresh();
		table.rows = table.rows; // durations have changed, which it may be sorted by
		draw();
	}, 1000);
	signal.addEventListener("abort", () => {
		clearInterval(clock);
		clearTimeout(timer);
		left = { user, rows, at: JSON.stringify(query()), place: table.place };
	});
	const { user } = session;
	const isBack = left?.user === user && left.at === JSON.stringify(query());
	const known = isBack ? left.rows : new Map();
	addShortcuts(table, bar, signal);
	fill(root, el("div", { class: "heading" }, el("h1", { tabindex: "-1" }, title), chart), bar,
		selection.element, table.element);
	const shown = begin(known);
	if (known.size) {
		show();
		table.place = left.place;
	}
	return shown;
}
