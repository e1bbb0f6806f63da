/*
 * What it takes to keep Frameworks: bytes of memory, and CPU time of the thread for each step.
 * Prints a table for docs/BENCH.md.
 *
 *	tests/bench/many.py 30000 | kept
 *
 * Objects come one a line.
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/json/scan.h"
#include "k8s/cache/cache.h"

enum { DEPTH = 64 };

/* Sums over all objects. */
struct sums {
	size_t n, text, docs, packed;
	double valid_us, new_us, put_us, doc_us;
};

static double now_us(void)
{
	struct timespec t;
	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* cannot fail with this clock */
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void add(struct cache *c, struct span object, struct sums *s)
{
	double begin = now_us();
	if (!scan_valid(object, DEPTH))
		abort();
	double valid = now_us();
	struct job_entry *f = job_entry_new(object);
	double made = now_us();
	if (!f || f->broken)
		abort();
	s->n++;
	s->text += object.n;
	s->docs += f->doc_size;
	s->packed += f->doc.n;
	double before = now_us();
	cache_put(c, f);
	s->put_us += now_us() - before;
	s->new_us += made - valid;
	s->valid_us += valid - begin;
}

static double inflate_all(struct cache *c)
{
	CACHE_VIEW_AUTO *v = cache_view(c);
	struct view_walk walk = { .view = v };
	double begin = now_us();
	for (const struct job_entry *f; (f = view_next(&walk)) != NULL;) {
		ARENA_AUTO a = { 0 };
		struct span doc;
		if (!job_entry_doc(f, &a, &doc))
			abort();
	}
	return now_us() - begin;
}

int main(void)
{
	char *line = NULL;
	size_t room = 0;
	struct sums s = { .n = 0 };
	arena_keep_heap();
	struct cache *c = cache_new((size_t)4 << 30);
	cache_list_begin(c);
	size_t heap = mallinfo2().uordblks;
	for (ssize_t n; (n = getline(&line, &room, stdin)) > 0;)
		add(c, (struct span){ line, (size_t)n }, &s);
	cache_list_end(c, INT64_MAX);
	heap = mallinfo2().uordblks - heap - room;
	s.doc_us = inflate_all(c);
	double n = (double)s.n;
	printf("%zu Frameworks are kept in %.1f MiB (%.1f by the cache's own count)\n\n", s.n,
	       (double)heap / (1 << 20), (double)cache_figures(c).bytes / (1 << 20));
	printf("| of one | bytes | | us |\n|---|--:|---|--:|\n");
	printf("| as it comes | %.0f | to see that it is JSON | %.1f |\n", (double)s.text / n,
	       s.valid_us / n);
	printf("| what is ever shown | %.0f | to make what is kept | %.1f |\n", (double)s.docs / n,
	       s.new_us / n);
	printf("| the same, packed | %.0f | to put it into the cache | %.1f |\n",
	       (double)s.packed / n, s.put_us / n);
	printf("| all that is kept | %.0f | to unpack what is shown | %.1f |\n", (double)heap / n,
	       s.doc_us / n);
	free(line);
	cache_free(c);
	return 0;
}
