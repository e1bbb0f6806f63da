/* The job file of a command: one task role with one task. */
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/enc.h"
#include "machine/task/sandbox.h"
#include "server/compose/compose.h"

enum {
	NAME_BYTES = 40, /* of a name, before its suffix */
	SUFFIX_BYTES = 3,
	CPUS_OF_GPU = 4, /* on machines that are not known */
	MB_OF_GPU = 8192,
	MB_BYTES = 1 << 20,
	BYTE_ORDER_MARK = 0xfeff,
	NO_CHARACTER = 0xfffe
};

/* ---- the command for a shell ----------------------------------------------------------------- */

/* The parameters that --set and --sweep give values; the command has those that it mentions. */
struct command_parameter {
	struct span name;
	bool used;
};

struct command_text {
	struct str out;
	struct command_parameter *parameter;
	size_t n;
	const struct option_list *secrets;
	struct span secret; /* one of them that a placeholder names */
};

/* NAME of NAME=VALUE */
static struct span command_part(const char *text, char end)
{
	return span_to(span_of(text), span_chr(span_of(text), end));
}

static void command_add_parameters(struct command_text *c, const struct option_list *list)
{
	for (size_t i = 0; i < list->n; i++)
		c->parameter[c->n++].name = command_part(list->v[i], '=');
}

/* The parameter in `<% $parameters.NAME %>` at the start of the text; *n: bytes of the whole. NULL:
 * there is none.  Notes `<% $secrets.NAME %>` of a --secret. */
static struct command_parameter *command_parameter(struct command_text *c, struct span text,
                                                   size_t *n)
{
	static const char ROOT[] = "$parameters.";
	static const char SECRET[] = "$secrets.";
	size_t end = span_starts(text, "<%") ? span_find(text, 0, "%>") : SIZE_MAX;
	if (end == SIZE_MAX)
		return NULL;
	struct span name = span_trim((struct span){ text.p + 2, end - 2 });
	*n = end + 2;
	for (size_t i = 0; i < c->n && span_starts(name, ROOT); i++)
		if (span_eq(span_from(name, strlen(ROOT)), c->parameter[i].name))
			return &c->parameter[i];
	for (size_t i = 0; i < c->secrets->n && span_starts(name, SECRET); i++)
		if (span_eq(span_from(name, strlen(SECRET)), command_part(c->secrets->v[i], '=')))
			c->secret = command_part(c->secrets->v[i], '=');
	return NULL;
}

/* Appends a word so that a shell reads these bytes, after the values of parameters are put in.  A
 * job file cannot have control characters, other line ends than LF, and what is no UTF-8. */
static void command_put_word(struct command_text *text, struct span word)
{
	struct str *out = &text->out;
	if (word.n && span_only_alnum_or(word, "_@+=:,./-")) {
		str_span(out, word);
		return;
	}
	str_char(out, '\'');
	bool printf_is_open = false; /* each costs the shell a process */
	while (word.n) {
		size_t n = 0;
		unsigned width;
		uint32_t c = utf8_decode((const unsigned char *)word.p, word.n, &width);
		bool odd = (c == UTF8_INVALID && width == 1) || c == BYTE_ORDER_MARK ||
		           c == NO_CHARACTER || c == NO_CHARACTER + 1 ||
		           (utf8_is_control(c) && c != '\n' && c != '\t');
		struct command_parameter *parameter = command_parameter(text, word, &n);
		if (odd != printf_is_open)
			str_puts(out, odd ? "'\"$(printf '" : "')\"'");
		printf_is_open = odd;
		if (parameter) {
			parameter->used = true;
			str_printf(out, "<%% $parameters.%.*s %%>", (int)parameter->name.n,
			           parameter->name.p);
		} else if (odd) {
			for (size_t i = 0; i < width; i++)
				str_printf(out, "\\%03o", (unsigned char)word.p[i]);
		} else if (word.p[0] == '\'') {
			str_puts(out, "'\\''");
		} else if (span_starts(word, "<%")) {
			str_puts(out, "<''"); /* no placeholder */
		} else {
			str_put(out, word.p, width);
		}
		word = span_from(word, parameter ? n : width);
	}
	str_puts(out, printf_is_open ? "')\"''" : "'");
}

/* The command, behind the environment that has its programs. */
static void command_put_words(struct command_text *command, const struct options *o,
                              const struct command_place *place)
{
	if (place->environment) {
		str_puts(&command->out, "PATH=");
		command_put_word(command, span_of(place->environment_dir));
		str_puts(&command->out, "/bin:$PATH\n");
	}
	str_puts(&command->out, "exec");
	for (const char *const *word = o->command; *word; word++) {
		str_char(&command->out, ' ');
		command_put_word(command, span_of(*word));
	}
}

/* ---- name and resources ---------------------------------------------------------------------- */

/* Appends a name: of `python train.py` train, of `nvidia-smi` that. */
static void command_put_name(struct str *out, const struct options *o, bool suffix)
{
	char random[2 * SUFFIX_BYTES + 1];
	struct span chosen = span_of(o->command[0]);
	bool script = false;
	for (size_t i = 0; o->command[i] && !script; i++) {
		struct span word = span_of(o->command[i]);
		struct span end = span_from(word, word.n > 3 ? word.n - 3 : 0);
		script = word.p[0] != '-' && (span_is(end, ".py") || span_is(end, ".sh"));
		if (script)
			chosen = span_to(word, word.n - 3);
	}
	const char *slash = memrchr(chosen.p, '/', chosen.n);
	chosen = slash ? span_from(chosen, (size_t)(slash + 1 - chosen.p)) : chosen;
	str_char(out, '"');
	size_t from = out->n;
	for (size_t i = 0; i < chosen.n && out->n - from < NAME_BYTES; i++) {
		bool good = span_only_alnum_or(span_to(span_from(chosen, i), 1), "._-");
		if (out->n > from || is_alnum(chosen.p[i]))
			str_put(out, good ? chosen.p + i : "_", 1);
	}
	if (out->n == from)
		str_puts(out, "command");
	random_hex(random, SUFFIX_BYTES);
	str_printf(out, suffix ? "-%s\"" : "\"", random);
}

/* The amount of one kind for these GPUs: `each` for each of them; on a machine that is known at
 * most `all`, and the share of its GPUs or, without limits, of all of them.  It is rounded down, so
 * that the shares of all GPUs fit the machine together: with fewer CPUs than GPUs to no CPU. */
static int64_t command_amount(const struct command_place *place, int64_t gpus, int64_t each,
                              int64_t all)
{
	const struct amounts *m = &place->machine;
	int64_t n = each * (gpus > 0 && gpus < INT32_MAX / MB_OF_GPU ? gpus : 1);
	if (!m->cpus)
		return n;
	if (gpus > 0 && gpus < m->gpus)
		n = all * gpus / m->gpus; /* machines have less than 2^31 GPUs and 2^32 MiB */
	else if (gpus || place->alone || n > all)
		n = all;
	return n;
}

static void command_put_resources(struct str *out, const struct options *o,
                                  const struct command_place *place)
{
	int64_t gpus = o->ask_gpus;
	int64_t cpus =
	    o->ask_cpus ?: command_amount(place, gpus, CPUS_OF_GPU, place->machine.cpus / 1000);
	int64_t mb = command_amount(place, gpus, MB_OF_GPU, place->machine.memory / MB_BYTES);
	mb = mb < 1 ? 1 : mb;
	if (o->ask_memory)
		mb = (o->ask_memory + MB_BYTES - 1) / MB_BYTES;
	str_printf(out, "    resourcePerInstance: {cpu: %lld, memoryMB: %lld, gpu: %lld}\n",
	           (long long)cpus, (long long)mb, (long long)gpus);
}

/* ---- the file -------------------------------------------------------------------------------- */

/* The storages that are named, else those that the user has by default, if there are some. */
static int command_put_storages(struct str *out, const struct options *o,
                                const struct command_place *place, struct err *e)
{
	if (place->storages && !o->storage.n && !o->no_storage)
		str_puts(out, "  storages: []\n");
	for (size_t i = 0; i < o->storage.n; i++) {
		struct span name = command_part(o->storage.v[i], ':');
		struct span path = span_from(span_of(o->storage.v[i]), name.n);
		if (name.n == 0 || (path.n && (path.n == 1 || path.p[1] != '/')))
			return err_set(e, 400, NULL,
			               "--storage: must be NAME[:PATH] with an absolute PATH, is "
			               "\"%s\"",
			               o->storage.v[i]);
		str_puts(out, i ? "    - {name: " : "  storages:\n    - {name: ");
		str_json(out, name);
		if (path.n) {
			str_puts(out, ", mountPath: ");
			str_json(out, span_from(path, 1));
		}
		str_puts(out, "}\n");
	}
	return 0;
}

/* Variables: one that Python needs to print at once, that of an environment, and the secrets.  The
 * directory of results. */
static void command_put_extras(struct str *out, const struct options *o,
                               const struct command_place *place)
{
	const struct option_list *secrets = &o->secret;
	str_puts(out, "extras:\n  env: {PYTHONUNBUFFERED: \"1\"");
	if (place->environment) {
		str_printf(out, ", %s: ", place->environment);
		str_json(out, span_of(place->environment_dir));
	}
	str_puts(out, "}\n");
	for (size_t i = 0; i < secrets->n; i++) {
		str_puts(out, i ? ", " : "  secretEnv: [");
		str_json(out, command_part(secrets->v[i], '='));
	}
	str_puts(out, secrets->n ? "]\n" : "");
	if (place->alone || o->no_results || (!place->results && !o->results[0]))
		return;
	str_puts(out, o->results[0] ? "  results: {path: " : "  results: true");
	if (o->results[0])
		str_json(out, span_of(o->results));
	str_puts(out, o->results[0] ? "}\n" : "\n");
}

int compose_command(struct job_text *t, const struct options *o, const struct command_place *place,
                    struct err *e)
{
	ARENA_AUTO arena = { 0 };
	STR_AUTO out = STR_INIT(SUBMIT_FILE_MAX);
	*t = (struct job_text){ .file = "the command", .quoted = true, .moved = true };
	if (!o->command[0])
		return err_set(e, 400, NULL, "there is no command after --");
	if (o->command[0][0] == '-')
		return err_set(e, 400, NULL,
		               "the command after -- begins with -: %s; options stand before --",
		               o->command[0]);
	if (o->no_results && o->results[0])
		return err_set(e, 400, NULL, "--results and --no-results exclude each other");
	struct command_text command = { .out = STR_INIT(SUBMIT_FILE_MAX), .secrets = &o->secret };
	command.parameter = ARENA_NEW(&arena, struct command_parameter, o->set.n + o->sweep.n);
	command_add_parameters(&command, &o->set);
	command_add_parameters(&command, &o->sweep);
	command_put_words(&command, o, place);
	str_puts(&out, "protocolVersion: 2\nname: ");
	if (o->name[0])
		str_json(&out, span_of(o->name));
	else
		command_put_name(&out, o, !place->alone && !o->sweep.n);
	str_puts(&out, "\ntype: job\nprerequisites:\n  - {name: image, type: dockerimage, uri: ");
	str_json(&out, span_of(place->image));
	str_puts(&out, "}\n");
	const char *title = "parameters:\n";
	for (size_t i = 0; i < command.n; i++) {
		struct span name = command.parameter[i].name;
		if (command.parameter[i].used)
			str_printf(&out, "%s  %.*s: null\n", title, (int)name.n, name.p);
		title = command.parameter[i].used ? "" : title;
	}
	str_puts(&out, "taskRoles:\n  main:\n    instances: 1\n    dockerImage: image\n");
	command_put_resources(&out, o, place);
	str_puts(&out, "    commands:\n      - |-\n");
	for (struct span rest = str_view(&command.out); rest.n;) {
		struct span line = span_next(&rest, '\n');
		str_printf(&out, "%s%.*s\n", line.n ? "        " : "", (int)line.n, line.p);
	}
	command_put_extras(&out, o, place);
	bool bad = command_put_storages(&out, o, place, e) < 0;
	bool full = out.full || command.out.full;
	str_done(&command.out);
	if (bad)
		return -1;
	if (command.secret.n)
		return err_set(
		    e, 400, NULL,
		    "the command has <%% $secrets.%.*s %%>; --secret sets the environment "
		    "variable %.*s of a command: write sh -c '... \"$%.*s\" ...'",
		    (int)command.secret.n, command.secret.p, (int)command.secret.n,
		    command.secret.p, (int)command.secret.n, command.secret.p);
	if (full)
		return err_set(e, 400, NULL, "the command is longer than a job file can be");
	t->n = out.n;
	t->text = str_take(&out);
	return 0;
}

int compose_check_file(const struct options *o, struct err *e)
{
	const char *amount = o->ask_gpus     ? "--gpus"
	                     : o->ask_cpus   ? "--cpus"
	                     : o->ask_memory ? "--memory"
	                                     : NULL;
	const char *results = o->results[0] ? "--results" : o->no_results ? "--no-results" : NULL;
	const char *storage = o->storage.n ? "--storage" : o->no_storage ? "--no-storage" : NULL;
	if (!o->command && results)
		return err_set(e, 400, NULL,
		               "%s is for a command after --; a file says it: extras.results",
		               results);
	if (o->command || (!amount && !o->image[0] && !storage))
		return 0;
	return err_set(e, 400, NULL, "%s is for a command after --; with a file, the file says %s",
	               amount ?: storage ?: "--image",
	               amount    ? "how many: resourcePerInstance of its task roles"
	               : storage ? "which: extras.storages"
	                         : "which image: dockerImage of its task roles");
}

const char *compose_directory(bool any, const char *way, struct arena *a, struct err *e)
{
	char real[PATH_MAX];
	char cwd[PATH_MAX];
	const char *home = getenv("HOME"); /* NOLINT(concurrency-mt-unsafe): one thread */
	home = home && home[0] == '/' ? home : sandbox_home(false, a);
	if (!getcwd(cwd, sizeof(cwd))) {
		(void)err_set(e, 400, NULL, "the current directory: %m");
		return NULL;
	}
	bool above = path_within(realpath(home, real) ? real : home, cwd);
	if (!above || any)
		return arena_dup(a, span_of(cwd));
	(void)err_set(e, 400, NULL,
	              "%s %s your home directory, and a command would get all of it: go to a "
	              "directory for its files (mkdir job && cd job), or name one: %s",
	              cwd, strcmp(cwd, real) == 0 ? "is" : "contains", way);
	return NULL;
}
