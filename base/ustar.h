#pragma once
/*
 * Blocks of tar: what the archives of code (base/code) and those of results (base/tar) share. Their
 * rules of entries are their own, also what is refused.
 *
 *	struct ustar_stream s = { .heads = (char *)&head };
 *	while (bytes.n)
 *		switch (ustar_take(&s, &bytes, &part)) {
 *		case USTAR_HEADS:
 *			s.left = ustar_size(&head);
 *			s.padding = ustar_padding(s.left);
 *
 * Thread: own
 */
#include <stdint.h>

#include "base/str.h"

enum { USTAR_BLOCK = 512, USTAR_END = 2 /* blocks of zeros */ };

/* A header of ustar: texts end with NUL unless they fill their field, numbers are octal digits. */
struct ustar_head {
	char name[100], mode[8], user[8], group[8], size[12], time[12], sum[8], type, target[100];
	char magic[8], names[64], device[16], prefix[155], rest[12];
};
_Static_assert(sizeof(struct ustar_head) == USTAR_BLOCK, "a header is a block");

/* As many as the end of an archive has. */
extern const char USTAR_ZEROS[USTAR_END * USTAR_BLOCK];

/* Completes a header with type and names: owner 0, and its sum.  Size and time, in seconds, are
 * less than 2^33; runs: mode 0755, else 0644. */
void ustar_finish(struct ustar_head *head, bool runs, int64_t size, int64_t time_s);
/* The size, if the header is one of ustar_finish; else any below 2^33. */
int64_t ustar_size(const struct ustar_head *head);
/* Bytes of zeros behind so many of a file. */
static inline size_t ustar_padding(int64_t size)
{
	return (size_t)(-size & (USTAR_BLOCK - 1));
}

/* Where a reader is.  Begins as zeros, except `heads`. */
struct ustar_stream {
	int64_t left;      /* bytes of the last file that are to come; set by the reader */
	size_t padding;    /* zeros behind these; set by the reader */
	unsigned zeros;    /* blocks of the end so far */
	char *heads;       /* borrowed: room for `need` bytes; a block at least */
	size_t have, need; /* bytes of it; the same if nothing has begun */
};

enum ustar_part {
	USTAR_NOTHING, /* to do; also for blocks of the end */
	USTAR_DATA,    /* some of the last file: *part */
	USTAR_DIRTY,   /* other bytes than zeros behind it */
	USTAR_HEADS,   /* `heads` is full.  The reader may set `need` to more bytes, which come then
	                */
};
/* Takes the first bytes, of which there is one at least. */
enum ustar_part ustar_take(struct ustar_stream *s, struct span *bytes, struct span *part);
