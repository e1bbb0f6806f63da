#pragma once
/*
 * Small standard encodings.  All pure; no thread rule.  MD5 and base64 are our own, without a
 * library: pai-runtime is linked statically with musl, for which Debian has none, and both
 * programs shall name a Framework, and read a Secret, by the same code.
 */
#include "base/arena.h"
#include "base/str.h"

/* MD5 in lower-case hex, with its final NUL (names of Frameworks; not for security). */
void md5_hex(char out[static 33], struct span text);

/* Base64 with padding, RFC 4648 section 4. */
void str_base64(struct str *out, struct span bytes);
/* Back again, strictly; the bytes live in the arena.  0 or -1. */
int base64_decode(struct arena *a, struct span text, struct span *bytes);

/* n bytes as 2n lower-case hex digits and a NUL. */
void hex_encode(char *out, const void *bytes, size_t n);

/* The byte that stands at this offset as `%41`; -1 if none does. */
int percent_byte(struct span text, size_t at);

/* n random bytes, from the kernel.  Cannot fail, also where a sandbox refuses getrandom.  Any
 * thread. */
void random_bytes(void *p, size_t n);
/* At most 64 of them as 2n lower-case hex digits and a NUL. */
void random_hex(char *out, size_t n);

/* Overwrite memory so that no compiler removes it. */
void wipe(void *p, size_t n);
/* free and realloc for libraries that take such functions: what is given back is wiped. */
void free_wiped(void *p);
void *realloc_wiped(void *p, size_t n);

/* A number as ECMAScript writes it: shortest digits that read back to the same
 * double, no ".0", exponents as 1e-7 and 1e+21, NaN, Infinity.  Returns the
 * length; out is NUL-terminated. */
enum { NUMBER_MAX = 32 };
size_t number_text(char out[static NUMBER_MAX], double v);
void number_put(struct str *out, double v); /* the same */

/* First offset at which text is not UTF-8 (overlong, surrogates and above
 * U+10FFFF are not), or text.n if all of it is. */
size_t utf8_check(struct span text);
/* No control characters, Unicode line breaks, or marks that change the direction of text.  The
 * text is UTF-8. */
bool utf8_plain(struct span text);

/* The character at the start of n > 0 bytes, and how many of them it takes; U+FFFD and 1 byte where
 * there is no valid one. */
enum { UTF8_INVALID = 0xFFFD };
uint32_t utf8_decode(const unsigned char *p, size_t n, unsigned *width);
/* The same for the character at their end. */
uint32_t utf8_decode_last(const unsigned char *p, size_t n, unsigned *width);
