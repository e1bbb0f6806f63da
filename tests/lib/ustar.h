#pragma once
/* Headers of tar by another hand than that of the product: tests write wrong ones, too. */
#include <stdio.h>

#include "base/str.h"

static inline void head_octal(char *at, int digits, size_t v)
{
	for (at[digits] = '\0'; digits > 0; v /= 8)
		at[--digits] = (char)('0' + v % 8);
}

/* A header of 512 bytes, without its sum; a name of more than 100 bytes is cut. */
static inline void head_fill(char *head, char type, const char *name, size_t size)
{
	memset(head, 0, 512);
	memcpy(head, name, strlen(name) > 100 ? 100 : strlen(name));
	head_octal(head + 100, 7, type == '5' ? 0755 : 0644);
	head_octal(head + 108, 7, 0);
	head_octal(head + 116, 7, 0);
	head_octal(head + 124, 11, size);
	head_octal(head + 136, 11, 0);
	head[155] = ' ';
	head[156] = type;
	memcpy(head + 257, "ustar\00000", 8);
}

/* Writes the sum, or a higher one. */
static inline void head_sum(char *head, unsigned more)
{
	unsigned sum = 8 * ' ' + more;
	for (size_t i = 0; i < 512; i++)
		sum += i >= 148 && i < 156 ? 0 : (unsigned char)head[i];
	for (size_t i = 6; i > 0; sum >>= 3)
		head[148 + --i] = (char)('0' + (sum & 7));
}

/* A record of an extended header. */
static inline void record_put(struct str *out, const char *key, struct span value)
{
	size_t n = strlen(key) + value.n + 3;
	size_t all = n + 1;
	while (n + (size_t)snprintf(NULL, 0, "%zu", all) != all)
		all++;
	str_printf(out, "%zu %s=", all, key);
	str_span(out, value);
	str_char(out, '\n');
}
