/* docs/HIVED.md: with its configuration, its job becomes what it says. */
#include <stdlib.h>

#include "tests/golden/golden.h"
#include "tests/lib/files.h"
#include "tests/lib/outcome.h"
#include "translate/hived/hived.h"

enum { BLOCKS = 3 };

/* The fenced blocks of YAML. */
static size_t blocks(struct span page, struct span v[BLOCKS])
{
	static const char BEGIN[] = "```yaml\n";
	static const char END[] = "```\n";
	size_t n = 0;
	for (size_t at = 0; n < BLOCKS && (at = span_find(page, at, BEGIN)) != SIZE_MAX; n++) {
		at += sizeof(BEGIN) - 1;
		size_t end = span_find(page, at, END);
		v[n] = (struct span){ page.p + at, end - at };
		at = end + sizeof(END) - 1;
	}
	return n;
}

void golden_hived(struct tally *t)
{
	AUTO(setting_done) struct setting s;
	ERR_AUTO e = { 0 };
	STR_AUTO page = file_load("docs/HIVED.md");
	struct span block[BLOCKS] = { { NULL, 0 } };
	if (!tally_test(t, "hived-page") ||
	    !tally_check(t, blocks(str_view(&page), block) == BLOCKS, "docs/HIVED.md: blocks"))
		return;
	setting_init(&s, SETTING_HIVED);
	s.facts.hived = hived_read(block[0], &s.arena, &e);
	(void)tally_check(t, s.facts.hived, "docs/HIVED.md: configuration: %s", err_msg(&e));
	json_auto_t *out = s.facts.hived ? outcome_objects(&s, block[1]) : NULL;
	json_t *framework = json_array_get(out, json_array_size(out) - 1);
	FREE_AUTO char *text = framework ? json_dumps(framework, JSON_COMPACT) : xstrdup("");
	STR_AUTO want = STR_INIT(4096);
	str_json(&want, block[2]);
	(void)tally_check(t, strstr(text, str_c(&want)) != NULL,
	                  "docs/HIVED.md: the annotation is another one");
}
