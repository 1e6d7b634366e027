// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Writes the ranks' output in a thread of its own: a blocked terminal or pipe must not stop crrun. */
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>

namespace reprise::job {

/** Puts the tag before each line; holds incomplete lines back. */
class LineTagger {
 public:
  explicit LineTagger(std::string tag) : tag_(std::move(tag)) {}
  /** @param take_back number of bytes given last that are void @return the text to write */
  std::string feed(const std::string& data, std::size_t take_back, bool end);

 private:
  std::string tag_, partial_;
};

class OutputWriter {
 public:
  /** Called from the thread when a piece of output has been written; @p mark is that of write(). */
  using Written = std::function<void(std::uint64_t mark)>;
  OutputWriter(bool tag, Written written);
  ~OutputWriter();
  OutputWriter(const OutputWriter&) = delete;

  /**
   * Never blocks: whoever sends the output keeps its amount within bounds until it learns that it was written.
   * @param who source of the output: the tag without its brackets
   * @param mark passed to Written, also when nothing remains to be written
   */
  void write(const std::string& who, std::uint32_t stream, const std::string& data, std::size_t take_back, bool end, std::uint64_t mark = 0);
  /** Wait until everything is written. */
  void flush();

 private:
  struct Piece {
    int fd;
    std::string data;
    std::uint64_t mark;
  };
  void run();

  bool tag_;
  std::map<std::pair<std::string, std::uint32_t>, LineTagger> taggers_;
  std::mutex mutex_;  ///< guards all below
  std::condition_variable more_, less_;
  std::deque<Piece> queue_;
  Written written_;
  bool writing_ = false, stop_ = false;
  std::thread thread_;
};

}  // namespace reprise::job
