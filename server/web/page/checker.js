// Checks of the text of a job while it is typed, by dry runs; the mistakes that they find.

import { connection, send } from "./api.js";
import { el, link } from "./dom.js";

/** The route of v1 takes all dialects of the server and has the messages of `rest-lit validate`. */
export const ROUTE = "api/v1/jobs";

const TYPING = 200; // ms without a key before the text is checked
const LIMITED_FIRST = 2; // seconds between checks when the server limits them
const LIMITED_LAST = 30;
const WARNINGS = "\nwarnings:\n";
const PLAIN = /^[A-Za-z_][\w-]*$/;
const MEMBER = /^ {2}(?:- | {2})(pointer|line|column|message): (.*)$/;

/** The answer of a dry run in YAML: the objects as `rest-lit translate -o yaml` prints them, and
 * the warnings, which the server writes behind them. */
export function answerOf(text) {
	const at = text.lastIndexOf(WARNINGS);
	const warnings = [];
	for (const line of at < 0 ? [] : text.slice(at + WARNINGS.length).split("\n")) {
		const [, name, value] = MEMBER.exec(line) ?? [];
		if (line.startsWith("  - ")) warnings.push({});
		if (name) warnings.at(-1)[name] = /^["\d]/.test(value) ? JSON.parse(value) : value;
	}
	return { objects: at < 0 ? text : text.slice(0, at + 1), warnings };
}

/** Mistakes and warnings in the order of the text; "and 7 more" has no place and is last. */
export function marksOf(errors, warnings = []) {
	const all = [...errors.map((m) => ({ ...m, severity: "mistake" })),
		...warnings.map((m) => ({ ...m, severity: "warning" }))];
	const row = ({ line, pointer }) => line ?? (pointer === undefined ? Infinity : 0);
	return all.sort((a, b) => row(a) - row(b) || (a.column ?? 0) - (b.column ?? 0));
}

export const marksOfError = ({ errors, warnings, message }) =>
	marksOf(errors.length ? errors : [{ message }], warnings);

/** A JSON pointer as people write it: taskRoles.worker.ports[0] */
export const writtenPath = (pointer) => pointer.split("/").slice(1)
	.map((token) => token.replaceAll("~1", "/").replaceAll("~0", "~"))
	.map((key) => (/^\d+$/.test(key) ? `[${key}]` : PLAIN.test(key) ? `.${key}` : `["${key}"]`))
	.join("").replace(/^\./, "");

/** The items of a list; goTo(line, column) at a press. */
export const markItems = (marks, goTo) =>
	marks.map(({ line, column, severity, message, pointer = "" }) => {
		const sentence = severity === "warning" ? `warning: ${message}` : message;
		return el("li", { class: severity, "data-column": column },
			line ? link(`line ${line}: ${sentence}`, () => goTo(line, column)) : sentence,
			pointer && el("span", { class: "soft" }, ` ${writtenPath(pointer)}`));
	});

/** {marks, objects}; or {problem, offline, wait}: `wait` seconds before the next request. */
async function tryOut(text, signal) {
	try {
		const how = { signal, type: "text/yaml", accept: "application/yaml" };
		const reply = await send("POST", `${ROUTE}?dryRun=true`, text, how);
		const { objects, warnings } = answerOf(reply.text);
		return { objects, marks: marksOf([], warnings) };
	} catch (error) {
		const { status, retryAfter, message } = error;
		const isAnswer = status >= 400 && status < 500 && status !== 429;
		if (isAnswer) return { marks: marksOfError(error) };
		const wait = Math.max(retryAfter || 0, LIMITED_FIRST);
		return { problem: message, offline: status === 0, wait };
	}
}

/** Checks the newest text when nobody has typed for a moment; at most one check at a time. show()
 * gets {marks, objects} or {problem}. */
export class Checker {
	#timer;
	#isRunning = false;
	#limited = 0; // seconds until the next check

	constructor(editor, signal, show) {
		Object.assign(this, { editor, signal, show });
		signal.addEventListener("abort", () => {
			clearTimeout(this.#timer);
			connection(this, false);
		});
	}

	later(ms = Math.max(TYPING, this.#limited * 1000)) {
		clearTimeout(this.#timer);
		this.#timer = setTimeout(() => this.#check(), ms);
	}

	async #check() {
		const { editor, signal } = this;
		if (this.#isRunning) {
			this.later(TYPING);
			return;
		}
		this.#isRunning = true;
		const { text } = editor;
		const result = text.trim() ? await tryOut(text, signal) : { marks: [] };
		const { offline = false, wait = 0 } = result;
		this.#isRunning = false;
		connection(this, offline && !signal.aborted);
		if (signal.aborted) return;
		this.#limited = wait ? Math.min(Math.max(wait, 2 * this.#limited), LIMITED_LAST) : 0;
		if (editor.text === text) this.show(result);
		if (wait) this.later(this.#limited * 1000);
	}
}
