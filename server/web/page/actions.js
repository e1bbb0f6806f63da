// The actions of a user on a job: stop, clone, resubmit, download, tags.

import { get, getBytes, getText, isKnown, newKey, send } from "./api.js";
import { button, el, fill, hashOf, pathOf } from "./dom.js";
import { announce, ask, go } from "./frame.js";

const HIDDEN = "******";
const SECRETS = "The job has secrets, which the server does not return: submit its file again.";

export function hasSecrets({ secrets, prerequisites }) {
	const auths = Object.values(prerequisites ?? {}).map((one) => one?.auth ?? {});
	return [secrets, ...auths, ...auths.flatMap(Object.values)].includes(HIDDEN);
}

// ---- requests ----
/** The next free name of the user for a job that was called `old`. */
export async function freeName(user, old) {
	const query = new URLSearchParams({ username: user, nextName: old, limit: 0 });
	return (await get(`api/v2/jobs?${query}`)).nextName;
}

export const stopJob = (id) => send("PUT", `${pathOf(id)}/executionType`, { value: "STOP" });
const startJob = (id) => send("PUT", `${pathOf(id)}/executionType`, { value: "START" });
export const addTag = (id, tag) => send("PUT", `${pathOf(id)}/tag`, { value: tag });
export const removeTag = (id, tag) => send("DELETE", `${pathOf(id)}/tag`, { value: tag });

/** Removes a job with all that it has. */
export function deleteJob(id) {
	const [user, name] = id.split("~").map(encodeURIComponent);
	return send("DELETE", `api/v1/user/${user}/jobs/${name}`);
}

/** Makes the code of another user's job one of the viewer's archives, so that a copy of the job can
 * name it. */
export async function takeCode(id, config, user, options) {
	const { sha256 } = config?.extras?.code ?? {};
	if (!sha256 || id.startsWith(`${user}~`)) return;
	const path = `api/v2/code/${encodeURIComponent(sha256)}`;
	await get(path, options).catch(async (refused) => {
		if (refused.status !== 404) throw refused;
		const archive = await getBytes(`${pathOf(id)}/code`, options);
		await send("PUT", path, archive, { type: "application/gzip", ...options });
	});
}

/** The same job with the next free name, and a key for its submission. */
async function copyOf(id, user) {
	const config = await get(`${pathOf(id)}/config`);
	if (hasSecrets(config)) throw new Error(SECRETS);
	await takeCode(id, config, user);
	const holder = config.metadata ?? config;
	const key = "jobName" in holder ? "jobName" : "name";
	holder[key] = await freeName(user, holder[key]);
	return { config, name: holder[key], key: newKey() };
}

/** Submits the same job again, as `rest-lit resubmit` does. sent: the copy whose answer is missing,
 * which is sent once more then. */
async function resubmit(id, user, sent) {
	sent.copy ??= await copyOf(id, user);
	const { config, name, key } = sent.copy;
	await send("POST", "api/v1/jobs", config, { key }).catch((error) => {
		if (isKnown(error)) sent.copy = null;
		throw error;
	});
	sent.copy = null;
	announce(`Submitted as ${name}.`);
	go(hashOf(`${user}~${name}`));
}

/** The text as written; for a job of another program, the text that the server has. */
export function written(path, options) {
	return getText(`${path}/config?written=true`, options)
		.catch(() => getText(`${path}/config`, options));
}

// ---- files and the clipboard ----
/** Saves a text or bytes as a file. */
export function saveAs(name, content) {
	const url = URL.createObjectURL(new Blob([content]));
	el("a", { href: url, download: name }).click();
	setTimeout(() => URL.revokeObjectURL(url), 60000);
}

/** Saves the code of a job as a file. */
export const downloadCode = async (id) =>
	saveAs(`${id.slice(id.indexOf("~") + 1)}.tar.gz`, await getBytes(`${pathOf(id)}/code`));

/** Puts a text on the clipboard; if the browser refuses, the user copies it from a field. */
export async function copyText(text, what) {
	try {
		await navigator.clipboard.writeText(text);
		announce(`Copied: ${what}.`);
	} catch {
		const more = { readonly: true, rows: 4, cols: 60 };
		const input = el("textarea", { "aria-label": what, ...more }, text);
		const how = "Press Ctrl+C to copy it.";
		const closed = ask({ title: `Copy ${what}`, text: how, verb: "Done", input });
		input.select();
		await closed;
	}
}

// ---- buttons ----
function stopText(name, taskRoles) {
	const grace = Math.max(0, ...Object.values(taskRoles)
		.map(({ taskRoleStatus }) => taskRoleStatus.gracePeriodSeconds ?? 0));
	const end = grace ? `The tasks get ${grace} s to end; then they are killed` : "Its tasks end";
	return `Stop ${name}? ${end}. A stopped job cannot be continued.`;
}

/** The buttons of a job {id, path, name, user: the viewer, mayChange}, after `others`; changed() is
 * called after each. update(detail) shows those of its state, each at a place of its own. */
export function actions({ id, path, name, user, mayChange }, changed, others) {
	const error = el("p", { class: "error", role: "alert" });
	const sent = {};
	let roles = {}, isBusy = false;
	const act = (text, what, action, more) => button(text, async () => {
		if (isBusy) return; // a double click
		isBusy = true;
		fill(error);
		await action().then(changed, (refused) => fill(error, refused.message));
		isBusy = false;
	}, { title: `${text}: ${what}`, "aria-description": `${text}: ${what}`, ...more });
	const stop = act("Stop", "end the tasks of the job", async () => {
		const text = stopText(name, roles);
		if (await ask({ verb: "Stop the job", text, refuse: "Let it run" })) await stopJob(id);
	}, { class: "danger", disabled: true });
	const remove = act("Delete", "remove the job with its logs", async () => {
		const text = `Delete ${name}? Its logs, its attempts and its configuration are lost.`;
		if (!await ask({ verb: "Delete the job", text, refuse: "Keep it" })) return;
		await deleteJob(id);
		announce(`Deleted: ${name}.`);
		go("#/jobs");
	}, { class: "danger", disabled: true });
	const release = act("Release", "start the job, whatever it waits for", () => startJob(id));
	release.hidden = true;
	const clone = act("Clone", "open the text in the editor under a new name", async () => {
		const query = new URLSearchParams({ from: id, name: await freeName(user, name) });
		go(`#/submit?${query}`);
	});
	const element = el("div", { class: "actions" }, others, clone,
		act("Resubmit", "the same job again at once, under the next free name",
			() => resubmit(id, user, sent)),
		act("Download", "the text as a file", async () =>
			saveAs(`${name}.yaml`, await written(path))),
		mayChange && [stop, remove, release]);
	const update = ({ jobStatus, taskRoles }) => {
		const isOver = Boolean(jobStatus.completedTime);
		roles = taskRoles;
		stop.disabled = !mayChange || isOver;
		remove.disabled = !mayChange || !isOver;
		release.hidden = jobStatus.waitingReason?.reason !== "Held";
	};
	return { element, error, stop, clone, update };
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
	const edit = (yes) => {
		form.hidden = !yes;
		add.hidden = yes;
		(yes ? input : add).focus();
	};
	const submit = (event) => {
		event.preventDefault();
		change(addTag(id, input.value.trim()));
		input.value = "";
		edit(false);
	};
	const keydown = ({ key }) => { if (key === "Escape") edit(false); };
	const form = el("form", { hidden: true, on: { submit, keydown } }, input);
	const add = button("+ tag", () => edit(true), { "aria-label": "Add a tag", class: "link" });
	const remove = (tag) =>
		button("×", () => change(removeTag(id, tag)), { "aria-label": `Remove tag ${tag}` });
	const shown = (tag) => el("span", { class: "tag" }, tag, mayChange && remove(tag));
	return {
		element: el("div", { class: "tags" }, list, mayChange && [form, add], error),
		update: (tags) => fill(list, tags.map(shown)),
	};
}
