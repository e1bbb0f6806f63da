#pragma once
/*
 * Notices of the rules as Events of Kubernetes, of the Framework that they are about.
 *
 *	struct notices n = { .store = store, .counts = &counts };
 *	notices_take(&n, &notice, &now);
 *	store_free(store);
 *
 * An Event has a fixed name per Framework and reason: FRAMEWORK.REASON.UID, the reason in lower
 * case and the first 8 characters of the uid.  A second one changes count, time and message of the
 * first.  Of a Framework and reason, one Event is sent in NOTICE_PAUSE_MS; the others only count.
 * The table is bounded: of many Frameworks at once, some get none.
 *
 * Thread: own
 */
#include "k8s/controller/rules/rules.h"

enum { NOTICE_PAUSE_MS = 5 * 60 * 1000, NOTICE_SETS = 128, NOTICE_SET = 8 };

#define CONTROLLER_NAME "rest-lit-controller"
/* The query of requests that write. */
#define CONTROLLER_QUERY "fieldManager=" CONTROLLER_NAME

struct notice_counts {
	atomic_ullong sent, failed;
	atomic_ullong omitted; /* repeated ones, and those beyond the table */
};

/* The Events of a Framework for one reason. */
struct notice_row {
	unsigned char key[16];
	int64_t sent_ms, count; /* count is 0: a free row */
};

/* Outlives the requests of its store. */
struct notices {
	struct store *store;          /* borrowed */
	struct notice_counts *counts; /* borrowed */
	struct notice_row rows[NOTICE_SETS][NOTICE_SET];
};

/* Sends an Event, unless it is omitted: false. */
bool notices_take(struct notices *n, const struct rules_notice *about,
                  const struct rules_time *now);
/* Appends the name of the Event. */
void notice_name(struct str *out, const struct rules_notice *about);
