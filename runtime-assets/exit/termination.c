/*
 * The termination message: YAML between two markers, as the REST server looks for it.  The kubelet
 * keeps the last 4096 bytes of the file, so that what is too long is cut here, with the least
 * useful first.  Texts are written in double quotes on one line, as libyaml would: then the size
 * of a text is the sum of the sizes of its characters, and cutting needs no trying.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/enc.h"
#include "runtime-assets/exit/exit_inner.h"
#include "runtime-assets/files.h"

#define MARKER "[PAI_RUNTIME_ERROR_"
#define START  MARKER "START]\n"
#define END    MARKER "END]"

/* ---- texts in double quotes ------------------------------------------------------------- */

/* Characters whose escape is one letter. */
static char short_escape(uint32_t r)
{
	static const struct {
		uint32_t rune;
		char letter;
	} ESCAPES[] = {
		{ '"', '"' },  { '\\', '\\' }, { '\n', 'n' },   { '\r', 'r' },   { '\t', 't' },
		{ '\a', 'a' }, { '\b', 'b' },  { '\v', 'v' },   { '\f', 'f' },   { 0x1B, 'e' },
		{ 0, '0' },    { 0x85, 'N' },  { 0x2028, 'L' }, { 0x2029, 'P' },
	};
	for (size_t i = 0; i < sizeof(ESCAPES) / sizeof(*ESCAPES); i++) {
		if (ESCAPES[i].rune == r)
			return ESCAPES[i].letter;
	}
	return 0;
}

/* The letter and the number of digits of an escape by number; 0: it stands as it is. */
static char number_escape(uint32_t r, int *digits)
{
	bool control = r < 0x20 || (r >= 0x7F && r < 0xA0);
	if (control) {
		*digits = 2;
		return 'x';
	}
	if (r == 0xFEFF || r == 0xFFFE || r == 0xFFFF) {
		*digits = 4;
		return 'u';
	}
	*digits = 8;
	return r > 0xFFFF ? 'U' : 0;
}

/* A character of a text, and how it is written. */
struct character {
	uint32_t rune;
	unsigned width; /* bytes in the text */
	char letter;    /* of the escape; 0: it stands as it is */
	int digits;     /* behind the letter */
};

/* The one at `at`.  A marker in a log would end the message where it stands, for those who look for
 * it: its first character is escaped. */
static struct character character_at(struct span text, size_t at)
{
	struct character c = { 0 };
	struct span rest = { text.p + at, text.n - at };
	c.rune = utf8_decode((const unsigned char *)rest.p, rest.n, &c.width);
	c.letter = short_escape(c.rune);
	if (c.letter)
		return c;
	c.letter = number_escape(c.rune, &c.digits);
	if (c.rune == '[' && span_starts(rest, MARKER)) {
		c.letter = 'x';
		c.digits = 2;
	}
	return c;
}

static size_t character_size(const struct character *c)
{
	return c->letter ? 2 + (size_t)c->digits : c->width;
}

size_t yaml_quoted_size(struct span text)
{
	size_t size = 0;
	struct character c;
	for (size_t i = 0; i < text.n; i += c.width) {
		c = character_at(text, i);
		size += character_size(&c);
	}
	return size;
}

void yaml_quoted(struct str *out, struct span text)
{
	static const char HEX[] = "0123456789ABCDEF";
	struct character c;
	str_char(out, '"');
	for (size_t i = 0; i < text.n; i += c.width) {
		c = character_at(text, i);
		if (!c.letter) {
			str_put(out, text.p + i, c.width);
			continue;
		}
		str_char(out, '\\');
		str_char(out, c.letter);
		while (c.digits-- > 0)
			str_char(out, HEX[(c.rune >> (4 * c.digits)) & 15]);
	}
	str_char(out, '"');
}

/* ---- what is left of each text ------------------------------------------------------------ */

/* All four uncut: each has its bounds, and a byte becomes four at most. */
enum { WHOLE_MAX = 4 * 2 * (EXCERPT_MAX + MATCHED_TEXT_MAX) + 1024 };

enum part_name { MATCHED_USER, MATCHED_PLATFORM, USER, PLATFORM, PARTS };

struct part {
	struct span text;
	bool there;
	size_t match; /* SIZE_MAX: it has none */
};

/* Bytes of the shortest beginning whose characters take `size` or more. */
static size_t head_of(struct span text, size_t size)
{
	size_t i = 0;
	size_t sum = 0;
	struct character c;
	for (; i < text.n && sum < size; i += c.width) {
		c = character_at(text, i);
		sum += character_size(&c);
	}
	return i;
}

/* Bytes that stay in front of the shortest end that takes `size` or more. */
static size_t without_tail(struct span text, size_t size)
{
	size_t i = text.n;
	size_t sum = 0;
	unsigned width;
	for (; i > 0 && sum < size; i -= width) {
		(void)utf8_decode_last((const unsigned char *)text.p, i, &width);
		struct character c = character_at(text, i - width);
		sum += character_size(&c);
	}
	return i;
}

static void cut_tail(struct part *p, size_t excess)
{
	p->text.n = without_tail(p->text, excess);
}

/* From the front, but not into the match: then from the end, too. */
static void cut_head(struct part *p, size_t excess)
{
	size_t head = head_of(p->text, excess);
	size_t rest = 0;
	if (p->match < head) {
		head = p->match;
		rest = excess - yaml_quoted_size((struct span){ p->text.p, head });
	}
	p->text.p += head;
	p->text.n -= head;
	if (rest > 0)
		cut_tail(p, rest);
}

static void write_all(const struct summary *s, const struct part *part, struct str *out)
{
	str_printf(out, START "exitCode: %lld\n", (long long)s->code);
	if (s->trigger) {
		str_puts(out, "trigger: ");
		yaml_quoted(out, span_of(s->trigger));
		str_puts(out, "\n");
	}
	str_printf(out, "originUserExitCode: %lld\n", (long long)s->user_code);
	if (s->rank >= 0)
		str_printf(out, "failedRank: %lld\n", (long long)s->rank);
	static const char *const KEYS[PARTS] = {
		"matchedUserLogString: ", "matchedPlatformLogString: ", "  user: ", "  platform: "
	};
	for (int i = 0; i < PARTS; i++) {
		if (i == USER && s->has_gpu)
			str_puts(out, s->gpu_ecc ? "matchedGpuInfo:\n  nvidiaDoubleEccError: true\n"
			                         : "matchedGpuInfo: {}\n");
		if (i == USER && (part[USER].there || part[PLATFORM].there))
			str_puts(out, "errorLogs:\n");
		if (!part[i].there)
			continue;
		str_puts(out, KEYS[i]);
		yaml_quoted(out, part[i].text);
		str_char(out, '\n');
	}
	str_puts(out, END);
}

static struct part part_of(const struct str *text, size_t match)
{
	return (struct part){ text ? str_view(text) : SPAN(""), text != NULL, match };
}

void summary_write(const struct summary *s, struct str *out)
{
	struct part part[PARTS] = {
		[MATCHED_USER] = part_of(s->matched_user, SIZE_MAX),
		[MATCHED_PLATFORM] = part_of(s->matched_platform, SIZE_MAX),
		[USER] = part_of(&s->user->text, s->user->match),
		[PLATFORM] = part_of(&s->platform->text, s->platform->match),
	};
	static const struct {
		enum part_name name;
		void (*cut)(struct part *p, size_t excess);
	} STEPS[] = {
		{ PLATFORM, cut_head },
		{ USER, cut_head },
		{ MATCHED_PLATFORM, cut_tail },
		{ MATCHED_USER, cut_tail },
	};
	STR_AUTO whole = STR_INIT(WHOLE_MAX);
	write_all(s, part, &whole);
	for (size_t i = 0; i < sizeof(STEPS) / sizeof(*STEPS) && whole.n > EXIT_MESSAGE_MAX; i++) {
		struct part *p = &part[STEPS[i].name];
		size_t excess = whole.n - EXIT_MESSAGE_MAX;
		if (!p->there)
			continue;
		if (yaml_quoted_size(p->text) <= excess)
			p->there = false;
		else
			STEPS[i].cut(p, excess);
		whole.n = 0;
		write_all(s, part, &whole);
	}
	str_span(out, str_view(&whole));
}

/* ---- the file ------------------------------------------------------------------------------- */

int exit_report(const char *path, struct span message, struct err *e)
{
	/* The kubelet mounts a file there, so it is written in place.  Anybody could have put
	 * something else there where it does not. */
	int flags = O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
	FD_AUTO fd = open(path, flags, 0644);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) != 0)
		return err_set(e, FAILED, "cannot write %s: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode) || st.st_nlink > 1)
		return err_set(e, FAILED, "cannot write %s: it is not a regular file of its own",
		               path);
	if (ftruncate(fd, 0) != 0 || fd_write_all(fd, message) != 0)
		return err_set(e, FAILED, "cannot write %s: %s", path, strerror(errno));
	return 0;
}
