// What a page shows around and above itself: the address, a message, dialogs.

import { el } from "./dom.js";

const MESSAGE_MS = 10000;
let timer;

/** Shows a message, and lets assistive tools read it. */
export function announce(text) {
	const message = document.getElementById("message");
	message.textContent = text;
	clearTimeout(timer);
	timer = setTimeout(() => { message.textContent = ""; }, MESSAGE_MS);
}

/** Replaces the parameters in the address, without another look at the page; empty ones are left
 * out. */
export function setQuery(params) {
	const query = new URLSearchParams(Object.entries(params).filter(([, value]) => value));
	const [path] = location.hash.split("?");
	history.replaceState(history.state, "", path + (query.size ? `?${query}` : ""));
}

/** Opens another page, or the same one again; the hash begins with "#/". */
export function go(hash) {
	if (location.hash === hash) dispatchEvent(new HashChangeEvent("hashchange"));
	else location.hash = hash;
}

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

/** Asks a question. `verb`: the button that agrees; `refuse`: the other one, if agreeing destroys
 * something; `input`: an element that is also shown. Resolves to true if the user agrees. */
export async function ask({ verb, title = verb, text, refuse, input }) {
	const agree = el("button", { class: refuse ? "danger" : "primary", value: "yes" }, verb);
	const cancel = el("button", { formnovalidate: true, autofocus: !input }, refuse ?? "Cancel");
	const form = el("form", { method: "dialog", class: "stack" }, el("p", null, text), input,
		el("div", { class: "choices" }, agree, cancel));
	return await showDialog(title, form) === "yes";
}
