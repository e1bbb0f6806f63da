/* Curves: what stays exact while points merge, gaps, and bytes that come back damaged. */
#include "tests/unit/base/cmocka.h"

#include <float.h>
#include <math.h>

#include "machine/usage/curve.h"
#include "tests/unit/base/dice.h"

enum { HOUR_MS = 3600 * 1000 };

/* Busy percents, one each 5 s, but none from gap to gap_end. */
static void curve_fill(struct curve *c, int64_t length_ms, int64_t gap_ms, int64_t gap_end_ms)
{
	struct dice d = { 7 };
	for (int64_t at = 0; at < length_ms; at += CURVE_PERIOD_MS) {
		double value = dice_roll(&d, 1001) / 10.0;
		if (at < gap_ms || at >= gap_end_ms)
			curve_add(c, at, value);
	}
}

TEST(test_curve_keeps_mean_and_greatest_while_points_merge)
{
	static const int64_t LENGTHS_MS[] = { 5000,    600000,         1200000,        1205000,
		                              HOUR_MS, 48LL * HOUR_MS, 720LL * HOUR_MS };
	for (size_t k = 0; k < ARRAY_SIZE(LENGTHS_MS); k++) {
		struct curve c = { 0 };
		struct dice d = { 7 };
		double sum = 0;
		double most = 0;
		uint64_t n = 0;
		for (int64_t at = 0; at < LENGTHS_MS[k]; at += CURVE_PERIOD_MS) {
			double value = dice_roll(&d, 1001) / 10.0;
			curve_add(&c, at, value);
			sum += value;
			most = fmax(most, value);
			n++;
		}
		assert_true(c.sum == sum && c.most == most && c.samples == n);
		assert_in_range(c.n, 1, CURVE_POINTS);
		assert_true(c.n <= c.room && c.room <= CURVE_POINTS);
		/* It ends where the samples end: less than a point longer. */
		assert_true((int64_t)c.n * c.period_ms >= LENGTHS_MS[k]);
		assert_true(((int64_t)c.n - 1) * c.period_ms < LENGTHS_MS[k]);
		if (n > CURVE_POINTS)
			assert_true(c.n > CURVE_POINTS / 2);
		double of_points = 0;
		double most_of_points = 0;
		uint64_t n_of_points = 0;
		for (size_t i = 0; i < c.n; i++) {
			of_points += (double)c.v[i].mean * c.v[i].n;
			most_of_points = fmax(most_of_points, (double)c.v[i].most);
			n_of_points += c.v[i].n;
		}
		assert_true(n_of_points == n);
		assert_true(fabs(of_points - sum) <= 1e-4 * sum);
		assert_true((float)most_of_points == (float)most);
		curve_done(&c);
		assert_true(c.v == NULL && c.n == 0);
	}
}

TEST(test_curve_keeps_a_gap_as_a_gap)
{
	struct curve c = { 0 };
	curve_fill(&c, 48LL * HOUR_MS, 10LL * HOUR_MS, 14LL * HOUR_MS);
	size_t gaps = 0;
	for (size_t i = 0; i < c.n; i++) {
		int64_t from = (int64_t)i * c.period_ms;
		bool within = from >= 10LL * HOUR_MS && from + c.period_ms <= 14LL * HOUR_MS;
		bool without = from + c.period_ms <= 10LL * HOUR_MS || from >= 14LL * HOUR_MS;
		if (within)
			assert_int_equal(c.v[i].n, 0);
		if (without)
			assert_int_equal(c.v[i].n, c.period_ms / CURVE_PERIOD_MS);
		gaps += c.v[i].n == 0;
	}
	assert_true(gaps >= 8);
	curve_done(&c);

	/* The first sample comes late: a gap, not a 0. */
	curve_add(&c, 12000, 3);
	assert_int_equal(c.n, 3);
	assert_true(c.v[0].n == 0 && c.v[1].n == 0 && c.v[2].n == 1);
	curve_done(&c);
}

TEST(test_curve_drops_samples_that_are_none)
{
	struct curve c = { 0 };
	static const double NONE[] = { -1, -0.001, NAN, -NAN, INFINITY, -INFINITY, 1e39 };
	for (size_t i = 0; i < ARRAY_SIZE(NONE); i++)
		curve_add(&c, 0, NONE[i]);
	curve_add(&c, -1, 1);
	curve_add(&c, INT64_MIN, 1);
	assert_true(c.period_ms == 0 && c.n == 0 && c.v == NULL && c.samples == 0);
	curve_add(&c, 20000, 4);
	curve_add(&c, 19999, 100); /* before the last point */
	curve_add(&c, 0, 100);
	curve_add(&c, 24999, 0);
	curve_add(&c, 20001, 2); /* in it */
	assert_int_equal(c.samples, 3);
	assert_int_equal(c.n, 5);
	assert_true(c.sum == 6 && c.most == 4 && c.v[4].mean == 2 && c.v[4].most == 4);
	curve_add(&c, INT64_MAX, (double)FLT_MAX);
	assert_true(c.samples == 4 && c.n <= CURVE_POINTS && c.v[0].n == 3);
	curve_add(&c, INT64_MAX, 1);
	assert_int_equal(c.samples, 5);
	curve_done(&c);
}

static void curve_alike(const struct curve *a, const struct curve *b)
{
	assert_true(a->sum == b->sum && a->most == b->most && a->samples == b->samples);
	assert_true(a->period_ms == b->period_ms && a->n == b->n);
	for (size_t i = 0; i < a->n; i++) {
		double step = a->most / 65535;
		assert_true((a->v[i].n == 0) == (b->v[i].n == 0));
		assert_true(fabs((double)a->v[i].mean - (double)b->v[i].mean) <= step);
		assert_true(fabs((double)a->v[i].most - (double)b->v[i].most) <= step);
	}
}

TEST(test_curve_comes_back_from_its_bytes)
{
	struct curve v[5] = { 0 };
	STR_AUTO packed = STR_INIT(5120);
	curve_fill(&v[0], 48LL * HOUR_MS, 10LL * HOUR_MS, 14LL * HOUR_MS);
	curve_fill(&v[2], (int64_t)CURVE_POINTS * CURVE_PERIOD_MS, 0,
	           0); /* the most points; [1]: none */
	for (int64_t i = 0; i < 100; i++) {
		curve_add(&v[3], i * CURVE_PERIOD_MS, 0); /* the GPU does nothing */
		curve_add(&v[4], i * CURVE_PERIOD_MS, 3e12 + (double)i);
	}
	assert_int_equal(v[2].n, CURVE_POINTS);
	for (size_t i = 0; i < ARRAY_SIZE(v); i++) {
		size_t before = packed.n;
		curve_pack(&packed, &v[i]);
		assert_true(packed.n - before <= 1024);
	}
	struct span rest = str_view(&packed);
	for (size_t i = 0; i < ARRAY_SIZE(v); i++) {
		struct curve c;
		assert_true(curve_unpack(&rest, &c));
		curve_alike(&v[i], &c);
		/* It goes on, with the weight of what there was. */
		for (int64_t at = 48LL * HOUR_MS; at < 96LL * HOUR_MS; at += CURVE_PERIOD_MS) {
			curve_add(&v[i], at, 50);
			curve_add(&c, at, 50);
		}
		assert_true(c.sum == v[i].sum && c.samples == v[i].samples && c.n == v[i].n);
		if (i > 0) /* points in part before a gap count as full ones */
			curve_alike(&v[i], &c);
		curve_done(&c);
		curve_done(&v[i]);
	}
	assert_int_equal(rest.n, 0);
}

static void curve_refused(struct span bytes)
{
	struct span rest = bytes;
	struct curve c;
	assert_false(curve_unpack(&rest, &c));
	assert_true(rest.p == bytes.p && rest.n == bytes.n);
	assert_true(c.n == 0 && c.v == NULL && c.samples == 0);
	curve_done(&c);
}

TEST(test_curve_tells_damaged_bytes)
{
	struct curve c = { 0 };
	STR_AUTO packed = STR_INIT(1024);
	curve_fill(&c, (int64_t)CURVE_POINTS * CURVE_PERIOD_MS, 100000, 200000);
	curve_pack(&packed, &c);
	curve_done(&c);
	curve_refused((struct span){ NULL, 0 });
	for (size_t n = 0; n < packed.n; n++) {
		FREE_AUTO char *cut = xmalloc(n + 1); /* reads behind it are found */
		memcpy(cut, packed.p, n);
		curve_refused((struct span){ cut, n });
		for (int bit = 0; bit < 8; bit++) {
			packed.p[n] = (char)(packed.p[n] ^ 1 << bit);
			curve_refused(str_view(&packed));
			packed.p[n] = (char)(packed.p[n] ^ 1 << bit);
		}
	}
	struct dice d = { 99 };
	for (int round = 0; round < 1000; round++) {
		char noise[1024];
		for (size_t i = 0; i < sizeof(noise); i++)
			noise[i] = (char)dice_roll(&d, 256);
		curve_refused((struct span){ noise, dice_roll(&d, sizeof(noise)) });
	}
	/* As it was. */
	struct span rest = str_view(&packed);
	assert_true(curve_unpack(&rest, &c) && rest.n == 0);
	curve_done(&c);
}

TEST(test_curve_is_written_as_json)
{
	struct curve c = { 0 };
	STR_AUTO out = STR_INIT(4096);
	str_char(&out, '{');
	curve_json(&out, "none", &c, 1);
	curve_add(&c, 0, 1 << 20);
	curve_add(&c, 0, 2 << 20);
	curve_add(&c, 10000, (1 << 19) * 0.3);
	curve_json(&out, "memoryMB", &c, 1 << 20);
	str_char(&out, '}');
	assert_string_equal(out.p, "{\"none\":{\"period\":5,\"mean\":[],\"most\":[]},"
	                           "\"memoryMB\":{\"period\":5,\"mean\":[1.5,null,0.15],"
	                           "\"most\":[2,null,0.15]}}");
	curve_add(&c, 2400 * 1000 - 1, 1);
	out.n = 0;
	str_char(&out, '[');
	curve_json(&out, NULL, &c, 1);
	assert_non_null(strstr(out.p, "[{\"period\":10,\"mean\":[1572864,157286.4063,null,"));
	curve_done(&c);
}
