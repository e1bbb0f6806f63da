/* Which reader reads a job document, and what no reader may see; see tree.h. */
#include <assert.h>

#include "base/build.h"
#include "base/enc.h"
#include "base/json/json.h"
#include "base/yaml/yaml.h"

/* Why the bytes at the offset are no character of UTF-8. */
static const char *utf8_fault(struct span text, size_t offset)
{
	const unsigned char *p = (const unsigned char *)text.p + offset;
	size_t left = text.n - offset;
	bool mark = left >= 2 && ((p[0] == 0xfe && p[1] == 0xff) || (p[0] == 0xff && p[1] == 0xfe));
	if (offset == 0 && mark)
		return "this is UTF-16; a job must be UTF-8";
	if (p[0] == 0xc0 || p[0] == 0xc1 ||
	    (left >= 2 && ((p[0] == 0xe0 && p[1] >= 0x80 && p[1] < 0xa0) ||
	                   (p[0] == 0xf0 && p[1] >= 0x80 && p[1] < 0x90))))
		return "invalid UTF-8 (overlong form of a character)";
	if (left >= 2 && p[0] == 0xed && p[1] >= 0xa0 && p[1] < 0xc0)
		return "invalid UTF-8 (half of a surrogate pair)";
	size_t want = p[0] >= 0xf0 && p[0] < 0xf8 ? 4 : p[0] >= 0xe0 ? 3 : 2;
	if (p[0] >= 0xc2 && p[0] < 0xf5) {
		size_t have = 1;
		while (have < want && have < left && (p[have] & 0xc0) == 0x80)
			have++;
		if (have < want)
			return "invalid UTF-8 (truncated character)";
	}
	return "invalid UTF-8";
}

static int check_bytes(struct span text, struct err *e)
{
	const char *nul = text.n ? memchr(text.p, '\0', text.n) : NULL;
	size_t bad = utf8_check(text);
	if (nul && (size_t)(nul - text.p) <= bad) {
		size_t at = (size_t)(nul - text.p);
		bool wide = at < 2; /* every other byte of UTF-16 is 0 */
		return err_at(e, INVALID_PROTOCOL, text_place(text, at),
		              "control character U+0000 (NUL) is not allowed%s",
		              wide ? " (is this UTF-16? a job must be UTF-8)" : "");
	}
	if (bad < text.n) {
		return err_at(e, INVALID_PROTOCOL, text_place(text, bad), "%s at byte %zu",
		              utf8_fault(text, bad), bad);
	}
	return 0;
}

static struct span skip_mark(struct span t)
{
	return span_starts(t, "\xef\xbb\xbf") ? (struct span){ t.p + 3, t.n - 3 } : t;
}

/* The first byte that is neither white space nor in a comment of JSON is a brace. */
static bool looks_like_json(struct span t)
{
	const char *p = t.p;
	const char *end = t.p + t.n;
	while (p < end && *p != '{') {
		const char *close = NULL;
		if (end - p >= 2 && memcmp(p, "/*", 2) == 0)
			close = memmem(p + 2, (size_t)(end - p - 2), "*/", 2);
		else if (end - p >= 2 && memcmp(p, "//", 2) == 0)
			close = memchr(p, '\n', (size_t)(end - p));
		else if (!strchr(" \t\r\n", *p))
			return false;
		if (*p == '/' && close == NULL)
			return false;
		p = close ? close + (*close == '*' ? 2 : 1) : p + 1;
	}
	return p < end;
}

/* The parameters are those of the door.  NOLINTNEXTLINE(readability-function-size) */
int doc_read(struct span text, const struct budget *b, struct arena *a, struct doc *doc,
             struct notes *warnings, struct err *e)
{
	assert(text.n < UINT32_MAX); /* callers cap what they take */
	text = skip_mark(text);
	if (check_bytes(text, e) < 0)
		return -1;
	if (!looks_like_json(text))
		return yaml_read(text, b, a, doc, warnings, e);
	bool no_json = false;
	bool no_yaml = true;
	ERR_AUTO json = { 0 };
	if (json_read(text, b, a, doc, warnings, &no_json, &json) == 0)
		return 0;
	ERR_AUTO yaml = { 0 };
	NOTES_AUTO yaml_warnings = { 0 };
	if (no_json && yaml_try(text, b, a, doc, &yaml_warnings, &no_yaml, &yaml) == 0) {
		notes_move(warnings, &yaml_warnings);
		return 0;
	}
	/* Neither: what begins with a brace was most likely meant to be JSON. */
	err_move(e, no_yaml ? &json : &yaml);
	return -1;
}
