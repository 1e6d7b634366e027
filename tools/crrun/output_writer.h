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

#include "crrun/coordinator/effects.h"
#include "crrun/output_record.h"

namespace reprise::job {

/** Puts the tag before each line; holds incomplete lines back. */
class LineTagger {
 public:
  explicit LineTagger(std::string tag) : tag_(std::move(tag)) {}
  struct Lines {
    std::string text;  ///< to write
    std::string raw;   ///< the bytes of the stream in it, if they are others
  };
  /** @param take_back number of bytes given last that are void */
  Lines feed(const std::string& data, std::size_t take_back, bool end);
  /** @return number of bytes that are held back */
  std::size_t held() const { return partial_.size(); }

 private:
  std::string tag_, partial_;
};

class OutputWriter {
 public:
  /** Called from the thread when a piece of output has been written; @p mark is that of write(). */
  using Written = std::function<void(std::uint64_t mark)>;
  /** The record belongs to the thread from now on. */
  OutputWriter(bool tag, OutputRecord record, Written written);
  ~OutputWriter();
  OutputWriter(const OutputWriter&) = delete;

  /**
   * Never blocks: whoever sends the output keeps its amount within bounds until it learns that it was written.
   * @param mark passed to Written, also when nothing remains to be written
   * @return the offset in the stream up to which it is then written: a line that is not complete may be held back
   */
  std::uint64_t write(const WriteOutput& output, std::uint64_t mark = 0);
  /** Wait until everything is written. */
  void flush();
  /** The job is over: nothing will ever continue this output. Everything was flushed. */
  void forget() { record_.remove(); }

 private:
  struct Piece {
    int fd;
    Rank rank;
    std::uint32_t stream;
    LineTagger::Lines lines;
    std::uint64_t offset;  ///< in the stream, behind what is written
    std::uint64_t mark;
  };
  void run();
  void put(const Piece& piece);

  bool tag_;
  std::map<std::pair<std::string, std::uint32_t>, LineTagger> taggers_;
  std::mutex mutex_;  ///< guards all below
  std::condition_variable more_, less_;
  std::deque<Piece> queue_;
  OutputRecord record_;
  Written written_;
  bool writing_ = false, stop_ = false;
  std::thread thread_;
};

}  // namespace reprise::job
