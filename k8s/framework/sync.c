#include "k8s/framework/framework.h"

#include <stdlib.h>

struct framework_config {
	bool compress;
};

struct framework {
	const struct framework_config *config;
};

struct framework_config *framework_config_read(struct span yaml, struct err *e)
{
	(void)yaml;
	err_set(e, NOT_IMPLEMENTED, "the configuration of the machine cannot be read yet");
	return NULL;
}

void framework_config_free(struct framework_config *c)
{
	free(c);
}

struct framework *framework_new(const struct framework_config *c)
{
	struct framework *f = xcalloc(1, sizeof(*f));
	f->config = c;
	return f;
}

void framework_free(struct framework *f)
{
	free(f);
}

int framework_put(struct framework *f, struct span object, struct err *e)
{
	(void)f;
	(void)object;
	return err_set(e, NOT_IMPLEMENTED, "Frameworks cannot be read yet");
}

const char *framework_state(const struct framework *f)
{
	(void)f;
	return "";
}

void framework_status_write(const struct framework *f, struct str *out)
{
	(void)f;
	str_puts(out, "null");
}

void framework_sync(struct framework *f, const struct framework_world *w, int64_t now_s,
                    uint64_t random, struct framework_result *result)
{
	(void)f;
	(void)w;
	(void)now_s;
	(void)random;
	*result = (struct framework_result){ .wake_s = INT64_MAX };
}
