/*
 * `pai-runtime ssh-barrier`, in the user's container: waits until this task can log in to every
 * other task.  A round tries all missing ones, some at a time, and begins ten seconds after the
 * round before.
 */
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/posix/clock.h"
#include "runtime-assets/common/cmdline.h"
#include "runtime-assets/plugins/plugins_internal.h"

enum {
	GIVE_UP_MAX = 65536,
	NOT_REACHED = 10, /* with the text below: 249 in the exit specification */
	AT_ONCE = 16,
	TRY_MAX_MS = 30000, /* an ssh that hangs is ended then */
	SAID_MAX = 65536,   /* of messages of ssh; earlier ones are dropped */
	SAID_LAST = 512,    /* at their end */
	ROUNDS_PER_MINUTE = 6
};
/* The exit specification looks for this in the log. */
static const char GIVEN_UP[] = "SSH barrier reaches max retry count";

struct barrier_attempt {
	pid_t pid; /* 0: free */
	size_t peer;
	int64_t end_ms;
};

struct ssh_barrier {
	struct arena a;
	struct layout at;
	const char *config, *key;
	const char *roles; /* with commas: only tasks of these; NULL: all */
	struct ssh_peers peers;
	size_t missing;
	struct barrier_attempt attempt[AT_ONCE];
	int64_t round_ms, rounds;
	int64_t end_ms; /* no ssh is started afterwards: rounds may take too long */
	bool last;      /* the last round shows messages of ssh */
	int said;       /* a file in memory for those of the round */
};

/* ---- one round ------------------------------------------------------------------------------- */

static int ssh_barrier_begin(struct ssh_barrier *b, struct barrier_attempt *t, size_t peer)
{
	const char *const argv[] = { "ssh",
		                     "-F",
		                     b->config,
		                     "-o",
		                     "BatchMode=yes",
		                     "-o",
		                     "ConnectTimeout=10",
		                     "--",
		                     b->peers.v[peer].alias,
		                     "true",
		                     NULL };
	const struct child_command ssh = { .argv = argv,
		                           .out = STREAM_NONE,
		                           .err = b->last ? STREAM_OURS : b->said };
	*t = (struct barrier_attempt){ child_spawn(&ssh), peer, clock_ms() + TRY_MAX_MS };
	if (t->pid > 0)
		return 0;
	t->pid = 0;
	return -1;
}

/* Looks if this attempt has ended. */
static void ssh_barrier_look(struct ssh_barrier *b, struct barrier_attempt *t)
{
	int status;
	pid_t pid = waitpid(t->pid, &status, WNOHANG);
	if (pid == 0) {
		if (clock_ms() > t->end_ms)
			(void)kill(t->pid, SIGKILL); /* not yet waited for */
		return;
	}
	t->pid = 0;
	if (pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0) {
		b->peers.v[t->peer].reached = true;
		b->missing--;
	}
}

/* Finds the next peer that is not reached; false if there is none, or no time. */
static bool ssh_barrier_next(const struct ssh_barrier *b, size_t *next)
{
	if (clock_ms() > b->end_ms)
		return false;
	while (*next < b->peers.n && b->peers.v[*next].reached)
		++*next;
	return *next < b->peers.n;
}

/* Drops the messages of ssh if there are more than so many bytes. */
static void ssh_barrier_forget(const struct ssh_barrier *b, off_t most)
{
	if (lseek(b->said, 0, SEEK_CUR) > most && ftruncate(b->said, 0) == 0)
		(void)lseek(b->said, 0, SEEK_SET);
}

static int ssh_barrier_round(struct ssh_barrier *b)
{
	size_t next = 0;
	ssh_barrier_forget(b, 0);
	for (;;) {
		size_t busy = 0;
		ssh_barrier_forget(b, SAID_MAX);
		for (size_t i = 0; i < AT_ONCE; i++) {
			struct barrier_attempt *t = &b->attempt[i];
			if (t->pid)
				ssh_barrier_look(b, t);
			if (!t->pid && ssh_barrier_next(b, &next) &&
			    ssh_barrier_begin(b, t, next++))
				return -1;
			busy += t->pid != 0;
		}
		if (busy == 0 && !ssh_barrier_next(b, &next))
			return 0;
		clock_sleep(20);
	}
}

/* ---- all rounds -------------------------------------------------------------------------------
 */

static int ssh_barrier_give_up(const struct ssh_barrier *b)
{
	STR_AUTO text = STR_INIT(GIVE_UP_MAX);
	str_puts(&text, GIVEN_UP);
	str_printf(&text, ": %zu not reached:", b->missing);
	for (size_t i = 0; i < b->peers.n; i++) {
		if (!b->peers.v[i].reached)
			str_printf(&text, " %s", b->peers.v[i].alias);
	}
	if (b->peers.unknown)
		str_printf(&text, " (and %zu without an address or a port)", b->peers.unknown);
	str_char(&text, '\n');
	(void)fd_write_all(STDERR_FILENO, str_view(&text));
	return NOT_REACHED;
}

static int ssh_barrier_wait(struct ssh_barrier *b)
{
	if (b->missing && access(b->key, R_OK) != 0) {
		say_line(SAY_ERROR, "ssh barrier: this job has no key to log in with");
		return ssh_barrier_give_up(b);
	}
	if (b->peers.unknown)
		return ssh_barrier_give_up(b);
	b->end_ms = b->round_ms ? clock_ms() + b->rounds * b->round_ms : INT64_MAX;
	for (int64_t i = 0; i < b->rounds && !b->last; i++) {
		int64_t began = clock_ms();
		b->last = i + 1 == b->rounds || b->end_ms - began < b->round_ms;
		if (ssh_barrier_round(b)) {
			say_line(SAY_ERROR, "ssh barrier: cannot start ssh: %s", strerror(errno));
			return 1;
		}
		if (b->missing == 0) {
			say_line(SAY_INFO, "ssh barrier: all other tasks are reached");
			return 0;
		}
		/* The message has the last line of ssh's messages. */
		char text[SAID_LAST];
		off_t end = lseek(b->said, 0, SEEK_CUR);
		ssize_t n = pread(b->said, text, SAID_LAST, end > SAID_LAST ? end - SAID_LAST : 0);
		struct span lines = span_trim((struct span){ text, n > 0 ? (size_t)n : 0 });
		struct span said = lines;
		while (lines.n > 0)
			said = span_next(&lines, '\n');
		say_line(SAY_INFO, "ssh barrier: %zu tasks are not reached yet%s%.*s", b->missing,
		         said.n ? ": " : "", (int)said.n, said.p);
		if (!b->last)
			clock_sleep(began + b->round_ms - clock_ms());
	}
	return ssh_barrier_give_up(b);
}

const char BARRIER_USAGE[] =
    "usage: pai-runtime ssh-barrier [--root DIR] [--round SECONDS] "
    "[--roles NAME,...]\n"
    "                               [MINUTES]\n\n"
    "Wait until ssh reaches every other task of the job, or of these roles: MINUTES\n"
    "at most (30), in rounds of 10 seconds (--round).\n\n"
    "Exit status: 0 all are reached; 10 not in time; 1 there is no ssh.\n";

static int ssh_barrier_parse(struct ssh_barrier *b, int argc, char **argv)
{
	const char *root = "";
	const char *round = "10";
	const struct arg args[] = { { "--root", &root, NULL },
		                    { "--round", &round, NULL },
		                    { "--roles", &b->roles, NULL },
		                    { NULL, NULL, NULL } };
	int64_t seconds;
	int64_t minutes = SSH_BARRIER_MINUTES;
	int i = args_take(args, 1, argc, argv);
	if (parse_i64(span_of(round), 0, 3600, &seconds))
		return args_misused(argv[0], round);
	if (i < argc && parse_i64(span_of(argv[i++]), 1, SSH_BARRIER_MAX, &minutes))
		return args_misused(argv[0], argv[i - 1]);
	if (i < argc)
		return args_misused(argv[0], argv[i]);
	layout_init(&b->at, root, &b->a);
	b->round_ms = seconds * 1000;
	b->rounds = minutes * ROUNDS_PER_MINUTE;
	return 0;
}

int cmd_ssh_barrier(int argc, char **argv)
{
	struct ssh_barrier b = { .said = STREAM_NONE };
	if (ssh_barrier_parse(&b, argc, argv))
		return MISUSED;
	(void)ssh_login(&b.at, &b.a); /* sshd has needed it */
	const char *folder = ssh_directory(b.at.passwd_home, &b.a);
	b.config = path_join(&b.a, folder, SSH_CONFIG);
	b.key = path_join(&b.a, folder, SSH_JOB_KEY);
	ssh_peers(&b.peers, b.roles, &b.a);
	for (size_t i = 0; i < b.peers.n; i++)
		b.missing += !b.peers.v[i].reached;
	FD_AUTO said = memfd_create("ssh", MFD_CLOEXEC);
	b.said = said < 0 ? STREAM_NONE : said;
	int rc = ssh_barrier_wait(&b);
	arena_done(&b.a);
	return rc;
}
