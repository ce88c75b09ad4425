// A reference to something callable: two words, never an allocation. The callable outlives the reference.
#ifndef VENEER_CORE_DECODE_FUNCTION_REF_H_
#define VENEER_CORE_DECODE_FUNCTION_REF_H_

#include <concepts>
#include <type_traits>
#include <utility>

namespace veneer {

template <class Signature>
class FunctionRef;

template <class R, class... Args>
class FunctionRef<R(Args...)> {
 public:
  template <class F>
    requires(!std::same_as<std::remove_cvref_t<F>, FunctionRef> && std::is_invocable_r_v<R, const F&, Args...>)
  FunctionRef(const F& callable)  // NOLINT: implicit on purpose, as for std::function
      : callable_(&callable),
        call_([](const void* self, Args... args) -> R { return (*static_cast<const F*>(self))(std::forward<Args>(args)...); }) {}

  R operator()(Args... args) const { return call_(callable_, std::forward<Args>(args)...); }

 private:
  const void* callable_;
  R (*call_)(const void*, Args...);
};

}  // namespace veneer

#endif  // VENEER_CORE_DECODE_FUNCTION_REF_H_
