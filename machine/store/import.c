/*
 * Objects of earlier versions, one file each: DIR/<resource>/<key>.json, where a key is NAME, or
 * NAMESPACE~NAME outside of the jobs' namespace.  They are taken over in one transaction, and are
 * kept in DIR/imported, without the Secrets, until the next start.  Jobs that were still being
 * created, and PriorityClasses, which nothing uses, are not taken over.
 */
#include "machine/store/local_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/enc.h"
#include "base/fd.h"
#include "base/json/scan.h"
#include "k8s/transport/paths.h"
#include "k8s/transport/reply.h"

static const char IMPORTED[] = "imported";

/* A Framework that was still being created: what it owns goes with it. */
static bool import_is_unstarted(const struct row *r)
{
	return r->kind == KIND_FRAMEWORK &&
	       (scan_path(r->meta, "labels", "rest-lit/creating").n > 0 ||
	        span_is(scan_path(r->rest, "spec", "executionType"), "\"Create\""));
}

/* One that is damaged becomes a row that cannot be read back, which damage_rows finds.  0 or
 * SQLITE_... */
static int import_text(struct database *d, const struct row *key, struct span text)
{
	static const char *const NONE[] = { NULL };
	char uid[UUID_TEXT];
	struct row r = *key;
	PARTS_AUTO p = { 0 };
	WIPED_STR compact = STR_SECRET(OBJECT_MAX);
	JSON_AUTO *object =
	    json_loadb(text.p, text.n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
	char *dumped = object ? json_dumps(object, JSON_COMPACT) : NULL;
	int code = SQLITE_CONSTRAINT;
	str_puts(&compact, dumped ? dumped : "");
	free_wiped(dumped);
	if (parts_read(&p, str_view(&compact), NONE) == 0 && parts_end(&p)) {
		r = p.row;
		r.kind = key->kind;
		r.namespace_name = key->namespace_name;
		r.name = key->name;
		if (import_is_unstarted(&r))
			return 0;
		(void)parse_i64(
		    span_of(reply_text(json_object_get(object, "metadata"), "resourceVersion")), 0,
		    VERSION_MAX - 1, &r.version);
		code = row_insert(d, &r);
	}
	if ((code & 0xff) == SQLITE_CONSTRAINT) {
		random_uuid(uid);
		r = *key;
		r.uid = span_of(uid);
		r.meta = text;
		r.rest = SPAN("{}");
		code = row_insert(d, &r);
	}
	/* It was taken over before, if the start was interrupted then. */
	return (code & 0xff) == SQLITE_CONSTRAINT ? 0 : code;
}

static int import_file(struct database *d, int dir, enum object_kind kind, const char *file,
                       struct err *e)
{
	static const char SUFFIX[] = ".json";
	size_t n = strlen(file) - (sizeof(SUFFIX) - 1);
	if (strlen(file) < sizeof(SUFFIX) || strcmp(file + n, SUFFIX) != 0)
		return 0;
	FREE_AUTO char *name = xstrndup(file, n);
	char *mark = strchr(name, '~');
	if (mark)
		*mark = '\0';
	if (!segment_ok(name) || (mark && !segment_ok(mark + 1)))
		return 0;
	WIPED_STR text = STR_SECRET(OBJECT_MAX);
	if (fd_read_str(dir, file, &text) < 0 && errno != EFBIG)
		return err_set(e, UNKNOWN_ERROR, "%s/%s cannot be read: %s",
		               resource_of(kind)->plural, file, strerrordesc_np(errno));
	struct row r = { .kind = kind,
		         .namespace_name = span_of(mark ? name : ""),
		         .name = span_of(mark ? mark + 1 : name) };
	int code = import_text(d, &r, str_view(&text));
	return code ? err_set(e, UNKNOWN_ERROR, "%s/%s cannot be taken over: %s",
	                      resource_of(kind)->plural, file, sqlite3_errstr(code))
	            : 0;
}

/* Removes the files of a directory. */
static void import_clear(int at, const char *path)
{
	DIR_AUTO *list = dir_list(at, path);
	for (const char *file; (file = dir_next(list)) != NULL;)
		(void)unlinkat(dirfd(list), file, 0); /* one that stays does no harm */
}

/* What a start before this one has set aside. */
static void import_forget(struct database *d)
{
	for (enum object_kind k = 0; k < KIND_MADE; k++) {
		FREE_AUTO char *path = xasprintf("%s/%s", IMPORTED, resource_of(k)->plural);
		import_clear(d->root, path);
		(void)unlinkat(d->root, path, AT_REMOVEDIR);
	}
	(void)unlinkat(d->root, IMPORTED, AT_REMOVEDIR);
}

static int import_set_aside(struct database *d, struct err *e)
{
	import_forget(d);
	import_clear(d->root, resource_of(KIND_SECRET)->plural);
	bool bad = mkdirat(d->root, IMPORTED, 0700) != 0;
	for (enum object_kind k = 0; k < KIND_MADE && !bad; k++) {
		const char *from = resource_of(k)->plural;
		FREE_AUTO char *to = xasprintf("%s/%s", IMPORTED, from);
		bad = renameat(d->root, from, d->root, to) != 0 && errno != ENOENT;
	}
	if (bad || fsync(d->root) != 0)
		return err_set(e, UNKNOWN_ERROR, "%s/%s: %s", d->path, IMPORTED,
		               strerrordesc_np(errno));
	return 0;
}

int import_files(struct database *d, struct err *e)
{
	bool found = false;
	int bad = 0;
	for (enum object_kind k = 0; k < KIND_PRIORITYCLASS && bad == 0; k++) {
		DIR_AUTO *list = dir_list(d->root, resource_of(k)->plural);
		if (list == NULL && errno == ENOENT)
			continue;
		if (list == NULL)
			return err_set(e, UNKNOWN_ERROR, "%s/%s: %s", d->path,
			               resource_of(k)->plural, strerrordesc_np(errno));
		int code = db_begin(d);
		if (code)
			return err_set(e, UNKNOWN_ERROR, "%s: %s", d->path, sqlite3_errstr(code));
		found = true;
		for (const char *file; bad == 0 && (file = dir_next(list)) != NULL;)
			bad = import_file(d, dirfd(list), k, file, e);
	}
	if (bad)
		return -1;
	int code = db_commit(d);
	if (code)
		return err_set(e, UNKNOWN_ERROR, "%s: %s", d->path, sqlite3_errstr(code));
	if (found)
		return import_set_aside(d, e);
	import_forget(d);
	return 0;
}
