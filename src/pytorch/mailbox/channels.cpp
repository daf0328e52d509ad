// What the mailbox is made of, from the library of this process.
#include "pytorch/library.hpp"
#include "pytorch/mailbox/mailbox.hpp"

namespace sabot::pytorch {

ByteChannels byte_channels() {
  const Library& here = library();
  ByteChannels channels;
  channels.put = here.channel_put;
  channels.take = here.channel_take;
  channels.wait_begin = here.wait_begin;
  channels.wait_pause = here.wait_pause;
  channels.wait_end = here.wait_end;
  channels.async_error = here.beneath.CommGetAsyncError;
  channels.last_error = here.beneath.GetLastError;
  return channels;
}

}  // namespace sabot::pytorch
