/* Checks, packs and shortens output in frames, and decides which outputs of a job give way. */
#include <endian.h>

#include "base/gzip.h"
#include "server/logs/logs_internal.h"

#include "jobs/cache/job_entry.h"

enum { PACKED_MAX = OUTPUT_TEXT_MAX + 4096, RATIO = 2000, CUTS_MAX = 8 };

/* ---- frames ---- */

struct output_frame {
	unsigned stream;
	struct span bytes;
};

/* Takes the next frame off.  false: the end, or invalid. */
static bool frame_next(struct span *rest, struct output_frame *f)
{
	unsigned char h[OUTPUT_FRAME_HEAD];
	if (rest->n < sizeof(h))
		return false;
	memcpy(h, rest->p, sizeof(h));
	size_t n = (size_t)h[4] << 24 | (size_t)h[5] << 16 | (size_t)h[6] << 8 | h[7];
	if ((h[0] != OUTPUT_STDOUT && h[0] != OUTPUT_STDERR) || h[1] || h[2] || h[3] ||
	    n > rest->n - sizeof(h))
		return false;
	*f = (struct output_frame){ h[0], { rest->p + sizeof(h), n } };
	*rest = (struct span){ f->bytes.p + n, rest->n - sizeof(h) - n };
	return true;
}

static bool output_ok(struct span frames)
{
	struct output_frame f;
	size_t n = 0;
	size_t content = 0;
	for (; frame_next(&frames, &f); n++)
		content += f.bytes.n;
	return frames.n == 0 && n <= OUTPUT_FRAMES_MAX && content <= OUTPUT_CONTENT_MAX;
}

size_t output_content(struct span frames)
{
	struct output_frame f;
	size_t content = 0;
	while (frame_next(&frames, &f))
		content += f.bytes.n;
	return content;
}

struct span output_last(struct span frames, size_t max, struct arena *a)
{
	struct output_frame f;
	size_t content = output_content(frames);
	size_t skip = content > max ? content - max : 0;
	STR_AUTO out = STR_INIT(OUTPUT_TEXT_MAX);
	if (!skip)
		return frames;
	while (frame_next(&frames, &f)) {
		size_t cut = f.bytes.n < skip ? f.bytes.n : skip;
		skip -= cut;
		f.bytes = (struct span){ f.bytes.p + cut, f.bytes.n - cut };
		char head[OUTPUT_FRAME_HEAD] = { (char)f.stream };
		uint32_t n = htobe32((uint32_t)f.bytes.n);
		memcpy(head + OUTPUT_FRAME_HEAD - sizeof(n), &n, sizeof(n));
		if (!f.bytes.n)
			continue;
		str_put(&out, head, sizeof(head));
		str_span(&out, f.bytes);
	}
	return arena_span(a, str_view(&out));
}

/* Hides the frames: the streams are told apart by the first byte of each. */
void output_put(struct str *out, struct span frames, unsigned streams)
{
	struct output_frame f;
	while (frame_next(&frames, &f))
		if (f.stream & streams)
			str_span(out, f.bytes);
}

/* ---- compressed ---- */

bool output_unpack(struct span packed, struct arena *a, struct span *frames)
{
	return gzip_unpack(packed, OUTPUT_TEXT_MAX, RATIO, a, frames) && output_ok(*frames);
}

bool output_cut(struct span *packed, size_t room, struct arena *a, int64_t *dropped)
{
	ARENA_AUTO whole = { 0 };
	struct span all;
	if (packed->n <= room)
		return true;
	if (!output_unpack(*packed, &whole, &all))
		return false;
	size_t content = output_content(all);
	size_t most = content;
	size_t needs = packed->n;
	for (size_t left = CUTS_MAX; left > 0; left--) {
		ARENA_AUTO once = { 0 };
		/* Assumes that the rest compresses like the text tried; takes less the more often
		 * that was wrong. */
		most = most * room / needs * left / CUTS_MAX;
		if (!most)
			return false;
		struct span last = output_last(all, most, &once);
		struct span fits;
		if (!gzip_pack(last, PACKED_MAX, &once, &fits))
			return false; /* impossible: gzip adds few bytes at most */
		needs = fits.n;
		if (needs > room)
			continue;
		*packed = arena_span(a, fits);
		*dropped += (int64_t)(content - output_content(last));
		return true;
	}
	return false;
}

/* ---- which are kept ---- */

static bool entry_is_task(const struct output_entry *a, const struct output_entry *b)
{
	return a->index == b->index && a->attempt == b->attempt && span_eq(a->role, b->role);
}

const struct output_entry *output_index_find(const struct output_index *x,
                                             const struct output_entry *e)
{
	for (size_t i = 0; i < x->n; i++)
		if (entry_is_task(&x->v[i], e) && x->v[i].retry == e->retry)
			return &x->v[i];
	return NULL;
}

int64_t output_index_room(const struct output_index *x, const struct output_entry *e,
                          int64_t budget)
{
	int64_t left = budget;
	size_t n = x->n;
	for (size_t i = 0; i < x->n; i++)
		left -= x->v[i].bytes;
	/* Outputs of earlier attempts go first; then, if this task failed, those of tasks that
	 * succeeded. */
	for (int less = 0; less < (e->failed ? 2 : 1); less++) {
		for (size_t i = 0; i < x->n && x->n - n < OUTPUTS_DISPLACED_MAX; i++) {
			struct output_entry *old = &x->v[i];
			if (n < OUTPUTS_MAX && left >= e->bytes)
				return e->bytes;
			bool past = old->attempt < e->attempt ||
			            (entry_is_task(old, e) && old->retry < e->retry);
			if (old->displaced || !(less ? !old->failed : past))
				continue;
			old->displaced = true;
			left += old->bytes;
			n--;
		}
	}
	left = n < OUTPUTS_MAX ? left : 0;
	if (left >= OUTPUT_LEAST || left >= e->bytes)
		return left < e->bytes ? left : e->bytes;
	for (size_t i = 0; i < x->n; i++)
		x->v[i].displaced = false;
	return 0;
}

/* Any task may fail, and then needs all it has; those that succeed share what there is. */
int64_t output_share(bool failed, int64_t tasks, int64_t budget)
{
	int64_t sharers = tasks < 1 ? 1 : tasks > OUTPUTS_MAX ? OUTPUTS_MAX : tasks;
	int64_t share = failed ? OUTPUT_PACKED_MAX : budget / sharers;
	return share < OUTPUT_PACKED_MAX ? share : OUTPUT_PACKED_MAX;
}
