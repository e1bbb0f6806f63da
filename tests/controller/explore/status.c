/* Each status that was written, once, with what the invariants need of it. */
#include "tests/controller/explore/explore.h"

#include <stdlib.h>

#include "base/json/scan.h"
#include "jobs/framework/view.h"

enum { SLOTS = 1 << 20, SLOT_MASK = SLOTS - 1 };
static const uint64_t SEED = 0x9E3779B97F4A7C15, PRIME = 0x100000001B3;

static char null_text[] = "null";
static const struct status NONE = { .text = null_text, .framework.attempt = -1 };

static struct status *all;
static int n_all, room;
static int slots[SLOTS]; /* numbers by hash; 0: free */

static uint64_t hash_raw(struct span t)
{
	uint64_t h = SEED;
	for (size_t i = 0; i < t.n; i++)
		h = (h ^ (unsigned char)t.p[i]) * PRIME;
	return h ^ (h >> 29);
}

/* Without times, "2020-09-13T12:26:40Z". */
static uint64_t hash_shape(struct span t)
{
	enum { TIME = sizeof("2020-09-13T12:26:40Z") - 1 };
	uint64_t h = SEED;
	for (size_t i = 0; i < t.n; i++) {
		bool time = t.p[i] == '"' && i + TIME + 1 < t.n && t.p[i + TIME + 1] == '"' &&
		            t.p[i + 11] == 'T' && t.p[i + TIME] == 'Z' && t.p[i + 5] == '-';
		h = (h ^ (time ? 'T' : (unsigned char)t.p[i])) * PRIME;
		i += time ? TIME + 1 : 0;
	}
	return h ^ (h >> 29);
}

static int state_place(struct span name)
{
	for (int i = 0; i < FRAMEWORK_STATES; i++)
		if (span_is(name, FW_STATES[i]))
			return i;
	return -1;
}

/* Of a taskStatus or of the status: both have the same members, but for the uid of the object. */
static struct part part_read(struct span of, const char *uid, struct arena *a)
{
	int64_t attempt = 0;
	int64_t code = 0;
	int64_t retried = 0;
	struct span now = scan_get(of, "attemptStatus");
	struct span end = scan_get(now, "completionStatus");
	struct part p = { .state = (int8_t)state_place(scan_text(scan_get(of, "state"), a)) };
	(void)scan_int(scan_get(now, "id"), 0, INT8_MAX, &attempt);
	(void)scan_int(scan_get(end, "code"), INT32_MIN, INT32_MAX, &code);
	(void)scan_int(scan_path(of, "retryPolicyStatus", "totalRetriedCount"), 0, INT8_MAX,
	               &retried);
	p.attempt = (int8_t)attempt;
	p.ended = scan_type(end) == SCAN_OBJECT;
	p.code = (int32_t)code;
	p.retried = (int32_t)retried;
	struct span text = scan_text(scan_get(of, "instanceUID"), a);
	memcpy(p.instance, text.p ? text.p : "",
	       text.n < sizeof(p.instance) ? text.n : sizeof(p.instance) - 1);
	text = scan_text(scan_get(now, uid), a);
	memcpy(p.uid, text.p ? text.p : "", text.n < sizeof(p.uid) ? text.n : sizeof(p.uid) - 1);
	return p;
}

static void status_read(struct status *s, struct span text)
{
	ARENA_AUTO a = { 0 };
	struct span role;
	struct span task;
	s->framework = part_read(text, "configMapUID", &a);
	for (int i = 0; i < TASKS_MOST; i++)
		s->task[i].attempt = -1;
	struct scan roles = scan_begin(scan_path(text, "attemptStatus", "taskRoleStatuses"));
	if (!scan_item(&roles, &role))
		return;
	int n = 0;
	for (struct scan tasks = scan_begin(scan_get(role, "taskStatuses"));
	     scan_item(&tasks, &task) && n < TASKS_MOST; n++)
		s->task[n] = part_read(task, "podUID", &a);
}

int status_number(struct span text)
{
	uint64_t h = hash_raw(text);
	if (span_is(text, "null"))
		return 0;
	size_t at = h & SLOT_MASK;
	for (; slots[at]; at = (at + 1) & SLOT_MASK)
		if (span_is(text, all[slots[at]].text))
			return slots[at];
	bool inside = area_inside;
	area_inside = false;
	if (n_all + 1 >= room) {
		room = room ? 2 * room : 1024;
		all = xrealloc(all, (size_t)room * sizeof(*all));
		if (n_all > SLOTS / 2)
			abort();
		if (!n_all)
			all[0] = NONE;
	}
	struct status *s = &all[++n_all];
	*s = (struct status){ .text = xstrndup(text.p, text.n), .shape = hash_shape(text) };
	status_read(s, text);
	slots[at] = n_all;
	area_inside = inside;
	return n_all;
}

const struct status *status_of(int number)
{
	return number ? &all[number] : &NONE;
}

void status_forget_all(void)
{
	for (int i = 1; i <= n_all; i++)
		free(all[i].text);
	n_all = 0;
	memset(slots, 0, sizeof(slots));
}
