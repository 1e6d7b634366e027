// SPDX-License-Identifier: GPL-2.0-only
#include "crd/waves.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <sys/stat.h>

#include "crd/images/copying.h"
#include "crd/prewarm.h"
#include "job/files.h"
#include "job/log.h"
#include "job/names.h"

namespace reprise::crd {
namespace {

/** @return the rank's descriptors that are pipes of its streams */
std::map<int, std::uint32_t> stream_descriptors(const Rank& rank) {
  std::map<int, std::uint32_t> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(rank.pid) + "/fd", error)) {
    // Not stat: it would wait for a file system that does not answer.
    std::error_code gone;
    const std::string link = std::filesystem::read_symlink(entry.path(), gone);
    if (!link.starts_with("pipe:")) continue;
    const int fd = std::stoi(entry.path().filename());
    if (rank.input && rank.input->is(link)) found[fd] = 0;
    for (std::uint32_t stream = 1; stream <= 2; ++stream)
      if (rank.outputs[stream - 1] && rank.outputs[stream - 1]->is(link)) found[fd] = stream;
  }
  return found;
}

/** @return the size of its memory that is not in files */
std::uint64_t private_bytes(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  std::uint64_t kilobytes = 0;
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("RssAnon:") || line.starts_with("RssShmem:") || line.starts_with("VmSwap:"))
      kilobytes += std::strtoull(line.c_str() + line.find(':') + 1, nullptr, 10);
  return kilobytes << 10;
}

std::string part_image(const Node& node, std::uint32_t wave, std::uint32_t rank) {
  return job::wave_part_directory(node.images(), wave) + "/rank-" + std::to_string(rank) + ".img";
}

}  // namespace

void Waves::begin(const job::WaveBegin& message) {
  if (message.recovery() != node_.recovery) return;
  abandon();
  wave_ = message.wave();
  partners_ = {node_.job.id()};
  for (const std::uint32_t first : message.spawned()) partners_.push_back(node_.name_of(first).nspace);
  told_ = false;
  const unsigned turn = turn_;
  for (const auto& [number, rank] : node_.ranks) {
    const Spawned* space = node_.space_of(number);
    const bool in = space && std::find(message.spawned().begin(), message.spawned().end(), space->message.first()) != message.spawned().end();
    if (!node_.own(number) && !in) continue;  // it has ended, and its output is not sent yet
    ranks_[number].report.set_rank(number);
    ranks_[number].report.set_begin_unix_ns(unix_ns());
  }
  if (ranks_.empty()) return tell_when_done();
  timer_.expires_after(std::chrono::milliseconds(message.timeout_ms() ? message.timeout_ms() : 60000));
  timer_.async_wait([this, turn](const asio::error_code& error) {
    if (!error && turn == turn_) overdue();
  });
  struct Begun {
    std::string why;  ///< "": the images can be written
    std::map<std::uint32_t, image_store::Parent> parents;
  };
  std::map<std::uint32_t, std::uint32_t> newest;
  for (const auto& [number, taking] : ranks_)
    if (const Rank* rank = node_.find(number); node_.job.incremental() && rank && rank->saved_in) newest[number] = rank->saved_in;
  node_.on_disk(
      [directory = node_.images(), wave = wave_, limit = node_.job.local_limit_bytes(), sizes = sizes(), newest,
       most = node_.job.incremental()]() -> Begun {
        if (const std::string why = image_store::begin_wave(directory, wave); !why.empty()) return {why, {}};
        auto parents = image_store::parents(directory, wave, newest, most);
        std::uint64_t expected = 0;
        for (const auto& [rank, size] : sizes) {
          const auto parent = parents.find(rank);
          expected += parent != parents.end() && parent->second.delta ? size.file : size.whole;
        }
        if (const std::string why = image_store::room_for(directory, expected, limit, "the wave"); !why.empty()) return {why, {}};
        return {"", std::move(parents)};
      },
      [this, turn, timeout = message.timeout_ms()](const Begun& begun) {
        if (turn != turn_) return;
        for (const auto& [number, parent] : begun.parents) ranks_.at(number).parent = parent;
        std::vector<std::uint32_t> numbers;
        for (const auto& [number, taking] : ranks_) numbers.push_back(number);
        for (const std::uint32_t number : numbers) {
          if (begun.why.empty())
            take(number, timeout);
          else
            fail(number, begun.why, false);
        }
      });
}

std::map<std::uint32_t, Waves::Sizes> Waves::sizes() const {
  std::map<std::uint32_t, Sizes> out;
  for (const auto& [number, taking] : ranks_) {
    const auto last = last_.find(number);
    if (last != last_.end()) {
      out[number] = last->second;
    } else if (const Rank* rank = node_.find(number); rank && rank->alive()) {
      const std::uint64_t most = private_bytes(rank->pid);  // some kilobytes aside
      out[number] = {most, most};
    }
  }
  return out;
}

void Waves::take(std::uint32_t number, std::uint32_t timeout_ms) {
  Rank* rank = node_.find(number);
  Taking& taking = ranks_.at(number);
  if (!rank || !rank->alive()) return fail(number, fmt::format("rank {} has ended", number), false);
  if (!node_.hears(number))
    return fail(number, fmt::format("rank {} has not called MPI_Init yet, or its transport is not crtcp", number), true);
  // Output that the rank writes from now on is in the image, or comes after it.
  for (auto& output : rank->outputs)
    if (output) output->pause();
  taking.manifest.wave = wave_;
  taking.manifest.rank = number;
  taking.manifest.pid = rank->pid;
  taking.manifest.pipes = stream_descriptors(*rank);
  taking.manifest.files = mapped_files(rank->pid);
  for (unsigned cpu = 0; cpu < rank->binding.cpus.size(); ++cpu)
    if (rank->binding.cpus[cpu]) taking.manifest.cpus.push_back(cpu);
  tell_to_prepare(number, timeout_ms);
  std::vector<std::string> argv{"cr_checkpoint", std::to_string(rank->pid), part_image(node_, wave_, number)};
  if (taking.parent) argv.insert(argv.begin() + 1, {"--parent", taking.parent->path});
  if (taking.parent && taking.parent->delta) argv.insert(argv.begin() + 1, "--delta");
  if (timeout_ms) argv.insert(argv.begin() + 1, {"--timeout", fmt::format("{:.3f}", timeout_ms / 1000.0)});
  try {
    taking.receiver = std::make_unique<KeptReceiver>(node_.loop);
    const UniqueFd sender = taking.receiver->take_sender();
    argv.insert(argv.begin() + 1, fmt::format("--kept-memory-to={}", kFirstOurs));
    taking.tool = std::make_unique<Tool>(node_.loop, argv, std::vector<std::pair<int, int>>{{kFirstOurs, sender.get()}},
                                         [this, number, turn = turn_](const ToolResult& result) {
                                           if (turn == turn_) checkpointed(number, result);
                                         });
  } catch (const std::exception& error) {
    fail(number, error.what(), true);
  }
}

void Waves::tell_to_prepare(std::uint32_t number, std::uint32_t timeout_ms) {
  std::string names;
  for (const std::string& one : partners_)
    if (one != node_.name_of(number).nspace) names += one + '\0';
  cr_rank_wave prepare{};
  prepare.head = {CR_RANK_PREPARE, static_cast<std::uint32_t>(sizeof prepare + names.size()), number, node_.recovery};
  prepare.wave = wave_;
  prepare.timeout_ms = timeout_ms;
  std::string packet(sizeof prepare, '\0');
  std::memcpy(packet.data(), &prepare, sizeof prepare);
  packet += names;
  node_.tell(number, packet.data(), packet.size());
}

void Waves::checkpointed(std::uint32_t number, const ToolResult& result) {
  Taking& taking = ranks_.at(number);
  Rank* rank = node_.find(number);
  if (taking.done || !rank) return;
  if (!result.ok) {
    // The next image does without a parent that cannot be read.
    if (taking.parent && image_store::is_about_parent(result.message, *taking.parent, number)) rank->saved_in = 0;
    // The rank's transport may report a more precise reason.
    if (taking.report.error().empty()) return fail(number, result.message, result.temporary);
    return;
  }
  taking.saved = true;
  taking.kept = taking.receiver->take();
  taking.manifest.kept = sizes_of(taking.kept);
  taking.manifest.copied = copied_of(taking.kept);
  for (const auto& warning : result.report.value("warnings", nlohmann::json::array()))
    spdlog::warn("rank {}: {}", number, warning.get<std::string>());
  if (!taking.receiver->problem().empty())
    spdlog::warn("rank {}: some of its kept memory would be empty after a restart: {}", number, taking.receiver->problem());
  taking.receiver.reset();
  const auto& times = result.report.value("ns", nlohmann::json::object());
  taking.report.set_frozen_ns(times.value("frozen", std::uint64_t{0}));
  taking.report.set_write_ns(times.value("write", std::uint64_t{0}));
  const std::uint64_t inherited = result.report.value("pages_inherited", std::uint64_t{0}) * image::kPage;
  taking.report.set_inherited_bytes(inherited);
  if (taking.parent && inherited) taking.manifest.generations = taking.parent->generations;
  const auto queued = result.report.value("pipes", nlohmann::json::object());
  const auto in_pipe = [&](std::uint32_t stream) -> std::uint64_t {
    for (const auto& [fd, of] : taking.manifest.pipes)
      if (of == stream) return queued.value(std::to_string(fd), std::uint64_t{0});
    return 0;
  };
  if (rank->input) taking.manifest.streams[0] = rank->input->offset() - std::min(in_pipe(0), rank->input->offset());
  for (std::uint32_t stream = 1; stream <= 2; ++stream)
    taking.manifest.streams[stream] = rank->outputs[stream - 1]->offset() + in_pipe(stream);
  for (const auto& [stream, offset] : taking.manifest.streams) {
    auto* position = taking.report.add_streams();
    position->set_stream(stream);
    position->set_offset(offset);
  }
  read_on(number);
  both(number);
}

void Waves::prepared(const RankMessage& message) {
  const auto& said = message.as<cr_rank_prepared>();
  const auto found = ranks_.find(said.head.rank);
  if (said.wave != wave_ || found == ranks_.end() || found->second.done) return;
  found->second.report.set_quiesce_ns(said.quiesce_ns);
  if (said.state == CR_RANK_TAKEN) {
    // Also if the wave is given up: what the rank says from now on is newer than all waves up to this one.
    if (Rank* rank = node_.find(said.head.rank)) rank->imaged_in = wave_;
    found->second.answered = true;
    return both(said.head.rank);
  }
  std::string why = message.text(sizeof said);
  if (why.empty()) why = fmt::format("rank {} cannot be saved now", said.head.rank);
  fail(said.head.rank, why, said.state == CR_RANK_AGAIN);
}

void Waves::both(std::uint32_t number) {
  Taking& taking = ranks_.at(number);
  if (!taking.saved || !taking.answered || taking.done) return;
  const std::string image = part_image(node_, wave_, number);
  struct Sum {
    std::uint64_t checksum = 0, bytes = 0, file_bytes = 0;
    std::string error;
  };
  // Not on the disk thread: a recovery waits for what that has begun.
  node_.reading_at_once(
      [image, number, manifest = taking.manifest]() mutable {
        Sum sum;
        try {
          const Image saved = Image::open(image);
          describe(saved, manifest);
          sum.bytes = manifest.bytes;
          sum.checksum = manifest.checksum;
          sum.file_bytes = manifest.file_bytes();
          std::vector<std::string> needed;
          for (const Base& base : saved.bases()) needed.push_back(base.name());
          image_store::drop_parents(image, number, needed);
          job::write_atomically(job::manifest_path(image), manifest_text(manifest));
        } catch (const std::exception& error) {
          sum.error = error.what();
        }
        return sum;
      },
      [this, number, turn = turn_](const Sum& sum) {
        if (turn != turn_ || ranks_.at(number).done) return;
        if (!sum.error.empty()) return fail(number, sum.error, false);
        Taking& it = ranks_.at(number);
        it.file_bytes = sum.file_bytes;
        it.manifest.bytes = sum.bytes;
        it.manifest.checksum = sum.checksum;
        it.report.set_bytes(sum.bytes);
        it.report.set_checksum(sum.checksum);
        finish(number);
      });
}

void Waves::finish(std::uint32_t number) {
  // Bytes that lay in the pipes at the checkpoint must have reached crrun before the wave counts: a rank that is
  // restarted elsewhere would not write them again.
  Rank* rank = node_.find(number);
  const unsigned turn = turn_;
  auto left = std::make_shared<int>(0);
  const auto one_less = [this, number, turn, left] {
    if (--*left > 0 || turn != turn_) return;
    ranks_.at(number).report.set_end_unix_ns(unix_ns());
    ranks_.at(number).done = true;
    tell_when_done();
  };
  *left = 1;
  for (std::uint32_t stream = 1; rank && stream <= 2; ++stream) {
    ++*left;
    rank->outputs[stream - 1]->when_sent(ranks_.at(number).manifest.streams[stream], one_less);
  }
  one_less();
}

void Waves::fail(std::uint32_t number, const std::string& why, bool again) {
  Taking& taking = ranks_.at(number);
  if (taking.done) return;
  taking.done = true;
  taking.report.set_error(why);
  taking.report.set_again(again);
  taking.report.set_end_unix_ns(unix_ns());
  if (!taking.answered) tell_of_abort(wave_, number);
  read_on(number);
  tell_when_done();
}

void Waves::read_on(std::uint32_t number) {
  Taking& taking = ranks_.at(number);
  if (std::exchange(taking.reading, true)) return;
  if (Rank* rank = node_.find(number))
    for (auto& output : rank->outputs)
      if (output) output->resume();
}

void Waves::tell_when_done() {
  if (told_ || std::any_of(ranks_.begin(), ranks_.end(), [](const auto& one) { return !one.second.done; })) return;
  told_ = true;
  timer_.cancel();
  job::Up up;
  job::WaveDone& message = *up.mutable_wave_done();
  message.set_wave(wave_);
  for (const auto& [number, taking] : ranks_) {
    *message.add_ranks() = taking.report;
    if (taking.report.error().empty()) last_[number] = {taking.manifest.bytes, taking.file_bytes};
  }
  node_.send(std::move(up));
}

void Waves::overdue() {
  std::vector<std::uint32_t> late;
  for (const auto& [number, taking] : ranks_)
    if (!taking.done) late.push_back(number);
  for (const std::uint32_t number : late) {
    const bool saved = ranks_.at(number).saved;
    ranks_.at(number).tool.reset();
    fail(number,
         saved ? fmt::format("the transport of rank {} did not confirm in time that its checkpoint is consistent", number)
               : fmt::format("rank {} was not saved in time", number),
         true);
  }
}

void Waves::rank_ended(std::uint32_t rank) {
  if (wave_ && ranks_.count(rank)) fail(rank, fmt::format("rank {} has ended", rank), false);
}

void Waves::end(const job::WaveEnd& message) {
  if (message.none()) return tell_pinned(0);
  if (!message.commit()) {
    if (message.wave() == wave_)
      abandon();
    else
      tell_of_abort(message.wave());
    return;
  }
  if (message.pinned()) tell_pinned(message.wave());
  if (message.wave() != wave_) {
    // A new crrun sends the commit again, and a rank that asks again for a wave is told again.
    std::error_code ignored;
    if (node_.ranks.empty() || std::filesystem::is_directory(job::wave_directory(node_.images(), message.wave()), ignored)) return;
    return node_.say(job::Log::ERROR, fmt::format("wave {} is committed, but this node does not have it", message.wave()));
  }
  if (!ranks_.empty())
    node_.on_disk([directory = node_.images(), wave = wave_] { return image_store::commit_wave(directory, wave); },
                  [this, wave = wave_](const std::string& why) {
                    if (!why.empty()) node_.say(job::Log::ERROR, fmt::format("the images of wave {} are lost: {}", wave, why));
                  });
  for (auto& [number, taking] : ranks_) {
    if (Rank* rank = node_.find(number)) rank->saved_in = wave_;
    node_.kept.saved(wave_, number, std::move(taking.kept));
  }
  wave_ = 0;
  ++turn_;
  ranks_.clear();
}

void Waves::tell_of_abort(std::uint32_t wave, std::uint32_t rank) {
  cr_rank_wave abort{};
  abort.wave = wave;
  node_.tell(rank, abort, CR_RANK_ABORT);
}

void Waves::tell_pinned(std::uint32_t wave) {
  cr_rank_wave pinned{};
  pinned.wave = wave;
  for (const auto& [number, rank] : node_.ranks) node_.tell(number, pinned, CR_RANK_PINNED);
}

void Waves::tell_of_abort(std::uint32_t wave) {
  for (const auto& [number, rank] : node_.ranks) tell_of_abort(wave, number);
}

void Waves::abandon() {
  ++turn_;
  timer_.cancel();
  if (wave_ == 0) return;
  tell_of_abort(wave_);
  for (auto& [number, taking] : ranks_) {
    taking.tool.reset();
    read_on(number);
  }
  if (!ranks_.empty())
    asio::post(node_.disk, [directory = node_.images(), wave = wave_] { image_store::drop_part(directory, wave); });
  ranks_.clear();
  wave_ = 0;
}

}  // namespace reprise::crd
