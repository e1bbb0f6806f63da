#pragma once
/*
 * Text for shells: words, and the head of a script.  What is written here means the same to bash,
 * dash and busybox sh.  Pure.
 */
#include "base/str.h"

/* The text as one word in single quotes, whatever is in it; ' is written '\''. */
void shell_word(struct str *out, struct span text);

/* A path of ours: bare if all its characters are harmless, else as a word. */
void shell_path(struct str *out, const char *path);

/*
 * The first lines of user.sh, precommands.sh and postcommands.sh: errexit, nounset, and pipefail
 * where the shell knows it.  (An unknown option ends dash at once, hence the attempt in a
 * subshell.)  Ends in an empty line.
 */
void shell_header(struct str *out);
