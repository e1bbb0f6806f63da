/* Labels and owners of all objects in memory, and label selectors; see dirstore_internal.h. */
#include "machine/store/dirstore_internal.h"

#include <assert.h>
#include <stdlib.h>

#include "base/enc.h"
#include "k8s/transport/reply.h"

/* Indexes in an entry; the uids of all owners follow. */
enum { AT_KIND, AT_KEY, AT_LABELS, AT_OWNERS };

struct dirstore_index {
	json_t *entries; /* by uid: [kind, key, labels or null, uid of each owner] */
};

struct dirstore_index *index_new(void)
{
	struct dirstore_index *x = xcalloc(1, sizeof(*x));
	x->entries = json_object();
	return x;
}

void index_free(struct dirstore_index *x)
{
	if (x == NULL)
		return;
	json_decref(x->entries);
	free(x);
}

static enum object_kind dirstore_index_kind_of(const json_t *entry)
{
	return (enum object_kind)json_integer_value(json_array_get(entry, AT_KIND));
}

static const char *dirstore_index_key_of(const json_t *entry)
{
	return json_string_value(json_array_get(entry, AT_KEY));
}

void index_put(struct dirstore_index *x, enum object_kind kind, const char *key, const json_t *meta)
{
	json_t *labels = json_object_get(meta, "labels");
	json_t *entry = json_pack("[i, s, O]", (int)kind, key, labels ? labels : json_null());
	size_t i;
	json_t *owner;
	json_array_foreach (json_object_get(meta, "ownerReferences"), i, owner) {
		(void)json_array_append(entry,
		                        json_object_get(owner, "uid")); /* fails without uid */
	}
	int bad = json_object_set_new(x->entries, reply_text(meta, "uid"), entry);
	assert(bad == 0); /* a key and a uid are UTF-8 */
}

void index_remove(struct dirstore_index *x, const char *uid)
{
	(void)json_object_del(x->entries, uid); /* may be absent */
}

void index_each(const struct dirstore_index *x, enum object_kind kind,
                const struct selector *wanted, index_visit *visit, void *arg)
{
	const char *uid;
	json_t *entry;
	json_object_foreach (x->entries, uid, entry) {
		if (dirstore_index_kind_of(entry) == kind &&
		    selector_fits(wanted, json_array_get(entry, AT_LABELS)))
			visit(arg, dirstore_index_key_of(entry));
	}
}

/* It has owners, and none of them exists. */
static bool is_orphan(const struct dirstore_index *x, const json_t *entry)
{
	for (size_t i = AT_OWNERS; i < json_array_size(entry); i++) {
		const char *owner = json_string_value(json_array_get(entry, i));
		if (owner == NULL || json_object_get(x->entries, owner) != NULL)
			return false;
	}
	return json_array_size(entry) > AT_OWNERS;
}

void index_collect(struct dirstore_index *x, index_remover *remove, void *arg)
{
	bool removed = true;
	while (removed) {
		removed = false;
		const char *uid;
		void *next;
		json_t *entry;
		json_object_foreach_safe(x->entries, next, uid, entry)
		{
			if (!is_orphan(x, entry) || !remove(arg, dirstore_index_kind_of(entry),
			                                    dirstore_index_key_of(entry)))
				continue;
			(void)json_object_del(x->entries, uid);
			removed = true;
		}
	}
}

/* Percent-decodes into selector.text. */
static int dirstore_index_decode(struct selector *s, struct span from)
{
	size_t n = 0;
	for (size_t i = 0; i < from.n; i++) {
		int c = (unsigned char)from.p[i];
		if (c == '%') {
			c = percent_byte(from, i);
			i += 2;
		}
		if (c <= 0 || n + 1 == sizeof(s->text))
			return -1;
		s->text[n++] = (char)c;
	}
	s->text[n] = '\0';
	return 0;
}

/* Only characters of label keys and values; others belong to unsupported operators. */
static bool dirstore_index_is_plain(const char *text)
{
	return strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	                    "._-/") == strlen(text);
}

/* Cuts the next piece off *rest, at `separator`; NULL at the end. */
static char *next_piece(char **rest, char separator)
{
	char *piece = *rest;
	if (piece == NULL)
		return NULL;
	char *end = strchr(piece, separator);
	if (end != NULL)
		*end++ = '\0';
	*rest = end;
	return piece;
}

static int read_terms(struct selector *s)
{
	char *rest = s->text;
	char *piece;
	while ((piece = next_piece(&rest, ',')) != NULL) {
		char *value = piece;
		char *key = next_piece(&value, '=');
		if (s->n == SELECTOR_TERMS || key[0] == '\0' || !dirstore_index_is_plain(key) ||
		    (value != NULL && !dirstore_index_is_plain(value)))
			return -1;
		s->term[s->n++] = (struct selector_term){ key, value };
	}
	return 0;
}

static int read_parameter(struct selector *s, struct span parameter)
{
	static const char *const PASSED_OVER[] = { "limit=", "continue=", "resourceVersion=" };
	static const char LABELS[] = "labelSelector=";
	for (size_t i = 0; i < ARRAY_SIZE(PASSED_OVER); i++) {
		if (span_starts(parameter, PASSED_OVER[i]))
			return 0;
	}
	if (!span_starts(parameter, LABELS) || s->n > 0)
		return -1;
	parameter.p += sizeof(LABELS) - 1;
	parameter.n -= sizeof(LABELS) - 1;
	return dirstore_index_decode(s, parameter) == 0 ? read_terms(s) : -1;
}

int selector_read(struct selector *s, const char *query)
{
	s->n = 0;
	while (query != NULL && *query != '\0') {
		const char *end = strchrnul(query, '&');
		if (read_parameter(s, (struct span){ query, (size_t)(end - query) }) != 0)
			return -1;
		query = *end == '&' ? end + 1 : end;
	}
	return 0;
}

bool selector_fits(const struct selector *s, const json_t *labels)
{
	for (size_t i = 0; i < s->n; i++) {
		const char *is = json_string_value(json_object_get(labels, s->term[i].key));
		if (is == NULL || (s->term[i].value && strcmp(is, s->term[i].value) != 0))
			return false;
	}
	return true;
}
