// The elements that bring a text into the editor of "Submit": files, examples; and the virtual
// cluster of a text.

import { get, session } from "./api.js";
import { el, fill } from "./dom.js";
import { valueAt } from "./schema.js";

const FILE_MOST = 16 << 20; // bytes

const option = (value, text) => el("option", { value }, text);

/** The text of a file; throws an error that says what is wrong with it. */
export async function readFile(file) {
	const { name, size } = file;
	if (size > FILE_MOST) throw new Error(`${name} is larger than 16 MiB: it cannot be a job.`);
	const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
	try {
		return decoder.decode(await file.arrayBuffer());
	} catch {
		throw new Error(`${name} is not text in UTF-8. ` +
			"Save it in this encoding and open it again.");
	}
}

/** A button that calls load(file). */
export function fileChooser(load) {
	const input = el("input", { type: "file", class: "visually-hidden", on: { change: () => {
		if (input.files[0]) load(input.files[0]);
		input.value = "";
	} } });
	return el("label", { class: "button" }, "Open a file", input);
}

/** Calls load(file) for a file that is dropped on the area. */
export function acceptFiles(area, load, signal) {
	for (const type of ["dragover", "dragleave", "drop"]) {
		area.addEventListener(type, (event) => {
			if (!event.dataTransfer?.types.includes("Files")) return;
			event.preventDefault();
			event.stopPropagation(); // the editor would insert the text of the file
			area.classList.toggle("dropping", type === "dragover");
			const file = event.dataTransfer.files[0];
			if (type === "drop" && file) load(file);
		}, { capture: true, signal });
	}
}

/** Examples, of which the editor gets the chosen one. */
export function exampleChooser(editor, signal, fail) {
	const list = el("select", { on: { change: () => {
		if (list.value) editor.text = list.value;
		list.value = "";
	} } }, option("", "choose ..."));
	get("web/examples.json", { signal }).then((all) =>
		list.append(...all.map(({ name, title, text }) => option(text, title || name))))
		.catch(fail);
	return list;
}

const clusterPath = (text) =>
	(valueAt(text, ["jobName"]) !== null && valueAt(text, ["protocolVersion"]) === null
		? ["virtualCluster"] : ["defaults", "virtualCluster"]);

/** The virtual clusters of the user, of which the text gets the chosen one. update() shows that of
 * the text. */
export function clusterChooser(editor, signal, fail) {
	let names = session.user?.virtualCluster ?? [];
	const update = () => {
		const now = valueAt(editor.document, clusterPath(editor.document)) ?? "";
		const all = [...new Set([...names, now])].filter(Boolean);
		fill(list, option("", "not set"), all.map((name) => option(name, name)));
		list.value = now;
	};
	const choose = () => {
		const hasPlace = !list.value || editor.set(clusterPath(editor.document), list.value);
		if (!hasPlace) fail(new Error("Write the job first, or choose an example."));
		update();
	};
	const list = el("select", { on: { change: choose } });
	if (!names.length || session.user?.admin) {
		get("api/v2/virtual-clusters", { signal }).then((all) => {
			names = Object.keys(all);
			update();
		}).catch(fail);
	}
	update();
	return { list, update };
}
