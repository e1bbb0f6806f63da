/* The schemas that the program brings along; see check.h. */
#include "base/embed.h"
#include "schema/check.h"

#include <stdlib.h>

EMBED(schema_v1, "schema/pai-v1.schema.json");
EMBED(schema_v2, "schema/pai-v2.schema.json");
EMBED(schema_facts, "schema/facts.schema.json");
EMBED(schema_issuers, "schema/issuers.schema.json");
EMBED(schema_hived, "schema/hived.schema.json");

/* Set once, before threads start, and only read from then on. */
static struct schema *compiled[SCHEMA_NAME_MAX];

struct span schema_text(enum schema_name name)
{
	switch (name) {
	case SCHEMA_V1:
		return EMBEDDED(schema_v1);
	case SCHEMA_V2:
		return EMBEDDED(schema_v2);
	case SCHEMA_FACTS:
		return EMBEDDED(schema_facts);
	case SCHEMA_ISSUERS:
		return EMBEDDED(schema_issuers);
	case SCHEMA_HIVED:
		return EMBEDDED(schema_hived);
	case SCHEMA_NAME_MAX:
		break;
	}
	return (struct span){ NULL, 0 };
}

const struct schema *schema_get(enum schema_name name)
{
	ERR_AUTO e = { 0 };
	if (compiled[name] == NULL)
		compiled[name] = schema_compile(schema_text(name), &e);
	if (compiled[name] == NULL)
		abort();
	return compiled[name];
}

void schema_init(void)
{
	for (int i = 0; i < SCHEMA_NAME_MAX; i++)
		(void)schema_get((enum schema_name)i);
}
