#pragma once
/* What http.h calls struct trust, for tls.c. */
#include <bearssl.h>

#include "runtime-assets/net/http.h"

struct trust {
	struct arena arena; /* all that the anchors point to */
	br_x509_trust_anchor *v;
	size_t n;
};
