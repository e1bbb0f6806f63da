/* The text of an object, and its parts in the database; see local_internal.h. */
#include "machine/store/local_internal.h"

#include "base/json/scan.h"

enum { MEMBERS_MAX = 64 };

/* ---- reading a row ----------------------------------------------------------------- */

struct row row_of(sqlite3_stmt *s)
{
	int kind = sqlite3_column_int(s, 2);
	return (struct row){
		.id = sqlite3_column_int64(s, 0),
		.version = sqlite3_column_int64(s, 1),
		.kind = kind >= 0 && kind < KIND_MADE ? (enum object_kind)kind : KIND_MADE,
		.namespace_name = db_text(s, 3),
		.name = db_text(s, 4),
		.uid = db_text(s, 5),
		.owner = db_text(s, 6),
		.meta = db_text(s, 7),
		.rest = db_text(s, 8),
		.status = db_text(s, 9),
		.stated = db_text(s, 10),
	};
}

int row_find(sqlite3_stmt *s, struct row *r)
{
	int code = s ? sqlite3_step(s) : SQLITE_ERROR;
	if (code == SQLITE_ROW)
		*r = row_of(s);
	else
		(void)sqlite3_reset(s);
	return code == SQLITE_ROW ? 0 : code == SQLITE_DONE ? ROW_ABSENT : code;
}

void row_text(struct str *out, const struct row *r, bool whole)
{
	(void)str_reserve(out, r->meta.n + (whole ? r->rest.n + r->status.n : 0) + 160);
	str_puts(out, whole ? "{\"metadata\":{\"resourceVersion\":\""
	                    : "{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":"
	                      "\"meta.k8s.io/v1\",\"metadata\":{\"resourceVersion\":\"");
	str_int(out, r->version);
	str_puts(out, "\",");
	str_span(out, span_from(r->meta, 1));
	if (whole && r->status.n > 0) {
		str_puts(out, ",\"status\":");
		str_span(out, r->status);
	}
	if (whole && r->rest.n > 2) {
		str_char(out, ',');
		str_span(out, span_from(r->rest, 1));
	} else {
		str_char(out, '}');
	}
}

/* The inside of a text without escapes; else "". */
static struct span objects_plain(struct span value)
{
	if (scan_type(value) != SCAN_STRING || span_chr(value, '\\') < value.n)
		return SPAN("");
	return (struct span){ value.p + 1, value.n - 2 };
}

struct span row_member(const struct row *r, const char *key)
{
	return objects_plain(scan_get(r->meta, key));
}

static bool objects_is_object(struct span text)
{
	return text.n >= 2 && text.p[0] == '{' && scan_valid(text, OBJECT_DEPTH);
}

/* The uid of the first owner; there is one at most. */
static struct span objects_owner(struct span references)
{
	struct span owner = { NULL, 0 };
	struct scan owners = scan_begin(references);
	(void)scan_item(&owners, &owner); /* may be absent */
	return objects_plain(scan_get(owner, "uid"));
}

bool row_ok(const struct row *r)
{
	return r->kind != KIND_MADE && objects_is_object(r->meta) && objects_is_object(r->rest) &&
	       (r->status.n == 0 || scan_valid(r->status, OBJECT_DEPTH)) && r->uid.n == UID_LEN &&
	       span_eq(row_member(r, "uid"), r->uid) &&
	       span_eq(objects_owner(scan_get(r->meta, "ownerReferences")), r->owner) &&
	       span_eq(row_member(r, "name"), r->name) &&
	       (r->stated.n > 0 ? span_eq(r->stated, r->uid) : r->kind != KIND_FRAMEWORK) &&
	       r->version >= 0 && r->version < VERSION_MAX;
}

/* ---- the parts of a text ----------------------------------------------------------- */

static void objects_add(struct str *out, struct span key, struct span value)
{
	str_char(out, out->n > 0 ? ',' : '{');
	str_char(out, '"');
	str_span(out, key);
	str_puts(out, "\":");
	str_span(out, value);
}

/* Members of an object, once each. */
struct members {
	struct scan scan;
	struct span seen[MEMBERS_MAX], key, value;
	size_t n;
	bool bad;
};

static bool objects_next(struct members *m)
{
	if (m->bad || !scan_member(&m->scan, &m->key, &m->value))
		return false;
	m->bad = m->n == MEMBERS_MAX || span_chr(m->key, '\\') < m->key.n;
	for (size_t i = 0; i < m->n; i++)
		m->bad = m->bad || span_eq(m->seen[i], m->key);
	if (!m->bad)
		m->seen[m->n++] = m->key;
	return !m->bad;
}

int parts_read(struct parts *p, struct span object, const char *const *without)
{
	struct members m = { .scan = scan_begin(object) };
	struct span meta = SPAN("");
	*p = (struct parts){ .meta = STR_SECRET(OBJECT_MAX), .rest = STR_SECRET(OBJECT_MAX) };
	if (scan_type(object) != SCAN_OBJECT)
		return -1;
	(void)str_reserve(&p->rest, object.n);
	while (objects_next(&m)) {
		if (span_is(m.key, "metadata"))
			meta = m.value;
		else if (span_is(m.key, "status"))
			p->row.status = m.value;
		else
			objects_add(&p->rest, m.key, m.value);
		if (span_is(m.key, "kind"))
			p->kind = objects_plain(m.value);
	}
	if (m.bad || (meta.n > 0 && scan_type(meta) != SCAN_OBJECT))
		return -1;
	m = (struct members){ .scan = scan_begin(meta) };
	(void)str_reserve(&p->meta, meta.n + 256);
	while (objects_next(&m)) {
		if (span_is(m.key, "name"))
			p->row.name = objects_plain(m.value);
		else if (span_is(m.key, "uid"))
			p->row.uid = objects_plain(m.value);
		else if (span_is(m.key, "namespace"))
			p->namespace_name = objects_plain(m.value);
		else if (span_is(m.key, "ownerReferences"))
			p->row.owner = objects_owner(m.value);
		if (!span_is(m.key, "resourceVersion") && !span_among(m.key, without))
			objects_add(&p->meta, m.key, m.value);
	}
	return m.bad ? -1 : 0;
}

void parts_add(struct parts *p, const char *key, const char *value)
{
	FREE_AUTO char *quoted = xasprintf("\"%s\"", value);
	objects_add(&p->meta, span_of(key), span_of(quoted));
}

bool parts_end(struct parts *p)
{
	str_puts(&p->meta, p->meta.n > 0 ? "}" : "{}");
	str_puts(&p->rest, p->rest.n > 0 ? "}" : "{}");
	p->row.meta = str_view(&p->meta);
	p->row.rest = str_view(&p->rest);
	return !p->meta.full && !p->rest.full &&
	       p->meta.n + p->rest.n + p->row.status.n < OBJECT_MAX;
}

void parts_done(struct parts *p)
{
	str_wipe(&p->meta);
	str_wipe(&p->rest);
}

/* ---- writing a row ----------------------------------------------------------------- */

/* NULL, if it is empty. */
static struct span objects_nullable(struct span text)
{
	return text.n > 0 ? text : (struct span){ NULL, 0 };
}

int row_state(struct database *d, const struct row *r)
{
	return db_run(d, DB_STATUS, "itit", r->id, r->uid, r->version, objects_nullable(r->status));
}

/* Has, or is to have, a row for its status. */
static bool objects_stated(const struct row *r)
{
	return r->kind == KIND_FRAMEWORK || r->stated.n > 0 || r->status.n > 0;
}

int row_insert(struct database *d, struct row *r)
{
	int code = db_run(d, DB_INSERT, "iitttttt", r->version, (int64_t)r->kind, r->namespace_name,
	                  r->name, r->uid, objects_nullable(r->owner), r->meta, r->rest);
	r->id = sqlite3_last_insert_rowid(d->db);
	return code || !objects_stated(r) ? code : row_state(d, r);
}

int row_update(struct database *d, const struct row *r)
{
	int code = db_run(d, DB_UPDATE, "iittt", r->id, r->version, objects_nullable(r->owner),
	                  r->meta, r->rest);
	return code || !objects_stated(r) ? code : row_state(d, r);
}
