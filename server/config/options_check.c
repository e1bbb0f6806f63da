/* Refuses options that contradict each other, about login, addresses and store. */
#include "server/config/setup.h"

/* Each function returns what is wrong, as a sentence for users, or NULL. */

enum { GPUS_MAX = 1024 };

static bool option_equals(const char *text, const char *what)
{
	return strcmp(text, what) == 0;
}

static bool option_is_https(const char *url)
{
	return span_starts(span_of(url), "https://");
}

static const char *options_wrong_login(const struct options *o, bool loopback)
{
	bool tokens = o->jwt_secret_file[0] || o->issuers[0];
	bool stored = option_equals(o->token_check, "stored");
	const char *slash = strchr(o->deny_list, '/');

	if (!o->no_auth && !tokens)
		return "no authentication is configured: give --jwt-secret-file FILE or --issuers "
		       "FILE for users with tokens; or --no-auth --user NAME, which treats every "
		       "client on this machine as that user";
	if (o->no_auth && (tokens || o->token_check[0] || o->deny_list[0]))
		return "--no-auth excludes --jwt-secret-file, --issuers, --token-check and "
		       "--deny-list";
	if (o->no_auth && o->socket[0])
		return "--no-auth excludes --socket, whose clients are several users";
	if (o->socket[0] && !o->local[0])
		return "--socket needs --local: its users are the accounts of this machine";
	if (o->socket[0] && o->socket[0] != '/')
		return "--socket must be a path that begins with /, such as " SOCKET_PATH;
	if (o->no_auth && !o->user[0])
		return "--no-auth needs --user NAME, such as alice or j.doe-2";
	if (o->no_auth && !loopback)
		return "--no-auth needs a loopback address in --listen (127.0.0.1, [::1]), because "
		       "every client of the port can submit";
	if (!o->no_auth && o->user[0])
		return "--user needs --no-auth; without it the token names the user";
	if (!o->no_auth && option_equals(o->users, "openpai") && !o->token_check[0])
		return "--users=openpai needs --token-check: stored, as in OpenPAI (a token must "
		       "be in its user's Secret), or signature";
	if (stored && !o->jwt_secret_file[0])
		return "--token-check=stored needs --jwt-secret-file, whose secret signs these "
		       "tokens";
	if (stored && o->deny_list[0])
		return "--deny-list needs --token-check=signature: stored tokens are revoked by "
		       "removing them";
	if (o->deny_list[0] &&
	    (!slash || slash == o->deny_list || !slash[1] || strchr(slash + 1, '/')))
		return "--deny-list must be NAMESPACE/NAME";
	if (o->local[0] && (stored || option_equals(o->users, "openpai")))
		return "--token-check=stored and --users=openpai need Secrets of a cluster, so "
		       "--local excludes them";
	return NULL;
}

bool options_output_tls(const struct options *o)
{
	return o->output_listen[0] && option_is_https(o->output_url);
}

static const char *options_wrong_address(const struct options *o, bool loopback,
                                         bool output_loopback)
{
	struct span url = span_of(o->output_url);
	bool here = span_starts(url, "http://127.0.0.1:") ||
	            span_starts(url, "http://localhost:") || span_starts(url, "http://[::1]:");
	bool https = option_is_https(o->output_url);

	if (!o->tls_cert[0] != !o->tls_key[0])
		return "--tls-cert and --tls-key go together";
	if (!(loopback && (output_loopback || options_output_tls(o))) && !o->tls_cert[0] &&
	    !o->behind_proxy)
		return "plain HTTP is allowed on loopback addresses only: give --tls-cert and "
		       "--tls-key, or --behind-proxy if a proxy terminates TLS";
	if (!o->output_listen[0] != !o->output_url[0])
		return "--output-listen and --output-url go together: pods upload the end of their "
		       "output to this URL.  In a pod it follows from the Service rest-lit-output, "
		       "if that exists when the container starts (the variable " OUTPUT_VARIABLE
		       ")";
	if (o->output_listen[0] && o->local[0])
		return "--output-listen needs a cluster, so --local excludes it";
	if (url.n && !https && !here)
		return "--output-url must begin with https:// (for tests, http://127.0.0.1: is "
		       "allowed), because pods send a token to it";
	if (o->output_ca[0] && !o->tls_cert[0])
		return "--output-ca needs --tls-cert, whose certificate it verifies; without "
		       "--output-ca this server makes one itself";
	if (o->output_ca[0] && !https)
		return "--output-ca needs an --output-url that begins with https://";
	if (!o->webhook[0] != !o->webhook_secret_file[0])
		return "--webhook and --webhook-secret-file go together: the secret signs what is "
		       "sent";
	if (o->webhook_allow_private && !o->webhook[0])
		return "--webhook-allow-private needs --webhook";
	if (o->webhook[0] && !o->local[0] && strpbrk(o->instance, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_"))
		return "--webhook needs an --instance without upper case letters and _, because "
		       "the name of a Lease contains it";
	return NULL;
}

bool options_run_here(const struct options *o)
{
	return o->local[0] && !option_equals(o->engine, "none");
}

static const char *options_wrong_store(const struct options *o)
{
	bool here = options_run_here(o);
	bool gpus = option_equals(o->gpus, "auto") || option_equals(o->gpus, "none");
	int64_t n;

	if (o->hand_back && o->local[0])
		return "--hand-back is for a cluster, and --local has no Frameworks of one";
	if (!!o->local[0] + !!o->kubeconfig[0] + !!o->apiserver[0] > 1)
		return "--local, --kubeconfig and --apiserver exclude each other";
	if (o->engine[0] && !o->local[0])
		return "--engine needs --local; a cluster has its own";
	if (!here && (o->cpus || o->memory || !option_equals(o->gpus, "auto") ||
	              o->gpu_devices[0] || o->images[0]))
		return "--cpus, --memory, --gpus, --gpu-devices and --images need --local without "
		       "--engine=none: they are for jobs on this machine";
	if (!gpus && parse_i64(span_of(o->gpus), 0, GPUS_MAX, &n) < 0)
		return "--gpus must be a number up to 1024, auto or none";
	if (here && o->hived_config[0])
		return "--hived-config needs a cluster, because HiveD schedules its nodes; with "
		       "--engine=none jobs are only kept";
	if (here && !option_equals(o->profile, "plain"))
		return "--profile=openpai and --profile=restricted need a cluster; jobs on this "
		       "machine need --profile=plain";
	if (here && option_equals(o->runtime, "configmap"))
		return "--runtime=configmap needs a cluster; on this machine the program beside "
		       "this one, or that of --runtime-binary, is used";
	if (o->mount.n && !(here && o->no_auth))
		return "--mount needs --no-auth and --local: the jobs of all users would see these "
		       "directories; give each user storages instead, by --facts";
	if (options_keep_results(o) < 0 ||
	    (options_keep_results(o) > 0 && options_keep_results(o) < MIB))
		return "--keep-results must be a size of 1MiB or more, such as 10GiB, or none";
	if (o->gpu_idle_stop_s && !o->gpu_idle_s)
		return "--gpu-idle-stop needs a --gpu-idle of more than 0: jobs are warned first";
	if (o->port_start >= o->port_end)
		return "--port-start must be less than --port-end";
	if (o->hived_webservice[0] && !o->hived_config[0])
		return "--hived-webservice needs --hived-config";
	if (o->hived_webservice_ca[0] && !option_is_https(o->hived_webservice))
		return "--hived-webservice-ca needs a --hived-webservice that begins with "
		       "https://";
	return NULL;
}

int64_t options_keep_results(const struct options *o)
{
	int64_t n = INT64_MAX;
	if (option_equals(o->keep_results, "none"))
		return 0;
	return option_number(span_of(o->keep_results), true, &n) < 0 ? -1 : n;
}

/* The order in which users are told. */
int options_check(const struct options *o, bool loopback, bool output_loopback, struct err *e)
{
	const char *wrong = options_wrong_login(o, loopback)
	                        ?: options_wrong_address(o, loopback, output_loopback)
	                        ?: options_wrong_store(o);
	return wrong ? err_set(e, 400, NULL, "%s", wrong) : 0;
}
