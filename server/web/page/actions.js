// The actions of a user on a job: stop, clone, resubmit, download, tags.

import { get, getText, send } from "./api.js";
import { el, fill } from "./dom.js";
import { hashOf } from "./jobs.js";
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

/** Submits the same job again, with the next free name, as `rest-lit resubmit` does. */
async function resubmit(path, user) {
	const config = await get(`${path}/config`);
	if (hasSecrets(config)) throw new Error(SECRETS);
	const holder = config.metadata ?? config;
	const key = "jobName" in holder ? "jobName" : "name";
	const query = new URLSearchParams({ username: user, keyword: baseOf(holder[key]), limit: 50000 });
	const rows = await get(`api/v2/jobs?${query}`);
	holder[key] = nextName(holder[key], rows.map(({ name }) => name));
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
		dialog.close();
		await action().then(changed, (refused) => fill(error, refused.message));
	};
	const stop = button("Stop", () => dialog.showModal(), { class: "danger" });
	const dialog = el("dialog", { "aria-label": "Stop the job" },
		el("p", null, `Stop ${id}? Its tasks end; it cannot be continued.`),
		button("Stop the job", attempt(() => send("PUT", `${path}/executionType`, { value: "STOP" })),
			{ class: "danger" }), " ", button("Let it run", () => dialog.close()));
	const element = el("div", null, el("div", { class: "toolbar" }, mayChange && stop,
		button("Clone", () => go(`#/submit?from=${encodeURIComponent(id)}`)),
		button("Resubmit", attempt(() => resubmit(path, user))),
		button("Download", attempt(() => download(path, id.split("~")[1])))), error, dialog);
	return { element, update: (isOver) => { stop.hidden = isOver; } };
}

/** The tags of a job, which its owner can change. */
export function tagList({ path, mayChange }, changed) {
	const list = el("span");
	const error = el("span", { class: "error", role: "alert" });
	const input = el("input", { "aria-label": "New tag", size: 12, maxlength: 63, required: true });
	const change = (method, value) => send(method, `${path}/tag`, { value }).then(() => {
		fill(error);
		changed();
	}, (refused) => fill(error, refused.message));
	const submit = (event) => {
		event.preventDefault();
		change("PUT", input.value.trim());
		input.value = "";
	};
	const add = el("button", null, "Add a tag");
	const form = el("form", { class: "tags", on: { submit } }, input, add);
	const remove = (tag) =>
		button("×", () => change("DELETE", tag), { "aria-label": `Remove tag ${tag}` });
	const shown = (tag) => el("span", { class: "tag" }, tag, mayChange && remove(tag));
	return {
		element: el("div", { class: "tags" }, list, mayChange && form, error),
		update: (tags) => fill(list, tags.map(shown)),
	};
}
