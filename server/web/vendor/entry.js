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
	syntaxHighlighting,
	syntaxTree,
	ensureSyntaxTree,
} from "@codemirror/language";
export { autocompletion, completionKeymap } from "@codemirror/autocomplete";
export {
	search,
	openSearchPanel,
	closeSearchPanel,
	findNext,
	findPrevious,
} from "@codemirror/search";
export { parser as yamlParser } from "@lezer/yaml";
export { parser as jsonParser } from "@lezer/json";
export { tags } from "@lezer/highlight";
