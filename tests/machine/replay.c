/*
 * replay [--config-dir DIR] FILE...
 *
 * Feeds the stimuli of recorded traces to the machine.  For each step it prints a line with the
 * number and what is there then, in the form of the traces, and compares that, the transitions of
 * the Framework and of each task, and the objects that were created and deleted, with the record.
 * Where that depends on chance, the record says so, and the comparison follows its rules:
 *
 * - race: pods that go at once.  The controller may see that such a pod is dying, or only that it
 *   is gone; so a task may pass AttemptDeleting, and the diagnostics of -101 have two texts.
 * - how many updates of the status there are, and the order of requests for different objects, is
 *   not compared.
 * - nondeterministic: a second recording ended otherwise, as a sync may still go by the spec before
 *   a patch.  Which spec the first sync of such a step sees is taken from the record.
 *
 * Exit status: enum trace_result of the worst file.
 */
#include "tests/machine/replay.h"

static int replay_trace(const char *file, json_t *trace, const struct framework_config *config)
{
	struct stage st;
	struct comparison c;
	ERR_AUTO e = { 0 };
	size_t i;
	json_t *step;
	stage_begin(&st, config, trace);
	compare_begin(&c, file, &st.scene);
	c.shows = true;
	json_array_foreach (json_object_get(trace, "steps"), i, step) {
		if (stage_play(&st, step, &e) < 0) {
			JSON_AUTO *says = json_string(err_msg(&e));
			compare_differ(&c, "cannot be played", "", NULL, says);
		} else {
			compare_step(&c, true);
		}
		if (c.different)
			break;
	}
	bool different = c.different;
	compare_end(&c);
	stage_end(&st);
	return different ? TRACE_DIFFERENT : TRACE_EQUAL;
}

int main(int argc, char **argv)
{
	return trace_main(argc, argv, replay_trace);
}
