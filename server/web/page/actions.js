// The actions of a user on a job: stop, clone, resubmit, download, tags.

import { get, getText, send } from "./api.js";
import { ask } from "./dialog.js";
import { el, fill } from "./dom.js";
import { hashOf, pathOf } from "./jobs.js";
import { announce, go } from "./main.js";

const HIDDEN = "******";
const SECRETS = "The job has secrets, which the server does not return: submit its file again.";

const button = (name, click, attributes) =>
	el("button", { type: "button", on: { click }, ...attributes }, name);
const baseOf = (name) => name.replace(/(.)-\d+$/, "$1");

/** "mnist-4" for "mnist" and for "mnist-2", if "mnist-3" has the highest number of the names. */
export function nextName(old, names) {
	const begin = `${baseOf(old)}-`;
	const numbers = names.filter((name) => name.startsWith(begin))
		.map((name) => name.slice(begin.length)).filter((rest) => /^\d{1,9}$/.test(rest));
	return begin + (Math.max(1, ...numbers) + 1);
}

export function hasSecrets({ secrets, prerequisites }) {
	const auths = Object.values(prerequisites ?? {}).map((one) => one?.auth ?? {});
	return [secrets, ...auths, ...auths.flatMap(Object.values)].includes(HIDDEN);
}

// ---- requests ----
/** The next free name of the user for a job that was called `old`. */
export async function freeName(user, old) {
	const query = new URLSearchParams({ username: user, keyword: baseOf(old), limit: 50000 });
	const rows = await get(`api/v2/jobs?${query}`);
	return nextName(old, rows.map(({ name }) => name));
}

export const stopJob = (id) => send("PUT", `${pathOf(id)}/executionType`, { value: "STOP" });
export const addTag = (id, tag) => send("PUT", `${pathOf(id)}/tag`, { value: tag });
export const removeTag = (id, tag) => send("DELETE", `${pathOf(id)}/tag`, { value: tag });

/** Removes a job with all that it has. */
export function deleteJob(id) {
	const [user, name] = id.split("~").map(encodeURIComponent);
	return send("DELETE", `api/v1/user/${user}/jobs/${name}`);
}

/** Submits the same job again, with the next free name, as `rest-lit resubmit` does. */
async function resubmit(path, user) {
	const config = await get(`${path}/config`);
	if (hasSecrets(config)) throw new Error(SECRETS);
	const holder = config.metadata ?? config;
	const key = "jobName" in holder ? "jobName" : "name";
	holder[key] = await freeName(user, holder[key]);
	await send("POST", "api/v1/jobs", config);
	announce(`Submitted as ${holder[key]}.`);
	go(hashOf(`${user}~${holder[key]}`));
}

/** The text as written; for a job of another program, the text that the server has. */
export function written(path, options) {
	return getText(`${path}/config?written=true`, options)
		.catch(() => getText(`${path}/config`, options));
}

async function download(path, name) {
	const url = URL.createObjectURL(new Blob([await written(path)]));
	el("a", { href: url, download: `${name}.yaml` }).click();
	setTimeout(() => URL.revokeObjectURL(url), 60000);
}

/** The buttons of a job {id, path, user: the viewer, mayChange}; changed() is called after each. */
export function actions({ id, path, user, mayChange }, changed) {
	const error = el("p", { class: "error", role: "alert" });
	const attempt = (action) => async () => {
		fill(error);
		await action().then(changed, (refused) => fill(error, refused.message));
	};
	const stop = button("Stop", attempt(async () => {
		const text = `Stop ${id}? Its tasks end; it cannot be continued.`;
		const choices = { verb: "Stop the job", refuse: "Let it run", danger: true };
		if (await ask({ title: "Stop the job", text, ...choices })) await stopJob(id);
	}), { class: "danger" });
	const element = el("div", null, el("div", { class: "toolbar" }, mayChange && stop,
		button("Clone", () => go(`#/submit?from=${encodeURIComponent(id)}`)),
		button("Resubmit", attempt(() => resubmit(path, user))),
		button("Download", attempt(() => download(path, id.split("~")[1])))), error);
	return { element, update: (isOver) => { stop.hidden = isOver; } };
}

/** The tags of a job, which its owner can change. */
export function tagList({ id, mayChange }, changed) {
	const list = el("span");
	const error = el("span", { class: "error", role: "alert" });
	const input = el("input", { "aria-label": "New tag", size: 12, maxlength: 63, required: true });
	const change = (answer) => answer.then(() => {
		fill(error);
		changed();
	}, (refused) => fill(error, refused.message));
	const submit = (event) => {
		event.preventDefault();
		change(addTag(id, input.value.trim()));
		input.value = "";
	};
	const add = el("button", null, "Add a tag");
	const form = el("form", { class: "tags", on: { submit } }, input, add);
	const remove = (tag) =>
		button("×", () => change(removeTag(id, tag)), { "aria-label": `Remove tag ${tag}` });
	const shown = (tag) => el("span", { class: "tag" }, tag, mayChange && remove(tag));
	return {
		element: el("div", { class: "tags" }, list, mayChange && form, error),
		update: (tags) => fill(list, tags.map(shown)),
	};
}
