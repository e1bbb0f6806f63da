/*
 * fetch [OPTION VALUE]... HOST PORT TARGET - one request by runtime-assets/net/http.c, for
 * test_http.py. Prints "trouble N" and the sentence, or "status N", the headers, an empty line and
 * the body.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "runtime-assets/net/http.h"

struct fetch {
	struct http_request request;
	char *headers;
	const char *ca;
};

static int64_t number(const char *text)
{
	int64_t n = 0;
	if (parse_i64(span_of(text), 0, INT32_MAX, &n) != 0)
		_exit(2);
	return n;
}

static void take_option(struct fetch *f, const char *name, const char *value)
{
	struct http_request *q = &f->request;
	if (strcmp(name, "--ca") == 0)
		f->ca = value;
	else if (strcmp(name, "--name") == 0)
		q->server_name = value;
	else if (strcmp(name, "--header") == 0)
		q->headers = f->headers = xasprintf("%s\r\n", value);
	else if (strcmp(name, "--headers-max") == 0)
		q->headers_max = (size_t)number(value);
	else if (strcmp(name, "--body-max") == 0)
		q->body_max = (size_t)number(value);
	else if (strcmp(name, "--ms") == 0)
		q->deadline_ms = clock_ms() + number(value);
	else
		_exit(2);
}

static void show(struct span text)
{
	(void)fwrite(text.p, 1, text.n, stdout);
}

int main(int argc, char **argv)
{
	struct fetch f = { .request = {
			       .method = "GET", .headers_max = 16384, .body_max = 65536 } };
	ARENA_AUTO a = { 0 };
	ERR_AUTO e = { 0 };
	struct http_reply r = { 0 };
	f.request.deadline_ms = clock_ms() + 10000;
	int i = 1;
	for (; i + 4 < argc; i += 2)
		take_option(&f, argv[i], argv[i + 1]);
	if (i + 3 != argc)
		return 2;
	f.request.host = argv[i];
	f.request.port = (uint16_t)number(argv[i + 1]);
	f.request.target = argv[i + 2];
	struct ca_bundle *ca_bundle = f.ca ? ca_bundle_load(f.ca, &e) : NULL;
	f.request.ca_bundle = ca_bundle;
	int trouble = f.ca && !ca_bundle ? 99 : http_exchange(&f.request, &a, &r, &e);
	if (trouble) {
		printf("trouble %d\n%s\n", trouble, err_msg(&e));
	} else {
		printf("status %d\n", r.status);
		show(r.headers);
		printf("\n");
		show(r.body);
	}
	ca_bundle_free(ca_bundle);
	free(f.headers);
	return 0;
}
