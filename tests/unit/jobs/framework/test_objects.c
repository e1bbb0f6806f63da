/* The bodies by which pods and ConfigMaps are created: tests/data/pods/ has a template whose
 * members are younger than Kubernetes 1.16, whose types FrameworkController has, and its body. */

#include "tests/unit/base/cmocka.h"
#include <jansson.h>

#include "base/json/scan.h"
#include "tests/unit/jobs/machine_kit.h"

AUTO_FREE(framework)
AUTO_FREE(framework_config)

enum { TEXT_MAX = 16 << 20 };

static struct framework_config *config(void)
{
	struct framework_config *c = framework_config_read(SPAN(""), no_err());
	assert_non_null(c);
	return c;
}

/* A running Framework of one task with this template. */
static struct framework *running(const struct framework_config *c, const char *template)
{
	FREE_AUTO char *text = xasprintf(
	    "{\"metadata\":{\"name\":\"job\",\"namespace\":\"ns\",\"uid\":\"u\"},\"spec\":{"
	    "\"executionType\":\"Start\",\"taskRoles\":[{\"name\":\"w\",\"taskNumber\":1,"
	    "\"task\":{\"pod\":%s}}]}}",
	    template);
	struct framework *f = toy_machine(c, span_of(text), no_err());
	assert_string_equal(err_msg(&unit.e), "");
	for (int i = 0; i < 6; i++)
		(void)toy_sync(f, TOY_LIVE, 1600000000 + i);
	assert_string_equal(framework_state(f), "AttemptRunning");
	return f;
}

static char *body_of(const struct framework *f, enum framework_kind kind)
{
	const struct framework_object o = { .kind = kind, .role = "w" };
	struct str out = STR_INIT(TEXT_MAX);
	framework_object_write(f, &o, &out);
	assert_false(out.full);
	return str_take(&out);
}

/* The text without the white space between its tokens. */
static char *tokens(const char *text)
{
	struct str out = STR_INIT(TEXT_MAX);
	bool string = false;
	for (const char *p = text; *p; p++) {
		if (string || !is_space(*p))
			str_char(&out, *p);
		if (string && *p == '\\')
			str_char(&out, *++p);
		else if (*p == '"')
			string = !string;
	}
	return str_take(&out);
}

/* The facts of that task: as members, or as the variables of a container. */
static void put_facts(struct str *out, const struct framework *f, bool variables)
{
	STR_AUTO status = STR_INIT(TEXT_MAX);
	framework_status_write(f, &status);
	struct scan roles =
	    scan_begin(scan_path(str_view(&status), "attemptStatus", "taskRoleStatuses"));
	struct span role;
	struct span task;
	assert_true(scan_item(&roles, &role));
	struct scan tasks = scan_begin(scan_get(role, "taskStatuses"));
	assert_true(scan_item(&tasks, &task));
	const struct {
		const char *name;
		struct span value;
	} facts[] = {
		{ "FC_FRAMEWORK_NAMESPACE", SPAN("ns") },
		{ "FC_FRAMEWORK_NAME", SPAN("job") },
		{ "FC_TASKROLE_NAME", SPAN("w") },
		{ "FC_TASK_INDEX", SPAN("0") },
		{ "FC_CONFIGMAP_NAME", SPAN("job-attempt") },
		{ "FC_POD_NAME", SPAN("job-w-0") },
		{ "FC_FRAMEWORK_UID", SPAN("u") },
		{ "FC_FRAMEWORK_ATTEMPT_ID", SPAN("0") },
		{ "FC_FRAMEWORK_ATTEMPT_INSTANCE_UID", SPAN("0_cm") },
		{ "FC_CONFIGMAP_UID", SPAN("cm") },
		{ "FC_TASKROLE_UID", scan_text(scan_get(role, "instanceUID"), &unit.a) },
		{ "FC_TASK_UID", scan_text(scan_get(task, "instanceUID"), &unit.a) },
		{ "FC_TASK_ATTEMPT_ID", SPAN("0") },
	};
	for (size_t i = 0; i < ARRAY_SIZE(facts); i++)
		str_printf(
		    out, variables ? "%s{\"name\":\"%s\",\"value\":\"%.*s\"}" : "%s\"%s\":\"%.*s\"",
		    i ? "," : "", facts[i].name, (int)facts[i].value.n, facts[i].value.p);
	if (variables)
		str_puts(out,
		         ",{\"name\":\"FC_POD_UID\",\"valueFrom\":{\"fieldRef\":{\"apiVersion\":"
		         "\"v1\",\"fieldPath\":\"metadata.uid\"}}},{\"name\":"
		         "\"FC_TASK_ATTEMPT_INSTANCE_UID\",\"value\":\"0_$(FC_POD_UID)\"}");
}

/* The text with $FACTS and $ENV replaced. */
static char *with_facts(const char *text, const struct framework *f)
{
	struct str out = STR_INIT(TEXT_MAX);
	for (const char *p; (p = strpbrk(text, "$")) != NULL; text = p) {
		str_put(&out, text, (size_t)(p - text));
		bool all = strncmp(p, "$FACTS", 6) == 0;
		bool variables = strncmp(p, "$ENV", 4) == 0;
		if (all)
			str_char(&out, '{');
		if (all || variables)
			put_facts(&out, f, variables);
		else
			str_char(&out, '$');
		if (all)
			str_char(&out, '}');
		p += all ? 6 : variables ? 4 : 1;
	}
	str_puts(&out, text);
	return str_take(&out);
}

static void assert_body(const char *template, const char *wanted)
{
	AUTO(framework_config_auto) struct framework_config *c = config();
	AUTO(framework_auto) struct framework *f = running(c, template);
	FREE_AUTO char *body = body_of(f, FRAMEWORK_POD);
	FREE_AUTO char *want = with_facts(wanted, f);
	FREE_AUTO char *got_tokens = tokens(body);
	FREE_AUTO char *want_tokens = tokens(want);
	assert_true(scan_valid(span_of(body), SCAN_DEPTH_MAX));
	assert_string_equal(got_tokens, want_tokens);
}

TEST(test_objects_pod_is_its_template_with_additions)
{
	assert_body(unit_read("tests/data/pods/template.json").p,
	            unit_read("tests/data/pods/body.json").p);
}

#define OWNER                                                                                      \
	"\"ownerReferences\":[{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"name\":"             \
	"\"job-attempt\",\"uid\":\"cm\",\"controller\":true,\"blockOwnerDeletion\":true}]"
#define LABELS                                                                                     \
	"\"labels\":{\"FC_FRAMEWORK_NAME\":\"job\",\"FC_TASKROLE_NAME\":\"w\","                    \
	"\"FC_TASK_INDEX\":\"0\"}"
#define NAMES "\"name\":\"job-w-0\",\"namespace\":\"ns\""
#define META  "\"metadata\":{" NAMES "," OWNER "," LABELS ",\"annotations\":$FACTS}"
#define BEGIN "\"apiVersion\":\"v1\",\"kind\":\"Pod\""
#define ADDED "\"env\":[$ENV],\"terminationMessagePolicy\":\"FallbackToLogsOnError\""

/* Where the types differ, what is added wins. */
TEST(test_objects_pod_is_valid_for_odd_templates)
{
	static const struct {
		const char *template, *body;
	} T[] = {
		{ "{}", "{" BEGIN "," META ",\"spec\":{}}" },
		{ "{\"spec\":null,\"metadata\":[1]}", "{\"spec\":{}," META "," BEGIN "}" },
		{ "{\"spec\":{\"containers\":null,\"initContainers\":{}}}",
		  "{\"spec\":{\"containers\":null,\"initContainers\":{}}," BEGIN "," META "}" },
		{ "{\"spec\":{\"containers\":[]}}",
		  "{\"spec\":{\"containers\":[]}," BEGIN "," META "}" },
		{ "{\"spec\":{\"containers\":[{},7,[\"{{FC_POD_NAME}}\"]]}}",
		  "{\"spec\":{\"containers\":[{" ADDED "},7,[\"job-w-0\"]]}," BEGIN "," META "}" },
		{ "{\"spec\":{\"initContainers\":[{\"terminationMessagePolicy\":5,\"env\":{\"a\":1}"
		  "}]}}",
		  "{\"spec\":{\"initContainers\":[{\"terminationMessagePolicy\":"
		  "\"FallbackToLogsOnError\",\"env\":[$ENV]}]}," BEGIN "," META "}" },
		{ "{\"metadata\":{\"labels\":7,\"ownerReferences\":null,\"annotations\":{}},"
		  "\"kind\":null}",
		  "{\"metadata\":{" LABELS "," OWNER ",\"annotations\":$FACTS," NAMES
		  "},\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"spec\":{}}" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(T); i++)
		assert_body(T[i].template, T[i].body);
}

/* The value of each text, without the quotes, and what it becomes. */
TEST(test_objects_fills_placeholders)
{
	static const char *const T[][2] = {
		{ "{{FC_POD_NAME}}", "job-w-0" },
		{ "{{FC_POD_NAME}}{{FC_TASK_INDEX}}", "job-w-00" },
		{ "{{{FC_TASK_INDEX}}}", "{0}" },
		{ "{{ FC_TASK_INDEX}}", "{{ FC_TASK_INDEX}}" },
		{ "{{FC_TASK_INDEX} }", "{{FC_TASK_INDEX} }" },
		{ "{{FC_TASK_INDEX", "{{FC_TASK_INDEX" },
		{ "{{", "{{" },
		{ "{{FC_TASK_UID}}", "{{FC_TASK_UID}}" },
		{ "\\u0041{{FC_TASK_INDEX}", "\\u0041{{FC_TASK_INDEX}" },
		{ "\\u0041{\\u007bFC_TASK_INDEX}}", "A0" },
		{ "\\\\{{FC_TASK_INDEX}}\\\"", "\\\\0\\\"" },
		{ "\\\\", "\\\\" },
		{ "\\ud83d\\ude00{{FC_TASK_INDEX}}", "\xf0\x9f\x98\x80"
		                                     "0" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(T); i++) {
		FREE_AUTO char *template = xasprintf("{\"x\" : \"%s\"}", T[i][0]);
		FREE_AUTO char *body =
		    xasprintf("{\"x\":\"%s\"," BEGIN "," META ",\"spec\":{}}", T[i][1]);
		assert_body(template, body);
	}
}

/* Many braces take linear time; the body is bounded by its text. */
TEST(test_objects_pod_is_bounded_for_hostile_templates)
{
	enum { BRACES = 1 << 20, CONTAINERS = 20000, OUT_MAX = 2 << 20 };
	AUTO(framework_config_auto) struct framework_config *c = config();
	STR_AUTO text = STR_INIT(TEXT_MAX);
	str_puts(&text, "{\"x\":\"");
	str_many(&text, "{", BRACES);
	str_puts(&text, "FC_TASK_INDEX}}\",\"spec\":{\"containers\":[{}");
	str_many(&text, ",{}", CONTAINERS);
	str_puts(&text, "]}}");
	AUTO(framework_auto) struct framework *f = running(c, str_c(&text));
	const struct framework_object o = { .kind = FRAMEWORK_POD, .role = "w" };
	STR_AUTO out = STR_INIT(OUT_MAX);
	framework_object_write(f, &o, &out);
	assert_true(out.full);
	assert_true(out.n <= OUT_MAX);
}

TEST(test_objects_configmap_is_that_of_frameworkcontroller)
{
	AUTO(framework_config_auto) struct framework_config *c = config();
	AUTO(framework_auto) struct framework *f = running(c, "{}");
	FREE_AUTO char *body = body_of(f, FRAMEWORK_CONFIGMAP);
	assert_string_equal(
	    body,
	    "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":"
	    "\"job-attempt\",\"namespace\":\"ns\",\"ownerReferences\":[{\"apiVersion\":"
	    "\"frameworkcontroller.microsoft.com/v1\",\"kind\":\"Framework\",\"name\":\"job\","
	    "\"uid\":\"u\",\"controller\":true,\"blockOwnerDeletion\":true}],\"labels\":{"
	    "\"FC_FRAMEWORK_NAME\":\"job\"},\"annotations\":{\"FC_FRAMEWORK_NAMESPACE\":"
	    "\"ns\",\"FC_FRAMEWORK_NAME\":\"job\",\"FC_FRAMEWORK_UID\":\"u\","
	    "\"FC_FRAMEWORK_ATTEMPT_ID\":\"0\",\"FC_CONFIGMAP_NAME\":\"job-attempt\"},"
	    "\"finalizers\":[\"foregroundDeletion\"]}}");
}

TEST(test_objects_writes_nothing_for_tasks_that_are_not_there)
{
	AUTO(framework_config_auto) struct framework_config *c = config();
	AUTO(framework_auto) struct framework *f = running(c, "{}");
	struct framework_object o = { .kind = FRAMEWORK_POD, .role = "w", .index = 1 };
	STR_AUTO out = STR_INIT(TEXT_MAX);
	framework_object_write(f, &o, &out);
	o.role = "v";
	o.index = 0;
	framework_object_write(f, &o, &out);
	assert_int_equal(out.n, 0);
	assert_null(framework_object(f, &o, &unit.a));
	o.role = "w";
	assert_string_equal(
	    node_text(node_get(framework_object(f, &o, &unit.a), "metadata"), "name"), "job-w-0");
}
