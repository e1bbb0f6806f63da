/* The rules of the controller against an API server that is played answer by answer: the fence,
 * lost answers, absences, strays, foreign writers, rights and quotas. */
#include "tests/unit/base/cmocka.h"

#include "base/json/scan.h"
#include "jobs/store/reply.h"
#include "k8s/controller/rules/rules.h"

enum { START_S = 1600000000, SCENE_TEXT = 1 << 16 };

/* The rules, and the Framework `job` of two tasks as the API server has it. */
struct scene {
	struct framework_config *config;
	struct rules_counts counts;
	struct rules *r;
	struct rules_time now;
	uint64_t random;
	int64_t version;
	struct str status;
	char annotation[64];
	const char *spec;
	char reasons[256]; /* of notices */
	char told[256];    /* the message of the last one */
	struct store_request request;
};

static uint64_t scene_random(void *arg)
{
	struct scene *s = arg;
	return s->random = s->random * 6364136223846793005u + 1442695040888963407u;
}

static void scene_notice(void *arg, const struct rules_notice *n)
{
	struct scene *s = arg;
	size_t used = strlen(s->reasons);
	assert_string_equal(n->name, "job");
	(void)snprintf(s->reasons + used, sizeof(s->reasons) - used, "%s,", n->reason);
	(void)snprintf(s->told, sizeof(s->told), "%s", n->message);
}

#define SPEC_OF(type, number, more)                                                                \
	"{\"executionType\":\"" type "\",\"taskRoles\":[{\"name\":\"w\",\"taskNumber\":" number    \
	",\"task\":{" more "\"pod\":{\"spec\":{\"containers\":[{\"name\":\"main\"}]}}}}]}"
static const char SPEC[] = SPEC_OF("Start", "2", "");
static const char STOPPED[] = SPEC_OF("Stop", "2", "");
static const char SCALED[] = SPEC_OF("Start", "1", "");

static const char *scene_framework(struct scene *s, struct arena *a)
{
	return arena_printf(a,
	                    "{\"metadata\":{\"name\":\"job\",\"namespace\":\"ns\",\"uid\":\"fw\","
	                    "\"resourceVersion\":\"%lld\",\"annotations\":{\"%s\":\"%s\"}},"
	                    "\"spec\":%s,\"status\":%s}",
	                    (long long)s->version, RULES_ANNOTATION, s->annotation, s->spec,
	                    s->status.n ? str_c(&s->status) : "null");
}

static void scene_set_status(struct scene *s, const char *text)
{
	str_done(&s->status);
	s->status = STR_INIT(SCENE_TEXT);
	str_puts(&s->status, text);
}

/* The Framework has changed. */
static void scene_show(struct scene *s)
{
	ARENA_AUTO a = { 0 };
	s->version++;
	rules_put(s->r, &s->now, KIND_FRAMEWORK, span_of(scene_framework(s, &a)));
}

static void scene_lead(struct scene *s, const char *identity)
{
	static const enum object_kind KINDS[] = { KIND_FRAMEWORK, KIND_CONFIGMAP, KIND_POD };
	const struct rules_settings set = { .config = s->config,
		                            .identity = identity,
		                            .counts = &s->counts,
		                            .random = scene_random,
		                            .notice = scene_notice,
		                            .arg = s };
	s->r = rules_new(&set);
	for (size_t i = 0; i < ARRAY_SIZE(KINDS); i++)
		rules_list_begin(s->r, KINDS[i]);
	scene_show(s);
	assert_false(rules_next(s->r, &s->now, &s->request)); /* not all is listed */
	for (size_t i = 0; i < ARRAY_SIZE(KINDS); i++)
		rules_list_end(s->r, &s->now, KINDS[i]);
}

static struct scene *scene_new(void)
{
	ERR_AUTO e = { 0 };
	struct scene *s = xcalloc(1, sizeof(*s));
	s->config = framework_config_read(SPAN(""), &e);
	s->now = (struct rules_time){ 1000, START_S * 1000LL };
	s->random = 7;
	s->version = 10;
	s->status = STR_INIT(SCENE_TEXT);
	s->spec = SPEC;
	scene_lead(s, "first");
	return s;
}

static void scene_end(struct scene *s)
{
	rules_free(s->r);
	framework_config_free(s->config);
	str_done(&s->status);
	free(s);
}

static void scene_wait(struct scene *s, int64_t ms)
{
	s->now.ms += ms;
	s->now.wall_ms += ms;
}

/* The next request, which has this verb and kind; it is in s->request. */
static void *scene_expect(struct scene *s, enum store_verb verb, enum object_kind kind)
{
	assert_true(rules_next(s->r, &s->now, &s->request));
	assert_int_equal(s->request.verb, verb);
	assert_int_equal(s->request.kind, kind);
	return s->request.arg;
}

static void scene_quiet(struct scene *s)
{
	assert_false(rules_next(s->r, &s->now, &s->request));
}

static void scene_answer(struct scene *s, void *request, enum store_outcome outcome,
                         const char *body)
{
	struct store_reply reply = { .outcome = outcome,
		                     .body = span_of(body),
		                     .message = SPAN("why") };
	ARENA_AUTO a = { 0 };
	reply.uid = scan_text(scan_path(reply.body, "metadata", "uid"), &a);
	reply.status = outcome == STORE_OK          ? 200
	               : outcome == STORE_NOT_FOUND ? 404
	               : outcome == STORE_EXISTS    ? 409
	               : outcome == STORE_REFUSED   ? 422
	                                            : 0;
	rules_answer(s->r, &s->now, request, &reply);
}

/* Executes the body of a PATCH as the API server does; false: a test has failed. */
static bool scene_execute(struct scene *s, struct span body)
{
	json_t *list = json_loadb(body.p, body.n, 0, NULL);
	size_t i;
	json_t *op;
	bool fits = true;
	json_array_foreach (list, i, op) {
		const char *path = reply_text(op, "path");
		json_t *value = json_object_get(op, "value");
		bool test = strcmp(reply_text(op, "op"), "test") == 0;
		const char *text = json_string_value(value);
		char version[24];
		(void)snprintf(version, sizeof(version), "%lld", (long long)s->version);
		if (strcmp(path, "/metadata/uid") == 0)
			fits = fits && strcmp(text, "fw") == 0;
		else if (strcmp(path, "/metadata/resourceVersion") == 0)
			fits = fits && strcmp(text, version) == 0;
		else if (strstr(path, "rest-lit~1controller") && test)
			fits = fits && strcmp(text, s->annotation) == 0;
		else if (strstr(path, "rest-lit~1controller") && fits)
			(void)snprintf(s->annotation, sizeof(s->annotation), "%s", text);
		else if (strcmp(path, "/status") == 0 && fits) {
			char *status = json_dumps(value, JSON_COMPACT);
			str_done(&s->status);
			s->status = STR_INIT(SCENE_TEXT);
			str_puts(&s->status, status);
			free(status);
		}
	}
	json_decref(list);
	s->version += fits;
	return fits;
}

/* Executes s->request, a PATCH, and answers. */
static void scene_patch(struct scene *s)
{
	ARENA_AUTO a = { 0 };
	void *request = s->request.arg;
	bool fits = scene_execute(s, s->request.body[0]);
	scene_answer(s, request, fits ? STORE_OK : STORE_REFUSED, scene_framework(s, &a));
}

static void scene_store(struct scene *s)
{
	(void)scene_expect(s, STORE_PATCH, KIND_FRAMEWORK);
	scene_patch(s);
}

static const char *scene_pod(struct arena *a, int index, const char *uid, const char *more)
{
	return arena_printf(
	    a,
	    "{\"metadata\":{\"name\":\"job-w-%d\",\"namespace\":\"ns\",\"uid\":\"%s\","
	    "\"labels\":{\"FC_FRAMEWORK_NAME\":\"job\"},\"ownerReferences\":[{"
	    "\"controller\":true,\"uid\":\"cm\"}]%s}}",
	    index, uid, more);
}

static const char CONFIGMAP[] =
    "{\"metadata\":{\"name\":\"job-attempt\",\"namespace\":\"ns\",\"uid\":\"cm\",\"labels\":"
    "{\"FC_FRAMEWORK_NAME\":\"job\"},\"ownerReferences\":[{\"controller\":true,\"uid\":\"fw\"}]}}";

/* Until the first pods are asked for. */
static void scene_begin(struct scene *s)
{
	scene_store(s);
	scene_answer(s, scene_expect(s, STORE_CREATE, KIND_CONFIGMAP), STORE_OK, CONFIGMAP);
	scene_store(s);
}

/* Until both pods exist, and the status has their uids. */
static void scene_pods(struct scene *s)
{
	ARENA_AUTO a = { 0 };
	scene_begin(s);
	void *first = scene_expect(s, STORE_CREATE, KIND_POD);
	void *second = scene_expect(s, STORE_CREATE, KIND_POD);
	scene_quiet(s); /* their answers come first */
	scene_answer(s, first, STORE_OK, scene_pod(&a, 0, "p0", ""));
	scene_answer(s, second, STORE_OK, scene_pod(&a, 1, "p1", ""));
	scene_store(s);
	scene_quiet(s);
}

static bool scene_stored(struct scene *s, const char *text)
{
	return strstr(str_c(&s->status), text) != NULL;
}

TEST(test_rules_store_each_state_before_the_requests_that_it_announces)
{
	struct scene *s = scene_new();
	scene_pods(s);
	assert_true(scene_stored(s, "\"podUID\":\"p0\"") && scene_stored(s, "\"podUID\":\"p1\""));
	assert_string_equal(s->annotation, "first");
	assert_int_equal(counter_get(&s->counts.taken), 1);
	assert_int_equal(counter_get(&s->counts.writes), 3);
	scene_end(s);
}

TEST(test_rules_let_no_stale_leader_write)
{
	ARENA_AUTO a = { 0 };
	struct scene *s = scene_new();
	scene_pods(s);
	(void)snprintf(s->annotation, sizeof(s->annotation), "second");
	scene_show(s);
	assert_int_equal(counter_get(&s->counts.fenced), 1);
	scene_quiet(s);
	scene_wait(s, 6000); /* it is still ours by the Lease, so it is taken again when needed */
	rules_put(s->r, &s->now, KIND_POD,
	          span_of(scene_pod(&a, 0, "p0", ",\"resourceVersion\":\"99\"")));
	s->spec = STOPPED;
	scene_show(s);
	scene_store(s);
	assert_string_equal(s->annotation, "first");
	assert_true(scene_stored(s, "-210"));
	scene_end(s);
}

TEST(test_rules_write_nothing_if_the_annotation_has_changed_before_the_event_comes)
{
	ARENA_AUTO a = { 0 };
	struct scene *s = scene_new();
	scene_pods(s);
	(void)snprintf(s->annotation, sizeof(s->annotation), "second");
	s->version++;
	s->spec = STOPPED;
	rules_put(s->r, &s->now, KIND_POD,
	          span_of(arena_printf(
		      &a, "{\"metadata\":{\"name\":\"job-w-0\",\"namespace\":\"ns\",\"uid\":"
			  "\"p0\",\"labels\":{\"FC_FRAMEWORK_NAME\":\"job\"},"
			  "\"ownerReferences\":[{\"controller\":true,\"uid\":\"cm\"}]},"
			  "\"status\":{\"phase\":\"Succeeded\"}}")));
	scene_store(s); /* refused */
	void *read = scene_expect(s, STORE_GET, KIND_FRAMEWORK);
	scene_answer(s, read, STORE_OK, scene_framework(s, &a));
	scene_quiet(s);
	assert_false(scene_stored(s, "Succeeded"));
	assert_string_equal(s->annotation, "second");
	assert_int_equal(counter_get(&s->counts.fenced), 1);
	scene_end(s);
}

/* A pod has ended, so the status is to be written. */
static void scene_end_pod(struct scene *s, int index, const char *uid)
{
	ARENA_AUTO a = { 0 };
	rules_put(s->r, &s->now, KIND_POD,
	          span_of(scene_pod(&a, index, uid, "},\"status\":{\"phase\":\"Succeeded\"")));
}

TEST(test_rules_write_nothing_that_replaces_a_newer_status)
{
	ARENA_AUTO a = { 0 };
	struct scene *s = scene_new();
	scene_pods(s);
	scene_end_pod(s, 0, "p0");
	void *lost = scene_expect(s, STORE_PATCH, KIND_FRAMEWORK);
	struct span late = arena_span(&a, s->request.body[0]);
	scene_answer(s, lost, STORE_AMBIGUOUS, "");
	scene_wait(s, 1000);
	scene_store(s);
	FREE_AUTO char *stored = xstrdup(str_c(&s->status));
	assert_false(scene_execute(s, late));
	assert_string_equal(str_c(&s->status), stored);
	scene_end(s);
}

/* By a user, without an event yet; or by the first try of the write, whose answer was lost. */
TEST(test_rules_repeat_a_write_if_another_version_was_stored_meanwhile)
{
	for (int lost = 0; lost < 2; lost++) {
		ARENA_AUTO a = { 0 };
		struct scene *s = scene_new();
		scene_pods(s);
		scene_end_pod(s, 0, "p0");
		if (lost) {
			void *first = scene_expect(s, STORE_PATCH, KIND_FRAMEWORK);
			assert_true(scene_execute(s, s->request.body[0]));
			scene_answer(s, first, STORE_AMBIGUOUS, "");
			scene_wait(s, 1000);
		} else {
			s->version++;
		}
		scene_store(s); /* refused */
		scene_answer(s, scene_expect(s, STORE_GET, KIND_FRAMEWORK), STORE_OK,
		             scene_framework(s, &a));
		scene_store(s);
		assert_true(scene_stored(s, "Succeeded"));
		assert_string_equal(s->reasons, "");
		scene_end(s);
	}
}

TEST(test_rules_wait_if_the_api_server_refuses_the_status_itself)
{
	ARENA_AUTO a = { 0 };
	struct scene *s = scene_new();
	scene_pods(s);
	scene_end_pod(s, 0, "p0");
	scene_answer(s, scene_expect(s, STORE_PATCH, KIND_FRAMEWORK), STORE_REFUSED, "");
	scene_answer(s, scene_expect(s, STORE_GET, KIND_FRAMEWORK), STORE_OK,
	             scene_framework(s, &a));
	assert_string_equal(s->reasons, "Unstorable,");
	scene_wait(s, 59000);
	scene_quiet(s);
	scene_wait(s, 2000);
	scene_store(s);
	assert_true(scene_stored(s, "Succeeded"));
	scene_end(s);
}

TEST(test_rules_begin_anew_with_a_framework_of_a_restored_etcd)
{
	ARENA_AUTO a = { 0 };
	struct scene *s = scene_new();
	scene_pods(s);
	scene_end_pod(s, 0, "p0");
	s->version = 5;
	scene_store(s); /* refused */
	scene_answer(s, scene_expect(s, STORE_GET, KIND_FRAMEWORK), STORE_OK,
	             scene_framework(s, &a));
	scene_store(s);
	assert_int_equal(counter_get(&s->counts.taken), 2);
	scene_end(s);
}

/* What the scene does until nothing is asked for but, perhaps, `verb` of `kind`; at most for some
 * minutes. */
static bool scene_comes_to(struct scene *s, enum store_verb verb, enum object_kind kind)
{
	ARENA_AUTO a = { 0 };
	for (int i = 0; i < 300; i++) {
		if (!rules_next(s->r, &s->now, &s->request))
			scene_wait(s, 1000);
		else if (s->request.verb == verb && s->request.kind == kind)
			return true;
		else if (s->request.verb == STORE_PATCH)
			scene_patch(s);
		else if (s->request.kind == KIND_FRAMEWORK)
			scene_answer(s, s->request.arg, STORE_OK, scene_framework(s, &a));
		else
			scene_answer(s, s->request.arg, STORE_NOT_FOUND, "{}");
	}
	return false;
}

TEST(test_rules_adopt_a_pod_whose_post_has_lost_its_answer)
{
	ARENA_AUTO a = { 0 };
	struct scene *s = scene_new();
	scene_begin(s);
	void *first = scene_expect(s, STORE_CREATE, KIND_POD);
	json_t *body = json_loadb(s->request.body[0].p, s->request.body[0].n, 0, NULL);
	const char *task = reply_text(
	    json_object_get(json_object_get(body, "metadata"), "annotations"), "FC_TASK_UID");
	const char *made = scene_pod(
	    &a, 0, "p0",
	    arena_printf(&a,
	                 ",\"annotations\":{\"FC_TASK_UID\":\"%s\",\"FC_TASK_ATTEMPT_ID\":\"0\"}",
	                 task));
	json_decref(body);
	scene_answer(s, scene_expect(s, STORE_CREATE, KIND_POD), STORE_OK,
	             scene_pod(&a, 1, "p1", ""));
	scene_answer(s, first, STORE_AMBIGUOUS, "");
	scene_quiet(s); /* the Framework is frozen until a GET settles it */
	scene_wait(s, 1000);
	void *settle = scene_expect(s, STORE_GET, KIND_POD);
	assert_true(s->request.whole); /* its phase counts, too */
	/* The POST was executed after the GET, and the event came before the answer of the GET. */
	rules_put(s->r, &s->now, KIND_POD, span_of(made));
	scene_answer(s, settle, STORE_NOT_FOUND, "");
	scene_store(s);
	scene_wait(s, 1000);
	scene_answer(s, scene_expect(s, STORE_GET, KIND_POD), STORE_OK, made);
	scene_store(s);
	assert_true(scene_stored(s, "\"podUID\":\"p0\""));
	assert_int_equal(counter_get(&s->counts.adopted), 1);
	scene_end(s);
}

/* A list that began after a GET was sent lacks the pod: the answer of the GET is older. */
TEST(test_rules_doubt_an_object_of_an_answer_that_is_older_than_a_list)
{
	ARENA_AUTO a = { 0 };
	struct scene *s = scene_new();
	scene_begin(s);
	void *first = scene_expect(s, STORE_CREATE, KIND_POD);
	scene_answer(s, scene_expect(s, STORE_CREATE, KIND_POD), STORE_OK,
	             scene_pod(&a, 1, "p1", ""));
	scene_answer(s, first, STORE_AMBIGUOUS, "");
	scene_wait(s, 1000);
	void *settle = scene_expect(s, STORE_GET, KIND_POD);
	rules_list_begin(s->r, KIND_POD);
	rules_put(s->r, &s->now, KIND_POD, span_of(scene_pod(&a, 1, "p1", "")));
	rules_list_end(s->r, &s->now, KIND_POD);
	scene_answer(s, settle, STORE_OK,
	             scene_pod(&a, 0, "late", ",\"deletionTimestamp\":\"2026-01-01T00:00:00Z\""));
	assert_true(scene_comes_to(s, STORE_GET, KIND_POD));
	scene_answer(s, s->request.arg, STORE_NOT_FOUND, "{}");
	assert_true(scene_comes_to(s, STORE_CREATE, KIND_POD));
	scene_answer(s, s->request.arg, STORE_OK, scene_pod(&a, 0, "p0", ""));
	scene_end(s);
}

TEST(test_rules_infer_no_absence_from_a_list)
{
	ARENA_AUTO a = { 0 };
	struct scene *s = scene_new();
	scene_pods(s);
	rules_list_begin(s->r, KIND_POD);
	rules_put(s->r, &s->now, KIND_POD, span_of(scene_pod(&a, 0, "p0", "")));
	rules_list_end(s->r, &s->now, KIND_POD);
	void *look = scene_expect(s, STORE_GET, KIND_POD);
	assert_string_equal(s->request.name, "job-w-1");
	scene_answer(s, look, STORE_OK, scene_pod(&a, 1, "p1", ""));
	scene_quiet(s);
	assert_int_equal(counter_get(&s->counts.absences), 0);
	rules_list_begin(s->r, KIND_POD);
	rules_put(s->r, &s->now, KIND_POD, span_of(scene_pod(&a, 0, "p0", "")));
	rules_list_end(s->r, &s->now, KIND_POD);
	look = scene_expect(s, STORE_GET, KIND_POD);
	scene_answer(s, look, STORE_NOT_FOUND, "");
	scene_store(s);
	assert_true(scene_stored(s, "-101"));
	assert_int_equal(counter_get(&s->counts.absences), 1);
	scene_end(s);
}

TEST(test_rules_delete_a_late_pod_that_is_in_no_task)
{
	ARENA_AUTO a = { 0 };
	struct scene *s = scene_new();
	scene_pods(s);
	rules_put(s->r, &s->now, KIND_POD, span_of(scene_pod(&a, 7, "late", "")));
	void *stray = scene_expect(s, STORE_DELETE, KIND_POD);
	assert_string_equal(s->request.uid, "late");
	scene_answer(s, stray, STORE_OK, "{}");
	assert_int_equal(counter_get(&s->counts.strays), 1);
	scene_end(s);
}

/* The next DELETE; statuses are stored before it, at most for a minute. */
static void *scene_expect_removal(struct scene *s)
{
	for (int i = 0; i < 60; i++) {
		if (!rules_next(s->r, &s->now, &s->request))
			scene_wait(s, 1000);
		else if (s->request.verb == STORE_PATCH)
			scene_patch(s);
		else
			break;
	}
	assert_int_equal(s->request.verb, STORE_DELETE);
	return s->request.arg;
}

TEST(test_rules_force_a_removal_whose_event_comes_before_its_answer)
{
	ARENA_AUTO a = { 0 };
	struct scene *s = scene_new();
	scene_pods(s);
	s->spec = SPEC_OF("Start", "1", "\"podGracefulDeletionTimeoutSec\":0,");
	scene_show(s);
	void *graceful = scene_expect_removal(s);
	assert_false(s->request.force);
	rules_put(s->r, &s->now, KIND_POD,
	          span_of(scene_pod(&a, 1, "p1",
	                            ",\"deletionTimestamp\":\"2020-09-13T12:26:40Z\","
	                            "\"deletionGracePeriodSeconds\":30")));
	scene_answer(s, graceful, STORE_OK, "{}");
	void *forced = scene_expect_removal(s);
	assert_true(s->request.force);
	assert_string_equal(s->request.uid, "p1");
	scene_answer(s, forced, STORE_BUSY, "");
	scene_end(s);
}

/* A GET has found the pod, then the pod went, and its event comes before the answer. */
TEST(test_rules_believe_an_event_before_the_answer_of_an_earlier_get)
{
	ARENA_AUTO a = { 0 };
	struct scene *s = scene_new();
	scene_pods(s);
	s->spec = SCALED;
	scene_show(s);
	scene_answer(s, scene_expect_removal(s), STORE_CONFLICT, "");
	scene_wait(s, 1000);
	void *look = scene_expect(s, STORE_GET, KIND_POD);
	rules_gone(
	    s->r, &s->now, KIND_POD,
	    span_of(scene_pod(&a, 1, "p1", ",\"deletionTimestamp\":\"2020-09-13T12:26:40Z\"")));
	scene_answer(s, look, STORE_OK, scene_pod(&a, 1, "p1", ""));
	scene_store(s);
	scene_end(s);
}

/* Expects removals of this uid after about so many seconds each, and answers them. */
static void scene_expect_repeats(struct scene *s, const char *uid, const int64_t *seconds, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		scene_wait(s, seconds[i] * 1000);
		while (rules_next(s->r, &s->now, &s->request) && s->request.verb == STORE_PATCH)
			scene_patch(s); /* it may have waited for its pace */
		scene_quiet(s);
		scene_wait(s, seconds[i] * 100);
		assert_true(rules_next(s->r, &s->now, &s->request));
		assert_int_equal(s->request.verb, STORE_DELETE);
		assert_string_equal(s->request.uid, uid);
		scene_answer(s, s->request.arg, STORE_OK, "{}");
	}
}

TEST(test_rules_repeat_a_removal_without_effect)
{
	static const int64_t SECONDS[] = { 10, 20, 40, 80, 160, 295, 295, 295 };
	ARENA_AUTO a = { 0 };
	struct scene *s = scene_new();
	scene_pods(s);
	s->spec = SCALED;
	scene_show(s);
	scene_answer(s, scene_expect_removal(s), STORE_OK, "{}");
	scene_expect_repeats(s, "p1", SECONDS, ARRAY_SIZE(SECONDS));
	/* Another leader knows it from the status. */
	rules_free(s->r);
	scene_lead(s, "second");
	rules_put(s->r, &s->now, KIND_CONFIGMAP, span_of(CONFIGMAP));
	rules_put(s->r, &s->now, KIND_POD, span_of(scene_pod(&a, 0, "p0", "")));
	rules_put(s->r, &s->now, KIND_POD, span_of(scene_pod(&a, 1, "p1", "")));
	void *again = scene_expect_removal(s);
	assert_string_equal(s->request.uid, "p1");
	scene_answer(s, again, STORE_OK, "{}");
	/* It has an effect at last. */
	rules_put(
	    s->r, &s->now, KIND_POD,
	    span_of(scene_pod(&a, 1, "p1", ",\"deletionTimestamp\":\"2020-09-13T12:26:40Z\"")));
	for (int i = 0; i < 600; i++) {
		scene_wait(s, 1000);
		if (rules_next(s->r, &s->now, &s->request))
			scene_patch(s);
	}
	scene_end(s);
}

TEST(test_rules_repeat_the_removal_of_a_configmap_without_effect)
{
	static const int64_t SECONDS[] = { 10, 20 };
	struct scene *s = scene_new();
	scene_pods(s);
	s->spec = STOPPED;
	scene_show(s);
	void *first = scene_expect_removal(s);
	assert_string_equal(s->request.uid, "cm");
	scene_answer(s, first, STORE_OK, "{}");
	scene_expect_repeats(s, "cm", SECONDS, ARRAY_SIZE(SECONDS));
	scene_end(s);
}

TEST(test_rules_repeat_the_removal_of_a_stray_that_fails)
{
	static const int64_t SECONDS[] = { 10, 20 };
	ARENA_AUTO a = { 0 };
	struct scene *s = scene_new();
	scene_pods(s);
	rules_put(s->r, &s->now, KIND_POD, span_of(scene_pod(&a, 7, "late", "")));
	scene_answer(s, scene_expect_removal(s), STORE_BUSY, "");
	scene_wait(s, 11000);
	scene_answer(s, scene_expect(s, STORE_DELETE, KIND_POD), STORE_OK, "{}");
	scene_expect_repeats(s, "late", SECONDS, ARRAY_SIZE(SECONDS));
	assert_int_equal(counter_get(&s->counts.strays), 1);
	scene_end(s);
}

/* A late POST has made a ConfigMap after the end, or shortly before it; a DELETE has no effect. */
TEST(test_rules_remove_a_configmap_that_is_there_after_the_end)
{
	static const char LATE[] =
	    "{\"metadata\":{\"name\":\"job-attempt\",\"namespace\":\"ns\",\"uid\":"
	    "\"late\",\"ownerReferences\":[{\"controller\":true,\"uid\":\"fw\"}]}}";
	struct scene *s = scene_new();
	scene_pods(s);
	FREE_AUTO char *running = xstrdup(str_c(&s->status));
	s->spec = STOPPED;
	scene_show(s);
	assert_true(scene_comes_to(s, STORE_DELETE, KIND_CONFIGMAP));
	void *first = s->request.arg;
	rules_gone(s->r, &s->now, KIND_CONFIGMAP, span_of(CONFIGMAP));
	scene_answer(s, first, STORE_OK, "{}");
	assert_false(scene_comes_to(s, STORE_DELETE, KIND_CONFIGMAP));
	assert_true(scene_stored(s, "\"Completed\""));
	rules_put(s->r, &s->now, KIND_CONFIGMAP, span_of(LATE));
	for (int i = 0; i < 2; i++) {
		assert_true(scene_comes_to(s, STORE_DELETE, KIND_CONFIGMAP));
		assert_string_equal(s->request.uid, "late");
		scene_answer(s, s->request.arg, STORE_OK, "{}");
		scene_answer(s, scene_expect(s, STORE_GET, KIND_CONFIGMAP), STORE_OK, LATE);
	}
	rules_free(s->r); /* and the next leader */
	scene_lead(s, "second");
	rules_put(s->r, &s->now, KIND_CONFIGMAP, span_of(LATE));
	assert_true(scene_comes_to(s, STORE_DELETE, KIND_CONFIGMAP));
	scene_answer(s, s->request.arg, STORE_BUSY, "");
	/* Somebody replaces the end: the Framework is taken over before anything is asked for. */
	scene_set_status(s, running);
	scene_show(s);
	for (int i = 0; i < 60; i++) {
		if (!rules_next(s->r, &s->now, &s->request))
			scene_wait(s, 1000);
		else if (s->request.verb == STORE_GET)
			scene_answer(s, s->request.arg, STORE_NOT_FOUND, "{}");
		else
			break;
	}
	assert_int_equal(s->request.verb, STORE_PATCH);
	scene_answer(s, s->request.arg, STORE_AMBIGUOUS, "");
	scene_end(s);
}

/* The status names a pod that is gone, and the list lacks another one of its name. */
TEST(test_rules_ask_once_about_a_name_that_a_list_lacks)
{
	ARENA_AUTO a = { 0 };
	struct scene *s = scene_new();
	scene_pods(s);
	rules_gone(
	    s->r, &s->now, KIND_POD,
	    span_of(scene_pod(&a, 1, "p1", ",\"deletionTimestamp\":\"2026-01-01T00:00:00Z\"")));
	rules_put(s->r, &s->now, KIND_POD, span_of(scene_pod(&a, 1, "late", "")));
	rules_list_begin(s->r, KIND_POD);
	rules_put(s->r, &s->now, KIND_POD, span_of(scene_pod(&a, 0, "p0", "")));
	rules_list_end(s->r, &s->now, KIND_POD);
	assert_true(scene_comes_to(s, STORE_GET, KIND_POD));
	scene_answer(s, s->request.arg, STORE_NOT_FOUND, "{}");
	assert_false(scene_comes_to(s, STORE_GET, KIND_POD));
	assert_true(scene_stored(s, "-101"));
	scene_end(s);
}

/* The answer of a DELETE comes after the event that the pod is gone: a late pod of its name is
 * removed at once, not after the pause of a removal without effect. */
TEST(test_rules_remove_a_late_pod_of_a_name_that_was_just_freed)
{
	static const char ENDED[] = "},\"status\":{\"phase\":\"Succeeded\"";
	static const char DYING[] = ",\"deletionTimestamp\":\"2026-01-01T00:00:00Z\"";
	ARENA_AUTO a = { 0 };
	struct scene *s = scene_new();
	scene_pods(s);
	rules_put(s->r, &s->now, KIND_POD, span_of(scene_pod(&a, 1, "p1", ENDED)));
	void *removal = scene_expect_removal(s);
	rules_gone(s->r, &s->now, KIND_POD, span_of(scene_pod(&a, 1, "p1", DYING)));
	scene_answer(s, removal, STORE_OK, "{}");
	int64_t pause_ms = s->now.ms + 10000;
	scene_wait(s, 1000);
	while (rules_next(s->r, &s->now, &s->request))
		scene_patch(s); /* the task is completed */
	rules_put(s->r, &s->now, KIND_POD, span_of(scene_pod(&a, 1, "late", "")));
	removal = scene_expect_removal(s);
	assert_string_equal(s->request.uid, "late");
	assert_true(s->now.ms < pause_ms);
	scene_answer(s, removal, STORE_OK, "{}");
	scene_end(s);
}

TEST(test_rules_delete_nothing_foreign_for_a_forged_status)
{
	ARENA_AUTO a = { 0 };
	struct scene *s = scene_new();
	scene_pods(s);
	rules_free(s->r);
	/* The status names a pod that another controls. */
	char *status = xstrdup(str_c(&s->status));
	char *at = strstr(status, "\"podUID\":\"p0\"");
	at[strlen("\"podUID\":\"")] = 'x';
	scene_set_status(s, status);
	free(status);
	s->spec = STOPPED;
	scene_lead(s, "second");
	rules_put(s->r, &s->now, KIND_CONFIGMAP, span_of(CONFIGMAP));
	rules_put(s->r, &s->now, KIND_POD, span_of(scene_pod(&a, 1, "p1", "")));
	const char *foreign =
	    "{\"metadata\":{\"name\":\"job-w-0\",\"namespace\":\"ns\",\"uid\":\"x0\",\"labels\":"
	    "{\"FC_FRAMEWORK_NAME\":\"job\"},\"ownerReferences\":[{\"controller\":true,\"uid\":"
	    "\"other\"}]}}";
	rules_put(s->r, &s->now, KIND_POD, span_of(foreign));
	for (int i = 0; i < 40; i++) {
		scene_wait(s, 1000);
		if (!rules_next(s->r, &s->now, &s->request))
			continue;
		assert_false(s->request.verb == STORE_DELETE && strcmp(s->request.uid, "x0") == 0);
		scene_answer(s, s->request.arg, STORE_OK,
		             s->request.verb == STORE_GET ? foreign : scene_framework(s, &a));
	}
	scene_end(s);
}

TEST(test_rules_win_against_a_foreign_writer_after_a_pause)
{
	struct scene *s = scene_new();
	scene_pods(s);
	scene_set_status(s, "{\"state\":\"Completed\"}");
	scene_show(s);
	scene_quiet(s);
	assert_string_equal(s->reasons, "ForeignWriter,");
	scene_wait(s, 2000);
	scene_store(s);
	assert_true(scene_stored(s, "\"podUID\":\"p0\""));
	scene_end(s);
}

TEST(test_rules_do_not_blame_the_user_for_a_missing_right)
{
	/* The second one is of the plugin OwnerReferencesPermissionEnforcement. */
	static const char *const REFUSALS[][2] = {
		{ "{\"kind\":\"Status\",\"message\":\"pods is forbidden\"}",
		  "{\"status\":{\"allowed\":false}}" },
		{ "{\"kind\":\"Status\",\"message\":\"pods \\\"p\\\" is forbidden: cannot set "
		  "blockOwnerDeletion if an ownerReference refers to a resource you can't set "
		  "finalizers on\"}",
		  "{\"status\":{\"allowed\":true}}" },
	};
	struct scene *s = scene_new();
	scene_begin(s);
	void *pods[] = { scene_expect(s, STORE_CREATE, KIND_POD),
		         scene_expect(s, STORE_CREATE, KIND_POD) };
	for (size_t i = 0; i < ARRAY_SIZE(pods); i++)
		rules_answer(s->r, &s->now, pods[i],
		             &(struct store_reply){ .outcome = STORE_REFUSED,
		                                    .status = 403,
		                                    .body = span_of(REFUSALS[i][0]),
		                                    .message = SPAN("") });
	for (size_t i = 0; i < ARRAY_SIZE(pods); i++)
		scene_answer(s, scene_expect(s, STORE_CREATE, KIND_ACCESS_REVIEW), STORE_OK,
		             REFUSALS[i][1]);
	assert_string_equal(s->reasons, "Forbidden,Forbidden,");
	scene_quiet(s);
	assert_false(scene_stored(s, "-310"));
	scene_wait(s, 1000);
	(void)scene_expect(s, STORE_CREATE, KIND_POD);
	scene_answer(s, s->request.arg, STORE_BUSY, "");
	scene_end(s);
}

TEST(test_rules_tell_why_admission_refuses_a_pod)
{
	static const char BODY[] =
	    "{\"kind\":\"Status\",\"message\":\"pods \\\"job-w-0\\\" is forbidden: violates "
	    "PodSecurity \\\"restricted:latest\\\": host namespaces\"}";
	struct scene *s = scene_new();
	scene_begin(s);
	void *pod = scene_expect(s, STORE_CREATE, KIND_POD);
	void *other = scene_expect(s, STORE_CREATE, KIND_POD);
	rules_answer(s->r, &s->now, pod,
	             &(struct store_reply){ .outcome = STORE_REFUSED,
	                                    .status = 403,
	                                    .body = span_of(BODY),
	                                    .message = SPAN("") });
	scene_answer(s, scene_expect(s, STORE_CREATE, KIND_ACCESS_REVIEW), STORE_OK,
	             "{\"status\":{\"allowed\":true}}");
	assert_string_equal(s->reasons, "PodRefused,");
	assert_string_equal(s->told,
	                    "The cluster's policy forbids the pod; ask the administrator of "
	                    "the cluster: violates PodSecurity \"restricted:latest\": host "
	                    "namespaces");
	scene_answer(s, other, STORE_BUSY, "");
	scene_end(s);
}

TEST(test_rules_drop_requests_that_are_not_sent_when_the_job_is_stopped)
{
	ARENA_AUTO a = { 0 };
	struct scene *s = scene_new();
	scene_begin(s);
	void *first = scene_expect(s, STORE_CREATE, KIND_POD);
	s->spec = STOPPED;
	scene_show(s);
	scene_quiet(s);
	scene_answer(s, first, STORE_OK, scene_pod(&a, 0, "p0", ""));
	scene_store(s);
	assert_true(scene_stored(s, "-210"));
	(void)scene_expect(s, STORE_DELETE, KIND_CONFIGMAP);
	scene_answer(s, s->request.arg, STORE_OK, "{}");
	scene_end(s);
}

/* The garbage collector has to follow; the others of the Frameworks must not wait for it. */
TEST(test_rules_expire_frameworks_at_a_bounded_pace)
{
	enum { FRAMEWORKS = 50, STEP_MS = 100 };
	ARENA_AUTO a = { 0 };
	struct scene *s = scene_new();
	scene_pods(s);
	for (int i = 0; i < FRAMEWORKS; i++)
		rules_put(s->r, &s->now, KIND_FRAMEWORK,
		          span_of(arena_printf(
			      &a,
			      "{\"metadata\":{\"name\":\"old%d\",\"namespace\":\"ns\",\"uid\":"
			      "\"old-%d\",\"resourceVersion\":\"5\"},\"spec\":%s,\"status\":"
			      "{\"state\":\"Completed\",\"transitionTime\":"
			      "\"2020-01-01T00:00:00Z\"}}",
			      i, i, SPEC)));
	int sent = 0;
	for (int at_ms = 0; at_ms < FRAMEWORKS * 1000; at_ms += STEP_MS) {
		while (rules_next(s->r, &s->now, &s->request)) {
			assert_int_equal(s->request.verb, STORE_DELETE);
			assert_int_equal(s->request.kind, KIND_FRAMEWORK);
			scene_answer(s, s->request.arg, sent % 2 ? STORE_OK : STORE_BUSY, "{}");
			sent++;
		}
		assert_true(sent <= at_ms / 1000 + 1);
		scene_wait(s, STEP_MS);
	}
	assert_int_equal(sent, FRAMEWORKS);
	scene_wait(s, 70000); /* none has gone: they are asked for again, likewise */
	for (sent = 0; rules_next(s->r, &s->now, &s->request); sent++)
		scene_answer(s, s->request.arg, STORE_NOT_FOUND, "{}");
	assert_int_equal(sent, 1);
	scene_end(s);
}

TEST(test_rules_tell_of_a_framework_that_cannot_be_read)
{
	struct scene *s = scene_new();
	s->spec = "{\"taskRoles\":7}";
	scene_show(s);
	scene_quiet(s);
	assert_string_equal(s->reasons, "Unreadable,");
	s->spec = SPEC;
	scene_show(s);
	scene_store(s);
	scene_end(s);
}

/* Also of a Framework without a queue, whose pod Kueue admits by itself. */
TEST(test_rules_tell_of_a_pod_that_waits_for_kueue_alone)
{
	struct scene *s = scene_new();
	scene_pods(s);
	s->spec = SCALED;
	rules_put(
	    s->r, &s->now, KIND_POD,
	    span_of("{\"metadata\":{\"name\":\"job-w-0\",\"namespace\":\"ns\",\"uid\":\"p0\","
	            "\"resourceVersion\":\"99\",\"labels\":{\"FC_FRAMEWORK_NAME\":\"job\"}},"
	            "\"spec\":{\"schedulingGates\":[{\"name\":\"kueue.x-k8s.io/admission\"}]}}"));
	assert_non_null(strstr(s->reasons, "PodGated,"));
	assert_non_null(strstr(s->told, "managedJobsNamespaceSelector"));
	assert_false(rules_wants_workloads(s->r));
	scene_end(s);
}
