// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file The nodes from which a task of this daemon reads images. */
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "crd/images/client.h"
#include "job/messages.pb.h"

namespace reprise::crd {

/** What reading from any of the job's nodes needs. */
struct Readers {
  std::string secret;                         ///< what all daemons of the job know
  std::map<std::uint32_t, std::string> hosts;  ///< by node
  std::chrono::milliseconds silence{10000};   ///< so long without an answer a node counts as unreachable
};

ImageRequest request_of(ImageRequest::What what, std::uint32_t wave, std::uint32_t rank);
/**
 * @return what a manifest says that comes from another node. Throws std::runtime_error: it is damaged, or that
 * of another image than @p image of wave @p wave
 */
Manifest copied_manifest(const std::string& text, const job::StoredImage& image, std::uint32_t wave);

class Sources {
 public:
  using List = std::vector<job::ImageSource>;
  Sources(Readers readers, List sources, std::uint32_t wave);

  /** How a copy of a delta image is stored. */
  enum class Form {
    whole,     ///< it stands alone
    as_it_is,  ///< as a delta image, if what it needs is here from earlier copies, or can be copied, too
  };
  /**
   * Copy the image of a rank to @p to, beside it its manifest, from the first source that has it intact. A complete copy is left
   * alone. @return the size of the image, as one that stands alone. Throws std::runtime_error with the reasons of all sources, Unreachable if none of them
   * answers; std::system_error: this node's disk, or (ECANCELED) the limits say so.
   */
  std::uint64_t copy(std::uint32_t rank, const std::string& to, Form form, const CopyLimits& limits);
  /** @return the connection to a node. Throws Unreachable also if the node has not answered before */
  ImageClient& client(const job::ImageSource& source);
  /** Call @p read, and remember if the node was unreachable: it is not waited for again. */
  template <class Read>
  auto reading(const job::ImageSource& source, Read read) {
    ImageClient& from = client(source);
    try {
      return read(from);
    } catch (const Unreachable& problem) {
      unreachable_[source.node()] = problem.what();
      throw;
    }
  }
  /** @return the manifest for a copy of an image that a source has. Throws as ImageClient::read(), and as copied_manifest() */
  Manifest manifest(ImageClient& from, const job::StoredImage& image, const CopyLimits& limits) const;

  /** @return whether a node that is not lost has had the image of a rank itself */
  bool have(std::uint32_t rank) const;
  const List& list() const { return list_; }
  std::uint32_t wave() const { return wave_; }
  std::string host(std::uint32_t node) const;
  /** @return nodes that did not answer */
  std::vector<std::uint32_t> unreachable() const;
  std::uint64_t network_bytes() const;

 private:
  std::uint64_t copy_from(ImageClient& from, const job::StoredImage& image, const std::string& to, Form form, const CopyLimits& limits);

  const Readers readers_;
  const List list_;
  const std::uint32_t wave_;
  std::map<std::uint32_t, std::unique_ptr<ImageClient>> clients_;
  std::map<std::uint32_t, std::string> unreachable_;  ///< by node, why
};

}  // namespace reprise::crd
