/* Options from flags, environment and file: precedence, errors, generated texts. */

#include "tests/unit/base/cmocka.h"
#include <jansson.h>
#include <unistd.h>

#include "server/config/options.h"

enum { ARGS_MAX = 16, HELP_MAX = 65536 };

struct parsed {
	struct options o;
	struct err e;
	char *argv[ARGS_MAX];
	int argc;
	int result;
};

/* Parse arguments NULL-terminated, without the command's name. */
static void parse(struct parsed *p, unsigned command, const char *const *args)
{
	*p = (struct parsed){ 0 };
	p->argv[p->argc++] = xstrdup("command");
	for (; *args; args++)
		p->argv[p->argc++] = xstrdup(*args);
	p->result = options_parse(&p->o, command, p->argc, p->argv, &p->e);
}

static void done(struct parsed *p)
{
	arena_done(&p->o.arena);
	err_done(&p->e);
	for (int i = 0; i < p->argc; i++)
		free(p->argv[i]);
}

#define PARSED(p, command, ...)                                                                    \
	__attribute__((cleanup(done))) struct parsed p;                                            \
	parse(&(p), (command), (const char *const[]){ __VA_ARGS__, NULL })

static void assert_refused(unsigned command, const char *arg, const char *value, const char *word)
{
	PARSED(p, command, arg, value);
	assert_int_equal(p.result, -1);
	assert_non_null(strstr(err_msg(&p.e), word));
}

TEST(test_options_parse_gives_the_defaults)
{
	PARSED(p, FOR_SERVE, NULL);
	assert_int_equal(p.result, 0);
	assert_string_equal(p.o.listen, "127.0.0.1:9186");
	assert_int_equal(p.o.max_body, 102400);
	assert_int_equal(p.o.connections, 2000);
	assert_false(p.o.no_auth);
	/* The janitor must not delete a submission in progress. */
	assert_true(p.o.janitor_age_s >= p.o.deadline_s + 10);
}

TEST(test_options_parse_takes_values_with_and_without_equals_sign)
{
	PARSED(p, FOR_SERVE, "--max-body", "64KiB", "--user=alice", "--no-auth",
	       "--cache-memory=2MiB");
	assert_int_equal(p.result, 0);
	assert_int_equal(p.o.max_body, 65536);
	assert_int_equal(p.o.cache_memory, 2 << 20);
	assert_string_equal(p.o.user, "alice");
	assert_true(p.o.no_auth);
}

TEST(test_options_of_bytes_take_the_units_of_other_tools)
{
	static const char *const MIB_8[] = { "8388608", "8192KiB", "8192k", "8192KB", "8MiB",
		                             "8Mi",     "8M",      "8m",    "8MB",    "8mib" };
	for (size_t i = 0; i < ARRAY_SIZE(MIB_8); i++) {
		PARSED(p, FOR_SUBMIT, "--memory", MIB_8[i]);
		assert_int_equal(p.result, 0);
		assert_int_equal(p.o.ask_memory, 8 << 20);
	}
	PARSED(p, FOR_SUBMIT, "-m", "2T");
	assert_int_equal(p.o.ask_memory, INT64_C(2) << 40);
	PARSED(q, FOR_SUBMIT, "-m", "0");
	assert_int_equal(q.result, 0);
	for (const char *const *bad = (const char *const[]){ "8GBB", "8iB", "8B", "G", "8.5G",
	                                                     "8 G", "8GiG", "99999999999T", NULL };
	     *bad; bad++)
		assert_refused(FOR_SUBMIT, "--memory", *bad, "64KiB, 300M and 16GiB are valid");
}

TEST(test_options_of_bytes_want_a_unit_below_a_mib)
{
	assert_refused(
	    FOR_SUBMIT, "-m", "8192",
	    "--memory: 8192 without a unit means bytes; did you mean 8192MiB or 8192GiB?");
	assert_refused(FOR_SERVE, "--keep-logs", "10", "10MiB or 10GiB?");
	assert_refused(FOR_SERVE, "--max-body", "1048575", "means bytes");
	PARSED(p, FOR_SERVE, "--max-body", "1048576");
	assert_int_equal(p.o.max_body, 1 << 20);
}

TEST(test_options_parse_keeps_names_of_files)
{
	PARSED(p, FOR_TRANSLATE, "-o", "yaml", "-", "--", "--odd");
	assert_int_equal(p.result, 0);
	assert_string_equal(p.o.output, "yaml");
	assert_int_equal(p.o.n_files, 2);
	assert_string_equal(p.o.files[0], "-");
	assert_string_equal(p.o.files[1], "--odd");
}

TEST(test_options_passwords_are_not_repeated)
{
	PARSED(p, FOR_SERVE, "--hived-webservice", "http://u:geheim|@h");
	assert_int_equal(p.result, -1);
	assert_string_equal(err_msg(&p.e), "--hived-webservice: must be a URL");
}

TEST(test_options_parse_refuses_unknown_options)
{
	assert_refused(FOR_SERVE, "--nonsense", NULL, "unknown option");
	assert_refused(FOR_SERVE, "--nonsense", NULL, "--nonsense; --help-all lists them");
	assert_refused(FOR_SERVE, "--listne=:80", NULL,
	               "unknown option --listne, did you mean --listen? --help-all lists them");
	assert_refused(FOR_JOBS, "--stat", "x", "did you mean --state?");
	assert_refused(FOR_JOBS, "--listne", "x",
	               "unknown option --listne; "); /* of another command */
	assert_refused(FOR_SERVE, "--patence", "1",
	               "unknown option --patence; "); /* a fixed limit */
	assert_refused(FOR_SERVE, "--output", "yaml", "not an option of this command");
	assert_refused(FOR_SERVE, "--max-body", "1KiB1", "number");
	assert_refused(FOR_SERVE, "--max-body", "32M", "from 1024 to");
	assert_refused(FOR_SERVE, "--max-body", "many", "number");
	assert_refused(FOR_SERVE, "--max-body", "9999999999999999999", "number");
	assert_refused(FOR_SERVE, "--connections", "64KiB", "number");
	assert_refused(FOR_SERVE, "--connections", "0", "from 1 to"); /* no client could connect */
	assert_refused(FOR_SERVE, "--drain-delay", "30x",
	               "3600 (seconds; 90s, 30m, 12h and 1d are valid), is \"30x\"");
	assert_refused(FOR_SERVE, "--gpu-idle", "-1s", "seconds; 90s");
	assert_refused(FOR_SERVE, "--gpu-idle", "99999999d", "from 0 to 2147483647");
	assert_refused(FOR_KEEP, "--for", "59m", "from 3600");
	assert_refused(FOR_SERVE, "--profile", "other",
	               "plain or openpai or restricted, is \"other\"");
	assert_refused(FOR_SERVE, "--hived-webservice", "http://a|b",
	               "must be a URL, is \"http://a|b");
	assert_refused(FOR_SERVE, "--token-check", "other", "must be stored or signature, is");
	assert_refused(FOR_SERVE, "--namespace", "../x", "namespace");
	assert_refused(FOR_SERVE, "--namespace", "-x", "namespace");
	assert_refused(FOR_SERVE, "--instance", "a b", "label");
	assert_refused(FOR_SERVE, "--user", "a.", "is \"a.\"");
	assert_refused(FOR_TOKEN, "--user", "al ice", "a user's name");
	assert_refused(FOR_SERVE, "--runtime-image", "a\nb", "image");
	assert_refused(FOR_SERVE, "--device", "$(x)", "resource");
	assert_refused(FOR_SERVE, "--no-auth=maybe", NULL, "true or false");
	assert_refused(FOR_SERVE, "--user", NULL, "needs a value");
}

/* NULL: remove the variable.  There is one thread here. */
static void set_variable(const char *name, const char *value)
{
	int r = value ? setenv(name, value, 1) /* NOLINT(concurrency-mt-unsafe) */
	              : unsetenv(name);        /* NOLINT(concurrency-mt-unsafe) */
	assert_int_equal(r, 0);
}

static void set_max_body(const char *value)
{
	set_variable("REST_LIT_MAX_BODY", value);
}

TEST(test_options_parse_prefers_flags_over_the_environment)
{
	set_max_body("2KiB");
	PARSED(p, FOR_SERVE, NULL);
	assert_int_equal(p.o.max_body, 2048);
	PARSED(q, FOR_SERVE, "--max-body=3KiB");
	assert_int_equal(q.o.max_body, 3072);
	set_max_body("much");
	PARSED(r, FOR_SERVE, NULL);
	assert_int_equal(r.result, -1);
	assert_non_null(strstr(err_msg(&r.e), "REST_LIT_MAX_BODY"));
	set_max_body(NULL);
}

/* A file with this text, parsed; its name is removed again. */
static void parse_file(struct parsed *p, const char *text, const char *flag)
{
	char path[] = "/tmp/rest-lit-options.XXXXXX";
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	(void)close(fd);
	parse(p, FOR_SERVE, (const char *const[]){ "--config", path, flag, NULL });
	(void)unlink(path);
}

#define PARSED_FILE(p, text, flag)                                                                 \
	__attribute__((cleanup(done))) struct parsed p;                                            \
	parse_file(&(p), (text), (flag))

/* Asserts that a flag, a variable and a key of this name are refused; the message is the name as it
 * was used, and `end`. */
static void assert_nowhere(const char *option, const char *end)
{
	FREE_AUTO char *flag = xasprintf("--%s", option);
	FREE_AUTO char *flag_says = xasprintf("--%s%s", option, end);
	FREE_AUTO char *key = xasprintf("max-body: 64KiB\n%s: 5\n", option);
	FREE_AUTO char *key_says = xasprintf("%s%s", option, end);
	STR_AUTO variable = STR_INIT(64);
	STR_AUTO variable_says = STR_INIT(256);
	option_variable(&variable, option);
	str_printf(&variable_says, "%s%s", str_c(&variable), end);
	assert_refused(FOR_SERVE, flag, "5", flag_says);
	assert_refused(FOR_JOBS, flag, "5", flag_says);
	set_variable(str_c(&variable), "5");
	assert_refused(FOR_SERVE, NULL, NULL, str_c(&variable_says));
	set_variable(str_c(&variable), NULL);
	PARSED_FILE(p, key, NULL);
	assert_int_equal(p.result, -1);
	assert_non_null(strstr(err_msg(&p.e), key_says));
	assert_int_equal(p.e.notes.v[0].line, 2);
	assert_null(option_find(span_of(option), ~0U));
}

TEST(test_options_sizes_end_in_gib)
{
	PARSED_FILE(p, "local: d\nmemory: 2GiB\n", "--loops=1");
	assert_string_equal(p.o.local, "d");
	assert_int_equal(p.o.memory, INT64_C(2) << 30);
}

#define FLAG_ONLY ": --wait is a flag only, without a variable or a key"

TEST(test_options_flags_only_have_no_variable_and_no_key)
{
	PARSED(p, FOR_SUBMIT, "--wait");
	assert_true(p.o.wait);
	set_variable("REST_LIT_WAIT", "true");
	assert_refused(FOR_SUBMIT, NULL, NULL, "REST_LIT_WAIT" FLAG_ONLY);
	PARSED(q, FOR_JOBS, NULL); /* has no such option */
	assert_int_equal(q.result, 0);
	set_variable("REST_LIT_WAIT", NULL);
	PARSED_FILE(r, "wait: true\n", NULL);
	assert_int_equal(r.result, -1);
	assert_string_equal(err_msg(&r.e), "wait" FLAG_ONLY);
	/* --mount of serve goes with --no-auth, so that a person has started it. */
	for (size_t i = 0; i < N_OPTIONS; i++)
		assert_true(!OPTIONS[i].flag_only || !(OPTIONS[i].commands & FOR_SERVE) ||
		            strcmp(OPTIONS[i].name, "mount") == 0);
}

/* A variable or a common key for all jobs of a server would change each job of `run`. */
TEST(test_options_gpus_of_serve_and_of_a_command_differ)
{
	PARSED(p, FOR_RUN, "--gpus", "2", "-c", "4", "-m", "1GiB", "--", "python", "--wait");
	assert_int_equal(p.result, 0);
	assert_int_equal(p.o.ask_gpus, 2);
	assert_int_equal(p.o.ask_cpus, 4);
	assert_int_equal(p.o.ask_memory, 1 << 30);
	assert_string_equal(p.o.gpus, "auto");
	assert_int_equal(p.o.n_files, 0);
	assert_string_equal(p.o.command[1], "--wait");
	assert_null(p.o.command[2]);
	PARSED_FILE(q, "gpus: 3\n", NULL); /* of serve */
	assert_string_equal(q.o.gpus, "3");
	set_variable("REST_LIT_GPUS", "3");
	assert_refused(FOR_SERVE, NULL, NULL, "a key of the configuration, without a variable");
	assert_refused(FOR_RUN, NULL, NULL, "a flag only");
	set_variable("REST_LIT_GPUS", NULL);
}

TEST(test_options_lists_keep_each_value)
{
	PARSED(p, FOR_SUBMIT, "--env", "A=1,2", "--env=B=\n", "job.yaml");
	assert_int_equal(p.o.env.n, 2);
	assert_string_equal(p.o.env.v[0], "A=1,2");
	assert_string_equal(p.o.env.v[1], "B=\n");
}

TEST(test_options_parse_prefers_flags_over_the_file)
{
	PARSED_FILE(
	    p,
	    "max-body: 64KiB\nno-auth: true\nhistory: 7\nuser: bob\nserver: http://127.0.0.1:1\n",
	    "--user=alice");
	assert_int_equal(p.result, 0);
	assert_int_equal(p.o.max_body, 65536);
	assert_true(p.o.no_auth);
	assert_int_equal(p.o.history, 7);
	assert_string_equal(p.o.user, "alice");
	PARSED_FILE(q, "# nothing\n", NULL);
	assert_int_equal(q.result, 0);
}

TEST(test_options_parse_reports_all_mistakes_of_the_file)
{
	PARSED_FILE(p, "max-body: 64KiB\nmax-bodi: 1\nuser: [a]\nhistory: -1\n", NULL);
	assert_int_equal(p.result, -1);
	assert_int_equal(p.e.notes.n, 3);
	assert_int_equal(p.e.notes.v[0].line, 2);
	assert_string_equal(p.e.notes.v[0].msg,
	                    "there is no option \"max-bodi\", did you mean \"max-body\"?");
	assert_int_equal(p.e.notes.v[1].line, 3);
	assert_int_equal(p.e.notes.v[2].line, 4);
}

TEST(test_options_fixed_limits_say_their_value)
{
	static const struct {
		const char *name, *value;
	} FIXED[] = {
		{ "deadline", "30 seconds" },
		{ "rate-login", "10" },
		{ "streams-per-user", "8" },
		{ "hived-device-env", "NVIDIA_VISIBLE_DEVICES,HIVED_VISIBLE_DEVICES" },
		{ "service-account", "runtime-account" },
		{ "apiserver-uri", "https://kubernetes.default.svc" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(FIXED); i++) {
		FREE_AUTO char *end = xasprintf(
		    " is fixed at %s, and not an option; see docs/OPTIONS.md", FIXED[i].value);
		assert_nowhere(FIXED[i].name, end);
	}
}

static void assert_limits_refused(const char *limits, const char *word)
{
	set_variable(TEST_LIMITS_VARIABLE, limits);
	assert_refused(FOR_SERVE, NULL, NULL, word);
	set_variable(TEST_LIMITS_VARIABLE, NULL);
}

TEST(test_options_of_tests_change_fixed_limits)
{
	PARSED(p, FOR_SERVE, NULL);
	assert_int_equal(p.o.deadline_s, 30);
	assert_string_equal(p.o.test_limits, "");
	set_variable(TEST_LIMITS_VARIABLE, "  deadline=1 max-text=2MiB  user-namespace=other ");
	PARSED(q, FOR_SERVE, NULL);
	assert_int_equal(q.result, 0);
	assert_int_equal(q.o.deadline_s, 1);
	assert_int_equal(q.o.max_text, 2 << 20);
	assert_string_equal(q.o.user_namespace, "other");
	assert_int_equal(q.o.in_flight, 16);
	assert_true(q.o.test_limits[0]);
	assert_limits_refused("deadline=soon", TEST_LIMITS_VARIABLE ": must be NAME=VALUE");
	assert_limits_refused("in-flight=1 max-body=2KiB", "must be NAME=VALUE");
	assert_limits_refused("nonsense=1", "is \"nonsense=1\"");
	assert_limits_refused("deadline", "must be NAME=VALUE");
	assert_limits_refused("=", "must be NAME=VALUE");
}

TEST(test_option_names_and_ranges_are_consistent)
{
	for (size_t i = 0; i < N_OPTIONS; i++) {
		const struct option *o = &OPTIONS[i];
		assert_ptr_equal(option_find(span_of(o->name), o->commands), o);
		assert_int_equal(strspn(o->name, "abcdefghijklmnopqrstuvwxyz0123456789-"),
		                 strlen(o->name));
		assert_non_null(o->help);
		assert_int_not_equal(o->commands, 0);
		assert_null(limit_find(span_of(o->name)));
		assert_true(o->number >= o->min && o->number <= o->max);
		assert_true(!o->form || option_fits(o->form, span_of(o->text)));
	}
}

/* A screen has 80 columns and 40 lines. */
TEST(test_options_help_fits_on_a_screen)
{
	STR_AUTO help = STR_INIT(HELP_MAX);
	options_help(&help, FOR_SERVE, false);
	size_t lines = 0;
	for (const char *p = str_c(&help); *p; lines++) {
		size_t n = strcspn(p, "\n");
		assert_true(n <= 80);
		p += n + 1;
	}
	assert_true(lines <= 39);
	STR_AUTO all = STR_INIT(HELP_MAX);
	options_help(&all, FOR_SERVE, true);
	for (size_t i = 0; i < N_OPTIONS; i++) {
		bool there = strstr(str_c(&all), OPTIONS[i].name) != NULL;
		assert_true(there || !(OPTIONS[i].commands & FOR_SERVE));
	}
}

/* A new option replaces another one, or raises a number with a reason.  Those of an installation
 * are one more than before for the image of jobs of a command; flags are three more for
 * its storages and for directories of a server of one user, two for the metric and the comparison
 * of jobs, two for the results of one, two to list and replace files that are fetched, three for
 * the report, two to keep idle GPUs, five for jobs that wait.  An installation has one more for the
 * socket of accounts. */
TEST(test_options_are_few)
{
	size_t flags = 0;
	for (size_t i = 0; i < N_OPTIONS; i++)
		flags += OPTIONS[i].flag_only;
	assert_in_range(N_OPTIONS - flags, 1, 82);
	assert_in_range(flags, 1, 52);
}

TEST(test_options_schema_is_json)
{
	size_t keys = 0;
	for (size_t i = 0; i < N_OPTIONS; i++)
		keys += !OPTIONS[i].flag_only && strcmp(OPTIONS[i].name, "config") != 0;
	STR_AUTO text = STR_INIT(HELP_MAX);
	options_schema(&text);
	json_auto_t *schema = json_loads(str_c(&text), JSON_REJECT_DUPLICATES, NULL);
	assert_non_null(schema);
	assert_int_equal(json_object_size(json_object_get(schema, "properties")), keys);
}
