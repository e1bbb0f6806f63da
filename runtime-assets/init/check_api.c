/* `pai-runtime check-api`: checks whether this pod can read its Framework, and prints advice. */
#include <unistd.h>

#include "base/wrap.h"
#include "runtime-assets/common/cmdline.h"
#include "runtime-assets/init/init.h"
#include "runtime-assets/net/kube.h"

enum {
	WIDTH = 79,
	INDENT = 20,
	ANSWER_MS = 10000,
	SMALL_BODY = 64 * 1024,
	TEXT_MAX = 16384,
	SCREEN_MAX = 4 * TEXT_MAX
};

enum api_check_state { OK, MISSING, UNKNOWN };
static const char *const STATES[] = { [OK] = "ok", [MISSING] = "MISSING", [UNKNOWN] = "-" };

struct checkup {
	struct arena *a;
	struct layout at;
	struct kube *kube;                      /* NULL: there is none */
	const char *namespace_name, *framework; /* framework is NULL outside of its pods */
	bool usable;                            /* a valid token, or none is mounted */
	bool answers;                           /* the API server, and it accepts the token */
	struct token_claims who;
	int64_t now_s;
};

/* The result of a check; `advice` is printed as it is. */
struct api_check_finding {
	enum api_check_state state;
	struct str text, advice;
};

/* ---- checks ---------------------------------------------------------------------------------- */

static enum api_check_state check_address(struct checkup *c, struct api_check_finding *f)
{
	ERR_AUTO e = { 0 };
	c->kube = kube_open(&c->at, c->a, &e);
	if (c->kube == NULL) {
		str_puts(&f->text, err_msg(&e));
		str_puts(&f->advice,
		         "  In a pod: serviceAccountName, and its token mounted. Elsewhere:\n"
		         "  KUBE_APISERVER_ADDRESS=http://HOST:PORT\n");
		return MISSING;
	}
	str_printf(&f->text, "%s\nby %s\n", c->kube->url,
	           c->kube->token ? "KUBERNETES_SERVICE_HOST and _PORT" : "KUBE_APISERVER_ADDRESS");
	if (c->kube->server_name)
		str_printf(&f->text, "its certificate must be for %s, signed by %s",
		           c->kube->server_name, c->kube->ca);
	else
		str_puts(&f->text, "without certificate, this is plain http");
	return OK;
}

static enum api_check_state check_token(struct checkup *c, struct api_check_finding *f)
{
	const char *file = c->kube ? c->kube->token : NULL;
	ERR_AUTO e = { 0 };
	STR_AUTO token = STR_SECRET(TOKEN_MAX);
	if (file == NULL) {
		c->usable = c->kube != NULL;
		str_puts(&f->text,
		         c->usable ? "none is mounted, requests are anonymous" : "not looked at");
		return c->usable ? OK : UNKNOWN;
	}
	if (token_append(file, &token, &e) != 0) {
		str_puts(&f->text, err_msg(&e));
		str_puts(&f->advice,
		         "  The kubelet writes that file. Is something else mounted over "
		         "it?\n");
		return MISSING;
	}
	c->usable = true;
	str_printf(&f->text, "%s\n", file);
	token_describe(file, c->now_s, c->a, &c->who, &f->text);
	if (c->who.expires_s == 0 || c->who.expires_s > c->now_s)
		return OK;
	str_puts(&f->advice,
	         "  The kubelet renews the file: check the kubelet and the clock of the "
	         "node.\n");
	return MISSING;
}

static enum api_check_state check_answer(struct checkup *c, struct api_check_finding *f)
{
	struct http_reply r = { 0 };
	ERR_AUTO e = { 0 };
	if (!c->usable) {
		str_puts(&f->text, "not asked");
		return UNKNOWN;
	}
	if (kube_get(c->kube, "/version", SMALL_BODY, clock_ms() + ANSWER_MS, c->a, &r, &e) != 0) {
		str_puts(&f->text, err_msg(&e));
		return MISSING;
	}
	/* An account that may not read the version may still read Frameworks. */
	c->answers = r.status == 200 || r.status == 403;
	if (r.status == 200) {
		char text[4 * QUOTE_MAX];
		const char *version = node_text(kube_json(r.body, c->a), "gitVersion");
		if (*version)
			str_printf(&f->text, "it answers: Kubernetes %s",
			           quote(text, span_of(version)));
		else
			str_puts(&f->text, "it answers, but not like a Kubernetes API server");
		return OK;
	}
	str_puts(&f->text, "it answers: ");
	kube_answer(&r, &f->text);
	if (r.status == 401 && c->kube->token == NULL) {
		str_puts(&f->text, "\nIt requires authentication, and no token is mounted.");
	} else if (r.status == 401) {
		str_puts(&f->text, "\nIt " KUBE_NOT_TAKEN);
		if (c->who.account)
			str_printf(&f->advice, "  kubectl -n %s get serviceaccount %s\n",
			           c->who.namespace_name, c->who.account);
	}
	return c->answers ? OK : MISSING;
}

/* The two kubectl commands that grant the right to get Frameworks. */
static void check_put_grant(const struct checkup *c, struct str *out)
{
	const struct token_claims *who = &c->who;
	str_printf(out,
	           "  kubectl -n %s create role runtime-account --verb=get \\\n"
	           "    --resource=" FRAMEWORKS "\n"
	           "  kubectl -n %s create rolebinding runtime-account \\\n"
	           "    --role=runtime-account --serviceaccount=%s:%s\n",
	           c->namespace_name, c->namespace_name,
	           who->account ? who->namespace_name : c->namespace_name,
	           who->account ? who->account : "runtime-account");
}

/* Outside of a Framework's pod, asks for one that does not exist: 404 or 403 shows the right. */
static enum api_check_state check_framework(struct checkup *c, struct api_check_finding *f)
{
	const char *name = c->framework ? c->framework : "pai-runtime-check-api";
	struct http_reply r = { 0 };
	ERR_AUTO e = { 0 };
	if (!c->answers) {
		str_puts(&f->text, "not asked");
		return UNKNOWN;
	}
	const char *path = kube_framework_path(c->namespace_name, name, c->a, &e);
	if (path == NULL ||
	    kube_get(c->kube, path, FRAMEWORK_MAX, clock_ms() + ANSWER_MS, c->a, &r, &e) != 0) {
		str_puts(&f->text, err_msg(&e));
		return MISSING;
	}
	bool missing = kube_says_missing(&r, name);
	if (r.status == 200 && c->framework) {
		struct init_framework *fw = framework_read(r.body, c->a, &e);
		if (fw == NULL) {
			str_puts(&f->text, err_msg(&e));
			return MISSING;
		}
		str_printf(&f->text, "%s/%s: %lld of %lld tasks have an address", c->namespace_name,
		           c->framework, (long long)framework_ready(fw), (long long)fw->total);
		return OK;
	}
	if (missing && c->framework) {
		str_printf(&f->text, "%s/%s is not there: the job was deleted?", c->namespace_name,
		           name);
		return MISSING;
	}
	if (missing || r.status == 200) {
		str_printf(&f->text, "may be read in namespace %s", c->namespace_name);
		return OK;
	}
	kube_answer(&r, &f->text);
	if (r.status == 403) {
		check_put_grant(c, &f->advice);
	} else if (r.status == 404) {
		str_puts(&f->text, ": it does not know Frameworks");
		str_puts(&f->advice, "  Install the kind Framework; then this shows something:\n"
		                     "  kubectl get crd " FRAMEWORKS "\n");
	}
	return MISSING;
}

static const struct api_check {
	const char *name;
	enum api_check_state (*run)(struct checkup *c, struct api_check_finding *f);
} CHECKS[] = {
	{ "address", check_address },
	{ "token", check_token },
	{ "API server", check_answer },
	{ "Frameworks", check_framework },
};
enum { N_CHECKS = ARRAY_SIZE(CHECKS) };

/* ---- the command ----------------------------------------------------------------------------- */

const char CHECK_USAGE[] =
    "usage: pai-runtime check-api [--root DIR]\n\n"
    "Checks whether this pod can read its Framework: address, certificate, token and\n"
    "rights.  Prints how to repair them.\n\n"
    "  --root DIR   put DIR before every path\n\n"
    "Exit status: 0 if it can, 1 if it cannot.\n";

static int check_all(struct checkup *c)
{
	STR_AUTO out = STR_INIT(SCREEN_MAX);
	int bad = 0;
	for (size_t i = 0; i < N_CHECKS; i++) {
		struct api_check_finding f = { .text = STR_INIT(TEXT_MAX),
			                       .advice = STR_INIT(TEXT_MAX) };
		f.state = CHECKS[i].run(c, &f);
		str_printf(&out, "%-8s%-12s", STATES[f.state], CHECKS[i].name);
		str_wrap(&out, str_view(&f.text), INDENT, WIDTH);
		if (f.advice.n > 0)
			str_printf(&out, "\n%s\n", str_c(&f.advice));
		bad += f.state != OK;
		str_done(&f.text);
		str_done(&f.advice);
	}
	if (out.n < 2 || out.p[out.n - 2] != '\n')
		str_char(&out, '\n');
	str_puts(&out, bad ? "This pod cannot read the Framework that init waits for.\n"
	                   : "Init can use the API server.\n");
	kube_free(c->kube);
	int failed = fd_write_all(STDOUT_FILENO, str_view(&out));
	return bad || failed;
}

int cmd_check_api(int argc, char **argv)
{
	const char *root = "";
	const struct arg args[] = { { "--root", &root, NULL }, { NULL, NULL, NULL } };
	int i = args_take(args, 1, argc, argv);
	if (i < argc)
		return args_misused(argv[0], argv[i]);
	file_disable_core_dumps();
	ARENA_AUTO a = { 0 };
	struct checkup c = { .a = &a, .now_s = clock_wall_ms() / 1000 };
	layout_init(&c.at, root, &a);
	/* The namespace of the job, or that of the pod. */
	const char *file = path_join(&a, c.at.account, "namespace");
	struct span own = span_trim(file_text(file, FILE_MOUNTED, 1024, &a));
	c.namespace_name = env_get("FC_FRAMEWORK_NAMESPACE");
	if (!c.namespace_name)
		c.namespace_name = own.n ? arena_dup(&a, own) : "default";
	c.framework = env_get("FC_FRAMEWORK_NAME");
	return check_all(&c);
}
