/* The job file of a command: words, name, resources. */

#include "tests/unit/base/cmocka.h"

#include <unistd.h>

#include "base/doc/tree.h"
#include "base/enc.h"
#include "server/compose/compose.h"

enum { WORDS = 300, LENGTH = 40, TEXT = 1 << 20 };

static const struct command_place CLUSTER = { .image = "img" };

static void compose(struct job_text *t, struct options *o, const struct command_place *place,
                    const char **words)
{
	o->command = words;
	o->name = o->name ?: "";
	o->results = o->results ?: "";
	if (compose_command(t, o, place, no_err()) < 0)
		fail_msg("%s", err_msg(&unit.e));
}

/* A scalar of the job file of these words, in the arena. */
static const char *composed(struct options *o, const struct command_place *place,
                            const char **words, const char *const *path, struct arena *a)
{
	struct job_text t;
	struct doc doc = { 0 };
	compose(&t, o, place, words);
	if (!job_text_doc((struct span){ t.text, t.n }, a, &doc))
		fail_msg("no YAML:\n%s", t.text);
	const struct node *n = &doc.root;
	for (; *path && n; path++)
		n = n->type == NODE_LIST ? n->item : node_get(n, *path);
	struct span text = n ? node_scalar(a, n) : SPAN("nothing");
	job_text_wipe(&t);
	return arena_dup(a, text);
}

static const char *const COMMAND[] = { "taskRoles", "main", "commands", "0", NULL };

TEST(test_command_words_are_quoted_for_a_shell)
{
	static struct {
		const char *words[5], *wanted;
	} ROWS[] = {
		{ { "python", "train.py", "--lr=0.1" }, "exec python train.py --lr=0.1" },
		{ { "sh", "-c", "echo \"$HOME\" | wc" }, "exec sh -c 'echo \"$HOME\" | wc'" },
		{ { "a", "", "it's", "~" }, "exec a '' 'it'\\''s' '~'" },
		{ { "a", "two\n\n  lines\n" }, "exec a 'two\n\n  lines\n'" },
		{ { "a", "<% $parameters.no %><%" }, "exec a '<''% $parameters.no %><''%'" },
		{ { "a", "x<%$parameters.lr %>" }, "exec a 'x<% $parameters.lr %>'" },
		{ { "a", "<% <% $parameters.b %>" }, "exec a '<''% <% $parameters.b %>'" },
		{ { "a", "\r\xff\xfe"
		         "b" },
		  "exec a ''\"$(printf '\\015\\377\\376')\"'b'" },
		{ { "a", "\u00e9\u2028" }, "exec a '\u00e9'\"$(printf '\\342\\200\\250')\"''" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(ROWS); i++) {
		const char *set[] = { "lr=1" };
		const char *sweep[] = { "b=1,2" };
		struct options o = { .set = { set, 1 }, .sweep = { sweep, 1 } };
		assert_string_equal(composed(&o, &CLUSTER, ROWS[i].words, COMMAND, &unit.a),
		                    ROWS[i].wanted);
	}
}

TEST(test_command_bytes_arrive_through_yaml_and_shell)
{
	static const char *const NASTY[] = { "'", "\"", "$",  "`", "\\", "<%",   "%>",   "\n",
		                             " ", "\t", "\r", "!", "#",  "\xc3", "\xa9", "-" };
	const char *words[WORDS + 4] = { "printf", "%s\\0" };
	STR_AUTO wanted = STR_INIT(TEXT);
	for (size_t i = 0; i < WORDS; i++) {
		STR_AUTO word = STR_INIT(TEXT);
		unsigned char random[LENGTH];
		random_bytes(random, sizeof(random));
		for (size_t k = 0; k < random[0] % LENGTH; k++) {
			if (i % 2)
				str_puts(&word, NASTY[random[k] % ARRAY_SIZE(NASTY)]);
			else
				str_char(&word, (char)(random[k] ?: 1));
		}
		words[2 + i] = arena_dup(&unit.a, str_view(&word));
		str_put(&wanted, words[2 + i], strlen(words[2 + i]) + 1);
	}
	struct options o = { 0 };
	const char *command = composed(&o, &CLUSTER, words, COMMAND, &unit.a);
	int fds[2];
	assert_int_equal(pipe(fds), 0);
	pid_t pid = fork();
	if (pid == 0) {
		dup2(fds[1], STDOUT_FILENO);
		execl("/bin/sh", "sh", "-c", command, NULL);
		_exit(1);
	}
	close(fds[1]);
	STR_AUTO got = STR_INIT(TEXT);
	char piece[4096];
	for (ssize_t n; (n = read(fds[0], piece, sizeof(piece))) > 0;)
		str_put(&got, piece, (size_t)n);
	close(fds[0]);
	assert_int_equal(got.n, wanted.n);
	assert_memory_equal(got.p, wanted.p, wanted.n);
}

TEST(test_command_names_come_from_script_or_program)
{
	static const char *const PATH[] = { "name", NULL };
	static struct {
		const char *words[4], *wanted;
	} ROWS[] = {
		{ { "python", "train.py" }, "train" },
		{ { "torchrun", "-n2", "src/run.me.py" }, "run.me" },
		{ { "/usr/bin/nvidia-smi", "-l" }, "nvidia-smi" },
		{ { "python", "-m", "pkg" }, "python" },
		{ { "./-_\u00e9 x!.sh" }, "x_" },
		{ { "\u00e9" }, "command" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(ROWS); i++) {
		const char *sweep[] = { "x=1" };
		struct options swept = { .sweep = { sweep, 1 } };
		struct options plain = { 0 };
		struct options named = { .name = "mine" };
		const char *wanted = ROWS[i].wanted;
		assert_string_equal(composed(&swept, &CLUSTER, ROWS[i].words, PATH, &unit.a),
		                    wanted);
		const char *name = composed(&plain, &CLUSTER, ROWS[i].words, PATH, &unit.a);
		assert_int_equal(strlen(name), strlen(wanted) + 7);
		assert_memory_equal(name, wanted, strlen(wanted));
		assert_string_not_equal(name,
		                        composed(&plain, &CLUSTER, ROWS[i].words, PATH, &unit.a));
		assert_string_equal(composed(&named, &CLUSTER, ROWS[i].words, PATH, &unit.a),
		                    "mine");
	}
}

TEST(test_command_gets_the_share_of_its_gpus)
{
	static const char *WORDS_ONE[] = { "x", NULL };
	static const struct amounts EIGHT = { { { 8, 30000, 64LL << 30, 0 } } };
	static const struct amounts UNKNOWN;
	static const struct amounts SMALL = { { { 0, 2500, 3LL << 30, 0 } } };
	static const struct {
		int64_t gpus, cpus, memory;
		const struct amounts *machine;
		bool alone;
		const char *cpu, *mb, *gpu;
	} ROWS[] = {
		{ 0, 0, 0, &UNKNOWN, false, "4", "8192", "0" },
		{ 2, 0, 0, &UNKNOWN, false, "8", "16384", "2" },
		{ 2, 3, 1 << 20, &UNKNOWN, false, "3", "1", "2" },
		{ 2, 0, (5 << 20) + 1, &UNKNOWN, false, "8", "6", "2" },
		{ 1, 0, 0, &EIGHT, true, "3", "8192", "1" },
		{ 9, 0, 0, &EIGHT, true, "30", "65536", "9" },
		{ 0, 0, 0, &EIGHT, true, "30", "65536", "0" },
		{ 0, 0, 0, &EIGHT, false, "4", "8192", "0" },
		{ 0, 0, 0, &SMALL, false, "2", "3072", "0" },
		{ 1, 0, 0, &SMALL, true, "2", "3072", "1" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(ROWS); i++) {
		static const char *const KEYS[] = { "cpu", "memoryMB", "gpu" };
		const char *wanted[] = { ROWS[i].cpu, ROWS[i].mb, ROWS[i].gpu };
		struct options o = { .ask_gpus = ROWS[i].gpus,
			             .ask_cpus = ROWS[i].cpus,
			             .ask_memory = ROWS[i].memory };
		const struct command_place place = { .image = "img",
			                             .machine = *ROWS[i].machine,
			                             .alone = ROWS[i].alone };
		for (size_t k = 0; k < ARRAY_SIZE(KEYS); k++) {
			const char *const path[] = { "taskRoles", "main", "resourcePerInstance",
				                     KEYS[k], NULL };
			assert_string_equal(composed(&o, &place, WORDS_ONE, path, &unit.a),
			                    wanted[k]);
		}
	}
}

/* A number of the resources in the job file. */
static int64_t composed_number(struct options *o, const struct command_place *place,
                               const char *key)
{
	static const char *words[] = { "x", NULL };
	struct job_text t;
	int64_t n = -1;
	compose(&t, o, place, words);
	const char *at = strstr(strstr(t.text, "resourcePerInstance"), key);
	struct span number = span_of(at + strlen(key));
	assert_int_equal(
	    parse_i64(span_to(number, strspn(number.p, "0123456789")), 0, INT64_MAX, &n), 0);
	job_text_wipe(&t);
	return n;
}

TEST(test_command_shares_of_all_gpus_fit_the_machine_together)
{
	enum { GPUS = 16, CPUS = 256, SIZES = 2000, ALL = GPUS * CPUS };
	int64_t unused = INT64_MAX;
	for (int64_t i = 0; i < ALL + SIZES; i++) {
		/* Each number of GPUs and CPUs; then sizes of memory around 24105 MiB. */
		bool sizes = i >= ALL;
		int64_t gpus = 1 + i % GPUS;
		int64_t milli = sizes ? 16000 : (1 + i / GPUS) * 1000 - (i % 3) * 250;
		int64_t memory = ((24105 - SIZES / 2 + i % SIZES) << 20) + (i % 5) * 200000;
		const struct command_place place = {
			.image = "img", .machine = { { { gpus, milli, memory, 0 } } }
		};
		for (int64_t each = 1; each <= gpus; each += gpus > 4 ? 3 : 1) {
			struct options o = { .ask_gpus = each, .name = "n" };
			int64_t jobs = gpus / each;
			int64_t cpus = composed_number(&o, &place, "cpu: ") * jobs;
			int64_t mb = composed_number(&o, &place, "memoryMB: ") * jobs;
			if (cpus * 1000 > milli || mb << 20 > memory)
				fail_msg("%d jobs of %d of %d GPUs: %d of %d thousandths of a CPU, "
				         "%d of "
				         "%d MiB",
				         (int)jobs, (int)each, (int)gpus, (int)cpus * 1000,
				         (int)milli, (int)mb, (int)(memory >> 20));
			if (gpus % each == 0 && memory - (mb << 20) < unused)
				unused = memory - (mb << 20);
		}
	}
	assert_true(unused < 1 << 20); /* nothing is kept back */
}

TEST(test_command_parameters_are_those_it_uses)
{
	static const char *WORDS_SET[] = { "x", "<% $parameters.lr %>", "<%$parameters.lr%>",
		                           NULL };
	const char *set[] = { "lr=1", "other=2" };
	struct options o = { .set = { set, 2 }, .sweep = { set, 1 }, .name = "n" };
	struct job_text t;
	compose(&t, &o, &CLUSTER, WORDS_SET);
	assert_non_null(strstr(t.text, "\nparameters:\n  lr: null\ntaskRoles:\n"));
	assert_non_null(strstr(t.text, "uri: \"img\"}"));
	assert_non_null(strstr(t.text, "\nextras:\n  env: {PYTHONUNBUFFERED: \"1\"}\n"));
	job_text_wipe(&t);
}

TEST(test_command_asks_for_results_where_there_are_some)
{
	static const char *WORDS_LS[] = { "ls", NULL };
	static const struct {
		const char *path;
		bool none, kept, alone;
		const char *wanted;
	} ROWS[] = {
		{ "", false, true, false, "\"1\"}\n  results: true\n" },
		{ "", false, false, false, "\"1\"}\n" },
		{ "", true, true, false, "\"1\"}\n" },
		{ "a\"b", false, false, false, "\"1\"}\n  results: {path: \"a\\\"b\"}\n" },
		{ "out", false, true, true, "\"1\"}\n" }, /* run: in the current directory */
	};
	for (size_t i = 0; i < ARRAY_SIZE(ROWS); i++) {
		struct job_text t;
		struct options o = { .results = ROWS[i].path,
			             .no_results = ROWS[i].none,
			             .name = "n" };
		const struct command_place place = { .image = "img",
			                             .alone = ROWS[i].alone,
			                             .results = ROWS[i].kept };
		compose(&t, &o, &place, WORDS_LS);
		assert_string_equal(strstr(t.text, "PYTHONUNBUFFERED: ") + 18, ROWS[i].wanted);
		job_text_wipe(&t);
	}
	struct job_text t;
	struct options both = {
		.command = WORDS_LS, .results = "out", .no_results = true, .name = ""
	};
	assert_int_equal(compose_command(&t, &both, &CLUSTER, no_err()), -1);
	job_text_wipe(&t);
	both.command = NULL;
	assert_int_equal(compose_check_file(&both, no_err()), -1);
	assert_non_null(strstr(err_msg(&unit.e), "--results is for a command after --"));
}

TEST(test_command_refuses_what_it_cannot_run)
{
	static const char *NONE[] = { NULL };
	static const char *OPTION[] = { "-x", NULL };
	const char **const rows[] = { NONE, OPTION };
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct job_text t;
		struct options o = { .command = rows[i], .name = "", .results = "" };
		assert_int_equal(compose_command(&t, &o, &CLUSTER, no_err()), -1);
		job_text_wipe(&t);
	}
	struct options o = { .ask_memory = 1, .image = "", .results = "" };
	assert_int_equal(compose_check_file(&o, no_err()), -1);
	assert_non_null(strstr(err_msg(&unit.e),
	                       "--memory is for a command after --; with a file, the "
	                       "file says how many: resourcePerInstance of its task roles"));
	o = (struct options){ .no_storage = true, .image = "", .results = "" };
	assert_int_equal(compose_check_file(&o, no_err()), -1);
	assert_non_null(strstr(err_msg(&unit.e), "--no-storage is for a command"));
	static const char *const WRONG[] = { "", ":/x", "data:", "data:x", "data::/x" };
	static const char *TRUE[] = { "true", NULL };
	for (size_t i = 0; i < ARRAY_SIZE(WRONG); i++) {
		const char *one = WRONG[i];
		struct job_text t;
		o = (struct options){
			.storage = { &one, 1 }, .command = TRUE, .name = "", .results = ""
		};
		assert_int_equal(compose_command(&t, &o, &CLUSTER, no_err()), -1);
		assert_non_null(strstr(err_msg(&unit.e), "--storage: must be NAME[:PATH]"));
		job_text_wipe(&t);
	}
}

TEST(test_command_has_the_named_or_default_storages)
{
	static const char *TRUE[] = { "true", NULL };
	static const struct {
		const char *storage[3], *wanted;
		bool defaults, none;
	} ROWS[] = {
		{ { NULL }, "env: {PYTHONUNBUFFERED: \"1\"}\n", false, false },
		{ { NULL }, "env: {PYTHONUNBUFFERED: \"1\"}\n  storages: []\n", true, false },
		{ { NULL }, "env: {PYTHONUNBUFFERED: \"1\"}\n", true, true },
		{ { "data", "b-1:/d/a b" },
		  "env: {PYTHONUNBUFFERED: \"1\"}\n  storages:\n    - {name: \"data\"}\n    - "
		  "{name: "
		  "\"b-1\", mountPath: \"/d/a b\"}\n",
		  true,
		  false },
	};
	for (size_t i = 0; i < ARRAY_SIZE(ROWS); i++) {
		struct command_place place = { .image = "img", .storages = ROWS[i].defaults };
		const char *named[2] = { ROWS[i].storage[0], ROWS[i].storage[1] };
		struct options o = { .name = "n",
			             .storage = { named, named[0] ? 2 : 0 },
			             .no_storage = ROWS[i].none };
		struct job_text t;
		compose(&t, &o, &place, TRUE);
		assert_string_equal(strstr(t.text, "env: "), ROWS[i].wanted);
		job_text_wipe(&t);
	}
}

TEST(test_command_uses_an_environment_first)
{
	static const char *TRUE[] = { "true", NULL };
	static const char *const ENV[] = { "extras", "env", "VIRTUAL_ENV", NULL };
	struct options o = { .name = "n" };
	struct command_place place = { .image = "host",
		                       .environment = "VIRTUAL_ENV",
		                       .environment_dir = "/opt/it's $x" };
	assert_string_equal(composed(&o, &place, TRUE, COMMAND, &unit.a),
	                    "PATH='/opt/it'\\''s $x'/bin:$PATH\nexec true");
	assert_string_equal(composed(&o, &place, TRUE, ENV, &unit.a), "/opt/it's $x");
}
