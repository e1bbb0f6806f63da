#include "k8s/cache/reflect.h"

#include <sys/random.h>

#include "base/str.h"

enum {
	TOKEN_MAX = 8192,
	DOUBLINGS_MAX = 6,
	AWAY_MAX = 4, /* failures that count while it cannot be reached: to try costs next to
	               * nothing, and what clients see is old meanwhile */
};

void reflect_init(struct reflect *s, size_t page)
{
	*s = (struct reflect){ .more = STR_INIT(TOKEN_MAX), .page = page, .limit = page };
}

void reflect_done(struct reflect *s)
{
	str_done(&s->more);
}

enum reflect_ask reflect_ask(const struct reflect *s)
{
	if (s->version[0])
		return ASK_WATCH;
	return s->lists_only ? ASK_LIST : ASK_STREAM;
}

/* The token is base64 for all that is known; but it is the server's. */
static void put_encoded(struct str *out, struct span text)
{
	for (size_t i = 0; i < text.n; i++) {
		char c = text.p[i];
		if (is_alnum(c) || c == '-' || c == '_' || c == '.')
			str_char(out, c);
		else
			str_printf(out, "%%%02X", (unsigned)(unsigned char)c);
	}
}

void reflect_query(const struct reflect *s, const char *selector, unsigned watch_s, struct str *out)
{
	enum reflect_ask ask = reflect_ask(s);
	if (ask == ASK_LIST)
		str_printf(out, "limit=%zu", s->limit);
	else
		str_printf(out, "watch=true&allowWatchBookmarks=true&timeoutSeconds=%u", watch_s);
	if (ask == ASK_STREAM)
		str_puts(out, "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan");
	if (ask == ASK_WATCH)
		str_printf(out, "&resourceVersion=%s", s->version);
	if (ask == ASK_LIST && s->more.n > 0) {
		str_puts(out, "&continue=");
		put_encoded(out, str_view(&s->more));
	}
	if (selector)
		str_printf(out, "&%s", selector);
}

static void set_more(struct reflect *s, struct span token)
{
	str_done(&s->more);
	s->more = STR_INIT(TOKEN_MAX);
	str_span(&s->more, token);
}

static void begin_anew(struct reflect *s)
{
	s->version[0] = '\0';
	s->limit = s->page;
	set_more(s, (struct span){ "", 0 });
}

void reflect_heard(struct reflect *s, const char *version)
{
	if (version[0])
		memcpy(s->version, version, strlen(version) + 1);
	s->failures = 0;
}

bool reflect_page(struct reflect *s, const struct list_page *page)
{
	set_more(s, page->more);
	s->failures = 0;
	if (page->more.n > 0)
		return false;
	begin_anew(s);
	reflect_heard(s, page->version);
	return true;
}

void reflect_lasts(struct reflect *s)
{
	s->lists = 0;
}

enum reflect_fault reflect_status(enum reflect_ask asked, int64_t status)
{
	if (status == 410)
		return FAULT_EXPIRED;
	if (asked == ASK_STREAM && (status == 422 || status == 400))
		return FAULT_NO_STREAM;
	if (status == 413)
		return FAULT_TOO_LARGE;
	if (status == 401 || status == 403 || status == 429 || status == 502 || status == 503)
		return FAULT_LATER;
	return FAULT_REFUSED;
}

int64_t reflect_pause_ms(unsigned failures, int retry_after_s)
{
	unsigned doublings = failures > 0 ? failures - 1 : 0;
	int64_t ms = doublings < DOUBLINGS_MAX ? (int64_t)REFLECT_PAUSE_MS << doublings
	                                       : REFLECT_PAUSE_MAX_MS;
	int64_t least = (int64_t)retry_after_s * 1000;
	uint16_t noise = 0;
	ssize_t n = getrandom(&noise, sizeof(noise), GRND_NONBLOCK);
	(void)n; /* without noise it is a pause all the same */
	if (ms > REFLECT_PAUSE_MAX_MS * 4 / 5)
		ms = REFLECT_PAUSE_MAX_MS * 4 / 5; /* with the noise, that is as long as they get */
	ms += (int64_t)noise % (ms / 2) - ms / 4;
	if (least > REFLECT_PAUSE_MAX_MS)
		least = REFLECT_PAUSE_MAX_MS;
	return ms > least ? ms : least;
}

/* Lists cost much.  Where each comes to its end, and no watch after it lasts, they are as far from
 * each other as if they had failed. */
static void list_anew(struct reflect *s)
{
	begin_anew(s);
	if (s->failures < s->lists)
		s->failures = s->lists;
	if (s->lists < UINT32_MAX)
		s->lists++;
}

int64_t reflect_end(struct reflect *s, enum reflect_fault fault, int retry_after_s)
{
	bool at_once = false;
	switch (fault) {
	case FAULT_NONE:
		s->failures = 0;
		return 0;
	case FAULT_NO_STREAM:
		s->lists_only = true;
		return 0;
	case FAULT_EXPIRED:
		/* It has answered: what failed before is over. */
		at_once = s->lists == 0;
		s->failures = 0;
		list_anew(s);
		break;
	case FAULT_AWAY:
		if (s->failures >= AWAY_MAX)
			s->failures = AWAY_MAX - 1;
		break;
	case FAULT_TOO_LARGE:
		at_once = s->limit > 1;
		s->limit = at_once ? s->limit / 2 : 1;
		if (at_once)
			return 0;
		break;
	case FAULT_REFUSED:
		list_anew(s);
		break;
	case FAULT_LATER:
	case FAULT_MAX:
		break;
	}
	if (s->failures < UINT32_MAX)
		s->failures++;
	return at_once ? 0 : reflect_pause_ms(s->failures, retry_after_s);
}
