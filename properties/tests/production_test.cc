// The threads that the production path is asked for are there.
#include "program/production.h"

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

namespace norma::program {
namespace {

// How many of the tasks run at once: each waits for the others, a while.
std::size_t at_once(Threads& threads, std::size_t tasks) {
  struct Meeting {
    std::mutex mutex;
    std::condition_variable came;
    std::set<std::thread::id> ids;
    std::size_t expected;
  } meeting;
  meeting.expected = tasks;
  threads.run(
      tasks,
      [](void* context, std::size_t) {
        Meeting& m = *static_cast<Meeting*>(context);
        std::unique_lock lock(m.mutex);
        m.ids.insert(std::this_thread::get_id());
        m.came.notify_all();
        m.came.wait_for(lock, std::chrono::seconds(1), [&] { return m.ids.size() == m.expected; });
      },
      &meeting);
  return meeting.ids.size();
}

// Whatever was asked for before, and beyond the number of processors.
TEST(Threads, AreAsManyAsAskedFor) {
  for (const int count : {3, 1, 2, 5, 1, 3}) EXPECT_EQ(at_once(kept_threads(count), static_cast<std::size_t>(count)), count);
  EXPECT_EQ(at_once(kept_threads(2), 4), 2U);
}

}  // namespace
}  // namespace norma::program
