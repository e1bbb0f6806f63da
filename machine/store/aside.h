#pragma once
/*
 * Nothing is ever deleted because the database does not name it: it can be all that is left of a
 * job.  The rule for all files of the directory (logs/, pods/, code/, store.db and its log):
 *
 *	no database, but files of jobs    the start is refused, and nothing is changed
 *	a row that cannot be read         its text is moved to damaged/
 *	a file whose row is not there     it is moved to damaged/OWNER/, and named
 *
 * What shall go is recorded first, so that a server that is killed at any moment leaves nothing
 * that could also be a loss:
 *
 *	removal of a job     one transaction removes its rows and notes its uid (removals in
 *	                     local.h); then the engine moves its files to trash/
 *	--keep-logs          the file logs/UID/deleted is made; then a log goes to trash/
 *	removal of code      its directory becomes an upload-*, which each start removes; then the
 *	                     row goes.  New code: the row, then the directory
 *	a new database       is made under another name, and renamed
 *
 * OWNER is USER~JOB, as far as a file tells it, else `unknown`; `code` for code.  All losses are
 * lines of damaged/LOST.  Nothing in damaged/ is removed by this program.
 *
 * dir: the directory of the store.  Blocks.  Any thread.
 */
#include "base/err.h"

#define LOST_FILE "damaged/LOST"

/* Moves DIR/FROM ("logs/UID") to DIR/damaged/OWNER/logs-UID.  The name below DIR, which the caller
 * frees; NULL and errno. */
char *aside_move(const char *dir, const char *from, struct span owner);
/* Makes DIR/damaged/OWNER; 0, or -1 and errno.  *name: OWNER; the caller frees it. */
int aside_make_owner(const char *dir, struct span owner, char **name);
/* Returns true if there is DIR/damaged/OWNER. */
bool aside_has(const char *dir, struct span owner);
/* Adds a line "TIME SENTENCE" to damaged/LOST, which has at most 1 MiB. */
void aside_note(const char *dir, const char *sentence);

/* Finds out what a start would refuse, and changes nothing.  0; 1: there is no directory; -1 and *e
 * (500): it belongs to another user, others may enter it, or there are files of jobs without a
 * database. */
int aside_check(const char *dir, struct err *e);
