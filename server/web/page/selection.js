// The line above the list that stops, deletes, tags and compares the selected jobs.

import { addTag, deleteJob, stopJob } from "./actions.js";
import { ask } from "./dialog.js";
import { button, el, fill } from "./dom.js";
import { listed, plural } from "./format.js";
import { idOf } from "./jobs.js";
import { announce, go, shortcut } from "./main.js";

const named = (jobs) => `${plural(jobs.length, "job")}: ${listed(jobs.map(idOf))}`;

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
	// A button that asks once for all jobs of which() before act(id) ends or removes them.
	const danger = (verb, which, act, done, warning) => button(verb, async () => {
		const all = which();
		const choices = { verb: `${verb} ${plural(all.length, "job")}`, danger: true,
			refuse: `Do not ${verb.toLowerCase()}` };
		const agreed = await ask({ title: verb, text: `${verb} ${named(all)}? ${warning}`, ...choices });
		if (agreed) forAll(all, act, done);
	}, { class: "danger" });
	const stop = danger("Stop", running, stopJob, "stopped",
		"All tasks end; a stopped job cannot be continued.");
	const remove = danger("Delete", () => jobs, deleteJob, "deleted",
		"A deleted job cannot be restored; its name is free again.");
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
