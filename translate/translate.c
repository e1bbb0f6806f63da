#include "translate/translate.h"

#include "translate/render/bindings.h"

static const struct variable_group *const GROUPS[] = { &FRAMEWORK_VARIABLES, &ROLE_VARIABLES,
	                                               &RUNTIME_VARIABLES,   &ENV_VARIABLES,
	                                               &STORAGE_VARIABLES,   &SECRET_VARIABLES,
	                                               &HIVED_VARIABLES };
enum { N_GROUPS = ARRAY_SIZE(GROUPS) };

struct translator *translator_new(const struct settings *s, const struct template_file *replace,
                                  struct err *e)
{
	return translator_compile(s, replace, GROUPS, N_GROUPS, e);
}
