/*
 * Samples what tasks and GPUs do, in rounds, on a thread of its own.
 *
 *	each round: copy the list of tasks; look at processes and GPUs without the lock; note it
 */
#include "machine/usage/usage.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/pod/nvidia_smi.h"
#include "base/posix/clock.h"
#include "base/posix/fd.h"
#include "base/posix/lock.h"
#include "machine/usage/amd.h"
#include "machine/usage/usage_internal.h"

enum {
	INITIAL_PIDS = 0xEFFFFFFC, /* the inode of the first namespace of processes */
	FIGURES_TEXT = 64 << 10,
	CURVES_TEXT = 1 << 20,
	ON_GPU = 256,           /* processes that are looked at of a GPU */
	FIRST_ROUNDS_MS = 1000, /* until something is known of all GPUs */
};

/* Without lists of processes, a GPU without a task has a foreign one if so much is in use. */
static const int64_t IN_USE = INT64_C(1) << 30;

/* A foreign process on a GPU. */
struct outside {
	uint64_t start;
	int64_t memory, first_ms; /* clock_ms when it was seen first */
	pid_t pid;                /* 0: none is known, but its memory is in use */
	char program[PROCS_NAME], user[PROCS_USER];
};

/* The state of a GPU.  From `sample` on: locked. */
struct watched_gpu {
	size_t smi; /* index in usage.uuid; SIZE_MAX */
	int card;   /* of AMD; -1 */
	struct smi_sample sample;
	int64_t unknown_ms; /* clock_ms since when nothing is known; 0: it is known */
	size_t outside_n;
	struct outside outside[USAGE_OUTSIDE];
	const struct usage_entry *task; /* that holds it; NULL */
};

struct usage {
	struct usage_settings set;
	const char *root;
	struct arena arena;
	const char **uuid; /* of whole GPUs, for smi */
	size_t uuids;
	struct smi *smi;
	bool has_pids;      /* process numbers are those of the driver */
	atomic_bool absent; /* there is no nvidia-smi */
	pthread_t thread;
	bool started;
	int event;
	atomic_bool stop;
	pthread_mutex_t lock;
	/* Locked: */
	TAILQ_HEAD(usage_tasks, usage_entry) tasks;
	size_t tasks_n, gpu_tasks;
	uint64_t last_id;
	int64_t want_ms; /* until then GPUs are looked at without a task on them */
	struct watched_gpu *gpu;
	char *problem;
};

/* ---- a round --------------------------------------------------------------------------------- */

/* The processes on GPUs, of a round. */
struct round {
	struct arena a;
	size_t n;
	struct procs_task *procs;
	uint64_t *id;
	struct smi_process *on; /* with `gpu`: an index in usage.gpu */
	int *owner;             /* index in `procs`, PROCS_OUTSIDE, PROCS_GONE */
	size_t on_n;
};

static void round_copy_tasks(struct usage *u, struct round *r)
{
	const struct usage_entry *t = NULL;
	LOCK_AUTO(&u->lock);
	r->procs = ARENA_NEW(&r->a, struct procs_task, u->tasks_n + 1);
	r->id = ARENA_NEW(&r->a, uint64_t, u->tasks_n + 1);
	TAILQ_FOREACH(t, &u->tasks, link)
	{
		r->procs[r->n] = t->procs;
		if (t->procs.cgroup)
			r->procs[r->n].cgroup = arena_dup(&r->a, span_of(t->procs.cgroup));
		r->id[r->n++] = t->id;
	}
}

/* Lists the processes on each GPU; parts of a GPU have those of the whole. */
static void round_list_processes(struct usage *u, struct round *r)
{
	size_t n;
	const struct smi_process *all = smi_processes(u->smi, &n);
	r->on = ARENA_NEW(&r->a, struct smi_process, u->set.gpus_n * ON_GPU + 1);
	r->owner = ARENA_NEW(&r->a, int, u->set.gpus_n *ON_GPU + 1);
	for (size_t g = 0; g < u->set.gpus_n && u->has_pids; g++) {
		const struct watched_gpu *w = &u->gpu[g];
		struct smi_process *own = r->on + r->on_n;
		size_t have = w->card >= 0 ? amd_processes(u->root, w->card, own, ON_GPU) : 0;
		for (size_t i = 0; i < n && have < ON_GPU; i++)
			if (all[i].gpu == w->smi)
				own[have++] = all[i];
		for (size_t i = 0; i < have; i++) {
			own[i].gpu = g;
			r->owner[r->on_n++] = procs_owner(u->root, own[i].pid, r->procs, r->n);
		}
	}
}

/* Finds the foreign processes of a GPU that the task of this id holds (0: none); returns their
 * number. */
/* NOLINTNEXTLINE(readability-function-size): its parameters */
static size_t watched_find_outside(struct usage *u, const struct watched_gpu *w, size_t gpu,
                                   const struct round *r, uint64_t task,
                                   struct outside out[static USAGE_OUTSIDE])
{
	size_t n = 0;
	int64_t now_ms = clock_ms();
	if (!u->has_pids && !task && w->sample.memory > IN_USE)
		out[n++] = (struct outside){ .memory = w->sample.memory, .first_ms = now_ms };
	for (size_t i = 0; i < r->on_n && n < USAGE_OUTSIDE; i++) {
		bool own = r->owner[i] >= 0 && task == r->id[r->owner[i]];
		if (r->on[i].gpu != gpu || r->owner[i] == PROCS_GONE || own)
			continue;
		out[n++] = (struct outside){ .pid = r->on[i].pid,
			                     .start = procs_start(u->root, r->on[i].pid),
			                     .memory = r->on[i].memory,
			                     .first_ms = now_ms };
	}
	for (size_t i = 0; i < n; i++) {
		const struct outside *before = w->outside;
		const struct outside *end = before + w->outside_n;
		while (before < end && (before->pid != out[i].pid || before->start != out[i].start))
			before++;
		if (before == end) {
			procs_name(u->root, out[i].pid, out[i].program, out[i].user);
			continue;
		}
		int64_t memory = out[i].memory;
		out[i] = *before;
		out[i].memory = memory;
	}
	return n;
}

/* Notes the samples of GPUs.  Parts of a GPU share its sample.  Only this thread changes `watched`,
 * but for the task. */
static void round_look_at_gpus(struct usage *u, struct round *r, int64_t now_ms)
{
	struct smi_sample *smi = ARENA_NEW(&r->a, struct smi_sample, u->uuids + 1);
	for (size_t i = 0; i < u->uuids; i++)
		smi_take(u->smi, i, now_ms, &smi[i]);
	for (size_t g = 0; g < u->set.gpus_n; g++) {
		struct watched_gpu *w = &u->gpu[g];
		struct outside outside[USAGE_OUTSIDE];
		struct smi_sample s = { .busy = -1, .memory = -1, .total = -1, .watts = -1 };
		if (w->card >= 0)
			amd_take(u->root, w->card, &s);
		else if (w->smi != SIZE_MAX)
			s = smi[w->smi];
		(void)pthread_mutex_lock(&u->lock); /* cannot fail */
		uint64_t task = w->task ? w->task->id : 0;
		w->sample = s;
		w->unknown_ms = s.known ? 0 : w->unknown_ms ?: now_ms;
		(void)pthread_mutex_unlock(&u->lock);
		size_t n = watched_find_outside(u, w, g, r, task, outside);
		LOCK_AUTO(&u->lock);
		memcpy(w->outside, outside, n * sizeof(*outside));
		w->outside_n = n;
	}
}

/* Adds the samples to the tasks that are still there; both lists are in the order of ids. */
static bool round_note(struct usage *u, const struct round *r)
{
	int64_t boot_ms = clock_boot_ms();
	struct usage_entry *t = NULL;
	size_t i = 0;
	bool on_gpus = false;
	LOCK_AUTO(&u->lock);
	TAILQ_FOREACH(t, &u->tasks, link)
	{
		struct usage_look look[INVENTORY_GPUS];
		while (i < r->n && r->id[i] < t->id)
			i++;
		if (i == r->n || r->id[i] != t->id)
			continue;
		for (size_t k = 0; k < t->gpus_n; k++) {
			const struct watched_gpu *w = &u->gpu[t->gpu[k].gpu];
			look[k] =
			    (struct usage_look){ w->sample, w->sample.known && u->has_pids, false };
			for (size_t p = 0; p < r->on_n; p++)
				look[k].has_own |=
				    r->on[p].gpu == t->gpu[k].gpu && r->owner[p] == (int)i;
		}
		figures_sample(t, &r->procs[i], look, boot_ms);
		on_gpus |= t->gpus_n > 0;
	}
	return on_gpus;
}

static void usage_round(struct usage *u, bool gpus, int64_t now_ms)
{
	struct round r = { .n = 0 };
	round_copy_tasks(u, &r);
	procs_look(u->root, r.procs, r.n);
	if (gpus) {
		round_list_processes(u, &r);
		round_look_at_gpus(u, &r, now_ms);
	}
	if (round_note(u, &r))
		u->set.changed(u->set.arg);
	arena_done(&r.a);
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* Tells a new reason why there are no figures of GPUs. */
static void usage_note_problem(struct usage *u, bool wanted)
{
	const char *now = smi_problem(u->smi);
	if (wanted)
		u->absent = smi_is_absent(u->smi);
	if (strcmp(now ?: "", u->problem ?: "") == 0)
		return;
	if (now)
		u->set.notice(u->set.arg, now);
	LOCK_AUTO(&u->lock);
	free(u->problem);
	u->problem = now ? xstrdup(now) : NULL;
}

/* Decides which GPUs are looked at, and when the next round is; *any: there is something to look
 * at. Returns true for GPUs. */
static bool usage_plan(struct usage *u, int64_t now_ms, bool gpus_before, bool *any)
{
	LOCK_AUTO(&u->lock);
	bool gpus = u->gpu_tasks > 0 || now_ms < u->want_ms;
	*any = u->tasks_n > 0 || gpus;
	for (size_t g = 0; g < u->set.gpus_n && gpus && !gpus_before; g++)
		u->gpu[g].unknown_ms = now_ms;
	return gpus;
}

/* Until something is known of each GPU, rounds follow each other faster. */
static int64_t usage_pause_ms(const struct usage *u, bool gpus, int64_t now_ms)
{
	bool fast = false;
	for (size_t g = 0; g < u->set.gpus_n && gpus; g++)
		fast |= u->gpu[g].unknown_ms && now_ms - u->gpu[g].unknown_ms < USAGE_FIRST_MS &&
		        (u->gpu[g].smi != SIZE_MAX || u->gpu[g].card >= 0);
	return fast && !u->problem ? FIRST_ROUNDS_MS : USAGE_ROUND_MS;
}

static void *usage_main(void *arg)
{
	struct usage *u = arg;
	int64_t next_ms = 0; /* of the next round; 0: there is nothing to look at */
	bool gpus = false;
	while (!u->stop) {
		struct pollfd fds[3] = { { .fd = u->event, .events = POLLIN } };
		eventfd_t wakes;
		int64_t due_ms;
		int64_t now = clock_ms();
		bool any;
		bool before = gpus;
		gpus = usage_plan(u, now, before, &any);
		smi_want(u->smi, gpus, now);
		smi_run(u->smi, now);
		usage_note_problem(u, gpus);
		if (any && next_ms && now >= next_ms) {
			usage_round(u, gpus, now);
			next_ms = clock_ms() + usage_pause_ms(u, gpus, now);
		} else if (!any || next_ms == 0 || (gpus && !before)) {
			next_ms = any ? now + usage_pause_ms(u, gpus, now) : 0;
		}
		size_t n = smi_poll(u->smi, fds + 1, &due_ms);
		due_ms = any && next_ms < due_ms ? next_ms : due_ms;
		int64_t wait_ms = due_ms - clock_ms();
		bool for_ever = due_ms == INT64_MAX;
		(void)poll(fds, 1 + n, for_ever ? -1 : wait_ms < 0 ? 0 : (int)wait_ms + 1);
		if (fds[0].revents)
			(void)eventfd_read(u->event, &wakes); /* cannot fail */
	}
	return NULL;
}

static void usage_wake(struct usage *u)
{
	(void)eventfd_write(u->event, 1); /* cannot overflow */
}

/* ---- tasks ----------------------------------------------------------------------------------- */

struct usage_entry *usage_add(struct usage *u, const struct usage_task *task)
{
	struct usage_entry *t = xcalloc(1, sizeof(*t) + task->gpus_n * sizeof(struct usage_device));
	t->procs = (struct procs_task){ .shim = task->shim,
		                        .start = procs_start(u->root, task->shim),
		                        .cpu_ms = -1,
		                        .memory = -1,
		                        .memory_most = -1 };
	if (u->set.cgroup)
		t->procs.cgroup = t->cgroup = xasprintf("%s/task-%s", u->set.cgroup, task->uid);
	t->begin_boot_ms = task->begin_boot_ms;
	t->cpu_ms = t->memory = t->peak = -1;
	t->gpus_n = task->gpus_n;
	for (size_t i = 0; i < task->gpus_n; i++)
		t->gpu[i].gpu = task->gpu[i];
	figures_restore(t, task->figures, task->curves);
	if (t->known_ms <= 0) /* a mark of an earlier process stays until more is known */
		t->known_ms = clock_boot_ms();
	LOCK_AUTO(&u->lock);
	t->id = ++u->last_id;
	TAILQ_INSERT_TAIL(&u->tasks, t, link);
	u->gpu_tasks += t->gpus_n > 0;
	for (size_t i = 0; i < t->gpus_n; i++)
		u->gpu[t->gpu[i].gpu].task = t;
	if (u->tasks_n++ == 0 || (t->gpus_n > 0 && u->gpu_tasks == 1))
		usage_wake(u);
	return t;
}

/* Locked. */
static void usage_put(const struct usage *u, const struct usage_entry *t, enum usage_texts texts,
                      struct arena *a, struct usage_state *out)
{
	STR_AUTO figures = STR_INIT(FIGURES_TEXT);
	STR_AUTO curves = STR_INIT(CURVES_TEXT);
	figures_state(t, out);
	if (texts != USAGE_NUMBERS)
		figures_put(t, u->set.gpus, &figures, texts == USAGE_ALL ? &curves : NULL);
	out->figures = arena_span(a, str_view(&figures));
	out->curves = arena_span(a, str_view(&curves));
}

void usage_read(struct usage *u, const struct usage_entry *t, enum usage_texts texts,
                struct arena *a, struct usage_state *out)
{
	LOCK_AUTO(&u->lock);
	usage_put(u, t, texts, a, out);
}

static void usage_entry_free(struct usage_entry *t)
{
	figures_free(t);
	free(t->cgroup);
	free(t);
}

void usage_end(struct usage *u, struct usage_entry *t, int64_t cpu_ms, struct arena *a,
               struct usage_state *out)
{
	struct procs_task last = t->procs;
	if (last.cgroup) /* it is about to be removed */
		procs_look(u->root, &last, 1);
	cpu_ms = cpu_ms > last.cpu_ms ? cpu_ms : last.cpu_ms;
	LOCK_AUTO(&u->lock);
	t->cpu_ms = cpu_ms > t->cpu_ms ? cpu_ms : t->cpu_ms;
	t->peak = last.memory_most > t->peak ? last.memory_most : t->peak;
	usage_put(u, t, USAGE_ALL, a, out);
	TAILQ_REMOVE(&u->tasks, t, link);
	u->gpu_tasks -= t->gpus_n > 0;
	for (size_t i = 0; i < t->gpus_n; i++)
		u->gpu[t->gpu[i].gpu].task = NULL;
	usage_entry_free(t);
	if (--u->tasks_n == 0)
		usage_wake(u);
}

/* ---- GPUs ------------------------------------------------------------------------------------ */

static bool outside_is_sure(const struct outside *o, int64_t now_ms)
{
	return now_ms - o->first_ms >= USAGE_ROUND_MS - FIRST_ROUNDS_MS / 2;
}

/* There is one of which something can be known. */
static bool usage_knows_gpus(const struct usage *u)
{
	bool any = u->set.gpus_n == 0;
	for (size_t g = 0; g < u->set.gpus_n; g++)
		any |= u->gpu[g].smi != SIZE_MAX || u->gpu[g].card >= 0;
	return any;
}

struct usage_gpu *usage_gpus(struct usage *u, struct arena *a, const char **why)
{
	struct usage_gpu *v = ARENA_NEW(a, struct usage_gpu, u->set.gpus_n + 1);
	int64_t now_ms = clock_ms();
	LOCK_AUTO(&u->lock);
	*why = u->problem              ? arena_dup(a, span_of(u->problem))
	       : !usage_knows_gpus(u)  ? "no figures of GPUs: none has a UUID that is known, or is "
	                                 "one of AMD"
	       : u->absent && u->uuids ? "no figures of GPUs: there is no nvidia-smi"
	                               : NULL;
	for (size_t g = 0; g < u->set.gpus_n; g++) {
		const struct watched_gpu *w = &u->gpu[g];
		struct usage_process *outside = ARENA_NEW(a, struct usage_process, USAGE_OUTSIDE);
		bool known = w->sample.known && !w->unknown_ms;
		v[g] = (struct usage_gpu){ .known = known,
			                   .busy = known ? w->sample.busy : -1,
			                   .watts = known ? w->sample.watts : -1,
			                   .memory = known ? w->sample.memory : -1,
			                   .total = known ? w->sample.total : -1,
			                   .outside = outside };
		if (w->task)
			v[g].idle_ms = w->task->idle_run_ms;
		for (size_t i = 0; i < w->outside_n && known; i++)
			if (outside_is_sure(&w->outside[i], now_ms))
				outside[v[g].outside_n++] = (struct usage_process){
					arena_dup(a, span_of(w->outside[i].program)),
					arena_dup(a, span_of(w->outside[i].user)),
					w->outside[i].pid, w->outside[i].memory
				};
	}
	return v;
}

void usage_put_outside(struct str *out, size_t gpu, const struct usage_gpu *now)
{
	for (size_t i = 0; i < now->outside_n; i++) {
		const struct usage_process *p = &now->outside[i];
		str_printf(out, "%sGPU %zu: ", out->n ? ", " : "", gpu);
		if (p->pid)
			str_printf(out, "%s (pid %d, %s%s", p->program, p->pid, p->user,
			           p->memory >= 0 ? ", " : "");
		if (p->memory >= 0)
			str_printf(out, "%.1f GiB", (double)p->memory / (1 << 30));
		str_puts(out, p->pid ? ")" : " in use");
	}
}

/* Locked. */
static void usage_want_now(struct usage *u, int64_t now_ms)
{
	bool sleeps = now_ms >= u->want_ms && u->gpu_tasks == 0;
	for (size_t g = 0; g < u->set.gpus_n && sleeps; g++)
		u->gpu[g].unknown_ms = now_ms; /* earlier figures are old */
	u->want_ms = now_ms + USAGE_WANT_MS;
	if (sleeps)
		usage_wake(u);
}

void usage_want(struct usage *u)
{
	LOCK_AUTO(&u->lock);
	usage_want_now(u, clock_ms());
}

enum usage_verdict usage_verdict(struct usage *u, unsigned gpu)
{
	int64_t now_ms = clock_ms();
	LOCK_AUTO(&u->lock);
	const struct watched_gpu *w = &u->gpu[gpu];
	enum usage_verdict verdict = USAGE_FREE;
	if (w->smi == SIZE_MAX ? w->card < 0 : u->absent)
		return USAGE_FREE;
	usage_want_now(u, now_ms);
	if (w->unknown_ms)
		return now_ms - w->unknown_ms < USAGE_FIRST_MS ? USAGE_WAIT : USAGE_UNKNOWN;
	for (size_t i = 0; i < w->outside_n && verdict != USAGE_TAKEN; i++)
		verdict = outside_is_sure(&w->outside[i], now_ms) ? USAGE_TAKEN : USAGE_WAIT;
	return w->sample.mig ? USAGE_FREE : verdict;
}

/* ---- life ------------------------------------------------------------------------------------ */

/* The UUID of the whole GPU; NULL: it is none of NVIDIA's, or it is not known. */
static const char *usage_board(const struct gpu *g)
{
	bool whole = g->uuid && strncmp(g->uuid, "GPU-", 4) == 0;
	return g->board ?: whole ? g->uuid : NULL;
}

static void usage_find_gpus(struct usage *u)
{
	u->gpu = ARENA_NEW(&u->arena, struct watched_gpu, u->set.gpus_n + 1);
	u->uuid = ARENA_NEW(&u->arena, const char *, u->set.gpus_n + 1);
	for (size_t g = 0; g < u->set.gpus_n; g++) {
		const char *board = usage_board(&u->set.gpus[g]);
		size_t at = 0;
		while (board && at < u->uuids && strcmp(u->uuid[at], board) != 0)
			at++;
		if (board && at == u->uuids)
			u->uuid[u->uuids++] = board;
		u->gpu[g] =
		    (struct watched_gpu){ .smi = board ? at : SIZE_MAX,
			                  .card = board ? -1 : amd_card(u->root, &u->set.gpus[g]),
			                  .sample = { .busy = -1 } };
	}
}

struct usage *usage_start(const struct usage_settings *settings, struct err *e)
{
	struct usage *u = xcalloc(1, sizeof(*u));
	FREE_AUTO char *pids = xasprintf("%s/proc/self/ns/pid", settings->root ?: "");
	struct stat st;
	u->set = *settings;
	u->root = settings->root ?: "";
	u->absent = nvidia_smi_find(u->root, &u->arena) == NULL;
	u->has_pids = stat(pids, &st) == 0 && st.st_ino == INITIAL_PIDS;
	(void)pthread_mutex_init(&u->lock, NULL); /* cannot fail with default attributes */
	TAILQ_INIT(&u->tasks);
	usage_find_gpus(u);
	u->smi = smi_new(&(struct smi_settings){ u->root, u->uuid, u->uuids });
	u->event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	int bad = u->event < 0 ? errno : pthread_create(&u->thread, NULL, usage_main, u);
	u->started = !bad;
	if (!bad)
		return u;
	(void)err_set(e, UNKNOWN_ERROR, "no thread for figures of tasks: %s", strerrordesc_np(bad));
	usage_stop(u);
	return NULL;
}

void usage_stop(struct usage *u)
{
	struct usage_entry *t = NULL;
	if (!u)
		return;
	u->stop = true;
	usage_wake(u);
	if (u->started)
		(void)pthread_join(u->thread, NULL);
	while ((t = TAILQ_FIRST(&u->tasks))) {
		TAILQ_REMOVE(&u->tasks, t, link);
		usage_entry_free(t);
	}
	smi_free(u->smi);
	fd_cleanup(&u->event);
	free(u->problem);
	(void)pthread_mutex_destroy(&u->lock);
	arena_done(&u->arena);
	free(u);
}
