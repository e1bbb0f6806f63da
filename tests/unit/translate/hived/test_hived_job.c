/* HiveD: the pods of jobs that it schedules. */
#include "tests/unit/translate/hived_kit.h"

#include <jansson.h>

#include "translate/job/job.h"
#include "translate/translate.h"

/* ---- jobs ------------------------------------------------------------------------------------ */

#define HEAD                                                                                       \
	"protocolVersion: 2\nname: j\ntype: job\n"                                                 \
	"prerequisites: [{name: i, type: dockerimage, uri: ubuntu}]\ntaskRoles:\n"
#define ROLE(name, more)   "  " name ": {dockerImage: i, commands: [x], " more "}\n"
#define ASKS(cpu, mb, gpu) "resourcePerInstance: {cpu: " #cpu ", memoryMB: " #mb ", gpu: " #gpu "}"
#define VC(name)           "defaults: {virtualCluster: " name "}\n"
#define HIVED(more)        "extras: {hivedScheduler: {" more "}}\n"

static void object_done(json_t **v)
{
	json_decref(*v);
}
#define OBJECT_AUTO __attribute__((cleanup(object_done))) json_t

/* The Framework; NULL and b->e. */
static json_t *framework(struct bench *b, const char *text)
{
	struct translator *t = translator_new(&b->set, NULL, &b->e);
	assert_non_null(t);
	err_done(&b->e);
	b->e = (struct err){ 0 };
	notes_done(&b->warnings);
	b->warnings = (struct notes){ 0 };
	struct job *job =
	    job_read(t, DIALECTS_ALL, span_of(text), "alice", &b->a, &b->warnings, &b->e);
	int rc = job ? job_build(t, job, &b->facts, NULL, &b->a, &b->out, &b->e) : -1;
	translator_free(t);
	if (rc < 0)
		return NULL;
	struct span body = b->out.v[b->out.n - 1].body;
	return json_loadb(body.p, body.n, JSON_REJECT_DUPLICATES, NULL);
}

static json_t *pod(json_t *framework, size_t role)
{
	json_t *roles = json_object_get(json_object_get(framework, "spec"), "taskRoles");
	return json_object_get(json_object_get(json_array_get(roles, role), "task"), "pod");
}

/* Returns the annotation of a role for HiveD. */
static const char *spec(json_t *framework, size_t role)
{
	json_t *annotations =
	    json_object_get(json_object_get(pod(framework, role), "metadata"), "annotations");
	return json_string_value(
	    json_object_get(annotations, "hivedscheduler.microsoft.com/pod-scheduling-spec"));
}

static void assert_spec(struct bench *b, const char *text, size_t role, const char *want)
{
	OBJECT_AUTO *f = framework(b, text);
	if (!f)
		fail_msg("%s", err_msg(&b->e));
	assert_string_equal(spec(f, role), want);
}

static void assert_cells(struct bench *b, const char *text, int64_t want)
{
	OBJECT_AUTO *f = framework(b, text);
	if (!f)
		fail_msg("%s", err_msg(&b->e));
	const char *at = strstr(spec(f, 0), "\nleafCellNumber: ");
	const char *line = arena_printf(&b->a, "\nleafCellNumber: %lld\n", (long long)want);
	if (strncmp(at, line, strlen(line)) != 0)
		fail_msg("expected %s in %s", line, spec(f, 0));
}

static void assert_refused(struct bench *b, const char *text, const char *line)
{
	json_t *f = framework(b, text);
	assert_null(f);
	assert_int_equal(b->e.http, 400);
	assert_said(b, line);
}

TEST(test_cells_of_a_role_cover_its_resources)
{
	static const struct {
		const char *text;
		int64_t cells;
	} CASES[] = {
		/* the least of K80 and V100: 1 gpu, 4 cpu, 8192 MiB */
		{ HEAD ROLE("w", ASKS(1, 1, 1)), 1 },
		{ HEAD ROLE("w", ASKS(4, 8192, 1)), 1 },
		{ HEAD ROLE("w", ASKS(5, 8192, 1)), 2 },
		{ HEAD ROLE("w", ASKS(4, 8193, 1)), 2 },
		{ HEAD ROLE("w", ASKS(1, 1, 8)), 8 },
		{ HEAD ROLE("w", ASKS(1, 1, 0)), 1 },
		{ HEAD ROLE("w", ASKS(0, 1, 0)), 1 },
		{ HEAD ROLE("w", ASKS(9, 1, 0)), 3 },
		/* of one type */
		{ HEAD ROLE("w", ASKS(6, 32768, 1)) HIVED("taskRoles: {w: {skuType: V100}}"), 1 },
		{ HEAD ROLE("w", ASKS(6, 32769, 1)) HIVED("taskRoles: {w: {skuType: V100}}"), 2 },
		{ HEAD ROLE("w", ASKS(6, 1, 1)) HIVED("taskRoles: {w: {skuType: K80}}"), 2 },
		{ HEAD ROLE("w", ASKS(5, 1, 0)) VC("mixed") HIVED("taskRoles: {w: {skuType: CPU}}"),
		  3 },
		/* without a type: no more cpu in a cell than any has */
		{ HEAD ROLE("w", ASKS(5, 1, 0)) VC("mixed"), 3 },
		/* opportunistic jobs may have all types: 2 cpu in a cell of CPU */
		{ HEAD ROLE("w", ASKS(4, 1, 0)) HIVED("jobPriorityClass: oppo"), 2 },
		{ HEAD ROLE("w", ASKS(4, 1, 0)) VC("unheard-of"), 2 },
		{ HEAD ROLE("w", ASKS(2147483647, 1, 0)) VC("unheard-of")
		      HIVED("taskRoles: {w: {skuType: CPU}}"),
		  1073741824 },
	};
	BENCH(b);
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++)
		assert_cells(&b, CASES[i].text, CASES[i].cells);
}

TEST(test_spec_annotation_describes_the_affinity_group)
{
	BENCH(b);
	/* all roles are one group, if none is named */
	assert_spec(&b, HEAD ROLE("w", ASKS(1, 1, 2) ", instances: 3") ROLE("ps", ASKS(1, 1, 0)), 1,
	            "virtualCluster: default\npriority: 10\npinnedCellId: null\n"
	            "leafCellType: null\nleafCellNumber: 1\n"
	            "affinityGroup:\n  name: alice~j/default\n  members:\n"
	            "    - podNumber: 3\n      leafCellNumber: 2\n"
	            "    - podNumber: 1\n      leafCellNumber: 1\n");
	/* with groups, those without one are alone; the switches */
	static const char GROUPS[] =
	    HEAD ROLE("a", ASKS(1, 1, 1)) ROLE("b", ASKS(1, 1, 1)) ROLE("c", ASKS(1, 1, 2)) HIVED(
		"jobPriorityClass: prod, gangReleaseEnable: true, lazyPreemptionEnable: false, "
		"ignoreK8sSuggestedNodes: true, taskRoles: {c: {affinityGroupName: g/1, skuType: "
		"V100}, a: {affinityGroupName: g/1, skuType: V100}}");
	assert_spec(&b, GROUPS, 1,
	            "virtualCluster: default\npriority: 100\npinnedCellId: null\n"
	            "leafCellType: null\nleafCellNumber: 1\ngangReleaseEnable: true\n"
	            "lazyPreemptionEnable: false\nignoreK8sSuggestedNodes: true\n"
	            "affinityGroup: null\n");
	assert_spec(&b, GROUPS, 2,
	            "virtualCluster: default\npriority: 100\npinnedCellId: null\n"
	            "leafCellType: V100\nleafCellNumber: 2\ngangReleaseEnable: true\n"
	            "lazyPreemptionEnable: false\nignoreK8sSuggestedNodes: true\n"
	            "affinityGroup:\n  name: alice~j/g/1\n  members:\n"
	            "    - podNumber: 1\n      leafCellNumber: 1\n"
	            "    - podNumber: 1\n      leafCellNumber: 2\n");
	/* without gang allocation nothing belongs together */
	assert_spec(
	    &b,
	    HEAD ROLE("w", ASKS(1, 1, 1)) VC(
		"pins") "extras: {gangAllocation: false, hivedScheduler: {jobPriorityClass: crit, "
			"taskRoles: {w: {pinnedCellId: p-node}}}}\n",
	    0,
	    "virtualCluster: pins\npriority: 120\npinnedCellId: p-node\n"
	    "leafCellType: null\nleafCellNumber: 1\naffinityGroup: null\n");
}

/* Names that YAML would read as other types are quoted. */
TEST(test_spec_annotation_quotes_names_that_yaml_would_change)
{
	BENCH(b);
	OBJECT_AUTO *f = framework(
	    &b, HEAD ROLE("w", ASKS(1, 1, 0)) VC("\"007\"")
		    HIVED("taskRoles: {w: {pinnedCellId: \"true\", affinityGroupName: \"1\"}}"));
	assert_non_null(f);
	assert_string_equal(spec(f, 0),
	                    "virtualCluster: \"007\"\npriority: 10\npinnedCellId: \"true\"\n"
	                    "leafCellType: null\nleafCellNumber: 1\n"
	                    "affinityGroup:\n  name: alice~j/1\n  members:\n"
	                    "    - podNumber: 1\n      leafCellNumber: 1\n");
}

static const struct {
	const char *text, *line;
} REFUSED[] = {
	{ HEAD ROLE("w", ASKS(1, 1, 1)) HIVED("taskRoles: {w: {skuType: P100}}"),
	  "7:52: extras.hivedScheduler.taskRoles.w.skuType: there is no SKU type `P100`; "
	  "there are K80, V100, CPU\n" },
	{ HEAD ROLE("w", ASKS(1, 1, 1)) HIVED("taskRoles: {w: {skuType: CPU}}"),
	  "skuType: virtual cluster default has no SKU type `CPU`; it has K80, V100\n" },
	{ HEAD ROLE("w", ASKS(1, 1, 1)) HIVED("taskRoles: {w: {skuType: K80, pinnedCellId: p}}"),
	  "taskRoles.w.pinnedCellId: Taskrole w has both skuType and pinnedCellId, only "
	  "one is allowed.\n" },
	{ HEAD ROLE("w", ASKS(1, 1, 1)) HIVED("taskRoles: {x: {}}"),
	  "7:39: extras.hivedScheduler.taskRoles.x: Taskrole x does not exist.\n" },
	{ HEAD ROLE("w", ASKS(1, 1, 1)) HIVED("taskRoles: {w: {pinnedCellId: p-node}}"),
	  "taskRoles.w.pinnedCellId: virtual cluster default has no pinned cell "
	  "`p-node`\n" },
	{ HEAD ROLE("w", ASKS(1, 1, 1)) VC("pins")
	      HIVED("jobPriorityClass: oppo, taskRoles: {w: {pinnedCellId: p-node}}"),
	  "pinnedCellId: jobs of priority class oppo cannot use pinned cells\n" },
	{ HEAD ROLE("a", ASKS(1, 1, 1)) ROLE("b", ASKS(1, 1, 1))
	      HIVED("taskRoles: {a: {affinityGroupName: g, skuType: K80}, b: "
	            "{affinityGroupName: g}}"),
	  "taskRoles.b.affinityGroupName: Taskroles a and b are in one affinity group: "
	  "they must have the same skuType and pinnedCellId\n" },
	/* a resource that the cluster lacks */
	{ HEAD ROLE("w", ASKS(1, 1, 3)) VC("mixed"),
	  "6:3: taskRoles.w: asks for 3 gpu; there are SKU types without any: say "
	  "`skuType` in extras.hivedScheduler.taskRoles (K80, CPU)\n" },
	{ HEAD ROLE("w", ASKS(1, 1, 3)) VC("pinned")
	      HIVED("taskRoles: {w: {pinnedCellId: p-node}}"),
	  "6:3: taskRoles.w: asks for 3 gpu; there are SKU types without any, and "
	  "pinnedCellId says none (K80, CPU)\n" },
	{ HEAD ROLE("w", ASKS(1, 1, 3)) VC("mixed") HIVED("taskRoles: {w: {skuType: CPU}}"),
	  "6:3: taskRoles.w: asks for 3 gpu; SKU type `CPU` has none\n" },
	/* 12 there are */
	{ HEAD ROLE("a", ASKS(1, 1, 1) ", instances: 5") ROLE("b", ASKS(1, 1, 4) ", instances: 2"),
	  "7:3: taskRoles.b: Job requests 13 SKUs, exceeds maximum 12 SKUs in VC "
	  "default.\n" },
	{ HEAD ROLE("w", ASKS(1, 1, 1)) VC("empty"),
	  "7:28: defaults.virtualCluster: virtual cluster empty has no cells of a type in "
	  "skuTypes\n" },
	/* names go into a text of YAML */
	{ HEAD ROLE("w", ASKS(1, 1, 1))
	      HIVED("taskRoles: {w: {pinnedCellId: \"x\\npriority: 1000\"}}"),
	  "taskRoles.w.pinnedCellId: \"x\\npriority: 1000\" must be at most 255 letters" },
	{ HEAD ROLE("w", ASKS(1, 1, 1)) HIVED("taskRoles: {w: {skuType: \"a: b\"}}"),
	  "taskRoles.w.skuType: \"a: b\" must be" },
	{ HEAD ROLE("w", ASKS(1, 1, 1)) HIVED("taskRoles: {w: {affinityGroupName: -x}}"),
	  "taskRoles.w.affinityGroupName: \"-x\" must be" },
	/* v1 has no schema for this */
	{ "{\"jobName\":\"j\",\"image\":\"i\",\"taskRoles\":[{\"name\":\"w\",\"command\":"
	  "\"x\"}],\"extras\":{\"hivedScheduler\":{\"jobPriorityClass\":\"high\"}}}",
	  "extras.hivedScheduler.jobPriorityClass: must be one of crit, prod, test, oppo, "
	  "is \"high\"\n" },
	{ "{\"jobName\":\"j\",\"image\":\"i\",\"taskRoles\":[{\"name\":\"w\",\"command\":"
	  "\"x\"}],\"extras\":{\"hivedScheduler\":{\"gangReleaseEnable\":1}}}",
	  "gangReleaseEnable: must be true or false, is an integer\n" },
	{ "{\"jobName\":\"j\",\"image\":\"i\",\"taskRoles\":[{\"name\":\"w\",\"command\":"
	  "\"x\"}],\"extras\":{\"hivedScheduler\":{\"taskRoles\":{\"w\":{\"skuType\":7}}}}"
	  "}",
	  "taskRoles.w.skuType: must be text, is an integer\n" },
	{ "{\"jobName\":\"j\",\"image\":\"i\",\"taskRoles\":[{\"name\":\"w\",\"command\":"
	  "\"x\"}],\"extras\":{\"hivedScheduler\":{\"taskRoles\":{\"v\":{}}}}}",
	  "taskRoles.v: Taskrole v does not exist.\n" },
};

TEST(test_hived_options_that_do_not_fit_are_refused)
{
	BENCH(b);
	for (size_t i = 0; i < ARRAY_SIZE(REFUSED); i++)
		assert_refused(&b, REFUSED[i].text, REFUSED[i].line);
}

/* Jobs of exactly the quota, without a gang, opportunistic ones, and those of a cluster without a
 * quota. */
TEST(test_jobs_within_the_quota_are_accepted)
{
	static const char *const TEXTS[] = {
		HEAD ROLE("a", ASKS(1, 1, 1) ", instances: 4")
		    ROLE("b", ASKS(1, 1, 4) ", instances: 2"),
		HEAD ROLE("a", ASKS(1, 1, 1) ", instances: 13") "extras: {gangAllocation: false}\n",
		HEAD ROLE("a", ASKS(1, 1, 0) ", instances: 13") HIVED("jobPriorityClass: oppo"),
		HEAD ROLE("a", ASKS(1, 1, 0) ", instances: 13") VC("unheard-of"),
	};
	BENCH(b);
	for (size_t i = 0; i < ARRAY_SIZE(TEXTS); i++)
		assert_cells(&b, TEXTS[i], 1);
}

/* The status of a virtual cluster takes precedence over its configuration. */
TEST(test_status_of_a_cluster_limits_its_jobs)
{
	BENCH(b);
	b.facts.hived_status =
	    status(&b, "{\"default\":[{\"leafCellType\":\"CPU\",\"cellChildren\":[{},{}]}]}");
	assert_cells(&b, HEAD ROLE("w", ASKS(4, 1, 0)), 2);
	assert_refused(&b, HEAD ROLE("w", ASKS(5, 1, 0)),
	               "Job requests 3 SKUs, exceeds maximum 2 SKUs in VC default.\n");
	assert_refused(&b, HEAD ROLE("w", ASKS(1, 1, 1)) HIVED("taskRoles: {w: {skuType: K80}}"),
	               "virtual cluster default has no SKU type `K80`; it has CPU\n");
}

/* A user without access to a virtual cluster does not learn its size. */
TEST(test_forbidden_clusters_reveal_no_quota)
{
	BENCH(b);
	b.facts.any_virtual_cluster = false;
	assert_null(framework(&b, HEAD ROLE("w", ASKS(1, 1, 1) ", instances: 99")));
	assert_int_equal(b.e.http, 403);
	assert_int_equal(b.e.notes.n, 1);
}

/* ---- pods ------------------------------------------------------------------------------------ */

static const char V1[] = "{\"jobName\":\"j\",\"image\":\"i\",\"jobEnvs\":{\"A\":\"1\"%s},"
			 "\"taskRoles\":[{\"name\":\"w\",\"command\":\"x\",\"gpuNumber\":1}]}";

static json_t *app(json_t *framework)
{
	json_t *pod_spec = json_object_get(pod(framework, 0), "spec");
	return json_array_get(json_object_get(pod_spec, "containers"), 0);
}

/* The elements of env from the end: "NAME=value", or "NAME<-path". */
static const char *env_from_end(struct bench *b, json_t *framework, size_t i)
{
	json_t *all = json_object_get(app(framework), "env");
	json_t *one = json_array_get(all, json_array_size(all) - 1 - i);
	const char *name = json_string_value(json_object_get(one, "name"));
	const char *value = json_string_value(json_object_get(one, "value"));
	json_t *from = json_object_get(json_object_get(one, "valueFrom"), "fieldRef");
	const char *path = json_string_value(json_object_get(from, "fieldPath"));
	return arena_printf(&b->a, "%s%s%s", name, value ? "=" : "<-", value ? value : path);
}

TEST(test_pods_have_the_scheduler_and_its_devices)
{
	static const char *const TEXTS[] = { HEAD ROLE("w", ASKS(1, 1, 1)),
		                             HEAD ROLE("w", ASKS(1, 1, 0)) };
	for (int i = 0; i < 4; i++) {
		BENCH(b);
		bool gpu = i % 2 == 0;
		b.set.profile = i < 2 ? PROFILE_PLAIN : PROFILE_OPENPAI;
		b.set.hived_scheduler = "bees";
		b.set.hived_device_env = "FIRST,SECOND";
		OBJECT_AUTO *f = framework(&b, TEXTS[!gpu]);
		assert_non_null(f);
		json_t *limits = json_object_get(json_object_get(app(f), "resources"), "limits");
		const char *enable = "hivedscheduler.microsoft.com/pod-scheduling-enable";
		assert_int_equal(json_integer_value(json_object_get(limits, enable)), 1);
		assert_null(json_object_get(limits, "nvidia.com/gpu"));
		assert_string_equal(json_string_value(json_object_get(
					json_object_get(pod(f, 0), "spec"), "schedulerName")),
		                    "bees-ds-default");
		const char *path =
		    "metadata.annotations['hivedscheduler.microsoft.com/pod-leaf-cell-isolation']";
		const char *says = gpu ? arena_printf(&b.a, "<-%s", path) : "=none";
		assert_string_equal(env_from_end(&b, f, 0), arena_printf(&b.a, "SECOND%s", says));
		assert_string_equal(env_from_end(&b, f, 1), arena_printf(&b.a, "FIRST%s", says));
		assert_string_not_equal(env_from_end(&b, f, 2), "NVIDIA_VISIBLE_DEVICES=none");
	}
}

/* v1 jobs may set variables, but not these. */
TEST(test_device_variables_are_reserved_for_hived)
{
	BENCH(b);
	b.set.hived_device_env = "GIVEN,TAKEN";
	OBJECT_AUTO *f = framework(&b, arena_printf(&b.a, V1, ",\"GIVE\":\"1\",\"TAKEN2\":\"1\""));
	assert_non_null(f);
	assert_refused(&b, arena_printf(&b.a, V1, ",\"TAKEN\":\"0\""),
	               "jobEnvs.TAKEN: is reserved and cannot be set\n");
	assert_refused(&b, arena_printf(&b.a, V1, ",\"GIVEN\":\"0\""),
	               "jobEnvs.GIVEN: is reserved and cannot be set\n");
}

/* An API server refuses pods with an empty scheduler name. */
TEST(test_settings_with_bad_names_are_refused)
{
	static const struct {
		const char *scheduler, *variables;
		bool ok;
	} CASES[] = {
		{ "s", "", true },      { "s", "A", true },   { "s", "A,_B2", true },
		{ "", "A", false },     { "s", ",A", false }, { "s", "A,", false },
		{ "s", "A,,B", false }, { "s", "1A", false }, { "s", "A B", false },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		BENCH(b);
		b.set.hived_scheduler = CASES[i].scheduler;
		b.set.hived_device_env = CASES[i].variables;
		struct translator *t = translator_new(&b.set, NULL, &b.e);
		assert_int_equal(t != NULL, CASES[i].ok);
		assert_int_equal(b.e.http, CASES[i].ok ? 0 : 500);
		translator_free(t);
	}
}

/* The high byte is 126 less the priority, as in OpenPAI. */
TEST(test_priority_is_computed_as_openpai_does)
{
	static const struct {
		const char *text;
		json_int_t value;
	} CASES[] = {
		{ HEAD ROLE("w", ASKS(1, 1, 1)), -((116 << 24) + 1) },
		{ HEAD ROLE("w", ASKS(1, 1, 1)) HIVED("jobPriorityClass: crit"), -((6 << 24) + 1) },
		{ HEAD ROLE("w", ASKS(1, 1, 0)) HIVED("jobPriorityClass: oppo"),
		  -((127 << 24) + 1) },
	};
	BENCH(b);
	b.facts.submitted_ms = 16000;
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		json_decref(framework(&b, CASES[i].text));
		assert_int_equal(b.e.http, 0);
		struct span body = b.out.v[0].body;
		json_auto_t *v = json_loadb(body.p, body.n, 0, NULL);
		assert_int_equal(json_integer_value(json_object_get(v, "value")), CASES[i].value);
	}
}

/* The class is an annotation with every scheduler, unchanged, and counts in the limit of
 * annotations. */
TEST(test_priority_annotation_keeps_the_class)
{
	enum {
		OTHERS = sizeof("j") - 1 + 512,
		OWN = sizeof("rest-lit/job-priority-classcrit") - 1
	};
	static const char *const TEXTS[] = { HEAD ROLE("w", ASKS(1, 1, 1))
		                                 HIVED("jobPriorityClass: crit"),
		                             HEAD ROLE("w", ASKS(1, 1, 1)) HIVED("") };
	BENCH(b);
	for (int hived = 1; hived >= 0; hived--) {
		b.set.hived = hived;
		b.facts.hived = hived ? b.facts.hived : NULL;
		for (size_t i = 0; i < ARRAY_SIZE(TEXTS); i++) {
			b.set.max_annotations = OTHERS + strlen(TEXTS[i]) + (i == 0 ? OWN : 0);
			OBJECT_AUTO *f = framework(&b, TEXTS[i]);
			const json_t *all =
			    json_object_get(json_object_get(f, "metadata"), "annotations");
			const json_t *class = json_object_get(all, "rest-lit/job-priority-class");
			assert_non_null(all);
			if (i == 0)
				assert_string_equal(json_string_value(class), "crit");
			else
				assert_null(class);
			b.set.max_annotations--;
			assert_null(framework(&b, TEXTS[i]));
			assert_int_equal(b.e.http, 400);
		}
	}
}

/* With another scheduler, only the text of the job is checked, and there is a warning. */
TEST(test_jobs_without_hived_give_a_warning)
{
	BENCH(b);
	b.facts.hived = NULL;
	b.set.hived = false;
	OBJECT_AUTO *f = framework(&b, HEAD ROLE("w", ASKS(1, 1, 1)) HIVED(
					   "taskRoles: {w: {skuType: P100, pinnedCellId: x}}"));
	assert_non_null(f);
	assert_null(spec(f, 0));
	assert_null(json_object_get(json_object_get(pod(f, 0), "spec"), "schedulerName"));
	assert_int_equal(b.warnings.n, 1);
	assert_string_equal(b.warnings.v[0].msg, "is ignored: the scheduler here is not HiveD");
	b.facts.hived = config(&b, CONFIG);
	b.set.hived = true;
	json_decref(framework(&b, HEAD ROLE("w", ASKS(1, 1, 1)) HIVED("jobPriorityClass: test")));
	assert_int_equal(b.warnings.n, 0);
}
