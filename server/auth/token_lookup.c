/* Sends TokenReviews and GETs of Secrets, and judges the untrusted objects that come back. */
#include "server/auth/token_lookup.h"

#include <assert.h>
#include <jansson.h>
#include <stdlib.h>

#include "base/enc.h"
#include "base/json/put.h"
#include "base/json/scan.h"
#include "base/posix/clock.h"
#include "jobs/store/reply.h"
#include "jobs/store/store.h"
#include "server/accounts/account.h"
#include "server/auth/auth_internal.h"
#include "server/auth/token_store.h"
#include "server/config/options.h"
#include "server/http/loop.h"

/* WAIT_MS: a client waits so long at most, which bridges short outages of the API server. */
enum { WAIT_MS = 10000, WHY_MAX = 600, BODY_EXTRA = 1024 };

/* Clocks may differ so much before an expired token is refused without a TokenReview. */
enum { SKEW_S = 300, CLAIMS_DEPTH = 16 };

/* A look-up, in memory of its own, which is wiped. */
struct token_lookup {
	token_lookup_callback *done;
	void *arg;
	enum lookup_how how;
	struct span token;
	const char *place, *name; /* of the object; place NULL: TokenReview */
	const char *id, *audience;
	bool made_here; /* the object: it is absent until it has an entry */
	struct arena arena;
};

static enum token_verdict lookup_verdict(const struct token_lookup *k,
                                         const struct store_reply *reply, struct review_user *who)
{
	switch (k->how) {
	case LOOKUP_STORED:
		return token_verdict_stored(reply->body, k->token);
	case LOOKUP_DENIED:
		return token_verdict_denied(reply->body, k->id);
	case LOOKUP_REVIEW:
		return token_verdict_review(reply->body, k->audience, who);
	}
	return TOKEN_UNKNOWN;
}

/* Appends the reason for the log. */
static void lookup_explain(struct str *out, const struct token_lookup *k, enum token_verdict f,
                           const struct store_reply *reply)
{
	static const char *const BAD[] = {
		[LOOKUP_STORED] = "not stored for this user: revoked, or never stored",
		[LOOKUP_DENIED] = "revoked: it is in the deny list",
		[LOOKUP_REVIEW] =
		    "the TokenReview has not authenticated it for the configured audience",
	};
	if (f == TOKEN_INVALID) {
		str_puts(out, BAD[k->how]);
	} else if (f == TOKEN_UNKNOWN) {
		if (k->how == LOOKUP_REVIEW)
			str_puts(out, "TokenReview: ");
		else
			str_printf(out, "Secret %s/%s: ", k->place, k->name);
		if (reply->outcome == STORE_OK)
			str_puts(out, "is malformed");
		else
			str_span(out, reply->message);
	}
}

/* A failed request or a malformed object gives TOKEN_UNKNOWN: the token is neither valid nor
 * invalid. */
static void lookup_answered(void *arg, const struct store_reply *reply)
{
	struct token_lookup *k = arg;
	struct review_user who = { "", "", "" };
	STR_AUTO why = STR_INIT(WHY_MAX);
	enum token_verdict f = TOKEN_UNKNOWN;
	if (reply->outcome == STORE_OK)
		f = lookup_verdict(k, reply, &who);
	else if (reply->outcome == STORE_NOT_FOUND && k->made_here)
		f = TOKEN_VALID;
	lookup_explain(&why, k, f, reply);
	k->done(k->arg, f, &who, str_c(&why));
	arena_wipe(&k->arena);
	free(k);
}

/* Splits "NAMESPACE/NAME"; returns the namespace, in the arena. */
static const char *lookup_place(const char *text, struct arena *a, const char **name)
{
	struct span rest = span_of(text);
	const char *place = arena_dup(a, span_next(&rest, '/'));
	*name = rest.p;
	return place;
}

void token_lookup_start(struct loop *l, const struct token_question *q, token_lookup_callback *done,
                        void *arg)
{
	const struct options *o = l->server->options;
	STR_AUTO body = STR_SECRET(TOKEN_MAX + BODY_EXTRA);
	struct token_lookup *k = xcalloc(1, sizeof(*k));
	*k = (struct token_lookup){ .done = done, .arg = arg, .how = q->how };
	const char *user = q->user[0] ? arena_dup(&k->arena, span_of(q->user)) : NULL;
	switch (q->how) {
	case LOOKUP_STORED: {
		char *secret = arena_alloc(&k->arena, 2 * PAI_NAME_MAX + 1);
		pai_secret_name(secret, span_of(q->user));
		k->token = arena_span(&k->arena, q->token);
		k->place = o->token_namespace;
		k->name = secret;
		break;
	}
	case LOOKUP_DENIED:
		k->id = arena_dup(&k->arena, span_of(q->id));
		k->place = lookup_place(o->deny_list, &k->arena, &k->name);
		k->made_here = l->server->local;
		break;
	case LOOKUP_REVIEW:
		k->audience = arena_dup(&k->arena, span_of(q->audience));
		k->name = "review"; /* TokenReviews have none, but each request needs one */
		str_puts(&body, "{\"apiVersion\":\"authentication.k8s.io/v1\","
		                "\"kind\":\"TokenReview\",\"spec\":{");
		json_put_text(&body, "token", q->token);
		json_put_open(&body, "audiences", '[');
		json_put_word(&body, NULL, q->audience);
		str_puts(&body, "]}}");
		break;
	}
	bool review = q->how == LOOKUP_REVIEW;
	int64_t wait_ms = o->deadline_s * 1000;
	store_request(l->store,
	              &(struct store_request){
			  .verb = review ? STORE_CREATE : STORE_GET,
			  .kind = review ? KIND_TOKENREVIEW : KIND_SECRET,
			  .name = k->name,
			  .namespace_name = k->place,
			  .whole = true,
			  .body = { arena_span(&k->arena, str_view(&body)) },
			  .user = user,
			  .urgent = !user,
			  .deadline_ms = clock_ms() + (wait_ms < WAIT_MS ? wait_ms : WAIT_MS),
			  .done = lookup_answered,
			  .arg = k,
		      });
}

/* ---- readiness ---- */

/* The name of a Secret that no user has: hex of an invalid user name. */
static const char NOBODY[] = "2d";

struct lookup_probe {
	struct loop *loop;
	void (*done)(void *l, const char *problem);
	bool required; /* the object must exist */
	struct arena arena;
};

static void lookup_probed(void *arg, const struct store_reply *reply)
{
	struct lookup_probe *p = arg;
	const char *problem = NULL;
	if (reply->outcome == STORE_NOT_FOUND && p->required)
		problem = "the Secret of --deny-list does not exist; create it (empty)";
	else if (reply->outcome == STORE_REFUSED)
		problem = p->required ? "the Secret of --deny-list cannot be read"
		                      : "the Secrets with tokens cannot be read";
	else if (reply->outcome != STORE_OK && reply->outcome != STORE_NOT_FOUND)
		problem = "the store does not answer";
	p->done(p->loop, problem);
	arena_done(&p->arena);
	free(p);
}

bool token_lookup_probe(struct loop *l, int64_t deadline_ms,
                        void (*done)(void *l, const char *problem))
{
	const struct options *o = l->server->options;
	bool stored = tokens_stored(o);
	if (!stored && !o->deny_list[0])
		return false;
	struct lookup_probe *p = xcalloc(1, sizeof(*p));
	*p = (struct lookup_probe){ l, done, !stored && !l->server->local, { 0 } };
	const char *name = NOBODY;
	const char *place =
	    stored ? o->token_namespace : lookup_place(o->deny_list, &p->arena, &name);
	store_request(l->store, &(struct store_request){
				    .verb = STORE_GET,
				    .kind = KIND_SECRET,
				    .name = name,
				    .namespace_name = place,
				    .urgent = true,
				    .deadline_ms = deadline_ms,
				    .done = lookup_probed,
				    .arg = p,
				});
	return true;
}

/* ---- reading objects ---- */

static struct span lookup_text_of(const json_t *v)
{
	const char *p = json_string_value(v);
	return (struct span){ p ? p : "", p ? json_string_length(v) : 0 };
}

static bool object_is_kind(const json_t *object, const char *kind)
{
	return span_is(lookup_text_of(json_object_get(object, "kind")), kind);
}

/* The data of a Secret; NULL if it is empty.  -1: not a Secret. */
static int secret_data(const json_t *secret, json_t **out)
{
	json_t *data = json_object_get(secret, "data");
	*out = json_is_null(data) ? NULL : data;
	return !object_is_kind(secret, "Secret") || (*out && !json_is_object(data)) ? -1 : 0;
}

enum token_verdict token_verdict_stored(struct span secret, struct span token)
{
	json_auto_t *object = reply_parse(secret);
	json_t *data;
	json_t *value;
	const char *key;
	if (secret_data(object, &data) < 0)
		return TOKEN_UNKNOWN;
	/* Compares in base64, which is unique for each text. */
	STR_AUTO wanted = STR_SECRET(token.n * 2 + 8);
	str_base64(&wanted, token);
	bool found = false;
	json_object_foreach (data, key, value)
		found |= secret_equal(lookup_text_of(value), str_view(&wanted));
	return found ? TOKEN_VALID : TOKEN_INVALID;
}

/* The keys of the deny list are ids of tokens. */
enum token_verdict token_verdict_denied(struct span secret, const char *id)
{
	json_auto_t *object = reply_parse(secret);
	json_t *data;
	if (secret_data(object, &data) < 0)
		return TOKEN_UNKNOWN;
	return json_object_get(data, id) ? TOKEN_INVALID : TOKEN_VALID;
}

static void lookup_copy_text(char *out, size_t max, struct span text)
{
	size_t n = text.n <= max ? text.n : 0;
	memcpy(out, text.p, n);
	out[n] = '\0';
}

/* The only value of an extra attribute of the user, or "". */
static struct span review_extra_of(const json_t *user, const char *key)
{
	const json_t *list = json_object_get(json_object_get(user, "extra"), key);
	return lookup_text_of(json_array_size(list) == 1 ? json_array_get(list, 0) : NULL);
}

enum token_verdict token_verdict_review(struct span review, const char *audience,
                                        struct review_user *out)
{
	json_auto_t *object = reply_parse(review);
	const json_t *status = json_object_get(object, "status");
	if (!object_is_kind(object, "TokenReview") || !json_is_object(status))
		return TOKEN_UNKNOWN;
	const json_t *user = json_object_get(status, "user");
	struct span name = lookup_text_of(json_object_get(user, "username"));
	const json_t *audiences = json_object_get(status, "audiences");
	bool for_us = false;
	for (size_t i = 0; i < json_array_size(audiences); i++)
		for_us |= span_is(lookup_text_of(json_array_get(audiences, i)), audience);
	/* An API server without audience support answers without them. */
	if (!json_is_true(json_object_get(status, "authenticated")) || !for_us || name.n == 0 ||
	    name.n > SUBJECT_MAX)
		return TOKEN_INVALID;
	lookup_copy_text(out->subject, SUBJECT_MAX, name);
	lookup_copy_text(out->pod_name, POD_NAME_MAX,
	                 review_extra_of(user, "authentication.kubernetes.io/pod-name"));
	lookup_copy_text(out->pod_uid, POD_UID_MAX,
	                 review_extra_of(user, "authentication.kubernetes.io/pod-uid"));
	return TOKEN_VALID;
}

const char *token_review_claims(struct span token, const char *audience, int64_t now_s,
                                struct arena *a, struct review_user *out)
{
	size_t head = span_find(token, 0, ".");
	size_t end = head == SIZE_MAX ? SIZE_MAX : span_find(token, head + 1, ".");
	struct span claims;
	int64_t expires_s;
	*out = (struct review_user){ "", "", "" };
	if (end == SIZE_MAX ||
	    base64url_decode(a, (struct span){ token.p + head + 1, end - head - 1 }, &claims) < 0 ||
	    !scan_valid(claims, CLAIMS_DEPTH))
		return "it is not a token of a service account";
	struct span meant = scan_get(claims, "aud");
	bool right = span_is(scan_text(meant, a), audience);
	struct scan s = scan_begin(meant);
	for (struct span one; !right && scan_item(&s, &one);)
		right = span_is(scan_text(one, a), audience);
	if (!right)
		return "it is for another audience";
	if (!scan_int(scan_get(claims, "exp"), 0, INT64_MAX, &expires_s) ||
	    expires_s <= now_s - SKEW_S)
		return "it has expired";
	struct span pod = scan_path(claims, "kubernetes.io", "pod");
	lookup_copy_text(out->subject, SUBJECT_MAX, scan_text(scan_get(claims, "sub"), a));
	lookup_copy_text(out->pod_name, POD_NAME_MAX, scan_text(scan_get(pod, "name"), a));
	lookup_copy_text(out->pod_uid, POD_UID_MAX, scan_text(scan_get(pod, "uid"), a));
	return NULL;
}
