/* Notices as Events: their names and bodies, and how many there are.  Then the health of the
 * controller. */
#include "tests/unit/base/cmocka.h"
#include "tests/unit/k8s/api_kit.h"

#include "k8s/controller/controller.h"

static struct notice_counts counts;
static struct notices notices;

static void notices_open(void)
{
	memset(&counts, 0, sizeof(counts));
	memset(&notices, 0, sizeof(notices));
	notices.store = store;
	notices.counts = &counts;
}

static const struct rules_notice *notice(const char *name, const char *reason)
{
	static struct rules_notice n;
	n = (struct rules_notice){ "jobs", name, "0123456789ab", reason, "cannot \"go\" on" };
	return &n;
}

static bool take(const struct rules_notice *n, int64_t ms)
{
	bool taken = notices_take(&notices, n, &(struct rules_time){ ms, 1000 });
	settle(store);
	return taken;
}

static void name_is(const char *name, const char *uid, const char *expected)
{
	STR_AUTO out = STR_INIT(1024);
	notice_name(&out, &(struct rules_notice){ "jobs", name, uid, "PodForbidden", "" });
	assert_string_equal(str_c(&out), expected);
}

TEST(test_name_of_an_event_is_valid)
{
	char longest[254] = "";
	name_is("f", "0123456789ab", "f.podforbidden.01234567");
	name_is("f", "", "f.podforbidden");
	memset(longest, 'a', 253);
	longest[178] = '.';
	longest[179] = '-';
	STR_AUTO out = STR_INIT(1024);
	str_printf(&out, "%.178s.podforbidden.0123", longest);
	name_is(longest, "0123", str_c(&out));
}

TEST(test_notice_becomes_an_event)
{
	START({ ANSWER, CREATED });
	notices_open();
	assert_true(take(notice("f", "PodForbidden"), 0));
	sent(0,
	     "POST /api/v1/namespaces/jobs/events?fieldManager=rest-lit-controller HTTP/1.1\r\n");
	sent(0, "{\"apiVersion\":\"v1\",\"kind\":\"Event\",\"type\":\"Warning\",\"metadata\":"
	        "{\"name\":\"f.podforbidden.01234567\",\"namespace\":\"jobs\"},\"involvedObject\":"
	        "{\"apiVersion\":\"frameworkcontroller.microsoft.com/v1\",\"kind\":\"Framework\","
	        "\"namespace\":\"jobs\",\"name\":\"f\",\"uid\":\"0123456789ab\"},\"source\":"
	        "{\"component\":\"rest-lit-controller\"},\"reason\":\"PodForbidden\","
	        "\"firstTimestamp\":\"1970-01-01T00:00:01Z\",\"count\":1,"
	        "\"lastTimestamp\":\"1970-01-01T00:00:01Z\",\"message\":\"cannot \\\"go\\\" on\"}");
	assert_int_equal(counter_get(&counts.sent), 1);
}

TEST(test_event_that_exists_is_changed)
{
	START({ ANSWER, EMPTY("409 Conflict") }, { ANSWER, FINE });
	notices_open();
	assert_true(take(notice("f", "PodForbidden"), 0));
	sent(1, "PATCH /api/v1/namespaces/jobs/events/f.podforbidden.01234567"
	        "?fieldManager=rest-lit-controller HTTP/1.1\r\n");
	sent(1, "Content-Type: application/merge-patch+json\r\n");
	sent(1, "{\"count\":1,\"lastTimestamp\":\"1970-01-01T00:00:01Z\","
	        "\"message\":\"cannot \\\"go\\\" on\"}");
	assert_int_equal(counter_get(&counts.sent), 1);
}

TEST(test_refused_event_is_not_repeated)
{
	START({ ANSWER, EMPTY("403 Forbidden") });
	notices_open();
	assert_true(take(notice("f", "PodForbidden"), 0));
	assert_int_equal(server.requests, 1);
	assert_int_equal(counter_get(&counts.failed), 1);
}

TEST(test_events_of_a_reason_have_a_pause_between)
{
	START({ ANSWER, CREATED });
	notices_open();
	assert_true(take(notice("f", "PodForbidden"), 0));
	assert_false(take(notice("f", "PodForbidden"), 1));
	assert_false(take(notice("f", "PodForbidden"), NOTICE_PAUSE_MS - 1));
	assert_true(take(notice("f", "Unreadable"), 1));
	assert_int_equal(counter_get(&counts.omitted), 2);
	assert_int_equal(server.requests, 2);
	assert_true(take(notice("f", "PodForbidden"), NOTICE_PAUSE_MS));
	sent(2, "\"count\":4,");
}

TEST(test_events_at_once_are_bounded)
{
	const size_t most = (size_t)NOTICE_SETS * NOTICE_SET;
	size_t taken = 0;
	START({ ANSWER, CREATED });
	notices_open();
	for (size_t i = 0; i < 2 * most; i++) {
		char uid[32];
		(void)snprintf(uid, sizeof(uid), "%zu-0000000", i);
		const struct rules_notice n = { "jobs", "f", uid, "PodForbidden", "" };
		taken += take(&n, 1000);
	}
	assert_in_range(taken, most / 2, most);
	assert_int_equal(counter_get(&counts.omitted), 2 * most - taken);
	assert_true(take(&(struct rules_notice){ "jobs", "f", "u", "PodForbidden", "" },
	                 1000 + NOTICE_PAUSE_MS));
}

/* ---- the controller ---- */

TEST(test_hanging_or_lost_controller_is_unhealthy)
{
	struct controller_counts c = { 0 };
	counter_set(&c.turn_ms, 1000);
	assert_null(controller_unhealthy(&c, 31000));
	assert_string_equal(controller_unhealthy(&c, 31001), "the loop of the controller hangs");
	counter_set(&c.phase, CONTROLLER_LEADING);
	counter_set(&c.held_ms, 1000);
	counter_set(&c.turn_ms, 301000);
	assert_null(controller_unhealthy(&c, 301000));
	assert_string_equal(controller_unhealthy(&c, 301001),
	                    "the Lease of this leader could not be renewed for 5 minutes");
	counter_set(&c.phase, CONTROLLER_STANDBY);
	assert_null(controller_unhealthy(&c, 301001));
}

TEST(test_leader_is_ready_when_it_knows_and_drives_all)
{
	struct controller_counts c = { 0 };
	assert_null(controller_unready(&c));
	counter_set(&c.phase, CONTROLLER_LISTING);
	assert_string_equal(controller_unready(&c), "this leader does not know all objects yet");
	counter_set(&c.phase, CONTROLLER_LEADING);
	assert_null(controller_unready(&c));
	counter_set(&c.rules.passive, 1);
	assert_non_null(controller_unready(&c));
	counter_set(&c.phase, CONTROLLER_ENDED);
	assert_string_equal(controller_unready(&c), "shutting down");
}
