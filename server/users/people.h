#pragma once
/* What people.c and groups.c share. */
#include "server/http/request.h"

/* Send the list or object that the reply's body holds; 500 if it did not fit. */
void people_send(struct request *r);
/* Are there accounts to ask?  Else the request is answered: the loop may be on its way out. */
bool people_ready(struct request *r);

/* groups.c: the virtual clusters that an account may use, for being shown; NULL: those that there
 * are.  How many; *out lives in the request's arena. */
size_t clusters_of(struct request *r, const struct account *a, struct span **out);
