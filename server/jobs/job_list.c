/* The lists of jobs: out of the cache, at once if they are small, else bit by bit. */
#include "server/jobs/job_list.h"

#include <stdlib.h>

#include "k8s/cache/cache.h"
#include "server/cluster/follow.h"
#include "server/features.h"
#include "server/http/answer.h"
#include "server/http/handlers.h"
#include "server/http/loop.h"
#include "server/http/stream.h"
#include "server/jobs/job_look.h"
#include "server/jobs/job_show.h"

enum {
	AT_ONCE = 256 << 10, /* bytes of an answer that is made as a whole */
	STEP = 16 << 10,     /* bytes of a larger one that are made at a time */
	ROW_ROOM = 64 << 10, /* more than a row ever has */
};

static const char JSON_TYPE[] = "application/json; charset=utf-8";

/* ---- text ---- */

/* What is still to be written of a page. */
struct rows {
	const struct request *r;
	struct job_key *v; /* borrowed, or a listing's own */
	size_t n, next;
	bool v1, in_object, closed;
};

static void open_list(struct str *out, struct rows *rows, size_t total)
{
	if (rows->in_object)
		str_printf(out, "{\"totalCount\":%zu,\"data\":", total);
	str_char(out, '[');
}

/* The pods' Events are looked at only for a job that waits, its document never. */
static void put_row(struct str *out, const struct request *r, const struct cached *job)
{
	ARENA_AUTO a = { 0 };
	struct event *v = NULL;
	size_t n = job_look_events(r, job, &a, &v);
	const struct job_why why = { job_row_event(job, v, n), job_look_neglect(r, job) };
	job_row(out, job, &why, false);
}

/* Rows until there is so much text, or all of it. */
static void put_rows(struct str *out, struct rows *rows, size_t enough)
{
	for (; rows->next < rows->n && out->n < enough; rows->next++) {
		if (rows->next)
			str_puts(out, ",\n");
		if (rows->v1)
			job_row(out, rows->v[rows->next].job, NULL, true);
		else
			put_row(out, rows->r, rows->v[rows->next].job);
	}
	if (rows->closed || rows->next < rows->n)
		return;
	str_puts(out, rows->in_object ? "]}\n" : "]\n");
	rows->closed = true;
}

/* ---- bit by bit ---- */

/* A list under way.  Its jobs are held from rows.next on. */
struct listing {
	struct loop *loop;
	struct rows rows;
	struct str text; /* text.p + taken: made, and not yet put */
	size_t taken;
};

static void fill(struct listing *l)
{
	size_t before = l->rows.next;
	l->text.n = 0;
	l->taken = 0;
	put_rows(&l->text, &l->rows, STEP);
	for (; before < l->rows.next; before++)
		cached_drop(l->rows.v[before].job);
}

static void list_more(struct stream *s, void *arg)
{
	struct listing *l = arg;
	for (;;) {
		if (l->taken == l->text.n)
			fill(l);
		size_t n = l->text.n - l->taken;
		size_t room = stream_room(s);
		if (n == 0) {
			stream_end(s);
			return;
		}
		if (room == 0)
			return;
		n = n < room ? n : room;
		(void)stream_put(s, (struct span){ l->text.p + l->taken, n }); /* there is room */
		l->taken += n;
	}
}

/* Nobody shall take a part for the whole. */
static void list_over(struct stream *s, void *arg)
{
	(void)arg;
	stream_cut(s);
}

static void listing_free(struct listing *l)
{
	for (size_t i = l->rows.next; i < l->rows.n; i++)
		cached_drop(l->rows.v[i].job);
	l->loop->has->list_rows -= l->rows.n;
	str_done(&l->text);
	free(l->rows.v);
	free(l);
}

static void list_gone(void *arg)
{
	listing_free(arg);
}

static const struct stream_calls CALLS = {
	.more = list_more,
	.last = list_over,
	.gone = list_gone,
	.lasting = true,
	.finishes = true,
};

/* The rest of a list of which `begun` is the beginning. */
static void answer_in_steps(struct request *r, struct job_page *page, const struct rows *rows,
                            struct str *begun)
{
	size_t most = (size_t)r->loop->server->options->list_rows;
	if (r->loop->has->list_rows && r->loop->has->list_rows + rows->n > most) {
		answer_refuse(r, UNAVAILABLE,
		              "too many large lists are under way; try again, or ask for less of "
		              "it by limit");
		return;
	}
	struct listing *l = xcalloc(1, sizeof(*l));
	l->loop = r->loop;
	l->rows = *rows;
	l->rows.v = xrealloc(TAKE(page->v), page->n * sizeof(*page->v)); /* with no more room */
	l->text = *begun;
	*begun = (struct str){ .max = begun->max };
	for (size_t i = rows->next; i < rows->n; i++)
		(void)cached_hold(l->rows.v[i].job); /* dropped in fill, or in listing_free */
	r->loop->has->list_rows += rows->n;
	if (!stream_open(r, 200, JSON_TYPE, &CALLS, l))
		listing_free(l);
}

/* ---- lists ---- */

static void answer_page(struct request *r, struct job_page *page)
{
	const struct job_query *q = page->query;
	bool in_object = q->with_total && !q->v1;
	struct rows rows = { r, page->v, page->n, 0, q->v1, in_object, false };
	STR_AUTO text = STR_INIT(AT_ONCE + ROW_ROOM);
	open_list(&text, &rows, page->total);
	put_rows(&text, &rows, AT_ONCE);
	if (!rows.closed) {
		answer_in_steps(r, page, &rows, &text);
		return;
	}
	r->reply.body = text;
	text = (struct str){ .max = text.max };
	answer_json(r, 200);
}

static void answer_list(struct request *r, const struct job_query *q)
{
	const char *problem = follow_problem(r->loop->server, &r->arena);
	if (problem) {
		answer_refuse(r, UNAVAILABLE, problem);
		return;
	}
	CACHE_VIEW_AUTO *view = cache_view(r->loop->server->cache);
	JOB_PAGE_AUTO page;
	job_page_begin(&page, q);
	job_page_gather(&page, view);
	job_page_end(&page);
	answer_page(r, &page);
}

static bool read_query(struct request *r, struct job_query *q, bool v1)
{
	ERR_AUTO e = { 0 };
	if (job_query_read(q, r->query, v1, &r->arena, &e) == 0)
		return true;
	answer_error(r, &e);
	return false;
}

void jobs_get(struct request *r)
{
	struct job_query q;
	if (read_query(r, &q, false))
		answer_list(r, &q);
}

void jobs_get_v1(struct request *r)
{
	struct job_query q;
	if (!read_query(r, &q, true))
		return;
	if (r->args[0].p)
		q.users = (struct any_of){ &r->args[0], 1 };
	answer_list(r, &q);
}
