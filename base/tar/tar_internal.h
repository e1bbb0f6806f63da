#pragma once
/* Headers of entries: reader and writer share them. */
#include "base/tar/tar.h"

/* A header of ustar: texts end with NUL unless they fill their field, numbers are octal digits. */
struct tar_head {
	char name[100], mode[8], user[8], group[8], size[12], time[12], sum[8], type, target[100];
	char magic[8], names[64], device[16], prefix[155], rest[12];
};
_Static_assert(sizeof(struct tar_head) == TAR_BLOCK, "a header is a block");

enum {
	TAR_END = 2 * TAR_BLOCK, /* bytes of zeros */
	TAR_EXTENDED = 'x',
	TAR_GLOBAL = 'g',
	TAR_RECORDS = TAR_PATH + 128, /* bytes of path, size and time, at most */
	TAR_NOTE = 100,               /* bytes of a note */
	TAR_NOTE_RECORD = TAR_NOTE + 16,
};
/* The latest time that ustar has, in seconds: the year 2242. */
#define TAR_TIME_MAX ((INT64_C(1) << 33) - 1)
#define NS_OF_S      INT64_C(1000000000)

/* Bytes of zeros behind so many. */
static inline size_t tar_padding(int64_t size)
{
	return (size_t)(-size & (TAR_BLOCK - 1));
}
