/*
 * The rules by which an answer, or the lack of one, is read; see verdict.h.
 *
 *	no answer, not all of it sent     not executed: again
 *	no answer, all of it sent         may have been executed; also 500, 502, 504
 *	429, 503                          not executed: again
 *	500, etcd takes no object so      not executed
 *	  large
 *	403, or 404 without a Status,     the API server has just started: again
 *	  soon after connecting
 *	404 with a Status of our name     not there
 *
 * What may have been executed is repeated only if that does no harm.
 */
#include "k8s/transport/verdict.h"

#include "k8s/transport/reply.h"

/* Once or twice is the same: reading, a merge patch of absolute values, and deleting by uid. */
static bool is_idempotent(const struct store_request *r)
{
	switch (r->verb) {
	case STORE_GET:
	case STORE_LIST:
	case STORE_READY:
	case STORE_PATCH:
		return true;
	case STORE_DELETE:
		return r->uid != NULL;
	case STORE_CREATE:
		return false;
	}
	return false;
}

static bool is_reading(const struct store_request *r)
{
	return r->verb == STORE_GET || r->verb == STORE_LIST || r->verb == STORE_READY;
}

static struct verdict no_answer(const struct store_request *r, const struct exchange *x)
{
	if (x->too_large && is_reading(r))
		return (struct verdict){ STORE_REFUSED, false };
	if (!x->handed_over || is_reading(r))
		return (struct verdict){ STORE_BUSY, !x->permanent };
	return (struct verdict){ STORE_AMBIGUOUS, is_idempotent(r) };
}

static struct verdict not_found(const struct store_request *r, const struct exchange *x)
{
	bool of_one = r->verb != STORE_CREATE && r->verb != STORE_LIST;
	if (of_one && reply_is_not_found(x->answer, r->name))
		return (struct verdict){ STORE_NOT_FOUND, false };
	/* A Status names the namespace; else the resource is not served, or not yet. */
	return (struct verdict){ STORE_REFUSED, x->answer == NULL && x->just_connected };
}

static struct verdict refused(const struct store_request *r, const struct exchange *x)
{
	switch (x->status) {
	case 403:
		return (struct verdict){ STORE_REFUSED, x->just_connected };
	case 404:
		return not_found(r, x);
	case 409:
		return (struct verdict){ r->verb == STORE_CREATE ? STORE_EXISTS : STORE_CONFLICT,
			                 false };
	case 429:
		return (struct verdict){ STORE_BUSY, true };
	default:
		return (struct verdict){ STORE_REFUSED, false };
	}
}

static struct verdict failed(const struct store_request *r, const struct exchange *x)
{
	if (x->status == 503)
		return (struct verdict){ STORE_BUSY, true };
	if (x->status == 500 && reply_is_too_large(x->answer))
		return (struct verdict){ STORE_REFUSED, false };
	return (struct verdict){ STORE_AMBIGUOUS, is_idempotent(r) };
}

/* One item that cannot be parsed must not hide the others of a list: that is taken apart by
 * whoever asked for it. */
static bool is_parsed(const struct store_request *r)
{
	return r->verb != STORE_DELETE && r->verb != STORE_LIST;
}

struct verdict verdict_of(const struct store_request *r, const struct exchange *x)
{
	struct verdict v = { STORE_OK, false };
	if (!x->complete)
		v = no_answer(r, x);
	else if (x->status >= 500)
		v = failed(r, x);
	else if (x->status < 200 || x->status >= 300)
		v = refused(r, x);
	else if (x->answer == NULL && is_parsed(r))
		v = (struct verdict){ STORE_AMBIGUOUS,
			              is_idempotent(r) }; /* no API server says that */
	if (r->verb == STORE_READY) {                     /* asked again soon enough */
		v.again = false;
		if (v.outcome == STORE_NOT_FOUND)
			v.outcome = STORE_OK;
	}
	return v;
}
