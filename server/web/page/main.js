// The frame of the page: routes in the hash, navigation, the user, the state of the connection.

import { awaited, changes, getText, keepAsking, session, signOut, start } from "./api.js";
import { button, el, fill } from "./dom.js";
import { announce, go, shortcut, showShortcuts } from "./frame.js";

const ROUTES = [
	[/^\/jobs$/, () => import("./jobs.js")],
	[/^\/jobs\/(?<job>[^/]+)$/, () => import("./job.js")],
	[/^\/compare$/, () => import("./compare.js")],
	[/^\/submit$/, () => import("./submit.js")],
	[/^\/machine$/, () => import("./machine.js")],
	[/^\/report$/, () => import("./report.js")],
	[/^\/account$/, () => import("./account.js")],
	[/^\/sign-in$/, () => import("./signin.js"), true],
];
const [HOME, SIGN_IN, ACCOUNT] = ["#/jobs", "#/sign-in", "#/account"];
const SLOW_MS = 200; // without an answer, until something shows
const BROKEN = "This page cannot be shown";
const LOST = "The connection to the server is lost. Trying again; what you see may be old.";

const byId = (id) => document.getElementById(id);
const root = byId("page");
let leave = new AbortController();

/** The page of a hash: {load, params, isOpen: without a user}, or null. */
function find(hash) {
	const [path, query = ""] = hash.slice(1).split(/\?(.*)/s);
	for (const [pattern, load, isOpen] of ROUTES) {
		const match = pattern.exec(path);
		if (!match) continue;
		try {
			const params = Object.fromEntries(new URLSearchParams(query));
			for (const name in match.groups) params[name] = decodeURIComponent(match.groups[name]);
			return { load, isOpen, params };
		} catch {
			return null; // not UTF-8
		}
	}
	return null;
}

function fail(title, text) {
	document.title = `${title} - rest-lit`;
	fill(root, el("h1", { tabindex: "-1" }, title),
		el("p", { role: "alert", class: "error" }, text));
}

function mark(hash) {
	for (const link of document.querySelectorAll("nav a, .user")) {
		const target = link.getAttribute("href");
		link.ariaCurrent = hash === target || hash.startsWith(`${target}?`) ? "page" : null;
	}
}

/** The module of a page, as soon as the server is there. */
const loaded = (load, signal) => load().catch(async () => {
	await keepAsking(() => getText("healthz", { signal }), signal);
	return load();
});

async function openPage({ load, params }, signal) {
	const page = await awaited(loaded(load, signal));
	if (signal.aborted) return;
	const shown = page.default(root, params, signal);
	document.title = `${root.querySelector("h1").textContent} - rest-lit`;
	const isPlaced = document.activeElement !== root && root.contains(document.activeElement);
	if (!isPlaced) { // the page has not returned to a place of its own
		const first = root.querySelector("[autofocus]") ?? root.querySelector("h1") ?? root;
		first.focus({ preventScroll: true });
		scrollTo(0, 0);
	}
	await shown;
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
	if (!found) fail("Not found", `There is no page ${hash}.`);
	else if (!session.user && !found.isOpen) {
		location.replace(`${SIGN_IN}?then=${encodeURIComponent(hash)}`);
	} else {
		await openPage(found, signal).catch((error) => {
			if (signal.aborted) return;
			fail(BROKEN, error.message);
			if (error.status === undefined) console.error(error);
		});
	}
}

// ---- waiting for answers ----
let isNew = true; // the first answers of this page have not come
let slowTimer, doneTimer;

function showWaiting(yes) {
	isNew &&= yes;
	byId("waiting").hidden = !yes;
	byId("loading").textContent = isNew ? "Loading ..." : "";
	if (!yes) slowTimer = clearTimeout(slowTimer);
}

changes.addEventListener("waiting", ({ detail: n }) => {
	clearTimeout(doneTimer);
	if (n) slowTimer ??= setTimeout(showWaiting, SLOW_MS, true);
	else doneTimer = setTimeout(showWaiting, 0, false); // the next request may follow at once
});

// ---- the header ----
function showUser() {
	const { user, token } = session;
	// A phone has no keys, and "Sign out" on the page of the account.
	const minor = { class: "minor" };
	byId("machine-link").hidden = !session.local;
	if (session.local) shortcut("g m", "the machine", () => go("#/machine"));
	fill(byId("account"), user ? [
		button("?", showShortcuts, { ...minor, "aria-label": "Shortcuts", title: "Shortcuts" }),
		el("a", { href: ACCOUNT, class: "user", title: "Your account" }, user.username),
		token && button("Sign out", signOut, minor),
	] : el("a", { href: SIGN_IN }, "Sign in"));
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
	if (!session.user && before && !find(location.hash)?.isOpen) show();
});
byId("skip").addEventListener("click", (event) => {
	event.preventDefault();
	root.focus();
});

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
