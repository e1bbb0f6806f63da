#include "server/logs/kubelet_text.h"

/* Kubernetes 1.20 to 1.36.  "rpc error" is what a container runtime answers for a container that
 * has been removed. */
static const char *const BEGINNINGS[] = {
	"unable to retrieve container logs for ",
	"failed to try resolving symlinks in path \"",
	"failed to open log file \"",
	"rpc error: code = ",
};
enum { N_BEGINNINGS = sizeof(BEGINNINGS) / sizeof(BEGINNINGS[0]) };

static bool may_become_one(struct span line)
{
	if (line.n > KUBELET_TEXT_MAX)
		return false;
	for (size_t i = 0; i < N_BEGINNINGS; i++) {
		size_t n = strlen(BEGINNINGS[i]);
		if (memcmp(line.p, BEGINNINGS[i], line.n < n ? line.n : n) == 0)
			return true;
	}
	return false;
}

size_t kubelet_text_begins(struct span text, bool within)
{
	const char *newline = text.n ? memrchr(text.p, '\n', text.n) : NULL;
	size_t begin = newline ? (size_t)(newline - text.p) + 1 : 0;
	if (begin == text.n || (within && !newline))
		return text.n;
	return may_become_one((struct span){ text.p + begin, text.n - begin }) ? begin : text.n;
}

static bool names(struct span line, const char *id)
{
	return id[0] && span_find(line, 0, id) != SIZE_MAX;
}

bool kubelet_text_is(struct span line, const char *pod_uid, const char *container_id)
{
	bool begins = false;
	for (size_t i = 0; i < N_BEGINNINGS; i++)
		begins = begins || span_starts(line, BEGINNINGS[i]);
	return begins && (names(line, pod_uid) || names(line, container_id));
}
