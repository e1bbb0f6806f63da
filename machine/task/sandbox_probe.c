#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/child.h"
#include "base/fd.h"
#include "base/rmtree.h"
#include "machine/task/sandbox.h"
#include "machine/words.h"

enum { PROBE_MS = 20000 };

/* The number in a file of /proc/sys; -1 if it is not there. */
static int64_t probe_setting(const char *path)
{
	char text[32];
	int64_t value = -1;
	if (fd_read_at(AT_FDCWD, path, text, sizeof(text)) > 0)
		(void)parse_i64(span_trim(span_of(text)), 0, INT64_MAX, &value);
	return value;
}

static bool probe_in_container(void)
{
	return access("/.dockerenv", F_OK) == 0 || access("/run/.containerenv", F_OK) == 0 ||
	       access("/var/run/secrets/kubernetes.io", F_OK) == 0;
}

/* What to do about AppArmor, which asks for a profile: bwrap has that of pai-runtime, which starts
 * it, unless it has one of its own. */
static const char *probe_apparmor(const char *runtime, bool bwrap, struct arena *a)
{
	return arena_printf(
	    a,
	    "AppArmor forbids them: printf 'abi <abi/4.0>,\\nprofile pai-runtime %s "
	    "flags=(unconfined) {\\n  userns,\\n}\\n' "
	    ">/etc/apparmor.d/pai-runtime && apparmor_parser -r "
	    "/etc/apparmor.d/pai-runtime (as root)%s",
	    runtime,
	    bwrap ? "; if that is loaded, keep one profile for bwrap in "
		    "/etc/apparmor.d, which allows userns: two disable each other"
		  : "");
}

/* What to do when bubblewrap, or mount-overlay before it, has ended with this message. */
static const char *probe_advice(struct span log)
{
	static const struct {
		const char *setting;
		int64_t forbids;
		const char *advice;
	} SETTINGS[] = {
		{ "/proc/sys/kernel/unprivileged_userns_clone", 0,
		  "this kernel forbids user namespaces: sysctl -w "
		  "kernel.unprivileged_userns_clone=1 (as root, and in /etc/sysctl.d)" },
		{ "/proc/sys/user/max_user_namespaces", 0,
		  "this kernel forbids user namespaces: sysctl -w user.max_user_namespaces=15000 "
		  "(as root, and in /etc/sysctl.d)" },
	};
	if (geteuid() == 0 && span_find(log, 0, "setting up uid map") != SIZE_MAX)
		return "root lacks the capability CAP_SETFCAP here, which user namespaces of root "
		       "need: use another user";
	if (span_find(log, 0, "mount proc") != SIZE_MAX)
		return "parts of /proc are covered here, as in a container: allow the container an "
		       "unmasked /proc (docker run --security-opt systempaths=unconfined), or run "
		       "rest-lit outside of it";
	for (size_t i = 0; i < ARRAY_SIZE(SETTINGS); i++) {
		if (probe_setting(SETTINGS[i].setting) == SETTINGS[i].forbids)
			return SETTINGS[i].advice;
	}
	if (probe_in_container())
		return "this is a container that forbids user namespaces: allow it more (docker "
		       "run --security-opt seccomp=unconfined --security-opt "
		       "systempaths=unconfined), or run rest-lit outside of it";
	return "user namespaces seem to be forbidden: try `unshare --user true`, and see dmesg";
}

static int probe_failed(const char *runtime, struct span log, struct arena *a, struct err *e)
{
	static const char APPARMOR[] = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns";
	char q[4 * QUOTE_MAX];
	log = span_trim(log);
	log = span_to(log, span_chr(log, '\n'));
	bool bwrap = !span_starts(log, "mount-overlay");
	bool apparmor =
	    runtime && span_find(log, 0, "mount proc") == SIZE_MAX && probe_setting(APPARMOR) == 1;
	return err_set(e, UNAVAILABLE, "tasks cannot be isolated: %s was refused: \"%s\"; %s",
	               bwrap ? "bwrap" : "pai-runtime mount-overlay", quote(q, log),
	               apparmor ? probe_apparmor(runtime, bwrap, a) : probe_advice(log));
}

/* Runs `bwrap --version` in a sandbox; dir: where an overlay is mounted before it, or NULL. */
static int probe_run(const char *runtime, const char *dir, struct arena *a, struct err *e)
{
	static const char *const NOTHING[] = { NULL };
	const char *const program[] = { program_find("bwrap", a), "--version", NULL };
	const struct sandbox_spec spec = { .runtime = runtime, .command = program };
	const char **argv = sandbox_argv(&spec, a, e);
	struct words args = { .a = a };
	struct span log = { "", 0 };
	if (!argv)
		return -1;
	if (dir)
		WORDS_ADD(&args, runtime, "mount-overlay", arena_printf(a, "%s/lower", dir), dir,
		          "--");
	else if (runtime) /* as a task: its rights may differ from ours */
		WORDS_ADD(&args, runtime, "exec");
	words_add_all(&args, argv);
	const struct child_command command = { .argv = args.v, .env = NOTHING };
	int status = child_run(&command, PROBE_MS, &log, a, e);
	if (status > 0)
		return probe_failed(runtime, log, a, e);
	if (status < 0)
		e->http = 503;
	return status;
}

int sandbox_probe(const char *runtime, struct err *e)
{
	ARENA_AUTO a = { 0 };
	return probe_run(runtime, NULL, &a, e);
}

int sandbox_probe_overlay(const char *runtime, const char *dir, struct err *e)
{
	ARENA_AUTO a = { 0 };
	char *probe = arena_printf(&a, "%s/probe-XXXXXX", dir);
	if (mkdtemp(probe) == NULL || mkdir(arena_printf(&a, "%s/lower", probe), 0700) != 0)
		return err_set(e, UNAVAILABLE, "%s: %s", probe, strerrordesc_np(errno));
	int rc = probe_run(runtime, probe, &a, e);
	(void)tree_remove(AT_FDCWD, probe, 1000);
	return rc;
}
