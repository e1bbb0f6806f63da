/* Lists the commands: function, options, arguments, and the texts of their help. */
#include "server/cli/commands.h"

/* clang-format off */
const struct command COMMANDS[] = {
	{ "run", cmd_run, FOR_RUN, 0, 1, "name one file, or a command after --", "FILE|- | -- COMMAND...", "run a job or a command on this machine",
	  "Run a job on this machine, without a server and without privileges, and show its\n"
	  "tasks until it has ended.  Tasks see the files of the machine, but not the home\n"
	  "directories; the current directory is read-only.  Ctrl-C stops the job, a second\n"
	  "Ctrl-C kills its tasks at once.  If standard output is no terminal, it gets all\n"
	  "output of the tasks, as with --logs.\n"
	  "A command after -- is a job of one task, which prints only its own output.  It has\n"
	  "the environment of the caller, the home directory read-only, and this directory\n"
	  "writable; with --image the files of the image and this directory.  It waits until\n"
	  "--gpus GPUs are free, which no other command gets.\n"
	  "Exit status: 0 the job has succeeded, 1 it has failed, 2 it was refused, 3 it was\n"
	  "interrupted or could not be run.  Of a command: its own, 128 + N if signal N has\n"
	  "ended or Ctrl-C has stopped it, 125 if it was refused or could not be run.\n",
	  "  rest-lit run job.yaml\n"
	  "  rest-lit run --gpus 1 -- python train.py --lr 0.1\n"
	  "  rest-lit run --mount /data --mount out:/out:rw job.yaml\n" },
	{ "validate", cmd_validate, FOR_VALIDATE, 1, SIZE_MAX, "name a file",
	  "FILE|-...", "print every mistake of a job",
	  "Check jobs and print every mistake as FILE:LINE:COLUMN: /json/pointer: text\n"
	  "Exit status: 0 all jobs are valid, 1 a job is invalid, 2 wrong usage.\n",
	  "  rest-lit validate examples/*.yaml\n" },
	{ "serve", cmd_serve, FOR_SERVE, 0, 0, "takes no file", NULL, "accept jobs over HTTP",
	  "Accept jobs over HTTP and run them in a cluster or on this machine.\n",
	  "For one user on this machine:\n"
	  "  rest-lit serve --local jobs --no-auth --user alice\n"
	  "  curl --data-binary @job.yaml -H 'Content-Type: text/yaml' \\\n"
	  "       localhost:9186/api/v2/jobs\n"
	  "For users with tokens:\n"
	  "  umask 077; head -c 32 /dev/urandom | base64 > jwt-secret\n"
	  "  rest-lit serve --local jobs --jwt-secret-file jwt-secret &\n"
	  "  TOKEN=$(rest-lit token --jwt-secret-file jwt-secret --user alice)\n"
	  "  curl --data-binary @job.yaml -H 'Content-Type: text/yaml' \\\n"
	  "       -H \"Authorization: Bearer $TOKEN\" localhost:9186/api/v2/jobs\n" },
	{ "check", cmd_check, FOR_SERVE | FOR_CHECK, 0, 0, "takes no file", NULL, "check what serve needs",
	  "Check everything that must hold for serve with the same options: files, API server,\n"
	  "rights, the controller, objects of pods; or this machine with --local.  Print a\n"
	  "line per item, and what to do.  Nothing is created or changed.\n"
	  "Exit status: 0 no item failed, 1 an item failed, 2 wrong usage.\n",
	  "  rest-lit check --config rest-lit.yaml\n"
	  "  rest-lit check --kubeconfig ~/.kube/config --jwt-secret-file jwt-secret\n"
	  "  rest-lit check --local jobs --no-auth --user alice\n"
	  "  rest-lit check --config rest-lit.yaml --hand-back\n" },
	{ "controller", cmd_controller, FOR_CONTROLLER, 0, 0, "takes no file", NULL,
	  "run the jobs of a cluster",
	  "Drive the Frameworks of a cluster: create and delete their pods, retry, complete\n"
	  "them.  It takes the place of FrameworkController.  Of several, the holder of the\n"
	  "Lease rest-lit-controller works, and the others wait.  GET /healthz, /readyz and\n"
	  "/metrics of --listen need no authentication.\n"
	  "Exit status: 0 stopped by a signal, 1 refused, 2 wrong usage.\n",
	  "  rest-lit controller --kubeconfig ~/.kube/config --namespace pai-jobs\n"
	  "  rest-lit controller --listen :9186 --controller-config frameworkcontroller.yaml\n" },
	{ "submit", cmd_submit, FOR_SUBMIT, 0, 1, "name one file, or a command after --",
	  "FILE|- | -- COMMAND...", "submit a job to a server, and follow it",
	  "Submit a job to a server and print its name: USER~NAME.  With --wait, show its\n"
	  "progress until it has ended; with --logs, also print the output of its tasks.\n"
	  "A command after -- is a job of one task that runs with the files of the current\n"
	  "directory, or of --code; --dry-run -o job prints its job file.\n"
	  "--set, --env and --secret change the job on its way, not the file.  --sweep submits\n"
	  "a job for each value, or combination of values, with the names NAME-lr0_1-seed1 and\n"
	  "a common tag: --tag, or NAME.  The same command completes a sweep that was\n"
	  "interrupted: a job that is there already is not submitted again.\n"
	  "Exit status: 0 the job was accepted, with --wait: it has succeeded; 1 it has\n"
	  "failed or was stopped; 2 it was refused; 3 the server does not answer, the time\n"
	  "limit has passed, or Ctrl-C: the job goes on.\n",
	  "  rest-lit submit --wait --logs job.yaml\n"
	  "  rest-lit submit --name mnist-2 --set lr=0.01 --env OMP_NUM_THREADS=4 job.yaml\n"
	  "  rest-lit submit --sweep lr=0.1,0.01 --sweep seed=1..5 --wait --yes job.yaml\n"
	  "  rest-lit submit --gpus 1 --logs -- python train.py --lr 0.1\n"
	  "  rest-lit submit --sweep lr=0.1,0.01 -- python train.py --lr '<% $parameters.lr %>'\n"
	  "  rest-lit submit --server https://pai.example --token-file token job.yaml\n" },
	{ "jobs", cmd_jobs, FOR_JOBS, 0, 0, "takes no file; --user and --state choose",
	  NULL, "list the jobs of a server",
	  "Print the newest jobs of all users or one user, or with any --tag, as a table or as\n"
	  "JSON; with --sort, the first ones in another order.  --watch shows them again every\n"
	  "two seconds, on a terminal in the same place, until Ctrl-C.\n"
	  "--metric compares at most 200 jobs: the last number after this name in the log of\n"
	  "each job's first task, and the parameters that differ; - is none.\n"
	  "Exit status: 0, 2 refused, 3 the server does not answer.\n",
	  "  rest-lit jobs --user alice --state RUNNING,WAITING\n"
	  "  rest-lit jobs --tag mnist --sort name --watch\n"
	  "  rest-lit jobs --tag mnist --metric loss --sort loss\n" },
	{ "top", cmd_top, FOR_TOP, 0, 0, "takes no file; --user chooses", NULL,
	  "show what the jobs of a machine use",
	  "Print what each running job uses, of the last ten minutes, and what the other GPUs\n"
	  "do; every two seconds again until Ctrl-C, or -n times.  For servers with --local.\n"
	  "Exit status: 0, 2 refused, or the server does not run the jobs, 3 the server does\n"
	  "not answer.\n",
	  "  rest-lit top\n"
	  "  rest-lit top -n 1 --user alice\n" },
	{ "usage", cmd_usage, FOR_USAGE, 1, 1, "name one job", "JOB", "show what the tasks of a job have used",
	  "Print what the tasks of a job use, or have used, of what they asked for: CPUs,\n"
	  "memory and each GPU, and what they did not use.  For servers with --local.\n"
	  "Exit status: 0, 2 refused, or there is no such job, or the server does not run it,\n"
	  "3 the server does not answer.\n",
	  "  rest-lit usage mnist\n" },
	{ "report", cmd_report, FOR_REPORT, 0, 0, "takes no file; --since is a time", NULL,
	  "sum up what users have used",
	  "Print the GPU hours, CPU hours and energy of your own jobs since a time; for\n"
	  "administrators of those of all users.  For servers with --local.\n"
	  "Exit status: 0, 2 refused, or the server does not run the jobs, 3 the server does\n"
	  "not answer.\n",
	  "  rest-lit report --since 30d\n"
	  "  rest-lit report --since 2026-11-01 --until 2026-12-01 --by user,week --csv\n" },
	{ "show", cmd_show, FOR_SHOW, 1, 1, "name one job", "JOB", "show the state of a job",
	  "Print state and tasks of a job; if it waits or has failed, also the reason and a\n"
	  "remedy.\n"
	  "Exit status: 0, 2 refused, or there is no such job, 3 the server does not answer.\n",
	  "  rest-lit show alice~mnist\n" },
	{ "stop", cmd_stop, FOR_STOP, 0, SIZE_MAX, "name a job, or --tag", "JOB...", "stop jobs",
	  "Stop jobs: those that are named, or all of your own that wait or run and have any\n"
	  "--tag.  Each is tried.\n"
	  "Exit status: the worst of 0, 2 refused, or there is no such job, 3 the server does\n"
	  "not answer.\n",
	  "  rest-lit stop --tag mnist\n" },
	{ "cancel", cmd_stop, FOR_STOP, 0, SIZE_MAX, "name a job, or --tag", "JOB...", "the same as stop",
	  "Stop jobs, as rest-lit stop does.\nExit status: as of stop.\n",
	  "  rest-lit cancel mnist\n" },
	{ "release", cmd_release, FOR_RELEASE, 0, SIZE_MAX, "name a job, or --tag", "JOB...", "start jobs that are held",
	  "Start jobs that wait for --hold, --begin, --after, --after-any or --max-running of their\n"
	  "submission, whatever is missing: those that are named, or all of your own with any\n"
	  "--tag.  Each is tried.\n"
	  "Exit status: the worst of 0, 2 refused, or not held, or there is no such job, 3 the\n"
	  "server does not answer.\n",
	  "  rest-lit submit --hold --name tonight job.yaml\n"
	  "  rest-lit release tonight\n" },
	{ "exec", cmd_exec, FOR_EXEC, 1, 1, "name one task; a command stands after --",
	  "JOB[/ROLE[/INDEX]] [-- COMMAND...]", "run a command in a task that runs",
	  "Run a shell, or the command after --, in a task that runs, with its files, variables\n"
	  "and GPUs, within its limits.  With a terminal, if input and output are one; else\n"
	  "all bytes arrive as they are.  ROLE is by default the only one, INDEX 0.  What the\n"
	  "command has started ends with it.  For servers with --local; for others the message\n"
	  "has the line of kubectl.\n"
	  "Exit status: that of the command, 128 + N if signal N has ended it, 137 if the task\n"
	  "has ended, 125 if it was refused or could not be run.\n",
	  "  rest-lit exec mnist\n"
	  "  rest-lit exec mnist/worker/1 -- nvidia-smi\n"
	  "  rest-lit exec -T mnist -- cat checkpoint.pt > checkpoint.pt\n" },
	{ "open", cmd_open, FOR_OPEN, 1, 2, "name one task, and a port", "JOB[/ROLE[/INDEX]] [PORT]",
	  "open a port of a task on this machine",
	  "Listen on a port of this machine, and carry each connection to the port on which a\n"
	  "process of the task listens, until Ctrl-C.  Print the link to it, as the log of the\n"
	  "task has it: of Jupyter with its token.  PORT is by default the only one.  For\n"
	  "servers with --local; for others the message has the line of kubectl.\n"
	  "Exit status: 0 after Ctrl-C, 2 refused, 3 the server does not answer.\n",
	  "  rest-lit open notebook\n"
	  "  rest-lit open train/worker/0 6006\n" },
	{ "keep", cmd_keep, FOR_KEEP, 1, 1, "name one job", "JOB", "keep a job whose GPUs are idle",
	  "Keep a job although its GPUs do nothing: until --for is over it is neither shown as\n"
	  "idle nor stopped by the server's --gpu-idle-stop.  A second call adds its hours; only\n"
	  "an administrator can add more than ten times --gpu-idle-stop in all.\n"
	  "Exit status: 0, 2 refused, or there is no such job, 3 the server does not answer.\n",
	  "  rest-lit keep --for 8h --reason 'debugging until tonight' mnist\n" },
	{ "fetch", cmd_fetch, FOR_FETCH, 1, 1, "name one job", "JOB[:PATH]", "fetch the results of a job",
	  "Write the files that a job has left in its results, or only PATH, below a directory,\n"
	  "also while it runs.  A file that is there with the same size and time stays, so that\n"
	  "a second call completes one that was interrupted.  With --code, write the files that\n"
	  "the job was submitted with.\n"
	  "Exit status: 0, 1 a file was changed while it was read, or is there with another\n"
	  "content, 2 refused, or there is no such job, or there are no results, 3 the server\n"
	  "does not answer.\n",
	  "  rest-lit fetch --list mnist\n"
	  "  rest-lit fetch mnist -o mnist-results\n"
	  "  rest-lit fetch mnist:checkpoints/best.pt -o mnist-results\n"
	  "  rest-lit fetch mnist:metrics.json -o - | jq .loss\n"
	  "  rest-lit fetch --code mnist -o mnist-code\n" },
	{ "logs", cmd_logs, FOR_LOGS, 1, 2, "name a job, and perhaps a task",
	  "JOB [TASK]", "print the output of a job's tasks",
	  "Print the output of the tasks of a job; with -f, also what they write from now on\n"
	  "until they have ended.  -n cuts the log of each task to its last lines, --since to\n"
	  "what was written from a time on.  TASK is ROLE, ROLE[INDEX], ROLE-INDEX or INDEX.\n"
	  "Exit status: 0, 1 an output is missing, 2 refused, or there is no such job or\n"
	  "task, 3 the server does not answer, or Ctrl-C.\n",
	  "  rest-lit logs mnist\n"
	  "  rest-lit logs -f -n 20 alice~mnist worker-0\n"
	  "  rest-lit logs --since 5m mnist\n" },
	{ "wait", cmd_wait, FOR_WAIT, 0, 1, "name one job, or --tag", "JOB", "wait until jobs have ended",
	  "Show the progress of a job until it has ended; or of all of your own jobs with any\n"
	  "--tag, one after the other, and how many are in which state.\n"
	  "Exit status: 0 all have succeeded, 1 one has failed or was stopped or deleted,\n"
	  "2 refused, or there is no such job, 3 the server does not answer, the time limit\n"
	  "has passed, or Ctrl-C: the jobs go on.\n",
	  "  rest-lit wait mnist && rest-lit logs mnist\n"
	  "  rest-lit wait --tag mnist\n" },
	{ "events", cmd_events, FOR_EVENTS, 1, 1, "name one job",
	  "JOB", "list the events of a job's pods",
	  "Print what the cluster has reported about the pods of a job, the last event below.\n"
	  "Exit status: 0, 2 refused, or there is no such job, 3 the server does not answer.\n",
	  "  rest-lit events mnist\n" },
	{ "delete", cmd_delete, FOR_DELETE, 0, SIZE_MAX, "name a job, or --tag",
	  "JOB...", "remove jobs that do not run",
	  "Remove jobs with their logs and objects; their names are free again: those that are\n"
	  "named, or all of your own with any --tag.  Each is tried; a running job must be\n"
	  "stopped first.\n"
	  "Exit status: the worst of 0, 2 refused, running, or there is no such job, 3 the\n"
	  "server does not answer.\n",
	  "  rest-lit delete mnist mnist-2\n" },
	{ "resubmit", cmd_resubmit, FOR_RESUBMIT, 1, 1, "name one job",
	  "JOB", "submit a job once more",
	  "Submit the same job once more under another name, and print USER~NAME.  The\n"
	  "default is the old name with the next free number: mnist-2.  --set, --env and\n"
	  "--tag change it as with submit; the tags of the old job are not taken.  The server\n"
	  "does not return secrets: give each with --secret.\n"
	  "Exit status: as of submit.\n",
	  "  rest-lit resubmit --wait --set lr=0.01 mnist\n" },
	{ "backup", cmd_backup, FOR_BACKUP, 1, 1, "name one file", "FILE",
	  "copy the database of a machine",
	  "Write a copy of the database of a server with --local, with all jobs and their\n"
	  "secrets, to a new FILE that only you can read; the server goes on meanwhile.  Only\n"
	  "administrators may do this.  " REST_LIT_DOCS "/LOCAL.md says how it is restored.\n"
	  "Exit status: 0, 2 refused, or there is such a file, 3 the server does not answer,\n"
	  "or the file cannot be written.\n",
	  "  rest-lit backup --token-file token jobs.db\n"
	  "  sqlite3 jobs.db 'select name from object where kind = 0'\n" },
	{ "translate", cmd_translate, FOR_TRANSLATE, 1, 1, "name one file",
	  "FILE|-", "print the objects of a job",
	  "Print the objects of a job as one Kubernetes List for kubectl create -f -\n",
	  "  rest-lit translate --user alice job.yaml | kubectl create -f -\n" },
	{ "convert", cmd_convert, FOR_CONVERT, 1, 1, "name one file",
	  "FILE|-", "write a job as an OpenPAI v2 job",
	  "Print a job of any dialect as an OpenPAI job of protocol 2, in YAML.  What such a\n"
	  "job cannot say is a comment at its top, and a warning on standard error.\n"
	  "Exit status: 0, 1 the job is invalid or cannot be converted, 2 wrong usage.\n",
	  "  rest-lit convert examples/tfDemo.json > tfDemo.yaml\n" },
	{ "token", cmd_token, FOR_TOKEN, 0, 0, "takes no file", NULL, "make a token for a user",
	  "Make a token (HS256) with the secret of a server, and print only the token on\n"
	  "standard output.  A server with --token-check=stored accepts it only if it is\n"
	  "also stored in the user's Secret.\n",
	  "  TOKEN=$(rest-lit token --user alice --jwt-secret-file jwt-secret)\n"
	  "  curl -H \"Authorization: Bearer $TOKEN\" localhost:9186/api/v2/tokens/check\n" },
	{ "login", cmd_login, FOR_LOGIN, 0, 0, "takes no file", NULL, "log in at a server",
	  "Log in at a server, with the password of an OpenPAI cluster, or in a browser at the\n"
	  "issuer that the server names.  Later commands use this login at this server, unless\n"
	  "--token-file is given, and renew it if the issuer allows it.  It is kept in\n"
	  "~/.config/rest-lit/tokens, which only you can read.  Without a terminal, the password\n"
	  "is the first line of standard input.\n"
	  "Exit status: 0, 2 refused, 3 the server or the issuer does not answer.\n",
	  "  rest-lit login --server https://rest-lit.example.com\n" },
	{ "logout", cmd_logout, FOR_LOGOUT, 0, 0, "takes no file", NULL, "log out from a server",
	  "Revoke the token of rest-lit login, if the server can revoke it, and forget it.\n"
	  "Exit status: 0, 2 there is no login, 3 the server does not answer; it is kept then.\n",
	  "  rest-lit logout --server https://rest-lit.example.com\n" },
	{ "schema", cmd_schema, 0, 1, 1, "name one schema",
	  "NAME", "print a JSON Schema",
	  "Print the JSON Schema of the jobs of a dialect, of pods in them, of the facts file\n"
	  "(--facts), the file of issuers (--issuers), the configuration of HiveD\n"
	  "(--hived-config), or the configuration file (--config).\n",
	  "  rest-lit schema v2 > pai-v2.schema.json\n" },
	{ "version", cmd_version, 0, 0, SIZE_MAX, NULL, NULL, "print the version",
	  "Print the versions of rest-lit and of the libraries that it uses, and the path of\n"
	  "this program.\n",
	  "  rest-lit version\n" },
	{ "page", cmd_page, 0, 1, 2, "there is no such page",
	  "NAME", NULL,
	  "Print a page of the documentation that is generated from tables in the code.\n",
	  "  rest-lit page openapi > openapi.json\n" },
	{ "complete", cmd_complete, 0, 1, SIZE_MAX, "name the words of a command line", "WORD...", NULL,
	  "Print the words that a shell offers for the last one.\n",
	  "  rest-lit complete jobs --state ''\n" },
};
/* clang-format on */
const size_t N_COMMANDS = ARRAY_SIZE(COMMANDS);
