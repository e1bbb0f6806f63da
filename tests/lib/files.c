#include "tests/lib/files.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

enum { FILE_MAX_BYTES = 64 << 20 };

static void give_up(const char *what, const char *path)
{
	(void)printf("%s: %s\n0 passed, 1 failed\n", path, what);
	exit(1);
}

struct span file_load(const char *path)
{
	FILE *f = fopen(path, "rbe");
	if (!f)
		give_up("cannot be opened", path);
	STR_AUTO text = STR_INIT(FILE_MAX_BYTES);
	char piece[65536];
	size_t n;
	while ((n = fread(piece, 1, sizeof(piece), f)) > 0)
		str_put(&text, piece, n);
	if (ferror(f) || text.full)
		give_up("cannot be read", path);
	(void)fclose(f);
	size_t length = text.n;
	return (struct span){ str_take(&text), length };
}

json_t *jsonl_load(const char *path)
{
	struct span text = file_load(path);
	json_t *rows = json_array();
	for (const char *p = text.p, *end = text.p + text.n; p < end;) {
		const char *eol = memchr(p, '\n', (size_t)(end - p));
		size_t n = (size_t)((eol ? eol : end) - p);
		json_t *row = json_loadb(p, n, JSON_ALLOW_NUL, NULL);
		if (!row)
			give_up("a line is no JSON", path);
		(void)json_array_append_new(rows, row);
		p += n + 1;
	}
	free((char *)(uintptr_t)text.p);
	return rows;
}

json_t *json_load_path(const char *path)
{
	json_t *v = json_load_file(path, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
	if (!v)
		give_up("missing or no JSON", path);
	return v;
}

static bool ends_in(const char *name, const char *const *suffixes)
{
	for (; *suffixes; suffixes++) {
		size_t n = strlen(name), k = strlen(*suffixes);
		if (n > k && strcmp(name + n - k, *suffixes) == 0)
			return true;
	}
	return false;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

char **folder_list(const char *dir, const char *const *suffixes)
{
	DIR *d = opendir(dir);
	if (!d)
		give_up("no such folder", dir);
	char **names = xcalloc(4096, sizeof(*names));
	size_t n = 0;
	for (struct dirent *entry; (entry = readdir(d)) != NULL && n < 4095;)
		if (ends_in(entry->d_name, suffixes))
			names[n++] = xstrdup(entry->d_name);
	(void)closedir(d);
	qsort(names, n, sizeof(*names), by_name);
	return names;
}

void folder_free(char **names)
{
	for (char **name = names; *name; name++)
		free(*name);
	free(names);
}
