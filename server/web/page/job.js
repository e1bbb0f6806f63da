// One job: one line about it, its failure, its tasks, and beside them the log and other tabs.

import { actions, copyText, tagList, written } from "./actions.js";
import { get, pause, session, watch } from "./api.js";
import { timeLine } from "./chart.js";
import { attemptTable, eventTable, jobFacts, taskChart, taskFacts } from "./details.js";
import { button, el, fill, link } from "./dom.js";
import { failureOf, failurePanel, markOf } from "./failure.js";
import { duration, now, state, time } from "./format.js";
import { pathOf } from "./jobs.js";
import { logView } from "./logview.js";
import { announce, setQuery, setTitle, shortcut } from "./main.js";
import { Tabs } from "./tabs.js";
import { ALL, TaskList, isOver, tasksInOrder, taskName, tasksOf } from "./tasks.js";

export const title = "Job";

const UNSEEN_MS = 30000; // between looks for the title of a tab that nobody sees
// Between looks for changes while connections are short; ... of a job that has ended.
const WATCH_MS = 3000, OVER_MS = 10000;
const LOOK_MS = 5000; // while nothing happens: for durations, events of pods, the reason of waiting
const SLOW = 5; // the pause between two looks, in durations of an answer
const MARK_MS = 200, MARK_MOST = 50; // between looks for the marked line while its log is read
const LOG = "log";
const VIEWS = { [LOG]: "Log", details: "Details", events: "Events", attempts: "Attempts",
	config: "Configuration" };

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

/** The failure of what is shown; while the next attempt waits, that of the one before it. */
function shownFailure({ jobStatus: status }) {
	const before = status.state === "WAITING" && status.previousEnd;
	return failureOf(before ? { ...before, attemptState: "FAILED" } : status);
}

/** How long the job waited and ran: as a line, and as text with one figure. */
function showTimes(line, figure, status) {
	const { state: name, submissionTime: from, launchedTime: start, completedTime: end } = status;
	const to = end ?? now();
	const waited = (start ?? to) - from, ran = start ? to - start : null;
	const text = [`waited ${duration(waited)}`, start && `ran ${duration(ran)}`,
		end && `ended ${time(end)}`].filter(Boolean).join(", ");
	timeLine(line, [{ role: "waiting", ms: waited }, start && { role: "running", ms: ran },
		end && { role: name.toLowerCase() }].filter(Boolean), text);
	figure.title = text;
	figure.textContent = duration(ran ?? waited);
}

/** The line with the name of the job, its state and what one can do with it. */
class Head {
	state = el("p", { role: "status", "aria-label": "State" });
	#took = el("span", { class: "soft took" });
	#times = el("div", { class: "times", role: "img" });

	constructor(job, name, owner, refresh, copy) {
		this.name = name;
		this.actions = actions(job, refresh);
		this.tags = tagList(job, refresh);
		this.actions.element.append(copy);
		this.elements = [el("div", { class: "job-head" },
			el("h1", { tabindex: "-1", title: name }, name), el("span", { class: "soft owner" }, owner),
			this.state, this.#took, this.tags.element, this.actions.element),
		this.#times, this.actions.error];
	}

	show(detail) {
		const { jobStatus: status, tags } = detail;
		const why = whyOf(status);
		this.status = status;
		if (this.state.textContent !== status.state + why) { // else it would be read again
			const kind = status.stopReason ? "why stopped" : "why";
			fill(this.state, state(status.state), el("span", { class: kind, title: why }, why));
			setTitle(`${this.name} · ${status.state}`);
		}
		if (JSON.stringify(tags) !== this.shownTags) this.tags.update(tags);
		this.shownTags = JSON.stringify(tags);
		this.actions.update(detail);
		this.tick();
	}

	tick() {
		if (this.status) showTimes(this.#times, this.#took, this.status);
	}
}

/** The page of a job; refresh() reads it again. */
class JobView {
	#earlier; // detail of an earlier attempt
	#tasks = new Map();
	#log; // of logView()
	#logSignal = new AbortController();
	#shown = {}; // what is shown, as texts
	#failure = el("div");
	#tries = el("select", { "aria-label": "Attempt of the task", hidden: true });
	#note = el("span", { class: "soft", hidden: true });
	#facts = el("div");
	#taskFacts = el("div");
	#chart = el("div");

	constructor(root, { job: id, attempt, task, try: tried, line, view }, signal, refresh) {
		const at = id.indexOf("~"); // -1: of another program
		const [owner, name] = [id.slice(0, Math.max(0, at)), id.slice(at + 1)];
		const { username: user, admin } = session.user;
		const job = { id, path: pathOf(id), user, mayChange: admin || user === owner };
		// As in the address; others are empty.
		this.at = { attempt, task, try: tried, line, view: view in VIEWS ? view : LOG };
		Object.assign(this, { id, name, path: job.path, signal });
		const copy = button("Copy link", () => this.#copyLink(),
			{ title: "Copy the address of what is shown" });
		this.head = new Head(job, name, owner, refresh, copy);
		this.list = new TaskList((chosen) => this.#choose({ task: chosen, try: "", line: null }));
		this.tabs = new Tabs(VIEWS, (chosen) => this.#choose({ view: chosen }));
		this.#tries.addEventListener("change", () =>
			this.#choose({ try: this.#tries.value, line: null }));
		this.#fillTabs();
		this.work = el("div", { class: "work", hidden: true }, this.list.element,
			el("div", { class: "beside" },
				el("div", { class: "tabs" }, this.tabs.list, this.#note, this.#tries), this.tabs.body));
		fill(root, el("div", { class: "job" }, this.head.elements, this.#failure, this.work));
		this.#shortcuts();
	}

	#fillTabs() {
		const { details, events, attempts, config } = this.tabs.panels;
		fill(details, this.#facts, this.#taskFacts, this.#chart);
		for (const [view, panel] of Object.entries(this.tabs.panels)) {
			if (view === LOG) panel.className = ""; // the log has its own frame
			else panel.tabIndex = 0;
		}
		const text = el("pre", { "aria-label": "Configuration" });
		const copy = () => copyText(text.textContent, "the configuration");
		fill(config, el("div", { class: "toolbar" },
			button("Copy the configuration", copy)), text);
		this.loads = {
			config: () => this.#load(written(this.path, { signal: this.signal }), text, (all) => all),
			events: () => this.#load(this.#get("events"), events, eventTable),
			attempts: () => this.#load(this.#get("job-attempts"), attempts, (all) => attemptTable(all,
				(i) => this.#choose({ attempt: i + 1, try: "", line: null, view: LOG }))),
		};
	}

	#shortcuts() {
		const all = [["j", "next task", () => this.list.step(1)],
			["k", "previous task", () => this.list.step(-1)],
			["s", "stop the job", this.head.actions.stop],
			["c", "clone the job", this.head.actions.clone], ["/", "search in the log", () => this.#search()]];
		for (const [keys, text, act] of all) shortcut(keys, text, act, this.signal);
	}

	#search() {
		this.#choose({ view: LOG });
		this.tabs.panels[LOG].querySelector("input[type=search]")?.focus();
	}

	#get(what) {
		return get(`${this.path}/${what}`, { signal: this.signal });
	}

	/** Shows the server's answer, or the reason of a refusal. */
	async #load(answer, host, make) {
		fill(host, await answer.then(make).catch((error) => `Not shown: ${error.message}`));
	}

	// ---- the address ----
	/** Shows something else, and puts it into the address. */
	#choose(change) {
		Object.assign(this.at, change);
		this.#setAddress(this.at.line);
		if (this.live) this.show(this.live);
	}

	/** `exact`: with attempts and task, so that it stays true when others begin. */
	#setAddress(exact) {
		const { attempt, task, try: tried, line, view } = this.at;
		const latest = this.#tasks.get(this.task)?.attemptId;
		setQuery({ attempt: attempt || (exact && this.detail.jobStatus.attemptId + 1),
			task: task || (exact && this.task), try: tried || (exact && latest + 1), line,
			view: view !== LOG && view });
	}

	#copyLink() {
		if (!this.detail) return;
		this.#setAddress(true);
		copyText(location.href, "the link");
	}

	// ---- what is shown ----
	/** The attempt that the address names; the latest one if it is not stored. */
	async #attempt(live) {
		const latest = live.jobStatus.attemptId;
		const i = this.at.attempt ? Number(this.at.attempt) - 1 : latest;
		if (i === latest) return live;
		if (this.#earlier?.jobStatus.attemptId !== i) {
			this.#earlier = await this.#get(`attempts/${i}`).catch((error) => {
				const text = `Attempt ${this.at.attempt} is not shown: ${error.message}`;
				if (!this.signal.aborted) announce(text);
				this.at.attempt = "";
				return live;
			});
		}
		return this.#earlier;
	}

	/** Shows the state of the job. */
	async show(live) {
		this.live = live;
		this.head.show(live);
		const detail = await this.#attempt(live);
		if (this.signal.aborted) return;
		const { retries, attemptId } = live.jobStatus;
		this.detail = detail;
		this.failure = shownFailure(detail);
		this.#tasks = tasksOf(detail);
		this.#once("failure", this.failure, () => fill(this.#failure, this.failure && failurePanel(
			this.failure, { show: () => this.#toMark().catch(() => {}), several: this.#tasks.size > 1,
				when: detail === live && !detail.jobStatus.previousEnd ? "" : ` in attempt ${detail.jobStatus.attemptId + 1}`,
				choose: (task) => this.#choose({ task, try: "", line: null, view: LOG }) })));
		const rows = tasksInOrder(this.#tasks, this.failure?.task);
		const wanted = this.at.task || this.task;
		this.task = wanted === ALL || this.#tasks.has(wanted) ? wanted : rows[0] && taskName(rows[0]);
		this.tabs.offer("attempts", retries > 0);
		this.tabs.choose(this.at.view);
		const isBetween = attemptId > 0 && live.jobStatus.attemptState === "WAITING";
		this.#once("note", [detail.jobStatus.attemptId, attemptId, isBetween],
			() => this.#showNote(attemptId, isBetween));
		this.work.hidden = false;
		this.list.show(rows, this.task);
		this.#showLog();
		const due = { events: now(), attempts: [retries, live.jobStatus.state], config: true };
		if (this.at.view === "details") this.#showDetails();
		if (this.at.view in due) this.#once(this.at.view, due[this.at.view], this.loads[this.at.view]);
	}

	/** Calls make() if the value differs from that of the last call. */
	#once(what, value, make) {
		const text = JSON.stringify(value);
		if (this.#shown[what] === text) return;
		this.#shown[what] = text;
		make();
	}

	/** isBetween: the latest attempt waits, and has no log yet. */
	#showNote(latest, isBetween) {
		const { attemptId } = this.detail.jobStatus;
		const isLatest = attemptId === latest;
		const click = () => this.#choose({ attempt: isLatest ? latest : "", try: "", line: null });
		this.#note.hidden = isLatest && !isBetween;
		fill(this.#note, `attempt ${attemptId + 1} of ${latest + 1} `,
			link(isLatest ? "Show the one before" : "Show the latest", click));
	}

	#showDetails() {
		const { jobStatus } = this.detail;
		const task = this.#tasks.get(this.task);
		if (this.config === undefined) {
			this.config = null;
			this.#get("config").then((config) => {
				this.config = config;
				this.#choose({});
			}, () => {});
		}
		this.#once("facts", [jobStatus, this.task, this.config], () =>
			fill(this.#facts, jobFacts(this.detail, this.id, this.config)));
		this.#once("task", [task, this.config], () => fill(this.#taskFacts,
			task && taskFacts(task, this.config, this.failure?.task, jobStatus.appExitDiagnostics)));
		fill(this.#chart, taskChart([...this.#tasks.values()], jobStatus));
	}

	// ---- the log ----
	/** The log of one attempt of a task. */
	#source(name, attempt) {
		const task = () => this.#tasks.get(name) ?? {};
		const { role, taskIndex } = task();
		return { name, file: `${this.name}-${role}-${taskIndex}`,
			get path() { // empty until the task has begun
				return task().containerLog?.slice(1).replace(/\d+\/logs$/, `${attempt}/logs`) ?? "";
			},
			ended: () => attempt !== task().attemptId || isOver(task().taskState) };
	}

	#showTries(task) {
		const latest = task?.attemptId ?? 0;
		const tried = Math.max(0, Math.min(latest, (Number(this.at.try) || latest + 1) - 1));
		this.#tries.hidden = latest === 0;
		this.#once("tries", [this.task, latest, tried], () => fill(this.#tries,
			Array.from({ length: latest + 1 }, (_, i) =>
				el("option", { value: i + 1, selected: i === tried }, `attempt ${i + 1}`))));
		return tried;
	}

	#showLog() {
		const one = this.#tasks.get(this.task);
		const tried = this.#showTries(one);
		const wanted = one ? [[this.task, tried]]
			: [...this.#tasks].map(([name, { attemptId }]) => [name, attemptId]);
		const mark = markOf(this.failure);
		this.#once("log", [this.detail.jobStatus.attemptId, wanted], () => {
			this.#logSignal.abort();
			this.#logSignal = new AbortController();
			const host = this.tabs.panels[LOG];
			if (this.#log && this.at.line) { // a line of another attempt
				this.at.line = null;
				this.#setAddress(false);
			}
			if (!wanted.length) fill(host, el("p", { class: "soft" }, "There is no log yet."));
			else this.#log = logView(host, wanted.map((task) => this.#source(...task)), {
				job: this.name, line: this.at.line, mark,
				picked: (line) => { this.at.line = line; this.#setAddress(line); },
				signal: AbortSignal.any([this.signal, this.#logSignal.signal]),
			});
		});
		this.#once("mark", mark, () => this.#log?.setMark(mark));
	}

	/** Shows the line of the failure, as soon as the log has it. */
	async #toMark() {
		const { task } = this.failure;
		this.#choose({ view: LOG, ...(this.task !== ALL && { task }) });
		for (let i = 0; i < MARK_MOST; i++) {
			if (this.#log?.goToMark()) return;
			await pause(MARK_MS, this.signal);
		}
		announce("This line is not in the log.");
	}
}

/** Calls changed() after each change of the job; throws when it is gone. */
async function follow(id, signal, changed) {
	let shown;
	const event = (name, data) => {
		const before = shown;
		if ((shown = JSON.stringify(data)) !== before) changed();
	};
	for (;;) {
		await watch(`${pathOf(id)}/watch`, { signal, event, every: WATCH_MS, unseen: UNSEEN_MS });
		await pause(OVER_MS, signal);
	}
}

export default async function jobPage(root, params, signal) {
	const { job: id } = params;
	let detail, wake, isDue = true;
	const refresh = () => { isDue = true; wake?.(); };
	const view = new JobView(root, params, signal, refresh);
	const clock = setInterval(() => {
		if (isOver(view.live?.jobStatus.state)) return;
		view.list.table.refresh();
		view.head.tick();
	}, 1000);
	signal.addEventListener("abort", () => { clearInterval(clock); refresh(); });
	follow(id, signal, refresh).catch(refresh);
	const read = () => get(pathOf(id), { signal }).catch((error) => {
		if (error.status === 404) return null;
		if (!detail || error.status === undefined) throw error;
		isDue = true;
		return detail;
	});
	while (!signal.aborted) {
		const begun = Date.now();
		if (isDue || detail.jobStatus.waitingReason) {
			isDue = false;
			detail = await read();
		}
		if (!detail) break;
		await view.show(detail);
		await pause(Math.max(1000, SLOW * (Date.now() - begun)), signal);
		if (!isDue) await new Promise((resolve) => {
			wake = resolve;
			if (!isOver(detail.jobStatus.state)) setTimeout(resolve, LOOK_MS);
		});
	}
	if (view.live) fill(view.head.state, "The job was removed.");
	else {
		setTitle("Not found - rest-lit");
		fill(root, el("h1", null, "Not found"), el("p", null, `There is no job ${id}.`));
	}
}
