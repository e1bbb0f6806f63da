#include "server/logs/output_text.h"

#include <assert.h>

#include "base/enc.h"
#include "base/json/scan.h"
#include "k8s/cache/cached_parts.h"
#include "server/cluster/history_text.h"

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

/* Take the next one off.  false at the end, or if what is left is none. */
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
	bool fits = history_gzip(frames, PACKED_MAX, a, &packed);
	assert(fits); /* gzip adds few bytes to what it cannot make smaller */
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
	    !cached_gunzip(bytes, OUTPUT_BODY_MAX, RATIO, a, &text) || output_check(text))
		return false;
	*facts = (struct output_facts){ .exit_code = output_number(notes, NOTE_EXIT_CODE, a),
		                        .dropped = output_number(notes, NOTE_DROPPED, a) };
	memcpy(facts->sha, sha.p, OUTPUT_SHA);
	*frames = text;
	return true;
}
