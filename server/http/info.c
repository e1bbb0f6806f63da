/* What this server is, and how to log in. */
#include "server/http/answer.h"
#include "server/http/handlers.h"
#include "server/http/loop.h"

/* `basic` also where nobody has a password: then clients have a token, and what they send is told
 * so.  There is no page for logging in, which `OIDC` would send them to. */
void info_get(struct request *r)
{
	const struct options *o = r->loop->server->options;
	str_printf(&r->reply.body,
	           "{\"name\":\"%s\",\"version\":\"%s\",\"launcherType\":\"k8s\","
	           "\"authnMethod\":\"basic\"}\n",
	           o->compat[0] ? "PAI RESTful API" : "rest-lit", REST_LIT_VERSION);
	answer_json(r, 200);
}

void authn_get(struct request *r)
{
	str_puts(&r->reply.body,
	         "{\"authn_type\":\"basic\",\"loginURI\":\"/api/v1/authn/basic/login\","
	         "\"loginURIMethod\":\"post\"}\n");
	answer_json(r, 200);
}
