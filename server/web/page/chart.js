// Areas over time as SVG, with their figures as text.

import { el, fill, plural, svg, time } from "./dom.js";

const HEIGHT = 100;
const PARTS = 240;

/** The average weight of intervals {start, end, weight} in each of n equal parts of [from, to). */
export function sampled(intervals, from, to, n) {
	const values = new Array(n).fill(0);
	const part = (to - from) / n;
	for (const { start, end, weight } of intervals) {
		const begin = Math.max(start, from), stop = Math.min(end, to);
		const first = Math.max(0, Math.floor((begin - from) / part));
		for (let i = first; i < n && from + i * part < stop; i++) {
			const left = from + i * part;
			values[i] += (weight * (Math.min(stop, left + part) - Math.max(begin, left))) / part;
		}
	}
	return values;
}

/** A series for areaChart(): {name, role, values, last: the weight at the end}. */
export function seriesOf(role, intervals, from, to, name = role) {
	const last = intervals.filter(({ start, end }) => start <= to && end >= to);
	return { name, role, values: sampled(intervals, from, to, PARTS),
		last: last.reduce((sum, { weight }) => sum + weight, 0) };
}

const figure = (value, unit) => plural(Math.round(value * 10) / 10, unit);

function path(lower, upper, top) {
	const y = (value) => (HEIGHT * (1 - value / top)).toFixed(2);
	const up = upper.map((value, i) => `${i},${y(value)} ${i + 1},${y(value)}`);
	const down = lower.map((value, i) => `${i + 1},${y(value)} ${i},${y(value)}`).reverse();
	return `M${up.join(" ")} ${down.join(" ")}Z`;
}

/** A figure of stacked areas. series: from seriesOf() with these times, the lowest first; the class
 * area-ROLE is their colour. Areas of the same height at all times are left out. */
export function areaChart({ title, unit, from, to, series }) {
	const shown = series.filter(({ values }) => values.some(Boolean));
	const n = series[0].values.length;
	let upper = new Array(n).fill(0);
	const stack = shown.map(({ values: v }) => [upper, upper = upper.map((sum, i) => sum + v[i])]);
	const top = Math.max(...upper, shown.reduce((sum, { last }) => sum + last, 0));
	const ends = shown.map(({ name, last }) => `${last} ${name}`);
	const most = `at most ${figure(top, unit)}`;
	const span = `${time(from)} to ${time(to)}`;
	const text = `${title}, ${span}: ${most}; at the end ${ends.join(", ")}`;
	const isFlat = stack.every(([, sums]) => sums.every((sum) => Math.abs(sum - sums[0]) < 0.01));
	const areas = () => shown.map(({ role }, i) =>
		svg("path", { class: `area-${role}`, d: path(...stack[i], top) }));
	return el("figure", { class: "chart", title: text },
		el("figcaption", null, el("b", null, title), shown.map(({ role }, i) =>
			el("span", null, el("i", { class: `key area-${role}` }), ends[i])),
			!isFlat && el("span", { class: "soft" }, `${most} since ${time(from).slice(5, 16)}`)),
		!isFlat && svg("svg", { viewBox: `0 0 ${n} ${HEIGHT}`, preserveAspectRatio: "none",
			role: "img", "aria-label": text }, areas()));
}

/** A thin line of parts {role, ms}, of which one without ms is short; `text` says the same. */
export function timeLine(host, parts, text) {
	fill(host, parts.map(({ role, ms }) => {
		const part = el("i", { class: `area-${role}` });
		if (ms !== undefined) part.style.flexGrow = Math.max(1, ms);
		return part;
	}));
	if (host.title !== text) host.title = host.ariaLabel = text;
}
