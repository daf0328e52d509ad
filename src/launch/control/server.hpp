// Serves `sabot ctl` for a run: one thread of `sabot run`, from before the command starts until it
// has ended.
//
// The thread takes one line from a client, lets the desk answer it, and sends the answer; a client
// gets no second answer before it has read the first. Bounded: kClientsMax at a time, each line by
// kRequestBytesMax and kPatienceMs. Only the user of the run (and root) is served. A launcher that
// finds another one serving waits, without a word, until that one ends. All signals are blocked in
// the thread: they are the main thread's, which waits for them.
#pragma once

#include <memory>
#include <string>

#include "launch/control/desk.hpp"

namespace sabot::launch::control {

inline constexpr std::size_t kClientsMax = 16;
inline constexpr int kPatienceMs = 10'000;

class Server {
 public:
  // Makes the control page, which must be there before the first process looks for it, and serves
  // if no other launcher does. What keeps a run from being controlled is logged once; it runs all
  // the same.
  static std::unique_ptr<Server> start(const DeskFacts& facts);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  // Ends the thread and takes the socket away.
  ~Server();

 private:
  class Service;
  explicit Server(std::unique_ptr<Service> service);
  std::unique_ptr<Service> service_;
};

}  // namespace sabot::launch::control
