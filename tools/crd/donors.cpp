// SPDX-License-Identifier: GPL-2.0-only
#include "crd/donors.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>
#include <utility>

#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <fcntl.h>
#include <sys/mman.h>

#include "base/descriptor_passing.h"
#include "crd/environment.h"
#include "crd/framed.h"
#include "crd/pmix_messages.pb.h"
#include "job/log.h"

namespace reprise::crd {
namespace {

/** A server that has accepted nothing by then is not waited for. */
constexpr std::chrono::seconds kPatience(20);

[[noreturn]] void fail(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

/** A donor, from this end of its socket. */
struct Donor : std::enable_shared_from_this<Donor> {
  Donor(asio::io_context& loop, int fd) : socket(loop, fd), timer(loop) {}
  asio::posix::stream_descriptor socket;
  asio::steady_timer timer;
  std::uint32_t rank = 0;
  Donors::Done done;
  UniqueFd connection;

  void begin() {
    timer.expires_after(kPatience);
    timer.async_wait([self = shared_from_this()](const asio::error_code& error) {
      if (!error) self->end(fmt::format("the PMIx server did not accept a connection for rank {} in {} s", self->rank, kPatience.count()));
    });
    await();
  }
  /**
   * The donor's libpmix reads from the connection as long as the donor lives. Its end is that of its socket: the kernel closes a
   * process' descriptors when its last thread has ended.
   */
  void await() {
    socket.async_wait(asio::posix::stream_descriptor::wait_read, [self = shared_from_this()](const asio::error_code& error) {
      if (error || !self->done) return;
      UniqueFd fd = receive_descriptor(self->socket.native_handle());
      if (fd) {
        self->connection = std::move(fd);
        return self->await();
      }
      if (errno == EAGAIN || errno == EINTR) return self->await();
      if (errno != ECONNRESET) return self->end(fmt::format("the connection of rank {} could not be taken over: {}", self->rank, std::strerror(errno)));
      self->end(self->connection ? "" : fmt::format("the donor of rank {}'s PMIx connection has ended", self->rank));
    });
  }
  void end(const std::string& error) {
    timer.cancel();
    asio::error_code ignored;
    socket.close(ignored);
    if (!error.empty()) connection.reset();
    if (auto call = std::exchange(done, nullptr)) call(std::move(connection), error);
  }
};

}  // namespace

void Donors::prepare() {
  if (process_ && process_->running()) return;
  auto [ours, its] = socket_pair();
  ::fcntl(ours.get(), F_SETFL, O_NONBLOCK);
  ProcessSpec spec;
  spec.argv = {"crd", "--donor"};
  spec.program = "/proc/self/exe";
  spec.environment = own_environment();
  spec.fds = {{0, its.get()}, {1, 2}, {2, 2}};
  process_ = std::make_unique<Process>(loop_, spec, nullptr, nullptr);
  control_ = std::move(ours);
}

void Donors::donate(std::uint32_t rank, std::vector<std::string> environment, Done done) {
  prepare();
  // The donor's view of the hardware does not matter, and hwloc's detection would take longer than the rest of its work.
  set_variable(environment, "HWLOC_SYNTHETIC", "pu:1");
  set_variable(environment, "HWLOC_PLUGINS_PATH", kNoPlugins);
  PmixDonation donation;
  for (std::string& variable : environment) donation.add_variables(std::move(variable));
  UniqueFd memory(::memfd_create("reprise-donor", MFD_CLOEXEC));
  if (!memory || !write_framed(memory.get(), donation)) fail("no memory for a donor's environment");
  auto [ours, its] = socket_pair();
  if (!send_descriptor(control_.get(), its.get()) || !send_descriptor(ours.get(), memory.get())) fail("a donor could not be told its rank");
  auto donor = std::make_shared<Donor>(loop_, ours.release());
  donor->rank = rank;
  donor->done = std::move(done);
  donor->begin();
}

}  // namespace reprise::crd
