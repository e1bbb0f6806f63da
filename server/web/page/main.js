// The frame of the page: routes in the hash, navigation, the user, messages.

import { changes, session, signOut, start } from "./api.js";
import { el, fill } from "./dom.js";

const ROUTES = [
	[/^\/jobs$/, () => import("./jobs.js")],
	[/^\/jobs\/(?<job>[^/]+)$/, () => import("./job.js")],
	[/^\/submit$/, () => import("./submit.js")],
	[/^\/machine$/, () => import("./machine.js")],
	[/^\/sign-in$/, () => import("./signin.js"), { open: true }],
];
const HOME = "#/jobs";
const SIGN_IN = "#/sign-in";
const MESSAGE_MS = 10000;
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
	document.title = `${title} - rest-lit`;
	fill(root, el("h1", { tabindex: "-1" }, title), el("p", { role: "alert", class: "error" }, text));
}

function mark(hash) {
	for (const link of document.querySelectorAll("nav a")) {
		const target = link.getAttribute("href");
		if (hash === target || hash.startsWith(`${target}?`)) link.setAttribute("aria-current", "page");
		else link.removeAttribute("aria-current");
	}
}

async function show() {
	const hash = location.hash || HOME;
	leave.abort(new DOMException("the page was left", "AbortError"));
	leave = new AbortController();
	const { signal } = leave;
	const found = find(hash);
	mark(hash);
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
		const page = await found.load();
		if (signal.aborted) return;
		document.title = `${page.title} - rest-lit`;
		const shown = page.default(root, found.params, signal);
		const first = root.querySelector("[autofocus]") ?? root.querySelector("h1") ?? root;
		first.focus({ preventScroll: true });
		scrollTo(0, 0);
		await shown;
	} catch (error) {
		if (signal.aborted) return;
		fail(BROKEN, error.message);
		if (error.status === undefined) console.error(error);
	}
}

function showUser() {
	const { user, token } = session;
	byId("machine-link").hidden = !session.local;
	fill(byId("account"),
		user && el("span", { class: "user", title: user.admin ? "administrator" : null }, user.username),
		user && token && el("button", { type: "button", on: { click: signOut } }, "Sign out"),
		!user && el("a", { href: SIGN_IN }, "Sign in"));
}

changes.addEventListener("connection", ({ detail: lost }) => {
	byId("connection").textContent = lost ? LOST : "";
	if (!lost) announce("The connection is back.");
});
changes.addEventListener("session", ({ detail: why }) => {
	const before = byId("account").textContent;
	showUser();
	if (why && before) announce(why);
	if (!session.user && before && !find(location.hash)?.open) show();
});
byId("skip").addEventListener("click", (event) => {
	event.preventDefault();
	root.focus();
});

try {
	await start();
	showUser();
	addEventListener("hashchange", show);
	show();
} catch (error) {
	fail(BROKEN, error.message);
}
