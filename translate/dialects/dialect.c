#include "translate/dialect.h"

#include <stdlib.h>

#include "translate/dialects/parse_context.h"

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
	    .smaller = "fewer task roles or shorter commands",
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

/* If a document has the keys of two dialects, the later row wins. */
const struct dialect *dialect_of(const struct node *root, unsigned set)
{
	for (size_t i = N_DIALECTS; i-- > 0;)
		if (DIALECTS[i].bit & set && node_get(root, DIALECTS[i].key))
			return &DIALECTS[i];
	return NULL;
}

const struct dialect *dialect_guess(struct span text, unsigned set)
{
	const struct dialect *first = NULL;
	for (size_t i = N_DIALECTS; i-- > 0;) {
		if (!(DIALECTS[i].bit & set))
			continue;
		first = &DIALECTS[i];
		if (span_find(text, 0, first->key) != SIZE_MAX)
			break;
	}
	return first;
}
