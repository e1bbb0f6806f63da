// Checks of the text of a job while it is typed, by dry runs.

import { connection, send } from "./api.js";
import { answerOf, marksOf, marksOfError } from "./mistakes.js";

/** The route of v1 takes all dialects of the server and has the messages of `rest-lit validate`. */
export const ROUTE = "api/v1/jobs";

const TYPING = 200; // ms without a key before the text is checked
const LIMITED_FIRST = 2; // seconds between checks when the server limits them
const LIMITED_LAST = 30;

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
