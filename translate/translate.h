#pragma once
/*
 * translate/: the text of a job and facts about the cluster in, Kubernetes objects out.
 *
 *	struct translator *t = translator_new(&settings, NULL, e);
 *	struct job *job = t ? job_read(t, DIALECTS_PAI, text, "alice", a, warnings, e) : NULL;
 *	struct objects objects;
 *	if (job && job_build(t, job, &facts, NULL, a, &objects, e) == 0)
 *		use(objects_framework(&objects));
 *	translator_free(t);
 *
 * Pure: no clock, files, environment, network or log; the same input gives the same bytes.  Jobs
 * and objects live in the arena.  A translator is immutable.
 *
 * Begin here, then job/job.h and job_read.c.  job/ is the ground: jobs, settings, names; reader/
 * has what the dialects read documents with, dialects/ a file for each dialect; render/ compiles
 * templates, objects/ has the functions behind their variables, hived/ the scheduler HiveD.
 *
 * Thread: any
 */
#include "translate/dialects/extras.h"
#include "translate/job/job.h"
#include "translate/job/names.h"
#include "translate/objects/build.h"
#include "translate/render/translator.h"

/* The variables of templates, by subject. */
extern const struct variable_group *const VARIABLE_GROUPS[];
extern const size_t N_VARIABLE_GROUPS;

/* Compiles and checks all templates (variables, functions, overlays, places). NULL and *e (500,
 * file, line) if a template or a setting is wrong. The caller frees it with translator_free. */
struct translator *translator_new(const struct settings *s, const struct template_file *replace,
                                  struct err *e);
/*
 * Reads a job in one of the dialects of the set; a set with one dialect decides about documents of
 * any form. The job lives in the arena and refers to `text`. `user` must be user_name_ok. NULL and
 * *e with every violation and its place: 400 and the code of the dialect.
 */
struct job *job_read(const struct translator *t, unsigned set, struct span text, const char *user,
                     struct arena *a, struct notes *warnings, struct err *e);

/*
 * Writes a job of any dialect as a v2 job in YAML.  Properties that v2 cannot express are noted in
 * *lost, with its place in the file; these notes and `warnings`, those of job_read, are comments
 * above the job.  A v2 job has no comments and keeps its secrets.  -1 and *e (400, 413): as a v2
 * job it would be refused.
 */
int job_convert(const struct translator *t, const struct job *job, const struct notes *warnings,
                struct notes *lost, struct str *out, struct err *e);

/* The tables of docs/TRANSLATION.md: templates, overlays, variables. */
void translation_page(struct str *out);
/* All shipped templates. */
void templates_page(struct str *out);
