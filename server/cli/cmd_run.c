/*
 * rest-lit run FILE: a job on this machine, in this process: the store is a private directory
 * (run_dir.c), the engine runs the tasks, run.c follows the job.
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/enc.h"
#include "schema/check.h"
#include "server/cli/run_internal.h"
#include "server/setup.h"
#include "server/submit/submit.h"
#include "server/system.h"
#include "translate/job.h"

enum {
	FILE_MAX = 16 << 20,
	INBOX_MAX = 128 << 20,
	NOTES_BYTES = 64 * 1024,
	MOUNTS_MAX = 64,
	ID_TIME = 12,
	ID_RANDOM = 10,
	OPEN_FILES = 4096,
	CPU_MILLI = 1000
};

struct setup {
	const struct options *o;
	const char *file; /* for messages */
	struct arena arena;
	struct run run;
	struct run_inbox inbox;
	struct run_dir dir;
	struct translator *translator;
	struct local *local;
	struct sandbox_mount mount[MOUNTS_MAX];
	size_t n_mounts;
};

/* ---- the inbox ------------------------------------------------------------------------------- */

static void inbox_wake(const struct run_inbox *in)
{
	(void)eventfd_write(in->fd, 1); /* fails only if it is readable anyway */
}

static void inbox_put(void *arg, struct span framework)
{
	struct run_inbox *in = arg;
	engine_look(in->engine, framework);
	(void)pthread_mutex_lock(&in->lock); /* fails only if misused */
	in->framework.n = 0;
	str_span(&in->framework, framework);
	(void)pthread_mutex_unlock(&in->lock);
	inbox_wake(in);
}

static void inbox_remove(void *arg, struct span framework)
{
	struct run_inbox *in = arg;
	engine_look(in->engine, framework);
	(void)pthread_mutex_lock(&in->lock);
	in->gone = true;
	(void)pthread_mutex_unlock(&in->lock);
	inbox_wake(in);
}

static void inbox_notice(void *arg, enum engine_level level, const char *text)
{
	struct run_inbox *in = arg;
	(void)pthread_mutex_lock(&in->lock);
	str_puts(&in->notes, level == ENGINE_WARNING ? "warning: " : "note: ");
	visible_text(&in->notes, span_of(text));
	str_char(&in->notes, '\n');
	(void)pthread_mutex_unlock(&in->lock);
	inbox_wake(in);
}

static void inbox_no_image(void *arg, const char *text)
{
	struct run_inbox *in = arg;
	STR_AUTO shown = STR_INIT(NOTES_BYTES);
	visible_text(&shown, span_of(text));
	(void)pthread_mutex_lock(&in->lock);
	if (!in->no_image)
		in->no_image = xstrdup(str_c(&shown));
	(void)pthread_mutex_unlock(&in->lock);
	inbox_wake(in);
}

/* ---- --mount --------------------------------------------------------------------------------- */

/* DIR[:PATH][:rw] */
static int mount_read(struct setup *s, struct span text, struct err *e)
{
	struct sandbox_mount *m = &s->mount[s->n_mounts];
	char real[PATH_MAX];
	char why[128];
	m->writable = text.n > 3 && span_is(span_from(text, text.n - 3), ":rw");
	text.n -= m->writable ? 3 : 0;
	size_t n = span_chr(text, ':');
	const char *dir = arena_dup(&s->arena, span_to(text, n));
	if (!realpath(dir, real))
		return err_set(e, 400, NULL, "--mount: %s: %s", dir,
		               strerror_r(errno, why, sizeof(why)));
	m->source = arena_dup(&s->arena, span_of(real));
	m->path = n < text.n ? arena_dup(&s->arena, span_from(text, n + 1)) : m->source;
	if (m->path[0] != '/' || strchr(m->path, ':'))
		return err_set(e, 400, NULL,
		               "--mount: must be DIR[:PATH][:rw] with an absolute PATH, is "
		               "\"%.*s\"",
		               (int)text.n, text.p);
	s->n_mounts++;
	return 0;
}

static int mounts_read(struct setup *s, struct err *e)
{
	for (struct span rest = span_of(s->o->mount); rest.n;) {
		struct span one = span_next(&rest, ',');
		if (s->n_mounts == MOUNTS_MAX)
			return err_set(e, 400, NULL, "--mount: at most %d directories", MOUNTS_MAX);
		if (one.n && mount_read(s, one, e) < 0)
			return -1;
	}
	return 0;
}

/* ---- the job --------------------------------------------------------------------------------- */

static int run_build(struct setup *s, struct job *job, struct notes *warnings, struct err *e)
{
	char random[2 * ID_RANDOM + 1];
	struct facts facts;
	struct run *r = &s->run;
	if (setup_facts(s->o, job_user(job), &s->arena, &facts, e) < 0)
		return -1;
	facts.submitted_ms = clock_wall_ms();
	random_hex(random, ID_RANDOM);
	r->submission =
	    arena_printf(&s->arena, "%0*llx%s", ID_TIME,
	                 (unsigned long long)facts.submitted_ms & 0xffffffffffff, random);
	const struct mark mark = { r->submission, s->o->instance, NULL, NULL, false };
	r->objects = ARENA_NEW(&s->arena, struct objects, 1);
	submit_key_seed(job, &s->arena, &facts);
	job_warn(job, &facts, warnings);
	if (strcmp(s->o->images, "oci") != 0)
		submit_warn_images(job, "; --images oci pulls it", warnings);
	return job_build(s->translator, job, &facts, &mark, &s->arena, r->objects, e);
}

/* Prints warnings and errors.  -1 to go on, else the exit code. */
static int run_read(struct setup *s, struct span text)
{
	ERR_AUTO e = { 0 };
	NOTES_AUTO warnings = { 0 };
	struct job *job =
	    job_read(s->translator, DIALECTS_ALL, text, setup_user(s->o), &s->arena, &warnings, &e);
	bool good = job && run_build(s, job, &warnings, &e) == 0;
	command_notes(s->file, "warning: ", &warnings);
	if (!good && e.notes.n && (e.notes.v[0].at || e.notes.v[0].line)) {
		command_notes(s->file, "", &e.notes);
		return EXIT_USAGE;
	}
	if (!good)
		return complain(&e, s->file, EXIT_USAGE);
	s->run.job = job;
	s->run.object = job_hash(job);
	s->run.name = arena_dup(&s->arena, job_name(job));
	return -1;
}

/* Can the machine run it?  -1 and *e. */
static int run_admit(struct setup *s, struct err *e)
{
	const struct job *job = s->run.job;
	const struct engine_asked asked = {
		.framework = objects_framework(s->run.objects)->body,
		.virtual_cluster = job->virtual_cluster,
		.where = job_role_places(job, &s->arena),
	};
	return engine_admit(s->run.engine, &asked, e);
}

/* ---- life ------------------------------------------------------------------------------------ */

/* Before threads are started: they inherit the blocked signals. */
static int run_open_signals(struct setup *s, struct err *e)
{
	static const int SIGNALS[] = { SIGINT, SIGTERM, SIGHUP, SIGPIPE };
	sigset_t set;
	struct sigaction hangup;
	(void)sigemptyset(&set); /* these cannot fail */
	for (size_t i = 0; i < ARRAY_SIZE(SIGNALS); i++)
		(void)sigaddset(&set, SIGNALS[i]);
	(void)pthread_sigmask(SIG_BLOCK, &set, NULL);
	(void)sigdelset(&set, SIGPIPE); /* write fails with EPIPE */
	if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler == SIG_IGN)
		(void)sigdelset(&set, SIGHUP); /* nohup */
	s->run.signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	s->inbox.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (s->run.signal_fd < 0 || s->inbox.fd < 0)
		return err_set(e, UNKNOWN_ERROR, "signalfd failed");
	return 0;
}

static int run_open_engine(struct setup *s, struct err *e)
{
	static const struct local_follower FOLLOWER = { inbox_put, inbox_remove, NULL };
	const struct options *o = s->o;
	char cwd[PATH_MAX];
	/* The files of all runs. */
	const char **secret = ARENA_NEW(&s->arena, const char *, 1);
	*secret = arena_printf(&s->arena, "%s/..", s->dir.path);
	const struct engine_settings settings = {
		.dir = s->dir.path,
		.store = s->local,
		.namespace_name = translator_settings(s->translator)->namespace_name,
		.runtime = runtime_program_path(o, &s->arena, e),
		.machine = { .cpus = o->cpus * CPU_MILLI,
		             .memory = o->memory,
		             .gpus = o->gpus,
		             .gpu_devices = o->gpu_devices[0] ? o->gpu_devices : NULL },
		.ports = { translator_settings(s->translator)->port_start,
		           translator_settings(s->translator)->port_end },
		.images = strcmp(o->images, "oci") == 0 ? ENGINE_IMAGES_OCI : ENGINE_IMAGES_HOST,
		.sandbox = ENGINE_SANDBOX_IF_POSSIBLE,
		.cwd =
		    getcwd(cwd, sizeof(cwd)) && cwd[1] ? arena_dup(&s->arena, span_of(cwd)) : NULL,
		.mounts = s->mount,
		.n_mounts = s->n_mounts,
		.secrets = secret,
		.n_secrets = 1,
		.foreground = true,
		.arg = &s->inbox,
		.notice = inbox_notice,
		.pulls_failed = inbox_no_image,
	};
	struct engine_settings *kept = ARENA_NEW(&s->arena, struct engine_settings, 1);
	*kept = settings;
	if (!settings.runtime) /* this command has no --runtime-binary */
		return err_set(e, UNKNOWN_ERROR,
		               "pai-runtime, which runs the tasks, is neither beside this program "
		               "nor in ../lib/rest-lit");
	s->run.engine = s->inbox.engine = engine_start(kept, e);
	if (!s->run.engine)
		return -1;
	local_follow(s->local, &FOLLOWER, &s->inbox);
	return engine_begin(s->run.engine, e);
}

static int run_open(struct setup *s, struct err *e)
{
	if (run_dir_open(&s->dir, e) < 0)
		return -1;
	s->local = local_open_transient(s->dir.path, e);
	if (!s->local)
		return -1;
	run_dir_opened(&s->dir);
	(void)process_allow_files(OPEN_FILES +
	                          ENGINE_PORTS_HELD); /* else fewer outputs can be read */
	if (run_open_engine(s, e) < 0)
		return -1;
	const struct store_limits limits = STORE_LIMITS_DEFAULT;
	s->run.store = store_local_new(s->local, translator_settings(s->translator)->namespace_name,
	                               &limits, e);
	s->run.exits = exit_spec_new("", e);
	return s->run.store && s->run.exits ? 0 : -1;
}

static void run_close(struct setup *s)
{
	if (s->run.engine)
		engine_stop(s->run.engine);
	if (s->run.store)
		store_free(s->run.store);
	local_close(s->local);
	run_dir_close(&s->dir);
	if (s->run.exits)
		exit_spec_free(s->run.exits);
	str_done(&s->inbox.framework);
	str_done(&s->inbox.notes);
	free(s->inbox.no_image);
}

static int run_text(struct setup *s, struct span text)
{
	ERR_AUTO e = { 0 };
	int code = run_read(s, text);
	if (code >= 0)
		return code;
	if (mounts_read(s, &e) < 0)
		return complain(&e, NULL, EXIT_USAGE);
	(void)pthread_mutex_init(&s->inbox.lock, NULL); /* cannot fail with default attributes */
	s->inbox.framework = (struct str)STR_INIT(INBOX_MAX);
	s->inbox.notes = (struct str)STR_INIT(NOTES_BYTES);
	s->run.o = s->o;
	s->run.inbox = &s->inbox;
	s->dir.lock = -1;
	code = EXIT_USAGE;
	if (run_open_signals(s, &e) < 0 || run_open(s, &e) < 0)
		code = complain(&e, NULL, e.http < 500 ? EXIT_USAGE : EXIT_SERVER);
	else if (run_admit(s, &e) == 0)
		code = run_follow(&s->run);
	else
		command_notes(s->file, "", &e.notes);
	run_close(s);
	return code;
}

static int run_file(const struct options *o)
{
	ERR_AUTO e = { 0 };
	FREE_AUTO char *text = NULL;
	size_t n = 0;
	struct setup s = { .o = o, .file = o->files[0] };
	if (strcmp(s.file, "-") == 0)
		s.file = "<stdin>";
	if (file_read(o->files[0], FILE_MAX, &text, &n, &e) < 0)
		return complain(&e, NULL, EXIT_USAGE);
	s.translator = command_translator(o);
	if (!s.translator)
		return EXIT_USAGE;
	int code = run_text(&s, (struct span){ text, n });
	translator_free(s.translator);
	arena_wipe(&s.arena); /* it may have secrets, as the text */
	wipe(text, n);
	return code;
}

int cmd_run(const struct command *c, struct options *o)
{
	(void)c;
	o->local =
	    LOCAL_DIR; /* no option of this command: the job is translated for this machine */
	return run_file(o);
}
