#pragma once
/*
 * Message authentication codes: HMAC-SHA256.
 *
 * Thread: any
 */
#include "base/str.h"

enum { MAC_BYTES = 32 };

/* The code of texts, joined by NUL; only the last one may contain NUL. */
void mac_of(const unsigned char key[static MAC_BYTES], const struct span *v, size_t n,
            unsigned char out[static MAC_BYTES]);
