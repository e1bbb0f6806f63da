/* The stored text of a job: the whole text without its secrets. */
#include "tests/unit/translate/parse_kit.h"

#define MASKED "\"******\""
#define REST   IMAGE ROLE COMMANDS("x")

static void assert_stored(const char *text, const char *want)
{
	RUN_AUTO r = run_good(text);
	assert_span(r.job->config, want);
}

/* Neither the stored text nor a message has the marker `hunter2`. */
static void assert_hidden(const char *text)
{
	RUN_AUTO r = run_job(text);
	if (r.job)
		assert_null(memmem(r.job->config.p, r.job->config.n, "hunter2", 7));
	(void)notes_lines(&r, &r.err.notes);
	assert_null(strstr(notes_lines(&r, &r.warnings), "hunter2"));
}

TEST(test_text_without_secrets_is_stored_byte_for_byte)
{
	static const char *const TEXTS[] = {
		V2("# secrets: no\n"),
		V2("parameters: {secrets: {a: b}}\r\n\r\n"),
		"\xef\xbb\xbf" V2(""),
		V1("\"jobEnvs\":{\"secrets\":\"a\"},", ""),
	};
	for (size_t i = 0; i < ARRAY_SIZE(TEXTS); i++)
		assert_stored(TEXTS[i], TEXTS[i]);
}

TEST(test_secrets_in_block_style_are_masked)
{
	assert_stored(HEAD "secrets:\n  pw: hunter2\n# old: hunter2\n" REST,
	              HEAD "secrets: " MASKED "\n" REST);
	assert_stored(HEAD REST "secrets:\n  pw: hunter2", HEAD REST "secrets: " MASKED);
	assert_stored(HEAD "secrets: {}\n" REST, HEAD "secrets: " MASKED "\n" REST);
	assert_stored(HEAD "secrets: {\npw: hunter2, o: x\n}\n" REST,
	              HEAD "secrets: " MASKED "\n" REST);
	assert_stored(HEAD "secrets:\n  pw: \"a\nhunter2\"\n" REST,
	              HEAD "secrets: " MASKED "\n" REST);
	assert_stored(HEAD "\"secrets\" :\n  pw: |\n    hunter2\n\n" REST,
	              HEAD "\"secrets\": " MASKED "\n" REST);
	assert_stored(HEAD "'secrets': {a: '}, hunter2: {'}\n" REST,
	              HEAD "'secrets': " MASKED "\n" REST);
	assert_stored(HEAD "\"\\x73ecrets\":\n  pw: hunter2\n" REST,
	              HEAD "\"\\x73ecrets\": " MASKED "\n" REST);
}

/* The members of the top level with secrets are compared alone; with doubt, the whole text is. */
TEST(test_members_with_secrets_are_masked_independently)
{
#define LOGINS(PASSWORD)                                                                           \
	"prerequisites:\n- name: i\n  type: dockerimage\n  uri: u\n  auth:\n"                      \
	"    username: \"\"\n    password: " PASSWORD " # a login\n"
	assert_stored(HEAD "secrets:\n  pw: hunter2\n" LOGINS("hunter2") ROLE COMMANDS("x"),
	              HEAD "secrets: " MASKED "\n" LOGINS(MASKED) ROLE COMMANDS("x"));
	assert_stored(
	    HEAD LOGINS("'hunter2'") "\n# next\nsecrets:\n  pw: hunter2\n" ROLE COMMANDS("x"),
	    HEAD LOGINS(MASKED) "\n# next\nsecrets: " MASKED "\n" ROLE COMMANDS("x"));
	assert_stored(
	    "parameters: &p {a: b}\n" HEAD "secrets: {pw: hunter2}\n\"extras\": {x: *p}\n" REST,
	    "parameters: &p {a: b}\n" HEAD "secrets: " MASKED "\n\"extras\": {x: *p}\n" REST);
	/* Anchors and tags beside a login: the whole text is read. */
#define BESIDE "  description: &d !!str hello!\nparameters: {p: *d}\n" ROLE COMMANDS("x")
	assert_stored(HEAD LOGINS("hunter2") BESIDE, HEAD LOGINS(MASKED) BESIDE);
#undef BESIDE
#undef LOGINS
}

TEST(test_secrets_of_an_indented_document_are_masked)
{
	assert_stored(
	    "  protocolVersion: 2\n  name: j\n  type: job\n  secrets:\n    a: hunter2\n"
	    "  taskRoles: {w: {dockerImage: i, commands: [x], resourcePerInstance: {cpu: 1, "
	    "memoryMB: 1, gpu: 0}}}\n  prerequisites: [{name: i, type: dockerimage, uri: u}]\n",
	    "  protocolVersion: 2\n  name: j\n  type: job\n  secrets: " MASKED "\n"
	    "  taskRoles: {w: {dockerImage: i, commands: [x], resourcePerInstance: {cpu: 1, "
	    "memoryMB: 1, gpu: 0}}}\n  prerequisites: [{name: i, type: dockerimage, uri: u}]\n");
}

TEST(test_masking_keeps_line_ends_and_byte_order_marks)
{
	assert_stored(
	    "protocolVersion: 2\r\nsecrets:\r\n  a: hunter2\r\nname: j\r\ntype: job\r\n" REST,
	    "protocolVersion: 2\r\nsecrets: " MASKED "\r\nname: j\r\ntype: job\r\n" REST);
	assert_stored("\xef\xbb\xbfsecrets: {a: hunter2}\n" HEAD REST,
	              "\xef\xbb\xbfsecrets: " MASKED "\n" HEAD REST);
	assert_stored("---\n" HEAD REST "secrets: {a: hunter2}\n...\n",
	              "---\n" HEAD REST "secrets: " MASKED "\n...\n");
}

#define JSON_ROLES                                                                                 \
	"\"taskRoles\":{\"w\":{\"dockerImage\":\"i\",\"commands\":[\"x\"],"                        \
	"\"resourcePerInstance\":{\"cpu\":1,\"memoryMB\":1,\"gpu\":0}}},"                          \
	"\"prerequisites\":[{\"name\":\"i\",\"type\":\"dockerimage\",\"uri\":\"u\"}]"

TEST(test_secrets_in_json_are_masked)
{
	assert_stored("{\"protocolVersion\":2,\"name\":\"j\",\"type\":\"job\","
	              "\"secrets\" : {\"a\": \"hunter2\", \"b\": \"}\"}, " JSON_ROLES "}",
	              "{\"protocolVersion\":2,\"name\":\"j\",\"type\":\"job\","
	              "\"secrets\": " MASKED ", " JSON_ROLES "}");
	assert_stored("{\"protocolVersion\":2,\"name\":\"j\",\"type\":\"job\"," JSON_ROLES
	              ", \"secrets\":{\"a\":\"hunter2\"} // hunter2\n}",
	              "{\"protocolVersion\":2,\"name\":\"j\",\"type\":\"job\"," JSON_ROLES
	              ", \"secrets\": " MASKED "}");
}

#define FLOW_REST                                                                                  \
	"taskRoles: {w: {dockerImage: i, commands: [x], resourcePerInstance: {cpu: 1, "            \
	"memoryMB: 1, gpu: 0}}}, prerequisites: [{name: i, type: dockerimage, uri: u}]}"

TEST(test_secrets_in_flow_style_are_masked)
{
	/* what may stand before the brace */
	static const char *const BEFORE[] = { "", "&all ", "!!map ", "--- &all !!map\n " };
	ARENA_AUTO a = { 0 };
	for (size_t i = 0; i < ARRAY_SIZE(BEFORE); i++) {
		const char *head =
		    arena_printf(&a, "%s{protocolVersion: 2, name: j, type: job, ", BEFORE[i]);
		assert_stored(
		    arena_printf(&a, "%ssecrets: {a: hunter2}, # hunter2\n%s", head, FLOW_REST),
		    arena_printf(&a, "%ssecrets: " MASKED ", %s", head, FLOW_REST));
	}
}

TEST(test_odd_values_elsewhere_are_stored_unchanged)
{
	assert_stored(
	    HEAD "secrets: {a: hunter2}\nparameters: {n: .nan, i: .inf, d: 2001-01-01}\n" REST,
	    HEAD "secrets: " MASKED "\nparameters: {n: .nan, i: .inf, d: 2001-01-01}\n" REST);
}

TEST(test_unsafe_secrets_are_refused)
{
	static const char *const TEXTS[] = {
		HEAD "secrets: &s {pw: hunter2}\nparameters: {p: *s}\n" REST,
		HEAD "secrets: {pw: &s hunter2}\nparameters: {p: *s}\n" REST,
		HEAD "parameters: {p: &s {pw: hunter2}}\nsecrets: *s\n" REST,
		HEAD "parameters: {p: &s {pw: hunter2}}\nsecrets: {<<: *s}\n" REST,
		HEAD "extras: &e {secrets: {a: hunter2}}\n<<: *e\n" REST,
		HEAD "parameters: {k: &k secrets}\n*k : {pw: hunter2}\n" REST,
		HEAD "? secrets\n: {pw: hunter2}\n" REST,
		HEAD "secrets: !!map {pw: hunter2}\n" REST,
		HEAD "secrets: hunter2\n" REST,
		HEAD "secrets: [hunter2]\n" REST,
	};
	for (size_t i = 0; i < ARRAY_SIZE(TEXTS); i++) {
		struct run r = run_job(TEXTS[i]);
		if (r.job)
			fail_msg("%s", TEXTS[i]);
		assert_int_equal(r.err.http, 400);
		run_done(&r);
		assert_hidden(TEXTS[i]);
	}
}

TEST(test_masked_secrets_are_refused_when_submitted)
{
	assert_refused(HEAD "secrets: \"******\"\n" REST,
	               "4:10: secrets: must be a mapping; this job was stored without its secrets");
}

TEST(test_password_in_a_url_gives_a_warning)
{
	const char *text = HEAD "secrets:\n  a: https://u:hunter2@h\n\n"
				"parameters: {a: 'https://u:p@h'}\n" REST;
	assert_warned(text, "7:29: others can read the password in this URL");
	assert_quiet(HEAD "secrets: {a: 'https://u:hunter2@h'}\n" REST);
	assert_quiet(HEAD
	             "parameters: {a: 'https://u:<% $secrets.a %>@h', b: 'http://h:80/@'}\n" REST);
}

/* ---- auth ------------------------------------------------------------------------------------ */

#define AUTH(a)                                                                                    \
	HEAD                                                                                       \
	    "prerequisites:\n- name: i\n  type: dockerimage\n  uri: u\n  auth:\n" a ROLE COMMANDS( \
		"x")

TEST(test_auth_of_prerequisites_is_masked)
{
	assert_stored(
	    AUTH("    username: bob\n    password: 'hun''ter2' # c\n    registryuri: r.io\n"),
	    AUTH("    username: " MASKED "\n    password: " MASKED
	         " # c\n    registryuri: r.io\n"));
	assert_stored(AUTH("    {password: \"hunter2 \\\" \\u00e9\", token: hunter2}\n"),
	              AUTH("    {password: " MASKED ", token: " MASKED "}\n"));
	assert_stored(AUTH("    password: ''\n"), AUTH("    password: ''\n"));
}

TEST(test_auth_that_refers_to_secrets_is_kept)
{
	assert_stored(AUTH("    password: <% $secrets.p %>\n    username: '<%$secrets.p%>!'\n") //
	              "secrets: {p: hunter2}\n",
	              AUTH("    password: <% $secrets.p %>\n    username: " MASKED "\n") //
	              "secrets: " MASKED);
}

TEST(test_auth_of_other_prerequisites_is_masked)
{
	assert_stored(
	    HEAD
	    "prerequisites:\n- {name: i, type: dockerimage, uri: u}\n"
	    "- {name: s, type: script, uri: u, auth: {password: hunter2}}\n" ROLE COMMANDS("x"),
	    HEAD "prerequisites:\n- {name: i, type: dockerimage, uri: u}\n"
		 "- {name: s, type: script, uri: u, auth: {password: " MASKED
		 "}}\n" ROLE COMMANDS("x"));
	RUN_AUTO r = run_job(
	    HEAD "prerequisites:\n- {name: i, type: dockerimage, uri: u}\n"
		 "- {name: s, type: output, uri: u, auth: {pin: 1234}}\n" ROLE COMMANDS("x"));
	assert_null(r.job);
	assert_within(notes_lines(&r, &r.err.notes), "prerequisites[1].auth.pin: cannot be hidden");
}

TEST(test_auth_in_json_is_masked)
{
	assert_stored(
	    "{\"protocolVersion\":2,\"name\":\"j\",\"type\":\"job\",\"taskRoles\":{\"w\":"
	    "{\"dockerImage\":\"i\",\"commands\":[\"x\"],\"resourcePerInstance\":{\"cpu\":1,"
	    "\"memoryMB\":1,\"gpu\":0}}},\"prerequisites\":[{\"description\":\"\xc3\xa9\","
	    "\"name\":\"i\",\"type\":\"dockerimage\",\"uri\":\"u\",\"auth\":{\"password\":"
	    "\"hunter\\u0032\"}}]}",
	    "{\"protocolVersion\":2,\"name\":\"j\",\"type\":\"job\",\"taskRoles\":{\"w\":"
	    "{\"dockerImage\":\"i\",\"commands\":[\"x\"],\"resourcePerInstance\":{\"cpu\":1,"
	    "\"memoryMB\":1,\"gpu\":0}}},\"prerequisites\":[{\"description\":\"\xc3\xa9\","
	    "\"name\":\"i\",\"type\":\"dockerimage\",\"uri\":\"u\",\"auth\":{\"password\":" MASKED
	    "}}]}");
}

TEST(test_auth_that_cannot_be_cut_is_refused)
{
	static const char *const TEXTS[] = {
		AUTH("    password: |\n      hunter2\n"),
		AUTH("    password: hunter2\n     and more\n"),
		AUTH("    password: &p hunter2\n"),
		AUTH("    password: !!str hunter2\n"),
		HEAD "parameters: {a: &a {password: hunter2}}\nprerequisites: [{name: i, type: "
		     "dockerimage, uri: u, auth: *a}]\n" ROLE COMMANDS("x"),
		HEAD "parameters: {a: &a {password: hunter2}}\nprerequisites: [{name: i, type: "
		     "dockerimage, uri: u, auth: {<<: *a}}]\n" ROLE COMMANDS("x"),
		HEAD
		"parameters: {a: &a hunter2}\nprerequisites: [{name: i, type: dockerimage, uri: u, "
		"auth: {password: *a}}]\n" ROLE COMMANDS("x"),
		HEAD "parameters: {a: &a {type: dockerimage, uri: u, auth: {password: hunter2}}}\n"
		     "prerequisites: [{name: i, <<: *a}]\n" ROLE COMMANDS("x"),
		HEAD "prerequisites: [{name: i, type: dockerimage, uri: u, auth: &a {password: "
		     "hunter2}}]\n"
		     "parameters: {a: *a}\n" ROLE COMMANDS("x"),
	};
	for (size_t i = 0; i < ARRAY_SIZE(TEXTS); i++) {
		struct run r = run_job(TEXTS[i]);
		if (r.job)
			fail_msg("%s", TEXTS[i]);
		run_done(&r);
		assert_hidden(TEXTS[i]);
	}
}

/* ---- messages ----------------------------------------------------------------------------- */

/* A value below `<<` that another one overrides is in the text, but not in the tree. */
TEST(test_overridden_auth_is_refused)
{
#define OVERRIDES(auth, more)                                                                      \
	"{protocolVersion: 2, type: job, name: j, " more                                           \
	"prerequisites: [{type: dockerimage, name: i, uri: debian" auth "}], "                     \
	"taskRoles: {r: {dockerImage: i, resourcePerInstance: {cpu: 1, memoryMB: 1, gpu: 0}, "     \
	"commands: [x]}}}"
	static const struct {
		const char *job, *pointer;
	} CASES[] = {
		{ OVERRIDES(", auth: {<<: {password: hunter2}, password: \"p\", username: \"u\"}",
		            ""),
		  "prerequisites[0].auth.password" },
		{ OVERRIDES(", auth: {username: \"u\", password: \"p\", <<: {password: hunter2}}",
		            ""),
		  "prerequisites[0].auth.password" },
		{ OVERRIDES(", <<: {auth: {password: hunter2}}, auth: {username: \"u\"}", ""),
		  "prerequisites[0].auth" },
		{ OVERRIDES("", "<<: {prerequisites: [{auth: {password: hunter2}}]}, "),
		  "prerequisites: " },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		RUN_AUTO r = run_job(CASES[i].job);
		assert_null(r.job);
		assert_non_null(
		    strstr(notes_lines(&r, &r.err.notes), "overrides a value below `<<`"));
		assert_non_null(strstr(notes_lines(&r, &r.err.notes), CASES[i].pointer));
		assert_null(strstr(notes_lines(&r, &r.err.notes), "hunter2"));
	}
	/* An alias that is overridden hides nothing; nor does an empty text. */
	assert_hidden(OVERRIDES(", auth: &a {username: \"u\", password: \"hunter2\"}}, "
	                        "{type: data, name: d, auth: {<<: *a, password: \"hunter2\", "
	                        "username: \"hunter2\"}",
	                        ""));
	struct run r = run_good(OVERRIDES(
	    ", auth: {<<: {password: \"\", username: \"u\"}, password: \"hunter2\"}", ""));
	assert_null(memmem(r.job->config.p, r.job->config.n, "hunter2", 7));
	run_done(&r);
#undef OVERRIDES
}

TEST(test_messages_show_no_secret)
{
	static const char *const TEXTS[] = {
		HEAD "secrets: {a: hunter2}\njobRetryCount: x\n" REST,
		HEAD "secrets: {a: hunter2, a: hunter2}\n" REST,
		HEAD "secrets: {a: &x hunter2, b: *y}\n" REST,
		HEAD "secrets: [hunter2, hunter2]\n" REST,
		HEAD "secrets: hunter2\n" REST,
		AUTH("    password: [hunter2]\n"),
		AUTH("    password: hunter2\n    username: 'hunter2:hunter2'\n"),
		AUTH("    registryuri: 'https://u:hunter2@h'\n"),
		HEAD "secrets: {a: &a hunter2+}\nparameters: *a\n" REST,
		HEAD "secrets: [&a hunter2+]\ndefaults: {virtualCluster: *a}\n" REST,
		HEAD
		"secrets: {a: hunter2}\nparameters: {secrets: {a: 1}}\njobRetryCount: -1\n" REST,
		AUTH("    password: '<% $secrets.no %>hunter2'\n"),
		AUTH("    password: '<% hunter2'\n"),
		AUTH("    registryuri: '<% $secrets.p %>'\n") "secrets: {p: 'a hunter2 b'}\n",
	};
	for (size_t i = 0; i < ARRAY_SIZE(TEXTS); i++)
		assert_hidden(TEXTS[i]);
}
