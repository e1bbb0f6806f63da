/*
 * Keeps the settings, and compiles templates when they are first used.  Each template has a slot
 * for every set of its overlays.  A slot is filled at its first use, by compare-and-swap, because
 * all threads share the translator.  A filled slot never changes.
 */
#include "translate/render/translator.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/err.h"
#include "translate/job/names.h"
#include "translate/render/bindings.h"

enum { OVERLAYS_PER_TEMPLATE = 20 };

struct compiled_template {
	const struct node *base;
	struct manifest overlay[OVERLAYS_PER_TEMPLATE];
	enum overlay_condition when[OVERLAYS_PER_TEMPLATE];
	size_t n;
	_Atomic(struct prog *) *program; /* 1 << n */
};

struct translator {
	struct settings set;
	struct arena arena;
	struct constant constants[N_CONSTANTS];
	struct vocabulary vocabulary;
	struct compiled_template unit[TEMPLATE_MAX];
	bool uses_gpu_type;
};

/* ---- settings ---- */

static int check_settings(const struct settings *s, struct err *e)
{
	if (s->hived_scheduler[0] == '\0')
		return err_set(e, UNKNOWN_ERROR, "the name of HiveD's scheduler is not set");
	bool names_ok = true;
	for (struct span rest = span_of(s->hived_device_env); rest.n && names_ok;) {
		bool more = span_chr(rest, ',') < rest.n;
		names_ok = names_identifier_ok(span_next(&rest, ',')) && (!more || rest.n);
	}
	if (!names_ok)
		return err_set(e, UNKNOWN_ERROR,
		               "variables that tell devices: must be names with commas between "
		               "them, are \"%s\"",
		               s->hived_device_env);
	if (s->port_start < 1 || s->port_end > 65536 || s->port_start >= s->port_end)
		return err_set(e, UNKNOWN_ERROR,
		               "ports: the range must lie within 1 and 65536 and not be empty");
	if (s->runtime_image[0] == '\0')
		return err_set(e, UNKNOWN_ERROR, "the image of the init container is not set");
	if (s->device[0] == '\0')
		return err_set(e, UNKNOWN_ERROR, "the resource name of the accelerator is not set");
	return 0;
}

#define API_SERVER "https://kubernetes.default.svc"

void constants_fill(struct constant out[static N_CONSTANTS], const struct settings *s)
{
	/* clang-format off */
	const struct constant all[N_CONSTANTS] = {
		{ "config.namespace", span_of(s->namespace_name), "Namespace of the jobs." },
		{ "config.runtimeImage", span_of(s->runtime_image), "Image of the init container." },
		{ "config.runtimePullPolicy", span_of(image_pull_policy(span_of(s->runtime_image))), "`IfNotPresent` if that image has a tag other than `latest`, or a digest; else `Always`." },
		{ "config.runtimePullSecret", span_of(s->runtime_pull_secret), "Secret with the login for that image; empty for none." },
		{ "config.serviceAccount", span_of(s->service_account), "Service account of the pods." },
		{ "config.apiserverUri", span_of(s->apiserver_uri[0] ? s->apiserver_uri : API_SERVER), "The API server as pods see it: " API_SERVER "." },
		{ "config.restServerUri", span_of(s->rest_server_uri), "This server as pods see it: empty; a template of your own can have the address instead." },
		{ "config.outputUrl", span_of(s->output_url), "`--output-url`: where pods upload the end of their output; empty for none." },
		{ "config.outputCa", SPAN(OUTPUT_CA), "The ConfigMap with the certificate authorities for that URL." },
		{ "config.device", span_of(s->device), "Resource name of the accelerator." },
		{ "config.hivedScheduler", span_of(s->hived_scheduler), "First part of the names of HiveD's schedulers." },
	};
	/* clang-format on */
	memcpy(out, all, sizeof(all));
}

/* ---- templates ---- */

static struct span find_text(const struct translator *t, const struct template_file *replace,
                             const char *file)
{
	struct span text = { NULL, 0 };
	const char *shipped;
	int profile = 0;
	bool openpai = t->set.profile == PROFILE_OPENPAI; /* restricted has the files of plain */
	for (; replace && replace->name; replace++)
		if (strcmp(replace->name, file) == 0)
			return replace->text;
	for (size_t i = 0; (shipped = template_nth(i, &profile, &text)); i++)
		if (strcmp(shipped, file) == 0 &&
		    (profile < 0 || (profile == PROFILE_OPENPAI) == openpai))
			return text;
	return (struct span){ NULL, 0 };
}

/* Comments count too; the result only decides about a warning. */
static void look_for_gpu_type(struct translator *t, struct span text)
{
	t->uses_gpu_type |= span_find(text, 0, "${job.gpuType}") != SIZE_MAX;
}

static int translator_read_template(struct translator *t, enum template_id u,
                                    const struct template_file *replace, struct err *e)
{
	struct compiled_template *c = &t->unit[u];
	struct manifest base = { TEMPLATES[u].file, find_text(t, replace, TEMPLATES[u].file),
		                 MANIFEST_BASE, TEMPLATES[u].has, NULL };
	if (manifest_read(&base, &t->vocabulary, &t->arena, e) < 0)
		return -1;
	look_for_gpu_type(t, base.text);
	c->base = base.root;
	for (size_t i = 0; i < N_OVERLAYS; i++) {
		const enum template_id *unit = OVERLAYS[i].units;
		while (*unit != u && *unit != TEMPLATE_MAX)
			unit++;
		if (*unit == TEMPLATE_MAX)
			continue;
		assert(c->n < OVERLAYS_PER_TEMPLATE);
		const char *file = OVERLAYS[i].file;
		struct manifest *m = &c->overlay[c->n];
		*m = (struct manifest){ file, find_text(t, replace, file), MANIFEST_OVERLAY,
			                TEMPLATES[u].has | OVERLAYS[i].has, NULL };
		if (manifest_read(m, &t->vocabulary, &t->arena, e) < 0)
			return -1;
		look_for_gpu_type(t, m->text);
		assert(m->root);
		bool container = m->root->type == NODE_LIST || m->root->type == NODE_MAP;
		if (m->root->type != NODE_NULL && !(container && m->root->n == 0))
			c->when[c->n++] = OVERLAYS[i].when;
	}
	c->program = xcalloc((size_t)1 << c->n, sizeof(*c->program));
	return 0;
}

/* Adds the overlays of a failed merge to the message; i = n: all of them. */
static void translator_name_overlays(const struct translator *t, enum template_id u, size_t mask,
                                     size_t i, struct err *e)
{
	STR_AUTO names = STR_INIT(4096);
	for (size_t k = 0; k < i; k++)
		if (mask >> k & 1)
			str_printf(&names, ", %s", t->unit[u].overlay[k].file);
	(void)err_wrap(e, "%s%s%s", i < t->unit[u].n ? "over " : "template ", TEMPLATES[u].file,
	               names.n ? str_c(&names) : "");
}

static struct prog *template_compile(const struct translator *t, enum template_id u, size_t mask,
                                     struct err *e)
{
	const struct compiled_template *c = &t->unit[u];
	ARENA_AUTO scratch = { 0 };
	const struct node *root = c->base;
	for (size_t i = 0; i < c->n; i++)
		if (mask >> i & 1 && manifest_merge(&root, &c->overlay[i], &scratch, e) < 0) {
			translator_name_overlays(t, u, mask, i, e);
			return NULL;
		}
	struct prog *p = prog_new(root, TEMPLATES[u].shape, &t->vocabulary, e);
	if (p == NULL)
		translator_name_overlays(t, u, mask, c->n, e);
	return p;
}

/* The program for a set of overlays, compiled at the first call.  NULL and *e if that is
 * impossible; not after translator_new. */
static const struct prog *translator_program(const struct translator *t, enum template_id u,
                                             size_t mask, struct err *e)
{
	_Atomic(struct prog *) *slot = &t->unit[u].program[mask];
	struct prog *known = atomic_load_explicit(slot, memory_order_acquire);
	if (known)
		return known;
	struct prog *mine = template_compile(t, u, mask, e);
	if (mine == NULL || atomic_compare_exchange_strong(slot, &known, mine))
		return mine;
	prog_free(mine); /* another thread was faster */
	return known;
}

static int compile_check(const struct translator *t, enum template_id u, size_t mask, struct err *e)
{
	struct prog *p = template_compile(t, u, mask, e);
	prog_free(p);
	return p ? 0 : -1;
}

/* Checks a template with all overlays: the largest program.  If the operator has replaced
 * templates, also without overlays, with each one, and each two.  Merges fail between two overlays,
 * so no other set can fail later.  Tests check the templates of the program in this way. */
static int check_overlays(const struct translator *t, enum template_id u, bool replaced,
                          struct err *e)
{
	size_t n = t->unit[u].n;
	if (replaced && compile_check(t, u, 0, e) < 0)
		return -1;
	for (size_t i = 0; replaced && i < n; i++)
		for (size_t k = i + 1; k-- > 0;) /* k = i: one alone */
			if (compile_check(t, u, (size_t)1 << i | (size_t)1 << k, e) < 0)
				return -1;
	return compile_check(t, u, ((size_t)1 << n) - 1, e);
}

static int translator_check_name(const char *name, struct err *e)
{
	int profile = 0;
	struct span text;
	const char *file = NULL;
	struct guess g = { .name = span_of(name) };
	for (size_t i = 0; (file = template_nth(i, &profile, &text)) != NULL; i++) {
		if (strcmp(file, name) == 0)
			return 0;
		guess_try(&g, file);
	}
	if (g.best)
		return err_set(e, UNKNOWN_ERROR,
		               "template %s: there is none of this name, did you mean %s?", name,
		               g.best);
	return err_set(e, UNKNOWN_ERROR,
	               "template %s: there is none of this name (`rest-lit page translation` lists "
	               "all)",
	               name);
}

struct translator *translator_compile(const struct settings *s, const struct template_file *replace,
                                      const struct variable_group *const *all, size_t n,
                                      struct err *e)
{
	struct translator *t = xcalloc(1, sizeof(*t));
	t->set = *s;
	constants_fill(t->constants, s);
	t->vocabulary = (struct vocabulary){ all, n, t->constants, N_CONSTANTS, SCOPE_NAMES };
	bool good = check_settings(&t->set, e) == 0;
	for (const struct template_file *r = replace; good && r && r->name; r++)
		good = translator_check_name(r->name, e) == 0;
	for (enum template_id u = 0; good && u < TEMPLATE_MAX; u++)
		good = translator_read_template(t, u, replace, e) == 0 &&
		       check_overlays(t, u, replace != NULL, e) == 0;
	if (good)
		return t;
	translator_free(t);
	return NULL;
}

void translator_free(struct translator *t)
{
	if (t == NULL)
		return;
	for (enum template_id u = 0; u < TEMPLATE_MAX; u++) {
		struct compiled_template *c = &t->unit[u];
		for (size_t i = 0; c->program && i < (size_t)1 << c->n; i++)
			prog_free(atomic_load(&c->program[i]));
		free(c->program);
	}
	arena_done(&t->arena);
	free(t);
}

const struct settings *translator_settings(const struct translator *t)
{
	return &t->set;
}

bool translator_uses_gpu_type(const struct translator *t)
{
	return t->uses_gpu_type;
}

void template_write(const struct scope *s, enum template_id u, struct str *out)
{
	const struct compiled_template *c = &s->t->unit[u];
	size_t mask = 0;
	for (size_t i = 0; i < c->n; i++)
		if (condition_holds(c->when[i], s))
			mask |= (size_t)1 << i;
	const struct prog *p = atomic_load_explicit(&c->program[mask], memory_order_acquire);
	if (p == NULL) {
		ERR_AUTO e = { 0 };
		p = translator_program(s->t, u, mask, &e);
		assert(p);
	}
	prog_run(p, s, out);
}
