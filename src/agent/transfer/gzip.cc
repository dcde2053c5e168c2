// SPDX-License-Identifier: Apache-2.0
#include "agent/transfer/gzip.h"

#include "base/error.h"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <isa-l/igzip_lib.h>
#include <zlib.h>

namespace ty::agent {

namespace {

constexpr std::size_t kOutput = 1u << 20;
constexpr std::size_t kMaxInput = 1u << 30;  // both libraries count in 32 bits

}  // namespace

class GzipWriter::Engine {
public:
    enum class Flush { no, finish };
    virtual ~Engine() = default;
    virtual void write(std::string_view data, Flush flush) = 0;
    virtual std::string_view name() const = 0;
};

/// libisal.so.2; the header gives the structures, dlopen the functions.
class GzipWriter::Isal final : public Engine {
public:
    static std::unique_ptr<Engine> open(const Sink& sink) {
        Library library(::dlopen("libisal.so.2", RTLD_NOW | RTLD_LOCAL));
        if (!library) return nullptr;
        const auto init = reinterpret_cast<Init>(::dlsym(library.get(), "isal_deflate_init"));
        const auto deflate = reinterpret_cast<Deflate>(::dlsym(library.get(), "isal_deflate"));
        if (init == nullptr || deflate == nullptr) return nullptr;
        return std::make_unique<Isal>(sink, std::move(library), init, deflate);
    }

    struct Close {
        void operator()(void* handle) const { ::dlclose(handle); }
    };
    using Library = std::unique_ptr<void, Close>;
    using Init = void (*)(isal_zstream*);
    using Deflate = int (*)(isal_zstream*);

    Isal(const Sink& sink, Library library, Init init, Deflate deflate)
        : sink_(sink),
          library_(std::move(library)),
          deflate_(deflate),
          stream_(std::make_unique<isal_zstream>()),
          level_(ISAL_DEF_LVL1_DEFAULT),
          output_(kOutput) {
        init(stream_.get());
        stream_->level = 1;
        stream_->level_buf = level_.data();
        stream_->level_buf_size = static_cast<std::uint32_t>(level_.size());
        stream_->gzip_flag = IGZIP_GZIP;
        stream_->flush = NO_FLUSH;
    }

    void write(std::string_view data, Flush flush) override {
        stream_->next_in = reinterpret_cast<std::uint8_t*>(const_cast<char*>(data.data()));
        stream_->avail_in = static_cast<std::uint32_t>(data.size());
        stream_->end_of_stream = flush == Flush::finish ? 1 : 0;
        do {
            stream_->next_out = output_.data();
            stream_->avail_out = static_cast<std::uint32_t>(output_.size());
            if (const int failed = deflate_(stream_.get()); failed != COMP_OK) {
                throw_error(Code::internal, "Gzip", "igzip reports {}", failed);
            }
            const std::size_t made = output_.size() - stream_->avail_out;
            if (made > 0) sink_({reinterpret_cast<const char*>(output_.data()), made});
        } while (stream_->avail_out == 0);
    }
    std::string_view name() const override { return "isa-l"; }

private:
    Sink sink_;
    Library library_;
    Deflate deflate_;
    std::unique_ptr<isal_zstream> stream_;
    std::vector<std::uint8_t> level_;
    std::vector<std::uint8_t> output_;
};

class GzipWriter::Zlib final : public Engine {
public:
    explicit Zlib(const Sink& sink) : sink_(sink), output_(kOutput) {
        constexpr int kGzipWindow = 15 + 16;
        if (::deflateInit2(&stream_, 1, Z_DEFLATED, kGzipWindow, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
            throw_error(Code::exhausted, "Gzip", "zlib cannot start: out of memory");
        }
    }
    ~Zlib() override { ::deflateEnd(&stream_); }

    void write(std::string_view data, Flush flush) override {
        stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
        stream_.avail_in = static_cast<uInt>(data.size());
        do {
            stream_.next_out = output_.data();
            stream_.avail_out = static_cast<uInt>(output_.size());
            ::deflate(&stream_, flush == Flush::finish ? Z_FINISH : Z_NO_FLUSH);
            const std::size_t made = output_.size() - stream_.avail_out;
            if (made > 0) sink_({reinterpret_cast<const char*>(output_.data()), made});
        } while (stream_.avail_out == 0);
    }
    std::string_view name() const override { return "zlib"; }

private:
    Sink sink_;
    z_stream stream_ = {};
    std::vector<Bytef> output_;
};

GzipWriter::GzipWriter(Sink sink, Codec codec) {
    if (codec == Codec::best) engine_ = Isal::open(sink);
    if (!engine_) engine_ = std::make_unique<Zlib>(sink);
}

GzipWriter::~GzipWriter() = default;

void GzipWriter::write(std::string_view data) {
    while (!data.empty()) {
        const std::string_view part = data.substr(0, kMaxInput);
        engine_->write(part, Engine::Flush::no);
        data.remove_prefix(part.size());
    }
}

void GzipWriter::finish() {
    engine_->write({}, Engine::Flush::finish);
}

std::string_view GzipWriter::codec() const {
    return engine_->name();
}

}  // namespace ty::agent
