// The tab with the files that a job has left in its results: sizes, downloads, small ones at once.

import { get, getBytes } from "./api.js";
import { button, el, fill, link, onlyChanges, plainTable, sizeOf, time } from "./dom.js";

const MOST = 1 << 20; // bytes of a file that is shown
const IMAGES = { png: "png", jpg: "jpeg", jpeg: "jpeg", gif: "gif", webp: "webp" };

/** An image; null if the browser cannot read it. A canvas has no scripts and loads nothing. */
async function imageOf(name, bytes) {
	const type = IMAGES[name.split(".").at(-1).toLowerCase()];
	const blob = type && new Blob([bytes], { type: `image/${type}` });
	const image = blob && await createImageBitmap(blob).catch(() => null);
	if (!image) return null;
	const { width, height } = image;
	const canvas = el("canvas", { width, height, role: "img", "aria-label": name });
	canvas.getContext("2d").drawImage(image, 0, 0);
	return canvas;
}

/** The text of a file, as it is; null if it is none. */
function textOf(bytes) {
	try {
		const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
		return text.includes("\0") ? null : el("pre", { tabindex: "0" }, text);
	} catch { return null; }
}

export class ResultsView {
	#rows = []; // of all pages so far
	#host = el("div");
	#shown = el("section", { "aria-label": "File", hidden: true });
	#error = el("p", { class: "error", role: "alert" });
	#once = onlyChanges();

	/** path: of the results on the server. */
	constructor(panel, path, signal) {
		Object.assign(this, { path, signal });
		fill(panel, el("div", { class: "toolbar" },
			button("Download all as tar", () => this.#download("", "&archive=tar"))),
		this.#error, this.#host, this.#shown);
	}

	#get(query) {
		return get(`${this.path}?${query}`, { signal: this.signal });
	}

	/** Resolves to whether the job has results. */
	async isThere() {
		return this.#get("limit=1").then(() => true, (error) => {
			if (error.status !== 404) throw error;
			return false;
		});
	}

	#try(act) {
		fill(this.#error);
		act().catch(({ message }) => this.signal.aborted || fill(this.#error, message));
	}

	/** Reads the first page again, and those that were shown. */
	load() {
		this.#try(async () => {
			const rows = [];
			let page;
			do {
				page = await this.#get(rows.length ? `after=${rows.at(-1).href}` : "");
				rows.push(...page.results);
			} while (page.more && rows.length < this.#rows.length);
			this.#show(rows, page.more);
		});
	}

	#show(rows, isMore) {
		this.#rows = rows;
		const more = async () => {
			const page = await this.#get(`after=${rows.at(-1).href}`);
			this.#show([...rows, ...page.results], page.more);
		};
		const size = ({ size: n }) => el("span", { title: n }, sizeOf(n));
		this.#once("rows", [rows, isMore], () => fill(this.#host, rows.length
			? plainTable("Results", [
				["File", (row) => this.#name(row)], ["Size", size, "number"],
				["Changed", (row) => time(row.modified)],
				["", (row) => row.kind === "file" && link("Download",
					() => this.#download(`/${row.href}`, ""))]], rows)
			: "There are no files yet.",
		isMore && button("Show more", () => this.#try(more))));
	}

	#name(row) {
		if (row.kind !== "file") return `${row.path}/`;
		return row.size > MOST ? row.path : link(row.path, () => this.#try(() => this.#open(row)));
	}

	async #open({ path, href }) {
		const bytes = await getBytes(`${this.path}/${href}`, { signal: this.signal });
		const content = await imageOf(path, bytes) ?? textOf(bytes);
		this.#shown.hidden = false;
		fill(this.#shown, el("h2", null, path), content ?? "It is neither a text nor an image.");
		this.#shown.scrollIntoView({ block: "nearest" });
	}

	/** A link is valid for five minutes, without the user's token. */
	#download(href, query) {
		this.#try(async () => {
			const { token } = await this.#get("limit=1");
			const url = new URL(`${this.path}${href}?token=${token}${query}`, document.baseURI);
			el("a", { href: url.href, download: "" }).click();
		});
	}
}
