/* Back-off and recovery; see recovery.h. */
#include "k8s/transport/recovery.h"

#include <sys/random.h>
#include <sys/types.h>

enum { BACKOFF_MS = 100, BACKOFF_MAX_MS = 1000, SETTLING_MS = 1000, LOADING_MS = 3000 };

int64_t backoff_ms(unsigned tries)
{
	int64_t ms = tries < 4 ? (int64_t)BACKOFF_MS << tries : BACKOFF_MAX_MS;
	uint16_t noise = 0;
	ssize_t n = getrandom(&noise, sizeof(noise), GRND_NONBLOCK);
	(void)n; /* without noise it is a back-off all the same */
	return ms - ms / 4 + noise % (ms / 2);
}

void recovery_init(struct recovery *r, size_t most)
{
	*r = (struct recovery){
		.at_once = most,
		.most = most,
		.connected_ms = INT64_MIN / 2,
		.back_ms = INT64_MIN / 2,
	};
}

static size_t within_bounds(const struct recovery *r, size_t n)
{
	size_t enough = n > PROBES ? n : PROBES;
	return enough < r->most ? enough : r->most;
}

/* Many fail at once: that counts once. */
static void back_off(struct recovery *r, size_t at_once, int64_t now_ms)
{
	if (now_ms < r->until_ms)
		return;
	r->at_once = within_bounds(r, at_once);
	r->until_ms = now_ms + backoff_ms(r->pauses++);
}

void recovery_note(struct recovery *r, enum weather weather, bool connected, int64_t now_ms)
{
	if (connected)
		r->connected_ms = now_ms;
	switch (weather) {
	case WEATHER_FINE:
		if (r->away)
			r->back_ms = now_ms;
		r->away = false;
		r->pauses = 0;
		r->at_once = r->at_once < r->most / 2 ? r->at_once * 2 : r->most;
		break;
	case WEATHER_BUSY:
		back_off(r, r->at_once / 2, now_ms);
		break;
	case WEATHER_AWAY:
		r->away = true;
		back_off(r, PROBES, now_ms);
		break;
	case WEATHER_UNKNOWN:
		break;
	}
}

bool recovery_is_settling(const struct recovery *r, int64_t now_ms)
{
	return now_ms - r->connected_ms < SETTLING_MS || now_ms - r->back_ms < LOADING_MS;
}
