#pragma once
/*
 * A series of samples of one task, as at most CURVE_POINTS points of equal time.  When it is full,
 * neighbours merge and the period doubles, so a curve of seconds and one of weeks have the same
 * size.  Mean and greatest value of the whole series are exact; a time without samples stays a gap.
 *
 *	struct curve c = { 0 };
 *	curve_add(&c, 5000, 12.5);
 *	curve_pack(&blob, &c);
 *	curve_done(&c);
 *
 * Thread: own
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

enum { CURVE_POINTS = 240, CURVE_PERIOD_MS = 5000 };

struct curve_point {
	float mean, most;
	uint32_t n; /* samples; 0: a gap */
};

struct curve {
	int64_t period_ms; /* of a point; 0: nothing was added */
	size_t n;          /* points; the first one begins at time 0 */
	double sum, most;  /* of all samples */
	uint64_t samples;
	size_t room; /* from here on not kept by curve_pack */
	struct curve_point *v;
};

/* at_ms: from 0, of a clock that never goes back; a sample before the last point is dropped, as are
 * values that are not finite or below 0. */
void curve_add(struct curve *c, int64_t at_ms, double value);
void curve_done(struct curve *c);

/* Appends the curve: at most 1 KiB, values within 1/65535 of the greatest one. */
void curve_pack(struct str *out, const struct curve *c);
/* Reads one from the begin of *rest, which is moved behind it; the caller calls curve_done, also
 * after false: it is damaged. */
bool curve_unpack(struct span *rest, struct curve *c);

/* Appends `"KEY":{"period":SECONDS,"mean":[...],"most":[...]}`, with null for a gap; each value
 * divided by `unit`. */
void curve_json(struct str *out, const char *key, const struct curve *c, double unit);
