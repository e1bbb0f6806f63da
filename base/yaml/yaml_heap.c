/*
 * libyaml takes and gives back four pieces of memory for most scalars, a fifth of its time.
 * While a parser of ours is open, such pieces are kept for the next scalar.
 *
 * libyaml calls these functions through the dynamic linker, which finds ours first.  All that
 * they hand out is malloc's own memory, of which malloc knows the size: so it does not matter if
 * some build of libyaml calls its own ones, here and there or always.  Sanitizers are to see
 * every piece, and a static libyaml has these functions already.
 */
#include "base/yaml/yaml_input.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define SANITIZED
#endif

#if defined(__GLIBC__) && !defined(SANITIZED)

#include <malloc.h>
#include <stdlib.h>

enum { PIECE = 64, PIECE_MAX = 256, KEPT_MAX = 64 };

/* Of this thread. */
static _Thread_local struct {
	unsigned parsers; /* that are open */
	size_t n;
	void *v[KEPT_MAX];
} kept;

/* As in libyaml, of whose public header they are no part. */
void *yaml_malloc(size_t n);
void *yaml_realloc(void *p, size_t n);
void yaml_free(void *p);

void *yaml_malloc(size_t n)
{
	if (kept.parsers == 0 || n > PIECE)
		return malloc(n ? n : 1);
	return kept.n ? kept.v[--kept.n] : malloc(PIECE);
}

void *yaml_realloc(void *p, size_t n)
{
	if (kept.parsers && p && n <= PIECE_MAX && malloc_usable_size(p) >= n)
		return p;
	return realloc(p, n ? n : 1);
}

static bool keep(void *p)
{
	size_t size = kept.n < KEPT_MAX ? malloc_usable_size(p) : 0;
	if (size < PIECE || size > PIECE_MAX)
		return false;
	kept.v[kept.n++] = p;
	return true;
}

void yaml_free(void *p)
{
	if (kept.parsers == 0 || !keep(p))
		free(p);
}

void yaml_heap_open(void)
{
	kept.parsers++;
}

void yaml_heap_close(void)
{
	if (--kept.parsers)
		return;
	while (kept.n)
		free(kept.v[--kept.n]);
}

#else

void yaml_heap_open(void)
{
}

void yaml_heap_close(void)
{
}

#endif
