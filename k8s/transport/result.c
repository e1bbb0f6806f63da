/* Reading a finished transfer; see result.h. */
#include "k8s/transport/result.h"

#include "k8s/transport/reply.h"

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

enum weather result_weather(const struct transfer *t, CURLcode result, const struct exchange *x)
{
	if (x->complete)
		return x->status == 429 || x->status == 503 ? WEATHER_BUSY : WEATHER_FINE;
	curl_off_t ready_us = 0;
	(void)curl_easy_getinfo(t->easy, CURLINFO_PRETRANSFER_TIME_T, &ready_us);
	if (x->too_large || x->permanent || result == CURLE_ABORTED_BY_CALLBACK ||
	    (result == CURLE_OPERATION_TIMEDOUT && ready_us > 0))
		return WEATHER_UNKNOWN;
	return WEATHER_AWAY;
}
