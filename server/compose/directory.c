/* The code of a job: the files of a directory, as git lists them, in an archive. */
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/posix/child.h"
#include "base/posix/fd.h"
#include "server/compose/compose.h"

enum {
	LIST_MAX = 64 << 20, /* bytes that git prints */
	FILES_MAX = 200000,  /* that are looked at */
	IGNORE_MAX = 64 << 10,
	PATH_SIZE = 4096,
	CHUNK = 64 << 10,
	LARGEST = 5
};
static const char IGNORE[] = ".rest-litignore";
/* Files that are left out unless git tracks them, or a line of .rest-litignore keeps them. */
static const char *const SECRETS[] = { "**/.env", "**/*.pem", "**/id_*", "**/.netrc" };

struct ignore_rule {
	const char *pattern; /* of the whole path */
	bool keep, directory;
};

struct directory {
	const char *name; /* as it was given */
	int fd;
	struct arena arena;
	struct code_entry *entry;
	size_t n, cap;
	struct ignore_rule *rule; /* first those of SECRETS */
	size_t n_rules;
	const char *results; /* an entry that is left out; NULL: none */
	bool results_left_out;
	bool untracked;          /* a file is sent that git does not track */
	const char *environment; /* the last one that was left out, with a slash; NULL: none */
	struct notes *warnings;
	struct err *e; /* all mistakes */
};

/* ---- .rest-litignore ------------------------------------------------------------------------- */

/* Patterns are matched part by part; "**" is any number of parts. */
static bool ignore_matches(struct span pattern, struct span path) /* NOLINT(misc-no-recursion) */
{
	char one[CODE_PATH + 1];
	char name[CODE_PATH + 1];
	if (pattern.n == 0)
		return path.n == 0;
	struct span part = span_next(&pattern, '/');
	if (span_is(part, "**")) {
		for (; path.n && pattern.n; (void)span_next(&path, '/'))
			if (ignore_matches(pattern, path))
				return true;
		return path.n > 0;
	}
	struct span first = span_next(&path, '/');
	if (first.n == 0 || first.n > CODE_PATH || part.n > CODE_PATH)
		return false;
	memcpy(one, part.p, part.n);
	memcpy(name, first.p, first.n);
	one[part.n] = name[first.n] = '\0';
	return fnmatch(one, name, 0) == 0 && ignore_matches(pattern, path);
}

/* As git does: the last rule decides, first for the directories above. */
static bool directory_ignores(struct directory *d, struct span path, bool tracked, bool is_dir)
{
	for (size_t end = 0; end < path.n; end++) {
		end += span_chr(span_from(path, end), '/');
		bool dir = is_dir || end < path.n;
		const struct ignore_rule *by = NULL;
		for (size_t i = tracked || dir ? ARRAY_SIZE(SECRETS) : 0; i < d->n_rules; i++)
			if ((dir || !d->rule[i].directory) &&
			    ignore_matches(span_of(d->rule[i].pattern), span_to(path, end)))
				by = &d->rule[i];
		if (!by || by->keep)
			continue;
		char shown[4 * QUOTE_MAX];
		if (by < d->rule + ARRAY_SIZE(SECRETS))
			notes_add(
			    d->warnings, NOWHERE,
			    "\"%s\" may be a secret and is not sent; git add it, or write !%s "
			    "into %s, to send it",
			    quote(shown, path), shown, IGNORE);
		return true;
	}
	return false;
}

static int directory_read_ignore(struct directory *d)
{
	STR_AUTO text = STR_INIT(IGNORE_MAX);
	if (fd_read_str(d->fd, IGNORE, &text) < 0 && errno != ENOENT)
		return err_set(d->e, 400, NULL, "%s/%s: %m", d->name, IGNORE);
	d->rule = ARENA_NEW(&d->arena, struct ignore_rule, ARRAY_SIZE(SECRETS) + text.n);
	for (; d->n_rules < ARRAY_SIZE(SECRETS); d->n_rules++)
		d->rule[d->n_rules].pattern = SECRETS[d->n_rules];
	for (struct span rest = str_view(&text); rest.n;) {
		struct ignore_rule *rule = &d->rule[d->n_rules];
		struct span line = span_next(&rest, '\n');
		while (line.n && is_space(line.p[line.n - 1]))
			line.n--;
		if (line.n == 0 || *line.p == '#')
			continue;
		rule->keep = *line.p == '!';
		line = span_from(line, rule->keep);
		rule->directory = line.n && line.p[line.n - 1] == '/';
		line.n -= rule->directory;
		bool anchored = span_chr(line, '/') < line.n;
		line = span_from(line, line.n && *line.p == '/');
		rule->pattern =
		    arena_printf(&d->arena, "%s%.*s", anchored ? "" : "**/", (int)line.n, line.p);
		d->n_rules += line.n > 0;
	}
	return 0;
}

/* ---- the files ------------------------------------------------------------------------------- */

/* Where a path was found; only WALKED are directories added. */
enum found { WALKED, TRACKED, UNTRACKED };

/* Returns true if a path is, or is in, an environment of Python or conda: it has the programs of
 * this machine, as links or for its paths.  Each gives a note. */
static bool directory_in_environment(struct directory *d, const char *name, enum found found)
{
	static const char *const MARKS[] = { "pyvenv.cfg", "conda-meta" };
	char path[2 * PATH_SIZE];
	char shown[4 * QUOTE_MAX];
	if (d->environment && span_starts(span_of(name), d->environment))
		return true;
	for (size_t n = found == WALKED ? strlen(name) : 0;; n++) {
		n += strcspn(name + n, "/");
		for (size_t i = 0; i < ARRAY_SIZE(MARKS); i++) {
			(void)snprintf(path, sizeof(path), "%.*s/%s", (int)n, name, MARKS[i]);
			if (faccessat(d->fd, path, F_OK, AT_SYMLINK_NOFOLLOW) != 0)
				continue;
			d->environment = arena_printf(&d->arena, "%.*s/", (int)n, name);
			notes_add(d->warnings, NOWHERE,
			          "\"%s\" is an environment of Python or conda and is not sent; "
			          "tasks use the packages of their image or machine",
			          quote(shown, (struct span){ name, n }));
			return true;
		}
		if (!name[n])
			return false;
	}
}

/* Returns true if it is, or is in, what tasks find as their results.  The first one gives a note.
 */
static bool directory_in_results(struct directory *d, struct span path)
{
	if (!d->results || !span_is(span_to(path, span_chr(path, '/')), d->results))
		return false;
	if (!d->results_left_out)
		notes_add(d->warnings, NOWHERE,
		          "\"%s\" is where the job has its results and is not sent; --no-results "
		          "sends it",
		          d->results);
	return d->results_left_out = true;
}

/* Adds a path. */
static void directory_add(struct directory *d, struct span path, enum found found)
{
	if (directory_in_results(d, path))
		return;
	char *name = arena_dup(&d->arena, path);
	char target[PATH_SIZE];
	char shown[4 * QUOTE_MAX];
	struct stat st;
	bool there = d->n < FILES_MAX;
	/* git: a file can be deleted, or behind a link that was a directory. */
	for (char *slash = name; there && (slash = strchr(slash, '/')); *slash++ = '/') {
		*slash = '\0';
		there = fstatat(d->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || S_ISDIR(st.st_mode);
	}
	int rc = there ? fstatat(d->fd, name, &st, AT_SYMLINK_NOFOLLOW) : 0;
	if (!there || (rc < 0 && (errno == ENOENT || errno == ENOTDIR)))
		return;
	const char *problem = rc < 0 ? "it cannot be read" : NULL;
	struct code_entry entry = { .path = name };
	ERR_AUTO bad = { 0 };
	bool is_dir = rc == 0 && S_ISDIR(st.st_mode);
	if ((is_dir && found != WALKED) || directory_ignores(d, path, found == TRACKED, is_dir) ||
	    ((is_dir || found == UNTRACKED) && directory_in_environment(d, name, found)))
		return;
	if (is_dir) {
		entry.kind = CODE_DIRECTORY;
	} else if (rc == 0 && S_ISLNK(st.st_mode)) {
		ssize_t n = readlinkat(d->fd, name, target, sizeof(target));
		entry.kind = CODE_LINK;
		entry.target = arena_dup(&d->arena, (struct span){ target, n > 0 ? (size_t)n : 0 });
	} else if (rc == 0 && S_ISREG(st.st_mode)) {
		entry.executable = st.st_mode & S_IXUSR;
		entry.size = st.st_size;
	} else if (rc == 0) {
		problem = "it is a device, socket or FIFO";
	}
	if (problem)
		(void)err_at(d->e, 400, NULL, NOWHERE, "entry \"%s\": %s", quote(shown, path),
		             problem);
	else if (code_entry_check(&entry, &bad) < 0)
		err_move(d->e, &bad);
	if (d->n == d->cap)
		d->entry = xrealloc(d->entry, (d->cap = 2 * d->cap + 64) * sizeof(*d->entry));
	d->entry[d->n++] = entry;
	d->untracked = d->untracked || found == UNTRACKED;
}

/* Adds all files; the list is also the queue of directories to look into. */
static int directory_walk(struct directory *d)
{
	const char *at = ".";
	for (size_t next = 0; at;) {
		STR_AUTO path = STR_INIT(PATH_SIZE);
		DIR_AUTO *list = dir_list(d->fd, at);
		for (const char *name; (name = dir_next(list)) != NULL;) {
			path.n = 0;
			str_printf(&path, "%s%s%s", next ? at : "", next ? "/" : "", name);
			if (strcmp(name, ".git") != 0)
				directory_add(d, str_view(&path), WALKED);
		}
		if (!list || errno)
			return err_set(d->e, 400, NULL, "--code: %s/%s cannot be read: %m", d->name,
			               at);
		while (next < d->n && d->entry[next].kind != CODE_DIRECTORY)
			next++;
		at = next < d->n ? d->entry[next++].path : NULL;
	}
	return 0;
}

/* ---- git ------------------------------------------------------------------------------------- */

/* The output of git, in the arena.  -1 and *e: its own sentence. */
static int git_output(struct directory *d, const char *git, const char *const words[],
                      struct span *out, struct err *e)
{
	enum { OURS = 4, WORDS = 12 };
	const char *argv[WORDS] = { git, "--no-optional-locks", "-c", "core.fsmonitor=false" };
	FD_AUTO said = memfd_create("git", MFD_CLOEXEC);
	STR_AUTO sentence = STR_INIT(PATH_SIZE);
	struct child child;
	for (size_t i = OURS; i + 1 < WORDS && *words; i++)
		argv[i] = *words++;
	const struct child_command c = { .argv = argv, .err = said, .dir = d->name };
	if (said < 0 || child_start(&child, &c, e) < 0)
		return err_set(e, UNKNOWN_ERROR, "git cannot be started: %m");
	int status = child_end(&child, LIST_MAX + 1, out, &d->arena);
	if (status == 0 && out->n <= LIST_MAX)
		return 0;
	(void)lseek(said, 0, SEEK_SET);
	(void)fd_read_all(said, &sentence); /* its beginning is enough */
	for (char *p = sentence.p; p && *p; p++)
		*p = (char)(is_space(*p) ? ' ' : *p);
	return err_set(e, 400, NULL, "--code %s: git %s: %s", d->name, argv[OURS],
	               status == 0 ? "the list is too long" : str_c(&sentence));
}

/* Adds the files of a repository: tracked, or neither tracked nor ignored. */
static int directory_ask_git(struct directory *d, const char *git, struct code_pack *out)
{
	enum { TRACKS, OTHERS, CHANGES, COMMIT, N };
	static const char *const ASK[N][6] = {
		{ "ls-files", "-z", "-s" },
		{ "ls-files", "-z", "-o", "--exclude-standard" },
		{ "status", "--porcelain", "-uno", "--", "." },
		{ "rev-parse", "--verify", "HEAD" },
	};
	ERR_AUTO none = { 0 }; /* before the first commit */
	char shown[4 * QUOTE_MAX];
	struct span say[N] = { 0 };
	for (size_t i = 0; i < N; i++)
		if (git_output(d, git, ASK[i], &say[i], i == COMMIT ? &none : d->e) < 0 &&
		    i != COMMIT)
			return -1;
	while (say[TRACKS].n + say[OTHERS].n) {
		bool known = say[TRACKS].n > 0;
		struct span path = span_next(&say[known ? TRACKS : OTHERS], '\0');
		bool module = span_starts(path, "160000 ") && known;
		if (known) /* "MODE HASH STAGE<tab>PATH" */
			path = span_from(path, span_chr(path, '\t') + 1);
		else if (path.p[path.n - 1] == '/') {
			module = true;
			path.n--;
		}
		if (!module)
			directory_add(d, path, known ? TRACKED : UNTRACKED);
		else if (!directory_ignores(d, path, true, true))
			(void)err_at(
			    d->e, 400, NULL, NOWHERE,
			    "entry \"%s\": it is a submodule, or another repository, whose "
			    "files git does not list",
			    quote(shown, path));
	}
	(void)snprintf(out->commit, sizeof(out->commit), "%.*s", (int)span_chr(say[COMMIT], '\n'),
	               say[COMMIT].p);
	out->changed = say[CHANGES].n > 0 || d->untracked;
	return 0;
}

/* Adds the files of a directory. */
static int directory_list(struct directory *d, struct code_pack *out)
{
	static const char *const HOOKS[] = { "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE" };
	for (size_t i = 0; i < ARRAY_SIZE(HOOKS); i++) /* git is to find the repository from DIR */
		(void)unsetenv(HOOKS[i]); /* NOLINT(concurrency-mt-unsafe): one thread */
	FREE_AUTO char *path = realpath(d->name, NULL);
	const char *git = program_find("git", &d->arena);
	for (char *end = path ? path + strlen(path) : NULL; end; end = strrchr(path, '/')) {
		*end = '\0';
		FREE_AUTO char *dot = xasprintf("%s/.git", path);
		if (access(dot, F_OK) == 0)
			return git ? directory_ask_git(d, git, out)
			           : err_set(d->e, 400, NULL,
			                     "--code %s is in the repository %s, and there is no "
			                     "program git, which knows its files: install git, or "
			                     "send a copy of the files",
			                     d->name, dot);
	}
	return directory_walk(d);
}

/* ---- the archive ----------------------------------------------------------------------------- */

static int entry_order(const void *a, const void *b)
{
	return code_path_compare(((const struct code_entry *)a)->path,
	                         ((const struct code_entry *)b)->path);
}

static int entry_largest(const void *a, const void *b)
{
	int64_t x = ((const struct code_entry *)a)->size;
	int64_t y = ((const struct code_entry *)b)->size;
	return (x < y) - (x > y);
}

/* The directory has more than the server takes. */
static int directory_too_large(struct directory *d, double limit, const char *unit)
{
	STR_AUTO text = STR_INIT(PATH_SIZE);
	char shown[4 * QUOTE_MAX];
	qsort(d->entry, d->n, sizeof(*d->entry), entry_largest);
	for (size_t i = 0; i < d->n && i < LARGEST; i++)
		str_printf(&text, "%s \"%s\" (%.1f MiB)", i ? "," : "",
		           quote(shown, span_of(d->entry[i].path)),
		           (double)d->entry[i].size / (double)MIB);
	return err_set(
	    d->e, 413, NULL,
	    "--code %s: the server takes at most %.0f %s; the largest files are%s; leave "
	    "files out by lines in %s/%s, as in .gitignore",
	    d->name, limit, unit, str_c(&text), d->name, IGNORE);
}

static int pack_output(void *arg, struct span packed, struct err *e)
{
	struct str *out = arg;
	(void)e;
	str_span(out, packed);
	return out->full ? -1 : 0;
}

/* The content of a file, which has not changed since it was listed. */
static int pack_file(const struct directory *d, struct code_writer *w,
                     const struct code_entry *entry)
{
	char buffer[CHUNK] NOT_ZEROED;
	char shown[4 * QUOTE_MAX];
	struct stat before = { 0 };
	struct stat after = { 0 };
	int64_t left = entry->size;
	ssize_t n = 1;
	(void)quote(shown, span_of(entry->path));
	FD_AUTO fd = openat(d->fd, entry->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd >= 0 && fstat(fd, &before) == 0 && S_ISREG(before.st_mode))
		while ((n = read(fd, buffer, sizeof(buffer))) > 0 && n <= left) {
			left -= n;
			if (code_writer_data(w, (struct span){ buffer, (size_t)n }, d->e) < 0)
				return -1;
		}
	if (fd < 0 || n < 0)
		return err_set(d->e, 400, NULL, "--code: \"%s\" cannot be read: %m", shown);
	if (n > 0 || left || fstat(fd, &after) != 0 ||
	    memcmp(&after.st_mtim, &before.st_mtim, sizeof(after.st_mtim)) != 0)
		return err_set(
		    d->e, 400, NULL,
		    "--code: \"%s\" has changed while it was read: try again, or leave it "
		    "out by a line of %s",
		    shown, IGNORE);
	return 0;
}

/* Adds the directories above a path that are not above the last one. */
static int pack_above(struct code_writer *w, const char *last, const char *path, struct err *e)
{
	char above[CODE_PATH + 1];
	const struct code_entry entry = { .kind = CODE_DIRECTORY, .path = above };
	for (const char *slash = path; (slash = strchr(slash, '/')); slash++) {
		size_t n = (size_t)(slash - path);
		memcpy(above, path, n);
		above[n] = '\0';
		bool there = strncmp(last, above, n) == 0 && (last[n] == '/' || last[n] == '\0');
		if (!there && code_writer_entry(w, &entry, e) < 0)
			return -1;
	}
	return 0;
}

static int pack_all(struct directory *d, struct code_pack *out)
{
	struct code_writer *w = code_writer_new(pack_output, &out->packed);
	const char *last = "";
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < d->n; i++) {
		const struct code_entry *entry = &d->entry[i];
		if (strcmp(last, entry->path) == 0) /* in a merge, git names it thrice */
			continue;
		if (pack_above(w, last, entry->path, d->e) < 0 ||
		    code_writer_entry(w, entry, d->e) < 0 ||
		    (entry->kind == CODE_FILE && pack_file(d, w, entry) < 0))
			rc = -1;
		last = entry->path;
	}
	return code_writer_end(w, rc < 0 ? NULL : &out->facts, d->e) < 0 ? -1 : rc;
}

static int directory_pack_files(struct directory *d, const struct code_room *room,
                                struct code_pack *out)
{
	int64_t bytes = 0;
	if (directory_read_ignore(d) < 0 || directory_list(d, out) < 0)
		return -1;
	if (d->e->http)
		return err_wrap(d->e, "--code %s cannot be sent (lines of %s/%s leave files out)",
		                d->name, d->name, IGNORE);
	for (size_t i = 0; i < d->n; i++)
		bytes += d->entry[i].size;
	if (bytes > room->unpacked)
		return directory_too_large(d, (double)room->unpacked / (double)MIB, "MiB");
	if (d->n)
		qsort(d->entry, d->n, sizeof(*d->entry), entry_order);
	out->packed = STR_INIT((size_t)room->packed);
	int rc = pack_all(d, out);
	if (out->packed.full)
		return directory_too_large(d, (double)room->packed / (double)MIB,
		                           "MiB of compressed files");
	if (rc == 0 && out->facts.entries > room->entries)
		return directory_too_large(d, (double)room->entries, "files and directories");
	return rc;
}

/* NOLINTNEXTLINE(readability-function-size): its parameters */
int directory_pack(const char *name, const char *results, const struct code_room *room,
                   struct code_pack *out, struct notes *warnings, struct err *e)
{
	struct directory d = { .name = name, .results = results, .warnings = warnings, .e = e };
	*out = (struct code_pack){ .changed = false };
	d.fd = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int rc = d.fd < 0 ? err_set(e, 400, NULL, "--code %s: %m", name)
	                  : directory_pack_files(&d, room, out);
	fd_cleanup(&d.fd);
	if (rc < 0)
		str_done(&out->packed);
	free(d.entry);
	arena_done(&d.arena);
	return rc;
}
