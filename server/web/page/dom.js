// Makes elements. Values become text or attributes, never markup: no function here parses HTML.

const SVG = "http://www.w3.org/2000/svg";
const LINKS = new Set(["http:", "https:", "blob:"]);

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
		} else if (value !== null && value !== undefined && value !== false) {
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
		if (child !== null && child !== undefined && child !== false) {
			parent.append(child instanceof Node ? child : String(child));
		}
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
