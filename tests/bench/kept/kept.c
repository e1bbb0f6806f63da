/*
 * What it takes to keep Frameworks: bytes of memory, and CPU time of the thread for each step.
 * Prints a table for docs/BENCH-LOG.md.
 *
 *	tests/bench/many.py 30000 | kept
 *
 * Objects come one a line.  Each is measured twice: as it comes, and as a new job, without its
 * status, which is the last member.
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/json/scan.h"
#include "jobs/cache/cache.h"
#include "k8s/watch/watch_internal.h"

enum { DEPTH = 64, LINE_MAX = 64 << 20 };

/* Sums over all objects. */
struct sums {
	struct cache *cache;
	size_t n, text, docs, packed, heap;
	double event_us, new_us, put_us, doc_us;
};

static double now_us(void)
{
	struct timespec t;
	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* cannot fail with this clock */
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* As the watch does it. */
static void add(struct sums *s, struct span object)
{
	STR_AUTO line = STR_INIT(LINE_MAX);
	str_puts(&line, "{\"type\":\"MODIFIED\",\"object\":");
	str_span(&line, object);
	str_char(&line, '}');
	size_t heap = mallinfo2().uordblks;
	double begin = now_us();
	if (!scan_valid(str_view(&line), DEPTH))
		abort();
	struct watch_event e = watch_event_read(str_view(&line));
	double read = now_us();
	struct job_entry *f = job_entry_new(e.object);
	double made = now_us();
	if (!f || f->broken)
		abort();
	s->n++;
	s->text += object.n;
	s->docs += f->doc_size + f->status_size;
	s->packed += f->doc.n + f->status.n;
	double before = now_us();
	cache_put(s->cache, f);
	s->put_us += now_us() - before;
	s->new_us += made - read;
	s->event_us += read - begin;
	s->heap += mallinfo2().uordblks - heap;
}

/* CPU time to note the job when it is submitted. */
static double note(struct cache *c, struct span object)
{
	static unsigned version;
	char text[16];
	const struct job_entry_made made = { .uid = "00000000-0000-4000-8000-000000000000",
		                             .version = text,
		                             .created = "2026-11-22T01:34:56Z",
		                             .tasks = 1,
		                             .roles = 1 };
	(void)snprintf(text, sizeof(text), "%u", ++version);
	double begin = now_us();
	struct job_entry *f = job_entry_new_made(object, &made);
	if (!f)
		abort();
	cache_note(c, f);
	return now_us() - begin;
}

static void inflate_all(struct sums *s)
{
	CACHE_VIEW_AUTO *v = cache_view(s->cache);
	struct view_walk walk = { .view = v };
	double begin = now_us();
	for (const struct job_entry *f; (f = view_next(&walk)) != NULL;) {
		ARENA_AUTO a = { 0 };
		struct span doc;
		if (!job_entry_doc(f, &a, &doc))
			abort();
	}
	s->doc_us = now_us() - begin;
}

struct row {
	const char *bytes, *us;
	size_t size[2]; /* as it comes, as a new job */
	double time[2];
};

static void print_table(const struct sums *old, const struct sums *new)
{
	const struct row rows[] = {
		{ "as it comes",
		  "to read the event",
		  { old->text, new->text },
		  { old->event_us, new->event_us } },
		{ "what is ever shown",
		  "to make what is kept",
		  { old->docs, new->docs },
		  { old->new_us, new->new_us } },
		{ "the same, as it is kept",
		  "to put it into the cache",
		  { old->packed, new->packed },
		  { old->put_us, new->put_us } },
		{ "all that is kept",
		  "to unpack what is shown",
		  { old->heap, new->heap },
		  { old->doc_us, new->doc_us } },
	};
	printf("| of one | bytes | new | | us | new |\n|---|--:|--:|---|--:|--:|\n");
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *r = &rows[i];
		printf("| %s | %zu | %zu | %s | %.1f | %.1f |\n", r->bytes, r->size[0] / old->n,
		       r->size[1] / new->n, r->us, r->time[0] / (double)old->n,
		       r->time[1] / (double)new->n);
	}
}

int main(void)
{
	static const char STATUS[] = ",\"status\":{";
	char *line = NULL;
	size_t room = 0;
	double note_us = 0;
	arena_keep_heap();
	struct sums old = { .cache = cache_new((size_t)4 << 30) };
	struct sums new = { .cache = cache_new((size_t)4 << 30) };
	struct cache *noted = cache_new((size_t)4 << 30);
	for (ssize_t n; (n = getline(&line, &room, stdin)) > 0;) {
		struct span object = { line, (size_t)n - (line[n - 1] == '\n') };
		const char *status = strstr(line, STATUS);
		add(&old, object);
		if (!status)
			abort();
		object.n = (size_t)(status - line) + 1;
		line[object.n - 1] = '}';
		add(&new, object);
		note_us += note(noted, object);
	}
	inflate_all(&old);
	inflate_all(&new);
	printf("%zu Frameworks are kept in %.1f MiB (%.1f by the cache's own count)\n\n", old.n,
	       (double)old.heap / (1 << 20), (double)cache_figures(old.cache).bytes / (1 << 20));
	print_table(&old, &new);
	printf("\nTo note a new job when it is submitted: %.1f us\n", note_us / (double)old.n);
	free(line);
	cache_free(old.cache);
	cache_free(new.cache);
	cache_free(noted);
	return 0;
}
