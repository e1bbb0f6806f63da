/* pai-runtime version: what this binary is made of, for reports of defects. */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <yaml.h>
#include <zlib.h>
#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif

#include "runtime-assets/args.h"
#include "runtime-assets/commands.h"
#include "runtime-assets/layout.h"
#include "runtime-assets/net/wire.h"

#if defined(__x86_64__)
#define PROCESSOR "x86-64"
#elif defined(__aarch64__)
#define PROCESSOR "arm64"
#elif defined(__powerpc64__)
#define PROCESSOR "ppc64"
#else
#define PROCESSOR "other processor"
#endif

#ifndef BEARSSL_VERSION
#define BEARSSL_VERSION "of the system"
#endif

static void put_c_library(struct str *out)
{
#if defined(__GLIBC__)
	str_printf(out, "glibc %s", gnu_get_libc_version());
#elif defined(MUSL_VERSION)
	str_puts(out, "musl " MUSL_VERSION);
#endif
}

static void put_version(struct str *out)
{
	str_printf(out, "pai-runtime %s, %s\n", REST_LIT_VERSION, PROCESSOR);
	put_c_library(out);
	str_printf(out, ", libyaml %s, zlib %s, BearSSL %s\n", yaml_get_version_string(),
	           zlibVersion(), BEARSSL_VERSION);
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
	for (size_t i = 0; i < sizeof(PATHS) / sizeof(PATHS[0]); i++)
		str_printf(out, "%-20s %s\n", PATHS[i].what, PATHS[i].path);
}

/* How it came into the pod follows from where it is: the places are those of the image and of the
 * templates. */
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
	for (size_t i = 0; i < sizeof(PLACES) / sizeof(PLACES[0]); i++) {
		if (strcmp(path, PLACES[i].path) == 0)
			origin = PLACES[i].origin;
	}
	str_printf(out, "%-20s %s%s%s\n", "this program", path, *origin ? ", " : "", origin);
}

int cmd_version(int argc, char **argv)
{
	bool help = argc == 2 && strcmp(argv[1], "--help") == 0;
	if (argc > 1 && !help) {
		args_misused(argv[0], argv[1]);
		(void)fputs("usage: pai-runtime version\n", stderr);
		return 2;
	}
	STR_AUTO out = STR_INIT(4096);
	if (help) {
		str_puts(&out,
		         "usage: pai-runtime version\n\n"
		         "The version, what it was built from, and where it looks for things.\n");
	} else {
		put_version(&out);
		put_origin(&out);
		put_paths(&out);
	}
	(void)fputs(str_c(&out), stdout);
	return fflush(stdout) == 0 ? 0 : 1;
}
