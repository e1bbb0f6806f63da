#pragma once
/* Shared by the files of this folder. */
#include "base/posix/lock.h"
#include "jobs/code/code_store.h"

/* Held where the file and the ConfigMap of an archive of one machine change together. */
extern pthread_mutex_t CODE_FILES;

/* Sends one request, by default about a ConfigMap. */
enum store_outcome code_ask(struct code_store *s, struct store_request r, struct arena *a,
                            struct store_reply *reply);

/* Reads an archive, in the arena.  1, 0: there is none, -1 and *e. */
int code_look(struct code_store *s, const char *name, struct arena *a, struct code_archive *out,
              struct err *e);
/* Writes that this object is complete, and that now is its last use.  1; 0: it is gone, -1 and *e.
 */
int code_complete(struct code_store *s, const struct code_archive *c, struct err *e);
/* Deletes an object of this uid and version (NULL: any).  1; 0: it is gone or has changed; -1 and
 * *e. */
int code_delete(struct code_store *s, const char *name, const char *uid, const char *version,
                struct err *e);

/* Calls `each` with every archive of this installation, borrowed.  -1 and *e. */
typedef void code_each(void *arg, const struct code_archive *one);
int code_list(struct code_store *s, code_each *each, void *arg, struct err *e);
