/* `pai-runtime run`: the phases, and the environment of the task. */
#include "runtime-assets/run/run_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/pod/first_line.h"
#include "runtime-assets/common/cmdline.h"
#include "runtime-assets/exit/exit.h"
#include "runtime-assets/net/http.h"

/* ---- the environment ------------------------------------------------------------------------- */

static void environment_push(struct environment *env, struct env_variable v)
{
	if (env->n == env->cap) {
		size_t cap = env->cap ? 2 * env->cap : 128;
		struct env_variable *more = ARENA_NEW(env->a, struct env_variable, cap);
		if (env->n)
			memcpy(more, env->v, env->n * sizeof(*more));
		env->v = more;
		env->cap = cap;
	}
	v.order = env->n;
	env->v[env->n++] = v;
}

void environment_add(struct environment *env, const char *text)
{
	size_t n = strcspn(text, "=");
	if (text[n])
		environment_push(env, (struct env_variable){ text, { text, n }, 0 });
}

void environment_set(struct environment *env, const char *name, const char *value)
{
	environment_add(env, arena_printf(env->a, "%s=%s", name, value));
}

static void environment_add_one(struct environment *env, struct span s, struct notes *warnings)
{
	char quoted[4 * QUOTE_MAX];
	/* A name that a shell can use. */
	size_t n = is_digit(s.p[0]) ? 0 : span_skip_class(s, 0, "A-Za-z0-9_");
	if (n == 0 || n == s.n || s.p[n] != '=') {
		struct span name = span_to(s, span_chr(s, '='));
		/* Not the value, which may be secret. */
		notes_add(warnings, NOWHERE, "\"%s\" is no name of a variable: left out",
		          name.n < s.n ? quote(quoted, name) : "(text without =)");
	} else if (s.n > VARIABLE_MAX) {
		notes_add(warnings, NOWHERE,
		          "variable %s has %zu bytes, more than any process can be given: left out",
		          quote(quoted, (struct span){ s.p, n }), s.n);
	} else {
		environment_push(env, (struct env_variable){ s.p, { s.p, n }, 0 });
	}
}

void environment_add_text(struct environment *env, struct span text, struct notes *warnings)
{
	while (text.n > 0) {
		if (span_chr(text, '\0') == text.n) {
			notes_add(warnings, NOWHERE, "the last variable is cut: left out");
			return;
		}
		struct span one = span_next(&text, '\0');
		if (one.n > 0)
			environment_add_one(env, one, warnings);
	}
}

void environment_add_absent(struct environment *env, struct span text, struct notes *warnings)
{
	while (text.n > 0 && memchr(text.p, '\0', text.n)) {
		struct span one = span_next(&text, '\0');
		const char *name = arena_dup(env->a, span_to(one, span_chr(one, '=')));
		const char *theirs = environment_get(env, name);
		if (!theirs)
			environment_add_text(env, (struct span){ one.p, one.n + 1 }, warnings);
		else if (!span_is(span_from(one, strlen(name) + 1), theirs))
			notes_add(warnings, NOWHERE,
			          "extras.distributed: the container has %s already, which stays",
			          name);
	}
}

const char *environment_get(const struct environment *env, const char *name)
{
	for (size_t i = env->n; i-- > 0;)
		if (span_is(env->v[i].name, name))
			return env->v[i].text + strlen(name) + 1;
	return NULL;
}

/* Orders by name, the last of a name first. */
static int environment_compare(const void *x, const void *y)
{
	const struct env_variable *a = x;
	const struct env_variable *b = y;
	int order = span_compare(a->name, b->name);
	return order ? order : (a->order < b->order) - (a->order > b->order);
}

char **environment_list(struct environment *env)
{
	struct env_variable *sorted = ARENA_NEW(env->a, struct env_variable, env->n + 1);
	if (env->n)
		memcpy(sorted, env->v, env->n * sizeof(*sorted));
	qsort(sorted, env->n, sizeof(*sorted), environment_compare);
	char **list = ARENA_NEW(env->a, char *, env->n + 1);
	size_t n = 0;
	for (size_t i = 0; i < env->n; i++) {
		if (i > 0 && span_eq(sorted[i - 1].name, sorted[i].name))
			continue;
		/* execve does not change them. */
		memcpy(&list[n++], &sorted[i].text, sizeof(char *));
	}
	return list;
}

/* ---- the command ----------------------------------------------------------------------------- */

enum {
	SCRIPT_MAX = 16 << 20,
	EXPLAIN_MS = 10000,     /* for explaining a failure */
	GRACE_DEFAULT_SEC = 30, /* of Kubernetes */
	GRACE_MAX_SEC = 7 * 86400,
	HAND_OVER_MS = 5000, /* for sending the end of the output */
	ATTEMPT_MS = 2000,
	STOPPED = 128 + SIGTERM,
	RESERVED_FIRST = 200, /* codes of init */
	RESERVED_LAST = 219
};

struct run_command {
	struct arena *a;
	struct layout at;
	char *const *direct; /* command after `--`; NULL: user.sh */
	struct stdio_writer out[2];
	struct logs logs;
	struct supervisor *supervisor;
	const char *shell; /* NULL: none */
	char **env;
	struct span spec;
	const char *trigger; /* "postCommands" when those failed */
	bool command_failed;
	int report; /* SHELL_REPORT_FD; -1: there is none */
	bool logs_kept;
	int64_t grace_ms;
	struct memory_use memory; /* at the start */
	bool usage_off;
	struct pod_usage usage;
};

static const struct phase_script {
	enum task_kind kind;
	const char *script, *name;
	bool needed;
} BEFORE = { TASK_BEFORE, "precommands.sh", "precommands", false },
  USER = { TASK_USER, "user.sh", "user command", true },
  AFTER = { TASK_AFTER, "postcommands.sh", "postcommands", false };

const char RUN_USAGE[] =
    "usage: pai-runtime run [--root DIR] [--logs-kept] [--usage=off]\n"
    "                       [-- PROGRAM [ARGUMENT...]]\n\n"
    "Runs precommands.sh, user.sh and postcommands.sh of /usr/local/pai/runtime.d as\n"
    "init wrote them, or PROGRAM instead of user.sh; keeps their logs in\n"
    "/usr/local/pai/logs and, if one fails, the reason in /tmp/pai-termination-log.\n\n"
    "  --root DIR   put DIR before each of these paths\n"
    "  --logs-kept  the output outlives the container: do not upload its end or\n"
    "               wait for readers\n"
    "  --usage=off  do not write what the task used; start no nvidia-smi\n\n"
    "PAI_TERM_GRACE_SEC: the pod's grace period in seconds (30).\n";

/* ---- setup ----------------------------------------------------------------------------------- */

static int64_t run_grace_ms(struct run_command *r)
{
	const char *text = getenv("PAI_TERM_GRACE_SEC");
	int64_t seconds = GRACE_DEFAULT_SEC;
	if (text && *text && parse_i64(span_of(text), 1, GRACE_MAX_SEC, &seconds))
		notes_add(&r->logs.notes, NOWHERE,
		          "PAI_TERM_GRACE_SEC is no number of seconds: taken as %d",
		          GRACE_DEFAULT_SEC);
	return seconds * 1000;
}

/* A file of runtime.d.  1: absent; -1: unreadable, with a warning. */
static int run_read(struct run_command *r, const char *name, size_t max, struct span *text)
{
	ERR_AUTO e = { 0 };
	*text = SPAN("");
	int rc =
	    file_read(path_join(r->a, r->at.runtime_d, name), FILE_THEIRS, max, r->a, text, &e);
	if (rc < 0)
		notes_add(&r->logs.notes, NOWHERE, "%s", err_msg(&e));
	return rc;
}

/* Reports variables that are missing because the address of the task is not known. */
static void run_tell_missing(struct run_command *r, const struct environment *env)
{
	static const char *const ADDRESS[] = { "PAI_CURRENT_CONTAINER_IP",
		                               "PAI_CONTAINER_HOST_IP" };
	if (!environment_get(env, "FC_TASKROLE_NAME"))
		return; /* a bare pod */
	for (size_t i = 0; i < ARRAY_SIZE(ADDRESS); i++) {
		if (!environment_get(env, ADDRESS[i]))
			notes_add(&r->logs.notes, NOWHERE,
			          "%s is not set: the address of this task was not known in time",
			          ADDRESS[i]);
	}
}

/* A user whom the image does not know has the home `/`, which only root can write, and no name.
 * Programs keep caches at home, and Python's getpass asks for $USER.  On one machine the sandbox
 * has set both. */
static void run_make_home(const struct run_command *r, struct environment *env)
{
	const char *home = environment_get(env, "HOME");
	const char *user = environment_get(env, "PAI_USER_NAME");
	if (r->logs_kept || !home || access(home, W_OK) == 0 || errno == ENOENT)
		return; /* ENOENT: the command may make it */
	environment_set(env, "HOME", "/tmp");
	if (user && !environment_get(env, "USER"))
		environment_set(env, "USER", user);
}

/* Without code of the job, its results are outside of the working directory, which gets a link to
 * them, unless they are there. */
static void run_link_results(struct run_command *r, const struct environment *env)
{
	const char *dir = environment_get(env, "PAI_RESULTS_DIR");
	const char *name = environment_get(env, "PAI_RESULTS_LINK");
	struct stat is;
	struct stat wanted;
	if (!dir || !name || !*name || strchr(name, '/') || symlink(dir, name) == 0)
		return;
	const char *why = strerror(errno);
	bool same = stat(name, &is) == 0 && stat(dir, &wanted) == 0 && is.st_dev == wanted.st_dev &&
	            is.st_ino == wanted.st_ino;
	if (!same)
		notes_add(&r->logs.notes, NOWHERE,
		          "results: there can be no link `%s` in the working directory (%s); what "
		          "is written to $PAI_RESULTS_DIR is kept",
		          name, why);
}

static void run_make_environment(struct run_command *r)
{
	struct environment env = { .a = r->a };
	for (char **v = environ; *v; v++)
		environment_add(&env, *v);
	struct span text;
	if (run_read(r, "runtime_env", RUNTIME_ENV_MAX, &text) == 0)
		environment_add_text(&env, text, &r->logs.notes);
	if (run_read(r, "distributed_env", RUNTIME_ENV_MAX, &text) == 0)
		environment_add_absent(&env, text, &r->logs.notes);
	run_tell_missing(r, &env);
	const char *path = environment_get(&env, "PATH");
	if (path && access(path_join(r->a, r->at.ssh_secret, SSH_PRIVATE), F_OK) == 0)
		environment_set(&env, "PATH",
		                arena_printf(r->a, "%s:%s/" SSH_BIN, path, r->at.work));
	char here[PATH_MAX];
	environment_set(&env, "PAI_WORK_DIR", getcwd(here, sizeof(here)) ? here : "/");
	environment_set(&env, "RUNTIME_LOG_PIPE", supervise_state(r->supervisor)->pipe_path);
	if (r->shell)
		environment_set(&env, "PAI_SHELL", r->shell);
	run_make_home(r, &env);
	run_link_results(r, &env);
	r->env = environment_list(&env);
}

/* ---- the phases ------------------------------------------------------------------------------ */

/* 0; the exit code of a phase that cannot start; -1: nothing to start. */
static int run_phase_command(struct run_command *r, const struct phase_script *p,
                             char *const **argv)
{
	struct span script;
	int rc = run_read(r, p->script, SCRIPT_MAX, &script);
	if (rc < 0)
		return NOT_STARTED;
	if (rc > 0 && p->needed)
		logs_message(&r->logs, "error: there is no %s/%s: has init run?", r->at.runtime_d,
		             p->script);
	if (rc > 0)
		return p->needed ? NOT_FOUND : -1;
	char **words = NULL;
	enum argv_kind kind = argv_split(script, r->a, &words);
	if (kind == ARGV_NONE)
		return -1;
	if (r->shell) {
		char **list = ARENA_NEW(r->a, char *, 4);
		*argv = list;
		*list++ = arena_dup(r->a, span_of(r->shell));
		if (shell_body(script).n < script.n) /* also while it reads the first command */
			*list++ = arena_dup(r->a, SPAN("-e"));
		*list = arena_printf(r->a, "%s/%s", r->at.runtime_d, p->script);
		return 0;
	}
	if (kind == ARGV_SIMPLE) {
		*argv = words;
		return 0;
	}
	logs_message(&r->logs,
	             "error: this image has neither /bin/bash nor /bin/sh, and the %s need%s one: "
	             "without a shell, only a single command of plain or quoted words can be run",
	             p->name, p->needed ? "s" : "");
	return NOT_FOUND;
}

static int run_phase(struct run_command *r, const struct phase_script *p)
{
	char *const *argv = p->kind == TASK_USER ? r->direct : NULL;
	int rc = argv ? 0 : run_phase_command(r, p, &argv);
	logs_write_notes(&r->logs);
	if (rc != 0)
		return rc < 0 ? 0 : rc;
	return supervise_task(r->supervisor, &(struct task){ p->kind, argv, r->env });
}

/* The code of the first failing phase, or 0. */
static int run_phases(struct run_command *r)
{
	logs_message(&r->logs, RUNTIME_FIRST_LINE);
	int code = run_phase(r, &BEFORE);
	if (code == 0 && supervise_state(r->supervisor)->stopping)
		code = STOPPED; /* the command does not start */
	if (code != 0) {
		/* Plugins call the copy of this program that init makes. */
		if (code == NOT_FOUND && access(r->at.program, X_OK) != 0)
			logs_message(
			    &r->logs,
			    "error: plugins call %s, which is not there: the step `install` "
			    "of init puts it there; add it to INIT_CONFIG or --steps",
			    r->at.program);
		logs_message(&r->logs, "[ERROR] precommands failed with exit code %d", code);
		return code;
	}
	logs_message(&r->logs, "USER COMMAND START");
	if (r->report >= 0 && ftruncate(r->report, 0) < 0)
		logs_message(&r->logs, "[WARN] the shell's report cannot be emptied");
	code = run_phase(r, &USER);
	if (code != 0) {
		r->command_failed = true;
		logs_message(&r->logs, "[ERROR] USER COMMAND failed with exit code %d", code);
		return code;
	}
	logs_message(&r->logs, "USER COMMAND END");
	code = run_phase(r, &AFTER);
	if (code != 0) {
		logs_message(&r->logs, "[ERROR] postcommands failed with exit code %d", code);
		r->trigger = "postCommands";
	}
	return code;
}

/* ---- the end --------------------------------------------------------------------------------- */

/* NULL: the command had no shell. */
static const struct exit_shell *run_shell_end(struct run_command *r)
{
	enum { REPORT_MAX = 4096 };
	if (r->direct || !r->shell || !r->command_failed)
		return NULL;
	struct exit_shell *s = ARENA_NEW(r->a, struct exit_shell, 1);
	char *report = ARENA_NEW(r->a, char, REPORT_MAX);
	ssize_t n = r->report < 0 ? 0 : pread(r->report, report, REPORT_MAX, 0);
	s->path = path_join(r->a, r->at.runtime_d, USER.script);
	s->report = (struct span){ report, n > 0 ? (size_t)n : 0 };
	(void)run_read(r, USER.script, SCRIPT_MAX, &s->script);
	(void)run_read(r, USER_LINES, SCRIPT_MAX, &s->lines);
	return s;
}

/* Returns the code for the container. */
static int run_explain(struct run_command *r, int code)
{
	int64_t until = clock_ms() + EXPLAIN_MS;
	const struct supervisor_state *ended = supervise_state(r->supervisor);
	int64_t end = ended->end_at;
	struct exit_input in = { .code = code,
		                 .trigger = r->trigger,
		                 .ended_ms = ended->ended_ms,
		                 .user_log = r->logs.user[LOG_ALL].fd,
		                 .user_log_rotated = r->logs.user[LOG_ALL].old,
		                 .runtime_log = r->logs.runtime.fd,
		                 .spec = r->spec,
		                 .deadline_ms = until < end ? until : end,
		                 .shell = run_shell_end(r),
		                 .root = r->at.root };
	STR_AUTO message = STR_INIT(EXIT_MESSAGE_MAX);
	NOTES_AUTO warnings = { 0 };
	int out = exit_explain(&in, &message, &warnings);
	notes_move(&r->logs.notes, &warnings);
	logs_write_notes(&r->logs);
	if (out <= 0 || out > EXIT_UNKNOWN || (out >= RESERVED_FIRST && out <= RESERVED_LAST))
		out = EXIT_UNKNOWN;
	ERR_AUTO e = { 0 };
	if (exit_report(r->at.termination, str_view(&message), &e))
		logs_message(&r->logs, "warning: %s", err_msg(&e));
	if (logs_copy(&r->logs, "pai-termination-log", str_view(&message)))
		logs_message(&r->logs, "warning: cannot copy the termination message: %s",
		             strerror(errno));
	logs_write_notes(&r->logs);
	logs_message(&r->logs, "[INFO] exit code %d of the task becomes %d", code, out);
	return out;
}

/* FrameworkController deletes the pod with its log when the task has ended.  So the end of the
 * output goes to the server; if that fails, clients that follow the log have some time. */
static void run_hand_over(struct run_command *r, int code, int64_t stop_ms)
{
	if (r->logs_kept)
		return;
	int64_t end = clock_ms() + HAND_OVER_MS;
	int64_t half = r->grace_ms / 2;
	const struct output_upload u = { .url = getenv("PAI_OUTPUT_URL"),
		                         .at = &r->at,
		                         .logs = &r->logs,
		                         .code = code,
		                         .until_ms = end < stop_ms ? end : stop_ms,
		                         .attempt_ms = half < ATTEMPT_MS ? half : ATTEMPT_MS };
	if (r->logs.tail && upload_output(&u))
		return;
	if (stop_ms == INT64_MAX && getenv("FC_TASKROLE_NAME"))
		(void)upload_pause(end);
}

static int run_all(struct run_command *r)
{
	static const char *const STREAMS[2] = { "output", "error" };
	stdio_writer_open(&r->out[0], STDOUT_FILENO);
	stdio_writer_open(&r->out[1], STDERR_FILENO);
	logs_open(&r->logs, r->at.logs, &r->out[1]);
	const char *url = getenv("PAI_OUTPUT_URL");
	r->logs.tail = url && *url && !r->logs_kept ? tail_new() : NULL;
	ERR_AUTO e = { 0 };
	r->grace_ms = run_grace_ms(r);
	r->supervisor = supervise_open(&r->logs, r->out, &r->usage, r->grace_ms, &e);
	if (!r->supervisor) {
		logs_message(&r->logs, "error: %s", err_msg(&e));
		return 1;
	}
	/* Shells find it beside the pipe of the runtime, in the same directory of /proc. */
	FD_AUTO report = memfd_create("pai-failed-line", MFD_CLOEXEC);
	FD_AUTO number = report < 0 ? -1 : fcntl(report, F_DUPFD_CLOEXEC, SHELL_REPORT_FD);
	r->report = number == SHELL_REPORT_FD ? number : -1;
	exit_reserve(r->at.termination);
	r->shell = access("/bin/bash", X_OK) == 0 ? "/bin/bash"
	           : access("/bin/sh", X_OK) == 0 ? "/bin/sh"
	                                          : NULL;
	run_make_environment(r);
	(void)run_read(r, "runtime-exit-spec.yaml", EXIT_SPEC_MAX,
	               &r->spec); /* none: an empty one */
	logs_write_notes(&r->logs);
	memory_use_read(&r->memory, r->at.root);
	/* Pods of tasks in a cluster; on one machine the server has these figures. */
	if (!r->logs_kept && !r->usage_off && getenv("FC_TASKROLE_NAME"))
		usage_line_begin(&r->usage, r->at.root, r->a);
	int code = run_phases(r);
	struct memory_use now;
	STR_AUTO text = STR_INIT(256);
	usage_line_end(&r->usage);
	memory_use_read(&now, r->at.root);
	if (memory_use_explain(&r->memory, &now, code, &text)) /* matched by exit codes */
		logs_message(&r->logs, "error: %s", str_c(&text));
	/* First, because time may run out. */
	if (code != 0)
		code = run_explain(r, code);
	STR_AUTO used = STR_INIT(USAGE_TEXT_MAX);
	if (pod_usage_put(&r->usage, &now, &used))
		logs_message(&r->logs, "%s", str_c(&used));
	logs_summary(&r->logs);
	int64_t stop_ms = supervise_close(r->supervisor);
	for (int i = 0; i < 2; i++) {
		if (r->out[i].lost > 0)
			logs_message(
			    &r->logs,
			    "warning: %llu bytes did not reach the container's standard %s: "
			    "%s",
			    (unsigned long long)r->out[i].lost, STREAMS[i],
			    strerror(r->out[i].error));
	}
	run_hand_over(r, code, stop_ms);
	if (!r->logs_kept) /* else the log that is kept is another */
		logs_sync(&r->logs);
	return code;
}

int cmd_run_task(int argc, char **argv)
{
	ARENA_AUTO a = { 0 };
	struct run_command r = { .a = &a, .report = -1, .usage.out = -1 };
	const char *root = "";
	const struct arg args[] = { { "--root", &root, NULL },
		                    { "--logs-kept", NULL, &r.logs_kept },
		                    { "--usage=off", NULL, &r.usage_off },
		                    { NULL, NULL, NULL } };
	int i = args_take(args, 1, argc, argv);
	if (i + 1 < argc && strcmp(argv[i], "--") == 0)
		r.direct = argv + i + 1;
	else if (i < argc)
		return args_misused(argv[0], argv[i]);
	/* Other files must not get closed descriptors 0 to 2. */
	for (int fd = 0; fd <= STDERR_FILENO; fd++) {
		int end[2];
		if (fcntl(fd, F_GETFD) >= 0 || open("/dev/null", O_RDWR) >= 0)
			continue;
		if (pipe(end) == 0 && end[1] > STDERR_FILENO) /* no /dev */
			close(end[1]);
	}
	layout_init(&r.at, root, &a);
	int code = run_all(&r);
	free(r.logs.tail);
	stdio_writer_done(&r.out[0]);
	stdio_writer_done(&r.out[1]);
	return code;
}
