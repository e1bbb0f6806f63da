// The failure of a job: which task, which line, what it means, what to do.

import { el, link, plural } from "./dom.js";
import { plain } from "./log.js";
import { taskName } from "./tasks.js";

const LINES = 4; // of the log, if no line is known as the cause

const linesOf = (first, text) => (first?.lines.length ? first.lines : text.split("\n"))
	.map(plain).filter((line) => line.trim());

/** The cause, as far as it is known: {cause, line, lines} of failureOf(). */
function causeOf(first, { runtime, launcher }, phrase) {
	const { errorLogs, matchedUserLogString, failedLine } = runtime ?? {};
	const lines = linesOf(first, errorLogs?.user || launcher || "");
	const matched = plain(matchedUserLogString ?? "");
	const told = plain(first?.cause ?? (matched || (failedLine ?? "")));
	const cause = told === phrase ? "" : told;
	const isIn = (line) => line.includes(cause);
	const isLine = cause && (lines.some(isIn) || (matched && cause.includes(matched)));
	if (isLine) return { cause: "", line: cause, lines: [] };
	const isSilent = errorLogs?.user === "" && !cause && !lines.length;
	const sentence = isSilent ? "It wrote no output." : cause;
	return { cause: sentence, line: "", lines: lines.slice(-LINES) };
}

/** Describes a failed attempt: {code, phrase, own: how the command itself ended or "", meaning,
 * task, followers, cause: a sentence or "", line: the text of the log that is the cause or "",
 * lines: its last ones without such a line, remedies}; null if the attempt has not failed. */
export function failureOf(status) {
	const { firstFailure: first, appExitMessages, appExitTriggerTaskRoleName: taskRole,
		appExitTriggerTaskIndex: taskIndex } = status;
	if (!first && status.attemptState !== "FAILED") return null;
	const code = first?.exitCode ?? status.appExitCode;
	const { phrase, reason, solution } = first?.exitSpec ?? status.appExitSpec ?? {};
	const { originUserExitCode: own = code, solution: more } = appExitMessages?.runtime ?? {};
	return {
		code, phrase: phrase ?? "", meaning: reason ?? "The job failed.",
		own: own === code ? "" : `the command ended with ${own}`,
		task: first ? taskName(first) : taskRole && taskName({ taskRole, taskIndex }),
		followers: first?.followersCount ?? 0, ...causeOf(first, appExitMessages ?? {}, phrase),
		remedies: [...solution ?? [], more].filter(Boolean),
	};
}

/** The line of the log that is marked as the failure: {task, text}, or null. */
export function markOf(failure) {
	const text = failure?.line || failure?.lines.at(-1);
	return text && failure.task ? { task: failure.task, text } : null;
}

/** One panel. when: " in attempt 1", or ""; several: the job has more tasks; show(): goes to the
 * marked line in the log; choose(task): shows its log. */
export function failurePanel(failure, { when, several, show, choose }) {
	const { code, phrase, own, meaning, task, followers, cause, line, lines, remedies } = failure;
	const others = followers > 0 && `; ${plural(followers, "other")} only followed`;
	const soft = (text) => el("small", { class: "soft" }, text);
	return el("section", { class: "failure-panel", "aria-label": "Failure" },
		el("p", null, el("strong", null, meaning),
			soft(`${code ?? ""} ${phrase}`), own && soft(own)),
		el("p", null, task && el("span", null, link(task, () => choose(task)),
			several ? [" failed first", when, others] : [" failed", when]),
		cause && el("span", null, cause), line && link(`line: ${line}`, show),
		task && lines.length > 0 && link("show the last lines in the log", show)),
		lines.length > 0 && el("pre", null, lines.join("\n")),
		remedies.length > 0 && el("p", null, el("span", null,
			el("span", { class: "soft" }, "What to do: "), `${remedies.join(". ")}.`)));
}
