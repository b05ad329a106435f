// One packed pass of a decoder of the Llama family, from token ids to logits, in one call; or of a head that
// reads features beside the tokens.
#include "attention.h"
#include "interface.h"
#include "linear.h"
#include "memory.h"
#include "rows.h"
#include "threads.h"

using namespace tandem;

namespace {

constexpr int kPanelsPerTask = 8;
constexpr int kManyRows = 64;  // of a segment; fewer are cut finer, so that every thread has some
constexpr int kPhasesOfLayer = 8, kOtherPhases = 5;  // moves, embedding, join, final norm and head
static_assert(kPanelsPerTask % 4 == 0, "a gate-up task must yield whole groups");

struct Item {  // rows of one segment that attend together
    int segment, row, count;
};

class Model {
  public:
    Model(const TandemConfig& config, const TandemWeights& weights)
        : config_(config), weights_(weights), layers_(weights.layers, weights.layers + config.layers),
          hidden_layers_(weights.hidden_layers, weights.hidden_layers + config.hidden_layers),
          team_(config.threads, kPhasesOfLayer * config.layers + config.hidden_layers + kOtherPhases), scratch_(config.threads),
          pool_(static_cast<size_t>(config.layers) * layer_bytes()) {}
    virtual ~Model() = default;
    virtual void run(const TandemPass& pass) = 0;

  protected:
    size_t element_bytes() const { return config_.half_cache ? 2 : 4; }
    size_t half_layer_bytes() const {
        return static_cast<size_t>(config_.num_blocks) * config_.kv_heads * kBlock * config_.head_size * element_bytes();
    }
    size_t layer_bytes() const { return 2 * half_layer_bytes(); }

    const TandemConfig config_;
    const TandemWeights weights_;
    const std::vector<TandemLayer> layers_;
    const std::vector<int32_t> hidden_layers_;
    Team team_;
    std::vector<Scratch> scratch_;
    Memory pool_;
};

template <typename Element>
class Decoder : public Model {
  public:
    using Model::Model;
    ~Decoder() override { team_.gather(); }

    void run(const TandemPass& pass) override {
        team_.gather();
        pass_ = pass;
        list_items();
        const size_t rows = pass.rows;
        const int qkv = (config_.heads + 2 * config_.kv_heads) * config_.head_size;
        Buffers::grow(x_, rows * config_.hidden);
        Buffers::grow(qkv_, rows * qkv);
        Buffers::grow(normal_, rows * config_.hidden);
        Buffers::grow(strip_, static_cast<size_t>(team_.size()) * rows * kPanelsPerTask * kLanes);
        for (const TandemLayer& layer : layers_) {
            first_.reserve(rows, config_.hidden, layer.qkv.format);
            first_.reserve(rows, config_.hidden, layer.gate_up.format);
            second_.reserve(rows, config_.heads * config_.head_size, layer.output.format);
            third_.reserve(rows, config_.intermediate, layer.down.format);
        }
        first_.reserve(rows, config_.hidden, weights_.head.format);
        first_.reserve(rows, weights_.join.inputs, weights_.join.format);
        for (Scratch& scratch : scratch_) reserve(scratch);
        team_.run([this](int thread) { forward(thread); });
    }

  private:
    // Every thread runs this; `phase` parts the work and waits until it is done. A thread that comes late goes
    // through phases that are over, so nothing outside of a task may change what another one sees.
    void forward(int thread) {
        const TandemPass& pass = pass_;
        const int heads = config_.kv_heads;
        if (pass.moves)
            team_.phase(config_.layers * heads, [&](int task) { move(task / heads, task % heads, scratch_[thread]); });
        team_.phase(pass.rows, [&](int row) { embed(row); });
        if (weights_.join.outputs)
            linear(weights_.join, first_.view(weights_.join.inputs), {x_.data(), static_cast<size_t>(config_.hidden), false});
        for (int index = 0; index < config_.layers; ++index) {
            keep_hidden(index);
            const TandemLayer& layer = layers_[index];
            attention_block(index, layer, thread);
            feed_forward(layer, thread);
        }
        logits();
    }

    // A row's token; with a join, the input of that.
    void embed(int row) {
        unpack(weights_.embedding, pass_.token_ids[row], x(row));
        if (!weights_.join.outputs) return;
        const Activations to = first_.view(weights_.join.inputs);
        const float* feature = pass_.features + static_cast<size_t>(row) * config_.hidden;
        normalise(x(row), weights_.embedding_norm, config_.hidden, config_.epsilon, normal(row));
        put(normal(row), to, weights_.join.format, row, 0, config_.hidden);
        normalise(feature, weights_.feature_norm, config_.hidden, config_.epsilon, normal(row));
        put(normal(row), to, weights_.join.format, row, config_.hidden, 2 * config_.hidden);
    }

    void attention_block(int index, const TandemLayer& layer, int thread) {
        const int width = (config_.heads + 2 * config_.kv_heads) * config_.head_size;
        const Activations input = first_.view(config_.hidden);
        norm_rows(layer.input_norm, input, layer.qkv.format);
        linear(layer.qkv, input, {qkv_.data(), static_cast<size_t>(width), false});
        team_.phase(pass_.rows, [&](int row) { rotate_and_write(index, layer, row); });
        const Activations attended = second_.view(config_.heads * config_.head_size);
        const int heads = config_.kv_heads, items = static_cast<int>(items_.size());
        team_.phase(items * heads, [&](int task) {
            attend_item(index, layer, items_[task / heads], task % heads, attended, scratch_[thread]);
        });
        linear(layer.output, attended, {x_.data(), static_cast<size_t>(config_.hidden), true});
    }

    void feed_forward(const TandemLayer& layer, int thread) {
        const Activations input = first_.view(config_.hidden);
        norm_rows(layer.post_norm, input, layer.gate_up.format);
        const Activations inner = third_.view(config_.intermediate);
        const int panels = layer.gate_up.outputs / kLanes;
        team_.phase((panels + kPanelsPerTask - 1) / kPanelsPerTask, [&](int task) {
            const int begin = task * kPanelsPerTask;
            gate(layer, input, inner, begin, std::min(begin + kPanelsPerTask, panels), thread);
        });
        linear(layer.down, inner, {x_.data(), static_cast<size_t>(config_.hidden), true});
    }

    // silu(gate) * up for the channels of some panels, handed on as the next linear's input.
    void gate(const TandemLayer& layer, const Activations& input, const Activations& inner, int begin, int end, int thread) {
        const int rows = pass_.rows, width = kPanelsPerTask * kLanes, channels = (end - begin) * kLanes / 2;
        float* strip = strip_.data() + static_cast<size_t>(thread) * rows * width;
        multiply(layer.gate_up, input, rows, begin, end, begin, {strip, static_cast<size_t>(width), false});
        for (int row = 0; row < rows; ++row) {
            float* at = strip + static_cast<size_t>(row) * width;
            for (int panel = 0; panel < (end - begin) / 2; ++panel) {
                const Floats z = load(at + 2 * panel * kLanes), up = load(at + (2 * panel + 1) * kLanes);
                const Floats sigmoid = div(all(1.0f), add(all(1.0f), exponential(min(sub(zeros(), z), all(88.0f)))));
                store(at + panel * kLanes, mul(mul(z, sigmoid), up));
            }
            put(at, inner, layer.down.format, row, begin * kLanes / 2, begin * kLanes / 2 + channels);
        }
    }

    void logits() {
        const TandemPass& pass = pass_;
        keep_hidden(config_.layers);
        if (!pass.logits) return;
        const Activations input = first_.view(config_.hidden);
        team_.phase(pass.logits, [&](int i) {
            const int row = pass.logit_rows[i];
            normalise(x(row), weights_.final_norm, config_.hidden, config_.epsilon, normal(row));
            put(normal(row), input, weights_.head.format, i, 0, config_.hidden);
        });
        linear(weights_.head, input, {pass.out, static_cast<size_t>(config_.vocabulary), false}, pass.logits);
    }

    // The residual stream before layer `index`; after the last one its final norm.
    void keep_hidden(int index) {
        if (!pass_.hidden) return;
        const int kept = static_cast<int>(hidden_layers_.size());
        for (int slot = 0; slot < kept; ++slot) {
            if (hidden_layers_[slot] != index) continue;
            team_.phase(pass_.rows, [&](int row) {
                float* out = pass_.hidden + (static_cast<size_t>(row) * kept + slot) * config_.hidden;
                if (index == config_.layers)
                    normalise(x(row), weights_.final_norm, config_.hidden, config_.epsilon, out);
                else
                    std::copy(x(row), x(row) + config_.hidden, out);
            });
        }
    }

    void norm_rows(const float* weight, const Activations& to, int32_t format) {
        team_.phase(pass_.rows, [&](int row) {
            normalise(x(row), weight, config_.hidden, config_.epsilon, normal(row));
            put(normal(row), to, format, row, 0, config_.hidden);
        });
    }

    void linear(const Linear& linear, const Activations& input, const Target& to, int rows = 0) {
        const int panels = linear.outputs / kLanes, tasks = (panels + kPanelsPerTask - 1) / kPanelsPerTask;
        team_.phase(tasks, [&](int task) {
            const int begin = task * kPanelsPerTask, end = std::min(begin + kPanelsPerTask, panels);
            multiply(linear, input, rows ? rows : pass_.rows, begin, end, 0, to);
        });
    }

    void rotate_and_write(int index, const TandemLayer& layer, int row) {
        const int size = config_.head_size, heads = config_.heads, kv_heads = config_.kv_heads;
        float* query = qkv(row);
        float* key = query + heads * size;
        const float* value = key + kv_heads * size;
        const size_t angle = static_cast<size_t>(pass_.positions[row]) * (size / 2);
        for (int head = 0; head < heads + kv_heads; ++head) {
            float* at = query + head * size;
            const float* weight = head < heads ? layer.query_norm : layer.key_norm;
            if (weight) normalise(at, weight, size, config_.epsilon, at);
            rotate(at, weights_.cosines + angle, weights_.sines + angle, size);
        }
        const int slot = slots_[row];
        for (int head = 0; head < kv_heads; ++head)
            cache(index).write(slot / kBlock, slot % kBlock, head, key + head * size, value + head * size);
    }

    void attend_item(int index, const TandemLayer& layer, const Item& item, int head, const Activations& to, Scratch& scratch) {
        const int size = config_.head_size, group = config_.heads / config_.kv_heads;
        const Segment& segment = pass_.segment[item.segment];
        const Cache<Element> layer_cache = cache(index);
        Context<Element> context{layer_cache, pass_.blocks + segment.first_block, head, 1 << 30, nullptr, nullptr};
        if (segment.row + (segment.root - segment.start) <= item.row) gather_path(context, segment, item.row, scratch);
        const int total = item.count * group;
        for (int first = 0; first < total; first += kQueries) {
            const int n = std::min(kQueries, total - first);
            const float* queries[kQueries];
            float* out[kQueries];
            int last[kQueries];
            for (int i = 0; i < n; ++i) {
                const int row = item.row + (first + i) / group;
                queries[i] = qkv(row) + (head * group + (first + i) % group) * size;
                out[i] = scratch.out.data() + i * size;
                last[i] = pass_.positions[row];
            }
            Attention<Element>(context, n, queries, last, layer.window, config_.attention_scale, scratch, out).run();
            for (int i = 0; i < n; ++i) {
                const int begin = (head * group + (first + i) % group) * size;
                put(out[i], to, layer.output.format, item.row + (first + i) / group, begin, begin + size);
            }
        }
    }

    // Copy what a tree's row follows, from the block that holds the root's end on, to where a chain would have it.
    void gather_path(Context<Element>& context, const Segment& segment, int row, Scratch& scratch) {
        const int size = config_.head_size, head = context.head;
        const int last = pass_.positions[row], shared = segment.root / kBlock, tail = last / kBlock + 1 - shared;
        const size_t bytes = static_cast<size_t>(tail) * kBlock * size * sizeof(Element);
        std::fill_n(scratch.keys.begin(), bytes, 0);
        std::fill_n(scratch.values.begin(), bytes, 0);
        auto* keys = reinterpret_cast<Element*>(scratch.keys.data());
        auto* values = reinterpret_cast<Element*>(scratch.values.data());
        const auto place = [&](int slot, int position) {
            const size_t at = static_cast<size_t>(position / kBlock - shared) * kBlock * size;
            const int lane = position % kBlock;
            context.cache.read(slot / kBlock, slot % kBlock, head, keys + at + lane, kBlock, values + at + lane * size);
        };
        for (int position = shared * kBlock; position < segment.root; ++position)
            place(context.blocks[position / kBlock] * kBlock + position % kBlock, position);
        for (int node = row, position = last; node >= 0; node = pass_.parents[node], --position)
            place(slots_[node], position);
        context.shared = shared;
        context.tail_keys = keys;
        context.tail_values = values;
    }

    // All a thread may need, so that none allocates within the pass.
    void reserve(Scratch& scratch) const {
        int last = 0, deepest = 0;
        for (int row = 0; row < pass_.rows; ++row) last = std::max(last, pass_.positions[row]);
        for (int s = 0; s < pass_.segments; ++s) {
            const Segment& segment = pass_.segment[s];
            deepest = std::max(deepest, segment.start + segment.count - segment.root);
        }
        const size_t tokens = std::max(deepest + 2 * kBlock, pass_.moves);
        const size_t bytes = tokens * config_.head_size * sizeof(Element);
        Buffers::grow(scratch.weights, static_cast<size_t>(kQueries) * (last / kBlock + 1) * kBlock);
        Buffers::grow(scratch.out, static_cast<size_t>(kQueries) * config_.head_size);
        Buffers::grow(scratch.strip, static_cast<size_t>(kStrip) * kBlock * config_.head_size);
        Buffers::grow(scratch.keys, bytes);
        Buffers::grow(scratch.values, bytes);
    }

    // All tokens on the move, of one layer's head: every source is read before a target is written.
    void move(int layer, int head, Scratch& scratch) {
        const Cache<Element> at = cache(layer);
        const size_t size = config_.head_size;
        auto* keys = reinterpret_cast<Element*>(scratch.keys.data());
        auto* values = reinterpret_cast<Element*>(scratch.values.data());
        for (int i = 0; i < pass_.moves; ++i) {
            const int slot = pass_.move_sources[i];
            at.read(slot / kBlock, slot % kBlock, head, keys + i * size, 1, values + i * size);
        }
        for (int i = 0; i < pass_.moves; ++i) {
            const int slot = pass_.move_targets[i];
            at.put_back(slot / kBlock, slot % kBlock, head, keys + i * size, values + i * size);
        }
    }

    // Rows that attend together, and the pool slot of each row.
    void list_items() {
        const int group = config_.heads / config_.kv_heads;
        items_.clear();
        slots_.resize(pass_.rows);
        for (int s = 0; s < pass_.segments; ++s) {
            const Segment& segment = pass_.segment[s];
            const int32_t* blocks = pass_.blocks + segment.first_block;
            for (int i = 0; i < segment.count; ++i) {
                const int slot = segment.start + i;
                slots_[segment.row + i] = blocks[slot / kBlock] * kBlock + slot % kBlock;
            }
            const int chain = segment.root - segment.start;
            const int queries = chain < kManyRows ? kTile : kQueries, together = std::max(1, queries / group);
            for (int i = 0; i < chain; i += together)
                items_.push_back({s, segment.row + i, std::min(together, chain - i)});
            for (int i = chain; i < segment.count; ++i) items_.push_back({s, segment.row + i, 1});
        }
    }

    Cache<Element> cache(int layer) const {
        char* base = pool_.get() + layer_bytes() * layer;
        return {reinterpret_cast<Element*>(base), reinterpret_cast<Element*>(base + half_layer_bytes()),
                config_.kv_heads, config_.head_size};
    }
    float* x(int row) { return x_.data() + static_cast<size_t>(row) * config_.hidden; }
    float* normal(int row) { return normal_.data() + static_cast<size_t>(row) * config_.hidden; }
    float* qkv(int row) {
        return qkv_.data() + static_cast<size_t>(row) * (config_.heads + 2 * config_.kv_heads) * config_.head_size;
    }

    TandemPass pass_{};
    std::vector<Item> items_;
    std::vector<int32_t> slots_;
    std::vector<float> x_, normal_, qkv_, strip_;
    Buffers first_, second_, third_;
};

class Multiplier {
  public:
    explicit Multiplier(int threads) : team_(threads, 2) {}

    void run(const Linear& linear, const float* x, int rows, float* out) {
        team_.gather();
        input_.reserve(rows, linear.inputs, linear.format);
        const Activations to = input_.view(linear.inputs);
        const int panels = linear.outputs / kLanes, tasks = (panels + kPanelsPerTask - 1) / kPanelsPerTask;
        team_.run([=, this](int) {
            team_.phase(rows, [&](int row) {
                put(x + static_cast<size_t>(row) * linear.inputs, to, linear.format, row, 0, linear.inputs);
            });
            team_.phase(tasks, [&](int task) {
                const int begin = task * kPanelsPerTask, end = std::min(begin + kPanelsPerTask, panels);
                multiply(linear, to, rows, begin, end, 0, {out, static_cast<size_t>(linear.outputs), false});
            });
        });
    }

  private:
    Team team_;
    Buffers input_;
};

}  // namespace

extern "C" {

void* tandem_create(const TandemConfig* config, const TandemWeights* weights) try {
    if (config->half_cache) return static_cast<Model*>(new Decoder<uint16_t>(*config, *weights));
    return static_cast<Model*>(new Decoder<float>(*config, *weights));
} catch (const std::exception&) {
    return nullptr;
}

int tandem_run(void* model, const TandemPass* pass) try {
    static_cast<Model*>(model)->run(*pass);
    return 0;
} catch (const std::exception&) {
    return 1;
}

void tandem_destroy(void* model) { delete static_cast<Model*>(model); }

// One linear by itself, for models that are run by others: threads and room of its own.
void* tandem_multiplier(int32_t threads) try {
    return new Multiplier(threads);
} catch (const std::exception&) {
    return nullptr;
}

// out[rows][outputs] from x[rows][inputs].
int tandem_multiply(void* multiplier, const Linear* linear, const float* x, int32_t rows, float* out) try {
    static_cast<Multiplier*>(multiplier)->run(*linear, x, rows, out);
    return 0;
} catch (const std::exception&) {
    return 1;
}

void tandem_forget(void* multiplier) { delete static_cast<Multiplier*>(multiplier); }

}  // extern "C"
