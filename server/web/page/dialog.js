// Dialogs that the page waits for.

import { el } from "./dom.js";

/** Shows a modal dialog; resolves to the value of the button that closes it, or to "". */
export function showDialog(label, ...content) {
	const dialog = el("dialog", { "aria-label": label }, content);
	document.body.append(dialog);
	dialog.showModal();
	return new Promise((resolve) => {
		dialog.addEventListener("close", () => {
			dialog.remove();
			resolve(dialog.returnValue);
		});
	});
}

/** Asks a question. `verb`: the button that agrees; `refuse`: the other one; `danger`: agreeing
 * destroys something; `input`: an element that the dialog also shows. Resolves to true if the user
 * agrees. */
export async function ask({ title, text, verb, refuse = "Cancel", danger = false, input }) {
	const agree = el("button", { class: danger ? "danger" : "primary", value: "yes" }, verb);
	const cancel = el("button", { formnovalidate: true, autofocus: !input }, refuse);
	const form = el("form", { method: "dialog", class: "stack" }, el("p", null, text), input,
		el("div", { class: "choices" }, agree, cancel));
	return await showDialog(title, form) === "yes";
}
