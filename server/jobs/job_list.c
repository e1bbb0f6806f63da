/* The lists of jobs: out of the cache, at once if they are small, else bit by bit. */
#include "server/jobs/job_list.h"

#include <stddef.h>
#include <stdlib.h>

#include "base/json/scan.h"
#include "k8s/cache/cache.h"
#include "server/cluster/follow.h"
#include "server/features.h"
#include "server/http/answer.h"
#include "server/http/handlers.h"
#include "server/http/loop.h"
#include "server/http/query.h"
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
static void put_row(struct str *out, const struct request *r, const struct job_entry *job)
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
		job_entry_drop(l->rows.v[before].job);
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
		job_entry_drop(l->rows.v[i].job);
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
		(void)job_entry_hold(l->rows.v[i].job); /* dropped in fill, or in listing_free */
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

/* Which jobs a list shows: its query, and the choice by it. */

enum { STATES_ALL = (1 << JOB_STATE_MAX) - 1, TAG_TEXT_MAX = 1 << 20 };

#define OFFSET_MAX INT64_C(2147483647)

/* What jobs without a priority are asked for by. */
static const char NO_PRIORITY[] = "default";

/* ---- lists of texts ---- */

static int compare_spans(const void *left, const void *right)
{
	const struct span *a = left;
	const struct span *b = right;
	int order = memcmp(a->p, b->p, a->n < b->n ? a->n : b->n);
	return order ? order : (a->n > b->n) - (a->n < b->n);
}

static bool has(const struct any_of *list, struct span text)
{
	return bsearch(&text, list->v, list->n, sizeof(*list->v), compare_spans) != NULL;
}

static bool any(const struct any_of *list, const char *text)
{
	return list->n == 0 || has(list, span_of(text));
}

/* The next of "a,b,,c" that is not empty. */
static bool next_item(struct span *rest, struct span *item)
{
	while (rest->n) {
		const char *comma = memchr(rest->p, ',', rest->n);
		size_t n = comma ? (size_t)(comma - rest->p) : rest->n;
		*item = (struct span){ rest->p, n };
		rest->p += comma ? n + 1 : n;
		rest->n -= comma ? n + 1 : n;
		if (n)
			return true;
	}
	return false;
}

static size_t count_items(struct span list)
{
	size_t n = 1;
	for (size_t i = 0; i < list.n; i++)
		n += list.p[i] == ',';
	return n;
}

static struct any_of read_texts(struct span list, struct arena *a)
{
	struct span *v = ARENA_NEW(a, struct span, count_items(list));
	size_t n = 0;
	while (next_item(&list, &v[n]))
		n++;
	qsort(v, n, sizeof(*v), compare_spans);
	return (struct any_of){ v, n };
}

/* ---- parameters ---- */

static const struct {
	const char *name;
	size_t at;
	bool tags;
} LISTS[] = {
	{ "username", offsetof(struct job_query, users), false },
	{ "vc", offsetof(struct job_query, clusters), false },
	{ "jobPriority", offsetof(struct job_query, priorities), false },
	{ "tagsContain", offsetof(struct job_query, tags), true },
	{ "tagsNotContain", offsetof(struct job_query, without_tags), true },
};

/* Texts as they stand in a list of JSON. */
static struct any_of as_json(struct any_of list, struct arena *a)
{
	struct span *v = ARENA_NEW(a, struct span, list.n);
	for (size_t i = 0; i < list.n; i++) {
		STR_AUTO text = STR_INIT(TAG_TEXT_MAX);
		str_json(&text, list.v[i]);
		v[i] = arena_span(a, str_view(&text));
	}
	qsort(v, list.n, sizeof(*v), compare_spans);
	return (struct any_of){ v, list.n };
}

static void read_list(struct job_query *q, struct span name, struct span value, struct arena *a)
{
	for (size_t i = 0; i < sizeof(LISTS) / sizeof(LISTS[0]); i++) {
		if (!span_is(name, LISTS[i].name))
			continue;
		struct any_of list = read_texts(value, a);
		*(struct any_of *)((char *)q + LISTS[i].at) =
		    LISTS[i].tags ? as_json(list, a) : list;
	}
}

/* What is no state, no job is in. */
static unsigned read_states(struct span value)
{
	struct span item;
	unsigned states = 0;
	while (next_item(&value, &item)) {
		enum job_state state = job_state_named(item);
		if (state != JOB_STATE_MAX)
			states |= 1u << state;
	}
	return states;
}

static const char *const FIELDS[ORDER_MAX] = {
	[ORDER_SUBMITTED] = "submissionTime",
	[ORDER_NAME] = "jobName",
	[ORDER_USER] = "username",
	[ORDER_CLUSTER] = "vc",
	[ORDER_RETRIES] = "retries",
	[ORDER_TASKS] = "totalTaskNumber",
	[ORDER_GPUS] = "totalGpuNumber",
	[ORDER_STATE] = "state",
	[ORDER_COMPLETED] = "completionTime",
	[ORDER_PRIORITY] = "jobPriority",
};

/* FIELD,ASC or FIELD,DESC; anything else is as if it was not there. */
static void read_order(struct job_query *q, struct span value)
{
	const char *comma = memchr(value.p, ',', value.n);
	q->order = ORDER_SUBMITTED;
	q->descending = true;
	if (!comma)
		return;
	size_t n = (size_t)(comma - value.p);
	struct span field = { value.p, n };
	struct span direction = { comma + 1, value.n - n - 1 };
	bool descending = span_is(direction, "DESC");
	for (enum job_order i = 0; (descending || span_is(direction, "ASC")) && i < ORDER_MAX; i++)
		if (span_is(field, FIELDS[i])) {
			q->order = i;
			q->descending = descending;
		}
}

static int read_number(const char *name, struct span value, int64_t max, int64_t *out,
                       struct err *e)
{
	char quoted[4 * QUOTE_MAX];
	if (parse_i64(value, 0, max, out) == 0)
		return 0;
	return err_set(e, INVALID_PARAMETERS, "%s must be a whole number from 0 to %ld, is \"%s\"",
	               name, (long)max, quote(quoted, value));
}

static int read_parameter(struct job_query *q, struct span name, struct span value, struct arena *a,
                          struct err *e)
{
	if (span_is(name, "offset"))
		return read_number("offset", value, OFFSET_MAX, &q->offset, e);
	if (span_is(name, "limit"))
		return read_number("limit", value, JOB_LIMIT_MAX, &q->limit, e);
	if (span_is(name, "state"))
		q->states = read_states(value);
	else if (span_is(name, "keyword"))
		q->keyword = value;
	else if (span_is(name, "order"))
		read_order(q, value);
	else if (span_is(name, "withTotalCount"))
		q->with_total = span_is(value, "true");
	else
		read_list(q, name, value, a); /* or it is another route's, or nobody's */
	return 0;
}

int job_query_read(struct job_query *q, const char *query, bool v1, struct arena *a, struct err *e)
{
	struct span rest = span_of(query);
	struct span name;
	struct span value;
	struct job_query read = {
		.v1 = v1,
		.states = STATES_ALL,
		.keyword = SPAN(""),
		.order = ORDER_SUBMITTED,
		.descending = true,
		.limit = v1 ? JOB_LIMIT_MAX : JOB_LIMIT,
	};
	while (query_next(&rest, a, &name, &value))
		if (value.n && read_parameter(&read, name, value, a, e) < 0)
			return -1;
	*q = read;
	return 0;
}

/* ---- the choice ---- */

static bool contains(const char *text, struct span part)
{
	return memmem(text, strlen(text), part.p, part.n) != NULL;
}

static bool has_keyword(const struct job_entry *job, struct span keyword)
{
	return keyword.n == 0 || contains(job->job, keyword) ||
	       contains(job_entry_shown_user(job), keyword) || contains(job->cluster, keyword);
}

static bool has_tag(const struct job_entry *job, const struct any_of *tags)
{
	struct scan s = scan_begin(span_of(job->tags));
	struct span tag;
	while (scan_item(&s, &tag))
		if (has(tags, tag))
			return true;
	return false;
}

bool job_query_takes(const struct job_query *q, const struct job_entry *job)
{
	return !job->creating && (q->v1 || !job->legacy) &&
	       (q->states >> job_shown_state(job, q->v1) & 1) &&
	       any(&q->users, job_entry_shown_user(job)) && any(&q->clusters, job->cluster) &&
	       any(&q->priorities, job->priority[0] ? job->priority : NO_PRIORITY) &&
	       has_keyword(job, q->keyword) && (q->tags.n == 0 || has_tag(job, &q->tags)) &&
	       (q->without_tags.n == 0 || !has_tag(job, &q->without_tags));
}

/* A job as a row of a list. */

enum job_state job_shown_state(const struct job_entry *job, bool v1)
{
	return v1 && job->state == JOB_STOPPING ? JOB_RUNNING : job->state;
}

static void put_text(struct str *out, const char *key, const char *value)
{
	str_puts(out, key);
	str_json(out, span_of(value));
}

static void put_int(struct str *out, const char *key, int64_t value)
{
	str_puts(out, key);
	str_int(out, value);
}

static void put_known(struct str *out, const char *key, bool known, int64_t value)
{
	str_puts(out, key);
	if (known)
		str_int(out, value);
	else
		str_puts(out, "null");
}

/* A time, or a span of time. */
static void put_time(struct str *out, const char *key, int64_t value)
{
	put_known(out, key, value != JOB_ENTRY_NONE, value);
}

static void put_priority(struct str *out, const char *priority)
{
	str_puts(out, ",\"jobPriority\":");
	if (priority[0])
		str_json(out, span_of(priority));
	else
		str_puts(out, "null");
}

/* What v1 has, and v2 as well. */
static void put_common(struct str *out, const struct job_entry *job, bool v1)
{
	put_text(out, "\"name\":", job->job);
	put_text(out, ",\"username\":", job_entry_shown_user(job));
	put_text(out, ",\"state\":", JOB_STATES[job_shown_state(job, v1)]);
	put_text(out, ",\"subState\":", job->sub_state);
	put_text(out, ",\"executionType\":", job->execution);
	put_text(out, ",\"virtualCluster\":", job->cluster);
	put_int(out, ",\"retries\":", job->retries);
	put_time(out, ",\"createdTime\":", job->created_ms);
	put_time(out, ",\"completedTime\":", job->completed_ms);
	put_known(out, ",\"appExitCode\":", job->has_code, job->code);
	if (v1 && job->legacy)
		str_puts(out, ",\"legacy\":true");
}

static void put_v2(struct str *out, const struct job_entry *job)
{
	put_text(out, ",\"debugId\":", job->name);
	str_puts(out, ",\"tags\":");
	str_puts(out, job->tags);
	put_int(out, ",\"retryDetails\":{\"user\":", job->accountable);
	put_int(out, ",\"platform\":", (int64_t)job->retries - job->accountable);
	str_puts(out, ",\"resource\":0}");
	put_time(out, ",\"retryDelayTime\":", job->retry_delay_s);
	put_time(out, ",\"submissionTime\":", job->created_ms);
	put_time(out, ",\"launchedTime\":", job->launched_ms);
	put_int(out, ",\"totalGpuNumber\":", job->gpus);
	put_int(out, ",\"totalTaskNumber\":", job->tasks);
	put_int(out, ",\"totalTaskRoleNumber\":", job->roles);
	put_priority(out, job->priority);
}

void job_row(struct str *out, const struct job_entry *job, const struct job_why *why, bool v1)
{
	str_char(out, '{');
	put_common(out, job, v1);
	if (!v1)
		put_v2(out, job);
	if (why)
		job_row_waiting(out, job, why);
	str_char(out, '}');
}
