/*
 * The step `command`: user.sh out of USER_CMD, with its secrets filled in verbatim, or out of
 * RUNTIME_CONFIG in a pod without PAI.  What is logged is the text before: it holds no secret.
 */
#include "runtime-assets/args.h"
#include "runtime-assets/init/init.h"
#include "runtime-assets/plugins/plugin.h"
#include "runtime-assets/shell.h"

enum { COMMAND_MAX = 4 << 20 };

static void tell(struct span command)
{
	while (command.n > 0) {
		size_t end = span_find(command, 0, "\n");
		size_t n = end == SIZE_MAX ? command.n : end;
		say(SAY_INFO, "command: %.*s", (int)(n < 4000 ? n : 4000), command.p);
		n += end != SIZE_MAX;
		command = (struct span){ command.p + n, command.n - n };
	}
}

/* `commands` of RUNTIME_CONFIG, a line each, or one text. */
static int join(const struct node *commands, struct str *out, struct err *e)
{
	if (node_is(commands, NODE_TEXT)) {
		str_span(out, node_span(commands));
		return 0;
	}
	if (!node_is(commands, NODE_LIST) || commands->n == 0)
		return err_set(e, FAILED, "there is no command: neither USER_CMD nor `commands`");
	for (uint32_t i = 0; i < commands->n; i++) {
		if (i)
			str_char(out, '\n');
		if (!job_scalar(&commands->item[i], out))
			return err_set(e, FAILED, "`commands[%u]` must be a text", i);
	}
	return 0;
}

/* The server has filled in parameters of USER_CMD already; nobody did in `commands`. */
static int put_command(const struct init *in, struct str *out, struct err *e)
{
	const char *command = env_get("USER_CMD");
	struct job job;
	bool bare = plugins_job(in, &job);
	if (command) {
		tell(span_of(command));
		if (!job.secrets) {
			str_puts(out, command);
			return 0;
		}
		return job_fill_secrets(&job, span_of(command), out, e);
	}
	STR_AUTO text = STR_INIT(COMMAND_MAX);
	if (join(bare ? node_get(in->runtime_config, "commands") : NULL, &text, e))
		return -1;
	tell(str_view(&text));
	return job_fill(&job, str_view(&text), out, e);
}

int step_command(struct init *in, struct err *e)
{
	STR_AUTO script = STR_SECRET(COMMAND_MAX);
	shell_header(&script);
	if (put_command(in, &script, e))
		return INIT_FAILED;
	if (script.full)
		(void)err_set(e, FAILED, "the command has more than %d bytes", COMMAND_MAX);
	if (script.full ||
	    file_write(path_join(in->a, in->at.runtime_d, "user.sh"), str_view(&script), 0755, e))
		return INIT_FAILED;
	return 0;
}
