#pragma once
/* Files of the source tree.  Test programs run in its top folder. */
#include <jansson.h>

#include "base/str.h"

/* The bytes of a file; free() p.  Ends the program if it cannot be read. */
struct span file_load(const char *path);

/* A file of one JSON value per line, as a list; new reference.  Ends the program if it is none. */
json_t *jsonl_load(const char *path);

/* A JSON file; new reference.  Ends the program if it is none. */
json_t *json_load_path(const char *path);

/* Sorted names of the files in a folder that end in one of the suffixes; NULL-terminated list,
 * free each name and the list. */
char **folder_list(const char *dir, const char *const *suffixes);
void folder_free(char **names);
