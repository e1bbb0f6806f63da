#include "base/gzip.h"
#include "tests/machine/replay.h"

#include <stdlib.h>
#include <time.h>

#include "base/enc.h"
#include "jobs/cache/job_entry.h"

enum { STATUS_MAX = 64 << 20, RATIO_MAX = 1000 };

#define GZIP_KEY  "gzip of JSON"
#define BYTES_KEY "bytes of JSON"

void symbols_begin(struct symbols *s)
{
	*s = (struct symbols){ .by_uid = json_object(),
		               .by_symbol = json_object(),
		               .counts = json_object() };
}

void symbols_end(struct symbols *s)
{
	json_decref(s->by_uid);
	json_decref(s->by_symbol);
	json_decref(s->counts);
}

json_t *symbols_next(struct symbols *s, const char *what)
{
	json_int_t n = json_integer_value(json_object_get(s->counts, what)) + 1;
	json_object_set_new(s->counts, what, json_integer(n));
	return json_sprintf("uid(%s#%lld)", what, (long long)n);
}

static void symbols_learn_one(struct symbols *s, const json_t *of, const char *what)
{
	const char *uid = json_string_value(json_object_get(of, "instanceUID"));
	if (!uid || json_object_get(s->by_uid, uid) || json_object_get(s->by_symbol, uid))
		return;
	json_t *symbol = symbols_next(s, what);
	json_object_set_new(s->by_symbol, json_string_value(symbol), json_string(uid));
	json_object_set_new(s->by_uid, uid, symbol);
}

json_t *symbols_roles(const json_t *status)
{
	const json_t *attempt = json_object_get(status, "attemptStatus");
	json_t *packed = json_object_get(attempt, "taskRoleStatusesCompressed");
	json_t *roles = json_object_get(packed, GZIP_KEY);
	return roles ? roles : json_object_get(attempt, "taskRoleStatuses");
}

void symbols_learn(struct symbols *s, json_t *status)
{
	size_t i;
	json_t *role;
	json_array_foreach (symbols_roles(status), i, role) {
		const char *name = reply_text(role, "name");
		FREE_AUTO char *what = xasprintf("role %s", name);
		symbols_learn_one(s, role, what);
		size_t k;
		json_t *task;
		json_array_foreach (json_object_get(role, "taskStatuses"), k, task) {
			FREE_AUTO char *of = xasprintf("task %s/%zu", name, k);
			symbols_learn_one(s, task, of);
		}
	}
}

static void symbols_time_text(char out[static 32], int64_t s)
{
	time_t t = s;
	struct tm tm = { 0 };
	if (!gmtime_r(&t, &tm) || !strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &tm))
		out[0] = '\0';
}

static json_t *symbols_text_shown(const struct symbols *s, const char *text)
{
	const json_t *symbol = json_object_get(s->by_uid, text);
	char time[32];
	bool may_be_time = strlen(text) == strlen("2020-09-13T12:26:40Z");
	if (symbol)
		return json_string(json_string_value(symbol));
	for (size_t i = may_be_time ? s->steps : 0; i > 0; i--) {
		symbols_time_text(time, s->times[i - 1]);
		if (strcmp(text, time) == 0)
			return json_sprintf("@%zu", i - 1);
	}
	return json_string(text);
}

static json_t *symbols_text_meant(const struct symbols *s, const char *text)
{
	const json_t *uid = json_object_get(s->by_symbol, text);
	int64_t step;
	char time[32];
	if (uid)
		return json_string(json_string_value(uid));
	if (text[0] == '@' && parse_i64(span_of(text + 1), 0, (int64_t)s->steps - 1, &step) == 0) {
		symbols_time_text(time, s->times[step]);
		return json_string(time);
	}
	return json_string(text);
}

typedef json_t *symbols_text(const struct symbols *s, const char *text);

static json_t *symbols_copy(const struct symbols *s, json_t *v, symbols_text *text)
{
	size_t i;
	const char *key;
	json_t *child;
	json_t *copy;
	if (json_is_string(v))
		return text(s, json_string_value(v));
	if (json_is_array(v)) {
		copy = json_array();
		json_array_foreach (v, i, child)
			json_array_append_new(copy, symbols_copy(s, child, text));
		return copy;
	}
	if (!json_is_object(v))
		return json_deep_copy(v);
	copy = json_object();
	json_object_foreach (v, key, child)
		json_object_set_new(copy, key, symbols_copy(s, child, text));
	return copy;
}

json_t *symbols_shown(const struct symbols *s, json_t *v)
{
	return symbols_copy(s, v, symbols_text_shown);
}

json_t *symbols_meant(struct symbols *s, json_t *v)
{
	return symbols_copy(s, v, symbols_text_meant);
}

json_t *symbols_plain(json_t *status)
{
	json_t *attempt = json_object_get(status, "attemptStatus");
	const char *packed =
	    json_string_value(json_object_get(attempt, "taskRoleStatusesCompressed"));
	ARENA_AUTO arena = { 0 };
	struct span bytes;
	struct span text;
	if (!packed || base64_decode(&arena, span_of(packed), &bytes) < 0 ||
	    !gzip_unpack(bytes, STATUS_MAX, RATIO_MAX, &arena, &text))
		return json_incref(status);
	enum { COMPRESSED_FROM = 716800 };
	json_t *shown = json_pack("{s:o, s:s}", GZIP_KEY, json_loadb(text.p, text.n, 0, NULL),
	                          BYTES_KEY, text.n >= COMPRESSED_FROM ? ">= 716800" : "< 716800");
	json_t *copy = json_copy(status);
	json_object_set_new(copy, "attemptStatus", json_copy(attempt));
	json_object_set_new(json_object_get(copy, "attemptStatus"), "taskRoleStatusesCompressed",
	                    shown);
	return copy;
}

/* ---- long lists in short ---- */

/* Replaces "w-7" and "w/7", for the task 7 of the role w, at the end of a word. */
static json_t *symbols_without_index(const char *text, const char *role, size_t index)
{
	STR_AUTO out = STR_INIT(1 << 20);
	FREE_AUTO char *a = xasprintf("%s-%zu", role, index);
	FREE_AUTO char *b = xasprintf("%s/%zu", role, index);
	size_t n = strlen(a);
	while (*text) {
		bool hit =
		    (strncmp(text, a, n) == 0 || strncmp(text, b, n) == 0) && !is_digit(text[n]);
		if (hit) {
			str_put(&out, text, strlen(role) + 1);
			str_puts(&out, "{i}");
			text += n;
		} else {
			str_char(&out, *text++);
		}
	}
	return json_string(str_c(&out));
}

static json_t *symbols_each(json_t *v, const char *role, size_t index)
{
	const char *key;
	json_t *child;
	if (json_is_string(v))
		return symbols_without_index(json_string_value(v), role, index);
	if (!json_is_object(v))
		return json_deep_copy(v);
	json_t *copy = json_object();
	json_object_foreach (v, key, child)
		json_object_set_new(copy, key,
		                    strcmp(key, "diagnostics") == 0 || strcmp(key, "type") == 0
		                        ? json_deep_copy(child)
		                        : symbols_each(child, role, index));
	if (json_object_get(v, "deletionPending"))
		json_object_set_new(copy, "index", json_string("{i}"));
	return copy;
}

static json_t *symbols_groups(json_t *tasks, const char *role)
{
	json_t *groups = json_array();
	json_t *last = NULL;
	size_t i;
	json_t *task;
	json_array_foreach (tasks, i, task) {
		JSON_AUTO *each = symbols_each(task, role, i);
		if (last && json_equal(json_object_get(last, "each"), each)) {
			json_object_set_new(last, "to", json_integer((json_int_t)i));
			continue;
		}
		last = json_pack("{s:I, s:I, s:O}", "from", (json_int_t)i, "to", (json_int_t)i,
		                 "each", each);
		json_array_append_new(groups, last);
	}
	return groups;
}

static bool symbols_in_short(const json_t *role)
{
	return json_object_get(json_array_get(json_object_get(role, "taskStatuses"), 0), "each");
}

void symbols_shorten(json_t *after, const json_t *like)
{
	const json_t *status = json_object_get(json_object_get(after, "framework"), "status");
	const json_t *status_like = json_object_get(json_object_get(like, "framework"), "status");
	const json_t *roles_like = symbols_roles(status_like);
	size_t i;
	json_t *role;
	json_array_foreach (symbols_roles(status), i, role)
		if (symbols_in_short(json_array_get(roles_like, i)))
			json_object_set_new(role, "taskStatuses",
			                    symbols_groups(json_object_get(role, "taskStatuses"),
			                                   reply_text(role, "name")));
	json_t *pods = json_object_get(after, "pods");
	size_t n = json_array_size(pods);
	if (!json_is_object(json_object_get(like, "pods")) || n == 0)
		return;
	json_t *shown = json_pack("{s:I, s:O, s:O}", "number", (json_int_t)n, "first",
	                          json_array_get(pods, 0), "last", json_array_get(pods, n - 1));
	json_object_set_new(after, "pods", shown);
}

/* ---- JSON patch ---- */

/* Takes the next token of a pointer, without its escapes. */
static char *patch_token(const char **p)
{
	STR_AUTO out = STR_INIT(1 << 16);
	const char *c = *p + 1;
	for (; *c && *c != '/'; c++) {
		if (*c == '~' && (c[1] == '0' || c[1] == '1'))
			str_char(&out, *++c == '0' ? '~' : '/');
		else
			str_char(&out, *c);
	}
	*p = c;
	return str_take(&out);
}

static bool patch_place(const json_t *list, const char *key, size_t *at)
{
	int64_t i;
	*at = json_array_size(list);
	if (strcmp(key, "-") == 0)
		return true;
	if (parse_i64(span_of(key), 0, (int64_t)*at, &i) < 0)
		return false;
	*at = (size_t)i;
	return true;
}

static bool patch_set(json_t *of, const char *key, const char *op, json_t *value)
{
	size_t at;
	bool remove = strcmp(op, "remove") == 0;
	if (strcmp(op, "test") == 0 && json_is_array(of))
		return patch_place(of, key, &at) && json_equal(json_array_get(of, at), value);
	if (strcmp(op, "test") == 0)
		return json_equal(json_object_get(of, key), value);
	if (strcmp(op, "replace") == 0 && json_is_object(of) && !json_object_get(of, key))
		return false;
	if (json_is_object(of))
		return (remove ? json_object_del(of, key) : json_object_set(of, key, value)) == 0;
	if (!json_is_array(of) || !patch_place(of, key, &at))
		return false;
	if (remove)
		return json_array_remove(of, at) == 0;
	return (strcmp(op, "add") == 0 ? json_array_insert(of, at, value)
	                               : json_array_set(of, at, value)) == 0;
}

static bool patch_one(json_t **value, const json_t *operation)
{
	const char *op = reply_text(operation, "op");
	const char *path = reply_text(operation, "path");
	json_t *with = json_object_get(operation, "value");
	bool remove = strcmp(op, "remove") == 0;
	bool known = remove || strcmp(op, "add") == 0 || strcmp(op, "replace") == 0 ||
	             strcmp(op, "test") == 0;
	if (!known || (!remove && !with))
		return false;
	JSON_AUTO *copy = json_deep_copy(with);
	if (!path[0] && !remove) {
		json_decref(*value);
		*value = json_incref(copy);
		return true;
	}
	json_t *at = *value;
	while (path[0] == '/') {
		FREE_AUTO char *key = patch_token(&path);
		size_t place;
		if (!path[0])
			return patch_set(at, key, op, copy);
		if (json_is_array(at))
			at = patch_place(at, key, &place) ? json_array_get(at, place) : NULL;
		else
			at = json_object_get(at, key);
	}
	return false;
}

bool patch_apply(json_t **value, const json_t *patch)
{
	size_t i;
	json_t *operation;
	json_array_foreach (patch, i, operation)
		if (!patch_one(value, operation))
			return false;
	return json_is_array(patch);
}
