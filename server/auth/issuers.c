/* The file of issuers (--issuers; schema/issuers.schema.json) and the files of their keys. */
#include <limits.h>

#include "schema/check.h"
#include "server/auth/keyring.h"

enum { FILE_MAX = 1 << 20, KEYS_MAX = 64 * 1024, LEEWAY_S = 60 };

/* Where an entry stands. */
struct entry {
	struct keyring *keyring;
	const char *file; /* of the issuers */
	const struct node *node;
	struct path at;
};

static const char *text_of(const struct node *map, const char *key, const char *absent)
{
	const struct node *n = node_get(map, key);
	return n ? n->text : absent;
}

static int fail(const struct entry *entry, const char *member, const char *why, struct err *e)
{
	struct path at = PATH_KEY(&entry->at, span_of(member));
	struct place where = path_place(&entry->keyring->arena, &at, node_get(entry->node, member));
	return err_at(e, 400, NULL, where, "%s", why);
}

/* "/etc/rest-lit/issuers.yaml" and "keys.json": "/etc/rest-lit/keys.json". */
static char *beside(const char *file, const char *name)
{
	const char *slash = strrchr(file, '/');
	if (name[0] == '/' || !slash)
		return xstrdup(name);
	return xasprintf("%.*s/%s", (int)(slash - file), file, name);
}

static int read_keys(const struct entry *entry, struct token_issuer *i, struct err *e)
{
	FREE_AUTO char *path = beside(entry->file, text_of(entry->node, "keys", ""));
	ERR_AUTO why = { 0 };
	STR_AUTO text = STR_INIT(KEYS_MAX);
	if (keyring_read_file(entry->keyring, path, false, &text, &why) < 0)
		return fail(entry, "keys", err_msg(&why), e);
	if (public_keys_read(str_view(&text), &entry->keyring->arena, i, &why) == 0)
		return 0;
	(void)err_wrap(&why, "%s", path);
	return fail(entry, "keys", err_msg(&why), e);
}

static bool listed(const struct keyring *k, const char *issuer)
{
	for (size_t i = 0; i < k->n_issuers; i++)
		if (strcmp(k->issuers[i].issuer, issuer) == 0)
			return true;
	return false;
}

static int read_issuer(const struct entry *entry, struct err *e)
{
	struct keyring *k = entry->keyring;
	const struct node *leeway = node_get(entry->node, "leeway");
	struct token_issuer *i = &k->issuers[k->n_issuers];
	*i = (struct token_issuer){
		.issuer = text_of(entry->node, "issuer", ""),
		.audiences = node_get(entry->node, "audiences"),
		.es256 = strcmp(text_of(entry->node, "algorithm", ""), "ES256") == 0,
		.leeway_s = leeway ? leeway->integer : LEEWAY_S,
		.claim = text_of(entry->node, "claim", "sub"),
		.azp = text_of(entry->node, "azp", NULL),
		.require = node_get(entry->node, "require"),
		.users = node_get(entry->node, "users"),
	};
	if (listed(k, i->issuer))
		return fail(entry, "issuer", "this issuer is listed already", e);
	if (read_keys(entry, i, e) < 0)
		return -1;
	k->n_issuers++;
	return 0;
}

static int read_accounts(struct keyring *k, const struct node *root, const char *file,
                         struct err *e)
{
	const struct node *n = node_get(root, "serviceAccounts");
	const struct entry entry = { k, file, n, PATH_KEY(NULL, SPAN("serviceAccounts")) };
	if (!n)
		return 0;
	k->review.issuer = text_of(n, "issuer", NULL);
	k->review.audience = text_of(n, "audience", NULL);
	k->review_users = node_get(n, "users");
	if (listed(k, k->review.issuer))
		return fail(&entry, "issuer", "this issuer is listed among `issuers` as well", e);
	return 0;
}

static int take(struct keyring *k, const struct node *root, const char *file, struct err *e)
{
	const struct path list = PATH_KEY(NULL, SPAN("issuers"));
	const struct node *issuers = node_get(root, "issuers");
	size_t n = issuers ? issuers->n : 0;
	k->issuers = ARENA_NEW(&k->arena, struct token_issuer, n);
	for (size_t i = 0; i < n; i++) {
		struct entry entry = { k, file, &issuers->item[i], PATH_INDEX(&list, i) };
		if (read_issuer(&entry, e) < 0)
			return -1;
	}
	return read_accounts(k, root, file, e);
}

int issuers_read(struct keyring *k, const char *file, struct err *e)
{
	NOTES_AUTO warnings = { 0 };
	STR_AUTO text = STR_INIT(FILE_MAX);
	struct budget budget = BUDGET_DEFAULT;
	struct doc *doc = ARENA_NEW(&k->arena, struct doc, 1);
	if (keyring_read_file(k, file, false, &text, e) < 0)
		return err_wrap(e, "--issuers");
	if (doc_read(str_view(&text), &budget, &k->arena, doc, &warnings, e) < 0 ||
	    schema_check(schema_get(SCHEMA_ISSUERS), &doc->root, "InvalidParametersError", NULL,
	                 e) < 0)
		return -1;
	return take(k, &doc->root, file, e);
}
