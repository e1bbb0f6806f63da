/* The code of a job: its variables, and the check of its path against the storages. */
#include "base/code/code.h"
#include "translate/job/names.h"
#include "translate/objects/objects.h"
#include "translate/render/bindings.h"

/* Bytes that a job may write beside its code. */
#define CODE_ROOM (INT64_C(10) << 30)

int code_check(const struct scope *s, struct err *e)
{
	const struct job_code *code = &s->job->code;
	for (size_t i = 0; code->sha256.n && i < s->n_mounts; i++) {
		struct span mount = names_mount_path(s->mounts[i].path);
		struct span path = names_mount_path(code->path);
		if (s->mounts[i].results) /* can be in the code, pai_v2.c has checked it */
			continue;
		if (names_path_within(path, mount) || names_path_within(mount, path))
			return err_at(e, INVALID_PROTOCOL, code->where,
			              "the code cannot be at `%s`, because a storage is mounted at "
			              "`%s`: choose a `path` beside it",
			              arena_quoted(s->a, path), arena_quoted(s->a, mount));
	}
	return 0;
}

/* "code-" and 40 hex digits. */
static struct span code_name(const struct scope *s)
{
	char *name = arena_alloc(s->a, CODE_OBJECT + 1);
	code_object_name(name, s->job->user, s->job->code.sha256);
	return span_of(name);
}

static int64_t code_parts(const struct scope *s)
{
	return s->facts->code.parts ?: 1;
}

/* `rest-lit translate` does not know the archive. */
static int64_t code_bytes(const struct scope *s)
{
	return s->facts->code.parts ? s->facts->code.bytes : CODE_CLUSTER;
}

static bool put_code_list(const struct scope *s, enum template_id u, struct variable_output *o)
{
	struct scope in = *s;
	for (in.code_part = 0; in.code_part < code_parts(s); in.code_part++)
		template_write(&in, u, o->s);
	return true;
}

/* clang-format off */
PUT_TEXT(put_code_path, s->job->code.path)
PUT_TEXT(put_code_sha256, s->job->code.sha256)
PUT_TEXT(put_code_commit, s->job->code.commit)
PUT_TEXT(put_code_name, code_name(s))
PUT_OPTIONAL(put_code_label, s->job->code.sha256.n, out_text(o, span_from(code_name(s), sizeof("code-") - 1)))
PUT_INT(put_code_bytes, code_bytes(s))
PUT_INT(put_code_limit_mb, (code_bytes(s) + CODE_ROOM + (1 << 20) - 1) >> 20)
PUT_INT(put_code_parts, code_parts(s))
PUT_INT(put_code_part, s->code_part)
PUT_FUNCTION(put_code_mounts, put_code_list(s, TEMPLATE_CODE_MOUNT, o))
PUT_FUNCTION(put_code_volumes, put_code_list(s, TEMPLATE_CODE_VOLUME, o))

static const struct variable CODE_ROWS[] = {
	{ "code.path",    VARIABLE_TEXT,   false, SCOPE_CODE,                   put_code_path,     "ours", "`extras.code.path`, or /workspace." },
	{ "code.sha256",  VARIABLE_TEXT,   false, SCOPE_CODE,                   put_code_sha256,   "ours", "`extras.code.sha256`." },
	{ "code.commit",  VARIABLE_TEXT,   false, SCOPE_CODE,                   put_code_commit,   "ours", "`extras.code.commit`, or empty." },
	{ "code.name",    VARIABLE_TEXT,   false, SCOPE_CODE,                   put_code_name,     "ours", "`code-` and 40 hex digits of the SHA-256 of the user's name, a zero byte and `extras.code.sha256`: the ConfigMap that the archive belongs to." },
	{ "code.label",   VARIABLE_TEXT,   true,  SCOPE_JOB,                    put_code_label,    "ours", "These digits, by which servers know that a job needs the archive; absent for jobs without code." },
	{ "code.bytes",   VARIABLE_NUMBER, false, SCOPE_CODE,                   put_code_bytes,    "ours", "Size of its files; `rest-lit translate`, which does not know the archive, writes the largest, 256 MiB." },
	{ "code.limitMB", VARIABLE_NUMBER, false, SCOPE_CODE,                   put_code_limit_mb, "ours", "That and 10 GiB, in MiB." },
	{ "code.parts",   VARIABLE_NUMBER, false, SCOPE_CODE,                   put_code_parts,    "ours", "Number of ConfigMaps that the archive consists of, 1 if it is not known." },
	{ "code.part",    VARIABLE_NUMBER, false, SCOPE_CODE_PART,              put_code_part,     "ours", "Which of them, from 0." },
	{ "code.mounts",  VARIABLE_LIST,   false, SCOPE_CODE | SCOPE_WHOLE_POD, put_code_mounts,   "ours", "code-mount.yaml, once for every part." },
	{ "code.volumes", VARIABLE_LIST,   false, SCOPE_CODE | SCOPE_WHOLE_POD, put_code_volumes,  "ours", "code-volume.yaml, once for every part." },
};
/* clang-format on */

const struct variable_group CODE_VARIABLES = VARIABLE_GROUP("Code", CODE_ROWS);
