#include <stdlib.h>

#include "base/enc.h"
#include "base/regex/regex.h"
#include "base/tree.h"
#include "k8s/framework/framework_internal.h"

enum { FAILURES_MAX = 10000, RESERVED_FROM = 200, RESERVED_TO = 219, RESERVED_BELOW = -999 };

/* The default if it is absent. */
struct config_number {
	int64_t least, absent;
};
static const struct config_number CACHE = { 60, 300 };
static const struct config_number MIN_DELAY = { 0, 60 };
static const struct config_number MAX_DELAY = { 0, 900 };
static const struct config_number RETAIN = { 0, 2592000 }; /* 30 days */

/* A configuration while it is read. */
struct config_reader {
	struct framework_config *c;
	struct err *e;
	bool bad;
};

/* Codes between a container and the controller. */
static const struct builtin {
	int32_t code;
	const char *phrase, *attributes;
	bool transient, conflict, permanent;
} BUILTIN[] = {
	{ 200, "ContainerTransientFailed", "[\"Transient\"]", true, false, false },
	{ 201, "ContainerTransientConflictFailed", "[\"Transient\",\"Conflict\"]", true, true,
	  false },
	{ 210, "ContainerPermanentFailed", "[\"Permanent\"]", false, false, true },
};
enum { BUILTINS = sizeof(BUILTIN) / sizeof(*BUILTIN) };

__attribute__((format(printf, 4, 5))) static void config_bad(struct config_reader *r,
                                                             const struct path *p,
                                                             const struct node *n, const char *fmt,
                                                             ...)
{
	STR_AUTO text = STR_INIT(1024);
	va_list args;
	va_start(args, fmt);
	FREE_AUTO char *says = NULL;
	if (vasprintf(&says, fmt, args) >= 0)
		str_puts(&text, says);
	va_end(args);
	err_at(r->e, INVALID_PARAMETERS, path_place(&r->c->arena, p, n), "%s", str_c(&text));
	r->bad = true;
}

/* The member; NULL if it is absent or null. */
static const struct node *config_get(const struct node *map, const char *key)
{
	const struct node *n = node_get(map, key);
	return n && n->type != NODE_NULL ? n : NULL;
}

/* The member if it has that type; else NULL, and the error unless it is absent. */
static const struct node *config_typed(struct config_reader *r, const struct path *up,
                                       const struct node *map, const char *key, enum node_type type)
{
	static const char *const WANTED[NODE_TYPE_MAX] = {
		[NODE_BOOL] = "true or false", [NODE_INT] = "an integer", [NODE_TEXT] = "text",
		[NODE_LIST] = "a list",        [NODE_MAP] = "a mapping",
	};
	const struct node *n = config_get(map, key);
	if (!n || n->type == type)
		return n;
	struct path p = PATH_KEY(up, span_of(key));
	config_bad(r, &p, n, "must be %s, is %s", WANTED[type], node_type_name(n));
	return NULL;
}

/* An integer from `least` on, of 32 bits; `absent` if there is none. */
static int64_t config_int(struct config_reader *r, const struct path *up, const struct node *map,
                          const char *key, struct config_number n)
{
	const struct node *v = config_typed(r, up, map, key, NODE_INT);
	struct path p = PATH_KEY(up, span_of(key));
	if (!v)
		return n.absent;
	if (v->integer < n.least || v->integer > INT32_MAX)
		config_bad(r, &p, v, "must be from %lld to %lld, is %lld", (long long)n.least,
		           (long long)INT32_MAX, (long long)v->integer);
	return v->integer;
}

static struct regex *config_regex(struct config_reader *r, const struct path *up,
                                  const struct node *map, const char *key)
{
	const struct node *n = config_typed(r, up, map, key, NODE_TEXT);
	if (!n || n->n == 0)
		return NULL;
	ERR_AUTO e = { 0 };
	struct regex *re = regex_compile(node_span(n), &r->c->arena, &e);
	struct path p = PATH_KEY(up, span_of(key));
	if (!re)
		config_bad(r, &p, n, "is no regular expression: %s", err_msg(&e));
	return re;
}

static void config_range(struct config_reader *r, const struct path *up, const struct node *map,
                         const char *key, struct fw_range *out)
{
	const struct node *n = config_typed(r, up, map, key, NODE_MAP);
	struct path p = PATH_KEY(up, span_of(key));
	struct config_number min = { INT32_MIN, INT32_MIN };
	struct config_number max = { INT32_MIN, INT32_MAX };
	*out = (struct fw_range){
		.given = config_get(n, "min") || config_get(n, "max"),
		.min = (int32_t)config_int(r, &p, n, "min", min),
		.max = (int32_t)config_int(r, &p, n, "max", max),
	};
}

static void config_container(struct config_reader *r, const struct path *p, const struct node *n,
                             struct fw_container_pattern *out)
{
	if (n->type != NODE_MAP)
		config_bad(r, p, n, "must be a mapping, is %s", node_type_name(n));
	out->name = config_regex(r, p, n, "nameRegex");
	out->reason = config_regex(r, p, n, "reasonRegex");
	out->message = config_regex(r, p, n, "messageRegex");
	config_range(r, p, n, "signalRange", &out->signal);
	config_range(r, p, n, "codeRange", &out->code);
}

static void config_pattern(struct config_reader *r, const struct path *p, const struct node *n,
                           struct fw_pod_pattern *out)
{
	if (n->type != NODE_MAP)
		config_bad(r, p, n, "must be a mapping, is %s", node_type_name(n));
	out->name = config_regex(r, p, n, "nameRegex");
	out->reason = config_regex(r, p, n, "reasonRegex");
	out->message = config_regex(r, p, n, "messageRegex");
	const struct node *list = config_typed(r, p, n, "containers", NODE_LIST);
	if (!list)
		return;
	out->containers = ARENA_NEW(&r->c->arena, struct fw_container_pattern, list->n);
	out->n_containers = list->n;
	struct path of = PATH_KEY(p, SPAN("containers"));
	for (size_t i = 0; i < list->n; i++) {
		struct path at = PATH_INDEX(&of, i);
		config_container(r, &at, &list->item[i], &out->containers[i]);
	}
}

/* type.attributes as JSON; `null` if there are none. */
static void config_attributes(struct config_reader *r, const struct path *up, const struct node *n,
                              struct fw_failure *out)
{
	out->attributes = "null";
	struct path type = PATH_KEY(up, SPAN("type"));
	const struct node *map = config_typed(r, up, n, "type", NODE_MAP);
	const struct node *list = config_typed(r, &type, map, "attributes", NODE_LIST);
	if (!list)
		return;
	struct path of = PATH_KEY(&type, SPAN("attributes"));
	STR_AUTO json = STR_INIT(1 << 16);
	for (size_t i = 0; i < list->n; i++) {
		const struct node *item = &list->item[i];
		struct path at = PATH_INDEX(&of, i);
		str_char(&json, i ? ',' : '[');
		if (item->type != NODE_TEXT) {
			config_bad(r, &at, item, "must be Transient, Conflict or Permanent, is %s",
			           node_type_name(item));
			continue;
		}
		fw_go_text(&json, item->text);
		out->transient |= span_is(node_span(item), "Transient");
		out->conflict |= span_is(node_span(item), "Conflict");
		out->permanent |= span_is(node_span(item), "Permanent");
	}
	str_puts(&json, list->n ? "]" : "[]");
	out->attributes = arena_dup(&r->c->arena, str_view(&json));
}

static void config_code(struct config_reader *r, const struct path *up, const struct node *n,
                        struct fw_failure *out)
{
	struct path p = PATH_KEY(up, SPAN("code"));
	const struct node *code = config_get(n, "code");
	if (!code)
		config_bad(r, up, n, "needs a code");
	int64_t value = config_int(r, up, n, "code", (struct config_number){ INT32_MIN, 0 });
	out->code = (int32_t)value;
	if (code && code->type == NODE_INT &&
	    ((value <= 0 && value >= RESERVED_BELOW) ||
	     (value >= RESERVED_FROM && value <= RESERVED_TO)))
		config_bad(r, &p, code,
		           "must not be from -999 to 0 or from 200 to 219, which are reserved, "
		           "is %lld",
		           (long long)value);
	for (const struct fw_failure *f = r->c->failures; f < out; f++) {
		if (code && f->code == value) {
			config_bad(r, &p, code, "%lld has an entry already", (long long)value);
			break;
		}
	}
}

static void config_failure(struct config_reader *r, const struct path *p, const struct node *n,
                           struct fw_failure *out)
{
	if (n->type != NODE_MAP) {
		config_bad(r, p, n, "must be a mapping, is %s", node_type_name(n));
		return;
	}
	config_code(r, p, n, out);
	const struct node *phrase = config_typed(r, p, n, "phrase", NODE_TEXT);
	out->phrase = phrase ? phrase->text : "";
	config_attributes(r, p, n, out);
	const struct node *list = config_typed(r, p, n, "podPatterns", NODE_LIST);
	if (!list)
		return;
	out->patterns = ARENA_NEW(&r->c->arena, struct fw_pod_pattern, list->n);
	out->n_patterns = list->n;
	struct path of = PATH_KEY(p, SPAN("podPatterns"));
	for (size_t i = 0; i < list->n; i++) {
		struct path at = PATH_INDEX(&of, i);
		config_pattern(r, &at, &list->item[i], &out->patterns[i]);
	}
}

static void config_builtin(struct config_reader *r, const struct builtin *b, struct fw_failure *out)
{
	struct arena *a = &r->c->arena;
	struct fw_pod_pattern *pattern = ARENA_NEW(a, struct fw_pod_pattern, 1);
	pattern->containers = ARENA_NEW(a, struct fw_container_pattern, 1);
	pattern->n_containers = 1;
	pattern->containers[0] = (struct fw_container_pattern){
		.name = regex_compile(SPAN("(?ms).*"), a, r->e),
		.message = regex_compile(SPAN("(?ms).*"), a, r->e),
		.code = { true, b->code, b->code },
	};
	*out = (struct fw_failure){ b->code,     b->phrase,    b->attributes, b->transient,
		                    b->conflict, b->permanent, pattern,       1 };
}

static void config_failures(struct config_reader *r, const struct node *root)
{
	const struct node *list = config_typed(r, NULL, root, "podFailureSpec", NODE_LIST);
	size_t n = list ? list->n : 0;
	struct path of = PATH_KEY(NULL, SPAN("podFailureSpec"));
	if (n > FAILURES_MAX) {
		config_bad(r, &of, list, "has %zu entries; at most %d are allowed", n,
		           FAILURES_MAX);
		return;
	}
	r->c->failures = ARENA_NEW(&r->c->arena, struct fw_failure, BUILTINS + n);
	for (size_t i = 0; i < BUILTINS; i++)
		config_builtin(r, &BUILTIN[i], &r->c->failures[i]);
	for (size_t i = 0; i < n; i++) {
		struct path at = PATH_INDEX(&of, i);
		config_failure(r, &at, &list->item[i], &r->c->failures[BUILTINS + i]);
	}
	r->c->n_failures = BUILTINS + n;
}

static void config_root(struct config_reader *r, const struct node *root)
{
	struct framework_config *c = r->c;
	if (root->type != NODE_MAP && root->type != NODE_NULL)
		config_bad(r, NULL, root, "the configuration must be a mapping, is %s",
		           node_type_name(root));
	c->cache_timeout_s = config_int(r, NULL, root, "objectLocalCacheCreationTimeoutSec", CACHE);
	c->min_delay_s = config_int(
	    r, NULL, root, "frameworkMinRetryDelaySecForTransientConflictFailed", MIN_DELAY);
	c->max_delay_s = config_int(
	    r, NULL, root, "frameworkMaxRetryDelaySecForTransientConflictFailed", MAX_DELAY);
	c->retain_s = config_int(r, NULL, root, "frameworkCompletedRetainSec", RETAIN);
	if (c->min_delay_s > c->max_delay_s)
		config_bad(r, NULL, root,
		           "frameworkMinRetryDelaySecForTransientConflictFailed must not exceed "
		           "frameworkMaxRetryDelaySecForTransientConflictFailed, is %lld and %lld",
		           (long long)c->min_delay_s, (long long)c->max_delay_s);
	const struct node *compress =
	    config_typed(r, NULL, root, "largeFrameworkCompression", NODE_BOOL);
	c->compress = compress && compress->boolean;
	config_failures(r, root);
}

/* Nothing but white space and comments. */
static bool config_is_empty(struct span yaml)
{
	while (yaml.n > 0) {
		size_t end = span_chr(yaml, '\n');
		struct span line = span_trim(span_to(yaml, end));
		if (line.n && line.p[0] != '#')
			return false;
		yaml = span_from(yaml, end < yaml.n ? end + 1 : end);
	}
	return true;
}

struct framework_config *framework_config_read(struct span yaml, struct err *e)
{
	struct framework_config *c = xcalloc(1, sizeof(*c));
	struct config_reader r = { .c = c, .e = e };
	struct doc doc = { .root = { .type = NODE_NULL } };
	NOTES_AUTO warnings = { 0 };
	struct budget budget = BUDGET_DEFAULT;
	if (!config_is_empty(yaml) && doc_read(yaml, &budget, &c->arena, &doc, &warnings, e) < 0)
		r.bad = true;
	else
		config_root(&r, &doc.root);
	if (r.bad) {
		framework_config_free(c);
		return NULL;
	}
	return c;
}

void framework_config_free(struct framework_config *c)
{
	if (c)
		arena_done(&c->arena);
	free(c);
}
