#pragma once
/* The parts of the store of one machine.  Private to machine/store/ and its tests.  One thread at a
 * time; blocks. */
#include <semaphore.h>
#include <sqlite3.h>
#include <stdatomic.h>

#include "base/posix/mailbox.h"
#include "machine/store/aside.h"
#include "machine/store/local.h"

#define WIPED_STR __attribute__((cleanup(str_wipe))) struct str

#define DB_FILE "store.db"
#define DB_COPY DB_FILE ".copy" /* while a backup is made */
#define DB_NEW  DB_FILE ".new"  /* becomes DB_FILE when it is whole */
#define DB_OLD  DB_FILE ".old"  /* a copy of a damaged one, while it is read */

enum { OBJECT_MAX = 4 << 20, TEXT_MAX = 2 * OBJECT_MAX, UID_LEN = 36, OBJECT_DEPTH = 1000 };
enum { PAGE = 4096, DB_HEAD = 100 };
enum { LOG_MAX = (64 << 20) / 4096 /* pages; twice as many while a backup is made */ };
/* So many removals are known at a start, when the files of the removed jobs go. */
enum { REMOVALS = 1 << 14 };
#define VERSION_MAX (INT64_C(1) << 53)

/* ---- database.c: SQLite ---- */

/* Changes nothing in a database of this version. */
#define DB_SET_NUMBER "PRAGMA user_version = 2"

struct database {
	sqlite3 *db;
	char *path;       /* of the directory, without links */
	int root;         /* the directory; its lock; -1 before db_open */
	const char *jobs; /* their namespace; set before db_open, as the next; see local_open */
	bool transient;
	int fault;          /* SQLITE_..., why nothing is stored in this transaction; 0 */
	atomic_bool unsure; /* a sync has failed: the contents after a restart are not known */
	atomic_int wal;     /* pages of the log; 0: it was emptied */
	int64_t version;    /* the highest */
	uint32_t log_id;    /* in page 1 of the file, see db_mark_log */
	struct str damaged; /* sentences, each ends with a newline */
	sem_t copy;         /* the log is to be copied into the file */
	int64_t pruned_ms;  /* clock_ms() when old rows of `attempt` were looked for */
	size_t unpruned;    /* rows that were stored since */
};

/* Opens or makes the directory, locks it, opens or makes the database.  -1 and *e (500) if the
 * directory belongs to another user, its mode is not 0700, another process holds the lock, or the
 * database cannot be read; damaged parts have been set aside. */
int db_open(struct database *d, const char *dir, struct err *e);
/* Connects to a file of the directory; db_disconnect leaves its log as it is.  0 or SQLITE_... */
int db_connect(struct database *d, const char *file);
void db_disconnect(struct database *d);
/* Makes DB_NEW, and connects to it.  SQLITE_CANTOPEN: errno. */
int db_make(struct database *d);
/* Removes DB_NEW and DB_OLD. */
void db_remove_parts(const struct database *d);

/* A statement with its parameters: i int64_t, t struct span (p NULL: NULL).  It
 * borrows them until it is run to its end, or reset; so it is not used twice at a time.  NULL if
 * the database cannot be read. */
#define STMT_AUTO __attribute__((cleanup(stmt_reset))) sqlite3_stmt
static inline void stmt_reset(sqlite3_stmt *const *s)
{
	(void)sqlite3_reset(*s); /* repeats the code */
}
sqlite3_stmt *db_bind(struct database *d, const char *sql, const char *types, ...);
/* Runs a statement that returns no row, and resets it.  0 or SQLITE_... */
int db_finish(sqlite3_stmt *s);
#define db_run(d, sql, ...) db_finish(db_bind(d, sql, __VA_ARGS__))
/* A text column; borrowed until the next step. */
struct span db_text(sqlite3_stmt *s, int column);
/* The number that a statement without parameters returns.  0 or SQLITE_... */
int db_ask(struct database *d, const char *sql, int64_t *n);

/* Begins a transaction. */
void db_begin(struct database *d);
/* Before something is written in it.  After the log was emptied, when the file has all, the number
 * in page 1 (application_id) becomes one more: so a log that belongs to another database, or to
 * another time, is known.  0 or SQLITE_..., which is d->fault. */
int db_mark_log(struct database *d);
/* Ends it.  0 or SQLITE_...; after SQLITE_IOERR_FSYNC it may have been stored, and `unsure` is set.
 */
int db_commit(struct database *d);
/* Calls a step that writes, with all its effects, or none unless it returns 0.  Returns what it
 * returns, or SQLITE_... if it is not called. */
int db_write(struct database *d, int (*step)(struct database *d, void *arg), void *arg);
/* Copies the log into the database, as far as the mode says; SQLITE_... */
int db_copy_log(struct database *d, sqlite3 *with, int mode);
int db_empty_log(struct database *d);

/* ---- object_text.c: the text of an object, and its row in the database ---- */

/* An object as the database has it.  A Framework's status can be written alone. */
struct object_row {
	int64_t id, version;
	enum object_kind kind;      /* KIND_MADE: none of those that are stored */
	struct span namespace_name; /* "": that of the jobs */
	struct span name, uid, owner;
	struct span body;   /* JSON, without resourceVersion and status */
	struct span status; /* of a Framework: JSON, or empty */
	struct span stated; /* the uid in the row of the status, if it is read */
	struct span meta;   /* after row_read: metadata in the body */
};

/* The beginning of the statements of row_find; WHERE or ORDER follow. */
#define ROW                                                                                        \
	"SELECT o.id, max(o.version, ifnull(s.version, 0)), o.kind, o.namespace, o.name, o.uid, "  \
	"o.owner, o.body, s.text, s.uid FROM object o LEFT JOIN status s ON s.id = o.id "
#define ROW_BY_NAME ROW "WHERE o.kind = ?1 AND o.namespace = ?2 AND o.name = ?3"
#define ROW_LIST    ROW "WHERE o.kind = ?1 AND o.namespace = ?2 ORDER BY o.name"

/* Steps such a statement to its next row, which is borrowed.  0, ROW_ABSENT or SQLITE_... */
enum { ROW_ABSENT = -1 };
int row_find(sqlite3_stmt *s, struct object_row *r);
/* 0 or SQLITE_... */
int row_store(struct database *d, struct object_row *r);       /* id 0: a new one, and sets it */
int row_state(struct database *d, const struct object_row *r); /* a Framework's status alone */

/* Appends the object, or its metadata alone. */
void row_text(struct str *out, const struct object_row *r, bool whole);
/* Reads kind, name, uid, owner, and the namespace unless it is "", from the body, which is valid
 * JSON.  false: it is no object that can be stored, or a member is there twice. */
bool row_read(struct object_row *r);
/* Returns true if it can be read back: its body and status are valid, and its columns are those of
 * the body. */
bool row_ok(const struct object_row *r);

/* Splits a whole object, with its version; borrowed from *s.  false: it cannot be stored. */
bool row_split(struct database *d, struct span object, struct object_row *r, sqlite3_stmt **s);

/* ---- local.c ---- */

/* Has the worker do db_write in a commit of its group; or, if the step only reads, calls it with a
 * connection of its own, so that commits go on.  -1 and *e: 503. */
int local_call(struct local *l, bool writes, int (*step)(struct database *d, void *arg), void *arg,
               struct err *e);

/* ---- requests.c ---- */

/* A request on its way to the worker and back. */
struct local_task {
	struct mail mail; /* first */
	const struct store_request *r;
	const struct local_state *state; /* or NULL */
	int (*step)(struct database *d,
	            void *step_arg); /* instead of r; the answer has the status */
	void *step_arg;
	struct local_answer answer;
	sem_t *done;        /* its thread waits for that; NULL: it is of a store */
	struct mailbox *to; /* of the store */
	struct pending *p;
};

/* Does the request of a task, in the transaction of the database; its answer holds when that is
 * committed.  failed: SQLITE_..., the reason of a failed commit, after which requests that only
 * read are done again; 0. */
void request_do(struct database *d, struct local_task *t, int failed);

/* ---- attempts.c ---- */

/* At a start: drops rows that cannot be read back, and some that are too old. */
void attempts_check(struct database *d);
/* Copies the rows that can be read to another database.  0, or SQLITE_... of that. */
int attempts_rescue(struct database *old, struct database *new);

/* ---- aside.c ---- */

/* Opens the directory and sets d->root and d->path.  -1 and *e (500): it is not private. */
int aside_open(struct database *d, const char *dir, struct err *e);
/* 0; 1: there is no database, or an empty one, and none was lost; -1 and *e (500): it was. */
int aside_check_database(const struct database *d, struct err *e);
/* 0, or -1 and *e (500): there are files of jobs, which is said after `what`. */
int aside_refuse(const struct database *d, const char *what, struct err *e);
/* The bytes of the log of the database. */
int64_t aside_log_size(const struct database *d);

/* ---- recovery.c: recovery at a start.  0, -1 and *e, or SQLITE_... ---- */

/* Copies what can be read of a damaged database into a new one, and sets the old one aside.  If
 * nothing can be read, but there are files of jobs, it is an error.  SQLITE_CANTOPEN: errno. */
int damage_rescue(struct database *d, struct err *e);
/* Keeps a copy of the log, of which SQLite reads n pages, if commits behind these cannot be read.
 */
int damage_log(struct database *d, int n);
/* Sets aside the texts of all rows that cannot be read back, and ends their jobs. */
int damage_rows(struct database *d, struct err *e);
/* Tells which directories of jobs are not there, if jobs have run. */
int damage_files(struct database *d);
