/* Lists the losses of a return from `rest-lit controller` to FrameworkController 1.0.1.  That
 * decodes Frameworks with the Go types of Kubernetes 1.16 and writes them back: members that these
 * types lack are gone, and one value that does not fit them ends its LIST and its WATCH of all
 * Frameworks.  framework_1_16.json has these types: for each struct its members, and for each
 * member a scalar or the name of a struct, behind `[` for a list and `{` for a map.  The member
 * `privileged` of a pod, which OpenPAI writes and no Kubernetes knows, is no loss. */
#include "base/doc/tree.h"
#include "base/embed.h"
#include "base/enc.h"
#include "base/json/scan.h"
#include "base/posix/clock.h"
#include "base/quantity.h"
#include "jobs/store/paths.h"
#include "jobs/store/reply.h"
#include "server/check/check_internal.h"

EMBED(framework_1_16, "server/check/framework_1_16.json");

/* Frameworks of a page: etcd takes 1.5 MiB each. */
enum { PAGE = 10, QUERY_MAX = 16384, POINTER_MAX = 65536 };

struct hand_back {
	struct check_session *c;
	struct arena page; /* of the page */
	const char *name;
	struct str at;  /* JSON pointer of the value */
	bool is_pod;    /* it is in a pod template */
	bool has_ended; /* the Framework, which is never written again */
	bool is_broken; /* it cannot be decoded; the rest of it is not looked at */
	size_t n, n_bad;
};

/* ---- types ---- */

static struct span hand_find(struct hand_back *h, struct span members, struct span key)
{
	struct span have;
	struct span type;
	for (struct scan s = scan_begin(members); scan_member(&s, &have, &type);)
		if (span_eq(have, key))
			return scan_type(type) == SCAN_STRING ? scan_text(type, &h->page) : type;
	return (struct span){ NULL, 0 };
}

/* quantity_milli takes no sign, and neither nano nor micro. */
static bool hand_is_quantity(struct span text)
{
	size_t sign = text.n && (text.p[0] == '-' || text.p[0] == '+');
	size_t tiny = text.n > sign + 1 && strchr("nu", text.p[text.n - 1]);
	return quantity_milli(span_to(span_from(text, sign), text.n - sign - tiny)) >= 0;
}

static bool hand_fits(struct hand_back *h, struct span type, struct span value)
{
	enum scan_type have = scan_type(value);
	bool is_text = have == SCAN_STRING;
	struct span text = span_trim(scan_text(value, &h->page));
	int64_t n;
	if (span_is(type, "int32") || (span_is(type, "port") && !is_text))
		return scan_int(value, INT32_MIN, INT32_MAX, &n);
	if (span_is(type, "int64"))
		return scan_int(value, INT64_MIN, INT64_MAX, &n);
	if (span_is(type, "quantity"))
		return have == SCAN_NUMBER || hand_is_quantity(text);
	if (span_is(type, "bool"))
		return have == SCAN_BOOL;
	if (span_is(type, "time"))
		return scan_time_ms(value, &n);
	return (is_text && !span_is(type, "bytes")) || span_is(type, "any") ||
	       (is_text && base64_decode(&h->page, text, &text) == 0);
}

/* ---- a Framework ---- */

static void hand_report(struct hand_back *h, const char *found, const char *mend)
{
	h->n_bad++;
	check_report(h->c, CHECK_FAILED,
	             arena_printf(&h->page, "Framework %s: %.*s %s", h->name, (int)h->at.n,
	                          h->at.p ?: "", found),
	             mend);
}

static void hand_value(struct hand_back *h, struct span type, struct span value)
{
	size_t at = h->at.n;
	size_t i = 0;
	bool was_pod = h->is_pod;
	bool is_list = type.p[0] == '[';
	bool is_struct = is_upper(type.p[0]);
	bool is_scalar = is_lower(type.p[0]);
	struct span members =
	    is_struct ? hand_find(h, EMBEDDED(framework_1_16), type) : (struct span){ NULL, 0 };
	enum scan_type have = scan_type(value);
	struct span key;
	struct span one;
	if (have == SCAN_NULL) /* as if it were absent */
		return;
	if (is_scalar ? !hand_fits(h, type, value) : have != (is_list ? SCAN_ARRAY : SCAN_OBJECT)) {
		h->is_broken = true;
		hand_report(h,
		            arena_printf(&h->page,
		                         "is no %.*s: FrameworkController cannot decode it, and "
		                         "sees no Framework at all",
		                         is_list ? 4 : (int)type.n, is_list ? "list" : type.p),
		            arena_printf(&h->page, "kubectl -n %s delete framework %s",
		                         h->c->server->namespace_name, h->name));
	}
	h->is_pod |= span_is(type, "PodTemplateSpec");
	struct scan s = scan_begin(value);
	while (!is_scalar && !h->is_broken &&
	       (is_list ? scan_item(&s, &one) : scan_member(&s, &key, &one))) {
		struct span next = is_struct ? hand_find(h, members, key) : span_from(type, 1);
		if (is_list)
			pointer_index(&h->at, i++);
		else
			pointer_key(&h->at, key);
		if (next.p)
			hand_value(h, next, one);
		else if (h->is_pod && !h->has_ended && scan_type(one) != SCAN_NULL)
			hand_report(h, "is lost: Kubernetes 1.16 does not know it",
			            "wait until the job has ended, or stop it; else the pods of "
			            "its later attempts lack it");
		h->at.n = at;
	}
	h->is_pod = was_pod;
}

/* ---- all Frameworks of the namespace, page by page ---- */

/* Appends where the next page begins.  false: a line says why there is none. */
static bool hand_page(struct hand_back *h, const char *query, struct str *token)
{
	struct store_reply reply;
	struct store_request r = { .verb = STORE_LIST,
		                   .kind = KIND_FRAMEWORK,
		                   .query = query,
		                   .whole = true,
		                   .deadline_ms = clock_ms() + h->c->wait_ms };
	struct span items = { NULL, 0 };
	struct span one;
	if (store_call(h->c->caller, &r, &h->page, &reply) == STORE_OK &&
	    scan_valid(reply.body, SCAN_DEPTH_MAX))
		items = reply_items(reply.body, token);
	if (!items.p)
		SAY(h->c, CHECK_FAILED, NULL, "not all Frameworks could be read: %.*s",
		    (int)reply.message.n, reply.message.p);
	for (struct scan s = scan_begin(items); scan_item(&s, &one); h->n++) {
		h->name =
		    arena_dup(&h->page, scan_text(scan_path(one, "metadata", "name"), &h->page));
		h->has_ended = span_is(scan_path(one, "status", "state"), "\"Completed\"");
		h->is_broken = h->at.full = false;
		h->at.n = 0;
		hand_value(h, SPAN("Framework"), one);
	}
	arena_done(&h->page);
	return items.p != NULL;
}

void check_hand_back(struct check_session *c)
{
	STR_AUTO token = STR_INIT(CONTINUE_MAX);
	struct hand_back h = { .c = c, .at = STR_INIT(POINTER_MAX) };
	bool good = true;
	do {
		STR_AUTO query = STR_INIT(QUERY_MAX);
		str_printf(&query, "limit=%d&continue=", PAGE);
		query_encode(&query, str_view(&token));
		token.n = 0;
		good = hand_page(&h, str_c(&query), &token);
	} while (good && token.n);
	if (good && h.n_bad == 0)
		SAY(c, CHECK_OK, NULL, "%zu Frameworks lose nothing", h.n);
	str_done(&h.at);
}
