/* Logs handed on as they come, from a server that does what it is told. */
#include "base/clock.h"
#include "tests/unit/k8s/api_kit.h"

#include "k8s/logs/tail.h"

#define CHUNKED "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

enum { PATIENCE_MS = 20000, WAIT_MS = 10 };

/* Who reads, and at what he stops. */
struct reader {
	struct tail *tail;
	int began, ended;
	size_t got, room; /* bytes that came, and that he takes before he has none left */
	bool in_order;    /* they are 0123456789 again and again */
	size_t leave_at;  /* cancels when so many have come; 0: never */
	bool leave_at_end, unwilling;
	enum tail_outcome outcome;
	int status;
};

static struct tails *tails;

static bool began(void *arg, bool silent)
{
	struct reader *g = arg;
	assert_false(silent);
	assert_int_equal(g->got, 0);
	g->began++;
	return !g->unwilling;
}

static bool came(void *arg, struct span bytes)
{
	struct reader *g = arg;
	assert_int_equal(g->began, 1);
	assert_true(bytes.n > 0 && bytes.n <= TAIL_PIECE);
	if (g->got + bytes.n > g->room)
		return false;
	for (size_t i = 0; i < bytes.n; i++)
		g->in_order = g->in_order && bytes.p[i] == (char)('0' + (g->got + i) % 10);
	g->got += bytes.n;
	if (g->leave_at && g->got >= g->leave_at)
		tail_cancel(g->tail);
	return true;
}

static void ended(void *arg, const struct tail_end *end)
{
	struct reader *g = arg;
	assert_non_null(end->message);
	g->ended++;
	g->outcome = end->outcome;
	g->status = end->status;
	if (g->leave_at_end)
		tail_cancel(g->tail);
}

static struct tail *open_log(struct reader *g, const char *user, bool follow, struct err *e)
{
	return tail_open(tails,
	                 &(struct tail_request){
			     .pod = "p-0",
			     .container = "app",
			     .user = user,
			     .lines = follow ? 20 : 0,
			     .follow = follow,
			     .patience_ms = PATIENCE_MS,
			     .began = began,
			     .came = came,
			     .ended = ended,
			     .arg = g,
			 },
	                 e);
}

static void begin(struct reader *g, bool follow)
{
	ERR_AUTO e = { 0 };
	tails = tails_new(login, "jobs", 3, 2, &e);
	assert_non_null(tails);
	g->in_order = true;
	g->tail = open_log(g, "alice", follow, &e);
	assert_string_equal(err_msg(&e), "");
}

static void turn_once(void)
{
	struct pollfd p = { .fd = tails_fd(tails), .events = POLLIN };
	int ms = tails_timeout_ms(tails);
	(void)poll(&p, 1, ms < 0 || ms > WAIT_MS ? WAIT_MS : ms);
	tails_turn(tails);
}

/* Until all is over, or this many bytes have come. */
static void turn_until(const struct reader *g, size_t bytes)
{
	int64_t end = clock_ms() + PATIENCE_MS;
	while (tails_count(tails) > 0 && g->got < bytes && clock_ms() < end)
		turn_once();
}

static void finish(void)
{
	tails_free(tails);
	stop();
}

static void test_tail_whole(void **state)
{
	(void)state;
	START({ ANSWER, CHUNKED "a\r\n0123456789\r\n3\r\n012\r\n0\r\n\r\n" });
	struct reader g = { .room = SIZE_MAX };
	begin(&g, false);
	turn_until(&g, SIZE_MAX);
	assert_int_equal(g.outcome, TAIL_WHOLE);
	assert_int_equal(g.ended, 1);
	assert_int_equal(g.got, 13);
	assert_true(g.in_order);
	assert_non_null(strstr(server.kept[0], "GET /api/v1/namespaces/jobs/pods/p-0/log"
	                                       "?container=app HTTP/1.1\r\n"));
	assert_non_null(strstr(server.kept[0], "Authorization: Bearer first-token\r\n"));
	finish();
}

static void test_tail_followed(void **state)
{
	(void)state;
	START({ ANSWER, CHUNKED "0\r\n\r\n" });
	struct reader g = { .room = SIZE_MAX };
	begin(&g, true);
	turn_until(&g, SIZE_MAX);
	assert_int_equal(g.outcome, TAIL_WHOLE);
	assert_int_equal(g.began, 1);
	assert_non_null(strstr(server.kept[0], "?container=app&tailLines=20&follow=true HTTP"));
	finish();
}

/* What has no room comes again, and nothing comes meanwhile. */
static void test_tail_paused(void **state)
{
	(void)state;
	START({ ENDLESS, CHUNKED });
	struct reader g = { .room = 0 };
	begin(&g, false);
	while (g.began == 0)
		turn_once();
	for (size_t i = 1; i < 50; i++) {
		g.room += 100 * i;
		for (int n = 0; n < 5; n++)
			turn_once();
		tail_go_on(g.tail);
		assert_true(g.got <= g.room);
	}
	g.room = SIZE_MAX;
	tail_go_on(g.tail);
	turn_until(&g, 1 << 20);
	assert_true(g.got >= 1 << 20);
	assert_true(g.in_order);
	tail_cancel(g.tail);
	assert_int_equal(tails_count(tails), 0);
	assert_int_equal(g.ended, 0);
	finish();
}

/* From within its own calls, however those came about. */
static void test_tail_cancelled_within(void **state)
{
	(void)state;
	START({ ENDLESS, CHUNKED });
	struct reader g = { .room = SIZE_MAX, .leave_at = 5000 };
	begin(&g, false);
	turn_until(&g, SIZE_MAX);
	assert_int_equal(tails_count(tails), 0);
	assert_true(g.got >= 5000 && g.got < 5000 + TAIL_PIECE);
	assert_int_equal(g.ended, 0);
	finish();
}

static void test_tail_cancelled_going_on(void **state)
{
	(void)state;
	START({ ENDLESS, CHUNKED });
	struct reader g = { .room = 0, .leave_at = 1 };
	begin(&g, false);
	while (g.began == 0)
		turn_once();
	g.room = SIZE_MAX;
	tail_go_on(g.tail);
	turn_until(&g, SIZE_MAX);
	assert_int_equal(tails_count(tails), 0);
	assert_int_equal(g.ended, 0);
	finish();
}

static void test_tail_not_wanted(void **state)
{
	(void)state;
	START({ ENDLESS, CHUNKED });
	struct reader g = { .room = SIZE_MAX, .unwilling = true };
	begin(&g, false);
	turn_until(&g, SIZE_MAX);
	assert_int_equal(tails_count(tails), 0);
	assert_int_equal(g.got, 0);
	assert_int_equal(g.ended, 0);
	finish();
}

static void test_tail_refused(void **state)
{
	(void)state;
	START({ ANSWER, HEAD("404 Not Found", "", "60") STATUS_404("f") });
	struct reader g = { .room = SIZE_MAX, .leave_at_end = true };
	begin(&g, false);
	turn_until(&g, SIZE_MAX);
	assert_int_equal(g.began, 0);
	assert_int_equal(g.ended, 1);
	assert_int_equal(g.outcome, TAIL_REFUSED);
	assert_int_equal(g.status, 404);
	finish();
}

static void test_tail_cut(void **state)
{
	(void)state;
	START({ CUT, CHUNKED "a\r\n0123456789\r\n" });
	struct reader g = { .room = SIZE_MAX };
	begin(&g, true);
	turn_until(&g, SIZE_MAX);
	assert_int_equal(g.got, 10);
	assert_int_equal(g.outcome, TAIL_CUT);
	finish();
}

static void test_tail_away(void **state)
{
	(void)state;
	START({ SHUT, NULL });
	struct reader g = { .room = SIZE_MAX };
	begin(&g, false);
	turn_until(&g, SIZE_MAX);
	assert_int_equal(g.began, 0);
	assert_int_equal(g.outcome, TAIL_AWAY);
	finish();
}

/* Two of a user, three in all; and a name is one. */
static void test_tail_limits(void **state)
{
	(void)state;
	START({ HANG, NULL });
	struct reader g[3] = { { .room = SIZE_MAX }, { .room = SIZE_MAX }, { .room = SIZE_MAX } };
	ERR_AUTO e = { 0 };
	begin(&g[0], false);
	g[1].tail = open_log(&g[1], "alice", false, &e);
	assert_non_null(g[1].tail);
	assert_null(open_log(&g[2], "alice", false, &e));
	assert_int_equal(e.http, 429);
	g[2].tail = open_log(&g[2], "bob", false, &e);
	assert_non_null(g[2].tail);
	assert_null(open_log(&g[0], "carol", false, &e));
	assert_int_equal(e.http, 503);
	tail_cancel(g[2].tail);
	const char *const none[] = { "", "..", "a/b", "a?b", "A" };
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
		struct tail_request r = { .pod = none[i], .container = "app", .user = "carol" };
		assert_null(tail_open(tails, &r, &e));
		assert_int_equal(e.http, 500);
		r = (struct tail_request){ .pod = "p", .container = none[i], .user = "carol" };
		assert_null(tail_open(tails, &r, &e));
	}
	assert_int_equal(tails_count(tails), 2);
	finish();
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(g[i].outcome, TAIL_CLOSING);
	assert_int_equal(g[2].ended, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tail_whole),
		cmocka_unit_test(test_tail_followed),
		cmocka_unit_test(test_tail_paused),
		cmocka_unit_test(test_tail_cancelled_within),
		cmocka_unit_test(test_tail_cancelled_going_on),
		cmocka_unit_test(test_tail_not_wanted),
		cmocka_unit_test(test_tail_refused),
		cmocka_unit_test(test_tail_cut),
		cmocka_unit_test(test_tail_away),
		cmocka_unit_test(test_tail_limits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
