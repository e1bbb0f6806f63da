/* Two children nvidia-smi, whose lines of CSV are read as they come; see smi.h. */
#include "machine/usage/smi.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/pod/nvidia_smi.h"
#include "base/posix/child.h"
#include "base/posix/clock.h"
#include "base/posix/fd.h"

enum {
	LINE_ROOM = 512, /* a longer line is ignored */
	READS = 16,      /* of a buffer, in one smi_run */
	AGAIN_MS = 5000,
	AGAIN_MOST_MS = 300000,
	STEADY_MS = 60000, /* after that a pause is short again */
	REAP_MS = 1000,
	FREE_MS = 1000
};

enum { SMI_FIGURES, SMI_LIST, SMI_CHILDREN };

/* One call of nvidia-smi answers one question.  Old drivers have these columns, too. */
static const char *const QUESTIONS[] = {
	"--query-gpu=uuid,utilization.gpu,memory.used,memory.total,power.draw,mig.mode.current",
	"--query-compute-apps=gpu_uuid,pid,used_memory",
};
static const size_t FIELDS[] = { 6, 3 };

enum { SMI_BUSY, SMI_MEMORY, SMI_TOTAL, SMI_WATTS, SMI_NUMBERS };

/* More is unknown; the members of a sample have other units. */
static const int64_t MOST[] = { 100, 16 << 20, 16 << 20, 10000 };
static const double UNIT[] = { 1, 1 << 20, 1 << 20, 1 };

struct smi_gpu {
	double sum[SMI_NUMBERS]; /* of the numbers since the last smi_take */
	size_t n[SMI_NUMBERS];
	bool mig;
};

/* The last two: it got SIGKILL, since it is not wanted or has failed, and was not reaped yet. */
enum smi_state { SMI_NONE, SMI_RUNS, SMI_STOPPED, SMI_FAILED };

struct smi_child {
	enum smi_state state;
	pid_t pid;
	int out;          /* its output; -1 */
	int64_t since_ms; /* the first line of SMI_FIGURES, the start of SMI_LIST */
	int64_t heard_ms; /* its start, the last line or sign of life */
	int64_t again_ms; /* it is not looked for, or not started, before */
	int64_t pause_ms; /* the last one */
	size_t n;         /* LINE_ROOM: the line is too long */
	char line[LINE_ROOM];
	char said[QUOTE_MAX]; /* the begin of the last line of another form */
	char life[64];        /* its time of a CPU, as the kernel writes it */
	char ended[512];
	const char *problem;
};

struct smi {
	struct smi_settings settings;
	bool any, wanted;
	struct smi_child child[SMI_CHILDREN];
	/* A pipe, the input of SMI_LIST, which gets SIGIO when this process dies.  SIGPIPE ends a
	 * child only when it writes, and an empty list is nothing to write. */
	int tie[2];
	struct smi_gpu *gpu;
	struct smi_process *process; /* by GPU and pid */
	size_t processes;
	int64_t doubt_ms; /* until then the list may lack something */
};

/* ---- lines ----------------------------------------------------------------------------------- */

/* A number, rounded; -1: "[N/A]", or out of range. */
static int64_t smi_number(struct span t, int64_t most)
{
	int64_t n = -1;
	struct span whole = span_next(&t, '.');
	if (t.n && !span_digits(t))
		return -1;
	(void)parse_i64(whole, 0, most, &n);
	return n >= 0 && n < most && t.n && *t.p >= '5' ? n + 1 : n;
}

static void smi_see(struct smi *s, size_t gpu, pid_t pid, int64_t mib, int64_t now_ms)
{
	struct smi_process *p = s->process;
	struct smi_process *end = p + s->processes;
	while (p < end && (p->gpu < gpu || (p->gpu == gpu && p->pid < pid)))
		p++;
	if (p == end || p->gpu != gpu || p->pid != pid) {
		if (s->processes == SMI_PROCESSES) {
			s->doubt_ms = now_ms + SMI_GONE_MS;
			return;
		}
		memmove(p + 1, p, (size_t)(end - p) * sizeof(*p));
		*p = (struct smi_process){ .gpu = gpu, .pid = pid, .first_ms = now_ms };
		s->processes++;
	}
	p->memory = mib < 0 ? -1 : mib << 20;
	p->last_ms = now_ms;
}

/* Takes c->line.  Messages, for instance about XID errors, come between the lines of a round; in
 * the list they can stand for a process. */
static void smi_line(struct smi *s, size_t which, int64_t now_ms)
{
	struct smi_child *c = &s->child[which];
	struct span line = { c->line, c->n };
	struct span f[7] = { { "", 0 } };
	int64_t pid = 1;
	size_t n = 0;
	while (line.n && n < ARRAY_SIZE(f))
		f[n++] = span_trim(span_next(&line, ','));
	if (c->n == LINE_ROOM || n != FIELDS[which] ||
	    (which == SMI_LIST && parse_i64(f[1], 1, INT32_MAX, &pid) != 0)) {
		memcpy(c->said, c->line, sizeof(c->said) - 1);
		s->doubt_ms = which == SMI_LIST ? now_ms + SMI_GONE_MS : s->doubt_ms;
		return;
	}
	c->heard_ms = now_ms;
	c->since_ms = c->since_ms == INT64_MAX ? now_ms : c->since_ms;
	for (size_t i = 0; i < s->settings.n; i++) {
		struct smi_gpu *g = &s->gpu[i];
		if (!s->settings.uuid[i] || !span_is(f[0], s->settings.uuid[i]))
			continue;
		if (which == SMI_LIST)
			smi_see(s, i, (pid_t)pid, smi_number(f[2], MOST[SMI_MEMORY]), now_ms);
		for (size_t k = 0; k < SMI_NUMBERS && which == SMI_FIGURES; k++) {
			int64_t number = smi_number(f[k + 1], MOST[k]);
			g->sum[k] += number < 0 ? 0 : (double)number * UNIT[k];
			g->n[k] += number >= 0;
		}
		g->mig = g->mig || (which == SMI_FIGURES && span_is(f[5], "Enabled"));
	}
}

/* false: its output has ended. */
static bool smi_read(struct smi *s, size_t which, int64_t now_ms)
{
	struct smi_child *c = &s->child[which];
	char buffer[16384] NOT_ZEROED;
	for (size_t k = 0; k < READS; k++) {
		ssize_t n = read(c->out, buffer, sizeof(buffer));
		if (n <= 0)
			return n < 0 && (errno == EAGAIN || errno == EINTR);
		for (ssize_t i = 0; i < n; i++) {
			if (buffer[i] == '\n') {
				c->line[c->n < LINE_ROOM ? c->n : LINE_ROOM - 1] = '\0';
				smi_line(s, which, now_ms);
				c->n = 0;
			} else if (c->n < LINE_ROOM) {
				c->line[c->n++] = buffer[i];
			}
		}
	}
	return true;
}

/* ---- children -------------------------------------------------------------------------------- */

static const char ABSENT[] = "no figures of GPUs: there is no nvidia-smi";

static void smi_start(struct smi *s, size_t which, int64_t now_ms)
{
	ARENA_AUTO a = { 0 };
	struct smi_child *c = &s->child[which];
	const char *path = nvidia_smi_find(s->settings.root, &a);
	const char *period = arena_printf(&a, "%d", SMI_PERIOD_S);
	const char *const env[] = { "LC_ALL=C", NULL };
	const char *const argv[] = { path, QUESTIONS[which], "--format=csv,noheader,nounits",
		                     "-l", period,           NULL };
	int out[2];
	c->again_ms = now_ms + AGAIN_MOST_MS;
	c->problem = path ? "no figures of GPUs: nvidia-smi cannot be started" : ABSENT;
	if (!path || pipe2(out, O_CLOEXEC) != 0)
		return;
	int in = which == SMI_LIST ? s->tie[0] : 0;
	pid_t pid = child_spawn(&(struct child_command){ .argv = argv,
	                                                 .env = env,
	                                                 .in = in,
	                                                 .out = out[1],
	                                                 .err = STREAM_NONE,
	                                                 .group = CHILD_APART });
	(void)close(out[1]);
	if (pid < 0) {
		(void)close(out[0]);
		return;
	}
	(void)fcntl(out[0], F_SETFL, O_NONBLOCK);
	if (which == SMI_LIST)
		(void)fcntl(s->tie[0], F_SETOWN, pid);
	int64_t since_ms = which == SMI_LIST ? now_ms : INT64_MAX;
	*c = (struct smi_child){ .state = SMI_RUNS,
		                 .pid = pid,
		                 .out = out[0],
		                 .since_ms = since_ms,
		                 .heard_ms = now_ms,
		                 .pause_ms = c->pause_ms };
	memset(s->gpu, 0, s->settings.n * sizeof(*s->gpu));
}

static void smi_kill(struct smi_child *c, enum smi_state why, int64_t now_ms)
{
	(void)kill(-c->pid, SIGKILL);
	c->state = why;
	c->again_ms = now_ms + REAP_MS;
}

/* It was reaped. */
static void smi_end(struct smi *s, size_t which, int status, int64_t now_ms)
{
	struct smi_child *c = &s->child[which];
	char shown[4 * QUOTE_MAX];
	(void)smi_read(s, which, now_ms); /* the last message */
	fd_cleanup(&c->out);
	if (!c->problem) {
		(void)snprintf(c->ended, sizeof(c->ended),
		               "no figures of GPUs: nvidia-smi has ended with status %d%s%s",
		               WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status),
		               c->said[0] ? ": " : "", quote(shown, span_of(c->said)));
		c->problem = c->ended;
	}
	bool steady = c->pause_ms == 0 || now_ms - c->since_ms >= STEADY_MS;
	int64_t pause_ms = steady ? AGAIN_MS : 2 * c->pause_ms;
	pause_ms = pause_ms < AGAIN_MOST_MS ? pause_ms : AGAIN_MOST_MS;
	c->pause_ms = c->state == SMI_STOPPED ? 0 : pause_ms;
	c->again_ms = now_ms + c->pause_ms;
	c->out = -1;
	c->state = SMI_NONE;
}

/* A list without processes has no line.  Its child is heard as long as it gets time of a CPU, as it
 * does in each round; it does not if the driver hangs. */
static void smi_listen(struct smi_child *c, int64_t now_ms)
{
	char path[64];
	char life[sizeof(c->life)];
	(void)snprintf(path, sizeof(path), "/proc/%d/schedstat", c->pid);
	(void)fd_read_at(AT_FDCWD, path, life, sizeof(life)); /* else it is empty */
	if (!life[0] || strcmp(life, c->life) != 0)
		c->heard_ms = now_ms;
	memcpy(c->life, life, sizeof(life));
}

static void smi_look(struct smi *s, size_t which, int64_t now_ms)
{
	struct smi_child *c = &s->child[which];
	int status = 0;
	bool open = smi_read(s, which, now_ms);
	if (c->state == SMI_RUNS && which == SMI_LIST)
		smi_listen(c, now_ms);
	bool silent = now_ms - c->heard_ms >= SMI_SILENT_MS;
	if (c->state != SMI_NONE && waitpid(c->pid, &status, WNOHANG) != 0) {
		smi_end(s, which, status, now_ms);
	} else if (c->state == SMI_RUNS && (silent || !open)) {
		c->problem = silent ? "no figures of GPUs: nvidia-smi says nothing" : NULL;
		smi_kill(c, SMI_FAILED, now_ms);
	} else if (c->state > SMI_RUNS && now_ms >= c->again_ms) {
		c->problem = "no figures of GPUs: SIGKILL does not end nvidia-smi";
		c->again_ms = now_ms + REAP_MS;
	}
	if (c->state == SMI_NONE && s->wanted && now_ms >= c->again_ms)
		smi_start(s, which, now_ms);
}

/* ---- interface ------------------------------------------------------------------------------- */

struct smi *smi_new(const struct smi_settings *settings)
{
	struct smi *s = xcalloc(1, sizeof(*s));
	s->settings = *settings;
	s->gpu = xcalloc(settings->n + 1, sizeof(*s->gpu));
	s->process = xcalloc(SMI_PROCESSES, sizeof(*s->process));
	for (size_t i = 0; i < settings->n; i++)
		s->any = s->any || settings->uuid[i];
	for (size_t i = 0; i < SMI_CHILDREN; i++)
		s->child[i].out = -1;
	if (pipe2(s->tie, O_CLOEXEC) != 0)
		s->tie[0] = s->tie[1] = STREAM_NONE;
	(void)fcntl(s->tie[0], F_SETFL, O_ASYNC);
	return s;
}

void smi_free(struct smi *s)
{
	int64_t until_ms = clock_ms() + FREE_MS;
	smi_want(s, false, clock_ms());
	while ((s->child[SMI_FIGURES].state || s->child[SMI_LIST].state) && clock_ms() < until_ms) {
		clock_sleep(1);
		smi_run(s, clock_ms());
	}
	for (size_t i = 0; i < SMI_CHILDREN; i++)
		fd_cleanup(&s->child[i].out);
	fd_cleanup(&s->tie[0]);
	fd_cleanup(&s->tie[1]);
	free(s->gpu);
	free(s->process);
	free(s);
}

void smi_want(struct smi *s, bool wanted, int64_t now_ms)
{
	s->wanted = wanted && s->any;
	for (size_t i = 0; i < SMI_CHILDREN && !s->wanted; i++)
		if (s->child[i].state == SMI_RUNS)
			smi_kill(&s->child[i], SMI_STOPPED, now_ms);
	smi_run(s, now_ms);
}

size_t smi_poll(const struct smi *s, struct pollfd v[2], int64_t *due_ms)
{
	size_t n = 0;
	*due_ms = INT64_MAX;
	for (size_t i = 0; i < SMI_CHILDREN; i++) {
		const struct smi_child *c = &s->child[i];
		int64_t at_ms = c->again_ms;
		if (c->state == SMI_RUNS) {
			v[n++] = (struct pollfd){ .fd = c->out, .events = POLLIN };
			at_ms = c->heard_ms + SMI_SILENT_MS;
		}
		if (at_ms < *due_ms && (c->state != SMI_NONE || s->wanted))
			*due_ms = at_ms;
	}
	return n;
}

void smi_run(struct smi *s, int64_t now_ms)
{
	size_t kept = 0;
	smi_look(s, SMI_FIGURES, now_ms);
	smi_look(s, SMI_LIST, now_ms);
	bool runs = s->child[SMI_FIGURES].state == SMI_RUNS && s->child[SMI_LIST].state == SMI_RUNS;
	int64_t gone_ms = s->child[SMI_FIGURES].heard_ms - SMI_GONE_MS;
	for (size_t i = 0; i < s->processes && runs; i++)
		if (s->process[i].last_ms > gone_ms)
			s->process[kept++] = s->process[i];
	s->processes = kept;
}

static double smi_mean(const struct smi_gpu *g, size_t which)
{
	return g->n[which] ? g->sum[which] / (double)g->n[which] : -1;
}

void smi_take(struct smi *s, size_t gpu, int64_t now_ms, struct smi_sample *out)
{
	struct smi_gpu *g = &s->gpu[gpu];
	const struct smi_child *figures = &s->child[SMI_FIGURES];
	const struct smi_child *list = &s->child[SMI_LIST];
	*out = (struct smi_sample){
		/* A GPU that is lost has lines without numbers.  The first list comes soon after
		 * the first figures. */
		.known = (g->n[SMI_BUSY] || g->n[SMI_MEMORY]) && figures->state == SMI_RUNS &&
		         list->state == SMI_RUNS && now_ms - figures->since_ms >= SMI_GONE_MS &&
		         now_ms - list->since_ms >= SMI_GONE_MS &&
		         now_ms - list->heard_ms < SMI_GONE_MS && now_ms >= s->doubt_ms,
		.busy = g->mig ? -1 : smi_mean(g, SMI_BUSY),
		.memory = (int64_t)smi_mean(g, SMI_MEMORY),
		.total = (int64_t)smi_mean(g, SMI_TOTAL),
		.watts = smi_mean(g, SMI_WATTS),
		.mig = g->mig,
	};
	*g = (struct smi_gpu){ 0 };
}

const struct smi_process *smi_processes(const struct smi *s, size_t *n)
{
	*n = s->processes;
	return s->process;
}

const char *smi_problem(const struct smi *s)
{
	const char *first = s->child[SMI_FIGURES].problem;
	return !s->wanted ? NULL : first ? first : s->child[SMI_LIST].problem;
}

bool smi_is_absent(const struct smi *s)
{
	return s->child[SMI_FIGURES].problem == ABSENT;
}
