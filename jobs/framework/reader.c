/* Reads members of untrusted documents with their places, and writes texts as the JSON of Go has
 * them. */
#include <stdlib.h>

#include "base/enc.h"
#include "base/time.h"
#include "jobs/framework/framework_internal.h"

/* ---- values of untrusted documents ---- */

void fw_bad(const struct fw_value *v, const char *fmt, ...)
{
	struct fw_reader *r = v->r;
	STR_AUTO says = STR_INIT(AT_MAX);
	va_list args;
	va_start(args, fmt);
	FREE_AUTO char *text = NULL;
	if (vasprintf(&text, fmt, args) >= 0)
		str_puts(&says, text);
	va_end(args);
	struct place at = path_place(r->arena, fw_path(v), v->n);
	if (!r->what)
		err_at(r->e, INVALID_PARAMETERS, at, "%s", str_c(&says));
	else if (!r->bad)
		err_set(r->e, INVALID_PARAMETERS, "%s: %s%s%s", r->what, at.at ? at.at : "",
		        at.at && at.at[0] ? " " : "", str_c(&says));
	r->bad = true;
}

static struct fw_value reader_check(struct fw_value v, enum node_type type, bool needed)
{
	static const char *const WANTED[NODE_TYPE_MAX] = {
		[NODE_BOOL] = "true or false", [NODE_INT] = "an integer", [NODE_TEXT] = "text",
		[NODE_LIST] = "a list",        [NODE_MAP] = "a mapping",
	};
	if (v.n && v.n->type == NODE_NULL)
		v.n = NULL;
	if (v.n ? v.n->type != type : needed) {
		fw_bad(&v, "must be %s, is %s", WANTED[type], v.n ? node_type_name(v.n) : "absent");
		v.n = NULL;
	}
	return v;
}

struct fw_value fw_parse(const struct fw_value *of, const char *key, struct span json,
                         enum node_type type)
{
	struct fw_value v = { of->r, PATH_KEY(fw_path(of), span_of(key)), NULL };
	struct doc *doc = ARENA_NEW(of->r->arena, struct doc, 1);
	ERR_AUTO e = { 0 };
	if (json.p && json_read(json, &FW_BUDGET, of->r->arena, doc, NULL, &e) < 0)
		fw_bad(&v, "is not JSON: %s", err_msg(&e));
	else
		v.n = &doc->root;
	return reader_check(v, type, true);
}

struct fw_value fw_get(const struct fw_value *of, const char *key, enum node_type type, bool needed)
{
	struct fw_value v = { of->r, PATH_KEY(fw_path(of), span_of(key)), node_get(of->n, key) };
	return reader_check(v, type, needed);
}

struct fw_value fw_item(const struct fw_value *list, size_t i, enum node_type type)
{
	struct fw_value v = { list->r, PATH_INDEX(fw_path(list), i), &list->n->item[i] };
	return reader_check(v, type, true);
}

const char *fw_text(const struct fw_value *of, const char *key, bool needed)
{
	struct fw_value v = fw_get(of, key, NODE_TEXT, needed);
	return v.n ? v.n->text : NULL;
}

bool fw_bool(const struct fw_value *of, const char *key)
{
	struct fw_value v = fw_get(of, key, NODE_BOOL, false);
	return v.n && v.n->boolean;
}

int64_t fw_int(const struct fw_value *of, const char *key, struct fw_bounds b)
{
	bool needed = b.absent == FW_NEEDED;
	struct fw_value v = fw_get(of, key, NODE_INT, needed);
	if (!v.n)
		return needed ? b.least : b.absent;
	if (v.n->integer >= b.least && v.n->integer <= b.most)
		return v.n->integer;
	fw_bad(&v, "must be from %lld to %lld, is %lld", (long long)b.least, (long long)b.most,
	       (long long)v.n->integer);
	return b.least;
}

int64_t fw_time(const struct fw_value *of, const char *key, bool needed)
{
	struct fw_value v = fw_get(of, key, NODE_TEXT, needed);
	if (!v.n)
		return FW_NO_TIME;
	int64_t ms = 0;
	if (!rfc3339_read(node_span(v.n), &ms))
		fw_bad(&v, "must be a time as in 2006-01-02T15:04:05Z");
	return ms / 1000;
}

const char *fw_attributes(const struct fw_value *type)
{
	struct fw_value list = fw_get(type, "attributes", NODE_LIST, false);
	if (!list.n)
		return "null";
	STR_AUTO json = STR_INIT(FRAMEWORK_OBJECT_MAX);
	str_char(&json, '[');
	for (size_t i = 0; i < list.n->n; i++) {
		struct fw_value item = fw_item(&list, i, NODE_TEXT);
		fw_put_text_member(&json, NULL, item.n ? item.n->text : "");
	}
	str_char(&json, ']');
	return arena_dup(type->r->arena, str_view(&json));
}

const char *fw_name(const struct fw_value *of)
{
	const char *name = fw_text(of, "name", true);
	struct fw_value v = { of->r, PATH_KEY(fw_path(of), SPAN("name")), NULL };
	size_t n = 0;
	while (name && is_lower_alnum(name[n]))
		n++;
	if (name && (n == 0 || n > FW_LABEL_MAX || name[n]))
		fw_bad(&v, "must be from 1 to %d lower-case letters and digits", FW_LABEL_MAX);
	return name;
}

/* ---- JSON as Go writes it ---- */

void fw_put_text(struct str *out, const char *text)
{
	const unsigned char *p = (const unsigned char *)text;
	size_t n = strlen(text);
	str_char(out, '"');
	while (n > 0) {
		unsigned width;
		uint32_t c = utf8_decode(p, n, &width);
		if (c == '"' || c == '\\')
			str_printf(out, "\\%c", (char)c);
		else if (c == '\n')
			str_puts(out, "\\n");
		else if (c == '\r')
			str_puts(out, "\\r");
		else if (c == '\t')
			str_puts(out, "\\t");
		else if (c < ' ' || c == '<' || c == '>' || c == '&' || c == 0x2028 ||
		         c == 0x2029 || (c == UTF8_INVALID && width == 1))
			str_printf(out, "\\u%04x", c);
		else
			str_put(out, (const char *)p, width);
		p += width;
		n -= width;
	}
	str_char(out, '"');
}

void fw_put_text_member(struct str *out, const char *key, const char *text)
{
	json_put_key(out, key);
	fw_put_text(out, text);
}

void fw_put_member_if_set(struct str *out, const char *key, const char *text)
{
	if (text && text[0])
		fw_put_text_member(out, key, text);
}
