// SPDX-License-Identifier: LGPL-2.1-or-later
#include <climits>

#include "cr.h"
#include "image/base_table.h"
#include "image/validate.h"
#include "image/validate_parts.h"

namespace reprise::image {

void validate_bases(const Checker& check, const std::string& name, const Process& process) {
  check.need(process.bases_size() <= kMaxBases, "it refers to too many other files");
  for (const Base& base : process.bases())
    check.need(!base.name().empty() && base.name().size() <= NAME_MAX && base.name() != "." && base.name() != ".." &&
                   base.name().find('/') == std::string::npos && base.name().find('\0') == std::string::npos,
               "it refers to a file outside of its directory");
  const auto table = read_base_runs(process);
  check.need(table && table->empty() == (process.bases_size() == 0), "its table of pages in other files is malformed");
  std::vector<cr_page_run> runs;
  for (const BaseRun& run : *table) runs.push_back({run.addr, run.len, 0});
  validate_runs(name, process, runs);
}

}  // namespace reprise::image
