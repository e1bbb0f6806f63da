/* The job's configuration: job_config.yaml for scripts and people, and read for the other steps. */
#include <stdlib.h>

#include "runtime-assets/init.h"

static int write_config(const struct init *in, const char *config, struct err *e)
{
	const char *text = arena_printf(in->a, "%s\n", config);
	if (dir_make(in->at.runtime_d, 0755, e) < 0)
		return -1;
	return file_write(path_join(in->a, in->at.runtime_d, "job_config.yaml"), span_of(text),
	                  0644, e);
}

int step_config(struct init *in, struct err *e)
{
	STR_AUTO problem = STR_INIT(2048);
	in->job.role_name = env_get("PAI_CURRENT_TASK_ROLE_NAME");
	if (in->framework == NULL) {
		if (in->runtime_config)
			in->job.doc.root = *in->runtime_config;
		return 0;
	}
	const char *config = in->framework->config;
	if (config && write_config(in, config, e) < 0)
		return INIT_FAILED;
	job_read(&in->job, span_of(config ? config : ""), in->a, &problem);
	if (problem.n)
		say(SAY_WARNING, "%s", str_c(&problem));
	else if (in->job.role_name && !in->job.role)
		say(SAY_WARNING, "the job configuration has no task role of the name in "
		                 "PAI_CURRENT_TASK_ROLE_NAME");
	return 0;
}
