// All jobs: filters, a chart of their GPUs, and a table that follows the server.

import { session } from "./api.js";
import { areaChart, seriesOf } from "./chart.js";
import { button, el, field, fill, idOf, now, plural, time } from "./dom.js";
import { go, setQuery, shortcut } from "./frame.js";
import { COLUMNS, Feed, STATES } from "./rows.js";
import { Selection } from "./selection.js";
import { VirtualTable } from "./table.js";

const FILTERS = ["q", "mine", "state", "submitted"];
const FIRST = 100; // rows that are shown before the others have come
const DAY = 86400e3;
const CHART_MS = 10000;
const SHOW_MS = 250; // between two changes of the table
const FILTER_MS = 100; // without a key before the rows are filtered
const DAYS = 8; // that can be chosen by their names
const OTHER_DAY = "on";
const OFFERED_MOST = 1000; // words
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

/** The midnight at which the day began that is so many days ago. */
function dayAgo(n) {
	const at = new Date(now());
	return new Date(at.getFullYear(), at.getMonth(), at.getDate() - n);
}

const isoOf = (at) => time(at.getTime()).slice(0, 10);

/** The times [from, to) of "7d", the last seven days, or of the day "2026-11-24"; others: all. */
function spanOf(submitted) {
	const [, days] = /^(\d{1,4})d$/.exec(submitted) ?? [];
	if (days) return [dayAgo(days - 1).getTime(), Infinity];
	const from = new Date(`${submitted}T00:00`), to = new Date(from);
	to.setDate(from.getDate() + 1);
	return Number.isNaN(from.getTime()) ? [0, Infinity] : [from.getTime(), to.getTime()];
}

const valuesOf = ({ username, virtualCluster, tags }) => [username, virtualCluster, ...tags];

/** A function that returns true for the rows that a filter takes. Each word of `q` is a part of the
 * name, the user, the virtual cluster or a tag; of "a,b" one of both. */
function taker({ q, mine, state, submitted }, user) {
	const words = q.toLowerCase().split(/\s+/).map((word) => word.split(",").filter(Boolean))
		.filter((parts) => parts.length);
	const [from, to] = spanOf(submitted);
	return (row) => {
		if (mine && row.username !== user.username) return false;
		if (state && !state.split(",").includes(row.state)) return false;
		if (!(row.submissionTime >= from && row.submissionTime < to)) return false;
		const text = words.length && [row.name, ...valuesOf(row)].join("\n").toLowerCase();
		return words.every((parts) => parts.some((part) => text.includes(part)));
	};
}

const options = (all, chosen) => all.map(([value, text]) =>
	el("option", { value, selected: value === chosen }, text));

/** The choice of a day, or of the last ones: by name, or from a calendar. */
function dayChooser(chosen) {
	const name = (at) => at.toLocaleDateString("en-GB",
		{ weekday: "long", day: "numeric", month: "short" });
	const days = Array.from({ length: DAYS }, (_, n) => dayAgo(n)).map((at, n) =>
		[isoOf(at), ["today", "yesterday"][n] ?? name(at)]);
	const all = [["", "any day"], ...days, ["7d", "the last 7 days"], ["30d", "the last 30 days"],
		[OTHER_DAY, "another day ..."]];
	const isOther = !all.some(([value]) => value === chosen);
	const day = el("input", { type: "date", name: OTHER_DAY, "aria-label": "Day",
		value: isOther && chosen, max: days[0][0], hidden: !isOther });
	const change = ({ target: { value } }) => {
		day.hidden = value !== OTHER_DAY;
		day.focus();
	};
	const list = el("select", { name: "submitted", on: { change } },
		options(all, isOther ? OTHER_DAY : chosen));
	return [field("Submitted", list), day];
}

/** The fields of the filters; change(filter) after each input; rows(): what can be found. */
function filterBar(filter, change, rows) {
	const offered = el("datalist", { id: "offered" });
	const offer = () => fill(offered, [...new Set(rows().flatMap(valuesOf))].sort()
		.slice(0, OFFERED_MOST).map((value) => el("option", { value })));
	const search = el("input", { name: "q", type: "search", value: filter.q, autocomplete: "off",
		list: offered.id, placeholder: "part of a name, user, tag or cluster",
		on: { focus: offer } });
	let timer;
	const read = () => {
		const { q, mine = "", state, submitted, [OTHER_DAY]: day } =
			Object.fromEntries(new FormData(form));
		change({ q: q.trim(), mine, state, submitted: submitted === OTHER_DAY ? day : submitted });
	};
	const changed = (event) => {
		event.preventDefault();
		clearTimeout(timer);
		timer = setTimeout(read, FILTER_MS);
	};
	const states = [["", "any"], ...STATES.map((name) => [name, name])];
	const mine = el("input", { type: "checkbox", name: "mine", value: "1",
		checked: Boolean(filter.mine) });
	const form = el("form", { class: "toolbar", role: "search", "aria-label": "Filters",
		on: { input: changed, submit: changed } },
	field("Search", search, "search"), offered,
	el("label", { class: "check" }, mine, "Mine"),
	field("State", el("select", { name: "state" }, options(states, filter.state))),
	dayChooser(filter.submitted));
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
	#timer = null; // of the next change of the table
	#drawn = 0; // when the chart was drawn, or 0
	#chart = el("div", { class: "gpu-chart" });

	constructor(root, params, signal) {
		this.signal = signal;
		this.filter = Object.fromEntries(FILTERS.map((name) => [name, params[name] ?? ""]));
		this.selection = new Selection(signal);
		this.table = new VirtualTable({ label: "Jobs", key: idOf, columns: COLUMNS, empty: "",
			sort: sortOf(params), onSort: () => setQuery(this.#query), nameOf: (row) => row.name,
			onSelect: (rows) => this.selection.update(rows, this.#number) });
		this.table.element.className = "jobs";
		this.bar = filterBar(this.filter, (filter) => this.#filtered(filter),
			() => [...this.#rows.values()]);
		const { table, bar } = this;
		const heading = el("h1", { tabindex: "-1" }, "Jobs");
		fill(root, el("div", { class: "heading" }, heading, this.#chart), bar,
			this.selection.element, table.element);
		shortcut("j", "next row; Enter opens it", () => table.move(1), signal);
		shortcut("k", "row before", () => table.move(-1), signal);
		shortcut("x", "select the row", () => table.select(), signal);
		shortcut("/", "search for jobs", () => bar.elements.q.focus(), signal);
	}

	/** The parameters of the address. */
	get #query() {
		const { id: sort, isDown } = this.table.sort;
		const order = !isNewest(this.table.sort) && { sort, order: isDown ? "desc" : "asc" };
		return { ...this.filter, ...order };
	}

	get #isFiltered() { return Object.values(this.filter).some(Boolean); }

	/** "3 of 3000 jobs" */
	get #number() {
		if (!this.#rows) return "";
		const all = plural(this.#rows.size, "job");
		return this.#isFiltered ? `${this.table.rows.length} of ${all}` : all;
	}

	#filtered(filter) {
		if (this.signal.aborted) return;
		this.filter = filter;
		setQuery(this.#query);
		this.#drawn = 0;
		this.#show();
	}

	/** Shows the rows that are known from the last visit, and follows the server. */
	begin() {
		const isBack = left?.user === this.#user;
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
			if (left.at === JSON.stringify(this.#query)) this.table.place = left.place;
		}
		return followed;
	}

	async #follow() {
		const { signal, table } = this;
		const isPart = !this.#rows.size && isNewest(table.sort) && !this.#isFiltered;
		const feed = new Feed(this.#rows, signal, () => {
			this.#timer ??= setTimeout(() => this.#show(), table.rows.length ? SHOW_MS : 0);
		});
		await feed.follow(isPart ? FIRST : undefined);
	}

	#show() {
		const { table } = this;
		const rows = [...this.#rows.values()].filter(taker(this.filter, this.#user));
		this.#timer = null;
		table.scroller.hidden = !rows.length;
		fill(table.empty, !rows.length && nothing(this.#rows.size > 0));
		table.rows = rows.sort((a, b) => b.submissionTime - a.submissionTime);
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
