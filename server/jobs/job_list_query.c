/* Which jobs a list shows: its query, and the choice by it. */
#include <stddef.h>
#include <stdlib.h>

#include "base/json/scan.h"
#include "server/http/query.h"
#include "server/jobs/job_list.h"
#include "server/jobs/job_show.h"

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

static bool has_keyword(const struct cached *job, struct span keyword)
{
	return keyword.n == 0 || contains(job->job, keyword) ||
	       contains(cached_shown_user(job), keyword) || contains(job->cluster, keyword);
}

static bool has_tag(const struct cached *job, const struct any_of *tags)
{
	struct scan s = scan_begin(span_of(job->tags));
	struct span tag;
	while (scan_item(&s, &tag))
		if (has(tags, tag))
			return true;
	return false;
}

bool job_query_takes(const struct job_query *q, const struct cached *job)
{
	return !job->creating && (q->v1 || !job->legacy) &&
	       (q->states >> job_shown_state(job, q->v1) & 1) &&
	       any(&q->users, cached_shown_user(job)) && any(&q->clusters, job->cluster) &&
	       any(&q->priorities, job->priority[0] ? job->priority : NO_PRIORITY) &&
	       has_keyword(job, q->keyword) && (q->tags.n == 0 || has_tag(job, &q->tags)) &&
	       (q->without_tags.n == 0 || !has_tag(job, &q->without_tags));
}
