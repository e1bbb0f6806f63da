#pragma once
/*
 * Trees of files that jobs or images have made, and that may be hostile: links are never followed,
 * depth and number of entries do not matter.
 *
 * Thread: any
 */
#include <stddef.h>

/*
 * Removes a file or a directory with all below it, also directories without permissions; at most
 * `budget` entries in this call, which bounds its time (some microseconds each).  0: it is gone, or
 * was not there; 1: the budget is used up, call again; -1 and errno.
 */
int tree_remove(int dirfd, const char *name, size_t budget);
