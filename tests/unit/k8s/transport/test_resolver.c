/* A resolver that hangs must not hang the loop.  This file defines getaddrinfo, which libcurl
 * calls, for all tests of the folder. */
#include "base/posix/clock.h"
#include "tests/unit/jobs/kit.h"

#include <dlfcn.h>
#include <netdb.h>
#include <poll.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <time.h>

enum { HANGS_S = 60, DEADLINE_MS = 300 };

static sem_t asked, released;
static atomic_bool hangs; /* from the start of the test on */
static atomic_bool returned;

/* Hangs until it is released, or for longer than any caller waits. */
int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                struct addrinfo **found)
{
	int (*next)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
	void *function = dlsym(RTLD_NEXT, "getaddrinfo");
	memcpy(&next, &function, sizeof(next));
	if (!atomic_load(&hangs))
		return next(name, service, hints, found);
	*found = NULL;
	struct timespec end;
	(void)clock_gettime(CLOCK_REALTIME, &end); /* cannot fail with this clock */
	end.tv_sec += HANGS_S;
	(void)sem_post(&asked);
	(void)sem_timedwait(&released, &end); /* either way it returns */
	atomic_store(&returned, true);
	return EAI_AGAIN;
}

static size_t threads(void)
{
	size_t n = 0;
	DIR *d = opendir("/proc/self/task");
	assert_non_null(d);
	for (const struct dirent *entry;
	     (entry = readdir(d)) != NULL;) // NOLINT(concurrency-mt-unsafe)
		n += entry->d_name[0] != '.';
	(void)closedir(d);
	return n;
}

TEST(test_store_does_not_wait_for_a_resolver_that_hangs)
{
	struct login_options o = { .apiserver = "https://hangs.invalid" };
	struct store_limits limits = STORE_LIMITS_DEFAULT;
	struct login *login = login_new(&o, no_err());
	assert_string_equal(err_msg(&unit.e), "");
	struct store *store = store_api_new(login, "jobs", &limits, no_err());
	assert_string_equal(err_msg(&unit.e), "");
	struct kept k =
	    ask(store, (struct store_request){ .verb = STORE_GET,
	                                       .kind = KIND_FRAMEWORK,
	                                       .name = "f",
	                                       .deadline_ms = clock_ms() + DEADLINE_MS });
	assert_int_equal(k.outcome, STORE_BUSY);
	store_free(store);
	assert_false(atomic_load(&returned));
	login_free(login);
	(void)sem_wait(&asked); /* it was called at all */
	(void)sem_post(&released);
	while (threads() > 1) /* its thread frees its memory */
		clock_sleep(2);
}

FIXTURE(set_up)
{
	atomic_store(&hangs, true);
	return sem_init(&asked, 0, 0) || sem_init(&released, 0, 0);
}

TEST_GROUP(set_up, NULL)
