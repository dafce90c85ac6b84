// The connection to the tkgen process, and the memory that both share.
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "runtime.h"

namespace {

constexpr uint64_t PAGE = 4096, GUARD = uint64_t(1) << 20;
constexpr int REFUSED = 3, WRONG = 1;

uint64_t pages(uint64_t size) { return (size + PAGE - 1) / PAGE * PAGE; }

bool send_all(int socket, const void* data, size_t size) {
  for (size_t done = 0; done < size;) {
    const ssize_t count = send(socket, static_cast<const char*>(data) + done, size - done, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    done += size_t(count);
  }
  return true;
}

bool receive_all(int socket, void* data, size_t size) {
  for (size_t done = 0; done < size;) {
    const ssize_t count = recv(socket, static_cast<char*>(data) + done, size - done, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    done += size_t(count);
  }
  return true;
}

[[noreturn]] void end(int status, const char* lead, const std::string& text) {
  std::fflush(stdout);
  std::fprintf(stderr, "%s%s\n", lead, text.c_str());
  std::fflush(stderr);
  _exit(status);
}

/// Sends one message with a file beside it.
bool send_file(int socket, const void* data, size_t size, int file) {
  iovec part{const_cast<void*>(data), size};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part, message.msg_iovlen = 1, message.msg_control = control, message.msg_controllen = sizeof(control);
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET, header->cmsg_type = SCM_RIGHTS, header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &file, sizeof(int));
  return sendmsg(socket, &message, MSG_NOSIGNAL) == ssize_t(size);
}

}  // namespace

void refuse(const std::string& what) { end(REFUSED, "tkgen emulate: not there: ", what); }
void stop(const std::string& why) { end(WRONG, "tkgen emulate: ", why); }

const char* Reader::need(size_t size) {
  if (size > bytes.size() - at) stop("the answer of the tkgen process is too short");
  const char* found = bytes.data() + at;
  at += size;
  return found;
}

Runtime& Runtime::get() {
  static Runtime* const runtime = new Runtime;  // never destroyed: programs call from their destructors
  return *runtime;
}

void Runtime::connect() {
  const char* path = std::getenv("TKGEN_HIP_SOCKET");
  if (!path) stop("start the program with `tkgen emulate -- PROGRAM`: this libamdhip64 has no GPU of its own");
  socket_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path, sizeof(address.sun_path) - 1);
  if (socket_ < 0 || ::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)))
    stop(std::string("cannot reach the tkgen process at ") + path);
  memory_ = memfd_create("tkgen", MFD_CLOEXEC);
  if (memory_ < 0 || ftruncate(memory_, off_t(ARENA_BYTES))) stop("cannot make the GPU's memory");
  void* at = mmap(reinterpret_cast<void*>(ARENA), ARENA_BYTES, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE, memory_, 0);
  if (at != reinterpret_cast<void*>(ARENA)) stop("cannot map the GPU's memory");
  char byte = 0;
  if (!send_file(socket_, &byte, 1, memory_)) stop("the tkgen process has ended");
  const size_t first_bytes = first_code ? code_size(first_code) : 0;
  Answer answer = ask(Message::HELLO, Writer().put(ARENA).put(ARENA_BYTES).text(first_code, first_bytes));
  Reader& in = answer.body;
  device_.name = in.text(), device_.target = in.text();
  for (uint64_t Device::*field :
       {&Device::memory, &Device::compute_units, &Device::clock_khz, &Device::bus_bits, &Device::memory_clock_khz,
        &Device::lds_per_cu, &Device::lds_per_block, &Device::l2_bytes, &Device::registers_per_cu, &Device::waves_per_cu,
        &Device::threads_per_block, &Device::wave_size})
    device_.*field = in.get<uint64_t>();
}

const Device& Runtime::device() {
  if (socket_ < 0) connect();
  return device_;
}

Answer Runtime::ask(Message what, const Writer& body) {
  if (what != Message::HELLO) device();
  struct {
    uint32_t what, zero;
    uint64_t size;
  } request{uint32_t(what), 0, body.bytes.size()};
  struct {
    int32_t status;
    uint32_t zero;
    uint64_t size;
  } reply;
  if (!send_all(socket_, &request, sizeof(request)) || !send_all(socket_, body.bytes.data(), body.bytes.size()) ||
      !receive_all(socket_, &reply, sizeof(reply)))
    stop("the tkgen process has ended");
  Answer answer{reply.status, {}};
  answer.body.bytes.resize(reply.size);
  if (!receive_all(socket_, answer.body.bytes.data(), reply.size)) stop("the tkgen process has ended");
  return answer;
}

Allocation* Runtime::allocate(uint64_t size, Kind kind, uint32_t flags) {
  if (size > device().memory - used) return nullptr;
  // Addresses are not used again before all others were: an access through a pointer that was freed finds nothing.
  const uint64_t wanted = pages(size) + GUARD, all = ARENA + ARENA_BYTES - IMAGE_BYTES;
  for (int round = 0; round < 2; ++round) {
    auto next = live.lower_bound(cursor_);
    while (cursor_ + wanted <= all) {
      const uint64_t limit = next == live.end() || next->first >= all ? all : next->first;
      if (cursor_ + wanted <= limit) {
        const uint64_t base = cursor_;
        cursor_ += wanted;
        used += size;
        return &(live[base] = {base, size, base - ARENA, kind, flags, ++numbers_});
      }
      cursor_ = limit == all ? all : limit + pages(next->second.size) + GUARD;
      if (limit != all) ++next;
    }
    cursor_ = ARENA;
  }
  return nullptr;
}

void Runtime::release(uint64_t base) {
  const Allocation gone = live.at(base);
  live.erase(base);
  used -= gone.size;
  fallocate(memory_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, off_t(gone.offset), off_t(pages(gone.size)));
}

const Allocation* Runtime::holding(uint64_t address) const {
  auto after = live.upper_bound(address);
  if (after == live.begin()) return nullptr;
  const Allocation& found = std::prev(after)->second;
  return address - found.base < found.size ? &found : nullptr;
}

bool Runtime::accessible(const void* address, size_t size) const {
  const uint64_t first = uint64_t(address);
  if (const Allocation* found = holding(first)) return size <= found->size - (first - found->base);
  return first + size <= ARENA || first >= ARENA + ARENA_BYTES;
}

hipError_t Runtime::register_host(void* pointer, size_t size, uint32_t flags) {
  const uint64_t first = uint64_t(pointer) / PAGE * PAGE, last = pages(uint64_t(pointer) + size);
  if (holding(uint64_t(pointer))) return hipErrorHostMemoryAlreadyRegistered;
  Allocation* shared = allocate(last - first, Kind::HOST);
  if (!shared) return hipErrorOutOfMemory;
  const Allocation place = *shared;  // its bytes are now also those of the program's pages
  std::memcpy(reinterpret_cast<void*>(place.base), reinterpret_cast<void*>(first), last - first);
  if (mmap(reinterpret_cast<void*>(first), last - first, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory_,
           off_t(place.offset)) == MAP_FAILED)
    return hipErrorOutOfMemory;
  live[uint64_t(pointer)] = {uint64_t(pointer), size, place.offset + (uint64_t(pointer) - first), Kind::REGISTERED, flags,
                             place.number};
  return hipSuccess;
}

hipError_t Runtime::unregister_host(void* pointer) {
  auto found = live.find(uint64_t(pointer));
  if (found == live.end() || found->second.kind != Kind::REGISTERED) return hipErrorHostMemoryNotRegistered;
  const uint64_t size = found->second.size;
  const uint64_t place = (ARENA + found->second.offset) / PAGE * PAGE;
  const uint64_t first = uint64_t(pointer) / PAGE * PAGE, last = pages(uint64_t(pointer) + size);
  const std::string kept(reinterpret_cast<const char*>(first), last - first);
  mmap(reinterpret_cast<void*>(first), last - first, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  std::memcpy(reinterpret_cast<void*>(first), kept.data(), kept.size());
  live.erase(found);
  release(place);
  return hipSuccess;
}
