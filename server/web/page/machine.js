// The machine of --local: its GPUs, CPUs and memory, the jobs that have them, and the queue.

import { get, keepAsking, pause } from "./api.js";
import { el, fill, hashOf, idOf, idleText, onlyChanges, plainTable, plural, scrolled, sizeOf,
	titled } from "./dom.js";
import { known, mebibytes, percent, usedText } from "./used.js";

const EVERY = 3000;
const MOST_ROWS = 200;
const TONES = 3; // classes gpu-0, gpu-1, ... of style.css
const MIB = 1048576;

const jobLink = (job) => el("a", { href: hashOf(idOf(job)) }, job.name);

/** Use of a GPU, of which figures are shown only if the machine has them; programs outside. */
function stateOf({ busy, memoryMB, totalMB, powerW, idleSince, outside = [] }, hasFigures) {
	const isBusy = Number.isFinite(busy);
	const figures = hasFigures && [
		el("label", { class: "use" }, `busy ${percent(busy)}`,
			isBusy && el("meter", { min: 0, max: 100, value: busy })),
		el("span", null, `memory ${mebibytes(memoryMB)} of ${mebibytes(totalMB)}`),
		Number.isFinite(powerW) && el("span", null, `${Math.round(powerW)} W`)];
	const program = ({ pid, user, program: name, memoryMB: memory }) =>
		el("span", { class: "outside" }, `outside: ${name || "unknown"} ` +
			`(pid ${known(pid, String)}, ${user || "unknown"}, ${mebibytes(memory)})`);
	return [figures, idleSince && el("b", { class: "idle" }, idleText(idleSince)),
		outside.map(program)];
}

/** For each GPU {kind, holder, text}; those of a job have the same mark. */
function tilesOf({ gpus, gpusForeign, running, gpuStates = [] }) {
	const free = { kind: "gpu", holder: "free", text: "free" };
	const tiles = Array.from({ length: gpus }, () => ({ ...free }));
	running.forEach((job, i) => {
		for (const index of job.gpuIndexes ?? []) {
			const text = [jobLink(job), el("span", null, job.username)];
			tiles[index] = { kind: `gpu gpu-${i % TONES}`, holder: idOf(job), text };
		}
	});
	const other = "another program"; // it is not known which GPUs it has, unless it is outside
	const isOutside = (tile) => gpuStates[tiles.indexOf(tile)]?.outside.length > 0;
	const isFree = ({ holder }) => holder === "free";
	const left = tiles.filter(isFree).sort((a, b) => isOutside(b) - isOutside(a));
	for (const tile of left.slice(0, gpusForeign)) {
		Object.assign(tile, { kind: "gpu gpu-foreign", holder: other, text: other });
	}
	return tiles;
}

function gpuTiles(machine) {
	const { gpus, gpusHeld, gpusForeign, gpuStates = [], gpuFigures } = machine;
	if (!gpus) return el("p", { class: "soft" }, "This machine has no GPUs for jobs.");
	const free = Math.max(0, gpus - gpusHeld - gpusForeign);
	const foreign = gpusForeign ? `${gpusForeign} by other programs, ` : "";
	const summary = `${plural(gpus, "GPU")}: ${gpusHeld} in use by jobs, ${foreign}${free} free`;
	const draw = ({ kind, holder, text }, i) =>
		el("li", { class: kind, title: `GPU ${i}: ${holder}` }, el("b", null, i), text,
			gpuStates[i] && stateOf(gpuStates[i], !gpuFigures));
	return [el("p", null, summary), gpuFigures && el("p", { class: "soft" }, gpuFigures),
		el("ul", { class: "gpus", "aria-label": summary }, tilesOf(machine).map(draw))];
}

function meter(label, held, all, shown) {
	const text = `${label}: ${shown(held)} of ${shown(all)} in use by jobs`;
	return el("label", { class: "use" }, text, el("meter", { min: 0, max: all, value: held }));
}

function table(label, columns, rows, empty) {
	if (!rows.length) return el("p", { class: "soft" }, empty);
	const more = rows.length - MOST_ROWS;
	const all = plainTable(label, columns, rows.slice(0, MOST_ROWS), { class: "folds" });
	return [scrolled(label, all), more > 0 && el("p", { class: "soft" }, `and ${more} more`)];
}

const JOB = [["Job", jobLink], ["User", (job) => job.username]];
const SIZE = [["Tasks", (job) => job.tasks, "number"], ["GPUs", (job) => job.gpus, "number"],
	["CPUs", (job) => job.cpus, "number"],
	["Memory", (job) => sizeOf(job.memoryMB * MIB), "number"]];
const RUNNING = [...JOB, ...SIZE, ["GPU numbers", (job) => job.gpuIndexes?.join(", ")],
	["Last 10 minutes", (job) => job.used && [usedText(job.used, job.gpus), job.used.gpuIdleSince &&
		el("b", { class: "idle" }, ` GPUs ${idleText(job.used.gpuIdleSince)}`)]]];
const PLACE = ["Place", (job) => job.position, "number"];
const QUEUE = [PLACE, ...JOB, ...SIZE, ["Waits for", (job) => job.message]];

const shown = (machine) => [
	el("div", { class: "columns" }, titled("GPUs", gpuTiles(machine)), titled("CPUs and memory",
		meter("CPUs", machine.cpusHeld, machine.cpus, (n) => n),
		meter("Memory", machine.memoryMBHeld, machine.memoryMB, (n) => sizeOf(n * MIB)))),
	titled("Running", table("Running jobs", RUNNING, machine.running, "No job is running.")),
	titled("Queue", table("Waiting jobs", QUEUE, machine.queue, "No job is waiting.")),
];

/** Makes a node like a fresh one; elements and links that are the same keep the focus. */
function renew(node, fresh) {
	const nodes = [node.childNodes, fresh.childNodes];
	const isSame = node.nodeName === fresh.nodeName && nodes[0].length === nodes[1].length &&
		node.attributes?.href?.value === fresh.attributes?.href?.value;
	if (!isSame || node.nodeType === Node.TEXT_NODE) {
		if (!node.isEqualNode(fresh)) node.replaceWith(fresh);
		return;
	}
	for (const { name } of [...node.attributes]) {
		if (!fresh.hasAttribute(name)) node.removeAttribute(name);
	}
	for (const { name, value } of fresh.attributes) node.setAttribute(name, value);
	const pairs = [...nodes[0]].map((child, i) => [child, nodes[1][i]]);
	for (const [child, next] of pairs) renew(child, next);
}

export default async function machinePage(root, params, signal) {
	const parts = el("div");
	const once = onlyChanges(); // links keep the focus
	fill(root, el("h1", { tabindex: "-1" }, "Machine"), parts,
		el("p", null, el("a", { href: "#/report" }, "GPU hours of users and weeks")));
	for (;;) {
		const machine = await keepAsking(() => get("api/v2/machine", { signal }), signal);
		once("machine", machine, () => (parts.hasChildNodes()
			? renew(parts, el("div", null, shown(machine))) : fill(parts, shown(machine))));
		await pause(EVERY, signal);
	}
}
