/* What editor.js and schema.js use of CodeMirror; esbuild leaves out the rest. */
export { EditorState, Compartment, StateEffect, StateField } from "@codemirror/state";
export {
	EditorView,
	Decoration,
	gutter,
	GutterMarker,
	keymap,
	lineNumbers,
	highlightSpecialChars,
	hoverTooltip,
} from "@codemirror/view";
export {
	standardKeymap,
	history,
	historyKeymap,
	indentMore,
	indentLess,
	toggleComment,
} from "@codemirror/commands";
export {
	HighlightStyle,
	LRLanguage,
	indentService,
	syntaxHighlighting,
} from "@codemirror/language";
export { autocompletion } from "@codemirror/autocomplete";
export { parser as yamlParser } from "@lezer/yaml";
export { parser as jsonParser } from "@lezer/json";
export { tags } from "@lezer/highlight";
