// node.cpp - the gradient of a kernel as a node of PyTorch's autograd, in C++: a backward pass then runs no Python.
//
//   needs    PyTorch's headers, no CPython's; node.py builds and loads it
//   does     remembers for each plan of a forward which plans its backward has; allocates, launches by the functions of
//            python/launch/native.c, without the interpreter's lock
//   leaves   everything else to Python, by the operator tilec_node::backward: plans that are new, gradients that are
//            differentiated, tensors that are not plain ones, and every refusal in words
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/library.h>

#include <ATen/Context.h>
#include <ATen/TensorSubclassLikeUtils.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace
{

using at::Tensor;
using at::TensorList;
using torch::autograd::variable_list;

// python/launch/launch.h has the same.
struct Native {
    uint32_t version, max_tensors;
    int (*run)(void *plan, uint64_t *address);
    void (*keep)(void *object);
    void (*drop)(void *object);
};
constexpr uint32_t NATIVE_VERSION = 1, MAX_TENSORS = 48;
// plans that the gradients of one plan have; others go through Python
constexpr size_t MAX_BACKWARDS = 16;

// What a plan is found by: whether bits have to be the same in each run, and type, device, shape and strides of each of
// its tensors.
using Key = std::vector<int64_t>;

Key
new_key(size_t tensors)
{
    Key key;
    key.reserve(1 + 16 * tensors);
    key.push_back(at::globalContext().deterministicAlgorithms());
    return key;
}

void
add_to_key(Key &key, const Tensor &t)
{
    key.push_back(static_cast<int64_t>(t.scalar_type()));
    key.push_back(t.device().index());
    key.push_back(t.dim());
    key.insert(key.end(), t.sizes().begin(), t.sizes().end());
    key.insert(key.end(), t.strides().begin(), t.strides().end());
}

// An object of Python that is kept alive; ended without a lock of this file's, since it takes the interpreter's.
class Kept
{
  public:
    Kept(const Native *native, void *object) : native_(native), object_(object)
    {
        native_->keep(object_);
    }
    Kept(const Kept &) = delete;
    Kept &operator=(const Kept &) = delete;
    ~Kept()
    {
        native_->drop(object_);
    }
    void *
    get() const
    {
        return object_;
    }

  private:
    const Native *native_;
    void *object_;
};

struct Backward {
    Key key;
    Kept plan;
    std::vector<Tensor> made; // meta tensors: what the plan makes is like these
    std::vector<int64_t> returns;
};

// One plan of a forward: what is saved and taken, as gradient.py's Links say, and its backwards.
struct Forward {
    int64_t serial;
    const Native *native;
    Kept record; // node.py's
    std::vector<int64_t> saved, grads, sources, results;
    std::vector<std::shared_ptr<Backward>> backwards;
};

struct Table {
    std::mutex mutex;
    std::unordered_map<int64_t, std::shared_ptr<Forward>> rows; // by the plan's serial
};

Table &
table()
{
    static auto *all = new Table; // for ever: plans cannot be dropped when the interpreter is gone
    return *all;
}

std::shared_ptr<Forward>
find(int64_t serial)
{
    std::lock_guard<std::mutex> lock(table().mutex);
    auto row = table().rows.find(serial);
    return row == table().rows.end() ? nullptr : row->second;
}

std::shared_ptr<Backward>
find_backward(const Forward &f, const Key &key)
{
    std::lock_guard<std::mutex> lock(table().mutex);
    for (const auto &b : f.backwards)
        if (b->key == key)
            return b;
    return nullptr;
}

// A gradient that a kernel takes: autograd gives any strides (gradient.py has the same).
Tensor
fit(const Tensor &g)
{
    auto unit = static_cast<int64_t>(g.element_size());
    if (g.is_contiguous() && g.storage_offset() == 0 && g.dim() > 0 && g.size(-1) * unit % 16 == 0)
        return g;
    bool odd = g.dim() > 0 && g.stride(-1) != 1 && g.size(-1) > 1;
    for (int64_t d = 0; d + 1 < g.dim(); d++)
        odd |= g.stride(d) * unit % 16 != 0;
    if (odd)
        return g.contiguous();
    return g.storage_offset() * unit % 16 != 0 ? g.clone(at::MemoryFormat::Contiguous) : g;
}

bool
is_plain(const Tensor &t)
{
    return t.defined() && t.layout() == at::kStrided && t.has_storage() && !t.is_conj() &&
           !t.is_neg() && !t._is_zerotensor() && !at::isTensorSubclassLike(t);
}

// Of the gradients, how many the plans take; with others Python takes another kernel.
size_t
required(const Forward &f)
{
    int64_t n = 0;
    for (size_t i = 0; i + 1 < f.sources.size(); i += 2)
        if (f.sources[i] != 0)
            n = std::max(n, f.sources[i + 1] + 1);
    return static_cast<size_t>(n);
}

// The gradients by a plan that is known; false: the way through Python.
bool
run(const Forward &f, const variable_list &saved, const variable_list &grads, variable_list &out)
{
    if (at::GradMode::is_enabled() || c10::impl::TorchDispatchModeTLS::any_modes_set())
        return false;
    for (const auto &t : saved)
        if (!is_plain(t))
            return false;
    for (size_t i = 0; i < grads.size(); i++)
        if (i < required(f) ? !is_plain(grads[i]) : grads[i].defined())
            return false;
    at::AutoDispatchBelowADInplaceOrView guard;
    std::vector<Tensor> tensors;
    tensors.reserve(MAX_TENSORS);
    Key key = new_key(f.sources.size());
    for (size_t i = 0; i + 1 < f.sources.size(); i += 2) {
        auto at = static_cast<size_t>(f.sources[i + 1]);
        tensors.push_back(f.sources[i] != 0 ? fit(grads[at]) : saved[at]);
        add_to_key(key, tensors.back());
    }
    auto backward = find_backward(f, key);
    if (!backward || tensors.size() + backward->made.size() > MAX_TENSORS)
        return false;
    uint64_t address[MAX_TENSORS];
    for (const auto &like : backward->made)
        tensors.push_back(at::empty_strided(like.sizes(), like.strides(),
                                            like.options().device(tensors[0].device())));
    for (size_t i = 0; i < tensors.size(); i++)
        address[i] = reinterpret_cast<uintptr_t>(tensors[i].const_data_ptr());
    if (f.native->run(backward->plan.get(), address) != 0)
        return false;
    for (size_t i = 0; i < f.results.size(); i++)
        if (f.results[i] >= 0)
            out[i] =
                tensors[static_cast<size_t>(backward->returns[static_cast<size_t>(f.results[i])])];
    return true;
}

void
run_in_python(const Forward &f, const variable_list &saved, const variable_list &grads,
              variable_list &out)
{
    using Function = std::vector<Tensor>(int64_t, TensorList,
                                         const c10::List<std::optional<Tensor>> &);
    static const auto operation =
        c10::Dispatcher::singleton().findSchemaOrThrow("tilec_node::backward", "").typed<Function>();
    c10::List<std::optional<Tensor>> given;
    for (const auto &t : grads)
        given.push_back(t.defined() ? std::optional<Tensor>(t) : std::nullopt);
    // at once, whatever the tensors are: one that is batched has no rule for this, but for what it calls
    auto made = operation.redispatch(c10::DispatchKeySet(c10::DispatchKey::CPU), f.serial, saved,
                                     given);
    size_t next = 0;
    for (size_t i = 0; i < f.results.size(); i++)
        if (f.results[i] >= 0)
            out[i] = made.at(next++);
}

class TilecBackward : public torch::autograd::Node
{
  public:
    explicit TilecBackward(std::shared_ptr<Forward> forward) : forward_(std::move(forward))
    {
    }

    std::string
    name() const override
    {
        return "TilecBackward";
    }

    // Outputs that have a gradient come to depend on the inputs.
    void
    attach(TensorList inputs, TensorList outputs)
    {
        auto self = getptr();
        set_next_edges(torch::autograd::collect_next_edges(inputs));
        for (auto i : forward_->grads)
            torch::autograd::set_history(outputs[static_cast<size_t>(i)], self);
        saved_.reserve(forward_->saved.size() / 2);
        for (size_t i = 0; i + 1 < forward_->saved.size(); i += 2) {
            const auto &t = (forward_->saved[i] != 0
                                 ? outputs
                                 : inputs)[static_cast<size_t>(forward_->saved[i + 1])];
            saved_.emplace_back(t, t.grad_fn() == self);
        }
    }

    variable_list
    apply(variable_list &&grads) override
    {
        std::lock_guard<std::mutex> lock(mutex_); // the graph may be run by several threads
        variable_list saved;
        saved.reserve(saved_.size());
        for (const auto &s : saved_)
            saved.push_back(s.unpack(getptr()));
        variable_list out(forward_->results.size());
        if (!complete(grads))
            return out;
        if (!run(*forward_, saved, grads, out))
            run_in_python(*forward_, saved, grads, out);
        return out;
    }

    void
    release_variables() override
    {
        std::lock_guard<std::mutex> lock(mutex_);
        for (auto &s : saved_)
            s.reset_data();
    }

    void
    compiled_args(torch::dynamo::autograd::CompiledNodeArgs &) const override
    {
        TORCH_CHECK_NOT_IMPLEMENTED(false,
                                    "compiled autograd does not see into tilec's node in C++: set "
                                    "TILEC_TORCH_NODE=off");
    }

  private:
    // Of outputs that are not used while others are the gradient is zero, but for those that the plans do not take,
    // where none of these is used; false: no output is used.
    bool
    complete(variable_list &grads)
    {
        size_t taken = 0;
        for (size_t i = 0; i < grads.size(); i++)
            if (grads[i].defined())
                taken = std::max(std::max(taken, required(*forward_)),
                                 i < required(*forward_) ? 0 : grads.size());
        for (size_t i = 0; i < taken; i++)
            if (!grads[i].defined())
                grads[i] = input_metadata(i).zeros_like();
        return taken > 0;
    }

    std::shared_ptr<Forward> forward_;
    std::vector<torch::autograd::SavedVariable> saved_;
};

// What counts the owners of a node: std::shared_ptr, in newer PyTorch c10::intrusive_ptr.
using NodePointer = decltype(std::declval<torch::autograd::Node &>().getptr());

template <typename Node>
std::shared_ptr<Node>
own(Node *node, const std::shared_ptr<Node> *)
{
    return std::shared_ptr<Node>(node, [](Node *old) { deleteNode(old); }); // of torch::autograd
}

template <typename Node, typename Pointer>
Pointer
own(Node *node, const Pointer *)
{
    return Pointer::unsafe_steal_from_new(node);
}

// Makes the outputs of a launch depend on its inputs; false: register_forward() has to be called first.
bool
attach(int64_t serial, TensorList inputs, TensorList outputs)
{
    auto f = find(serial);
    if (!f)
        return false;
    for (const auto &t : inputs)
        TORCH_CHECK_NOT_IMPLEMENTED(!t._fw_grad(0).defined(),
                                    "kernels have no forward-mode derivatives");
    auto *node = new TilecBackward(std::move(f));
    NodePointer owner = own(static_cast<torch::autograd::Node *>(node),
                            static_cast<const NodePointer *>(nullptr));
    node->attach(inputs, outputs);
    return true;
}

void
register_forward(int64_t serial, int64_t native, int64_t record, at::IntArrayRef saved,
                 at::IntArrayRef grads, at::IntArrayRef sources, at::IntArrayRef results)
{
    const auto *functions = reinterpret_cast<const Native *>(native);
    TORCH_CHECK(functions->version == NATIVE_VERSION && functions->max_tensors == MAX_TENSORS,
                "tilec._launch is of another version");
    std::shared_ptr<Forward> f(new Forward{serial,
                                           functions,
                                           {functions, reinterpret_cast<void *>(record)},
                                           saved.vec(),
                                           grads.vec(),
                                           sources.vec(),
                                           results.vec(),
                                           {}});
    std::lock_guard<std::mutex> lock(table().mutex);
    table().rows.emplace(serial, f);
}

void
remember(int64_t serial, TensorList tensors, int64_t plan, TensorList made, at::IntArrayRef returns)
{
    auto f = find(serial);
    if (!f)
        return;
    Key key = new_key(tensors.size());
    for (const auto &t : tensors)
        add_to_key(key, t);
    std::shared_ptr<Backward> b(new Backward{
        std::move(key), {f->native, reinterpret_cast<void *>(plan)}, made.vec(), returns.vec()});
    std::lock_guard<std::mutex> lock(table().mutex);
    for (const auto &other : f->backwards)
        if (other->key == b->key)
            return;
    if (f->backwards.size() < MAX_BACKWARDS)
        f->backwards.push_back(std::move(b));
}

void
forget(int64_t serial)
{
    std::shared_ptr<Forward> dropped; // ends behind the lock
    std::lock_guard<std::mutex> lock(table().mutex);
    auto row = table().rows.find(serial);
    if (row == table().rows.end())
        return;
    dropped = std::move(row->second);
    table().rows.erase(row);
}

} // namespace

TORCH_LIBRARY(tilec_node, m)
{
    m.def("attach(int serial, Tensor[] inputs, Tensor[] outputs) -> bool", attach);
    m.def(
        "register(int serial, int native, int record, int[] saved, int[] grads, int[] sources, int[] results) -> ()",
        register_forward);
    m.def("remember(int serial, Tensor[] tensors, int plan, Tensor[] made, int[] returns) -> ()",
          remember);
    m.def("forget(int serial) -> ()", forget);
    m.def("backward(int serial, Tensor[] saved, Tensor?[] grads) -> Tensor[]");
}
