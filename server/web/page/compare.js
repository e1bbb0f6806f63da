// Two jobs beside each other: their states, and what differs in their configuration.

import { get } from "./api.js";
import { el, exitText, fill, hashOf, panel, pathOf, plainTable, runTime, state, time,
	titled } from "./dom.js";

const NAMES = ["name", "jobName", "metadata.name"]; // differ always

const isTexts = (value) => Array.isArray(value) && value.every((one) => typeof one === "string");

/** The values of a configuration as texts, by paths such as taskRoles.worker.instances; texts in an
 * array, such as commands, are lines of one value. */
export function flat(value, path = "", found = new Map()) {
	if (isTexts(value)) return found.set(path, value.join("\n"));
	if (value === null || typeof value !== "object") return found.set(path, String(value));
	for (const [key, one] of Object.entries(value)) {
		const name = /^[\w-]+$/.test(key) ? key : JSON.stringify(key);
		const next = Array.isArray(value) ? `[${key}]` : (path && ".") + name;
		flat(one, path + next, found);
	}
	return found;
}

/** [path, value of a, value of b] of what differs; a value that is not there is undefined. */
export function differences(a, b) {
	const [first, second] = [flat(a), flat(b)];
	return [...new Set([...first.keys(), ...second.keys()])]
		.filter((path) => first.get(path) !== second.get(path) && !NAMES.includes(path))
		.map((path) => [path, first.get(path), second.get(path)]);
}

/** A line, with a mark from the first to the last word that the other line does not have there. */
function markedWords(line, other) {
	const [words, others] = [line, other].map((text) => text.split(/(?<=\s)/));
	const from = words.findIndex((one, i) => one !== others[i]);
	const end = words.findLastIndex((one, i) => one !== others.at(i - words.length));
	if (words.length + others.length < 3 || from < 0) return line;
	const [first, last] = [Math.min(from, end), Math.max(from, end) + 1];
	const text = (...range) => words.slice(...range).join("");
	return [text(0, first), el("mark", null, text(first, last)), text(last)];
}

/** A value, with marks at the lines or words that the other one does not have. */
function shown(value, other) {
	if (value === undefined) return el("span", { class: "soft" }, "not set");
	if (other === undefined) return el("pre", null, value);
	const lines = value.split("\n"), others = other.split("\n");
	if (lines.length + others.length === 2) return el("pre", null, markedWords(value, other));
	const line = (text) => (others.includes(text) ? `${text}\n` : el("mark", null, `${text}\n`));
	return el("pre", null, lines.map(line));
}

/** rows: [name, value of a, value of b]. */
function table(label, first, jobs, rows) {
	const links = jobs.map((id, i) => [el("a", { href: hashOf(id) }, id), (row) => row[i + 1]]);
	const columns = [[first, ([name]) => name, "rowheader"], ...links];
	return plainTable(label, columns, rows, { class: "compared" });
}

export default async function comparePage(root, { a, b }, signal) {
	const jobs = [a, b];
	const what = !a || !b ? "Select two jobs in the list, then press Compare." : null;
	fill(root, el("h1", { tabindex: "-1" }, "Compare two jobs"), what);
	if (what) return;
	const read = (id) => Promise.all([pathOf(id), `${pathOf(id)}/config`]
		.map((path) => get(path, { signal })))
		.catch((error) => { throw Object.assign(error, { message: `${id}: ${error.message}` }); });
	const [[first, one], [second, two]] = await Promise.all(jobs.map(read));
	const fact = (name, value) => [name, value(first.jobStatus), value(second.jobStatus)];
	const exit = (job) => exitText(job.appExitCode, job.appExitSpec);
	const facts = [fact("State", (job) => state(job.state)), fact("Duration", runTime),
		fact("Exit", exit), fact("Submitted", (job) => time(job.submissionTime)),
		fact("User", (job) => job.username)];
	const rows = differences(one, two).map(([path, x, y]) => [path, shown(x, y), shown(y, x)]);
	root.append(panel("Facts", table("Facts", "Job", jobs, facts)),
		titled("Configuration", rows.length
			? table("Differences", "Path", jobs, rows)
			: el("p", null, "Both jobs have the same configuration.")));
}
