// Lab 3: what a list of passes over tensors moves, and how much memory it needs on the way.
//
// The chapter counts naive attention by hand. Here a program counts any list of passes, and you
// describe attention to it, with more passes than the chapter has. The rules are in labs.h.
#include "labs.h"

void plan_traffic(const PassPlan *plan, Traffic *traffic) {
    for (int t = 0; t < plan->tensor_count; t++) {
        traffic[t] = (Traffic){0, 0};
        // GAP 1: add up what every pass reads and writes of tensor t, in bytes, over all repeats.
        // A tensor may have 2^34 elements and more: nothing here fits in 32 bits.
        const PassTensor *tensor = &plan->tensors[t];
        const int64_t bytes = tensor->elements * tensor->element_size * plan->repeats;
        for (int p = 0; p < plan->pass_count; p++) {
            traffic[t].read += plan->passes[p].reads[t] * bytes;
            traffic[t].written += plan->passes[p].writes[t] * bytes;
        }
        // END 1
    }
}

static bool touches(const Pass *pass, int t) {
    return pass->reads[t] > 0 || pass->writes[t] > 0;
}

int64_t plan_peak_bytes(const PassPlan *plan) {
    int64_t peak = 0;

    for (int p = 0; p < plan->pass_count; p++) {
        int64_t alive = 0; // bytes of the temporaries that exist while pass p runs
        for (int t = 0; t < plan->tensor_count; t++) {
            // GAP 2: add tensor t to alive if it is a temporary that exists during pass p. It need
            // not be touched by pass p itself: an earlier and a later pass may both touch it.
            const PassTensor *tensor = &plan->tensors[t];
            int first = plan->pass_count; // the first and the last pass that touch it
            int last = -1;
            for (int i = 0; i < plan->pass_count; i++) {
                if (touches(&plan->passes[i], t)) {
                    first = i < first ? i : first;
                    last = i;
                }
            }
            if (tensor->temporary && first <= p && p <= last) {
                alive += tensor->elements * tensor->element_size;
            }
            // END 2
        }
        peak = alive > peak ? alive : peak;
    }
    return peak;
}

// Appends an empty pass to the plan and returns it, to be filled in.
static Pass *next_pass(PassPlan *plan, const char *name) {
    Pass *pass = &plan->passes[plan->pass_count++];

    *pass = (Pass){.name = name};
    return pass;
}

void attention_plan(const UnfusedAttention *attention, PassPlan *plan) {
    static const char *const names[ATTENTION_TENSORS] = {"Q", "K", "V", "O", "S", "P"};

    *plan = (PassPlan){.tensor_count = ATTENTION_TENSORS, .repeats = attention->layers};
    for (int t = 0; t < ATTENTION_TENSORS; t++) {
        plan->tensors[t].name = names[t];
        plan->tensors[t].element_size = attention->element_size;
    }

    // GAP 3: the elements of the six tensors, for all heads of a layer, and which are temporary.
    const int64_t query_side = attention->heads * attention->len_q * attention->dim;
    const int64_t key_side = attention->heads * attention->len_kv * attention->dim;
    const int64_t matrix = attention->heads * attention->len_q * attention->len_kv;
    plan->tensors[TENSOR_Q].elements = query_side;
    plan->tensors[TENSOR_O].elements = query_side;
    plan->tensors[TENSOR_K].elements = key_side;
    plan->tensors[TENSOR_V].elements = key_side;
    plan->tensors[TENSOR_S].elements = matrix;
    plan->tensors[TENSOR_P].elements = matrix;
    plan->tensors[TENSOR_S].temporary = true;
    plan->tensors[TENSOR_P].temporary = true;
    // END 3

    // GAP 4: the passes in their order: the scores (scaled as they are written), the cap and the
    // mask where asked for (each reads and writes S once), the softmax, the weighted sum.
    // next_pass(plan, "scores")->reads[TENSOR_Q] = 1; is a beginning.
    Pass *scores = next_pass(plan, "scores");
    scores->reads[TENSOR_Q] = 1;
    scores->reads[TENSOR_K] = 1;
    scores->writes[TENSOR_S] = 1;
    const bool changes[] = {attention->cap, attention->mask};
    for (int i = 0; i < 2; i++) {
        if (changes[i]) {
            Pass *change = next_pass(plan, i == 0 ? "cap" : "mask");
            change->reads[TENSOR_S] = 1;
            change->writes[TENSOR_S] = 1;
        }
    }
    const int weights = attention->in_place ? TENSOR_S : TENSOR_P;
    Pass *softmax = next_pass(plan, "softmax");
    softmax->reads[TENSOR_S] = 1;
    softmax->writes[weights] = 1;
    Pass *sum = next_pass(plan, "weighted sum");
    sum->reads[weights] = 1;
    sum->reads[TENSOR_V] = 1;
    sum->writes[TENSOR_O] = 1;
    // END 4
}
