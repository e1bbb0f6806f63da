#pragma once
/* Files of the source tree.  Test programs run in its top folder. */
#include <jansson.h>

#include "base/str.h"

/* The bytes of a file; str_done.  Ends the program if it cannot be read. */
struct str file_load(const char *path);

/* A file of one JSON value per line, as a list; new reference.  Ends the program if it is none. */
json_t *jsonl_load(const char *path);

/* A JSON file; new reference.  Ends the program if it is none. */
json_t *json_load_path(const char *path);

/* Names of the .yaml and .json files of a folder, sorted, NULL-terminated; folder_free. */
char **folder_list(const char *dir);
void folder_free(char **names);
