/*
 * A stand-in for scheduler, kubelets and garbage collector beside a real API server.
 *
 *	stand --apiserver URL --ca FILE --token-file FILE [--namespace NS] [--bind-ms 20-200]
 *	      [--start-ms 20-200] [--run-ms 100-500] [--linger-ms 20-200] [--seed N]
 *
 * A pod waits for bind-ms, gets a node, is Pending for start-ms, runs for run-ms and ends with code
 * 0; a dying one is removed after linger-ms.  Annotations of the pod change this: stand/bind-ms,
 * stand/start-ms, stand/run-ms, stand/linger-ms (`never`: no end), stand/node, stand/reason (a pod
 * that fails without a container), stand/exit: codes of the attempts of its task, `1,1,0`,
 * separated by `;` for the attempts of the Framework; the last one of each holds for all further
 * attempts.
 *
 * As the garbage collector of Kubernetes, it deletes objects whose owner is gone, and the
 *dependents of an owner in foreground deletion, whose finalizer it then takes off.
 *
 * After SIGUSR1, node0 does not answer: nothing happens to its pods, and new ones get other nodes;
 * after SIGUSR2 it does again.  Prints `ready` when it knows all objects, `lost` and `back` after
 * these signals, and at SIGTERM the number of its requests.
 */
#include "tests/controller/stand.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "base/posix/clock.h"
#include "k8s/watch/reflector.h"

enum { OBJECT_BYTES = 8 << 20, NEWS_MAX = 1 << 20, WAIT_MS = 1000, PAGE = 500 };

enum news_what { NEWS_PUT, NEWS_GONE, NEWS_BEGIN, NEWS_END };

struct news {
	struct mail mail;
	enum news_what what;
	enum object_kind kind;
	struct span object; /* behind this struct */
};

struct watched {
	struct stand *stand;
	enum object_kind kind;
	struct reflector *reflector;
};

static volatile sig_atomic_t stopped, node_lost;

static void note_signal(int signal_number)
{
	if (signal_number == SIGTERM)
		stopped = 1;
	else
		node_lost = signal_number == SIGUSR1;
}

/* ---- the threads of the reflectors ---- */

static void news_post(const struct watched *w, enum news_what what, struct span object)
{
	struct news *n = xmalloc(sizeof(*n) + object.n + 1);
	char *text = (char *)(n + 1);
	*n = (struct news){ .what = what, .kind = w->kind, .object = { text, object.n } };
	bytes_copy(text, object.p ? object.p : "", object.n);
	if (mailbox_put(&w->stand->box, &n->mail))
		return;
	(void)fprintf(stderr, "stand: too many events at once\n");
	abort();
}

static void watched_begin(void *arg)
{
	news_post(arg, NEWS_BEGIN, SPAN(""));
}

static void watched_end(void *arg, int64_t version)
{
	(void)version;
	news_post(arg, NEWS_END, SPAN(""));
}

static void watched_put(void *arg, struct span object)
{
	news_post(arg, NEWS_PUT, object);
}

static void watched_remove(void *arg, struct span object)
{
	news_post(arg, NEWS_GONE, object);
}

static void watched_seen(void *arg, int64_t version)
{
	(void)arg;
	(void)version;
}

static void watched_trouble(void *arg, const char *why, bool absent)
{
	(void)arg;
	(void)absent;
	if (why)
		(void)fprintf(stderr, "stand: %s\n", why);
}

static struct reflector *watched_start(struct watched *w, struct err *e)
{
	const struct reflector_settings settings = {
		.login = w->stand->login,
		.namespace_name = w->stand->namespace_name,
		.kind = w->kind,
		.page = PAGE,
		.max_object = OBJECT_BYTES,
		.begin = watched_begin,
		.end = watched_end,
		.put = watched_put,
		.remove = watched_remove,
		.seen = watched_seen,
		.trouble = watched_trouble,
		.arg = w,
	};
	w->reflector = reflector_new(&settings, e);
	return w->reflector;
}

/* ---- the loop ---- */

static void stand_read_news(struct stand *s)
{
	size_t lost;
	struct mail *next = mailbox_take(&s->box, &lost);
	while (next) {
		struct news *n = (struct news *)next;
		next = next->next;
		if (n->what == NEWS_PUT)
			world_put(s, n->kind, n->object);
		else if (n->what == NEWS_GONE)
			world_gone(s, n->object);
		else
			world_list(s, n->kind, n->what == NEWS_BEGIN);
		free(n);
	}
}

static int stand_wait_ms(const struct stand *s)
{
	int ms = sender_timeout_ms(s->sender);
	const struct heap_item *first = heap_first(&s->due);
	int64_t left = first && sender_is_free(s->sender) ? first->at_ms - clock_ms() : WAIT_MS;
	left = left < 0 ? 0 : left < WAIT_MS ? left : WAIT_MS;
	return ms < 0 || ms > left ? (int)left : ms;
}

static void stand_loop(struct stand *s, int epoll)
{
	bool ready = false;
	struct epoll_event events[2];
	while (!stopped) {
		struct thing *t;
		stand_read_news(s);
		if (s->lost != node_lost) {
			world_lose(s, node_lost);
			(void)printf("%s\n", s->lost ? "lost" : "back");
			(void)fflush(stdout);
		}
		sender_run_once(s->sender);
		while (sender_is_free(s->sender) && (t = world_take(s)))
			sender_send(s->sender, t);
		if (!ready && world_complete(s)) {
			ready = true;
			(void)printf("ready\n");
			(void)fflush(stdout);
		}
		if (epoll_wait(epoll, events, 2, stand_wait_ms(s)) < 0 && errno != EINTR)
			abort();
	}
}

static void stand_report(const struct stand *s)
{
	static const char *const NAMES[STAND_ACTIONS] = {
		"", "bound", "started", "ended", "removed", "asked", "deleted", "released"
	};
	for (int i = 1; i < STAND_ACTIONS; i++)
		(void)printf("%s %lu\n", NAMES[i], s->done[i]);
	(void)printf("failed %lu\n", s->failed);
}

static int stand_run(struct stand *s, struct err *e)
{
	struct watched watched[] = { { s, KIND_FRAMEWORK, NULL },
		                     { s, KIND_CONFIGMAP, NULL },
		                     { s, KIND_POD, NULL } };
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	int result = -1;
	struct epoll_event in = { .events = EPOLLIN };
	s->sender = mailbox_init(&s->box, NEWS_MAX, e) == 0 ? sender_new(s, e) : NULL;
	if (!s->sender)
		return -1;
	if (epoll_ctl(epoll, EPOLL_CTL_ADD, s->box.fd, &in) < 0 ||
	    epoll_ctl(epoll, EPOLL_CTL_ADD, sender_fd(s->sender), &in) < 0)
		return err_set(e, UNKNOWN_ERROR, "epoll: %m");
	if (watched_start(&watched[0], e) && watched_start(&watched[1], e) &&
	    watched_start(&watched[2], e)) {
		stand_loop(s, epoll);
		result = 0;
	}
	for (size_t i = 0; i < ARRAY_SIZE(watched); i++)
		reflector_free(watched[i].reflector);
	stand_report(s);
	return result;
}

/* ---- options ---- */

static bool range_read(struct span text, struct milliseconds *out)
{
	struct span least = span_next(&text, '-');
	if (parse_i64(least, 0, INT32_MAX, &out->least) < 0)
		return false;
	out->most = out->least;
	return text.n == 0 || parse_i64(text, out->least, INT32_MAX, &out->most) == 0;
}

static bool option_read(struct stand *s, struct login_options *login, const char *name,
                        const char *value)
{
	int64_t seed;
	const struct {
		const char *name, **text;
		struct milliseconds *range;
	} options[] = {
		{ "--apiserver", &login->apiserver, NULL },
		{ "--ca", &login->ca_file, NULL },
		{ "--token-file", &login->token_file, NULL },
		{ "--namespace", &s->namespace_name, NULL },
		{ "--bind-ms", NULL, &s->bind_ms },
		{ "--start-ms", NULL, &s->start_ms },
		{ "--run-ms", NULL, &s->run_ms },
		{ "--linger-ms", NULL, &s->linger_ms },
	};
	for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
		if (strcmp(options[i].name, name) != 0)
			continue;
		if (options[i].text)
			*options[i].text = value;
		return options[i].text || range_read(span_of(value), options[i].range);
	}
	if (strcmp(name, "--seed") != 0 || parse_i64(span_of(value), 1, INT64_MAX, &seed) < 0)
		return false;
	s->random = (uint64_t)seed;
	return true;
}

int main(int argc, char **argv)
{
	static struct stand stand = { .namespace_name = "default",
		                      .bind_ms = { 20, 200 },
		                      .start_ms = { 20, 200 },
		                      .run_ms = { 100, 500 },
		                      .linger_ms = { 20, 200 },
		                      .random = 1 };
	struct login_options login = { 0 };
	const struct sigaction noted = { .sa_handler = note_signal };
	ERR_AUTO e = { 0 };
	for (int i = 1; i < argc; i += 2) {
		if (i + 1 < argc && option_read(&stand, &login, argv[i], argv[i + 1]))
			continue;
		(void)fprintf(stderr, "stand: %s: see the head of stand.c\n", argv[i]);
		return 2;
	}
	login.namespace_name = stand.namespace_name;
	(void)sigaction(SIGTERM, &noted, NULL);
	(void)sigaction(SIGUSR1, &noted, NULL);
	(void)sigaction(SIGUSR2, &noted, NULL);
	stand.login = login_new(&login, &e);
	int result = stand.login ? stand_run(&stand, &e) : -1;
	if (result < 0)
		(void)fprintf(stderr, "stand: %s\n", err_msg(&e));
	return result < 0;
}
