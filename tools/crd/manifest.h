// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file What the daemon notes about a rank when its image is taken, and needs when it is made anew, here or on
 * another node. Lies beside the image, goes where it goes.
 */
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace reprise::crd {

struct Manifest {
  std::uint32_t wave = 0, rank = 0;
  std::int32_t pid = 0;
  std::uint64_t bytes = 0, checksum = 0;         ///< of the image; XXH3 of the whole file
  std::map<std::uint32_t, std::uint64_t> streams;  ///< by stream 0, 1, 2: its offset in the image
  std::map<int, std::uint32_t> pipes;            ///< descriptors of the rank that are our pipes: which stream
  std::vector<std::string> files;                ///< that it has mapped: a spare reads them ahead
};

std::string manifest_text(const Manifest& manifest);
/** Throws std::runtime_error: it is not there, or damaged. */
Manifest read_manifest(const std::string& path);

/** XXH3 of a whole file. @param keep_on asked now and then; false ends it. Throws std::system_error, ECANCELED then. */
std::uint64_t file_checksum(const std::string& path, const std::function<bool()>& keep_on = nullptr);

}  // namespace reprise::crd
