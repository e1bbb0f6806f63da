/* The text of an object in the database; see local_internal.h. */
#include "machine/store/local_internal.h"

#include "base/json/scan.h"
#include "jobs/store/paths.h"

/* ---- text -------------------------------------------------------------------------- */

/* The inside of a text without escapes; else "". */
static struct span objects_plain(struct span value)
{
	if (scan_type(value) != SCAN_STRING || span_chr(value, '\\') < value.n)
		return SPAN("");
	return (struct span){ value.p + 1, value.n - 2 };
}

bool row_read(struct object_row *r)
{
	static const char *const KEYS[] = { "name", "uid", "namespace", "ownerReferences" };
	struct span v[ARRAY_SIZE(KEYS)];
	struct span owner = { NULL, 0 };
	struct span kind = objects_plain(scan_get(r->body, "kind"));
	r->meta = scan_get(r->body, "metadata");
	scan_members(r->meta, KEYS, v, ARRAY_SIZE(KEYS));
	struct scan owners = scan_begin(v[3]);
	(void)scan_item(&owners, &owner); /* one at most, or none */
	r->kind = KIND_FRAMEWORK;
	while (r->kind < KIND_MADE && !span_is(kind, resource_of(r->kind)->kind))
		r->kind++;
	r->name = objects_plain(v[0]);
	r->uid = objects_plain(v[1]);
	if (r->namespace_name.n > 0)
		r->namespace_name = objects_plain(v[2]);
	r->owner = objects_plain(scan_get(owner, "uid"));
	return r->kind < KIND_MADE && r->uid.n == UID_LEN;
}

bool row_ok(const struct object_row *r)
{
	struct object_row read = *r;
	return scan_valid(r->body, OBJECT_DEPTH) && row_read(&read) && read.kind == r->kind &&
	       span_eq(read.namespace_name, r->namespace_name) && span_eq(read.name, r->name) &&
	       span_eq(read.uid, r->uid) && span_eq(read.owner, r->owner) &&
	       (r->status.n == 0 || scan_valid(r->status, OBJECT_DEPTH)) &&
	       (r->kind != KIND_FRAMEWORK || span_eq(r->stated, r->uid)) && r->version >= 0 &&
	       r->version < VERSION_MAX;
}

void row_text(struct str *out, const struct object_row *r, bool whole)
{
	struct span meta = r->meta.n ? r->meta : scan_get(r->body, "metadata");
	if (meta.n < 2) /* damaged since the start */
		return;
	size_t at = (size_t)(meta.p - r->body.p) + 1;
	(void)str_reserve(out, (whole ? r->body.n + r->status.n : meta.n) + 160);
	str_span(out, whole ? span_to(r->body, at) : SPAN("{\"metadata\":{"));
	str_puts(out, "\"resourceVersion\":\"");
	str_int(out, r->version);
	str_puts(out, "\",");
	str_span(out, span_from(meta, 1));
	if (whole && r->status.n > 0) {
		str_puts(out, ",\"status\":");
		str_span(out, r->status);
	}
	str_span(out, whole ? span_from(r->body, at + meta.n - 1) : SPAN("}"));
}

bool row_split(struct database *d, struct span object, struct object_row *r, sqlite3_stmt **s)
{
	*s = db_bind(d,
	             "SELECT json_remove(?1, '$.status', '$.metadata.resourceVersion'), "
	             "?1 -> '$.status', ?1 ->> '$.metadata.resourceVersion'",
	             "t", object);
	if (!*s || sqlite3_step(*s) != SQLITE_ROW)
		return false;
	r->body = db_text(*s, 0);
	r->status = db_text(*s, 1);
	r->version = sqlite3_column_int64(*s, 2);
	return r->version >= 0 && r->version < VERSION_MAX && row_read(r);
}

/* ---- rows -------------------------------------------------------------------------- */

int row_find(sqlite3_stmt *s, struct object_row *r)
{
	int code = s ? sqlite3_step(s) : SQLITE_ERROR;
	if (code != SQLITE_ROW)
		return code == SQLITE_DONE ? ROW_ABSENT : code;
	int kind = sqlite3_column_int(s, 2);
	*r = (struct object_row){
		.id = sqlite3_column_int64(s, 0),
		.version = sqlite3_column_int64(s, 1),
		.kind = kind < 0 || kind > KIND_MADE ? KIND_MADE : (enum object_kind)kind,
		.namespace_name = db_text(s, 3),
		.name = db_text(s, 4),
		.uid = db_text(s, 5),
		.owner = db_text(s, 6),
		.body = db_text(s, 7),
		.status = db_text(s, 8),
		.stated = db_text(s, 9),
	};
	return 0;
}

int row_state(struct database *d, const struct object_row *r)
{
	return db_run(d,
	              "INSERT INTO status(id, uid, version, text) VALUES(?1, ?2, ?3, ?4) "
	              "ON CONFLICT(id) DO UPDATE SET uid = ?2, version = ?3, text = ?4",
	              "itit", r->id, r->uid, r->version, r->status);
}

int row_store(struct database *d, struct object_row *r)
{
	int code =
	    db_run(d,
	           "INSERT INTO object(id, version, kind, namespace, name, uid, owner, body) "
	           "VALUES(nullif(?1, 0), ?2, ?3, ?4, ?5, ?6, nullif(?7, ''), ?8) "
	           "ON CONFLICT(id) DO UPDATE SET version = ?2, owner = nullif(?7, ''), body = ?8",
	           "iiittttt", r->id, r->version, (int64_t)r->kind, r->namespace_name, r->name,
	           r->uid, r->owner, r->body);
	r->id = r->id ?: sqlite3_last_insert_rowid(d->db);
	return code || r->kind != KIND_FRAMEWORK ? code : row_state(d, r);
}
