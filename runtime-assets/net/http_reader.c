/* HTTP/1.1 replies; see http_reader.h.  A state is a function, which takes what it can of `in`. */
#include "runtime-assets/net/http_reader.h"

#include "base/str.h"

#include <strings.h>

enum {
	CHUNK_LINE_MAX = 256, /* the size, and extensions that nobody uses */
	CHUNK_DIGITS_MAX = 15 /* so that the size fits */
};

static const char NO_CR[] = "has a line that does not end in CR LF";
static const char LARGE[] = "has a body larger than is accepted here";

static void refuse(struct http_reader *r, int *trouble, int kind, const char *problem)
{
	r->problem = problem;
	*trouble = kind;
}

static void broken(struct http_reader *r, int *trouble, const char *problem)
{
	refuse(r, trouble, HTTP_BROKEN, problem);
}

static struct span take(struct span *in, size_t n)
{
	struct span taken = { in->p, n < in->n ? n : in->n };
	in->p += taken.n;
	in->n -= taken.n;
	return taken;
}

static void add_body(struct http_reader *r, struct span bytes, int *trouble)
{
	str_span(&r->body, bytes);
	if (r->body.full)
		refuse(r, trouble, HTTP_TOO_LARGE, LARGE);
}

/* ---- the body: by length, to the end, in chunks ---------------------------------------------- */

static void in_length(struct http_reader *r, struct span *in, int *trouble)
{
	struct span bytes = take(in, r->left);
	r->left -= bytes.n;
	add_body(r, bytes, trouble);
	r->done = r->left == 0;
}

static void until_close(struct http_reader *r, struct span *in, int *trouble)
{
	add_body(r, take(in, in->n), trouble);
}

static bool bare_end(struct span s)
{
	return s.n && s.p[s.n - 1] == '\n' && (s.n < 2 || s.p[s.n - 2] != '\r');
}

/* Take a line about chunks; the shortest chunks, of a byte, cost five more.  true once it is
 * complete, without its CR LF. */
static bool take_line(struct http_reader *r, struct span *in, int *trouble, struct span *line)
{
	while (in->n) {
		str_span(&r->line, take(in, 1));
		if (r->line.full || ++r->overhead > r->headers_max + 8 * r->body.n) {
			broken(r, trouble, "has too much between its chunks");
			return false;
		}
		if (r->line.p[r->line.n - 1] != '\n')
			continue;
		if (bare_end(str_view(&r->line))) {
			broken(r, trouble, NO_CR);
			return false;
		}
		*line = (struct span){ r->line.p, r->line.n - 2 };
		r->line.n = 0;
		return true;
	}
	return false;
}

static void in_trailer(struct http_reader *r, struct span *in, int *trouble)
{
	struct span line;
	if (take_line(r, in, trouble, &line))
		r->done = line.n == 0;
}

static void at_chunk(struct http_reader *r, struct span *in, int *trouble);

static void behind_chunk(struct http_reader *r, struct span *in, int *trouble)
{
	struct span line;
	if (!take_line(r, in, trouble, &line))
		return;
	if (line.n)
		broken(r, trouble, "has a chunk that is longer than it says");
	r->next = at_chunk;
}

static void in_chunk(struct http_reader *r, struct span *in, int *trouble)
{
	struct span bytes = take(in, r->left);
	r->left -= bytes.n;
	add_body(r, bytes, trouble);
	if (r->left == 0)
		r->next = behind_chunk;
}

static void at_chunk(struct http_reader *r, struct span *in, int *trouble)
{
	struct span line;
	if (!take_line(r, in, trouble, &line))
		return;
	size_t digits = 0;
	r->left = 0;
	while (digits < line.n && hex_value(line.p[digits]) >= 0)
		r->left = r->left << 4 | (uint64_t)hex_value(line.p[digits++]);
	bool ended = digits == line.n || line.p[digits] == ';' || line.p[digits] == ' ';
	if (digits == 0 || digits > CHUNK_DIGITS_MAX || !ended) {
		broken(r, trouble, "has a chunk without a size");
	} else if (r->left > r->body.max - r->body.n) {
		refuse(r, trouble, HTTP_TOO_LARGE, LARGE);
	} else {
		r->next = r->left ? in_chunk : in_trailer;
	}
}

/* ---- the head ---------------------------------------------------------------------------------
 */

bool http_is_token(struct span text)
{
	for (size_t i = 0; i < text.n; i++) {
		char c = text.p[i];
		bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
		bool digit = c >= '0' && c <= '9';
		if (!letter && !digit && (c == '\0' || !strchr("!#$%&'*+-.^_`|~", c)))
			return false;
	}
	return text.n > 0;
}

/* The next line, without its CR LF. */
static struct span next_line(struct span *lines)
{
	size_t n = span_find(*lines, 0, "\r\n");
	if (n == SIZE_MAX)
		n = lines->n;
	struct span line = take(lines, n);
	(void)take(lines, 2);
	return line;
}

static struct span trim_blanks(struct span s)
{
	while (s.n && (s.p[0] == ' ' || s.p[0] == '\t'))
		(void)take(&s, 1);
	while (s.n && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t'))
		s.n--;
	return s;
}

/* Name and value of a line; the name is empty if there is no colon. */
static struct span split_line(struct span line, struct span *name)
{
	const char *colon = line.n ? memchr(line.p, ':', line.n) : NULL;
	*name = (struct span){ line.p, colon ? (size_t)(colon - line.p) : 0 };
	if (!colon)
		return (struct span){ NULL, 0 };
	return trim_blanks((struct span){ colon + 1, line.n - name->n - 1 });
}

static bool same_name(struct span a, const char *b)
{
	return a.n == strlen(b) && strncasecmp(a.p, b, a.n) == 0;
}

struct span http_lines_find(struct span lines, const char *name, unsigned nth)
{
	while (lines.n) {
		struct span is;
		struct span value = split_line(next_line(&lines), &is);
		if (same_name(is, name) && nth-- == 0)
			return value;
	}
	return (struct span){ NULL, 0 };
}

/* No control characters but tab, no CR or LF alone, and every line a name and a value. */
static const char *lines_problem(struct span lines)
{
	while (lines.n) {
		struct span name;
		struct span line = next_line(&lines);
		(void)split_line(line, &name);
		if (!http_is_token(name))
			return "has a header that is none";
		for (size_t i = 0; i < line.n; i++) {
			unsigned char c = (unsigned char)line.p[i];
			if ((c < ' ' && c != '\t') || c == 0x7f)
				return "has control characters in its headers";
		}
	}
	return NULL;
}

static bool digits_at(struct span s, size_t from, size_t n)
{
	for (size_t i = from; i < from + n; i++) {
		if (i >= s.n || s.p[i] < '0' || s.p[i] > '9')
			return false;
	}
	return true;
}

/* HTTP/1.1 200 OK; the status, or 0. */
static int status_of(struct span line)
{
	bool ok = (span_starts(line, "HTTP/1.1 ") || span_starts(line, "HTTP/1.0 ")) &&
	          digits_at(line, 9, 3) && (line.n == 12 || line.p[12] == ' ');
	if (!ok)
		return 0;
	int status = (line.p[9] - '0') * 100 + (line.p[10] - '0') * 10 + line.p[11] - '0';
	return status >= 100 && status <= 599 ? status : 0;
}

/* 0 no length, 1 a length, -1 nonsense: no number, or two different ones. */
static int length_of(struct span lines, uint64_t *length)
{
	struct span first = http_lines_find(lines, "Content-Length", 0);
	struct span more = first;
	int64_t n = 0;
	if (!first.p)
		return 0;
	for (unsigned i = 1; more.p; i++) {
		if (!span_eq(first, more))
			return -1;
		more = http_lines_find(lines, "Content-Length", i);
	}
	if (!digits_at(first, 0, first.n) || parse_i64(first, 0, INT64_MAX, &n) != 0)
		return -1;
	*length = (uint64_t)n;
	return 1;
}

/* How long is the body?  RFC 9112, section 6.3. */
static void choose_body(struct http_reader *r, int *trouble)
{
	struct span lines = str_view(&r->head);
	struct span coding = http_lines_find(lines, "Transfer-Encoding", 0);
	struct span content = http_lines_find(lines, "Content-Encoding", 0);
	int has_length = length_of(lines, &r->left);
	if (has_length < 0)
		return broken(r, trouble, "has a Content-Length that is no number, or two");
	if (coding.p && has_length)
		return broken(r, trouble, "says two lengths: one in bytes, and chunks");
	if (r->without_body || r->status == 204 || r->status == 304) {
		r->done = true;
		return;
	}
	if (content.p && !same_name(content, "identity"))
		return broken(r, trouble, "is compressed, which was not asked for");
	if (coding.p) {
		if (!same_name(coding, "chunked") ||
		    http_lines_find(lines, "Transfer-Encoding", 1).p)
			return broken(r, trouble, "has a Transfer-Encoding other than chunked");
		r->next = at_chunk;
	} else if (!has_length) {
		r->next = until_close;
	} else if (r->left > r->body.max) {
		refuse(r, trouble, HTTP_TOO_LARGE, LARGE);
	} else {
		r->next = in_length;
		r->done = r->left == 0;
	}
}

static void cut_front(struct str *s, size_t n)
{
	memmove(s->p, s->p + n, s->n - n);
	s->n -= n;
	s->p[s->n] = '\0';
}

static void read_head(struct http_reader *r, int *trouble)
{
	struct span lines = str_view(&r->head);
	struct span first = next_line(&lines);
	lines.n -= 2; /* the empty line at the end */
	r->status = status_of(first);
	if (r->status == 0)
		return broken(r, trouble, "does not begin as HTTP/1.1 does");
	r->problem = lines_problem(lines);
	if (r->problem)
		return broken(r, trouble, r->problem);
	if (r->status == 101)
		return broken(r, trouble, "changes to another protocol, which was not asked for");
	if (r->status < 200) {
		r->overhead += r->head.n;
		r->head.n = 0; /* the real one is still to come */
		return;
	}
	r->head.n -= 2;
	cut_front(&r->head, first.n + 2);
	choose_body(r, trouble);
}

/* Is that still how a reply begins?  So that whoever speaks something else is found out at once. */
static bool begins_well(struct span head)
{
	static const char START[] = "HTTP/1.";
	size_t n = head.n < sizeof(START) - 1 ? head.n : sizeof(START) - 1;
	return memcmp(head.p, START, n) == 0;
}

static bool head_ended(struct span head)
{
	return head.n >= 4 && memcmp(head.p + head.n - 4, "\r\n\r\n", 4) == 0;
}

static void in_head(struct http_reader *r, struct span *in, int *trouble)
{
	while (in->n) {
		str_span(&r->head, take(in, 1));
		struct span head = str_view(&r->head);
		if (r->head.full || head.n + r->overhead > r->headers_max)
			return refuse(r, trouble, HTTP_TOO_LARGE,
			              "has more headers than are accepted here");
		if (!begins_well(head))
			return broken(r, trouble, "does not begin as HTTP/1.1 does");
		if (bare_end(head))
			return broken(r, trouble, NO_CR);
		if (head_ended(head))
			return read_head(r, trouble);
	}
}

/* ---- the door
 * ------------------------------------------------------------------------------------ */

void http_reader_init(struct http_reader *r, const char *method, size_t headers_max,
                      size_t body_max)
{
	*r = (struct http_reader){
		.head = STR_SECRET(headers_max),
		.body = STR_SECRET(body_max),
		.line = STR_INIT(CHUNK_LINE_MAX),
		.headers_max = headers_max,
		.without_body = strcmp(method, "HEAD") == 0,
		.next = in_head,
	};
}

int http_reader_push(struct http_reader *r, struct span bytes)
{
	int trouble = 0;
	while (bytes.n && !r->done && trouble == 0)
		r->next(r, &bytes, &trouble);
	return trouble;
}

int http_reader_end(struct http_reader *r)
{
	r->done = r->done || r->next == until_close;
	if (r->done)
		return 0;
	r->problem = r->head.n || r->next != in_head ? "ends in the middle" : "is empty";
	return HTTP_BROKEN;
}

void http_reader_done(struct http_reader *r)
{
	str_done(&r->head);
	str_done(&r->body);
	str_done(&r->line);
}
