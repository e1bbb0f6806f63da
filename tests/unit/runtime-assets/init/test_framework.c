/* The Framework: its members, malformed values, bounded decompression. */
#include "runtime-assets/init/init.h"

#include <zlib.h>

#include "base/enc.h"
#include "runtime-assets/common/files.h"
#include "tests/unit/base/cmocka.h"

#define FRAMEWORKS "tests/data/runtime/frameworks/"

/* NULL, or the Framework; the error is that of the test. */
static struct init_framework *read_text(const char *json)
{
	return framework_read(span_of(json), &unit.a, no_err());
}

static struct init_framework *read_good(const char *json)
{
	struct init_framework *f = read_text(json);
	if (!f)
		fail_msg("%s", err_msg(&unit.e));
	return f;
}

#define SPEC_WORKER(n)                                                                             \
	"\"spec\":{\"taskRoles\":[{\"name\":\"worker\",\"taskNumber\":" #n                         \
	",\"task\":{\"pod\":{\"spec\":{}}}}]}"
#define STATUS(tasks)                                                                              \
	"\"status\":{\"attemptStatus\":{\"taskRoleStatuses\":[{\"name\":\"worker\","               \
	"\"taskStatuses\":[" tasks "]}]}}"
#define TASK(index, ip)                                                                            \
	"{\"index\":" #index ",\"attemptStatus\":{\"podIP\":" ip ",\"podUID\":\"u\"}}"
#define FRAMEWORK(spec, status) "{\"kind\":\"Framework\"," spec "," status "}"

/* ---- real ones ------------------------------------------------------------------------ */

TEST(test_framework_read_counts_ready_tasks_in_all_states)
{
	static const struct {
		const char *name;
		int64_t total, ready;
	} CASES[] = {
		{ "00-posted", 4, 0 },
		{ "01-AttemptCreationPending", 4, 0 },
		{ "02-AttemptCreationRequested", 4, 0 },
		{ "03-AttemptPreparing-no-pods", 4, 0 },
		{ "04-AttemptPreparing-addresses", 4, 4 },
		{ "05-AttemptRunning-first-task", 4, 4 },
		{ "06-AttemptRunning", 4, 4 },
		{ "07-AttemptDeletionPending", 4, 4 },
		{ "08-AttemptDeletionRequested", 4, 4 },
		{ "09-AttemptDeleting", 4, 4 },
		{ "10-AttemptCompleted", 4, 4 },
		{ "11-Completed-succeeded", 4, 4 },
		{ "12-Completed-failed", 4, 4 },
		{ "13-Completed-oom-killed", 4, 4 },
		{ "14-Completed-stopped", 4, 4 },
		{ "15-Completed-pod-refused", 4, 0 },
		{ "16-Completed-no-rule-triggered", 3, 3 },
		{ "17-retry-waiting", 4, 4 },
		{ "18-retry-pending", 4, 0 },
		{ "19-retry-AttemptRunning", 4, 4 },
		{ "20-task-retry", 4, 1 }, /* the addresses of the others are "" */
		{ "21-being-deleted", 4, 4 },
		{ "22-Completed-retries-exhausted", 4, 4 },
		{ "23-compressed-1600-tasks", 1600, 0 },
		{ "real-Completed-failed", 4, 1 },
		{ "real-Completed-oom-killed", 4, 1 },
		{ "real-Completed-succeeded", 4, 4 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		char path[200];
		(void)snprintf(path, sizeof(path), FRAMEWORKS "%s.json", CASES[i].name);
		struct init_framework *f = read_good(unit_read(path).p);
		if (f->total != CASES[i].total || framework_ready(f) != CASES[i].ready)
			fail_msg("%s: %lld of %lld ready", path, (long long)framework_ready(f),
			         (long long)f->total);
	}
}

TEST(test_framework_read_gives_names_and_roles)
{
	struct init_framework *f = read_good(unit_read(FRAMEWORKS "06-AttemptRunning.json").p);
	assert_true(strncmp(f->config, "protocolVersion: 2\n", 19) == 0);
	const struct init_role *worker = framework_role(f, "worker");
	assert_int_equal(worker->number, 1);
	assert_true(worker->host_network);
	const struct init_task *t = framework_task(worker, 1);
	assert_string_equal(t->pod_uid, "8a652e5e-b42e-409e-aa9f-a829b22755bb");
	assert_string_equal(framework_address(worker, t), "10.0.0.2");
}

TEST(test_framework_read_decompresses_the_status)
{
	struct init_framework *f =
	    read_good(unit_read(FRAMEWORKS "23-compressed-1600-tasks.json").p);
	const struct init_role *worker = framework_role(f, "worker");
	assert_int_equal(worker->n, 1598);
	assert_int_equal(framework_task(worker, 1597)->index, 1597);
}

/* framework.json and other readers of the object get a status as small jobs have it. */
TEST(test_framework_read_puts_the_decompressed_status_in_the_tree)
{
	struct init_framework *f =
	    read_good(unit_read(FRAMEWORKS "23-compressed-1600-tasks.json").p);
	const struct node *attempt = node_get(node_get(f->root, "status"), "attemptStatus");
	assert_int_equal(node_get(attempt, "taskRoleStatuses")->n, 2);
	assert_int_equal(node_get(attempt, "taskRoleStatusesCompressed")->type, NODE_NULL);
	assert_string_equal(node_get(attempt, "configMapName")->text, "snapcompress-attempt");
}

/* ---- malformed members -------------------------------------------------------------------- */

TEST(test_framework_read_refuses_other_objects)
{
	static const char *const CASES[][2] = {
		{ "", "not valid JSON" },
		{ "[]", "no object of kind Framework" },
		{ "{\"kind\":\"Status\",\"code\":404}", "no object of kind Framework" },
		{ "{\"kind\":\"Framework\"", "not valid JSON" },
		{ "{\"kind\":\"Framework\",\"a\":\"\xff\"}", "no UTF-8" },
		{ "{\"kind\":\"Framework\",\"status\":{\"attemptStatus\":"
		  "{\"taskRoleStatusesCompressed\":\"!\"}}}",
		  "taskRoleStatusesCompressed: is no base64" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		assert_null(read_text(CASES[i][0]));
		if (!strstr(err_msg(&unit.e), CASES[i][1]))
			fail_msg("%s: %s", CASES[i][0], err_msg(&unit.e));
	}
}

/* A member of a wrong type is treated as absent. */
TEST(test_framework_read_ignores_members_of_wrong_types)
{
	static const char *const VALUES[] = { "null",  "true", "1",    "1.5",
		                              "\"x\"", "[]",   "[[]]", "{}" };
	static const char *const FORMS[] = {
		"{\"kind\":\"Framework\",\"metadata\":%s,\"spec\":%s,\"status\":%s}",
		"{\"kind\":\"Framework\",\"metadata\":{\"name\":%s,\"annotations\":%s},"
		"\"spec\":{\"taskRoles\":%s}}",
		"{\"kind\":\"Framework\",\"spec\":{\"taskRoles\":[{\"name\":\"w\",\"taskNumber\":"
		"%s,\"task\":%s}]},\"status\":{\"attemptStatus\":%s}}",
		"{\"kind\":\"Framework\",\"status\":{\"attemptStatus\":{\"taskRoleStatuses\":"
		"[{\"name\":\"w\",\"taskStatuses\":%s},%s,{\"name\":%s}]}}}",
		"{\"kind\":\"Framework\",\"status\":{\"attemptStatus\":{\"taskRoleStatuses\":"
		"[{\"name\":\"w\",\"taskStatuses\":[%s,{\"index\":%s,\"attemptStatus\":%s}]}]}}}",
	};
	for (size_t i = 0; i < ARRAY_SIZE(FORMS); i++) {
		for (size_t k = 0; k < ARRAY_SIZE(VALUES); k++) {
			STR_AUTO json = STR_INIT(4096);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
			str_printf(&json, FORMS[i], VALUES[k], VALUES[k], VALUES[k]);
#pragma GCC diagnostic pop
			struct init_framework *f = read_good(str_c(&json));
			assert_int_equal(framework_ready(f), 0);
		}
	}
}

TEST(test_framework_read_takes_only_ip_addresses)
{
	static const struct {
		const char *json;
		bool taken;
	} CASES[] = {
		{ "\"10.0.0.1\"", true },
		{ "\"2001:db8::1\"", true },
		{ "\"\"", false },
		{ "null", false },
		{ "\"1' ; reboot; '\"", false },
		{ "\"10.0.0.1,10.0.0.2\"", false },
		{ "\"00000000000000000000000000000000000000000000000000000000000000001\"", false },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		STR_AUTO json = STR_INIT(4096);
		str_printf(&json, FRAMEWORK(SPEC_WORKER(1), STATUS(TASK(0, "%s"))), CASES[i].json);
		struct init_framework *f = read_good(str_c(&json));
		if ((f->role[0].task[0].pod_ip != NULL) != CASES[i].taken)
			fail_msg("%s", CASES[i].json);
	}
}

TEST(test_framework_read_leaves_out_roles_with_bad_names)
{
	struct init_framework *f =
	    read_good("{\"kind\":\"Framework\",\"spec\":{\"taskRoles\":["
	              "{\"name\":\"a;b\",\"taskNumber\":1},{\"name\":\"A\"},"
	              "{\"name\":\"ok1\",\"taskNumber\":2},{\"name\":\"\"}]}}");
	assert_int_equal(f->n, 1);
	assert_string_equal(f->role[0].name, "ok1");
}

TEST(test_framework_read_takes_the_first_of_equal_roles)
{
	struct init_framework *f =
	    read_good("{\"kind\":\"Framework\",\"spec\":{\"taskRoles\":["
	              "{\"name\":\"a\",\"taskNumber\":1},{\"name\":\"a\",\"taskNumber\":5}]}}");
	assert_int_equal(f->total, 1);
}

TEST(test_framework_read_refuses_more_than_4096_roles)
{
	STR_AUTO json = STR_INIT(1 << 20);
	str_puts(&json, "{\"kind\":\"Framework\",\"spec\":{\"taskRoles\":[{}");
	str_many(&json, ",{}", 4096);
	str_puts(&json, "]}}");
	assert_null(read_text(str_c(&json)));
	assert_non_null(strstr(err_msg(&unit.e), "more than 4096 task roles"));
}

TEST(test_framework_read_refuses_deep_nesting)
{
	STR_AUTO json = STR_INIT(1 << 20);
	str_many(&json, "[", 100000);
	assert_null(read_text(str_c(&json)));
}

TEST(test_framework_read_keeps_the_order_of_the_status)
{
	struct init_framework *f =
	    read_good("{\"kind\":\"Framework\","
	              "\"spec\":{\"taskRoles\":[{\"name\":\"new\"},{\"name\":\"b\"},"
	              "{\"name\":\"a\"}]},"
	              "\"status\":{\"attemptStatus\":{\"taskRoleStatuses\":"
	              "[{\"name\":\"a\"},{\"name\":\"old\"},{\"name\":\"b\"}]}}}");
	static const struct {
		const char *name;
		int64_t number;
	} WANT[] = { { "a", 2 }, { "old", -1 }, { "b", 1 }, { "new", 0 } };
	assert_int_equal(f->n, 4);
	for (size_t i = 0; i < 4; i++) {
		assert_string_equal(f->role[i].name, WANT[i].name);
		assert_int_equal(f->role[i].number, WANT[i].number);
		assert_int_equal(f->role[i].in_spec, WANT[i].number >= 0);
	}
}

/* ---- ready ---------------------------------------------------------------------------------- */

TEST(test_framework_ready_counts_by_position)
{
	/* Only the first two of three entries count, with any index. */
	struct init_framework *f = read_good(FRAMEWORK(
	    SPEC_WORKER(2),
	    STATUS(TASK(2, "\"10.0.0.3\"") "," TASK(0, "null") "," TASK(1, "\"10.0.0.2\""))));
	assert_int_equal(framework_ready(f), 1);
	assert_int_equal(f->total, 2);
}

TEST(test_framework_ready_leaves_out_tasks_to_be_deleted)
{
	struct init_framework *f = read_good(
	    FRAMEWORK(SPEC_WORKER(1), STATUS("{\"index\":0,\"deletionPending\":true,"
	                                     "\"attemptStatus\":{\"podIP\":\"10.0.0.1\"}}")));
	assert_int_equal(framework_ready(f), 0);
}

TEST(test_framework_ready_without_status_is_zero)
{
	struct init_framework *f = read_good(FRAMEWORK(SPEC_WORKER(3), "\"status\":null"));
	assert_int_equal(f->total, 3);
	assert_int_equal(framework_ready(f), 0);
}

/* ---- addresses, tasks ---------------------------------------------------------------------- */

TEST(test_framework_address_depends_on_the_host_network)
{
	static const struct {
		bool host_network;
		const char *pod, *host, *want;
	} CASES[] = {
		{ true, "10.1.0.1", "10.0.0.1", "10.0.0.1" },
		{ false, "10.1.0.1", "10.0.0.1", "10.1.0.1" },
		{ true, "10.0.0.1", NULL, "10.0.0.1" },
		{ false, NULL, "10.0.0.1", NULL },
		{ true, NULL, NULL, NULL },
		{ false, NULL, NULL, NULL },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		struct init_role r = { .host_network = CASES[i].host_network };
		struct init_task t = { .pod_ip = CASES[i].pod, .host_ip = CASES[i].host };
		const char *got = framework_address(&r, &t);
		if (!CASES[i].want)
			assert_null(got);
		else
			assert_string_equal(got, CASES[i].want);
	}
}

TEST(test_framework_task_finds_tasks_out_of_order)
{
	struct init_framework *f = read_good(
	    FRAMEWORK(SPEC_WORKER(2), STATUS(TASK(7, "\"10.0.0.7\"") "," TASK(3, "null"))));
	const struct init_role *r = framework_role(f, "worker");
	assert_int_equal(framework_task(r, 7) - r->task, 0);
	assert_int_equal(framework_task(r, 3) - r->task, 1);
	assert_null(framework_task(r, 0));
	assert_null(framework_task(r, -1));
	assert_null(framework_role(f, "ps"));
}

/* ---- gunzip -------------------------------------------------------------------------------- */

/* base64 of gzip of n bytes 'x'. */
static void packed(struct str *out, size_t n)
{
	z_stream z = { 0 };
	size_t room = n / 500 + 1000;
	FREE_AUTO unsigned char *text = xmalloc(n + 1);
	FREE_AUTO unsigned char *gzip = xmalloc(room);
	memset(text, 'x', n);
	assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY), Z_OK);
	z.next_in = text;
	z.avail_in = (uInt)n;
	z.next_out = gzip;
	z.avail_out = (uInt)room;
	assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
	str_base64(out, (struct span){ (const char *)gzip, z.total_out });
	deflateEnd(&z);
}

TEST(test_gunzip_base64_takes_all_sizes)
{
	static const size_t SIZES[] = { 0, 1, 2, 1000, 65535, 65536, 1000000 };
	for (size_t i = 0; i < ARRAY_SIZE(SIZES); i++) {
		STR_AUTO text = STR_INIT(1 << 20);
		struct span got = { NULL, 9 };
		packed(&text, SIZES[i]);
		assert_int_equal(gunzip_base64(str_view(&text), SIZES[i], &unit.a, &got, no_err()),
		                 0);
		assert_int_equal(got.n, SIZES[i]);
	}
}

/* 40 MB of one letter are 40 kB of gzip: the size at the end is checked before decompression. */
TEST(test_gunzip_base64_refuses_a_bomb_by_its_size)
{
	STR_AUTO text = STR_INIT(1 << 20);
	struct span got;
	packed(&text, 40000000);
	assert_int_equal(gunzip_base64(str_view(&text), STATUS_MAX, &unit.a, &got, no_err()), -1);
	assert_string_equal(err_msg(&unit.e),
	                    "is damaged (no whole gzip of one part), or has more than 33554432 "
	                    "bytes when inflated");
	assert_true(unit.a.used < 100000);
}

/* The data is the same, but its size at the end is small. */
TEST(test_gunzip_base64_refuses_a_bomb_with_a_false_size)
{
	STR_AUTO text = STR_INIT(1 << 20);
	STR_AUTO lie = STR_INIT(1 << 20);
	struct span gzip;
	struct span got;
	packed(&text, 40000000);
	assert_int_equal(base64_decode(&unit.a, str_view(&text), &gzip), 0);
	FREE_AUTO char *copy = xmalloc(gzip.n);
	memcpy(copy, gzip.p, gzip.n);
	memset(copy + gzip.n - 4, 0, 4);
	copy[gzip.n - 4] = 16;
	str_base64(&lie, (struct span){ copy, gzip.n });
	size_t before = unit.a.used;
	assert_int_equal(gunzip_base64(str_view(&lie), STATUS_MAX, &unit.a, &got, no_err()), -1);
	assert_true(unit.a.used - before < 100);
}

TEST(test_gunzip_base64_refuses_damaged_data)
{
	STR_AUTO text = STR_INIT(1 << 20);
	struct span gzip;
	struct span got;
	packed(&text, 1000);
	assert_int_equal(base64_decode(&unit.a, str_view(&text), &gzip), 0);
	for (size_t n = 0; n < gzip.n; n++) { /* cut off anywhere */
		STR_AUTO cut = STR_INIT(1 << 20);
		str_base64(&cut, (struct span){ gzip.p, n });
		assert_int_equal(gunzip_base64(str_view(&cut), STATUS_MAX, &unit.a, &got, no_err()),
		                 -1);
	}
	for (size_t i = gzip.n - 8; i < gzip.n; i++) { /* one bit of sum and length turned */
		STR_AUTO bad = STR_INIT(1 << 20);
		FREE_AUTO char *copy = xmalloc(gzip.n);
		memcpy(copy, gzip.p, gzip.n);
		copy[i] ^= 4;
		str_base64(&bad, (struct span){ copy, gzip.n });
		assert_int_equal(gunzip_base64(str_view(&bad), 4096, &unit.a, &got, no_err()), -1);
	}
}
