/* How often a job is tried: tests/data/runtime/ends.tsv against the shipped configuration. */
#include "tests/unit/base/cmocka.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/posix/fd.h"
#include "jobs/framework/framework.h"
#include "machine/engine/engine.h"

enum { NAME, END, POD = 5, CODE, HERE, CLUSTER, SHOW, COLUMNS };
enum { TRIES_MOST = 12, STEP_S = 5, LATE_S = 700 };

/* One ConfigMap and one pod, which ends in the same way each time. */
struct ending_world {
	struct framework_pod end;
	struct framework_container container;
	char uid[2][24]; /* of the ConfigMap, of the pod; "": there is none */
	int made;
	int32_t next_code; /* of the next pod; 0: the same for all */
	bool running, over;
};

static enum framework_presence ending_configmap(void *arg, const char *name, const char *uid,
                                                struct framework_configmap *out)
{
	const struct ending_world *w = arg;
	(void)name;
	(void)uid;
	*out = (struct framework_configmap){ w->uid[0], "u", false };
	return w->uid[0][0] ? FRAMEWORK_THERE : FRAMEWORK_ABSENT;
}

static enum framework_presence ending_pod(void *arg, const char *name, const char *uid,
                                          struct framework_pod *out)
{
	const struct ending_world *w = arg;
	(void)name;
	(void)uid;
	*out = w->end;
	out->uid = w->uid[1];
	out->owner_uid = w->uid[0];
	out->phase = w->over ? "Failed" : "Running";
	out->containers = w->over ? &w->container : NULL;
	out->n_containers = w->over;
	return w->uid[1][0] ? FRAMEWORK_THERE : FRAMEWORK_ABSENT;
}

static enum framework_answer ending_create(void *arg, const struct framework_object *o,
                                           struct framework_created *out)
{
	struct ending_world *w = arg;
	char *uid = w->uid[o->kind == FRAMEWORK_POD];
	(void)snprintf(uid, sizeof(w->uid[0]), "uid%d", ++w->made);
	out->uid = uid;
	w->over = false;
	if (w->next_code && o->kind == FRAMEWORK_POD) {
		int32_t code = w->next_code;
		w->next_code = w->container.code;
		w->container.code = code;
	}
	return FRAMEWORK_DONE;
}

static enum framework_answer ending_remove(void *arg, const struct framework_delete *what)
{
	struct ending_world *w = arg;
	w->uid[1][0] = '\0';
	if (what->kind == FRAMEWORK_CONFIGMAP)
		w->uid[0][0] = '\0';
	return FRAMEWORK_DONE;
}

static const char FRAMEWORK[] =
    "{\"metadata\":{\"name\":\"job\",\"namespace\":\"ns\",\"uid\":\"u\"},\"spec\":{"
    "\"executionType\":\"Start\",\"retryPolicy\":{\"fancyRetryPolicy\":true,\"maxRetryCount\":%d},"
    "\"taskRoles\":[{\"name\":\"w\",\"taskNumber\":1,\"frameworkAttemptCompletionPolicy\":"
    "{\"minFailedTaskCount\":1,\"minSucceededTaskCount\":-1},\"task\":{\"retryPolicy\":"
    "{\"fancyRetryPolicy\":false,\"maxRetryCount\":0},\"pod\":{\"spec\":{\"containers\":"
    "[{\"name\":\"app\",\"image\":\"i\"}]}}}}]}%s}";

/* Tries until the Framework is Completed, at most TRIES_MOST; each runs ran_s.  After each step the
 * machine is made again of the stored status. */
static int tries_of(const struct framework_config *c, struct ending_world *w, int retries,
                    int64_t ran_s, struct str *status)
{
	const struct framework_client world = { .arg = w,
		                                .configmap = ending_configmap,
		                                .pod = ending_pod,
		                                .create = ending_create,
		                                .remove = ending_remove };
	int64_t now_s = 1600000000;
	w->made = 0;
	w->uid[0][0] = w->uid[1][0] = '\0';
	status->n = 0;
	for (bool over = false; !over && w->made < 2 * TRIES_MOST; now_s += STEP_S) {
		ERR_AUTO e = { 0 };
		struct framework_result r;
		FREE_AUTO char *before =
		    status->n ? xasprintf(",\"status\":%s", str_c(status)) : xstrdup("");
		FREE_AUTO char *object = xasprintf(FRAMEWORK, retries, before);
		struct framework *f = framework_new(c);
		if (framework_put(f, span_of(object), &e) < 0)
			fail_msg("%s", err_msg(&e));
		framework_sync(f, &world, now_s, (uint64_t)now_s, &r);
		bool runs = strcmp(framework_state(f), "AttemptRunning") == 0;
		now_s += runs && !w->over ? ran_s : r.wake_s < INT64_MAX ? r.wake_s - now_s : 0;
		w->over |= runs;
		over = strcmp(framework_state(f), "Completed") == 0;
		status->n = 0;
		framework_status_write(f, status);
		framework_free(f);
	}
	return w->made / 2;
}

static struct framework_config *tries_config(int64_t alike)
{
	ERR_AUTO e = { 0 };
	struct framework_config *c = machine_config(&e);
	assert_non_null(c);
	framework_config_keep_last(c, alike);
	return c;
}

TEST(test_table_of_ends_has_its_numbers_of_tries)
{
	struct framework_config *here = tries_config(3);
	struct framework_config *cluster = tries_config(0);
	STR_AUTO table = STR_INIT(1 << 20);
	STR_AUTO status = STR_INIT(1 << 20);
	ARENA_AUTO a = { 0 };
	size_t n = 0;
	assert_int_equal(fd_read_str(AT_FDCWD, "tests/data/runtime/ends.tsv", &table), 0);
	for (struct span rest = str_view(&table); rest.n;) {
		struct span line = span_next(&rest, '\n');
		const char *v[COLUMNS + 1];
		int64_t code;
		if (line.n == 0 || line.p[0] == '#')
			continue;
		for (int i = 0; i < COLUMNS; i++)
			v[i] = arena_dup(&a, span_next(&line, '\t'));
		assert_int_equal(parse_i64(span_of(v[CODE]), INT32_MIN, INT32_MAX, &code), 0);
		bool by_pod = strcmp(v[POD], "-") != 0;
		bool oom = strcmp(v[POD], "OOMKilled") == 0;
		struct ending_world w = { .end = { .reason = by_pod && !oom ? v[POD] : "" } };
		w.container =
		    (struct framework_container){ .name = "app",
			                          .reason = oom ? v[POD] : "Error",
			                          .terminated = true,
			                          .code = code > 0 ? (int32_t)code : 137 };
		for (int k = 0; k < 2; k++) {
			int64_t want = TRIES_MOST;
			(void)parse_i64(span_of(v[HERE + k]), 1, TRIES_MOST, &want); /* else `*` */
			int got = tries_of(k ? cluster : here, &w, 0, 1, &status);
			if (got != want)
				fail_msg("%s, %s: %d tries", v[NAME], k ? "cluster" : "here", got);
			FREE_AUTO char *last =
			    xasprintf("\"lastCompletionStatus\":{\"code\":%lld,", (long long)code);
			if ((strstr(str_c(&status), last) != NULL) != (want > 1))
				fail_msg("%s: %s", v[NAME], str_c(&status));
		}
		n++;
	}
	assert_in_range(n, 30, 100);
	framework_config_free(here);
	framework_config_free(cluster);
}

TEST(test_alike_ends_count_only_if_they_are_soon_and_in_a_row)
{
	struct framework_config *here = tries_config(3);
	STR_AUTO status = STR_INIT(1 << 20);
	struct ending_world w = {
		.container = { .name = "app", .reason = "Error", .terminated = true, .code = 137 }
	};
	assert_int_equal(tries_of(here, &w, 0, LATE_S, &status), TRIES_MOST);
	assert_int_equal(tries_of(here, &w, 4, 1, &status), 3 + 4); /* then jobRetryCount counts */
	assert_non_null(strstr(str_c(&status), "\"accountableRetriedCount\":4"));
	w.next_code = 143;
	assert_int_equal(tries_of(here, &w, 0, 1, &status), TRIES_MOST);
	framework_config_free(here);
}
