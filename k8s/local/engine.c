#include "k8s/local/engine.h"

struct engine {
	struct engine_settings set;
};

struct engine *engine_start(const struct engine_settings *settings, struct err *e)
{
	(void)settings;
	(void)err_set(e, UNKNOWN_ERROR, "this build has no engine");
	return NULL;
}

void engine_put(struct engine *e, struct span framework)
{
	(void)e;
	(void)framework;
}

void engine_remove(struct engine *e, struct span framework)
{
	(void)e;
	(void)framework;
}

void engine_started(struct engine *e)
{
	(void)e;
}

void engine_kill(struct engine *e)
{
	(void)e;
}

bool engine_waiting(struct engine *e, struct span framework_uid, struct arena *a, struct span *why)
{
	(void)e;
	(void)framework_uid;
	(void)a;
	(void)why;
	return false;
}

bool engine_log_find(struct engine *e, const struct engine_task *t, struct arena *a,
                     struct engine_log *out)
{
	(void)e;
	(void)t;
	(void)a;
	(void)out;
	return false;
}

bool engine_log_of_pod(struct engine *e, struct span pod, struct arena *a, struct engine_log *out)
{
	(void)e;
	(void)pod;
	(void)a;
	(void)out;
	return false;
}

void engine_describe(struct engine *e, struct str *out)
{
	(void)e;
	(void)out;
}

void engine_stop(struct engine *e)
{
	(void)e;
}
