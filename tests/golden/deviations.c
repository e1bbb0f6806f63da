/* deviations.json: {"name": {"file": {"/pointer/into/our/result": our value, ..}, ..}, ..} */
#include <stdlib.h>

#include "base/str.h"
#include "tests/golden/golden.h"
#include "tests/lib/files.h"

struct deviations {
	json_t *names;   /* the file */
	json_t *used;    /* {"name\nfile": true} */
	struct str page; /* docs/DEVIATIONS.md */
};

struct deviations *deviations_load(const char *path)
{
	struct deviations *d = xcalloc(1, sizeof(*d));
	d->names = json_load_path(path);
	d->used = json_object();
	d->page = file_load("docs/DEVIATIONS.md");
	return d;
}

static void use(struct deviations *d, const char *name, const char *file)
{
	FREE_AUTO char *key = xasprintf("%s\n%s", name, file);
	(void)json_object_set_new(d->used, key, json_true());
}

static bool is_used(const struct deviations *d, const char *name, const char *file)
{
	FREE_AUTO char *key = xasprintf("%s\n%s", name, file);
	return json_object_get(d->used, key) != NULL;
}

static void add_listed(struct deviations *d, const char *file, json_t *all)
{
	const char *name;
	json_t *files;
	json_object_foreach (d->names, name, files) {
		json_t *entry = json_object_get(files, file);
		if (!entry)
			continue;
		use(d, name, file);
		(void)json_object_update(all, entry);
	}
}

json_t *deviations_of(struct deviations *d, const char *file, const char *here)
{
	json_t *all = json_object();
	add_listed(d, file, all);
	if (here)
		add_listed(d, here, all);
	return all;
}

static bool has_line(const struct deviations *d, const char *start, const char *name)
{
	FREE_AUTO char *line = xasprintf("\n%s`%s`", start, name);
	return memmem(d->page.p, d->page.n, line, strlen(line)) != NULL;
}

/* A heading or the row of a table. */
static bool is_entry(const struct deviations *d, const char *name)
{
	return has_line(d, "### ", name) || has_line(d, "| ", name);
}

void deviations_name(struct deviations *d, struct tally *t, const char *name)
{
	if (is_used(d, name, ""))
		return;
	use(d, name, "");
	(void)tally_check(t, is_entry(d, name), "deviation %s is no entry of docs/DEVIATIONS.md",
	                  name);
}

void deviations_end(struct deviations *d, struct tally *t)
{
	const char *name;
	const char *file;
	json_t *files;
	json_t *entry;
	json_object_foreach (d->names, name, files) {
		deviations_name(d, t, name);
		json_object_foreach (files, file, entry)
			(void)tally_check(t, is_used(d, name, file),
			                  "deviation %s: %s is listed, but no case", name, file);
	}
}

void deviations_free(struct deviations *d)
{
	json_decref(d->names);
	json_decref(d->used);
	str_done(&d->page);
	free(d);
}
