/* Curves: samples in points of equal time, of which neighbours merge when there are too many. */
#include "machine/usage/curve.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/json/put.h"

/* In the byte order of this machine: in another one the hash differs. */
struct curve_packed {
	uint64_t hash; /* of all that follows */
	char head[offsetof(struct curve, room)];
	uint16_t code[CURVE_POINTS][2]; /* mean, greatest; 65535 is the greatest of all */
};
enum { CODE_MOST = UINT16_MAX, PACKED_HEAD = offsetof(struct curve_packed, code) };

static void curve_join(struct curve_point *to, struct curve_point p)
{
	to->n += p.n;
	to->mean += to->n ? (p.mean - to->mean) * ((float)p.n / (float)to->n) : 0;
	to->most = fmaxf(to->most, p.most);
}

void curve_add(struct curve *c, int64_t at_ms, double value)
{
	enum { STEP = 16 };
	if (at_ms < 0 || !(value >= 0 && value <= (double)FLT_MAX))
		return;
	c->period_ms = c->period_ms ?: CURVE_PERIOD_MS;
	for (; at_ms / c->period_ms >= CURVE_POINTS; c->period_ms *= 2) {
		for (size_t i = 0; i < c->n; i++) {
			struct curve_point p = c->v[i];
			c->v[i] = (struct curve_point){ 0 };
			curve_join(&c->v[i / 2], p);
		}
		c->n = (c->n + 1) / 2;
	}
	size_t at = (size_t)(at_ms / c->period_ms);
	if (at + 1 < c->n)
		return;
	if (at >= c->room) {
		c->room = (at / STEP + 1) * STEP;
		c->v = xrealloc(c->v, c->room * sizeof(*c->v));
	}
	while (c->n <= at)
		c->v[c->n++] = (struct curve_point){ 0 };
	curve_join(&c->v[at], (struct curve_point){ (float)value, (float)value, 1 });
	c->sum += value;
	c->most = fmax(c->most, value);
	c->samples++;
}

void curve_done(struct curve *c)
{
	free(c->v);
	*c = (struct curve){ 0 };
}

static uint64_t curve_hash(const struct curve_packed *p, size_t points)
{
	static const struct hash_key KEY = { { 0 } };
	return hash_bytes(&KEY,
	                  (struct span){ p->head, sizeof(p->head) + points * sizeof(p->code[0]) });
}

void curve_pack(struct str *out, const struct curve *c)
{
	struct curve_packed p = { 0 };
	double scale = c->most > 0 ? CODE_MOST / c->most : 0;
	for (size_t i = 0; i < c->n; i++) {
		double most = fmin(round((double)c->v[i].most * scale), CODE_MOST);
		p.code[i][0] = (uint16_t)fmin(round((double)c->v[i].mean * scale), most);
		p.code[i][1] = (uint16_t)most;
		if (c->v[i].n == 0) /* a gap: the mean is above the greatest value */
			p.code[i][0] = 1;
	}
	bytes_copy(p.head, (const char *)c, sizeof(p.head));
	p.hash = curve_hash(&p, c->n);
	str_put(out, (const char *)&p, PACKED_HEAD + c->n * sizeof(p.code[0]));
}

bool curve_unpack(struct span *rest, struct curve *c)
{
	struct curve_packed p = { 0 };
	*c = (struct curve){ 0 };
	bytes_copy((char *)&p, rest->p, rest->n < sizeof(p) ? rest->n : sizeof(p));
	bytes_copy((char *)c, p.head, sizeof(p.head));
	size_t size = PACKED_HEAD + c->n * sizeof(p.code[0]);
	if (c->n > CURVE_POINTS || rest->n < size || curve_hash(&p, c->n) != p.hash) {
		*c = (struct curve){ 0 };
		return false;
	}
	*rest = span_from(*rest, size);
	c->room = c->n;
	c->v = xcalloc(c->n, sizeof(*c->v));
	for (size_t i = 0; i < c->n; i++) {
		double part = c->most / CODE_MOST;
		/* How many samples a point has is not kept: one for each shortest period. */
		if (p.code[i][0] <= p.code[i][1])
			c->v[i] =
			    (struct curve_point){ (float)(p.code[i][0] * part),
				                  (float)(p.code[i][1] * part),
				                  (uint32_t)(c->period_ms / CURVE_PERIOD_MS) };
	}
	return true;
}

void curve_json(struct str *out, const char *key, const struct curve *c, double unit)
{
	json_put_open(out, key, '{');
	json_put_int(out, "period", (c->period_ms ?: CURVE_PERIOD_MS) / 1000);
	for (int most = 0; most < 2; most++) {
		json_put_open(out, most ? "most" : "mean", '[');
		for (size_t i = 0; i < c->n; i++) {
			const struct curve_point *p = &c->v[i];
			double value = (double)(most ? p->most : p->mean);
			json_put_figure(out, NULL, p->n ? value / unit : -1);
		}
		str_char(out, ']');
	}
	str_char(out, '}');
}
