#pragma once
#ifndef REPLAY /* mutates nothing */
/*
 * libFuzzer's mutations, and some that keep YAML whole: a line dropped, a line repeated elsewhere,
 * the value of one line put into another.  For targets that read jobs; included once in each.
 */
#include <stdint.h>

#include "base/str.h"

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed);

/* A line with its line feed, chosen by a number. */
static struct span some_line(struct span text, unsigned number)
{
	size_t from = text.n ? number % text.n : 0;
	while (from && text.p[from - 1] != '\n')
		from--;
	size_t end = span_find((struct span){ text.p + from, text.n - from }, 0, "\n");
	return (struct span){ text.p + from, end == SIZE_MAX ? text.n - from : end + 1 };
}

/* What follows the colon, or the whole line. */
static struct span value_of(struct span line)
{
	size_t colon = span_find(line, 0, ":");
	size_t skip = colon == SIZE_MAX ? 0 : colon + 1;
	return (struct span){ line.p + skip, line.n - skip };
}

/* text with `old`, a part of it, replaced.  The size, 0 if that is more than max. */
static size_t replace(struct span text, struct span old, struct span with, size_t max, uint8_t *out)
{
	size_t before = (size_t)(old.p - text.p);
	size_t after = text.n - before - old.n;
	size_t size = before + with.n + after;
	if (size > max)
		return 0;
	STR_AUTO s = STR_INIT(max + 1);
	str_put(&s, text.p, before);
	str_put(&s, with.p, with.n);
	str_put(&s, old.p + old.n, after);
	memcpy(out, str_c(&s), size);
	return size;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed)
{
	struct span text = { (const char *)data, size };
	struct span one = some_line(text, seed >> 4);
	struct span two = some_line(text, seed * 2654435761u >> 7);
	size_t n = 0;
	switch (seed % 8) {
	case 0:
		n = replace(text, one, (struct span){ "", 0 }, max, data);
		break;
	case 1:
		n = replace(text, (struct span){ one.p, 0 }, two, max, data);
		break;
	case 2:
		n = replace(text, value_of(one), value_of(two), max, data);
		break;
	default:
		break;
	}
	return n ? n : LLVMFuzzerMutate(data, size, max);
}
#endif
