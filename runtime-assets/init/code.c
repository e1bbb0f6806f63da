/* The step `code`: the archive with the code of the job becomes its working directory. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <unistd.h>

#include "base/code/code.h"
#include "runtime-assets/common/cmdline.h"
#include "runtime-assets/init/init_internal.h"

enum { PARTS_MAX = 1000, CHUNK = 64 << 10 };

static int code_read_parts(const struct init *in, int64_t parts, struct code_reader *r,
                           struct err *e)
{
	char *room = arena_alloc(in->a, CHUNK);
	for (int64_t i = 0; i < parts; i++) {
		const char *path = arena_printf(in->a, "%s/%" PRId64 "/part", in->at.parts, i);
		FD_AUTO fd = open(path, O_RDONLY | O_CLOEXEC); /* the kubelet's are links */
		ssize_t n = fd < 0 ? -1 : 1;
		while (n > 0) {
			n = read(fd, room, CHUNK);
			if (n > 0 && code_reader_feed(r, (struct span){ room, (size_t)n }, e) < 0)
				return -1;
		}
		if (n < 0)
			return err_set(e, errno == ENOENT ? 404 : 500, "RuntimeError",
			               "%s cannot be read: %s", path, strerror(errno));
	}
	return 0;
}

/* Unpacks the archive into an empty directory. */
static int code_unpack_into(const struct init *in, int dir, int64_t parts,
                            const struct code_limits *limits, struct err *e)
{
	struct code_unpack u = { .dir = dir, .writable = true };
	struct code_sink sink = code_unpack_sink(&u);
	struct code_reader *r = code_reader_new(limits, &sink);
	struct code_facts facts;
	ERR_AUTO later = { 0 };
	int rc = code_read_parts(in, parts, r, e);
	if (rc == 0)
		rc = code_reader_end(r, &facts, e);
	if (code_unpack_end(&u, rc < 0 ? &later : e) < 0)
		rc = -1;
	code_reader_free(r);
	const char *wanted = env_get("PAI_CODE_SHA256");
	if (rc == 0 && strcmp(facts.sha256, wanted) != 0)
		rc = err_set(e, 400, "RuntimeError", "the SHA-256 of the archive is %s, not %s",
		             facts.sha256, wanted);
	if (rc == 0)
		say_line(SAY_INFO, "code: %" PRId64 " files and directories, %" PRId64 " bytes",
		         facts.entries, facts.bytes);
	return rc;
}

int step_code(struct init *in, struct err *e)
{
	const char *dir = env_get("PAI_CODE_DIR");
	const char *bytes = env_get("PAI_CODE_BYTES");
	const char *number = env_get("PAI_CODE_PARTS");
	struct code_limits limits = { .entries = CODE_ENTRIES };
	int64_t parts;
	if (!env_get("PAI_CODE_SHA256"))
		return 0;
	if (!dir || *dir != '/' ||
	    parse_i64(span_of(bytes ? bytes : ""), 0, CODE_MACHINE, &limits.bytes) ||
	    parse_i64(span_of(number ? number : ""), 1, PARTS_MAX, &parts)) {
		(void)err_set(e, FAILED,
		              "PAI_CODE_DIR, PAI_CODE_BYTES and PAI_CODE_PARTS must be a path, a "
		              "number up to %" PRId64 " and a number from 1 to %d",
		              CODE_MACHINE, PARTS_MAX);
		return INIT_PERMANENT;
	}
	/* On one machine, results of this job can be mounted there. */
	const char *results = env_get("PAI_RESULTS_DIR");
	const char *slash = results ? strrchr(results, '/') : NULL;
	bool inside = slash && span_is((struct span){ results, (size_t)(slash - results) }, dir);
	const char *const kept[] = { inside ? slash + 1 : NULL, NULL };
	const char *to = arena_printf(in->a, "%s%s", in->at.root, dir);
	FD_AUTO fd = open(to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	/* Init runs again in a pod that was interrupted. */
	if (fd < 0 || clean_directory(to, kept) < 0) {
		(void)err_set(e, FAILED, "%s, for the code of the job, cannot be opened: %s", to,
		              strerror(errno));
		return INIT_FAILED;
	}
	if (code_unpack_into(in, fd, parts, &limits, e) == 0)
		return 0;
	(void)err_wrap(e, "the code of the job cannot be unpacked into %s", to);
	return e->http < 500 ? INIT_PERMANENT : INIT_FAILED;
}
