// The parts around a page that it changes: the address, a message.

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
