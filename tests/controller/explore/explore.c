/* explore [WORD...]: the spaces in whose names a WORD is, or all.  The last lines are `N checks`,
 * the states, and `N passed, M failed`, the spaces. */
#include "tests/controller/explore/explore.h"

#include <stdio.h>
#include <stdlib.h>

#include "jobs/cache/job_entry_pack.h"

/* clang-format off */
static const struct space SPACES[] = {
	{ "faults",    2, 0, 0, { .faults = 2 }, .states = 1000000 },
	{ "users",     2, 0, 0, { .stops = 1, .scales = 1 }, .grace_s = 600, .states = 1000000 },
	{ "deletion",  1, 0, 0, { .faults = 1, .deletions = 1 }, .states = 1000000 },
	{ "retries",   1, 1, 1, { .faults = 1, .failures = 1, .stops = 1 }, .states = 1000000 },
	{ "lists",     1, 0, 1, { .faults = 1, .pod_deletions = 1, .relists = 1, .old_lists = 1 }, .states = 1000000 },
	{ "node",      1, 0, 1, { .faults = 1, .stops = 1, .nodes = 1 }, .grace_s = 600, .states = 1000000 },
	{ "force",     2, 0, 0, { .scales = 1, .nodes = 1 }, .split = true, .states = 1000000 },
	{ "stale",     1, 0, 0, { .faults = 1, .stops = 1 }, .stale = true, .states = 1000000 },
	{ "take-over", 1, 0, 0, { .faults = 1, .leaders = 1, .kills = 1, .old_lists = 1 }, .states = 1000000 },
	{ "leaders",   1, 0, 0, { .leaders = 1 }, .states = 1000000 },
	{ "foreign",   1, 0, 0, { .faults = 1, .foreign = 2 }, .states = 1000000 },
	{ "queue",     1, 0, 0, { .evictions = 1, .stops = 1 }, .queue = true, .states = 1000000 },
	{ "queue, faults", 1, 0, 0, { .faults = 1, .evictions = 1 }, .queue = true, .states = 1000000 },
	{ "queue, take-over", 1, 0, 0, { .evictions = 1, .leaders = 1, .kills = 1 }, .queue = true, .large = true, .states = 1000000 },
	{ "queue, lists", 1, 0, 0, { .evictions = 1, .relists = 1, .old_lists = 1 }, .queue = true, .large = true, .states = 1000000 },
	{ "queue, deletion", 1, 0, 0, { .deletions = 1, .evictions = 1 }, .queue = true, .large = true, .states = 1000000 },
	{ "faults, retries", 1, 1, 1, { .faults = 2, .failures = 2 }, .large = true, .states = 10000000 },
};
/* clang-format on */

/* In place of the compression, which costs much and changes nothing here. */
bool job_entry_pack(struct str *out, struct span text)
{
	str_span(out, text);
	return !out->full;
}

bool job_entry_unpack(struct span packed, size_t n, struct arena *a, struct span *text)
{
	(void)a;
	*text = packed;
	return packed.n == n;
}

static bool is_wanted(const char *name, char **words)
{
	bool wanted = !words[0];
	for (; *words; words++)
		wanted = wanted || strstr(name, *words);
	return wanted;
}

static bool is_set(const char *variable)
{
	const char *value = getenv(variable); /* NOLINT(concurrency-mt-unsafe): one thread */
	return value && *value;
}

int main(int argc, char **argv)
{
	struct err e = { 0 };
	struct framework_config *config = framework_config_read(SPAN(""), &e);
	size_t states = 0;
	bool whole = is_set("TEST_WHOLE");
	int passed = 0;
	int failed = 0;
	int64_t seed;
	json_object_seed(1);
	area_begin();
	if (argc == 3 && strcmp(argv[1], "walk") == 0 &&
	    parse_i64(span_of(argv[2]), 0, INT64_MAX, &seed) == 0)
		return walks((uint64_t)seed, 1, config, false) > 0;
	for (size_t i = 0; i < ARRAY_SIZE(SPACES); i++) {
		if (!is_wanted(SPACES[i].name, argv + 1) || (SPACES[i].large && !whole))
			continue;
		struct result r = search(&SPACES[i], config);
		bool ok = r.whole && !r.bad && r.ends;
		printf("%-24s %8zu states %8zu steps %6zu ends  %5.1f s, %4.0f MiB%s\n",
		       SPACES[i].name, r.states, r.steps, r.ends, r.seconds,
		       (double)r.peak / (1 << 20), r.whole || r.bad ? "" : "  NOT WHOLE");
		states += r.states;
		passed += ok;
		failed += !ok;
		if (failed && is_set("EXPLORE_STOP"))
			break;
	}
	if (is_wanted("walks", argv + 1) && !(failed && is_set("EXPLORE_STOP"))) {
		size_t n = whole ? 10000 : 500;
		bool bad = walks(1, n, config, is_set("EXPLORE_STOP")) > 0;
		states += n;
		passed += !bad;
		failed += bad;
	}
	framework_config_free(config);
	printf("%zu checks\n%d passed, %d failed\n", states, passed, failed);
	return failed || !passed;
}
