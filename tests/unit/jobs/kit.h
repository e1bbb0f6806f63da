#pragma once
/* Shared by the tests of stores: running a store, waiting for an answer, keeping a copy of it. */
/* cmocka wants these four first */
#include "tests/unit/base/cmocka.h"
#include <dirent.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/posix/clock.h"
#include "jobs/store/store.h"

enum { AMPLE_MS = 60000 }; /* the deadline of what ends without it, on any machine */

struct kept {
	int calls;
	enum store_outcome outcome;
	int status, retry_after_s;
	int64_t date_s;
	char uid[64], version[64], message[512];
	char body[65536];
};

static inline void kept_copy(char *to, size_t room, struct span from)
{
	size_t n = from.n < room ? from.n : room - 1;
	if (n > 0)
		memcpy(to, from.p, n);
	to[n] = '\0';
}

static inline void keep(void *arg, const struct store_reply *r)
{
	struct kept *k = arg;
	k->calls++;
	k->outcome = r->outcome;
	k->status = r->status;
	k->retry_after_s = r->retry_after_s;
	k->date_s = r->date_s;
	kept_copy(k->uid, sizeof(k->uid), r->uid);
	kept_copy(k->version, sizeof(k->version), r->resource_version);
	kept_copy(k->message, sizeof(k->message), r->message);
	kept_copy(k->body, sizeof(k->body), r->body);
}

/* One turn of a loop, waiting at most wait_ms. */
static inline void store_run_once(struct store *s, int wait_ms)
{
	store_reap(s);
	store_start(s);
	if (store_pending(s) == 0)
		return;
	int ms = store_timeout_ms(s);
	if (ms < 0 || ms > wait_ms)
		ms = wait_ms;
	struct pollfd p = { .fd = store_fd(s), .events = POLLIN };
	(void)poll(&p, 1, ms);
}

/* Run the store until all has been answered. */
static inline void settle(struct store *s)
{
	int64_t stop = clock_ms() + 2 * AMPLE_MS;
	while (store_pending(s) > 0) {
		assert_true(clock_ms() < stop);
		store_run_once(s, 1000);
	}
}

/* Sends a request n times; what is kept of the answers, in the arena of the test. */
static inline struct kept *send_off(struct store *s, struct store_request r, size_t n)
{
	struct kept *k = ARENA_NEW(&unit.a, struct kept, n);
	r.done = keep;
	r.deadline_ms = r.deadline_ms ? r.deadline_ms : clock_ms() + AMPLE_MS;
	for (size_t i = 0; i < n; i++) {
		r.arg = &k[i];
		store_request(s, &r);
	}
	return k;
}

static inline struct kept ask(struct store *s, struct store_request r)
{
	FREE_AUTO struct kept *k = calloc(1, sizeof(*k));
	assert_non_null(k);
	r.done = keep;
	r.arg = k;
	if (r.deadline_ms == 0)
		r.deadline_ms = clock_ms() + AMPLE_MS;
	store_request(s, &r);
	assert_int_equal(k->calls, 0);
	settle(s);
	assert_int_equal(k->calls, 1);
	struct kept result = *k;
	return result;
}

/* ---- the surroundings: a test has one thread while it does these ------------------- */

/* Run a command of the test's own making. */
__attribute__((unused, format(printf, 1, 2))) static void shell(const char *fmt, ...)
{
	char command[2048];
	va_list ap;
	va_start(ap, fmt);
	(void)vsnprintf(command, sizeof(command), fmt, ap); // NOLINT(clang-analyzer-valist*)
	va_end(ap);
	assert_int_equal(system(command), 0); // NOLINT(cert-env33-c,concurrency-mt-unsafe)
}

/* Set a variable of the environment, or remove it (NULL). */
static inline void set_env(const char *name, const char *value)
{
	// NOLINTNEXTLINE(concurrency-mt-unsafe)
	assert_int_equal(value ? setenv(name, value, 1) : unsetenv(name), 0);
}

static inline const char *get_env(const char *name)
{
	return getenv(name); // NOLINT(concurrency-mt-unsafe)
}

/* Returns the number of open descriptors. */
static inline size_t open_files(void)
{
	size_t n = 0;
	DIR *d = opendir("/proc/self/fd");
	assert_non_null(d);
	while (readdir(d) != NULL) // NOLINT(concurrency-mt-unsafe)
		n++;
	(void)closedir(d);
	return n;
}
