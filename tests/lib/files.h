#pragma once
/* Files of the source tree.  The working directory of test programs is its top folder. */
#include <jansson.h>

#include "base/str.h"

/* The bytes of a file; str_done.  Ends the program if it cannot be read. */
struct str file_load(const char *path);

/* The values of a JSON Lines file as a list; new reference.  Ends the program if it is invalid. */
json_t *jsonl_load(const char *path);

/* A JSON file; new reference.  Ends the program if it is invalid. */
json_t *json_load_path(const char *path);

/* Names of the .yaml and .json files of a folder, sorted, NULL-terminated; folder_free. */
char **folder_list(const char *dir);
void folder_free(char **names);
