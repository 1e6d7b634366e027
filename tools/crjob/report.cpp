// SPDX-License-Identifier: GPL-2.0-only
#include "crjob/report.h"

#include <sstream>

#include <nlohmann/json.hpp>

namespace reprise::job {

namespace {

constexpr char kPage[] =
#include "report_page.inc"
    ;

std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) switch (c) {
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '&': out += "&amp;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  return out;
}

void replace(std::string& text, const std::string& mark, const std::string& by) {
  for (std::size_t at = 0; (at = text.find(mark, at)) != std::string::npos; at += by.size())
    text.replace(at, mark.size(), by);
}

}  // namespace

std::string report_page(const std::string& timeline, const std::string& title) {
  nlohmann::json events = nlohmann::json::array();
  std::size_t damaged = 0;
  std::istringstream in(timeline);
  for (std::string line; std::getline(in, line);) {
    if (line.empty()) continue;
    nlohmann::json event = nlohmann::json::parse(line, nullptr, false);
    if (event.is_object() && event.contains("event") && event["event"].is_string() && event.contains("t") &&
        event["t"].is_number())
      events.push_back(std::move(event));
    else
      ++damaged;
  }
  // Inside a script element only "<" could end the element early; JSON can escape it.
  std::string data = events.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  replace(data, "<", "\\u003c");
  std::string page = kPage;
  replace(page, "{{TITLE}}", escaped(title));
  replace(page, "{{DAMAGED}}", std::to_string(damaged));
  replace(page, "{{DATA}}", data);
  return page;
}

}  // namespace reprise::job
