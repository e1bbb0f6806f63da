// The rows of the list of jobs, which follow the server.

import { get, pause, watch } from "./api.js";
import { idOf } from "./dom.js";

const ALL = 50000;
const REASONS_MS = 2000, REASONS_OLD = 5; // every fifth time also for jobs whose reason is known

const queryOf = ({ tag, ...filter }) => new URLSearchParams(
	Object.entries({ ...filter, tagsContain: tag }).filter(([, value]) => value));

/** The jobs that a filter takes. changed() is called after each change of `rows`, until the signal
 * aborts. */
export class Feed {
	constructor(filter, rows, signal, changed) {
		Object.assign(this, { query: queryOf(filter), rows, signal, changed });
	}

	#list(more) {
		const query = `${this.query}&${new URLSearchParams(more)}`;
		return get(`api/v2/jobs?${query}`, { signal: this.signal });
	}

	#event(name, data) {
		const before = this.rows.get(idOf(data));
		if (name === "reset") this.rows.clear();
		else if (name === "gone" || data.left) this.rows.delete(idOf(data));
		else {
			const reason = data.state === "WAITING" ? before?.waitingReason : null;
			this.rows.set(idOf(data), { ...data, waitingReason: reason });
		}
		this.changed();
	}

	/** Events have no reasons why jobs wait: undefined, not yet known. */
	async #readReasons() {
		const { rows, signal } = this;
		for (let i = 1; ; i++) {
			await pause(REASONS_MS, signal);
			const waiting = [...rows.values()].filter((row) => row.state === "WAITING");
			const isNew = waiting.some((row) => row.waitingReason === undefined);
			if (!isNew && (i % REASONS_OLD || !waiting.length)) continue;
			const found = await this.#list({ state: "WAITING", limit: 1000 }).catch(() => []);
			for (const row of found.filter((one) => rows.get(idOf(one))?.state === "WAITING")) {
				rows.set(idOf(row), { waitingReason: null, ...row });
			}
			this.changed();
		}
	}

	/** Reads the newest jobs, as many as `first`, or all; then follows their changes. */
	async follow(first = ALL) {
		const { query, signal } = this;
		this.#readReasons().catch(() => {});
		// After an outage all jobs are read again: the changes of that time lack removals.
		for (let most = first; ; most = ALL) {
			await this.#list({ limit: most }).then((found) => {
				if (found.length < most) this.rows.clear();
				for (const row of found) this.rows.set(idOf(row), row);
				this.changed();
			}, () => {}); // watch() tries again
			const stream = new AbortController();
			const both = AbortSignal.any([signal, stream.signal]);
			const event = (name, data) => this.#event(name, data);
			const lost = (yes) => yes || stream.abort();
			await watch(`api/v2/jobs/watch?initial=true&${query}`, { signal: both, event, lost })
				.catch((error) => { if (signal.aborted || !stream.signal.aborted) throw error; });
		}
	}
}
