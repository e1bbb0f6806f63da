// A metric in logs: its values, by the rule of server/runs/log_metric.c, and their curves.

import { el, svg } from "./dom.js";

const WIDTH = 1000, HEIGHT = 240;
const SHORT = 16384; // bytes of a log; of a longer one only the end is here
const NAMES = 40;

const BLANKS = "[ \\t]*";
const BORDER = "[|\\u2502\\u2503]";
const SIGN = `(?:[ \\t]+is(?=[ \\t])|${BLANKS}(?:=>|->|:=|==|[=:])|(?=[ \\t]))`;
const OPENERS = `(?:(?:[a-z_][\\w.]*\\(|[(["'])${BLANKS}){0,4}`;
const POWER = "(?:e[-+]?\\d+)?(?!e[-+]?\\d|\\d|[.:-]\\d";
const NUMBER = "([-+]?(?:(?:nan|infinity|inf)(?!\\w)|" +
	`\\d*\\.\\d+${POWER})|\\d+${POWER}|,\\d)))(?=[a-z]{0,8}(?!\\w))`;
const NAMED = /(?<![\w./-])[a-z][\w./@-]*(?=["']?[ \t]*[=:][ \t]*[-+]?\.?\d)/gi;

/** The lines of a log: without colours, and as often as a progress bar was drawn. The first line of
 * an end may be cut within a name. */
function linesOf(log) {
	const text = log.replace(/\x1b\[[0-9;?]*[^]/g, "").replace(/[\r\b]/g, "\n");
	return log.length < SHORT ? text : text.slice(text.indexOf("\n") + 1);
}

/** All values of a metric, as they are written. */
export function textsOf(name, log) {
	const exact = name.replace(/[^\w\s]/g, "\\$&");
	const cell = `(?<=${BORDER}${BLANKS})${exact}["']?${BLANKS}${BORDER}`;
	const rule = `(?<![\\w./-])(?:${cell}|${exact}["']?${SIGN})${BLANKS}${OPENERS}${NUMBER}`;
	return name.trim() ? [...linesOf(log).matchAll(new RegExp(rule, "gi"))].map(([, n]) => n) : [];
}

/** The same as numbers. */
export const valuesOf = (name, log) => textsOf(name, log).map((text) =>
	(/inf/i.test(text) ? (text.startsWith("-") ? -Infinity : Infinity) : Number(text)));

/** Names in a log that may be metrics. */
export const namesIn = (log) =>
	[...new Set([...linesOf(log).matchAll(NAMED)].map(([name]) => name))].slice(0, NAMES);

/** The colour of curve i. */
export const colourOf = (i) => `hsl(${(i * 137 + 210) % 360} 65% 50%)`;

function pathOf(values, x, y) {
	let isGap = true;
	const points = values.map((value, i) => {
		if (!Number.isFinite(value)) return isGap = true, "";
		const point = `${isGap ? "M" : "L"}${x(i)},${y(value)}`;
		isGap = false;
		return point;
	});
	return `${points.join("")}h${points.length > 1 ? 0 : WIDTH / 100}`;
}

/** A figure with a curve for each of [{name, values}], over the number of the value; null: there is
 * none. */
export function curves(title, series) {
	const all = series.flatMap(({ values }) => values.filter(Number.isFinite));
	if (!all.length) return null;
	const low = all.reduce((a, b) => Math.min(a, b)), high = all.reduce((a, b) => Math.max(a, b));
	const most = Math.max(...series.map(({ values }) => values.length));
	const x = (i) => (most > 1 ? (i / (most - 1)) * WIDTH : 0).toFixed(1);
	const part = (value) => (high > low ? (high - value) / (high - low) : 0.5);
	const y = (value) => (part(value) * HEIGHT).toFixed(1);
	const range = `${low} to ${high} in ${series.length} jobs`;
	const text = `${title}: ${range}, at most ${most} values each`;
	const lines = series.map(({ name, values }, i) => values.some(Number.isFinite) && svg("path",
		{ d: pathOf(values, x, y), stroke: colourOf(i), "vector-effect": "non-scaling-stroke" },
		svg("title", null, name)));
	return el("figure", { class: "curves" }, el("figcaption", null, text),
		svg("svg", { viewBox: `0 -4 ${WIDTH} ${HEIGHT + 8}`, preserveAspectRatio: "none",
			role: "img", "aria-label": text }, lines));
}
