/*
 * How an attempt ended: its code, what that means, and the controller's diagnostics.  These are a
 * sentence, and then often JSON: "Pod failed: PodPattern unmatched: {"containers":[...]}", in which
 * pai-runtime's report may stand in a termination message, YAML between two markers.
 */
#include "base/json/json.h"
#include "base/yaml/yaml.h"
#include "server/jobs/job_detail.h"

#define MATCHED "matched: "
#define START   "[PAI_RUNTIME_ERROR_START]"
#define END     "[PAI_RUNTIME_ERROR_END]"

enum { DEPTH = 16, NODES = 4096, KEY = 256, READABLE_MAX = 16 * DIAGNOSTICS_MAX };

struct outcome outcome_read(struct span completion_status)
{
	enum { CODE, PHRASE, TYPE, DIAGNOSTICS, TRIGGER, N };
	static const char *const KEYS[N] = { "code", "phrase", "type", "diagnostics", "trigger" };
	struct span v[N];
	struct outcome o = { .has_code = false };
	scan_members(completion_status, KEYS, v, N);
	o.has_code = scan_int(v[CODE], INT32_MIN, INT32_MAX, &o.code);
	o.phrase = v[PHRASE];
	o.type = scan_get(v[TYPE], "name");
	o.diagnostics = v[DIAGNOSTICS];
	o.trigger = v[TRIGGER];
	return o;
}

void show_exit_spec(struct shower *w, const char *key, const struct outcome *o)
{
	str_puts(w->out, key);
	bool final = w->s->attempt.n > 0 || job_state_final(w->s->job->state);
	if (o->has_code)
		exit_spec_json(w->out, w->s->spec, o->code, final);
	else
		str_puts(w->out, "null");
}

/* ---- what pai-runtime said ---- */

/* The members of a mapping of YAML as JSON, and the name of the container. */
static struct span report_json(const struct node *map, struct span name, struct arena *a)
{
	STR_AUTO out = STR_INIT(READABLE_MAX);
	for (uint32_t i = 0; i < map->n; i++) {
		if (name.p && span_is(member_key(&map->member[i]), "name"))
			continue;
		str_char(&out, out.n ? ',' : '{');
		str_json(&out, member_key(&map->member[i]));
		str_char(&out, ':');
		node_json(&out, &map->member[i].value);
	}
	if (name.p) {
		str_puts(&out, out.n ? ",\"name\":" : "{\"name\":");
		str_json(&out, name);
	}
	str_puts(&out, out.n ? "}" : "{}");
	return out.full ? (struct span){ NULL, 0 } : arena_span(a, str_view(&out));
}

static struct span report_read(struct span yaml, struct span name, struct arena *a)
{
	const struct budget budget = { DEPTH, NODES, DIAGNOSTICS_MAX, KEY };
	NOTES_AUTO warnings = { 0 };
	ERR_AUTO e = { 0 };
	struct doc doc;
	if (yaml_read(yaml, &budget, a, &doc, &warnings, &e) < 0 || doc.root.type != NODE_MAP)
		return (struct span){ NULL, 0 };
	return report_json(&doc.root, name, a);
}

/* Of the first container that failed and has one. */
static struct span report_find(struct span pod, struct arena *a)
{
	enum { NAME, CODE, MESSAGE, N };
	static const char *const KEYS[N] = { "name", "code", "message" };
	struct scan containers = scan_begin(scan_get(pod, "containers"));
	struct span container;
	while (scan_item(&containers, &container)) {
		struct span v[N];
		struct span name = { NULL, 0 };
		int64_t code;
		scan_members(container, KEYS, v, N);
		if (!scan_int(v[CODE], 1, INT32_MAX, &code))
			continue;
		struct span message = scan_text(v[MESSAGE], a);
		size_t from = span_find(message, 0, START);
		size_t to = from == SIZE_MAX ? SIZE_MAX : span_find(message, from, END);
		if (to == SIZE_MAX)
			continue;
		from += sizeof(START) - 1;
		(void)scan_string(v[NAME], a, &name); /* if it has one */
		return report_read((struct span){ message.p + from, to - from }, name, a);
	}
	return (struct span){ NULL, 0 };
}

/* ---- diagnostics ---- */

/* Text that is shown: its sentence, and the JSON behind it as YAML. */
static struct span summary_of(struct span text, size_t head, struct span json, struct arena *a)
{
	const struct budget budget = { DEPTH, NODES, DIAGNOSTICS_MAX, KEY };
	NOTES_AUTO warnings = { 0 };
	ERR_AUTO e = { 0 };
	struct doc doc;
	bool syntax;
	STR_AUTO out = STR_INIT(READABLE_MAX);
	if (json_read(json, &budget, a, &doc, &warnings, &syntax, &e) < 0)
		return text;
	str_put(&out, text.p, head);
	str_char(&out, '\n');
	yaml_write(&out, &doc.root);
	return out.full ? text : arena_span(a, str_view(&out));
}

static struct span line_at(struct span text, size_t from)
{
	size_t n = 0;
	while (from + n < text.n && text.p[from + n] != '\n' && text.p[from + n] != '\r')
		n++;
	return (struct span){ text.p + from, n };
}

struct said said_read(struct span diagnostics, bool with_runtime, struct arena *a)
{
	struct said said = { { NULL, 0 }, { NULL, 0 } };
	struct span text = scan_text(diagnostics, a);
	if (text.n == 0)
		return said;
	said.summary = text;
	size_t at = text.n <= DIAGNOSTICS_MAX ? span_find(text, 0, MATCHED) : SIZE_MAX;
	if (at == SIZE_MAX)
		return said;
	struct span json = line_at(text, at + sizeof(MATCHED) - 1);
	if (!scan_valid(json, DEPTH))
		return said;
	said.summary = summary_of(text, at + sizeof(MATCHED) - 2, json, a);
	if (with_runtime)
		said.runtime = report_find(json, a);
	return said;
}

void show_who_said(struct shower *w, const struct said *said)
{
	str_puts(w->out, ",\"runtime\":");
	str_span(w->out, said->runtime.p ? said->runtime : SPAN("null"));
	str_puts(w->out, ",\"launcher\":");
	if (said->runtime.p)
		str_puts(w->out, "null");
	else
		str_json(w->out, said->summary);
	str_char(w->out, '}');
}

void show_messages(struct shower *w, const char *key, const struct said *said)
{
	if (!said->summary.p) {
		show_null(w, key);
		return;
	}
	str_puts(w->out, key);
	str_puts(w->out, "{\"container\":null");
	show_who_said(w, said);
}

/* Those of many tasks are often the same; and there is an end to what is read of them. */
void show_diagnostics(struct shower *w, const char *key, struct span diagnostics)
{
	str_puts(w->out, key);
	if (w->same_in.p && span_eq(w->same_in, diagnostics)) {
		if (str_reserve(w->out, w->same_n))
			str_put(w->out, w->out->p + w->same_at, w->same_n);
		return;
	}
	w->same_in = diagnostics;
	w->same_at = w->out->n;
	struct said said = { { NULL, 0 }, { NULL, 0 } };
	if (diagnostics.n <= w->readable) {
		said = said_read(diagnostics, false, w->a);
		w->readable -= diagnostics.n;
	} else {
		said.summary = scan_text(diagnostics, w->a);
	}
	if (said.summary.n)
		str_json(w->out, said.summary);
	else
		str_puts(w->out, "null");
	w->same_n = w->out->n - w->same_at;
}
