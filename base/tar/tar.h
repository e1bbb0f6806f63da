#pragma once
/*
 * Files of any names and sizes as a stream of tar (POSIX.1-2001, pax), which other programs unpack,
 * too.  The server writes the results of a job so; `rest-lit fetch` reads them and takes only what
 * the writer writes, byte for byte:
 *
 *  - an entry: an extended header with path, size and time, then a header of ustar, then the bytes;
 *  - a note, as a global extended header with a comment: how the file before it changed while it
 *was read, before the next entry;
 *  - zeros for padding, and two blocks of zeros, where other programs end;
 *  - notes: that of the last file, and what was left out; and nothing after them.
 *
 * Paths have any bytes but NUL: relative, without empty components, `.` and `..`.
 *
 *	struct tar_unpack u = { .dir = fd };
 *	struct tar_reader *r = tar_reader_new(tar_unpack_sink(&u), TAR_ENTRIES);
 *	int rc = tar_reader_feed(r, bytes, e);
 *	if (rc == 0)
 *		rc = tar_reader_end(r, e);
 *	tar_unpack_end(&u);
 *	tar_reader_free(r);
 *
 * Streams: the memory does not depend on the size.
 *
 * Thread: own
 */
#include <stdint.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/str.h"

enum {
	TAR_PATH = 4095,      /* bytes of a path; of a component 255 */
	TAR_DEPTH = 64,       /* components */
	TAR_ENTRIES = 1000000 /* of an archive */
};

enum tar_kind { TAR_FILE, TAR_DIRECTORY };

struct tar_entry {
	enum tar_kind kind;
	const char *path; /* borrowed */
	bool executable;  /* TAR_FILE: mode 0755 */
	int64_t size;     /* TAR_FILE: bytes */
	int64_t time_ns;  /* of the last change, since 1970 */
};

/* It follows the rules of paths and limits above. */
bool tar_path_ok(const char *path);

/* ---- tar.c: all append ---- */

/* The headers of an entry; the bytes of a file follow. */
void tar_put_entry(struct str *out, const struct tar_entry *entry);
/* Zeros behind so many bytes of a file. */
void tar_put_padding(struct str *out, int64_t size);
/* At most 100 bytes without NUL and LF. */
void tar_put_note(struct str *out, const char *text);
void tar_put_end(struct str *out);

/* ---- tar_reader.c ---- */

/* Takes what the reader finds.  Each function returns 0, or -1 and *e, which ends the reading. */
struct tar_sink {
	int (*entry)(void *arg, const struct tar_entry *entry, struct err *e);
	int (*data)(void *arg, struct span bytes, struct err *e); /* of the last file, in order */
	/* The last file is complete, also one without bytes. */
	int (*complete)(void *arg, struct err *e);
	int (*note)(void *arg, const char *text, struct err *e);
	void *arg;
};

struct tar_reader;
/* Takes at most so many entries and notes. */
struct tar_reader *tar_reader_new(struct tar_sink sink, int64_t entries);
/* Takes the next bytes.  -1 and *e (502, or of the sink), which names the entry; then only
 * tar_reader_free may follow. */
int tar_reader_feed(struct tar_reader *r, struct span bytes, struct err *e);
/* The end of the stream.  -1 and *e (502): it is not whole. */
int tar_reader_end(struct tar_reader *r, struct err *e);
void tar_reader_free(struct tar_reader *r); /* accepts NULL */

/* ---- tar_unpack.c ---- */

/* Of a file, for tar_unpack.say. */
enum tar_news {
	TAR_SHRANK,  /* while it was read: it is filled up with zeros */
	TAR_GREW,    /* ... it is cut at the length that it had */
	TAR_CHANGED, /* ... it may have parts of both */
	TAR_OTHER,   /* another file or directory is here, and stays */
	TAR_NEWS
};

/* The name of a file that is being written, in its directory.  An entry with this name is refused.
 */
#define TAR_PART ".rest-lit-fetch.part"

/*
 * A sink that writes below a directory and nowhere else: no link is followed, a directory of an
 * entry is one of the archive, no entry is there twice.  A file is written beside its place and
 * renamed.  One that is there with the same size and time (to a millisecond) stays; another one is
 * replaced only with `force`.  Begins as zeros, except the first members.
 */
struct tar_unpack {
	int dir; /* borrowed */
	bool force;
	void (*say)(void *arg, const char *path, enum tar_news news);
	void *arg;
	int64_t files, bytes;   /* written */
	int64_t same;           /* that were there */
	int64_t news[TAR_NEWS]; /* calls of say */
	int64_t left_out; /* by the server, which says so at the end; -1: it left out more than
	                   * it could count */
	bool ended;       /* it has said so */
	/* The entry that is being written. */
	int file, parent; /* plus 1; 0: none */
	int64_t time_ns;
	char path[TAR_PATH + 1];
	/* Hashes of the paths so far; of a directory with a slash. */
	struct tar_names {
		struct hash_key key;
		uint64_t *v;
		size_t n, cap;
	} names;
};
struct tar_sink tar_unpack_sink(struct tar_unpack *u); /* u is borrowed */
/* To be called in any case: removes a file that is not complete. */
void tar_unpack_end(struct tar_unpack *u);
