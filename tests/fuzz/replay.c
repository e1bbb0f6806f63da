/*
 * replay TARGET FOLDER... - a fuzz target on all files of these folders, once each: what libFuzzer
 * does with its seeds, in a build without it.  Prints the name of each file before it is run.  All
 * targets are in this program; each run has one of them.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/str.h"
#include "tests/fuzz/replay.h"
#include "tests/lib/files.h"

/* As -max_len of tests/tools/fuzz: longer files are cut. */
enum { REPLAY_MAX = 65536 };

enum { TARGETS_MAX = 128 };

static struct target {
	const char *file;
	replay_fn run;
} targets[TARGETS_MAX];
static size_t n_targets;

void replay_add(const char *file, replay_fn run)
{
	if (n_targets == TARGETS_MAX)
		abort();
	targets[n_targets++] = (struct target){ file, run };
}

static void replay_file(replay_fn run, const char *path)
{
	STR_AUTO text = file_load(path);
	/* A copy of exactly this size: a sanitizer sees what reads behind its end. */
	size_t n = text.n < REPLAY_MAX ? text.n : REPLAY_MAX;
	FREE_AUTO char *data = xmalloc(n);
	if (n)
		memcpy(data, text.p, n);
	(void)puts(path);
	run((struct span){ n ? data : "", n });
}

static replay_fn target_find(const char *name)
{
	FREE_AUTO char *file = xasprintf("tests/fuzz/%s.c", name);
	for (size_t i = 0; i < n_targets; i++) {
		if (strcmp(targets[i].file, file) == 0)
			return targets[i].run;
	}
	return NULL;
}

int main(int argc, char **argv)
{
	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	replay_fn run = argc < 2 ? NULL : target_find(argv[1]);
	if (!run) {
		(void)puts("no such target");
		return 2;
	}
	for (int i = 2; i < argc; i++) {
		struct dirent **files;
		int n = scandir(argv[i], &files, NULL, alphasort);
		for (int j = 0; j < n; j++) {
			FREE_AUTO char *path = xasprintf("%s/%s", argv[i], files[j]->d_name);
			if (files[j]->d_type == DT_REG)
				replay_file(run, path);
			free(files[j]);
		}
		if (n >= 0)
			free((void *)files);
	}
	return 0;
}
