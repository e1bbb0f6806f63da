/*
 * Reads a kubeconfig strictly: a token, a client certificate and a CA.  Keys with which kubectl
 * would run a program, disable verification, use a proxy or impersonate a user, and unknown keys,
 * are errors at start that name the key.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/doc/yaml.h"
#include "base/enc.h"
#include "k8s/http/endpoint.h"
#include "k8s/transport/login.h"

enum { CONFIG_MAX = 1 << 20 };

enum kubeconfig_section { CLUSTER, USER, CONTEXT, SECTION_MAX };

enum key_treatment {
	IGNORED, /* without effect here */
	REFUSED,
	TEXT,
	FILE_AT, /* a path, relative to the directory of the kubeconfig */
	BASE64,
	UNLESS_TRUE,
};

#define TO(member) offsetof(struct login_source, member)

/* clang-format off */
static const struct kubeconfig_key {
	const char *name;
	enum kubeconfig_section section;
	enum key_treatment treatment;
	size_t to;
} KEYS[] = {
	{ "server",                     CLUSTER, TEXT,    TO(server) },
	{ "certificate-authority",      CLUSTER, FILE_AT, TO(ca_file) },
	{ "certificate-authority-data", CLUSTER, BASE64,  TO(ca_data) },
	{ "disable-compression",        CLUSTER, IGNORED, 0 },
	{ "extensions",                 CLUSTER, IGNORED, 0 },
	{ "insecure-skip-tls-verify",   CLUSTER, UNLESS_TRUE, 0 },
	{ "proxy-url",                  CLUSTER, REFUSED, 0 },
	{ "tls-server-name",            CLUSTER, REFUSED, 0 },
	{ "token",                      USER,    TEXT,    TO(token) },
	{ "tokenFile",                  USER,    FILE_AT, TO(token_file) },
	{ "client-certificate",         USER,    FILE_AT, TO(cert_file) },
	{ "client-certificate-data",    USER,    BASE64,  TO(cert_data) },
	{ "client-key",                 USER,    FILE_AT, TO(key_file) },
	{ "client-key-data",            USER,    BASE64,  TO(key_data) },
	{ "extensions",                 USER,    IGNORED, 0 },
	{ "exec",                       USER,    REFUSED, 0 },
	{ "auth-provider",              USER,    REFUSED, 0 },
	{ "username",                   USER,    REFUSED, 0 },
	{ "password",                   USER,    REFUSED, 0 },
	{ "as",                         USER,    REFUSED, 0 },
	{ "as-uid",                     USER,    REFUSED, 0 },
	{ "as-groups",                  USER,    REFUSED, 0 },
	{ "as-user-extra",              USER,    REFUSED, 0 },
	{ "cluster",                    CONTEXT, IGNORED, 0 }, /* looked up before */
	{ "user",                       CONTEXT, IGNORED, 0 },
	{ "namespace",                  CONTEXT, TEXT,    TO(namespace_name) },
	{ "extensions",                 CONTEXT, IGNORED, 0 },
};

/* The list with the entries of a section, and the member with their content. */
static const struct { const char *list, *member; } SECTIONS[] = {
	[CLUSTER] = { "clusters", "cluster" },
	[USER]    = { "users",    "user" },
	[CONTEXT] = { "contexts", "context" },
};
/* clang-format on */

struct kubeconfig_reader {
	const char *file;
	const struct node *root;
	struct arena *arena;
	struct login_source *out;
	struct err *e;
};

static int kubeconfig_fault(struct kubeconfig_reader *r, const struct member *m, const char *what)
{
	return err_set(r->e, UNKNOWN_ERROR, "%s:%u: %s: %s", r->file, m->key_line, m->key, what);
}

static int kubeconfig_take_key(struct kubeconfig_reader *r, enum kubeconfig_section section,
                               const struct member *m)
{
	const struct kubeconfig_key *key = KEYS;
	while (key < KEYS + ARRAY_SIZE(KEYS) &&
	       (key->section != section || !span_is(member_key(m), key->name)))
		key++;
	if (key == KEYS + ARRAY_SIZE(KEYS))
		return kubeconfig_fault(r, m, "is an unknown key");
	if (key->treatment == REFUSED)
		return kubeconfig_fault(r, m, "is not supported");
	if (key->treatment == UNLESS_TRUE && !(node_is(&m->value, NODE_BOOL) && !m->value.boolean))
		return kubeconfig_fault(r, m,
		                        "is not supported: the API server is always verified");
	if (key->treatment == IGNORED || key->treatment == UNLESS_TRUE)
		return 0;
	if (!node_is(&m->value, NODE_TEXT))
		return kubeconfig_fault(r, m, "must be text");
	if (m->value.n == 0)
		return 0; /* as if absent, like kubectl */
	const char *text = m->value.text;
	if (key->treatment == FILE_AT) {
		const char *slash = strrchr(r->file, '/');
		if (text[0] != '/' && slash != NULL)
			text = arena_printf(r->arena, "%.*s/%s", (int)(slash - r->file), r->file,
			                    text);
	} else if (key->treatment == BASE64) {
		struct span bytes;
		if (base64_decode(r->arena, node_span(&m->value), &bytes) != 0 ||
		    memchr(bytes.p, '\0', bytes.n) != NULL)
			return kubeconfig_fault(r, m, "is not base64-encoded text");
		text = arena_dup(r->arena, bytes);
	}
	*(const char **)(void *)((char *)r->out + key->to) = text;
	return 0;
}

static int kubeconfig_take_section(struct kubeconfig_reader *r, enum kubeconfig_section section,
                                   const struct node *map)
{
	for (uint32_t i = 0; i < map->n; i++) {
		if (kubeconfig_take_key(r, section, &map->member[i]) != 0)
			return -1;
	}
	return 0;
}

/* The content of the entry of that name; NULL and *e. */
static const struct node *kubeconfig_find_entry(struct kubeconfig_reader *r,
                                                enum kubeconfig_section section, const char *name)
{
	const struct node *list = node_get(r->root, SECTIONS[section].list);
	for (uint32_t i = 0; node_is(list, NODE_LIST) && i < list->n; i++) {
		const struct node *content = node_get(&list->item[i], SECTIONS[section].member);
		const char *its_name = node_text(&list->item[i], "name");
		if (*its_name && strcmp(its_name, name) == 0 && node_is(content, NODE_MAP))
			return content;
	}
	err_set(r->e, UNKNOWN_ERROR, "%s: no %s \"%s\" in %s", r->file, SECTIONS[section].member,
	        name, SECTIONS[section].list);
	return NULL;
}

static int kubeconfig_read_tree(struct kubeconfig_reader *r, struct span text, const char *context)
{
	struct budget budget = BUDGET_DEFAULT;
	struct doc doc = { 0 };
	ERR_AUTO why = { 0 };
	if (yaml_read(text, &budget, r->arena, &doc, NULL, &why) != 0) {
		unsigned line = why.notes.n ? why.notes.v[0].line : 0;
		return err_set(r->e, UNKNOWN_ERROR, "%s:%u: is not YAML", r->file, line);
	}
	r->root = &doc.root;
	const struct node *chosen = kubeconfig_find_entry(
	    r, CONTEXT, context ? context : node_text(&doc.root, "current-context"));
	const struct node *cluster =
	    chosen ? kubeconfig_find_entry(r, CLUSTER, node_text(chosen, "cluster")) : NULL;
	const struct node *user =
	    cluster ? kubeconfig_find_entry(r, USER, node_text(chosen, "user")) : NULL;
	bool good = user != NULL && kubeconfig_take_section(r, CONTEXT, chosen) == 0 &&
	            kubeconfig_take_section(r, CLUSTER, cluster) == 0 &&
	            kubeconfig_take_section(r, USER, user) == 0;
	r->root = NULL;
	return good ? 0 : -1;
}

int kubeconfig_read(const char *file, const char *context, struct arena *a,
                    struct login_source *out, struct err *e)
{
	struct kubeconfig_reader r = { .file = file, .arena = a, .out = out, .e = e };
	char *text = config_file_text(file, e);
	if (text == NULL)
		return -1;
	out->from = "kubeconfig";
	int bad = kubeconfig_read_tree(&r, span_of(text), context);
	memory_wipe(text, strlen(text));
	free(text);
	return bad;
}
