#pragma once
/*
 * When a state machine is synced next: for all who drive state machines.
 *
 *	framework_sync(f, &client, wall_ms / 1000, random, &r);
 *	due_ms = r.again ? now_ms : drive_next_ms(&r, &failures, now_ms, wall_ms, 30000);
 *
 * Pure.
 *
 * Thread: any
 */
#include <stdint.h>

#include "jobs/framework/framework.h"

/* 5 ms, 10, 20 ... most_ms. */
int64_t drive_backoff_ms(unsigned failures, int64_t most_ms);
/* The time of the next sync at the latest, by the clock of now_ms; INT64_MAX: no need.  It does not
 * regard `again` and `pending`.  *failures: of syncs in a row, first 0; most_ms: the longest pause
 * after one. */
int64_t drive_next_ms(const struct framework_result *r, unsigned *failures, int64_t now_ms,
                      int64_t wall_ms, int64_t most_ms);
