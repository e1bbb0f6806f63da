#pragma once
/* What a plugin needs and the image lacks, installed by apt-get, if the image has that. */
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum { PACKAGE_NAMES_MAX = 4 };

struct package {
	const char *plugin, *what;                /* for messages: "ssh plugin", "openssh" */
	const char *names[PACKAGE_NAMES_MAX + 1]; /* NULL-terminated */
	bool (*complete)(void *of);               /* is it there now? */
	void *of;
	int64_t pause_ms; /* before the second try; twice as long before the third */
};

/* 0 once it is complete; -1 and *e after three tries. */
int package_install(const struct package *p, struct err *e);
