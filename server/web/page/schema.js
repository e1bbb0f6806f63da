// Paths in the text of a job, and the sentences of the server's JSON Schema about them. JSON is
// read as YAML, so that one parser serves both.

import { get } from "./api.js";
import { yamlParser } from "./codemirror.js";

/** The first character, after white space and comments of JSON, is a brace. */
export const isJson = (text) =>
	/^\ufeff?(?:\s|\/\/.*(?:\n|$)|\/\*(?:[^*]|\*(?!\/))*\*\/)*\{/.test(text);

// ---- the tree ----
const SCALARS = new Set(["Literal", "QuotedLiteral", "BlockLiteral", "Alias"]);
const MAPPINGS = new Set(["BlockMapping", "FlowMapping"]);
const COMMENTS = /"(?:[^"\\\n]|\\.)*"|\/\/.*|\/\*[^]*?(?:\*\/|$)/g;
const PARSED_MOST = 1 << 20; // characters; larger texts have no help

function parse(text) {
	if (text.length > PARSED_MOST) return yamlParser.parse("");
	const blank = (found) => (found.startsWith('"') ? found : found.replace(/\S/g, " "));
	return yamlParser.parse(isJson(text) ? text.replace(COMMENTS, blank) : text);
}

const children = (node) => {
	const all = [];
	for (let child = node.firstChild; child; child = child.nextSibling) all.push(child);
	return all;
};
const pairsOf = (mapping) => children(mapping).filter(({ name }) => name === "Pair");

/** The value below anchors and tags; null if it is a scalar of another kind, or missing. */
function valueIn(node) {
	const found = children(node).findLast(({ name }) =>
		SCALARS.has(name) || /Mapping$|Sequence$|^(Anchored|Tagged)$/.test(name));
	return found && /^(Anchored|Tagged)$/.test(found.name) ? valueIn(found) : found ?? null;
}

function unquoted(text) {
	if (text.startsWith("'")) return text.slice(1, -1).replaceAll("''", "'");
	if (!text.startsWith('"')) return text;
	try { return JSON.parse(text); } catch { return text.slice(1, -1); }
}

const textOf = (node, text) =>
	(node && SCALARS.has(node.name) ? unquoted(text.slice(node.from, node.to)) : null);
const keyOf = (pair, text) => textOf(pair.getChild("Key")?.firstChild, text);

/** The members of a mapping with the text of those that are scalars. */
const members = (mapping, text) =>
	new Map(pairsOf(mapping).map((pair) => [keyOf(pair, text), textOf(valueIn(pair), text)]));

/** The steps from the root to a node: {key, members} for mappings, {key: null} for sequences. */
function stepsTo(node, text) {
	const steps = [];
	for (let n = node; n; n = n.parent) {
		if (n.name === "Pair") {
			steps.unshift({ key: keyOf(n, text), members: members(n.parent, text) });
		} else if (n.name === "Item") steps.unshift({ key: null, members: new Map() });
	}
	return steps;
}

function ancestor(node, names) {
	while (node && !names.has(node.name)) node = node.parent;
	return node;
}

// ---- the schema ----
const loaded = {}; // promises, by name

/** The schema of a version, "v1" or "v2", which is asked for once. */
export const loadSchema = (name) => loaded[name] ??= get(`api/v2/schemas/${name}`)
	.catch((error) => {
		delete loaded[name];
		throw error;
	});

const schemaOf = (root) =>
	loadSchema(root.has("jobName") && !root.has("protocolVersion") ? "v1" : "v2");

const isObject = (x) => typeof x === "object" && x !== null && !Array.isArray(x);
const choices = (s) => s.enum ?? ("const" in s ? [s.const] : null);

class Rules {
	constructor(root) {
		this.root = root;
	}

	follow(schema) {
		if (!schema.$ref) return schema;
		return schema.$ref.split("/").slice(1).reduce((at, key) => at[key], this.root);
	}

	/** Returns true if members can be of this alternative; `sure`: all deciding ones are there. */
	fits(schema, values, sure) {
		return Object.entries(this.follow(schema).properties ?? {}).every(([key, rule]) => {
			const allowed = isObject(rule) && choices(this.follow(rule));
			if (!allowed) return true;
			return values.get(key) ? allowed.map(String).includes(values.get(key)) : !sure;
		});
	}

	/** All schemas that hold for a value with these members. */
	parts(schema, values) {
		const s = this.follow(schema);
		const either = [...(s.oneOf ?? []), ...(s.anyOf ?? [])];
		const more = [...either.filter((one) => this.fits(one, values, false)), ...(s.allOf ?? []),
			...(s.if && this.fits(s.if, values, true) ? [s.then] : [])];
		return [s, ...more.filter(isObject).flatMap((one) => this.parts(one, values))];
	}

	child(s, key) {
		if (key === null) return s.items;
		if (isObject(s.properties) && Object.hasOwn(s.properties, key)) return s.properties[key];
		const patterns = Object.entries(s.patternProperties ?? {});
		return patterns.find(([pattern]) => new RegExp(pattern, "u").test(key))?.[1] ??
			s.additionalProperties;
	}

	/** The schemas at a path; `known`: the members of the value there. */
	at(steps, known = new Map()) {
		let now = [this.root];
		for (const { key, members: inside } of steps) {
			const parts = now.flatMap((s) => this.parts(s, inside));
			now = parts.map((s) => this.child(s, key)).filter(isObject);
		}
		return now.flatMap((s) => this.parts(s, known));
	}
}

// ---- sentences ----
const TYPE_NAMES = { array: "list", object: "mapping", string: "text" };

function typeOf(s) {
	const allowed = choices(s);
	if (allowed) return [...new Set(allowed.map(String))].join(" or ");
	const types = [s.type ?? []].flat().filter((type) => type !== "null");
	const name = types.map((type) => TYPE_NAMES[type] ?? type);
	const least = s.minimum === undefined ? "" : `, at least ${s.minimum}`;
	const most = s.maximum === undefined ? "" : `, at most ${s.maximum}`;
	return name.join(" or ") + least + most;
}

function sentences(schemas) {
	const type = schemas.map(typeOf).find(Boolean);
	const text = schemas.map((s) => s.description).find(Boolean);
	const value = schemas.map((s) => s.default).find((v) => v !== undefined);
	const preset = value === undefined ? null : `Default: ${JSON.stringify(value)}`;
	return [type, text, preset].filter(Boolean);
}

/** Help for the key or value at an offset: {from, to, lines}, or null. */
export async function describe(text, pos) {
	const tree = parse(text);
	const node = [1, -1].map((side) => ancestor(tree.resolveInner(pos, side), SCALARS))
		.find(Boolean);
	const steps = node ? stepsTo(node, text) : [];
	if (!steps.length) return null;
	const rules = new Rules(await schemaOf(steps[0].members));
	const value = valueIn(ancestor(node, new Set(["Pair"])) ?? node);
	const inside = value && MAPPINGS.has(value.name) ? members(value, text) : undefined;
	const [first, ...rest] = sentences(rules.at(steps, inside));
	const key = steps.findLast((step) => step.key !== null)?.key ?? "";
	return first ? { from: node.from, to: node.to, lines: [`${key}: ${first}`, ...rest] } : null;
}

// ---- completion ----
function keys(rules, schemas, known, json, ends) {
	const required = new Set(schemas.flatMap((s) => s.required ?? []));
	const all = schemas.flatMap((s) => Object.entries(s.properties ?? {}))
		.filter(([key, rule]) => isObject(rule) && !known.has(key));
	return [...Map.groupBy(all, ([key]) => key)].map(([key, alternatives]) => {
		const parts = alternatives.flatMap(([, rule]) => rules.parts(rule, new Map()));
		const [type, ...info] = sentences(parts);
		const opens = parts.some((s) => /object|array/.test(s.type));
		const label = json ? JSON.stringify(key) : key;
		const end = ends ? "" : json || !opens ? ": " : ":";
		return { label, displayLabel: key, detail: type, info: info.join("\n") || undefined,
			boost: required.has(key) ? 1 : 0, apply: label + end };
	});
}

function choicesOf(schemas, json) {
	const known = (s) => choices(s) ?? ([s.type].flat().includes("boolean") ? [true, false] : []);
	const all = schemas.flatMap(known);
	return [...new Map(all.map((v) => [String(v), v])).values()]
		.map((v) => ({ label: scalar(v, json), displayLabel: String(v), apply: scalar(v, json) }));
}

const WORD = /["']?[\w.-]*$/;
const VALUE = /(?:^|[\s{,[])(?:"[^"]*"\s*:\s*|'[^']*'\s*:\s+|[^\s#:{}[\],"']+:\s+)$/;
const LOOK_BACK = 1000; // characters

const replacing = (insert, rest) => (view, option, from, to) => view.dispatch({
	changes: { from, to: to + rest, insert }, selection: { anchor: from + insert.length },
	userEvent: "input.complete",
});

/** Where a word is written: [from, to); isValue: as a value; ends: as a key that has its colon. */
function wordAt(text, pos, line) {
	const start = Math.max(line.from, pos - LOOK_BACK);
	const from = start + WORD.exec(text.slice(start, pos)).index;
	const to = pos + /^[\w.-]*["']?/.exec(text.slice(pos, line.to))[0].length;
	return { from, to, isValue: VALUE.test(text.slice(start, from)),
		ends: /^\s*:/.test(text.slice(to, line.to)) };
}

/** The words that can stand in the place of a word, with {label, apply}. */
async function optionsAt(text, { from, to, isValue, ends }) {
	// With a word in its place the text has a complete tree.
	const patched = text.slice(0, from) + (isValue || ends ? "x" : "x: ") + text.slice(to);
	const node = parse(patched).resolveInner(from, 1);
	const steps = isValue || node.parent?.name === "Key" ? stepsTo(node, patched) : [];
	if (!steps.length) return [];
	const json = isJson(text);
	const rules = new Rules(await schemaOf(steps[0].members).catch(() => ({})));
	const { key, members: others } = steps.at(-1);
	others.delete(key); // it is still being written
	return isValue ? choicesOf(rules.at(steps), json)
		: keys(rules, rules.at(steps.slice(0, -1), others), others, json, ends);
}

/** A source of completions for CodeMirror. */
export async function complete({ state: { doc }, pos, explicit }) {
	const text = doc.toString();
	const word = wordAt(text, pos, doc.lineAt(pos));
	const { from, to } = word;
	const options = explicit || from < pos ? await optionsAt(text, word) : [];
	const inserts = new Set(options.map(({ apply }) => apply));
	// A complete word is not offered: Enter then begins a line.
	if (!options.length || !explicit && inserts.has(text.slice(from, to))) return null;
	for (const option of options) option.apply = replacing(option.apply, to - pos);
	return { from, options, validFor: (now) => /^["']?[\w.-]*$/.test(now) && !inserts.has(now) };
}

// ---- changes in place ----
const PLAIN = /^(?!(?:true|false|null|yes|no|on|off|y|n|~)$)[A-Za-z_][\w-]*$/i;
const UNSEEN = /[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]/g;

/** A text in double quotes, which YAML and JSON read alike. */
export const quoted = (value) => JSON.stringify(value)
	.replace(UNSEEN, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);

export const scalar = (value, json) =>
	(!json && PLAIN.test(value) ? String(value) : quoted(value));

const NAMES = [["metadata", "jobName"], ["metadata", "name"], ["jobName"], ["name"]];

/** The value at a path of keys (`at`), or how far the path leads: `rest` is missing in `mapping`,
 * or in the value of `pair`, which is no mapping (`broken`, or null). */
function find(tree, text, path) {
	const document = tree.topNode.getChild("Document");
	let at = document && valueIn(document);
	let pair = null;
	for (const [i, key] of path.entries()) {
		const rest = path.slice(i);
		if (!at || !MAPPINGS.has(at.name)) return { at: null, broken: at, pair, rest };
		const next = pairsOf(at).find((one) => keyOf(one, text) === key);
		if (!next) return { at: null, mapping: at, rest };
		pair = next;
		at = valueIn(pair);
	}
	return { at, pair, rest: [] };
}

/** The text of the scalar at a path, or null. */
export const valueAt = (text, path) => textOf(find(parse(text), text, path).at, text);

/** The path of the name in a job of any dialect. */
export const namePathOf = (text) =>
	NAMES.find((path) => valueAt(text, path) !== null) ?? NAMES.at(-1);

/** The change {from, to, insert} that gives the scalar at a path a value and keeps all else; null
 * if the text has no place for it. */
export function settingOf(text, path, value) {
	const json = isJson(text);
	const { at, mapping, broken, pair, rest } = find(parse(text), text, path);
	const name = (key) => (json ? JSON.stringify(key) : key);
	const flow = (keysLeft) =>
		keysLeft.reduceRight((inner, key) => `{${name(key)}: ${inner}}`, scalar(value, json));
	if (at) {
		const quote = at.name === "QuotedLiteral" && PLAIN.test(value) ? text[at.from] : null;
		const insert = quote ? quote + value + quote : scalar(value, json);
		return { from: at.from, to: at.to, insert };
	}
	if (mapping) return adding(text, mapping, name(rest[0]), flow(rest.slice(1)));
	if (!pair) return null;
	if (broken) return { from: broken.from, to: broken.to, insert: flow(rest) };
	const colon = children(pair).find((n) => n.name === ":");
	return colon ? { from: colon.to, to: colon.to, insert: ` ${flow(rest)}` } : null;
}

function adding(text, mapping, key, value) {
	const pairs = pairsOf(mapping);
	if (mapping.name === "FlowMapping") {
		const open = mapping.from + 1, first = pairs[0]?.from ?? open;
		const space = text.slice(open, first);
		// The new member has a line of its own if others have.
		const between = !pairs.length ? "" : space.includes("\n") ? `,${space}` : ", ";
		return { from: first, to: first, insert: `${key}: ${value}${between}` };
	}
	const last = pairs.at(-1);
	const indent = /^[ \t]*/.exec(text.slice(text.lastIndexOf("\n", last.from - 1) + 1))[0];
	const end = text.indexOf("\n", Math.max(last.from, last.to - 1));
	const at = end < 0 ? text.length : end;
	return { from: at, to: at, insert: `\n${indent}${key}: ${value}` };
}
