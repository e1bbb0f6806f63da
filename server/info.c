/* What this server is, and how to log in. */
#include "server/answer.h"
#include "server/handlers.h"
#include "server/loop.h"

/* Passwords are checked against users of OpenPAI, and tokens made by the secret.  Else clients must
 * bring a token, which is what those of OpenPAI do that are told of OIDC. */
static bool has_passwords(const struct options *o)
{
	return !o->no_auth && o->jwt_secret_file[0] && strcmp(o->users, "openpai") == 0;
}

void info_get(struct request *r)
{
	const struct options *o = r->loop->server->options;
	str_printf(&r->reply.body,
	           "{\"name\":\"rest-lit\",\"version\":\"%s\",\"launcherType\":\"k8s\","
	           "\"authnMethod\":\"%s\"}\n",
	           REST_LIT_VERSION, has_passwords(o) ? "basic" : "OIDC");
	answer_json(r, 200);
}

void authn_get(struct request *r)
{
	bool basic = has_passwords(r->loop->server->options);
	str_puts(&r->reply.body,
	         basic ? "{\"authn_type\":\"basic\",\"loginURI\":\"/api/v1/authn/basic/login\","
	                 "\"loginURIMethod\":\"post\"}\n"
	               : "{\"authn_type\":\"OIDC\",\"loginURI\":null,\"loginURIMethod\":null}\n");
	answer_json(r, 200);
}
