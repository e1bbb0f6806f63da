#pragma once
/* Shared by the files of k8s/watch/: the messages of LIST and WATCH, and the decisions of a
 * reflector. */
#include "base/json/scan.h"
#include "base/str.h"

/* ---- watch.c: the messages; texts must pass scan_valid.  Pure ---- */

enum { VERSION_MAX = 64 }; /* bytes of a resourceVersion, with a NUL */

enum watch_what {
	WATCH_PUT,      /* ADDED, MODIFIED */
	WATCH_GONE,     /* DELETED */
	WATCH_BOOKMARK, /* everything up to its version was sent */
	WATCH_ERROR,    /* ends the watch; `code` is the reason */
	WATCH_NONE,     /* not a known event */
	WATCH_WHAT_MAX
};

struct watch_event {
	enum watch_what what;
	struct span object;        /* may have text after its end, if it is not the last member */
	char version[VERSION_MAX]; /* "" if it has none */
	bool initial_end;          /* BOOKMARK: the end of the streaming list */
	int64_t code;              /* ERROR: HTTP status; 0 if missing */
};

/* Reads one whole line. */
struct watch_event watch_event_read(struct span line);
/* The beginning of a line that was too long: its object is its watch_stub, in the arena;
 * WATCH_NONE without a stub. */
struct watch_event watch_event_read_cut(struct span line, struct arena *a);
/* An object with the metadata of this one and an invalid status, so that the job counts as broken;
 * in the arena. */
struct span watch_stub(struct span object, struct arena *a);

/* The version as a number, for comparisons; 0 if it is not a number. */
int64_t version_number(const char *version);

/* The bytes of a WATCH, cut into lines. */
struct watch_lines {
	struct str carry; /* an unfinished line; its maximum is that of a line */
	bool cut;         /* the line is too long: its rest is skipped */
};
#define WATCH_LINES_INIT(max) ((struct watch_lines){ .carry = STR_INIT(max) })

/* One line without its newline; borrowed.  cut: the line was too long, this is its beginning. */
typedef void watch_line(void *arg, struct span line, bool cut);

/* Calls `each` for each non-empty line that ends in these bytes. */
void watch_lines_take(struct watch_lines *l, struct span bytes, watch_line *each, void *arg);
/* Discard the unfinished line, when the connection has ended. */
void watch_lines_clear(struct watch_lines *l);

/* The end of a page of a LIST. */
struct list_page {
	char version[VERSION_MAX];
	struct span more; /* metadata.continue; empty at the end */
};

enum list_place {
	LIST_OPEN,
	LIST_FIRST_KEY,
	LIST_KEY,
	LIST_COLON,
	LIST_VALUE,
	LIST_COMMA,
	LIST_FIRST_ITEM,
	LIST_ITEM,
	LIST_ITEM_COMMA,
	LIST_WHOLE,
	LIST_BAD,
	LIST_PLACES
};

/* The bytes of a page of a LIST, cut into items. */
struct list_lines {
	struct watch_lines value; /* an unfinished item, or member beside `items` */
	struct scan_tail tail;    /* of it */
	enum list_place place;
	bool inside;          /* of a value */
	bool items, metadata; /* these keys have come */
	size_t key;           /* of the member: the place in its table */
	struct list_page page;
	struct arena arena; /* page.more */
	watch_line *each;
	void *arg;
};

/* max: bytes of an item or another value.  each: gets the items; whole ones are valid JSON, cut
 * ones are the beginnings of items that were too long. */
void list_lines_init(struct list_lines *l, size_t max, watch_line *each, void *arg);
/* Calls `each` for each item that ends in these bytes.  false: this is not a list. */
bool list_lines_take(struct list_lines *l, struct span bytes);
/* The page, if all of it has come; borrowed from *l.  NULL: it is not a whole list. */
const struct list_page *list_lines_end(const struct list_lines *l);
void list_lines_done(struct list_lines *l);

/* ---- watch.c: the next request of a reflector, and its time.  Pure, except for jitter ---- */

enum {
	REFLECT_PAUSE_MS = 1000, /* after the first failure; doubled after each further one */
	REFLECT_PAUSE_MAX_MS = 60000,
	REFLECT_WATCH_MIN_S = 240, /* timeoutSeconds of a watch is between these, so that not */
	REFLECT_WATCH_MAX_S = 480, /* all watches of a cluster end at once */
};

enum reflect_ask {
	ASK_STREAM, /* WATCH with sendInitialEvents (1.32, 1.34 and later) */
	ASK_LIST,   /* a page of a LIST */
	ASK_WATCH,  /* WATCH from a version */
	ASK_MAX
};

/* The end of an exchange. */
enum reflect_fault {
	FAULT_NONE,      /* events came, then it ended normally */
	FAULT_EXPIRED,   /* 410: the version is too old */
	FAULT_NO_STREAM, /* 422 or 400 to a streaming list, or it ended early */
	FAULT_TOO_LARGE, /* a page */
	FAULT_REFUSED,   /* refused, perhaps at this version only */
	FAULT_LATER,     /* 401, 403, 429, 502, 503; lost before the first event */
	FAULT_AWAY,      /* no connection, or no answer */
	FAULT_MAX
};

struct reflect {
	bool lists_only;           /* this server has no streaming lists */
	char version[VERSION_MAX]; /* everything up to it is known; "": a list is needed */
	struct str more;           /* within a list: metadata.continue; str_done at the end */
	size_t page, limit;        /* objects per page: configured, and current */
	unsigned failures;         /* in a row */
	unsigned lists;            /* begun since a watch last lasted: its owner sets 0 */
	bool events;               /* of a watch have come since events_ms */
	int64_t events_ms;         /* the last time at which reflect_rest_ms found some */
};

enum { REFLECT_TOKEN_MAX = 8192 };
#define REFLECT_INIT(objects)                                                                      \
	((struct reflect){                                                                         \
	    .more = STR_INIT(REFLECT_TOKEN_MAX), .page = (objects), .limit = (objects) })
enum reflect_ask reflect_ask(const struct reflect *s);
/* Appends the query of the next request: "watch=true&...".  selector: appended to it, or NULL. */
void reflect_query(const struct reflect *s, const char *selector, unsigned watch_s,
                   struct str *out);
/* A page was received completely.  true: it was the last one. */
bool reflect_page(struct reflect *s, const struct list_page *page);
/* Notes that everything up to this version is known ("": unknown). */
void reflect_note_version(struct reflect *s, const char *version);
/* Returns the milliseconds to sleep, so that events in quick succession are received together (a
 * wake-up takes longer than the processing of an event); else 0.  Call it after each round. */
int64_t reflect_rest_ms(struct reflect *s, int64_t now_ms);
/* The fault for an error status in answer to this request. */
enum reflect_fault reflect_status(enum reflect_ask asked, int64_t status);
/* An exchange is over; milliseconds to wait before the next one. */
int64_t reflect_end(struct reflect *s, enum reflect_fault fault, int retry_after_s);
/* Milliseconds after so many failures in a row, give or take a quarter; at least retry_after_s. */
int64_t reflect_pause_ms(unsigned failures, int retry_after_s);
