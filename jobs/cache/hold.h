#pragma once
/*
 * Held jobs: a Framework with executionType Create, without the label rest-lit/creating, and with
 * the annotation rest-lit/hold, which says what it waits for.  The annotation is written at the
 * submission and never changed; starting the job (executionType Start) makes it meaningless.
 *
 *	{"by":true,"after":[{"framework":"...","uid":"...","job":"alice~prep","any":true}],
 *	 "begin":1796079600000,"tag":"trial","max":4}
 *
 * All members may be absent.  server/cluster/order.h starts a job when all has come true.
 *
 * Thread: any
 */
#include "base/arena.h"
#include "jobs/cache/cache.h"

enum { HOLD_AFTER_MAX = 64, HOLD_TEXT_MAX = 32 << 10 };

/* A job that is waited for: its success, or with `any` its end. */
struct hold_after {
	struct span framework, uid; /* metadata.name, metadata.uid */
	struct span job;            /* USER~NAME, for people */
	bool any;
};

struct hold {
	bool by;          /* until somebody releases it */
	int64_t begin_ms; /* not before, milliseconds since 1970; 0: at any time */
	struct span tag;
	int64_t max; /* jobs of the user held with this tag that may run at once; 0: no limit */
	struct hold_after *after;
	size_t n_after;
};

/* Reads the annotation; the texts are in the arena, or borrowed from it.  false: it is not valid,
 * so only people may start it. */
bool hold_read(struct span text, struct arena *a, struct hold *out);
void hold_put(struct str *out, const struct hold *h);

/* The next step with a held job, `max` apart. */
enum hold_verdict {
	HOLD_WAITS,  /* for the reason */
	HOLD_STARTS, /* all has come true */
	HOLD_STOPS,  /* it never will, for the reason */
	HOLD_ASKS,   /* h->after[*asked] is not in the view as it was: is it gone? */
};

/* The reason is appended to `why`.  gone: a bit for each member of `after` that is known to be
 * deleted. */
struct hold_judgement {
	enum hold_verdict verdict;
	size_t asked;
};
struct hold_judgement hold_judge(const struct hold *h, const struct cache_view *view,
                                 int64_t now_ms, uint64_t gone, struct str *why);
