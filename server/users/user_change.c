/* The bodies of the routes that create and change users. */
#include "server/users/users_internal.h"

#include "base/json/put.h"
#include "server/accounts/account.h"
#include "server/auth/auth.h"
#include "server/auth/token.h"
#include "server/http/query.h"

enum { EMAIL_MAX = 320 };

static int change_check_password(const char *key, struct span text, struct err *e)
{
	if (text.n >= PASSWORD_MIN && text.n <= PASSWORD_MAX)
		return 0;
	return err_set(e, INVALID_PARAMETERS, "%s must have %d to %d bytes", key, PASSWORD_MIN,
	               PASSWORD_MAX);
}

static int change_read_names(struct request *r, const struct node *n, struct user_change *out,
                             struct err *e)
{
	out->names = (struct name_set){ ARENA_NEW(&r->arena, struct span, n->n + 1), 0 };
	for (size_t i = 0; i < n->n; i++) {
		const struct node *item = &n->item[i];
		if (i == PAI_GROUPS_MAX || !node_is(item, NODE_TEXT) || item->n == 0 ||
		    item->n > PAI_NAME_MAX || span_has_control(node_span(item)))
			return err_set(
			    e, INVALID_PARAMETERS,
			    "virtualCluster and grouplist must be lists of at most %d names",
			    PAI_GROUPS_MAX);
		name_set_add(&out->names, node_span(item));
	}
	return 0;
}

/* Members that clients of OpenPAI use.  Pods get jobSSH and sshKeys. */
static int change_check_extension(const struct node *n, struct err *e)
{
	const struct node *keys = node_get(n, "sshKeys");
	for (size_t i = 0; i < n->n; i++) {
		struct span key = member_key(&n->member[i]);
		enum node_type type = n->member[i].value.type;
		if (!(span_is(key, "sshKeys") && type == NODE_LIST) &&
		    !((span_is(key, "boundedClusters") || span_is(key, "jobSSH")) &&
		      type == NODE_MAP))
			return err_set(e, INVALID_PARAMETERS,
			               "extension may have sshKeys (a list), boundedClusters and "
			               "jobSSH (objects), and nothing else");
	}
	for (size_t i = 0; node_is(keys, NODE_LIST) && i < keys->n; i++) {
		/* They must be public keys: pods get them. */
		const struct node *value = node_get(&keys->item[i], "value");
		if (node_is(value, NODE_TEXT) && value->n &&
		    memmem(value->text, value->n, "PRIVATE KEY", strlen("PRIVATE KEY")))
			return err_set(e, INVALID_PARAMETERS,
			               "sshKeys has a private key; it must have public keys only");
	}
	return 0;
}

static const struct {
	const char *key;
	enum change_member bit;
	enum node_type type;
	const char *what;
} MEMBERS[] = {
	{ "username", CHANGE_USERNAME, NODE_TEXT, "a text" },
	{ "email", CHANGE_EMAIL, NODE_TEXT, "a text" },
	{ "password", CHANGE_PASSWORD, NODE_TEXT, "a text" },
	{ "newPassword", CHANGE_PASSWORD, NODE_TEXT, "a text" },
	{ "oldPassword", CHANGE_OLD_PASSWORD, NODE_TEXT, "a text" },
	{ "admin", CHANGE_ADMIN, NODE_BOOL, "true or false" },
	{ "virtualCluster", CHANGE_CLUSTERS, NODE_LIST, "a list of names" },
	{ "grouplist", CHANGE_GROUPS, NODE_LIST, "a list of names" },
	{ "extension", CHANGE_EXTENSION, NODE_MAP, "an object" },
};
enum { N_MEMBERS = ARRAY_SIZE(MEMBERS) };

static int change_read_value(struct request *r, enum change_member bit, const struct node *n,
                             struct user_change *out, struct err *e)
{
	switch (bit) {
	case CHANGE_USERNAME:
		out->username = node_span(n);
		if (user_name_ok(out->username))
			return 0;
		return err_set(
		    e, INVALID_PARAMETERS,
		    "username must be a user's name such as alice or j.doe-2: letters, digits, "
		    "-, _ and ., a letter or digit at both ends, at most 63");
	case CHANGE_EMAIL:
		out->email = node_span(n);
		if (n->n == 0 || (n->n <= EMAIL_MAX && !span_has_control(out->email) &&
		                  memchr(n->text, '@', n->n)))
			return 0;
		return err_set(e, INVALID_PARAMETERS,
		               "email must be an address such as alice@example.com, at most %d "
		               "bytes, or empty",
		               EMAIL_MAX);
	case CHANGE_PASSWORD:
		out->password = node_span(n);
		return change_check_password("the password", out->password, e);
	case CHANGE_OLD_PASSWORD:
		out->old_password = node_span(n);
		return change_check_password("oldPassword", out->old_password, e);
	case CHANGE_ADMIN:
		out->admin = n->boolean;
		return 0;
	case CHANGE_CLUSTERS:
	case CHANGE_GROUPS:
		return change_read_names(r, n, out, e);
	case CHANGE_EXTENSION:
		out->extension = n;
		return change_check_extension(n, e);
	}
	return 0;
}

static void put_allowed(struct str *out, unsigned bits)
{
	for (size_t i = 0; i < N_MEMBERS; i++)
		if (MEMBERS[i].bit & bits)
			str_printf(out, "%s%s", out->n ? ", " : "", MEMBERS[i].key);
}

static int read_member(struct request *r, const struct member *m, unsigned allowed,
                       struct user_change *out, struct err *e)
{
	char quoted[4 * QUOTE_MAX];
	STR_AUTO names = STR_INIT(1024);
	size_t i = 0;
	while (i < N_MEMBERS &&
	       !(span_is(member_key(m), MEMBERS[i].key) && MEMBERS[i].bit & allowed))
		i++;
	if (i == N_MEMBERS) {
		put_allowed(&names, allowed);
		return err_set(e, INVALID_PARAMETERS, "member \"%s\" is unknown: allowed are %s",
		               quote(quoted, member_key(m)), str_c(&names));
	}
	if (m->value.type != MEMBERS[i].type)
		return err_set(e, INVALID_PARAMETERS, "%s must be %s", MEMBERS[i].key,
		               MEMBERS[i].what);
	if (out->has & MEMBERS[i].bit)
		return err_set(e, INVALID_PARAMETERS, "%s is repeated", MEMBERS[i].key);
	out->has |= MEMBERS[i].bit;
	return change_read_value(r, MEMBERS[i].bit, &m->value, out, e);
}

/* Checks the combination of members. */
static int check_together(const struct user_change *c, unsigned required, struct err *e)
{
	STR_AUTO missing = STR_INIT(1024);
	if (c->has & CHANGE_CLUSTERS && c->has & CHANGE_GROUPS)
		return err_set(e, INVALID_PARAMETERS,
		               "virtualCluster and grouplist exclude each other: groups grant "
		               "virtual clusters");
	put_allowed(&missing, required & ~c->has);
	if (missing.n)
		return err_set(e, INVALID_PARAMETERS, "required members are missing: %s",
		               str_c(&missing));
	return 0;
}

int user_change_read(struct request *r, const struct change_rules *rules, struct user_change *out,
                     struct err *e)
{
	*out = (struct user_change){ .has = 0 };
	const struct node *map = fields_map(r, e);
	if (!map)
		return -1;
	if (rules->nested)
		map = node_get(map, "data");
	if (!node_is(map, NODE_MAP))
		return err_set(e, INVALID_PARAMETERS, "data is required and must be an object");
	for (size_t i = 0; i < map->n; i++)
		if (map->member[i].value.type != NODE_NULL &&
		    read_member(r, &map->member[i], rules->allowed, out, e) < 0)
			return -1;
	return check_together(out, rules->required, e);
}

/* Returns true if the object is unchanged and no member that GET shows is missing: a client sends
 * back the same text. */
static bool extension_unchanged(struct span key, const struct node *old,
                                const struct node *new_value)
{
	bool same = node_is(old, NODE_MAP) && node_is(new_value, NODE_MAP) && new_value->n;
	for (size_t i = 0; same && i < new_value->n; i++) {
		const struct member *m = &new_value->member[i];
		const struct member *was = node_member(old, member_key(m));
		same = was && m->value.type == NODE_TEXT && node_equal(&was->value, &m->value);
	}
	for (size_t i = 0; same && i < old->n; i++)
		same = node_member(new_value, member_key(&old->member[i])) ||
		       !account_shows(key, &old->member[i]);
	return same;
}

/* Clients read the extension and send it back with a change, without what GET does not show: keys,
 * and tokens of bounded clusters.  An object keeps them while the rest of it is unchanged, so that
 * a token never goes to another address.  key: of the member of the extension. */
static void put_extension_member(struct str *out, struct span key, const struct node *old,
                                 const struct member *m)
{
	const struct member *was = node_is(old, NODE_MAP) ? node_member(old, member_key(m)) : NULL;
	json_put_key(out, NULL); /* a comma, if it is due */
	str_json(out, member_key(m));
	str_char(out, ':');
	if (was && extension_unchanged(key, &was->value, &m->value)) {
		node_json(out, &was->value);
	} else if (was && node_is(&m->value, NODE_MAP)) {
		str_char(out, '{');
		for (size_t i = 0; i < m->value.n; i++)
			put_extension_member(out, key, &was->value, &m->value.member[i]);
		str_char(out, '}');
	} else {
		node_json(out, &m->value);
	}
}

void user_extension_merge(struct str *out, const struct node *old, const struct node *new_members)
{
	str_char(out, '{');
	for (size_t i = 0; old && i < old->n; i++)
		if (!node_member(new_members, member_key(&old->member[i])))
			put_extension_member(out, SPAN(""), NULL, &old->member[i]);
	for (size_t i = 0; i < new_members->n; i++) {
		const struct member *m = &new_members->member[i];
		if (m->value.type != NODE_NULL)
			put_extension_member(out, member_key(m), old, m);
	}
	str_char(out, '}');
}
