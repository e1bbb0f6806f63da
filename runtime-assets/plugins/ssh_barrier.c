/*
 * `pai-runtime ssh-barrier`: wait until this task can log in to every other one.  A round tries
 * all that are still missing, some at a time, and begins ten seconds after the one before it.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "runtime-assets/args.h"
#include "runtime-assets/commands.h"
#include "runtime-assets/files.h"
#include "runtime-assets/layout.h"
#include "runtime-assets/plugins/child.h"
#include "runtime-assets/plugins/ssh.h"
#include "runtime-assets/say.h"

enum {
	GIVE_UP_MAX = 65536,
	NOT_REACHED = 10, /* with the text below: 249 in the exit specification */
	AT_ONCE = 16,
	TRY_MAX_MS = 30000, /* an ssh that hangs is ended then */
	ROUNDS_PER_MINUTE = 6
};
/* The exit specification looks for this in the log. */
static const char GIVEN_UP[] = "SSH barrier reaches max retry count";

/* One ssh on its way. */
struct attempt {
	pid_t pid; /* 0: free */
	size_t peer;
	int64_t end_ms;
};

struct barrier {
	struct arena a;
	struct layout at;
	const char *config, *key;
	struct ssh_peers peers;
	bool *reached;
	size_t missing;
	struct attempt attempt[AT_ONCE];
	int64_t round_ms, rounds;
	int64_t end_ms; /* no ssh is started afterwards: rounds may take longer than they should */
	bool last;      /* the last round tells what ssh has to say */
};

/* ---- one round ---------------------------------------------------------------------------------
 */

static int begin(struct barrier *b, struct attempt *t, size_t peer)
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
	struct child ssh = { argv, NULL, STREAM_NONE, b->last ? STREAM_OURS : STREAM_NONE };
	*t = (struct attempt){ child_start(&ssh), peer, clock_ms() + TRY_MAX_MS };
	if (t->pid > 0)
		return 0;
	t->pid = 0;
	return -1;
}

/* Has this one ended? */
static void look(struct barrier *b, struct attempt *t)
{
	int status;
	pid_t pid = waitpid(t->pid, &status, WNOHANG);
	if (pid == 0) {
		if (clock_ms() > t->end_ms)
			(void)kill(t->pid, SIGKILL); /* it is ours and not yet waited for */
		return;
	}
	t->pid = 0;
	if (pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0) {
		b->reached[t->peer] = true;
		b->missing--;
	}
}

/* The next peer from *next on that is not reached; false if there is none, or no time. */
static bool next_missing(const struct barrier *b, size_t *next)
{
	if (clock_ms() > b->end_ms)
		return false;
	while (*next < b->peers.n && b->reached[*next])
		++*next;
	return *next < b->peers.n;
}

static int round_of(struct barrier *b)
{
	size_t next = 0;
	for (;;) {
		size_t busy = 0;
		for (size_t i = 0; i < AT_ONCE; i++) {
			struct attempt *t = &b->attempt[i];
			if (t->pid)
				look(b, t);
			if (!t->pid && next_missing(b, &next) && begin(b, t, next++))
				return -1;
			busy += t->pid != 0;
		}
		if (busy == 0 && !next_missing(b, &next))
			return 0;
		clock_sleep(20);
	}
}

/* ---- all
 * ------------------------------------------------------------------------------------------ */

/* Only those that were not reached. */
static int give_up(const struct barrier *b)
{
	STR_AUTO text = STR_INIT(GIVE_UP_MAX);
	str_puts(&text, GIVEN_UP);
	str_printf(&text, ": %zu not reached:", b->missing);
	for (size_t i = 0; i < b->peers.n; i++) {
		if (!b->reached[i])
			str_printf(&text, " %s", b->peers.v[i].alias);
	}
	if (b->peers.unknown)
		str_printf(&text, " (and %zu without an address or a port)", b->peers.unknown);
	str_char(&text, '\n');
	/* If it cannot be written, the status still says it. */
	(void)fd_write_all(STDERR_FILENO, str_view(&text));
	return NOT_REACHED;
}

static int wait_for_all(struct barrier *b)
{
	if (b->missing && access(b->key, R_OK) != 0) {
		say(SAY_ERROR, "ssh barrier: this job has no key to log in with");
		return give_up(b);
	}
	if (b->peers.unknown)
		return give_up(b);
	b->end_ms = b->round_ms ? clock_ms() + b->rounds * b->round_ms : INT64_MAX;
	for (int64_t i = 0; i < b->rounds && !b->last; i++) {
		int64_t began = clock_ms();
		b->last = i + 1 == b->rounds || b->end_ms - began < b->round_ms;
		if (round_of(b)) {
			say(SAY_ERROR, "ssh barrier: cannot start ssh: %s", strerror(errno));
			return 1;
		}
		if (b->missing == 0) {
			say(SAY_INFO, "ssh barrier: all other tasks are reached");
			return 0;
		}
		say(SAY_INFO, "ssh barrier: %zu tasks are not reached yet", b->missing);
		if (!b->last)
			clock_sleep(began + b->round_ms - clock_ms());
	}
	return give_up(b);
}

static int usage(FILE *out, int status)
{
	fputs("usage: pai-runtime ssh-barrier [--root DIR] [--round SECONDS] [MINUTES]\n\n"
	      "Wait until ssh reaches every other task of the job: MINUTES at most (30), in\n"
	      "rounds of 10 seconds (--round).\n\n"
	      "Exit status: 0 all are reached; 10 not in time; 1 there is no ssh.\n",
	      out);
	return status;
}

static int parse(struct barrier *b, int argc, char **argv)
{
	const char *root = "";
	const char *round = "10";
	const struct arg args[] = { { "--root", &root, NULL },
		                    { "--round", &round, NULL },
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
	struct barrier b = { .missing = 0 };
	if (argc == 2 && strcmp(argv[1], "--help") == 0)
		return usage(stdout, 0);
	if (parse(&b, argc, argv)) {
		arena_done(&b.a);
		return usage(stderr, 2);
	}
	const char *folder = ssh_directory(b.at.passwd_home, &b.a);
	b.config = path_join(&b.a, folder, "ssh_config");
	b.key = path_join(&b.a, folder, SSH_JOB_KEY);
	ssh_peers(&b.peers, &b.a);
	b.reached = ARENA_NEW(&b.a, bool, b.peers.n + 1);
	for (size_t i = 0; i < b.peers.n; i++) {
		b.reached[i] = b.peers.v[i].own;
		b.missing += !b.peers.v[i].own;
	}
	int rc = wait_for_all(&b);
	arena_done(&b.a);
	return rc;
}
