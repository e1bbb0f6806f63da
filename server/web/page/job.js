// The page of a job: reads it again when something may have changed.

import { get, pause, watch } from "./api.js";
import { el, fill, onlyChanges, pathOf } from "./dom.js";
import { JobView } from "./jobview.js";
import { isOver } from "./tasks.js";

const UNSEEN_MS = 30000; // between looks for the title of a tab that nobody sees
// Between looks for changes while connections are short; ... of a job that has ended.
const WATCH_MS = 3000, OVER_MS = 10000;
const LOOK_MS = 5000; // while nothing happens: for durations, events of pods, the reason of waiting
const SLOW = 5; // the pause between two looks, in durations of an answer

class JobPage {
	#detail; // as it was read last; null: there is none
	#isDue = true; // it is to be read again
	#wake = () => {};

	constructor(root, params, signal) {
		Object.assign(this, { path: pathOf(params.job), signal });
		this.view = new JobView(params, signal, () => this.#refresh());
		fill(root, this.view.element);
		const clock = setInterval(() => this.#isOver || this.view.tick(), 1000);
		signal.addEventListener("abort", () => { clearInterval(clock); this.#refresh(); });
	}

	get #isOver() { return isOver(this.view.live?.jobStatus.state); }

	#refresh() {
		this.#isDue = true;
		this.#wake();
	}

	/** Hears of each change; throws when the job is gone. */
	async #watch() {
		const { path, signal } = this;
		const once = onlyChanges();
		const event = (name, data) => once("job", data, () => this.#refresh());
		for (;;) {
			await watch(`${path}/watch`, { signal, event, every: WATCH_MS, unseen: UNSEEN_MS });
			await pause(OVER_MS, signal);
		}
	}

	#read() {
		return get(this.path, { signal: this.signal }).catch((error) => {
			if (error.status === 404) return null;
			if (!this.#detail || error.status === undefined) throw error;
			this.#isDue = true;
			return this.#detail;
		});
	}

	/** Shows the job until it is gone, or the page is left. */
	async follow() {
		const { signal, view } = this;
		this.#watch().catch(() => this.#refresh());
		while (!signal.aborted) {
			const begun = Date.now();
			if (this.#isDue || this.#detail.jobStatus.waitingReason) {
				this.#isDue = false;
				this.#detail = await this.#read();
			}
			if (!this.#detail) return;
			await view.show(this.#detail);
			await pause(Math.max(1000, SLOW * (Date.now() - begun)), signal);
			if (!this.#isDue) await new Promise((resolve) => {
				this.#wake = resolve;
				if (!this.#isOver) setTimeout(resolve, LOOK_MS);
			});
		}
	}
}

export default async function jobPage(root, params, signal) {
	const page = new JobPage(root, params, signal);
	await page.follow();
	if (page.view.live) fill(page.view.head.state, "The job was removed.");
	else {
		document.title = "Not found - rest-lit";
		fill(root, el("h1", null, "Not found"), el("p", null, `There is no job ${params.job}.`));
	}
}
