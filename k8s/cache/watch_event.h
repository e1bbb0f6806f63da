#pragma once
/*
 * What an API server says of a collection: pages of a LIST, and events of a WATCH.  Found by
 * walking over the text, which must be JSON (scan_valid).  Pure; private to k8s/.
 */
#include "base/json/scan.h"
#include "base/str.h"

enum { VERSION_MAX = 64 }; /* bytes of a resourceVersion, with a NUL */

enum watch_what {
	WATCH_PUT,      /* ADDED, MODIFIED */
	WATCH_GONE,     /* DELETED */
	WATCH_BOOKMARK, /* all is known up to its version */
	WATCH_ERROR,    /* the watch is over; `code` says why */
	WATCH_NONE,     /* no event, or one that is not known */
	WATCH_WHAT_MAX
};

struct watch_event {
	enum watch_what what;
	struct span object;
	char version[VERSION_MAX]; /* "" if it has none */
	bool initial_end;          /* BOOKMARK: the end of the streaming list */
	int64_t code;              /* ERROR: status; 0 if it does not say */
};

/* One line, whole. */
struct watch_event watch_event_read(struct span line);
/* The same of the beginning of a line that was cut: its object is its watch_stub, in the
 * arena; WATCH_NONE if not even that is there. */
struct watch_event watch_event_read_cut(struct span line, struct arena *a);
/* An object with nothing but the metadata of this one, and a status that is none, so that nobody
 * takes it for one without; in the arena. */
struct span watch_stub(struct span object, struct arena *a);

struct list_page {
	struct span items; /* a list, or nothing */
	char version[VERSION_MAX];
	struct span more; /* the token by which it goes on; in the arena; empty at the end */
};
/* false: this is no list. */
bool list_page_read(struct span body, struct arena *a, struct list_page *out);

/* As a number, to tell what is newer; 0 if it is none. */
int64_t version_number(const char *version);

/*
 * What comes of a WATCH, cut into its lines.  Pure; private to k8s/.
 */
struct watch_lines {
	struct str carry; /* of a line that has not ended; its maximum is that of a line */
	bool cut;         /* the carry is full: what is left of the line is passed over */
};
#define WATCH_LINES_INIT(max) ((struct watch_lines){ .carry = STR_INIT(max) })

/* One line, without its newline; borrowed until it returns.  cut: it is longer than the maximum,
 * and this is how it begins. */
typedef void watch_line(void *arg, struct span line, bool cut);

/* Call for each line that ends in these bytes.  Empty lines are none. */
void watch_lines_take(struct watch_lines *l, struct span bytes, watch_line *each, void *arg);
/* The connection is gone, and with it the line that has not ended. */
void watch_lines_clear(struct watch_lines *l);
