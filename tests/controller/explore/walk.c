/* Random walks through the same world, with many Frameworks, many faults, and processes that are
 * killed again and again; after that all faults cease, and everything must come to its end. */
#include "tests/controller/explore/explore.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
	FRAMEWORKS_MOST = 30,
	MOVES_EACH = 100,        /* with faults, for each Framework */
	SETTLE_EACH = 4000,      /* afterwards */
	SETTLE_MS = 4 * 3600000, /* of virtual time: the longest pauses are minutes */
	EVENTS_WAIT = 15,        /* of one watch and Framework at most */
	REQUESTS_MOST = 1000,    /* of one Framework; in 500 walks they are 127 */
	MADE_CALM = 50           /* objects of one name, from which on there are no faults */
};

struct walk {
	uint64_t random;
	bool tells;
	size_t moves, by[MOVES], refused[REFUSALS], killed, lapsed, clocks;
};

/* splitmix64 */
static uint64_t walk_random(struct walk *k)
{
	uint64_t z = k->random += 0x9E3779B97F4A7C15;
	z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
	z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
	return z ^ (z >> 31);
}

static int below(struct walk *k, int n)
{
	return (int)(walk_random(k) % (uint64_t)n);
}

static const char *walk_bad(void)
{
	for (int i = 0; i < n_worlds; i++)
		if (worlds[i].bad)
			return worlds[i].bad;
	return NULL;
}

static void walk_play(struct walk *k, struct move m)
{
	char text[160];
	if (k->tells) {
		move_tell(m, text, sizeof(text));
		printf("  %6lld %s %s\n", (long long)world->now.ms, world->name, text);
	}
	k->moves++;
	k->by[m.kind]++;
	k->refused[m.b % REFUSALS] += m.kind == MOVE_REFUSE;
	world_move(m);
}

static void walk_wait(struct walk *k, int64_t ms)
{
	if (k->tells)
		printf("  %6lld + %lld ms\n", (long long)world->now.ms, (long long)ms);
	worlds_wait(ms);
	world_pull();
}

/* Up to 30 s, or until the rules want to be called. */
static void walk_let_time_pass(struct walk *k)
{
	static const int MOST_MS[] = { 50, 500, 5000, 30000 };
	int64_t wake = world_wake_ms() - world->now.ms;
	int64_t ms = 1 + below(k, MOST_MS[below(k, 4)]);
	walk_wait(k, below(k, 2) && wake > 0 && wake < ms ? wake : ms);
}

static bool walk_has_leader(void)
{
	return (worlds->rules[0] && !worlds->lapsed[0]) || (worlds->rules[1] && !worlds->lapsed[1]);
}

/* A leader is killed; or it was stopped, or is cut off, and its Lease is over, and later it begins
 * anew; or a second one leads, too. */
static void walk_change_leader(struct walk *k)
{
	static const char *const HOW[] = { "one is killed", "a Lease is over", "one more" };
	enum { KILLED, LAPSED, MORE };
	bool both = worlds->rules[0] && worlds->rules[1];
	int how = below(k, ARRAY_SIZE(HOW));
	int one = both ? below(k, LEADERS) : worlds->rules[0] == NULL;
	if (worlds->leaders >= BY_ANOTHER - 1)
		return;
	if (k->tells)
		printf("  leader %d: %s\n", one, HOW[how]);
	k->killed += how == KILLED;
	k->lapsed += how == LAPSED && !worlds->lapsed[one];
	if (how == LAPSED)
		worlds->lapsed[one] = true;
	else if (how == KILLED || both)
		leader_end(one);
	if (worlds->rules[0] && worlds->rules[1] && !walk_has_leader())
		leader_end(one); /* it begins anew */
	if (how == MORE || !walk_has_leader())
		leader_begin(below(k, WATCHES));
	world_pull();
}

/* The clock of the controllers' node is set, to the right time give or take an hour. */
static void walk_set_clock(struct walk *k)
{
	enum { HOUR_MS = 3600000 };
	int off_ms = below(k, 2 * HOUR_MS + 1) - HOUR_MS;
	if (k->tells)
		printf("  clock: %d ms\n", off_ms);
	worlds_set_clock(off_ms);
	k->clocks++;
}

/* The moves of one Framework, without those of leaders and time. */
static size_t walk_moves(struct move *out)
{
	struct move all[MOVES_MOST];
	size_t n = 0;
	size_t count = world_moves(all);
	for (size_t i = 0; i < count; i++)
		if (all[i].kind != MOVE_TIME && all[i].kind != MOVE_LEAD &&
		    all[i].kind != MOVE_KILL)
			out[n++] = all[i];
	return n;
}

static bool walk_is_crowded(void)
{
	bool crowded = false;
	for (int l = 0; l < LEADERS; l++)
		for (int i = 0; i < WATCHES; i++)
			crowded = crowded || world->n_events[l][i] > EVENTS_WAIT;
	return crowded;
}

static void walk_calm(void)
{
	world->left = (struct allowance){ 0 };
	world->full = false;
}

/* One move of a Framework, or a pause. */
static void walk_step(struct walk *k)
{
	struct move moves[MOVES_MOST];
	if (below(k, 500) == 0)
		walk_change_leader(k);
	if (below(k, 2000) == 0)
		walk_set_clock(k);
	if (below(k, 12) == 0)
		walk_let_time_pass(k);
	world = &worlds[below(k, n_worlds)];
	for (int i = 0; i < TASKS_MOST; i++)
		if (world->made[PODS][i] > MADE_CALM || world->made[CONFIGMAPS][0] > MADE_CALM)
			walk_calm();
	size_t n = walk_moves(moves);
	if (n == 0)
		return;
	struct move m = moves[below(k, (int)n)];
	if (walk_is_crowded())
		m = moves[0]; /* an event */
	if (move_is_progress(m) || m.kind == MOVE_LATER || below(k, 4) == 0)
		walk_play(k, m);
}

/* All that comes by itself, in all Frameworks; false: nothing. */
static bool walk_progress(struct walk *k)
{
	struct move moves[MOVES_MOST];
	bool any = false;
	for (int w = 0; w < n_worlds; w++) {
		world = &worlds[w];
		size_t n = walk_moves(moves);
		for (size_t i = 0; i < n; i++) {
			bool lost = moves[i].kind == MOVE_DELETE_POD;
			if (!lost && !move_is_progress(moves[i]))
				continue;
			walk_play(k, moves[i]);
			any = true;
			break;
		}
	}
	return any;
}

static bool walk_is_done(void)
{
	bool done = true;
	for (int i = 0; i < n_worlds && done; i++) {
		world = &worlds[i];
		done = world_is_done();
	}
	return done;
}

/* Somebody removes lost nodes from the cluster, and Kubernetes the pods there that are in no
 * status. The controller must remove the others. */
static void walk_remove_nodes(struct walk *k)
{
	for (world = worlds; world < worlds + n_worlds; world++)
		for (int i = 0; i < TASKS_MOST; i++) {
			const struct status *s = status_of(world->framework.status);
			struct shown_pod *p = &world->pod[i];
			char uid[16];
			(void)snprintf(uid, sizeof(uid), "p%d.%d", p->index, p->made);
			if (p->there && p->lost && p->dying && strcmp(uid, s->task[i].uid) != 0)
				walk_play(k, (struct move){ MOVE_REMOVE, (uint8_t)i, 0 });
		}
	world = worlds;
}

/* No fault any more; of the requests under way some are executed still. */
static void walk_settle(struct walk *k)
{
	int64_t end_ms = worlds->now.ms + SETTLE_MS;
	size_t most = k->moves + (size_t)n_worlds * SETTLE_EACH;
	for (int i = 0; i < n_worlds; i++) {
		world = &worlds[i];
		walk_calm();
		while (world->n_late)
			if (below(k, 2))
				walk_play(k, (struct move){ MOVE_LATER, 0, 0 });
			else
				(void)request_remove(world->late, &world->n_late, 0);
	}
	world = worlds;
	if (worlds->rules[0] && worlds->rules[1])
		leader_end(worlds->lapsed[0] || (!worlds->lapsed[1] && below(k, 2)) ? 0 : 1);
	while (!walk_bad()) {
		if (walk_progress(k))
			continue;
		if (walk_is_done())
			break;
		world = worlds;
		int64_t wake = world_wake_ms();
		walk_remove_nodes(k);
		if (wake > end_ms || k->moves > most)
			blame("it does not come to an end");
		else
			walk_wait(k, wake > world->now.ms ? wake - world->now.ms : 1);
	}
	for (int i = 0; i < n_worlds && !walk_bad(); i++) {
		world = &worlds[i];
		rest_check();
	}
}

/* What is different from seed to seed. */
static struct space walk_space(struct walk *k)
{
	return (struct space){
		.tasks = 1 + below(k, TASKS_MOST),
		.retries = below(k, 3),
		.task_retries = below(k, 3),
		.grace_s = below(k, 2) ? 600 : 0,
		.stale = true,
		.wild = true,
		.budget = { .faults = (int8_t)below(k, 16),
		            .failures = (int8_t)below(k, 4),
		            .stops = (int8_t)below(k, 2),
		            .scales = (int8_t)below(k, 3),
		            .deletions = (int8_t)(below(k, 6) == 0),
		            .foreign = (int8_t)(below(k, 5) == 0),
		            .pod_deletions = (int8_t)below(k, 3),
		            .relists = (int8_t)below(k, 4),
		            .old_lists = (int8_t)below(k, 3),
		            .nodes = (int8_t)(below(k, 3) == 0),
		            .refusals = (int8_t)(below(k, 3) ? 0 : below(k, 5)),
		            .quotas = (int8_t)(below(k, 3) ? 0 : below(k, 5)) },
	};
}

/* NULL: nothing was wrong. */
static const char *walk_one(struct walk *k, const struct framework_config *config,
                            size_t *frameworks, size_t *requests, size_t *most)
{
	struct space of = walk_space(k);
	worlds_begin(1 + below(k, FRAMEWORKS_MOST), &of, config);
	size_t moves = (size_t)n_worlds * MOVES_EACH;
	size_t end = k->moves + moves;
	for (size_t idle = 0; k->moves < end && idle < 4 * moves && !walk_bad(); idle++)
		walk_step(k);
	if (!walk_bad())
		walk_settle(k);
	const char *bad = walk_bad();
	*frameworks += (size_t)n_worlds;
	for (int i = 0; i < n_worlds; i++) {
		*requests += worlds[i].requests;
		if (worlds[i].requests > REQUESTS_MOST && !bad)
			bad = "too many requests";
		*most = worlds[i].requests > *most ? worlds[i].requests : *most;
	}
	worlds_end();
	status_forget_all();
	return bad;
}

size_t walks(uint64_t seed, size_t n, const struct framework_config *config, bool stops)
{
	struct walk k = { .tells = n == 1 };
	size_t failed = 0;
	size_t frameworks = 0;
	size_t requests = 0;
	size_t most = 0;
	for (size_t i = 0; i < n && !(stops && failed); i++) {
		k.random = seed + i;
		const char *bad = walk_one(&k, config, &frameworks, &requests, &most);
		if (bad)
			printf("FAIL walk %" PRIu64 ": %s\n", seed + i, bad);
		failed += bad != NULL;
	}
	printf("%zu walks, %zu Frameworks, %zu moves: %zu executed long before the answer, %zu "
	       "answers lost, "
	       "%zu requests late, %zu 503 or 429, %zu 409, %zu html or without effect, %zu 403, "
	       "%zu 422, "
	       "%zu 401, %zu times a full quota or its end, %zu lists after lost events, %zu nodes "
	       "lost, %zu "
	       "writes of others, %zu kills, %zu Leases lost, %zu clocks set; requests of a "
	       "Framework: %zu, at "
	       "most %zu\n",
	       n, frameworks, k.moves, k.by[MOVE_EXECUTE], k.by[MOVE_LOST], k.by[MOVE_LATE],
	       k.by[MOVE_BUSY], k.by[MOVE_CONFLICT], k.by[MOVE_VOID], k.refused[REFUSED_FORBIDDEN],
	       k.refused[REFUSED_INVALID], k.refused[REFUSED_TOKEN], k.by[MOVE_QUOTA],
	       k.by[MOVE_RELIST], k.by[MOVE_NODE], k.by[MOVE_FOREIGN], k.killed, k.lapsed, k.clocks,
	       frameworks ? requests / frameworks : 0, most);
	return failed;
}
