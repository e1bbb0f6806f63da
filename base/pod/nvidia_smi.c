#include "base/pod/nvidia_smi.h"

#include <sys/stat.h>
#include <unistd.h>

static const char *const PLACES[] = { "/usr/bin",       "/usr/local/nvidia/bin",
	                              "/usr/local/bin", "/bin",
	                              "/usr/sbin",      "/usr/lib/wsl/lib" };

const char *nvidia_smi_find(const char *root, struct arena *a)
{
	for (size_t i = 0; i < ARRAY_SIZE(PLACES); i++) {
		const char *path = arena_printf(a, "%s%s/nvidia-smi", root, PLACES[i]);
		struct stat st;
		if (stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0)
			return path;
	}
	return NULL;
}
