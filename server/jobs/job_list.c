/*
 * Lists of jobs: the query, the choice and order of the page, and its rows.  A small list is
 * answered at once, a large one piece by piece.
 */
#include <endian.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/hash.h"
#include "server/http/query.h"
#include "server/http/request.h"
#include "server/http/routes.h"
#include "server/http/stream.h"
#include "server/jobs/jobs_internal.h"
#include "server/server.h"

enum {
	AT_ONCE = 256 << 10, /* bytes of an answer that is sent as a whole */
	STEP = 16 << 10,     /* bytes of a larger answer that are written at a time */
	ROW_ROOM = 64 << 10, /* more than a row ever has */
};

enum {
	ROOM_MIN = 64,     /* jobs of a page */
	AHEAD = 16,        /* jobs to prefetch */
	TEXTS_AHEAD = 160, /* bytes of them */
	LINE = 64,
};

static const char JSON_TYPE[] = "application/json; charset=utf-8";

/* Many jobs do not fit into the caches of a processor, so only what is read is loaded: the numbers,
 * or also the texts, which lie behind them. */
static void page_prefetch(const struct job_entry *job, bool texts)
{
	size_t at = texts ? 0 : offsetof(struct job_entry, state);
	size_t end = texts ? sizeof(*job) + TEXTS_AHEAD : offsetof(struct job_entry, doc);
	for (; at < end; at += LINE)
		__builtin_prefetch((const char *)job + at);
}

void job_row_prefetch(const struct job_key *v, size_t n, size_t i)
{
	if (i + AHEAD < n)
		page_prefetch(v[i + AHEAD].job, true);
}

/* ---- answers ---- */

/* The rest of a page. */
struct rows {
	const struct request *r;
	struct job_key *v; /* borrowed, or owned by a listing */
	size_t n, next;
	bool v1, in_object, closed;
};

static void list_open(struct str *out, struct rows *rows, size_t total)
{
	if (rows->in_object)
		str_printf(out, "{\"totalCount\":%zu,\"data\":", total);
	str_char(out, '[');
}

/* Uses the Events of waiting jobs, but never the document. */
static void list_put_row(struct str *out, const struct request *r, const struct job_entry *job)
{
	ARENA_AUTO a = { 0 };
	struct event *v = NULL;
	size_t n = job_look_events(r, job, &a, &v);
	const struct job_why why = { job_row_event(job, v, n), job_look_machine(r, job, &a),
		                     job_look_neglect(r, job) };
	job_row(out, job, &why, false);
}

/* Writes rows until the text has `enough` bytes. */
static void list_put_rows(struct str *out, struct rows *rows, size_t enough)
{
	for (; rows->next < rows->n && out->n < enough; rows->next++) {
		if (rows->next)
			str_puts(out, ",\n");
		job_row_prefetch(rows->v, rows->n, rows->next);
		if (rows->v1)
			job_row(out, rows->v[rows->next].job, NULL, true);
		else
			list_put_row(out, rows->r, rows->v[rows->next].job);
	}
	if (rows->closed || rows->next < rows->n)
		return;
	str_puts(out, rows->in_object ? "]}\n" : "]\n");
	rows->closed = true;
}

/* A list that is being sent.  It holds its jobs from rows.next on. */
struct listing {
	struct rows rows;
	struct str text; /* text.p + taken: not yet sent */
	size_t taken;
};

static void listing_fill(struct listing *l)
{
	size_t before = l->rows.next;
	l->text.n = 0;
	l->taken = 0;
	list_put_rows(&l->text, &l->rows, STEP);
	for (; before < l->rows.next; before++)
		job_entry_drop(l->rows.v[before].job);
}

static void list_more(struct stream *s, void *arg)
{
	struct listing *l = arg;
	for (;;) {
		if (l->taken == l->text.n)
			listing_fill(l);
		size_t n = l->text.n - l->taken;
		size_t room = stream_room(s);
		if (n == 0) {
			stream_end(s);
			return;
		}
		if (room == 0)
			return;
		n = n < room ? n : room;
		(void)stream_put(s, (struct span){ l->text.p + l->taken, n }); /* it fits */
		l->taken += n;
	}
}

/* The client must not mistake a part for the whole list. */
static void list_over(struct stream *s, void *arg)
{
	(void)arg;
	stream_cut(s);
}

static void listing_free(struct listing *l)
{
	for (size_t i = l->rows.next; i < l->rows.n; i++)
		job_entry_drop(l->rows.v[i].job);
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
	.long_lived = true,
	.finishes = true,
};

/* Sends the rest of a list after `begun`. */
static void list_answer_in_steps(struct request *r, struct job_page *page, const struct rows *rows,
                                 struct str *begun)
{
	size_t others = r->loop->held[HOLD_ROWS];
	if (others && others + rows->n > (size_t)r->loop->server->options->list_rows) {
		answer_refuse(
		    r, UNAVAILABLE,
		    "too many large lists are being sent; try again, or use a smaller limit");
		return;
	}
	struct listing *l = xcalloc(1, sizeof(*l));
	l->rows = *rows;
	l->rows.v = xrealloc(TAKE(page->v), page->n * sizeof(*page->v)); /* shrinks */
	l->text = *begun;
	*begun = (struct str){ .max = begun->max };
	for (size_t i = rows->next; i < rows->n; i++)
		(void)job_entry_hold(
		    l->rows.v[i].job); /* dropped in listing_fill or listing_free */
	size_t bytes = l->text.cap + (size_t)r->loop->server->options->stream_buffer;
	if (stream_open(r, 200, JSON_TYPE, &CALLS, l)) {
		request_hold(r, HOLD_ROWS, rows->n);
		request_hold(r, HOLD_MEMORY, bytes);
	} else {
		listing_free(l);
	}
}

static void list_answer_page(struct request *r, struct job_page *page)
{
	const struct job_query *q = page->query;
	bool in_object = q->with_total && !q->v1;
	struct rows rows = { r, page->v, page->n, 0, q->v1, in_object, false };
	STR_AUTO text = STR_INIT(AT_ONCE + ROW_ROOM);
	list_open(&text, &rows, page->total);
	list_put_rows(&text, &rows, AT_ONCE);
	if (!rows.closed) {
		list_answer_in_steps(r, page, &rows, &text);
		return;
	}
	r->reply.body = text;
	text = (struct str){ .max = text.max };
	answer_json(r, 200);
}

static void list_answer(struct request *r, const struct job_query *q)
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
	list_answer_page(r, &page);
}

static bool list_read_query(struct request *r, struct job_query *q, bool v1)
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
	if (list_read_query(r, &q, false))
		list_answer(r, &q);
}

void jobs_get_v1(struct request *r)
{
	struct job_query q;
	if (!list_read_query(r, &q, true))
		return;
	if (r->args[0].p)
		q.users = (struct any_of){ &r->args[0], 1 };
	list_answer(r, &q);
}

/* ---- query ---- */

enum { STATES_ALL = (1 << JOB_STATE_MAX) - 1, TAG_TEXT_MAX = 1 << 20 };

#define OFFSET_MAX INT64_C(2147483647)

/* The value that selects jobs without a priority. */
static const char NO_PRIORITY[] = "default";

static int any_compare(const void *left, const void *right)
{
	const struct span *a = left;
	const struct span *b = right;
	int order = memcmp(a->p, b->p, a->n < b->n ? a->n : b->n);
	return order ? order : (a->n > b->n) - (a->n < b->n);
}

static bool any_has(const struct any_of *list, struct span text)
{
	return bsearch(&text, list->v, list->n, sizeof(*list->v), any_compare) != NULL;
}

/* The next non-empty item of "a,b,,c". */
static bool query_next_item(struct span *rest, struct span *item)
{
	do
		*item = span_next(rest, ',');
	while (!item->n && rest->n);
	return item->n > 0;
}

static size_t query_count_items(struct span list)
{
	size_t n = 1;
	for (size_t i = 0; i < list.n; i++)
		n += list.p[i] == ',';
	return n;
}

static struct any_of query_read_texts(struct span list, struct arena *a)
{
	struct span *v = ARENA_NEW(a, struct span, query_count_items(list));
	size_t n = 0;
	while (query_next_item(&list, &v[n]))
		n++;
	qsort(v, n, sizeof(*v), any_compare);
	return (struct any_of){ v, n };
}

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

/* The texts as JSON strings. */
static struct any_of query_as_json(struct any_of list, struct arena *a)
{
	struct span *v = ARENA_NEW(a, struct span, list.n);
	for (size_t i = 0; i < list.n; i++) {
		STR_AUTO text = STR_INIT(TAG_TEXT_MAX);
		str_json(&text, list.v[i]);
		v[i] = arena_span(a, str_view(&text));
	}
	qsort(v, list.n, sizeof(*v), any_compare);
	return (struct any_of){ v, list.n };
}

static void query_read_list(struct job_query *q, struct span name, struct span value,
                            struct arena *a)
{
	for (size_t i = 0; i < ARRAY_SIZE(LISTS); i++) {
		if (!span_is(name, LISTS[i].name))
			continue;
		struct any_of list = query_read_texts(value, a);
		*(struct any_of *)((char *)q + LISTS[i].at) =
		    LISTS[i].tags ? query_as_json(list, a) : list;
	}
}

/* Unknown states match no job. */
static unsigned query_read_states(struct span value)
{
	struct span item;
	unsigned states = 0;
	while (query_next_item(&value, &item)) {
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

/* FIELD,ASC or FIELD,DESC; anything else is ignored. */
static void query_read_order(struct job_query *q, struct span value)
{
	struct span field = span_next(&value, ',');
	bool descending = span_is(value, "DESC");
	q->order = ORDER_SUBMITTED;
	q->descending = true;
	for (enum job_order i = 0; (descending || span_is(value, "ASC")) && i < ORDER_MAX; i++)
		if (span_is(field, FIELDS[i])) {
			q->order = i;
			q->descending = descending;
		}
}

static int query_read_number(const char *name, struct span value, int64_t max, int64_t *out,
                             struct err *e)
{
	char quoted[4 * QUOTE_MAX];
	if (parse_i64(value, 0, max, out) == 0)
		return 0;
	return err_set(e, INVALID_PARAMETERS, "%s must be a whole number from 0 to %ld, is \"%s\"",
	               name, (long)max, quote(quoted, value));
}

static int query_read_parameter(struct job_query *q, struct span name, struct span value,
                                struct arena *a, struct err *e)
{
	if (span_is(name, "offset"))
		return query_read_number("offset", value, OFFSET_MAX, &q->offset, e);
	if (span_is(name, "limit"))
		return query_read_number("limit", value, JOB_LIMIT_MAX, &q->limit, e);
	if (span_is(name, "state"))
		q->states = query_read_states(value);
	else if (span_is(name, "keyword"))
		q->keyword = value;
	else if (span_is(name, "order"))
		query_read_order(q, value);
	else if (span_is(name, "withTotalCount"))
		q->with_total = span_is(value, "true");
	else
		query_read_list(q, name, value, a); /* unknown ones are ignored */
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
		if (value.n && query_read_parameter(&read, name, value, a, e) < 0)
			return -1;
	*q = read;
	return 0;
}

static bool query_contains(const char *text, struct span part)
{
	/* For texts as short as these, memmem takes longer. */
	for (size_t n = strlen(text); n >= part.n;) {
		const char *found = memchr(text, part.p[0], n - part.n + 1);
		if (!found || memcmp(found, part.p, part.n) == 0)
			return found != NULL;
		n -= (size_t)(found + 1 - text);
		text = found + 1;
	}
	return false;
}

static bool query_has_keyword(const struct job_entry *job, struct span keyword)
{
	return keyword.n == 0 || query_contains(job->job, keyword) ||
	       query_contains(job_entry_shown_user(job), keyword) ||
	       query_contains(job->cluster, keyword);
}

static bool query_has_tag(const struct job_entry *job, const struct any_of *tags)
{
	struct scan s = scan_begin(span_of(job->tags));
	struct span tag;
	while (scan_item(&s, &tag))
		if (any_has(tags, tag))
			return true;
	return false;
}

/* Texts lie apart from the numbers of an entry, so they are read only for a filter. */
bool job_query_takes(const struct job_query *q, const struct job_entry *job)
{
	return !job->creating && (q->v1 || !job->legacy) &&
	       (q->states >> job_shown_state(job, q->v1) & 1) &&
	       (q->users.n == 0 || any_has(&q->users, span_of(job_entry_shown_user(job)))) &&
	       (q->clusters.n == 0 || any_has(&q->clusters, span_of(job->cluster))) &&
	       (q->priorities.n == 0 ||
	        any_has(&q->priorities, span_of(job->priority[0] ? job->priority : NO_PRIORITY))) &&
	       query_has_keyword(job, q->keyword) &&
	       (q->tags.n == 0 || query_has_tag(job, &q->tags)) &&
	       (q->without_tags.n == 0 || !query_has_tag(job, &q->without_tags));
}

/* ---- rows ---- */

void job_row(struct str *out, const struct job_entry *job, const struct job_why *why, bool v1)
{
	str_char(out, '{');
	job_fields_put(out, job, v1 ? VIEW_ROW_V1 : VIEW_ROW, v1);
	if (why)
		job_waiting_put(out, job, why, false);
	str_char(out, '}');
}

/* ---- order ---- */

/* Maps signed to unsigned numbers in the same order. */
static uint64_t key_rank(int64_t number)
{
	return (uint64_t)number ^ (UINT64_C(1) << 63);
}

static uint64_t key_first_bytes(const char *text)
{
	uint64_t first = 0;
	size_t n = strlen(text);
	memcpy(&first, text, n < sizeof(first) ? n : sizeof(first));
	return be64toh(first);
}

/* As in PostgreSQL: last in ascending order, first in descending order. */
static const uint64_t NOTHING = UINT64_MAX;

/* The field to sort by: a text, or a number if that is NULL. */
struct field {
	const char *text;
	int64_t number;
};

static struct field key_field(const struct job_query *q, const struct job_entry *job)
{
	switch (q->order) {
	case ORDER_NAME:
		return (struct field){ .text = job->job };
	case ORDER_USER:
		return (struct field){ .text = job_entry_shown_user(job) };
	case ORDER_CLUSTER:
		return (struct field){ .text = job->cluster };
	case ORDER_STATE:
		return (struct field){ .text = JOB_STATES[job_shown_state(job, q->v1)] };
	case ORDER_PRIORITY:
		return (struct field){ .text = job->priority };
	case ORDER_RETRIES:
		return (struct field){ .number = job->retries };
	case ORDER_TASKS:
		return (struct field){ .number = job->tasks };
	case ORDER_GPUS:
		return (struct field){ .number = job->gpus };
	case ORDER_COMPLETED:
		return (struct field){ .number = job->completed_ms };
	case ORDER_SUBMITTED:
	case ORDER_MAX:
		break;
	}
	return (struct field){ .number = job->created_ms };
}

static bool key_is_nothing(enum job_order order, struct field field)
{
	return (order == ORDER_PRIORITY && !field.text[0]) ||
	       (order == ORDER_COMPLETED && field.number == JOB_ENTRY_NONE);
}

/* The text has all of these eight bytes, and perhaps more. */
static bool key_text_goes_on(const struct job_query *q, uint64_t field)
{
	return ((q->descending ? ~field : field) & 0xff) != 0;
}

static uint64_t key_of_text(const struct job_query *q, const char *text)
{
	uint64_t field = key_first_bytes(text);
	return q->descending ? ~field : field;
}

static struct job_key key_of_job(const struct job_query *q, const struct job_entry *job)
{
	struct field by = key_field(q, job);
	struct job_key key = { .age = ~key_rank(job->created_ms), .job = job };
	if (key_is_nothing(q->order, by)) {
		key.field = q->descending ? ~NOTHING : NOTHING;
	} else if (by.text) {
		key.field = key_of_text(q, by.text);
		key.text = key_text_goes_on(q, key.field) ? by.text : NULL;
	} else {
		uint64_t rank = key_rank(by.number);
		key.field = q->descending ? ~rank : rank;
	}
	return key;
}

/* Compares the rest of texts with equal beginnings; most are shorter, and equal. */
static int key_compare_texts(const struct job_query *q, const struct job_key *a,
                             const struct job_key *b)
{
	int order = a->text ? strcmp(a->text, b->text) : 0;
	return q->descending ? -order : order;
}

/* Jobs of the same second: the latest first, unless the query reverses the order. */
static int key_compare_submitted(const struct job_query *q, const struct job_entry *a,
                                 const struct job_entry *b)
{
	int order = (b->submitted_ms > a->submitted_ms) - (b->submitted_ms < a->submitted_ms);
	return q->order == ORDER_SUBMITTED && !q->descending ? -order : order;
}

static int key_compare(const struct job_query *query, const struct job_key *a,
                       const struct job_key *b)
{
	if (a->field != b->field)
		return a->field < b->field ? -1 : 1;
	int order = key_compare_texts(query, a, b);
	if (order)
		return order;
	if (a->age != b->age)
		return a->age < b->age ? -1 : 1;
	order = key_compare_submitted(query, a->job, b->job);
	return order ? order : strcmp(a->job->name, b->job->name);
}

static int key_compare_for_qsort(const void *a, const void *b, void *query)
{
	return key_compare(query, a, b);
}

/* ---- page ---- */

/* xorshift64: users cannot create jobs that make the selection slow. */
static size_t page_random(struct job_page *p, size_t n)
{
	p->random ^= p->random << 13;
	p->random ^= p->random >> 7;
	p->random ^= p->random << 17;
	return (size_t)(p->random % n);
}

static void page_swap(struct job_page *p, ptrdiff_t a, ptrdiff_t b)
{
	struct job_key swapped = p->v[a];
	p->v[a] = p->v[b];
	p->v[b] = swapped;
}

/* Moves jobs before a pivot to the left and the rest to the right.  Jobs before *left and after
 * *right are already in place. */
static void page_partition(struct job_page *p, ptrdiff_t *left, ptrdiff_t *right)
{
	struct job_key pivot = p->v[*left + (ptrdiff_t)page_random(p, *right - *left + 1)];
	while (*left <= *right) {
		while (key_compare(p->query, &p->v[*left], &pivot) < 0)
			++*left;
		while (key_compare(p->query, &p->v[*right], &pivot) > 0)
			--*right;
		if (*left > *right)
			break;
		page_swap(p, (*left)++, (*right)--);
	}
}

/* Quickselect within a run: puts the job of this position into v[wanted], and smaller ones before
 * it. */
static void page_place_in(struct job_page *p, struct job_run run, ptrdiff_t wanted)
{
	while (run.first < run.last) {
		struct job_run rest = run;
		page_partition(p, &rest.first, &rest.last);
		if (wanted <= rest.last)
			run.last = rest.last;
		else if (wanted >= rest.first)
			run.first = rest.first;
		else
			return;
	}
}

/* Moves jobs of a run by their first bytes only: smaller ones to the left, larger ones to the
 * right.  Returns the jobs between them, which are equal. */
static struct job_run page_split(struct job_page *p, struct job_run run)
{
	ptrdiff_t any = run.first + (ptrdiff_t)page_random(p, run.last - run.first + 1);
	uint64_t pivot = p->v[any].field;
	struct job_run equal = run;
	for (ptrdiff_t i = run.first; i <= equal.last;) {
		if (p->v[i].field < pivot)
			page_swap(p, i++, equal.first++);
		else if (p->v[i].field > pivot)
			page_swap(p, i, equal.last--);
		else
			i++;
	}
	return equal;
}

/* The jobs whose first bytes are those of the job that belongs to this position; they are in place,
 * but not in order. */
static struct job_run page_narrow(struct job_page *p, struct job_run run, ptrdiff_t wanted)
{
	while (run.first < run.last) {
		struct job_run equal = page_split(p, run);
		if (wanted < equal.first)
			run.last = equal.first - 1;
		else if (wanted > equal.last)
			run.first = equal.last + 1;
		else
			return equal;
	}
	return run;
}

/* Puts the job of this position into v[at], and smaller ones before it.  A look at a text takes
 * long, because texts lie apart: the next bytes are read once for all that have begun alike. */
static void page_place(struct job_page *p, size_t at)
{
	ptrdiff_t wanted = (ptrdiff_t)at;
	struct job_run all = page_narrow(p, (struct job_run){ 0, (ptrdiff_t)p->n - 1 }, wanted);
	struct job_run run = all;
	uint64_t field = p->v[all.first].field;
	bool texts = p->v[all.first].text != NULL;
	for (size_t k = sizeof(field); texts && run.first < run.last; k += sizeof(field)) {
		for (ptrdiff_t i = run.first; i <= run.last; i++)
			p->v[i].field = key_of_text(p->query, p->v[i].text + k);
		run = page_narrow(p, run, wanted);
		texts = key_text_goes_on(p->query, p->v[run.first].field);
	}
	for (ptrdiff_t i = all.first; i <= all.last; i++)
		p->v[i].field = field;
	page_place_in(p, run, wanted);
}

static void page_keep_best(struct job_page *p)
{
	page_place(p, p->wanted - 1);
	p->n = p->wanted;
	p->worst = p->v[p->n - 1];
	p->cut = true;
}

void job_page_begin(struct job_page *p, const struct job_query *q)
{
	*p = (struct job_page){ .query = q, .random = hash_key_new().v[0] | 1 };
	p->wanted = q->limit ? (size_t)(q->offset + q->limit) : 0;
}

static void page_reserve(struct job_page *p, size_t room)
{
	p->cap = room;
	p->v = xrealloc(p->v, room * sizeof(*p->v));
}

void job_page_add(struct job_page *p, const struct job_entry *job)
{
	p->total++;
	if (p->wanted == 0)
		return;
	struct job_key key = key_of_job(p->query, job);
	if (p->cut && key_compare(p->query, &key, &p->worst) > 0)
		return;
	if (p->n == p->cap)
		page_reserve(p, p->cap ? 2 * p->cap : ROOM_MIN);
	p->v[p->n++] = key;
	if (p->n >= 2 * p->wanted && p->n >= ROOM_MIN)
		page_keep_best(p);
}

/* Only jobs with some texts are wanted. */
static bool page_has_filter(const struct job_query *q)
{
	return q->users.n || q->clusters.n || q->priorities.n || q->keyword.n || q->tags.n ||
	       q->without_tags.n;
}

static bool page_reads_texts(const struct job_query *q)
{
	return page_has_filter(q) || q->order == ORDER_NAME || q->order == ORDER_USER ||
	       q->order == ORDER_CLUSTER || q->order == ORDER_PRIORITY;
}

void job_page_gather(struct job_page *p, const struct view *view)
{
	if (p->wanted == 0 && !p->query->v1 && !page_has_filter(p->query)) {
		for (enum job_state s = 0; s < JOB_STATE_MAX; s++)
			p->total += p->query->states >> s & 1 ? view_count_of(view, s) : 0;
		return;
	}
	/* Most pages need no more; to grow is to copy. */
	size_t room = view_count(view) < 2 * p->wanted ? view_count(view) : 2 * p->wanted;
	page_reserve(p, room > ROOM_MIN ? room : ROOM_MIN);
	const struct job_entry *ahead[AHEAD] = { NULL };
	struct view_walk walk = { view, 0, 0 };
	size_t rounds = view_count(view) + AHEAD;
	bool texts = page_reads_texts(p->query);
	for (size_t i = 0; i < rounds; i++) {
		const struct job_entry *job = ahead[i % AHEAD];
		const struct job_entry *next = view_next(&walk);
		if (next)
			page_prefetch(next, texts);
		ahead[i % AHEAD] = next;
		if (job && job_query_takes(p->query, job))
			job_page_add(p, job);
	}
}

void job_page_end(struct job_page *p)
{
	size_t offset = (size_t)p->query->offset;
	if (p->n > p->wanted)
		page_keep_best(p);
	if (offset >= p->n) {
		p->n = 0;
		return;
	}
	if (offset)
		page_place(p, offset);
	p->n -= offset;
	memmove(p->v, p->v + offset, p->n * sizeof(*p->v));
	struct job_query query = *p->query; /* qsort_r takes no const */
	qsort_r(p->v, p->n, sizeof(*p->v), key_compare_for_qsort, &query);
}

void job_page_done(struct job_page *p)
{
	free(p->v);
}
