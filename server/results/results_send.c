/* Threads that write answers into pipes: a list as JSON, a tree as tar, a part of a file. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/enc.h"
#include "base/hash.h"
#include "base/json/put.h"
#include "base/posix/fd.h"
#include "base/posix/lock.h"
#include "jobs/store/paths.h"
#include "server/results/results_internal.h"

enum {
	PLACES = 8,
	PLACES_OF_USER = 2,
	PIPE_ROOM = 256 << 10,
	BUFFER = 256 << 10,
	ROW_BYTES = 512 << 10, /* of the paths of a page */
	TEXT_ROOM = 64 << 10,  /* of a row, and of the headers of an entry */
	NS_PER_S = 1000000000
};

struct results_slots {
	pthread_mutex_t lock; /* guards user, holders and started */
	struct hash_key key;
	struct results_slot v[PLACES];
};

/* ---- places ---------------------------------------------------------------------------------- */

struct results_slots *results_slots_new(void)
{
	struct results_slots *all = xcalloc(1, sizeof(*all));
	(void)pthread_mutex_init(&all->lock, NULL); /* cannot fail with default attributes */
	all->key = hash_key_new();
	return all;
}

void results_slots_free(struct results_slots *all)
{
	for (struct results_slot *p = all ? all->v : NULL; all && p < all->v + PLACES; p++)
		if (p->started)
			(void)pthread_join(p->thread, NULL); /* it is a thread of ours */
	free(all);
}

struct results_slot *results_take(struct results_slots *all, const char *user,
                                  enum results_kind kind)
{
	struct results_slot *free_one = NULL;
	uint64_t hash = hash_bytes(&all->key, span_of(user ?: "")) | 2;
	hash = (hash & ~UINT64_C(1)) | (kind == RESULTS_ROWS);
	size_t own = 0;
	LOCK_AUTO(&all->lock);
	for (struct results_slot *p = all->v; p < all->v + PLACES; p++) {
		own += p->user == hash;
		free_one = p->user ? free_one : p;
	}
	if (!free_one || own >= PLACES_OF_USER)
		return NULL;
	if (free_one->started) /* it has left the place, and ends */
		(void)pthread_join(free_one->thread, NULL);
	*free_one = (struct results_slot){ .user = hash, .holders = 1, .kind = kind };
	free_one->dir = free_one->file = free_one->in = free_one->out = -1;
	return free_one;
}

static void place_drop(struct results_slots *all, struct results_slot *p)
{
	LOCK_AUTO(&all->lock);
	if (--p->holders)
		return;
	fd_cleanup(&p->dir);
	fd_cleanup(&p->file);
	p->user = 0;
}

void results_leave(struct results_slots *all, struct results_slot *p)
{
	atomic_store(&p->stop, true);
	fd_cleanup(&p->in);
	place_drop(all, p);
}

/* ---- the pipe; false: nobody reads it any more ----------------------------------------------- */

static bool place_flush(struct results_slot *p)
{
	struct span all = { p->buffer, p->have };
	p->have = 0;
	return !atomic_load(&p->stop) && fd_write_all(p->out, all) == 0;
}

static bool place_put(struct results_slot *p, struct span bytes)
{
	if (p->have + bytes.n > BUFFER && !place_flush(p))
		return false;
	memcpy(p->buffer + p->have, bytes.p, bytes.n);
	p->have += bytes.n;
	return true;
}

/* Bytes of a file.  One that has become shorter, *shrank, is filled up with zeros in a tar. */
static bool place_put_file(struct results_slot *p, int fd, int64_t from, int64_t bytes,
                           bool *shrank)
{
	while (bytes > 0) {
		if (p->have == BUFFER && !place_flush(p))
			return false;
		size_t n = BUFFER - p->have;
		n = bytes < (int64_t)n ? (size_t)bytes : n;
		ssize_t got = *shrank ? 0 : pread(fd, p->buffer + p->have, n, from);
		*shrank = got <= 0;
		if (*shrank && p->kind != RESULTS_TAR)
			return false;
		if (*shrank)
			memset(p->buffer + p->have, 0, n);
		n = *shrank ? n : (size_t)got;
		p->have += n;
		from += (int64_t)n;
		bytes -= (int64_t)n;
	}
	return true;
}

/* ---- tar ------------------------------------------------------------------------------------- */

static int64_t results_time(const struct stat *st)
{
	enum { YEARS = 33 }; /* bits of seconds in a tar */
	int64_t s = st->st_mtim.tv_sec;
	return s < 0 || s >> YEARS ? 0 : s * NS_PER_S + st->st_mtim.tv_nsec;
}

static bool tar_found(void *arg, const struct results_found *x)
{
	struct results_slot *p = arg;
	STR_AUTO text = STR_INIT(TEXT_ROOM);
	struct stat now = *x->st;
	bool shrank = false;
	const struct tar_entry entry = { .kind = x->fd < 0 ? TAR_DIRECTORY : TAR_FILE,
		                         .path = x->path,
		                         .executable = x->fd >= 0 && (x->st->st_mode & 0100),
		                         .size = x->fd < 0 ? 0 : x->st->st_size,
		                         .time_ns = results_time(x->st) };
	if (p->note)
		tar_put_note(&text, p->note);
	p->note = NULL;
	tar_put_entry(&text, &entry);
	if (!place_put(p, str_view(&text)) || !place_put_file(p, x->fd, 0, entry.size, &shrank))
		return false;
	text.n = 0;
	tar_put_padding(&text, entry.size);
	if (shrank)
		p->note = "shrank";
	else if (x->fd >= 0 && fstat(x->fd, &now) == 0 && now.st_size > entry.size)
		p->note = "grew";
	else if (x->fd >= 0 && (now.st_size != entry.size || results_time(&now) != entry.time_ns))
		p->note = "changed";
	return place_put(p, str_view(&text));
}

static void place_tar(struct results_slot *p)
{
	STR_AUTO text = STR_INIT(TEXT_ROOM);
	struct results_walk w = { .found = tar_found, .arg = p, .opens = true, .stop = &p->stop };
	char note[32];
	results_walk_all(&w, p->dir, p->path);
	(void)snprintf(note, sizeof(note), "end %lld", (long long)(w.full ? -1 : w.left_out));
	tar_put_end(&text);
	if (p->note)
		tar_put_note(&text, p->note);
	tar_put_note(&text, note);
	(void)(place_put(p, str_view(&text)) && place_flush(p)); /* else the client has left */
}

/* ---- a list ---------------------------------------------------------------------------------- */

struct results_row {
	char *path;
	int64_t size, time_ns;
	bool is_directory;
};

/* The first rows behind a path, in the order of their bytes. */
struct results_rows {
	struct results_slot *place;
	struct results_row v[RESULTS_PAGE + 1]; /* one more while a row is inserted */
	size_t n, bytes;
	bool more; /* there are others behind them */
};

static void rows_drop_last(struct results_rows *all)
{
	struct results_row *last = &all->v[--all->n];
	all->bytes -= strlen(last->path);
	all->more = true;
	free(last->path);
}

/* Could this path, or one in this directory, be on the page?  What is in a directory is behind it.
 */
static bool rows_want(void *arg, const char *path, bool is_directory)
{
	struct results_rows *all = arg;
	const char *after = all->place->after;
	size_t n = strlen(path);
	bool full = all->n == (size_t)all->place->limit || all->more;
	if (full && strcmp(path, all->v[all->n - 1].path) > 0) {
		all->more = true;
		return false;
	}
	return strcmp(path, after) > 0 ||
	       (is_directory && strncmp(after, path, n) == 0 && after[n] <= '/');
}

static bool rows_found(void *arg, const struct results_found *x)
{
	struct results_rows *all = arg;
	size_t low = 0;
	size_t high = all->n;
	size_t n = strlen(x->path);
	struct results_row row = { NULL, x->st->st_size, results_time(x->st),
		                   S_ISDIR(x->st->st_mode) };
	if (strcmp(x->path, all->place->after) <= 0 ||
	    (!S_ISREG(x->st->st_mode) && !row.is_directory))
		return true;
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (strcmp(all->v[middle].path, x->path) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	memmove(&all->v[low + 1], &all->v[low], (all->n - low) * sizeof(row));
	row.path = xstrdup(x->path);
	all->v[low] = row;
	all->n++;
	all->bytes += n;
	while (all->n > (size_t)all->place->limit || (all->bytes > ROW_BYTES && all->n > 1))
		rows_drop_last(all);
	return true;
}

static void row_put(struct str *out, const struct results_row *row)
{
	STR_AUTO text = STR_INIT(TEXT_ROOM);
	STR_AUTO href = STR_INIT(TEXT_ROOM);
	struct span rest = span_of(row->path);
	while (rest.n) { /* other bytes than UTF-8 become U+FFFD */
		size_t good = utf8_check(rest);
		str_span(&text, span_to(rest, good));
		rest = span_from(rest, good);
		if (rest.n)
			str_puts(&text, "\xef\xbf\xbd");
		rest = span_from(rest, rest.n > 0);
	}
	for (rest = span_of(row->path); rest.n;) {
		query_encode(&href, span_next(&rest, '/'));
		if (rest.n)
			str_char(&href, '/');
	}
	json_put_open(out, NULL, '{');
	json_put_text(out, "path", str_view(&text));
	json_put_text(out, "href", str_view(&href));
	json_put_word(out, "kind", row->is_directory ? "directory" : "file");
	if (!row->is_directory)
		json_put_int(out, "size", row->size);
	json_put_int(out, "modified", row->time_ns / 1000000);
	str_char(out, '}');
}

static void place_rows(struct results_slot *p)
{
	FREE_AUTO struct results_rows *all = xcalloc(1, sizeof(*all));
	struct results_walk w = {
		.found = rows_found, .wants = rows_want, .arg = all, .stop = &p->stop
	};
	bool good = true;
	all->place = p;
	results_walk_all(&w, p->dir, p->path);
	STR_AUTO text = STR_INIT(TEXT_ROOM);
	str_puts(&text, "{\"results\":[");
	for (size_t i = 0; i < all->n; i++) {
		row_put(&text, &all->v[i]);
		good = good && place_put(p, str_view(&text));
		text.n = 0;
		str_char(&text, i + 1 < all->n ? ',' : ' ');
	}
	str_puts(&text, "]");
	json_put_bool(&text, "more", all->more || w.full);
	json_put_word(&text, "token", p->token);
	str_puts(&text, "}\n");
	(void)(good && place_put(p, str_view(&text)) && place_flush(p)); /* likewise */
	while (all->n)
		rows_drop_last(all);
}

/* ---- the thread ------------------------------------------------------------------------------ */

struct results_work {
	struct results_slots *all;
	struct results_slot *place;
};

static void *place_run(void *arg)
{
	FREE_AUTO struct results_work *work = arg;
	struct results_slot *p = work->place;
	bool shrank = false;
	p->buffer = xmalloc(BUFFER);
	p->have = 0;
	if (p->kind == RESULTS_ROWS)
		place_rows(p);
	else if (p->kind == RESULTS_TAR)
		place_tar(p);
	else if (place_put_file(p, p->file, p->from, p->bytes, &shrank))
		(void)place_flush(p); /* likewise */
	free(TAKE(p->buffer));
	/* The slot is free before the client can know that its answer is whole, and asks again. */
	int out = p->out;
	place_drop(work->all, p);
	(void)close(out); /* all is written */
	return NULL;
}

int results_send(struct results_slots *all, struct results_slot *p)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) < 0)
		return -1;
	p->in = ends[0];
	p->out = ends[1];
	(void)fcntl(p->in, F_SETFL, O_NONBLOCK);      /* cannot fail */
	(void)fcntl(p->out, F_SETPIPE_SZ, PIPE_ROOM); /* else it is smaller */
	struct results_work *work = xcalloc(1, sizeof(*work));
	*work = (struct results_work){ all, p };
	p->holders++;
	errno = pthread_create(&p->thread, NULL, place_run, work);
	p->started = errno == 0;
	if (p->started)
		return 0;
	p->holders--;
	free(work);
	fd_cleanup(&p->out);
	return -1;
}
