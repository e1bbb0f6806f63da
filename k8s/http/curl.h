#pragma once
/*
 * Shared by the users of libcurl: secure settings of handles, and a multi handle on an epoll
 * descriptor.  Private to k8s/.
 *
 * Thread: own
 */
#include <assert.h>
#include <curl/curl.h>

#include "base/err.h"
#include "base/str.h"

/* Prepares libcurl; call it at start.  -1 and *e (500) if this libcurl lacks TLS or asynchronous
 * name resolution, without which a loop would block. */
int curl_start(struct err *e);

/* One option that every handle has; text or number by is_text. */
struct curl_setting {
	CURLoption option;
	const char *name;
	bool is_text;
	long number;
	const char *text;
};
extern const struct curl_setting CURL_SETTINGS[];
extern const size_t CURL_SETTINGS_N;

/* Files in PEM. */
struct curl_pem {
	const char *ca;         /* only certificates of these CAs are accepted; NULL or "": of the
	                         * system's CAs */
	const char *cert, *key; /* of the client; NULL: none */
};

/* A new handle with CURL_SETTINGS for this URL.  NULL and *e (500). */
CURL *curl_new(const char *url, const struct curl_pem *pem, struct err *e);

/* Sets an option that fails only by a programming error or without memory. */
#define CURL_SET(handle, option, value)                                                            \
	do {                                                                                       \
		CURLcode bad_ = curl_easy_setopt((handle), (option), (value));                     \
		assert(bad_ == CURLE_OK);                                                          \
	} while (0)

/* Makes the handle pass received data to write(), with arg, which is also its CURLOPT_PRIVATE.
 * error: a buffer of CURL_ERROR_SIZE bytes. */
void curl_receive(CURL *h, curl_write_callback write, void *arg, char *error);
void curl_add_header(struct curl_slist **headers, const char *line);
/* Wipes and frees the lines, which may hold a token. */
void curl_free_headers(struct curl_slist **headers);
/* HTTP status of the answer; 0 if there is none. */
int curl_status(CURL *h);
/* A repetition would fail, too: certificate, address. */
bool curl_is_permanent(CURLcode result);

/* A multi handle on an epoll descriptor, for event loops. */
struct curl_loop {
	CURLM *multi;
	int epoll;                   /* readable when curl_loop_run_once has work */
	int64_t wake_ms;             /* call it then, too; INT64_MAX: no timer */
	struct curl_socket *sockets; /* by descriptor */
	size_t n_sockets;
	size_t n_over; /* idle connections that the peer has closed, and libcurl has not */
};
/* connections: maximal idle ones.  -1 and *e (500); call curl_loop_done in either case. */
int curl_loop_init(struct curl_loop *l, long connections, struct err *e);
void curl_loop_done(struct curl_loop *l); /* after all handles were removed */
/* Returns true if the peer has closed the idle connection of this local port: libcurl 7.88 would
 * send on it.  Used by CURLOPT_PREREQFUNCTION. */
bool curl_loop_is_over(const struct curl_loop *l, int local_port);
/* Adds a handle and sends its request, without waiting for curl_loop_run_once, which is due at once
 * if fewer than `added` handles are under way then.  The sockets of its connections stay in the
 * epoll set between two transfers.  *l stays at its address until curl_loop_done. */
void curl_loop_start(struct curl_loop *l, CURL *h, size_t added);
void curl_loop_run_once(struct curl_loop *l);
/* CURLOPT_PRIVATE and result of the next finished handle; NULL if there is none. */
void *curl_loop_finished(struct curl_loop *l, CURLcode *result);
/* Milliseconds until wake_ms by clock_ms; -1 for INT64_MAX. */
int curl_timeout_ms(int64_t wake_ms);
