/* The end of the output, compared with a model that keeps all output. */
#include "runtime-assets/run/run_internal.h"

#include "tests/unit/base/cmocka.h"

enum { WRITTEN_MAX = 4 << 20 };

struct model {
	size_t n;
	char text[WRITTEN_MAX];
	unsigned char stream[WRITTEN_MAX];
};

static void put(struct model *m, struct tail *t, enum tail_stream stream, size_t n, uint32_t *seed)
{
	static const char LETTERS[] = "abcdefghijklmno\n";
	char piece[8192] = { 0 };
	for (size_t i = 0; i < n; i++) {
		*seed = *seed * 1103515245 + 12345;
		piece[i] = LETTERS[*seed >> 16 & 15];
	}
	memcpy(m->text + m->n, piece, n);
	memset(m->stream + m->n, (int)stream, n);
	m->n += n;
	tail_add(t, stream, (struct span){ piece, n });
}

/* The frames must be the end of the written output. */
static size_t check_frames(const struct model *m, const struct tail *t)
{
	STR_AUTO out = STR_INIT(TAIL_TEXT_MAX);
	uint64_t dropped = tail_frames(t, &out);
	const unsigned char *p = (const unsigned char *)out.p;
	size_t at = dropped;
	size_t frames = 0;
	assert_false(out.full);
	for (size_t i = 0; i < out.n; frames++) {
		size_t n = (size_t)p[i + 4] << 24 | (size_t)p[i + 5] << 16 | (size_t)p[i + 6] << 8 |
		           p[i + 7];
		assert_true(n > 0 && i + TAIL_HEADER + n <= out.n && at + n <= m->n);
		assert_memory_equal(p + i + TAIL_HEADER, m->text + at, n);
		for (size_t k = 0; k < n; k++)
			assert_int_equal(m->stream[at + k], p[i]);
		i += TAIL_HEADER + n;
		at += n;
	}
	assert_int_equal(at, m->n);
	assert_true(frames <= TAIL_FRAMES);
	return m->n - dropped;
}

static void check_random(uint32_t seed, size_t largest)
{
	FREE_AUTO struct model *m = xcalloc(1, sizeof(*m));
	FREE_AUTO struct tail *t = tail_new();
	while (m->n + largest < WRITTEN_MAX / 2) {
		seed = seed * 1103515245 + 12345;
		enum tail_stream stream = seed >> 16 & 1 ? TAIL_STDOUT : TAIL_STDERR;
		put(m, t, stream, (seed >> 17) % (largest + 1), &seed);
		if (seed >> 20 == 7)
			(void)check_frames(m, t);
	}
	size_t kept = check_frames(m, t);
	assert_true(kept <= TAIL_BYTES);
	if (largest >= 64) /* the number of frames does not bound it */
		assert_true(kept > TAIL_BYTES - 1024);
}

TEST(test_tail_keeps_the_end_of_random_output)
{
	check_random(1, 1);
	check_random(2, 7);
	check_random(3, 100);
	check_random(4, 8192);
}

TEST(test_tail_keeps_the_end_of_a_large_write)
{
	static char text[3 * TAIL_BYTES];
	FREE_AUTO struct tail *t = tail_new();
	STR_AUTO out = STR_INIT(TAIL_TEXT_MAX);
	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 10] = '\n';
	tail_add(t, TAIL_STDERR, SPAN("before"));
	tail_add(t, TAIL_STDOUT, (struct span){ text, sizeof(text) });
	assert_int_equal(tail_frames(t, &out), 6 + sizeof(text) - 9);
	assert_int_equal(out.n, TAIL_HEADER + 9);
}

TEST(test_tail_of_no_output_is_empty)
{
	FREE_AUTO struct tail *t = tail_new();
	STR_AUTO out = STR_INIT(TAIL_TEXT_MAX);
	tail_add(t, TAIL_STDOUT, SPAN(""));
	assert_int_equal(tail_frames(t, &out), 0);
	assert_int_equal(out.n, 0);
}
