#pragma once
/* One job in a process of its own, so that time and memory can be measured and bounded. */
#include <jansson.h>

#include "tests/lib/setting.h"

struct measured {
	json_t *outcome; /* NULL if the process died */
	int signal;      /* that killed it, or 0 */
	double cpu_s;
	long peak_kb; /* of the whole process, the test program included */
};

struct measured child_run(const struct setting *s, struct span text);
