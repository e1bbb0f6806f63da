/* rest-lit run: `submit --wait` of a file or a command to a server in this process (run.c). */
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/image/image.h"
#include "server/cli/run_internal.h"
#include "server/cluster/one_machine.h"
#include "server/compose/compose.h"
#include "server/config/setup.h"

enum { RUN_OWN_MOUNTS = 3 /* of a command */ };

/* A command writes in its directory, and reads the home of its caller, unless it has an image.
 * --mount, at most MOUNTS_MAX, has precedence. */
static int run_mounts(struct engine_settings *out, struct options *o, struct err *e)
{
	char real[PATH_MAX];
	const char *home = getenv("HOME"); /* NOLINT(concurrency-mt-unsafe): at start */
	const char *cwd = compose_directory(true, "", &o->arena, e);
	struct sandbox_mount *m =
	    ARENA_NEW(&o->arena, struct sandbox_mount, RUN_OWN_MOUNTS + MOUNTS_MAX);
	bool any = !o->command; /* the directory may be any */
	size_t n = 0;
	if (!cwd)
		return -1;
	if (o->command && home && home[0] == '/' && realpath(home, real) && real[1] &&
	    !o->image[0]) {
		const char *source = arena_dup(&o->arena, span_of(real));
		m[n++] = (struct sandbox_mount){ .source = source, .path = source };
		if (strcmp(home, source) != 0) /* a link */
			m[n++] = (struct sandbox_mount){ .source = source, .path = home };
	}
	if (o->command)
		m[n++] = (struct sandbox_mount){ .source = cwd, .path = cwd, .writable = true };
	size_t own = n;
	if (machine_read_mounts(&o->mount, m, &n, &o->arena, e) < 0)
		return -1;
	for (; own < n; own++)
		any |= strcmp(m[own].path, cwd) == 0;
	out->mounts = m;
	out->n_mounts = n;
	out->cwd = cwd[1] ? cwd : NULL;
	return compose_directory(any, "--mount .:rw", &o->arena, e) ? 0 : -1;
}

/* The command of a task that only holds its resources for a session. */
static const char *const RUN_HOLD[] = { "sleep", "infinity", NULL };

/* ---- a command ------------------------------------------------------------------------------- */

/* The caller's environment, but for variables of jobs, and of directories that a task does not
 * have. */
static const char *const *run_environment(struct options *o, const char *results)
{
	enum { OURS = 3 }; /* the others come from an image */
	static const char *const OTHERS[] = { "PAI_", "FC_", "TMPDIR=", "PATH=", "HOME=" };
	size_t others = o->image[0] ? ARRAY_SIZE(OTHERS) : OURS;
	size_t n = 0;
	while (environ[n])
		n++;
	const char **out = ARENA_NEW(&o->arena, const char *, n + 2);
	n = 0;
	if (results)
		out[n++] = arena_printf(&o->arena, "PAI_RESULTS_DIR=%s", results);
	for (char **v = environ; *v; v++) {
		bool taken = strchr(*v, '=') != NULL;
		for (size_t i = 0; i < others; i++)
			taken &= !span_starts(span_of(*v), OTHERS[i]);
		if (taken)
			out[n++] = *v;
	}
	return out;
}

/* Results are in `results`, or --results PATH, of the current directory, as those of a job of
 * submit. A command finds it, unless --no-results; that of a file is made for a job that asks for
 * it. */
static void run_prepare_results(struct run *r, struct options *o)
{
	const char *name = o->results[0] ? o->results : "results";
	char real[PATH_MAX];
	if (o->command && !o->no_results) {
		r->made_results = mkdir(name, 0777) == 0 && chmod(name, 0755) == 0;
		if (realpath(name, real) && access(real, W_OK | X_OK) == 0)
			r->results = arena_dup(&o->arena, span_of(real));
	} else if (!o->command && getcwd(real, sizeof(real))) {
		r->engine.results = arena_printf(&o->arena, "%s/%s", real[1] ? real : "", name);
	}
	if (o->command)
		r->engine.env = run_environment(o, r->results);
}

static int run_command_prepare(struct run *r, struct job_text *t, struct err *e)
{
	struct options *o = &r->service->options;
	const struct inventory_settings settings = { .gpu_devices = o->gpu_devices[0]
		                                                        ? o->gpu_devices
		                                                        : NULL };
	struct inventory machine;
	if (o->image[0] && strcmp(o->images, "host") == 0)
		return err_set(e, 400, NULL,
		               "--image %s cannot be used with --images host, which is: the files "
		               "of this machine",
		               o->image);
	if (!o->image[0] && strcmp(o->images, "oci") == 0)
		return err_set(e, 400, NULL, "--images oci: name the image: --image IMAGE");
	if (o->image[0])
		o->images = "oci";
	struct command_place place = { .image = o->image[0] ? o->image : IMAGE_OF_HOST,
		                       .alone = true };
	int bad = inventory_read(&settings, &machine, e);
	place.machine = machine.total;
	inventory_done(&machine);
	if (bad || compose_command(t, o, &place, e) < 0)
		return -1;
	/* A terminal stays with the caller: a task could type into it. */
	int input = r->pty || isatty(STDIN_FILENO) ? -1 : fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
	r->engine.input = input < 0 ? 0 : input;
	r->engine.once = true;
	r->own.exit_code = &r->exit_code;
	return 0;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static int run_service(struct service *s)
{
	ERR_AUTO e = { 0 };
	struct job_text text = { 0 };
	struct run r = { .service = s, .exit_code = EXIT_NO_COMMAND, .pty_code = -1 };
	int code;
	struct options *o = &s->options;
	struct exec_call pty = { .command = o->command, .terminal = true };
	if (o->pty) {
		r.pty = &pty;
		o->command = RUN_HOLD;
		exec_streams(&pty);
	}
	bool bad = compose_check_file(o, &e) < 0 ||
	           (o->command ? run_command_prepare(&r, &text, &e)
	                       : job_text_read(&text, o, &e) < 0 &&
	                             err_wrap(&e, "no job file (a command stands after --)")) ||
	           run_mounts(&r.engine, o, &e) < 0;
	if (bad) {
		code = print_error_notes(&e, NULL, EXIT_USAGE);
	} else {
		run_prepare_results(&r, o);
		code = run_start(&r, &e) < 0
		           ? print_error_notes(&e, s->file, e.http < 500 ? EXIT_USAGE : EXIT_SERVER)
		           : remote_run(&s->options, &r.own, submit_send, &text);
		run_end(&r);
	}
	job_text_wipe(&text);
	if (r.pty_code >= 0)
		return r.pty_code;
	return s->options.command ? r.exit_code : code;
}

int cmd_run(const struct command *c, struct options *o)
{
	if (o->n_files == (o->command || o->pty ? 0 : 1))
		return command_service(o, run_service);
	int code = command_usage(c, o->pty ? "--pty is for a command, not for a file" : c->wanted);
	return o->command ? EXIT_NO_COMMAND : code;
}
