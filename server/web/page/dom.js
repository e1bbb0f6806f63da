// Elements, and values as text. Values become text or attributes, never markup: no function here
// parses HTML. Times are milliseconds since 1970; unknown values are "".

const SVG = "http://www.w3.org/2000/svg";
const LINKS = new Set(["http:", "https:", "blob:"]);
const UNITS = [["d", 86400, Infinity], ["h", 3600, 86400], ["m", 60, 3600], ["s", 1, 60]];

function check(name, value) {
	if (/^on/i.test(name) || name === "style" || name === "srcdoc") {
		throw new TypeError(`dom.js: attribute ${name} is not allowed; use {on: {...}} or a class`);
	}
	const link = name === "href" || name === "src";
	if (link && !LINKS.has(new URL(value, document.baseURI).protocol)) {
		throw new TypeError(`dom.js: ${name} must be http, https or blob`);
	}
}

function make(node, attributes, children) {
	for (const [name, value] of Object.entries(attributes ?? {})) {
		if (name === "on") {
			for (const type in value) node.addEventListener(type, value[type]);
		} else if ((value ?? false) !== false) {
			const text = value === true ? "" : String(value);
			check(name, text);
			node.setAttribute(name, text);
		}
	}
	append(node, children);
	return node;
}

function append(parent, children) {
	for (const child of children.flat(Infinity)) {
		if ((child ?? false) !== false) parent.append(child);
	}
}

/** An element. Attributes: true is "", null and false are left out, {on: {click: f}} listens.
 * Children: nodes, text, numbers, null, and arrays of these. */
export function el(tag, attributes, ...children) {
	return make(document.createElement(tag), attributes, children);
}

/** The same in the name space of SVG. */
export function svg(tag, attributes, ...children) {
	return make(document.createElementNS(SVG, tag), attributes, children);
}

// ---- elements of many pages ----
export const button = (name, click, attributes) =>
	el("button", { type: "button", on: { click }, ...attributes }, name);

/** A button that looks like a link. */
export const link = (name, click) => button(name, click, { class: "link" });

export const panel = (label, ...children) =>
	el("section", { class: "panel", "aria-label": label }, children);
export const titled = (name, ...children) => panel(name, el("h2", null, name), children);

/** An input with its label above it. */
export const field = (label, input, more = "") =>
	el("label", { class: `field ${more}`.trim() }, el("span", null, label), input);

/** A table with all its rows. columns: [name, value(row), class], with "rowheader" for the heads of
 * rows. The roles are for pages that show the rows otherwise than as a table. */
export function plainTable(label, columns, rows, attributes) {
	const heads = columns.map(([name, , kind]) =>
		el("th", { scope: "col", role: "columnheader", class: kind }, name));
	const cell = (row) => ([name, value, kind]) => (kind === "rowheader"
		? el("th", { role: kind, scope: "row" }, value(row))
		: el("td", { role: "cell", class: kind, "data-name": !name.nodeType && name }, value(row)));
	const line = (row) => el("tr", { role: "row" }, columns.map(cell(row)));
	return el("table", { role: "table", "aria-label": label, ...attributes },
		el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, heads)),
		el("tbody", { role: "rowgroup" }, rows.map(line)));
}

/** A table in a box that scrolls to the side. */
export const scrolled = (label, table) =>
	el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, table);

/** Replaces the children of `parent`. */
export function fill(parent, ...children) {
	parent.replaceChildren();
	append(parent, children);
	return parent;
}

/** A function (name, value, act) that calls act() unless the value is that of the last call with
 * this name: what is on the screen keeps the focus, and is not read again. */
export function onlyChanges() {
	const shown = {};
	return (name, value, act) => {
		const text = JSON.stringify(value);
		if (shown[name] === text) return;
		shown[name] = text;
		act();
	};
}

// ---- values as text ----
/** ahead: milliseconds by which the server's clock is ahead of the browser's. */
export const clock = { ahead: 0 };

/** The time by the server's clock. */
export const now = () => Date.now() + clock.ahead;

/** "45s", "3m 20s", "2h 5m", "3d 4h": the two largest units. */
export function duration(ms) {
	if (!Number.isFinite(ms)) return "";
	const parts = UNITS.map(([unit, seconds, most]) =>
		`${Math.floor(Math.max(0, ms / 1000) % most / seconds)}${unit}`);
	const isSome = (part) => !part.startsWith("0");
	const largest = parts.findIndex(isSome);
	return parts.slice(largest, largest + 2).filter(isSome).join(" ") || "0s";
}

/** The time since `ms`, as a duration. */
export const ago = (ms) => (Number.isFinite(ms) ? `${duration(now() - ms)} ago` : "");

/** "2026-11-23 08:25:07" in the time zone of the browser. */
export function time(ms) {
	if (!Number.isFinite(ms)) return "";
	const local = new Date(ms - new Date(ms).getTimezoneOffset() * 60000);
	if (Number.isNaN(local.getTime())) return "";
	return local.toISOString().slice(0, 19).replace("T", " ");
}

/** "idle since 14:02", with the day unless it is today. */
export function idleText(since) {
	const at = time(since);
	const isToday = at.slice(0, 10) === time(now()).slice(0, 10);
	return `idle since ${at.slice(isToday ? 11 : 0, 16)}`;
}

/** "512 B", "1.5 MiB". */
export function sizeOf(n) {
	if (!Number.isFinite(n)) return "";
	const units = ["B", "KiB", "MiB", "GiB", "TiB"];
	let unit = 0;
	for (; n >= 1024 && unit < units.length - 1; unit++) n /= 1024;
	return `${unit && n < 100 ? n.toFixed(1) : Math.round(n)} ${units[unit]}`;
}

/** plural(1, "task") is "1 task", plural(2, "task") "2 tasks". */
export const plural = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;

/** "a, b, c and 4 more". */
export const listed = (names, most = 3) => names.slice(0, most).join(", ") +
	(names.length > most ? ` and ${names.length - most} more` : "");

/** "226 ContainerCudaOOMKilled" */
export const exitText = (code, spec) => `${code ?? ""} ${spec?.phrase ?? ""}`.trim();

/** A state as an element: its text, with a colour by class. */
export function state(name) {
	const text = String(name ?? "UNKNOWN");
	const kind = /^[A-Z]+$/.test(text) ? text.toLowerCase() : "unknown";
	return el("span", { class: `state state-${kind}` }, text);
}

// ---- jobs: the identity of a row, its page, its route; how long it, or a task, has run ----
export const idOf = ({ username, name }) => `${username}~${name}`;
export const hashOf = (id) => `#/jobs/${encodeURIComponent(id)}`;
export const pathOf = (id) => `api/v2/jobs/${encodeURIComponent(id)}`;

/** Milliseconds from the first start to the end, or to now; null before the start. */
export const runMs = ({ launchedTime, completedTime }) =>
	(launchedTime ? (completedTime ?? now()) - launchedTime : null);
export const runTime = (row) => duration(runMs(row));
