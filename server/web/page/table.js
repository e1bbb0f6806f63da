// Long lists of which only the visible rows are in the document. All rows have the same height.

import { el, fill } from "./dom.js";

const MOST = 160; // rows in the document
const MARGIN = 12; // rows beyond each edge of the visible part
const HEIGHT = 30; // of a row, until one is measured

/** The rows [first, end) to show, of n rows, when `top` pixels are scrolled away. */
export function visible(top, height, row, n) {
	const shown = Math.min(Math.ceil(height / row) + 2 * MARGIN, MOST, n);
	const first = Math.max(0, Math.min(Math.floor(top / row) - MARGIN, n - shown));
	return [first, first + shown];
}

/** Keeps the visible rows in `body`, between `before` and `after`, which stand for the others.
 * rows: {count(), key(i), make(i), update(node, i)}; a key names a row while it is in the list. */
export class VirtualList {
	nodes = new Map();
	row = 0; // pixels; 0: to be measured

	constructor(scroller, body, { before, after }, rows) {
		Object.assign(this, { scroller, body, before, after, rows });
		body.append(before, after);
		scroller.addEventListener("scroll", () => this.render(), { passive: true });
		const measure = () => { this.row = 0; this.render(); };
		// Later, because an observer would report its own changes in this call as an error.
		new ResizeObserver(() => requestAnimationFrame(measure)).observe(scroller);
	}

	render() {
		const { scroller, rows } = this;
		const isFirst = !this.nodes.size;
		this.row ||= this.nodes.values().next().value?.getBoundingClientRect().height || 0;
		const row = this.row || HEIGHT;
		const n = rows.count();
		const [first, end] = visible(scroller.scrollTop, scroller.clientHeight, row, n);
		const nodes = new Map();
		for (let i = first; i < end; i++) {
			const key = rows.key(i);
			nodes.set(key, this.nodes.get(key) ?? rows.make(i));
			this.nodes.delete(key);
			rows.update(nodes.get(key), i);
		}
		for (const node of this.nodes.values()) node.remove();
		this.nodes = nodes;
		// Moves only elements at the wrong place: a moved element loses the focus.
		let at = this.before.nextSibling;
		for (const node of nodes.values()) {
			if (node === at) at = at.nextSibling;
			else this.body.insertBefore(node, at);
		}
		this.before.style.height = `${first * row}px`;
		this.after.style.height = `${(n - end) * row}px`;
		if (isFirst && nodes.size) this.render(); // now that heights can be measured
	}

	/** Scrolls until row i is visible; `head`: pixels at the top that cover rows. */
	show(i, head) {
		const { scroller, row } = this;
		const least = (i + 1) * row + head - scroller.clientHeight;
		scroller.scrollTop = Math.max(least, Math.min(scroller.scrollTop, i * row));
		this.render();
	}
}

const classOf = ({ number, minor }) => `${number ? "number" : ""} ${minor ? "minor" : ""}`.trim();
const spacer = () => el("tr", { class: "spacer", "aria-hidden": "true" }, el("td"));

/** A table. columns: {name, width, cell(row)} and optionally minor: not on phones, number: to the
 * right, node: cell(row) is a node, made once for each row object; else it is a text. key(row): its
 * identity; empty: the text without rows. */
export class VirtualTable {
	#rows = [];
	#active = 0; // the row that Tab reaches

	constructor({ label, columns, key, empty = "None." }) {
		Object.assign(this, { columns, key });
		const on = { keydown: (event) => this.#keys(event), focusin: (event) => this.#focused(event) };
		this.body = el("tbody", { on });
		const cols = columns.map((column) => el("col", { class: classOf(column) }));
		cols.forEach((col, i) => { col.style.width = columns[i].width ?? ""; });
		this.table = el("table", { class: "virtual", "aria-label": label }, el("colgroup", null, cols),
			el("thead", null, el("tr", { "aria-rowindex": "1" }, columns.map((column) =>
				el("th", { scope: "col", class: classOf(column) }, column.name)))), this.body);
		this.empty = el("p", { class: "soft" }, empty);
		this.scroller = el("div", { class: "table" }, this.table);
		this.element = el("div", null, this.scroller, this.empty);
		this.list = new VirtualList(this.scroller, this.body, { before: spacer(), after: spacer() }, {
			count: () => this.#rows.length,
			key: (i) => key(this.#rows[i]),
			make: () => el("tr", null, columns.map((column) => el("td", { class: classOf(column) }))),
			update: (node, i) => this.#update(node, i),
		});
		this.rows = [];
	}

	get rows() { return this.#rows; }

	set rows(rows) {
		this.#rows = rows;
		this.#active = Math.min(this.#active, Math.max(0, rows.length - 1));
		this.table.setAttribute("aria-rowcount", rows.length + 1);
		this.empty.hidden = rows.length > 0;
		this.refresh();
	}

	/** Shows changes, for example of ages. */
	refresh() {
		this.list.render();
	}

	#update(node, i) {
		const row = this.#rows[i];
		node.setAttribute("aria-rowindex", i + 2);
		this.columns.forEach((column, at) => {
			const cell = node.children[at];
			if (!column.node) {
				const text = String(column.cell(row) ?? "");
				if (cell.textContent !== text) cell.textContent = cell.title = text;
			} else if (node.shows !== row && !cell.contains(document.activeElement)) {
				fill(cell, column.cell(row));
			}
		});
		node.shows = row;
		this.#reachable(node, i === this.#active);
	}

	#reachable(node, yes) {
		for (const one of [node, ...node.querySelectorAll("a, button")]) one.tabIndex = yes ? 0 : -1;
	}

	#focused({ target }) {
		const row = target.closest("tr");
		this.#active = row.ariaRowIndex - 2;
		for (const node of this.list.nodes.values()) this.#reachable(node, node === row);
	}

	#keys(event) {
		const { key, target } = event;
		const { scroller, list, table } = this;
		const page = Math.max(1, Math.floor(scroller.clientHeight / list.row) - 2);
		const step = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page,
			Home: -Infinity, End: Infinity }[key];
		if (key === "Enter" && target.matches("tr")) target.querySelector("a, button")?.click();
		if (!step || event.altKey || event.ctrlKey || event.metaKey) return;
		event.preventDefault();
		const i = Math.max(0, Math.min(this.#rows.length - 1, this.#active + step));
		list.show(i, table.tHead.offsetHeight);
		list.nodes.get(this.key(this.#rows[i])).focus({ preventScroll: true });
	}
}
