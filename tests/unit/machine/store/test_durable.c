/* The store when power, disk or process fail, with a VFS that keeps synced pages and can fail. */
#include "base/posix/clock.h"
#include "base/posix/fd.h"
#include "tests/unit/machine/local_kit.h"

#include <pthread.h>
#include <stdatomic.h>

/* ---- a VFS in front of that of the store, with its name ------------------------------- */

/* It stands behind the file of that VFS. */
struct shim {
	const sqlite3_io_methods *real;
	sqlite3_io_methods methods; /* the same, but for those below */
	const char *name;
	bool main; /* the database, not its log */
};

static sqlite3_vfs *real_vfs;
static atomic_bool keeps, sync_fails, write_fails, copy_fails, read_fails, reads_wait, is_waiting,
    sync_kills;
static _Thread_local bool backs_up;
static pthread_mutex_t keeping = PTHREAD_MUTEX_INITIALIZER;

static struct shim *shim_of(sqlite3_file *f)
{
	return (struct shim *)(void *)((char *)f + real_vfs->szOsFile);
}

/* DIR/x to TOP/kept/x: what a power failure leaves. */
static void keep_synced(const char *path)
{
	char to[512];
	STR_AUTO text = STR_INIT(256 << 20);
	(void)pthread_mutex_lock(&keeping);
	(void)snprintf(to, sizeof(to), "%s/kept%s", top, strrchr(path, '/'));
	if (strncmp(path, dir, strlen(dir)) == 0 && fd_read_str(AT_FDCWD, path, &text) == 0) {
		int fd = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		assert_true(fd >= 0 && fd_write_all(fd, str_view(&text)) == 0);
		assert_int_equal(close(fd), 0);
	}
	(void)pthread_mutex_unlock(&keeping);
}

static int shim_sync(sqlite3_file *f, int flags)
{
	if (sync_kills)
		(void)raise(SIGKILL);
	if (sync_fails)
		return SQLITE_IOERR_FSYNC;
	int code = shim_of(f)->real->xSync(f, flags);
	if (code == SQLITE_OK && keeps)
		keep_synced(shim_of(f)->name);
	return code;
}

static int shim_write(sqlite3_file *f, const void *p, int n, sqlite3_int64 at)
{
	if (write_fails || (copy_fails && shim_of(f)->main))
		return SQLITE_FULL;
	return shim_of(f)->real->xWrite(f, p, n, at);
}

static int shim_read(sqlite3_file *f, void *p, int n, sqlite3_int64 at)
{
	while (reads_wait && backs_up && at > 1 << 20) { /* in a transaction */
		is_waiting = true;
		clock_sleep(1);
	}
	if (read_fails)
		return SQLITE_IOERR_READ;
	return shim_of(f)->real->xRead(f, p, n, at);
}

/* While the copy fails, the lock for it is waited for: else a commit goes on while the thread that
 * copies tries, and how large the log becomes depends on how long it does. */
static int shim_shm_lock(sqlite3_file *f, int at, int n, int flags)
{
	enum { WAL_CKPT_LOCK = 1 }; /* of SQLite's wal.c */
	int code;
	while ((code = shim_of(f)->real->xShmLock(f, at, n, flags)) == SQLITE_BUSY && copy_fails &&
	       at == WAL_CKPT_LOCK && n == 1)
		clock_sleep(1);
	return code;
}

static int shim_open(sqlite3_vfs *vfs, sqlite3_filename name, sqlite3_file *f, int flags, int *out)
{
	(void)vfs;
	struct shim *s = shim_of(f);
	int code = real_vfs->xOpen(real_vfs, name, f, flags, out);
	if (!f->pMethods)
		return code;
	*s = (struct shim){ f->pMethods, *f->pMethods, name, (flags & SQLITE_OPEN_MAIN_DB) != 0 };
	s->methods.iVersion = 2; /* reads by xRead only */
	s->methods.xSync = shim_sync;
	s->methods.xWrite = shim_write;
	s->methods.xRead = shim_read;
	s->methods.xShmLock = shim_shm_lock;
	f->pMethods = &s->methods;
	return code;
}

/* Keeps a copy: without a sync of the directory, the file may exist after a power failure. */
static int shim_delete(sqlite3_vfs *vfs, const char *name, int synced)
{
	char kept[512];
	(void)vfs;
	(void)snprintf(kept, sizeof(kept), "%s/kept%s", top, strrchr(name, '/'));
	if (synced && strncmp(name, dir, strlen(dir)) == 0)
		(void)unlink(kept);
	return real_vfs->xDelete(real_vfs, name, synced);
}

static int durable_setup(void **state)
{
	static sqlite3_vfs vfs;
	if (!real_vfs) {
		real_vfs = sqlite3_vfs_find("unix-excl");
		assert_non_null(real_vfs);
		vfs = *real_vfs;
		vfs.szOsFile = (int)sizeof(struct shim) + real_vfs->szOsFile;
		vfs.pNext = NULL;
		vfs.xOpen = shim_open;
		vfs.xDelete = shim_delete;
		assert_int_equal(sqlite3_vfs_register(&vfs, 0), SQLITE_OK);
		assert_ptr_equal(sqlite3_vfs_find("unix-excl"), &vfs);
	}
	(void)state;
	(void)snprintf(top, sizeof(top), "%s", unit_path(""));
	(void)snprintf(dir, sizeof(dir), "%s", unit_path("store"));
	shell("mkdir -m 0700 %s/kept", top);
	keeps = true;
	open_store();
	/* The rename was synced, as the directory. */
	shell("mv %s/kept/store.db.new %s/kept/store.db && rm -f %s/kept/store.db.new-wal", top,
	      top, top);
	return 0;
}

static int durable_teardown(void **state)
{
	keeps = sync_fails = write_fails = copy_fails = read_fails = reads_wait = sync_kills =
	    false;
	return teardown(state);
}

/* ---- power ------------------------------------------------------------------------- */

/* Returns an object as a power failure would leave it now; "" if it would be absent. */
static struct kept after_power_failure(enum object_kind kind, const char *name)
{
	char path[128];
	struct store_limits limits = STORE_LIMITS_DEFAULT;
	(void)pthread_mutex_lock(&keeping);
	shell("rm -rf %s/after && cp -a %s/kept %s/after", top, top, top);
	(void)pthread_mutex_unlock(&keeping);
	(void)snprintf(path, sizeof(path), "%s/after", top);
	struct local *other = local_open(path, "jobs", false, no_err());
	assert_string_equal(err_msg(&unit.e), "");
	struct store *s = store_local_new(other, &limits, no_err());
	assert_false(file_exists("../after/damaged"));
	struct kept k = get_whole(s, kind, name);
	store_free(s);
	local_close(other);
	return k;
}

static const char *named_secret(char body[static 70000], const char *name, int filler)
{
	(void)snprintf(body, 70000,
	               "{\"kind\":\"Secret\",\"metadata\":{\"name\":\"%s\"},\"data\":\"%0*d\"}",
	               name, filler, 0);
	return body;
}

TEST_WITH(test_answers_survive_a_power_failure, durable_setup, durable_teardown)
{
	static char body[70000];
	struct kept made = create(KIND_FRAMEWORK, "f", FRAMEWORK);
	assert_string_equal(after_power_failure(KIND_FRAMEWORK, "f").uid, made.uid);
	struct kept k = patch("{\"spec\":{\"executionType\":\"Start\"}}");
	assert_string_equal(after_power_failure(KIND_FRAMEWORK, "f").version, k.version);
	assert_int_equal(put_status("f", made.uid, SPAN("{\"state\":\"Running\"}")), STORE_OK);
	assert_non_null(strstr(after_power_failure(KIND_FRAMEWORK, "f").body, "Running"));
	/* The log becomes large enough to be copied and to start again. */
	for (int i = 0; i < 200; i++) {
		char name[16];
		(void)snprintf(name, sizeof(name), "s%d", i);
		made = create(KIND_SECRET, name, named_secret(body, name, 60000));
		assert_int_equal(made.status, 201);
		if (i % 10 == 0)
			assert_string_equal(after_power_failure(KIND_SECRET, name).uid, made.uid);
	}
	delete ("f", NULL, NULL);
	assert_int_equal(after_power_failure(KIND_FRAMEWORK, "f").outcome, STORE_NOT_FOUND);
}

static void durable_when_answered(void *arg, const struct store_reply *r)
{
	int *left = arg;
	char name[16];
	assert_int_equal(r->status, 201);
	(void)snprintf(name, sizeof(name), "g%d", --*left);
	assert_int_equal(after_power_failure(KIND_SECRET, name).status, 200);
}

/* The requests share a commit. */
TEST_WITH(test_answers_of_a_shared_commit_survive_a_power_failure, durable_setup, durable_teardown)
{
	enum { N = 12 };
	static char body[N][70000];
	static char name[N][16];
	int left = N;
	for (int i = N - 1; i >= 0; i--) {
		(void)snprintf(name[i], sizeof(name[i]), "g%d", i);
		store_request(store, &(struct store_request){
					 .verb = STORE_CREATE,
					 .kind = KIND_SECRET,
					 .name = name[i],
					 .body = { span_of(named_secret(body[i], name[i], 100)) },
					 .deadline_ms = clock_ms() + 60000,
					 .done = durable_when_answered,
					 .arg = &left });
	}
	settle(store);
	assert_int_equal(left, 0);
}

/* ---- the disk ---------------------------------------------------------------------- */

TEST_WITH(test_failed_sync_gives_an_ambiguous_outcome, durable_setup, durable_teardown)
{
	struct kept made = create(KIND_FRAMEWORK, "f", FRAMEWORK);
	sync_fails = true;
	struct kept k = create_secret("s");
	assert_int_equal(k.outcome, STORE_AMBIGUOUS);
	assert_int_equal(k.status, 504);
	sync_fails = false; /* the disk does not have the pages that it could not store */
	k = create_secret("t");
	assert_int_equal(k.outcome, STORE_BUSY);
	assert_int_equal(k.status, 503);
	assert_non_null(strstr(k.message, "until this server is started again"));
	assert_int_equal(put_status("f", made.uid, SPAN("{}")), STORE_BUSY);
	assert_int_equal(get(KIND_FRAMEWORK, "f").outcome, STORE_OK);
	assert_int_equal(get(KIND_SECRET, "s").outcome, STORE_BUSY); /* it may be there then */
	assert_int_equal(
	    ask(store, (struct store_request){ .verb = STORE_READY, .name = "" }).outcome,
	    STORE_BUSY);
	close_store();
	open_store();
	k = get(KIND_SECRET, "s");
	assert_true(k.outcome == STORE_OK || k.outcome == STORE_NOT_FOUND);
	assert_int_equal(create_secret("t").status, 201);
}

TEST_WITH(test_full_disk_leaves_no_partial_change, durable_setup, durable_teardown)
{
	create(KIND_FRAMEWORK, "f", FRAMEWORK);
	struct store_request r = { .kind = KIND_FRAMEWORK, .name = "f" };
	r.body[0] = SPAN("{\"spec\":{\"executionType\":\"Stop\"}}");
	struct kept *k[8];
	write_fails = true;
	for (size_t i = 0; i < 8; i++) {
		r.verb = i % 2 ? STORE_PATCH : STORE_GET;
		k[i] = send_off(store, r, 1);
	}
	settle(store);
	for (size_t i = 0; i < 8; i++) {
		assert_string_equal(k[i]->version, i % 2 ? "" : "1");
		assert_int_equal(k[i]->status, i % 2 ? 507 : 200);
		assert_int_equal(k[i]->outcome, i % 2 ? STORE_REFUSED : STORE_OK);
		assert_true(i % 2 == 0 || strstr(k[i]->message, "No space left on device"));
	}
	struct kept one = create_secret("s");
	assert_int_equal(one.status, 507);
	assert_int_equal(get(KIND_SECRET, "s").outcome, STORE_NOT_FOUND);
	assert_int_equal(
	    ask(store, (struct store_request){ .verb = STORE_READY, .name = "" }).status, 507);
	write_fails = false;
	one = create_secret("s");
	assert_int_equal(one.status, 201);
	assert_non_null(strstr(patch("{}").body, "\"executionType\":\"Create\""));
	write_fails = true; /* also a start does without */
	close_store();
	open_store();
	assert_string_equal(get(KIND_SECRET, "s").uid, one.uid);
	assert_int_equal(create_secret("t").status, 507);
	write_fails = false;
}

/* Creates objects of 2 MiB until one is refused, or n are there; the status of the last. */
static int fill_log(const char *name, int n)
{
	enum { SIZE = 2 << 20 };
	FREE_AUTO char *body = calloc(1, SIZE + 200);
	struct kept k = { .status = 201 };
	for (int i = 0; i < n && k.status == 201; i++) {
		char all[16];
		(void)snprintf(all, sizeof(all), "%s%d", name, i);
		(void)snprintf(
		    body, SIZE + 200,
		    "{\"kind\":\"Secret\",\"metadata\":{\"name\":\"%s\"},\"data\":\"%0*d\"}", all,
		    SIZE, 0);
		k = create(KIND_SECRET, all, body);
	}
	return k.status;
}

static off_t log_size(void)
{
	char log[256];
	struct stat st;
	(void)snprintf(log, sizeof(log), "%s/store.db-wal", dir);
	assert_int_equal(stat(log, &st), 0);
	return st.st_size;
}

/* The log has a maximum also while it cannot be copied. */
TEST_WITH(test_log_is_bounded_although_it_cannot_be_copied, durable_setup, durable_teardown)
{
	keeps = false;
	copy_fails = true;
	assert_int_equal(fill_log("s", 100), 507);
	assert_in_range(log_size(), 48 << 20, 72 << 20);
	copy_fails = false;
	assert_int_equal(fill_log("more", 1), 201);
	assert_int_equal(get(KIND_SECRET, "s0").status, 200);
}

struct backup {
	struct err e;
	int stop[2], fd;
};

static void *backup_run(void *arg)
{
	struct backup *b = arg;
	backs_up = true;
	b->fd = local_backup(local, b->stop[0], &b->e);
	return NULL;
}

/* The log is kept while the backup reads. */
TEST_WITH(test_backup_keeps_the_log_until_it_ends, durable_setup, durable_teardown)
{
	struct backup b = { 0 };
	pthread_t thread;
	keeps = false;
	assert_int_equal(pipe2(b.stop, O_CLOEXEC), 0);
	assert_int_equal(fill_log("s", 3), 201);
	for (int i = 0; i < 100; i++) {
		static char body[70000];
		char name[16];
		(void)snprintf(name, sizeof(name), "t%d", i);
		assert_int_equal(create(KIND_SECRET, name, named_secret(body, name, 1)).status,
		                 201);
	}
	close_store();
	open_store();
	(void)backup_run(&b);
	assert_true(b.fd >= 0);
	assert_int_equal(lseek(b.fd, 0, SEEK_END) > 6 << 20, 1);
	assert_int_equal(close(b.fd), 0);
	reads_wait = true;
	backs_up = false;
	assert_int_equal(pthread_create(&thread, NULL, backup_run, &b), 0);
	while (!is_waiting)
		clock_sleep(1);
	assert_int_equal(fill_log("more", 70), 201);
	assert_in_range(log_size(), 128 << 20, 160 << 20);
	reads_wait = false;
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(b.fd, -1);
	assert_non_null(strstr(err_msg(&b.e), "too much is being stored"));
	assert_int_equal(fill_log("last", 1), 201);
	for (int64_t begun = clock_ms(); log_size() > 0;) {
		assert_true(clock_ms() < begun + AMPLE_MS);
		clock_sleep(50);
	}
	assert_int_equal(write(b.stop[1], "", 1), 1); /* the server ends */
	(void)backup_run(&b);
	assert_int_equal(b.fd, -1);
	assert_int_equal(close(b.stop[0]) + close(b.stop[1]), 0);
	err_done(&b.e);
}

static void count_put(void *arg, struct span object)
{
	(void)object;
	++*(int *)arg;
}

/* Larger than what SQLite keeps in memory.  Without all jobs, tasks would be ended as unknown. */
TEST_WITH(test_unreadable_disk_ends_no_tasks, durable_setup, durable_teardown)
{
	enum { SIZE = 2 << 20, N = 4 };
	static const struct local_follower FOLLOWER = { .put = count_put, .remove = count_put };
	FREE_AUTO char *body = calloc(1, SIZE + 200);
	int puts = 0;
	keeps = false;
	for (int i = 0; i < N; i++) {
		char name[16];
		(void)snprintf(name, sizeof(name), "f%d", i);
		(void)snprintf(
		    body, SIZE + 200,
		    "{\"kind\":\"Framework\",\"metadata\":{\"name\":\"%s\"},\"spec\":\"%0*d\"}",
		    name, SIZE, 0);
		assert_int_equal(create(KIND_FRAMEWORK, name, body).status, 201);
	}
	close_store();
	open_store();
	read_fails = true;
	assert_int_equal(local_follow(local, &FOLLOWER, &puts, no_err()), -1);
	assert_non_null(strstr(err_msg(&unit.e), "store.db cannot be read: "));
	assert_int_equal(get(KIND_FRAMEWORK, "f0").status, 500);
	read_fails = false;
	puts = 0;
	follow(&FOLLOWER, &puts);
	assert_int_equal(puts, N);
}

/* ---- the process ------------------------------------------------------------------- */

static void killed_put(void *arg, struct span object)
{
	(void)arg;
	(void)object;
	(void)raise(SIGKILL);
}

/* Runs in a process of its own until it is killed. */
static void killed_creating(bool before_commit)
{
	static const struct local_follower FOLLOWER = { .put = killed_put, .remove = killed_put };
	close_store();
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		open_store();
		follow(&FOLLOWER, NULL);
		sync_kills = before_commit;
		create_with();
		_exit(0);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	open_store();
	/* It is whole, or not there. */
	assert_int_equal(get(KIND_SECRET, "f-s").outcome, get(KIND_FRAMEWORK, "f").outcome);
	assert_int_equal(get(KIND_CONFIGMAP, "f-c").outcome, get(KIND_FRAMEWORK, "f").outcome);
}

TEST_WITH(test_process_killed_after_a_commit_keeps_the_object, durable_setup, durable_teardown)
{
	killed_creating(false);
	assert_int_equal(get(KIND_FRAMEWORK, "f").outcome, STORE_OK);
}

TEST_WITH(test_process_killed_in_a_commit_can_repeat_it, durable_setup, durable_teardown)
{
	killed_creating(true);
	struct kept k = create_with();
	assert_true(k.status == 201 || k.status == 409);
	assert_int_equal(get(KIND_FRAMEWORK, "f").outcome, STORE_OK);
}

/* clang-format on */
