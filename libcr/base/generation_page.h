// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Layout of the page that holds a program's generation number. libcr.so creates it, a restore writes to it. */
#include <cstdint>
#include <cstring>

namespace reprise {

struct GenerationPage {
  std::uint64_t generation;  ///< the number that the program reads
  std::uint8_t magic[16];
  std::uint64_t self;        ///< address of the page
};

inline constexpr std::uint8_t kGenerationMagic[16] = {0xd1, 0x4e, 0x7a, 0x06, 0x5b, 0x93, 0x4c, 0xf8,
                                                      0xa2, 0x1d, 0xe7, 0x60, 0x3f, 0xb4, 0x88, 0x2b};

/** Whether libcr created @p page at address @p at. In a forked child the page is empty (MADV_WIPEONFORK). */
inline bool is_generation_page(const GenerationPage& page, std::uint64_t at) {
  return page.self == at && std::memcmp(page.magic, kGenerationMagic, sizeof kGenerationMagic) == 0;
}

inline GenerationPage generation_page(std::uint64_t generation, std::uint64_t at) {
  GenerationPage page{generation, {}, at};
  std::memcpy(page.magic, kGenerationMagic, sizeof kGenerationMagic);
  return page;
}

}  // namespace reprise
