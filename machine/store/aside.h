#pragma once
/*
 * Nothing is ever deleted because the database does not name it: it can be all that is left of a
 * job.  The rule for all files of the directory (logs/, pods/, code/, results/, store.db and its
 * log):
 *
 *	no database, but files of jobs    the start is refused, and nothing is changed
 *	a row that cannot be read         its text is moved to damaged/
 *	a file whose row is not there     it is moved to damaged/OWNER/, and named
 *	results whose row is not there    they become results/unknown-UID, and are named
 *
 * What shall go is recorded first, so that a server that is killed at any moment leaves nothing
 * that could also be a loss:
 *
 *	removal of a job     one transaction removes its rows and notes its uid (removals in
 *	                     local.h); then the engine moves its files to trash/
 *	--keep-logs          the file logs/UID/deleted is made; then a log goes to trash/
 *	--keep-results       the file results/UID.size is there; then results go to trash/
 *	removal of code      its directory becomes an upload-*, which each start removes; then the
 *	                     row goes.  New code: the row, then the directory
 *	a new database       is made under another name, and renamed
 *
 * OWNER is USER~JOB, as far as a file tells it, else `unknown`; `code` for code.  All losses are
 * lines of damaged/LOST.  Nothing in damaged/ is removed by this program.
 *
 * dir: the directory of the store.
 *
 * Thread: worker
 */
#include "base/err.h"

#define LOST_FILE "damaged/LOST"
#define NO_OWNER  ((struct span){ 0 })

/* Returns a name below DIR that is not used, and makes its directories: damaged/OWNER/logs-UID of
 * "logs/UID", perhaps with a number; NO_OWNER: damaged/logs-UID.  The caller frees it.  NULL
 * and errno. */
char *aside_name(const char *dir, struct span owner, const char *from);
/* Moves DIR/FROM there. */
char *aside_move(const char *dir, const char *from, struct span owner);
/* Returns true if there is DIR/damaged/OWNER.  Thread: any. */
bool aside_has(const char *dir, struct span owner);
/* Adds a line "TIME SENTENCE" to damaged/LOST, which has at most 1 MiB.  Returns what the server's
 * log shall say: the first 20 sentences, then one that says where the others are, then NULL. */
const char *aside_note(const char *dir, const char *sentence);

/* Finds out what a start would refuse, and changes nothing.  0; 1: it would make the directory, or
 * the database; -1 and *e (500): the directory belongs to another user, others may enter it, or
 * there are files of jobs without a database. */
int aside_check(const char *dir, struct err *e);
