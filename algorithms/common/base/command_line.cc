// SPDX-License-Identifier: Apache-2.0
#include "common/base/command_line.h"

#include "common/base/error.h"
#include "common/base/hyperparameters.h"

#include <algorithm>

namespace alg {

namespace {

bool contains(const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

class Parser {
public:
    Parser(int argc, const char* const* argv, const std::vector<std::string>& channels,
           const std::vector<std::string>& hyperparameters)
        : argc_(argc), argv_(argv), channels_(channels), hyperparameters_(hyperparameters) {}

    CommandLine parse() {
        for (next_ = 1; next_ < argc_;) {
            const std::string word = argv_[next_++];
            if (word.starts_with("--"))
                option(word.substr(2));
            else if (word.find('=') != std::string::npos && word.front() != '-')
                assignment(word);
            else if (word != "train" || next_ != 2)  // the word an image is started with
                problem(format("\"{}\" is neither --name value nor key=value", word));
        }
        if (!problems_.empty()) fail("command line: {}", problems_);
        return std::move(result_);
    }

private:
    void problem(const std::string& text) { problems_ += (problems_.empty() ? "" : "; ") + text; }

    void option(const std::string& word) {
        const std::size_t sign = word.find('=');
        const std::string given = word.substr(0, sign);
        std::string value;
        if (sign != std::string::npos) {
            value = word.substr(sign + 1);
        } else if (next_ < argc_ && !std::string(argv_[next_]).starts_with("--")) {
            value = argv_[next_++];
        } else if (known(given)) {
            return problem(format("--{} needs a value", given));
        }
        use(given, value);
    }

    bool known(const std::string& given) const {
        const std::vector<std::string> all = names();
        return contains(all, given) || contains(all, underscored(given));
    }

    void use(const std::string& given, const std::string& value) {
        if (given == "model") return folder(given, value, result_.model);
        if (given == "checkpoints") return folder(given, value, result_.checkpoints);
        if (given == "output") return folder(given, value, result_.output);
        if (given == "config") return assignment(value);
        if (given == "channel") {
            const std::size_t sign = value.find('=');
            if (sign == 0 || sign == std::string::npos || sign + 1 == value.size())
                return problem(format("--channel {} is not name=folder", value));
            result_.channels[value.substr(0, sign)] = value.substr(sign + 1);
            return;
        }
        if (contains(hyperparameters_, given)) {
            result_.hyperparameters[given] = value;
        } else if (contains(hyperparameters_, underscored(given))) {
            result_.hyperparameters[underscored(given)] = value;
        } else if (contains(channels_, given)) {
            if (value.empty()) return problem(format("--{} needs a folder", given));
            result_.channels[given] = value;
        } else {
            unknown(given);
        }
    }

    void folder(const std::string& name, const std::string& value,
                std::optional<std::filesystem::path>& target) {
        if (value.empty()) return problem(format("--{} needs a folder", name));
        target = value;
    }

    void assignment(const std::string& word) {
        const std::size_t sign = word.find('=');
        if (sign == 0 || sign == std::string::npos)
            return problem(format("\"{}\" is not group=choice or key=value", word));
        const std::string key = word.substr(0, sign);
        if (contains(hyperparameters_, key))
            result_.hyperparameters[key] = word.substr(sign + 1);
        else
            result_.overrides.push_back(word);
    }

    void unknown(const std::string& given) {
        const std::vector<std::string> close = nearest(underscored(given), names(), 2);
        std::string hint;
        for (const std::string& name : close) hint += (hint.empty() ? "--" : " or --") + name;
        problem(format("--{} is unknown{}", given,
                       hint.empty() ? std::string() : "; did you mean " + hint + "?"));
    }

    std::vector<std::string> names() const {
        std::vector<std::string> all = hyperparameters_;
        all.insert(all.end(), channels_.begin(), channels_.end());
        all.insert(all.end(), {"model", "checkpoints", "output", "config", "channel"});
        return all;
    }

    static std::string underscored(std::string name) {
        std::replace(name.begin(), name.end(), '-', '_');
        return name;
    }

    const int argc_;
    const char* const* const argv_;
    const std::vector<std::string>& channels_;
    const std::vector<std::string>& hyperparameters_;
    int next_ = 1;
    CommandLine result_;
    std::string problems_;
};

}  // namespace

CommandLine read_command_line(int argc, const char* const* argv,
                              const std::vector<std::string>& channels,
                              const std::vector<std::string>& hyperparameters) {
    return Parser(argc, argv, channels, hyperparameters).parse();
}

}  // namespace alg
