// Jobs beside each other: parameters that differ, states, a metric of their logs with its curves;
// of two jobs, also what differs in their configuration.

import { get, getText } from "./api.js";
import { el, exitText, field, fill, hashOf, panel, pathOf, plainTable, runTime, scrolled, state,
	time, titled } from "./dom.js";
import { setQuery } from "./frame.js";
import { colourOf, curves, namesIn, valuesOf } from "./metric.js";

const MOST = 20; // jobs
const LOG = "all?tail-mode=true&tail-bytes=262144";
const HIGHER = /acc|auc|f1|score|rew|map|bleu|rouge|psnr|precision|recall|iou|dice/i; // is better
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

/** A job: {id, status, config, log}. */
async function read(id, signal) {
	const how = { signal };
	const [{ jobStatus, taskRoles }, config] = await Promise.all(
		[pathOf(id), `${pathOf(id)}/config`].map((path) => get(path, how)),
	).catch((error) => { throw Object.assign(error, { message: `${id}: ${error.message}` }); });
	const { containerLog } = Object.values(taskRoles ?? {})[0]?.taskStatuses?.[0] ?? {};
	const log = containerLog?.startsWith("/") &&
		await getText(`${containerLog.slice(1)}/${LOG}`, how)
			.catch(() => signal.throwIfAborted()); // there is none, or none that may be seen
	return { id, status: jobStatus, config, log: log || "" };
}

/** Those of the parameters that differ, of any of the jobs. */
function parametersOf(jobs) {
	const all = jobs.map(({ config }) => config.parameters ?? {});
	const names = [...new Set(all.flatMap(Object.keys))];
	const text = (one, name) =>
		(typeof one[name] === "string" ? one[name] : JSON.stringify(one[name]));
	return names.filter((name) => all.some((one) => text(one, name) !== text(all[0], name)))
		.map((name) => [name, ({ config }) => text(config.parameters ?? {}, name)]);
}

/** The table of the jobs, the best one first, and the curves of a metric. */
function showRuns(host, jobs, metric, isHigher) {
	const pick = isHigher ? "max" : "min";
	const runs = jobs.map((job, i) => {
		const values = valuesOf(metric, job.log);
		const finite = values.filter((value) => !Number.isNaN(value));
		const best = finite.length ? finite.reduce((a, b) => Math[pick](a, b)) : NaN;
		return { ...job, i, values, best };
	});
	const order = isHigher ? -1 : 1;
	const rows = runs.toSorted((a, b) => Number.isNaN(a.best) - Number.isNaN(b.best) ||
		order * (a.best - b.best) || a.i - b.i);
	const key = (i) => {
		const one = el("i", { class: "key" });
		one.style.color = colourOf(i);
		return one;
	};
	const link = ({ id, i }) => [key(i), el("a", { href: hashOf(id) }, id)];
	const figure = (value) => (Number.isNaN(value) ? "" : String(value));
	const columns = [["Job", link, "rowheader"], ...parametersOf(jobs),
		["State", ({ status: job }) => state(job.state)],
		["Duration", ({ status: job }) => runTime(job)],
		["Exit", ({ status: job }) => exitText(job.appExitCode, job.appExitSpec)],
		["Submitted", ({ status }) => time(status.submissionTime)],
		[`best ${metric}`, ({ best }) => figure(best), "number"],
		[`last ${metric}`, ({ values }) => values.length > 0 && String(values.at(-1)), "number"]];
	fill(host, curves(metric, runs.map(({ id, values }) => ({ name: id, values }))) ??
		el("p", { class: "soft" }, `No log has a value of ${metric || "a metric"}.`),
	scrolled("Runs", plainTable("Runs", columns, rows, { class: "runs" })));
}

/** The field of the metric, with the names that logs have. */
function metricBar(jobs, params, changed) {
	const names = [...new Set(jobs.flatMap(({ log }) => namesIn(log)))];
	const named = names.find((name) => name.toLowerCase() === "loss") ?? names[0] ?? "loss";
	const input = el("input", { type: "search", value: params.metric ?? named, list: "metrics",
		autocomplete: "off" });
	const box = el("input", { type: "checkbox" });
	const change = (isName) => {
		if (isName) box.checked = HIGHER.test(input.value);
		changed(input.value.trim(), box.checked);
	};
	input.addEventListener("input", () => change(true));
	box.addEventListener("change", () => change(false));
	box.checked = params.best ? params.best === "highest" : HIGHER.test(input.value);
	change(false);
	return el("div", { class: "toolbar" }, field("Metric", input),
		el("datalist", { id: "metrics" }, names.map((value) => el("option", { value }))),
		el("label", { class: "check" }, box, "Higher is better"));
}

/** The differences of the configurations: of two jobs as a table, of more by name. */
function configurations(jobs) {
	const [first, ...others] = jobs;
	const rows = differences(first.config, others[0].config);
	if (jobs.length === 2) {
		return titled("Configuration", rows.length
			? table("Differences", "Path", jobs.map(({ id }) => id),
				rows.map(([path, x, y]) => [path, shown(x, y), shown(y, x)]))
			: el("p", null, "Both jobs have the same configuration."));
	}
	const paths = others.flatMap(({ config }) => differences(first.config, config))
		.map(([path]) => path).filter((path) => !path.startsWith("parameters."));
	return paths.length > 0 && titled("Configuration",
		el("p", null, `These differ, too: ${[...new Set(paths)].join(", ")}`));
}

export default async function comparePage(root, params, signal) {
	const ids = (params.jobs ?? "").split(",").filter(Boolean);
	const isGood = ids.length > 1 && ids.length <= MOST;
	const what = isGood ? null : `Select 2 to ${MOST} jobs in the list, then press Compare.`;
	fill(root, el("h1", { tabindex: "-1" }, isGood ? `Compare ${ids.length} jobs` : "Compare jobs"),
		what);
	if (what) return;
	const jobs = await Promise.all(ids.map((id) => read(id, signal)));
	const host = el("div");
	let bar = null;
	bar = metricBar(jobs, params, (metric, isHigher) => {
		showRuns(host, jobs, metric, isHigher);
		if (bar) setQuery({ jobs: ids.join(","), metric, best: isHigher ? "highest" : "lowest" });
	});
	root.append(panel("Runs of a metric", bar, host));
	const more = configurations(jobs);
	if (more) root.append(more);
}
