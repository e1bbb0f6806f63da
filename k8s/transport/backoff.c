/* Pauses after failures of an API server. */
#include "k8s/transport/backoff.h"

#include "base/enc.h"

enum { BACKOFF_MS = 100, BACKOFF_MAX_MS = 1000, SETTLING_MS = 1000, LOADING_MS = 3000 };

int64_t backoff_ms(unsigned tries)
{
	int64_t ms = tries < 4 ? (int64_t)BACKOFF_MS << tries : BACKOFF_MAX_MS;
	uint16_t noise;
	random_bytes(&noise, sizeof(noise));
	return ms - ms / 4 + noise % (ms / 2);
}

/* Failures during a pause count once. */
static void backoff_grow(struct backoff *b, size_t at_once, int64_t now_ms)
{
	if (now_ms < b->until_ms)
		return;
	if (at_once < BACKOFF_PROBES)
		at_once = BACKOFF_PROBES;
	b->at_once = at_once < b->most ? at_once : b->most;
	b->until_ms = now_ms + backoff_ms(b->pauses++);
}

void backoff_note(struct backoff *b, enum api_health health, bool connected, int64_t now_ms)
{
	if (connected)
		b->connected_ms = now_ms;
	switch (health) {
	case API_ANSWERS:
		if (b->away)
			b->back_ms = now_ms;
		b->away = false;
		b->pauses = 0;
		b->at_once = b->at_once < b->most / 2 ? b->at_once * 2 : b->most;
		break;
	case API_BUSY:
		backoff_grow(b, b->at_once / 2, now_ms);
		break;
	case API_AWAY:
		b->away = true;
		backoff_grow(b, BACKOFF_PROBES, now_ms);
		break;
	case API_UNKNOWN:
		break;
	}
}

/* Rules are loaded after a start, and a new connection can be to another API server. */
bool backoff_is_settling(const struct backoff *b, int64_t now_ms)
{
	return now_ms - b->connected_ms < SETTLING_MS || now_ms - b->back_ms < LOADING_MS;
}
