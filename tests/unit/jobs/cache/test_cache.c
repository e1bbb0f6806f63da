/* The last known state of all Frameworks, compared with an API server whose watch lags behind, and
 * with many threads. */

#include "tests/unit/base/cmocka.h"
#include <poll.h>
#include <pthread.h>

#include "jobs/cache/cache.h"
#include "tests/unit/base/dice.h"

enum { NAMES = 40, KEYS = 3, LOG = 20000, MAX = 64 << 20 };

#define CACHE_AUTO __attribute__((cleanup(cache_cleanup))) struct cache
static void cache_cleanup(struct cache *const *c)
{
	cache_free(*c);
}

static struct job_entry *framework(int name, int64_t uid, int64_t version)
{
	FREE_AUTO char *text =
	    xasprintf("{\"metadata\":{\"name\":\"f%d\",\"uid\":\"u%lld\","
	              "\"resourceVersion\":\"%lld\",\"annotations\":{"
	              "\"rest-lit/idempotency\":\"%016x-%016x\"}},"
	              "\"status\":{\"state\":\"AttemptRunning\"}}",
	              name, (long long)uid, (long long)version, name % KEYS + 1, 0);
	struct job_entry *f = job_entry_new(span_of(text));
	assert_non_null(f);
	f->state = (enum job_state)(version % JOB_STATE_MAX);
	f->creating = version % 5 == 0;
	f->legacy = name % 7 == 0;
	return f;
}

static struct span name_of(char buf[static 16], int name)
{
	(void)snprintf(buf, 16, "f%d", name);
	return span_of(buf);
}

static int number_of(const struct job_entry *f)
{
	int64_t n = -1;
	assert_int_equal(parse_i64(span_of(f->name + 1), 0, 100000, &n), 0);
	return (int)n;
}

/* Returns the version of the entry of this name; 0: there is none. */
static int64_t kept(struct cache *c, int name)
{
	char buf[16];
	CACHE_VIEW_AUTO *v = cache_view(c);
	const struct job_entry *f = view_find(v, name_of(buf, name));
	return f ? f->version : 0;
}

static void gone(struct cache *c, int name, const char *uid)
{
	char buf[16];
	cache_note_deletion(c, name_of(buf, name), span_of(uid));
}

static void removed(struct cache *c, int name, const char *uid, int64_t version)
{
	char buf[16];
	cache_remove(c, name_of(buf, name), span_of(uid), version);
}

static struct job_entry *attempt(int64_t uid, int64_t version, int32_t n)
{
	struct job_entry *f = framework(1, uid, version);
	f->attempt = n;
	return f;
}

/* ---- one rule each ---- */

TEST(test_cache_is_warm_after_a_list)
{
	CACHE_AUTO *c = cache_new(MAX);
	cache_note(c, framework(7, 7, 150));
	cache_list_begin(c);
	cache_put(c, framework(1, 1, 10));
	CACHE_VIEW_AUTO *before = cache_view(c);
	assert_false(view_warm(before));
	cache_put(c, framework(2, 2, 20));
	cache_list_end(c, 100);
	CACHE_VIEW_AUTO *after = cache_view(c);
	assert_true(view_warm(after));
	assert_int_equal(view_count(before, JOB_STATE_MAX), 2);
	assert_int_equal(view_count(after, JOB_STATE_MAX),
	                 3); /* what was noted is newer than the list */
}

TEST(test_cache_list_end_removes_entries_missing_from_the_list)
{
	CACHE_AUTO *c = cache_new(MAX);
	cache_put(c, framework(1, 1, 10));
	cache_put(c, framework(2, 2, 20));
	cache_list_begin(c);
	cache_put(c, framework(1, 1, 10)); /* as it was */
	cache_put(c, framework(3, 3, 30));
	cache_note(c, framework(4, 4, 101));
	cache_list_end(c, 100);
	assert_int_equal(kept(c, 1), 10);
	assert_int_equal(kept(c, 2), 0);
	assert_int_equal(kept(c, 3), 30);
	assert_int_equal(kept(c, 4), 101);
	cache_list_begin(c);
	cache_list_end(c, 200);
	assert_int_equal(cache_figures(c).frameworks, 0);
	assert_int_equal(cache_figures(c).bytes, 0);
}

TEST(test_cache_note_does_not_restore_removed_entries)
{
	CACHE_AUTO *c = cache_new(MAX);
	cache_set_version(c, 50);
	cache_note(c, framework(1, 1, 50)); /* the watch has reported it and its deletion */
	assert_int_equal(kept(c, 1), 0);
	cache_note(c, framework(1, 1, 51));
	assert_int_equal(kept(c, 1), 51);
	cache_note(c, framework(1, 1, 49));
	cache_put(c, framework(1, 1, 48)); /* the watch lags behind what was noted */
	assert_int_equal(kept(c, 1), 51);
	cache_put(c, framework(1, 1, 52));
	assert_int_equal(kept(c, 1), 52);
	removed(c, 1, "u2", 53); /* another one, of the same name */
	assert_int_equal(kept(c, 1), 52);
	removed(c, 1, "u1", 54);
	assert_int_equal(kept(c, 1), 0);
	cache_note(c, framework(1, 1, 54));
	assert_int_equal(kept(c, 1), 0);
}

/* The watch has not reported the end of attempt 0 yet; that event comes before attempt 1. */
TEST(test_cache_note_does_not_begin_an_attempt)
{
	CACHE_AUTO *c = cache_new(MAX);
	cache_put(c, attempt(1, 97, 0));
	cache_note(c, attempt(1, 101, 1));
	assert_int_equal(kept(c, 1), 97);
	cache_put(c, attempt(1, 99, 0));
	assert_int_equal(kept(c, 1), 99);
	cache_put(c, attempt(1, 100, 1));
	assert_int_equal(kept(c, 1), 100);
	cache_note(c, attempt(1, 102, 1));
	assert_int_equal(kept(c, 1), 102);
	cache_note(c, attempt(2, 103, 3)); /* a new one of that name */
	assert_int_equal(kept(c, 1), 103);
}

/* A Framework made before the list began, noted while it arrives and missing in it, is gone. */
TEST(test_cache_note_older_than_a_list_does_not_survive_it)
{
	CACHE_AUTO *c = cache_new(MAX);
	cache_set_version(c, 50);
	cache_list_begin(c); /* of version 100 */
	cache_put(c, framework(2, 2, 20));
	cache_note(c, framework(1, 1, 60));
	cache_note(c, framework(2, 2, 102));
	cache_note(c, framework(3, 3, 101));
	cache_list_end(c, 100);
	assert_int_equal(kept(c, 1), 0);
	assert_int_equal(kept(c, 2), 102);
	assert_int_equal(kept(c, 3), 101);
}

TEST(test_cache_note_gone_removes_only_the_same_uid)
{
	CACHE_AUTO *c = cache_new(MAX);
	cache_put(c, framework(1, 1, 10));
	gone(c, 1, "u2");
	assert_int_equal(kept(c, 1), 10);
	gone(c, 1, "u1");
	assert_int_equal(kept(c, 1), 0);
	cache_put(c, framework(1, 1, 11)); /* how it was before that */
	cache_note(c, framework(1, 1, 12));
	assert_int_equal(kept(c, 1), 0);
	cache_note(c, framework(1, 3, 13)); /* a new one of that name */
	assert_int_equal(kept(c, 1), 13);
}

TEST(test_cache_accepts_smaller_versions_of_a_new_list)
{
	CACHE_AUTO *c = cache_new(MAX);
	cache_put(c, framework(1, 1, 1000));
	cache_put(c, framework(2, 2, 1001));
	cache_list_begin(c);
	cache_put(c, framework(1, 1, 500));
	cache_list_end(c, 600);
	assert_int_equal(kept(c, 1), 500);
	assert_int_equal(kept(c, 2), 0);
	cache_note(c, framework(3, 3, 601));
	assert_int_equal(kept(c, 3), 601);
}

TEST(test_cache_stays_within_its_maximum_size)
{
	struct job_entry *one = framework(1, 1, 1);
	assert_true(one->doc.n > 0);
	CACHE_AUTO *c = cache_new(one->weight * 3 + 200);
	job_entry_drop(one);
	for (int i = 0; i < 10; i++)
		cache_put(c, framework(i, i, i + 1));
	assert_int_equal(cache_figures(c).frameworks, 10);
	assert_int_equal(cache_figures(c).without_doc, 7);
	cache_list_begin(c); /* takes no document away */
	for (int i = 0; i < 10; i++)
		cache_put(c, framework(i, i, i + 1));
	cache_list_end(c, 10);
	assert_int_equal(cache_figures(c).without_doc, 7);
	struct span doc;
	CACHE_VIEW_AUTO *v = cache_view(c);
	const struct job_entry *first = view_find(v, SPAN("f0"));
	const struct job_entry *last = view_find(v, SPAN("f9"));
	assert_true(job_entry_doc(first, &unit.a, &doc));
	assert_false(job_entry_doc(last, &unit.a, &doc));
	assert_string_equal(last->uid, "u9");
	assert_string_equal(last->sub_state, "AttemptRunning");
	view_drop(TAKE(v));
	for (int i = 0; i < 9; i++) {
		FREE_AUTO char *uid = xasprintf("u%d", i);
		removed(c, i, uid, 20);
	}
	cache_put(c, framework(9, 9, 10)); /* the same version, now there is room */
	assert_int_equal(cache_figures(c).without_doc, 0);
}

/* ---- inboxes ---- */

/* The received versions, -1 for none. */
struct heard {
	int n;
	int64_t now[8], before[8];
};

static void hear(void *arg, const struct job_entry *now, const struct job_entry *before)
{
	struct heard *h = arg;
	assert_true(h->n < 8);
	h->now[h->n] = now ? now->version : -1;
	h->before[h->n++] = before ? before->version : -1;
}

static bool readable(const struct change_queue *i)
{
	struct pollfd p = { .fd = change_queue_fd(i), .events = POLLIN };
	return poll(&p, 1, 0) == 1;
}

TEST(test_change_queue_reports_changes_to_its_listener)
{
	CACHE_AUTO *c = cache_new(MAX);
	struct change_queue *i = change_queue_new(c, no_err());
	assert_non_null(i);
	cache_put(c, framework(1, 1, 1)); /* there is no listener */
	assert_false(readable(i));
	change_queue_listen(i, true);
	cache_put(c, framework(1, 1, 2));
	cache_put(c, framework(2, 2, 3));
	cache_put(c, framework(1, 1, 4));
	cache_put(c, framework(3, 3, 5));
	removed(c, 3, "u3", 6);           /* came and went */
	cache_put(c, framework(2, 2, 3)); /* known */
	assert_true(readable(i));
	struct heard h = { .n = 0 };
	assert_true(change_queue_take(i, hear, &h));
	assert_int_equal(h.n, 2);
	assert_true(h.before[0] == 1 && h.now[0] == 4);
	assert_true(h.before[1] == -1 && h.now[1] == 3);
	assert_false(readable(i));
	h.n = 0;
	removed(c, 1, "u1", 7);
	assert_true(change_queue_take(i, hear, &h));
	assert_true(h.n == 1 && h.before[0] == 4 && h.now[0] == -1);
	cache_put(c, framework(1, 9, 8));
	change_queue_listen(i, false);
	h.n = 0;
	assert_true(change_queue_take(i, hear, &h));
	assert_int_equal(h.n, 0);
	change_queue_free(i);
}

static void count(void *arg, const struct job_entry *now, const struct job_entry *before)
{
	assert_true(now || before);
	++*(int *)arg;
}

TEST(test_change_queue_overflow_is_reported)
{
	CACHE_AUTO *c = cache_new(MAX);
	struct change_queue *i = change_queue_new(c, no_err());
	change_queue_listen(i, true);
	for (int n = 0; n < 10005; n++)
		cache_put(c, framework(n, n, n + 1));
	int heard = 0;
	assert_false(change_queue_take(i, count, &heard));
	assert_int_equal(heard, 10000);
	cache_put(c, framework(1, 1, 20000));
	heard = 0;
	assert_true(change_queue_take(i, count, &heard));
	assert_int_equal(heard, 1);
	change_queue_free(i);
}

/* ---- a server and its watch ---- */

struct happening {
	int64_t uid, version;
	int name;
	bool removed;
};

struct world {
	struct cache *cache;
	struct dice dice;
	int64_t version;             /* the last one given */
	struct happening now[NAMES]; /* version 0: it is not there */
	struct happening log[LOG];
	size_t logged, told; /* the number of events, and of those that the watch has reported */
};

static void happens(struct world *w, int name, bool note)
{
	struct happening *h = &w->now[name];
	bool there = h->version != 0;
	int64_t uid_number = there ? h->uid : ++w->version;
	*h = (struct happening){ uid_number, ++w->version, name,
		                 there && dice_roll(&w->dice, 4) == 0 };
	assert_true(w->logged < LOG);
	w->log[w->logged++] = *h;
	FREE_AUTO char *uid = xasprintf("u%lld", (long long)h->uid);
	if (note && h->removed) {
		gone(w->cache, name, uid);
		/* If something is there still, it is one of before that. */
		assert_true(kept(w->cache, name) < h->uid);
	} else if (note) {
		cache_note(w->cache, framework(name, h->uid, h->version));
		assert_int_equal(kept(w->cache, name), h->version); /* at once */
	}
	if (h->removed)
		h->version = 0;
}

static void tell(struct world *w)
{
	if (w->told == w->logged)
		return;
	const struct happening *h = &w->log[w->told++];
	FREE_AUTO char *uid = xasprintf("u%lld", (long long)h->uid);
	if (h->removed)
		removed(w->cache, h->name, uid, h->version);
	else
		cache_put(w->cache, framework(h->name, h->uid, h->version));
	if (dice_roll(&w->dice, 8) == 0)
		cache_set_version(w->cache, h->version);
}

/* A list is of one moment, and things go on happening while it comes. */
static void list(struct world *w)
{
	struct happening then[NAMES];
	memcpy(then, w->now, sizeof(then));
	int64_t version = w->version;
	size_t logged = w->logged;
	cache_list_begin(w->cache);
	for (int i = 0; i < NAMES; i++) {
		if (then[i].version)
			cache_put(w->cache, framework(i, then[i].uid, then[i].version));
		if (dice_roll(&w->dice, 4) == 0)
			happens(w, (int)dice_roll(&w->dice, NAMES), dice_roll(&w->dice, 2));
	}
	if (dice_roll(&w->dice, 4) == 0)
		return; /* the connection broke; another list begins, some day */
	cache_list_end(w->cache, version);
	w->told = logged;
}

static void same_as_the_server(struct world *w)
{
	size_t there = 0;
	size_t bytes = 0;
	for (int i = 0; i < NAMES; i++) {
		assert_int_equal(kept(w->cache, i), w->now[i].version);
		there += w->now[i].version != 0;
	}
	CACHE_VIEW_AUTO *v = cache_view(w->cache);
	struct view_walk walk = { .view = v };
	size_t walked = 0;
	size_t by_state[JOB_STATE_MAX] = { 0 };
	for (const struct job_entry *f; (f = view_next(&walk)) != NULL; walked++) {
		bytes += f->weight;
		by_state[f->state] += !f->creating && !f->legacy;
	}
	assert_int_equal(walked, there);
	for (enum job_state s = 0; s < JOB_STATE_MAX; s++)
		assert_int_equal(view_count(v, s), by_state[s]);
	assert_int_equal(view_count(v, JOB_STATE_MAX), there);
	size_t keyed = 0;
	for (uint64_t key = 0; key <= KEYS; key++) {
		walk = (struct view_walk){ .view = v };
		for (const struct job_entry *f; (f = view_next_keyed(&walk, key)) != NULL; keyed++)
			assert_int_equal(number_of(f) % KEYS + 1, key);
	}
	assert_int_equal(keyed, there);
	struct cache_figures figures = cache_figures(w->cache);
	assert_int_equal(figures.frameworks, there);
	assert_true(figures.bytes >= bytes && figures.bytes <= bytes + there * 64);
}

/* The sum of all that a view shows. */
static int64_t sum(const struct cache_view *v)
{
	int64_t n = 0;
	struct view_walk walk = { .view = v };
	for (const struct job_entry *f; (f = view_next(&walk)) != NULL;)
		n += f->version * (number_of(f) + 1);
	return n;
}

TEST(test_cache_equals_the_server_after_random_changes)
{
	static struct world w;
	w = (struct world){ .cache = cache_new(MAX), .dice = { 7 }, .version = 100 };
	const struct cache_view *held[8] = { NULL };
	int64_t sums[8] = { 0 };
	for (int i = 0; i < 8000; i++) {
		unsigned what = dice_roll(&w.dice, 100);
		if (what < 40)
			happens(&w, (int)dice_roll(&w.dice, NAMES), dice_roll(&w.dice, 2));
		else if (what < 97)
			tell(&w);
		else if (what < 98)
			list(&w);
		else {
			/* A view never changes. */
			size_t at = dice_roll(&w.dice, 8);
			if (held[at]) {
				assert_int_equal(sum(held[at]), sums[at]);
				view_drop(held[at]);
			}
			held[at] = cache_view(w.cache);
			sums[at] = sum(held[at]);
		}
		if (i % 500 == 0) {
			cache_list_begin(w.cache); /* ends what a list that broke has begun */
			for (int n = 0; n < NAMES; n++) {
				if (w.now[n].version)
					cache_put(w.cache,
					          framework(n, w.now[n].uid, w.now[n].version));
			}
			cache_list_end(w.cache, w.version);
			w.told = w.logged;
			same_as_the_server(&w);
		}
	}
	for (size_t i = 0; i < 8; i++) {
		if (held[i])
			view_drop(held[i]);
	}
	cache_free(w.cache);
}

TEST(test_cache_equals_the_state_that_the_watch_reports)
{
	static struct world w;
	w = (struct world){ .cache = cache_new(MAX), .dice = { 8 }, .version = 100 };
	cache_list_begin(w.cache);
	cache_list_end(w.cache, 100);
	for (int i = 0; i < 4000; i++) {
		if (dice_roll(&w.dice, 2))
			happens(&w, (int)dice_roll(&w.dice, NAMES), dice_roll(&w.dice, 2));
		else
			tell(&w);
		if (i % 500 == 499) {
			while (w.told < w.logged)
				tell(&w);
			same_as_the_server(&w);
		}
	}
	cache_free(w.cache);
}

/* ---- threads ---- */

struct crowd {
	struct cache *cache;
	struct change_queue *changes;
	atomic_bool done;
	int64_t heard[NAMES]; /* versions, by the inbox; 0: not there */
	atomic_int failures;
};

static void *reader(void *arg)
{
	struct crowd *c = arg;
	char buf[16];
	while (!atomic_load(&c->done)) {
		CACHE_VIEW_AUTO *v = cache_view(c->cache);
		struct view_walk walk = { .view = v };
		size_t n = 0;
		for (const struct job_entry *f; (f = view_next(&walk)) != NULL; n++) {
			if (view_find(v, name_of(buf, number_of(f))) != f)
				atomic_fetch_add(&c->failures, 1);
		}
		if (n != view_count(v, JOB_STATE_MAX))
			atomic_fetch_add(&c->failures, 1);
	}
	return NULL;
}

static void follow(void *arg, const struct job_entry *now, const struct job_entry *before)
{
	struct crowd *c = arg;
	const struct job_entry *one = now ? now : before;
	assert_non_null(one);
	int64_t *known = &c->heard[number_of(one)];
	if (*known != (before ? before->version : 0))
		atomic_fetch_add(&c->failures, 1);
	*known = now ? now->version : 0;
}

static void *follower(void *arg)
{
	struct crowd *c = arg;
	while (!atomic_load(&c->done)) {
		struct pollfd p = { .fd = change_queue_fd(c->changes), .events = POLLIN };
		if (poll(&p, 1, 10) == 1 && !change_queue_take(c->changes, follow, c))
			atomic_fetch_add(&c->failures, 1);
	}
	return NULL;
}

/* Each writer has names of its own. */
static void write_some(struct crowd *c, int first, int step)
{
	for (int i = 0; i < 2000; i++) {
		int name = first + step * (i % (NAMES / step));
		FREE_AUTO char *uid = xasprintf("u%d", name);
		if (i % 7 == 3)
			removed(c->cache, name, uid, 0);
		else
			cache_put(c->cache, framework(name, name, 1 + i * 2 + first));
	}
}

static void *writer(void *arg)
{
	write_some(arg, 1, 2);
	return NULL;
}

TEST(test_cache_serves_many_threads_at_once)
{
	static struct crowd c;
	c = (struct crowd){ .cache = cache_new(MAX) };
	c.changes = change_queue_new(c.cache, no_err());
	assert_non_null(c.changes);
	change_queue_listen(c.changes, true);
	static void *(*const WORK[])(void *) = { reader, reader, follower, writer };
	pthread_t threads[4];
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, WORK[i], &c), 0);
	write_some(&c, 0, 2);
	assert_int_equal(pthread_join(threads[3], NULL), 0);
	atomic_store(&c.done, true);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_true(change_queue_take(c.changes, follow, &c));
	assert_int_equal(atomic_load(&c.failures), 0);
	for (int i = 0; i < NAMES; i++)
		assert_int_equal(c.heard[i], kept(c.cache, i));
	change_queue_free(c.changes);
	cache_free(c.cache);
}
