/* Files of the shim: its identity, the state, the termination message. */
#include "runtime-assets/shim/shim_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/enc.h"
#include "base/posix/process.h"

enum { STATE_MAX = 64 << 10 };

/* ---- claiming -------------------------------------------------------------------------------- */

int shim_claim(int dir, struct err *e)
{
	char identity[PROCESS_IDENTITY_MAX];
	char name[64];
	process_identity(getpid(), identity);
	(void)snprintf(name, sizeof(name), "shim.%d", (int)getpid());
	(void)unlinkat(dir, name, 0); /* of a process that had this pid before */
	FD_AUTO fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	bool written = fd >= 0 && fd_write_all(fd, span_of(identity)) == 0;
	/* It is there as a whole, and only once.  NFS has links only, exFAT this only. */
	bool claimed =
	    written && (linkat(dir, name, dir, "shim", 0) == 0 ||
	                (errno != EEXIST && syscall(SYS_renameat2, dir, name, dir, "shim",
	                                            1 /* RENAME_NOREPLACE */) == 0));
	int error = errno;
	(void)unlinkat(dir, name, 0);
	if (!claimed && error == EEXIST)
		return err_set(e, FAILED, "a shim has run here before");
	if (!claimed)
		return err_set(e, FAILED,
		               "cannot make the file shim, by a link or by renameat2(): %s; use a "
		               "directory on another file system",
		               strerror(error));
	/* Space for the last state, should the disk be full by then; not every file system can. */
	FD_AUTO spec = openat(dir, "spec", O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
	(void)fallocate(spec, FALLOC_FL_KEEP_SIZE, 0, STATE_MAX);
	return 0;
}

/* ---- state ----------------------------------------------------------------------------------- */

static void shim_result_put(struct str *out, const char *name, const struct shim_result *r)
{
	str_printf(out,
	           ",\"%s\":{\"started\":%s,\"ended\":%s,\"code\":%d,"
	           "\"startedMs\":%lld,\"endedMs\":%lld,\"reason\":\"%s\",\"message\":",
	           name, r->started ? "true" : "false", r->reason ? "true" : "false", r->code,
	           (long long)r->started_ms, (long long)r->ended_ms, r->reason ? r->reason : "");
	str_json(out, (struct span){ r->message, r->message_n });
	str_char(out, '}');
}

int shim_state_write(int dir, const struct shim_state *s, bool final)
{
	STR_AUTO text = STR_INIT(STATE_MAX);
	str_printf(&text, "{\"phase\":\"%s\",\"stopped\":%s", final ? "ended" : "run",
	           s->stopped ? "true" : "false");
	shim_result_put(&text, "init", &s->of[SHIM_INIT]);
	shim_result_put(&text, "app", &s->of[SHIM_APP]);
	str_puts(&text, "}\n");
	/* The blocks of the specification, which is not needed any more, exist. */
	const char *name = final ? "spec" : "state.new";
	FD_AUTO fd = openat(dir, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 || fd_write_all(fd, str_view(&text)) || ftruncate(fd, (off_t)text.n) ||
	    (final && fsync(fd)) || renameat(dir, name, dir, "state"))
		return -1;
	return final ? fsync(dir) : 0;
}

void shim_pid_write(int dir, pid_t pid)
{
	char identity[PROCESS_IDENTITY_MAX];
	process_identity(pid, identity);
	FD_AUTO fd =
	    openat(dir, "pid.new", O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd >= 0 && fd_write_all(fd, span_of(identity)) == 0)
		(void)renameat(dir, "pid.new", dir, "pid"); /* without it there are no sessions */
}

/* ---- the termination message ----------------------------------------------------------------- */

void shim_message_put(struct shim_result *r, struct span text)
{
	r->message_n = text.n < SHIM_MESSAGE_MAX ? text.n : SHIM_MESSAGE_MAX;
	memcpy(r->message, text.p, r->message_n);
	struct span all = { r->message, r->message_n };
	for (size_t at = 0; (at += utf8_check(span_from(all, at))) < all.n; at++)
		r->message[at] = '?';
	for (char *nul; (nul = memchr(r->message, '\0', r->message_n)) != NULL;)
		*nul = '?'; /* readers of JSON refuse it */
}
