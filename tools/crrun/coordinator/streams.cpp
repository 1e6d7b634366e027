// SPDX-License-Identifier: GPL-2.0-only
#include "streams.h"

#include <algorithm>

namespace reprise::job {

OutputStream::Printed OutputStream::said(std::uint64_t offset, std::string_view data, std::size_t keep) {
  Printed out;
  // A daemon that was away sends again what it was not told to forget. It is the same: the rank was not rolled back since.
  if (!late_ && offset < cursor_) {
    const std::size_t again = std::min<std::uint64_t>(cursor_ - offset, data.size());
    data.remove_prefix(again);
    offset += again;
    if (data.empty()) return out;
  }
  if (late_ || offset > std::max(cursor_, printed_)) {
    if (!late_) out.missing = offset - std::max(cursor_, printed_);
    late_ = false;
    base_ = printed_ = cursor_ = written_ = offset;
    history_.clear();
  }
  cursor_ = offset + data.size();

  std::size_t skip = 0;
  std::string line;  // its beginning, which is the same
  if (offset < printed_) {
    // Bytes that are no longer kept are treated as different: printing twice is better than never.
    if (offset >= base_) {
      const std::size_t at = offset - base_;
      const std::size_t known = std::min(history_.size() - at, data.size());
      while (skip < known && history_[at + skip] == data[skip]) ++skip;
      if (skip == data.size()) return out;
    }
    // The output differs from here on.
    std::uint64_t same = offset + skip;
    if (same < printed_) {
      if (same >= base_) {
        const std::size_t begin = begin_of_line(same - base_);
        line = history_.substr(begin, same - base_ - begin);
        same -= line.size();
        history_.resize(begin);
      } else {
        history_.clear();
        base_ = same;
      }
      out.take_back = printed_ - same;
      printed_ = same;
      written_ = std::min(written_, same);
    }
  }
  out.data = line.append(data.substr(skip));
  history_ += out.data;
  printed_ += out.data.size();
  if (history_.size() > 2 * keep) {
    base_ += history_.size() - keep;
    history_.erase(0, history_.size() - keep);
  }
  return out;
}

/** @return where to begin to print if the output differs from @p at of history_ on: half a line helps nobody */
std::size_t OutputStream::begin_of_line(std::size_t at) const {
  if (history_.find('\n', at) == history_.npos) return at;  // the line is not printed to its end, and goes on
  const std::size_t before = at ? history_.rfind('\n', at - 1) : history_.npos;
  if (before == history_.npos && base_) return at;  // its beginning is no longer kept
  const std::size_t begin = before == history_.npos ? 0 : before + 1;
  // Should crrun end before it is written again, only the daemon has it.
  return base_ + begin < told ? at : begin;
}

void OutputStream::continues(std::uint64_t offset, std::string history) {
  base_ = offset - std::min<std::uint64_t>(offset, history.size());
  history_ = std::move(history);
  printed_ = written_ = cursor_ = offset;
  late_ = false;
}

void OutputStream::forget(std::uint64_t offset) {
  if (offset <= base_) return;
  const std::size_t count = std::min<std::uint64_t>(offset - base_, history_.size());
  history_.erase(0, count);
  history_.shrink_to_fit();
  base_ += count;
}

void InputStream::supply(const std::string& data) {
  data_ += data;
  if (data_.size() > keep_) {
    base_ += data_.size() - keep_;
    data_.erase(0, data_.size() - keep_);
  }
}

void InputStream::forget(std::uint64_t offset) {
  if (offset <= base_) return;
  const std::size_t count = std::min<std::uint64_t>(offset - base_, data_.size());
  data_.erase(0, count);
  base_ += count;
}

std::optional<std::string> InputStream::from(std::uint64_t offset) const {
  if (offset < base_ || offset > end_offset()) return std::nullopt;
  return data_.substr(offset - base_);
}

}  // namespace reprise::job
