/* Files of traces, and their configurations. */
#include "tests/machine/replay.h"

#include <stdio.h>
#include <stdlib.h>

static int trace_unreadable(const char *file, const char *why)
{
	fprintf(stderr, "%s: %s\n", file, why);
	return TRACE_UNREADABLE;
}

/* The whole file, at most 64 MiB; false: it cannot be read. */
static bool trace_load(const char *path, struct str *out)
{
	char part[1 << 16];
	size_t n;
	FILE *f = fopen(path, "re");
	while (f && (n = fread(part, 1, sizeof(part), f)) > 0)
		str_put(out, part, n);
	bool whole = f && !ferror(f) && !out->full;
	if (f)
		(void)fclose(f); /* it was only read */
	return whole;
}

/* config/ is beside the folder of the file. */
static char *trace_config_path(const char *file, const char *dir, const char *name)
{
	if (dir)
		return xasprintf("%s/%s.yaml", dir, name);
	const char *slash = strrchr(file, '/');
	return slash ? xasprintf("%.*s/../config/%s.yaml", (int)(slash - file), file, name)
	             : xasprintf("../config/%s.yaml", name);
}

static int trace_file(const char *file, const char *config_dir, trace_player *play)
{
	STR_AUTO text = STR_INIT(64 << 20);
	STR_AUTO yaml = STR_INIT(1 << 20);
	ERR_AUTO e = { 0 };
	if (!trace_load(file, &text))
		return trace_unreadable(file, "cannot be read");
	JSON_AUTO *trace = json_loadb(text.p, text.n, 0, NULL);
	const char *config = reply_text(trace, "config");
	if (strcmp(reply_text(trace, "format"), "framework-trace/1") != 0 || !config[0] ||
	    strchr(config, '/') || !json_is_object(json_object_get(trace, "framework")) ||
	    !json_is_array(json_object_get(trace, "steps")))
		return trace_unreadable(file, "is no framework-trace/1");
	FREE_AUTO char *path = trace_config_path(file, config_dir, config);
	if (!trace_load(path, &yaml))
		return trace_unreadable(path, "cannot be read");
	struct framework_config *c = framework_config_read(str_view(&yaml), &e);
	if (!c)
		return trace_unreadable(path, err_msg(&e));
	int status = play(file, trace, c);
	framework_config_free(c);
	return status;
}

int trace_main(int argc, char **argv, trace_player *play)
{
	int worst = TRACE_EQUAL;
	const char *config_dir = NULL;
	int first = 1;
	if (argc > 2 && strcmp(argv[1], "--config-dir") == 0) {
		config_dir = argv[2];
		first = 3;
	}
	if (first >= argc || argv[first][0] == '-') {
		fprintf(stderr, "usage: %s [--config-dir DIR] FILE...\n", argv[0]);
		return TRACE_UNREADABLE;
	}
	for (int i = first; i < argc; i++) {
		int status = trace_file(argv[i], config_dir, play);
		if (status > worst)
			worst = status;
	}
	return worst;
}
