/* Damaged databases. */
#include "base/posix/fd.h"
#include "base/str.h"
#include "tests/unit/machine/local_kit.h"

enum { JOBS = 60, SENTENCES = 64 };

/* ---- messages of a start ------------------------------------------------------------------ */

struct heard {
	char sentence[SENTENCES][300];
	size_t n;
	int puts;
};

static void heard_put(void *arg, struct span object)
{
	(void)object;
	((struct heard *)arg)->puts++;
}

static void heard_state(void *arg, const struct local_state *state, int64_t version)
{
	(void)arg;
	(void)state;
	(void)version;
}

static void heard_damaged(void *arg, const char *sentence)
{
	struct heard *h = arg;
	if (h->n < SENTENCES)
		(void)snprintf(h->sentence[h->n++], sizeof(h->sentence[0]), "%s", sentence);
}

static struct heard open_and_hear(void)
{
	static const struct local_follower FOLLOWER = { .put = heard_put,
		                                        .remove = heard_put,
		                                        .damaged = heard_damaged,
		                                        .stated = heard_state };
	static struct heard h;
	h = (struct heard){ 0 };
	open_store();
	follow(&FOLLOWER, &h);
	return h;
}

static bool was_heard(const struct heard *h, const char *text)
{
	for (size_t i = 0; i < h->n; i++) {
		if (strstr(h->sentence[i], text))
			return true;
	}
	return false;
}

/* ---- rows -------------------------------------------------------------------------- */

/* A job named j<n> of user alice with a Secret, which runs. */
static void make_job(int n, int filler)
{
	char name[16];
	char body[8192];
	(void)snprintf(name, sizeof(name), "f%03d", n);
	(void)snprintf(body, sizeof(body),
	               "{\"apiVersion\":\"frameworkcontroller.microsoft.com/v1\",\"kind\":"
	               "\"Framework\",\"metadata\":{\"name\":\"%s\",\"labels\":{\"userName\":"
	               "\"alice\"},\"annotations\":{\"jobName\":\"j%d\"}},\"spec\":"
	               "{\"executionType\":\"Start\",\"x\":\"%0*d\"}}",
	               name, n, filler, 0);
	struct kept made = create(KIND_FRAMEWORK, name, body);
	assert_int_equal(made.status, 201);
	char secret[24];
	(void)snprintf(secret, sizeof(secret), "%s-s", name);
	assert_int_equal(create_owned(secret, made.uid).status, 201);
	const struct span status =
	    SPAN("{\"state\":\"AttemptRunning\",\"attemptStatus\":{\"id\":0}}");
	assert_int_equal(put_status(name, made.uid, status), STORE_OK);
}

static void damaged_is(const char *sql, const char *file, const char *end, bool known)
{
	make_job(1, 10);
	make_job(2, 10);
	close_store();
	stored(sql);
	struct heard h = open_and_hear();
	assert_int_equal(h.n, 1);
	assert_true(
	    was_heard(&h, " was damaged (it is not a valid object) and is now in damaged/"));
	assert_non_null(strstr(h.sentence[0], end));
	assert_true(file_exists(file));
	struct kept k = get_whole(store, KIND_FRAMEWORK, "f001");
	assert_int_equal(k.outcome, known ? STORE_OK : STORE_NOT_FOUND);
	if (known) {
		assert_non_null(strstr(k.body, "\"state\":\"Completed\""));
		assert_non_null(strstr(k.body, "ObjectDamaged"));
		assert_non_null(strstr(k.body, "; the tasks of this job were ended"));
		assert_non_null(strstr(k.body, "\"jobName\":\"j1\""));
	}
	k = get_whole(store, KIND_FRAMEWORK, "f002");
	assert_non_null(strstr(k.body, "AttemptRunning"));
	assert_int_equal(get(KIND_SECRET, "f002-s").outcome, STORE_OK);
}

TEST_WITH(test_damaged_framework_makes_its_job_fail, setup, teardown)
{
	damaged_is("UPDATE object SET body = substr(body, 2) WHERE name = 'f001'",
	           "damaged/frameworks-f001.json", "it is of job alice~j1, which has failed", true);
	assert_int_equal(get(KIND_SECRET, "f001-s").outcome, STORE_NOT_FOUND);
}

TEST_WITH(test_lost_status_makes_its_job_fail, setup, teardown)
{
	damaged_is("DELETE FROM status WHERE id = (SELECT id FROM object WHERE name = 'f001')",
	           "damaged/frameworks-f001.json", "it is of job alice~j1, which has failed", true);
}

TEST_WITH(test_damaged_framework_without_names_is_reported, setup, teardown)
{
	damaged_is("UPDATE object SET body = zeroblob(100) WHERE name = 'f001'",
	           "damaged/frameworks-f001.json", "the name of its job cannot be read", false);
}

TEST_WITH(test_damaged_secret_makes_its_job_fail, setup, teardown)
{
	damaged_is("UPDATE object SET body = 'x' WHERE name = 'f001-s'",
	           "damaged/secrets-f001-s.json", "it is of job alice~j1, which has failed", true);
}

TEST_WITH(test_earlier_damaged_texts_are_kept, setup, teardown)
{
	for (int i = 0; i < 2; i++) {
		assert_int_equal(create_secret("s").status, 201);
		close_store();
		stored("UPDATE object SET body = '{' WHERE name = 's'");
		struct heard h = open_and_hear();
		assert_true(was_heard(&h, "the name of its job cannot be read"));
		assert_int_equal(get(KIND_SECRET, "s").outcome, STORE_NOT_FOUND);
		assert_true(file_exists("damaged/secrets-s.json"));
		assert_int_equal(file_exists("damaged/secrets-s.json.1"), i == 1);
	}
}

/* ---- the database ------------------------------------------------------------------ */

static uint32_t next_number(uint32_t *seed)
{
	*seed = *seed * 1664525 + 1013904223;
	return *seed >> 8;
}

/* One byte, or one page. */
static void damage_copy(uint32_t seed)
{
	char path[256];
	unsigned char page[4096] = { 0 };
	(void)snprintf(path, sizeof(path), "%s/store.db", dir);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	off_t size = lseek(fd, 0, SEEK_END);
	off_t at = (off_t)(next_number(&seed) % (uint32_t)size);
	size_t n = 1;
	if (seed % 2) {
		assert_int_equal(pread(fd, page, 1, at), 1);
		page[0] ^= (unsigned char)(1 + next_number(&seed) % 255);
	} else {
		at -= at % 4096;
		n = sizeof(page);
		for (size_t i = 0; seed % 4 && i < n; i++)
			page[i] = (unsigned char)next_number(&seed);
	}
	assert_int_equal(pwrite(fd, page, n, at), n);
	assert_int_equal(close(fd), 0);
}

/* An object that is gone, or has failed, was named. */
static void check_copy(const struct heard *h, unsigned copy)
{
	for (int i = 0; i < 2 * JOBS; i++) {
		char name[16];
		bool secret = i % 2;
		(void)snprintf(name, sizeof(name), secret ? "f%03d-s" : "f%03d", i / 2);
		struct kept k = get_whole(store, secret ? KIND_SECRET : KIND_FRAMEWORK, name);
		/* Damage that leaves valid JSON is not noticed. */
		bool good = k.outcome == STORE_OK && !strstr(k.body, "ObjectDamaged") &&
		            (secret || strstr(k.body, "\"status\":{"));
		name[4] = '\0'; /* what depends on a job goes with it */
		char job[24];
		(void)snprintf(job, sizeof(job), "alice~j%d,", i / 2);
		if (!good && h->n < SENTENCES && !was_heard(h, name) && !was_heard(h, job))
			fail_msg("copy %u: %s is lost, and nobody was told; first of %zu: %s", copy,
			         name, h->n, h->sentence[0]);
	}
}

TEST_WITH(test_all_of_200_damaged_copies_can_be_opened, setup, teardown)
{
	unsigned noticed = 0;
	unsigned complete = 0;
	for (int i = 0; i < JOBS; i++)
		make_job(i, 700 + 50 * (i % 40));
	close_store();
	shell("cp -a %s %s/whole", dir, top);
	for (unsigned copy = 0; copy < 200; copy++) {
		shell("rm -rf %s && cp -a %s/whole %s", dir, top, dir);
		damage_copy(copy * 7919 + 1);
		struct heard h = open_and_hear();
		check_copy(&h, copy);
		noticed += h.n > 0;
		complete += h.puts == JOBS;
		/* It can be used, and is whole from now on. */
		assert_int_equal(create_secret("new").status, 201);
		close_store();
		h = open_and_hear();
		assert_int_equal(h.n, 0);
		assert_int_equal(get(KIND_SECRET, "new").outcome, STORE_OK);
		close_store();
	}
	print_message("noticed: %u, with all jobs: %u\n", noticed, complete);
	assert_in_range(noticed, 50, 200);
	open_store();
}

/* The page with the places of the tables is written again, also for a backup. */
TEST_WITH(test_lost_first_page_is_made_anew, setup, teardown)
{
	for (int i = 0; i < 2; i++) {
		char path[256];
		make_job(i, 2000);
		int copy = local_backup(local, -1, no_err());
		STR_AUTO text = STR_INIT(1 << 20);
		assert_int_equal(fd_read_all(copy, &text), 0);
		assert_int_equal(close(copy), 0);
		close_store();
		(void)snprintf(path, sizeof(path), "%s/store.db", dir);
		int fd = open(path, O_WRONLY | (i ? O_TRUNC : 0) | O_CLOEXEC);
		assert_int_equal(i ? fd_write_all(fd, str_view(&text)) : 0, 0);
		assert_int_equal(pwrite(fd, (char[4096]){ 0 }, 4096, 0), 4096);
		assert_int_equal(close(fd), 0);
		struct heard h = open_and_hear();
		assert_int_equal(h.n, 1);
		assert_int_equal(h.puts, i + 1);
		assert_int_equal(get(KIND_SECRET, "f000-s").outcome, STORE_OK);
	}
}

/* Its bytes say how to read the file, and all databases have the same, but for counts. */
TEST_WITH(test_each_damaged_byte_of_the_head_is_mended, setup, teardown)
{
	static const unsigned char FLIPS[] = { 0x01, 0x80, 0xff };
	for (int i = 0; i < 4; i++)
		make_job(i, 3000);
	close_store();
	shell("cp -a %s %s/whole", dir, top);
	for (off_t at = 0; at < 100; at++) {
		for (size_t i = 0; i < sizeof(FLIPS); i++) {
			char path[256];
			unsigned char byte;
			shell("rm -rf %s && cp -a %s/whole %s", dir, top, dir);
			(void)snprintf(path, sizeof(path), "%s/store.db", dir);
			int fd = open(path, O_RDWR | O_CLOEXEC);
			assert_int_equal(pread(fd, &byte, 1, at), 1);
			byte ^= FLIPS[i];
			assert_int_equal(pwrite(fd, &byte, 1, at), 1);
			assert_int_equal(close(fd), 0);
			struct heard h = open_and_hear();
			if (h.puts != 4)
				fail_msg("byte %d ^ %02x: %d jobs", (int)at, FLIPS[i], h.puts);
			assert_int_equal(get(KIND_SECRET, "f003-s").outcome, STORE_OK);
			close_store();
		}
	}
	open_store();
}

/* clang-format on */
