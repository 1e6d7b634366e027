// SPDX-License-Identifier: GPL-2.0-only
#include "crd/attempt.h"

#include <algorithm>
#include <filesystem>

#include "crd/pid_bands.h"
#include "job/log.h"
#include "job/names.h"

namespace reprise::crd {

std::map<std::uint32_t, job::ImagePlace> images_here(const Node& node, const job::Recover& message) {
  std::map<std::uint32_t, job::ImagePlace> out;
  for (const job::Placement& one : message.placement()) {
    if (one.node() != node.index) continue;
    job::ImagePlace& place = out[one.rank()];
    place.set_rank(one.rank());
    place.add_paths(job::image_path(node.images(), message.wave(), one.rank()));
  }
  // A rank to restart may have its image on any node. crrun may also know that no image exists.
  for (const std::uint32_t rank : message.restart())
    if (const auto found = out.find(rank); found != out.end()) found->second.clear_paths();
  for (const job::ImagePlace& place : message.images())
    if (const auto found = out.find(place.rank()); found != out.end()) found->second = place;
  return out;
}

void find_image(Node& node, const job::ImagePlace& place, int which, std::function<void(const FoundImage&)> then) {
  node.reading_at_once(
      [path = place.paths(which), bytes = place.bytes(), checksum = place.checksum()] {
        FoundImage found{path, "", {}};
        try {
          found.manifest = read_manifest(job::manifest_path(path));
          const std::uint64_t size = std::filesystem::file_size(path);
          if (size != found.manifest.file_bytes() || (bytes && found.manifest.bytes != bytes))
            found.error = fmt::format("{} has {} bytes rather than {}", path, size, found.manifest.file_bytes());
          else if (checksum && found.manifest.checksum != checksum)
            found.error = path + " is of another wave than its name says";
        } catch (const std::exception& error) {
          found.error = error.what();
        }
        return found;
      },
      std::move(then));
}

void find_images(Node& node, const std::map<std::uint32_t, job::ImagePlace>& places,
                 std::function<void(const std::map<std::uint32_t, FoundImage>&)> then) {
  struct Look {
    std::map<std::uint32_t, FoundImage> found;
    std::size_t awaited = 1;
  };
  auto look = std::make_shared<Look>();
  const auto one_more = [look, then = std::move(then)] {
    if (--look->awaited) return;
    std::vector<pid_t> ids;
    for (const auto& [rank, image] : look->found) ids.push_back(image.manifest.pid);
    keep_clear_of(ids);
    then(look->found);
  };
  for (const auto& [rank, place] : places) {
    if (place.paths_size() == 0) continue;
    ++look->awaited;
    find_image(node, place, 0, [look, one_more, rank = rank](const FoundImage& found) {
      look->found[rank] = found;
      one_more();
    });
  }
  asio::post(node.loop, one_more);
}

// All ranks go back to the same wave: what they share with each other goes back with them.
constexpr const char* kShared = "--shared-memory=restore";

Attempt ready_pause(Node& node, const Rank& rank, const FoundImage& image) {
  Attempt attempt{image.path, image.manifest, rank.pid, nullptr, nullptr};
  std::vector<std::string> argv{"cr_pause", "--dead-sockets", "--rewind-files", kShared};
  if (rank.newer_than(image.manifest.wave))
    for (const auto& [fd, stream] : image.manifest.pipes) argv.push_back(fmt::format("--keep-pipe={}", fd));
  argv.push_back(std::to_string(rank.pid));
  argv.push_back(image.path);
  attempt.tool = Tool::held(node.loop, argv, {});
  return attempt;
}

Attempt ready_restart(Node& node, std::uint32_t number, const FoundImage& image) {
  Attempt attempt{image.path, image.manifest, -1, std::make_unique<Rank>(), nullptr};
  Rank& rank = *attempt.rank;
  rank.number = number;
  rank.started = true;
  const auto streams = node.open_streams(rank, image.manifest.streams);
  for (auto& output : rank.outputs) output->pause();
  // Made by this job, and checked against what it noted of it; on shared storage it may belong to nobody.
  std::vector<std::string> argv{"cr_restart", "--dead-sockets", "--rewind-files", kShared, "--trust"};
  std::vector<std::pair<int, int>> fds;
  int next = kFirstOurs;
  for (const auto& [fd, stream] : image.manifest.pipes) {
    const auto end = std::find_if(streams.begin(), streams.end(), [&](const auto& one) { return one.first == static_cast<int>(stream); });
    if (end == streams.end()) continue;
    fds.emplace_back(next, end->second.get());
    argv.push_back(fmt::format("--fd={}={}", fd, next++));
  }
  const RankMemory memory = node.kept.complete(image.manifest.wave, number, image.manifest.kept, image.manifest.copied);
  for (const auto& [name, held] : memory) {
    fds.emplace_back(next, held->memory.get());
    argv.push_back(fmt::format("--kept-memory={}={}", name, next++));
    if (held->unfilled) argv.push_back("--fill-kept-memory=" + name);
    spdlog::info("rank {} gets its kept memory {}{}", number, name, held->unfilled ? ", as its image has it" : "");
  }
  argv.push_back(image.path);
  attempt.tool = Tool::held(node.loop, argv, fds);
  return attempt;
}

}  // namespace reprise::crd
