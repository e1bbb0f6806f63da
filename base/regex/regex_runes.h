#pragma once
/* Upper and lower case. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The next character that differs in its case only; itself if there is none. */
uint32_t fold_next(uint32_t rune);
/* Calls `each` for every character of lo..hi that has others of another case. */
void fold_each(uint32_t lo, uint32_t hi, void (*each)(void *self, uint32_t rune), void *self);
