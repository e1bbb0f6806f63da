/* `pai-runtime init`: the table of steps, and the steps that only move files. */
#include "runtime-assets/init/init.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime-assets/common/cmdline.h"
#include "runtime-assets/init/init_internal.h"

enum {
	CONFIG_MAX = 1024 * 1024,
	PROGRAM_MAX = 64 << 20, /* of this program, with all that compilers add for tests */
	STEP_SHOWN = 20,
	PRELOGS_MAX = 10000,        /* earlier runs of one pod */
	CLEAN_DEPTH_MAX = 160,      /* nesting of directories; of code at most 128 */
	EXIT_SPEC_MAX = 1024 * 1024 /* a ConfigMap has no more */
};

/* ---- logs ---------------------------------------------------------------------------- */

/* Moves files of an earlier run of this pod, and the logs of its command, into the first free
 * directory prelog_N; other directories are the author's.  Returns how many were moved, or -1 and
 * errno. */
static int logs_keep_earlier(DIR *dir, char prelog[static 32])
{
	FD_AUTO to = -1;
	int moved = 0;
	struct stat st;
	for (const char *name; (name = dir_next(dir));) {
		if (fstatat(dirfd(dir), name, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
		    (S_ISDIR(st.st_mode) ? !span_starts(span_of(name), "user-")
		                         : strcmp(name, "init.log") == 0))
			continue;
		for (unsigned i = 0; to < 0; i++) {
			snprintf(prelog, 32, "prelog_%u", i);
			if (mkdirat(dirfd(dir), prelog, 0755) == 0)
				to = openat(dirfd(dir), prelog,
				            O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
			else if (errno == EEXIST && i < PRELOGS_MAX)
				continue;
			if (to < 0)
				return -1;
		}
		if (renameat(dirfd(dir), name, to, name) == 0)
			moved++;
		else
			say_line(SAY_WARNING, "cannot keep the earlier log %s: %s", name,
			         strerror(errno));
	}
	return moved;
}

static int step_logs(struct init *in, struct err *e)
{
	ERR_AUTO why = { 0 };
	/* Any user of the command must be able to write there. */
	if (dir_make(in->at.logs, 0777, &why)) {
		struct stat st;
		/* If something else is in its place, the job put it there.  The job goes on without
		 * logs after other failures (of the node). */
		if (lstat(in->at.logs, &st) == 0 && !S_ISDIR(st.st_mode)) {
			err_move(e, &why);
			return INIT_FAILED;
		}
		say_line(SAY_WARNING, "there will be no logs: %s", err_msg(&why));
		return 0;
	}
	DIR_AUTO *dir = dir_list(AT_FDCWD, in->at.logs);
	char prelog[32];
	int moved = dir ? logs_keep_earlier(dir, prelog) : -1;
	if (moved < 0)
		say_line(SAY_WARNING, "cannot keep the earlier logs in %s: %s", in->at.logs,
		         strerror(errno));
	if (moved > 0)
		say_line(SAY_INFO, "logs of an earlier run are in %s/%s", in->at.logs, prelog);
	return 0;
}

/* ---- clean --------------------------------------------------------------------------- */

/* Mounts below the work volume. */
static const char *const KEPT[] = { "logs", "user-extension-secrets", "secrets", "token-secrets",
	                            NULL };

struct cleaning {
	dev_t device;   /* of the work volume; entries on other devices are mounts */
	unsigned stuck; /* entries that could not be removed */
};

/* A mount may come from the same device.  rmdir of it gives EBUSY, also if it is not empty.  Depth
 * is bounded: each level holds a descriptor. */
static void clean_remove(struct cleaning *c, int dir, const char *name, int depth)
{
	struct stat st;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0 || st.st_dev != c->device)
		return;
	int flags = S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0;
	if (unlinkat(dir, name, flags) == 0 || errno == EBUSY)
		return;
	bool filled = errno == ENOTEMPTY || errno == EEXIST;
	DIR_AUTO *below = filled && depth < CLEAN_DEPTH_MAX ? dir_list(dir, name) : NULL;
	if (!below)
		c->stuck++;
	for (const char *entry; below && (entry = dir_next(below));)
		clean_remove(c, dirfd(below), entry, depth + 1);
	/* Fails for mounts and entries counted above. */
	if (filled)
		(void)unlinkat(dir, name, flags);
}

int clean_directory(const char *path, const char *const *kept)
{
	struct stat st;
	DIR_AUTO *dir = dir_list(AT_FDCWD, path);
	if (!dir || fstat(dirfd(dir), &st) != 0)
		return -1;
	struct cleaning c = { .device = st.st_dev };
	for (const char *entry; (entry = dir_next(dir));)
		if (!span_among(span_of(entry), kept))
			clean_remove(&c, dirfd(dir), entry, 0);
	if (c.stuck > 0)
		say_line(SAY_WARNING, "%u files in %s could not be removed", c.stuck, path);
	return 0;
}

static int step_clean(struct init *in, struct err *e)
{
	struct stat st;
	/* A volume keeps its mode: the user of the command can write there. */
	if (stat(in->at.work, &st) != 0 && dir_make(in->at.work, 0755, e))
		return INIT_FAILED;
	if (clean_directory(in->at.work, KEPT) == 0)
		return 0;
	err_set(e, FAILED, "cannot clean %s: %s", in->at.work, strerror(errno));
	return INIT_FAILED;
}

/* ---- install, exitspec ------------------------------------------------------------------ */

static int step_install(struct init *in, struct err *e)
{
	struct span program;
	return dir_make(in->at.runtime_d, 0755, e) ||
	               file_need("/proc/self/exe", FILE_MOUNTED, PROGRAM_MAX, in->a, &program, e) ||
	               file_write(in->at.program, program, 0755, e)
	           ? INIT_FAILED
	           : 0;
}

static int step_exitspec(struct init *in, struct err *e)
{
	static const char NAME[] = "runtime-exit-spec.yaml";
	const char *from = path_join(in->a, in->at.config, NAME);
	const char *to = path_join(in->a, in->at.runtime_d, NAME);
	if (in->why && access(to, F_OK) == 0)
		return 0;
	ERR_AUTO why = { 0 };
	struct span spec;
	if (file_need(from, FILE_MOUNTED, EXIT_SPEC_MAX, in->a, &spec, &why)) {
		say_line(SAY_WARNING, "no exit specification, failures will only have a code: %s",
		         err_msg(&why));
		spec = SPAN("[]\n");
	}
	return dir_make(in->at.runtime_d, 0755, e) || file_write(to, spec, 0644, e) ? INIT_FAILED
	                                                                            : 0;
}

static int step_plugins(struct init *in, struct err *e)
{
	return in->plugins->scripts(in, e);
}

static int step_command(struct init *in, struct err *e)
{
	return in->plugins->command(in, e);
}

/* The steps in their order. */
static const struct step {
	const char *name;
	int (*run)(struct init *in, struct err *e);
	const char *help;
} STEPS[] = {
	{ "logs", step_logs, "make the log directory, keep earlier logs" },
	{ "clean", step_clean, "empty the work volume, but for mounts" },
	{ "install", step_install, "put this program into the work volume" },
	{ "code", step_code, "unpack the code of the job" },
	{ "framework", step_framework, "wait until all tasks have an address" },
	{ "exitspec", step_exitspec, "copy the patterns that explain failures" },
	{ "config", step_config, "job_config.yaml" },
	{ "environment", step_environment, "runtime_env.sh: addresses and ports" },
	{ "ports", step_ports, "is a port of this task taken?" },
	{ "plugins", step_plugins, "scripts to run before and after the command" },
	{ "command", step_command, "user.sh" },
};
enum { N_STEPS = ARRAY_SIZE(STEPS) };

/* ---- options ----------------------------------------------------------------------------- */

static int init_usage(FILE *out, int status)
{
	fputs("usage: pai-runtime init [--root DIR] [--steps NAME,NAME...] [--framework FILE]\n\n"
	      "  --root DIR        put DIR before every path\n"
	      "  --steps LIST      only these steps (also: INIT_CONFIG), of:\n",
	      out);
	for (size_t i = 0; i < N_STEPS; i++)
		fprintf(out, "                      %-12s %s\n", STEPS[i].name, STEPS[i].help);
	fputs("  --framework FILE  read the Framework from a file, not from the API server\n\n"
	      "Exit status: 0 ready; 250 API server in trouble, 251 not all tasks came in time,\n"
	      "252 permanent, 253 port taken, 1 anything else.\n",
	      out);
	return status;
}

/* ---- choice of steps ------------------------------------------------------------------------- */

static int steps_choose(struct span name, bool chosen[static N_STEPS], struct err *e)
{
	for (size_t i = 0; i < N_STEPS; i++) {
		if (span_is(name, STEPS[i].name)) {
			chosen[i] = true;
			return 0;
		}
	}
	char text[4 * QUOTE_MAX];
	STR_AUTO known = STR_INIT(512);
	for (size_t i = 0; i < N_STEPS; i++)
		str_printf(&known, "%s%s", i ? ", " : "", STEPS[i].name);
	/* INIT_CONFIG may name a wrong file with a token in it: quote only words. */
	if (name.n > STEP_SHOWN || !span_all(name, "a-z"))
		return err_set(e, FAILED, "the name of a step is invalid; steps are %s",
		               str_c(&known));
	return err_set(e, FAILED, "there is no step \"%s\"; steps are %s", quote(text, name),
	               str_c(&known));
}

static int steps_choose_listed(struct span names, bool chosen[static N_STEPS], struct err *e)
{
	while (names.n > 0) {
		struct span name = span_trim(span_next(&names, ','));
		if (name.n > 0 && steps_choose(name, chosen, e))
			return -1;
	}
	return 0;
}

/* Reads YAML text, or the file that it names if it begins with a slash. */
static int init_read_setting(const char *name, const char *text, struct arena *a, struct node *n,
                             struct err *e)
{
	struct span yaml = span_of(text);
	if (*text == '/' && file_need(text, FILE_MOUNTED, CONFIG_MAX, a, &yaml, e))
		return err_wrap(e, "%s", name);
	struct doc doc = { 0 };
	if (doc_read(yaml, &BUDGET_DEFAULT, a, &doc, NULL, e) == 0) {
		*n = doc.root;
		return 0;
	}
	const struct note *where = e->notes.n ? &e->notes.v[0] : NULL;
	if (!where || where->line == 0)
		return err_wrap(e, "%s", name);
	return err_wrap(e, "%s, line %u, column %u", name, where->line, where->column);
}

/* INIT_CONFIG: `a, b`, `[a, b]` or `steps: [a, b]`. */
static int steps_choose_configured(const char *text, struct arena *a, bool chosen[static N_STEPS],
                                   struct err *e)
{
	struct node root = { 0 };
	if (init_read_setting("INIT_CONFIG", text, a, &root, e))
		return -1;
	const struct node *list = root.type == NODE_MAP ? node_get(&root, "steps") : &root;
	if (node_is(list, NODE_TEXT))
		return steps_choose_listed(node_span(list), chosen, e);
	if (!node_is(list, NODE_LIST))
		return err_set(e, FAILED, "INIT_CONFIG must be a list of steps");
	for (uint32_t i = 0; i < list->n; i++) {
		const struct node *name = &list->item[i];
		if (name->type != NODE_TEXT)
			return err_set(e, FAILED, "INIT_CONFIG: the name of a step must be text");
		if (steps_choose(node_span(name), chosen, e))
			return -1;
	}
	return 0;
}

static int steps_choose_all(const char *listed, struct arena *a, bool chosen[static N_STEPS],
                            struct err *e)
{
	const char *configured = env_get("INIT_CONFIG");
	if (listed && span_trim(span_of(listed)).n == 0)
		return err_set(e, FAILED, "--steps names no step");
	if (listed)
		return steps_choose_listed(span_of(listed), chosen, e);
	if (configured)
		return steps_choose_configured(configured, a, chosen, e);
	for (size_t i = 0; i < N_STEPS; i++)
		chosen[i] = true;
	return 0;
}

/* ---- the task -------------------------------------------------------------------------------- */

/* An unknown key is an error. */
static int init_runtime_config(struct init *in, struct err *e)
{
	static const char *const KEYS[] = { "commands", "runtimePlugin", "parameters", "secrets",
		                            NULL };
	const char *text = env_get("RUNTIME_CONFIG");
	if (!text)
		return 0;
	struct node *root = ARENA_NEW(in->a, struct node, 1);
	if (init_read_setting("RUNTIME_CONFIG", text, in->a, root, e))
		return -1;
	if (root->type != NODE_MAP)
		return err_set(e, FAILED, "RUNTIME_CONFIG must be a mapping, is %s",
		               node_type_name(root));
	in->runtime_config = root;
	for (uint32_t i = 0; i < root->n; i++) {
		const struct member *m = &root->member[i];
		char quoted[4 * QUOTE_MAX];
		if (!span_among(member_key(m), KEYS))
			return err_set(
			    e, FAILED,
			    "RUNTIME_CONFIG, line %u, column %u: there is no key \"%s\"; "
			    "keys are commands, runtimePlugin, parameters, secrets",
			    m->key_line, m->key_column, quote(quoted, member_key(m)));
	}
	return 0;
}

/* framework: the Framework as JSON; NULL: it is in the file, if that is not NULL either. */
static int init_begin(struct init *in, const char *framework, const char *file, struct err *e)
{
	const char *gang = env_get("GANG_ALLOCATION");
	const char *index = env_get("FC_TASK_INDEX");
	in->gang = gang && strcmp(gang, "true") == 0;
	in->role_name = env_get("FC_TASKROLE_NAME");
	in->pod_uid = env_get("FC_POD_UID");
	in->task_index = -1;
	if (index && parse_i64(span_of(index), 0, INT32_MAX, &in->task_index))
		return err_set(e, FAILED, "FC_TASK_INDEX is not a number of a task");
	if (init_runtime_config(in, e))
		return -1;
	if (!framework && !file)
		return 0;
	struct span json = span_of(framework ? framework : "");
	if (!framework && file_need(file, FILE_MOUNTED, FRAMEWORK_MAX, in->a, &json, e))
		return -1;
	in->framework = framework_read(json, in->a, e);
	return in->framework ? 0 : framework ? -1 : err_wrap(e, "%s", file);
}

/* ---- running the steps ----------------------------------------------------------------------- */

/* Process 1 ignores signals without a handler.  Files are always complete: nothing to clean up. */
static void init_stop(int signal)
{
	static const char LINE[] = "[openpai-runtime] init was stopped\n";
	ssize_t n = write(STDERR_FILENO, LINE, sizeof(LINE) - 1);
	(void)n;
	_exit(128 + signal);
}

static int init_fail(const struct init *in, const char *step, int code, const struct err *e)
{
	say_line(SAY_ERROR, "step %s: %s", step, err_msg(e));
	/* One line for `kubectl describe pod`, into the file that the kubelet made. */
	FD_AUTO fd = in->why ? -1 : file_open(in->at.init_termination, O_WRONLY | O_TRUNC);
	char line[2048];
	int n = snprintf(line, sizeof(line), "pai-runtime init, step %s (exit code %d): %s\n", step,
	                 code, err_msg(e));
	if (fd >= 0 && n > 0)
		(void)fd_write_all(fd, span_of(line));
	if (in->why)
		str_puts(in->why, line);
	return code;
}

static int init_run_steps(struct init *in, const bool *chosen)
{
	for (size_t i = 0; i < N_STEPS; i++) {
		ERR_AUTO e = { 0 };
		bool given = STEPS[i].run == step_framework && in->framework;
		/* The directories on one machine are new, and have this program. */
		bool made = in->why && (STEPS[i].run == step_clean || STEPS[i].run == step_install);
		if (!chosen[i] || given || made)
			continue;
		int code = STEPS[i].run(in, &e);
		if (code)
			return init_fail(in, STEPS[i].name, code, &e);
	}
	say_line(SAY_INFO, "init is done");
	return 0;
}

int init_main(int argc, char **argv, const struct init_plugins *plugins, const char *framework,
              struct str *why)
{
	ARENA_AUTO a = { 0 };
	ERR_AUTO e = { 0 };
	struct init in = { .a = &a, .plugins = plugins, .why = why };
	const char *root = "";
	const char *steps = NULL;
	const char *file = NULL;
	bool help = false;
	static const int SIGNALS[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT };
	const struct arg args[] = {
		{ "--root", &root, NULL },      { "--steps", &steps, NULL },
		{ "--framework", &file, NULL }, { "--barrier-ms", &in.barrier_ms, NULL },
		{ "--help", NULL, &help },      { NULL, NULL, NULL },
	};
	int i = args_take(args, 1, argc, argv);
	if (i < argc) {
		args_misused(argv[0], argv[i]);
		return init_usage(stderr, 2);
	}
	if (help)
		return init_usage(stdout, 0);
	if (!why)
		file_disable_core_dumps();
	struct sigaction action = { .sa_handler = init_stop };
	for (size_t k = 0; k < ARRAY_SIZE(SIGNALS); k++)
		sigaction(SIGNALS[k], &action, NULL);
	signal(SIGPIPE, SIG_IGN);
	umask(022);
	layout_init(&in.at, root, &a);
	bool chosen[N_STEPS] = { false };
	if (init_begin(&in, framework, file, &e) || steps_choose_all(steps, &a, chosen, &e))
		return init_fail(&in, "setup", INIT_FAILED, &e);
	/* The step `logs` makes the directory, but logs messages itself. */
	const char *log = path_join(&a, in.at.logs, "init.log");
	bool logged = chosen[0] && !dir_make(in.at.logs, 0777, &e) && !say_open(log);
	if (chosen[0] && !logged)
		say_line(SAY_WARNING, "no log in %s: %s", in.at.logs, strerror(errno));
	int code = init_run_steps(&in, chosen);
	if (logged)
		say_close();
	arena_wipe(&a); /* secrets were read into it */
	(void)signal(SIGPIPE, SIG_DFL);
	return code;
}
