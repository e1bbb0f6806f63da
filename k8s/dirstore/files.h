#pragma once
/*
 * A directory as a store of texts, one file per object: DIR/<resource>/<name>.json.
 * A file is always whole: the old text or the new one, whenever the machine stops.
 * Private to k8s/.  One thread at a time; blocks.
 */
#include "base/err.h"
#include "base/object.h"

enum { FILE_SIZE_MAX = 4 << 20 };

struct files {
	int root;
	int dir[KIND_MADE];
};
#define FILES_CLOSED ((struct files){ -1, { -1, -1, -1, -1 } })

/*
 * Open, and make if need be, the directory; take its lock; remove what a crash left
 * behind.  It must be ours and for nobody else (mode 0700): else, and if another
 * process holds the lock, -1 and *e (500).
 */
int files_open(struct files *f, const char *path, struct err *e);
void files_close(struct files *f);

/*
 * A key names the file of an object: its name, or NAMESPACE~NAME for one that is not in the
 * namespace of the jobs.  key_name is the name, key_namespace the namespace, empty if not said.
 */
const char *key_name(const char *key);
struct span key_namespace(const char *key);

/* These return 0 or a negative errno: -ENOENT if there is no such object, -EINVAL if the
 * key cannot be a file name, -EFBIG. */
int files_read(const struct files *f, enum object_kind kind, const char *key, struct str *out);
int files_write(const struct files *f, enum object_kind kind, const char *key, struct span text);
int files_remove(const struct files *f, enum object_kind kind, const char *key);

/* Whether anything could be written now: 0 or a negative errno.  Leaves nothing behind. */
int files_probe(const struct files *f);

/* Call back for each object of a kind, in no order. */
typedef void files_visit(void *arg, enum object_kind kind, const char *key);
int files_each(const struct files *f, enum object_kind kind, files_visit *visit, void *arg);
