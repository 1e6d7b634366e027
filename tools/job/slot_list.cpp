// SPDX-License-Identifier: GPL-2.0-only
#include "job/slot_list.h"

#include <charconv>
#include <sstream>
#include <stdexcept>

namespace reprise::job {

std::vector<SlotGroup> parse_slot_list(const std::string& text) {
  const auto number = [&text](const std::string& word) {
    constexpr unsigned kMost = 1'000'000;
    unsigned value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (word.empty() || error != std::errc() || end != word.data() + word.size() || value > kMost)
      throw std::runtime_error("slot=" + text + ": \"" + word +
                               "\" is not the number of a core; write cores (0,2-3), or cores of a package (1:0-2, 0:*)");
    return value;
  };
  const auto pieces = [](const std::string& of, char by) {
    std::vector<std::string> out;
    std::istringstream in(of);
    for (std::string one; std::getline(in, one, by);) out.push_back(one);
    if (of.empty() || of.back() == by) out.emplace_back();
    return out;
  };
  std::vector<SlotGroup> out;
  for (const std::string& part : pieces(text, ';')) {
    SlotGroup group;
    std::string cores = part;
    if (const std::size_t colon = part.find(':'); colon != std::string::npos) {
      group.package = number(part.substr(0, colon));
      cores = part.substr(colon + 1);
    }
    for (const std::string& range : cores == "*" ? std::vector<std::string>{} : pieces(cores, ',')) {
      const std::size_t dash = range.find('-');
      const unsigned first = number(range.substr(0, dash));
      const unsigned last = dash == std::string::npos ? first : number(range.substr(dash + 1));
      if (last < first) throw std::runtime_error("slot=" + text + ": " + range + " ends before it begins");
      group.ranges.emplace_back(first, last);
    }
    out.push_back(std::move(group));
  }
  return out;
}

}  // namespace reprise::job
