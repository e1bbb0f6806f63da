/*
 * Lists of jobs: the query, the choice and order of the page, and its rows.  A small list is
 * answered at once, a large one piece by piece.
 */
#include <endian.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/json/put.h"
#include "server/config/options.h"
#include "server/http/query.h"
#include "server/http/request.h"
#include "server/http/stream.h"
#include "server/jobs/jobs.h"
#include "server/jobs/jobs_internal.h"
#include "server/state/server.h"

/* ---- query ---- */

enum { STATES_ALL = (1 << JOB_STATE_MAX) - 1, TAG_TEXT_MAX = 1 << 20 };

/* The value that selects jobs without a priority. */
static const char NO_PRIORITY[] = "default";

static int any_of_compare(const void *left, const void *right)
{
	const struct span *a = left;
	const struct span *b = right;
	int order = memcmp(a->p, b->p, a->n < b->n ? a->n : b->n);
	return order ? order : (a->n > b->n) - (a->n < b->n);
}

static bool any_of_has(const struct any_of *list, struct span text)
{
	return bsearch(&text, list->v, list->n, sizeof(*list->v), any_of_compare) != NULL;
}

/* The non-empty items of "a,b,,c"; tags are JSON strings. */
static struct any_of query_read_texts(struct span list, bool tags, struct arena *a)
{
	size_t n = 0;
	size_t room = 1;
	for (size_t i = 0; i < list.n; i++)
		room += list.p[i] == ',';
	struct span *v = ARENA_NEW(a, struct span, room);
	while (list.n) {
		STR_AUTO json = STR_INIT(TAG_TEXT_MAX);
		struct span item = span_next(&list, ',');
		if (item.n && tags) {
			str_json(&json, item);
			item = arena_span(a, str_view(&json));
		}
		if (item.n)
			v[n++] = item;
	}
	qsort(v, n, sizeof(*v), any_of_compare);
	return (struct any_of){ v, n };
}

/* How a parameter is read, into the member at its offset. */
enum query_kind {
	QUERY_TEXTS,  /* struct any_of: texts between commas */
	QUERY_TAGS,   /* likewise, as JSON strings */
	QUERY_TEXT,   /* struct span */
	QUERY_NUMBER, /* int64_t */
	QUERY_TRUE,   /* bool */
	QUERY_STATES,
	QUERY_ORDER,
};

#define FROM(kind_, member) .kind = (kind_), .at = offsetof(struct job_query, member)

/* clang-format off */
/* The fields to sort by: a row each, for the reader and for the text of the parameter. */
#define ORDER_FIELDS(FIRST, MORE) \
	FIRST(ORDER_SUBMITTED, "submissionTime") \
	MORE(ORDER_NAME, "jobName") \
	MORE(ORDER_USER, "username") \
	MORE(ORDER_CLUSTER, "vc") \
	MORE(ORDER_RETRIES, "retries") \
	MORE(ORDER_TASKS, "totalTaskNumber") \
	MORE(ORDER_GPUS, "totalGpuNumber") \
	MORE(ORDER_STATE, "state") \
	MORE(ORDER_COMPLETED, "completionTime") \
	MORE(ORDER_PRIORITY, "jobPriority")
#define ORDER_ROW(order, field)   [order] = (field),
#define ORDER_FIRST(order, field) field
#define ORDER_MORE(order, field)  ", " field
static const char *const FIELDS[ORDER_MAX] = { ORDER_FIELDS(ORDER_ROW, ORDER_ROW) };

const struct parameter JOB_FILTERS[] = {
	{ .name = "username", FROM(QUERY_TEXTS, users),
	  .doc = "Jobs of any of these users, separated by commas." },
	{ .name = "vc", FROM(QUERY_TEXTS, clusters),
	  .doc = "Jobs in any of these virtual clusters, separated by commas." },
	{ .name = "state", FROM(QUERY_STATES, states), .example = "WAITING,RUNNING",
	  .doc = "Jobs in any of these states, separated by commas." },
	{ .name = "jobPriority", FROM(QUERY_TEXTS, priorities), .example = "prod,default",
	  .doc = "Jobs of any of these priorities, separated by commas; `default`: jobs without a priority." },
	{ .name = "keyword", FROM(QUERY_TEXT, keyword),
	  .doc = "Part of the name of job, user or virtual cluster; case-sensitive." },
	{ .name = "tagsContain", FROM(QUERY_TAGS, tags),
	  .doc = "Jobs with any of these tags, separated by commas." },
	{ .name = "tagsNotContain", FROM(QUERY_TAGS, without_tags),
	  .doc = "Jobs with none of these tags, separated by commas." },
	{ .name = NULL },
};
const struct parameter JOB_PAGES[] = {
	{ .name = "order", FROM(QUERY_ORDER, order), .absent = "submissionTime,DESC",
	  .doc = "`FIELD,ASC` or `FIELD,DESC`, where FIELD is one of " ORDER_FIELDS(ORDER_FIRST, ORDER_MORE) ". Anything else is the default: latest first." },
	{ .name = "offset", FROM(QUERY_NUMBER, offset), .max = INT32_MAX, .absent = "0",
	  .doc = "Leaves out so many rows at the beginning." },
	{ .name = "limit", FROM(QUERY_NUMBER, limit), .max = JOB_LIMIT_MAX, .absent = "5000",
	  .doc = "At most so many rows; the default of routes of v1 is 50000." },
	{ .name = "withTotalCount", FROM(QUERY_TRUE, with_total), .values = "true|false",
	  .doc = "`true`: `{\"totalCount\": N, \"data\": [...]}`, where N counts all pages; not on routes of v1." },
	{ .name = "nextName", FROM(QUERY_TEXT, next_name), .example = "mnist",
	  .doc = "A name. The answer is that of `withTotalCount`, and has `nextName`: `mnist-4` for `mnist` and for `mnist-2`, if `mnist-3` has the highest number among the jobs of `username`; not on routes of v1." },
	{ .name = NULL },
};
/* clang-format on */

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

static int query_read_value(struct job_query *q, const struct parameter *p, struct span value,
                            struct arena *a, struct err *e)
{
	void *member = (char *)q + p->at;
	switch ((enum query_kind)p->kind) {
	case QUERY_TEXTS:
	case QUERY_TAGS:
		*(struct any_of *)member = query_read_texts(value, p->kind == QUERY_TAGS, a);
		break;
	case QUERY_TEXT:
		*(struct span *)member = value;
		break;
	case QUERY_NUMBER:
		return parameter_number(p, value, member, e);
	case QUERY_TRUE:
		*(bool *)member = span_is(value, "true");
		break;
	case QUERY_STATES:
		for (q->states = 0; value.n;) { /* unknown ones match no job */
			enum job_state state = job_state_named(span_next(&value, ','));
			if (state != JOB_STATE_MAX)
				q->states |= 1u << state;
		}
		break;
	case QUERY_ORDER:
		query_read_order(q, value);
		break;
	}
	return 0;
}

int job_query_read(struct job_query *q, const char *query, bool v1, struct arena *a, struct err *e)
{
	struct span rest = span_of(query);
	struct span name;
	struct span value;
	*q = (struct job_query){
		.v1 = v1,
		.states = STATES_ALL,
		.keyword = SPAN(""),
		.order = ORDER_SUBMITTED,
		.descending = true,
		.limit = v1 ? JOB_LIMIT_MAX : JOB_LIMIT,
	};
	while (query_next(&rest, a, &name, &value)) {
		const struct parameter *p =
		    parameter_named(JOB_FILTERS, name) ?: parameter_named(JOB_PAGES, name);
		if (p && value.n && query_read_value(q, p, value, a, e) < 0)
			return -1;
	}
	return 0;
}

static bool query_contains(const char *text, struct span part)
{
	/* memmem takes longer for texts as short as these. */
	for (size_t n = strlen(text); n >= part.n;) {
		const char *found = memchr(text, part.p[0], n - part.n + 1);
		if (!found || memcmp(found, part.p, part.n) == 0)
			return found != NULL;
		n -= (size_t)(found + 1 - text);
		text = found + 1;
	}
	return false;
}

static bool query_has_tag(const struct job_entry *job, const struct any_of *tags)
{
	struct scan s = scan_begin(span_of(job->tags));
	struct span tag;
	while (scan_item(&s, &tag))
		if (any_of_has(tags, tag))
			return true;
	return false;
}

/* Texts lie apart from the numbers of an entry, so they are read only for a filter. */
bool job_query_takes(const struct job_query *q, const struct job_entry *job)
{
	return !job->creating && (q->v1 || !job->legacy) &&
	       (q->states >> job_shown_state(job, q->v1) & 1) &&
	       (q->users.n == 0 || any_of_has(&q->users, span_of(job_entry_shown_user(job)))) &&
	       (q->clusters.n == 0 || any_of_has(&q->clusters, span_of(job->cluster))) &&
	       (q->priorities.n == 0 ||
	        any_of_has(&q->priorities,
	                   span_of(job->priority[0] ? job->priority : NO_PRIORITY))) &&
	       (q->keyword.n == 0 || query_contains(job->job, q->keyword) ||
	        query_contains(job_entry_shown_user(job), q->keyword) ||
	        query_contains(job->cluster, q->keyword)) &&
	       (q->tags.n == 0 || query_has_tag(job, &q->tags)) &&
	       (q->without_tags.n == 0 || !query_has_tag(job, &q->without_tags));
}

/* ---- order ---- */

/* Maps signed to unsigned numbers in the same order. */
#define KEY_SIGN (UINT64_C(1) << 63)

/* The text to sort by; NULL: *number. */
static const char *job_key_field(const struct job_query *q, const struct job_entry *job,
                                 int64_t *number)
{
	*number = q->order == ORDER_RETRIES     ? job->retries
	          : q->order == ORDER_TASKS     ? job->tasks
	          : q->order == ORDER_GPUS      ? job->gpus
	          : q->order == ORDER_COMPLETED ? job->completed_ms
	                                        : job->created_ms;
	return q->order == ORDER_NAME       ? job->job
	       : q->order == ORDER_USER     ? job_entry_shown_user(job)
	       : q->order == ORDER_CLUSTER  ? job->cluster
	       : q->order == ORDER_STATE    ? JOB_STATES[job_shown_state(job, q->v1)]
	       : q->order == ORDER_PRIORITY ? job->priority
	                                    : NULL;
}

static struct job_key job_key_of(const struct job_query *q, const struct job_entry *job)
{
	struct job_key key = { .age = ~((uint64_t)job->created_ms ^ KEY_SIGN), .job = job };
	int64_t number = 0;
	const char *text = job_key_field(q, job, &number);
	if (text)
		(void)memccpy(key.field, text, '\0', sizeof(key.field));
	for (size_t i = 0; text && i < KEY_WORDS; i++)
		key.field[i] = be64toh(key.field[i]);
	if (!text)
		key.field[0] = (uint64_t)number ^ KEY_SIGN;
	/* The order of PostgreSQL: last in ascending order, first in descending order. */
	if ((q->order == ORDER_PRIORITY && text && !text[0]) ||
	    (q->order == ORDER_COMPLETED && number == JOB_ENTRY_NONE))
		key.field[0] = UINT64_MAX;
	for (size_t i = 0; q->descending && i < KEY_WORDS; i++)
		key.field[i] = ~key.field[i];
	return key;
}

static int key_compare(const struct job_query *q, const struct job_key *a, const struct job_key *b)
{
	for (size_t i = 0; i < KEY_WORDS; i++)
		if (a->field[i] != b->field[i])
			return a->field[i] < b->field[i] ? -1 : 1;
	uint64_t end = a->field[KEY_WORDS - 1];
	if ((q->descending ? ~end : end) & 0xff) { /* longer texts that begin alike */
		int64_t none;
		int order = strcmp(job_key_field(q, a->job, &none) + sizeof(a->field),
		                   job_key_field(q, b->job, &none) + sizeof(a->field));
		if (order)
			return q->descending ? -order : order;
	}
	if (a->age != b->age)
		return a->age < b->age ? -1 : 1;
	/* Jobs of the same second: the latest first, unless the query reverses the order. */
	int64_t x = a->job->submitted_ms;
	int64_t y = b->job->submitted_ms;
	if (x != y)
		return (x > y) == (q->order == ORDER_SUBMITTED && !q->descending) ? 1 : -1;
	return strcmp(a->job->name, b->job->name);
}

/* ---- page ---- */

enum {
	ROOM_MIN = 64,     /* jobs of a page */
	AHEAD = 16,        /* jobs to prefetch */
	TEXTS_AHEAD = 160, /* bytes of them */
	LINE = 64,
};

/* Many jobs do not fit into the caches of a processor, so only what is read is loaded: the numbers,
 * or also the texts, which lie behind them. */
void job_prefetch(const struct job_entry *job, bool texts)
{
	size_t at = texts ? 0 : offsetof(struct job_entry, state);
	size_t end = texts ? sizeof(*job) + TEXTS_AHEAD : offsetof(struct job_entry, doc);
	for (; at < end; at += LINE)
		__builtin_prefetch((const char *)job + at);
}

/* The order of the selection is random, so that users cannot create jobs that make it slow. */
void job_page_begin(struct job_page *p, const struct job_query *q)
{
	*p = (struct job_page){ .query = q,
		                .wanted = q->limit ? (size_t)(q->offset + q->limit) : 0,
		                .random = hash_key_new().v[0] };
}

/* Quickselect: puts the job of this position into v[wanted], and smaller ones before it. */
static void page_quickselect(struct job_page *p, size_t wanted)
{
	ptrdiff_t from = 0;
	ptrdiff_t to = (ptrdiff_t)p->n - 1;
	while (from < to) {
		p->random = p->random * 6364136223846793005 + 1442695040888963407; /* Knuth */
		uint64_t at = (p->random >> 32) % (uint64_t)(to - from + 1);
		struct job_key pivot = p->v[from + (ptrdiff_t)at];
		ptrdiff_t left = from;
		ptrdiff_t right = to;
		while (left <= right) {
			while (key_compare(p->query, &p->v[left], &pivot) < 0)
				left++;
			while (key_compare(p->query, &p->v[right], &pivot) > 0)
				right--;
			if (left > right)
				break;
			struct job_key swapped = p->v[left];
			p->v[left++] = p->v[right];
			p->v[right--] = swapped;
		}
		if ((ptrdiff_t)wanted <= right)
			to = right;
		else if ((ptrdiff_t)wanted >= left)
			from = left;
		else
			return;
	}
}

static void page_keep_best(struct job_page *p)
{
	page_quickselect(p, p->wanted - 1);
	p->n = p->wanted;
	p->cut = true;
}

void job_page_add(struct job_page *p, const struct job_entry *job)
{
	p->total++;
	if (p->wanted == 0)
		return;
	struct job_key key = job_key_of(p->query, job);
	if (p->cut && key_compare(p->query, &key, &p->v[p->wanted - 1]) > 0)
		return;
	if (p->n == p->cap) {
		p->cap = p->cap ? 2 * p->cap : ROOM_MIN;
		p->v = xrealloc(p->v, p->cap * sizeof(*p->v));
	}
	p->v[p->n++] = key;
	if (p->n >= 2 * p->wanted && p->n >= ROOM_MIN)
		page_keep_best(p);
}

void job_page_gather(struct job_page *p, const struct cache_view *view)
{
	const struct job_query *q = p->query;
	bool filters = q->users.n || q->clusters.n || q->priorities.n || q->keyword.n ||
	               q->tags.n || q->without_tags.n;
	size_t most = q->v1 ? SIZE_MAX : 0; /* jobs of these states, which v1 counts otherwise */
	for (enum job_state s = 0; s < JOB_STATE_MAX && !q->v1; s++)
		most += q->states >> s & 1 ? view_count(view, s) : 0;
	if (p->wanted == 0 && !q->v1 && !filters) {
		p->total = most;
		return;
	}
	bool texts = filters || q->order == ORDER_NAME || q->order == ORDER_USER ||
	             q->order == ORDER_CLUSTER || q->order == ORDER_PRIORITY;
	/* Most pages need no more; to grow is to copy. */
	size_t n = view_count(view, JOB_STATE_MAX);
	p->cap = n < 2 * p->wanted ? n : 2 * p->wanted;
	p->cap = p->cap < ROOM_MIN ? ROOM_MIN : p->cap;
	p->v = xrealloc(p->v, p->cap * sizeof(*p->v));
	const struct job_entry *ahead[AHEAD] = { NULL };
	struct view_walk walk = { .view = view };
	for (size_t i = 0; i < n + AHEAD && p->total < most; i++) {
		const struct job_entry *job = ahead[i % AHEAD];
		const struct job_entry *next = view_next(&walk);
		if (next)
			job_prefetch(next, texts);
		ahead[i % AHEAD] = next;
		if (job && job_query_takes(q, job))
			job_page_add(p, job);
	}
}

static int key_compare_for_qsort(const void *a, const void *b, void *query)
{
	return key_compare(query, a, b);
}

void job_page_end(struct job_page *p)
{
	size_t offset = (size_t)p->query->offset;
	struct job_query query = *p->query; /* qsort_r takes no const */
	if (p->n > p->wanted)
		page_keep_best(p);
	if (offset >= p->n) {
		p->n = 0;
		return;
	}
	if (offset)
		page_quickselect(p, offset);
	p->n -= offset;
	memmove(p->v, p->v + offset, p->n * sizeof(*p->v));
	qsort_r(p->v, p->n, sizeof(*p->v), key_compare_for_qsort, &query);
}

void job_page_done(struct job_page *p)
{
	free(p->v);
}

/* ---- rows ---- */

enum {
	AT_ONCE = 256 << 10, /* bytes of an answer that is sent as a whole */
	STEP = 16 << 10,     /* bytes of a larger answer that are written at a time */
	ROW_ROOM = 64 << 10, /* more than a row ever has */
};

static const char JSON_TYPE[] = "application/json; charset=utf-8";

void job_row(struct str *out, const struct job_entry *job, const struct job_why *why, bool v1)
{
	str_char(out, '{');
	job_fields_put(out, job, v1 ? VIEW_ROW_V1 : VIEW_ROW, v1);
	if (why)
		job_waiting_put(out, job, why, false);
	str_char(out, '}');
}

/* Appends `"nextName":"BASE-N"`, where N is the lowest number above those of the users' jobs. */
static void list_put_next_name(struct str *out, const struct job_query *q,
                               const struct cache_view *view, struct arena *a)
{
	struct span base = q->next_name;
	int64_t most = 1;
	size_t digits = 0;
	while (digits < base.n && is_digit(base.p[base.n - digits - 1]))
		digits++;
	if (digits && base.n > digits + 1 && base.p[base.n - digits - 1] == '-')
		base.n -= digits + 1;
	struct view_walk walk = { .view = view };
	for (const struct job_entry *job; (job = view_next(&walk));) {
		struct span name = span_of(job->job);
		int64_t n;
		if (name.n > base.n + 1 && name.p[base.n] == '-' &&
		    span_eq(span_to(name, base.n), base) &&
		    any_of_has(&q->users, span_of(job_entry_shown_user(job))) &&
		    parse_i64(span_from(name, base.n + 1), 0, INT32_MAX, &n) == 0)
			most = n > most ? n : most;
	}
	json_put_word(out, "nextName",
	              arena_printf(a, "%.*s-%lld", (int)base.n, base.p, (long long)most + 1));
}

/* The rest of a page. */
struct listing_rows {
	const struct request *r;
	const struct job_entry **v; /* a listing holds those from `next` on */
	size_t n, next;
	bool v1, in_object, closed;
};

/* Writes rows until the text has `enough` bytes.  Uses the Events of waiting jobs, but never the
 * document. */
static void list_put_rows(struct str *out, struct listing_rows *rows, size_t enough)
{
	for (; rows->next < rows->n && out->n < enough; rows->next++) {
		const struct job_entry *job = rows->v[rows->next];
		ARENA_AUTO a = { 0 };
		struct event *v = NULL;
		if (rows->next)
			str_puts(out, ",\n");
		if (rows->next + AHEAD < rows->n)
			job_prefetch(rows->v[rows->next + AHEAD], true);
		if (rows->v1) {
			job_row(out, job, NULL, true);
			continue;
		}
		size_t n = job_look_events(rows->r, job, &a, &v);
		const struct job_why why = { job_row_event(job, v, n),
			                     job_look_machine(rows->r, job, &a),
			                     job_look_neglect(rows->r, job) };
		job_row(out, job, &why, false);
	}
	if (rows->closed || rows->next < rows->n)
		return;
	str_puts(out, rows->in_object ? "]}\n" : "]\n");
	rows->closed = true;
}

/* ---- a list that is being sent ---- */

struct listing {
	struct listing_rows rows;
	struct str text; /* text.p + taken: not yet sent */
	size_t taken;
};

static void list_more(struct stream *s, void *arg)
{
	struct listing *l = arg;
	for (;;) {
		if (l->taken == l->text.n) {
			size_t before = l->rows.next;
			l->text.n = 0;
			l->taken = 0;
			list_put_rows(&l->text, &l->rows, STEP);
			for (; before < l->rows.next; before++)
				job_entry_drop(l->rows.v[before]);
		}
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
static void list_cut_off(struct stream *s, void *arg)
{
	(void)arg;
	stream_cut(s);
}

static void list_release(void *arg)
{
	struct listing *l = arg;
	for (size_t i = l->rows.next; i < l->rows.n; i++)
		job_entry_drop(l->rows.v[i]);
	str_done(&l->text);
	free(l->rows.v);
	free(l);
}

/* Sends the rest of a list after `begun`; takes both. */
static void list_answer_in_steps(struct request *r, struct listing_rows *rows, struct str *begun)
{
	static const struct stream_calls CALLS = { .more = list_more,
		                                   .last = list_cut_off,
		                                   .gone = list_release,
		                                   .long_lived = true,
		                                   .finishes = true };
	size_t others = r->loop->held[HOLD_ROWS];
	if (others && others + rows->n > (size_t)r->loop->server->options->list_rows) {
		answer_refuse(
		    r, UNAVAILABLE,
		    "too many large lists are being sent; try again, or use a smaller limit");
		return;
	}
	struct listing *l = xcalloc(1, sizeof(*l));
	*l = (struct listing){ .rows = *rows, .text = *begun };
	rows->v = NULL;
	*begun = (struct str){ .max = begun->max };
	for (size_t i = l->rows.next; i < l->rows.n; i++)
		(void)job_entry_hold(l->rows.v[i]); /* dropped in list_more or list_release */
	size_t bytes = l->text.cap + (size_t)r->loop->server->options->stream_buffer;
	size_t n = l->rows.n;
	if (stream_open(r, 200, JSON_TYPE, &CALLS, l)) {
		request_hold(r, HOLD_ROWS, n);
		request_hold(r, HOLD_MEMORY, bytes);
	} else {
		list_release(l);
	}
}

/* ---- the route ---- */

void jobs_get(struct request *r)
{
	bool v1 = route_is_v1(r->route);
	ERR_AUTO e = { 0 };
	struct job_query q;
	if (job_query_read(&q, r->query, v1, &r->arena, &e) < 0) {
		answer_error(r, &e);
		return;
	}
	if (v1 && r->args[0].p)
		q.users = (struct any_of){ &r->args[0], 1 };
	const char *problem = follow_problem(r->loop->server, &r->arena);
	if (problem) {
		answer_refuse(r, UNAVAILABLE, problem);
		return;
	}
	CACHE_VIEW_AUTO *view = cache_view(r->loop->server->cache);
	JOB_PAGE_AUTO page;
	job_page_begin(&page, &q);
	job_page_gather(&page, view);
	job_page_end(&page);
	struct listing_rows rows = {
		.r = r, .n = page.n, .v1 = v1, .in_object = (q.with_total || q.next_name.n) && !v1
	};
	STR_AUTO text = STR_INIT(AT_ONCE + ROW_ROOM);
	rows.v = xcalloc(page.n + 1, sizeof(struct job_entry *));
	for (size_t i = 0; i < page.n; i++)
		rows.v[i] = page.v[i].job;
	str_puts(&text, rows.in_object ? "{" : "");
	if (rows.in_object && q.next_name.n)
		list_put_next_name(&text, &q, view, &r->arena);
	if (rows.in_object) {
		json_put_int(&text, "totalCount", (int64_t)page.total);
		str_puts(&text, ",\"data\":");
	}
	str_char(&text, '[');
	list_put_rows(&text, &rows, AT_ONCE);
	if (rows.closed) {
		r->reply.body = text;
		text = (struct str){ .max = text.max };
		answer_json(r, 200);
	} else {
		list_answer_in_steps(r, &rows, &text);
	}
	free(rows.v);
}
