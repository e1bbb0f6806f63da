/* The content of freed memory. */

#include "tests/unit/base/cmocka.h"
#include <fcntl.h>
#include <jansson.h>
#include <unistd.h>

#include "base/enc.h"
#include "server/config/system.h"

static const char MARKER[] = "hunter2-hunter2-hunter2";

/* Where the heap of this process is: memory that sanitizers hand out is elsewhere. */
static bool find_heap(off_t *from, off_t *to)
{
	char line[512];
	bool found = false;
	FILE *maps = fopen("/proc/self/maps", "r");
	assert_non_null(maps);
	while (!found && fgets(line, sizeof(line), maps)) {
		char *rest = NULL;
		*from = (off_t)strtoull(line, &rest, 16);
		*to = (off_t)strtoull(rest + 1, NULL, 16);
		found = strstr(line, "[heap]") != NULL;
	}
	(void)fclose(maps); /* was only read */
	if (!found)
		*from = *to = 0;
	return found;
}

static bool heap_holds(const char *text)
{
	static char part[1 << 16];
	off_t from = 0;
	off_t to = 0;
	bool found = false;
	int fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	(void)find_heap(&from, &to); /* there may be none */
	/* Parts overlap, so that none cuts the text in two. */
	for (; !found && from < to; from += (off_t)sizeof(part) / 2) {
		ssize_t n = pread(fd, part, sizeof(part), from);
		found = n > 0 && memmem(part, (size_t)n, text, strlen(text));
	}
	(void)close(fd); /* was only read */
	return found;
}

TEST(test_wipe_json_leaves_nothing)
{
	static char text[256];
	process_wipe_json();
	(void)snprintf(text, sizeof(text), "{\"a\": [\"%s\"], \"b %s\": 1}", MARKER, MARKER);
	json_t *j = json_loads(text, 0, NULL);
	assert_non_null(j);
	json_t *copy = json_deep_copy(j);
	char *dumped = json_dumps(copy, JSON_INDENT(1));
	memory_wipe(dumped, strlen(dumped));
	free(dumped);
	json_decref(copy);
	json_decref(j);
	assert_false(heap_holds(MARKER));
}
