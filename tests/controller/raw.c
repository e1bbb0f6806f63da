/*
 * Writes objects as fast as the API server takes them, for comparison.
 *
 *	raw --apiserver URL --ca FILE --token-file FILE N AT_ONCE WHAT <TEXT
 *
 * WHAT is pod, configmap or framework: TEXT is the JSON of such an object up to its name; the
 *program appends raw0", raw1" ... and `}}`, and creates it.  Or it is patch: TEXT is a JSON patch
 *for the Frameworks of these names.  Prints the number of requests that succeeded, and the seconds.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/posix/clock.h"
#include "jobs/store/store.h"

enum { BODY_MAX = 1 << 20, DEADLINE_MS = 600000, NAME_BYTES = 32 };

static const struct {
	const char *word;
	enum object_kind kind;
	enum store_verb verb;
} WHAT[] = {
	{ "pod", KIND_POD, STORE_CREATE },
	{ "configmap", KIND_CONFIGMAP, STORE_CREATE },
	{ "framework", KIND_FRAMEWORK, STORE_CREATE },
	{ "patch", KIND_FRAMEWORK, STORE_PATCH },
};

struct raw {
	struct store *store;
	struct str text;
	size_t what;
	int64_t left, done, good;
};

struct raw_request {
	struct raw *raw;
	char name[NAME_BYTES], end[2 * NAME_BYTES];
};

static void raw_done(void *arg, const struct store_reply *reply)
{
	struct raw_request *q = arg;
	q->raw->done++;
	q->raw->good += reply->outcome == STORE_OK;
	if (reply->outcome != STORE_OK && q->raw->done == 1)
		(void)fprintf(stderr, "raw: %d %.*s\n", reply->status, (int)reply->message.n,
		              reply->message.p);
	free(q);
}

static void raw_send(struct raw *raw)
{
	struct raw_request *q = xmalloc(sizeof(*q));
	bool creates = WHAT[raw->what].verb == STORE_CREATE;
	q->raw = raw;
	(void)snprintf(q->name, sizeof(q->name), "raw%lld", (long long)--raw->left);
	(void)snprintf(q->end, sizeof(q->end), "%s\"}}", q->name);
	const struct store_request request = {
		.verb = WHAT[raw->what].verb,
		.kind = WHAT[raw->what].kind,
		.name = q->name,
		.json_patch = !creates,
		.body = { str_view(&raw->text), creates ? span_of(q->end) : SPAN("") },
		.deadline_ms = clock_ms() + DEADLINE_MS,
		.done = raw_done,
		.arg = q,
	};
	store_request(raw->store, &request);
}

static void raw_run(struct raw *raw, size_t at_once)
{
	struct pollfd fd = { store_fd(raw->store), POLLIN, 0 };
	int64_t all = raw->left;
	while (raw->done < all) {
		store_reap(raw->store);
		while (raw->left > 0 && store_pending(raw->store) < 2 * at_once)
			raw_send(raw);
		store_start(raw->store);
		if (raw->done < all)
			(void)poll(&fd, 1, store_timeout_ms(raw->store));
	}
}

int main(int argc, char **argv)
{
	ERR_AUTO e = { 0 };
	char piece[4096];
	struct raw raw = { .text = STR_INIT(BODY_MAX) };
	int64_t at_once = 0;
	while (argc == 10 && raw.what < ARRAY_SIZE(WHAT) &&
	       strcmp(argv[9], WHAT[raw.what].word) != 0)
		raw.what++;
	if (argc != 10 || parse_i64(span_of(argv[7]), 1, INT32_MAX, &raw.left) < 0 ||
	    parse_i64(span_of(argv[8]), 1, 256, &at_once) < 0 || raw.what == ARRAY_SIZE(WHAT))
		return 2;
	for (ssize_t n; (n = read(0, piece, sizeof(piece))) > 0;)
		str_put(&raw.text, piece, (size_t)n);
	const struct login_options login = { .apiserver = argv[2],
		                             .ca_file = argv[4],
		                             .token_file = argv[6],
		                             .namespace_name = "default" };
	const struct store_limits limits = { (size_t)at_once, 4096, 4u << 20, 0 };
	struct login *l = login_new(&login, &e);
	raw.store = l ? store_api_new(l, "default", &limits, &e) : NULL;
	if (!raw.store) {
		(void)fprintf(stderr, "raw: %s\n", err_msg(&e));
		return 1;
	}
	int64_t start_ms = clock_ms();
	raw_run(&raw, (size_t)at_once);
	(void)printf("%lld %.3f\n", (long long)raw.good, (double)(clock_ms() - start_ms) / 1e3);
	store_free(raw.store);
	login_free(l);
	str_done(&raw.text);
	return 0;
}
