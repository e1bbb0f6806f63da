#include "tests/lib/files.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

enum { FILE_MAX_BYTES = 64 << 20 };

static void give_up(const char *what, const char *path)
{
	(void)printf("%s: %s\n0 passed, 1 failed\n", path, what);
	exit(1); /* NOLINT(concurrency-mt-unsafe): one thread */
}

struct str file_load(const char *path)
{
	FILE *f = fopen(path, "rbe");
	if (!f)
		give_up("cannot be opened", path);
	struct str text = STR_INIT(FILE_MAX_BYTES);
	char piece[65536];
	size_t n;
	while ((n = fread(piece, 1, sizeof(piece), f)) > 0)
		str_put(&text, piece, n);
	if (ferror(f) || text.full)
		give_up("cannot be read", path);
	(void)fclose(f);
	return text;
}

json_t *jsonl_load(const char *path)
{
	STR_AUTO text = file_load(path);
	json_t *rows = json_array();
	const char *end = str_c(&text) + text.n;
	for (const char *p = str_c(&text); p < end;) {
		const char *eol = memchr(p, '\n', (size_t)(end - p));
		size_t n = (size_t)((eol ? eol : end) - p);
		json_t *row = json_loadb(p, n, JSON_ALLOW_NUL, NULL);
		if (!row)
			give_up("a line is no JSON", path);
		(void)json_array_append_new(rows, row);
		p += n + 1;
	}
	return rows;
}

json_t *json_load_path(const char *path)
{
	json_t *v = json_load_file(path, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
	if (!v)
		give_up("missing or no JSON", path);
	return v;
}

static int is_job(const struct dirent *entry)
{
	const char *dot = strrchr(entry->d_name, '.');
	return dot && (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".json") == 0);
}

char **folder_list(const char *dir)
{
	struct dirent **entries = NULL;
	int n = scandir(dir, &entries, is_job, alphasort);
	if (n < 0)
		give_up("no such folder", dir);
	char **names = xcalloc((size_t)n + 1, sizeof(*names));
	for (int i = 0; i < n; i++) {
		names[i] = xstrdup(entries[i]->d_name);
		free(entries[i]);
	}
	free((void *)entries);
	return names;
}

void folder_free(char **names)
{
	for (char **name = names; *name; name++)
		free(*name);
	free((void *)names);
}
