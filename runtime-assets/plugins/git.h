#pragma once
/*
 * What the plugin git and its subcommand git-move agree on: which options of `git clone` a job may
 * use.  Others run programs of the job's choice (--upload-pack, -c core.sshCommand), which would
 * not matter in the user's container, but nothing of the job decides what programs do.
 */
#include "base/str.h"

enum { GIT_WORD_MAX = 4096 };

/*
 * Read the option at the front of *words: `--depth 1`, `--depth=1`, `--recursive`; its normal form
 * (`--depth=1`) is appended to `out`.  0, and *used words; -1: not allowed, or its value is none.
 */
int git_option(const struct span *words, size_t n, struct str *out, size_t *used);

/* Of what git_option allows, for messages. */
#define GIT_OPTIONS "--depth, --branch, --recursive, --single-branch"

/* Of what `git clone` wrote to standard error, in English: may another try help? */
bool git_transient(const char *said);
/* Seconds that a server asked to wait; 0 if it did not. */
int64_t git_retry_after(const char *said);
/* Overwrite logins in URIs with stars, in place. */
void git_redact(char *text);
