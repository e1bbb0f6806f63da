#pragma once
/* The rules of entries, and their headers: reader and writer share them. */
#include "base/code/code.h"

enum { CODE_BLOCK = 512, CODE_CHUNK = 64 << 10 /* bytes of streams */ };

/* Fields of a header. */
enum {
	HEAD_NAME = 0,
	HEAD_NAME_SIZE = 100,
	HEAD_MODE = 100,
	HEAD_SIZE = 124,
	HEAD_TYPE = 156,
	HEAD_TARGET = 157,
	HEAD_MAGIC = 257,
	HEAD_PREFIX = 345,
	HEAD_PREFIX_SIZE = 155
};
/* The characters of enum code_kind in HEAD_TYPE. */
#define HEAD_TYPES "052"

/* *e says `entry "PATH": text`.  Returns -1. */
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
int code_header(char block[static CODE_BLOCK], const struct code_entry *entry, struct err *e);
/* *e says where a header differs from the one that it should be.  Returns -1. */
int code_header_differs(struct err *e, const char *path, const char *is, const char *wanted);
