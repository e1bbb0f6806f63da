/* The plugin ssh at init, and the keys, peers and files that sshd.c and ssh_barrier.c need. */
#include "runtime-assets/plugins/plugins_internal.h"

#include <pwd.h>
#include <stdlib.h>
#include <unistd.h>

#include "runtime-assets/common/cmdline.h"

enum { PEERS_MAX = 100000 };

bool ssh_key_valid(struct span line)
{
	size_t n = span_skip_class(line, 0, "A-Za-z0-9@.-");
	struct span type = span_to(line, n);
	size_t key = span_skip_class(line, n, " \t");
	size_t end = span_skip_class(line, key, "A-Za-z0-9+/=");
	bool known = span_is(type, "ssh-rsa") || span_is(type, "ssh-ed25519") ||
	             span_starts(type, "ecdsa-sha2-") || span_starts(type, "sk-");
	return known && key > n && end > key && line.n <= SSH_KEY_MAX &&
	       (end == line.n || class_has_char(line.p[end], " \t")) &&
	       !span_has_control(span_from(line, end));
}

bool ssh_file_name(struct span name)
{
	return name.n > 0 && name.n < 256 && name.p[0] != '.' && span_all(name, "A-Za-z0-9._-");
}

const char *ssh_login(struct layout *at, struct arena *a)
{
	if (geteuid() == 0)
		return "root";
	const struct passwd *p =
	    getpwuid(geteuid()); /* NOLINT(concurrency-mt-unsafe): one thread */
	if (!p || p->pw_dir[0] != '/' || !ssh_file_name(span_of(p->pw_name)))
		return NULL;
	at->passwd_home = arena_printf(a, "%s%s", at->root, p->pw_dir);
	return arena_dup(a, span_of(p->pw_name));
}

const char *ssh_directory(const char *home, struct arena *a)
{
	return path_join(a, home, ".pai-ssh");
}

/* ---- peers ---------------------------------------------------------------------------------- */

int ssh_first_port(const char *list, int64_t *port)
{
	if (!list)
		return -1;
	struct span first = { list, strcspn(list, ",") };
	return parse_i64(first, 1, 65535, port);
}

/* false: not an instance, or its address or port is not known. */
static bool peer_read(struct ssh_peer *peer, struct span instance, struct arena *a)
{
	const char *own_role = getenv("FC_TASKROLE_NAME");
	const char *own_index = getenv("FC_TASK_INDEX");
	struct span role = span_to(instance, span_skip_class(instance, 0, "A-Za-z0-9_"));
	struct span rest = span_from(instance, role.n); /* :INDEX */
	int64_t index;
	int64_t own = -1;
	if (role.n == 0 || rest.n < 2 || rest.p[0] != ':' ||
	    parse_i64(span_from(rest, 1), 0, INT32_MAX, &index) != 0)
		return false;
	const char *task = arena_printf(a, "%.*s_%lld", (int)role.n, role.p, (long long)index);
	const char *address = env_get(arena_printf(a, "PAI_HOST_IP_%s", task));
	peer->alias = arena_printf(a, "%.*s-%lld", (int)role.n, role.p, (long long)index);
	if (own_role && own_index && span_is(role, own_role))
		(void)parse_i64(span_of(own_index), 0, INT32_MAX, &own); /* else none */
	peer->reached = own == index;
	if (!address || !span_all(span_of(address), "A-Za-z0-9.:"))
		return false;
	peer->address = address;
	return ssh_first_port(env_get(arena_printf(a, "PAI_%s_ssh_PORT", task)), &peer->port) == 0;
}

void ssh_peers(struct ssh_peers *p, const char *roles, struct arena *a)
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
		struct span instance = span_next(&rest, ',');
		struct span role = span_to(instance, span_chr(instance, ':'));
		bool listed = !roles;
		for (struct span more = span_of(roles ? roles : ""); more.n > 0 && !listed;)
			listed = span_eq(span_next(&more, ','), role);
		if (!listed)
			continue;
		if (peer_read(&p->v[p->n], instance, a))
			p->n++;
		else if (!p->v[p->n].reached)
			p->unknown++;
	}
}

enum {
	LINE_MAX_BYTES = 4000 /* OpenSSH before 7.8 cuts longer lines in two */
};

/* ---- environment of sessions ---------------------------------------------------------------- */

/* Beginnings of variables for sessions; with `=` the whole name. */
static const char *const FOR_SESSIONS[] = {
	"PATH=",         "LD_LIBRARY_PATH=",
	"LIBRARY_PATH=", "PYTHONPATH=",
	"CONDA_",        "CUDA_",
	"NVIDIA_",       "NCCL_",
	"OMPI_",         "UCX_",
	"HOROVOD_",      "OMP_",
	"LANG=",         "LC_",
	"TZ=",           "PAI_",
	"FC_",           "GLOO_",
	"PRTE_",         "PET_",
	"MASTER_",       "NNODES=",
	"NODE_RANK=",    "NPROC_PER_NODE=",
	"WORLD_SIZE=",
};

/* Made by init or the server from names and numbers; a role may be named `keys`. */
static const char *const OURS[] = {
	"PAI_PORT_LIST_", "PAI_HOST_IP_",  "PAI_TASK_ROLE_", "PAI_CONTAINER_",
	"PAI_CURRENT_",   "PAI_RESOURCE_", "PAI_MIN_",
};

static const char *const SECRETS[] = { "TOKEN",      "SECRET", "PASSW", "KEY",
	                               "CREDENTIAL", "AUTH",   "PWD",   "COOKIE" };

static bool session_starts(struct span s, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (span_starts(s, list[i]))
			return true;
	}
	return false;
}

static bool session_is_secret(struct span name)
{
	char text[256];
	if (name.n >= sizeof(text))
		return true;
	memcpy(text, name.p, name.n);
	text[name.n] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(SECRETS); i++) {
		if (strcasestr(text, SECRETS[i]))
			return true;
	}
	return false;
}

void ssh_environment(struct str *out, char *const *environment, size_t *left_out)
{
	size_t lines = 0;
	*left_out = 0;
	for (int tasks = 0; tasks < 2; tasks++) {
		for (char *const *v = environment; *v; v++) {
			struct span line = span_of(*v);
			struct span name = { *v, strcspn(*v, "=") };
			/* The variables about other tasks can be thousands. */
			bool port = name.n > 5 && memcmp(name.p + name.n - 5, "_PORT", 5) == 0;
			bool task = span_starts(name, "PAI_PORT_LIST_") ||
			            span_starts(name, "PAI_HOST_IP_") ||
			            (port && span_starts(name, "PAI_") &&
			             !span_starts(name, "PAI_CONTAINER_") &&
			             !span_starts(name, "PAI_CURRENT_"));
			bool valid =
			    name.n > 0 && !is_digit(name.p[0]) && span_all(name, "A-Za-z0-9_");
			bool wanted =
			    session_starts(line, FOR_SESSIONS, ARRAY_SIZE(FOR_SESSIONS)) &&
			    (session_starts(line, OURS, ARRAY_SIZE(OURS)) ||
			     !session_is_secret(name));
			if (!valid || !wanted || task != (tasks == 1))
				continue;
			if (lines == SSH_SESSION_MAX || line.n > LINE_MAX_BYTES ||
			    strpbrk(*v, "\n\r")) {
				++*left_out;
				continue;
			}
			lines++;
			str_span(out, line);
			str_char(out, '\n');
		}
	}
}

/* ---- configuration of the client ------------------------------------------------------------- */

/* Host keys are new at each start, so they are not checked. */
void ssh_hosts(struct str *out, const struct ssh_peers *p, const char *user, const char *key)
{
	for (size_t i = 0; i < p->n; i++)
		str_printf(out,
		           "Host %s\n"
		           "  HostName %s\n"
		           "  Port %lld\n"
		           "  User %s\n"
		           "  IdentityFile \"%s\"\n"
		           "  StrictHostKeyChecking no\n"
		           "  UserKnownHostsFile /dev/null\n"
		           "  LogLevel ERROR\n",
		           p->v[i].alias, p->v[i].address, (long long)p->v[i].port, user, key);
}

static const char BEGIN[] = "# begin of what pai-runtime writes at each start\n";
static const char END[] = "# end of what pai-runtime writes\n";

void ssh_merge_config(struct str *out, struct span theirs, struct span hosts)
{
	size_t begin = span_find(theirs, 0, BEGIN);
	size_t end = begin == SIZE_MAX ? SIZE_MAX : span_find(theirs, begin, END);
	str_puts(out, BEGIN);
	str_span(out, hosts);
	/* The rest applies to all hosts, as before. */
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

/* ---- a key pair from a seed ------------------------------------------------------------------ */

enum { KEY_TEXT_MAX = 1024, KEY_LINE = 70 };

/* The type, and how long the key is that follows. */
#define KEY_TYPE "\0\0\0\013ssh-ed25519\0\0\0\040"
/* No cipher, no key derivation, one key; then the public and the private part with their lengths.
 */
#define KEY_FILE    "openssh-key-v1\0\0\0\0\004none\0\0\0\004none\0\0\0\0\0\0\0\001\0\0\0\063" KEY_TYPE
#define KEY_PRIVATE "\0\0\0\210\0\0\0\0\0\0\0\0" KEY_TYPE
/* The end of the private part: an empty comment, and bytes up to a whole block. */
#define KEY_END "\0\0\0\0\001\002\003\004\005"

static void ssh_key_base64(struct str *out, struct span bytes)
{
	STR_AUTO text = STR_SECRET(KEY_TEXT_MAX);
	str_base64(&text, bytes);
	for (struct span rest = str_view(&text); rest.n > 0;) {
		size_t n = rest.n < KEY_LINE ? rest.n : KEY_LINE;
		str_span(out, span_to(rest, n));
		str_char(out, '\n');
		rest = span_from(rest, n);
	}
}

void ssh_key_pair(const uint8_t seed[static SSH_SEED], const uint8_t public_key[static SSH_SEED],
                  struct str *private_file, struct str *public_line)
{
	const struct span public = { (const char *)public_key, SSH_SEED };
	STR_AUTO line = STR_INIT(KEY_TEXT_MAX);
	STR_AUTO file = STR_SECRET(KEY_TEXT_MAX);
	str_span(&line, SPAN(KEY_TYPE));
	str_span(&line, public);
	str_span(&file, SPAN(KEY_FILE));
	str_span(&file, public);
	str_span(&file, SPAN(KEY_PRIVATE));
	str_span(&file, public);
	str_span(&file, SPAN("\0\0\0\100")); /* both keys */
	str_put(&file, (const char *)seed, SSH_SEED);
	str_span(&file, public);
	str_span(&file, SPAN(KEY_END));
	str_puts(private_file, "-----BEGIN OPENSSH PRIVATE KEY-----\n");
	ssh_key_base64(private_file, str_view(&file));
	str_puts(private_file, "-----END OPENSSH PRIVATE KEY-----\n");
	str_puts(public_line, "ssh-ed25519 ");
	ssh_key_base64(public_line, str_view(&line));
}

/* ---- the plugin: the job's keys as files, and calls of sshd and ssh-barrier ------------------ */

/* Public keys of all sources. */
struct ssh_keys {
	struct str text;
	size_t n;            /* lines; messages name a key by its number */
	struct notes *spare; /* for keys left out; NULL: an invalid key is an error */
};

static int keys_add_lines(struct ssh_keys *k, struct span text, struct err *e)
{
	while (text.n > 0) {
		struct span line = span_trim(span_next(&text, '\n'));
		if (line.n == 0)
			continue;
		k->n++;
		if (!ssh_key_valid(line) && !k->spare)
			return err_set(
			    e, FAILED,
			    "public key %zu does not begin with a known type, or is no key", k->n);
		if (!ssh_key_valid(line)) {
			notes_add(k->spare, NOWHERE,
			          "ssh: public key %zu of the user does not begin with a known "
			          "type, or is no key: left out",
			          k->n);
			continue;
		}
		if (k->n > SSH_KEYS_MAX)
			return err_set(e, FAILED, "more than %d public keys", SSH_KEYS_MAX);
		str_puts(&k->text, k->text.n ? "\n" : "");
		str_span(&k->text, line);
	}
	return 0;
}

/* A file of layout.ssh_secret; none if the text is empty. */
static void keys_add_file(const struct plugin *p, const char *name, struct span text, unsigned mode)
{
	struct arena *a = p->all->a;
	text = span_trim(text);
	if (text.n > 0)
		plugins_file(p->all, path_join(a, p->all->at->ssh_secret, name),
		             span_of(arena_printf(a, "%.*s\n", (int)text.n, text.p)), mode);
}

/* The pair of the job, made from the seed that the server has put in the place of the user's. */
static void keys_add_made(const struct plugin *p, struct span hex, unsigned mode)
{
	STR_AUTO file = STR_SECRET(KEY_TEXT_MAX);
	STR_AUTO line = STR_INIT(KEY_TEXT_MAX);
	uint8_t seed[SSH_SEED];
	uint8_t public_key[SSH_SEED];
	if (hex.n != (size_t)2 * SSH_SEED)
		return;
	for (size_t i = 0; i < SSH_SEED; i++) {
		int high = hex_value(hex.p[2 * i]);
		int low = hex_value(hex.p[2 * i + 1]);
		if (high < 0 || low < 0)
			return;
		seed[i] = (uint8_t)(high << 4 | low);
	}
	if (!dropbear_public_key(seed, public_key))
		return;
	ssh_key_pair(seed, public_key, &file, &line);
	memory_wipe(seed, sizeof(seed));
	keys_add_file(p, SSH_PRIVATE, str_view(&file), mode);
	keys_add_file(p, SSH_PUBLIC, str_view(&line), 0644);
}

/* ` system 'name'` and ` custom 'keys'`. */
static int userssh_put(struct plugin *p, struct str *arguments, struct err *e)
{
	const struct node *userssh = node_get(p->parameters, "userssh");
	struct plugin inner = *p;
	struct span type;
	struct span value;
	inner.parameters = userssh;
	if (plugin_is_empty(userssh))
		return 0;
	if (userssh->type != NODE_MAP)
		return err_set(e, FAILED, "`userssh` must be a mapping");
	if (plugin_text(&inner, "type", &type, e) || plugin_text(&inner, "value", &value, e))
		return err_wrap(e, "`userssh`");
	bool system = span_is(type, "system");
	value = span_is(type, "none") ? SPAN("") : span_trim(value);
	if (type.n && !system && !span_is(type, "none") && !span_is(type, "custom"))
		return err_set(e, FAILED, "`userssh.type` must be custom, system or none");
	if (system && value.n && !ssh_file_name(value))
		return err_set(e, FAILED, "`userssh.value` must be a plain file name");
	if (system && value.n) {
		str_puts(arguments, " system ");
		shell_word(arguments, value);
	}
	/* Keys of the user are for all jobs, so an invalid one does not fail this job. */
	const struct node *list = node_get(p->all->job->extension, "sshKeys");
	struct ssh_keys k = { .text = STR_INIT(SSH_TEXT_MAX), .spare = &p->all->said };
	int rc = 0;
	for (uint32_t i = 0; rc == 0 && node_is(list, NODE_LIST) && i < list->n; i++)
		rc = keys_add_lines(&k, span_of(node_text(&list->item[i], "value")), e);
	k.spare = NULL;
	if (rc == 0 && !system)
		rc = keys_add_lines(&k, value, e);
	if (rc == 0 && k.text.n) {
		str_puts(arguments, " custom ");
		shell_word(arguments, str_view(&k.text));
	}
	str_done(&k.text);
	return rc;
}

/* DeepSpeed looks for /job/hostfile.  A file of the image stays. */
static void ssh_put_hostfile(struct plugin *p)
{
	str_puts(&p->pre, "set -- ");
	shell_path(&p->pre, path_join(p->all->a, p->all->at->runtime_d, "hostfile"));
	str_char(&p->pre, ' ');
	shell_path(&p->pre, path_join(p->all->a, p->all->at->root, "job"));
	str_puts(&p->pre,
	         "\nif [ -e \"$2/hostfile\" ]; then\n"
	         "echo 'extras.distributed: there is a /job/hostfile already, which stays' >&2\n"
	         "elif ! { mkdir -p \"$2\" && cp \"$1\" \"$2/hostfile\"; } 2>/dev/null; then\n"
	         "echo 'extras.distributed: /job/hostfile cannot be written' >&2\nfi\n");
}

/* The call writes below the directory of the task if there is no sandbox, not into the home
 * directory of the user. */
static void ssh_put_call(struct plugin *p, const char *command)
{
	shell_path(&p->pre, p->all->at->program);
	str_printf(&p->pre, " %s", command);
	if (*p->all->at->root) {
		str_puts(&p->pre, " --root ");
		shell_word(&p->pre, span_of(p->all->at->root));
	}
}

int plugin_ssh(struct plugin *p, struct err *e)
{
	bool job = false, barrier = false;
	int64_t minutes = SSH_BARRIER_MINUTES;
	struct whole_limits timeout = { "sshbarrierTimeout", 1, SSH_BARRIER_MAX };
	STR_AUTO arguments = STR_INIT(SCRIPT_MAX / 2);
	if (plugin_bool(p, "jobssh", &job, e) || plugin_bool(p, "sshbarrier", &barrier, e) ||
	    plugin_whole(p, timeout, &minutes, e) || userssh_put(p, &arguments, e))
		return -1;
	if (p->all->jobssh_off)
		job = false;
	bool distributed = p->all->ssh_roles && !p->all->ssh_made;
	/* The tasks log in to each other: init is root in most pods, and sshd, which reads the key,
	 * may be started by another user.  Root's sshd sets 0600. */
	unsigned mode = (job || p->all->ssh_roles) && geteuid() == 0 ? 0644 : 0600;
	const struct node *keys = node_get(p->all->job->extension, "jobSSH");
	keys_add_file(p, SSH_PRIVATE, span_of(node_text(keys, "key")), mode);
	keys_add_file(p, SSH_PUBLIC, span_of(node_text(keys, "pubKey")), 0644);
	keys_add_made(p, span_of(node_text(keys, "seed")), mode);
	barrier = barrier && job;
	if (!job && !distributed && arguments.n == 0)
		return 0;
	if (distributed)
		ssh_put_hostfile(p);
	ssh_put_call(p, "sshd");
	str_puts(&p->pre, job || distributed ? " true" : " false");
	str_span(&p->pre, str_view(&arguments));
	str_char(&p->pre, '\n');
	if (barrier || (distributed && p->all->ssh_first)) {
		ssh_put_call(p, "ssh-barrier");
		if (!barrier) {
			str_puts(&p->pre, " --roles ");
			shell_word(&p->pre, span_of(p->all->ssh_roles));
		}
		str_printf(&p->pre, " %lld\n", (long long)minutes);
	}
	p->all->ssh_made |= distributed;
	return 0;
}
