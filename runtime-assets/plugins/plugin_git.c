/*
 * Plugin git: a repository is cloned before the command starts, in the user's container and by its
 * git, into clone_dir or /usr/local/pai/code.  See git_move.c for the cloning itself.
 */
#include "base/plugin.h"
#include "runtime-assets/files.h"
#include "runtime-assets/plugins/git.h"
#include "runtime-assets/plugins/plugin.h"
#include "runtime-assets/shell.h"

enum { OPTIONS_MAX = 32 };

/* Branches and tags: git itself allows more, nobody uses it. */
static bool is_name(struct span s)
{
	if (s.n == 0 || s.n > 255 || s.p[0] == '-')
		return false;
	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];
		if (c <= ' ' || c == 0x7f || strchr("~^:?*[\\'\"`$;&|<>(){}!", c))
			return false;
	}
	return true;
}

static bool is_number(struct span s)
{
	int64_t v;
	return s.n > 0 && s.p[0] != '-' && parse_i64(s, 1, INT32_MAX, &v) == 0;
}

int git_option(const struct span *words, size_t n, struct str *out, size_t *used)
{
	size_t name_n;
	const struct git_clone_option *option = git_clone_option(words[0], &name_n);
	bool joined = name_n < words[0].n;
	if (!option)
		return -1;
	str_puts(out, option->normal);
	*used = 1;
	if (option->value == GIT_NO_VALUE)
		return joined ? -1 : 0;
	if (!joined && n < 2)
		return -1;
	struct span value = words[1 - joined];
	if (joined)
		value = (struct span){ value.p + name_n + 1, value.n - name_n - 1 };
	else
		*used = 2;
	str_char(out, '=');
	str_span(out, value);
	return (option->value == GIT_NUMBER ? is_number(value) : is_name(value)) ? 0 : -1;
}

/* ---- the parameter `options` ----------------------------------------------------------------- */

struct words {
	struct span v[OPTIONS_MAX];
	size_t from[OPTIONS_MAX]; /* index in `options`, for messages */
	size_t n;
};

/* `--depth 1` may come as one text or as two. */
static int split(struct words *w, struct span text, size_t index)
{
	for (;;) {
		text = span_trim(text);
		size_t n = 0;
		while (n < text.n && text.p[n] != ' ' && text.p[n] != '\t' && text.p[n] != '\n')
			n++;
		if (n == 0)
			return 0;
		if (w->n == OPTIONS_MAX)
			return -1;
		w->from[w->n] = index;
		w->v[w->n++] = (struct span){ text.p, n };
		text = (struct span){ text.p + n, text.n - n };
	}
}

static int read_words(struct plugin *p, const struct node *list, struct words *w, struct err *e)
{
	if (list->type != NODE_LIST)
		return err_set(e, FAILED, "`options` must be a list of texts");
	for (uint32_t i = 0; i < list->n; i++) {
		STR_AUTO text = STR_SECRET(GIT_WORD_MAX);
		if (!job_scalar(&list->item[i], &text) || text.full)
			return err_set(e, FAILED, "`options[%u]` must be a short text", i);
		if (split(w, arena_span(p->all->a, str_view(&text)), i))
			return err_set(e, FAILED, "`options` are too many");
	}
	return 0;
}

/* The message names the option by its number: its text may hold a token. */
static int put_options(struct plugin *p, struct err *e)
{
	const struct node *list = node_get(p->parameters, "options");
	struct words w = { .n = 0 };
	if (!list || list->type == NODE_NULL)
		return 0;
	if (read_words(p, list, &w, e))
		return -1;
	for (size_t i = 0, used; i < w.n; i += used) {
		STR_AUTO option = STR_SECRET(GIT_WORD_MAX);
		if (git_option(&w.v[i], w.n - i, &option, &used))
			return err_set(
			    e, FAILED,
			    "`options[%zu]` is not allowed, or its value is none; allowed: %s",
			    w.from[i], GIT_OPTIONS);
		str_char(&p->pre, ' ');
		shell_word(&p->pre, str_view(&option));
	}
	return 0;
}

/* ---- the plugin --------------------------------------------------------------------------------
 */

static int check_word(struct span text, const char *key, struct err *e)
{
	for (size_t i = 0; i < text.n; i++) {
		if ((unsigned char)text.p[i] < ' ' || text.p[i] == 0x7f)
			return err_set(e, FAILED, "`%s` must be one line", key);
	}
	if (text.n > GIT_WORD_MAX)
		return err_set(e, FAILED, "`%s` is too long", key);
	return 0;
}

int plugin_git(struct plugin *p, struct err *e)
{
	struct span uri;
	struct span folder;
	if (plugin_text(p, "repo_uri", &uri, e) || plugin_text(p, "clone_dir", &folder, e))
		return -1;
	uri = span_trim(uri);
	folder = span_trim(folder);
	if (uri.n == 0)
		return err_set(e, FAILED, "`repo_uri` is missing");
	if (check_word(uri, "repo_uri", e) || check_word(folder, "clone_dir", e))
		return -1;
	shell_path(&p->pre, p->all->at->program);
	str_puts(&p->pre, " git-move");
	if (put_options(p, e))
		return -1;
	str_puts(&p->pre, " -- ");
	shell_word(&p->pre, uri);
	str_char(&p->pre, ' ');
	shell_word(&p->pre, folder.n ? folder : span_of(p->all->at->code));
	str_char(&p->pre, '\n');
	return 0;
}
