// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Converts PMIx values to bytes and back, in libpmix's own encoding. For the PMIx server process only. */
#include <pmix.h>
#include <pmix_server.h>

#include <cstdint>
#include <string>
#include <vector>

namespace reprise::crd {

/** @return "" when libpmix cannot pack the value */
std::string pack_value(const pmix_value_t& value);
/** @return false when the bytes are not a value; otherwise destruct @p value with PMIX_VALUE_DESTRUCT */
bool unpack_value(const std::string& bytes, pmix_value_t& value);

std::string pack_infos(const pmix_info_t* infos, std::size_t count);
/** @return an array of @p count infos, to be freed with PMIX_INFO_FREE; nullptr when there are none */
pmix_info_t* unpack_infos(const std::string& bytes, std::size_t& count);

/** Builds the array of infos that libpmix functions take. */
class Infos {
 public:
  Infos() = default;
  ~Infos();
  Infos(const Infos&) = delete;
  Infos& operator=(const Infos&) = delete;
  void add(const char* key, std::uint32_t value);
  void add(const char* key, std::uint16_t value);
  void add(const char* key, bool value);
  void add(const char* key, const std::string& value);
  void add_rank(const char* key, pmix_rank_t value);
  void add_regex(const char* key, const char* value);
  void add_size(const char* key, std::size_t value);
  void add_bytes(const char* key, const std::string& value);
  void add_proc(const char* key, const pmix_proc_t& value);
  void add(const char* key, const std::vector<pmix_proc_t>& values);
  /** Add an array of infos as one value. */
  void add(const char* key, const Infos& values);
  pmix_info_t* data() { return infos_.data(); }
  std::size_t size() const { return infos_.size(); }

 private:
  void add(const char* key, const void* value, pmix_data_type_t type);
  std::vector<pmix_info_t> infos_;
};

}  // namespace reprise::crd
