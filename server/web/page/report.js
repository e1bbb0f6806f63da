// GPU hours that jobs have held on this machine, and the part of them that was idle.

import { get } from "./api.js";
import { el, field, fill, now, plainTable, scrolled, svg, titled } from "./dom.js";
import { setQuery } from "./frame.js";
import { known, percent } from "./used.js";

const DAY = 86400e3;
const DAYS = 30; // without other ones in the address
const MOST = 500; // rows in the document
const BY = [["user", "User"], ["virtualCluster", "Virtual cluster"], ["week", "Week"]];

const dayOf = (ms) => new Date(ms).toISOString().slice(0, 10); // UTC, as the server counts weeks
const shareOf = ({ gpuHours, gpuIdleHours: idle }) =>
	(gpuHours > 0 && Number.isFinite(idle) ? (100 * idle) / gpuHours : null);

/** A bar of the GPU hours, its idle part in another tone. */
function bar({ gpuHours, gpuIdleHours }, most) {
	const part = (kind, x, hours) => svg("rect", { class: kind, x: (100 * x) / most, y: 0,
		width: (100 * hours) / most, height: 1 });
	const used = gpuHours - (gpuIdleHours ?? 0);
	return svg("svg", { viewBox: "0 0 100 1", preserveAspectRatio: "none", "aria-hidden": "true" },
		part("used", 0, used), part("idle-part", used, gpuIdleHours ?? 0));
}

function reportTable(rows, by) {
	const most = rows.reduce((greatest, { gpuHours }) => Math.max(greatest, gpuHours), 0) || 1;
	const value = (name) => (row) =>
		(name === "week" ? known(row.week, dayOf) : row[name] || "unknown");
	const heads = BY.filter(([name]) => by.includes(name));
	return plainTable("GPU hours", [...heads.map(([name, head], i) =>
		[head, value(name), i ? "" : "rowheader"]),
	["GPU hours", (row) => [known(row.gpuHours), bar(row, most)], "number"],
	["Idle", (row) => (row.gpuHours ? percent(shareOf(row)) : "-"), "number"],
	["CPU hours", (row) => known(row.cpuHours), "number"],
	["Energy", (row) => known(row.energyWh, (n) => `${known(n / 1000)} kWh`), "number"],
	["Attempts", (row) => row.attempts, "number"], ["Failed", (row) => row.failed, "number"]],
	rows, { class: "folds report" });
}

function shown({ rows, more }, by) {
	if (!rows.length) return el("p", null, "No task has held anything in this time.");
	const sorted = rows.toSorted((a, b) =>
		(b.week ?? 0) - (a.week ?? 0) || b.gpuHours - a.gpuHours);
	const gpuHours = rows.reduce((sum, row) => sum + row.gpuHours, 0);
	const gpuIdleHours = rows.reduce((sum, row) => sum + (row.gpuIdleHours ?? NaN), 0);
	const left = rows.length - MOST;
	return [el("p", null, `Together ${known(gpuHours)} GPU hours, ` +
		`idle: ${percent(shareOf({ gpuHours, gpuIdleHours }))}`),
	scrolled("GPU hours", reportTable(sorted.slice(0, MOST), by)),
	(left > 0 || more) && el("p", { class: "soft" }, left > 0 ? `and ${left} more: ` : "and more: ",
		el("code", null, "rest-lit report --csv"))];
}

export default async function reportPage(root, params, signal) {
	const chosen = (params.by ?? "user").split(",");
	const day = (name, value) => el("input", { type: "date", name, value, required: true });
	const box = ([name, label]) => el("label", { class: "check" },
		el("input", { type: "checkbox", name, checked: chosen.includes(name) }), label);
	const form = el("form", { class: "toolbar", "aria-label": "Report" },
		field("Since", day("since", params.since ?? dayOf(now() - DAYS * DAY))),
		field("Until the end of", day("until", params.until ?? dayOf(now()))), BY.map(box),
		el("button", { class: "primary" }, "Show"));
	const host = el("div");
	const read = async () => {
		const { since, until, ...boxes } = Object.fromEntries(new FormData(form));
		const by = BY.map(([name]) => name).filter((name) => boxes[name]).join(",") || "user";
		setQuery({ since, until, by });
		const end = Date.parse(until) + DAY;
		const query = new URLSearchParams({ since, until: Math.min(end, now()) || "", by });
		await get(`api/v2/report?${query}`, { signal }).then((answer) =>
			fill(host, shown(answer, by.split(","))), ({ message }) =>
			signal.aborted || fill(host, el("p", { class: "error", role: "alert" }, message)));
	};
	form.addEventListener("submit", (event) => {
		event.preventDefault();
		read();
	});
	fill(root, el("h1", { tabindex: "-1" }, "GPU hours"), form,
		titled("Held by tasks", host));
	await read();
}
