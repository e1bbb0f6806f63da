/* Runs a trivial program in a sandbox, and explains a refusal by its output and by what this kernel
 * allows. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/posix/child.h"
#include "base/posix/fd.h"
#include "base/posix/rmtree.h"
#include "machine/task/sandbox.h"
#include "machine/words.h"

enum { PROBE_MS = 20000 };

#define PROBE_CONTAINER                                                                            \
	"this is a container that forbids user namespaces: allow it more (docker run "             \
	"--security-opt seccomp=unconfined --security-opt systempaths=unconfined), or run "        \
	"rest-lit outside of it"

/* Returns true if a file of /proc/sys has this number. */
static bool probe_file_is(const char *path, const char *number)
{
	char text[32];
	return fd_read_at(AT_FDCWD, path, text, sizeof(text)) > 0 &&
	       span_is(span_trim(span_of(text)), number);
}

/* The first that applies to what bubblewrap, or mount-overlay before it, has said. */
static const struct advice {
	const char *said; /* NULL: anything */
	const char *file; /* file that exists; NULL: any */
	bool zero, root;  /* it contains 0; this is root */
	const char *advice;
} ADVICE[] = {
	{ "setting up uid map", NULL, false, true,
	  "root lacks the capability CAP_SETFCAP here, which user namespaces of root need: use "
	  "another user" },
	{ "mount proc", NULL, false, false,
	  "parts of /proc are covered here, as in a container: allow the container an unmasked "
	  "/proc (docker run --security-opt systempaths=unconfined), or run rest-lit outside of "
	  "it" },
	{ NULL, "/proc/sys/kernel/unprivileged_userns_clone", true, false,
	  "this kernel forbids user namespaces: sysctl -w kernel.unprivileged_userns_clone=1 (as "
	  "root, and in /etc/sysctl.d)" },
	{ NULL, "/proc/sys/user/max_user_namespaces", true, false,
	  "this kernel forbids user namespaces: sysctl -w user.max_user_namespaces=15000 (as root, "
	  "and in /etc/sysctl.d)" },
	{ NULL, "/.dockerenv", false, false, PROBE_CONTAINER },
	{ NULL, "/run/.containerenv", false, false, PROBE_CONTAINER },
	{ NULL, "/var/run/secrets/kubernetes.io", false, false, PROBE_CONTAINER },
	{ NULL, NULL, false, false,
	  "user namespaces seem to be forbidden: try `unshare --user true`, and see dmesg" },
};

/* AppArmor asks for a profile: bwrap has that of pai-runtime, which starts it, unless it has one of
 * its own. */
static int probe_failed(const char *runtime, struct span log, struct arena *a, struct err *e)
{
	static const char APPARMOR[] = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns";
	char q[4 * QUOTE_MAX];
	log = span_trim(log);
	log = span_to(log, span_chr(log, '\n'));
	bool bwrap = !span_starts(log, "mount-overlay");
	const struct advice *r = ADVICE;
	while ((r->root && geteuid() != 0) || (r->said && span_find(log, 0, r->said) == SIZE_MAX) ||
	       (r->file && access(r->file, F_OK) != 0) || (r->zero && !probe_file_is(r->file, "0")))
		r++;
	const char *advice = r->advice;
	if (runtime && span_find(log, 0, "mount proc") == SIZE_MAX && probe_file_is(APPARMOR, "1"))
		advice = arena_printf(
		    a,
		    "AppArmor forbids them: printf 'abi <abi/4.0>,\\nprofile pai-runtime %s "
		    "flags=(unconfined) {\\n  userns,\\n}\\n' "
		    ">/etc/apparmor.d/pai-runtime && apparmor_parser -r "
		    "/etc/apparmor.d/pai-runtime (as root)%s",
		    runtime,
		    bwrap ? "; if that is loaded, keep one profile for bwrap in "
			    "/etc/apparmor.d, which allows userns: two disable each other"
			  : "");
	return err_set(e, UNAVAILABLE, "tasks cannot be isolated: %s was refused: \"%s\"; %s",
	               bwrap ? "bwrap" : "pai-runtime mount-overlay", quote(q, log), advice);
}

int sandbox_probe(const char *runtime, const char *overlay, struct err *e)
{
	static const char *const NOTHING[] = { NULL };
	ARENA_AUTO a = { 0 };
	const char *const program[] = { program_find("bwrap", &a), "--version", NULL };
	const struct sandbox_spec spec = { .command = program };
	const char **argv = sandbox_argv(&spec, &a, e);
	struct words args = { .a = &a };
	struct span log = { NULL, 0 };
	if (!argv)
		return -1;
	char *dir = arena_printf(&a, "%s/probe-XXXXXX", overlay ? overlay : "");
	bool made = !overlay || mkdtemp(dir);
	const char *lower = arena_printf(&a, "%s/lower", dir);
	if (!made || (overlay && mkdir(lower, 0700) != 0))
		return err_set(e, UNAVAILABLE, "%s: %s", dir, strerrordesc_np(errno));
	if (overlay)
		WORDS_ADD(&args, runtime, "mount-overlay", lower, dir, "--");
	else if (runtime) /* as a task: its rights may differ from ours */
		WORDS_ADD(&args, runtime, "exec");
	words_add_all(&args, argv);
	const struct child_command command = { .argv = args.v, .env = NOTHING };
	int status = child_run(&command, PROBE_MS, &log, &a, e);
	if (overlay)
		(void)tree_remove(AT_FDCWD, dir, 1000);
	if (status > 0)
		return probe_failed(runtime, log, &a, e);
	if (status < 0)
		e->http = 503;
	return status;
}
