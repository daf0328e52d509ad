// Send and receive: announced to the layers as NCCL's Send and Recv, carried by the mailbox.
//
// NCCL has neither tags nor receives from anybody, and would let two ranks that receive before they
// send wait for each other; torch's other CPU backends have and do not. Hence the mailbox.
#include <algorithm>

#include "pytorch/announced.hpp"
#include "pytorch/requests.hpp"

namespace sabot::pytorch {
namespace {

using ::c10d::OpType;

const char* name_of(OpType type) {
  switch (type) {
    case OpType::SEND: return "send";
    case OpType::RECV: return "recv";
    default: return "recv from any source";
  }
}
const char* title_of(OpType type) {
  switch (type) {
    case OpType::SEND: return "sabot:send";
    case OpType::RECV: return "sabot:recv";
    default: return "sabot:recvAnySource";
  }
}

// What runs between the call and the delivery of a message.
struct InTransit {
  std::shared_ptr<Group> group;
  c10::intrusive_ptr<SabotWork> work;
  Flight flight;

  void deliver(const Delivery& delivery) {
    group->end(flight, delivery.kind == Delivery::Kind::kDone);
    work->set_source(delivery.source);
    work->end(failure(delivery));
    leave_to_caller(std::move(work));
  }

 private:
  std::exception_ptr failure(const Delivery& delivery) const {
    switch (delivery.kind) {
      case Delivery::Kind::kDone: return nullptr;
      case Delivery::Kind::kTimeout:
        group->write_recorder();
        return group->failure_of(timeout_text(group->member().rank, flight, Clock::now()) + " " +
                                 delivery.text);
      default:
        return group->explain(delivery.code, delivery.text, flight, Style::kBackendError, here());
    }
  }
};

sabot_call_t announce(const Group& group, OpType type, const Buffer& buffer, int peer) {
  sabot_call_t call = call_of(type == OpType::SEND ? "Send" : "Recv", group.comm());
  call.count = buffer.count;
  call.datatype = buffer.type;
  call.peer = peer;
  if (type == OpType::SEND) {
    call.send = buffer.data;
  } else {
    call.recv = buffer.data;
  }
  return call;
}

void check_peer(int peer, const Member& member, const char* operation) {
  if (peer >= 0 && peer < member.size) return;
  refuse(operation, "rank " + std::to_string(peer) + " is not in group " + member.group +
                        ", which has ranks 0 to " + std::to_string(member.size - 1));
}

}  // namespace

WorkRef SabotBackend::message(OpType type, const at::Tensor& tensor, int peer, int tag) {
  const Buffer buffer = payload(tensor, name_of(type));
  if (type != OpType::RECVANYSOURCE) check_peer(peer, group_->member(), name_of(type));
  if (coalesced_ != nullptr) {
    return coalesced_->add_message(
        rank_, [this, type, tensor, peer, tag] { return message(type, tensor, peer, tag); });
  }
  group_->check_usable();
  Announced call(announce(*group_, type, buffer, peer));
  const bool sends = type == OpType::SEND;
  const c10::ArrayRef<at::Tensor> tensors = tensor;
  const c10::ArrayRef<at::Tensor> none;
  const Request request{type,
                        title_of(type),
                        std::chrono::milliseconds(0),
                        true,
                        sends ? tensors : none,
                        sends ? none : tensors,
                        Style::kBackendError,
                        here(),
                        peer};
  auto work = c10::make_intrusive<SabotWork>(rank_, type, request.title, 0, tensors);
  work->drive_by(group_);
  if (call.is_to_run()) {
    auto transit = std::make_shared<InTransit>();
    transit->group = group_;
    transit->work = work;
    group_->begin(transit->flight, request, true);
    Mailbox::Address address;
    address.peer = type == OpType::RECVANYSOURCE ? kAnySource : peer;
    address.tag = tag;
    address.type = static_cast<int>(tensor.scalar_type());
    address.deadline_ns = Mailbox::deadline_after(transit->flight.timeout);
    auto* data = static_cast<std::byte*>(tensor.data_ptr());
    const auto delivered = [transit](const Delivery& delivery) { transit->deliver(delivery); };
    if (sends) {
      group_->mailbox().send(address, {data, tensor.nbytes()}, delivered);
    } else {
      group_->mailbox().recv(address, {data, tensor.nbytes()}, delivered);
    }
  }
  call.leave();
  if (!call.is_to_run()) work->end();  // a fault that left it out and calls that success
  return work;
}

WorkRef SabotBackend::send(Tensors& tensors, int peer, int tag) {
  return message(OpType::SEND, only(tensors, "send"), peer, tag);
}

WorkRef SabotBackend::recv(Tensors& tensors, int peer, int tag) {
  return message(OpType::RECV, only(tensors, "recv"), peer, tag);
}

WorkRef SabotBackend::recvAnysource(Tensors& tensors, int tag) {
  return message(OpType::RECVANYSOURCE, only(tensors, "recv from any source"), -1, tag);
}

}  // namespace sabot::pytorch
