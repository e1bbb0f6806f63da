/* Workloads of Kueue: the next step of a Framework, its reason, and the additions to its pods. */
#include "tests/unit/base/cmocka.h"

#include "k8s/controller/rules/workload.h"

#define CONDITION(type, status, reason, message)                                                   \
	"{\"type\":\"" type "\",\"status\":\"" status "\",\"reason\":\"" reason                    \
	"\",\"message\":\"" message "\",\"lastTransitionTime\":\"2026-11-29T02:41:49Z\"}"
#define RESERVED CONDITION("QuotaReserved", "True", "QuotaReserved", "reserved")
#define ADMIT    CONDITION("Admitted", "True", "Admitted", "admitted")
#define EVICT    CONDITION("Evicted", "True", "Preempted", "for another")
#define FINISH   CONDITION("Finished", "True", "Succeeded", "it is")
#define PENDING  CONDITION("QuotaReserved", "False", "Pending", "2 more needed")
#define WORKLOAD(metadata, spec, status, conditions)                                               \
	"{\"metadata\":{\"name\":\"job\",\"resourceVersion\":\"7\"" metadata                       \
	"},\"spec\":{\"queueName\":\"q\"" spec "},\"status\":{" status                             \
	"\"conditions\":[" conditions "]}}"
#define GUARDED ",\"finalizers\":[\"x/y\",\"" ADMISSION_GUARD "\"]"
#define DYING   ",\"deletionTimestamp\":\"2026-11-29T02:41:49Z\""
#define HELD    "\"admission\":{\"clusterQueue\":\"c\"},"

static const struct admission_wish STARTS = { .starts = true }, LIVES = { .lives = true },
				   ENDED = { .ended = true };

TEST(test_workload_decides_the_next_step)
{
	static const struct {
		const char *workload;
		const struct admission_wish *wish;
		enum admission_step step;
	} ROWS[] = {
		{ NULL, &STARTS, ADMISSION_MAKE },
		{ NULL, &LIVES, ADMISSION_EVICT },
		{ NULL, &ENDED, ADMISSION_REST },
		{ WORKLOAD(GUARDED, "", "", ""), &STARTS, ADMISSION_REST },
		{ WORKLOAD(GUARDED, "", "", PENDING), &STARTS, ADMISSION_REST },
		{ WORKLOAD(GUARDED, "", HELD, RESERVED), &STARTS, ADMISSION_REST },
		{ WORKLOAD(GUARDED, "", HELD, RESERVED "," ADMIT), &STARTS, ADMISSION_GO },
		{ WORKLOAD(GUARDED, "", HELD, RESERVED "," ADMIT), &LIVES, ADMISSION_GO },
		{ WORKLOAD(GUARDED, "", HELD, RESERVED "," ADMIT "," EVICT), &LIVES,
		  ADMISSION_EVICT },
		{ WORKLOAD(GUARDED, "", HELD, RESERVED "," ADMIT "," EVICT), &STARTS,
		  ADMISSION_RELEASE },
		{ WORKLOAD(GUARDED, "", "", PENDING "," EVICT), &STARTS, ADMISSION_REST },
		{ WORKLOAD(GUARDED, "", HELD, PENDING "," EVICT), &STARTS, ADMISSION_RELEASE },
		{ WORKLOAD(GUARDED, ",\"active\":false", HELD, RESERVED "," ADMIT), &LIVES,
		  ADMISSION_EVICT },
		{ WORKLOAD(GUARDED, ",\"active\":false", HELD, RESERVED "," ADMIT), &STARTS,
		  ADMISSION_RELEASE },
		{ WORKLOAD(GUARDED, ",\"active\":false", "", ""), &STARTS, ADMISSION_REST },
		{ WORKLOAD(GUARDED DYING, "", HELD, RESERVED "," ADMIT), &LIVES, ADMISSION_EVICT },
		{ WORKLOAD(GUARDED DYING, "", HELD, RESERVED "," ADMIT), &STARTS,
		  ADMISSION_UNGUARD },
		{ WORKLOAD(DYING, "", HELD, RESERVED "," ADMIT), &STARTS, ADMISSION_REST },
		{ WORKLOAD(GUARDED, "", HELD, RESERVED "," ADMIT), &ENDED, ADMISSION_FINISH },
		{ WORKLOAD(GUARDED, "", HELD, RESERVED "," ADMIT "," FINISH), &ENDED,
		  ADMISSION_UNGUARD },
		{ WORKLOAD("", "", HELD, RESERVED "," ADMIT "," FINISH), &ENDED, ADMISSION_REST },
		{ WORKLOAD(GUARDED, "", HELD, RESERVED "," ADMIT "," FINISH), &STARTS,
		  ADMISSION_DELETE },
		{ WORKLOAD(GUARDED, "", HELD "\"reclaimablePods\":[{\"name\":\"w\",\"count\":1}],",
		           RESERVED "," ADMIT),
		  &STARTS, ADMISSION_RELEASE },
	};
	for (size_t i = 0; i < ARRAY_SIZE(ROWS); i++) {
		ARENA_AUTO a = { 0 };
		struct admission w;
		if (ROWS[i].workload)
			admission_read(span_of(ROWS[i].workload), &a, &w);
		if (admission_decide(ROWS[i].workload ? &w : NULL, ROWS[i].wish) != ROWS[i].step)
			fail_msg("row %zu", i);
	}
}

TEST(test_workload_release_is_one_patch_of_the_whole_list)
{
	ARENA_AUTO a = { 0 };
	struct admission w;
	STR_AUTO kept = STR_INIT(ADMISSION_TEXT_MAX);
	STR_AUTO out = STR_INIT(ADMISSION_TEXT_MAX);
	admission_reduce(
	    SPAN(WORKLOAD(GUARDED, "", HELD,
	                  RESERVED "," ADMIT "," CONDITION("Evicted", "True", "DeactivatedDueToX",
	                                                   "off") ",{\"type\":\"Mine\"}")),
	    &kept);
	admission_read(str_view(&kept), &a, &w);
	admission_put_release(&out, &w, 0);
	struct span body = str_view(&out);
	assert_true(scan_valid(body, 32));
	assert_true(span_is(scan_path(body, "metadata", "resourceVersion"), "\"7\""));
	assert_true(span_is(scan_path(body, "status", "admission"), "null"));
	assert_int_equal(scan_count(scan_path(body, "status", "conditions")), 5);
	assert_non_null(strstr(
	    str_c(&out), "\"type\":\"Requeued\",\"status\":\"False\",\"reason\":\"Deactivated\""));
	assert_non_null(strstr(str_c(&out), "{\"type\":\"Mine\"}"));
}

#define ASSIGNED                                                                                   \
	"\"admission\":{\"podSetAssignments\":[{\"name\":\"w\",\"flavors\":{\"cpu\":\"f\","        \
	"\"gpu\":\"g\"},"                                                                          \
	"\"topologyAssignment\":{\"levels\":[\"rack\"]}}]},\"admissionChecks\":[{\"name\":\"c\","  \
	"\"podSetUpdates\":"                                                                       \
	"[{\"name\":\"w\",\"annotations\":{\"by\":\"me\"}},{\"name\":\"other\",\"labels\":{"       \
	"\"no\":\"no\"}}]}],"
#define FLAVORS                                                                                    \
	"{\"f\":{\"nodeLabels\":{\"kind\":\"a\"},\"tolerations\":[{\"key\":\"t\"}]},\"g\":{"       \
	"\"nodeLabels\":"                                                                          \
	"{\"kind\":\"%s\"}}}"

TEST(test_workload_adds_what_kueue_has_chosen_to_pods)
{
	static const char *const SECOND[] = { "a", "b" };
	static const struct framework_role ROLE = { .name = "w", .pod = { "{}", 2 }, .number = 1 };
	for (size_t i = 0; i < ARRAY_SIZE(SECOND); i++) {
		ARENA_AUTO a = { 0 };
		struct admission w;
		STR_AUTO conflict = STR_INIT(ADMISSION_TEXT_MAX);
		const char *flavors = arena_printf(&a, FLAVORS, SECOND[i]);
		admission_read(SPAN(WORKLOAD("", "", ASSIGNED, "")), &a, &w);
		assert_true(span_is(admission_missing_flavor(&w, SPAN("{\"f\":{}}"), &a), "g"));
		assert_null(admission_missing_flavor(&w, span_of(flavors), &a).p);
		struct span more = admission_additions(&w, span_of(flavors), &ROLE, &a, &conflict);
		assert_int_equal(conflict.n > 0, i);
		assert_true(
		    span_is(scan_path(more, "metadata", "annotations", "kueue.x-k8s.io/workload"),
		            "\"job\""));
		assert_true(span_is(scan_path(more, "metadata", "annotations", "by"), "\"me\""));
		assert_true(span_is(scan_path(more, "metadata", "labels", "kueue.x-k8s.io/podset"),
		                    "\"w\""));
		assert_null(scan_path(more, "metadata", "labels", "no").p);
		assert_true(span_is(scan_path(more, "spec", "nodeSelector", "kind"), "\"a\""));
		assert_true(span_is(scan_path(more, "spec", "schedulingGates"),
		                    "[{\"name\":\"kueue.x-k8s.io/topology\"}]"));
		assert_int_equal(scan_count(scan_path(more, "spec", "tolerations")), 1);
	}
}

TEST(test_workload_reason_is_the_sentence_of_kueue)
{
	static const char *const ROWS[][2] = {
		{ WORKLOAD("", "", "", ""), "Kueue has not looked at it yet" },
		{ WORKLOAD("", "", "", PENDING), "2 more needed" },
		{ WORKLOAD("", "", "", PENDING "," EVICT), "2 more needed" },
		{ WORKLOAD("", "", HELD, RESERVED "," ADMIT "," EVICT), "for another" },
		{ WORKLOAD("", "",
		           "\"admissionChecks\":[{\"name\":\"c\",\"state\":\"Retry\",\"message\":"
		           "\"no budget\"}],",
		           RESERVED),
		  "the admission check c is Retry: no budget" },
		{ WORKLOAD(DYING, "", "", PENDING), "its Workload was deleted" },
		{ "{\"status\":{\"conditions\":[7,{\"type\":3},{\"type\":\"Evicted\",\"status\":"
		  "\"True\"}]}}",
		  "" },
		{ "7", "Kueue has not looked at it yet" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(ROWS); i++) {
		ARENA_AUTO a = { 0 };
		struct admission w;
		admission_read(span_of(ROWS[i][0]), &a, &w);
		assert_string_equal(admission_reason(&w, &a), ROWS[i][1]);
	}
}
