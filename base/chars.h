#pragma once
/* Characters of ASCII, whatever the locale says.  Pure. */
#include <stdbool.h>

static inline bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static inline bool is_lower(char c)
{
	return c >= 'a' && c <= 'z';
}

static inline bool is_upper(char c)
{
	return c >= 'A' && c <= 'Z';
}

static inline bool is_alnum(char c)
{
	return is_digit(c) || is_lower(c) || is_upper(c);
}

static inline bool is_lower_alnum(char c)
{
	return is_digit(c) || is_lower(c);
}

/* The value of a hexadecimal digit of either case, or -1. */
static inline int hex_value(char c)
{
	if (is_digit(c))
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}
