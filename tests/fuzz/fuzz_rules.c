/*
 * Any objects and answers for the rules of the controller: a line is an event, an answer to the
 * oldest request that has none, a list, or time that passes; its first character says which.
 * Whatever comes, requests have names, POSTs and PATCHes have bodies that are JSON, and each DELETE
 * has a uid.
 */
#include "base/json/scan.h"
#include "k8s/controller/rules/rules.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/lines.h"

enum { OPEN_MOST = 256, STEPS_MOST = 64, JUMP_MS = 20000 };

struct scene {
	struct rules *r;
	struct rules_time now;
	uint64_t random;
	void *open[OPEN_MOST]; /* requests, the oldest first */
	size_t n;
};

static uint64_t scene_random(void *arg)
{
	struct scene *s = arg;
	return s->random = s->random * 6364136223846793005u + 1442695040888963407u;
}

static void scene_notice(void *arg, const struct rules_notice *n)
{
	(void)arg;
	assert(n->name[0] && n->reason[0] && n->message[0]);
}

static void scene_send(struct scene *s)
{
	struct store_request r;
	for (int i = 0; i < STEPS_MOST && s->n < OPEN_MOST && rules_next(s->r, &s->now, &r); i++) {
		bool writes = r.verb == STORE_CREATE || r.verb == STORE_PATCH;
		assert(r.name || r.kind == KIND_ACCESS_REVIEW);
		assert(!writes || scan_valid(r.body[0], SCAN_DEPTH_MAX));
		assert(r.verb != STORE_DELETE || r.uid);
		s->open[s->n++] = r.arg;
	}
}

static void scene_answer(struct scene *s, enum store_outcome outcome, int status, struct span body)
{
	ARENA_AUTO a = { 0 };
	if (s->n == 0)
		return;
	void *request = s->open[0];
	memmove(s->open, s->open + 1, --s->n * sizeof(*s->open));
	const struct store_reply reply = {
		.outcome = outcome,
		.status = status,
		.body = body,
		.uid = scan_text(scan_path(body, "metadata", "uid"), &a),
		.message = SPAN("why"),
	};
	rules_answer(s->r, &s->now, request, &reply);
}

static void scene_line(struct scene *s, char what, struct span json)
{
	static const struct {
		char what;
		enum object_kind kind;
		bool gone;
	} EVENTS[] = {
		{ 'F', KIND_FRAMEWORK, false }, { 'f', KIND_FRAMEWORK, true },
		{ 'C', KIND_CONFIGMAP, false }, { 'c', KIND_CONFIGMAP, true },
		{ 'P', KIND_POD, false },       { 'p', KIND_POD, true },
	};
	static const struct {
		char what;
		enum store_outcome outcome;
		int status;
	} ANSWERS[] = {
		{ 'A', STORE_OK, 200 },      { 'N', STORE_NOT_FOUND, 404 },
		{ 'I', STORE_REFUSED, 422 }, { 'R', STORE_REFUSED, 403 },
		{ 'E', STORE_EXISTS, 409 },  { 'B', STORE_BUSY, 503 },
		{ 'X', STORE_AMBIGUOUS, 0 }, { 'V', STORE_CONFLICT, 409 },
	};
	bool valid = scan_type(json) == SCAN_OBJECT && scan_valid(json, SCAN_DEPTH_MAX);
	for (size_t i = 0; i < ARRAY_SIZE(EVENTS); i++)
		if (valid && EVENTS[i].what == what)
			(EVENTS[i].gone ? rules_gone : rules_put)(s->r, &s->now, EVENTS[i].kind,
			                                          json);
	for (size_t i = 0; i < ARRAY_SIZE(ANSWERS); i++)
		if (ANSWERS[i].what == what && (valid || what != 'A'))
			scene_answer(s, ANSWERS[i].outcome, ANSWERS[i].status,
			             valid ? json : SPAN("{}"));
	if (what == 'T') {
		s->now.ms += JUMP_MS;
		s->now.wall_ms += JUMP_MS;
	} else if (what == 'L') {
		rules_list_begin(s->r, KIND_POD);
		rules_list_end(s->r, &s->now, KIND_POD);
	}
}

FUZZ(text)
{
	static const enum object_kind KINDS[] = { KIND_FRAMEWORK, KIND_CONFIGMAP, KIND_POD };
	ERR_AUTO e = { 0 };
	struct rules_counts counts = { 0 };
	struct framework_config *config = framework_config_read(SPAN(""), &e);
	struct scene s = { .now = { 1000, 1600000000000 } };
	assert(config);
	s.r = rules_new(&(struct rules_settings){ .config = config,
	                                          .identity = "me",
	                                          .counts = &counts,
	                                          .random = scene_random,
	                                          .notice = scene_notice,
	                                          .arg = &s });
	for (size_t i = 0; i < ARRAY_SIZE(KINDS); i++) {
		rules_list_begin(s.r, KINDS[i]);
		rules_list_end(s.r, &s.now, KINDS[i]);
	}
	while (text.n > 0) {
		struct span line = span_next(&text, '\n');
		if (line.n)
			scene_line(&s, line.p[0], span_trim(span_from(line, 1)));
		scene_send(&s);
	}
	while (s.n > 0)
		scene_answer(&s, STORE_BUSY, 503, SPAN("{}"));
	rules_free(s.r);
	framework_config_free(config);
}
