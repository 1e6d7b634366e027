// SPDX-License-Identifier: LGPL-2.1-or-later
#include "image/bases.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "base/error.h"
#include "base/text.h"
#include "image/base_table.h"
#include "image/compression.h"
#include "image/file_place.h"
#include "image/validate_parts.h"

namespace reprise::image {
namespace {

OpenBase open_base(const std::string& of, int dir, const std::string& path, const Base& base, uid_t owner) {
  OpenBase opened;
  opened.name = path;
  const std::string what = path + ", which has pages of the delta image " + of + ", ";
  // O_NONBLOCK: a FIFO of that name must not let us wait.
  opened.fd.reset(::openat(dir, base.name().c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW | O_NONBLOCK));
  if (!opened.fd) throw Error(Failure::usage, errno, what + "cannot be opened: " + error_text(errno));
  struct stat st {};
  if (::fstat(opened.fd.get(), &st) != 0) throw Error(Failure::temporary, errno, what + "cannot be looked at");
  if (st.st_uid != owner && st.st_uid != 0)
    throw Error(Failure::refused, EPERM,
                what + "belongs to user " + std::to_string(st.st_uid) + ", who can forge its content: make it one's of user " +
                    std::to_string(owner) + " if you vouch for it");
  if (UniqueFd expanded = S_ISREG(st.st_mode) ? expand(opened.fd.get(), path) : UniqueFd()) opened.fd = std::move(expanded);
  load_tables(opened.fd.get(), path, opened.tables);
  if (opened.tables.seal.hash != base.checksum())
    throw Error(Failure::permanent, EBADMSG,
                path + " is not the file that has pages of the delta image " + of +
                    ": another one has taken its name; bring that one back, or use another image");
  return opened;
}

}  // namespace

std::vector<OpenBase> open_bases(const std::string& name, const Process& process, int fd, uid_t owner) {
  std::vector<OpenBase> out;
  if (process.bases_size() == 0) return out;
  const std::string directory = place_of(fd).directory;
  const UniqueFd dir(directory.empty() ? -1 : ::open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!dir)
    throw Error(Failure::usage, ENOENT,
                name + " is a delta image, and it is not known in which directory the files are that have its other pages: "
                       "name the file itself, or make a whole image of it with cr_image merge");
  for (const Base& base : process.bases()) out.push_back(open_base(name, dir.get(), directory + "/" + base.name(), base, owner));
  return out;
}

std::vector<PageRun> runs_of_bases(const std::string& name, const Process& process, std::span<const OpenBase> bases) {
  std::vector<PageRun> out;
  const Checker check(name);
  const auto table = read_base_runs(process);
  check.need(table.has_value(), "its table of pages in other files is malformed");
  for (const BaseRun& run : *table) {
    const Seal& seal = bases[run.base].tables.seal;
    const std::uint64_t pages = seal.pages_size / kPage;
    check.need(run.first_page <= pages && run.len / kPage <= pages - run.first_page,
               [&] { return "its pages at " + hex(run.addr) + " are not in " + bases[run.base].name; });
    out.push_back({run.addr, run.len, seal.pages_offset + run.first_page * kPage, 1 + run.base});
  }
  return out;
}

}  // namespace reprise::image
