/* Log files that are written, renamed and removed while they are read. */

#include "tests/unit/base/cmocka.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/posix/clock.h"
#include "base/time.h"
#include "k8s/logs/log_stream.h"

AUTO_FREE(log_file)

#define T "2026-11-22T22:55:36.123456789Z "

enum { PATIENCE_MS = 60000, BIG = 300000, TEXT_ROOM = 4 << 20 };

static bool there = true, over;

static void append(const char *name, const char *text)
{
	int fd = open(unit_path(name), O_WRONLY | O_CREAT | O_APPEND, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	assert_int_equal(close(fd), 0);
}

static void rotate(void)
{
	assert_int_equal(rename(unit_path("log"), unit_path("log.1")), 0);
}

static bool find(void *arg, struct arena *a, struct log_files *out)
{
	(void)arg;
	static const char *const NAMES[] = { "log.1", "log" };
	*out = (struct log_files){ .ended = over };
	for (size_t i = 0; i < 2 && there; i++)
		if (access(unit_path(NAMES[i]), F_OK) == 0)
			out->path[out->n++] = arena_dup(a, span_of(unit_path(NAMES[i])));
	return there;
}

FIXTURE(set_up)
{
	there = true;
	over = false;
	return 0;
}

/* Reads until the log ends or has no more bytes for now. */
static enum log_file_state drain(struct log_file *f, struct str *out)
{
	struct span piece;
	enum log_file_state state;
	while ((state = log_file_next(f, &piece)) == LOG_FILE_PIECE) {
		assert_true(piece.n <= LOG_FILE_PIECE_MAX);
		str_span(out, piece);
	}
	return state;
}

static struct log_file *open_file(unsigned streams, int64_t lines, bool follow)
{
	int status = 0;
	struct log_file *f = log_file_open(
	    &(struct log_file_request){ find, NULL, streams, lines, follow, 0, 0, false }, &status);
	assert_int_equal(f ? 0 : 1, status ? 1 : 0);
	return f;
}

static void assert_log(unsigned streams, int64_t lines, const char *wanted)
{
	STR_AUTO out = STR_INIT(TEXT_ROOM);
	AUTO(log_file_auto) struct log_file *f = open_file(streams, lines, false);
	assert_non_null(f);
	assert_int_equal(drain(f, &out), LOG_FILE_END);
	assert_string_equal(str_c(&out), wanted);
}

/* The rest of the log from this offset on; `at`: its own offset. */
static void assert_from(unsigned streams, int64_t from, int64_t at, const char *wanted)
{
	int status;
	struct span piece;
	const struct log_file_request r = { find, NULL, streams, 0, false, 0, from, false };
	AUTO(log_file_auto) struct log_file *f = log_file_open(&r, &status);
	assert_non_null(f);
	STR_AUTO out = STR_INIT(TEXT_ROOM);
	if (log_file_next(f, &piece) == LOG_FILE_PIECE)
		str_span(&out, piece);
	assert_int_equal(log_file_offset(f), at);
	assert_int_equal(drain(f, &out), LOG_FILE_END);
	assert_string_equal(str_c(&out), wanted);
}

enum { BOTH = LOG_FILE_STDOUT | LOG_FILE_STDERR };

#define CASE(name) TEST_WITH(name, set_up, NULL)

CASE(test_stdout_and_stderr_are_read_in_order)
{
	append("log.1", T "stdout F one\n" T "stderr F two\n");
	append("log", T "stdout P th\n" T "stderr P x\n" T "stdout P r\n" T "stdout F ee\n" T
	                "stderr F y\n" T "stdout F \n" T "stdout P end");
	assert_log(BOTH, 0, "one\ntwo\nthxree\ny\n\nend");
	assert_log(LOG_FILE_STDOUT, 0, "one\nthree\n\nend");
	assert_log(LOG_FILE_STDERR, 0, "two\nxy\n");
}

CASE(test_lines_from_before_a_time_are_left_out)
{
	static const char AT[] = "2026-01-31T12:00:0";
	STR_AUTO text = STR_INIT(TEXT_ROOM);
	for (int i = 0; i < 6; i++)
		str_printf(&text, "%s%d.5%09dZ stdout %c %d\n", AT, i, i, i % 2 ? 'F' : 'P', i);
	str_puts(&text, "no time stdout F x\n");
	append("log", str_c(&text));
	for (int i = 0; i < 2; i++) {
		int status;
		STR_AUTO out = STR_INIT(TEXT_ROOM);
		struct log_file_request r = { find, NULL, BOTH, i, false, 0, 0, false };
		assert_true(rfc3339_read(SPAN("2026-01-31T12:00:02.5Z"), &r.since_ms));
		AUTO(log_file_auto) struct log_file *f = log_file_open(&r, &status);
		assert_non_null(f);
		assert_int_equal(drain(f, &out), LOG_FILE_END);
		assert_string_equal(str_c(&out), i ? "45\n" : "23\n45\n");
		assert_int_equal(log_file_offset(f), i ? -1 : 9);
	}
}

/* Reads the log with times from an offset on; `at`: the offset of the first piece. */
static void assert_times(unsigned from_streams, int64_t lines, int64_t from, int64_t at,
                         const char *wanted)
{
	int status;
	struct span piece;
	const struct log_file_request r = { find, NULL, from_streams, lines, false, 0, from, true };
	AUTO(log_file_auto) struct log_file *f = log_file_open(&r, &status);
	assert_non_null(f);
	STR_AUTO out = STR_INIT(TEXT_ROOM);
	if (log_file_next(f, &piece) == LOG_FILE_PIECE)
		str_span(&out, piece);
	assert_int_equal(log_file_offset(f), at);
	assert_int_equal(drain(f, &out), LOG_FILE_END);
	assert_string_equal(str_c(&out), wanted);
}

#define AT(n) "2026-11-22T22:55:36.00000000" #n "Z "

/* A time is before each line, and before the rest of one, that of its part; offsets are those of
 * the text. */
CASE(test_times_are_put_before_lines_from_any_offset)
{
	static const struct {
		const char *time, *text;
	} PARTS[] = { { AT(1), "one\n" }, { AT(2), "th" }, { AT(3), "\xc3\xa9\n" },
		      { AT(4), "y\n" },   { AT(5), "\n" }, { AT(6), "a b\n" },
		      { AT(7), "end" } };
	append("log.1", AT(1) "stdout F one\n" AT(2) "stderr P th\n" AT(3) "stderr F \xc3\xa9\n");
	append("log", AT(0) "before F 4 5\n" AT(4) "stderr F y\n" AT(5) "stdout F \n" AT(
			  6) "stderr F a b\n" AT(7) "stdout P end");
	for (int64_t from = 0; from <= 18; from++) {
		STR_AUTO wanted = STR_INIT(TEXT_ROOM);
		bool within = false;
		int64_t at = 0;
		for (size_t i = 0; i < ARRAY_SIZE(PARTS); i++)
			for (const char *c = PARTS[i].text; *c; c++, at++) {
				if (at < from)
					continue;
				if (!within)
					str_puts(&wanted, PARTS[i].time);
				str_char(&wanted, *c);
				within = *c != '\n';
			}
		assert_times(BOTH, 0, from, from, str_c(&wanted));
	}
	assert_times(LOG_FILE_STDOUT, 0, 2, 2, AT(1) "e\n" AT(5) "\n" AT(7) "end");
	assert_times(BOTH, 2, 0, -1, AT(5) "\n" AT(6) "a b\n" AT(7) "end");
	(void)unlink(unit_path("log.1"));
	assert_times(BOTH, 0, 3, 9, AT(4) "y\n" AT(5) "\n" AT(6) "a b\n" AT(7) "end");
}

/* No piece is too long, wherever it ends. */
CASE(test_times_fit_into_pieces)
{
	STR_AUTO wanted = STR_INIT(TEXT_ROOM);
	STR_AUTO text = STR_INIT(TEXT_ROOM);
	for (size_t n = LOG_FILE_PIECE_MAX - 200; n < LOG_FILE_PIECE_MAX + 200; n++) {
		size_t at = text.n;
		str_puts(&text, AT(1) "stdout F ");
		str_puts(&wanted, AT(1));
		for (size_t i = 0; i < n; i++)
			str_char(&text, 'x');
		str_puts(&text, "\n" AT(2) "stdout F \n");
		str_span(
		    &wanted,
		    span_to(span_from(str_view(&text), at + strlen(AT(1) "stdout F ")), n + 1));
		str_puts(&wanted, AT(2) "\n");
	}
	append("log", str_c(&text));
	assert_times(BOTH, 0, 0, 0, str_c(&wanted));
}

/* A line that grows has one time. */
CASE(test_followed_lines_have_their_times_once)
{
	int status;
	STR_AUTO out = STR_INIT(TEXT_ROOM);
	append("log", AT(1) "stdout P a\n");
	const struct log_file_request r = { find, NULL, BOTH, 0, true, 0, 0, true };
	AUTO(log_file_auto) struct log_file *f = log_file_open(&r, &status);
	assert_int_equal(drain(f, &out), LOG_FILE_QUIET);
	append("log", AT(2) "stdout P b\n");
	assert_int_equal(drain(f, &out), LOG_FILE_QUIET);
	append("log", AT(3) "stdout F c\n" AT(4) "stdout F d\n");
	rotate();
	append("log", AT(5) "stdout F e\n");
	assert_int_equal(drain(f, &out), LOG_FILE_QUIET);
	assert_int_equal(log_file_offset(f), 8);
	assert_string_equal(str_c(&out), AT(1) "abc\n" AT(4) "d\n" AT(5) "e\n");
}

static int64_t before(void)
{
	struct log_files files;
	(void)find(NULL, &unit.a, &files);
	return log_file_before(&files, BOTH);
}

/* A file begins with the numbers of bytes in all earlier ones; that line is no output. */
CASE(test_earlier_bytes_are_counted_after_rotation)
{
	assert_int_equal(before(), 0);
	append("log", T "stdout F one\n");
	assert_int_equal(before(), 0);
	rotate();
	append("log", T "before F 4 0\n" T "stderr F two\n");
	assert_int_equal(before(), 0); /* all is there */
	assert_log(BOTH, 0, "one\ntwo\n");
	rotate();
	append("log", T "before F 4 4\n" T "stdout F three\n");
	assert_int_equal(before(), 4);
	assert_log(BOTH, 0, "two\nthree\n");
	static const char *const BAD[] = {
		T "before F -1 0\n", T "before F 1x 0\n",         T "before F\n", T "before F 4\n",
		T "before F 4 y\n",  T "stdout F before F 4 0\n", "before"
	};
	for (size_t i = 0; i < sizeof(BAD) / sizeof(BAD[0]); i++) {
		(void)unlink(unit_path("log.1"));
		(void)unlink(unit_path("log"));
		append("log", BAD[i]);
		assert_int_equal(before(), 0);
	}
}

/* Each byte has an offset: in the middle of lines and of characters, too. */
CASE(test_log_is_read_from_any_offset)
{
	static const char ALL[] = "one\nth\xc3\xa9\nree\ny\n\nend";
	append("log.1", T "stdout F one\n" T "stderr P th\n" T "stderr F \xc3\xa9\n");
	append("log", T "stdout F ree\n" T "stderr F y\n" T "stdout F \n" T "stdout P end");
	for (int64_t i = 0; i <= (int64_t)strlen(ALL); i++)
		assert_from(BOTH, i, i, ALL + i);
	assert_from(BOTH, 1000, 1000, "");
	assert_from(LOG_FILE_STDOUT, 5, 5, "ee\n\nend");
	assert_from(LOG_FILE_STDERR, 3, 3, "\xa9\ny\n");
	/* Bytes that are gone. */
	(void)unlink(unit_path("log.1"));
	(void)unlink(unit_path("log"));
	append("log", T "before F 10 5\n" T "stdout F x\n" T "stderr F yy\n");
	assert_from(BOTH, 0, 15, "x\nyy\n");
	assert_from(BOTH, 16, 16, "\nyy\n");
	assert_from(LOG_FILE_STDOUT, 3, 10, "x\n");
	assert_from(LOG_FILE_STDERR, 6, 6, "y\n");
}

/* A job without a sandbox can write any text. */
CASE(test_lines_of_no_stream_are_ignored)
{
	append("log", "\n\n \n   \nstdout\n" T "stdout\n" T "stdio F x\n" T "stdout F good\n");
	for (int i = 0; i < 500; i++)
		append("log", "noise noise ");
	append("log", "\n");
	for (int i = 0; i < 500; i++)
		append("log", "noisenoise");
	append("log", "\n" T "stderr F better\n" T "stdout");
	assert_log(BOTH, 0, "good\nbetter\n");
}

CASE(test_last_lines_are_counted_per_stream)
{
	append("log.1", T "stdout F 1\n" T "stderr F 2\n");
	append("log", T "stdout F 3\n" T "stderr F 4\n" T "stdout P 5\n" T "stdout F 6\n");
	assert_log(BOTH, 2, "4\n56\n");
	assert_log(BOTH, 100, "1\n2\n3\n4\n56\n");
	assert_log(LOG_FILE_STDOUT, 2, "3\n56\n");
	assert_log(LOG_FILE_STDERR, 1, "4\n");
}

/* Long lines are read in pieces; the last lines are searched in a part of the files. */
CASE(test_long_lines_are_read_in_pieces)
{
	FREE_AUTO char *line = xmalloc(BIG + 2);
	memset(line, 'x', BIG);
	memcpy(line + BIG, "\n", 2);
	for (int i = 0; i < 10; i++) {
		append(i < 4 ? "log.1" : "log", T "stdout F ");
		append(i < 4 ? "log.1" : "log", line);
	}
	STR_AUTO out = STR_INIT(TEXT_ROOM);
	AUTO(log_file_auto) struct log_file *f = open_file(BOTH, 0, false);
	assert_int_equal(drain(f, &out), LOG_FILE_END);
	assert_int_equal(out.n, 10 * (BIG + 1));
	out.n = 0;
	log_file_free(f);
	f = open_file(BOTH, 9, false);
	assert_int_equal(drain(f, &out), LOG_FILE_END);
	assert_int_equal(out.n, 3 * (BIG + 1)); /* whole lines of the last MiB */
}

CASE(test_followed_files_give_new_lines_after_rotation)
{
	STR_AUTO out = STR_INIT(TEXT_ROOM);
	append("log", T "stdout F a\n");
	AUTO(log_file_auto) struct log_file *f = open_file(BOTH, 0, true);
	assert_int_equal(drain(f, &out), LOG_FILE_QUIET);
	append("log", T "stdout F ");
	assert_int_equal(drain(f, &out), LOG_FILE_QUIET);
	append("log", "b\n" T "stdout F c\n");
	rotate();
	append("log.1", T "stdout F d\n");
	append("log", T "stdout F e\n");
	assert_int_equal(drain(f, &out), LOG_FILE_QUIET);
	assert_string_equal(str_c(&out), "a\nb\nc\nd\ne\n");
	/* Two at once: nothing is missing, by the number of bytes before. */
	rotate();
	append("log", T "before F 10 0\n" T "stdout F f\n");
	rotate();
	append("log", T "before F 12 0\n" T "stdout F g\n");
	assert_int_equal(drain(f, &out), LOG_FILE_QUIET);
	assert_int_equal(log_file_offset(f), 14);
	over = true;
	append("log", T "stdout F h\n");
	assert_int_equal(drain(f, &out), LOG_FILE_END);
	assert_string_equal(str_c(&out), "a\nb\nc\nd\ne\nf\ng\nh\n");
}

/* Its reader begins again, and sees by the offset what is missing. */
CASE(test_followed_files_that_were_replaced_unread_break_the_log)
{
	STR_AUTO out = STR_INIT(TEXT_ROOM);
	append("log", T "stdout F a\n");
	AUTO(log_file_auto) struct log_file *f = open_file(BOTH, 0, true);
	assert_int_equal(drain(f, &out), LOG_FILE_QUIET);
	assert_int_equal(log_file_offset(f), 2);
	assert_int_equal(unlink(unit_path("log")), 0);
	append("log.1", T "before F 4 0\n" T "stdout F c\n");
	append("log", T "before F 6 0\n" T "stdout F d\n");
	assert_int_equal(drain(f, &out), LOG_FILE_BROKEN);
	assert_string_equal(str_c(&out), "a\n");
	assert_from(BOTH, 2, 4, "c\nd\n");
}

/* The files are deleted while they are read. */
CASE(test_followed_files_end_when_they_are_deleted)
{
	STR_AUTO out = STR_INIT(TEXT_ROOM);
	append("log", T "stdout F a\n");
	AUTO(log_file_auto) struct log_file *f = open_file(BOTH, 0, true);
	append("log", T "stdout F b\n");
	assert_int_equal(unlink(unit_path("log")), 0);
	there = false;
	assert_int_equal(drain(f, &out), LOG_FILE_END);
	assert_string_equal(str_c(&out), "a\nb\n");
}

static void assert_none(int wanted)
{
	int status = 0;
	assert_null(log_file_open(
	    &(struct log_file_request){ find, NULL, BOTH, 0, false, 0, 0, false }, &status));
	assert_int_equal(status, wanted);
}

CASE(test_missing_files_give_400_or_404_by_the_end_of_the_task)
{
	assert_none(400);
	over = true;
	assert_none(404);
	over = there = false;
	assert_none(404);
}

CASE(test_links_fifos_and_directories_are_not_read)
{
	append("other", T "stdout F secret\n");
	assert_int_equal(symlink(unit_path("other"), unit_path("log")), 0);
	assert_none(400);
	assert_int_equal(unlink(unit_path("log")), 0);
	assert_int_equal(mkfifo(unit_path("log"), 0600), 0);
	assert_none(400);
	assert_int_equal(unlink(unit_path("log")), 0);
	assert_int_equal(mkdir(unit_path("log"), 0700), 0);
	assert_none(400);
	assert_int_equal(rmdir(unit_path("log")), 0);
}

/* ---- streams ---- */

struct reader {
	struct str got;
	size_t room;
	int began, silent, ended;
	enum log_stream_outcome outcome;
	int status;
	struct log_stream *stream;
	bool leave;
};

static struct log_streams *streams;

static bool began(void *arg, bool silent, int64_t offset)
{
	struct reader *g = arg;
	g->began++;
	g->silent += silent;
	assert_int_equal(offset, 0);
	return true;
}

static bool came(void *arg, struct span bytes)
{
	struct reader *g = arg;
	assert_int_equal(g->began, 1);
	assert_true(bytes.n > 0);
	if (g->got.n + bytes.n > g->room)
		return false;
	str_span(&g->got, bytes);
	if (g->leave)
		log_stream_cancel(g->stream);
	return true;
}

static void ended(void *arg, const struct log_stream_end *end)
{
	struct reader *g = arg;
	g->ended++;
	g->outcome = end->outcome;
	g->status = end->status;
}

static void begin(struct reader *g, bool follow)
{
	*g = (struct reader){ .got = STR_INIT(TEXT_ROOM), .room = g->room ?: SIZE_MAX };
	if (!streams)
		streams = log_streams_new(NULL, "jobs", 3, 2, no_err());
	g->stream = log_stream_open(streams,
	                            &(struct log_stream_request){ .user = "alice",
	                                                          .files = find,
	                                                          .streams = BOTH,
	                                                          .follow = follow,
	                                                          .began = began,
	                                                          .came = came,
	                                                          .ended = ended,
	                                                          .arg = g },
	                            no_err());
	assert_string_equal(err_msg(&unit.e), "");
}

static void turn(void)
{
	struct pollfd p = { .fd = log_streams_fd(streams), .events = POLLIN };
	(void)poll(&p, 1, log_streams_timeout_ms(streams));
	log_streams_run_once(streams);
}

static void turn_until(struct reader *g, const char *wanted)
{
	int64_t end = clock_ms() + PATIENCE_MS;
	while (strcmp(str_c(&g->got), wanted) != 0 && clock_ms() < end)
		turn();
	assert_string_equal(str_c(&g->got), wanted);
}

static void turn_to_end(const struct reader *g)
{
	int64_t end = clock_ms() + PATIENCE_MS;
	while (!g->ended && clock_ms() < end)
		turn();
	assert_int_equal(g->ended, 1);
}

static void finish(struct reader *g)
{
	log_streams_free(TAKE(streams));
	str_done(&g->got);
}

CASE(test_stream_gives_the_whole_file)
{
	struct reader g = { .room = 0 };
	append("log", T "stdout F a\n");
	begin(&g, false);
	assert_int_equal(log_streams_timeout_ms(streams), 0);
	turn_to_end(&g);
	assert_int_equal(g.outcome, LOG_STREAM_WHOLE);
	assert_string_equal(str_c(&g.got), "a\n");
	assert_int_equal(g.silent, 0);
	assert_int_equal(log_streams_count(streams), 0);
	assert_int_equal(log_streams_timeout_ms(streams), -1);
	finish(&g);
}

CASE(test_stream_that_follows_ends_with_the_task)
{
	struct reader g = { .room = 0 };
	append("log", "");
	begin(&g, true);
	while (!g.began)
		turn();
	assert_int_equal(g.silent, 1);
	int64_t from_ms = clock_ms();
	for (int i = 0; i < 4; i++) /* asleep for 10, 20, 40 and 80 ms */
		turn();
	assert_true(clock_ms() - from_ms >= 100);
	append("log", T "stdout F a\n");
	turn_until(&g, "a\n");
	rotate();
	append("log", T "stdout F b\n");
	turn_until(&g, "a\nb\n");
	over = true;
	turn_to_end(&g);
	assert_int_equal(g.outcome, LOG_STREAM_WHOLE);
	finish(&g);
}

CASE(test_stream_waits_while_its_reader_has_no_room)
{
	struct reader g = { .room = 1 };
	append("log", T "stdout F a\n");
	over = true;
	begin(&g, true);
	turn();
	assert_int_equal(g.got.n, 0);
	assert_int_equal(log_streams_timeout_ms(streams), -1);
	g.room = 100;
	log_stream_go_on(g.stream);
	turn_to_end(&g);
	assert_string_equal(str_c(&g.got), "a\n");
	finish(&g);
}

CASE(test_stream_ends_silently_when_its_reader_leaves)
{
	struct reader g = { .room = 0 };
	append("log", T "stdout F a\n");
	begin(&g, true);
	g.leave = true;
	turn();
	assert_int_equal(log_streams_count(streams), 0);
	assert_int_equal(g.ended, 0);
	str_done(&g.got);
	begin(&g, true);
	turn();
	log_stream_cancel(g.stream);
	assert_int_equal(log_streams_count(streams), 0);
	str_done(&g.got);
	begin(&g, true);
	turn();
	finish(&g);
	assert_int_equal(g.outcome, LOG_STREAM_CLOSING);
}

CASE(test_stream_beyond_the_limit_of_a_user_gives_429)
{
	struct reader g[3] = { { .room = 0 }, { .room = 0 }, { .room = 0 } };
	begin(&g[0], true);
	begin(&g[1], false);
	struct log_stream_request r = { .user = "alice", .files = find };
	assert_null(log_stream_open(streams, &r, no_err()));
	assert_int_equal(unit.e.http, 429);
	turn_to_end(&g[0]);
	turn_to_end(&g[1]);
	assert_int_equal(g[0].outcome, LOG_STREAM_REFUSED);
	assert_int_equal(g[1].status, 400);
	there = false;
	begin(&g[2], true);
	turn_to_end(&g[2]);
	assert_int_equal(g[2].status, 404);
	assert_int_equal(g[2].began, 0);
	finish(&g[0]);
}
