// Which copy of NCCL each caller reaches, by the loader's rules, for the ways in which copies meet
// (C1, C2).
#include "real/scope.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sabot::real {
namespace {

// A process as a list of objects in load order; the answer is the path of the copy.
class Process {
 public:
  Process& with(const std::string& path, const std::string& soname,
                std::vector<std::string> needed = {}) {
    MappedObject object;
    object.path = path;
    object.soname = soname;
    object.needed = std::move(needed);
    object.begin = 0x1000 * (objects_.size() + 1);
    object.end = object.begin + 0x800;
    objects_.push_back(object);
    return *this;
  }
  Process& that_is_nccl() {
    objects_.back().has_nccl = objects_.back().has_pnccl = true;
    return *this;
  }
  Process& that_is_ours() {
    objects_.back().is_ours = true;
    return that_is_nccl();
  }
  std::string copy_of(const std::string& caller, const std::string& next = "") const {
    const Scope scope(objects_);
    const std::size_t reached = scope.copy_reached_by(index(caller), index(next));
    return reached == kNoObject ? "none" : objects_[reached].path;
  }

 private:
  std::size_t index(const std::string& path) const {
    for (std::size_t i = 0; i < objects_.size(); ++i)
      if (objects_[i].path == path) return i;
    return kNoObject;
  }
  std::vector<MappedObject> objects_;
};

TEST(Scope, ALinkedProgramReachesItsOwnDependency) {
  const Process process = Process()
                              .with("/train", "", {"libnccl.so.2", "libc.so.6"})
                              .with("/sabot.so", "libsabot.so")
                              .that_is_ours()
                              .with("/nccl.so", "libnccl.so.2")
                              .that_is_nccl()
                              .with("/libc.so.6", "libc.so.6");
  EXPECT_EQ(process.copy_of("/train"), "/nccl.so");
  EXPECT_EQ(process.copy_of("/libc.so.6"), "/nccl.so");
}

TEST(Scope, TheGlobalScopeBehindUsComesBeforeWhatTheCallerNeeds) {
  const Process process = Process()
                              .with("/python", "")
                              .with("/torch.so", "torch.so", {"/b/libnccl.so.2"})
                              .with("/a/libnccl.so.2", "")
                              .that_is_nccl()
                              .with("/b/libnccl.so.2", "")
                              .that_is_nccl();
  EXPECT_EQ(process.copy_of("/torch.so"), "/b/libnccl.so.2");
  EXPECT_EQ(process.copy_of("/torch.so", "/a/libnccl.so.2"), "/a/libnccl.so.2");
}

TEST(Scope, AnObjectThatDoesNotNameNcclReachesWhatItsOpenerBroughtIn) {
  const Process process = Process()
                              .with("/python", "")
                              .with("/_C.so", "", {"libtorch_python.so", "libtorch_cuda.so"})
                              .with("/libtorch_python.so", "libtorch_python.so")
                              .with("/libtorch_cuda.so", "libtorch_cuda.so", {"libnccl.so.2"})
                              .with("/libnccl.so.2", "libnccl.so.2")
                              .that_is_nccl();
  EXPECT_EQ(process.copy_of("/libtorch_python.so"), "/libnccl.so.2");
  EXPECT_EQ(process.copy_of("/_C.so"), "/libnccl.so.2");
  EXPECT_EQ(process.copy_of("/python"), "none");
}

TEST(Scope, StaticNcclInAFrameworkServesTheFramework) {
  const Process process = Process()
                              .with("/python", "")
                              .with("/nccl/libnccl.so.2", "libnccl.so.2")
                              .that_is_nccl()
                              .with("/_C.so", "", {"libtorch_cuda.so"})
                              .with("/libtorch_cuda.so", "libtorch_cuda.so")
                              .that_is_nccl()
                              .with("/cupy.so", "", {"libnccl.so.2"});
  EXPECT_EQ(process.copy_of("/libtorch_cuda.so"), "/libtorch_cuda.so");
  EXPECT_EQ(process.copy_of("/_C.so"), "/libtorch_cuda.so");
  EXPECT_EQ(process.copy_of("/cupy.so"), "/nccl/libnccl.so.2");
}

TEST(Scope, ALibncclStaysWithItselfEvenBehindAGlobalOne) {
  const Process process = Process()
                              .with("/train", "", {"libnccl.so.2"})
                              .with("/a/libnccl.so.2", "libnccl.so.2")
                              .that_is_nccl()
                              .with("/b/libnccl.so.2", "")
                              .that_is_nccl();
  EXPECT_EQ(process.copy_of("/b/libnccl.so.2", "/a/libnccl.so.2"), "/b/libnccl.so.2");
}

TEST(Scope, OursIsNeverAnAnswer) {
  const Process process = Process()
                              .with("/train", "", {"libnccl.so.2"})
                              .with("/standin/libnccl.so.2", "libnccl.so.2")
                              .that_is_ours();
  EXPECT_EQ(process.copy_of("/train"), "none");
  EXPECT_EQ(process.copy_of("/train", "/standin/libnccl.so.2"), "none");
}

TEST(Scope, NeedsThatGoInCirclesEnd) {
  const Process process = Process()
                              .with("/train", "")
                              .with("/a.so", "a.so", {"b.so"})
                              .with("/b.so", "b.so", {"a.so", "gone.so"});
  EXPECT_EQ(process.copy_of("/b.so"), "none");
  EXPECT_EQ(process.copy_of("/unknown"), "none");
  EXPECT_EQ(Process().copy_of("/train"), "none");
}

TEST(Scope, ACopyIsToldFromAWrapperByItsNameOrItsTwins) {
  MappedObject object;
  object.path = "/x/libnccl.so.2.28.9";
  EXPECT_FALSE(is_copy(object)) << "only the name";
  object.has_nccl = true;
  EXPECT_TRUE(is_copy(object));
  object.path = "/x/libtool.so";
  EXPECT_FALSE(is_copy(object)) << "a tool's wrapper";
  object.has_pnccl = true;
  EXPECT_TRUE(is_copy(object)) << "linked in statically";
  object.is_ours = true;
  EXPECT_FALSE(is_copy(object));
}

}  // namespace
}  // namespace sabot::real
