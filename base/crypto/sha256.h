#pragma once
/* SHA-256 (FIPS 180-4), for names made of what they name.  Pure; no thread rule.  Takes no care to
 * hide the text from who measures time: not for secrets. */
#include "base/str.h"

/* In lower-case hex, with its final NUL. */
void sha256_hex(char out[static 65], struct span text);
