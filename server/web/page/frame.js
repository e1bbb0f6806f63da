// The frame of a page: the address, a message, dialogs; keys that act while
// the user does not type, and the list of them.

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

const SEQUENCE_MS = 1500; // between two keys of a shortcut
const TYPING = "input:not([type=checkbox]), textarea, select, [contenteditable]";
const PRESSED = "a, button, summary"; // Enter and the space bar press these

const shortcuts = new Map(); // "g l" -> {text, act, isGeneral}
let begun = ""; // the first key of two
let begunAt = 0;

/** act() at these keys ("j", "g l") while the user does not type, and at "Ctrl+Enter" always, until
 * the signal aborts; text: what it does, for the list of shortcuts. */
export function shortcut(keys, text, act, signal) {
	const one = { text, act, isGeneral: !signal };
	shortcuts.set(keys, one);
	signal?.addEventListener("abort", () => {
		if (shortcuts.get(keys) === one) shortcuts.delete(keys);
	});
}

function pressed(event) {
	const { key, timeStamp } = event;
	const isHeld = event.ctrlKey || event.metaKey;
	const at = (selector) => event.composedPath()[0].closest?.(selector);
	if (event.altKey || event.isComposing || (!isHeld && at(TYPING))) return;
	if (!isHeld && ["Enter", " "].includes(key) && at(PRESSED)) return;
	const dialog = document.querySelector("dialog[open]");
	if (dialog && key === "?") dialog.querySelector(".shortcuts")?.closest("dialog").close();
	if (dialog) return;
	const before = timeStamp - begunAt < SEQUENCE_MS ? begun : "";
	const keys = isHeld ? `Ctrl+${key}` : before + key;
	begun = "";
	if (shortcuts.has(keys)) {
		event.preventDefault();
		shortcuts.get(keys).act();
	} else if (!isHeld && [...shortcuts.keys()].some((name) => name.startsWith(`${key} `))) {
		[begun, begunAt] = [`${key} `, timeStamp];
	}
}

export function showShortcuts() {
	const row = ([keys, { text }]) => el("div", null,
		el("dt", null, keys.split(" ").map((key) => el("kbd", null, key))), el("dd", null, text));
	const part = (heading, general) => {
		const rows = [...shortcuts].filter(([, { isGeneral }]) => isGeneral === general).map(row);
		return rows.length > 0 &&
			el("section", null, el("h3", null, heading), el("dl", { class: "keys" }, rows));
	};
	showDialog("Shortcuts", el("h2", null, "Shortcuts"),
		el("div", { class: "shortcuts" }, part("On this page", false), part("Everywhere", true)),
		el("form", { method: "dialog" }, el("button", { autofocus: true }, "Close")));
}

addEventListener("keydown", pressed);
shortcut("?", "this list", showShortcuts);
