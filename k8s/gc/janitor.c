/* The janitor's rounds, and what its parts share; see janitor.h. */
#include "k8s/gc/janitor.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/clock.h"
#include "k8s/gc/janitor_parts.h"
#include "k8s/submit/marks.h"
#include "k8s/transport/explain.h"

static const int64_t JITTER = 10; /* a tenth of the time at most */

enum {
	REQUEST_MS = 30000,  /* a store tries for so long */
	SOON = 8,            /* after the first trouble: the interval, divided by this */
	BACKOFF_MS = 600000, /* between rounds, while there is trouble */
	QUERY_MAX = 3 * CONTINUE_MAX + 1024,
	TROUBLE_MAX = 1024,
};

/* ---- requests ------------------------------------------------------------------------------ */

static void send(struct janitor *j, store_callback *done)
{
	j->request.deadline_ms = clock_ms() + REQUEST_MS;
	j->request.done = done;
	j->request.arg = j;
	store_request(j->store, &j->request);
}

void janitor_get(struct janitor *j, const char *name, bool whole, store_callback *done)
{
	(void)snprintf(j->name, sizeof(j->name), "%.*s", HASH, name);
	j->request = (struct store_request){
		.verb = STORE_GET,
		.kind = KIND_FRAMEWORK,
		.name = j->name,
		.whole = whole,
	};
	send(j, done);
}

void janitor_delete(struct janitor *j, enum object_kind kind, const struct suspect *one,
                    struct span version, store_callback *done)
{
	(void)snprintf(j->name, sizeof(j->name), "%s", one->name);
	(void)snprintf(j->uid, sizeof(j->uid), "%s", one->uid);
	(void)snprintf(j->version, sizeof(j->version), "%.*s", (int)version.n, version.p);
	j->request = (struct store_request){
		.verb = STORE_DELETE,
		.kind = kind,
		.name = j->name,
		.uid = j->uid,
		.resource_version = j->version,
	};
	send(j, done);
}

/* Only letters and digits stand for themselves. */
static void put_encoded(struct str *out, const char *text)
{
	for (const char *p = text; *p != '\0'; p++) {
		char c = *p;
		if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
			str_char(out, c);
		else
			str_printf(out, "%%%02X", (unsigned)(unsigned char)c);
	}
}

static void put_query(struct str *out, const struct janitor *j, const struct part *p,
                      const struct selection *what)
{
	STR_AUTO selector = STR_INIT(QUERY_MAX);
	str_printf(&selector, "rest-lit/instance=%s,%s", j->instance, what->key);
	if (what->value != NULL)
		str_printf(&selector, "=%s", what->value);
	str_puts(out, "labelSelector=");
	put_encoded(out, str_c(&selector));
	if (what->limit == 0)
		str_puts(out, "&resourceVersion=0");
	else
		str_printf(out, "&limit=%d", what->limit);
	if (p->token.n > 0) {
		str_puts(out, "&continue=");
		put_encoded(out, str_c(&p->token));
	}
}

void janitor_list(struct janitor *j, struct part *p, const struct selection *what,
                  store_callback *done)
{
	p->pages++;
	str_done(&j->query);
	j->query = STR_INIT(QUERY_MAX);
	put_query(&j->query, j, p, what);
	j->request = (struct store_request){
		.verb = STORE_LIST,
		.kind = what->kind,
		.query = str_c(&j->query),
	};
	send(j, done);
}

/* ---- trouble ------------------------------------------------------------------------------- */

/* Keep what was met first: what follows comes of it, mostly. */
static void complain(struct janitor *j, const char *text)
{
	if (j->trouble.n > 0)
		return;
	str_done(&j->trouble);
	j->trouble = STR_INIT(TROUBLE_MAX);
	str_puts(&j->trouble, text);
}

bool janitor_trouble(struct janitor *j, const struct store_reply *reply)
{
	ERR_AUTO e = { 0 };
	if (reply->outcome == STORE_REFUSED) {
		explain(&e, &j->request, reply);
		complain(j, err_msg(&e));
		return true;
	}
	STR_AUTO text = STR_INIT(TROUBLE_MAX);
	str_puts(&text, "the API server could not be reached in time: ");
	str_span(&text, reply->message);
	complain(j, str_c(&text));
	return false;
}

int janitor_read(struct janitor *j, struct part *p, const struct store_reply *reply,
                 item_callback *each)
{
	str_done(&p->token);
	p->token = STR_INIT(CONTINUE_MAX);
	j->date_s = reply->date_s;
	if (items_each(reply->body, each, j, &p->token) == 0)
		return 0;
	complain(j, "the API server answered with something that is no list");
	return -1;
}

/* ---- suspects ------------------------------------------------------------------------------ */

struct suspect *janitor_next(const struct janitor *j, struct part *p)
{
	int64_t now = clock_ms();
	while (p->left > 0 && p->looks < LOOKS_MAX && p->removed < REMOVALS_MAX) {
		p->left--;
		if (p->at >= p->suspects.n)
			p->at = 0;
		struct suspect *one = &p->suspects.v[p->at];
		if (one->old || now - one->since_ms >= j->age_ms) {
			p->looks++;
			return one;
		}
		p->at++;
	}
	return NULL;
}

bool janitor_is_old(const struct janitor *j, const json_t *object)
{
	int64_t made_s = mark_made_s(object);
	return made_s > 0 && j->date_s - made_s >= 2 * j->age_ms / 1000; /* no clock: 0 */
}

void janitor_forget(struct part *p)
{
	suspect_forget(&p->suspects, &p->suspects.v[p->at]);
}

/* ---- rounds -------------------------------------------------------------------------------- */

static int64_t with_jitter(int64_t ms)
{
	uint8_t noise = 0;
	ssize_t n = getrandom(&noise, sizeof(noise), GRND_NONBLOCK);
	(void)n; /* without noise two janitors meet more often, and do no harm */
	return ms + ms * noise / (JITTER * UINT8_MAX);
}

static int64_t pause_ms(const struct janitor *j)
{
	int64_t most = j->interval_ms > BACKOFF_MS ? j->interval_ms : BACKOFF_MS;
	int64_t ms = j->failed ? j->interval_ms / SOON : j->interval_ms;
	for (unsigned i = 1; i < j->failed && ms < most; i++)
		ms *= 2;
	if (j->failed == 0 &&
	    (j->frameworks.removed == REMOVALS_MAX || j->classes.removed == REMOVALS_MAX))
		ms /= 4;
	return with_jitter(ms < most ? ms : most);
}

void janitor_end_round(struct janitor *j)
{
	struct janitor_report report = {
		.frameworks = j->frameworks.removed,
		.classes = j->classes.removed,
		.trouble = j->trouble.n > 0 ? str_c(&j->trouble) : NULL,
	};
	j->failed = report.trouble ? j->failed + 1 : 0;
	j->next_ms = clock_ms() + pause_ms(j);
	j->busy = false;
	j->report(j->arg, &report);
}

static void begin_part(struct part *p)
{
	p->looks = p->removed = p->pages = 0;
	p->left = p->suspects.n;
}

void janitor_turn(struct janitor *j)
{
	if (j->busy || clock_ms() < j->next_ms)
		return;
	j->busy = true;
	str_done(&j->trouble);
	begin_part(&j->frameworks);
	begin_part(&j->classes);
	janitor_sweep_frameworks(j);
}

int janitor_timeout_ms(const struct janitor *j)
{
	int64_t ms = j->next_ms - clock_ms();
	if (j->busy)
		return -1;
	return ms < 0 ? 0 : ms > INT32_MAX ? INT32_MAX : (int)ms;
}

struct janitor *janitor_new(struct store *s, const struct janitor_options *o,
                            janitor_callback *report, void *arg)
{
	struct janitor *j = xcalloc(1, sizeof(*j));
	j->store = s;
	j->instance = xstrdup(o->instance);
	j->namespace_name = xstrdup(o->namespace_name);
	j->home = (struct home){ j->instance, j->namespace_name };
	j->interval_ms = o->interval_ms;
	j->age_ms = o->age_ms;
	j->priority_classes = o->priority_classes;
	j->report = report;
	j->arg = arg;
	return j;
}

static void part_done(struct part *p)
{
	suspects_done(&p->suspects);
	str_done(&p->token);
}

void janitor_free(struct janitor *j)
{
	if (j == NULL)
		return;
	part_done(&j->frameworks);
	part_done(&j->classes);
	suspects_done(&j->page);
	str_done(&j->trouble);
	str_done(&j->query);
	free(j->namespace_name);
	free(j->instance);
	free(j);
}
