/* Tags: those of js-yaml's safe schema that jobs can mean something by; see yaml.c. */
#include "base/yaml_plain.h"
#include "base/yaml_reader.h"

#define CORE "tag:yaml.org,2002:"

static bool tag_is(const char *tag, const char *name)
{
	size_t n = strlen(CORE);
	return strncmp(tag, CORE, n) == 0 && strcmp(tag + n, name) == 0;
}

static struct place here(struct yaml_reader *y, const yaml_event_t *ev)
{
	return build_place(&y->b, mark_line(&ev->start_mark), mark_column(&ev->start_mark));
}

static int unknown_tag(struct yaml_reader *y, const yaml_event_t *ev, const char *tag)
{
	char buf[4 * QUOTE_MAX];
	/* A password that begins with `!` is a tag, too. */
	if (build_sensitive(&y->b)) {
		return err_at(y->b.e, INVALID_PROTOCOL, here(y, ev),
		              "this tag is not supported (text that begins with `!` needs quotes)");
	}
	if (strncmp(tag, CORE, strlen(CORE)) == 0) {
		return err_at(y->b.e, INVALID_PROTOCOL, here(y, ev),
		              "the tag `!!%s` is not supported",
		              quote(buf, span_of(tag + strlen(CORE))));
	}
	return err_at(y->b.e, INVALID_PROTOCOL, here(y, ev),
	              "unknown tag `%s` (text that begins with `!` needs quotes)",
	              quote(buf, span_of(tag)));
}

static bool tagged_date(struct node *n, struct span t)
{
	(void)n; /* the caller has put the text there */
	return plain_is_date(t);
}

/* clang-format off */
static const struct scalar_tag {
	const char *name;
	bool (*resolve)(struct node *n, struct span t);
	const char *what;
} TAGS[] = {
	{ "int",       plain_int,   "an integer" },
	{ "float",     plain_float, "a number" },
	{ "bool",      plain_bool,  "true or false" },
	{ "null",      plain_null,  "null" },
	{ "timestamp", tagged_date, "a date" },
};
/* clang-format on */

int yaml_tagged(struct yaml_reader *y, const yaml_event_t *ev, const char *tag, struct node *n)
{
	struct span t = { (const char *)ev->data.scalar.value, ev->data.scalar.length };
	bool plain = ev->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
	n->type = NODE_TEXT;
	n->text = arena_dup(y->b.arena, t);
	n->n = (uint32_t)t.n;
	if (tag == NULL && t.n == 0 && plain)
		n->type = NODE_NULL; /* `k: !`, as js-yaml has it */
	if (tag == NULL || tag_is(tag, "str"))
		return 0;
	for (size_t i = 0; i < sizeof(TAGS) / sizeof(TAGS[0]); i++) {
		if (!tag_is(tag, TAGS[i].name))
			continue;
		/* Empty text is null only where nothing is written at all. */
		if ((t.n == 0 && !plain) || !TAGS[i].resolve(n, t)) {
			return err_at(y->b.e, INVALID_PROTOCOL, here(y, ev),
			              "the tag `!!%s` says so, but this is not %s", TAGS[i].name,
			              TAGS[i].what);
		}
		if (tagged_date == TAGS[i].resolve)
			n->type = NODE_DATE;
		else
			n->n = 0;
		return 0;
	}
	return unknown_tag(y, ev, tag);
}

int yaml_collection_tag(struct yaml_reader *y, const yaml_event_t *ev)
{
	bool map = ev->type == YAML_MAPPING_START_EVENT;
	const char *tag =
	    (const char *)(map ? ev->data.mapping_start.tag : ev->data.sequence_start.tag);
	if (tag == NULL || strcmp(tag, "!") == 0 || tag_is(tag, map ? "map" : "seq"))
		return 0;
	return unknown_tag(y, ev, tag);
}
