// The page "Submit": a job, its mistakes while it is typed, and the objects that it becomes.
// The route of v1 takes all dialects of the server and has the messages of `rest-lit validate`.

import { freeName, takeCode, written } from "./actions.js";
import { connection, get, isKnown, send, session } from "./api.js";
import { button, el, field, fill } from "./dom.js";
import { draftOf, dropDraft, keepDraft, submissionKey } from "./draft.js";
import { createEditor } from "./editor.js";
import { createForm } from "./form.js";
import { plural } from "./format.js";
import { announce, go, shortcut } from "./main.js";
import { loadSchema, namePathOf, settingOf, valueAt } from "./schema.js";

export const title = "Submit";

const ROUTE = "api/v1/jobs";
const TYPE = "text/yaml";
const TYPING = 200; // ms without a key before the text is checked
const LIMITED_FIRST = 2; // seconds between checks when the server limits them
const LIMITED_LAST = 30;
const FILE_MOST = 16 << 20; // bytes
const BEFORE = "This was before the text had mistakes.";
const NO_TEXT = "There are no objects, because there is no text of a job.";
const WRONG = "There are no objects, because the text has mistakes.";
const HELP = "Drop a job file here, or write. Ctrl+Space completes, Ctrl+Enter submits, " +
	"Ctrl+] and Ctrl+[ indent, Ctrl+F searches; Tab leaves the editor.";

let isPreviewOpen = false;

// ---- mistakes ----
const WARNINGS = "\nwarnings:\n";
const PLAIN = /^[A-Za-z_][\w-]*$/;
const MEMBER = /^ {2}(?:- | {2})(pointer|line|column|message): (.*)$/;

/** The answer of a dry run in YAML: the objects as `rest-lit translate -o yaml` prints them, and
 * the warnings, which the server writes behind them. */
export function answerOf(text) {
	const at = text.lastIndexOf(WARNINGS);
	const warnings = [];
	for (const line of at < 0 ? [] : text.slice(at + WARNINGS.length).split("\n")) {
		const [, name, value] = MEMBER.exec(line) ?? [];
		if (line.startsWith("  - ")) warnings.push({});
		if (name) warnings.at(-1)[name] = /^["\d]/.test(value) ? JSON.parse(value) : value;
	}
	return { objects: at < 0 ? text : text.slice(0, at + 1), warnings };
}

/** Mistakes and warnings in the order of the text; "and 7 more" has no place and is last. */
function marksOf(errors, warnings = []) {
	const all = [
		...errors.map((m) => ({ ...m, severity: "mistake" })),
		...warnings.map((m) => ({ ...m, severity: "warning" })),
	];
	const row = ({ line, pointer }) => line ?? (pointer === undefined ? Infinity : 0);
	return all.sort((a, b) => row(a) - row(b) || (a.column ?? 0) - (b.column ?? 0));
}

const marksOfError = ({ errors, warnings, message }) =>
	marksOf(errors.length ? errors : [{ message }], warnings);

/** A JSON pointer as people write it: taskRoles.worker.ports[0] */
const pathOf = (pointer) => pointer.split("/").slice(1)
	.map((token) => token.replaceAll("~1", "/").replaceAll("~0", "~"))
	.map((key) => (/^\d+$/.test(key) ? `[${key}]` : PLAIN.test(key) ? `.${key}` : `["${key}"]`))
	.join("").replace(/^\./, "");

function showMistakes(list, editor) {
	return list.map(({ line, column, severity, message, pointer = "" }) => {
		const warning = severity === "warning" ? "warning: " : "";
		const text = line ? `line ${line}: ${warning}${message}` : warning + message;
		const click = () => editor.goTo(line, column);
		return el("li", { class: severity, "data-column": column },
			line ? button(text, click) : text,
			pointer && el("span", { class: "soft" }, ` ${pathOf(pointer)}`));
	});
}

// ---- checks while typing ----
const isBlank = (text) => !text.trim();
const NOTHING = { result: { marks: [] }, wait: 0 };

/** Checks the newest text when nobody has typed for a moment; at most one check at a time. show()
 * gets {marks, objects} or {problem, offline}. */
function checker(editor, signal, show) {
	let timer, running = false, limited = 0;
	const later = (ms) => {
		clearTimeout(timer);
		timer = setTimeout(check, ms);
	};
	async function check() {
		if (running) return later(TYPING);
		running = true;
		const { text } = editor;
		const { result, wait } = isBlank(text) ? NOTHING : await tryOut(text, signal);
		running = false;
		connection(check, Boolean(result.offline) && !signal.aborted);
		if (signal.aborted) return undefined;
		limited = wait ? Math.min(Math.max(wait, 2 * limited), LIMITED_LAST) : 0;
		if (editor.text === text) show(result);
		return limited ? later(limited * 1000) : undefined;
	}
	signal.addEventListener("abort", () => {
		clearTimeout(timer);
		connection(check, false);
	});
	return { soon: () => later(Math.max(TYPING, limited * 1000)), now: () => later(0) };
}

/** {result, wait}; `wait` seconds before the next request. */
async function tryOut(text, signal) {
	try {
		const accept = "application/yaml";
		const reply = await send("POST", `${ROUTE}?dryRun=true`, text, { signal, type: TYPE, accept });
		const { objects, warnings } = answerOf(reply.text);
		return { result: { objects, marks: marksOf([], warnings) }, wait: 0 };
	} catch (error) {
		const { status, retryAfter, message } = error;
		if (status >= 400 && status < 500 && status !== 429) {
			return { result: { marks: marksOfError(error) }, wait: 0 };
		}
		const result = { problem: message, offline: status === 0 };
		return { result, wait: Math.max(retryAfter || 0, LIMITED_FIRST) };
	}
}

// ---- files, examples, virtual clusters ----
async function readFile(file) {
	const { name, size } = file;
	if (size > FILE_MOST) throw new Error(`${name} is larger than 16 MiB: it cannot be a job.`);
	const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
	try {
		return decoder.decode(await file.arrayBuffer());
	} catch {
		throw new Error(`${name} is not text in UTF-8. Save it in this encoding and open it again.`);
	}
}

const option = (value, text) => el("option", { value }, text);

function exampleChooser(editor, signal, fail) {
	let examples = [];
	const list = el("select", { on: { change: () => {
		const chosen = examples[Number(list.value)];
		if (chosen) editor.text = chosen.text;
		list.value = "";
	} } }, option("", "choose ..."));
	get("web/examples.json", { signal }).then((all) => {
		examples = all;
		list.append(...all.map(({ name, title: text }, i) => option(i, text || name)));
	}).catch(fail);
	return list;
}

const clusterPath = (text) =>
	(valueAt(text, ["jobName"]) !== null && valueAt(text, ["protocolVersion"]) === null
		? ["virtualCluster"] : ["defaults", "virtualCluster"]);

/** {list, update}: update() shows the virtual cluster of the text. */
function clusterChooser(editor, signal, fail) {
	let names = session.user?.virtualCluster ?? [];
	const update = () => {
		const text = editor.document;
		const now = valueAt(text, clusterPath(text)) ?? "";
		const all = [...new Set([...names, now])].filter(Boolean);
		fill(list, option("", "not set"), all.map((name) => option(name, name)));
		list.value = now;
	};
	const choose = () => {
		const text = editor.document;
		const change = list.value && settingOf(text, clusterPath(text), list.value);
		if (change) editor.replaceRange(change.from, change.to, change.insert);
		else if (list.value) fail(new Error("Write the job first, or choose an example."));
		update();
	};
	const list = el("select", { on: { change: choose } });
	if (!names.length || session.user?.admin) {
		get("api/v2/virtual-clusters", { signal }).then((all) => {
			names = Object.keys(all);
			update();
		}).catch(fail);
	}
	update();
	return { list, update };
}

function fileChooser(load) {
	const input = el("input", { type: "file", class: "visually-hidden", on: { change: () => {
		if (input.files[0]) load(input.files[0]);
		input.value = "";
	} } });
	return el("label", { class: "button" }, "Open a file", input);
}

function acceptFiles(area, load, signal) {
	for (const type of ["dragover", "dragleave", "drop"]) {
		area.addEventListener(type, (event) => {
			if (!event.dataTransfer?.types.includes("Files")) return;
			event.preventDefault();
			event.stopPropagation(); // the editor would insert the text of the file
			area.classList.toggle("dropping", type === "dragover");
			const file = event.dataTransfer.files[0];
			if (type === "drop" && file) load(file);
		}, { capture: true, signal });
	}
}

// ---- the page ----
function parts() {
	return {
		host: el("div", { class: "editor" }),
		status: el("p", { role: "status", class: "hint" }),
		list: el("ol", { class: "mistakes" }),
		preview: el("pre", { tabindex: "0", hidden: true }),
		why: el("p", { class: "hint" }, NO_TEXT),
		error: el("p", { role: "alert", class: "error" }),
		button: el("button", { type: "button", class: "primary", disabled: true }, "Submit"),
		sending: false,
	};
}

function showPreview({ preview, why }, text, objects, isWrong) {
	if (objects !== undefined && preview.textContent !== objects) preview.textContent = objects;
	if (isBlank(text)) preview.textContent = "";
	preview.hidden = !preview.textContent;
	preview.classList.toggle("stale", isWrong);
	why.textContent = isBlank(text) ? NO_TEXT : !isWrong ? "" : preview.hidden ? WRONG : BEFORE;
}

/** Shows the result of a check. */
function showResult(p, editor, { marks, objects, problem }) {
	const { host, status, list, button } = p;
	if (problem !== undefined) {
		status.textContent = `Not checked: ${problem}`;
		return;
	}
	const { text } = editor;
	const mistakes = marks.filter((m) => m.severity === "mistake").length;
	const warnings = marks.length - mistakes;
	editor.marks(marks);
	fill(list, showMistakes(marks, editor));
	const found = (mistakes ? plural(mistakes, "mistake") : "No mistakes") +
		(warnings ? `, ${plural(warnings, "warning")}.` : ".");
	status.textContent = isBlank(text) ? "" : found;
	host.classList.toggle("wrong", mistakes > 0);
	button.disabled = mistakes > 0 || isBlank(text) || p.sending;
	showPreview(p, text, objects, mistakes > 0);
}

// ---- submissions ----
async function submitText(text) {
	const reply = await send("POST", ROUTE, text, { type: TYPE, key: submissionKey() });
	const job = /\/jobs\/([^/]+)$/.exec(reply.headers.get("Location"))[1];
	const { warnings = [] } = JSON.parse(reply.text);
	const told = warnings.map(({ pointer = "", message }) => ` Warning: ${pathOf(pointer)} ${message}.`);
	announce(`Submitted: ${decodeURIComponent(job)}.${told.join("")}`);
	dropDraft();
	go(`#/jobs/${job}`);
}

const nameOf = ({ document: text }) => valueAt(text, namePathOf(text) ?? ["name"]);

/** Changes the name in the text, and nothing else. */
function rename(editor, name) {
	const text = editor.document;
	const change = settingOf(text, namePathOf(text) ?? ["name"], name);
	if (change) editor.replaceRange(change.from, change.to, change.insert);
}

/** Says that the name is taken, with a button that uses a free one. */
async function offerName(p, editor, form) {
	const name = nameOf(editor);
	const free = await freeName(session.user.username, name);
	const click = () => {
		if (!form.rename(free)) rename(editor, free);
		p.button.focus();
	};
	fill(p.error, `The name ${name} is taken; ${free} is free. `,
		button(`Use ${free}`, click));
}

const MISTAKEN = new Error("Not submitted: correct the mistakes first.");
const REMEDIES = new Map([
	[0, "The job may be there: submit it again, which makes no second one."],
	[409, "Change the name of the job, and submit it again."],
	[504, "Submit it again, which makes no second job."],
]);

/** A function that submits the text, once at a time. */
const submitter = (p, editor, form, fail) => async () => {
	if (p.sending || isBlank(editor.text)) return;
	p.sending = p.button.disabled = true;
	p.status.textContent = "Submitting ...";
	fill(p.error);
	try {
		await submitText(editor.text);
	} catch (error) {
		p.sending = false;
		p.button.disabled = error.status === 400;
		p.status.textContent = isKnown(error) ? "Not submitted." : "Perhaps submitted.";
		if (error.errors?.length) showResult(p, editor, { marks: marksOfError(error) });
		fail(error.errors?.length ? MISTAKEN
			: new Error(`${error.message} ${REMEDIES.get(error.status) ?? ""}`));
		if (error.status === 409) await offerName(p, editor, form).catch(() => {});
	}
};

/** Ctrl+Enter submits, everywhere on the page. */
function submitByKeys(root, submit, signal) {
	root.addEventListener("keydown", (event) => {
		if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || event.isComposing) return;
		event.preventDefault();
		event.stopPropagation();
		submit();
	}, { capture: true, signal });
	shortcut("Ctrl+Enter", "submit the job", submit, signal); // for the list of shortcuts
}

function previewOf(p) {
	const toggle = ({ target }) => { isPreviewOpen = target.open; };
	return el("details", { class: "preview", open: isPreviewOpen, on: { toggle } },
		el("summary", null, "Preview: the objects"), p.preview, p.why);
}

/** The job to clone, with another name. */
async function clone({ from, name }, editor, signal) {
	const text = await written(`api/v2/jobs/${encodeURIComponent(from)}`, { signal });
	history.replaceState(null, "", "#/submit"); // so that the way back leads to the edited text
	editor.text = text;
	const user = session.user.username;
	const free = name || await freeName(user, nameOf(editor)).catch(() => null);
	if (free && !signal.aborted) rename(editor, free);
	const config = await get(`api/v2/jobs/${encodeURIComponent(from)}/config`, { signal });
	await takeCode(from, config, user, { signal });
}

export default async function page(root, params, signal) {
	const p = parts();
	const user = session.user?.username ?? null;
	const draft = draftOf(user);
	const fail = (error) => { if (!signal.aborted) p.error.textContent = error.message; };
	const form = createForm(draft.fields, (text) => { editor.text = text; });
	const changed = () => {
		const { text } = editor;
		fill(p.error);
		form.update(text, p.host.matches(":focus-within"));
		keepDraft({ user, text, fields: form.values });
		checks.soon();
	};
	const editor = createEditor(p.host, { text: draft.text, label: "Job", change: changed });
	const clusters = clusterChooser(editor, signal, fail);
	const checks = checker(editor, signal, (result) => {
		showResult(p, editor, result);
		clusters.update();
	});
	const submit = submitter(p, editor, form, fail);
	const load = (file) => readFile(file).then((text) => { editor.text = text; }).catch(fail);
	p.button.addEventListener("click", submit);
	signal.addEventListener("abort", () => editor.destroy());
	form.update(params.from || editor.text, false);
	fill(root, el("h1", { tabindex: "-1" }, "Submit a job"),
		el("div", { class: "toolbar tools" }, field("Example", exampleChooser(editor, signal, fail)),
			field("Virtual cluster", clusters.list), fileChooser(load), p.button),
		form.element,
		el("div", { class: "submit" },
			el("div", { class: "writing" },
				el("div", { class: "said" }, el("h2", null, "Job"), p.status, p.error), p.host,
				el("p", { class: "hint" }, HELP), el("section", { "aria-label": "Mistakes" }, p.list)),
			previewOf(p)));
	acceptFiles(root, load, signal);
	submitByKeys(root, submit, signal);
	// So that the first completion is soon there.
	const fetchSchema = () => loadSchema("v2").catch(() => {});
	p.host.addEventListener("focusin", fetchSchema, { once: true });
	if (params.from) await clone(params, editor, signal).catch(({ message }) =>
		fail(new Error(`${params.from} is not cloned: ${message}`)));
	if (editor.text) checks.now();
}
