#include "server/cluster/history_text.h"

#include <zlib.h>

#include "base/enc.h"
#include "base/json/scan.h"
#include "k8s/cache/cached_parts.h"

enum { GZIP_WINDOW = 15 + 16, RATIO = 200 };

#define DATA_KEY "attempt.json.gz"
static const char *const TASKS[] = { "taskRoleStatuses", "taskRoleStatusesCompressed" };

char *history_name(struct arena *a, const char *framework, int64_t attempt)
{
	return arena_printf(a, "%s-attempt-%lld", framework, (long long)attempt);
}

bool history_gzip(struct span text, size_t max, struct arena *a, struct span *packed)
{
	union {
		const char *p;
		Bytef *wanted; /* by zlib, which reads it only */
	} in = { text.p };
	z_stream z = { .next_in = in.wanted, .avail_in = (uInt)text.n };
	Bytef *out = arena_alloc(a, max);
	z.next_out = out;
	z.avail_out = (uInt)max;
	if (deflateInit2(&z, Z_BEST_COMPRESSION, Z_DEFLATED, GZIP_WINDOW, MAX_MEM_LEVEL,
	                 Z_DEFAULT_STRATEGY) != Z_OK)
		return false;
	bool whole = deflate(&z, Z_FINISH) == Z_STREAM_END;
	(void)deflateEnd(&z); /* says whether it was whole */
	*packed = (struct span){ (const char *)out, max - z.avail_out };
	return whole;
}

static bool is_tasks(struct span key)
{
	return span_is(key, TASKS[0]) || span_is(key, TASKS[1]);
}

/* The same without the tasks, of which there are too many. */
static struct span without_tasks(struct span status, struct arena *a)
{
	struct str out = STR_INIT(status.n + 1);
	struct scan members = scan_begin(status);
	struct span key;
	struct span value;
	str_char(&out, '{');
	while (scan_member(&members, &key, &value)) {
		if (is_tasks(key))
			continue;
		if (out.n > 1)
			str_char(&out, ',');
		str_char(&out, '"');
		str_span(&out, key);
		str_puts(&out, "\":");
		str_span(&out, value);
	}
	str_char(&out, '}');
	struct span kept = arena_span(a, str_view(&out));
	str_done(&out);
	return kept;
}

void history_owner(struct str *out, const char *framework, const char *uid)
{
	str_puts(out, "\"ownerReferences\":[{"
	              "\"apiVersion\":\"frameworkcontroller.microsoft.com/v1\","
	              "\"kind\":\"Framework\",\"name\":");
	str_json(out, span_of(framework));
	str_puts(out, ",\"uid\":");
	str_json(out, span_of(uid));
	str_puts(out, "}]");
}

bool history_is_owned(struct span configmap, const char *uid, struct arena *a)
{
	struct scan owners = scan_begin(scan_path(configmap, "metadata", "ownerReferences"));
	struct span owner;
	while (scan_item(&owners, &owner))
		if (span_is(scan_text(scan_get(owner, "uid"), a), uid))
			return true;
	return false;
}

static void put_configmap(struct str *out, const struct cached *job, struct span packed,
                          struct arena *a)
{
	str_puts(out, "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":");
	str_json(out, span_of(history_name(a, job->name, job->attempt)));
	str_puts(out, ",\"labels\":{\"rest-lit/history\":\"attempt\"},");
	history_owner(out, job->name, job->uid);
	str_puts(out, "},\"immutable\":true,\"binaryData\":{\"" DATA_KEY "\":\"");
	str_base64(out, packed);
	str_puts(out, "\"}}");
}

bool history_write(struct str *out, const struct cached *job, struct span doc, size_t max,
                   struct arena *a)
{
	struct span status = scan_path(doc, "status", "attemptStatus");
	struct span packed;
	if (scan_type(status) != SCAN_OBJECT)
		return false;
	if (!history_gzip(status, max, a, &packed) &&
	    !history_gzip(without_tasks(status, a), max, a, &packed))
		return false;
	put_configmap(out, job, packed, a);
	return true;
}

bool history_read(struct span configmap, const char *uid, int64_t attempt, struct arena *a,
                  struct span *status)
{
	struct span bytes;
	struct span text;
	int64_t id;
	if (!scan_valid(configmap, HISTORY_DEPTH) || !history_is_owned(configmap, uid, a))
		return false;
	struct span packed = scan_text(scan_path(configmap, "binaryData", DATA_KEY), a);
	if (base64_decode(a, packed, &bytes) < 0 ||
	    !cached_gunzip(bytes, CACHED_INFLATED_MAX, RATIO, a, &text) ||
	    !scan_valid(text, HISTORY_DEPTH) ||
	    !scan_int(scan_get(text, "id"), 0, INT32_MAX, &id) || id != attempt)
		return false;
	*status = text;
	return true;
}
