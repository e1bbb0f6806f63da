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

static int probe_run(const char *runtime, const char *const *argv, struct arena *a, struct err *e)
{
	static const char *const NOTHING[] = { NULL };
	const struct child_command command = { .argv = argv, .env = NOTHING };
	struct span log = { "", 0 };
	int status = child_run(&command, PROBE_MS, &log, a, e);
	if (status < 0) {
		e->http = 503;
		return -1;
	}
	return status == 0 ? 0 : probe_failed(runtime, log, a, e);
}

static int probe_start(struct sandbox_spec spec, const char *program, struct arena *a,
                       struct err *e)
{
	const char *const command[] = { program, "--version", NULL };
	struct words args = { .a = a };
	spec.command = command;
	const char **argv = sandbox_argv(&spec, a, e);
	if (!argv)
		return -1;
	if (spec.runtime && !spec.image) /* as a task: its rights may differ from ours */
		WORDS_ADD(&args, spec.runtime, "exec");
	words_add_all(&args, argv);
	return probe_run(spec.runtime, args.v, a, e);
}

int sandbox_probe(const char *runtime, struct err *e)
{
	ARENA_AUTO a = { 0 };
	return probe_start((struct sandbox_spec){ .runtime = runtime }, program_find("bwrap", &a),
	                   &a, e);
}

/* The image is an empty directory, in which the runtime is shown, and the libraries of one that is
 * not static. */
static int probe_overlay(const char *runtime, const char *dir, struct arena *a, struct err *e)
{
	static const char *const NAMES[] = { "rootfs", "upper", "work", "merged" };
	static const char *const LIBRARIES[] = { "/usr", "/lib", "/lib64" };
	static const char PROGRAM[] = "/pai-runtime";
	const char *dirs[4];
	for (size_t i = 0; i < 4; i++) {
		dirs[i] = arena_printf(a, "%s/%s", dir, NAMES[i]);
		if (mkdir(dirs[i], 0700) != 0)
			return err_set(e, UNAVAILABLE, "%s: %s", dirs[i], strerrordesc_np(errno));
	}
	const struct sandbox_image image = { dirs[0], dirs[1], dirs[2], dirs[3] };
	struct sandbox_mount mount[4] = { { .source = runtime, .path = PROGRAM } };
	struct sandbox_spec spec = {
		.runtime = runtime, .image = &image, .mounts = mount, .mounts_n = 1
	};
	for (size_t i = 0; i < 3; i++) {
		if (access(LIBRARIES[i], F_OK) == 0)
			mount[spec.mounts_n++] =
			    (struct sandbox_mount){ .source = LIBRARIES[i], .path = LIBRARIES[i] };
	}
	return probe_start(spec, PROGRAM, a, e);
}

int sandbox_probe_overlay(const char *runtime, const char *dir, struct err *e)
{
	ARENA_AUTO a = { 0 };
	char *probe = arena_printf(&a, "%s/probe-XXXXXX", dir);
	if (mkdtemp(probe) == NULL)
		return err_set(e, UNAVAILABLE, "%s: %s", probe, strerrordesc_np(errno));
	int rc = probe_overlay(runtime, probe, &a, e);
	(void)tree_remove(AT_FDCWD, probe, 1000);
	return rc;
}
