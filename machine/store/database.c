/*
 * Opens, checks and makes the database, and binds its statements.  Other users must not be able to
 * plant links or to read objects, so links are not followed, and the directory must be private.
 *
 * The lock of the VFS unix-excl keeps other processes out and the index of the log in memory, for
 * all connections of this process, so that there is no shared memory file.
 */
#include "machine/store/local_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/enc.h"
#include "base/posix/clock.h"
#include "base/posix/fd.h"

enum {
	LOCK_WAITS = 100,
	LOCK_WAIT_MS = 20,
	LOG_COPIED = 512, /* pages of the log after which it is copied */
	ID_AT = 68,       /* of application_id in page 1 */
	SCHEMA_VERSION = 2,
	DAMAGED_TEXT = 1 << 20, /* bytes of sentences; no more are told */
};

/* A Framework always has a row in `status`: the engine writes that, and not the large body.  Its
 * uid shows whose it is, if an id is damaged.  Rows below 0 have the versions and uids of the last
 * removals.  For `attempt` see attempts.h: attempt_time has all that a report reads.
 * Tables come before indexes, as in a backup: so page 1 of all databases is the same but for
 * counts. */
static const char SCHEMA[] =
    /* A journal in a file could come back after a power failure. */
    "PRAGMA synchronous = OFF; PRAGMA journal_mode = MEMORY; PRAGMA journal_mode = WAL;"
    "BEGIN;"
    "CREATE TABLE object(id INTEGER PRIMARY KEY, version INTEGER NOT NULL, "
    "kind INTEGER NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL, uid TEXT NOT NULL, "
    "owner TEXT REFERENCES object(uid) ON DELETE CASCADE, body TEXT NOT NULL);"
    "CREATE TABLE status(id INTEGER PRIMARY KEY, uid TEXT NOT NULL, "
    "version INTEGER NOT NULL, text TEXT);"
    "CREATE TABLE attempt(id INTEGER PRIMARY KEY, uid TEXT, framework TEXT, job TEXT, user TEXT, "
    "cluster TEXT, role TEXT, task INTEGER, attempt INTEGER, retry INTEGER, gpus INTEGER, "
    "cpus INTEGER, memory INTEGER, bound_ms INTEGER, held_ms INTEGER, ended INTEGER, "
    "exit INTEGER, cpu_ms INTEGER, idle_ms INTEGER, energy_j INTEGER, figures TEXT, curves BLOB);"
    "CREATE UNIQUE INDEX object_name ON object(kind, namespace, name);"
    "CREATE UNIQUE INDEX object_uid ON object(uid);"
    "CREATE INDEX object_owner ON object(owner) WHERE owner IS NOT NULL;"
    "CREATE UNIQUE INDEX attempt_uid ON attempt(uid);"
    "CREATE INDEX attempt_job ON attempt(framework, role, task, attempt, retry);"
    "CREATE INDEX attempt_time ON attempt(bound_ms, held_ms, user, cluster, gpus, idle_ms, cpu_ms, "
    "energy_j, ended, exit);"
    "CREATE TRIGGER object_gone AFTER DELETE ON object BEGIN "
    "DELETE FROM status WHERE id = old.id; END;"
    "CREATE TRIGGER attempt_gone AFTER DELETE ON object WHEN old.owner IS NULL BEGIN "
    "UPDATE attempt SET curves = NULL WHERE framework = old.uid; END;" DB_SET_NUMBER ";"
    "COMMIT";

/* ---- statements -------------------------------------------------------------------- */

sqlite3_stmt *db_bind(struct database *d, const char *sql, const char *types, ...)
{
	va_list args;
	sqlite3_stmt *s = sqlite3_next_stmt(d->db, NULL);
	while (s && strcmp(sqlite3_sql(s), sql) != 0)
		s = sqlite3_next_stmt(d->db, s);
	/* sqlite3_prepare_v3 leaves NULL on failure, which cannot be run either. */
	if (!s)
		(void)sqlite3_prepare_v3(d->db, sql, -1, SQLITE_PREPARE_PERSISTENT, &s, NULL);
	va_start(args, types);
	for (int i = 0; types[i] && s; i++) {
		if (types[i] == 'i') {
			(void)sqlite3_bind_int64(s, i + 1, va_arg(args, int64_t));
			continue;
		}
		struct span t = va_arg(args, struct span);
		/* Lengths are bounded far below the limit of SQLite. */
		(void)sqlite3_bind_text(s, i + 1, t.p, (int)t.n, SQLITE_STATIC);
	}
	va_end(args);
	return s;
}

int db_finish(sqlite3_stmt *s)
{
	int code = s ? sqlite3_step(s) : SQLITE_ERROR;
	stmt_reset(&s);
	return code == SQLITE_DONE || code == SQLITE_ROW ? 0 : code;
}

struct span db_text(sqlite3_stmt *s, int column)
{
	const void *text = sqlite3_column_blob(s, column);
	return (struct span){ text ? text : "", (size_t)sqlite3_column_bytes(s, column) };
}

int db_ask(struct database *d, const char *sql, int64_t *n)
{
	STMT_AUTO *s = db_bind(d, sql, "");
	int code = s ? sqlite3_step(s) : sqlite3_extended_errcode(d->db);
	*n = code == SQLITE_ROW ? sqlite3_column_int64(s, 0) : 0;
	return code == SQLITE_ROW ? 0 : code;
}

/* ---- transactions ------------------------------------------------------------------ */

/* Notes a sync that has failed. */
static int db_synced(struct database *d, int code)
{
	if (code == SQLITE_IOERR_FSYNC || code == SQLITE_IOERR_DIR_FSYNC)
		d->unsure = true;
	return code;
}

int db_copy_log(struct database *d, sqlite3 *with, int mode)
{
	return db_synced(d, sqlite3_wal_checkpoint_v2(with, NULL, mode, NULL, NULL));
}

int db_empty_log(struct database *d)
{
	int64_t id = 0;
	int code = db_copy_log(d, d->db, SQLITE_CHECKPOINT_TRUNCATE);
	code = code ?: db_ask(d, "PRAGMA application_id", &id);
	if (code)
		return code;
	d->log_id = (uint32_t)id;
	d->wal = 0;
	return 0;
}

void db_begin(struct database *d)
{
	/* The file of the log keeps its size: commits are faster where it has its blocks already.
	 * It begins anew early enough for the commits that follow while it is being read or copied;
	 * the other thread has copied nearly all of it. */
	bool full = d->wal > LOG_MAX / 4 * 3;
	d->fault = d->unsure ? SQLITE_IOERR_FSYNC
	           : full    ? db_copy_log(d, d->db, SQLITE_CHECKPOINT_RESTART)
	                     : 0;
	int code = db_run(d, "BEGIN", "");
	if (d->fault == 0 || d->fault == SQLITE_BUSY) /* it is being copied */
		d->fault = code;
}

int db_mark_log(struct database *d)
{
	uint32_t id = d->log_id + 1;
	if (d->wal > 0)
		return 0;
	if (d->log_id == 0) /* a new database */
		random_bytes(&id, sizeof(id));
	FREE_AUTO char *sql = xasprintf("PRAGMA application_id = %d", (int)id);
	d->fault = sqlite3_exec(d->db, sql, NULL, NULL, NULL); /* it may have rolled back */
	return d->fault;
}

int db_commit(struct database *d)
{
	/* SQLite has rolled back if there is no transaction. */
	int code = sqlite3_get_autocommit(d->db) ? d->fault : db_run(d, "COMMIT", "");
	if (!sqlite3_get_autocommit(d->db))
		(void)db_run(d, "ROLLBACK", ""); /* there is nothing else to do */
	return db_synced(d, code);
}

int db_write(struct database *d, int (*step)(struct database *d, void *arg), void *arg)
{
	int code = d->fault ?: db_mark_log(d) ?: db_run(d, "SAVEPOINT step", "");
	if (code)
		return code;
	code = step(d, arg);
	if (code && !sqlite3_get_autocommit(d->db) &&
	    db_run(d, "ROLLBACK TO step", "")) /* nothing may stay half done */
		(void)db_run(d, "ROLLBACK", "");
	/* If the transaction is given up, the commit fails, and with it all of them. */
	if (sqlite3_get_autocommit(d->db))
		d->fault = sqlite3_extended_errcode(d->db) ?: SQLITE_IOERR;
	else
		(void)db_run(d, "RELEASE step", "");
	return code;
}

/* The size of the log after each commit; without this, SQLite would copy it in a commit. */
static int db_committed(void *arg, sqlite3 *db, const char *name, int pages)
{
	struct database *d = arg;
	(void)db;
	(void)name;
	if (pages / LOG_COPIED > atomic_exchange(&d->wal, pages) / LOG_COPIED)
		(void)sem_post(&d->copy);
	return SQLITE_OK;
}

/* ---- the directory ----------------------------------------------------------------- */

/* As aside_check_database. */
static int db_open_directory(struct database *d, const char *dir, struct err *e)
{
	(void)mkdir(dir, 0700); /* may be there */
	if (aside_open(d, dir, e) < 0)
		return -1;
	/* A child of a killed server has the lock, too, until it has executed its program. */
	for (int waits = LOCK_WAITS; flock(d->root, LOCK_EX | LOCK_NB) != 0; waits--) {
		if (waits == 0)
			return err_set(e, UNKNOWN_ERROR, "%s is in use by another process", dir);
		clock_sleep(LOCK_WAIT_MS);
	}
	return aside_check_database(d, e);
}

/* ---- the database ------------------------------------------------------------------ */

int db_connect(struct database *d, const char *file)
{
	FREE_AUTO char *name = xasprintf("%s/%s", d->path, file);
	int code =
	    sqlite3_open_v2(name, &d->db,
	                    SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX |
	                        SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_EXRESCODE,
	                    "unix-excl");
	(void)sqlite3_db_config(d->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
	return code
	           ?: sqlite3_exec(d->db,
	                           "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; "
	                           "PRAGMA secure_delete = ON; PRAGMA mmap_size = 0; "
	                           "PRAGMA temp_store = MEMORY; PRAGMA cache_size = -4096; "
	                           "PRAGMA auto_vacuum = NONE; PRAGMA synchronous = FULL",
	                           NULL, NULL, NULL);
}

void db_disconnect(struct database *d)
{
	sqlite3_stmt *s;
	while (d->db && (s = sqlite3_next_stmt(d->db, NULL)))
		(void)sqlite3_finalize(s);
	(void)sqlite3_close(d->db); /* nothing is left that keeps it open */
	d->db = NULL;
}

/* The log, after which the number is `id`, is of this database, see db_mark_log.  A backup (its
 * journal is 1) has none. */
static bool db_log_ok(const struct database *d, int file, uint32_t id)
{
	unsigned char head[DB_HEAD];
	uint32_t own;
	if (aside_log_size(d) == 0 || pread(file, head, DB_HEAD, 0) != DB_HEAD)
		return true;
	bool backup = head[18] == 1 && head[19] == 1;
	memcpy(&own, head + ID_AT, sizeof(own));
	own = ntohl(own);
	return !backup && (own == 0 || id == own || id == own + 1);
}

/* Opens the file and looks at its numbers.  SQLITE_CANTOPEN: errno; SQLITE_SCHEMA: it is newer;
 * SQLITE_PROTOCOL: the log is of another database.  *older: it is of the version before. */
static int db_look(struct database *d, bool *older)
{
	int64_t id = 0;
	int64_t version = 0;
	FD_AUTO fd = openat(d->root, DB_FILE, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || (!d->transient && fsync(d->root) != 0))
		return SQLITE_CANTOPEN;
	int code = db_connect(d, DB_FILE);
	code = code ?: db_ask(d, "PRAGMA application_id", &id);
	if (code == 0 && !db_log_ok(d, fd, (uint32_t)id))
		return SQLITE_PROTOCOL;
	code = code ?: db_ask(d, "PRAGMA user_version", &version);
	if (code)
		return code;
	/* With the tables of this version, or of the one before, another number is damage. */
	STMT_AUTO *s = db_bind(d,
	                       "SELECT min(instr(?1, sql)) > 0, max(name = 'attempt') "
	                       "FROM sqlite_schema WHERE sql IS NOT NULL",
	                       "t", span_of(SCHEMA));
	bool read = s && sqlite3_step(s) == SQLITE_ROW; /* else the check of all of it says why */
	bool ours = read && sqlite3_column_int(s, 0) > 0;
	bool lacks = read && sqlite3_column_int(s, 1) == 0;
	*older = version == SCHEMA_VERSION - 1 && ours && lacks;
	if (*older || (version == SCHEMA_VERSION && !lacks))
		return 0;
	return version > SCHEMA_VERSION && !ours ? SQLITE_SCHEMA : SQLITE_CORRUPT;
}

/* A backup has another journal. */
static int db_set_journal(struct database *d)
{
	return sqlite3_exec(d->db,
	                    d->transient ? "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF"
	                                 : "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL",
	                    NULL, NULL, NULL);
}

/* Connects to the database and checks all of it; it changes nothing before.  As db_look;
 * SQLITE_NOTICE: it is of the version before. */
static int db_load(struct database *d)
{
	int64_t good = 0;
	int pages = 0;
	bool older = false;
	int code = db_look(d, &older);
	code =
	    code ?: db_ask(d, "SELECT integrity_check = 'ok' FROM pragma_integrity_check", &good);
	if (code || !good)
		return code ?: SQLITE_CORRUPT;
	if (sqlite3_db_readonly(d->db, "main")) /* as its head says */
		return SQLITE_READONLY;
	code = db_set_journal(d);
	code =
	    code ?: sqlite3_wal_checkpoint_v2(d->db, NULL, SQLITE_CHECKPOINT_PASSIVE, &pages, NULL);
	d->wal = pages;
	code = code ?: damage_log(d, pages);
	/* All in the log is stored in the database, although a sync of it may have failed before.
	 * On a full disk it stays in the log. */
	code = code ?: db_empty_log(d);
	(void)sqlite3_db_config(d->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, NULL);
	code = (code & 0xff) == SQLITE_FULL ? 0 : code;
	return code ?: older ? SQLITE_NOTICE : 0;
}

void db_remove_parts(const struct database *d)
{
	static const char *const FILES[] = { DB_NEW, DB_NEW "-wal", DB_OLD, DB_OLD "-wal" };
	for (size_t i = 0; i < ARRAY_SIZE(FILES); i++)
		(void)unlinkat(d->root, FILES[i], 0);
}

int db_make(struct database *d)
{
	db_remove_parts(d); /* of a start that was interrupted */
	FD_AUTO fd = openat(d->root, DB_NEW, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return SQLITE_CANTOPEN;
	int code = db_connect(d, DB_NEW);
	code = code ?: sqlite3_exec(d->db, SCHEMA, NULL, NULL, NULL);
	return code ?: db_set_journal(d) ?: db_empty_log(d);
}

static int db_refuse(const struct database *d, const char *fault, int code, struct err *e)
{
	return err_set(e, UNKNOWN_ERROR, "%s/%s %s: %s", d->path, DB_FILE, fault,
	               code == SQLITE_CANTOPEN ? strerrordesc_np(errno) : sqlite3_errstr(code));
}

/* Copies a database of the version before into a new one, which takes its name; so page 1 is as in
 * all others.  After a kill it is the one or the other. */
static int db_take_over(struct database *d)
{
	static const char COPY[] = "BEGIN; INSERT INTO object SELECT * FROM old.object; "
				   "INSERT INTO status SELECT * FROM old.status; COMMIT";
	struct database new = { .root = d->root, .path = d->path };
	FREE_AUTO char *file = xasprintf("%s/" DB_FILE, d->path);
	int code = db_empty_log(d); /* it is of the old one */
	db_disconnect(d);
	code = code ?: db_make(&new) ?: db_run(&new, "ATTACH ?1 AS old", "t", span_of(file));
	code = code ?: sqlite3_exec(new.db, COPY, NULL, NULL, NULL) ?: db_empty_log(&new);
	db_disconnect(&new);
	if (code == 0 && (renameat(d->root, DB_NEW, d->root, DB_FILE) != 0 || fsync(d->root) != 0))
		code = SQLITE_CANTOPEN;
	int cause = errno;
	db_remove_parts(d);
	errno = cause;
	return code;
}

/* Loads the database, or rescues what can be read of it.  0, -1 and *e, or SQLITE_... */
static int db_begin_with(struct database *d, struct err *e)
{
	int code = db_load(d);
	if (code == SQLITE_NOTICE && (code = db_take_over(d)) != 0)
		return db_refuse(d, "is of an older version, and cannot be copied", code, e);
	if (code == 0 && !d->db)
		code = db_load(d);
	if (code == SQLITE_SCHEMA || code == SQLITE_PROTOCOL)
		return err_set(
		    e, UNKNOWN_ERROR,
		    code == SQLITE_SCHEMA
			? "%s/store.db was made by a newer version of rest-lit: start that "
			  "version, or put a backup of this one in its place"
			: "%s/store.db-wal is not the log of the store.db beside it, but of "
			  "another one, or of another time; nothing was changed. Put the right "
			  "file in the place of one of them, or, to begin with store.db as it is, "
			  "move the log to another place",
		    d->path);
	/* An error of the schema is one of its text; only a damaged head forbids to write. */
	if ((code & 0xff) != SQLITE_CORRUPT && (code & 0xff) != SQLITE_NOTADB &&
	    code != SQLITE_ERROR && code != SQLITE_READONLY)
		return code;
	db_disconnect(d);
	code = damage_rescue(d, e) ?: db_load(d);
	return code > 0 ? db_refuse(d, "is damaged, and cannot be copied", code, e) : code;
}

int db_open(struct database *d, const char *dir, struct err *e)
{
	d->damaged = (struct str)STR_INIT(DAMAGED_TEXT);
	(void)sem_init(&d->copy, 0, 0); /* cannot fail */
	int none = db_open_directory(d, dir, e);
	if (none < 0)
		return -1;
	(void)unlinkat(d->root, DB_COPY, 0); /* of a server that was killed */
	int code = none ? db_make(d) : 0;
	db_disconnect(d);
	if (none && code == 0 && renameat(d->root, DB_NEW, d->root, DB_FILE) != 0)
		code = SQLITE_CANTOPEN;
	if (none && code == 0)
		db_remove_parts(d); /* its empty log */
	code = code ?: db_begin_with(d, e);
	if (code == 0)
		(void)sqlite3_wal_hook(d->db, db_committed, d);
	/* Objects whose owner is gone go, with all that these own. */
	static const char ORPHANS[] =
	    "PRAGMA foreign_keys = ON; DELETE FROM object WHERE owner NOT "
	    "IN (SELECT uid FROM object)";
	code = code ?: sqlite3_exec(d->db, ORPHANS, NULL, NULL, NULL);
	code = code ?: damage_rows(d, e);
	if (code == 0)
		attempts_check(d);
	code = code ?: damage_files(d);
	if (code == 0)
		(void)db_empty_log(d); /* on a full disk it stays */
	return code > 0 ? db_refuse(d, "cannot be read", code, e) : code;
}
