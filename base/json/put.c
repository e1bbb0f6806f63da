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

/* Curves have many of them, for which printf takes too long. */
void json_put_figure(struct str *out, const char *key, double v)
{
	static const double MOST = 9e14; /* of int64_t, with four decimals */
	char digits[] = ".0000";
	json_put_key(out, key);
	if (!(v >= 0)) {
		str_puts(out, "null");
		return;
	}
	int64_t n = (int64_t)((v < MOST ? v : MOST) * 10000 + 0.5);
	int64_t rest = n % 10000;
	str_int(out, n / 10000);
	for (size_t i = 4; i > 0; i--, rest /= 10)
		digits[i] = (char)('0' + rest % 10);
	size_t length = 5;
	while (digits[length - 1] == '0')
		length--;
	str_put(out, digits, length > 1 ? length : 0);
}

void json_put_bool(struct str *out, const char *key, bool value)
{
	json_put_raw(out, key, value ? SPAN("true") : SPAN("false"));
}

void json_put_null(struct str *out, const char *key)
{
	json_put_raw(out, key, (struct span){ 0 });
}
