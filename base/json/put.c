#include "base/json/put.h"

void json_put_open(struct str *out, const char *key, char bracket)
{
	json_put_key(out, key);
	str_char(out, bracket);
}

void json_put_word(struct str *out, const char *key, const char *text)
{
	json_put_text(out, key, text ? span_of(text) : (struct span){ 0 });
}

void json_put_text(struct str *out, const char *key, struct span text)
{
	json_put_key(out, key);
	if (text.p)
		str_json(out, text);
	else
		str_put(out, "null", 4);
}

void json_put_raw(struct str *out, const char *key, struct span json)
{
	json_put_key(out, key);
	str_span(out, json.p ? json : SPAN("null"));
}

void json_put_int(struct str *out, const char *key, int64_t n)
{
	json_put_key(out, key);
	str_int(out, n);
}

void json_put_known(struct str *out, const char *key, bool known, int64_t n)
{
	if (known)
		json_put_int(out, key, n);
	else
		json_put_null(out, key);
}

void json_put_bool(struct str *out, const char *key, bool value)
{
	json_put_raw(out, key, value ? SPAN("true") : SPAN("false"));
}

void json_put_null(struct str *out, const char *key)
{
	json_put_raw(out, key, (struct span){ 0 });
}
