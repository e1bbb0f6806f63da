/*
 * The database; see local_internal.h.  Other users must not be able to plant links or to read
 * objects, so links are not followed, and the directory must be private.
 *
 * The lock of the VFS unix-excl keeps other processes out and the index of the log in memory, for
 * all connections of this process, so that there is no shared memory file.
 */
#include "machine/store/local_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"

enum {
	LOCK_WAITS = 100,
	LOCK_WAIT_MS = 20,
	LOG_MAX = (64 << 20) / 4096, /* pages */
	SCHEMA_VERSION = 1,
};

#define ROW                                                                                        \
	"SELECT o.id, max(o.version, ifnull(s.version, 0)), o.kind, o.namespace, o.name, o.uid, "  \
	"o.owner, o.meta, o.rest, s.text, s.uid FROM object o LEFT JOIN status s ON s.id = o.id "
#define DEPENDENTS                                                                                 \
	"WITH RECURSIVE gone(id, uid) AS (SELECT id, uid FROM object WHERE id = ?1 UNION SELECT "  \
	"d.id, d.uid FROM gone g JOIN object d ON d.owner = g.uid) "

/* Without the status, whose table may be damaged, too. */
#define DAMAGED                                                                                    \
	"SELECT id, version, kind, namespace, name, uid, owner, meta, rest, NULL, NULL "           \
	"FROM object NOT INDEXED "

static const char *const SQL[DB_STATEMENTS] = {
	[DB_BEGIN] = "BEGIN IMMEDIATE",
	[DB_COMMIT] = "COMMIT",
	[DB_ROLLBACK] = "ROLLBACK",
	[DB_SAVE] = "SAVEPOINT task",
	[DB_RELEASE] = "RELEASE task",
	[DB_UNDO] = "ROLLBACK TO task",
	[ROW_BY_NAME] = ROW "WHERE o.kind = ?1 AND o.namespace = ?2 AND o.name = ?3",
	[ROW_BY_UID] = ROW "WHERE o.uid = ?1",
	[ROW_LIST] = ROW "WHERE o.kind = ?1 AND o.namespace = ?2 ORDER BY o.name",
	[ROW_DEPENDENTS] = DEPENDENTS ROW "WHERE o.id IN (SELECT id FROM gone)",
	[ROW_BY_ID] = ROW "WHERE o.id = ?1",
	[ROW_ALL] = ROW "ORDER BY o.id",
	[DB_UID] = "SELECT 1 FROM object WHERE uid = ?1",
	[DB_INSERT] = "INSERT INTO object(version, kind, namespace, name, uid, owner, meta, rest) "
		      "VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
	[DB_UPDATE] =
	    "UPDATE object SET version = ?2, owner = ?3, meta = ?4, rest = ?5 WHERE id = ?1",
	[DB_STATUS] = "INSERT INTO status(id, uid, version, text) VALUES(?1, ?2, ?3, ?4) "
		      "ON CONFLICT(id) DO UPDATE SET version = ?3, text = ?4",
	[DB_DELETE] = DEPENDENTS "DELETE FROM object WHERE id IN (SELECT id FROM gone)",
	[DB_ORPHANS] = "DELETE FROM object WHERE owner IS NOT NULL AND owner NOT IN "
		       "(SELECT uid FROM object)",
	[DAMAGE_ROW] = DAMAGED "WHERE id = ?1",
	[DAMAGE_ROWS] = DAMAGED "ORDER BY id",
	[DAMAGE_NAMES] = "SELECT id, 0, kind, namespace, name, '', NULL, '', '', NULL, NULL FROM "
			 "object INDEXED BY object_name ORDER BY kind, namespace, name",
	[DAMAGE_STATUS] = "SELECT version, text, uid FROM status WHERE id = ?1",
	[DB_PROBE] = "INSERT INTO status(id, uid, version, text) VALUES(0, '', 0, zeroblob(4096)) "
		     "ON CONFLICT(id) DO UPDATE SET text = zeroblob(4096)",
};

/* A Framework always has a row in `status`: the engine writes that, and not the large rest.  Its
 * uid shows whose it is, if an id is damaged. */
static const char SCHEMA[] =
    "BEGIN;"
    "CREATE TABLE IF NOT EXISTS object(id INTEGER PRIMARY KEY, version INTEGER NOT NULL, "
    "kind INTEGER NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL, uid TEXT NOT NULL, "
    "owner TEXT, meta TEXT NOT NULL, rest TEXT NOT NULL);"
    "CREATE UNIQUE INDEX IF NOT EXISTS object_name ON object(kind, namespace, name);"
    "CREATE UNIQUE INDEX IF NOT EXISTS object_uid ON object(uid);"
    "CREATE INDEX IF NOT EXISTS object_owner ON object(owner) WHERE owner IS NOT NULL;"
    "CREATE TABLE IF NOT EXISTS status(id INTEGER PRIMARY KEY, uid TEXT NOT NULL, "
    "version INTEGER NOT NULL, text TEXT);"
    "CREATE TRIGGER IF NOT EXISTS object_gone AFTER DELETE ON object BEGIN "
    "DELETE FROM status WHERE id = old.id; END;"
    "PRAGMA user_version = 1;"
    "COMMIT";

/* ---- statements -------------------------------------------------------------------- */

sqlite3_stmt *db_bind(struct database *d, enum db_statement which, const char *types, ...)
{
	sqlite3_stmt **s = &d->statement[which];
	va_list args;
	/* On failure there is none, which cannot be run either. */
	if (!*s)
		(void)sqlite3_prepare_v3(d->db, SQL[which], -1, SQLITE_PREPARE_PERSISTENT, s, NULL);
	va_start(args, types);
	for (int i = 0; types[i] && *s; i++) {
		if (types[i] == 'i') {
			(void)sqlite3_bind_int64(*s, i + 1, va_arg(args, int64_t));
			continue;
		}
		struct span t;
		if (types[i] == 's') {
			const char *text = va_arg(args, const char *);
			t = (struct span){ text, text ? strlen(text) : 0 };
		} else {
			t = va_arg(args, struct span);
		}
		/* Lengths are bounded far below the limit of SQLite. */
		(void)sqlite3_bind_text(*s, i + 1, t.p, (int)t.n, SQLITE_STATIC);
	}
	va_end(args);
	return *s;
}

int db_finish(sqlite3_stmt *s)
{
	int code = s ? sqlite3_step(s) : SQLITE_ERROR;
	(void)sqlite3_reset(s); /* repeats the code */
	return code == SQLITE_DONE || code == SQLITE_ROW ? 0 : code;
}

struct span db_text(sqlite3_stmt *s, int column)
{
	const void *text = sqlite3_column_blob(s, column);
	return (struct span){ text ? text : "", (size_t)sqlite3_column_bytes(s, column) };
}

/* ---- transactions ------------------------------------------------------------------ */

bool db_unsure(int code)
{
	return code == SQLITE_IOERR_FSYNC || code == SQLITE_IOERR_DIR_FSYNC;
}

int db_empty_log(struct database *d)
{
	int code = sqlite3_wal_checkpoint_v2(d->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
	d->unsure |= db_unsure(code);
	if (code == 0)
		d->wal = 0;
	return code;
}

int db_begin(struct database *d)
{
	if (d->fault || d->begun)
		return d->fault;
	if (d->unsure)
		return SQLITE_IOERR_FSYNC;
	int code = d->wal > LOG_MAX ? db_empty_log(d) : 0;
	if (code == 0 || code == SQLITE_BUSY) /* it is being copied */
		code = db_run(d, DB_BEGIN, "");
	d->begun = code == 0;
	return code;
}

int db_commit(struct database *d)
{
	int code = d->fault;
	if (d->begun && code == 0)
		code = db_run(d, DB_COMMIT, "");
	if (d->begun && !sqlite3_get_autocommit(d->db))
		(void)db_run(d, DB_ROLLBACK, ""); /* there is nothing else to do */
	d->unsure |= db_unsure(code);
	d->begun = false;
	d->fault = 0;
	return code;
}

/* ---- the directory ----------------------------------------------------------------- */

/* Why a directory that is open as fd cannot be used, or NULL. */
static const char *directory_fault(int fd)
{
	struct stat st;
	if (fstat(fd, &st) != 0)
		return strerrordesc_np(errno);
	if (st.st_uid != geteuid())
		return "it belongs to another user";
	if ((st.st_mode & 077) != 0)
		return "it is open to other users (needs chmod 0700)";
	return NULL;
}

static int db_open_directory(struct database *d, const char *dir, struct err *e)
{
	if (mkdir(dir, 0700) != 0 && errno != EEXIST)
		return err_set(e, UNKNOWN_ERROR, "%s: %s", dir, strerrordesc_np(errno));
	d->root = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (d->root < 0)
		return err_set(e, UNKNOWN_ERROR, "%s: %s", dir,
		               errno == ELOOP || errno == ENOTDIR ? "it is not a directory"
		                                                  : strerrordesc_np(errno));
	const char *fault = directory_fault(d->root);
	if (fault)
		return err_set(e, UNKNOWN_ERROR, "%s: %s", dir, fault);
	d->path = realpath(dir, NULL);
	if (!d->path)
		return err_set(e, UNKNOWN_ERROR, "%s: %s", dir, strerrordesc_np(errno));
	/* A child of a killed server has the lock, too, until it has executed its program. */
	for (int waits = LOCK_WAITS; flock(d->root, LOCK_EX | LOCK_NB) != 0; waits--) {
		if (waits == 0)
			return err_set(e, UNKNOWN_ERROR, "%s is in use by another process", dir);
		clock_sleep(LOCK_WAIT_MS);
	}
	return 0;
}

/* ---- the database ------------------------------------------------------------------ */

/* The size of the log after each commit; without this, SQLite would copy it in a commit. */
static int db_committed(void *arg, sqlite3 *db, const char *name, int pages)
{
	(void)db;
	(void)name;
	((struct database *)arg)->wal = pages;
	return SQLITE_OK;
}

int db_connect(const char *path, const char *file, sqlite3 **db)
{
	FREE_AUTO char *name = xasprintf("%s/%s", path, file);
	int code =
	    sqlite3_open_v2(name, db,
	                    SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX |
	                        SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_EXRESCODE,
	                    "unix-excl");
	return code ? code
	            : sqlite3_exec(*db,
	                           "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; "
	                           "PRAGMA secure_delete = ON; PRAGMA mmap_size = 0; "
	                           "PRAGMA temp_store = MEMORY; PRAGMA cache_size = -4096; "
	                           "PRAGMA auto_vacuum = NONE; PRAGMA synchronous = FULL",
	                           NULL, NULL, NULL);
}

/* The first column of a row is an integer, or `text`. */
static int db_ask(sqlite3 *db, const char *sql, const char *text, int64_t *n)
{
	sqlite3_stmt *s = NULL;
	int code = sqlite3_prepare_v2(db, sql, -1, &s, NULL);
	code = code ? code : sqlite3_step(s);
	if (code == SQLITE_ROW) {
		*n = sqlite3_column_int64(s, 0);
		code = text && !span_is(db_text(s, 0), text) ? SQLITE_CORRUPT : 0;
	}
	(void)sqlite3_finalize(s);
	return code;
}

int db_make(sqlite3 *db)
{
	/* A journal in a file could come back after a power failure. */
	static const char *const STEPS[] = {
		"PRAGMA synchronous = OFF",  "PRAGMA journal_mode = MEMORY",
		"PRAGMA journal_mode = WAL", SCHEMA,
		"PRAGMA synchronous = FULL",
	};
	int64_t version = 0;
	int code = db_ask(db, "PRAGMA user_version", NULL, &version);
	/* What is not stored yet is made again. */
	for (size_t i = 0; i < ARRAY_SIZE(STEPS) && code == 0 && version == 0; i++)
		code = sqlite3_exec(db, STEPS[i], NULL, NULL, NULL);
	/* A backup has another mode. */
	code = code ? code : sqlite3_exec(db, "PRAGMA journal_mode = WAL", NULL, NULL, NULL);
	return code == 0 && version > SCHEMA_VERSION ? SQLITE_SCHEMA : code;
}

void db_disconnect(struct database *d)
{
	for (size_t i = 0; i < DB_STATEMENTS; i++) {
		(void)sqlite3_finalize(d->statement[i]);
		d->statement[i] = NULL;
	}
	(void)sqlite3_close(d->db); /* nothing is left that keeps it open */
	d->db = NULL;
}

static int db_load(struct database *d)
{
	int64_t n;
	int code = db_connect(d->path, DB_FILE, &d->db);
	if (code == 0) {
		(void)sqlite3_wal_hook(d->db, db_committed, d);
		code = db_make(d->db);
	}
	if (code == 0 && d->transient)
		code = sqlite3_exec(d->db, "PRAGMA synchronous = OFF", NULL, NULL, NULL);
	/* All in the log is stored in the database, although a sync of it may have failed before.
	 */
	if (code == 0)
		code = db_empty_log(d);
	if ((code & 0xff) == SQLITE_FULL) /* a full disk: it stays in the log */
		code = 0;
	return code ? code : db_ask(d->db, "PRAGMA integrity_check(1)", "ok", &n);
}

/* Removes objects whose owner is gone, and then what these own. */
static int db_sweep(struct database *d)
{
	int code = 0;
	int changes = 1;
	while (code == 0 && changes > 0) {
		code = db_run(d, DB_ORPHANS, "");
		changes = sqlite3_changes(d->db);
	}
	return code;
}

static int db_open_file(struct database *d, struct err *e)
{
	FD_AUTO fd = openat(d->root, DB_FILE, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	(void)unlinkat(d->root, DB_COPY, 0); /* of a server that was killed */
	if (fd < 0 || (!d->transient && fsync(d->root) != 0))
		return err_set(e, UNKNOWN_ERROR, "%s/%s cannot be read: %s", d->path, DB_FILE,
		               strerrordesc_np(errno));
	return 0;
}

int db_open(struct database *d, const char *dir, struct err *e)
{
	d->root = -1;
	d->damaged = json_array();
	if (db_open_directory(d, dir, e) < 0 || db_open_file(d, e) < 0)
		return -1;
	int code = db_load(d);
	if (code == SQLITE_SCHEMA)
		return err_set(e, UNKNOWN_ERROR, "%s/%s was made by a newer version of rest-lit",
		               d->path, DB_FILE);
	/* An error of the schema is one of its text. */
	if ((code & 0xff) == SQLITE_CORRUPT || (code & 0xff) == SQLITE_NOTADB ||
	    code == SQLITE_ERROR) {
		db_disconnect(d);
		if (damage_rescue(d, e) < 0)
			return -1;
		code = db_load(d);
	}
	if (code)
		return err_set(e, UNKNOWN_ERROR, "%s/%s cannot be read: %s", d->path, DB_FILE,
		               sqlite3_errstr(code));
	if (import_files(d, e) < 0 || damage_rows(d, e) < 0)
		return -1;
	code = db_sweep(d);
	return code ? err_set(e, UNKNOWN_ERROR, "%s/%s: %s", d->path, DB_FILE, sqlite3_errstr(code))
	            : 0;
}

void db_close(struct database *d)
{
	db_disconnect(d);
	json_decref(d->damaged);
	free(d->path);
	fd_cleanup(&d->root); /* releases the lock */
	*d = DATABASE_CLOSED;
}
