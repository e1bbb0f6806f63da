#pragma once
/* What the routes do. */
#include "server/http/request.h"

/* health.c */
void index_get(struct request *r);
void healthz_get(struct request *r);
void readyz_get(struct request *r);

/* submit.c: a v2 job; a v1 or v2 job; and before its body, whether the path's user may. */
void submit_v2(struct request *r);
void submit_v1(struct request *r);
void submit_may(struct request *r);

/* job_list.c */
void jobs_get(struct request *r);
void jobs_get_v1(struct request *r);

/* jobs.c: one job, and its attempts. */
void job_get(struct request *r);
void job_get_v1(struct request *r);
void job_probe(struct request *r);
void job_task_get(struct request *r);
void attempts_health(struct request *r);
void attempts_get(struct request *r);
void attempt_get(struct request *r);

/* job_watch.c */
void jobs_watch(struct request *r);
void job_watch(struct request *r);

/* jobs.c */
void config_get(struct request *r);
void ssh_get(struct request *r);

/* job_change.c */
void execution_put(struct request *r);
void tag_put(struct request *r);
void tag_delete(struct request *r);
void job_delete(struct request *r);
void scale_patch(struct request *r);

/* job_events.c, job_logs.c */
void events_get(struct request *r);
void logs_get(struct request *r);
void log_get(struct request *r);

/* info.c, openapi.c */
void info_get(struct request *r);
void authn_get(struct request *r);
void openapi_get(struct request *r);

/* people.c: who somebody is and what he may use. */
void user_get(struct request *r);
void users_get(struct request *r);
void storages_get(struct request *r);
void storage_get(struct request *r);

/* user_edit.c: before their bodies, whether users can be changed here; by an admin only. */
void users_may(struct request *r);
void users_may_admin(struct request *r);
void users_post(struct request *r);
void users_put(struct request *r);
void users_me_put(struct request *r);
void user_member_put(struct request *r);
void user_delete(struct request *r);

/* groups.c: groups; and lists that are empty here. */
void groups_get(struct request *r);
void alerts_get(struct request *r);
void nodes_get(struct request *r);
void pods_get(struct request *r);

/* groups.c */
void clusters_get(struct request *r);
void cluster_get(struct request *r);
void skus_get(struct request *r);

/* signin.c */
void login_post(struct request *r);

/* tokens.c */
void logout_delete(struct request *r);
void tokens_get(struct request *r);
void token_check_get(struct request *r);
void application_post(struct request *r);
void token_delete(struct request *r);
