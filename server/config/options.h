#pragma once
/*
 * Every option of every command, in one table (options.c).  The help texts, docs/OPTIONS.md and
 * schema/config.schema.json are generated from it.
 *
 *	struct options o = { 0 };
 *	if (options_parse(&o, FOR_SERVE, argc, argv, &e) < 0)
 *		return print_error_notes(&e, NULL, EXIT_USAGE);
 *	use(o.listen, o.max_body);
 *	arena_done(&o.arena);
 *
 * An option is set by a flag (--max-body 64KiB or --max-body=64KiB), an environment
 * variable (REST_LIT_MAX_BODY=64KiB) or a key of the file of --config (max-body: 64KiB),
 * in this order of precedence.  Some options are flags only.  Options never hold secrets; they
 * name files with secrets.
 *
 * Fixed limits are constants beside them (limits.c).  A flag, variable or key with the name of one
 * is an error.  Tests change them with the variable
 * TEST_LIMITS_VARIABLE="watch-page=10 deadline=1".
 *
 * Thread: any
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"

#define TEST_LIMITS_VARIABLE "REST_LIT_TEST_LIMITS"

#define KIB INT64_C(1024)
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)

/* Directory of jobs on this machine, outside of pods, if the options name no cluster. */
#define LOCAL_DIR "rest-lit-data"
/* The port of the Service in k8s/deploy/base/service.yaml; the kubelet sets the variable. */
#define OUTPUT_VARIABLE "REST_LIT_OUTPUT_PORT"
/* The Secret that k8s/deploy/base/deny-list.yaml creates. */
#define DEFAULT_DENY_LIST "rest-lit/rest-lit-revoked"
/* Where the server of this machine listens, and commands look for it. */
#define SOCKET_PATH "/run/rest-lit/socket"

/* The commands that have an option, as bits. */
enum {
	FOR_SERVE = 1,
	FOR_TRANSLATE = 2,
	FOR_VALIDATE = 4,
	FOR_TOKEN = 8,
	FOR_SUBMIT = 16,
	FOR_JOBS = 32,
	FOR_SHOW = 64,
	FOR_STOP = 128,
	FOR_RUN = 256,
	FOR_LOGS = 512,
	FOR_WAIT = 1024,
	FOR_EVENTS = 2048,
	FOR_DELETE = 4096,
	FOR_RESUBMIT = 8192,
	FOR_CONVERT = 16384,
	FOR_BACKUP = 32768,
	FOR_CONTROLLER = 65536,
	FOR_FETCH = 131072,
	FOR_CHECK = 262144,
	FOR_TOP = 524288,
	FOR_USAGE = 1048576,
	FOR_REPORT = 2097152,
	FOR_KEEP = 4194304,
	FOR_EXEC = 8388608,
	FOR_OPEN = 16777216,
	FOR_RELEASE = 33554432,
	FOR_LOGIN = 67108864,
	FOR_LOGOUT = 134217728
};

/* These commands take a command after `--`. */
enum { FOR_COMMANDS = FOR_RUN | FOR_SUBMIT | FOR_EXEC };

enum option_type {
	OPTION_TEXT,
	OPTION_CHOICE,
	OPTION_NUMBER,
	OPTION_BYTES,  /* a number that may end in KiB, MiB or GiB */
	OPTION_SWITCH, /* a flag without a value; true or false in file and environment */
	OPTION_LIST,   /* a flag that may be repeated: all its values, in order */
	OPTION_TYPE_MAX
};

enum option_group {
	GROUP_SERVER,
	GROUP_STORE,
	GROUP_LOCAL,
	GROUP_AUTH,
	GROUP_CLIENTS,
	GROUP_JOBS,
	GROUP_PODS,
	GROUP_HIVED,
	GROUP_REMOTE,
	GROUP_COMMAND,
	GROUP_JOB,
	GROUP_OUTPUT,
	GROUP_LIMITS,
	GROUP_MAX
};

/* The values of an option that may be repeated. */
struct option_list {
	const char **v;
	size_t n;
};

/* The values.  Texts are "" if not set; they are borrowed from argv, the environment or the
 * arena.  Numbers have the unit of the table. */
struct options {
	const char *listen, *metrics_listen, *socket, *facts, *templates, *config;
	const char *kubeconfig, *context, *apiserver, *apiserver_ca, *apiserver_token_file;
	const char *controller_config;
	const char *local, *namespace_name, *instance;
	const char *user, *profile, *output;
	const char *runtime, *runtime_binary;
	const char *runtime_image, *runtime_pull_secret, *service_account, *apiserver_uri;
	const char *device, *fs_uri;
	const char *hived_config, *hived_scheduler, *hived_device_env;
	const char *hived_webservice, *hived_webservice_ca;
	const char *jwt_secret_file, *token_check, *deny_list, *issuers, *users;
	const char *user_namespace, *group_namespace, *token_namespace;
	const char *tls_cert, *tls_key, *trusted_proxy, *cors;
	const char *output_listen, *output_url, *output_ca;
	bool no_auth, no_page, priority_class, fetch_code, with_runtime, behind_proxy, application;
	const char *webhook, *webhook_secret_file;
	bool webhook_allow_private;
	const char *visibility, *compat, *exit_spec, *dialects;
	const char *engine, *gpus, *gpu_devices, *images, *default_image;
	const char *foreign_gpus, *reason;
	int64_t gpu_idle_s, gpu_idle_stop_s, keep_s;
	const char *keep_results; /* a size, or none; see options_keep_results */
	int64_t cpus, memory, keep_logs;
	const char *server, *token_file, *ca_file, *state, *name;
	bool wait, logs, dry_run, follow, hold;
	const char *after, *after_any, *begin;
	int64_t max_running;
	/* A job of a command, `-- COMMAND ARGUMENTS`, and what it asks for; 0: not given. */
	int64_t ask_gpus, ask_cpus, ask_memory;
	const char *image, *results;
	bool no_results;
	const char *code, *directory, *sort, *metric, *since, *until, *by;
	bool terminal, no_terminal, pty;
	bool fetches_code, list, force, yes, watch, hand_back, no_storage, csv;
	int64_t tail;
	struct option_list mount, storage, set, env, secret, tag, sweep;
	int64_t patience_s, timeout_s, max_logs, max_line, limit;
	int64_t cache_memory, events_memory, detail_memory, history, history_bytes, watch_page,
	    max_object_read;
	int64_t max_duration_s, webhook_lease_s;
	int64_t streams_per_user, stream_lifetime_s, stream_heartbeat_s, stream_buffer;
	int64_t rate_list, list_rows;
	int64_t log_link_lifetime_s, log_tail, log_streams, output_bytes;
	int64_t token_lifetime_s, token_cache_s, rate_address, rate_submit, rate_login;
	int64_t rate_lookup;
	int64_t janitor_interval_s, janitor_age_s, queue_per_user, queue_bytes, dry_run_bytes;
	int64_t loops, drain_delay_s, drain_timeout_s;
	int64_t port_start, port_end;
	int64_t max_body, max_depth, max_nodes, max_text, max_key, max_rendered, max_roles;
	int64_t max_instances, max_tasks, max_command, max_annotations, max_object, max_env_inline;
	int64_t connections, connections_per_address, read_timeout_s, idle_timeout_s;
	int64_t deadline_s, in_flight, queue, max_answer, hived_interval_s;
	int64_t hived_max_answer;
	int64_t code_age_s, code_user, code_all, machine_code_user, machine_code_all;

	const char **files; /* arguments that are not options, in order */
	size_t n_files;
	/* The arguments after `--`, NULL-terminated, of a command with FOR_COMMANDS; NULL: no `--`.
	 * Other commands take them as files. */
	const char *const *command;
	const char *test_limits; /* value of TEST_LIMITS_VARIABLE; "" if not set */
	bool help, help_all;
	struct arena arena;
};

struct option {
	const char *name; /* the key in the file; flag and variable are derived from it */
	enum option_group group;
	unsigned commands;
	bool main;        /* in --help; the others only in --help-all */
	bool flag_only;   /* no variable and no key: it says what one call of the command does */
	bool no_variable; /* a flag and a key only */
	enum option_type type;
	size_t at;                  /* offset into struct options */
	const char *text;           /* default of a text or choice; NULL: "" */
	int64_t number, min, max;   /* default and bounds of a number */
	const char *const *choices; /* NULL-terminated */
	const struct form *form;    /* of a text; NULL: any text.  "" always fits */
	/* Of a number; NULL for a count.  "seconds": it may end in s, m, h or d. */
	const char *unit;
	const char *value; /* name of the value in help: FILE */
	const char *help;  /* one phrase, no full stop */
	/* Writes the names of which a text is a list; NULL: it is none. */
	void (*names)(struct str *out, const char *between);
};

/* Valid texts of an option. */
struct form {
	const char *letters; /* allowed characters */
	size_t max;          /* bytes */
	bool alnum_ends;     /* begins and ends with a letter or digit */
	const char *must;    /* "must be ..." */
};

/* Returns true if the text is valid; "" always is. */
bool option_fits(const struct form *form, struct span text);

/* The constants: name, type, member, value and unit are set. */
extern const struct option FIXED_LIMITS[];
extern const size_t N_FIXED_LIMITS;
/* The limit of that name, or NULL. */
const struct option *limit_find(struct span name);
/* Sets all limits, and then those of TEST_LIMITS_VARIABLE.  -1 and *e.  Thread: main. */
int limits_read(struct options *o, struct err *e);

extern const struct option OPTIONS[];
extern const size_t N_OPTIONS;
extern const char *const OPTION_GROUPS[GROUP_MAX];

/* The option of that name, or NULL.  If several commands have options of one name, that of these
 * commands (FOR_...), else the first. */
const struct option *option_find(struct span name, unsigned commands);
/* "REST_LIT_MAX_BODY" for "max-body". */
void option_variable(struct str *out, const char *name);
/* "64KiB" -> 65536, units only for bytes: K, M, G and T, powers of 1024, in both cases, also with
 * i, B or iB.  -1 if it is no number. */
int option_number(struct span text, bool bytes, int64_t *out);
/* "90", "90s", "5m", "2h" or "1d" in seconds.  -1 if it is none. */
int option_time(struct span text, int64_t *out);
/* Gives the member of *o the default, or the value of a fixed limit. */
void option_reset(struct options *o, const struct option *option);
/* The default as text: "100KiB", "plain", "false", "". */
void option_default(struct str *out, const struct option *o);

/*
 * Sets the options of one command (FOR_...) from its arguments (argv[0] is skipped), the
 * environment, the configuration file, and the defaults.  -1 and *e, with the place of an error in
 * the file.  The caller frees the arena of *o in any case.
 * Thread: main. */
int options_parse(struct options *o, unsigned command, int argc, char **argv, struct err *e);

/* The options in the help of a command: the main ones, or all. */
void options_help(struct str *out, unsigned command, bool all);
/* docs/OPTIONS.md and schema/config.schema.json. */
void options_page(struct str *out);
void options_schema(struct str *out);
/* The section OPTIONS of the manual page of a command, in roff: all that its help says. */
void options_manual(struct str *out, unsigned command);
/* Text as roff shows it. */
void roff_text(struct str *out, const char *text);
