// The head of the page of a job: its name, state, times, tags and what one can do with it.

import { actions, tagList } from "./actions.js";
import { timeLine } from "./chart.js";
import { button, duration, el, fill, now, onlyChanges, state, time } from "./dom.js";
import { isOver } from "./tasks.js";

/** Why the job is in its state, if no other part of the page says it. */
function whyOf({ state: name, waitingReason, stopReason, appExitSpec, retries, previousEnd }) {
	const next = waitingReason?.nextAttemptTime;
	if (name === "STOPPED") return stopReason ?? appExitSpec?.reason ?? "";
	const why = next ? `the next attempt begins at ${time(next)}`
		: waitingReason?.message ?? stopReason ?? "";
	const after = previousEnd ? ` after exit code ${previousEnd.appExitCode}` : "";
	const tries = retries > 0 && !isOver(name) && `try ${retries + 1}${after}`;
	return [tries, why].filter(Boolean).join("; ");
}

/** One line, and a thin one below it for the times. */
export class JobHead {
	state = el("p", { role: "status", "aria-label": "State" });
	#took = el("span", { class: "soft took" });
	#times = el("div", { class: "times", role: "img" });
	#once = onlyChanges();

	/** job: as of actions(), and its owner; copy(): copies the address. */
	constructor(job, refresh, copy) {
		const { name, owner } = job;
		this.name = name;
		this.actions = actions(job, refresh);
		this.tags = tagList(job, refresh);
		this.actions.element.append(button("Copy link", copy,
			{ title: "Copy the address of what is shown" }));
		const title = el("h1", { tabindex: "-1", title: name }, name);
		this.elements = [el("div", { class: "job-head" }, title,
			el("span", { class: "soft owner" }, owner), this.state, this.#took, this.tags.element,
			this.actions.element), this.#times, this.actions.error];
	}

	show(detail) {
		const { jobStatus: status, tags } = detail;
		const why = whyOf(status);
		this.status = status;
		this.#once("state", [status.state, why], () => {
			const kind = status.stopReason ? "why stopped" : "why";
			fill(this.state, state(status.state), el("span", { class: kind, title: why }, why));
			document.title = `${this.name} · ${status.state}`;
		});
		this.#once("tags", tags, () => this.tags.update(tags));
		this.actions.update(detail);
		this.tick();
	}

	/** Shows how long the job has waited and run: as a line, and as text with one figure. */
	tick() {
		if (!this.status) return;
		const { submissionTime: from, launchedTime: start, completedTime: end } = this.status;
		const to = end ?? now();
		const waited = (start ?? to) - from, ran = start ? to - start : null;
		const text = [`waited ${duration(waited)}`, start && `ran ${duration(ran)}`,
			end && `ended ${time(end)}`].filter(Boolean).join(", ");
		timeLine(this.#times, [{ role: "waiting", ms: waited },
			start && { role: "running", ms: ran },
			end && { role: this.status.state.toLowerCase() }].filter(Boolean), text);
		this.#took.title = text;
		this.#took.textContent = duration(ran ?? waited);
	}
}
