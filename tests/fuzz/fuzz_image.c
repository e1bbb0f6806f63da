/*
 * Names of images, challenges, and a dialogue with a registry that answers anything.  The text is
 * cut at empty lines: the image, the login (user and registry, a line each), then
 * replies, each with a status in its first line and, behind the headers, after a line `.`, a body.
 * When there are no more, nobody answers.
 *
 * A dialogue ends within its number of requests, asks only what can be put into a request,
 * sends the password nowhere but to https and with the one header, and never says it.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "base/image/registry.h"

enum { INPUT_MAX = 1 << 16 };

/* Not to be confused with anything that the input holds by chance. */
static const char PASSWORD[] = "pAsS-7f3c1d";
static const char BASE64_PASSWORD[] = "cEFzUy03ZjNjMWQ"; /* as it stands after 3n bytes */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Cut off what stands before the text, and the text. */
static struct span cut(struct span *rest, const char *at)
{
	size_t n = span_find(*rest, 0, at);
	struct span before = { rest->p, n == SIZE_MAX ? rest->n : n };
	size_t skip = n == SIZE_MAX ? rest->n : n + strlen(at);
	*rest = (struct span){ rest->p + skip, rest->n - skip };
	return before;
}

static bool is_printable(const char *s)
{
	for (; *s; s++) {
		if (*s < ' ' || *s > '~')
			return false;
	}
	return true;
}

static void check_image(struct span name, const struct image *i)
{
	struct span repository = span_of(i->repository);
	assert(span_eq(span_of(i->name), name) && is_printable(i->name));
	assert(image_host_ok(span_of(i->host)));
	assert(repository.n > 0 && repository.p[0] != '/' &&
	       span_find(repository, 0, "..") == SIZE_MAX);
	assert(i->reference[0] && !strchr(i->reference, '/'));
	assert(!i->hub || strchr(i->repository, '/'));
	assert(image_login_fits(i, span_of(i->host)));
}

static void check_ask(const struct registry_ask *ask, bool may_log_in)
{
	assert(image_host_ok(span_of(ask->to.authority)) && ask->to.port > 0);
	assert(ask->to.host[0] && !strchr(ask->to.host, '['));
	assert(ask->to.target[0] == '/' && is_printable(ask->to.target));
	assert(!strchr(ask->to.target, ' ') && !strchr(ask->to.target, '#'));
	assert(!strstr(ask->to.target, PASSWORD));
	assert(strcmp(ask->method, "HEAD") == 0 || strcmp(ask->method, "GET") == 0);
	assert(ask->wait_ms >= 0 && ask->wait_ms < 3602000);
	for (const char *const *h = ask->headers; *h; h++) {
		bool authorization = span_starts(span_of(*h), "Authorization: ");
		assert(is_printable(*h) && (authorization || !strstr(*h, PASSWORD)));
		assert(may_log_in || !span_starts(span_of(*h), "Authorization: Basic"));
	}
}

static int status_of(struct span line)
{
	int64_t status;
	return parse_i64(span_trim(line), 0, 999, &status) == 0 ? (int)status : -1;
}

static void tell(struct registry_dialogue *d, struct span *replies)
{
	struct span reply = cut(replies, "\n\n");
	struct span status = cut(&reply, "\n");
	struct span headers = cut(&reply, "\n.\n");
	struct registry_reply r = { status_of(status), headers, reply };
	if (r.status < 0)
		registry_trouble(d, "nobody answers");
	else
		registry_reply(d, &r, 40000);
}

static void talk(const struct image *image, const struct image_login *login, struct span replies,
                 struct arena *a)
{
	struct registry_dialogue d;
	struct registry_ask ask;
	unsigned asks = 0;
	registry_begin(&d, image, login, 5, a);
	while (registry_next(&d, &ask)) {
		asks++;
		assert(asks <= REGISTRY_ASKS_MAX);
		check_ask(&ask, login->user.n && image_login_fits(image, login->registry));
		tell(&d, &replies);
	}
	assert(!strstr(d.sentence, PASSWORD) && !strstr(d.sentence, BASE64_PASSWORD));
	assert(is_printable(d.sentence) && (d.verdict == REGISTRY_FOUND) == !d.sentence[0]);
	assert(!registry_next(&d, &ask));
}

static void check_challenges(struct span headers, struct arena *a)
{
	struct challenges c;
	challenges_read(headers, a, &c);
	assert(is_printable(c.realm.p) && is_printable(c.service.p) && is_printable(c.scope.p));
	assert(c.bearer || c.realm.n + c.service.n + c.scope.n == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct span rest = { (const char *)data, size > INPUT_MAX ? INPUT_MAX : size };
	ARENA_AUTO a = { 0 };
	struct image image;
	if (!rest.p || memmem(rest.p, rest.n, PASSWORD, sizeof(PASSWORD) - 1) ||
	    memmem(rest.p, rest.n, BASE64_PASSWORD, sizeof(BASE64_PASSWORD) - 1))
		return 0; /* the fuzzer has read it out of the comparisons */
	check_challenges(rest, &a);
	struct span name = cut(&rest, "\n\n");
	struct span lines = cut(&rest, "\n\n");
	struct image_login login = { .password = SPAN(PASSWORD) };
	login.user = cut(&lines, "\n");
	login.registry = cut(&lines, "\n");
	(void)image_registry_host(login.registry);
	(void)image_default_registry(name, &a);
	int bad = image_parse(name, &a, &image);
	assert((bad == 0) == (image_problem(name) == NULL));
	if (bad == 0) {
		check_image(name, &image);
		talk(&image, &login, rest, &a);
	}
	return 0;
}
