/* Checks directory, database, pai-runtime, resources, sandbox and images of this machine. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/posix/fd.h"
#include "machine/images/images.h"
#include "machine/resources/resources.h"
#include "machine/store/aside.h"
#include "machine/task/sandbox.h"
#include "server/check/check_internal.h"
#include "server/config/setup.h"

enum { LOW_BYTES = 1 << 30, TEXT_MAX = 4096, LOST_MAX = 2 << 20, LOST_LINES = 100 };

void check_directory(struct check_session *c)
{
	struct statvfs fs;
	struct stat st;
	bool there = stat(c->o->local, &st) == 0 || errno != ENOENT;
	char *copy = arena_dup(&c->arena, span_of(c->o->local));
	/* NOLINTNEXTLINE(concurrency-mt-unsafe): one thread */
	const char *dir = there ? c->o->local : dirname(copy);
	if (statvfs(dir, &fs) < 0 ||
	    access(arena_printf(&c->arena, "%s/.", dir), R_OK | W_OK | X_OK) < 0) {
		SAY(c, CHECK_FAILED, "give another --local, or rights to it to the user of serve",
		    "%s: %s", dir, strerrordesc_np(errno));
		return;
	}
	uint64_t bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
	bool low = bytes < LOW_BYTES;
	c->dir = dir;
	SAY(c, low ? CHECK_WARNING : CHECK_OK,
	    low ? "images and logs need more: free some, or move --local" : NULL,
	    "%s is writable%s; %llu MiB are free", dir, there ? "" : ", where serve creates it",
	    (unsigned long long)(bytes >> 20));
}

/* The reasons why a start is refused, and the losses that earlier ones have found. */
void check_database(struct check_session *c)
{
	ERR_AUTO e = { 0 };
	STR_AUTO lost = STR_INIT(LOST_MAX);
	const char *dir = c->o->local;
	int none = aside_check(dir, &e);
	if (none < 0) {
		check_error(c, CHECK_FAILED, NULL, &e);
		return;
	}
	(void)fd_read_str(AT_FDCWD, arena_printf(&c->arena, "%s/" LOST_FILE, dir), &lost);
	struct span rest = str_view(&lost);
	if (rest.n == 0)
		check_report(c, CHECK_OK, none ? "serve makes it" : "nothing was lost", NULL);
	for (int i = 0; rest.n > 0 && i < LOST_LINES; i++) {
		struct span line = span_next(&rest, '\n');
		SAY(c, CHECK_WARNING, NULL, "%.*s", (int)line.n, line.p);
	}
	if (lost.n > 0)
		SAY(c, CHECK_WARNING,
		    "put back what is of use, and move " LOST_FILE " to another place",
		    "%sthese losses are in %s/" LOST_FILE, rest.n > 0 ? "more than " : "", dir);
}

void check_program(struct check_session *c)
{
	ERR_AUTO e = { 0 };
	const char *path = runtime_program_path(c->o, &c->arena, &e);
	FREE_AUTO char *real = path ? realpath(path, NULL) : NULL;
	c->program = real ? arena_dup(&c->arena, span_of(real)) : NULL;
	if (path)
		check_report(c, CHECK_OK, path, NULL);
	else
		check_error(c, CHECK_FAILED, NULL, &e);
}

void check_inventory(const struct options *o, struct inventory_settings *out)
{
	*out = (struct inventory_settings){
		.cpus = o->cpus * 1000,
		.memory = o->memory,
		.gpus = o->gpus,
		.gpu_devices = o->gpu_devices[0] ? o->gpu_devices : NULL,
	};
}

void check_resources(struct check_session *c)
{
	ERR_AUTO e = { 0 };
	struct inventory has;
	STR_AUTO text = STR_INIT(TEXT_MAX);
	struct inventory_settings set;
	check_inventory(c->o, &set);
	if (inventory_read(&set, &has, &e) < 0) {
		check_error(c, CHECK_FAILED, NULL, &e);
	} else {
		amounts_text(&text, &has.total);
		for (size_t i = 0; i < has.gpus_n; i++)
			str_printf(&text, "%s%s", i ? ", " : ": ", has.gpus[i].name);
		check_report(c, CHECK_OK, str_c(&text), NULL);
	}
	for (size_t i = 0; i < has.notes.n; i++)
		check_report(c, CHECK_WARNING, has.notes.v[i].msg, NULL);
	inventory_done(&has);
}

/* A job of a single user may do everything that the user may. */
void check_sandbox(struct check_session *c)
{
	ERR_AUTO e = { 0 };
	bool required = !c->o->no_auth || strcmp(c->o->images, "oci") == 0;
	if (sandbox_probe(c->program, NULL, &e) == 0)
		check_report(c, CHECK_OK, "bubblewrap can make user namespaces", NULL);
	else
		SAY(c, required ? CHECK_FAILED : CHECK_WARNING, NULL, "%s: %s",
		    required ? "serve needs it" : "tasks run without a sandbox", err_msg(&e));
}

int check_can_use_images(const char *program, const char *dir, struct err *e)
{
	return images_probe(e) < 0 || sandbox_probe(program, NULL, e) < 0
	           ? -1
	           : sandbox_probe(program, dir, e);
}

void check_images(struct check_session *c)
{
	ERR_AUTO e = { 0 };
	if (strcmp(c->o->images, "host") == 0) {
		check_report(c, CHECK_OK, "tasks see the files of this machine (--images=host)",
		             NULL);
		return;
	}
	bool wanted = c->o->images[0];
	if (!c->program || !c->dir)
		check_report(c, CHECK_SKIPPED, "needs pai-runtime and the directory", NULL);
	else if (check_can_use_images(c->program, c->dir, &e) == 0)
		check_report(c, CHECK_OK, "skopeo, umoci and overlays work", NULL);
	else
		SAY(c, wanted ? CHECK_FAILED : CHECK_WARNING,
		    wanted ? NULL : "or give --images=host, if this is what you want", "%s%s",
		    wanted ? "" : CHECK_HOST_FILES ": ", err_msg(&e));
}
