/* Contents of the Secrets, base64 as Kubernetes wants them. */
#include "base/enc.h"
#include "base/yaml/yaml.h"
#include "translate/dialects/reading.h"
#include "translate/render/bindings.h"

enum { SECRET_TEXT_MAX = 4 << 20 };

/* A Secret of type kubernetes.io/dockerconfigjson is valid with an object in it only.  Registries
 * are hidden, too: they may come from `secrets`. */
#define HIDDEN_LOGINS "{\"auths\":{\"" MASK "\":{\"auth\":\"" MASK "\"}}}"

/* Base64 needs no escaping: the alphabet has no quote and no backslash. */
static void out_base64(struct out *o, struct span bytes)
{
	if (!o->text)
		str_char(o->s, '"');
	str_base64(o->s, bytes);
	if (!o->text)
		str_char(o->s, '"');
}

static void put_login(const struct registry_login *l, struct str *out)
{
	struct str pair = STR_INIT(SECRET_TEXT_MAX);
	str_span(&pair, l->username);
	str_char(&pair, ':');
	str_span(&pair, l->password);
	str_json(out, l->registry);
	str_puts(out, ":{\"auth\":\"");
	str_base64(out, str_view(&pair));
	str_puts(out, "\"}");
	str_wipe(&pair);
}

/* A later login for the same registry replaces the earlier one. */
static bool is_last(const struct job *j, size_t i)
{
	for (size_t k = i + 1; k < j->n_logins; k++)
		if (span_eq(j->logins[k].registry, j->logins[i].registry))
			return false;
	return true;
}

static bool registries(const struct scope *s, struct out *o)
{
	struct str json = STR_INIT(SECRET_TEXT_MAX);
	const char *comma = "";
	if (s->hide) {
		out_base64(o, SPAN(HIDDEN_LOGINS));
		return true;
	}
	str_puts(&json, "{\"auths\":{");
	for (size_t i = 0; i < s->job->n_logins; i++) {
		if (!is_last(s->job, i))
			continue;
		str_puts(&json, comma);
		put_login(&s->job->logins[i], &json);
		comma = ",";
	}
	str_puts(&json, "}}");
	out_base64(o, str_view(&json));
	o->s->full |= json.full;
	str_wipe(&json);
	return true;
}

static void out_yaml(const struct scope *s, struct out *o, const struct node *n)
{
	struct str yaml = STR_INIT(SECRET_TEXT_MAX);
	if (s->hide) {
		out_base64(o, SPAN(MASK));
		return;
	}
	yaml_write(&yaml, n);
	out_base64(o, str_view(&yaml));
	o->s->full |= yaml.full;
	str_wipe(&yaml);
}

static bool job_secrets(const struct scope *s, struct out *o)
{
	out_yaml(s, o, s->job->secrets);
	return true;
}

/* Only what pods have a use for: an extension may hold more, such as tokens. */
static bool extension(const struct scope *s, struct out *o)
{
	static const char *const WANTED[] = { "jobSSH", "sshKeys" };
	struct member v[2];
	struct node kept = { .type = NODE_MAP, .member = v };
	for (size_t i = 0; i < 2; i++) {
		const struct member *m = node_member(s->facts->extension, span_of(WANTED[i]));
		if (m)
			v[kept.n++] = *m;
	}
	out_yaml(s, o, &kept);
	return true;
}

/* clang-format off */
static const struct hole HOLES[] = {
	{ "secret.registries", HOLE_TEXT, false, OF_JOB,       registries,  "OpenPAI; `default-registry`", "Logins of all images with `auth`, used or not; of two for one registry the later one." },
	{ "secret.job",        HOLE_TEXT, false, OF_SECRETS,   job_secrets, "OpenPAI", "`secrets`, parsed and written as YAML again." },
	{ "secret.extension",  HOLE_TEXT, false, OF_EXTENSION, extension,   "ours",    "`jobSSH` and `sshKeys` of the user's extension as YAML (OpenPAI: all of the extension)." },
};
/* clang-format on */

const struct hole_group SECRET_HOLES = { "Secrets", HOLES, sizeof(HOLES) / sizeof(*HOLES) };
