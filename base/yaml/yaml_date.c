/* Which plain scalars of YAML look like dates, as js-yaml 3.13 has it. */
#include "base/chars.h"
#include "base/yaml/yaml_plain.h"

/* Does t match? 0: a digit; 1: an optional digit; any other character: itself. */
static size_t match(struct span t, const char *pattern)
{
	size_t i = 0;
	for (; *pattern; pattern++) {
		bool digit = i < t.n && is_digit(t.p[i]);
		if (*pattern == '1')
			i += digit;
		else if (*pattern == '0' ? !digit : i >= t.n || t.p[i] != *pattern)
			return 0;
		else
			i++;
	}
	return i;
}

static size_t blanks_at(struct span t, size_t i)
{
	size_t from = i;
	while (i < t.n && (t.p[i] == ' ' || t.p[i] == '\t'))
		i++;
	return i - from;
}

static size_t digits_at(struct span t, size_t i)
{
	size_t from = i;
	while (i < t.n && is_digit(t.p[i]))
		i++;
	return i - from;
}

static struct span rest(struct span t, size_t i)
{
	return (struct span){ t.p + i, t.n - i };
}

/* `[ \t]*(Z|[-+][0-9][0-9]?(:[0-9][0-9])?)`, the whole text. */
static bool is_zone(struct span t)
{
	t = rest(t, blanks_at(t, 0));
	if (span_is(t, "Z"))
		return true;
	if (t.n == 0 || (t.p[0] != '-' && t.p[0] != '+'))
		return false;
	t = rest(t, 1);
	size_t n = match(t, "01");
	if (n == 0)
		return false;
	t = rest(t, n);
	return t.n == 0 || match(t, ":00") == t.n;
}

bool plain_is_date(struct span t)
{
	if (t.n == 10 && match(t, "0000-00-00") == 10)
		return true;
	size_t i = match(t, "0000-01-01");
	if (i == 0 || i == t.n)
		return false;
	size_t gap = t.p[i] == 'T' || t.p[i] == 't' ? 1 : blanks_at(t, i);
	if (gap == 0)
		return false;
	t = rest(t, i + gap);
	size_t time = match(t, "01:00:00");
	if (time == 0)
		return false;
	t = rest(t, time);
	if (t.n && t.p[0] == '.')
		t = rest(t, 1 + digits_at(t, 1));
	return t.n == 0 || is_zone(t);
}
