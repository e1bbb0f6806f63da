// The text of "Submit" until it is submitted: in memory, and for a reload in sessionStorage, unless
// it has secrets.

import { changes, newKey } from "./api.js";

const KEY = "rest-lit-draft";
const SECRETS = /(?:^|[\s{,"'])(?:secrets|auth)["']?\s*:/;
const NONE = { user: null, text: "", fields: {} };

let draft = JSON.parse(sessionStorage.getItem(KEY)) ?? NONE;
let unstored = false;

/** Keeps a text of a user, and the fields of the form. A text keeps its key. */
export function keepDraft(next) {
	draft = { key: draft.text === next.text ? draft.key : undefined, ...next };
	sessionStorage.removeItem(KEY);
	unstored = SECRETS.test(next.text);
	if (unstored || !next.text) return;
	try {
		sessionStorage.setItem(KEY, JSON.stringify(draft));
	} catch {
		unstored = true; // it is too large
	}
}

export const dropDraft = () => keepDraft(NONE);

/** The key by which the server knows that this text is submitted again. */
export function submissionKey() {
	if (!draft.key) keepDraft({ ...draft, key: newKey() });
	return draft.key;
}

/** The draft of this user; that of another user is dropped. */
export function draftOf(user) {
	if (draft.user !== user) dropDraft();
	return draft;
}

addEventListener("beforeunload", (event) => { if (unstored) event.preventDefault(); });
changes.addEventListener("sign-out", dropDraft);
