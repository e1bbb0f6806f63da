/* The files of the web page and those for agents: the table, and the routes /, /llms.txt and
 * /web/{file}. */
#include "server/web/web.h"

#include <assert.h>
#include <pthread.h>

#include "base/embed.h"
#include "base/enc.h"
#include "base/gzip.h"
#include "base/posix/lock.h"
#include "jobs/cache/job_entry.h"
#include "server/config/options.h"
#include "server/http/loop.h"
#include "server/state/server.h"

/* The files one after the other, each behind a line with its name and one with its size. */
EMBED(web_files, "web/files");

#define INDEX "index.html" /* at / */

enum { FILES_MAX = 64 };

struct web_file {
	struct span name, packed; /* by gzip */
	size_t at;                /* among all */
};

/* false: there is no such file. */
static bool web_find(struct span name, struct web_file *out)
{
	struct span rest = EMBEDDED(web_files);
	for (out->at = 0; rest.n; out->at++) {
		int64_t n = 0;
		out->name = span_next(&rest, '\n');
		(void)parse_i64(span_next(&rest, '\n'), 0, REPLY_MAX, &n); /* the build's own */
		out->packed = span_to(rest, (size_t)n);
		rest = span_from(rest, out->packed.n);
		if (span_eq(out->name, name))
			return true;
	}
	return false;
}

static const struct {
	const char *suffix, *type;
} WEB_TYPES[] = {
	{ ".html", "text/html; charset=utf-8" },     { ".css", "text/css; charset=utf-8" },
	{ ".js", "text/javascript; charset=utf-8" }, { ".json", "application/json; charset=utf-8" },
	{ ".md", "text/markdown; charset=utf-8" },   { ".txt", "text/plain; charset=utf-8" },
};

/* The policy of the page: nothing from elsewhere, no inline code, no strings as HTML. */
#define WEB_POLICY                                                                                 \
	"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "            \
	"img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; "      \
	"require-trusted-types-for 'script'"

enum { GZIP_TRAILER = 8, GZIP_RATIO_MAX = 1000 };

/* Returns true if the client refuses the element, as in `gzip; q=0`. */
static bool is_refused(struct span parameters)
{
	while (parameters.n) {
		struct span one = span_trim(span_next(&parameters, ';'));
		if (one.n < 3 || (one.p[0] | 0x20) != 'q' || one.p[1] != '=')
			continue;
		size_t i = 2;
		while (i < one.n && (one.p[i] == '0' || one.p[i] == '.'))
			i++;
		return i == one.n;
	}
	return false;
}

/* A list such as Accept (NULL: absent) names this element. */
static bool header_list_accepts(const char *list, struct span name)
{
	struct span rest = span_of(list ? list : "");
	while (rest.n) {
		struct span one = span_next(&rest, ',');
		if (span_same(span_trim(span_next(&one, ';')), name))
			return !is_refused(one);
	}
	return false;
}

/* A file for clients that want it uncompressed: inflated once, at the first request, and kept as
 * long as the program runs; all together are as large as the page.  False: it is damaged. */
static bool web_inflated(const struct web_file *f, struct span *text)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static struct span kept[FILES_MAX];
	static struct arena arena;
	LOCK_AUTO(&lock);
	assert(f->at < FILES_MAX);
	struct span *own = &kept[f->at];
	bool good = own->p || gzip_unpack(f->packed, REPLY_MAX, GZIP_RATIO_MAX, &arena, own);
	*text = *own;
	return good;
}

static void web_send(struct request *r, const struct web_file *f)
{
	struct span text = f->packed;
	/* The trailer of gzip is the CRC of the text and its size, lowest bytes first. */
	char trailer[2 * GZIP_TRAILER + 1];
	hex_encode(trailer, text.p + text.n - GZIP_TRAILER, GZIP_TRAILER);
	r->reply.cache = "no-cache";
	if (answer_unchanged(r, arena_printf(&r->arena, "W/\"%s\"", trailer)))
		return;
	if (header_list_accepts(request_header(r, "Accept-Encoding"), SPAN("gzip"))) {
		answer_header(r, "Content-Encoding", "gzip");
	} else if (!web_inflated(f, &text)) {
		answer_refuse(r, UNKNOWN_ERROR, "a file of the page is damaged");
		return;
	}
	str_span(&r->reply.body, text);
	r->reply.status = 200;
	r->reply.type = "application/octet-stream";
	struct span suffix = span_from(f->name, span_chr(f->name, '.'));
	for (size_t i = 0; i < ARRAY_SIZE(WEB_TYPES); i++)
		if (span_is(suffix, WEB_TYPES[i].suffix))
			r->reply.type = WEB_TYPES[i].type;
	answer_send(r);
}

bool web_index(struct request *r)
{
	if (r->loop->server->options->no_page)
		return false;
	struct web_file index;
	bool html = web_find(SPAN(INDEX), &index) &&
	            header_list_accepts(request_header(r, "Accept"), SPAN("text/html"));
	answer_header(r, "Vary", html ? "Accept, Accept-Encoding" : "Accept");
	if (!html)
		return false;
	answer_header(r, "Content-Security-Policy", WEB_POLICY);
	web_send(r, &index);
	return true;
}

void web_get(struct request *r)
{
	bool none = r->loop->server->options->no_page;
	struct span name = r->args[0].p ? r->args[0] : SPAN("llms.txt"); /* the route of its own */
	struct web_file f;
	if (!none && !span_is(name, INDEX) && web_find(name, &f)) {
		answer_header(r, "Vary", "Accept-Encoding");
		web_send(r, &f);
		return;
	}
	answer_refuse(r, 404, "NoFileError",
	              none ? "this server has no page: it runs with --no-page"
	                   : "the page has no such file");
}
