#pragma once
/*
 * Shared by the commands: a command is a function of a remote server and a job, or of options.
 *
 *	static int show_job(struct remote *r, const char *job, struct span answer, struct err *e)
 *	{
 *		return remote_print_json(scan_get(answer, "jobStatus"));
 *	}
 *
 *	int cmd_show(const struct command *c, struct options *o)
 *	{
 *		return remote_job_command(c, o, show_job, "");
 *	}
 *
 * Commands return an exit code (commands.h).  Calls block, at most for --timeout.  One thread.
 */
#include "base/arena.h"
#include "base/err.h"
#include "base/json/scan.h"
#include "base/pod/session.h"
#include "base/str.h"
#include "jobs/cache/job_entry.h"
#include "k8s/http/http_client.h"
#include "server/cli/commands.h"
#include "server/config/options.h"

/* ---- command.c ---- */

/* A command that runs the parts of a server with these options.  Returns the exit code. */
struct service;
int command_service(struct options *o, int (*run)(struct service *s));
/* Prints text on standard output.  EXIT_OK, or EXIT_REFUSED if that fails. */
int command_print(struct span text);
/* Prints "rest-lit COMMAND: text; see rest-lit COMMAND --help".  EXIT_USAGE. */
int command_usage(const struct command *c, const char *text);
/* Checks --user and makes the translator of o.  NULL: an error was printed; exit with EXIT_USAGE.
 */
struct translator *command_translator(struct options *o);
/* Appends "FILE:LINE:COLUMN: PREFIX/json/pointer: text" and LF, so that editors can jump to it. */
void note_line(struct str *out, const char *file, const char *prefix, const struct note *n);

/* Prints such lines on standard error. */
void command_notes(const char *file, const char *prefix, const struct notes *notes);

/* ---- cmd_serve.c ---- */

/* Runs the loops of a server that start_all has made, until SIGTERM or SIGINT comes from
 * s->signal_fd.  -1 and *e if not all loops could be started. */
int serve_run(struct service *s, struct err *e);

/* ---- manual.c ---- */

/* The manual page rest-lit(1), or that of a command, rest-lit-submit(1), which says what its help
 * does, from the tables of commands and options. */
void manual_page(struct str *out);
void manual_command_page(struct str *out, const struct command *c);

/* ---- term.c: lines, visible text, tables (pure); output of a command that waits ---- */

/* Splits bytes into lines of at most `max` bytes; `cut`: a line was longer.  It ends with
 * str_done(&l->line). */
struct line_splitter {
	struct str line;
	bool cut;
	bool keeps_cr;
};
#define LINES_INIT(max) ((struct line_splitter){ STR_INIT(max), false, false })

/* A line without its end (LF, CR LF unless keeps_cr). */
typedef void line_taker(void *arg, struct span line, bool cut);
void lines_feed(struct line_splitter *l, struct span bytes, line_taker *take, void *arg);
/* Hands over a last line without an end. */
void lines_end(struct line_splitter *l, line_taker *take, void *arg);

/* Appends untrusted text for a terminal: control characters, invalid UTF-8 and characters that
 * change the writing direction become \x1b or \u{202e}; tabs stay. */
void visible_text(struct str *out, struct span text);
/* Visible text in one line, trimmed, of at most 4096 bytes before; in the arena. */
const char *visible_line(struct arena *a, struct span text);
/* The part of a line behind the last CR that has a text behind it, without blanks at the end. */
struct span visible_part(struct span line);
/* An upper bound of the columns of visible text without tabs. */
size_t visible_width(struct span text);
/* The part that fits into so many columns. */
struct span visible_cut(struct span text, size_t columns);

/* Returns true if this descriptor can show colours: a terminal, without TERM=dumb and NO_COLOR. */
bool term_colours(int fd);
/* Appends the name of a state, in its colour. */
void state_put(struct str *out, struct span name, bool colour);

enum { TABLE_COLUMNS = 24 };

/* Rows of text in columns. */
struct table {
	struct arena arena;
	size_t columns, n; /* cells */
	const char **cell;
	size_t cap;
	size_t width[TABLE_COLUMNS];
	size_t
	    states; /* the column whose names of states get colours; 0 (it has none): no colours */
};

/* table_begin(&t, (const char *[]){ "NAME", "STATE" }, 2) */
void table_begin(struct table *t, const char *const heads[], size_t columns);
/* Adds the next cell, made visible; "" is shown as "-". */
void table_cell(struct table *t, struct span text);
/* The same with a member, text or number, of an object in JSON; another value is shown as "-". */
void table_text(struct table *t, struct span object, const char *key);
void table_number(struct table *t, struct span object, const char *key);
/* The same with a duration: "7s", "12m", "3h25m", "4d6h". */
void table_duration(struct table *t, int64_t ms);
/* Appends the table.  The last column is cut at `columns`; if fewer than 16 columns are left for
 * it, it may go on in the next line. */
void table_write(struct str *out, const struct table *t, size_t columns);
void table_done(struct table *t);
/* Prints the table on standard output and frees it.  EXIT_OK or EXIT_SERVER. */
int table_print(struct table *t);
/* Appends it as CSV (RFC 4180); a cell "-" is empty. */
void table_csv(struct str *out, const struct table *t);

/*
 * Standard output has lines of logs; standard error has messages and, on a terminal, a block below
 * them that is redrawn.  No block if standard error is no terminal, with TERM=dumb or with
 * NO_COLOR.
 */
struct term {
	bool block;    /* standard error can be drawn on */
	bool terminal; /* standard output is a terminal: logs are made visible */
	bool colour;   /* names of tasks have colours, on standard output */
	bool lost;     /* writing to standard output has failed */
	size_t drawn;  /* lines of the block on the terminal */
	struct str text;
};

struct term_size {
	size_t columns, rows;
};
struct term_size term_size(void);
size_t output_columns(void); /* of standard output; SIZE_MAX: no terminal */
/* Prints visible text and LF on standard error; the second with the time of day. */
void term_print(struct term *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void term_message(struct term *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Prints a line of a log on standard output, after "NAME | " (NULL: without).  The number chooses
 * its colour. */
void term_log(struct term *s, const char *name, size_t number, struct span line, bool cut);
/* Draws the block with this text, whole lines, if it is another or is not there. */
void term_show(struct term *s, struct span text);

/* ---- remote.c: requests to a server, by --server, --token-file, --ca-file, --timeout ---- */

/* A server that is part of this command, for one job, which ends with it (run_internal.h). */
struct live_view;
struct remote;
struct own_server {
	const char *socket; /* path of its Unix socket */
	int signal_fd;      /* the first signal stops the job; SIGINT again kills its tasks */
	/* While the job is followed, again and again: prints what the engine has said.  -1 to go
	 * on, else the exit code. */
	int (*look)(void *arg, struct remote *r, struct live_view *v);
	struct engine *engine;
	/* `run -- COMMAND`: gets the exit code of the command, or 128 + the signal that stopped
	 * it; stays if nothing is known of its end.  NULL: the job is one of a file. */
	int *exit_code;
	void *arg;
};

/* Milliseconds between requests. */
struct pace {
	int64_t gap;   /* for the same job; the shortest pause after a failure */
	int64_t calm;  /* for the same job, in durations of such a request */
	int64_t early; /* for a log that does not exist yet */
	int64_t poll;  /* for the job, without events */
	int64_t why;   /* while it waits: waitingReason changes without an event */
};

struct remote {
	const struct options *o;
	const struct own_server *own; /* NULL: the server is another program */
	const struct pace *pace;
	struct client *client;
	int64_t end_ms; /* clock_ms when --timeout is over; INT64_MAX: never */
	bool patient;   /* remote_ask repeats, for `patience` */
};

/* Reads the token, protects this process against inspection, runs `run` (which returns the exit
 * code, or -1 and *e) with the server of o, or `own` if that is not NULL, and prints errors.
 * An o->server without a scheme gets one.  Returns the exit code. */
typedef int remote_runner(struct remote *r, const void *arg, struct err *e);
int remote_run(struct options *o, const struct own_server *own, remote_runner *run,
               const void *arg);
/* The same, with no token: for rest-lit login. */
int remote_run_login(struct options *o, remote_runner *run);

/* The target of the body of an answer: a file, or a function, which returns -1 and *e to end it. */
struct remote_file {
	const char *name; /* for messages */
	int fd;
	int (*take)(void *arg, struct span bytes, struct err *e); /* NULL: the file */
	void *arg;
};

struct remote_reply {
	const struct remote_file *file; /* gets the body of a 2xx; NULL: `body` does */
	int status;
	char *location; /* header; NULL if absent */
	bool replayed;  /* an earlier request has done it */
	struct str body;
};
#define REPLY_AUTO __attribute__((cleanup(remote_reply_done))) struct remote_reply
void remote_reply_done(struct remote_reply *r);

/*
 * Sends a request.  If r->patient is set, it is repeated, for `patience`, after connection errors,
 * 429, 502, 503 and 504: it must be idempotent.  0 and a reply with `status`, or for status 0 with
 * any 2xx; -1 and *e: the refusal (*out has its body) with its status and notes; 504 when --timeout
 * is over, 503 when no answer came, 500 after another 2xx: the server may not be rest-lit.  An
 * attempt takes at most call->timeout_ms, by default a minute.
 */
int remote_ask(struct remote *r, const struct client_call *call, int status,
               struct remote_reply *out, struct err *e);

/* The same for a GET; *json is the body, which is valid. */
int remote_get(struct remote *r, const char *path, struct remote_reply *out, struct span *json,
               struct err *e);

/* ---- remote_session.c: a session in a task (base/pod/session.h), between descriptors of this
 * process. Several at once share an epoll, which remote_session_turn waits for. ---- */

enum { SESSION_FDS = 3 }; /* input, output, error; the others by data.ptr of the epoll */
struct remote_session;
struct remote_session_fd {
	struct remote_session *session;
	int fd, which;      /* -1: closed */
	bool watched, file; /* file: epoll cannot watch it, and it never waits */
	uint32_t events;    /* that it is watched for */
	struct str left;    /* of output: bytes to be written */
};
struct remote_session {
	struct remote *remote;
	int epoll;
	struct client_exchange *output, *input;
	struct session_reader reader;
	struct remote_session_fd fd[SESSION_FDS];
	struct str out; /* frames to be sent */
	size_t sent;
	char path[128];
	int64_t said_ms;
	bool begun, ended;
	int code;               /* exit status; with `why` 125, or 137 */
	char why[SESSION_TEXT]; /* "": the command has ended */
};
/* Starts a session in a task of this job (USER~NAME), with x->remote and x->epoll; body: the
 * request as JSON.  The descriptors stay the caller's, and do not block; a socket is duplicated for
 * input and output.  -1 and *e; remote_session_end is called in any case. */
int remote_session_begin(struct remote_session *x, const char *job, struct span body,
                         const int fd[SESSION_FDS], struct err *e);
/* Waits for something to do, at most so long, and does it for these sessions; other events of the
 * epoll are given to `other`. */
void remote_session_turn(struct remote_session *const *v, size_t n, int64_t ms,
                         void (*other)(void *arg, void *ptr), void *arg);
/* All that came is written, or cannot be. */
bool remote_session_over(const struct remote_session *x);
void remote_session_resize(struct remote_session *x, unsigned rows, unsigned columns);
void remote_session_end(struct remote_session *x);
/* The task of JOB[/ROLE[/INDEX]]. */
struct session_target {
	const char *job;  /* USER~NAME, in the arena */
	struct span role; /* empty: the only one */
	int64_t index;
};
/* -1 and *e. */
int session_target_read(struct remote *r, const char *text, struct arena *a,
                        struct session_target *out, struct err *e);
/* Appends the beginning of a request: the object is open. */
void session_body(struct str *out, const struct session_target *t);

/* cmd_exec.c: runs a command in a task, with the streams of this process, of which the terminal has
 * its mode again at the end; prints why there is no exit status, after `name`.  Returns the exit
 * status; EXIT_NO_COMMAND.  exec_streams opens the streams for it, before this process is protected
 * against inspection. */
struct exec_call {
	const char *name;           /* of the command of rest-lit */
	const char *const *command; /* NULL: a shell */
	bool terminal;
	int fd[SESSION_FDS];
};
void exec_streams(struct exec_call *c);
int exec_in_task(struct remote *r, const struct session_target *t, const struct exec_call *c);

/* Returns true if a repetition may have another outcome. */
bool remote_may_retry(const struct client_answer *a);
/* The pause before the next attempt, after so many failures. */
int64_t remote_pause_ms(const struct remote *r, const struct client_answer *a, unsigned failures);
/* Fills in *e for an answer that is not a whole 2xx; each of its `errors` becomes a note. */
void remote_error(const struct remote *r, const struct client_answer *a, struct err *e);
/* The notes of a member (`errors`, `warnings`) of an answer. */
void remote_notes(struct span body, const char *member, struct notes *out);
/* EXIT_USAGE if the server refused the request, EXIT_SERVER if it could not answer. */
int remote_exit(const struct err *e);
/* Reads a time of an option, "2026-11-27", "2026-11-27T10:00:00Z", or the time before so long:
 * "90s", "5m", "2h", "1d"; *time is RFC 3339, in the arena.  -1 and *e. */
int remote_time(const char *option, const char *text, const char **time, struct arena *a,
                struct err *e);
/* Calls once again and again, with a pause of two seconds, until it returns another code than
 * EXIT_OK; so often, or below 0 until --timeout is over.  rows: so many lines has the terminal, on
 * which all appears in the same place; INT64_MAX: there is none. */
int remote_watch(struct remote *r, int64_t times,
                 int (*once)(struct remote *r, int64_t rows, struct err *e), struct err *e);
/* Prints text on standard output; EXIT_OK or EXIT_SERVER. */
int remote_print(struct span text);
/* Prints a JSON value and LF; likewise. */
int remote_print_json(struct span value);

/* ---- remote_job.c: jobs by their names; the commands about one job ---- */

/* The name of the client's user, from the server, in the arena; NULL and *e. */
const char *remote_user(struct remote *r, struct arena *a, struct err *e);
/* USER~NAME of a NAME or USER~NAME, in the arena; NULL and *e. */
const char *remote_job_name(struct remote *r, const char *job, struct arena *a, struct err *e);
/* "/api/v2/jobs/USER~NAME" and the rest of the path; in the arena. */
const char *remote_path(const char *job, const char *rest, struct arena *a);
/* If *e says that there is no such job: adds the nearest name of a job.  Returns -1. */
int remote_no_job(struct remote *r, const char *job, struct err *e);
/* A command whose first argument is a job, which may be NAME for an own one.  run: job is
 * USER~NAME, answer the JSON of GET remote_path(job, part), if there is a part ("", "/events").  If
 * there is no such job, the error names the nearest one.  Returns the exit code. */
typedef int job_runner(struct remote *r, const char *job, struct span answer, struct err *e);
int remote_job_command(const struct command *c, struct options *o, job_runner *run,
                       const char *part);
/* The same for several jobs, o->files, or those of the client's user with a --tag in these states
 * ("" for all).  Each is tried, while the server answers; the exit code is the worst. */
struct job_command {
	job_runner *run;
	const char *part, *states; /* states NULL: o->files[0] alone */
	bool counts;               /* with --tag, prints how many are in which state */
};
int remote_jobs_command(const struct command *c, struct options *o, const struct job_command *j);

/* Appends "&tagsContain=A,B" for jobs with any of these tags; nothing without tags. */
void remote_put_tags(struct str *out, const struct option_list *tags);
/* ---- progress.c: the state of a job for people, from /api/v2/jobs/USER~NAME.  Pure. ---- */

enum { PROGRESS_DEPTH = 64, DURATION_MAX = 32 };

/* Texts are visible. */
struct role_progress {
	const char *name;
	uint32_t tasks, in[JOB_STATE_MAX];
	int64_t gpus; /* of each task; 0: none, or unknown */
};

/* The last line of a task: visible text. */
struct task_progress {
	const char *name, *line; /* "worker[0]" */
	bool running;
};

struct progress {
	enum job_state state;
	bool stopping; /* requested, not yet ended */
	int64_t retries;
	struct span previous;                            /* jobStatus.previousEnd; p NULL: none */
	int64_t submitted_ms, launched_ms, completed_ms; /* since 1970; 0: unknown */
	const char *waiting; /* the waiting task and the reason, or why it is stopping; "" */
	struct role_progress *role;
	size_t n_roles;
	struct span status; /* jobStatus */
	/* The task whose failure ended the job: the first that failed, else that which the
	 * controller names; "" */
	const char *failed;
	bool brief;  /* the verdict is without appExitDiagnostics */
	bool colour; /* of the state */
};

/* The tasks of a job in their order: of its detail, /api/v2/jobs/USER~NAME, which is valid JSON.
 * for (struct task_walk w = progress_tasks(detail); progress_next_task(&w);) */
struct task_walk {
	struct scan roles, tasks;
	struct span role, task; /* `role` and `index` are its names */
	int64_t index;
};
struct task_walk progress_tasks(struct span detail);
bool progress_next_task(struct task_walk *w);

/* "worker[0]" from the members of an object that name the role and the index; "worker" without an
 * index, else "". */
const char *progress_task(struct span object, const char *const keys[2], struct arena *a);

/* Results live in the arena or in `detail`.  -1 and *e (500): it is not a job. */
/* The state of a task as it is shown; STOPPING also if it has an exit code, but a pod. */
enum job_state progress_task_state(struct span task, struct arena *a);
int progress_read(struct progress *p, struct span detail, struct arena *a, struct err *e);
/* Appends `before` and "GPUs idle since 2026-01-31T12:00:00Z" for a row or jobStatus; false:
 * nothing.
 */
bool progress_put_idle(struct str *out, struct span job, const char *before);
/* Appends "RUNNING, worker 3/4 running 1 waiting, ps 2/2 running". */
void progress_line(struct str *out, const struct progress *p);

/* Job, terminal and time of a block. */
struct progress_frame {
	const char *job;
	size_t columns, rows;
	int64_t now_ms;                   /* since 1970 */
	const struct task_progress *task; /* shown below the roles; those that run first */
	size_t n_tasks;
};
/* Appends the same as at most `rows` lines of at most `columns`: the job, a bar for each role, the
 * tasks, the reason why it waits. */
void progress_block(struct str *out, const struct progress *p, const struct progress_frame *f);
/* Appends the result of an ended job: state, time, exit code, reason and solution; else its state.
 */
void progress_verdict(struct str *out, const struct progress *p, const char *job);
/* "45s", "3m 12s", "2h 05m", "4d 03h" */
void duration_put_short(struct str *out, int64_t ms);

/* ---- job_view.c: the view of a job that is followed ---- */

struct live_view {
	const char *job; /* visible text */
	bool quiet;      /* shows only why the job waits */
	bool plain;      /* that of a command: shows only why it waits for long */
	bool several;    /* its lines name the job */
	bool own;        /* a job of this process: shown as soon as something is known of it */
	struct term term;
	struct arena arena; /* of detail and progress */
	struct span detail; /* /api/v2/jobs/USER~NAME; n is 0: unknown */
	struct progress progress;
	struct str line; /* the last one printed */
	int64_t told_ms; /* with `plain`: when that was */
};

void view_init(struct live_view *v, const char *job);
/* Takes a new detail, of which it makes a copy.  -1 and *e: it is not a job. */
int view_take(struct live_view *v, struct span detail, struct err *e);
/* Draws the block, with `tasks`; where there is none, prints a line if the state is another. */
void view_show(struct live_view *v, const struct task_progress *tasks, size_t n);
/* Prints the result and `more`.  EXIT_OK or EXIT_REFUSED. */
int view_verdict(struct live_view *v, struct span more);

/* ---- log_mux.c: the logs of the tasks of a job ---- */

struct log_wanted {
	const char *task;  /* tasks for which log_task_named; NULL: all */
	const char *since; /* only what was written since this time, RFC 3339; NULL: all */
	int64_t tail;      /* 1 + the number of the last lines of each log; 0: all */
	bool once;         /* the logs as they are now, one after the other */
	bool alone;        /* lines without the name of the task */
	bool kept;         /* nothing is printed; the last lines of some tasks are kept */
	bool brief;        /* of pai-runtime only the lines that say what goes wrong */
	bool plain; /* of a command: its own lines only, on standard output and error as it did */
};

/* Returns true if a text names this task: ROLE (all of its tasks), ROLE[INDEX], ROLE-INDEX or
 * INDEX. */
bool log_task_named(const char *task, struct span role, int64_t index);

struct log_mux;
/* The texts of *wanted are borrowed. */
struct log_mux *log_mux_new(struct remote *r, struct term *s, const struct log_wanted *wanted);
void log_mux_free(struct log_mux *m); /* accepts NULL */
/* Takes a new state of the job, /api/v2/jobs/USER~NAME.  true: all tasks have succeeded, so that no
 * log can grow. */
bool log_mux_update(struct log_mux *m, struct span detail);
/* Starts requests that are due.  The time until the next one, INT64_MAX if none is known. */
int64_t log_mux_run_once(struct log_mux *m);
bool log_mux_idle(const struct log_mux *m);      /* nothing is being read */
size_t log_mux_missing(const struct log_mux *m); /* logs that could not be read */
/* Gives the last lines of all tasks; in the arena.  Returns the number of tasks. */
size_t log_mux_tasks(const struct log_mux *m, struct arena *a, const struct task_progress **out);
/* Appends the last lines of a task, "worker[0]", indented; nothing if they are the last that were
 * printed.  false: it has said nothing. */
bool log_mux_tail(struct log_mux *m, struct str *out, const char *task);

/* ---- wait.c ---- */

/* Blocks SIGINT, SIGTERM and, with `hangup`, SIGHUP (unless that is ignored, as under nohup), and
 * returns a descriptor that delivers them.  -1 and errno.  Call it before threads are started,
 * which inherit the mask. */
int wait_signals(bool hangup);
/* Waits for the end of a job (USER~NAME, visible text), prints its progress and, with `logs`, the
 * output of its tasks; a terminal without it shows the last line of each of some tasks.  quiet:
 * only the output; the end is also that of the chosen tasks.  Signals end the waiting, or stop the
 * job if the server ends with it.  Returns the exit code. */
int wait_for_job(struct remote *r, const char *job, const struct log_wanted *logs, bool quiet);
/* Prints the logs of a job as they are now.  Returns the exit code: EXIT_REFUSED if one is missing.
 */
int wait_for_logs(struct remote *r, const char *job, struct span detail,
                  const struct log_wanted *logs);

/* ---- cmd_several.c ---- */

/* The request that stops a job (USER~NAME), which is answered 202; its path is in the arena. */
struct client_call stop_call(const char *job, struct arena *a);

/* ---- cmd_submit.c ---- */

/* Submits a job (arg: struct job_text), and with --wait or --logs waits for it.  Returns the exit
 * code. */
int submit_send(struct remote *r, const void *arg, struct err *e);

/* ---- cmd_fetch.c: the code of jobs ---- */

/* --code DIR, or the current directory for a command: packs the files, sends them unless the server
 * has them or with --dry-run, and writes extras.code into the text.  info: the answer of
 * /api/v2/info.  -1 and *e. */
struct job_text;
int code_attach(struct remote *r, struct job_text *t, struct span info, struct err *e);
/* The hash of a job's code, in the arena, from its configuration; n is 0 if it has none. */
struct span code_of_config(struct span config, struct arena *a);
/* Makes the code of a job (USER~NAME) that of the client's user too, if it has code.  -1 and *e. */
int code_copy(struct remote *r, const char *job, struct span config, struct err *e);
