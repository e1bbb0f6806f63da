/* The users of the socket of accounts: the names of the accounts that its clients' processes
 * have. */
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/posix/clock.h"
#include "base/posix/fd.h"
#include "server/auth/auth_internal.h"
#include "translate/job/names.h"

enum { NAMES_MAX = 1024, NAME_MS = 300000, ENTRY_MIN = 1024, ENTRY_MAX = 1 << 20 };
enum { OVERFLOW_UID = 65534 /* the kernel's default */ };

struct peers {
	struct ttl_cache *names; /* of accounts, by uid */
	uid_t overflow;          /* as the kernel shows an account of another user namespace */
};

struct peers *peers_new(void)
{
	struct peers *p = xcalloc(1, sizeof(*p));
	const struct ttl_cache_limits limits = { NAMES_MAX, (size_t)NAMES_MAX * ACCOUNT_NAME };
	char text[16] = "";
	int64_t uid = OVERFLOW_UID;
	FD_AUTO fd = open("/proc/sys/kernel/overflowuid", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text));
	if (n > 0)
		(void)parse_i64(span_trim((struct span){ text, (size_t)n }), 0, UINT32_MAX,
		                &uid); /* else the default */
	p->overflow = (uid_t)uid;
	p->names = ttl_cache_new(limits, free);
	return p;
}

void peers_free(struct peers *p)
{
	if (!p)
		return;
	ttl_cache_free(p->names);
	free(p);
}

/* Asks the name service, which can block for long.  NULL and *e. */
static char *peer_look_up(uid_t uid, struct err *e)
{
	struct passwd entry;
	struct passwd *found = NULL;
	char *name = NULL;
	int failed = ERANGE;
	for (size_t n = ENTRY_MIN; failed == ERANGE && n <= ENTRY_MAX; n *= 4) {
		FREE_AUTO char *room = xmalloc(n);
		failed = getpwuid_r(uid, &entry, room, n, &found);
		if (found)
			name = xstrdup(found->pw_name);
	}
	/* As getpwuid_r(3) lists, "not found" is also told by these. */
	bool absent = failed == 0 || failed == ENOENT || failed == ESRCH;
	if (!name && absent)
		(void)err_set(e, FORBIDDEN, "this machine has no name for the account %u", uid);
	else if (!name)
		(void)err_set(e, UNAVAILABLE,
		              "the name of the account %u cannot be looked up: %s; try again", uid,
		              strerrordesc_np(failed));
	else if (!user_name_ok(span_of(name)))
		(void)err_set(e, FORBIDDEN,
		              "the name of the account %u cannot be that of a user: letters, "
		              "digits, -, _ and ., at most 63, a letter or digit at both ends",
		              uid);
	if (e->http)
		free(TAKE(name));
	return name;
}

const char *peer_user(struct peers *p, uint32_t account, struct err *e)
{
	const uid_t uid = account - 1;
	const struct span key = { (const char *)&uid, sizeof(uid) };
	const char *why =
	    account == 0         ? "the kernel does not tell whose process this is"
	    : uid == geteuid()   ? "the account of the server may not use its socket, because the "
				   "tasks of jobs have it, too; send a token to the port"
	    : uid == p->overflow ? "the account of this process does not exist outside of its user "
				   "namespace"
				 : NULL;
	if (why) {
		(void)err_set(e, FORBIDDEN, "%s", why);
		return NULL;
	}
	char *name = ttl_cache_get(p->names, key, clock_ms(), NULL);
	if (name)
		return name;
	name = peer_look_up(uid, e);
	if (name)
		ttl_cache_put(p->names, key, name,
		              (struct ttl_cache_terms){ clock_ms() + NAME_MS, strlen(name) });
	return name;
}
