/* The job's configuration: job_config.yaml for scripts and people, and read for the other steps,
 * with the secrets that belong to it. */
#include "runtime-assets/args.h"
#include "runtime-assets/init/init.h"

enum { SECRET_MAX = 2 << 20 /* more than a Secret can hold */ };

/* A mounted YAML file; NULL if there is none.  What it says stays out of the message. */
static int read_mounted(const char *path, struct arena *a, const struct node **root, struct err *e)
{
	NOTES_AUTO warnings = { 0 };
	ERR_AUTO why = { 0 };
	struct doc doc;
	struct span text;
	int status = file_read(path, FILE_MOUNTED, SECRET_MAX, a, &text, e);
	if (status != 0 || span_trim(text).n == 0)
		return status < 0 ? -1 : 0;
	if (doc_read(text, &BUDGET_DEFAULT, a, &doc, &warnings, &why) < 0)
		return err_set(e, FAILED, "%s: line %u cannot be read as YAML", path,
		               why.notes.v[0].line);
	struct node *copy = ARENA_NEW(a, struct node, 1);
	*copy = doc.root;
	*root = copy;
	return 0;
}

static int read_secrets(struct init *in, struct err *e)
{
	ERR_AUTO why = { 0 };
	if (read_mounted(in->at.secrets, in->a, &in->job.secrets, e) < 0)
		return -1;
	/* Keys of the user: not every job needs them. */
	if (read_mounted(in->at.extension, in->a, &in->job.extension, &why) < 0)
		say(SAY_WARNING, "%s", err_msg(&why));
	return 0;
}

/* As it was written, and one newline. */
static int write_config(const struct init *in, struct span config, struct err *e)
{
	STR_AUTO text = STR_INIT(FRAMEWORK_MAX + 1);
	str_span(&text, config);
	str_char(&text, '\n');
	if (dir_make(in->at.runtime_d, 0755, e) < 0)
		return -1;
	return file_write(path_join(in->a, in->at.runtime_d, "job_config.yaml"), str_view(&text),
	                  0644, e);
}

static int read_config(struct init *in, struct err *e)
{
	STR_AUTO problem = STR_INIT(2048);
	const char *config = in->framework->config;
	if (config && write_config(in, span_of(config), e) < 0)
		return -1;
	job_read(&in->job, span_of(config ? config : ""), in->a, &problem);
	if (problem.n)
		say(SAY_WARNING, "%s", str_c(&problem));
	else if (in->job.role_name && !in->job.role)
		say(SAY_WARNING, "the job configuration has no task role of the name in "
		                 "PAI_CURRENT_TASK_ROLE_NAME");
	return 0;
}

int step_config(struct init *in, struct err *e)
{
	in->job.role_name = env_get("PAI_CURRENT_TASK_ROLE_NAME");
	if (read_secrets(in, e) < 0 || (in->framework && read_config(in, e) < 0))
		return INIT_FAILED;
	return 0;
}
