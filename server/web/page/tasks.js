// The tasks of a job: their names, their order, and a narrow list of them.

import { seriesOf } from "./chart.js";
import { el, link, runTime, state } from "./dom.js";
import { VirtualTable } from "./table.js";

/** The name that stands for all tasks. */
export const ALL = "*";

const ORDER = { FAILED: 1, RUNNING: 2, STOPPING: 2, WAITING: 3 };
const LAST = 4;

/** A task with an exit code that has not ended yet is removed by its node. */
const stateOf = ({ taskState, containerExitCode: code }) =>
	(taskState === "RUNNING" && typeof code === "number" ? "STOPPING" : taskState);

export const isOver = (name) => ["SUCCEEDED", "FAILED", "STOPPED"].includes(name);
export const taskName = ({ role, taskRole = role, taskIndex }) => `${taskRole}[${taskIndex}]`;

/** The tasks of an attempt, by name. */
export function tasksOf({ taskRoles }) {
	const tasks = new Map();
	for (const [role, { taskRoleStatus, taskStatuses }] of Object.entries(taskRoles)) {
		for (const status of taskStatuses) {
			const task = { role, gpuNumber: taskRoleStatus.gpuNumber, ...status };
			tasks.set(taskName(task), task);
		}
	}
	return tasks;
}

/** The task that failed first, then failed, running, waiting and other tasks. */
export function tasksInOrder(tasks, first) {
	const rank = (task) => (taskName(task) === first ? 0 : ORDER[task.taskState] ?? LAST);
	return [...tasks.values()].sort((a, b) => rank(a) - rank(b));
}

/** "0-2 5" for the GPUs 0, 1, 2, 5; "×4" for four of which only the number is known. */
export function gpusOf({ gpuIndexes, gpuNumber }) {
	if (!gpuIndexes?.length) return gpuNumber ? `×${gpuNumber}` : "";
	const runs = [];
	for (const i of gpuIndexes) {
		if (runs.at(-1)?.[1] === i - 1) runs.at(-1)[1] = i;
		else runs.push([i, i]);
	}
	return runs.map(([from, to]) => (from === to ? from : `${from}-${to}`)).join(" ");
}

/** Numbers of tasks by state between two times. */
export function taskSeries(tasks, from, to) {
	const spans = { succeeded: [], failed: [], stopped: [], running: [], waiting: [] };
	const add = (role, start, end) => spans[role]?.push({ start, end, weight: 1 });
	for (const { createdTime, launchedTime, completedTime, taskState } of tasks) {
		add("waiting", createdTime ?? from, launchedTime ?? completedTime ?? to);
		if (launchedTime) add("running", launchedTime, completedTime ?? to);
		if (completedTime) add(taskState.toLowerCase(), completedTime, to);
	}
	return Object.entries(spans).map(([role, list]) => seriesOf(role, list, from, to));
}

/** The list, in which one task or all are chosen: choose(name). */
export class TaskList {
	#chosen;

	constructor(choose) {
		this.choose = choose;
		this.all = link("All tasks", () => choose(ALL));
		this.table = new VirtualTable({
			label: "Tasks", key: taskName, empty: "There are no tasks yet.",
			onShow: (node, task) => {
				node.title = taskName(task);
				this.#mark(node.querySelector("button"), node.title);
			},
			columns: [{ name: "Task", node: true,
				cell: (task) => link(taskName(task), () => choose(taskName(task))) },
				{ name: "State", width: "104px", node: true, cell: (task) => state(stateOf(task)) },
				{ name: "Duration", width: "80px", cell: runTime },
				{ name: "GPUs", width: "52px", kind: "number", cell: gpusOf }],
		});
		this.table.body.addEventListener("click", ({ target }) => {
			if (!target.closest("button")) target.closest("tr")?.querySelector("button")?.click();
		});
		this.element = el("section", { class: "tasks", "aria-label": "Tasks" },
			this.all, this.table.element);
	}

	#mark(button, name) {
		button.ariaCurrent = name === this.#chosen ? "true" : null;
	}

	#place(name) {
		return this.table.rows.findIndex((task) => taskName(task) === name);
	}

	show(tasks, chosen) {
		const isNew = chosen !== this.#chosen;
		this.#chosen = chosen;
		this.all.hidden = tasks.length < 2;
		this.#mark(this.all, ALL);
		this.element.classList.toggle("no-gpus", !tasks.some(gpusOf));
		this.table.rows = tasks;
		const at = this.#place(chosen);
		if (isNew && at >= 0) this.table.list.show(at, this.table.table.tHead.offsetHeight);
	}

	/** Chooses the next task, or the one before (-1). */
	step(by) {
		const task = this.table.rows[Math.max(0, this.#place(this.#chosen) + by)];
		if (task) this.choose(taskName(task));
	}
}
