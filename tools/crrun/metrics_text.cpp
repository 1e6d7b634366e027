// SPDX-License-Identifier: GPL-2.0-only
#include "crrun/metrics_text.h"

#include <charconv>
#include <concepts>
#include <string_view>
#include <utility>

namespace reprise::job {
namespace {

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  return out + "\"";
}

std::string number(std::integral auto value) { return std::to_string(value); }

std::string number(double value) {
  char text[400];  // the longest double without an exponent has 309 digits before the point
  const auto end = std::to_chars(std::begin(text), std::end(text), value, std::chars_format::fixed).ptr;
  return {text, end};
}

std::string seconds(std::uint64_t ns) { return number(static_cast<double>(ns) / 1e9); }

/** A label and its value, besides that of the job. */
using Label = std::pair<const char*, std::string_view>;

/** Puts one metric family behind the other. */
class Exposition {
 public:
  explicit Exposition(std::string_view job) : job_("{job_id=" + quoted(job)) {}

  /** Begin a family. Its unit is the last word of its name, if that is one. */
  void family(std::string name, const char* type, const char* help) {
    name_ = "reprise_" + std::move(name);
    text_ += "# TYPE " + name_ + " " + type + "\n";
    for (const char* const unit : {"seconds", "bytes"})
      if (name_.ends_with(std::string("_") + unit)) text_ += "# UNIT " + name_ + " " + unit + "\n";
    text_ += "# HELP " + name_ + " " + help + "\n";
  }
  /** A sample of the family. @param suffix of its name */
  void sample(const char* suffix, const std::string& value, Label label = {}) {
    text_ += name_ + suffix + job_;
    if (label.first) text_ += std::string(",") + label.first + "=" + quoted(label.second);
    text_ += "} " + value + "\n";
  }
  void durations(const Durations& durations, Label label = {}) {
    sample("_count", number(durations.count), label);
    sample("_sum", seconds(durations.sum_ns), label);
  }

  // Families of one sample.
  void gauge(const char* name, const std::string& value, const char* help) {
    family(name, "gauge", help);
    sample("", value);
  }
  void counter(const char* name, std::uint64_t value, const char* help) {
    family(name, "counter", help);
    sample("_total", number(value));
  }
  void summary(const char* name, const Durations& value, const char* help) {
    family(name, "summary", help);
    durations(value);
  }

  std::string end() && { return std::move(text_) + "# EOF\n"; }

 private:
  std::string job_, name_, text_;
};

void add_job(Exposition& out, const Metrics& metrics) {
  out.family("job_info", "gauge", "The job and its program; the value is always 1.");
  out.sample("", "1", {"program", metrics.program});
  out.gauge("job_start_timestamp_seconds", seconds(metrics.begun_unix_ns), "When this crrun began.");
  out.family("job_state", "gauge", "1 for the state of the job, 0 for all others.");
  for (const Phase phase : {Phase::starting, Phase::running, Phase::recovering, Phase::ending, Phase::finished})
    out.sample("", phase == metrics.phase ? "1" : "0", {"state", name(phase)});
  if (metrics.phase == Phase::finished) out.gauge("job_exit_status", number(metrics.exit_code), "Exit status of crrun.");
  out.gauge("ranks", number(metrics.ranks), "Ranks of the job.");
}

void add_nodes(Exposition& out, const Metrics& metrics) {
  out.family("nodes", "gauge", "Nodes of the job by their state; those in state spare are the spares that are left.");
  for (const char* const state : {"starting", "up", "spare", "draining", "drained", "lost"}) {
    const auto found = metrics.nodes.find(state);
    out.sample("", number(found == metrics.nodes.end() ? 0 : found->second), {"state", state});
  }
  out.counter("nodes_lost", metrics.tally.nodes_lost, "Nodes that were given up.");
  if (metrics.lease_left_ms)
    out.gauge("lease_margin_seconds", number(static_cast<double>(*metrics.lease_left_ms) / 1e3),
              "Shortest time that was left of a node's lease since the last writing; negative: its ranks stood still.");
}

void add_waves(Exposition& out, const Metrics& metrics) {
  const Tally& tally = metrics.tally;
  out.counter("waves", tally.wave.count, "Waves that were taken.");
  out.family("waves_given_up", "counter", "Waves that were begun and given up, by reason.");
  for (std::size_t i = 0; i < kGivenUps; ++i) out.sample("_total", number(tally.given_up[i]), {"reason", name(static_cast<GivenUp>(i))});
  if (metrics.wave_interval_ms)
    out.gauge("wave_interval_seconds", number(static_cast<double>(metrics.wave_interval_ms) / 1e3),
              "Interval between waves at present; absent: waves are taken on request.");
  out.summary("wave_seconds", tally.wave, "Time from the begin of a wave until it counts.");
  out.summary("wave_standstill_seconds", tally.wave_standstill, "Time that a wave cost its slowest rank.");
  if (tally.wave_standstill.count)
    out.gauge("wave_last_standstill_seconds", seconds(tally.wave_standstill.last_ns), "Time that the newest wave cost its slowest rank.");
  out.counter("image_written_bytes", tally.written_bytes, "Images of waves that count, written on the nodes.");
  if (metrics.newest_wave_unix_ns)
    out.gauge("newest_wave_timestamp_seconds", seconds(*metrics.newest_wave_unix_ns), "When the newest wave was taken.");
}

void add_staging(Exposition& out, const Metrics& metrics) {
  if (!metrics.waves_to_stage) return;
  out.summary("wave_staging_seconds", metrics.tally.staging, "Time from when a wave counts until it is in shared storage.");
  out.counter("image_staged_bytes", metrics.tally.staged_bytes, "Images copied to shared storage.");
  out.gauge("waves_to_stage", number(*metrics.waves_to_stage), "Waves on the nodes that are not completely in shared storage.");
  if (metrics.newest_staged_unix_ns)
    out.gauge("newest_staged_wave_timestamp_seconds", seconds(*metrics.newest_staged_unix_ns),
              "When the newest wave that is in shared storage was taken.");
}

void add_redundancy(Exposition& out, const Metrics& metrics) {
  if (!metrics.redundant) return;
  out.summary("wave_protection_seconds", metrics.tally.protection, "Time from when a wave counts until it survives the loss of a node.");
  out.counter("image_copied_bytes", metrics.tally.copied_bytes, "Bytes of images read from other nodes to protect them.");
  if (metrics.newest_safe_unix_ns)
    out.gauge("newest_safe_wave_timestamp_seconds", seconds(*metrics.newest_safe_unix_ns),
              "When the newest wave that survives the loss of a node was taken.");
}

void add_recoveries(Exposition& out, const Metrics& metrics) {
  const Tally& tally = metrics.tally;
  const auto cause = [](std::size_t i) { return Label{"cause", name(static_cast<CauseKind>(i))}; };
  out.family("recoveries", "counter", "Recoveries that were begun, by cause.");
  for (std::size_t i = 0; i < kCauseKinds; ++i) out.sample("_total", number(tally.recoveries[i]), cause(i));
  out.family("recovery_standstill_seconds", "summary",
             "Time from the last sign of life of what failed until all ranks run again, by the first cause.");
  for (std::size_t i = 0; i < kCauseKinds; ++i) out.durations(tally.recovery_standstill[i], cause(i));
  if (tally.last_recovery_standstill_ns)
    out.gauge("recovery_last_standstill_seconds", seconds(tally.last_recovery_standstill_ns), "The same of the newest recovery.");
  out.counter("ranks_moved", tally.ranks_moved, "Ranks that recoveries have moved to another node.");
  out.counter("ranks_restarted", tally.ranks_restarted, "Ranks that recoveries have started as new processes.");
  out.counter("ranks_failed", tally.ranks_failed, "Ranks that have failed and of which the program was told (--recover ulfm).");
}

}  // namespace

std::string metrics_text(const Metrics& metrics) {
  Exposition out(metrics.job);
  add_job(out, metrics);
  add_nodes(out, metrics);
  add_waves(out, metrics);
  add_staging(out, metrics);
  add_redundancy(out, metrics);
  add_recoveries(out, metrics);
  return std::move(out).end();
}

}  // namespace reprise::job
