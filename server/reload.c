#include "server/reload.h"

#include <unistd.h>

#include "base/clock.h"
#include "k8s/transport/store.h"
#include "server/accounts/account.h"
#include "server/auth/token.h"
#include "server/cluster/scheduler.h"
#include "server/http/tls.h"
#include "server/log.h"

enum { PATIENCE_MS = 5000, TEXT_MAX = 3000 };

struct keyring *reload_keys(const struct options *o, const char **file, struct err *e)
{
	const struct keyring_options k = {
		.jwt_secret_file = o->jwt_secret_file,
		.issuers_file = o->issuers,
		.stored = strcmp(o->token_check, "stored") == 0,
	};
	struct keyring *keys = keyring_new(&k, file, e);
	if (!keys || !keyring_service_accounts(keys) || !o->standalone[0])
		return keys;
	keyring_free(keys);
	(void)err_set(e, 400, NULL,
	              "%s: tokens of service accounts are checked by an API server: not with "
	              "--standalone",
	              o->issuers);
	return NULL;
}

/* "FILE:LINE:COLUMN: what is wrong" */
static void say_kept(const char *message, const char *file, const struct err *e)
{
	STR_AUTO text = STR_INIT(TEXT_MAX);
	for (size_t i = 0; i < e->notes.n; i++) {
		const struct note *n = &e->notes.v[i];
		str_puts(&text, i ? "; " : "");
		if (file && n->line)
			str_printf(&text, "%s:%u:%u: ", file, n->line, n->column);
		note_text(&text, n);
	}
	log_event(LOG_ERROR, message, "why", str_c(&text));
}

/* Until each loop has begun a round after the change: then none uses what was there before. */
static bool all_have_seen(struct loop *loops, size_t n, unsigned generation)
{
	int64_t end = clock_ms() + PATIENCE_MS;
	for (size_t i = 0; i < n; i++)
		loop_wake(&loops[i]);
	for (size_t i = 0; i < n; i++)
		while (atomic_load(&loops[i].generation) != generation) {
			if (clock_ms() > end)
				return false;
			(void)usleep(1000);
		}
	return true;
}

static void swap_keys(struct server *s, struct loop *loops, size_t n)
{
	ERR_AUTO e = { 0 };
	const char *file = NULL;
	if (!atomic_load(&s->keyring))
		return;
	struct keyring *keys = reload_keys(s->options, &file, &e);
	if (!keys) {
		say_kept("SIGHUP: the keys of tokens stay as they were", file, &e);
		return;
	}
	struct keyring *old = atomic_exchange(&s->keyring, keys);
	unsigned generation = atomic_fetch_add(&s->generation, 1) + 1;
	if (all_have_seen(loops, n, generation))
		keyring_free(old);
	else /* better a few kilobytes less than keys that are gone while they are used */
		log_event(LOG_ERROR, "SIGHUP: a loop does not go on; the old keys are not freed",
		          NULL, NULL);
	log_event(LOG_INFO, "SIGHUP: the keys of tokens were read again", NULL, NULL);
}

static void read_accounts(struct server *s)
{
	ERR_AUTO e = { 0 };
	if (!s->options->facts[0])
		return;
	if (account_source_reload(s->accounts, &e) < 0)
		say_kept("SIGHUP: users and storages stay as they were", s->options->facts, &e);
	else
		log_event(LOG_INFO, "SIGHUP: users and storages were read again", "file",
		          s->options->facts);
}

static void read_scheduler(struct server *s)
{
	ERR_AUTO e = { 0 };
	const char *file = s->options->hived_config;
	if (!s->scheduler)
		return;
	if (scheduler_reload(s->scheduler, &e) < 0)
		say_kept("SIGHUP: HiveD's configuration stays as it was", file, &e);
	else
		log_event(LOG_INFO, "SIGHUP: HiveD's configuration was read again", "file", file);
}

static void read_certificate(struct server *s, bool force)
{
	ERR_AUTO e = { 0 };
	if (!s->tls)
		return;
	int new = tls_refresh(s->tls, force, &e);
	if (new < 0)
		say_kept("the certificate stays as it was", NULL, &e);
	else if (new > 0)
		log_event(LOG_INFO, "the certificate was read again", "file", s->options->tls_cert);
	if (new > 0 && tls_warning(s->tls))
		log_event(LOG_WARN, "the certificate is not as it should be", "why",
		          tls_warning(s->tls));
}

void reload_all(struct server *s, struct loop *loops, size_t n)
{
	swap_keys(s, loops, n);
	read_accounts(s);
	read_scheduler(s);
	read_certificate(s, true);
}

void reload_changed(struct server *s)
{
	read_certificate(s, false);
}
