/*
 * sshd, ssh and scp for images without openssh: dropbear, which is linked into the static program
 * and called through links with these names.
 */
#include <grp.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "runtime-assets/common/cmdline.h"
#include "runtime-assets/plugins/plugins_internal.h"

/* A program that dropbear has; the table ends with a name of NULL. */
struct dropbear_program {
	const char *name;
	int (*run)(int argc, char **argv);
};

#ifdef DROPBEAR_VERSION

enum { CLIENT_MORE = 3, CLIENT_PATH = 4096 };

/* Functions of dropbear. */
int dropbear_main(int argc, char **argv, const char *multipath);
int cli_main(int argc, char **argv);
int scp_main(int argc, char **argv);
void crypto_init(void);
void seedrandom(void);
struct sign_key *import_read(const char *file, const char *password, int format);
int import_write(const char *file, struct sign_key *key, const char *password, int format);
void genrandom(unsigned char *buf, unsigned int n);
void dropbear_ed25519_make_key(unsigned char *public_key, unsigned char *private_key);
void dropbear_key_random(unsigned char *buf, unsigned int n);

/* The seed of the next key; NULL: random bytes. */
static const uint8_t *key_seed;

/* Replaces genrandom where dropbear makes an ed25519 key (sources/dropbear.mk). */
void dropbear_key_random(unsigned char *buf, unsigned int n)
{
	if (key_seed && n == SSH_SEED)
		memcpy(buf, key_seed, n);
	else
		genrandom(buf, n);
}

int dropbear_initgroups(const char *user, gid_t group);

/* Replaces initgroups.  Root keeps its groups without CAP_SETGID, and in a user namespace that
 * lacks some of them. */
int dropbear_initgroups(const char *user, gid_t group)
{
	return initgroups(user, group) == 0 || strcmp(user, "root") == 0 ? 0 : -1;
}

int dropbear_stat(const char *path, struct stat *out);

/* Replaces stat where dropbear refuses keys below a directory that others may write to, see
 * sshd_others_may_write. */
int dropbear_stat(const char *path, struct stat *out)
{
	int rc = stat(path, out);
	if (rc == 0)
		out->st_mode &= ~(mode_t)(S_IWGRP | S_IWOTH);
	return rc;
}

/* fnmatch for scp, which checks with it that the server sends what it was asked for.  That of musl
 * has 16 KiB, most of it tables of Unicode. */
int dropbear_fnmatch(const char *pattern, const char *name, int flags);

int dropbear_fnmatch(const char *pattern, const char *name, int flags)
{
	(void)flags;
	return !glob_matches(pattern, name);
}

/* Replaces sscanf, by which dropbear only reads keys with a password, which it then refuses. */
int dropbear_sscanf(const char *text, const char *format, ...);

int dropbear_sscanf(const char *text, const char *format, ...)
{
	(void)text;
	(void)format;
	return 0;
}

/* Replaces strftime in messages of sshd: month, day and time.  That of musl has 4 KiB. */
size_t dropbear_strftime(char *out, size_t size, const char *format, const struct tm *t);

size_t dropbear_strftime(char *out, size_t size, const char *format, const struct tm *t)
{
	(void)format;
	int n = snprintf(out, size, "%02d-%02d %02d:%02d:%02d", t->tm_mon + 1, t->tm_mday,
	                 t->tm_hour, t->tm_min, t->tm_sec);
	return n > 0 && (size_t)n < size ? (size_t)n : 0;
}

/* Never called, see sources/dropbear.mk. */
int dropbear_is_prime(const void *number, int rounds, int *result);

int dropbear_is_prime(const void *number, int rounds, int *result)
{
	(void)number;
	(void)rounds;
	*result = 0;
	return 0;
}

/* dropbearconvert FROM TO: a key of OpenSSH, in dropbear's format. */
static int dropbear_convert(int argc, char **argv)
{
	enum { FORMAT_DROPBEAR, FORMAT_OPENSSH };
	if (argc != 3)
		return 2;
	crypto_init();
	seedrandom();
	(void)umask(077);
	struct sign_key *key = import_read(argv[1], NULL, FORMAT_OPENSSH);
	return key && import_write(argv[2], key, NULL, FORMAT_DROPBEAR) == 1 ? 0 : 1;
}

static int dropbear_server(int argc, char **argv)
{
	return dropbear_main(argc, argv, NULL);
}

/* The value of a keyword in the entry of this host; empty if there is none. */
static struct span client_value(struct span config, const char *host, const char *keyword)
{
	bool here = false;
	while (config.n > 0) {
		struct span line = span_trim(span_next(&config, '\n'));
		struct span key = span_next(&line, ' ');
		if (span_is(key, "Host"))
			here = span_is(line, host);
		else if (here && span_is(key, keyword))
			return line;
	}
	return SPAN("");
}

/*
 * A host that is a task of the job gets the address, the port and the job's key; its host key is
 * new at each start, so it is not checked.  These are in the file of sshd: sessions lack the
 * variables of large jobs.  No other ssh_config is read.  Returns the number of arguments added.
 */
static int client_add_task(char **out, char **host, struct arena *a)
{
	struct layout at;
	const char *at_sign = strrchr(*host, '@');
	const char *name = at_sign ? at_sign + 1 : *host;
	/* The root of the layout, by the path of this program. */
	char path[CLIENT_PATH];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path));
	layout_init(&at, "", a);
	size_t end = strlen(at.program);
	if (n >= (ssize_t)end && memcmp(path + (size_t)n - end, at.program, end) == 0)
		layout_init(&at, arena_dup(a, (struct span){ path, (size_t)n - end }), a);
	const char *login = ssh_login(&at, a);
	const char *directory = ssh_directory(at.passwd_home, a);
	struct span config =
	    file_text(path_join(a, directory, SSH_CONFIG), FILE_THEIRS, SSH_HOSTS_MAX, a);
	struct span address = client_value(config, name, "HostName");
	struct span port = client_value(config, name, "Port");
	if (address.n == 0)
		return 0;
	const char *user = at_sign ? arena_dup(a, (struct span){ *host, (size_t)(name - *host) })
	                           : arena_printf(a, "%s@", login ? login : "root");
	out[0] = arena_printf(a, "-yy");
	out[1] = arena_printf(a, "-i%s/" SSH_CLIENT_KEY, directory);
	out[2] = arena_printf(a, "-p%.*s", (int)port.n, port.p);
	*host = arena_printf(a, "%s%.*s", user, (int)address.n, address.p);
	return CLIENT_MORE;
}

static int dropbear_client(int argc, char **argv)
{
	static const char WITH_VALUE[] = "bcilmopBFIJKLRW";
	ARENA_AUTO a = { 0 };
	char **out = ARENA_NEW(&a, char *, (size_t)argc + CLIENT_MORE + 1);
	int n = 0;
	int host = 1; /* behind the options */
	for (; host < argc && argv[host][0] == '-'; host++) {
		const char *c = argv[host] + 1;
		while (*c && !strchr(WITH_VALUE, *c))
			c++;
		host += *c && !c[1];
	}
	out[n++] = argv[0];
	if (host < argc)
		n += client_add_task(out + n, &argv[host], &a);
	for (int i = 1; i < argc; i++) {
		/* Callers use options of OpenSSH (mpirun, the barrier) that dropbear lacks. */
		bool file = strcmp(argv[i], "-F") == 0;
		bool timeout = strcmp(argv[i], "-o") == 0 && i + 1 < argc &&
		               strstr(argv[i + 1], "ConnectTimeout=") == argv[i + 1];
		bool single = strcmp(argv[i], "-x") == 0 || strcmp(argv[i], "--") == 0;
		if (i < host && (file || timeout))
			i++;
		else if (i >= host || !single)
			out[n++] = argv[i];
	}
	out[n] = NULL;
	return cli_main(n, out);
}

static const struct dropbear_program PROGRAMS[] = {
	{ "sshd", dropbear_server },
	{ "ssh", dropbear_client },
	{ "scp", scp_main },
	{ "dropbearconvert", dropbear_convert },
	{ NULL, NULL },
};

#else /* the builds for tests, with glibc, have no dropbear */

static const struct dropbear_program PROGRAMS[] = { { NULL, NULL } };

#endif

bool dropbear_public_key(const uint8_t seed[static SSH_SEED], uint8_t out[static SSH_SEED])
{
#ifdef DROPBEAR_VERSION
	unsigned char same[SSH_SEED];
	key_seed = seed;
	dropbear_ed25519_make_key(out, same);
	key_seed = NULL;
	memory_wipe(same, sizeof(same));
	return true;
#else
	(void)seed;
	(void)out;
	return false;
#endif
}

bool dropbear_run(int argc, char **argv, int *status)
{
	const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
	for (const struct dropbear_program *p = PROGRAMS; argc > 0 && p->name; p++) {
		if (strcmp(p->name, slash ? slash + 1 : argv[0]) == 0) {
			*status = p->run(argc, argv);
			return true;
		}
	}
	return false;
}
