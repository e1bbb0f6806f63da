/*
 * Plugin tensorboard: the first task of the job shows the logs of training.  The script starts it
 * in the background, in plain POSIX, and never fails the task for it.  Its output goes where the
 * other messages of the runtime go.
 */
#include "runtime-assets/files.h"
#include "runtime-assets/plugins/plugin.h"
#include "runtime-assets/say.h"
#include "runtime-assets/shell.h"

enum { DEFAULT_PORT = 6006 };

/* All of `logdir` as name:path,name:path; the first path alone as well. */
struct dirs {
	struct str spec;
	struct span first;
	uint32_t n;
};

/* `:` ends a name and `,` a path: tensorboard has no way to quote them. */
static bool has(struct span s, char c)
{
	return s.n > 0 && memchr(s.p, c, s.n) != NULL;
}

static int add_dir(struct plugin *p, struct dirs *d, const struct member *m, struct err *e)
{
	STR_AUTO path = STR_SECRET(SCRIPT_MAX);
	if (!job_scalar(&m->value, &path) || path.n == 0)
		return err_set(e, FAILED, "the paths in `logdir` must be texts");
	struct span name = member_key(m);
	struct span text = arena_span(p->all->a, str_view(&path));
	if (has(name, ',') || has(name, ':') || has(text, ','))
		return err_set(e, FAILED,
		               "names in `logdir` must be without `:` and `,`, paths without `,`");
	if (d->n++ == 0)
		d->first = text;
	else
		str_char(&d->spec, ',');
	str_span(&d->spec, name);
	str_char(&d->spec, ':');
	str_span(&d->spec, text);
	return 0;
}

static int read_dirs(struct plugin *p, struct dirs *d, struct err *e)
{
	const struct node *logdir = node_get(p->parameters, "logdir");
	if (!node_is(logdir, NODE_MAP) || logdir->n == 0)
		return err_set(e, FAILED, "`logdir` must be a mapping of names to paths");
	for (uint32_t i = 0; i < logdir->n; i++) {
		if (add_dir(p, d, &logdir->member[i], e))
			return -1;
	}
	return 0;
}

static void put_option(struct str *out, struct arena *a, const char *name, struct span value)
{
	STR_AUTO text = STR_SECRET(SCRIPT_MAX);
	str_puts(&text, name);
	str_span(&text, value);
	shell_word(out, arena_span(a, str_view(&text)));
}

/* `1.*) exec tensorboard '--logdir=...' '--port=6006' ;;` */
static void put_case(struct plugin *p, const char *version, const char *option, struct span value)
{
	str_printf(&p->pre, "%s) exec tensorboard ", version);
	put_option(&p->pre, p->all->a, option, value);
}

static void put_script(struct plugin *p, const struct dirs *d, int64_t port)
{
	str_puts(&p->pre, "{\n"
	                  "if (: >>\"${RUNTIME_LOG_PIPE:-}\") 2>/dev/null; then exec "
	                  ">>\"$RUNTIME_LOG_PIPE\" 2>&1; fi\n"
	                  "if ! command -v tensorboard >/dev/null 2>&1; then\n"
	                  "pip install tensorboard || pip3 install tensorboard || :\n"
	                  "fi\n"
	                  "v=$(tensorboard --version_tb) || v=\n"
	                  "case \"$v\" in\n");
	put_case(p, "1.*", "--logdir=", str_view(&d->spec));
	str_printf(&p->pre, " '--port=%lld' ;;\n", (long long)port);
	if (d->n == 1)
		put_case(p, "2.*", "--logdir=", d->first);
	else
		put_case(p, "2.*", "--logdir_spec=", str_view(&d->spec));
	str_printf(&p->pre, " '--port=%lld' --bind_all ;;\n", (long long)port);
	str_puts(&p->pre, "*) printf 'tensorboard plugin: there is no tensorboard 1 or 2: %s\\n' "
	                  "\"$v\" >&2 ;;\n"
	                  "esac\n"
	                  "} </dev/null &\n");
}

int plugin_tensorboard(struct plugin *p, struct err *e)
{
	if (p->parameters->n == 0) { /* jobs of OpenPAI have it so */
		say(SAY_WARNING, "the plugin tensorboard has no parameters, so it does nothing");
		return 0;
	}
	struct dirs d = { .spec = STR_SECRET(SCRIPT_MAX / 2) };
	int64_t port = DEFAULT_PORT;
	int rc = plugin_whole(p, (struct whole){ "port", 1, 65535 }, &port, e);
	if (rc == 0)
		rc = read_dirs(p, &d, e);
	if (rc == 0 && d.spec.full)
		rc = err_set(e, FAILED, "`logdir` is too long");
	if (rc == 0 && p->all->first_task)
		put_script(p, &d, port);
	str_wipe(&d.spec);
	return rc;
}
