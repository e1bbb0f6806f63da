#include "server/cluster/output_ca.h"

#include <sys/stat.h>

#include "base/enc.h"
#include "server/file.h"
#include "translate/translate.h"

enum { FILE_MAX = 256 << 10 };

static const char BEGIN[] = "-----BEGIN CERTIFICATE-----";
static const char END[] = "-----END CERTIFICATE-----";

/* Of PEM, what stands between these lines, and they. */
static void put_certificates(struct str *out, struct span text)
{
	for (size_t at = 0;;) {
		size_t begin = span_find(text, at, BEGIN);
		size_t end = begin == SIZE_MAX ? SIZE_MAX : span_find(text, begin, END);
		if (end == SIZE_MAX)
			return;
		at = end + sizeof(END) - 1;
		str_put(out, text.p + begin, at - begin);
		str_char(out, '\n');
	}
}

int output_ca_write(struct str *out, const struct options *o, struct err *e)
{
	const char *file = o->output_ca[0] ? o->output_ca : o->tls_cert;
	STR_AUTO text = STR_SECRET(FILE_MAX);
	STR_AUTO certificates = STR_INIT(FILE_MAX);
	struct stat st;
	if (!span_starts(span_of(o->output_url), "https://"))
		return 0;
	if (file_read_regular(file, &text, &st, e) < 0)
		return -1;
	put_certificates(&certificates, str_view(&text));
	if (!certificates.n || utf8_check(str_view(&certificates)) != certificates.n)
		return err_set(e, 400, NULL, "%s: there is no certificate in it (PEM)", file);
	str_puts(out, "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{"
	              "\"name\":\"" OUTPUT_CA "\",\"labels\":{"
	              "\"app.kubernetes.io/managed-by\":\"rest-lit\"}},"
	              "\"data\":{\"ca.crt\":");
	str_json(out, str_view(&certificates));
	str_puts(out, "}}");
	return 0;
}
