/* Names and references. */
#include "tests/unit/base/cmocka.h"

#include "base/image/image.h"
#include "translate/job/names.h"
#include "translate/translate.h"

enum { LONG = 600 };

#define DIGEST "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

/* Names that a check accepts and refuses.  longest: this number of the character is accepted (in a
 * path after a slash), one more is refused; 0: there is no limit. */
static const struct {
	bool (*ok)(struct span name);
	const char *(*problem)(struct span name); /* NULL: ok is the check */
	size_t longest;
	char of;
	const char *good[16], *bad[32];
} CHECKS[] = {
	{ user_name_ok,
	  NULL,
	  63,
	  'a',
	  { "alice", "a", "0", "A.b_c-d", "Alice9" },
	  { "", ".", "..", "a.", "-a", "a@b", "a/b", "a b", "a\n", "\xc3\xa9", "a~b" } },
	{ names_label_value_ok, NULL, 63, 'v', { "vc_1.A-b" }, { "", "a b/c", "a\n" } },
	{ names_identifier_ok, NULL, 0, 0, { "_a1" }, { "1a", "", "a-b" } },
	{ names_storage_ok,
	  NULL,
	  253,
	  'a',
	  { "nfs-storage1.a" },
	  { "", "a/../b", "a..b", "a.-b", "Nfs" } },
	{ NULL,
	  image_problem,
	  512,
	  'a',
	  { "ubuntu", "a", "ubuntu:22.04", "openpai/pai.example.caffe",
	    "openpai/standard:python_3.6-pytorch_1.2.0-gpu", "localhost/openpai/local_image",
	    "localhost:5000/pai.run.tensorflow", "userprivateimage.azurecr.io/demo4pai:test",
	    "Registry.Example.com:443/a/b__c/d--e:V1_.x-y", "USER/pai.example.pytorch",
	    "[fe80::1]:5000/a", ("ubuntu@" DIGEST), ("a.b/c:tag@" DIGEST) },
	  { "",
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
	    "<% $parameters.x %>" } },
	{ NULL,
	  names_registry_problem,
	  0,
	  0,
	  { "docker.io", "uri", "10", "openpai.azurecr.io", "https://index.docker.io/v1/",
	    "h:5000" },
	  { "http://h/", "https://u:p@h/", "https://h/?a=b", "https://h/#a", "a b", "https://",
	    "ftp://h", "h\n", "{{FC_POD_NAME}}", "https://h/$(x)" } },
	{ NULL,
	  names_mount_path_problem,
	  512,
	  '/',
	  { "/data", "/data/", "/mnt/a b", "/usr/local/lib", "/usr/share", "/var/lib", "/runs",
	    "/device", "/etcetera", "/tmp", "/home", "/a/...", "/\xc3\xa9" },
	  { "", "data", "/a/../b", "/usr/local/x/../pai", "//usr//local/pai", "/a/./b", "/a\nb",
	    "/a:b", "/a\\b", "/{{FC_TASKROLE_NAME}}", "/$(X)", "/\xc2\x85",
	    "/\xe2\x80\xae\xe2\x80\xac", "/a//", "/..", "/a\x7f" } },
};

static bool takes(size_t check, struct span name)
{
	return CHECKS[check].ok ? CHECKS[check].ok(name) : !CHECKS[check].problem(name);
}

TEST(test_names_are_checked_up_to_their_longest)
{
	for (size_t i = 0; i < ARRAY_SIZE(CHECKS); i++) {
		char text[LONG];
		size_t longest = CHECKS[i].longest;
		for (const char *const *s = CHECKS[i].good; *s; s++)
			if (!takes(i, span_of(*s)))
				fail_msg("check %zu refuses %s", i, *s);
		for (const char *const *s = CHECKS[i].bad; *s; s++)
			if (takes(i, span_of(*s)))
				fail_msg("check %zu takes %s", i, *s);
		memset(text, CHECKS[i].of == '/' ? 'a' : CHECKS[i].of, sizeof(text));
		text[0] = CHECKS[i].of;
		assert_true(!longest || takes(i, (struct span){ text, longest }));
		assert_true(!longest || !takes(i, (struct span){ text, longest + 1 }));
	}
	assert_false(names_identifier_ok(((struct span){ "a\0b", 3 })));
}

TEST(test_mount_path_refuses_reserved_directories)
{
	static const char *const BAD[] = { "/",
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
		                           "/var" };
	for (size_t i = 0; i < ARRAY_SIZE(BAD); i++)
		assert_non_null(strstr(names_mount_path_problem(span_of(BAD[i])), "reserved"));
}

TEST(test_role_names_become_object_and_variable_names)
{
	assert_string_equal(names_role_object(&unit.a, SPAN("Task_Role.1~a-B")), "taskrole1ab");
	assert_string_equal(names_role_object(&unit.a, SPAN("___")), "");
	assert_string_equal(names_role_object(&unit.a, SPAN("__proto__")), "proto");
	assert_string_equal(names_role_object(&unit.a, SPAN("t\xc3\xa9st")), "tst");
	assert_string_equal(names_variable(&unit.a, SPAN("a~b.c-d_E1")), "a_b_c_d_E1");
}
