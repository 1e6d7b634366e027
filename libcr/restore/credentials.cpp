// SPDX-License-Identifier: LGPL-2.1-or-later
#include "restore/credentials.h"

#include <linux/capability.h>
#include <linux/securebits.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "base/error.h"
#include "base/text.h"
#include "base/proc_dir.h"

namespace reprise {
namespace {

constexpr std::uint32_t kKnownBits = 0xff;  // SECURE_ALL_BITS and SECURE_ALL_LOCKS of Linux 4.3

std::vector<std::uint32_t> numbers(const std::string& text) {
  std::vector<std::uint32_t> all;
  std::istringstream in(text);
  for (std::uint32_t number; in >> number;) all.push_back(number);
  return all;
}

std::array<std::uint32_t, 4> four(const std::string& status, const char* key) {
  const auto all = numbers(proc_field(status, key));
  if (all.size() != 4) throw Error(Failure::permanent, 0, std::string("cannot understand the line ") + key + " of a status file");
  return {all[0], all[1], all[2], all[3]};
}

std::uint64_t set_of(const std::string& status, const char* key) {
  return std::strtoull(proc_field(status, key).c_str(), nullptr, 16);
}

bool capable(const Credentials& who, int capability) { return (who.effective >> capability) & 1; }

/** Whether each of the three ids is the thread's real, effective or saved id: setresuid(2) then needs no capability. */
bool among(const std::array<std::uint32_t, 4>& wanted, const std::array<std::uint32_t, 4>& has) {
  return std::all_of(wanted.begin(), wanted.end(),
                     [&](std::uint32_t id) { return std::find(has.begin(), has.begin() + 3, id) != has.begin() + 3; });
}

std::string ids_text(const std::array<std::uint32_t, 4>& ids) {
  return std::to_string(ids[0]) + "/" + std::to_string(ids[1]) + "/" + std::to_string(ids[2]);
}

template <class Message>
Credentials from_message(const Message& saved, std::uint64_t known) {
  Credentials result;
  for (int i = 0; i < 4 && i < saved.uids_size(); ++i) result.uids[static_cast<std::size_t>(i)] = saved.uids(i);
  for (int i = 0; i < 4 && i < saved.gids_size(); ++i) result.gids[static_cast<std::size_t>(i)] = saved.gids(i);
  result.groups.assign(saved.groups().begin(), saved.groups().end());
  std::sort(result.groups.begin(), result.groups.end());
  result.inheritable = saved.cap_inheritable() & known;
  result.permitted = saved.cap_permitted() & known;
  result.effective = saved.cap_effective() & known;
  result.bounding = saved.cap_bounding() & known;
  result.ambient = saved.cap_ambient() & known;
  result.securebits = saved.securebits();
  result.no_new_privs = saved.no_new_privs();
  return result;
}

template <class Message>
void to_message(const Credentials& has, Message& saved) {
  saved.mutable_uids()->Assign(has.uids.begin(), has.uids.end());
  saved.mutable_gids()->Assign(has.gids.begin(), has.gids.end());
  saved.mutable_groups()->Assign(has.groups.begin(), has.groups.end());
  saved.set_cap_inheritable(has.inheritable);
  saved.set_cap_permitted(has.permitted);
  saved.set_cap_effective(has.effective);
  saved.set_cap_bounding(has.bounding);
  saved.set_cap_ambient(has.ambient);
  saved.set_securebits(has.securebits);
  saved.set_no_new_privs(has.no_new_privs);
}

/**
 * @param may  the thread has CAP_SETPCAP
 * @return why a thread with @p from cannot set the securebits of @p to, "" if it can
 */
std::string why_not_securebits(const Credentials& from, const Credentials& to, bool may) {
  constexpr std::uint32_t locks = SECURE_ALL_LOCKS, keep = SECBIT_KEEP_CAPS;
  const std::uint32_t change = from.securebits ^ to.securebits;
  const std::uint32_t locked = (from.securebits & locks) >> 1 | (from.securebits & locks);
  // SECBIT_KEEP_CAPS needs no capability (PR_SET_KEEPCAPS). Bits beyond kKnownBits do not exist on all kernels.
  bool can = !(change & locked) && !(change & ~kKnownBits) && (may || !(change & ~keep));
  if (must_keep_capabilities(from, to)) can = can && !(from.securebits & SECBIT_KEEP_CAPS_LOCKED);
  if (raises_ambient(from, to) && from.securebits & SECBIT_NO_CAP_AMBIENT_RAISE)
    can = can && may && !(from.securebits & SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED);
  if (can) return {};
  return "securebits " + hex(to.securebits) + ", now " + hex(from.securebits);
}

}  // namespace

Credentials parse_credentials(const std::string& status) {
  Credentials result;
  result.uids = four(status, "Uid:");
  result.gids = four(status, "Gid:");
  result.groups = numbers(proc_field(status, "Groups:"));
  std::sort(result.groups.begin(), result.groups.end());
  result.inheritable = set_of(status, "CapInh:");
  result.permitted = set_of(status, "CapPrm:");
  result.effective = set_of(status, "CapEff:");
  result.bounding = set_of(status, "CapBnd:");
  result.ambient = set_of(status, "CapAmb:");
  result.no_new_privs = proc_field(status, "NoNewPrivs:") == "1";
  return result;
}

Credentials own_credentials() {
  Credentials own = parse_credentials(ProcDir("/proc/thread-self").read("status"));
  own.securebits = static_cast<std::uint32_t>(::prctl(PR_GET_SECUREBITS));
  return own;
}

Credentials saved_credentials(const Environment& saved, std::uint64_t known) { return from_message(saved, known); }

Credentials saved_credentials(const Process& image, const Thread& thread, std::uint64_t known) {
  return thread.has_credentials() ? from_message(thread.credentials(), known) : from_message(image.env(), known);
}

void save_credentials(const Credentials& has, Environment& saved) { to_message(has, saved); }
void save_credentials(const Credentials& has, Thread::Credentials& saved) { to_message(has, saved); }

Credentials executed_by(const Credentials& caller) {
  Credentials result = caller;
  // execve(2) keeps all capabilities of root, and only the ambient ones of other users.
  if (caller.uids[0] != 0 && caller.uids[1] != 0) result.permitted = result.effective = caller.ambient;
  return result;
}

std::array<__user_cap_data_struct, 2> capability_words(const Credentials& who) {
  std::array<__user_cap_data_struct, 2> words{};
  for (std::size_t i = 0; i < words.size(); ++i)
    words[i] = {static_cast<std::uint32_t>(who.effective >> (32 * i)), static_cast<std::uint32_t>(who.permitted >> (32 * i)),
                static_cast<std::uint32_t>(who.inheritable >> (32 * i))};
  return words;
}

std::uint64_t known_capabilities() {
  const auto text = ProcDir("/proc/sys/kernel").try_read("cap_last_cap");
  const int last = text ? std::atoi(text->c_str()) : 40;
  return last >= 63 ? ~0ULL : (1ULL << (last + 1)) - 1;
}

std::string why_not(const Credentials& from, const Credentials& to) {
  // The thread can make its permitted capabilities effective, and PR_SET_KEEPCAPS keeps them while the ids change.
  Credentials able = from;
  able.effective = from.permitted;
  if (to.uids != from.uids && !among(to.uids, from.uids) && !capable(able, CAP_SETUID))
    return "user ids " + ids_text(to.uids) + ", now " + ids_text(from.uids);
  if (to.gids != from.gids && !among(to.gids, from.gids) && !capable(able, CAP_SETGID))
    return "group ids " + ids_text(to.gids) + ", now " + ids_text(from.gids);
  if (to.groups != from.groups && !capable(able, CAP_SETGID)) return "supplementary groups";
  if (const std::uint64_t more = to.permitted & ~from.permitted) return "capabilities " + hex(more);
  if (const std::uint64_t more = to.inheritable & ~(from.inheritable | from.permitted))
    return "inheritable capabilities " + hex(more);
  if (const std::uint64_t more = to.inheritable & ~(from.inheritable | from.bounding))
    return "inheritable capabilities " + hex(more) + " of its bounding set";
  if (from.bounding & ~to.bounding && !capable(able, CAP_SETPCAP))
    return "CAP_SETPCAP, which its narrower bounding set takes";
  if (const std::string bits = why_not_securebits(from, to, capable(able, CAP_SETPCAP)); !bits.empty()) return bits;
  return {};
}

bool must_keep_capabilities(const Credentials& from, const Credentials& to) {
  const auto root = [](const Credentials& who) { return !who.uids[0] || !who.uids[1] || !who.uids[2]; };
  return from.permitted && root(from) && !root(to) && !(from.securebits & (SECBIT_KEEP_CAPS | SECBIT_NO_SETUID_FIXUP));
}

bool raises_ambient(const Credentials& from, const Credentials& to) {
  return to.ambient && (from.ambient != to.ambient || from.uids != to.uids);
}

Credentials reachable(const Credentials& from, const Credentials& to) {
  Credentials result = to;
  result.bounding &= from.bounding;
  result.no_new_privs |= from.no_new_privs;
  return result;
}

std::string narrower(const Credentials& from, const Credentials& to) {
  std::string text;
  if (const std::uint64_t lost = to.bounding & ~from.bounding)
    text = "its bounding set lacks capabilities " + hex(lost) + " for programs that it may execute";
  if (from.no_new_privs && !to.no_new_privs)
    text += std::string(text.empty() ? "" : "; ") + "no_new_privs was set since and stays so";
  return text;
}

}  // namespace reprise
