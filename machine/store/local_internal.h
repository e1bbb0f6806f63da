#pragma once
/* The parts of the store of one machine.  Private to machine/store/ and its tests.  One thread at a
 * time; blocks. */
#include <jansson.h>
#include <sqlite3.h>
#include <stdatomic.h>

#include "machine/store/local.h"

#define WIPED_STR __attribute__((cleanup(str_wipe))) struct str

#define DB_FILE "store.db"
#define DB_COPY DB_FILE ".copy" /* while a backup is made */

enum { OBJECT_MAX = 4 << 20, TEXT_MAX = 2 * OBJECT_MAX, UID_LEN = 36, OBJECT_DEPTH = 1024 };
#define VERSION_MAX (INT64_C(1) << 53)

/* ---- database.c: SQLite ---- */

/* The statements; their texts are in database.c.  Those of ROW have the columns of row_of. */
enum db_statement {
	DB_BEGIN,
	DB_COMMIT,
	DB_ROLLBACK,
	DB_SAVE,    /* a savepoint */
	DB_RELEASE, /* it */
	DB_UNDO,    /* all since it */
	ROW_BY_NAME,
	ROW_BY_UID,
	ROW_LIST,       /* of a kind and a namespace */
	ROW_DEPENDENTS, /* and theirs, of an id */
	ROW_BY_ID,
	ROW_ALL,
	DB_UID,
	DB_INSERT,
	DB_UPDATE,
	DB_STATUS,
	DB_DELETE,  /* with all dependents */
	DB_ORPHANS, /* some of them */
	DB_PROBE,   /* writes something */
	DAMAGE_ROW, /* these of a database that is damaged */
	DAMAGE_ROWS,
	DAMAGE_NAMES, /* from the index */
	DAMAGE_STATUS,
	DB_STATEMENTS
};

struct database {
	sqlite3 *db;
	sqlite3_stmt *statement[DB_STATEMENTS];
	char *path;     /* of the directory, without links */
	int root;       /* the directory; its lock */
	bool begun;     /* a transaction is open */
	int fault;      /* SQLITE_..., why the transaction is lost; 0 */
	int wal;        /* pages of the log */
	bool unsure;    /* a sync has failed: what a new start finds is not known */
	bool transient; /* see local_open_transient; set before db_open */
	int64_t version;
	json_t *damaged; /* sentences */
};
#define DATABASE_CLOSED ((struct database){ .root = -1 })

/* Opens or makes the directory, locks it, opens or makes the database.  -1 and *e (500) if the
 * directory belongs to another user, its mode is not 0700, another process holds the lock, or the
 * database cannot be read; what is damaged has been set aside. */
int db_open(struct database *d, const char *dir, struct err *e);
void db_close(struct database *d);
void db_disconnect(struct database *d); /* the database alone */
/* Another connection to the database of a directory; SQLITE_... */
int db_connect(const char *path, const char *file, sqlite3 **db);
/* The schema, if there is none; SQLITE_... */
int db_make(sqlite3 *db);

/* A statement with its parameters: i int64_t, s const char * or NULL, t struct span.  It borrows
 * them until it is run to its end, or reset. */
sqlite3_stmt *db_bind(struct database *d, enum db_statement which, const char *types, ...);
/* Runs a statement that returns no row, and resets it.  0 or SQLITE_... */
int db_finish(sqlite3_stmt *s);
#define db_run(d, which, ...) db_finish(db_bind(d, which, __VA_ARGS__))
/* A text column; borrowed until the next step. */
struct span db_text(sqlite3_stmt *s, int column);

/* Begins a transaction if there is none.  0 or SQLITE_... */
int db_begin(struct database *d);
/* Ends it.  After SQLITE_IOERR_FSYNC it may have been stored, and `unsure` is set. */
int db_commit(struct database *d);
/* Copies the log into the database and empties it; SQLITE_... */
int db_empty_log(struct database *d);
bool db_unsure(int code);

/* ---- objects.c: the text of an object, and its parts in the database ---- */

/*
 * An object as the database has it: metadata without resourceVersion; `rest` is the object without
 * metadata and status.  A status can be written alone.
 */
struct row {
	int64_t id, version;
	enum object_kind kind;      /* KIND_MADE: none of those that are stored */
	struct span namespace_name; /* "": that of the jobs */
	struct span name, uid, owner;
	struct span meta, rest; /* JSON objects */
	struct span status;     /* JSON, or empty */
	struct span stated;     /* the uid in the row of the status; empty: there is none */
};

/* The row of a statement ROW_..., which has been stepped; borrowed until the next step. */
struct row row_of(sqlite3_stmt *s);
/* Steps a statement to its first row.  0, and the statement is to be reset; ROW_ABSENT, or
 * SQLITE_... */
enum { ROW_ABSENT = -1 };
int row_find(sqlite3_stmt *s, struct row *r);
/* Appends the object, or its metadata alone. */
void row_text(struct str *out, const struct row *r, bool whole);
/* A text of metadata that has no escapes; else "". */
struct span row_member(const struct row *r, const char *key);
/* It can be read back: valid JSON, with the name and the uid of the row. */
bool row_ok(const struct row *r);
/* 0 or SQLITE_... */
int row_insert(struct database *d, struct row *r);       /* sets its id */
int row_update(struct database *d, const struct row *r); /* of its id; not name, uid, kind */
int row_state(struct database *d, const struct row *r);  /* its status alone */

/* An object in parts. */
struct parts {
	struct str meta, rest;
	struct span kind, namespace_name; /* as the object says; "" if it does not */
	struct row row;                   /* name, uid, owner, status; then meta and rest */
};
#define PARTS_AUTO __attribute__((cleanup(parts_done))) struct parts
/* Reads valid JSON, which is borrowed; of metadata without the members `without` (to NULL).  -1 if
 * it is no object, or if members of it or of metadata are repeated. */
int parts_read(struct parts *p, struct span object, const char *const *without);
/* Adds a text to metadata, which needs no escapes. */
void parts_add(struct parts *p, const char *key, const char *value);
/* Then the row has all parts.  false: it is too large. */
bool parts_end(struct parts *p);
void parts_done(struct parts *p);

/* ---- requests.c ---- */

/* What the follower is to be told after the commit. */
struct told {
	struct str text;
	bool gone;
};

struct requests {
	struct database *db;
	bool follows;
	struct told *told;
	size_t n_told;
};

/* Does a request, in the transaction of the database; the answer holds when that is committed.
 * failed: SQLITE_..., why the commit has failed, after which requests that only read are done
 * again; 0. */
void request_do(struct requests *q, const char *namespace_name, const struct store_request *r,
                int failed, struct local_answer *out);
void request_statuses(struct requests *q, struct local_status *s, size_t n, int failed);
void told_done(struct requests *q);

/* ---- damage.c ---- */

/* Copies what can be read of a damaged database into a new one, and sets the old one aside.  -1 and
 * *e. */
int damage_rescue(struct database *d, struct err *e);
/* Reads all rows: the highest version, and those that cannot be read back, whose texts it sets
 * aside and whose jobs it ends.  -1 and *e. */
int damage_rows(struct database *d, struct err *e);

/* ---- import.c ---- */

/* Takes over what earlier versions have kept, one file per object; without such files, removes the
 * ones that an earlier start has set aside.  -1 and *e. */
int import_files(struct database *d, struct err *e);

/* ---- json_patch.c: RFC 6902, `test`, `replace`, and `add` to objects.  Pure ---- */

enum json_patched { PATCH_DONE, PATCH_TEST_FAILED, PATCH_MALFORMED };

/* Apply all operations, in order.  Unless PATCH_DONE, the object is left half changed. */
enum json_patched json_patch_apply(json_t *object, const json_t *patch);

/* ---- selector.c: the label selector of a LIST.  Pure ---- */

enum { SELECTOR_TERMS = 8, SELECTOR_TEXT = 1024 };

/* One condition on the labels of an object; the texts are in selector.text. */
struct selector_term {
	const char *key;
	const char *value; /* NULL: any */
};

struct selector {
	struct selector_term term[SELECTOR_TERMS];
	size_t n;
	char text[SELECTOR_TEXT];
};

/* Read labelSelector (KEY=VALUE and KEY, joined by commas) from the query of a URL; NULL: all
 * objects.  Ignores limit, continue and resourceVersion, because this store always answers with the
 * whole list.  -1 for other parameters. */
int selector_read(struct selector *s, const char *query);
bool selector_fits(const struct selector *s, struct span labels);
