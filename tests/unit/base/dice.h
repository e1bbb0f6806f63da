#pragma once
/* The same numbers each time: xorshift64, begun with any number but 0. */
#include <stdint.h>

struct dice {
	uint64_t bits;
};

/* 0 to n - 1. */
static inline unsigned dice_roll(struct dice *d, unsigned n)
{
	d->bits ^= d->bits << 13;
	d->bits ^= d->bits >> 7;
	d->bits ^= d->bits << 17;
	return (unsigned)(d->bits >> 32) % n;
}
