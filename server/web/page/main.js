// The frame of the page: routes in the hash, navigation, the user, messages.

import { awaited, changes, getText, pause, session, signOut, start } from "./api.js";
import { button, el, fill } from "./dom.js";

const ROUTES = [
	[/^\/jobs$/, () => import("./jobs.js")],
	[/^\/jobs\/(?<job>[^/]+)$/, () => import("./job.js")],
	[/^\/compare$/, () => import("./compare.js")],
	[/^\/submit$/, () => import("./submit.js")],
	[/^\/machine$/, () => import("./machine.js")],
	[/^\/account$/, () => import("./account.js")],
	[/^\/sign-in$/, () => import("./signin.js"), { open: true }],
];
const HOME = "#/jobs";
const SIGN_IN = "#/sign-in";
const ACCOUNT = "#/account";
const MESSAGE_MS = 10000;
const SLOW_MS = 200; // without an answer, until something shows
const RETRY_MS = 1000; // between two looks for a server that is away
const SEQUENCE_MS = 1500; // between two keys of a shortcut
const BROKEN = "This page cannot be shown";
const LOST = "The connection to the server is lost. Trying again; what you see may be old.";

const byId = (id) => document.getElementById(id);
const root = byId("page");
let leave = new AbortController();
let messageTimer;

/** Shows a message, and lets assistive tools read it. */
export function announce(text) {
	byId("message").textContent = text;
	clearTimeout(messageTimer);
	messageTimer = setTimeout(() => { byId("message").textContent = ""; }, MESSAGE_MS);
}

export function setTitle(text) {
	document.title = text;
}

/** Replaces the parameters in the address, without another look at the page; empty ones are left
 * out. */
export function setQuery(params) {
	const query = new URLSearchParams(Object.entries(params).filter(([, value]) => value)).toString();
	history.replaceState(history.state, "", location.hash.split("?")[0] + (query && `?${query}`));
}

/** Opens another page; the hash begins with "#/". */
export function go(hash) {
	if (location.hash === hash) show();
	else location.hash = hash;
}

/** The page of a hash: {load, open, params}, or null. */
function find(hash) {
	const [path, query = ""] = hash.slice(1).split(/\?(.*)/s);
	for (const [pattern, load, { open = false } = {}] of ROUTES) {
		const match = pattern.exec(path);
		if (!match) continue;
		try {
			const params = Object.fromEntries(new URLSearchParams(query));
			for (const name in match.groups) params[name] = decodeURIComponent(match.groups[name]);
			return { load, open, params };
		} catch {
			return null; // not UTF-8
		}
	}
	return null;
}

function fail(title, text) {
	setTitle(`${title} - rest-lit`);
	fill(root, el("h1", { tabindex: "-1" }, title), el("p", { role: "alert", class: "error" }, text));
}

function mark(hash) {
	for (const link of document.querySelectorAll("nav a, .user")) {
		const target = link.getAttribute("href");
		if (hash === target || hash.startsWith(`${target}?`)) link.setAttribute("aria-current", "page");
		else link.removeAttribute("aria-current");
	}
}

/** The module of a page, as soon as the server is there. */
async function loaded(load, signal) {
	for (let isThere = false; ;) {
		try {
			return await load();
		} catch (error) {
			if (isThere) throw error;
			isThere = await getText("healthz", { signal }).then(() => true, () => false);
			if (!isThere) await pause(RETRY_MS, signal);
		}
	}
}

async function show() {
	const hash = location.hash || HOME;
	leave.abort(new DOMException("the page was left", "AbortError"));
	leave = new AbortController();
	const { signal } = leave;
	const found = find(hash);
	mark(hash);
	isNew = true;
	fill(root);
	if (!found) {
		fail("Not found", `There is no page ${hash}.`);
		return;
	}
	if (!session.user && !found.open) {
		location.replace(`${SIGN_IN}?then=${encodeURIComponent(hash)}`);
		return;
	}
	try {
		const page = await awaited(loaded(found.load, signal));
		if (signal.aborted) return;
		setTitle(`${page.title} - rest-lit`);
		const shown = page.default(root, found.params, signal);
		const isPlaced = document.activeElement !== root && root.contains(document.activeElement);
		if (!isPlaced) { // the page has not returned to a place of its own
			const first = root.querySelector("[autofocus]") ?? root.querySelector("h1") ?? root;
			first.focus({ preventScroll: true });
			scrollTo(0, 0);
		}
		await shown;
	} catch (error) {
		if (signal.aborted) return;
		fail(BROKEN, error.message);
		if (error.status === undefined) console.error(error);
	}
}

// ---- waiting for answers ----
let isNew = true; // the first answers of this page have not come
let slowTimer, doneTimer;

function showSlow() {
	byId("waiting").hidden = false;
	if (isNew) byId("loading").textContent = "Loading ...";
}

function showDone() {
	clearTimeout(slowTimer);
	slowTimer = undefined;
	isNew = false;
	byId("waiting").hidden = true;
	byId("loading").textContent = "";
}

changes.addEventListener("waiting", ({ detail: n }) => {
	clearTimeout(doneTimer);
	if (n) slowTimer ??= setTimeout(showSlow, SLOW_MS);
	else doneTimer = setTimeout(showDone); // the next request may follow at once
});

// ---- shortcuts ----
const TYPING = "input:not([type=checkbox]), textarea, select, [contenteditable]";
const PRESSED = "a, button, summary"; // Enter and the space bar press these
const shortcuts = new Map(); // "g l" -> {text, act, isGeneral}
let begun = ""; // the first key of two
let begunAt = 0;

/** act() at these keys ("j", "g l"), while the user does not type and the signal has not aborted;
 * text: what it does, for the list of shortcuts. */
export function shortcut(keys, text, act, signal) {
	const one = { text, act, isGeneral: !signal };
	shortcuts.set(keys, one);
	signal?.addEventListener("abort", () => {
		if (shortcuts.get(keys) === one) shortcuts.delete(keys);
	});
}

function pressed(event) {
	const { key, timeStamp } = event;
	const at = (selector) => event.composedPath()[0].closest?.(selector);
	if (event.ctrlKey || event.altKey || event.metaKey || event.isComposing || at(TYPING)) return;
	if (["Enter", " "].includes(key) && at(PRESSED)) return;
	const dialog = document.querySelector("dialog[open]");
	if (dialog && key === "?") dialog.querySelector(".shortcuts")?.closest("dialog").close();
	if (dialog) return;
	const keys = (timeStamp - begunAt < SEQUENCE_MS ? begun : "") + key;
	begun = "";
	if (shortcuts.has(keys)) {
		event.preventDefault();
		shortcuts.get(keys).act();
	} else if ([...shortcuts.keys()].some((name) => name.startsWith(`${key} `))) {
		[begun, begunAt] = [`${key} `, timeStamp];
	}
}

function showShortcuts() {
	const row = ([keys, { text }]) => el("div", null,
		el("dt", null, keys.split(" ").map((key) => el("kbd", null, key))), el("dd", null, text));
	const part = (heading, general) => {
		const rows = [...shortcuts].filter(([, { isGeneral }]) => isGeneral === general).map(row);
		return rows.length > 0 &&
			el("section", null, el("h3", null, heading), el("dl", { class: "keys" }, rows));
	};
	const close = el("button", { autofocus: true }, "Close");
	const dialog = el("dialog", { "aria-label": "Shortcuts" }, el("h2", null, "Shortcuts"),
		el("div", { class: "shortcuts" }, part("On this page", false), part("Everywhere", true)),
		el("form", { method: "dialog" }, close));
	dialog.addEventListener("close", () => dialog.remove());
	document.body.append(dialog);
	dialog.showModal();
}

function showUser() {
	const { user, token } = session;
	const minor = { class: "minor" }; // a phone has no keys, and "Sign out" on the page of the account
	byId("machine-link").hidden = !session.local;
	if (session.local) shortcut("g m", "the machine", () => go("#/machine"));
	fill(byId("account"),
		user && button("?", showShortcuts, { ...minor, "aria-label": "Shortcuts", title: "Shortcuts" }),
		user && el("a", { href: ACCOUNT, class: "user", title: "Your account" }, user.username),
		user && token && button("Sign out", signOut, minor),
		!user && el("a", { href: SIGN_IN }, "Sign in"));
	mark(location.hash);
}

changes.addEventListener("connection", ({ detail: lost }) => {
	byId("connection").textContent = lost ? LOST : "";
	if (!lost) announce("The connection is back.");
});
changes.addEventListener("session", ({ detail: why }) => {
	const before = byId("account").textContent;
	showUser();
	if (why && before && !session.ended) announce(why);
	if (!session.user && before && !find(location.hash)?.open) show();
});
byId("skip").addEventListener("click", (event) => {
	event.preventDefault();
	root.focus();
});

addEventListener("keydown", pressed);
shortcut("?", "this list", showShortcuts);
shortcut("g l", "the list of jobs", () => go(HOME));
shortcut("g s", "submit a job", () => go("#/submit"));
shortcut("g a", "your account and tokens", () => go(ACCOUNT));

try {
	await start();
	showUser();
	addEventListener("hashchange", show);
	show();
} catch (error) {
	fail(BROKEN, error.message);
}
