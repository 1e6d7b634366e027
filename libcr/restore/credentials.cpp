// SPDX-License-Identifier: LGPL-2.1-or-later
#include "restore/credentials.h"

#include <linux/capability.h>

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

/** Each of the three ids must be one that the thread already has in some place. */
bool among(const std::array<std::uint32_t, 4>& wanted, const std::array<std::uint32_t, 4>& has) {
  return std::all_of(wanted.begin(), wanted.end(),
                     [&](std::uint32_t id) { return std::find(has.begin(), has.begin() + 3, id) != has.begin() + 3; });
}

std::string ids_text(const std::array<std::uint32_t, 4>& ids) {
  return std::to_string(ids[0]) + "/" + std::to_string(ids[1]) + "/" + std::to_string(ids[2]);
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

Credentials saved_credentials(const Environment& saved, std::uint64_t known) {
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
  result.no_new_privs = saved.no_new_privs();
  return result;
}

Credentials executed_by(const Credentials& caller) {
  Credentials result = caller;
  // Root keeps all that it has; from anybody else only ambient capabilities are handed on.
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
  // A saved user id of 0 can be taken up again, and brings the permitted capabilities into force.
  Credentials able = from;
  if (std::find(from.uids.begin(), from.uids.begin() + 3, 0U) != from.uids.begin() + 3) able.effective = from.permitted;
  if (to.uids != from.uids && !among(to.uids, from.uids) && !capable(able, CAP_SETUID))
    return "user ids " + ids_text(to.uids) + ", now " + ids_text(from.uids);
  if (to.gids != from.gids && !among(to.gids, from.gids) && !capable(able, CAP_SETGID))
    return "group ids " + ids_text(to.gids) + ", now " + ids_text(from.gids);
  if (to.groups != from.groups && !capable(able, CAP_SETGID)) return "supplementary groups";
  if (const std::uint64_t more = to.permitted & ~from.permitted) return "capabilities " + hex(more);
  if (const std::uint64_t more = to.inheritable & ~(from.inheritable | from.permitted))
    return "inheritable capabilities " + hex(more);
  return {};
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
