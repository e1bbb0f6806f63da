/* The requests of a reflector, and what it passes on; test_watch.c has the rules. */
#include "tests/unit/base/cmocka.h"
#include "tests/unit/k8s/api_kit.h"

#include "k8s/watch/reflector.h"

#define CHUNK_HEAD "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"
#define POD(version)                                                                               \
	"{\"metadata\":{\"name\":\"p\",\"uid\":\"u\",\"resourceVersion\":\"" version "\","         \
	"\"ownerReferences\":[{\"uid\":\"o\",\"controller\":true}]},\"spec\":{\"x\":\"" PAD "\"}}"
#define PAD "0123456789012345678901234567890123456789012345678901234567890123456789"
#define STREAM                                                                                     \
	"{\"type\":\"ADDED\",\"object\":" POD(                                                     \
	    "5") "}\n"                                                                             \
		 "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"7\","     \
		 "\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}}}}\n"                   \
		 "{\"type\":\"DELETED\",\"object\":" POD("8") "}\n"
#define LIST "{\"metadata\":{\"resourceVersion\":\"7\"},\"items\":[" POD("5") "]}"

struct heard {
	pthread_mutex_t lock;
	struct str text;
	bool ended;
};

static void hear(struct heard *h, const char *what, struct span object)
{
	assert_int_equal(pthread_mutex_lock(&h->lock), 0);
	str_printf(&h->text, "%s%.*s|", what, (int)object.n, object.p);
	h->ended = h->ended || strcmp(what, "end") == 0;
	assert_int_equal(pthread_mutex_unlock(&h->lock), 0);
}

static void hear_begin(void *arg)
{
	hear(arg, "begin", SPAN(""));
}

static void hear_end(void *arg, int64_t version)
{
	assert_int_equal(version, 7);
	hear(arg, "end", SPAN(""));
}

static void hear_put(void *arg, struct span object)
{
	hear(arg, "put ", object);
}

static void hear_gone(void *arg, struct span object)
{
	hear(arg, "gone ", object);
}

static void hear_seen(void *arg, int64_t version)
{
	(void)arg;
	(void)version;
}

static void hear_trouble(void *arg, const char *why, bool absent)
{
	(void)absent;
	hear(arg, "trouble ", span_of(why ? why : "over"));
}

/* Waits for this text. */
static void wait_for(struct heard *h, const char *text)
{
	int64_t end_ms = clock_ms() + AMPLE_MS;
	bool found = false;
	while (!found && clock_ms() < end_ms) {
		clock_sleep(2);
		assert_int_equal(pthread_mutex_lock(&h->lock), 0);
		found = strstr(str_c(&h->text), text) != NULL;
		assert_int_equal(pthread_mutex_unlock(&h->lock), 0);
	}
	if (!found)
		fail_msg("%s is not in %s", text, str_c(&h->text));
}

static struct reflector *follow(struct heard *h, const char *namespace_name, bool metadata,
                                size_t max_object)
{
	const struct reflector_settings s = { .login = login,
		                              .namespace_name = namespace_name,
		                              .kind = KIND_POD,
		                              .metadata = metadata,
		                              .page = 500,
		                              .max_object = max_object,
		                              .begin = hear_begin,
		                              .end = hear_end,
		                              .put = hear_put,
		                              .remove = hear_gone,
		                              .seen = hear_seen,
		                              .trouble = hear_trouble,
		                              .arg = h };
	*h = (struct heard){ .lock = PTHREAD_MUTEX_INITIALIZER, .text = STR_INIT(1 << 16) };
	struct reflector *r = reflector_new(&s, no_err());
	assert_string_equal(err_msg(&unit.e), "");
	return r;
}

TEST(test_reflector_follows_all_namespaces)
{
	struct heard h;
	START({ CUT, CHUNK_HEAD STREAM }, { HANG, "" });
	struct reflector *r = follow(&h, NULL, false, 1 << 20);
	wait_for(&h, "gone");
	reflector_free(r);
	assert_string_equal(str_c(&h.text), "begin|put " POD("5") "|end|gone " POD("8") "|");
	sent(0, "GET /api/v1/pods?watch=true&");
	sent(0, "Accept: application/json\r\n");
	str_done(&h.text);
}

/* An API server that cannot give metadata alone may send whole objects. */
TEST(test_reflector_asks_for_metadata_alone)
{
	struct heard h;
	START({ ANSWER, EMPTY("422 Unprocessable Entity") }, { CUT, CHUNK_HEAD LIST },
	      { CUT, CHUNK_HEAD }, { HANG, "" });
	struct reflector *r = follow(&h, "jobs", true, 1 << 20);
	wait_for(&h, "end");
	while (server.requests < 3)
		clock_sleep(2);
	reflector_free(r);
	sent(0, "GET /api/v1/namespaces/jobs/pods?watch=true&");
	sent(0, "Accept: application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1, "
	        "application/json\r\n");
	sent(1, "GET /api/v1/namespaces/jobs/pods?limit=500");
	sent(1, "Accept: application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1, "
	        "application/json\r\n");
	sent(2, "&resourceVersion=7");
	sent(2, "Accept: application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1, "
	        "application/json\r\n");
	str_done(&h.text);
}

/* Of a pod that is too large all of the metadata comes, with its owner. */
TEST(test_reflector_cuts_large_objects_to_their_metadata)
{
	struct heard h;
	START({ CUT, CHUNK_HEAD STREAM }, { HANG, "" });
	struct reflector *r =
	    follow(&h, "jobs", false, sizeof("{\"type\":\"DELETED\",\"object\":" POD("8")) - 20);
	wait_for(&h, "gone");
	reflector_free(r);
	wait_for(&h, "put {\"metadata\":{\"name\":\"p\",\"uid\":\"u\",\"resourceVersion\":\"5\","
	             "\"ownerReferences\":[{\"uid\":\"o\",\"controller\":true}]},"
	             "\"status\":\"too large\"}|end|gone {\"metadata\":{\"name\":\"p\","
	             "\"uid\":\"u\",\"resourceVersion\":\"8\"");
	str_done(&h.text);
}

TEST(test_reflector_tells_where_it_has_trouble)
{
	struct heard h;
	START({ ANSWER, EMPTY("403 Forbidden") });
	struct reflector *r = follow(&h, NULL, false, 1 << 20);
	wait_for(&h, "trouble watch pods in all namespaces: HTTP status 403");
	reflector_free(r);
	str_done(&h.text);
}
