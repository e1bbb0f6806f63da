#include "server/jobs/job_config.h"

#include "base/json/scan.h"
#include "base/tree.h"
#include "server/http/answer.h"
#include "server/http/handlers.h"
#include "server/jobs/job_find.h"
#include "translate/dialects/render.h"

static const char MASK[] = "\"******\"";

/* ---- masked JSON ----------------------------------------------------------------------------- */

typedef void write_member(struct str *out, const struct member *m);

/* A map whose members are written by a function; anything else as it is. */
static void write_map(struct str *out, const struct node *n, write_member *write)
{
	if (n->type != NODE_MAP) {
		node_json(out, n);
		return;
	}
	str_char(out, '{');
	for (uint32_t i = 0; i < n->n; i++) {
		str_puts(out, i ? "," : "");
		str_json(out, member_key(&n->member[i]));
		str_char(out, ':');
		write(out, &n->member[i]);
	}
	str_char(out, '}');
}

/* Of `auth`: nothing is shown but where to log in, and which secret is meant. */
static void write_auth_member(struct str *out, const struct member *m)
{
	const struct node *v = &m->value;
	bool reference = node_is(v, NODE_TEXT) &&
	                 (v->n == 0 || span_starts(render_only_name(node_span(v)), "$secrets."));
	if (reference || v->type == NODE_NULL || span_is(member_key(m), "registryuri"))
		node_json(out, v);
	else
		str_puts(out, MASK);
}

static void write_prerequisite_member(struct str *out, const struct member *m)
{
	if (!span_is(member_key(m), "auth"))
		node_json(out, &m->value);
	else if (m->value.type == NODE_MAP)
		write_map(out, &m->value, write_auth_member);
	else
		str_puts(out, MASK);
}

static void write_prerequisites(struct str *out, const struct node *n)
{
	if (n->type != NODE_LIST) {
		write_map(out, n, write_prerequisite_member);
		return;
	}
	str_char(out, '[');
	for (uint32_t i = 0; i < n->n; i++) {
		str_puts(out, i ? "," : "");
		write_map(out, &n->item[i], write_prerequisite_member);
	}
	str_char(out, ']');
}

static void write_job_member(struct str *out, const struct member *m)
{
	if (span_is(member_key(m), "secrets"))
		str_puts(out, MASK);
	else if (span_is(member_key(m), "prerequisites"))
		write_prerequisites(out, &m->value);
	else
		node_json(out, &m->value);
}

bool config_json(struct str *out, struct span text, struct arena *a)
{
	struct doc doc = { 0 };
	NOTES_AUTO warnings = { 0 };
	ERR_AUTO e = { 0 };
	const struct budget budget = BUDGET_DEFAULT;
	if (doc_read(text, &budget, a, &doc, &warnings, &e) < 0 || doc.root.type != NODE_MAP)
		return false;
	write_map(out, &doc.root, write_job_member);
	return true;
}

/* ---- the routes ------------------------------------------------------------------------------ */

static void no_config(struct request *r, const char *why)
{
	str_done(&r->reply.body);
	r->reply.body = STR_INIT(REPLY_MAX);
	answer_refuse(r, 404, "NoJobConfigError", why);
}

static void show(struct request *r, const struct cached *job, struct span object)
{
	(void)job;
	struct str *out = &r->reply.body;
	struct span text;
	r->secret = true; /* others may have stored what they should not */
	if (!scan_string(scan_path(object, "metadata", "annotations", "config", NULL), &r->arena,
	                 &text)) {
		no_config(r, "what was submitted does not stand in this job");
	} else if (!config_json(out, text, &r->arena)) {
		no_config(r, "what stands in this job as its configuration cannot be read");
	} else if (out->full) {
		no_config(r, "the configuration of this job is too long for an answer");
	} else {
		str_char(out, '\n');
		r->reply.status = 200;
		r->reply.type = "text/yaml; charset=utf-8"; /* which JSON is, too */
		answer_send(r);
	}
}

static void found(struct request *r, const struct cached *job)
{
	job_doc(r, job, show);
}

void config_get(struct request *r)
{
	job_find(r, found);
}

void ssh_get(struct request *r)
{
	answer_refuse(r, 404, "NoJobSshInfoError",
	              "there is no such information: host and ports of each task stand in the job");
}
