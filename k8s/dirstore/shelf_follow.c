/* Telling of Frameworks; see shelf.h. */
#include "k8s/dirstore/shelf_work.h"

#include "k8s/transport/paths.h"

void shelf_tell(const struct shelf *s, enum object_kind kind, const char *key, const json_t *object,
                bool gone)
{
	const struct local_follower *f = s->follower;
	if (!f || kind != KIND_FRAMEWORK || key_namespace(key).n > 0)
		return;
	STR_AUTO text = STR_INIT(FILE_SIZE_MAX);
	put_json(&text, object, JSON_COMPACT);
	if (!text.full)
		(gone ? f->remove : f->put)(s->follower_arg, str_view(&text));
}

static void tell_of(void *arg, const char *key)
{
	struct shelf *s = arg;
	JSON_OWN *object = NULL;
	if (shelf_load(s, KIND_FRAMEWORK, key, &object) == 0)
		shelf_tell(s, KIND_FRAMEWORK, key, object, false);
}

void shelf_follow(struct shelf *s, const struct local_follower *f, void *arg)
{
	struct selector all;
	s->follower = f;
	s->follower_arg = arg;
	if (selector_read(&all, NULL) == 0) /* always */
		index_each(s->index, KIND_FRAMEWORK, &all, tell_of, s);
}
