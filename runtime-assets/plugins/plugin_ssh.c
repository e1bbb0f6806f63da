/*
 * Plugin ssh: tasks of the job reach each other (jobssh), and its author reaches the tasks
 * (userssh).  At init: the job's key pair out of the user extension becomes files, and a script
 * with the subcommands sshd and ssh-barrier, which do the work in the user's container.
 */
#include "runtime-assets/files.h"
#include "runtime-assets/plugins/plugin.h"
#include "runtime-assets/plugins/ssh.h"
#include "runtime-assets/shell.h"

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
