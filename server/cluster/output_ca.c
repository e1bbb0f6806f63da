/* Reads the certificates of the CA for uploads, and keeps them in a ConfigMap, beside those of
 * other servers. */
#include "server/cluster/output_ca.h"

#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "base/enc.h"
#include "base/json/put.h"
#include "base/json/scan.h"
#include "base/posix/fd.h"
#include "server/cluster/runtime_configmap.h"
#include "server/config/options.h"
#include "server/http/tls.h"

enum {
	FILE_MAX = 256 << 10,
	CA_MAX = 512 << 10,
	CA_THERE_MAX = 32 << 10,
	CA_RANDOM = 4, /* certificates with random keys: the newest */
	NO_LIMIT = INT_MAX
};

static const char BEGIN[] = "-----BEGIN CERTIFICATE-----";
static const char END[] = "-----END CERTIFICATE-----";

/* Copies the first `most` certificates of a PEM file. */
static void put_certificates(struct str *out, struct span text, int most)
{
	for (size_t at = 0; most > 0; most--) {
		size_t begin = span_find(text, at, BEGIN);
		size_t end = begin == SIZE_MAX ? SIZE_MAX : span_find(text, begin, END);
		if (end == SIZE_MAX)
			return;
		at = end + sizeof(END) - 1;
		str_put(out, text.p + begin, at - begin);
		str_char(out, '\n');
	}
}

#define RANDOM_KEY "rest-lit/random-key"

/* Appends the ConfigMap OUTPUT_CA; it is also a merge patch of an existing one, of this version. */
static void ca_object(struct str *out, struct span certificates, bool random, struct span version)
{
	str_puts(out, "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{"
	              "\"name\":\"" OUTPUT_CA "\",\"labels\":{"
	              "\"app.kubernetes.io/managed-by\":\"rest-lit\"");
	json_put_word(out, RANDOM_KEY, random ? "true" : "false");
	str_char(out, '}');
	if (version.n)
		json_put_text(out, "resourceVersion", version);
	str_puts(out, "},\"data\":{");
	json_put_text(out, "ca.crt", certificates);
	str_puts(out, "}}");
}

/* Keys in the file are left out. */
int output_ca_read(struct output_ca *c, struct err *e)
{
	const struct server *s = c->server;
	const char *file = s->options->output_ca;
	STR_AUTO text = STR_SECRET(FILE_MAX);
	STR_AUTO certificates = STR_INIT(FILE_MAX);
	struct stat st;
	c->done = !s->output_tls;
	if (!s->output_tls)
		return 0;
	if (!file[0])
		str_puts(&text, tls_pem(s->output_tls));
	else if (file_read_regular(file, &text, &st, e) < 0)
		return -1;
	put_certificates(&certificates, str_view(&text), NO_LIMIT);
	if (!certificates.n || utf8_check(str_view(&certificates)) != certificates.n)
		return err_set(e, 400, NULL, "%s: there is no certificate in it (PEM)", file);
	str_done(&c->object);
	c->object = STR_INIT(CA_MAX);
	ca_object(&c->object, str_view(&certificates), s->output_tls_random, SPAN(""));
	return 0;
}

/* Servers with random keys keep each other's certificates, so that pods trust all of them.  A
 * certificate of a derived key is not kept: others may know its secret.  false: ours is there. */
static bool ca_merge(const struct output_ca *c, const struct store_reply *reply, struct arena *a,
                     struct str *patch)
{
	STR_AUTO certificates = STR_INIT(FILE_MAX);
	struct span there = scan_text(scan_path(reply->body, "data", "ca.crt"), a);
	struct span random = scan_path(reply->body, "metadata", "labels", RANDOM_KEY);
	put_certificates(&certificates, span_of(tls_pem(c->server->output_tls)), 1);
	if (span_find(there, 0, str_c(&certificates)) != SIZE_MAX)
		return false;
	if (span_is(random, "\"true\"") && there.n <= CA_THERE_MAX)
		put_certificates(&certificates, there, CA_RANDOM - 1);
	ca_object(patch, str_view(&certificates), true, reply->resource_version);
	return true;
}

bool output_ca_publish(struct output_ca *c)
{
	if (c->done)
		return true;
	ARENA_AUTO a = { 0 };
	STR_AUTO merged = STR_INIT(CA_MAX);
	struct store_reply reply;
	struct store_request r = { .verb = STORE_CREATE,
		                   .name = OUTPUT_CA,
		                   .body = { str_view(&c->object) } };
	enum store_outcome outcome = configmap_ask(c->caller, r, &a, &reply);
	if (outcome == STORE_EXISTS && c->server->output_tls_random) {
		struct store_request get = { .verb = STORE_GET, .name = OUTPUT_CA };
		outcome = configmap_ask(c->caller, get, &a, &reply);
		if (outcome == STORE_OK) {
			if (!ca_merge(c, &reply, &a, &merged))
				return c->done = true;
			r.body[0] = str_view(&merged);
			outcome = STORE_EXISTS;
		}
	}
	if (outcome == STORE_EXISTS) {
		r.verb = STORE_PATCH;
		outcome = configmap_ask(c->caller, r, &a, &reply);
	}
	c->done = c->caller->stopped || outcome == STORE_OK || outcome == STORE_REFUSED;
	if (outcome == STORE_REFUSED && !c->caller->stopped)
		configmap_log(c->server,
		              &(struct configmap_event){
				  LOG_WARN, "pods cannot upload their output over https", OUTPUT_CA,
				  reply.message, configmap_mend(c->server, &a, &reply) });
	return c->done;
}
