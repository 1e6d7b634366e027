/* SPDX-License-Identifier: GPL-2.0-only */
/* Counted requests to parked threads, on top of cr_run_on() and cr_run_workers(). */
#ifndef CR_REQUEST_SHIM_H
#define CR_REQUEST_SHIM_H

struct cr_request {
	struct kref ref;
	int (*op)(struct cr_member *m, struct cr_request *req);
	void (*release)(struct cr_request *req);
	struct cr_session *session;
};

static inline void cr_request_init(struct cr_request *req,
				   int (*op)(struct cr_member *m, struct cr_request *req),
				   void (*release)(struct cr_request *req))
{
	kref_init(&req->ref);
	req->op = op;
	req->release = release;
	req->session = NULL;
}

static inline void cr_request_free(struct kref *ref)
{
	struct cr_request *req = container_of(ref, struct cr_request, ref);

	req->release(req);
}

static inline void cr_request_put(struct cr_request *req)
{
	kref_put(&req->ref, cr_request_free);
}

static inline bool cr_request_abandoned(struct cr_request *req)
{
	return READ_ONCE(req->session->abort);
}

static inline int cr_request_op(struct cr_session *s, struct cr_member *m, void *arg)
{
	struct cr_request *req = arg;

	return req->op(m, req);
}

static inline int cr_call(struct cr_session *s, struct cr_member *m, struct cr_request *req)
{
	req->session = s;
	return cr_run_on(s, m, cr_request_op, req);
}

static inline int cr_call_many(struct cr_session *s, unsigned int max, struct cr_request *req,
			       unsigned int *workers)
{
	req->session = s;
	return cr_run_workers(s, max, cr_request_op, req, workers);
}

#endif /* CR_REQUEST_SHIM_H */
