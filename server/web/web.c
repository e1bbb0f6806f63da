/* The files of the web page: the table, and the routes / and /web/{file}. */
#include "server/web/web.h"

#include <pthread.h>

#include "base/embed.h"
#include "base/enc.h"
#include "base/gzip.h"
#include "base/posix/lock.h"
#include "jobs/cache/job_entry.h"
#include "server/config/options.h"
#include "server/http/loop.h"
#include "server/state/server.h"

/* A new file of the page needs a line here.  The first is the page itself. */
#define WEB_FILES(FILE)                                                                            \
	FILE(index_html, "index.html")                                                             \
	FILE(codemirror_js, "codemirror.js")                                                       \
	FILE(style_css, "style.css")                                                               \
	FILE(main_js, "main.js")                                                                   \
	FILE(frame_js, "frame.js")                                                                 \
	FILE(shortcuts_js, "shortcuts.js")                                                         \
	FILE(dom_js, "dom.js")                                                                     \
	FILE(format_js, "format.js")                                                               \
	FILE(api_js, "api.js")                                                                     \
	FILE(sse_js, "sse.js")                                                                     \
	FILE(dialog_js, "dialog.js")                                                               \
	FILE(signin_js, "signin.js")                                                               \
	FILE(machine_js, "machine.js")                                                             \
	FILE(account_js, "account.js")                                                             \
	FILE(table_js, "table.js")                                                                 \
	FILE(chart_js, "chart.js")                                                                 \
	FILE(jobs_js, "jobs.js")                                                                   \
	FILE(feed_js, "feed.js")                                                                   \
	FILE(columns_js, "columns.js")                                                             \
	FILE(selection_js, "selection.js")                                                         \
	FILE(compare_js, "compare.js")                                                             \
	FILE(tabs_js, "tabs.js")                                                                   \
	FILE(details_js, "details.js")                                                             \
	FILE(failure_js, "failure.js")                                                             \
	FILE(tasks_js, "tasks.js")                                                                 \
	FILE(job_js, "job.js")                                                                     \
	FILE(jobview_js, "jobview.js")                                                             \
	FILE(jobhead_js, "jobhead.js")                                                             \
	FILE(joblog_js, "joblog.js")                                                               \
	FILE(actions_js, "actions.js")                                                             \
	FILE(log_js, "log.js")                                                                     \
	FILE(logview_js, "logview.js")                                                             \
	FILE(editor_js, "editor.js")                                                               \
	FILE(schema_js, "schema.js")                                                               \
	FILE(form_js, "form.js")                                                                   \
	FILE(draft_js, "draft.js")                                                                 \
	FILE(submit_js, "submit.js")                                                               \
	FILE(choosers_js, "choosers.js")                                                           \
	FILE(checker_js, "checker.js")                                                             \
	FILE(mistakes_js, "mistakes.js")                                                           \
	FILE(examples_json, "examples.json")

/* clang-format off */
#define WEB_EMBED(symbol, file) EMBED(web_##symbol, "web/" file ".gz");
#define WEB_ROW(symbol, file) { file, embed_web_##symbol, embed_web_##symbol##_end },
/* clang-format on */

WEB_FILES(WEB_EMBED)

/* A file, compressed by gzip. */
struct web_file {
	const char *name, *start, *end;
};

static const struct web_file FILES[] = { WEB_FILES(WEB_ROW) };

static const struct {
	const char *suffix, *type;
} WEB_TYPES[] = {
	{ ".html", "text/html; charset=utf-8" },
	{ ".css", "text/css; charset=utf-8" },
	{ ".js", "text/javascript; charset=utf-8" },
	{ ".json", "application/json; charset=utf-8" },
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
static bool web_inflated(const struct web_file *f, struct span packed, struct span *text)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static struct span kept[ARRAY_SIZE(FILES)];
	static struct arena arena;
	struct span *own = &kept[f - FILES];
	LOCK_AUTO(&lock);
	bool good = own->p || gzip_unpack(packed, REPLY_MAX, GZIP_RATIO_MAX, &arena, own);
	*text = *own;
	return good;
}

static void web_send(struct request *r, const struct web_file *f)
{
	struct span text = { f->start, (size_t)((uintptr_t)f->end - (uintptr_t)f->start) };
	/* The trailer of gzip is the CRC of the text and its size, lowest bytes first. */
	char trailer[2 * GZIP_TRAILER + 1];
	hex_encode(trailer, text.p + text.n - GZIP_TRAILER, GZIP_TRAILER);
	r->reply.cache = "no-cache";
	if (answer_unchanged(r, arena_printf(&r->arena, "W/\"%s\"", trailer)))
		return;
	if (header_list_accepts(request_header(r, "Accept-Encoding"), SPAN("gzip"))) {
		answer_header(r, "Content-Encoding", "gzip");
	} else if (!web_inflated(f, text, &text)) {
		answer_refuse(r, UNKNOWN_ERROR, "a file of the page is damaged");
		return;
	}
	str_span(&r->reply.body, text);
	r->reply.status = 200;
	r->reply.type = "application/octet-stream";
	for (size_t i = 0; i < ARRAY_SIZE(WEB_TYPES); i++)
		if (strcmp(strrchr(f->name, '.'), WEB_TYPES[i].suffix) == 0)
			r->reply.type = WEB_TYPES[i].type;
	answer_send(r);
}

bool web_index(struct request *r)
{
	if (r->loop->server->options->no_page)
		return false;
	bool html = header_list_accepts(request_header(r, "Accept"), SPAN("text/html"));
	answer_header(r, "Vary", html ? "Accept, Accept-Encoding" : "Accept");
	if (!html)
		return false;
	answer_header(r, "Content-Security-Policy", WEB_POLICY);
	web_send(r, &FILES[0]);
	return true;
}

void web_get(struct request *r)
{
	bool none = r->loop->server->options->no_page;
	for (size_t i = 1; i < ARRAY_SIZE(FILES) && !none; i++) {
		if (span_is(r->args[0], FILES[i].name)) {
			answer_header(r, "Vary", "Accept-Encoding");
			web_send(r, &FILES[i]);
			return;
		}
	}
	answer_refuse(r, 404, "NoFileError",
	              none ? "this server has no page: it runs with --no-page"
	                   : "the page has no such file");
}
