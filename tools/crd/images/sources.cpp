// SPDX-License-Identifier: GPL-2.0-only
#include "crd/images/sources.h"

#include <stdexcept>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "crd/images/delta_copy.h"
#include "crd/images/offered.h"
#include "crd/images/part_file.h"
#include "job/log.h"
#include "job/names.h"

namespace reprise::crd {

ImageRequest request_of(ImageRequest::What what, std::uint32_t wave, std::uint32_t rank) {
  ImageRequest request;
  request.set_what(what);
  request.set_wave(wave);
  request.set_rank(rank);
  return request;
}
Manifest copied_manifest(const std::string& text, const job::StoredImage& image, std::uint32_t wave) {
  Manifest manifest = parse_manifest(text, fmt::format("the manifest of rank {} that was read", image.rank()));
  if (manifest.wave != wave || manifest.rank != image.rank() || (image.bytes() && manifest.bytes != image.bytes()) ||
      (image.checksum() && manifest.checksum != image.checksum()))
    throw std::runtime_error(fmt::format("the image of rank {} that was found is not that of wave {}", image.rank(), wave));
  manifest.rewritten = 0;  // it is written anew
  return manifest;
}

Sources::Sources(Readers readers, List sources, std::uint32_t wave) : readers_(std::move(readers)), list_(std::move(sources)), wave_(wave) {}

std::string Sources::host(std::uint32_t node) const {
  const auto found = readers_.hosts.find(node);
  return found == readers_.hosts.end() ? fmt::format("node number {}", node) : found->second;
}

ImageClient& Sources::client(const job::ImageSource& source) {
  if (const auto known = unreachable_.find(source.node()); known != unreachable_.end()) throw Unreachable(known->second);
  if (!source.has_from()) throw Unreachable(host(source.node()) + " is lost");
  auto& client = clients_[source.node()];
  if (!client) client = std::make_unique<ImageClient>(
        host(source.node()), std::vector<std::string>(source.from().endpoints().begin(), source.from().endpoints().end()), readers_.secret,
        readers_.silence);
  return *client;
}

Manifest Sources::manifest(ImageClient& from, const job::StoredImage& image, const CopyLimits& limits) const {
  return copied_manifest(from.read_all(request_of(ImageRequest::MANIFEST, wave_, image.rank()), kMostManifest, limits), image, wave_);
}

std::uint64_t Sources::copy_from(ImageClient& from, const job::StoredImage& image, const std::string& to, Form form, const CopyLimits& limits) {
  const Manifest its = manifest(from, image, limits);
  const auto read = [&](const ImageRequest& what, std::uint64_t end, PartFile& part, const CopyLimits& how) {
    from.read(what, 0, end, how, [&](std::uint64_t offset, std::span<const char> content) { part.write(offset, content); });
  };
  if (form == Form::as_it_is && its.delta) {
    try {
      copy_delta(to, its, [&](std::uint32_t base, PartFile& part) {
        ImageRequest what = request_of(ImageRequest::FILE, wave_, image.rank());
        what.set_base(base);
        read(what, base ? ImageClient::kToTheEnd : its.delta, part, {limits.bytes_per_second, limits.keep_on, nullptr});
      });
      if (limits.progress) limits.progress(its.bytes);
      return its.bytes;
    } catch (const Unreachable&) {
      throw;
    } catch (const std::system_error&) {
      throw;
    } catch (const std::exception& problem) {
      spdlog::info("rank {} of wave {} is copied whole: {}", image.rank(), wave_, problem.what());
    }
  }
  PartFile part(to);
  read(request_of(ImageRequest::IMAGE, wave_, image.rank()), its.bytes, part, limits);
  finish_image(part, its);
  return its.bytes;
}

bool Sources::have(std::uint32_t rank) const {
  for (const job::ImageSource& source : list_)
    for (const job::StoredImage& image : source.images())
      if (image.rank() == rank && source.has_from()) return true;
  return false;
}

std::uint64_t Sources::copy(std::uint32_t rank, const std::string& to, Form form, const CopyLimits& limits) {
  std::string problems;
  bool answered = false;
  for (const job::ImageSource& source : list_)
    for (const job::StoredImage& image : source.images()) {
      if (image.rank() != rank) continue;
      Manifest expected;
      expected.bytes = image.bytes();
      expected.checksum = image.checksum();
      if (image.checksum() && complete(to, expected)) {
        if (limits.progress) limits.progress(image.bytes());
        return image.bytes();
      }
      try {
        return reading(source, [&](ImageClient& from) { return copy_from(from, image, to, form, limits); });
      } catch (const std::system_error&) {  // this node's own problem, or the end
        throw;
      } catch (const std::exception& problem) {
        spdlog::info("rank {} of wave {} is not copied from {}: {}", rank, wave_, host(source.node()), problem.what());
        problems += (problems.empty() ? "" : "; ") + std::string(problem.what());
        answered |= dynamic_cast<const Unreachable*>(&problem) == nullptr;
      }
    }
  if (problems.empty()) throw std::runtime_error(fmt::format("no node has an image of rank {} for wave {}", rank, wave_));
  const std::string why = fmt::format("the image of rank {} for wave {} cannot be copied from another node: {}", rank, wave_, problems);
  if (!answered) throw Unreachable(why);
  throw std::runtime_error(why);
}

std::vector<std::uint32_t> Sources::unreachable() const {
  std::vector<std::uint32_t> nodes;
  for (const auto& [node, why] : unreachable_) nodes.push_back(node);
  return nodes;
}

std::uint64_t Sources::network_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& [node, client] : clients_) bytes += client->received();
  return bytes;
}

}  // namespace reprise::crd
