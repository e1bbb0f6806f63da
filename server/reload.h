#pragma once
/*
 * Files that are read again while the server runs: keys of tokens, the files of --facts
 * and --hived-config, certificates. Each is read and checked as a whole before it takes the place
 * of what is there; on any error that stays, and the log says what is wrong, with file and place.
 * The main thread only.
 */
#include "server/http/loop.h"

/* The keys, as options say.  NULL and *e (400); *file is the file that its places are in. */
struct keyring *reload_keys(const struct options *o, const char **file, struct err *e);

/* All of them, now.  The loops go on meanwhile; when this returns, they all use what is new. */
void reload_all(struct server *s, struct loop *loops, size_t n);
/* Those that are renewed by others, if they have changed: certificates. */
void reload_changed(struct server *s);
