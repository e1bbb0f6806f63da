/* Every file of examples/, tests/corpus/distributed/ and tests/corpus/code/ in both profiles,
 * against tests/golden/examples/, distributed/ and code/. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/golden/golden.h"
#include "tests/lib/files.h"
#include "tests/lib/jsondiff.h"
#include "tests/lib/outcome.h"

enum { DUMP = JSON_INDENT(1) | JSON_ENCODE_ANY };

static void compare(struct tally *t, const char *path, json_t *got)
{
	json_auto_t *want = json_load_path(path);
	AUTO(differences_done) struct differences d = { 0 };
	json_differences(want, got, &d);
	(void)tally_check(t, d.n == 0, "%s: %zu differences, the first at %s (make golden-update)",
	                  path, d.n, d.n ? d.v[0].at : "");
}

/* The jobs of a folder, against tests/golden/OUT/. */
static void run_folder(struct tally *t, const struct setting *s, const char *folder,
                       const char *out, bool update)
{
	bool plain = translator_settings(s->translator)->profile == PROFILE_PLAIN;
	const char *profile = plain ? "plain" : "openpai";
	char **names = folder_list(folder);
	for (char **name = names; *name; name++) {
		if (strcmp(*name, "facts.json") == 0)
			continue;
		FREE_AUTO char *job = xasprintf("%s/%s", folder, *name);
		FREE_AUTO char *path = xasprintf("tests/golden/%s/%s.%s.json", out, *name, profile);
		STR_AUTO file_text = file_load(job);
		struct span text = str_view(&file_text);
		json_auto_t *got = outcome_objects(s, text);
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
	}
	folder_free(names);
}

static void run(struct tally *t, const struct setting *s, bool update)
{
	run_folder(t, s, "examples", "examples", update);
	run_folder(t, s, "tests/corpus/distributed", "distributed", update);
	run_folder(t, s, "tests/corpus/code", "code", update);
}

void golden_examples(struct tally *t, bool update)
{
	struct setting s;
	setting_init(&s, SETTING_PLAIN);
	if (tally_test(t, "examples-plain"))
		run(t, &s, update);
	setting_done(&s);
	setting_init(&s, SETTING_BASE);
	if (tally_test(t, "examples-openpai"))
		run(t, &s, update);
	setting_done(&s);
}
