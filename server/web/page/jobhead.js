// The head of the page of a job: its name, state, times, tags and what one can do with it.

import { actions, tagList } from "./actions.js";
import { session } from "./api.js";
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

/** One line, and below it a thin one for the times, with its words. */
export class JobHead {
	state = el("p", { role: "status", "aria-label": "State" });
	#times = el("div", { class: "times", role: "img" });
	#words = el("p", { class: "soft" });
	#use = el("p", { class: "soft", hidden: true });
	#line; // in #use
	#once = onlyChanges();

	/** job: as of actions(), and its owner; copy(): copies the address. */
	constructor(job, refresh, copy) {
		const { name, owner } = job;
		Object.assign(this, { name, job, refresh });
		this.actions = actions(job, refresh, button("Copy link", copy,
			{ title: "Copy the address of what is shown" }));
		this.tags = tagList(job, refresh);
		const title = el("h1", { tabindex: "-1", title: name }, name);
		this.elements = [el("div", { class: "job-head" }, title,
			el("span", { class: "soft owner" }, owner), this.state, this.tags.element,
			this.actions.element), el("div", { class: "time-line" }, this.#times, this.#words,
			this.#use),
		this.actions.error];
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
		this.#showUse(detail);
		this.tick();
	}

	/** Of a running job with GPUs on this machine: whether it uses them. */
	#showUse({ jobStatus: status, taskRoles }) {
		const isShown = session.local && status.state === "RUNNING" &&
			Object.values(taskRoles).some(({ taskRoleStatus: role }) => role.gpuNumber);
		this.#use.hidden = !isShown;
		if (isShown) import("./used.js").then(({ UseLine }) => {
			this.#line ??= new UseLine(this.#use, this.job, this.refresh);
			this.#line.show(status);
		}, () => {}); // the next look may succeed
	}

	/** Shows how long the job has waited and run: as a line, and in the words of its colours. */
	tick() {
		if (!this.status) return;
		const { submissionTime: from, launchedTime: start, completedTime: end } = this.status;
		const to = end ?? now();
		const waited = (start ?? to) - from, ran = start ? to - start : null;
		const over = this.status.state.toLowerCase();
		const parts = [{ role: "waiting", ms: waited, text: `waited ${duration(waited)}` },
			start && { role: "running", ms: ran, text: `ran ${duration(ran)}` },
			end && { role: over, text: `${over} ${time(end)}` }].filter(Boolean);
		const text = parts.map((part) => part.text).join(", ");
		timeLine(this.#times, parts, text);
		this.#once("words", text, () => fill(this.#words, parts.map(({ role, text: word }) =>
			el("span", null, el("i", { class: `key area-${role}` }), word))));
	}
}
