#pragma once
/* Headers of entries: reader and writer share them. */
#include "base/tar/tar.h"
#include "base/ustar.h"

enum {
	TAR_EXTENDED = 'x',
	TAR_GLOBAL = 'g',
	TAR_RECORDS = TAR_PATH + 128, /* bytes of path, size and time, at most */
	TAR_NOTE = 100,               /* bytes of a note */
	TAR_NOTE_RECORD = TAR_NOTE + 16,
};
/* The latest time that ustar has, in seconds: the year 2242. */
#define TAR_TIME_MAX ((INT64_C(1) << 33) - 1)
#define NS_OF_S      INT64_C(1000000000)
