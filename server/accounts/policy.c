#include "server/accounts/policy.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "server/file.h"

struct policy {
	atomic_size_t refs;
	const struct facts_file *file;
	struct arena arena;
};

static struct policy *parse(struct span text, struct err *e)
{
	struct policy *p = xcalloc(1, sizeof(*p));
	atomic_init(&p->refs, 1);
	p->file = facts_file_read(text, &p->arena, e);
	if (p->file)
		return p;
	policy_drop(p);
	return NULL;
}

static int check_openpai(const struct policy *p, struct err *e)
{
	const struct member *m = facts_file_members(p->file);
	if (!m)
		return 0;
	struct place where = { NULL, m->key_line, m->key_column };
	return err_at(e, UNKNOWN_ERROR, where,
	              "with --users=openpai, `%s` come from the cluster, not from this file",
	              m->key);
}

struct policy *policy_read(const char *path, bool openpai, const char **warning, struct err *e)
{
	STR_AUTO text = STR_SECRET(POLICY_MAX);
	struct stat st;
	*warning = NULL;
	if (path[0] && file_read_regular(path, &text, &st, e) < 0)
		return NULL;
	struct policy *p = parse(str_view(&text), e);
	if (p && openpai && check_openpai(p, e) < 0) {
		policy_drop(p);
		return NULL;
	}
	if (p && path[0])
		*warning = file_warning(&st, facts_file_is_secret(p->file));
	return p;
}

void policy_hold(struct policy *p)
{
	atomic_fetch_add(&p->refs, 1);
}

void policy_drop(struct policy *p)
{
	if (!p || atomic_fetch_sub(&p->refs, 1) != 1)
		return;
	arena_wipe(&p->arena);
	free(p);
}

const struct facts_file *policy_file(const struct policy *p)
{
	return p->file;
}
