/*
 * Creates pods as fast as the API server takes them, for comparison.
 *
 *	raw --apiserver URL --ca FILE --token-file FILE N AT_ONCE <POD
 *
 * POD is the JSON of a pod up to its name: the program appends raw-0", raw-1" ... and `}}`.  Prints
 * the number of pods that were created and the seconds that it took.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/posix/clock.h"
#include "jobs/store/store.h"

enum { BODY_MAX = 1 << 20, DEADLINE_MS = 600000, NAME_BYTES = 32 };

struct raw {
	struct store *store;
	struct str pod;
	int64_t left, done, created;
};

struct raw_pod {
	struct raw *raw;
	char name[NAME_BYTES], end[2 * NAME_BYTES];
};

static void raw_done(void *arg, const struct store_reply *reply)
{
	struct raw_pod *pod = arg;
	pod->raw->done++;
	pod->raw->created += reply->outcome == STORE_OK;
	free(pod);
}

static void raw_post(struct raw *raw)
{
	struct raw_pod *pod = xmalloc(sizeof(*pod));
	pod->raw = raw;
	(void)snprintf(pod->name, sizeof(pod->name), "raw-%lld", (long long)--raw->left);
	(void)snprintf(pod->end, sizeof(pod->end), "%s\"}}", pod->name);
	const struct store_request request = {
		.verb = STORE_CREATE,
		.kind = KIND_POD,
		.name = pod->name,
		.body = { str_view(&raw->pod), span_of(pod->end) },
		.deadline_ms = clock_ms() + DEADLINE_MS,
		.done = raw_done,
		.arg = pod,
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
			raw_post(raw);
		store_start(raw->store);
		if (raw->done < all)
			(void)poll(&fd, 1, store_timeout_ms(raw->store));
	}
}

int main(int argc, char **argv)
{
	ERR_AUTO e = { 0 };
	char piece[4096];
	struct raw raw = { .pod = STR_INIT(BODY_MAX) };
	int64_t at_once = 0;
	if (argc != 9 || parse_i64(span_of(argv[7]), 1, INT32_MAX, &raw.left) < 0 ||
	    parse_i64(span_of(argv[8]), 1, 256, &at_once) < 0)
		return 2;
	for (ssize_t n; (n = read(0, piece, sizeof(piece))) > 0;)
		str_put(&raw.pod, piece, (size_t)n);
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
	(void)printf("%lld %.3f\n", (long long)raw.created, (double)(clock_ms() - start_ms) / 1e3);
	store_free(raw.store);
	login_free(l);
	str_done(&raw.pod);
	return 0;
}
