/* Frames of a session: whole, in pieces, and malformed. */
#include "base/pod/session.h"

#include <stdio.h>

#include "tests/unit/base/cmocka.h"

struct found {
	char text[4096];
	size_t n;
};

static void note(struct found *f, enum session_got got, enum session_channel channel,
                 struct span part)
{
	static const char KINDS[] = "MPWEB";
	f->n += (size_t)snprintf(
	    f->text + f->n, sizeof(f->text) - f->n, "%c%d:%.*s ", KINDS[got], (int)channel,
	    got == SESSION_EMPTY || got == SESSION_BAD ? 0 : (int)part.n, part.p);
}

/* Reads the bytes in pieces of this size; of equal parts in a row, one is noted. */
static void read_all(struct found *f, struct span bytes, size_t piece)
{
	struct session_reader r = { .have = 0 };
	for (; bytes.n > 0; bytes = span_from(bytes, piece < bytes.n ? piece : bytes.n)) {
		struct span one = span_to(bytes, piece < bytes.n ? piece : bytes.n);
		for (;;) {
			enum session_channel channel = SESSION_IN;
			struct span part = { "", 0 };
			enum session_got got = session_read(&r, &one, &channel, &part);
			if (got == SESSION_MORE)
				break;
			note(f, got, channel, part);
			if (got == SESSION_BAD)
				return;
		}
	}
}

TEST(test_session_frames_are_read_in_pieces_of_any_length)
{
	STR_AUTO out = STR_INIT(1000);
	session_put(&out, SESSION_IN, SPAN("a"));
	session_put(&out, SESSION_OUT, SPAN(""));
	session_put(&out, SESSION_SIZE, SPAN("24 80"));
	session_put(&out, SESSION_CLOSE, SPAN("x"));
	session_put(&out, SESSION_STATUS, SPAN("125 no such"));
	for (size_t piece = 1; piece <= out.n; piece++) {
		struct found f = { .n = 0 };
		read_all(&f, str_view(&out), piece);
		assert_string_equal(f.text, "P0:a E1: W4:24 80 W255:x W3:125 no such ");
	}
}

TEST(test_session_heads_have_three_bytes_of_length)
{
	char head[SESSION_HEAD];
	session_head(head, SESSION_ERR, 0x123456);
	assert_memory_equal(head, "\x02\x12\x34\x56", SESSION_HEAD);
}

TEST(test_session_malformed_frames_are_told)
{
	static const struct span BAD[] = { SPAN("\x05\0\0\0"), SPAN("\xfe\0\0\1x"),
		                           SPAN("\x04\0\x10\1"), SPAN("\x03\xff\0\0"),
		                           SPAN("\xff\1\0\0") };
	for (size_t i = 0; i < ARRAY_SIZE(BAD); i++) {
		struct found f = { .n = 0 };
		read_all(&f, BAD[i], 1);
		assert_int_equal(*f.text, 'B');
	}
	struct found f = { .n = 0 };
	read_all(&f, SPAN("\x04\0\x10\0"), 4); /* as long as may be */
	assert_int_equal(f.n, 0);
}

TEST(test_session_sizes_have_bounds)
{
	static const char *const BAD[] = {
		"", "1", "0 1", "1 0", "1 10001", "-1 5", "1 2 3", " 1 2"
	};
	unsigned short rows;
	unsigned short columns;
	assert_true(session_size(SPAN("10000 1"), &rows, &columns));
	assert_int_equal(rows, 10000);
	assert_int_equal(columns, 1);
	for (size_t i = 0; i < ARRAY_SIZE(BAD); i++)
		assert_false(session_size(span_of(BAD[i]), &rows, &columns));
}
