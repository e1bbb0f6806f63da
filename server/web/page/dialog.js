// Questions that the page asks before it acts.

import { el } from "./dom.js";

/** Asks a question in a modal dialog. `verb`: the button that agrees; `refuse`: the other one;
 * `danger`: agreeing destroys something; `input`: an element that the dialog also shows. Resolves to
 * true if the user agrees. */
export function ask({ title, text, verb, refuse = "Cancel", danger = false, input }) {
	const agree = el("button", { class: danger ? "danger" : "primary", value: "yes" }, verb);
	const cancel = el("button", { type: "button", on: { click: () => dialog.close() } }, refuse);
	const dialog = el("dialog", { "aria-label": title },
		el("form", { method: "dialog", class: "stack" }, el("p", null, text), input,
			el("div", { class: "choices" }, agree, cancel)));
	document.body.append(dialog);
	dialog.showModal();
	if (!input) cancel.focus();
	return new Promise((resolve) => {
		dialog.addEventListener("close", () => {
			dialog.remove();
			resolve(dialog.returnValue === "yes");
		});
	});
}
