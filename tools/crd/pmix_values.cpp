// SPDX-License-Identifier: GPL-2.0-only
#include "crd/pmix_values.h"

#include <cstdlib>
#include <cstring>

namespace reprise::crd {
namespace {

/** A libpmix buffer that contains @p bytes. */
class Buffer {
 public:
  Buffer() { PMIx_Data_buffer_construct(&buffer_); }
  explicit Buffer(const std::string& bytes) : Buffer() {
    // libpmix takes ownership of the memory and frees it.
    pmix_byte_object_t object;
    object.bytes = static_cast<char*>(std::malloc(bytes.size() ? bytes.size() : 1));
    object.size = bytes.size();
    std::memcpy(object.bytes, bytes.data(), bytes.size());
    PMIx_Data_load(&buffer_, &object);
    if (object.bytes) std::free(object.bytes);
  }
  ~Buffer() { PMIx_Data_buffer_destruct(&buffer_); }
  pmix_data_buffer_t* get() { return &buffer_; }
  std::string bytes() {
    pmix_byte_object_t object{};
    if (PMIx_Data_unload(&buffer_, &object) != PMIX_SUCCESS || !object.bytes) return "";
    std::string text(object.bytes, object.size);
    std::free(object.bytes);
    return text;
  }

 private:
  pmix_data_buffer_t buffer_;
};

}  // namespace

std::string pack_value(const pmix_value_t& value) {
  Buffer buffer;
  if (PMIx_Data_pack(nullptr, buffer.get(), const_cast<pmix_value_t*>(&value), 1, PMIX_VALUE) != PMIX_SUCCESS) return "";
  return buffer.bytes();
}

bool unpack_value(const std::string& bytes, pmix_value_t& value) {
  Buffer buffer(bytes);
  std::int32_t count = 1;
  return PMIx_Data_unpack(nullptr, buffer.get(), &value, &count, PMIX_VALUE) == PMIX_SUCCESS;
}

std::string pack_infos(const pmix_info_t* infos, std::size_t count) {
  Buffer buffer;
  auto number = static_cast<std::int32_t>(count);
  if (PMIx_Data_pack(nullptr, buffer.get(), &number, 1, PMIX_INT32) != PMIX_SUCCESS) return "";
  if (count && PMIx_Data_pack(nullptr, buffer.get(), const_cast<pmix_info_t*>(infos), number, PMIX_INFO) != PMIX_SUCCESS)
    return "";
  return buffer.bytes();
}

pmix_info_t* unpack_infos(const std::string& bytes, std::size_t& count) {
  count = 0;
  Buffer buffer(bytes);
  std::int32_t one = 1, number = 0;
  if (PMIx_Data_unpack(nullptr, buffer.get(), &number, &one, PMIX_INT32) != PMIX_SUCCESS || number <= 0 || number > 4096)
    return nullptr;
  pmix_info_t* infos = PMIx_Info_create(static_cast<std::size_t>(number));
  if (!infos) return nullptr;
  const std::int32_t made = number;
  if (PMIx_Data_unpack(nullptr, buffer.get(), infos, &number, PMIX_INFO) != PMIX_SUCCESS || number != made) {
    PMIx_Info_free(infos, static_cast<std::size_t>(made));
    return nullptr;
  }
  count = static_cast<std::size_t>(number);
  return infos;
}

Infos::~Infos() {
  for (pmix_info_t& info : infos_) PMIx_Info_destruct(&info);
}

void Infos::add(const char* key, const void* value, pmix_data_type_t type) {
  infos_.emplace_back();
  PMIx_Info_load(&infos_.back(), key, value, type);
}
void Infos::add(const char* key, std::uint32_t value) { add(key, &value, PMIX_UINT32); }
void Infos::add(const char* key, std::uint16_t value) { add(key, &value, PMIX_UINT16); }
void Infos::add(const char* key, bool value) { add(key, &value, PMIX_BOOL); }
void Infos::add(const char* key, const std::string& value) { add(key, value.c_str(), PMIX_STRING); }
void Infos::add_rank(const char* key, pmix_rank_t value) { add(key, &value, PMIX_PROC_RANK); }
void Infos::add_regex(const char* key, const char* value) { add(key, value, PMIX_REGEX); }
void Infos::add_size(const char* key, std::size_t value) { add(key, &value, PMIX_SIZE); }
void Infos::add_proc(const char* key, const pmix_proc_t& value) { add(key, &value, PMIX_PROC); }
void Infos::add_bytes(const char* key, const std::string& value) {
  pmix_byte_object_t object;
  object.bytes = const_cast<char*>(value.data());
  object.size = value.size();
  add(key, &object, PMIX_BYTE_OBJECT);  // copies
}
void Infos::add(const char* key, const std::vector<pmix_proc_t>& values) {
  pmix_data_array_t array;
  array.type = PMIX_PROC;
  array.size = values.size();
  array.array = const_cast<pmix_proc_t*>(values.data());
  add(key, &array, PMIX_DATA_ARRAY);  // copies
}
void Infos::add(const char* key, const Infos& values) {
  pmix_data_array_t array;
  array.type = PMIX_INFO;
  array.size = values.infos_.size();
  array.array = const_cast<pmix_info_t*>(values.infos_.data());
  add(key, &array, PMIX_DATA_ARRAY);  // copies
}

}  // namespace reprise::crd
