/* Lines of the log: one line for each event, with any values. */

#include "tests/unit/base/cmocka.h"
#include <fcntl.h>
#include <jansson.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/state/log.h"

static void ends_close(int (*ends)[2])
{
	(void)close((*ends)[0]);
	(void)close((*ends)[1]);
}

/* Sends the log to fds[1] from now on. */
#define LOGGED_TO_PIPE()                                                                           \
	__attribute__((cleanup(ends_close))) int fds[2];                                           \
	assert_int_equal(pipe2(fds, O_NONBLOCK), 0);                                               \
	log_init(fds[1])

/* The next bytes, as text. */
static const char *read_text(int fd)
{
	static char text[65536];
	ssize_t n = read(fd, text, sizeof(text) - 1);
	assert_true(n > 0);
	text[n] = '\0';
	return text;
}

/* Returns the text that is written for an event with this field. */
static const char *logged(struct span value)
{
	LOGGED_TO_PIPE();
	struct line line = log_begin(LOG_WARN, "told");
	log_text(&line, "value", value);
	log_int(&line, "number", -7);
	log_ms(&line, "ms", 1234);
	log_end(&line);
	return read_text(fds[0]);
}

TEST(test_log_json_is_valid_with_any_bytes)
{
	json_auto_t *line = json_loads(logged(SPAN("a\"b\\c\nd")), 0, NULL);
	assert_non_null(line);
	assert_string_equal(json_string_value(json_object_get(line, "value")), "a\"b\\c\nd");
	assert_string_equal(json_string_value(json_object_get(line, "level")), "warn");
	assert_int_equal(json_integer_value(json_object_get(line, "number")), -7);
	json_auto_t *odd = json_loads(logged(SPAN("\xff\xfe ok")), 0, NULL);
	assert_string_equal(json_string_value(json_object_get(odd, "value")), "?? ok");
}

TEST(test_log_lines_have_one_line_each)
{
	const char *line = logged(SPAN("x\n\"level\":\"error\""));
	assert_non_null(strstr(line, "\"msg\":\"told\",\"value\":\"x\\n\\\"level\\\":"));
	assert_non_null(strstr(line, ",\"number\":-7,\"ms\":1.234}\n"));
	assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
}

TEST(test_log_shortens_fields_that_are_too_long)
{
	static char much[3000];
	memset(much, 1, sizeof(much)); /* six bytes each, escaped */
	json_auto_t *line = json_loads(logged((struct span){ much, sizeof(much) }), 0, NULL);
	assert_non_null(line);
	assert_int_equal(json_integer_value(json_object_get(line, "number")), -7);
}

/* No process reads the pipe: lines are dropped, and the next written line has their number. */
TEST(test_log_drops_lines_instead_of_waiting)
{
	__attribute__((cleanup(ends_close))) int fds[2];
	assert_int_equal(pipe(fds), 0); /* a write would wait */
	log_init(fds[1]);
	for (int i = 0; i < 5000; i++)
		log_event(LOG_INFO, "much", "key", "value");
	(void)read_text(fds[0]);
	log_event(LOG_INFO, "after", NULL, NULL);
	assert_non_null(strstr(read_text(fds[0]), "\"dropped_lines\":"));
}

/* The lines of a round are written together, and before a warning.  This thread collects from here
 * on, so these are the last tests. */
TEST(test_log_writes_the_lines_of_a_round_together)
{
	char none[1];
	LOGGED_TO_PIPE();
	log_collect();
	log_event(LOG_INFO, "first", NULL, NULL);
	log_event(LOG_INFO, "second", NULL, NULL);
	assert_int_equal(read(fds[0], none, sizeof(none)), -1);
	log_flush();
	const char *text = read_text(fds[0]);
	assert_non_null(strstr(text, "\"msg\":\"first\"}\n"));
	assert_non_null(strstr(text, "\"msg\":\"second\"}\n"));
	log_flush();
	assert_int_equal(read(fds[0], none, sizeof(none)), -1);
	log_event(LOG_INFO, "third", NULL, NULL);
	log_event(LOG_WARN, "fourth", NULL, NULL);
	const char *third = strstr(read_text(fds[0]), "\"msg\":\"third\"}\n");
	assert_non_null(third);
	assert_non_null(strstr(third, "\"msg\":\"fourth\"}\n"));
}

/* The collected lines never exceed the size that a pipe takes at once. */
TEST(test_log_collects_no_more_than_a_pipe_takes)
{
	enum { EVENTS = 24, FIELD = 900, PIPE_TAKES = 4096 };
	static char text[EVENTS * (FIELD + 200)];
	char field[FIELD + 1];
	__attribute__((cleanup(ends_close))) int fds[2];
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, fds), 0);
	log_init(fds[1]);
	log_collect();
	memset(field, 'x', FIELD);
	field[FIELD] = '\0';
	for (int i = 0; i < EVENTS; i++)
		log_event(LOG_INFO, "one", "field", field);
	log_flush();
	size_t lines = 0;
	for (ssize_t n; (n = read(fds[0], text, sizeof(text))) > 0;) {
		assert_in_range(n, FIELD, PIPE_TAKES);
		assert_int_equal(text[n - 1], '\n');
		for (ssize_t i = 0; i < n; i++)
			lines += text[i] == '\n';
	}
	assert_int_equal(lines, EVENTS);
}

FIXTURE(log_again)
{
	log_init(STDERR_FILENO);
	return 0;
}

TEST_GROUP(NULL, log_again)
