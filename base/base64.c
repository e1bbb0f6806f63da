/*
 * Base64; see enc.h.  Secrets pass through here, so neither a branch nor an index depends on
 * what is encoded or decoded: how long it takes says how much it was, and nothing else.
 */
#include "base/enc.h"

/* The alphabet: runs of characters that stand for consecutive numbers. */
static const struct {
	unsigned char first, last, value;
} RUNS[] = {
	{ 'A', 'Z', 0 }, { 'a', 'z', 26 }, { '0', '9', 52 }, { '+', '+', 62 }, { '/', '/', 63 },
};
enum { N_RUNS = sizeof(RUNS) / sizeof(RUNS[0]), NO_DIGIT = 0x40 };

/* All bits if low <= v <= high, else none; all of them below 2^31. */
static uint32_t between(uint32_t v, uint32_t low, uint32_t high)
{
	return (((v - low) | (high - v)) >> 31) - 1;
}

static char digit_of(uint32_t value)
{
	uint32_t c = 0;
	for (unsigned i = 0; i < N_RUNS; i++) {
		uint32_t from = RUNS[i].value;
		uint32_t to = from + RUNS[i].last - RUNS[i].first;
		c |= between(value, from, to) & (value - from + RUNS[i].first);
	}
	return (char)c;
}

/* NO_DIGIT for what is none.  The same runs, written out: large texts come this way. */
static uint32_t value_of(char digit)
{
	uint32_t c = (unsigned char)digit;
	uint32_t upper = between(c, 'A', 'Z');
	uint32_t lower = between(c, 'a', 'z');
	uint32_t number = between(c, '0', '9');
	uint32_t plus = between(c, '+', '+');
	uint32_t slash = between(c, '/', '/');
	uint32_t value = (upper & (c - 'A')) | (lower & (c - 'a' + 26)) |
	                 (number & (c - '0' + 52)) | (plus & 62) | (slash & 63);
	return value | (~(upper | lower | number | plus | slash) & NO_DIGIT);
}

void str_base64(struct str *out, struct span bytes)
{
	const unsigned char *in = (const unsigned char *)bytes.p;
	size_t n = bytes.n / 3 * 4 + (bytes.n % 3 ? 4 : 0);
	if (!str_reserve(out, n))
		return;
	char *p = out->p + out->n;
	for (size_t i = 0; i < bytes.n; i += 3, p += 4) {
		size_t left = bytes.n - i;
		uint32_t three = (uint32_t)in[i] << 16;
		if (left > 1)
			three |= (uint32_t)in[i + 1] << 8;
		if (left > 2)
			three |= in[i + 2];
		p[0] = digit_of(three >> 18);
		p[1] = digit_of(three >> 12 & 63);
		p[2] = '=';
		p[3] = '=';
		if (left > 1)
			p[2] = digit_of(three >> 6 & 63);
		if (left > 2)
			p[3] = digit_of(three & 63);
	}
	out->n += n;
	out->p[out->n] = '\0';
}

int base64_decode(struct arena *a, struct span text, struct span *bytes)
{
	if (text.n % 4)
		return -1;
	size_t padding = 0;
	while (padding < 2 && padding < text.n && text.p[text.n - 1 - padding] == '=')
		padding++;
	size_t n = text.n / 4 * 3 - padding;
	unsigned char *out = arena_alloc(a, text.n / 4 * 3 + 1);
	uint32_t bad = 0;
	for (size_t i = 0; i < text.n; i += 4) {
		uint32_t three = 0;
		size_t digits = i + 4 == text.n ? 4 - padding : 4;
		for (size_t k = 0; k < 4; k++) {
			uint32_t v = k < digits ? value_of(text.p[i + k]) : 0;
			bad |= v & NO_DIGIT;
			three = three << 6 | (v & 63);
		}
		out[i / 4 * 3] = (unsigned char)(three >> 16);
		out[i / 4 * 3 + 1] = (unsigned char)(three >> 8);
		out[i / 4 * 3 + 2] = (unsigned char)three;
	}
	/* The bits behind the last byte are zero, or another text would mean the same. */
	for (size_t k = n; k < text.n / 4 * 3; k++)
		bad |= out[k];
	out[n] = 0;
	if (bad)
		return -1;
	*bytes = (struct span){ (const char *)out, n };
	return 0;
}
