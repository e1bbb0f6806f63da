#pragma once
/*
 * Where the archives of jobs' code (base/code/code.h) are kept.  Each has a small ConfigMap
 * `code-H` with its facts and its last use (code_object.c).  On a cluster the bytes are in
 * immutable ConfigMaps `code-H-0`, `code-H-1` ..., which it owns, so that the garbage collector
 * removes them with it; on one machine they are the file DIRECTORY/code-H/part.  Jobs name an
 * archive by the label rest-lit/code of their Framework.
 *
 * An archive goes (code_round.c) when no Framework names it and its last use is old.  A submission
 * writes the last use before it creates its Framework, and so changes the resourceVersion with
 * which the ConfigMap is deleted: either the deletion fails, or the submission finds nothing.
 *
 * Calls block, and use the caller of *s.  Errors are for the user who sends or wants the code.
 *
 * Thread: worker
 */
#include "base/code/code.h"
#include "jobs/store/call.h"

struct code_store {
	struct caller *caller;
	int64_t deadline_ms; /* of each request, by clock_ms */
	struct arena *arena; /* of the results of code_find and code_part */
	const char *instance;
	const char *directory;         /* of one machine; NULL: a cluster */
	int64_t user_bytes, all_bytes; /* the most that a user, and all users, may keep */
	int64_t age_ms;                /* unused for so long: removed */
	int64_t young_ms;              /* an upload that was begun so lately is not replaced */
	/* One machine: true if a Framework names it.  NULL: the API server is asked. */
	bool (*named)(const void *arg, const char *name);
	/* One machine: this directory of an archive has no ConfigMap any more; it may be moved. */
	void (*orphan)(const void *arg, const char *name);
	const void *arg;
};

/* Texts live in the arena of the reader. */
struct code_archive {
	const char *name, *user; /* name: code_object_name */
	struct span sha256;      /* of the tar */
	struct span digest;      /* SHA-256 of the compressed bytes; "" on one machine */
	int64_t bytes;           /* compressed */
	int64_t unpacked, entries, parts;
	const char *uid, *version;
	int64_t used_ms; /* last use, since 1970 */
	bool complete;
};

#define NO_CODE 404, "NoCodeError"

/* Reads a ConfigMap `code-H`, or its metadata.  false: it is none that this program has made.
 * Thread: any. */
bool code_archive_read(struct span object, struct arena *a, struct code_archive *out);
/* The merge patch that makes now the last use, of an object of this uid (else NULL) that becomes
 * complete.  In the arena.  Thread: any. */
const char *code_renewal(const char *uid, struct arena *a);
/* Fills *e for an outcome of a request that is not expected.  -1.  Thread: any. */
int code_fail(struct store_request r, const struct store_reply *reply, struct err *e);
/* It is complete, and its file exists on one machine (directory; else NULL).  Thread: any. */
bool code_archive_usable(const struct code_archive *c, const char *directory);

/* Finds an archive and makes now its last use, if `renew`.  -1, *e: 404 NoCodeError, 503. */
int code_find(struct code_store *s, const char *name, bool renew, struct code_archive *out,
              struct err *e);
/* A part of it.  A cluster only. */
int code_part(struct code_store *s, const struct code_archive *c, int64_t i, struct span *bytes,
              struct err *e);

/* The archives of a user over the limit, the largest first. */
enum { CODE_LARGEST = 3 };
struct code_full {
	bool all; /* those of all users are over it */
	int64_t limit;
	struct {
		char name[CODE_OBJECT + 1];
		int64_t bytes;
	} largest[CODE_LARGEST];
	size_t n;
};
/*
 * Keeps a checked archive: `want` without the members of a stored object.  packed: its bytes, or
 * the name of a directory in s->directory with the synced file `part`, which is moved.  1: it is
 * kept now; 0: it was there, and its last use is now; -1 and *e: 413 and *full, or 503, also while
 * another upload of the same code with other compressed bytes is under way.  A repetition goes on
 * where an upload was interrupted.  Two at once may exceed a limit by one archive.
 */
int code_keep(struct code_store *s, const struct code_archive *want, struct span packed,
              struct code_full *full, struct err *e);

/* Removes what is not used, and calls s->orphan.  Returns how many; -1 and *e. */
int64_t code_round(struct code_store *s, struct err *e);

/* Makes the directory of one machine, and removes what interrupted uploads have left there.  -1 and
 * *e: 500. */
#define CODE_UPLOAD "upload-" /* begins the names of their directories */
int code_directory_open(const char *directory, struct err *e);
