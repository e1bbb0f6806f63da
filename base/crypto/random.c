/*
 * Random bytes from the kernel; see enc.h.
 *
 * Where getrandom is refused (a seccomp filter, a kernel before 3.17), /dev/urandom has them.  In a
 * root without /dev there are still the 16 bytes that the kernel gives every program that it starts
 * (AT_RANDOM): they are the key, and what is hashed never comes twice.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/crypto/hash.h"
#include "base/enc.h"

static ssize_t random_from_kernel(void *p, size_t n)
{
	ssize_t got = getrandom(p, n, 0);
	if (got > 0 || errno == EINTR)
		return got > 0 ? got : 0;
	int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat st;
	if (fd < 0)
		return -1;
	/* Not a file that an image has put there. */
	got = fstat(fd, &st) == 0 && S_ISCHR(st.st_mode) ? read(fd, p, n) : -1;
	close(fd);
	return got;
}

static void random_from_start(void *p, size_t n)
{
	static _Atomic unsigned long counter;
	struct hash_key key = { { 0, 0 } };
	const void *start =
	    (const void *)getauxval(AT_RANDOM); /* NOLINT(performance-no-int-to-ptr) */
	if (start)
		memcpy(&key, start, sizeof(key));
	for (size_t i = 0; i < n;) {
		struct {
			struct timespec now;
			unsigned long number;
			long pid;
		} once = { .number = ++counter, .pid = getpid() };
		(void)clock_gettime(CLOCK_REALTIME, &once.now); /* cannot fail */
		uint64_t word =
		    hash_bytes(&key, (struct span){ (const char *)&once, sizeof(once) });
		size_t part = n - i < sizeof(word) ? n - i : sizeof(word);
		memcpy((char *)p + i, &word, part);
		i += part;
	}
	wipe(&key, sizeof(key));
}

void random_bytes(void *p, size_t n)
{
	for (size_t i = 0; i < n;) {
		ssize_t got = random_from_kernel((char *)p + i, n - i);
		if (got < 0) {
			random_from_start((char *)p + i, n - i);
			return;
		}
		i += (size_t)got;
	}
}
