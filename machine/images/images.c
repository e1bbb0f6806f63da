#include "machine/images/images.h"

#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/hash.h"
#include "machine/images/images_internal.h"
#include "machine/words.h"
#include "k8s/transport/reply.h"

enum {
	IMAGES_SWEEP_MS = 5,
	IMAGES_TICK_MS = 1000,
	IMAGES_AUTH_MAX = 1 << 20,
	IMAGES_CONFIG_MAX = 4 << 20,
	IMAGES_ENV_MAX = 1000
};

struct images_use {
	struct images_use *next;
	struct images_item *item;
	bool notify;
	void (*changed)(void *arg);
	void *arg;
};

int images_probe(struct err *e)
{
	ARENA_AUTO a = { 0 };
	const char *missing = program_find("skopeo", &a) == NULL  ? "skopeo"
	                      : program_find("umoci", &a) == NULL ? "umoci"
	                                                             : NULL;
	if (missing == NULL)
		return 0;
	return err_set(e, UNAVAILABLE,
	               "images cannot be pulled: %s is not in PATH: apt install skopeo umoci",
	               missing);
}

struct images *images_new(const char *dir, uint64_t bytes, struct err *e)
{
	struct images_store store;
	if (images_probe(e) != 0 || images_store_open(&store, dir, bytes, e) != 0)
		return NULL;
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	if (epoll < 0) {
		(void)err_set(e, UNKNOWN_ERROR, "epoll: %s", strerrordesc_np(errno));
		images_store_close(&store);
		return NULL;
	}
	struct images *m = xcalloc(1, sizeof(*m));
	m->store = store;
	m->epoll = epoll;
	m->at_once = 2;
	m->pull_s = 3600;
	m->queue = 1000;
	return m;
}

int images_fd(const struct images *m)
{
	return m->epoll;
}

static bool item_runs(const struct images_item *p)
{
	return p->child.pidfd >= 0;
}

static bool item_queued(const struct images_item *p)
{
	return p->status.state == IMAGES_WAITING && !item_runs(p);
}

int images_timeout_ms(const struct images *m)
{
	int ms = m->notify ? 0 : m->store.sweeping ? IMAGES_SWEEP_MS : -1;
	for (const struct images_item *p = m->items; p && ms < 0; p = p->next)
		ms = item_runs(p) ? IMAGES_TICK_MS : -1;
	return ms;
}

/* ---- images that somebody wants ---- */

void images_say(struct images_item *p, enum images_state state, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	(void)vsnprintf(p->text, sizeof(p->text), fmt, args);
	va_end(args);
	p->status = (struct images_status){ .state = state, .text = p->text };
}

void images_config_read(struct span text, struct arena *a, struct images_status *out)
{
	JSON_AUTO *object = reply_parse(text);
	const json_t *config = json_object_get(object, "config");
	const json_t *list = json_object_get(config, "Env");
	const char *dir = reply_text(config, "WorkingDir");
	struct words env = { .a = a };
	for (size_t i = 0; i < json_array_size(list) && env.n < IMAGES_ENV_MAX; i++) {
		const char *word = json_string_value(json_array_get(list, i));
		if (word && strchr(word, '='))
			words_add(&env, arena_dup(a, span_of(word)));
	}
	out->env = env.v;
	out->directory = *dir == '/' ? arena_dup(a, span_of(dir)) : NULL;
}

bool images_item_take(struct images_item *p)
{
	const struct images_store *s = &p->m->store;
	char hex[STORE_HEX];
	p->lock = images_store_take(s, p->key, hex);
	if (p->lock < 0)
		return false;
	images_say(p, IMAGES_READY, "%s", "");
	p->status.digest = arena_printf(&p->a, "sha256:%s", hex);
	p->status.rootfs = arena_printf(&p->a, "%s/unpacked/%s/rootfs", s->path, hex);
	STR_AUTO config = STR_INIT(IMAGES_CONFIG_MAX);
	const char *path = arena_printf(&p->a, "unpacked/%s/config.json", hex);
	(void)fd_read_str(s->dir, path, &config);
	images_config_read(str_view(&config), &p->a, &p->status);
	return true;
}

static void item_notify(const struct images_item *p)
{
	for (struct images_use *u = p->m->uses; u; u = u->next)
		u->notify |= u->item == p;
	p->m->notify = true;
}

static void item_free(struct images_item *p)
{
	struct images_item **at = &p->m->items;
	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	if (item_runs(p))
		child_stop(&p->child);
	fd_cleanup(&p->dir);
	fd_cleanup(&p->lock);
	arena_wipe(&p->a);
	free(p);
}

/* Its pull has ended, or could not begin. */
static void item_settled(struct images_item *p)
{
	fd_cleanup(&p->dir);
	p->dir = -1;
	p->m->store.sweeping = true;
	item_notify(p);
	if (p->uses == 0)
		item_free(p);
}

static void images_begin(struct images *m)
{
	unsigned running = 0;
	for (const struct images_item *p = m->items; p; p = p->next)
		running += item_runs(p);
	for (struct images_item *p = m->items; p && running < m->at_once; p = p->next) {
		if (!item_queued(p))
			continue;
		images_pull_start(p);
		running += item_runs(p);
		if (item_runs(p))
			item_notify(p);
		else
			item_settled(p);
	}
}

static void images_look(struct images *m)
{
	int64_t now = clock_ms();
	if (now < m->look_ms)
		return;
	m->look_ms = now + IMAGES_TICK_MS;
	for (struct images_item *p = m->items; p; p = p->next) {
		if (!item_runs(p))
			continue;
		images_pull_look(p, now);
		item_notify(p);
	}
}

/* The callbacks may release and request images. */
static void images_tell(struct images *m)
{
	while (m->notify) {
		m->notify = false;
		for (struct images_use *u = m->uses; u; u = u->next) {
			if (!u->notify)
				continue;
			u->notify = false;
			m->notify = true;
			if (u->changed)
				u->changed(u->arg);
			break;
		}
	}
}

void images_run_once(struct images *m)
{
	enum { EVENTS = 16 };
	struct epoll_event events[EVENTS];
	int n = epoll_wait(m->epoll, events, EVENTS, 0);
	for (int i = 0; i < n; i++) {
		struct images_item *p = events[i].data.ptr;
		images_pull_ended(p);
		item_settled(p);
	}
	images_look(m);
	images_begin(m);
	if (m->store.sweeping)
		images_store_sweep(&m->store);
	images_tell(m);
}

/* ---- requests ---- */

void images_key(char key[static STORE_HEX], const struct image *i, struct span auth)
{
	STR_AUTO text = STR_SECRET(IMAGES_AUTH_MAX + 4096);
	str_printf(&text, "%s/%s:%s\n", i->host, i->repository, i->reference);
	str_span(&text, auth);
	sha256_hex(key, str_view(&text));
}

static struct images_item *item_new(struct images *m, struct span image, struct span auth)
{
	struct images_item *p = xcalloc(1, sizeof(*p));
	p->m = m;
	p->dir = p->lock = -1;
	p->child = CHILD_NONE;
	p->name = arena_dup(&p->a, image);
	p->auth = arena_span(&p->a, auth);
	const char *problem = image_problem(image);
	if (problem == NULL && auth.n > IMAGES_AUTH_MAX)
		problem = "has a login that is too long";
	if (problem || image_parse(span_of(p->name), &p->a, &p->image) != 0) {
		char q[4 * QUOTE_MAX];
		images_say(p, IMAGES_FAILED, "the image name \"%s\" %s", quote(q, image), problem);
		p->status.absent = true;
		return p;
	}
	images_key(p->key, &p->image, auth);
	images_say(p, IMAGES_WAITING, "waiting for other images, then pulling the image %s",
	           p->name);
	return p;
}

/* The one in the list that is, or will be, the same; NULL. */
static struct images_item *images_find(const struct images_item *p, enum images_policy policy)
{
	struct images_item *other = p->m->items;
	while (other && (strcmp(other->key, p->key) != 0 || other->why ||
	                 other->status.state == IMAGES_FAILED ||
	                 (other->status.state == IMAGES_READY && policy == IMAGES_ALWAYS)))
		other = other->next;
	return other;
}

static struct images_item *images_request(struct images *m, struct span image, struct span auth,
                                          enum images_policy policy)
{
	struct images_item *p = item_new(m, image, auth);
	struct images_item *same = p->status.state == IMAGES_FAILED ? NULL : images_find(p, policy);
	size_t waiting = 0;
	struct images_item **at = &m->items;
	for (; *at; at = &(*at)->next)
		waiting += item_queued(*at);
	*at = p;
	if (same) {
		item_free(p);
		return same;
	}
	if (p->status.state == IMAGES_FAILED ||
	    ((policy == IMAGES_IF_NOT_PRESENT || images_by_digest(&p->image)) &&
	     images_item_take(p)))
		return p;
	if (waiting >= m->queue)
		images_say(p, IMAGES_FAILED, "%zu images wait to be pulled, more are not allowed",
		           waiting);
	return p;
}

/* NOLINTNEXTLINE(readability-function-size): six parameters */
struct images_use *images_want(struct images *m, struct span image, struct span auth,
                               enum images_policy policy, void (*changed)(void *arg), void *arg)
{
	struct images_use *u = xcalloc(1, sizeof(*u));
	u->item = images_request(m, image, auth, policy);
	u->item->uses++;
	u->changed = changed;
	u->arg = arg;
	u->next = m->uses;
	images_begin(m);
	m->uses = u;
	return u;
}

const struct images_status *images_status(const struct images_use *u)
{
	return &u->item->status;
}

int images_lock_fd(const struct images_use *u)
{
	return u->item->lock;
}

void images_release(struct images_use *u)
{
	if (u == NULL)
		return;
	struct images_item *p = u->item;
	struct images_use **at = &p->m->uses;
	while (*at != u)
		at = &(*at)->next;
	*at = u->next;
	free(u);
	if (--p->uses > 0)
		return;
	if (item_runs(p))
		images_pull_stop(p, "nobody wants it any more");
	else
		item_free(p);
}

void images_free(struct images *m)
{
	if (m == NULL)
		return;
	for (struct images_use *u = m->uses, *next; u; u = next) {
		next = u->next;
		images_release(u);
	}
	for (struct images_item *p = m->items, *next; p; p = next) {
		next = p->next;
		item_free(p);
	}
	images_store_close(&m->store);
	(void)close(m->epoll);
	free(m);
}
