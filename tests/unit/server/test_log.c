/* Lines of the log: one each, whatever is in them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <jansson.h>
#include <unistd.h>

#include "server/log.h"

enum { LINE_LIMIT = 8192 };

/* What is written when a line with this field is logged. */
static char *logged(enum log_format format, struct span value)
{
	static char text[LINE_LIMIT];
	int fds[2];
	assert_int_equal(pipe2(fds, O_NONBLOCK), 0);
	log_init(format, fds[1]);
	struct line line = log_begin(LOG_WARN, "told");
	log_text(&line, "value", value);
	log_int(&line, "number", -7);
	log_ms(&line, "ms", 1234);
	log_end(&line);
	ssize_t n = read(fds[0], text, sizeof(text) - 1);
	assert_true(n > 0);
	text[n] = '\0';
	(void)close(fds[0]);
	(void)close(fds[1]);
	return text;
}

static void test_log_json(void **state)
{
	(void)state;
	json_auto_t *line = json_loads(logged(LOG_JSON, SPAN("a\"b\\c\nd")), 0, NULL);
	assert_non_null(line);
	assert_string_equal(json_string_value(json_object_get(line, "value")), "a\"b\\c\nd");
	assert_string_equal(json_string_value(json_object_get(line, "level")), "warn");
	assert_int_equal(json_integer_value(json_object_get(line, "number")), -7);
}

static void test_log_json_no_utf8(void **state)
{
	(void)state;
	json_auto_t *line = json_loads(logged(LOG_JSON, SPAN("\xff\xfe ok")), 0, NULL);
	assert_string_equal(json_string_value(json_object_get(line, "value")), "?? ok");
}

static void test_log_logfmt(void **state)
{
	(void)state;
	const char *line = logged(LOG_LOGFMT, SPAN("/a/b"));
	assert_non_null(strstr(line, " level=warn msg=told value=/a/b number=-7 ms=1.234\n"));
}

static void test_log_logfmt_quotes(void **state)
{
	(void)state;
	const char *line = logged(LOG_LOGFMT, SPAN("x\nlevel=error"));
	assert_non_null(strstr(line, "value=\"x\\nlevel=error\""));
	assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
}

static void test_log_field_too_long(void **state)
{
	(void)state;
	static char much[3000];
	memset(much, 1, sizeof(much)); /* six bytes each, escaped */
	json_auto_t *line =
	    json_loads(logged(LOG_JSON, (struct span){ much, sizeof(much) }), 0, NULL);
	assert_non_null(line);
	assert_int_equal(json_integer_value(json_object_get(line, "number")), -7);
}

/* Nobody reads the pipe: lines are dropped, and counted in the next that gets through. */
static void test_log_never_waits(void **state)
{
	(void)state;
	int fds[2];
	char text[65536];
	assert_int_equal(pipe(fds), 0);
	log_init(LOG_JSON, fds[1]);
	for (int i = 0; i < 5000; i++)
		log_event(LOG_INFO, "much", "key", "value");
	assert_true(read(fds[0], text, sizeof(text)) > 0);
	log_event(LOG_INFO, "after", NULL, NULL);
	ssize_t n = read(fds[0], text, sizeof(text) - 1);
	assert_true(n > 0);
	text[n] = '\0';
	assert_non_null(strstr(text, "\"dropped_lines\":"));
	(void)close(fds[0]);
	(void)close(fds[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_log_json),           cmocka_unit_test(test_log_json_no_utf8),
		cmocka_unit_test(test_log_logfmt),         cmocka_unit_test(test_log_logfmt_quotes),
		cmocka_unit_test(test_log_field_too_long), cmocka_unit_test(test_log_never_waits),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	log_init(LOG_JSON, STDERR_FILENO);
	return failed;
}
