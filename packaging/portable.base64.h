/* For libjwt: the two functions that it has in base64.c, which Debian takes out of its sources for
 * its licence, on libb64, as in Debian's package. */
#include <b64/cdecode.h>
#include <b64/cencode.h>
#include <string.h>

static inline int jwt_Base64encode(char *out, const char *bytes, int n)
{
	base64_encodestate state;
	base64_init_encodestate(&state);
	int end = base64_encode_block(bytes, n, out, &state), kept = 0;
	end += base64_encode_blockend(out + end, &state);
	for (int i = 0; i < end; i++) /* it breaks lines */
		if (out[i] != '\n')
			out[kept++] = out[i];
	out[kept] = '\0';
	return kept;
}

static inline int jwt_Base64decode(char *out, const char *text)
{
	base64_decodestate state;
	base64_init_decodestate(&state);
	return base64_decode_block(text, (int)strlen(text), out, &state);
}
