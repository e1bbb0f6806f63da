#include "server/setup.h"

enum { GPUS_MAX = 1024 };

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

/* ---- authentication ---- */

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
	return o->local[0] &&
	       (is(o->token_check, "stored") || o->deny_list[0] || is(o->users, "openpai"));
}

/* ---- TLS ---- */

static bool is_https(const char *url)
{
	return span_starts(span_of(url), "https://");
}

bool options_output_tls(const struct options *o)
{
	return o->output_listen[0] && is_https(o->output_url);
}

static bool half_tls(const struct given *g)
{
	return (g->o->tls_cert[0] != 0) != (g->o->tls_key[0] != 0);
}

static bool in_the_open(const struct given *g)
{
	bool open = !g->loopback || !(g->output_loopback || options_output_tls(g->o));
	return open && !g->o->tls_cert[0] && !g->o->behind_proxy;
}

/* ---- the output of tasks ---- */

static bool half_output(const struct given *g)
{
	return (g->o->output_listen[0] != 0) != (g->o->output_url[0] != 0);
}

static bool output_without_cluster(const struct given *g)
{
	return g->o->output_listen[0] && g->o->local[0];
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

static bool unused_output_ca(const struct given *g)
{
	return g->o->output_ca[0] && !g->o->tls_cert[0];
}

static bool idle_output_ca(const struct given *g)
{
	return g->o->output_ca[0] && !is_https(g->o->output_url);
}

/* ---- reports of ended jobs ---- */

static bool half_webhook(const struct given *g)
{
	return (g->o->webhook[0] != 0) != (g->o->webhook_secret_file[0] != 0);
}

static bool idle_private(const struct given *g)
{
	return g->o->webhook_allow_private && !g->o->webhook[0];
}

static bool unnamed_lease(const struct given *g)
{
	if (!g->o->webhook[0] || g->o->local[0])
		return false;
	for (const char *p = g->o->instance; *p; p++) {
		if (is_upper(*p) || *p == '_')
			return true;
	}
	return false;
}

/* ---- the rest ---- */

static bool two_stores(const struct given *g)
{
	const struct options *o = g->o;
	return (o->local[0] != 0) + (o->kubeconfig[0] != 0) + (o->apiserver[0] != 0) > 1;
}

/* ---- jobs on this machine ---- */

bool options_run_here(const struct options *o)
{
	return o->local[0] && !is(o->engine, "none");
}

static bool idle_engine(const struct given *g)
{
	return g->o->engine[0] && !g->o->local[0];
}

static bool idle_machine(const struct given *g)
{
	const struct options *o = g->o;
	return !options_run_here(o) &&
	       (o->cpus || o->memory || !is(o->gpus, "auto") || o->gpu_devices[0] || o->images[0]);
}

static bool bad_gpus(const struct given *g)
{
	int64_t n;
	return !is(g->o->gpus, "auto") && !is(g->o->gpus, "none") &&
	       parse_i64(span_of(g->o->gpus), 0, GPUS_MAX, &n) < 0;
}

static bool local_hived(const struct given *g)
{
	return options_run_here(g->o) && g->o->hived_config[0];
}

static bool local_openpai(const struct given *g)
{
	return options_run_here(g->o) && is(g->o->profile, "openpai");
}

static bool local_configmap(const struct given *g)
{
	return options_run_here(g->o) && is(g->o->runtime, "configmap");
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
	  "no authentication is configured: give --jwt-secret-file FILE or --issuers FILE for "
	  "users with tokens; or --no-auth --user NAME, which treats every client on this machine "
	  "as that user" },
	{ both, "--no-auth excludes --jwt-secret-file, --issuers, --token-check and --deny-list" },
	{ no_user, "--no-auth needs --user NAME, such as alice or j.doe-2" },
	{ open_port,
	  "--no-auth needs a loopback address in --listen (127.0.0.1, [::1]), because every client "
	  "of the port can submit" },
	{ idle_user, "--user needs --no-auth; without it the token names the user" },
	{ check_not_said, "--users=openpai needs --token-check: stored, as in OpenPAI (a token "
	                  "must be in its user's "
	                  "Secret), or signature" },
	{ stored_without_secret,
	  "--token-check=stored needs --jwt-secret-file, whose secret signs these tokens" },
	{ stored_and_denied,
	  "--deny-list needs --token-check=signature: stored tokens are revoked by removing them" },
	{ bad_deny_list, "--deny-list must be NAMESPACE/NAME" },
	{ no_cluster,
	  "--token-check=stored, --deny-list and --users=openpai need Secrets of a cluster, so "
	  "--local excludes them" },
	{ half_tls, "--tls-cert and --tls-key go together" },
	{ in_the_open,
	  "plain HTTP is allowed on loopback addresses only: give --tls-cert and --tls-key, or "
	  "--behind-proxy if a proxy terminates TLS" },
	{ half_output,
	  "--output-listen and --output-url go together: pods upload the end of their output to "
	  "this URL.  In a pod it follows from the Service rest-lit-output, if that exists when "
	  "the "
	  "container starts (the variable " OUTPUT_VARIABLE ")" },
	{ output_without_cluster, "--output-listen needs a cluster, so --local excludes it" },
	{ open_output, "--output-url must begin with https:// (for tests, http://127.0.0.1: is "
	               "allowed), because "
	               "pods send a token to it" },
	{ unused_output_ca,
	  "--output-ca needs --tls-cert, whose certificate it verifies; without --output-ca this "
	  "server makes one itself" },
	{ idle_output_ca, "--output-ca needs an --output-url that begins with https://" },
	{ half_webhook,
	  "--webhook and --webhook-secret-file go together: the secret signs what is sent" },
	{ idle_private, "--webhook-allow-private needs --webhook" },
	{ unnamed_lease,
	  "--webhook needs an --instance without upper case letters and _, because the "
	  "name of a Lease contains it" },
	{ two_stores, "--local, --kubeconfig and --apiserver exclude each other" },
	{ idle_engine, "--engine needs --local; a cluster has its own" },
	{ idle_machine, "--cpus, --memory, --gpus, --gpu-devices and --images need --local without "
	                "--engine=none: they are for jobs on this machine" },
	{ bad_gpus, "--gpus must be a number up to 1024, auto or none" },
	{ local_hived, "--hived-config needs a cluster, because HiveD schedules its nodes; with "
	               "--engine=none jobs are only kept" },
	{ local_openpai, "--profile=openpai needs a cluster; jobs on this machine need "
	                 "--profile=plain" },
	{ local_configmap,
	  "--runtime=configmap needs a cluster; on this machine the program beside "
	  "this one, or that of --runtime-binary, is used" },
	{ no_ports, "--port-start must be less than --port-end" },
	{ hived_without_config, "--hived-webservice needs --hived-config" },
	{ idle_hived_ca, "--hived-webservice-ca needs a --hived-webservice that begins with "
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
