/* Keys, names and peers of the plugin ssh; see ssh.h. */
#include "runtime-assets/plugins/plugins_internal.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/str.h"
#include "runtime-assets/cmdline.h"
#include "runtime-assets/files.h"

enum { PEERS_MAX = 100000 };

/* How many characters at the start are letters, digits or of `more`. */
static size_t length_of(struct span s, const char *more)
{
	size_t n = 0;
	while (n < s.n && (is_alnum(s.p[n]) || (s.p[n] && strchr(more, s.p[n]))))
		n++;
	return n;
}

static struct span behind(struct span s, size_t n)
{
	return (struct span){ s.p + n, s.n - n };
}

static size_t blanks(struct span s)
{
	size_t n = 0;
	while (n < s.n && (s.p[n] == ' ' || s.p[n] == '\t'))
		n++;
	return n;
}

bool ssh_key_valid(struct span line)
{
	static const char *const TYPES[] = { "ssh-rsa", "ssh-ed25519", "ecdsa-sha2-", "sk-" };
	size_t n = length_of(line, "-@.");
	struct span type = { line.p, n };
	bool known = false;
	for (size_t i = 0; i < sizeof(TYPES) / sizeof(*TYPES); i++) {
		bool prefix = TYPES[i][strlen(TYPES[i]) - 1] == '-';
		known = known || (prefix ? span_starts(type, TYPES[i]) : span_is(type, TYPES[i]));
	}
	struct span rest = behind(line, n);
	n = blanks(rest);
	if (!known || n == 0 || line.n > SSH_KEY_MAX)
		return false;
	rest = behind(rest, n);
	n = length_of(rest, "+/=");
	rest = behind(rest, n);
	if (n == 0 || (rest.n && blanks(rest) == 0))
		return false;
	for (size_t i = 0; i < rest.n; i++) {
		if (((unsigned char)rest.p[i] < ' ' && rest.p[i] != '\t') || rest.p[i] == 0x7f)
			return false;
	}
	return true;
}

bool ssh_file_name(struct span name)
{
	return name.n > 0 && name.n < 256 && name.p[0] != '.' && length_of(name, "._-") == name.n;
}

const char *ssh_directory(const char *home, struct arena *a)
{
	return path_join(a, home, ".pai-ssh");
}

/* ---- peers ---------------------------------------------------------------------------------- */

static const char *variable(struct arena *a, const char *before, struct span middle,
                            const char *after)
{
	const char *value =
	    getenv(arena_printf(a, "%s%.*s%s", before, (int)middle.n, middle.p, after));
	return value && *value ? value : NULL;
}

int ssh_first_port(const char *list, int64_t *port)
{
	if (!list)
		return -1;
	struct span first = { list, strcspn(list, ",") };
	return parse_i64(first, 1, 65535, port);
}

/* Is it a name, for `role:index`? */
static bool split_instance(struct span text, struct span *role, int64_t *index)
{
	role->p = text.p;
	role->n = length_of(text, "_");
	struct span rest = behind(text, role->n);
	return role->n > 0 && rest.n > 1 && rest.p[0] == ':' &&
	       parse_i64(behind(rest, 1), 0, INT32_MAX, index) == 0;
}

static bool is_own(struct span role, int64_t index)
{
	const char *own_role = getenv("FC_TASKROLE_NAME");
	const char *own_index = getenv("FC_TASK_INDEX");
	int64_t i;
	return own_role && own_index && span_is(role, own_role) &&
	       parse_i64(span_of(own_index), 0, INT32_MAX, &i) == 0 && i == index;
}

/* false: there is no such instance, or nothing is known of it. */
static bool read_peer(struct ssh_peer *peer, struct span instance, struct arena *a)
{
	struct span role;
	int64_t index;
	if (!split_instance(instance, &role, &index))
		return false;
	const char *task = arena_printf(a, "%.*s_%lld", (int)role.n, role.p, (long long)index);
	const char *address = variable(a, "PAI_HOST_IP_", span_of(task), "");
	peer->alias = arena_printf(a, "%.*s-%lld", (int)role.n, role.p, (long long)index);
	peer->own = is_own(role, index);
	if (!address || length_of(span_of(address), ".:") != strlen(address))
		return false;
	peer->address = address;
	return ssh_first_port(variable(a, "PAI_", span_of(task), "_ssh_PORT"), &peer->port) == 0;
}

void ssh_peers(struct ssh_peers *p, struct arena *a)
{
	const char *list = getenv("PAI_TASK_ROLE_INSTANCES");
	struct span rest = span_of(list ? list : "");
	size_t most = 1;
	for (size_t i = 0; i < rest.n; i++)
		most += rest.p[i] == ',';
	*p = (struct ssh_peers){ .n = 0 };
	if (most > PEERS_MAX)
		most = PEERS_MAX;
	p->v = ARENA_NEW(a, struct ssh_peer, most);
	while (rest.n > 0 && p->n + p->unknown < most) {
		size_t end = span_find(rest, 0, ",");
		size_t n = end == SIZE_MAX ? rest.n : end;
		if (read_peer(&p->v[p->n], (struct span){ rest.p, n }, a))
			p->n++;
		else if (!p->v[p->n].own)
			p->unknown++;
		rest = behind(rest, n + (end != SIZE_MAX));
	}
}

/* Files of ssh that are made of other texts: environment of sessions, client configuration. */

enum {
	LINES_MAX = 1000,     /* sshd gives up on longer files */
	LINE_MAX_BYTES = 4000 /* OpenSSH before 7.8 cuts longer lines in two */
};

/* ---- environment of sessions ---------------------------------------------------------------- */

/* How variables begin that are for everybody; with `=` it is the whole name. */
static const char *const FOR_SESSIONS[] = {
	"PATH=",         "LD_LIBRARY_PATH=",
	"LIBRARY_PATH=", "PYTHONPATH=",
	"CONDA_",        "CUDA_",
	"NVIDIA_",       "NCCL_",
	"OMPI_",         "UCX_",
	"HOROVOD_",      "OMP_",
	"LANG=",         "LC_",
	"TZ=",           "PAI_",
	"FC_",
};

/* Made by init or the server from names and numbers; a role may well be called `keys`. */
static const char *const OURS[] = {
	"PAI_PORT_LIST_", "PAI_HOST_IP_",  "PAI_TASK_ROLE_", "PAI_CONTAINER_",
	"PAI_CURRENT_",   "PAI_RESOURCE_", "PAI_MIN_",
};

static const char *const SECRETS[] = { "TOKEN",      "SECRET", "PASSW", "KEY",
	                               "CREDENTIAL", "AUTH",   "PWD",   "COOKIE" };

static bool starts_one(struct span s, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (span_starts(s, list[i]))
			return true;
	}
	return false;
}

static bool sounds_secret(struct span name)
{
	char text[256];
	if (name.n >= sizeof(text))
		return true;
	memcpy(text, name.p, name.n);
	text[name.n] = '\0';
	for (size_t i = 0; i < sizeof(SECRETS) / sizeof(*SECRETS); i++) {
		if (strcasestr(text, SECRETS[i]))
			return true;
	}
	return false;
}

static bool is_name(struct span name)
{
	for (size_t i = 0; i < name.n; i++) {
		char c = name.p[i];
		bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
		if (!letter && (i == 0 || c < '0' || c > '9'))
			return false;
	}
	return name.n > 0;
}

static bool for_sessions(struct span name, struct span line)
{
	if (!is_name(name) ||
	    !starts_one(line, FOR_SESSIONS, sizeof(FOR_SESSIONS) / sizeof(*FOR_SESSIONS)))
		return false;
	return starts_one(line, OURS, sizeof(OURS) / sizeof(*OURS)) || !sounds_secret(name);
}

/* Of another task: there can be thousands. */
static bool of_a_task(struct span name)
{
	if (span_starts(name, "PAI_PORT_LIST_") || span_starts(name, "PAI_HOST_IP_"))
		return true;
	bool port = name.n > 5 && memcmp(name.p + name.n - 5, "_PORT", 5) == 0;
	return port && span_starts(name, "PAI_") && !span_starts(name, "PAI_CONTAINER_") &&
	       !span_starts(name, "PAI_CURRENT_");
}

void ssh_environment(struct str *out, char *const *environment, size_t *left_out)
{
	size_t lines = 0;
	*left_out = 0;
	for (int tasks = 0; tasks < 2; tasks++) {
		for (char *const *v = environment; *v; v++) {
			struct span line = span_of(*v);
			struct span name = { *v, strcspn(*v, "=") };
			if (!for_sessions(name, line) || of_a_task(name) != (tasks == 1))
				continue;
			if (lines == LINES_MAX || line.n > LINE_MAX_BYTES || strpbrk(*v, "\n\r")) {
				++*left_out;
				continue;
			}
			lines++;
			str_span(out, line);
			str_char(out, '\n');
		}
	}
}

/* ---- configuration of the client --------------------------------------------------------------
 */

/* Tasks of one job trust each other by the job's key; their host keys are made at their start. */
void ssh_hosts(struct str *out, const struct ssh_peers *p, const char *key)
{
	for (size_t i = 0; i < p->n; i++)
		str_printf(out,
		           "Host %s\n"
		           "  HostName %s\n"
		           "  Port %lld\n"
		           "  User root\n"
		           "  IdentityFile \"%s\"\n"
		           "  StrictHostKeyChecking no\n"
		           "  UserKnownHostsFile /dev/null\n"
		           "  LogLevel ERROR\n",
		           p->v[i].alias, p->v[i].address, (long long)p->v[i].port, key);
}

static const char BEGIN[] = "# begin of what pai-runtime writes at each start\n";
static const char END[] = "# end of what pai-runtime writes\n";

void ssh_merge_config(struct str *out, struct span theirs, struct span hosts)
{
	size_t begin = span_find(theirs, 0, BEGIN);
	size_t end = begin == SIZE_MAX ? SIZE_MAX : span_find(theirs, begin, END);
	str_puts(out, BEGIN);
	str_span(out, hosts);
	/* What follows was for all hosts, and still is. */
	str_puts(out, "Host *\n");
	str_puts(out, END);
	if (end == SIZE_MAX) {
		str_span(out, theirs);
		return;
	}
	size_t rest = end + sizeof(END) - 1;
	str_put(out, theirs.p, begin);
	str_put(out, theirs.p + rest, theirs.n - rest);
}

/*
 * Plugin ssh: tasks of the job reach each other (jobssh), and its author reaches the tasks
 * (userssh).  At init: the job's key pair out of the user extension becomes files, and a script
 * with the subcommands sshd and ssh-barrier, which do the work in the user's container.
 */

/* Public keys out of all sources, one per line. */
struct keys {
	struct str text;
	size_t n;            /* lines seen, for messages: a key is named by its number */
	struct notes *spare; /* for what is left out; NULL: a line that is no key is an error */
};

static int add_line(struct keys *k, struct span line, struct err *e)
{
	line = span_trim(line);
	if (line.n == 0)
		return 0;
	k->n++;
	if (!ssh_key_valid(line) && k->spare) {
		notes_add(k->spare, NOWHERE,
		          "ssh: public key %zu of the user does not begin with a known type, or is "
		          "no key: left out",
		          k->n);
		return 0;
	}
	if (!ssh_key_valid(line))
		return err_set(e, FAILED,
		               "public key %zu does not begin with a known type, or is no key",
		               k->n);
	if (k->n > SSH_KEYS_MAX)
		return err_set(e, FAILED, "more than %d public keys", SSH_KEYS_MAX);
	if (k->text.n)
		str_char(&k->text, '\n');
	str_span(&k->text, line);
	return 0;
}

static int add_lines(struct keys *k, struct span text, struct err *e)
{
	while (text.n > 0) {
		size_t end = span_find(text, 0, "\n");
		size_t n = end == SIZE_MAX ? text.n : end;
		if (add_line(k, (struct span){ text.p, n }, e))
			return -1;
		n += end != SIZE_MAX;
		text = (struct span){ text.p + n, text.n - n };
	}
	return 0;
}

/* They are the user's, for all jobs: one that is of no use here does not fail this one. */
static int add_extension_keys(const struct plugin *p, struct keys *k, struct err *e)
{
	const struct node *list = node_get(p->all->job->extension, "sshKeys");
	k->spare = &p->all->said;
	for (uint32_t i = 0; node_is(list, NODE_LIST) && i < list->n; i++) {
		const struct node *value = node_get(&list->item[i], "value");
		if (node_is(value, NODE_TEXT) && add_lines(k, node_span(value), e))
			return -1;
	}
	k->spare = NULL;
	return 0;
}

/* One of the job's keys as a file, trimmed and with a final newline. */
static void add_key_file(const struct plugin *p, const char *member, const char *name,
                         unsigned mode)
{
	const struct node *key = node_get(node_get(p->all->job->extension, "jobSSH"), member);
	if (!node_is(key, NODE_TEXT))
		return;
	struct span trimmed = span_trim(node_span(key));
	if (trimmed.n == 0)
		return;
	struct arena *a = p->all->a;
	char *text = arena_alloc(a, trimmed.n + 1);
	memcpy(text, trimmed.p, trimmed.n);
	text[trimmed.n] = '\n';
	plugins_file(p->all, path_join(a, p->all->at->ssh_secret, name),
	             (struct span){ text, trimmed.n + 1 }, mode);
}

/* What the author of the job wants of userssh. */
struct user {
	bool system, none;
	struct span value;
};

static int read_user(const struct plugin *p, struct user *u, struct err *e)
{
	const struct node *userssh = node_get(p->parameters, "userssh");
	struct plugin inner = *p;
	struct span type;
	*u = (struct user){ .none = !userssh || userssh->type == NODE_NULL };
	if (u->none)
		return 0;
	if (userssh->type != NODE_MAP)
		return err_set(e, FAILED, "`userssh` must be a mapping");
	inner.parameters = userssh;
	if (plugin_text(&inner, "type", &type, e) || plugin_text(&inner, "value", &u->value, e))
		return err_wrap(e, "`userssh`");
	u->value = span_trim(u->value);
	u->system = span_is(type, "system");
	if (span_is(type, "none"))
		u->value = SPAN("");
	else if (type.n && !u->system && !span_is(type, "custom"))
		return err_set(e, FAILED, "`userssh.type` must be custom, system or none");
	if (u->system && u->value.n && !ssh_file_name(u->value))
		return err_set(e, FAILED, "`userssh.value` must be a plain file name");
	return 0;
}

/* ` system 'name'` and ` custom 'keys'`, as far as there are such. */
static int put_user(struct plugin *p, struct str *arguments, struct err *e)
{
	struct user u;
	struct keys k = { .text = STR_INIT(SSH_TEXT_MAX) };
	if (read_user(p, &u, e))
		return -1;
	if (u.none)
		return 0;
	if (u.system && u.value.n) {
		str_puts(arguments, " system ");
		shell_word(arguments, u.value);
	}
	int rc = add_extension_keys(p, &k, e);
	if (rc == 0 && !u.system)
		rc = add_lines(&k, u.value, e);
	if (rc == 0 && k.text.n) {
		str_puts(arguments, " custom ");
		shell_word(arguments, str_view(&k.text));
	}
	str_done(&k.text);
	return rc;
}

int plugin_ssh(struct plugin *p, struct err *e)
{
	bool job = false, barrier = false;
	int64_t minutes = SSH_BARRIER_MINUTES;
	struct whole timeout = { "sshbarrierTimeout", 1, SSH_BARRIER_MAX };
	STR_AUTO arguments = STR_INIT(SCRIPT_MAX / 2);
	add_key_file(p, "key", SSH_PRIVATE, 0600);
	add_key_file(p, "pubKey", SSH_PUBLIC, 0644);
	if (plugin_bool(p, "jobssh", &job, e) || plugin_bool(p, "sshbarrier", &barrier, e) ||
	    plugin_whole(p, timeout, &minutes, e) || put_user(p, &arguments, e))
		return -1;
	if (p->all->jobssh_off)
		job = false;
	if (!job && arguments.n == 0)
		return 0;
	shell_path(&p->pre, p->all->at->program);
	str_printf(&p->pre, " sshd %s", job ? "true" : "false");
	str_span(&p->pre, str_view(&arguments));
	str_char(&p->pre, '\n');
	if (job && barrier) {
		shell_path(&p->pre, p->all->at->program);
		str_printf(&p->pre, " ssh-barrier %lld\n", (long long)minutes);
	}
	return 0;
}
