/*
 * golden            compare all that was recorded with what we make now
 * golden --update   write tests/golden/examples anew
 *
 * Run in the top folder of the source tree.
 */
#include "tests/golden/golden.h"

#include <string.h>

int main(int argc, char **argv)
{
	struct tally t = { 0 };
	if (argc > 1 && strcmp(argv[1], "--update") == 0) {
		golden_examples(&t, true);
		return tally_end(&t);
	}
	struct deviations *d = deviations_load("tests/golden/deviations.json");
	golden_v2(&t, d);
	golden_v1(&t, d);
	golden_hived(&t);
	golden_examples(&t, false);
	deviations_end(d, &t);
	return tally_end(&t);
}
