#include "runtime-assets/net/token.h"

#include <sys/stat.h>

#include "base/enc.h"
#include "base/tree.h"
#include "runtime-assets/files.h"

/* ---- the file ------------------------------------------------------------------------------ */

static bool token_ok(struct span t)
{
	for (size_t i = 0; i < t.n; i++) {
		if (t.p[i] <= ' ' || t.p[i] > '~')
			return false;
	}
	return t.n > 0 && t.n <= TOKEN_MAX;
}

int token_append(const char *file, struct str *out, struct err *e)
{
	ARENA_AUTO a = { 0 };
	struct span text;
	/* A byte more than a token may have, and the line's end. */
	int got = file_read(file, FILE_MOUNTED, TOKEN_MAX + 2, &a, &text, e);
	if (got > 0)
		return err_set(e, FAILED, "%s is not there", file);
	if (got < 0)
		return -1;
	struct span token = span_trim(text);
	bool ok = token_ok(token);
	if (ok)
		str_span(out, token);
	arena_wipe(&a);
	if (ok)
		return 0;
	return err_set(e, FAILED, "%s: a token is one word of at most %d visible characters", file,
	               TOKEN_MAX);
}

/* ---- what it says of itself ------------------------------------------------------------------ */

/* base64url without padding; -1 if it is not that. */
static int decode_part(struct span part, struct arena *a, struct span *json)
{
	STR_AUTO text = STR_SECRET(TOKEN_MAX + 4);
	str_span(&text, part);
	while (text.n % 4 != 0)
		str_char(&text, '=');
	if (text.full || text.n == 0)
		return -1;
	for (size_t i = 0; i < text.n; i++) {
		if (text.p[i] == '-')
			text.p[i] = '+';
		else if (text.p[i] == '_')
			text.p[i] = '/';
	}
	return base64_decode(a, str_view(&text), json);
}

/* Text that can be the name of something in Kubernetes, or NULL. */
static const char *name_of(struct span t, struct arena *a)
{
	if (t.n == 0 || t.n > 253)
		return NULL;
	for (size_t i = 0; i < t.n; i++) {
		char c = t.p[i];
		if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '-' && c != '.')
			return NULL;
	}
	return arena_dup(a, t);
}

/* "system:serviceaccount:NAMESPACE:NAME": in all tokens of service accounts, old and new. */
static void read_subject(const struct node *sub, struct arena *a, struct token_claims *out)
{
	static const char START[] = "system:serviceaccount:";
	if (!node_is(sub, NODE_TEXT) || !span_starts(node_span(sub), START))
		return;
	struct span rest = { sub->text + sizeof(START) - 1, sub->n - (sizeof(START) - 1) };
	const char *colon = memchr(rest.p, ':', rest.n);
	if (colon == NULL)
		return;
	size_t n = (size_t)(colon - rest.p);
	const char *space = name_of((struct span){ rest.p, n }, a);
	const char *account = name_of((struct span){ colon + 1, rest.n - n - 1 }, a);
	if (space && account) {
		out->namespace_name = space;
		out->account = account;
	}
}

static int64_t time_of(const struct node *n)
{
	return node_is(n, NODE_INT) && n->integer > 0 ? n->integer : 0;
}

int token_claims(struct span jwt, struct arena *a, struct token_claims *out)
{
	static const struct budget SMALL = { 8, 200, TOKEN_MAX, 256 };
	const char *end = jwt.p + jwt.n;
	const char *first = memchr(jwt.p, '.', jwt.n);
	const char *second = first ? memchr(first + 1, '.', (size_t)(end - first - 1)) : NULL;
	struct span json;
	struct doc doc = { 0 };
	NOTES_AUTO warnings = { 0 };
	ERR_AUTO why = { 0 };
	bool syntax = false;
	if (second == NULL || jwt.n > TOKEN_MAX ||
	    decode_part((struct span){ first + 1, (size_t)(second - first - 1) }, a, &json) != 0 ||
	    utf8_check(json) < json.n ||
	    json_read(json, &SMALL, a, &doc, &warnings, &syntax, &why) != 0)
		return -1;
	*out = (struct token_claims){ .issued_s = time_of(node_get(&doc.root, "iat")),
		                      .expires_s = time_of(node_get(&doc.root, "exp")) };
	read_subject(node_get(&doc.root, "sub"), a, out);
	return 0;
}

/* ---- sentences --------------------------------------------------------------------------------
 */

void duration_text(struct str *out, int64_t seconds)
{
	static const struct {
		int64_t seconds;
		const char *name;
	} UNITS[] = { { 86400, "d" }, { 3600, "h" }, { 60, "min" } };
	/* From two of a unit on: "90 s" says more than "1 min". */
	for (size_t i = 0; i < sizeof(UNITS) / sizeof(UNITS[0]); i++) {
		if (seconds >= 2 * UNITS[i].seconds) {
			str_printf(out, "%lld %s", (long long)(seconds / UNITS[i].seconds),
			           UNITS[i].name);
			return;
		}
	}
	str_printf(out, "%lld s", (long long)(seconds < 0 ? 0 : seconds));
}

static void tell_expiry(int64_t expires_s, int64_t now_s, struct str *out)
{
	if (expires_s == 0) {
		str_puts(out, "never expires");
		return;
	}
	str_puts(out, expires_s > now_s ? "expires in " : "EXPIRED ");
	duration_text(out, expires_s > now_s ? expires_s - now_s : now_s - expires_s);
	if (expires_s <= now_s)
		str_puts(out, " ago");
}

void token_describe(const char *file, int64_t now_s, struct arena *a, struct token_claims *c,
                    struct str *out)
{
	STR_AUTO token = STR_SECRET(TOKEN_MAX);
	ERR_AUTO e = { 0 };
	struct token_claims mine = { 0 };
	struct stat st;
	if (token_append(file, &token, &e) != 0) {
		str_puts(out, err_msg(&e));
		return;
	}
	ARENA_AUTO decoded = { 0 };
	if (token_claims(str_view(&token), &decoded, &mine) != 0) {
		str_puts(out, "no token of a service account");
	} else {
		if (mine.account) {
			mine.account = arena_dup(a, span_of(mine.account));
			mine.namespace_name = arena_dup(a, span_of(mine.namespace_name));
			str_printf(out, "service account %s/%s, ", mine.namespace_name,
			           mine.account);
		}
		tell_expiry(mine.expires_s, now_s, out);
	}
	arena_wipe(&decoded);
	if (stat(file, &st) == 0) {
		str_puts(out, ", file written ");
		duration_text(out, now_s - st.st_mtime);
		str_puts(out, " ago");
	}
	if (c)
		*c = mine;
}
