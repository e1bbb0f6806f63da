// Tabs, of which one panel is visible. The others keep their size, and so their place in a log.

import { el } from "./dom.js";

/** names: of the tabs, by the view of the address; chosen(view) after each choice of the user. */
export class Tabs {
	panels = {};
	#tabs = {};

	constructor(names, chosen) {
		for (const [view, name] of Object.entries(names)) {
			const [tab, panel] = [`tab-${view}`, `panel-${view}`];
			const click = () => { this.choose(view); chosen(view); };
			this.#tabs[view] = el("button", { type: "button", role: "tab", id: tab,
				"aria-controls": panel, on: { click } }, name);
			this.panels[view] = el("div", { class: "panel", role: "tabpanel", id: panel,
				"aria-labelledby": tab });
		}
		this.list = el("div", { role: "tablist", on: { keydown: (event) => this.#key(event) } },
			Object.values(this.#tabs));
		this.body = el("div", { class: "panels" }, Object.values(this.panels));
	}

	#key({ key }) {
		const shown = Object.values(this.#tabs).filter((tab) => !tab.hidden);
		const step = { ArrowRight: 1, ArrowLeft: -1 }[key];
		if (!step) return;
		const next = shown.at((shown.indexOf(document.activeElement) + step) % shown.length);
		next.click();
		next.focus();
	}

	choose(chosen) {
		for (const [view, tab] of Object.entries(this.#tabs)) {
			tab.setAttribute("aria-selected", view === chosen);
			tab.tabIndex = view === chosen ? 0 : -1;
			this.panels[view].classList.toggle("away", view !== chosen);
		}
	}

	/** Shows a tab only if there is something behind it. */
	offer(view, yes) {
		this.#tabs[view].hidden = !yes;
	}
}
