// The line above the list that stops, deletes, tags and compares the selected jobs.

import { addTag, deleteJob, stopJob } from "./actions.js";
import { ask } from "./dialog.js";
import { button, el, fill } from "./dom.js";
import { plural } from "./format.js";
import { idOf } from "./jobs.js";
import { announce, go, shortcut } from "./main.js";

const NAMED = 3; // jobs that a question names

function named(jobs) {
	const more = jobs.length - NAMED;
	const names = jobs.slice(0, NAMED).map(idOf).join(", ");
	return `${plural(jobs.length, "job")}: ${names}${more > 0 ? ` and ${more} more` : ""}`;
}

/** The line of the selected jobs, which has its place also without any; update(selected, count):
 * rows, and the number of rows. */
export function selectionBar(signal) {
	let jobs = [], total;
	const count = el("p", { role: "status", "aria-label": "Number of jobs" });
	const say = (text) => { if (count.textContent !== text) fill(count, text); };
	const allow = (one, why) => Object.assign(one, { disabled: why !== "", title: why });
	// At most four requests are open at a time: api.js.
	const forAll = async (all, act, done) => {
		const refusals = [];
		let n = 0;
		const one = (job) => act(idOf(job)).catch(({ message }) => refusals.push(message))
			.then(() => say(`${++n} of ${plural(all.length, "job")}`));
		await Promise.all(all.map(one));
		const refused = refusals.length ? `, ${refusals.length} refused: ${refusals[0]}` : "";
		update(jobs, total);
		announce(`${all.length - refusals.length} ${done}${refused}.`);
	};
	const running = () => jobs.filter(({ completedTime }) => !completedTime);
	const stop = button("Stop", async () => {
		const all = running();
		const text = `Stop ${named(all)}? All tasks end; a stopped job cannot be continued.`;
		const verb = `Stop ${plural(all.length, "job")}`;
		const agreed = await ask({ title: "Stop", text, verb, refuse: "Do not stop", danger: true });
		if (agreed) forAll(all, stopJob, "stopped");
	}, { class: "danger" });
	const remove = button("Delete", async () => {
		const all = jobs;
		const text = `Delete ${named(all)}? A deleted job cannot be restored; its name is free again.`;
		const verb = `Delete ${plural(all.length, "job")}`;
		const agreed = await ask({ title: "Delete", text, verb, refuse: "Do not delete", danger: true });
		if (agreed) forAll(all, deleteJob, "deleted");
	}, { class: "danger" });
	const tag = button("Tag", async () => {
		const all = jobs;
		const input =
			el("input", { "aria-label": "Tag", maxlength: 63, required: true, autofocus: true });
		const text = `Tag ${named(all)}`;
		const agreed = await ask({ title: "Tag", text, verb: "Add the tag", input });
		if (agreed) forAll(all, (id) => addTag(id, input.value.trim()), "tagged");
	});
	const compare = button("Compare", () => {
		const [a, b] = jobs.map(idOf);
		go(`#/compare?${new URLSearchParams({ a, b })}`);
	});
	const buttons = el("div", { class: "choices" }, stop, remove, tag, compare);
	shortcut("s", "stop the selected jobs", () => stop.click(), signal);
	const update = (selected, rows) => {
		jobs = selected;
		total = rows;
		buttons.hidden = !jobs.length;
		const n = running().length;
		say(jobs.length ? `${jobs.length} selected` : total === undefined ? "" : plural(total, "job"));
		allow(stop, n ? "" : "All of them have ended");
		allow(remove, n ? `Stop them first: ${n} of them have not ended` : "");
		allow(compare, jobs.length === 2 ? "" : "Select two jobs");
	};
	update([]);
	return { element: el("div", { class: "selection" }, count, buttons), update };
}
