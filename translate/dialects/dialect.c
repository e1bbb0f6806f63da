/* Lists the dialects, and finds that of a document by its kind or by a key that only it has. */
#include "translate/job/dialect.h"

#include "translate/dialects/dialects.h"
#include "translate/job/names.h"
#include "translate/reader/parse_context.h"

#define NAMES(...) ((const char *const[]){ __VA_ARGS__, NULL })

/* Bit i of a set is row i. */
static const struct dialect DIALECTS[] = {
	{
	    .name = "v1",
	    .key = "jobName",
	    .api = 1,
	    .schema = SCHEMA_V1,
	    .code = "InvalidParametersError",
	    .name_key = "jobName",
	    .prepare = pai_v1_numbers,
	    .read = pai_v1_read,
	    .old_env = true,
	    .shm_mb = 64,
	},
	{
	    .name = "v2",
	    .key = "protocolVersion",
	    .api = 2,
	    .schema = SCHEMA_V2,
	    .code = "InvalidProtocolError",
	    .name_key = "name",
	    .read = pai_v2_read,
	    .placeholders = true,
	    .shm_mb = 512,
	},
	{
	    .name = "mxjob",
	    .kinds = NAMES("MxJob", "MXJob"),
	    .versions =
		NAMES("mxnet.mlkube.io/v1beta1", "mlkube.io/v1beta1", "kubeflow.org/v1alpha1"),
	    .api = 2,
	    .schema = SCHEMA_MXJOB,
	    .code = "InvalidProtocolError",
	    .name_in = "metadata",
	    .name_key = "name",
	    .read = mxjob_read,
	    .shm_mb = 512,
	},
	{
	    .name = "launcher",
	    .kinds = NAMES("Framework"),
	    .versions = NAMES("launcher.microsoft.com/v1", "frameworkcontroller.microsoft.com/v1"),
	    .api = 2,
	    .schema = SCHEMA_LAUNCHER,
	    .code = "InvalidProtocolError",
	    .name_in = "metadata",
	    .name_key = "name",
	    .read = launcher_read,
	    .shm_mb = 512,
	},
};
enum { N_DIALECTS = ARRAY_SIZE(DIALECTS) };
_Static_assert(ARRAY_SIZE(DIALECTS) <= DIALECTS_MAX, "a bit for each dialect");

const struct dialect *dialect_nth(size_t i)
{
	return i < N_DIALECTS ? &DIALECTS[i] : NULL;
}

const struct dialect *dialect_get(unsigned bit)
{
	return &DIALECTS[__builtin_ctz(bit)];
}

/* If a document has the keys of two dialects, the later row wins. */
const struct dialect *dialect_of(const struct node *root, unsigned set)
{
	const struct node *kind = node_get(root, "kind");
	struct span version = parse_text(root, "apiVersion");
	for (size_t i = N_DIALECTS; i-- > 0;) {
		const struct dialect *d = &DIALECTS[i];
		bool is = d->key ? kind == NULL && node_get(root, d->key)
		                 : node_is(kind, NODE_TEXT) &&
		                       names_listed(d->kinds, node_span(kind)) &&
		                       names_listed(d->versions, version);
		if (is && set >> i & 1)
			return d;
	}
	return NULL;
}

const struct node *dialect_name_of(const struct dialect *d, const struct node *root)
{
	return node_get(d->name_in ? node_get(root, d->name_in) : root, d->name_key);
}

void dialects_known(struct str *out)
{
	for (size_t i = 0; i < N_DIALECTS; i++) {
		const struct dialect *d = &DIALECTS[i];
		for (size_t k = 0; d->kinds && d->kinds[k]; k++)
			str_printf(out, "%s, ", d->kinds[k]);
		for (size_t k = 0; d->kinds && d->versions[k]; k++)
			str_printf(out, "%s%s", k ? " or " : "of ", d->versions[k]);
		str_puts(out, d->kinds ? "; " : "");
	}
}

void dialects_optional(struct str *out, const char *between)
{
	for (size_t i = 0, n = 0; i < N_DIALECTS; i++)
		if (DIALECTS[i].kinds)
			str_printf(out, "%s%s", n++ ? between : "", DIALECTS[i].name);
}

int dialects_named(const char *list, unsigned *set, struct err *e)
{
	unsigned found = 0;
	for (struct span rest = span_of(list); rest.n;) {
		struct span name = span_next(&rest, ',');
		size_t i = 0;
		while (i < N_DIALECTS && !(DIALECTS[i].kinds && span_is(name, DIALECTS[i].name)))
			i++;
		if (i == N_DIALECTS)
			return err_set(e, 400, NULL, "--dialects: there is no dialect \"%.*s\"",
			               (int)name.n, name.p);
		found |= 1u << i;
	}
	*set = found;
	return 0;
}

const struct dialect *dialect_guess(struct span text, unsigned set)
{
	const struct dialect *first = NULL;
	for (size_t i = N_DIALECTS; i-- > 0;) {
		if (!(set >> i & 1))
			continue;
		first = &DIALECTS[i];
		if (first->key && span_find(text, 0, first->key) != SIZE_MAX)
			break;
	}
	return first;
}
