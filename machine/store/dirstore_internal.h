#pragma once
/* The parts of the directory store.  Private to machine/store/ and its tests.  One thread at a
 * time; blocks. */
#include <jansson.h>

#include "machine/store/dirstore.h"

/* ---- dirstore_requests.c ---- */

struct dirstore;

/* NULL and *e (500).  Removes objects whose owner is gone. */
struct dirstore *dirstore_open(const char *dir, struct err *e);
void dirstore_close(struct dirstore *s);
void dirstore_transient(struct dirstore *s);
/* See local_follow. */
void dirstore_follow(struct dirstore *s, const struct local_follower *f, void *arg);
void dirstore_do(struct dirstore *s, const char *namespace_name, const struct store_request *r,
                 struct local_answer *out);
/* See local_put_status; of one Framework. */
void dirstore_put_status(struct dirstore *s, const char *namespace_name, struct local_status *one);

/* ---- files.c: one file per object, DIR/<resource>/<key>.json ---- */

enum { FILE_SIZE_MAX = 4 << 20 };

struct files {
	int root;
	int dir[KIND_MADE];
	bool transient; /* see local_transient */
};
#define FILES_CLOSED ((struct files){ -1, { -1, -1, -1, -1 }, false })

/* Opens or makes the directory, locks it, and removes temporary files of a crash.  -1 and *e (500)
 * if it belongs to another user, its mode is not 0700, or another process holds the lock. */
int files_open(struct files *f, const char *path, struct err *e);
void files_close(struct files *f);

/* A key names the file of an object: NAME, or NAMESPACE~NAME outside of the jobs' namespace, which
 * key_namespace returns as "". */
const char *key_name(const char *key);
struct span key_namespace(const char *key);

/* Writes are atomic.  0 or a negative errno: -ENOENT without such an object, -EINVAL for a key that
 * cannot be a file name, -EFBIG. */
int files_read(const struct files *f, enum object_kind kind, const char *key, struct str *out);
int files_write(const struct files *f, enum object_kind kind, const char *key, struct span text);
int files_remove(const struct files *f, enum object_kind kind, const char *key);
/* Moves the file of an object to DIR/damaged/KIND-KEY.json, .1 if there is one.  0 or a negative
 * errno. */
int files_set_aside(const struct files *f, enum object_kind kind, const char *key);
/* Try to write a temporary file.  0 or a negative errno. */
int files_probe(const struct files *f);

/* Calls `visit` for each object of a kind, unordered. */
typedef void files_visit(void *arg, enum object_kind kind, const char *key);
int files_each(const struct files *f, enum object_kind kind, files_visit *visit, void *arg);

/* ---- json_patch.c: RFC 6902, `test`, `replace`, and `add` to objects.  Pure ---- */

enum json_patched { PATCH_DONE, PATCH_TEST_FAILED, PATCH_MALFORMED };

/* Apply all operations, in order.  Unless PATCH_DONE, the object is left half changed. */
enum json_patched json_patch_apply(json_t *object, const json_t *patch);

/* ---- dirstore_index.c: the label selector of a LIST.  Pure ---- */

enum { SELECTOR_TERMS = 8, SELECTOR_TEXT = 1024 };

/* One condition on the labels of an object; the texts are in selector.text. */
struct selector_term {
	const char *key;
	const char *value; /* NULL: any */
};

struct selector {
	struct selector_term term[SELECTOR_TERMS];
	size_t n;
	char text[SELECTOR_TEXT];
};

/* Read labelSelector (KEY=VALUE and KEY, joined by commas) from the query of a URL; NULL: all
 * objects.  Ignores limit, continue and resourceVersion, because a directory always answers with
 * the whole list.  -1 for other parameters. */
int selector_read(struct selector *s, const char *query);
bool selector_fits(const struct selector *s, const json_t *labels);

/* ---- dirstore_index.c: owners and labels of all objects, in memory ---- */

struct dirstore_index;

struct dirstore_index *index_new(void);
void index_free(struct dirstore_index *x);
/* Adds or replaces an object; key: of its file. */
void index_put(struct dirstore_index *x, enum object_kind kind, const char *key,
               const json_t *meta);
void index_remove(struct dirstore_index *x, const char *uid);

/* Calls `visit` for each selected object of a kind.  The callback must not change the index. */
typedef void index_visit(void *arg, const char *key);
void index_each(const struct dirstore_index *x, enum object_kind kind,
                const struct selector *wanted, index_visit *visit, void *arg);

/* Garbage collection: remove objects without an existing owner, and their dependents.  `remove`
 * removes the file; an object for which it returns false stays until the next time. */
typedef bool index_remover(void *arg, enum object_kind kind, const char *key);
void index_collect(struct dirstore_index *x, index_remover *remove, void *arg);
