// The page "Submit": a job, its mistakes while it is typed, and the objects that it becomes.

import { freeName, takeCode, written } from "./actions.js";
import { get, isKnown, send, session } from "./api.js";
import { Checker, markItems, marksOfError, ROUTE, writtenPath } from "./checker.js";
import { acceptFiles, clusterChooser, exampleChooser, fileChooser, readFile } from "./choosers.js";
import { button, el, field, fill, pathOf, plural } from "./dom.js";
import { draftOf, dropDraft, keepDraft, submissionKey } from "./draft.js";
import { createEditor } from "./editor.js";
import { createForm } from "./form.js";
import { announce, go, shortcut } from "./frame.js";
import { loadSchema, namePathOf, valueAt } from "./schema.js";

const BEFORE = "This was before the text had mistakes.";
const NO_TEXT = "There are no objects, because there is no text of a job.";
const WRONG = "There are no objects, because the text has mistakes.";
const HELP = "Drop a job file here, or write. Ctrl+Space completes, Ctrl+Enter submits, " +
	"Ctrl+] and Ctrl+[ indent, Ctrl+F searches; Tab leaves the editor.";
const MISTAKEN = new Error("Not submitted: correct the mistakes first.");
const REMEDIES = new Map([
	[0, "The job may be there: submit it again, which makes no second one."],
	[409, "Change the name of the job, and submit it again."],
	[504, "Submit it again, which makes no second job."],
]);

let isPreviewOpen = false;

const isBlank = (text) => !text.trim();
const nameOf = ({ document: text }) => valueAt(text, namePathOf(text));
/** Changes the name in the text, and nothing else. */
const rename = (editor, name) => editor.set(namePathOf(editor.document), name);

/** Submits a text, and opens the page of its job. */
async function submitText(text) {
	const reply = await send("POST", ROUTE, text, { type: "text/yaml", key: submissionKey() });
	const job = /\/jobs\/([^/]+)$/.exec(reply.headers.get("Location"))[1];
	const { warnings = [] } = JSON.parse(reply.text);
	const told = warnings.map(({ pointer = "", message }) =>
		` Warning: ${writtenPath(pointer)} ${message}.`);
	announce(`Submitted: ${decodeURIComponent(job)}.${told.join("")}`);
	dropDraft();
	go(`#/jobs/${job}`);
}

/** The objects of the text, which can be folded. show(text, objects, isWrong): `objects` is
 * undefined if they are not known. */
function previewPanel() {
	const pre = el("pre", { tabindex: "0", hidden: true });
	const why = el("p", { class: "hint" }, NO_TEXT);
	const toggle = ({ target }) => { isPreviewOpen = target.open; };
	const element = el("details", { class: "preview", open: isPreviewOpen, on: { toggle } },
		el("summary", null, "Preview: the objects"), pre, why);
	const show = (text, objects, isWrong) => {
		if (objects !== undefined && pre.textContent !== objects) pre.textContent = objects;
		if (isBlank(text)) pre.textContent = "";
		pre.hidden = !pre.textContent;
		pre.classList.toggle("stale", isWrong);
		const mistaken = pre.hidden ? WRONG : BEFORE;
		why.textContent = isBlank(text) ? NO_TEXT : isWrong ? mistaken : "";
	};
	return { element, show };
}

class SubmitPage {
	#host = el("div", { class: "editor" });
	#status = el("p", { role: "status", class: "hint" });
	#list = el("ol", { class: "mistakes" });
	#error = el("p", { role: "alert", class: "error" });
	#button = button("Submit", () => this.#submit(), { class: "primary", disabled: true });
	#preview = previewPanel();
	#isSending = false;
	#fail = (error) => { if (!this.signal.aborted) this.#error.textContent = error.message; };
	#load = (file) => readFile(file).then((text) => { this.editor.text = text; }).catch(this.#fail);

	constructor(root, signal) {
		const user = session.user?.username ?? null;
		const draft = draftOf(user);
		Object.assign(this, { user, signal });
		this.form = createForm(draft.fields, (text) => { this.editor.text = text; });
		this.editor = createEditor(this.#host,
			{ text: draft.text, label: "Job", change: () => this.#changed() });
		this.clusters = clusterChooser(this.editor, signal, this.#fail);
		this.checker = new Checker(this.editor, signal, (result) => {
			this.#show(result);
			this.clusters.update();
		});
		signal.addEventListener("abort", () => this.editor.destroy());
		fill(root, this.#elements());
		acceptFiles(root, this.#load, signal);
		shortcut("Ctrl+Enter", "submit the job", () => this.#submit(), signal);
		// So that the first completion is soon there.
		const fetchSchema = () => loadSchema("v2").catch(() => {});
		this.#host.addEventListener("focusin", fetchSchema, { once: true });
	}

	#elements() {
		const { editor, signal } = this;
		const examples = exampleChooser(editor, signal, this.#fail);
		return [el("h1", { tabindex: "-1" }, "Submit a job"),
			el("div", { class: "toolbar tools" }, field("Example", examples),
				field("Virtual cluster", this.clusters.list), fileChooser(this.#load),
				this.#button), this.form.element,
			el("div", { class: "submit" }, el("div", { class: "writing" },
				el("div", { class: "said" }, el("h2", null, "Job"), this.#status, this.#error),
				this.#host, el("section", { "aria-label": "Mistakes" }, this.#list),
				el("p", { class: "hint" }, HELP)), this.#preview.element)];
	}

	#changed() {
		const { user, form, editor: { text } } = this;
		fill(this.#error);
		form.update(text, this.#host.matches(":focus-within"));
		keepDraft({ user, text, fields: form.values });
		this.checker.later();
	}

	/** Shows the result of a check. */
	#show({ marks, objects, problem }) {
		if (problem !== undefined) {
			this.#status.textContent = `Not checked: ${problem}`;
			return;
		}
		const { editor, editor: { text } } = this;
		const mistakes = marks.filter((m) => m.severity === "mistake").length;
		const warnings = marks.length - mistakes;
		editor.marks(marks);
		fill(this.#list, markItems(marks, editor.goTo));
		const found = (mistakes ? plural(mistakes, "mistake") : "No mistakes") +
			(warnings ? `, ${plural(warnings, "warning")}.` : ".");
		this.#status.textContent = isBlank(text) ? "" : found;
		this.#host.classList.toggle("wrong", mistakes > 0);
		this.#button.disabled = mistakes > 0 || isBlank(text) || this.#isSending;
		this.#preview.show(text, objects, mistakes > 0);
	}

	/** Submits the text, once at a time. */
	async #submit() {
		const { text } = this.editor;
		if (this.#isSending || isBlank(text)) return;
		this.#isSending = this.#button.disabled = true;
		this.#status.textContent = "Submitting ...";
		fill(this.#error);
		try {
			await submitText(text);
		} catch (error) {
			this.#isSending = false;
			this.#button.disabled = error.status === 400;
			this.#status.textContent = isKnown(error) ? "Not submitted." : "Perhaps submitted.";
			if (error.errors?.length) this.#show({ marks: marksOfError(error) });
			this.#fail(error.errors?.length ? MISTAKEN
				: new Error(`${error.message} ${REMEDIES.get(error.status) ?? ""}`));
			if (error.status === 409) await this.#offerName().catch(() => {});
		}
	}

	/** Says that the name is taken, with a button that uses a free one. */
	async #offerName() {
		const name = nameOf(this.editor);
		const free = await freeName(this.user, name);
		const click = () => {
			if (!this.form.rename(free)) rename(this.editor, free);
			this.#button.focus();
		};
		fill(this.#error, `The name ${name} is taken; ${free} is free. `,
			button(`Use ${free}`, click));
	}

	/** The job to clone, with another name. */
	async #clone({ from, name }) {
		const { editor, signal, user } = this;
		const text = await written(pathOf(from), { signal });
		history.replaceState(null, "", "#/submit"); // so that the way back leads to the edited text
		editor.text = text;
		const free = name || await freeName(user, nameOf(editor)).catch(() => null);
		if (free && !signal.aborted) rename(editor, free);
		const config = await get(`${pathOf(from)}/config`, { signal });
		await takeCode(from, config, user, { signal });
	}

	/** Shows the draft, or the job to clone. */
	async begin(params) {
		const { from } = params;
		this.form.update(from || this.editor.text, false);
		if (from) await this.#clone(params).catch(({ message }) =>
			this.#fail(new Error(`${from} is not cloned: ${message}`)));
		if (this.editor.text) this.checker.later(0);
	}
}

export default (root, params, signal) => new SubmitPage(root, signal).begin(params);
