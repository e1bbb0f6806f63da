/* Reading the objects of an OpenPAI cluster; see account.h. */
#include "server/accounts/account.h"

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>

#include "base/doc/tree.h"
#include "base/enc.h"
#include "base/json/put.h"
#include "jobs/store/paths.h"
#include "server/accounts/account_internal.h"
#include "translate/job/names.h"
#include "translate/reader/parse_context.h"
#include "translate/translate.h"

enum { EMAIL_MAX = 320, HASH_MAX = 1024, OPTIONS_MAX = 64, TEXT_MAX = 4096 };

/* Keys of managedFields and labels may be long. */
#define BUDGET ((struct budget){ 64, 100000, 8u << 20, 64u << 10 })

static const char NO_OBJECT[] = "it is not an object, or is larger than 2 MiB";
static const char FOREIGN[] = "it belongs to another user or group";

void pai_secret_name(char out[static 2 * PAI_NAME_MAX + 1], struct span name)
{
	hex_encode(out, name.p, name.n < PAI_NAME_MAX ? name.n : PAI_NAME_MAX);
}

/* ---- JSON ---- */

/* One JSON value of this type, or NULL. */
static const struct node *pai_parse(struct span text, enum node_type type, struct arena *a)
{
	ERR_AUTO e = { 0 };
	struct budget budget = BUDGET;
	struct doc *doc = ARENA_NEW(a, struct doc, 1);
	if (text.n > PAI_SECRET_MAX || utf8_check(text) != text.n)
		return NULL;
	if (json_read(text, &budget, a, doc, NULL, &e) < 0)
		return NULL;
	return node_is(&doc->root, type) ? &doc->root : NULL;
}

/* ---- Secrets ---- */

/* The member of a Secret's data with the name of its user or group. */
struct secret_subject {
	const char *key;
	struct span name;
};

static enum pai_read open_secret(struct span body, struct secret_subject about, struct arena *a,
                                 const struct node **data, const char **why)
{
	const struct node *root = pai_parse(body, NODE_MAP, a);
	struct span says;
	*why = root ? FOREIGN : NO_OBJECT;
	if (!root)
		return PAI_BROKEN;
	*data = node_get(root, "data");
	bool same =
	    base64_decode(a, parse_text(*data, about.key), &says) == 0 && span_eq(says, about.name);
	return same ? PAI_READ : PAI_UNFIT;
}

static bool pai_decode(const struct node *data, const char *key, struct arena *a, struct span *out)
{
	return base64_decode(a, parse_text(data, key), out) == 0 && utf8_check(*out) == out->n &&
	       (out->n == 0 || !memchr(out->p, '\0', out->n));
}

/* The valid texts of a list, copied to the arena; counts the others. */
static struct name_set pai_read_names(const struct node *list, size_t max,
                                      bool (*fits)(struct span name), struct arena *a,
                                      size_t *left_out)
{
	size_t items = node_is(list, NODE_LIST) ? list->n : 0;
	size_t most = items < max ? items : max;
	struct name_set set = { ARENA_NEW(a, struct span, most + 1), 0 };
	*left_out += list && !node_is(list, NODE_LIST);
	for (size_t i = 0; i < items; i++) {
		const struct node *item = &list->item[i];
		if (set.n == max || !node_is(item, NODE_TEXT) || !fits(node_span(item)))
			*left_out += 1;
		else
			name_set_add(&set, arena_span(a, node_span(item)));
	}
	return set;
}

static bool group_name_ok(struct span name)
{
	return name.n > 0 && name.n <= PAI_NAME_MAX;
}

static void pai_read_groups(const struct node *data, struct arena *scratch, struct arena *a,
                            struct pai_user *out)
{
	struct span text;
	if (!pai_decode(data, "grouplist", scratch, &text)) {
		out->left_out++;
		return;
	}
	if (text.n == 0)
		return;
	const struct node *list = pai_parse(text, NODE_LIST, scratch);
	out->left_out += !list;
	out->groups = pai_read_names(list, PAI_GROUPS_MAX, group_name_ok, a, &out->left_out);
}

static bool plain_text(struct span t, size_t max)
{
	for (size_t i = 0; i < t.n; i++)
		if ((unsigned char)t.p[i] < ' ' || t.p[i] == 0x7f)
			return false;
	return t.n <= max;
}

enum pai_read pai_user_read(struct span body, struct span name, struct arena *a,
                            struct pai_user *out, const char **why)
{
	ARENA_SECRET scratch = { 0 };
	const struct node *data;
	struct span text;
	enum pai_read read =
	    open_secret(body, (struct secret_subject){ "username", name }, &scratch, &data, why);
	if (read != PAI_READ)
		return read;
	*out = (struct pai_user){ .email = "" };
	if (pai_decode(data, "email", &scratch, &text) && plain_text(text, EMAIL_MAX))
		out->email = arena_dup(a, text);
	pai_read_groups(data, &scratch, a, out);
	if (!pai_decode(data, "extension", &scratch, &text))
		out->left_out++;
	else if (text.n) {
		out->extension = pai_parse(text, NODE_MAP, a); /* does not refer to text */
		out->left_out += !out->extension;
	}
	return PAI_READ;
}

enum pai_read pai_password_read(struct span body, struct span name, struct arena *a,
                                struct span *out, const char **why)
{
	ARENA_SECRET scratch = { 0 };
	const struct node *data;
	struct span text;
	enum pai_read read =
	    open_secret(body, (struct secret_subject){ "username", name }, &scratch, &data, why);
	if (read != PAI_READ)
		return read;
	bool good = pai_decode(data, "password", &scratch, &text) && plain_text(text, HASH_MAX);
	*out = good ? arena_span(a, text) : SPAN("");
	return PAI_READ;
}

static bool is_grant(struct span name)
{
	return allocation_named(name);
}

enum pai_read pai_group_read(struct span body, struct span name, struct arena *a,
                             struct pai_group *out, const char **why)
{
	ARENA_SECRET scratch = { 0 };
	const struct node *data;
	struct span text;
	enum pai_read read =
	    open_secret(body, (struct secret_subject){ "groupname", name }, &scratch, &data, why);
	if (read != PAI_READ)
		return read;
	*out = (struct pai_group){ .admin = false };
	if (!pai_decode(data, "extension", &scratch, &text)) {
		out->left_out++;
		return PAI_READ;
	}
	const struct node *extension = text.n ? pai_parse(text, NODE_MAP, &scratch) : NULL;
	const struct node *acls = node_get(extension, "acls");
	out->left_out += (text.n && !extension) + (acls && !node_is(acls, NODE_MAP));
	out->admin = parse_is_true(acls, "admin");
	struct name_set names =
	    pai_read_names(node_get(acls, "overlays"), GRANT_BITS, is_grant, a, &out->left_out);
	for (size_t i = 0; i < names.n; i++)
		out->grants |= allocation_named(names.v[i]);
	out->virtual_clusters = pai_read_names(node_get(acls, "virtualClusters"), PAI_GRANTS_MAX,
	                                       names_label_value_ok, a, &out->left_out);
	out->storages = pai_read_names(node_get(acls, "storageConfigs"), PAI_GRANTS_MAX,
	                               names_storage_ok, a, &out->left_out);
	return PAI_READ;
}

/* ---- storages ---- */

enum pai_read pai_claim_read(struct span body, struct arena *a, struct pai_storage *out,
                             const char **why)
{
	ARENA_AUTO scratch = { 0 };
	const struct node *root = pai_parse(body, NODE_MAP, &scratch);
	struct span volume = parse_text(node_get(root, "spec"), "volumeName");
	*why = NO_OBJECT;
	if (!root)
		return PAI_BROKEN;
	*why = "it is not bound to a volume";
	if (!span_is(parse_text(node_get(root, "status"), "phase"), "Bound"))
		return PAI_UNFIT;
	const char *name = arena_dup(a, volume);
	if (!segment_ok(name))
		return PAI_UNFIT;
	*out = (struct pai_storage){
		.share = !span_is(
		    parse_text(node_get(node_get(root, "metadata"), "labels"), "share"), "false"),
		.volume = name,
		.type = "unknown",
		.data = SPAN("{}"),
		.mount_options = SPAN(""),
	};
	return PAI_READ;
}

/* Public members of a volume's source; OpenPAI also shows passwords and keys. */
struct shown_volume {
	const char *source, *driver; /* member of the spec; driver of a flexVolume, or NULL */
	const char *type;
	struct {
		const char *as, *from; /* of the source, or of a flexVolume's options */
	} v[2];
};

/* clang-format off */
static const struct shown_volume SHOWN[] = {
	{ "nfs",        NULL,                "nfs",       { { "server", "server" }, { "path", "path" } } },
	{ "azureFile",  NULL,                "azureFile", { { "shareName", "shareName" } } },
	{ "flexVolume", "azure/blobfuse",    "azureBlob", { { "containerName", "container" } } },
	{ "flexVolume", "microsoft.com/smb", "samba",     { { "address", "source" } } },
	{ "flexVolume", NULL,                "other",     { { NULL, NULL } } },
};
/* clang-format on */

static struct span write_data(const struct shown_volume *s, const struct node *spec,
                              struct arena *a)
{
	STR_AUTO out = STR_INIT((size_t)64 * TEXT_MAX);
	const struct node *source = node_get(spec, s->source);
	const struct node *options = node_get(source, "options");
	str_char(&out, '{');
	for (size_t i = 0; i < 2 && s->v[i].as; i++) {
		struct span v = parse_text(options ? options : source, s->v[i].from);
		if (v.n > 0 && v.n <= TEXT_MAX)
			json_put_text(&out, s->v[i].as, v);
	}
	str_char(&out, '}');
	return arena_span(a, str_view(&out));
}

static struct span write_options(const struct node *spec, struct arena *a)
{
	const struct node *list = node_get(spec, "mountOptions");
	STR_AUTO out = STR_INIT((size_t)64 * TEXT_MAX);
	if (!node_is(list, NODE_LIST) || list->n > OPTIONS_MAX)
		return SPAN("");
	str_char(&out, '[');
	for (size_t i = 0; i < list->n; i++) {
		if (!node_is(&list->item[i], NODE_TEXT) || list->item[i].n > TEXT_MAX)
			return SPAN("");
		json_put_text(&out, NULL, node_span(&list->item[i]));
	}
	str_char(&out, ']');
	return out.full ? SPAN("") : arena_span(a, str_view(&out));
}

enum pai_read pai_volume_read(struct span body, struct arena *a, struct pai_storage *out,
                              const char **why)
{
	ARENA_AUTO scratch = { 0 };
	const struct node *spec = node_get(pai_parse(body, NODE_MAP, &scratch), "spec");
	*why = NO_OBJECT;
	if (!node_is(spec, NODE_MAP))
		return PAI_BROKEN;
	out->read_only = false;
	for (size_t i = 0; i < spec->n; i++) /* any source; Kubernetes does not tell pods */
		out->read_only |= parse_is_true(&spec->member[i].value, "readOnly");
	out->mount_options = write_options(spec, a);
	for (const struct shown_volume *s = SHOWN; s < SHOWN + ARRAY_SIZE(SHOWN); s++) {
		const struct node *source = node_get(spec, s->source);
		if (!node_is(source, NODE_MAP) ||
		    (s->driver && !span_is(parse_text(source, "driver"), s->driver)))
			continue;
		out->type = s->type;
		out->data = write_data(s, spec, a);
		break;
	}
	return PAI_READ;
}

/* ---- password hashes ---- */

enum { ROUNDS = 10000 };

bool password_hash(struct span user, struct span password, char out[static PASSWORD_HEX + 1])
{
	char salt[33];
	unsigned char hash[PASSWORD_HASH];
	STR_AUTO text = STR_SECRET(password.n); /* GnuTLS takes no const */
	str_span(&text, password);
	md5_hex(salt, user);
	const gnutls_datum_t key = { (unsigned char *)text.p, (unsigned)text.n };
	const gnutls_datum_t salted = { (unsigned char *)salt, sizeof(salt) - 1 };
	bool made =
	    gnutls_pbkdf2(GNUTLS_MAC_SHA512, &key, &salted, ROUNDS, hash, sizeof(hash)) == 0;
	hex_encode(out, hash, sizeof(hash));
	memory_wipe(hash, sizeof(hash));
	return made;
}

bool password_same(const char hash[static PASSWORD_HEX + 1], struct span stored)
{
	return stored.n == PASSWORD_HEX && gnutls_memcmp(hash, stored.p, PASSWORD_HEX) == 0;
}
