// All jobs: filters, a chart of their GPUs, and a table that follows the server.

import { session } from "./api.js";
import { areaChart, seriesOf } from "./chart.js";
import { button, el, field, fill, idOf, now } from "./dom.js";
import { go, setQuery, shortcut } from "./frame.js";
import { COLUMNS, Feed, STATES } from "./rows.js";
import { Selection } from "./selection.js";
import { VirtualTable } from "./table.js";

const FILTERS =
	{ username: "User", vc: "Virtual cluster", state: "State", keyword: "Name", tag: "Tag" };
const FIRST = 100; // rows that are shown before the others have come
const DAY = 86400e3;
const CHART_MS = 10000;
const SHOW_MS = 250; // between two changes of the table
const FILTER_MS = 300; // without a key before the list is read
const NEWEST = { id: "age", isDown: false };

let left; // the last visit: {user, at: its query, rows, place}

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

/** The chart of the GPUs of jobs, over the last day at most. */
function gpuChart(rows) {
	const to = now();
	const first = rows.reduce((least, row) => Math.min(least, row.submissionTime), to);
	const from = Math.min(Math.max(first, to - DAY), to - 1000);
	const series = gpuSeries(rows, from, to);
	const isUsed = series.some(({ values }) => values.some(Boolean));
	return isUsed && areaChart({ title: "GPUs", unit: "GPU", from, to, series });
}

/** The fields of the filters; change(filter) after each input. */
function filterBar(filter, change) {
	const option = (value) =>
		el("option", { value, selected: value === filter.state }, value || "any");
	const input = (name) => (name === "state"
		? el("select", { name }, ["", ...STATES].map(option)) : el("input",
			{ name, type: "search", value: filter[name], size: 14, autocomplete: "off" }));
	let timer;
	const changed = (event) => {
		event.preventDefault();
		clearTimeout(timer);
		timer = setTimeout(() => change(Object.fromEntries(new FormData(form))), FILTER_MS);
	};
	const form = el("form", { class: "toolbar", role: "search", "aria-label": "Filters",
		on: { input: changed, submit: changed } },
	Object.entries(FILTERS).map(([name, label]) => field(label, input(name))));
	return form;
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

class JobsPage {
	#user = session.user;
	#rows; // by identity
	#feed; // ends the reading of these rows
	#timer = null; // of the next change of the table
	#drawn = 0; // when the chart was drawn, or 0
	#chart = el("div", { class: "gpu-chart" });

	constructor(root, params, signal) {
		this.signal = signal;
		const names = Object.keys(FILTERS);
		this.filter = Object.fromEntries(names.map((name) => [name, params[name] ?? ""]));
		this.selection = new Selection(signal);
		this.table = new VirtualTable({ label: "Jobs", key: idOf, columns: COLUMNS, empty: "",
			sort: sortOf(params), onSort: () => setQuery(this.#query), nameOf: (row) => row.name,
			onSelect: (rows) => this.selection.update(rows, this.#rows?.size) });
		this.table.element.className = "jobs";
		this.bar = filterBar(this.filter, (filter) => this.#filtered(filter));
		const { table, bar } = this;
		const heading = el("h1", { tabindex: "-1" }, "Jobs");
		fill(root, el("div", { class: "heading" }, heading, this.#chart), bar,
			this.selection.element, table.element);
		shortcut("j", "next row; Enter opens it", () => table.move(1), signal);
		shortcut("k", "row before", () => table.move(-1), signal);
		shortcut("x", "select the row", () => table.select(), signal);
		shortcut("/", "search by name", () => bar.elements.keyword.focus(), signal);
	}

	/** The parameters of the address. */
	get #query() {
		const { id: sort, isDown } = this.table.sort;
		const order = !isNewest(this.table.sort) && { sort, order: isDown ? "desc" : "asc" };
		return { ...this.filter, ...order };
	}

	#filtered(filter) {
		if (this.signal.aborted) return;
		this.filter = filter;
		setQuery(this.#query);
		this.#rows = new Map();
		this.#follow();
	}

	/** Shows the rows that are known from the last visit, and follows the server. */
	begin() {
		const isBack = left?.user === this.#user && left.at === JSON.stringify(this.#query);
		this.#rows = isBack ? left.rows : new Map();
		const clock = setInterval(() => this.#tick(), 1000);
		this.signal.addEventListener("abort", () => {
			clearInterval(clock);
			clearTimeout(this.#timer);
			left = { user: this.#user, rows: this.#rows, at: JSON.stringify(this.#query),
				place: this.table.place };
		});
		const followed = this.#follow();
		if (this.#rows.size) {
			this.#show();
			this.table.place = left.place;
		}
		return followed;
	}

	async #follow() {
		this.#feed?.abort();
		this.#feed = new AbortController();
		this.#drawn = 0;
		const most = this.#rows.size || !isNewest(this.table.sort) ? undefined : FIRST;
		const both = AbortSignal.any([this.signal, this.#feed.signal]);
		const feed = new Feed(this.filter, this.#rows, both, () => {
			this.#timer ??= setTimeout(() => this.#show(), this.table.rows.length ? SHOW_MS : 0);
		});
		await feed.follow(most).catch((error) => { if (!both.aborted) throw error; });
	}

	#show() {
		const { table } = this;
		const n = this.#rows.size;
		this.#timer = null;
		table.scroller.hidden = !n;
		fill(table.empty, !n && nothing(Object.values(this.filter).some(Boolean)));
		table.rows = [...this.#rows.values()].sort((a, b) => b.submissionTime - a.submissionTime);
		if (!this.#drawn) this.#draw();
	}

	#draw() {
		this.#drawn = now();
		fill(this.#chart, gpuChart(this.table.rows));
	}

	#tick() {
		const isDue = this.#drawn && now() - this.#drawn >= CHART_MS;
		if (isDue) this.table.sortAgain(); // durations have changed
		else this.table.refresh();
		if (isDue) this.#draw();
	}
}

export default (root, params, signal) => new JobsPage(root, params, signal).begin();
