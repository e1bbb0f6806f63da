#include "server/setup.h"

struct given {
	const struct options *o;
	bool loopback, output_loopback;
};

static bool is(const char *text, const char *what)
{
	return strcmp(text, what) == 0;
}

static bool has_tokens(const struct options *o)
{
	return o->jwt_secret_file[0] || o->issuers[0];
}

/* ---- who may submit ---- */

static bool nobody(const struct given *g)
{
	return !g->o->no_auth && !has_tokens(g->o);
}

static bool both(const struct given *g)
{
	return g->o->no_auth && (has_tokens(g->o) || g->o->token_check[0] || g->o->deny_list[0]);
}

static bool no_user(const struct given *g)
{
	return g->o->no_auth && !g->o->user[0];
}

static bool open_port(const struct given *g)
{
	return g->o->no_auth && !g->loopback;
}

static bool idle_user(const struct given *g)
{
	return !g->o->no_auth && g->o->user[0];
}

static bool check_not_said(const struct given *g)
{
	return !g->o->no_auth && is(g->o->users, "openpai") && !g->o->token_check[0];
}

static bool stored_without_secret(const struct given *g)
{
	return is(g->o->token_check, "stored") && !g->o->jwt_secret_file[0];
}

static bool stored_and_denied(const struct given *g)
{
	return is(g->o->token_check, "stored") && g->o->deny_list[0];
}

static bool bad_deny_list(const struct given *g)
{
	const char *slash = strchr(g->o->deny_list, '/');
	return g->o->deny_list[0] &&
	       (!slash || slash == g->o->deny_list || !slash[1] || strchr(slash + 1, '/'));
}

static bool no_cluster(const struct given *g)
{
	const struct options *o = g->o;
	return o->standalone[0] &&
	       (is(o->token_check, "stored") || o->deny_list[0] || is(o->users, "openpai"));
}

/* ---- how clients reach it ---- */

static bool half_tls(const struct given *g)
{
	return (g->o->tls_cert[0] != 0) != (g->o->tls_key[0] != 0);
}

static bool in_the_open(const struct given *g)
{
	return !(g->loopback && g->output_loopback) && !g->o->tls_cert[0] && !g->o->behind_proxy;
}

/* ---- the output of tasks ---- */

static bool half_output(const struct given *g)
{
	return (g->o->output_listen[0] != 0) != (g->o->output_url[0] != 0);
}

static bool output_without_cluster(const struct given *g)
{
	return g->o->output_listen[0] && g->o->standalone[0];
}

static bool is_https(const char *url)
{
	return span_starts(span_of(url), "https://");
}

static bool open_output(const struct given *g)
{
	static const char *const HERE[] = { "http://127.0.0.1:", "http://localhost:",
		                            "http://[::1]:" };
	struct span url = span_of(g->o->output_url);
	for (size_t i = 0; i < sizeof(HERE) / sizeof(HERE[0]); i++)
		if (span_starts(url, HERE[i]))
			return false;
	return url.n && !is_https(url.p);
}

static bool untrusted_output(const struct given *g)
{
	return is_https(g->o->output_url) && !g->o->output_ca[0] && !g->o->tls_cert[0];
}

static bool idle_output_ca(const struct given *g)
{
	return g->o->output_ca[0] && !is_https(g->o->output_url);
}

/* ---- the rest ---- */

static bool two_stores(const struct given *g)
{
	const struct options *o = g->o;
	return (o->standalone[0] != 0) + (o->kubeconfig[0] != 0) + (o->apiserver[0] != 0) > 1;
}

static bool no_ports(const struct given *g)
{
	return g->o->port_start >= g->o->port_end;
}

static bool hived_without_config(const struct given *g)
{
	return g->o->hived_webservice[0] && !g->o->hived_config[0];
}

static bool idle_hived_ca(const struct given *g)
{
	return g->o->hived_webservice_ca[0] &&
	       !span_starts(span_of(g->o->hived_webservice), "https://");
}

static const struct rule {
	bool (*broken)(const struct given *g);
	const char *message;
} RULES[] = {
	{ nobody,
	  "who may submit? Say --jwt-secret-file FILE (and --issuers FILE), for those who "
	  "have a token; or --no-auth --user NAME: whoever reaches the port is that user, so "
	  "it is open on this machine only" },
	{ both,
	  "--no-auth asks for no token: it excludes --jwt-secret-file, --issuers, --token-check "
	  "and --deny-list" },
	{ no_user, "--no-auth needs --user NAME, with a name such as alice or j.doe-2" },
	{ open_port, "--no-auth listens on loopback only (127.0.0.1, [::1]): who else reached the "
	             "port could submit" },
	{ idle_user, "--user goes with --no-auth; with tokens, the token says who somebody is" },
	{ check_not_said,
	  "--users=openpai needs --token-check: stored, as OpenPAI does it (a token must be in its "
	  "user's Secret), or signature" },
	{ stored_without_secret,
	  "--token-check=stored is about tokens that are made with the secret "
	  "of --jwt-secret-file" },
	{ stored_and_denied,
	  "--deny-list is for --token-check=signature: what is stored is revoked by "
	  "being removed" },
	{ bad_deny_list, "--deny-list must be NAMESPACE/NAME" },
	{ no_cluster,
	  "--token-check=stored, --deny-list and --users=openpai are about Secrets of a "
	  "cluster: not with --standalone" },
	{ half_tls, "--tls-cert and --tls-key go together" },
	{ in_the_open, "beyond loopback, tokens and jobs would pass in the clear: give --tls-cert "
	               "and --tls-key, or "
	               "say --behind-proxy if something before this server does TLS" },
	{ half_output,
	  "--output-listen, where pods upload the end of their output, and --output-url, "
	  "what they call it, go together" },
	{ output_without_cluster,
	  "--output-listen is for pods: not with --standalone, where there are none" },
	{ open_output,
	  "--output-url must begin with https:// (or with http://127.0.0.1:, for tests): "
	  "pods send a token there" },
	{ untrusted_output,
	  "--output-url with https:// needs --output-ca or --tls-cert: pods must know whom "
	  "to trust" },
	{ idle_output_ca, "--output-ca goes with an --output-url that begins with https://" },
	{ two_stores, "--standalone, --kubeconfig and --apiserver exclude each other" },
	{ no_ports, "--port-start must be less than --port-end" },
	{ hived_without_config,
	  "--hived-webservice needs --hived-config: without it, the scheduler is "
	  "not HiveD" },
	{ idle_hived_ca, "--hived-webservice-ca goes with a --hived-webservice that begins with "
	                 "https://" },
};

int options_check(const struct options *o, bool loopback, bool output_loopback, struct err *e)
{
	const struct given given = { o, loopback, output_loopback };
	for (size_t i = 0; i < sizeof(RULES) / sizeof(RULES[0]); i++)
		if (RULES[i].broken(&given))
			return err_set(e, 400, NULL, "%s", RULES[i].message);
	return 0;
}
