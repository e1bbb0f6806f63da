/*
 * Any bytes as the Framework that the API server sends.  Whatever is in it, runtime_env.sh has
 * nothing but lines export NAME='VALUE', and the variables are those of runtime_env; the object
 * that is written to framework.json is read as the same.
 */
#include "base/enc.h"
#include "runtime-assets/init/init_internal.h"
#include "tests/fuzz/fuzz.h"

static size_t name_length(struct span t)
{
	size_t n = 0;
	while (n < t.n &&
	       (t.p[n] == '_' || (t.p[n] >= 'a' && t.p[n] <= 'z') ||
	        (t.p[n] >= 'A' && t.p[n] <= 'Z') || (n && t.p[n] >= '0' && t.p[n] <= '9')))
		n++;
	return n;
}

static struct span behind(struct span t, size_t n)
{
	assert(n <= t.n);
	return (struct span){ t.p + n, t.n - n };
}

static struct span expect(struct span t, const char *text)
{
	assert(span_starts(t, text));
	return behind(t, strlen(text));
}

/* Read as a shell does: one statement; the variable goes to `out` as in runtime_env. */
static struct span statement(struct span t, struct str *out)
{
	t = expect(t, "export ");
	size_t n = name_length(t);
	assert(n > 0);
	str_put(out, t.p, n);
	str_char(out, '=');
	t = expect(behind(t, n), "='");
	for (;;) {
		const char *quote = memchr(t.p, '\'', t.n);
		assert(quote);
		n = (size_t)(quote - t.p);
		str_put(out, t.p, n);
		t = behind(t, n);
		if (!span_starts(t, "'\\''"))
			break;
		str_char(out, '\'');
		t = behind(t, 4);
	}
	str_char(out, '\0');
	return expect(t, "'\n");
}

static void check_environment(struct init_framework *f, struct arena *a)
{
	struct init in = { .a = a, .framework = f, .pod_uid = "pod" };
	struct env_text out = { .shell = STR_INIT(ENV_TEXT_MAX), .nul = STR_INIT(ENV_TEXT_MAX) };
	STR_AUTO problem = STR_INIT(2048);
	STR_AUTO seen = STR_INIT(ENV_TEXT_MAX);
	NOTES_AUTO warnings = { 0 };
	ERR_AUTO e = { 0 };
	in.role_name = f->n ? f->role[0].name : NULL;
	job_parse_config(&in.job, span_of(f->config ? f->config : ""), a, &problem);
	int failed = env_write(&in, &out, &warnings, &e);
	assert((failed != 0) == (e.notes.n > 0));
	if (!failed) {
		struct span text = str_view(&out.shell);
		while (text.n)
			text = statement(text, &seen);
		assert(span_eq(str_view(&seen), str_view(&out.nul)));
	}
	for (size_t i = 0; i < in.n_ports; i++)
		assert(in.port[i] > 0 && name_length(span_of(in.port_label[i])) > 0);
	str_done(&out.shell);
	str_done(&out.nul);
}

static void check_written(const struct init_framework *f, struct arena *a)
{
	STR_AUTO json = STR_INIT(FRAMEWORK_MAX);
	ERR_AUTO e = { 0 };
	node_json(&json, f->root);
	if (json.full)
		return;
	struct init_framework *again = framework_read(str_view(&json), a, &e);
	assert(again && again->n == f->n && again->total == f->total);
	assert(framework_ready(again) == framework_ready(f));
	assert(node_equal(again->root, f->root));
}

FUZZ(text)
{
	ARENA_AUTO a = { 0 };
	ERR_AUTO e = { 0 };
	struct init_framework *f = framework_read(text, &a, &e);
	assert((f == NULL) == (e.notes.n > 0));
	if (!f)
		return;
	assert(framework_ready(f) >= 0 && framework_ready(f) <= f->total);
	check_environment(f, &a);
	check_written(f, &a);
}
