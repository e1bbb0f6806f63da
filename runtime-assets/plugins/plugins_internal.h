#pragma once
/*
 * The plugins of a job: commands before and after its command.  plugins.c reads them and writes
 * their scripts, and has the small plugins; git.c and ssh.c have the others.  lines.c is about the
 * user's command.
 * git-move, sshd and ssh-barrier, in git.c, sshd.c and ssh_barrier.c, run later, in the user's
 * container.
 * Begin with plugins_make().
 *
 * The step `plugins` of init runs no programs: a plugin appends commands to scripts, which `run`
 * starts.  runtime.d/plugin_pre<N>.sh and plugin_post<N>.sh hold the commands of plugin N;
 * precommands.sh calls the first kind in order, postcommands.sh the second in reverse order.
 *
 * Scripts may hold secrets, but init does not know the user of the command (the image names it), so
 * they have mode 0755; the volume belongs to this pod alone.  The private key of ssh has 0600, or
 * 0644 until sshd has started, see key_mode in ssh.c.
 */
#include "base/posix/child.h"
#include "runtime-assets/common/files.h"
#include "runtime-assets/init/init.h"

/* ---- plugins.c ------------------------------------------------------------------------------- */

/* A file that init writes. */
struct made_file {
	const char *path;
	struct span text;
	unsigned mode;
};

struct plugins {
	/* Input, the caller's. */
	struct arena *a;
	const struct layout *at;
	const struct init_job *job;
	const struct node *entries; /* extras["com.microsoft.pai.runtimeplugin"]; may be NULL */
	bool jobssh_off;            /* GANG_ALLOCATION is "false": tasks do not know each other */
	bool first_task;            /* task 0 of the first role: only this one runs tensorboard */
	const char *ssh_roles;      /* as in struct init: these tasks get sshd in any case */
	bool ssh_first;             /* this one waits for the others */
	bool ssh_made;              /* a plugin ssh of the job has done so */
	/* Output. */
	struct notes said; /* warnings */
	struct made_file *file;
	size_t n_files, cap_files;
	size_t n_plugins;
	struct str before, after; /* calls in precommands.sh and postcommands.sh */
};

/* Makes all scripts, in memory only.  -1 and *e: a plugin is not valid and its failurePolicy is not
 * `ignore`.  No message holds a secret of the job.  Texts live in the arena; plugins_done frees the
 * rest. */
int plugins_make(struct plugins *all, struct err *e);
void plugins_done(struct plugins *all);

enum { SCRIPT_MAX = 4 << 20, PLUGINS_MAX = 1000 };

struct plugin {
	struct plugins *all;
	size_t number;
	bool ignore;                   /* failurePolicy */
	const struct node *parameters; /* a map with references replaced */
	struct str pre, post;          /* commands, each ended by a newline */
};

/* Appends the commands of a plugin; -1 and *e, which names the parameter and not its value. */
typedef int plugin_make(struct plugin *p, struct err *e);
plugin_make plugin_ssh, plugin_git;

/* Adds a file for init to write; path and text live in the arena. */
void plugins_file(struct plugins *all, const char *path, struct span text, unsigned mode);

/* A parameter as text; empty if it is absent, null or empty; -1 and *e for a map or list. */
int plugin_text(const struct plugin *p, const char *key, struct span *text, struct err *e);
/* Returns true if a parameter is absent, null or an empty text. */
bool plugin_is_empty(const struct node *n);
/* true and false, also as text (references give text); absent is false. */
int plugin_bool(const struct plugin *p, const char *key, bool *value, struct err *e);
/* A whole number within min..max, also as text; *value is unchanged if it is absent. */
struct whole_limits {
	const char *key;
	int64_t min, max;
};
int plugin_whole(const struct plugin *p, struct whole_limits w, int64_t *value, struct err *e);

/* ---- the user's command ---------------------------------------------------------------------- */

enum { COMMAND_MAX = 4 << 20 };

struct user_command {
	struct arena *a;
	struct init_job job;
	struct span text; /* without its secrets */
	bool parameters;  /* the server has not filled them in: USER_CMD is not set */
};

/* Appends a part of the text with its references filled in. */
int command_fill(const struct user_command *c, struct span text, struct str *out, struct err *e);

/* lines.c: appends for each line of the script `NUMBER TEXT`, the line of `commands` as submitted
 * from which it was made and the beginning of its text, or `0` where this is not known. */
void command_lines(const struct user_command *c, struct span script, struct str *out);

/* ---- git.c ----------------------------------------------------------------------------------- */

enum { GIT_WORD_MAX = 4096 };

/* The options of `git clone` that a job may use: others run programs (--upload-pack, -c). */
#define GIT_OPTIONS "--depth, --branch, --recursive, --single-branch"

/* Reads the option at the front of *words (`--depth 1`, `--depth=1`) and appends its normal form
 * (`--depth=1`).  0, and how many words it takes; -1: not allowed, or a bad value. */
int git_option(const struct span *words, size_t n, struct str *out, size_t *used);

/* Returns true if standard error of `git clone` (in English) shows a transient failure. */
bool git_transient(const char *said);
/* The number that follows this text, as "retry-after" or "HTTP", in what git said; 0: none. */
int git_number_behind(const char *said, const char *text);
/* Overwrites logins in URIs with stars, in place. */
void git_redact(char *text);

/* ---- ssh.c ----------------------------------------------------------------------------------- */

enum {
	SSH_KEYS_MAX = 256,
	SSH_KEY_MAX = 16384,
	SSH_TEXT_MAX = SSH_KEYS_MAX * SSH_KEY_MAX,
	SSH_HOSTS_MAX = 64 << 20, /* of ssh_hosts */
	SSH_BARRIER_MINUTES = 30, /* default */
	SSH_BARRIER_MAX = 1440,
	SSH_SESSION_MAX = 1000, /* lines of ssh_environment: sshd gives up on longer files */
	SSH_SEED = 32           /* bytes of an ed25519 key */
};

/* The keys of the job, in layout.ssh_secret (SSH_PRIVATE: files.h), and the private one in
 * ssh_directory(). */
#define SSH_PUBLIC  "ssh-publickey"
#define SSH_JOB_KEY "job_key"
/* The same in the format of dropbear. */
#define SSH_CLIENT_KEY SSH_JOB_KEY ".dropbear"
/* A file in ssh_directory(): ssh_hosts of all tasks. */
#define SSH_CONFIG "ssh_config"

/* A line of authorized_keys: a known type, a blank, base64, perhaps a comment; no options. */
bool ssh_key_valid(struct span line);

/* A file name in layout.ssh_secret: [A-Za-z0-9._-]+, not beginning with a dot. */
bool ssh_file_name(struct span name);

/* A task that ssh can reach: `role:index` of PAI_TASK_ROLE_INSTANCES with PAI_HOST_IP_role_index
 * and the first port of PAI_role_index_ssh_PORT.  Texts are safe in a configuration file. */
struct ssh_peer {
	const char *alias; /* role-index */
	const char *address;
	int64_t port;
	bool reached; /* the own task is */
};
struct ssh_peers {
	struct ssh_peer *v;
	size_t n;
	size_t unknown; /* instances without an address or a port */
};
/* Lists the peers of these roles only; NULL: of all. */
void ssh_peers(struct ssh_peers *p, const char *roles, struct arena *a);

/* Appends the key pair as OpenSSH has it: the file of the private key, and a line. */
void ssh_key_pair(const uint8_t seed[static SSH_SEED], const uint8_t public_key[static SSH_SEED],
                  struct str *private_file, struct str *public_line);

/* The first port of a comma-separated list; -1 if the list is NULL or has none. */
int ssh_first_port(const char *list, int64_t *port);

/* Appends the variables for sessions as lines NAME=VALUE: those with well-known prefixes (PAI_,
 * FC_, PATH, CUDA_) that do not sound like secrets.  sshd reads at most 1000 lines, so addresses of
 * other tasks come last.  *left_out counts variables that did not fit. */
void ssh_environment(struct str *out, char *const *environment, size_t *left_out);

/* Returns the user of this process, by whose name tasks log in; sets at->passwd_home to the home
 * directory.  NULL: not known. */
const char *ssh_login(struct layout *at, struct arena *a);

/* Appends a `Host role-index` block for each peer; `key` is the path of the private key. */
void ssh_hosts(struct str *out, const struct ssh_peers *p, const char *user, const char *key);

/* The user's ~/.ssh/config with these blocks at its top between two comments.  Replaces earlier
 * blocks; everything else keeps its meaning. */
void ssh_merge_config(struct str *out, struct span theirs, struct span hosts);

/* Directory of sshd_config and keys: .pai-ssh beside root's .ssh. */
const char *ssh_directory(const char *home, struct arena *a);

/* ---- dropbear.c ------------------------------------------------------------------------------ */

/* true if this program contains sshd, ssh and scp, see dropbear_run. */
#ifdef DROPBEAR_VERSION
enum { DROPBEAR_THERE = true };
#else
enum { DROPBEAR_THERE = false };
#endif

/* The public ed25519 key of a private one.  False: this program has no dropbear. */
bool dropbear_public_key(const uint8_t seed[static SSH_SEED], uint8_t out[static SSH_SEED]);
