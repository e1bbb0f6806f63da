// The sign-in: with a password, if the server has users, or with a token.

import { ENDED, get, send, session, signIn } from "./api.js";
import { el, field, fill } from "./dom.js";

const KEEP = "Keep for this tab";
const GARBLED = "A token has no spaces or other special characters. Copy it again.";
const REFUSED = "The server refuses this token: it is not complete, has expired, or was revoked.";

const input = (attributes) => el("input",
	{ required: true, spellcheck: "false", autocapitalize: "off", ...attributes });

/** A form whose button calls submit(keep), which throws if the server refuses; inputs: by label. */
function form(heading, inputs, submit, then) {
	const keep = el("input", { type: "checkbox" });
	const button = el("button", { class: "primary" }, "Sign in");
	const error = el("p", { class: "error", role: "alert" });
	const listener = async (event) => {
		event.preventDefault();
		button.disabled = true;
		fill(error);
		await submit(keep.checked).then(() => location.replace(then), ({ message }) => {
			fill(error, message);
			Object.values(inputs).at(-1).focus();
		});
		button.disabled = false;
	};
	return el("form", { class: "panel stack", "aria-label": heading, on: { submit: listener } },
		el("h2", null, heading), Object.entries(inputs).map((one) => field(...one)),
		el("label", { class: "check" }, keep, ` ${KEEP}`), error, button);
}

function passwordForm(then) {
	const known = session.ended || "";
	const user = input({ autocomplete: "username", value: known, autofocus: !known });
	const password = input({ type: "password", autocomplete: "current-password",
		autofocus: Boolean(known) });
	return form("With a password", { User: user, Password: password }, async (keep) => {
		const body = { username: user.value, password: password.value };
		password.value = "";
		const { text } = await send("POST", "api/v2/authn/basic/login", body);
		await signIn(JSON.parse(text).token, keep, true);
	}, then);
}

function tokenForm(then, isFirst) {
	const token = input({ type: "password", autocomplete: "off", autofocus: isFirst });
	return form("With a token", { Token: token }, async (keep) => {
		const text = token.value.trim();
		token.value = "";
		if (!/^[\x21-\x7e]+$/.test(text)) throw new Error(GARBLED);
		await signIn(text, keep).catch((error) => {
			throw error.status === 401 ? new Error(REFUSED) : error;
		});
	}, then);
}

export default async function signInPage(root, params, signal) {
	const then = /^#\/(?!sign-in)/.test(params.then) ? params.then : "#/jobs";
	fill(root, el("h1", { tabindex: "-1" }, "Sign in"));
	if (session.user) {
		const how = session.token ? "You are signed in as"
			: "This server needs no sign-in; you are";
		root.append(el("p", null, `${how} ${session.user.username}.`));
		return;
	}
	const { passwords } = await get("api/v2/authn/info", { signal });
	root.append(el("div", { class: "sign-in" },
		session.ended && el("p", { class: "notice", role: "alert" }, ENDED),
		passwords && passwordForm(then), tokenForm(then, !passwords),
		el("p", { class: "hint" }, "An administrator makes a token with ",
			el("code", null, "rest-lit token --user NAME"),
			`. The page keeps it in memory only, unless you tick “${KEEP}”.`)));
	root.querySelector("[autofocus]").focus();
}
