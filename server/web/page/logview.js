// The logs of tasks, followed to their ends, with search.

import { saveAs } from "./actions.js";
import { ApiError, get, isCrowded, isPassing, pause, session, stream } from "./api.js";
import { button, clock, el, fill, listed, plural, sizeOf, time } from "./dom.js";
import { ByTime, cut, Log, parts, pattern, plain, Times } from "./log.js";
import { VirtualList } from "./table.js";

const FLAGS = ["bold", "dim", "italic", "underline", "inverse", "strike"];
// ms until the next stream: of a task that has no log yet; to begin it again; of all others
const EARLY_WAIT = 2000, AGAIN_WAIT = 250, LAST_WAIT = 10000;
const ROUND_WAIT = 2000; // ms between two looks at the logs of several tasks
const SLOW = 3; // ... or so many times the duration of a look
// A kubelet gives a log from its beginning, so that looks at long ones are dear. Bytes a second,
// and at most so many ms between two looks.
const RATE = 4 << 20, LAST_ROUND = 60000;
// A stream that is silent for so many ms is begun again; after the end of the task, when it ends.
const SILENCE = 20000, SILENCE_ENDED = 5000;
const MOST = 64; // tasks in one log
const LATE = 3000; // ms; what is younger may be in one log, and not yet in another
const HUES = ["#8fb8e8", "#d7b56d", "#86c596", "#c9a3e6", "#7fc8c8", "#e0a0a0"]; // of their names
const NARROW = 20; // characters of a row, at least
const UNCERTAIN = "Lines may be repeated or missing from here on.";
const EARLY = "There is no log yet.";

function styled({ text, style }) {
	const flags = FLAGS.filter((flag) => style?.[flag]).join(" ");
	const node = el(style?.mark ? "mark" : "span", { class: flags || null }, text);
	if (style?.fg) node.style.color = style.fg;
	if (style?.bg) node.style.backgroundColor = style.bg;
	return node;
}

/** Reads the log `name` of a task into a terminal of a log. */
class Reader {
	isDone = false;
	problem = ""; // why it is not shown; EARLY: there is no log yet
	unstored = 0; // bytes that are not kept
	wait = 1000;
	at = 0; // offset of the next byte in the log; null: the server does not know it
	isRead = false;
	isUntimed = false; // it is wanted with times, and has none
	#start = ""; // of which part of the log
	#hasCome = false;
	#times = null; // in the answer
	#time = 0; // of what has come

	/** order: a ByTime, or null. */
	constructor(task, terminal, { name, signal, offer, changed, hasTimes, order }) {
		Object.assign(this, { task, terminal, name, signal, offer, changed, hasTimes, order });
	}

	/** Does something with the terminal: now, or in the order of times. */
	#act(act, bytes = 0) {
		if (this.order) this.order.add(this.#time, bytes, act);
		else act();
	}

	#write(bytes, at) {
		if (this.at !== null) this.at += bytes.length;
		this.#time = Math.max(this.#time, at || 0);
		this.#act(() => this.terminal.write(bytes, at), bytes.length);
	}

	/** Takes the place of the first bytes of an answer. */
	#place(headers) {
		const offset = headers.get("X-Log-Offset");
		const [at, start] = [offset && Number(offset), headers.get("X-Log-Start") ?? ""];
		const isNext = this.at !== null && at >= this.at && start === this.#start;
		if (offset !== null && (isNext || !this.#hasCome)) this.unstored += at - this.at;
		else if (this.#hasCome) this.#act(() => this.terminal.note(UNCERTAIN));
		[this.at, this.#start, this.#hasCome] = [at, start, true];
		this.#times = headers.get("X-Log-Times") && new Times();
		this.isUntimed = this.hasTimes && !this.#times;
	}

	/** Reads from the next byte on. */
	async #read(silence) {
		const { task: { path }, signal, name, hasTimes } = this;
		if (!path) throw new ApiError(404, {});
		const { locations } = await get(path, { signal });
		this.offer(locations.map((one) => one.name));
		const follow = silence && { follow: true };
		const from = new URLSearchParams({ ...follow, from: this.at ?? 0, start: this.#start,
			...hasTimes && { times: true } });
		let headers;
		const piece = (bytes) => {
			if (headers) this.#place(headers);
			headers = null;
			if (this.#times) this.#times.split(bytes, (text, at) => this.#write(text, at));
			else this.#write(bytes);
			this.problem = "";
			this.wait = 500;
			this.changed();
		};
		const begun = (reply) => ({ headers } = reply);
		return stream(`${path}/${name}?${from}`,
			{ signal, headers: { Accept: "text/plain" }, silence, begun, piece });
	}

	/** Reads what has been written since the last time; with `silence`, as of stream(), also what
	 * will be. */
	async look(silence) {
		const ended = this.task.ended();
		try {
			await this.#read(silence);
			this.problem = "";
			this.isDone = ended;
			if (ended) this.#act(() => this.terminal.finish());
		} catch (error) {
			this.signal.throwIfAborted();
			const isEarly = error.status === 404 && !ended;
			this.problem = isEarly ? EARLY : error.again ? "" : error.message;
			if (error.again) this.wait = AGAIN_WAIT;
			this.isDone = !isEarly && !isPassing(error);
		}
		this.isRead = true;
		this.changed();
	}

	/** Reads to the end of the task. */
	async follow() {
		const { task } = this;
		const silence = () => (task.ended() ? SILENCE_ENDED : SILENCE);
		for (;; this.wait = Math.min(2 * this.wait, LAST_WAIT)) {
			const ended = task.ended();
			await this.look(isCrowded() ? undefined : silence);
			if (this.isDone) return;
			if (this.problem === EARLY) this.wait = EARLY_WAIT;
			const wait = isCrowded() ? ROUND_WAIT : this.wait;
			if (ended || !task.ended()) await pause(wait, this.signal);
		}
	}
}

/** Looks at the logs of several tasks in turn, to the end of all. */
async function lookAtAll(readers, order, signal) {
	while (readers.some(({ isDone }) => !isDone)) {
		const begun = Date.now();
		for (const reader of readers) if (!reader.isDone) await reader.look();
		const isOver = readers.every(({ isDone }) => isDone);
		order.run(isOver ? Infinity : begun + clock.ahead - LATE);
		readers[0].changed();
		const open = session.local ? [] : readers.filter(({ isDone }) => !isDone);
		const again = open.reduce((sum, { at }) => sum + (at ?? 0), 0);
		const wait = Math.min(LAST_ROUND, again / RATE * 1000);
		await pause(Math.max(ROUND_WAIT, SLOW * (Date.now() - begun), wait), signal);
	}
}

/** Sentences about the logs; others: names of tasks whose logs are not read. */
function stateOf(readers, others) {
	const early = readers.filter(({ problem }) => problem === EARLY).map(({ task }) => task.name);
	const bad = readers.filter(({ problem }) => problem && problem !== EARLY);
	const [{ problem }] = readers;
	const untimed = readers.filter(({ isUntimed }) => isUntimed).map(({ task }) => task.name);
	if (readers.length === 1 && !problem && untimed.length) return "This output has no times.";
	if (readers.length === 1) return bad.length ? `Not shown: ${problem}` : problem;
	const unread = readers.filter(({ isRead }) => !isRead).length;
	if (unread) return `Reading the logs of ${readers.length} tasks: ${unread} are left.`;
	return [`Lines of ${readers.length} tasks, in the order of their times.`,
		untimed.length && `Without times, in one block each: ${listed(untimed)}.`,
		early.length && `No log yet: ${listed(early)}.`,
		bad.length && `Not shown: ${listed(bad.map(({ task }) => task.name))}: ${bad[0].problem}`,
		others.length && `Not in this log, which has at most ${MOST} tasks: ${listed(others)}.`,
	].filter(Boolean).join(" ");
}

/** The lines of a log, which scroll. followed(true): they stay at the end; chosen(line): the user
 * has chosen a line, or null. */
class LogLines {
	log = new Log();
	needle = null; // a pattern
	current = null; // number of the chosen line
	failure = null; // ... of the one that tells the cause of a failure
	isFollowing = true;
	isWrapped = false;
	hasTimes = false;
	#rows = new Uint32Array(1); // with isWrapped: the first row of each line; then their number
	#width = Infinity; // characters of a row
	#end = 0; // scrollTop at the end
	#dropped = 0;
	#digits = 0;
	#marks = {};

	constructor(label, { followed, chosen }) {
		Object.assign(this, { followed, chosen });
		const on = { scroll: () => this.#scrolled(), click: (event) => this.#clicked(event),
			keydown: (event) => this.#pressed(event), copy: (event) => this.#copied(event) };
		this.element = el("div", { class: "log", role: "log", "aria-label": label,
			"aria-live": "off", tabindex: "0", on });
		const spacer = () => el("div", { "aria-hidden": "true" });
		this.list = new VirtualList(this.element, this.element, spacer, {
			count: () => (this.isWrapped ? this.#rows.at(-1) : this.log.count),
			key: (i) => this.#place(i).join("."),
			make: () => el("div", { class: "line" },
				el("button", { type: "button", class: "at", tabindex: "-1" }), el("span")),
			update: (node, i) => this.#update(node, ...this.#place(i)),
		});
		new ResizeObserver(() => requestAnimationFrame(() => this.render())).observe(this.element);
	}

	get isOfMany() { return this.log.terminals.length > 1; }

	/** "01-31 12:00:00.123 worker[0] ", before a line: its time, if it is shown and known, and, of
	 * several tasks, the task. */
	#prefix({ terminal, time: at }) {
		const ms = String(Math.floor(at % 1000)).padStart(3, "0");
		const when = this.hasTimes && at ? `${time(at).slice(5)}.${ms} ` : "";
		return when + (this.isOfMany ? `${terminal.name} ` : "");
	}

	/** The number of the line in row i, and which part of the line that is. */
	#place(i) {
		if (!this.isWrapped) return [this.log.dropped + i, 0];
		const rows = this.#rows;
		let low = 0, high = rows.length - 1;
		while (high - low > 1) {
			const middle = (low + high) >> 1;
			if (rows[middle] <= i) low = middle;
			else high = middle;
		}
		return [this.#dropped + low, i - rows[low]];
	}

	/** The first row of a line. */
	#rowOf(number) {
		const i = number - this.log.dropped;
		return this.isWrapped ? this.#rows[Math.min(i, this.#rows.length - 1)] : i;
	}

	/** Divides the lines into rows that are as wide as the log. */
	#fold() {
		const { element, log, list: { nodes } } = this;
		const canvas = document.createElement("canvas").getContext("2d");
		canvas.font = getComputedStyle(element).font;
		const text = nodes.values().next().value?.lastChild ?? element;
		const left = text.getBoundingClientRect().left - element.getBoundingClientRect().left;
		const width = element.clientWidth - left - element.scrollLeft - 16;
		this.#width = Math.max(NARROW, Math.floor(width / canvas.measureText("0").width));
		this.#rows = new Uint32Array(log.count + 1);
		for (let i = 0; i < log.count; i++) {
			const line = log.line(log.dropped + i);
			const n = Math.ceil(line.text.length / this.#room(line));
			this.#rows[i + 1] = this.#rows[i] + Math.max(1, n);
		}
	}

	#room(line) {
		return Math.max(NARROW, this.#width - this.#prefix(line).length);
	}

	/** The number of the line at the top, 0, to the bottom, 1. */
	lineAt(part) {
		const { element: { scrollTop, clientHeight }, list } = this;
		return this.#place(Math.floor((scrollTop + part * clientHeight) / (list.row || 1)))[0];
	}

	/** Sets isWrapped, which breaks long lines, and hasTimes; the line at the top stays there. */
	set(how) {
		const { element, list } = this;
		const top = this.lineAt(0);
		Object.assign(this, how);
		element.scrollLeft = 0;
		if (this.isWrapped) this.#fold();
		if (!this.isFollowing) element.scrollTop = this.#rowOf(top) * list.row;
		this.render();
	}

	#update(node, number, part) {
		const { needle, current, failure, log } = this;
		const line = log.line(number);
		if (!line) return; // dropped meanwhile
		const from = this.isWrapped ? part * this.#room(line) : 0;
		const to = this.isWrapped ? from + this.#room(line) : Infinity;
		const name = `Line ${line.number}${number === failure ? ", failure" : ""}`;
		const lead = this.#prefix(line);
		const [at, text] = node.children;
		node.classList.toggle("current", number === current);
		node.classList.toggle("cause", number === failure);
		if (node.line === line && node.shown === line.text && node.needle === needle &&
			node.name === name && node.from === from && node.to === to &&
			node.lead === lead) return;
		Object.assign(node, { number, name, line, shown: line.text, needle, from, to, lead });
		at.dataset.number = part ? "" : line.number; // shown by the style, so that it is not copied
		at.setAttribute("aria-label", name);
		at.ariaHidden = part ? "true" : null;
		const fg = HUES[log.terminals.indexOf(line.terminal) % HUES.length];
		fill(text, lead && styled({ text: lead, style: { fg } }),
			cut(parts(line, needle), from, to).map(styled));
	}

	/** Chooses a line, or none. */
	choose(number) {
		this.current = number;
		this.chosen(number === null ? null : this.log.line(number));
	}

	#clicked({ target }) {
		const line = target.closest(".at")?.parentNode;
		if (!line) return;
		this.element.focus({ preventScroll: true }); // else its row could not go without a layout
		this.choose(line.number === this.current ? null : line.number);
		this.list.render();
	}

	// ---- all is selected: also the lines that are not in the document ----
	#pressed(event) {
		if (event.key.toLowerCase() !== "a" || !(event.ctrlKey || event.metaKey)) return;
		event.preventDefault();
		getSelection().selectAllChildren(this.element);
	}

	get isSelected() {
		const { anchorNode, focusNode } = getSelection();
		return anchorNode === this.element && focusNode === this.element;
	}

	#copied(event) {
		if (!this.isSelected) return;
		event.preventDefault();
		event.clipboardData.setData("text/plain", this.text());
	}

	/** All lines. */
	text() {
		const { log } = this;
		return Array.from({ length: log.count }, (_, i) => log.line(log.dropped + i))
			.map((line) => `${this.#prefix(line)}${line.text}\n`).join("");
	}

	/** Finds the line of a failure: the last one with its text. */
	mark(mark) {
		const { log } = this;
		const isOf = (i) => !mark.task || log.line(i).terminal.name === mark.task;
		const found = mark ? log.find(pattern(plain(mark.text)), this.#marks) : [];
		this.failure = found.findLast(isOf) ?? null;
	}

	follow(yes) {
		if (this.isFollowing !== yes) this.followed(this.isFollowing = yes);
		if (yes) this.#end = 0;
	}

	#scrolled() {
		const { scrollTop, scrollHeight, clientHeight } = this.element;
		// The log has become smaller since render() went to the end.
		const isOurs = this.isFollowing && this.#end > 0 && scrollTop >= this.#end - 2;
		this.follow(isOurs || scrollTop + clientHeight >= scrollHeight - 2);
	}

	/** Shows the written lines. They do not move on the screen when earlier ones are dropped. */
	render() {
		const { element, log, list } = this;
		const end = Math.min(this.#end, element.scrollHeight - element.clientHeight);
		if (this.isFollowing && element.scrollTop < end - 2) this.follow(false);
		const gone = log.dropped - this.#dropped;
		const moved = this.isWrapped ? this.#rows[Math.min(gone, this.#rows.length - 1)] : gone;
		this.#dropped = log.dropped;
		if (this.isWrapped) this.#fold();
		if (!this.isFollowing && moved) element.scrollTop -= moved * list.row;
		const digits = String(Math.max(0, ...log.terminals.map(({ count }) => count))).length;
		if (digits > this.#digits) element.style.setProperty("--digits", this.#digits = digits);
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
		this.#rows = new Uint32Array(1);
		this.current = this.failure = null;
		this.#marks = {};
		this.list.render(); // else an event tells that the earlier lines are not at their end
		this.follow(true);
	}

	/** Shows a line in the middle. */
	show(number) {
		const { element, list } = this;
		this.current = number;
		this.follow(false);
		element.scrollTop = this.#rowOf(number) * list.row - element.clientHeight / 2;
		list.render();
	}
}

/** Elements that search in the lines, and break them; show() counts again. */
function searchFor(lines) {
	const input = el("input", { type: "search", "aria-label": "Search in the log",
		placeholder: "Search", size: 16 });
	const name = "Regular expression";
	const expression = el("input", { type: "checkbox", "aria-label": name });
	const wrap = el("input", { type: "checkbox",
		on: { change: ({ target }) => lines.set({ isWrapped: target.checked }) } });
	const count = el("output", { class: "soft" });
	let problem = "";
	const show = () => {
		const found = lines.log.find(lines.needle);
		const at = found.indexOf(lines.current) + 1;
		const text = input.value && `${at ? `${at} of ` : ""}${plural(found.length, "line")}`;
		fill(count, problem || text);
		return found;
	};
	const changed = () => {
		problem = "";
		try {
			lines.needle = pattern(input.value, expression.checked);
		} catch ({ message }) {
			lines.needle = null;
			problem = message;
		}
		if (lines.current !== null) lines.choose(null);
		lines.list.render();
		show();
	};
	const step = (down) => {
		const found = show();
		const here = lines.current ?? -1; // all follow the line -1
		const next = down ? found.find((i) => i > here) : found.findLast((i) => i < here);
		if (found.length) {
			lines.choose(next ?? found.at(down ? 0 : -1));
			lines.show(lines.current);
		}
		show();
	};
	input.addEventListener("keydown", (event) => {
		if (event.key === "Enter") step(!event.shiftKey);
	});
	input.addEventListener("input", changed);
	expression.addEventListener("change", changed);
	const arrow = (text, title, down) =>
		button(text, () => step(down), { "aria-label": title, title });
	return { element: el("div", { class: "log-search" }, input,
		el("label", { class: "check minor", title: name }, expression, ".*"),
		arrow("\u2191", "Previous", false), arrow("\u2193", "Next", true), count,
		el("label", { class: "check" }, wrap, "Wrap")), show };
}

/** Shows the logs of tasks in the height of `host` until the signal aborts. sources: [{name:
 * "worker[0]", path: of its logs, or empty; file: the name of a download; ended(): true if the task
 * has ended}]; of several, all lines are in one log. job: its name; line: 12, of several tasks
 * "worker[0]:12", to show as soon as it is there; mark: {task, text} of a failure, whose last line
 * is marked, or null; picked(line): the user has chosen a line, or null. */
export class LogView {
	#frame = 0;
	#stream = new AbortController();
	#readers = [];
	#said = ""; // about what the user wanted
	#note = el("span", { role: "status", "aria-label": "State of the log" });
	#missing = el("span", { role: "status", "aria-label": "Output that is not here" });
	#stick = el("input", { type: "checkbox", checked: true });
	#times = el("input", { type: "checkbox", on: { change: () => this.#showTimes() } });
	#output = el("select", { "aria-label": "Output" },
		["all", "stdout", "stderr", "runtime"].map((name) => el("option", null, name)));

	constructor(host, sources, { job, line, mark, picked, signal }) {
		const failed = sources.filter(({ name }) => name === mark?.task); // the last that is read
		const all = sources.filter((one) => !failed.includes(one));
		this.sources = [...all.slice(0, MOST - failed.length), ...failed];
		this.others = all.slice(MOST - failed.length).map(({ name }) => name);
		Object.assign(this, { host, job, mark, picked, signal, wanted: line });
		const [{ name }] = sources;
		this.lines = new LogLines(sources.length > 1 ? "Log of all tasks" : `Log of ${name}`, {
			followed: (yes) => {
				this.#stick.checked = yes;
				this.wanted = null;
			},
			chosen: (one) => this.#chosen(one),
		});
		this.search = searchFor(this.lines);
		this.#stick.addEventListener("change", () => {
			this.lines.follow(this.#stick.checked);
			this.#changed();
		});
		this.#output.addEventListener("change", () => this.#start());
		this.search.element.append(el("label", { class: "check minor" }, this.#times, "Times"));
		document.addEventListener("selectionchange", () => this.#changed(), { signal });
		host.classList.add("log-view");
		fill(host, el("div", { class: "toolbar" }, this.search.element, this.#output,
			el("label", { class: "check" }, this.#stick, "Follow"),
			button("Download the log", () => this.#download().catch(({ message }) => {
				this.#said = message;
				this.#changed();
			}))),
		this.lines.element, el("p", { class: "log-state" }, this.#note, " ", this.#missing));
		this.#start();
	}

	/** Shows times, or no longer. A log of one task is read again with them. */
	#showTimes() {
		const { lines, lines: { current, isFollowing, log } } = this;
		const line = log.line(current ?? lines.lineAt(0.5));
		lines.set({ hasTimes: this.#times.checked });
		if (!lines.hasTimes || this.#readers[0].hasTimes) return;
		this.#start();
		if (!isFollowing && line) this.wanted = String(line.number);
	}

	/** Reads the chosen output. */
	#start() {
		const { lines, sources } = this;
		this.#stream.abort();
		this.#stream = new AbortController();
		lines.clear();
		const signal = AbortSignal.any([this.signal, this.#stream.signal]);
		const isOne = sources.length === 1;
		const order = isOne ? null : new ByTime();
		const how = { signal, name: this.#output.value, order, hasTimes: !isOne || lines.hasTimes,
			offer: (names) => {
				const isAbsent = ({ value }) => isOne && !names.includes(value);
				for (const one of this.#output.options) one.hidden = isAbsent(one);
			},
			changed: () => { if (!signal.aborted) this.#changed(); } };
		this.#readers = sources.map((task) => new Reader(task, lines.log.terminal(task.name), how));
		this.#changed();
		const read = isOne ? this.#readers[0].follow() : lookAtAll(this.#readers, order, signal);
		read.catch(() => {});
	}

	#changed() {
		this.#frame ||= requestAnimationFrame(() => this.#draw());
	}

	#draw() {
		const { lines, lines: { log } } = this;
		this.#frame = 0;
		lines.mark(this.mark);
		lines.render();
		this.#reach();
		this.search.show();
		const isRefused = this.#readers.every(({ isDone, problem }) => isDone && problem);
		this.host.classList.toggle("refused", isRefused && !log.count);
		const tell = (node, text) => { if (node.textContent !== text) node.textContent = text; };
		const state = `${this.#said} ${stateOf(this.#readers, this.others)}`.trim();
		tell(this.#note, lines.isSelected ? `All ${log.count} lines are selected.` : state);
		const unstored = this.#readers.reduce((sum, reader) => sum + reader.unstored, 0);
		tell(this.#missing, [
			unstored && `${sizeOf(unstored)} of output before this are not stored.`,
			log.dropped && `The first ${plural(log.dropped, "line")}, ` +
				`${sizeOf(log.droppedBytes)}, are not shown` +
				`${lines.isOfMany ? "" : "; the download has them"}.`,
		].filter(Boolean).join(" "));
	}

	/** Shows the wanted line, as soon as it is there. */
	#reach() {
		const { lines, lines: { log } } = this;
		const [, task, digits] = /^(?:(.*):)?(\d+)$/s.exec(this.wanted ?? "") ?? [];
		if (!digits) return;
		const terminal = log.terminals.find(({ name }) => name === task) ?? log.terminals[0];
		const number = log.numberOf(terminal, Number(digits));
		const mayCome = digits > terminal.count && this.#readers.some(({ isDone }) => !isDone);
		if (number < 0 && mayCome) return;
		this.#said = number < 0 ? `Line ${this.wanted} is not on this page.` : "";
		this.wanted = null;
		if (number >= 0) lines.show(number);
	}

	#chosen(line) {
		this.#said = "";
		this.wanted = null;
		const task = this.lines.isOfMany && line ? `${line.terminal.name}:` : "";
		this.picked(line && task + line.number);
	}

	/** Returns false if there is no such line. */
	goToMark() {
		const { lines } = this;
		lines.mark(this.mark);
		if (lines.failure !== null) lines.show(lines.failure);
		return lines.failure !== null;
	}

	setMark(mark) {
		this.mark = mark;
		this.#changed();
	}

	/** Saves the stored log of one task, or the lines of several as they are here. */
	async #download() {
		const { sources: [task], signal, lines } = this;
		if (lines.isOfMany) {
			saveAs(`${this.job}-all-tasks.log`, lines.text());
			return;
		}
		// A link is valid for five minutes, without the user's token.
		const { locations } = await get(task.path, { signal });
		const output = this.#output.value;
		const { uri } = locations.find(({ name }) => name === output);
		const url = new URL(uri.replace("/rest-server/", ""), document.baseURI);
		if (lines.hasTimes) url.searchParams.set("times", "true");
		el("a", { href: url.href, download: `${task.file}-${output}.log` }).click();
	}
}

