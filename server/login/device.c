/* Asks an issuer: a device code, then again and again for the token; and a new token later. */
#include <time.h>

#include "base/enc.h"
#include "base/json/scan.h"
#include "base/posix/clock.h"
#include "k8s/http/http_client.h"
#include "server/login/logins.h"

enum {
	ANSWER_MAX = 1 << 20,
	FORM_MAX = 64 << 10,
	TIMEOUT_MS = 20000,
	DEPTH = 16,
	INTERVAL_S = 5, /* RFC 8628, 3.2 and 3.5: the default, and what slow_down adds */
	INTERVAL_MAX_S = 60,
	FAILURES_MAX = 5 /* in a row, while it does not answer */
};

/* One request to an address of the issuer, and its answer: JSON in the arena. */
struct device_answer {
	struct arena *arena;
	struct span json;
	int status;
	bool ended;
	const char *problem;
};

static void device_answered(void *arg, const struct client_answer *a)
{
	struct device_answer *d = arg;
	d->ended = true;
	d->status = a->status;
	d->json = arena_span(d->arena, a->body);
	d->problem = a->problem ? arena_dup(d->arena, span_of(a->problem)) : NULL;
}

/* form: NULL for a GET.  -1 and *e: 503, or 400, an address that cannot be one. */
static int device_ask(const char *url, const char *form, struct device_answer *d, struct err *e)
{
	const char *host = strstr(url, "://");
	const char *path = host ? strchr(host + 3, '/') : NULL;
	const char *origin =
	    arena_dup(d->arena, (struct span){ url, path ? (size_t)(path - url) : strlen(url) });
	const struct client_settings s = { .url = origin, .ca_file = "", .token = SPAN("") };
	const struct client_call call = {
		.method = form ? "POST" : "GET",
		.path = path ?: "/",
		.type = form ? "application/x-www-form-urlencoded" : NULL,
		.body = span_of(form ?: ""),
		.max = ANSWER_MAX,
		.timeout_ms = TIMEOUT_MS,
		.ended = device_answered,
		.arg = d,
	};
	struct client *c = client_new(&s, e);
	d->ended = false;
	if (!c)
		return err_wrap(e, "the issuer's address %s", url);
	if (!client_start(c, &call, e)) {
		client_free(c);
		return -1;
	}
	while (!d->ended)
		client_run_once(c, TIMEOUT_MS, -1);
	client_free(c);
	if (d->problem)
		return err_set(e, UNAVAILABLE, "%s: %s", url, d->problem);
	if (!scan_valid(d->json, DEPTH) || scan_type(d->json) != SCAN_OBJECT)
		return err_set(e, UNAVAILABLE, "%s answers %d, and no JSON object", url, d->status);
	return 0;
}

static void issuer_put(struct str *form, const char *name, struct span value)
{
	str_printf(form, "%s%s=", form->n ? "&" : "", name);
	for (size_t i = 0; i < value.n; i++)
		str_printf(form, is_alnum(value.p[i]) ? "%c" : "%%%02X", (unsigned char)value.p[i]);
}

static struct span device_text(const struct device_answer *d, const char *member)
{
	return scan_text(scan_get(d->json, member), d->arena);
}

static int64_t device_number(const struct device_answer *d, const char *member, int64_t absent)
{
	int64_t n = absent;
	(void)scan_int(scan_get(d->json, member), 1, INT32_MAX, &n); /* else absent */
	return n;
}

/* An ID token says who the user is, also if the access token is opaque. */
static int device_take(const struct device_answer *d, struct login_entry *out, struct err *e)
{
	struct span id = device_text(d, "id_token");
	struct span refresh = device_text(d, "refresh_token");
	out->token = id.n ? id : device_text(d, "access_token");
	out->end_s = (int64_t)time(NULL) + device_number(d, "expires_in", INT32_MAX);
	if (refresh.n)
		out->refresh = refresh;
	return out->token.n ? 0 : err_set(e, UNAVAILABLE, "the issuer answers without a token");
}

/* The sentence for an error of RFC 6749, 5.2, or RFC 8628, 3.5. */
static int device_refused(const struct device_answer *d, struct err *e)
{
	static const struct {
		const char *code, *sentence;
	} SAID[] = {
		{ "access_denied", "the login was denied in the browser" },
		{ "expired_token", "the code has expired: nobody has entered it in time" },
		{ "invalid_grant", "your login has ended there: log in again, rest-lit login" },
	};
	struct span code = device_text(d, "error");
	struct span more = device_text(d, "error_description");
	for (size_t i = 0; i < ARRAY_SIZE(SAID); i++)
		if (span_is(code, SAID[i].code))
			return err_set(e, 400, NULL, "%s", SAID[i].sentence);
	return err_set(e, 400, NULL, "the issuer refuses the login: %.*s%s%.*s (%d)", (int)code.n,
	               code.p, more.n ? ": " : "", (int)more.n, more.p, d->status);
}

/* Finds the addresses.  -1 and *e. */
static int device_discover(const struct device_login *l, struct device_answer *d,
                           const char **device, const char **token, struct err *e)
{
	size_t n = strlen(l->issuer);
	n -= n && l->issuer[n - 1] == '/';
	const char *url =
	    arena_printf(d->arena, "%.*s/.well-known/openid-configuration", (int)n, l->issuer);
	if (device_ask(url, NULL, d, e) < 0)
		return -1;
	*device = arena_dup(d->arena, device_text(d, "device_authorization_endpoint"));
	*token = arena_dup(d->arena, device_text(d, "token_endpoint"));
	if (**device && **token)
		return 0;
	return err_set(e, 400, NULL, "%s does not offer logins of devices", l->issuer);
}

/* The code of a device, and how to ask for it. */
struct device_code {
	struct span code;
	int64_t end_ms, interval_s;
};

/* Until the answer is a token or a refusal. */
static int device_poll(const struct device_login *l, struct device_answer *d,
                       const struct device_code *c, struct login_entry *out, struct err *e)
{
	int64_t interval_s = c->interval_s < INTERVAL_MAX_S ? c->interval_s : INTERVAL_MAX_S;
	STR_AUTO form = STR_SECRET(FORM_MAX);
	issuer_put(&form, "grant_type", SPAN("urn:ietf:params:oauth:grant-type:device_code"));
	issuer_put(&form, "device_code", c->code);
	issuer_put(&form, "client_id", span_of(l->client));
	for (unsigned failures = 0; clock_ms() < c->end_ms;) {
		clock_sleep(interval_s * 1000);
		err_done(e);
		if (device_ask(arena_dup(d->arena, out->endpoint), str_c(&form), d, e) < 0) {
			if (e->http != 503 || ++failures == FAILURES_MAX)
				return -1;
			continue;
		}
		failures = 0;
		struct span error = device_text(d, "error");
		if (span_is(error, "slow_down"))
			interval_s += interval_s + INTERVAL_S <= INTERVAL_MAX_S ? INTERVAL_S : 0;
		else if (d->status == 200)
			return device_take(d, out, e);
		else if (!span_is(error, "authorization_pending"))
			return device_refused(d, e);
	}
	return err_set(e, 400, NULL, "the code has expired: nobody has entered it in time");
}

int device_run(const struct device_login *l, struct arena *a, struct login_entry *out,
               struct err *e)
{
	struct device_answer d = { .arena = a };
	STR_AUTO form = STR_INIT(FORM_MAX);
	const char *device;
	const char *token;
	if (device_discover(l, &d, &device, &token, e) < 0)
		return -1;
	issuer_put(&form, "client_id", span_of(l->client));
	issuer_put(&form, "scope", SPAN("openid email profile offline_access"));
	if (device_ask(device, str_c(&form), &d, e) < 0)
		return -1;
	const struct device_code c = {
		.code = device_text(&d, "device_code"),
		.end_ms = clock_ms() + device_number(&d, "expires_in", 600) * 1000,
		.interval_s = device_number(&d, "interval", INTERVAL_S),
	};
	struct span user = device_text(&d, "user_code");
	struct span url = device_text(&d, "verification_uri_complete");
	url = url.n ? url : device_text(&d, "verification_uri");
	if (d.status != 200 || !c.code.n || !user.n || !url.n)
		return device_refused(&d, e);
	*out = (struct login_entry){ SPAN(""), 0, SPAN(""), span_of(token), span_of(l->client) };
	l->show(arena_dup(a, url), arena_dup(a, user));
	return device_poll(l, &d, &c, out, e);
}

int device_renew(struct login_entry *entry, struct arena *a, struct err *e)
{
	struct device_answer d = { .arena = a };
	STR_AUTO form = STR_SECRET(FORM_MAX);
	issuer_put(&form, "grant_type", SPAN("refresh_token"));
	issuer_put(&form, "refresh_token", entry->refresh);
	issuer_put(&form, "client_id", entry->client);
	if (device_ask(arena_dup(a, entry->endpoint), str_c(&form), &d, e) < 0)
		return -1;
	return d.status == 200 ? device_take(&d, entry, e) : device_refused(&d, e);
}
