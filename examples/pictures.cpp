/* Pictures with C++17 and the shared library: objects destroy themselves, and failures are exceptions.
     pictures MODEL "a prompt" [SEED...]      c++ -std=c++17 examples/pictures.cpp $(pkg-config --cflags --libs dit) */
#include <dit.h>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

struct destroy {
    void operator()(dit_context *context) const { dit_context_destroy(context); }
    void operator()(dit_model *model) const { dit_model_destroy(model); }
    void operator()(dit_job *job) const { dit_job_destroy(job); }
};
template <class T> using owned = std::unique_ptr<T, destroy>;

/* Calls a dit_* function whose last two parameters are the new object and the error. */
template <class T, class Function, class... Arguments> owned<T> make(Function function, Arguments... arguments) {
    T *made = nullptr;
    dit_error error{};
    if (function(arguments..., &made, &error) < 0) throw std::runtime_error(error.message);
    return owned<T>(made);
}

std::vector<unsigned char> draw(dit_context *context, const dit_model *model, const char *prompt, uint64_t seed,
                                uint32_t side) {
    dit_job_desc desc{};
    desc.model = model;
    desc.prompt = prompt;
    desc.seed = seed;
    desc.width = desc.height = side;
    owned<dit_job> job = make<dit_job>(dit_job_create, context, &desc);
    std::vector<unsigned char> rgba(size_t(side) * side * 4);
    dit_error error{};
    if (dit_job_wait(job.get(), UINT64_MAX) < 0) dit_job_status(job.get(), nullptr, &error);
    if (error.result >= 0) dit_job_read(job.get(), DIT_READ_RGBA8, 0, 0, rgba.data(), rgba.size(), 0, &error);
    if (error.result < 0) throw std::runtime_error(error.message);
    return rgba;
}

void save(const std::string &path, const std::vector<unsigned char> &rgba, uint32_t side) {
    std::unique_ptr<FILE, int (*)(FILE *)> file(std::fopen(path.c_str(), "wb"), std::fclose);
    if (!file) throw std::runtime_error("cannot write " + path);
    std::fprintf(file.get(), "P6 %u %u 255\n", side, side);
    for (size_t i = 0; i < rgba.size(); i += 4) std::fwrite(&rgba[i], 1, 3, file.get());
    const bool failed = std::ferror(file.get()) != 0;
    if (std::fclose(file.release()) != 0 || failed) throw std::runtime_error("cannot write " + path);
}

} // namespace

int main(int argc, char **argv) try {
    if (argc < 3) return std::fprintf(stderr, "usage: pictures MODEL PROMPT [SEED...]\n"), 2;
    const uint32_t side = 64;
    dit_context_desc context_desc{};
    dit_model_desc model_desc{};
    model_desc.source.path = argv[1];
    owned<dit_context> context = make<dit_context>(dit_context_create, &context_desc);
    owned<dit_model> model = make<dit_model>(dit_model_load, context.get(), &model_desc);
    for (int i = 3; i < argc || i == 3; i++) {
        const std::string seed = i < argc ? argv[i] : "42";
        save("picture-" + seed + ".ppm", draw(context.get(), model.get(), argv[2], std::stoull(seed), side), side);
    }
    return 0;
} catch (const std::exception &failure) {
    return std::fprintf(stderr, "pictures: %s\n", failure.what()), 1;
}
