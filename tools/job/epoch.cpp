// SPDX-License-Identifier: GPL-2.0-only
#include "job/epoch.h"

#include <exception>
#include <thread>

#include <nlohmann/json.hpp>

#include "job/files.h"
#include "job/keys.h"

namespace reprise::job {

namespace {
constexpr std::chrono::milliseconds kLookEvery{500};
}  // namespace

Epoch::Owner Epoch::read() const {
  try {
    const nlohmann::json json = nlohmann::json::parse(read_file(path_));
    return {json.at("epoch"), json.at("beat"), json.value("ended", false)};
  } catch (const std::exception&) {
    return {};  // it is not there, or cannot be read for the moment
  }
}

void Epoch::write(const Owner& owner) const {
  write_atomically(path_, nlohmann::json({{"epoch", owner.epoch}, {"beat", owner.beat}, {"ended", owner.ended}}).dump() + "\n");
}

void Epoch::take() {
  own_ = {make_job_id(), 0, false};
  write(own_);
}

bool Epoch::beat() {
  if (const Owner now = read(); !now.epoch.empty() && now.epoch != own_.epoch) return false;
  ++own_.beat;
  write(own_);
  return true;
}

void Epoch::end() {
  own_.ended = true;
  write(own_);
}

bool Epoch::beats(std::chrono::milliseconds limit) const {
  const Owner before = read();
  const auto end = std::chrono::steady_clock::now() + limit;
  while (std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(kLookEvery);
    // Unreadable is no sign of life.
    if (const Owner now = read(); !now.epoch.empty() && !(now == before)) return true;
  }
  return false;
}

}  // namespace reprise::job
