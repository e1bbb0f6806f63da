#pragma once
/*
 * Explains the failure of a task: matches the patterns of the exit specification with the ends of
 * its logs and makes the termination message.  Missing or broken logs and specifications are not
 * errors.
 *
 * Thread: main
 */
#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

enum {
	EXIT_MESSAGE_MAX = 4096, /* bytes of a termination message: the kubelet keeps no more */
	EXIT_UNKNOWN = 255,      /* the container's code if no pattern matches */
	EXIT_SPEC_MAX = 1 << 20, /* bytes of an exit specification */
	EXIT_LOG_MAX = 10 << 20, /* bytes of the end of each log that are searched */
	EXIT_SHORT_LOG =
	    16 << 10 /* a user log below this is preceded by as much of the rotated one */
};

/* Facts about the shell that ran the user's command. */
struct exit_shell {
	const char *path;          /* of user.sh, as in the shell's messages */
	struct span script, lines; /* its text, and USER_LINES; empty: not known */
	struct span report;        /* the text that it wrote by shell_header; empty: none */
};

struct exit_input {
	int code;            /* of the user's command (128 + n for signal n) */
	const char *trigger; /* "postCommands" when those failed; NULL */
	int64_t ended_ms;    /* end of the command, since 1970; 0: unknown */
	/* Borrowed descriptors; -1: none.  Their positions do not change. */
	int user_log, user_log_rotated, runtime_log;
	struct span spec;    /* YAML text; empty: none */
	int64_t deadline_ms; /* on clock_ms(): afterwards code 255 and the ends of logs */
	const char *root;    /* before the path of nvidia-smi; NULL in a pod */
	const struct exit_shell *shell; /* NULL: the command had none */
};

/* Returns the code for the container and appends the termination message with both markers (none if
 * input->code is 0).  `warnings` names broken patterns. */
int exit_explain(const struct exit_input *input, struct str *message, struct notes *warnings);

/* Writes the message to the termination file.  -1 and *e. */
int exit_report(const char *path, struct span message, struct err *e);
/* Takes space for the message before the job can fill the disk, if the file exists and its file
 * system can. */
void exit_reserve(const char *path);

/* Starts nvidia-smi of the machine, below `root`, in a process group of its own; argv[0] becomes
 * its path, in the arena.  The pid; -1: it is not there. */
pid_t nvidia_smi_spawn(const char *root, const char **argv, int out, struct arena *a);
