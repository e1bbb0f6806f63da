#pragma once
#include "base/str.h"

enum { MAC_BYTES = 32 };

/* HMAC-SHA256 of texts, joined by NUL; only the last one may contain NUL.  Any thread. */
void mac_of(const unsigned char key[static MAC_BYTES], const struct span *v, size_t n,
            unsigned char out[static MAC_BYTES]);
