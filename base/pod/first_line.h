#pragma once
/*
 * The server knows the beginning of the log of a container by its first line, which pai-runtime
 * writes once: "[TIME] [openpai-runtime] [INFO] Starting to exec precommands".
 *
 * Thread: any
 */
#define RUNTIME_NAME       "[openpai-runtime] "
#define RUNTIME_FIRST_LINE "[INFO] Starting to exec precommands"
