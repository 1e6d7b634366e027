// SPDX-License-Identifier: GPL-2.0-only
#include "report.h"

#include <cstdio>
#include <ctime>

#include <nlohmann/json.hpp>

namespace reprise::tool {
namespace {

struct Field {
  const char* name;
  std::uint64_t Report::*value;
};
constexpr Field kPhases[] = {
    {"open", &Report::open_ns},         {"agent", &Report::agent_ns},
    {"freeze", &Report::freeze_ns},     {"collect", &Report::collect_ns},
    {"snapshot", &Report::snapshot_ns}, {"verify", &Report::verify_ns},
    {"mappings", &Report::mappings_ns}, {"pages", &Report::pages_ns},
    {"descriptors", &Report::descriptors_ns}, {"shared", &Report::shared_ns},
    {"process", &Report::process_ns},   {"threads", &Report::threads_ns},
    {"write", &Report::write_ns},       {"held", &Report::held_ns},
    {"frozen", &Report::frozen_ns},     {"total", &Report::total_ns},
};
constexpr Field kCounts[] = {
    {"image_taken_unix_ns", &Report::image_taken_unix_ns},
    {"threads", &Report::threads},
    {"threads_made", &Report::threads_made},
    {"threads_ended", &Report::threads_ended},
    {"mappings", &Report::mappings},
    {"mappings_changed", &Report::mappings_changed},
    {"descriptors", &Report::descriptors},
    {"descriptors_changed", &Report::descriptors_changed},
    {"pages", &Report::pages},
    {"pages_inherited", &Report::pages_inherited},
    {"pages_restored", &Report::pages_restored},
    {"pages_dropped", &Report::pages_dropped},
    {"bytes", &Report::bytes},
    {"bytes_compressed", &Report::bytes_compressed},
    {"kernel_bytes", &Report::kernel_bytes},
};

const char* kind_name(Failure kind) {
  switch (kind) {
    case Failure::usage:
      return "usage";
    case Failure::refused:
      return "refused";
    case Failure::temporary:
      return "temporary";
    case Failure::permanent:
      return "permanent";
  }
  return "unknown";
}

std::string number(double value, const char* unit) {
  char text[32];
  std::snprintf(text, sizeof text, value < 10 ? "%.1f %s" : "%.0f %s", value, unit);
  return text;
}

}  // namespace

std::string json_line(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string grouped(std::uint64_t value) {
  std::string text = std::to_string(value);
  for (std::size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
  return text;
}

std::string counted(std::uint64_t value, const std::string& what) {
  return grouped(value) + " " + what + (value == 1 ? "" : "s");
}

std::string duration(std::uint64_t ns) {
  const auto value = static_cast<double>(ns);
  if (ns < 1000000) return number(value / 1e3, "µs");
  if (ns < 1000000000) return number(value / 1e6, "ms");
  if (value < 120e9) return number(value / 1e9, "s");
  if (value < 7200e9) return number(value / 60e9, "min");
  if (value < 48 * 3600e9) return number(value / 3600e9, "h");
  return number(value / (24 * 3600e9), "days");
}

std::string bytes(std::uint64_t value) {
  const auto size = static_cast<double>(value);
  if (value < 1000000) return number(size / 1e3, "kB");
  if (value < 1000000000) return number(size / 1e6, "MB");
  return number(size / 1e9, "GB");
}

std::string age(const Report& report) {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  const std::uint64_t ns = static_cast<std::uint64_t>(now.tv_sec) * 1000000000 + static_cast<std::uint64_t>(now.tv_nsec);
  if (ns < report.image_taken_unix_ns) return "taken in the future";
  return "taken " + duration(ns - report.image_taken_unix_ns) + " ago";
}

std::string report_json(const std::string& command, const Report& report) {
  nlohmann::ordered_json json{{"command", command}, {"ok", true}, {"pid", report.pid}, {"comm", report.comm},
                              {"image", report.image}};
  for (const Field& field : kCounts) json[field.name] = report.*field.value;
  if (!report.bases.empty()) json["bases"] = report.bases;
  json["workers"] = report.workers;
  json["tracked"] = report.tracked;
  if (!report.pipes.empty()) {
    auto& pipes = json["pipes"] = nlohmann::ordered_json::object();
    for (const auto& [fd, queued] : report.pipes) pipes[std::to_string(fd)] = queued;
  }
  auto& times = json["ns"] = nlohmann::ordered_json::object();
  for (const Field& field : kPhases) times[field.name] = report.*field.value;
  json["warnings"] = report.warnings;
  return json_line(json);
}

std::string held_json(const std::string& command) {
  return json_line(nlohmann::ordered_json{{"command", command}, {"held", true}});
}

std::string failure_json(const std::string& command, Failure kind, int code, Stage stage, const std::string& message) {
  nlohmann::ordered_json json{{"command", command}, {"ok", false}, {"kind", kind_name(kind)}, {"errno", code}};
  if (stage != Stage::none) json["stage"] = stage_name(stage);
  json["message"] = message;
  return json_line(json);
}

void print(const Common& common, const Report& report, const std::string& sentence, std::FILE* out) {
  if (common.json) {
    std::printf("%s\n", report_json(common.name, report).c_str());
    std::fflush(stdout);
    return;
  }
  for (const std::string& warning : report.warnings)
    std::fprintf(stderr, "%s: warning: %s\n", common.name.c_str(), warning.c_str());
  if (common.quiet) return;
  std::fprintf(out, "%s: process %d (%s): %s\n", common.name.c_str(), report.pid, report.comm.c_str(), sentence.c_str());
  if (common.verbose)
    for (const Field& field : kPhases)
      if (report.*field.value) std::fprintf(out, "  %-12s %s\n", field.name, duration(report.*field.value).c_str());
  std::fflush(out);
}

}  // namespace reprise::tool
