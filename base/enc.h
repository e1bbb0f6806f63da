#pragma once
/*
 * Small standard encodings, random bytes and wiping of memory.
 *
 *	char name[33];
 *	md5_hex(name, SPAN("alice~mnist"));
 *	struct span bytes;
 *	if (base64_decode(a, text, &bytes) < 0)
 *		return err_set(e, INVALID_PARAMETERS, "is not base64");
 *
 * Results live in the caller's buffer or arena.  Pure, except for the random bytes.  MD5 and base64
 * are implemented here because pai-runtime is linked statically with musl, for which Debian has no
 * library, and because both programs must use the same code.
 *
 * Thread: any
 */
#include "base/arena.h"
#include "base/str.h"

/* MD5 in lower-case hex, NUL-terminated (names of Frameworks; not for security). */
void md5_hex(char out[static 33], struct span text);
void md5_bytes(unsigned char out[static 16], struct span text);

/* Base64 with padding, RFC 4648 section 4. */
void str_base64(struct str *out, struct span bytes);
/* Decodes strictly; the bytes live in the arena.  0 or -1. */
int base64_decode(struct arena *a, struct span text, struct span *bytes);
/* The same for unpadded base64url. */
int base64url_decode(struct arena *a, struct span text, struct span *bytes);

/* n bytes as 2n lower-case hex digits and a NUL. */
void hex_encode(char *out, const void *bytes, size_t n);
/* The end of the number of JSON that begins at p; NULL if none does. */
const char *json_number_end(const char *p, const char *end);
/* The character of an escape of JSON, whose backslash is at *at, which moves behind it, or behind
 * both `\uXXXX` of a surrogate pair. */
enum { ESCAPE_UNKNOWN = -1, ESCAPE_NO_DIGITS = -2, ESCAPE_HALF_PAIR = -3 };
int json_escaped(struct span text, size_t *at);
/* The byte that is encoded as `%41` at this offset, or -1. */
int percent_byte(struct span text, size_t at);

/* n random bytes from the kernel.  Cannot fail, even in a sandbox that refuses getrandom.  Any
 * thread. */
void random_bytes(void *p, size_t n);
/* n <= 64 random bytes as 2n lower-case hex digits and a NUL. */
void random_hex(char *out, size_t n);
/* A random UUID (version 4) as text. */
enum { UUID_TEXT = 37 };
void random_uuid(char out[static UUID_TEXT]);

/* Appends the text as one word in single quotes, for bash, dash and busybox sh. */
void shell_word(struct str *out, struct span text);

/* Overwrites memory; the compiler cannot remove this. */
void memory_wipe(void *p, size_t n);
/* free and realloc that wipe what they release, for libraries that accept such functions. */
void free_wiped(void *p);
void *realloc_wiped(void *p, size_t n);

/* A number as ECMAScript writes it: the shortest digits that read back to the same double, no
 * ".0", exponents as 1e-7 and 1e+21, NaN, Infinity.  Returns the length; out is NUL-terminated. */
enum { NUMBER_MAX = 32 };
size_t number_text(char out[static NUMBER_MAX], double v);
/* The same, appended. */
void number_put(struct str *out, double v);

/* Offset of the first byte that is not valid UTF-8 (overlong forms, surrogates and characters above
 * U+10FFFF are invalid), or text.n. */
size_t utf8_check(struct span text);
/* The character at the start of n > 0 bytes, and its length in bytes; U+FFFD and 1 if the bytes are
 * not a valid character. */
enum { UTF8_INVALID = 0xFFFD };
uint32_t utf8_decode(const unsigned char *p, size_t n, unsigned *width);
/* The same for the character at the end of the bytes. */
uint32_t utf8_decode_last(const unsigned char *p, size_t n, unsigned *width);
/* Writes a character, at most 4 bytes without a NUL; returns its length. */
size_t utf8_put(char *out, uint32_t c);
/* A control character, a line break of Unicode, or a mark that changes the direction of text. */
bool utf8_is_control(uint32_t c);
/* The text has no such character. */
bool utf8_plain(struct span text);
