// Ends of groups without Python's lock: whoever ends one may wait for threads or peers, and threads
// take the lock to let go of tensors.
//
// Objects of torch die where their last reference goes, usually in Python with the lock held; the
// methods that Python calls have let go of it already.
#pragma once

#include <Python.h>

namespace sabot::pytorch {

// Lets go of the lock if this thread has it; takes it back at the end.
class WithoutPythonLock {
 public:
  WithoutPythonLock() {
    // Not Py_IsInitialized(): while the interpreter ends it says no, and the lock is still held.
    if (PyGILState_GetThisThreadState() != nullptr && PyGILState_Check() != 0) {
      state_ = PyEval_SaveThread();
    }
  }
  ~WithoutPythonLock() {
    if (state_ != nullptr) PyEval_RestoreThread(state_);
  }
  WithoutPythonLock(const WithoutPythonLock&) = delete;
  WithoutPythonLock& operator=(const WithoutPythonLock&) = delete;

 private:
  PyThreadState* state_ = nullptr;
};

}  // namespace sabot::pytorch
