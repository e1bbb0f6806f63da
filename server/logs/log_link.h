#pragma once
/*
 * Links to logs, which are good without a token for a short while: what pages open that send none.
 * Each is good for one log of one pod, of the user it was made for; whoever changes anything about
 * it has no link.  Signed with a key made from the secret of tokens for this alone, so that no
 * token is a link and no link a token.  Pure.
 */
#include "base/arena.h"
#include "base/err.h"

enum { LOG_LINK_KEY = 32 };

struct log_link {
	/* What stands in its path, decoded: no NUL in it. */
	struct span job, attempt, role, index, retry, file;
	/* What stands in its token. */
	const char *framework, *framework_uid, *pod_uid, *user;
	int64_t expires_s; /* since 1970 */
	bool tail;         /* of its end only */
};

/* What they are signed with, and what time it is. */
struct log_signing {
	unsigned char key[LOG_LINK_KEY];
	int64_t now_s; /* since 1970 */
};

/* Append "/rest-server/api/v2/jobs/...?token=...". */
void log_link_write(struct str *out, const struct log_signing *by, const struct log_link *l);
/* Of what the path says, already in *l, and a token: fill in the rest of *l, in the arena.  -1 and
 * *e: 403 ForbiddenUserError. */
int log_link_read(struct log_link *l, struct span token, const struct log_signing *by,
                  struct arena *a, struct err *e);
