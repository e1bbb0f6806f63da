// The log of a task, followed to its end, with search.

import { chunks, get, pause } from "./api.js";
import { el, fill } from "./dom.js";
import { bytes, plural } from "./format.js";
import { Known, Log, parts } from "./log.js";
import { VirtualList } from "./table.js";

const FLAGS = ["bold", "dim", "italic", "underline", "inverse", "strike"];
const EARLY_WAIT = 2000, LAST_WAIT = 10000; // ms: of a task that has no log yet; of all others

function styled({ text, style }) {
	const flags = FLAGS.filter((flag) => style?.[flag]).join(" ");
	const node = el(style?.mark ? "mark" : "span", { class: flags || null }, text);
	if (style?.fg) node.style.color = style.fg;
	if (style?.bg) node.style.backgroundColor = style.bg;
	return node;
}

/** Reads the log `name` of a task into `log`: the first stream from the start, others from the last
 * lines on, of which some are known. say(text): a problem, or "". lost(n): bytes that are not kept. */
async function follow(log, task, name, { signal, offer, say, lost, changed }) {
	const known = new Known();
	for (let wait = 1000; ; wait = Math.min(2 * wait, LAST_WAIT)) {
		const ended = task.ended();
		try {
			const { dropped = 0, locations } = await get(task.path, { signal });
			offer(locations);
			// Kept output lacks the lines of pai-runtime; a large log of a machine is complete before.
			const isKept = !locations.some(({ name: one }) => one === "runtime");
			let at = isKept ? dropped + log.runtimeBytes : null;
			if (isKept && at > known.total) lost(at - known.total);
			else if (!isKept && !known.total) lost(dropped);
			const chunk = (bytes) => {
				at ??= known.place(bytes);
				const fresh = bytes.subarray(Math.max(0, known.total - at));
				at += bytes.length;
				if (fresh.length) known.add(fresh);
				log.write(fresh);
				wait = 500;
				changed();
			};
			const tail = known.total ? "&tail-mode=true" : "";
			await chunks(`${task.path}/${name}?follow=true${tail}`, { signal, chunk });
			say("");
			if (ended) return;
		} catch (error) {
			signal.throwIfAborted();
			const isEarly = error.status === 404 && !ended;
			say(isEarly ? "There is no log yet." : `Not shown: ${error.message}`);
			if (isEarly) wait = EARLY_WAIT;
			if (!isEarly && ![0, 429].includes(error.status) && !(error.status >= 500)) return;
		}
		if (ended || !task.ended()) await pause(wait, signal);
	}
}

/** The lines of a log, which scroll; followed(true): they stay at the end. */
class LogLines {
	log = new Log();
	needle = "";
	isFollowing = true;
	#end = 0; // scrollTop at the end
	#dropped = 0;

	constructor(label, followed) {
		this.followed = followed;
		const spacer = () => el("div", { "aria-hidden": "true" });
		this.element = el("div", { class: "log", role: "log", "aria-label": label, "aria-live": "off",
			tabindex: "0", on: { scroll: () => this.#scrolled() } });
		const [before, after] = [spacer(), spacer()];
		this.list = new VirtualList(this.element, this.element, { before, after }, {
			count: () => this.log.count,
			key: (i) => this.log.dropped + i,
			make: () => el("div", { class: "line" }),
			update: (node, i) => this.#update(node, this.log.dropped + i),
		});
	}

	#update(node, number) {
		const { needle } = this;
		const line = this.log.line(number);
		node.classList.toggle("current", number === this.current);
		if (node.line === line && node.shown === line.text && node.needle === needle) return;
		Object.assign(node, { line, shown: line.text, needle });
		fill(node, parts(line, needle).map(styled));
	}

	follow(yes) {
		if (this.isFollowing !== yes) this.followed(this.isFollowing = yes);
		if (yes) this.#end = 0;
	}

	#scrolled() {
		const { scrollTop, scrollHeight, clientHeight } = this.element;
		this.follow(scrollTop + clientHeight >= scrollHeight - 2);
	}

	/** Shows the written lines. They do not move on the screen when earlier ones are dropped. */
	render() {
		const { element, log, list } = this;
		if (this.isFollowing && element.scrollTop < this.#end - 2) this.follow(false);
		const moved = log.dropped - this.#dropped;
		this.#dropped = log.dropped;
		if (!this.isFollowing && moved) element.scrollTop -= moved * list.row;
		list.render();
		if (!this.isFollowing) return;
		element.scrollTop = element.scrollHeight;
		this.#end = element.scrollTop;
		list.render();
	}

	/** Begins an empty log. */
	clear() {
		this.log = new Log();
		this.#dropped = 0;
		this.current = undefined;
		this.follow(true);
	}

	/** Shows a line in the middle. */
	show(number) {
		const { element, list, log } = this;
		this.current = number;
		this.follow(false);
		element.scrollTop = (number - log.dropped) * list.row - element.clientHeight / 2;
		list.render();
	}
}

/** Elements that search in the lines; show() counts again. */
function searchFor(lines) {
	const input = el("input", { type: "search", "aria-label": "Search in the log",
		placeholder: "Search", size: 16 });
	const count = el("output", { class: "soft" });
	const show = () => {
		const found = lines.log.find(input.value);
		const at = found.indexOf(lines.current) + 1;
		fill(count, input.value && `${at ? `${at} of ` : ""}${plural(found.length, "line")}`);
		return found;
	};
	const step = (down) => {
		const found = show();
		const here = lines.current ?? -1;
		const next = down ? found.find((i) => i > here) : found.findLast((i) => i < here);
		if (found.length) lines.show(next ?? found.at(down ? 0 : -1));
		show();
	};
	input.addEventListener("keydown", (event) => {
		if (event.key === "Enter") step(!event.shiftKey);
	});
	input.addEventListener("input", () => {
		lines.needle = input.value.toLowerCase();
		lines.current = undefined;
		lines.list.render();
		show();
	});
	const button = (text, down) =>
		el("button", { type: "button", on: { click: () => step(down) } }, text);
	return { elements: [input, button("Previous", false), button("Next", true), count], show };
}

/** Shows the logs of a task until the signal aborts. task: {name: "worker[0]", path: of its logs,
 * file: the name of a download, ended(): true if the task has ended}. */
export async function logView(host, task, signal) {
	let frame = 0, problem = "", stream = new AbortController();
	const label = `Log of ${task.name}`;
	const note = el("p", { class: "soft", role: "status", "aria-label": "State of the log" });
	const missing = el("span", { role: "status", "aria-label": "Output that is not here" });
	const gap = el("p", { class: "soft", hidden: true }, missing, " ",
		el("button", { type: "button", class: "link", on: { click: () => download() } }, "Download what is stored"));
	let unstored = 0; // bytes
	const stick = el("input", { type: "checkbox", checked: true });
	const output = el("select", { "aria-label": "Output" });
	const lines = new LogLines(label, (yes) => { stick.checked = yes; });
	const search = searchFor(lines);
	const draw = () => {
		frame = 0;
		lines.render();
		search.show();
		const { dropped, droppedBytes } = lines.log;
		fill(note, problem);
		gap.hidden = !unstored && !dropped;
		const text = [unstored && `${bytes(unstored)} of output before this are not stored.`,
			dropped && `The first ${plural(dropped, "line")} that are stored, ${bytes(droppedBytes)}, are not shown on this page.`];
		fill(missing, text.filter(Boolean).join(" "));
	};
	const changed = () => { frame ||= requestAnimationFrame(draw); };
	const say = (text) => { problem = text; changed(); };
	const lost = (n) => { unstored = n; changed(); };
	const offer = (locations) => {
		const names = locations.map(({ name }) => name);
		for (const option of output.options) option.hidden = !names.includes(option.value);
	};
	const start = () => {
		stream.abort();
		stream = new AbortController();
		lines.clear();
		lost(0);
		const how = { signal: AbortSignal.any([signal, stream.signal]), offer, say, lost, changed };
		return follow(lines.log, task, output.value, how).catch(() => {});
	};
	// A link is valid for five minutes, without the user's token.
	const download = () => get(task.path, { signal }).then(({ locations }) => {
		const { uri } = locations.find(({ name }) => name === output.value);
		const href = new URL(uri.replace("/rest-server/", ""), document.baseURI).href;
		el("a", { href, download: `${task.file}-${output.value}.log` }).click();
	}).catch((error) => say(error.message));
	stick.addEventListener("change", () => { lines.follow(stick.checked); changed(); });
	output.addEventListener("change", start);
	fill(host, el("div", { class: "toolbar" }, el("h3", null, label), output,
		el("label", { class: "check" }, stick, "Follow"), search.elements,
		el("button", { type: "button", on: { click: download } }, "Download the log")),
	gap, lines.element, note);
	fill(output, ["all", "stdout", "stderr", "runtime"].map((name) => el("option", null, name)));
	await start();
}
