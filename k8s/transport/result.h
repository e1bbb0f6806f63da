#pragma once
/* What libcurl and the answer say about a transfer that has ended.  Private to k8s/. */
#include "k8s/transport/recovery.h"
#include "k8s/transport/transfer.h"
#include "k8s/transport/verdict.h"

/* `just_connected` says only that a connection was made for this. */
struct exchange result_exchange(const struct transfer *t, CURLcode result, const json_t *answer);
bool result_connected(const struct transfer *t);

/* How it went, as far as that concerns other requests. */
enum weather result_weather(const struct transfer *t, CURLcode result, const struct exchange *x);

/* Retry-After: at most an hour; 0 if it does not say. */
int result_retry_after_s(const struct transfer *t);
/* Its Date, by the API server's clock; 0 if it does not say, or not once. */
int64_t result_date_s(const struct transfer *t);

/* For people; nothing of it is the server's own words. */
void result_message(struct str *out, const struct transfer *t, CURLcode result,
                    const struct exchange *x);
/* The same in short and in static text, which lives on while a request waits to be tried again. */
const char *result_reason(CURLcode result, int status);
