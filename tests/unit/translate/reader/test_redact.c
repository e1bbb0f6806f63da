/* The stored text of a job: as it was sent, or written from the tree without the secrets. */
#include "base/doc/tree.h"
#include "tests/unit/translate/parse_kit.h"

#define MASKED "\"******\""
#define REST   IMAGE ROLE COMMANDS("x")
/* IMAGE, ROLE and COMMANDS("x") as they are stored. */
#define STORED_ROLE                                                                                \
	"taskRoles:\n  w:\n    dockerImage: i\n    resourcePerInstance:\n"                         \
	"      cpu: 1\n      memoryMB: 8\n      gpu: 0\n    commands:\n      - x\n"
#define STORED_REST                                                                                \
	"prerequisites:\n  - name: i\n    type: dockerimage\n    uri: ubuntu\n" STORED_ROLE

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

static void assert_json(struct span text, struct str *json)
{
	const struct node *root = doc_quiet(text, &BUDGET_DEFAULT, &unit.a);
	assert_non_null(root);
	node_json(json, root);
}

/* `before` and `after`, with a member between them, are stored as the same values. */
static void assert_kept(const char *before, const char *secret, const char *hidden,
                        const char *after)
{
	STR_AUTO want = STR_INIT(1 << 20);
	STR_AUTO got = STR_INIT(1 << 20);
	RUN_AUTO r = run_good(arena_printf(&unit.a, "%s%s%s", before, secret, after));
	assert_json(span_of(arena_printf(&unit.a, "%s%s%s", before, hidden, after)), &want);
	assert_json(r.job->config, &got);
	assert_string_equal(str_c(&got), str_c(&want));
	assert_null(memmem(r.job->config.p, r.job->config.n, "hunter2", 7));
}

TEST(test_text_without_secrets_is_stored_byte_for_byte)
{
	static const char *const TEXTS[] = {
		V2("# secrets: no\n"),
		V2("parameters: {secrets: {a: b}}\r\n\r\n"),
		V2("parameters: {a: &a {b: 1}, c: {<<: *a, b: 2}} # a comment\n"),
		"\xef\xbb\xbf" V2(""),
		V1("\"jobEnvs\":{\"secrets\":\"a\"},", ""),
	};
	for (size_t i = 0; i < ARRAY_SIZE(TEXTS); i++)
		assert_stored(TEXTS[i], TEXTS[i]);
}

/* However `secrets` is written. */
TEST(test_secrets_of_any_form_are_hidden)
{
	static const char *const FORMS[] = {
		"secrets: {}\n",
		"secrets: {\npw: hunter2, o: x\n}\n",
		"secrets:\n  pw: \"a\nhunter2\"\n",
		"\"secrets\" :\n  pw: |\n    hunter2\n\n",
		"'secrets': {a: '}, hunter2: {'}\n",
		"\"\\x73ecrets\":\n  pw: hunter2\n",
		"secrets:\n  pw: hunter2\r\n  b: [hunter2, {c: hunter2}]\r\n",
		"? secrets\n: {pw: hunter2}\n",
		"secrets: !!map {pw: !!str hunter2}\n",
		"!!str secrets: {pw: hunter2}\n",
		"<<: {secrets: {pw: hunter2}}\n",
		"<<: {secrets: {pw: hunter2}}\nsecrets: {pw: hunter2}\n",
		"secrets: {<<: {pw: hunter2}}\n",
	};
	for (size_t i = 0; i < ARRAY_SIZE(FORMS); i++)
		assert_kept(HEAD, FORMS[i], "secrets: " MASKED "\n", REST);
	assert_kept(HEAD "parameters: {k: &k secrets}\n", "*k : {pw: hunter2}\n",
	            "secrets: " MASKED "\n", REST);
	assert_kept(
	    "  protocolVersion: 2\n  name: j\n  type: job\n", "  secrets:\n    a: hunter2\n",
	    "  secrets: " MASKED "\n",
	    "  taskRoles: {w: {dockerImage: i, commands: [x], resourcePerInstance: {cpu: 1, "
	    "memoryMB: 1, gpu: 0}}}\n"
	    "  prerequisites: [{name: i, type: dockerimage, uri: u}]\n");
}

#define FLOW_REST                                                                                  \
	"taskRoles: {w: {dockerImage: i, commands: [x], resourcePerInstance: {cpu: 1, "            \
	"memoryMB: 1, gpu: 0}}}, prerequisites: [{name: i, type: dockerimage, uri: u}]}"

TEST(test_secrets_in_flow_style_are_hidden)
{
	static const char *const BEFORE[] = { "", "&all ", "!!map ", "--- &all !!map\n " };
	for (size_t i = 0; i < ARRAY_SIZE(BEFORE); i++)
		assert_kept(
		    arena_printf(&unit.a, "%s{protocolVersion: 2, name: j, type: job, ", BEFORE[i]),
		    "secrets: {a: hunter2}, # hunter2\n", "secrets: " MASKED ", ", FLOW_REST);
}

#define JSON_HEAD "{\"protocolVersion\":2,\"name\":\"j\",\"type\":\"job\","
#define JSON_ROLES                                                                                 \
	"\"taskRoles\":{\"w\":{\"dockerImage\":\"i\",\"commands\":[\"x\"],"                        \
	"\"resourcePerInstance\":{\"cpu\":1,\"memoryMB\":1,\"gpu\":0}}}"
#define JSON_IMAGE(more)                                                                           \
	",\"prerequisites\":[{\"description\":\"\xc3\xa9\",\"name\":\"i\","                        \
	"\"type\":\"dockerimage\",\"uri\":\"u\"" more "}]"

static const char *const ODD_VALUES[] = {
	"yes",
	"'yes'",
	"No",
	"'true'",
	"~",
	"'~'",
	"",
	"''",
	"0o7",
	"'0o7'",
	"017",
	"'017'",
	"08",
	"0x10",
	"0b11",
	"1:30",
	"'1:30'",
	"1_000",
	"1.10",
	"'1.10'",
	"1e3",
	"-0",
	"-0.0",
	"12345678901234567890",
	"9007199254740993",
	".5",
	"1.7976931348623157e308",
	"5e-324",
	".inf",
	"2001-01-01",
	"'2001-01-01'",
	"!!timestamp 2001-12-14 21:59:43",
	"!!str 12",
	"\"a\\tb\"",
	"\"\\n\"",
	"\" a\\n b \\n\"",
	"\"a\\n\\n\"",
	"\"a\\r\\nb\"",
	"\"\\u2028\\ufeff\\x85\\x07\"",
	"\"\\U0001f600 \xc3\xbc\"",
	"|\n    a\n     b\n\n    c \n  ",
	">+\n    folded\n    text\n\n  ",
	"'# no comment'",
	"'a: b'",
	"'- a'",
	"'*a'",
	"'&a'",
	"'!a'",
	"'{{a}}'",
	"'<% $parameters.x %>'",
	"[]",
	"{}",
	"[[], {}, [[~]], '']",
	"{<<: {a: 1, b: 2}, b: 3}",
	"[&a {b: [&c x, *c]}, *a, {<<: *a, d: *c}]",
	"{'': 1, '<<': 2, 'yes': 3, '1': 4, 017: 5, 1.50: 6, 'a: b': 7, \"a\\nb\": 8}",
	"{? 'x' : 9}",
	"{2001-01-01: 1, __proto__x: 2, 'null': 3, '#': 4, '- ': 5}",
};

/* Values and keys that readers of YAML take for something else if they are written carelessly. */
TEST(test_other_values_are_stored_unchanged)
{
	for (size_t i = 0; i < ARRAY_SIZE(ODD_VALUES); i++)
		assert_kept(HEAD, "secrets: {a: hunter2}\n", "secrets: " MASKED "\n",
		            arena_printf(&unit.a, "extras:\n  v: %s\n" REST, ODD_VALUES[i]));
	/* JSON has no number for these. */
	assert_stored(HEAD "secrets: {a: hunter2}\nextras: {v: [.nan, .inf, -.Inf]}\n" REST,
	              HEAD "secrets: " MASKED
	                   "\nextras:\n  v:\n    - .nan\n    - .inf\n    - -.inf\n" STORED_REST);
	STR_AUTO text = STR_INIT(1 << 20);
	str_puts(&text, HEAD REST "parameters: {? ");
	str_many(&text, "k", 1023);
	str_puts(&text, "\n : ");
	for (int i = 0; i < 100000; i++)
		str_puts(&text, i % 1000 ? "x" : " ");
	str_puts(&text, "}\n");
	assert_kept(str_c(&text), "secrets: {a: hunter2}\n", "secrets: " MASKED "\n", "");
}

TEST(test_stored_text_without_secrets_is_limited)
{
	enum { MEMBERS = 2000 };
	STR_AUTO text = STR_INIT(1 << 20);
	str_puts(&text, HEAD REST "secrets: {a: hunter2}\nextras: {a: &a [");
	str_many(&text, "xxxxxxxx,", MEMBERS);
	str_puts(&text, "], b: [");
	str_many(&text, "*a,", 40);
	str_puts(&text, "]}\n");
	assert_refused(str_c(&text), "with its aliases written out, is larger than");
}

/* Other parts of the job would show these, and messages could. */
TEST(test_shared_secrets_are_refused)
{
	static const char *const TEXTS[] = {
		HEAD "secrets: &s {pw: hunter2}\nparameters: {p: *s}\n" REST,
		HEAD "secrets: {pw: &s hunter2}\nparameters: {p: *s}\n" REST,
		HEAD "secrets: {pw: [{a: &s 4711}]}\nparameters: {p: *s}\n" REST,
		HEAD "secrets: {&s hunter2: a}\nparameters: {p: *s}\n" REST,
		HEAD "parameters: {p: &s hunter2}\nsecrets: {*s : a}\n" REST,
		HEAD "parameters: {p: &s hunter2}\nsecrets: {pw: *s}\n" REST,
		HEAD "parameters: {p: &s {pw: hunter2}}\nsecrets: *s\n" REST,
		HEAD "parameters: {p: &s {pw: hunter2}}\nsecrets: {<<: *s}\n" REST,
		HEAD "parameters: {p: &s [{pw: hunter2}]}\nsecrets: {<<: *s}\n" REST,
		HEAD "secrets: {<<: &s {pw: hunter2}}\nparameters: {p: *s}\n" REST,
		HEAD "secrets: {<<: &s {pw: hunter2}, pw: x}\nparameters: {p: *s}\n" REST,
		HEAD "extras: &e {secrets: {a: hunter2}}\n<<: *e\n" REST,
		HEAD "<<: {secrets: {a: &s hunter2}}\nsecrets: {a: x}\nparameters: {p: *s}\n" REST,
	};
	for (size_t i = 0; i < ARRAY_SIZE(TEXTS); i++) {
		assert_refused(TEXTS[i], ": secrets: has an anchor or an alias, so other parts");
		assert_hidden(TEXTS[i]);
	}
}

TEST(test_secrets_that_are_no_mapping_are_refused)
{
	static const char *const TEXTS[] = {
		HEAD "secrets: hunter2\n" REST,
		HEAD "secrets: [hunter2]\n" REST,
		HEAD "secrets: ~\n" REST,
	};
	for (size_t i = 0; i < ARRAY_SIZE(TEXTS); i++) {
		assert_refused(TEXTS[i], "4:10: secrets: must be a mapping");
		assert_hidden(TEXTS[i]);
	}
	assert_refused(HEAD "secrets: \"******\"\n" REST,
	               "4:10: secrets: must be a mapping; this job was stored without its secrets");
}

TEST(test_password_in_a_url_gives_a_warning)
{
	const char *text = HEAD "secrets:\n  a: https://u:hunter2@h\n\n"
				"parameters: {a: 'https://u:p@h'}\n" REST;
	assert_warned(text, "7:29: others can read the password in this URL");
	assert_quiet(HEAD "secrets: {a: 'https://u:hunter2@h'}\n" REST);
	assert_quiet(
	    JSON_HEAD JSON_ROLES JSON_IMAGE("") ",\"secrets\":{\"a\":\"https://u:hunter2@h\"}}");
	assert_warned(JSON_HEAD "\"secrets\":{\"a\":\"b\"},\"parameters\":{\"a\":"
	                        "\"https://u:p@h\"}," JSON_ROLES JSON_IMAGE("") "}",
	              "1:96: others can read the password in this URL");
	assert_quiet(HEAD
	             "parameters: {a: 'https://u:<% $secrets.a %>@h', b: 'http://h:80/@'}\n" REST);
}

/* ---- auth ------------------------------------------------------------------------------------ */

#define AUTH_HEAD HEAD "prerequisites:\n- name: i\n  type: dockerimage\n  uri: u\n  auth:\n"
#define AUTH(a)   AUTH_HEAD a ROLE COMMANDS("x")
#define STORED(a)                                                                                  \
	HEAD "prerequisites:\n  - name: i\n    type: dockerimage\n    uri: u\n    auth:\n" a

/* However a password is written. */
TEST(test_auth_of_any_form_is_hidden)
{
	static const char *const FORMS[] = {
		"    {password: \"hunter2 \\\" \\u00e9\", username: hunter2}\n",
		"    username: |\n      hunter2\n    password: >-\n      hunter2\n      more\n",
		"    password: hunter2\n     and more\n    username: !!str hunter2\n",
		"    <<: {password: hunter2, username: hunter2}\n",
	};
	for (size_t i = 0; i < ARRAY_SIZE(FORMS); i++) {
		RUN_AUTO r =
		    run_good(arena_printf(&unit.a, AUTH_HEAD "%s" ROLE COMMANDS("x"), FORMS[i]));
		assert_null(memmem(r.job->config.p, r.job->config.n, "hunter2", 7));
		assert_non_null(memmem(r.job->config.p, r.job->config.n, "password: " MASKED, 18));
		assert_non_null(memmem(r.job->config.p, r.job->config.n, "username: " MASKED, 18));
	}
}

TEST(test_stored_job_has_the_expected_text)
{
	/* Text with secrets is written without them. */
	assert_stored(HEAD "secrets:\n  pw: hunter2\n# old: hunter2\n" REST,
	              "protocolVersion: 2\nname: j\ntype: job\nsecrets: " MASKED "\n" STORED_REST);
	assert_stored("\xef\xbb\xbfsecrets: {a: hunter2} # hunter2\r\n" HEAD REST
	              "...\n# hunter2\n",
	              "secrets: " MASKED "\n" HEAD STORED_REST);
	/* Json stays json. */
	assert_stored(JSON_HEAD
	              " \"secrets\" : {\"a\": \"hunter2\", \"b\": \"}\"}, " JSON_ROLES JSON_IMAGE(
			  "") " // hunter2\n}",
	              JSON_HEAD "\"secrets\":" MASKED "," JSON_ROLES JSON_IMAGE("") "}");
	assert_stored(
	    JSON_HEAD JSON_ROLES JSON_IMAGE(", \"auth\": {\"password\": \"hunter\\u0032\"}") "}",
	    JSON_HEAD JSON_ROLES JSON_IMAGE(",\"auth\":{\"password\":" MASKED "}") "}");
	/* Auth of prerequisites is hidden. */
	assert_stored(
	    AUTH("    username: bob\n    password: 'hun''ter2' # c\n    registryuri: r.io\n"),
	    STORED("      username: " MASKED "\n      password: " MASKED
	           "\n      registryuri: r.io\n") STORED_ROLE);
	assert_stored(AUTH("    password: ''\n    username: \"\"\n"),
	              AUTH("    password: ''\n    username: \"\"\n"));
	/* Auth that refers to secrets is kept. */
	assert_stored(AUTH("    password: <% $secrets.p %>\n    username: '<%$secrets.p%>!'\n") //
	              "secrets: {p: hunter2}\n",
	              STORED("      password: \"<% $secrets.p %>\"\n      username: " MASKED "\n")
	                  STORED_ROLE "secrets: " MASKED "\n");
}

TEST(test_auth_of_other_prerequisites_is_hidden)
{
	assert_kept(HEAD "prerequisites:\n- {name: i, type: dockerimage, uri: u}\n"
	                 "- {name: s, type: script, uri: u, auth: {",
	            "password: hunter2, pin: 1234, list: [hunter2], map: {a: hunter2}",
	            "password: " MASKED ", pin: " MASKED ", list: " MASKED ", map: " MASKED,
	            "}}\n" ROLE COMMANDS("x"));
}

TEST(test_shared_auth_is_refused)
{
#define FLOW_AUTH(auth)                                                                            \
	"prerequisites: [{name: i, type: dockerimage, uri: u, auth: " auth "}]\n" ROLE COMMANDS("x")
	static const char *const TEXTS[] = {
		AUTH("    password: &p hunter2\n"),
		HEAD "parameters: {a: &a {password: hunter2}}\n" FLOW_AUTH("*a"),
		HEAD "parameters: {a: &a {password: hunter2}}\n" FLOW_AUTH("{<<: *a}"),
		HEAD "parameters: {a: &a [{password: hunter2}]}\n" FLOW_AUTH("{<<: *a}"),
		HEAD "parameters: {a: &a hunter2}\n" FLOW_AUTH("{password: *a}"),
		HEAD "parameters: {a: &a {type: dockerimage, uri: u, auth: {password: hunter2}}}\n"
		     "prerequisites: [{name: i, <<: *a}]\n" ROLE COMMANDS("x"),
		HEAD FLOW_AUTH("&a {password: hunter2}") "parameters: {a: *a}\n",
		HEAD "prerequisites: [&a {name: i, type: dockerimage, uri: u, auth: {password: "
		     "hunter2}}]\nparameters: {a: *a}\n" ROLE COMMANDS("x"),
		HEAD "prerequisites: &a [{name: i, type: dockerimage, uri: u, auth: {password: "
		     "hunter2}}]\nparameters: {a: *a}\n" ROLE COMMANDS("x"),
		HEAD "extras: &e {prerequisites: [{name: i, type: dockerimage, uri: u, auth: "
		     "{password: hunter2}}]}\n<<: *e\n" ROLE COMMANDS("x"),
		HEAD FLOW_AUTH("{<<: &a {password: hunter2}, password: x}") "parameters: {a: *a}\n",
	};
#undef FLOW_AUTH
	for (size_t i = 0; i < ARRAY_SIZE(TEXTS); i++) {
		assert_refused(TEXTS[i],
		               "prerequisites[0].auth.password: has an anchor or an alias");
		assert_hidden(TEXTS[i]);
	}
}

/* A value below `<<` that another one overrides is in the text, but not in the tree. */
TEST(test_overridden_auth_is_not_stored)
{
#define OVERRIDES(auth, more)                                                                      \
	"{protocolVersion: 2, type: job, name: j, " more                                           \
	"prerequisites: [{type: dockerimage, name: i, uri: debian" auth "}], "                     \
	"taskRoles: {r: {dockerImage: i, resourcePerInstance: {cpu: 1, memoryMB: 1, gpu: 0}, "     \
	"commands: [x]}}}"
	static const char *const JOBS[] = {
		OVERRIDES(", auth: {<<: {password: hunter2}, password: p, username: u}", ""),
		OVERRIDES(", auth: {username: u, password: p, <<: {password: hunter2}}", ""),
		OVERRIDES(", auth: {<<: {password: hunter2}, password: \"\", username: u}", ""),
		OVERRIDES(", auth: {<<: {password: hunter2}, password: \"\"}", ""),
		OVERRIDES(", <<: {auth: {password: hunter2}}, auth: {username: \"\"}", ""),
		OVERRIDES("", "<<: {prerequisites: [{auth: {password: hunter2}}]}, "),
	};
#undef OVERRIDES
	for (size_t i = 0; i < ARRAY_SIZE(JOBS); i++) {
		RUN_AUTO r = run_good(JOBS[i]);
		assert_true(r.job->redacted);
		assert_hidden(JOBS[i]);
	}
}

/* ---- messages ----------------------------------------------------------------------------- */

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
