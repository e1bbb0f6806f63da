/* The Lease, with an API server that answers by a script. */
#include "tests/unit/base/cmocka.h"
#include "tests/unit/k8s/api_kit.h"

#include "k8s/lease/lease.h"

#define STATUS_NOT_FOUND                                                                           \
	HEAD("404 Not Found", "", "60")                                                            \
	"{\"kind\":\"Status\",\"reason\":\"NotFound\",\"details\":{\"name\":\"l\"}}"
#define OTHERS(version)                                                                            \
	HEAD("200 OK", "", "86")                                                                   \
	"{\"metadata\":{\"uid\":\"u-1\",\"resourceVersion\":\"" version "\"},"                     \
	"\"spec\":{\"holderIdentity\":\"somebody\"}}"

enum { LONG_S = 120 }; /* the first round of such a Lease has time, on any machine */

struct trouble {
	atomic_int bad, fine;
};

static void note_trouble(void *arg, const char *why)
{
	struct trouble *t = arg;
	atomic_fetch_add(why ? &t->bad : &t->fine, 1);
}

static struct lease *take_part(struct trouble *t, int duration_s)
{
	const struct lease_settings s = { "l", duration_s, note_trouble, t };
	struct lease *l = lease_new(&s);
	assert_true(strlen(lease_identity(l)) > 16);
	assert_false(lease_is_held(l, NULL));
	assert_int_equal(lease_start(l, TAKE(store), no_err()), 0);
	return l;
}

/* Waits until it has noted so many rounds. */
static void rounds(atomic_int *n, int wanted)
{
	int64_t end_ms = clock_ms() + AMPLE_MS;
	while (atomic_load(n) < wanted && clock_ms() < end_ms)
		clock_sleep(2);
	assert_true(atomic_load(n) >= wanted);
}

/* Waits until it is held, after so many takings. */
static void is_taken(const struct lease *l, unsigned terms)
{
	int64_t end_ms = clock_ms() + AMPLE_MS;
	while ((lease_terms(l) < terms || !lease_is_held(l, NULL)) && clock_ms() < end_ms)
		clock_sleep(2);
	assert_true(lease_terms(l) >= terms);
}

/* Ends the login and the server, which has read all that was sent then. */
static void end_server(size_t requests)
{
	int64_t end_ms = clock_ms() + AMPLE_MS;
	while (server.requests < requests && clock_ms() < end_ms)
		clock_sleep(2);
	login_free(login);
	server_stop(&server);
}

static void nothing_is_given_back(void)
{
	for (size_t i = 0; i < server.requests && i < KEPT; i++)
		not_sent(i, "\"holderIdentity\":\"\"");
}

TEST(test_lease_is_created_and_given_back)
{
	struct trouble t = { 0 };
	int64_t left_ms = -1;
	START({ ANSWER, STATUS_NOT_FOUND }, { ANSWER, CREATED });
	struct lease *l = take_part(&t, LONG_S);
	FREE_AUTO char *holder = xasprintf("\"holderIdentity\":\"%s\"", lease_identity(l));
	rounds(&t.fine, 1);
	assert_true(lease_is_held(l, &left_ms));
	assert_in_range(left_ms, 1, LONG_S * 1000 * 2 / 3);
	assert_int_equal(lease_terms(l), 1);
	assert_false(lease_is_others(l));
	lease_stop(l);
	assert_false(lease_is_held(l, &left_ms));
	assert_int_equal(left_ms, 0);
	lease_free(l);
	end_server(3);
	sent(0, "GET /apis/coordination.k8s.io/v1/namespaces/jobs/leases/l ");
	sent(1, "POST /apis/coordination.k8s.io/v1/namespaces/jobs/leases ");
	sent(1, "\"leaseDurationSeconds\":120,");
	sent(1, holder);
	sent(2, "{\"metadata\":{\"resourceVersion\":\"42\"},"
	        "\"spec\":{\"holderIdentity\":\"\"}}");
}

TEST(test_lease_of_others_is_left_to_them)
{
	struct trouble t = { 0 };
	START({ ANSWER, OTHERS("41") });
	struct lease *l = take_part(&t, LONG_S);
	rounds(&t.fine, 1);
	assert_true(lease_is_others(l));
	assert_false(lease_is_held(l, NULL));
	lease_free(l);
	assert_int_equal(server.requests, 1); /* the next round is in half a minute */
	end_server(1);
}

/* It is taken when it was not renewed for its duration. */
TEST(test_lease_of_others_is_taken_when_it_has_expired)
{
	struct trouble t = { 0 };
	START({ ANSWER, OTHERS("41") });
	int64_t from_ms = clock_boot_ms();
	struct lease *l = take_part(&t, 1);
	is_taken(l, 1);
	assert_true(clock_boot_ms() - from_ms >= 1000);
	assert_false(lease_is_others(l));
	is_taken(l, 2); /* this server never says that it was taken */
	lease_free(l);
	end_server(1);
}

/* A Lease that its first round took.  A round has a quarter of a second: after a stall for longer,
 * all begins again. */
static struct lease *held(struct trouble *t, const struct step *script, size_t steps)
{
	for (;;) {
		*t = (struct trouble){ 0 };
		server.port = 0;
		server_start(&server, script, steps);
		open_store();
		struct lease *l = take_part(t, 1);
		while (t->fine + t->bad == 0)
			clock_sleep(2);
		if (t->fine)
			return l;
		lease_free(l);
		end_server(0);
	}
}

TEST(test_lease_is_lost_without_an_answer)
{
	static const struct step SCRIPT[] = { { ANSWER, STATUS_NOT_FOUND },
		                              { ANSWER, CREATED },
		                              { ANSWER, EMPTY("403 Forbidden") } };
	struct trouble t;
	struct lease *l = held(&t, SCRIPT, 3);
	rounds(&t.bad, 3);
	assert_false(lease_is_held(l, NULL));
	assert_false(lease_is_others(l));
	lease_free(l);
	end_server(0);
	nothing_is_given_back();
	lease_free(NULL);
}
