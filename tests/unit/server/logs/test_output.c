/* The kept output of tasks: frames, the ConfigMap, the index of a job and the order of removal. */

#include "tests/unit/base/cmocka.h"

#include "base/enc.h"
#include "base/gzip.h"
#include "server/logs/logs_internal.h"

#define FRAMEWORK "0123456789abcdef0123456789abcdef"
static const struct output_id ID = {
	FRAMEWORK, "uid-1", { "worker", 6 }, 2, 1, 3, "pod-uid",
};

static void put_frame(struct str *out, char stream, struct span bytes)
{
	char head[8] = { stream,       0, 0, 0, 0, (char)(bytes.n >> 16), (char)(bytes.n >> 8),
		         (char)bytes.n };
	str_put(out, head, sizeof(head));
	str_span(out, bytes);
}

static struct span output_pack(struct span frames, struct arena *a)
{
	struct span packed;
	assert_true(gzip_pack(frames, OUTPUT_TEXT_MAX + 4096, a, &packed));
	return packed;
}

/* ---- frames ---- */

static bool are_frames(struct span text)
{
	struct span frames;
	return output_unpack(output_pack(text, &unit.a), &unit.a, &frames);
}

static void assert_streams(struct span frames, unsigned streams, const char *want)
{
	STR_AUTO out = STR_INIT(OUTPUT_CONTENT_MAX);
	str_puts(&out, "");
	output_put(&out, frames, streams);
	assert_string_equal(str_c(&out), want);
}

TEST(test_frames_give_the_chosen_streams)
{
	STR_AUTO body = STR_INIT(OUTPUT_TEXT_MAX);
	put_frame(&body, 1, SPAN("out one\n"));
	put_frame(&body, 2, SPAN("err\n"));
	put_frame(&body, 1, SPAN("out two\n"));
	struct span frames = str_view(&body);
	assert_true(are_frames(frames));
	assert_int_equal(output_content(frames), 20);
	assert_streams(frames, OUTPUT_BOTH, "out one\nerr\nout two\n");
	assert_streams(frames, OUTPUT_STDOUT, "out one\nout two\n");
	assert_streams(frames, OUTPUT_STDERR, "err\n");
	struct span last = output_last(frames, 10, &unit.a);
	assert_true(are_frames(last));
	assert_streams(last, OUTPUT_BOTH, "r\nout two\n");
	assert_streams(last, OUTPUT_STDERR, "r\n");
	assert_int_equal(output_content(output_last(frames, 0, &unit.a)), 0);
	assert_ptr_equal(output_last(frames, 20, &unit.a).p, frames.p);
}

TEST(test_frames_that_are_malformed_are_refused)
{
	static const struct span BAD[] = {
		{ "\1", 1 },
		{ "\1\0\0\0\0\0\0", 7 },
		{ "\1\0\0\0\0\0\0\2x", 9 },
		{ "\3\0\0\0\0\0\0\1x", 9 },
		{ "\0\0\0\0\0\0\0\1x", 9 },
		{ "\1\1\0\0\0\0\0\1x", 9 },
		{ "\1\0\0\1\0\0\0\1x", 9 },
		{ "\1\0\0\0\xff\xff\xff\xffx", 9 },
		{ "\1\0\0\0\0\0\0\1xx", 10 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(BAD); i++)
		assert_false(are_frames(BAD[i]));
	assert_true(are_frames(SPAN("")));
}

TEST(test_frames_beyond_the_number_are_refused)
{
	STR_AUTO body = STR_INIT((size_t)2 * OUTPUT_TEXT_MAX);
	for (int i = 0; i < OUTPUT_FRAMES_MAX; i++)
		put_frame(&body, 1, SPAN(""));
	assert_true(are_frames(str_view(&body)));
	put_frame(&body, 1, SPAN(""));
	assert_false(are_frames(str_view(&body)));
}

TEST(test_frames_beyond_the_size_are_refused)
{
	static char kilobytes[512 << 10];
	STR_AUTO body = STR_INIT((size_t)2 * OUTPUT_TEXT_MAX);
	put_frame(&body, 1, (struct span){ kilobytes, sizeof(kilobytes) });
	put_frame(&body, 2, (struct span){ kilobytes, sizeof(kilobytes) });
	assert_true(are_frames(str_view(&body)));
	put_frame(&body, 1, SPAN("x"));
	assert_false(are_frames(str_view(&body)));
}

/* ---- cutting ---- */

TEST(test_cut_output_keeps_its_end)
{
	static char noise[60000];
	STR_AUTO body = STR_INIT(OUTPUT_TEXT_MAX);
	uint32_t x = 1;
	for (size_t i = 0; i < sizeof(noise); i++)
		noise[i] = (char)((x = x * 1664525 + 1013904223) >> 24);
	put_frame(&body, 1, (struct span){ noise, sizeof(noise) });
	struct span packed = output_pack(str_view(&body), &unit.a);
	int64_t dropped = 5;
	struct span left;
	/* It is cut twice, as when another server uses the room meanwhile. */
	for (size_t room = 40000; room >= 20000; room /= 2) {
		assert_true(output_cut(&packed, room, &unit.a, &dropped));
		assert_true(packed.n <= room && packed.n > room / 2);
		assert_true(output_unpack(packed, &unit.a, &left));
		assert_int_equal(dropped, 5 + sizeof(noise) - output_content(left));
	}
	int64_t before = dropped;
	assert_true(output_cut(&packed, packed.n, &unit.a, &dropped));
	assert_int_equal(dropped, before);
}

/* Others can write the index, so the room may have any size. */
TEST(test_cut_output_fits_into_any_room)
{
	static char zeros[400000];
	STR_AUTO body = STR_INIT(OUTPUT_TEXT_MAX);
	for (int i = 0; i < 3000; i++)
		put_frame(&body, (char)(1 + i % 2), SPAN("x\n"));
	put_frame(&body, 1, (struct span){ zeros, sizeof(zeros) });
	for (int i = 0; i < 3000; i++)
		put_frame(&body, (char)(1 + i % 2), (struct span){ (const char *)&i, sizeof(i) });
	const struct span all = output_pack(str_view(&body), &unit.a);
	for (size_t room = 0; room < 2000; room += room < 40 ? 1 : 500) {
		struct span packed = all;
		int64_t dropped = 0;
		bool cut = output_cut(&packed, room, &unit.a, &dropped);
		assert_true(cut ? packed.n <= room && dropped > 0 : packed.n == all.n && !dropped);
		assert_true(cut || room < 1024);
	}
}

/* ---- the ConfigMap ---- */

static void written(struct str *out, struct span frames, struct arena *a)
{
	struct output_facts facts = { .exit_code = -9, .dropped = 77 };
	memset(facts.sha, 'a', OUTPUT_SHA);
	output_write(out, &ID, &facts, output_pack(frames, a), a);
}

TEST(test_written_output_is_read_back)
{
	STR_AUTO body = STR_INIT(OUTPUT_TEXT_MAX);
	STR_AUTO object = STR_INIT(1 << 20);
	struct output_facts facts;
	struct span frames;
	assert_string_equal(output_name(&unit.a, &ID), FRAMEWORK "-output-worker-2-1-3");
	put_frame(&body, 1, SPAN("Hello\n"));
	written(&object, str_view(&body), &unit.a);
	assert_true(output_read(str_view(&object), &ID, &unit.a, &facts, &frames));
	assert_int_equal(facts.exit_code, -9);
	assert_int_equal(facts.dropped, 77);
	assert_int_equal(strlen(facts.sha), OUTPUT_SHA);
	assert_streams(frames, OUTPUT_BOTH, "Hello\n");
	struct output_id any = ID;
	any.pod_uid = "";
	assert_true(output_read(str_view(&object), &any, &unit.a, &facts, &frames));
}

TEST(test_empty_output_is_read_back)
{
	STR_AUTO object = STR_INIT(1 << 20);
	struct output_facts facts;
	struct span frames = SPAN("x");
	written(&object, SPAN(""), &unit.a);
	assert_true(output_read(str_view(&object), &ID, &unit.a, &facts, &frames));
	assert_int_equal(frames.n, 0);
}

TEST(test_output_of_another_task_is_not_read)
{
	STR_AUTO object = STR_INIT(1 << 20);
	struct output_facts facts;
	struct span frames;
	struct output_id other = ID;
	written(&object, SPAN(""), &unit.a);
	other.framework_uid = "uid-2";
	assert_false(output_read(str_view(&object), &other, &unit.a, &facts, &frames));
	other = ID;
	other.pod_uid = "pod-uid-2";
	assert_false(output_read(str_view(&object), &other, &unit.a, &facts, &frames));
	for (size_t n = 0; n < object.n; n++)
		assert_false(
		    output_read((struct span){ object.p, n }, &ID, &unit.a, &facts, &frames));
}

/* ---- the index ---- */

static struct output_entry entry(const char *role, int64_t attempt, int64_t retry, int64_t bytes,
                                 bool failed)
{
	return (struct output_entry){ .role = span_of(role),
		                      .attempt = attempt,
		                      .retry = retry,
		                      .bytes = bytes,
		                      .failed = failed };
}

static struct output_index none(struct arena *a)
{
	struct output_index x;
	assert_true(output_index_read(SPAN(""), "uid-1", a, &x));
	assert_int_equal(x.n, 0);
	return x;
}

static void index_add(struct output_index *x, const struct output_entry *e)
{
	x->v[x->n++] = *e;
}

TEST(test_index_is_read_back)
{
	STR_AUTO lines = STR_INIT(4096);
	STR_AUTO object = STR_INIT(4096);
	struct output_index x = none(&unit.a);
	struct output_index again;
	struct output_entry e[] = { entry("a", 0, 0, 100, false), entry("b", 1, 2, 7, true) };
	index_add(&x, &e[0]);
	index_add(&x, &e[1]);
	output_index_lines(&lines, &x);
	assert_string_equal(str_c(&lines), "a 0 0 0 100 succeeded\nb 0 1 2 7 failed\n");
	output_index_write(&object, &ID, SPAN(""), str_view(&lines), &unit.a);
	assert_true(output_index_read(str_view(&object), "uid-1", &unit.a, &again));
	assert_int_equal(again.n, 2);
	assert_ptr_equal(output_index_find(&again, &e[0]), &again.v[0]);
	assert_ptr_equal(output_index_find(&again, &e[1]), &again.v[1]);
	struct output_entry other = entry("a", 0, 1, 0, false);
	assert_null(output_index_find(&again, &other));
	assert_false(output_index_read(str_view(&object), "uid-2", &unit.a, &again));
}

TEST(test_index_ignores_malformed_lines)
{
	STR_AUTO object = STR_INIT(4096);
	struct output_index x;
	output_index_write(&object, &ID, SPAN(""),
	                   SPAN("\n\na 0 0 0 1 succeeded\na 0 0 0 1\na -1 0 0 1 failed\n"
	                        "a 0 0 0 99999999999 failed\nb 0 0 0 1 perhaps\n 0 0 0 0 failed\n"
	                        "c 0 0 0 5 failed"),
	                   &unit.a);
	assert_true(output_index_read(str_view(&object), "uid-1", &unit.a, &x));
	assert_int_equal(x.n, 2);
	assert_int_equal(x.v[1].bytes, 5);
}

/* Returns the displaced outputs as letters of roles. */
static const char *displaced(const struct output_index *x, struct arena *a)
{
	STR_AUTO out = STR_INIT(256);
	str_puts(&out, "");
	for (size_t i = 0; i < x->n; i++)
		if (x->v[i].displaced)
			str_span(&out, x->v[i].role);
	return arena_dup(a, str_view(&out));
}

/* There are, of 1000 bytes each: a failed in attempt 0; b, c succeeded, d failed in 1. */
static const struct {
	const char *what;
	struct output_entry e;
	int64_t budget, room;
	const char *displaced;
} ROOM[] = {
	{ "room for all", { { "e", 1 }, 0, 1, 0, 2000, false, false }, 6000, 2000, "" },
	{ "an earlier attempt goes", { { "e", 1 }, 0, 1, 0, 2000, false, false }, 5000, 2000, "a" },
	{ "one that succeeded displaces no other",
	  { { "e", 1 }, 0, 1, 0, 2000, false, false },
	  4500,
	  1500,
	  "a" },
	{ "no more than is needed", { { "e", 1 }, 0, 1, 0, 2000, true, false }, 4500, 2000, "ab" },
	{ "one that failed displaces those that succeeded",
	  { { "e", 1 }, 0, 1, 0, 2000, true, false },
	  3500,
	  2000,
	  "abc" },
	{ "never one that failed", { { "e", 1 }, 0, 1, 0, 3000, true, false }, 3500, 2500, "abc" },
	{ "its own earlier attempt",
	  { { "d", 1 }, 0, 1, 1, 1000, false, false },
	  3000,
	  1000,
	  "ad" },
	{ "all of the attempts before",
	  { { "e", 1 }, 0, 2, 0, 2000, false, false },
	  3000,
	  2000,
	  "abc" },
	{ "the least", { { "e", 1 }, 0, 1, 0, 2000, false, false }, 4024, 1024, "a" },
	{ "less is none", { { "e", 1 }, 0, 1, 0, 2000, false, false }, 4023, 0, "" },
};

TEST(test_room_is_made_by_removing_other_outputs)
{
	for (size_t i = 0; i < ARRAY_SIZE(ROOM); i++) {
		struct output_index x = none(&unit.a);
		const struct output_entry there[] = { entry("a", 0, 0, 1000, true),
			                              entry("b", 1, 0, 1000, false),
			                              entry("c", 1, 0, 1000, false),
			                              entry("d", 1, 0, 1000, true) };
		for (size_t n = 0; n < 4; n++)
			index_add(&x, &there[n]);
		int64_t budget = ROOM[i].budget;
		assert_int_equal(output_index_room(&x, &ROOM[i].e, budget), ROOM[i].room);
		assert_string_equal(displaced(&x, &unit.a), ROOM[i].displaced);
	}
}

TEST(test_room_is_limited_by_the_number_of_outputs)
{
	struct output_index x = none(&unit.a);
	for (int i = 0; i < OUTPUTS_MAX; i++) {
		struct output_entry e = entry("a", 0, 0, 1, false);
		e.index = i;
		index_add(&x, &e);
	}
	struct output_entry succeeded = entry("b", 0, 0, 1, false);
	struct output_entry failed = entry("b", 0, 0, 1, true);
	assert_int_equal(output_index_room(&x, &succeeded, 1 << 20), 0);
	assert_string_equal(displaced(&x, &unit.a), "");
	assert_int_equal(output_index_room(&x, &failed, 1 << 20), 1);
	assert_string_equal(displaced(&x, &unit.a), "a");
}

TEST(test_share_of_a_task_depends_on_the_number_of_tasks)
{
	assert_int_equal(output_share(true, 20000, 4 << 20), 512 << 10);
	assert_int_equal(output_share(false, 1, 4 << 20), 512 << 10);
	assert_int_equal(output_share(false, 8, 4 << 20), 512 << 10);
	assert_int_equal(output_share(false, 128, 4 << 20), 32768);
	assert_int_equal(output_share(false, 20000, 4 << 20), 4194);
	assert_int_equal(output_share(false, 0, 4 << 20), 512 << 10);
}
