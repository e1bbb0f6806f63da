/* Label selectors; see local_internal.h. */
#include "machine/store/local_internal.h"

#include "base/enc.h"
#include "base/json/scan.h"

/* Percent-decodes into selector.text. */
static int selector_decode(struct selector *s, struct span from)
{
	size_t n = 0;
	for (size_t i = 0; i < from.n; i++) {
		int c = (unsigned char)from.p[i];
		if (c == '%') {
			c = percent_byte(from, i);
			i += 2;
		}
		if (c <= 0 || n + 1 == sizeof(s->text))
			return -1;
		s->text[n++] = (char)c;
	}
	s->text[n] = '\0';
	return 0;
}

/* Only characters of label keys and values; others belong to unsupported operators. */
static bool selector_is_plain(const char *text)
{
	return strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	                    "._-/") == strlen(text);
}

/* Cuts the next piece off *rest, at `separator`; NULL at the end. */
static char *next_piece(char **rest, char separator)
{
	char *piece = *rest;
	if (piece == NULL)
		return NULL;
	char *end = strchr(piece, separator);
	if (end != NULL)
		*end++ = '\0';
	*rest = end;
	return piece;
}

static int read_terms(struct selector *s)
{
	char *rest = s->text;
	char *piece;
	while ((piece = next_piece(&rest, ',')) != NULL) {
		char *value = piece;
		char *key = next_piece(&value, '=');
		if (s->n == SELECTOR_TERMS || key[0] == '\0' || !selector_is_plain(key) ||
		    (value != NULL && !selector_is_plain(value)))
			return -1;
		s->term[s->n++] = (struct selector_term){ key, value };
	}
	return 0;
}

static int read_parameter(struct selector *s, struct span parameter)
{
	static const char *const PASSED_OVER[] = { "limit=", "continue=", "resourceVersion=" };
	static const char LABELS[] = "labelSelector=";
	for (size_t i = 0; i < ARRAY_SIZE(PASSED_OVER); i++) {
		if (span_starts(parameter, PASSED_OVER[i]))
			return 0;
	}
	if (!span_starts(parameter, LABELS) || s->n > 0)
		return -1;
	parameter.p += sizeof(LABELS) - 1;
	parameter.n -= sizeof(LABELS) - 1;
	return selector_decode(s, parameter) == 0 ? read_terms(s) : -1;
}

int selector_read(struct selector *s, const char *query)
{
	s->n = 0;
	while (query != NULL && *query != '\0') {
		const char *end = strchrnul(query, '&');
		if (read_parameter(s, (struct span){ query, (size_t)(end - query) }) != 0)
			return -1;
		query = *end == '&' ? end + 1 : end;
	}
	return 0;
}

bool selector_fits(const struct selector *s, struct span labels)
{
	ARENA_AUTO a = { 0 };
	for (size_t i = 0; i < s->n; i++) {
		struct span is = { NULL, 0 };
		if (!scan_string(scan_get(labels, s->term[i].key), &a, &is) ||
		    (s->term[i].value && !span_is(is, s->term[i].value)))
			return false;
	}
	return true;
}
