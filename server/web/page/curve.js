// The curve of one figure over time: a line of its mean, a band up to its greatest value, gaps
// where nothing is known. A pointer or the arrow keys choose a point, of which time and figures are
// shown.

import { el, fill, onlyChanges, svg, time } from "./dom.js";

const HEIGHT = 100;
const STEPS = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 10, PageDown: -10,
	Home: -Infinity, End: Infinity };

const isKnown = (value) => Number.isFinite(value);

/** {mean, most} of a curve between two times, in seconds from its begin; null: a gap. */
export function between({ period, mean, most }, from, to) {
	const range = [Math.floor(from / period), Math.ceil(to / period)];
	const means = mean.slice(...range).filter(isKnown);
	if (!means.length) return null;
	return { mean: means.reduce((sum, value) => sum + value, 0) / means.length,
		most: Math.max(...most.slice(...range).filter(isKnown), ...means) };
}

export const hasPoints = (curve) => Boolean(curve?.mean.some(isKnown));

/** The figures of between() as text: text(value) has the unit; isAtMost: they are upper bounds. */
export function rangeText(found, text, isAtMost) {
	const shown = (value) => (isAtMost ? "at most " : "") + text(value);
	return found ? `mean ${shown(found.mean)}, greatest ${shown(found.most)}` : "unknown";
}

/** The parts [from, end) of the values without a gap. */
function runsOf(values) {
	const runs = [];
	values.forEach((value, i) => {
		if (!isKnown(value)) return;
		if (runs.at(-1)?.[1] === i) runs.at(-1)[1]++;
		else runs.push([i, i + 1]);
	});
	return runs;
}

/** A path along steps; with `lower`, the area between both. */
function steps(upper, lower, top) {
	const y = (value) => (HEIGHT * (1 - value / top)).toFixed(2);
	const along = (values, [from, end]) => values.slice(from, end)
		.flatMap((value, i) => [`${from + i},${y(value)}`, `${from + i + 1},${y(value)}`]);
	return runsOf(upper).map((run) => `M${along(upper, run).join(" ")}` +
		(lower ? ` ${along(lower, run).reverse().join(" ")}Z` : "")).join("");
}

/** A figure, and its slider over the points. */
export class Curve {
	#at = null; // the point that is chosen
	#once = onlyChanges();
	#reading = el("span", { class: "soft" });
	#scale = el("div", { class: "scale soft", "aria-hidden": "true" });
	#mark = svg("path", { class: "mark" });

	/** text and isAtMost: as of rangeText(). */
	constructor(name, text, isAtMost) {
		Object.assign(this, { text, isAtMost });
		const moved = ({ clientX }) => {
			const { left, width } = this.slider.getBoundingClientRect();
			this.#choose(Math.floor(((clientX - left) / width) * this.points));
		};
		const left = () => { if (document.activeElement !== this.slider) this.#choose(null); };
		const on = { pointerdown: moved, pointermove: moved, pointerleave: left,
			blur: () => this.#choose(null), keydown: (event) => this.#key(event) };
		this.slider = el("div", { class: "plot", role: "slider", tabindex: "0",
			"aria-label": name, "aria-valuemin": 0, on });
		this.element = el("figure", { class: "curve" },
			el("figcaption", null, el("b", null, name), this.#reading), this.slider, this.#scale);
	}

	/** curve: {period, mean, most} from `begin` on; it is as wide as `seconds`, and as high as
	 * `top` or its greatest value. */
	show(curve, begin, seconds, top) {
		Object.assign(this, { curve, begin });
		const isThere = hasPoints(curve);
		this.slider.hidden = this.#scale.hidden = !isThere;
		if (!isThere) {
			fill(this.#reading, "unknown");
			return;
		}
		const { period, mean } = curve;
		this.points = Math.max(mean.length, Math.ceil(seconds / period));
		const most = mean.map((value, i) => (isKnown(value) ? curve.most[i] ?? value : null));
		const high = most.reduce((a, b) => Math.max(a, b), top ?? 0) || 1;
		this.#once("curve", [curve, this.points, high], () => this.#draw(mean, most, high));
		this.#choose(this.#at);
	}

	#draw(mean, most, high) {
		const zero = mean.map(() => 0);
		const area = (kind, upper, lower) =>
			svg("path", { class: kind, d: steps(upper, lower, high) });
		fill(this.slider, svg("svg", { viewBox: `0 0 ${this.points} ${HEIGHT}`,
			preserveAspectRatio: "none", "aria-hidden": "true" }, area("under", mean, zero),
		area("band", most, mean), area("mean", mean), this.#mark));
		this.slider.setAttribute("aria-valuemax", this.points - 1);
		const end = this.begin + this.points * this.curve.period * 1000;
		fill(this.#scale, el("span", null, time(this.begin).slice(5, 16)),
			el("span", null, `0 to ${this.text(high)}`), el("span", null, time(end).slice(5, 16)));
	}

	#key(event) {
		const step = STEPS[event.key];
		if (!step || event.altKey || event.ctrlKey || event.metaKey) return;
		event.preventDefault();
		const last = this.points - 1;
		this.#choose((this.#at ?? (step > 0 ? -1 : last + 1)) + step);
	}

	/** Shows the figures of a point; null: those of all. */
	#choose(wanted) {
		if (!hasPoints(this.curve)) return;
		const last = this.points - 1, { period } = this.curve;
		const at = wanted === null ? null : Math.max(0, Math.min(last, wanted));
		const found = at === null ? between(this.curve, 0, this.points * period)
			: between(this.curve, at * period, (at + 1) * period);
		const when = at === null ? "" : `${time(this.begin + at * period * 1000).slice(5)}: `;
		const text = when + rangeText(found, this.text, this.isAtMost);
		this.#at = at;
		if (this.#reading.textContent !== text) fill(this.#reading, text);
		this.slider.setAttribute("aria-valuenow", at ?? last);
		this.slider.setAttribute("aria-valuetext", text);
		this.#mark.setAttribute("d", at === null ? "" : `M${at + 0.5},0V${HEIGHT}`);
	}
}
