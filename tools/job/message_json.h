// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Messages as JSON, in files that people may read. */
#include <stdexcept>

#include <google/protobuf/util/json_util.h>
#include <nlohmann/json.hpp>

namespace reprise::job {

/** Throws std::runtime_error. */
inline nlohmann::json message_json(const google::protobuf::Message& message) {
  std::string text;
  if (!google::protobuf::util::MessageToJsonString(message, &text).ok())
    throw std::runtime_error("a part of the job cannot be written as JSON");
  return nlohmann::json::parse(text);
}

/** Throws std::runtime_error. */
template <class T>
T message_from(const nlohmann::json& json) {
  T out;
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  if (!google::protobuf::util::JsonStringToMessage(json.dump(), &out, options).ok())
    throw std::runtime_error("it is damaged");
  return out;
}

}  // namespace reprise::job
