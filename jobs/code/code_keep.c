/* Keeping an archive: its limits, its ConfigMaps or its file. */
#include "jobs/code/keep_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/enc.h"
#include "base/json/put.h"
#include "base/json/scan.h"
#include "base/posix/clock.h"
#include "base/posix/fd.h"
#include "base/posix/rmtree.h"
#include "base/time.h"

pthread_mutex_t CODE_FILES = PTHREAD_MUTEX_INITIALIZER;

enum {
	TRIES = 5,                /* of steps that other clients disturb */
	PART_OBJECT = 1408 << 10, /* bytes of a part as a ConfigMap */
	FACTS_MAX = 8192,
	/* An archive counts as so many bytes at least, which bounds the number of objects. */
	COUNTED = 64 << 10,
};
enum { CODE_KEPT = 1, CODE_AGAIN = 2 };

static const char BUSY[] = "the same code is being uploaded by another client; try again";
static const char IN_VAIN[] =
    "the code could not be stored in several attempts; send it again, which "
    "goes on where this has stopped";

/* ---- limits -------------------------------------------------------------------------- */

struct code_sum {
	const char *user;
	int64_t mine, all;
	struct code_full *full;
};

static int64_t code_counted(int64_t bytes)
{
	return bytes > COUNTED ? bytes : COUNTED;
}

static void code_add(void *arg, const struct code_archive *one)
{
	struct code_sum *sum = arg;
	struct code_full *f = sum->full;
	sum->all += code_counted(one->bytes);
	if (strcmp(one->user, sum->user) != 0)
		return;
	sum->mine += code_counted(one->bytes);
	size_t i = f->n < CODE_LARGEST ? f->n++ : CODE_LARGEST;
	for (; i > 0 && f->largest[i - 1].bytes < one->bytes; i--)
		if (i < CODE_LARGEST)
			f->largest[i] = f->largest[i - 1];
	if (i == CODE_LARGEST)
		return;
	f->largest[i].bytes = one->bytes;
	(void)snprintf(f->largest[i].name, sizeof(f->largest[i].name), "%s", one->name);
}

static int code_check_room(struct code_store *s, const struct code_archive *want,
                           struct code_full *full, struct err *e)
{
	*full = (struct code_full){ .n = 0 };
	struct code_sum sum = { want->user, code_counted(want->bytes), code_counted(want->bytes),
		                full };
	if (code_list(s, code_add, &sum, e) < 0)
		return -1;
	full->all = sum.mine <= s->user_bytes;
	full->limit = full->all ? s->all_bytes : s->user_bytes;
	if (sum.mine > s->user_bytes || sum.all > s->all_bytes)
		return err_set(e, 413, "CodeQuotaError", "there is no room for this code");
	return 0;
}

/* ---- objects ------------------------------------------------------------------------- */

/* Appends the ConfigMap of an archive. */
static void code_write(struct str *out, const struct code_store *s, const struct code_archive *want)
{
	char now[RFC3339_MAX];
	STR_AUTO facts = STR_INIT(FACTS_MAX);
	json_put_open(&facts, NULL, '{');
	json_put_word(&facts, "user", want->user);
	json_put_text(&facts, "sha256", want->sha256);
	json_put_text(&facts, "packedSha256", want->digest);
	json_put_int(&facts, "bytes", want->bytes);
	json_put_int(&facts, "unpackedBytes", want->unpacked);
	json_put_int(&facts, "entries", want->entries);
	json_put_int(&facts, "parts", want->parts);
	str_char(&facts, '}');
	str_puts(out, "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{");
	json_put_word(out, "name", want->name);
	json_put_open(out, "labels", '{');
	json_put_word(out, "rest-lit/instance", s->instance);
	json_put_word(out, "rest-lit/keeps", "code");
	str_char(out, '}');
	json_put_open(out, "annotations", '{');
	json_put_text(out, "rest-lit/archive", str_view(&facts));
	json_put_word(out, "rest-lit/last-use", rfc3339_put(now, clock_wall_ms(), 3));
	if (s->directory)
		json_put_word(out, "rest-lit/complete", "true");
	str_puts(out, "}}}");
}

/* Creates it.  1, and *there is the new one; 0: look for it again; -1 and *e. */
static int code_create(struct code_store *s, const struct code_archive *want, struct arena *a,
                       struct code_archive *there, struct err *e)
{
	STR_AUTO body = STR_INIT((size_t)2 * FACTS_MAX);
	struct store_reply reply;
	code_write(&body, s, want);
	struct store_request r = { .verb = STORE_CREATE,
		                   .name = want->name,
		                   .body = { str_view(&body) } };
	enum store_outcome outcome = code_ask(s, r, a, &reply);
	if (outcome == STORE_EXISTS || outcome == STORE_AMBIGUOUS)
		return 0;
	if (outcome != STORE_OK || !code_archive_read(reply.body, a, there))
		return code_fail(r, &reply, e);
	return 1;
}

/* ---- a cluster ----------------------------------------------------------------------- */

/* Creates a part, unless it is there.  One whose owner is gone, and that the garbage collector has
 * not removed yet, is deleted, if *there is still the archive of this name. */
static int code_put_part(struct code_store *s, const struct code_archive *there, int64_t i,
                         struct span bytes, struct err *e)
{
	for (int tries = 0; tries < TRIES; tries++) {
		ARENA_AUTO a = { 0 };
		STR_AUTO body = STR_INIT(PART_OBJECT);
		struct store_reply reply;
		struct code_archive now;
		const char *name = arena_printf(&a, "%s-%lld", there->name, (long long)i);
		str_printf(&body,
		           "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{"
		           "\"name\":\"%s\",\"labels\":{\"rest-lit/instance\":\"%s\"},"
		           "\"ownerReferences\":[{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\","
		           "\"name\":\"%s\",\"uid\":\"%s\"}]},\"immutable\":true,"
		           "\"binaryData\":{\"part\":\"",
		           name, s->instance, there->name, there->uid);
		str_base64(&body, bytes);
		str_puts(&body, "\"}}");
		struct store_request r = { .verb = STORE_CREATE,
			                   .name = name,
			                   .body = { str_view(&body) } };
		enum store_outcome outcome = code_ask(s, r, &a, &reply);
		if (outcome == STORE_OK)
			return 0;
		if (outcome == STORE_AMBIGUOUS)
			continue;
		if (outcome != STORE_EXISTS)
			return code_fail(r, &reply, e);
		r = (struct store_request){ .verb = STORE_GET, .name = name };
		outcome = code_ask(s, r, &a, &reply);
		if (outcome == STORE_NOT_FOUND)
			continue;
		if (outcome != STORE_OK)
			return code_fail(r, &reply, e);
		struct span owner = { NULL, 0 };
		struct scan owners =
		    scan_begin(scan_path(reply.body, "metadata", "ownerReferences"));
		(void)scan_item(&owners, &owner); /* none: it is not ours, either */
		if (span_is(scan_text(scan_get(owner, "uid"), &a), there->uid))
			return 0;
		int same = code_look(s, there->name, &a, &now, e);
		if (same > 0 && strcmp(now.uid, there->uid) == 0)
			same = code_delete(s, name, arena_dup(&a, reply.uid), NULL, e);
		else if (same >= 0)
			break;
		if (same < 0)
			return -1;
	}
	return err_set(e, UNAVAILABLE, IN_VAIN);
}

/* One look at the objects, and all that is missing.  CODE_KEPT, 0: it was there, CODE_AGAIN, -1. */
static int code_keep_objects(struct code_store *s, const struct code_archive *want,
                             struct span packed, struct code_full *full, struct err *e)
{
	ARENA_AUTO a = { 0 };
	struct code_archive there = { .complete = false };
	int known = code_look(s, want->name, &a, &there, e);
	if (known < 0)
		return -1;
	if (known == 0) {
		int made = code_check_room(s, want, full, e) ?: code_create(s, want, &a, &there, e);
		if (made <= 0)
			return made ?: CODE_AGAIN;
	} else if (there.complete) {
		int used = code_complete(s, &there, e);
		return used > 0 ? 0 : used ?: CODE_AGAIN;
	} else if (!span_eq(there.digest, want->digest)) {
		if (clock_wall_ms() - there.used_ms < s->young_ms)
			return err_set(e, UNAVAILABLE, BUSY);
		return code_delete(s, there.name, there.uid, there.version, e) < 0 ? -1
		                                                                   : CODE_AGAIN;
	}
	for (int64_t i = 0; i < want->parts; i++) {
		size_t at = (size_t)i * CODE_PART;
		size_t n = packed.n - at < CODE_PART ? packed.n - at : CODE_PART;
		if (code_put_part(s, &there, i, (struct span){ packed.p + at, n }, e) < 0)
			return -1;
	}
	return code_complete(s, &there, e) ?: CODE_AGAIN; /* 1 is CODE_KEPT */
}

/* ---- one machine --------------------------------------------------------------------- */

/* Moves the directory of an upload to its name.  One that is there has the same content. */
static int code_move(const struct code_store *s, const char *name, struct span upload,
                     struct err *e)
{
	ARENA_AUTO a = { 0 };
	FD_AUTO dir = open(s->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool moved = renameat(dir, arena_dup(&a, upload), dir, name) == 0 || errno == EEXIST ||
	             errno == ENOTEMPTY;
	return moved && fsync(dir) == 0
	           ? 0
	           : err_set(e, UNAVAILABLE, "the code cannot be written to %s: %s", s->directory,
	                     strerrordesc_np(errno));
}

/* The ConfigMap comes first: a file without one was not left by a killed server. */
static int code_keep_file(struct code_store *s, const struct code_archive *want, struct span upload,
                          struct code_full *full, struct err *e)
{
	ARENA_AUTO a = { 0 };
	struct code_archive there;
	LOCK_AUTO(&CODE_FILES);
	int known = code_look(s, want->name, &a, &there, e);
	bool usable = known > 0 && code_archive_usable(&there, s->directory);
	if (known < 0 || (!known && code_check_room(s, want, full, e) < 0))
		return -1;
	int kept = known ? code_complete(s, &there, e) : code_create(s, want, &a, &there, e);
	if (kept <= 0)
		return kept ?: CODE_AGAIN;
	if (!usable && code_move(s, want->name, upload, e) < 0) {
		ERR_AUTO ignored = { 0 };
		if (!known) /* else it counts, without a file */
			(void)code_delete(s, there.name, there.uid, there.version, &ignored);
		return -1;
	}
	return usable ? 0 : CODE_KEPT;
}

int code_directory_open(const char *directory, struct err *e)
{
	if (mkdir(directory, 0700) < 0 && errno != EEXIST)
		return err_set(e, UNKNOWN_ERROR, "%s: %s", directory, strerrordesc_np(errno));
	FD_AUTO dir = open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR_AUTO *all = dir_list(dir, ".");
	for (const char *name; (name = dir_next(all)) != NULL;)
		if (span_starts(span_of(name), CODE_UPLOAD))
			(void)tree_remove(dir, name, SIZE_MAX); /* else the next start does */
	return all ? 0 : err_set(e, UNKNOWN_ERROR, "%s: %s", directory, strerrordesc_np(errno));
}

int code_keep(struct code_store *s, const struct code_archive *want, struct span packed,
              struct code_full *full, struct err *e)
{
	for (int tries = 0; tries < TRIES; tries++) {
		int kept = s->directory ? code_keep_file(s, want, packed, full, e)
		                        : code_keep_objects(s, want, packed, full, e);
		if (kept != CODE_AGAIN)
			return kept;
	}
	return err_set(e, UNAVAILABLE, IN_VAIN);
}
