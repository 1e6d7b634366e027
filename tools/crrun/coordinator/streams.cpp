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
  if (offset < printed_) {
    // Bytes that are no longer kept are treated as different: printing twice is better than never.
    if (offset >= base_) {
      const std::size_t at = offset - base_;
      const std::size_t known = std::min(history_.size() - at, data.size());
      while (skip < known && history_[at + skip] == data[skip]) ++skip;
      if (skip == data.size()) return out;
    }
    // The output differs from here on.
    const std::uint64_t same = offset + skip;
    if (same < printed_) {
      out.take_back = printed_ - same;
      if (same >= base_)
        history_.resize(same - base_);
      else
        history_.clear(), base_ = same;
      printed_ = same;
      written_ = std::min(written_, same);
    }
  }
  out.data = data.substr(skip);
  history_ += out.data;
  printed_ += out.data.size();
  if (history_.size() > 2 * keep) {
    base_ += history_.size() - keep;
    history_.erase(0, history_.size() - keep);
  }
  return out;
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
