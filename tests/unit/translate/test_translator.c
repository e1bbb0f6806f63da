/* The shipped templates, and replacements by an administrator. */
#include "tests/unit/translate/build_kit.h"
/* ---- templates ----------------------------------------------------------------------------- */

TEST(test_translator_uses_every_variable)
{
	for (size_t g = 0; g < N_VARIABLE_GROUPS; g++)
		for (size_t i = 0; i < VARIABLE_GROUPS[g]->n; i++) {
			const struct variable *h = &VARIABLE_GROUPS[g]->v[i];
			FREE_AUTO char *variable =
			    xasprintf(variable_is_list(h) ? "${*%s}" : "${%s}", h->name);
			bool used = false;
			int profile = 0;
			struct span text;
			for (size_t k = 0; template_nth(k, &profile, &text); k++)
				used |= memmem(text.p, text.n, variable, strlen(variable)) != NULL;
			/* for administrators only */
			if (!used && strcmp(h->name, "job.gpuType") != 0)
				fail_msg("no template has %s", variable);
		}
}

/* The upper four of nine bits choose the settings of an installation. */
static void translator_set_up(struct bench *b, unsigned bits)
{
	set_up(b, bits & 32 ? PROFILE_OPENPAI : PROFILE_PLAIN);
	b->set.runtime_pull_secret = bits & 64 ? "pull" : "";
	b->set.max_env_inline = bits & 128 ? 10 : 1 << 20;
	b->set.program[0] =
	    (struct runtime_program){ "pai-runtime-amd64-0", "amd64", "x86_64", "0", SPAN("cGFp") };
	b->set.n_programs = bits & 256 ? 1 : 0;
}

/* The lower five bits choose the properties of a job. */
static void translator_combination(struct translator *t, unsigned bits)
{
	BENCH(b, translator_set_up, bits);
	b.shared = t;
	b.role[0].gpu = bits & 1 ? 0 : 1;
	b.role[0].wants = bits & 2 ? GRANT_INFINIBAND : 0;
	b.role[0].wants |= bits & 4 ? GRANT_FUSE : 0;
	b.role[0].wants |= bits & 8 ? GRANT_HOST_NETWORK : 0;
	b.facts.grants = b.role[0].wants;
	b.role[0].image_auth = b.job.has_auth = bits & 4;
	if (bits & 8)
		give_secrets(&b);
	b.facts.extension = bits & 16 ? b.job.secrets : NULL;
	b.job.dialect = dialect_get(bits % 3 ? DIALECT_V2 : DIALECT_V1);
	b.mark = bits % 5 ? &MARK : NULL;
	built(&b);
	for (size_t i = 0; i < b.out.n; i++) {
		assert_null(memmem(b.out.v[i].body.p, b.out.v[i].body.n, "${", 2));
		json_decref(object(&b, i));
	}
}

TEST(test_translator_compiles_every_combination)
{
	for (unsigned set = 0; set < 1 << 9; set += 32) {
		BENCH(b, translator_set_up, set);
		struct translator *t = translator_new(&b.set, NULL, &b.e);
		if (t == NULL)
			fail_msg("%s", err_msg(&b.e));
		for (unsigned bits = set; bits < set + 32; bits++)
			translator_combination(t, bits);
		translator_free(t);
	}
}

/* `- name: X` in a template, as the table has it. */
static void template_name(struct span line, struct str *name)
{
	static const char *const VARIABLES[][2] = { { "${role.suffix}", "$role" },
		                                    { "${device.name}", "$device" } };
	for (size_t at = 0; at < line.n; at++) {
		struct span rest = { line.p + at, line.n - at };
		size_t variable = 0;
		while (variable < 2 && !span_starts(rest, VARIABLES[variable][0]))
			variable++;
		if (variable < 2) {
			str_puts(name, VARIABLES[variable][1]);
			at += strlen(VARIABLES[variable][0]) - 1;
		} else {
			str_char(name, line.p[at]);
		}
	}
}

/* Returns false for names of containers and volumes, and for names of the author. */
static bool is_variable(struct span name)
{
	return (name.p[0] >= 'A' && name.p[0] <= 'Z') || span_starts(name, "$device");
}

/* Finds each variable of the template in the document, and appends the first cell of its row. */
static void check_template(struct span text, struct span document, struct str *used)
{
	while (text.n > 0) {
		struct span line = span_trim(span_next(&text, '\n'));
		STR_AUTO name = STR_INIT(256);
		STR_AUTO cell = STR_INIT(256);
		if (!span_starts(line, "- name: "))
			continue;
		template_name(span_from(line, 8), &name);
		if (!is_variable(str_view(&name)))
			continue;
		str_printf(&cell, "| `%s` |", str_c(&name));
		if (span_find(document, 0, str_c(&cell)) == SIZE_MAX)
			fail_msg("%s is not in TRANSLATION.md", str_c(&cell));
		str_span(used, str_view(&cell));
	}
}

/* The document has exactly the variables that the templates write. */
TEST(test_translator_documents_the_whole_environment)
{
	struct span document = unit_read("docs/TRANSLATION.md");
	STR_AUTO used = STR_INIT(1 << 20);
	int profile = 0;
	struct span text;
	document = span_from(document, span_find(document, 0, "### By rest-lit"));
	document = span_to(document, span_find(document, 0, "### By pai-runtime"));
	for (size_t k = 0; template_nth(k, &profile, &text); k++)
		check_template(text, document, &used);
	while (document.n) {
		struct span line = span_next(&document, '\n');
		if (!span_starts(line, "| `"))
			continue;
		const char *cell = arena_dup(&unit.a, span_to(line, span_find(line, 0, "` |") + 3));
		if (!strstr(str_c(&used), cell))
			fail_msg("no template has %s", cell);
	}
}

/* The invalid overlay and its base; unknown variables, and variables that would contain themselves.
 */
static const struct {
	const char *file, *text, *says;
} REFUSED[] = {
	{ "site-taskrole.yaml", "task:\n  pod:\n    spec: {dnsPolicy: None}\n",
	  "over taskrole.yaml, host-network.yaml: template site-taskrole.yaml, line 3: two "
	  "overlays set this: `dnsPolicy`" },
	{ "site-taskrole.yaml", "task:\n  pod: []\n",
	  "over taskrole.yaml: template site-taskrole.yaml, line 2: a list, where there is "
	  "a "
	  "mapping: `pod`" },
	{ "site-framework.yaml", "specs: {}\n",
	  "over framework.yaml: template site-framework.yaml, line 1: there is no such "
	  "place to add to: `specs`" },
	{ "site-framework.yaml", "spec: {x: null}\n", "line 1: null deletes nothing" },
	{ "site-framework.yaml", "5", "an integer, where there is a mapping" },
	{ "taskrole.yaml", "task: {pod: {spec: {containers: [{name: main, image: x}]}}}\n",
	  "over taskrole.yaml: template cpu-only.yaml, line 6: there is no such "
	  "container" },
	{ "env-job-v1.yaml", "- a: 1\n",
	  "template env-job.yaml, env-job-v1.yaml: line 1: in a list" },
	{ "env-role.yaml", "a: 1\n", "template env-role.yaml: line 1: a list is needed here" },
	{ "framework.yaml", "a: 1\nb: ${role.name}\n", "line 2: a variable of a task role" },
	{ "framework.yaml", "a: ${mark.submission}\n", "line 1: a variable of a submission" },
	{ "framework.yaml", "a: ${owner.uid}\n", "belongs to the Framework" },
	{ "framework.yaml", "a: ${secret.job}\n", "the job's secrets" },
	{ "framework.yaml", "a: ${secret.extension}\n", "the user's extension" },
	{ "taskrole.yaml", "a:\n  - ${*job.taskRoles}\n", "a variable of framework.yaml" },
	{ "env-job.yaml", "- ${*env.job}\n", "a variable of taskrole.yaml" },
	{ "env-job-role.yaml", "- ${*env.roles}\n", "a variable of env-job.yaml" },
	{ "env-role.yaml", "- ${*env.role}\n", "a variable of taskrole.yaml" },
	{ "env-role.yaml", "- name: ${var.name}\n  value: x\n", "a variable from the job" },
	{ "storage-mount.yaml", "- ${*storage.mounts}\n", "a variable of taskrole.yaml" },
	{ "taskrole.yaml", "a: ${mount.path}\n", "a variable of a storage" },
	{ "configmap-runtime.yaml", "a: ${job.name}\n", "a variable of a job" },
	{ "configmap-runtime.yaml", "a: ${runtime.initImage}\n", "a variable of a task role" },
	{ "env-job-v1.yaml", "- name: A\n  value: ${role.name}\n", "a variable of a task role" },
	{ "cpu-only.yaml", "a: ${mark.instance}\n", "a variable of a submission" },
	{ "taskrol.yaml", "a: 1",
	  "template taskrol.yaml: there is none of this name, did you mean "
	  "taskrole.yaml?" },
	{ "priorityclass.yaml", "kind: X\nvalue: ${job.prio}\n",
	  "priorityclass.yaml, line 2: unknown variable: `job.prio`" },
	/* An absent value is dropped from its container: without one, writing would never
	   end. */
	{ "priorityclass.yaml", "\"${job.priorityClass}\"\n",
	  "template priorityclass.yaml: line 1: a mapping is needed" },
	{ "taskrole.yaml", "name: ${role.objectName}\ntask:\n  pod: {spec: {containers: []}}\n",
	  "cpu-only.yaml" },
};

TEST(test_translator_refuses_invalid_templates)
{
	for (size_t i = 0; i < ARRAY_SIZE(REFUSED); i++) {
		struct settings set;
		translate_settings_default(&set);
		const struct template_file replace[] = {
			{ REFUSED[i].file, span_of(REFUSED[i].text) }, { 0 }
		};
		assert_null(translator_new(&set, replace, no_err()));
		assert_int_equal(unit.e.http, 500);
		if (!strstr(err_msg(&unit.e), REFUSED[i].file) ||
		    !strstr(err_msg(&unit.e), REFUSED[i].says))
			fail_msg("%s", err_msg(&unit.e));
	}
}

TEST(test_translator_refuses_empty_port_range)
{
	struct settings set;
	translate_settings_default(&set);
	set.port_end = set.port_start;
	assert_null(translator_new(&set, NULL, no_err()));
}
