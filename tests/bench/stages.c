#include "tests/bench/stages.h"

#include <stdio.h>
#include <stdlib.h>
#include <yaml.h>

#include "base/object.h"
#include "schema/schema.h"

const char *const STAGE_NAMES[STAGE_MAX] = { "libyaml", "read", "schema", "render", "write" };

static void give_up(const struct err *e)
{
	(void)printf("refused: %s\n0 passed, 1 failed\n", err_msg(e));
	exit(1); /* NOLINT(concurrency-mt-unsafe): one thread */
}

static void events(struct span text)
{
	yaml_parser_t parser;
	yaml_event_t event;
	bool done = false;
	(void)yaml_parser_initialize(&parser);
	yaml_parser_set_input_string(&parser, (const unsigned char *)text.p, text.n);
	while (!done && yaml_parser_parse(&parser, &event)) {
		done = event.type == YAML_STREAM_END_EVENT;
		yaml_event_delete(&event);
	}
	yaml_parser_delete(&parser);
}

static void read_and_check(enum stage stage, struct span text, struct arena *a)
{
	static const char *const SECRET[] = { "secrets", NULL };
	ERR_AUTO e = { 0 };
	struct doc doc = { 0 };
	if (doc_read(text, &BUDGET_DEFAULT, a, &doc, NULL, &e))
		give_up(&e);
	if (stage == STAGE_SCHEMA &&
	    schema_check(schema_get(SCHEMA_V2), &doc.root, "InvalidProtocolError", SECRET, &e))
		give_up(&e);
}

static size_t translate(enum stage stage, const struct setting *s, struct span text,
                        struct arena *a)
{
	ERR_AUTO e = { 0 };
	NOTES_AUTO warnings = { 0 };
	struct objects objects = { 0 };
	struct job *job = job_read(s->translator, DIALECTS_ALL, text, TEST_USER, a, &warnings, &e);
	if (!job)
		give_up(&e);
	if (stage == STAGE_WRITE && job_build(s->translator, job, &s->facts, NULL, a, &objects, &e))
		give_up(&e);
	size_t n = 0;
	for (size_t i = 0; i < objects.n; i++)
		n += objects.v[i].body.n;
	return n;
}

struct stage_result stage_run(enum stage stage, const struct setting *s, struct span text)
{
	ARENA_AUTO a = { 0 };
	struct stage_result r = { 0 };
	if (stage == STAGE_EVENTS)
		events(text);
	else if (stage <= STAGE_SCHEMA)
		read_and_check(stage, text, &a);
	else
		r.out = translate(stage, s, text, &a);
	r.arena = a.used;
	return r;
}
