#pragma once
/*
 * server/web: the web page.  Its files are in page/ (ours) and vendor/ (libraries); the Makefile
 * compresses them, web.c embeds and serves them.
 *
 * Thread: loop
 */
#include <stdbool.h>

#include "server/http/route.h"

/* Answers GET / with the page if the client's Accept header names text/html.  false: not answered.
 */
bool web_index(struct request *r);

/* Handlers: web.c */
handler web_get;
