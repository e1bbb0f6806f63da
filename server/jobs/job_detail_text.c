/* Members of an answer, out of values that may be anything. */
#include "base/chars.h"
#include "server/jobs/job_detail.h"

void show_null(struct shower *w, const char *key)
{
	str_puts(w->out, key);
	str_put(w->out, "null", 4);
}

void show_word(struct shower *w, const char *key, const char *text)
{
	str_puts(w->out, key);
	str_json(w->out, span_of(text));
}

/* Without escapes it is shown as it lies. */
void show_text(struct shower *w, const char *key, struct span value)
{
	struct span text;
	str_puts(w->out, key);
	if (scan_type(value) == SCAN_STRING && !memchr(value.p, '\\', value.n))
		str_span(w->out, value);
	else if (scan_string(value, w->a, &text))
		str_json(w->out, text);
	else
		str_put(w->out, "null", 4);
}

void show_number(struct shower *w, const char *key, int64_t n)
{
	str_puts(w->out, key);
	str_int(w->out, n);
}

void show_int(struct shower *w, const char *key, struct span value)
{
	int64_t n;
	if (scan_int(value, INT32_MIN, INT32_MAX, &n))
		show_number(w, key, n);
	else
		show_null(w, key);
}

void show_ms(struct shower *w, const char *key, int64_t ms)
{
	if (ms == CACHED_NONE)
		show_null(w, key);
	else
		show_number(w, key, ms);
}

void show_time(struct shower *w, const char *key, struct span value)
{
	int64_t ms;
	if (scan_time_ms(value, &ms))
		show_number(w, key, ms);
	else
		show_null(w, key);
}

void show_either(struct shower *w, const char *key, struct span first, struct span second)
{
	int64_t ms;
	show_time(w, key, scan_time_ms(first, &ms) ? first : second);
}

void show_segment(struct str *out, struct span text)
{
	static const char HEX[] = "0123456789ABCDEF";
	for (size_t i = 0; i < text.n; i++) {
		unsigned char c = (unsigned char)text.p[i];
		if (is_alnum((char)c) || (c && strchr("-._~", c))) {
			str_char(out, (char)c);
			continue;
		}
		str_char(out, '%');
		str_char(out, HEX[c >> 4]);
		str_char(out, HEX[c & 15]);
	}
}
