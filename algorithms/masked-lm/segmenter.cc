// SPDX-License-Identifier: Apache-2.0
#include "masked-lm/segmenter.h"

#include "text/lines.h"

#include <algorithm>

namespace alg {

namespace {

constexpr char32_t kInvalid = 0xFFFD;

/// Code point at `at` and its bytes; a byte that begins none is invalid.
struct Character {
    char32_t code = 0;
    std::size_t size = 1;
};

Character character(std::string_view text, std::size_t at) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
    const unsigned char first = byte(0);
    if (first < 0x80) return {first, 1};
    const std::size_t size = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    if (first < 0xC0 || first > 0xF7 || at + size > text.size()) return {kInvalid, 1};
    char32_t code = first & (0x7FU >> size);
    for (std::size_t i = 1; i < size; ++i) {
        if ((byte(i) & 0xC0) != 0x80) return {kInvalid, 1};
        code = code << 6 | (byte(i) & 0x3FU);
    }
    return {code, size};
}

bool is_space(char32_t c) {
    return c == ' ' || (c >= 9 && c <= 13) || c == 0xA0 || c == 0x3000 ||
           (c >= 0x2000 && c <= 0x200B);
}

/// Belongs to a run: letters and digits of alphabets; not Chinese characters and punctuation.
bool is_letter(char32_t c) {
    if (c < 0x80) return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    return (c >= 0xC0 && c < 0x2000 && c != 0xD7 && c != 0xF7) || (c >= 0xAC00 && c <= 0xD7A3);
}

std::string lowered(std::string text) {
    for (char& c : text)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return text;
}

void append(std::string& key, const std::string& atom) {
    key += atom;
    key += '\0';
}

}  // namespace

std::vector<std::string> atoms_of(std::string_view text, std::vector<bool>* starts) {
    std::vector<std::string> atoms;
    bool in_run = false, start = true;
    for (std::size_t at = 0; at < text.size();) {
        const Character c = character(text, at);
        const std::string_view bytes = text.substr(at, c.size);
        at += c.size;
        if (is_space(c.code)) {
            in_run = false;
            start = true;
        } else if (is_letter(c.code) && in_run) {
            atoms.back() += bytes;
        } else {
            atoms.emplace_back(bytes);
            if (starts != nullptr) starts->push_back(start);
            in_run = is_letter(c.code);
            start = false;
        }
    }
    return atoms;
}

void PhraseList::add(std::string_view phrase, bool lower_case) {
    const std::vector<std::string> atoms = atoms_of(phrase);
    if (atoms.empty()) return;
    std::string key;
    for (const std::string& atom : atoms) append(key, lower_case ? lowered(atom) : atom);
    phrases_.insert(std::move(key));
    most_ = std::max(most_, atoms.size());
}

std::size_t PhraseList::read(const std::filesystem::path& file, bool lower_case) {
    LineReader lines(file);
    std::string line;
    const std::size_t before = phrases_.size();
    while (lines.next(line)) add(line, lower_case);
    return phrases_.size() - before;
}

std::size_t PhraseList::longest(const std::vector<std::string>& atoms, std::size_t first,
                                std::size_t end) const {
    std::string key;
    std::size_t found = 0;
    for (std::size_t count = 1; count <= most_ && first + count <= end; ++count) {
        append(key, atoms[first + count - 1]);
        if (phrases_.contains(key)) found = count;
    }
    return found;
}

std::vector<std::string_view> sentences_of(std::string_view line) {
    std::vector<std::string_view> sentences;
    std::size_t begin = 0;
    const auto cut = [&](std::size_t end) {
        std::string_view sentence = line.substr(begin, end - begin);
        begin = end;
        while (!sentence.empty() && sentence.front() == ' ') sentence.remove_prefix(1);
        if (!sentence.empty()) sentences.push_back(sentence);
    };
    for (std::size_t at = 0; at < line.size();) {
        const Character c = character(line, at);
        at += c.size;
        const bool wide = c.code == U'。' || c.code == U'！' || c.code == U'？' || c.code == U'；';
        const bool narrow = c.code == '.' || c.code == '!' || c.code == '?';
        if (!wide && !narrow) continue;
        // Closing quotes and brackets belong to the sentence.
        while (at < line.size()) {
            const Character next = character(line, at);
            if (next.code != U'”' && next.code != U'’' && next.code != U'」' &&
                next.code != U'）' && next.code != '"' && next.code != ')')
                break;
            at += next.size;
        }
        if (wide || at == line.size() || is_space(character(line, at).code)) cut(at);
    }
    cut(line.size());
    return sentences;
}

Segmented segment(std::string_view sentence, const WordPiece& pieces, const Segmentation& how) {
    std::vector<bool> starts;
    const std::vector<std::string> atoms = atoms_of(sentence, &starts);
    std::vector<std::string> compared = atoms;
    if (pieces.options().lower_case)
        for (std::string& atom : compared) atom = lowered(std::move(atom));

    // begins[i]: a masking unit begins at atom i.
    std::vector<bool> begins(atoms.size(), true), taken(atoms.size(), false);
    const auto join = [&](std::size_t first, std::size_t count) {
        for (std::size_t i = first; i < first + count; ++i) {
            begins[i] = i == first;
            taken[i] = true;
        }
    };
    for (std::size_t i = 0; i < atoms.size();) {
        const std::size_t count = how.entities.longest(compared, i, atoms.size());
        if (count > 0) join(i, count);
        i += std::max<std::size_t>(count, 1);
    }
    for (std::size_t i = 0; i < atoms.size(); ++i) {
        if (taken[i]) continue;
        std::size_t end = i + 1;  // of what no entity took
        while (end < atoms.size() && !taken[end]) ++end;
        std::size_t count = 0;
        if (!how.words.empty()) {
            count = how.words.longest(compared, i, end);
        } else if (how.spaces) {
            count = 1;
            while (i + count < end && !starts[i + count]) ++count;
        }
        count = std::max<std::size_t>(count, 1);
        join(i, count);
        i += count - 1;
    }
    Segmented result;
    for (std::size_t i = 0; i < atoms.size(); ++i) {
        const std::size_t before = result.tokens.size();
        pieces.encode(atoms[i], result.tokens);
        // An atom that gives no token (a control character) passes its beginning on.
        if (result.tokens.size() == before && begins[i] && i + 1 < atoms.size())
            begins[i + 1] = true;
        for (std::size_t t = before; t < result.tokens.size(); ++t)
            result.units.push_back(t == before && begins[i] ? 0 : 1);
    }
    return result;
}

}  // namespace alg
