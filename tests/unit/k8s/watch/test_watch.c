/* Answers about a collection: lines of a WATCH, events, pages of a LIST; and the next request.
 * tests/http/watch.py tests the same with a server. */
#include "tests/unit/base/cmocka.h"
#include "tests/unit/jobs/kit.h"

#include "k8s/watch/watch_internal.h"

/* ---- lines ---- */

#define REFLECT_AUTO __attribute__((cleanup(reflect_cleanup))) struct reflect
static void reflect_cleanup(struct reflect *s)
{
	str_done(&s->more);
}

static void write_line(void *arg, struct span line, bool cut)
{
	struct str *out = arg;
	str_span(out, line);
	str_puts(out, cut ? "!" : "|");
}

/* Feeds the bytes in pieces of every size, and expects the same lines. */
static void assert_lines(const char *bytes, size_t max, const char *wanted)
{
	size_t n = strlen(bytes);
	for (size_t piece = 1; piece <= n; piece++) {
		STR_AUTO seen = STR_INIT(1024);
		struct watch_lines l = WATCH_LINES_INIT(max);
		for (size_t at = 0; at < n; at += piece) {
			struct span s = { bytes + at, n - at < piece ? n - at : piece };
			watch_lines_take(&l, s, write_line, &seen);
		}
		watch_lines_clear(&l);
		assert_string_equal(str_c(&seen), wanted);
	}
}

TEST(test_lines_are_cut_at_their_maximum_length)
{
	assert_lines("a\nbc\n", 10, "a|bc|");
	assert_lines("a\n\n\nb\nrest", 10, "a|b|");
	assert_lines("1234567890\n12345678901\nx\n", 10, "1234567890|1234567890!x|");
	assert_lines("123456789012345678901234567890\nx\n", 10, "1234567890!x|");
	assert_lines("no newline", 4, "");
}

TEST(test_lines_of_an_ended_connection_are_dropped)
{
	STR_AUTO seen = STR_INIT(64);
	struct watch_lines l = WATCH_LINES_INIT(4);
	watch_lines_take(&l, SPAN("half of a li"), write_line, &seen);
	watch_lines_clear(&l); /* the connection is gone */
	watch_lines_take(&l, SPAN("new\n"), write_line, &seen);
	assert_string_equal(str_c(&seen), "new|");
}

/* ---- events ---- */

TEST(test_events_are_read_with_type_and_version)
{
	static const struct {
		const char *line;
		enum watch_what what;
		const char *version;
		int64_t code;
		bool end;
	} T[] = {
		{ "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"resourceVersion\":\"12\"}}}",
		  WATCH_PUT, "12", 0, false },
		{ "{\"object\":{\"metadata\":{\"resourceVersion\":\"12\"}},\"type\":\"MODIFIED\"}",
		  WATCH_PUT, "12", 0, false },
		{ "{\"type\":\"DELETED\",\"object\":{\"metadata\":{\"resourceVersion\":\"x-1\"}}}",
		  WATCH_GONE, "x-1", 0, false },
		/* of 1.36, at the end of a streaming list */
		{ "{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"Framework\",\"apiVersion\":\"v1\","
		  "\"metadata\":{\"resourceVersion\":\"7\",\"annotations\":{"
		  "\"k8s.io/initial-events-end\":\"true\"}}}}",
		  WATCH_BOOKMARK, "7", 0, true },
		/* of 1.20 */
		{ "{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"Framework\",\"metadata\":{"
		  "\"creationTimestamp\":null,\"resourceVersion\":\"9\"},\"spec\":{}}}",
		  WATCH_BOOKMARK, "9", 0, false },
		{ "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"9\","
		  "\"annotations\":{\"k8s.io/initial-events-end\":true}}}}",
		  WATCH_BOOKMARK, "9", 0, false },
		{ "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"metadata\":{},\"code\":"
		  "410}}",
		  WATCH_ERROR, "", 410, false },
		{ "{\"type\":\"ERROR\",\"object\":{}}", WATCH_ERROR, "", 0, false },
		{ "{\"type\":\"ERROR\",\"object\":{\"code\":\"410\"}}", WATCH_ERROR, "", 0, false },
		{ "{\"type\":\"WHATEVER\",\"object\":{}}", WATCH_NONE, "", 0, false },
		{ "{\"type\":\"ADDED\",\"object\":[]}", WATCH_NONE, "", 0, false },
		{ "{\"type\":\"ADDED\"}", WATCH_NONE, "", 0, false },
		{ "{\"type\":3,\"object\":{}}", WATCH_NONE, "", 0, false },
		{ "[]", WATCH_NONE, "", 0, false },
		/* it would go into a URL */
		{ "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"resourceVersion\":\"1&limit=1\"}"
		  "}}",
		  WATCH_PUT, "", 0, false },
		{ "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"resourceVersion\":12}}}",
		  WATCH_PUT, "", 0, false },
	};
	for (size_t i = 0; i < sizeof(T) / sizeof(T[0]); i++) {
		assert_true(scan_valid(span_of(T[i].line), SCAN_DEPTH_MAX));
		struct watch_event e = watch_event_read(span_of(T[i].line));
		assert_int_equal(e.what, T[i].what);
		assert_string_equal(e.version, T[i].version);
		assert_int_equal(e.code, T[i].code);
		assert_int_equal(e.initial_end, T[i].end);
	}
}

/* The object is found wherever it is; text after its end does not matter. */
TEST(test_objects_of_events_are_found_anywhere)
{
	static const struct {
		const char *line, *object;
	} T[] = {
		{ "{\"type\":\"ADDED\",\"object\":{\"a\":{}}}", "{\"a\":{}}" },
		{ "{\"type\":\"ADDED\",\"object\":{\"a\":{}} } ", "{\"a\":{}}" },
		{ "{\"object\":{\"a\":{}},\"type\":\"ADDED\"}", "{\"a\":{}}" },
		{ "{\"x\":[{}],\"object\":{\"a\":{}},\"object\":{},\"type\":\"ADDED\"}",
		  "{\"a\":{}}" },
		{ "{\"type\":\"ADDED\",\"object\":{\"a\":{}},\"b\":{\"c\":1}}",
		  "{\"a\":{}},\"b\":{\"c\":1}" },
	};
	for (size_t i = 0; i < sizeof(T) / sizeof(T[0]); i++) {
		struct watch_event e = watch_event_read(span_of(T[i].line));
		assert_int_equal(e.what, WATCH_PUT);
		if (!span_is(e.object, T[i].object))
			fail_msg("%s: %.*s", T[i].line, (int)e.object.n, e.object.p);
		assert_null(scan_get(e.object, "c").p);
		assert_null(scan_get(e.object, "b").p);
		assert_non_null(scan_get(e.object, "a").p);
	}
}

/* A line cut behind its metadata gives the metadata; a line cut before gives no event. */
TEST(test_cut_events_are_read_behind_their_metadata)
{
	static const char LINE[] =
	    "{\"type\":\"MODIFIED\",\"object\":{\"apiVersion\":\"v1\",\"metadata\":{"
	    "\"name\":\"f\",\"resourceVersion\":\"5\"},\"spec\":{\"x\":\"yyyyyyyyyyy\"}}}";
	size_t behind = (size_t)(strstr(LINE, ",\"spec\"") - LINE);
	for (size_t n = 0; n < sizeof(LINE); n++) {
		struct watch_event e = watch_event_read_cut((struct span){ LINE, n }, &unit.a);
		if (n < behind) {
			assert_int_equal(e.what, WATCH_NONE);
			continue;
		}
		assert_int_equal(e.what, WATCH_PUT);
		assert_string_equal(e.version, "5");
		assert_true(span_is(e.object, "{\"metadata\":{\"name\":\"f\",\"resourceVersion\":"
		                              "\"5\"},\"status\":\"too large\"}"));
	}
}

/* ---- pages of a LIST ---- */

enum { ITEM_MAX = 60 };

/* Cuts the text in two at each byte, and into single bytes, and expects the same items, version and
 * token each time. NULL: it is not a list. */
static void assert_page(const char *text, const char *items, const char *version, const char *more)
{
	size_t n = strlen(text);
	for (size_t at = 0; at <= n; at++) {
		STR_AUTO seen = STR_INIT(4096);
		AUTO(list_lines_done) struct list_lines l;
		list_lines_init(&l, ITEM_MAX, write_line, &seen);
		bool ok = list_lines_take(&l, (struct span){ text, at });
		for (size_t i = at; ok && at == 0 && i < n; i++)
			ok = list_lines_take(&l, (struct span){ text + i, 1 });
		if (ok && at > 0)
			ok = list_lines_take(&l, (struct span){ text + at, n - at });
		const struct list_page *page = list_lines_end(&l);
		assert_int_equal(ok && page, version != NULL);
		assert_string_equal(str_c(&seen), items);
		if (version) {
			assert_string_equal(page->version, version);
			assert_true(span_is(page->more, more));
		}
	}
}

TEST(test_pages_give_items_version_and_token)
{
	assert_page("{\"items\":[{},{}],\"metadata\":{\"continue\":\"a/b==\","
	            "\"resourceVersion\":\"3\"}}",
	            "{}|{}|", "3", "a/b==");
	assert_page("{\"metadata\":{\"resourceVersion\":\"3\",\"continue\":\"x\"},"
	            "\"kind\":\"List\",\"items\":[{\"a\":[1,{}]},7]}\n",
	            "{\"a\":[1,{}]}|7|", "3", "x");
	assert_page(" { \"items\" : [ {} , null , 1e3 , \"\" ] , \"metadata\" : "
	            "{\"resourceVersion\":\"3\"} } \r\n\t",
	            "{}|null|1e3|\"\"|", "3", "");
	assert_page("{\"metadata\":{\"resourceVersion\":\"3\"},\"items\":null}", "", "3", "");
	assert_page("{\"metadata\":{\"resourceVersion\":\"3\",\"continue\":7},\"items\":[]}", "",
	            "3", "");
}

/* Brackets and quotes within strings do not count, with any escapes. */
TEST(test_pages_ignore_brackets_in_strings)
{
	assert_page("{\"metadata\":{\"resourceVersion\":\"3\",\"continue\":\"]}\\\"\"},\"items\":["
	            "{\"}\":\"]}\\\\\"},[\"\\\\\\\"[{\"],{\"a\\\"\":\"\\\\\\\\\"}]}",
	            "{\"}\":\"]}\\\\\"}|[\"\\\\\\\"[{\"]|{\"a\\\"\":\"\\\\\\\\\"}|", "3", "]}\"");
	assert_page(
	    "{\"metadata\":{\"resourceVersion\":\"3\"},\"]}{\\\"\":[\"items\",{\"items\":[1]}],"
	    "\"items\":[\"\\u005d\"]}",
	    "\"\\u005d\"|", "3", "");
}

/* An item of more than ITEM_MAX bytes is cut; another value of such a size ends the list. */
TEST(test_pages_cut_items_that_are_too_large)
{
	assert_page(
	    "{\"items\":[{\"metadata\":{},\"pad\":\"0123456789012345678901234567890123456789\"},2],"
	    "\"metadata\":{\"resourceVersion\":\"3\"}}",
	    "{\"metadata\":{},\"pad\":\"01234567890123456789012345678901234567!2|", "3", "");
	assert_page("{\"pad\":\"0123456789012345678901234567890123456789012345678901234567890\","
	            "\"items\":[1],\"metadata\":{\"resourceVersion\":\"3\"}}",
	            "", NULL, NULL);
}

TEST(test_pages_that_are_no_list_are_refused)
{
	static const struct {
		const char *text, *items;
	} T[] = {
		{ "", "" },
		{ "[]", "" },
		{ "<html>", "" },
		{ "{\"metadata\":{},\"items\":[]}", "" },
		{ "{\"metadata\":{\"resourceVersion\":\"3\"}}", "" },
		{ "{\"metadata\":{\"resourceVersion\":\"3\"},\"items\":{}}", "" },
		{ "{\"metadata\":[],\"items\":[]}", "" },
		{ "{\"items\":[1]}", "1|" },
		/* both keys twice */
		{ "{\"metadata\":{\"resourceVersion\":\"3\"},\"items\":[1],\"items\":[2]}", "1|" },
		{ "{\"metadata\":{\"resourceVersion\":\"3\"},\"metadata\":{}}", "" },
		/* separators */
		{ "{,\"items\":[]}", "" },
		{ "{\"items\" []}", "" },
		{ "{\"items\":,}", "" },
		{ "{items:[1]}", "" },
		{ "{7:[1]}", "" },
		{ "{\"items\":[,1]}", "" },
		{ "{\"items\":[1,]}", "1|" },
		{ "{\"items\":[1 2]}", "1|" },
		{ "{\"items\":[1}", "1|" },
		{ "{\"items\":[1],}", "1|" },
		{ "{\"items\":[1]]", "1|" },
		{ "{\"metadata\":{\"resourceVersion\":\"3\"},\"items\":[1]}]", "1|" },
		/* items and members that are not JSON */
		{ "{\"items\":[1,{]},2]}", "1|" },
		{ "{\"items\":[1,nul,2]}", "1|" },
		{ "{\"items\":[1,\"\x01\"]}", "1|" },
		{ "{\"a\":{\"b\"},\"items\":[1]}", "" },
	};
	for (size_t i = 0; i < sizeof(T) / sizeof(T[0]); i++)
		assert_page(T[i].text, T[i].items, NULL, NULL);
}

/* An answer that breaks off gives its complete items, each once, and is not a list. */
TEST(test_pages_that_break_off_give_complete_items)
{
	static const char TEXT[] = "{\"metadata\":{\"resourceVersion\":\"3\"},\"items\":[{\"a\":1},"
				   "{\"b\":\"}\"}],\"kind\":\"L\"}";
	const char *first = strstr(TEXT, "{\"a\":1}") + strlen("{\"a\":1}");
	const char *second = strstr(TEXT, "{\"b\":\"}\"}") + strlen("{\"b\":\"}\"}");
	for (size_t n = 0; n < sizeof(TEXT) - 1; n++) {
		STR_AUTO seen = STR_INIT(4096);
		AUTO(list_lines_done) struct list_lines l;
		list_lines_init(&l, ITEM_MAX, write_line, &seen);
		assert_true(list_lines_take(&l, (struct span){ TEXT, n }));
		assert_null(list_lines_end(&l));
		assert_string_equal(str_c(&seen), TEXT + n < first    ? ""
		                                  : TEXT + n < second ? "{\"a\":1}|"
		                                                      : "{\"a\":1}|{\"b\":\"}\"}|");
	}
}

/* ---- the next request --------------------------------------------------------------------- */

static void assert_asks(const struct reflect *s, const char *wanted)
{
	STR_AUTO query = STR_INIT(1024);
	reflect_query(s, "fieldSelector=x", 300, &query);
	assert_string_equal(str_c(&query), wanted);
}

static struct list_page page_of(const char *version, const char *more)
{
	struct list_page p = { .more = span_of(more) };
	(void)snprintf(p.version, sizeof(p.version), "%s", version);
	return p;
}

#define WATCHES "watch=true&allowWatchBookmarks=true&timeoutSeconds=300"

TEST(test_watch_and_list_follow_each_other_in_order)
{
	REFLECT_AUTO s = REFLECT_INIT(500);
	assert_asks(&s, WATCHES "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
	                        "&fieldSelector=x");
	assert_int_equal(reflect_end(&s, reflect_status(ASK_STREAM, 422), 0), 0);
	assert_asks(&s, "limit=500&fieldSelector=x");
	struct list_page first = page_of("7", "a/+=");
	assert_false(reflect_page(&s, &first));
	assert_int_equal(reflect_end(&s, FAULT_NONE, 0), 0);
	assert_asks(&s, "limit=500&continue=a%2F%2B%3D&fieldSelector=x");
	struct list_page last = page_of("7", "");
	assert_true(reflect_page(&s, &last));
	assert_asks(&s, WATCHES "&resourceVersion=7&fieldSelector=x");
	reflect_note_version(&s, "9");
	reflect_note_version(&s, "");
	assert_int_equal(reflect_end(&s, FAULT_NONE, 0), 0);
	assert_asks(&s, WATCHES "&resourceVersion=9&fieldSelector=x");
	/* an old version: a list; this server has no other one */
	assert_int_equal(reflect_end(&s, reflect_status(ASK_WATCH, 410), 0), 0);
	assert_asks(&s, "limit=500&fieldSelector=x");
}

/* After a 410 in the middle, the list starts again from its beginning. */
TEST(test_list_that_expires_begins_again)
{
	REFLECT_AUTO s = REFLECT_INIT(500);
	s.lists_only = true;
	struct list_page first = page_of("7", "token");
	(void)reflect_page(&s, &first);
	assert_int_equal(reflect_end(&s, reflect_status(ASK_LIST, 410), 0), 0);
	assert_asks(&s, "limit=500&fieldSelector=x");
	/* again and again: with pauses */
	assert_true(reflect_end(&s, FAULT_EXPIRED, 0) > 0);
}

/* Versions of this server expire faster than it lists.  Lists are complete, but the pauses between
 * them grow until a watch lasts. */
TEST(test_lists_without_a_lasting_watch_come_less_often)
{
	static const enum reflect_fault FAULTS[] = { FAULT_EXPIRED, FAULT_REFUSED };
	for (size_t i = 0; i < 2; i++) {
		struct list_page whole = page_of("7", "");
		REFLECT_AUTO s = REFLECT_INIT(500);
		s.lists_only = true;
		for (int n = 0; n < 10; n++) {
			assert_true(reflect_page(&s, &whole));
			assert_int_equal(reflect_end(&s, FAULT_NONE, 0), 0);
			reflect_note_version(&s, "8"); /* which does not help */
			int64_t ms = reflect_end(&s, FAULTS[i], 0);
			if (n == 2)
				assert_in_range(ms, 3000, 5000);
			if (n == 9)
				assert_in_range(ms, 36000, 60000);
		}
		assert_true(reflect_page(&s, &whole));
		s.lists = 0;
		assert_in_range(reflect_end(&s, FAULTS[i], 0), 0, 1250);
	}
}

/* After an outage, the server answers that the version is too old: a list follows at once. */
TEST(test_list_follows_at_once_after_an_outage)
{
	REFLECT_AUTO s = REFLECT_INIT(500);
	s.lists_only = true;
	reflect_note_version(&s, "9");
	for (int i = 0; i < 20; i++)
		assert_in_range(reflect_end(&s, FAULT_AWAY, 0), 750, 10000);
	assert_int_equal(reflect_end(&s, reflect_status(ASK_WATCH, 410), 0), 0);
	assert_asks(&s, "limit=500&fieldSelector=x");
}

TEST(test_pages_become_smaller_when_they_are_too_large)
{
	REFLECT_AUTO s = REFLECT_INIT(5);
	s.lists_only = true;
	assert_int_equal(reflect_end(&s, FAULT_TOO_LARGE, 0), 0);
	assert_asks(&s, "limit=2&fieldSelector=x");
	assert_int_equal(reflect_end(&s, FAULT_TOO_LARGE, 0), 0);
	assert_asks(&s, "limit=1&fieldSelector=x");
	assert_true(reflect_end(&s, FAULT_TOO_LARGE, 0) > 0); /* there is nothing smaller */
	struct list_page last = page_of("7", "");
	assert_true(reflect_page(&s, &last));
	assert_int_equal(s.limit, 5);
}

/* A list follows when the version is refused, but not an outage. */
TEST(test_refusals_of_a_version_lead_to_a_list)
{
	static const struct {
		int64_t status;
		bool keeps;
	} T[] = { { 401, true },  { 403, true },  { 429, true },  { 502, true },
		  { 503, true },  { 400, false }, { 404, false }, { 410, false },
		  { 422, false }, { 500, false }, { 504, false }, { 0, false } };
	for (size_t i = 0; i < sizeof(T) / sizeof(T[0]); i++) {
		REFLECT_AUTO s = REFLECT_INIT(500);
		reflect_note_version(&s, "9");
		(void)reflect_end(&s, reflect_status(ASK_WATCH, T[i].status), 0);
		assert_int_equal(reflect_ask(&s) == ASK_WATCH, T[i].keeps);
	}
}

TEST(test_pauses_grow_up_to_a_maximum)
{
	static const struct {
		unsigned failures;
		int retry_after_s;
		int64_t least, most;
	} T[] = { { 1, 0, 750, 1250 },
		  { 2, 0, 1500, 2500 },
		  { 6, 0, 24000, 40000 },
		  { 7, 0, 36000, 60000 },
		  { UINT32_MAX, 0, 36000, 60000 },
		  { 1, 30, 30000, 30000 },
		  { 1, 3600, 60000, 60000 } };
	for (size_t i = 0; i < sizeof(T) / sizeof(T[0]); i++) {
		for (int n = 0; n < 100; n++) {
			int64_t ms = reflect_pause_ms(T[i].failures, T[i].retry_after_s);
			assert_in_range(ms, T[i].least, T[i].most);
		}
	}
}

/* An answer ends a row of failures. */
TEST(test_failures_are_reset_by_an_answer)
{
	REFLECT_AUTO s = REFLECT_INIT(500);
	reflect_note_version(&s, "9");
	for (int i = 0; i < 5; i++)
		(void)reflect_end(&s, FAULT_LATER, 0);
	assert_int_equal(s.failures, 5);
	assert_asks(&s, WATCHES "&resourceVersion=9&fieldSelector=x");
	reflect_note_version(&s, "10");
	assert_int_equal(s.failures, 0);
	assert_in_range(reflect_end(&s, FAULT_LATER, 0), 750, 1250);
}

/* Events at least every 40 ms: a pause of 20 ms after each round that had some. */
TEST(test_quick_events_are_collected_by_pauses)
{
	static const struct {
		int64_t now_ms;
		bool events;
		int64_t rest_ms;
	} ROUNDS[] = {
		{ 1000, true, 0 },  { 1001, false, 0 }, { 1041, true, 0 },  { 1081, true, 20 },
		{ 1090, false, 0 }, { 1101, true, 20 }, { 1121, true, 20 }, { 1170, false, 0 },
		{ 1180, true, 0 },  { 1180, false, 0 }, { 1181, true, 20 },
	};
	REFLECT_AUTO s = REFLECT_INIT(500);
	for (size_t i = 0; i < sizeof(ROUNDS) / sizeof(ROUNDS[0]); i++) {
		s.events |= ROUNDS[i].events;
		assert_int_equal(reflect_rest_ms(&s, ROUNDS[i].now_ms), ROUNDS[i].rest_ms);
	}
}
