/* Every file of examples/ in both profiles, against tests/golden/examples/. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/golden/golden.h"
#include "tests/lib/files.h"
#include "tests/lib/jsondiff.h"
#include "tests/lib/outcome.h"

enum { DUMP = JSON_INDENT(1) | JSON_ENCODE_ANY };

static void compare(struct tally *t, const char *path, json_t *got)
{
	json_t *want = json_load_path(path);
	struct differences d = { 0 };
	json_differences(want, got, &d);
	(void)tally_check(t, d.n == 0, "%s: %zu differences, the first at %s (make golden-update)",
	                  path, d.n, d.n ? d.v[0].at : "");
	differences_done(&d);
	json_decref(want);
}

static void run(struct tally *t, const struct setting *s, const char *profile, bool update)
{
	char **names = folder_list("examples");
	for (char **name = names; *name; name++) {
		if (strcmp(*name, "facts.json") == 0)
			continue;
		FREE_AUTO char *job = xasprintf("examples/%s", *name);
		FREE_AUTO char *path =
		    xasprintf("tests/golden/examples/%s.%s.json", *name, profile);
		STR_AUTO file_text = file_load(job);
		struct span text = str_view(&file_text);
		json_t *got = outcome_objects(s, text);
		if (!tally_check(t, got, "%s is refused in profile %s", job, profile))
			;
		else if (update)
			(void)tally_check(t, json_dump_file(got, path, DUMP) == 0,
			                  "cannot write %s", path);
		else
			compare(t, path, got);
		FREE_AUTO char *wrong = golden_sent(s, text);
		if (got)
			(void)tally_check(t, !*wrong, "%s, profile %s: %s", job, profile, wrong);
		json_decref(got);
	}
	folder_free(names);
}

void golden_examples(struct tally *t, bool update)
{
	struct setting s;
	setting_init(&s, SETTING_PLAIN);
	if (tally_test(t, "examples-plain"))
		run(t, &s, "plain", update);
	setting_done(&s);
	setting_init(&s, SETTING_BASE);
	if (tally_test(t, "examples-openpai"))
		run(t, &s, "openpai", update);
	setting_done(&s);
}
