/* The page at /, and the two questions that a supervisor asks. */
#include <assert.h>

#include "base/embed.h"
#include "k8s/store.h"
#include "server/answer.h"
#include "server/delivery.h"
#include "server/follow.h"
#include "server/handlers.h"
#include "server/lookup.h"
#include "server/loop.h"
#include "server/routes.h"

EMBED(index_html, "server/index.html");

/* In the page, where the table of routes belongs. */
#define ROUTES_MARK "<!-- routes -->\n"

/* Readiness is asked of the store at most so often, and waited for so long. */
enum { READY_CACHE_MS = 2000, READY_WAIT_MS = 2000 };

/* What stands between backquotes is code.  The table is ours: nothing to escape. */
static void put_doc(struct str *out, const char *doc)
{
	bool code = false;
	for (; *doc; doc++) {
		if (*doc == '`') {
			code = !code;
			str_puts(out, code ? "<code>" : "</code>");
		} else {
			str_char(out, *doc);
		}
	}
}

static void put_routes(struct str *out)
{
	for (size_t i = 0; i < N_ROUTES; i++) {
		str_printf(out, "<tr><td><code>%s %s</code></td><td>", route_method(&ROUTES[i]),
		           ROUTES[i].path);
		put_doc(out, ROUTES[i].doc);
		str_puts(out, "</td></tr>\n");
	}
}

void index_get(struct request *r)
{
	struct span page = EMBEDDED(index_html);
	size_t at = span_find(page, 0, ROUTES_MARK);
	assert(at != SIZE_MAX);
	answer_header(r, "Content-Security-Policy",
	              "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; "
	              "form-action 'none'; frame-ancestors 'none'");
	r->reply.status = 200;
	r->reply.type = "text/html; charset=utf-8";
	str_put(&r->reply.body, page.p, at);
	put_routes(&r->reply.body);
	at += sizeof(ROUTES_MARK) - 1;
	str_put(&r->reply.body, page.p + at, page.n - at);
	answer_send(r);
}

void healthz_get(struct request *r)
{
	answer_text(r, 200, "ok\n");
}

static void say_ready(struct request *r)
{
	if (r->loop->not_ready)
		answer_refuse(r, UNAVAILABLE, r->loop->not_ready);
	else
		answer_text(r, 200, "ok\n");
}

static void known(void *arg, const char *problem)
{
	struct loop *l = arg;
	l->probing = false;
	l->not_ready = problem;
	l->ready_until_ms = store_now_ms() + READY_CACHE_MS;
	for (size_t i = 0; i < l->n_asking; i++)
		say_ready(l->asking[i]);
	l->n_asking = 0;
}

/* Jobs could be made; but who could submit them, if no token can be checked? */
static void probed(void *arg, const struct store_reply *reply)
{
	struct loop *l = arg;
	if (reply->outcome != STORE_OK)
		known(l, "the store does not answer");
	else if (!lookup_probe(l, store_now_ms() + READY_WAIT_MS, known))
		known(l, NULL);
}

static void probe(struct loop *l)
{
	l->probing = true;
	store_request(l->store, &(struct store_request){
				    .verb = STORE_READY,
				    .kind = KIND_FRAMEWORK,
				    .name = "",
				    .urgent = true,
				    .deadline_ms = store_now_ms() + READY_WAIT_MS,
				    .done = probed,
				    .arg = l,
				});
}

void readyz_get(struct request *r)
{
	struct loop *l = r->loop;
	if (atomic_load(&l->server->phase) != PHASE_RUN) {
		answer_refuse(r, UNAVAILABLE, "shutting down");
		return;
	}
	const char *problem = delivery_problem(l->server);
	if (!problem)
		problem = follow_problem(l->server, &r->arena);
	if (problem) {
		answer_refuse(r, UNAVAILABLE, problem);
		return;
	}
	bool fresh = store_now_ms() < l->ready_until_ms;
	if (fresh || l->n_asking == sizeof(l->asking) / sizeof(l->asking[0])) {
		say_ready(r);
		return;
	}
	l->asking[l->n_asking++] = r;
	request_wait(r);
	if (!l->probing)
		probe(l);
}
