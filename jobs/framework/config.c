/* Reads frameworkcontroller.yaml: the delays, and the patterns by which a failed pod gets a code.
 * */
#include <stdlib.h>

#include "base/regex/regex.h"
#include "jobs/framework/framework_internal.h"

enum { FAILURES_MAX = 10000, RESERVED_FROM = 200, RESERVED_TO = 219, RESERVED_BELOW = -999 };

/* Codes between a container and the controller, as they would stand in podFailureSpec. */
static const char BUILTIN[] =
    "- {code: 200, phrase: ContainerTransientFailed, type: {attributes: [Transient]},\n"
    "   podPatterns: [{containers: [{nameRegex: '(?ms).*', messageRegex: '(?ms).*',\n"
    "   codeRange: {min: 200, max: 200}}]}]}\n"
    "- {code: 201, phrase: ContainerTransientConflictFailed,\n"
    "   type: {attributes: [Transient, Conflict]},\n"
    "   podPatterns: [{containers: [{nameRegex: '(?ms).*', messageRegex: '(?ms).*',\n"
    "   codeRange: {min: 201, max: 201}}]}]}\n"
    "- {code: 210, phrase: ContainerPermanentFailed, type: {attributes: [Permanent]},\n"
    "   podPatterns: [{containers: [{nameRegex: '(?ms).*', messageRegex: '(?ms).*',\n"
    "   codeRange: {min: 210, max: 210}}]}]}\n";

static struct regex *config_regex(const struct fw_value *of, const char *key)
{
	struct fw_value v = fw_get(of, key, NODE_TEXT, false);
	if (!v.n || v.n->n == 0)
		return NULL;
	ERR_AUTO e = { 0 };
	struct regex *re = regex_compile(node_span(v.n), v.r->arena, &e);
	if (!re)
		fw_bad(&v, "is no regular expression: %s", err_msg(&e));
	return re;
}

static struct fw_range config_range(const struct fw_value *of, const char *key)
{
	struct fw_value v = fw_get(of, key, NODE_MAP, false);
	return (struct fw_range){
		fw_int(&v, "min", (struct fw_bounds){ INT32_MIN, INT32_MAX, FW_RANGE_ALL.min }),
		fw_int(&v, "max", (struct fw_bounds){ INT32_MIN, INT32_MAX, FW_RANGE_ALL.max }),
	};
}

/* A list of patterns: of pods, or of containers in one of a pod. */
static struct fw_pattern *config_patterns(const struct fw_value *of, const char *key, bool pods,
                                          size_t *n)
{
	struct fw_value list = fw_get(of, key, NODE_LIST, false);
	*n = list.n ? list.n->n : 0;
	struct fw_pattern *v = ARENA_NEW(of->r->arena, struct fw_pattern, *n);
	for (size_t i = 0; i < *n; i++) {
		struct fw_value item = fw_item(&list, i, NODE_MAP);
		v[i].name = config_regex(&item, "nameRegex");
		v[i].reason = config_regex(&item, "reasonRegex");
		v[i].message = config_regex(&item, "messageRegex");
		if (pods) {
			v[i].containers = config_patterns(&item, "containers", false, &v[i].n);
		} else {
			v[i].signal = config_range(&item, "signalRange");
			v[i].code = config_range(&item, "codeRange");
		}
	}
	return v;
}

static void config_failure(const struct framework_config *c, const struct fw_value *v, bool builtin,
                           struct fw_failure *out)
{
	struct fw_value type = fw_get(v, "type", NODE_MAP, false);
	struct fw_value code = fw_get(v, "code", NODE_INT, true);
	const char *phrase = fw_text(v, "phrase", false);
	int64_t n = code.n ? fw_int(v, "code", (struct fw_bounds){ INT32_MIN, INT32_MAX, 0 }) : 0;
	bool reserved = (n <= 0 && n >= RESERVED_BELOW) || (n >= RESERVED_FROM && n <= RESERVED_TO);
	if (code.n && reserved && !builtin)
		fw_bad(&code,
		       "must not be from -999 to 0 or from 200 to 219, which are reserved, is %lld",
		       (long long)n);
	for (const struct fw_failure *f = c->failures; code.n && !reserved && f < out; f++) {
		if (f->code == n) {
			fw_bad(&code, "%lld has an entry already", (long long)n);
			break;
		}
	}
	*out = (struct fw_failure){ .code = (int32_t)n,
		                    .phrase = phrase ? phrase : "",
		                    .attributes = fw_attributes(&type) };
	out->patterns = config_patterns(v, "podPatterns", true, &out->n);
}

static void config_failures(struct framework_config *c, const struct fw_value *builtin,
                            const struct fw_value *root)
{
	struct fw_value list = fw_get(root, "podFailureSpec", NODE_LIST, false);
	size_t own = builtin->n->n;
	size_t n = list.n ? list.n->n : 0;
	if (n > FAILURES_MAX) {
		fw_bad(&list, "has %zu entries; at most %d are allowed", n, FAILURES_MAX);
		return;
	}
	c->n_failures = own + n;
	c->failures = ARENA_NEW(&c->arena, struct fw_failure, c->n_failures);
	for (size_t i = 0; i < c->n_failures; i++) {
		struct fw_value item =
		    i < own ? fw_item(builtin, i, NODE_MAP) : fw_item(&list, i - own, NODE_MAP);
		if (item.n)
			config_failure(c, &item, i < own, &c->failures[i]);
	}
}

const char *const FRAMEWORK_CONFIG_KEYS[] = {
	"objectLocalCacheCreationTimeoutSec",
	"frameworkMinRetryDelaySecForTransientConflictFailed",
	"frameworkMaxRetryDelaySecForTransientConflictFailed",
	"frameworkCompletedRetainSec",
	"largeFrameworkCompression",
	"maxAlikeAttempts",
	"podFailureSpec",
	NULL,
};

/* A number from `least` on, of 32 bits. */
static int64_t config_int(const struct fw_value *root, const char *key, int64_t least,
                          int64_t absent)
{
	return fw_int(root, key, (struct fw_bounds){ least, INT32_MAX, absent });
}

static void config_root(struct framework_config *c, const struct fw_value *builtin,
                        const struct fw_value *root)
{
	static const char MIN[] = "frameworkMinRetryDelaySecForTransientConflictFailed";
	static const char MAX[] = "frameworkMaxRetryDelaySecForTransientConflictFailed";
	enum { DAYS_30_S = 30 * 24 * 3600 };
	if (root->n->type != NODE_MAP && root->n->type != NODE_NULL)
		fw_bad(root, "the configuration must be a mapping, is %s", node_type_name(root->n));
	c->cache_timeout_s = config_int(root, "objectLocalCacheCreationTimeoutSec", 60, 300);
	c->min_delay_s = config_int(root, MIN, 0, 60);
	c->max_delay_s = config_int(root, MAX, 0, 900);
	c->retain_s = config_int(root, "frameworkCompletedRetainSec", 0, DAYS_30_S);
	if (c->min_delay_s > c->max_delay_s)
		fw_bad(root, "%s must not exceed %s, is %lld and %lld", MIN, MAX,
		       (long long)c->min_delay_s, (long long)c->max_delay_s);
	c->compress = fw_bool(root, "largeFrameworkCompression");
	c->alike_max = config_int(root, "maxAlikeAttempts", 0, 0);
	config_failures(c, builtin, root);
}

/* Returns true if there is nothing but white space and comments. */
static bool framework_config_is_empty(struct span yaml)
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
	struct fw_reader r = { .arena = &c->arena, .e = e };
	struct doc builtin;
	struct doc doc = { .root = { .type = NODE_NULL } };
	NOTES_AUTO warnings = { 0 };
	const struct budget *b = &BUDGET_DEFAULT;
	if (doc_read(SPAN(BUILTIN), b, &c->arena, &builtin, &warnings, e) < 0 ||
	    (!framework_config_is_empty(yaml) &&
	     doc_read(yaml, b, &c->arena, &doc, &warnings, e) < 0))
		r.bad = true;
	else
		config_root(c, &(struct fw_value){ .r = &r, .n = &builtin.root },
		            &(struct fw_value){ .r = &r, .n = &doc.root });
	if (!r.bad)
		return c;
	framework_config_free(c);
	return NULL;
}

int64_t framework_config_retain_s(const struct framework_config *c)
{
	return c->retain_s;
}

void framework_config_set_once(struct framework_config *c)
{
	c->once = true;
}

void framework_config_keep_last(struct framework_config *c, int64_t alike)
{
	c->keeps_last = true;
	c->alike_max = c->alike_max ?: alike;
}

void framework_config_free(struct framework_config *c)
{
	if (c)
		arena_done(&c->arena);
	free(c);
}
