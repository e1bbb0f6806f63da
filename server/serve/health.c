/* The page at /, the probes /healthz and /readyz, and the routes about the login method. */
#include "server/http/loop.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/embed.h"
#include "base/image/image.h"
#include "base/json/put.h"
#include "base/posix/clock.h"
#include "jobs/store/store.h"
#include "server/auth/auth.h"
#include "server/auth/token.h"
#include "server/auth/token_lookup.h"
#include "server/cluster/follow.h"
#include "server/code/job_code.h"
#include "server/config/options.h"
#include "server/http/request.h"
#include "server/serve/routes.h"
#include "server/state/server.h"
#include "server/web/web.h"

EMBED(index_txt, "server/index.txt");

/* The placeholder in the page for the address of this server. */
#define SERVER_MARK "${server}"

/* The interval of probes of the store, and their time limit. */
enum { READY_CACHE_MS = 2000, READY_WAIT_MS = 2000 };

void index_get(struct request *r)
{
	if (web_index(r))
		return;
	const struct server *s = r->loop->server;
	struct span page = EMBEDDED(index_txt);
	size_t at = span_find(page, 0, SERVER_MARK);
	assert(at != SIZE_MAX);
	struct str *out = &r->reply.body;
	str_put(out, page.p, at);
	str_puts(out, s->tls ? "https://" : "http://");
	/* The host of --listen, as clients on this machine call it. */
	const char *colon = strrchr(s->options->listen, ':');
	struct span host = { s->options->listen, colon ? (size_t)(colon - s->options->listen) : 0 };
	if (host.n == 0 || span_is(host, "0.0.0.0"))
		host = SPAN("127.0.0.1");
	else if (span_is(host, "[::]"))
		host = SPAN("[::1]");
	str_span(out, host);
	str_printf(out, ":%u", s->port);
	at += sizeof(SERVER_MARK) - 1;
	str_put(out, page.p + at, page.n - at);
	for (size_t i = 0; i < ROUTES.n; i++)
		str_printf(out, "    %-8s%s\n", route_method(&ROUTES.row[i]), ROUTES.row[i].path);
	r->reply.status = 200;
	r->reply.type = "text/plain; charset=utf-8";
	answer_send(r);
}

void healthz_get(struct request *r)
{
	answer_text(r, 200, "ok\n");
}

struct readiness {
	const char *problem; /* NULL: it was ready */
	bool probing;
	int64_t until_ms; /* 0: not known yet */
	struct request *waiting[64];
	size_t n;
};

static void readiness_answer(struct request *r)
{
	const struct readiness *is = r->loop->has->readiness;
	const char *problem = is->until_ms ? is->problem : "the store has not answered yet";
	if (problem)
		answer_refuse(r, UNAVAILABLE, problem);
	else
		answer_text(r, 200, "ok\n");
}

static void readiness_set(void *arg, const char *problem)
{
	const struct loop *l = arg;
	struct readiness *is = l->has->readiness;
	is->probing = false;
	is->problem = problem;
	is->until_ms = clock_ms() + READY_CACHE_MS;
	for (size_t i = 0; i < is->n; i++)
		readiness_answer(is->waiting[i]);
	is->n = 0;
}

/* The store answers; now check that tokens can be looked up. */
static void readiness_store_probed(void *arg, const struct store_reply *reply)
{
	struct loop *l = arg;
	if (reply->status == 507)
		readiness_set(l, "the directory of --local cannot be written: the disk is full or "
		                 "read-only");
	else if (reply->outcome != STORE_OK)
		readiness_set(l, "the store does not answer");
	else if (!token_lookup_probe(l, clock_ms() + READY_WAIT_MS, readiness_set))
		readiness_set(l, NULL);
}

void readyz_get(struct request *r)
{
	struct loop *l = r->loop;
	if (atomic_load(&l->server->phase) != PHASE_RUN) {
		answer_refuse(r, UNAVAILABLE, "shutting down");
		return;
	}
	const char *problem = atomic_load(&l->server->runtime_problem);
	if (!problem)
		problem = follow_problem(l->server, &r->arena);
	if (problem) {
		answer_refuse(r, UNAVAILABLE, problem);
		return;
	}
	struct readiness *is = l->has->readiness = l->has->readiness ?: xcalloc(1, sizeof(*is));
	bool fresh = clock_ms() < is->until_ms;
	if (fresh || is->n == ARRAY_SIZE(is->waiting)) {
		readiness_answer(r);
		return;
	}
	is->waiting[is->n++] = r;
	request_wait(r);
	if (is->probing)
		return;
	is->probing = true;
	store_request(l->store, &(struct store_request){
				    .verb = STORE_READY,
				    .kind = KIND_FRAMEWORK,
				    .name = "",
				    .urgent = true,
				    .deadline_ms = clock_ms() + READY_WAIT_MS,
				    .done = readiness_store_probed,
				    .arg = l,
				});
}

/* ---- the login method ---- */

/* Always `basic`, even without passwords: the login route then explains how to get a token.  `OIDC`
 * would send clients to a login page, which does not exist. */
void info_get(struct request *r)
{
	const struct server *s = r->loop->server;
	const struct options *o = s->options;
	struct str *out = &r->reply.body;
	str_printf(out,
	           "{\"name\":\"%s\",\"version\":\"%s\",\"launcherType\":\"k8s\","
	           "\"authnMethod\":\"basic\",\"code\":{",
	           o->compat[0] ? "PAI RESTful API" : "rest-lit", REST_LIT_VERSION);
	json_put_int(out, "maxBytes", s->local ? CODE_MACHINE : CODE_CLUSTER_PACKED);
	json_put_int(out, "maxUnpackedBytes", code_unpacked_max(s));
	json_put_int(out, "maxEntries", CODE_ENTRIES);
	str_char(out, '}');
	json_put_bool(out, "hostFiles", s->host_files);
	const char *image = s->host_commands ? IMAGE_OF_HOST : "";
	if (o->default_image[0] || image[0])
		json_put_word(out, "image", o->default_image[0] ? o->default_image : image);
	str_puts(out, "}\n");
	answer_json(r, 200);
}

void authn_get(struct request *r)
{
	const struct server *s = r->loop->server;
	bool passwords = !s->options->no_auth && strcmp(s->options->users, "openpai") == 0 &&
	                 keyring_has_secret(keyring_of(r->loop));
	const char *issuer;
	const char *client;
	struct str *out = &r->reply.body;
	str_printf(out,
	           "{\"authn_type\":\"basic\",\"loginURI\":\"/api/v1/authn/basic/login\","
	           "\"loginURIMethod\":\"post\",\"passwords\":%s",
	           passwords ? "true" : "false");
	json_put_open(out, "issuers", '[');
	for (size_t i = 0; keyring_login(keyring_of(r->loop), i, &issuer, &client); i++) {
		json_put_open(out, NULL, '{');
		json_put_word(out, "issuer", issuer);
		json_put_word(out, "clientId", client);
		str_char(out, '}');
	}
	str_puts(out, "]}\n");
	answer_json(r, 200);
}
