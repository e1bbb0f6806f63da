/* Edit distance with transpositions (optimal string alignment); see suggest.h. */
#include "schema/suggest.h"

enum { STEP = 2, CASE = 1, KEY_MAX = 64 };

static int lower(char c)
{
	return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
}

static unsigned replace_cost(char a, char b)
{
	return a == b ? 0 : lower(a) == lower(b) ? CASE : STEP;
}

static unsigned least(unsigned a, unsigned b, unsigned c)
{
	unsigned ab = a < b ? a : b;
	return ab < c ? ab : c;
}

/* Row i of the table from the two rows above it. */
static void next_row(struct span a, struct span b, size_t i, unsigned *const row[3])
{
	row[2][0] = (unsigned)(i * STEP);
	for (size_t j = 1; j <= b.n; j++) {
		char x = a.p[i - 1];
		char y = b.p[j - 1];
		row[2][j] = least(row[1][j] + STEP, row[2][j - 1] + STEP,
		                  row[1][j - 1] + replace_cost(x, y));
		if (i > 1 && j > 1 && x == b.p[j - 2] && y == a.p[i - 2] &&
		    row[0][j - 2] + STEP < row[2][j])
			row[2][j] = row[0][j - 2] + STEP;
	}
}

unsigned edit_distance(struct span a, struct span b, unsigned limit)
{
	unsigned rows[3][KEY_MAX + 1];
	size_t apart = a.n > b.n ? a.n - b.n : b.n - a.n;
	if (a.n > KEY_MAX || b.n > KEY_MAX || apart * STEP > limit)
		return limit + 1;
	for (size_t j = 0; j <= b.n; j++)
		rows[0][j] = (unsigned)(j * STEP);
	for (size_t i = 1; i <= a.n; i++) {
		unsigned *const row[3] = { rows[(i + 1) % 3], rows[(i + 2) % 3], rows[i % 3] };
		next_row(a, b, i, row);
	}
	unsigned d = rows[a.n % 3][b.n];
	return d <= limit ? d : limit + 1;
}

unsigned edit_limit(size_t n)
{
	if (n < 2 || n > KEY_MAX)
		return 0;
	return n < 4 ? STEP : n < 8 ? 2 * STEP : 3 * STEP;
}

void guess_try(struct guess *g, const char *candidate)
{
	unsigned limit = edit_limit(g->name.n);
	unsigned d = edit_distance(g->name, span_of(candidate), limit);
	if (g->name.n > 3 && strncmp(candidate, g->name.p, g->name.n) == 0)
		d = 0; /* begun, and not ended */
	if (d > limit || (g->best && d >= g->distance))
		return;
	g->best = candidate;
	g->distance = d;
}
