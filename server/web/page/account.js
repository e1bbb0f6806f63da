// The account: who one is, and one's tokens: make, see, revoke.

import { copyText } from "./actions.js";
import { get, keepAsking, send, session, signOut } from "./api.js";
import { ago, button, duration, el, field, fill, now, panel, plainTable, scrolled, time,
	titled } from "./dom.js";
import { announce, ask } from "./frame.js";

const ROUTE = "api/v2/tokens";
const DAY = 86400;
const LIFETIMES = [["1 day", DAY], ["1 week", 7 * DAY], ["30 days", 30 * DAY],
	["90 days", 90 * DAY], ["1 year", 365 * DAY], ["never", ""]];
const ONLY_PEOPLE = "You are signed in with a token of an application or of another issuer, " +
	"which cannot manage tokens. Sign in as a person.";
const NO_TOKENS = "This server runs without logins and tokens.";
const PURPOSE = "Programs sign in with an application token. It can submit and stop your jobs, " +
	"but not manage tokens.";
const NOT_LISTED = "This server keeps no list of tokens: you see only that of this session.";
const NOT_REVOCABLE = "Tokens cannot be revoked on this server: they end when they expire.";

const exact = (ms, text) => el("span", { title: time(ms) }, text);

/** {kind, made, expires, end, text} of a token; what it does not say is unknown. */
function read(text, name) {
	let claims;
	try {
		claims = JSON.parse(atob(text.split(".")[1].replaceAll("-", "+").replaceAll("_", "/")));
	} catch {
		claims = {}; // of another program
	}
	const { iat, exp, application } = claims ?? {};
	const own = text === session.token;
	return { text, name, own, end: text.slice(-4), made: iat * 1000,
		expires: exp === undefined ? null : exp * 1000,
		kind: own ? "this session" : application ? "application" : "sign-in" };
}

/** Resolves to false if the user keeps it. */
async function revoke(one) {
	const { own, kind, end, name } = one;
	const text = own ? "Revoke the token of this session? It signs you out."
		: `Revoke the ${kind} token ${name || `that ends with ${end}`}? Who uses it is signed out.`;
	if (!await ask({ verb: "Revoke", text, refuse: "Keep it" })) return false;
	await send("DELETE", `${ROUTE}/${encodeURIComponent(one.text)}`);
	if (!own) {
		announce(`Revoked: ${name || `…${end}`}.`);
		return true;
	}
	session.revocable = false; // it is done
	return signOut();
}

/** A table of tokens; act(promise) is called with each revocation. */
function tokenTable({ tokens, names, revocable }, act) {
	const all = tokens.map((text, i) => read(text, names[i]))
		.sort((a, b) => b.own - a.own || b.made - a.made);
	const what = ({ kind, name, end }) => [kind, " ",
		el("span", { class: "token" }, name, " ", el("code", { class: "soft" }, `…${end}`))];
	const expires = ({ expires: at }) =>
		(at === null ? "never" : exact(at, `in ${duration(at - now())}`));
	const press = (one) => button("Revoke", () => act(revoke(one)),
		{ "aria-label": `Revoke ${one.name || one.kind} …${one.end}` });
	const columns = [["Token", what], ["Made", ({ made }) => exact(made, ago(made)), "minor"],
		["Expires", expires, "time"], revocable && ["Revoke", press, "number"]].filter(Boolean);
	return scrolled("Your tokens", plainTable("Tokens", columns, all, { class: "tokens" }));
}

/** Shows a new token, until it is dismissed. */
function showNew(host, token) {
	const copied = button("Copy", () => copyText(token, "the token"));
	fill(host, el("section", { class: "notice", "aria-label": "The new token" },
		el("p", null, el("b", null, "Copy it now."), " It is not shown again."),
		el("p", null, el("code", null, token)),
		el("div", { class: "choices" }, copied, button("Done", () => fill(host)))));
	copied.focus();
}

/** A form that makes an application token; made(token) is called with it. */
function makeForm({ stored, revocable }, act, made) {
	const name = el("input", { maxlength: 63, pattern: "[A-Za-z0-9_.\\-]+", autocomplete: "off",
		spellcheck: "false", size: 16, title: "letters, digits, -, _ and ." });
	const lifetime = el("select", null, LIFETIMES.filter(([, seconds]) => seconds || revocable)
		.map(([text, value]) => el("option", { value, selected: text === "30 days" }, text)));
	const submit = async () => {
		const body = {};
		if (lifetime.value) body.expiration = Number(lifetime.value);
		if (name.value) body.name = name.value;
		const { text } = await send("POST", `${ROUTE}/application`, body);
		name.value = "";
		made(JSON.parse(text).token);
	};
	const on = { submit: (event) => { event.preventDefault(); act(submit()); } };
	return el("form", { class: "toolbar", "aria-label": "Make a token", on },
		stored && field("Name", name), field("Expires", lifetime),
		el("button", { class: "primary" }, "Make a token"));
}

/** The answer with the tokens, or null and a sentence in `host`. */
function list(host, signal) {
	const once = () => get(ROUTE, { signal }).catch((error) => {
		const isNever = error.code === "NotImplementedError";
		fill(host, isNever ? NO_TOKENS : error.status === 403 ? ONLY_PEOPLE : error.message);
		throw error;
	});
	return keepAsking(once, signal).catch((error) => {
		if (error.status === 401 || signal.aborted) throw error;
		return null;
	});
}

function userPanel() {
	const { user: { username, admin, virtualCluster }, info: { name, version } } = session;
	const fact = (what, value) => [el("dt", null, what), el("dd", null, value)];
	const manual = [el("code", null, "rest-lit help"), ", ", el("code", null, "man rest-lit"), ", ",
		el("a", { href: "openapi.json" }, "openapi.json")];
	return panel("User", el("dl", null, fact("User", username),
		fact("Role", admin ? "administrator" : "user"),
		fact("Virtual clusters", virtualCluster?.join(", ") || "none"),
		fact("Server", `${name} ${version}`), fact("Manual", manual)),
	session.token && button("Sign out", signOut, { class: "narrow" }));
}

export default async function accountPage(root, params, signal) {
	const note = el("p", { class: "hint", role: "status", "aria-label": "About tokens" });
	const [fresh, form, table] = Array.from({ length: 3 }, () => el("div"));
	const error = el("p", { class: "error", role: "alert" });
	fill(root, el("h1", { tabindex: "-1" }, "Account"), el("div", { class: "account-page" },
		userPanel(), titled("Tokens", note, form, error, fresh, table)));
	const act = (change) => {
		fill(error);
		change.then((isDone) => isDone === false || !session.user || show())
			.catch(({ message }) => fill(error, message));
	};
	const show = async () => {
		const answer = await list(note, signal);
		if (!answer) return;
		const { stored, revocable } = answer;
		fill(note, PURPOSE, !stored && ` ${NOT_LISTED}`, !revocable && ` ${NOT_REVOCABLE}`);
		if (!form.firstChild) fill(form, makeForm(answer, act, (token) => showNew(fresh, token)));
		const hadFocus = table.contains(document.activeElement);
		fill(table, tokenTable(answer, act));
		if (hadFocus) table.firstChild.focus();
	};
	await show();
}
