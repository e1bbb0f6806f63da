/* Asks a registry for an image; see registry.h. */
#include "base/image/registry.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/enc.h"
#include "base/image/image.h"
#include "base/tree.h"

enum {
	TRIES = 3,
	REDIRECTS = 3,
	PAUSE_MS = 1000, /* before the second try; twice that before the third */
	PAUSE_MAX_S = 3600,
	TARGET_MAX = 16 << 10,
	SENTENCE_MAX = 2048,
	LOGIN_MAX = 64 << 10,
	LOGIN_LINE_MAX = 2 * LOGIN_MAX,
	TOKEN_MAX = 32 << 10
};

static const char ACCEPT[] = "Accept: application/vnd.docker.distribution.manifest.v2+json, "
			     "application/vnd.docker.distribution.manifest.list.v2+json, "
			     "application/vnd.oci.image.manifest.v1+json, "
			     "application/vnd.oci.image.index.v1+json";

/* ---- verdicts ---- */

__attribute__((format(printf, 3, 4))) static void
registry_conclude(struct registry_dialogue *d, enum registry_verdict v, const char *fmt, ...)
{
	char text[SENTENCE_MAX];
	va_list ap;
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap); /* may be truncated */
	va_end(ap);
	d->verdict = v;
	d->stage = STAGE_DONE;
	d->sentence = arena_dup(d->a, span_of(text));
}

static void registry_found(struct registry_dialogue *d)
{
	registry_conclude(d, REGISTRY_FOUND, "%s", "");
}

__attribute__((format(printf, 2, 3))) static void unsure(struct registry_dialogue *d,
                                                         const char *fmt, ...)
{
	char text[SENTENCE_MAX / 2];
	va_list ap;
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap); /* may be truncated */
	va_end(ap);
	registry_conclude(d, REGISTRY_UNSURE, "whether image %s exists is not known: %s",
	                  d->image->name, text);
}

static void not_there(struct registry_dialogue *d)
{
	registry_conclude(
	    d, REGISTRY_MISSING,
	    "image %s does not exist: registry %s has no %s of %s (404); check the name and "
	    "the tag",
	    d->image->name, d->image->host, d->image->reference, d->image->repository);
}

static void denied(struct registry_dialogue *d)
{
	const char *check =
	    d->login_ignored
		? "it requires a login (401), and the login of the prerequisite is for another "
		  "registry; check auth.registryuri"
	    : d->basic
		? "it refuses the login of the prerequisite (401); check auth.username, "
		  "auth.password and auth.registryuri, and whether this account may pull it"
		: "it requires a login (401), or the image does not exist; check the name, or "
		  "give the prerequisite an `auth`";
	registry_conclude(d, REGISTRY_MISSING, "image %s cannot be pulled from registry %s: %s",
	                  d->image->name, d->image->host, check);
}

static struct registry_place at_registry(const struct registry_dialogue *d, const char *target)
{
	return registry_place_at(span_of(d->image->host), target, d->a);
}

/* The next reply can contain the login of the job. */
static bool knows_login(const struct registry_dialogue *d)
{
	return d->told || (d->basic && (d->stage == STAGE_TOKEN || d->stage == STAGE_LOGIN));
}

const char *registry_host(const struct registry_dialogue *d)
{
	return d->told ? "the host that it leads to" : d->to.authority;
}

/* ---- stages ---- */

static void registry_enter(struct registry_dialogue *d, enum registry_stage stage,
                           struct registry_place to)
{
	d->stage = stage;
	d->to = to;
	d->tries = 0;
	d->wait_ms = 0;
	d->redirects = 0;
	d->elsewhere = false;
	d->told = false;
}

static void ask_for_manifest(struct registry_dialogue *d, enum registry_stage stage)
{
	const char *target =
	    arena_printf(d->a, "/v2/%s/manifests/%s", d->image->repository, d->image->reference);
	registry_enter(d, stage, at_registry(d, target));
}

static void log_in(struct registry_dialogue *d, const char *authorization, bool last_resort)
{
	d->authorization = authorization;
	d->last_resort = last_resort;
	ask_for_manifest(d, STAGE_LOGIN);
}

/* Percent-encodes all but unreserved characters and the punctuation of scopes. */
static void registry_put_query(struct str *url, const char *name, struct span value)
{
	static const char HEX[] = "0123456789ABCDEF";
	static const char PLAIN[] = "-._~:/,@";
	str_char(url, span_find(str_view(url), 0, "?") == SIZE_MAX ? '?' : '&');
	str_printf(url, "%s=", name);
	for (size_t i = 0; i < value.n; i++) {
		unsigned char c = (unsigned char)value.p[i];
		if (is_alnum((char)c) || (c && strchr(PLAIN, c)))
			str_char(url, (char)c);
		else
			str_printf(url, "%%%c%c", HEX[c >> 4], HEX[c & 15]);
	}
}

/* One `scope` parameter for each of the scopes, which are separated by blanks. */
static void put_scopes(struct str *url, struct span scopes)
{
	while ((scopes = span_trim(scopes)).n) {
		size_t n = span_find(scopes, 0, " ");
		struct span one = { scopes.p, n == SIZE_MAX ? scopes.n : n };
		registry_put_query(url, "scope", one);
		scopes = (struct span){ scopes.p + one.n, scopes.n - one.n };
	}
}

static void ask_for_token(struct registry_dialogue *d, const struct challenges *c)
{
	struct registry_place to;
	if (registry_place_read(c->realm, d->a, &to)) {
		unsure(d, "registry %s names no https address for logging in", d->image->host);
		return;
	}
	STR_AUTO target = STR_INIT(TARGET_MAX);
	str_puts(&target, to.target);
	if (c->service.n)
		registry_put_query(&target, "service", c->service);
	put_scopes(&target, c->scope);
	if (target.full) {
		unsure(d, "registry %s sends a challenge that is too long", d->image->host);
		return;
	}
	to.target = arena_dup(d->a, str_view(&target));
	bool told = knows_login(d) && strcmp(to.authority, d->image->host) != 0;
	registry_enter(d, STAGE_TOKEN, to);
	d->told = told;
}

/* 401 to a request without a login that was accepted. */
static void answer_challenge(struct registry_dialogue *d, const struct registry_reply *r,
                             bool basic_tried)
{
	struct challenges c;
	challenges_read(r->headers, d->a, &c);
	if (d->elsewhere)
		unsure(d, "registry %s sends on to %s, which wants a login", d->image->host,
		       registry_host(d));
	else if (c.bearer && (c.realm.n || !c.basic))
		ask_for_token(d, &c);
	else if (c.basic && d->basic && !basic_tried)
		log_in(d, d->basic, false);
	else if (c.basic || !c.other)
		denied(d);
	else
		unsure(d,
		       "registry %s requires an authentication scheme that is neither Bearer nor "
		       "Basic",
		       d->image->host);
}

/* ---- answers, by stage ---- */

static void ping_answered(struct registry_dialogue *d, const struct registry_reply *r)
{
	if (r->status >= 200 && (r->status < 400 || r->status == 401))
		ask_for_manifest(d, STAGE_OPEN);
	else
		unsure(d, "%s does not answer as a registry does (%d to /v2/)", d->image->host,
		       r->status);
}

static bool is_redirect(int status)
{
	return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

static void registry_follow(struct registry_dialogue *d, const struct registry_reply *r)
{
	struct span location = header_value(r->headers, "Location", 0);
	struct registry_place to = d->to;
	bool path = location.n && location.p[0] == '/' && !span_starts(location, "//");
	if (++d->redirects > REDIRECTS) {
		unsure(d, "registry %s redirects too often", d->image->host);
	} else if (path ? !registry_target_ok(location)
	                : !location.p || registry_place_read(location, d->a, &to)) {
		unsure(d, "registry %s redirects to an address that is not https", d->image->host);
	} else {
		if (path)
			to.target = arena_dup(d->a, location);
		bool other = strcmp(to.authority, d->to.authority) != 0;
		d->told = knows_login(d) && (d->told || other);
		d->elsewhere |= other;
		d->to = to;
		d->tries = 0;
	}
}

static void other_answer(struct registry_dialogue *d, const struct registry_reply *r)
{
	unsure(d, "%s answers %d", registry_host(d), r->status);
}

static void open_answered(struct registry_dialogue *d, const struct registry_reply *r)
{
	if (r->status == 401)
		answer_challenge(d, r, false);
	else if (r->status == 404 && d->basic)
		log_in(d, d->basic, true); /* some registries hide private images */
	else if (r->status == 404)
		not_there(d);
	else
		other_answer(d, r);
}

static void login_answered(struct registry_dialogue *d, const struct registry_reply *r)
{
	if (r->status == 404)
		not_there(d);
	else if (r->status == 401 && (d->last_resort || d->elsewhere))
		answer_challenge(d, r, true);
	else if (r->status == 401)
		denied(d);
	else
		other_answer(d, r);
}

/* Valid as the value of a header. */
static bool registry_token_ok(const struct node *n)
{
	if (!node_is(n, NODE_TEXT) || n->n == 0 || n->n > TOKEN_MAX)
		return false;
	for (uint32_t i = 0; i < n->n; i++) {
		if (n->text[i] <= ' ' || n->text[i] > '~')
			return false;
	}
	return true;
}

static const struct node *registry_read_token(struct span body, struct arena *a)
{
	static const struct budget BUDGET = { 8, 1000, REGISTRY_BODY_MAX, 256 };
	struct doc *doc = ARENA_NEW(a, struct doc, 1);
	NOTES_AUTO warnings = { 0 };
	ERR_AUTO e = { 0 };
	bool syntax = false;
	if (body.n > REGISTRY_BODY_MAX || utf8_check(body) != body.n ||
	    json_read(body, &BUDGET, a, doc, &warnings, &syntax, &e))
		return NULL;
	const struct node *token = node_get(&doc->root, "token");
	if (!registry_token_ok(token))
		token = node_get(&doc->root, "access_token");
	return registry_token_ok(token) ? token : NULL;
}

static void token_answered(struct registry_dialogue *d, const struct registry_reply *r)
{
	if (r->status == 401) {
		denied(d);
	} else if (r->status < 200 || r->status > 299) {
		other_answer(d, r);
	} else {
		const struct node *token = registry_read_token(r->body, d->a);
		if (token)
			log_in(d, arena_printf(d->a, "Authorization: Bearer %s", token->text),
			       false);
		else
			unsure(d, "%s does not answer with a token", registry_host(d));
	}
}

/* ---- too busy ---- */

/* xorshift: jitter for the tasks of a job, which start together. */
static uint32_t next_random(struct registry_dialogue *d)
{
	uint32_t x = d->random ? d->random : 1;
	x ^= x << 13;
	x ^= x >> 17;
	x ^= x << 5;
	return d->random = x;
}

static void registry_try_again(struct registry_dialogue *d, const struct registry_reply *r,
                               int64_t left_ms)
{
	int64_t after_s = 0;
	struct span after = header_value(r->headers, "Retry-After", 0);
	bool given = after.p && parse_i64(after, 0, PAUSE_MAX_S, &after_s) == 0;
	int64_t pause_ms = (int64_t)PAUSE_MS << (d->tries - 1);
	if (given && after_s * 1000 > pause_ms)
		pause_ms = after_s * 1000;
	pause_ms += next_random(d) % (PAUSE_MS / 2);
	if (d->tries >= TRIES)
		unsure(d, "%s is busy: it answered %d %d times", registry_host(d), r->status,
		       TRIES);
	else if (pause_ms >= left_ms)
		unsure(d, "%s is busy (%d), and there is no time to try again", registry_host(d),
		       r->status);
	else
		d->wait_ms = pause_ms;
}

/* ---- the interface ---- */

static const char *basic_header(const struct image_login *login, struct arena *a)
{
	struct str pair = STR_SECRET(LOGIN_MAX);
	struct str line = STR_SECRET(LOGIN_LINE_MAX);
	str_span(&pair, login->user);
	str_char(&pair, ':');
	str_span(&pair, login->password);
	str_puts(&line, "Authorization: Basic ");
	str_base64(&line, str_view(&pair));
	const char *text = pair.full || line.full ? NULL : arena_dup(a, str_view(&line));
	str_wipe(&pair);
	str_wipe(&line);
	return text;
}

void registry_begin(struct registry_dialogue *d, const struct image *image,
                    const struct image_login *login, uint32_t random, struct arena *a)
{
	*d = (struct registry_dialogue){ .a = a, .image = image, .random = random, .sentence = "" };
	if (login && login->user.n && login->password.n) {
		d->login_ignored = !image_login_fits(image, login->registry);
		d->basic = d->login_ignored ? NULL : basic_header(login, a);
	}
	registry_enter(d, STAGE_PING, at_registry(d, "/v2/"));
}

static const char *authorization_of(const struct registry_dialogue *d)
{
	if (d->stage == STAGE_TOKEN)
		return d->basic;
	return d->stage == STAGE_LOGIN && !d->elsewhere ? d->authorization : NULL;
}

bool registry_next(struct registry_dialogue *d, struct registry_ask *ask)
{
	if (d->stage != STAGE_DONE && d->asks++ == REGISTRY_ASKS_MAX)
		unsure(d, "registry %s needs too many requests", d->image->host);
	if (d->stage == STAGE_DONE)
		return false;
	size_t n = 0;
	const char *authorization = authorization_of(d);
	d->headers[n++] = d->stage == STAGE_TOKEN ? "Accept: application/json" : ACCEPT;
	if (authorization)
		d->headers[n++] = authorization;
	d->headers[n] = NULL;
	*ask = (struct registry_ask){
		.method = d->stage == STAGE_TOKEN ? "GET" : "HEAD",
		.to = d->to,
		.headers = d->headers,
		.wait_ms = d->wait_ms,
	};
	d->tries++;
	d->wait_ms = 0;
	return true;
}

void registry_reply(struct registry_dialogue *d, const struct registry_reply *r, int64_t left_ms)
{
	static void (*const ANSWERED[])(struct registry_dialogue *,
	                                const struct registry_reply *) = {
		[STAGE_PING] = ping_answered,
		[STAGE_OPEN] = open_answered,
		[STAGE_TOKEN] = token_answered,
		[STAGE_LOGIN] = login_answered,
	};
	bool manifest = d->stage == STAGE_OPEN || d->stage == STAGE_LOGIN;
	if (d->stage == STAGE_DONE)
		return;
	if (r->status == 429 || r->status >= 500)
		registry_try_again(d, r, left_ms);
	else if (manifest && r->status >= 200 && r->status < 300)
		registry_found(d);
	else if (manifest && is_redirect(r->status))
		registry_follow(d, r);
	else
		ANSWERED[d->stage](d, r);
}

void registry_trouble(struct registry_dialogue *d, const char *why)
{
	if (d->stage == STAGE_DONE)
		return;
	if (d->told)
		unsure(d, "%s cannot be asked", registry_host(d)); /* `why` can contain its name */
	else
		unsure(d, "%s", why);
}

enum { HTTPS_PORT = 443, URL_LIMIT = 4096 };

struct registry_place registry_place_at(struct span authority, const char *target, struct arena *a)
{
	struct span host = authority;
	int64_t port = HTTPS_PORT;
	size_t from = authority.p[0] == '[' ? span_find(authority, 0, "]") : 0;
	size_t colon = span_find(authority, from, ":");
	if (colon != SIZE_MAX) {
		int bad =
		    parse_i64((struct span){ authority.p + colon + 1, authority.n - colon - 1 }, 1,
		              UINT16_MAX, &port);
		(void)bad; /* image_host_ok() has checked */
		host.n = colon;
	}
	if (host.p[0] == '[')
		host = (struct span){ host.p + 1, host.n - 2 };
	return (struct registry_place){
		.authority = arena_dup(a, authority),
		.host = arena_dup(a, host),
		.port = (uint16_t)port,
		.target = target,
	};
}

bool registry_target_ok(struct span s)
{
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] <= ' ' || s.p[i] > '~' || strchr("\"<>\\^`{|}#", s.p[i]))
			return false;
	}
	return s.n <= URL_LIMIT;
}

int registry_place_read(struct span url, struct arena *a, struct registry_place *out)
{
	static const char HTTPS[] = "https://";
	size_t n = sizeof(HTTPS) - 1;
	if (url.n <= n || url.n > URL_LIMIT)
		return -1;
	if (!span_same(span_to(url, n), SPAN(HTTPS)))
		return -1;
	struct span rest = span_from(url, n);
	for (n = 0; n < rest.n && rest.p[n] != '/' && rest.p[n] != '?'; n++)
		;
	struct span authority = { rest.p, n };
	struct span target = span_from(rest, n);
	if (!image_host_ok(authority) || !registry_target_ok(target))
		return -1;
	bool has_path = target.n && target.p[0] == '/';
	*out = registry_place_at(
	    authority, arena_printf(a, "%s%.*s", has_path ? "" : "/", (int)target.n, target.p), a);
	return 0;
}

/* ---- lines of headers ---- */

struct span header_value(struct span headers, const char *name, unsigned nth)
{
	while (headers.n) {
		struct span line = span_next(&headers, '\n');
		size_t n = span_chr(line, ':');
		if (n < line.n && span_same(span_to(line, n), span_of(name)) && nth-- == 0)
			return span_trim(span_from(line, n + 1));
	}
	return (struct span){ NULL, 0 };
}

/* ---- one header ---- */

struct reader {
	struct span rest;
	struct arena *a;
	struct challenges *out;
	bool first_bearer; /* the next parameters belong to the first Bearer */
};

static bool registry_peek(const struct reader *r, char c)
{
	return r->rest.n > 0 && r->rest.p[0] == c;
}

static void registry_drop(struct reader *r, size_t n)
{
	r->rest = (struct span){ r->rest.p + n, r->rest.n - n };
}

/* Skips characters of the set; returns their number. */
static size_t registry_skip(struct reader *r, const char *set)
{
	size_t n = 0;
	while (n < r->rest.n && r->rest.p[n] && strchr(set, r->rest.p[n]))
		n++;
	registry_drop(r, n);
	return n;
}

/* A token or token68: no blanks, commas, quotes and `=`. */
static struct span word(struct reader *r)
{
	size_t n = 0;
	while (n < r->rest.n && r->rest.p[n] > ' ' && !strchr(",=\"", r->rest.p[n]))
		n++;
	struct span s = { r->rest.p, n };
	registry_drop(r, n);
	return s;
}

/* "..." with `\x` for x, decoded in the arena; an open string ends with the header. */
static struct span registry_quoted(struct reader *r)
{
	char *to = arena_alloc(r->a, r->rest.n + 1);
	size_t n = 0;
	size_t i = 1;
	for (; i < r->rest.n && r->rest.p[i] != '"'; i++) {
		i += r->rest.p[i] == '\\' && i + 1 < r->rest.n;
		to[n++] = r->rest.p[i];
	}
	registry_drop(r, i < r->rest.n ? i + 1 : r->rest.n);
	to[n] = '\0';
	return (struct span){ to, n };
}

static bool is_clean(struct span s)
{
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] < ' ' || s.p[i] > '~')
			return false;
	}
	return true;
}

static void registry_keep(struct reader *r, struct span name, struct span value)
{
	struct challenges *c = r->out;
	struct {
		const char *name;
		struct span *to;
	} const WANTED[] = {
		{ "realm", &c->realm },
		{ "service", &c->service },
		{ "scope", &c->scope },
	};
	for (size_t i = 0; i < ARRAY_SIZE(WANTED); i++) {
		if (span_same(name, span_of(WANTED[i].name)) && r->first_bearer && is_clean(value))
			*WANTED[i].to = arena_span(r->a, value);
	}
}

static void image_registry_begin(struct reader *r, struct span scheme)
{
	struct challenges *c = r->out;
	bool bearer = span_same(scheme, span_of("bearer"));
	bool basic = span_same(scheme, span_of("basic"));
	r->first_bearer = bearer && !c->bearer;
	c->bearer |= bearer;
	c->basic |= basic;
	c->other |= !bearer && !basic;
}

/*
 * A word followed by `=` is a parameter; any other word begins a challenge, unless it follows a
 * scheme without a comma: then it is a token68, as is a word with nothing after the `=`.  Anything
 * else ends the header.
 */
static void registry_read_value(struct reader *r)
{
	bool after_scheme = false;
	for (;;) {
		(void)registry_skip(r, " \t,");
		struct span name = word(r);
		if (name.n == 0)
			return;
		(void)registry_skip(r, " \t");
		if (registry_peek(r, '=')) {
			(void)registry_skip(r, "= \t");
			registry_keep(r, name,
			              registry_peek(r, '"') ? registry_quoted(r) : word(r));
			after_scheme = false;
		} else if (after_scheme) {
			after_scheme = false;
		} else {
			image_registry_begin(r, name);
			after_scheme = !registry_peek(r, ',');
		}
	}
}

void challenges_read(struct span headers, struct arena *a, struct challenges *out)
{
	struct span none = { "", 0 };
	*out = (struct challenges){ .realm = none, .service = none, .scope = none };
	struct span value;
	for (unsigned i = 0; (value = header_value(headers, "WWW-Authenticate", i)).p; i++) {
		struct reader r = { .rest = value, .a = a, .out = out };
		registry_read_value(&r);
	}
}
