// Rules for the modules of the page; tests/page/eslint.py runs them.

const globals = "AbortController AbortSignal Blob BroadcastChannel CustomEvent DOMException EventTarget " +
	"FormData HashChangeEvent Headers Intl Node ResizeObserver TextDecoder TextEncoder URL URLSearchParams " +
	"addEventListener atob clearInterval clearTimeout console createImageBitmap crypto dispatchEvent document fetch getSelection " +
	"getComputedStyle " +
	"history location navigator queueMicrotask requestAnimationFrame scrollTo sessionStorage setInterval setTimeout";

export default [{
	languageOptions: {
		ecmaVersion: 2024, sourceType: "module",
		globals: Object.fromEntries(globals.split(" ").map((name) => [name, "readonly"])),
	},
	linterOptions: { reportUnusedDisableDirectives: "error" },
	rules: {
		"array-callback-return": "error",
		"complexity": ["error", 20], // `?.` and `??` count
		"consistent-return": "error",
		"eqeqeq": "error",
		"max-depth": ["error", 3],
		"max-len": ["error", { code: 100, tabWidth: 4 }],
		"max-lines-per-function": ["error", { max: 60 }],
		"max-params": ["error", 5],
		"no-constant-condition": "error",
		"no-dupe-keys": "error",
		"no-else-return": "error",
		"no-empty": "error",
		"no-eval": "error",
		"no-fallthrough": "error",
		"no-implicit-globals": "error",
		"no-import-assign": "error",
		"no-redeclare": "error",
		"no-self-assign": "error",
		"no-shadow": "error",
		"no-undef": "error",
		"no-unreachable": "error",
		"no-unused-vars": "error",
		"no-use-before-define": ["error", { functions: false, variables: false, classes: true }],
		"no-var": "error",
		"prefer-const": ["error", { destructuring: "all" }],
		"use-isnan": "error",
		"valid-typeof": "error",
	},
}];
