#pragma once
/*
 * The settings of an installation with its compiled templates: made at start.
 *
 * Thread: any
 */
#include "translate/job/settings.h"
#include "translate/render/template.h"

struct translator;

/* Compiles and checks all templates, with the variables of these n groups.  NULL and
 * *e (500, file, line) if a template or a setting is wrong. */
struct translator *translator_compile(const struct settings *s, const struct template_file *replace,
                                      const struct variable_group *const *all, size_t n,
                                      struct err *e);
void translator_free(struct translator *t); /* NULL is allowed */
const struct settings *translator_settings(const struct translator *t);
/* Returns true if a template uses job.gpuType; no shipped one does. */
bool translator_uses_gpu_type(const struct translator *t);
