/* Explaining a failure, see exit.h: specification, logs, excerpts, message. */
#include "runtime-assets/exit/exit.h"

#include "runtime-assets/exit/exit_inner.h"

static const struct match *where(const struct regex *re, const struct match *m)
{
	return re ? m : NULL;
}

int exit_explain(const struct exit_input *input, struct str *message, struct notes *warnings)
{
	if (input->code == 0)
		return 0;
	static const struct exit_pattern NONE = { 0 };
	ARENA_AUTO a = { 0 };
	struct exit_case c = { .in = input, .warnings = warnings };
	struct exit_spec spec;
	struct exit_verdict v;
	log_text_open(&c.user, input->user_log, input->user_log_rotated);
	log_text_open(&c.platform, input->runtime_log, -1);
	exit_spec_read(&spec, input->spec, input->code, &a, warnings);
	exit_spec_match(&spec, &c, &v);

	const struct exit_pattern *p = v.pattern ? v.pattern : &NONE;
	const struct match *in_user = where(p->user, &v.user);
	const struct match *in_platform = where(p->platform, &v.platform);
	struct excerpt user_part;
	struct excerpt platform_part;
	STR_AUTO matched_user = STR_INIT(MATCHED_TEXT_MAX);
	STR_AUTO matched_platform = STR_INIT(MATCHED_TEXT_MAX);
	excerpt_make(&user_part, &c.user, in_user, EXCERPT_USER_LINES);
	excerpt_make(&platform_part, &c.platform, in_platform, EXCERPT_PLATFORM_LINES);
	if (in_user)
		excerpt_matched(&matched_user, &c.user, in_user);
	if (in_platform)
		excerpt_matched(&matched_platform, &c.platform, in_platform);
	struct summary s = {
		.code = v.code,
		.user_code = input->code,
		.rank = v.rank,
		.trigger = input->trigger,
		.matched_user = in_user ? &matched_user : NULL,
		.matched_platform = in_platform ? &matched_platform : NULL,
		.has_gpu = p->has_gpu,
		.gpu_ecc = p->gpu_ecc,
		.user = &user_part,
		.platform = &platform_part,
	};
	summary_write(&s, message);
	str_done(&user_part.text);
	str_done(&platform_part.text);
	log_text_done(&c.user);
	log_text_done(&c.platform);
	return (int)v.code;
}
