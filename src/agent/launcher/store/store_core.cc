// SPDX-License-Identifier: Apache-2.0
// Requests are parsed only once they are complete, so that a half-sent one changes nothing;
// commands copy, parsing does not. Semantics follow PyTorch 2.13's own server as seen on the wire.
#include "agent/launcher/store/store_core.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <utility>

namespace ty::agent {

namespace {

constexpr std::uint32_t kMagic = 0x3C85F7CE;
constexpr std::uint64_t kMaxKey = 1u << 20;
constexpr std::uint64_t kMaxValue = 1u << 30;
constexpr std::uint64_t kMaxKeys = 128u << 10;
constexpr std::size_t kMaxStored = std::size_t(4) << 30;
constexpr std::size_t kEntryCost = 128;  ///< so that empty values are not free

enum class Op : std::uint8_t {
    validate,
    set,
    compare_set,
    get,
    add,
    check,
    wait,
    count_keys,
    delete_key,
    append,
    multi_get,
    multi_set,
    cancel_wait,
    ping,
    queue_push,
    queue_pop,
    queue_length,
    list_keys,
    barrier,
};
constexpr auto kLastOp = Op::barrier;

constexpr char kReady = 0, kNotReady = 1;
constexpr char kStopWaiting = 0, kWaitCancelled = 1;

template <typename Number>
void put(std::string& out, Number value) {
    static_assert(std::is_trivially_copyable_v<Number>);
    char raw[sizeof value];
    std::memcpy(raw, &value, sizeof value);
    out.append(raw, sizeof value);
}

void put_text(std::string& out, std::string_view text) {
    put<std::uint64_t>(out, text.size());
    out += text;
}

}  // namespace

/// Takes arguments from the front. Once something is missing or too long it stays so and hands out
/// zeros: commands take all their arguments, look at is_whole(), and only then act.
class StoreCore::Reader {
public:
    explicit Reader(std::string_view bytes) : bytes_(bytes) {}
    template <typename Number>
    Number number() {
        Number value = 0;
        const std::string_view raw = take(sizeof value);
        if (!raw.empty()) std::memcpy(&value, raw.data(), sizeof value);
        return value;
    }
    std::string_view key() { return take(length(kMaxKey, "a key is longer than 1 MiB")); }
    std::string_view value() { return take(length(kMaxValue, "a value is longer than 1 GiB")); }
    std::vector<std::string_view> keys() {
        std::vector<std::string_view> out;
        const std::uint64_t count = key_count();
        while (out.size() < count && is_whole()) out.push_back(key());
        return out;
    }
    std::uint64_t key_count() { return length(kMaxKeys, "more than 131072 keys in one request"); }
    bool is_whole() const { return wanted_ == 0 && refused_ == nullptr; }
    /// What a request comes to.
    Step step() const {
        if (refused_ != nullptr) return {Step::Kind::refuse, 0, refused_};
        if (wanted_ != 0) return {Step::Kind::more, wanted_, ""};
        return {Step::Kind::done, at_, ""};
    }
    void refuse(const char* why) { refused_ = why; }

private:
    std::uint64_t length(std::uint64_t limit, const char* why) {
        const auto size = number<std::uint64_t>();
        if (size <= limit) return size;
        refuse(why);
        return 0;
    }
    std::string_view take(std::size_t size) {
        if (!is_whole()) return {};
        if (bytes_.size() - at_ < size) {
            wanted_ = at_ + size;
            return {};
        }
        return bytes_.substr(std::exchange(at_, at_ + size), size);
    }

    std::string_view bytes_;
    std::size_t at_ = 0;
    std::size_t wanted_ = 0;
    const char* refused_ = nullptr;
};

void StoreCore::add_client(ClientId client) {
    clients_.emplace(client, Client{});
}

void StoreCore::remove_client(ClientId id) {
    const auto found = clients_.find(id);
    if (found == clients_.end()) return;
    stop_waiting(id, found->second);
    clients_.erase(found);
    answers_.erase(id);
}

bool StoreCore::is_validated(ClientId client) const {
    const auto found = clients_.find(client);
    return found != clients_.end() && found->second.validated;
}

StoreCore::Step StoreCore::step(ClientId id, std::string_view input) {
    Reader in(input);
    Client& client = clients_.at(id);
    const auto op = in.number<std::uint8_t>();
    if (!in.is_whole()) return in.step();
    if (!client.validated) {
        // PyTorch 1.13 has no handshake and other numbers; it ends here as well.
        if (op != static_cast<std::uint8_t>(Op::validate)) in.refuse("no handshake");
        const auto magic = in.number<std::uint32_t>();
        if (in.is_whole() && magic != kMagic) in.refuse("wrong magic number");
        client.validated = in.is_whole();
        return in.step();
    }
    if (op > static_cast<std::uint8_t>(kLastOp))
        in.refuse("unknown operation");
    else
        run(id, client, static_cast<Request>(op), in);
    return in.step();
}

void StoreCore::run(ClientId id, Client& client, Request request, Reader& in) {
    switch (static_cast<Op>(request)) {
        case Op::validate:
            return in.refuse("a second handshake");
        case Op::set: {
            const std::string_view key = in.key(), value = in.value();
            if (in.is_whole()) set(std::string(key), std::string(value), in);
            return;
        }
        case Op::compare_set:
            return compare_set(id, in);
        case Op::get: {
            const std::string key(in.key());
            if (in.is_whole()) answer_value(id, key, in);
            return;
        }
        case Op::add:
            return add(id, in);
        case Op::check:
            return check(id, in);
        case Op::wait:
            return wait(id, client, in);
        case Op::count_keys:
            return put<std::int64_t>(answer(id), static_cast<std::int64_t>(keys()));
        case Op::delete_key: {
            const std::string key(in.key());
            if (in.is_whole()) put<std::int64_t>(answer(id), erase(key));
            return;
        }
        case Op::append: {
            const std::string_view key = in.key(), value = in.value();
            if (!in.is_whole()) return;
            const auto old = values_.find(std::string(key));
            return set(std::string(key),
                       (old == values_.end() ? "" : old->second) + std::string(value), in);
        }
        case Op::multi_get:
            return multi_get(id, in);
        case Op::multi_set:
            return multi_set(in);
        case Op::cancel_wait:
            stop_waiting(id, client);
            answer(id) += kWaitCancelled;
            return;
        case Op::ping: {
            const auto nonce = in.number<std::uint32_t>();
            if (in.is_whole()) put(answer(id), nonce);
            return;
        }
        case Op::queue_push:
            return queue_push(in);
        case Op::queue_pop:
            return queue_pop(id, in);
        case Op::queue_length: {
            const auto queue = queues_.find(std::string(in.key()));
            if (!in.is_whole()) return;
            const std::size_t length = queue == queues_.end() ? 0 : queue->second.size();
            return put<std::int64_t>(answer(id), static_cast<std::int64_t>(length));
        }
        case Op::list_keys:
            return list_keys(id);
        case Op::barrier:
            return barrier(id, client, in);
    }
}

/// The value now. An absent key is only set when nothing was expected of it.
void StoreCore::compare_set(ClientId id, Reader& in) {
    const std::string key(in.key());
    const std::string_view expected = in.value(), desired = in.value();
    if (!in.is_whole()) return;
    const auto held = values_.find(key);
    const bool matches = held == values_.end() ? expected.empty() : held->second == expected;
    if (matches) {
        set(key, std::string(desired), in);
        put_text(answer(id), desired);
    } else {
        put_text(answer(id), held == values_.end() ? expected : std::string_view(held->second));
    }
}

void StoreCore::add(ClientId id, Reader& in) {
    const std::string key(in.key());
    const auto delta = in.number<std::int64_t>();
    if (!in.is_whole()) return;
    const auto sum = increase(key, delta, in);
    if (!sum) return;
    wake(key, Wake::all);
    put(answer(id), *sum);
}

/// The number a value starts with counts, as PyTorch's server has it; wakes nobody.
std::optional<std::int64_t> StoreCore::increase(const std::string& key, std::int64_t delta,
                                                Reader& in) {
    const auto held = values_.find(key);
    long long before = 0;
    if (held != values_.end()) {
        char* end = nullptr;
        errno = 0;
        before = std::strtoll(held->second.c_str(), &end, 10);
        if (end == held->second.c_str() || errno == ERANGE) {
            in.refuse("ADD to a value that is no number");
            return std::nullopt;
        }
    }
    // Unsigned: a counter that overflows wraps instead of being undefined.
    const auto sum = static_cast<std::int64_t>(static_cast<std::uint64_t>(before) +
                                               static_cast<std::uint64_t>(delta));
    if (!store(key, std::to_string(sum), in)) return std::nullopt;
    return sum;
}

void StoreCore::check(ClientId id, Reader& in) {
    const std::vector<std::string_view> keys = in.keys();
    if (!in.is_whole()) return;
    const bool ready = std::all_of(keys.begin(), keys.end(),
                                   [this](std::string_view key) { return has(std::string(key)); });
    answer(id) += ready ? kReady : kNotReady;
}

void StoreCore::wait(ClientId id, Client& client, Reader& in) {
    const std::vector<std::string_view> keys = in.keys();
    if (!in.is_whole()) return;
    stop_waiting(id, client);
    for (const std::string_view key : keys) {
        if (!has(std::string(key))) client.awaited.emplace(key);
    }
    for (const std::string& key : client.awaited) waiting_[key].push_back(id);
    if (client.awaited.empty()) answer(id) += kStopWaiting;
}

void StoreCore::multi_get(ClientId id, Reader& in) {
    const std::vector<std::string_view> keys = in.keys();
    if (!in.is_whole()) return;
    std::size_t total = 0;
    for (const std::string_view key : keys) {
        const auto held = values_.find(std::string(key));
        if (held == values_.end()) return in.refuse("a key that was asked for is not there");
        total += held->second.size();
        if (total > kMaxValue) return in.refuse("one answer would be longer than 1 GiB");
    }
    for (const std::string_view key : keys) answer_value(id, std::string(key), in);
}

void StoreCore::multi_set(Reader& in) {
    std::vector<std::pair<std::string_view, std::string_view>> pairs;
    const std::uint64_t count = in.key_count();
    while (pairs.size() < count && in.is_whole()) {
        const std::string_view key = in.key();
        pairs.emplace_back(key, in.value());
    }
    if (!in.is_whole()) return;
    for (const auto& [key, value] : pairs) set(std::string(key), std::string(value), in);
}

void StoreCore::queue_push(Reader& in) {
    const std::string key(in.key());
    const std::string_view value = in.value();
    if (!in.is_whole() || !account(0, value.size() + kEntryCost, in)) return;
    queues_[key].emplace_back(value);
    wake(key, Wake::one);
}

/// How many entries there were, and the first of them. A client that wants to block has waited
/// before.
void StoreCore::queue_pop(ClientId id, Reader& in) {
    const auto queue = queues_.find(std::string(in.key()));
    if (!in.is_whole()) return;
    const std::size_t length = queue == queues_.end() ? 0 : queue->second.size();
    put<std::int64_t>(answer(id), static_cast<std::int64_t>(length));
    if (length == 0) return;
    put_text(answer(id), queue->second.front());
    stored_ -= queue->second.front().size() + kEntryCost;
    queue->second.pop_front();
    if (queue->second.empty()) queues_.erase(queue);
}

void StoreCore::list_keys(ClientId id) {
    std::string& out = answer(id);
    put<std::int64_t>(out, static_cast<std::int64_t>(values_.size()));
    for (const auto& [key, value] : values_) put_text(out, key);
}

/// A counter under the key, and a wait that ends when it reaches `size`. Nobody counts it down: a
/// barrier that was passed stays open, one whose client gave up still counts that client.
void StoreCore::barrier(ClientId id, Client& client, Reader& in) {
    const std::string key(in.key());
    const auto size = in.number<std::int64_t>();
    if (!in.is_whole()) return;
    const auto arrived = increase(key, 1, in);
    if (!arrived) return;
    stop_waiting(id, client);
    if (*arrived >= size) {
        wake(key, Wake::all);
        answer(id) += kStopWaiting;
        return;
    }
    client.awaited.insert(key);
    waiting_[key].push_back(id);
}

bool StoreCore::has(const std::string& key) const {
    return values_.contains(key) || queues_.contains(key);
}

void StoreCore::set(const std::string& key, std::string value, Reader& in) {
    if (store(key, std::move(value), in)) wake(key, Wake::all);
}

bool StoreCore::store(const std::string& key, std::string value, Reader& in) {
    if (value.size() > kMaxValue) {
        in.refuse("a value is longer than 1 GiB");
        return false;
    }
    const auto [held, is_new] = values_.try_emplace(key);
    const std::size_t before = is_new ? 0 : held->second.size() + kEntryCost;
    if (!account(before, value.size() + kEntryCost, in)) {
        if (is_new) values_.erase(held);
        return false;
    }
    held->second = std::move(value);
    return true;
}

void StoreCore::answer_value(ClientId id, const std::string& key, Reader& in) {
    const auto held = values_.find(key);
    if (held == values_.end()) return in.refuse("a key that was asked for is not there");
    put_text(answer(id), held->second);
}

std::int64_t StoreCore::erase(const std::string& key) {
    const auto value = values_.find(key);
    if (value == values_.end()) return 0;
    stored_ -= value->second.size() + kEntryCost;
    values_.erase(value);
    return 1;
}

bool StoreCore::account(std::size_t gone, std::size_t come, Reader& in) {
    const std::size_t after = stored_ - gone + come;
    if (after > stored_ && after > kMaxStored) {
        in.refuse("the store holds 4 GiB already");
        return false;
    }
    stored_ = after;
    return true;
}

void StoreCore::wake(const std::string& key, Wake whom) {
    const auto found = waiting_.find(key);
    if (found == waiting_.end()) return;
    std::vector<ClientId> woken = std::move(found->second);
    std::vector<ClientId> rest;
    if (whom == Wake::one) rest.assign(woken.begin() + 1, woken.end());
    if (whom == Wake::one) woken.resize(1);
    if (rest.empty())
        waiting_.erase(found);
    else
        found->second = std::move(rest);
    for (const ClientId id : woken) {
        Client& client = clients_.at(id);
        client.awaited.erase(key);
        if (client.awaited.empty()) answer(id) += kStopWaiting;
    }
}

void StoreCore::stop_waiting(ClientId id, Client& client) {
    for (const std::string& key : client.awaited) {
        const auto found = waiting_.find(key);
        if (found == waiting_.end()) continue;
        std::erase(found->second, id);
        if (found->second.empty()) waiting_.erase(found);
    }
    client.awaited.clear();
}

std::string& StoreCore::answer(ClientId id) {
    return answers_[id];
}

std::vector<std::pair<StoreCore::ClientId, std::string>> StoreCore::take_answers() {
    std::vector<std::pair<ClientId, std::string>> out;
    out.reserve(answers_.size());
    for (auto& [id, text] : answers_) out.emplace_back(id, std::move(text));
    answers_.clear();
    return out;
}

}  // namespace ty::agent
