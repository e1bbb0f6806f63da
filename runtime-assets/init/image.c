/* The step `image`: fails a task whose image does not exist, instead of endless ImagePullBackOff.
 * Everything that is not certain is a warning. */
#include "base/image/image.h"
#include "base/clock.h"
#include "base/enc.h"

#include "base/image/registry.h"
#include "runtime-assets/cmdline.h"
#include "runtime-assets/init/init.h"
#include "runtime-assets/net/http.h"

enum { TOTAL_MS = 30000, REQUEST_MS = 10000, LOGIN_MAX = 16 << 10 };

static const char *const BUNDLES[] = {
	"/etc/ssl/certs/ca-certificates.crt",                /* Debian, Alpine, Arch */
	"/etc/pki/tls/certs/ca-bundle.crt",                  /* Fedora, CentOS */
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", /* newer ones */
	"/etc/ssl/ca-bundle.pem",                            /* openSUSE */
	"/etc/ssl/cert.pem",
};

enum mode { MODE_FAIL, MODE_WARN, MODE_OFF, MODE_MAX };

static const char *const MODES[MODE_MAX] = {
	[MODE_FAIL] = "fail", [MODE_WARN] = "warn", [MODE_OFF] = "off"
};

/* ---- settings -------------------------------------------------------------------------------- */

/* Does the pod have pull secrets besides that of the job?  Then the kubelet may know more logins.
 */
static bool image_has_other_logins(const struct init *in)
{
	const struct node *roles =
	    in->framework ? node_get(node_get(in->framework->root, "spec"), "taskRoles") : NULL;
	const char *job = in->framework ? in->framework->name : NULL;
	const char *own = arena_printf(in->a, "%s-regcred", job ? job : "");
	for (uint32_t i = 0; node_is(roles, NODE_LIST) && i < roles->n; i++) {
		const struct node *role = &roles->item[i];
		const struct node *name = node_get(role, "name");
		const struct node *pod = node_get(node_get(role, "task"), "pod");
		const struct node *list = node_get(node_get(pod, "spec"), "imagePullSecrets");
		if (!node_is(name, NODE_TEXT) || !in->role_name ||
		    !span_is(node_span(name), in->role_name) || !node_is(list, NODE_LIST))
			continue;
		const struct node *only = list->n == 1 ? node_get(&list->item[0], "name") : NULL;
		return list->n > 0 && !(node_is(only, NODE_TEXT) && span_is(node_span(only), own));
	}
	return false;
}

static enum mode image_mode(const struct init *in)
{
	const char *text = env_get("IMAGE_CHECK");
	for (unsigned i = 0; text && i < MODE_MAX; i++) {
		if (strcmp(text, MODES[i]) == 0)
			return (enum mode)i;
	}
	if (text)
		say(SAY_WARNING, "IMAGE_CHECK must be fail, warn or off");
	return image_has_other_logins(in) ? MODE_WARN : MODE_FAIL;
}

/* ---- the image ------------------------------------------------------------------------------- */

struct subject {
	struct span uri;
	const struct node *auth; /* of its prerequisite; NULL if there is none */
};

/* Version 2: the role names a prerequisite.  Version 1: one image for all roles. */
static int image_subject(const struct job *j, struct subject *s)
{
	const struct node *root = &j->doc.root;
	const struct node *uri = node_get(root, "image");
	const struct node *name = node_get(j->role, "dockerImage");
	*s = (struct subject){ .auth = NULL };
	if (node_is(name, NODE_TEXT)) {
		const struct node *p = job_prerequisite(j, "dockerimage", node_span(name));
		const struct node *auth = node_get(p, "auth");
		uri = node_get(p, "uri");
		s->auth = node_is(auth, NODE_MAP) ? auth : NULL;
	}
	if (!node_is(uri, NODE_TEXT))
		return -1;
	s->uri = node_span(uri);
	return 0;
}

/* A member of `auth` with its secrets; empty if it is absent or not known. */
static struct span image_auth_text(const struct init *in, const struct node *auth, const char *key)
{
	const struct node *n = node_get(auth, key);
	struct str out = STR_SECRET(LOGIN_MAX);
	struct span text = SPAN("");
	ERR_AUTO e = { 0 };
	if (node_is(n, NODE_TEXT) && !span_is(node_span(n), "******") &&
	    job_fill(&in->job, node_span(n), &out, &e) == 0 && !out.full)
		text = arena_span(in->a, str_view(&out));
	str_wipe(&out);
	return text;
}

/* false: there is a login, but it is redacted or no secrets are mounted. */
static bool image_login_read(const struct init *in, const struct node *auth,
                             struct image_login *login)
{
	*login = (struct image_login){ SPAN(""), SPAN(""), SPAN("") };
	if (!auth)
		return true;
	if (!in->job.secrets)
		return false;
	login->user = image_auth_text(in, auth, "username");
	login->password = image_auth_text(in, auth, "password");
	login->registry = image_auth_text(in, auth, "registryuri");
	return login->user.n && login->password.n;
}

/* ---- requests -------------------------------------------------------------------------------- */

static struct ca_bundle *image_ca_bundle(const struct init *in)
{
	for (size_t i = 0; i < ARRAY_SIZE(BUNDLES); i++) {
		ERR_AUTO e = { 0 };
		const char *path = arena_printf(in->a, "%s%s", in->at.root, BUNDLES[i]);
		struct ca_bundle *t = ca_bundle_load(path, &e);
		if (t)
			return t;
	}
	return NULL;
}

static void image_ask_once(struct registry_dialogue *d, const struct registry_ask *ask,
                           const struct ca_bundle *ca_bundle, int64_t end_ms)
{
	ERR_AUTO e = { 0 };
	ARENA_AUTO a = { 0 };
	struct http_reply reply = { .status = 0 };
	if (ask->wait_ms) {
		say(SAY_INFO, "%s is busy, trying again in %d ms", registry_host(d),
		    (int)ask->wait_ms);
		clock_sleep_until(clock_ms() + ask->wait_ms);
	}
	int64_t now = clock_ms();
	struct http_request request = {
		.method = ask->method,
		.host = ask->to.host,
		.port = ask->to.port,
		.ca_bundle = ca_bundle,
		.host_header = ask->to.authority,
		.target = ask->to.target,
		.headers = ask->headers,
		.headers_max = REGISTRY_HEADERS_MAX,
		.body_max = REGISTRY_BODY_MAX,
		.deadline_ms = now + REQUEST_MS < end_ms ? now + REQUEST_MS : end_ms,
	};
	if (http_exchange(&request, &a, &reply, &e)) {
		registry_trouble(d, err_msg(&e));
	} else {
		struct registry_reply r = { reply.status, reply.headers, reply.body };
		registry_reply(d, &r, end_ms - clock_ms());
	}
	arena_wipe(&a); /* may hold a token */
}

static void image_ask(const struct init *in, const struct image *image,
                      const struct image_login *login, struct registry_dialogue *d)
{
	int64_t end_ms = clock_ms() + TOTAL_MS;
	struct registry_ask ask;
	struct ca_bundle *ca_bundle = image_ca_bundle(in);
	uint32_t random = 0;
	random_bytes(&random, sizeof(random));
	registry_begin(d, image, login, random, in->a);
	if (!ca_bundle)
		registry_trouble(d, "the init container has no certificate authorities "
		                    "(/etc/ssl/certs/ca-certificates.crt)");
	if (d->login_ignored)
		say(SAY_WARNING,
		    "the login of the prerequisite is for another registry than %s, so it is not "
		    "used for image %s; check auth.registryuri",
		    image->host, image->name);
	while (registry_next(d, &ask)) {
		if (clock_ms() + ask.wait_ms >= end_ms)
			registry_trouble(d, "its registry takes too long");
		else
			image_ask_once(d, &ask, ca_bundle, end_ms);
	}
	if (ca_bundle)
		ca_bundle_free(ca_bundle);
}

/* ---- the step -------------------------------------------------------------------------------- */

static int image_missing(enum mode mode, const char *sentence, struct err *e)
{
	if (mode == MODE_FAIL) {
		err_set(e, FAILED, "%s", sentence);
		return INIT_NO_IMAGE;
	}
	say(SAY_WARNING, "%s", sentence);
	return 0;
}

static int image_check(const struct init *in, enum mode mode, const struct subject *s,
                       struct err *e)
{
	struct image image;
	struct image_login login;
	struct registry_dialogue d;
	if (image_parse(s->uri, in->a, &image)) {
		char name[4 * QUOTE_MAX];
		return image_missing(mode,
		                     arena_printf(in->a, "image \"%s\" %s", quote(name, s->uri),
		                                  image_problem(s->uri)),
		                     e);
	}
	bool readable = image_login_read(in, s->auth, &login);
	image_ask(in, &image, &login, &d);
	if (d.verdict == REGISTRY_FOUND) {
		say(SAY_INFO, "image %s exists", image.name);
		return 0;
	}
	if (d.verdict == REGISTRY_UNSURE) {
		say(SAY_WARNING, "%s", d.sentence);
		return 0;
	}
	if (!readable)
		say(SAY_WARNING, "the login of the prerequisite cannot be read here, so that the "
		                 "next line may be wrong");
	return image_missing(readable ? mode : MODE_WARN, d.sentence, e);
}

int step_image(struct init *in, struct err *e)
{
	enum mode mode = image_mode(in);
	struct subject s;
	if (mode == MODE_OFF) {
		say(SAY_INFO, "the image is not checked (IMAGE_CHECK=off)");
		return 0;
	}
	if (image_subject(&in->job, &s)) {
		say(SAY_INFO, "the job names no image for this task: nothing to check");
		return 0;
	}
	return image_check(in, mode, &s, e);
}
