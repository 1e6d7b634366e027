// SPDX-License-Identifier: LGPL-2.1-or-later
/** @file cr_image_…(): calls the functions of libcr-image.so, see image_api.h. */
#include <dlfcn.h>
#include <pthread.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "api/errors.h"
#include "api/image_api.h"

struct cr_image {
  void* image;
};

namespace reprise::api {
namespace {

const ImageApi* g_api = nullptr;
char g_why[256];  // the reason when g_api is nullptr
pthread_once_t g_once = PTHREAD_ONCE_INIT;

void load() {
  void* library = dlopen(kImageLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::snprintf(g_why, sizeof g_why, "images cannot be read: %s", dlerror());
    return;
  }
  auto* entry = reinterpret_cast<const ImageApi* (*)()>(dlsym(library, kImageApiSymbol));
  const ImageApi* api = entry == nullptr ? nullptr : entry();
  if (api != nullptr && api->version == kImageApiVersion)
    g_api = api;
  else
    std::snprintf(g_why, sizeof g_why, "images cannot be read: %s is of another version", kImageLibrary);
}

/** @return @p result, or -1 with errno and the text of cr_last_error() set when it is negative */
template <class Result>
Result checked(Result result) {
  if (result >= 0) return result;
  fail(static_cast<int>(-result), g_api->sentence());
  return -1;
}

}  // namespace
}  // namespace reprise::api

using namespace reprise::api;

extern "C" {

int cr_image_open(const char* path, cr_image_t** image) {
  clear_error();
  if (path == nullptr || image == nullptr) return fail(EINVAL);
  pthread_once(&g_once, load);
  if (g_api == nullptr) return fail(ENOSYS, g_why);
  auto* opened = static_cast<cr_image_t*>(std::malloc(sizeof(cr_image_t)));
  if (opened == nullptr) return fail(ENOMEM);
  if (checked(g_api->open(path, &opened->image)) < 0) {
    const int err = errno;
    std::free(opened);
    errno = err;
    return -1;
  }
  *image = opened;
  return 0;
}

void cr_image_close(cr_image_t* image) {
  if (image == nullptr) return;
  g_api->close(image->image);
  std::free(image);
}

pid_t cr_image_pid(const cr_image_t* image) { return g_api->pid(image->image); }
const char* cr_image_name(const cr_image_t* image) { return g_api->name(image->image); }
int cr_image_threads(const cr_image_t* image) { return g_api->threads(image->image); }
long cr_image_runs(const cr_image_t* image) { return g_api->runs(image->image); }

pid_t cr_image_tid(const cr_image_t* image, int index) { return checked(g_api->tid(image->image, index)); }

int cr_image_get_run(const cr_image_t* image, long index, struct cr_image_run* run) {
  return checked(g_api->run(image->image, index, run));
}

ssize_t cr_image_read(cr_image_t* image, uint64_t addr, void* buf, size_t len) {
  return checked(g_api->read(image->image, addr, buf, len));
}

int cr_image_verify(cr_image_t* image) { return checked(g_api->verify(image->image)); }

char* cr_image_json(cr_image_t* image) {
  char* text = g_api->json(image->image);
  if (text == nullptr) fail(ENOMEM, g_api->sentence());
  return text;
}

}  // extern "C"
