/*
 * Any text as an object of an OpenPAI cluster: a user, a group, a claim, a volume, as it is or as
 * what a Secret holds.  Whatever comes, what is read keeps its bounds, every name is fit for
 * what it is used for, and what is shown is JSON and shows nothing that is secret.
 */
#include <jansson.h>
#include <stdlib.h>

#include "base/enc.h"
#include "jobs/store/paths.h"
#include "server/accounts/account.h"
#include "tests/fuzz/fuzz.h"
#include "translate/job/names.h"

static const char NAME[] = "alice";

/* A Secret about NAME with one member more. */
static void wrap(struct str *out, const char *about, const char *member, struct span value)
{
	str_printf(out, "{\"data\":{\"%s\":\"", about);
	str_base64(out, span_of(NAME));
	str_printf(out, "\",\"%s\":\"", member);
	str_base64(out, value);
	str_puts(out, "\"}}");
}

static void check_json(struct span text)
{
	json_error_t e;
	json_auto_t *v = json_loadb(text.p, text.n, JSON_REJECT_DUPLICATES, &e);
	assert(v);
}

/* The keys of what is shown are ours, but for the names of bounded clusters. */
static void check_shown(const struct node *extension)
{
	struct account a = { .extension = extension };
	STR_AUTO out = STR_INIT(64u << 20);
	account_extension(&a, &out);
	check_json(str_view(&out));
	json_auto_t *v = json_loadb(out.p, out.n, 0, NULL);
	const json_t *ssh = json_object_get(v, "jobSSH");
	assert(!json_object_get(ssh, "key") && json_object_size(ssh) <= 1);
	assert(json_object_size(v) <= 3 && !json_object_get(v, "githubPAT"));
}

static void user(struct span body)
{
	ARENA_AUTO a = { 0 };
	struct pai_user u = { 0 };
	const char *why;
	struct span hash;
	(void)pai_password_read(body, span_of(NAME), &a, &hash, &why);
	if (pai_user_read(body, span_of(NAME), &a, &u, &why) != PAI_READ)
		return;
	assert(u.groups.n <= PAI_GROUPS_MAX);
	for (size_t i = 0; i < u.groups.n; i++) {
		char hex[2 * PAI_NAME_MAX + 1];
		pai_secret_name(hex, u.groups.v[i]);
		assert(segment_ok(hex) && strlen(hex) == 2 * u.groups.v[i].n);
	}
	if (u.extension)
		check_shown(u.extension);
}

static void group(struct span body)
{
	ARENA_AUTO a = { 0 };
	struct pai_group g;
	const char *why;
	if (pai_group_read(body, span_of(NAME), &a, &g, &why) != PAI_READ)
		return;
	assert(g.virtual_clusters.n <= PAI_GRANTS_MAX && g.storages.n <= PAI_GRANTS_MAX);
	for (size_t i = 0; i < g.virtual_clusters.n; i++)
		assert(names_label_value_ok(g.virtual_clusters.v[i]));
	for (size_t i = 0; i < g.storages.n; i++)
		assert(segment_ok(arena_dup(&a, g.storages.v[i])));
}

static void storage(struct span body)
{
	ARENA_AUTO a = { 0 };
	struct pai_storage s;
	const char *why;
	if (pai_claim_read(body, &a, &s, &why) == PAI_READ)
		assert(segment_ok(s.volume));
	s = (struct pai_storage){ .data = SPAN("{}"), .mount_options = SPAN("") };
	if (pai_volume_read(body, &a, &s, &why) != PAI_READ)
		return;
	check_json(s.data);
	if (s.mount_options.n)
		check_json(s.mount_options);
}

FUZZ(body)
{
	STR_AUTO secret = STR_INIT(64u << 20);
	user(body);
	group(body);
	storage(body);
	wrap(&secret, "username", "grouplist", body);
	user(str_view(&secret));
	secret.n = 0;
	wrap(&secret, "username", "extension", body);
	user(str_view(&secret));
	secret.n = 0;
	wrap(&secret, "groupname", "extension", body);
	group(str_view(&secret));
}
