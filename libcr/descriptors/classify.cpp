// SPDX-License-Identifier: LGPL-2.1-or-later
#include "descriptors/classify.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <array>
#include <string_view>
#include <utility>

namespace reprise {
namespace {

using std::string_view;

bool starts(string_view text, string_view with) { return text.substr(0, with.size()) == with; }

struct Anonymous {
  string_view name;  // what follows "anon_inode:", with or without brackets
  Description::Kind kind;
  const char* refusal;
};

constexpr Anonymous kAnonymous[] = {
    {"eventfd", Description::EVENTFD, nullptr},
    {"eventpoll", Description::EPOLL, nullptr},
    {"timerfd", Description::TIMERFD, nullptr},
    {"signalfd", Description::SIGNALFD, nullptr},
    {"inotify", Description::INOTIFY, nullptr},
    {"pidfd", Description::PIDFD, nullptr},
    {"io_uring", Description::OTHER, "an io_uring instance"},
    {"perf_event", Description::OTHER, "a performance counter (perf)"},
    {"userfaultfd", Description::OTHER, "a userfaultfd"},
    {"fanotify", Description::OTHER, "a fanotify group"},
    {"bpf", Description::OTHER, "a BPF object"},
    {"kvm", Description::OTHER, "a KVM virtual machine"},
    {"seccomp notify", Description::OTHER, "a seccomp listener"},
    {"landlock-ruleset", Description::OTHER, "a Landlock rule set"},
    {"fscontext", Description::OTHER, "a file system being mounted"},
    {"sync_file", Description::OTHER, "a GPU fence"},
    {"dmabuf", Description::OTHER, "a DMA buffer"},
    {"vfio", Description::OTHER, "a VFIO device"},
    {"iommufd", Description::OTHER, "an IOMMU context"},
};

Classified refused(std::string what) { return {Description::OTHER, false, std::move(what)}; }

Classified anonymous(string_view link) {
  string_view name = link.substr(string_view("anon_inode:").size());
  if (!name.empty() && name.front() == '[') name.remove_prefix(1);
  for (const Anonymous& known : kAnonymous) {
    if (!starts(name, known.name)) continue;
    if (known.refusal) return refused(known.refusal);
    return {known.kind, false, {}};
  }
  return refused("a special file (" + std::string(link) + ")");
}

// Devices without state: reopening them is enough.
constexpr std::pair<unsigned, unsigned> kStateless[] = {
    {1, 3} /* null */,   {1, 5} /* zero */,    {1, 7} /* full */,
    {1, 8} /* random */, {1, 9} /* urandom */, {1, 11} /* kmsg */,
};

struct DeviceClass {
  unsigned major, first, last;
  const char* refusal;
};
constexpr DeviceClass kRefusedDevices[] = {
    {1, 1, 4, "physical memory or ports"},
    {10, 126, 126, "a userfaultfd device"},
    {10, 200, 200, "a network tunnel (/dev/net/tun)"},
    {10, 229, 229, "a FUSE file system"},
    {10, 232, 232, "a KVM device"},
    {13, 0, ~0U, "an input device"},
    {29, 0, ~0U, "a frame buffer"},
    {81, 0, ~0U, "a video device"},
    {116, 0, ~0U, "a sound device"},
    {195, 0, ~0U, "a GPU"},
    {226, 0, ~0U, "a GPU"},
    {231, 0, ~0U, "an RDMA device"},
};

bool terminal_major(unsigned number) {
  return number == 4 || number == 5 || (number >= 136 && number <= 143) || number == 188 || number == 204 ||
         number == 229;
}

Classified device(const std::string& link, std::uint64_t rdev) {
  const unsigned ma = major(rdev), mi = minor(rdev);
  for (const auto& known : kStateless)
    if (known == std::pair{ma, mi}) return {Description::CHARDEV, false, {}};
  for (const DeviceClass& known : kRefusedDevices)
    if (known.major == ma && mi >= known.first && mi <= known.last)
      return refused(std::string(known.refusal) + " (" + link + ")");
  if (terminal_major(ma)) return {Description::TERMINAL, false, {}};
  return {Description::TERMINAL, true, {}};
}

}  // namespace

const char* kind_name(Description::Kind kind) {
  switch (kind) {
    case Description::REGULAR: return "file";
    case Description::DIRECTORY: return "directory";
    case Description::CHARDEV: return "device";
    case Description::PIPE: return "pipe";
    case Description::FIFO: return "FIFO";
    case Description::EVENTFD: return "eventfd";
    case Description::EPOLL: return "epoll set";
    case Description::TIMERFD: return "timerfd";
    case Description::SIGNALFD: return "signalfd";
    case Description::INOTIFY: return "inotify instance";
    case Description::TERMINAL: return "terminal";
    case Description::SOCKET: return "socket";
    case Description::MEMFD: return "memfd";
    case Description::PIDFD: return "pidfd";
    case Description::CR_AGENT: return "/dev/cr";
    default: return "special file";
  }
}

Classified classify(const std::string& link, std::uint32_t mode, std::uint64_t rdev, std::uint32_t f_flags,
                    bool agent) {
  if (agent) return {Description::CR_AGENT, false, {}};
  // Check the link before the mode: newer kernels set a file type on some anonymous inodes.
  if (starts(link, "anon_inode:")) return anonymous(link);
  if (starts(link, "pidfd:")) return {Description::PIDFD, false, {}};
  if (starts(link, "/memfd:")) return {Description::MEMFD, false, {}};
  if (starts(link, "/dmabuf:")) return refused("a DMA buffer");
  if (starts(link, "pipe:[")) return {Description::PIPE, false, {}};
  if (starts(link, "socket:[")) return {Description::SOCKET, false, {}};
  if (link == "bpf-map" || link == "bpf-prog" || link == "bpf_link") return refused("a BPF object");
  if (link.empty() || link.front() != '/') {
    // Namespaces, such as mnt:[4026531841].
    if (link.find(":[") != std::string::npos) return refused("a namespace (" + link + ")");
    return refused("a special file (" + link + ")");
  }
  if (f_flags & O_PATH) return {S_ISDIR(mode) ? Description::DIRECTORY : Description::REGULAR, false, {}};
  switch (mode & S_IFMT) {
    case S_IFREG: return {Description::REGULAR, false, {}};
    case S_IFDIR: return {Description::DIRECTORY, false, {}};
    case S_IFIFO: return {Description::FIFO, false, {}};
    case S_IFBLK: return {Description::CHARDEV, false, {}};
    case S_IFCHR: return device(link, rdev);
    default: return refused("a special file (" + link + ")");
  }
}

}  // namespace reprise
