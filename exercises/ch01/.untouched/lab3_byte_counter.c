// Lab 3: what a list of passes over tensors moves, and how much memory it needs on the way.
//
// The chapter counts naive attention by hand. Here a program counts any list of passes, and you
// describe attention to it, with more passes than the chapter has. The rules are in labs.h.
#include "labs.h"

void plan_traffic(const PassPlan *plan, Traffic *traffic) {
    for (int t = 0; t < plan->tensor_count; t++) {
        traffic[t] = (Traffic){0, 0};
        // TODO 1: add up what every pass reads and writes of tensor t, in bytes, over all repeats.
        // A tensor may have 2^34 elements and more: nothing here fits in 32 bits.
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
            // TODO 2: add tensor t to alive if it is a temporary that exists during pass p. It need
            // not be touched by pass p itself: an earlier and a later pass may both touch it.
            (void)touches, (void)alive;
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

    // TODO 3: the elements of the six tensors, for all heads of a layer, and which are temporary.
    // END 3

    // TODO 4: the passes in their order: the scores (scaled as they are written), the cap and the
    // mask where asked for (each reads and writes S once), the softmax, the weighted sum.
    // next_pass(plan, "scores")->reads[TENSOR_Q] = 1; is a beginning.
    (void)next_pass;
    // END 4
}
