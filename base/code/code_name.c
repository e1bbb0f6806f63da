#include "base/code/code.h"

#include <stdio.h>

#include "base/hash.h"

bool code_sha_ok(struct span text)
{
	return text.n == CODE_SHA && span_all(text, "0-9a-f");
}

void code_object_name(char out[static CODE_OBJECT + 1], const char *user, struct span sha256)
{
	char hex[CODE_SHA + 1];
	struct sha256 d;
	sha256_begin(&d);
	sha256_add(&d, (struct span){ user, strlen(user) + 1 });
	sha256_add(&d, sha256);
	sha256_end(&d, hex);
	(void)snprintf(out, CODE_OBJECT + 1, "code-%.40s", hex);
}
