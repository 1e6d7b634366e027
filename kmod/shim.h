/* temporary */
struct cr_shim { struct cr_request req; int (*op)(struct cr_session *, struct cr_member *, void *); void *arg; };
static void __maybe_unused cr_shim_release(struct cr_request *r) { kfree(container_of(r, struct cr_shim, req)); }
static int __maybe_unused cr_shim_op(struct cr_member *m, struct cr_request *r) { struct cr_shim *s = container_of(r, struct cr_shim, req); return s->op(m->session, m, s->arg); }
static int __maybe_unused cr_run_on_any(struct cr_session *s, int (*op)(struct cr_session *, struct cr_member *, void *), void *arg)
{ struct cr_shim *h = kzalloc(sizeof(*h), GFP_KERNEL); int r; if (!h) return -ENOMEM; cr_request_init(&h->req, cr_shim_op, cr_shim_release); h->op = op; h->arg = arg; r = cr_call_any(s, &h->req); cr_request_put(&h->req); return r; }
static int __maybe_unused cr_run_workers(struct cr_session *s, unsigned int max, int (*op)(struct cr_session *, struct cr_member *, void *), void *arg, unsigned int *workers)
{ struct cr_shim *h = kzalloc(sizeof(*h), GFP_KERNEL); int r; if (!h) return -ENOMEM; cr_request_init(&h->req, cr_shim_op, cr_shim_release); h->op = op; h->arg = arg; r = cr_call_many(s, max, &h->req, workers); cr_request_put(&h->req); return r; }
