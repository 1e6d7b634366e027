// SPDX-License-Identifier: LGPL-2.1-or-later
/** @file The part of Session that notifies the program's own callbacks. */
#include <cerrno>
#include <climits>
#include <filesystem>

#include "base/text.h"
#include "session/session.h"

namespace reprise {

void Session::origin(const std::string& image, pid_t requester) {
  std::error_code none;
  const std::string path = image.empty() ? image : std::filesystem::absolute(image, none).string();
  cr_origin request{};
  request.path = reinterpret_cast<std::uintptr_t>(path.c_str());
  request.len = path.size() < PATH_MAX ? static_cast<std::uint32_t>(path.size() + 1) : 0;
  request.requester = requester;
  const int err = call(CR_IOC_ORIGIN, &request);
  if (err && err != -ENOTTY) fail("passing image path and requester to the program", err);
}

bool Session::notify(unsigned phase, unsigned flags, unsigned timeout_ms, const std::function<void()>& told) {
  cr_notify request{};
  request.flags = flags;
  request.timeout_ms = timeout_ms;
  request.phase = phase | CR_NOTIFY_TELL;
  int err = call(CR_IOC_NOTIFY, &request);
  if (err == 0) {
    if (told) told();
    request.phase = phase;
    err = call(CR_IOC_NOTIFY, &request);
  }
  if (err == -ENOENT) return false;
  const std::string who = "process " + std::to_string(pid_);
  if (err == -ECANCELED)
    throw Error(Failure::temporary, request.status ? request.status : ECANCELED,
                who + ": the program's own callbacks refused: " + error_text(request.status ? request.status : ECANCELED));
  if (err == -ETIMEDOUT)
    throw Error(Failure::temporary, ETIMEDOUT,
                who + ": the program's own callbacks took too long: try again or raise --timeout");
  if (err == -EBUSY)
    throw Error(Failure::temporary, EBUSY,
                who + ": another request is in progress, or the program's own callbacks have not returned from it: try "
                      "again when they have");
  if (err) fail("notifying the program", err);
  return true;
}

Session::Callbacks Session::finish_callbacks(unsigned timeout_ms) {
  cr_notify request{};
  request.phase = CR_PHASE_DONE;
  request.timeout_ms = timeout_ms;
  switch (call(CR_IOC_NOTIFY, &request)) {
    case 0: return Callbacks::returned;
    case -ECANCELED: return Callbacks::failed;
    case -ETIMEDOUT: return Callbacks::late;
    default: return Callbacks::ended;
  }
}

void Session::outcome(unsigned phase, unsigned flags) {
  cr_notify request{};
  request.phase = phase;
  request.flags = flags;
  const int err = call(CR_IOC_OUTCOME, &request);
  if (err && err != -ENOENT) fail("reporting the outcome to the program", err);
}

}  // namespace reprise
