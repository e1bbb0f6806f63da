#pragma once
/* The subcommands: a file cmd_*.c or a module each.  argv[0] is the subcommand's name.  They
 * return the exit status of the process. */
int cmd_init(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_exit(int argc, char **argv);
int cmd_sshd(int argc, char **argv);
int cmd_ssh_barrier(int argc, char **argv);
int cmd_git_move(int argc, char **argv);
int cmd_check_api(int argc, char **argv);
int cmd_version(int argc, char **argv);
