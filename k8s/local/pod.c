#include "k8s/local/pod.h"

struct pod *pod_read(struct span object, const struct pod_settings *s, struct arena *a,
                     struct err *e)
{
	(void)object;
	(void)s;
	(void)a;
	(void)err_set(e, NOT_IMPLEMENTED, "pods cannot be read yet");
	return NULL;
}
