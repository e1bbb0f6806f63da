/*
 * `pai-runtime exit CODE`: what `run` does when the command failed, on its own; for tests and for
 * trying out exit specifications.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime-assets/args.h"
#include "runtime-assets/commands.h"
#include "runtime-assets/exit/exit.h"
#include "runtime-assets/files.h"
#include "runtime-assets/layout.h"
#include "runtime-assets/net/http.h"
#include "runtime-assets/say.h"

enum { USAGE = 2, DEADLINE_MS = 10000 };

struct options {
	const char *root, *user_log, *rotated, *runtime_log, *spec, *trigger;
	int64_t code;
	bool help;
};

static int usage(FILE *out, int status)
{
	fputs("usage: pai-runtime exit [OPTION...] CODE\n\n"
	      "Explains an exit code by the exit specification and the ends of the logs: writes\n"
	      "the termination message to /tmp/pai-termination-log, and ends with the code for\n"
	      "the container, 255 if no pattern matches.  For code 0 nothing is written.\n\n"
	      "  --root DIR          put DIR before every path\n"
	      "  --user-log FILE     what the command wrote\n"
	      "  --rotated FILE      the log before it\n"
	      "  --runtime-log FILE  what the runtime wrote\n"
	      "  --spec FILE         the exit specification\n"
	      "  --trigger TEXT      what failed, if not the command: postCommands\n\n"
	      "Without them the files are those of this pod.\n",
	      out);
	return status;
}

static int parse(struct options *o, int argc, char **argv)
{
	*o = (struct options){ .root = "" };
	const struct arg args[] = {
		{ "--root", &o->root, NULL },       { "--user-log", &o->user_log, NULL },
		{ "--rotated", &o->rotated, NULL }, { "--runtime-log", &o->runtime_log, NULL },
		{ "--spec", &o->spec, NULL },       { "--trigger", &o->trigger, NULL },
		{ "--help", NULL, &o->help },       { NULL, NULL, NULL },
	};
	int i = args_take(args, 1, argc, argv);
	if (o->help)
		return 0;
	if (i == argc)
		return args_misused(argv[0], NULL);
	if (parse_i64(span_of(argv[i]), 0, 255, &o->code))
		return args_misused(argv[0], argv[i]);
	i = args_take(args, i + 1, argc, argv);
	return i < argc ? args_misused(argv[0], argv[i]) : 0;
}

/* A log: the author could have put anything in its place. */
static int open_log(const char *path)
{
	int fd = path ? open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC) : -1;
	struct stat st;
	if (fd >= 0 && (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))) {
		close(fd);
		return -1;
	}
	return fd;
}

/* The latest rotated log, `@` and its time in hex; NULL if there is none. */
static const char *latest_rotated(const char *directory, struct arena *a)
{
	const char *latest = NULL;
	DIR *d = opendir(directory);
	if (!d)
		return NULL;
	const struct dirent *entry;
	/* One thread, and a directory stream of its own. */
	while ((entry = readdir(d)) != NULL) { /* NOLINT(concurrency-mt-unsafe) */
		size_t n = strlen(entry->d_name);
		bool rotated = n > 2 && entry->d_name[0] == '@' && entry->d_name[n - 2] == '.';
		if (rotated && (!latest || strcmp(entry->d_name, latest) > 0))
			latest = arena_dup(a, span_of(entry->d_name));
	}
	(void)closedir(d); /* nothing was written */
	return latest ? path_join(a, directory, latest) : NULL;
}

/* A log that was asked for is missed; one that a pod has not is empty. */
static void miss_given(const struct options *o)
{
	const char *const given[] = { o->user_log, o->rotated, o->runtime_log };
	for (size_t i = 0; i < sizeof(given) / sizeof(given[0]); i++) {
		int fd = open_log(given[i]);
		if (fd >= 0)
			(void)close(fd); /* only looked at */
		else if (given[i])
			say(SAY_WARNING, "%s is no file that can be read: taken as empty",
			    given[i]);
	}
}

/* What was not given is where this pod has it. */
static void fill(struct options *o, const struct layout *at, struct arena *a)
{
	const char *logs = path_join(a, at->logs, "user-all");
	if (!o->user_log) {
		o->user_log = path_join(a, logs, "current");
		o->rotated = o->rotated ? o->rotated : latest_rotated(logs, a);
	}
	if (!o->runtime_log)
		o->runtime_log = path_join(a, at->logs, "runtime.log");
	if (!o->spec)
		o->spec = path_join(a, at->runtime_d, "runtime-exit-spec.yaml");
}

static int explain(const struct options *o, const struct layout *at, struct arena *a)
{
	FD_AUTO user = open_log(o->user_log);
	FD_AUTO rotated = open_log(o->rotated);
	FD_AUTO runtime = open_log(o->runtime_log);
	struct span spec = { 0 };
	ERR_AUTO e = { 0 };
	NOTES_AUTO warnings = { 0 };
	STR_AUTO message = STR_INIT(EXIT_MESSAGE_MAX);
	int missing = file_read(o->spec, FILE_THEIRS, EXIT_SPEC_MAX, a, &spec, &e);
	if (missing)
		say(SAY_WARNING, "no exit specification: %s%s", missing > 0 ? o->spec : err_msg(&e),
		    missing > 0 ? " is not there" : "");
	struct exit_input in = {
		.code = (int)o->code,
		.trigger = o->trigger,
		.user_log = user,
		.user_log_rotated = rotated,
		.runtime_log = runtime,
		.spec = missing ? SPAN("") : spec,
		.deadline_ms = clock_ms() + DEADLINE_MS,
		.root = at->root,
	};
	int code = exit_explain(&in, &message, &warnings);
	for (size_t i = 0; i < warnings.n; i++)
		say(SAY_WARNING, "%s", warnings.v[i].msg);
	err_done(&e);
	e = (struct err){ 0 };
	if (code != 0 && exit_report(at->termination, str_view(&message), &e))
		say(SAY_ERROR, "%s", err_msg(&e));
	return code;
}

int cmd_exit(int argc, char **argv)
{
	ARENA_AUTO a = { 0 };
	struct options o;
	struct layout at;
	if (parse(&o, argc, argv))
		return usage(stderr, USAGE);
	if (o.help)
		return usage(stdout, 0);
	if (o.code == 0)
		return 0;
	layout_init(&at, o.root, &a);
	miss_given(&o);
	fill(&o, &at, &a);
	return explain(&o, &at, &a);
}
