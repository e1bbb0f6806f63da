/*
 * replay FOLDER... - a fuzz target on all files of these folders, once each: what libFuzzer does
 * with its seeds, in a build without it.  Prints the name of each file before it is run.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/str.h"
#include "tests/lib/files.h"

/* As -max_len of tests/tools/fuzz: longer files are cut. */
enum { REPLAY_MAX = 65536 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max);

/* Mutators of targets call it, and nobody here calls these. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max)
{
	(void)data;
	return size < max ? size : max;
}

static void replay_file(const char *path)
{
	STR_AUTO text = file_load(path);
	/* A copy of exactly this size: a sanitizer sees what reads behind its end. */
	size_t n = text.n < REPLAY_MAX ? text.n : REPLAY_MAX;
	uint8_t *data = xmalloc(n);
	if (n)
		memcpy(data, text.p, n);
	(void)puts(path);
	(void)LLVMFuzzerTestOneInput(data, n);
	free(data);
}

int main(int argc, char **argv)
{
	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	for (int i = 1; i < argc; i++) {
		struct dirent **files;
		int n = scandir(argv[i], &files, NULL, alphasort);
		for (int j = 0; j < n; j++) {
			FREE_AUTO char *path = xasprintf("%s/%s", argv[i], files[j]->d_name);
			if (files[j]->d_type == DT_REG)
				replay_file(path);
			free(files[j]);
		}
		if (n >= 0)
			free((void *)files);
	}
	return 0;
}
