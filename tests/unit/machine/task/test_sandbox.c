/* The sandbox: plans over a fake tree, and real sandboxes where bubblewrap works. */
/* cmocka wants these four first */
#include "tests/unit/base/cmocka.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/posix/child.h"
#include "base/posix/fd.h"
#include "base/posix/rmtree.h"
#include "machine/task/sandbox.h"

enum { RUN_MS = 60000, MOUNTS = 8 };

#define SHOW(from, to)                                                                             \
	{                                                                                          \
		.source = (from), .path = (to)                                                     \
	}

static char top[64]; /* of the tree; below /var/tmp, which is hidden like any other */
static const char *forbidden;
static char why[1024];

static struct arena arena;

static const char *at(const char *path)
{
	return arena_printf(&arena, "%s/%s", top, path);
}

static void make_file(const char *path, const char *text)
{
	int fd = open(at(path), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	(void)close(fd);
}

static void make_link(const char *target, const char *path)
{
	assert_int_equal(symlink(target, at(path)), 0);
}

FIXTURE(group_setup)
{
	(void)snprintf(top, sizeof(top), "/var/tmp/sandbox-test-XXXXXX");
	if (mkdtemp(top) == NULL)
		return -1;
	static const char *const DIRS[] = { "server", "server/pods", "server/pods/1",
		                            "job",    "job/deep",    "a b,c:d" };
	for (size_t i = 0; i < sizeof(DIRS) / sizeof(DIRS[0]); i++)
		(void)mkdir(at(DIRS[i]), 0755);
	make_file("server/secret", "secret");
	make_file("job/code", "code");
	make_file("file", "file");
	make_link("job", "link");
	make_link("nowhere", "dangling");
	make_link(at("server"), "job/out");
	ERR_AUTO e = { 0 };
	if (sandbox_probe(NULL, NULL, &e) != 0) {
		(void)snprintf(why, sizeof(why), "%s", err_msg(&e));
		(void)fprintf(stderr, "skipped, real sandboxes: %s\n", why);
		forbidden = why;
	}
	return 0;
}

FIXTURE(group_teardown)
{
	arena_done(&arena);
	return tree_remove(AT_FDCWD, top, 100000);
}

FIXTURE(teardown)
{
	arena_done(&arena);
	arena = (struct arena){ 0 };
	return 0;
}

static void expect(struct sandbox_spec spec, const char *script);

/* ---- the arguments ---- */

static const char *last_error;

/* NULL: refused. */
static const char **plan_of(struct sandbox_spec spec)
{
	static const char *const NOTHING[] = { "/bin/true", NULL };
	last_error = NULL;
	spec.command = NOTHING;
	const char **argv = sandbox_argv(&spec, &arena, no_err());
	if (argv == NULL && unit.e.http == 503)
		skip();
	if (argv == NULL) {
		assert_int_equal(unit.e.http, 400);
		last_error = arena_dup(&arena, span_of(err_msg(&unit.e)));
	}
	return argv;
}

static const struct {
	const char *option;
	size_t n;
} OPTIONS[] = { { "--ro-bind", 2 },  { "--ro-bind-try", 2 }, { "--bind", 2 },
	        { "--dev-bind", 2 }, { "--symlink", 2 },     { "--dir", 1 },
	        { "--proc", 1 },     { "--dev", 1 },         { "--tmpfs", 1 } };

/* Returns the path that an option and its words mount; NULL: the option mounts none. */
static const char *path_of(const char *const *option)
{
	for (size_t i = 0; i < sizeof(OPTIONS) / sizeof(OPTIONS[0]); i++) {
		if (strcmp(*option, OPTIONS[i].option) == 0)
			return option[OPTIONS[i].n];
	}
	return NULL;
}

/* The option that shows something at the path, and the words after it; NULL. */
static const char *const *op_at(const char *const *argv, const char *path)
{
	for (; *argv; argv++) {
		if (path_of(argv) && strcmp(path_of(argv), path) == 0)
			return argv;
	}
	return NULL;
}

static void shows(const char *const *argv, const char *path, const char *option)
{
	const char *const *found = op_at(argv, path);
	assert_string_equal(found ? *found : "nothing", option);
}

static void parents_come_first(const char *const *argv)
{
	for (; *argv; argv++) {
		size_t n = path_of(argv) ? strlen(path_of(argv)) : 0;
		for (const char *const *later = argv + 1; n > 0 && *later; later++) {
			const char *path = path_of(later);
			assert_false(path && strncmp(path_of(argv), path, strlen(path)) == 0 &&
			             path_of(argv)[strlen(path)] == '/');
		}
	}
}

static struct sandbox_spec one_mount(struct sandbox_mount m)
{
	struct sandbox_mount *copy = ARENA_NEW(&arena, struct sandbox_mount, 1);
	*copy = m;
	return (struct sandbox_spec){ .mounts = copy, .mounts_n = 1 };
}

TEST_WITH(test_plan_hides_private_directories, NULL, teardown)
{
	struct sandbox_spec spec = { 0 };
	const char **p = plan_of(spec);
	static const char *const HIDDEN[] = { "/tmp", "/var/tmp", "/run" };
	for (size_t i = 0; i < 3; i++)
		shows(p, HIDDEN[i], "--tmpfs");
	/* "/" itself is not mounted, but its entries are. */
	assert_null(op_at(p, "/"));
	shows(p, "/usr", "--ro-bind-try");
	shows(p, "/etc", "--ro-bind-try");
	shows(p, "/proc", "--proc");
	shows(p, "/dev/shm", "--tmpfs");
	parents_come_first(p);
}

TEST_WITH(test_plan_shows_a_directory_below_a_hidden_one, NULL, teardown)
{
	struct sandbox_spec spec = one_mount((struct sandbox_mount)SHOW(at("job"), at("job")));
	spec.cwd = at("job/deep");
	const char **p = plan_of(spec);
	shows(p, at("job"), "--ro-bind");
	assert_null(op_at(p, at("job/deep")));
	parents_come_first(p);
	/* A working directory that does not exist is made. */
	spec.cwd = at("other/dir");
	p = plan_of(spec);
	shows(p, at("other/dir"), "--dir");
	spec.cwd = at("job/code");
	(void)plan_of(spec);
	assert_non_null(strstr(last_error, "no directory"));
}

TEST_WITH(test_plan_follows_links_of_sources, NULL, teardown)
{
	struct sandbox_spec spec = one_mount((struct sandbox_mount)SHOW(at("link"), at("link")));
	const char **p = plan_of(spec);
	/* The link itself is hidden with /var/tmp, so the path stays as it is. */
	assert_string_equal(op_at(p, at("link"))[1], at("job"));
}

TEST_WITH(test_plan_hides_inside_of_mounts, NULL, teardown)
{
	const char *hide[] = { at("server"), at("absent") };
	struct sandbox_spec spec =
	    one_mount((struct sandbox_mount){ .source = top, .path = "/data", .writable = true });
	spec.hide = hide;
	spec.hide_n = 2;
	const char **p = plan_of(spec);
	shows(p, "/data", "--bind");
	shows(p, "/data/server", "--tmpfs");
	assert_null(op_at(p, "/data/absent"));
	parents_come_first(p);
	assert_true(sandbox_hidden(at("job/out/pods"), hide, 2));
	assert_true(sandbox_hidden(at("server"), hide, 2));
	assert_false(sandbox_hidden(at("job"), hide, 2));
}

TEST_WITH(test_plan_makes_mount_points_in_read_only_directories, NULL, teardown)
{
	struct sandbox_mount mounts[] = { SHOW(at("job"), "/data"),
		                          SHOW(at("server"), "/data/new/x"),
		                          SHOW(at("file"), "/data/deep/file"),
		                          SHOW(at("a b,c:d"), "/data/deep/dir") };
	struct sandbox_spec spec = { .mounts = mounts, .mounts_n = 4 };
	const char **p = plan_of(spec);
	assert_null(last_error);
	shows(p, "/data", "--tmpfs");
	assert_null(op_at(p, "/"));
	shows(p, "/data/code", "--ro-bind-try");
	shows(p, "/data/out", "--symlink");
	shows(p, "/data/deep", "--tmpfs");
	shows(p, "/data/new/x", "--ro-bind");
	shows(p, "/tmp", "--tmpfs");
	parents_come_first(p);
}

TEST_WITH(test_plan_refuses_mounts_that_do_not_exist, NULL, teardown)
{
	const struct {
		struct sandbox_mount mount;
		const char *sentence;
	} CASES[] = {
		{ SHOW(at("absent"), "/x"), "cannot be found on this machine" },
		{ SHOW(at("dangling"), "/x"), "cannot be found on this machine" },
		{ SHOW("job", "/x"), "must begin with /" },
		{ SHOW(at("job"), "x"), "must begin with /" },
		{ SHOW(at("job"), "/"), "cannot be a mount point" },
		{ SHOW(at("job"), "/usr/.."), "cannot be a mount point" },
		{ SHOW(at("job"), "/dev"), "cannot be a mount point" },
		{ SHOW(at("job"), "/proc/1"), "cannot be a mount point" },
		{ SHOW(at("job"), "/etc/passwd"), "a file is there" },
		{ SHOW(at("job"), "/etc/passwd/x"), "is no directory" },
		{ SHOW(at("file"), "/usr"), "a directory is there" },
	};
	for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
		struct sandbox_spec spec = one_mount(CASES[i].mount);
		(void)plan_of(spec);
		assert_non_null(last_error);
		if (strstr(last_error, CASES[i].sentence) == NULL)
			fail_msg("%s", last_error);
	}
}

/* Root has no capabilities in a sandbox, so this is an error before a task starts. */
TEST_WITH(test_plan_refuses_a_directory_that_root_cannot_enter, NULL, teardown)
{
	if (geteuid() != 0)
		skip();
	(void)mkdir(at("closed"), 0755);
	(void)mkdir(at("closed/job"), 0755);
	struct sandbox_spec spec = one_mount((struct sandbox_mount)SHOW(at("closed/job"), "/data"));
	(void)plan_of(spec);
	assert_null(last_error);
	if (chown(at("closed"), 1, 1) != 0 || chmod(at("closed"), 0750) != 0)
		skip();
	(void)plan_of(spec);
	assert_non_null(strstr(last_error, "chmod o+x"));
	assert_int_equal(access(at("closed/job"), F_OK), 0); /* the capabilities are back */
	assert_int_equal(
	    open(at("closed/job/new"), O_CREAT | O_WRONLY | O_EXCL | O_CLOEXEC, 0600) >= 0, 1);
}

/* Another task could put a link at its place, now or while bubblewrap looks for it. */
TEST_WITH(test_plan_makes_no_mount_point_in_a_shared_mount, NULL, teardown)
{
	(void)mkdir(at("shared"), 0755);
	make_link("/usr/local", "shared/planted");
	struct sandbox_mount mounts[] = {
		{ .source = at("shared"), .path = "/data", .writable = true, .shared = true },
		SHOW(at("job"), "/data/dir"),
	};
	struct sandbox_spec spec = { .mounts = mounts, .mounts_n = 2 };
	static const char *const PATHS[] = { "/data/dir", "/data/planted", "/data/planted/x",
		                             "/data/planted/../y", "/dat/../data/dir" };
	for (size_t i = 0; i < sizeof(PATHS) / sizeof(PATHS[0]); i++) {
		mounts[1].path = PATHS[i];
		if (plan_of(spec) != NULL)
			fail_msg("%s", PATHS[i]);
		assert_non_null(strstr(last_error, "other tasks can change"));
	}
	/* The other one first, by a link of the machine. */
	mounts[1].path = "/bin/a/b";
	mounts[0].path = "/usr/bin/a";
	(void)plan_of(spec);
	assert_non_null(strstr(last_error, "other tasks can change"));
	/* A working directory is not made there, but may be there, also behind a link. */
	mounts[0].path = "/data";
	spec.mounts_n = 1;
	spec.cwd = "/data/new";
	(void)plan_of(spec);
	assert_non_null(strstr(last_error, "other tasks can change"));
	spec.cwd = "/data/planted";
	assert_non_null(plan_of(spec));
	/* It may be below other mounts, and beside them. */
	mounts[1] = mounts[0];
	mounts[0] = (struct sandbox_mount)SHOW(at("job"), "/data");
	mounts[1].path = "/data/code2";
	spec.mounts_n = 2;
	spec.cwd = NULL;
	assert_non_null(plan_of(spec));
}

TEST_WITH(test_plan_shows_empty_directories_without_mounts, NULL, teardown)
{
	(void)mkdir(at("tools"), 0755);
	(void)mkdir(at("tools/empty"), 0755);
	(void)mkdir(at("tools/full"), 0755);
	make_file("tools/full/x", "");
	(void)mkdir(at("tools/later"), 0755);
	struct sandbox_mount mounts[] = { SHOW(at("tools"), "/data"), SHOW(at("job"), "/data/new"),
		                          SHOW(at("tools/later"), "/data/later") };
	struct sandbox_spec spec = { .mounts = mounts, .mounts_n = 3 };
	const char **p = plan_of(spec);
	shows(p, "/data/empty", "--dir");
	shows(p, "/data/later", "--ro-bind"); /* it may get files */
	shows(p, "/data/full", "--ro-bind-try");
	parents_come_first(p);
}

/* Makes a directory that can only be entered, with a directory `x` in it. */
static const char *make_closed(const char *name)
{
	(void)mkdir(at(name), 0755);
	(void)mkdir(arena_printf(&arena, "%s/x", at(name)), 0755);
	if (geteuid() == 0)
		assert_int_equal(chown(at(name), 1, 1), 0);
	assert_int_equal(chmod(at(name), geteuid() == 0 ? 0711 : 0311), 0);
	return at(name);
}

TEST_WITH(test_plan_replaces_directories_that_cannot_be_read, NULL, teardown)
{
	const char *closed = make_closed("shut");
	struct sandbox_mount mounts[] = { SHOW(top, "/data"), SHOW(at("job"), "/data/shut/x") };
	struct sandbox_spec spec = { .mounts = mounts, .mounts_n = 2 };
	spec.cwd = "/data/shut/y";
	const char **p = plan_of(spec);
	assert_null(last_error);
	shows(p, "/data/shut", "--tmpfs");
	shows(p, "/data/shut/x", "--ro-bind");
	shows(p, "/data/shut/y", "--dir");
	parents_come_first(p);
	if (!forbidden)
		expect(spec,
		       "set -eu; test -e ../x/code; no touch ../new; test \"$(ls ..)\" = $'x\\ny'");
	/* What was asked for is not replaced. */
	mounts[0] = (struct sandbox_mount)SHOW(closed, "/data/shut");
	(void)plan_of(spec);
	assert_non_null(strstr(last_error, "/shut cannot be read by this user"));
	assert_non_null(strstr(last_error, "chmod o+r"));
	/* Above nothing but visible files it stays. */
	spec.mounts_n = 1;
	spec.cwd = NULL;
	assert_non_null(plan_of(spec));
}

TEST_WITH(test_plan_of_an_image_stays_inside_the_image, NULL, teardown)
{
	(void)mkdir(at("image"), 0755);
	make_link("/../../..//out", "image/abs");
	make_link("loop", "image/loop");
	struct sandbox_spec spec = one_mount((struct sandbox_mount)SHOW(at("job"), "/abs/x"));
	spec.rootfs = at("image");
	spec.overlay = top;
	const char **p = plan_of(spec);
	shows(p, "/", "--bind");
	assert_non_null(op_at(p, "/out/x"));
	assert_null(op_at(p, "/tmp"));
	spec = one_mount((struct sandbox_mount)SHOW(at("job"), "/loop/x"));
	spec.rootfs = at("image");
	spec.overlay = top;
	(void)plan_of(spec);
	assert_non_null(strstr(last_error, "leads nowhere"));
	make_link("/x", "image/dev");
	spec = (struct sandbox_spec){ .rootfs = at("image"), .overlay = top };
	(void)plan_of(spec);
	assert_non_null(strstr(last_error, "its /dev is a symbolic link"));
}

TEST_WITH(test_plan_refuses_too_many_mounts, NULL, teardown)
{
	enum { MANY = SANDBOX_ARGS_MAX / 4 };
	struct sandbox_mount *mounts = ARENA_NEW(&arena, struct sandbox_mount, MANY);
	for (size_t i = 0; i < MANY; i++)
		mounts[i].path = arena_printf(&arena, "/tmp/%zu", i);
	struct sandbox_spec spec = { .mounts = mounts, .mounts_n = MANY };
	(void)plan_of(spec);
	assert_non_null(strstr(last_error, "more than"));
	(void)mkdir(at("many"), 0755);
	for (size_t i = 0; i <= 1000 /* entries */; i++)
		make_file(arena_printf(&arena, "many/%zu", i), "");
	struct sandbox_mount two[] = { SHOW(at("many"), "/data"), SHOW(at("job"), "/data/x") };
	spec = (struct sandbox_spec){ .mounts = two, .mounts_n = 2 };
	(void)plan_of(spec);
	assert_non_null(strstr(last_error, "choose another path"));
}

/* ---- real ones ---- */

/* Runs `script` in bash; its output is in the arena. */
#define NO "no() { if \"$@\"; then exit 9; fi; }; "

static int run_script(struct sandbox_spec spec, const char *script, struct span *out)
{
	const char *command[] = { "/bin/bash", "-c", arena_printf(&arena, NO "%s", script), NULL };
	static const char *const NOTHING[] = { NULL };
	spec.command = command;
	const char **argv = sandbox_argv(&spec, &arena, no_err());
	if (argv == NULL)
		fail_msg("%s", err_msg(&unit.e));
	return child_run(&(struct child_command){ .argv = argv, .env = NOTHING }, RUN_MS, out,
	                 &arena, no_err());
}

static void expect(struct sandbox_spec spec, const char *script)
{
	struct span out;
	int status = run_script(spec, script, &out);
	if (status != 0)
		fail_msg("%d: %.*s", status, (int)out.n, out.p);
}

TEST_WITH(test_sandbox_hides_files_and_processes_of_the_machine, NULL, teardown)
{
	if (forbidden)
		skip();
	const char *hide[] = { at("server") };
	struct sandbox_mount mounts[] = {
		SHOW(at("link"), at("link")),
		{ .source = at("a b,c:d"), .path = "/usr/local/pai", .writable = true },
		{ .path = "/scratch", .size = 1 << 20 }
	};
	struct sandbox_spec spec = { .mounts = mounts, .mounts_n = 3, .hide = hide, .hide_n = 1 };
	spec.cwd = at("link");
	spec.memory = 2 << 20;
	expect(spec,
	       arena_printf(&arena,
	                    "set -eux; test \"$PWD\" = %s/link; test $$ = 1\n"
	                    "test \"$(cat code)\" = code\n"
	                    "no test -e %s/server/secret; no test -e %s/file\n"
	                    "no touch code; no touch /usr/local/x; no touch /etc/x; no touch /x\n"
	                    "no touch /dev/x\n"
	                    "echo made >/usr/local/pai/made; touch /tmp/x /dev/shm/x\n"
	                    "no dd if=/dev/zero of=/scratch/x bs=1M count=2\n"
	                    "no dd if=/dev/zero of=/dev/shm/y bs=1M count=3\n"
	                    "no dd if=/dev/zero of=%s/server/y bs=1M count=3\n"
	                    "test $(ls -d /proc/[0-9]* | wc -l) -le 9\n"
	                    "grep -q '^CapEff:.0000000000000000' /proc/self/status\n"
	                    "grep -q '^NoNewPrivs:.1' /proc/self/status\n"
	                    "no grep -E 'sd|vd|nvidia|fuse|kmsg|mem' <<<\"$(ls /dev)\"\n"
	                    "no touch /sys/kernel/x; ",
	                    top, top, top, top));
	struct stat st;
	assert_int_equal(stat(at("a b,c:d/made"), &st), 0);
}

/* The root has the entries of the machine and of the mounts, each of the same type. */
TEST_WITH(test_sandbox_shows_the_root_of_the_machine, NULL, teardown)
{
	if (forbidden)
		skip();
	struct sandbox_mount mount = SHOW(at("job"), "/shown-by-a-test");
	struct sandbox_spec spec = { .mounts = &mount, .mounts_n = 1 };
	STR_AUTO wanted = STR_INIT(1 << 16);
	DIR_AUTO *d = opendir("/");
	struct stat st;
	for (const char *name; (name = dir_next(d)) != NULL;) {
		const char *path = arena_printf(&arena, "/%s", name);
		if (lstat(path, &st) == 0)
			str_printf(&wanted, "test -%c '%s'; ",
			           S_ISLNK(st.st_mode)   ? 'L'
			           : S_ISDIR(st.st_mode) ? 'd'
			                                 : 'e',
			           path);
	}
	str_puts(&wanted,
	         "set -- /* /.[!.]*; for i; do case $i in /shown-by-a-test|'/.[!.]*') ;; ");
	rewinddir(d);
	for (const char *name; (name = dir_next(d)) != NULL;)
		str_printf(&wanted, "'/%s') ;; ", name);
	str_puts(&wanted, "*) echo \"$i is new\"; exit 1;; esac; done; test -s /usr/bin/env; "
	                  "test -s /etc/passwd; touch /run/x /home/x /var/tmp/x; no touch /var/x");
	expect(spec, arena_printf(&arena, "set -eu; %s", str_c(&wanted)));
}

TEST_WITH(test_sandbox_has_the_user_and_its_devices, NULL, teardown)
{
	if (forbidden)
		skip();
	struct sandbox_mount device = { .source = "/dev/zero",
		                        .path = "/dev/gpu0",
		                        .device = true };
	struct sandbox_spec spec = { .mounts = &device, .mounts_n = 1 };
	expect(spec, arena_printf(&arena, "test $(id -u) = %u && head -c 1 /dev/gpu0 >/dev/null",
	                          (unsigned)geteuid()));
}

TEST_WITH(test_sandbox_passes_exit_codes_on, NULL, teardown)
{
	if (forbidden)
		skip();
	struct span out;
	struct sandbox_spec spec = { 0 };
	assert_int_equal(run_script(spec, "exit 7", &out), 7);
	assert_int_equal(run_script(spec, "bash -c 'kill -9 $$'; exit $?", &out), 137);
	spec.mounts = &(struct sandbox_mount)SHOW(at("job"), "/data");
	spec.mounts_n = 1;
	assert_int_equal(run_script(spec, "cat /data/code >&2", &out), 0);
	assert_true(span_is(out, "code"));
}

TEST_WITH(test_sandbox_of_an_image_runs_in_its_root, NULL, teardown)
{
	if (forbidden)
		skip();
	char cwd[256];
	const char *runtime =
	    getcwd(cwd, sizeof(cwd)) ? arena_printf(&arena, "%s/build/pai-runtime", cwd) : "";
	if (access(runtime, X_OK) != 0 || sandbox_probe(runtime, top, no_err()) != 0) {
		(void)fprintf(stderr, "skipped, overlay: %s\n",
		              *runtime ? err_msg(&unit.e) : "no program");
		skip();
	}
	static const char *const DIRS[] = { "i", "i/root", "i/o,v:er lay" };
	for (size_t i = 0; i < 3; i++)
		(void)mkdir(at(DIRS[i]), 0755);
	make_file("i/root/hello", "hello");
	struct sandbox_mount mounts[] = { SHOW("/usr", "/usr"), SHOW("/bin", "/bin"),
		                          SHOW("/lib", "/lib"), SHOW("/lib64", "/lib64") };
	struct sandbox_spec spec = { .runtime = runtime,
		                     .rootfs = at("i/root"),
		                     .overlay = at("i/o,v:er lay"),
		                     .mounts = mounts };
	spec.mounts_n = access("/lib64", F_OK) == 0 ? 4 : 3;
	spec.cwd = "/made/dir";
	expect(spec,
	       "set -eux; test $(id -u) = 0; test $(id -g) = 0; test \"$PWD\" = /made/dir; test "
	       "\"$(cat /hello)\" = hello\n"
	       "test -O /hello; echo other >/hello; echo new >/new; test -s /etc/resolv.conf\n"
	       "no test -e /home; no test -e /var\n");
	struct stat st;
	assert_int_equal(stat(at("i/o,v:er lay/upper/new"), &st), 0);
	assert_int_equal(stat(at("i/root/new"), &st), -1);
	assert_int_equal(stat(at("i/root/hello"), &st), 0);
	assert_int_equal(st.st_size, 5);
}

/* ---- trees ---- */

TEST_WITH(test_tree_remove_is_bounded_and_follows_no_links, NULL, teardown)
{
	(void)mkdir(at("tree"), 0755);
	make_link(at("job"), "tree/link");
	(void)mkfifo(at("tree/fifo"), 0600);
	int fd = open(at("tree"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < 3000; i++) {
		assert_int_equal(mkdirat(fd, "d", 0755), 0);
		int next = openat(fd, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_true(next >= 0);
		if (i % 1000 == 999)
			(void)fchmod(fd, 0);
		(void)close(fd);
		fd = next;
	}
	(void)close(fd);
	(void)chmod(at("tree"), 0);
	unsigned steps = 0;
	int rc;
	do {
		rc = tree_remove(AT_FDCWD, at("tree"), 100);
		steps++;
	} while (rc == 1);
	assert_int_equal(rc, 0);
	assert_true(steps > 30);
	struct stat st;
	assert_int_equal(lstat(at("tree"), &st), -1);
	assert_int_equal(stat(at("job/code"), &st), 0);
	assert_int_equal(tree_remove(AT_FDCWD, at("absent"), 100), 0);
	assert_int_equal(tree_remove(AT_FDCWD, at("file/x"), 100), -1);
	assert_int_equal(errno, ENOTDIR);
}

/* clang-format on */

TEST_GROUP(group_setup, group_teardown)
