// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file What the daemon records about a rank when it takes the rank's image. The daemon that restarts the rank needs it,
 * here or on another node. The manifest lies beside the image and is copied with it.
 */
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace reprise::crd {

struct Manifest {
  std::uint32_t wave = 0, rank = 0;
  std::int32_t pid = 0;
  /** @return bytes of the file beside this */
  std::uint64_t file_bytes() const { return delta ? delta : bytes; }
  /** The file beside this is no delta image. */
  void stands_alone() {
    delta = 0;
    bases.clear();
  }
  std::uint64_t bytes = 0, checksum = 0;         ///< of the image as a file that stands alone, see image/whole.h
  std::uint64_t delta = 0;                       ///< bytes of the file beside this, if that is a delta image
  std::vector<std::uint32_t> bases;              ///< of a delta image: waves whose images have pages of it (job::base_name())
  unsigned generations = 0;                      ///< images before it, in a row, from which unchanged pages were taken over
  unsigned rewritten = 0;                        ///< of a copy: files, one after the other, of which it has kept equal parts
  std::map<std::uint32_t, std::uint64_t> streams;  ///< by stream 0, 1, 2: the stream's offset at the checkpoint
  std::map<int, std::uint32_t> pipes;            ///< by descriptor of the rank that is a pipe of the daemon: its stream
  std::vector<unsigned> cpus;                    ///< processors that the rank was bound to; none: it was not bound
  std::map<std::string, std::uint64_t> kept;     ///< sizes of its kept memory, by name
  std::set<std::string> copied;                  ///< names of the kept memory whose content the image has
  std::vector<std::string> files;                ///< files that the rank has mapped: a spare reads them ahead
};

std::string manifest_text(const Manifest& manifest);
/** Throws std::runtime_error, which names @p path, when the text is damaged. */
Manifest parse_manifest(const std::string& text, const std::string& path);
/** Throws std::runtime_error when the manifest is missing or damaged. */
Manifest read_manifest(const std::string& path);

}  // namespace reprise::crd
