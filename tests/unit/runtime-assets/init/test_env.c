/* The environment of a task.  tests/runtime/test_vectors.py compares those of whole jobs. */
#include "runtime-assets/init/init_internal.h"

#include <sys/stat.h>

#include "tests/unit/runtime-assets/world.h"

struct world {
	struct arena a;
	struct init in;
	struct env_text out;
	struct notes warnings;
	struct err e;
	int status;
};

static void done(struct world *w)
{
	str_done(&w->out.shell);
	str_done(&w->out.nul);
	notes_done(&w->warnings);
	err_done(&w->e);
	arena_done(&w->a);
}

#define WORLD_AUTO __attribute__((cleanup(done))) struct world
/* A new world, to the end of the block. */
#define WORLD(w, ...)                                                                              \
	WORLD_AUTO w;                                                                              \
	make(&w, __VA_ARGS__)

/* The environment of worker:0. */
static void make(struct world *w, const char *framework, const char *config)
{
	STR_AUTO problem = STR_INIT(1000);
	*w = (struct world){
		.out = { .shell = STR_INIT(ENV_TEXT_MAX), .nul = STR_INIT(ENV_TEXT_MAX) },
	};
	w->in = (struct init){ .a = &w->a, .role_name = "worker", .pod_uid = "own" };
	w->in.framework = framework_read(span_of(framework), &w->a, &w->e);
	if (!w->in.framework)
		fail_msg("%s", err_msg(&w->e));
	job_parse_config(&w->in.job, span_of(config), &w->a, &problem);
	w->status = env_write(&w->in, &w->out, &w->warnings, &w->e);
}

static bool has(const struct world *w, const char *text)
{
	return strstr(str_c(&w->out.shell), text) != NULL;
}

static void want(const struct world *w, const char *line)
{
	if (!has(w, line))
		fail_msg("no %s in\n%s", line, str_c(&w->out.shell));
}

static void want_no(const struct world *w, const char *text)
{
	if (has(w, text))
		fail_msg("%s in\n%s", text, str_c(&w->out.shell));
}

static void want_warning(const struct world *w, const char *text)
{
	for (size_t i = 0; i < w->warnings.n; i++) {
		if (strstr(w->warnings.v[i].msg, text))
			return;
	}
	fail_msg("no warning of %s", text);
}

#define PORTS(start, labels)                                                                       \
	"{\\\"schedulePortStart\\\":" #start                                                       \
	",\\\"schedulePortEnd\\\":40000,\\\"ports\\\":{" labels "}}"
#define LABEL(name, count) "\\\"" name "\\\":{\\\"count\\\":" #count "}"
#define HTTP               LABEL("http", 1)
#define ROLE(name, n, ports, more)                                                                 \
	"{\"name\":\"" name "\",\"taskNumber\":" #n                                                \
	",\"task\":{\"pod\":{\"metadata\":{\"annotations\":{\"rest-server/port-scheduling-spec\":" \
	"\"" ports "\"}},\"spec\":{" more "}}}}"
#define TASKS(name, tasks) "{\"name\":\"" name "\",\"taskStatuses\":[" tasks "]}"
#define TASK(index, uid, pod, host)                                                                \
	"{\"index\":" #index ",\"attemptStatus\":{\"podUID\":" uid ",\"podIP\":" pod               \
	",\"podHostIP\":" host "}}"
#define FRAMEWORK(roles, tasks)                                                                    \
	"{\"kind\":\"Framework\",\"spec\":{\"taskRoles\":[" roles                                  \
	"]},\"status\":{\"attemptStatus\":{\"taskRoleStatuses\":[" tasks "]}}}"
#define ONE_TASK TASK(0, "\"uid\"", "\"10.1.0.1\"", "\"10.0.0.1\"")
#define CONFIG   "taskRoles: {worker: {}}"

#define OWN_PORTS(uid)                                                                             \
	FRAMEWORK(ROLE("worker", 1, PORTS(15000, HTTP), ""),                                       \
	          TASKS("worker", TASK(0, uid, "\"10.1.0.1\"", "null")))

/* Parts of the environment, what is not in it, and a part of a warning. */
static const struct {
	const char *name, *framework, *config, *want[4], *none[4], *warning;
} ENVIRONMENTS[] = {
	{ "without own address gives a warning",
	  FRAMEWORK(ROLE("worker", 1, PORTS(1, HTTP), ""),
	            TASKS("worker", TASK(0, "\"uid\"", "null", "\"\""))),
	  CONFIG,
	  .want = { "export PAI_CURRENT_CONTAINER_PORT=",
	            "export PAI_TASK_ROLE_worker_HOST_LIST=''\n" },
	  .none = { "PAI_CURRENT_CONTAINER_IP", "PAI_CONTAINER_HOST_IP", "PAI_HOST_IP_" },
	  .warning = "PAI_CURRENT_CONTAINER_IP and PAI_CONTAINER_HOST_IP are not set" },
	{ "puts ipv6 in brackets",
	  FRAMEWORK(ROLE("worker", 1, PORTS(39999, HTTP), ""),
	            TASKS("worker", TASK(0, "\"uid\"", "\"fd00::1\"", "null"))),
	  CONFIG,
	  .want = { "export PAI_TASK_ROLE_worker_HOST_LIST='[fd00::1]:39999'\n",
	            "export PAI_HOST_IP_worker_0='fd00::1'\n" } },
	/* The other tasks only have the uid of the status. */
	{ "prefers the uid of the status", OWN_PORTS("\"a0000000-0000-0000-0000-000000000000\""),
	  CONFIG, .want = { "export PAI_CONTAINER_HOST_PORT='39661'\n" } },
	{ "leaves out peers without a pod",
	  FRAMEWORK(ROLE("worker", 3, PORTS(1, HTTP), ""),
	            TASKS("worker", ONE_TASK "," TASK(1, "null", "null", "null") "," TASK(
					2, "\"\"", "\"10.1.0.3\"", "null"))),
	  CONFIG,
	  .want = { "export PAI_HOST_IP_worker_2='10.1.0.3'\n",
	            "export PAI_TASK_ROLE_INSTANCES='worker:0,worker:1,worker:2'\n" },
	  .none = { "worker_1_http", "worker_2_http", ",10.1.0.3:" },
	  .warning = "2 tasks of role worker have no pod yet" },
	{ "gives the first of several ports",
	  FRAMEWORK(ROLE("worker", 1, "{\\\"http\\\":{\\\"start\\\":80,\\\"count\\\":3}}", ""),
	            TASKS("worker", ONE_TASK)),
	  CONFIG,
	  .want = { "export PAI_PORT_LIST_worker_0_http='80,81,82'\n",
	            "export PAI_CONTAINER_HOST_PORT='80'\n",
	            "export PAI_TASK_ROLE_worker_HOST_LIST='10.1.0.1:80'\n" } },
	{ "warns of bad ports of a peer",
	  FRAMEWORK(ROLE("worker", 1, PORTS(1, HTTP), "") "," ROLE("ps", 1, "{", ""),
	            TASKS("worker", ONE_TASK) "," TASKS("ps", ONE_TASK)),
	  CONFIG,
	  .want = { "export PAI_HOST_IP_ps_0='10.1.0.1'\n",
	            "export PAI_TASK_ROLE_ps_HOST_LIST=''\n" },
	  .none = { "ps_0_http" }, .warning = "ports of role ps: " },
	{ "leaves out roles not in the spec",
	  FRAMEWORK(ROLE("worker", 1, PORTS(1, HTTP), ""),
	            TASKS("worker", ONE_TASK) "," TASKS("old", ONE_TASK)),
	  CONFIG,
	  .want = { "export PAI_HOST_IP_old_0='10.1.0.1'\n",
	            "export PAI_TASK_ROLE_old_HOST_LIST=''\n" },
	  .none = { "old_0_" } },
	{ "accepts roles without a status",
	  FRAMEWORK(ROLE("worker", 1, PORTS(1, HTTP), "") "," ROLE("new", 1, PORTS(1, HTTP), ""),
	            TASKS("worker", ONE_TASK)),
	  CONFIG, .want = { "export PAI_TASK_ROLE_new_HOST_LIST=''\n" }, .none = { "new_0" } },
	/* The second name follows the first, also for other roles; values have the name of
	   Kubernetes. */
	{ "has both names of a role",
	  FRAMEWORK(ROLE("worker", 1, PORTS(39999, HTTP), "") "," ROLE("psserver", 1,
	                                                               PORTS(39999, HTTP), ""),
	            TASKS("psserver", ONE_TASK)),
	  "taskRoles: {worker: {}, PS-Server: {}}",
	  .want = { "export PAI_PORT_LIST_psserver_0_http='39999'\n"
	            "export PAI_PORT_LIST_PS_Server_0_http='39999'\n"
	            "export PAI_psserver_0_http_PORT='39999'\n"
	            "export PAI_PS_Server_0_http_PORT='39999'\n"
	            "export PAI_HOST_IP_psserver_0='10.1.0.1'\n"
	            "export PAI_HOST_IP_PS_Server_0='10.1.0.1'\n"
	            "export PAI_TASK_ROLE_psserver_HOST_LIST='10.1.0.1:39999'\n"
	            "export PAI_TASK_ROLE_PS_Server_HOST_LIST='10.1.0.1:39999'\n",
	            "export PAI_TASK_ROLE_INSTANCES='psserver:0'\n" } },
	{ "without configuration gives a warning",
	  FRAMEWORK(ROLE("worker", 1, PORTS(1, HTTP), ""), TASKS("worker", ONE_TASK)), "{",
	  .want = { "export PAI_HOST_IP_worker_0=" }, .warning = "without the job configuration" },
	{ "of v1 has roles by number",
	  FRAMEWORK(ROLE("psserver", 1, PORTS(39999, HTTP), "") "," ROLE("worker", 1,
	                                                                 PORTS(39999, HTTP), ""),
	            TASKS("worker", ONE_TASK) "," TASKS("psserver", ONE_TASK)),
	  "{\"taskRoles\": [{\"name\": \"ps-server\"}, {\"name\": \"worker\"}]}",
	  .want = { "export PAI_TASK_ROLE_worker_HOST_LIST='10.1.0.1:39999'\n"
	            "export PAI_TASK_ROLE_1_HOST_LIST='10.1.0.1:39999'\n",
	            "export PAI_TASK_ROLE_ps_server_HOST_LIST='10.1.0.1:39999'\n"
	            "export PAI_TASK_ROLE_0_HOST_LIST='10.1.0.1:39999'\n" } },
	{ "of v1 prefers a role named as a number",
	  FRAMEWORK(ROLE("worker", 1, PORTS(1, HTTP), "") "," ROLE("0", 1, PORTS(1, HTTP), ""),
	            TASKS("worker", ONE_TASK) "," TASKS("0", "")),
	  "{\"taskRoles\": [{\"name\": \"worker\"}, {\"name\": \"0\"}]}",
	  .want = { "export PAI_TASK_ROLE_0_HOST_LIST=''\n" },
	  .none = { "export PAI_TASK_ROLE_0_HOST_LIST='1" } },
	{ "of v2 has no roles by number",
	  FRAMEWORK(ROLE("worker", 1, PORTS(1, HTTP), ""), TASKS("worker", ONE_TASK)), CONFIG,
	  .none = { "PAI_TASK_ROLE_0_" } },
	{ "refuses a task without an index",
	  FRAMEWORK(ROLE("worker", 1, PORTS(1, HTTP), ""),
	            TASKS("worker", TASK("x", "\"uid\"", "\"10.1.0.1\"", "null"))),
	  CONFIG, .want = { "export PAI_TASK_ROLE_INSTANCES=''\n" },
	  .warning = "1 tasks of role worker have no index" },
	{ "warns of the own task missing",
	  FRAMEWORK(ROLE("worker", 2, PORTS(1, HTTP), ""),
	            TASKS("worker", TASK(1, "\"uid\"", "\"10.1.0.1\"", "null"))),
	  CONFIG, .none = { "CONTAINER" }, .warning = "does not have this task (worker:0)" },
};

TEST(test_environment_has_the_expected_parts)
{
	for (size_t i = 0; i < ARRAY_SIZE(ENVIRONMENTS); i++) {
		WORLD(w, ENVIRONMENTS[i].framework, ENVIRONMENTS[i].config);
		unit_row = ENVIRONMENTS[i].name;
		assert_int_equal(w.status, 0);
		for (size_t k = 0; k < 4 && ENVIRONMENTS[i].want[k]; k++)
			want(&w, ENVIRONMENTS[i].want[k]);
		for (size_t k = 0; k < 4 && ENVIRONMENTS[i].none[k]; k++)
			want_no(&w, ENVIRONMENTS[i].none[k]);
		if (ENVIRONMENTS[i].warning)
			want_warning(&w, ENVIRONMENTS[i].warning);
	}
}

/* ---- ports ---------------------------------------------------------------------------------- */

TEST(test_environment_uses_the_uid_of_the_pod)
{
	WORLD_AUTO w;
	WORLD_AUTO known;
	make(&w, OWN_PORTS("null"), CONFIG);
	make(&known, OWN_PORTS("\"own\""), CONFIG);
	assert_string_equal(str_c(&w.out.shell), str_c(&known.out.shell));
}

TEST(test_environment_without_a_uid_has_no_ports)
{
	WORLD(w, OWN_PORTS("null"), CONFIG);
	str_done(&w.out.shell);
	w.in.pod_uid = NULL;
	assert_int_equal(env_write(&w.in, &w.out, &w.warnings, &w.e), 0);
	want_no(&w, "PORT");
	want_warning(&w, "the own ports are not known");
}

TEST(test_environment_uid_of_the_pod_is_bounded)
{
	WORLD_AUTO w;
	char uid[200] = { 0 };
	memset(uid, 'x', sizeof(uid) - 1);
	make(&w, OWN_PORTS("null"), CONFIG);
	str_done(&w.out.shell);
	w.in.pod_uid = uid;
	assert_int_equal(env_write(&w.in, &w.out, &w.warnings, &w.e), 0);
	want_no(&w, "PORT");
}

TEST(test_environment_keeps_own_ports)
{
	WORLD(w,
	      FRAMEWORK(ROLE("worker", 1, PORTS(1, LABEL("p2p", 2) "," HTTP), ""),
	                TASKS("worker", ONE_TASK)),
	      CONFIG);
	assert_int_equal(w.in.n_ports, 3);
	assert_string_equal(w.in.port_label[1], "p2p");
	assert_string_equal(w.in.port_label[2], "http");
	STR_AUTO list = STR_INIT(200);
	str_printf(&list, "export PAI_CONTAINER_HOST_PORT_LIST='p2p:%d,%d;http:%d;'\n",
	           w.in.port[0], w.in.port[1], w.in.port[2]);
	want(&w, str_c(&list));
}

TEST(test_environment_without_an_http_port_is_written)
{
	WORLD(w,
	      FRAMEWORK(ROLE("worker", 1, PORTS(1, LABEL("http", 0) "," LABEL("x", 1)), ""),
	                TASKS("worker", ONE_TASK)),
	      CONFIG);
	want_no(&w, "PAI_CURRENT_CONTAINER_PORT");
	want_no(&w, "PAI_CONTAINER_HOST_PORT=");
	want_no(&w, "PAI_CONTAINER_SSH_PORT");
	want(&w, "export PAI_PORT_LIST_worker_0_http=''\n");
	want(&w, "export PAI_TASK_ROLE_worker_HOST_LIST=''\n");
}

TEST(test_environment_without_an_annotation_has_no_ports)
{
	WORLD(w,
	      FRAMEWORK("{\"name\":\"worker\",\"taskNumber\":1}",
	                TASKS("worker", TASK(0, "null", "\"10.1.0.1\"", "null"))),
	      CONFIG);
	assert_string_equal(str_c(&w.out.shell), "export PAI_HOST_IP_worker_0='10.1.0.1'\n"
	                                         "export PAI_CURRENT_CONTAINER_IP='10.1.0.1'\n"
	                                         "export PAI_CONTAINER_HOST_IP='10.1.0.1'\n"
	                                         "export PAI_CONTAINER_HOST_PORT_LIST=''\n"
	                                         "export PAI_TASK_ROLE_worker_HOST_LIST=''\n"
	                                         "export PAI_TASK_ROLE_INSTANCES='worker:0'\n");
	assert_int_equal(w.warnings.n, 0);
}

TEST(test_environment_refuses_bad_ports_of_the_own_role)
{
	WORLD(w, FRAMEWORK(ROLE("worker", 1, PORTS(40000, HTTP), ""), TASKS("worker", ONE_TASK)),
	      CONFIG);
	assert_int_equal(w.status, -1);
	assert_non_null(strstr(err_msg(&w.e), "schedulePortEnd is not above"));
}

/* Such a label would be code for the shell, or a separate line. */
TEST(test_environment_leaves_out_labels_that_are_no_names)
{
	WORLD_AUTO w;
	make(
	    &w,
	    FRAMEWORK(ROLE("worker", 1,
	                   PORTS(1, LABEL("a;reboot", 1) "," LABEL("9", 1) "," LABEL("ok", 1)), ""),
	              TASKS("worker", ONE_TASK)),
	    CONFIG);
	want_no(&w, "reboot");
	want_no(&w, "_9");
	want(&w, "export PAI_CONTAINER_HOST_ok_PORT_LIST=");
	want(&w, "PAI_CONTAINER_HOST_PORT_LIST='ok:");
	want_warning(&w, "a port named \"a;reboot\"");
	assert_int_equal(w.in.n_ports, 1);
}

/* ---- roles -------------------------------------------------------------------------------- */

/* The submission wrote one of the two. */
TEST(test_environment_has_minimums_in_both_spellings)
{
	static const char *const NAMES[] = { "PAI_MIN_FAILED_TASK_COUNT_worker",
		                             "PAI_MIN_SUCCEEDED_INSTANCE_worker",
		                             "PAI_MIN_SUCCEEDED_TASK_COUNT_worker" };
	for (size_t i = 0; i < 3; i++)
		variable(NAMES[i], i < 2 ? "it's" : "");
	WORLD(w, FRAMEWORK(ROLE("worker", 1, PORTS(1, HTTP), ""), TASKS("worker", ONE_TASK)),
	      CONFIG);
	want(&w, "export PAI_MIN_FAILED_INSTANCE_worker='it'\\''s'\n");
	want_no(&w, "PAI_MIN_FAILED_TASK_COUNT");
	want_no(&w, "PAI_MIN_SUCCEEDED");
	static const char NUL[] = "PAI_MIN_FAILED_INSTANCE_worker=it's";
	assert_non_null(memmem(w.out.nul.p, w.out.nul.n, NUL, sizeof(NUL)));
	for (size_t i = 0; i < 3; i++)
		variable(NAMES[i], NULL);
}

/* ---- tasks ----------------------------------------------------------------------------------- */

/* ---- sizes ----------------------------------------------------------------------------------- */

static void many_tasks(struct world *w, int n)
{
	STR_AUTO json = STR_INIT(16 << 20);
	str_puts(&json, "{\"kind\":\"Framework\",\"spec\":{\"taskRoles\":[" ROLE(
			    "worker", 10000, PORTS(1, HTTP),
			    "") "]},\"status\":{\"attemptStatus\":{"
	                        "\"taskRoleStatuses\":[{\"name\":\"worker\",\"taskStatuses\":[");
	for (int i = 0; i < n; i++)
		str_printf(&json,
		           "%s{\"index\":%d,\"attemptStatus\":{\"podUID\":\"u%d\",\"podIP\":"
		           "\"10.100.100.%d\"}}",
		           i ? "," : "", i, i, i % 256);
	str_puts(&json, "]}]}}}");
	make(w, str_c(&json), CONFIG);
}

TEST(test_environment_takes_2000_tasks)
{
	WORLD_AUTO w;
	many_tasks(&w, 2000);
	assert_int_equal(w.status, 0);
	assert_int_equal(w.warnings.n, 0);
	want(&w, "PAI_HOST_IP_worker_1999='10.100.100.207'\n");
}

TEST(test_environment_warns_if_it_is_too_large_for_a_program)
{
	WORLD_AUTO w;
	many_tasks(&w, 9000);
	assert_int_equal(w.status, 0);
	want_warning(&w, "Linux starts no program with one of more than 131072");
}

/* ---- the step -------------------------------------------------------------------------------- */

static int run_step(struct world *w, const char *root)
{
	layout_init(&w->in.at, root, &w->a);
	return step_environment(&w->in, &w->e);
}

/* Without the limit, this test would take minutes. */
TEST(test_environment_stops_at_its_limit)
{
	enum { TASKS_MANY = 40000 };
	STR_AUTO text = STR_INIT(FRAMEWORK_MAX);
	str_puts(&text, "{\"kind\":\"Framework\",\"spec\":{\"taskRoles\":[" ROLE(
			    "worker", 1, "{\\\"many\\\":{\\\"start\\\":1,\\\"count\\\":65000}}",
			    "") "]},\"status\":{\"attemptStatus\":{\"taskRoleStatuses\":[{"
	                        "\"name\":\"worker\",\"taskStatuses\":[{\"index\":0}");
	for (int i = 1; i < TASKS_MANY; i++)
		str_puts(&text, ",{\"index\":0}");
	str_puts(&text, "]}]}}}");
	WORLD(w, str_c(&text), CONFIG);
	assert_int_equal(w.status, -1);
	assert_non_null(strstr(err_msg(&w.e), "the environment has more than"));
}

TEST(test_step_environment_of_a_bare_pod_writes_no_names)
{
	WORLD_AUTO w = { .status = 0 };
	struct stat st;
	w.in.a = &w.a;
	assert_int_equal(run_step(&w, unit_path("")), 0);
	const char *path = path_join(&w.a, w.in.at.runtime_d, "runtime_env.sh");
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, 0);
	assert_int_equal(st.st_mode & 07777, 0644);
}

/* The other file exists already when runtime_env.sh cannot be written; never the reverse. */
TEST(test_step_environment_writes_the_nul_file_first)
{
	WORLD(w, FRAMEWORK(ROLE("worker", 1, PORTS(1, HTTP), ""), TASKS("worker", ONE_TASK)),
	      CONFIG);
	layout_init(&w.in.at, unit_path(""), &w.a);
	const char *script = path_join(&w.a, w.in.at.runtime_d, "runtime_env.sh");
	assert_int_equal(dir_make(path_join(&w.a, script, "in-the-way"), 0755, &w.e), 0);
	assert_int_equal(run_step(&w, unit_path("")), INIT_FAILED);
	struct span nul;
	assert_int_equal(file_read(path_join(&w.a, w.in.at.runtime_d, "runtime_env"), FILE_MOUNTED,
	                           ENV_TEXT_MAX, &w.a, &nul, &w.e),
	                 0);
	assert_true(span_eq(nul, str_view(&w.out.nul)));
}
