/* Views of Frameworks. */
#include "tests/unit/base/cmocka.h"

#include <zlib.h>

#include "base/enc.h"
#include "base/gzip.h"
#include "jobs/framework/view.h"

#define TASKS                                                                                      \
	"[{\"name\":\"a\",\"taskStatuses\":[7,{\"index\":1,\"state\":\"Completed\","               \
	"\"instanceUID\":"                                                                         \
	"\"i\",\"attemptStatus\":{\"id\":2,\"podUID\":\"\\u0070\",\"podIP\":\"\",\"podNodeName\":" \
	"null,\"podPorts\":\"70\",\"podGpus\":\"0,1\",\"completionStatus\":{\"code\":-1}},"        \
	"\"retryPolicyStatus\":"                                                                   \
	"{\"totalRetriedCount\":3}}]}]"

static struct span status_of(struct arena *a, const char *attempt)
{
	return span_of(
	    arena_printf(a, "{\"state\":\"AttemptRunning\",\"attemptStatus\":%s}", attempt));
}

static void check_task(const struct fw_view *t)
{
	assert_int_equal(t->index, 1);
	assert_int_equal(t->attempt, 2);
	assert_int_equal(t->retried, 3);
	assert_int_equal(t->accountable, -1);
	assert_true(span_is(t->instance, "i"));
	assert_true(span_is(t->uid, "p"));
	assert_true(t->pod_ip.p && t->pod_ip.n == 0);
	assert_null(t->node.p);
	assert_true(span_is(t->pod_ports, "70"));
	assert_true(span_is(t->pod_gpus, "0,1"));
	assert_true(span_is(t->outcome, "{\"code\":-1}"));
	assert_false(t->odd);
}

/* Tasks are found by index, and one after another. */
TEST(test_view_finds_tasks_and_walks_through_them)
{
	struct fw_view f;
	struct fw_view t;
	fw_view_read(status_of(&unit.a,
	                       "{\"id\":1,\"instanceUID\":\"u\",\"taskRoleStatuses\":" TASKS
	                       ",\"startTime\":\"1970-01-01T00:00:01Z\"}"),
	             &unit.a, &f);
	assert_false(f.odd);
	assert_true(span_is(f.state, "AttemptRunning"));
	assert_true(span_is(f.instance, "u"));
	assert_int_equal(f.attempt, 1);
	assert_int_equal(f.attempt_start_ms, 1000);
	assert_int_equal(f.start_ms, -1);
	assert_false(fw_view_task(&f, SPAN("a"), 0, &unit.a, &t));
	assert_false(fw_view_task(&f, SPAN("b"), 1, &unit.a, &t));
	assert_true(fw_view_task(&f, SPAN("a"), 1, &unit.a, &t));
	check_task(&t);
	struct fw_walk w;
	assert_true(fw_walk_begin(&w, &f, &unit.a));
	assert_true(fw_walk_role(&w));
	assert_true(span_is(w.role, "a"));
	assert_true(fw_walk_task(&w, &t));
	check_task(&t);
	assert_int_equal(w.tasks, 2); /* one is no object */
	assert_false(fw_walk_task(&w, &t));
	assert_false(fw_walk_role(&w));
}

/* Malformed members are absent and marked; the first of repeated keys counts. */
TEST(test_view_marks_malformed_members)
{
	static const struct {
		const char *attempt;
		bool odd;
		int64_t id;
	} CASES[] = {
		{ "null", false, -1 },
		{ "{}", false, -1 },
		{ "{\"id\":null}", false, -1 },
		{ "{\"id\":0,\"id\":7,\"other\":[{\"id\":1}]}", false, 0 },
		{ "7", true, -1 },
		{ "{\"id\":\"0\"}", true, -1 },
		{ "{\"id\":-1}", true, -1 },
		{ "{\"id\":3,\"startTime\":\"soon\"}", true, 3 },
		{ "{\"id\":3,\"instanceUID\":4}", true, 3 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		struct fw_view f;
		fw_view_read(status_of(&unit.a, CASES[i].attempt), &unit.a, &f);
		if (f.odd != CASES[i].odd || f.attempt != CASES[i].id)
			fail_msg("%s", CASES[i].attempt);
		fw_view_attempt(span_of(CASES[i].attempt), &unit.a, &f);
		if (f.odd != CASES[i].odd || f.attempt != CASES[i].id)
			fail_msg("%s by itself", CASES[i].attempt);
	}
}

/* An attemptStatus with this text in it, compressed. */
static struct span compressed(struct arena *a, struct span text, bool damage)
{
	uLong room = compressBound(text.n) + 64;
	unsigned char *zipped = arena_alloc(a, room);
	z_stream z = { .next_in = (unsigned char *)arena_dup(a, text),
		       .avail_in = (unsigned)text.n,
		       .next_out = zipped,
		       .avail_out = (unsigned)room };
	assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 16 + 15, 9, Z_DEFAULT_STRATEGY), Z_OK);
	assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
	(void)deflateEnd(&z);
	zipped[z.total_out - 1] ^= damage ? 0x01 : 0; /* of the length */
	STR_AUTO out = STR_INIT(64 << 20);
	str_puts(&out, "{\"taskRoleStatuses\":null,\"taskRoleStatusesCompressed\":\"");
	str_base64(&out, (struct span){ (const char *)zipped, z.total_out });
	str_puts(&out, "\"}");
	return arena_span(a, str_view(&out));
}

static struct span blanks(struct arena *a, size_t n)
{
	char *p = arena_alloc(a, n);
	memset(p, ' ', n);
	p[0] = '[';
	p[n - 1] = ']';
	return (struct span){ p, n };
}

/* The number of roles; -1: they cannot be read. */
static int walk_roles(struct span attempt, struct arena *a)
{
	int n = 0;
	struct fw_view f;
	struct fw_walk w;
	fw_view_attempt(attempt, a, &f);
	bool good = fw_walk_begin(&w, &f, a);
	while (fw_walk_role(&w))
		n++;
	assert_true(good || n == 0);
	return good ? n : -1;
}

TEST(test_view_refuses_compression_bombs)
{
	/* A small text may have any ratio. */
	assert_int_equal(walk_roles(compressed(&unit.a, blanks(&unit.a, 64 << 10), false), &unit.a),
	                 0);
	assert_int_equal(walk_roles(compressed(&unit.a, blanks(&unit.a, 1 << 20), false), &unit.a),
	                 -1);
	assert_int_equal(walk_roles(compressed(&unit.a, blanks(&unit.a, 40 << 20), false), &unit.a),
	                 -1);
	assert_int_equal(walk_roles(compressed(&unit.a, blanks(&unit.a, 100), true), &unit.a), -1);
	assert_int_equal(walk_roles(compressed(&unit.a, SPAN("[1,]"), false), &unit.a), -1);
	assert_int_equal(walk_roles(compressed(&unit.a, SPAN("{\"a\":1}"), false), &unit.a), -1);
	assert_int_equal(walk_roles(compressed(&unit.a, SPAN("[{},1]"), false), &unit.a), 2);
}

TEST(test_view_gunzip_refuses_more_than_the_maximum)
{
	struct span out;
	struct span text = compressed(&unit.a, blanks(&unit.a, 1000), false);
	struct span packed;
	struct span inside;
	assert_true(scan_string(scan_get(text, "taskRoleStatusesCompressed"), &unit.a, &inside));
	assert_int_equal(base64_decode(&unit.a, inside, &packed), 0);
	assert_true(gzip_unpack(packed, 1000, 200, &unit.a, &out));
	assert_false(gzip_unpack(packed, 999, 200, &unit.a, &out));
	for (size_t n = 0; n < packed.n; n++) /* at the end of the memory that is read */
		assert_false(gzip_unpack((struct span){ packed.p, n }, 1000, 200, &unit.a, &out));
}

TEST(test_view_tells_malformed_roles_from_absent_ones)
{
	static const struct {
		const char *attempt;
		int roles; /* -1: malformed */
	} CASES[] = {
		{ "{}", 0 },
		{ "null", 0 },
		{ "7", 0 },
		{ "{\"taskRoleStatuses\":null}", 0 },
		{ "{\"taskRoleStatuses\":[]}", 0 },
		{ "{\"taskRoleStatuses\":[{}],\"taskRoleStatusesCompressed\":\"x\"}", 1 },
		{ "{\"taskRoleStatuses\":{}}", -1 },
		{ "{\"taskRoleStatusesCompressed\":null}", 0 },
		{ "{\"taskRoleStatusesCompressed\":7}", -1 },
		{ "{\"taskRoleStatusesCompressed\":\"\"}", -1 },
		{ "{\"taskRoleStatusesCompressed\":\"H4sI\"}", -1 },
		{ "{\"taskRoleStatusesCompressed\":\"not base64!\"}", -1 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		if (walk_roles(span_of(CASES[i].attempt), &unit.a) != CASES[i].roles)
			fail_msg("%s", CASES[i].attempt);
	}
}

TEST(test_view_without_roles_keeps_all_else)
{
	struct span object =
	    SPAN("{\"status\":{\"attemptStatus\":{\"id\":1, \"taskRoleStatuses\":[{}],"
	         "\"x\":[2],\"taskRoleStatusesCompressed\":\"y\"}}}");
	struct span whole = fw_view_attempt_json(object, true, &unit.a);
	assert_true(span_is(scan_get(whole, "taskRoleStatuses"), "[{}]"));
	assert_true(span_is(fw_view_attempt_json(object, false, &unit.a), "{\"id\":1,\"x\":[2]}"));
	assert_null(fw_view_attempt_json(SPAN("{\"status\":{}}"), false, &unit.a).p);
}
