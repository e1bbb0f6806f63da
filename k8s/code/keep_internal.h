#pragma once
/* Shared by the files of this folder. */
#include "base/posix/lock.h"
#include "k8s/code/code_store.h"

/* Held where the file and the ConfigMap of an archive of one machine change together. */
extern pthread_mutex_t CODE_FILES;

/* Sends one request, by default about a ConfigMap. */
enum store_outcome code_ask(struct code_store *s, struct store_request r, struct arena *a,
                            struct store_reply *reply);
/* Fills *e for an outcome that is not expected.  -1. */
int code_fail(struct store_request r, const struct store_reply *reply, struct err *e);

/* Calls `each` with every archive of this installation, borrowed.  -1 and *e. */
typedef void code_each(void *arg, const struct code_archive *one);
int code_list(struct code_store *s, code_each *each, void *arg, struct err *e);
