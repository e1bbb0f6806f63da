// Figures of use as text, an unknown one as "unknown"; the line of a running job with its GPUs.

import { get, send } from "./api.js";
import { button, el, field, fill, idOf, idleText, now, onlyChanges, plural,
	sizeOf, time } from "./dom.js";
import { announce, ask } from "./frame.js";

const MIB = 1048576;
const LOOK_MS = 10000; // between two looks at what a job uses
const HOURS = 24; // that a job is kept, if the user does not want other ones

const rounded = (n) => String(n < 10 ? Math.round(n * 10) / 10 : Math.round(n));

/** The text of a number, "unknown" without one. */
export const known = (n, text = rounded) => (Number.isFinite(n) ? text(n) : "unknown");
export const percent = (n) => known(n, (some) => `${rounded(some)} %`);
export const mebibytes = (n, isAtMost = false) =>
	(isAtMost && Number.isFinite(n) ? "at most " : "") + known(n, (some) => sizeOf(some * MIB));

/** The member `used` of a running job, of which `gpus` tells the number. */
export function usedText(used, gpus) {
	const { busy, cpus, gpuMemoryMB, memoryMB, memoryAtMost } = used ?? {};
	return [gpus && `GPUs busy ${percent(busy)}`, gpus && `GPU memory ${mebibytes(gpuMemoryMB)}`,
		`CPUs ${known(cpus)}`, `memory ${mebibytes(memoryMB, memoryAtMost)}`]
		.filter(Boolean).join(", ");
}

async function keep({ name, path }) {
	const hours = el("input", { type: "number", min: 1, step: 1, value: HOURS, required: true });
	const reason = el("input", { maxlength: 200, autocomplete: "off" });
	const text = `Keep ${name} though its GPUs do nothing? It gets no warning and is not stopped ` +
		"for so many hours. All who see the job see the reason.";
	const input = el("div", { class: "stack" }, field("Hours", hours), field("Reason", reason));
	if (!await ask({ verb: "Keep the job", text, input })) return;
	const body = { hours: Number(hours.value), reason: reason.value.trim() };
	await send("PUT", `${path}/keep`, body);
	announce(`${name} is kept for ${plural(body.hours, "hour")}.`);
}

/** Since when the GPUs of a job do nothing, with a button for those who may keep it; what it has
 * used in the last ten minutes. */
export class UseLine {
	#idle = el("span");
	#words = el("span");
	#kept = el("span");
	#error = el("span", { class: "error", role: "alert" });
	#once = onlyChanges();
	#looked = -Infinity;

	/** job: {id, name, path, mayChange}; refresh() reads it again. */
	constructor(host, job, refresh) {
		this.job = job;
		this.keep = () => keep(job).then(() => { fill(this.#error); refresh(); },
			({ message }) => fill(this.#error, message));
		fill(host, this.#idle, this.#words, this.#kept, this.#error);
	}

	show({ gpuIdleSince: since, gpuKeptUntil: until, gpuKeepReason: why }) {
		this.#once("idle", since, () => fill(this.#idle, since && [
			el("b", { class: "idle" }, `GPUs ${idleText(since)}`),
			this.job.mayChange && button("Keep", this.keep,
				{ title: "Keep: neither warn nor stop the job for some hours" })]));
		this.#once("kept", until, () => fill(this.#kept, until &&
			`(kept until ${time(until)} though its GPUs do nothing${why ? `: ${why}` : ""})`));
		if (document.hidden || now() - this.#looked < LOOK_MS) return;
		this.#looked = now();
		get("api/v2/machine").then(({ running }) => {
			const row = running.find((one) => idOf(one) === this.job.id);
			const text = row && `last 10 minutes: ${usedText(row.used, row.gpus)}`;
			this.#once("words", text, () => fill(this.#words, text));
		}, () => {}); // the next look may succeed
	}
}
