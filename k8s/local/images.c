#include "k8s/local/images.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/hash.h"
#include "k8s/local/images_internal.h"
#include "k8s/local/sandbox_internal.h"

enum { IMAGES_SWEEP_MS = 5, IMAGES_TICK_MS = 1000, IMAGES_AUTH_MAX = 1 << 20 };

struct images_use {
	struct images_use *next;
	struct images *m;
	struct images_pull *pull; /* NULL: ready or failed */
	struct arena a;
	struct images_status status;
	int lock;
	bool notify;
	void (*changed)(void *arg);
	void *arg;
};

int images_probe(struct err *e)
{
	ARENA_AUTO a = { 0 };
	const char *missing = sandbox_program("skopeo", &a) == NULL  ? "skopeo"
	                      : sandbox_program("umoci", &a) == NULL ? "umoci"
	                                                             : NULL;
	if (missing == NULL)
		return 0;
	return err_set(e, UNAVAILABLE,
	               "images cannot be pulled: %s is not in PATH; install the packages skopeo "
	               "and umoci",
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
	m->skopeo = sandbox_program("skopeo", &m->a);
	m->umoci = sandbox_program("umoci", &m->a);
	return m;
}

int images_fd(const struct images *m)
{
	return m->epoll;
}

static bool pull_runs(const struct images_pull *p)
{
	return p->child.pidfd >= 0;
}

int images_timeout_ms(const struct images *m)
{
	if (m->notify)
		return 0;
	if (m->store.sweeping)
		return IMAGES_SWEEP_MS;
	int ms = -1;
	for (const struct images_pull *p = m->pulls; p; p = p->next) {
		if (pull_runs(p))
			ms = IMAGES_TICK_MS;
		else if (p->step >= PULL_DONE)
			return 0;
	}
	return ms;
}

bool images_busy(const struct images *m, const struct images_pull *p)
{
	for (const struct images_pull *q = m->pulls; q; q = q->next) {
		if (q != p && q->step >= PULL_COPY && q->step <= PULL_UNPACK &&
		    strcmp(q->hex, p->hex) == 0)
			return true;
	}
	return false;
}

/* ---- uses ---- */

static void use_fail(struct images_use *u, bool absent, const char *why)
{
	u->status = (struct images_status){ .state = IMAGES_FAILED, .absent = absent };
	u->status.text = arena_dup(&u->a, span_of(why));
	u->pull = NULL;
}

/* The image is unpacked; false: it is not there after all. */
static bool use_take(struct images_use *u, const char *hex)
{
	struct images_store *s = &u->m->store;
	if (!images_store_take(s, hex, &u->lock))
		return false;
	ARENA_AUTO a = { 0 };
	const char *config = arena_printf(&a, "%s/config.json", hex);
	u->status = (struct images_status){
		.state = IMAGES_READY,
		.text = "",
		.digest = arena_printf(&u->a, "sha256:%s", hex),
		.rootfs = arena_printf(&u->a, "%s/unpacked/%s/rootfs", s->path, hex),
	};
	images_config_read(images_file_read(s->unpacked, config, &a), &u->a, &u->status);
	u->pull = NULL;
	return true;
}

static void use_notify(struct images_use *u)
{
	u->notify = true;
	u->m->notify = true;
}

static void pull_notify(const struct images_pull *p)
{
	for (struct images_use *u = p->m->uses; u; u = u->next) {
		if (u->pull == p)
			use_notify(u);
	}
}

/* The pull is over: its uses get what it has found. */
static void pull_deliver(const struct images_pull *p)
{
	struct images *m = p->m;
	if (p->step == PULL_DONE)
		images_store_set_ref(&m->store, p->key, p->hex);
	const char *why = p->step == PULL_DONE ? "it was removed again at once" : p->why;
	for (struct images_use *u = m->uses; u; u = u->next) {
		if (u->pull != p)
			continue;
		if (p->step != PULL_DONE || !use_take(u, p->hex))
			use_fail(
			    u, p->absent,
			    arena_printf(&u->a, "the image %s cannot be pulled: %s", p->name, why));
		use_notify(u);
	}
}

/* ---- pulls ---- */

/* Frees pulls that are over. */
static void images_collect(struct images *m)
{
	for (struct images_pull **at = &m->pulls; *at;) {
		struct images_pull *p = *at;
		if (p->step < PULL_DONE || pull_runs(p)) {
			at = &p->next;
			continue;
		}
		*at = p->next;
		pull_deliver(p);
		images_pull_free(p);
	}
}

static void images_begin(struct images *m)
{
	unsigned running = 0;
	for (const struct images_pull *p = m->pulls; p; p = p->next)
		running += pull_runs(p);
	for (struct images_pull *p = m->pulls; p && running < m->at_once; p = p->next) {
		if (pull_runs(p) || (p->step != PULL_QUEUED && p->step != PULL_WAIT))
			continue;
		m->waiting -= p->step == PULL_QUEUED;
		images_pull_start(p);
		running += pull_runs(p);
		pull_notify(p);
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
		struct images_pull *p = events[i].data.ptr;
		enum pull_step before = p->step;
		images_pull_ended(p);
		if (p->step != before)
			pull_notify(p);
	}
	int64_t now = clock_ms();
	for (struct images_pull *p = m->pulls; p; p = p->next)
		images_pull_check(p, now);
	images_collect(m);
	images_begin(m);
	images_collect(m);
	if (m->store.sweeping)
		images_store_sweep(&m->store);
	images_tell(m);
}

/* ---- requests ---- */

static struct images_pull *pull_new(struct images *m, const char *key, struct span image,
                                    struct span auth)
{
	struct images_pull *p = xcalloc(1, sizeof(*p));
	p->m = m;
	p->dir = -1;
	p->child = CHILD_NONE;
	p->name = arena_dup(&p->a, image);
	p->auth = arena_span(&p->a, auth);
	memcpy(p->key, key, STORE_HEX);
	(void)image_parse(span_of(p->name), &p->a, &p->image);
	struct images_pull **at = &m->pulls;
	while (*at)
		at = &(*at)->next;
	*at = p;
	m->waiting++;
	return p;
}

/* Names what a login may see: another login has to ask the registry itself. */
static void images_key(char key[static STORE_HEX], const struct image *i, struct span auth)
{
	STR_AUTO text = STR_SECRET(IMAGES_AUTH_MAX + 4096);
	str_printf(&text, "%s/%s:%s\n", i->host, i->repository, i->reference);
	str_span(&text, auth);
	sha256_hex(key, str_view(&text));
}

static void images_request(struct images_use *u, struct span image, struct span auth,
                           enum images_policy policy)
{
	struct images *m = u->m;
	struct image parsed;
	const char *problem = image_problem(image);
	if (problem || image_parse(image, &u->a, &parsed) != 0 || auth.n > IMAGES_AUTH_MAX) {
		char q[4 * QUOTE_MAX];
		use_fail(u, true,
		         arena_printf(&u->a, "the image name \"%s\" %s", quote(q, image),
		                      problem ? problem : "has a login that is too long"));
		return;
	}
	char key[STORE_HEX];
	char hex[STORE_HEX];
	images_key(key, &parsed, auth);
	if (policy == IMAGES_IF_NOT_PRESENT && images_store_ref(&m->store, key, hex) &&
	    use_take(u, hex))
		return;
	struct images_pull *p = m->pulls;
	while (p && (strcmp(p->key, key) != 0 || p->why || p->step >= PULL_DONE))
		p = p->next;
	if (p == NULL && m->waiting >= m->queue) {
		use_fail(u, false,
		         arena_printf(&u->a, "%zu images wait to be pulled, more are not allowed",
		                      m->waiting));
		return;
	}
	u->pull = p ? p : pull_new(m, key, image, auth);
	images_begin(m);
}

/* NOLINTNEXTLINE(readability-function-size): six parameters */
struct images_use *images_want(struct images *m, struct span image, struct span auth,
                               enum images_policy policy, void (*changed)(void *arg), void *arg)
{
	struct images_use *u = xcalloc(1, sizeof(*u));
	u->m = m;
	u->lock = -1;
	u->changed = changed;
	u->arg = arg;
	u->next = m->uses;
	m->uses = u;
	images_request(u, image, auth, policy);
	return u;
}

static void use_progress(struct images_use *u, const struct images_pull *p)
{
	static const char *const STEPS[] = { [PULL_QUEUED] =
		                                 "waiting for other images, then pulling",
		                             [PULL_INSPECT] = "asking the registry for",
		                             [PULL_WAIT] = "waiting for another pull of",
		                             [PULL_COPY] = "pulling",
		                             [PULL_UNPACK] = "unpacking" };
	if (p->step >= PULL_DONE)
		return;
	arena_done(&u->a);
	u->a = (struct arena){ 0 };
	u->status = (struct images_status){ .state = p->step == PULL_QUEUED ? IMAGES_QUEUED
		                                     : p->step <= PULL_COPY ? IMAGES_PULLING
		                                                            : IMAGES_UNPACKING };
	u->status.text = arena_printf(&u->a, "%s the image %s", STEPS[p->step], p->name);
	if (p->step == PULL_COPY)
		u->status.text =
		    arena_printf(&u->a, "%s: %.0f of %.0f MB", u->status.text,
		                 (double)images_pull_come(p) / 1e6, (double)p->bytes / 1e6);
}

const struct images_status *images_status(struct images_use *u)
{
	if (u->pull)
		use_progress(u, u->pull);
	return &u->status;
}

int images_lock_fd(const struct images_use *u)
{
	return u->lock;
}

void images_release(struct images_use *u)
{
	if (u == NULL)
		return;
	struct images *m = u->m;
	struct images_use **at = &m->uses;
	bool shared = false;
	for (struct images_use *v = m->uses; v; v = v->next)
		shared = shared || (v != u && v->pull == u->pull);
	while (*at != u)
		at = &(*at)->next;
	*at = u->next;
	if (u->pull && !shared) {
		m->waiting -= u->pull->step == PULL_QUEUED;
		images_pull_stop(u->pull, "nobody wants it any more");
	}
	fd_cleanup(&u->lock);
	arena_done(&u->a);
	free(u);
}

void images_free(struct images *m)
{
	if (m == NULL)
		return;
	while (m->uses)
		images_release(m->uses);
	for (struct images_pull *p = m->pulls, *next; p; p = next) {
		next = p->next;
		if (pull_runs(p))
			child_stop(&p->child);
		images_pull_free(p);
	}
	images_store_close(&m->store);
	(void)close(m->epoll);
	arena_done(&m->a);
	free(m);
}
