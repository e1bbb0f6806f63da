/* What marks of a Framework say of its job: annotations, and what the first rest-lit left. */
#include "base/enc.h"
#include "base/json/scan.h"
#include "base/tree.h"
#include "k8s/cache/cached.h"
#include "k8s/cache/cached_parts.h"

bool cached_tag_ok(struct span t)
{
	return t.n > 0 && t.n <= CACHED_TAG_MAX && utf8_plain(t);
}

struct span cached_tags(struct span annotation, struct arena *a)
{
	enum { TAGS_TEXT_MAX = 16384 };
	const struct span none = SPAN("[]");
	struct span text = scan_text(annotation, a);
	if (text.n > TAGS_TEXT_MAX || !scan_valid(text, 1) || scan_type(text) != SCAN_ARRAY ||
	    scan_count(text) > CACHED_TAGS_MAX)
		return none;
	STR_AUTO out = STR_INIT(TAGS_TEXT_MAX);
	struct scan s = scan_begin(text);
	struct span item;
	struct span tag;
	str_char(&out, '[');
	while (scan_item(&s, &item)) {
		if (!scan_string(item, a, &tag) || !cached_tag_ok(tag))
			return none;
		if (out.n > 1)
			str_char(&out, ',');
		str_json(&out, tag);
	}
	str_char(&out, ']');
	return arena_span(a, str_view(&out));
}

struct span cached_priority(struct span config, struct arena *a)
{
	enum { PRIORITY_MAX = 32 };
	static const char WORD[] = "jobPriorityClass";
	const struct budget budget = { .depth = 32, .nodes = 20000, .text = 1u << 20, .key = 1024 };
	if (!config.n || !memmem(config.p, config.n, WORD, sizeof(WORD) - 1))
		return SPAN("");
	struct span text = scan_text(config, a);
	struct doc doc;
	NOTES_AUTO warnings = { 0 };
	ERR_AUTO e = { 0 };
	if (doc_read(text, &budget, a, &doc, &warnings, &e) < 0)
		return SPAN("");
	const struct node *extras = node_get(&doc.root, "extras");
	const struct node *hived = extras ? node_get(extras, "hivedScheduler") : NULL;
	const struct node *priority = hived ? node_get(hived, WORD) : NULL;
	bool good = node_is(priority, NODE_TEXT) && priority->n <= PRIORITY_MAX;
	return good ? node_span(priority) : SPAN("");
}

struct span cached_maker(struct span object, struct arena *a)
{
	struct scan roles = scan_begin(scan_path(object, "spec", "taskRoles"));
	struct span role = { NULL, 0 };
	struct span container = { NULL, 0 };
	struct span variable;
	struct span maker = SPAN("");
	(void)scan_item(&roles, &role); /* none is empty */
	struct scan containers = scan_begin(scan_path(role, "task", "pod", "spec", "containers"));
	(void)scan_item(&containers, &container);
	struct scan env = scan_begin(scan_get(container, "env"));
	while (scan_item(&env, &variable)) {
		if (span_is(scan_text(scan_get(variable, "name"), a), "PAI_USER_NAME"))
			maker = scan_text(scan_get(variable, "value"), a);
	}
	return maker;
}
