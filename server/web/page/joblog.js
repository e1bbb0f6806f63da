// The log on the page of a job: of one attempt of a task, or of all tasks.

import { pause } from "./api.js";
import { el, fill, onlyChanges } from "./dom.js";
import { announce } from "./frame.js";
import { LogView } from "./logview.js";
import { isOver } from "./tasks.js";

const MARK_MS = 200, MARK_MOST = 50; // between looks for the marked line while its log is read

/** choose(change) shows another attempt; picked(line): a line is chosen, or none. tries: the
 * attempts of the task. */
export class JobLog {
	tries = el("select", { "aria-label": "Attempt of the task", hidden: true });
	#tasks = new Map();
	#log; // a LogView
	#stop = new AbortController();
	#once = onlyChanges();

	constructor(host, { name, signal, choose, picked }) {
		Object.assign(this, { host, name, signal, picked });
		this.tries.addEventListener("change", () => choose({ try: this.tries.value, line: null }));
	}

	/** The log of one attempt of a task. */
	#source([name, attempt]) {
		const task = () => this.#tasks.get(name) ?? {};
		const { role, taskIndex } = task();
		return { name, file: `${this.name}-${role}-${taskIndex}`,
			get path() { // empty until the task has begun
				return task().containerLog?.slice(1).replace(/\d+\/logs$/, `${attempt}/logs`) ?? "";
			},
			ended: () => attempt !== task().attemptId || isOver(task().taskState) };
	}

	/** Returns the attempt that is shown, of those of the task. */
	#showTries(name, tried) {
		const latest = this.#tasks.get(name)?.attemptId ?? 0;
		const chosen = Math.max(0, Math.min(latest, (Number(tried) || latest + 1) - 1));
		this.tries.hidden = latest === 0;
		this.#once("tries", [name, latest, chosen], () => fill(this.tries,
			Array.from({ length: latest + 1 }, (_, i) =>
				el("option", { value: i + 1, selected: i === chosen }, `attempt ${i + 1}`))));
		return chosen;
	}

	/** Shows a task, or all, of an attempt of the job; at: as in the address; mark: of LogView. */
	show({ attempt, tasks, task, at, mark }) {
		this.#tasks = tasks;
		const tried = this.#showTries(task, at.try);
		const wanted = tasks.has(task) ? [[task, tried]]
			: [...tasks].map(([name, { attemptId }]) => [name, attemptId]);
		this.#once("log", [attempt, wanted], () => this.#open(wanted, at, mark));
		this.#once("mark", mark, () => this.#log?.setMark(mark));
	}

	#open(wanted, at, mark) {
		this.#stop.abort();
		this.#stop = new AbortController();
		if (this.#log && at.line) this.picked(null); // a line of another attempt
		if (!wanted.length) {
			fill(this.host, el("p", { class: "soft" }, "There is no log yet."));
			return;
		}
		this.#log = new LogView(this.host, wanted.map((one) => this.#source(one)), {
			job: this.name, line: at.line, mark, picked: this.picked,
			signal: AbortSignal.any([this.signal, this.#stop.signal]),
		});
	}

	/** Shows the marked line, as soon as the log has it. */
	async goToMark() {
		for (let i = 0; i < MARK_MOST; i++) {
			if (this.#log?.goToMark()) return;
			await pause(MARK_MS, this.signal);
		}
		announce("This line is not in the log.");
	}
}
