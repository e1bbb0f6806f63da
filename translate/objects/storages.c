/* Storages: resolution of the mounts, and their variables. */
#include "base/enc.h"
#include "base/pod/results.h"
#include "translate/job/names.h"
#include "translate/objects/objects.h"
#include "translate/render/bindings.h"

enum { VOLUME_NAME_MAX = 63 };

/* NAME-volume if that is a valid volume name (63 of [a-z0-9-]), else the valid characters of
 * NAME and a hash. Profile openpai, like OpenPAI, writes NAME-volume unless it is too long. */
static const char *volume_name(const struct scope *s, struct span name)
{
	static const char END[] = "-volume";
	bool fits = name.n + sizeof(END) - 1 <= VOLUME_NAME_MAX;
	if (fits && (names_dns_label_ok(name) || s->set->profile == PROFILE_OPENPAI))
		return arena_printf(s->a, "%.*s%s", (int)name.n, name.p, END);
	char hex[33];
	md5_hex(hex, name);
	char kept[VOLUME_NAME_MAX] = "";
	size_t n = 0;
	for (size_t i = 0; i < name.n && n < 40; i++) {
		bool good = is_alnum(name.p[i]);
		if (good || n)
			kept[n++] = (char)(good ? to_lower(name.p[i]) : '-');
	}
	return arena_printf(s->a, "%s%s%.8s%s", kept, n ? "-" : "", hex, END);
}

static int add_mount(struct scope *s, struct mount *v, const struct storage_fact *f,
                     const struct storage_request *r, struct err *e)
{
	struct mount m = { .storage = f, .first = true };
	m.path = r && r->mount_path.n
	             ? r->mount_path
	             : span_of(arena_printf(s->a, "/mnt/%.*s", (int)f->name.n, f->name.p));
	for (size_t i = 0; i < s->n_mounts; i++) {
		if (v[i].storage == f) {
			m.first = false;
			m.volume = v[i].volume;
		}
		if (span_eq(names_mount_path(v[i].path), names_mount_path(m.path))) {
			return err_at(e, INVALID_PROTOCOL, r ? r->mount_where : NOWHERE,
			              "two storages are mounted at `%s`",
			              arena_quoted(s->a, m.path));
		}
	}
	if (m.first)
		m.volume = volume_name(s, f->name);
	m.sub_path = f->share ? NULL : s->job->user;
	v[s->n_mounts++] = m;
	return 0;
}

/* The mount of extras.results: of the machine's directory, or of one in a storage, where all jobs
 * of a user are side by side. */
static int results_resolve(struct scope *s, struct mount *v, struct err *e)
{
	static const struct storage_fact MACHINE = {
		.name = { RESULTS_CLAIM, sizeof(RESULTS_CLAIM) - 1 }, .share = true
	};
	const struct job_results *results = &s->job->results;
	const struct storage_request r = { .mount_path = results->path,
		                           .mount_where = results->where };
	const struct storage_fact *f = s->set->results == RESULTS_ON_MACHINE ? &MACHINE : NULL;
	for (size_t i = 0; s->set->results == RESULTS_IN_STORAGE && !f && i < s->facts->n_storages;
	     i++)
		if (s->facts->storages[i].is_default && !s->facts->storages[i].read_only)
			f = &s->facts->storages[i];
	if (!f && s->set->results == RESULTS_NOWHERE)
		return err_at(e, INVALID_PROTOCOL, results->where,
		              "this server keeps no results (--keep-results none): write to a "
		              "storage, extras.storages");
	if (!f)
		return err_at(e, INVALID_PROTOCOL, results->where,
		              "%s has no default storage that jobs can write to, where results "
		              "would be: write to a storage, extras.storages, or ask the "
		              "administrator for a default one",
		              s->job->user);
	if (add_mount(s, v, f, &r, e) < 0)
		return -1;
	struct mount *m = &v[s->n_mounts - 1];
	m->results = true;
	if (f != &MACHINE)
		m->sub_path = arena_printf(s->a, "%s%s" RESULTS_CLAIM "/%s/%.*s", m->sub_path ?: "",
		                           m->sub_path ? "/" : "", s->job->user,
		                           (int)s->job->name.n, s->job->name.p);
	return 0;
}

int storages_resolve(struct scope *s, struct err *e)
{
	const struct facts *facts = s->facts;
	bool defaults = s->job->storages_default;
	struct mount *v =
	    ARENA_NEW(s->a, struct mount, 1 + (defaults ? facts->n_storages : s->job->n_storages));
	s->mounts = v;
	for (size_t i = 0; defaults && i < facts->n_storages; i++) {
		if (facts->storages[i].is_default &&
		    add_mount(s, v, &facts->storages[i], NULL, e) < 0)
			return -1;
	}
	for (size_t i = 0; !defaults && i < s->job->n_storages; i++) {
		const struct storage_request *r = &s->job->storages[i];
		size_t k = 0;
		while (k < facts->n_storages && !span_eq(facts->storages[k].name, r->name))
			k++;
		if (k == facts->n_storages)
			return err_at(e, NO_STORAGE, r->where,
			              "storage `%s` does not exist, or is not granted to %s",
			              arena_quoted(s->a, r->name), s->job->user);
		if (add_mount(s, v, &facts->storages[k], r, e) < 0)
			return -1;
	}
	return s->job->results.wanted ? results_resolve(s, v, e) : 0;
}

static bool put_storage_mounts(const struct scope *s, struct variable_output *o)
{
	struct scope in = *s;
	for (size_t i = 0; i < s->n_mounts; i++) {
		in.mount = &s->mounts[i];
		template_write(&in, TEMPLATE_STORAGE_MOUNT, o->s);
	}
	return true;
}

static bool put_storage_volumes(const struct scope *s, struct variable_output *o)
{
	struct scope in = *s;
	for (size_t i = 0; i < s->n_mounts; i++) {
		in.mount = &s->mounts[i];
		if (in.mount->first)
			template_write(&in, TEMPLATE_STORAGE_VOLUME, o->s);
	}
	return true;
}

/* clang-format off */
PUT_STRING(put_mount_volume, s->mount->volume)
PUT_TEXT(put_mount_path, s->mount->path)
PUT_OPTIONAL(put_mount_sub_path, s->mount->sub_path, out_text(o, span_of(s->mount->sub_path)))
PUT_OPTIONAL(put_mount_read_only, s->mount->storage->read_only, str_puts(o->s, "true"))
PUT_TEXT(put_mount_claim, s->mount->storage->name)
PUT_TEXT(put_results_path, s->job->results.path)
PUT_TEXT(put_results_link, s->job->results.link)

static const struct variable STORAGE_ROWS[] = {
	{ "storage.mounts",  VARIABLE_LIST, false, SCOPE_WHOLE_POD, put_storage_mounts,  "OpenPAI",                     "storage-mount.yaml, once for every entry of `extras.storages` that has a name, and for `extras.results`; an empty list means the user's default storages; absent: none. The legacy plugin teamwise_storage counts as such a list." },
	{ "storage.volumes", VARIABLE_LIST, false, SCOPE_WHOLE_POD, put_storage_volumes, "OpenPAI; `storage-twice`",    "storage-volume.yaml, once for every storage; one that is mounted twice has one volume (ours)." },
	{ "mount.volume",    VARIABLE_TEXT, false, SCOPE_MOUNT,     put_mount_volume,    "OpenPAI",                     "NAME-volume; where that is no name for a volume, what remains of it and a hash (ours)." },
	{ "mount.path",      VARIABLE_TEXT, false, SCOPE_MOUNT,     put_mount_path,      "OpenPAI; `mount-path-twice`", "`mountPath`, or /mnt/NAME. One path twice: 400." },
	{ "mount.subPath",   VARIABLE_TEXT, true,  SCOPE_MOUNT,     put_mount_sub_path,  "OpenPAI",                     "The user's name if the storage is not shared, else absent; then, of `extras.results`, rest-lit-results/USER/JOB." },
	{ "mount.claim",     VARIABLE_TEXT, false, SCOPE_MOUNT,     put_mount_claim,     "OpenPAI",                     "The storage's name; of `extras.results` on one machine rest-lit-results, which no storage can have." },
	{ "mount.readOnly",  VARIABLE_BOOL, true,  SCOPE_MOUNT,     put_mount_read_only, "OpenPAI",                     "True if the storage may only be read, else absent." },
	{ "results.path",    VARIABLE_TEXT, false, SCOPE_RESULTS,   put_results_path,    "ours",                        "`extras.results.path`, or results: in the directory of the code, without code in /workspace." },
	{ "results.link",    VARIABLE_TEXT, false, SCOPE_RESULTS,   put_results_link,    "ours",                        "That name for a job without code, whose working directory is that of its image; else empty." },
};
/* clang-format on */

const struct variable_group STORAGE_VARIABLES = VARIABLE_GROUP("Storages", STORAGE_ROWS);
