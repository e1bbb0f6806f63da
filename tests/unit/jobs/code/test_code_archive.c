/* The ConfigMap of an archive, which other clients can have written. */
#include "jobs/code/code_store.h"

#include "base/json/put.h"
#include "base/json/scan.h"
#include "tests/unit/base/cmocka.h"
#include "tests/unit/jobs/job_entry_kit.h"

#define SHA "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

/* With this member of its facts, and this last use. */
static void configmap(struct str *out, const char *user, const char *facts, const char *used)
{
	char name[CODE_OBJECT + 1];
	STR_AUTO text = STR_INIT(4096);
	code_object_name(name, "alice", SPAN(SHA));
	str_printf(&text,
	           "{\"user\":\"%s\",\"sha256\":\"" SHA
	           "\",\"packedSha256\":\"p\",\"bytes\":5,\"unpackedBytes\":7,%s}",
	           user, facts);
	str_printf(out,
	           "{\"metadata\":{\"name\":\"%s\",\"uid\":\"u\",\"resourceVersion\":\"9\","
	           "\"annotations\":{\"rest-lit/complete\":\"true\",\"rest-lit/last-use\":%s",
	           name, used);
	json_put_text(out, "rest-lit/archive", str_view(&text));
	str_puts(out, "}}}");
}

TEST(test_code_archive_read_takes_only_its_own_facts)
{
	static const struct {
		const char *user, *facts, *used;
		bool good;
	} CASES[] = {
		{ "alice", "\"entries\":1,\"parts\":1", "\"2026-01-01T00:00:00.5Z\"", true },
		{ "bob", "\"entries\":1,\"parts\":1", "\"2026-01-01T00:00:00Z\"", false },
		{ "alice", "\"entries\":1", "\"2026-01-01T00:00:00Z\"", false },
		{ "alice", "\"entries\":1,\"parts\":-1", "\"2026-01-01T00:00:00Z\"", false },
		{ "alice", "\"entries\":1,\"parts\":1e9", "\"2026-01-01T00:00:00Z\"", false },
		{ "alice", "\"entries\":20001,\"parts\":1", "\"2026-01-01T00:00:00Z\"", false },
		{ "alice", "\"entries\":1,\"parts\":1", "\"yesterday\"", false },
		{ "alice", "\"entries\":1,\"parts\":1", "7", false },
		{ "alice", "\"entries\":1,\"parts\":", "\"2026-01-01T00:00:00Z\"", false },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		STR_AUTO text = STR_INIT(8192);
		struct code_archive c;
		configmap(&text, CASES[i].user, CASES[i].facts, CASES[i].used);
		assert_int_equal(code_archive_read(str_view(&text), &unit.a, &c), CASES[i].good);
		if (!CASES[i].good)
			continue;
		assert_int_equal(c.used_ms, 1767225600500);
		assert_int_equal(c.bytes + c.unpacked + c.entries + c.parts, 14);
		assert_string_equal(c.uid, "u");
		assert_string_equal(c.version, "9");
		assert_true(code_archive_usable(&c, NULL));
		assert_false(code_archive_usable(&c, "/nowhere"));
	}
}

TEST(test_code_archive_read_refuses_other_objects)
{
	static const char *const OTHERS[] = { "{}", "{\"metadata\":{\"annotations\":7}}",
		                              "{\"metadata\":{\"name\":\"code-x\"}}" };
	for (size_t i = 0; i < ARRAY_SIZE(OTHERS); i++) {
		struct code_archive c;
		assert_false(code_archive_read(span_of(OTHERS[i]), &unit.a, &c));
	}
}

TEST(test_code_renewal_changes_the_last_use_alone)
{
	int64_t ms = 0;
	struct span notes =
	    scan_path(span_of(code_renewal(NULL, &unit.a)), "metadata", "annotations");
	assert_int_equal(scan_count(notes), 1);
	assert_true(scan_time_ms(scan_get(notes, "rest-lit/last-use"), &ms));
	assert_true(ms > 0);
}

TEST(test_job_entry_has_the_archive_of_its_label)
{
	JOB_ENTRY_AUTO *c = job_entry_of(SPAN("{\"metadata\":{\"name\":\"x\",\"labels\":{"
	                                      "\"rest-lit/code\":\"00000000000000ff11\"}}}"));
	JOB_ENTRY_AUTO *none = job_entry_of(SPAN("{\"metadata\":{\"name\":\"x\"}}"));
	assert_int_equal(c->archive, 255);
	assert_int_equal(none->archive, 0);
}
