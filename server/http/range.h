#pragma once
/* Which bytes of a body a client asks for: the header Range (RFC 9110 14.2).  Pure. */
#include "base/str.h"

enum range {
	RANGE_WHOLE, /* all of it: no header, another unit, several ranges, or malformed */
	RANGE_PART,
	RANGE_NONE /* begins behind the end */
};

/* `header` may be NULL.  *from and *n are set for RANGE_PART, and lie within `size` bytes. */
enum range range_read(const char *header, size_t size, size_t *from, size_t *n);
