#include <stdlib.h>
#include <zlib.h>

#include "base/enc.h"
#include "k8s/framework/framework_internal.h"

/* The JSON of taskRoleStatuses from which on it is compressed. */
enum { COMPRESS_FROM = 700 << 10, GZIP_WINDOW_BITS = 15 + 16, GZIP_MEMORY = 8 };

static void write_int(struct str *out, const char *key, int64_t v)
{
	fw_go_key(out, key);
	str_int(out, v);
}

static void write_time(struct str *out, const char *key, int64_t s)
{
	fw_go_key(out, key);
	char text[FW_TIME_MAX];
	if (s == FW_NO_TIME) {
		str_puts(out, "null");
		return;
	}
	fw_time_text(text, s);
	str_printf(out, "\"%s\"", text);
}

static void write_text(struct str *out, const char *key, const char *text)
{
	fw_go_key(out, key);
	if (text)
		fw_go_text(out, text);
	else
		str_puts(out, "null");
}

static void write_outcome(struct str *out, const struct fw_outcome *o)
{
	fw_go_key(out, "completionStatus");
	if (!o) {
		str_puts(out, "null");
		return;
	}
	str_char(out, '{');
	write_int(out, "code", o->code);
	write_text(out, "phrase", o->phrase);
	str_printf(out, ",\"type\":{\"name\":\"%s\",\"attributes\":%s}",
	           o->succeeded ? "Succeeded" : "Failed", o->attributes);
	write_text(out, "diagnostics", o->diagnostics);
	if (o->more) {
		str_char(out, ',');
		str_puts(out, o->more);
	}
	str_char(out, '}');
}

static void write_retries(struct str *out, const struct fw_life *l)
{
	fw_go_key(out, "retryPolicyStatus");
	str_char(out, '{');
	write_int(out, "totalRetriedCount", l->retried);
	write_int(out, "accountableRetriedCount", l->accountable);
	if (l->retry_delay_s < 0)
		write_text(out, "retryDelaySec", NULL);
	else
		write_int(out, "retryDelaySec", l->retry_delay_s);
	str_char(out, '}');
}

static void write_times(struct str *out, int64_t start_s, int64_t run_s, int64_t completion_s)
{
	write_time(out, "startTime", start_s);
	write_time(out, "runTime", run_s);
	write_time(out, "completionTime", completion_s);
}

/* The members of both kinds of attemptStatus that come first. */
static void write_attempt(struct str *out, const struct fw_life *l)
{
	fw_go_key(out, "attemptStatus");
	str_char(out, '{');
	write_int(out, "id", l->id);
	write_times(out, l->attempt_start_s, l->attempt_run_s, l->attempt_completion_s);
	fw_go_key(out, "instanceUID");
	if (!l->uid) {
		str_puts(out, "null");
		return;
	}
	FREE_AUTO char *instance = xasprintf("%d_%s", l->id, l->uid);
	fw_go_text(out, instance);
}

static void write_task(struct str *out, const struct framework *f, const struct fw_role *r,
                       size_t index)
{
	const struct fw_task *t = &r->tasks[index];
	const struct fw_life *l = &t->life;
	char name[FW_NAME_MAX];
	str_char(out, '{');
	write_int(out, "index", (int64_t)index);
	write_text(out, "instanceUID", t->uid);
	write_times(out, l->start_s, l->run_s, l->completion_s);
	write_text(out, "state", FW_STATES[l->state]);
	write_time(out, "transitionTime", l->transition_s);
	fw_go_key(out, "deletionPending");
	str_puts(out, t->removing ? "true" : "false");
	write_retries(out, l);
	write_attempt(out, l);
	write_text(out, "podName", fw_pod_name(f, r, index, name));
	write_text(out, "podUID", l->uid);
	write_text(out, "podNodeName", t->node);
	write_text(out, "podIP", t->ip);
	write_text(out, "podHostIP", t->host_ip);
	write_outcome(out, l->outcome);
	str_puts(out, "}}");
}

static void write_roles(struct str *out, const struct framework *f)
{
	str_char(out, '[');
	for (size_t i = 0; i < f->n_roles; i++) {
		const struct fw_role *r = &f->roles[i];
		if (i)
			str_char(out, ',');
		str_char(out, '{');
		write_text(out, "name", r->name);
		write_text(out, "instanceUID", r->uid);
		if (r->grace_s == FW_NO_TIME)
			write_text(out, "podGracefulDeletionTimeoutSec", NULL);
		else
			write_int(out, "podGracefulDeletionTimeoutSec", r->grace_s);
		str_puts(out, ",\"taskStatuses\":[");
		for (size_t k = 0; k < r->n; k++) {
			if (k)
				str_char(out, ',');
			write_task(out, f, r, k);
		}
		str_puts(out, "]}");
	}
	str_char(out, ']');
}

/* Appends the gzip of the text as base64.  false: zlib failed. */
static bool write_gzip(struct str *out, struct span text)
{
	union {
		const char *p;
		Bytef *wanted; /* zlib only reads it */
	} in = { text.p };
	z_stream z = { .next_in = in.wanted, .avail_in = (uInt)text.n };
	if (deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_WINDOW_BITS, GZIP_MEMORY,
	                 Z_DEFAULT_STRATEGY) != Z_OK)
		return false;
	size_t room = deflateBound(&z, (uLong)text.n);
	FREE_AUTO char *packed = xmalloc(room);
	z.next_out = (Bytef *)packed;
	z.avail_out = (uInt)room;
	bool whole = deflate(&z, Z_FINISH) == Z_STREAM_END;
	(void)deflateEnd(&z); /* its result is known */
	if (whole)
		str_base64(out, (struct span){ packed, room - z.avail_out });
	return whole;
}

void framework_status_write(const struct framework *f, struct str *out)
{
	if (!f->has_status) {
		str_puts(out, "null");
		return;
	}
	const struct fw_life *l = &f->life;
	char name[FW_NAME_MAX];
	str_char(out, '{');
	write_times(out, l->start_s, l->run_s, l->completion_s);
	write_text(out, "state", FW_STATES[l->state]);
	write_time(out, "transitionTime", l->transition_s);
	write_retries(out, l);
	write_attempt(out, l);
	write_text(out, "configMapName", fw_configmap_name(f, name));
	write_text(out, "configMapUID", l->uid);
	write_outcome(out, l->outcome);
	STR_AUTO roles = STR_INIT(out->max);
	write_roles(&roles, f);
	out->full |= roles.full;
	fw_go_key(out, "taskRoleStatuses");
	size_t start = out->n;
	bool packed = f->config->compress && roles.n >= COMPRESS_FROM;
	if (packed) {
		str_puts(out, "null,\"taskRoleStatusesCompressed\":\"");
		packed = write_gzip(out, str_view(&roles));
		str_char(out, '"');
	}
	if (!packed) {
		out->n = start;
		str_span(out, str_view(&roles));
	}
	str_puts(out, "}}");
}
