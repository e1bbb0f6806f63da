/* Reading what an API server answers; see reply.h. */
#include "k8s/transport/reply.h"

#include <stdio.h>
#include <time.h>

#include "base/chars.h"

enum { DEPTH_MAX = 64, WORD_MAX = 200, FIELDS_MAX = 5 };

/* jansson allows 2048 levels; nothing that Kubernetes has needs more than 64. */
static bool too_deep(struct span text)
{
	size_t depth = 0;
	bool in_text = false;
	for (size_t i = 0; i < text.n; i++) {
		char c = text.p[i];
		if (in_text) {
			if (c == '\\')
				i++;
			else if (c == '"')
				in_text = false;
		} else if (c == '"') {
			in_text = true;
		} else if (c == '{' || c == '[') {
			if (++depth > DEPTH_MAX)
				return true;
		} else if ((c == '}' || c == ']') && depth > 0) {
			depth--;
		}
	}
	return false;
}

json_t *reply_parse(struct span body)
{
	if (too_deep(body))
		return NULL;
	json_t *j = json_loadb(body.p, body.n, JSON_REJECT_DUPLICATES, NULL);
	if (json_is_object(j))
		return j;
	json_decref(j);
	return NULL;
}

const char *reply_text(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));
	return text ? text : "";
}

/* Two digits at p. */
static int two_digits(const char *p)
{
	int64_t n = -1;
	(void)parse_i64((struct span){ p, 2 }, 0, 99, &n);
	return (int)n;
}

/* Which of the words of three letters stands at p; -1: none. */
static int word_at(const char *p, const char *words)
{
	for (const char *word = words; *word != '\0'; word += 3) {
		if (memcmp(p, word, 3) == 0)
			return (int)(word - words) / 3;
	}
	return -1;
}

/* Has the text this form?  In that, 0 stands for a digit, a for anything. */
static bool is_formed(struct span text, const char *form)
{
	if (text.n != strlen(form))
		return false;
	for (size_t i = 0; i < text.n; i++) {
		if (form[i] == '0' ? !is_digit(text.p[i]) : form[i] != 'a' && form[i] != text.p[i])
			return false;
	}
	return true;
}

/* Since 1970; 0 if there is no such day or time, which timegm() would put right. */
static int64_t seconds_of(const struct tm *tm)
{
	struct tm real = *tm;
	int64_t s = timegm(&real);
	bool same = tm->tm_mon == real.tm_mon && tm->tm_mday == real.tm_mday &&
	            tm->tm_hour == real.tm_hour && tm->tm_min == real.tm_min &&
	            tm->tm_sec == real.tm_sec;
	return same && s > 0 ? s : 0;
}

static int year_at(const char *p)
{
	return two_digits(p) * 100 + two_digits(p + 2) - 1900;
}

/* RFC 9110, IMF-fixdate: the one form in which dates are sent. */
int64_t reply_date(struct span text)
{
	const char *p = text.p;
	if (!is_formed(text, "aaa, 00 aaa 0000 00:00:00 GMT"))
		return 0;
	struct tm tm = {
		.tm_mday = two_digits(p + 5),
		.tm_mon = word_at(p + 8, "JanFebMarAprMayJunJulAugSepOctNovDec"),
		.tm_year = year_at(p + 12),
		.tm_hour = two_digits(p + 17),
		.tm_min = two_digits(p + 20),
		.tm_sec = two_digits(p + 23),
	};
	int64_t s = seconds_of(&tm);
	/* 1970 began on a Thursday. */
	return s && word_at(p, "ThuFriSatSunMonTueWed") == s / 86400 % 7 ? s : 0;
}

int64_t reply_time(struct span text)
{
	const char *p = text.p;
	if (!is_formed(text, "0000-00-00T00:00:00Z"))
		return 0;
	struct tm tm = {
		.tm_year = year_at(p),
		.tm_mon = two_digits(p + 5) - 1,
		.tm_mday = two_digits(p + 8),
		.tm_hour = two_digits(p + 11),
		.tm_min = two_digits(p + 14),
		.tm_sec = two_digits(p + 17),
	};
	return seconds_of(&tm);
}

/* A word or a field path, as far as it has nothing else in it. */
static bool is_harmless(const char *text)
{
	size_t n = strlen(text);
	return n > 0 && n <= WORD_MAX &&
	       strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	                    "._-/[]") == n;
}

void reply_digest(struct str *out, const json_t *status)
{
	if (strcmp(reply_text(status, "kind"), "Status") != 0)
		return;
	const char *reason = reply_text(status, "reason");
	str_puts(out, is_harmless(reason) ? reason : "no reason given");
	json_t *causes = json_object_get(json_object_get(status, "details"), "causes");
	size_t named = 0;
	size_t i;
	json_t *cause;
	json_array_foreach (causes, i, cause) {
		const char *field = reply_text(cause, "field");
		if (named == FIELDS_MAX || !is_harmless(field))
			continue;
		str_printf(out, "%s%s", named++ ? ", " : ": ", field);
		reason = reply_text(cause, "reason");
		if (is_harmless(reason))
			str_printf(out, " (%s)", reason);
	}
}

bool reply_has_cause(const json_t *status, const char *reason)
{
	size_t i;
	json_t *cause;
	json_array_foreach (json_object_get(json_object_get(status, "details"), "causes"), i,
	                    cause) {
		if (strcmp(reply_text(cause, "reason"), reason) == 0)
			return true;
	}
	return false;
}

bool reply_is_too_large(const json_t *status)
{
	static const char *const SENTENCES[] = {
		"etcdserver: request is too large",
		"rpc error: code = ResourceExhausted desc = trying to send message larger than "
		"max ",
	};
	struct span message = span_of(reply_text(status, "message"));
	if (strcmp(reply_text(status, "kind"), "Status") != 0)
		return false;
	for (size_t i = 0; i < sizeof(SENTENCES) / sizeof(SENTENCES[0]); i++) {
		if (span_starts(message, SENTENCES[i]))
			return true;
	}
	return false;
}

bool reply_is_not_found(const json_t *status, const char *name)
{
	const json_t *details = json_object_get(status, "details");
	return strcmp(reply_text(status, "kind"), "Status") == 0 &&
	       strcmp(reply_text(status, "reason"), "NotFound") == 0 &&
	       strcmp(reply_text(details, "name"), name) == 0;
}

const char *reply_mark(const json_t *object, const char *mark)
{
	const json_t *meta = json_object_get(object, "metadata");
	char key[64];
	(void)snprintf(key, sizeof(key), "rest-lit/%s", mark);
	const char *text = reply_text(json_object_get(meta, "annotations"), key);
	return text[0] != '\0' ? text : reply_text(json_object_get(meta, "labels"), key);
}

bool reply_is_ours(struct span body, const char *submission_id)
{
	JSON_AUTO *object = reply_parse(body);
	return strcmp(reply_mark(object, "submission"), submission_id) == 0;
}
