#include "translate/job/job.h"

/* Redacted ones count: the arena had them while the text was read. */
bool job_has_secrets(const struct job *job)
{
	return job->secrets || job->n_logins || job->redacted;
}

static bool facts_have_text(const struct node *map, const char *key)
{
	const struct node *text = node_get(map, key);
	return node_is(text, NODE_TEXT) && span_trim(node_span(text)).n > 0;
}

bool facts_have_keys(const struct facts *f)
{
	const struct node *pair = node_get(f->extension, "jobSSH");
	return facts_have_text(pair, "key") && facts_have_text(pair, "pubKey");
}

bool job_needs_key(const struct job *job, const struct facts *f)
{
	return job->needs_key && !facts_have_keys(f);
}
