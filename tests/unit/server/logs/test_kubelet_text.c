/* Messages of the kubelet in place of a log, and output of a task. */

#include "tests/unit/base/cmocka.h"

#include "server/logs/logs_internal.h"

#define UID  "369c50f6-8979-43c4-a127-670ffd297ae9"
#define ID   "e788ff6eb312b2594610893b7264098144fbab0723ad043cd90c1d73100dd848"
#define PATH "/var/log/pods/default_job-worker-0_" UID "/app/0.log"

static const char *const MESSAGES[] = {
	"unable to retrieve container logs for containerd://" ID,
	"failed to try resolving symlinks in path \"" PATH "\": lstat " PATH
	": no such file or directory",
	"failed to open log file \"" PATH "\": open " PATH ": no such file or directory",
	"rpc error: code = NotFound desc = an error occurred when try to find container \"" ID
	"\": not found",
	"rpc error: code = Unknown desc = Error: No such container: " ID,
};
enum { N_MESSAGES = ARRAY_SIZE(MESSAGES) };

TEST(test_kubelet_text_begins_gives_the_place_of_a_message)
{
	static const struct {
		const char *text;
		bool within;
		size_t begins;
	} CASES[] = {
		{ "", false, 0 },
		{ "", true, 0 },
		{ "a line\n", false, 7 },
		{ "a line", false, 6 },
		{ "r", false, 0 },
		{ "r", true, 1 },
		{ "rpc error: code = NotFound", false, 0 },
		{ "rpc error: code = NotFound", true, 26 },
		{ "rpc error: code = NotFound\n", false, 27 },
		{ "rpc error; code", false, 15 },
		{ "a line\nunable to re", false, 7 },
		{ "a line\nunable to re", true, 7 },
		{ "a line\nunable to be", false, 19 },
		{ "\n\nfailed to ", false, 2 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++)
		assert_int_equal(kubelet_text_begins(span_of(CASES[i].text), CASES[i].within),
		                 CASES[i].begins);
}

/* A message in pieces is no output of the task; a text too long for a message is. */
TEST(test_kubelet_text_in_pieces_is_recognized)
{
	STR_AUTO text = STR_INIT((size_t)2 * KUBELET_TEXT_MAX);
	for (size_t i = 0; i < N_MESSAGES; i++)
		for (size_t n = 0; n <= strlen(MESSAGES[i]); n++)
			assert_int_equal(
			    kubelet_text_begins((struct span){ MESSAGES[i], n }, false), 0);
	str_puts(&text, "a\n");
	str_puts(&text, MESSAGES[0]);
	while (text.n < KUBELET_TEXT_MAX + 2)
		str_char(&text, 'x');
	assert_int_equal(kubelet_text_begins(str_view(&text), false), 2);
	str_char(&text, 'x');
	assert_int_equal(kubelet_text_begins(str_view(&text), false), text.n);
}
