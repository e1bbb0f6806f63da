#include "k8s/local/images.h"

int images_probe(struct err *e)
{
	return err_set(e, UNAVAILABLE, "images cannot be pulled yet");
}

struct images *images_new(const char *dir, const struct images_limits *limits, struct err *e)
{
	(void)dir;
	(void)limits;
	(void)err_set(e, NOT_IMPLEMENTED, "images cannot be pulled yet");
	return NULL;
}

int images_fd(const struct images *m)
{
	(void)m;
	return -1;
}

int images_timeout_ms(const struct images *m)
{
	(void)m;
	return -1;
}

void images_run_once(struct images *m)
{
	(void)m;
}

struct images_use *images_want(struct images *m, struct span image, struct span auth,
                               enum images_policy policy, void (*changed)(void *arg), void *arg)
{
	(void)m;
	(void)image;
	(void)auth;
	(void)policy;
	(void)changed;
	(void)arg;
	return NULL;
}

const struct images_status *images_status(struct images_use *u)
{
	(void)u;
	return NULL;
}

int images_lock_fd(const struct images_use *u)
{
	(void)u;
	return -1;
}

void images_release(struct images_use *u)
{
	(void)u;
}

void images_free(struct images *m)
{
	(void)m;
}
