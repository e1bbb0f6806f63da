// Mistakes and warnings of the text of a job: from answers of the server to a list.

import { button, el } from "./dom.js";

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
			line ? button(`line ${line}: ${sentence}`, () => goTo(line, column)) : sentence,
			pointer && el("span", { class: "soft" }, ` ${writtenPath(pointer)}`));
	});
