/* rest-lit run FILE: `submit --wait` to a server in this process (run.c). */
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "server/cli/run_internal.h"
#include "server/compose/compose.h"
#include "server/config/setup.h"

enum { MOUNTS_MAX = 64 };

/* DIR[:PATH][:rw] */
static int mount_read(struct span text, struct sandbox_mount *m, struct arena *a, struct err *e)
{
	char real[PATH_MAX];
	m->writable = text.n > 3 && span_is(span_from(text, text.n - 3), ":rw");
	text.n -= m->writable ? 3 : 0;
	size_t n = span_chr(text, ':');
	const char *dir = arena_dup(a, span_to(text, n));
	if (!realpath(dir, real))
		return err_set(e, 400, NULL, "--mount: %s: %m", dir);
	m->source = arena_dup(a, span_of(real));
	m->path = n < text.n ? arena_dup(a, span_from(text, n + 1)) : m->source;
	if (m->path[0] == '/' && !strchr(m->path, ':'))
		return 0;
	return err_set(e, 400, NULL,
	               "--mount: must be DIR[:PATH][:rw] with an absolute PATH, is \"%.*s\"",
	               (int)text.n, text.p);
}

/* --mount, and the current directory. */
static int run_directories(struct engine_settings *out, struct options *o, struct err *e)
{
	char cwd[PATH_MAX];
	struct sandbox_mount *mounts = ARENA_NEW(&o->arena, struct sandbox_mount, MOUNTS_MAX);
	out->mounts = mounts;
	for (size_t i = 0; i < o->mount.n; i++) {
		for (struct span rest = span_of(o->mount.v[i]); rest.n;) {
			struct span one = span_next(&rest, ',');
			if (one.n && out->n_mounts == MOUNTS_MAX)
				return err_set(e, 400, NULL, "--mount: at most %d directories",
				               MOUNTS_MAX);
			if (one.n && mount_read(one, &mounts[out->n_mounts++], &o->arena, e) < 0)
				return -1;
		}
	}
	if (getcwd(cwd, sizeof(cwd)) && cwd[1])
		out->cwd = arena_dup(&o->arena, span_of(cwd));
	return 0;
}

static int run_service(struct service *s)
{
	ERR_AUTO e = { 0 };
	struct job_text text;
	struct run r = { .service = s };
	int code;
	if (job_text_read(&text, &s->options, &e) < 0 ||
	    run_directories(&r.engine, &s->options, &e) < 0) {
		code = print_error_notes(&e, NULL, EXIT_USAGE);
	} else {
		code = run_start(&r, &e) < 0
		           ? print_error_notes(&e, s->file, e.http < 500 ? EXIT_USAGE : EXIT_SERVER)
		           : remote_run(&s->options, &r.own, submit_send, &text);
		run_end(&r);
	}
	job_text_wipe(&text);
	return code;
}

int cmd_run(const struct command *c, struct options *o)
{
	if (o->n_files != (o->command ? 0 : 1))
		return command_usage(c, "name one file, or a command after --");
	return command_service(o, run_service);
}
