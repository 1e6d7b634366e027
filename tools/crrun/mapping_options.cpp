// SPDX-License-Identifier: GPL-2.0-only
#include "mapping_options.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>
#include <sstream>
#include <stdexcept>

#include "crrun/coordinator/mapping.h"
#include "job/files.h"
#include "job/slot_list.h"

namespace reprise::job {

namespace {

constexpr std::uint32_t kMost = 1'000'000;

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

std::vector<std::string> pieces(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string one; std::getline(in, one, ':');) out.push_back(one);
  return out;
}

std::uint32_t positive(const std::string& text, const std::string& option) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || value == 0 || value > kMost)
    throw std::runtime_error(option + ": \"" + text + "\" is not a number of 1 or more");
  return value;
}

/** Another name for the same, of older Open MPI. */
std::string modern(const std::string& part) { return part == "socket" ? "package" : part; }

/** @return the part; nothing if there is none of that name */
std::optional<Mapping::Part> part_of(const std::string& name) {
  for (const Mapping::Part part : {Mapping::NODE, Mapping::PACKAGE, Mapping::NUMA, Mapping::CORE, Mapping::HWTHREAD})
    if (part_name(part) == modern(name)) return part;
  return std::nullopt;
}

struct MapBy {
  Mapping mapping;
  std::optional<bool> oversubscribe;
  std::string rankfile;
};

void qualify(MapBy& out, const std::string& word, const std::string& option) {
  const std::string key = lower(word.substr(0, word.find('=')));
  const bool has_value = word.find('=') != std::string::npos;
  const std::string value = has_value ? word.substr(word.find('=') + 1) : "";
  if (key == "pe" && has_value) {
    out.mapping.set_pe(positive(value, option + ": pe"));
  } else if (key == "file" && has_value && !value.empty()) {
    out.rankfile = value;
  } else if (key == "span" && !has_value) {
    out.mapping.set_span(true);
  } else if (key == "oversubscribe" && !has_value) {
    out.oversubscribe = true;
  } else if (key == "nooversubscribe" && !has_value) {
    out.oversubscribe = false;
  } else {
    throw std::runtime_error(option + ": \"" + word +
                             "\" is not a qualifier that crrun knows: pe=N, span, oversubscribe, nooversubscribe; file=PATH for rankfile");
  }
}

MapBy parse_map_by(const std::string& text) {
  const std::string option = "--map-by " + text;
  MapBy out;
  std::vector<std::string> words = pieces(text);
  std::size_t next = 1;
  const std::string what = words.empty() ? "" : lower(words[0]);
  if (what == "ppr") {
    const auto part = words.size() < 3 ? std::nullopt : part_of(lower(words[2]));
    if (!part) throw std::runtime_error(option + ": write ppr:N:WHAT, WHAT being node, package, numa, core or hwthread");
    out.mapping.set_per_part(positive(words[1], option));
    out.mapping.set_part(*part);
    next = 3;
  } else if (what == "node") {
    out.mapping.set_by_node(true);
  } else if (const auto part = part_of(what)) {
    out.mapping.set_part(*part);
  } else if (what != "slot" && what != "rankfile" && !what.empty()) {
    throw std::runtime_error(option + ": \"" + words[0] +
                             "\" is not known here: slot, node, package, numa, core, hwthread, ppr:N:WHAT, rankfile:file=PATH");
  }
  for (; next < words.size(); ++next) qualify(out, words[next], option);
  const Mapping& by = out.mapping;
  if ((what == "rankfile") != !out.rankfile.empty())
    throw std::runtime_error(option + (what == "rankfile" ? ": name the file: rankfile:file=PATH" : ": only rankfile has a file"));
  if (!out.rankfile.empty() && by.pe()) throw std::runtime_error(option + ": the rankfile says to which cores ranks are bound; leave out pe=");
  if (by.span() && (by.part() == Mapping::NODE || by.per_part()))
    throw std::runtime_error(option + ": span is for package, numa, core and hwthread");
  if (by.pe() > 1 && by.part() == Mapping::HWTHREAD) throw std::runtime_error(option + ": a hardware thread is one processing element");
  return out;
}

struct BindTo {
  std::string what;
  bool overload = false;
};

BindTo parse_bind_to(const std::string& text) {
  std::vector<std::string> words = pieces(text);
  BindTo out{words.empty() ? "" : modern(lower(words[0])), false};
  if (out.what != "none" && (out.what == "node" || !part_of(out.what)))
    throw std::runtime_error("--bind-to " + text + ": \"" + out.what + "\" is not known here: none, hwthread, core, numa, package");
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (const std::string word = lower(words[i]); word != "overload-allowed" && word != "overload")
      throw std::runtime_error("--bind-to " + text + ": \"" + words[i] + "\" is not a qualifier that crrun knows: overload-allowed");
    out.overload = true;
  }
  return out;
}

/** Without --bind-to: what mpirun does when ranks get cores or a part of the node; otherwise they are not bound. */
std::string default_binding(const Mapping& by) {
  if (by.pe()) return by.part() == Mapping::HWTHREAD ? "hwthread" : "core";
  return by.part() == Mapping::NODE ? "none" : part_name(by.part());
}

void check_binding(const JobSpec& spec, const std::string& map_by) {
  const Mapping& by = spec.mapping();
  // NODE stands for no binding.
  const Mapping::Part part = part_of(spec.bind_to()).value_or(Mapping::NODE);
  const std::string both = "--bind-to " + spec.bind_to() + " with --map-by " + map_by;
  if (by.pe() && part < Mapping::CORE) throw std::runtime_error(both + ": pe=N binds ranks to cores; leave out --bind-to");
  // As the enum has them, larger parts come first; nothing is said of packages and NUMA domains.
  if (part != Mapping::NODE && part < by.part() && !(by.part() == Mapping::NUMA && part == Mapping::PACKAGE))
    throw std::runtime_error(both + ": a rank is bound within the " + part_name(by.part()) + " that it is mapped to; map by " +
                             spec.bind_to() + ", or by slot");
}

}  // namespace

std::vector<RankSlots> parse_rankfile(const std::string& text, const std::string& name, const std::vector<std::string>& hosts) {
  std::map<std::uint32_t, RankSlots> lines;
  std::istringstream in(text);
  int line_number = 0;
  for (std::string line; std::getline(in, line);) {
    RankSlots out;
    out.set_where(name + ":" + std::to_string(++line_number));
    const auto refuse = [&](const std::string& what) { throw std::runtime_error(out.where() + ": " + what); };
    if (const std::size_t comment = line.find('#'); comment != std::string::npos) line.resize(comment);
    std::istringstream words(line);
    std::string word, place, slots, more;
    if (!(words >> word)) continue;
    words >> place >> slots;
    const std::size_t equal = place.find('=');
    if (word != "rank" || equal == std::string::npos || !slots.starts_with("slot=") || words >> more)
      refuse("a line is: rank N=HOST slot=LIST, such as rank 0=node1 slot=0-1, or slot=1:0 for a core of package 1");
    std::uint32_t rank = 0;
    const auto [end, error] = std::from_chars(place.data(), place.data() + equal, rank);
    if (error != std::errc() || end != place.data() + equal || equal == 0 || rank > kMost)
      refuse("\"" + place.substr(0, equal) + "\" is not the number of a rank");
    std::string host = place.substr(equal + 1);
    if (host.starts_with("+n")) {
      std::size_t index = hosts.size();
      std::from_chars(host.data() + 2, host.data() + host.size(), index);
      if (index >= hosts.size()) refuse(host + ": there are " + std::to_string(hosts.size()) + " nodes, +n0 is the first");
      host = hosts[index];
    }
    if (std::find(hosts.begin(), hosts.end(), host) == hosts.end()) refuse(host + " is not a node of this job: name it by --hosts");
    out.set_host(host);
    out.set_slots(slots.substr(5));
    try {
      parse_slot_list(out.slots());
    } catch (const std::exception& wrong) {
      refuse(wrong.what());
    }
    if (const auto known = lines.find(rank); known != lines.end())
      refuse("rank " + std::to_string(rank) + " has a line already: " + known->second.where());
    lines[rank] = std::move(out);
  }
  if (lines.empty()) throw std::runtime_error(name + " has no line for a rank");
  std::vector<RankSlots> out;
  for (auto& [rank, line] : lines) {
    if (rank != out.size())
      throw std::runtime_error(name + ": rank " + std::to_string(out.size()) + " has no line; every rank needs one");
    out.push_back(std::move(line));
  }
  return out;
}

void set_mapping(Settings& settings, const Options& options) {
  JobSpec& spec = settings.spec;
  std::string map_by = options.map_by;
  if (options.per_node) {
    const std::string by_n = "ppr:" + std::to_string(options.per_node) + ":node";
    // Qualifiers alone may go with it: -N 2 --map-by :pe=4.
    if (!map_by.empty() && map_by[0] != ':')
      throw std::runtime_error("-N " + std::to_string(options.per_node) + " means --map-by " + by_n + ": leave out one of the two");
    map_by = by_n + map_by;
  }
  if (!options.rankfile.empty()) {
    if (!map_by.empty() && map_by[0] != ':') throw std::runtime_error("--rankfile means --map-by rankfile:file=PATH: leave out --map-by or -N");
    map_by = "rankfile:file=" + options.rankfile + map_by;
  }
  if (!map_by.empty()) {
    MapBy by = parse_map_by(map_by);
    const bool overload = spec.mapping().overload();
    *spec.mutable_mapping() = by.mapping;
    spec.mutable_mapping()->set_overload(overload);
    if (by.oversubscribe) settings.oversubscribe = *by.oversubscribe;
    spec.clear_rankfile();
    if (!by.rankfile.empty()) {
      std::vector<std::string> hosts;
      for (const Node& node : settings.nodes)
        if (!node.spare()) hosts.push_back(node.host());
      for (RankSlots& line : parse_rankfile(read_file(by.rankfile), by.rankfile, hosts)) *spec.add_rankfile() = std::move(line);
    }
  }
  if (!options.bind_to.empty()) {
    const BindTo bind = parse_bind_to(options.bind_to);
    if (spec.rankfile_size()) throw std::runtime_error("--bind-to " + options.bind_to + ": the rankfile says to which cores ranks are bound");
    spec.set_bind_to(bind.what);
    spec.mutable_mapping()->set_overload(bind.overload);
  } else if (!map_by.empty() || spec.bind_to().empty()) {
    spec.set_bind_to(default_binding(spec.mapping()));
  }
  check_binding(spec, map_by.empty() ? "slot" : map_by);
  if (options.report_bindings) spec.set_report_bindings(true);
}

std::uint32_t default_ranks(const Settings& settings, const std::string& hosts) {
  const JobSpec& spec = settings.spec;
  if (spec.rankfile_size()) return static_cast<std::uint32_t>(spec.rankfile_size());
  std::uint32_t slots = 0, nodes = 0;
  for (const Node& node : settings.nodes)
    if (!node.spare() && (hosts.empty() || ("," + hosts + ",").find("," + node.host() + ",") != std::string::npos))
      slots += node.slots(), ++nodes;
  if (!spec.mapping().per_part()) return slots;
  return spec.mapping().part() == Mapping::NODE ? spec.mapping().per_part() * nodes : 0;
}

}  // namespace reprise::job
