/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The component's interface to Open MPI's framework: parameters, start and end. */
#include "btl/btl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "opal/mca/pmix/pmix-internal.h"
#include "opal/runtime/opal_params.h"
#include "opal/runtime/opal_progress.h"

#include "base/address.h"
#include "btl/epoch.h"
#include "endpoint/connect.h"
#include "endpoint/events.h"
#include "endpoint/modex.h"
#include "guard/guard.h"
#include "message/message.h"
#include "wave/introduce.h"

static int component_register(void);
static int component_open(void);
static int component_close(void);
static mca_btl_base_module_t **component_init(int *count, bool progress_threads, bool mpi_threads);

mca_btl_base_component_3_0_0_t mca_btl_crtcp_component = {
    .btl_version =
        {
            MCA_BTL_DEFAULT_VERSION("crtcp"),
            .mca_open_component = component_open,
            .mca_close_component = component_close,
            .mca_register_component_params = component_register,
        },
    .btl_data = {.param_field = MCA_BASE_METADATA_PARAM_CHECKPOINT},
    .btl_init = component_init,
};

static void parameter(const char *name, const char *help, mca_base_var_type_t type, mca_base_var_info_lvl_t level,
                      void *where)
{
  mca_base_component_var_register(&mca_btl_crtcp_component.btl_version, name, help, type, NULL, 0, 0, level,
                                  MCA_BASE_VAR_SCOPE_READONLY, where);
}

static int component_register(void)
{
  crtcp.module = &crtcp_module;
  crtcp.if_include = "";
  crtcp.if_exclude = "127.0.0.0/8,::1,sppp";
  crtcp.free_list_num = 8;
  crtcp.free_list_max = -1;
  crtcp.free_list_inc = 32;
  crtcp.keepalive_s = 10;
  crtcp.handshake_ms = 10000;
  parameter("if_include", "Use only these: interface names and CIDR networks (IPv4, IPv6), separated by commas",
            MCA_BASE_VAR_TYPE_STRING, OPAL_INFO_LVL_1, &crtcp.if_include);
  parameter("if_exclude", "Use all but these: as if_include, which takes precedence", MCA_BASE_VAR_TYPE_STRING,
            OPAL_INFO_LVL_1, &crtcp.if_exclude);
  parameter("free_list_num", "Initial number of fragments", MCA_BASE_VAR_TYPE_INT, OPAL_INFO_LVL_5,
            &crtcp.free_list_num);
  parameter("free_list_max", "Maximum number of fragments; -1: no limit", MCA_BASE_VAR_TYPE_INT, OPAL_INFO_LVL_5,
            &crtcp.free_list_max);
  parameter("free_list_inc", "Fragments to allocate at a time", MCA_BASE_VAR_TYPE_INT, OPAL_INFO_LVL_5,
            &crtcp.free_list_inc);
  parameter("sndbuf", "Size of the sockets' send buffers in bytes; 0: the kernel's default", MCA_BASE_VAR_TYPE_INT,
            OPAL_INFO_LVL_4, &crtcp.sndbuf);
  parameter("rcvbuf", "Size of the sockets' receive buffers in bytes; 0: the kernel's default", MCA_BASE_VAR_TYPE_INT,
            OPAL_INFO_LVL_4, &crtcp.rcvbuf);
  parameter("keepalive", "Seconds of silence after which TCP keepalive probes a peer; 0: never",
            MCA_BASE_VAR_TYPE_INT, OPAL_INFO_LVL_4, &crtcp.keepalive_s);
  parameter("guard", "Let a thread watch the connections, so that a lost or silent peer is noticed while the program computes",
            MCA_BASE_VAR_TYPE_BOOL, OPAL_INFO_LVL_3, &crtcp.use_guard);
  parameter("handshake_timeout", "Milliseconds for connecting to an address and for each step of the handshake",
            MCA_BASE_VAR_TYPE_INT, OPAL_INFO_LVL_5, &crtcp.handshake_ms);
  crtcp.use_lanes = true;
  parameter("lanes", "Exchange messages with ranks of this node through shared memory, which crd provides",
            MCA_BASE_VAR_TYPE_BOOL, OPAL_INFO_LVL_3, &crtcp.use_lanes);
  parameter("spin", "Polls without an event after which a rank blocks until a network event, up to a millisecond at a "
            "time, so that others can use its processor; 0: it polls on. For nodes with more ranks than processors",
            MCA_BASE_VAR_TYPE_INT, OPAL_INFO_LVL_4, &crtcp.spin);

  crtcp_module.btl_exclusivity = MCA_BTL_EXCLUSIVITY_LOW + 200;
  crtcp_module.btl_eager_limit = 64 * 1024;
  crtcp_module.btl_rndv_eager_limit = 64 * 1024;
  crtcp_module.btl_max_send_size = 128 * 1024;
  crtcp_module.btl_rdma_pipeline_send_length = 128 * 1024;
  crtcp_module.btl_rdma_pipeline_frag_size = (1ul << 31) - 1024;
  crtcp_module.btl_min_rdma_pipeline_size = 0;
  crtcp_module.btl_flags = MCA_BTL_FLAGS_SEND | MCA_BTL_FLAGS_PUT | MCA_BTL_FLAGS_SEND_INPLACE;
  crtcp_module.btl_latency = 100;
  crtcp_module.btl_bandwidth = 100;
  mca_btl_base_param_register(&mca_btl_crtcp_component.btl_version, &crtcp_module);
  return OPAL_SUCCESS;
}

static int component_open(void)
{
  OBJ_CONSTRUCT(&crtcp.endpoints, opal_list_t);
  OBJ_CONSTRUCT(&crtcp.guests, opal_list_t);
  OBJ_CONSTRUCT(&crtcp.graveyard, opal_list_t);
  OBJ_CONSTRUCT(&crtcp.heard, opal_list_t);
  OBJ_CONSTRUCT(&crtcp.by_name, opal_hash_table_t);
  OBJ_CONSTRUCT(&crtcp.inbox, opal_list_t);
  OBJ_CONSTRUCT(&crtcp.finished, opal_list_t);
  OBJ_CONSTRUCT(&crtcp.unheard, opal_list_t);
  OBJ_CONSTRUCT(&crtcp.eager, opal_free_list_t);
  OBJ_CONSTRUCT(&crtcp.full, opal_free_list_t);
  OBJ_CONSTRUCT(&crtcp.user, opal_free_list_t);
  return opal_hash_table_init(&crtcp.by_name, 256);
}

static int component_close(void)
{
  OBJ_DESTRUCT(&crtcp.eager);
  OBJ_DESTRUCT(&crtcp.full);
  OBJ_DESTRUCT(&crtcp.user);
  OBJ_DESTRUCT(&crtcp.by_name);
  free(crtcp.scratch);
  crtcp.scratch = NULL;
  return OPAL_SUCCESS;
}

static int fragments(opal_free_list_t *list, size_t payload)
{
  return opal_free_list_init(list, sizeof(crtcp_fragment_t) + payload, opal_cache_line_size,
                             OBJ_CLASS(crtcp_fragment_t), 0, opal_cache_line_size, crtcp.free_list_num,
                             crtcp.free_list_max, crtcp.free_list_inc, NULL, 0, NULL, crtcp_fragment_init, list);
}

static int publish(void)
{
  char *text;
  size_t bytes;
  int count = crtcp_local_addresses(crtcp.port4, crtcp.port6, &text, &bytes), rc = OPAL_ERROR;
  struct crtcp_modex *modex;

  if (count <= 0) {
    free(text);
    crtcp_say("no interface to use: see btl_crtcp_if_include and btl_crtcp_if_exclude");
    return OPAL_ERR_NOT_AVAILABLE;
  }
  modex = calloc(1, sizeof *modex + bytes);
  if (modex) {
    modex->version = CRTCP_MODEX;
    modex->count = count;
    memcpy(modex->cookie, crtcp.cookie, CRTCP_COOKIE);
    memcpy(modex + 1, text, bytes);
    OPAL_MODEX_SEND(rc, PMIX_GLOBAL, &mca_btl_crtcp_component.btl_version, modex, sizeof *modex + bytes);
  }
  free(modex);
  free(text);
  return rc;
}

/* Print the reason once for a job: only rank 0 does. */
static void tell_why_not(const char *why)
{
  if (opal_process_info.my_local_rank == 0 && OPAL_PROC_MY_NAME.vpid == 0)
    crtcp_say("checkpoints are off: %s", why);
}

static mca_btl_base_module_t **component_init(int *count, bool progress_threads, bool mpi_threads)
{
  mca_btl_base_module_t **modules;
  const char *why = NULL;

  (void) progress_threads;
  *count = 0;
  if (!mpi_threads) crtcp_lock_bias(&crtcp.lock);
  if (getrandom(crtcp.cookie, sizeof crtcp.cookie, 0) != sizeof crtcp.cookie) return NULL;
  if (fragments(&crtcp.eager, crtcp_module.btl_eager_limit) ||
      fragments(&crtcp.full, crtcp_module.btl_max_send_size) || fragments(&crtcp.user, 0))
    return NULL;
  crtcp.scratch = malloc(CRTCP_SCRATCH);
  modules = malloc(sizeof *modules);
  if (!crtcp.scratch || !modules || crtcp_listen() || crtcp_epoll_make()) goto failed;
  if (crtcp_introduce(&why)) goto failed;
  if (why) tell_why_not(why);
  if (publish() != OPAL_SUCCESS) goto failed;
  crtcp.open = true;
  opal_progress_register(crtcp_progress);
  crtcp_guard_start();
  crtcp_epoch_follow();
  modules[0] = &crtcp_module;
  *count = 1;
  return modules;

failed:
  crtcp_say("this transport cannot be used: %s", why ? why : strerror(errno));
  free(modules);
  return NULL;
}
