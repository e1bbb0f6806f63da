#include "translate/dialect.h"

#include <stdlib.h>

#include "translate/dialects/parse_context.h"
#include "translate/names.h"

static const char *const MXJOB_KINDS[] = { "MxJob", "MXJob", NULL };
static const char *const MXJOB_VERSIONS[] = { "mxnet.mlkube.io/v1beta1", "mlkube.io/v1beta1",
	                                      "kubeflow.org/v1alpha1", NULL };
static const char *const LAUNCHER_KINDS[] = { "Framework", NULL };
static const char *const LAUNCHER_VERSIONS[] = { "launcher.microsoft.com/v1",
	                                         "frameworkcontroller.microsoft.com/v1", NULL };

#define SMALLER "fewer task roles or shorter commands"

static const struct dialect DIALECTS[] = {
	{
	    .bit = DIALECT_V1,
	    .name = "v1",
	    .key = "jobName",
	    .api = 1,
	    .form = true,
	    .schema = SCHEMA_V1,
	    .code = "InvalidParametersError",
	    .name_key = "jobName",
	    .prepare = pai_v1_numbers,
	    .read = pai_v1_read,
	    .old_env = true,
	    .shm_mb = 64,
	    .smaller = "fewer task roles, shorter commands or fewer `jobEnvs`",
	},
	{
	    .bit = DIALECT_V2,
	    .name = "v2",
	    .key = "protocolVersion",
	    .api = 2,
	    .schema = SCHEMA_V2,
	    .code = "InvalidProtocolError",
	    .name_key = "name",
	    .read = pai_v2_read,
	    .placeholders = true,
	    .shm_mb = 512,
	    .smaller = SMALLER,
	},
	{
	    .bit = DIALECT_MXJOB,
	    .name = "mxjob",
	    .kinds = MXJOB_KINDS,
	    .versions = MXJOB_VERSIONS,
	    .api = 2,
	    .schema = SCHEMA_MXJOB,
	    .code = "InvalidProtocolError",
	    .name_in = "metadata",
	    .name_key = "name",
	    .read = mxjob_read,
	    .shm_mb = 512,
	    .smaller = SMALLER,
	},
	{
	    .bit = DIALECT_LAUNCHER,
	    .name = "launcher",
	    .kinds = LAUNCHER_KINDS,
	    .versions = LAUNCHER_VERSIONS,
	    .api = 2,
	    .schema = SCHEMA_LAUNCHER,
	    .code = "InvalidProtocolError",
	    .name_in = "metadata",
	    .name_key = "name",
	    .read = launcher_read,
	    .shm_mb = 512,
	    .smaller = SMALLER,
	},
};
enum { N_DIALECTS = sizeof(DIALECTS) / sizeof(*DIALECTS) };

const struct dialect *dialect_nth(size_t i)
{
	return i < N_DIALECTS ? &DIALECTS[i] : NULL;
}

const struct dialect *dialect_get(unsigned bit)
{
	for (size_t i = 0; i < N_DIALECTS; i++)
		if (DIALECTS[i].bit == bit)
			return &DIALECTS[i];
	abort();
}

static bool dialect_is(const struct dialect *d, const struct node *root)
{
	const struct node *kind = node_get(root, "kind");
	const struct node *version = node_get(root, "apiVersion");
	if (d->key)
		return kind == NULL && node_get(root, d->key);
	return node_is(kind, NODE_TEXT) && names_listed(d->kinds, node_span(kind)) &&
	       node_is(version, NODE_TEXT) && names_listed(d->versions, node_span(version));
}

/* If a document has the keys of two dialects, the later row wins. */
const struct dialect *dialect_of(const struct node *root, unsigned set)
{
	for (size_t i = N_DIALECTS; i-- > 0;)
		if (DIALECTS[i].bit & set && dialect_is(&DIALECTS[i], root))
			return &DIALECTS[i];
	return NULL;
}

const struct node *dialect_name_of(const struct dialect *d, const struct node *root)
{
	return node_get(d->name_in ? node_get(root, d->name_in) : root, d->name_key);
}

static void dialect_list(const char *const *names, struct str *out)
{
	for (; names && *names; names++)
		str_printf(out, out->n ? ", %s" : "%s", *names);
}

bool dialect_kinds(struct span kind, struct str *out)
{
	for (size_t i = 0; i < N_DIALECTS; i++)
		if (DIALECTS[i].kinds && names_listed(DIALECTS[i].kinds, kind))
			dialect_list(DIALECTS[i].versions, out);
	if (out->n)
		return true;
	for (size_t i = 0; i < N_DIALECTS; i++)
		dialect_list(DIALECTS[i].kinds, out);
	return false;
}

int dialects_named(const char *list, unsigned *set, struct err *e)
{
	STR_AUTO known = STR_INIT(256);
	unsigned found = 0;
	for (struct span rest = span_of(list); rest.n;) {
		struct span name = span_next(&rest, ',');
		unsigned before = found;
		known.n = 0;
		for (size_t i = 0; i < N_DIALECTS; i++) {
			if (DIALECTS[i].kinds == NULL)
				continue;
			str_printf(&known, known.n ? ", %s" : "%s", DIALECTS[i].name);
			if (span_is(name, DIALECTS[i].name))
				found |= DIALECTS[i].bit;
		}
		if (found == before)
			return err_set(e, 400, NULL,
			               "--dialects: must be of %s, each once, is \"%.*s\"",
			               str_c(&known), (int)name.n, name.p);
	}
	*set = found;
	return 0;
}

const struct dialect *dialect_guess(struct span text, unsigned set)
{
	const struct dialect *first = NULL;
	for (size_t i = N_DIALECTS; i-- > 0;) {
		if (!(DIALECTS[i].bit & set))
			continue;
		first = &DIALECTS[i];
		if (first->key && span_find(text, 0, first->key) != SIZE_MAX)
			break;
	}
	return first;
}
