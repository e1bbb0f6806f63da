#pragma once
/*
 * A session in a task: what the client, the server and pai-runtime say to each other.
 *
 * The server starts `pai-runtime shim --enter DIR`, the helper, with the request (enum
 * session_list) as descriptor 3, and passes on what the client and the helper write: frames, of a
 * byte of channel (as v5.channel.k8s.io numbers them), three bytes of length, and so many bytes.
 * The first frame of the helper, which the server itself reads, is a status: "0" and the session
 * has begun, else the HTTP status of the refusal, a blank and a sentence.  Its last frame is a
 * status, too.
 *
 * A frame without bytes is a heartbeat.  Both ends send one every SESSION_BEAT_MS, and end the
 * session after SESSION_SILENCE_MS without a frame.
 *
 * Thread: any
 */
#include "base/lists.h"
#include "base/str.h"

enum session_channel {
	SESSION_IN,         /* input of the command */
	SESSION_OUT,        /* its output */
	SESSION_ERR,        /* standard error, unless there is a terminal */
	SESSION_STATUS,     /* "CODE": the exit status; "125 TEXT": there is none */
	SESSION_SIZE,       /* "ROWS COLUMNS" of the terminal */
	SESSION_CLOSE = 255 /* the input has ended */
};

enum {
	SESSION_HEAD = 4,        /* bytes of the head of a frame */
	SESSION_DATA = 64 << 10, /* bytes of a frame that is sent, at most */
	SESSION_TEXT = 4096,     /* bytes of a frame of other channels, at most */
	SESSION_BEAT_MS = 15000,
	SESSION_SILENCE_MS = 3 * SESSION_BEAT_MS,
	SESSION_FIRST_MS = 5000, /* to the first frame of the client */
	SESSION_REQUEST_FD = 3
};

/* The request, a document of lists.h. */
enum session_list { SESSION_COMMAND /* empty: a shell */, SESSION_HOW, SESSION_LISTS };
enum session_how {
	SESSION_TERM,    /* TERM of the terminal; "": there is none */
	SESSION_SIZE_AT, /* its first size, as in SESSION_SIZE */
	SESSION_PORT,    /* connects to it, instead of a command; "0": lists the ports; "": not */
	SESSION_HOWS
};

/* Writes the head of a frame.  n: below 1 << 24. */
void session_head(char out[static SESSION_HEAD], enum session_channel channel, size_t n);
/* Appends a frame. */
void session_put(struct str *out, enum session_channel channel, struct span text);

/* Reads frames from pieces of any length; zeros at first. */
struct session_reader {
	unsigned char head[SESSION_HEAD];
	size_t have; /* bytes of the head */
	size_t left; /* bytes of the frame that are still to come */
	char text[SESSION_TEXT];
	size_t text_n;
};

enum session_got {
	SESSION_MORE,  /* the piece is used up */
	SESSION_PART,  /* *part: the next bytes of IN, OUT or ERR */
	SESSION_WHOLE, /* *part: a whole frame of another channel; borrowed until the next call */
	SESSION_EMPTY, /* a heartbeat */
	SESSION_BAD    /* an unknown channel, or too many bytes for it */
};
/* Takes the next frame, or a part of it, from *piece. */
enum session_got session_read(struct session_reader *r, struct span *piece,
                              enum session_channel *channel, struct span *part);
/* The numbers of SESSION_SIZE, from 1 to 10000; false: others. */
bool session_size(struct span text, unsigned short *rows, unsigned short *columns);
