/* The few members of an X.509 certificate (RFC 5280) that a message names, out of its DER. */
#include "runtime-assets/net/certificate.h"

#include <time.h>

#include "base/enc.h"

enum {
	INTEGER = 0x02,
	OID = 0x06,
	UTC_TIME = 0x17,
	GENERAL_TIME = 0x18,
	SEQUENCE = 0x30,
	SET = 0x31,
	VERSION = 0xa0, /* [0], explicit */
	NAME_SHOWN = 60
};

static void skip(struct span *s, size_t n)
{
	*s = (struct span){ s->p + n, s->n - n };
}

/* Take the first value off `in`; its tag, or -1 if there is none that is whole. */
static int der_take(struct span *in, struct span *value)
{
	if (in->n < 2)
		return -1;
	int tag = (unsigned char)in->p[0];
	size_t n = (unsigned char)in->p[1];
	skip(in, 2);
	if (n >= 0x80) {
		size_t digits = n - 0x80;
		if (digits == 0 || digits > 3 || digits > in->n)
			return -1;
		n = 0;
		for (size_t i = 0; i < digits; i++)
			n = n << 8 | (unsigned char)in->p[i];
		skip(in, digits);
	}
	if (n > in->n)
		return -1;
	*value = (struct span){ in->p, n };
	skip(in, n);
	return tag;
}

/* The same for a value that must have this tag; empty if it has not. */
static struct span der_expect(struct span *in, int tag)
{
	struct span value;
	return der_take(in, &value) == tag ? value : SPAN("");
}

/* ---- time ---------------------------------------------------------------------------------- */

static int two_digits(const char *p)
{
	bool digits = p[0] >= '0' && p[0] <= '9' && p[1] >= '0' && p[1] <= '9';
	return digits ? (p[0] - '0') * 10 + (p[1] - '0') : -1;
}

/* "YYMMDDhhmmssZ" or "YYYYMMDDhhmmssZ" as Unix time; -1 if it is neither. */
static int64_t time_of(int tag, struct span t)
{
	int part[7]; /* century, year, month, day, hour, minute, second */
	size_t first = tag == GENERAL_TIME ? 0 : 1;
	if ((tag != GENERAL_TIME && tag != UTC_TIME) || t.n != 2 * (7 - first) + 1)
		return -1;
	for (size_t i = first; i < 7; i++) {
		part[i] = two_digits(t.p + 2 * (i - first));
		if (part[i] < 0)
			return -1;
	}
	if (first == 1)
		part[0] = part[1] < 50 ? 20 : 19; /* RFC 5280, 4.1.2.5.1 */
	struct tm tm = { .tm_year = part[0] * 100 + part[1] - 1900,
		         .tm_mon = part[2] - 1,
		         .tm_mday = part[3],
		         .tm_hour = part[4],
		         .tm_min = part[5],
		         .tm_sec = part[6] };
	return timegm(&tm);
}

/* ---- subject ------------------------------------------------------------------------------- */

static const char *printable(struct span t, struct arena *a)
{
	struct span text = { t.p, t.n < NAME_SHOWN ? t.n : NAME_SHOWN };
	char *copy = arena_dup(a, text);
	for (size_t i = 0; i < text.n; i++) {
		if (copy[i] < ' ' || copy[i] > '~')
			copy[i] = '?';
	}
	return copy;
}

static const char *subject_name(struct span subject, struct arena *a)
{
	const char *found = "";
	while (subject.n > 0) {
		struct span set = der_expect(&subject, SET);
		struct span pair = der_expect(&set, SEQUENCE);
		struct span oid = der_expect(&pair, OID);
		struct span text;
		if (der_take(&pair, &text) < 0)
			break;
		if (span_eq(oid, SPAN("\x55\x04\x03"))) /* commonName */
			return printable(text, a);
		if (span_eq(oid, SPAN("\x55\x04\x0a")) && !*found) /* organizationName */
			found = printable(text, a);
	}
	return found;
}

/* ---- the certificate ------------------------------------------------------------------------- */

static int read_der(struct span der, struct arena *a, struct certificate *out)
{
	struct span whole = der_expect(&der, SEQUENCE);
	struct span body = der_expect(&whole, SEQUENCE);
	if (body.n > 0 && (unsigned char)body.p[0] == VERSION)
		(void)der_expect(&body, VERSION); /* it only has to be out of the way */
	struct span serial = der_expect(&body, INTEGER);
	struct span algorithm = der_expect(&body, SEQUENCE);
	struct span issuer = der_expect(&body, SEQUENCE);
	struct span validity = der_expect(&body, SEQUENCE);
	struct span subject = der_expect(&body, SEQUENCE);
	struct span until;
	struct span from;
	if (serial.n == 0 || algorithm.n == 0 || issuer.n == 0 || der_take(&validity, &from) < 0)
		return -1;
	int64_t not_after_s = time_of(der_take(&validity, &until), until);
	if (not_after_s < 0)
		return -1;
	out->not_after_s = not_after_s;
	out->name = subject_name(subject, a);
	return 0;
}

/* What stands between two marks, from `from` on; p is NULL if they are not there. */
static struct span next_block(struct span pem, size_t *from)
{
	static const char BEGIN[] = "-----BEGIN CERTIFICATE-----";
	size_t begin = span_find(pem, *from, BEGIN);
	if (begin == SIZE_MAX)
		return (struct span){ NULL, 0 };
	begin += sizeof(BEGIN) - 1;
	size_t end = span_find(pem, begin, "-----END CERTIFICATE-----");
	if (end == SIZE_MAX)
		return (struct span){ NULL, 0 };
	*from = end;
	return (struct span){ pem.p + begin, end - begin };
}

static int decode_block(struct span block, struct arena *a, struct span *der)
{
	STR_AUTO text = STR_INIT(block.n);
	for (size_t i = 0; i < block.n; i++) {
		if (block.p[i] > ' ')
			str_char(&text, block.p[i]);
	}
	return base64_decode(a, str_view(&text), der);
}

int certificate_read(struct span pem, struct arena *a, struct certificate *out)
{
	size_t at = 0;
	struct span der;
	struct span first = next_block(pem, &at);
	struct certificate c = { .n = 1 };
	if (first.p == NULL || decode_block(first, a, &der) != 0 || read_der(der, a, &c) != 0)
		return -1;
	while (next_block(pem, &at).p != NULL)
		c.n++;
	*out = c;
	return 0;
}
