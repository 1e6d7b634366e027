// SPDX-License-Identifier: GPL-2.0-only
// crrun's and a daemon's side of the transport in one event loop, over real TCP.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <optional>
#include <thread>

#include <asio/connect.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/write.hpp>

#include "job/endpoints.h"
#include "job/reach.h"
#include "job/transport.h"

namespace reprise::job {
namespace {

using namespace std::chrono_literals;

class Transport : public ::testing::Test {
 protected:
  void serve(std::uint16_t port = 0) {
    ServerEvents events;
    events.up = [this](const Peer& peer, Up up) { peer_ = peer, ups_.push_back(std::move(up)); };
    events.ask = [this](const Peer& peer, Ask ask) { peer_ = peer, asks_.push_back(std::move(ask)); };
    events.disconnected = [this](const Peer& peer) { gone_.push_back(peer); };
    events.refused = [this](const std::string& address, const std::string& why) { refused_.push_back(address + ": " + why); };
    server_ = std::make_unique<Server>(loop_, server_keys_, client_keys_.public_key, port, std::move(events));
  }
  std::unique_ptr<Client> client(const std::string& name, const std::string& server_key, const KeyPair& keys) {
    ClientEvents events;
    events.down = [this](Down down) { downs_.push_back(std::move(down)); };
    events.answer = [this](Answer answer) { answers_.push_back(std::move(answer)); };
    events.connected = [this] { ++connected_; };
    events.lost = [this](const std::string& why) { lost_.push_back(why); };
    return std::make_unique<Client>(loop_, name, server_key, keys, std::move(events));
  }
  std::unique_ptr<Client> client(const std::string& name) { return client(name, server_keys_.public_key, client_keys_); }
  std::string endpoint(const std::string& host = "127.0.0.1") const {
    return "tcp://" + host + ":" + std::to_string(server_->port());
  }
  /** Run the loop until @p what holds; @return whether it did in time. */
  template <class Condition>
  bool until(Condition what, std::chrono::milliseconds limit = 5s) {
    const auto end = std::chrono::steady_clock::now() + limit;
    while (!what() && std::chrono::steady_clock::now() < end) {
      loop_.restart();
      loop_.run_for(5ms);
    }
    return what();
  }

  asio::io_context loop_{1};
  KeyPair server_keys_ = make_key_pair(), client_keys_ = make_key_pair();
  std::unique_ptr<Server> server_;
  Peer peer_;
  std::vector<Up> ups_;
  std::vector<Down> downs_;
  std::vector<Ask> asks_;
  std::vector<Answer> answers_;
  std::vector<Peer> gone_;
  std::vector<std::string> refused_, lost_;
  int connected_ = 0;
};

Up hello(std::uint32_t node) {
  Up up;
  up.set_from(node);
  up.mutable_hello()->set_host("node" + std::to_string(node));
  return up;
}

TEST_F(Transport, CarriesMessagesBothWays) {
  serve();
  auto daemon = client("d1");
  daemon->connect(endpoint());
  daemon->send(hello(1));
  ASSERT_TRUE(until([&] { return !ups_.empty(); }));
  EXPECT_EQ(ups_[0].hello().host(), "node1");
  EXPECT_EQ(peer_, "d1");
  Down down;
  down.mutable_heartbeat()->set_unix_ns(7);
  EXPECT_TRUE(server_->send(peer_, down));
  ASSERT_TRUE(until([&] { return !downs_.empty(); }));
  EXPECT_EQ(downs_[0].heartbeat().unix_ns(), 7u);
  EXPECT_FALSE(server_->send("nobody", down));
  EXPECT_EQ(connected_, 1);
}

TEST_F(Transport, ReachesOverIpv6) {
  serve();
  auto daemon = client("d1");
  daemon->connect(endpoint("[::1]"));
  daemon->send(hello(1));
  if (!until([&] { return !ups_.empty() || !lost_.empty(); }) || !lost_.empty()) GTEST_SKIP() << "no IPv6 here";
  EXPECT_EQ(ups_.size(), 1u);
}

TEST_F(Transport, SignalsDoNotEndItOrLoseMessages) {
  // As the end of a child process does; asio's handlers do not restart system calls either.
  struct sigaction handler {};
  handler.sa_handler = [](int) {};
  struct sigaction old {};
  ASSERT_EQ(::sigaction(SIGUSR1, &handler, &old), 0);
  std::atomic<bool> over = false;
  std::thread sender([&over, self = ::pthread_self()] {
    while (!over) ::pthread_kill(self, SIGUSR1);
  });
  std::string error;
  unsigned sent = 0;
  try {
    serve();
    auto daemon = client("d1");
    daemon->connect(endpoint());
    for (const auto end = std::chrono::steady_clock::now() + 3s; std::chrono::steady_clock::now() < end; ++sent) {
      daemon->send(hello(sent));
      loop_.restart();
      loop_.poll();
    }
    until([&] { return ups_.size() == sent; }, 20s);
  } catch (const std::exception& caught) {
    error = caught.what();
  }
  over = true;
  sender.join();
  ::sigaction(SIGUSR1, &old, nullptr);
  EXPECT_EQ(error, "");
  ASSERT_EQ(ups_.size(), sent);
  for (unsigned i = 0; i < sent; ++i) ASSERT_EQ(ups_[i].from(), i);
}

TEST_F(Transport, KeepsOrderAndLosesNothingInALongBurst) {
  serve();
  auto daemon = client("d1");
  daemon->connect(endpoint());
  constexpr unsigned kCount = 20000;
  for (unsigned i = 0; i < kCount; ++i) daemon->send(hello(i));
  ASSERT_TRUE(until([&] { return ups_.size() == kCount; }, 20s)) << ups_.size();
  for (unsigned i = 0; i < kCount; ++i) ASSERT_EQ(ups_[i].from(), i);
}

TEST_F(Transport, CarriesLargeMessages) {
  serve();
  auto daemon = client("d1");
  daemon->connect(endpoint());
  Up up;
  up.mutable_fence()->set_data(std::string(20 << 20, 'x'));
  daemon->send(up);
  ASSERT_TRUE(until([&] { return !ups_.empty(); }, 20s));
  EXPECT_EQ(ups_[0].fence().data().size(), 20u << 20);
}

TEST_F(Transport, CarriesAMessageToSeveral) {
  serve();
  std::vector<std::unique_ptr<Client>> daemons;
  for (const char* name : {"d1", "d2"}) {
    daemons.push_back(client(name));
    daemons.back()->connect(endpoint());
    daemons.back()->send(hello(1));
  }
  ASSERT_TRUE(until([&] { return ups_.size() == 2; }));
  Down down;
  down.mutable_stdin()->set_data(std::string(1 << 20, 'x'));
  server_->send(std::vector<Peer>{"d1", "nobody", "d2"}, down);
  ASSERT_TRUE(until([&] { return downs_.size() == 2; }));
  for (const Down& one : downs_) EXPECT_EQ(one.SerializeAsString(), down.SerializeAsString());
}

TEST_F(Transport, AnswersQuestions) {
  serve();
  auto crjob = client("crjob");
  crjob->connect(endpoint());
  Ask ask;
  ask.set_drain("node3");
  crjob->ask(ask);
  ASSERT_TRUE(until([&] { return !asks_.empty(); }));
  EXPECT_EQ(asks_[0].drain(), "node3");
  Answer answer;
  answer.set_text("done");
  EXPECT_TRUE(server_->answer(peer_, answer));
  ASSERT_TRUE(until([&] { return !answers_.empty(); }));
  EXPECT_EQ(answers_[0].text(), "done");
}

TEST_F(Transport, RefusesAnotherJobsKeyAndNamesTheAddress) {
  serve();
  auto stranger = client("s", server_keys_.public_key, make_key_pair());
  stranger->connect(endpoint());
  stranger->send(hello(1));
  ASSERT_TRUE(until([&] { return !refused_.empty() && !lost_.empty(); }));
  EXPECT_THAT(refused_[0], ::testing::HasSubstr("127.0.0.1"));
  EXPECT_THAT(refused_[0], ::testing::HasSubstr("key"));
  EXPECT_EQ(connected_, 0);
  EXPECT_TRUE(ups_.empty());
}

TEST_F(Transport, RefusesWhoTakesItForAnotherServer) {
  serve();
  auto lost_one = client("s", make_key_pair().public_key, client_keys_);
  lost_one->connect(endpoint());
  lost_one->send(hello(1));
  ASSERT_TRUE(until([&] { return !lost_.empty(); }, 10s));
  EXPECT_EQ(connected_, 0);
  EXPECT_TRUE(ups_.empty());
}

TEST_F(Transport, AClientEndsThoughTheLoopWasStoppedWhenItsConnectionWasLost) {
  serve();
  ClientEvents events;
  events.lost = [this](const std::string& why) { lost_.push_back(why), loop_.stop(); };
  auto lost_one = std::make_unique<Client>(loop_, "s", make_key_pair().public_key, client_keys_, std::move(events));
  lost_one->connect(endpoint());
  loop_.restart();
  loop_.run_for(10s);
  ASSERT_EQ(lost_.size(), 1u);
  lost_one.reset();  // must not wait for a connection that only the loop would destroy
}

TEST_F(Transport, LogsWhoSpeaksSomethingElse) {
  serve();
  asio::ip::tcp::socket socket(loop_);
  socket.connect({asio::ip::make_address("127.0.0.1"), server_->port()});
  // A greeting of ZeroMQ without encryption.
  std::string greeting("\xff\0\0\0\0\0\0\0\1\x7f\3\0NULL", 16);
  greeting.resize(64);
  asio::write(socket, asio::buffer(greeting));
  ASSERT_TRUE(until([&] { return !refused_.empty(); }));
  EXPECT_TRUE(ups_.empty());
}

TEST_F(Transport, LogsWhoLeavesBeforeTheHandshake) {
  serve();
  asio::ip::tcp::socket socket(loop_);
  socket.connect({asio::ip::make_address("127.0.0.1"), server_->port()});
  asio::write(socket, asio::buffer(std::string("\xff\0\0", 3)));  // it might become a greeting
  until([] { return false; }, 100ms);
  socket.close();
  ASSERT_TRUE(until([&] { return !refused_.empty(); }));
  EXPECT_THAT(refused_[0], ::testing::HasSubstr("127.0.0.1"));
}

TEST_F(Transport, TakesNoneOfItsOwnForAStranger) {
  serve();
  std::shared_ptr<void> tried;
  find_reach(loop_, {endpoint()}, 3s, [&](Reach, const std::string&, std::shared_ptr<void> held) { tried = std::move(held); });
  ASSERT_TRUE(until([&] { return tried != nullptr; }));
  auto daemon = client("d1");
  daemon->connect(endpoint());
  ASSERT_TRUE(until([&] { return connected_ == 1; }));
  tried.reset();
  daemon->send(hello(1));
  ASSERT_TRUE(until([&] { return !ups_.empty(); }));
  until([] { return false; }, 300ms);
  EXPECT_TRUE(refused_.empty()) << refused_[0];
  // Somebody else on the same host is one all the same.
  asio::ip::tcp::socket socket(loop_);
  socket.connect({asio::ip::make_address("127.0.0.1"), server_->port()});
  asio::write(socket, asio::buffer(std::string("hello\n")));
  until([] { return false; }, 100ms);
  socket.close();
  ASSERT_TRUE(until([&] { return !refused_.empty(); }));
}

TEST_F(Transport, TellsBothSidesOfTheEnd) {
  serve();
  auto daemon = client("d1");
  daemon->connect(endpoint());
  daemon->send(hello(1));
  ASSERT_TRUE(until([&] { return !ups_.empty(); }));
  daemon->disconnect();
  ASSERT_TRUE(until([&] { return !gone_.empty(); }));
  EXPECT_EQ(gone_[0], "d1");
  EXPECT_TRUE(lost_.empty());  // it wanted that itself

  daemon->connect(endpoint());
  daemon->send(hello(2));
  ASSERT_TRUE(until([&] { return ups_.size() == 2; }));
  server_.reset();
  EXPECT_TRUE(until([&] { return !lost_.empty(); }));
}

TEST_F(Transport, NewConnectionTakesOverTheName) {
  serve();
  auto old_one = client("d1"), new_one = client("d1");
  old_one->connect(endpoint());
  old_one->send(hello(1));
  ASSERT_TRUE(until([&] { return ups_.size() == 1; }));
  new_one->connect(endpoint());
  new_one->send(hello(2));
  ASSERT_TRUE(until([&] { return ups_.size() == 2; }));
  Down down;
  down.mutable_heartbeat();
  EXPECT_TRUE(server_->send("d1", down));
  EXPECT_TRUE(until([&] { return !downs_.empty(); }));
}

TEST_F(Transport, SaysWhenThePortIsTaken) {
  serve();
  EXPECT_THROW(Server(loop_, make_key_pair(), client_keys_.public_key, server_->port(), {}), std::runtime_error);
}

TEST_F(Transport, TellsRefusedFromOpen) {
  serve();
  const std::string open = endpoint();
  std::optional<Reach> reach;
  std::string which;
  const auto note = [&](Reach got, const std::string& at, const std::shared_ptr<void>&) { reach = got, which = at; };
  find_reach(loop_, {"tcp://127.0.0.1:1", open}, 3s, note);
  ASSERT_TRUE(until([&] { return reach.has_value(); }));
  EXPECT_EQ(*reach, Reach::open);
  EXPECT_EQ(which, open);
  server_.reset();
  reach.reset();
  find_reach(loop_, {open}, 3s, note);
  ASSERT_TRUE(until([&] { return reach.has_value(); }));
  EXPECT_EQ(*reach, Reach::refused);
}

TEST_F(Transport, AProgramIsNotDeadWhileOneOfItsAddressesIsSilent) {
  // A listener whose backlog is full answers no further connection, like a host that is cut off.
  const int silent = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof name;
  ASSERT_EQ(::bind(silent, reinterpret_cast<sockaddr*>(&name), sizeof name), 0);
  ASSERT_EQ(::listen(silent, 0), 0);
  ASSERT_EQ(::getsockname(silent, reinterpret_cast<sockaddr*>(&name), &length), 0);
  std::vector<int> fill;
  for (int i = 0; i < 4; ++i) {
    fill.push_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    (void)::connect(fill.back(), reinterpret_cast<sockaddr*>(&name), sizeof name);
  }
  std::optional<Reach> reach;
  const auto note = [&](Reach got, const std::string&, const std::shared_ptr<void>&) { reach = got; };
  find_reach(loop_, {"tcp://127.0.0.1:1", "tcp://127.0.0.1:" + std::to_string(ntohs(name.sin_port))}, 500ms, note);
  ASSERT_TRUE(until([&] { return reach.has_value(); }));
  EXPECT_EQ(*reach, Reach::silent);
  for (const int fd : fill) ::close(fd);
  ::close(silent);
}

TEST(Endpoints, OfAnotherHostLeaveOutWhatThisHostHasItself) {
  const std::vector<std::string> both{"tcp://127.0.0.1:5", "tcp://[::1]:5", "tcp://192.0.2.1:5"};
  EXPECT_THAT(elsewhere(both, "another boot"), testing::Each(testing::AnyOf("tcp://192.0.2.1:5", "tcp://[::1]:5")));
  EXPECT_THAT(elsewhere(both, "another boot"), testing::Contains("tcp://192.0.2.1:5"));
  EXPECT_EQ(elsewhere(both, boot_id()), both) << "crrun is on this host";
  EXPECT_EQ(elsewhere(both, ""), both);
  EXPECT_THAT(elsewhere({"tcp://127.0.0.1:5"}, "another boot"), testing::SizeIs(1)) << "something must be tried";
}

}  // namespace
}  // namespace reprise::job
