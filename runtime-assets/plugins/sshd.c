/*
 * `pai-runtime sshd`, in the user's container.
 *
 * An image without openssh gets sshd, ssh and scp of dropbear.c; sshd also if that of openssh could
 * not confine itself here (sshd_may_confine).  All files of sshd are in the user's .pai-ssh and
 * written at each start; /etc is not changed.  Only keys of the job can log in, since the port is
 * open to the network.  PAM fails in containers (loginuid); it is used only if root is locked (`!`
 * in shadow), because without PAM sshd refuses locked accounts.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/posix/clock.h"
#include "runtime-assets/common/cmdline.h"
#include "runtime-assets/plugins/plugins_internal.h"

struct sshd {
	struct arena a;
	struct layout at;
	bool job;                    /* tasks of the job log in to each other */
	const char *custom, *system; /* public keys; the name of a file with such.  NULL: none */
	int64_t port;
	const char *user;     /* of this process */
	const char *program;  /* sshd of the image; NULL: dropbear */
	bool client;          /* dropbear's ssh and scp */
	const char **session; /* environment of sessions of dropbear */
	/* Files. */
	const char *dir, *home_ssh, *key, *host_key, *config, *pid_file, *log;
};

enum {
	TEXT_MAX = 8 << 20,
	START_MAX_MS = 10000, /* until sshd has written its pid */
	STOP_MAX_MS = 5000
};

/* ---- keys ------------------------------------------------------------------------------------ */

static void sshd_add_keys(struct str *out, struct span text, const char *where)
{
	size_t number = 0;
	while (text.n > 0) {
		struct span line = span_trim(span_next(&text, '\n'));
		number += line.n > 0;
		if (line.n && ssh_key_valid(line)) {
			str_span(out, line);
			str_char(out, '\n');
		} else if (line.n) {
			say_line(SAY_WARNING, "ssh plugin: key %zu of %s is invalid, left out",
			         number, where);
		}
	}
}

static int sshd_add_key_file(struct sshd *s, struct str *out, const char *name, struct err *e)
{
	struct span text;
	const char *path = path_join(&s->a, s->at.ssh_secret, name);
	int rc = file_read(path, FILE_THEIRS, SSH_TEXT_MAX, &s->a, &text, e);
	if (rc == 1)
		say_line(SAY_WARNING, "ssh plugin: there is no %s", path);
	if (rc == 0)
		sshd_add_keys(out, text, name);
	return rc < 0 ? -1 : 0;
}

static int sshd_write_authorized_keys(struct sshd *s, struct err *e)
{
	STR_AUTO keys = STR_INIT(TEXT_MAX);
	if (s->job && sshd_add_key_file(s, &keys, SSH_PUBLIC, e))
		return -1;
	if (s->custom)
		sshd_add_keys(&keys, span_of(s->custom), "userssh");
	if (s->system && sshd_add_key_file(s, &keys, s->system, e))
		return -1;
	if (keys.n == 0)
		say_line(SAY_WARNING, "ssh plugin: there are no keys, so all logins fail");
	return file_write(path_join(&s->a, s->dir, "authorized_keys"), str_view(&keys), 0600, e);
}

/* Writes the key also as ~/.ssh/id_rsa, for programs with their own configuration; a key of the
 * image stays. */
static int sshd_write_job_key(struct sshd *s, struct err *e)
{
	struct span key;
	struct span theirs;
	const char *path = path_join(&s->a, s->at.ssh_secret, SSH_PRIVATE);
	int rc = file_read(path, FILE_THEIRS, SSH_KEY_MAX, &s->a, &key, e);
	if (rc == 1)
		say_line(SAY_WARNING, "ssh plugin: this job has no key of its own: %s is not there",
		         path);
	if (rc)
		return rc < 0 ? -1 : 0;
	if (geteuid() == 0)
		(void)chmod(path, 0600); /* no other user needs it */
	if (file_write(s->key, key, 0600, e))
		return -1;
	const char *usual = path_join(&s->a, s->home_ssh, "id_rsa");
	rc = file_read(usual, FILE_THEIRS, SSH_KEY_MAX, &s->a, &theirs, e);
	if (rc == 1)
		return file_write(usual, key, 0600, e);
	if (rc == 0 && !span_eq(key, theirs))
		say_line(SAY_WARNING, "ssh plugin: %s belongs to the image and stays", usual);
	return rc < 0 ? -1 : 0;
}

/* ---- configuration --------------------------------------------------------------------------- */

/* Images with such a home directory are common.  sshd with StrictModes would refuse all logins; the
 * owner is checked here, as dropbear does. */
static bool sshd_others_may_write(struct sshd *s)
{
	struct stat st;
	if (stat(s->at.passwd_home, &st) != 0 || !(st.st_mode & (S_IWGRP | S_IWOTH)) ||
	    (st.st_uid != 0 && st.st_uid != geteuid()))
		return false;
	say_line(SAY_WARNING,
	         "ssh plugin: other users may write to %s, and so could add keys that log in",
	         s->at.passwd_home);
	return true;
}

static int sshd_write_config(struct sshd *s, struct err *e)
{
	STR_AUTO text = STR_INIT(TEXT_MAX);
	struct span shadow =
	    file_text(path_join(&s->a, s->at.root, "etc/shadow"), FILE_MOUNTED, 1 << 20, &s->a);
	bool locked = span_starts(shadow, "root:!") || span_find(shadow, 0, "\nroot:!") != SIZE_MAX;
	str_printf(&text,
	           "Port %lld\n"
	           "HostKey \"%s\"\n"
	           "PidFile \"%s\"\n"
	           "AuthorizedKeysFile \"%s/authorized_keys\"\n"
	           "StrictModes %s\n"
	           "PermitRootLogin prohibit-password\n"
	           "PubkeyAuthentication yes\n"
	           "PasswordAuthentication no\n"
	           "ChallengeResponseAuthentication no\n"
	           "PermitUserEnvironment yes\n"
	           "UsePAM %s\n"
	           "UseDNS no\n"
	           "PrintMotd no\n"
	           "Subsystem sftp internal-sftp\n",
	           (long long)s->port, s->host_key, s->pid_file, s->dir,
	           sshd_others_may_write(s) ? "no" : "yes", locked ? "yes" : "no");
	return file_write(s->config, str_view(&text), 0600, e);
}

static int sshd_write_environment(struct sshd *s, struct err *e)
{
	STR_AUTO text = STR_SECRET(TEXT_MAX);
	size_t left_out;
	ssh_environment(&text, environ, &left_out);
	if (left_out)
		say_line(SAY_WARNING,
		         "ssh plugin: %zu variables are too many or too long for sessions over ssh",
		         left_out);
	s->session = ARENA_NEW(&s->a, const char *, SSH_SESSION_MAX + 1);
	struct span rest = str_view(&text);
	for (size_t n = 0; rest.n > 0; n++)
		s->session[n] = arena_dup(&s->a, span_next(&rest, '\n'));
	return file_write(path_join(&s->a, s->home_ssh, "environment"), str_view(&text), 0600, e);
}

static int sshd_write_hosts(struct sshd *s, struct err *e)
{
	STR_AUTO hosts = STR_INIT(SSH_HOSTS_MAX);
	STR_AUTO merged = STR_INIT(SSH_HOSTS_MAX);
	const char *theirs = path_join(&s->a, s->home_ssh, "config");
	struct ssh_peers peers;
	struct span text;
	ssh_peers(&peers, NULL, &s->a);
	if (peers.unknown)
		say_line(SAY_WARNING, "ssh plugin: %zu tasks have no address or no port for ssh",
		         peers.unknown);
	ssh_hosts(&hosts, &peers, s->user, s->key);
	if (file_write(path_join(&s->a, s->dir, SSH_CONFIG), str_view(&hosts), 0600, e))
		return -1;
	if (file_read(theirs, FILE_THEIRS, TEXT_MAX, &s->a, &text, e) < 0)
		return -1;
	ssh_merge_config(&merged, text, str_view(&hosts));
	return file_write(theirs, str_view(&merged), 0600, e);
}

/* ---- programs -------------------------------------------------------------------------------- */

/* Its name is compiled into sshd. */
static const char *sshd_empty_directory(struct sshd *s)
{
	return arena_printf(&s->a, "%s/run/sshd", s->at.root);
}

static int sshd_remove_old(const char *path, struct err *e)
{
	if (unlink(path) == 0 || errno == ENOENT)
		return 0;
	return err_set(e, FAILED, "cannot remove %s: %s", path, strerror(errno));
}

/* A link by which this program is another one, see dropbear_run. */
static int sshd_link(struct sshd *s, const char *dir, const char *name, struct err *e)
{
	const char *path = path_join(&s->a, dir, name);
	if (symlink(s->at.program, path) == 0 || errno == EEXIST)
		return 0;
	return err_set(e, FAILED, "cannot create %s: %s", path, strerror(errno));
}

/* sshd of openssh, as root, handles each connection in an empty directory as the user `sshd`.  This
 * fails without the capabilities SYS_CHROOT, SETGID and SETUID, where a namespace lacks the ids or
 * denies setgroups, and in images without that user: sshd starts, but refuses all.  So try it. */
static bool sshd_may_confine(struct sshd *s)
{
	struct span text =
	    file_text(path_join(&s->a, s->at.root, "etc/passwd"), FILE_MOUNTED, TEXT_MAX, &s->a);
	struct span line = SPAN("");
	int64_t uid;
	int64_t gid;
	while (!span_starts(line, "sshd:") && text.n > 0)
		line = span_next(&text, '\n');
	bool known = span_is(span_next(&line, ':'), "sshd");
	(void)span_next(&line, ':'); /* the password */
	if (!known || parse_i64(span_next(&line, ':'), 1, INT32_MAX, &uid) ||
	    parse_i64(span_next(&line, ':'), 0, INT32_MAX, &gid))
		return false;
	pid_t pid = fork();
	if (pid == 0) {
		gid_t group = (gid_t)gid;
		_exit(chroot(sshd_empty_directory(s)) != 0 || setgroups(1, &group) != 0 ||
		      setresgid(group, group, group) != 0 ||
		      setresuid((uid_t)uid, (uid_t)uid, (uid_t)uid) != 0);
	}
	return pid > 0 && child_wait(pid) == 0;
}

/* Links the program as ssh and scp where people look for them, and at the end of the PATH that
 * `run` gives to the task, since users who are not root may not write to the first. */
static void sshd_link_client(struct sshd *s)
{
	ERR_AUTO why = { 0 };
	const char *const bin[] = { arena_printf(&s->a, "%s/usr/local/bin", s->at.root),
		                    path_join(&s->a, s->at.work, SSH_BIN) };
	int failed = 0;
	for (size_t i = 0; i < 2; i++) {
		(void)mkdir(bin[i], 0755); /* it may exist */
		failed += sshd_link(s, bin[i], "ssh", &why) || sshd_link(s, bin[i], "scp", &why);
	}
	if (failed == 2)
		say_line(SAY_WARNING, "ssh plugin: %s, so there is no ssh to other tasks",
		         err_msg(&why));
}

/* Finds the programs of the image, and replaces those that it lacks. */
static int sshd_choose(struct sshd *s, struct err *e)
{
	static const char *const PLACES[] = { "/usr/sbin/sshd", "/usr/local/sbin/sshd" };
	static const char *const OURS[] = { "sshd", "dropbearconvert" };
	bool usable = program_find("ssh-keygen", &s->a) && sshd_may_confine(s);
	for (size_t i = 0; usable && !s->program && i < ARRAY_SIZE(PLACES); i++) {
		const char *path = arena_printf(&s->a, "%s%s", s->at.root, PLACES[i]);
		if (access(path, X_OK) == 0)
			s->program = path;
	}
	s->client = s->job && !program_find("ssh", &s->a);
	if (s->program && !s->client)
		return 0;
	if (!DROPBEAR_THERE)
		return err_set(e, FAILED, "openssh is not in the image");
	for (size_t i = 0; i < ARRAY_SIZE(OURS); i++)
		if (sshd_link(s, s->dir, OURS[i], e))
			return -1;
	if (s->client)
		sshd_link_client(s);
	return 0;
}

/* Host keys of an image are the same in every container. */
static int sshd_make_host_key(struct sshd *s, struct err *e)
{
	const char *const argv[] = { "ssh-keygen", "-q",          "-t", "ed25519",   "-N", "",
		                     "-C",         "pai-runtime", "-f", s->host_key, NULL };
	const struct child_command keygen = { .argv = argv, .out = STREAM_NONE };
	if (access(s->host_key, R_OK) == 0)
		return 0;
	if (s->program)
		return child_call(&keygen) == 0 ? 0 : err_set(e, FAILED, "cannot make a host key");
	/* The format of dropbear: the type, then the seed and the public key, each with its
	 * length. */
	static const char HEAD[] = "\0\0\0\013ssh-ed25519\0\0\0\100";
	enum { HEAD_N = sizeof(HEAD) - 1 };
	uint8_t key[HEAD_N + 2 * SSH_SEED];
	memcpy(key, HEAD, HEAD_N);
	random_bytes(key + HEAD_N, SSH_SEED);
	int rc = -1;
	if (dropbear_public_key(key + HEAD_N, key + HEAD_N + SSH_SEED))
		rc = file_write(s->host_key, (struct span){ (char *)key, sizeof(key) }, 0600, e);
	memory_wipe(key, sizeof(key));
	return rc;
}

/* The client of dropbear has a format of its own. */
static int sshd_convert_key(struct sshd *s, struct err *e)
{
	const char *key = path_join(&s->a, s->dir, SSH_CLIENT_KEY);
	const char *const argv[] = { path_join(&s->a, s->dir, "dropbearconvert"), s->key, key,
		                     NULL };
	const struct child_command convert = { .argv = argv,
		                               .out = STREAM_NONE,
		                               .err = STREAM_NONE };
	if (sshd_remove_old(key, e))
		return -1;
	if (access(s->key, R_OK) == 0 && child_call(&convert) != 0)
		say_line(SAY_WARNING,
		         "ssh plugin: the job's key is in no format that ssh here can read");
	return 0;
}

/* The pid in the file, if that process is sshd; 0. */
static pid_t sshd_running(struct sshd *s)
{
	int64_t pid;
	struct span text = file_text(s->pid_file, FILE_THEIRS, 100, &s->a);
	if (parse_i64(span_trim(text), 2, INT32_MAX, &pid))
		return 0;
	const char *comm = arena_printf(&s->a, "/proc/%lld/comm", (long long)pid);
	return span_starts(file_text(comm, FILE_MOUNTED, 100, &s->a), "sshd") ? (pid_t)pid : 0;
}

/* sshd listens before it goes into the background; then it writes its pid. */
static int sshd_run_program(struct sshd *s, int log)
{
	const char *const image[] = { s->program, "-f", s->config, "-E", s->log, NULL };
	const char *const ours[] = { path_join(&s->a, s->dir, "sshd"),
		                     "-e",
		                     "-p",
		                     arena_printf(&s->a, "%lld", (long long)s->port),
		                     "-r",
		                     s->host_key,
		                     "-P",
		                     s->pid_file,
		                     "-D",
		                     s->dir,
		                     NULL };
	const char *path = getenv("PATH");
	const char *const env[] = {
		arena_printf(&s->a, "PATH=%s", path ? path : "/usr/sbin:/usr/bin:/sbin:/bin"), NULL
	};
	const struct child_command sshd = { .argv = s->program ? image : ours,
		                            .env = s->program ? env : s->session,
		                            .out = STREAM_NONE,
		                            .err = s->program ? STREAM_OURS : log };
	return child_call(&sshd);
}

static int sshd_start(struct sshd *s, struct err *e)
{
	struct stat st;
	/* Stops sshd of an earlier start; its sessions go on. */
	pid_t pid = sshd_running(s);
	int64_t stop = clock_ms() + STOP_MAX_MS;
	if (pid > 0 && kill(pid, SIGTERM) == 0) {
		while (kill(pid, 0) == 0 && clock_ms() < stop)
			clock_sleep(20);
	}
	if (sshd_remove_old(s->pid_file, e) || sshd_remove_old(s->log, e))
		return -1;
	FD_AUTO log = open(s->log, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
	if (log < 0)
		return err_set(e, FAILED, "cannot create %s: %s", s->log, strerror(errno));
	int status = sshd_run_program(s, log);
	int64_t end = clock_ms() + START_MAX_MS;
	while (status == 0 && stat(s->pid_file, &st) != 0 && clock_ms() < end)
		clock_sleep(20);
	if (status == 0 && stat(s->pid_file, &st) == 0) {
		say_line(SAY_INFO, "ssh plugin: sshd%s listens on port %lld",
		         s->program ? "" : " of pai-runtime", (long long)s->port);
		return 0;
	}
	struct span said = file_text(s->log, FILE_THEIRS, 1 << 20, &s->a);
	(void)fd_write_all(STDERR_FILENO, span_from(said, said.n > 2000 ? said.n - 2000 : 0));
	return err_set(e, FAILED, "sshd did not start on port %lld", (long long)s->port);
}

/* ---- all of sshd ----------------------------------------------------------------------------- */

static int sshd_set_up(struct sshd *s, struct err *e)
{
	s->user = ssh_login(&s->at, &s->a);
	if (!s->user)
		return err_set(e, FAILED, "the user of the container has no entry in /etc/passwd");
	s->dir = ssh_directory(s->at.passwd_home, &s->a);
	s->home_ssh = path_join(&s->a, s->at.passwd_home, ".ssh");
	s->key = path_join(&s->a, s->dir, SSH_JOB_KEY);
	s->host_key = path_join(&s->a, s->dir, "host_key");
	s->config = path_join(&s->a, s->dir, "sshd_config");
	s->pid_file = path_join(&s->a, s->dir, "sshd.pid");
	s->log = path_join(&s->a, s->dir, "sshd.log");
	if (dir_make(s->home_ssh, 0700, e) || dir_make(s->dir, 0700, e) ||
	    (geteuid() == 0 && dir_make(sshd_empty_directory(s), 0755, e)))
		return -1;
	if (sshd_choose(s, e) || sshd_write_authorized_keys(s, e) || sshd_write_environment(s, e) ||
	    sshd_write_hosts(s, e) || sshd_write_config(s, e) || sshd_make_host_key(s, e))
		return -1;
	if ((s->job && sshd_write_job_key(s, e)) || (s->client && sshd_convert_key(s, e)))
		return -1;
	return sshd_start(s, e);
}

const char SSHD_USAGE[] =
    "usage: pai-runtime sshd [--root DIR] true|false\n"
    "                        [custom KEYS] [system FILE]\n\n"
    "Start sshd on the first port of PAI_CONTAINER_SSH_PORT.  true: the job's own\n"
    "key (ssh-secret) may log in, and logs in elsewhere.  custom: public keys, a line\n"
    "each; system: a file of ssh-secret with such.  Without openssh in the image,\n"
    "sshd, ssh and scp are those of pai-runtime.\n";

static int sshd_parse(struct sshd *s, int argc, char **argv)
{
	const char *root = "";
	const struct arg args[] = { { "--root", &root, NULL }, { NULL, NULL, NULL } };
	int i = args_take(args, 1, argc, argv);
	layout_init(&s->at, root, &s->a);
	if (i == argc || (strcmp(argv[i], "true") != 0 && strcmp(argv[i], "false") != 0))
		return -1;
	s->job = strcmp(argv[i++], "true") == 0;
	const struct arg sources[] = { { "custom", &s->custom, NULL },
		                       { "system", &s->system, NULL },
		                       { NULL, NULL, NULL } };
	i = args_take(sources, i, argc, argv);
	return i < argc || (s->system && !ssh_file_name(span_of(s->system))) ? -1 : 0;
}

int cmd_sshd(int argc, char **argv)
{
	struct sshd s = { .job = false };
	ERR_AUTO e = { 0 };
	int rc = 0;
	if (sshd_parse(&s, argc, argv)) {
		rc = MISUSED;
	} else if (ssh_first_port(getenv("PAI_CONTAINER_SSH_PORT"), &s.port)) {
		say_line(SAY_WARNING,
		         "ssh plugin: this task has no port for ssh, so there is no sshd");
	} else if (sshd_set_up(&s, &e)) {
		say_line(SAY_ERROR, "ssh plugin: %s", err_msg(&e));
		rc = 1;
	}
	arena_wipe(&s.a);
	return rc;
}
