// The text of logs, as lines with colours. Knows carriage returns, backspaces and SGR sequences of
// terminals; other escape sequences are left out. Memory is bounded: the oldest lines go first.

const LINES = 100_000;
const MEMORY = 32 << 20; // bytes of all lines, as estimated by cost()
const HEAD = 64; // characters of a time
const COLUMNS = 10_000; // a longer line is broken
const RUNS = 500; // changes of style in a line; beyond it, overwriting keeps the styles
const HELD = 4096; // characters of an escape sequence; of a longer one the text is shown
const STYLES = 1000; // that are remembered

// SGR (1: its parameters), the erasure of a line (2: how), all others.
const ESCAPE = new RegExp("\\x1b(?:\\[([0-9;:]*)m|\\[([012]?)K|\\[[0-?]*[ -/]*[@-~]|" +
	"[\\]PX^_][^\\x07\\x1b]*(?:\\x07|\\x1b\\\\)|[ -/]*[0-OQ-WYZ\\\\`-~])", "y");
const BEGUN = /^\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]*\x1b?|[ -/]*)$/;

const ON = { 1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "inverse", 9: "strike" };
const OFF = { 22: ["bold", "dim"], 23: ["italic"], 24: ["underline"], 27: ["inverse"],
	29: ["strike"], 39: ["fg"], 49: ["bg"] };
const COLOURS = "6e7681 ff7b72 57c774 e3b341 6cb6ff d2a8ff 56d4dd d8dee6 " +
	"9aa4b0 ffa198 7ee787 f2cc60 a5d6ff e2c5ff b3f0ff ffffff";
const MARK = { mark: true };

const UTF8 = new TextEncoder();

const byte = (n = 0) => Math.min(n, 255).toString(16).padStart(2, "0");
const hex = (...rgb) => `#${rgb.map(byte).join("")}`;

/** Colour n of 256. */
function indexed(n = 0) {
	if (n < 16) return `#${COLOURS.split(" ")[n]}`;
	if (n >= 232) return hex(...new Array(3).fill(8 + 10 * (n - 232)));
	const level = (base) => [0, 95, 135, 175, 215, 255][Math.floor((n - 16) / base) % 6];
	return hex(level(36), level(6), level(1));
}

/** The style after an SGR sequence; null: the default. Members: fg and bg ("#rrggbb"); bold, dim,
 * italic, underline, inverse and strike (true); name: equal for equal styles. */
export function restyle(style, parameters) {
	let next = { ...style, name: undefined };
	const codes = parameters.split(/[;:]+/).map(Number);
	for (let i = 0; i < codes.length; i++) {
		const code = codes[i];
		const ground = Math.floor(code / 10);
		const key = { 3: "fg", 4: "bg", 9: "fg", 10: "bg" }[ground];
		if (code === 0) next = {};
		else if (ON[code]) next[ON[code]] = true;
		else if (OFF[code]) for (const off of OFF[code]) delete next[off];
		else if (code === 38 || code === 48) {
			const isRgb = codes[i + 1] === 2;
			next[key] = isRgb ? hex(...codes.slice(i + 2, i + 5)) : indexed(codes[i + 2]);
			i += isRgb ? 4 : 2;
		} else if (key && code % 10 < 8) next[key] = indexed((code % 10) + (ground >= 9 ? 8 : 0));
	}
	const name = JSON.stringify(next);
	return name === "{}" ? null : { ...next, name };
}

/** The end of the text without control characters that begins at `at`; tabs are text. */
function endOfText(text, at) {
	for (; at < text.length; at++) {
		const code = text.charCodeAt(at);
		if ((code < 32 && code !== 9) || (code >= 127 && code < 160)) break;
	}
	return at;
}

// ---- lines: {text, runs, terminal, number, time}, runs: null or [{at, style}, ...], each up to
// the next one; number: from 1, among the lines of its terminal; time: in ms, if it is known ----
const newLine = (terminal) => ({ text: "", runs: null, terminal, number: terminal.count + 1 });
const cost = ({ text, runs }) => 2 * text.length + 64 + 120 * (runs?.length ?? 0);

/** Sets the style of the characters [from, to) of a line. */
function paint(line, from, to, style) {
	const runs = line.runs ?? [];
	const last = runs.at(-1);
	if (to === line.text.length && (!last || last.at < from)) {
		if ((last?.style ?? null) !== style) (line.runs ??= []).push({ at: from, style });
	} else if ((last || style) && runs.length <= RUNS) {
		const next = runs.findLast((run) => run.at <= to)?.style ?? null;
		const all = [...runs.filter((run) => run.at < from), { at: from, style },
			{ at: to, style: next }, ...runs.filter((run) => run.at > to)];
		line.runs = all.filter((run, i) => run.style !== (all[i - 1]?.style ?? null));
	}
}

/** For parts() and find(): finds a text, or a regular expression, without regard to case; null:
 * nothing is searched. Throws SyntaxError. */
export function pattern(text, isExpression = false) {
	const source = isExpression ? text : text.replace(/[^\w\s]/g, "\\$&");
	return text ? new RegExp(source, "gi") : null;
}

/** The parts {text, style} of a line; what the pattern finds has the style {mark: true}. */
export function parts({ text, runs }, wanted = null) {
	const marked = { text, runs: runs?.slice() };
	for (const { index, 0: found } of wanted ? text.matchAll(wanted) : []) {
		if (found) paint(marked, index, index + found.length, MARK);
	}
	const all = [{ at: 0, style: null }, ...(marked.runs ?? [])];
	return all.map(({ at, style }, i) => ({ text: text.slice(at, all[i + 1]?.at), style }))
		.filter((part) => part.text);
}

/** The characters [from, to) of parts. */
export function cut(all, from, to) {
	let end = 0;
	return all.map(({ text, style }) => {
		const start = end;
		end += text.length;
		return { text: text.slice(Math.max(0, from - start), Math.max(0, to - start)), style };
	}).filter(({ text }) => text);
}

/** Takes the times from an answer that has one before each line, split anywhere: put(bytes, time)
 * gets the rest, of one line at most; time: in ms since 1970, with fractions, or NaN. */
export class Times {
	#head = "";
	#time = null; // of the line; null: it has not come

	split(bytes, put) {
		for (let at = 0, end; at < bytes.length; at = end) {
			const isHead = this.#time === null;
			const found = bytes.indexOf((isHead ? " " : "\n").charCodeAt(0), at);
			end = found < 0 ? bytes.length : found + 1;
			const part = bytes.subarray(at, end);
			if (!isHead) put(part, this.#time);
			else this.#head += String.fromCharCode(...part.subarray(0, HEAD - this.#head.length));
			if (found >= 0) this.#time = isHead ? this.#read() : null;
		}
	}

	#read() {
		const [, rest = "0"] = /\.\d{3}(\d+)/.exec(this.#head) ?? [];
		const ms = Date.parse(this.#head.trim());
		this.#head = "";
		return ms + Number(`0.${rest}`);
	}
}

/** Acts on several terminals, in the order of their times. Those that wait are bounded: the oldest
 * are done early; a log with the same bounds has dropped their lines when all are done. */
export class ByTime {
	#waiting = []; // {time, act, size}
	#size = 0;
	#latest = 0; // time of what was there at the last run()

	constructor({ lines = LINES, memory = MEMORY } = {}) {
		this.most = { lines, memory };
	}

	/** Adds an act, about so many bytes of text. Those of a terminal have ascending times. */
	add(time, bytes, act) {
		const { lines, memory } = this.most;
		const size = 64 + bytes / 1.5; // at most that of the line in a log
		this.#waiting.push({ time, act, size });
		this.#size += size;
		while (this.#waiting.length > 1.25 * lines || this.#size > 1.25 * memory) {
			this.#sort();
			this.#do(Math.ceil(this.#waiting.length / 5));
		}
	}

	/** Does those that are not later than `until`, or than those that were there the last time:
	 * none that comes is earlier. */
	run(until) {
		const bound = Math.max(until, this.#latest);
		this.#sort();
		const later = this.#waiting.findIndex(({ time }) => time > bound);
		this.#do(later < 0 ? this.#waiting.length : later);
		this.#latest = this.#waiting.at(-1)?.time ?? 0;
	}

	#sort() {
		this.#waiting.sort((a, b) => a.time - b.time);
	}

	#do(n) {
		for (const { act, size } of this.#waiting.splice(0, n)) {
			this.#size -= size;
			act();
		}
	}
}

/** The output of a task. Takes bytes in write(), split anywhere, and their time, if it is known;
 * ended(line) gets complete lines. */
class Terminal {
	count = 0; // complete lines
	open = newLine(this); // may still grow
	#decoder = new TextDecoder("utf-8", { ignoreBOM: true });
	#at = 0; // column of the cursor in the open line
	#style = null;
	#styles = new Map();
	#rest = ""; // an escape sequence that has begun
	#time; // of what is written

	constructor(name, ended) {
		Object.assign(this, { name, ended });
	}

	write(bytes, time) {
		this.#time = time;
		const text = this.#rest + this.#decoder.decode(bytes, { stream: true });
		this.#rest = "";
		for (let at = 0; at < text.length && !this.#rest; ) {
			const end = endOfText(text, at);
			if (end > at) this.#put(text.slice(at, end));
			at = end < text.length ? this.#control(text, end) : end;
		}
	}

	/** Obeys the control character at `at`; returns where the text goes on. */
	#control(text, at) {
		const char = text[at];
		if (char === "\n") this.#end();
		else if (char === "\r") this.#at = 0;
		else if (char === "\b") this.#at = Math.max(0, this.#at - 1);
		if (char !== "\x1b") return at + 1;
		ESCAPE.lastIndex = at;
		const [whole, sgr, erase] = ESCAPE.exec(text) ?? [];
		if (sgr !== undefined) this.#restyle(sgr);
		else if (erase !== undefined) this.#erase(erase);
		const rest = whole ? "" : text.slice(at);
		if (rest.length < HELD && BEGUN.test(rest)) this.#rest = rest;
		return at + (whole?.length ?? 1);
	}

	#restyle(parameters) {
		const key = `${this.#style?.name} ${parameters}`;
		if (!this.#styles.has(key)) {
			if (this.#styles.size > STYLES) this.#styles.clear();
			this.#styles.set(key, restyle(this.#style, parameters));
		}
		this.#style = this.#styles.get(key);
	}

	#put(text) {
		for (let from = 0; from < text.length; ) {
			if (this.#at >= COLUMNS) this.#end();
			const line = this.open;
			line.time ??= this.#time;
			const piece = text.slice(from, from + COLUMNS - this.#at);
			const end = this.#at + piece.length;
			if (this.#at === line.text.length) line.text += piece;
			else line.text = line.text.slice(0, this.#at) + piece + line.text.slice(end);
			paint(line, this.#at, end, this.#style);
			this.#at = end;
			from += piece.length;
		}
	}

	/** Erases to the end of the line ("", "0"), or all of it ("2") and moves to its start. */
	#erase(how) {
		if (how === "1") return;
		if (how === "2") this.#at = 0;
		const runs = this.open.runs?.filter(({ at }) => at < this.#at) ?? null;
		Object.assign(this.open, { text: this.open.text.slice(0, this.#at), runs });
	}

	#end() {
		const line = this.open;
		line.time ??= this.#time;
		this.count++;
		this.open = newLine(this);
		this.#at = 0;
		this.ended(line);
	}

	/** The log has ended, and with it the last line. */
	finish() {
		if (this.open.text) this.#end();
	}

	/** Writes a line that is not of the log. */
	note(text) {
		this.finish();
		this.write(UTF8.encode(`[${text}]\n`));
	}
}

/** The lines of terminals. They have numbers from 0; those from `dropped` to `dropped + count - 1`
 * are kept. The last ones may still grow: the open line of each terminal. */
export class Log {
	dropped = 0;
	droppedBytes = 0; // of the lines that were dropped, as text
	terminals = [];
	#lines = new Map(); // complete ones, by number
	#memory = 0;
	#search = {};

	constructor({ lines = LINES, memory = MEMORY } = {}) {
		this.most = { lines, memory };
	}

	/** A new terminal whose lines are in this log. */
	terminal(name) {
		const one = new Terminal(name, (line) => this.#add(line));
		this.terminals.push(one);
		return one;
	}

	get #open() { return this.terminals.map(({ open }) => open).filter(({ text }) => text); }

	get count() { return this.#lines.size + this.#open.length; }

	/** The line with this number. */
	line(number) {
		return this.#lines.get(number) ?? this.#open[number - this.dropped - this.#lines.size];
	}

	/** The number of the line that has this one in its terminal; -1: it was dropped. */
	numberOf(terminal, number) {
		let i = number > terminal.count + 1 ? -1 : this.dropped + this.count - 1;
		const isOther = (line) => line.number !== number || line.terminal !== terminal;
		while (i >= this.dropped && isOther(this.line(i))) i--;
		return i < this.dropped ? -1 : i;
	}

	#add(line) {
		const { lines, memory } = this.most;
		this.#memory += cost(line);
		this.#lines.set(this.dropped + this.#lines.size, line);
		while (this.#lines.size > lines || this.#memory > memory) {
			const oldest = this.#lines.get(this.dropped);
			this.#memory -= cost(oldest);
			this.droppedBytes += UTF8.encode(oldest.text).length + 1;
			this.#lines.delete(this.dropped++);
		}
	}

	/** The numbers of the complete lines in which the pattern finds something. `search`: what is
	 * known of the same search, {} at first. */
	find(wanted, search = this.#search) {
		const key = String(wanted);
		if (search.key !== key) Object.assign(search, { key, next: 0, found: [] });
		const end = wanted ? this.dropped + this.#lines.size : 0;
		for (let i = Math.max(search.next, this.dropped); i < end; i++) {
			if (this.line(i).text.search(wanted) >= 0) search.found.push(i);
		}
		search.next = end;
		return search.found = search.found.filter((i) => i >= this.dropped);
	}
}

/** A line as a log shows it: without escape sequences. */
export function plain(text) {
	const terminal = new Log().terminal("");
	terminal.write(UTF8.encode(text));
	return terminal.open.text;
}
