/* What libyaml's parser is given, and that nothing of it is left in memory. */
#include "base/yaml/yaml_input.h"

#include <stdlib.h>

bool text_is_ascii(struct span t)
{
	size_t i = 0;
	uint64_t all = 0;
	for (; i + 8 <= t.n; i += 8) {
		uint64_t word = 0;
		memcpy(&word, t.p + i, 8);
		all |= word;
	}
	for (; i < t.n; i++)
		all |= (unsigned char)t.p[i];
	return (all & 0x8080808080808080u) == 0;
}

struct span text_without_breaks(struct span text, struct arena *a)
{
	static const struct {
		const char *from, *to;
	} BREAKS[] = {
		{ "\xc2\x85", "\xc2\xa0" },
		{ "\xe2\x80\xa8", "\xe2\x80\xa7" },
		{ "\xe2\x80\xa9", "\xe2\x80\xa7" },
	};
	char *copy = NULL;
	for (size_t i = 0; i < sizeof(BREAKS) / sizeof(BREAKS[0]); i++) {
		size_t n = strlen(BREAKS[i].from);
		const char *at = text.p;
		const char *end = text.p + text.n;
		while ((at = memmem(at, (size_t)(end - at), BREAKS[i].from, n))) {
			if (copy == NULL)
				copy = arena_dup(a, text);
			memcpy(copy + (at - text.p), BREAKS[i].to, n);
			at += n;
		}
	}
	return copy ? (struct span){ copy, text.n } : text;
}

void parser_open(yaml_parser_t *p, struct span text)
{
	yaml_heap_open();
	if (!yaml_parser_initialize(p))
		abort();
	yaml_parser_set_encoding(p, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(p, (const unsigned char *)text.p, text.n);
}

void parser_close(yaml_parser_t *p)
{
	yaml_parser_delete(p);
	yaml_heap_close();
}

/* As explicit_bzero; most scalars are so short that calling it costs more. */
static void wipe_scalar(unsigned char *p, size_t n)
{
	if (n > 16) {
		explicit_bzero(p, n);
		return;
	}
	if (n >= 8) {
		memset(p, 0, 8);
		memset(p + n - 8, 0, 8);
	} else {
		for (size_t i = 0; i < n; i++)
			p[i] = 0;
	}
	__asm__ volatile("" : : "r"(p) : "memory"); /* somebody may look */
}

void event_wipe(const yaml_event_t *ev)
{
	if (ev->type == YAML_SCALAR_EVENT)
		wipe_scalar(ev->data.scalar.value, ev->data.scalar.length);
}

void parser_wipe(yaml_parser_t *p, size_t n)
{
	size_t raw = (size_t)(p->raw_buffer.end - p->raw_buffer.start);
	size_t buffer = (size_t)(p->buffer.end - p->buffer.start);
	n++; /* a final NUL */
	explicit_bzero(p->raw_buffer.start, raw < n ? raw : n);
	explicit_bzero(p->buffer.start, buffer < n ? buffer : n);
	for (yaml_token_t *t = p->tokens.head; t != p->tokens.tail; t++) {
		if (t->type == YAML_SCALAR_TOKEN)
			explicit_bzero(t->data.scalar.value, t->data.scalar.length);
	}
}
