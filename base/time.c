/* Reads times by the digits of a form, and counts the days of years that begin in March. */
#include "base/time.h"

#include <stdio.h>
#include <time.h>

const char *rfc3339_put(char out[static RFC3339_MAX], int64_t ms, int digits)
{
	int64_t part = ms % 1000 < 0 ? ms % 1000 + 1000 : ms % 1000;
	time_t s = (time_t)((ms - part) / 1000);
	struct tm tm = { 0 };
	char fraction[16] = "";
	(void)gmtime_r(&s, &tm); /* fails only beyond the year 2^31 */
	if (digits > 0)
		(void)snprintf(fraction, sizeof(fraction), ".%03d%s", (int)part,
		               digits == 6 ? "000" : "");
	(void)snprintf(out, RFC3339_MAX, "%04d-%02d-%02dT%02d:%02d:%02d%sZ", tm.tm_year + 1900,
	               tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, fraction);
	return out;
}

/* The numbers that stand where the form has zeros; '?' is any character, others must be the same.
 */
static bool time_numbers(struct span text, const char *form, int v[static 6])
{
	size_t n = strlen(form);
	if (text.n < n)
		return false;
	for (size_t i = 0, k = 0; i < n; i++) {
		if (form[i] != '0' && form[i] != '?' && form[i] != text.p[i])
			return false;
		if (form[i] != '0')
			continue;
		if (!is_digit(text.p[i]))
			return false;
		v[k] = v[k] * 10 + (text.p[i] - '0');
		k += form[i + 1] != '0';
	}
	return true;
}

/* v: year, month, day, hour, minute, second.  A second of 60 is accepted at any time. */
static bool time_of(const int v[static 6], int64_t *s)
{
	static const int DAYS[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
	bool leap = (v[0] % 4 == 0 && v[0] % 100 != 0) || v[0] % 400 == 0;
	if (v[0] < 1 || v[1] < 1 || v[1] > 12 || v[2] < 1 ||
	    v[2] > DAYS[v[1] - 1] + (v[1] == 2 && leap) || v[3] > 23 || v[4] > 59 || v[5] > 60)
		return false;
	/* Years that begin in March have the leap day as their last one. */
	int y = v[1] > 2 ? v[0] : v[0] - 1;
	int m = v[1] > 2 ? v[1] - 3 : v[1] + 9;
	int64_t days = 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + v[2] - 719469;
	*s = ((days * 24 + v[3]) * 60 + v[4]) * 60 + v[5];
	return true;
}

bool rfc3339_read(struct span text, int64_t *ms)
{
	static const char FORM[] = "0000-00-00T00:00:00";
	int v[6] = { 0 };
	int64_t s;
	if (!time_numbers(text, FORM, v) || !time_of(v, &s) || text.p[text.n - 1] != 'Z')
		return false;
	struct span fraction = { text.p + sizeof(FORM) - 1, text.n - sizeof(FORM) };
	if (fraction.n && (fraction.p[0] != '.' || !span_digits(span_from(fraction, 1))))
		return false;
	int64_t part = 0;
	for (size_t i = 1; i <= 3; i++)
		part = part * 10 + (i < fraction.n ? fraction.p[i] - '0' : 0);
	*ms = s * 1000 + part;
	return true;
}

bool http_date_read(struct span text, int64_t *ms)
{
	static const char FORM[] = "???, 00 ??? 0000 00:00:00 GMT";
	static const char MONTHS[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
	int v[6] = { 0 };
	int64_t s;
	if (text.n != sizeof(FORM) - 1 || !time_numbers(text, FORM, v))
		return false;
	int month = 0;
	while (month < 12 && memcmp(text.p + 8, MONTHS + (size_t)3 * month, 3) != 0)
		month++;
	const int date[6] = { v[1], month + 1, v[0], v[2], v[3], v[4] };
	if (!time_of(date, &s))
		return false;
	*ms = s * 1000;
	return true;
}
