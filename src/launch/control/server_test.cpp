// The server end to end over its socket: who is served, how much, how long, and by which launcher.
#include "launch/control/server.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <vector>

#include "launch/control/client.hpp"
#include "launch/control/client_line.hpp"
#include "launch/control/endpoint.hpp"
#include "run/identity.hpp"
#include "run/run_folder.hpp"
#include "run/scratch_folder_test.hpp"
#include "run/text_file.hpp"
#include "scenario/parse.hpp"

namespace sabot::launch::control {
namespace {

using Clock = ClientLine::Clock;

constexpr const char* kOneFault = "nic-dies: AllReduce[rank=1]=error(SystemError)";

std::string text_or_error(const Result<run::JsonValue>& answer) {
  return answer.ok() ? (*answer)["text"].text() : answer.error().message();
}

// Up to the newline; "" if the other side closed first.
std::string receive_line(int fd) {
  std::string line;
  char c = 0;
  while (::recv(fd, &c, 1, 0) == 1) {
    if (c == '\n') return line;
    line.push_back(c);
  }
  return line;
}

class Served : public run::ScratchFolder {
 protected:
  void SetUp() override {
    ScratchFolder::SetUp();
    make_run(path_);
  }
  static void make_run(const std::string& folder) {
    std::filesystem::create_directories(folder);
    ASSERT_TRUE(run::write_file(folder + "/config.json", "{}\n").ok());
  }
  static DeskFacts facts(const std::string& folder, const char* line = kOneFault) {
    DeskFacts facts;
    facts.run_folder = folder;
    facts.scenario = *scenario::parse_line(line, "--fault");
    return facts;
  }
  static std::string ask_status(const std::string& folder) {
    return text_or_error(ask(folder, {.verb = Verb::kStatus}));
  }
};

TEST_F(Served, ARequestIsAnsweredAndASecondOneOnTheSameConnectionToo) {
  const auto server = Server::start(facts(path_));
  ASSERT_NE(server, nullptr);
  EXPECT_EQ(text_or_error(ask(path_, {.verb = Verb::kDisarm, .name = "nic-dies"})),
            "fault \"nic-dies\" is disarmed");
  const Result<run::JsonValue> status = ask(path_, {.verb = Verb::kStatus});
  ASSERT_TRUE(status.ok()) << status.error().message();
  EXPECT_EQ((*status)["status"]["run"].text(), path_);

  const Result<Fd> socket = connect_to(path_, 10);
  ASSERT_TRUE(socket.ok());
  const std::string two = "{\"do\":\"arm\",\"name\":\"nic-dies\"}\nnonsense\n";
  ASSERT_EQ(::send(socket->get(), two.data(), two.size(), 0), static_cast<ssize_t>(two.size()));
  EXPECT_EQ(receive_line(socket->get()), R"({"ok":true,"text":"fault \"nic-dies\" is armed"})");
  EXPECT_EQ(receive_line(socket->get()),
            R"({"ok":false,"text":"a request is one line of JSON: not JSON: an unknown word at )"
            R"(offset 0"})");
}

TEST_F(Served, TheSocketIsItsOwnersAndGoesWithTheServer) {
  auto server = Server::start(facts(path_));
  struct stat about {};
  ASSERT_EQ(::stat((path_ + "/control.sock").c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 07777U, 0600U);
  server.reset();
  EXPECT_NE(::stat((path_ + "/control.sock").c_str(), &about), 0);
  EXPECT_EQ(ask_status(path_), "run '" + path_ +
                                   "' has ended, or is not controlled: nothing serves its "
                                   "control.sock");
}

TEST_F(Served, AFolderWithALongPathIsServedToo) {
  std::string deep = path_;
  while (deep.size() < 300) deep += "/a-folder-with-quite-a-name";
  make_run(deep);
  const auto server = Server::start(facts(deep));
  ASSERT_NE(server, nullptr);
  EXPECT_TRUE(std::filesystem::is_socket(deep + "/control.sock"));
  EXPECT_EQ(text_or_error(ask(deep, {.verb = Verb::kDisarm, .name = "nic-dies"})),
            "fault \"nic-dies\" is disarmed");
}

TEST_F(Served, ARelativePathLeadsToTheRunAsWell) {
  std::filesystem::create_directory("runs");
  make_run("runs/one");
  const auto server = Server::start(facts(std::filesystem::absolute("runs/one").string()));
  EXPECT_EQ(ask_status("runs/one"), "");
}

TEST_F(Served, AMissingRunIsNamedWithTheNearest) {
  std::filesystem::create_directory("runs");
  make_run("runs/2026-11-30T10-00-00-77");
  EXPECT_EQ(ask_status("runs/2026-11-30T10-00-00-7"),
            "there is no run folder 'runs/2026-11-30T10-00-00-7'; did you mean "
            "'runs/2026-11-30T10-00-00-77'?");
  EXPECT_EQ(ask_status("somewhere"), "there is no run folder 'somewhere'");
  EXPECT_EQ(ask_status("runs"), "'runs' is no run folder of `sabot run`: it has no config.json");
}

TEST_F(Served, ALauncherThatWasKilledLeavesASentenceAndTheNextOneTakesItsPlace) {
  { const Result<Fd> dead = listen_in(path_); }
  ASSERT_TRUE(run::write_file(path_ + "/control.server",
                              R"({"host":")" + run::host_name() + R"(","pid":77})")
                  .ok());
  EXPECT_EQ(ask_status(path_), "run '" + path_ + "' has ended: its launcher (process 77 on host " +
                                   run::host_name() + ") is gone without a farewell");
  const auto server = Server::start(facts(path_));
  EXPECT_EQ(ask_status(path_), "");
}

TEST_F(Served, ARunThatIsControlledOnAnotherHostSaysWhere) {
  { const Result<Fd> elsewhere = listen_in(path_); }
  ASSERT_TRUE(run::write_file(path_ + "/control.server", R"({"host":"node-b","pid":5})").ok());
  EXPECT_EQ(ask_status(path_), "run '" + path_ +
                                   "' is controlled by process 5 on host node-b; give this command "
                                   "there");
}

TEST_F(Served, TheFirstLauncherServesAndASecondOneTakesOverWhenItEnds) {
  auto first = Server::start(facts(path_));
  auto second = Server::start(facts(path_));
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(text_or_error(ask(path_, {.verb = Verb::kDisarm, .name = "nic-dies"})),
            "fault \"nic-dies\" is disarmed");
  first.reset();
  std::string text;
  for (int i = 0; i < 1000 && text != "fault \"nic-dies\" is disarmed, as it was"; ++i) {
    ::poll(nullptr, 0, 10);
    text = text_or_error(ask(path_, {.verb = Verb::kDisarm, .name = "nic-dies"}));
  }
  EXPECT_EQ(text, "fault \"nic-dies\" is disarmed, as it was");
}

TEST_F(Served, ALauncherThatWaitsForAnotherEndsAtOnce) {
  const auto first = Server::start(facts(path_));
  auto second = Server::start(facts(path_));
  const Clock::time_point before = Clock::now();
  second.reset();
  EXPECT_LT(Clock::now() - before, std::chrono::milliseconds(400));
  EXPECT_EQ(ask_status(path_), "") << "it must not take the other one's socket away";
}

TEST_F(Served, ALauncherWithOtherFaultsStandsAsideWithoutAWord) {
  const auto outer = Server::start(facts(path_));
  testing::internal::CaptureStderr();
  EXPECT_EQ(Server::start(facts(path_, "other: Send=error(SystemError)")), nullptr);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST_F(Served, AFolderThatCannotHoldTheSocketLeavesTheRunAlone) {
  std::filesystem::create_directories(path_ + "/control.sock/full");
  testing::internal::CaptureStderr();
  EXPECT_EQ(Server::start(facts(path_)), nullptr);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "[sabot] this run cannot be controlled: cannot make the socket '" + path_ +
                "/control.sock': Address already in use\n");
}

TEST_F(Served, OneClientTooManyIsToldSoAndTheOthersAreServed) {
  const auto server = Server::start(facts(path_));
  std::vector<Fd> clients;
  for (std::size_t i = 0; i < kClientsMax; ++i) {
    Result<Fd> client = connect_to(path_, 10);
    ASSERT_TRUE(client.ok());
    clients.push_back(std::move(client).value());
  }
  EXPECT_EQ(ask_status(path_), "16 clients are connected already; try again");
  const std::string line = "{\"do\":\"arm\",\"name\":\"nic-dies\"}\n";
  ASSERT_EQ(::send(clients[3].get(), line.data(), line.size(), 0),
            static_cast<ssize_t>(line.size()));
  EXPECT_NE(receive_line(clients[3].get()), "");
  clients.clear();
  EXPECT_EQ(ask_status(path_), "");
}

TEST_F(Served, ALineWithoutAnEndIsRefusedAtItsLimit) {
  const auto server = Server::start(facts(path_));
  const Result<Fd> client = connect_to(path_, 10);
  ASSERT_TRUE(client.ok());
  const std::string piece(65536, 'x');
  while (::send(client->get(), piece.data(), piece.size(), MSG_NOSIGNAL) > 0) {
  }
  EXPECT_EQ(receive_line(client->get()),
            R"({"ok":false,"text":"a request is at most 2097152 bytes long"})");
}

TEST_F(Served, TheServersThreadTakesNoSignal) {
  sigset_t usr1;
  sigset_t before;
  ::sigemptyset(&usr1);
  ::sigaddset(&usr1, SIGUSR1);
  ::pthread_sigmask(SIG_BLOCK, &usr1, &before);
  const auto server = Server::start(facts(path_));
  ::kill(::getpid(), SIGUSR1);
  const timespec limit{10, 0};
  EXPECT_EQ(::sigtimedwait(&usr1, nullptr, &limit), SIGUSR1) << "its default would end the process";
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

class Line : public testing::Test {
 protected:
  void SetUp() override {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    other_ = Fd(ends[0]);
    line_.emplace(Fd(ends[1]), start_);
  }
  void say(const std::string& text) {
    ASSERT_EQ(::send(other_.get(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  }
  bool step(int after_ms = 0) {
    return line_->step([](std::string_view line) { return "you said " + std::string(line); },
                       start_ + std::chrono::milliseconds(after_ms));
  }
  const Clock::time_point start_ = Clock::now();
  Fd other_;
  std::optional<ClientLine> line_;
};

TEST_F(Line, ComesInPieces) {
  say("hel");
  EXPECT_TRUE(step());
  EXPECT_EQ(line_->awaited(), POLLIN);
  say("lo\nrest");
  EXPECT_TRUE(step());
  EXPECT_EQ(line_->awaited(), POLLOUT);
  EXPECT_TRUE(step());
  EXPECT_EQ(receive_line(other_.get()), "you said hello");
  EXPECT_EQ(line_->awaited(), POLLIN);
}

TEST_F(Line, IsAnsweredAlsoAfterTheClientHasSaidItsLast) {
  say("bye\n");
  ::shutdown(other_.get(), SHUT_WR);
  EXPECT_TRUE(step());
  EXPECT_TRUE(step());
  EXPECT_EQ(receive_line(other_.get()), "you said bye");
  EXPECT_FALSE(step());
}

TEST_F(Line, HasUntilItsDeadlineAndEachAnswerGivesItANewOne) {
  EXPECT_TRUE(step(9'999));
  say("a\n");
  EXPECT_TRUE(step(9'999));
  EXPECT_TRUE(step(9'999));
  EXPECT_TRUE(step(19'998));
  EXPECT_FALSE(step(19'999));
}

TEST_F(Line, DripsDoNotMoveTheDeadline) {
  say("a");
  EXPECT_TRUE(step(5'000));
  say("b");
  EXPECT_TRUE(step(9'000));
  EXPECT_FALSE(step(10'000));
}

}  // namespace
}  // namespace sabot::launch::control
