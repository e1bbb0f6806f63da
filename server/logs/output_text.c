#include "server/logs/logs_internal.h"

#include <assert.h>

#include "base/enc.h"
#include "base/json/scan.h"
#include "k8s/cache/job_entry.h"
#include "server/cluster/history.h"

enum { PACKED_MAX = OUTPUT_BODY_MAX + 4096, RATIO = 2000 };

#define DATA_KEY       "output.gz"
#define NOTE_POD       "rest-lit/pod-uid"
#define NOTE_SHA       "rest-lit/sha256"
#define NOTE_EXIT_CODE "rest-lit/exit-code"
#define NOTE_DROPPED   "rest-lit/dropped"

char *output_name(struct arena *a, const struct output_id *id)
{
	return arena_printf(a, "%s-output-%.*s-%lld-%lld-%lld", id->framework, (int)id->role.n,
	                    id->role.p, (long long)id->index, (long long)id->attempt,
	                    (long long)id->retry);
}

char *output_index_name(struct arena *a, const char *framework)
{
	return arena_printf(a, "%s-output", framework);
}

/* ---- frames ---- */

struct frame {
	unsigned stream;
	struct span bytes;
};

/* Takes the next frame off.  false: the end, or invalid. */
static bool frame_next(struct span *rest, struct frame *f)
{
	unsigned char h[OUTPUT_FRAME_HEAD];
	if (rest->n < sizeof(h))
		return false;
	memcpy(h, rest->p, sizeof(h));
	size_t n = (size_t)h[4] << 24 | (size_t)h[5] << 16 | (size_t)h[6] << 8 | h[7];
	if ((h[0] != OUTPUT_STDOUT && h[0] != OUTPUT_STDERR) || h[1] || h[2] || h[3] ||
	    n > rest->n - sizeof(h))
		return false;
	*f = (struct frame){ h[0], { rest->p + sizeof(h), n } };
	*rest = (struct span){ f->bytes.p + n, rest->n - sizeof(h) - n };
	return true;
}

static void frame_put(struct str *out, const struct frame *f)
{
	size_t n = f->bytes.n;
	const char head[OUTPUT_FRAME_HEAD] = {
		(char)f->stream, 0, 0, 0, (char)(n >> 24), (char)(n >> 16), (char)(n >> 8), (char)n
	};
	str_put(out, head, sizeof(head));
	str_span(out, f->bytes);
}

const char *output_check(struct span frames)
{
	struct frame f;
	size_t n = 0;
	size_t content = 0;
	for (; frame_next(&frames, &f); n++)
		content += f.bytes.n;
	if (frames.n)
		return "the body must be frames: a byte 1 (stdout) or 2 (stderr), three zero "
		       "bytes, the length in four bytes, and so many bytes";
	if (n > OUTPUT_FRAMES_MAX)
		return "the body may have 4096 frames";
	return content > OUTPUT_CONTENT_MAX ? "the frames may hold 65536 bytes of output" : NULL;
}

size_t output_content(struct span frames)
{
	struct frame f;
	size_t content = 0;
	while (frame_next(&frames, &f))
		content += f.bytes.n;
	return content;
}

struct span output_last(struct span frames, size_t max, struct arena *a)
{
	struct frame f;
	size_t content = output_content(frames);
	size_t skip = content > max ? content - max : 0;
	STR_AUTO out = STR_INIT(OUTPUT_BODY_MAX);
	if (!skip)
		return frames;
	while (frame_next(&frames, &f)) {
		size_t cut = f.bytes.n < skip ? f.bytes.n : skip;
		skip -= cut;
		f.bytes = (struct span){ f.bytes.p + cut, f.bytes.n - cut };
		if (f.bytes.n)
			frame_put(&out, &f);
	}
	return arena_span(a, str_view(&out));
}

void output_put(struct str *out, struct span frames, unsigned streams)
{
	struct frame f;
	while (frame_next(&frames, &f))
		if (f.stream & streams)
			str_span(out, f.bytes);
}

/* ---- the ConfigMap ---- */

struct span output_pack(struct span frames, struct arena *a)
{
	struct span packed;
	bool fits = job_entry_gzip(frames, PACKED_MAX, a, &packed);
	assert(fits); /* gzip adds few bytes at most */
	return packed;
}

void output_write(struct str *out, const struct output_id *id, const struct output_facts *facts,
                  struct span packed, struct arena *a)
{
	str_puts(out, "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":");
	str_json(out, span_of(output_name(a, id)));
	str_puts(out, ",\"labels\":{\"rest-lit/history\":\"output\",\"FC_FRAMEWORK_NAME\":");
	str_json(out, span_of(id->framework));
	str_puts(out, "},\"annotations\":{\"" NOTE_POD "\":");
	str_json(out, span_of(id->pod_uid));
	str_printf(out,
	           ",\"" NOTE_SHA "\":\"%s\",\"" NOTE_EXIT_CODE "\":\"%lld\",\"" NOTE_DROPPED
	           "\":\"%lld\"},",
	           facts->sha, (long long)facts->exit_code, (long long)facts->dropped);
	history_owner(out, id->framework, id->framework_uid);
	str_puts(out, "},\"immutable\":true,\"binaryData\":{\"" DATA_KEY "\":\"");
	str_base64(out, packed);
	str_puts(out, "\"}}");
}

static int64_t output_number(struct span notes, const char *key, struct arena *a)
{
	int64_t n = 0;
	(void)parse_i64(scan_text(scan_get(notes, key), a), INT64_MIN, INT64_MAX, &n); /* else 0 */
	return n;
}

bool output_read(struct span configmap, const struct output_id *id, struct arena *a,
                 struct output_facts *facts, struct span *frames)
{
	struct span bytes;
	struct span text;
	if (!scan_valid(configmap, HISTORY_DEPTH) ||
	    !history_is_owned(configmap, id->framework_uid, a))
		return false;
	struct span notes = scan_path(configmap, "metadata", "annotations");
	struct span sha = scan_text(scan_get(notes, NOTE_SHA), a);
	struct span packed = scan_text(scan_path(configmap, "binaryData", DATA_KEY), a);
	if ((id->pod_uid[0] && !span_is(scan_text(scan_get(notes, NOTE_POD), a), id->pod_uid)) ||
	    sha.n != OUTPUT_SHA || base64_decode(a, packed, &bytes) < 0 ||
	    !job_entry_gunzip(bytes, OUTPUT_BODY_MAX, RATIO, a, &text) || output_check(text))
		return false;
	*facts = (struct output_facts){ .exit_code = output_number(notes, NOTE_EXIT_CODE, a),
		                        .dropped = output_number(notes, NOTE_DROPPED, a) };
	memcpy(facts->sha, sha.p, OUTPUT_SHA);
	*frames = text;
	return true;
}

#define LINES_KEY "outputs"
enum { WORDS = 6, ENTRIES_READ_MAX = 4 * OUTPUTS_MAX };

/* ---- reading and writing ---- */

static struct span line_word(struct span *line)
{
	const char *blank = memchr(line->p, ' ', line->n);
	size_t n = blank ? (size_t)(blank - line->p) : line->n;
	struct span word = { line->p, n };
	n += blank != NULL;
	*line = (struct span){ line->p + n, line->n - n };
	return word;
}

static bool entry_read(struct span line, struct output_entry *e)
{
	*e = (struct output_entry){ .role = line_word(&line) };
	if (!e->role.n || parse_i64(line_word(&line), 0, INT32_MAX, &e->index) < 0 ||
	    parse_i64(line_word(&line), 0, INT32_MAX, &e->attempt) < 0 ||
	    parse_i64(line_word(&line), 0, INT32_MAX, &e->retry) < 0 ||
	    parse_i64(line_word(&line), 0, INT32_MAX, &e->bytes) < 0)
		return false;
	e->failed = span_is(line, "failed");
	return e->failed || span_is(line, "succeeded");
}

bool output_index_read(struct span configmap, const char *framework_uid, struct arena *a,
                       struct output_index *out)
{
	*out = (struct output_index){ ARENA_NEW(a, struct output_entry, ENTRIES_READ_MAX + 1), 0 };
	if (!configmap.n)
		return true;
	if (!scan_valid(configmap, HISTORY_DEPTH) || !history_is_owned(configmap, framework_uid, a))
		return false;
	struct span rest = scan_text(scan_path(configmap, "data", LINES_KEY), a);
	while (rest.n && out->n < ENTRIES_READ_MAX) {
		const char *end = memchr(rest.p, '\n', rest.n);
		size_t n = end ? (size_t)(end - rest.p) : rest.n;
		if (entry_read((struct span){ rest.p, n }, &out->v[out->n]))
			out->n++;
		n += end != NULL;
		rest = (struct span){ rest.p + n, rest.n - n };
	}
	return true;
}

void output_index_lines(struct str *out, const struct output_index *x)
{
	for (size_t i = 0; i < x->n; i++) {
		const struct output_entry *e = &x->v[i];
		if (!e->displaced)
			str_printf(out, "%.*s %lld %lld %lld %lld %s\n", (int)e->role.n, e->role.p,
			           (long long)e->index, (long long)e->attempt, (long long)e->retry,
			           (long long)e->bytes, e->failed ? "failed" : "succeeded");
	}
}

void output_index_write(struct str *out, const struct output_id *id, struct span lines,
                        struct arena *a)
{
	str_puts(out, "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":");
	str_json(out, span_of(output_index_name(a, id->framework)));
	str_puts(out, ",\"labels\":{\"rest-lit/history\":\"outputs\",\"FC_FRAMEWORK_NAME\":");
	str_json(out, span_of(id->framework));
	str_puts(out, "},");
	history_owner(out, id->framework, id->framework_uid);
	str_puts(out, "},\"data\":{\"" LINES_KEY "\":");
	str_json(out, lines);
	str_puts(out, "}}");
}

void output_index_patch(struct str *out, struct span version, struct span lines)
{
	str_puts(out, "{\"metadata\":{\"resourceVersion\":");
	str_json(out, version);
	str_puts(out, "},\"data\":{\"" LINES_KEY "\":");
	str_json(out, lines);
	str_puts(out, "}}");
}

/* ---- the rule ---- */

static bool entry_is_task(const struct output_entry *a, const struct output_entry *b)
{
	return a->index == b->index && a->attempt == b->attempt && span_eq(a->role, b->role);
}

const struct output_entry *output_index_find(const struct output_index *x,
                                             const struct output_entry *e)
{
	for (size_t i = 0; i < x->n; i++)
		if (entry_is_task(&x->v[i], e) && x->v[i].retry == e->retry)
			return &x->v[i];
	return NULL;
}

static bool entry_is_superseded(const struct output_entry *old, const struct output_entry *e)
{
	return old->attempt < e->attempt || (entry_is_task(old, e) && old->retry < e->retry);
}

static bool entry_is_less(const struct output_entry *old, const struct output_entry *e)
{
	return e->failed && !old->failed;
}

struct index_use {
	int64_t bytes;
	size_t n, displaced;
};

static bool use_has_room(const struct index_use *u, int64_t bytes, int64_t budget)
{
	return u->n < OUTPUTS_MAX && u->bytes + bytes <= budget;
}

/* Displaces entries that may go, the oldest first, until there is room. */
static void displace(const struct output_index *x, const struct output_entry *e, int64_t budget,
                     bool (*may_go)(const struct output_entry *, const struct output_entry *),
                     struct index_use *u)
{
	for (size_t i = 0; i < x->n && u->displaced < OUTPUTS_DISPLACED_MAX; i++) {
		struct output_entry *old = &x->v[i];
		if (use_has_room(u, e->bytes, budget))
			return;
		if (old->displaced || !may_go(old, e))
			continue;
		old->displaced = true;
		u->bytes -= old->bytes;
		u->n--;
		u->displaced++;
	}
}

int64_t output_index_room(const struct output_index *x, const struct output_entry *e,
                          int64_t budget)
{
	struct index_use u = { 0, x->n, 0 };
	for (size_t i = 0; i < x->n; i++)
		u.bytes += x->v[i].bytes;
	displace(x, e, budget, entry_is_superseded, &u);
	displace(x, e, budget, entry_is_less, &u);
	int64_t left = u.n < OUTPUTS_MAX ? budget - u.bytes : 0;
	if (left >= e->bytes)
		return e->bytes;
	if (left >= OUTPUT_LEAST)
		return left;
	for (size_t i = 0; i < x->n; i++)
		x->v[i].displaced = false;
	return 0;
}

void output_index_add(struct output_index *x, const struct output_entry *e)
{
	x->v[x->n++] = *e;
}

size_t output_share(bool failed, int64_t tasks, int64_t budget)
{
	int64_t sharers = tasks < 1 ? 1 : tasks > OUTPUTS_MAX ? OUTPUTS_MAX : tasks;
	int64_t share = failed ? OUTPUT_CONTENT_MAX : budget / sharers;
	return (size_t)(share < OUTPUT_CONTENT_MAX ? share : OUTPUT_CONTENT_MAX);
}
