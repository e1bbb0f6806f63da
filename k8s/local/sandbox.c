#include "k8s/local/sandbox.h"

char **sandbox_argv(const struct sandbox_spec *spec, struct arena *a, struct err *e)
{
	(void)spec;
	(void)a;
	(void)err_set(e, NOT_IMPLEMENTED, "there is no sandbox yet");
	return NULL;
}

const char **sandbox_hide_default(struct arena *a)
{
	return ARENA_NEW(a, const char *, 1);
}

bool sandbox_hidden(const char *path, const char *const *dirs, size_t n)
{
	(void)path;
	(void)dirs;
	(void)n;
	return false;
}

int sandbox_probe(struct err *e)
{
	return err_set(e, UNAVAILABLE, "there is no sandbox yet");
}

int sandbox_probe_overlay(const char *runtime, const char *dir, struct err *e)
{
	(void)runtime;
	(void)dir;
	return err_set(e, UNAVAILABLE, "there is no sandbox yet");
}
