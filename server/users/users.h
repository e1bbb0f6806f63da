#pragma once
/*
 * The handlers of routes about users, groups, virtual clusters and storages, and of the login.
 *
 * Thread: loop
 */
#include "server/http/query.h"
#include "server/http/route.h"

/* user_routes.c */
handler user_get, users_get, storages_get, storage_get, groups_get, alerts_get, nodes_get, pods_get;
extern const struct parameter STORAGES[];

/* user_edit.c; users_check_profile and users_check_admin check before the body whether users can be
 * changed, and by this principal. */
handler users_check_profile, users_check_admin, users_post, users_put, users_me_put,
    user_member_put, user_delete;

/* virtual_clusters.c */
handler clusters_get, cluster_get, skus_get;
extern const struct parameter CLUSTERS[], SKUS[];

/* signin.c */
handler login_post;
