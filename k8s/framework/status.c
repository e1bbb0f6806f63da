#include <stdlib.h>
#include <time.h>

#include "base/enc.h"
#include "k8s/framework/framework_internal.h"

const char *const FW_STATES[FW_STATE_MAX] = {
	"AttemptCreationPending", "AttemptCreationRequested", "AttemptPreparing",
	"AttemptRunning",         "AttemptDeletionPending",   "AttemptDeletionRequested",
	"AttemptDeleting",        "AttemptCompleted",         "Completed",
};

void fw_outcome_free(struct fw_outcome *o)
{
	if (!o)
		return;
	free(o->phrase);
	free(o->diagnostics);
	free(o->attributes);
	free(o->more);
	free(o);
}

void fw_attempt_clear(struct fw_life *l)
{
	free(TAKE(l->uid));
	fw_outcome_free(TAKE(l->outcome));
	l->attempt_start_s = l->attempt_run_s = l->attempt_completion_s = FW_NO_TIME;
}

void fw_task_clear(struct fw_task *t)
{
	fw_attempt_clear(&t->life);
	free(t->uid);
	free(t->node);
	free(t->ip);
	free(t->host_ip);
	*t = (struct fw_task){ 0 };
}

void fw_role_clear(struct fw_role *r)
{
	for (size_t i = 0; i < r->n; i++)
		fw_task_clear(&r->tasks[i]);
	free(r->tasks);
	free(r->name);
	free(r->uid);
	*r = (struct fw_role){ 0 };
}

void fw_status_clear(struct framework *f)
{
	for (size_t i = 0; i < f->n_roles; i++)
		fw_role_clear(&f->roles[i]);
	free(TAKE(f->roles));
	f->n_roles = f->cap_roles = 0;
	fw_attempt_clear(&f->life);
	f->life = (struct fw_life){ 0 };
	f->has_status = false;
}

struct fw_role *fw_role_add(struct framework *f)
{
	if (f->n_roles == f->cap_roles) {
		f->cap_roles = f->cap_roles ? 2 * f->cap_roles : 4;
		f->roles = xrealloc(f->roles, f->cap_roles * sizeof(*f->roles));
	}
	struct fw_role *r = &f->roles[f->n_roles++];
	*r = (struct fw_role){ .grace_s = FW_NO_TIME };
	return r;
}

struct fw_task *fw_task_add(struct fw_role *r)
{
	if (r->n == r->cap) {
		r->cap = r->cap ? 2 * r->cap : 4;
		r->tasks = xrealloc(r->tasks, r->cap * sizeof(*r->tasks));
	}
	struct fw_task *t = &r->tasks[r->n++];
	*t = (struct fw_task){ 0 };
	return t;
}

void fw_count(struct framework *f, struct fw_role *r, const struct fw_task *t)
{
	if (t->removing || t->life.state != FW_COMPLETED || !t->life.outcome)
		return;
	f->completed++;
	if (t->life.outcome->succeeded)
		r->succeeded++;
	else
		r->failed++;
}

void fw_link(struct framework *f)
{
	f->completed = 0;
	for (size_t i = 0; i < f->n_role_specs; i++)
		f->role_specs[i].status = NULL;
	for (size_t i = 0; i < f->n_roles; i++) {
		struct fw_role *r = &f->roles[i];
		const json_t *place = json_object_get(f->places, r->name);
		struct fw_role_spec *spec =
		    place ? &f->role_specs[json_integer_value(place)] : NULL;
		r->spec = spec;
		if (spec)
			spec->status = r;
		r->failed = r->succeeded = 0;
		for (size_t k = 0; k < r->n; k++)
			fw_count(f, r, &r->tasks[k]);
	}
}

void fw_time_text(char out[static FW_TIME_MAX], int64_t s)
{
	time_t t = s;
	struct tm tm = { 0 };
	(void)gmtime_r(&t, &tm); /* fails only beyond the year 2^31 */
	(void)snprintf(out, FW_TIME_MAX, "%04d-%02d-%02dT%02d:%02d:%02dZ", tm.tm_year + 1900,
	               tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec);
}

bool fw_time_read(const char *text, int64_t *s)
{
	static const char FORM[] = "dddd-dd-ddTdd:dd:ddZ";
	int part[6] = { 0 };
	size_t k = 0;
	if (strlen(text) != strlen(FORM))
		return false;
	for (size_t i = 0; FORM[i]; i++) {
		if (FORM[i] != 'd' ? text[i] != FORM[i] : !is_digit(text[i]))
			return false;
		if (FORM[i] == 'd')
			part[k] = 10 * part[k] + text[i] - '0';
		else
			k++;
	}
	struct tm tm = { .tm_year = part[0] - 1900,
		         .tm_mon = part[1] - 1,
		         .tm_mday = part[2],
		         .tm_hour = part[3],
		         .tm_min = part[4],
		         .tm_sec = part[5] };
	*s = timegm(&tm);
	char again[FW_TIME_MAX];
	fw_time_text(again, *s);
	return strcmp(again, text) == 0; /* no 31st of February */
}

void fw_go_text(struct str *out, const char *text)
{
	const unsigned char *p = (const unsigned char *)text;
	size_t n = strlen(text);
	str_char(out, '"');
	while (n > 0) {
		unsigned width;
		uint32_t c = utf8_decode(p, n, &width);
		if (c == '"' || c == '\\')
			str_printf(out, "\\%c", (char)c);
		else if (c == '\n')
			str_puts(out, "\\n");
		else if (c == '\r')
			str_puts(out, "\\r");
		else if (c == '\t')
			str_puts(out, "\\t");
		else if (c < ' ' || c == '<' || c == '>' || c == '&' || c == 0x2028 ||
		         c == 0x2029 || (c == UTF8_INVALID && width == 1))
			str_printf(out, "\\u%04x", c);
		else
			str_put(out, (const char *)p, width);
		p += width;
		n -= width;
	}
	str_char(out, '"');
}

void fw_go_key(struct str *out, const char *key)
{
	if (out->n && out->p[out->n - 1] != '{')
		str_char(out, ',');
	str_printf(out, "\"%s\":", key);
}

void fw_go_member(struct str *out, const char *key, const char *text)
{
	if (!text || !text[0])
		return;
	fw_go_key(out, key);
	fw_go_text(out, text);
}
