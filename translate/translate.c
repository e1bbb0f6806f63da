#include "translate/translate.h"

#include "translate/hived/hived_plan.h"
#include "translate/objects/objects.h"
#include "translate/render/bindings.h"

const struct variable_group *const VARIABLE_GROUPS[] = { &FRAMEWORK_VARIABLES, &ROLE_VARIABLES,
	                                                 &RUNTIME_VARIABLES,   &ENV_VARIABLES,
	                                                 &STORAGE_VARIABLES,   &CODE_VARIABLES,
	                                                 &SECRET_VARIABLES,    &HIVED_VARIABLES };
const size_t N_VARIABLE_GROUPS = ARRAY_SIZE(VARIABLE_GROUPS);

struct translator *translator_new(const struct settings *s, const struct template_file *replace,
                                  struct err *e)
{
	return translator_compile(s, replace, VARIABLE_GROUPS, N_VARIABLE_GROUPS, e);
}
