// SPDX-License-Identifier: LGPL-2.1-or-later
#include "api/agent_device.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "libcr.h"

namespace reprise::api::device {
namespace {

// Programs may rely on getting low descriptor numbers: use one above these.
constexpr int kLowestNumber = 480;

int checked_ioctl(int fd, unsigned long request, void* arg) {
  return ::ioctl(fd, request, arg) == 0 ? 0 : -errno;
}

}  // namespace

int open() {
  const int low = ::open(CR_DEVICE, O_RDWR | O_CLOEXEC);
  if (low < 0) {
    const bool absent = errno == ENOENT || errno == ENODEV || errno == ENXIO;
    return absent ? -ENOSYS : -errno;
  }
  cr_info info{};
  if (const int rc = checked_ioctl(low, CR_IOC_INFO, &info); rc != 0) {
    ::close(low);
    return rc == -ENOTTY ? -ENOSYS : rc;
  }
  if (info.api_version != CR_API_VERSION || (info.features & CR_FEAT_AGENT) == 0) {
    ::close(low);
    return -CR_EVERSION;
  }
  const int high = ::fcntl(low, F_DUPFD_CLOEXEC, kLowestNumber);
  if (high < 0) return low;  // RLIMIT_NOFILE is too small: keep the low number
  ::close(low);
  return high;
}

void close(int fd) { ::close(fd); }

bool present() { return ::access(CR_DEVICE, F_OK) == 0; }

int wait(int fd, cr_agent& agent) { return checked_ioctl(fd, CR_IOC_AGENT_WAIT, &agent); }

int ready(int fd, cr_agent& agent) { return checked_ioctl(fd, CR_IOC_AGENT_READY, &agent); }

void failed(int fd, int code) {
  cr_agent agent{};
  agent.flags = CR_AGENT_FAILED;
  agent.status = code;
  checked_ioctl(fd, CR_IOC_AGENT_WAIT, &agent);
}

void origin(int fd, char* path, unsigned size) {
  cr_origin origin{};
  origin.path = reinterpret_cast<std::uintptr_t>(path);
  origin.len = size;
  path[0] = '\0';
  if (checked_ioctl(fd, CR_IOC_AGENT_ORIGIN, &origin) != 0) path[0] = '\0';
  path[size - 1] = '\0';
}

int ask(int mem) {
  const int fd = ::open(CR_DEVICE, O_RDWR | O_CLOEXEC);
  if (fd < 0) return errno;
  cr_attach attach{};
  attach.mem_fd = mem;
  int rc = checked_ioctl(fd, CR_IOC_ATTACH, &attach);
  cr_notify notify{};
  if (rc == 0) rc = checked_ioctl(fd, CR_IOC_NOTIFY, &notify);
  ::close(fd);
  return -rc;
}

}  // namespace reprise::api::device
