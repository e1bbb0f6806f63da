#pragma once
/*
 * The file of --facts as serve holds it: read whole, checked whole, never changed.  Another one
 * takes its place when it is read again; whoever still works with this one holds it.  Any thread.
 */
#include "base/err.h"
#include "translate/facts.h"

struct policy;

enum { POLICY_MAX = 16 << 20 }; /* bytes */

/*
 * A new reference.  "": no file, everything is allowed.  openpai: users, groups and storages come
 * from a cluster, and the file must not speak of them.  NULL and *e (500; with a place if the
 * file says something wrong).  *warning: static text about owner and mode, or NULL.
 */
struct policy *policy_read(const char *path, bool openpai, const char **warning, struct err *e);
void policy_hold(struct policy *p);
void policy_drop(struct policy *p); /* NULL is nothing; the last one wipes it */
const struct facts_file *policy_file(const struct policy *p);
