// The format of server-sent events (HTML standard, 9.2.6), for streams that fetch() reads.

const LARGEST = 1 << 24; // characters of one event

/** feed() takes bytes, split anywhere, and calls event(name, data) for each complete event, with
 * data read as JSON. id: of the last event that had one; retry: milliseconds that the server wants
 * between connections. */
export class EventParser {
	id = "";
	retry = null;

	constructor() {
		this.reset();
	}

	/** Begins a new stream; id and retry stay. */
	reset() {
		this.decoder = new TextDecoder();
		this.rest = "";
		this.clear();
	}

	clear() {
		this.name = "";
		this.nextId = this.id;
		this.data = [];
		this.size = 0;
	}

	feed(bytes, event) {
		this.rest += this.decoder.decode(bytes, { stream: true });
		let start = 0;
		// A "\r" at the end may be half of "\r\n".
		for (const end of this.rest.matchAll(/\r\n|\n|\r(?!$)/g)) {
			this.line(this.rest.slice(start, end.index), event);
			start = end.index + end[0].length;
		}
		this.rest = this.rest.slice(start);
		if (this.rest.length + this.size > LARGEST) throw new RangeError("an event is too large");
	}

	line(line, event) {
		if (line === "") {
			const { name, data, nextId } = this;
			this.clear();
			this.id = this.nextId = nextId;
			if (data.length) event(name || "message", JSON.parse(data.join("\n")));
			return;
		}
		const colon = line.indexOf(":");
		const field = colon < 0 ? line : line.slice(0, colon);
		const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
		if (field === "event") this.name = value;
		else if (field === "id" && !value.includes("\0")) this.nextId = value;
		else if (field === "retry" && /^\d+$/.test(value)) this.retry = Math.min(value, 60000);
		else if (field === "data") {
			this.data.push(value);
			this.size += value.length;
		}
	}
}
