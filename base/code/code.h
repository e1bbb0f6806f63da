#pragma once
/*
 * The code of a job: the files of a directory as an archive, a tar in one gzip member, which is
 * named by the SHA-256 of the tar.  The writer makes the same tar of the same files: sorted, owner
 * 0, time 0, mode 0755 for directories and programs, 0644 for others.  The reader takes only what
 * the writer writes, byte for byte:
 *
 *  - headers of ustar for files, directories and symbolic links; no extensions, no hard links;
 *  - paths of at most 255 bytes: relative, UTF-8 without control characters, without empty
 *    components, `.` and `..`;
 *  - sorted by code_path_compare, each path once; the directory of an entry is an entry before it;
 *  - links whose target stays in the archive: relative, `..` only at its beginning and no more of
 *    them than the link is deep.  Nothing is below a link, so that chains of links stay, too;
 *  - at most `entries` entries and `bytes` bytes of files;
 *  - zeros for padding and two blocks of zeros at the end, and nothing after them.
 *
 *	struct code_unpack u = { .dir = fd };
 *	struct code_sink sink = code_unpack_sink(&u);
 *	struct code_reader *r = code_reader_new(&limits, &sink);
 *	int rc = code_reader_feed(r, packed, e);
 *	if (rc == 0)
 *		rc = code_reader_end(r, &facts, e);
 *	if (code_unpack_end(&u, rc < 0 ? &ignored : e) < 0)
 *		rc = -1;
 *	code_reader_free(r);
 *
 * Streams: the memory does not depend on the size.
 *
 * Thread: own
 */
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

enum {
	CODE_SHA = 64, /* hex digits */
	CODE_ENTRIES = 20000,
	CODE_PATH = 255,       /* bytes of a path; of the target of a link 100 */
	CODE_PART = 900 << 10, /* bytes of one ConfigMap with a part of the archive */
	CODE_OBJECT = 5 + 40,  /* characters of the name of its objects */
	/* An upload may take longer than other requests, if so many bytes come in each 10 s (the
	 * limit read-timeout). */
	CODE_PROGRESS = 256 << 10,
	CODE_PROGRESS_S = 10,
};
/* On a cluster: bytes compressed, and of its files.  On one machine both are CODE_MACHINE. */
#define CODE_CLUSTER_PACKED (INT64_C(4) << 20)
#define CODE_CLUSTER        (INT64_C(256) << 20)
#define CODE_MACHINE        (INT64_C(1) << 30)

/* "code-" and 40 hex digits, by which a user's archive is known: ConfigMap, label, directory.
 * Another user's archive with the same content has another name. */
void code_object_name(char out[static CODE_OBJECT + 1], const char *user, struct span sha256);
/* 64 lower-case hex digits. */
bool code_sha_ok(struct span text);

enum code_kind { CODE_FILE, CODE_DIRECTORY, CODE_LINK };

struct code_entry {
	enum code_kind kind;
	const char *path;   /* relative; borrowed */
	const char *target; /* CODE_LINK */
	bool executable;    /* CODE_FILE: mode 0755 */
	int64_t size;       /* CODE_FILE */
};

/* The order of an archive: that of the bytes, with / before all others.  So a directory is before
 * what is in it, and this before everything else. */
int code_path_compare(const char *a, const char *b);

/* The rules of paths and targets.  -1 and *e (400 InvalidCodeError), which names the entry. */
int code_entry_check(const struct code_entry *entry, struct err *e);

struct code_limits {
	int64_t entries, bytes; /* of the tar's files together */
};

/* Takes the entries that the reader finds.  Each function returns 0, or -1 and *e, which ends the
 * reading.  NULL: nothing to do. */
struct code_sink {
	int (*entry)(void *arg, const struct code_entry *entry, struct err *e);
	int (*data)(void *arg, struct span bytes, struct err *e); /* of the last file, in order */
	void *arg;
};

/* The result of a whole archive. */
struct code_facts {
	char sha256[CODE_SHA + 1];
	int64_t entries, bytes; /* of its files */
};

/* ---- code_reader.c ---- */

struct code_reader;
/* limits and sink are copied. */
struct code_reader *code_reader_new(const struct code_limits *limits, const struct code_sink *sink);
/* Takes the next bytes of the compressed archive.  -1 and *e (400 InvalidCodeError, 413 above a
 * limit, or of the sink), which names the entry; then only code_reader_free may follow. */
int code_reader_feed(struct code_reader *r, struct span packed, struct err *e);
/* The end of the archive.  -1 and *e (400): it is not whole. */
int code_reader_end(struct code_reader *r, struct code_facts *out, struct err *e);
void code_reader_free(struct code_reader *r); /* accepts NULL */

/* ---- code_writer.c ---- */

struct code_writer;
/* Takes compressed bytes; -1 and *e. */
typedef int code_output(void *arg, struct span packed, struct err *e);
struct code_writer *code_writer_new(code_output *output, void *arg);
/* The next entry, in the order of code_path_compare; then, of a file, exactly `size` bytes.  -1 and
 * *e (400 InvalidCodeError): an entry that the reader would refuse, or another number of bytes. */
int code_writer_entry(struct code_writer *w, const struct code_entry *entry, struct err *e);
int code_writer_data(struct code_writer *w, struct span bytes, struct err *e);
/* Writes the end, unless `out` is NULL, and frees the writer. */
int code_writer_end(struct code_writer *w, struct code_facts *out, struct err *e);

/* ---- code_unpack.c ---- */

/* A sink that makes the entries below a directory, where nothing of them exists: nothing is
 * replaced, and no link is followed.  Begins as zeros, except `dir`. */
struct code_unpack {
	int dir;       /* borrowed */
	bool writable; /* for all: files are 0666 or 0777, directories 0777; else as umask says */
	int file;      /* the last one, plus 1; 0: none */
	char path[CODE_PATH + 1]; /* of it */
};
struct code_sink code_unpack_sink(struct code_unpack *u); /* u is borrowed */
/* Closes the last file; to be called in any case.  -1 and *e (500), as for the other errors of this
 * sink. */
int code_unpack_end(struct code_unpack *u, struct err *e);
