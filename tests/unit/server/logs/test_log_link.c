/* Links to logs: valid as written, and for no other log. */

#include "tests/unit/base/cmocka.h"

#include "base/enc.h"
#include "server/logs/logs_internal.h"

enum { NOW = 1700000000, LIFETIME = 300 };

static struct log_signing signing(int64_t now_s)
{
	struct log_signing by = { .now_s = now_s };
	memset(by.key, 'k', sizeof(by.key));
	return by;
}

static struct log_link example(void)
{
	return (struct log_link){
		.job = SPAN("alice~sleep"),
		.attempt = SPAN("2"),
		.role = SPAN("worker"),
		.index = SPAN("10"),
		.retry = SPAN("3"),
		.file = SPAN("all"),
		.framework = "8a9a8b2ae8a9a8b2ae8a9a8b2ae8a9a8",
		.framework_uid = "5fbc3eb2-f7c1-4fbd-91f7-a2601f1f41e0",
		.pod_uid = "369c50f6-8979-43c4-a127-670ffd297ae9",
		.user = "bob",
		.expires_s = NOW + LIFETIME,
	};
}

static const char *const PATH =
    "/rest-server/api/v2/jobs/alice~sleep/attempts/2/taskRoles/worker/taskIndex/10/attempts/3"
    "/logs/all?token=";

/* The token of a link. */
static const char *token_of(const struct log_link *l, struct arena *a)
{
	STR_AUTO out = STR_INIT(8192);
	const struct log_signing by = signing(NOW);
	log_link_write(&out, &by, l);
	return strchr(arena_dup(a, str_view(&out)), '=') + 1;
}

/* Reads the token for the path of `l`; returns the status, 0 if the token is valid. */
static int read_status(struct log_link *l, struct span token, int64_t now_s, struct arena *a)
{
	struct log_link path = *l;
	path.framework = path.framework_uid = path.pod_uid = path.user = NULL;
	path.tail = false;
	path.expires_s = 0;
	const struct log_signing by = signing(now_s);
	int rc = log_link_read(&path, token, &by, a, no_err());
	if (rc == 0)
		*l = path;
	else
		assert_string_equal(unit.e.code, "ForbiddenUserError");
	return rc == 0 ? 0 : unit.e.http;
}

TEST(test_log_link_is_read_back)
{
	STR_AUTO out = STR_INIT(8192);
	struct log_link l = example();
	l.tail = true;
	const struct log_signing by = signing(NOW);
	log_link_write(&out, &by, &l);
	assert_true(span_starts(str_view(&out), PATH));
	for (size_t i = 0; i < out.n; i++)
		assert_true(out.p[i] > ' ' && out.p[i] <= '~' && out.p[i] != '"' &&
		            out.p[i] != '\\');
	struct log_link got = example();
	assert_int_equal(read_status(&got, span_of(token_of(&l, &unit.a)), NOW, &unit.a), 0);
	assert_string_equal(got.framework, l.framework);
	assert_string_equal(got.framework_uid, l.framework_uid);
	assert_string_equal(got.pod_uid, l.pod_uid);
	assert_string_equal(got.user, "bob");
	assert_true(got.tail);
	assert_int_equal(got.expires_s, NOW + LIFETIME);
}

/* The token of another path is invalid for this one. */
TEST(test_log_link_refuses_an_altered_path)
{
	struct log_link l = example();
	const char *token = token_of(&l, &unit.a);
	struct span *const parts[] = { &l.job, &l.attempt, &l.role, &l.index, &l.retry, &l.file };
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		struct span was = *parts[i];
		*parts[i] = SPAN("1");
		assert_int_equal(read_status(&l, span_of(token), NOW, &unit.a), 403);
		*parts[i] = (struct span){ was.p, was.n - 1 };
		assert_int_equal(read_status(&l, span_of(token), NOW, &unit.a), 403);
		*parts[i] = was;
		assert_int_equal(read_status(&l, span_of(token), NOW, &unit.a), 0);
	}
	/* Nor does what only looks the same when it stands in a row. */
	l.index = SPAN("1");
	l.retry = SPAN("03");
	assert_int_equal(read_status(&l, span_of(token), NOW, &unit.a), 403);
}

/* Every bit of the token counts: each field of it is signed. */
TEST(test_log_link_refuses_an_altered_token)
{
	struct log_link l = example();
	char *token = arena_dup(&unit.a, span_of(token_of(&l, &unit.a)));
	size_t n = strlen(token);
	for (size_t i = 0; i + 1 < n; i++) { /* the last digit may have bits that say nothing */
		char was = token[i];
		token[i] = was == 'A' ? 'B' : 'A';
		assert_int_equal(read_status(&l, span_of(token), NOW, &unit.a), 403);
		token[i] = was;
	}
	for (size_t i = 0; i < n; i++)
		assert_int_equal(read_status(&l, (struct span){ token, i }, NOW, &unit.a), 403);
	assert_int_equal(read_status(&l, span_of(token), NOW, &unit.a), 0);
}

TEST(test_log_link_expires_after_its_lifetime)
{
	struct log_link l = example();
	struct log_link path = l;
	struct span token = span_of(token_of(&l, &unit.a));
	assert_int_equal(read_status(&l, token, NOW + LIFETIME - 1, &unit.a), 0);
	assert_int_equal(read_status(&l, token, NOW + LIFETIME, &unit.a), 403);
	const struct log_signing by = signing(NOW + LIFETIME);
	(void)log_link_read(&path, token, &by, &unit.a, no_err());
	assert_non_null(strstr(err_msg(&unit.e), "expired"));
}

TEST(test_log_link_refuses_another_key)
{
	struct log_link l = example();
	struct log_signing by = signing(NOW);
	by.key[31] ^= 1;
	assert_int_equal(log_link_read(&l, span_of(token_of(&l, &unit.a)), &by, &unit.a, no_err()),
	                 -1);
	assert_int_equal(unit.e.http, 403);
}

TEST(test_log_link_refuses_text_that_is_no_token)
{
	struct log_link l = example();
	static char large[10000];
	memset(large, 'A', sizeof(large) - 1);
	const char *const none[] = { "",   "A", "AAAA", "!!!!", "eyJhbGciOiJIUzI1NiJ9.eyJ1Ijoib",
		                     large };
	for (size_t i = 0; i < ARRAY_SIZE(none); i++)
		assert_int_equal(read_status(&l, span_of(none[i]), NOW, &unit.a), 403);
}

/* Segments of the path are percent-encoded. */
TEST(test_log_link_encodes_its_path)
{
	STR_AUTO out = STR_INIT(8192);
	struct log_link l = example();
	l.job = SPAN("a b?/\"%");
	const struct log_signing by = signing(NOW);
	log_link_write(&out, &by, &l);
	assert_true(
	    span_starts(str_view(&out), "/rest-server/api/v2/jobs/a%20b%3F%2F%22%25/attempts/2/"));
}
