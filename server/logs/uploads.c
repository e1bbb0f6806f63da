/*
 * Receives output that pods upload.  The uploads of one job run one after the other:
 *
 *	TokenReview -> [body] -> the task, in the cache, else GET of the Framework
 *	-> list of kept outputs -> put (again if another server was faster)
 */
#include "server/logs/logs_internal.h"

#include <stdlib.h>
#include <time.h>

#include "base/hash.h"
#include "base/json/scan.h"
#include "base/posix/clock.h"
#include "base/str.h"
#include "jobs/cache/cache.h"
#include "jobs/store/store.h"
#include "server/accounts/account.h"
#include "server/auth/auth.h"
#include "server/auth/token_lookup.h"
#include "server/config/options.h"
#include "server/http/loop.h"
#include "server/http/query.h"
#include "server/http/rate_limit.h"
#include "server/http/request.h"
#include "server/jobs/jobs.h"
#include "server/logs/logs.h"
#include "server/state/log.h"
#include "server/state/server.h"

enum {
	UPLOADS_MAX = 128,    /* at once, of tokens that were authenticated */
	POD_UPLOADS = 2,      /* of one pod: the second repeats the first */
	ADDRESS_BAD = 120,    /* tokens per minute that a TokenReview refuses */
	ADDRESS_REVIEWS = 32, /* at once */
	ADDRESSES = 4096,
	KEEPING_MAX = 16,   /* being kept at once; the others wait with their bodies */
	DEADLINE_MS = 5000, /* the timeout of pai-runtime */
	TRIES = 8,
	FRAMEWORK_NAME = 32, /* hex digits, if rest-lit has created it */
};
_Static_assert(UPLOADS_MAX *OUTPUT_PACKED_MAX <= BODIES_MAX, "bodies of all uploads");

struct upload {
	struct request *r;
	struct upload *next;
	enum { UPLOAD_REVIEW, UPLOAD_BODY, UPLOAD_QUEUED, UPLOAD_KEEPING, UPLOAD_OVER } stage;
	struct output_call c;
	const char *pod; /* its name, by the token */
	bool known;      /* the pod that the token claims is in the cache */
	bool authenticated;
	struct span index_text; /* c.id.index in the name of the pod */
	int64_t tasks;          /* of the job */
	int tries;
};

struct uploads {
	struct rate *bad;             /* by address */
	struct upload *first, **last; /* all, from the header to the end of the answer */
};

/* Makes the uploads with the rate of bad tokens, which outlives the requests. */
struct uploads *uploads_new(void)
{
	struct uploads *u = xcalloc(1, sizeof(*u));
	u->bad = rate_new(ADDRESS_BAD, 60, ADDRESSES);
	u->last = &u->first;
	return u;
}

/* No upload is left: each takes itself off the list when its request ends. */
void uploads_free(struct uploads *u)
{
	if (!u)
		return;
	rate_free(u->bad);
	free(u);
}

/* ---- the token ---- */

static void refuse_busy(struct request *r, const char *why)
{
	r->why = why;
	answer_refuse(r, UNAVAILABLE, "the server cannot accept the output now; try again");
}

static void refuse_foreign(struct request *r, const char *why)
{
	r->why = why;
	answer_refuse(r, FORBIDDEN, "this token does not belong to the current pod of a task");
}

/* FRAMEWORK-ROLE-INDEX, the name of a pod of a Framework that rest-lit has created. */
static bool read_pod_name(struct upload *u, struct span name, struct arena *a)
{
	struct span framework = span_next(&name, '-');
	struct span role = span_next(&name, '-');
	bool ok = framework.n == FRAMEWORK_NAME && role.n > 0;
	for (size_t i = 0; i < framework.n && ok; i++)
		ok = hex_value(framework.p[i]) >= 0;
	u->c.id.framework = arena_dup(a, framework);
	u->c.id.role = arena_span(a, role);
	u->index_text = arena_span(a, name);
	return ok && parse_i64(u->index_text, 0, INT32_MAX, &u->c.id.index) == 0;
}

static void take_identity(struct upload *u, const struct review_user *who)
{
	struct request *r = u->r;
	const struct server *s = r->loop->server;
	STR_AUTO account = STR_INIT(SUBJECT_MAX);
	str_printf(&account, "system:serviceaccount:%s:%s", s->namespace_name,
	           s->options->service_account);
	if (!span_is(str_view(&account), who->subject))
		refuse_foreign(r, "the token of another service account");
	else if (!who->pod_uid[0] || !read_pod_name(u, span_of(who->pod_name), &r->arena))
		refuse_foreign(r, "the token is not bound to a task's pod");
	else
		u->c.id.pod_uid = arena_dup(&r->arena, span_of(who->pod_uid));
	if (!request_answered(r))
		u->pod = arena_dup(&r->arena, span_of(who->pod_name));
}

/* Only authenticated uploads count here, so that strangers cannot take the places of pods. */
static void upload_take_place(struct upload *u)
{
	size_t n = 0;
	size_t same = 0;
	bool arriving = false;
	for (const struct upload *o = u->r->loop->has->uploads->first; o; o = o->next) {
		if (o->stage == UPLOAD_REVIEW || o->stage == UPLOAD_OVER)
			continue;
		n++;
		if (strcmp(o->c.id.pod_uid, u->c.id.pod_uid) != 0)
			continue;
		same++;
		arriving = arriving || o->stage == UPLOAD_BODY;
	}
	u->stage = UPLOAD_BODY;
	u->authenticated = true;
	if (arriving || same >= POD_UPLOADS)
		refuse_busy(u->r, "another upload of this pod is in progress");
	else if (n >= UPLOADS_MAX)
		refuse_busy(u->r, "too many uploads at once");
	else
		request_identified(u->r);
	if (request_answered(u->r))
		u->stage = UPLOAD_OVER;
}

static void token_reviewed(void *arg, enum token_verdict f, const struct review_user *who,
                           const char *why)
{
	struct upload *u = arg;
	struct request *r = u->r;
	if (f == TOKEN_VALID) {
		take_identity(u, who);
	} else if (f == TOKEN_INVALID) {
		r->why = "the API server rejects the token";
		answer_refuse(r, UNAUTHORIZED, "this token is not valid here");
	} else {
		refuse_busy(r, arena_dup(&r->arena, span_of(why)));
	}
	if (!request_answered(r)) {
		upload_take_place(u);
		return;
	}
	u->stage = UPLOAD_OVER;
	if (f != TOKEN_UNKNOWN && !u->known)
		(void)rate_take(r->loop->has->uploads->bad, span_of(r->client_text), clock_ms());
}

enum task_match { TASK_MATCHES, TASK_UNKNOWN, TASK_OTHER };

/* Finds out if the document names this pod.  If so, fills in the attempt. */
static enum task_match match_task(struct upload *u, const struct job_entry *job, struct span doc)
{
	ARENA_AUTO a = { 0 };
	struct task_attempt task;
	if (job->deleting)
		return TASK_OTHER;
	if (!logs_find_task(doc, u->c.id.role, u->index_text, &a, &task) || !task.pod_uid[0])
		return TASK_UNKNOWN;
	if (strcmp(task.pod_uid, u->c.id.pod_uid) != 0)
		return TASK_OTHER;
	u->c.id.framework_uid = arena_dup(&u->r->arena, span_of(job->uid));
	u->c.id.attempt = task.attempt;
	u->c.id.retry = task.retry;
	u->tasks = job->tasks;
	u->c.entry.role = u->c.id.role;
	u->c.entry.index = u->c.id.index;
	u->c.entry.attempt = u->c.id.attempt;
	u->c.entry.retry = u->c.id.retry;
	return TASK_MATCHES;
}

static bool match_cache(struct upload *u)
{
	struct cache *cache = u->r->loop->server->cache;
	CACHE_VIEW_AUTO *view = cache ? cache_view(cache) : NULL;
	const struct job_entry *job = view ? view_find(view, span_of(u->c.id.framework)) : NULL;
	ARENA_AUTO a = { 0 };
	struct span doc;
	return job && job_entry_doc(job, &a, &doc) && match_task(u, job, doc) == TASK_MATCHES;
}

/*
 * Decides if its TokenReview may start.  Pods share an address (that of their node), so one of them
 * must not use up the limit of the others.  The limits of an address are therefore for tokens whose
 * pod is not in the cache; the uid, which is random, tells.  The others do not wait, but there is
 * one review at a time of an address and pod.
 */
static void upload_admit_review(struct upload *u)
{
	struct request *r = u->r;
	struct uploads *all = r->loop->has->uploads;
	size_t n = 0;
	u->known = match_cache(u);
	for (const struct upload *o = all->first; o; o = o->next)
		n += o != u && o->stage == UPLOAD_REVIEW && o->known == u->known &&
		     strcmp(o->r->client_text, r->client_text) == 0 &&
		     (!u->known || strcmp(o->c.id.pod_uid, u->c.id.pod_uid) == 0);
	int64_t wait_s = u->known ? 0 : rate_ask(all->bad, span_of(r->client_text), clock_ms(), 0);
	if (wait_s) {
		answer_header(r, "Retry-After", arena_printf(&r->arena, "%lld", (long long)wait_s));
		answer_refuse(r, 429, "TooManyRequestsError",
		              "too many invalid tokens from this address in a minute");
	} else if (n >= (u->known ? 1 : ADDRESS_REVIEWS)) {
		refuse_busy(r, "too many uploads of this address or pod wait for authentication");
	}
}

static void upload_log(const struct request *r, struct line *line)
{
	const struct upload *u = r->state;
	if (u->authenticated)
		log_text(line, "pod", span_of(u->pod));
}

static void end_upload(void *arg)
{
	struct upload *u = arg;
	const struct request *r = u->r;
	/* Refused for good.  Only of authenticated pods, so that strangers cannot fill the log. */
	if (u->authenticated && r->reply.status >= 400 && r->reply.status != 503) {
		struct line line = log_begin(LOG_WARN, "the output of a task was not kept");
		log_text(&line, "id", span_of(r->id));
		log_text(&line, "pod", span_of(u->pod));
		log_text(&line, "code", span_of(r->reply.code));
		log_end(&line);
	}
	struct uploads *all = u->r->loop->has->uploads;
	struct upload **link = &all->first;
	while (*link != u)
		link = &(*link)->next;
	*link = u->next;
	if (!u->next)
		all->last = link;
	str_done(&u->c.body);
}

bool uploads_begin(struct request *r)
{
	struct uploads *all = r->loop->has->uploads;
	struct credentials c;
	struct review_user claims;
	struct upload *u = ARENA_NEW(&r->arena, struct upload, 1);
	*u = (struct upload){ .r = r, .c = { .store = r->loop->store, .a = &r->arena, .arg = u } };
	r->state = u;
	r->log = upload_log;
	r->reply.close = true; /* refused before its body, or the only request of a pod */
	*all->last = u;
	all->last = &u->next;
	request_on_end(r, end_upload, u);
	if (!r->loop->store) {
		refuse_busy(r, "this server is shutting down");
	} else if (auth_take_token(r, &c)) {
		r->why = token_review_claims(span_of(r->token), OUTPUT_AUDIENCE,
		                             (int64_t)time(NULL), &r->arena, &claims);
		if (r->why)
			answer_refuse(r, UNAUTHORIZED, "this token is not valid here");
		else
			take_identity(u, &claims);
		if (!request_answered(r))
			upload_admit_review(u);
	}
	if (request_answered(r)) {
		u->stage = UPLOAD_OVER;
		return true;
	}
	struct token_question q = { .how = LOOKUP_REVIEW,
		                    .token = span_of(r->token),
		                    .user = r->client_text,
		                    .audience = OUTPUT_AUDIENCE };
	request_wait(r);
	/* Never cancelled: the callback comes when the store ends, before r does. */
	token_lookup_start(r->loop, &q, token_reviewed, u);
	return false;
}

/*
 * ---- the queue ----
 *
 *	uploads_go_on -> upload_keep -> [GET of the Framework, upload_take_framework] -> upload_list
 *	-> upload_take_list -> upload_output_stored -> upload_finish -> uploads_go_on
 */
static void uploads_go_on(struct uploads *all);
static store_callback upload_take_framework;
static void upload_take_list(struct output_call *c, enum output_outcome o, struct span why);
static void upload_output_stored(struct output_call *c, enum output_outcome o, struct span why);

/* Called after the answer. */
static void upload_finish(struct upload *u)
{
	u->stage = UPLOAD_OVER;
	uploads_go_on(u->r->loop->has->uploads);
}

static void upload_fail(struct upload *u, enum output_outcome o, struct span why)
{
	struct request *r = u->r;
	if (o == OUTPUT_REFUSED) {
		r->why = arena_dup(&r->arena, why);
		answer_refuse(r, UNKNOWN_ERROR, "the API server refuses to keep the output");
	} else {
		refuse_busy(r, arena_dup(&r->arena, why));
	}
	upload_finish(u);
}

static void upload_list(struct upload *u)
{
	u->c.done = upload_take_list;
	output_list(&u->c);
}

static void upload_keep(struct upload *u)
{
	u->c.deadline_ms = clock_ms() + DEADLINE_MS;
	if (match_cache(u))
		upload_list(u);
	else
		store_request(u->c.store, &(struct store_request){ .verb = STORE_GET,
		                                                   .kind = KIND_FRAMEWORK,
		                                                   .name = u->c.id.framework,
		                                                   .whole = true,
		                                                   .urgent = true,
		                                                   .deadline_ms = u->c.deadline_ms,
		                                                   .done = upload_take_framework,
		                                                   .arg = u });
}

/* Starts what waits; the uploads of a job run one by one, in their order. */
static void uploads_go_on(struct uploads *all)
{
	size_t keeping = 0;
	for (const struct upload *o = all->first; o; o = o->next)
		keeping += o->stage == UPLOAD_KEEPING;
	for (struct upload *u = all->first; u && keeping < KEEPING_MAX; u = u->next) {
		bool busy = u->stage != UPLOAD_QUEUED;
		for (const struct upload *o = all->first; o && !busy; o = o->next)
			busy = o->stage == UPLOAD_KEEPING &&
			       strcmp(o->c.id.framework, u->c.id.framework) == 0;
		if (busy)
			continue;
		keeping++;
		u->stage = UPLOAD_KEEPING;
		upload_keep(u);
	}
}

static void upload_take_framework(void *arg, const struct store_reply *reply)
{
	struct upload *u = arg;
	if (reply->outcome != STORE_OK && reply->outcome != STORE_NOT_FOUND) {
		upload_fail(u, job_store_silent(reply) ? OUTPUT_BUSY : OUTPUT_REFUSED,
		            reply->message);
		return;
	}
	struct job_entry *job = NULL;
	if (reply->outcome == STORE_OK && scan_valid(reply->body, SCAN_DEPTH_MAX))
		job = job_entry_new(reply->body);
	enum task_match match = job ? match_task(u, job, reply->body) : TASK_OTHER;
	job_entry_drop(job);
	if (match == TASK_MATCHES) {
		upload_list(u);
		return;
	}
	if (match == TASK_UNKNOWN)
		refuse_busy(u->r, "the status of the job does not name the pod yet");
	else
		refuse_foreign(u->r, "the status of the job names another pod, or there is none");
	upload_finish(u);
}

/* Cuts what does not fit.  false: no room. */
static bool upload_fit(struct upload *u)
{
	int64_t budget = u->r->loop->server->options->output_bytes;
	struct output_entry *e = &u->c.entry;
	const struct output_entry *announced = output_index_find(&u->c.index, e);
	int64_t share = output_share(e->failed, u->tasks, budget);
	e->bytes = (int64_t)u->c.packed.n < share ? (int64_t)u->c.packed.n : share;
	int64_t room = announced ? announced->bytes : output_index_room(&u->c.index, e, budget);
	if (room <= 0 || !output_cut(&u->c.packed, (size_t)room, &u->r->arena, &u->c.facts.dropped))
		return false;
	e->bytes = (int64_t)u->c.packed.n;
	return true;
}

static void upload_take_list(struct output_call *c, enum output_outcome o, struct span why)
{
	struct upload *u = c->arg;
	if (o != OUTPUT_DONE) {
		upload_fail(u, o, why);
	} else if (!upload_fit(u)) {
		answer_refuse(u->r, TOO_LARGE,
		              "the outputs of this job take all of --output-bytes already");
		upload_finish(u);
	} else {
		c->done = upload_output_stored;
		output_keep(c);
	}
}

static void upload_output_stored(struct output_call *c, enum output_outcome o, struct span why)
{
	struct upload *u = c->arg;
	if (o == OUTPUT_OTHER) {
		answer_refuse(u->r, 409, "OutputKeptError",
		              "another output of this task attempt is already kept");
		upload_finish(u);
	} else if (o == OUTPUT_OUTDATED && ++u->tries < TRIES) {
		upload_list(u);
	} else if (o != OUTPUT_DONE) {
		upload_fail(u, o, why);
	} else {
		u->r->reply.status = 204;
		answer_send(u->r);
		upload_finish(u);
	}
}

/* ---- the route ---- */

static bool uploads_read_number(struct request *r, const char *name, int64_t min, int64_t max,
                                int64_t *out)
{
	struct span value;
	return query_find(span_of(r->query), name, &r->arena, &value) && value.p &&
	       parse_i64(value, min, max, out) == 0;
}

static void output_put_route(struct request *r)
{
	struct upload *u = r->state;
	struct output_facts *facts = &u->c.facts;
	ARENA_AUTO a = { 0 };
	struct span frames;
	const char *wrong = NULL;
	u->c.packed = str_view(&r->body);
	if (!output_unpack(u->c.packed, &a, &frames))
		wrong = "the body is not gzip of at most 1 MiB of output in 16384 frames";
	else if (!uploads_read_number(r, "exitCode", INT32_MIN, INT32_MAX, &facts->exit_code) ||
	         !uploads_read_number(r, "dropped", 0, INT64_MAX - OUTPUT_CONTENT_MAX,
	                              &facts->dropped))
		wrong = "the query must be exitCode=NUMBER&dropped=NUMBER";
	if (wrong) {
		answer_refuse(r, 400, "InvalidParametersError", wrong);
		u->stage = UPLOAD_OVER;
		return;
	}
	/* Complete bodies count as well, until the end of the request. */
	request_hold(r, HOLD_BODY, r->body.cap);
	sha256_hex(facts->sha, str_view(&r->body));
	u->c.entry.failed = facts->exit_code != 0;
	request_wait(r);
	u->stage = UPLOAD_QUEUED;
	uploads_go_on(r->loop->has->uploads);
}

const struct route UPLOAD_ROUTE = {
	.method = "PUT",
	.path = "/api/v2/task-output",
	.handle = output_put_route,
	.auth = AUTH_POD,
	.body = BODY_OUTPUT,
};
