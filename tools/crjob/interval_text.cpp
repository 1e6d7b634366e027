// SPDX-License-Identifier: GPL-2.0-only
#include "crjob/interval_text.h"

#include <cmath>
#include <cstdint>
#include <cstdio>

#include "common/report.h"

namespace reprise::job {

namespace {

std::string time(double seconds) { return tool::duration(static_cast<std::uint64_t>(std::llround(seconds * 1e9))); }

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2g %%", share * 100);
  return text;
}

}  // namespace

std::string interval_text(const nlohmann::json& choice) {
  const auto number = [&](const char* field) { return choice.at(field).get<double>(); };
  const std::string limit = choice.at("limit"), every = time(number("interval_ms") / 1e3);
  const std::string failures = "one failure in " + time(number("mtbf_s")) + " " +
                               (choice.at("mtbf_given").get<bool>()
                                    ? "as given"
                                    : "as learned, " + tool::counted(choice.at("failures").get<std::uint64_t>(), "failure") + " so far");
  if (limit == "first") return "the first wave after " + every + " (auto: it shows what a wave costs; " + failures + ")";
  const std::string optimum = time(number("optimum_s")), share = "limit of " + percent(number("share"));
  std::string out = "waves every " + every + " (auto: a wave costs " + time(number("cost_s")) + ", " + failures + "; ";
  if (limit == "share")
    out += share + " reached, the optimum would be " + optimum;
  else if (limit == "staging")
    out += "staging takes so long, the optimum would be " + optimum;
  else if (limit == "shortest" || limit == "longest")
    out += limit + " interval, the optimum would be " + optimum;
  else
    out += share + " not reached";
  out += "; a wave is usable after " + time(number("usable_after_s")) + "; waves and failures cost about " + percent(number("loss")) + " of the time)";
  if (choice.contains("waits_for_staging_of"))
    out += "\nthe next wave waits until wave " + std::to_string(choice.at("waits_for_staging_of").get<std::uint64_t>()) + " is copied";
  return out;
}

}  // namespace reprise::job
