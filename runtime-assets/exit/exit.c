/* Explaining a failure, see exit.h: specification, logs, excerpts, message. */
#include "runtime-assets/exit/exit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/pod/nvidia_smi.h"
#include "base/posix/child.h"
#include "runtime-assets/common/cmdline.h"
#include "runtime-assets/common/files.h"
#include "runtime-assets/common/say.h"
#include "runtime-assets/exit/exit_internal.h"
#include "runtime-assets/net/http.h"

enum {
	OUTPUT_MAX = 4 << 20,
	ELEMENTS_MAX = 1024, /* bytes of the names of open elements */
	REASON_MAX = 1024,
	WAIT_MS = 1000,
	POLL_MS = 10,
	KILLED_MS = 200
};

/* ---- GPU errors: output of nvidia-smi -------------------------------------------------------- */

/* Uncorrectable memory errors of GPUs since the last boot, in the XML of `nvidia-smi -q -x`.  A
 * missing program means no errors.  The program is untrusted: its output may be long or invalid,
 * and it may never end. */
static const char *const COUNTERS[] = {
	"/gpu/ecc_errors/volatile/double_bit/total", /* drivers before Ampere */
	"/gpu/ecc_errors/volatile/sram_uncorrectable",
	"/gpu/ecc_errors/volatile/sram_uncorrectable_parity",
	"/gpu/ecc_errors/volatile/sram_uncorrectable_secded",
	"/gpu/ecc_errors/volatile/dram_uncorrectable",
};

bool ecc_errors_in(struct span xml)
{
	STR_AUTO path = STR_INIT(ELEMENTS_MAX); /* of the open elements: /nvidia_smi_log/gpu */
	size_t deeper = 0;                      /* elements that did not fit into it */
	size_t open;
	for (size_t at = 0; (open = span_find(xml, at, "<")) != SIZE_MAX;) {
		int64_t count;
		struct span text = span_trim((struct span){ xml.p + at, open - at });
		bool errors = deeper == 0 && parse_i64(text, 1, INT64_MAX, &count) == 0;
		for (size_t i = 0; errors && i < ARRAY_SIZE(COUNTERS); i++) {
			size_t n = strlen(COUNTERS[i]);
			if (path.n >= n && memcmp(path.p + path.n - n, COUNTERS[i], n) == 0)
				return true;
		}
		struct span tag = span_from(xml, open + 1);
		const char *close = span_starts(tag, "!--") ? "-->" : ">";
		size_t end = span_find(tag, 0, close);
		if (end == SIZE_MAX)
			break;
		at = open + 1 + end + strlen(close);
		tag.n = end;
		if (tag.n == 0 || tag.p[0] == '!' || tag.p[0] == '?')
			continue;
		if (tag.p[0] != '/') {
			size_t n = 0;
			while (n < tag.n && !strchr(" \t\r\n/>", tag.p[n]))
				n++;
			bool alone = tag.p[tag.n - 1] == '/';
			if (!alone && (deeper || path.n + n >= ELEMENTS_MAX))
				deeper++;
			else if (!alone)
				str_printf(&path, "/%.*s", (int)n, tag.p);
		} else if (deeper) {
			deeper--;
		} else {
			while (path.n > 0 && path.p[--path.n] != '/')
				;
		}
	}
	return false;
}

/* ---- GPU errors: running nvidia-smi ---------------------------------------------------------- */

/* Reads until the end, the time limit or OUTPUT_MAX; true at the end. */
static bool ecc_read(int fd, int64_t until_ms, struct str *out)
{
	char buffer[16384];
	struct pollfd p = { .fd = fd, .events = POLLIN };
	while (!out->full && clock_ms() < until_ms) {
		ssize_t n = poll(&p, 1, POLL_MS) > 0 ? read(fd, buffer, sizeof(buffer)) : -1;
		if (n == 0)
			return true;
		if (n > 0)
			str_put(out, buffer, (size_t)n);
	}
	return false;
}

/* Returns true if it has ended by then. */
static bool ecc_wait(pid_t pid, int64_t until_ms, int *status)
{
	for (;;) {
		pid_t got = waitpid(pid, status, WNOHANG);
		if (got == pid)
			return true;
		if ((got < 0 && errno != EINTR) || clock_ms() >= until_ms)
			return false;
		clock_sleep_until(clock_ms() + 2);
	}
}

pid_t nvidia_smi_spawn(const char *root, const char **argv, int out, struct arena *a)
{
	const char *libraries = getenv("LD_LIBRARY_PATH"); /* some images have the driver's there */
	const char *const env[] = {
		arena_printf(a,
		             "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
		libraries ? arena_printf(a, "LD_LIBRARY_PATH=%s", libraries) : NULL, NULL
	};
	const struct child_command program = {
		.argv = argv, .env = env, .out = out, .err = STREAM_NONE, .group = CHILD_APART
	};
	argv[0] = nvidia_smi_find(root, a);
	return argv[0] ? child_spawn(&program) : -1;
}

bool ecc_errors(const char *root, int64_t deadline_ms)
{
	ARENA_AUTO a = { 0 };
	STR_AUTO xml = STR_INIT(OUTPUT_MAX);
	int64_t until_ms = clock_ms() + WAIT_MS;
	const char *argv[] = { NULL, "-q", "-x", NULL };
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) != 0)
		return false;
	FD_AUTO in = ends[0];
	pid_t pid = nvidia_smi_spawn(root, argv, ends[1], &a);
	close(ends[1]);
	if (pid < 0)
		return false;
	if (until_ms > deadline_ms)
		until_ms = deadline_ms;
	int status;
	bool complete = ecc_read(in, until_ms, &xml);
	bool ended = ecc_wait(pid, complete ? until_ms : 0, &status);
	(void)kill(-pid, SIGKILL);
	if (!ended) { /* not longer: it may hang in the driver and survive that */
		(void)ecc_wait(pid, clock_ms() + KILLED_MS, &status);
		return false;
	}
	return complete && WIFEXITED(status) && WEXITSTATUS(status) == 0 &&
	       ecc_errors_in(str_view(&xml));
}

/* ---- explanation ----------------------------------------------------------------------------- */

int exit_explain(const struct exit_input *input, struct str *message, struct notes *warnings)
{
	if (input->code == 0)
		return 0;
	ARENA_AUTO a = { 0 };
	struct exit_case c = { .in = input, .warnings = warnings };
	struct exit_table spec;
	struct exit_verdict v;
	log_text_open(&c.user, input->user_log, input->user_log_rotated);
	log_text_open(&c.platform, input->runtime_log, -1);
	exit_spec_read(&spec, input->spec, input->code, &a, warnings);
	exit_spec_match(&spec, &c, &v);
	EXCERPT_AUTO user = { 0 };
	EXCERPT_AUTO platform = { 0 };
	STR_AUTO reason = STR_INIT(REASON_MAX);
	excerpt_make(&user, &c.user, v.has_user ? &v.user : NULL, EXCERPT_USER_LINES);
	excerpt_precede(&user, &c.user, &v.handled);
	excerpt_make(&platform, &c.platform, v.has_platform ? &v.platform : NULL,
	             EXCERPT_PLATFORM_LINES);
	failed_line(input, &c.user, &reason);
	struct summary s = { input, &v, str_view(&reason), &user, &platform };
	summary_write(&s, message);
	log_text_done(&c.user);
	log_text_done(&c.platform);
	return (int)v.code;
}

/* ---- `pai-runtime exit` ---------------------------------------------------------------------- */

enum { DEADLINE_MS = 10000 };

struct exit_options {
	const char *root, *user_log, *rotated, *runtime_log, *spec, *trigger;
	int64_t code;
};

const char EXIT_USAGE[] =
    "usage: pai-runtime exit [OPTION...] CODE\n\n"
    "Explains an exit code by the exit specification and the ends of the logs: writes\n"
    "the termination message to /tmp/pai-termination-log, and ends with the code for\n"
    "the container, 255 if no pattern matches.  For code 0 nothing is written.\n\n"
    "  --root DIR          put DIR before every path\n"
    "  --user-log FILE     the output of the command\n"
    "  --rotated FILE      the log before it\n"
    "  --runtime-log FILE  the log of the runtime\n"
    "  --spec FILE         the exit specification\n"
    "  --trigger TEXT      the failed part, if not the command: postCommands\n\n"
    "Without them the files are those of this pod.\n";

static int exit_parse(struct exit_options *o, int argc, char **argv)
{
	*o = (struct exit_options){ .root = "" };
	const struct arg args[] = {
		{ "--root", &o->root, NULL },
		{ "--user-log", &o->user_log, NULL },
		{ "--rotated", &o->rotated, NULL },
		{ "--runtime-log", &o->runtime_log, NULL },
		{ "--spec", &o->spec, NULL },
		{ "--trigger", &o->trigger, NULL },
		{ NULL, NULL, NULL },
	};
	int i = args_take(args, 1, argc, argv);
	if (i == argc)
		return args_misused(argv[0], NULL);
	if (parse_i64(span_of(argv[i]), 0, 255, &o->code))
		return args_misused(argv[0], argv[i]);
	i = args_take(args, i + 1, argc, argv);
	return i < argc ? args_misused(argv[0], argv[i]) : 0;
}

/* The log of an option, or the pod's, which may be missing. */
static int exit_open_log(const char *given, const char *otherwise)
{
	const char *path = given ? given : otherwise;
	int fd = path ? file_open(path, O_RDONLY) : -1;
	if (fd < 0 && given)
		say_line(SAY_WARNING, "%s is no file that can be read: it counts as empty", given);
	return fd;
}

/* The latest rotated log, `@` and its time in hex; NULL if there is none. */
static const char *exit_latest_rotated(const char *directory, struct arena *a)
{
	const char *latest = NULL;
	DIR_AUTO *d = dir_list(AT_FDCWD, directory);
	for (const char *name; (name = dir_next(d)) != NULL;) {
		size_t n = strlen(name);
		bool rotated = n > 2 && name[0] == '@' && name[n - 2] == '.';
		if (rotated && (!latest || strcmp(name, latest) > 0))
			latest = arena_dup(a, span_of(name));
	}
	return latest ? path_join(a, directory, latest) : NULL;
}

int cmd_exit(int argc, char **argv)
{
	ARENA_AUTO a = { 0 };
	ERR_AUTO e = { 0 };
	NOTES_AUTO warnings = { 0 };
	STR_AUTO message = STR_INIT(EXIT_MESSAGE_MAX);
	struct exit_options o;
	struct layout at;
	struct span spec = SPAN("");
	if (exit_parse(&o, argc, argv))
		return MISUSED;
	if (o.code == 0)
		return 0;
	layout_init(&at, o.root, &a);
	const char *logs = path_join(&a, at.logs, "user-all");
	FD_AUTO user = exit_open_log(o.user_log, path_join(&a, logs, "current"));
	FD_AUTO rotated =
	    exit_open_log(o.rotated, o.user_log ? NULL : exit_latest_rotated(logs, &a));
	FD_AUTO runtime = exit_open_log(o.runtime_log, path_join(&a, at.logs, "runtime.log"));
	if (!o.spec)
		o.spec = path_join(&a, at.runtime_d, "runtime-exit-spec.yaml");
	if (file_need(o.spec, FILE_THEIRS, EXIT_SPEC_MAX, &a, &spec, &e)) {
		say_line(SAY_WARNING, "no exit specification: %s", err_msg(&e));
		spec = SPAN("");
	}
	struct exit_input in = {
		.code = (int)o.code,
		.trigger = o.trigger,
		.user_log = user,
		.user_log_rotated = rotated,
		.runtime_log = runtime,
		.spec = spec,
		.deadline_ms = clock_ms() + DEADLINE_MS,
		.root = at.root,
	};
	int code = exit_explain(&in, &message, &warnings);
	say_notes(&warnings);
	if (code != 0 && exit_report(at.termination, str_view(&message), &e))
		say_line(SAY_ERROR, "%s", err_msg(&e));
	return code;
}
