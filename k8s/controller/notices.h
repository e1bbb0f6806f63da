#pragma once
/*
 * Notices of the rules as Events of Kubernetes, of the Framework that they are about.
 *
 *	struct notices *n = notices_new(store, &counts);
 *	notices_take(n, &notice, &now);
 *	store_free(store);
 *	notices_free(n);
 *
 * An Event has a fixed name per Framework and reason: FRAMEWORK.REASON.UID, the reason in lower
 * case and the first 8 characters of the uid.  A second one changes count, time and message of the
 * first.  Of a Framework and reason, one Event is sent in NOTICE_PAUSE_MS; the others only count.
 * The table is bounded: of many Frameworks at once, some get none.
 *
 * One thread, that of the store.
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

struct notices;

/* Both are borrowed; the store is freed before notices_free. */
struct notices *notices_new(struct store *s, struct notice_counts *counts);
void notices_free(struct notices *n); /* accepts NULL */
/* Sends an Event, unless it is omitted: false. */
bool notices_take(struct notices *n, const struct rules_notice *about,
                  const struct rules_time *now);
/* Appends the name of the Event. */
void notice_name(struct str *out, const struct rules_notice *about);
