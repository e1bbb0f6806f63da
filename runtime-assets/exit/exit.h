#pragma once
/*
 * Why a task failed: patterns of the exit specification over the end of its logs, and the
 * termination message that says so.  Never fails for a missing or broken log or specification.
 */
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

enum {
	EXIT_MESSAGE_MAX = 4096, /* bytes of a termination message: the kubelet keeps no more */
	EXIT_UNKNOWN = 255,      /* the container's code if no pattern matches */
	EXIT_SPEC_MAX = 1 << 20, /* bytes of an exit specification */
	EXIT_LOG_MAX = 10 << 20, /* of the end of each log that are searched */
	EXIT_SHORT_LOG =
	    16 << 10 /* a user log below this is preceded by as much of the rotated one */
};

struct exit_input {
	int code;            /* of the user's command (128 + n for signal n) */
	const char *trigger; /* "postCommands" when those failed; NULL */
	/* Borrowed descriptors, opened before the author's code ran where that is possible; -1:
	 * none. They are read by offset: their positions stay as they are. */
	int user_log, user_log_rotated, runtime_log;
	struct span spec;    /* YAML text; empty: none */
	int64_t deadline_ms; /* on clock_ms(): afterwards code 255 and log tails */
	const char *root;    /* before the path of nvidia-smi; NULL in a pod */
};

/* The code for the container, and the whole termination message (at most 4096 bytes, both markers)
 * into `message` (empty when input->code is 0).  Lines about broken patterns go to `warnings`. */
int exit_explain(const struct exit_input *input, struct str *message, struct notes *warnings);

/* Write the message to the termination file: O_NOFOLLOW, whole; -1 and *e. */
int exit_report(const char *path, struct span message, struct err *e);
