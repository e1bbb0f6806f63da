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

/** Keeps the visible rows in `body`, between two elements of spacer(), which stand for the others.
 * rows: {count(), key(i), make(i), update(node, i)}; a key names a row while it is in the list. */
export class VirtualList {
	nodes = new Map();
	row = 0; // pixels; 0: to be measured

	constructor(scroller, body, spacer, rows) {
		const [before, after] = [spacer(), spacer()];
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

let collator; // made when it is needed: that takes 20 ms
const checkbox = (label, click) =>
	el("input", { type: "checkbox", on: { click }, "aria-label": label });
const spacer = () => el("tr", { class: "spacer", "aria-hidden": "true" }, el("td"));

/** The rows by value(row), unknown values last; equal rows keep their order. */
export function sorted(rows, value, isDown) {
	const sign = isDown ? -1 : 1;
	const compare = (a, b) =>
		(collator ??= new Intl.Collator("en", { numeric: true })).compare(a, b);
	const unknown = (at) => at === undefined || at === null || at === "";
	const order = ({ at: a }, { at: b }) => (unknown(a) || unknown(b) ? unknown(a) - unknown(b)
		: sign * (typeof a === "number" ? a - b : compare(a, b)));
	return rows.map((row) => ({ row, at: value(row) })).sort(order).map(({ row }) => row);
}

/** A table. columns: {name, cell(row)} and optionally width; kind: the classes "minor", not on
 * phones, and "number", to the right; node: cell(row) is a node, made once for each row object,
 * else it is a text; title(row): a text on hover other than that of the cell; id and value(row):
 * the table can be sorted by it. key(row): its identity; empty: what is there without rows;
 * onShow(node, row): after each change of a row in the document. sort: {id, isDown}, onSort(sort).
 * With nameOf(row), rows can be selected: onSelect(rows) after each change. */
export class VirtualTable {
	selected = new Set(); // keys
	#rows = [];
	#active; // the key of the row that Tab reaches
	#last; // the key of the row that was selected last

	constructor({ label, columns, key, empty, onShow, sort, onSort, nameOf, onSelect }) {
		const what = `Select all ${label.toLowerCase()}`;
		const all = nameOf && checkbox(what, () => this.#selectAll());
		const boxes = { name: all, width: "36px", node: true, cell: this.#box(nameOf) };
		if (nameOf) columns = [boxes, ...columns];
		Object.assign(this, { columns, key, all, onShow, sort, onSort, onSelect });
		this.body = el("tbody", { role: "rowgroup", on: {
			keydown: (event) => this.#keys(event), focusin: (event) => this.#focused(event) } });
		const cols = columns.map(({ kind }) => el("col", { class: kind }));
		cols.forEach((col, i) => { col.style.width = columns[i].width ?? ""; });
		// The roles, for pages that show the rows otherwise than as a table.
		const heads = columns.map((column) => this.#head(column));
		this.table = el("table", { class: "virtual", role: "table", "aria-label": label },
			el("colgroup", null, cols), el("thead", { role: "rowgroup" },
				el("tr", { role: "row", "aria-rowindex": "1" }, heads)), this.body);
		this.empty = el("div", { class: "soft" }, empty);
		this.scroller = el("div", { class: "table" }, this.table);
		this.element = el("div", null, this.scroller, this.empty);
		const model = el("tr", { role: "row" }, columns.map((column) => el("td",
			{ role: "cell", class: column.kind, "data-name": column.id && column.name })));
		this.list = new VirtualList(this.scroller, this.body, spacer, {
			count: () => this.#rows.length,
			key: (i) => key(this.#rows[i]),
			make: () => model.cloneNode(true),
			update: (node, i) => this.#update(node, i),
		});
		this.rows = [];
	}

	get rows() { return this.#rows; }

	/** The rows; the table sorts them, equal ones keep their order. */
	set rows(rows) {
		const at = this.#index();
		const { value } = this.columns.find(({ id }) => id && id === this.sort?.id) ?? {};
		this.#rows = value ? sorted(rows, value, this.sort.isDown) : rows;
		if (rows.length && this.#index() < 0) {
			this.#active = this.key(this.#rows[Math.max(0, Math.min(at, rows.length - 1))]);
		}
		this.table.setAttribute("aria-rowcount", rows.length + 1);
		this.empty.hidden = rows.length > 0;
		if (this.onSelect) this.#selection();
		else this.refresh();
	}

	/** Where the user is, to return to it with the same rows. */
	get place() {
		const { scroller: { scrollTop }, selected } = this;
		return { scrollTop, selected, active: this.#active, hasFocus: this.#hasFocus() };
	}

	set place({ scrollTop, selected, active, hasFocus }) {
		this.#active = active;
		this.selected = selected;
		this.#selection();
		this.scroller.scrollTop = scrollTop;
		this.refresh();
		if (hasFocus) this.list.nodes.get(active)?.focus();
	}

	sortAgain() {
		this.rows = this.#rows;
	}

	/** Shows changes, for example of ages. */
	refresh() {
		this.list.render();
	}

	// ---- order ----
	#head({ id, name, kind }) {
		const by = this.sort?.id === id && id;
		const button = id && el("button", { type: "button", class: "sort",
			on: { click: ({ target }) => this.#sortBy(id, target.closest("th")) } }, name);
		return el("th", { scope: "col", role: "columnheader", class: kind,
			"aria-sort": by && (this.sort.isDown ? "descending" : "ascending") }, button ?? name);
	}

	#sortBy(id, head) {
		this.sort = { id, isDown: this.sort?.id === id && !this.sort.isDown };
		for (const one of head.parentNode.children) one.removeAttribute("aria-sort");
		head.ariaSort = this.sort.isDown ? "descending" : "ascending";
		this.scroller.scrollTop = 0;
		this.sortAgain();
		this.onSort(this.sort);
	}

	// ---- selected rows ----
	#box(nameOf) {
		return (row) => el("label", null, checkbox(`Select ${nameOf(row)}`,
			({ shiftKey }) => this.select(this.key(row), shiftKey)));
	}

	/** Selects a row, or no longer; isRange: all from the one before. */
	select(key = this.#active, isRange = false) {
		const keys = this.#rows.map(this.key);
		const at = keys.indexOf(key), last = isRange ? keys.indexOf(this.#last) : -1;
		const from = last < 0 ? at : last;
		const yes = !this.selected.has(key);
		for (const one of keys.slice(Math.min(from, at), Math.max(from, at) + 1)) {
			this.selected[yes ? "add" : "delete"](one);
		}
		this.#last = key;
		this.#selection();
	}

	#selectAll() {
		this.selected = new Set(this.all.checked ? this.#rows.map(this.key) : []);
		this.#selection();
	}

	/** Shows the selection; rows that are not in the list are not selected. */
	#selection() {
		const { all, selected } = this;
		const rows = selected.size ? this.#rows.filter((row) => selected.has(this.key(row))) : [];
		if (rows.length < selected.size) this.selected = new Set(rows.map(this.key));
		all.checked = rows.length > 0 && rows.length === this.#rows.length;
		all.indeterminate = rows.length > 0 && !all.checked;
		this.refresh();
		this.onSelect(rows);
	}

	// ---- rows ----
	#update(node, i) {
		const row = this.#rows[i];
		node.setAttribute("aria-rowindex", i + 2);
		this.columns.forEach((column, at) => {
			const cell = node.children[at];
			if (!column.node) {
				const text = String(column.cell(row) ?? "");
				const title = column.title?.(row) ?? text;
				if (cell.textContent !== text) cell.textContent = text;
				if (cell.title !== title) cell.title = title;
			} else if (node.shows !== row && !cell.contains(document.activeElement)) {
				fill(cell, column.cell(row));
			}
		});
		node.shows = row;
		const key = this.key(row);
		if (this.onSelect) {
			node.classList.toggle("selected", this.selected.has(key));
			node.querySelector("input").checked = this.selected.has(key);
		}
		this.onShow?.(node, row);
		this.#reachable(node, key === this.#active);
	}

	#reachable(node, yes) {
		const all = [node, ...node.querySelectorAll("a, button, input")];
		for (const one of all) one.tabIndex = yes ? 0 : -1;
	}

	#index() {
		return this.#rows.findIndex((row) => this.key(row) === this.#active);
	}

	#hasFocus() {
		return this.body.contains(document.activeElement);
	}

	#focused({ target }) {
		const row = target.closest("tr");
		this.#active = this.key(this.#rows[row.ariaRowIndex - 2]);
		for (const node of this.list.nodes.values()) this.#reachable(node, node === row);
	}

	/** Moves the focus by so many rows; from elsewhere to the row that Tab reaches. */
	move(step) {
		if (!this.#rows.length) return;
		const at = this.#index() + (this.#hasFocus() ? step : 0);
		const i = Math.max(0, Math.min(this.#rows.length - 1, at));
		this.list.show(i, this.table.tHead.offsetHeight);
		this.list.nodes.get(this.key(this.#rows[i])).focus({ preventScroll: true });
	}

	#keys(event) {
		const { key, target } = event;
		const { scroller, list } = this;
		const page = Math.max(1, Math.floor(scroller.clientHeight / list.row) - 2);
		const step = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page,
			Home: -Infinity, End: Infinity }[key];
		if (key === "Enter" && target.matches("tr")) target.querySelector("a, button")?.click();
		if (!step || event.altKey || event.ctrlKey || event.metaKey) return;
		event.preventDefault();
		this.move(step);
	}
}
