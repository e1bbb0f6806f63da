#include "server/jobs/history.h"

#include "base/clock.h"
#include "k8s/transport/store.h"
#include "server/accounts/account.h"
#include "server/cluster/history_keep.h"
#include "server/http/answer.h"
#include "server/http/loop.h"

/* An attempt that is asked for; in the request's arena. */
struct asked {
	struct request *r;
	const struct job_entry *job;
	int64_t attempt;
	history_came *came;
};

static void got(void *arg, const struct store_reply *reply)
{
	const struct asked *k = arg;
	struct span status = { NULL, 0 };
	bool silent = reply->outcome == STORE_BUSY || reply->outcome == STORE_AMBIGUOUS ||
	              reply->outcome == STORE_FULL;
	if (silent) {
		answer_refuse(k->r, UNAVAILABLE, "earlier attempts cannot be read at the moment");
		return;
	}
	if (reply->outcome == STORE_OK)
		(void)history_read(reply->body, k->job->uid, k->attempt, &k->r->arena, &status);
	k->came(k->r, k->job, status);
}

/* One by one, there may be many: whoever asks for more than are kept, asks nobody. */
static bool may_be_kept(const struct request *r, const struct job_entry *job, int64_t attempt)
{
	return attempt >= 0 && attempt < job->attempt && !job->legacy &&
	       attempt >= job->attempt - r->loop->server->options->history;
}

void history_get(struct request *r, const struct job_entry *job, int64_t attempt,
                 history_came *came)
{
	const struct loop *l = r->loop;
	if (!may_be_kept(r, job, attempt)) {
		came(r, job, (struct span){ NULL, 0 });
		return;
	}
	if (!l->store) {
		answer_refuse(r, UNAVAILABLE, "this server is shutting down");
		return;
	}
	struct asked *k = ARENA_NEW(&r->arena, struct asked, 1);
	*k = (struct asked){ r, job, attempt, came };
	request_wait(r);
	store_request(l->store,
	              &(struct store_request){
			  .verb = STORE_GET,
			  .kind = KIND_CONFIGMAP,
			  .name = history_name(&r->arena, job->name, attempt),
			  .whole = true,
			  .user = r->principal ? r->principal->name : NULL,
			  .deadline_ms = clock_ms() + l->server->options->deadline_s * 1000,
			  .done = got,
			  .arg = k,
		      });
}
