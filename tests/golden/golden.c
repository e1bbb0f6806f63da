/*
 * golden [NAME...]  compare what was recorded with what we make now: all, or the tests whose names
 *                   contain a NAME
 * golden --update   write tests/golden/examples anew
 *
 * Run in the top folder of the source tree.
 */
#include "tests/golden/golden.h"

#include <string.h>

int main(int argc, char **argv)
{
	struct tally t = { .wanted = argv + 1 };
	if (argc > 1 && strcmp(argv[1], "--update") == 0) {
		t.wanted = NULL;
		golden_examples(&t, true);
		return tally_end(&t);
	}
	struct deviations *d = deviations_load("tests/golden/deviations.json");
	golden_v2(&t, d);
	golden_v1(&t, d);
	golden_hived(&t);
	golden_dialects(&t);
	golden_examples(&t, false);
	golden_converted(&t);
	/* Only all tests together use all entries. */
	if (argc == 1 && tally_test(&t, "deviations"))
		deviations_end(d, &t);
	deviations_free(d);
	return tally_end(&t);
}
