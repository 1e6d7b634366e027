// SPDX-License-Identifier: GPL-2.0-only
#include "crd/kept_copies.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include <asio/post.hpp>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/kept_make.h"
#include "base/kept_name.h"
#include "base/proc_dir.h"
#include "base/text.h"
#include "crd/image_store.h"
#include "crd/images/packed_memory.h"
#include "crd/images/part_file.h"
#include "crd/serving.h"
#include "job/files.h"
#include "job/log.h"
#include "job/names.h"

namespace reprise::crd {
namespace {

/** Pieces of memory of one rank, at most. */
constexpr std::size_t kMost = 64;

#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

/** The memory that a rank wants to be copied. */
struct Memory {
  UniqueFd fd;  ///< with a position of its own
  std::uint64_t size = 0;
};

/** Throws std::runtime_error, which says why descriptor @p number of a rank is not its kept memory @p name. */
Memory memory_of(pid_t pid, int number, const std::string& name) {
  const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  const UniqueFd its(process ? static_cast<int>(::syscall(SYS_pidfd_getfd, process.get(), number, 0)) : -1);
  if (!its) throw std::runtime_error("its descriptor cannot be had: " + error_text(errno));
  const std::string path = ProcDir("/proc/self/fd").link(std::to_string(its.get()));
  if (::fcntl(its.get(), F_GET_SEALS) < 0 || path != "/memfd:" + std::string(kCopiedPrefix) + name + std::string(kKeptEnd))
    throw std::runtime_error("it was not allocated with CR_KEPT_COPIED");
  Memory out;
  // lseek() must not move the rank's own position.
  out.fd.reset(::open(("/proc/self/fd/" + std::to_string(its.get())).c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status {};
  if (!out.fd || ::fstat(out.fd.get(), &status) != 0) throw std::runtime_error("it cannot be read: " + error_text(errno));
  out.size = static_cast<std::uint64_t>(status.st_size);
  return out;
}

/** Make the directory of copies. @return "", or the error */
std::string open_directory(const std::string& directory) {
  try {
    std::error_code ignored;
    std::filesystem::create_directories(std::filesystem::path(directory).parent_path(), ignored);
    job::make_private_directory(directory);
    job::make_private_directory(job::kept_directory(directory));
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

std::string path_of(const std::string& directory, const job::KeptCopy& copy) {
  return job::kept_copy_path(directory, copy.rank(), copy.version(), copy.name());
}

/** Write what @p memory has now, and complete @p copy. Throws. */
void pack(const std::string& directory, const Memory& memory, job::KeptCopy& copy, const std::function<bool()>& wanted) {
  PartFile file(path_of(directory, copy));
  const PackedMemory packed = pack_memory(memory.fd.get(), memory.size, file, wanted);
  file.take_name(false);
  copy.set_bytes(packed.bytes);
  copy.set_checksum(packed.checksum);
}

/** Read a copy from a node that has it. Throws. */
void read(const std::string& directory, const Readers& readers, const job::KeepCopy& order, const std::function<bool()>& wanted) {
  const job::KeptCopy& copy = order.copy();
  ImageRequest request = request_of(ImageRequest::KEPT, 0, copy.rank());
  request.set_version(copy.version());
  request.set_name(copy.name());
  Sources sources(readers, {order.sources().begin(), order.sources().end()}, 0);
  std::string problems;
  for (const job::ImageSource& source : order.sources()) try {
      PartFile file(path_of(directory, copy));
      PackedChecksum checksum;
      sources.reading(source, [&](ImageClient& from) {
        from.read(request, 0, copy.bytes(), {0, wanted, nullptr}, [&](std::uint64_t offset, std::span<const char> content) {
          file.write(offset, content);
          checksum.add(content.data(), content.size());
        });
      });
      if (checksum.sum() != copy.checksum()) throw std::runtime_error(sources.host(source.node()) + " has sent something else");
      return file.take_name(false);
    } catch (const std::system_error&) {  // this node's own problem, or the end
      throw;
    } catch (const std::exception& problem) {
      problems += (problems.empty() ? "" : "; ") + std::string(problem.what());
    }
  throw std::runtime_error(problems.empty() ? "no node has it" : problems);
}

}  // namespace

KeptCopies::~KeptCopies() {
  stop();
  thread_.join();
  bringing_.join();
}

std::function<bool()> KeptCopies::wanted() const {
  return [wanted = wanted_] { return wanted->load(); };
}

void KeptCopies::stop() {
  *wanted_ = false;
  wanted_ = std::make_shared<std::atomic<bool>>(true);
}

void KeptCopies::asked(const RankMessage& message) {
  const auto& request = message.as<cr_rank_copy_kept>();
  const std::uint32_t rank = request.head.rank;
  const std::string name = message.text(sizeof request);
  const Rank* const it = node_.find(rank);
  if (!it || !it->alive() || request.head.recovery != node_.recovery) return;  // it asks again
  const auto found = asked_.find({rank, name});
  if (found != asked_.end() && found->second.under_way) return;
  if (found != asked_.end() && found->second.id == request.id) return answer(rank, found->second, found->second.status, found->second.why);
  Asked refused;
  refused.id = request.id;
  const auto first = asked_.lower_bound({rank, ""}), end = asked_.lower_bound({rank + 1, ""});
  if (!valid_kept_name(name)) return answer(rank, refused, EINVAL, "kept memory has no such name");
  if (node_.job.redundancy().kind() != job::Redundancy::PARTNER)
    return answer(rank, refused, EOPNOTSUPP, "the nodes of this job keep no copies: start it with crrun --redundancy partner");
  if (!serves_()) return answer(rank, refused, EHOSTUNREACH, "no other node can read from this one");
  if (found == asked_.end() && static_cast<std::size_t>(std::distance(first, end)) >= kMost)
    return answer(rank, refused, ENOSPC, fmt::format("copies of {} pieces of memory are kept for a rank", kMost));
  std::shared_ptr<Memory> memory;
  try {
    memory = std::make_shared<Memory>(memory_of(request.pid, request.fd, name));
  } catch (const std::exception& problem) {
    return answer(rank, refused, EINVAL, problem.what());
  }
  job::KeptCopy copy;
  copy.set_rank(rank);
  copy.set_name(name);
  // A rank comes to another daemon by a recovery only.
  copy.set_version(std::uint64_t{node_.recovery} << 32 | ++count_);
  copy.set_wave(it->imaged_in);
  copy.set_size(memory->size);
  asked_[{rank, name}] = {request.id, copy.version(), true, 0, ""};
  const auto failed = [this](const job::KeptCopy& copy, const std::string& why) {
    const auto waiting = asked_.find({copy.rank(), copy.name()});
    if (waiting != asked_.end() && waiting->second.version == copy.version()) answer(copy.rank(), waiting->second, EIO, why);
  };
  with_room(packed_bytes(memory->fd.get(), memory->size), [this, failed, memory, copy, wanted = wanted()](const std::string& room) mutable {
    if (!room.empty()) return failed(copy, room);
    asio::post(thread_, [this, failed, memory, copy, wanted, directory = node_.images()]() mutable {
      std::string why;
      try {
        pack(directory, *memory, copy, wanted);
      } catch (const std::exception& problem) {
        why = problem.what();
      }
      asio::post(node_.loop, [this, failed, copy, why, wanted] {
        if (wanted()) why.empty() ? has(copy, "") : failed(copy, why);
      });
    });
  });
}

void KeptCopies::with_room(std::uint64_t bytes, std::function<void(const std::string&)> then) {
  node_.on_disk(
      [directory = node_.images(), limit = node_.job.local_limit_bytes(), bytes] {
        const std::string why = open_directory(directory);
        return why.empty() ? image_store::room_for(directory, bytes, limit, "a copy of kept memory") : why;
      },
      [then = std::move(then), wanted = wanted()](const std::string& why) {
        if (wanted()) then(why);
      });
}

void KeptCopies::answer(std::uint32_t rank, Asked& asked, int status, const std::string& why) {
  asked.under_way = false;
  asked.status = status;
  asked.why = why;
  cr_rank_kept_copied message{};
  message.head = {CR_RANK_KEPT_COPIED, static_cast<std::uint32_t>(sizeof message + why.size()), rank, node_.recovery};
  message.id = asked.id;
  message.status = status;
  std::string packet(sizeof message, '\0');
  std::memcpy(packet.data(), &message, sizeof message);
  packet += why;
  node_.tell(rank, packet.data(), packet.size());
}

void KeptCopies::copied(const job::KeptCopied& message) {
  const job::KeptCopy& copy = message.copy();
  const auto found = asked_.find({copy.rank(), copy.name()});
  if (found == asked_.end() || !found->second.under_way || found->second.version != copy.version()) return;
  answer(copy.rank(), found->second, message.status(), message.why());
}

/** A copy is here, or could not be read. */
void KeptCopies::has(const job::KeptCopy& copy, const std::string& error) {
  if (error.empty()) {
    job::KeptCopy& newest = here_[{copy.rank(), copy.name()}];
    const job::KeptCopy older = newest.version() < copy.version() ? std::exchange(newest, copy) : copy;
    if (older.version() && older.version() != newest.version())
      asio::post(node_.disk, [path = path_of(node_.images(), older)] { ::unlink(path.c_str()); });
  }
  tell(copy, error);
}

void KeptCopies::tell(const job::KeptCopy& copy, const std::string& error) const {
  job::Up up;
  job::HasCopy& has = *up.mutable_has_copy();
  *has.mutable_copy() = copy;
  has.set_error(error);
  const auto waiting = asked_.find({copy.rank(), copy.name()});
  has.set_asked(waiting != asked_.end() && waiting->second.under_way && waiting->second.version == copy.version());
  node_.send(std::move(up));
}

void KeptCopies::introduce() {
  for (const auto& [name, copy] : here_) tell(copy, "");
}

void KeptCopies::keep(const job::KeepCopy& order) {
  const job::KeptCopy& copy = order.copy();
  if (order.to() != node_.index || !valid_kept_name(copy.name())) return;
  if (const auto there = here_.find({copy.rank(), copy.name()}); there != here_.end() && there->second.version() >= copy.version())
    return tell(there->second, "");
  with_room(copy.bytes(), [this, order, wanted = wanted()](const std::string& room) {
    if (!room.empty()) return has(order.copy(), room);
    asio::post(thread_, [this, order, wanted, directory = node_.images(), readers = readers_of(node_)] {
      std::string why;
      try {
        read(directory, readers, order, wanted);
      } catch (const std::exception& problem) {
        why = problem.what();
      }
      asio::post(node_.loop, [this, copy = order.copy(), why, wanted] {
        if (wanted()) has(copy, why);
      });
    });
  });
}

std::vector<job::KeepCopy> KeptCopies::orders(const job::Recover& message) const {
  std::vector<job::KeepCopy> out;
  for (const job::KeepCopy& order : message.kept())
    if (order.to() == node_.index && valid_kept_name(order.copy().name())) out.push_back(order);
  return out;
}

namespace {

/** Of one order, for a recovery. */
struct Result {
  job::KeptCopy copy;
  std::string why;  ///< "": it is here now
  std::shared_ptr<HeldMemory> memory;
};

Result brought(const std::string& directory, const Readers& readers, const job::KeepCopy& order, bool here,
               const std::function<bool()>& wanted) {
  Result out{order.copy(), "", nullptr};
  const job::KeptCopy& copy = out.copy;
  try {
    if (!here) read(directory, readers, order, wanted);
    UniqueFd made(make_kept_memory(copy.name().c_str(), copy.size(), true));
    if (!made) job::throw_errno("no memory");
    unpack_memory(path_of(directory, copy), {copy.bytes(), copy.checksum()}, made.get(), copy.size());
    out.memory = std::make_shared<HeldMemory>(HeldMemory{std::move(made)});
  } catch (const std::exception& problem) {
    out.why = problem.what();
  }
  return out;
}

}  // namespace

void KeptCopies::bring(std::uint32_t wave, std::vector<job::KeepCopy> orders, Then then) {
  // What a rank has left here is newer than what was copied.
  std::erase_if(orders, [&](const job::KeepCopy& order) {
    const RankMemory left = node_.kept.of(wave, order.copy().rank());
    const auto found = left.find(order.copy().name());
    return found != left.end() && !found->second->unfilled;
  });
  if (orders.empty()) return then({});
  const auto finish = [this, wave, then = std::move(then)](const std::vector<Result>& results) {
    std::vector<Brought> out;
    for (const Result& one : results) {
      has(one.copy, one.why);
      if (one.why.empty())
        out.push_back({one.copy.rank(), one.copy.name(), one.memory});
      else
        node_.say(job::Log::WARNING,
                  fmt::format("its kept memory {} is as in wave {}: what was copied since is lost: {}", one.copy.name(), wave, one.why),
                  one.copy.rank());
    }
    then(std::move(out));
  };
  std::uint64_t bytes = 0;
  for (const job::KeepCopy& order : orders) bytes += order.copy().bytes();
  with_room(bytes, [this, orders, finish, wanted = wanted()](const std::string& room) {
    if (!room.empty()) {
      std::vector<Result> none;
      for (const job::KeepCopy& order : orders) none.push_back({order.copy(), room, nullptr});
      return finish(none);
    }
    asio::post(bringing_, [this, orders, finish, wanted, here = here_, directory = node_.images(), readers = readers_of(node_)] {
      std::vector<Result> results;
      for (const job::KeepCopy& order : orders) {
        const auto there = here.find({order.copy().rank(), order.copy().name()});
        const bool is_here = there != here.end() && there->second.version() == order.copy().version();
        results.push_back(brought(directory, readers, order, is_here, wanted));
      }
      asio::post(node_.loop, [finish, wanted, results] {
        if (wanted()) finish(results);
      });
    });
  });
}

void KeptCopies::prune(const std::vector<std::uint32_t>& keep) {
  if (keep.empty()) return;
  const std::uint32_t oldest = *std::min_element(keep.begin(), keep.end());
  for (auto at = here_.begin(); at != here_.end();) {
    const auto one = at++;
    if (one->second.wave() >= oldest) continue;
    asio::post(node_.disk, [path = path_of(node_.images(), one->second)] { ::unlink(path.c_str()); });
    here_.erase(one);
  }
}

void KeptCopies::forget() {
  stop();
  here_.clear();
  asked_.clear();
  asio::post(node_.disk, [directory = job::kept_directory(node_.images())] {
    std::error_code ignored;
    std::filesystem::remove_all(directory, ignored);
  });
}

}  // namespace reprise::crd
