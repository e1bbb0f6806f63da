// Requests to this server, as a signed-in user. Tokens are kept in memory, in sessionStorage only
// if the user asks for it, and are sent in the header Authorization to this origin only.

import { clock } from "./dom.js";
import { EventParser } from "./sse.js";

const KEY = "rest-lit-token";
// A browser has six connections to a server (HTTP/1.1), for all tabs together: four tabs that are
// seen have a stream each, two have two; other tabs look now and then, instead of having a stream.
// Two connections are left for short requests.
const MOST = 4; // connections of a tab
const MOST_TABS = 4;
const OTHER = 5000; // ms between two such looks
const BRIEF = 1000; // the duration of such a look
const HERE = 1000, GONE = 4000; // ms between two words of a tab to the others; it is gone without
const CLOCK_EXACT = 2000; // ms; a smaller difference of the clocks is not corrected
const SILENCE = 75000; // the server sends a ping every 30 s
const ANSWER = 60000; // of a short request; the server's own limits are shorter
const FORGOTTEN = 10000; // so long without an answer, the network may have forgotten the connection
const REPEAT = 1000, REPEATS = 30; // of what the server is doing already
const QUIET = 1500; // after so long without a byte, the server is asked whether it is there
const THERE = 2500; // and has this time to answer, on one of two connections
const TICK = 250; // between looks whether it is time to ask
/** A server that is away is said after so many milliseconds, at most. */
export const AWAY_MS = QUIET + TICK + THERE;
const NEVER = 2 ** 31 - 1;
const FIRST_WAIT = 500;
const LAST_WAIT = 10000;
const UTF8 = new TextDecoder("utf-8", { ignoreBOM: true }); // a byte order mark stays

/** An answer other than 2xx, or none (status 0). */
export class ApiError extends Error {
	constructor(status, body, headers) {
		const { code = "", message, errors = [], warnings = [] } = body;
		super(message || `The server answered ${status}.`);
		Object.assign(this, { name: "ApiError", status, code, errors, warnings });
		this.requestId = headers?.get("X-Request-Id") ?? "";
		this.retryAfter = Number(headers?.get("Retry-After")) || 0; // seconds
	}
}

const NOBODY = { user: null, token: null, local: false, revocable: false, ended: false };

/** user: {username, admin, virtualCluster: [...]}, or null before signing in; local: the server
 * runs jobs on its machine; revocable: the token is from a password; ended: the name of
 * the user whose token has expired or was revoked, or false; info: name and version. */
export const session = { ...NOBODY, info: null };

/** Events: "session" (detail: the reason of a sign-out), "sign-out" (the user wanted it),
 * "connection" (detail: it is lost), "back" (the server answers again, or the tab is seen again),
 * "unseen" (it is not), "waiting" (detail: the number of answers that have not come). */
export const changes = new EventTarget();

const tell = (type, detail) => changes.dispatchEvent(new CustomEvent(type, { detail }));

// ---- the state of the connection ----
const cut = new Set();

/** Notes that `owner` has lost its connection, or has one again. */
export function connection(owner, lost) {
	const before = cut.size > 0;
	if (lost) cut.add(owner);
	else cut.delete(owner);
	if (before !== cut.size > 0) tell("connection", !before);
}

let heard = Date.now(); // the last answer, or piece of one
let asked = 0, isAsking = false;

function hear() {
	heard = Date.now();
	if (!cut.has(ask)) return;
	connection(ask, false);
	tell("back");
}

/** One question whether the server is there. If all connections wait for it, their silence is the
 * answer. */
async function probe(answered) {
	if (open >= MOST) return;
	open++;
	const how = { token: "", signal: AbortSignal.timeout(THERE) };
	const reply = await request("healthz", how).catch(() => null);
	if (reply) answered();
	await reply?.text().catch(() => "");
	open--;
	admit();
}

/** Asks whether the server is there, a second time because the network may have forgotten the first
 * connection. */
async function ask() {
	if (isAsking || document.hidden) return;
	isAsking = true;
	asked = Date.now();
	const answers = [];
	for (let i = 0; i < 2 && !answers.length; i++) {
		probe(() => answers.push(i));
		await pause(THERE / 2);
	}
	isAsking = false;
	if (answers[0]) tell("back"); // others may be forgotten, too
	if (Math.max(heard, heardByOthers) < asked) connection(ask, true);
}

setInterval(() => { if (Date.now() - Math.max(heard, asked) > QUIET) ask(); }, TICK);
for (const type of ["online", "offline"]) addEventListener(type, ask);
document.addEventListener("visibilitychange", () => {
	tell(document.hidden ? "unseen" : "back");
	say();
	ask();
});

// ---- the other tabs ----
const channel = new BroadcastChannel("rest-lit");
const [me] = crypto.getRandomValues(new Uint32Array(1));
const others = new Map(); // tabs that are seen: when they said so
let heardByOthers = 0;

function say(isSeen = !document.hidden) {
	channel.postMessage({ tab: me, isSeen, heard });
}

channel.addEventListener("message", ({ data }) => {
	const isNew = !others.has(data.tab);
	heardByOthers = Math.max(heardByOthers, data.heard);
	if (data.isSeen) others.set(data.tab, Date.now());
	else others.delete(data.tab);
	if (data.isSeen && isNew) say();
});
addEventListener("pagehide", () => say(false));
setInterval(say, HERE);
say();

/** Returns true if this tab leaves the streams to others; isSecond: a second stream of this tab. */
export function isCrowded(isSecond = false) {
	const since = Date.now() - GONE;
	const seen = [...others].filter(([tab, at]) => at > since && (isSecond || tab < me));
	return seen.length >= (isSecond ? MOST_TABS / 2 : MOST_TABS);
}

let waiting = 0;

/** The same promise; the page may show that it waits for it. */
export function awaited(promise) {
	tell("waiting", ++waiting);
	return promise.finally(() => tell("waiting", --waiting));
}

// ---- connections ----
let open = 0, hasStream = false;
const queue = new Set(); // in its order

function admit() {
	for (const place of queue) {
		if (open >= MOST || (place.isLong && hasStream)) continue;
		open++;
		hasStream ||= place.isLong;
		place.enter();
	}
}

/** A promise that rejects when the signal aborts. begin(resolve, over): `over` aborts then, too. */
function abortable(signal, begin) {
	return new Promise((resolve, reject) => {
		signal?.throwIfAborted();
		const over = new AbortController();
		const end = (settle, value) => { over.abort(); settle(value); };
		const stop = () => end(reject, signal.reason);
		signal?.addEventListener("abort", stop, { signal: over.signal });
		begin((value) => end(resolve, value), over.signal);
	});
}

/** Waits for a free connection, isLong: for a stream; gives a function that frees it. */
function connect(isLong, signal) {
	return abortable(signal, (resolve, over) => {
		const free = () => {
			open--;
			if (isLong) hasStream = false;
			admit();
		};
		const place = { isLong, enter: () => resolve(free) };
		queue.add(place);
		queueMicrotask(admit);
		over.addEventListener("abort", () => queue.delete(place));
	});
}

/** Waits, at most until the server is back. */
export function pause(ms, signal) {
	return abortable(signal, (resolve, over) => {
		const timer = setTimeout(resolve, ms);
		changes.addEventListener("back", resolve, { signal: over });
		over.addEventListener("abort", () => clearTimeout(timer));
	});
}

/** use(signal, abort) on a connection. At these events, abort() is called without a reason: the
 * error has `again`, because the same is to be asked again. (When the server is back, what was
 * asked before may never be answered.) */
async function connected({ isLong = false, signal, events }, use) {
	const own = new AbortController();
	const abort = (reason) => own.abort(reason ?? Object.assign(noAnswer(), { again: true }));
	const again = () => abort();
	const free = await connect(isLong, signal);
	for (const type of events) changes.addEventListener(type, again, { signal: own.signal });
	try {
		return await use(signal ? AbortSignal.any([signal, own.signal]) : own.signal, abort);
	} finally {
		own.abort();
		free();
	}
}

// ---- requests ----
const SILENT = "The server does not answer. Check that it runs, and try again.";
const FETCH = {
	cache: "no-store", credentials: "omit", redirect: "error", referrerPolicy: "no-referrer",
};
const JSON_TYPE = "application/json";
const noAnswer = () => new ApiError(0, { code: "NoAnswer", message: SILENT });
/** For catch(): throws the reason of the signal, or else that there is no answer. */
const brokenOff = (signal) => () => {
	signal?.throwIfAborted();
	throw noAnswer();
};
export const ENDED = "Your session has ended. Sign in again.";

async function refusal(reply) {
	const text = await reply.text().catch(() => "");
	let body;
	try { body = JSON.parse(text); } catch { body = null; }
	return new ApiError(reply.status, body ?? { message: text.slice(0, 500) }, reply.headers);
}

/** Corrects the clock by an answer's Date, which is cut to seconds. */
function setClock(begun, date) {
	const ahead = date + 500 - (begun + Date.now()) / 2;
	if (Math.abs(ahead - clock.ahead) > CLOCK_EXACT) clock.ahead = ahead;
}

async function request(path, options) {
	const url = new URL(path, document.baseURI);
	if (url.origin !== location.origin) throw new TypeError(`${url.origin} is not this server`);
	const token = options.token ?? session.token;
	const headers = new Headers(options.headers);
	if (token) headers.set("Authorization", `Bearer ${token}`);
	const begun = Date.now();
	const reply = await fetch(url, { ...options, headers, ...FETCH })
		.catch(brokenOff(options.signal));
	if (reply.status < 500) hear();
	setClock(begun, Date.parse(reply.headers.get("Date")));
	if (reply.ok) return reply;
	const error = await refusal(reply);
	if (reply.status === 401 && token === session.token && session.user) forget(ENDED);
	throw error;
}

/** One answer as {status, headers, bytes}; throws ApiError unless it is 2xx. */
function exchange(path, options) {
	const { method = "GET", headers, body } = options;
	const isSame = ["GET", "PUT"].includes(method) || headers["Idempotency-Key"];
	const mayRepeat = isSame && !(body instanceof ArrayBuffer); // an upload takes long
	const how = { signal: options.signal, events: mayRepeat ? ["back"] : [] };
	return awaited(connected(how, async (signal, abort) => {
		const timer = setTimeout(() => abort(noAnswer()), ANSWER);
		const soon = mayRepeat && !options.isAgain && setTimeout(abort, FORGOTTEN);
		signal.addEventListener("abort", () => [timer, soon].forEach(clearTimeout));
		const reply = await request(path, { ...options, signal });
		clearTimeout(soon);
		const bytes = await reply.arrayBuffer().catch(brokenOff(signal));
		return { status: reply.status, headers: reply.headers, bytes };
	})).catch((error) => {
		if (!error.again) throw error;
		return exchange(path, { ...options, isAgain: true });
	});
}

export async function getBytes(path, { signal, accept = "*/*" } = {}) {
	return (await exchange(path, { signal, headers: { Accept: accept } })).bytes;
}

export const getText = async (path, options) => UTF8.decode(await getBytes(path, options));
export const get = async (path, options) =>
	JSON.parse(await getText(path, { accept: JSON_TYPE, ...options }));

/** A value for `key` of send(). */
export const newKey = () => crypto.getRandomValues(new Uint32Array(4)).join("-");

/** `body`: a text in YAML, an archive, or an object that is sent as JSON; key: by which the server
 * knows that it is sent again. Gives {status, headers, text}. */
export async function send(method, path, body, { signal, accept = JSON_TYPE, token, key } = {}) {
	const headers = { Accept: accept, ...key && { "Idempotency-Key": key } };
	const type = { String: "text/yaml", ArrayBuffer: "application/gzip" }[body?.constructor.name];
	if (body) headers["Content-Type"] = type ?? JSON_TYPE;
	if (body && !type) body = JSON.stringify(body);
	for (let left = key ? REPEATS : 0; ; left--) {
		try {
			const reply = await exchange(path, { method, signal, token, headers, body });
			return { ...reply, text: UTF8.decode(reply.bytes) };
		} catch (error) { // the server may be at it since the first time
			if (error.code !== "IdempotencyError" || !left) throw error;
		}
		await pause(REPEAT, signal);
	}
}

// ---- streams ----
/** Sends a request for a long answer and gives each piece of the body to `piece`; begun(reply) is
 * called when the answer has come. silence(): the milliseconds without a byte after which a stream
 * is begun again, since the network may have forgotten it. If this tab leaves its streams to
 * others, it is brief, and begins after `every` milliseconds; those with `every` may be beside
 * another of the tab. Resolves at its end, throws ApiError with status 0 if it breaks off. */
export async function stream(path, how) {
	const { signal: outer, headers, silence, begun, piece, every, unseen } = how;
	const isLate = () => silence && isCrowded(Boolean(every));
	const restNow = () => (document.hidden ? unseen ?? NEVER : isLate() && (every ?? OTHER));
	if (restNow()) await pause(restNow(), outer);
	const rest = restNow();
	const isLong = Boolean(silence) && !rest && !every;
	const events = ["back", "unseen"];
	return connected({ isLong, signal: outer, events }, async (signal, abort) => {
		let last = Date.now(), limit = () => FORGOTTEN;
		const timer = setInterval(() => {
			if (Date.now() - last > limit() || (!rest && isLate())) abort();
		}, TICK);
		signal.addEventListener("abort", () => clearInterval(timer));
		const reply = await request(path, { signal, headers });
		begun?.(reply);
		last = Date.now();
		limit = rest ? () => BRIEF : silence ?? (() => ANSWER);
		const reader = reply.body.getReader();
		for (;;) {
			const { done, value } = await reader.read().catch(brokenOff(signal));
			if (done) return;
			hear();
			if (!rest) last = Date.now();
			piece(value);
		}
	});
}

/** Returns true if the same request may succeed later. */
export const isPassing = ({ status }) => status === 0 || status === 429 || status >= 500;

/** Returns false if it is not known whether what was asked for has been done. */
export const isKnown = ({ status }) => status !== 0 && status !== 504;

/** The value of read(), which is called again while the server is away. */
export async function keepAsking(read, signal) {
	const owner = {};
	try {
		for (let wait = FIRST_WAIT; ; wait = Math.min(2 * wait, LAST_WAIT)) {
			const value = await read().catch((error) => {
				if (!isPassing(error)) throw error;
				connection(owner, true);
			});
			if (value !== undefined) return value;
			await pause(wait, signal);
		}
	} finally {
		connection(owner, false);
	}
}

/** Follows server-sent events: event(name, data). Reconnects for ever, with the id of the last
 * event; lost(true) and lost(false) tell when the connection breaks and is back. While connections
 * are short, there is a stream for a moment only, every so many milliseconds; while nobody sees the
 * tab, every `unseen` milliseconds, or none. Resolves when the last event has come; throws on
 * refusals (4xx) and when the signal aborts. */
export async function watch(path, { signal, event, lost = () => {}, every, unseen }) {
	const owner = {};
	const parser = new EventParser();
	const headers = { Accept: "text/event-stream" };
	let wait = FIRST_WAIT, broken = false, end;
	const mark = (yes, isSaid = true) => {
		if (!yes || isSaid) connection(owner, yes);
		if (broken !== yes) lost(broken = yes);
	};
	const take = (name, data) => {
		wait = parser.retry ?? FIRST_WAIT;
		if (name === "end") end = data.reason;
		else event(name, data);
	};
	const once = () => {
		end = null;
		parser.reset();
		if (parser.id) headers["Last-Event-ID"] = parser.id;
		return stream(path, { signal, headers, every, unseen, silence: () => SILENCE,
			begun: () => mark(false), piece: (bytes) => parser.feed(bytes, take) });
	};
	try {
		for (;;) {
			const error = await once().catch((thrown) => thrown);
			if (error?.again) mark(true, false);
			if (error?.again) continue;
			if (error && !isPassing(error)) throw error;
			if (end === "completed" || end === "gone") return;
			if (end === "token") forget(ENDED);
			if (end === "token") throw new ApiError(401, { message: ENDED });
			if (end === "lifetime") continue;
			const isRefused = error?.status >= 500; // 429 is no loss
			mark(true, isRefused);
			if (!isRefused) ask(); // the connection may be broken, and the server be there
			await pause(wait, signal);
			wait = Math.min(2 * wait, LAST_WAIT);
		}
	} finally {
		connection(owner, false);
	}
}

// ---- the session ----
function forget(why) {
	Object.assign(session, NOBODY, { ended: why === ENDED && session.user?.username });
	sessionStorage.removeItem(KEY);
	tell("session", why);
}

async function identify() {
	const { username } = await get("api/v2/tokens/check");
	const user = await get(`api/v2/users/${encodeURIComponent(username)}`);
	const local = await get("api/v2/machine").then(() => true, (error) => {
		if (isPassing(error)) throw error;
		return false;
	});
	Object.assign(session, { user, local });
	tell("session");
	return user;
}

/** Checks the token, then uses it; `keep`: also after a reload of this tab; `revocable`: a sign-out
 * revokes it. */
export async function signIn(token, keep, revocable = false) {
	session.token = token;
	await identify().catch((error) => {
		session.token = null;
		throw error;
	});
	Object.assign(session, { revocable, ended: false });
	if (keep) sessionStorage.setItem(KEY, token);
}

/** Forgets the token, and revokes it if it is from a password. */
export async function signOut() {
	const { revocable, token } = session;
	forget("You are signed out.");
	sessionStorage.clear();
	tell("sign-out");
	const path = "api/v2/authn/basic/logout";
	if (revocable) await send("DELETE", path, null, { token }).catch(() => {});
}

/** Reads the user of the kept token, or of no token. Waits until the server answers. */
export async function start() {
	session.token = sessionStorage.getItem(KEY);
	session.info = await keepAsking(() => get("api/v2/info"));
	await keepAsking(identify).catch((error) => {
		if (error.status !== 401) throw error;
		forget(session.token && ENDED);
	});
}
