// Values as text. Times are milliseconds since 1970; unknown values are "".

import { el } from "./dom.js";

const UNITS = [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]];

/** ahead: milliseconds by which the server's clock is ahead of the browser's. */
export const clock = { ahead: 0 };

/** The time by the server's clock. */
export const now = () => Date.now() + clock.ahead;

const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

/** "45s", "3m 20s", "2h 5m", "3d 4h": the two largest units. */
export function duration(ms) {
	if (!isNumber(ms)) return "";
	let rest = Math.max(0, Math.floor(ms / 1000));
	const largest = UNITS.findIndex(([, seconds]) => rest >= seconds);
	if (largest < 0) return "0s";
	const parts = UNITS.slice(largest, largest + 2).map(([unit, seconds]) => {
		const n = Math.floor(rest / seconds);
		rest -= n * seconds;
		return n ? `${n}${unit}` : "";
	});
	return parts.filter(Boolean).join(" ");
}

/** The time since `ms`, as a duration. */
export const ago = (ms) => (isNumber(ms) ? `${duration(now() - ms)} ago` : "");

/** "2026-11-23 08:25:07" in the time zone of the browser. */
export function time(ms) {
	if (!isNumber(ms)) return "";
	const local = new Date(ms - new Date(ms).getTimezoneOffset() * 60000);
	if (Number.isNaN(local.getTime())) return "";
	return local.toISOString().slice(0, 19).replace("T", " ");
}

/** "512 B", "1.5 MiB". */
export function sizeOf(n) {
	if (!isNumber(n)) return "";
	const units = ["B", "KiB", "MiB", "GiB", "TiB"];
	let unit = 0;
	for (; n >= 1024 && unit < units.length - 1; unit++) n /= 1024;
	return `${unit && n < 100 ? n.toFixed(1) : Math.round(n)} ${units[unit]}`;
}

/** plural(1, "task") is "1 task", plural(2, "task") "2 tasks". */
export const plural = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;

/** "a, b, c and 4 more". */
export const listed = (names, most = 3) => names.slice(0, most).join(", ") +
	(names.length > most ? ` and ${names.length - most} more` : "");

/** "226 ContainerCudaOOMKilled" */
export const exitText = (code, spec) => `${code ?? ""} ${spec?.phrase ?? ""}`.trim();

/** A state as an element: its text, with a colour by class. */
export function state(name) {
	const text = String(name ?? "UNKNOWN");
	const kind = /^[A-Z]+$/.test(text) ? text.toLowerCase() : "unknown";
	return el("span", { class: `state state-${kind}` }, text);
}

// ---- jobs: the identity of a row, its page, its route; how long it, or a task, has run ----
export const idOf = ({ username, name }) => `${username}~${name}`;
export const hashOf = (id) => `#/jobs/${encodeURIComponent(id)}`;
export const pathOf = (id) => `api/v2/jobs/${encodeURIComponent(id)}`;

/** Milliseconds from the first start to the end, or to now; null before the start. */
export const runMs = ({ launchedTime, completedTime }) =>
	(launchedTime ? (completedTime ?? now()) - launchedTime : null);
export const runTime = (row) => duration(runMs(row));
