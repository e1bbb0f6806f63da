// The page of a job: what its address names, in the head, the list of tasks and the tabs.

import { copyText, written } from "./actions.js";
import { get, session } from "./api.js";
import { attemptTable, eventTable, failureOf, failurePanel, jobFacts, markOf, taskChart,
	taskFacts } from "./details.js";
import { button, el, fill, link, now, onlyChanges, pathOf } from "./dom.js";
import { announce, setQuery, shortcut } from "./frame.js";
import { JobHead } from "./jobhead.js";
import { JobLog } from "./joblog.js";
import { ResultsView } from "./results.js";
import { Tabs } from "./tabs.js";
import { ALL, TaskList, taskName, tasksInOrder, tasksOf } from "./tasks.js";

const LOG = "log";
const USAGE_MS = 10000; // between two looks
const VIEWS = { [LOG]: "Log", details: "Details", usage: "Usage", events: "Events",
	attempts: "Attempts", results: "Results", config: "Configuration" };

/** The failure of what is shown; while the next attempt waits, that of the one before it. */
function shownFailure({ jobStatus: status }) {
	const before = status.state === "WAITING" && status.previousEnd;
	return failureOf(before ? { ...before, attemptState: "FAILED" } : status);
}

/** The job that the address names, as the server has it. refresh() reads it again. */
export class JobView {
	#earlier; // detail of an earlier attempt
	#tasks = new Map();
	#once = onlyChanges();
	#note = el("span", { class: "soft", hidden: true });
	#parts = { failure: el("div"), facts: el("div"), task: el("div"), chart: el("div") };

	constructor({ job: id, attempt, task, try: tried, line, view }, signal, refresh) {
		const at = id.indexOf("~"); // -1: of another program
		const [owner, name] = [id.slice(0, Math.max(0, at)), id.slice(at + 1)];
		const { username: user, admin } = session.user;
		const path = pathOf(id), mayChange = admin || user === owner;
		// As in the address; others are empty.
		const isThere = view in VIEWS && (session.local || view !== "usage");
		this.at = { attempt, task, try: tried, line, view: isThere ? view : LOG };
		Object.assign(this, { id, path, signal });
		const job = { id, owner, name, path, user, mayChange };
		this.head = new JobHead(job, refresh, () => this.#copyLink());
		this.list = new TaskList((chosen) => this.#choose({ task: chosen, try: "", line: null }));
		this.tabs = new Tabs(VIEWS, (chosen) => this.#choose({ view: chosen }));
		this.log = new JobLog(this.tabs.panels[LOG], { name, signal,
			choose: (change) => this.#choose(change),
			picked: (chosen) => { this.at.line = chosen; this.#setAddress(chosen); } });
		this.#fillTabs();
		this.work = el("div", { class: "work", hidden: true }, this.list.element,
			el("div", { class: "beside" }, el("div", { class: "tabs" },
				this.tabs.list, this.#note, this.log.tries), this.tabs.body));
		this.element = el("div", { class: "job" }, this.head.elements, this.#parts.failure,
			this.work);
		this.#addShortcuts();
	}

	#fillTabs() {
		const { [LOG]: log, ...others } = this.tabs.panels;
		const { details, usage, events, attempts, results, config } = others;
		log.className = ""; // the log has its own frame
		for (const panel of Object.values(others)) panel.tabIndex = 0;
		fill(details, this.#parts.facts, this.#parts.task, this.#parts.chart);
		const text = el("pre", { "aria-label": "Configuration" });
		const copy = () => copyText(text.textContent, "the configuration");
		fill(config, el("div", { class: "toolbar" }, button("Copy the configuration", copy)), text);
		this.results = new ResultsView(results, `${this.path}/results`, this.signal);
		this.tabs.offer("results", false);
		this.tabs.offer("usage", session.local);
		const load = (host, ask, make) => async () => // the server's answer, or why it refuses
			fill(host, await ask().then(make).catch(({ message }) =>
				el("p", { class: "error" }, `Not shown: ${message}`)));
		this.loads = {
			config: load(text, () => written(this.path, { signal: this.signal }), (all) => all),
			results: () => this.results.load(),
			usage: () => import("./usage.js").then(({ UsageView }) => {
				this.usage ??= new UsageView(usage, `${this.path}/usage`, this.signal);
				this.usage.show(this.task);
			}, ({ message }) => fill(usage, `Not shown: ${message}`)),
			events: load(events, () => this.#get("events"), eventTable),
			attempts: load(attempts, () => this.#get("job-attempts"), (all) => attemptTable(all,
				(i) => this.#choose({ attempt: i + 1, try: "", line: null, view: LOG }))),
		};
	}

	/** Shows durations again. */
	tick() {
		this.list.table.refresh();
		this.head.tick();
	}

	#addShortcuts() {
		const { list, head: { actions: { stop, clone } }, signal } = this;
		const press = (one) => one.hidden || one.click();
		shortcut("j", "next task", () => list.step(1), signal);
		shortcut("k", "previous task", () => list.step(-1), signal);
		shortcut("s", "stop the job", () => press(stop), signal);
		shortcut("c", "clone the job", () => press(clone), signal);
		shortcut("/", "search in the log", () => {
			this.#choose({ view: LOG });
			this.tabs.panels[LOG].querySelector("input[type=search]")?.focus();
		}, signal);
	}

	#get(what) {
		return get(`${this.path}/${what}`, { signal: this.signal });
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
		this.detail = await this.#attempt(live);
		if (this.signal.aborted) return;
		this.#tasks = tasksOf(this.detail);
		this.#showFailure();
		const rows = tasksInOrder(this.#tasks, this.failure?.task);
		const wanted = this.at.task || this.task;
		const isThere = wanted === ALL || this.#tasks.has(wanted);
		this.task = isThere ? wanted : rows[0] && taskName(rows[0]);
		this.work.hidden = false;
		this.list.show(rows, this.task);
		this.#showNote();
		this.log.show({ attempt: this.detail.jobStatus.attemptId, tasks: this.#tasks,
			task: this.task, at: this.at, mark: markOf(this.failure) });
		this.#showTab();
	}

	#showFailure() {
		const { jobStatus: { attemptId, previousEnd } } = this.detail;
		const isLatest = this.detail === this.live && !previousEnd;
		this.failure = shownFailure(this.detail);
		this.#once("failure", this.failure, () => fill(this.#parts.failure, this.failure &&
			failurePanel(this.failure, { several: this.#tasks.size > 1,
				when: isLatest ? "" : ` in attempt ${attemptId + 1}`, show: () => this.#showMark(),
				choose: (task) => this.#choose({ task, try: "", line: null, view: LOG }) })));
	}

	#showMark() {
		this.#choose({ view: LOG, ...this.task !== ALL && { task: this.failure.task } });
		this.log.goToMark().catch(() => {});
	}

	/** Says which attempt this is, if there are others. */
	#showNote() {
		const { attemptId: latest, attemptState } = this.live.jobStatus;
		const { attemptId } = this.detail.jobStatus;
		const isBetween = latest > 0 && attemptState === "WAITING"; // the latest has no log yet
		const isLatest = attemptId === latest;
		const click = () => this.#choose({ attempt: isLatest ? latest : "", try: "", line: null });
		this.#once("note", [attemptId, latest, isBetween], () => {
			this.#note.hidden = isLatest && !isBetween;
			fill(this.#note, `attempt ${attemptId + 1} of ${latest + 1} `,
				link(isLatest ? "Show the one before" : "Show the latest", click));
		});
	}

	#showTab() {
		const { view } = this.at;
		const { retries, state } = this.live.jobStatus;
		this.tabs.offer("attempts", retries > 0);
		if (session.local) this.#once("has results", state, () => this.results.isThere()
			.then((yes) => this.tabs.offer("results", yes)).catch(() => {}));
		this.tabs.choose(view);
		if (view === "details") this.#showDetails();
		const due = { events: now(), results: now(), attempts: [retries, state], config: true,
			usage: [this.task, Math.floor(now() / USAGE_MS)] };
		if (view in due) this.#once(view, due[view], this.loads[view]);
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
			fill(this.#parts.facts, jobFacts(this.detail, this.id, this.config)));
		this.#once("task", [task, this.config], () => fill(this.#parts.task, task &&
			taskFacts(task, this.config, this.failure?.task, jobStatus.appExitDiagnostics)));
		fill(this.#parts.chart, taskChart([...this.#tasks.values()], jobStatus));
	}
}
