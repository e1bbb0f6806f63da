#pragma once
/* Of streams (stream.h), for those who end requests and loops. */
#include "server/http/stream.h"

/* r is over, and so is its stream, if it has one.  late: for its client took nothing for too long.
 */
void stream_gone(struct request *r, bool late);
/* Cut all of them: none sleeps afterwards, nor ever will. */
void streams_cut(struct loop *l);
/* Cut those of which clients have not taken the last words. */
void streams_cut_ended(struct loop *l);
