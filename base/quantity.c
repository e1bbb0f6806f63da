#include "base/quantity.h"

/* The factor of a suffix in thousandths, or 0. */
static __int128 quantity_factor(struct span suffix)
{
	static const char LARGE[] = "kMGTPE";
	int64_t power = 0;
	int64_t base = 1000;
	if (span_is(suffix, "m"))
		return 1;
	if (suffix.n > 1 && to_lower(suffix.p[0]) == 'e' && is_digit(suffix.p[1])) {
		base = 10;
		if (parse_i64(span_from(suffix, 1), 0, 18, &power))
			return 0;
	} else if (suffix.n > 0) {
		bool binary = suffix.n == 2 && suffix.p[1] == 'i';
		char unit = suffix.p[0];
		if (binary && unit == 'K')
			unit = 'k';
		const char *found = unit ? strchr(LARGE, unit) : NULL;
		if (!found || suffix.n > (binary ? 2 : 1))
			return 0;
		power = found - LARGE + 1;
		base = binary ? 1024 : 1000;
	}
	__int128 factor = 1000;
	for (; power > 0; power--)
		factor *= base;
	return factor;
}

int64_t quantity_milli(struct span text)
{
	enum { DIGITS_MAX = 16 /* times 1000 * 1024^6 is less than 2^127 */ };
	__int128 value = 0;
	__int128 divisor = 1;
	size_t i = 0;
	size_t digits = 0;
	bool fraction = false;
	for (; i < text.n && (is_digit(text.p[i]) || (text.p[i] == '.' && !fraction)); i++) {
		if (text.p[i] == '.') {
			fraction = true;
			continue;
		}
		if (++digits > DIGITS_MAX)
			return -1;
		value = value * 10 + (text.p[i] - '0');
		divisor *= fraction ? 10 : 1;
	}
	__int128 factor = quantity_factor(span_from(text, i));
	if (digits == 0 || factor == 0)
		return -1;
	value = (value * factor + divisor - 1) / divisor;
	return value > INT64_MAX ? INT64_MAX : (int64_t)value;
}
