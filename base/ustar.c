#include "base/ustar.h"

const char USTAR_ZEROS[USTAR_END * USTAR_BLOCK];

/* Octal digits and NUL. */
static void ustar_number(char *at, size_t size, uint64_t v)
{
	for (at[--size] = '\0'; size > 0; v >>= 3)
		at[--size] = (char)('0' + (v & 7));
}

void ustar_finish(struct ustar_head *head, bool runs, int64_t size, int64_t time_s)
{
	unsigned sum = 0;
	memcpy(head->magic, "ustar\00000", sizeof(head->magic));
	ustar_number(head->mode, sizeof(head->mode), runs ? 0755 : 0644);
	ustar_number(head->user, sizeof(head->user), 0);
	ustar_number(head->group, sizeof(head->group), 0);
	ustar_number(head->size, sizeof(head->size), (uint64_t)size);
	ustar_number(head->time, sizeof(head->time), (uint64_t)time_s);
	memset(head->sum, ' ', sizeof(head->sum)); /* so it counts for itself */
	for (size_t i = 0; i < sizeof(*head); i++)
		sum += ((const unsigned char *)head)[i];
	ustar_number(head->sum, sizeof(head->sum) - 1, sum);
}

int64_t ustar_size(const struct ustar_head *head)
{
	int64_t size = 0;
	for (size_t i = 0; i + 1 < sizeof(head->size); i++)
		size = size << 3 | (head->size[i] & 7);
	return size;
}

enum ustar_part ustar_take(struct ustar_stream *s, struct span *bytes, struct span *part)
{
	if (s->have == s->need) { /* the reader has used them */
		s->have = 0;
		s->need = USTAR_BLOCK;
	}
	int64_t most = s->left ?: (int64_t)(s->padding ?: s->need - s->have);
	*part = span_to(*bytes, (int64_t)bytes->n < most ? bytes->n : (size_t)most);
	*bytes = span_from(*bytes, part->n);
	if (s->left) {
		s->left -= (int64_t)part->n;
		return USTAR_DATA;
	}
	if (s->padding) {
		s->padding -= part->n;
		return memcmp(part->p, USTAR_ZEROS, part->n) == 0 ? USTAR_NOTHING : USTAR_DIRTY;
	}
	memcpy(s->heads + s->have, part->p, part->n);
	s->have += part->n;
	if (s->have < s->need)
		return USTAR_NOTHING;
	if (s->zeros == USTAR_END || memcmp(s->heads, USTAR_ZEROS, USTAR_BLOCK) != 0)
		return USTAR_HEADS;
	s->zeros++;
	return USTAR_NOTHING;
}
