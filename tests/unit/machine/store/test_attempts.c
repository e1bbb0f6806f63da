/* Rows of what tasks have used. */
#include "base/posix/clock.h"
#include "base/posix/fd.h"
#include "machine/store/attempts.h"
#include "tests/unit/machine/local_kit.h"

enum { DAY_MS = 86400000, WEEK = 7 * DAY_MS };
static const int64_t MONDAY = INT64_C(1767571200000); /* 2026-01-05 */
static const char CURVES[] = "\1\0\2curves";

static struct span bytes(const char *text, size_t n)
{
	return (struct span){ text, n };
}

/* An ended one of a day; the uid has the number. */
static struct attempt row(int number)
{
	return (struct attempt){
		.uid = span_of(arena_printf(&unit.a, "%08d-pod", number)),
		.framework = SPAN("fw"),
		.job = SPAN("j"),
		.user = SPAN("alice"),
		.virtual_cluster = SPAN("default"),
		.role = SPAN("worker"),
		.index = number,
		.gpus = 2,
		.cpus = 1500,
		.memory = INT64_C(1) << 34,
		.bound_ms = MONDAY,
		.held_ms = DAY_MS,
		.ended = true,
		.cpu_ms = 1000,
		.idle_ms = 500,
		.energy_j = 100,
		.figures = SPAN("{\"seconds\":1}"),
		.curves = bytes(CURVES, sizeof(CURVES)),
	};
}

static void put(struct attempt r)
{
	assert_int_equal(attempts_put(local, &r, 1, no_err()), 0);
}

static int find(const char *uid, struct attempt *out)
{
	return attempts_find(local, span_of(uid), &unit.a, out, no_err());
}

static size_t sum(struct attempts_query q, struct attempts_sum **v)
{
	size_t n;
	assert_int_equal(attempts_sum(local, &q, &unit.a, v, &n, no_err()), 0);
	return n;
}

static int64_t total_attempts(void)
{
	struct attempts_sum *v;
	return sum((struct attempts_query){ .until_ms = INT64_MAX }, &v) ? v->attempts : 0;
}

static bool same(const struct attempt *a, const struct attempt *b, bool curves)
{
	return span_eq(a->uid, b->uid) && span_eq(a->framework, b->framework) &&
	       span_eq(a->job, b->job) && span_eq(a->user, b->user) &&
	       span_eq(a->virtual_cluster, b->virtual_cluster) && span_eq(a->role, b->role) &&
	       a->index == b->index && a->attempt == b->attempt && a->retry == b->retry &&
	       a->gpus == b->gpus && a->cpus == b->cpus && a->memory == b->memory &&
	       a->bound_ms == b->bound_ms && a->held_ms == b->held_ms && a->ended == b->ended &&
	       a->exit == b->exit && a->cpu_ms == b->cpu_ms && a->idle_ms == b->idle_ms &&
	       a->energy_j == b->energy_j && span_eq(a->figures, b->figures) &&
	       (curves ? span_eq(a->curves, b->curves) : a->curves.n == 0);
}

static void damage(const char *path, off_t at, size_t n, int byte)
{
	unsigned char bad[4096];
	memset(bad, byte, sizeof(bad));
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	assert_int_equal(pwrite(fd, bad, n, at), n);
	assert_int_equal(close(fd), 0);
}

static const char *store_file(void)
{
	return arena_printf(&unit.a, "%s/store.db", dir);
}

/* ---- rows -------------------------------------------------------------------------- */

TEST_WITH(test_attempt_is_found_as_it_was_put, setup, teardown)
{
	struct attempt got;
	struct attempt r = row(1);
	struct kept made = create(KIND_FRAMEWORK, "f", FRAMEWORK);
	r.framework = span_of(made.uid);
	r.attempt = 3;
	r.retry = 4;
	r.exit = -7;
	r.idle_ms = r.energy_j = -1;
	assert_int_equal(find("00000001-pod", &got), 1);
	put(r);
	assert_int_equal(find("00000001-pod", &got), 0);
	assert_true(same(&got, &r, true));
	close_store(); /* it is stored */
	open_store();
	assert_int_equal(find("00000001-pod", &got), 0);
	assert_true(same(&got, &r, true));
	assert_int_equal(find("", &got), 1);
}

TEST_WITH(test_attempt_takes_the_place_of_the_earlier_one, setup, teardown)
{
	struct attempt got;
	struct attempt r = row(1);
	r.ended = false;
	put(r);
	r.held_ms *= 2;
	r.ended = true;
	put(r);
	put(r); /* a server that was killed repeats it */
	assert_int_equal(find("00000001-pod", &got), 0);
	assert_true(same(&got, &r, false));
	assert_int_equal(total_attempts(), 1);
}

TEST_WITH(test_attempt_may_have_empty_texts, setup, teardown)
{
	struct attempt got;
	struct attempt r = { .uid = SPAN("u") };
	put(r);
	assert_int_equal(find("u", &got), 0);
	assert_true(same(&got, &r, true));
	assert_int_equal(attempts_put(local, NULL, 0, no_err()), 0);
}

TEST_WITH(test_attempt_that_could_not_be_read_back_is_refused_with_all, setup, teardown)
{
	FREE_AUTO char *large = calloc(1, ATTEMPT_BYTES + 1);
	FREE_AUTO char *text = calloc(1, 1025);
	struct attempt got;
	struct attempt bad[8];
	memset(text, 'x', 1025);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		bad[i] = row(2);
	bad[0].uid = SPAN("");
	bad[1].uid = (struct span){ NULL, 0 };
	bad[2].figures = SPAN("{");
	bad[3].user = SPAN("\xff");
	bad[4].job = bytes(text, 1025);
	bad[5].curves = bytes(large, ATTEMPT_BYTES + 1);
	bad[6].gpus = -1;
	bad[7].held_ms = INT64_MAX;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct attempt both[] = { row(1), bad[i] };
		assert_int_equal(attempts_put(local, both, 2, no_err()), -1);
		assert_int_equal(unit.e.http, 503);
		assert_non_null(strstr(err_msg(&unit.e), "/store.db: "));
		assert_int_equal(find("00000001-pod", &got), 1);
	}
	bad[4].job.n--; /* the longest */
	bad[5].curves.n -= 1 + bad[5].figures.n;
	put(bad[4]);
	put(bad[5]);
}

TEST_WITH(test_attempts_of_a_framework_are_in_order, setup, teardown)
{
	struct kept made = create(KIND_FRAMEWORK, "f", FRAMEWORK);
	struct attempt r[20];
	struct attempt *v;
	size_t n;
	for (int i = 0; i < 20; i++) {
		r[i] = row(100 - i);
		r[i].framework = i < 18 ? span_of(made.uid) : SPAN("another");
		r[i].role = i % 2 ? SPAN("ps") : SPAN("worker");
		r[i].index = 1 - i / 9;
		r[i].attempt = i / 3 % 3;
		r[i].retry = 20 - i;
	}
	assert_int_equal(attempts_put(local, r, 20, no_err()), 0);
	assert_int_equal(attempts_of(local, span_of(made.uid), 5, &unit.a, &v, &n, no_err()), 0);
	assert_int_equal(n, 18);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(v[i].curves.n, i < 5 ? sizeof(CURVES) : 0);
		const struct attempt *a = &v[i ? i - 1 : 0];
		int role = strcmp(a->role.p, v[i].role.p);
		assert_true(role <= 0);
		assert_true(role || a->index < v[i].index ||
		            (a->index == v[i].index &&
		             (a->attempt < v[i].attempt ||
		              (a->attempt == v[i].attempt && a->retry <= v[i].retry))));
	}
	assert_int_equal(attempts_of(local, SPAN("none"), 5, &unit.a, &v, &n, no_err()), 0);
	assert_int_equal(n, 0);
}

TEST_WITH(test_attempts_of_a_framework_have_a_bound, setup, teardown)
{
	struct attempt *r = ARENA_NEW(&unit.a, struct attempt, ATTEMPTS_ROWS + 1);
	struct attempt *v;
	size_t n;
	for (int i = 0; i <= ATTEMPTS_ROWS; i++)
		r[i] = row(i);
	assert_int_equal(attempts_put(local, r, ATTEMPTS_ROWS, no_err()), 0);
	assert_int_equal(attempts_of(local, SPAN("fw"), 0, &unit.a, &v, &n, no_err()), 0);
	assert_int_equal(n, ATTEMPTS_ROWS);
	put(r[ATTEMPTS_ROWS]);
	assert_int_equal(attempts_of(local, SPAN("fw"), 0, &unit.a, &v, &n, no_err()), 1);
	assert_int_equal(n, ATTEMPTS_ROWS);
	assert_int_equal(v[n - 1].index, ATTEMPTS_ROWS - 1);
}

/* ---- deletion ---------------------------------------------------------------------- */

TEST_WITH(test_curves_go_with_the_framework_and_rows_stay, setup, teardown)
{
	struct kept made = create_with();
	struct attempt got;
	struct attempt r[3] = { row(1), row(2), row(3) };
	r[0].framework = r[1].framework = span_of(made.uid);
	struct kept other = ask(
	    store, (struct store_request){ .verb = STORE_CREATE,
	                                   .kind = KIND_FRAMEWORK,
	                                   .name = "g",
	                                   .body = { SPAN("{\"kind\":\"Framework\",\"metadata\":{"
	                                                  "\"name\":\"g\"}}") } });
	r[2].framework = span_of(other.uid);
	assert_int_equal(attempts_put(local, r, 3, no_err()), 0);
	assert_int_equal(find("00000002-pod", &got), 0);
	assert_true(same(&got, &r[1], true));
	/* Its Secret alone changes nothing. */
	ask(store,
	    (struct store_request){ .verb = STORE_DELETE, .kind = KIND_SECRET, .name = "f-s" });
	assert_int_equal(find("00000002-pod", &got), 0);
	assert_true(same(&got, &r[1], true));
	assert_int_equal(delete ("f", "another", NULL).outcome, STORE_CONFLICT);
	assert_int_equal(find("00000001-pod", &got), 0);
	assert_true(same(&got, &r[0], true));
	assert_int_equal(delete ("f", NULL, NULL).outcome, STORE_OK);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(find(r[i].uid.p, &got), 0);
		assert_true(same(&got, &r[i], i == 2));
	}
	put(r[0]); /* the task has ended later */
	assert_int_equal(find("00000001-pod", &got), 0);
	assert_true(same(&got, &r[0], false));
	close_store();
	open_store();
	assert_int_equal(find("00000001-pod", &got), 0);
	assert_true(same(&got, &r[0], false));
}

/* ---- old rows ---------------------------------------------------------------------- */

TEST_WITH(test_old_attempts_go_at_a_start_and_after_many_rows, setup, teardown)
{
	enum { MANY = 1000 };
	struct attempt got;
	struct attempt r = row(1);
	struct attempt *many = ARENA_NEW(&unit.a, struct attempt, MANY);
	r.bound_ms = clock_wall_ms() - INT64_C(402) * DAY_MS; /* it ended 401 days ago */
	put(r);
	put(row(2)); /* within the hour nothing is looked for */
	assert_int_equal(find("00000001-pod", &got), 0);
	close_store();
	open_store();
	assert_int_equal(find("00000001-pod", &got), 1);
	r.held_ms = INT64_C(3) * DAY_MS; /* it ended 399 days ago */
	put(r);
	r = row(3);
	r.bound_ms = 0;
	put(r);
	for (int i = 0; i < MANY; i++)
		many[i] = row(1000 + i);
	assert_int_equal(attempts_put(local, many, MANY, no_err()), 0);
	assert_int_equal(find("00000003-pod", &got), 1);
	assert_int_equal(find("00000001-pod", &got), 0);
	assert_int_equal(total_attempts(), MANY + 2);
}

TEST_WITH(test_oldest_attempts_go_beyond_the_greatest_number, setup, teardown)
{
	struct attempt got;
	int64_t now = clock_wall_ms();
	close_store();
	FREE_AUTO char *sql = xasprintf(
	    "WITH RECURSIVE i(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM i WHERE n < %d) "
	    "INSERT INTO attempt(uid, framework, job, user, cluster, role, task, attempt, retry, "
	    "gpus, "
	    "cpus, memory, bound_ms, held_ms, ended, exit, cpu_ms, idle_ms, energy_j, figures) "
	    "SELECT 'pod' || n, 'fw', 'j', 'u' || n %% 100, 'vc', 'r', n, 0, 0, 1, 1, 1, %lld - n "
	    "* 1000, "
	    "60000, 1, n %% 2, 5, 5, 5, '' FROM i",
	    ATTEMPTS_MAX + 10, (long long)now);
	stored(sql);
	int64_t begun = clock_ms();
	open_store();
	int64_t opened = clock_ms();
	struct attempts_sum *v;
	size_t n =
	    sum((struct attempts_query){ .until_ms = now, .by_user = true, .by_week = true }, &v);
	print_message("%d rows: start %lld ms, report %lld ms, rows %zu\n", ATTEMPTS_MAX,
	              (long long)(opened - begun), (long long)(clock_ms() - opened), n);
	assert_int_equal(total_attempts(), ATTEMPTS_MAX);
	assert_int_equal(find("pod500001", &got), 1);
	assert_int_equal(find("pod500000", &got), 0);
	assert_int_equal(find("pod1", &got), 0);
}

/* ---- sums -------------------------------------------------------------------------- */

static uint32_t seed = 1;

static int64_t pick(int64_t n)
{
	seed = seed * 1664525 + 1013904223;
	return (int64_t)(seed >> 8) * (n / (1 << 24) + 1) % n;
}

enum { ROWS = 3000, USERS = 5, CLUSTERS = 3 };
static const char *const NAMES[] = { "alice", "bob", "carol", "", "eve" };

/* Adds a row to the sum of its group for one time. */
static void model_add(struct attempts_sum *to, double rest[3], const struct attempt *r,
                      int64_t since, int64_t until)
{
	int64_t end = r->bound_ms + r->held_ms;
	int64_t from = r->bound_ms > since ? r->bound_ms : since;
	int64_t ms = (end < until ? end : until) - from;
	bool instant = r->held_ms == 0 && r->bound_ms >= since && r->bound_ms < until;
	if (ms <= 0 && !instant)
		return;
	double x = instant ? 1 : (double)ms / (double)r->held_ms;
	to->gpu_ms += instant ? 0 : r->gpus * ms;
	rest[0] += r->idle_ms > 0 ? (double)r->idle_ms * x : 0;
	rest[1] += r->cpu_ms > 0 ? (double)r->cpu_ms * x : 0;
	rest[2] += r->energy_j > 0 ? (double)r->energy_j * x : 0;
	to->attempts++;
	to->failed += r->ended && r->exit != 0;
}

static bool about(int64_t a, double b)
{
	return (double)a > b - 1.5 && (double)a < b + 1.5;
}

/* Compares one group of an answer with the same sum over all rows. */
static void check_sum(const struct attempt *rows, const struct attempts_query *q,
                      const struct attempts_sum *got)
{
	struct attempts_sum want = { 0 };
	double rest[3] = { 0 };
	int64_t since = q->by_week && got->week_ms > q->since_ms ? got->week_ms : q->since_ms;
	int64_t until =
	    q->by_week && got->week_ms + WEEK < q->until_ms ? got->week_ms + WEEK : q->until_ms;
	for (size_t i = 0; i < ROWS; i++) {
		if ((q->user.n == 0 || span_eq(rows[i].user, q->user)) &&
		    (!q->by_user || span_eq(rows[i].user, got->user)) &&
		    (!q->by_virtual_cluster ||
		     span_eq(rows[i].virtual_cluster, got->virtual_cluster)))
			model_add(&want, rest, &rows[i], since, until);
	}
	assert_int_equal(got->gpu_ms, want.gpu_ms);
	assert_int_equal(got->attempts, want.attempts);
	assert_int_equal(got->failed, want.failed);
	assert_true(about(got->gpu_idle_ms, rest[0]) && about(got->cpu_ms, rest[1]) &&
	            about(got->energy_j, rest[2]));
	assert_int_equal((got->week_ms - MONDAY) % WEEK, q->by_week ? 0 : (-MONDAY) % WEEK);
	assert_true(q->by_week || got->week_ms == 0);
	assert_true(q->by_user || got->user.n == 0);
	assert_true(q->by_virtual_cluster || got->virtual_cluster.n == 0);
}

TEST_WITH(test_sums_are_those_of_a_model, setup, teardown)
{
	struct attempt *rows = ARENA_NEW(&unit.a, struct attempt, ROWS);
	int64_t whole = 0;
	for (int i = 0; i < ROWS; i++) {
		struct attempt *r = &rows[i];
		*r = row(i);
		r->user = span_of(NAMES[pick(USERS)]);
		r->virtual_cluster = span_of(arena_printf(&unit.a, "vc%d", (int)pick(CLUSTERS)));
		r->gpus = pick(9);
		r->bound_ms = MONDAY + pick(INT64_C(10) * WEEK);
		r->held_ms = pick(4) == 0 ? 0 : pick(pick(10) ? DAY_MS : INT64_C(4) * WEEK);
		r->ended = pick(5) != 0;
		r->exit = pick(3) ? 0 : 1;
		r->cpu_ms = pick(100000000) - 1;
		r->idle_ms = pick(8) ? pick(10000000) : -1;
		r->energy_j = pick(1000000) - 1;
		whole += r->gpus * r->held_ms;
	}
	assert_int_equal(attempts_put(local, rows, ROWS, no_err()), 0);
	for (int i = 0; i < 80; i++) {
		struct attempts_sum *v;
		struct attempts_query q = { .since_ms = MONDAY + pick(INT64_C(8) * WEEK) - WEEK,
			                    .user = pick(3) ? SPAN("") : SPAN("bob"),
			                    .by_user = i & 1,
			                    .by_virtual_cluster = i & 2,
			                    .by_week = i & 4 };
		q.until_ms = q.since_ms + pick(INT64_C(9) * WEEK);
		if (i >= 72) { /* all of the time */
			q.since_ms = i & 1 ? 0 : INT64_MIN;
			q.until_ms = INT64_MAX;
			q.user = (struct span){ NULL, 0 };
		}
		int64_t attempts = 0;
		int64_t gpu_ms = 0;
		size_t n = sum(q, &v);
		for (size_t j = 0; j < n; j++) {
			check_sum(rows, &q, &v[j]);
			assert_true(
			    j == 0 || v[j - 1].week_ms < v[j].week_ms ||
			    (v[j - 1].week_ms == v[j].week_ms && v[j - 1].gpu_ms >= v[j].gpu_ms));
			attempts += v[j].attempts;
			gpu_ms += v[j].gpu_ms;
		}
		if (i >= 72)
			assert_int_equal(gpu_ms, whole);
		if (i >= 72 && !q.by_week)
			assert_int_equal(attempts, ROWS);
		/* No group is left out. */
		struct attempts_query one = q;
		struct attempts_sum *all;
		one.by_user = one.by_virtual_cluster = one.by_week = false;
		assert_int_equal(sum(one, &all) ? all->gpu_ms : 0, gpu_ms);
	}
}

TEST_WITH(test_weeks_begin_on_monday_and_share_a_long_attempt, setup, teardown)
{
	struct attempts_sum *v;
	struct attempt r = row(1);
	struct attempts_query q = { .until_ms = INT64_MAX, .by_week = true };
	assert_int_equal(sum(q, &v), 0);
	r.bound_ms = MONDAY - 1;
	r.held_ms = WEEK + 2;
	put(r);
	assert_int_equal(sum(q, &v), 3);
	assert_int_equal(v[0].week_ms, MONDAY - WEEK);
	assert_int_equal(v[0].gpu_ms, 2);
	assert_int_equal(v[1].week_ms, MONDAY);
	assert_int_equal(v[1].gpu_ms, INT64_C(2) * WEEK);
	assert_int_equal(v[2].gpu_ms, 2);
	assert_int_equal(v[2].attempts, 1);
	/* A time that does not reach it, has no length, or ends before it begins. */
	q.until_ms = r.bound_ms;
	assert_int_equal(sum(q, &v), 0);
	q.since_ms = q.until_ms = MONDAY;
	assert_int_equal(sum(q, &v), 0);
	q.until_ms = 0;
	assert_int_equal(sum(q, &v), 0);
}

TEST_WITH(test_sums_have_a_bound, setup, teardown)
{
	struct attempt *r = ARENA_NEW(&unit.a, struct attempt, ATTEMPTS_SUMS + 1);
	struct attempts_sum *v;
	struct attempts_query q = { .until_ms = INT64_MAX, .by_user = true };
	size_t n;
	for (int i = 0; i <= ATTEMPTS_SUMS; i++) {
		r[i] = row(i);
		r[i].user = r[i].uid;
	}
	assert_int_equal(attempts_put(local, r, ATTEMPTS_SUMS, no_err()), 0);
	assert_int_equal(sum(q, &v), ATTEMPTS_SUMS);
	put(r[ATTEMPTS_SUMS]);
	assert_int_equal(attempts_sum(local, &q, &unit.a, &v, &n, no_err()), 1);
	assert_int_equal(n, ATTEMPTS_SUMS);
}

/* ---- damage ------------------------------------------------------------------------ */

struct told {
	char text[512];
	int puts;
};

static void told_put(void *arg, struct span object)
{
	(void)object;
	((struct told *)arg)->puts++;
}

static void told_damaged(void *arg, const char *sentence)
{
	struct told *t = arg;
	size_t n = strlen(t->text);
	(void)snprintf(t->text + n, sizeof(t->text) - n, "%s\n", sentence);
}

static struct told open_and_listen(void)
{
	static const struct local_follower FOLLOWER = { .put = told_put,
		                                        .remove = told_put,
		                                        .damaged = told_damaged };
	static struct told t;
	t = (struct told){ 0 };
	open_store();
	follow(&FOLLOWER, &t);
	return t;
}

TEST_WITH(test_damaged_attempts_are_left_out_and_dropped_at_a_start, setup, teardown)
{
	static const char *const DAMAGE[] = {
		"UPDATE attempt SET uid = NULL WHERE task = 1",
		"UPDATE attempt SET figures = '{' WHERE task = 2",
		"UPDATE attempt SET user = x'ff' WHERE task = 3",
		"UPDATE attempt SET held_ms = -5 WHERE task = 4",
		"UPDATE attempt SET gpus = 1 << 40 WHERE task = 5",
		"UPDATE attempt SET curves = zeroblob(2000000) WHERE task = 6",
	};
	enum { N = ARRAY_SIZE(DAMAGE) };
	struct attempt got;
	struct attempt *v;
	size_t n;
	create(KIND_FRAMEWORK, "f", FRAMEWORK);
	for (int i = 1; i <= N + 2; i++)
		put(row(i));
	close_store();
	for (size_t i = 0; i < N; i++)
		stored(DAMAGE[i]);
	struct told t = open_and_listen();
	assert_string_equal(t.text, "store.db: 6 records of what tasks have used were damaged, and "
	                            "were dropped\n");
	assert_int_equal(t.puts, 1);
	assert_int_equal(total_attempts(), 2);
	assert_int_equal(find("00000002-pod", &got), 1);
	assert_int_equal(attempts_of(local, SPAN("fw"), 0, &unit.a, &v, &n, no_err()), 0);
	assert_int_equal(n, 2);
	close_store();
	t = open_and_listen(); /* told once */
	assert_string_equal(t.text, "");
}

/* Pages of the table are overwritten one after another: what can be read stays, jobs first. */
TEST_WITH(test_readable_attempts_are_copied_from_a_damaged_database, setup, teardown)
{
	enum { N = 400 };
	struct attempt *r = ARENA_NEW(&unit.a, struct attempt, N);
	int64_t pages;
	unsigned kept_some = 0;
	struct kept made = create(KIND_FRAMEWORK, "f", FRAMEWORK);
	for (int i = 0; i < N; i++) {
		r[i] = row(i);
		r[i].framework = span_of(made.uid);
	}
	assert_int_equal(attempts_put(local, r, N, no_err()), 0);
	close_store();
	pages = stored("PRAGMA page_count");
	shell("cp -a %s %s/whole", dir, top);
	for (int64_t page = 3; page < pages; page += 3) {
		shell("rm -rf %s && cp -a %s/whole %s", dir, top, dir);
		damage(store_file(), (off_t)page * 4096, 4096, 0x33);
		struct told t = open_and_listen();
		struct attempt got;
		assert_int_equal(t.puts, 1);
		int64_t left = total_attempts();
		kept_some += left > 0;
		if (find(r[N - 1].uid.p, &got) == 0)
			assert_true(same(&got, &r[N - 1], true));
		put(row(N)); /* it can be used */
		close_store();
		t = open_and_listen();
		assert_string_equal(t.text, "");
		assert_int_equal(total_attempts(), left + 1);
		close_store();
	}
	assert_true(kept_some > (pages - 3) / 3 / 2);
	open_store();
}

/* ---- versions ---------------------------------------------------------------------- */

/* Makes of the closed store one of the version before, with the same tables but this one. */
static void make_old(void)
{
	stored("DROP TRIGGER attempt_gone");
	stored("DROP TABLE attempt");
	stored("PRAGMA user_version = 1");
}

static struct span first_page(void)
{
	struct span all = unit_read(store_file());
	assert_true(all.n >= 4096);
	return span_from(span_to(all, 4096), 100);
}

TEST_WITH(test_store_of_the_version_before_is_taken_over, setup, teardown)
{
	struct attempt got;
	struct kept made = create_with();
	assert_int_equal(put_status("f", made.uid, SPAN("{\"state\":\"Running\"}")), STORE_OK);
	create_secret("gone");
	ask(store,
	    (struct store_request){ .verb = STORE_DELETE, .kind = KIND_SECRET, .name = "gone" });
	char version[64];
	(void)snprintf(version, sizeof(version), "%s", get(KIND_FRAMEWORK, "f").version);
	close_store();
	struct span page = first_page();
	make_old();
	int64_t removals = stored("SELECT count(*) FROM status WHERE id < 0");
	assert_int_equal(removals, 1);
	struct told t = open_and_listen();
	assert_string_equal(t.text, "");
	assert_int_equal(t.puts, 1);
	struct kept k = get_whole(store, KIND_FRAMEWORK, "f");
	assert_string_equal(k.uid, made.uid);
	assert_string_equal(k.version, version);
	assert_non_null(strstr(k.body, "Running"));
	assert_int_equal(get(KIND_SECRET, "f-s").outcome, STORE_OK);
	put(row(1));
	assert_int_equal(find("00000001-pod", &got), 0);
	close_store();
	assert_int_equal(stored("PRAGMA user_version"), 2);
	assert_int_equal(stored("SELECT count(*) FROM status WHERE id < 0"), removals);
	assert_false(file_exists("store.db.new"));
	assert_false(file_exists("damaged"));
	/* All databases have the same page 1, also a backup, but for the head. */
	assert_true(span_eq(first_page(), page));
	open_store();
	int copy = local_backup(local, -1, no_err());
	STR_AUTO text = STR_INIT(1 << 20);
	assert_int_equal(fd_read_all(copy, &text), 0);
	assert_int_equal(close(copy), 0);
	assert_true(span_eq(span_from(span_to(str_view(&text), 4096), 100), page));
}

/* Damage of the number is no version. */
TEST_WITH(test_number_and_tables_that_do_not_fit_are_damage, setup, teardown)
{
	struct attempt got;
	create(KIND_FRAMEWORK, "f", FRAMEWORK);
	put(row(1));
	close_store();
	stored("PRAGMA user_version = 1");
	struct told t = open_and_listen();
	assert_non_null(strstr(t.text, "store.db was damaged"));
	assert_int_equal(find("00000001-pod", &got), 0);
	close_store();
	make_old();
	stored("PRAGMA user_version = 2");
	t = open_and_listen();
	assert_non_null(strstr(t.text, "store.db was damaged"));
	assert_int_equal(t.puts, 1);
	close_store();
	assert_int_equal(stored("PRAGMA user_version"), 2);
	open_store();
	assert_int_equal(
	    ask(store, (struct store_request){ .verb = STORE_READY, .name = "" }).outcome,
	    STORE_OK);
	close_store();
	assert_int_equal(stored("PRAGMA user_version"), 2);
	open_store();
}
