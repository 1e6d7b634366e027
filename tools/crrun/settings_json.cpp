// SPDX-License-Identifier: GPL-2.0-only
#include "settings_json.h"

namespace reprise::job {

namespace {
/** One list for reading and writing. */
template <class F>
void each_setting(Settings& s, F&& field) {
  field("wave_interval_ms", s.wave_interval_ms);
  field("wave_interval_auto", s.wave_interval_auto);
  field("wave_at_start", s.wave_at_start);
  field("node_mtbf_ms", s.node_mtbf_ms);
  field("wave_share", s.wave_share);
  field("hang_after_ms", s.hang_after_ms);
  field("hang_recover", s.hang_recover);
  field("lost_after_ms", s.lost_after_ms);
  field("shortest_silence_ms", s.shortest_silence_ms);
  field("start_timeout_ms", s.start_timeout_ms);
  field("quiesce_timeout_ms", s.quiesce_timeout_ms);
  field("wave_timeout_ms", s.wave_timeout_ms);
  field("recover_timeout_ms", s.recover_timeout_ms);
  field("run_timeout_ms", s.run_timeout_ms);
  field("rejoin_every_ms", s.rejoin_every_ms);
  field("fan_out", s.fan_out);
  field("staging_nodes", s.staging_nodes);
  field("failure_groups", s.failure_groups);
  field("max_restarts", s.max_restarts);
  field("max_failed_recoveries", s.max_failed_recoveries);
  field("oversubscribe", s.oversubscribe);
  field("double_up", s.double_up);
  field("require_checkpoints", s.require_checkpoints);
  field("keep_images", s.keep_images);
  field("leave_on", s.leave_on);
  field("rollback_on", s.rollback_on);
  field("wall_end_unix_s", s.wall_end_unix_s);
}
}  // namespace

nlohmann::json settings_json(const Settings& settings) {
  nlohmann::json out;
  Settings copy = settings;
  each_setting(copy, [&out](const char* name, const auto& value) { out[name] = value; });
  return out;
}

void settings_from_json(Settings& settings, const nlohmann::json& json) {
  each_setting(settings, [&json](const char* name, auto& value) {
    if (json.contains(name)) json.at(name).get_to(value);
  });
}

}  // namespace reprise::job
