#pragma once
/*
 * The parts of a submission: submission.c has the way forward and the table of what to do when,
 * submission_send.c the requests, submission_undo.c the way back.  Private to these three.
 */
#include "k8s/submit/submission.h"

enum {
	SETTLE_MS = 5000, /* after the deadline, to find out or to clean up */
	PAUSE_MS = 500,   /* between two looks */
	UID_ROOM = 64,
};

enum phase {
	MAKING,    /* POST of the object of this step */
	COMPARING, /* GET: is the one that is there ours? */
	REPLACING, /* DELETE of what an older job of this name has left */
	STARTING,  /* PATCH of the Framework to Start */
	CHECKING, /* GET: is the Framework still ours that did not start, as far as one can tell? */
	UNDOING,  /* DELETE of something that was made */
	SEEKING,  /* GET, while undoing: was it made, and what is its uid? */
	PHASE_MAX
};

/* What is known of the object of a step. */
struct made {
	char uid[UID_ROOM];     /* "" if it was not made, or may have been */
	bool lost;              /* its POST was sent and not answered, and not settled since */
	char version[UID_ROOM]; /* with which it is to be removed; "": with any */
};

struct submission {
	struct store *store;
	const struct objects *objects;
	const struct submission_options *opt;
	submission_callback *done;
	void *arg;

	enum phase phase;
	size_t step;                      /* 0: the Framework; i: objects->v[i - 1] */
	struct made *made;                /* by step */
	struct store_request request;     /* the one under way */
	struct str patch;                 /* its body; empty before the first PATCH */
	struct str old_uid;               /* or the uid in it, when replacing */
	unsigned tries, internal, absent; /* of this step: POSTs; answers 500; "not there" */
	bool met;                         /* of this step: a POST was answered 409 */
	unsigned conflicts, strange;      /* answers to the PATCH: 409; 200, but not started */
	int64_t collector_ms;             /* wait for the garbage collector till then; 0: not yet */
	int64_t give_up_ms;               /* of settling and undoing */
	bool left_behind;                 /* undoing failed */
	bool again;                       /* nothing was made: it had gone well before */
	struct err e;                     /* why it is undone */
};

/* What a store answered in a phase is given to one of these. */
typedef void submission_step(struct submission *b, const struct store_reply *reply);

/* ---- requests, about the object of the current step; submission_send.c ---------------- */

const struct object *submission_object(const struct submission *b);
void submission_post(struct submission *b, int64_t not_before_ms);
void submission_get(struct submission *b, enum phase phase, int64_t not_before_ms);
void submission_replace(struct submission *b); /* DELETE of b->old_uid */
void submission_remove(struct submission *b);  /* DELETE of what was made in this step */
/* Goes back to the Framework, and starts it. */
void submission_patch(struct submission *b, int64_t not_before_ms);
/* The end: calls back with b->e, and frees b. */
void submission_finish(struct submission *b);

/* ---- the way back; submission_undo.c -------------------------------------------------- */

/* Remove what was made, then finish.  b->e says why. */
void submission_roll_back(struct submission *b);
submission_step submission_undone, submission_not_undone, submission_in_the_way, submission_sought;

/* The answer of a store to whatever is under way; submission.c. */
store_callback submission_on_reply;
