// The editor of jobs: CodeMirror in a shadow root, where its style sheets need no exception from
// the policy of the page. Colours are the custom properties of style.css.

import {
	Compartment, Decoration, EditorState, EditorView, GutterMarker, HighlightStyle, LRLanguage,
	StateEffect, StateField, autocompletion, gutter, highlightSpecialChars,
	history, historyKeymap, hoverTooltip, indentLess, indentMore, indentService, jsonParser,
	keymap, lineNumbers, standardKeymap, syntaxHighlighting, tags, toggleComment, yamlParser,
} from "./codemirror.js";
import { el } from "./dom.js";
import { complete, describe, isJson, settingOf } from "./schema.js";

const AFTER_COMPOSITION = 50; // ms; CodeMirror reads the composed text first
const MARKED_MOST = 200; // characters of a mark

// ---- looks ----
const wave = (colour) =>
	({ textDecoration: `underline wavy var(--${colour})`, textUnderlineOffset: "3px" });
const raised = { color: "var(--text)", backgroundColor: "var(--raised)",
	border: "1px solid var(--line)" };
const THEME = EditorView.theme({
	"&": { flex: "1 1 0", minWidth: 0, color: "var(--text)", backgroundColor: "var(--panel)",
		fontSize: "13px" },
	"&.cm-focused": { outline: "0" }, // .editor of style.css has it
	".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.5", overflow: "auto" },
	".cm-content": { caretColor: "var(--text)", padding: "6px 0" },
	".cm-gutters": { ...raised, backgroundColor: "var(--back)", border: "0", color: "var(--soft)" },
	".cm-marks": { width: "14px" },
	".cm-mistake": wave("bad"), ".cm-warning": wave("warn"),
	".cm-sign-mistake, .cm-specialChar": { color: "var(--bad)" },
	".cm-sign-warning": { color: "var(--warn)" },
	".cm-tooltip": raised,
	".cm-find": { ...raised, width: "100%", padding: "4px 8px", font: "inherit" },
	".cm-tooltip-autocomplete > ul > li[aria-selected]":
		{ color: "var(--on-accent)", background: "var(--accent)" },
	".cm-help": { maxWidth: "60ch", padding: "4px 8px", whiteSpace: "pre-line" },
});
const COLOURS = HighlightStyle.define([
	{ tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--accent)" },
	{ tag: [tags.string, tags.special(tags.string), tags.attributeValue], color: "var(--good)" },
	{ tag: [tags.number, tags.bool, tags.null, tags.keyword, tags.typeName], color: "var(--warn)" },
	{ tag: tags.comment, color: "var(--soft)", fontStyle: "italic" },
	{ tag: [tags.labelName, tags.meta], color: "var(--busy)" },
]);
const YAML = LRLanguage.define(
	{ name: "yaml", parser: yamlParser, languageData: { commentTokens: { line: "#" } } });
const JSON_LANGUAGE = LRLanguage.define({ name: "json", parser: jsonParser });
const languageOf = (text) => (isJson(text) ? JSON_LANGUAGE : YAML);

// ---- marks ----
const setMarks = StateEffect.define();
const marksField = StateField.define({
	create: () => Decoration.none,
	update(marks, transaction) {
		const set = transaction.effects.find((effect) => effect.is(setMarks));
		return set ? set.value : marks.map(transaction.changes);
	},
	provide: (field) => EditorView.decorations.from(field),
});

function mistakesBetween(state, from, to) {
	const found = new Set();
	state.field(marksField).between(from, to, (a, b, { spec }) => { found.add(spec.mistake); });
	return [...found];
}

function signOf(mistakes) {
	const worst = mistakes.some((m) => m.severity === "mistake") ? "mistake" : "warning";
	const title = mistakes.map((m) => m.message).join("\n");
	return Object.assign(new GutterMarker(), { toDOM: () =>
		el("span", { class: `cm-sign-${worst}`, title }, worst === "mistake" ? "●" : "▲") });
}

const SIGNS = gutter({
	class: "cm-marks",
	lineMarker(view, line) {
		const mistakes = mistakesBetween(view.state, line.from, line.to);
		return mistakes.length ? signOf(mistakes) : null;
	},
	lineMarkerChange: ({ startState: before, state }) =>
		before.field(marksField) !== state.field(marksField),
});

/** The offset of a place of the server: the line and the column count from 1, the column counts
 * characters (code points); a byte order mark is not counted. Lines end as in YAML and JSON. */
export function offsetOf(text, line, column) {
	const breaks = /\r\n|\n|\r/g;
	let at = text.startsWith("\ufeff") ? 1 : 0;
	for (let i = 1; i < line && breaks.exec(text); i++) at = breaks.lastIndex;
	for (let i = 1; i < column && at < text.length && !/[\r\n]/.test(text[at]); i++) {
		at += text.codePointAt(at) > 0xffff ? 2 : 1;
	}
	return at;
}

const TOKEN = /"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[^\s,:[\]{}]+|\S/uy;

function decorations(text, mistakes) {
	const all = [];
	for (const mistake of mistakes.filter(({ line }) => line)) {
		const from = offsetOf(text, mistake.line, mistake.column);
		TOKEN.lastIndex = from;
		const n = Math.min(TOKEN.exec(text)?.[0].length ?? 0, MARKED_MOST);
		const lineStart = text.lastIndexOf("\n", from - 1) + 1;
		all.push(Decoration.line({ mistake }).range(lineStart));
		const mark = Decoration.mark({ mistake, class: `cm-${mistake.severity}` });
		if (n) all.push(mark.range(from, from + n));
	}
	return Decoration.set(all, true);
}

// ---- help at the pointer ----
async function help(view, pos) {
	const mistakes = mistakesBetween(view.state, pos, pos);
	const known = await describe(view.state.doc.toString(), pos).catch(() => null);
	if (!mistakes.length && !known) return null;
	const lines = [...mistakes.map((m) => m.message), ...(known?.lines ?? [])];
	const dom = el("div", { class: "cm-help" }, lines.map((text) => el("div", null, text)));
	return { pos: known?.from ?? pos, end: known?.to, above: true, create: () => ({ dom }) };
}

// ---- the editor ----
/** A new line has the indentation of the line before; more below a key without a value, and below
 * the first key of a list item. */
const INDENTATION = indentService.of((context, pos) => {
	const { text } = context.lineAt(pos, -1);
	const item = /^\s*- +(?=["'\w.-]+:(?: |$))/.exec(text)?.[0].length;
	return (item ?? /^\s*/.exec(text)[0].length) + (/[:{[]\s*$/.test(text) ? context.unit : 0);
});

/** Texts keep their bytes: the only separator is the one that all lines have; other line breaks are
 * characters of their line. */
function separatorOf(text) {
	if (!text.includes("\r")) return "\n";
	if (!/[^\r]\n|^\n|\r(?!\n)/.test(text)) return "\r\n";
	return text.includes("\n") ? "\n" : "\r";
}
const separated = (text) => EditorState.lineSeparator.of(separatorOf(text));

// ---- search ----
const finder = (view) => view.dom.querySelector(".cm-find");

/** Selects the next place of the text in the search field, or the one before (step -1). */
function find(view, step) {
	const wanted = finder(view)?.value.replace(/[^\p{L}\p{N}\s]/gu, "\\$&");
	if (!wanted) return false;
	const all = [...view.state.doc.toString().matchAll(new RegExp(wanted, "gi"))];
	const { from } = view.state.selection.main;
	const match = step > 0
		? all.find(({ index }) => index > from) ?? all[0]
		: all.findLast(({ index }) => index < from) ?? all.at(-1);
	if (!match) return false;
	const selection = { anchor: match.index, head: match.index + match[0].length };
	view.dispatch({ selection, scrollIntoView: true });
	view.focus();
	return true;
}

function openFinder(view) {
	const keydown = (event) => {
		if (event.key !== "Enter" && event.key !== "Escape") return;
		event.preventDefault(); // the focus moves; the editor is not to have this key
		if (event.key === "Escape") closeFinder(view);
		else find(view, event.shiftKey ? -1 : 1);
	};
	const placeholder = "Find: Enter, then F3 or Shift+F3";
	const more = { class: "cm-find", "aria-label": "Find", placeholder, on: { keydown } };
	if (!finder(view)) view.dom.prepend(el("input", { type: "search", ...more }));
	finder(view).focus();
	finder(view).select();
	return true;
}

function closeFinder(view) {
	finder(view)?.remove();
	view.focus();
	return false;
}

const KEYS = [ // Tab is not here: it moves the focus
	{ key: "Mod-]", run: indentMore },
	{ key: "Mod-[", run: indentLess },
	{ key: "Mod-/", run: toggleComment },
	{ key: "Mod-f", run: openFinder },
	{ key: "F3", run: (view) => find(view, 1), shift: (view) => find(view, -1) },
	{ key: "Escape", run: closeFinder },
	...historyKeymap, ...standardKeymap,
];

const EXTENSIONS = [
	lineNumbers(), highlightSpecialChars(), THEME, syntaxHighlighting(COLOURS),
	EditorState.tabSize.of(8), history(), marksField, SIGNS, hoverTooltip(help), INDENTATION,
	// No delays: an Enter takes the completion of what was just typed.
	autocompletion(
		{ override: [complete], icons: false, activateOnTypingDelay: 0, interactionDelay: 0 }),
	keymap.of(KEYS),
	EditorView.clipboardInputFilter.of((text, state) =>
		text.replace(/\r\n|\n|\r/g, state.lineBreak)),
];

/** An editor in `host`. change() is called after each change of the text. */
export function createEditor(host, { text, label, change }) {
	const separator = new Compartment(), language = new Compartment();
	let pending = null; // marks that wait for the end of a composition
	const flush = () => {
		if (!pending || view.compositionStarted) return;
		view.dispatch({ effects: setMarks.of(decorations(view.state.doc.toString(), pending)) });
		pending = null;
	};
	const listen = EditorView.updateListener.of((update) => {
		if (!update.docChanged) return;
		const wanted = languageOf(update.state.doc.sliceString(0, 1000));
		if (language.get(update.state) !== wanted) {
			queueMicrotask(() => view.dispatch({ effects: language.reconfigure(wanted) }));
		}
		change();
	});
	const view = new EditorView({
		parent: host.attachShadow({ mode: "open" }),
		state: EditorState.create({
			doc: text,
			extensions: [
				separator.of(separated(text)), language.of(languageOf(text)), listen, EXTENSIONS,
				EditorView.contentAttributes.of({ "aria-label": label, tabindex: "0" }),
				EditorView.domEventHandlers(
					{ compositionend: () => { setTimeout(flush, AFTER_COMPOSITION); } }),
			],
		}),
	});
	return {
		get text() { return view.state.sliceDoc(); },
		/** Can be undone. */
		set text(value) {
			view.dispatch({ effects: separator.reconfigure(separated(value)) });
			const changes = { from: 0, to: view.state.doc.length, insert: value };
			view.dispatch({ changes, effects: setMarks.of(Decoration.none) });
		},
		/** Shows mistakes: {line, column, message, severity: "mistake" or "warning"}. */
		marks(list) {
			pending = list;
			flush();
		},
		goTo(line, column) {
			const at = offsetOf(view.state.doc.toString(), line, column);
			view.dispatch({ selection: { anchor: at }, scrollIntoView: true });
			view.focus();
		},
		/** The text with "\n" for each line break. */
		get document() { return view.state.doc.toString(); },
		/** Gives the scalar at a path of keys a value; false: the text has no place for it. */
		set(path, value) {
			const setting = settingOf(this.document, path, value);
			if (!setting) return false;
			const insert = setting.insert.replaceAll("\n", view.state.lineBreak);
			view.dispatch({ changes: { ...setting, insert }, scrollIntoView: true });
			return true;
		},
		destroy: () => view.destroy(),
	};
}
