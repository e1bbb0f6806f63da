/*
 * Any exit specification, any logs: there is a message of at most 4096 bytes of valid UTF-8 between
 * both markers, which the YAML reader takes, and which has the exit codes in it.  The input is four
 * texts between lines of three dashes: specification, log of the command, the rotated one, log of
 * the runtime; its first byte is the exit code.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "base/doc/tree.h"
#include "base/enc.h"
#include "runtime-assets/common/files.h"
#include "runtime-assets/exit/exit_internal.h"
#include "runtime-assets/net/http.h"
#include "tests/fuzz/fuzz.h"

enum { SOON_MS = 60000 };

#define SEPARATOR "\n---\n"
#define START     "[PAI_RUNTIME_ERROR_START]\n"
#define END       "[PAI_RUNTIME_ERROR_END]"

/* The next of the texts. */
static struct span cut(struct span *rest)
{
	size_t at = span_find(*rest, 0, SEPARATOR);
	struct span out = *rest;
	if (at == SIZE_MAX) {
		*rest = (struct span){ rest->p + rest->n, 0 };
		return out;
	}
	out.n = at;
	*rest = (struct span){ rest->p + at + strlen(SEPARATOR), rest->n - at - strlen(SEPARATOR) };
	return out;
}

static int file_with(struct span text)
{
	int fd = memfd_create("log", MFD_CLOEXEC);
	assert(fd >= 0);
	int failed = fd_write_all(fd, text);
	assert(!failed);
	return fd;
}

static void check_message(struct span message, int code, int user_code)
{
	ARENA_AUTO a = { 0 };
	ERR_AUTO e = { 0 };
	struct doc doc;
	assert(message.n <= EXIT_MESSAGE_MAX);
	assert(utf8_check(message) == message.n);
	assert(span_starts(message, START));
	struct span yaml = { message.p + strlen(START), message.n - strlen(START) - strlen(END) };
	assert(span_is((struct span){ yaml.p + yaml.n, strlen(END) }, END));
	assert(span_find(message, 0, END) == message.n - strlen(END));
	assert(message.p[message.n - strlen(END) - 1] == '\n');
	/* A NUL in a log is written as such, and our reader takes none. */
	if (span_find(yaml, 0, "\\0") != SIZE_MAX)
		return;
	int failed = doc_read(yaml, &BUDGET_DEFAULT, &a, &doc, NULL, &e);
	assert(!failed);
	assert(node_get(&doc.root, "exitCode")->integer == code);
	assert(node_get(&doc.root, "originUserExitCode")->integer == user_code);
}

FUZZ(rest)
{
	STR_AUTO message = STR_INIT(EXIT_MESSAGE_MAX);
	NOTES_AUTO warnings = { 0 };
	if (rest.n < 1)
		return;
	struct exit_input in = { .code = fuzz_byte(&rest) };
	in.spec = cut(&rest);
	in.deadline_ms = clock_ms() + SOON_MS;
	in.root = "/nonexistent";
	in.user_log = file_with(cut(&rest));
	in.user_log_rotated = file_with(cut(&rest));
	in.runtime_log = file_with(rest);
	int code = exit_explain(&in, &message, &warnings);
	assert((code == 0) == (in.code == 0));
	assert(!message.full);
	if (in.code == 0)
		assert(message.n == 0);
	else
		check_message(str_view(&message), code, in.code);
	(void)close(in.user_log);
	(void)close(in.user_log_rotated);
	(void)close(in.runtime_log);
}
