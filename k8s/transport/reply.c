/* Reading what an API server answers; see reply.h. */
#include "k8s/transport/reply.h"

#include <stdio.h>
#include <time.h>

#include "base/str.h"

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

const char *result_reason(CURLcode result, int status)
{
	if (result != CURLE_OK)
		return curl_easy_strerror(result);
	switch (status) {
	case 403:
		return "it answered 403 Forbidden";
	case 429:
		return "it answered 429 Too Many Requests";
	case 500:
		return "it answered 500 Internal Server Error";
	case 503:
		return "it answered 503 Service Unavailable";
	default:
		return "its answer could not be understood";
	}
}

/* Errors that the next try will meet again. */
static bool is_permanent(CURLcode result)
{
	switch ((int)result) {
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CACERT_BADFILE:
	case CURLE_SSL_ISSUER_ERROR:
	case CURLE_UNSUPPORTED_PROTOCOL:
	case CURLE_URL_MALFORMAT:
		return true;
	default:
		return false;
	}
}

static long info_of(CURL *easy, CURLINFO what)
{
	long value = 0;
	(void)curl_easy_getinfo(easy, what, &value); /* stays 0 if it is not known */
	return value;
}

int result_retry_after_s(const struct transfer *t)
{
	curl_off_t s = 0;
	(void)curl_easy_getinfo(t->easy, CURLINFO_RETRY_AFTER, &s);
	return s < 0 || s > 3600 ? 3600 : (int)s;
}

bool result_connected(const struct transfer *t)
{
	return info_of(t->easy, CURLINFO_NUM_CONNECTS) > 0;
}

struct exchange result_exchange(const struct transfer *t, CURLcode result, const json_t *answer)
{
	return (struct exchange){
		.complete = result == CURLE_OK,
		.handed_over = transfer_handed_over(t),
		.permanent = is_permanent(result),
		.too_large = t->answer.full || result == CURLE_FILESIZE_EXCEEDED,
		.just_connected = result_connected(t),
		.status = (int)info_of(t->easy, CURLINFO_RESPONSE_CODE),
		.answer = answer,
	};
}

int64_t result_date_s(const struct transfer *t)
{
	struct curl_header *h = NULL;
	if (curl_easy_header(t->easy, "Date", 0, CURLH_HEADER, -1, &h) != CURLHE_OK ||
	    h->amount != 1)
		return 0;
	return reply_date(span_of(h->value));
}

void result_message(struct str *out, const struct transfer *t, CURLcode result,
                    const struct exchange *x)
{
	if (x->too_large)
		str_printf(out, "its answer is larger than %zu bytes", t->answer.max);
	else if (result != CURLE_OK)
		str_puts(out, t->error[0] ? t->error : curl_easy_strerror(result));
	else
		str_printf(out, "HTTP status %d%s", x->status, x->answer ? " " : "");
	if (result == CURLE_OK)
		reply_digest(out, x->answer);
}

enum api_health result_api_health(const struct transfer *t, CURLcode result,
                                  const struct exchange *x)
{
	if (x->complete)
		return x->status == 429 || x->status == 503 ? API_BUSY : API_ANSWERS;
	curl_off_t ready_us = 0;
	(void)curl_easy_getinfo(t->easy, CURLINFO_PRETRANSFER_TIME_T, &ready_us);
	if (x->too_large || x->permanent || result == CURLE_ABORTED_BY_CALLBACK ||
	    (result == CURLE_OPERATION_TIMEDOUT && ready_us > 0))
		return API_UNKNOWN;
	return API_AWAY;
}

/*
 * The rules by which an answer, or the lack of one, is read.
 *
 *	no answer, not all of it sent     not executed: again
 *	no answer, all of it sent         may have been executed; also 500, 502, 504
 *	429, 503                          not executed: again
 *	500, etcd takes no object so      not executed
 *	  large
 *	403, or 404 without a Status,     the API server has just started: again
 *	  soon after connecting
 *	404 with a Status of our name     not there
 *
 * What may have been executed is repeated only if that does no harm.
 */

/* Once or twice is the same: reading, a merge patch of absolute values, and deleting by uid. */
static bool is_idempotent(const struct store_request *r)
{
	switch (r->verb) {
	case STORE_GET:
	case STORE_LIST:
	case STORE_READY:
	case STORE_PATCH:
		return true;
	case STORE_DELETE:
		return r->uid != NULL;
	case STORE_CREATE:
		return false;
	}
	return false;
}

static bool is_reading(const struct store_request *r)
{
	return r->verb == STORE_GET || r->verb == STORE_LIST || r->verb == STORE_READY;
}

static struct reply_class no_answer(const struct store_request *r, const struct exchange *x)
{
	if (x->too_large && is_reading(r))
		return (struct reply_class){ STORE_REFUSED, false };
	if (!x->handed_over || is_reading(r))
		return (struct reply_class){ STORE_BUSY, !x->permanent };
	return (struct reply_class){ STORE_AMBIGUOUS, is_idempotent(r) };
}

static struct reply_class not_found(const struct store_request *r, const struct exchange *x)
{
	bool of_one = r->verb != STORE_CREATE && r->verb != STORE_LIST;
	if (of_one && reply_is_not_found(x->answer, r->name))
		return (struct reply_class){ STORE_NOT_FOUND, false };
	/* A Status names the namespace; else the resource is not served, or not yet. */
	return (struct reply_class){ STORE_REFUSED, x->answer == NULL && x->just_connected };
}

static struct reply_class refused(const struct store_request *r, const struct exchange *x)
{
	switch (x->status) {
	case 403:
		return (struct reply_class){ STORE_REFUSED, x->just_connected };
	case 404:
		return not_found(r, x);
	case 409:
		return (struct reply_class){ r->verb == STORE_CREATE ? STORE_EXISTS
			                                             : STORE_CONFLICT,
			                     false };
	case 429:
		return (struct reply_class){ STORE_BUSY, true };
	default:
		return (struct reply_class){ STORE_REFUSED, false };
	}
}

static struct reply_class failed(const struct store_request *r, const struct exchange *x)
{
	if (x->status == 503)
		return (struct reply_class){ STORE_BUSY, true };
	if (x->status == 500 && reply_is_too_large(x->answer))
		return (struct reply_class){ STORE_REFUSED, false };
	return (struct reply_class){ STORE_AMBIGUOUS, is_idempotent(r) };
}

/* One item that cannot be parsed must not hide the others of a list: that is taken apart by
 * whoever asked for it. */
static bool is_parsed(const struct store_request *r)
{
	return r->verb != STORE_DELETE && r->verb != STORE_LIST;
}

struct reply_class reply_classify(const struct store_request *r, const struct exchange *x)
{
	struct reply_class v = { STORE_OK, false };
	if (!x->complete)
		v = no_answer(r, x);
	else if (x->status >= 500)
		v = failed(r, x);
	else if (x->status < 200 || x->status >= 300)
		v = refused(r, x);
	else if (x->answer == NULL && is_parsed(r))
		v = (struct reply_class){ STORE_AMBIGUOUS,
			                  is_idempotent(r) }; /* no API server says that */
	if (r->verb == STORE_READY) {                         /* asked again soon enough */
		v.again = false;
		if (v.outcome == STORE_NOT_FOUND)
			v.outcome = STORE_OK;
	}
	return v;
}

struct scan {
	const char *p, *end;
};

static bool is_at(struct scan *s, char c)
{
	while (s->p < s->end && strchr(" \t\r\n", *s->p) != NULL && *s->p != '\0')
		s->p++;
	return s->p < s->end && *s->p == c;
}

static bool take(struct scan *s, char c)
{
	bool there = is_at(s, c);
	s->p += there;
	return there;
}

/* Behind the closing quote of the text that begins at p; `end` if it does not end. */
static const char *skip_text(const char *p, const char *end)
{
	for (p++; p < end && *p != '"'; p++) {
		if (*p == '\\' && p + 1 < end)
			p++;
	}
	return p < end ? p + 1 : end;
}

/* Behind the map or list that begins at p.  Whether its brackets match is for the parser. */
static const char *skip_nested(const char *p, const char *end)
{
	size_t depth = 0;
	while (p < end) {
		if (*p == '"') {
			p = skip_text(p, end);
			continue;
		}
		if (*p == '{' || *p == '[')
			depth++;
		else if ((*p == '}' || *p == ']') && --depth == 0)
			return p + 1;
		p++;
	}
	return end;
}

/* One value of any kind; empty if there is none. */
static struct span take_value(struct scan *s)
{
	bool nested = is_at(s, '{') || is_at(s, '[');
	bool text = is_at(s, '"');
	const char *from = s->p;
	if (nested)
		s->p = skip_nested(from, s->end);
	else if (text)
		s->p = skip_text(from, s->end);
	else
		while (s->p < s->end && strchr(",]} \t\r\n", *s->p) == NULL)
			s->p++;
	return (struct span){ from, (size_t)(s->p - from) };
}

static int cut(struct span list, item_callback *each, void *arg)
{
	struct scan s = { list.p, list.p + list.n };
	if (!take(&s, '['))
		return -1;
	if (take(&s, ']'))
		return 0;
	do {
		struct span text = take_value(&s);
		if (text.n == 0)
			return -1;
		JSON_AUTO *item = reply_parse(text);
		if (item != NULL)
			each(arg, item);
	} while (take(&s, ','));
	return take(&s, ']') ? 0 : -1;
}

static void put_continue(struct span metadata, struct str *more)
{
	JSON_AUTO *meta = reply_parse(metadata);
	const char *token = reply_text(meta, "continue");
	if (strlen(token) <= CONTINUE_MAX)
		str_puts(more, token);
}

int items_each(struct span list, item_callback *each, void *arg, struct str *more)
{
	struct scan s = { list.p, list.p + list.n };
	bool is_list = false;
	if (!take(&s, '{'))
		return -1;
	do {
		struct span key = take_value(&s);
		if (!take(&s, ':'))
			return -1;
		struct span value = take_value(&s);
		if (value.n == 0)
			return -1;
		if (span_is(key, "\"items\"")) {
			is_list = true;
			/* null: what Go writes for none */
			if (!span_is(value, "null") && cut(value, each, arg) < 0)
				return -1;
		} else if (span_is(key, "\"metadata\"")) {
			put_continue(value, more);
		}
	} while (take(&s, ','));
	return is_list && take(&s, '}') ? 0 : -1;
}
