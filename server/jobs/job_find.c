/*
 * Finding the job of a path: in the cache, or, if the job is not there or the cache is not yet
 * complete, by one GET.  The id alone decides nothing: owner and name are those stored in the
 * object.
 */
#include "base/enc.h"
#include "base/posix/clock.h"
#include "base/str.h"
#include "jobs/store/paths.h"
#include "jobs/store/reply.h"
#include "machine/store/aside.h"
#include "server/accounts/account.h"
#include "server/config/options.h"
#include "server/http/rate_limit.h"
#include "server/http/request.h"
#include "server/jobs/jobs_internal.h"
#include "translate/translate.h"

/* Lives in the request's arena. */
struct job_search {
	struct request *r;
	job_found *found;   /* NULL: */
	job_doc_came *came; /* with the document */
	struct job_id id;
	bool warm;
};

struct doc_wanted {
	struct request *r;
	const struct job_entry *job;
	job_doc_came *came;
};

void job_store_failed(struct request *r, enum store_verb verb, const struct store_reply *reply)
{
	ERR_AUTO e = { 0 };
	struct span why = reply->message;
	struct store_request asked = { .verb = verb, .kind = KIND_FRAMEWORK };
	int status = reply->status;
	/* Explanations are for operators and say what to do. */
	bool explained = status == 401 || status == 403 || status == 404 || status == 507;
	if (reply->outcome == STORE_NOT_FOUND)
		(void)err_set(&e, NO_JOB);
	else if (reply->outcome == STORE_REFUSED && explained)
		explain_refusal(&e, &asked, reply);
	else if (reply->outcome == STORE_REFUSED)
		(void)err_set(&e, UNKNOWN_ERROR, "the API server refuses it: %.*s", (int)why.n,
		              why.p);
	else
		(void)err_set(&e, UNAVAILABLE, "the store of jobs does not answer: %.*s; try again",
		              (int)why.n, why.p);
	answer_error(r, &e);
}

/* Its owner, and admins, are told if files show that the job was there. */
static void job_refuse_absent(struct request *r, const struct job_id *id)
{
	const struct server *s = r->loop->server;
	const struct account *who = r->principal;
	bool may = who && id->user.p && (who->admin || span_is(id->user, who->name));
	const char *job = arena_printf(&r->arena, "%.*s~%.*s", (int)id->user.n, id->user.p,
	                               (int)id->job.n, id->job.p);
	if (may && s->local && aside_has(s->options->local, span_of(job)))
		answer_refuse(r, 404, "NoJobError",
		              arena_printf(&r->arena,
		                           "there is no such job: the database has lost it. An "
		                           "administrator finds its files, and its logs, in the "
		                           "server's directory, in damaged/%s",
		                           job));
	else
		answer_refuse(r, NO_JOB);
}

/* ---- access ---- */

bool job_access_allowed(const struct request *r, const struct job_entry *job, enum job_need need)
{
	const char *visibility = r->loop->server->options->visibility;
	const struct account *who = r->principal;
	if (need == JOB_ANY || need == JOB_LOOK ||
	    (who && (who->admin || (job->user[0] && strcmp(who->name, job->user) == 0))))
		return true;
	/* Jobs without an owner are visible to admins only. */
	if (need == JOB_OWN || !job->user[0])
		return false;
	if (strcmp(visibility, "all") == 0)
		return true;
	if (!who || strcmp(visibility, "vc") != 0)
		return false;
	for (size_t i = 0; i < who->facts.n_virtual_clusters; i++)
		if (span_is(who->facts.virtual_clusters[i], job->cluster))
			return true;
	return who->facts.any_virtual_cluster;
}

static void drop_job(void *job)
{
	job_entry_drop(job);
}

void job_keep(struct request *r, const struct job_entry *job)
{
	request_on_end(r, drop_job, (void *)(uintptr_t)job); /* NOLINT(performance-no-int-to-ptr) */
}

/* Takes over the reference. */
static void job_search_end(struct job_search *s, const struct job_entry *job)
{
	struct request *r = s->r;
	bool vc = strcmp(r->loop->server->options->visibility, "vc") == 0;
	job_keep(r, job);
	bool may = job_access_allowed(r, job, r->route->need);
	if (may && s->found)
		s->found(r, job);
	else if (may)
		job_doc(r, job, s->came);
	else if (r->route->need == JOB_SEE && vc)
		answer_refuse(r, FORBIDDEN,
		              "this is for the job's owner, users of its virtual cluster, and "
		              "admins (--visibility vc)");
	else
		answer_refuse(r, FORBIDDEN, "this is for the job's owner and admins");
}

/* ---- in the store ---- */

void job_store_get(struct request *r, enum object_kind kind, const char *name, store_callback *done,
                   void *arg)
{
	const struct loop *l = r->loop;
	request_wait(r);
	store_request(l->store,
	              &(struct store_request){
			  .verb = STORE_GET,
			  .kind = kind,
			  .name = name,
			  .whole = true,
			  .user = r->user,
			  .deadline_ms = clock_ms() + l->server->options->deadline_s * 1000,
			  .done = done,
			  .arg = arg,
		      });
}

bool job_store_silent(const struct store_reply *reply)
{
	return reply->outcome == STORE_BUSY || reply->outcome == STORE_AMBIGUOUS ||
	       reply->outcome == STORE_FULL;
}

/* Another server may have created the job just now: the cache learns of it here. */
static void job_search_answered(void *arg, const struct store_reply *reply)
{
	struct job_search *s = arg;
	struct job_entry *job = NULL;
	if (reply->outcome == STORE_NOT_FOUND) {
		job_refuse_absent(s->r, &s->id);
		return;
	}
	if (reply->outcome != STORE_OK) {
		job_store_failed(s->r, STORE_GET, reply);
		return;
	}
	if (scan_valid(reply->body, SCAN_DEPTH_MAX))
		job = job_entry_new(reply->body);
	if (!job || !job_id_fits(&s->id, job, false)) {
		job_entry_drop(job);
		answer_refuse(s->r, NO_JOB);
		return;
	}
	if (s->r->loop->server->cache)
		cache_note(s->r->loop->server->cache, job_entry_hold(job));
	job_search_end(s, job);
}

/* ---- in the cache ---- */

/* Returns a reference, or NULL. */
static const struct job_entry *job_find_search_cache(struct job_search *s)
{
	struct cache *cache = s->r->loop->server->cache;
	if (!cache)
		return NULL;
	CACHE_VIEW_AUTO *view = cache_view(cache);
	s->warm = view_warm(view);
	const char *alias = s->r->route->need == JOB_OWN ? NULL : s->id.alias;
	const struct job_entry *c = s->id.name ? view_find(view, span_of(s->id.name)) : NULL;
	if (c && job_id_fits(&s->id, c, false))
		return job_entry_hold(c);
	c = alias ? view_find(view, span_of(alias)) : NULL;
	return c && job_id_fits(&s->id, c, true) ? job_entry_hold(c) : NULL;
}

static void job_search_begin(struct request *r, job_found *found, job_doc_came *came)
{
	struct job_search *s = ARENA_NEW(&r->arena, struct job_search, 1);
	struct job_id own;
	*s = (struct job_search){ .r = r, .found = found, .came = came };
	/* Only paths of v1 have {user} and {job}. */
	if (!(route_names_user(r->route) ? job_id_pair(r->args[0], r->args[1], &r->arena, &s->id)
	                                 : job_id_read(r->args[0], &r->arena, &s->id))) {
		answer_refuse(r, NO_JOB);
		return;
	}
	const struct job_entry *job = job_find_search_cache(s);
	/* Clients of PAI 0.8, where jobs had no users, ask for NAME: the client's own job, unless a
	 * foreign Framework has this name. */
	if (!job && s->warm && !s->id.user.p && r->principal && route_is_v1(r->route) &&
	    job_id_pair(span_of(r->principal->name), r->args[0], &r->arena, &own)) {
		s->id = own;
		job = job_find_search_cache(s);
	}
	bool foreign = !s->id.user.p; /* rest-lit creates no such Framework */
	const char *name = s->id.name;
	if (!name && r->route->need != JOB_OWN)
		name = s->id.alias;
	bool missing = !name || (s->warm && foreign);
	if (job)
		job_search_end(s, job);
	else if (!missing && rate_limit_lookup(r, !s->warm))
		job_store_get(r, KIND_FRAMEWORK, name, job_search_answered, s);
	else if (missing || s->warm)
		job_refuse_absent(r, &s->id);
}

void job_find(struct request *r, job_found *found)
{
	job_search_begin(r, found, NULL);
}

void job_find_doc(struct request *r, job_doc_came *came)
{
	job_search_begin(r, NULL, came);
}

static void job_doc_read(void *arg, const struct store_reply *reply)
{
	const struct doc_wanted *d = arg;
	struct request *r = d->r;
	bool good = reply->outcome == STORE_OK && span_is(reply->uid, d->job->uid) &&
	            scan_valid(reply->body, SCAN_DEPTH_MAX);
	struct job_entry *now = good ? job_entry_new(reply->body) : NULL;
	if (reply->outcome != STORE_OK) {
		job_store_failed(r, STORE_GET, reply);
	} else if (!now) {
		answer_refuse(r, NO_JOB); /* it was recreated meanwhile */
	} else {
		job_keep(r, now); /* the cache can be behind: state and tasks are of one version */
		d->came(r, now, arena_span(&r->arena, reply->body));
	}
}

void job_doc(struct request *r, const struct job_entry *job, job_doc_came *came)
{
	struct span doc;
	if (job_entry_doc(job, &r->arena, &doc)) {
		came(r, job, doc);
		return;
	}
	struct doc_wanted *d = ARENA_NEW(&r->arena, struct doc_wanted, 1);
	*d = (struct doc_wanted){ r, job, came };
	job_store_get(r, KIND_FRAMEWORK, job->name, job_doc_read, d);
}

/* ---- ids ---- */

void job_id_text(struct str *out, const struct job_entry *job)
{
	if (job->legacy)
		str_puts(out, job->name);
	else
		str_printf(out, "%s~%s", job->user, job->job);
}

/* OpenPAI's rule for names of foreign Frameworks. */
static const char *alias_of(struct span id, struct arena *a)
{
	static const char PREFIX[] = "unknown";
	size_t skip = span_starts(id, PREFIX) ? sizeof(PREFIX) - 1 : 0;
	id = (struct span){ id.p + skip, id.n - skip };
	char *out = arena_alloc(a, id.n + 1);
	out[span_lower_alnum(out, id)] = '\0';
	return segment_ok(out) ? out : NULL;
}

bool job_id_pair(struct span user, struct span job, struct arena *a, struct job_id *out)
{
	if (!user_name_ok(user) || job.n == 0 || user.n + job.n > JOB_ID_MAX)
		return false;
	char *name = arena_alloc(a, 33);
	md5_hex(name,
	        span_of(arena_printf(a, "%.*s~%.*s", (int)user.n, user.p, (int)job.n, job.p)));
	*out = (struct job_id){ user, job, name, alias_of(job, a) };
	return true;
}

bool job_id_read(struct span id, struct arena *a, struct job_id *out)
{
	if (id.n == 0 || id.n > JOB_ID_MAX)
		return false;
	size_t n = span_chr(id, '~');
	if (n < id.n) {
		bool ok = job_id_pair(span_to(id, n), span_from(id, n + 1), a, out);
		if (ok)
			out->alias = NULL;
		return ok;
	}
	const char *name = arena_dup(a, id);
	*out = (struct job_id){ .name = segment_ok(name) ? name : NULL, .alias = alias_of(id, a) };
	if (out->name && out->alias && strcmp(out->name, out->alias) == 0)
		out->alias = NULL;
	return out->name || out->alias;
}

bool job_id_fits(const struct job_id *id, const struct job_entry *found, bool alias)
{
	if (alias)
		return found->legacy &&
		       (!id->user.p || span_is(id->user, job_entry_shown_user(found)));
	if (!id->user.p)
		return found->legacy;
	return span_is(id->user, found->user) && span_is(id->job, found->job);
}
