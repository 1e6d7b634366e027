// SPDX-License-Identifier: GPL-2.0-only
#include "json.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <nlohmann/json.hpp>
#include <set>

#include "names.h"

namespace reprise {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using nlohmann::ordered_json;

// Fields of type `bytes` that contain text; protobuf's own JSON would encode them in base64.
bool is_text(const FieldDescriptor& field) {
  static const std::set<std::string> names = {"comm",     "cmdline",        "path",    "name",
                                              "nodename", "kernel_release", "machine", "boot_id"};
  return field.type() == FieldDescriptor::TYPE_STRING || names.count(field.name());
}

ordered_json convert(const Message& message);

ordered_json convert(const Message& message, const FieldDescriptor& field, int index) {
  const auto& reflection = *message.GetReflection();
  const bool many = index >= 0;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return many ? reflection.GetRepeatedInt32(message, &field, index) : reflection.GetInt32(message, &field);
    case FieldDescriptor::CPPTYPE_INT64:
      return many ? reflection.GetRepeatedInt64(message, &field, index) : reflection.GetInt64(message, &field);
    case FieldDescriptor::CPPTYPE_UINT32:
      return many ? reflection.GetRepeatedUInt32(message, &field, index) : reflection.GetUInt32(message, &field);
    case FieldDescriptor::CPPTYPE_UINT64:
      return many ? reflection.GetRepeatedUInt64(message, &field, index) : reflection.GetUInt64(message, &field);
    case FieldDescriptor::CPPTYPE_BOOL:
      return many ? reflection.GetRepeatedBool(message, &field, index) : reflection.GetBool(message, &field);
    case FieldDescriptor::CPPTYPE_ENUM: {
      const int value =
          many ? reflection.GetRepeatedEnumValue(message, &field, index) : reflection.GetEnumValue(message, &field);
      const auto* name = field.enum_type()->FindValueByNumber(value);
      return name ? ordered_json(name->name()) : ordered_json(value);
    }
    case FieldDescriptor::CPPTYPE_STRING: {
      const std::string text =
          many ? reflection.GetRepeatedString(message, &field, index) : reflection.GetString(message, &field);
      return is_text(field) ? text : hex_bytes(text);
    }
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return convert(many ? reflection.GetRepeatedMessage(message, &field, index)
                          : reflection.GetMessage(message, &field));
    default:
      return nullptr;  // state.proto has no floating-point numbers
  }
}

// Scalar fields and texts are always printed, so that scripts need not know defaults; messages only when set.
ordered_json convert(const Message& message) {
  ordered_json out = ordered_json::object();
  const auto* type = message.GetDescriptor();
  const auto& reflection = *message.GetReflection();
  for (int i = 0; i < type->field_count(); ++i) {
    const FieldDescriptor& field = *type->field(i);
    if (field.is_repeated()) {
      auto& list = out[field.name()] = ordered_json::array();
      for (int at = 0; at < reflection.FieldSize(message, &field); ++at) list.push_back(convert(message, field, at));
    } else if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || reflection.HasField(message, &field)) {
      out[field.name()] = convert(message, field, -1);
    }
  }
  return out;
}

std::string text_of(const ordered_json& value) {
  return value.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string to_json(const Image& image, const Verification& verification) {
  ordered_json out;
  out["image"] = {{"path", image.name()},
                  {"bytes", image.file_size()},
                  {"bytes_compressed", image.compressed_size()},
                  {"page_bytes", image.page_bytes()},
                  {"shared_bytes", image.blob_bytes()},
                  {"meta_bytes", image.meta_bytes()}};
  auto& bases = out["image"]["bases"] = ordered_json::array();
  for (const Base& base : image.bases()) bases.push_back(base.name());
  auto& verified = out["verification"] = {{"headers", true}, {"content", nullptr}, {"seconds", verification.seconds}};
  if (verification.done) verified["content"] = verification.error.empty();
  if (!verification.error.empty()) verified["error"] = verification.error;
  auto process = convert(image.process());
  for (std::size_t i = 0; i < image.threads().size(); ++i) {
    const auto& regs = image.threads()[i].regs;
    auto& thread = process["threads"][i];
    const std::string call = parked_call(image.threads()[i]);
    thread["system_call"] = call.empty() ? ordered_json(nullptr) : ordered_json(call);
    thread["ip"] = regs.rip;
    thread["sp"] = regs.rsp;
  }
  for (int i = 0; i < image.process().mappings_size(); ++i)
    process["mappings"][static_cast<std::size_t>(i)]["saved_bytes"] = saved_bytes(image, image.process().mappings(i));
  out["process"] = std::move(process);
  return text_of(out);
}

}  // namespace reprise
