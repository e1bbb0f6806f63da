// The machine of --local: its GPUs, CPUs and memory, the jobs that have them, and the queue.

import { connection, get, isPassing, pause } from "./api.js";
import { el, fill, plainTable } from "./dom.js";
import { bytes, plural } from "./format.js";
import { hashOf, idOf } from "./jobs.js";

export const title = "Machine";

const EVERY = 3000;
const MOST_ROWS = 200;
const TONES = 3; // classes gpu-0, gpu-1, ... of style.css
const MIB = 1048576;

const jobLink = (job) => el("a", { href: hashOf(idOf(job)) }, job.name);

/** A tile for each GPU, with its job; the tiles of a job have the same mark. */
function gpuTiles({ gpus, gpusHeld, gpusForeign, running }) {
	if (!gpus) return el("p", { class: "soft" }, "This machine has no GPUs for jobs.");
	const tiles = Array.from({ length: gpus }, () => null);
	running.forEach((job, i) => {
		for (const index of job.gpuIndexes ?? []) {
			const text = [jobLink(job), el("span", null, job.username)];
			tiles[index] = { kind: `gpu gpu-${i % TONES}`, holder: idOf(job), text };
		}
	});
	for (let n = 0, i = 0; n < gpusForeign && i < gpus; i++) {
		if (tiles[i]) continue;
		tiles[i] = { kind: "gpu gpu-foreign", holder: "another program", text: "another program" };
		n++;
	}
	const free = Math.max(0, gpus - gpusHeld - gpusForeign);
	const foreign = gpusForeign ? `${gpusForeign} by other programs, ` : "";
	const summary = `${plural(gpus, "GPU")}: ${gpusHeld} in use by jobs, ${foreign}${free} free`;
	const draw = (tile, i) => {
		const { kind = "gpu", holder = "free", text = "free" } = tile ?? {};
		return el("li", { class: kind, title: `GPU ${i}: ${holder}` }, el("b", null, i), text);
	};
	return [el("p", null, summary), el("ul", { class: "gpus", "aria-label": summary }, tiles.map(draw))];
}

function meter(label, held, all, shown) {
	const text = `${label}: ${shown(held)} of ${shown(all)} in use by jobs`;
	return el("label", { class: "use" }, text, el("meter", { min: 0, max: all, value: held }));
}

function table(label, columns, rows, empty) {
	if (!rows.length) return el("p", { class: "soft" }, empty);
	const more = rows.length - MOST_ROWS;
	return [
		el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
			plainTable(label, columns, rows.slice(0, MOST_ROWS), { class: "folds" })),
		more > 0 && el("p", { class: "soft" }, `and ${more} more`),
	];
}

const JOB = [["Job", jobLink], ["User", (job) => job.username]];
const SIZE = [
	["Tasks", (job) => job.tasks, "number"],
	["GPUs", (job) => job.gpus, "number"],
	["CPUs", (job) => job.cpus, "number"],
	["Memory", (job) => bytes(job.memoryMB * MIB), "number"],
];
const RUNNING = [...JOB, ...SIZE, ["GPU numbers", (job) => job.gpuIndexes?.join(", ")]];
const PLACE = ["Place", (job) => job.position, "number"];
const QUEUE = [PLACE, ...JOB, ...SIZE, ["Waits for", (job) => job.message]];

export default async function machinePage(root, params, signal) {
	const [gpus, others, running, queue] = Array.from({ length: 4 }, () => el("div"));
	const panel = (heading, part) =>
		el("section", { class: "panel", "aria-label": heading }, el("h2", null, heading), part);
	const shown = el("div", { hidden: true }, // until it has its height
		el("div", { class: "columns" }, panel("GPUs", gpus), panel("CPUs and memory", others)),
		panel("Running", running), panel("Queue", queue));
	let before;
	const show = (machine) => {
		if (JSON.stringify(machine) === before) return; // links keep the focus
		before = JSON.stringify(machine);
		fill(gpus, gpuTiles(machine));
		fill(others, meter("CPUs", machine.cpusHeld, machine.cpus, (n) => n),
			meter("Memory", machine.memoryMBHeld, machine.memoryMB, (n) => bytes(n * MIB)));
		fill(running, table("Running jobs", RUNNING, machine.running, "No job is running."));
		fill(queue, table("Waiting jobs", QUEUE, machine.queue, "No job is waiting."));
		shown.hidden = false;
	};
	fill(root, el("h1", { tabindex: "-1" }, title), shown);
	signal.addEventListener("abort", () => connection(machinePage, false));
	for (;;) {
		try {
			show(await get("api/v2/machine", { signal }));
			connection(machinePage, false);
		} catch (error) {
			if (!isPassing(error)) throw error;
			connection(machinePage, true);
		}
		await pause(EVERY, signal);
	}
}
