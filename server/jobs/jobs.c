/* One job: is it there, and how is it?  What clients ask before and after they submit. */
#include "server/http/answer.h"
#include "server/http/handlers.h"
#include "server/http/routes.h"
#include "server/jobs/job_look.h"

static int render(struct request *r, const struct job_shown *shown, struct str *out, struct err *e)
{
	return job_detail(out, shown, &r->arena, e);
}

void job_get(struct request *r)
{
	bool attempt = strstr(r->route->path, "/{attempt}");
	job_look(r, &(struct job_looking){
			.attempt = attempt ? r->args[1] : SPAN("latest"),
			.render = render,
			.waits = !attempt,
			.tags = !attempt,
		    });
}

void job_get_v1(struct request *r)
{
	job_look(r, &(struct job_looking){
			.attempt = SPAN("latest"),
			.render = render,
			.waits = true,
			.tags = true,
		    });
}

void job_probe(struct request *r)
{
	answer_refuse(r, 404, "NoJobError", "there is no such job");
}
