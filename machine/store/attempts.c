/*
 * Rows of the table `attempt`: checked before they are stored and after they are read, so a damaged
 * one is left out.
 */
#include "machine/store/attempts.h"

#include "base/enc.h"
#include "base/json/scan.h"
#include "base/posix/clock.h"
#include "machine/store/local_internal.h"

enum {
	ATTEMPT_TEXT = 1024,
	PRUNE_MS = 3600000,
	PRUNE_ROWS = 1000,     /* after so many stored rows it is done before that time */
	MONDAY_MS = 259200000, /* before 1970 began */
	WEEK_MS = 604800000,
};

#define COLUMNS                                                                                    \
	"uid, framework, job, user, cluster, role, task, attempt, retry, gpus, cpus, memory, "     \
	"bound_ms, held_ms, ended, exit, cpu_ms, idle_ms, energy_j, figures, curves"

/* ---- rows -------------------------------------------------------------------------- */

/* A wrong number is one that sums cannot have. */
static bool attempt_ok(const struct attempt *r)
{
	const struct span texts[] = { r->uid,  r->framework, r->job,
		                      r->user, r->role,      r->virtual_cluster };
	bool ok = r->uid.n > 0 && r->figures.n + r->curves.n <= ATTEMPT_BYTES &&
	          (r->figures.n == 0 || scan_valid(r->figures, OBJECT_DEPTH)) && r->gpus >= 0 &&
	          r->gpus < UINT16_MAX && r->bound_ms >= 0 && r->bound_ms < VERSION_MAX &&
	          r->held_ms >= 0 && r->held_ms < VERSION_MAX;
	for (size_t i = 0; i < ARRAY_SIZE(texts) && ok; i++)
		ok = texts[i].n <= ATTEMPT_TEXT && utf8_check(texts[i]) == texts[i].n;
	return ok;
}

/* Steps a statement of COLUMNS to its next row.  0, ROW_ABSENT, or SQLITE_...; SQLITE_MISMATCH: the
 * row is damaged. */
static int attempts_next(sqlite3_stmt *s, bool curves, struct arena *a, struct attempt *r)
{
	int code = s ? sqlite3_step(s) : SQLITE_ERROR;
	if (code != SQLITE_ROW)
		return code == SQLITE_DONE ? ROW_ABSENT : code;
	*r = (struct attempt){
		.uid = arena_span(a, db_text(s, 0)),
		.framework = arena_span(a, db_text(s, 1)),
		.job = arena_span(a, db_text(s, 2)),
		.user = arena_span(a, db_text(s, 3)),
		.virtual_cluster = arena_span(a, db_text(s, 4)),
		.role = arena_span(a, db_text(s, 5)),
		.index = sqlite3_column_int64(s, 6),
		.attempt = sqlite3_column_int64(s, 7),
		.retry = sqlite3_column_int64(s, 8),
		.gpus = sqlite3_column_int64(s, 9),
		.cpus = sqlite3_column_int64(s, 10),
		.memory = sqlite3_column_int64(s, 11),
		.bound_ms = sqlite3_column_int64(s, 12),
		.held_ms = sqlite3_column_int64(s, 13),
		.ended = sqlite3_column_int(s, 14) != 0,
		.exit = sqlite3_column_int64(s, 15),
		.cpu_ms = sqlite3_column_int64(s, 16),
		.idle_ms = sqlite3_column_int64(s, 17),
		.energy_j = sqlite3_column_int64(s, 18),
		.figures = arena_span(a, db_text(s, 19)),
		.curves = arena_span(a, curves ? db_text(s, 20) : SPAN("")),
	};
	return attempt_ok(r) ? 0 : SQLITE_MISMATCH;
}

/* Curves are stored only as long as there is the Framework, which may be gone before its tasks. */
static int attempts_store(struct database *d, const struct attempt *r)
{
	static const char STORE[] =
	    "INSERT OR REPLACE INTO attempt(" COLUMNS
	    ") VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, "
	    "?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, "
	    "iif(EXISTS(SELECT 1 FROM object WHERE uid = ?2), CAST(?21 AS BLOB), NULL))";
	if (!attempt_ok(r))
		return SQLITE_MISMATCH;
	return db_run(d, STORE, "ttttttiiiiiiiiiiiiitt", r->uid, r->framework, r->job, r->user,
	              r->virtual_cluster, r->role, r->index, r->attempt, r->retry, r->gpus, r->cpus,
	              r->memory, r->bound_ms, r->held_ms, (int64_t)r->ended, r->exit, r->cpu_ms,
	              r->idle_ms, r->energy_j, r->figures, r->curves);
}

/* Removes, of the oldest rows, those that are too old or too many. */
static int attempts_prune(struct database *d)
{
	d->pruned_ms = clock_ms();
	d->unpruned = 0;
	return db_run(d,
	              "DELETE FROM attempt WHERE id IN (SELECT id FROM attempt ORDER BY bound_ms "
	              "LIMIT ?1) AND (bound_ms + held_ms < ?2 OR id IN (SELECT id FROM attempt "
	              "ORDER BY bound_ms LIMIT max(0, (SELECT count(*) FROM attempt) - ?3)))",
	              "iii", (int64_t)2 * PRUNE_ROWS,
	              clock_wall_ms() - ATTEMPTS_DAYS * INT64_C(86400000), (int64_t)ATTEMPTS_MAX);
}

struct attempts_new {
	const struct attempt *v;
	size_t n;
};

static int attempts_write(struct database *d, void *arg)
{
	const struct attempts_new *in = arg;
	int code = 0;
	for (size_t i = 0; i < in->n && code == 0; i++)
		code = attempts_store(d, &in->v[i]);
	d->unpruned += in->n;
	bool due = d->unpruned >= PRUNE_ROWS || clock_ms() >= d->pruned_ms + PRUNE_MS;
	return code || !due ? code : attempts_prune(d);
}

int attempts_put(struct local *l, const struct attempt *v, size_t n, struct err *e)
{
	return local_call(l, true, attempts_write, &(struct attempts_new){ v, n }, e);
}

/* ---- starts ------------------------------------------------------------------------ */

void attempts_check(struct database *d)
{
	unsigned lost = 0;
	int code = 0;
	STMT_AUTO *s = db_bind(d, "SELECT " COLUMNS ", id FROM attempt", "");
	db_begin(d);
	while (code == 0 || code == SQLITE_MISMATCH) {
		ARENA_AUTO a = { 0 };
		struct attempt r;
		code = attempts_next(s, true, &a, &r);
		if (code == SQLITE_MISMATCH && ++lost)
			(void)db_run(d, "DELETE FROM attempt WHERE id = ?1", "i",
			             sqlite3_column_int64(s, 21));
	}
	(void)attempts_prune(d);
	(void)db_commit(d); /* on a full disk they stay, and are left out */
	if (lost > 0)
		str_printf(&d->damaged,
		           DB_FILE ": %u records of what tasks have used were damaged, and were "
		                   "dropped\n",
		           lost);
}

int attempts_rescue(struct database *old, struct database *new)
{
	/* From both ends, as there may be damage between them. */
	static const char *const SOURCES[] = {
		"SELECT " COLUMNS " FROM attempt NOT INDEXED ORDER BY id",
		"SELECT " COLUMNS " FROM attempt NOT INDEXED ORDER BY id DESC",
	};
	int read = 0;
	int code = 0;
	for (size_t i = 0; i < ARRAY_SIZE(SOURCES) && read != ROW_ABSENT; i++) {
		STMT_AUTO *s = db_bind(old, SOURCES[i], ""); /* the table may not be there */
		for (read = 0; code == 0 && (read == 0 || read == SQLITE_MISMATCH);) {
			ARENA_AUTO a = { 0 };
			struct attempt r;
			read = attempts_next(s, true, &a, &r);
			code = read ? 0 : attempts_store(new, &r);
		}
	}
	return code;
}

/* ---- reading ----------------------------------------------------------------------- */

struct attempts_read {
	const char *sql;
	struct span key;
	const struct attempts_query *query; /* of sums */
	size_t curves, most, room, n;
	bool more; /* than most */
	struct arena *a;
	struct attempt *v;
	struct attempts_sum *sum;
};

static int attempts_select(struct database *d, void *arg)
{
	struct attempts_read *to = arg;
	int code = 0;
	STMT_AUTO *s = db_bind(d, to->sql, "t", to->key);
	while (to->n <= to->most && (code == 0 || code == SQLITE_MISMATCH)) {
		if (to->n == to->room) {
			struct attempt *v = to->v;
			to->room = to->room ? 4 * to->room : 16;
			to->v = arena_alloc(to->a, to->room * sizeof(*v));
			if (v)
				memcpy(to->v, v, to->n * sizeof(*v));
		}
		code = attempts_next(s, to->n < to->curves, to->a, &to->v[to->n]);
		to->n += code == 0;
	}
	to->more = to->n > to->most;
	to->n -= to->more;
	return to->more || code == ROW_ABSENT ? 0 : code;
}

int attempts_find(struct local *l, struct span uid, struct arena *a, struct attempt *out,
                  struct err *e)
{
	struct attempts_read to = { .sql = "SELECT " COLUMNS " FROM attempt WHERE uid = ?1",
		                    .key = uid,
		                    .curves = 1,
		                    .most = 1,
		                    .a = a };
	if (local_call(l, false, attempts_select, &to, e) < 0)
		return -1;
	if (to.n > 0)
		*out = to.v[0];
	return to.n == 0;
}

/* NOLINTNEXTLINE(readability-function-size): its parameters */
int attempts_of(struct local *l, struct span framework, size_t curves, struct arena *a,
                struct attempt **v, size_t *n, struct err *e)
{
	struct attempts_read to = { .sql = "SELECT " COLUMNS " FROM attempt WHERE framework = ?1 "
		                           "ORDER BY role, task, attempt, retry",
		                    .key = framework,
		                    .curves = curves,
		                    .most = ATTEMPTS_ROWS,
		                    .a = a };
	int fault = local_call(l, false, attempts_select, &to, e);
	*v = to.v;
	*n = to.n;
	return fault ?: to.more;
}

/* ---- sums -------------------------------------------------------------------------- */

/* Each row becomes parts from a to b, one for each week (of ?5 milliseconds) of a time that is
 * asked for; one that held for no time counts as a whole. */
#define PART_END "min(z, a + ?5 - (a + ?6) % ?5)"
static const char SUM[] =
    "WITH RECURSIVE clip(u, c, gpus, idle, cpu, energy, bad, held, a, z) AS (SELECT "
    "iif(?3, user, ''), iif(?4, cluster, ''), gpus, max(idle_ms, 0), max(cpu_ms, 0), "
    "max(energy_j, 0), ended AND exit <> 0, held_ms, max(bound_ms, ?1), "
    "min(bound_ms + held_ms, ?2) FROM attempt WHERE bound_ms < ?2 AND "
    "bound_ms + max(held_ms, 1) > ?1 AND ifnull(?7, '') IN ('', user)), "
    "part AS (SELECT *, " PART_END " AS b FROM clip UNION ALL SELECT u, c, gpus, idle, cpu, "
    "energy, bad, held, b, z, min(z, b + ?5) FROM part WHERE b < z), "
    "share AS (SELECT *, b - a AS ms, iif(held, (b - a) * 1.0 / held, 1) AS x FROM part) "
    "SELECT u, c, a - (a + ?6) % ?5, total(gpus * ms), total(idle * x) + .5, "
    "total(cpu * x) + .5, total(energy * x) + .5, count(*), total(bad) FROM share "
    "GROUP BY 1, 2, 3 ORDER BY 3, 4 DESC, 1, 2";

static int attempts_add(struct database *d, void *arg)
{
	struct attempts_read *to = arg;
	const struct attempts_query *q = to->query;
	int64_t since = q->since_ms < 0 ? 0 : q->since_ms;
	int64_t until = q->until_ms < VERSION_MAX ? q->until_ms : VERSION_MAX;
	if (since >= until)
		return 0;
	STMT_AUTO *s = db_bind(
	    d, SUM, "iiiiiit", since, until, (int64_t)q->by_user, (int64_t)q->by_virtual_cluster,
	    q->by_week ? (int64_t)WEEK_MS : INT64_C(1) << 60, (int64_t)MONDAY_MS, q->user);
	int code = s ? SQLITE_ROW : SQLITE_ERROR;
	to->sum = arena_alloc(to->a, ATTEMPTS_SUMS * sizeof(*to->sum));
	while (code == SQLITE_ROW && (code = sqlite3_step(s)) == SQLITE_ROW) {
		to->more = to->n == ATTEMPTS_SUMS;
		if (to->more)
			return 0;
		to->sum[to->n++] = (struct attempts_sum){
			.user = arena_span(to->a, db_text(s, 0)),
			.virtual_cluster = arena_span(to->a, db_text(s, 1)),
			.week_ms = q->by_week ? sqlite3_column_int64(s, 2) : 0,
			.gpu_ms = sqlite3_column_int64(s, 3),
			.gpu_idle_ms = sqlite3_column_int64(s, 4),
			.cpu_ms = sqlite3_column_int64(s, 5),
			.energy_j = sqlite3_column_int64(s, 6),
			.attempts = sqlite3_column_int64(s, 7),
			.failed = sqlite3_column_int64(s, 8),
		};
	}
	return code == SQLITE_DONE ? 0 : code;
}

/* NOLINTNEXTLINE(readability-function-size): its parameters */
int attempts_sum(struct local *l, const struct attempts_query *q, struct arena *a,
                 struct attempts_sum **v, size_t *n, struct err *e)
{
	struct attempts_read to = { .query = q, .a = a };
	int fault = local_call(l, false, attempts_add, &to, e);
	*v = to.sum;
	*n = to.n;
	return fault ?: to.more;
}
