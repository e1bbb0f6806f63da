/* rest-lit resubmit JOB: the same job once more, under another name. */
#include <stdlib.h>

#include "base/json/scan.h"
#include "server/cli/cli_internal.h"
#include "server/compose/compose.h"
#include "server/jobs/jobs.h"
#include "translate/job/dialect.h"

enum { PATH_LIMIT = 4096 };

static const char HIDDEN[] = "******";

/* The server hides the values of `secrets`, and of `auth` of images. */
static bool resubmit_hides(struct span config, struct arena *a)
{
	if (span_is(scan_text(scan_get(config, "secrets"), a), HIDDEN))
		return true;
	struct scan walk = scan_begin(scan_get(config, "prerequisites"));
	for (struct span one; scan_item(&walk, &one);) {
		struct span auth = scan_get(one, "auth");
		struct scan members = scan_begin(auth);
		if (span_is(scan_text(auth, a), HIDDEN))
			return true;
		for (struct span key, value; scan_member(&members, &key, &value);)
			if (span_is(scan_text(value, a), HIDDEN))
				return true;
	}
	return false;
}

/* BASE-N with the lowest N above those of the user's jobs: mnist-2 for mnist, mnist-4 for mnist-3.
 */
static int resubmit_name(struct remote *r, struct span old, struct arena *a, const char **name,
                         struct err *e)
{
	REPLY_AUTO reply = { 0 };
	STR_AUTO path = STR_INIT(PATH_LIMIT);
	struct span jobs;
	size_t digits = 0;
	while (digits < old.n && is_digit(old.p[old.n - digits - 1]))
		digits++;
	bool numbered = digits && old.n > digits + 1 && old.p[old.n - digits - 1] == '-';
	struct span base = numbered ? span_to(old, old.n - digits - 1) : old;
	const char *user = remote_user(r, a, e);
	if (!user)
		return -1;
	str_printf(&path, "/api/v2/jobs?limit=50000&username=");
	job_path_segment(&path, span_of(user));
	str_puts(&path, "&keyword=");
	job_path_segment(&path, base);
	if (remote_get(r, str_c(&path), &reply, &jobs, e) < 0)
		return -1;
	int64_t most = 1;
	struct scan walk = scan_begin(jobs);
	for (struct span row; scan_item(&walk, &row);) {
		struct span other = scan_text(scan_get(row, "name"), a);
		int64_t n;
		if (other.n > base.n + 1 && span_eq(span_to(other, base.n), base) &&
		    other.p[base.n] == '-' &&
		    parse_i64(span_from(other, base.n + 1), 0, INT32_MAX, &n) == 0)
			most = n > most ? n : most;
	}
	*name = arena_printf(a, "%.*s-%lld", (int)base.n, base.p, (long long)most + 1);
	return 0;
}

static int resubmit_job(struct remote *r, const char *job, struct span config, struct err *e)
{
	ARENA_AUTO arena = { 0 };
	const char *name = r->o->name;
	struct doc doc = { 0 };
	const struct dialect *d =
	    job_text_doc(config, &arena, &doc) ? dialect_of(&doc.root, DIALECTS_ALL) : NULL;
	const struct node *old = d ? dialect_name_of(d, &doc.root) : NULL;
	if (!node_is(old, NODE_TEXT) || old->n == 0)
		return err_set(e, UNKNOWN_ERROR, "%s: the configuration of %s has no name",
		               r->o->server, job);
	if (resubmit_hides(config, &arena))
		return err_set(e, 400, NULL,
		               "%s has secrets, which the server does not return; submit its file "
		               "again: rest-lit submit --name NAME FILE",
		               job);
	if (code_copy(r, job, config, e) < 0 ||
	    (!name[0] && resubmit_name(r, node_span(old), &arena, &name, e) < 0))
		return -1;
	struct job_text t = { .file = job, .text = xstrndup(config.p, config.n), .n = config.n };
	int code = job_text_rename(&t, name, e) < 0 ? -1 : submit_send(r, &t, e);
	free(t.text);
	return code;
}

int cmd_resubmit(const struct command *c, struct options *o)
{
	return remote_job_command(c, o, resubmit_job, "/config");
}
