// SPDX-License-Identifier: LGPL-2.1-or-later
#include "process/credentials_set.h"

#include <linux/capability.h>
#include <linux/securebits.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "session/checked_batch.h"

namespace reprise {
namespace {

constexpr std::uint32_t kKeep = ~0U;  // -1: leave this id as it is

/** Queues the credential calls of one thread. */
class Calls {
 public:
  Calls(Remote& remote, pid_t tid) : remote_(remote), tid_(tid), batch_(remote, tid) {}
  void add(const char* what, const Remote::Call& call) {
    batch_.must(call, [this, what] { return text(what); });
  }
  void prctl(const char* what, int option, std::uint64_t a, std::uint64_t b = 0) {
    add(what, {SYS_prctl, {static_cast<std::uint64_t>(option), a, b, 0, 0}});
  }
  void capabilities(const Credentials& to) {
    const __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    const auto words = capability_words(to);
    batch_.need(sizeof header + sizeof words + 32);  // each is aligned
    const std::uint64_t header_at = remote_.argument_of(header);
    add("capabilities", {SYS_capset, {header_at, remote_.argument_of(words)}});
  }
  void groups(const std::vector<std::uint32_t>& all) {
    std::uint64_t at = 0;
    const std::size_t bytes = all.size() * sizeof(std::uint32_t);
    batch_.need(bytes);
    if (bytes) std::memcpy(remote_.argument(bytes, at), all.data(), bytes);
    add("supplementary groups", {SYS_setgroups, {all.size(), at}});
  }
  /** Set fsuid or fsgid. These calls return the previous id and no errors: call again with -1 to check. */
  void filesystem_id(const char* what, long nr, std::uint32_t id) {
    add(what, {nr, {id}});
    add(what, {nr, {kKeep}});
    if (static_cast<std::uint32_t>(batch_.run().back()) != id)
      throw Error(Failure::permanent, EPERM, text(what) + ": " + error_text(EPERM));
  }
  void run() { batch_.run(); }

 private:
  std::string text(const char* what) const { return "thread " + std::to_string(tid_) + ": " + what; }

  Remote& remote_;
  pid_t tid_;
  CheckedBatch batch_;
};

void set_ambient(Calls& calls, std::uint64_t to) {
  calls.prctl("ambient capabilities", PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL);
  for (unsigned capability = 0; capability < 64; ++capability)
    if ((to >> capability) & 1) calls.prctl("ambient capabilities", PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, capability);
}

}  // namespace

void set_credentials(Remote& remote, pid_t tid, const Credentials& from, const Credentials& to) {
  Calls calls(remote, tid);
  const bool uids = !std::equal(to.uids.begin(), to.uids.begin() + 3, from.uids.begin());
  const bool gids = !std::equal(to.gids.begin(), to.gids.begin() + 3, from.gids.begin());
  // Raise all permitted capabilities to effective until everything else is set.
  Credentials able = to;
  able.permitted = able.effective = from.permitted;
  if (from.effective != able.effective || from.inheritable != able.inheritable) calls.capabilities(able);
  for (unsigned capability = 0; capability < 64; ++capability)
    if (((from.bounding & ~to.bounding) >> capability) & 1) calls.prctl("bounding set", PR_CAPBSET_DROP, capability);
  std::uint32_t bits = from.securebits;
  if (raises_ambient(from, to) && bits & SECBIT_NO_CAP_AMBIENT_RAISE)
    calls.prctl("securebits", PR_SET_SECUREBITS, bits &= ~static_cast<std::uint32_t>(SECBIT_NO_CAP_AMBIENT_RAISE));
  calls.run();

  if (from.groups != to.groups) calls.groups(to.groups);
  if (gids) calls.add("group ids", {SYS_setresgid, {to.gids[0], to.gids[1], to.gids[2]}});
  if (from.gids != to.gids) calls.filesystem_id("filesystem group id", SYS_setfsgid, to.gids[3]);
  if (uids) {
    if (must_keep_capabilities(from, to)) {
      calls.prctl("keeping capabilities", PR_SET_KEEPCAPS, 1);
      bits |= SECBIT_KEEP_CAPS;
    }
    calls.add("user ids", {SYS_setresuid, {to.uids[0], to.uids[1], to.uids[2]}});
    // Leaving user id 0 clears the effective set, and a change of fsuid from 0 its file system capabilities.
    if (able.permitted) calls.capabilities(able);
  }
  if (from.uids != to.uids) {
    calls.filesystem_id("filesystem user id", SYS_setfsuid, to.uids[3]);
    if (able.permitted) calls.capabilities(able);
  }
  calls.run();

  // Ambient capabilities must be permitted and inheritable, which holds from here on. A user id change cleared them.
  if (from.ambient != to.ambient || raises_ambient(from, to)) set_ambient(calls, to.ambient);
  const std::uint32_t other = bits ^ to.securebits;
  if (other & ~static_cast<std::uint32_t>(SECBIT_KEEP_CAPS))
    calls.prctl("securebits", PR_SET_SECUREBITS, to.securebits);
  else if (other)
    calls.prctl("keeping capabilities", PR_SET_KEEPCAPS, to.securebits & SECBIT_KEEP_CAPS ? 1 : 0);
  if (to.permitted != able.permitted || to.effective != able.effective) calls.capabilities(to);
  if (to.no_new_privs && !from.no_new_privs) calls.prctl("no_new_privs", PR_SET_NO_NEW_PRIVS, 1);
  calls.run();
}

}  // namespace reprise
