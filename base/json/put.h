#pragma once
/*
 * JSON is written into a struct str, in one pass.  Each function appends a member, or an item if
 * key is NULL, with a comma in front where one is due: not at the start, nor after one of {[:,
 *
 *	json_put_open(out, NULL, '{');
 *	json_put_text(out, "name", SPAN("a"));
 *	json_put_open(out, "tasks", '[');
 *	json_put_int(out, NULL, 1);
 *	json_put_int(out, NULL, 2);
 *	str_puts(out, "]}");                  {"name":"a","tasks":[1,2]}
 *
 * A key is written as it is, without escapes.
 *
 * Thread: any
 */
#include "base/str.h"

static inline void json_put_key(struct str *out, const char *key)
{
	size_t n = key ? strlen(key) : 0;
	if (!str_reserve(out, n + 4))
		return;
	char *p = out->p + out->n;
	char last = out->n ? p[-1] : '[';
	if (last != '{' && last != '[' && last != ':' && last != ',')
		*p++ = ',';
	if (key) {
		*p++ = '"';
		bytes_copy(p, key, n);
		p = (char *)memcpy(p + n, "\":", 2) + 2;
	}
	*p = '\0';
	out->n = (size_t)(p - out->p);
}

void json_put_open(struct str *out, const char *key, char bracket);
/* NULL, or p == NULL: null.  The text must be UTF-8. */
void json_put_word(struct str *out, const char *key, const char *text);
void json_put_text(struct str *out, const char *key, struct span text);
/* A value that is JSON already; p == NULL: null. */
void json_put_raw(struct str *out, const char *key, struct span json);
void json_put_int(struct str *out, const char *key, int64_t n);
/* null unless it is known. */
void json_put_known(struct str *out, const char *key, bool known, int64_t n);
/* Rounded to four decimals; null below 0, which is unknown. */
void json_put_figure(struct str *out, const char *key, double v);
void json_put_bool(struct str *out, const char *key, bool value);
void json_put_null(struct str *out, const char *key);
