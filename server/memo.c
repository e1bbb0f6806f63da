/* A hash table with chains, and a list of all entries by age. */
#include "server/memo.h"

#include <stdlib.h>

#include "base/crypto/hash.h"

struct entry {
	struct entry *next;          /* in its chain */
	struct entry *newer, *older; /* by age */
	uint64_t hash;
	struct memo_terms terms;
	void *value;
	size_t n;
	char name[];
};

struct memo {
	void (*drop)(void *value);
	struct memo_limits limits;
	size_t n, bytes, mask;
	struct hash_key key;
	struct entry *oldest, *newest;
	struct entry *chains[];
};

struct memo *memo_new(struct memo_limits limits, void (*drop)(void *value))
{
	size_t chains = 16;
	while (chains < limits.n)
		chains *= 2;
	struct memo *m = xcalloc(1, sizeof(*m) + chains * sizeof(struct entry *));
	m->drop = drop;
	m->limits = limits;
	m->mask = chains - 1;
	m->key = hash_key_new();
	return m;
}

static struct entry **find(struct memo *m, struct span name)
{
	uint64_t hash = hash_bytes(&m->key, name);
	struct entry **at = &m->chains[hash & m->mask];
	while (*at &&
	       !((*at)->hash == hash && span_eq((struct span){ (*at)->name, (*at)->n }, name)))
		at = &(*at)->next;
	return at;
}

static void unlink_age(struct memo *m, struct entry *e)
{
	*(e->older ? &e->older->newer : &m->oldest) = e->newer;
	*(e->newer ? &e->newer->older : &m->newest) = e->older;
}

static void take_out(struct memo *m, struct entry **at)
{
	struct entry *e = *at;
	*at = e->next;
	unlink_age(m, e);
	m->n--;
	m->bytes -= e->terms.bytes;
	m->drop(e->value);
	free(e);
}

static struct entry **place_of(struct memo *m, const struct entry *e)
{
	struct entry **at = &m->chains[e->hash & m->mask];
	while (*at != e)
		at = &(*at)->next;
	return at;
}

static void take_out_oldest(struct memo *m)
{
	take_out(m, place_of(m, m->oldest));
}

void *memo_get(struct memo *m, struct span name, int64_t now_ms, int64_t *until_ms)
{
	struct entry **at = find(m, name);
	if (!*at)
		return NULL;
	if ((*at)->terms.until_ms <= now_ms) {
		take_out(m, at);
		return NULL;
	}
	if (until_ms)
		*until_ms = (*at)->terms.until_ms;
	return (*at)->value;
}

static bool fits(const struct memo *m, size_t bytes)
{
	return m->n < m->limits.n && m->bytes + bytes <= m->limits.bytes;
}

void memo_put(struct memo *m, struct span name, void *value, struct memo_terms terms)
{
	struct entry **at = find(m, name);
	if (*at)
		take_out(m, at);
	while (!fits(m, terms.bytes) && m->oldest)
		take_out_oldest(m);
	if (!fits(m, terms.bytes)) {
		m->drop(value);
		return;
	}
	struct entry *e = xcalloc(1, sizeof(*e) + name.n + 1);
	e->hash = hash_bytes(&m->key, name);
	e->terms = terms;
	e->value = value;
	e->n = name.n;
	memcpy(e->name, name.p, name.n);
	e->next = m->chains[e->hash & m->mask];
	m->chains[e->hash & m->mask] = e;
	e->older = m->newest;
	*(m->newest ? &m->newest->newer : &m->oldest) = e;
	m->newest = e;
	m->n++;
	m->bytes += terms.bytes;
}

void memo_forget(struct memo *m, bool (*unwanted)(const void *value, const void *arg),
                 const void *arg)
{
	struct entry *newer;
	for (struct entry *e = m->oldest; e; e = newer) {
		newer = e->newer;
		if (unwanted(e->value, arg))
			take_out(m, place_of(m, e));
	}
}

void memo_clear(struct memo *m)
{
	while (m->oldest)
		take_out_oldest(m);
}

size_t memo_count(const struct memo *m)
{
	return m->n;
}

void memo_free(struct memo *m)
{
	if (!m)
		return;
	memo_clear(m);
	free(m);
}
