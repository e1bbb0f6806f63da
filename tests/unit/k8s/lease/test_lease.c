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

struct trouble {
	atomic_int bad, fine;
};

static void note_trouble(void *arg, const char *why)
{
	struct trouble *t = arg;
	atomic_fetch_add(why ? &t->bad : &t->fine, 1);
}

static struct lease *take_part(struct trouble *t)
{
	ERR_AUTO e = { 0 };
	const struct lease_settings s = { "l", 1, note_trouble, t };
	struct lease *l = lease_new(&s);
	assert_true(strlen(lease_identity(l)) > 16);
	assert_false(lease_is_held(l, NULL));
	assert_int_equal(lease_start(l, TAKE(store), &e), 0);
	return l;
}

/* Waits until it has noted so many rounds. */
static void rounds(atomic_int *n, int wanted)
{
	int64_t end_ms = clock_ms() + 10000;
	while (atomic_load(n) < wanted && clock_ms() < end_ms)
		clock_sleep(2);
	assert_true(atomic_load(n) >= wanted);
}

static void end_server(void)
{
	login_free(login);
	assert_int_equal(unlink(token_path), 0);
	assert_int_equal(rmdir(dir), 0);
	server_stop(&server);
}

TEST(test_lease_is_created_and_given_back)
{
	struct trouble t = { 0 };
	int64_t left_ms = -1;
	START({ ANSWER, STATUS_NOT_FOUND }, { ANSWER, CREATED });
	struct lease *l = take_part(&t);
	char *holder = xasprintf("\"holderIdentity\":\"%s\"", lease_identity(l));
	rounds(&t.fine, 1);
	assert_true(lease_is_held(l, &left_ms));
	assert_true(left_ms > 0 && left_ms <= 667);
	assert_int_equal(lease_terms(l), 1);
	assert_false(lease_is_others(l));
	lease_stop(l);
	assert_false(lease_is_held(l, &left_ms));
	assert_int_equal(left_ms, 0);
	lease_free(l);
	sent(0, "GET /apis/coordination.k8s.io/v1/namespaces/jobs/leases/l ");
	sent(1, "POST /apis/coordination.k8s.io/v1/namespaces/jobs/leases ");
	sent(1, "\"leaseDurationSeconds\":1,");
	sent(1, holder);
	sent(server.requests - 1, "{\"metadata\":{\"resourceVersion\":\"42\"},"
	                          "\"spec\":{\"holderIdentity\":\"\"}}");
	free(holder);
	end_server();
}

/* It is taken when it was not renewed for its duration. */
TEST(test_lease_of_others_is_taken_when_it_has_expired)
{
	struct trouble t = { 0 };
	START({ ANSWER, OTHERS("41") });
	struct lease *l = take_part(&t);
	rounds(&t.fine, 1);
	assert_true(lease_is_others(l));
	assert_false(lease_is_held(l, NULL));
	rounds(&t.fine, 6);
	not_sent(0, "PATCH");
	not_sent(1, "PATCH");
	not_sent(2, "PATCH");
	assert_true(lease_is_held(l, NULL));
	assert_false(lease_is_others(l));
	rounds(&t.fine, 8);
	assert_true(lease_terms(l) > 1); /* this server never says that it was taken */
	lease_free(l);
	sent(server.requests - 1, "\"holderIdentity\":\"\"");
	end_server();
}

TEST(test_lease_is_lost_without_an_answer)
{
	struct trouble t = { 0 };
	START({ ANSWER, STATUS_NOT_FOUND }, { ANSWER, CREATED },
	      { ANSWER, EMPTY("403 Forbidden") });
	struct lease *l = take_part(&t);
	rounds(&t.fine, 1);
	rounds(&t.bad, 3);
	assert_false(lease_is_held(l, NULL));
	assert_false(lease_is_others(l));
	size_t n = server.requests;
	lease_free(l);
	assert_int_equal(server.requests, n); /* there is nothing to give back */
	lease_free(NULL);
	end_server();
}
