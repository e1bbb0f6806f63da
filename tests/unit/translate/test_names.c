/* Names and references. */
/* clang-format off */
#include "base/image/image.h"
#include "tests/unit/base/cmocka.h"
/* clang-format on */

#include "base/enc.h"
#include "translate/names.h"
#include "translate/translate.h"

enum { LONG = 600 };

/* n times the same character, of a static buffer. */
static struct span repeat(char c, size_t n)
{
	static char buf[LONG];
	memset(buf, c, n);
	return (struct span){ buf, n };
}

/* ---- users, jobs, roles --------------------------------------------------------------------- */

TEST(test_user_name_ok)
{
	static const char *const GOOD[] = { "alice", "a", "0", "A.b_c-d", "Alice9", NULL };
	static const char *const BAD[] = { "",    ".",   "..",  "a.",       "-a",  "a@b",
		                           "a/b", "a b", "a\n", "\xc3\xa9", "a~b", NULL };
	for (const char *const *s = GOOD; *s; s++)
		assert_true(user_name_ok(span_of(*s)));
	for (const char *const *s = BAD; *s; s++)
		assert_false(user_name_ok(span_of(*s)));
	assert_true(user_name_ok(repeat('a', 63)));
	assert_false(user_name_ok(repeat('a', 64)));
}

TEST(test_role_object)
{
	ARENA_AUTO a = { 0 };
	assert_string_equal(names_role_object(&a, SPAN("Task_Role.1~a-B")), "taskrole1ab");
	assert_string_equal(names_role_object(&a, SPAN("___")), "");
	assert_string_equal(names_role_object(&a, SPAN("__proto__")), "proto");
	assert_string_equal(names_role_object(&a, SPAN("t\xc3\xa9st")), "tst");
}

TEST(test_variable)
{
	ARENA_AUTO a = { 0 };
	assert_string_equal(names_variable(&a, SPAN("a~b.c-d_E1")), "a_b_c_d_E1");
}

TEST(test_identifier_ok)
{
	assert_true(names_identifier_ok(SPAN("_a1")));
	assert_false(names_identifier_ok(SPAN("1a")));
	assert_false(names_identifier_ok(SPAN("")));
	assert_false(names_identifier_ok(SPAN("a-b")));
	assert_false(names_identifier_ok(((struct span){ "a\0b", 3 })));
}

TEST(test_label_value_ok)
{
	assert_true(names_label_value_ok(SPAN("vc_1.A-b")));
	assert_false(names_label_value_ok(SPAN("")));
	assert_false(names_label_value_ok(SPAN("a b/c")));
	assert_false(names_label_value_ok(SPAN("a\n")));
	assert_false(names_label_value_ok(repeat('v', 64)));
}

TEST(test_storage_ok)
{
	assert_true(names_storage_ok(SPAN("nfs-storage1.a")));
	assert_false(names_storage_ok(SPAN("")));
	assert_false(names_storage_ok(SPAN("a/../b")));
	assert_false(names_storage_ok(SPAN("a..b")));
	assert_false(names_storage_ok(SPAN("a.-b")));
	assert_false(names_storage_ok(SPAN("Nfs")));
	assert_false(names_storage_ok(repeat('a', 254)));
}

/* ---- images ------------------------------------------------------------------------------------
 */

#define DIGEST "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

TEST(test_image_good)
{
	static const char *const GOOD[] = {
		"ubuntu",
		"a",
		"ubuntu:22.04",
		"openpai/pai.example.caffe",
		"openpai/standard:python_3.6-pytorch_1.2.0-gpu",
		"localhost/openpai/local_image",
		"localhost:5000/pai.run.tensorflow",
		"userprivateimage.azurecr.io/demo4pai:test",
		"Registry.Example.com:443/a/b__c/d--e:V1_.x-y",
		"USER/pai.example.pytorch",
		"[fe80::1]:5000/a",
		("ubuntu@" DIGEST),
		("a.b/c:tag@" DIGEST),
		NULL,
	};
	for (const char *const *s = GOOD; *s; s++)
		assert_null(image_problem(span_of(*s)));
}

TEST(test_image_bad)
{
	static const char *const BAD[] = {
		"",
		"$(id)",
		"a\nb",
		"../../x",
		"{{FC_POD_NAME}}",
		"a b",
		"<your image>",
		"Ubuntu",
		"a/",
		"/a",
		"a//b",
		"a:",
		"a:b:c",
		"a@sha256:0",
		("a@md5:" DIGEST),
		"a___b",
		"a..b",
		"-a",
		"a-",
		"a:-t",
		"h:0/a",
		"h:65536/a",
		"https://h/a",
		"a:\xc3\xa9",
		("a@" DIGEST "0"),
		"a/B",
		".h.x/a",
		"a:t@",
		"[::1/a",
		"[::1]x/a",
		"<% $parameters.x %>",
		NULL,
	};
	for (const char *const *s = BAD; *s; s++) {
		if (image_problem(span_of(*s)) == NULL)
			fail_msg("%s", *s);
	}
	assert_null(image_problem(repeat('a', 512)));
	assert_non_null(image_problem(repeat('a', 513)));
}

TEST(test_registry)
{
	static const char *const GOOD[] = {
		"docker.io", "uri", "10", "openpai.azurecr.io", "https://index.docker.io/v1/",
		"h:5000",    NULL
	};
	static const char *const BAD[] = { "http://h/",
		                           "https://u:p@h/",
		                           "https://h/?a=b",
		                           "https://h/#a",
		                           "a b",
		                           "https://",
		                           "ftp://h",
		                           "h\n",
		                           "{{FC_POD_NAME}}",
		                           "https://h/$(x)",
		                           NULL };
	for (const char *const *s = GOOD; *s; s++)
		assert_null(names_registry_problem(span_of(*s)));
	for (const char *const *s = BAD; *s; s++)
		assert_non_null(names_registry_problem(span_of(*s)));
}

/* ---- mount paths --------------------------------------------------------------------------------
 */

TEST(test_mount_path_good)
{
	static const char *const GOOD[] = { "/data",      "/data/",   "/mnt/a b", "/usr/local/lib",
		                            "/usr/share", "/var/lib", "/runs",    "/device",
		                            "/etcetera",  "/tmp",     "/home",    "/a/...",
		                            "/\xc3\xa9",  NULL };
	for (const char *const *s = GOOD; *s; s++) {
		if (names_mount_path_problem(span_of(*s)))
			fail_msg("%s %s", *s, names_mount_path_problem(span_of(*s)));
	}
}

TEST(test_mount_path_reserved)
{
	static const char *const BAD[] = {
		"/",
		"/proc",
		"/proc/1",
		"/sys/",
		"/dev/shm",
		"/etc/ssl",
		"/var/run/x",
		"/run",
		"/usr/local/pai",
		"/usr/local/pai/logs",
		"/usr/local/paiX",
		"/usr/local/pai*x/y",
		"/usr/local",
		"/usr",
		"/var",
		NULL,
	};
	for (const char *const *s = BAD; *s; s++)
		assert_non_null(strstr(names_mount_path_problem(span_of(*s)), "reserved"));
}

TEST(test_mount_path_bad)
{
	static const char *const BAD[] = {
		"",
		"data",
		"/a/../b",
		"/usr/local/x/../pai",
		"//usr//local/pai",
		"/a/./b",
		"/a\nb",
		"/a:b",
		"/a\\b",
		"/{{FC_TASKROLE_NAME}}",
		"/$(X)",
		"/\xc2\x85",
		"/\xe2\x80\xae\xe2\x80\xac",
		"/a//",
		"/..",
		"/a\x7f",
		NULL,
	};
	for (const char *const *s = BAD; *s; s++)
		assert_non_null(names_mount_path_problem(span_of(*s)));
}

TEST(test_mount_path_too_long)
{
	static char path[LONG];
	memset(path, 'a', sizeof(path));
	path[0] = '/';
	assert_null(names_mount_path_problem((struct span){ path, 512 }));
	assert_non_null(names_mount_path_problem((struct span){ path, 513 }));
}
