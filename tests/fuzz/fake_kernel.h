// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file
 * The kernel and the module as libcr sees them during a rollback. The linker puts these functions in the place of the
 * system calls that libcr makes (--wrap, see CMakeLists.txt). No call that could change the machine gets through. Every
 * call is checked for effects that no image may cause; the first such call ends the run.
 */
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <sys/stat.h>
#include <sys/types.h>

#include "base/unique_fd.h"
#include "cr.h"
#include "image/state.pb.h"
#include "rollback_case.pb.h"

namespace reprise::fuzz {

/** The name under which libcr opens the image. */
inline constexpr std::uint32_t kOwner = 1000;  ///< user and group of this process and of the target
inline constexpr char kImageName[] = "/image-under-test";

class FakeKernel {
 public:
  /** @param state the state in the image @param image file with its bytes. Replaces the kernel until it is destroyed. */
  FakeKernel(const RollbackCase& what, const Process& state, UniqueFd image);
  ~FakeKernel();
  FakeKernel(const FakeKernel&) = delete;
  FakeKernel& operator=(const FakeKernel&) = delete;

  static FakeKernel* now();

  bool committed() const { return committed_; }
  /** Check after a successful rollback: the process matches the image. */
  void check_complete() const;
  /** Check after a failed rollback: nothing was changed, or the process has been killed. */
  void check_refused() const;

  // the system calls of libcr's own process; they return -errno on failure
  int open(const char* path, int flags, mode_t mode);
  int ioctl(int fd, unsigned long request, void* arg);
  void* map(std::size_t size);
  ssize_t pread(int fd, void* to, std::size_t size, std::uint64_t at);
  ssize_t pwrite(int fd, const void* from, std::size_t size, std::uint64_t at);
  int fstat(int fd, struct ::stat& st);
  int lstat(const char* path, struct ::stat& st);
  int unlink(const char* path);
  int bind(const void* address, std::size_t size);
  int connect(const void* address, std::size_t size);
  int kill(pid_t pid, int signal);
  int prlimit(pid_t pid, int resource, const void* wanted, void* old);
  int truncate(int fd, std::uint64_t size);
  int option(int level, const void* value, std::size_t size) const;
  int watch(int fd);
  long syscall(long nr, const std::uint64_t (&arg)[6]);

  bool is_device(int fd) const { return devices_.count(fd) > 0; }
  bool is_memory(int fd) const { return memories_.count(fd) > 0; }
  bool is_arena(const void* at) const { return at == arena_.data(); }
  void closed(int fd);

 private:
  struct Range {
    std::uint64_t start, end;
  };
  [[noreturn]] void harm(const std::string& what) const;
  void need(bool harmless, const char* what) const {
    if (!harmless) harm(what);
  }
  void make_target();
  void make_mappings();
  int open_target(std::uint64_t ino, std::uint64_t dev, std::uint32_t mode, const std::string& path);
  const File* file_at(const std::string& path) const;
  void mark(int fd, const File& file);
  void check_rights() const;
  void check_own_rights() const;
  int fault(bool request);
  bool may_set_pcap() const { return case_.capabilities() >> 8 & 1; }

  std::int64_t run_one(pid_t tid, const cr_call& call);
  std::int64_t run_mapping(const cr_call& call);
  std::int64_t run_descriptor(const cr_call& call);
  std::int64_t run_open(const cr_call& call);
  cr_fd& add_descriptor();
  std::int64_t run_credentials(pid_t tid, const cr_call& call);
  std::int64_t run_prctl(pid_t tid, const cr_call& call);
  std::int64_t run_clone(const cr_call& call);
  std::int64_t run_timer(const cr_call& call);
  void check_range(std::uint64_t start, std::uint64_t size) const;
  void check_restore(const cr_restore& request) const;
  /** @return the bytes that a call's argument points to; they are in the arena */
  const char* argument(std::uint64_t at, std::size_t size) const;

  void remove(std::uint64_t start, std::uint64_t end);
  void add(std::uint64_t start, std::uint64_t end, std::uint64_t flags);
  bool is_free(std::uint64_t start, std::uint64_t end) const;
  bool in_image(std::uint64_t start, std::uint64_t end) const;

  bool has_thread(pid_t tid) const;
  int run(cr_run& request);
  int set_threads(cr_set_threads& request);
  int get_file(cr_get_file& request);
  int put_file(cr_put_file& request);
  int place_arena(cr_arena& request);

  const RollbackCase& case_;
  const Process& state_;
  UniqueFd image_;
  pid_t pid_;
  std::vector<cr_thread> threads_;
  std::vector<cr_fd> fds_;
  std::vector<cr_vma> vmas_;
  std::map<std::uint64_t, File> inodes_;     ///< files of descriptors and mappings
  std::map<int, File> files_;                ///< this process's descriptors that stand for files of the image
  std::set<int> devices_, memories_;
  std::set<std::string> made_;               ///< paths that were created with O_CREAT
  std::set<int> raised_;                     ///< limits that were raised before the commit
  std::set<int> opened_;                     ///< descriptors of the target that its own open(2) has made
  std::vector<char> arena_;
  std::uint64_t arena_addr_ = 0;
  std::set<int> put_;                        ///< numbers in the target that are ours
  std::map<pid_t, std::uint64_t> permitted_;  ///< what each thread has left itself last
  std::uint32_t fs_id_[2] = {1000, 1000};     ///< of the file system: group, user
  std::set<std::int64_t> timers_;
  bool timers_by_wish_ = false;
  /** Rights of the calling thread on files. */
  struct Rights {
    std::uint64_t effective = 0;
    std::uint32_t uid = kOwner, gid = kOwner;
    std::vector<std::uint32_t> groups = {kOwner};
    bool operator==(const Rights&) const = default;
  };
  Rights rights_;
  int next_timer_ = 0, next_pkey_ = 1;
  std::map<int, int> watches_;  ///< by inotify, the number of its last watch
  bool attached_ = false, frozen_ = false, committed_ = false, thawed_ = false, killed_ = false;
  std::size_t calls_ = 0, requests_ = 0;
};

}  // namespace reprise::fuzz
