#pragma once
/* libmicrohttpd, driven from outside: the loop calls, nothing here waits. */
#include "server/http/loop.h"

/* Once per process.  -1 and *e, 500: this version of the library is too old; the log says so of one
 * that was not tried. */
int http_init(struct err *e);
const char *http_version(void);

/* l->http for l->listen_fd.  -1 and *e: 500. */
int http_start(struct loop *l, struct err *e);
int http_fd(const struct loop *l); /* readable when http_run has work */
void http_run(struct loop *l);
/* Until http_run or http_cut must be called; -1 for ever. */
int http_timeout_ms(struct loop *l);
/* Cut connections that are over their time. */
void http_cut(struct loop *l);
/* How many clients are connected. */
size_t http_connections(const struct loop *l);
/* Take no more connections. */
void http_quiesce(struct loop *l);
/* Nothing may be waiting (request_wait) any more. */
void http_stop(struct loop *l);
