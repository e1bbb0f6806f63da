/* Checks API server, clock, login, the kind Framework and the upload of output. */
#include <time.h>

#include "base/json/scan.h"
#include "jobs/store/paths.h"
#include "server/check/check_internal.h"
#include "server/config/options.h"

enum {
	OLDEST = 20, /* the versions 1.N of Kubernetes that were tried */
	NEWEST = 36,
	SKEW_S = 5,
	SKEW_BAD_S = 60,
	TOKEN_SOON_S = 43200,
	TEXT_MAX = 1024
};

/* ---- the API server ---- */

static void api_version(struct check_session *c)
{
	struct span text = scan_text(scan_get(c->reply.body, "gitVersion"), &c->arena);
	struct span number = scan_text(scan_get(c->reply.body, "minor"), &c->arena);
	const char *mend = NULL;
	int64_t minor = 0;
	number.n -= number.n && number.p[number.n - 1] == '+'; /* some have "28+" */
	(void)parse_i64(number, 0, INT32_MAX, &minor);         /* else 0 */
	if (minor < OLDEST)
		mend = "1.20 is the oldest version that was tried; update the cluster";
	else if (minor > NEWEST)
		mend = "1.36 is the newest version that was tried; submit a job to see whether it "
		       "runs";
	SAY(c, mend ? CHECK_WARNING : CHECK_OK, mend, "%s, version %.*s",
	    login_describe(c->server->login), (int)text.n, text.p);
}

void check_api(struct check_session *c)
{
	ERR_AUTO e = { 0 };
	struct store_limits limits = STORE_LIMITS_DEFAULT;
	struct login *login = c->server->login;
	if (!login) {
		check_report(c, CHECK_SKIPPED, "needs a valid login", NULL);
		return;
	}
	c->caller->store = store_api_new(login, c->server->namespace_name, &limits, &e);
	if (!c->caller->store) {
		check_error(c, CHECK_FAILED, NULL, &e);
		return;
	}
	const struct store_reply *r =
	    check_ask(c, (struct store_request){ .verb = STORE_LIST, .kind = KIND_VERSION });
	c->answers = r->outcome == STORE_OK && scan_valid(r->body, SCAN_DEPTH_MAX);
	if (c->answers)
		api_version(c);
	else
		SAY(c, CHECK_FAILED,
		    r->status == 401 ? "its login is not valid: give a new token or certificate"
		                     : "are address, CA certificate and network right?",
		    "%s: %.*s", login_describe(login), (int)r->message.n, r->message.p);
}

void check_clock(struct check_session *c)
{
	int64_t away = c->skew_s < 0 ? -c->skew_s : c->skew_s;
	if (!c->date)
		check_report(c, CHECK_SKIPPED, "the API server's answers have no date", NULL);
	else if (away <= SKEW_S)
		check_report(c, CHECK_OK, "agrees with the API server's", NULL);
	else
		SAY(c, away > SKEW_BAD_S ? CHECK_FAILED : CHECK_WARNING,
		    "set the clock by NTP, on both machines",
		    "%lld s %s the API server's: tokens and certificates seem expired or not yet "
		    "valid",
		    (long long)away, c->skew_s > 0 ? "ahead of" : "behind");
}

/* The kubelet renews that of a pod. */
void check_login_token(struct check_session *c)
{
	bool renewed = !c->o->kubeconfig[0] && !c->o->apiserver[0];
	int64_t end_s = c->server->login ? login_token_end_s(c->server->login) : 0;
	int64_t left_s = end_s - (int64_t)time(NULL);
	bool soon = left_s < TOKEN_SOON_S;
	if (end_s && !renewed)
		SAY(c,
		    left_s <= 0 ? CHECK_FAILED
		    : soon      ? CHECK_WARNING
		                : CHECK_OK,
		    soon ? "replace its file; serve reads it again without a restart" : NULL,
		    "expires in %lld minutes", (long long)left_s / 60);
}

/* ---- the kind Framework ---- */

int check_versions(struct check_session *c, const char *group, const char *version,
                   struct str *served)
{
	struct span entry;
	bool good = false;
	const struct store_reply *r = check_get(c, KIND_API_GROUP, group, NULL);
	if (r->status == 404)
		return false;
	if (r->outcome != STORE_OK || !scan_valid(r->body, SCAN_DEPTH_MAX))
		return -1;
	struct scan s = scan_begin(scan_get(r->body, "versions"));
	while (scan_item(&s, &entry)) {
		struct span name = scan_text(scan_get(entry, "version"), &c->arena);
		good |= span_is(name, version);
		str_printf(served, "%s%.*s", served->n ? ", " : "", (int)name.n, name.p);
	}
	return good;
}

void check_frameworks(struct check_session *c)
{
	STR_AUTO served = STR_INIT(TEXT_MAX);
	int good = check_versions(c, resource_of(KIND_FRAMEWORK)->group, "v1", &served);
	if (good < 0)
		check_cannot_look(c, NULL);
	else if (good)
		SAY(c, CHECK_OK, NULL, "served versions: %s", str_c(&served));
	else
		SAY(c, CHECK_FAILED, CHECK_MEND_CRD,
		    "the API server does not serve version v1 of Frameworks, but %s",
		    served.n ? str_c(&served) : "no version");
}

/* ---- output ---- */

void check_output(struct check_session *c)
{
	if (c->o->output_listen[0])
		SAY(c, CHECK_OK, NULL, "pods upload the end of their logs to %s", c->o->output_url);
	else
		check_report(
		    c, CHECK_WARNING,
		    "the logs of ended tasks are lost, and each task takes up to 5 seconds "
		    "longer, so that clients can read its last lines",
		    "--output-listen, as in k8s/deploy/standalone-cluster/config.yaml");
}
