#include "core/decode/active_composition.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/base/out_of_memory.h"

namespace veneer {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::array kPolicyNames{
    std::pair{SwitchPolicy::kAbort, std::string_view("abort")}, std::pair{SwitchPolicy::kReject, std::string_view("reject")},
    std::pair{SwitchPolicy::kDrain, std::string_view("drain")}, std::pair{SwitchPolicy::kKeep, std::string_view("keep")}};

std::unexpected<Error> OverBudget(const char* what, std::uint64_t bytes, const ActiveComposition::Held& held,
                                  const MemoryAllowance& allowance) {
  return Fail(
      Code::MEMORY_BUDGET, "--memory-budget",
      fmt::format("{} takes {} bytes beside what is held (process {}, compositions {}, {} decodes {}), {} are allowed; wait for "
                  "decodes to end, or raise the budget",
                  what, bytes, allowance.process_bytes, held.composition_bytes, held.decodes, held.decode_bytes, allowance.budget_bytes));
}

bool Fits(std::uint64_t bytes, const ActiveComposition::Held& held, const MemoryAllowance& allowance) {
  std::uint64_t left = allowance.budget_bytes;
  for (const std::uint64_t taken : {allowance.process_bytes, held.composition_bytes, held.decode_bytes, bytes}) {
    if (taken > left) return false;
    left -= taken;
  }
  return true;
}

}  // namespace

std::string_view SwitchPolicyName(SwitchPolicy policy) {
  return std::ranges::find(kPolicyNames, policy, &std::pair<SwitchPolicy, std::string_view>::first)->second;
}

std::optional<SwitchPolicy> ParseSwitchPolicy(std::string_view name) {
  const auto* const found = std::ranges::find(kPolicyNames, name, &std::pair<SwitchPolicy, std::string_view>::second);
  return found == kPolicyNames.end() ? std::nullopt : std::optional(found->first);
}

ActiveComposition::ActiveComposition(std::shared_ptr<const StagedComposition> first, MemoryAllowance allowance)
    : allowance_(allowance), current_(std::make_shared<Era>(std::move(first))) {}

std::shared_ptr<const StagedComposition> ActiveComposition::Current() const {
  const std::lock_guard lock(mutex_);
  return current_->composition;
}

ActiveComposition::Held ActiveComposition::Holds(const Base* besides) const {
  const std::lock_guard lock(mutex_);
  return HoldsLocked(besides, nullptr);
}

// Allocates nothing: there are few eras. `beside`: one more composition to count.
ActiveComposition::Held ActiveComposition::HoldsLocked(const Base* besides, const StagedComposition* beside) const {
  Held held;
  const auto composition_at = [&](std::size_t i) {
    return i < kept_.size() ? kept_[i]->composition.get() : i == kept_.size() ? current_->composition.get() : beside;
  };
  for (std::size_t i = 0; i < kept_.size() + 2; ++i) {
    const StagedComposition* one = composition_at(i);
    bool is_counted = one == nullptr, is_base_counted = one == nullptr || &one->base() == besides;
    for (std::size_t j = 0; j < i && !is_counted; ++j) {
      const StagedComposition* other = composition_at(j);
      is_counted = other == one;
      is_base_counted = is_base_counted || (other != nullptr && &other->base() == &one->base());
    }
    if (is_counted) continue;
    held.composition_bytes += one->overlay_bytes() + one->constant_bytes();
    if (!is_base_counted) held.composition_bytes += one->base().file_bytes() + one->base().overhead_bytes();
  }
  for (const auto& era : kept_) held.decode_bytes += era->decode_bytes;
  held.decode_bytes += current_->decode_bytes;
  held.decodes = in_flight_;
  return held;
}

Result<ActiveComposition::Lease> ActiveComposition::Begin(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_until(lock, Clock::now() + patience, [this] { return !is_draining_; }))
    return Fail(Code::BUSY, "decode",
                fmt::format("a switch has been waiting for {} decodes for longer than {} ms; try again", in_flight_, patience.count()));
  if (current_->composition == nullptr)
    return Fail(Code::NO_ACTIVE, "decode", "no composition is active; activate one with `veneer activate`");
  ++in_flight_;
  ++current_->decodes;
  return Lease(this, current_);
}

Status ActiveComposition::Reserve(Era& era, std::uint64_t decode_bytes) {
  const std::lock_guard lock(mutex_);
  if (const Held held = HoldsLocked(nullptr, nullptr); !Fits(decode_bytes, held, allowance_))
    return OverBudget("a decode", decode_bytes, held, allowance_);
  era.decode_bytes += decode_bytes;
  return {};
}

Result<std::shared_ptr<const StagedComposition>> ActiveComposition::Switch(std::shared_ptr<const StagedComposition> next,
                                                                           SwitchPolicy policy, std::chrono::milliseconds patience) {
  const Clock::time_point deadline = Clock::now() + patience;
  std::shared_ptr<Era> era;
  const auto make_era = [&]() -> Status {
    era = std::make_shared<Era>(std::move(next));
    return {};
  };
  VENEER_TRY(OrOutOfMemory(make_era, "switch"));
  std::unique_lock lock(mutex_);
  if (!changed_.wait_until(lock, deadline, [this] { return !is_draining_; }))
    return Fail(Code::BUSY, "switch", fmt::format("another switch still waits for {} decodes; nothing was changed", in_flight_));
  if (policy == SwitchPolicy::kReject && in_flight_ > 0)
    return Fail(Code::BUSY, "switch",
                fmt::format("{} decodes are in flight; nothing was changed, try again when they have ended", in_flight_));
  if (policy == SwitchPolicy::kKeep && in_flight_ > 0) {
    const Held now = HoldsLocked(nullptr, nullptr), both = HoldsLocked(nullptr, era->composition.get());
    if (!Fits(0, both, allowance_))
      return OverBudget("a second composition", both.composition_bytes - now.composition_bytes, now, allowance_);
  }
  if (policy == SwitchPolicy::kDrain) {
    is_draining_ = true;
    const bool is_idle = changed_.wait_until(lock, deadline, [this] { return in_flight_ == 0; });
    is_draining_ = false;
    changed_.notify_all();
    if (!is_idle)
      return Fail(Code::BUSY, "switch",
                  fmt::format("{} decodes were still in flight after {} ms; nothing was changed", in_flight_, patience.count()));
  }
  if (current_->decodes > 0) {
    const auto keep_current = [this]() -> Status {
      kept_.push_back(current_);
      return {};
    };
    VENEER_TRY(OrOutOfMemory(keep_current, "switch"));
  }
  if (policy == SwitchPolicy::kAbort)
    for (const auto& earlier : kept_) earlier->is_ended.store(true, std::memory_order_relaxed);
  return std::exchange(current_, std::move(era))->composition;
}

void ActiveComposition::End(const std::shared_ptr<Era>& era, std::uint64_t decode_bytes) {
  const std::lock_guard lock(mutex_);
  --in_flight_;
  era->decode_bytes -= decode_bytes;
  if (--era->decodes == 0) std::erase(kept_, era);  // the lease's own reference is the last one, and goes outside the lock
  changed_.notify_all();
}

ActiveComposition::Lease& ActiveComposition::Lease::operator=(Lease&& other) noexcept {
  std::swap(owner_, other.owner_);
  std::swap(era_, other.era_);
  std::swap(decode_bytes_, other.decode_bytes_);
  return *this;
}

ActiveComposition::Lease::~Lease() {
  if (owner_ != nullptr) owner_->End(era_, decode_bytes_);
}

Status ActiveComposition::Lease::Reserve(std::uint64_t decode_bytes) {
  VENEER_TRY(owner_->Reserve(*era_, decode_bytes));
  decode_bytes_ += decode_bytes;
  return {};
}

CancelCheck ActiveComposition::Lease::cancel_check() const {
  return [era = era_.get()]() -> std::optional<Error> {
    if (!era->is_ended.load(std::memory_order_relaxed)) return std::nullopt;
    return Error{Code::COMPOSITION_CHANGED, "decode",
                 fmt::format("another composition was activated while decoding under {}; what was decoded so far is under that one, "
                             "decode again to use the new one",
                             era->composition->id().Text())};
  };
}

Result<ActiveDecode> BeginDecode(ActiveComposition& active, const DecoderOptions& options, std::chrono::milliseconds patience) {
  VENEER_ASSIGN(ActiveComposition::Lease lease, active.Begin(patience));
  return OrOutOfMemory(
      [&]() -> Result<ActiveDecode> {
        VENEER_ASSIGN(const Decoder::Memory memory, Decoder::PlannedMemory(*lease.composition(), options));
        VENEER_TRY(lease.Reserve(memory.scratch_bytes + memory.kv_bytes));
        VENEER_ASSIGN(std::unique_ptr<Decoder> decoder, Decoder::Create(lease.composition(), options));
        decoder->SetCancelCheck(lease.cancel_check());
        return ActiveDecode{std::move(lease), std::move(decoder)};
      },
      "decoder");
}

}  // namespace veneer
