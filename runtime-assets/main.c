/* pai-runtime: one program, a table of commands. */
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>
#include <yaml.h>
#include <zlib.h>
#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif

#include "runtime-assets/common/cmdline.h"
#include "runtime-assets/init/init.h"
#include "runtime-assets/net/http.h"

#if defined(__x86_64__)
#define PROCESSOR "x86-64"
#elif defined(__aarch64__)
#define PROCESSOR "arm64"
#elif defined(__powerpc64__)
#define PROCESSOR "ppc64"
#else
#define PROCESSOR "other processor"
#endif

static void put_version(struct str *out)
{
	/* rest-lit finds the version in the file: server/config/elf_check.c. */
	str_printf(out, "pai-runtime " REST_LIT_VERSION ", %s\n", PROCESSOR);
#if defined(__GLIBC__)
	str_printf(out, "glibc %s", gnu_get_libc_version());
#elif defined(MUSL_VERSION)
	str_puts(out, "musl " MUSL_VERSION);
#endif
	str_printf(out, ", libyaml %s, zlib %s, mbedTLS %s", yaml_get_version_string(),
	           zlibVersion(), MBEDTLS_VERSION);
#ifdef DROPBEAR_VERSION
	str_puts(out, ", dropbear " DROPBEAR_VERSION);
#endif
	str_char(out, '\n');
	str_printf(out, "TLS: %s\n", TLS_SPOKEN);
}

static void put_paths(struct str *out)
{
	ARENA_AUTO a = { 0 };
	struct layout l;
	layout_init(&l, "", &a);
	const struct {
		const char *what, *path;
	} PATHS[] = {
		{ "work directory", l.work },        { "logs", l.logs },
		{ "exit specification", l.config },  { "service account", l.account },
		{ "secrets of the job", l.secrets }, { "termination message", l.termination },
	};
	for (size_t i = 0; i < ARRAY_SIZE(PATHS); i++)
		str_printf(out, "%-20s %s\n", PATHS[i].what, PATHS[i].path);
}

/* The path shows the origin of the program. */
static void put_origin(struct str *out)
{
	static const struct {
		const char *path, *origin;
	} PLACES[] = {
		{ "/pai-runtime", "from its image" },
		{ "/usr/local/pai-bin/pai-runtime", "from a ConfigMap" },
		{ "/usr/local/pai/runtime", "put there by init" },
	};
	char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
	if (n < 0)
		return; /* no /proc */
	path[n] = '\0';
	const char *origin = "";
	for (size_t i = 0; i < ARRAY_SIZE(PLACES); i++) {
		if (strcmp(path, PLACES[i].path) == 0)
			origin = PLACES[i].origin;
	}
	str_printf(out, "%-20s %s%s%s\n", "this program", path, *origin ? ", " : "", origin);
}

static const char VERSION_USAGE[] =
    "usage: pai-runtime version\n\n"
    "Prints the version, the libraries, the origin and the paths.\n";

static int main_cmd_version(int argc, char **argv)
{
	if (argc > 1)
		return args_misused(argv[0], argv[1]);
	STR_AUTO out = STR_INIT(4096);
	put_version(&out);
	put_origin(&out);
	put_paths(&out);
	(void)fputs(str_c(&out), stdout);
	return fflush(stdout) == 0 ? 0 : 1;
}

/* exec PROGRAM ARGUMENTS...: rest-lit tries with it what a program that pai-runtime starts may do.
 */
static int main_cmd_exec(int argc, char **argv)
{
	if (argc > 1)
		(void)execv(argv[1], argv + 1);
	perror("pai-runtime exec");
	return 127;
}

/*
 * A static program with musl has no loader that makes relocated tables read-only (RELRO), so it
 * does that itself.  It has no effect with glibc.
 */
static int relro_protect(struct dl_phdr_info *program, size_t size, void *unused)
{
	(void)size;
	(void)unused;
	uintptr_t page = getauxval(AT_PAGESZ);
	for (unsigned i = 0; i < program->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &program->dlpi_phdr[i];
		if (part->p_type != PT_GNU_RELRO)
			continue;
		uintptr_t from = program->dlpi_addr + part->p_vaddr;
		uintptr_t to = (from + part->p_memsz) & -page;
		from &= -page;
		/* NOLINTNEXTLINE(performance-no-int-to-ptr) */
		if (to > from && mprotect((void *)from, to - from, PROT_READ) != 0)
			break; /* hardening only */
	}
	return 1; /* only the first object: the program itself */
}

static int main_cmd_init(int argc, char **argv)
{
	return init_main(argc, argv, &INIT_PLUGINS, NULL, NULL);
}

static const struct runtime_command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *usage; /* NULL: the command prints it */
	const char *help;  /* NULL: not for users */
} COMMANDS[] = {
	{ "init", main_cmd_init, NULL,
	  "prepare the pod: wait for all tasks, environment, plugins" },
	{ "run", cmd_run_task, RUN_USAGE,
	  "run the prepared command, keep its logs, explain its failure" },
	{ "exit", cmd_exit, EXIT_USAGE,
	  "explain an exit code by the logs, as run does at the end" },
	{ "sshd", cmd_sshd, SSHD_USAGE, "plugin ssh: configure and start sshd" },
	{ "ssh-barrier", cmd_ssh_barrier, BARRIER_USAGE,
	  "plugin ssh: wait until all tasks can be reached" },
	{ "git-move", cmd_git_move, CLONE_USAGE,
	  "plugin git: clone a repository into a directory" },
	{ "check-api", cmd_check_api, CHECK_USAGE,
	  "check the access of this pod to the API server" },
	{ "mount-overlay", cmd_mount_overlay, NULL, NULL }, /* for images on one machine */
	{ "exec", main_cmd_exec, NULL, NULL },
	{ "shim", cmd_shim, NULL, NULL }, /* rest-lit starts it on a machine without a cluster */
	{ "version", main_cmd_version, VERSION_USAGE,
	  "the version, the libraries, the origin and the paths" },
};
enum { N_COMMANDS = ARRAY_SIZE(COMMANDS) };

static int main_usage(FILE *out, int status)
{
	fputs("usage: pai-runtime COMMAND [OPTION...]\n\n", out);
	for (size_t i = 0; i < N_COMMANDS; i++) {
		if (COMMANDS[i].help)
			fprintf(out, "  %-12s %s\n", COMMANDS[i].name, COMMANDS[i].help);
	}
	fputs("\nCalled as `runtime` without a command it is `run`.\n"
	      "pai-runtime COMMAND --help says more.\n",
	      out);
	return status;
}

/* argv[0] is the name of the command. */
static int main_run(const struct runtime_command *c, int argc, char **argv)
{
	bool help = c->usage && argc > 1 && strcmp(argv[1], "--help") == 0;
	int status = help ? 0 : c->run(argc, argv);
	if (help || status == MISUSED)
		(void)fputs(c->usage, help ? stdout : stderr);
	return status == MISUSED ? 2 : status;
}

int main(int argc, char **argv)
{
	static char run[] = "run";
	int status;
	(void)dl_iterate_phdr(relro_protect, NULL);
	if (dropbear_run(argc, argv, &status))
		return status;
	const char *slash = argc == 1 && argv[0] ? strrchr(argv[0], '/') : NULL;
	if (argc == 1 && argv[0] && strcmp(slash ? slash + 1 : argv[0], "runtime") == 0) {
		char *alone[] = { run, NULL };
		return cmd_run_task(1, alone);
	}
	if (argc < 2)
		return main_usage(stderr, 2);
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0)
		return main_usage(stdout, 0);
	const char *name = strcmp(argv[1], "--version") == 0 ? "version" : argv[1];
	for (size_t i = 0; i < N_COMMANDS; i++) {
		if (strcmp(COMMANDS[i].name, name) == 0)
			return main_run(&COMMANDS[i], argc - 1, argv + 1);
	}
	fprintf(stderr, "pai-runtime: there is no command of that name\n");
	return main_usage(stderr, 2);
}
