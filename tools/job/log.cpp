// SPDX-License-Identifier: GPL-2.0-only
#include "job/log.h"

#include <memory>
#include <stdexcept>

#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

namespace reprise::job {

namespace {
/** Of each of the two files of a log. */
constexpr std::size_t kLogBytes = 16 << 20;
}  // namespace

void set_up_log(const std::string& name, const std::string& level) {
  const auto known = spdlog::level::from_str(level);
  if (known == spdlog::level::off && level != "off")
    throw std::invalid_argument("there is no log level " + level + ": use debug, info, warning, error or off");
  auto sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  sink->set_level(known);
  sink->set_pattern("%n: %^%l%$: %v");
  auto logger = std::make_shared<spdlog::logger>(name, std::move(sink));
  logger->set_level(known);
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
}

void log_to_file(const std::string& path) {
  auto sink = std::make_shared<spdlog::sinks::rotating_file_sink_mt>(path, kLogBytes, 1);
  sink->set_level(spdlog::level::debug);
  sink->set_pattern("%Y-%m-%d %H:%M:%S.%e %P %n %l: %v");
  spdlog::default_logger()->sinks().push_back(std::move(sink));
  spdlog::default_logger()->set_level(spdlog::level::debug);
}

}  // namespace reprise::job
