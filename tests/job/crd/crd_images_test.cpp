// SPDX-License-Identifier: GPL-2.0-only
// Images that daemons read from each other: over the loopback, with files as a wave leaves them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <set>
#include <thread>

#include <asio/ip/tcp.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>

#include "base/kept_make.h"
#include "crd/images/client.h"
#include "crd/images/connect.h"
#include "crd/images/packed_memory.h"
#include "crd/images/parity_files.h"
#include "crd/images/secure_stream.h"
#include "crd/images/server.h"
#include "crd/images/sources.h"
#include "on_disk.h"

namespace reprise::crd {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

constexpr auto kAsItIs = Sources::Form::as_it_is;
const std::string kSecret = "what all daemons of the job know";

job::Relaying at(std::uint16_t port) {
  job::Relaying out;
  out.add_endpoints("tcp://127.0.0.1:" + std::to_string(port));
  return out;
}

/** Passes connections on to a port of this machine, and cuts the first ones. */
class Cutter {
 public:
  /** @param after bytes from there; then the connection ends @param times so often */
  Cutter(std::uint16_t port, std::uint64_t after, int times) : port_(port), after_(after), left_(times) {
    thread_ = std::thread([this] { run(); });
  }
  ~Cutter() {
    end_ = true;
    ::shutdown(acceptor_.native_handle(), SHUT_RDWR);
    thread_.join();
    for (std::thread& one : pumps_) one.join();
  }
  std::uint16_t port() const { return acceptor_.local_endpoint().port(); }
  int connections() const { return connections_; }

 private:
  using Tcp = asio::ip::tcp;
  void run() {
    while (!end_) {
      asio::error_code error;
      auto in = std::make_shared<Tcp::socket>(loop_), out = std::make_shared<Tcp::socket>(loop_);
      acceptor_.accept(*in, error);
      if (error) return;
      out->connect({asio::ip::address_v4::loopback(), port_}, error);
      ++connections_;
      const bool cut = left_-- > 0;
      pumps_.emplace_back([=, this] { pump(*in, *out, UINT64_MAX); });
      pumps_.emplace_back([=, this] { pump(*out, *in, cut ? after_ : UINT64_MAX); });
    }
  }
  static void pump(Tcp::socket& from, Tcp::socket& to, std::uint64_t most) {
    std::vector<char> buffer(65536);
    asio::error_code error;
    while (most > 0) {
      const std::size_t got = from.read_some(asio::buffer(buffer), error);
      if (error) break;
      asio::write(to, asio::buffer(buffer.data(), std::min<std::uint64_t>(got, most)), error);
      if (error) break;
      most -= std::min<std::uint64_t>(got, most);
    }
    ::shutdown(from.native_handle(), SHUT_RDWR);
    ::shutdown(to.native_handle(), SHUT_RDWR);
  }
  const std::uint16_t port_;
  const std::uint64_t after_;
  int left_;
  std::atomic<int> connections_{0};
  std::atomic<bool> end_{false};
  asio::io_context loop_;
  Tcp::acceptor acceptor_{loop_, {asio::ip::address_v4::loopback(), 0}};
  std::thread thread_;
  std::vector<std::thread> pumps_;
};

class CrdImages : public OnDisk {
 protected:
  CrdImages() {
    readers.secret = kSecret;
    readers.hosts = {{0, "node0"}, {1, "node1"}, {2, "node2"}};
    readers.silence = 2s;
    fs::create_directories(job::wave_directory(other(), 1));
    fs::create_directories(job::wave_directory(other(), 2));
  }
  /** The disk of the node that copies. */
  std::string other() const { return directory_ + "/other"; }
  std::string there(std::uint32_t wave, std::uint32_t rank) const { return job::image_path(other(), wave, rank); }
  job::StoredImage stored(std::uint32_t wave, std::uint32_t rank) const {
    for (const job::StoredImage& one : image_store::list(local()))
      if (one.wave() == wave && one.rank() == rank) return one;
    throw std::runtime_error("no such image");
  }
  job::ImageSource source(std::uint32_t node, const job::Relaying& from, std::uint32_t wave, const std::vector<std::uint32_t>& ranks) const {
    job::ImageSource out;
    out.set_node(node);
    *out.mutable_from() = from;
    for (const std::uint32_t rank : ranks) *out.add_images() = stored(wave, rank);
    return out;
  }
  job::Relaying here() const { return at(server.port()); }
  /** @return what is in a directory of a wave, but the images and manifests of these ranks */
  std::set<std::string> rest(std::uint32_t wave, const std::vector<std::uint32_t>& ranks) const {
    std::set<std::string> out;
    for (const auto& entry : fs::directory_iterator(job::wave_directory(other(), wave))) out.insert(entry.path().filename());
    for (const std::uint32_t rank : ranks) {
      out.erase("rank-" + std::to_string(rank) + ".img");
      out.erase("rank-" + std::to_string(rank) + ".json");
    }
    return out;
  }
  static void damage(const std::string& path) {
    std::string content = job::read_file(path);
    content[content.size() / 2] ^= 1;
    job::write_atomically(path, content);
  }
  static bool some(std::uint64_t page) { return page % 100 == 7; }
  template <class Call>
  static std::string error_of(Call call) {
    try {
      call();
      return "";
    } catch (const std::exception& error) {
      return error.what();
    }
  }
  ImageServer server{local(), kSecret};
  Readers readers;
};

TEST_F(CrdImages, AreCopiedWithTheirManifests) {
  const std::string from = image(1, 4, 9 * kMegabyte);
  Sources sources(readers, {source(0, here(), 1, {4})}, 1);
  std::uint64_t progress = 0;
  EXPECT_EQ(sources.copy(4, there(1, 4), kAsItIs, {0, nullptr, [&](std::uint64_t bytes) { progress += bytes; }}), fs::file_size(from));
  EXPECT_EQ(job::read_file(there(1, 4)), job::read_file(from));
  EXPECT_EQ(job::read_file(job::manifest_path(there(1, 4))), job::read_file(job::manifest_path(from)));
  EXPECT_EQ(progress, fs::file_size(from));
  EXPECT_EQ(rest(1, {4}).size(), 0u);
  const std::uint64_t once = sources.network_bytes();
  EXPECT_EQ(once, fs::file_size(from) + fs::file_size(job::manifest_path(from)));
  // What is here is not copied again.
  EXPECT_EQ(sources.copy(4, there(1, 4), kAsItIs, {}), fs::file_size(from));
  EXPECT_EQ(sources.network_bytes(), once);
}

TEST_F(CrdImages, CopiesOfDeltasStandAloneForARecovery) {
  image(1, 0, 2 * kMegabyte);
  const std::string from = delta(2, 1, 2 * kMegabyte, some);
  Sources sources(readers, {source(0, here(), 2, {0})}, 2);
  EXPECT_EQ(sources.copy(0, there(2, 0), Sources::Form::whole, {}), read_manifest(job::manifest_path(from)).bytes);
  const Image copy = Image::open(there(2, 0));
  EXPECT_TRUE(copy.bases().empty());
  copy.verify_all();
  const Manifest manifest = read_manifest(job::manifest_path(there(2, 0)));
  EXPECT_EQ(manifest.file_bytes(), fs::file_size(there(2, 0)));
  EXPECT_EQ(manifest.checksum, copy.checksum());
}

TEST_F(CrdImages, OfADeltaWhatHasChangedIsCopied) {
  std::string from = image(1, 0, 2 * kMegabyte);
  Sources(readers, {source(0, here(), 1, {0})}, 1).copy(0, there(1, 0), kAsItIs, {});
  for (std::uint32_t wave = 2; wave <= 4; ++wave) {
    from = delta(wave, wave - 1, 2 * kMegabyte, some);
    fs::create_directories(job::wave_directory(other(), wave));
    Sources sources(readers, {source(0, here(), wave, {0})}, wave);
    std::uint64_t progress = 0;
    const Manifest manifest = read_manifest(job::manifest_path(from));
    EXPECT_GT(manifest.delta, 0u);
    EXPECT_EQ(sources.copy(0, there(wave, 0), kAsItIs, {0, nullptr, [&](std::uint64_t bytes) { progress += bytes; }}), manifest.bytes);
    EXPECT_EQ(progress, manifest.bytes);
    EXPECT_EQ(sources.network_bytes(), fs::file_size(from) + fs::file_size(job::manifest_path(from)));
    EXPECT_EQ(job::read_file(there(wave, 0)), job::read_file(from));
    EXPECT_EQ(job::read_file(job::manifest_path(there(wave, 0))), job::read_file(job::manifest_path(from)));
    // What it needs stays when the older waves are gone, and a complete copy is left alone.
    image_store::prune(other(), {wave});
    Image::open(there(wave, 0)).verify_all();
    sources.copy(0, there(wave, 0), kAsItIs, {});
    EXPECT_EQ(sources.network_bytes(), fs::file_size(from) + fs::file_size(job::manifest_path(from)));
    // And this node can hand it out, whole.
    ImageServer again(other(), kSecret);
    job::ImageSource second = source(1, at(again.port()), wave, {0});
    const std::string third = directory_ + "/third.img";
    Sources(readers, {second}, wave).copy(0, third, Sources::Form::whole, {});
    EXPECT_TRUE(Image::open(third).bases().empty());
    fs::remove(third);
  }
}

TEST_F(CrdImages, WhatADeltaNeedsIsCopiedWhereItIsMissing) {
  image(1, 0, 2 * kMegabyte);
  delta(2, 1, 2 * kMegabyte, some);
  const std::string from = delta(3, 2, 2 * kMegabyte, some);
  fs::create_directories(job::wave_directory(other(), 3));
  Sources(readers, {source(0, here(), 3, {0})}, 3).copy(0, there(3, 0), kAsItIs, {});
  EXPECT_EQ(job::read_file(there(3, 0)), job::read_file(from));
  const Image copy = Image::open(there(3, 0));
  EXPECT_FALSE(copy.bases().empty());
  copy.verify_all();
}

TEST_F(CrdImages, WhatADeltaNeedsIsCopiedWhereAnotherFileHasItsName) {
  image(1, 0, 2 * kMegabyte);
  const std::string from = delta(2, 1, 2 * kMegabyte, some);
  // The image of another job's rank 0, say.
  fs::copy(image(1, 9, 30), there(1, 0));
  Sources sources(readers, {source(0, here(), 2, {0})}, 2);
  sources.copy(0, there(2, 0), kAsItIs, {});
  EXPECT_EQ(job::read_file(there(2, 0)), job::read_file(from));
  Image::open(there(2, 0)).verify_all();
  EXPECT_EQ(Image::open(there(1, 0)).checksum(), Image::open(job::image_path(local(), 1, 9)).checksum()) << "that one stays as it is";
}

TEST_F(CrdImages, ADamagedDeltaIsNotTaken) {
  image(1, 0, 2 * kMegabyte);
  const std::string from = delta(2, 1, 2 * kMegabyte, some);
  Sources(readers, {source(0, here(), 1, {0})}, 1).copy(0, there(1, 0), kAsItIs, {});
  {
    const Image image = Image::open(from);
    const auto own = std::find_if(image.runs().begin(), image.runs().end(), [](const PageRun& run) { return run.file == 0; });
    ASSERT_NE(own, image.runs().end());
    std::string content = job::read_file(from);
    content[own->offset + 5] ^= 1;
    job::write_atomically(from, content);
  }
  Sources sources(readers, {source(1, here(), 2, {0})}, 2);
  EXPECT_THAT(error_of([&] { sources.copy(0, there(2, 0), kAsItIs, {}); }), AllOf(HasSubstr("rank 0"), HasSubstr("node1"), HasSubstr("damaged")));
  EXPECT_EQ(rest(2, {}).size(), 0u) << "nothing is left";
}

TEST_F(CrdImages, ADamagedOneIsNotCopiedAndTheNextSourceIsAsked) {
  image(1, 0, 4 * kMegabyte);
  const job::ImageSource bad = source(1, here(), 1, {0});
  fs::copy(local(), directory_ + "/good", fs::copy_options::recursive);
  damage(job::image_path(local(), 1, 0));
  const ImageServer good(directory_ + "/good", kSecret);
  job::ImageSource second = bad;
  second.set_node(2);
  *second.mutable_from() = at(good.port());
  {
    Sources sources(readers, {bad}, 1);
    EXPECT_THAT(error_of([&] { sources.copy(0, there(1, 0), kAsItIs, {}); }), AllOf(HasSubstr("rank 0"), HasSubstr("node1"), HasSubstr("damaged")));
    EXPECT_EQ(rest(1, {}).size(), 0u) << "nothing is left";
  }
  Sources sources(readers, {bad, second}, 1);
  sources.copy(0, there(1, 0), kAsItIs, {});
  Image::open(there(1, 0)).verify_all();
  EXPECT_TRUE(sources.unreachable().empty());
}

TEST_F(CrdImages, ACopyThatIsDamagedHereIsMadeAnew) {
  const std::string from = image(1, 0, 40);
  Sources sources(readers, {source(0, here(), 1, {0})}, 1);
  sources.copy(0, there(1, 0), kAsItIs, {});
  damage(there(1, 0));
  sources.copy(0, there(1, 0), kAsItIs, {});
  EXPECT_EQ(job::read_file(there(1, 0)), job::read_file(from));
}

TEST_F(CrdImages, AnotherImageThanTheOneThatCrrunKnowsIsNotTaken) {
  image(1, 0, 40);
  job::ImageSource other = source(1, here(), 1, {0});
  other.mutable_images(0)->set_checksum(other.images(0).checksum() + 1);
  Sources sources(readers, {other}, 1);
  EXPECT_THAT(error_of([&] { sources.copy(0, there(1, 0), kAsItIs, {}); }), HasSubstr("is not that of wave 1"));
  EXPECT_THAT(error_of([&] { sources.copy(3, there(1, 3), kAsItIs, {}); }), HasSubstr("no node has an image of rank 3"));
  EXPECT_EQ(rest(1, {}).size(), 0u);
}

TEST_F(CrdImages, ABrokenConnectionIsMadeAgainAndTheCopyGoesOn) {
  const std::string from = image(1, 0, 20 * kMegabyte);
  Cutter cutter(server.port(), 6 << 20, 2);
  Sources sources(readers, {source(0, at(cutter.port()), 1, {0})}, 1);
  sources.copy(0, there(1, 0), kAsItIs, {});
  EXPECT_EQ(job::read_file(there(1, 0)), job::read_file(from));
  EXPECT_EQ(cutter.connections(), 3);
  EXPECT_EQ(sources.network_bytes(), fs::file_size(from) + fs::file_size(job::manifest_path(from))) << "what has come is not read again";
}

TEST_F(CrdImages, ANodeThatVanishesIsGivenUp) {
  image(1, 0, 20 * kMegabyte);
  readers.silence = 1s;
  job::ImageSource lost = source(2, {}, 1, {0});
  lost.clear_from();
  // The connections that are cut before anything has come are silence.
  Cutter mute(server.port(), 0, 1000);
  Sources sources(readers, {lost, source(1, at(mute.port()), 1, {0})}, 1);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THAT(error_of([&] { sources.copy(0, there(1, 0), kAsItIs, {}); }), AllOf(HasSubstr("node2 is lost"), HasSubstr("node1 does not answer")));
  EXPECT_THROW(sources.copy(0, there(1, 0), kAsItIs, {}), Unreachable) << "the image is not bad";
  const auto took = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(took, 1s);
  EXPECT_LT(took, 5s);
  EXPECT_THAT(sources.unreachable(), UnorderedElementsAre(1u));
  // It is not waited for again.
  EXPECT_THAT(error_of([&] { sources.copy(0, there(1, 0), kAsItIs, {}); }), HasSubstr("node1 does not answer"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin - took, 500ms);
  EXPECT_EQ(rest(1, {}).size(), 0u);
}

TEST_F(CrdImages, NobodyReadsWithoutTheJobsKey) {
  image(1, 0, 40);
  readers.silence = 1s;
  const job::ImageSource from = source(0, here(), 1, {0});
  readers.secret = "of another job";
  Sources stranger(readers, {from}, 1);
  EXPECT_THAT(error_of([&] { stranger.copy(0, there(1, 0), kAsItIs, {}); }), HasSubstr("node0 does not answer"));
  // Nor is anything taken from somebody who has not the key.
  readers.secret = kSecret;
  const ImageServer wrong(local(), "of another job");
  Sources misled(readers, {source(0, at(wrong.port()), 1, {0})}, 1);
  EXPECT_THAT(error_of([&] { misled.copy(0, there(1, 0), kAsItIs, {}); }), HasSubstr("node0 does not answer"));
}

TEST_F(CrdImages, TheEndpointThatAnswersIsUsed) {
  const std::string from = image(1, 0, 40);
  job::Relaying many;
  many.add_endpoints("tcp://127.0.0.1:1");
  many.add_endpoints("not an endpoint");
  const ImageServer other(local(), "of another job");
  many.add_endpoints(at(other.port()).endpoints(0));
  many.add_endpoints(here().endpoints(0));
  Sources sources(readers, {source(0, many, 1, {0})}, 1);
  sources.copy(0, there(1, 0), kAsItIs, {});
  EXPECT_EQ(job::read_file(there(1, 0)), job::read_file(from));
}

TEST_F(CrdImages, ACopyStopsWhenItIsToldAndKeepsToItsRate) {
  image(1, 0, 8 * kMegabyte);
  Sources sources(readers, {source(0, here(), 1, {0})}, 1);
  int pieces = 0;
  CopyLimits limits;
  limits.keep_on = [&] { return pieces < 3; };
  limits.progress = [&](std::uint64_t) { ++pieces; };
  EXPECT_THROW(sources.copy(0, there(1, 0), kAsItIs, limits), std::system_error);
  EXPECT_EQ(rest(1, {}).size(), 0u);
  limits = {};
  limits.bytes_per_second = 16 << 20;
  const auto begin = std::chrono::steady_clock::now();
  sources.copy(0, there(1, 0), kAsItIs, limits);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 450ms);
}

// A daemon may be told to copy before the node that has the images is told of the commit.
TEST_F(CrdImages, AWaveWhoseCommitIsOnTheWayIsWaitedFor) {
  const std::string from = image(1, 0, 40), content = job::read_file(from);
  Sources sources(readers, {source(0, here(), 1, {0})}, 1);
  fs::rename(job::wave_directory(local(), 1), job::wave_part_directory(local(), 1));
  std::thread late([&] {
    std::this_thread::sleep_for(500ms);
    fs::rename(job::wave_part_directory(local(), 1), job::wave_directory(local(), 1));
  });
  EXPECT_EQ(error_of([&] { sources.copy(0, there(1, 0), kAsItIs, {}); }), "");
  late.join();
  EXPECT_EQ(job::read_file(there(1, 0)), content);
}

TEST_F(CrdImages, AWaveThatIsRemovedMeanwhileDoesNotComeBack) {
  image(1, 0, 8 * kMegabyte);
  Sources sources(readers, {source(0, here(), 1, {0})}, 1);
  CopyLimits limits;
  limits.progress = [&](std::uint64_t) { image_store::prune(other(), {}); };
  EXPECT_NE(error_of([&] { sources.copy(0, there(1, 0), kAsItIs, limits); }), "");
  EXPECT_FALSE(fs::exists(job::wave_directory(other(), 1)));
}

/** Three nodes, each with images of its own and a server. */
class CrdParity : public CrdImages {
 protected:
  CrdParity() {
    const auto image_of = [&](std::uint32_t rank, std::uint64_t pages) { image(1, rank, pages, [rank](std::uint64_t page) { return page % 7 == rank; }); };
    image_of(0, 3 * kMegabyte);
    image_of(1, 60);
    image_of(2, 700);
    image_of(3, 5);
    const std::vector<std::vector<std::uint32_t>> ranks{{0, 1}, {2}, {3}};
    for (std::uint32_t node = 0; node < 3; ++node) {
      fs::create_directories(job::wave_directory(of(node), 1));
      servers.push_back(std::make_unique<ImageServer>(of(node), kSecret));
      set.push_back(source(node, at(servers.back()->port()), 1, ranks[node]));
      for (const std::uint32_t rank : ranks[node])
        for (const std::string& path : {job::image_path(local(), 1, rank), job::manifest_path(job::image_path(local(), 1, rank))})
          fs::copy(path, job::wave_directory(of(node), 1));
    }
  }
  std::string of(std::uint32_t node) const { return directory_ + "/node" + std::to_string(node); }
  void keep(std::uint32_t node) {
    Sources sources(readers, set, 1);
    keep_parity(sources, node, of(node), {});
  }
  /** The node is lost: nothing of it is left. */
  void lose(std::uint32_t node) {
    servers[node].reset();
    fs::remove_all(of(node));
    set[node].clear_from();
  }
  std::string rebuilding(std::uint32_t rank) {
    Sources sources(readers, set, 1);
    return error_of([&] { rebuild_image(sources, rank, there(1, rank), {}); });
  }
  std::vector<std::unique_ptr<ImageServer>> servers;
  Sources::List set;
};

class CrdParityLost : public CrdParity, public ::testing::WithParamInterface<std::uint32_t> {};

TEST_P(CrdParityLost, WhateverNodeIsLostItsImagesAreRebuilt) {
  for (std::uint32_t node = 0; node < 3; ++node) keep(node);
  lose(GetParam());
  std::vector<std::uint32_t> ranks;
  for (const job::StoredImage& image : set[GetParam()].images()) {
    EXPECT_EQ(rebuilding(image.rank()), "");
    EXPECT_TRUE(job::read_file(there(1, image.rank())) == job::read_file(job::image_path(local(), 1, image.rank()))) << image.rank();
    EXPECT_EQ(read_manifest(job::manifest_path(there(1, image.rank()))).streams.at(1), 77u);
    ranks.push_back(image.rank());
  }
  EXPECT_EQ(rest(1, ranks).size(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Nodes, CrdParityLost, ::testing::Values(0, 1, 2));

TEST_F(CrdParity, TakesAPartOfTheImagesAndIsKeptOnce) {
  keep(1);
  std::uint64_t longest = 0;
  for (const job::StoredImage& image : set[0].images()) longest += image.bytes();
  EXPECT_NEAR(static_cast<double>(fs::file_size(job::parity_path(of(1), 1))), static_cast<double>(longest) / 2, 4096);
  Sources sources(readers, set, 1);
  keep_parity(sources, 1, of(1), {});
  EXPECT_EQ(sources.network_bytes(), 0u) << "it is there";
  damage(job::parity_path(of(1), 1));
  keep(1);
  EXPECT_GT(open_parity(of(1), 1)->size(), 0u);
  Sources others(readers, set, 1);
  EXPECT_THAT(error_of([&] { keep_parity(others, 9, of(1), {}); }), HasSubstr("not in"));
}

TEST_F(CrdParity, DamageIsFound) {
  for (std::uint32_t node = 0; node < 3; ++node) keep(node);
  lose(0);
  damage(job::parity_path(of(1), 1));
  EXPECT_THAT(rebuilding(0), AllOf(HasSubstr("rank 0"), HasSubstr("node1"), HasSubstr("parity.xor is damaged")));
  EXPECT_EQ(rest(1, {}).size(), 0u);
}

TEST_F(CrdParity, WithoutEnoughNodesNothingIsMade) {
  keep(1);
  const auto keeping = [&] {
    Sources sources(readers, set, 1);
    return error_of([&] { keep_parity(sources, 0, of(0), {}); });
  };
  keep(2);
  damage(job::image_path(of(2), 1, 3));
  EXPECT_THAT(keeping(), HasSubstr("node2"));
  EXPECT_FALSE(fs::exists(job::parity_path(of(0), 1)));
  lose(2);
  EXPECT_THAT(keeping(), HasSubstr("node2 is lost"));
  lose(0);
  EXPECT_THAT(rebuilding(0), AllOf(HasSubstr("rank 0"), HasSubstr("lost")));
  EXPECT_EQ(rest(1, {}).size(), 0u);
}

/** Asks what no daemon asks. */
class CrdImageServer : public CrdImages {
 protected:
  std::unique_ptr<SecureStream> connected() const {
    std::unique_ptr<SecureStream> stream;
    connect_to_any({here().endpoints(0)}, patience(), [&](UniqueFd socket) {
      stream = std::make_unique<SecureStream>(std::move(socket), SecureStream::Side::reader, kSecret);
      stream->handshake(patience());
      return true;
    });
    return stream;
  }
  static Patience patience() { return {5s, nullptr}; }
  static ImagePiece answer(SecureStream& stream) {
    ImagePiece piece;
    stream.read_message(piece, kMostMessageBytes, patience());
    std::vector<char> data(piece.bytes());
    stream.read(data, patience());
    return piece;
  }
  static ImagePiece asked(SecureStream& stream, std::uint32_t wave, std::uint64_t offset, std::uint32_t bytes, int what = ImageRequest::IMAGE,
                          std::uint32_t base = 0) {
    ImageRequest request;
    request.set_what(static_cast<ImageRequest::What>(what));
    request.set_wave(wave);
    request.set_offset(offset);
    request.set_bytes(bytes);
    request.set_base(base);
    stream.write_message(request, patience());
    return answer(stream);
  }
};

TEST_F(CrdImageServer, RefusesWhatItCannotHandOut) {
  const std::uint64_t size = fs::file_size(image(1, 0, 4));
  const auto stream = connected();
  EXPECT_EQ(asked(*stream, 1, 0, 0).total(), size);
  EXPECT_EQ(asked(*stream, 1, size - 3, 100).bytes(), 3u);
  EXPECT_NE(asked(*stream, 1, size + 1, 1).error(), "");
  EXPECT_NE(asked(*stream, 1, UINT64_MAX, 1).error(), "");
  EXPECT_NE(asked(*stream, 1, 0, kPieceBytes + 1).error(), "");
  EXPECT_NE(asked(*stream, 1, 0, 1, 77).error(), "");
  EXPECT_NE(asked(*stream, 2, 0, 1).error(), "");
  EXPECT_EQ(asked(*stream, 1, 0, 1, ImageRequest::FILE).total(), size);
  EXPECT_NE(asked(*stream, 1, 0, 1, ImageRequest::FILE, 7).error(), "");
  fs::create_symlink("/etc/passwd", job::wave_directory(local(), 1) + "/rank-0.base-8");
  EXPECT_NE(asked(*stream, 1, 0, 1, ImageRequest::FILE, 8).error(), "") << "it follows no links";
  fs::rename(job::wave_directory(local(), 1), job::wave_part_directory(local(), 3));
  EXPECT_TRUE(asked(*stream, 3, 0, 1).busy()) << "the wave is not committed";
  fs::rename(job::wave_part_directory(local(), 3), job::wave_directory(local(), 3));
  EXPECT_EQ(asked(*stream, 3, 0, 1).error(), "") << "it serves on";
}

TEST_F(CrdImageServer, EndsAConnectionThatMakesNoSense) {
  image(1, 0, 4);
  const std::string long_one("\x00\x01\x00\x01", 4), none("\x00\x00\x00\x03\xff\xff\xff", 7);
  for (const std::string& text : {long_one, none}) {
    const auto stream = connected();
    stream->write(text, patience());
    EXPECT_THROW(answer(*stream), Broken);
  }
  // Nor does it wait for one that never proves anything.
  const UniqueFd mute = [&] {
    UniqueFd out;
    connect_to_any({here().endpoints(0)}, patience(), [&](UniqueFd socket) {
      out = std::move(socket);
      return true;
    });
    return out;
  }();
  pollfd item{mute.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&item, 1, 20000), 1) << "it is closed";
  EXPECT_EQ(asked(*connected(), 1, 0, 1).error(), "") << "it serves on";
}

TEST_F(CrdImageServer, TellsReadersToComeLaterWhenThereAreMany) {
  image(1, 0, 4);
  std::vector<std::unique_ptr<SecureStream>> others;
  for (std::size_t i = 0; i < kReaders; ++i) {
    others.push_back(connected());
    ASSERT_FALSE(asked(*others.back(), 1, 0, 1).busy());
  }
  const auto late = connected();
  EXPECT_TRUE(asked(*late, 1, 0, 1).busy());
  EXPECT_FALSE(asked(*others.front(), 1, 0, 1).busy());
  others.pop_back();
  const auto begin = std::chrono::steady_clock::now();
  while (asked(*late, 1, 0, 1).busy() && std::chrono::steady_clock::now() - begin < 20s) std::this_thread::sleep_for(50ms);
  EXPECT_FALSE(asked(*late, 1, 0, 1).busy()) << "one has left";
}

// A reader that asks, and does not read, keeps nobody else waiting.
TEST_F(CrdImageServer, AReaderThatDoesNotReadIsLeftAlone) {
  image(1, 0, 16 * kMegabyte);
  const auto stream = connected();
  ImageRequest request;
  request.set_what(ImageRequest::IMAGE);
  request.set_wave(1);
  request.set_bytes(kPieceBytes);
  for (int i = 0; i < 200; ++i) stream->write_message(request, patience());
  std::this_thread::sleep_for(1s);
  EXPECT_EQ(asked(*connected(), 1, 0, 1).error(), "") << "others are served meanwhile";
  for (int i = 0; i < 200; ++i) EXPECT_EQ(answer(*stream).bytes(), kPieceBytes);
}

TEST_F(OnDisk, RoomForCopies) {
  image(1, 0, 40);
  EXPECT_EQ(image_store::room_for(local(), 1000, 0, "a copy"), "");
  EXPECT_THAT(image_store::room_for(local(), 1000, 100'000, "a copy"), HasSubstr("allowed"));
  EXPECT_THAT(image_store::room_for(local(), 1ULL << 60, 0, "a copy"), HasSubstr("a copy needs"));
  EXPECT_EQ(image_store::open_wave(directory_ + "/new/job", 3), "");
  EXPECT_TRUE(fs::is_directory(job::wave_directory(directory_ + "/new/job", 3)));
  EXPECT_EQ(image_store::open_wave(local(), 1), "") << "it is there";
  EXPECT_EQ(image_store::list(local()).size(), 1u);
}

class CrdPackedMemory : public CrdImages {
 protected:
  static constexpr std::uint64_t kSize = 1ULL << 40;
  CrdPackedMemory() {
    fs::create_directories(job::kept_directory(local()));
    memory_.reset(make_kept_memory("store", kSize, true));
    put(5, "begin");
    put((1ULL << 30) - 3, "middle");
    put(kSize - 3, "end");
  }
  void put(std::uint64_t at, const std::string& text) {
    EXPECT_EQ(::pwrite(memory_.get(), text.data(), text.size(), static_cast<off_t>(at)), static_cast<ssize_t>(text.size()));
  }
  static std::string get(int memory, std::uint64_t at, std::size_t size) {
    std::string text(size, '?');
    EXPECT_EQ(::pread(memory, text.data(), size, static_cast<off_t>(at)), static_cast<ssize_t>(size));
    return text;
  }
  std::string path() const { return job::kept_copy_path(local(), 7, 9, "store"); }
  PackedMemory pack() {
    PartFile file(path());
    const PackedMemory out = pack_memory(memory_.get(), kSize, file, nullptr);
    file.take_name(false);
    return out;
  }
  UniqueFd memory_;
};

TEST_F(CrdPackedMemory, HasWhatWasWrittenOnly) {
  const PackedMemory packed = pack();
  EXPECT_EQ(packed.bytes, fs::file_size(path()));
  EXPECT_EQ(packed.bytes, packed_bytes(memory_.get(), kSize));
  EXPECT_LT(packed.bytes, 100'000u);
  const UniqueFd again(make_kept_memory("store", kSize, true));
  unpack_memory(path(), packed, again.get(), kSize);
  EXPECT_EQ(get(again.get(), 4, 7), std::string("\0begin\0", 7));
  EXPECT_EQ(get(again.get(), (1ULL << 30) - 3, 6), "middle");
  EXPECT_EQ(get(again.get(), kSize - 3, 3), "end");
  EXPECT_EQ(packed_bytes(again.get(), kSize), packed.bytes) << "holes stay holes";
}

TEST_F(CrdPackedMemory, ThatIsDamagedIsRefused) {
  const PackedMemory packed = pack();
  const UniqueFd again(make_kept_memory("store", kSize, true));
  EXPECT_THROW(unpack_memory(path(), {packed.bytes, packed.checksum ^ 1}, again.get(), kSize), std::runtime_error);
  EXPECT_THROW(unpack_memory(path(), {packed.bytes + 1, packed.checksum}, again.get(), kSize), std::runtime_error);
  EXPECT_THROW(unpack_memory(path(), packed, again.get(), kSize - 4096), std::runtime_error) << "it lies outside of the memory";
  std::string content = job::read_file(path());
  content[11] = 1;  // of a length
  job::write_atomically(path(), content);
  EXPECT_THROW(unpack_memory(path(), packed, again.get(), kSize), std::runtime_error);
}

TEST_F(CrdPackedMemory, IsHandedOut) {
  const PackedMemory packed = pack();
  ImageClient client("node1", {here().endpoints(0)}, kSecret, 2s);
  ImageRequest request = request_of(ImageRequest::KEPT, 0, 7);
  request.set_version(9);
  request.set_name("store");
  EXPECT_EQ(client.read_all(request, 1 << 20, {}), job::read_file(path()));
  request.set_version(8);
  EXPECT_THROW(client.read_all(request, 1 << 20, {}), std::runtime_error);
  request.set_version(9);
  for (const std::string name : {"", "other", "../../etc/passwd", "store/../store"}) {
    request.set_name(name);
    EXPECT_THROW(client.read_all(request, 1 << 20, {}), std::runtime_error) << name;
  }
  EXPECT_EQ(image_store::used_bytes(local()), packed.bytes);
}

}  // namespace
}  // namespace reprise::crd
