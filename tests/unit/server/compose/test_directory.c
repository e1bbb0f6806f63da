/* The files of a directory as an archive: with git, without it, and what is refused. */

#include "tests/unit/base/cmocka.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/code/code.h"
#include "base/posix/child.h"
#include "base/posix/fd.h"
#include "server/compose/compose.h"

enum { TOLD_MAX = 4 << 20 };

static char path_before[4096];
static const char *results_name; /* of pack() */

static void set_variable(const char *name, const char *value)
{
	assert_int_equal(setenv(name, value, 1), 0); /* NOLINT(concurrency-mt-unsafe): one thread */
}

FIXTURE(make_top)
{
	(void)snprintf(path_before, sizeof(path_before), "%s",
	               getenv("PATH")); /* NOLINT(concurrency-mt-unsafe): one thread */
	set_variable("GIT_CONFIG_GLOBAL", "/dev/null");
	set_variable("GIT_CONFIG_NOSYSTEM", "1");
	return 0;
}

FIXTURE(remove_top)
{
	set_variable("PATH", path_before);
	(void)unsetenv("GIT_DIR"); /* NOLINT(concurrency-mt-unsafe): one thread */
	return 0;
}

/* Runs a script in the directory. */
static void shell(const char *script)
{
	FREE_AUTO char *text = xasprintf(
	    "set -e; git() { command git -c user.name=a -c user.email=a@b \"$@\"; }\n%s", script);
	const char *const argv[] = { "sh", "-c", text, NULL };
	int status = child_call(&(struct child_command){ .argv = argv, .dir = unit_path("") });
	if (status != 0)
		fail_msg("%d: %s", status, script);
}

static int told_entry(void *arg, const struct code_entry *entry, struct err *e)
{
	static const char *const MARKS[] = { "", "/", "@" };
	(void)e;
	str_printf(arg, "%s%s%s%s", ((struct str *)arg)->n ? " " : "", entry->path,
	           MARKS[entry->kind], entry->executable ? "*" : "");
	return 0;
}

/* Packs a directory below the top and reads it again.  0, or the status of the error. */
static int pack(const char *below, struct str *told, struct code_pack *out, struct notes *warnings,
                struct err *e)
{
	static const struct code_room ROOM = { 1 << 20, 3 << 20, 50 };
	const struct code_limits limits = { CODE_ENTRIES, 3 << 20 };
	FREE_AUTO char *name = xasprintf("%s%s", unit_path(""), below);
	if (directory_pack(name, results_name, &ROOM, out, warnings, e) < 0) {
		assert_null(out->packed.p);
		return e->http;
	}
	struct code_facts facts;
	struct code_reader *r =
	    code_reader_new(&limits, &(struct code_sink){ told_entry, NULL, told });
	assert_int_equal(code_reader_feed(r, str_view(&out->packed), e), 0);
	str_done(&out->packed);
	assert_int_equal(code_reader_end(r, &facts, e), 0);
	code_reader_free(r);
	assert_string_equal(facts.sha256, out->facts.sha256);
	return 0;
}

static struct code_pack assert_packed(const char *below, const char *want)
{
	NOTES_AUTO warnings = { 0 };
	STR_AUTO told = STR_INIT(TOLD_MAX);
	struct code_pack out;
	if (pack(below, &told, &out, &warnings, no_err()) != 0)
		fail_msg("%s", err_msg(&unit.e));
	assert_string_equal(str_c(&told), want);
	return out;
}

/* Each text is part of an error, and there are no others. */
static void assert_refused(const char *below, int http, const char *const texts[])
{
	NOTES_AUTO warnings = { 0 };
	STR_AUTO told = STR_INIT(TOLD_MAX);
	struct code_pack out;
	size_t n = 0;
	assert_int_equal(pack(below, &told, &out, &warnings, no_err()), http);
	for (; texts[n]; n++) {
		size_t found = 0;
		for (size_t i = 0; i < unit.e.notes.n; i++)
			found += strstr(unit.e.notes.v[i].msg, texts[n]) != NULL;
		if (!found)
			fail_msg("%s: %s", texts[n], err_msg(&unit.e));
	}
	assert_int_equal(unit.e.notes.n, n);
}
#define REFUSED(...) ((const char *const[]){ __VA_ARGS__, NULL })

TEST_WITH(test_directory_without_git_has_all_files, make_top, remove_top)
{
	shell("mkdir -p b/c empty b/.git; touch b/c/x .hidden b-a; echo 1 >z; chmod 700 z;"
	      "ln -s z l; ln -s ../z b/up; chmod 0 b/c/x; chmod 600 b/c/x");
	struct code_pack one = assert_packed("", ".hidden b/ b/c/ b/c/x b/up@ b-a empty/ l@ z*");
	assert_string_equal(one.commit, "");
	assert_false(one.changed);
	/* Times, and modes of others, do not matter. */
	shell("touch -d 2001-01-01 z b-a b; chmod 755 z; chmod 644 b/c/x");
	struct code_pack two = assert_packed("", ".hidden b/ b/c/ b/c/x b/up@ b-a empty/ l@ z*");
	assert_string_equal(one.facts.sha256, two.facts.sha256);
	shell("chmod 644 z");
	two = assert_packed("", ".hidden b/ b/c/ b/c/x b/up@ b-a empty/ l@ z");
	assert_string_not_equal(one.facts.sha256, two.facts.sha256);
	(void)assert_packed("/empty", "");
}

TEST_WITH(test_directory_in_git_has_the_files_that_git_lists, make_top, remove_top)
{
	shell("git init -q; echo '*.o' >.gitignore; mkdir -p sub/deep build; touch a.o sub/t "
	      "sub/deep/u "
	      "gone build/x.o; git add .gitignore sub gone");
	struct code_pack out = assert_packed("", ".gitignore gone sub/ sub/deep/ sub/deep/u sub/t");
	assert_string_equal(out.commit, "");
	assert_false(out.changed && out.commit[0]);
	shell("git commit -qm x; git rev-parse HEAD >.git/want");
	out = assert_packed("", ".gitignore gone sub/ sub/deep/ sub/deep/u sub/t");
	char want[65] = "";
	const char *file = unit_path(".git/want");
	assert_int_equal(fd_read_at(AT_FDCWD, file, want, sizeof(want)), 41);
	want[40] = '\0';
	assert_string_equal(out.commit, want);
	assert_false(out.changed);
	/* Only its own files, and changes, of a directory below the top. */
	set_variable("GIT_DIR", "/nowhere"); /* as in a hook of another repository */
	shell("rm gone");
	assert_true(assert_packed("", ".gitignore sub/ sub/deep/ sub/deep/u sub/t").changed);
	out = assert_packed("/sub", "deep/ deep/u t");
	assert_string_equal(out.commit, want);
	assert_false(out.changed);
	shell("echo new >sub/n");
	assert_true(assert_packed("/sub", "deep/ deep/u n t").changed);
	/* What is not sent is no change. */
	shell("echo n >>.git/info/exclude");
	assert_false(assert_packed("/sub", "deep/ deep/u t").changed);
	/* A directory became a link: what is behind it is not listed. */
	shell("mv sub/deep build/deep; ln -s ../build/deep sub/deep");
	(void)assert_packed("", ".gitignore build/ build/deep/ build/deep/u sub/ sub/deep@ sub/t");
}

TEST_WITH(test_directory_in_a_merge_has_each_file_once, make_top, remove_top)
{
	shell("git init -q -b m; echo 1 >a; git add a; git commit -qm 1; git checkout -qb o; echo "
	      "2 >a; "
	      "git commit -qam 2; git checkout -q m; echo 3 >a; git commit -qam 3; git merge -q o "
	      ">/dev/null || true");
	assert_true(assert_packed("", "a").changed);
}

TEST_WITH(test_directory_leaves_secrets_out_with_a_warning, make_top, remove_top)
{
	static const char *const WANT[] = { ".env", ".netrc", "id_rsa", "k/a.pem" };
	NOTES_AUTO warnings = { 0 };
	STR_AUTO told = STR_INIT(TOLD_MAX);
	struct code_pack out;
	shell("mkdir k id_dir; touch .env .netrc id_rsa k/a.pem k/envy id_dir/x");
	assert_int_equal(pack("", &told, &out, &warnings, no_err()), 0);
	assert_string_equal(str_c(&told), "id_dir/ id_dir/x k/ k/envy");
	assert_int_equal(warnings.n, 4);
	for (size_t i = 0; i < 4; i++) {
		size_t found = 0;
		FREE_AUTO char *text = xasprintf(
		    "\"%s\" may be a secret and is not sent; git add it, or write !%s into "
		    ".rest-litignore, to send it",
		    WANT[i], WANT[i]);
		for (size_t k = 0; k < 4; k++)
			found += strcmp(warnings.v[k].msg, text) == 0;
		assert_int_equal(found, 1);
	}
	shell("git init -q; git add .env; echo '!id_rsa' >.rest-litignore");
	told.n = 0;
	notes_done(&warnings);
	warnings = (struct notes){ 0 };
	assert_int_equal(pack("", &told, &out, &warnings, no_err()), 0);
	assert_string_equal(str_c(&told), ".env .rest-litignore id_dir/ id_dir/x id_rsa k/ k/envy");
	assert_int_equal(warnings.n, 2);
}

TEST_WITH(test_directory_leaves_environments_out_with_a_note, make_top, remove_top)
{
	shell("mkdir -p a/venv/bin a/venv/lib conda/conda-meta conda/bin; ln -s /usr/bin/python3 "
	      "a/venv/bin/python; touch a/x a/venv-not a/venv/pyvenv.cfg a/venv/lib/y conda/bin/z");
	for (int git = 0; git < 2; git++) {
		NOTES_AUTO warnings = { 0 };
		STR_AUTO told = STR_INIT(TOLD_MAX);
		struct code_pack out;
		assert_int_equal(pack("", &told, &out, &warnings, no_err()), 0);
		assert_string_equal(str_c(&told), "a/ a/venv-not a/x");
		assert_int_equal(warnings.n, 2 - git);
		const char *first = warnings.v[0].msg;
		const char *venv = strstr(first, "a/venv") || git ? first : warnings.v[1].msg;
		assert_string_equal(venv, "\"a/venv\" is an environment of Python or conda and is "
		                          "not sent; tasks use the packages of their image or "
		                          "machine");
		shell("echo conda/ >.gitignore; git init -q; echo .gitignore >>.git/info/exclude");
	}
	/* What git tracks is sent, or refused, as it is. */
	shell("rm -r a/venv/bin conda .gitignore; git add -A");
	(void)assert_packed("",
	                    "a/ a/venv/ a/venv/lib/ a/venv/lib/y a/venv/pyvenv.cfg a/venv-not a/x");
	/* A rule that leaves it out anyway needs no note. */
	NOTES_AUTO none = { 0 };
	STR_AUTO told = STR_INIT(TOLD_MAX);
	struct code_pack out;
	shell("rm -rf .git; echo venv/ >.rest-litignore");
	assert_int_equal(pack("", &told, &out, &none, no_err()), 0);
	assert_int_equal(none.n, 0);
}

TEST_WITH(test_directory_leaves_out_what_rest_litignore_says, make_top, remove_top)
{
	/* git itself gives the same for these lines (as .gitignore, with nothing tracked). */
	static const struct {
		const char *lines, *want;
	} CASES[] = {
		{ "", "a.log d/ d/a.log d/e/ d/e/a.log d/e/f x[1] y" },
		{ "# no\n\n*.log\n", "d/ d/e/ d/e/f x[1] y" },
		{ "/*.log\r\n", "d/ d/a.log d/e/ d/e/a.log d/e/f x[1] y" },
		{ "*.log\n!/d/e/a.log", "d/ d/e/ d/e/a.log d/e/f x[1] y" },
		{ "d/\n!d/e/f\n", "a.log x[1] y" },
		{ "e/\ny/", "a.log d/ d/a.log x[1] y" },
		{ "e", "a.log d/ d/a.log x[1] y" },
		{ "d/e", "a.log d/ d/a.log x[1] y" },
		{ "/e", "a.log d/ d/a.log d/e/ d/e/a.log d/e/f x[1] y" },
		{ "d/*", "a.log d/ x[1] y" },
		{ "d/**", "a.log d/ x[1] y" },
		{ "**/a.log", "d/ d/e/ d/e/f x[1] y" },
		{ "d/**/a.log", "a.log d/ d/e/ d/e/f x[1] y" },
		{ "d/*/f", "a.log d/ d/a.log d/e/ d/e/a.log x[1] y" },
		{ "[xz]?1?\n\\y", "a.log d/ d/a.log d/e/ d/e/a.log d/e/f" },
		{ "*\n!y", "y" },
		{ "/", "a.log d/ d/a.log d/e/ d/e/a.log d/e/f x[1] y" },
	};
	shell("mkdir -p d/e; touch a.log d/a.log d/e/a.log d/e/f 'x[1]' y");
	for (int git = 0; git < 2; git++) {
		for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
			FREE_AUTO char *lines = xasprintf("%s\n/.rest-litignore\n", CASES[i].lines);
			(void)unit_file(".rest-litignore", span_of(lines));
			/* git does not know empty directories. */
			bool empty = git && strcmp(CASES[i].want, "a.log d/ x[1] y") == 0;
			const char *want = empty ? "a.log x[1] y" : CASES[i].want;
			(void)assert_packed("", want);
		}
		shell("git init -q; git add -A");
	}
}

TEST_WITH(test_directory_refuses_what_cannot_be_sent, make_top, remove_top)
{
	shell("mkdir d; mkfifo d/fifo; ln -s /etc/passwd a; ln -s ../x d/l; ln -s d/../y b; ln -s "
	      "../.. "
	      "d/up; touch \"$(printf 'n\\nl')\"");
	assert_refused("", 400,
	               REFUSED("/.rest-litignore leave files out): entry \"",
	                       "entry \"a\": the link to \"/etc/passwd\" leaves the directory",
	                       "entry \"d/up\": the link to \"../..\" leaves",
	                       "entry \"b\": the link to \"d/../y\" leaves",
	                       "entry \"d/fifo\": it is a device, socket or FIFO"));
	shell("printf 'n?l\\nd/fifo\\na\\nb\\nd/up\\n' >.rest-litignore");
	(void)assert_packed("", ".rest-litignore d/ d/l@");
	assert_refused("/none", 400, REFUSED("/none: No such file or directory"));
	assert_refused("/.rest-litignore", 400, REFUSED("/.rest-litignore: Not a directory"));
}

TEST_WITH(test_directory_refuses_files_of_other_repositories, make_top, remove_top)
{
	shell("git init -q; mkdir other new; cd other; git init -q; touch f; git add f; git commit "
	      "-qm x;"
	      "cd ../new; git init -q; touch g; git add g; git commit -qm x; cd ..;"
	      "git -c protocol.file.allow=always submodule --quiet add ./other lib 2>/dev/null; "
	      "touch h");
	assert_refused(
	    "", 400,
	    REFUSED("entry \"lib\": it is a submodule, or another repository, whose files "
	            "git does not list",
	            "entry \"new\": it is a submodule", "entry \"other\": it is a submodule"));
	shell("printf 'lib\\nnew/\\n/other\\n' >.rest-litignore");
	(void)assert_packed("", ".gitmodules .rest-litignore h");
}

TEST_WITH(test_directory_gives_the_words_of_git, make_top, remove_top)
{
	shell("mkdir .git; touch a");
	assert_refused("", 400, REFUSED("git ls-files: fatal: not a git repository"));
	shell("mkdir none; rmdir .git; git init -q");
	set_variable("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1");
	assert_refused(
	    "/none", 400,
	    REFUSED("git ls-files: fatal: detected dubious ownership in repository at "));
	set_variable("GIT_TEST_ASSUME_DIFFERENT_OWNER", "0");
	const char *none = unit_path("none");
	set_variable("PATH", none);
	assert_refused(
	    "/none", 400,
	    REFUSED("/.git, and there is no program git, which knows its files: install git, "
	            "or send a copy of the files"));
}

TEST_WITH(test_directory_runs_no_program_of_a_repository, make_top, remove_top)
{
	shell("git init -q; echo 1 >a; git add a; git commit -qm 1; printf '#!/bin/sh\\ntouch "
	      "'$PWD/ran >.git/monitor; chmod 755 .git/monitor; git config core.fsmonitor "
	      ".git/monitor");
	(void)assert_packed("", "a");
}

TEST_WITH(test_directory_names_a_file_that_changes, NULL, NULL)
{
	static const struct code_room ROOM = { 1 << 20, 1 << 20, 1000 };
	NOTES_AUTO warnings = { 0 };
	struct code_pack out;
	/* Files with size 0, and bytes in them. */
	assert_int_equal(
	    directory_pack("/proc/self/fdinfo", NULL, &ROOM, &out, &warnings, no_err()), -1);
	assert_int_equal(unit.e.http, 400);
	assert_non_null(strstr(err_msg(&unit.e),
	                       "--code: \"0\" has changed while it was read: try again, "
	                       "or leave it out by a line of .rest-litignore"));
}

TEST_WITH(test_directory_names_a_file_that_cannot_be_read, make_top, remove_top)
{
	shell("echo 1 >f; chmod 0 f");
	if (geteuid() != 0) /* who may read everything */
		assert_refused("", 400, REFUSED("--code: \"f\" cannot be read: Permission denied"));
}

TEST_WITH(test_directory_that_is_too_large_is_refused_with_its_largest_files, make_top, remove_top)
{
	shell("mkdir d; head -c 4000000 /dev/zero >d/big; head -c 50000 /dev/zero >two; head -c 3 "
	      "two "
	      ">three; touch 0 1 2 3");
	assert_refused(
	    "", 413,
	    REFUSED(": the server takes at most 3 MiB; the largest files are \"d/big\" (3.8 MiB), "
	            "\"two\" (0.0 MiB), \"three\" (0.0 MiB), \""));
	shell("rm d/big; head -c 1200000 /dev/urandom >d/random");
	assert_refused(
	    "", 413,
	    REFUSED(": the server takes at most 1 MiB of compressed files; the largest files "
	            "are \"d/random\" (1.1 MiB), \"two\""));
	shell("rm d/random; for i in $(seq 50); do echo >e$i; done");
	assert_refused("", 413,
	               REFUSED(": the server takes at most 50 files and directories; the "));
}

TEST_WITH(test_directory_sends_no_results, make_top, remove_top)
{
	static const char *const GIT[] = { "",
		                           "git init -q . && git add results && git commit -qm a" };
	shell("mkdir -p results/old a/results; echo x >results/old/m; echo y >a/results/m; "
	      "echo >results.txt");
	for (size_t i = 0; i < ARRAY_SIZE(GIT); i++) {
		STR_AUTO told = STR_INIT(TOLD_MAX);
		STR_AUTO all = STR_INIT(TOLD_MAX);
		NOTES_AUTO warnings = { 0 };
		NOTES_AUTO none = { 0 };
		struct code_pack out;
		shell(GIT[i]);
		results_name = "results";
		assert_int_equal(pack("", &told, &out, &warnings, no_err()), 0);
		results_name = NULL;
		assert_string_equal(str_c(&told), "a/ a/results/ a/results/m results.txt");
		assert_int_equal(warnings.n, 1); /* not one for each file */
		assert_non_null(strstr(warnings.v[0].msg, "\"results\" is where the job has its"));
		assert_int_equal(pack("", &all, &out, &none, no_err()), 0);
		assert_non_null(strstr(str_c(&all), "results/old/m"));
		assert_int_equal(none.n, 0);
	}
}
