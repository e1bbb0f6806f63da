#pragma once
/* The rules of entries, and their headers: reader and writer share them. */
#include "base/code/code.h"
#include "base/ustar.h"

enum { CODE_CHUNK = 64 << 10 /* bytes of streams */ };

/* The characters of enum code_kind in `type`. */
#define HEAD_TYPES "052"

/* *e says `entry "PATH": text`, or `the archive text` if path is NULL.  Returns -1. */
int code_refuse(struct err *e, const char *path, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The entry before; path is "" at the beginning. */
struct code_last {
	enum code_kind kind;
	char path[CODE_PATH + 1];
};
/* Checks an entry, and makes it the last one.  -1 and *e. */
int code_entry_next(struct code_last *last, const struct code_entry *entry, struct err *e);
/* The header of an entry that is checked.  -1 and *e: its path or size do not fit into ustar. */
int code_header(struct ustar_head *head, const struct code_entry *entry, struct err *e);
