// The form of "Submit": it writes a job of one task role as text, which the user then can change.

import { el, field } from "./dom.js";
import { quoted, scalar } from "./schema.js";

const RULES = "The text rules now. Clear it to use the form.";
const FREE = "It writes a job of one task role.";
const MIB = { M: 1, G: 1024, T: 1024 * 1024 };
const SIZE = /^\s*(\d+(?:\.\d+|,\d{1,2})?)\s*(?:([MGT])i?B?)?\s*$/i;
// A block of YAML would change these: blanks at its begin, line breaks of other kinds, control
// characters.
const CHANGED = /^\s|[^\P{Cc}\n\t]|[\u2028\u2029\ufeff\ufffe\uffff]|\p{Cs}/u;

/** "1.5 GiB", "1,5g" and "1536" are 1536; other texts stay, for the server to explain: "1,536" may
 * be either. */
function mebibytes(text) {
	const [, n, unit = "M"] = SIZE.exec(text) ?? [];
	return n ? String(Math.round(n.replace(",", ".") * MIB[unit.toUpperCase()])) : scalar(text);
}

const count = (text) => (text ? String(Number(text)) : scalar(text));

/** A command as it is, in a block if this keeps it. */
function commandsOf(command) {
	if (!command.trim()) return " []";
	if (CHANGED.test(command)) return `\n      - ${quoted(command)}`;
	const keeps = command.endsWith("\n\n") ? "+" : command.endsWith("\n") ? "" : "-";
	const lines = command.replace(/\n$/, "").replace(/^(?=[^\n])/gm, "        ");
	return `\n      - |${keeps}\n${lines}`;
}

/** A job as YAML of version 2. */
const jobOf = ({ name, image, command, gpus, cpus, memory, instances }) => [
	"protocolVersion: 2",
	`name: ${scalar(name)}`,
	"type: job",
	"prerequisites:",
	"  - name: image",
	"    type: dockerimage",
	`    uri: ${scalar(image)}`,
	"taskRoles:",
	"  main:",
	`    instances: ${count(instances)}`,
	"    dockerImage: image",
	"    resourcePerInstance: " +
		`{gpu: ${count(gpus)}, cpu: ${count(cpus)}, memoryMB: ${mebibytes(memory)}}`,
	`    commands:${commandsOf(command)}`,
	"",
].join("\n");

const PLAIN = { autocomplete: "off", autocapitalize: "off", spellcheck: "false" };
const NUMBER = { type: "number", min: 0, step: 1 };
const FIELDS = [ // name, label, value, attributes
	["name", "Name", "", PLAIN],
	["image", "Image", "debian:12-slim", PLAIN],
	["gpus", "GPUs", "0", NUMBER],
	["cpus", "CPUs", "1", { ...NUMBER, min: 1 }],
	["memory", "Memory", "1024 MiB", PLAIN],
	["instances", "Instances", "1", { ...NUMBER, min: 1 }],
	["command", "Command", "", { ...PLAIN, rows: 3, placeholder: "python train.py --epochs 3" }],
];

/** The form, with these values by name. write(text) is called with the job after each input. */
export function createForm(values, write) {
	const inputs = {};
	const fields = el("fieldset", { on: { input: () => write(jobOf(form.values)) } },
		FIELDS.map(([name, label, , attributes]) => {
			inputs[name] = el(name === "command" ? "textarea" : "input", attributes);
			return field(label, inputs[name], `field-${name}`);
		}));
	const note = el("span", { class: "hint" });
	const summary = el("summary", null, "Form", note);
	const element = el("details", { class: "form", open: true }, summary, fields);
	const presets = Object.fromEntries(FIELDS.map(([name, , value]) => [name, value]));
	let kept; // values of the last text that the form has written
	const put = (all) => FIELDS.forEach(([name]) => { inputs[name].value = all[name] ?? ""; });
	put({ ...presets, ...values });
	const form = {
		element,
		get values() {
			return fields.disabled ? kept
				: Object.fromEntries(FIELDS.map(([name]) => [name, inputs[name].value]));
		},
		/** The form is for an empty text, and for the text that it has written. With another text
		 * it is empty, and folded unless somebody writes that text at the moment: nothing is to
		 * move then. */
		update(text, writing) {
			const isBlank = !text.trim(), mine = isBlank || text === jobOf(form.values);
			kept = form.values;
			if (!mine) put({});
			else if (fields.disabled) put(isBlank ? presets : kept);
			fields.disabled = !mine;
			note.textContent = mine ? FREE : RULES;
			if (isBlank) element.open = true;
			else if (!mine && !writing) element.open = false;
		},
		/** Returns false if the text rules. */
		rename(name) {
			if (fields.disabled) return false;
			inputs.name.value = name;
			write(jobOf(form.values));
			return true;
		},
	};
	return form;
}
