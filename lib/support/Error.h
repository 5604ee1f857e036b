// Represents errors as values, for code that does not use MLIR. Tests: test/runtime/FilesTest.cpp
// (MalformedHeaders: errors as values of readers).
#ifndef LLMC_LIB_SUPPORT_ERROR_H
#define LLMC_LIB_SUPPORT_ERROR_H

#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <variant>

namespace llmc::support {

// Returns all arguments as text, one after the other.
template <class... Ts>
std::string text(const Ts &...parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

// Explains why something could not be done: one line for the user, lower case, no period.
class [[nodiscard]] Error {
public:
  explicit Error(std::string message) : message_(std::move(message)) {}
  const std::string &message() const { return message_; }

private:
  std::string message_;
};

template <class... Ts>
Error error(const Ts &...parts) {
  return Error(text(parts...));
}

// Holds success or an Error; true means success. message() requires an error.
class [[nodiscard]] Status {
public:
  Status() = default;
  Status(Error e) : error_(std::move(e)) {}
  explicit operator bool() const { return !error_; }
  const std::string &message() const { return error_->message(); }
  Error takeError() { return std::move(*error_); }

private:
  std::optional<Error> error_;
};

inline Status ok() { return {}; }

// Holds a T or an Error; true means that there is a T. Accessors require the one that is there.
template <class T>
class [[nodiscard]] Result {
public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error e) : state_(std::in_place_index<1>, std::move(e)) {}
  explicit operator bool() const { return state_.index() == 0; }
  T &operator*() { return std::get<0>(state_); }
  const T &operator*() const { return std::get<0>(state_); }
  T *operator->() { return &std::get<0>(state_); }
  const T *operator->() const { return &std::get<0>(state_); }
  const std::string &message() const { return std::get<1>(state_).message(); }
  Error takeError() { return std::move(std::get<1>(state_)); }

private:
  std::variant<T, Error> state_;
};

} // namespace llmc::support

#endif // LLMC_LIB_SUPPORT_ERROR_H
