/* What is kept of a Framework: a tree of the members that are copied. */
#include "base/json/scan.h"
#include "k8s/cache/cached_parts.h"

/* Of a list: of each of its items. */
struct keep {
	struct span key;
	const struct keep *members; /* NULL: all of it */
};
#define ALL(name)                                                                                  \
	{                                                                                          \
		{ name, sizeof(name) - 1 }, NULL                                                   \
	}
#define ONLY(name, within)                                                                         \
	{                                                                                          \
		{ name, sizeof(name) - 1 }, within                                                 \
	}
#define END                                                                                        \
	{                                                                                          \
		{ NULL, 0 }, NULL                                                                  \
	}

static const struct keep METADATA[] = {
	ALL("name"),   ALL("namespace"),         ALL("uid"),         ALL("resourceVersion"),
	ALL("labels"), ALL("creationTimestamp"), ALL("annotations"), ALL("deletionTimestamp"),
	END,
};
static const struct keep POD_METADATA[] = { ALL("labels"), ALL("annotations"), END };
static const struct keep RESOURCES[] = { ALL("limits"), END };
static const struct keep CONTAINER[] = { ALL("name"), ONLY("resources", RESOURCES), END };
static const struct keep POD_SPEC[] = {
	ONLY("containers", CONTAINER),
	ONLY("initContainers", CONTAINER),
	ALL("hostNetwork"),
	ALL("schedulerName"),
	END,
};
static const struct keep POD[] = {
	ONLY("metadata", POD_METADATA),
	ONLY("spec", POD_SPEC),
	END,
};
static const struct keep TASK[] = {
	ALL("retryPolicy"),
	ALL("podGracefulDeletionTimeoutSec"),
	ONLY("pod", POD),
	END,
};
static const struct keep ROLE[] = {
	ALL("name"), ALL("taskNumber"), ALL("frameworkAttemptCompletionPolicy"), ONLY("task", TASK),
	END,
};
static const struct keep SPEC[] = {
	ALL("executionType"),
	ALL("retryPolicy"),
	ONLY("taskRoles", ROLE),
	END,
};
static const struct keep FRAMEWORK[] = {
	ONLY("metadata", METADATA),
	ONLY("spec", SPEC),
	ALL("status"),
	END,
};

static const struct keep *kept(const struct keep *keep, struct span key)
{
	for (; keep->key.p; keep++) {
		if (span_eq(keep->key, key))
			return keep;
	}
	return NULL;
}

static void trim(struct str *out, struct scan *s, const struct keep *members);

static void trim_object(struct str *out, struct scan *s, const struct keep *members)
{
	struct span key;
	struct span dropped;
	bool first = true;
	str_char(out, '{');
	while (scan_key(s, &key)) {
		const struct keep *k = kept(members, key);
		if (!k) {
			(void)scan_value(s, &dropped); /* if there is none, the walk is over */
			continue;
		}
		str_puts(out, first ? "\"" : ",\"");
		str_span(out, key);
		str_puts(out, "\":");
		trim(out, s, k->members);
		first = false;
	}
	str_char(out, '}');
}

static void trim_list(struct str *out, struct scan *s, const struct keep *members)
{
	bool first = true;
	str_char(out, '[');
	while (scan_more(s)) {
		if (!first)
			str_char(out, ',');
		trim(out, s, scan_peek(s) == SCAN_OBJECT ? members : NULL);
		first = false;
	}
	str_char(out, ']');
}

/* The value that is next.  As deep as the tables: a list directly in a list is copied. */
static void trim(struct str *out, struct scan *s, const struct keep *members)
{
	struct scan inner = scan_enter(s);
	struct span value;
	if (members && inner.open == '{')
		trim_object(out, &inner, members);
	else if (members && inner.open == '[')
		trim_list(out, &inner, members);
	else {
		str_span(out, scan_value(s, &value) ? value : SPAN("null"));
		return;
	}
	scan_leave(s, &inner);
}

void cached_trim(struct str *out, struct span object)
{
	struct scan s = { object.p, object.p + object.n, '\0' };
	trim(out, &s, FRAMEWORK);
}
