/* Streams of logs from a scripted server. */
#include "base/posix/clock.h"
#include "tests/unit/base/cmocka.h"
#include "tests/unit/k8s/api_kit.h"

#include "k8s/logs/log_stream.h"

#define CHUNKED "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

enum { PATIENCE_MS = 60000, WAIT_MS = 2 };

/* A reader of a stream, and the points at which it stops. */
struct reader {
	struct log_stream *stream;
	int began, ended;
	size_t got, room; /* bytes received, and bytes of room for more */
	bool in_order;    /* they are 0123456789 again and again */
	size_t leave_at;  /* cancels when so many have come; 0: never */
	bool leave_at_end, unwilling;
	enum log_stream_outcome outcome;
	int status;
};

static struct log_streams *streams;

static bool began(void *arg, bool silent, int64_t offset)
{
	struct reader *g = arg;
	assert_false(silent);
	assert_int_equal(offset, -1);
	assert_int_equal(g->got, 0);
	g->began++;
	return !g->unwilling;
}

static bool came(void *arg, struct span bytes)
{
	struct reader *g = arg;
	assert_int_equal(g->began, 1);
	assert_true(bytes.n > 0 && bytes.n <= LOG_STREAM_PIECE);
	if (g->got + bytes.n > g->room)
		return false;
	for (size_t i = 0; i < bytes.n; i++)
		g->in_order = g->in_order && bytes.p[i] == (char)('0' + (g->got + i) % 10);
	g->got += bytes.n;
	if (g->leave_at && g->got >= g->leave_at)
		log_stream_cancel(g->stream);
	return true;
}

static void ended(void *arg, const struct log_stream_end *end)
{
	struct reader *g = arg;
	assert_non_null(end->message);
	g->ended++;
	g->outcome = end->outcome;
	g->status = end->status;
	if (g->leave_at_end)
		log_stream_cancel(g->stream);
}

static struct log_stream *open_log(struct reader *g, const char *user, bool follow, struct err *e)
{
	return log_stream_open(streams,
	                       &(struct log_stream_request){
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
	streams = log_streams_new(login, "jobs", 3, 2, no_err());
	assert_non_null(streams);
	g->in_order = true;
	g->stream = open_log(g, "alice", follow, no_err());
	assert_string_equal(err_msg(&unit.e), "");
}

static void turn_once(void)
{
	struct pollfd p = { .fd = log_streams_fd(streams), .events = POLLIN };
	int ms = log_streams_timeout_ms(streams);
	(void)poll(&p, 1, ms < 0 || ms > WAIT_MS ? WAIT_MS : ms);
	log_streams_run_once(streams);
}

/* Until all is over, or this many bytes have come. */
static void turn_until(const struct reader *g, size_t bytes)
{
	int64_t end = clock_ms() + PATIENCE_MS;
	while (log_streams_count(streams) > 0 && g->got < bytes && clock_ms() < end)
		turn_once();
}

static void finish(void)
{
	log_streams_free(streams);
	stop();
}

TEST(test_tail_gives_the_whole_log)
{
	START({ ANSWER, CHUNKED "a\r\n0123456789\r\n3\r\n012\r\n0\r\n\r\n" });
	struct reader g = { .room = SIZE_MAX };
	begin(&g, false);
	turn_until(&g, SIZE_MAX);
	assert_int_equal(g.outcome, LOG_STREAM_WHOLE);
	assert_int_equal(g.ended, 1);
	assert_int_equal(g.got, 13);
	assert_true(g.in_order);
	assert_non_null(strstr(server.kept[0], "GET /api/v1/namespaces/jobs/pods/p-0/log"
	                                       "?container=app HTTP/1.1\r\n"));
	assert_non_null(strstr(server.kept[0], "Authorization: Bearer first-token\r\n"));
	finish();
}

TEST(test_tail_that_follows_asks_the_server_to_follow)
{
	START({ ANSWER, CHUNKED "0\r\n\r\n" });
	struct reader g = { .room = SIZE_MAX };
	begin(&g, true);
	turn_until(&g, SIZE_MAX);
	assert_int_equal(g.outcome, LOG_STREAM_WHOLE);
	assert_int_equal(g.began, 1);
	assert_non_null(strstr(server.kept[0], "?container=app&tailLines=20&follow=true HTTP"));
	finish();
}

/* Bytes without room are offered again, and no others meanwhile. */
TEST(test_tail_waits_while_its_reader_has_no_room)
{
	START({ ENDLESS, CHUNKED });
	struct reader g = { .room = 0 };
	begin(&g, false);
	while (g.began == 0)
		turn_once();
	for (size_t i = 1; i < 50; i++) {
		g.room += 100 * i;
		for (int n = 0; n < 5; n++)
			turn_once();
		log_stream_go_on(g.stream);
		assert_true(g.got <= g.room);
	}
	g.room = SIZE_MAX;
	log_stream_go_on(g.stream);
	turn_until(&g, 1 << 20);
	assert_true(g.got >= 1 << 20);
	assert_true(g.in_order);
	log_stream_cancel(g.stream);
	assert_int_equal(log_streams_count(streams), 0);
	assert_int_equal(g.ended, 0);
	finish();
}

/* The callback that cancels may be called for any reason. */
TEST(test_tail_can_be_cancelled_by_its_own_callback)
{
	START({ ENDLESS, CHUNKED });
	struct reader g = { .room = SIZE_MAX, .leave_at = 5000 };
	begin(&g, false);
	turn_until(&g, SIZE_MAX);
	assert_int_equal(log_streams_count(streams), 0);
	assert_true(g.got >= 5000 && g.got < 5000 + LOG_STREAM_PIECE);
	assert_int_equal(g.ended, 0);
	finish();
}

TEST(test_tail_can_be_cancelled_while_it_resumes)
{
	START({ ENDLESS, CHUNKED });
	struct reader g = { .room = 0, .leave_at = 1 };
	begin(&g, false);
	while (g.began == 0)
		turn_once();
	g.room = SIZE_MAX;
	log_stream_go_on(g.stream);
	turn_until(&g, SIZE_MAX);
	assert_int_equal(log_streams_count(streams), 0);
	assert_int_equal(g.ended, 0);
	finish();
}

TEST(test_tail_ends_when_its_reader_refuses_it)
{
	START({ ENDLESS, CHUNKED });
	struct reader g = { .room = SIZE_MAX, .unwilling = true };
	begin(&g, false);
	turn_until(&g, SIZE_MAX);
	assert_int_equal(log_streams_count(streams), 0);
	assert_int_equal(g.got, 0);
	assert_int_equal(g.ended, 0);
	finish();
}

TEST(test_tail_reports_the_status_of_a_refusal)
{
	START({ ANSWER, HEAD("404 Not Found", "", "60") STATUS_404("f") });
	struct reader g = { .room = SIZE_MAX, .leave_at_end = true };
	begin(&g, false);
	turn_until(&g, SIZE_MAX);
	assert_int_equal(g.began, 0);
	assert_int_equal(g.ended, 1);
	assert_int_equal(g.outcome, LOG_STREAM_REFUSED);
	assert_int_equal(g.status, 404);
	finish();
}

TEST(test_tail_reports_a_connection_that_breaks)
{
	START({ CUT, CHUNKED "a\r\n0123456789\r\n" });
	struct reader g = { .room = SIZE_MAX };
	begin(&g, true);
	turn_until(&g, SIZE_MAX);
	assert_int_equal(g.got, 10);
	assert_int_equal(g.outcome, LOG_STREAM_CUT);
	finish();
}

TEST(test_tail_reports_a_server_that_does_not_answer)
{
	START({ SHUT, NULL });
	struct reader g = { .room = SIZE_MAX };
	begin(&g, false);
	turn_until(&g, SIZE_MAX);
	assert_int_equal(g.began, 0);
	assert_int_equal(g.outcome, LOG_STREAM_AWAY);
	finish();
}

/* A user may have two streams, all together three; invalid names are refused. */
TEST(test_tail_limits_count_per_user_and_in_all)
{
	START({ HANG, NULL });
	struct reader g[3] = { { .room = SIZE_MAX }, { .room = SIZE_MAX }, { .room = SIZE_MAX } };
	begin(&g[0], false);
	g[1].stream = open_log(&g[1], "alice", false, no_err());
	assert_non_null(g[1].stream);
	assert_null(open_log(&g[2], "alice", false, no_err()));
	assert_int_equal(unit.e.http, 429);
	g[2].stream = open_log(&g[2], "bob", false, no_err());
	assert_non_null(g[2].stream);
	assert_null(open_log(&g[0], "carol", false, no_err()));
	assert_int_equal(unit.e.http, 503);
	log_stream_cancel(g[2].stream);
	const char *const none[] = { "", "..", "a/b", "a?b", "A" };
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
		struct log_stream_request r = { .pod = none[i],
			                        .container = "app",
			                        .user = "carol" };
		assert_null(log_stream_open(streams, &r, no_err()));
		assert_int_equal(unit.e.http, 500);
		r = (struct log_stream_request){ .pod = "p",
			                         .container = none[i],
			                         .user = "carol" };
		assert_null(log_stream_open(streams, &r, no_err()));
	}
	assert_int_equal(log_streams_count(streams), 2);
	finish();
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(g[i].outcome, LOG_STREAM_CLOSING);
	assert_int_equal(g[2].ended, 0);
}
