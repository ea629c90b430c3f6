// ThreadNodes: an object for each thread that others look at, too. It outlives its thread: a new thread
// goes on with the one of a thread that has ended, so that there are no more than threads at a time.
#pragma once

#include <mutex>

namespace telamon {
inline namespace v1 {
namespace runtime {

template <class T>
struct ThreadNodes {
  struct Node : T {
    bool used = true;
    Node* next = nullptr;
  };
  mutable std::mutex mutex;
  Node* first = nullptr;  // all of them: never freed

  T* take() {
    const std::lock_guard lock(mutex);
    for (Node* n = first; n != nullptr; n = n->next) {
      if (n->used) continue;
      n->used = true;
      return n;
    }
    auto* const fresh = new Node;
    fresh->next = first;
    return first = fresh;
  }
  void give_back(T* node) {
    const std::lock_guard lock(mutex);
    static_cast<Node*>(node)->used = false;
  }
};

/// Holds the node of the thread in `own`, a thread-local pointer, until the thread ends.
template <class T>
class ThreadNodeOwner {
 public:
  ThreadNodeOwner(ThreadNodes<T>& all, T*& own) : all_(all), own_(own), node_(all.take()) {
    own_ = node_;
  }
  ~ThreadNodeOwner() {
    own_ = nullptr;
    all_.give_back(node_);
  }
  ThreadNodeOwner(const ThreadNodeOwner&) = delete;
  ThreadNodeOwner& operator=(const ThreadNodeOwner&) = delete;

 private:
  ThreadNodes<T>& all_;
  T*& own_;
  T* const node_;
};

/// What `own`, a thread-local pointer that is null, shall point to.
template <class T>
T& new_thread_node(ThreadNodes<T>& all, T*& own) {
  thread_local const ThreadNodeOwner<T> owner(all, own);
  // Thread-local objects may ask while they are destroyed, after the owner: they keep theirs.
  if (own == nullptr) own = all.take();
  return *own;
}

}  // namespace runtime
}  // namespace v1
}  // namespace telamon
