#pragma once
/*
 * The operating system: files, and the protection of this process.
 *
 *	FREE_AUTO char *text = NULL;
 *	size_t n;
 *	process_harden();
 *	if (file_read_or_stdin(path, 1 << 20, &text, &n, e) < 0)
 *		return -1;
 *
 * The caller bounds and frees texts.  Errors name the file.  The functions about the process are
 * called once, before there are threads.
 *
 * Thread: main
 */
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct stat;

/* ---- files.  Thread: worker. ---- */

/* Reads a regular file, a pipe or (for "-") standard input, at most `max` bytes; *text is
 * NUL-terminated, the caller frees it.  -1 and *e (500), which names the file. */
int file_read_or_stdin(const char *path, size_t max, char **text, size_t *n, struct err *e);
/* A warning about owner or mode of a file that grants rights or (secret) holds secrets, or NULL.
 * Static text.  Always NULL in pods.  Thread: any. */
const char *file_warning(const struct stat *st, bool secret);

/* ---- this process; once, before there are threads ---- */

/* Makes jansson wipe memory before it frees it. */
void process_wipe_json(void);
/* No core dumps, no ptrace, no new privileges, umask 077, no SIGPIPE. */
void process_harden(void);
/* Drops all capabilities but those in `keep`: bits 1 << CAP_..., of the first 32.  -1 and *e
 * (500). */
int process_drop_capabilities(uint32_t keep, struct err *e);
/* Unsets variables that would redirect tokens or reveal keys; returns the first name, or NULL. */
const char *process_scrub(void);
/* Raises the limit of open files to n if the hard limit allows it.  Returns the new limit. */
size_t process_allow_files(size_t n);
