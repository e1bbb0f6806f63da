/* Views of Frameworks. */
#include "tests/unit/base/cmocka.h"

#include "k8s/framework/view.h"

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
	ARENA_AUTO a = { 0 };
	struct fw_view f;
	struct fw_view t;
	fw_view_read(status_of(&a, "{\"id\":1,\"instanceUID\":\"u\",\"taskRoleStatuses\":" TASKS
	                           ",\"startTime\":\"1970-01-01T00:00:01Z\"}"),
	             &a, &f);
	assert_false(f.odd);
	assert_true(span_is(f.state, "AttemptRunning"));
	assert_true(span_is(f.instance, "u"));
	assert_int_equal(f.attempt, 1);
	assert_int_equal(f.attempt_start_ms, 1000);
	assert_int_equal(f.start_ms, -1);
	assert_false(fw_view_task(&f, SPAN("a"), 0, &a, &t));
	assert_false(fw_view_task(&f, SPAN("b"), 1, &a, &t));
	assert_true(fw_view_task(&f, SPAN("a"), 1, &a, &t));
	struct span role = span_to(span_from(f.roles, 1), f.roles.n - 2);
	struct scan tasks = scan_begin(scan_get(role, "taskStatuses"));
	check_task(&t);
	assert_true(scan_more(&tasks));
	assert_false(fw_view_next(&tasks, &a, &t));
	assert_true(scan_more(&tasks));
	assert_true(fw_view_next(&tasks, &a, &t));
	check_task(&t);
	assert_false(scan_more(&tasks));
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
		ARENA_AUTO a = { 0 };
		struct fw_view f;
		fw_view_read(status_of(&a, CASES[i].attempt), &a, &f);
		if (f.odd != CASES[i].odd || f.attempt != CASES[i].id)
			fail_msg("%s", CASES[i].attempt);
		fw_view_attempt(span_of(CASES[i].attempt), &a, &f);
		if (f.odd != CASES[i].odd || f.attempt != CASES[i].id)
			fail_msg("%s by itself", CASES[i].attempt);
	}
}

TEST(test_view_roles_refuse_malformed_lists)
{
	ARENA_AUTO a = { 0 };
	struct fw_view f;
	struct span list;
	fw_view_attempt(SPAN("{}"), &a, &f);
	assert_true(fw_view_roles(&f, &a, &list));
	assert_null(list.p);
	fw_view_attempt(SPAN("{\"taskRoleStatuses\":{}}"), &a, &f);
	assert_false(fw_view_roles(&f, &a, &list));
	fw_view_attempt(SPAN("{\"taskRoleStatusesCompressed\":\"?\"}"), &a, &f);
	assert_false(fw_view_roles(&f, &a, &list));
	fw_view_attempt(SPAN("{\"taskRoleStatuses\":[],\"taskRoleStatusesCompressed\":\"?\"}"), &a,
	                &f);
	assert_true(fw_view_roles(&f, &a, &list));
}
