// The line above the list that stops, deletes, tags and compares the selected jobs.

import { addTag, deleteJob, stopJob } from "./actions.js";
import { button, el, fill, idOf, listed, plural } from "./dom.js";
import { announce, ask, go, shortcut } from "./frame.js";

const STOP = { verb: "Stop", act: stopJob, done: "stopped",
	warning: "All tasks end; a stopped job cannot be continued." };
const DELETE = { verb: "Delete", act: deleteJob, done: "deleted",
	warning: "A deleted job cannot be restored; its name is free again." };

const MOST = 20; // jobs that are compared
const named = (jobs) => `${plural(jobs.length, "job")}: ${listed(jobs.map(idOf))}`;
const allow = (one, why) => Object.assign(one, { disabled: why !== "", title: why });

/** The line of the selected jobs, which has its place also without any. */
export class Selection {
	#jobs = [];
	#total; // of the list, in words
	#count = el("p", { role: "status", "aria-label": "Number of jobs" });

	constructor(signal) {
		this.stop = button("Stop", () => this.#ask(STOP, this.#running), { class: "danger" });
		this.remove = button("Delete", () => this.#ask(DELETE, this.#jobs), { class: "danger" });
		this.compare = button("Compare", () => {
			go(`#/compare?${new URLSearchParams({ jobs: this.#jobs.map(idOf) })}`);
		});
		this.buttons = el("div", { class: "choices" }, this.stop, this.remove,
			button("Tag", () => this.#tag()), this.compare);
		this.element = el("div", { class: "selection" }, this.#count, this.buttons);
		shortcut("s", "stop the selected jobs", () => this.stop.click(), signal);
		this.update([]);
	}

	get #running() { return this.#jobs.filter(({ completedTime }) => !completedTime); }

	#say(text) {
		if (this.#count.textContent !== text) fill(this.#count, text);
	}

	/** Shows the selected rows, or, in words, the number of all. */
	update(selected, total = "") {
		this.#jobs = selected;
		this.#total = total;
		const n = this.#running.length;
		this.buttons.hidden = !selected.length;
		this.#say(selected.length ? `${selected.length} selected` : total);
		allow(this.stop, n ? "" : "All of them have ended");
		allow(this.remove, n ? `Stop them first: ${n} of them have not ended` : "");
		const isGood = selected.length > 1 && selected.length <= MOST;
		allow(this.compare, isGood ? "" : `Select 2 to ${MOST} jobs`);
	}

	/** act(id) for each; done: the word for it. At most four requests are open at a time. */
	async #forAll(jobs, act, done) {
		const refusals = [];
		let n = 0;
		const one = (job) => act(idOf(job)).catch(({ message }) => refusals.push(message))
			.then(() => this.#say(`${++n} of ${plural(jobs.length, "job")}`));
		await Promise.all(jobs.map(one));
		const refused = refusals.length ? `, ${refusals.length} refused: ${refusals[0]}` : "";
		this.update(this.#jobs, this.#total);
		announce(`${jobs.length - refusals.length} ${done}${refused}.`);
	}

	/** Asks once for all jobs before they are stopped or deleted. */
	async #ask({ verb, act, done, warning }, jobs) {
		const question = { text: `${verb} ${named(jobs)}? ${warning}`,
			verb: `${verb} ${plural(jobs.length, "job")}`, refuse: `Do not ${verb.toLowerCase()}` };
		if (await ask(question)) this.#forAll(jobs, act, done);
	}

	async #tag() {
		const jobs = this.#jobs;
		const more = { maxlength: 63, required: true, autofocus: true };
		const input = el("input", { "aria-label": "Tag", ...more });
		const tag = (id) => addTag(id, input.value.trim());
		if (await ask({ text: `Tag ${named(jobs)}`, verb: "Add the tag", input })) {
			this.#forAll(jobs, tag, "tagged");
		}
	}
}
